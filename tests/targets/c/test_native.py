"""``target="c"``: the same numbers as NumPy's, from kernels that call no NumPy, on any compiler that is there."""

import math
import os
import platform
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from scipy import stats

import symgrad as sg
from symgrad.targets.c import blas, toolchain
from tests.statements import printed_kernels

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")

rng = np.random.default_rng(0)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def mixture(means, scales, x):
    z = (x[:, None] - means) / np.exp(scales)
    logs = -0.5 * z**2 - scales
    top = np.max(logs, axis=1)
    return np.sum(top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1)))


def recurrent(w, u, xs):
    h = np.zeros(3)
    for x in xs:
        h = np.tanh(w @ h + u * x)
        if h[0] > 0.5:
            h = h * 0.9
    return np.sum(h**2)


def halving(x):
    n = 0
    while x > 1e-3:
        x = x * 0.5 + 0.1 * np.sin(x) * x
        n = n + 1
    return x * n


def gathered(table, rows):
    picked = table[rows]
    total = np.zeros(3)
    np.add.at(total, rows % 3, np.sum(picked, axis=1))
    return np.sum(total**2) + np.sum(table[-1])


def nested(x):
    rows = []
    for i in range(20):
        y = x[i % 3]
        for _ in range(18):
            y = 0.5 * y + np.cos(y)
        rows.append(y)
    return np.sum(np.array(rows) ** 2)


def turned(axes, x, box):
    crossed = np.cross(np.exp(axes), x[:, None])
    return np.sum((crossed - box * np.round(crossed / box)) ** 2) + np.sum(np.round(crossed[0], 1) * crossed[0])


def likelihood(factor, x):
    covariance = factor @ factor.T + np.eye(3)
    inner = np.linalg.solve(covariance, x.T) * np.linalg.inv(covariance)[0, 1]
    return np.linalg.slogdet(covariance)[1] + np.linalg.det(covariance) + np.trace(x @ inner) + np.sum(inner[0])


def factored(factor, x):
    covariance = factor @ factor.T + np.eye(3)
    lower, upper = np.linalg.cholesky(covariance), np.linalg.cholesky(covariance, upper=True)
    return 2 * np.sum(np.log(np.diag(lower))) + np.sum(np.linalg.solve(upper.T, x.T) ** 2)


def filtered(gain, xs):
    state, spread = np.zeros(3), np.eye(3)
    for x in xs:
        spread = gain @ spread @ gain.T + np.eye(3)
        state = state + np.linalg.solve(spread, x - state)
    return np.sum(state**2)


def option(spot, volatility, strike):
    """An American put by a binomial tree, whose levels shrink towards the root."""
    levels = 18
    up = np.exp(volatility * np.sqrt(1 / levels))
    p = (1 - 1 / up) / (up - 1 / up)
    values = np.maximum(strike - spot * up ** np.arange(levels, -levels - 1, -2), 0)
    for i in range(levels - 1, -1, -1):
        held = 0.99 * (p * values[:-1] + (1 - p) * values[1:])
        values = np.maximum(held, strike - spot * up ** (i - 2.0 * np.arange(i + 1)))
    return values[0]


def polynomial(roots):
    """The coefficients of a polynomial, one more with each root."""
    c = roots[:1] * 0 + 1
    for r in roots:
        c = np.concatenate([c, np.zeros(1)]) - r * np.concatenate([np.zeros(1), c])
    return np.sum(np.tanh(c))


PROGRAMS = {
    "stencil": (rosenbrock, (rng.normal(size=9),), (0,)),
    "mixture": (mixture, (rng.normal(size=4), rng.normal(size=4) * 0.1, rng.normal(size=30)), (0, 1)),
    "loop": (recurrent, (rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=40)), (0, 1, 2)),
    "while": (halving, (0.7,), (0,)),
    "gather": (gathered, (rng.normal(size=(5, 2)), np.array([0, 4, 4, -1, 2])), (0,)),
    "loops in loops": (nested, (rng.normal(size=3),), (0,)),
    "shrinking": (option, (1.0, 0.3, 1.1), (0, 1, 2)),
    "growing": (polynomial, (np.linspace(-0.5, 0.7, 17),), (0,)),
    "cross": (turned, (rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([0.5, 1.5, 2.5])), (0, 1)),
}
OF_SYSTEMS = {
    "systems": (likelihood, (rng.normal(size=(3, 3)), rng.normal(size=(4, 3))), (0, 1)),
    "cholesky": (factored, (rng.normal(size=(3, 3)), rng.normal(size=(4, 3))), (0, 1)),
    "systems in a loop": (filtered, (0.5 * rng.normal(size=(3, 3)), rng.normal(size=(30, 3))), (0, 1)),
}
"""Programs in which NumPy decides what is singular."""


