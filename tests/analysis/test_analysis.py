"""Facts about graphs: who reads a value, which values lie in the same memory, and until when that is needed."""

import itertools
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.analysis import ranges
from symgrad.analysis.aliases import copies, is_read_only, roots_of, stays_in_place
from symgrad.analysis.liveness import last_users, most_held, released, released_names
from symgrad.analysis.ranges import Hazards, Interval, ranges_of
from symgrad.analysis.uses import live_in, shared_values, times_used, users_of
from symgrad.core.graph import Node, reached
from symgrad.core.interpret import evaluate, interpret, values_of
from symgrad.ops.define import TABLE
from tests.fuzz import generated, quietly


def traced(f, *args):
    graph = sg.trace(f, *args).graph
    return graph, reached(graph.outputs)


X = np.arange(6.0).reshape(2, 3)


# ---- uses


def test_users_are_in_order_and_as_often_as_they_read():
    _, (x, a, b, c) = traced(lambda x: np.exp(x * x) - x, X)
    assert users_of([x, a, b, c]) == {x: [a, a, c], a: [b], b: [c], c: []}
    assert times_used([x, a, b, c], [c, c]) == {x: 3, a: 1, b: 1, c: 2}


def test_what_is_a_result_or_has_several_users_is_shared():
    _, (x, a, b) = traced(lambda x: np.exp(x * x), X)
    assert shared_values([x, a, b], [b]) == {b}  # one node that reads it twice is one user
    _, (x, a, b) = traced(lambda x: x + np.exp(x), X)
    assert shared_values([x, a, b], [a, b]) == {x, a, b}


def test_a_part_of_a_program_needs_what_it_does_not_compute():
    _, (x, a, b, c) = traced(lambda x: np.exp(x * x) - x, X)
    assert live_in([b, c]) == {x, a}
    assert live_in([b], [x]) == {x, a}
    assert live_in([x, a, b, c], [c]) == set()


# ---- aliases


def test_views_lie_in_the_memory_of_what_they_look_at():
    _, (x, y, rows, held, turned, z) = traced(lambda x: np.exp(sg.stop_gradient(np.exp(x)[1:]).T), X)
    assert roots_of([x, y, rows, held, turned, z]) == {x: x, y: y, rows: y, held: y, turned: y, z: z}


def test_what_is_assigned_into_may_stay_where_it_is():
    def assigned(x):
        y = np.exp(x)
        y[0] = 1
        y[1, [0, 2]] += x[0, :2]
        return y

    graph, nodes = traced(assigned, X)
    (y,), exp = graph.outputs, nodes[1]
    assert roots_of(nodes)[y] is y and roots_of(nodes, stays_in_place)[y] is exp


def test_under_index_arrays_numpy_copies():
    _, (x, y, numbers, picked, turned) = traced(lambda x: np.exp(x)[np.array([0, 1])].T, X)
    assert roots_of([x, y, numbers, picked, turned])[turned] is picked


def test_what_is_looked_at_through_a_broadcast_cannot_be_written_into():
    _, (x, y, spread, part, z) = traced(lambda x: np.exp(np.broadcast_to(np.exp(x), (4, 2, 3))[1:]), X)
    assert [is_read_only(node) for node in (x, y, spread, part, z)] == [False, False, True, True, False]


def test_a_reshape_of_what_does_not_lie_in_order_copies():
    graph, _ = traced(lambda x: (x.T.reshape(-1), x.T[None].reshape(3, 2), x[None].reshape(-1), x.reshape(-1)), X)
    assert [copies(y) for y in graph.outputs] == [True, False, False, False]


# ---- liveness


def test_memory_is_needed_until_the_last_view_of_it_is_read():
    x, y, _, a, b = nodes = traced(lambda x: np.cos(np.sin(np.exp(x).T)), X)[1]
    last = last_users(nodes, roots_of(nodes))
    assert last == {x: y, y: a, a: b, b: b}
    assert released(last, kept={x, b}) == {a: [y], b: [a]}


def test_what_is_held_at_once_ends_with_the_last_use_of_a_view():
    sizes = []

    def size_of(node):
        sizes.append(node)
        return {"exp": 100, "sin": 10, "cos": 1}[node.op.name]

    _, y, view, a, b = traced(lambda x: np.cos(np.sin(np.exp(x).T)), X)[1]
    assert most_held([y, view, a, b], size_of) == 110
    assert most_held([y, a, b], size_of) == 110  # whether or not the view is among them
    assert most_held([a, b], size_of) == 11  # what others made is theirs
    assert view not in sizes


