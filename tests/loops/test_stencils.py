"""Slices that move rows, in blocks: each row is counted once, whatever its neighbours need of it."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import symgrad as sg
from symgrad.core import tree
from symgrad.core.interpret import interpret
from tests.conftest import blocks_of
from tests.loops.test_blocks import assert_bitwise, check_nodes, loops


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def boundary(x):
    u = np.sin(x)
    return np.sum((u[1:] - u[:-1]) ** 2) + u[0] ** 2 + 3 * u[-1]


def relaxed(x):
    u = x.copy()
    for _ in range(3):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def clamped(x):
    u = np.tanh(x)
    u[0] = 0.5
    u[-1] = u[-1] * 2
    return np.sum(u[1:] * u[:-1])


def masked(x):
    u = np.zeros_like(x)
    u[1:-1] = np.sin(x[1:-1])
    u[2:] += x[:-2]
    return np.sum(u[1:] * u[:-1]) + np.sum(np.exp(u))


def centred(x):
    d = x[1:] - x[:-1]
    return np.sum((d - d.mean()) ** 3)


def steps_of_heat(u):
    for _ in range(3):
        u = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(np.exp(u))


LINE = {  # of one row of numbers, and how long it is at least
    "rosenbrock": (rosenbrock, 1),
    "variation": (lambda x: np.sum(np.abs(x[1:] - x[:-1])), 1),
    "smooth_variation": (lambda x: np.sum(np.sqrt((x[1:] - x[:-1]) ** 2 + 1e-2)), 1),
    "second": (lambda x: np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2), 2),
    "wide": (lambda x: np.sum(np.sin(x[5:] - x[:-5])), 5),
    "wider": (lambda x: np.sum(x[9:] * x[:-9] ** 2) + np.sum(x[3:] * x[:-3]), 9),
    "one_side": (lambda x: np.sum(np.exp(x[3:])), 3),
    "autoregressive": (lambda x: np.mean((x[2:] - 0.5 * x[1:-1] + 0.3 * x[:-2]) ** 2), 3),
    "diff": (lambda x: np.sum(np.diff(x, 2) ** 2), 3),
    "largest": (lambda x: np.max(x[1:] - x[:-1]) + np.sum(x[1:] * x[:-1]), 2),
    "boundary": (boundary, 1),
    "relaxed": (relaxed, 2),
    "clamped": (clamped, 1),
    "masked": (masked, 2),
    "centred": (centred, 2),
    "steps_of_heat": (steps_of_heat, 6),
    "some_ends": (lambda x: np.sum(np.sin(x[:-4]) * x[2:-2]) + np.sum(x[1:-3] ** 3), 4),
    "reverse": (lambda x: np.sum((x[1:] - x[:-1]) * x[::-1][1:]), 1),
    "strided": (lambda x: np.sum((x[1:] - x[:-1]) ** 2) + np.sum(x[::2] ** 2), 1),
    "joined": (lambda x: np.sum(np.concatenate([x[1:], x[:1]]) * x) + np.sum(x[1:] * x[:-1]), 1),
    "rolled": (lambda x: np.sum((np.roll(x, 1) - x)[1:] * (x[1:] - x[:-1])), 1),
    "cumulated": (lambda x: np.sum(np.cumsum(x)[1:] * x[:-1]), 1),
    "selected": (lambda x: np.sum(np.where(x[1:] > x[:-1], x[1:] ** 2, np.sin(x[:-1]))), 1),
}  # fmt: skip
SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 24, 25]


def line(n, dtype=float):
    return np.random.default_rng(n).standard_normal(n).astype(dtype)


def assert_same(f, *args, rtol=1e-9, transform=sg.value_and_grad, programs=None):
    """In blocks what it is at level 0; returns the program. Both are made here, unless `programs` has them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        plain, program = programs or (transform(f, optimize=0), transform(f).compile(*args))
        expected = tree.flatten(plain(*args))[0]
        found = tree.flatten(program(*args))[0]
    check_nodes(program.graph)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        again = interpret(program.graph.outputs, dict(zip(program.graph.inputs, args, strict=True)))
    for results in (found, again):
        for got, want in zip(results, expected, strict=True):
            size = 1 + np.abs(want).max(initial=0)
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * size)
    return program


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LINE))
def test_every_size(tiny_blocks, name):
    """All sizes near the least one, and every other one of those beyond, which begin with one program and the next."""
    f, least = LINE[name]
    plain, odd = sg.value_and_grad(f, optimize=0), sorted(LINE).index(name) % 2
    near = [n for n in SIZES if least <= n <= least + 3]
    for n in (*near, *[n for n in SIZES if n > least + 3][odd::2]):
        assert_same(f, line(n), programs=(plain, sg.value_and_grad(f).compile(line(n))))


