"""np.linalg: solving, inverses, determinants and factorisations.

Derivatives: M. Giles, *Collected matrix derivative results for forward and reverse mode algorithmic differentiation*
(2008), unless an entry cites another source. Those of holomorphic functions hold for complex matrices as they are, with
transposes. The others are written with adjoints, for the gradient in the sense of ``Re(sum(conj(gradient) * da))``;
what comes in and goes out is its conjugate. A function that reads one triangle of its argument (`cholesky`, `eigh`)
has a derivative in that triangle and zeros in the other. That is what finite differences give, whether the argument is
symmetric by construction or holds anything in the part that is not read; of a Hermitian matrix the imaginary parts on
the diagonal are not read either.
"""

from functools import cache

import numpy as np

from symgrad.core import shapes
from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.core.sizes import is_negative, same, smallest
from symgrad.errors import DTypeError, NotDifferentiableError, ShapeError, UnsupportedError
from symgrad.ops.arguments import ANY, check_ndim, refuse, refuse_given
from symgrad.ops.contract import align, broadcast_batch, fits, transposed
from symgrad.ops.create import FULL
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import real_dtype
from symgrad.ops.elementwise import conjugate
from symgrad.ops.operands import as_input, is_traced
from symgrad.spelling import call

# ---- what the entries share


def float_dtype(name, *xs, package="np.linalg"):
    """The dtype that LAPACK works in: integers become float64, float16 is refused."""
    dtype = np.result_type(*[np.dtype(float) if x.dtype.kind in "biu" else x.dtype for x in xs])
    if dtype.char not in "fdFD":
        raise DTypeError(f"{package}.{name} does not take {dtype}", "Convert first: x.astype(np.float64).")
    return dtype


def check_matrix(name, a, square=True, package="np.linalg"):
    """Refuse what does not hold matrices, or square ones."""
    if a.ndim < 2 or (square and not fits(a.shape[-1], a.shape[-2])):
        raise ShapeError(
            f"{package}.{name}: {a} does not hold {'square ' * square}matrices",
            "The last two axes are the rows and columns of matrices: x[None] gives one more.",
        )


def of_matrix(name, text, a, package="np.linalg"):
    """Return the abstract results of a function of matrices by its axis signature, such as ``"mn->mk,k,kn"``.

    Letters are sizes, k is the smaller one of m and n; matrices nn are square. Vectors are of real numbers.
    """
    operand, results = text.split("->")
    check_matrix(name, a, operand == "nn", package)
    dtype, (m, n) = float_dtype(name, a, package=package), a.shape[-2:]
    sizes = {"m": m, "n": n, "k": smallest(m, n)} if operand == "mn" else {"n": n}
    avals = [
        Aval((*a.shape[:-2], *map(sizes.get, letters)), real_dtype(dtype) if len(letters) == 1 else dtype)
        for letters in results.split(",")
    ]
    return tuple(avals) if len(avals) > 1 else avals[0]


def with_right_hand_side(name, a, b, package="np.linalg"):
    """The solution for one vector, or for the columns of matrices."""
    check_matrix(name, a, package=package)
    dtype = float_dtype(name, a, b, package=package)
    check_ndim(f"{package}.{name}: the right-hand side {b}", b, 1, ANY, "Give a vector or a matrix.")
    if not fits(b.shape[0 if b.ndim == 1 else -2], a.shape[-1]):
        vectors = "A right-hand side of one vector a matrix is b[..., None]."
        instead = vectors if b.ndim > 1 else "Give as many numbers as the matrix has rows."
        raise ShapeError(f"{package}.{name}: {a} and the right-hand side {b} do not fit", instead)
    if b.ndim == 1:
        return Aval(a.shape[:-1], dtype)
    return Aval((*broadcast_batch(name, a.shape[:-2], b.shape[:-2], package=package), *b.shape[-2:]), dtype)


# Arithmetic operations: G. Golub and C. Van Loan, *Matrix Computations*, 4th ed., 2013, tables 5.5.1 and 8.6.1, and the
# sections of the factorisations; what has no exact number is theirs for the method that LAPACK uses.


def work(a, times, over=1):
    """So many times n cubed for each matrix, the lower powers left out."""
    return times * shapes.product(a.shape) * a.shape[-1] // over


