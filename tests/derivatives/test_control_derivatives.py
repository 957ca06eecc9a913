"""Derivatives of branches and loops, in both modes and of two orders, against differences of the plain functions."""

from functools import cache

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.graph import reached, verify
from symgrad.core.interpret import interpret
from symgrad.core.region import regions_of
from symgrad.derivatives.segments import sizes_of_segments
from symgrad.errors import NotDifferentiableError
from symgrad.ops.control import SCAN

RNG = np.random.default_rng(0)
W, XS = RNG.standard_normal((3, 3)), RNG.standard_normal((5, 3))

PROGRAMS = {}


def program(*args):
    """A function, which is plain Python when it is called with arrays, and arguments for it."""

    def register(f):
        PROGRAMS[f.__name__] = f, args
        return f

    return register


# ---- loops


@program(W, XS)
def recurrence(W, xs):
    h, ys = sg.scan(lambda h, x: (np.tanh(h @ W.T + x), h.sum()), np.zeros(3), xs)
    return h @ h + np.sum(ys**2)


@program(W, XS)
def recurrence_downwards(W, xs):
    h, ys = sg.scan(lambda h, x: (np.tanh(h @ W.T + x), h.sum() * x), np.ones(3), xs, reverse=True)
    return h @ h + np.sum(ys**2)


@program(RNG.standard_normal((4, 6, 3)), W)
def rows_of_rows(X, W):
    def row(h, x):
        h = np.tanh(h @ W + x)
        return h, h[0]

    def rows(h, xs):
        h, ys = sg.scan(row, h, xs)
        return h, ys * 2

    h, ys = sg.scan(rows, np.zeros(3), X)
    return np.sum(ys**2) + np.sum(h)


@program(XS)
def mapped(xs):
    return np.sum(np.sin(sg.map(lambda r: np.exp(r @ r / 9), xs)))


@program(RNG.standard_normal(5))
def read_at_places(x):
    return sg.fori_loop(0, 5, lambda i, s: s * x[i] + np.sin(x[0]) + x[i] ** 2, 1.0)


@program(RNG.standard_normal((6, 6)), RNG.standard_normal(6))
def written_into(A, b):
    def body(i, x):
        x = x.copy()
        x[i] = b[i] - A[i] @ x * 0.1
        return x

    return np.sum(sg.fori_loop(0, 6, body, np.ones(6)) ** 2)


@program(W)
def carries_that_change_places(W):
    def body(i, carry):
        a, b, n, unused = carry
        return b, np.sin(a) @ W, n + 1, unused * b

    a, b, n, _ = sg.fori_loop(0, 5, body, (np.ones(3), np.ones(3) * 2, 0, W[0]))
    return np.sum(a * b) * n


# ---- loops until a test fails


@program(8.3)
def until_small(x):
    return sg.while_loop(lambda v: v[0] > 1, lambda v: (v[0] * 0.5 * np.sin(v[0]), v[1] + 1), (x, 0))[0]


@program(0.3)
def of_no_turns(x):
    return sg.while_loop(lambda v: v > 1, lambda v: v * 0.5, x)


@program(2.0)
def newton_on_floats(a):
    return sg.while_loop(lambda x: abs(x * x - a) > 1e-6 * a, lambda x: 0.5 * (x + a / x), a)


@program(RNG.standard_normal(7))
def read_anywhere(x):
    def body(carry):
        i, s = carry
        return (i * 3 + 1) % 7, s * 0.9 + x[i] * x[i] * s

    return sg.while_loop(lambda carry: carry[1] < 20, body, (2, 1.5))[1]


@program(np.arange(5.0) * 3)
def until_small_in_a_loop(x):
    def body(i, s):
        return sg.while_loop(lambda v: v > 1, lambda v: v * 0.5 - i * 0.01 + np.sin(v) * 0.1, s + x[i])

    return sg.fori_loop(0, 4, body, 0.5)


@program(RNG.standard_normal(3), np.float64(0.3))
def until_small_until_four(x, a):
    def inner(v):
        return sg.while_loop(lambda v: np.sum(v * v) > 1, lambda v: np.sin(v) * a * 2 + v * 0.3, v)

    def body(carry):
        i, v = carry
        return i + 1, inner(v * 2 + i) + np.exp(-v * v)

    return np.sum(sg.while_loop(lambda carry: carry[0] < 4, body, (0, x))[1])


