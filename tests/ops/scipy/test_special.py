"""Every entry for `scipy.special`: inference, values, derivatives, sources; then the ends of their ranges."""

import math
import subprocess
import sys
from functools import partial
from itertools import product

import mpmath as mp
import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Op, reached
from symgrad.core.interpret import interpret
from symgrad.derivatives.pullback import pullback
from symgrad.errors import DTypeError, NotDifferentiableError, UnsupportedError
from symgrad.ops.define import TABLE
from tests.forms import count
from tests.oracle import check_derivatives, check_value, trace
from tests.sweep import check_batch

special = pytest.importorskip("scipy.special")
from symgrad.ops.scipy import load  # noqa: E402

load()
pytestmark = [
    pytest.mark.filterwarnings("ignore:floating point number truncated:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:non-integer arg n is deprecated:DeprecationWarning"),
]
UFUNCS = {
    op.name: f
    for f, op in TABLE.items()
    if isinstance(f, np.ufunc) and isinstance(op, Op) and op.package == "scipy.special"
}
ONE = [name for name, f in UFUNCS.items() if f.nout == 1]
MANY = [name for name, f in UFUNCS.items() if f.nout > 1]
ORDERS = {
    "jv": 0, "jve": 0, "yn": 0, "yv": 0, "yve": 0, "kn": 0, "kv": 0, "kve": 0, "iv": 0, "ive": 0, "expn": 0,
    "pdtr": 0, "pdtrc": 0, "bdtr": (0, 1), "bdtrc": (0, 1), "hyp0f1": 0, "hyp1f1": (0, 1), "hyperu": (0, 1),
    "hyp2f1": (0, 1, 2),
    **dict.fromkeys(
        ("eval_legendre", "eval_chebyt", "eval_chebyu", "eval_chebyc", "eval_chebys", "eval_hermite",
         "eval_hermitenorm", "eval_laguerre", "eval_sh_legendre", "eval_sh_chebyt", "eval_sh_chebyu"), 0
    ), "eval_genlaguerre": (0, 1), "eval_gegenbauer": (0, 1), "eval_jacobi": (0, 1, 2),
}  # fmt: skip
"""The inputs by which there is no derivative."""
INTEGER = {"eval_hermite", "eval_hermitenorm"}
"""Families with degrees that SciPy takes as integers alone."""
ONCE = {
    "gammainc": (0,), "gammaincc": (0,), "gammaincinv": (0,), "gammainccinv": (0,), "betainc": (0, 1),
    "betaincc": (0, 1), "betaincinv": (0, 1), "betainccinv": (0, 1), "chdtr": (0,), "chdtrc": (0,), "gdtr": (1,),
    "gdtrc": (1,), "stdtr": (0,), "stdtrit": (0,),
}  # fmt: skip
"""The inputs by which there is one derivative, and no second."""


def orders(name):
    places = ORDERS.get(name, ())
    return places if isinstance(places, tuple) else (places,)


def draw(name, kinds, shapes, seed=0):
    """Inputs from the domain of an operator: arrays by dtype, Python scalars by type."""
    domains = TABLE[UFUNCS[name]].domain or ((-2.0, 2.0),)
    rng = np.random.default_rng(seed)
    xs = []
    for i, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        low, high = domains[min(i, len(domains) - 1)]
        if kind in (int, float):
            xs.append(kind(2) if high > 2 else 0.5 if kind is float else 0)
        else:
            x = rng.uniform(low, high, shape) if np.dtype(kind).kind == "f" else rng.integers(1, 4, shape)
            xs.append((np.floor(x) if i in orders(name) and name[0] in "bekpy" else x).astype(kind))
    return xs


def outcome(f, *args):
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except TypeError:
        return None


def compare(f, xs):
    """The traced program gives SciPy's shape, dtype and numbers, or refuses as SciPy does."""
    places = [i for i, x in enumerate(xs) if isinstance(x, np.ndarray)]

    def on_arrays(*arrays):
        given = dict(zip(places, arrays, strict=True))
        return f(*[given.get(i, x) for i, x in enumerate(xs)])

    arrays = [xs[i] for i in places]
    if outcome(on_arrays, *arrays) is None:
        with pytest.raises(DTypeError, match=r"^scipy\.special\..* does not take "):
            trace(on_arrays, *arrays)
    else:
        with np.errstate(all="ignore"):
            check_value(on_arrays, *arrays)


DTYPES = (np.float64, np.float32, np.int64, np.int8, np.bool_)


