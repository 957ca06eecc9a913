"""Complex numbers in C: values, special cases and derivatives are those of NumPy's source."""

import ctypes

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.define import TABLE
from symgrad.targets.c.functions import COMPLEXES
from tests.targets.c.test_c_files import needs_a_compiler, shared
from tests.targets.c.test_native import is_whole

rng = np.random.default_rng(0)
SINGLE, DOUBLE = np.complex64, np.complex128


def drawn(*shape, dtype=DOUBLE):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def assert_as_numpy(f, *args, whole=True, rtol=1e-13):
    run = sg.compile(f, target="c").compile(*args)
    assert is_whole(run) is whole
    with np.errstate(all="ignore"):
        results, wanted = run(*args), f(*args)
    for found, expected in zip(*((x if isinstance(x, tuple) else (x,)) for x in (results, wanted)), strict=True):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        single = np.asarray(expected).dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(found, expected, rtol=1e-5 if single else rtol, atol=1e-5 if single else 1e-13)


EDGES = [0.0, -0.0, 1.0, -2.0, 1e-150, 1e150, np.inf, -np.inf, np.nan]
FUNCTIONS = [f for f in COMPLEXES if isinstance(f, np.ufunc) and f.nin == 1]
PAIRS = (np.add, np.subtract, np.multiply, np.divide, np.power, np.equal, np.not_equal)


@pytest.mark.parametrize("dtype", (SINGLE, DOUBLE))
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(function, dtype):
    z = drawn(9, dtype=dtype)
    assert_as_numpy(lambda z: (function(z), function(z * 3), z * z + z), z)


@pytest.mark.parametrize("dtype", (SINGLE, DOUBLE))
@pytest.mark.parametrize("function", PAIRS, ids=lambda f: f.__name__)
def test_functions_of_two(function, dtype):
    a, b = drawn(2, 9, dtype=dtype)
    b[:3] = a[0], 2, -3
    assert_as_numpy(lambda a, b: (function(a, b), function(b, a)), a, b)


def same_or_nan(found, expected):
    """NaN has no sign, and where it is one part of a number, compilers may change the other one's."""
    broken = np.isnan(found) & np.isnan(expected)
    return np.all(broken | (found == expected) | np.isclose(found, expected, rtol=1e-12, atol=1e-300))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_edges(function):
    """Infinities, NaN, very small numbers and zeros: the sign of a zero tells the side of a branch cut."""
    x, y = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
    z = np.empty(x.shape, DOUBLE)
    z.real, z.imag = x, y
    run = sg.compile(lambda z: (function(z), function(np.conjugate(z))), target="c", optimize=0)
    with np.errstate(all="ignore"):
        for found, expected in zip(run(z), (function(z), function(np.conjugate(z))), strict=True):
            assert same_or_nan(found, expected)
            plain = np.isfinite(z) & np.isfinite(expected) & (abs(x) != abs(y))
            for part in (np.real, np.imag):
                np.testing.assert_array_equal(np.signbit(part(found))[plain], np.signbit(part(expected))[plain])


def by_powers(z):
    return np.log(-(np.conj(z) ** 3)), np.log(-(np.conj(z) ** 0.5)), z**-1 + 0j, (z + 1) ** 3, np.log10(z) - np.log2(z)


def by_units(z):
    return np.sqrt(1j * z) + np.log(-1j * z), np.log((-2 + 1j) * z) + np.log((2 - 1j) * z), np.log(-2 * z)


@pytest.mark.parametrize("f", [by_powers, by_units])
def test_sides_of_branch_cuts(f):
    z = np.array([2 + 0j, complex(2, -0.0), -1j, complex(-0.0, 1), complex(np.inf, 1), 3 - 4j])
    with np.errstate(all="ignore"):
        for x, y in zip(sg.compile(f, target="c", optimize=0)(z), f(z), strict=True):
            assert same_or_nan(x, y)


