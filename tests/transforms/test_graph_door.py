"""Graphs by hand: gradients, feeds, fetches, and networkx."""

import networkx as nx
import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import verify
from symgrad.errors import ArgumentError, DTypeError, GraphError, ShapeError

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture
def door():
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    w = g.input("w", "float64[n]")
    h = np.tanh(x * w)
    y = np.sum(h**2)
    return g, x, w, h, y


def test_gradients_append_to_the_graph(door):
    g, x, w, _h, y = door
    before = list(g.nodes)
    (dx, dw) = sg.gradients(y, [x, w])
    assert g.nodes[: len(before)] == before
    verify(g)
    t = np.tanh(X * 2 * X)
    value, d_x, d_w = sg.function([x, w], (y, dx, dw))(X, 2 * X)
    np.testing.assert_allclose(value, np.sum(t**2))
    np.testing.assert_allclose(d_x, 2 * t * (1 - t * t) * 2 * X)
    np.testing.assert_allclose(d_w, 2 * t * (1 - t * t) * X)


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_gradients_three_times(optimize):
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    y = np.sum(np.sin(x) * x)
    fetched = [y]
    for _ in range(3):
        (d,) = sg.gradients(np.sum(fetched[-1]), [x])
        fetched.append(d)
        verify(g)
    f = sg.function([x], fetched, optimize=optimize)
    for n in (2, 3, 1):
        value = X[:n]
        s, c = np.sin(value), np.cos(value)
        expected = [np.sum(s * value), s + value * c, 2 * c - value * s, -3 * s - value * c]
        for result, e in zip(f(value), expected, strict=True):
            np.testing.assert_allclose(result, e)


def test_results_come_in_the_tree_that_was_fetched(door):
    _, x, w, h, y = door
    assert list(sg.function([x, w], {"y": y, "rest": [h, (x, 3)]})(X, X)) == ["y", "rest"]
    assert np.shape(sg.function([x, w], y)(X, X)) == ()
    assert type(sg.function([x, w], [y])(X, X)) is list
    assert type(sg.function([x, w], (y,))(X, X)) is tuple


def test_feeding_an_intermediate_cuts_the_graph(door):
    _, x, _w, h, y = door
    (dh,) = sg.gradients(y, [h])
    f = sg.function([h], [y, dh])
    assert "tanh" not in f.source.split("def ")[1]
    value, d_h = f(X)
    np.testing.assert_allclose(value, np.sum(X**2))
    np.testing.assert_allclose(d_h, 2 * X)
    with pytest.raises(GraphError) as error:
        sg.function([x], y)
    assert error.value.fact == "the outputs need the input 'w', which is not fed"


def test_what_is_not_fetched_is_not_computed(door):
    _, x, w, h, y = door
    sg.gradients(y, [x, w])
    f = sg.function([x, w], h)
    assert "np.sum" not in f.source and len(f.graph.nodes) == 4
    np.testing.assert_allclose(f(X, X), np.tanh(X * X))


def test_an_input_may_be_fetched_and_a_result_is_its_own_array(door):
    _, x, _w, _h, _y = door
    value = X.copy()
    result = sg.function([x], x)(value)
    assert not np.may_share_memory(result, value)


def test_weights_of_the_outputs(door):
    g, x, w, h, y = door
    t = np.tanh(X * X)
    (plain,) = sg.gradients(h, [x])
    np.testing.assert_allclose(sg.function([x, w], plain)(X, X), (1 - t * t) * X)
    weight = g.input("weight", "float64[n]")
    (weighted,) = sg.gradients(h, [x], grad_ys=[weight])
    np.testing.assert_allclose(sg.function([x, w, weight], weighted)(X, X, 3 * X), 3 * X * (1 - t * t) * X)
    (both,) = sg.gradients([h, y], [x], grad_ys=[weight, 2.0])
    expected = 3 * X * (1 - t * t) * X + 2 * 2 * t * (1 - t * t) * X
    np.testing.assert_allclose(sg.function([x, w, weight], both)(X, X, 3 * X), expected)
    (one,) = sg.gradients([h, y], [x], grad_ys=[weight, None])
    expected = 3 * X * (1 - t * t) * X + 2 * t * (1 - t * t) * X
    np.testing.assert_allclose(sg.function([x, w, weight], one)(X, X, 3 * X), expected)


def test_weights_take_the_dtype_of_their_output():
    g = sg.Graph()
    x = g.input("x", "float32[3]")
    weight = g.input("weight", "float64[3]")
    (d,) = sg.gradients(np.sin(x), [x], grad_ys=[weight])
    assert d.dtype == np.float32
    (d,) = sg.gradients(np.sin(x), [x], grad_ys=[np.ones(3)])
    assert d.dtype == np.float32


def test_stop_gradients(door):
    _, x, w, _h, _y = door
    a = x * w
    z = np.sum(a * x)
    (stopped,) = sg.gradients(z, [x], stop_gradients=[a])
    np.testing.assert_allclose(sg.function([x, w], stopped)(X, 2 * X), 2 * X * X)
    zero, through = sg.gradients(z, [w, a], stop_gradients=[a])
    np.testing.assert_allclose(sg.function([x, w], [zero, through])(X, 2 * X), [np.zeros(3), X])