@pytest.mark.parametrize("name", UFUNCS)
def test_inference_and_value_equal_scipy(name):
    f = UFUNCS[name]
    dtypes = DTYPES if f.nin < 3 else (np.float64, np.float32, np.int64)
    for kinds in product(dtypes, repeat=f.nin):
        compare(f, draw(name, kinds, [(2, 3), (3,), (2, 1), (1,)][: f.nin]))
    compare(f, draw(name, [np.float32] * f.nin, [()] * f.nin))
    compare(f, draw(name, [np.float64] * f.nin, [(0, 3)] * f.nin))


@pytest.mark.parametrize("name", [name for name in UFUNCS if UFUNCS[name].nin > 1])
def test_python_scalars_are_weak(name):
    f = UFUNCS[name]
    for array, scalar, at in product(DTYPES, (int, float), range(f.nin)):
        kinds = [scalar] * f.nin
        kinds[at] = array
        compare(f, draw(name, kinds, [(2, 3)] * f.nin))


def with_fixed(name, fixed):
    """The function of the inputs that are not `fixed`, and these."""
    f = UFUNCS[name]
    kinds = [np.int64 if name in INTEGER and i in orders(name) else np.float64 for i in range(f.nin)]
    xs = draw(name, kinds, [(3,)] * f.nin)
    free = [i for i in range(f.nin) if i not in fixed]

    def g(*given):
        full = list(xs)
        for i, x in zip(free, given, strict=True):
            full[i] = x
        return f(*full)

    return g, [xs[i] for i in free]


@pytest.mark.parametrize("name", [name for name in UFUNCS if TABLE[UFUNCS[name]].vjp or TABLE[UFUNCS[name]].partials])
def test_derivatives_equal_finite_differences(name):
    f, xs = with_fixed(name, orders(name))
    check_derivatives(f, *xs, order=1)
    f, xs = with_fixed(name, (*orders(name), *ONCE.get(name, ())))
    check_derivatives(f, *xs)


# ---- against mpmath


def slope(f, *args, wrt=0, order=1):
    """The derivative of f by one of its arguments, at numbers."""
    graph, inputs, outputs = trace(f, *args)
    for _ in range(order):
        (g,) = pullback(graph, outputs, [graph.constant(np.ones(outputs[0].aval.shape))], [inputs[wrt]])
        outputs = [g]
    with np.errstate(all="ignore"):
        return interpret(outputs, dict(zip(inputs, args, strict=True)))[0]


def exact(f, args, wrt, order):
    """With 40 digits; by steps in proportion to the argument."""
    with mp.workdps(40):
        point = [mp.mpf(float(x)) for x in args]
        unit = point[wrt] or mp.mpf(1)
        return mp.diff(lambda t: f(*point[:wrt], point[wrt] + unit * t, *point[wrt + 1 :]), 0, order) / unit**order


def log_ndtr(x):
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def boxcox(x, p):
    return mp.log(x) if p == 0 else mp.expm1(p * mp.log(x)) / p


