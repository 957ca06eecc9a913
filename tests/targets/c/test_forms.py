"""Orders, and what C computes by other operators: in loops, where NumPy would cost a whole loop its speed."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.quantiles import METHODS
from tests.targets.c.test_c_files import call, needs_a_compiler, shared
from tests.targets.c.test_complex import assert_as_numpy
from tests.targets.c.test_native import is_whole

rng = np.random.default_rng(0)
SIZES = (1, 5, 32, 33, 65, 300)


ITERATIONS = 9  # of loops that are not unrolled


def looped(f, result):
    """The sum of results over a loop, of numbers in both orders."""

    def total(x):
        found = np.zeros_like(result)
        for k in range(ITERATIONS):
            found = found + f(np.where(k % 2 == 0, x, x[::-1]))
        return found

    return total


def assert_looped(f, x):
    """C computes a function in a loop, and gives what NumPy gives, in its dtype."""
    with np.errstate(all="ignore"):
        assert_as_numpy(looped(f, np.asarray(f(x))), x)


def numbers(n, dtype=float, ties=False):
    """Numbers in no order, among them NaN, infinities and zeros of both signs where there are such."""
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 2 if dtype is bool else 3 if ties else 10**9, n).astype(dtype)
    x = np.round(rng.normal(size=n), 1 if ties else 12).astype(dtype)
    if n > 8:
        x[[1, 4]], x[[2, 5]], x[6], x[7] = np.nan, np.inf, -np.inf, -0.0
    return x


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n):
    assert_looped(np.sort, numbers(n))
    assert_looped(lambda x: np.argsort(x, kind="stable"), numbers(n, ties=True))


@pytest.mark.parametrize("dtype", (np.float32, np.int64, np.int8, np.uint32, bool))
def test_dtypes(dtype):
    assert_looped(np.sort, numbers(40, dtype, ties=True))
    assert_looped(lambda x: np.argsort(x, kind="stable"), numbers(40, dtype, ties=True))


def test_integers_of_64_bits_are_sorted_as_such():
    """Two of them would be equal as floating numbers."""
    x = 2**60 + np.array([3, 1, 2, 0])
    assert_looped(np.sort, x)


def test_numbers_that_c_has_no_keys_for_are_sorted_by_numpy():
    x = rng.integers(0, 2**63, 9).astype(np.uint64) * 2
    f = looped(np.sort, x)
    np.testing.assert_array_equal(sg.compile(f, target="c")(x), f(x))


@pytest.mark.parametrize("axis", (0, 1, 2, None))
@pytest.mark.parametrize("n", (3, 40))
def test_axes(axis, n, usual_sizes):
    x = rng.normal(size=(2, n, 3))
    assert_looped(lambda x: np.sort(x, axis), x)
    assert_looped(lambda x: np.argsort(x, axis), x)
    if axis is not None and n == 3:  # more are sorted ahead of the loop, all at once
        assert_looped(lambda x: np.argsort(np.argsort(x, axis), axis), x)
        assert_looped(lambda x: np.partition(x, 1, axis).min(axis=axis), x)


def test_axes_without_numbers():
    assert_as_numpy(lambda x: np.sort(x) + np.argsort(x), np.empty((3, 0)))
    assert_looped(lambda x: np.sort(x, axis=1), np.empty((0, 3)))


def test_lexsort():
    assert_looped(lambda x: np.lexsort((x[0], x[1])), rng.integers(0, 3, (2, 30)))


def test_few_numbers_are_sorted_without_a_loop():
    assert_as_numpy(lambda x: np.sort(np.sin(x)) * 2, rng.normal(size=9))
    large = rng.normal(size=5000)
    assert not is_whole(sg.compile(lambda x: np.sort(np.sin(x)) * 2, target="c").compile(large))


def test_sizes_that_only_the_call_tells():
    def f(x):
        total = 0.0
        for k in range(ITERATIONS):
            total = total + np.sort(x * k)[0] * np.median(x)
        return total

    g = sg.value_and_grad(f, target="c")
    for n in (5, 7, 50, 8, 33):
        x = rng.normal(size=n)
        value, slope = g(x)
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(slope, sg.grad(f)(x), rtol=1e-12, atol=1e-15)


STATISTICS = {
    "median": np.median,
    "median of rows": lambda x: np.median(np.reshape(x, (2, -1)), axis=1),
    "median of all": lambda x: np.median(np.reshape(x, (2, -1)), keepdims=True),
    "median of two axes": lambda x: np.median(np.reshape(x, (2, 2, -1)), axis=(0, 2)),
    "quantile": lambda x: np.quantile(x, 0.3),
    "quantiles": lambda x: np.quantile(x, [0, 0.25, 0.9, 1]),
    "percentiles of columns": lambda x: np.percentile(np.reshape(x, (-1, 2)), [10, 50], axis=0, keepdims=True),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("n", (4, 36))
def test_order_statistics(name, n):
    """The gradients against NumPy's source, where they are in no loop."""
    f, x = STATISTICS[name], rng.normal(size=n)
    assert_looped(f, x)
    in_loop = looped(f, np.asarray(f(x)))
    g = sg.grad(lambda x: np.sum(in_loop(np.sin(x))), target="c")
    wanted = sg.grad(lambda x: np.sum(5 * f(np.sin(x)) + 4 * f(np.sin(x[::-1]))))(x)
    np.testing.assert_allclose(g(x), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", [x for x in METHODS if x != "averaged_inverted_cdf"])
def test_methods(method):
    f = lambda x: np.append(np.percentile(x, [0, 20, 99, 100], method=method), np.quantile(x, 0.37, method=method))
    assert_looped(f, rng.normal(size=11))
    assert_looped(f, rng.integers(0, 50, 10))


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_beside_infinities(method):
    for x in np.array([1.0, np.inf, np.inf]), np.array([-np.inf, -np.inf, 2.0, 3.0]), np.array([np.inf]):
        for q in (0.2, 0.9, [0.05, 0.99], 1, 0):
            f = lambda x, q=q: np.quantile(x, q, method=method) * 1
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(sg.compile(f, target="c")(x), f(x))


def test_numpy_raises_for_places_and_arrays_that_it_does_not_take():
    x = rng.normal(size=9)

    def at(x, q):
        total = 0.0
        for k in range(ITERATIONS):
            total = total + np.quantile(x * k, q)
        return total

    f = sg.compile(at, target="c")
    assert f(x, 0.3) == at(x, 0.3)
    with pytest.raises(ValueError, match="range"):
        f(x, 1.5)

    def grown(f, x):
        total = 0.0
        for k in range(ITERATIONS):
            total = total + np.sum(f(x[:k]))
        return total

    with pytest.warns(RuntimeWarning):
        assert np.isnan(sg.compile(lambda x: grown(np.median, x), target="c")(x))
    with pytest.raises(ValueError, match="empty"):
        sg.compile(lambda x: grown(lambda y: np.convolve(y, x), x), target="c")(x)


@pytest.mark.parametrize("f", (np.median, np.nanmedian), ids=lambda f: f.__name__)
def test_what_a_loop_is_given_does_not_matter(f):
    def with_loop(x):
        m, s = f(x), 0.0
        for _ in range(200):
            s = np.cos(s + m)
        return s

    run = sg.compile(with_loop, target="c").compile(rng.normal(size=33))
    assert "\n    for " not in str(run.source.program)


@pytest.mark.parametrize("bad", (np.nan, np.inf, -np.inf))
def test_statistics_of_numbers_that_are_not_finite(bad):
    x = np.array([1.0, bad, 2.0, 0.5])
    assert_looped(np.median, x)
    assert_looped(lambda x: np.quantile(x, 0.9), x)


@pytest.mark.parametrize("dtype", (np.float32, np.int64, np.int8, bool))
def test_dtypes_of_statistics(dtype):
    x = rng.integers(0, 100, 9).astype(dtype)
    assert_looped(np.median, x)
    if dtype is not bool:
        assert_looped(lambda x: np.percentile(x, 30), x)


@pytest.mark.parametrize("mode", ("full", "same", "valid"))
@pytest.mark.parametrize("sizes", ((7, 3), (3, 7), (5, 1)))
@pytest.mark.parametrize("function", (np.convolve, np.correlate), ids=lambda f: f.__name__)
def test_convolutions(function, sizes, mode):
    x, v = (rng.normal(size=n) for n in sizes)
    places = np.arange(function(x, v, mode).size)

    def f(x, v):
        found = 0.0
        for k in range(ITERATIONS):
            found = found + np.sum(function(x * k, v, mode) * places)
        return found

    assert_as_numpy(f, x, v)
    assert_as_numpy(lambda x, v: f(x, v) + 0j, x + 1j, v * 1j)
    g = sg.grad(f, (0, 1), target="c").compile(x, v)
    assert is_whole(g)
    wanted = sg.grad(lambda x, v: np.sum(function(x * 36, v, mode) * places), (0, 1))(x, v)
    for found, expected in zip(g(x, v), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_kronecker_products():
    a, b = rng.normal(size=(3, 2)), rng.normal(size=(2, 4))
    assert_as_numpy(lambda a, b: np.kron(a, b) * 2, a, b)
    assert_as_numpy(lambda a, b: np.kron(a[0], b[0]) + 1, a, b)


def test_extremes_without_nan():
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, -2.0]])
    assert_as_numpy(lambda x: (np.nanmax(x) * 2, np.nanmin(x, axis=0), np.nanmax(x, 1, keepdims=True)), x[:, [0, 2, 2]])
    assert_as_numpy(lambda x: (np.nanmax(x) * 2, np.nanmin(x * 2, axis=1)), x)
    assert_as_numpy(lambda x: np.nanmax(x) * np.nanmin(x), np.arange(4))
    g = sg.grad(lambda x: np.sum(np.nanmax(x, 1) ** 2), target="c")
    np.testing.assert_allclose(g(x), [[0, 0, 6], [0, 0, -4]])


