"""scipy.linalg: functions of matrices.

N. Higham, *Functions of Matrices: Theory and Computation*, 2008. The derivative of a function f at A in the direction E
is the block of f([[A, E], [0, A]]) in the corner (theorem 3.6), and its pullback is that at A.T.
"""

import numpy as np
import scipy.linalg
from scipy import linalg

from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.errors import ShapeError
from symgrad.ops.arguments import refuse
from symgrad.ops.contract import broadcast_batch, fits, transposed
from symgrad.ops.define import implements_at, operator
from symgrad.ops.linalg import check_matrix, float_dtype, of_matrix, work
from symgrad.ops.scipy.convert import double
from symgrad.spelling import call

PACKAGE = "scipy.linalg"


def _function(evaluate, name, pulled_back, times, **facts):
    """The operator of a function of a matrix, which takes so many times n cubed operations."""
    return operator(
        evaluate,
        name=name,
        infer=lambda a: of_matrix(name, "nn->nn", a, PACKAGE),
        vjp=lambda g, y, a: (pulled_back(g, y, a),),
        flops=lambda y, a: times * work(a, 1),
        signature=lettered("...__->...__"),
        package=PACKAGE,
        **facts,
    )


# ---- derivatives in a direction


def _block(a, e):
    """``[[a, e], [0, a]]``."""
    a, e = np.broadcast_arrays(a, e)
    above = np.concatenate([a, e], axis=-1)
    return np.concatenate([above, np.concatenate([np.zeros_like(a), a], axis=-1)], axis=-2)


def _direction(evaluate, name, **facts):
    """The operator of a derivative at a matrix in a direction, in which it is linear."""

    def infer(a, e):
        for x in (a, e):
            check_matrix(name, x, package=PACKAGE)
        dtype = np.result_type(float_dtype(name, a, e, package=PACKAGE), np.float64)
        return Aval(broadcast_batch(name, a.shape, e.shape, package=PACKAGE), dtype)

    def vjp(g, y, a, e):
        """The result is the corner of a function of a block, which is pulled back as the function itself is."""
        n = a.shape[-1]
        back = op(transposed(_block(a, e)), _block(np.zeros_like(g), g))
        return back[..., :n, :n] + back[..., n:, n:], op(transposed(a), g)

    op = operator(
        evaluate,
        name=name,
        arrays=2,
        infer=infer,
        vjp=vjp,
        flops=lambda y, a, e: 60 * work(y, 1),
        signature=lettered("...__,...__->...__"),
        package=PACKAGE,
        **facts,
    )
    return op


# ---- the exponential

EXPM_FRECHET = _direction(
    lambda a, e: linalg.expm_frechet(a, e, compute_expm=False),
    "expm_frechet",
    spell=lambda node, a, e: call("scipy.linalg.expm_frechet", [a.text, e.text, "compute_expm=False"]),
)

EXPM = _function(linalg.expm, "expm", lambda g, y, a: EXPM_FRECHET(transposed(a), g), times=20)
implements_at(linalg, "expm")(EXPM)


@implements_at(linalg, "expm_frechet")
def expm_frechet(A, E, method=None, compute_expm=True, check_finite=True):
    if method not in (None, "SPS", "blockEnlarge"):
        refuse("expm_frechet", "method", PACKAGE)
    derivative = EXPM_FRECHET(A, E)
    return (EXPM(double(A)), derivative) if compute_expm else derivative


# ---- the logarithm and the square root, of matrices that have real ones


def _real_logm(a):
    """The principal logarithm; of a real matrix it is real unless an eigenvalue is negative."""
    y = scipy.linalg.logm(a)
    if np.iscomplexobj(y) and not np.iscomplexobj(a):
        raise np.linalg.LinAlgError("logm: the matrix has a negative eigenvalue, and no real logarithm")
    return y


def _logm_frechet(a, e):
    """The derivative of the logarithm at a in the direction e: a block of the logarithm of [[a, e], [0, a]]."""
    a, e = np.broadcast_arrays(a, e)
    n = a.shape[-1]
    return _real_logm(np.block([[a, e], [np.zeros_like(a), a]]))[..., :n, n:]


def _real_sqrtm(a):
    """The principal square root; of a real matrix it is real unless an eigenvalue is negative."""
    y = scipy.linalg.sqrtm(a)
    if np.iscomplexobj(y) and not np.iscomplexobj(a):
        raise np.linalg.LinAlgError("sqrtm: the matrix has a negative eigenvalue, and no real square root")
    return y


LOGM_FRECHET = _direction(_logm_frechet, "logm_frechet", singular=True, written=True)
LOGM = _function(
    _real_logm,
    "logm",
    lambda g, y, a: LOGM_FRECHET(transposed(a), g),
    times=50,
    singular=True,
    written=True,
)
SQRTM = _function(
    _real_sqrtm,
    "sqrtm",
    lambda g, y, a: SOLVE_SYLVESTER(transposed(y), transposed(y), g),
    times=30,
    singular=True,
    written=True,
)


@implements_at(linalg, "logm")
def logm(A, disp=True):
    if disp is False:
        refuse("logm", "disp", PACKAGE)
    return LOGM(double(A))


@implements_at(linalg, "sqrtm")
def sqrtm(A, disp=True, blocksize=None):
    if disp is False:
        refuse("sqrtm", "disp", PACKAGE)
    return SQRTM(A)


# ---- a x + x b = q


def _infer_sylvester(a, b, q):
    for x in (a, b):
        check_matrix("solve_sylvester", x, package=PACKAGE)
    dtype = float_dtype("solve_sylvester", a, b, q, package=PACKAGE)
    if q.ndim < 2 or not (fits(q.shape[-2], a.shape[-1]) and fits(q.shape[-1], b.shape[-1])):
        raise ShapeError(
            f"{PACKAGE}.solve_sylvester: {a}, {b} and the right-hand side {q} do not fit",
            "In a x + x b = q, q has the rows of a and the columns of b.",
        )
    batch = broadcast_batch("solve_sylvester", *[x.shape[:-2] for x in (a, b, q)], package=PACKAGE)
    return Aval((*batch, *q.shape[-2:]), dtype)


def _vjp_sylvester(g, y, a, b, q):
    gq = SOLVE_SYLVESTER(transposed(a), transposed(b), g)
    return -gq @ transposed(y), -transposed(y) @ gq, gq


SOLVE_SYLVESTER = operator(
    linalg.solve_sylvester,
    arrays=3,
    infer=_infer_sylvester,
    vjp=_vjp_sylvester,
    flops=lambda y, a, b, q: 25 * (work(a, 1) + work(b, 1)),
    signature=lettered("...__,...__,...__->...__"),
    singular=True,
    package=PACKAGE,
)


implements_at(linalg, "solve_sylvester")(SOLVE_SYLVESTER)