def test_unreached_gradients_are_zeros(door):
    g, x, w, _h, y = door
    z = g.input("z", "float32[2, n]")
    s = g.input("s", "float64[]")
    dz, ds = sg.gradients(y, [z, s])
    z_value, s_value = sg.function([x, w, z, s], [dz, ds])(X, X, np.ones((2, 3), np.float32), np.float64(1))
    assert z_value.shape == (2, 3) and z_value.dtype == np.float32 and not z_value.any()
    assert type(s_value) is np.float64 and s_value == 0


def test_variables_are_arrays(door):
    _g, x, w, _h, _y = door
    assert str(x.aval) == "float64[n]" and repr(x) == "<Variable float64[n] x>"
    n = x.shape[0]
    z = np.concatenate([x[: n // 2], w[n // 2 :]]) / n + np.ones(n, like=x)
    assert str(z.aval) == "float64[n]"
    np.testing.assert_allclose(sg.function([x, w], z)(X, 2 * X), np.concatenate([X[:1], 2 * X[1:]]) / 3 + 1)


def test_functions_and_transforms_append_to_the_graph_of_a_variable(door):
    g, x, _w, _h, _y = door
    loss = sg.compile(lambda a: np.sum(a**3))
    (dx,) = sg.gradients(loss(x), [x])
    np.testing.assert_allclose(sg.function([x], dx)(X), 3 * X**2)
    gradient = sg.grad(lambda a: np.sum(a**3))(x)
    assert gradient.graph is g
    np.testing.assert_allclose(sg.function([x], gradient)(X), 3 * X**2)
    verify(g)


def test_a_traced_program_is_a_graph_to_go_on_with():
    program = sg.trace(lambda x: np.sum(x**3), "float64[n]")
    x = program.inputs["x"]
    (dx,) = sg.gradients(program.outputs, [x])
    np.testing.assert_allclose(sg.function([x], dx)(X), 3 * X**2)


def test_names_are_those_of_the_user(door):
    _, x, w, h, y = door
    (dx,) = sg.gradients(y, [x])
    source = sg.function([x, w], [y, dx]).source
    assert "def function(x, w):" in source and "h = np.tanh(x * w)" in source and "d_x = " in source
    assert "def function(h):" in sg.function([h], y).source


def test_networkx_algorithms(door):
    g, x, _w, h, y = door
    sg.gradients(y, [x])
    dag = g.dag
    assert isinstance(dag, nx.DiGraph) and nx.is_directed_acyclic_graph(dag)
    assert list(nx.lexicographical_topological_sort(dag, key=lambda node: node.id)) == g.nodes
    assert nx.descendants(dag, h.node) >= {y.node}
    assert x.node in nx.ancestors(dag, y.node)
    assert nx.shortest_path(dag, x.node, y.node)[0] is x.node
    assert dag.nodes[h.node]["op"] == "tanh" and dag.nodes[h.node]["aval"] == h.aval
    before = len(dag)
    np.exp(h)
    assert len(g.dag) == before + 1


@pytest.mark.parametrize(
    ("call", "error", "fact"),
    [
        (lambda g, x, i: sg.gradients(i, [x]), DTypeError, "gradients: <Variable int64[n] i> is not floating"),
        (lambda g, x, i: sg.gradients(x, [i]), DTypeError, "gradients: <Variable int64[n] i> is not floating"),
        (lambda g, x, i: sg.gradients([], [x]), ArgumentError, "gradients: ys is empty"),
        (lambda g, x, i: sg.gradients(x, [x], grad_ys=[None, None]), ArgumentError, "gradients: 1 ys and 2 grad_ys"),
        (lambda g, x, i: sg.gradients(x, [3.0]), ArgumentError, "gradients: xs has a float"),
        (lambda g, x, i: sg.gradients(x, x, [np.ones(3)]), ShapeError, "a cotangent of shape (3,) for float64[n]"),
        (lambda g, x, i: sg.gradients(x, [x], ["a"]), DTypeError, "a cotangent for float64[n] is a str"),
        (lambda g, x, i: sg.function([x, x], x), GraphError, "x is given twice"),
        (lambda g, x, i: sg.function(["x"], x), ArgumentError, "function: inputs has a str"),
        (lambda g, x, i: sg.function([], 3.0), ArgumentError, "no Variable was given"),
        (lambda g, x, i: g.input("x", "float64[n]"), GraphError, "the graph has an input named 'x' already"),
        (lambda g, x, i: g.input("a b", "float64[n]"), ArgumentError, "'a b' is not a Python name"),
        (lambda g, x, i: g.input("lambda", "float64[n]"), ArgumentError, "'lambda' is not a Python name"),
        (
            lambda g, x, i: g.input("y", "floaty[n]"),
            ArgumentError,
            "'floaty[n]' is not a spec: there is no dtype 'floaty'",
        ),
        (lambda g, x, i: g.input("y", None), ArgumentError, "the input y is like None"),
        (
            lambda g, x, i: x + sg.Graph().input("x", "float64[n]"),
            GraphError,
            "Variables of different graphs meet",
        ),
        (
            lambda g, x, i: sg.gradients(x, [sg.Graph().input("x", "float64[n]")]),
            GraphError,
            "the Variables belong to different graphs",
        ),
        (lambda g, x, i: sg.function([x], x, optimise=1), ArgumentError, "unknown option optimise="),
    ],
)
def test_errors(call, error, fact):
    g = sg.Graph()
    x, i = g.input("x", "float64[n]"), g.input("i", "int64[n]")
    with pytest.raises(error) as raised:
        call(g, x, i)
    assert raised.value.fact == fact
    assert raised.value.where.file == __file__
