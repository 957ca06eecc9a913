"""A graph as boxes and arrows, whatever format they are drawn in."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass, field
from typing import NamedTuple

from symgrad.core.graph import CONSTANT, Graph, Node, reached
from symgrad.core.listing import is_input, nested_graphs, node_names, number, place, shortened, types
from symgrad.core.provenance import Where
from symgrad.core.text import visible
from symgrad.report.mathematics import MARKS, on_its_inputs
from symgrad.spelling import Code

COLOURS = {
    "input": ("#fff3d6", "#c9952b"),
    "forward": ("#dcebfa", "#3f7cb8"),
    "derivative": ("#fbe0da", "#c4573f"),
    "again": ("#e6e0f5", "#7a62b3"),
}
"""Fill and border by what a box is: given, computed by the user's line, of a derivative, computed again for one."""


class Box(NamedTuple):
    """A node as it is drawn."""

    name: str
    formula: str  # ``margin = y * %3``
    types: str
    place: str
    line: str  # the user's
    kind: str  # a key of COLOURS
    groups: tuple[str, ...]  # what it is drawn within, the outermost first: the user's function, loops
    result: bool
    node: Node

    @property
    def group(self) -> str:
        """What it is drawn within where groups do not stand within each other."""
        return self.groups[-1] if self.groups else ""

    @property
    def about(self) -> str:
        """What is shown on demand."""
        return "  ".join(filter(None, (self.place, self.line)))


@dataclass
class Picture:
    """Boxes, each behind those that its arrows come from, and arrows between them by number."""

    name: str = ""
    summary: str = ""
    signature: str = ""
    boxes: list[Box] = field(default_factory=list)
    arrows: list[tuple[int, int]] = field(default_factory=list)
    code: dict[Node, str] = field(default_factory=dict)  # the generated line that makes a value, where there is one

    def groups(self) -> dict[str, list[int]]:
        """The boxes by what they are drawn within; one group alone is none."""
        found: dict[str, list[int]] = {}
        for i, box in enumerate(self.boxes):
            found.setdefault(box.group, []).append(i)
        return found if len(found.keys() - {""}) > 1 else {"": [i for members in found.values() for i in members]}


def picture(graph: Graph, outputs: list[Node], about: Picture) -> Picture:
    """The boxes of what `outputs` need, put into a picture. Numbers stand in the boxes that use them, marks in none."""
    _draw(about, graph, outputs, "", (), {})
    return about


def _draw(
    drawn: Picture,
    graph: Graph,
    outputs: list[Node],
    ids: str,
    loops: tuple[str, ...],
    functions: dict[str, list[_Span]],
) -> list[int]:
    """Add the boxes of a graph, within `loops`; the numbers of those of its outputs."""
    names = _names(graph, ids)
    results = set(map(behind_marks, outputs))
    found: dict[Node, int] = {}
    for node in reached(outputs):
        if number(node) is not None or node.op in MARKS:
            continue
        sources = [found[y] for x in node.inputs if (y := behind_marks(x)) in found]
        groups = loops or _groups(node, functions)
        for key, inner in nested_graphs(node):
            within = (*groups, visible(f"{key} of {names[node]}"))
            sources += _draw(drawn, inner, inner.outputs, f"{ids}{node.id}.", within, functions)
        found[node] = len(drawn.boxes)
        drawn.boxes.append(_box(node, names, groups, not loops and node in results))
        drawn.arrows += [(i, found[node]) for i in dict.fromkeys(sources)]
    return [found[y] for x in outputs if (y := behind_marks(x)) in found]


def _names(graph: Graph, ids: str) -> dict[Node, str]:
    """What each node is called; a value that only a mark names is called as the mark, which is not drawn."""
    names = node_names(graph, ids)
    for node in graph.nodes:
        behind = behind_marks(node)
        if behind is not node and node in graph.names and names[behind].startswith("%"):
            names[behind] = names[node]
    return names


def behind_marks(node: Node) -> Node:
    """The value itself, which marks give another identity."""
    while node.op in MARKS:
        node = node.inputs[0]
    return node


def _box(node: Node, names: dict[Node, str], groups: tuple[str, ...], result: bool) -> Box:
    name = names[node]
    formula = name if is_input(node) else shortened(f"{name} = {_formula(node, names)}")
    line = visible(node.where.text)
    return Box(name, formula, types(node), place(node, names), line, kind_of(node), groups, result, node)


def _formula(node: Node, names: dict[Node, str]) -> str:
    def read(x: Node) -> Code:
        x = behind_marks(x)
        return Code(names[x]) if number(x) is None else on_its_inputs(x, read)

    return on_its_inputs(node, read, names[node]).text


def kind_of(node: Node) -> str:
    """What a node is, as a key of `COLOURS`."""
    if is_input(node) or node.op is CONSTANT:
        return "input"
    if node.where.of is None:
        return "forward"
    return "again" if node.where.again else "derivative"


# ---- the user's functions


class _Span(NamedTuple):
    """The lines of a function."""

    first: int
    last: int
    name: str


def _groups(node: Node, functions: dict[str, list[_Span]]) -> tuple[str, ...]:
    kind = kind_of(node)
    name = visible(_function_at(node.where, functions))
    if kind == "input" or not name:
        return ()
    return ({"forward": name, "derivative": f"derivative of {name}", "again": f"{name} again"}[kind],)


def _function_at(where: Where, known: dict[str, list[_Span]]) -> str:
    """The innermost function of the user's that a line stands in; "" where there is none, or no file."""
    if where.file not in known:
        known[where.file] = _functions(where.file)
    around = [span for span in known[where.file] if span.first <= where.line <= span.last]
    return max(around, key=lambda span: (span.first, -span.last)).name if around else ""


def _functions(file: str) -> list[_Span]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return [_Span(node.lineno, node.end_lineno or node.lineno, node.name) for node in found]
