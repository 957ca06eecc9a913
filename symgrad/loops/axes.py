"""Axes of a program: slicing a value along one slices all values that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from heapq import heappop, heappush
from itertools import chain

import numpy as np

from symgrad.analysis.cost import likely_numbers, likely_rows
from symgrad.analysis.values import is_zeros, number
from symgrad.core.axes import AxisSignature, Label, Labels, signature_of
from symgrad.core.graph import ITEM, Aval, Node, per_node
from symgrad.core.sizes import Size, largest
from symgrad.loops.masked_loops import is_masked
from symgrad.loops.row_gathers import row_signature
from symgrad.loops.stencils import stencil_signature
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import Loop, loop_of
from symgrad.ops.elementwise import ADD, SUBTRACT

Place = tuple[Node, int]  # a value, and one of its axes
Group = tuple[Node, list[Place]]  # an operation, and axes that it carries over or pairs
Signature = Callable[[Node], AxisSignature]


@dataclass(eq=False)
class Axis:
    """One axis of the program, such as its samples: `places` maps each value that has it to the number of the axis.

    With `stencils`, slices such as ``x[1:]`` share it, and its size is that of the longest value. A value may have the
    axis twice, as a table of distances between points has: `places` then names one of the two, and `otherwise` has the
    axes for the other choices. For a loop over iterations `places` has a number of `axes_of_loop`. In the body of such
    a loop, `sums` are the values that are sums over rows: a block computes a part of each.
    """

    size: Size
    places: dict[Node, int]
    stencils: bool = False
    otherwise: list[Axis] = field(default_factory=list)
    sums: frozenset[Node] = frozenset()

    def signature(self, node: Node) -> AxisSignature:
        return stencil_signature(node) if self.stencils else axis_signature(node)

    def size_of(self, node: Node) -> Size:
        """Return the number of rows of a value."""
        return node.aval.shape[self.places[node]] if self.stencils else self.size


def axes_of(nodes: Sequence[Node], stencils: bool = False, rows: int = 0, read: Signature | None = None) -> list[Axis]:
    """Return the axes of a program, in order of first appearance.

    Axes of two values are one where the axis signature of an operator gives them one label. Where a value has an axis
    twice, the choices between its places are found (`Axis.otherwise`) only for axes of `rows` rows or more: callers
    tile no shorter ones. `read` replaces the usual axis signatures.
    """
    read = read or (stencil_signature if stencils else axis_signature)
    signatures = list(map(read, nodes))
    number: dict[Place, int] = {}  # in order of first appearance
    earlier: list[int] = []  # union-find: number of a place -> that of an earlier one of its axis, or of itself
    for node, signature in zip(nodes, signatures, strict=True):
        first: dict[Label, int] = {}
        for x, labels in zip((*node.inputs, node), (*signature.inputs, signature.result), strict=True):
            for i, label in enumerate(labels):
                if label is None:
                    continue
                k = number.setdefault((x, i), len(earlier))
                if k == len(earlier):
                    earlier.append(k)
                if (j := first.setdefault(label, k)) != k:
                    _unite(earlier, j, k)
    members: dict[int, list[Place]] = {}
    for k, place in enumerate(number):
        earlier[k] = earlier[earlier[k]]  # the first of its axis: earlier places point to it already
        members.setdefault(earlier[k], []).append(place)
    axes = [_collected(places, nodes, signatures, rows) for places in members.values()]
    return list(map(_sized, axes)) if stencils else axes


def _unite(earlier: list[int], j: int, k: int) -> None:
    """Merge the axes of two places, with path compression (union-find)."""
    while (i := earlier[j]) != j:
        earlier[j] = j = earlier[i]
    while (i := earlier[k]) != k:
        earlier[k] = k = earlier[i]
    earlier[max(j, k)] = min(j, k)


def _collected(places: Sequence[Place], nodes: Sequence[Node], signatures: Sequence[AxisSignature], rows: int) -> Axis:
    axis = _axis(dict(places))
    meets_itself = len(axis.places) < len(places)
    return _unfolded(places, _groups(nodes, signatures)) if meets_itself and likely_rows(axis.size) >= rows else axis


def _axis(places: dict[Node, int]) -> Axis:
    node, i = next((x, i) for x, i in places.items() if type(x.aval) is Aval)
    return Axis(node.aval.shape[i], places)


# ---- an axis that meets itself


def _groups(nodes: Sequence[Node], signatures: Sequence[AxisSignature]) -> list[Group]:
    """Return for each operation the groups of places that have one label in its axis signature."""
    groups: list[Group] = []
    for node, signature in zip(nodes, signatures, strict=True):
        first: dict[Label, list[Place]] = {}
        for x, labels in zip((*node.inputs, node), (*signature.inputs, signature.result), strict=True):
            for i, label in enumerate(labels):
                if label is not None:
                    first.setdefault(label, []).append((x, i))
        groups += [(node, group) for group in first.values()]
    return groups


def _unfolded(places: Sequence[Place], groups: Iterable[Group]) -> Axis:
    """Return an axis that some values have several times, with an alternative for each such axis of the largest one."""
    among: dict[Place, list[Group]] = {place: [] for place in places}
    for group in groups:
        for place in group[1] if group[1][0] in among else ():
            among[place].append(group)
    largest_value = max(dict(places), key=lambda x: (likely_numbers(x), -x.id))
    seeds = [place for place in places if place[0] is largest_value]
    first, *others = [_axis(_consistent(_grown(seed, among), among)) for seed in seeds]
    first.otherwise = others
    return first


def _grown(seed: Place, among: Mapping[Place, Sequence[Group]]) -> dict[Node, int]:
    """Return the place of the axis in each value, found from a seed along axis signatures, largest values first."""
    grown: dict[Node, int] = {}
    waiting = [(0, 0, 0, seed)]
    while waiting:
        *_, (node, i) = heappop(waiting)
        if node not in grown:
            grown[node] = i
            for x, axis in dict.fromkeys(chain(*(places for _, places in among[node, i]))):
                if x not in grown:
                    heappush(waiting, (-likely_numbers(x), axis, x.id, (x, axis)))
    return grown


def _consistent(grown: dict[Node, int], among: Mapping[Place, Sequence[Group]]) -> dict[Node, int]:
    """Remove values whose operands would be cut along another of their axes than the signature requires."""
    kept: dict[Node, int] = {}
    for node in sorted(grown, key=lambda x: x.id):
        made_of = chain(*(places for made, places in among[node, grown[node]] if made is node))
        if all(kept.get(x, i) == i for x, i in made_of if x.inputs):
            kept[node] = grown[node]
    return kept


def _sized(axis: Axis) -> Axis:
    """Return an axis with the length of its longest value."""
    size = reduce(largest, dict.fromkeys([x.aval.shape[i] for x, i in axis.places.items()]))
    return Axis(size, axis.places, True, list(map(_sized, axis.otherwise)))


# ---- loops over iterations


def axis_signature(node: Node) -> AxisSignature:
    """Return the axis signature of a node, including loops over iterations."""
    if node.op is SCAN:
        return _signature_of_loop(node)
    if node.op is ITEM and node.inputs[0].op is SCAN:
        return _signature_of_result(node.inputs[0], dict(node.params)["index"])
    return row_signature(node)


def _signature_of_loop(loop: Node) -> AxisSignature:
    """Return the axis signature of a loop over iterations; labels are numbers of axes."""
    axes, parts = axes_of_loop(loop), loop_of(loop)
    carry, xs, consts = ([_labels(x.value, axes) for x in part] for part in (parts.carry, parts.xs, parts.consts))
    return AxisSignature(((), *carry, *[(None, *x) for x in xs], *consts), tuple(range(len(axes))))


def _signature_of_result(loop: Node, index: int) -> AxisSignature:
    """Return the axis signature of a result of a loop: it has rows, or blocks compute parts of its sums over rows."""
    axes, parts = axes_of_loop(loop), loop_of(loop)
    if index >= len(parts.results):  # the number of iterations
        return AxisSignature(((None,) * len(axes),), ())
    value = parts.results[index]
    given = tuple([k if value in axis.places or value in axis.sums else None for k, axis in enumerate(axes)])
    labels = _labels(value, axes)
    result = labels if index < len(parts.carry) else (None, *labels)
    return AxisSignature((given,), result, np.add if any(value in axis.sums for axis in axes) else None)


def _labels(x: Node, axes: Sequence[Axis]) -> Labels:
    """Return the number of each axis of a value in the body, None for axes without one."""
    labels: list[Label] = [None] * x.aval.ndim
    for k, axis in enumerate(axes):
        if x in axis.places:
            labels[axis.places[x]] = k
    return tuple(labels)


@per_node
def axes_of_loop(loop: Node) -> list[Axis]:
    """Return the axes, as places in the body of a loop, along which rows are independent in all iterations.

    No iteration mixes rows. A loop with a condition is a masked one, which may end for each row by itself.
    """
    parts = loop_of(loop)
    body = parts.body
    if parts.test is not None and not is_masked(loop):
        return []
    found = [axis for axis in axes_of([*body.parameters, *body.nodes]) if not axis.otherwise]
    return [replace(axis, sums=sums) for axis in found if (sums := _sums_within(axis, parts)) is not None]


def _sums_within(axis: Axis, loop: Loop) -> frozenset[Node] | None:
    """Return the values of an iteration that are sums over rows of an axis; None if rows are not independent.

    A carry may accumulate such sums, from zero. Nothing else may read them: a block has only a part of each.
    """
    if any(axis.places.get(c.value) != axis.places.get(c.update) for c in loop.carry):
        return None
    adding = [c for c in loop.carry if c.value not in axis.places and (is_zeros(c.init) or number(c.init) == 0)]
    while True:
        sums = _Sums(axis, loop.body.nodes, {c.value for c in adding})
        wrong = [c for c in adding if c.value in sums.read or sums.of.get(c.update) is not c.value]
        if not wrong:
            break
        adding = [c for c in adding if c not in wrong]
    others = [c for c in loop.carry if c not in adding]
    if not sums.independent or any(c.update in sums.of for c in others) or (sums.of and loop.test is not None):
        return None
    return frozenset(sums.of)


class _Sums:
    """The sums over rows in an iteration: `of` maps each to the carry that it is added to, or None."""

    def __init__(self, axis: Axis, nodes: Iterable[Node], adding: Iterable[Node]) -> None:
        self.of: dict[Node, Node | None] = {x: x for x in adding}
        self.read: set[Node | None] = set()  # carries that something else reads
        self.independent = True
        for node in nodes:
            self._learn(node, axis)
        self.of = {x: carry for x, carry in self.of.items() if x is not carry}

    def _learn(self, node: Node, axis: Axis) -> None:
        parts = [x for x in node.inputs if x in self.of]
        if not parts:
            if _is_sum_of_rows(node, axis):
                self.of[node] = None
            elif not _has_rows_alone(node, axis):
                self.independent = False
            return
        carries = [self.of[x] for x in parts if self.of[x] is not None]
        added = node.op is ADD or (node.op is SUBTRACT and self.of[parts[-1]] is None)
        if added and len(parts) == 2 and len(carries) <= 1:
            self.of[node] = carries[0] if carries else None
        else:
            self.read.update(carries)
            self.independent &= len(carries) == len(parts) and all(self.of[x] is x for x in parts)


def _is_sum_of_rows(node: Node, axis: Axis) -> bool:
    """Whether a value of an iteration is a sum over rows, of which blocks compute parts."""
    signature = axis_signature(node)
    if node in axis.places or signature.combine is not np.add or type(node.aval) is not Aval:
        return False
    pairs = list(zip(node.inputs, signature.inputs, strict=True))
    labels = {labels[axis.places[x]] for x, labels in pairs if x in axis.places}
    if len(labels) != 1 or labels & {None, *signature.result}:
        return False
    return not any(labels & set(own) for x, own in pairs if x not in axis.places)


def _has_rows_alone(node: Node, axis: Axis) -> bool:
    """Whether each row of a value depends only on the same row of its operands; a value without rows on no rows."""
    places = axis.places
    signature = signature_of(node) if type(node.aval) is Aval and node.op is not ITEM else axis_signature(node)
    own = signature.result[places[node]] if node in places else None
    return not (node in places and own is None) and all(
        labels[places[x]] == own is not None if x in places else own is None or own not in labels
        for x, labels in zip(node.inputs, signature.inputs, strict=True)
    )
