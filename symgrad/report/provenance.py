"""Which of the user's lines a value or a generated line comes from, in words."""

from __future__ import annotations

from symgrad.core.graph import Node
from symgrad.core.text import visible
from symgrad.targets.numpy.module import Source


def place(node: Node) -> str:
    """``derivative of logistic.py:7``; "" of what the user has not written."""
    where = node.where
    kind = "" if where.of is None else "computed again: " if where.again else "derivative of "
    return visible(f"{kind}{where}") if where.line else ""


def place_of(source: Source) -> dict[int, str]:
    """The places of the lines of a module, by their numbers from 1 on."""
    origins = iter(source.origins())
    text, node = next(origins, ("", None))
    found = {}
    for i, line in enumerate(source.own.split("\n"), start=1):
        if node is not None and line.strip() == text:
            found[i] = place(node)
            text, node = next(origins, ("", None))
    return found
