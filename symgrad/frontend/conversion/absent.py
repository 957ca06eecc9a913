"""Values that may be None: where a program runs decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.frontend.conversion.state import UNDEFINED
from symgrad.frontend.variable import Variable, lift


class Perhaps(Variable):
    """A value that is None unless `present`. What is computed with it is read only where it is there: of None Python
    would have raised.
    """

    __slots__ = ("present",)
    __hash__ = Variable.__hash__

    def __init__(self, graph: Graph, node: Node, present: Variable) -> None:
        super().__init__(graph, node)
        self.present = present


def presence(graph: Graph, x: Any) -> Node:
    """Whether a value is there."""
    return x.present.node if type(x) is Perhaps else lift(graph, x is not None and x is not UNDEFINED)


def same(x: Any, y: Any) -> Any:
    """``x is y``, where one of them is None."""
    x, y = (y, x) if x is None else (x, y)
    return np.logical_not(x.present) if type(x) is Perhaps and y is None else x is y


def other(x: Any, y: Any) -> Any:
    """``x is not y``"""
    x, y = (y, x) if x is None else (x, y)
    return x.present if type(x) is Perhaps and y is None else x is not y