@pytest.mark.parametrize("name", sorted(LINE))
def test_every_size_of_a_symbol(tiny_blocks, name):
    f, least = LINE[name]
    try:
        programs = [sg.value_and_grad(f, optimize=level).compile("float64[n]") for level in (0, 2)]
    except sg.errors.SymgradError:
        pytest.skip("does not go through with a symbol")
    for n in SIZES:
        if n >= max(least, 1):
            assert_same(f, line(n), programs=programs)


# ---- two axes, two dtypes, higher orders


def heat(u):
    inner = u[1:-1, 1:-1]
    after = inner + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner)
    return np.sum(after**2)


def padded(u):
    v = np.zeros((u.shape[0] + 2, u.shape[1] + 2), like=u)
    v[1:-1, 1:-1] = np.sin(u)
    return np.sum((v[1:] - v[:-1]) ** 2) + np.sum((v[:, 1:] - v[:, :-1]) ** 2)


def walls(u):
    v = u.copy()
    v[0] = 1.0
    v[-1] = np.arange(float(u.shape[1]))
    v[:, 0] = 0.5
    v[1:-1, -1] *= 2
    return np.sum(v[1:] * v[:-1])


PLANE = {
    "down": lambda u: np.sum(np.abs(u[1:] - u[:-1])),
    "across": lambda u: np.sum((u[:, 1:] - u[:, :-1]) ** 2),
    "both": lambda u: np.sum(np.sqrt((u[1:, 1:] - u[:-1, 1:]) ** 2 + (u[1:, 1:] - u[1:, :-1]) ** 2 + 0.1)),
    "heat": heat,
    "padded": padded,
    "walls": walls,
    "columns": lambda u: np.sum(np.sin(u[1:, 0] * u[:-1, 1])) + np.sum(u[2:, 1:] @ np.ones(u.shape[1] - 1)),
    "norms": lambda u: np.sum(np.linalg.norm(u[1:] - u[:-1] + 1, axis=1)),
    "distances": lambda u: np.sum(np.exp(-np.sum((u[1:, None] - u[:-1, :, None]) ** 2, axis=(1, 2)))),
    "gram": lambda u: np.sum((u[1:].T @ u[:-1]) ** 2),
    "autoregressive": lambda u: np.sum((u[1:] - np.tanh(u[:-1]) @ np.outer(np.arange(4), np.arange(4)) / 9) ** 2),
    "picked": lambda u: np.sum((u[np.arange(u.shape[0]), np.zeros(u.shape[0], int)][1:] - u[:-1, 1]) ** 2),
    "transposed": lambda u: np.sum((u.T[:, 1:] - u.T[:, :-1]) ** 3),
    "softmax": lambda u: np.sum(np.exp(u[1:] - np.max(u[:-1], axis=1, keepdims=True))),
    "largest": lambda u: np.sum(np.max(u[1:] - u[:-1], axis=0)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(PLANE))
def test_planes(tiny_blocks, name, dtype):
    f = PLANE[name]
    plain = sg.value_and_grad(f, optimize=0)
    for n in (2, 3, 4, 5, 8) if dtype is np.float64 else (3, 8):
        u = np.random.default_rng(n).standard_normal((n, 4)).astype(dtype)
        programs = plain, sg.value_and_grad(f).compile(u)
        assert_same(f, u, programs=programs, rtol=1e-9 if dtype is np.float64 else 1e-4)


@pytest.mark.parametrize("name", ["down", "across", "both", "heat", "norms", "gram", "distances"])
def test_planes_of_symbols(tiny_blocks, name):
    f = PLANE[name]
    plain, *programs = [
        sg.value_and_grad(f, optimize=level).compile(spec)
        for level, spec in ((0, "float64[n, m]"), (2, "float64[n, m]"), (2, "float64[n, 4]"))
    ]
    for n in (1, 2, 3, 4, 5, 8):
        u = np.random.default_rng(n).standard_normal((n, 4))
        for program in programs:
            assert_same(f, u, programs=(plain, program))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rosenbrock", "second", "wide", "boundary", "relaxed", "clamped", "centred"])
def test_higher_orders(tiny_blocks, name):
    f, least = LINE[name]
    for n in (least + 1, least + 2, 9, 12):
        x, v = line(n), line(n)[::-1].copy()
        assert_same(f, x, v, transform=lambda f, **options: sg.hvp(f, **options), rtol=1e-8)
        if n % 2:
            assert_same(f, x, v, transform=forward)


@pytest.mark.parametrize("n", [2, 3, 9, 12])
def test_products_with_jacobians_from_the_left(tiny_blocks, n):
    assert_same(lambda x: x[1:] * np.sin(x[:-1]), line(n), line(n)[-2::-1].copy(), transform=backward)


def forward(f, **options):
    return sg.compile(lambda x, v: sg.jvp(f, (x,), (v,)), **options)


def backward(f, **options):
    return sg.compile(lambda x, g: sg.vjp(f, x)[1](g), **options)


def test_rows_as_results(tiny_blocks):
    """Slices, sums of neighbours, and what they are made of."""

    def f(x):
        u = np.sin(x)
        return {"u": u, "later": u[2:], "plain": x[1:], "sum": u[1:] + u[:-1], "twice": (u[3:] * u[:-3])[1:]}

    for n in range(4, 12):
        assert loops(assert_same(f, line(n), transform=lambda f, **options: sg.compile(f, **options)))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32, np.float64])