class Line(NamedTuple):
    makes: Node | None
    reads: tuple[Node, ...]


def test_names_go_behind_the_last_statement_that_reads_their_memory():
    x, y, view, a, b = nodes = traced(lambda x: np.cos(np.sin(np.exp(x).T)), X)[1]
    names = {x: "x", y: "y", view: "view", a: "a", b: "b"}
    lines = [Line(y, (x,)), Line(view, (y,)), Line(None, ()), Line(a, (view,)), Line(b, (a,)), Line(None, (b,))]

    def behind(kept, worth=(y, view, a, b), names=names, lines=lines):
        return released_names(lines, names.__getitem__, roots_of(nodes), kept, worth)

    assert behind({b}) == {3: ["y", "view"], 4: ["a"]}
    assert behind({y, b}) == {4: ["a"]}  # a view of it is returned
    assert behind({b}, worth=(y,)) == {3: ["y", "view"]}
    assert behind(()) == behind({b})  # behind the last statement nothing goes
    assert behind({b}, names={**names, a: "y"}) == {3: ["view"], 4: ["y"]}  # under whose name another value comes
    assert behind({b}, names={**names, b: "a"}) == {3: ["y", "view"]}


def released_early(graph, feeds, roots):
    """The results where memory is overwritten as soon as it is released, and how often that was."""
    nodes = reached(graph.outputs)
    behind = released(last_users(nodes, roots), {*feeds, *(roots[y] for y in graph.outputs)})
    values, count = {}, 0
    for node in nodes:
        values[node] = feeds[node] if node in feeds else evaluate(node, values, {})
        for x in behind.get(node, ()):
            if isinstance(values[x], np.ndarray) and values[x].flags.writeable:
                values[x][...] = ~values[x] if values[x].dtype == bool else 77
                count += 1
    return [values[y] for y in graph.outputs], count


def programs_with_feeds(count):
    for seed in range(count):
        program = generated(seed)
        args = program.values(program.sizes[0])
        wrt = tuple(i for i, a in enumerate(program.arguments) if a.floating())
        f = sg.compile(program.function()) if program.kind == "values" else sg.value_and_grad(program.function(), wrt)
        try:
            graph = f.graph(*args)
        except sg.errors.SymgradError:
            continue
        yield seed, graph, dict(zip(graph.inputs, args, strict=True))


def same(expected, found):
    pairs = zip(map(np.asarray, expected), map(np.asarray, found), strict=True)
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs)


@pytest.mark.slow
def test_random_programs_do_without_what_is_released():
    released_in_all = 0
    for seed, graph, feeds in programs_with_feeds(60):
        expected = quietly(interpret, graph.outputs, feeds)
        found, count = quietly(released_early, graph, feeds, roots_of(reached(graph.outputs)))
        assert same(expected, found), seed
        released_in_all += count
    assert released_in_all > 300


def test_a_view_taken_for_memory_of_its_own_is_found():
    graph, nodes = traced(lambda x: np.exp(x).T + 1, X)
    expected = interpret(graph.outputs, {nodes[0]: X})
    right, _ = released_early(graph, {nodes[0]: X}, roots_of(nodes))
    wrong, _ = released_early(graph, {nodes[0]: X}, roots_of(nodes, lambda node: False))
    assert same(expected, right) and not same(expected, wrong)


# ---- ranges


def range_of(f, x=X):
    graph, nodes = traced(f, x)
    return ranges_of(nodes)[graph.outputs[0]]


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (lambda x: x, -math.inf, math.inf),
        (lambda x: np.exp(-np.abs(x)), 0, 1),
        (lambda x: 3 / (1 + np.exp(x)), 0, 3),
        (lambda x: np.tanh(x) * np.sin(x) - 2, -3, -1),
        (lambda x: np.clip(x, -2, 5) / -2, -2.5, 1),
        (lambda x: 1 / np.clip(x, -2, 5), -math.inf, math.inf),
        (lambda x: np.maximum(np.minimum(x, 4), 3), 3, 4),
        (lambda x: np.exp(np.minimum(x, 1000)), 0, math.inf),
        (lambda x: np.broadcast_to(np.sign(x), (2, 2, 3)), -1, 1),
        (lambda x: 0 * np.exp(x), 0, 0),
        (lambda x: np.tanh(x) * 1e308 + np.tanh(x) * 1e308, -math.inf, math.inf),  # rounds to infinities
        (
            lambda x: np.clip(x.astype(int), 100, 120).astype(np.int8) + np.int8(100),
            -math.inf,
            math.inf,
        ),  # wraps around
    ],
)
def test_the_interval_of_a_value(f, low, high):
    assert range_of(f) == Interval(low, high)