def test_quotients_and_products_of_edges():
    parts = [0.0, -0.0, 1.0, -2.0, 1e150, 1e-150, np.inf]
    a = np.array([complex(x, y) for x in parts for y in parts])
    f = lambda a, b: (a * b, a / b, a + b, a - b, 1 / b)
    with np.errstate(all="ignore"):
        found, expected = sg.compile(f, target="c")(a[:, None], a), f(a[:, None], a)
    for x, y in zip(found, expected, strict=True):
        assert same_or_nan(x, y)


def parts(z, w):
    return (
        z.real * 2, z.imag + 1, np.abs(z) ** 2, np.angle(z * w), z.conj() * w, z == w, z != 0,
        np.where(z.real > 0, z, w),
        np.sum(z), np.mean(z * w), np.prod(z), np.cumsum(z), np.cumprod(w), np.vdot(z, w), np.dot(z, w), np.outer(z, w),
        np.linalg.norm(z), np.any(z), np.count_nonzero(z), np.concatenate([z, w])[::-1], np.stack([z, w]).T @ w[:2],
        np.sum(z.real * 1j), z[::2] ** 3, z**-2, z**2.5, (z + 1).astype(np.complex64), np.isfinite(z), z.sum().real,
        np.roll(z, 2), np.zeros(3) + 1j * w[:3], np.trace(np.outer(z, w)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "dtypes", [(DOUBLE, DOUBLE), (SINGLE, SINGLE), (DOUBLE, SINGLE), (DOUBLE, float), (float, DOUBLE)]
)
def test_arrays(dtypes):
    z, w = (drawn(7, dtype=DOUBLE).astype(t) if t is not float else rng.normal(size=7) for t in dtypes)
    assert_as_numpy(parts, z, w, whole=dtypes[0] is not float)


def of_number(z, w, x):
    return z * w + x, z.real, abs(w), z**2, z / (w + 3), (x * 2j).imag, z == w


@pytest.mark.parametrize("kinds", [(complex, complex), (DOUBLE, complex), (complex, DOUBLE), (SINGLE, complex)])
def test_numbers(kinds):
    z, w = (kind(complex(a, b)) for kind, a, b in zip(kinds, (1.5, -0.25), (0.5, 2.0), strict=True))
    run = sg.compile(of_number, target="c").compile(z, w, 2.5)
    for found, expected in zip(run(z, w, 2.5), of_number(z, w, 2.5), strict=True):
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_python_numbers_raise():
    f = sg.compile(lambda z, w: z / w + w, target="c")
    assert f(1j, 2 + 1j) == 1j / (2 + 1j) + (2 + 1j)
    with pytest.raises(ZeroDivisionError):
        f(1j, 0j)


def gates(theta, psi):
    for t in range(len(theta)):
        c, s = np.cos(theta[t] / 2), np.sin(theta[t] / 2)
        psi = np.stack([c * psi[0] - 1j * s * psi[1], -1j * s * psi[0] + c * psi[1]])
        psi = psi * np.exp(1j * theta[t] * np.array([0.5, -0.5]))
    return np.abs(psi[0]) ** 2


def layers(d, n, wave):
    """The reflectance of thin films, by transfer matrices."""
    m = np.eye(2, dtype=complex)
    for k in range(len(d)):
        delta = 2 * np.pi * n[k] * d[k] / wave
        c, s = np.cos(delta), np.sin(delta)
        m = m @ np.array([[c, 1j * s / n[k]], [1j * n[k] * s, c]])
    top, bottom = m[0, 0] + m[0, 1], m[1, 0] + m[1, 1]
    return np.abs((top - bottom) / (top + bottom)) ** 2


def circuit(r, omega):
    z = r[0] + 1j * omega * r[1] + 1 / (1j * omega * r[2])
    gain = r[0] / z
    return np.sum(20 * np.log10(np.abs(gain)) + np.angle(gain))


def transform(x):
    n = np.arange(len(x))
    return np.sum(np.abs(np.exp(-2j * np.pi * np.outer(n, n) / len(x)) @ x) ** 3)


def escape(c):
    """A loop that ends by a test: how soon a point leaves."""
    z, count = 0j, 0
    while abs(z) < 2 and count < 60:
        z, count = z * z + c, count + 1
    return count + abs(z)


def spectrum(z):
    return np.sum(np.log(np.abs(np.sqrt(z) * np.sin(z) + np.tanh(z) / z) + 1)) + np.real(np.prod(z**3))


PROGRAMS = {
    "gates": (gates, rng.normal(size=9), np.array([1, 0j])),
    "layers": (layers, rng.random(8), 1 + rng.random(8), 0.55),
    "circuit": (circuit, np.array([2.0, 0.5, 0.25]), 1 + rng.random(11)),
    "transform": (transform, rng.normal(size=10)),
    "spectrum": (spectrum, drawn(6)),
}


@pytest.mark.parametrize("level", (0, 1, 2))
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name, level):
    f, *args = PROGRAMS[name]
    gradients = [sg.value_and_grad(f, target=t, optimize=level) for t in ("c", "numpy")]
    found, expected = (g(*args) for g in gradients)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    assert is_whole(gradients[0].compile(*args))