@pytest.mark.parametrize("right", (False, True))
def test_bins(right):
    bounds = np.array([0.0, 0.5, 0.5, 2.0])
    y = np.append(rng.normal(size=30), [*bounds, np.nan])
    assert_as_numpy(lambda y: (np.digitize(y, bounds, right) + 1, np.digitize(y, bounds[::-1], right)), y)


def test_pairs_of_results():
    x = np.array([1.5, -2.25, 0.0, -0.0, np.inf, -np.inf, np.nan, -3.0, 1e300])
    assert_as_numpy(lambda x: np.modf(x * 1), x)
    f = sg.compile(lambda x: np.modf(x * 1), target="c")
    for found, expected in zip(f(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(np.signbit(found)[:-3], np.signbit(expected)[:-3])
    assert_as_numpy(lambda x, y: np.divmod(x, y), x[:4], np.array([0.7, 0.7, -1.0, 2.0]))
    assert_as_numpy(lambda x, y: np.divmod(x, y), np.array([7, -7, 8]), np.array([3, 3, -3]))


@needs_a_compiler
def test_a_file_of_c_sorts_any_size(tmp_path):
    def f(x):
        return np.sort(x)[::-1] + np.median(x)

    path = sg.compile(f).compile("float64[n]").save(tmp_path / "sorted.c")
    library = shared(path)
    for n in (1, 9, 200):
        x = rng.normal(size=n)
        code, (found,) = call(library, "f", [n], [x], [(n,)])
        assert code == 0
        np.testing.assert_allclose(found, f(x))


def test_a_robust_mean_is_one_kernel_with_its_hessian():
    def located(x):
        m = 0.0
        for _ in range(4):
            r = x - m
            u = r / (6 * np.median(np.abs(r)))
            w = (1 - u**2) ** 2
            m = np.sum(w * x) / np.sum(w)
        return m

    x = rng.normal(size=9)
    hessian = sg.hessian(located, target="c").compile(x)
    assert is_whole(hessian)
    np.testing.assert_allclose(hessian(x), sg.hessian(located)(x), rtol=1e-9, atol=1e-12)