def test_negatives_where_nothing_lies_in_one_piece(tiny_blocks, dtype):
    """NumPy's own loop for four bytes reads wrong numbers there."""
    x = np.arange(1, 41).astype(dtype).reshape(10, 4)

    def f(x):
        y = np.zeros_like(x)
        y[1:, 0] = -x[:-1, 1]
        return y, -x.T

    for shape in ((10, 4), "n, 4"):
        spec = x if shape == (10, 4) else f"{np.dtype(dtype).name}[{shape}]"
        for got, want in zip(sg.compile(f).compile(spec)(x), f(x), strict=True):
            np.testing.assert_array_equal(got, want)


# ---- random programs

UNARY = {
    "sin": np.sin,
    "tanh": np.tanh,
    "square": lambda x: x * x / 2,
    "centre": lambda x: x - x.mean(axis=0),
    "double": lambda x: 2 * x,
}


def cut(x, a, b):
    """Some rows fewer, if there are so many."""
    return x[a : x.shape[0] - b] if a + b < x.shape[0] else x


def shifted_pair(x, y, a):
    """Return as many rows of both arrays, from the shifted one on."""
    n = min(x.shape[0], y.shape[0])
    a = min(a, n - 1)
    return x[a:n], y[: n - a]


def added(x, y, a):
    """Into a copy of the longer, from some row on."""
    x, y = (x, y) if x.shape[0] >= y.shape[0] else (y, x)
    z = x.copy()
    a = min(a, x.shape[0] - 1)
    n = min(y.shape[0], x.shape[0] - a)
    z[a : a + n] += y[:n]
    return z


def placed(x, y, a):
    """Two into zeros."""
    z = np.zeros_like(x)
    a = min(a, x.shape[0] - 1)
    z[a:] = x[: x.shape[0] - a]
    n = min(x.shape[0], y.shape[0])
    z[:n] += y[:n]
    return z


def ends(x, y, a):
    z = x.copy()
    z[0] = 0.25
    z[-1] *= 0.5
    return z


def plus(x, y, a):
    x, y = shifted_pair(x, y, a)
    return x + y


def times(x, y, a):
    x, y = shifted_pair(x, y, a)
    return x * y


BINARY = {"plus": plus, "times": times, "added": added, "placed": placed, "ends": ends}
step = st.tuples(
    st.sampled_from([*UNARY, "cut", *BINARY]), st.integers(0, 9), st.integers(0, 9), st.sampled_from([0, 1, 1, 2, 3, 6])
)