@pytest.mark.slow
@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("name", PROGRAMS | OF_SYSTEMS)
def test_values_and_gradients_are_those_of_numpy(name, higher):
    """At level 2, and at level 0 or 1 in turn."""
    f, args, wrt = (PROGRAMS | OF_SYSTEMS)[name]
    optimize = 2 if higher else [*PROGRAMS, *OF_SYSTEMS].index(name) % 2
    expected, slopes = sg.value_and_grad(f, wrt, optimize=optimize)(*args)
    value, native = sg.value_and_grad(f, wrt, optimize=optimize, target="c")(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for got, slope in zip(native, slopes, strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-11, atol=1e-12)
        assert type(got) is type(slope)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounded_numbers_are_those_of_numpy(dtype):
    x = np.array([0.5, -0.5, 1.5, 2.5, -0.0, 0.05, 0.15, 12.345, 25.0, np.inf, np.nan, 1e30], dtype=dtype)
    rounded = lambda x: [[np.round(x * 1, d) + 1, np.round(x, d) * 2] for d in (0, 1, 2, -1)]
    f = sg.compile(rounded, target="c").compile(x)
    assert f.answer is not None
    np.testing.assert_array_equal(f(x), np.array(rounded(x)))
    assert np.signbit(sg.compile(lambda x: np.round(x) * 3, target="c")(x)).tolist() == np.signbit(x).tolist()


SYSTEMS = {
    "solve a vector": lambda a: np.linalg.solve(a * 2, a[0]),
    "solve columns": lambda a: np.linalg.solve(a * 2, a[:, :2] + 1),
    "inv": lambda a: np.linalg.inv(a * 2) + 1,
    "det": lambda a: np.linalg.det(a * 2) + 1,
    "slogdet": lambda a: np.linalg.slogdet(a * 2)[1] + np.linalg.slogdet(a * 2)[0],
}


FACTORS = {
    "lower factor": lambda a: np.linalg.cholesky(a * 2) + 1,
    "upper factor": lambda a: np.linalg.cholesky(a * 2, upper=True) + 1,
}


@pytest.mark.parametrize("rows", [1, 2, 5, 16])
def test_small_systems(rows):
    """Each of its own matrix, in one module: it takes longer to start a compiler than to compile one more."""
    dtypes, functions = (np.float64, np.float32), SYSTEMS | FACTORS
    drawn = [rng.normal(size=(rows, rows)) for _ in functions]
    definite = [a @ a.T + np.eye(rows) if name in FACTORS else a for name, a in zip(functions, drawn, strict=True)]
    matrices = [[a.astype(dtype) for dtype in dtypes] for a in definite]
    solved = lambda all: [[f(a) for a in of_both] for f, of_both in zip(functions.values(), all, strict=True)]
    compiled = sg.compile(solved, target="c").compile(matrices)
    assert compiled.answer is not None
    for name, *both in zip(functions, compiled(matrices), solved(matrices), strict=True):
        for dtype, got, expected in zip(dtypes, *both, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9 if dtype is np.float64 else 1e-2, err_msg=name)
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name


SINGULAR = {
    "zeros": np.zeros((3, 3)),
    "alike": np.ones((3, 3)),
    "as rounding has it": np.arange(9.0).reshape(3, 3),
    "a column": np.eye(3) * [1, 0, 1],
    "small": np.diag([1.0, 1e-20, 1.0]),
    "nan": np.full((3, 3), np.nan),
    "inf": np.diag([1.0, np.inf, 1.0]),
    "tiny": np.eye(3) * 1e-200,
    "negative": np.diag([1.0, -1.0, 1.0]),
}


@cache
def of_three_rows(name):
    return sg.compile((SYSTEMS | FACTORS)[name], target="c").compile("float64[3, 3]")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SYSTEMS | FACTORS)
@pytest.mark.parametrize("kind", SINGULAR)
def test_numpy_decides_what_is_singular(kind, name):
    f, bad, compiled = (SYSTEMS | FACTORS)[name], SINGULAR[kind], of_three_rows(name)
    results = []
    for g in (compiled, f):
        try:
            results.append(g(bad))
        except np.linalg.LinAlgError as error:
            results.append(str(error))
    if isinstance(results[1], str):
        assert results[0] == results[1]
    else:
        np.testing.assert_allclose(*results, rtol=1e-12)


@pytest.mark.parametrize(
    "transform", [sg.hessian, sg.jacfwd, lambda f, **o: sg.grad(lambda x: np.sum(sg.grad(f)(x) ** 2), **o)]
)
def test_other_derivatives(transform):
    x = rng.normal(size=6)
    np.testing.assert_allclose(
        transform(rosenbrock, target="c")(x), transform(rosenbrock, target="numpy")(x), rtol=1e-11
    )


def test_a_batch():
    x = rng.normal(size=(4, 6))
    expected = sg.vmap(sg.grad(rosenbrock), target="numpy")(x)
    np.testing.assert_allclose(sg.vmap(sg.grad(rosenbrock), target="c")(x), expected, rtol=1e-12)


def test_one_compilation_serves_all_sizes():
    compiled = sg.grad(rosenbrock, target="c").compile("float64[n]")
    for n in (2, 3, 10, 1000):
        x = rng.normal(size=n)
        np.testing.assert_allclose(compiled(x), sg.grad(rosenbrock, target="numpy")(x), rtol=1e-12)


def is_whole(compiled):
    """Whether C computes a program as one kernel, and NumPy no part of it."""
    lines = [line.split("#")[0] for line in str(compiled.source.program).splitlines()]
    return sum("kernel_1(" in line for line in lines) == 1 and not any("np." in line for line in lines)


@pytest.mark.parametrize(
    ("shift", "axis", "spec"),
    [(1, None, "n"), (-7, 0, "n"), ((1, 2), (0, 0), "n"), (13, None, "n,m"), (-5, 1, "n,m"), ((1, -1), (0, 1), "n,3"),
     ((1, 2, -4), (0, 1, 0), "2,m"), ((1, 1), (2, 0), "2,3,n")],
)  # fmt: skip
def test_rolled_arrays(shift, axis, spec):
    f = lambda x: np.sum(np.roll(np.exp(x), shift, axis) * x) + np.roll(x, shift, axis)
    run = sg.compile(f, target="c").compile(f"float64[{spec}]")
    assert is_whole(run)
    for n in (1, 2, 5):
        x = rng.normal(size=[int(k) if k.isdigit() else n for k in spec.split(",")])
        np.testing.assert_allclose(run(x), f(x), rtol=1e-12)


def test_rolled_arrays_that_may_be_empty(monkeypatch):
    """No remainder by zero is taken: it would be noted, and NumPy asked again."""
    printed_kernels(monkeypatch)
    f = lambda x: np.roll(np.exp(x)[5:], -1)
    run = sg.compile(f, target="c").compile("float64[n]")
    for n in (1, 5, 6, 9):
        np.testing.assert_allclose(run(np.arange(float(n))), f(np.arange(float(n))), rtol=1e-12)


def refined(a, b):
    """Solve a system of more rows than C takes outside of loops."""
    x, total = b * 0, 0.0
    for k in range(30):
        x = np.linalg.solve(a + 0.1 * np.diag(x), b + 0.01 * k)
        total = total + x @ x + np.log(np.linalg.det(a + np.diag(x)))
    return total