@pytest.mark.parametrize("name", ("gates", "layers", "circuit", "transform"))
def test_second_derivatives(name):
    f, *args = PROGRAMS[name]
    found, expected = (sg.hessian(f, target=t)(*args) for t in ("c", "numpy"))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_loop_with_a_test():
    run = sg.compile(escape, target="c").compile(0.3 + 0.5j)
    assert is_whole(run)
    for c in (0.3 + 0.5j, -1.2 + 0.1j, 2j, -0.1 + 0j):
        assert run(c) == pytest.approx(escape(c), rel=1e-12)


def test_exponential_beyond_its_formula():
    """Beyond a limit, C's library takes over for the whole program."""
    z = np.array([1 + 2j, 705 + 1j, -800 + 1e15j, complex(np.inf, 0), complex(-np.inf, np.inf), complex(0, 1e300), 3])
    with np.errstate(all="ignore"):
        found, expected = (sg.compile(lambda z: np.exp(z) * 0.5, target=t)(z) for t in ("c", "numpy"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_warnings_are_those_of_numpy():
    f = sg.compile(lambda z: (1 / z, np.where(z == 0, 0, z / np.abs(z))), target="c")
    with np.errstate(all="raise"):
        f(np.array([1j, 2.0, -3j]))  # nothing warns
        with pytest.raises(FloatingPointError):
            f(np.array([1j, 0.0]))


def test_what_c_does_not_compute():
    """Orders of complex numbers, and functions without a C form, are NumPy's, between kernels."""
    f = lambda z: (np.max(z * 2), np.expm1(z) * z, np.sort(z * 2) + 1)
    z = drawn(5)
    for found, expected in zip(sg.compile(f, target="c")(z), f(z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_every_function_has_an_operator():
    assert all(f in TABLE or not isinstance(f, np.ufunc) for f in COMPLEXES)


def amplitudes(psi, theta, turn):
    for angle in theta:
        psi = np.stack([np.cos(angle) * psi[0] + turn * psi[1], np.exp(1j * angle) * psi[1] / (psi[0] + 2)])
    return np.sum(np.abs(psi) ** 2)


@needs_a_compiler
def test_plain_c_without_the_flag_for_products(tmp_path):
    """Without it products are right, too; what they are where both parts are NaN differs."""
    psi, theta = drawn(2), rng.normal(size=4)
    path = sg.value_and_grad(amplitudes).compile("complex128[2]", "float64[n]", 0.5).save(tmp_path / "amplitudes.c")
    assert "With gcc, add -fcx-limited-range" in " ".join(path.read_text().split())
    assert "const double _Complex *psi" in path.with_suffix(".h").read_text()
    library = shared(path)
    value, slope = np.empty(()), np.empty(2, complex)
    workspace = library.amplitudes_value_and_grad_workspace
    workspace.restype = ctypes.c_int64
    memory, n = ctypes.create_string_buffer(max(workspace(ctypes.c_int64(4)), 1)), ctypes.c_int64(4)
    arrays = [ctypes.c_void_p(x.ctypes.data) for x in (psi, theta, value, slope)]
    code = library.amplitudes_value_and_grad(n, *arrays[:2], ctypes.c_double(0.5), *arrays[2:], memory)
    expected = sg.value_and_grad(amplitudes)(psi, theta, 0.5)
    assert code == 0
    np.testing.assert_allclose(value, expected[0], rtol=1e-13)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-13)


@pytest.mark.parametrize("dtype", (SINGLE, DOUBLE))
def test_large_products_by_blas(dtype):
    a, b = drawn(12, 9, dtype=dtype), drawn(9, 14, dtype=dtype)
    f = lambda a, b: np.sum(np.abs(np.exp(0.1j * (a @ b)) @ b.conj().T) ** 2)
    run = sg.grad(f, (0, 1), target="c").compile(a, b)
    assert "gemm(" in run.source.native and is_whole(run)
    for x, y in zip(run(a, b), sg.grad(f, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3 if dtype is SINGLE else 1e-12)


def hermitian(n):
    a = drawn(n, n)
    return a @ np.conj(a.T) + np.eye(n)


def circuits(a, b):
    """Solve systems along a loop, as for the currents at several frequencies."""
    x, total = b, 0.0
    for k in range(12):
        x = np.linalg.solve(a + 1j * k * np.eye(b.size), x)
        x = x / np.linalg.norm(x)
        total = total + np.abs(x[0]) ** 2
    return total


def inverses(a):
    for _ in range(6):
        a = np.linalg.inv(a + 0.5j) * 0.5
    return np.sum(np.abs(a) ** 2)


def determinants(a):
    total = 0.0
    for k in range(6):
        sign, log = np.linalg.slogdet(a * (k + 1))
        total = total + np.abs(np.linalg.det(a - k)) + log + np.real(sign)
    return total


def factors(a):
    total = 0.0
    for k in range(6):
        lower, upper = np.linalg.cholesky(a * (k + 1)), np.linalg.cholesky(a + k * np.eye(len(a)), upper=True)
        total = total + np.sum(np.abs(lower @ upper) ** 2) * 1e-3 + np.imag(lower[1, 0])
    return total


@pytest.mark.parametrize("n", (2, 3, 6, 17))
@pytest.mark.parametrize("f", (circuits, inverses, determinants, factors), ids=lambda f: f.__name__)
def test_systems_in_loops(f, n):
    args = (hermitian(n) / n, drawn(n))[: 2 if f is circuits else 1]
    g = sg.value_and_grad(f, target="c").compile(*args)
    if n < 17:  # the derivative of determinants and factors has large products
        assert is_whole(g)
    (value, slope), expected = g(*args), sg.value_and_grad(f)(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-10)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-8, atol=1e-10 * np.max(np.abs(expected[1])))


@pytest.mark.parametrize("function", (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky))
def test_systems_in_single_precision(function):
    f = lambda a: function(a + a)
    x = hermitian(3).astype(SINGLE)
    run = sg.compile(f, target="c").compile(x)
    assert is_whole(run)
    for found, expected in zip(np.atleast_1d(run(x)), np.atleast_1d(f(x)), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("in_loop", (False, True))
def test_singular_matrices(in_loop):
    def f(a, b):
        x = b
        for _ in range(9 if in_loop else 1):
            x = np.linalg.solve(a, x)
        return x

    g = sg.compile(f, target="c")
    a, b = np.array([[1, 2j], [2, 4j]]), np.array([1.0, 1j])
    np.testing.assert_allclose(g(a + np.eye(2), b), f(a + np.eye(2), b), rtol=1e-10)
    for matrix in (a, 0 * a):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            g(matrix, b)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        sg.compile(lambda a: np.linalg.cholesky(a) * 2, target="c")(np.array([[1, 2j], [-2j, 1]]))
