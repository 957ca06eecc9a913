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
from symgrad.show.picture import COLOURS, Box, Picture, behind_marks

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
    """What the page knows."""
    numbers = {box.node: i for i, box in enumerate(drawn.boxes)}
    groups = _Groups()
    sources: list[list[int]] = [[] for _ in drawn.boxes]
    for i, j in drawn.arrows:
        sources[j].append(i)
    code = _code(drawn, sources)
    return {
        "name": visible(drawn.name or "A graph"),
        "summary": visible(drawn.summary),
        "signature": visible(drawn.signature),
        "kinds": {kind: {"title": TITLES[kind], "colours": colours} for kind, colours in COLOURS.items()},
        "nodes": [_node(box, numbers, groups, sources[i], code[i]) for i, box in enumerate(drawn.boxes)],
        "groups": groups.found,
    }


def _node(box: Box, numbers: dict[Node, int], groups: _Groups, sources: list[int], code: str) -> dict[str, Any]:
    node = box.node
    inputs = [behind_marks(x) for x in node.inputs]
    return {
        "name": box.name,
        "formula": box.formula,
        "type": box.types,
        "kind": box.kind,
        "result": box.result,
        "group": groups.of(box),
        "operator": "" if is_input(node) else visible(", ".join([node.op.path, *spelled_params(node)])),
        "place": visible(str(node.where)) if node.where.line else "",
        "line": box.line,
        "value": shortened(repr(dict(node.params)["value"])) if node.op is CONSTANT else "",
        "of": _derived(node, numbers),
        "again": node.where.again,
        "cost": _cost(node),
        "code": visible(code),
        "sources": sources,
        "inputs": [numbers.get(x, number(x) or visible(x.op.name)) for x in inputs],
    }


def _code(drawn: Picture, sources: list[list[int]]) -> list[str]:
    """The generated line that each box stands in: what has none of its own stands in that of its first user."""
    code = [drawn.code.get(box.node, "") for box in drawn.boxes]
    for j in reversed(range(len(code))):
        for i in sources[j]:
            code[i] = drawn.code.get(drawn.boxes[i].node) or code[j] or code[i]
    return code


def _derived(node: Node, numbers: dict[Node, int]) -> dict[str, Any] | None:
    """Whose rule a node comes from; in a program that was simplified that may be a node no longer."""
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
    """What boxes are drawn within: the user's functions, loops, and in these the user's lines."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, ...], int] = {}

    def of(self, box: Box) -> int | None:
        """The number of the innermost group of a box."""
        parent = None
        for depth, name in enumerate(box.groups, start=1):
            kind = "function" if depth == 1 else "region"
            parent = self._number(box.groups[:depth], parent, box, kind=kind, name=name, line="")
        where = box.node.where
        if box.kind == "input" or not where.line:
            return parent
        key = (*box.groups, "", str(where), box.kind)
        return self._number(key, parent, box, kind="line", name=visible(str(where)), line=box.line)

    def _number(self, key: tuple[str, ...], parent: int | None, box: Box, **texts: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append({"parent": parent, "shade": box.kind, **texts})
        group = self.found[self._numbers[key]]
        if group["shade"] == "input":  # what the body of a loop begins with says nothing of the rest
            group["shade"] = box.kind
        return self._numbers[key]