def small(a):
    """The smaller size of each matrix, cubed."""
    n = smallest(a.shape[-1], a.shape[-2])
    return shapes.product(a.shape[:-2]) * n * n * n


def tall(a):
    """The larger size of each matrix times the square of the smaller."""
    return shapes.product(a.shape) * smallest(a.shape[-1], a.shape[-2])


def needed(g):
    """Whether a cotangent is more than the zeros that stand for a result without one."""
    if not is_traced(g) or g.node.op is not FULL:
        return True
    return g.node.inputs[0].constant != 0


def product(*matrices):
    result = matrices[0]
    for x in matrices[1:]:
        result = result @ x
    return result


def adjoint(x):
    return conjugate(transposed(x))


def read_below(p):
    """The cotangent of the lower triangle, which is all that is read, from the gradient by a Hermitian matrix."""
    return np.tril(p) + np.tril(transposed(p), -1) if p.dtype.kind != "c" else np.tril(_both_sides(p))


def read_above(p):
    return np.triu(p) + np.triu(transposed(p), 1) if p.dtype.kind != "c" else np.triu(_both_sides(p))


def _both_sides(p):
    """The cotangent of a triangle, whose numbers stand in the other one as well; that of the diagonal is real."""
    both = p + adjoint(p)
    return np.conjugate(np.where(np.eye(p.shape[-1], dtype=bool, like=p), 0.5 * both, both))


def as_named_tuple(results, function):
    """Results under the names that NumPy's own result has."""
    return _result_class(function)(*results)


@cache
def _result_class(function):
    return type(function(np.eye(1)))  # NumPy does not export these classes


# ---- solve and inv


def _vjp_solve(g, y, a, b):
    if b.ndim > 1:
        gb = np.linalg.solve(transposed(a), g)
        return -gb @ transposed(y), gb
    if a.ndim == 2:
        gb = np.linalg.solve(a.T, g)
        return -np.outer(gb, y), gb
    gb = np.linalg.solve(transposed(a), g[..., None])
    return -gb * y[..., None, :], gb[..., 0]


def in_columns(solve, b):
    """Solve for a batch of vectors or matrices as the columns of one matrix, with one factorisation."""
    if b.ndim == 2:
        return solve(b.T).T
    y = solve(np.reshape(np.swapaxes(b, 0, 1), (b.shape[1], -1)))
    return np.swapaxes(np.reshape(y, (y.shape[0], b.shape[0], b.shape[2])), 0, 1)


def batch_solver(solve, batched, a, b):
    """Vectors are columns, all of them of one matrix where there is one."""
    if not batched[0] and a.ndim == 2 and b.ndim <= 3:
        return in_columns(lambda b: solve(a, b), b)
    if b.ndim - batched[1] == 1:
        return solve(*align(batched, a, b[..., None]))[..., 0]
    return NotImplemented


_OF_VECTOR, _OF_COLUMNS = lettered("...__,_->..._"), lettered("...__,..._n->..._n")


def flow_solve(y, a, b):
    """Right-hand sides are independent."""
    return _OF_VECTOR(y, a, b) if b.ndim == 1 else _OF_COLUMNS(y, a, b)


SOLVE = operator(
    np.linalg.solve,
    arrays=2,
    infer=lambda a, b: with_right_hand_side("solve", a, b),
    vjp=_vjp_solve,
    batch=lambda batched, a, b: batch_solver(np.linalg.solve, batched, a, b) if batched[1] else NotImplemented,
    flops=lambda y, a, b: work(a, 2, 3) + 2 * a.shape[-1] * shapes.product(y.shape),
    signature=flow_solve,
    refuses=True,
)


def is_of_two(a):
    """Whether a value is one matrix of two rows, with which Python computes faster than NumPy calls LAPACK."""
    return shapes.same_shape(a.aval.shape, (2, 2)) and a.aval.dtype == np.float64


INV = operator(
    np.linalg.inv,
    infer=lambda a: of_matrix("inv", "nn->nn", a),
    vjp=lambda g, y, a: (-product(transposed(y), g, transposed(y)),),
    quick=lambda node, a: call("_inverse", [a.text]) if is_of_two(node) else None,
    flops=lambda y, a: work(a, 2),
    signature=lettered("...__->...__"),
    refuses=True,
)

# ---- Cholesky