def dawsn(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


REAL = [-3.7, -0.4, 0.0, 1e-9, 0.3, 2.0, 7.5]
MPMATH = {
    "gammaln": (mp.loggamma, [[1e-10, 0.3, 1.0, 2.5, 1e3, 1e8]]),
    "gamma": (mp.gamma, [[-3.3, -0.5, 1e-3, 0.3, 2.5, 30.0]]),
    "rgamma": (mp.rgamma, [[-7.3, -3.0, -1.0, 0.0, 1e-9, 0.3, 0.7, 2.5, 20.0]]),
    "digamma": (mp.digamma, [[-3.3, -0.5, 1e-3, 0.3, 2.5, 30.0, 1e6]]),
    "beta": (mp.beta, [[0.2, 3.0], [0.7, 20.0]]),
    "betaln": (log_beta, [[0.2, 3.0], [0.7, 20.0]]),
    "poch": (lambda a, m: mp.gamma(a + m) / mp.gamma(a), [[0.2, 30.0], [0.7, 2.5]]),
    "binom": (mp.binomial, [[4.5, 20.3], [0.7, 3.5]]),
    "erf": (mp.erf, [REAL]), "erfc": (mp.erfc, [REAL]), "erfi": (mp.erfi, [REAL]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [[*REAL, 9.9, 10.1, 15.0, 25.0]]),
    "dawsn": (dawsn, [[*REAL, -12.0, 9.9, 10.1, 15.0]]),
    "ndtr": (mp.ncdf, [[*REAL, -30.0]]), "log_ndtr": (log_ndtr, [[*REAL, -30.0, 8.0]]),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), [[*REAL, -60.0, 60.0]]),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), [[*REAL, -60.0, 60.0]]),
    "logit": (lambda p: mp.log(p / (1 - p)), [[1e-12, 0.3, 0.999]]),
    "entr": (lambda x: -x * mp.log(x), [[1e-12, 0.3, 0.999, 1e9]]),
    "xlogy": (lambda x, y: x * mp.log(y), [[1e-9, 3.0], [1e-9, 1.0001, 1e9]]),
    "xlog1py": (lambda x, y: x * mp.log1p(y), [[1e-9, 3.0], [1e-9, 1.0001, 1e9]]),
    "rel_entr": (lambda x, y: x * mp.log(x / y), [[1e-200, 3.0], [1e-9, 3.0001, 1e200]]),
    "kl_div": (lambda x, y: x * mp.log(x / y) - x + y, [[1e-12, 3.0], [1e-9, 3.0000001, 1e12]]),
    "huber": (lambda d, r: r * r / 2 if abs(r) < d else d * (abs(r) - d / 2), [[0.3, 2.0], [-3.0, 0.1, 1.0]]),
    "pseudo_huber": (lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), [[0.3, 2.0], [-3.0, 1e-5, 1.0, 1e9]]),
    "expm1": (mp.expm1, [[*REAL, -60.0]]), "exp10": (lambda x: mp.mpf(10) ** x, [REAL]),
    "log1p": (mp.log1p, [[-0.999, 1e-9, 3.0]]), "cosm1": (lambda x: mp.cos(x) - 1, [REAL]),
    "powm1": (lambda x, y: x**y - 1, [[0.3, 2.0], [-1.5, 1e-9, 0.4]]),
    "exprel": (lambda x: mp.expm1(x) / x, [[-1e6, -600.0, -5.0, -0.49, -0.51, 1e-9, 1e-3, 0.3, 0.7, 20.0, 600.0]]),
    "boxcox": (boxcox, [[1e-9, 0.3, 20.0], [-1.5, 1e-9, 0.4, 2.0]]),
    "boxcox1p": (lambda x, p: boxcox(1 + x, p), [[1e-9, 0.3, 20.0], [-1.5, 1e-9, 0.4, 2.0]]),
    "i0": (lambda x: mp.besseli(0, x), [REAL]), "i1": (lambda x: mp.besseli(1, x), [REAL]),
    "j0": (lambda x: mp.besselj(0, x), [REAL]), "j1": (lambda x: mp.besselj(1, x), [REAL]),
    "y0": (lambda x: mp.bessely(0, x), [[0.1, 3.0, 30.0]]), "y1": (lambda x: mp.bessely(1, x), [[0.1, 3.0, 30.0]]),
    "k0": (lambda x: mp.besselk(0, x), [[0.1, 3.0]]), "k1": (lambda x: mp.besselk(1, x), [[0.1, 3.0]]),
    "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [[-3.0, 0.1, 50.0]]),
    "k1e": (lambda x: mp.exp(x) * mp.besselk(1, x), [[0.1, 9.0]]),
    "jv": (mp.besselj, [[0.5, 2.0, 3.3], [0.1, 3.0, 30.0]]), "iv": (mp.besseli, [[0.0, 3.3], [0.1, 30.0]]),
    "kv": (mp.besselk, [[0.0, 3.3], [0.1, 30.0]]), "yv": (mp.bessely, [[0.0, 3.3], [0.1, 30.0]]),
    "kve": (lambda v, x: mp.exp(x) * mp.besselk(v, x), [[0.0, 3.3], [0.1, 30.0]]),
    "ellipk": (mp.ellipk, [[-5.0, -0.11, -0.09, 1e-9, 0.05, 0.2, 0.999]]),
    "ellipe": (mp.ellipe, [[-5.0, -0.11, -0.09, 1e-9, 0.05, 0.2, 0.999]]),
    "ellipkm1": (lambda p: mp.ellipk(1 - p), [[1e-9, 0.3, 0.95, 1.5]]),
    "expn": (mp.expint, [[0.0, 1.0, 4.0], [0.1, 3.0, 30.0]]), "exp1": (mp.e1, [[0.1, 3.0, 30.0]]),
    "expi": (mp.ei, [[0.1, 3.0, 30.0]]), "spence": (lambda x: mp.polylog(2, 1 - x), [[0.1, 0.9999, 1.0001, 30.0]]),
    "pdtr": (lambda k, m: mp.gammainc(mp.floor(k) + 1, m, regularized=True), [[0.0, 3.0], [0.1, 2.0, 9.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", MPMATH)
def test_derivatives_equal_mpmath(name):
    f, grids = MPMATH[name]
    points = np.array(list(product(*grids))).T
    for wrt in set(range(len(grids))) - set(orders(name)):
        found = slope(getattr(special, name), *points, wrt=wrt)
        expected = [float(mp.re(exact(f, point, wrt, 1))) for point in points.T]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300, err_msg=f"by input {wrt}")


def lower_gamma(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper_gamma(a, x):
    return mp.gammainc(a, x, regularized=True)


def lower_beta(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def gamma_points():
    """Shapes from 1e-8 to 1e5, each from one tail to the other."""
    for a in (1e-8, 0.3, 1.0, 9.99, 10.01, 1e3, 1e5):
        for z in (-9.0, -0.4, 0.0, 0.3, 12.0):
            yield a, max(a + z * math.sqrt(a), a * math.exp(max(-40.0, min(z / math.sqrt(a), 0.0))) * 0.5)
    yield from ((1e-3, 1e-30), (0.3, 1e-200), (2.5, 1e-30), (1e-8, 700.0), (0.3, 100.0))


def beta_points():
    for a, b in product((1e-6, 0.3, 12.0, 60.0), repeat=2):
        for x in (1e-12, 0.02, a / (a + b), 0.93):
            yield a, b, x
    yield from ((9.9, 1e5, 1e-4), (50.0, 1e-3, 0.9999), (0.5, 1e6, 1e-6), (1e4, 2.5, 0.9999))


def by_steps(f, args, wrt):
    """Central differences with 150 digits: enough for tails, where f differs from 1 by 1e-80."""
    with mp.workdps(150):
        point = [mp.mpf(float(x)) for x in args]
        h = point[wrt] * mp.mpf(10) ** -20
        up, down = ([*point[:wrt], point[wrt] + s * h, *point[wrt + 1 :]] for s in (1, -1))
        return float((f(*up) - f(*down)) / (2 * h))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lower", "upper", "f", "points"),
    [("gammainc", "gammaincc", lower_gamma, gamma_points), ("betainc", "betaincc", lower_beta, beta_points)],
)
def test_incomplete_functions_by_every_argument(lower, upper, f, points):
    points = np.array(list(points())).T
    for wrt in range(len(points)):
        expected = [by_steps(f, point, wrt) for point in points.T]
        found = slope(UFUNCS[lower], *points, wrt=wrt)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-290, err_msg=f"by input {wrt}")
        np.testing.assert_array_equal(slope(UFUNCS[upper], *points, wrt=wrt), -found)


@pytest.mark.parametrize(
    ("name", "inverse"),
    [("gammainc", "gammaincinv"), ("gammaincc", "gammainccinv"), ("betainc", "betaincinv"),
     ("betaincc", "betainccinv"), ("stdtr", "stdtrit")],
)  # fmt: skip
def test_inverses(name, inverse):
    """f(a, g(a, p)) = p for all a and p."""
    f, g = UFUNCS[name], UFUNCS[inverse]
    *shapes, p = draw(inverse, [np.float64] * g.nin, [(5,)] * g.nin)
    x = g(*shapes, p)
    by_x = slope(f, *shapes, x, wrt=len(shapes))
    np.testing.assert_allclose(slope(g, *shapes, p, wrt=len(shapes)) * by_x, 1, rtol=1e-9)
    for wrt in range(len(shapes)):
        implicit = -slope(f, *shapes, x, wrt=wrt) / by_x
        np.testing.assert_allclose(slope(g, *shapes, p, wrt=wrt), implicit, rtol=1e-8)


def student(v, t):
    half = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / 2
    return half if t < 0 else 1 - half


def test_student_by_degrees_of_freedom():
    points = np.array(list(product((0.3, 2.0, 30.0), (-50.0, -1.5, 1e-3, 0.4, 6.0)))).T
    found = slope(special.stdtr, *points, wrt=0)
    np.testing.assert_allclose(found, [by_steps(student, point, 0) for point in points.T], rtol=1e-9)
    assert slope(special.stdtr, 3.0, 0.0, wrt=0) == 0


def test_mixed_derivatives_of_incomplete_functions():
    points = (2.5, 1.7), (0.4, 3.0), (30.0, 20.0)
    for a, x in points:
        graph, inputs, outputs = trace(special.gammainc, np.array(a), np.array(x))
        mixed = []
        for first, second in ((0, 1), (1, 0)):
            (g,) = pullback(graph, outputs, [graph.constant(1.0)], [inputs[first]])
            (h,) = pullback(graph, [g], [graph.constant(1.0)], [inputs[second]])
            mixed += interpret([h], dict(zip(inputs, (np.array(a), np.array(x)), strict=True)))
        np.testing.assert_allclose(mixed[0], mixed[1], rtol=1e-12)
        third = slope(special.gammainc, a, x, wrt=1, order=3)
        np.testing.assert_allclose(third, float(exact(density, (a, x), 1, 2)), rtol=1e-9)


def density(a, x):
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


# ---- the ends of the ranges

INF = np.inf


@pytest.mark.parametrize(
    ("name", "args", "wrt", "expected"),
    [
        ("xlogy", (0.0, 0.0), 1, 0.0), ("xlogy", (0.0, 0.0), 0, -INF), ("xlogy", (0.0, 3.0), 0, np.log(3)),
        ("xlog1py", (0.0, -1.0), 1, 0.0), ("entr", (0.0,), 0, INF), ("rel_entr", (0.0, 0.0), 1, 0.0),
        ("rel_entr", (0.0, 2.0), 1, 0.0), ("kl_div", (0.0, 2.0), 1, 1.0), ("kl_div", (0.0, 0.0), 1, 1.0),
        ("kl_div", (1.0, 1.0), 0, 0.0), ("expit", (800.0,), 0, 0.0), ("expit", (-800.0,), 0, 0.0),
        ("expit", (-700.0,), 0, np.exp(-700.0)), ("expit", (700.0,), 0, np.exp(-700.0)),
        ("log_expit", (-800.0,), 0, 1.0), ("log_expit", (800.0,), 0, 0.0), ("logit", (0.0,), 0, INF),
        ("logit", (1.0,), 0, INF), ("log_ndtr", (-1e5,), 0, 1e5 + 1e-5), ("log_ndtr", (-1e300,), 0, 1e300),
        ("log_ndtr", (40.0,), 0, 0.0), ("erfcx", (1e5,), 0, -5.6418958345291e-11), ("erfcx", (-30.0,), 0, -INF),
        ("erfcx", (1e150,), 0, -1 / np.sqrt(np.pi) / 1e300), ("dawsn", (1e8,), 0, -5e-17),
        ("dawsn", (-1e8,), 0, -5e-17),
        ("erf", (1e200,), 0, 0.0), ("erfinv", (1.0,), 0, INF), ("ndtri", (0.0,), 0, INF), ("ndtr", (-1e200,), 0, 0.0),
        ("ndtri_exp", (-1e10,), 0, 7.0710678160e-06), ("exprel", (0.0,), 0, 0.5), ("exprel", (-1e300,), 0, 0.0),
        ("exprel", (709.0,), 0, special.exprel(709.0) * (1 - 1 / 709)), ("exprel", (800.0,), 0, INF),
        ("boxcox", (0.0, 2.0), 1, 0.25),
        ("boxcox", (3.0, 0.0), 1, np.log(3) ** 2 / 2), ("inv_boxcox", (1.5, 0.0), 1, -np.exp(1.5) * 1.5**2 / 2),
        ("ellipk", (0.0,), 0, np.pi / 8), ("ellipe", (0.0,), 0, -np.pi / 8), ("ellipkm1", (1.0,), 0, -np.pi / 8),
        ("i1", (0.0,), 0, 0.5), ("j1", (0.0,), 0, 0.5), ("i0e", (0.0,), 0, 0.0), ("rgamma", (-2.0,), 0, 2.0),
        ("rgamma", (0.0,), 0, 1.0), ("gammaln", (1e300,), 0, np.log(1e300)), ("gammaln", (0.0,), 0, -INF),
        ("huber", (1.0, 1.0), 0, 0.0), ("huber", (1.0, 1.0), 1, 1.0), ("gammainc", (2.0, 0.0), 0, 0.0),
        ("gammainc", (1.0, 0.0), 1, 1.0), ("gammainc", (2.0, 0.0), 1, 0.0), ("gammainc", (0.5, 0.0), 1, INF),
        ("gammainc", (2.0, INF), 0, 0.0), ("gammainc", (2.0, INF), 1, 0.0), ("gammainc", (-1.0, 2.0), 0, np.nan),
        ("betainc", (2.0, 3.0, 0.0), 0, 0.0), ("betainc", (2.0, 3.0, 1.0), 1, 0.0),
        ("betainc", (1.0, 3.0, 0.0), 2, 3.0),
        ("betainc", (2.0, 1.0, 1.0), 2, 2.0), ("betainc", (2.0, 3.0, np.nan), 0, np.nan),
    ],
)  # fmt: skip
def test_slopes_at_the_ends(name, args, wrt, expected):
    np.testing.assert_allclose(slope(getattr(special, name), *map(np.float64, args), wrt=wrt), expected, rtol=1e-9)


def test_parameters_at_the_ends_neither_warn_nor_give_infinities():
    ends = np.array([0.0, 1e-300, 1e-10, 0.5, 1.0, 2.0, 1e10, np.inf])
    a, x = np.meshgrid(ends, ends[1:])
    by_a = sg.elementwise_grad(special.gammainc)(a, x)
    assert (by_a <= 0).all() and np.isfinite(by_a).all()
    a, b, x = np.meshgrid(ends[1:-1], ends[1:-1], np.array([0.0, 1e-300, 0.3, 1 - 1e-16, 1.0]))
    for wrt, sign in ((0, -1), (1, 1)):
        slopes = sg.elementwise_grad(special.betainc, argnums=wrt)(a, b, x)
        known = a + b > 1e-90
        assert (slopes * sign >= 0)[known].all() and np.isfinite(slopes[known]).all() and np.isnan(slopes[~known]).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.where(x > 0, special.gammaln(x), 0),
        lambda x: np.where(x > 0, special.digamma(x), 0),
        lambda x: np.where(x > 0, special.entr(x), 0),
        lambda x: np.where(x > 0, special.logit(x / 4), 0),
        lambda x: np.where(x > 0, special.kv(1, x), 0),
        lambda x: np.where(x > 0, special.gammainc(x, x), 0),
        lambda x: special.xlogy(np.array([0.0, 1.0]), x),
        lambda x: special.rel_entr(np.array([0.0, 1.0]), x),
        lambda x: special.kl_div(np.array([0.0, 1.0]), x),
    ],
)
def test_what_is_not_taken_leaves_no_nan(f):
    assert np.isfinite(slope(f, np.array([0.0, 2.0]))).all()


