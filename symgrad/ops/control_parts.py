"""Branches and loops by their parts: what each input is for, and the regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from symgrad.core.graph import ITEM, Node
from symgrad.core.region import Region
from symgrad.core.sizes import Size
from symgrad.ops.control import SCAN

_T = TypeVar("_T")


class Branch(NamedTuple):
    """A branch by its parts."""

    pred: Node
    operands: Sequence[Node]
    other: Region
    then: Region


def branch_of(node: Node) -> Branch:
    """A node that is a branch, by its parts."""
    return Branch(node.inputs[0], node.inputs[1:], *dict(node.params).values())


class Given(NamedTuple):
    """Parameters of a loop's body, by kind: carry, index, xs, consts."""

    carry: Sequence[Node]
    place: Node
    slices: Sequence[Node]
    others: Sequence[Node]


class Loop(NamedTuple):
    """A loop: its inputs by kind, and its parameters."""

    node: Node
    length: Node
    starts: Sequence[Node]
    slices_of: Sequence[Node]
    others: Sequence[Node]
    body: Region
    test: Region | None
    turns: Size | None
    reverse: bool
    checkpoint: int | str | None
    place_size: str | None

    def on(self, inputs: Sequence[Node]) -> Loop:
        """Return the same loop with other inputs."""
        starts, slices_of, others = self.parted(inputs[1:])
        return self._replace(length=inputs[0], starts=starts, slices_of=slices_of, others=others)

    @property
    def given(self) -> Given:
        """Return the parameters of its body."""
        n, parameters = len(self.starts), self.body.parameters
        carry, slices, others = self.parted([*parameters[:n], *parameters[n + 1 :]])
        return Given(carry, parameters[n], slices, others)

    def parted(self, values: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T], Sequence[_T]]:
        """Split values for the inputs after the length: ``(carry, xs, consts)``."""
        n = len(self.starts)
        behind = n + len(self.slices_of)
        return values[:n], values[n:behind], values[behind:]


def loop_of(node: Node) -> Loop:
    """Return a SCAN node by its parts."""
    params: dict[str, Any] = {**node.op.defaults, **dict(node.params)}
    length, *inputs = node.inputs
    n = params["carried"]
    behind = n + params["sliced"]
    names = ("body", "test", "turns", "reverse", "checkpoint", "place")
    return Loop(node, length, inputs[:n], inputs[n:behind], inputs[behind:], *[params[name] for name in names])


def stack_number(x: Node) -> int | None:
    """Return the number of a value among the ys of its loop; None for carries and for values that no loop gives."""
    if x.op is not ITEM or x.inputs[0].op is not SCAN:
        return None
    number: int = dict(x.params)["index"] - dict(x.inputs[0].params)["carried"]
    return None if number < 0 else number
