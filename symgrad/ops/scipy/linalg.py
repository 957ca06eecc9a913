"""scipy.linalg: solving, spectra and special matrices.

What NumPy has with the same meaning is written with np.linalg, which takes stacks. Arguments that only say how to
compute (`overwrite_a`, `check_finite`, `driver`) change nothing. Derivatives as in `symgrad.ops.linalg`.
"""

from functools import partial

import numpy as np
from scipy import linalg

from symgrad.core.axes import lettered
from symgrad.errors import ArgumentError, DTypeError, UnsupportedError
from symgrad.ops.arguments import refuse_given
from symgrad.ops.contract import fits, transposed
from symgrad.ops.define import implements_at, operator, refuses_at
from symgrad.ops.elementwise import conjugate
from symgrad.ops.linalg import flow_solve, of_matrix, vjp_eigh, work
from symgrad.ops.lstsq import infer_lstsq, vjp_lstsq, vjp_pinv
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.scipy import banded, matrix_functions  # noqa: F401  their entries belong to scipy.linalg, too
from symgrad.ops.scipy.convert import double
from symgrad.ops.scipy.triangular import PACKAGE, SOLVE_TRIANGULAR, by_columns, triangle
from symgrad.spelling import Code

# ---- solve, inv, det


def _symmetric(a, lower, hermitian=True):
    """The matrix of which one triangle is read."""
    read, rest = (np.tril(a), np.tril(a, -1)) if lower else (np.triu(a), np.triu(a, 1))
    if hermitian and a.dtype.kind == "c":  # the imaginary part of whose diagonal is not read either
        read = np.where(np.eye(a.shape[-1], dtype=bool, like=a), np.real(a), read)
    return read + (np.conjugate(transposed(rest)) if hermitian else transposed(rest))


def _with_structure(function, a, structure, lower):
    """The matrix that is meant: of one that is said to have a structure, SciPy reads no more than that."""
    structure = structure or "general"
    if structure in ("general", "gen", "banded"):
        return a
    if structure in ("symmetric", "sym", "hermitian", "her", "positive definite", "pos"):
        return _symmetric(a, lower, structure not in ("symmetric", "sym"))
    if structure == "diagonal":
        return np.tril(np.triu(a))
    if structure == "tridiagonal":
        return np.tril(np.triu(a, -1), 1)
    if structure in ("lower triangular", "upper triangular"):
        return triangle(a, structure == "lower triangular")
    raise UnsupportedError(f"{PACKAGE}.{function}: assume_a={structure!r} is not supported", "Leave assume_a= out.")


@implements_at(linalg, "solve")
def solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None, transposed=False):
    a = _with_structure("solve", as_input(a), assume_a, lower)
    return by_columns(np.linalg.solve, np.swapaxes(a, -1, -2) if transposed else a, b)


@implements_at(linalg, "inv")
def inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    return np.linalg.inv(_with_structure("inv", as_input(a), assume_a, lower))


implements_at(linalg, "det")(lambda a, overwrite_a=False, check_finite=True: np.linalg.det(double(a)))


@implements_at(linalg, "norm")
def norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    a = as_input(a)
    whole = axis is None and not keepdims and (ord in (None, 2) if a.ndim == 1 else a.ndim == 2 and ord not in (2, -2))
    return np.linalg.norm(double(a) if whole else a, ord, axis, keepdims)


_PINV = operator(
    linalg.pinv,
    infer=lambda a: of_matrix("pinv", "mn->nm", a),
    vjp=vjp_pinv,
    signature=lettered("...__->...__"),
    package=PACKAGE,
    refuses=True,
)
"""SciPy's own, which takes other singular values for zero than NumPy's."""


