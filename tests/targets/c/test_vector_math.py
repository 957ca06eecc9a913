"""Functions of C that compilers vectorise: their errors, special values and signs, on processors of several kinds."""

import platform

import mpmath
import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c import toolchain
from tests.targets.c.test_native import SPECIAL, units

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")

FUNCTIONS = {
    "exp2": (lambda x: mpmath.mpf(2) ** x, [(-1, 1), (-1074, 1024)]),
    "log2": (lambda x: mpmath.log(x, 2), [(0.5, 2), (0.99, 1.01), "positive"]),
    "log10": (mpmath.log10, [(0.5, 2), (0.99, 1.01), "positive"]),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), [(-10, 10), "all"]),
    "arcsin": (mpmath.asin, [(-1, 1), (0.45, 0.55), (0.99, 1), "small"]),
    "arccos": (mpmath.acos, [(-1, 1), (0.45, 0.55), (-1, -0.99), "small"]),
    "arctan": (mpmath.atan, [(-1, 1), (0.3, 0.6), (1.9, 2.1), (-20, 20), "all"]),
    "sinh": (mpmath.sinh, [(-1, 1), (0.75, 0.85), (-20, 20), "overflow", "small"]),
    "cosh": (mpmath.cosh, [(-1, 1), (-20, 20), "overflow", "small"]),
}  # fmt: skip
"""By its name in NumPy each function, and intervals from which its arguments come."""

TURNS = [0.5, 1.0, 2.0, 4.0, 2**0.5, 0.5**0.5, np.log(2) / 2, 0.75, 711.0, 89.0, 1024.0, 1074.5, 150.0, 27.0]
"""Numbers at which functions change from one formula to another, overflow, or are exact."""

SETTINGS = [(dtype, flags) for dtype in ("float64", "float32") for flags in ("", "-mno-fma", "-march=x86-64")]


@pytest.fixture(params=SETTINGS, ids=lambda setting: " ".join(setting).strip())
def setting(request, monkeypatch):
    dtype, flags = request.param
    if flags and platform.machine() != "x86_64":
        pytest.skip("a flag of x86-64")
    monkeypatch.setenv("SYMGRAD_CFLAGS", flags)
    return np.dtype(dtype).type


def drawn(rng, interval, dtype, count):
    """Draw numbers from an interval, or over all magnitudes."""
    largest = 308 if dtype is np.float64 else 38
    if interval == "overflow":
        interval = (-713, 713) if dtype is np.float64 else (-90, 90)
    if isinstance(interval, tuple):
        return rng.uniform(*interval, count).astype(dtype)
    with np.errstate(under="ignore"):
        x = 10 ** rng.uniform(-largest - 7, -1 if interval == "small" else largest, count)
        return (x if interval == "positive" else x * rng.choice([-1, 1], count)).astype(dtype)


def edges(dtype):
    """Return numbers at which formulas change, their powers of two, and their neighbours."""
    x = np.array([*TURNS, *(2.0**k for k in range(-40, 41, 4)), *(k + 0.5 for k in range(0, 1025, 93))], dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf))])
    return np.concatenate([x, -x])


def error(found, exact, dtype):
    """Return the largest error in units in the last place, where the exact result is a number that is finite."""
    with np.errstate(over="ignore"):
        kept = [k for k, y in enumerate(exact) if mpmath.isfinite(y) and np.isfinite(dtype(float(y)))]
    return units(found[kept], [exact[k] for k in kept], dtype)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_a_number(setting):
    dtype, rng = setting, np.random.default_rng(1)
    functions = [getattr(np, name) for name in FUNCTIONS]
    run = sg.compile(lambda x: tuple(f(x) for f in functions), target="c").compile(f"{np.dtype(dtype)}[n]")
    for k, (name, (exactly, intervals)) in enumerate(FUNCTIONS.items()):
        for x in (*(drawn(rng, interval, dtype, 150) for interval in intervals), edges(dtype)):
            x = x[np.isfinite(functions[k](x))]
            exact = [exactly(mpmath.mpf(float(v))) for v in x]
            assert error(run(x)[k], exact, dtype) < 1.5, name
    special = np.concatenate([SPECIAL, edges(np.float64), [1e-40, -1e-45, 3e38]]).astype(dtype)
    for name, f, found in zip(FUNCTIONS, functions, run(special), strict=True):
        np.testing.assert_allclose(found, f(special), rtol=4 * np.finfo(dtype).eps, err_msg=name)
        are_numbers = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found[are_numbers]), np.signbit(f(special[are_numbers])), name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_angle_of_a_point(setting):
    dtype, rng = setting, np.random.default_rng(1)
    run = sg.compile(lambda y, x: -np.arctan2(y, x), target="c").compile(*[f"{np.dtype(dtype)}[n]"] * 2)
    for interval in ((-1, 1), (0.45, 0.55), (0.9, 1.1), "all"):
        y, x = drawn(rng, interval, dtype, 300), drawn(rng, "all" if interval == "all" else (-1, 1), dtype, 300)
        exact = [-mpmath.atan2(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(y, x, strict=True)]
        assert error(run(y, x), exact, dtype) < 1.5
    assert "sg_atan2" in run.source.native
    special = np.concatenate([SPECIAL, TURNS, [1e-40, -1e-45, 3e38]]).astype(dtype)
    y, x = (v.ravel().copy() for v in np.meshgrid(special, special))
    np.testing.assert_allclose(run(y, x), -np.arctan2(y, x), rtol=4 * np.finfo(dtype).eps)


def arm(q):
    """Straight-line code, whose Hessian is long."""
    x = y = z = 0.0
    for k, step in enumerate((0.0, 0.1, 0.2, 0.3, 0.4)):
        c, s = np.cos(q[k]), np.sin(q[k])
        x, y, z = c * x - s * y + 0.3, s * (x + z) + c * y, c * z - s * x + step
    return x * y + y * z


def test_a_long_function_is_compiled_once():
    """Each sine tests whether C's library computes it; elsewhere two copies are compiled."""
    copied = "SG int kernel_1_near("
    second = sg.hessian(arm, target="c").compile("float64[5]")
    assert "static __attribute__((noinline)) int kernel_1_near(" in second.source.native
    assert copied not in second.source.native
    assert copied in sg.grad(lambda x: np.sin(x[0]) * x[1], target="c").source("float64[2]").native
    many = lambda q, x: arm(q) ** 2 * np.sum(np.sin(x * q[0]))
    assert copied in sg.hessian(many, target="c").source("float64[5]", "float64[n]").native

    exactly = sg.hessian(arm, target="numpy")
    near = np.array([0.3, -0.8, 1.9, 0.1, -2.2])
    for far in (0.0, 1e9, 1e18, -1e300):
        q = near.copy()
        q[3] += far
        np.testing.assert_allclose(second(q), exactly(q), rtol=1e-11, atol=1e-13)
