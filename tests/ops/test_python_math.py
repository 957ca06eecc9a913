"""Functions of Python's `math` on traced numbers: values and kinds of numbers as Python has them, and derivatives."""

import cmath
import math
import operator

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, ScalarError, UnsupportedError
from tests.forms import count
from tests.programs import check_derivatives

SMOOTH = {
    **{name: (0.6,) for name in "acos asin atan atanh cbrt cos cosh degrees exp exp2 expm1 fabs".split()},
    **{name: (0.6,) for name in "log log10 log1p log2 radians sin sinh sqrt tan tanh asinh erf erfc gamma".split()},
    "acosh": (1.6,), "lgamma": (2.3,), "atan2": (0.6, -0.3), "pow": (1.7, 2.3), "hypot": (0.6, -1.3, 0.2),
    "log ": (0.6, 2.0), "fmod": (7.3, -2.1), "remainder": (7.3, 2.1), "copysign": (0.6, -2.0),
}  # fmt: skip
FLAT = {
    "floor": (-1.5,), "ceil": (-1.5,), "trunc": (-1.5,), "isnan": (0.5,), "isinf": (np.inf,), "isfinite": (np.nan,),
    "isclose": (1.0, 1.0 + 1e-10), "nextafter": (1.0, 2.0), "ulp": (-3.0,), "modf": (-2.75,), "frexp": (-2.75,),
}  # fmt: skip
WHOLE = {"gcd": (12, 18), "lcm": (4, 6), "comb": (7, 3), "perm": (7, 3)}
SPECIAL = ("erf", "erfc", "gamma", "lgamma")


def of(name):
    function = getattr(math, name.strip())
    if name.strip() in SPECIAL:
        pytest.importorskip("scipy")
    return lambda *args: getattr(math, function.__name__)(*args)


def kinds(x):
    return [*map(kinds, x)] if type(x) is tuple else type(x)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions(name):
    f, args = of(name), SMOOTH[name]
    found = sg.compile(f)(*args)
    assert found == pytest.approx(f(*args), rel=1e-14) and type(found) is float
    check_derivatives(f, *args, rtol=1e-5, atol=1e-7)
    with sg.options(loops="unroll"):  # a function that is not converted
        assert sg.compile(f)(*args) == found


@pytest.mark.parametrize("name", FLAT)
def test_flat_functions(name):
    f, args = of(name), FLAT[name]
    assert sg.compile(f)(*args) == f(*args)
    if name in ("floor", "ceil", "trunc"):
        assert type(sg.compile(f)(*args)) is int
        assert sg.grad(lambda x: x * f(x))(1.25) == f(1.25)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name):
    f, (n, k) = of(name), WHOLE[name]
    found = sg.compile(lambda x: f(x[0], k))(np.array([n]))
    assert found == f(n, k) and isinstance(found, (int, np.integer))


@pytest.mark.parametrize("name", ["sin", "hypot", "floor"])
def test_the_result_is_a_number_of_python(name):
    """Results for single precision are double, and do not widen an array of single precision."""
    f = of(name)

    def scaled(x, v):
        return f(x) * v

    x, v = np.float32(0.7), np.array([1, 2], np.float32)
    found = sg.compile(scaled)(x, v)
    np.testing.assert_array_equal(found, scaled(x, v))
    assert found.dtype == np.float32


def test_the_quotient_of_a_remainder_is_rounded_to_even():
    x, y = np.array([3.5, 2.5, -2.5, 5.0, 7.0, 1e300, 2.0]), np.array([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, np.inf])
    found = sg.compile(lambda x, y: np.array([math.remainder(a, b) for a, b in zip(x, y, strict=True)]))(x, y)
    np.testing.assert_array_equal(found, [*map(math.remainder, x.tolist(), y.tolist())])


CLOSE = [(1.0, 1.0, 1e-9, 0.0), (1.0, 1.1, 0.2, 0.0), (1.0, 1.1, 0.0, 0.01), (np.inf, 1.0, 1.0, 0.0)]
CLOSE += [(np.inf, np.inf, 0.0, 0.0), (np.nan, np.nan, 1.0, 1.0), (-1e9, -1e9 - 1, 1e-9, 0.0)]


@pytest.mark.parametrize("args", CLOSE)
def test_isclose(args):
    with np.errstate(all="ignore"):
        found = sg.compile(lambda a, b, r, t: math.isclose(a, b, rel_tol=r, abs_tol=t))(*args)
    assert found == math.isclose(*args[:2], rel_tol=args[2], abs_tol=args[3])


X = np.array([0.3, -1.2, 2.0])


def sums(x):
    return math.fsum(x) + math.fsum([x[0], 2.0]) + math.fsum(t * t for t in x)


