"""Regions: what a checkpoint or a loop computes, as a value that is compared by structure."""

import json
import pickle

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import counted_sizes
from symgrad.core.counted_sizes import needed_for_sizes, tellers
from symgrad.core.graph import ITEM, Graph, reached, verify
from symgrad.core.interpret import interpret
from symgrad.core.region import Region, cut, inline, map_regions, mark, regions_of, with_nested
from symgrad.derivatives.rematerialise import barred, computed_again
from symgrad.loops.loop import LOOP
from symgrad.ops.checkpoint import BARRIER, CHECKPOINT
from symgrad.pipeline import optimise
from tests.work import calls

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))


def region(function, *specs):
    """Return the region that a function computes on arguments with these specs."""
    graph = sg.Graph()
    inputs = [graph.input(f"x{i}", spec) for i, spec in enumerate(specs)]
    results = function(*inputs)
    return Region(graph, [x.node for x in inputs], [y.node for y in results])


V = "float64[n]"


# ---- equality


def step(x, y):
    h = np.sin(x) * 2.0
    return h + y, np.sum(h)


def same_step(a, b):
    twice = 2.0
    total = np.sum(np.sin(a) * twice)  # made before the first result
    return np.sin(a) * twice + b, total


OTHERS = {
    "operator": lambda x, y: (np.cos(x) * 2.0 + y, np.sum(np.cos(x) * 2.0)),
    "constant": lambda x, y: (np.sin(x) * 3.0 + y, np.sum(np.sin(x) * 3.0)),
    "type of a constant": lambda x, y: (np.sin(x) * np.float64(2.0) + y, np.sum(np.sin(x) * np.float64(2.0))),
    "wiring": lambda x, y: (np.sin(x) * 2.0 + y, np.sum(np.sin(y) * 2.0)),
    "order of parameters": lambda y, x: (np.sin(x) * 2.0 + y, np.sum(np.sin(x) * 2.0)),
    "order of results": lambda x, y: step(x, y)[::-1],
    "parameters of an operator": lambda x, y: (np.sin(x) * 2.0 + y, np.sum(np.sin(x) * 2.0, keepdims=True)),
    "one result": lambda x, y: step(x, y)[:1],
}


def test_names_places_and_the_order_of_making_do_not_count():
    a, b = region(step, V, V), region(same_step, V, V)
    assert a == b and hash(a) == hash(b) and a.nodes != b.nodes


@pytest.mark.parametrize("what", OTHERS)
def test_everything_else_counts(what):
    assert region(step, V, V) != region(OTHERS[what], V, V)


@pytest.mark.parametrize("spec", ["float32[n]", "float64[m]", "float64[n, n]", "float64[3]"])
def test_the_kinds_of_parameters_count(spec):
    assert region(lambda x: [np.sin(x)], V) != region(lambda x: [np.sin(x)], spec)


def test_a_parameter_that_is_not_read_counts():
    assert region(lambda x, y: [np.sin(x)], V, V) != region(lambda x: [np.sin(x)], V)


def test_marks_of_its_own_do_not_count_and_those_that_are_the_same_do():
    def twice(a, b):
        return lambda x: [np.sin(BARRIER(x, own=a)) + np.cos(BARRIER(x, own=b))]

    assert region(twice(1, 2), V) == region(twice(7, 5), V)
    assert region(twice(1, 2), V) != region(twice(1, 1), V)


def test_deep_nesting_costs_no_more_than_its_length():
    def nested(depth):
        inner = region(lambda x: [np.sin(x)], V)
        for _ in range(depth):
            graph = Graph()
            x = graph.add(inner.parameters[0].op, (), inner.parameters[0].params)
            node = graph.add(CHECKPOINT, (x,), (("region", inner),))
            inner = Region(graph, [x], [graph.add(ITEM, (node,), (("index", 0),))])
            hash(inner)
        return inner

    a, b = nested(1000), nested(1000)
    assert calls(lambda: hash(a) == hash(b)) < 100
    assert nested(50) == nested(50) != nested(51)


# ---- in and out of graphs


