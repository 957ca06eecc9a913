"""scipy.stats: densities of several variables, the normal one by the Cholesky factor of the covariance."""

import numpy as np
from scipy import special, stats

from symgrad.core.shapes import is_one
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import check_ndim, refuse_given
from symgrad.ops.contract import fits
from symgrad.ops.define import Refused, implements_at
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


# ---- others


_DIRICHLET = type(stats.dirichlet)


@implements_at(_DIRICHLET, "logpdf")
def _log_dirichlet(self, x, alpha):
    x, alpha = double(x), double(alpha)
    check_ndim("scipy.stats.dirichlet: alpha", alpha, 1, 1, "Write alpha.ravel().")
    if not fits(x.shape[0], alpha.shape[0]):  # the last one is what is left of 1
        x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
    powers = special.xlogy(alpha - 1 if x.ndim == 1 else (alpha - 1)[:, None], x)
    return np.sum(powers, axis=0) + special.gammaln(np.sum(alpha)) - np.sum(special.gammaln(alpha))


implements_at(_DIRICHLET, "pdf")(lambda self, x, alpha: np.exp(_log_dirichlet(self, x, alpha)))

_REFUSED = {
    "multinomial": "gammaln(n + 1) + np.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)",
    "dirichlet_multinomial": "gammaln(sum(a)) + gammaln(n + 1) - gammaln(n + sum(a)) + np.sum(gammaln(x + a) "
    "- gammaln(a) - gammaln(x + 1), axis=-1)",
    "vonmises_fisher": "kappa * (x @ mu) and the logarithm of its constant, by ive(d / 2 - 1, kappa)",
    "invwishart": "it by np.linalg.slogdet, np.linalg.solve and multigammaln",
    "multivariate_hypergeom": "it with betaln: its counts have no derivative",
    "random_table": "it with gammaln: its counts have no derivative",
}
for _name, _formula in _REFUSED.items():
    for _method in ("logpdf", "pdf", "logpmf", "pmf"):
        if hasattr(getattr(stats, _name, None), _method):
            _fact = f"scipy.stats.{_name}.{_method} is not supported: values decide what SciPy computes"
            implements_at(type(getattr(stats, _name)), _method)(Refused(_fact, f"Write {_formula}."))