OF_SEVERAL = {
    "fsum": sums,
    "prod": lambda x: math.prod(x) + math.prod([x[0], x[1]], start=2),
    "dist": lambda x: math.dist(x, [1.0, 2.0, 3.0]) + math.dist((x[0], 0.0), (1.0, x[1])),
}


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_functions_of_several_numbers(name):
    f = OF_SEVERAL[name]
    assert sg.compile(f)(X) == pytest.approx(f(X), rel=1e-14)
    sg.check_grads(f, (X,))


def test_in_loops():
    def f(x, mu):
        y = x
        for _ in range(30):
            y = math.sin(y) + 0.1 * math.sqrt(x)
        return y + sum(map(math.exp, [x, y])) * mu

    assert sg.compile(f)(0.7, 0.2) == pytest.approx(f(0.7, 0.2), rel=1e-14)
    check_derivatives(f, 0.7, 0.2, rtol=1e-5, atol=1e-7)


def test_source_of_numbers_is_that_of_math():
    source = sg.value_and_grad(lambda x: math.sin(x) * x).source(1.5)
    assert count(source, "math.sin(x)") == count(source, "_ + x * math.cos(x)") == 1


def test_sizes_are_as_before():
    f = sg.compile(lambda x: np.zeros(math.ceil(x.shape[0] / 2)) + math.sqrt(x.shape[0]) + math.prod(x.shape))
    for n in (3, 4, 7):
        np.testing.assert_allclose(f(np.ones(n)), np.zeros(-(-n // 2)) + math.sqrt(n) + n)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: math.sin(x), ScalarError, "Write np.sin instead of math.sin."),
        (lambda x: math.sin(x[0] + 1j), DTypeError, "complex128[] is not a real number"),
        (lambda x: math.comb(operator.index(5), x.astype(int)[0]), UnsupportedError, "math.comb: k is traced"),
        (lambda x: math.factorial(x.astype(int)[0]), UnsupportedError, "Write scipy.special.gamma(n + 1)."),
    ],
)
def test_refusals(f, error, message):
    with pytest.raises(error) as caught:
        sg.compile(f)(X)
    assert message in str(caught.value)


OF_COMPLEX = {
    "exp": lambda x: cmath.exp(1j * x) * cmath.sqrt(-x), "log": lambda x: cmath.log(x + 1j) + cmath.log(x - 1j, 2),
    "acos": lambda x: cmath.acos(2 + x), "phase": lambda x: cmath.phase(x + 2j) * 1j,
    "polar": lambda x: complex(*cmath.polar(x + 1j)), "rect": lambda x: cmath.rect(2 * x, x),
    "complex": lambda x: complex(x, 2 * x) * complex(imag=x), "finite": lambda x: x * 1j * cmath.isfinite(x),
    "loop": lambda x: sum(complex(x, k) * cmath.exp(1j * k * x) for k in range(30)),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_complex_numbers(name):
    f = OF_COMPLEX[name]
    result = sg.compile(f)(0.3)
    assert isinstance(result, complex)
    assert cmath.isclose(result, f(0.3))
    sg.check_grads(f, (0.3,))


def test_isclose_of_complex_numbers_is_refused():
    with pytest.raises(UnsupportedError, match=r"cmath\.isclose of a traced number is not supported"):
        sg.compile(lambda x: x * cmath.isclose(x, 1j))(2.0)


def of_a_branch(x):
    y = x**0.5 if x < 3 else x
    return y.real


def of_iterations(x):
    for _ in range(20):
        x = x.real**0.9
    return x


OF_ROOTS = {
    "real": lambda x: (x**0.5).real, "imag": lambda x: (3 * x**-1.5 + 1).imag, "np.real": lambda x: np.real(x**0.5),
    "conjugate": lambda x: (x**0.5).conjugate(), "isreal": lambda x: np.isreal(x**0.5),
    "branch": of_a_branch, "loop": of_iterations,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ROOTS)
def test_parts_of_powers_that_python_computes_in_complex_numbers_are_refused(name):
    with pytest.raises(UnsupportedError, match=r"which Python makes complex if x is negative"):
        sg.compile(OF_ROOTS[name], check_first=False)(2.0)


@pytest.mark.parametrize("level", [0, 2])
def test_parts_of_other_numbers(level):
    def f(x):
        root = x**0.5
        return (x**2).real + (2.0**x).imag + (abs(x) ** 0.5).real + x.conjugate(), root, abs(root) ** 2

    compiled = sg.compile(f, optimize=level, check_first=False)
    for x in (2.0, -2.0):
        assert compiled(x) == pytest.approx(f(x), rel=1e-14)