def test_a_number_that_no_dtype_has_is_infinite():
    narrow = X.astype(np.float16)
    assert range_of(lambda x: np.tanh(x) * np.float16(6e4) * np.tanh(x) * np.float16(2), narrow) == Interval()
    assert range_of(lambda x: np.sin(x) * np.float16(6e4), narrow).magnitude == np.float16(6e4)


def outside(graph, feeds):
    """The operators whose numbers do not lie where they are said to, of a program run on numbers."""
    values = quietly(values_of, graph.outputs, feeds)
    found = []
    for node, interval in ranges_of(reached(graph.outputs)).items():
        x = np.asarray(values[node]) if interval != Interval() else np.zeros(0)
        if np.any((x < interval.low) | (x > interval.high)):
            found.append(node.op.name)
    return found


@pytest.mark.slow
def test_the_numbers_of_random_programs_lie_in_their_intervals():
    known = 0
    for seed, graph, feeds in programs_with_feeds(100):
        assert outside(graph, feeds) == [], seed
        known += sum(r != Interval() for r in ranges_of(reached(graph.outputs)).values())
    assert known > 200


ENDS = [-math.inf, -1e308, -30.0, -1.0, 0.0, 1e-300, 0.5, 2.0, 700.0, 720.0, math.inf]
BOUNDED = [op for op in dict.fromkeys(TABLE.values()) if getattr(op, "interval", None) and op.elementwise]


@pytest.mark.parametrize("op", BOUNDED, ids=lambda op: op.name)
def test_results_lie_in_the_interval_that_an_entry_gives(op):
    rng, arity = np.random.default_rng(0), 3 if op.name == "clip" else getattr(op.evaluate, "nin", 1)
    for _ in range(300):
        ends = [sorted(rng.choice(ENDS, 2, replace=False).tolist()) for _ in range(arity)]
        given = [Interval(low, high) for low, high in ends]
        found = Interval(*op.interval) if isinstance(op.interval, tuple) else op.interval(*given)
        points = [[e for e in ENDS if r.low <= e <= r.high] for r in given]
        for xs in itertools.product(*points):
            y = quietly(op.evaluate, *map(np.float64, xs))
            assert np.isnan(y) or found.low <= y <= found.high, (xs, given)


def test_a_wrong_interval_is_found(monkeypatch):
    monkeypatch.setitem(TABLE, np.sinh, replace(TABLE[np.sinh], interval=(-1, 1)))
    graph, (x, *_) = traced(np.sinh, X)
    assert outside(graph, {x: X}) == ["sinh"]


def test_where_no_exponential_overflows_nothing_is_said_of_it():
    def quiet(f):
        return "errstate" in sg.compile(f).source(X)

    assert quiet(lambda x: 1 / (1 + np.exp(x))) and quiet(lambda x: 1 / (1 + np.exp(np.minimum(x, 1000))))
    assert not quiet(lambda x: 1 / (1 + np.exp(-np.abs(x)))) and not quiet(
        lambda x: 1 / (1 + np.exp(np.minimum(x, 700)))
    )


def test_the_interval_of_each_value_is_found_once(monkeypatch):
    asked, known = [], ranges._range_of
    monkeypatch.setattr(ranges, "_range_of", lambda node, of: asked.append(node) or known(node, of))

    def f(x):
        for _ in range(20):
            x = x - sg.grad(lambda x: np.log(1 + x**2))(x)
        return x

    sg.trace(sg.grad(f), 0.5)
    assert len(asked) == len(set(asked))
    assert asked


def test_a_value_that_is_suspected_later_makes_suspects():
    graph = sg.trace(lambda x, y: (np.sin(x) + y, np.log(y)), 0.5, 0.5).graph
    x, y = graph.inputs
    total, logarithm = graph.outputs
    hazards = Hazards(graph)
    assert total not in hazards
    assert logarithm in hazards
    hazards._suspect([y])
    assert total in hazards
    assert x not in hazards


def test_the_interval_at_the_end_of_a_long_chain():
    graph = sg.Graph()
    y = np.square(graph.input("x", "float64[]"))
    for _ in range(5000):
        y = y + 1.0
    assert np.log(y).node not in Hazards(graph)
