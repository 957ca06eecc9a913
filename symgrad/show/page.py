"""Pictures as a page: one HTML file that zooms, searches, opens and puts together, without a network.

The page lays out what it shows by itself, since what is put together changes. Its parts are in ``assets/``.
"""

from __future__ import annotations

import re
from typing import Any

from symgrad.analysis.cost import flops_of, is_work, traffic_of
from symgrad.core.graph import CONSTANT, Node
from symgrad.core.listing import is_input, number, shortened, spelled_params
from symgrad.core.text import counted, visible
from symgrad.show.diagram import MADE
from symgrad.show.markup import markup_text, script_data
from symgrad.show.picture import COLOURS, Box, Group, Picture, behind_marks
from symgrad.show.users_source import UsersSource

TITLES = {"input": "given", "forward": "computed", "derivative": "derivative", "again": "computed again"}
SCRIPTS = ("layout.js", "graph.js", "drawing.js", "panel.js", "page.js")  # the last one starts the page


def page(drawn: Picture) -> str:
    """The picture as an HTML document."""
    name = drawn.name or "A graph"
    parts = {
        "made": MADE,
        "title": markup_text(f"{name}: {len(drawn.boxes)} nodes"),
        "label": markup_text(f"The graph of {name}; the outline, the search and the details beside it say it in words"),
        "css": _asset("page.css"),
        "data": script_data(page_data(drawn)),
        "js": "\n".join(map(_asset, SCRIPTS)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda field: parts[field[1]], _asset("page.html"))


def _asset(name: str) -> str:
    from importlib.resources import files  # slow to import

    return (files("symgrad.show") / "assets" / name).read_text(encoding="utf-8")


def page_data(drawn: Picture) -> dict[str, Any]:
    """Return the data of the page."""
    known = _Known(drawn)
    return {
        "name": visible(drawn.name or "A graph"),
        "summary": visible(drawn.summary),
        "signature": visible(drawn.signature),
        "timed": bool(drawn.shares),
        "kinds": {kind: {"title": TITLES[kind], "colours": colours} for kind, colours in COLOURS.items()},
        "nodes": [known.node(i) for i in range(len(drawn.boxes))],
        "groups": known.groups.found,
        "source": [line._asdict() for line in known.source.values()],
    }


class _Known:
    """A picture, and what its boxes have to do with each other and with the user's lines."""

    def __init__(self, drawn: Picture) -> None:
        self.drawn, self.groups = drawn, _Groups()
        self._numbers = {box.node: i for i, box in enumerate(drawn.boxes)}
        self._generated, self._times = drawn.generated(), drawn.times()
        self._sources: list[list[int]] = [[] for _ in drawn.boxes]
        for i, j in drawn.arrows:
            self._sources[j].append(i)
        self.source = UsersSource().lines(box.node.where for box in drawn.boxes)
        self._lines = {line: k for k, line in enumerate(self.source)}

    def node(self, i: int) -> dict[str, Any]:
        """Return the data of a box."""
        box, made = self.drawn.boxes[i], self._generated[i]
        node = box.node
        inputs = [behind_marks(x) for x in node.inputs]
        return {
            "name": box.name,
            "formula": box.formula,
            "type": box.types,
            "kind": box.kind,
            "result": box.result,
            "group": self.groups.of(box),
            "operator": "" if is_input(node) else visible(", ".join([node.op.path, *spelled_params(node)])),
            "place": visible(str(node.where)) if node.where.line else "",
            "line": box.line,
            "at": self._lines.get((node.where.file, node.where.line)),
            "value": shortened(repr(dict(node.params)["value"])) if node.op is CONSTANT else "",
            "of": _derived(node, self._numbers),
            "again": node.where.again,
            "cost": _cost(node),
            "code": "" if made is None else visible(self.drawn.code[made]),
            "share": self._times[i],
            "makes": made is node,  # a line of the generated source
            "sources": self._sources[i],
            "inputs": [self._numbers.get(x, number(x) or visible(x.op.name)) for x in inputs],
        }


def _derived(node: Node, numbers: dict[Node, int]) -> dict[str, Any] | None:
    """Return the node whose rule made this one; in a simplified program it may be a node no longer."""
    of = node.where.of
    if of is None:
        return None
    what = "what" if node.where.again else "derivative of"
    return {"text": visible(f"{what} {of.op.path} at {of.where}"), "node": numbers.get(behind_marks(of))}


def _cost(node: Node) -> str:
    if is_input(node) or not is_work(node):
        return ""
    return f"{counted(flops_of(node))} operations, {counted(traffic_of(node))} bytes"


class _Groups:
    """Groups around boxes: the user's functions, bodies of loops and branches, and in these the user's lines."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def of(self, box: Box) -> int | None:
        """Return the number of the innermost group of a box."""
        parent = None
        for depth, group in enumerate(box.groups, start=1):
            kind = "region" if group.framed else "function"
            parent = self._number(box.groups[:depth], parent, box, group, kind)
        where = box.node.where
        if box.kind == "input" or not where.line:
            return parent
        line = Group(visible(str(where)), line=box.line)
        return self._number((*box.groups, str(where), box.kind), parent, box, line, "line")

    def _number(self, key: tuple[Any, ...], parent: int | None, box: Box, group: Group, kind: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            texts = {"kind": kind, "name": group.name, "line": group.line, "place": group.place}
            self.found.append({"parent": parent, "shade": box.kind, **texts})
        found = self.found[self._numbers[key]]
        if found["shade"] == "input":  # what the body of a loop begins with says nothing of the rest
            found["shade"] = box.kind
        return self._numbers[key]