# ---- functions that are no ufuncs


def function(name):
    return TABLE[getattr(special, name)]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("polygamma", (0,)), ("polygamma", (1,)), ("polygamma", (3,)), ("polygamma", (np.array([0, 1, 2]),)),
        ("zeta", (2.5,)), ("zeta", (3,)), ("spherical_jn", (0,)), ("spherical_jn", (2,)),
        ("spherical_jn", (np.array([0, 1, 2]),)), ("spherical_yn", (1,)), ("spherical_in", (0,)),
        ("spherical_in", (2,)), ("spherical_kn", (0,)), ("spherical_kn", (2,)),
    ],
)  # fmt: skip
def test_functions_of_an_order(name, args):
    x = np.array([0.4, 1.3, 2.9])
    for dtype in (np.float64, np.float32):
        check_value_close(partial(function(name), *args), partial(getattr(special, name), *args), x.astype(dtype))
    check_derivatives(lambda x: function(name)(*args, x), x)


@pytest.mark.parametrize("n", [np.array([0, 1, 2]), np.array([0.0, 1.0, 2.0], np.float32)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64])
def test_polygamma_of_a_traced_order(n, dtype):
    x = np.array([1, 2, 3], dtype)
    want, found = special.polygamma(n, x), sg.compile(function("polygamma"))(n, x)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-6)
    slope = sg.grad(lambda n, x: np.sum(function("polygamma")(n, x)), argnums=1)
    np.testing.assert_allclose(slope(n, x.astype(float)), special.polygamma(n + 1, x.astype(float)), rtol=1e-14)


