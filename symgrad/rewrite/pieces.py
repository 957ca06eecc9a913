"""Arrays assembled from pieces: disjoint pieces are assigned, or joined if they fill the array.

The pullback of ``x[a:b]`` adds into zeros. In a parameter vector that was cut up, or in the gates of a recurrent
network, the pieces do not meet and leave nothing out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from symgrad.analysis.values import is_zeros
from symgrad.core.graph import Graph, Node, Op, per_node
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import Shape, Size, at_most, same
from symgrad.ops.create import EMPTY
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import EVERYTHING, Slice
from symgrad.ops.join import CONCATENATE
from symgrad.rewrite.rules import procedure

LONGEST = 256  # assignments to one array that are looked at together


class Span(NamedTuple):
    """Consecutive places of an axis whose size is a symbol, or between symbols."""

    start: Size
    stop: Size


Places: TypeAlias = range | Span
Box: TypeAlias = tuple[Places, ...]


class Piece(NamedTuple):
    """An assignment of a value to a box; None in the key is an axis that only the value has."""

    box: Box
    op: Op
    value: Node
    key: tuple[Any, ...]


@procedure(ADD_AT, SET, changes_nan=True, exact=True, plane="all")
def assign_pieces(graph: Graph, node: Node) -> Node | None:
    """Assign disjoint pieces; join them, or put them into a new array, if they fill it."""
    pieces = _pieces_of(node)
    if pieces is None:
        return None
    *earlier, last = pieces
    if not all(_apart(last.box, piece.box) for piece in earlier):
        return None
    if last.op is ADD_AT:
        return graph.add(SET, node.inputs, node.params)
    shape = node.aval.shape
    volumes = [product(map(_length, piece.box)) for piece in pieces]
    if not same(sum(volumes, start=0), product(shape)) or not _disjoint(pieces):
        return None
    return _joined(graph, node, pieces) or _in_order(graph, node, pieces)


@procedure(GET, exact=True, plane="all")
def read_beside_a_piece(graph: Graph, node: Node) -> Node | None:
    """Read past an assignment to another part of the array."""
    array = node.inputs[0]
    piece = _piece(array) if array.op in (ADD_AT, SET) and len(node.inputs) == 1 else None
    read = None if piece is None else _box(dict(node.params)["key"], array.aval.shape)
    if piece is None or read is None or not _apart(piece.box, read):
        return None
    return graph.add(GET, (array.inputs[0],), node.params)


@procedure(GET, of={SET}, exact=True, plane="all")
def read_inside_a_piece(graph: Graph, node: Node) -> Node | None:
    """Read the value of an assignment rather than the array, where all that is read was assigned."""
    array = node.inputs[0]
    piece = _piece(array) if array.op is SET and len(node.inputs) == 1 else None
    key = dict(node.params)["key"]
    if piece is None or None in key or len(key) != len(piece.key) or not _fills(piece, steps=True):
        return None
    if piece.value.aval.dtype != array.aval.dtype:
        return None
    items = [_inside(*each) for each in zip(key, piece.key, piece.box, strict=True)]
    if None in items:
        return None
    found = tuple([item for each in items if each is not None for item in each])
    return graph.add(GET, (piece.value,), (("key", found),)) if found else piece.value


def _inside(read: Any, put: Any, places: Places) -> list[Any] | None:
    """The index of a value along the axis of which it was put at some places, under that of the array; None outside."""
    if put == EVERYTHING:
        return [read]
    if type(read) is not int or not isinstance(places, range) or read not in places:
        return None  # negative numbers are not looked for
    if not isinstance(put, Slice):
        return []
    return None if (put.step or 1) < 0 else [places.index(read)]


def _joined(graph: Graph, node: Node, pieces: Sequence[Piece]) -> Node | None:
    """Slices along one axis, in their order."""
    axis = _cut_axis(pieces, node.aval.shape)
    if axis is None or any(piece.value.aval.dtype != node.aval.dtype or not _is_whole(piece) for piece in pieces):
        return None
    left = [(_ends(piece.box[axis]), piece.value) for piece in pieces]
    values: list[Node] = []
    at: Size = 0
    while left:
        i = next((i for i, (span, _) in enumerate(left) if same(span.start, at)), None)
        if i is None:
            return None
        (_, at), value = left.pop(i)
        values.append(value)
    return graph.add(CONCATENATE, tuple(values), (("axis", axis),) if axis else ())


def _in_order(graph: Graph, node: Node, pieces: Sequence[Piece]) -> Node | None:
    """Into a new array, from its first places on, where these are numbers."""
    if not all(isinstance(_ends(places).start, int) for piece in pieces for places in piece.box):
        return None
    params = (("dtype", np.dtype(node.aval.dtype)), ("shape", node.aval.shape), ("tag", node.id))
    y = graph.add(EMPTY, (), params)
    for piece in sorted(pieces, key=lambda piece: [_ends(places).start for places in piece.box]):
        y = graph.add(SET, (y, piece.value), (("key", piece.key),))
    return y


# ---- what is put where


def _pieces_of(node: Node) -> list[Piece] | None:
    """Return the pieces written into zeros to make a value, in order; None where that is not known."""
    pieces: list[Piece] = []
    while node.op is ADD_AT or node.op is SET:
        piece = _piece(node)
        if piece is None or len(pieces) == LONGEST:
            return None
        pieces.append(piece)
        node = node.inputs[0]
    return pieces[::-1] if pieces and is_zeros(node) else None


@per_node  # each assignment to an array looks at those before it
def _piece(node: Node) -> Piece | None:
    """Return the piece that an assignment writes, if its key has no index arrays."""
    key = dict(node.params)["key"]
    box = _box(key, node.aval.shape) if len(node.inputs) == 2 else None
    return None if box is None else Piece(box, node.op, node.inputs[1], key)


def _box(key: Sequence[Any], shape: Shape) -> Box | None:
    """The places of an array under a key, if that is known."""
    items = [item for item in key if item is not None]
    if len(items) != len(shape):
        return None
    box = [_places(item, n) for item, n in zip(items, shape, strict=True)]
    return None if None in box else tuple([places for places in box if places is not None])


def _places(item: Any, n: Size) -> Places | None:
    """The places that an item of a key selects, at least one."""
    if isinstance(n, int) and all(
        x is None or isinstance(x, int) for x in (item if isinstance(item, Slice) else [item])
    ):
        return _numbers(item, n)
    if not isinstance(item, Slice) or item.step not in (None, 1):
        return None
    start, stop = 0 if item.start is None else item.start, n if item.stop is None else item.stop
    start, stop = (n + x if at_most(x, -1) else x for x in (start, stop))
    return Span(start, stop) if at_most(0, start) and at_most(start + 1, stop) and at_most(stop, n) else None


@lru_cache(4 * LONGEST)
def _numbers(item: Slice | int, n: int) -> range | None:
    if isinstance(item, int):
        return range(item % n, item % n + 1)
    places = range(*slice(*item).indices(n))
    return (places if places.step > 0 else places[::-1]) or None


def _ends(places: Places) -> Span:
    return Span(places[0], places[-1] + 1) if isinstance(places, range) else places


def _length(places: Places) -> Size:
    return len(places) if isinstance(places, range) else places.stop - places.start


def _apart(a: Box, b: Box) -> bool:
    return any(map(_no_place_is_shared, a, b))


def _no_place_is_shared(x: Places, y: Places) -> bool:
    if isinstance(x, range) and isinstance(y, range) and 1 in (len(x), len(y)):
        return x[0] not in y if len(x) == 1 else y[0] not in x
    if isinstance(x, range) and isinstance(y, range) and x.step == y.step and (x[0] - y[0]) % x.step != 0:
        return True
    (start, stop), (other_start, other_stop) = _ends(x), _ends(y)
    return at_most(stop, other_start) or at_most(other_stop, start)


def _disjoint(pieces: Sequence[Piece]) -> bool:
    """Whether no place is written to twice."""
    pairs = itertools.combinations(pieces, 2)
    return all(piece.op is SET for piece in pieces) and all(_apart(a.box, b.box) for a, b in pairs)


def _cut_axis(pieces: Sequence[Piece], shape: Shape) -> int | None:
    """The one axis along which pieces are parts of the whole, without gaps."""
    cut = {i for piece in pieces for i, n in enumerate(shape) if not same(_length(piece.box[i]), n)}
    plain = all(isinstance(places, Span) or places.step == 1 for piece in pieces for places in piece.box)
    return cut.pop() if len(cut) == 1 and plain else None


def _is_whole(piece: Piece) -> bool:
    """Whether the value is what stands there, axis for axis."""
    return piece.value.aval.ndim == len(piece.box) and _fills(piece)


def _fills(piece: Piece, steps: bool = False) -> bool:
    """Whether the value has a number for each place, in its order; places may be apart where there are `steps`."""
    apart = [item for item in piece.key if isinstance(item, Slice) and item.step not in (None, 1)]
    if None in piece.key or (apart and not steps):
        return False
    pairs = zip(piece.key, piece.box, strict=True)
    return same_shape(piece.value.aval.shape, tuple(_length(x) for item, x in pairs if isinstance(item, Slice)))
