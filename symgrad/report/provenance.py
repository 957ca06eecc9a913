"""Which of the user's lines a value or a generated line comes from, in words."""

from __future__ import annotations

from symgrad.core.graph import Node
from symgrad.core.text import visible


def place(node: Node) -> str:
    """``derivative of logistic.py:7``; "" of what the user has not written."""
    where = node.where
    kind = "" if where.of is None else "computed again: " if where.again else "derivative of "
    return visible(f"{kind}{where}") if where.line else ""
