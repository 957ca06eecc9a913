"""Loops that a program runs for a value, and again for its derivative: they are one, also where a branch needs more."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.control.invariants import hoist_invariants
from symgrad.control.open_branches import CHOSEN, with_open_branches
from symgrad.control.surroundings import read_surroundings, without_aliases
from symgrad.core.graph import verify
from symgrad.core.interpret import interpret
from symgrad.core.region import with_nested
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.pipeline import OPTIMISE, UNITE, run
from symgrad.rewrite.engine import in_bodies
from tests.programs import without_comments

X = np.array([0.3, -1.2, 2.0])


def falling(x):
    """A loop with a test, in which a difference is negated and the start is one that is zero."""
    y, v, low = x, -(x @ x - x @ x), x @ x
    while y @ y > 0.1:
        v, y = v - (v - y @ y), y * 0.7 - 0.01 * x
        low = y @ y
    return v + low


def branching(x):
    """A loop that goes on only where that leads down, as descents do."""
    y, best, step = x, x @ x, 0.5
    while step > 0.1:
        new = y - step * np.sin(y)
        if new @ new < best:
            y, best = new, new @ new
        else:
            step = step / 2
    return best + y[0]


def stepping(x):
    """A descent whose branches are on what earlier ones gave."""
    y, step, since = x, 0.1 + 0.01 * x[0] ** 2, 0
    while y @ y > 0.1:
        if since == 2:
            step, since = 1.5 * step, 0
        new = y - step * y
        if new @ new < y @ y:
            y, since = new, since + 1
        else:
            step = step / 2
    return y @ x


def nested(x):
    """A loop in a loop."""
    y, total = x, 0.0
    while y @ y > 0.5:
        z = y
        while z[0] ** 2 > 0.01:
            z = z * 0.5
            total = total + np.sin(z) @ z
        y = y * 0.6
    return total


def whiles(graph):
    """Return how many loops with a condition a program has, in branches too."""
    return sum(node.op is SCAN and loop_of(node).test is not None for node in with_nested(graph.live))


def agree(graph, args, expected):
    verify(graph)
    found = interpret(graph.outputs, dict(zip(graph.inputs, args, strict=True)))
    for new, old in zip(found, expected, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9)


def slope_by_differences(f, x, h=1e-6):
    steps = h * np.eye(len(x))
    return np.array([(f(x + step) - f(x - step)) / (2 * h) for step in steps])


@pytest.mark.parametrize("f", [falling, branching, stepping, nested])
@pytest.mark.parametrize("derivative", [sg.grad, sg.jacfwd])
def test_a_value_beside_its_gradient_runs_one_loop(f, derivative):
    graph = sg.trace(lambda x: (f(x), derivative(f)(x)), X).graph
    after = run(UNITE, graph)
    agree(after, (X,), (f(X), slope_by_differences(f, X)))
    alone = run(UNITE, sg.trace(derivative(f), X).graph)
    assert whiles(after) == whiles(alone) < whiles(graph)


def takes_branch(f, derivative=sg.grad):
    def program(x, limit):
        value = f(x)
        slope = derivative(f)(x) if value < limit else np.zeros_like(x)
        return value, slope

    return program


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("f", [falling, branching, stepping, nested])
@pytest.mark.parametrize("derivative", [sg.grad, sg.jacfwd])
def test_a_branch_reads_the_loop_around_it(f, derivative, level):
    program = sg.compile(takes_branch(f, derivative), optimize=level)
    for limit in (1e3, -1e3):
        value, slope = program(X, limit)
        np.testing.assert_allclose(value, f(X), rtol=1e-9)
        np.testing.assert_allclose(slope, slope_by_differences(f, X) * (limit > 0), rtol=1e-5, atol=1e-7)


def test_the_loop_of_a_branch_is_the_one_around_it():
    graph = sg.trace(takes_branch(falling), X, 1.0).graph
    after = run(UNITE, graph)
    (branch,) = [node for node in after.live if node.op is COND]
    assert whiles(graph) == 2
    assert whiles(after) == 1
    assert any(node.op is SCAN for node in with_nested([branch]))  # the one that runs backwards stays there


def test_what_a_branch_repeats_is_read_from_around_it():
    f = lambda x: np.exp(x) @ x

    def program(x):
        return f(x), sg.cond(f(x) > 0, lambda: sg.grad(f)(x) * np.cos(x), lambda: np.cos(x))

    branch = lambda graph: next(node for node in graph.live if node.op is COND)
    graph = in_bodies(without_aliases)(sg.trace(program, X).graph, "stable")
    after = read_surroundings(graph)
    agree(after, (X,), interpret(graph.outputs, {graph.inputs[0]: X}))
    inside = lambda graph: [node.op.name for node in with_nested([branch(graph)])]
    assert "exp" in inside(graph)
    assert "exp" not in inside(after)
    assert inside(after).count("cos") == inside(graph).count("cos") == 2  # nothing outside computes it


def unlike(x, more):
    """A branch with a loop that may be one with a loop outside, but has `more` to do."""
    down = lambda y: 0.5 * y
    value = sg.while_loop(lambda y: y @ y > 0.1, down, x)
    turn = lambda c: (down(c[0]), more(c[1], c[0], value))
    other = lambda: sg.while_loop(lambda c: c[0] @ c[0] > 0.1, turn, (x, x))[1]
    return value, sg.cond(value[0] > 0, other, lambda: x)


def much(z, y, value):
    for _ in range(9):
        z = np.sin(z) + y
    return z


UNLIKE = {
    "it takes long": much,
    "it may fail": lambda z, y, value: np.linalg.solve(np.diag(y), z),
    "it needs the other": lambda z, y, value: z + value,
}


@pytest.mark.parametrize("more", UNLIKE.values(), ids=UNLIKE)
def test_a_loop_stays_in_its_branch(more):
    graph = sg.trace(lambda x: unlike(x, more), X).graph
    after = run(UNITE, graph)
    agree(after, (X,), unlike(X, more))
    assert whiles(after) == 2


def test_a_loop_leaves_its_branch_for_little():
    little = lambda z, y, value: z + y
    after = run(UNITE, sg.trace(lambda x: unlike(x, little), X).graph)
    agree(after, (X,), unlike(X, little))
    assert whiles(after) == 1


# ---- open branches


def test_open_branches_close_as_they_were():
    graph = run(UNITE, sg.trace(takes_branch(falling), X, 1.0).graph)
    seen = []

    def step(graph, numerics):
        seen.extend(node.op for node in graph.live)
        return graph

    after = with_open_branches(step)(graph, "stable")
    assert CHOSEN in seen
    assert COND not in seen
    assert CHOSEN not in {node.op for node in with_nested(after.live)}
    inside = lambda graph: [len([*with_nested([node])]) for node in graph.live if node.op is COND]
    assert inside(after) >= inside(graph)
    for limit in (1e3, -1e3):
        agree(after, (X, limit), interpret(graph.outputs, dict(zip(graph.inputs, (X, limit), strict=True))))


def test_a_loop_keeps_less_for_one_in_a_branch():
    def sinking(x):
        y = x
        while y @ y > 0.1:
            y = y - 0.1 * sg.grad(lambda z: (z @ z) ** 0.5 + 1 / (1 + z @ z))(y)
        return y @ x

    graph = sg.trace(takes_branch(sinking), X, 1.0).graph
    kept = {}
    for stage in [each for each in OPTIMISE if each.level < 2]:
        graph = stage.run(graph, "stable")
        verify(graph)
        kept[stage.run.__name__] = [len(node.aval) for node in graph.live if node.op is SCAN]
    assert kept["choose_residuals"] < kept["simplify"]


# ---- in the source


READ = {
    "one side": lambda kept, x: (along(kept), 0.0 * x),
    "both sides": lambda kept, x: (along(kept), along(kept) * x),
    "also as it is": lambda kept, x: (along(kept) + kept[0], x),
    "in a branch again": lambda kept, x: (sg.cond(x > 2, lambda: along(kept), lambda: x), along(kept)),
    "by a pole": lambda kept, x: (sg.scan(lambda s, v: (s + 1.0 / (v - v), None), 0.0, kept)[0], x),
}


def along(kept):
    return sg.scan(lambda s, v: (s * 0.5 + v, None), 0.0, kept, reverse=True)[0]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_branches_read_what_a_loop_has_kept(read, level):
    def program(x):
        kept = []
        v = x
        while v > 0.1:
            kept.append(np.sqrt(v))
            v = v / 2
        kept = np.array(kept)
        return np.sqrt(x), sg.cond(x > 1, lambda: read(kept, x)[0], lambda: read(kept, x)[1])

    f = sg.compile(program, optimize=level)
    with np.errstate(all="ignore"):
        for x in (np.float64(3.0), np.float64(0.7)):
            np.testing.assert_allclose(f(x), program(x), rtol=1e-12)


def test_a_list_of_tuples_is_read_in_a_branch():
    def sinking(x):
        u, v = x[0], x[1]
        while u * u + v * v > 0.1:
            r = (u * u + v * v) ** 0.5
            u, v = u - 0.1 * np.sin(u) / r, v - 0.1 * np.cos(v) * v / r
        return u * v

    program = sg.compile(takes_branch(sinking))
    source = program.source(np.array([1.0, 2.0]), 5.0)
    assert source.count("kept = []") == source.count("kept.append(") == source.count("in reversed(kept):") == 1
    assert without_comments(source).count("while ") == 1


def test_several_branches_need_more_of_one_loop():
    def program(x):
        value, slope = falling(x), sg.grad(falling)
        return value, sg.cond(value > 0, lambda: slope(x), lambda: x), sg.cond(x[0] > 0, lambda: x, lambda: slope(x))

    graph = sg.trace(program, X).graph
    after = run(UNITE, graph)
    assert whiles(graph) == 3
    assert len([node for node in after.live if node.op is SCAN]) == 1  # what is not one with it stays in its branch
    for x in (X, -X):
        agree(after, (x,), interpret(graph.outputs, {graph.inputs[0]: x}))


# ---- what branches compute of what all turns read


def invariant_in_branches(x, w, i):
    total = x
    while total < 50.0:
        if total > 3:
            if total > 9:
                total = total + abs(2.0 * w[1] + 1.0)
            total = total + np.exp(w[0]) + w[i] + np.linalg.solve(np.outer(w, w) + np.eye(3), w)[0]
        total = total * 1.5
    return total


def test_branches_read_what_is_the_same_in_all_turns():
    args = 1.0, np.array([0.5, 1.0, 2.0]), np.array(1)
    graph = sg.trace(invariant_in_branches, *args).graph
    after = in_bodies(hoist_invariants, inner_first=True)(graph, "stable")
    agree(after, args, [invariant_in_branches(*args)])
    (loop,) = [node for node in after.live if node.op is SCAN]
    names = [node.op.name for node in with_nested([loop])]
    assert "absolute" not in names  # in both of the branches
    assert names.count("index") == 2  # of the solution, and of what may be no place
    assert "exp" in names  # which is not as cheap as to read a number
    assert "linalg.solve" in names or "solve" in names


def test_a_loop_without_turns_fails_no_sooner():
    args = 100.0, np.array([0.5, 1.0, 2.0]), np.array(7)  # where there is no such place
    for level in (0, 1, 2):
        assert sg.compile(invariant_in_branches, optimize=level)(*args) == 100.0