# ---- branches


@program(np.float64(0.3), XS)
def branch_in_a_loop(a, xs):
    def body(h, x):
        h = sg.cond(x[0] > 0, lambda: np.sin(h * a) + x, lambda: np.exp(-(h**2)) * x[1])
        return h, h * h

    h, ys = sg.scan(body, np.ones(3), xs)
    return np.sum(h) + np.sum(ys * a)


def loop_in_a_branch(a, xs):
    def loop():
        return np.sum(sg.scan(lambda h, x: (np.cos(h * a) + x, None), np.ones(3), xs)[0])

    return sg.cond(a > 0, loop, lambda: a**2)


PROGRAMS["loop_in_the_branch_taken"] = loop_in_a_branch, (np.float64(0.7), XS)
PROGRAMS["loop_in_the_other_branch"] = loop_in_a_branch, (np.float64(-0.7), XS)


@program(np.array([1, 2.0, 3]))
def switched(x):
    sides = [lambda s: s * x[0], lambda s: np.sin(s) + x[1], lambda s: s * s * x[2]]
    return sg.fori_loop(0, 4, lambda i, s: sg.switch(i % 3, sides, s), 0.3)


@program(XS)
def singular_where_not_taken(xs):
    def body(h, x):
        return sg.cond(x[0] > 0, lambda: np.sqrt(x[0]) * h, lambda: h * 2), None

    return sg.scan(body, 1.0, xs)[0]


# ---- marks in bodies


@program(XS, W)
def marks(xs, W):
    def body(h, x):
        h = np.tanh(h @ W) + sg.stop_gradient(0 * x) * h
        h = sg.checkpoint(lambda h: np.sin(h) * np.cos(h @ W))(h) + x
        return h, np.max(h)

    h, ys = sg.scan(body, np.ones(3), xs)
    return np.sum(h * h) + np.sum(ys)


@program(RNG.standard_normal(9))
def neighbours(x):
    """Two branches read the array, and the loop itself does."""
    n, total = len(x), 0.0
    for i in range(n):
        left = x[i - 1] if i > 0 else x[n - 1]
        right = x[i + 1] if i < n - 1 else x[0]
        total = total + np.tanh(left + right - 2 * x[i]) * x[0]
    return total


@program(RNG.standard_normal(9))
def neighbours_in_checkpoints(x):
    """Two branches read the array beside a checkpoint with a branch that reads it."""
    n, total = len(x), 0.0
    right = sg.checkpoint(lambda x, i: np.sin(x[i + 1]) if i < n - 1 else x[0])
    for i in range(n):
        left = x[i - 1] if i > 0 else x[n - 1]
        between = right(x, i)
        total = total + np.tanh(left * between) * (x[i - 2] if i > 1 else x[1])
    return total


@program(RNG.standard_normal(7), RNG.standard_normal(5))
def inner_loops(x, w):
    """Two loops in an iteration read the array."""
    total = 0.0
    for k in range(len(w)):
        a = 0.0
        for i in range(len(x) - 1):
            a = np.tanh(a + x[i + 1] * x[i])
        b = 1.0
        for i in range(2, len(x)):
            b = b * np.cos(x[i - 2] * w[k] + a * x[i])
        total = total + b
    return total


LEFT, RIGHT, COUNTS = RNG.integers(0, 40, 120), RNG.integers(0, 40, 40), RNG.integers(0, 3, 40)


@program(RNG.standard_normal(40))
def relaxed(x):
    """Iterations overwrite an array that they read at places nobody knows before."""
    x = x.copy()
    for i in range(len(x)):
        x[RIGHT[i]] = np.tanh(x[LEFT[i]] * x[(i + 1) % 40] + 0.5)
    return np.sum(x**2)


@program(RNG.standard_normal(40))
def read_again(x):
    """Iterations read an array before and after they overwrite a part of it."""
    x, total = x.copy(), 0.0
    for i in range(len(x)):
        x[RIGHT[i]] = np.tanh(x[LEFT[i]] * x[i] + 0.3)
        total = total + x[LEFT[i]] ** 2 * x[39 - i]
    return total + np.sum(x**2)


