"""What a person sees of graphs and programs: listings, trees, one-line mathematics, pictures."""

from __future__ import annotations

import time

import numpy as np

import symgrad as sg

HOSTILE = 'a"]\n<b>&`%%{x}%% --> </svg><script>"""\\N #quot; \u202e'


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


LOSS = sg.value_and_grad(loss, optimize=1)
SPECS = ("float64[d]", "float64[n, d]", "float64[n]")
LINE = loss.__code__.co_firstlineno


def at(text):
    """A text about `loss` whose lines are counted from its first."""
    for i in range(3):
        text = text.replace(f"@{i}", f"test_show.py:{LINE + i}")
    return text.strip("\n")


def chain(n):
    g = sg.Graph()
    x = y = g.input("x", "float64[3]")
    for _ in range(n):
        y = np.sin(y) * x
    sg.gradients(np.sum(y), [x])
    return g


# ---- one line a node


def test_a_program_is_listed_node_by_node():
    @sg.compile
    def scaled(x):
        h = np.tanh(x)
        return {"h": h, "k": 2, "y": [h[1:] * x.shape[0]]}

    line = scaled.__wrapped__.__code__.co_firstlineno
    assert (
        str(scaled.trace("float64[n]"))
        == f"""
scaled(x: float64[n]):
x = input                              float64[n]      test_show.py:{line}
h = tanh(x)                            float64[n]      test_show.py:{line + 2}
%2 = index(h, key=((1, None, None),))  float64[n - 1]  test_show.py:{line + 3}
%4 = multiply(%2, n)                   float64[n - 1]  test_show.py:{line + 3}
return {{'h': h, 'k': 2, 'y': [%4]}}
""".strip("\n")
    )


def test_a_graph_is_listed_with_derivatives_and_what_they_derive():
    assert str(LOSS.compile(*SPECS).graph) == at("""
w = input                 float64[d]     @0
X = input                 float64[n, d]  @0
y = input                 float64[n]     @0
%3 = matmul(X, w)         float64[n]     @1
margin = multiply(y, %3)  float64[n]     @1
%5 = negative(margin)     float64[n]     @2
%7 = logaddexp(0.0, %5)   float64[n]     @2
value = mean(%7)          float64[]      @2
%11 = exp(margin)         float64[n]     @2, derivative of %7
%13 = add(1, %11)         float64[n]     @2, derivative of %7
%14 = divide(1.0, n)      float64[]      @2, derivative of %7
%15 = negative(%14)       float64[]      @2, derivative of %5
%16 = divide(y, %13)      float64[n]     @1, derivative of %3
%17 = matmul(%16, X)      float64[d]     @1, derivative of %3
d_w = multiply(%15, %17)  float64[d]     @1, derivative of %3
return value, d_w
""")


def test_the_body_of_a_loop_stands_below_it():
    text = str(LOSS.compile(*SPECS, optimize=2).graph)
    lines = text.split("\n")
    start = lines.index("    body:")
    assert " = loop(X, w, y, symbols=(n,))  float64[], float64[d]" in lines[start - 1]
    inner = [line for line in lines if line.startswith("    ")]
    assert any("= exp(" in line and "float64[rows]" in line for line in inner)
    assert inner[-1].startswith("    return ")
    assert "Block" not in text


def test_repr_is_short():
    program = LOSS.trace(*SPECS)
    assert repr(program) == f"<Program loss_value_and_grad of {len(program.graph.nodes)} nodes>"
    assert repr(program.graph) == f"<Graph of {len(program.graph.nodes)} nodes>"


def test_names_are_one_each_and_second_derivatives_have_theirs():
    graph = sg.grad(sg.grad(lambda x: np.exp(x) * x)).graph("float64[]")
    for node in [node for node in graph.nodes if node.inputs][-2:]:
        graph.names[node] = "h"
    made = [line.split(" = ")[0] for line in str(graph).split("\n")[:-1]]
    assert len(set(made)) == len(made)
    assert {"d_x", "h", "h_2"} <= set(made)
    assert "d2_x" in str(sg.grad(sg.grad(lambda x: np.exp(x) * x)).graph("float64[]"))


def test_numbers_stand_where_they_are_used_and_large_constants_do_not_flood():
    table = np.arange(1000.0)
    text = str(sg.compile(lambda x: -0.0 * x + table * 2).graph("float64[1000]"))
    assert "multiply(-0.0, x)" in text
    assert "constant(value=<float64(1000,)>)" in text
    assert len(text) < 1000


def test_no_text_of_the_user_breaks_a_line():
    g = sg.Graph()
    x = g.input("x", "float64[]")
    y = x * 2
    g.names[y.node] = HOSTILE
    op = sg.operator(lambda x: x, name=HOSTILE, infer=lambda x: x)
    op(y)
    code = compile("def f(x):\n    return x + 1", HOSTILE, "exec")
    namespace = {}
    exec(code, namespace)
    text = str(sg.trace(namespace["f"], 1.0))
    assert len(str(g).split("\n")) == 3
    assert len(text.split("\n")) == 4
    assert (str(g) + text).replace("\n", "").isprintable()


def test_a_long_graph_is_listed_at_once():
    g = chain(1200)
    assert len(g.nodes) > 5000
    start = time.perf_counter()
    assert str(g).count("\n") > 5000
    assert time.perf_counter() - start < 2
