"""Views of graphs and programs: listings, trees, one-line mathematics, pictures."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.listing import node_names
from symgrad.report.profile import Profile
from symgrad.show.layout import isotonic
from symgrad.show.picture import HOT
from symgrad.targets.c import toolchain
from tests.work import calls

pytestmark = pytest.mark.of_numpy

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
x = input                 float64[n]      test_show.py:{line}
h = tanh(x)               float64[n]      test_show.py:{line + 2}
%2 = index(h, key=(1:,))  float64[n - 1]  test_show.py:{line + 3}
%4 = multiply(%2, n)      float64[n - 1]  test_show.py:{line + 3}
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
%10 = exp(margin)         float64[n]     @2, derivative of %7
%12 = add(1, %10)         float64[n]     @2, derivative of %7
%14 = divide(-1, n)       float64[]      @2, derivative of %5
%15 = divide(y, %12)      float64[n]     @1, derivative of %3
%16 = matmul(%15, X)      float64[d]     @1, derivative of %3
d_w = multiply(%14, %16)  float64[d]     @1, derivative of %3
return value, d_w
""")


def test_the_body_of_a_loop_stands_below_it():
    text = str(LOSS.compile(*SPECS, optimize=2).graph)
    lines = text.split("\n")
    start = lines.index("    body:")
    assert " = loop(X, w, y, symbols=(n, d))  float64[], float64[d]" in lines[start - 1]
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


def test_listing_a_graph_is_linear_in_its_length():
    short, long = chain(50), chain(400)
    assert calls(lambda: str(long)) < 8.5 * calls(lambda: str(short))


# ---- trees


def tree_of(x, *args, **options):
    out = io.StringIO()
    sg.dprint(x, *args, file=out, **options)
    return out.getvalue().rstrip("\n")


def test_a_tree_shows_what_is_shared_once():
    assert tree_of(LOSS.compile(*SPECS)) == at("""
value = mean  float64[]  @2
└─ %7 = logaddexp  float64[n]  @2
   ├─ 0.0
   └─ %5 = negative  float64[n]  @2
      └─ margin = multiply  float64[n]  @1
         ├─ y: float64[n]
         └─ %3 = matmul  float64[n]  @1
            ├─ X: float64[n, d]
            └─ w: float64[d]
d_w = multiply  float64[d]  @1, derivative of %3
├─ %14 = divide  float64[]  @2, derivative of %5
│  ├─ -1
│  └─ n
└─ %16 = matmul  float64[d]  @1, derivative of %3
   ├─ %15 = divide  float64[n]  @1, derivative of %3
   │  ├─ y: float64[n]
   │  └─ %12 = add  float64[n]  @2, derivative of %7
   │     ├─ 1
   │     └─ %10 = exp  float64[n]  @2, derivative of %7
   │        └─ margin, above
   └─ X: float64[n, d]
""")


def test_a_tree_is_cut_at_a_depth_and_what_was_cut_is_not_above():
    x = sg.Graph().input("x", "float64[]")
    h = np.exp(np.sin(x))
    lines = tree_of(np.cos(h) * np.sin(x) + np.sin(x), depth=2).split("\n")
    assert [line.lstrip("│├└─ ").split("  ")[0] for line in lines] == [
        "%5 = add",
        "%4 = multiply",
        "%3 = cos",
        "%1 = sin",
        "%1 = sin",
        "x: float64[]",
    ]
    assert [line.endswith("...") for line in lines] == [False, False, True, True, False, False]


def test_trees_of_all_that_has_a_graph():
    program = LOSS.trace(*SPECS)
    assert tree_of(LOSS, *SPECS) == tree_of(program) == tree_of(program.graph)
    assert tree_of(program.outputs[0]) == tree_of(program).split("\nd_w")[0]
    assert ":  " in tree_of(LOSS.compile(*SPECS, optimize=2))


@pytest.mark.parametrize("show", [sg.dprint, sg.pp, sg.draw])
def test_what_has_no_graph_is_refused(show):
    with pytest.raises(sg.errors.ArgumentError, match="ndarray has no graph to show"):
        show(np.ones(3))


