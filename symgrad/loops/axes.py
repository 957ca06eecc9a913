"""Axes of a program: slicing a value along one slices all values that share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from heapq import heappop, heappush
from itertools import chain

from symgrad.analysis.cost import likely_numbers, likely_rows
from symgrad.core.axes import AxisSignature, Label, Labels, signature_of
from symgrad.core.graph import ITEM, Aval, Node, per_node
from symgrad.core.sizes import Size, largest
from symgrad.loops.masked_loops import keeps_what_is_done
from symgrad.loops.row_gathers import row_signature
from symgrad.loops.stencils import stencil_signature
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of

Place = tuple[Node, int]  # a value, and one of its axes
Group = tuple[Node, list[Place]]  # an operation, and axes that it carries over or pairs


@dataclass(eq=False)
class Axis:
    """One axis of the program, such as its samples: where it is an axis of which value.

    With `stencils` slices such as ``x[1:]`` belong to it too; its size is then the largest of theirs. Where an axis
    meets itself, as the points do in a table of their distances, this is one way to cut the table, and `otherwise` has
    the others. For a loop over iterations, which has several results, its place is its number in `axes_of_loop`.
    """

    size: Size
    places: dict[Node, int]
    stencils: bool = False
    otherwise: list[Axis] = field(default_factory=list)

    def signature(self, node: Node) -> AxisSignature:
        return stencil_signature(node) if self.stencils else _signature(node)

    def size_of(self, node: Node) -> Size:
        """Return the number of rows of a value."""
        return node.aval.shape[self.places[node]] if self.stencils else self.size


def axes_of(nodes: Sequence[Node], stencils: bool = False, rows: int = 0) -> list[Axis]:
    """The axes of a program, in the order in which they come up.

    Two axes of two values are one where an operator carries the one over into the other, or pairs them. One of fewer
    `rows` that meets itself is cut in any way: nobody asks how.
    """
    signatures = [stencil_signature(node) if stencils else _signature(node) for node in nodes]
    number: dict[Place, int] = {}  # in which order they come up
    earlier: list[int] = []  # of each place one of the same axis, itself for the first
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
        earlier[k] = earlier[earlier[k]]  # the first, which that of an earlier place is already
        members.setdefault(earlier[k], []).append(place)
    axes = [_collected(places, nodes, signatures, rows) for places in members.values()]
    return list(map(_sized, axes)) if stencils else axes


def _unite(earlier: list[int], j: int, k: int) -> None:
    """Make the axes of two places one; the ways to their first places are made shorter."""
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
    """For each operation the axes that it carries over or pairs."""
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
    """Return an axis that some values have several times, with an alternative for each way to cut the largest."""
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
    """Return the place of the axis in each value, grown from a seed along the signatures, the largest values first."""
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
    """Remove values that would be tiled along another axis than the one along which they are cut."""
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


def _signature(node: Node) -> AxisSignature:
    """Return the axis signature of a node, including loops over iterations."""
    if node.op is SCAN:
        return _signature_of_loop(node)
    if node.op is ITEM and node.inputs[0].op is SCAN:
        numbers = tuple(range(len(axes_of_loop(node.inputs[0]))))
        return AxisSignature((numbers,), _labels_of_results(node.inputs[0])[dict(node.params)["index"]])
    return row_signature(node)


def _signature_of_loop(loop: Node) -> AxisSignature:
    """Return the axis signature of a loop over iterations; labels are numbers of axes."""
    axes, parts = axes_of_loop(loop), loop_of(loop)
    carry, xs, consts = ([_labels(x.value, axes) for x in part] for part in (parts.carry, parts.xs, parts.consts))
    return AxisSignature(((), *carry, *[(None, *x) for x in xs], *consts), tuple(range(len(axes))))


def _labels_of_results(loop: Node) -> list[Labels]:
    axes, parts = axes_of_loop(loop), loop_of(loop)
    carry, ys = ([_labels(y, axes) for y in part] for part in ([c.update for c in parts.carry], parts.ys))
    return [*carry, *[(None, *y) for y in ys], *[()] * (parts.test is not None)]


def _labels(x: Node, axes: Sequence[Axis]) -> Labels:
    """Return the number of each axis of a value in the body, None for axes without one."""
    labels: list[Label] = [None] * x.aval.ndim
    for k, axis in enumerate(axes):
        if x in axis.places:
            labels[axis.places[x]] = k
    return tuple(labels)


@per_node
def axes_of_loop(loop: Node) -> list[Axis]:
    """Return the axes, by their places in the body of a loop, along which rows are independent in all iterations.

    No iteration mixes rows. Where a test ends the loop it ends for each row when this is done.
    """
    parts = loop_of(loop)
    body = parts.body
    if parts.test is not None and not keeps_what_is_done(loop):
        return []
    pairs = [(c.value, c.update) for c in parts.carry]
    found = [axis for axis in axes_of([*body.parameters, *body.nodes]) if not axis.otherwise]
    return [axis for axis in found if _goes_through(axis, body.nodes, pairs)]


def _goes_through(axis: Axis, nodes: Iterable[Node], pairs: Iterable[tuple[Node, Node]]) -> bool:
    """Whether all that an iteration computes and carries on has independent rows along these places."""
    places = axis.places
    if any(places.get(x) != places.get(y) for x, y in pairs):
        return False
    for node in nodes:
        signature = signature_of(node) if type(node.aval) is Aval and node.op is not ITEM else _signature(node)
        own = signature.result[places[node]] if node in places else None
        if (node in places and own is None) or not all(
            labels[places[x]] == own is not None if x in places else own is None or own not in labels
            for x, labels in zip(node.inputs, signature.inputs, strict=True)
        ):
            return False
    return True
