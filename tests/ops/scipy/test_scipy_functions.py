"""scipy.special's sums of exponentials, scipy.signal, scipy.interpolate and scipy.sparse."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tests.programs import check_close, check_derivatives

pytest.importorskip("scipy")
from scipy import interpolate, signal, sparse, special

RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))


def check(f, *args, order=2):
    check_close(f, *args)
    check_derivatives(f, *args, order=order, rtol=1e-4, atol=1e-6)


# ---- sums of exponentials


@pytest.mark.parametrize("kwargs", [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}])
def test_logsumexp(kwargs):
    check(lambda a: special.logsumexp(a, **kwargs), A)
    check(lambda a, b: special.logsumexp(a, b=b, **kwargs), A, np.abs(B), order=1)
    check(lambda a, b: special.logsumexp(a, b=b, return_sign=True, **kwargs)[0], A, B, order=1)
    sign = sg.compile(lambda a: special.logsumexp(a, b=B, return_sign=True, **kwargs)[1])(A)
    np.testing.assert_array_equal(sign, special.logsumexp(A, b=B, return_sign=True, **kwargs)[1])


@pytest.mark.parametrize("f", [special.softmax, special.log_softmax], ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_softmax(f, axis):
    check(lambda a: getattr(special, f.__name__)(a, axis=axis), A)
    check_close(lambda a: getattr(special, f.__name__)(a, axis=axis), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("f", [special.softmax, special.log_softmax], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_softmax_of_small_integers_has_the_dtype_of_scipy(f, dtype):
    x = np.arange(4, dtype=dtype)
    found, want = sg.compile(lambda x: getattr(special, f.__name__)(x))(x), f(x)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=4 * np.finfo(want.dtype).eps)


@pytest.mark.parametrize(
    ("shape", "options"), [((0,), {}), ((0, 3), {"axis": 0}), ((0, 3), {"axis": 0, "keepdims": True})]
)
def test_logsumexp_of_nothing(shape, options):
    with np.errstate(divide="ignore"):
        check_close(lambda x: special.logsumexp(x, **options), np.zeros(shape))


@pytest.mark.parametrize("numerics", ["stable", "ieee"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_nothing_overflows(numerics, level):
    x = np.array([[1e300, 1e300, 0.0], [-1e300, -1e300, -np.inf], [800.0, -800.0, 799.0]])
    with sg.options(numerics=numerics, optimize=level):
        value, slope = sg.value_and_grad(lambda x: np.sum(special.logsumexp(x, axis=1) * [0, 0, 1.0]))(x)
        rows = sg.compile(lambda x: special.logsumexp(x, axis=1))(x)
        np.testing.assert_allclose(sg.compile(lambda x: special.softmax(x, axis=1))(x), special.softmax(x, axis=1))
    np.testing.assert_allclose(rows, special.logsumexp(x, axis=1))
    assert value == rows[2]
    np.testing.assert_allclose(slope[2], special.softmax(x[2]))


def test_a_weight_of_zero_takes_away_what_overflows():
    a, b = np.array([1e300, 1.0, 2.0]), np.array([0.0, 1.0, 3.0])
    want = np.log(np.exp(1.0) + 3 * np.exp(2.0))
    assert sg.compile(lambda a: special.logsumexp(a, b=b))(a) == pytest.approx(want)
    assert sg.compile(lambda a, b: special.logsumexp(a, b=b))(a, b) == pytest.approx(want)
    slope = sg.grad(lambda b: special.logsumexp(np.array([1.0, 2.0]), b=b))(np.array([0.0, 1.0]))
    np.testing.assert_allclose(slope, [np.exp(-1.0), 1.0])


def test_the_second_derivative_where_all_are_equal():
    hessian = sg.hessian(lambda x: special.logsumexp(x))(np.zeros(3))
    np.testing.assert_allclose(hessian, np.eye(3) / 3 - 1 / 9, atol=1e-15)


# ---- convolution


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(
    "shapes", [((5,), (3,)), ((3,), (5,)), ((4, 5), (2, 3)), ((2, 2), (3, 4)), ((3, 3, 2), (2, 2, 2))]
)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolution(mode, shapes, name):
    a, b = (RNG.standard_normal(shape) for shape in shapes)
    check(lambda a, b: getattr(signal, name)(a, b, mode), a, b, order=2 if len(shapes[0]) == 1 else 1)


def test_relatives_of_convolution():
    kernel = A[:2, :3]
    for name in ("fftconvolve", "oaconvolve", "convolve2d", "correlate2d"):
        check_close(lambda a, name=name: getattr(signal, name)(a, kernel, mode="same"), B)


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_boundaries_in_the_plane(name, boundary):
    for mode in ("full", "same", "valid"):
        for kernel in (A[:2, :3], np.tile(A, (2, 2))):

            def f(a, b, mode=mode):
                return getattr(signal, name)(a, b, mode, boundary, 1.5)

            if mode != "valid" or kernel.size < B.size:
                check_close(lambda a, f=f, kernel=kernel: f(a, kernel), B)
    check(lambda a, b: getattr(signal, name)(a, b, "same", boundary), B, A[:2, :2], order=1)


# ---- splines

X = np.array([0.0, 0.7, 1.5, 3.0, 4.2, 5.0, 7.0])
Y = RNG.standard_normal((7, 2))
CLOSED = np.r_[Y[:-1, 0], Y[0, 0]]
SPLINES = {
    "cubic": interpolate.CubicSpline(X, Y[:, 0]),
    "periodic": interpolate.CubicSpline(X, CLOSED, bc_type="periodic"),
    "several": interpolate.CubicSpline(X, Y, bc_type="natural"),
    "axis": interpolate.CubicSpline(X, Y.T, axis=1),
    "pchip": interpolate.PchipInterpolator(X, Y[:, 0], extrapolate=True),
    "akima": interpolate.Akima1DInterpolator(X, Y[:, 0], extrapolate=True),
    "derivative": interpolate.CubicSpline(X, Y[:, 0]).derivative(),
    "bernstein": interpolate.BPoly(Y[:6].T.reshape(2, 6), X),
    "knots": interpolate.make_interp_spline(X, Y[:, 0], k=3),
    "degree 5": interpolate.make_interp_spline(X, Y, k=5),
    "knots, axis": interpolate.make_interp_spline(X, Y.T, axis=1),
    "repeated knots": interpolate.BSpline([0, 0, 0, 0, 2, 2, 5, 7, 7, 7, 7], [1.0, 2, -1, 0.5, 3, -2, 1], 3),
    "fitpack": interpolate.InterpolatedUnivariateSpline(X, Y[:, 0]),
    "fitpack, clipped": interpolate.UnivariateSpline(X, Y[:, 0], ext=3),
    "linear": interpolate.interp1d(X, Y, axis=0, fill_value="extrapolate"),
    "quadratic": interpolate.interp1d(X, Y.T, kind="quadratic", fill_value="extrapolate"),
}
PLACES = np.array([[-0.3, 0.2, 1.2], [2.9, 6.5, 7.4]])


@pytest.mark.parametrize("name", SPLINES)
def test_splines(name):
    spline = SPLINES[name]
    check(lambda x: spline(x), PLACES)
    check_close(lambda x: spline(x), np.float64(1.3))
    check_close(lambda x: spline(x), X)  # at the breakpoints
    check_close(lambda x: spline(x), np.array([0, 2, 7]))
    if not isinstance(spline, (interpolate.interp1d, interpolate.BPoly)):
        check(lambda x: spline(x, 1), PLACES[:, 1:2], order=1)


def test_outside_of_a_spline():
    spline = interpolate.PchipInterpolator(X, Y[:, 0], extrapolate=False)
    check_close(lambda x: spline(x), np.array([-1.0, 0.0, 7.0, 8.0, np.nan]))
    check_close(lambda x: SPLINES["knots"](x, extrapolate="periodic"), PLACES)
    filled = interpolate.interp1d(X, Y, axis=0, bounds_error=False, fill_value=(1.0, 2.0))
    check_close(lambda x: filled(x), np.array([-1.0, 0.0, 7.0, 8.0]))


@pytest.mark.parametrize("how", [{}, {"fill_value": 0.0}, {"bounds_error": True, "fill_value": (1.0, 2.0)}])
def test_nan_stands_where_scipy_raises(how):
    places, known = np.array([-1.0, 3.0, 8.0]), interpolate.interp1d(X, Y[:, 0], **how)
    at_places = sg.compile(lambda x: known(x))
    np.testing.assert_array_equal(np.isnan(at_places(places)), [True, False, True])
    of_values = sg.compile(lambda y: interpolate.interp1d(X, y, **how)(places))
    np.testing.assert_array_equal(np.isnan(of_values(Y[:, 0])), [True, False, True])


@pytest.mark.parametrize("kind", ["nearest", "nearest-up", "previous", "next", "zero"])
def test_steps_between_points(kind):
    places = np.array([-1.0, 0.0, 0.2, 0.35, 1.1, 1.5, 2.25, 6.9, 7.0, 8.0])
    for spline in (
        interpolate.interp1d(X, Y, kind, axis=0, bounds_error=False, fill_value=(1.0, 2.0)),
        interpolate.interp1d(X, Y.T, kind, fill_value="extrapolate"),
    ):
        check_close(lambda x, spline=spline: spline(x), places)
        check_close(lambda x, spline=spline: spline(x), PLACES)
    assert not sg.grad(lambda x: np.sum(spline(x)))(PLACES).any()


@pytest.mark.parametrize("kind", ["linear", "nearest", "previous", "quadratic", "cubic"])
def test_interpolation_of_traced_values(kind):
    backwards = X[::-1].copy()

    def f(x, y):
        along = interpolate.interp1d(X, y.T, kind, fill_value="extrapolate")
        filled = interpolate.interp1d(backwards, y, kind, axis=0, bounds_error=False, fill_value=(0.5, 2.0))
        return along(x) + np.moveaxis(filled(x), -1, 0) + along([0.3, 2.0, 6.5]).sum()

    check_close(lambda y: f(PLACES, y), Y)
    check_close(f, PLACES, Y)
    smooth = () if kind in ("nearest", "previous") else (PLACES,)
    check_derivatives(f if smooth else lambda y: f(PLACES, y), *smooth, Y, order=1, rtol=1e-4, atol=1e-6)


def test_a_spline_leaves_nothing_of_scipy_in_the_program():
    spline = SPLINES["cubic"]
    source = sg.grad(lambda x: np.sum(spline(x) ** 2)).source("float64[n]")
    assert "Needs NumPy.\n" in source and "import scipy" not in source


# ---- sparse matrices

DENSE = np.round(RNG.standard_normal((5, 4)))
FORMATS = ["csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "dia_matrix"]


@pytest.mark.parametrize("form", FORMATS)
def test_products_with_sparse_matrices(form):
    matrix = getattr(sparse, form)(DENSE)
    for x in (A[0], A.T):
        check(lambda x: matrix @ x, x)
        check_close(lambda x: matrix.dot(x), x)
        if form.endswith("matrix"):
            check_close(lambda x: matrix * x, x)
    check(lambda x: matrix.T @ x, RNG.standard_normal(5))
    check(lambda x: x @ matrix, RNG.standard_normal((2, 5)), order=1)
    np.testing.assert_allclose(sg.jacobian(lambda x: matrix @ x)(A[0]), DENSE)
    expected = np.einsum("ij,kl->ikjl", DENSE, np.eye(len(A)))
    np.testing.assert_allclose(sg.jacobian(lambda x: matrix @ x)(A.T), expected)
    np.testing.assert_allclose(sg.hessian(lambda x: np.sum((matrix @ x) ** 2))(A[0]), 2 * DENSE.T @ DENSE, atol=1e-12)


def quadratic(x):
    return np.sum((LARGE @ x) ** 2)


LARGE = sparse.random_array((60, 40), density=0.2, rng=np.random.default_rng(1), format="csr")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_sparse_matrices_are_kept_beside_a_saved_module(level, tmp_path):
    compiled = sg.grad(quadratic).compile("float64[40]", optimize=level)
    spec = importlib.util.spec_from_file_location("saved", compiled.save(tmp_path / "saved.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = RNG.standard_normal(40)
    np.testing.assert_allclose(module.quadratic_grad(x), 2 * (LARGE.T @ (LARGE @ x)))
    assert "scipy.sparse.csc_array" in compiled.source
    module._constants.close()


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "error", "fact"),
    [
        (lambda x: special.logsumexp(x + 1j), DTypeError, "scipy.special.logsumexp of complex128 is not supported"),
        (lambda x: signal.convolve(x, x, "wrap"), UnsupportedError, "scipy.signal.convolve: mode='wrap' is not one of"),
        (lambda x: signal.convolve(x, x[0]), ShapeError, "scipy.signal.convolve: arrays of 2 and 1 dimensions"),
        (lambda x: signal.convolve(x[:2], x[:, :2], "valid"), ShapeError, "neither of which contains the other"),
        (lambda x: signal.convolve2d(x, x, boundary="edge"), ArgumentError, "convolve2d: boundary='edge' is not known"),
        (
            lambda x: interpolate.interp1d(x[0], x[0])(x),
            UnsupportedError,
            "interp1d at traced points",
        ),
        (
            lambda x: interpolate.interp1d([0, 1, 2, 3], x[0], bounds_error=True, fill_value="extrapolate")(x),
            ArgumentError,
            "interp1d cannot extrapolate and raise",
        ),
        (lambda x: sparse.csr_array(DENSE) @ x, ShapeError, "a matrix of shape (5, 4) @ float64[3, 4] does not"),
    ],
)
def test_refusals_name_scipy(f, error, fact):
    with pytest.raises(error) as caught:
        sg.compile(f)(A)
    assert fact in caught.value.fact


BY_NAME_AT_LAST = {
    "from scipy import stats": "stats.norm.logcdf(x)",
    "import scipy": "scipy.linalg.solve(np.outer(x, x) + np.eye(2), x)",
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", BY_NAME_AT_LAST)
def test_scipy_is_imported_by_the_function_itself(statement, tmp_path):
    """The first trace is what imports it."""
    (tmp_path / "late.py").write_text(
        "import sys\nimport numpy as np\nimport symgrad as sg\n\n\n"
        f"def f(x):\n    {statement}\n\n    return np.sum({BY_NAME_AT_LAST[statement]})\n\n\n"
        "assert 'scipy' not in sys.modules\nsg.grad(f)(np.array([0.5, 2.0]))\n"
        "sg.check_grads(f, (np.array([0.5, 2.0]),), order=1)\n"
    )
    late = [sys.executable, "late.py"]
    paths = os.pathsep.join([str(Path(sg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(late, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
