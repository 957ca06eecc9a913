"""scipy.stats: values by every method, at the ends of the support and beyond, derivatives, frozen distributions."""

from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ShapeError, UnsupportedError
from tests import oracle
from tests.programs import check_close, check_derivatives, plain

pytest.importorskip("scipy")
from scipy import linalg, stats
from scipy.stats._distr_params import distcont, distdiscrete

CONTINUOUS = {
    "norm": (), "t": (3.5,), "cauchy": (), "laplace": (), "logistic": (), "gumbel_r": (), "gumbel_l": (),
    "skewnorm": (1.5,), "expon": (), "gamma": (2.3,), "chi2": (3.2,), "invgamma": (2.2,), "lognorm": (0.7,),
    "weibull_min": (1.7,), "rayleigh": (), "halfnorm": (), "halfcauchy": (), "invgauss": (0.8,), "f": (3.0, 5.0),
    "uniform": (), "beta": (2.0, 3.3), "pareto": (2.5,), "truncnorm": (-1.0, 2.0),
}  # fmt: skip
DISCRETE = {
    "poisson": (2.4,), "binom": (5.0, 0.3), "nbinom": (3.0, 0.4), "bernoulli": (0.3,), "geom": (0.3,),
    "betabinom": (6.0, 1.5, 2.5),
}  # fmt: skip
DENSITIES_ALONE = ("skewnorm", "invgauss", "betabinom")
FIXED_SHAPES = {"t": ("cdf", "sf", "logcdf", "logsf")}  # where special functions have no derivative in a shape
PLACES = np.array([-30.0, -3.0, -1.2, 0.0, 0.3, 1.0, 1.7, 2.0, 2.5, 20.0, np.nan])
COUNTS = np.array([-2.0, 0.0, 1.0, 1.5, 2.0, 3.0, 5.0, 6.0, 7.0, 100.0, np.nan])


@pytest.fixture(autouse=True)
def no_warnings():
    with np.errstate(all="ignore"):  # of what is infinite
        yield


def methods_of(name):
    density = ("logpmf", "pmf") if name in DISCRETE else ("logpdf", "pdf")
    return density if name in DENSITIES_ALONE else (*density, "cdf", "sf", "logcdf", "logsf")


def all_methods(name):
    distribution = getattr(stats, name)

    def f(x, *parameters):
        return [getattr(distribution, method)(x, *parameters) for method in methods_of(name)]

    return f


def close(f, *args):
    for found, want in zip(sg.compile(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-15)
        assert found.dtype == np.float64


# ---- values


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name):
    shapes = [np.float64(s) for s in CONTINUOUS[name]]
    close(all_methods(name), PLACES, *shapes)
    close(all_methods(name), PLACES.astype(np.float32), *shapes, np.float64(0.3), np.float64(1.7))
    at_constants = all_methods(name)
    close(lambda *p: at_constants(PLACES, *p), *shapes, np.float64(0.3), np.float64(1.7))


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name):
    shapes = [np.float64(s) for s in DISCRETE[name]]
    close(all_methods(name), COUNTS, *shapes, np.float64(1.0))
    close(lambda *p: all_methods(name)(np.arange(-1, 8), *p), *shapes)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_parameters_that_cannot_be_give_nan(name):
    shapes = (CONTINUOUS | DISCRETE)[name]
    wrong = [(*shapes[:i], -1.5, *shapes[i + 1 :]) for i in range(len(shapes)) if name != "truncnorm"]
    wrong += [(*shapes, 0.0, -1.0)] if name in CONTINUOUS else []
    method = methods_of(name)[0]
    for parameters in wrong if name != "skewnorm" else wrong[1:]:
        found = sg.compile(lambda x, *p: getattr(getattr(stats, name), method)(x, *p))(
            COUNTS, *map(np.float64, parameters)
        )
        assert np.isnan(found).all(), parameters


QUANTILES = """
    norm cauchy laplace logistic gumbel_r gumbel_l expon lognorm weibull_min rayleigh halfnorm halfcauchy uniform pareto
""".split()


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles(name):
    q = np.array([-0.1, 1e-9, 0.2, 0.5, 0.8, 1 - 1e-9, 1.1, np.nan])
    shapes = [np.float64(s) for s in CONTINUOUS[name]]

    def f(q, *parameters):
        return [getattr(stats, name).ppf(q, *parameters, loc=0.3, scale=1.7)]

    close(f, q, *shapes)
    check_derivatives(lambda q, *p: f(q, *p)[0], q[2:5], *shapes, order=1, rtol=1e-4, atol=1e-6)


# ---- derivatives