def _vjp_cholesky(g, y, a, upper):
    """I. Murray, *Differentiation of the Cholesky decomposition* (2016)."""
    g = conjugate(g)
    inner, u = (g @ adjoint(y), y) if upper else (adjoint(g) @ y, adjoint(y))
    half = 0.5 * (np.triu(inner) + np.triu(inner, 1))  # the upper triangle with half of the diagonal
    p = np.linalg.solve(u, adjoint(np.linalg.solve(u, adjoint(half))))
    return (read_above(p) if upper else read_below(p),)


CHOLESKY = operator(
    np.linalg.cholesky,
    infer=lambda a, upper=False: of_matrix("cholesky", "nn->nn", a),
    bind=lambda a, /, *, upper=False: ((as_input(a),), {"upper": bool(upper)}),
    vjp=_vjp_cholesky,
    flops=lambda y, a, upper: work(a, 1, 3),
    signature=lettered("...__->...__"),
    refuses=True,
)


# ---- symmetric eigenvalues


def vjp_eigh(g, y, a, UPLO):
    """Infinite or NaN where eigenvalues coincide and the vectors matter: there it does not exist."""
    (dw, dv), (w, v) = g, y
    read = read_below if UPLO == "L" else read_above
    if not needed(dv):
        return (read((v * dw[..., None, :]) @ adjoint(v)),)
    dv = conjugate(dv) if a.dtype.kind != "c" else _with_phase(np.conjugate(dv), v, 0 if UPLO == "L" else -1)
    eye = np.eye(a.shape[-1], dtype=bool, like=w)
    gaps = np.where(eye, 1, w[..., None, :] - w[..., :, None])
    inner = np.where(eye, dw[..., None, :], adjoint(v) @ dv / gaps)
    return (read(product(v, inner, adjoint(v))),)


def _with_phase(dv, v, row):
    """The gradient by eigenvectors whose phase is free, from that by those that LAPACK gives: one row of these is real.

    Of a vector that is zero there the phase is taken for free.
    """
    turns = np.sum(np.imag(np.conjugate(dv) * v), axis=-2)
    real = np.real(v[..., row, :])
    fixed = np.copy(dv)
    fixed[..., row, :] += 1j * np.where(real == 0, 0, turns / np.where(real == 0, 1, real))
    return fixed


def _bind_eigh(a, UPLO="L"):
    if UPLO not in ("L", "U", "l", "u"):
        raise UnsupportedError(
            f"np.linalg.eigh and eigvalsh: UPLO={UPLO!r} is neither 'L' nor 'U'", "Write UPLO='L' or UPLO='U'."
        )
    return (as_input(a),), {"UPLO": UPLO.upper()}


EIGH = operator(
    np.linalg.eigh,
    infer=lambda a, UPLO="L": of_matrix("eigh", "nn->n,nn", a),
    bind=_bind_eigh,
    vjp=vjp_eigh,
    flops=lambda y, a, UPLO: work(a, 9),
    signature=lettered("...__->..._"),
    singular=True,
    refuses=True,
)


def _vjp_eigvalsh(g, y, a, UPLO):
    v = EIGH(a, UPLO=UPLO)[1]
    return ((read_below if UPLO == "L" else read_above)((v * g[..., None, :]) @ adjoint(v)),)


EIGVALSH = operator(
    np.linalg.eigvalsh,
    infer=lambda a, UPLO="L": of_matrix("eigvalsh", "nn->n", a),
    bind=_bind_eigh,
    vjp=_vjp_eigvalsh,
    flops=lambda y, a, UPLO: work(a, 4, 3),
    signature=lettered("...__->..._"),
    refuses=True,
)


implements(np.linalg.eigh)(lambda a, UPLO="L": as_named_tuple(EIGH(a, UPLO), np.linalg.eigh))


# ---- eigenvalues of any matrix


def _of_complex(name, text, a):
    """Refuse a real matrix, of which values decide whether its eigenvalues are complex."""
    if a.dtype.kind != "c":
        raise UnsupportedError(
            f"np.linalg.{name} of a real matrix: values decide whether its results are complex",
            f"Write np.linalg.{name}(a + 0j), or use np.linalg.eigh or np.linalg.eigvalsh for a symmetric matrix.",
        )
    found = of_matrix(name, text, a)
    return found._replace(dtype=a.dtype) if isinstance(found, Aval) else tuple(x._replace(dtype=a.dtype) for x in found)