def stencils(steps, last):
    def f(x):
        values = [x]
        for name, i, j, a in steps:
            y, z = values[i % len(values)], values[j % len(values)]
            if name == "cut":
                values.append(cut(y, a % 3, (a + i) % 3))
            elif name in UNARY:
                values.append(UNARY[name](y))
            else:
                values.append(BINARY[name](y, z, a))
        return sum(np.sum(y * y) if last else np.sum(np.sin(y)) for y in values)

    return f


AGAIN = [("centre", 0, 0, 0), ("cut", 1, 0, 0), ("ends", 1, 0, 0)]  # a slice of what is itself computed again
MANY_LENGTHS = [("sin", 0, 0, 0), ("cut", 0, 0, 1), ("times", 0, 0, 1), ("times", 0, 1, 3), ("times", 0, 2, 2)]


@pytest.mark.slow
@given(
    st.lists(step, min_size=1, max_size=7), st.integers(2, 24), st.booleans(), st.sampled_from([(), (3,), (40,)]),
    st.sampled_from([2, 2, 5, 9]),
)  # fmt: skip
@example(AGAIN, 3, False, (), 2)
@example(MANY_LENGTHS, 5, False, (), 2)
def test_random_stencils(tiny_blocks, monkeypatch, steps, n, last, others, rows):
    blocks_of(monkeypatch, lambda n, nbytes, least, most: rows)
    x = np.random.default_rng(n).standard_normal((n, *others))
    assert_same(stencils(steps, last), x, rtol=1e-8)


@pytest.mark.slow
@given(st.lists(step, min_size=1, max_size=5), st.integers(3, 9))
def test_random_stencils_of_higher_order(tiny_blocks, steps, n):
    x, v = line(n), line(n + 1)[1:]
    assert_same(stencils(steps, True), x, v, transform=lambda f, **options: sg.hvp(f, **options), rtol=1e-7)


# ---- threads, memory


@pytest.mark.parametrize("name", ["rosenbrock", "wide", "relaxed", "masked", "centred"])
def test_the_same_bits_for_any_number_of_threads(tiny_blocks, name):
    x = line(101)
    programs = [sg.value_and_grad(LINE[name][0], threads=t).compile(x) for t in (1, 2, 3)]
    assert all("_in_parts" in program.source for program in programs)
    for program in programs:
        for _ in range(5):
            assert_bitwise(program(x), programs[0](x))


@pytest.mark.parametrize("by", [-1, 0, 1])
@pytest.mark.usefixtures("usual_sizes")
def test_blocks_of_usual_size(by):
    """Sums count each row once, and no row is left out between two blocks."""
    x = line((1 << 19) + by)
    (block,) = loops(assert_same(rosenbrock, x))
    assert block.size == x.size
    assert max(span.more for span in block.bounds) == 1
    programs = [sg.value_and_grad(rosenbrock, optimize=level).compile("float64[n]") for level in (0, 2)]
    assert_same(rosenbrock, x, programs=programs)


@pytest.mark.usefixtures("usual_sizes")
def test_nothing_as_long_as_the_argument_but_the_result():
    program = sg.value_and_grad(rosenbrock).compile("float64[4000000]")
    assert program.cost.peak < 1.2 * 8 * 4_000_000
    assert program.cost.bytes < 2.1 * 8 * 4_000_000


def test_no_rows_at_all(tiny_blocks):
    """A loop over n - 1 rows, for an n of 1."""

    def f(x):
        y = np.concatenate([x[1:], x[1:]])[: x.shape[0] - 1]
        return np.sum(np.sin(y) * y), np.sum(y * y)

    program = sg.compile(f).compile("float64[n]")
    for n in (1, 2, 3):
        for found, expected in zip(program(line(n)), f(line(n)), strict=True):
            np.testing.assert_allclose(found, expected)


def test_what_is_negative_is_subtracted(tiny_blocks):
    """Rather than made negative in a pass of its own, and added."""

    def roughness(x):
        return np.sum(np.sin(x[:, 1:] - x[:, :-1])) + np.sum(np.cos(x[1:] - x[:-1]))

    x = np.random.default_rng(0).normal(size=(40, 6))
    gradient = sg.grad(roughness).compile(x)
    assert "[:, :-1] -= " in gradient.source
    assert "np.multiply(-1.0" not in gradient.source
    np.testing.assert_allclose(gradient(x), sg.grad(roughness).compile(x, optimize=0)(x), rtol=1e-12, atol=1e-12)