def test_arguments_are_for_functions():
    with pytest.raises(sg.errors.ArgumentError, match="Program takes no arguments when it is shown"):
        sg.pp(LOSS.trace(*SPECS), 1.0)
    with pytest.raises(sg.errors.ArgumentError, match="one graph for each type of its arguments"):
        sg.draw(LOSS)


# ---- one line of mathematics


def test_one_line_of_mathematics():
    assert sg.pp(LOSS.compile(*SPECS)) == (
        "(mean(logaddexp(0.0, -margin)), -1 / n * ((y / (1 + exp(margin))) @ X)) where margin = y * (X @ w)"
    )


FORMULAS = {
    "precedence": lambda x: (x + 1) * (x - 2) / (x * -3.0) - (x - (x - 1)) ** 2,
    "powers": lambda x: -(x**2) + (-x) ** 2 + 2.0**-x + (x**2) ** 3,
    "functions": lambda x: np.sum(np.tanh(x) * np.exp(-x), axis=0) + np.maximum(x, 0.5),
    "slices": lambda x: x[1:, None] * x[:-1].T + np.where(x[0] > 1, x[1], -x[2]),
    "shared": lambda x: (lambda h: h * (1 - h) + np.sin(h) / h)(np.exp(x) + 1),
    "constants": lambda x: x * np.float64(2.5) + np.arange(3.0) - np.pi,
    "constant name": lambda x: sg.name(np.exp(x) + 1, "np") * 2 + sg.name(x * x, "exp"),
    "derivatives": sg.grad(lambda x: np.sum(np.log(1 + np.exp(x @ x)) * np.sqrt(x))),
    "checkpoint": sg.grad(sg.checkpoint(lambda x: np.sum(np.tanh(x * 2) ** 3))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_has_the_value_of_what_it_shows(name):
    f, x = FORMULAS[name], np.array([0.3, 1.4, 2.0])
    text = sg.pp(sg.trace(f, x)).replace("%", "t")
    formula, _, given = text.partition(" where ")
    names = {**vars(np), "logistic": lambda x: 1 / (1 + np.exp(-x)), "stop_gradient": lambda x: x}
    scope = {"x": x}
    for definition in re.split(r", (?=\w+ = )", given) if given else ():
        name, _, value = definition.partition(" = ")
        scope[name] = eval(value, names, scope)
    np.testing.assert_allclose(eval(formula, names, scope), f(x), rtol=1e-12)


def test_a_formula_grows_with_the_graph_and_not_with_its_paths():
    y = sg.Graph().input("x", "float64[]")
    for _ in range(60):
        y = sg.checkpoint(lambda h: h * h)(y + 1)
    assert len(sg.pp(y)) < 4000


# ---- pictures


def wave(x):
    return x * np.sin(x)


WAVE = sg.value_and_grad(wave, optimize=1)


def wave_lines(text):
    first = wave.__code__.co_firstlineno
    return text.replace("@1", f"test_show.py:{first}").replace("@2", f"test_show.py:{first + 1}")


@pytest.mark.parametrize("ending", [".svg", ".dot", ".gv", ".mmd", ".md", ".html"])
def test_files_are_written_again_but_not_over_others(ending, tmp_path):
    path = tmp_path / f"loss{ending}"
    drawing = sg.draw(LOSS.compile(*SPECS), path)
    assert path.read_text(encoding="utf-8") == drawing.text(ending)
    sg.draw(LOSS.compile(*SPECS), path)
    path.write_text("mine")
    with pytest.raises(sg.errors.ArgumentError, match="symgrad did not write it"):
        sg.draw(LOSS.compile(*SPECS), path)
    assert path.read_text() == "mine"
    sg.draw(LOSS.compile(*SPECS), path, overwrite=True)
    assert path.read_text(encoding="utf-8") == drawing.text(ending)


@pytest.mark.parametrize("name", ["loss.json", "loss", "loss.png", "loss.SVGZ"])
def test_other_endings_are_refused(name, tmp_path):
    with pytest.raises(sg.errors.ArgumentError, match="no picture has the ending"):
        sg.draw(LOSS.compile(*SPECS), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


BLUE = 'fillcolor="#dcebfa", color="#3f7cb8"'
RESULT = "return x * np.sin(x)"
DOT = rf"""
// Generated by symgrad {sg.__version__}.
digraph {{
  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10]
  edge [color="#8a8f98"]
  n0 [label="x\nfloat64[n]", tooltip="@1  def wave(x):", fillcolor="#fff3d6", color="#c9952b", penwidth=1]
  n1 [label="%1 = sin(x)\nfloat64[n]", tooltip="@2  {RESULT}", {BLUE}, penwidth=1]
  n2 [label="%2 = x * %1\nfloat64[n]", tooltip="@2  {RESULT}", {BLUE}, penwidth=2.5]
  n0 -> n1
  n0 -> n2
  n1 -> n2
}}
""".lstrip("\n")

MERMAID = f"""
flowchart TD
  %% Generated by symgrad {sg.__version__}.
  classDef input fill:#fff3d6,stroke:#c9952b,color:#1c2430
  classDef forward fill:#dcebfa,stroke:#3f7cb8,color:#1c2430
  classDef derivative fill:#fbe0da,stroke:#c4573f,color:#1c2430
  classDef again fill:#e6e0f5,stroke:#7a62b3,color:#1c2430
  n0["x<br/>float64[]"]:::input
  subgraph g1["wave"]
    n1["#37;1 = sin(x)<br/>float64[]"]:::forward
    n2["value = x * #37;1<br/>float64[]"]:::forward
  end
  subgraph g2["derivative of wave"]
    n3["#37;3 = cos(x)<br/>float64[]"]:::derivative
    n4["#37;4 = x * #37;3<br/>float64[]"]:::derivative
    n5["d_x = #37;1 + #37;4<br/>float64[]"]:::derivative
  end
  n0 --> n1
  n0 --> n2
  n1 --> n2
  n0 --> n3
  n0 --> n4
  n3 --> n4
  n1 --> n5
  n4 --> n5
  style n2 stroke-width:3px
  style n5 stroke-width:3px
""".lstrip("\n")


def test_dot():
    assert sg.draw(sg.compile(wave, optimize=1).compile("float64[n]")).text(".dot") == wave_lines(DOT)


def test_mermaid():
    assert sg.draw(WAVE.compile("float64[]")).text(".mmd") == MERMAID
    assert sg.draw(WAVE.compile("float64[]")).text(".md") == f"```mermaid\n{MERMAID}```\n"


def numbers(pattern, text):
    return [tuple(map(float, found)) for found in re.findall(pattern, text)]


PROGRAMS = {
    "logistic": lambda: LOSS.compile(*SPECS),
    "loops": lambda: LOSS.compile(*SPECS, optimize=2),
    "second order": lambda: sg.hessian(lambda x: np.sum(np.tanh(x) ** 3)).trace("float64[4]"),
    "checkpoints": lambda: sg.grad(lambda x: np.sum(sg.checkpoint(np.sin)(np.exp(x)))).trace("float64[n]"),
    "far": lambda: chain(12),
    "nothing": lambda: sg.compile(lambda x: 3).trace(1.0),
    "itself": lambda: sg.compile(lambda x: x).trace(1.0),
    "several results": lambda: sg.compile(lambda x: np.linalg.slogdet(x)).trace("float64[3, 3]"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_boxes_lie_apart_in_the_picture_and_arrows_go_down(name):
    text = sg.draw(PROGRAMS[name]()).text(".svg")
    ElementTree.fromstring(text)
    *_, width, height = numbers(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', text)[0]
    boxes = numbers(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" rx', text)
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= -1 and x + w <= width - 31
        assert y >= -1 and y + h <= height - 31
        assert all(abs(x + w / 2 - x2 - w2 / 2) >= (w + w2) / 2 or y2 >= y + h or y >= y2 + h2
                   for x2, y2, w2, h2 in boxes[:i])  # fmt: skip
    ends = numbers(r'd="M\S+ ([\d.-]+)[^"]*?([\d.-]+)"', text)
    assert all(start < end for start, end in ends)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_is_drawn_and_every_arrow_has_two_ends(name):
    program = PROGRAMS[name]()
    for ending, box, arrow in (
        (".dot", r"^ +n(\d+) \[", r"n(\d+) -> n(\d+)"),
        (".mmd", r'^ +n(\d+)\["', r"n(\d+) --> n(\d+)"),
    ):
        text = sg.draw(program).text(ending)
        drawn = re.findall(box, text, re.MULTILINE)
        assert len(drawn) == len(set(drawn))
        assert all({i, j} <= set(drawn) and int(i) < int(j) for i, j in re.findall(arrow, text))
        assert f"<Drawing of {len(drawn)} boxes>" == repr(sg.draw(program))


def test_a_value_that_a_mark_names_is_drawn_by_that_name():
    g = sg.Graph()
    x = g.input("x", "float64[]")
    h = sg.name(np.sin(x), "h")
    text = sg.draw(sg.function([x], sg.name(h * sg.name(x, "again"), "y"), optimize=0)).text()
    assert re.findall(r">([^<>]+)</text>", text)[::2] == ["x", "h = sin(x)", "y = h * x"]


def test_what_is_computed_again_and_what_a_loop_computes_is_told_apart():
    @sg.checkpoint
    def block(h):
        return np.tanh(h)

    def f(x):
        return np.sum(block(x * 2))

    text = sg.draw(sg.grad(f).trace("float64[n]")).text(".dot")
    assert {'label="block again"', 'label="derivative of block"', 'label="derivative of f"'} <= set(
        re.findall(r'label="[^"\\]*"', text)
    )
    assert 'label="body of %' in sg.draw(LOSS.compile(*SPECS, optimize=2)).text(".dot")


def swing(x, n):
    for _ in range(n):
        x = np.sin(x) if x[0] > 1 else -x
    return np.sum(x)


FRAME = (
    r'<rect fill="#\w+" fill-opacity="0.07" stroke="#\w+" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" rx="10"/>'
)


def test_bodies_are_framed_and_their_boxes_lie_inside():
    drawing = sg.draw(sg.grad(swing).compile("float64[3]", sg.spec("int64[]"), optimize=1))
    text = drawing.text()
    ElementTree.fromstring(text)
    frames = {box.frames[:k] for box in drawing.picture.boxes for k in range(1, len(box.frames) + 1)}
    at = [(x, y, x + w, y + h) for x, y, w, h in numbers(FRAME, text)]
    assert len(at) == len(frames) >= 4
    boxes = [
        (x, y, x + w, y + h)
        for x, y, w, h in numbers(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(40)" rx', text)
    ]
    for box, (left, top, right, bottom) in zip(drawing.picture.boxes, boxes, strict=True):
        around = [f for f in at if f[0] <= left and f[1] <= top and right <= f[2] and bottom <= f[3]]
        touching = [f for f in at if f[0] < right and left < f[2] and f[1] < bottom and top < f[3]]
        assert len(around) == len(touching) == len(box.frames)
    assert {"for _ in range(n):", "x = np.sin(x) if x[0] &gt; 1 else -x"} <= set(
        re.findall(r'<tspan font-weight="bold" fill="#1c2430">([^<]*)</tspan>', text)
    )


def of_time(compiled, **shares):
    names = node_names(compiled.graph)
    found = {node: shares.get(names[node], 0.0) for node in compiled.emitted.origins.values()}
    return Profile(compiled.header.function, 1.0, 0.0, [], found)


@pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")
def test_a_program_in_c_is_drawn_before_it_is_cut_into_kernels():
    compiled = sg.value_and_grad(wave, target="c").compile("float64[]")
    assert "kernel" not in sg.draw(compiled).text(".mmd")
    assert "sin(" in sg.draw(compiled).text(".mmd") and "cos(" in sg.draw(compiled).text(".mmd")
    profile = compiled.profile(0.3)
    assert "kernel_1(" in sg.draw(compiled, profile=profile).text(".mmd")


def test_a_profile_colours_boxes_by_their_share_of_the_time():
    compiled = WAVE.compile("float64[]")
    drawing = sg.draw(compiled, profile=of_time(compiled, value=0.2, d_x=0.8))
    fills = re.findall(r'fillcolor="(#\w+)"', drawing.text(".dot"))
    assert (
        fills
        == re.findall(r'rx="6" fill="(#\w+)"', drawing.text())
        == re.findall(r"fill:(#\w+)\n", drawing.text(".mmd"))
    )
    named = dict(zip([box.name for box in drawing.picture.boxes], fills, strict=True))
    assert named["x"] == "#ffffff"
    assert named["d_x"] == "#{:02x}{:02x}{:02x}".format(*HOT)
    assert named["value"] not in (named["x"], named["d_x"])
    assert [box.name for box, fill in zip(drawing.picture.boxes, fills, strict=True) if fill == named["d_x"]] == [
        "%3", "%4", "d_x"
    ]  # a generated line has one time  # fmt: skip


def test_a_profile_of_another_program_is_refused():
    compiled = WAVE.compile("float64[]")
    with pytest.raises(sg.errors.ArgumentError, match="the profile is of wave_value_and_grad, compiled apart"):
        sg.draw(WAVE.compile("float64[]"), profile=compiled.profile(1.0))
    with pytest.raises(sg.errors.ArgumentError, match="compiled apart from what is drawn"):
        sg.draw(WAVE.trace("float64[]"), profile=compiled.profile(1.0))
    nothing = sg.compile(lambda x: 3).compile(1.0)
    assert "fill" in sg.draw(nothing, profile=nothing.profile(1.0)).text()


def test_notebooks_show_a_drawing():
    drawing = sg.draw(WAVE.compile("float64[]"))
    assert drawing._repr_svg_() == drawing.text(".svg") == drawing.text()


# ---- text of the user


def hostile():
    g = sg.Graph()
    x = g.input("x", "float64[]")
    y = x * 2
    g.names[y.node] = HOSTILE
    op = sg.operator(lambda x: x, name=HOSTILE, infer=lambda x: x)
    namespace = {}
    exec(compile("def f(x):\n    return op(y) + 1", HOSTILE, "exec"), {"op": op, "y": y}, namespace)
    z = namespace["f"](x)
    (node,) = (node for node in g.nodes if node.op.name == HOSTILE)
    g.names[node] = f"{HOSTILE}\\"
    return z


def test_no_text_of_the_user_ends_a_string_in_dot():
    text = sg.draw(hostile()).text(".dot")
    assert re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text).isascii()
    assert "HOSTILE" not in text
    assert "<" not in re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    assert len(text.split("\n")) == len(sg.draw(hostile_but_named_well()).text(".dot").split("\n"))


def hostile_but_named_well():
    g = sg.Graph()
    x = g.input("x", "float64[]")
    return sg.operator(lambda x: x, name="plain", infer=lambda x: x)(x * 2) + 1


def test_no_text_of_the_user_is_markup_in_mermaid():
    text = sg.draw(hostile()).text(".mmd")
    labels = re.findall(r'n\d+\["(.*)"\]:::', text)
    assert len(labels) == 4
    for label in labels:
        assert re.fullmatch(r"[^\"<>`&%\\]*", label.replace("<br/>", ""))
        assert not re.search(r"#(?!\d+;)", label)
    assert sg.draw(hostile()).text(".md").count("```") == 2


def test_no_text_of_the_user_is_markup_in_svg():
    text = sg.draw(hostile()).text(".svg")
    root = ElementTree.fromstring(text)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg", "g", "defs", "marker", "path", "rect", "text", "title",
    }  # fmt: skip
    assert any('a"]\\n<b>&`' in (element.text or "") for element in root.iter())


def test_no_text_of_the_user_breaks_a_tree_or_a_formula():
    assert len(tree_of(hostile()).split("\n")) == 6
    assert (sg.pp(hostile()) + tree_of(hostile()).replace("\n", "")).isprintable()


# ---- large graphs


@pytest.mark.slow
def test_views_of_a_graph_are_linear_in_its_length():
    def views(g):
        drawing = sg.draw(g)
        return [sg.pp(g), tree_of(g), *map(drawing.text, (".svg", ".dot", ".mmd"))]

    short, long = chain(30), chain(180)
    assert calls(lambda: views(long)) < 6.5 * calls(lambda: views(short))


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_regression_is_nearest(seed):
    """The optimum is where no pool can move: each value is the largest of the smallest means around it."""
    values = np.random.default_rng(seed).normal(size=9)
    n = len(values)
    expected = [
        max(min(values[i : j + 1].mean() for j in range(k, n)) for i in range(k + 1)) for k in range(n)
    ]  # the formula of minimal and maximal means
    np.testing.assert_allclose(isotonic(values.tolist()), expected)