def _vjp_eig(g, y, a):
    """Infinite or NaN where eigenvalues coincide and the vectors matter: there it does not exist."""
    (dw, dv), (_, v) = g, y
    inner = np.eye(a.shape[-1], dtype=a.dtype, like=a) * dw[..., None, :]
    return (_from_eigenbasis(inner + _of_vectors(dv, y) if needed(dv) else inner, v),)


def _from_eigenbasis(inner, v):
    """Return the gradient of a function of ``inv(v) @ a @ v``, which is `inner`."""
    return product(transposed(np.linalg.inv(v)), inner, transposed(v))


def _of_vectors(dv, y):
    """Return the gradient by ``inv(v) @ da @ v`` of a function of eigenvectors.

    To first order these are ``v @ (da / gaps)``. LAPACK scales them to length one, and their largest number is real.
    """
    w, v = y
    gradient, n = np.conjugate(dv), v.shape[-1]
    scales = np.sum(np.conjugate(gradient) * v, axis=-2)[..., None, :]
    is_real = np.arange(n, like=v)[:, None] == np.argmax(np.abs(v), axis=-2)[..., None, :]
    turned = np.where(is_real, np.imag(scales) / np.where(is_real, np.real(v), 1), 0)
    gradient = gradient - v * np.real(scales) + 1j * turned
    eye = np.eye(n, dtype=bool, like=v)
    gaps = np.where(eye, 1, w[..., None, :] - w[..., :, None])
    return np.where(eye, 0, transposed(v) @ np.conjugate(gradient) / gaps)


EIG = operator(
    np.linalg.eig,
    infer=lambda a: _of_complex("eig", "nn->n,nn", a),
    vjp=_vjp_eig,
    flops=lambda y, a: work(a, 25),
    signature=lettered("...__->..._"),
    singular=True,
    refuses=True,
)

EIGVALS = operator(
    np.linalg.eigvals,
    infer=lambda a: _of_complex("eigvals", "nn->n", a),
    vjp=lambda g, y, a: (_from_eigenbasis(np.eye(a.shape[-1], dtype=a.dtype, like=a) * g[..., None, :], EIG(a)[1]),),
    flops=lambda y, a: work(a, 10),
    signature=lettered("...__->..._"),
    refuses=True,
)

implements(np.linalg.eig)(lambda a: as_named_tuple(EIG(a), np.linalg.eig))


# ---- singular values


def _vjp_svd(g, y, a, full_matrices):
    """J. Townsend, *Differentiating the singular value decomposition* (2016); as for eigh where values coincide."""
    (du, ds, dvt), (u, s, vt) = g, y
    if not needed(du) and not needed(dvt):  # of the thin vectors, which have derivatives of their own
        return _vjp_svdvals(ds, s, a) if full_matrices else (conjugate((u * ds[..., None, :]) @ vt),)
    if full_matrices:
        raise NotDifferentiableError(
            "np.linalg.svd: the vectors that full_matrices=True adds are not determined by the matrix",
            "Pass full_matrices=False.",
        )
    du, dvt = conjugate(du), conjugate(dvt)
    if a.dtype.kind == "c":
        dvt = _with_phases(du, dvt, u, vt)
    eye = np.eye(s.shape[-1], dtype=bool, like=s)
    gaps = np.where(eye, 1, (s * s)[..., None, :] - (s * s)[..., :, None])
    left, right = adjoint(u) @ du, vt @ adjoint(dvt)
    inner = np.where(eye, ds[..., None, :], (left - adjoint(left)) / gaps * s[..., None, :])
    inner = inner + np.where(eye, 0, (right - adjoint(right)) / gaps * s[..., :, None])
    if a.dtype.kind == "c":  # vectors of the left turn against those of the right
        inner = inner + np.where(eye, 1j * np.imag(left) / s[..., None, :], 0)
    ga = product(u, inner, vt)
    if not same(a.shape[-2], s.shape[-1]):
        ga = ga + ((du - u @ left) / s[..., None, :]) @ vt
    if not same(a.shape[-1], s.shape[-1]):
        ga = ga + (u / s[..., None, :]) @ (dvt - adjoint(right) @ vt)
    return (conjugate(ga),)