def check_value_close(traced, plain, x):
    want = np.asarray(plain(x))
    _, inputs, (y,) = trace(traced, x)
    (found,) = interpret([y], {inputs[0]: x})
    assert (y.aval.dtype, y.aval.shape) == (want.dtype, want.shape) == (found.dtype, found.shape)
    np.testing.assert_allclose(found, want, rtol=1e-6 if x.dtype == np.float32 else 1e-14)


def test_spherical_derivatives_are_functions_too():
    x = np.array([0.0, 0.4, 2.9])
    for name, n in product(("spherical_jn", "spherical_in"), (0, 1, 4)):
        found = sg.compile(partial(function(name), n, derivative=True))(x)
        np.testing.assert_allclose(found, getattr(special, name)(n, x, derivative=True), rtol=1e-12, atol=1e-15)


def test_multigammaln_and_zeta_alone():
    x = np.array([1.6, 2.9])
    np.testing.assert_allclose(sg.compile(lambda x: function("multigammaln")(x, 4))(x), special.multigammaln(x, 4))
    check_derivatives(lambda x: function("multigammaln")(x, 3), x)
    np.testing.assert_array_equal(sg.compile(lambda x: function("zeta")(x))(x), special.zeta(x))


# ---- what is refused, and what is written


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: special.jv(x, 2.0), "scipy.special.jv has no derivative by its order"),
        (lambda x: special.kv(x, x), "scipy.special.kv has no derivative by its order"),
        (lambda x: function("zeta")(x, 2.0), "scipy.special.zeta has no derivative by s"),
        (lambda x: function("zeta")(x), "scipy.special.zeta has no derivative by s"),
        (lambda x: function("polygamma")(x, 2.0), "scipy.special.polygamma has no derivative by n"),
        (lambda x: special.hyp1f1(x, 2.0, 0.3), "scipy.special.hyp1f1 has no derivative by a"),
    ],
)
def test_derivatives_that_nobody_has_a_formula_for(f, message):
    with pytest.raises(NotDifferentiableError) as caught:
        sg.grad(f)(1.3)
    assert caught.value.fact == message
    assert caught.value.instead.startswith("Keep ")


