"""A graph as boxes and arrows, whatever format they are drawn in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from symgrad.core.graph import CONSTANT, Graph, Node, reached
from symgrad.core.listing import is_input, nested_graphs, node_names, number, place, shortened, types
from symgrad.core.text import visible
from symgrad.report.mathematics import MARKS, on_its_inputs
from symgrad.show.users_source import UsersSource
from symgrad.spelling import Code

COLOURS = {
    "input": ("#fff3d6", "#c9952b"),
    "forward": ("#dcebfa", "#3f7cb8"),
    "derivative": ("#fbe0da", "#c4573f"),
    "again": ("#e6e0f5", "#7a62b3"),
}
"""Fill and border by what a box is: given, computed by the user's line, of a derivative, computed again for one."""

COOL, HOT = (255, 255, 255), (233, 120, 80)  # no share of the time, and the largest
"""The colours between which a profile fills boxes."""


class Group(NamedTuple):
    """A group around boxes: a function of the user's, or the body of a loop or a branch, which has a frame."""

    name: str  # ``loss``, ``body of %8``
    framed: bool = False
    line: str = ""  # the user's line of the loop or the branch
    place: str = ""

    @property
    def title(self) -> tuple[str, str]:
        """Return the title of a frame: the user's line, and the kind of the frame."""
        return shortened(self.line), ", ".join(filter(None, (self.name, self.place)))


class Box(NamedTuple):
    """A node as it is drawn."""

    name: str
    formula: str  # ``margin = y * %3``
    types: str
    place: str
    line: str  # the user's
    kind: str  # a key of COLOURS
    groups: tuple[Group, ...]  # what it is drawn within, the outermost first: the user's function, loops
    result: bool
    node: Node

    @property
    def group(self) -> str:
        """Return the innermost group, for formats without nested groups."""
        return self.groups[-1].name if self.groups else ""

    @property
    def frames(self) -> tuple[Group, ...]:
        """The frames around it, the outermost first."""
        return tuple(group for group in self.groups if group.framed)

    @property
    def about(self) -> str:
        """Return the text that is shown on demand."""
        return "  ".join(filter(None, (self.place, self.line)))


@dataclass
class Picture:
    """Boxes, each behind those that its arrows come from, and arrows between them by number."""

    name: str = ""
    summary: str = ""
    signature: str = ""
    boxes: list[Box] = field(default_factory=list)
    arrows: list[tuple[int, int]] = field(default_factory=list)
    code: Mapping[Node, str] = field(default_factory=dict)  # the generated line that makes a value, where there is one
    shares: Mapping[Node, float] = field(default_factory=dict)  # of the time, by what generated lines make

    def groups(self) -> dict[str, list[int]]:
        """The boxes by what they are drawn within; one group alone is none."""
        found: dict[str, list[int]] = {}
        for i, box in enumerate(self.boxes):
            found.setdefault(box.group, []).append(i)
        return found if len(found.keys() - {""}) > 1 else {"": [i for members in found.values() for i in members]}

    def shades(self) -> dict[tuple[Group, ...], str]:
        """The kind of the first box in each frame that is not given."""
        found: dict[tuple[Group, ...], str] = {}
        for box in sorted(self.boxes, key=lambda box: box.kind == "input"):
            for k in range(1, len(box.frames) + 1):
                found.setdefault(box.frames[:k], box.kind)
        return found

    def generated(self) -> list[Node | None]:
        """The value whose generated line each box stands in: its own, or that of its first user in the same body."""
        nodes = [box.node for box in self.boxes]
        found = [node if node in self.code else None for node in nodes]
        for i, j in reversed(self.arrows):
            if nodes[i] not in self.code and self.boxes[i].frames == self.boxes[j].frames:
                found[i] = found[j] or found[i]
        return found

    def times(self) -> list[float | None]:
        """The share of the time of the generated line that each box stands in; None of what no line computes."""
        lines = [None if box.kind == "input" else node for box, node in zip(self.boxes, self.generated(), strict=True)]
        return [None if node is None else self.shares.get(node) for node in lines]

    def colours(self) -> list[tuple[str, str]]:
        """Fill and border of each box: by what it is, or by its share of the time where that is known."""
        kinds = [COLOURS[box.kind] for box in self.boxes]
        if not self.shares:
            return kinds
        most = max(self.shares.values()) or 1.0
        return [(_heat((share or 0.0) / most), border) for share, (_, border) in zip(self.times(), kinds, strict=True)]


def _heat(part: float) -> str:
    """A colour between `COOL` and `HOT`."""
    return "#" + "".join(f"{round(cool + part * (hot - cool)):02x}" for cool, hot in zip(COOL, HOT, strict=True))


def picture(graph: Graph, outputs: list[Node], about: Picture) -> Picture:
    """The boxes of what `outputs` need, put into a picture. Numbers stand in the boxes that use them, marks in none."""
    _draw(about, graph, outputs, "", (), UsersSource())
    return about


def _draw(
    drawn: Picture,
    graph: Graph,
    outputs: list[Node],
    ids: str,
    loops: tuple[Group, ...],
    source: UsersSource,
) -> list[int]:
    """Add the boxes of a graph, within `loops`; the numbers of those of its outputs."""
    names = _names(graph, ids)
    results = set(map(behind_marks, outputs))
    found: dict[Node, int] = {}
    for node in reached(outputs):
        if number(node) is not None or node.op in MARKS:
            continue
        sources = [found[y] for x in node.inputs if (y := behind_marks(x)) in found]
        groups = loops or _groups(node, source)
        for key, inner in nested_graphs(node):
            body = Group(visible(f"{key} of {names[node]}"), True, visible(node.where.text), place(node, names))
            sources += _draw(drawn, inner, inner.outputs, f"{ids}{node.id}.", (*groups, body), source)
        found[node] = len(drawn.boxes)
        drawn.boxes.append(_box(node, names, groups, not loops and node in results))
        drawn.arrows += [(i, found[node]) for i in dict.fromkeys(sources)]
    return [found[y] for x in outputs if (y := behind_marks(x)) in found]


def _names(graph: Graph, ids: str) -> dict[Node, str]:
    """Return the name of each node; a value that only a mark names takes the mark's name."""
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


def _box(node: Node, names: dict[Node, str], groups: tuple[Group, ...], result: bool) -> Box:
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
    """Return the kind of a node, a key of `COLOURS`."""
    if is_input(node) or node.op is CONSTANT:
        return "input"
    if node.where.of is None:
        return "forward"
    return "again" if node.where.again else "derivative"


def _groups(node: Node, source: UsersSource) -> tuple[Group, ...]:
    kind = kind_of(node)
    name = visible(source.function_at(node.where))
    if kind == "input" or not name:
        return ()
    return (Group({"forward": name, "derivative": f"derivative of {name}", "again": f"{name} again"}[kind]),)
