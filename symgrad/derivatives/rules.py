"""Custom rules in the graph: the calls of functions with their own derivative."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from symgrad.core.graph import Node
from symgrad.derivatives.batch import batch
from symgrad.errors import NotDifferentiableError
from symgrad.frontend.forms import Form
from symgrad.frontend.static import content
from symgrad.frontend.variable import Variable

if TYPE_CHECKING:
    from symgrad.derivatives.custom import Custom


def in_order(static: dict[int, Any], others: Sequence[Any]) -> list[Any]:
    """All arguments of a call, static ones in their places."""
    found = list(others)
    for i, x in static.items():
        found.insert(i, x)
    return found


class Call:
    """A call of a function with its own derivative, without its Variables: the rule of a node."""

    def __init__(self, of: Custom[..., Any], name: str, static: dict[int, Any], arguments: Form, results: Form) -> None:
        self.of, self.name = of, name
        self.static = static  # arguments that are not differentiated by, and their places, in order
        self.arguments, self.results = arguments, results  # of the tuple of the other arguments; of what it returned
        self._key = of, content(static), arguments, results

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<rule of {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _LeftBehind, (self.name, self.count)  # a program is compiled: its derivatives are not asked again

    @property
    def count(self) -> int:
        """Return how many inputs are arguments; the values that the function closes over follow them."""
        return len(self.arguments.holes)

    @property
    def linear(self) -> bool:
        """Whether the cotangents that it gives are linear in those that it takes, without a look at them."""
        return self.of.linear

    def cotangents(
        self, xs: Sequence[Variable], ys: Sequence[Variable], gs: Sequence[Variable]
    ) -> Sequence[Variable | None]:
        """Return the cotangent of each argument; `ys` are the results of the call, `gs` their cotangents."""
        token = _answered.set((*_answered.get(), Answer(self, [x.node for x in xs], ys)))
        try:
            return self.of.cotangents(self, xs, [g if g.aval.differentiable else None for g in gs])
        finally:
            _answered.reset(token)

    def over_rows(self, batched: tuple[bool, ...]) -> OverRows:
        """The rule for many calls at once, along the first axis of these arguments and of all results."""
        return OverRows(self, batched)


class Answer(NamedTuple):
    """The results of a call on these nodes, for a rule that calls the function again."""

    call: Call
    inputs: Sequence[Node]
    results: Sequence[Variable]


_answered: ContextVar[tuple[Answer, ...]] = ContextVar("answered", default=())


def answer(of: Custom[..., Any], static: dict[int, Any], arguments: Form, inputs: Sequence[Node]) -> Answer | None:
    """The results of a function, called by its own rule with its own arguments: these are there already."""
    for known in _answered.get():
        same = known.call.of is of and known.call.arguments == arguments and known.inputs == inputs
        if same and content(known.call.static) == content(static):
            return known
    return None


@dataclass(frozen=True, repr=False)
class OverRows:
    """A rule for many calls at once; which arguments differ between them."""

    rule: Any
    batched: tuple[bool, ...]

    def __repr__(self) -> str:
        return f"{self.rule!r} over rows"

    @property
    def name(self) -> str:
        return str(self.rule.name)

    @property
    def count(self) -> int:
        return len(self.batched)

    @property
    def linear(self) -> bool:
        return bool(self.rule.linear)

    def cotangents(
        self, xs: Sequence[Variable], ys: Sequence[Variable], gs: Sequence[Variable]
    ) -> Sequence[Variable | None]:
        """Apply the rule to one row, batched; the cotangent of a shared argument is the sum over rows."""
        rows: dict[Node, Node] = {}
        one = [_row(x, rows) if b else x for x, b in zip(xs, self.batched, strict=True)]
        found = self.rule.cotangents(one, [_row(y, rows) for y in ys], [_row(g, rows) for g in gs])
        made = [x for x in found if x is not None]
        graph = gs[0].graph
        images = iter([Variable(graph, x) for x in batch(graph, [x.node for x in made], rows)] if made else ())
        whole = [None if x is None else next(images) for x in found]
        return [y if b or y is None else np.sum(y, axis=0) for y, b in zip(whole, self.batched, strict=True)]

    def over_rows(self, batched: tuple[bool, ...]) -> OverRows:
        return OverRows(self, batched)


def _row(x: Variable, rows: dict[Node, Node]) -> Variable:
    """Return a stand-in for one row, noted with the array that it is a row of."""
    row = x.graph.seed(x.aval._replace(shape=x.shape[1:]))
    rows[row] = x.node
    return Variable(x.graph, row)


@dataclass(frozen=True)
class _LeftBehind:
    """The rule of a program that was sent to another process."""

    name: str
    count: int
    linear: ClassVar[bool] = True

    def cotangents(self, xs: Sequence[Any], ys: Sequence[Any], gs: Sequence[Any]) -> Any:
        raise NotDifferentiableError(
            f"the rule of {self.name} is not sent to another process with the program",
            "Differentiate before, and send what is compiled.",
        )