@pytest.mark.parametrize(
    ("f", "name"),
    [(lambda a: special.gammaincc(a, 2.0), "gammainc"), (lambda a: special.stdtr(a, 2.0), "betainc")],
)
def test_second_derivatives_by_a_parameter(f, name):
    """The derivative is a function of symgrad's own, which the user does not know."""
    with pytest.raises(
        NotDifferentiableError, match=rf"^scipy\.special\.{name} has no derivative by a parameter once more"
    ):
        sg.grad(sg.grad(f))(1.3)


def test_a_second_derivative_by_a_parameter_is_refused():
    f = sg.elementwise_grad(lambda a: special.gammainc(a, 2.0))
    with pytest.raises(NotDifferentiableError, match="has no derivative by a parameter once more"):
        sg.elementwise_grad(f)(1.3)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (
            lambda x: special.struve(1.0, x),
            "scipy.special.struve has no derivative by a formula that symgrad knows",
        ),
        (lambda x: function("multigammaln")(2.5, x), "scipy.special.multigammaln: d is traced"),
        (lambda x: function("spherical_jn")(x, 2.0), "scipy.special.spherical_jn: the order is a traced float"),
    ],
)
def test_refusals(f, message):
    with pytest.raises(UnsupportedError) as caught:
        sg.compile(f)(1.3)
    assert caught.value.fact == message