@program(RNG.standard_normal(40))
def swept(x):
    """Inner loops, of whatever lengths, read the array that the outer one overwrites."""
    x, k = x.copy(), 0
    for i in range(len(x)):
        total = 0.5 * x[i]
        for j in range(COUNTS[i]):
            total = total + np.sin(x[LEFT[k + j]]) * x[i]
        k = k + COUNTS[i]
        x[i] = total
    return np.sum(x**3)


@program(RNG.standard_normal(40))
def of_all_before(x):
    """Each number is made of all that have been written before it."""
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = np.tanh(x[:i] @ y[:i]) + x[i]
    return np.sum(y**2)


@program(RNG.standard_normal(40), RNG.standard_normal(40))
def written_by_sides(x, a):
    """Each side of a branch reads what has been written, and writes into one of two arrays."""
    p, q = x.copy(), a.copy()
    for i in range(1, len(x)):
        if a[i] > 0:
            p[i] = p[i - 1] * q[i]
        elif a[i] > -1:
            q[i] = q[i - 1] * p[i]
        else:
            p[i], q[i] = q[i] * q[i - 1], p[i]
    return np.sum(p * q)


# ---- all of them


def evaluate(function, *args):
    """Evaluate the program of a function, by the interpreter."""
    made = function.trace(*args)
    verify(made.graph)
    inputs, _ = tree.flatten([*made.inputs.values()])
    outputs, structure = tree.flatten(made.outputs)
    feeds = dict(zip([x.node for x in inputs], tree.flatten(args)[0], strict=True))
    return tree.unflatten(structure, interpret([y.node for y in outputs], feeds))


def along(f, args, v, eps):
    """The derivative of `f` in a direction, by differences."""
    moved = [[x + sign * eps * d for x, d in zip(args, v, strict=True)] for sign in (1, -1)]
    return (f(*moved[0]) - f(*moved[1])) / (2 * eps)


def direction(args):
    return [np.cos(np.arange(np.size(x))).reshape(np.shape(x)) if np.shape(x) else 0.7 for x in args]


def slope(f, args, v, by):
    """Return the derivative of a function in a direction, in reverse or forward mode."""
    if by == "reverse":
        gradients = sg.grad(f, tuple(range(len(args))))
        return lambda *xs: sum(np.sum(g * d) for g, d in zip(gradients(*xs), v, strict=True))
    return lambda *xs: sg.jvp(f, xs, tuple(v))[1]


