"""np.linalg: values, shapes, dtypes, derivatives at orders one and two, batches, and what is refused."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.pullback import pullback
from symgrad.errors import DTypeError, NotDifferentiableError, ShapeError, UnsupportedError
from tests.oracle import check_derivatives, trace
from tests.sweep import check_batch, check_close, inferred

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
TIGHT = {"rtol": 1e-4, "atol": 1e-6}


def matrix(*shape, seed=0):
    """Well-conditioned matrices with singular values that are apart, and symmetric part positive definite."""
    rng = np.random.default_rng(seed + sum(shape))
    m, n = shape[-2:]
    return rng.uniform(-0.5, 0.5, shape) + np.eye(m, n) * (1.5 + np.arange(n))


def symmetric(*shape):
    a = matrix(*shape)
    return (a + np.swapaxes(a, -1, -2)) / 2


def check(f, *args, order=2, batch=True, **tolerances):
    check_close(f, *args)
    check_close(f, *[np.asarray(a, F4) for a in args])
    check_derivatives(f, *args, order=order, **(TIGHT | tolerances))
    if batch:
        check_batch(f, *args)


def gradient(f, *args):
    """Cotangents of the arguments of a scalar function."""
    graph, inputs, (y,) = trace(f, *args)
    return interpret(pullback(graph, [y], [graph.constant(1.0)], inputs), dict(zip(inputs, args, strict=True)))


# ---- solve, inv, det


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)), ((3, 3), (3, 2)), ((3, 3), (4, 3, 2)), ((4, 3, 3), (3,)), ((4, 3, 3), (3, 2)),
        ((4, 3, 3), (4, 3, 2)),
        ((2, 1, 3, 3), (4, 3, 2)), ((1, 1), (1,)),
    ],
)  # fmt: skip
def test_solve(a, b):
    check(np.linalg.solve, matrix(*a), np.random.default_rng(1).standard_normal(b))


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3), (2, 2, 2, 2)])
@pytest.mark.parametrize("f", [np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a)[1], np.linalg.pinv])
def test_inverses_and_determinants(f, shape):
    check(f, matrix(*shape))


def test_slogdet_of_a_negative_determinant():
    a = matrix(3, 3)[[1, 0, 2]]
    check_close(np.linalg.slogdet, a)
    check_derivatives(lambda a: np.linalg.slogdet(a).logabsdet, a)
    assert all(g is None or not np.any(g) for g in gradient(lambda a: np.linalg.slogdet(a).sign, a))


# ---- determinants of singular matrices

SINGULAR = {
    "rank 2 of 3": np.arange(1.0, 10).reshape(3, 3),
    "rank 1 of 3": np.outer([1.0, 2, 3], [4.0, 5, 6]),
    "zeros": np.zeros((3, 3)),
    "one number": np.zeros((1, 1)),
    "nothing": np.zeros((0, 0)),
    "a number": np.array([[2.0]]),
    "rank 1 of 2": np.array([[1.0, 2], [2, 4]]),
    "rank 5 of 6": matrix(6, 5) @ matrix(5, 6),
    "rank 4 of 6": matrix(6, 4) @ matrix(4, 6),
    "nearly": np.diag([1.0, 1.0, 1e-14]),
    "of determinant 0 by underflow": 1e-120 * matrix(3, 3),
    "of infinite determinant": 1e110 * matrix(3, 3),
    "one of several": np.stack([matrix(3, 3), np.arange(1.0, 10).reshape(3, 3), np.ones((3, 3)), np.zeros((3, 3))]),
}


def cofactors(a):
    """By minors, of complex matrices as well."""
    n = a.shape[-1]
    found = np.empty_like(a)
    for i, j in np.ndindex(n, n):
        found[..., i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, -2), j, -1))
    return found


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", SINGULAR)
def test_the_gradient_of_det_is_the_cofactors(name, level):
    a = SINGULAR[name]
    with np.errstate(over="ignore"):
        slope = sg.grad(lambda a: np.sum(np.linalg.det(a)), optimize=level)(a)
    scale = np.max(np.abs(a), initial=0) ** max(a.shape[-1] - 1, 0)
    np.testing.assert_allclose(slope, cofactors(a), rtol=1e-12, atol=1e-14 * scale)


@pytest.mark.parametrize("name", SINGULAR)
def test_the_hessian_of_det_at_singular_matrices(name):
    a, v = SINGULAR[name], np.random.default_rng(0).standard_normal(SINGULAR[name].shape)
    scale = np.max(np.abs(a), initial=0) or 1.0
    expected = cofactors(a + 1e-30j * scale * v).imag / (1e-30 * scale)
    found = sg.hvp(lambda a: np.sum(np.linalg.det(a)))(a, v)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13 * scale ** max(a.shape[-1] - 2, 0))


def test_derivatives_of_det_to_third_order():
    sg.check_grads(lambda a: np.sin(np.linalg.det(a) / 40), (matrix(4, 4),), order=3)
    slopes = sg.hessian(np.linalg.det)(np.array([[1.0, 2], [2, 4]])).reshape(4, 4)
    np.testing.assert_allclose(slopes, [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]], atol=1e-15)


def test_det_of_what_is_not_finite_has_no_finite_gradient():
    assert np.isnan(sg.grad(np.linalg.det)(np.array([[np.nan, 1], [1, 2]]))).all()


def test_slogdet_of_a_singular_matrix_has_no_derivative():
    with pytest.raises(np.linalg.LinAlgError):
        sg.grad(lambda a: np.linalg.slogdet(a)[1])(np.zeros((2, 2)))


def test_the_source_of_the_gradient_of_det_stands_alone():
    source = sg.grad(np.linalg.det).source("float64[3, 3]", optimize=1)
    assert "d_a = _cofactors(a)" in source
    module = {}
    exec(source, module)
    np.testing.assert_allclose(module["det_grad"](np.diag([1.0, 2, 0])), np.diag([0.0, 0, 2]), atol=1e-15)


# ---- factorisations that read one triangle


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3)])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(shape, upper):
    check(lambda a: np.linalg.cholesky(a, upper=upper), symmetric(*shape))


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4)])
def test_eigenvalues(shape, uplo):
    check(lambda a: np.linalg.eigvalsh(a, uplo), symmetric(*shape))
    check(lambda a: np.linalg.eigh(a, uplo)[0], symmetric(*shape))
    check(lambda a: np.linalg.eigh(a, uplo), symmetric(*shape))


def test_only_the_triangle_that_is_read_has_a_derivative():
    weights = np.arange(9.0).reshape(3, 3)
    for f in (
        lambda a: np.sum(np.linalg.cholesky(a) * weights),
        lambda a: np.sum(np.linalg.eigvalsh(a) ** 2),
        lambda a: np.sum(np.linalg.eigh(a)[1] * weights),
    ):
        (lower,) = gradient(f, symmetric(3, 3))
        assert not np.any(np.triu(lower, 1)) and np.any(lower)
        (junk_above,) = gradient(f, np.tril(symmetric(3, 3)) + np.triu(np.full((3, 3), 7.0), 1))
        np.testing.assert_allclose(junk_above, lower)


def test_through_a_symmetric_construction():
    check(lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)), matrix(3, 3))
    check(lambda x: np.linalg.eigh(x + x.T)[1], matrix(3, 3))


def test_coinciding_eigenvalues():
    (g,) = gradient(lambda a: np.sum(np.linalg.eigh(a).eigenvalues), np.eye(3))
    np.testing.assert_allclose(g, np.eye(3))
    with np.errstate(all="ignore"):
        (g,) = gradient(lambda a: np.sum(np.linalg.eigh(a).eigenvectors * np.arange(9.0).reshape(3, 3)), np.eye(3))
    assert not np.all(np.isfinite(g))  # the derivative does not exist, and says so


# ---- singular values, QR


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 4, 3), (2, 3, 3)])
def test_svd(shape):
    a = matrix(*shape)
    check(np.linalg.svdvals, a)
    check(lambda a: np.linalg.svd(a, compute_uv=False), a)
    check(lambda a: np.linalg.svd(a, full_matrices=False), a)
    check(lambda a: np.linalg.svd(a)[1], a)
    check_close(np.linalg.svd, a)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 4, 3), (2, 3, 4), (2, 3, 3)])
def test_qr(shape):
    check(np.linalg.qr, matrix(*shape))
    check(lambda a: np.linalg.qr(a, mode="r"), matrix(*shape))


def test_results_have_names():
    def f(a):
        q, r = np.linalg.qr(a)
        return (
            np.linalg.svd(a).S, np.linalg.svd(a, full_matrices=False).Vh, np.linalg.eigh(a).eigenvalues,
            np.linalg.slogdet(a).sign,
            np.linalg.qr(a).Q - q, np.linalg.qr(a).R - r,
        )  # fmt: skip

    check_close(f, symmetric(3, 3))


# ---- least squares


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (2, 4, 3), (3, 3)])
def test_pinv(shape):
    check(np.linalg.pinv, matrix(*shape))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_lstsq(shape, columns):
    a, b = matrix(*shape), np.random.default_rng(1).standard_normal((shape[0], *columns))
    check(lambda a, b: np.linalg.lstsq(a, b)[0], a, b)
    check_close(lambda a, b: tuple(np.linalg.lstsq(a, b))[:2], a, b)
    check_close(lambda a, b: np.linalg.lstsq(a, b)[3], a, b)


def test_matrix_rank():
    check_close(np.linalg.matrix_rank, np.ones((2, 3, 3)))
    check_close(np.linalg.matrix_rank, np.ones(3))
    check_batch(np.linalg.matrix_rank, np.ones((3, 2)))


def test_pinv_of_lower_rank():
    """On matrices of one rank, which pinv keeps."""
    x, y = np.random.default_rng(0).standard_normal((2, 4))
    check_derivatives(lambda x, y: np.linalg.pinv(np.outer(x, y)), x, y, **TIGHT)


# ---- norms


@pytest.mark.parametrize("ord", [None, 2, 1, 3, 1.5, 0.5, np.inf, -np.inf, 0])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_vectors(ord, keepdims):
    x = np.random.default_rng(3).standard_normal((2, 4)) + 0.3
    check(lambda x: np.linalg.norm(x[0], ord, keepdims=keepdims), x, batch=False)
    check(lambda x: np.linalg.norm(x, ord, axis=-1, keepdims=keepdims), x, batch=False)
    check(lambda x: np.linalg.vector_norm(x, axis=0, keepdims=keepdims, ord=2 if ord is None else ord), x, batch=False)
    check(lambda x: np.linalg.vector_norm(x, keepdims=keepdims, ord=2 if ord is None else ord), x, batch=False)


@pytest.mark.parametrize(
    "options", [{"ord": np.inf, "axis": 0}, {"ord": np.inf}, {"ord": 1}, {"ord": 2}, {"ord": "nuc"}]
)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_norms_of_nothing_are_zero(shape, options):
    if shape == (3, 0) and "axis" in options:
        options = {**options, "axis": 1}
    check_close(lambda x: np.linalg.norm(x, **options), np.zeros(shape))


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_matrices(ord, keepdims):
    x = matrix(2, 4, 3)
    check(lambda x: np.linalg.norm(x[0], ord, keepdims=keepdims), x, batch=False)
    check(lambda x: np.linalg.norm(x, ord, axis=(2, 0), keepdims=keepdims), x, batch=False)
    check(lambda x: np.linalg.matrix_norm(x, keepdims=keepdims, ord=ord or "fro"), x, batch=False)


@pytest.mark.parametrize("axis", [None, 0, (0, 1), (-1, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_euclidean_norm(axis, keepdims):
    check(
        lambda x: np.linalg.norm(x, axis=axis, keepdims=keepdims), matrix(3, 2) if axis != (0, 1) else matrix(2, 3, 2)
    )
    check(lambda x: np.linalg.norm(x), matrix(2, 3, 2))
    check_close(np.linalg.norm, np.arange(3))
    check_close(np.linalg.norm, np.arange(3) * 1j)


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 0.5, np.inf])
def test_the_derivative_of_a_norm_at_zero_is_zero(ord):
    with np.errstate(all="raise"):
        (g,) = gradient(lambda x: np.linalg.norm(x, ord), np.zeros(3))
        (mixed,) = gradient(lambda x: np.sum(np.linalg.norm(x, ord, axis=1)), np.array([[0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(g, 0)
    np.testing.assert_array_equal(mixed[0], 0)
    assert np.any(mixed[1])


@pytest.mark.parametrize("p", [None, 2, -2, 1, np.inf, "fro"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_cond(p, shape):
    check(lambda a: np.linalg.cond(a, p), matrix(*shape), batch=False)


def test_tensors_as_matrices():
    a = matrix(6, 6).reshape(2, 3, 3, 2)
    check(np.linalg.tensorinv, a, batch=False)
    check(np.linalg.tensorsolve, a, np.arange(6.0).reshape(2, 3), batch=False)
    check(
        lambda a, b: np.linalg.tensorsolve(a, b, axes=(0,)),
        a.transpose(3, 0, 1, 2),
        np.arange(6.0).reshape(2, 3),
        batch=False,
    )


# ---- dtypes, shapes, messages


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.complex64, np.complex128, F4])
@pytest.mark.parametrize(
    "f",
    [
        np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.eigvalsh, np.linalg.svdvals, np.linalg.cholesky,
        np.linalg.pinv,
        lambda a: np.linalg.eigh(a)[0], lambda a: np.linalg.solve(a, a), np.linalg.norm,
        lambda a: np.linalg.norm(a, 1, axis=0),
        lambda a: np.linalg.cholesky(a, upper=True), lambda a: np.linalg.eigvalsh(a, "U"),
        lambda a: np.linalg.norm(a, "nuc"),
    ],
)  # fmt: skip
def test_dtypes(f, dtype):
    a = np.array([[4, 1, 0], [1, 5, 1], [0, 1, 6]]).astype(dtype)
    if a.dtype.kind == "c":
        a[0, 1] += 1j
        a[1, 0] -= 1j
    check_close(f, a)


def test_symbolic_sizes():
    sizes = Sizes()
    n, k, b = map(sizes.symbol, "nkb")
    a = Aval((b, n, n), F4)
    assert inferred(np.linalg.solve, Aval((n, n), F4), Aval((n,), F8)) == Aval((n,), F8)
    assert inferred(np.linalg.solve, a, Aval((n, k), F4)) == Aval((b, n, k), F4)
    assert inferred(np.linalg.inv, a) == a
    assert inferred(np.linalg.slogdet, a) == [Aval((b,), F4)] * 2
    assert inferred(np.linalg.eigh, a) == [Aval((b, n), F4), a]
    assert inferred(np.linalg.svd, a) == [a, Aval((b, n), F4), a]
    assert inferred(lambda a: np.linalg.norm(a, axis=(1, 2)), a) == Aval((b,), F4)
    with pytest.raises(ShapeError):
        inferred(np.linalg.inv, Aval((n, k), F8))
    assert not sizes.pinned


@pytest.mark.parametrize(
    ("f", "shapes", "kind", "message"),
    [
        (np.linalg.inv, [(2, 3)], ShapeError, "np.linalg.inv: float64[2, 3] does not hold square matrices"),
        (np.linalg.svd, [(3,)], ShapeError, "np.linalg.svd: float64[3] does not hold matrices"),
        (np.linalg.solve, [(3, 3), (2, 3)], ShapeError,
         "np.linalg.solve: float64[3, 3] and the right-hand side float64[2, 3] do not fit"),
        (np.linalg.solve, [(3, 3), ()], ShapeError,
         "np.linalg.solve: the right-hand side float64[] has 0 dimensions, not 1 or more"),
        (np.linalg.lstsq, [(3, 2), (2,)], ShapeError,
         "np.linalg.lstsq: float64[3, 2] and the right-hand side float64[2] do not fit"),
        (lambda a: np.linalg.norm(a, 1), [(2, 2, 2)], ShapeError,
         "np.linalg.norm: ord=1 over the axes (0, 1, 2) is the norm of neither a vector nor a matrix"),
        (lambda a: np.linalg.norm(a, "fro"), [(2,)], UnsupportedError,
         "np.linalg.norm: ord='fro' is not the norm of a vector"),
        (lambda a: np.linalg.norm(a, 3), [(2, 2)], UnsupportedError,
         "np.linalg.norm: ord=3 is not the norm of a matrix"),
        (np.linalg.eigvals, [(2, 2)], UnsupportedError,
         "np.linalg.eigvals of a real matrix: values decide whether its results are complex"),
        (lambda a: np.linalg.qr(a, "complete"), [(2, 2)], UnsupportedError,
         "np.linalg.qr: the argument mode= is not supported"),
        (lambda a: np.linalg.svd(a, hermitian=True), [(2, 2)], UnsupportedError,
         "np.linalg.svd: the argument hermitian= is not supported"),
        (lambda a: np.linalg.pinv(a, rcond=0.1), [(2, 2)], UnsupportedError,
         "np.linalg.pinv: the argument rcond= is not supported"),
        (lambda a: np.linalg.eigh(a, "X"), [(2, 2)], UnsupportedError,
         "np.linalg.eigh and eigvalsh: UPLO='X' is neither 'L' nor 'U'"),
        (lambda a: np.linalg.inv(a.astype(np.float16)), [(2, 2)], DTypeError, "np.linalg.inv does not take float16"),
    ],
)  # fmt: skip
def test_messages(f, shapes, kind, message):
    with pytest.raises(kind) as error:
        trace(f, *[np.ones(shape) for shape in shapes])
    assert error.value.fact == message


def test_vectors_that_the_matrix_does_not_determine_have_no_derivative():
    with pytest.raises(NotDifferentiableError, match="full_matrices=True adds are not determined"):
        gradient(lambda a: np.sum(np.linalg.svd(a).U), matrix(4, 2))


SEVERAL = {
    "eigh": np.linalg.eigh,
    "svd": np.linalg.svd,
    "qr": np.linalg.qr,
    "slogdet": np.linalg.slogdet,
    "modf": np.modf,
    "frexp": np.frexp,
    "divmod": lambda x: np.divmod(x, 0.7),
}


@pytest.mark.parametrize("reduce", [np.sum, np.mean, np.max])
@pytest.mark.parametrize("name", SEVERAL)
def test_one_of_several_results_is_reduced(name, reduce):
    x = np.array([[2.5, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 3.7]])
    for i in range(len(SEVERAL[name](x))):
        for axis in (None, 0):
            f = lambda x, i=i, axis=axis: reduce(np.atleast_1d(SEVERAL[name](x)[i]), axis=axis)
            for level in (0, 1, 2):
                np.testing.assert_allclose(sg.compile(f, optimize=level)(x), f(x), rtol=1e-9)
