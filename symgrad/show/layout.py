"""Layout of a picture's boxes: in layers, each below the origins of its arrows.

References
----------
Sugiyama, Tagawa & Toda (1981), Methods for visual understanding of hierarchical system structures; the places within a
layer are those of least squares under minimal distances, by isotonic regression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

FAR = 6  # layers that an arrow crosses at most; from further away a value is called by its name
SWEEPS = 12  # each down and up
GAP, BEND, LEVEL = 22.0, 11.0, 44.0  # between boxes, about a bend of an arrow, between layers
LABEL = 18.0  # height of a reference

Point = tuple[float, float]


class Block(NamedTuple):
    """A block to place: its size, and the width of references to it; None where it is never far away."""

    width: float
    height: float
    label: float | None = None


class Place(NamedTuple):
    """The middle, the top and the bottom of a box; all boxes of a layer stand on one line."""

    x: float
    top: float
    bottom: float


class Path(NamedTuple):
    """An arrow: where it begins, and the layers that it goes through or to, straight down from top to bottom."""

    start: Point
    through: list[Place]

    def moved(self, dx: float, dy: float) -> Path:
        (x, y), through = self
        return Path((x + dx, y + dy), [Place(p.x + dx, p.top + dy, p.bottom + dy) for p in through])


class Layout(NamedTuple):
    """Places of boxes, of references to what is far away, and the paths of arrows."""

    width: float
    height: float
    places: list[Place]
    references: list[tuple[int, Place]]  # the box that is referred to
    paths: list[Path]


class _Layers:
    """Boxes, references and the bends of long arrows, in layers."""

    def __init__(self, blocks: Sequence[Block], arrows: Sequence[tuple[int, int]]) -> None:
        self.widths, self.heights = [x.width for x in blocks], [x.height for x in blocks]
        self.layer = _longest_paths(len(blocks), arrows)
        self.referred: list[tuple[int, int]] = []  # a reference, and the box that it refers to
        self.chains: list[list[int]] = []
        for i, j in arrows:
            label = blocks[i].label
            if self.layer[j] - self.layer[i] <= FAR or label is None:
                bends = [self._add(BEND, 0.0, k) for k in range(self.layer[i] + 1, self.layer[j])]
                self.chains.append([i, *bends, j])
            else:
                reference = self._add(label, LABEL, self.layer[j] - 1)
                self.referred.append((reference, i))
                self.chains.append([reference, j])
        self.above: list[list[int]] = [[] for _ in self.widths]
        self.below: list[list[int]] = [[] for _ in self.widths]
        for chain in self.chains:
            for i, j in pairwise(chain):
                self.above[j].append(i)
                self.below[i].append(j)
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for i, k in enumerate(self.layer):
            self.rows[k].append(i)

    def _add(self, width: float, height: float, layer: int) -> int:
        self.widths.append(width)
        self.heights.append(height)
        self.layer.append(layer)
        return len(self.widths) - 1

    def _sweeps(self) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Down and up in turns each row, and the neighbours of boxes in the direction that it comes from."""
        for sweep in range(SWEEPS):
            rows, neighbours = (self.rows[::-1], self.below) if sweep % 2 else (self.rows, self.above)
            yield from ((row, neighbours) for row in rows)

    def order(self) -> None:
        """Fewer crossings: each row in the order of the mean places of its neighbours."""
        place = [0.0] * len(self.widths)
        for row in self.rows:
            for p, i in enumerate(row):
                place[i] = float(p)
        for row, neighbours in self._sweeps():
            row.sort(key=lambda i: _mean([place[j] for j in neighbours[i]], place[i]))
            for p, i in enumerate(row):
                place[i] = p - len(row) / 2

    def columns(self) -> list[float]:
        """Straighter arrows: each box as near as may be to the mean of its neighbours."""
        x = [0.0] * len(self.widths)
        for row in self.rows:
            self._place(row, x, [0.0] * len(row))
        for row, neighbours in self._sweeps():
            self._place(row, x, [_mean([x[j] for j in neighbours[i]], x[i]) for i in row])
        left = min((x[i] - w / 2 for i, w in enumerate(self.widths)), default=0.0)
        return [place - left for place in x]

    def _place(self, row: Sequence[int], x: list[float], wanted: Sequence[float]) -> None:
        """The places of a row of which the squared distances to those wanted are least."""
        offsets, offset = [], 0.0
        for before, i in zip([None, *row], row, strict=False):
            if before is not None:
                offset += (self.widths[before] + self.widths[i]) / 2 + GAP
            offsets.append(offset)
        shifted = isotonic([w - o for w, o in zip(wanted, offsets, strict=True)])
        for i, start, o in zip(row, shifted, offsets, strict=True):
            x[i] = start + o


def layout(blocks: Sequence[Block], arrows: Sequence[tuple[int, int]]) -> Layout:
    """Places for boxes; an arrow goes from a box to one with a greater number."""
    layers = _Layers(blocks, arrows)
    layers.order()
    x = layers.columns()
    tall = [max((layers.heights[i] for i in row), default=0.0) for row in layers.rows]
    tops = [0.0, *accumulate(height + LEVEL for height in tall)]
    bottoms = [top + height for top, height in zip(tops, tall, strict=False)]

    def place(i: int) -> Place:
        bottom = bottoms[layers.layer[i]]
        return Place(x[i], bottom - layers.heights[i], bottom)

    def crossed(i: int) -> Place:
        """A layer, down to what stands in it."""
        k = layers.layer[i]
        return Place(x[i], tops[k], bottoms[k] - layers.heights[i])

    return Layout(
        max((x[i] + w / 2 for i, w in enumerate(layers.widths)), default=0.0),
        bottoms[-1] if bottoms else 0.0,
        [place(i) for i in range(len(blocks))],
        [(i, place(reference)) for reference, i in layers.referred],
        [Path((x[first], place(first).bottom), [crossed(i) for i in rest]) for first, *rest in layers.chains],
    )


def isotonic(values: Sequence[float]) -> list[float]:
    """The sequence that never falls and is nearest to `values` by least squares: adjacent violators are pooled."""
    pools: list[tuple[float, int]] = []  # sum, count
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


def _longest_paths(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: below all that its arrows come from, and else as close to where it is used as may be."""
    layer = [0] * count
    for i, j in sorted(arrows, key=lambda arrow: arrow[1]):
        layer[j] = max(layer[j], layer[i] + 1)
    lowest: dict[int, int] = {}
    for i, j in sorted(arrows, key=lambda arrow: -arrow[1]):
        layer[j] = lowest.get(j, layer[j])  # all that use it are placed
        lowest[i] = min(lowest.get(i, count), layer[j] - 1)
    return [lowest.get(i, k) for i, k in enumerate(layer)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
