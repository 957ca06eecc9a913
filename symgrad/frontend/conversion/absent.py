"""Values that may be None, or not bound: where a program runs decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Graph, Node
from symgrad.core.provenance import here
from symgrad.core.sizes import Dim
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.mutable import UNDEFINED
from symgrad.frontend.guards import lets_pass
from symgrad.frontend.variable import Variable, class_of, lift
from symgrad.ops.operands import ARRAYS, is_traced
from symgrad.ops.truths import is_pythons, is_truth


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
                "a value that may be None is computed with inside of `try`, which may catch the error that None raises",
                "Ask whether it is None outside of it.",
            )
        return self.bound

    @property
    def bound(self) -> Node:
        return super().node

    @property
    def there(self) -> Variable:
        """The value, where it is not None."""
        return of_classes(Variable(self.graph, self.bound), examples_of(self))

    def of_operator(self, y: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Return the result of an operator, of which the classes of the operands tell the class."""
        return of_operator(y, function, operands)

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
                f"{self.name} is read, but bound on one side only of the branch at {self.where} only",
                "Bind it on both sides, or before the branch.",
            )
        return self.bound

    @property
    def bound(self) -> Node:
        """Its value, where it is bound."""
        return super().node


class Mixed(Variable):
    """A number whose class its dtype does not tell: the program decides between several, or it is of the user's."""

    __slots__ = ("examples",)
    __hash__ = Variable.__hash__

    def __init__(self, graph: Graph, node: Node, examples: Examples | None = None) -> None:
        super().__init__(graph, node)
        self.examples = examples

    @property
    def python_class(self) -> type | None:  # type: ignore[override]
        return type(as_python(self)) if self.examples else None

    of_operator = Perhaps.of_operator


# ---- classes


Examples = dict[type, Any]
"""Classes of which a value may be, with an object of each."""


def examples_of(x: Any) -> Examples:
    """Return the classes of which a value may be, None aside."""
    if isinstance(x, Dim):
        return {int: 1}
    if not is_traced(x):
        return {type(x): x}
    if x.examples:
        return x.examples
    if is_truth(x) and is_pythons(x) is None:
        return {bool: False, np.bool_: np.False_}
    kind = class_of(x)
    return {kind: x if kind is np.ndarray else kind()}


def of_classes(x: Variable, examples: Examples) -> Variable:
    """Return a value of which is known of which classes it may be."""
    if x.shape or x.writes_in_place or examples.keys() == examples_of(x).keys():
        return x
    return Mixed(x.graph, x.node, examples)


def of_operator(y: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Return the result of an operator of Python's, of a class that those of the operands tell."""
    if not is_traced(y) or y.dtype.kind == "b":
        return y
    ones = [[_one(x) for x in examples_of(operand).values()] for operand in operands]
    found = [function(*each) for each in product(*ones)]
    return of_classes(y, {type(x): x for x in found})


def _one(x: Any) -> Any:
    """The number 1 of the class of an example; of a class of the user's that of the class which it is derived from."""
    if isinstance(x, ARRAYS):
        return np.ones((), x.dtype) if isinstance(x, np.ndarray) else type(x)(1)
    return next(kind for kind in (bool, int, float, complex) if isinstance(x, kind))(1)


def as_python(x: Any) -> Any:
    """Return an object of the class that a traced number, a list or a symbolic size stands for, others as they are."""
    return of_class(x, lambda like: like)


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
            f"a value that is None or {x.aval}, depending on traced values, is used where it has to be one of them",
            "Give a number in both cases: np.nan.",
        )


def of_class(x: Any, test: Callable[[Any], Any]) -> Any:
    """Return what a test of the class of an object gives."""
    there, *others = [test(like) for like in examples_of(x).values()]
    if any(other is not there for other in others):
        raise UnsupportedError(
            "the class of a number is asked for, which depends on traced values", "Give it one class: 3.0 for 3."
        )
    if not is_perhaps(x) or test(None) is there:
        return there
    return x.present if there else np.logical_not(x.present)


def matched(subject: Any) -> Any:
    """Return the subject of a `match`, which asks in C for the class of something, or for its items."""
    seen, left = dict[int, Any](), [subject]
    while left:
        x = left.pop()
        if is_perhaps(x):
            raise UnsupportedError(
                "`match` looks at a value that is None or not, depending on traced values", "Ask first: if x is None."
            )
        if isinstance(x, Variable) and class_of(x) in (list, tuple):
            raise UnsupportedError(
                "`match` looks at a list whose length depends on traced values", "Ask first: if len(x) == 1."
            )
        if id(x) not in seen and not isinstance(x, (Variable, type, ModuleType)):
            seen[id(x)] = x
            left += [*tree.flatten(x)[0], *getattr(x, "__dict__", {}).values()]
    return subject
