"""Tracing: programs, names, places, specs, trees."""

import pickle
import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.graph import verify
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import trace
from symgrad.ops import marks

X = np.array([1.0, 2.0, 3.0])


def model(params, x, scale=2.0):
    h = np.tanh(x * params["w"])
    return np.sum(h) * scale


def test_a_program_joins_inputs_outputs_and_graph():
    program = sg.compile(model).trace({"w": X, "n": 3}, X)
    verify(program.graph)
    assert program.inputs["params"]["w"].node is program.graph.inputs[0]
    assert program.inputs["params"]["n"] == 3
    assert program.outputs.node is program.graph.outputs[0]
    assert [str(x.aval) for x in program.graph.inputs] == ["float64[3]", "float64[3]"]
    assert program.name == "model" and program.where.text == "def model(params, x, scale=2.0):"


def test_nodes_know_the_line_that_made_them():
    graph = sg.grad(model).graph({"w": X}, X)
    places = {node.op.name: node.where for node in graph.nodes}
    assert places["tanh"].text == 'h = np.tanh(x * params["w"])'
    assert places["sum"].text == "return np.sum(h) * scale"
    derivatives = [node for node in graph.nodes if node.where.of is not None]
    assert derivatives and all(node.where.file == __file__ for node in graph.nodes)
    assert {node.where.of.op.name for node in derivatives} >= {"tanh", "multiply"}


def test_no_place_is_that_of_the_call():
    graph = sg.grad(model, wrt=["x", "params.w"]).graph({"w": X}, X)  # this line
    assert not [node for node in graph.nodes if "this line" in node.where.text]


def test_values_have_the_names_that_the_user_gives():
    graph = sg.compile(model).trace({"w": X}, X).graph
    named = {name for name in graph.names.values() if isinstance(name, str)}
    assert named == {"w", "x", "h"}


def test_unpacked_items_have_each_its_name():
    def f(s, pairs):
        x, y = s
        (a, b), (c, d) = pairs
        home = type("Home", (), {})()
        e, home.f = s + 1
        i, *rest = pairs[0] * 3
        for g, h in pairs:
            x = x + g * h
        return x * y + a * b * c * d + e * home.f + i * rest[0]

    listed = str(sg.trace(f, "float64[2]", "float64[2, 2]"))
    made = dict(re.findall(r"^(\w+) = index\(\S+, key=\((\d),\)\)", listed, re.M))
    assert made.items() >= {"x": "0", "y": "1", "a": "0", "b": "1", "c": "0", "d": "1", "e": "0", "i": "0"}.items()
    assert made.keys().isdisjoint({"home", "f", "rest", "i_2"})


def test_what_a_helper_returns_is_named_by_its_caller():
    def helper(x):
        return np.tanh(x)

    def f(x):
        hidden = helper(x)
        return np.sum(hidden)

    total = sg.compile(f).trace(X)
    names = {str(name) for name in total.graph.names.values()}
    assert names == {"x", "hidden"}


def test_the_caller_of_a_transform_names_nothing_inside():
    def f(x):
        gradient = sg.grad(lambda y: np.sum(np.sin(y)))(x * 2)
        return np.sum(gradient)

    result = sg.compile(f).trace(X)
    tanh = [name for node, name in result.graph.names.items() if node.op.name in ("sin", "sum", "multiply")]
    assert "result" not in map(str, tanh) and "gradient" not in map(str, tanh)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (({"a": X, "b": X}, X), ["a", "b", "y"]),
        (({"a": {"w": X}, "b": {"w": X}}, X), ["a_w", "b_w", "y"]),
        (([X, X], X), ["x_0", "x_1", "y"]),
        (({"y": X}, X), ["x_y", "y"]),
        (({"a b": X}, X), ["a_b", "y"]),
        (((X, {"w": [X]}), X), ["x_0", "w_0", "y"]),
    ],
)
def test_names_of_inputs_are_short_and_apart(arguments, names):
    graph = trace(lambda x, y: y, arguments).graph
    assert [dict(node.params)["name"] for node in graph.inputs] == names