def _with_phases(du, dvt, u, vt):
    """The gradient by singular vectors whose common phase is free: LAPACK makes the first column of `vt` real.

    It does so where there are no more columns than rows.
    """
    if not is_negative(vt.shape[-1] - u.shape[-2] - 1):
        raise NotDifferentiableError(
            "np.linalg.svd: the phases of the vectors of a complex matrix that is wide, or may be, are not determined",
            "Write v, s, uh = np.linalg.svd(a.conj().T, full_matrices=False), with u = uh.conj().T, vh = v.conj().T.",
        )
    turns = np.sum(np.imag(dvt * np.conjugate(vt)), axis=-1) + np.sum(np.imag(np.conjugate(du) * u), axis=-2)
    real = np.real(vt[..., 0])
    fixed = np.copy(dvt)
    fixed[..., 0] -= 1j * np.where(real == 0, 0, turns / np.where(real == 0, 1, real))
    return fixed


SVD = operator(
    np.linalg.svd,
    infer=lambda a, full_matrices=True: of_matrix("svd", "mn->mm,k,nn" if full_matrices else "mn->mk,k,kn", a),
    vjp=_vjp_svd,
    flops=lambda y, a, full_matrices: 6 * tall(a) + 20 * small(a),
    signature=lettered("...__->...__"),
    singular=True,
    refuses=True,
)


def _vjp_svdvals(g, y, a):
    wide = a.dtype.kind == "c" and not is_negative(a.shape[-1] - a.shape[-2] - 1)
    u, _, vt = SVD(adjoint(a) if wide else a, full_matrices=False)
    if wide:
        u, vt = adjoint(vt), adjoint(u)
    return (conjugate((u * g[..., None, :]) @ vt),)


SVDVALS = operator(
    np.linalg.svdvals,
    infer=lambda a: of_matrix("svdvals", "mn->k", a),
    vjp=_vjp_svdvals,
    flops=lambda y, a: 2 * tall(a) + 2 * small(a),
    signature=lettered("...__->..._"),
    refuses=True,
)


@implements(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    refuse_given("linalg.svd", hermitian=bool(hermitian))
    a = as_input(a)
    if not compute_uv:
        return SVDVALS(a)
    square = a.ndim > 1 and same(a.shape[-1], a.shape[-2])  # both choices of full_matrices are one then
    return as_named_tuple(SVD(a, full_matrices=bool(full_matrices) and not square), np.linalg.svd)


# ---- QR


def _vjp_qr(g, y, a):
    """D. Roberts and L. Roberts, *QR and LQ decomposition matrix backpropagation algorithms* (2020)."""
    (dq, dr), (q, r) = map(conjugate, g), y
    m, n = a.shape[-2:]
    k = r.shape[-2]
    if same(n, k):
        return (conjugate(_qr_tall(q, r, dq, dr)),)
    if not same(m, k):
        raise NotDifferentiableError(
            f"np.linalg.qr: whether {m} or {n} is larger decides which formula the derivative has",
            "Compile from arrays, or give numbers in the spec.",
        )
    wide = a[..., m:], dr[..., m:]
    left = _qr_tall(q, r[..., :m], dq + wide[0] @ adjoint(wide[1]), dr[..., :m])
    return (conjugate(np.concatenate([left, q @ wide[1]], axis=-1)),)


def _qr_tall(q, r, dq, dr):
    """LAPACK makes the diagonal of r real, of complex matrices too."""
    inner = r @ adjoint(dr) - adjoint(dq) @ q
    below = np.tril(inner)
    if inner.dtype.kind == "c":
        below = np.where(np.eye(r.shape[-1], dtype=bool, like=r), np.real(inner), below)
    symmetric = below + adjoint(np.tril(inner, -1))
    return adjoint(np.linalg.solve(r, adjoint(dq + q @ symmetric)))


QR = operator(
    np.linalg.qr,
    infer=lambda a: of_matrix("qr", "mn->mk,kn", a),
    vjp=_vjp_qr,
    flops=lambda y, a: 4 * tall(a) - 4 * small(a) // 3,
    signature=lettered("...__->...__"),
    singular=True,
)


@implements(np.linalg.qr)
def qr(a, mode="reduced"):
    if mode not in ("reduced", "r"):
        refuse("linalg.qr", "mode")
    results = QR(a)
    return results[1] if mode == "r" else as_named_tuple(results, np.linalg.qr)