@pytest.mark.parametrize("name", [name for name in ONE if name not in ("beta", "round", "gammasgn")])
def test_float32_gradients_are_computed_in_float32(name):
    f, xs = with_fixed(name, orders(name))
    xs = [x.astype(np.float32) for x in xs]
    graph, inputs, (y,) = trace(lambda *xs: f(*xs), *xs)
    if y.aval.dtype == np.float32:
        found = [g for g in pullback(graph, [y], [graph.constant(np.ones(y.aval.shape, np.float32))], inputs) if g]
        assert not [node for node in reached(found) if node.aval.dtype == np.float64 and not node.aval.weak]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_programs_at_all_levels(level):
    """A likelihood: values and gradients as they are at level 0."""

    def loss(a, b, x):
        gammas = special.gammaln(a) + special.xlogy(a - 1, x) - special.gammainc(a, x) + special.betainc(a, b, x / 9)
        return np.sum(gammas + special.log_ndtr(x - b) + special.i0e(x) * special.erf(b) + special.expit(a - x))

    a, b, x = np.random.default_rng(0).uniform(0.5, 3, (3, 40))
    found = sg.value_and_grad(loss, argnums=(0, 1, 2)).compile(a, b, x, optimize=level)(a, b, x)
    value, gradients = found
    np.testing.assert_allclose(value, loss(a, b, x), rtol=1e-13)
    for wrt, g in enumerate(gradients):
        np.testing.assert_allclose(g, slope(lambda *p: np.sum(loss(*p)), a, b, x, wrt=wrt), rtol=1e-12)


@pytest.mark.usefixtures("whole")
def test_derivatives_by_a_shape_run_with_scipy_alone(tmp_path):
    f = sg.grad(lambda a, x: np.sum(special.gammainc(a, x)), argnums=(0, 1))
    program = f.compile("float64[n]", "float64[n]")
    assert count(program.source, "d_a = _gammainc_by_a(_, a, x)") == 1
    program.save(tmp_path / "slopes.py")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy as np, slopes\n"
        "assert 'symgrad' not in sys.modules\n"
        "print(*slopes.function_grad(np.array([2.0]), np.array([1.5]))[0])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    np.testing.assert_allclose(float(found), by_steps(lower_gamma, (2.0, 1.5), 0), rtol=1e-12)


@pytest.mark.parametrize("name", MANY)
def test_several_results_are_batched(name):
    check_batch(UFUNCS[name], np.array([[0.3, 1.2], [0.7, 0.9]]))


