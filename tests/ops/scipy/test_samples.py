"""Statistics of samples: SciPy's values and dtypes, also of samples that have none, and their derivatives."""

import inspect
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops.define import TABLE
from tests.programs import check_derivatives

pytest.importorskip("scipy")
from scipy import integrate, stats

NAMES = """zscore zmap gzscore describe gmean hmean pmean tmean skew kurtosis moment sem variation entropy
    median_abs_deviation iqr circmean circvar circstd pearsonr linregress""".split()

STATISTICS = {
    "zscore": lambda x: stats.zscore(x, ddof=1),
    "zscore of all": lambda x: stats.zscore(x, axis=None),
    "zmap": lambda x: stats.zmap(x, 2 * x[::-1] ** 2),
    "gzscore": stats.gzscore,
    "gmean": lambda x: stats.gmean(x, weights=x * x),
    "hmean": lambda x: stats.hmean(x, axis=-1, keepdims=True),
    "pmean": lambda x: stats.pmean(x, 3, weights=[0.5]),
    "pmean of -1.5": lambda x: stats.pmean(x, -1.5),
    "tmean": lambda x: stats.tmean(x, (1, 2.5), (False, True)),
    "tmean of all": lambda x: stats.tmean(x, axis=0),
    "skew": lambda x: stats.skew(x, bias=False),
    "kurtosis": lambda x: stats.kurtosis(x, bias=False),
    "kurtosis of all": lambda x: stats.kurtosis(x, axis=None, fisher=False),
    "moment": lambda x: stats.moment(x, [0, 1, 3]),
    "moment about a centre": lambda x: stats.moment(x, 4, center=1, axis=-1),
    "sem": stats.sem,
    "variation": lambda x: stats.variation(x, ddof=2),
    "entropy": lambda x: stats.entropy(x, base=2, axis=-1),
    "relative entropy": lambda x: stats.entropy(x, x[::-1]),
    "median_abs_deviation": lambda x: stats.median_abs_deviation(x, scale="normal"),
    "deviation from the mean": lambda x: stats.median_abs_deviation(x, center=np.mean, axis=None),
    "iqr": lambda x: stats.iqr(x, axis=0, scale="normal"),
    "iqr by a method": lambda x: stats.iqr(x, rng=(90, 20), interpolation="midpoint"),
    "circmean": lambda x: stats.circmean(x, high=3, low=1),
    "circvar": lambda x: stats.circvar(x, axis=0),
    "circstd": lambda x: stats.circstd(x, axis=-1, normalize=True),
    "pearsonr": lambda x: tuple(stats.pearsonr(x, np.sin(3 * x))),
    "pearsonr of one side": lambda x: tuple(stats.pearsonr(x, x[::-1] ** 2, alternative="less", axis=-1)),
    "linregress": lambda x: [*(fit := stats.linregress(x, np.sin(3 * x))), fit.intercept_stderr],
    "simpson": lambda x: integrate.simpson(x, dx=0.5, axis=0),
    "simpson of a vector": lambda x: integrate.simpson(x[:, 0], x=np.cumsum(x[:, 1])),
    "simpson at places": lambda x: integrate.simpson(x * x, x=np.cumsum(x, axis=0), axis=0),
}
X = np.random.default_rng(0).uniform(0.4, 3, size=(6, 3))
HOLE = np.arange(18).reshape(6, 3) == 7
SAMPLES = {
    "generic": X,
    "odd": X[:5],
    "nan": np.where(HOLE, np.nan, X),
    "infinite": np.where(HOLE, np.inf, X),
    "zero": np.where(HOLE, 0, X),
    "few": X[:3],
    "two": X[:2],
    "constant": np.where([True, False, False], 1.5, X),
}
WITHOUT = ("tmean", "linregress", "pearsonr", "simpson", "simpson of a vector", "simpson at places")
"""SciPy has an error for some samples that are constant or too small."""


@pytest.fixture(autouse=True)
def no_warnings():
    with np.errstate(all="ignore"), warnings.catch_warnings():  # SciPy's of small samples, NumPy's of those without any
        warnings.simplefilter("ignore")
        yield


def check(found, want, rtol=1e-9):
    for y, z in zip(*(t if isinstance(t, (tuple, list)) else [t] for t in (found, want)), strict=True):
        np.testing.assert_allclose(y, z, rtol=rtol, atol=rtol)
        assert (y.dtype, y.shape) == (z.dtype, z.shape)


# ---- values


@pytest.mark.parametrize("name", STATISTICS)
def test_one_program_has_the_values_of_scipy_for_all_sizes(name):
    f = STATISTICS[name]
    program = sg.compile(f, optimize=1).compile("float64[n, d]")
    for kind, sample in SAMPLES.items():
        if kind == "constant" and name in WITHOUT:
            continue
        check(program(sample), f(sample), rtol=1e-7 if name.startswith("pearsonr") else 1e-9)