@implements_at(linalg, "pinv")
def pinv(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    refuse_given("pinv", PACKAGE, atol=atol, rtol=rtol, return_rank=bool(return_rank))
    return _PINV(a)


_LSTSQ = operator(
    lambda a, b: linalg.lstsq(a, b)[0],
    name="lstsq",
    arrays=2,
    infer=infer_lstsq,
    vjp=vjp_lstsq,
    signature=flow_solve,
    spell=lambda node, a, b: Code(f"scipy.linalg.lstsq({a.text}, {b.text})[0]"),
    package=PACKAGE,
    refuses=True,
)


@implements_at(linalg, "lstsq")
def lstsq(a, b, cond=None, overwrite_a=False, overwrite_b=False, check_finite=True, lapack_driver=None):
    """The residuals are those of a matrix of full rank; SciPy leaves them out where the rank is lower."""
    refuse_given("lstsq", PACKAGE, cond=cond)
    a, b = as_input(a), as_input(b)
    x, s = _LSTSQ(a, b), np.linalg.svdvals(a)
    residual = b - a @ x
    squares = np.sum(np.real(residual * conjugate(residual)), axis=0)
    squares = squares if a.shape[0] > a.shape[1] else np.zeros_like(np.real(x), shape=(0,))
    return x, squares, np.count_nonzero(s > np.finfo(s.dtype).eps * s[0]), s


# ---- spectra


_EIGH = operator(
    linalg.eigh,
    infer=lambda a, lower=True: of_matrix("eigh", "nn->n,nn", a, PACKAGE),
    vjp=lambda g, y, a, lower: vjp_eigh(g, y, a, "L" if lower else "U"),
    flops=lambda y, a, lower: work(a, 9),
    signature=lettered("...__->..._"),
    singular=True,
    package=PACKAGE,
    refuses=True,
)
"""SciPy's own, since the signs of the vectors are not NumPy's."""


@implements_at(linalg, "eigh")
def eigh(
    a,
    b=None,
    *,
    lower=True,
    eigvals_only=False,
    overwrite_a=False,
    overwrite_b=False,
    type=1,
    check_finite=True,
    subset_by_index=None,
    subset_by_value=None,
    driver=None,
):
    refuse_given("eigh", PACKAGE, subset_by_value=subset_by_value)
    a, lower = as_input(a), bool(lower)
    root = None if b is None else np.linalg.cholesky(_symmetric(as_input(b), lower))
    if root is not None:
        if "c" in (a.dtype.kind, root.dtype.kind):
            raise DTypeError(
                f"{PACKAGE}.eigh of a pencil of complex matrices is not supported",
                "Reduce it: with L = cholesky(b) solve for inv(L) @ a @ inv(L).conj().T.",
            )
        a, lower = _reduced(_symmetric(a, lower), root, type), True
    chosen = slice(None) if subset_by_index is None else slice(subset_by_index[0], subset_by_index[1] + 1)
    if eigvals_only:
        return np.linalg.eigvalsh(a, "L" if lower else "U")[..., chosen]
    w, v = _EIGH(a, lower=lower)
    if root is not None:
        v = root @ v if type == 3 else SOLVE_TRIANGULAR(root, v, trans=1, lower=True)
    return w[..., chosen], v[..., chosen]


def _reduced(a, root, kind):
    """The symmetric matrix with the eigenvalues of a pencil whose second matrix is ``root @ root.T``."""
    if kind != 1:
        return transposed(root) @ a @ root
    half = SOLVE_TRIANGULAR(root, a, lower=True)
    return SOLVE_TRIANGULAR(root, transposed(half), lower=True)


implements_at(linalg, "eigvalsh")(partial(eigh, eigvals_only=True))


@implements_at(linalg, "svd")
def svd(a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    result = np.linalg.svd(as_input(a), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(result) if compute_uv else result


implements_at(linalg, "svdvals")(lambda a, overwrite_a=False, check_finite=True: np.linalg.svdvals(as_input(a)))


@implements_at(linalg, "qr")
def qr(a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    refuse_given("qr", PACKAGE, pivoting=bool(pivoting))
    a = as_input(a)
    if mode not in ("full", "r", "economic"):
        raise UnsupportedError(f"{PACKAGE}.qr: mode={mode!r} is not supported", "Pass mode='economic'.")
    if mode != "economic" and not fits(a.shape[-1], a.shape[-2]):
        raise UnsupportedError(
            f"{PACKAGE}.qr: the vectors that mode={mode!r} adds to those of a matrix of shape {a.shape} are not "
            "determined by it",
            "Pass mode='economic'.",
        )
    q, r = np.linalg.qr(a)
    return (r,) if mode == "r" else (q, r)


# ---- matrices that repeat what they are given


def _vector(function, x):
    x = as_input(x)
    if np.ndim(x) > 1:
        raise UnsupportedError(
            f"{PACKAGE}.{function} of an array of {np.ndim(x)} dimensions is not supported",
            "Write a loop over the matrices.",
        )
    return np.reshape(x, (-1,))


@implements_at(linalg, "toeplitz")
def toeplitz(c, r=None):
    c = _vector("toeplitz", c)
    r = np.conjugate(c) if r is None else _vector("toeplitz", r)
    m, n = c.shape[0], r.shape[0]
    numbers = np.concatenate([c[::-1], r[1:]])
    return np.take(numbers, m - 1 - np.arange(m, like=numbers)[:, None] + np.arange(n, like=numbers))


@implements_at(linalg, "circulant")
def circulant(c):
    c = _vector("circulant", c)
    return toeplitz(c, np.concatenate([c[:1], c[:0:-1]]))


@implements_at(linalg, "hankel")
def hankel(c, r=None):
    c = _vector("hankel", c)
    r = np.zeros_like(c) if r is None else _vector("hankel", r)
    m, n = c.shape[0], r.shape[0]
    numbers = np.concatenate([c, r[1:]])
    return np.take(numbers, np.arange(m, like=numbers)[:, None] + np.arange(n, like=numbers))


@implements_at(linalg, "block_diag")
def block_diag(*arrs):
    blocks = [np.atleast_2d(as_input(a)) for a in arrs]
    for a in blocks:
        if a.ndim > 2:
            raise UnsupportedError(
                f"{PACKAGE}.block_diag of an array of {a.ndim} dimensions is not supported",
                "Give matrices, or write a loop over them.",
            )
    dtype, width = np.result_type(*blocks), sum(a.shape[1] for a in blocks)
    rows, start = [], 0
    for a in blocks:
        left, right = ((a.shape[0], n) for n in (start, width - start - a.shape[1]))
        like = next(filter(is_traced, blocks))
        rows.append(np.concatenate([np.zeros(left, dtype, like=like), a, np.zeros(right, dtype, like=like)], axis=1))
        start = start + a.shape[1]
    return np.concatenate(rows)


@implements_at(linalg, "solve_toeplitz")
def solve_toeplitz(c_or_cr, b, check_finite=True):
    matrix = toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)
    return by_columns(np.linalg.solve, double(matrix), b)


@implements_at(linalg, "solve_circulant")
def solve_circulant(c, b, singular="raise", tol=None, caxis=-1, baxis=0, outaxis=0):
    refuse_given("solve_circulant", PACKAGE, tol=tol)
    c, b = as_input(c), as_input(b)
    if c.ndim != 1 or baxis not in (0, -b.ndim) or outaxis not in (0, -b.ndim) or singular != "raise":
        raise UnsupportedError(
            f"{PACKAGE}.solve_circulant with other axes, several matrices or singular= is not supported",
            f"Write {PACKAGE}.solve({PACKAGE}.circulant(c), b).",
        )
    return by_columns(np.linalg.solve, circulant(c), b)


@implements_at(linalg, "matmul_toeplitz")
def matmul_toeplitz(c_or_cr, x, check_finite=False, workers=None):
    matrix = toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)
    return double(matrix) @ as_input(x)


# ---- matrix equations and functions that are written with others


@implements_at(linalg, "solve_continuous_lyapunov", "solve_lyapunov")
def solve_continuous_lyapunov(a, q):
    a = as_input(a)
    return linalg.solve_sylvester(a, np.conjugate(transposed(a)), q)


def _cosine_and_sine(a):
    """Read from the exponential of a matrix twice as large, which stays real."""
    a = as_input(a)
    n = a.shape[-1]
    zero = np.zeros_like(a)
    turned = np.concatenate([np.concatenate([zero, -a], -1), np.concatenate([a, zero], -1)], -2)
    y = linalg.expm(turned)
    return y[..., :n, :n], y[..., n:, :n]


implements_at(linalg, "cosm")(lambda A: _cosine_and_sine(A)[0])
implements_at(linalg, "sinm")(lambda A: _cosine_and_sine(A)[1])


@implements_at(linalg, "tanm")
def tanm(A):
    cosine, sine = _cosine_and_sine(A)
    return np.linalg.solve(cosine, sine)


implements_at(linalg, "coshm")(lambda A: (linalg.expm(A) + linalg.expm(-as_input(A))) / 2)
implements_at(linalg, "sinhm")(lambda A: (linalg.expm(A) - linalg.expm(-as_input(A))) / 2)


@implements_at(linalg, "tanhm")
def tanhm(A):
    up, down = linalg.expm(A), linalg.expm(-as_input(A))
    return np.linalg.solve(up + down, up - down)


@implements_at(linalg, "solve_discrete_lyapunov")
def solve_discrete_lyapunov(a, q, method=None):
    """Solve one linear system, as SciPy does for small matrices; its other method has the same solution."""
    a, q = as_input(a), as_input(q)
    n = a.shape[0]
    system = np.eye(n * n, like=a) - np.kron(a, np.conjugate(a))
    return np.reshape(np.linalg.solve(system, np.ravel(q)), q.shape)


@implements_at(linalg, "polar")
def polar(a, side="right"):
    u, s, vt = np.linalg.svd(as_input(a), full_matrices=False)
    if side not in ("right", "left"):
        raise ArgumentError(f"{PACKAGE}.polar: side={side!r}", "Write side='right' or side='left'.")
    half = np.conjugate(transposed(vt)) if side == "right" else u
    return u @ vt, (half * s[..., None, :]) @ np.conjugate(transposed(half))


@implements_at(linalg, "convolution_matrix")
def convolution_matrix(a, n, mode="full"):
    a, n = _vector("convolution_matrix", a), int(n)
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"{PACKAGE}.convolution_matrix: mode={mode!r}", "Write 'full', 'same' or 'valid'.")
    whole = toeplitz(np.pad(a, (0, n - 1)), np.pad(a[:1], (0, n - 1)))
    cut = 0 if mode == "full" else min(n, int(a.shape[0])) - 1
    first = cut // 2 if mode == "same" else cut
    last = cut - first if mode == "same" else cut
    return whole[first : int(whole.shape[0]) - last]


@implements_at(linalg, "companion")
def companion(a):
    a = _vector("companion", a)
    first = -a[1:] / a[0]
    n = first.shape[0]
    return np.concatenate([first[None], np.eye(n - 1, n, dtype=first.dtype, like=first)])


# ---- what is refused


_refuses = partial(refuses_at, linalg)
_refuses(
    "{} is not supported: values decide whether its results are complex",
    "Use scipy.linalg.eigh or eigvalsh for a symmetric matrix.",
    "eig eigvals schur hessenberg qz ordqz cdf2rdf rsf2csf",
)
_refuses(
    "{} is not supported",
    "Write scipy.linalg.eigh of the whole matrix: np.diag(d) + np.diag(e, -1) has these diagonals.",
    "eigh_tridiagonal eig_banded eigvals_banded",
)
_refuses(
    "{} is not supported: the rank, and so the size of the result, depends on values",
    "Take columns of the vectors of np.linalg.svd, whose number is known.",
    "orth null_space",
)
_refuses(
    "{} is not supported: values decide its result, which has no derivative",
    "Call it outside of the function, with numbers.",
    "bandwidth issymmetric ishermitian matrix_balance expm_cond get_blas_funcs get_lapack_funcs find_best_blas_type",
)
_refuses(
    "{} has no derivative by a formula that symgrad knows",
    "Write it with solve, qr, svd or cholesky, or give it to symgrad.operator with its derivative.",
    """cossin ldl rq qr_delete qr_insert qr_multiply qr_update cholesky_banded cho_solve_banded funm signm pinvh
    fractional_matrix_power orthogonal_procrustes subspace_angles solve_continuous_are solve_discrete_are
    clarkson_woodruff_transform diagsvd leslie fiedler_companion""",
)
_refuses(
    "{} takes integers, which have no derivative",
    "Call it with numbers, outside of the function or in it.",
    "dft hadamard helmert hilbert invhilbert pascal invpascal",
)
