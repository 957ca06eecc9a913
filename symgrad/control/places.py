"""Ranges of an array that iterations access at affine indices, and the lengths of loops."""

from __future__ import annotations

from typing import Any

from symgrad.analysis.affine import Line
from symgrad.analysis.values import known_size
from symgrad.core.graph import ITEM, Node
from symgrad.core.sizes import Size, at_most, same
from symgrad.frontend.variable import Variable
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import Loop, loop_of
from symgrad.ops.index_expressions import Slice, Slot


def places_of(line: Line | None, length: Size | None, size: Size) -> Slice | None:
    """Return the slice that all iterations together access along an axis of this size, one element each.

    None if an access may be out of bounds, or the elements are not neighbours.
    """
    if line is None or length is None or line.step not in (1, -1):
        return None
    first, end = line.first, line.first + line.step * length
    if line.step == 1:
        return Slice(first, end, None) if at_most(0, first) and at_most(end, size) else None
    if not at_most(first + 1, size):
        return None
    if not at_most(0, first):  # where there is no iteration it is -1; of one number x[n - 2::-1] is all, x[-2::-1] none
        first -= size
        if not isinstance(first, int):
            return None
    return Slice(first, None, -1) if same(end, -1) else Slice(first, end, -1) if at_most(0, end) else None


def length_of(loop: Loop) -> Size | None:
    """Return the number of iterations if it is known before the loop; with a condition it is an upper bound."""
    length = known_size(loop.length)
    return None if isinstance(length, int) and length < 0 else length


def iterations_of(length: Node) -> Size | None:
    """Return a number of iterations as a size, the length of the ys of the loop that counts them; None if unknown."""
    if length.op is ITEM and length.inputs[0].op is SCAN:
        loop = loop_of(length.inputs[0])
        is_last = loop.test is not None and dict(length.params)["index"] == len(loop.results)
        return loop.iterations if is_last else None
    size = known_size(length)
    return None if isinstance(size, int) and size < 0 else size


def items_of_key(node: Node) -> list[Any] | None:
    """Return the items of an index, with nodes for scalar arrays; None if an array has axes."""
    key = dict(node.params)["key"]
    arrays = node.inputs[len(node.inputs) - sum(isinstance(x, Slot) for x in key) :]
    if Ellipsis in key or any(x.aval.shape for x in arrays):
        return None
    return [arrays[x.input] if isinstance(x, Slot) else x for x in key]


def indexed(x: Variable, items: Any, image: Any) -> Variable:
    """Index a value with items as `items_of_key` returns them; `image` maps their nodes."""
    numbers = [Variable(x.graph, image[y]) if isinstance(y, Node) else y for y in items]
    found: Variable = x[tuple([slice(*y) if isinstance(y, Slice) else y for y in numbers])]
    return found