def inside(name):
    if name in DISCRETE:
        return np.array([0.0]) if name == "bernoulli" else np.array([1.0, 2.0, 3.0])
    x = np.array([1.1, 1.4, 1.9])
    return x / 2 + 1 if name == "pareto" else x / 4 if name in ("uniform", "beta") else x


def split(name):
    """The shapes, in two: those that are whole numbers, or that nothing is differentiated by; and the others."""
    shapes = (CONTINUOUS | DISCRETE)[name]
    first = 1 if name in ("binom", "betabinom") else 0
    return shapes[:first], [np.float64(s) for s in shapes[first:]]


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_derivatives_in_every_parameter(name):
    x, (whole, shapes) = inside(name), split(name)
    more = [np.float64(0.1), np.float64(1.2)] if name in CONTINUOUS else []
    for method in methods_of(name):
        fixed = method in FIXED_SHAPES.get(name, ())

        def f(*p, method=method, fixed=fixed):
            given = (x, *whole) if name in DISCRETE else (p[0],)
            rest = (*shapes, *p[1:]) if fixed else p[name in CONTINUOUS :]
            return getattr(getattr(stats, name), method)(*given, *rest)

        args = [*([x] if name in CONTINUOUS else []), *([] if fixed else shapes), *more]
        check_derivatives(f, *args, order=2 if method.startswith("logp") else 1, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_nothing_comes_from_outside_of_the_support(name, level):
    whole, shapes = split(name)
    low, high = getattr(stats, name).support(*whole, *shapes)
    ends = [low - 3, low - 1, high + 1, high + 30, *([1.5] if name in DISCRETE else [])]
    outside = np.array([x for x in ends if np.isfinite(x)])
    log_density, density = methods_of(name)[:2]

    def total(x, *p):
        y = getattr(getattr(stats, name), log_density)(x, *whole, *p)
        return np.sum(np.where(y > -np.inf, y, 0.0)) + np.sum(getattr(getattr(stats, name), density)(x, *whole, *p))

    slopes = sg.grad(total, argnums=tuple(range(len(shapes) + 1)), optimize=level)
    of_x, *of_shapes = slopes(np.concatenate([outside, inside(name)]), *shapes)
    _, *alone = slopes(inside(name), *shapes)
    assert np.all(of_x[: len(outside)] == 0) and np.all(np.isfinite(of_x))
    np.testing.assert_allclose(of_shapes, alone, rtol=1e-10)


def test_a_density_that_ends_in_zero_has_no_slope_of_nan():
    for distribution, shapes in ((stats.gamma, (2.5,)), (stats.beta, (3.0, 2.5)), (stats.weibull_min, (2.5,))):
        slope = sg.grad(lambda x, d=distribution, s=shapes: np.sum(d.pdf(x, *s)))(np.array([0.0, 0.5]))
        assert slope[0] == 0 and np.isfinite(slope[1])


# ---- all distributions, by the formulas of SciPy's own classes

_KNOWN = (*CONTINUOUS, *DISCRETE)
PARAMETERS = dict([*reversed(distcont), *reversed(distdiscrete)])
OTHERS = [(name, p) for name, p in PARAMETERS.items() if name not in _KNOWN]
NO_DENSITY = """
    irwinhall kappa4 ksone kstwo kstwobign landau levy_stable ncf nct pearson3 studentized_range tukeylambda
    nchypergeom_fisher nchypergeom_wallenius poisson_binom zipfian
""".split()
WHOLE = ("betanbinom", "boltzmann", "hypergeom", "nhypergeom", "randint", "dpareto_lognorm", "erlang")
ORDERS = {
    "geninvgauss": 1,
    "genhyperbolic": 1,
    "ncx2": 1,
    "zipf": 1,
    "gausshyper": 4,
}  # how many shapes stay as they are
LIMITS = ("cdf", "sf", "logcdf", "logsf", "ppf")


def supported(name, methods, x, q, *shapes):
    """Return the methods of a distribution that can be traced; the others are refused by their names."""
    distribution, found = getattr(stats, name), []

    def each(x, q, *p):
        for method in methods:
            try:
                getattr(distribution, method)(q if method == "ppf" else x, *p)
            except UnsupportedError as error:
                assert error.fact == f"scipy.stats.{name}.{method} is not supported"
            else:
                found.append(method)
        return x

    oracle.trace(plain(each), x, q, *shapes)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shapes"), OTHERS, ids=[name for name, _ in OTHERS])
def test_all_other_distributions(name, shapes):
    """Values in the support, at its ends, beyond and at NaN; a derivative in all arguments at once."""
    distribution, discrete = getattr(stats, name), hasattr(getattr(stats, name), "pmf")
    shapes, q = [np.float64(s) for s in shapes], np.array([0.0, 0.13, 0.27, 0.61, 0.83, 1.0])
    x = distribution.ppf(q[1:-1], *shapes).astype(float)
    low, high = distribution.support(*shapes)
    ends = [end for end in (low - 3, low, high, high + 2) if np.isfinite(end)]
    densities = ("logpmf", "pmf") if discrete else ("logpdf", "pdf")
    methods = supported(name, (*densities, *LIMITS), x, q, *shapes)
    assert (densities[0] in methods) == (name not in NO_DENSITY)

    def f(x, q, *p):
        return [getattr(distribution, m)(q if m == "ppf" else x, *p) for m in methods]

    args = np.array([*x, *ends, 0.0, np.nan]), q, *shapes
    more = (1.0,) if discrete else (0.3, 1.7)
    constant = "shapes" if not shapes or OTHERS.index((name, PARAMETERS[name])) % 2 else "places"

    def ways(x, q, more, *p):
        """With all arguments traced, with constant shapes or at constant places in turn, moved and scaled."""
        return f(x, q, *p), f(x, q, *shapes) if constant == "shapes" else f(*args[:2], *p), f(x, q, *p, *more)

    found = sg.compile(ways)(*args[:2], more, *shapes)
    for way, a, b in zip(("traced", constant, "moved"), found, ways(*args[:2], more, *shapes), strict=True):
        for method, value, wanted in zip(methods, a, b, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-7, atol=1e-13, err_msg=f"{method}, {way}")
    fixed = len(shapes) if name in WHOLE else ORDERS.get(name, 0)

    def g(x, q, *p):
        return f(x, q, *shapes[:fixed], *p)

    places = () if discrete else (x, q[1:-1])
    primals = (*places, *shapes[fixed:])
    if not primals:
        return
    at = g if places else lambda *p: g(x, q[1:-1], *p)
    tangents = [np.full_like(p, 0.3 * i + 0.7) for i, p in enumerate(primals)]
    _, slopes = sg.jvp(at, primals, tuple(tangents))
    near = [at(*[p + h * t for p, t in zip(primals, tangents, strict=True)]) for h in (1e-6, -1e-6)]
    for method, slope, *y in zip(methods, slopes, *near, strict=True):
        np.testing.assert_allclose(slope, (y[0] - y[1]) / 2e-6, rtol=3e-4, atol=3e-6, err_msg=method)


@pytest.mark.parametrize("c", [-0.3, -1e-9, 0.0, 1e-9, 1e-3, 0.3])
@pytest.mark.parametrize("name", ["genextreme", "genpareto"])
def test_a_shape_at_which_a_formula_has_a_limit(name, c):
    def f(x, c):
        return getattr(stats, name).logpdf(x, c) + getattr(stats, name).logcdf(x, c)

    x = np.array([0.1, 0.7, 1.9])
    check_derivatives(f, x, np.float64(c), order=1, rtol=1e-4, atol=1e-6)
    close(lambda x, c: [f(x, c)], x, np.float64(c))


# ---- how programs call them

DATA = np.array([0.3, -1.2, 2.2])


def fitted(mu, sigma):
    return np.sum(stats.norm(mu, sigma).logpdf(DATA)) + np.sum(stats.norm.logcdf(DATA, loc=mu, scale=sigma))


def test_frozen_distributions_and_keywords():
    check_derivatives(fitted, np.float64(0.2), np.float64(1.3), rtol=1e-5, atol=1e-8)
    check_close(fitted, np.float64(0.2), np.float64(1.3))
    frozen = stats.gamma(2.0, scale=3.0)
    check_close(lambda x: frozen.logpdf(x), np.array([0.5, 2.0]))
    check_close(lambda p: stats.binom(5, p).logpmf(np.array([0, 3, 6])), np.float64(0.4))
    check_close(lambda a, b: stats.beta(a=a, b=b).pdf(0.3), np.float64(2.0), np.float64(3.0))


def test_methods_are_given_directly():
    slope = stats.norm.pdf(0.3)
    by_key, x = {"normal": stats.norm.cdf}, np.array([0.3, 0.3])
    cdf = stats.norm.cdf
    for f in (cdf, partial(cdf, loc=0.0), lambda x: by_key["normal"](x), sg.checkpoint(cdf)):
        assert sg.grad(f)(0.3) == pytest.approx(slope)
    np.testing.assert_allclose(sg.vmap(stats.norm.logpdf)(x), stats.norm.logpdf(x))
    np.testing.assert_allclose(sg.map(stats.norm.cdf, x), stats.norm.cdf(x))
    sg.check_grads(stats.norm.cdf, (0.3,))
    np.testing.assert_array_equal(sg.grad(linalg.det)(np.eye(2)), np.eye(2))
    np.testing.assert_array_equal(sg.grad(max)(np.array([1.0, 3.0, 2.0])), [0, 1, 0])


def test_the_source_of_a_likelihood():
    source = sg.grad(lambda mu, sigma: np.sum(stats.norm.logpdf(DATA, mu, sigma))).source("float64[]", "float64[]")
    assert "import scipy" not in source and "np.where(sigma > 0" in source


def test_parameters_may_be_arrays():
    mu = np.array([[0.1], [0.4]])
    check_close(lambda mu, b: stats.norm.logpdf(DATA, mu, b), mu, np.array([1.0, 2.0, -1.0]))
    check_close(lambda x, s: stats.lognorm.logpdf(x, s, loc=[0.1, 0.2, 0.3]), mu, np.array([1.0, 2.0, -1.0]))


# ---- several dimensions

COV = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
POINTS = np.random.default_rng(2).standard_normal((4, 3))


@pytest.mark.parametrize("x", [POINTS, POINTS[0], POINTS.reshape(2, 2, 3), POINTS[:1]], ids=lambda x: str(x.shape))
def test_multivariate_normal(x):
    mean = np.array([0.1, 0.2, -0.3])
    check_close(lambda x, m, c: stats.multivariate_normal.logpdf(x, m, c), x, mean, COV)
    check_close(lambda x, m, c: stats.multivariate_normal(m, c).pdf(x), x, mean, COV)
    check_close(lambda x: stats.multivariate_normal(mean, COV).logpdf(x), x)
    check_derivatives(
        lambda x, m, c: stats.multivariate_normal.logpdf(x, m, c), x, mean, COV, order=1, rtol=1e-4, atol=1e-6
    )


def test_sizes_may_be_symbols():
    source = sg.grad(lambda m, c, x: np.sum(stats.multivariate_normal.logpdf(x, m, c))).compile(
        "float64[d]", "float64[d, d]", "float64[n, d]"
    )
    mean = np.array([0.1, 0.2, -0.3])
    np.testing.assert_allclose(source(mean, COV, POINTS), np.linalg.solve(COV, np.sum(POINTS - mean, axis=0)))
    diagonal = sg.compile(lambda m, v, x: stats.multivariate_normal.logpdf(x, m, v)).compile(
        "float64[d]", "float64[]", "float64[n, d]"
    )
    want = stats.multivariate_normal.logpdf(POINTS, mean, 2.0)
    np.testing.assert_allclose(diagonal(mean, np.float64(2.0), POINTS), want)


def test_multivariate_normal_of_one_number_or_a_diagonal():
    check_close(lambda x: stats.multivariate_normal.logpdf(x), DATA)
    check_close(lambda x, v: stats.multivariate_normal.logpdf(x, 0.3, v), DATA, np.float64(2.0))
    check_close(lambda x, v: stats.multivariate_normal.logpdf(x, POINTS[0], v), POINTS, np.float64(2.0))
    check_close(lambda x, v: stats.multivariate_normal.logpdf(x, POINTS[0], v), POINTS, np.array([1.0, 2.0, 3.0]))
    check_close(lambda x: stats.multivariate_normal(cov=COV).pdf(x), POINTS)


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "error", "fact"),
    [
        (lambda x: stats.landau.logpdf(x, 0.3), UnsupportedError, "scipy.stats.landau.logpdf is not supported"),
        (lambda x: stats.skewnorm.cdf(x, 0.3), UnsupportedError, "scipy.stats.skewnorm.cdf is not supported"),
        (
            lambda x: stats.multivariate_normal.logpdf(x, cov=COV, allow_singular=True),
            UnsupportedError,
            "scipy.stats.multivariate_normal: the argument allow_singular= is not supported",
        ),
        (
            lambda x: stats.multivariate_normal.logpdf(x, cov=x),
            ShapeError,
            "scipy.stats.multivariate_normal: a covariance of shape (4, 3), and it must be a square matrix",
        ),
        (
            lambda x: stats.multivariate_normal(x[0], COV).rvs(),
            UnsupportedError,
            "scipy.stats.multivariate_normal(mean, cov).rvs of a traced mean or covariance is not supported",
        ),
    ],
)
def test_refusals_name_scipy(f, error, fact):
    with pytest.raises(error) as caught:
        sg.compile(f)(POINTS)
    assert caught.value.fact == fact