def test_the_faddeeva_function_names_real_ones():
    with pytest.raises(UnsupportedError, match="its result is complex") as caught:
        sg.grad(lambda x: special.wofz(x + 0.5j).real)(1.5)
    for name in ("voigt_profile", "dawsn"):
        assert name in caught.value.instead
    x, sigma, gamma = 0.7, 1.2, 0.4
    z = (x + 1j * gamma) / (sigma * np.sqrt(2))
    profile = special.wofz(z).real / (sigma * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(special.voigt_profile(x, sigma, gamma), profile)
    np.testing.assert_allclose(2 / np.sqrt(np.pi) * special.dawsn(x), special.wofz(x).imag)
    np.testing.assert_allclose(np.exp(-x * x), special.wofz(x).real)


CHOICES = {
    "comb": (lambda n, k: special.comb(n, k), np.array([5.0, 3.5, 2.0]), np.array([2.0, 1.2, 3.0])),
    "with repetition": (lambda n, k: special.comb(n, k, repetition=True), np.array([5.0, 3.5]), np.array([2.0, 1.2])),
    "perm": (lambda n, k: special.perm(n, k), np.array([5.0, 3.5, 2.0]), np.array([2.0, 1.2, 3.0])),
    "factorial": (lambda n: special.factorial(n), np.array([0.0, 1.0, 2.5, 4.0, -1.5])),
}


@pytest.mark.parametrize("name", CHOICES)
def test_numbers_of_choices(name):
    f, *args = CHOICES[name]
    if name == "factorial":
        args = [args[0] if not old_factorial() else args[0][1:4]]
    np.testing.assert_allclose(sg.compile(f)(*args), f(*args), rtol=1e-13)
    inside = [x[:2] for x in args]
    sg.check_grads(lambda *args: np.sum(f(*args) ** 2), [x + 0.01 for x in inside])


def old_factorial():
    """Whether SciPy's factorial is of integers alone."""
    try:
        return np.isnan(special.factorial(2.5))
    except (ValueError, TypeError):
        return True


@pytest.mark.parametrize("name", ["comb", "perm", "factorial"])
def test_exact_numbers_of_choices_are_refused(name):
    with pytest.raises(UnsupportedError, match="exact=True counts with integers of Python"):
        sg.trace(lambda n: getattr(special, name)(n, *[2] * (name != "factorial"), exact=True), "float64[]")


def test_a_degree_below_zero_is_refused_or_nan():
    with pytest.raises(UnsupportedError, match="for the degree -2 is not supported"):
        sg.grad(lambda x: special.eval_legendre(-2, x))(0.3)
    slopes = sg.grad(lambda x: np.sum(special.eval_legendre(np.array([-2.0, 0.0, 2.0]), x) * np.eye(3)[0]))(0.3)
    assert np.isnan(slopes)


@pytest.mark.parametrize("name", ["comb", "perm"])
def test_choices_of_an_integer_and_single_precision_are_double(name):
    f = getattr(special, name)
    k = np.array([0.5, 2.0, 7.0], np.float32)
    for call in (lambda k: f(5, k), lambda k: f(np.float32(5), k)):
        assert sg.compile(call)(k).dtype == call(k).dtype
        np.testing.assert_allclose(sg.compile(call)(k), call(k), rtol=1e-5)


@pytest.mark.parametrize("name", ["expit", "log_expit"])
def test_logistic_functions_of_a_list(name):
    f = getattr(special, name)
    np.testing.assert_allclose(sg.compile(lambda x: f([x, 0.5]))(1.0), f([1.0, 0.5]))


# ---- derivatives at infinity, where a factor of them is infinite and another one 0


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize(
    "f", [special.ndtr, special.erf, special.erfc, lambda x: special.ndtr(2 - x), special.expit, np.tanh]
)
def test_derivatives_at_infinity_are_zero(f, target, level):
    x, slope = np.array([-np.inf, -1e150, -50.0, 50.0, 1e150, np.inf]), f
    for _ in range(3):
        slope = sg.elementwise_grad(slope, optimize=level, target=target)
        assert np.abs(slope(x)).max() < 1e-20
        assert np.isnan(slope(np.array([np.nan]))).all()
        check = sg.elementwise_grad(slope) if level == 2 and target == "numpy" else None
        assert check is None or np.isfinite(check(np.array([0.0, 0.3]))).all()


def test_tails_have_derivatives_at_infinity():
    for f, x in ((special.erfcx, np.inf), (special.dawsn, np.inf), (special.dawsn, -np.inf)):
        assert sg.grad(f)(x) == sg.grad(sg.grad(f))(x) == 0.0


@pytest.mark.parametrize("level", [0, 1, 2])
def test_derivatives_of_log_ndtr_far_out_are_zero(level):
    """Derivatives are zero where the slope underflows: probit models of large arguments had Hessians of NaN."""
    slope = special.log_ndtr
    for _ in range(3):
        slope = sg.elementwise_grad(slope, optimize=level)
        assert np.abs(slope(np.array([30.0, 37.0, 37.5, 37.7, 38.0, 1e10, np.inf]))).max() < 1e-180
    bend = sg.elementwise_grad(sg.elementwise_grad(special.log_ndtr, optimize=level), optimize=level)
    x = np.array([-30.0, -1.0, 0.0, 2.0])
    ratio = np.exp(-x * x / 2 - special.log_ndtr(x)) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(bend(x), -ratio * (x + ratio), rtol=1e-10)


def test_a_choice_at_infinity_is_dropped_where_no_derivative_is_taken():
    assert "where" not in sg.grad(special.ndtr).source("float64[]")
    assert "where" not in sg.grad(special.erf).source("float64[]")
    assert "where" in sg.grad(sg.grad(special.erf)).source("float64[]")