def test_larger_systems_in_loops(usual_sizes):
    a, b = rng.normal(size=(20, 20)) + 9 * np.eye(20), rng.normal(size=20)
    run, slopes = (
        made.compile(a, b) for made in (sg.compile(refined, target="c"), sg.grad(refined, (0, 1), target="c"))
    )
    assert is_whole(run)
    assert "range(" not in str(slopes.source.program)  # NumPy inverts all matrices between two kernels
    np.testing.assert_allclose(run(a, b), refined(a, b), rtol=1e-12)
    for found, wanted in zip(slopes(a, b), sg.grad(refined, (0, 1), target="numpy")(a, b), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    with pytest.raises(np.linalg.LinAlgError):
        run(a * 0, b * 0)


INDEXED = {
    "tile": (lambda x: np.tile(np.exp(x), (2, 3)), "3, m"),
    "repeat": (lambda x: np.repeat(x, 2, axis=0) + np.repeat(np.sin(x), 2, 0), "n, m"),
    "pad": (lambda x: np.pad(np.log(x * x + 1), ((1, 0), (2, 3))), "n, m"),
    "edge": (lambda x: np.pad(x, ((0, 2), (1, 1)), mode="edge") * 2, "n, m"),
    "wrap": (lambda x: np.pad(x, ((1, 0), (2, 3)), mode="wrap") * 2, "n, 3"),
    "reflect": (lambda x: np.pad(x, ((0, 0), (2, 1)), mode="reflect") * 2, "n, 3"),
    "symmetric": (lambda x: np.pad(x, ((1, 1), (3, 1)), mode="symmetric") * 2, "n, 3"),
    "trace": (lambda x: np.trace(x, 1) + np.trace(x), "n, m"),
    "linspace": (lambda x: np.linspace(x[0], 3, len(x)) + np.linspace(0, 1, len(x), endpoint=False)[:, None], "n, 2"),
}


@pytest.mark.parametrize("name", INDEXED)
def test_functions_that_move_numbers(name):
    f, spec = INDEXED[name]
    total = lambda x: np.sum(np.sin(f(x)))
    run, slope = (made.compile(f"float64[{spec}]") for made in (sg.compile(f, target="c"), sg.grad(total, target="c")))
    assert is_whole(run)
    for n in (1, 2, 5):
        x = rng.normal(size=[int(k) if k.isdigit() else n for k in spec.split(", ")])
        np.testing.assert_allclose(run(x), f(x), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(slope(x), sg.grad(total, target="numpy")(x), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_of_numbers_with_special_cases(dtype):
    x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype=dtype)
    f = lambda x, y: (np.nan_to_num(x), np.heaviside(x, y), np.float_power(x, y), np.float_power(x, 2))
    run = sg.compile(f, target="c").compile(x, x)
    assert is_whole(run)
    with np.errstate(all="ignore"):
        for y in (x, x[::-1].copy(), np.full_like(x, 3)):
            for got, expected in zip(run(x, y), f(x, y), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-14)
                assert got.dtype == expected.dtype


def test_shifts_of_bits():
    f = lambda x, k: (x << k, x >> k, (x << 3) ^ (x >> 1), np.nan_to_num(x))
    x, k = (a.ravel() for a in np.meshgrid([0, 1, -1, 5, -7, 2**62, -(2**63)], [0, 1, 62, 63, 64, 100]))
    run = sg.compile(f, target="c").compile(x, k)
    assert is_whole(run)
    for got, expected in zip(run(x, k), f(x, k), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_loop_that_rolls_an_array_of_any_length():
    def advect(u):
        for _ in range(5):
            u = u - 0.1 * (u - np.roll(u, 1)) + 0.2 * np.roll(u, len(u) // 2)
        return np.sum(u**2)

    run = sg.grad(advect, target="c").compile("float64[n]")
    assert is_whole(run)
    for n in (1, 2, 7):
        u = rng.normal(size=n)
        np.testing.assert_allclose(run(u), sg.grad(advect, target="numpy")(u), rtol=1e-12)


@pytest.mark.parametrize("function", [np.argmax, np.argmin])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
def test_places_of_extremes(function, dtype):
    f = lambda x: (*(function(x, axis, keepdims=k) for axis in (None, 0, -1) for k in (True, False)), function(x[:, 1]))
    run = sg.compile(f, target="c").compile(f"{np.dtype(dtype)}[n,m]")
    assert is_whole(run)
    arrays = [rng.integers(-2, 3, (3, 4)), np.zeros((1, 2)), -rng.integers(0, 2, (4, 3))]
    if dtype in (np.float64, np.float32):
        arrays += [np.array([[1, np.nan, np.inf], [-np.inf, np.nan, 0], [-np.inf] * 3]), np.full((2, 2), -np.inf)]
    for x in (a.astype(dtype) for a in arrays):
        for got, expected in zip(run(x), f(x), strict=True):
            np.testing.assert_array_equal(got, expected)
            assert np.asarray(got).dtype == expected.dtype and np.shape(got) == expected.shape


def test_a_singular_matrix_ends_a_loop_that_would_go_on_without_end():
    def f(A, x):
        while x > 1:
            x = 0.5 * x + np.linalg.inv(A)[0, 0]
        return x

    gradient = sg.value_and_grad(f, argnums=1, target="c", check_first=False)
    assert gradient(np.diag([-1.0, 1.0]), 3.0) == (0.5, 0.5)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        gradient(np.ones((2, 2)), 3.0)


@pytest.mark.parametrize("function", [np.argmax, np.argmin, np.max, np.min])
def test_there_is_no_extreme_of_no_numbers(function):
    whole = sg.compile(lambda x: function(x[1:]) * 2, target="c").compile("float64[n]")
    rows = sg.compile(lambda a: function(a[2:, 1:], axis=1) * 2, target="c").compile("float64[n,m]")
    assert is_whole(whole) and is_whole(rows) and whole(np.arange(3.0)) == 2 * function(np.arange(1.0, 3.0))
    for run, a in ((whole, np.ones(1)), (rows, np.ones((3, 1)))):
        with pytest.raises(ValueError, match=r"zero-size|empty sequence"):
            run(a)
    assert rows(np.ones((2, 2))).shape == (0,)


def test_elimination_with_pivots_is_one_kernel():
    def pivoted(a, b):
        a, b, n = a.copy(), b.copy(), len(b)
        for k in range(n - 1):
            p = k + np.argmax(np.abs(a[k:, k]))
            if p != k:
                a[[k, p]], b[[k, p]] = a[[p, k]], b[[p, k]]
            for i in range(k + 1, n):
                b[i] -= a[i, k] / a[k, k] * b[k]
                a[i, k:] -= a[i, k] / a[k, k] * a[k, k:]
        return np.sum(b / np.diag(a))

    run = sg.grad(pivoted, (0, 1), target="c").compile("float64[n,n]", "float64[n]")
    assert is_whole(run)
    for n in (1, 2, 6):
        args = rng.normal(size=(n, n)), rng.normal(size=n)
        for got, expected in zip(run(*args), sg.grad(pivoted, (0, 1), target="numpy")(*args), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_sizes_that_only_running_tells():
    def counted(x):
        values = []
        while x > 0.1:
            x = x * 0.7
            values.append(np.sin(x))
        return np.sum(np.array(values) ** 2)

    value, slope = sg.value_and_grad(counted, target="c")(2.0)
    expected = sg.value_and_grad(counted, target="numpy")(2.0)
    np.testing.assert_allclose((value, slope), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "layout", [np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2], lambda a: a[::-1, ::-1]]
)
def test_arguments_in_any_order(layout):
    f = lambda a: np.sum(np.exp(a) * a[0])
    a = layout(rng.normal(size=(3, 4)))
    np.testing.assert_allclose(sg.grad(f, target="c")(a), sg.grad(f, target="numpy")(a), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_dtypes(dtype):
    f = lambda x, k: np.sum(np.where(k > 0, x * k, np.tanh(x)))
    k = (rng.normal(size=5) * 3).astype(dtype)
    x = rng.normal(size=5).astype(np.float32 if dtype is np.float32 else float)
    got, expected = (sg.value_and_grad(f, target=target)(x, k) for target in ("c", "numpy"))
    assert [np.asarray(y).dtype for y in got] == [np.asarray(y).dtype for y in expected]
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-6)


def test_what_c_does_not_compute_is_computed_by_numpy():
    def f(a, b):
        return np.sum(np.linalg.eigvalsh(np.exp(a + a.T) + 3 * np.eye(3)) * np.sin(b))

    a, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    compiled = sg.grad(f, (0, 1), target="c").compile(a, b)
    assert "kernel_1(" in compiled.source.program and "np.linalg.eigh" in compiled.source.program
    assert "# kernel_1: the machine code of the C in source.native, kept beside this source" in compiled.source
    for got, expected in zip(compiled(a, b), sg.grad(f, (0, 1), target="numpy")(a, b), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.skipif(blas.found() is None, reason="NumPy's BLAS has other names")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_of_large_matrices_are_those_of_numpy(dtype):
    def network(w, v, x):
        return np.sum(np.tanh(np.tanh(x[1:] @ w) @ v) ** 2, axis=0)

    args = [rng.normal(size=shape).astype(dtype) for shape in ((20, 64), (64, 32), (40, 20))]
    specs = [f"{np.dtype(dtype)}[{shape}]" for shape in ("20, 64", "64, 32", "n, 20")]
    run = sg.compile(network, target="c").compile(*specs)
    assert run.source.native.count("gemm('N', 'N', ") == 2
    rounding = {"rtol": 1e-4, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-13}
    for n in (40, 2, 1):
        np.testing.assert_allclose(run(*args[:2], args[2][:n]), network(*args[:2], args[2][:n]), **rounding)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run(*args), range(40)))
    assert all(np.array_equal(x, results[0]) for x in results)


@pytest.mark.skipif(blas.found() is None, reason="NumPy's BLAS has other names")
@pytest.mark.parametrize(("n", "in_blocks"), [(500, False), (40_000, True)])
def test_products_of_what_no_cache_holds_stay_in_blocks_of_rows(n, in_blocks):
    x, w = rng.normal(size=(n, 30)), rng.normal(size=(8, 30, 30))
    f = lambda w, x: np.sum(np.log1p(np.sum(((x * w[:, :1]) @ w - x) ** 2, axis=-1))) + np.sum(np.tanh(w))
    run = sg.value_and_grad(f, target="c").compile(w, x)
    assert ("_in_parts(" in run.source) == in_blocks
    expected = sg.value_and_grad(f, target="numpy")(w, x)
    for got, wanted in zip(run(w, x), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-8)


def test_transposed_factors_are_computed_in_the_order_of_their_rows():
    def f(x, w):
        return (np.exp(x) - w).T @ x

    x, w = rng.normal(size=(50, 20)), rng.normal(size=20)
    run = sg.compile(f, target="c").compile(x, w)
    assert "gemm('T', 'N', " in run.source.native
    np.testing.assert_allclose(run(x, w), f(x, w), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("places", [np.arange(5000), np.arange(5000)[::-1].copy(), np.arange(0, 5000, 7), np.arange(3)])
def test_constants_that_count_are_indices_of_loops(places):
    def f(x, rows):
        return np.sum(np.exp(x[places, 1]) * places) + np.sum(np.sin(x[rows[: places.size], 0]))

    x, rows = rng.normal(size=(5000, 2)), rng.integers(0, 5000, size=5000)
    run = sg.value_and_grad(f, target="c").compile(x, rows)
    assert "static const" not in run.source.native and "kernel_2" not in run.source
    assert "np.arange" not in run.source.program
    for got, expected in zip(run(x, rows), sg.value_and_grad(f, target="numpy")(x, rows), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_constants_that_count_from_minus_zero_keep_its_sign():
    run = sg.compile(lambda x: np.exp(x) * np.array([-0.0, 1.0, 2.0]) / 2, target="c")
    assert "static const" in run.source("float64[3]").native
    assert np.signbit(run(np.zeros(3))).tolist() == [True, False, False]


def test_large_constants_are_given_to_the_first_kernel():
    rows = rng.integers(0, 50, size=5000)

    def f(x):
        y = np.exp(x)
        return np.sum(y[rows] * np.sum(y))

    run = sg.value_and_grad(f, target="c").compile(x := rng.normal(size=50))
    assert "kernel_1(x, c1)" in run.source and "kernel_2" not in run.source
    for got, expected in zip(run(x), sg.value_and_grad(f, target="numpy")(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_sums_over_several_axes_in_one_nest():
    f = sg.compile(
        lambda a: (np.sum(np.exp(a), axis=(0, 2)), np.sum(np.exp(a)), np.mean(np.exp(a), axis=1)), target="c"
    )
    a = rng.normal(size=(5, 6, 70))
    for got, expected in zip(f(a), (np.exp(a).sum((0, 2)), np.exp(a).sum(), np.exp(a).mean(1)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.usefixtures("flags_of_users")
def test_sums_in_single_precision_are_as_exact_as_pairwise_ones():
    x = rng.uniform(0, 1, (3, 300_000)).astype(np.float32)
    along, down = sg.compile(lambda x: (np.sum(x, axis=1), np.sum(x.T, axis=0)), target="c")(x)
    assert along.dtype == down.dtype == np.float32
    for got in (along, down):
        np.testing.assert_allclose(got, x.astype(float).sum(1), rtol=1e-6)


def test_an_index_beyond_the_end_raises_as_in_numpy():
    def picked(x, i):
        y = np.sin(x)
        return np.sum(y[i] ** 2)  # picked

    f = sg.grad(picked, target="c")
    x = rng.normal(size=4)
    f(x, np.array([0, -4]))
    for i in (4, -5):
        with pytest.raises(IndexError, match=f"index {i} is out of bounds for axis 0 with size 4") as found:
            f(x, np.array([0, i]))
        (note,) = found.value.__notes__
        assert re.fullmatch(r"  at test_native.py:\d+: return np.sum\(y\[i\] \*\* 2\)  # picked", note)


def test_a_singular_matrix_names_the_users_line():
    f = sg.grad(lambda a: np.sum(np.linalg.inv(a)), target="c")
    f(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as found:
        f(np.ones((2, 2)))
    assert "np.linalg.inv(a)" in found.value.__notes__[0]


@pytest.mark.parametrize("of", [np.linalg.inv, lambda a: np.linalg.solve(a, a[0]), np.linalg.cholesky])
def test_what_the_user_raises_comes_before_what_is_singular(of):
    def guarded(x):
        a = np.array([[x[0], 1.0], [1.0, x[1]]])
        if np.linalg.det(a) <= 0:
            raise ValueError("no such matrix")
        return np.sum(of(a))

    f = sg.compile(guarded, target="c")
    np.testing.assert_allclose(f(np.array([2.0, 3.0])), guarded(np.array([2.0, 3.0])))
    with pytest.raises(ValueError, match="no such matrix"):
        f(np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="no such matrix"):  # by NumPy, between kernels
        sg.vmap(sg.grad(guarded), target="c")(np.array([[2.0, 3.0], [1.0, 1.0]]))


def test_results_are_the_callers_own():
    f = sg.compile(lambda x: (np.sin(x), x * 2, x), target="c")
    x = rng.normal(size=3)
    first, second = f(x), f(x)
    first[0][:] = 7
    first[2][:] = 7
    np.testing.assert_allclose(second[0], np.sin(x))
    assert not np.any(x == 7)


def test_threads_call_at_once():
    compiled = sg.grad(mixture, (0, 1), target="c").compile("float64[k]", "float64[k]", "float64[n]")
    given = [(rng.normal(size=4), rng.normal(size=4), rng.normal(size=5000 + i)) for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda args: compiled(*args), given))
    for args, (means, _) in zip(given, found, strict=True):
        np.testing.assert_array_equal(means, compiled(*args)[0])


def test_a_saved_module_is_numpy(tmp_path):
    compiled = sg.grad(rosenbrock, target="c").compile("float64[n]")
    text = compiled.save(tmp_path / "slope.py").read_text()
    assert "kernel" not in text and "np." in text


def test_the_source_in_c_is_there():
    compiled = sg.grad(rosenbrock, target="c").compile("float64[n]")
    assert "static int kernel_1(int64_t n, const double *restrict x" in compiled.source.native
    assert sg.grad(rosenbrock, target="numpy").compile("float64[n]").source.native == ""


def test_names_of_the_users_that_are_words_of_c():
    def f(double, exp, self):
        int_ = double * np.exp(exp)
        return np.sum(int_ * self)

    args = [rng.normal(size=3) for _ in range(3)]
    np.testing.assert_allclose(sg.grad(f, target="c")(*args), np.exp(args[1]) * args[2], rtol=1e-12)


def test_a_size_with_the_name_of_a_function_that_the_program_calls():
    compiled = sg.compile(lambda x: np.sum(np.exp(x) * x), target="c").compile("float64[abs]")
    x = rng.normal(size=5)
    np.testing.assert_allclose(compiled(x), np.sum(np.exp(x) * x), rtol=1e-12)


def test_an_unknown_target():
    with pytest.raises(sg.errors.ArgumentError, match="target='rust'"):
        sg.grad(rosenbrock, target="rust")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
def test_a_signal_ends_a_long_loop():
    """Run handlers while a kernel runs, and let them call kernels: those have memory of their own."""

    def turned(x, steps):
        k = 0.0
        while k < steps:
            x = x[::-1] + 0.5
            k = k + 1.0
        return np.sum(x)

    run = sg.compile(turned, target="c").compile("float64[n]", "float64[]")
    x, seen, ending = np.arange(1000.0), [run(np.arange(1000.0), 3.0)], False

    def handler(number, frame):
        nonlocal ending
        seen.append(run(x, 3.0))
        if ending:
            ending = False  # so may the next one, before the timer ends
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        while len(seen) < 3:
            assert run(x, 3e5) == np.sum(x) + 1.5e8
        with pytest.raises(KeyboardInterrupt):
            ending = True  # a signal may come before the call, and would end the tests if it were not expected
            run(x, 1e9)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert {*seen, run(x, 3.0)} == {turned(x, 3.0)}


def test_loops_that_compilers_vectorise_hear_no_signals():
    source = sg.grad(rosenbrock, target="c").source("float64[n]").native
    assert "if (sg_ends" not in source


@pytest.mark.usefixtures("flags_of_users")
def test_choices_of_numbers_in_rows_of_three():
    """gcc 12 computes them wrongly where it reads a number only if it is chosen."""

    def f(x, y):
        edge = 1.0 - 0.5 * ((x == 0.0) | (x == 1.5))
        return np.where((x >= 0.0) & (x <= 1.5), 0.25 * y * edge, 0.0) + 0

    x, y = rng.normal(size=(2, 3000, 3))
    np.testing.assert_array_equal(sg.compile(f, target="c").compile(x, y)(x, y), f(x, y))


# ---- functions of their own


def units(x, exact, dtype):
    """Return the largest distance of numbers from exact ones, in units in the last place."""
    nearest = np.array([dtype(float(y)) for y in exact])
    return max(
        float(abs(mpmath.mpf(float(a)) - b)) / float(np.spacing(abs(c)))
        for a, b, c in zip(x, exact, nearest, strict=True)
    )


DOMAINS = {
    "exp": ((-2, 2), (-700, 700)), "expm1": ((-1, 1), (-40, 700)), "log": ((0.5, 2), (1e-300, 1e300)),
    "log1p": ((-0.9, 2), (1e-20, 1e300)), "tanh": ((-1, 1), (-25, 25)), "sin": ((-7, 7), (-1e5, 1e5)),
    "cos": ((-7, 7), (-1e5, 1e5)), "tan": ((-7, 7), (-1e5, 1e5)),
}  # fmt: skip
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 1e15, 710.0])


@pytest.mark.parametrize("f", [np.maximum.accumulate, np.minimum.accumulate], ids=["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_extremes_so_far(f, dtype):
    def weighted(x):
        return np.sum(f(x) * np.arange(1, x.shape[0] + 1)) + np.sum(f(np.outer(x, x[::-1]), axis=1) ** 2)

    x = np.array([3, 1, 4, 1, 5, 9, 2, 6]).astype(dtype)
    program = sg.compile(weighted, target="c").compile(f"{dtype}[n]")
    assert "accumulate" not in program.source
    assert program(x) == weighted(x)
    if dtype == "float64":
        np.testing.assert_array_equal(sg.grad(weighted, target="c")(x), sg.grad(weighted)(x))
        with_nan = np.where(x == 4, np.nan, x)
        np.testing.assert_array_equal(sg.compile(f, target="c")(with_nan), f(with_nan))


def test_signs():
    run = sg.compile(lambda x: (np.sign(x), np.sign(x.astype(np.float32))), target="c").compile("float64[n]")
    with np.errstate(over="ignore"):
        for found, expected in zip(run(SPECIAL), (np.sign(SPECIAL), np.sign(SPECIAL.astype(np.float32))), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_function_whose_name_is_not_ascii():
    def größe(α):
        return np.sum(np.sin(α) * α)

    x = np.array([0.5, -1.0])
    np.testing.assert_allclose(sg.grad(größe, target="c")(x), np.sin(x) + x * np.cos(x), rtol=1e-14)


@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("name", DOMAINS)
def test_functions_are_exact_to_a_unit_or_two(name):
    function, rng = getattr(np, name), np.random.default_rng(1)
    run = sg.compile(lambda x: function(x), target="c").compile("float64[n]")
    for low, high in DOMAINS[name]:
        wide = high > 1e100
        x = 10 ** rng.uniform(-290, 290, 300) if wide else rng.uniform(low, high, 300)
        exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        assert units(run(x), exact, np.float64) < (2.5 if name in ("tan", "tanh") else 1.8)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(SPECIAL), function(SPECIAL), rtol=1e-14)
        np.testing.assert_array_equal(
            np.signbit(run(np.array([-0.0, 0.0]))), np.signbit(function(np.array([-0.0, 0.0])))
        )


def edges(dtype):
    """Return numbers at which the reduction of arguments is hardest, to both sides, and what lies beyond it."""
    quarters = np.array([float(k * mpmath.pi / 4) for k in (*range(1, 40), 12345, 2**20 + 1, 2**28 - 1, 2**39 + 1)])
    powers = 2.0 ** np.array([-1074, -1022, -149, -126, -30, 1, 20, 28.99, 29, 29.01, 39.99, 40, 40.01, 60, 100])
    x = np.concatenate([quarters, powers, [np.finfo(dtype).max]]).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(1e30))])
    return np.concatenate([x, -x])


@cache
def reduced(name, dtype):
    """Return arrays of arguments, and for each number of them minus the function, of which some take 1400 bits."""
    rng = np.random.default_rng(1)
    drawn = [rng.uniform(-high, high, 300).astype(dtype) for high in (1e-3, 7, 1e5, 2e8)]
    with mpmath.workprec(1400):
        hard = edges(dtype)
        near = hard[np.abs(hard) < 2.0**28]
        return [(x, [-getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]) for x in (near, hard, *drawn)]


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["", "-mno-fma"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_are_reduced_exactly(name, dtype, flags, monkeypatch):
    if flags and platform.machine() != "x86_64":
        pytest.skip("a flag of x86-64")
    monkeypatch.setenv("SYMGRAD_CFLAGS", flags)
    function = getattr(np, name)
    run = sg.compile(lambda x: -function(x), target="c").compile(f"{np.dtype(dtype)}[n]")
    for x, exact in reduced(name, dtype):
        assert units(run(x), exact, dtype) < (2.5 if name == "tan" else 1.5)
    with np.errstate(all="ignore"):
        special = SPECIAL.astype(dtype)
        np.testing.assert_allclose(run(special), -function(special), rtol=1e-6 if dtype is np.float32 else 1e-14)
        np.testing.assert_array_equal(run(special[5:7]), [np.nan] * 2)
    zeros = np.array([0.0, -0.0], dtype)
    np.testing.assert_array_equal(np.signbit(run(zeros)), np.signbit(-function(zeros)))


def test_a_program_that_meets_a_very_large_argument():
    """Start again with functions of C's library: what the first run has summed, stacked or stored is gone."""

    def f(x, steps):
        kept, k = [x], 0
        while k < steps:
            x = x * 30.0 + np.sin(x)
            kept.append(np.cos(x))
            k = k + 1
        return np.sum(np.array(kept)) + np.sum(np.sin(kept[-1] * np.arange(5.0)))

    run, expected = (sg.value_and_grad(f, target=target) for target in ("c", "numpy"))
    for steps in (3.0, 40.0):
        np.testing.assert_allclose(run(0.7, steps), expected(0.7, steps), rtol=1e-12)


def chosen(x, y, is_first):
    a, b = np.where(is_first, np.exp(x * y), y), np.where(is_first, y, np.exp(-x))
    return np.sum((a - b) ** 2 + np.sqrt(a * a + b * b + x**4) + np.log(1 + a**2) * b / (1 + y**2) + x * y * a)


def others(x, y):
    exponentials = np.exp2(x) + np.sinh(x) + np.cosh(x), np.log2(y) + np.log10(y) + np.cbrt(x)
    return *exponentials, np.arcsin(x) + np.arccos(x), np.arctan(x) + np.arctan2(x, y)


def of_scipy(x):
    return np.sum(sp.erf(x) + sp.erfc(x) + sp.log_ndtr(x) + sp.gammaln(x) + sp.xlogy(x, x))


VECTORISED = {
    "sin": (sg.grad, lambda x: np.sum(np.sin(x) * np.tan(x)), ["float64[n]"]),
    "powers": (sg.compile, lambda x, y: np.exp(x) ** y + y, ["float64[n]", "float64[]"]),
    "several powers": (sg.grad, lambda x: np.sum(x**1.4 + x**0.3 + x**2.7), ["float64[n]"]),
    "several powers in single precision": (sg.compile, lambda x: np.sum(x**1.4 + x**0.3), ["float32[n]"]),
    "other functions": (sg.compile, others, ["float64[n]", "float64[n]"]),
    "other functions in single precision": (sg.compile, others, ["float32[n]", "float32[n]"]),
    "special functions": (sg.grad, of_scipy, ["float64[n]"]),
    "counts": (sg.value_and_grad, lambda r, k: np.sum(stats.poisson.logpmf(k, r)), ["float64[n]", "float64[n]"]),
    "the largest number": (sg.compile, lambda x, y: np.max(x) + np.min(y), ["float64[n]", "float32[n]"]),
    "many arrays and bools": (sg.grad, chosen, ["float64[n]", "float64[n]", "bool[n]"]),
}


@pytest.mark.slow
@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("name", VECTORISED)
def test_loops_are_vectorised(name, tmp_path):
    cc = toolchain.required()
    if cc.name not in ("gcc", "cc") or platform.machine() != "x86_64" or not toolchain._features().get("FMA3"):
        pytest.skip("it reads the report of gcc")
    transform, f, specs = VECTORISED[name]
    source = transform(f, target="c").source(*specs, optimize=1).native
    (tmp_path / "module.c").write_text(source, "utf-8")
    report = [*cc.command, *toolchain.flags_of(cc), "-O3", "-fopt-info-vec-optimized", "-c", "module.c"]
    done = subprocess.run(report, cwd=tmp_path, capture_output=True, text=True, check=True)
    vectorised = {int(k) for k in re.findall(r"module\.c:(\d+):\d+: optimized: loop vectorized", done.stderr)}
    loops = [k for k, line in enumerate(source.splitlines(), start=1) if line.startswith("    for (int64_t i")]
    assert loops
    assert all(vectorised & {k - 1, k, k + 1} for k in loops)  # a pragma stands before, a statement behind


@pytest.mark.slow
@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.uint8])
def test_the_largest_of_any_numbers(dtype):
    extremes = lambda x: (np.max(x), np.min(x), np.max(x, axis=1), np.min(x, axis=1), np.max(x, axis=0))
    run = sg.compile(extremes, target="c")
    for shape in [(1, 1), (3, 7), (5, 100)]:
        x = np.random.default_rng(2).normal(scale=100, size=shape).astype(dtype)
        places = [None] if dtype not in (np.float64, np.float32) else [None, (0, 0), (-1, -1), (shape[0] // 2, 0)]
        for special in (np.nan, -np.inf, np.inf):
            for place in places:
                y = x.copy()
                if place is not None:
                    y[place] = special
                for got, wanted in zip(run(y), extremes(y), strict=True):
                    np.testing.assert_array_equal(got, wanted)


@pytest.mark.usefixtures("flags_of_users")
def test_powers_are_exact_to_a_unit_or_two():
    rng = np.random.default_rng(1)
    run = sg.compile(lambda x, y: x**y, target="c").compile("float64[n]", "float64[n]")
    x, y = rng.uniform(0.1, 10, 300), rng.uniform(-5, 5, 300)
    exact = [mpmath.mpf(float(a)) ** mpmath.mpf(float(b)) for a, b in zip(x, y, strict=True)]
    assert units(run(x, y), exact, np.float64) < 1.8
    a, b = (v.ravel().copy() for v in np.meshgrid(SPECIAL, np.append(SPECIAL, [2.0, 3.0, 0.5, -2.0])))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(a, b), a**b, rtol=1e-13)
    a = np.array([-1e300, -1e-300, -0.0])
    np.testing.assert_array_equal(np.signbit(run(a, np.array([-3.0, 3.0, 3.0]))), [True, True, True])


@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("exponent", [0.5, 1.5, -0.5, -1.5])
def test_powers_of_halves_are_exact_to_a_unit_or_two(exponent):
    run = sg.compile(lambda x: x**exponent, target="c", optimize=0).compile("float64[n]")
    x = np.random.default_rng(1).uniform(0.1, 10, 300)
    assert units(run(x), [mpmath.mpf(float(a)) ** exponent for a in x], np.float64) < 1.8
    far = np.array([1e205, 1e206, 1e300, 1e-205, 1e-300, 5e-324])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(np.append(SPECIAL, far)), np.append(SPECIAL, far) ** exponent, rtol=1e-13)


@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lengths_are_exact_to_a_unit_or_two(dtype):
    rng = np.random.default_rng(1)
    run = sg.compile(lambda x, y: -np.hypot(x, y), target="c").compile(*[f"{np.dtype(dtype)}[n]"] * 2)
    wide = 300 if dtype is np.float64 else 37
    for scales in (rng.uniform(-1, 1, (2, 300)), rng.uniform(-wide, wide, (2, 300))):
        x, y = (10**scales).astype(dtype)
        assert units(run(x, y), [-mpmath.hypot(float(a), float(b)) for a, b in zip(x, y, strict=True)], dtype) < 1.5
    with np.errstate(all="ignore"):
        a, b = (v.ravel().astype(dtype) for v in np.meshgrid(SPECIAL, SPECIAL))
        np.testing.assert_allclose(run(a, b), -np.hypot(a, b), rtol=1e-6 if dtype is np.float32 else 1e-15)


@pytest.mark.slow
@pytest.mark.usefixtures("flags_of_users")
def test_functions_in_single_precision():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0.1, 10, 300).astype(np.float32), rng.uniform(-30, 30, 300).astype(np.float32)
    power, log = (sg.compile(f, target="c") for f in (lambda x, y: -(x**y), lambda x: -np.log1p(x)))
    exact = [-(mpmath.mpf(float(a)) ** mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    assert units(power(x, y), exact, np.float32) < 1
    assert units(log(x), [-mpmath.log1p(mpmath.mpf(float(v))) for v in x], np.float32) < 1
    with np.errstate(all="ignore"):
        special = SPECIAL.astype(np.float32)
        a, b = (v.ravel().copy() for v in np.meshgrid(special, np.append(special, np.float32([2, 3, 0.5, -2]))))
        np.testing.assert_allclose(power(a, b), -(a**b), rtol=1e-6)
        np.testing.assert_allclose(log(special), -np.log1p(special), rtol=1e-6)


@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("function", [np.remainder, np.floor_divide])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_remainders_have_the_sign_of_the_divisor(function, dtype):
    a, b = (v.ravel().astype(dtype) for v in np.meshgrid(np.arange(-7, 8), [-3, -1, 1, 2, 5, 0]))
    run = sg.compile(lambda x, y: function(x, y) + 0, target="c").compile(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(a, b), function(a, b))


# ---- compilers and what they have made


SCRIPT = (
    "import numpy as np, symgrad as sg; print(sg.grad(lambda x: np.sum(np.cos(x) * 4.5), target='c')(np.ones(2))[0])"
)


def test_integers_that_a_branch_gives_are_stacked():
    def largest(x):
        order = np.arange(20)
        for k in range(19):
            p = np.argmax(x[k:])
            if p != 0:
                order[[k, p]] = order[[p, k]]
        return x[order[0]] ** 2 + x[order[1]]

    x = rng.normal(size=20)
    np.testing.assert_array_equal(sg.grad(largest, target="c")(x), sg.grad(largest)(x))


@pytest.mark.slow
def test_modules_are_kept_on_disk(tmp_path):
    environment = {**os.environ, "SYMGRAD_CACHE": str(tmp_path)}
    first = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True)
    (made,) = tmp_path.iterdir()
    kept = made.stat()
    again = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True)
    assert made.stat().st_mtime_ns == kept.st_mtime_ns
    made.write_bytes(b"damaged")
    mended = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True)
    assert first.stdout == again.stdout == mended.stdout
    assert made.stat().st_size == kept.st_size


def test_modules_are_none_that_others_import():
    sg.grad(lambda x: np.sum(np.cos(x) * 5.5), target="c")(np.ones(2))
    assert [name for name in sys.modules if name.startswith("sg_")] == []


def test_a_compiler_that_is_not_there(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CC", "no-such-compiler")
    slope = sg.grad(lambda x: np.sum(np.exp(x)) * 1.25, target="c")
    with pytest.raises(sg.errors.CompilerError, match="SYMGRAD_CC='no-such-compiler'"):
        slope(np.ones(2))
    monkeypatch.undo()  # the compiler is looked for anew
    np.testing.assert_allclose(slope(np.zeros(2)), 1.25)


def test_flags_in_the_name_of_the_compiler(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CC", f"{sys.executable} -O2")
    with pytest.raises(sg.errors.CompilerError, match=r"(?s)-O2' is no command.*flags go into SYMGRAD_CFLAGS"):
        sg.grad(lambda x: np.sum(np.exp(x)) * 1.25, target="c")(np.ones(2))


@pytest.mark.usefixtures("flags_of_users")
@pytest.mark.parametrize("name", ["gcc", "clang", "zig"])
def test_each_compiler(name, monkeypatch, tmp_path):
    if name == "zig":
        pytest.importorskip("ziglang")
        monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    elif toolchain.shutil.which(name) is None:
        pytest.skip(f"no {name}")
    else:
        monkeypatch.setenv("SYMGRAD_CC", name)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    assert toolchain.required().name == name
    x = rng.normal(size=7)
    np.testing.assert_allclose(sg.grad(rosenbrock, target="c")(x), sg.grad(rosenbrock, target="numpy")(x), rtol=1e-12)


def test_flags_of_the_user_come_last_and_zig_links_no_checks(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O0 -fsanitize=undefined")
    for is_zig in (False, True):
        flags = toolchain.flags_of(toolchain.Compiler(("cc",), "", is_zig=is_zig))
        assert ("-fno-sanitize=undefined" in flags[: flags.index("-O0")]) is is_zig


def test_constants_that_no_integer_of_c_holds():
    """Unrolled terms of a series divide by factorials beyond 64 bits, which are floats in a quotient."""

    def series(x):
        total = 0.0
        for k in range(30):
            total = total + x**k / math.factorial(k)
        return total

    value, slope = sg.value_and_grad(series, target="c")(0.37)
    assert value == pytest.approx(np.exp(0.37), rel=1e-13)
    assert slope == pytest.approx(np.exp(0.37), rel=1e-13)