@pytest.mark.parametrize("name", STATISTICS)
def test_dtypes_and_samples_that_are_too_small(name):
    f = STATISTICS[name]
    few = (X[:1], X[:0]) if name not in WITHOUT else ()
    for sample in (X.astype(np.float32), (4 * X).astype(np.int8), *few):
        check(sg.compile(f, optimize=0)(sample), f(sample), rtol=1e-9 if sample.dtype == float else 1e-3)


@pytest.mark.parametrize("name", STATISTICS)
def test_derivatives(name):
    check_derivatives(STATISTICS[name], X[:5], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_scipy(name):
    own, theirs = (inspect.signature(f).parameters for f in (TABLE[getattr(stats, name)], getattr(stats, name)))
    assert set(own) <= set(theirs)
    assert {k: p.default for k, p in own.items()} == {k: theirs[k].default for k in own}


def test_a_number_a_list_and_booleans_are_samples():
    check(sg.compile(lambda x, y: stats.gmean([x, y, 2.0]))(1.5, 2.5), stats.gmean([1.5, 2.5, 2.0]))
    check(sg.compile(stats.hmean)(np.float64(3.0)), stats.hmean(3.0))
    check(sg.compile(stats.zscore)(np.array([True, False, True])), stats.zscore([True, False, True]))


# ---- results with names


def test_describe():
    want = stats.describe(X)
    for found in (sg.compile(stats.describe)(X), sg.compile(stats.describe).compile("float64[n, d]")(X)):
        assert type(found) is type(want)
        assert found.nobs == 6
        check(found.minmax, want.minmax)
        check(found[2:], want[2:])
    check_derivatives(lambda x: [*(d := stats.describe(x, axis=None))[2:], *d.minmax], X)


def test_a_fitted_line_is_the_class_of_scipy():
    found, want = sg.compile(stats.linregress)(X[:, 0], X[:, 1]), stats.linregress(X[:, 0], X[:, 1])
    assert type(found) is type(want)
    check([found.slope, found.pvalue, found.intercept_stderr], [want.slope, want.pvalue, want.intercept_stderr])


def test_pearsonr_has_a_statistic_and_a_pvalue():
    found, want = sg.compile(stats.pearsonr)(X[:, 0], X[:, 1]), stats.pearsonr(X[:, 0], X[:, 1])
    check([found.statistic, found.pvalue, found.correlation], [want.statistic, want.pvalue, want.correlation])
    big = 1e200 * X[:, 0]
    check(sg.compile(lambda x: stats.pearsonr(x, x**0.5).statistic)(big), stats.pearsonr(big, big**0.5).statistic)
    with pytest.raises(UnsupportedError, match="confidence interval"):
        sg.compile(lambda x: stats.pearsonr(x, x * x).confidence_interval())(X[:, 0])


# ---- in programs


@pytest.mark.parametrize("options", [{"optimize": 0}, {"optimize": 1}, {"target": "c"}])
def test_gradients_of_a_loop(options):
    def f(x):
        total = 0.0
        for i in range(3):
            total = total + stats.skew(x) * stats.zscore(x)[i] + stats.entropy(np.exp(x) / (i + 1.0))
        return total

    x = X[:, 0]
    steps = 1e-6 * np.eye(6)
    want = [(f(x + step) - f(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(sg.grad(f).compile("float64[n]", **options)(x), want, rtol=1e-6, atol=1e-8)


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "error", "fact"),
    [
        (lambda x: stats.skew(x, nan_policy="omit"), UnsupportedError, "scipy.stats.skew: the argument nan_policy= is"),
        (lambda x: stats.pearsonr(x, x, method=object()), UnsupportedError, "pearsonr: the argument method= is not"),
        (lambda x: stats.gmean(x, axis=1), ShapeError, "scipy.stats.gmean: axis 1 is out of bounds for 1 dimensions"),
        (lambda x: stats.tmean(x > 1), DTypeError, "scipy.stats.tmean of bool is not supported"),
        (lambda x: stats.sem(x + 1j), DTypeError, "scipy.stats.sem of complex128 is not supported"),
        (lambda x: stats.pmean(x, x[0]), ArgumentError, "is not a finite number of Python"),
        (lambda x: stats.moment(x, 1.5), ArgumentError, "order=1.5 is not an integer from 0 on"),
        (
            lambda x: stats.iqr(x, rng=(1, 200)),
            ArgumentError,
            r"rng=\(1, 200\) with interpolation='linear' is not known",
        ),
        (lambda x: stats.iqr(x, scale="wide"), ArgumentError, "scale='wide' is unknown"),
        (lambda x: stats.entropy(x, base=-1), ArgumentError, "base=-1 is not positive"),
        (lambda x: stats.linregress(x, x, "both"), ArgumentError, "alternative='both' is unknown"),
        (lambda x: stats.pearsonr(x, x[1:]), ShapeError, "scipy.stats.pearsonr of 6 and 5 numbers"),
        (lambda x: stats.describe(x[:0]), ShapeError, "there is nothing in a sample"),
        (lambda x: integrate.simpson(x, x=x[1:]), ShapeError, "simpson: x of shape"),
    ],
)
def test_refusals(f, error, fact):
    with pytest.raises(error, match=fact):
        sg.compile(f)(X[:, 0])
