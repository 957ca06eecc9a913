"""Values that may be None, or not bound: where a program runs decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.core.provenance import here
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.mutable import UNDEFINED
from symgrad.frontend.variable import Variable, lift


class Perhaps(Variable):
    """A value that is None unless `present`. What is computed with it is read only where it is there: of None Python
    would have raised.
    """

    __slots__ = ("present",)
    __hash__ = Variable.__hash__
    may_be_tied = False

    def __init__(self, graph: Graph, node: Node, present: Variable) -> None:
        super().__init__(graph, node)
        self.present = present


class Unbound(Variable):
    """The value of a name that one side of a branch alone has bound. Behind the branch Python finds it there only: who
    reads it in any case is refused; who reads it in another branch, or in a loop, may have asked.
    """

    __slots__ = ("name", "where")
    __hash__ = Variable.__hash__
    may_be_tied = False

    def __init__(self, graph: Graph, node: Node, name: str) -> None:
        super().__init__(graph, node)
        self.name, self.where = name, here()

    @property
    def node(self) -> Node:
        if not self.graph.body:
            raise UnsupportedError(
                f"{self.name} is read, but bound on one side only of the branch at {self.where} only",
                "Bind it on both sides, or before the branch.",
            )
        return self.bound

    @property
    def bound(self) -> Node:
        """Its value, where it is bound."""
        return super().node


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