@pytest.mark.parametrize("by", ["reverse", "forward"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_first_derivatives(name, by):
    f, args = PROGRAMS[name]
    v = direction(args)
    found = evaluate(sg.compile(slope(f, args, v, by)), *args)
    np.testing.assert_allclose(found, along(f, args, v, 1e-6), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("by", ["reverse over reverse", "forward over reverse", "reverse over forward"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives(name, by):
    f, args = PROGRAMS[name]
    v = direction(args)
    outer, _, inner = by.partition(" over ")
    found = evaluate(sg.compile(slope(slope(f, args, v, inner), args, v, outer)), *args)
    np.testing.assert_allclose(found, second_difference(name, inner), rtol=1e-4, atol=1e-5)


@cache
def second_difference(name, inner):
    """The derivative of a first derivative, by differences: reverse mode is that of two tests."""
    f, args = PROGRAMS[name]
    v = direction(args)
    compiled = sg.compile(slope(f, args, v, inner))
    return along(lambda *xs: evaluate(compiled, *xs), args, v, 1e-5)


def test_numbers_of_python_keep_small_arrays_small():
    def f(xs, a):
        def body(carry, x):
            h, s = carry
            return (np.tanh(h * s + x), s * a * 1.5), h * 2.0

        (h, s), ys = sg.scan(body, (np.ones(3, np.float32), 0.5), xs)
        return np.sum(h) * s + np.sum(ys)

    xs = XS.astype(np.float32)
    dxs, da = evaluate(sg.grad(f, (0, 1)), xs, 0.3)
    assert dxs.dtype == np.float32
    wide = evaluate(sg.grad(f, (0, 1)), XS, 0.3)
    np.testing.assert_allclose(dxs, wide[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(da, wide[1], rtol=1e-4)


def test_nothing_comes_from_the_branch_that_is_not_taken():
    f = sg.grad(lambda x: sg.cond(x > 0, lambda: np.sqrt(x), lambda: 3 * x))
    with np.errstate(all="raise"):
        assert evaluate(f, -4.0) == 3.0


def test_a_loop_that_runs_downwards_until_a_test_fails():
    from symgrad.frontend.bodies import repeat

    def f(xs, a):
        def body(carry, place, slices):
            s = carry[0] * a + slices[0] * place
            return [s], [s * s]

        final, (ys,), turns = repeat(xs.graph, body, [1.0], 7, [xs], lambda carry, place: carry[0] < 9, reverse=True)
        return final[0] + np.sum(ys) * turns

    def plain(xs, a):
        s, total, turns = 1.0, 0.0, 0
        for t in reversed(range(7)):
            if not s < 9:
                break
            s = s * a + xs[t] * t
            total, turns = total + s * s, turns + 1
        return s + total * turns

    xs, a = np.linspace(0.1, 1, 7), np.float64(1.1)
    v = direction((xs, a))
    assert evaluate(sg.compile(f), xs, a) == pytest.approx(plain(xs, a))
    dxs, da = evaluate(sg.grad(f, (0, 1)), xs, a)
    assert np.sum(dxs * v[0]) + da * v[1] == pytest.approx(along(plain, (xs, a), v, 1e-6), rel=1e-6)


def test_a_value_of_the_body_is_nothing_to_differentiate_by():
    def f(xs):
        def body(h, x):
            h = sg.name(h * x, "inner")
            return np.sin(h), None

        return np.sum(sg.scan(body, np.float64(1.0), xs)[0])

    with pytest.raises(NotDifferentiableError, match="body of a loop"):
        sg.grad(f, wrt="inner").trace(np.ones(3))


# ---- what is kept


def loops(function, *args):
    made = function.trace(*args)
    outputs, _ = tree.flatten(made.outputs)
    return [node for node in reached([y.node for y in outputs]) if node.op is SCAN]


def test_cotangents_of_an_array_that_two_branches_of_an_iteration_read_are_added_in_place():
    f, _ = PROGRAMS["neighbours"]
    lines = sg.grad(f).source("float64[n]").splitlines()
    assert not [line for line in lines if "np.zeros(" in line and line.startswith(" " * 8)]  # one in each iteration


@pytest.mark.parametrize("name", ["relaxed", "swept", "of_all_before", "written_by_sides"])
def test_iterations_that_overwrite_a_part_of_an_array_keep_that_part(name):
    f, args = PROGRAMS[name]
    args = [np.resize(x, 400) for x in args] if name == "written_by_sides" else args
    lines = sg.value_and_grad(f, optimize=1).source(*args).splitlines()
    inside = [line for line in lines if line.startswith(" " * 8)]
    assert not [line for line in inside if "np.zeros(" in line or ".copy()" in line]
    assert not [line for line in inside if line.endswith((".append(x)", ".append(y)", ".append(p)", "] = x", "] = y"))]


def test_what_is_cheap_is_computed_again():
    def f(xs):
        return np.sum(sg.scan(lambda h, x: ((h + x * x) * (h * h + 1), None), np.ones(2000), xs)[0])

    primal, extended, backward = loops(sg.value_and_grad(f), np.ones((3, 2000)))
    assert len(extended.aval) - len(primal.aval) == 1  # h
    assert regions_of(backward)[0].nodes


def test_what_no_turn_changes_is_not_kept():
    def f(W, xs):
        return np.sum(sg.scan(lambda h, x: (h @ W + np.exp(x), None), np.ones(3), xs)[0])

    found = loops(sg.grad(lambda xs: f(W, xs)), XS)
    assert len(found) == 1  # only the loop backwards, which reads slices and the matrix


@pytest.mark.parametrize(
    "name, results",
    [("until_small", [4]), ("recurrence", [2, 4]), ("until_small_in_a_loop", [2]), ("of_no_turns", [3])],
)
def test_forward_mode_keeps_nothing(name, results):
    f, args = PROGRAMS[name]
    v = direction(args)
    found = loops(sg.compile(lambda *xs: sg.jvp(f, xs, tuple(v))[1]), *args)
    assert [len(node.aval) for node in found] == results  # what is carried and stacked anyway, each with its tangent


# ---- checkpoints


def rows(checkpoint, reverse=False):
    def f(W, xs):
        body = lambda h, x: (np.tanh(h @ W.T + x), h.sum() * x)
        h, ys = sg.scan(body, np.ones(3), xs, reverse=reverse, checkpoint=checkpoint)
        return h @ h + np.sum(ys**2)

    return f


def counted(checkpoint):
    return lambda W, n: np.sum(sg.fori_loop(0, n, lambda i, h: np.tanh(h @ W + i), np.ones(3), checkpoint=checkpoint))


def decaying(checkpoint):
    return lambda x: sg.while_loop(lambda v: v > 1, lambda v: v * 0.9 + np.sin(v) / 99, x, checkpoint=checkpoint)


@pytest.mark.parametrize("checkpoint", [3, 10, "log"])
@pytest.mark.parametrize("n", [1, 17, 20])
def test_checkpoints_change_no_gradient(n, checkpoint):
    xs = np.resize(XS, (n, 3)) + np.arange(n)[:, None] / 10
    cases = [
        (rows, W, xs),
        (lambda k: rows(k, reverse=True), W, xs),
        (counted, W / 2, np.int64(n)),
        (decaying, 3.0 * n),
    ]
    for make, *args in cases:
        found, want = (evaluate(sg.grad(make(k), 0), *args) for k in (checkpoint, None))
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("make, args", [(rows, (W, XS)), (decaying, (30.0,))])
def test_checkpoints_change_no_second_derivative(make, args):
    for outer in ("reverse", "forward"):
        kept, again = (
            slope(slope(make(k), args, direction(args), "reverse"), args, direction(args), outer) for k in (None, 2)
        )
        np.testing.assert_allclose(evaluate(sg.compile(again), *args), evaluate(sg.compile(kept), *args), rtol=1e-9)


@pytest.mark.parametrize(
    "checkpoint, turns, sizes",
    [
        (8, 16, [4, 1]),
        (50, 100_000, [10_000, 1_000, 100, 10, 1]),
        (72, 100_000, [18**3, 18**2, 18, 1]),
        (4, 20, [9, 3, 1]),
    ],
)
def test_fewer_states_take_more_loops(checkpoint, turns, sizes):
    assert sizes_of_segments(checkpoint, turns) == sizes


def test_a_checkpoint_that_is_no_number():
    with pytest.raises(sg.errors.ArgumentError, match="checkpoint=0"):
        sg.while_loop(lambda x: x > 1, lambda x: x / 2, 8.0, checkpoint=0)


def test_what_is_kept_is_chosen_again_once_a_turn_and_its_pullback_are_simplified():
    """The value of a logistic function is the residual, and its slope is computed from it."""

    def f(W, xs):
        return np.sum(sg.scan(lambda h, x: (1 / (1 + np.exp(-(h @ W + x))), None), np.ones(6), xs)[0])

    args = np.kron(np.eye(2), W), np.tile(XS, 2)
    lines = sg.grad(f).compile(*args).source.splitlines()
    assert sum("np.exp(" in line and not line.strip().startswith("#") for line in lines) == 1
    np.testing.assert_allclose(sg.grad(f)(*args), evaluate(sg.grad(f), *args), rtol=1e-12)


def test_a_turn_of_single_numbers_keeps_its_slope():
    source = sg.grad(PROGRAMS["newton_on_floats"][0]).compile(2.0).source
    assert source.count(".append(") == 2 * source.count("while ")  # by what it carries and by what it reads


def test_hooks_act_in_every_turn():
    def f(x, start):
        factor = np.sum(x)
        body = lambda h, x: (sg.on_gradient(h * x, lambda g: factor * np.clip(g, -1, 1)), None)
        return sg.scan(body, start, x)[0]

    xs = np.array([0.5, 0.25, 2.0])
    d_xs, d_start = evaluate(sg.grad(f, (0, 1)), xs, np.float64(3.0))
    factor = np.sum(xs)
    g = factor  # behind the hook of the last turn; clipped in those before
    want = [g * 3.0 * 0.5 * 0.25]
    for before, x in ((3.0 * 0.5, 2.0), (3.0, 0.25)):
        g = factor * np.clip(g * x, -1, 1)
        want.insert(0, g * before)
    np.testing.assert_allclose(d_xs, want)
    np.testing.assert_allclose(d_start, g * 0.5)