def test_what_was_there_before_is_computed_inside_all_the_same():
    graph = sg.Graph()
    x = graph.input("x", V)
    before = np.exp(x)  # of which the region asks for once more
    read = np.cos(x)
    since = mark(graph)
    y = np.sin(np.exp(x)) + read
    found = cut(graph, [y.node], since)
    assert [node.op.name for node in found.nodes] == ["exp", "sin", "add"] and before.node in found.nodes
    assert found.parameters == (x.node, read.node)


def test_inlining_gives_what_a_region_computes():
    part, graph = region(step, "float64[3]", "float64[3]"), sg.Graph()
    x = graph.input("x", "float64[3]")
    image = inline(graph, part, [np.exp(x).node, x.node])
    verify(graph)
    found = interpret([image[y] for y in part.results], {x.node: X[0]})
    for a, b in zip(found, step(np.exp(X[0]), X[0]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_regions_are_found_and_mapped():
    program = sg.compile(lambda x: sg.checkpoint(lambda x: np.sin(sg.checkpoint(np.cos)(x)) * x)(x)).trace(X)
    (node,) = [x for x in reached(program.graph.outputs) if regions_of(x)]
    assert [x.op.name for x in with_nested([node])].count("checkpoint") == 2
    other = region(step, V, V)
    assert map_regions(node, lambda _: other) == (("region", other),)
    assert map_regions(node.inputs[0], lambda _: other) == node.inputs[0].params


def test_the_interpreter_evaluates_it_with_symbolic_sizes():
    program = sg.compile(lambda x: sg.checkpoint(lambda x: np.sin(x) * np.arange(x.shape[0]))(x)).trace("float64[n]")
    (y,) = interpret(program.graph.outputs, {program.graph.inputs[0]: X[0]})
    np.testing.assert_array_equal(y, np.sin(X[0]) * np.arange(3))


def test_what_is_computed_again_is_never_taken_for_what_is_there():
    part, graph = region(step, V, V), sg.Graph()
    x, y = graph.input("x", V).node, graph.input("y", V).node
    first = inline(graph, part, [x, y])
    again = [computed_again(graph, part, [barred(graph, x), barred(graph, y)]) for _ in range(2)]
    for node in part.nodes:
        if node.inputs:
            assert len({first[node], *(twins[node] for twins in again)}) == 3
            assert all(twins[node].where.again and twins[node].where.of is node for twins in again)


# ---- checkpoints


def test_the_same_call_twice_is_one_node():
    f = sg.checkpoint(lambda x: np.sin(np.exp(x)) * x)
    program = sg.compile(lambda x: f(x) + np.cos(f(x))).trace(X)
    assert [x.op for x in reached(program.graph.outputs)].count(CHECKPOINT) == 1


def test_results_that_share_memory_go_on_sharing_it():
    def f(x, wrap):
        def part(x):
            h = np.sin(x)
            return h, h[0], h.T

        h, row, turned = wrap(part)(x)
        h[0] = 2 * x[1]
        turned[1] *= 3
        return np.sum(h * h) + np.sum(row**3) + np.sum(turned[:, 0])

    plain = lambda f: f
    for level in (0, 1, 2):
        a, b = (sg.value_and_grad(lambda x, w=w: f(x, w), optimize=level)(X) for w in (sg.checkpoint, plain))
        np.testing.assert_allclose(a[0], f(X.copy(), plain))
        np.testing.assert_allclose(a[0], b[0])
        np.testing.assert_allclose(a[1], b[1])


def test_derivatives_by_what_has_left_past_the_results():
    def gradients(wrap):
        graph, seen = sg.Graph(), []

        def part(x):
            seen.append(np.sin(x))
            return np.exp(seen[0]) * x

        x = graph.input("x", "float64[3]")
        y = np.sum(wrap(part)(x) ** 2) + np.sum(seen[0])
        (dh,), (dx,) = sg.gradients(y, seen), sg.gradients(y, [x], stop_gradients=seen)
        return sg.function([x], [dh, dx])(X[0])

    for a, b in zip(gradients(sg.checkpoint), gradients(lambda f: f), strict=True):
        np.testing.assert_allclose(a, b)
        assert np.all(a != 0)


def test_a_value_inside_may_be_fed():
    graph, seen = sg.Graph(), []
    x = graph.input("x", "float64[3]")
    y = sg.checkpoint(lambda x: np.cos(seen.append(np.sin(x)) or seen[0]))(x)
    np.testing.assert_array_equal(sg.function(seen, y)(X[0]), np.cos(X[0]))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_many_values_at_once(level):
    def row(x, w, wrap):
        return np.sum(wrap(lambda x: np.tanh(x @ w) * np.sum(w))(x) ** 2)

    def f(x, w, wrap):
        rows = np.vectorize(lambda x: row(x, w, wrap), signature="(i)->()")(x)
        inner = np.vectorize(lambda x: sg.grad(lambda x: row(x, w, wrap))(x), signature="(i)->(i)")(x)
        return np.sum(rows * rows) + np.sum(np.sin(inner))

    w = RNG.standard_normal((3, 3))
    found, expected = (
        sg.value_and_grad(lambda x, w, wrap=wrap: f(x, w, wrap), (0, 1), optimize=level)
        for wrap in (sg.checkpoint, lambda f: f)
    )
    for n in (4, 7, 5):  # of which the last is a symbol
        x = RNG.standard_normal((n, 3))
        for a, b in zip(found(x, w)[1], expected(x, w)[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    graph = sg.grad(lambda x: f(x, w, sg.checkpoint)).graph(X)
    assert any(node.op is CHECKPOINT and node.inputs[0].aval.ndim == 2 for node in reached(graph.outputs))


def test_a_gradient_and_its_tangent_compute_again_once():
    """Forward nothing is computed again, also where the values are what a derivative has computed again."""
    f = lambda x: np.sum(sg.checkpoint(lambda x: np.exp(np.sin(x)) * x)(x) ** 2)
    gradient = sg.compile(sg.grad(f)).compile(X, optimize=1)
    both = sg.compile(lambda x, t: sg.jvp(sg.grad(f), (x,), (t,))).compile(X, X, optimize=1)
    again = [[n.op.name for n in c.graph.nodes if n.where.again] for c in (gradient, both)]
    assert again[0] and sorted(set(again[1])) == sorted(again[1])


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("transform", [sg.hvp, lambda f: lambda x, t: sg.grad(lambda x: np.sum(sg.grad(f)(x) * t))(x)])
def test_what_is_computed_again_comes_behind_what_is_computed_first(transform, level):
    """Values of a derivative that were made before, and are dead, have places far ahead."""
    w = [RNG.standard_normal((3, 3)) for _ in range(4)]
    graph = sg.compile(transform(lambda x: chain(w, x))).compile(X, X, optimize=level).graph
    forward = [node.id for node in graph.nodes if node.op.name == "tanh" and node.where.of is None]
    again = [node.id for node in graph.nodes if node.op.name == "tanh" and node.where.again]
    assert len(forward) == 4 and again and max(forward) < min(again)


def test_what_is_computed_again_in_two_places_is_kept_for_neither():
    """A derivative that is a result, and is simplified for the next derivative, too."""

    def norm(weights, x):
        gradients = sg.grad(chain)(weights, x)
        return sum(np.sum(g * g) for g in gradients), gradients

    program = sg.grad(norm, has_aux=True).trace([np.eye(3)] * 4, X)
    parts = [part for node in reached(program.graph.outputs) for part in regions_of(node)]
    barriers = [x for part in parts for x in part.nodes if x.op is BARRIER and x.inputs[0] in part.parameters]
    assert len(barriers) == len({x.params for x in barriers}) > 20


@pytest.mark.parametrize("level", [0, 1, 2])
def test_derivatives_by_names_in_checkpoints_in_checkpoints(level):
    def f(x, wrap):
        def part(x):
            h = sg.name(np.log(1 + np.exp(x)), "h")
            return h * np.sin(h) * x

        return np.sum(wrap(lambda x: wrap(part)(x) * wrap(lambda x: x * x)(x))(2 * x) ** 2)

    inner = lambda x, wrap: np.sum(sg.grad(lambda x: f(x, wrap))(x) ** 2)
    for g in (f,) if level else (f, inner):  # simplified, a value inside of `inner` is another than before
        found, expected = (
            sg.grad(lambda x, g=g, w=w: g(x, w), wrt=["h", "x"], optimize=level)(X)
            for w in (sg.checkpoint, lambda f: f)
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)
            assert np.any(a != 0)


def test_nothing_is_left_of_it_in_what_runs():
    program = sg.hessian(lambda x: np.sum(sg.checkpoint(np.sin)(x) ** 3)).trace(X[0])
    assert any(x.op is CHECKPOINT for x in reached(program.graph.outputs))
    for level in (0, 1, 2):
        graph = optimise(program.graph, level)
        verify(graph)
        assert not any(regions_of(x) for x in graph.nodes)


def chain(weights, x):
    for i in range(0, 4, 2):

        def part(h, weights=weights[i : i + 2]):
            for w in weights:
                z = h @ w
                h = np.tanh(z)
            return h

        x = sg.checkpoint(sg.checkpoint(part))(x)
    return np.sum(x * x)


def test_it_goes_into_files_and_to_other_processes():
    norm = lambda weights, x: sum(np.sum(g * g) for g in sg.grad(chain)(weights, x))
    compiled = sg.grad(norm).compile([np.eye(3)] * 4, X, optimize=1)
    assert "z_2_again" in compiled.source
    assert pickle.loads(pickle.dumps(compiled)).source == compiled.source
    text = sg.to_json(compiled.program)
    with sg.options(optimize=1):
        assert sg.Compiled(sg.from_json(text)).source == compiled.source
    assert sg.to_json(sg.from_json(text)) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda region: region.update(parameters=[0, 1]), "does not take these inputs"),
        (lambda region: region.update(parameters=[]), "need more than the parameters"),
        (lambda region: region.update(nodes=[]), "'names' is missing"),
        (lambda region: region.pop("results"), "'results' is missing"),
    ],
)
def test_a_wrong_region_is_refused(change, message):
    data = json.loads(sg.to_json(sg.compile(lambda x: sg.checkpoint(np.sin)(x)).trace(V)))
    (row,) = [row for row in data["nodes"] if row["op"] == "checkpoint"]
    change(row["params"]["region"]["region"])
    with pytest.raises(sg.errors.ArgumentError, match=message):
        sg.from_json(json.dumps(data))


# ---- loops


def body(function, *specs):
    graph = sg.compile(function).compile(*specs).graph
    (node,) = [x for x in graph.nodes if x.op is LOOP]
    return dict(node.params)["body"]


def rows(x, y):
    z = np.exp(-(x * x)) + y
    return np.sum(z, axis=0), np.sqrt(z * z + 1.0)


def test_equal_loops_are_equal():
    specs = ["float64[n, 40]"] * 2
    a, b = body(rows, *specs), body(lambda y, x: rows(y, x), *specs)
    assert a == b and hash(a) == hash(b) and a.nodes != b.nodes


@pytest.mark.parametrize(
    "other",
    [
        lambda: body(rows, *["float64[n, 80]"] * 2),
        lambda: body(rows, *["float32[n, 40]"] * 2),
        lambda: body(rows, *["float64[100000, 40]"] * 2),
        lambda: body(lambda x, y: rows(x, 2 * y), *["float64[n, 40]"] * 2),
        lambda: region(lambda x, y: rows(x, y), *["float64[n, 40]"] * 2),
    ],
)
def test_loops_that_differ_are_told_apart(other):
    assert body(rows, *["float64[n, 40]"] * 2) != other()


def test_what_a_loop_is_counts_beside_its_body():
    a = body(rows, *["float64[n, 40]"] * 2)
    facts = a.graph, a.size, a.rows, a.bounds, a.cuts, a.joins, a.avals, a.layout, a.least, a.seconds
    assert type(a)(*facts) == a
    for i, other in ((4, (*a.cuts[::-1], None)), (5, a.joins[::-1]), (6, a.avals[::-1]), (8, a.least + 1), (9, 0.0)):
        assert type(a)(*facts[:i], other, *facts[i + 1 :]) != a


def test_the_sizes_that_a_body_mentions_are_found_once(monkeypatch):
    def f(x):
        for _ in range(20):
            x = sg.while_loop(lambda y: y > 1, lambda y: y / 2, x) + 1
        return x

    nodes = sg.trace(sg.grad(f), 5.0).graph.live
    first = needed_for_sizes(nodes)
    asked = []
    monkeypatch.setattr(counted_sizes, "tellers", lambda nodes, known=tellers: asked.append(nodes) or known(nodes))
    assert needed_for_sizes(nodes) == first
    assert len(asked) == 1  # of the nodes themselves
