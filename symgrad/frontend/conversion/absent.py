"""Values that may be None, or not bound: where a program runs decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from symgrad.core.graph import Graph, Node
from symgrad.core.provenance import here
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.classes import Examples, Mixed, examples_of, of_classes
from symgrad.frontend.conversion.mutable import UNDEFINED
from symgrad.frontend.guards import lets_pass
from symgrad.frontend.variable import Variable, lift


class Perhaps(Variable):
    """A value that is None unless `present`. What is computed with it is read only where it is there: of None Python
    would have raised. What None raises nothing for, such as its truth, asks whether it is there.
    """

    __slots__ = ("examples", "present")
    __hash__ = Variable.__hash__
    may_be_tied, may_be_none = False, True

    def __init__(self, graph: Graph, node: Node, present: Variable, examples: Examples) -> None:
        super().__init__(graph, node)
        self.present, self.examples = present, examples

    @property
    def node(self) -> Node:
        if not all(lets_pass(x, TypeError) for x in self.graph.guards):
            raise UnsupportedError(
                "a value that may be None is used inside of `try`, which may catch the error that None raises",
                "Test whether it is None before the `try`.",
            )
        return self.bound

    @property
    def bound(self) -> Node:
        return super().node

    @property
    def there(self) -> Variable:
        """The value, where it is not None."""
        return of_classes(Variable(self.graph, self.bound), examples_of(self))

    of_operator = Mixed.of_operator

    def __eq__(self, value: object) -> Any:
        if value is None:
            return np.logical_not(self.present)
        if isinstance(value, Perhaps):
            both = np.logical_and(np.logical_and(self.present, value.present), self.there == value.there)
            return np.logical_or(both, np.logical_not(np.logical_or(self.present, value.present)))
        return np.logical_and(self.present, self.there == value)

    def __ne__(self, value: object) -> Any:
        return np.logical_not(self == value)


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
                f"{self.name} is read, but only one side of the branch at {self.where} assigns it",
                "Assign it on both sides, or before the branch.",
            )
        return self.bound

    @property
    def bound(self) -> Node:
        """Its value, where it is bound."""
        return super().node


def presence(graph: Graph, x: Any) -> Node:
    """Whether a value is there."""
    return x.present.node if is_perhaps(x) else lift(graph, x is not None and x is not UNDEFINED)


def is_perhaps(x: Any) -> bool:
    """Whether a value may be None, so that what stands for it has to tell."""
    return type(x) is Perhaps


def check_presence(values: Iterable[Any]) -> None:
    """Raise if one of the values may be None: an argument of a function that is traced once, or part of a text."""
    for x in filter(is_perhaps, values):
        raise UnsupportedError(
            f"this value is None or {x.aval}, depending on traced values, and here the program must know which",
            "Use a number in both cases, such as np.nan instead of None.",
        )
