"""Aliases among arrays after a branch, in the iterations of a loop, and after it.

Where one of two aliases is written into, the other one may not be read: `Memory.link`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from symgrad.core.graph import Node
from symgrad.frontend.aliasing import Memory, packed_order
from symgrad.frontend.ties import ties_of
from symgrad.ops.operands import ARRAYS, is_traced

_WRITTEN = "the body of a loop writes into an array that it was given"
_OUTSIDE = "it is an array that exists before the program runs"


class Truth(NamedTuple):
    """The boolean that tells two cases apart, and how many nodes there were when the branch began."""

    node: Node
    since: int


def relate(found: Iterable[tuple[Memory, Sequence[Sequence[Memory]]]], truth: Truth | None = None) -> None:
    """Link arrays with those that they may alias, by cases; one case holds for all of them.

    By a boolean that tells the cases apart they are tied to it, if that can be said.
    """
    found, links = [*found], list[tuple[Memory, Memory]]()
    before = {id(y): y.kin for _, cases in found for case in cases for y in case}
    is_tied = _tie(found, truth) if truth is not None else set()
    for cases in zip(*(cases for _, cases in found), strict=True):
        pairs = [(x, y) for (x, _), case in zip(found, cases, strict=True) for y in case]
        names: dict[int, list[Memory]] = {}
        for x, y in pairs:
            names.setdefault(id(y.owner), []).append(x)
            _lock(x, y.locked)
        loose = [(x, y) for x, y in pairs if id(x) not in is_tied]
        links += [(x, z) for x, y in loose for kin in before[id(y)] for z in (kin, *names.get(id(kin), ()))]
    for x, y in links:
        x.link(y)


def _tie(found: Sequence[tuple[Memory, Sequence[Sequence[Memory]]]], truth: Truth) -> set[int]:
    """Tie the arrays that can be tied; their ids."""
    owners = [y.owner for _, cases in found for case in cases for y in case]
    fresh = Counter(id(x) for x in owners if not x.is_older(truth.since))
    is_tied = set()
    for x, cases in found:
        if x.may_be_tied and all(fresh[id(y.owner)] < 2 for case in cases for y in case):  # else both names are new
            ties = ties_of(x, cases, *truth)
            x.tie(ties)
            is_tied |= {id(x)} if ties else set()
    return is_tied


def name_one_of(result: Memory, *values: Any) -> list[list[Memory]]:
    """Let a result have the memory order of the values that it is one of; return the cases for `relate`."""
    result.as_array(all(map(is_array, values)))
    orders = {packed_order(x) for x in values}
    result.lay_out(orders.pop() if len(orders) == 1 else "")
    for x in values:
        _lock(result, locked(x))
    return [[x] if is_array(x) else [] for x in values]


def is_array(x: Any) -> bool:
    """Whether it has memory that can be written into."""
    return is_traced(x) and x.writes_in_place


def share_memory(arrays: Iterable[Any]) -> bool:
    """Whether two of some arrays may show the same memory."""
    seen = set[int]()
    for x in arrays:
        if not seen.isdisjoint(map(id, x.kin)):
            return True
        seen.add(id(x.owner))
    return False


def _lock(x: Memory, reason: str) -> None:
    """Refuse to write into an array, where that is not refused already."""
    if reason and not x.owner.locked:
        x.owner.locked = reason


class CarriedArray(NamedTuple):
    """An array that a loop carries: before the loop, at the start of an iteration, and at its end."""

    key: Any
    before: Any
    stand_in: Memory
    after: Any = None

    @property
    def is_spoilt(self) -> bool:
        """Whether an iteration may write into the array that it starts with."""
        return self.stand_in.was_written or bool(self.stand_in.doubtful)


class Sharing:
    """Aliases among the arrays that a loop carries, and with arrays from before it."""

    def __init__(self) -> None:
        self._outer: dict[Any, dict[int, Memory]] = {}  # what was there before the loop, by the keys of arrays
        self._pairs: dict[tuple[Any, Any], None] = {}
        self._locks: dict[Any, str] = {}

    def begin(self, carried: Sequence[CarriedArray]) -> None:
        """Link the stand-ins of an iteration."""
        relate((x.stand_in, [[x.before] if is_array(x.before) else []]) for x in carried)
        self._link([(x.key, x.stand_in) for x in carried])

    def end(self, carried: Sequence[CarriedArray], since: int) -> bool:
        """Note the aliases at the end of an iteration; whether they were known already."""
        before = self._state()
        arrays = [x for x in carried if is_array(x.after)]
        at: dict[int, list[Any]] = {}
        for x in arrays:
            at.setdefault(id(x.after.owner), []).append(x.key)
        for x in arrays:
            kin = x.after.kin
            if x.after is not x.stand_in or x.stand_in.was_written:
                self._outer.setdefault(x.key, {}).update((id(y), y) for y in kin if y.is_older(since))
            self._pairs |= {(x.key, key): None for y in kin for key in at.get(id(y), ()) if key != x.key}
        for x in carried:
            if reason := locked(x.after):
                self._locks.setdefault(x.key, reason)
        return before == self._state()

    def behind(self, carried: Sequence[CarriedArray], finals: Sequence[Any], sure: bool) -> None:
        """Link the arrays after the loop with those before it, unless it is `sure` that there is an iteration."""
        found = [(x, y) for x, y in zip(carried, finals, strict=True) if is_array(y) and y is not x.before]
        if not sure:
            relate((y, [[x.before] if is_array(x.before) else []]) for x, y in found)
            for x, y in found:
                _lock(y, locked(x.before))
        self._link([(x.key, y) for x, y in found])

    def _link(self, found: Sequence[tuple[Any, Memory]]) -> None:
        arrays = dict(found)
        for key, x in found:
            _lock(x, self._locks.get(key, ""))
            for y in self._outer.get(key, {}).values():
                _lock(x, y.locked)
                x.link(y)
        for a, b in self._pairs:
            if a in arrays and b in arrays:
                arrays[a].link(arrays[b])

    def _state(self) -> tuple[int, int, int]:
        return sum(map(len, self._outer.values())), len(self._pairs), len(self._locks)


def locked(x: Any) -> str:
    """Why a value cannot be written into, if it is an array."""
    if is_traced(x):
        return x.locked if x.writes_in_place else ""
    return _OUTSIDE if isinstance(x, ARRAYS) and x.ndim else ""


class Names:
    """Aliases of the arrays that a loop carries: with those before it, and among each other."""

    def __init__(self, init: Sequence[Any]) -> None:
        self._init, self._sharing = init, Sharing()
        self._arrays: list[CarriedArray] = []
        self.known = False  # whether the last iteration has begun with all that it showed

    def begin(self, stand_ins: Sequence[Memory]) -> None:
        """Link the stand-ins of an iteration to each other; arrays from before the loop lie outside of the body."""
        self._arrays = [CarriedArray(i, None, x) for i, x in enumerate(stand_ins)]
        for x, before in zip(stand_ins, self._init, strict=True):
            x.locked = locked(before)
            x.lay_out("")  # an iteration may have made an array that lies otherwise
        self._sharing.begin(self._arrays)

    def end(self, new: Sequence[Any], since: int) -> None:
        """Note the arrays at the end of an iteration."""
        self._arrays = [x._replace(after=y) for x, y in zip(self._arrays, new, strict=True)]
        self.known = self._sharing.end(self._arrays, since) or not any(x.is_spoilt for x in self._arrays)

    def behind(self, final: Sequence[Memory], sure: bool) -> None:
        """Note the aliases after the loop: an array that an iteration has written into is spoilt before it, too."""
        arrays = [x._replace(before=before) for x, before in zip(self._arrays, self._init, strict=True)]
        self._sharing.behind(arrays, final, sure)
        for i, (x, y) in enumerate(zip(arrays, final, strict=True)):
            name_one_of(y, x.before, x.after)
            earlier = [self._init[j] for j in self._earlier(i) if is_array(self._init[j])]
            for before in earlier if is_array(y) else ():
                y.link(before)
            for before in (*earlier, *[x.before] * is_array(x.before)) if x.is_spoilt else ():
                before.doubt(_WRITTEN)

    def _earlier(self, i: int) -> list[int]:
        """Return the numbers of the arrays that the result of this number may have been some iterations before."""
        found: list[int] = []
        for j in chain((i,), found):
            after = self._arrays[j].after
            kin = {id(x) for x in after.kin} if is_array(after) else ()
            found += [k for k, x in enumerate(self._arrays) if id(x.stand_in.owner) in kin and k not in found]
        return found
