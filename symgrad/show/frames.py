"""Frames around some of the boxes of a picture, each laid out by itself, and one within another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from symgrad.show.layout import Block, Layout, Path, Point, layout
from symgrad.show.picture import Group

TITLE, PAD = 26.0, 14.0  # height of a title; between a frame and what it holds

Frames = tuple[Group, ...]  # around something, the outermost first
_Key = int | Frames | None  # of what stands in a room: a box, a frame, or the way out to the box that holds the frame


class Rectangle(NamedTuple):
    left: float
    top: float
    width: float
    height: float


class Framed(NamedTuple):
    """The layout of boxes and frames."""

    width: float
    height: float
    centres: dict[int, Point]
    frames: dict[Frames, Rectangle]  # each behind those that it stands in
    references: list[tuple[int, Point]]  # the box that is referred to
    arrows: list[Path]


class _Room:
    """The content of one frame, or of the whole picture."""

    def __init__(self) -> None:
        self.blocks: dict[_Key, Block] = {}
        self.arrows: dict[tuple[_Key, _Key], None] = {}
        self.laid = Layout(0.0, 0.0, [], [], [])
        self.width = self.exit = 0.0

    def settle(self, title: float) -> Block:
        """Lay out the content and return the size of the frame around it."""
        numbers = {key: i for i, key in enumerate(self.blocks)}
        self.laid = layout(list(self.blocks.values()), [(numbers[i], numbers[j]) for i, j in self.arrows])
        self.width = max(title, self.laid.width) + 2 * PAD
        way_out = self.laid.places[numbers[None]].x if None in numbers else self.laid.width / 2
        self.exit = (self.width - self.laid.width) / 2 + way_out
        return Block(self.width, TITLE + self.laid.height + (0.0 if None in numbers else PAD))


def framed(
    boxes: Sequence[Block], around: Sequence[Frames], titles: Mapping[Frames, float], arrows: Sequence[tuple[int, int]]
) -> Framed:
    """Places for boxes, with frames around them whose titles have these widths.

    An arrow goes from a box to one with a greater number in the same frame, or out of a frame to the box that holds it.
    """
    paths = dict.fromkeys(frames[:depth] for frames in around for depth in range(1, len(frames) + 1))
    rooms: dict[Frames, _Room] = {(): _Room(), **{path: _Room() for path in paths}}
    for path in paths:
        rooms[path[:-1]].blocks[path] = Block(0.0, 0.0)
    for i, box in enumerate(boxes):
        rooms[around[i]].blocks[i] = box
    for i, j in arrows:
        _join(rooms, around, i, j)
    for path in reversed(paths):
        rooms[path[:-1]].blocks[path] = rooms[path].settle(titles[path])
    rooms[()].settle(0.0)
    whole = rooms[()].laid
    found = Framed(whole.width, whole.height, {}, {}, [], [])
    _put(rooms, (), found, 0.0, 0.0)
    return found


def _join(rooms: Mapping[Frames, _Room], around: Sequence[Frames], i: int, j: int) -> None:
    """Lead an arrow out of the frames that its end does not stand in."""
    start: _Key = i
    for path in _outwards(around[i], around[j]):
        rooms[path].blocks.setdefault(None, Block(1.0, 0.0))
        rooms[path].arrows[start, None] = None
        start = path
    rooms[around[j]].arrows[start, j] = None


def _outwards(path: Frames, end: Frames) -> Iterator[Frames]:
    while path != end:
        yield path
        path = path[:-1]


def _put(rooms: Mapping[Frames, _Room], path: Frames, found: Framed, dx: float, dy: float) -> None:
    """Note where a room, and all that it holds, lies on the picture."""
    room = rooms[path]
    keys, laid = list(room.blocks), room.laid
    for key, place in zip(keys, laid.places, strict=True):
        if isinstance(key, int):
            found.centres[key] = place.x + dx, (place.top + place.bottom) / 2 + dy
        elif key is not None:
            inner = rooms[key]
            left, top = place.x + dx - inner.width / 2, place.top + dy
            found.frames[key] = Rectangle(left, top, inner.width, place.bottom - place.top)
            _put(rooms, key, found, left + (inner.width - inner.laid.width) / 2, top + TITLE)
    for i, place in laid.references:
        key = keys[i]
        assert isinstance(key, int), "only boxes are referred to"
        found.references.append((key, (place.x + dx, place.bottom + dy)))
    for (start, _), arrow in zip(room.arrows, laid.paths, strict=True):
        (x, y), through = arrow.moved(dx, dy)
        if isinstance(start, tuple):
            x = found.frames[start].left + rooms[start].exit
        found.arrows.append(Path((x, y), through))