def test_the_program_is_what_the_value_was_when_it_was_returned():
    def f(x):
        y = x.copy()
        results = [y, y + 0]
        y[0] = 9
        return results

    later, before = sg.compile(f)(X)
    np.testing.assert_array_equal(later, [9, 2, 3])  # the same array, written into before the function returned
    np.testing.assert_array_equal(before, X)


def test_constants_are_taken_as_they_are():
    c = np.ones(3)
    f = sg.compile(lambda x: x * c).compile(X)
    np.testing.assert_array_equal(f(X), X)
    c[:] = 5
    np.testing.assert_array_equal(f(X), X)


def test_results_that_depend_on_nothing():
    assert sg.compile(lambda x: 3)(X) == 3
    np.testing.assert_array_equal(sg.compile(lambda x: np.arange(3))(X), np.arange(3))
    assert sg.compile(lambda x: x.shape[0])(X) == 3
    assert sg.compile(lambda x: x.shape[0] * 2).compile("float64[n]")(X) == 6
    assert sg.compile(lambda x: None)(X) is None


def test_marks_are_views_of_what_they_mark():
    program = trace(lambda x: marks.marked(x * 2), (X,))
    (y,) = program.graph.outputs
    assert y.op is marks.ALIAS and y.inputs[0].op.name == "multiply"


# ---- specs


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("float64[n, 3]", ("n", 3), "float64"),
        ("float32[]", (), "float32"),
        ("int64", (), "int64"),
        ("bool[2 * n + 1, _]", ("2 * n + 1", "_"), "bool"),
        ("complex64[0]", (0,), "complex64"),
    ],
)
def test_specs(text, shape, dtype):
    spec = sg.spec(text)
    assert spec.shape == shape and spec.dtype == np.dtype(dtype)
    assert sg.spec(repr(spec)).shape == shape


@pytest.mark.parametrize("text", ["", "n", "float64[", "float64[1.5]", "float64[n]]", "float64[f(n)]", "float64[n n]"])
def test_what_is_no_spec(text):
    with pytest.raises(ArgumentError):
        sg.spec(text)


def test_the_same_letter_is_the_same_size():
    f = sg.compile(lambda x, y: x + y)
    assert str(f.trace("float64[n]", "float64[n]").outputs.aval) == "float64[n]"
    from symgrad.errors import SymgradError

    with pytest.raises(SymgradError):
        f.trace("float64[n]", "float64[m]")


# ---- trees


def test_tree_map_needs_trees_of_one_structure():
    assert tree.tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 3, "y": [4]}) == {"x": 4, "y": [6]}
    with pytest.raises(ValueError, match="the trees differ"):
        tree.tree_map(lambda a, b: a, [1], (1,))


def test_render():
    assert tree.render(tree.flatten(({"a": 1}, [2, None]))[1]) == "({'a': *}, [*, *])"
    assert tree.render(tree.flatten(1)[1]) == "*"


def test_the_graph_of_a_trace_is_one_to_build_on():
    program = sg.trace(lambda x: x * 2, "float64[n]")
    assert isinstance(program.graph, sg.Graph) and isinstance(sg.grad(np.sin).graph(0.0), sg.Graph)
    z = program.graph.input("z", "float64[n]")
    f = sg.function([program.inputs["x"], z], program.outputs * z)
    assert f(np.ones(2), np.full(2, 3.0)).tolist() == [6.0, 6.0]
    again = pickle.loads(pickle.dumps(sg.grad(np.sin).compile(0.0)))
    assert isinstance(again.program.graph, sg.Graph)


def test_lines_of_a_long_function_are_known_wherever_an_expression_begins():
    lines = ["def f(x):"]
    for _ in range(300):
        lines += ["    x = np.sin(", "        x", "    ) * 1.5"]
    namespace = {"np": np}
    exec(compile("\n".join([*lines, "    return x"]), "/long/function.py", "exec"), namespace)
    graph = sg.trace(namespace["f"], "float64[]").graph
    sines = [node for node in graph.nodes if node.op.name == "sin"]
    assert [node.where.line for node in sines] == [2 + 3 * i for i in range(300)]
    assert {graph.names[node] for node in graph.nodes if node.op.name == "multiply"} == {"x"}
