"""scipy.stats.multivariate_normal: the density, by the Cholesky factor of the covariance."""

import numpy as np
from scipy import stats

from symgrad.core.shapes import is_one
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import check_ndim, refuse_given
from symgrad.ops.contract import fits
from symgrad.ops.define import implements_at
from symgrad.ops.operands import is_traced
from symgrad.ops.scipy.convert import double
from symgrad.ops.scipy.distributions import LOG_SQRT_2PI
from symgrad.ops.scipy.triangular import SOLVE_TRIANGULAR

NAME = "multivariate_normal"


def _parameters(mean, cov, allow_singular):
    """Mean, lower factor of the covariance and the number of dimensions."""
    refuse_given(NAME, "scipy.stats", allow_singular=bool(allow_singular))
    if isinstance(cov, stats.Covariance):
        raise UnsupportedError(f"scipy.stats.{NAME} with a Covariance object is not supported", "Give the matrix.")
    cov = double(1.0 if cov is None else cov)
    mean = None if mean is None else double(mean)
    dim = (cov.shape[0] if cov.ndim == 2 else 1) if mean is None else mean.size
    check_ndim(f"scipy.stats.{NAME}: mean", mean, 0, 1, "Write mean.ravel().")
    if cov.ndim > 2 or (cov.ndim == 2 and not fits(*cov.shape)):
        raise ShapeError(
            f"scipy.stats.{NAME}: a covariance of shape {cov.shape}, and it must be a square matrix",
            "Write np.diag(variances), or variance * np.eye(n).",
        )
    if cov.ndim < 2:
        like = next(filter(is_traced, (cov, mean)), None)
        cov = cov * np.eye(dim, like=like)  # of one number, or of the numbers of a diagonal
    mean = 0.0 if mean is None else np.reshape(mean, (-1,))
    return mean, np.linalg.cholesky(cov), dim


def _log_density(x, mean, factor, dim):
    x = double(x)
    x = np.reshape(x, (1,)) if x.ndim == 0 else x[:, None] if x.ndim == 1 and is_one(dim) else x
    deviation = np.reshape(x - mean, (-1, dim))
    whitened = SOLVE_TRIANGULAR(factor, deviation.T, lower=True)
    log_volume = np.sum(np.log(np.diagonal(factor))) + dim * LOG_SQRT_2PI
    y = -0.5 * np.sum(whitened * whitened, axis=0) - log_volume
    return np.reshape(y, tuple(n for n in np.shape(x)[:-1] if not is_one(n)))


class Frozen:
    """A multivariate normal distribution whose mean or covariance is traced."""

    def __init__(self, mean, cov, allow_singular):
        self._fixed = _parameters(mean, cov, allow_singular)

    def logpdf(self, x):
        return _log_density(x, *self._fixed)

    def pdf(self, x):
        return np.exp(self.logpdf(x))

    def __getattr__(self, name):
        raise UnsupportedError(
            f"scipy.stats.{NAME}(mean, cov).{name} of a traced mean or covariance is not supported",
            f"Call scipy.stats.{NAME}.{name}(x, mean, cov) where it is one of logpdf and pdf.",
        )


_CLASS = type(stats.multivariate_normal)


@implements_at(_CLASS, "__call__")
def _freeze(self, mean=None, cov=1, allow_singular=False, seed=None, **kwds):
    return Frozen(mean, cov, allow_singular)


@implements_at(_CLASS, "logpdf")
def _logpdf(self, x, mean=None, cov=1, allow_singular=False):
    return _log_density(x, *_parameters(mean, cov, allow_singular))


@implements_at(_CLASS, "pdf")
def _pdf(self, x, mean=None, cov=1, allow_singular=False):
    return np.exp(_logpdf(self, x, mean, cov, allow_singular))


@implements_at(type(stats.multivariate_normal()), "logpdf")
def _frozen_logpdf(self, x):
    """Return the log density for a distribution that was frozen with constants."""
    return _log_density(x, *_parameters(self.mean, self.cov_object.covariance, self.allow_singular))


@implements_at(type(stats.multivariate_normal()), "pdf")
def _frozen_pdf(self, x):
    return np.exp(_frozen_logpdf(self, x))
