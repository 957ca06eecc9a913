"""Which axes of a program belong together: what is sliced along one of them is sliced along all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from symgrad.core.axes import AxisSignature
from symgrad.core.graph import Node
from symgrad.core.recording import note
from symgrad.core.sizes import Size, largest
from symgrad.loops.reasons import NotAlong
from symgrad.loops.row_gathers import row_signature
from symgrad.loops.stencils import stencil_signature

Place = tuple[Node, int]  # a value, and one of its axes


@dataclass(eq=False)
class Axis:
    """One axis of the program, such as its samples: where it is an axis of which value.

    With `stencils` slices such as ``x[1:]`` belong to it too; its size is then the largest of theirs.
    """

    size: Size
    places: dict[Node, int]
    stencils: bool = False

    def signature(self, node: Node) -> AxisSignature:
        return stencil_signature(node) if self.stencils else row_signature(node)

    def size_of(self, node: Node) -> Size:
        """How many rows a value has."""
        return node.aval.shape[self.places[node]]


def axes_of(nodes: Iterable[Node], stencils: bool = False) -> list[Axis]:
    """The axes of a program, in the order in which they come up.

    Two axes of two values are one where an operator carries the one over into the other, or pairs them. An axis that
    meets itself in one value, as the points do in a table of their distances, is left out.
    """
    parents: dict[Place, Place] = {}
    for node in nodes:
        signature = stencil_signature(node) if stencils else row_signature(node)
        first: dict[object, Place] = {}
        for x, labels in zip((*node.inputs, node), (*signature.inputs, signature.result), strict=True):
            for i, label in enumerate(labels):
                if label is not None:
                    place = _root(parents, (x, i))
                    parents[place] = _root(parents, first.setdefault(label, place))
    return [_sized(axis) if stencils else axis for axis in _collected(parents)]


def _root(parents: dict[Place, Place], place: Place) -> Place:
    """What stands for the axis of a place; the way there is made shorter."""
    root = parents.setdefault(place, place)
    while parents[root] is not root:
        root = parents[root]
    while place is not root:
        place, parents[place] = parents[place], root
    return root


def _collected(parents: dict[Place, Place]) -> list[Axis]:
    axes: dict[Place, Axis] = {}
    meets_itself = set()
    for place in list(parents):
        root, (node, i) = _root(parents, place), place
        axis = axes.setdefault(root, Axis(node.aval.shape[i], {}))
        if axis.places.setdefault(node, i) != i:
            meets_itself.add(root)
    for root in axes:
        if root in meets_itself:
            note(NotAlong(axes[root].size, "a value has the axis twice, so that its rows are not independent"))
    return [axis for root, axis in axes.items() if root not in meets_itself]


def _sized(axis: Axis) -> Axis:
    """As long as the longest of its values."""
    return Axis(reduce(largest, dict.fromkeys(map(axis.size_of, axis.places))), axis.places, stencils=True)
