"""Functions of `scipy.special` in C: their errors, special values, signs and derivatives, on several processors."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from scipy import stats

import symgrad as sg
from symgrad.targets.c import toolchain
from symgrad.targets.c.functions import OF_SCIPY
from tests.targets.c.test_native import SPECIAL
from tests.targets.c.test_vector_math import error, setting  # noqa: F401

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")

FUNCTIONS = {
    "erf": (mpmath.erf, 1.5, [(-1, 1), (0.9, 1.1), (-7, 7), (-1e-8, 1e-8)]),
    "erfc": (mpmath.erfc, 6, [(-1, 1), (0.4, 0.6), (-6, 6), (0, 26)]),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), 6, [(0, 1), (0, 30), (-26, 0), (100, 1e5)]),
    "ndtr": (mpmath.ncdf, 6, [(-1, 1)]),
    "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), 9, [(-1.2, 1), (-1e3, -100)]),
    "gammaln": (mpmath.loggamma, 5, [(0, 1), (0.6, 0.8), (0.9, 1.6), (1.9, 3.1), (0, 10), (8, 1e3), (1e-30, 1e-5)]),
    "psi": (mpmath.digamma, 5, [(0, 1), (1.4, 1.5), (0, 12), (9, 1e3), (1e-30, 1e-3)]),
    "entr": (lambda x: -x * mpmath.log(x), 2.5, [(0, 2), (1e-30, 1e-20)]),
}  # fmt: skip
"""By its name in SciPy each function of a number, its largest error in units, and intervals of its arguments."""

TURNS = np.array([0.5, 0.7, 1, 1.5, 2, 3, 4, 7, 8, 10, 26, 28, 40, 100, 1e17, 1e200])
TURNS = np.concatenate([TURNS, np.nextafter(TURNS, 0), -TURNS])
"""Numbers at which formulas change, their neighbours, and numbers far away."""


def test_each_function_of_one_number_is_tested():
    assert OF_SCIPY.keys() - FUNCTIONS == {"xlogy", "xlog1py"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_and_special_values(setting):  # noqa: F811
    dtype, rng = setting, np.random.default_rng(1)
    functions = [getattr(sp, name) for name in FUNCTIONS]
    run = sg.compile(lambda x: tuple(f(x) for f in functions), target="c").compile(f"{np.dtype(dtype)}[n]")
    assert "kernel" in run.source and "np.sum" not in run.source
    smallest = 0 if dtype is np.float64 else 1e-38
    for k, (name, (exactly, most, intervals)) in enumerate(FUNCTIONS.items()):
        for interval in intervals:
            x = rng.uniform(*interval, 150).astype(dtype)
            with mpmath.workdps(40):
                exact = [exactly(mpmath.mpf(float(v))) for v in x]
            kept = [i for i, y in enumerate(exact) if abs(y) > smallest]
            assert error(run(x)[k][kept], [exact[i] for i in kept], dtype) < most, (name, interval)
    special = np.concatenate([SPECIAL, TURNS]).astype(dtype)
    for name, f, found in zip(FUNCTIONS, functions, run(special), strict=True):
        expected = f(special)
        rtol, atol = (1e-13, 1e-300) if dtype is np.float64 else (3e-6, 1e-37)  # SciPy's erfc has no denormal numbers
        atol = 1e-15 if name == "gammaln" else atol  # beside its zeros SciPy's is right to that
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)


def test_signs_of_zeros_and_infinities():
    x = np.array([0.0, -0.0, np.inf, -np.inf])
    for f in (sp.erf, sp.gammaln, sp.psi, sp.xlogy):
        run = sg.compile((lambda x, f=f: f(x, x)) if f is sp.xlogy else (lambda x, f=f: f(x)), target="c")
        found, expected = run(x), f(x, x) if f is sp.xlogy else f(x)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))


@pytest.mark.parametrize("f", [sp.gammaln, sp.psi], ids=["gammaln", "psi"])
def test_negative_numbers(f):
    x = np.array([-0.5, -1.0, -2.25, -7.5, -30.3, 2.0, -1e-5])
    run = sg.compile(f, target="c")
    np.testing.assert_allclose(run(x), f(x), rtol=1e-12)


@pytest.mark.parametrize("f", [sp.xlogy, sp.xlog1py], ids=["xlogy", "xlog1py"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_factor_of_zero_makes_zero(f):
    x, y = (v.ravel().copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):
            a, b = x.astype(dtype), y.astype(dtype)
        rtol = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(sg.compile(f, target="c")(a, b), f(a, b), rtol=rtol)


def likelihoods(r, k):
    normal = np.sum(stats.norm.logcdf(r - 1)) + np.sum(stats.norm.sf(r))
    counts = np.sum(stats.poisson.logpmf(k, r)) + np.sum(stats.nbinom.logpmf(k, r, 0.3))
    return normal + counts + np.sum(stats.gamma.logpdf(r, 2.5)) + np.sum(sp.entr(r / 9))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_likelihoods_and_their_gradients_are_those_of_numpy(level):
    rng = np.random.default_rng(0)
    r, k = rng.uniform(0.5, 5, 40), rng.poisson(3, 40).astype(float)
    found, expected = (sg.value_and_grad(likelihoods, target=target, optimize=level)(r, k) for target in ("c", "numpy"))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-10)


def test_a_loop_with_them_is_c():
    def chain(x):
        for _ in range(50):
            x = 0.9 * x + 0.1 * sp.erf(x) + 0.01 * sp.gammaln(x * x + 1)
        return np.sum(x)

    program = sg.value_and_grad(chain, target="c").compile("float64[n]")
    assert "for " not in program.source
    x = np.linspace(-1, 2, 5)
    np.testing.assert_allclose(program(x)[1], sg.grad(chain)(x), rtol=1e-12)


def test_a_saved_file_needs_no_scipy(tmp_path):
    path = sg.value_and_grad(lambda x: np.sum(sp.log_ndtr(x) + sp.erf(x))).compile("float64[n]").save(tmp_path / "f.c")
    text = path.read_text()
    assert "sg_log_ndtr(" in text and "sg_erf(" in text
    subprocess.run(
        [*toolchain.required().command, "-std=c11", "-c", str(path), "-o", str(tmp_path / "f.o")], check=True
    )


def test_nobody_imports_scipy_for_the_table():
    code = "import sys, symgrad.targets.c.functions; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_of_angles(dtype):
    def f(x):
        return np.sinc(x), np.sinc(np.sinc(x)), np.deg2rad(x), np.radians(x), np.rad2deg(x), np.degrees(x)

    x = np.array([0.0, -0.0, 0.5, 1.0, 2.25, -1e-20, 1e15, -180.0], dtype)
    program = sg.compile(f, target="c").compile(x)
    assert "t6 = kernel_1(x)" in program.source
    for found, expected in zip(program(x), f(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
    slopes = [sg.grad(lambda x: np.sum(np.sinc(x) ** 2), target=target)(x[:6]) for target in ("c", "numpy")]
    np.testing.assert_allclose(*slopes, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=np.finfo(dtype).eps)
