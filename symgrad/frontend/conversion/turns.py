"""One turn of a loop on stand-ins for what it carries, until what comes out of it is what has gone into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.provenance import Where, here
from symgrad.core.shapes import same_shape
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.frontend.bodies import Turn, common, promoted, recorded
from symgrad.frontend.conversion.absent import Perhaps
from symgrad.frontend.conversion.items import Items
from symgrad.frontend.conversion.jumps import label
from symgrad.frontend.conversion.lists import Appended
from symgrad.frontend.conversion.merging import called_by, described, filler, is_numeric
from symgrad.frontend.conversion.state import Held, Place, Run, Snapshot, held, is_same
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.control import PLACE, UNBOUNDED
from symgrad.ops.operands import is_traced
from symgrad.ops.places import TurnPlace

MOST = 8  # turns that are traced until what is carried keeps its type


class Unstable(Exception):
    """A turn makes something of the state that cannot be carried."""

    def __init__(self, name: str, before: str, after: str) -> None:
        super().__init__(name)
        self._fact = f"{called_by(name)} is {before} where a turn of the loop begins, and {after} where it ends"
        self._where: Where = here()

    def refusal(self) -> SymgradError:
        return UnsupportedError(self._fact, "Keep its type and its shape from turn to turn.", self._where)


class Leaf(NamedTuple):
    """A part of the state: what it is before the loop, and as what it is carried; a node None of what stays."""

    before: Any
    node: Node | None
    aval: Aval | None


class Slot:
    """A name, a place in a container, or memory, that a turn changes."""

    def __init__(self, graph: Graph, name: str, before: Held) -> None:
        self.graph, self.name = graph, name
        self.take(before, before)

    def take(self, before: Held, like: Held) -> None:
        """Carry what it is before the loop, of the structure of `like`."""
        self.before, self.structure = before, like.structure
        self.outs: list[tuple[Any, Node | None, Leaf]] = []
        self.results: list[Node] = []
        pairs = zip(like.leaves, like.nodes, strict=True)
        self.leaves = [self._leaf(x, node, before.bound) for x, node in pairs]

    def _leaf(self, x: Any, node: Node | None, bound: bool) -> Leaf:
        if not is_numeric(x):
            return Leaf(x, None, None)
        node = node or lift(self.graph, x)
        return Leaf(x, node if bound else filler(self.graph, node.aval), node.aval)

    @property
    def carried(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.node is not None]

    def stand_ins(self) -> Any:
        """The value that a turn begins with; `seeds` are the nodes in it."""
        self.seeds: list[Node] = []
        self.arrays: list[Any] = []
        return tree.unflatten(self.structure, [self._stand_in(leaf) for leaf in self.leaves])

    def _stand_in(self, leaf: Leaf) -> Any:
        if leaf.aval is None:
            return leaf.before
        seed = self.graph.seed(leaf.aval)
        label(self.graph, seed, self.name)
        self.seeds.append(seed)
        x = Variable(self.graph, seed)
        x.stands_for(leaf.before)
        self.arrays.append(x)
        return x

    def settle(self, after: Held) -> bool:
        """Compare with what the turn has made of it: whether that is of the same types, which it is given if not."""
        if any(type(x) is Perhaps for x in after.leaves):
            raise Unstable(self.name, shown(self.before), "None or an array, depending on traced values")
        if not self.before.bound and not self.carried and after.bound:
            self.take(self.before, after)
            return not self.carried
        if self.structure != after.structure:
            raise Unstable(self.name, shown(self.before), shown(after))
        self.outs = [x for x in zip(after.leaves, after.nodes, self.leaves, strict=True) if x[2].node is not None]
        for x, _, leaf in zip(after.leaves, after.nodes, self.leaves, strict=True):
            if (leaf.node is None and not is_same(x, leaf.before)) or (leaf.node is not None and not is_numeric(x)):
                raise Unstable(self.name, shown(self.before), shown(after))
        self.results = [node or lift(self.graph, x) for x, node, _ in self.outs]
        before = [leaf.aval for leaf in self.carried]
        wide = iter([self._widened(leaf, out, after) for leaf, out in zip(self.carried, self.results, strict=True)])
        self.leaves = [leaf if leaf.node is None else next(wide) for leaf in self.leaves]
        return before == [leaf.aval for leaf in self.carried]

    def result(self, final: Iterator[Variable], shared: Collection[int]) -> Any:
        """The value behind the loop, of what is carried in the end; `shared` arrays may have several names."""
        outs = iter(self.outs)
        return tree.unflatten(
            self.structure,
            [leaf.before if leaf.node is None else _behind(next(final), next(outs)[0], shared) for leaf in self.leaves],
        )

    def _widened(self, leaf: Leaf, out: Node, after: Held) -> Leaf:
        assert leaf.aval is not None
        if not same_shape(leaf.aval.shape, out.aval.shape):
            raise Unstable(self.name, shown(self.before), shown(after))
        return leaf._replace(aval=common(leaf.aval, out.aval))

    @property
    def was_written(self) -> bool:
        """Whether a turn writes into an array that it began with: into one that others may see."""
        return any(x.was_written for x in self.arrays)


def _behind(final: Variable, out: Any, shared: Collection[int]) -> Variable:
    final.as_array(is_traced(out) and out.writes_in_place)
    if is_traced(out) and id(out.owner) in shared:
        for x in (final, out.owner):
            if not x.locked:
                x.lock("a loop may have made it another name of an array: which one is written into is not known")
    return final


def shown(x: Held) -> str:
    """A value in a message."""
    return "not bound" if not x.bound else tree.written(x.structure, [described(y) for y in x.leaves])


class Turns:
    """The turns of a loop.

    Attributes
    ----------
    stable : bool
        Whether what a turn begins with is what it ends with, in structure, shapes and dtypes.
    test : bool or Variable
        Whether there is another turn, of a `while`.
    """

    def __init__(self, graph: Graph, entry: dict[str, Any], flags: Sequence[str], items: Items | None) -> None:
        self.graph, self._flags, self._items = graph, flags, items
        self._names = {name: Slot(graph, name, held(x)) for name, x in entry.items()}
        self._places: dict[tuple[int, Any], tuple[Place, Slot]] = {}
        self._memory: dict[int, tuple[Any, Slot]] = {}
        self._lists: dict[int, tuple[Appended, Slot | None]] = {}  # and what stands for the last item
        # names that hold what is written into: arrays, lists and dicts themselves, not stand-ins
        self._own: dict[str, Any] = {name: x for name, x in entry.items() if isinstance(x, (list, dict))}
        self._passes = 0
        self._at = TurnPlace(graph, UNBOUNDED if items is None else items.length)
        self.stable = False
        self.test: Any = True
        self._slices_of = (
            [x if is_traced(x) else Variable(graph, lift(graph, x)) for x in items.arrays] if items is not None else []
        )

    # ---- a turn

    def begin(self, local: dict[str, Any]) -> dict[str, Any]:
        """Stand-ins for the names that are carried; those in memory and in containers are put there."""
        self._passes += 1
        if self._passes > MOST:
            raise Unstable(next(iter(self._names), "the state"), "of one type", "of another one")
        self._run = Run(self.graph, local)
        graph = self.graph
        values = {name: slot.stand_ins() for name, slot in self._names.items() if name not in self._own}
        values |= {flag: False for flag in self._flags}
        for root, slot in self._memory.values():
            graph.journal.setdefault(id(root), (root, root.content))  # type: ignore[union-attr]
            slot.stand_ins()
            root.set_content(slot.seeds[0])
        for place, slot in self._places.values():
            place.put(slot.stand_ins())
        for appended, last in self._lists.values():
            appended.begin([last.stand_ins()] if last is not None else [])
        self.place = self._at.begin(PLACE)
        self.slices = [graph.seed(Aval(x.shape[1:], x.dtype)) for x in self._slices_of]
        return self._own | values

    def item(self, targets: Sequence[str]) -> Any:
        """The item of the turn."""
        assert self._items is not None
        graph = self.graph
        lock = "it is a slice of an array that the loop runs over"
        slices = [Variable(graph, x, lock) for x in self.slices]
        item = self._items.item(Variable(graph, self.place), slices)
        leaves, _ = tree.flatten(item)
        for x, name in zip(leaves, targets, strict=False) if len(leaves) == len(targets) else ():
            if is_traced(x) and name.strip("_"):
                graph.label(x.node, name)
        return item

    def abandon(self, local: dict[str, Any]) -> None:
        self._at.end()
        self._run.abandon(local)

    def end(self, local: dict[str, Any]) -> None:
        """Look at what the turn has done, and take it back."""
        self._at.end()
        lists = [(appended, last, appended.end()) for appended, last in self._lists.values()]
        after = self._run.undo(local, [*self._names])
        for x in self._slices_of:
            if id(x.owner) in after.memory:
                raise Unstable(self._name_of(x.owner, local), "what the loop runs over", "written into")
        kept = [*self._own]
        stable = all([_settle_list(*found) for found in lists]) & self._arrays()
        for name in kept:
            stable &= self._keeps(name, after.names[name].value)
        for name, slot in self._names.items():
            if name not in self._own and name not in kept:
                stable &= slot.settle(after.names[name])
        stable &= self._settle_places(after) & self._settle_memory(after, local)
        self.stable = stable

    def _keeps(self, name: str, now: Any) -> bool:
        """Whether a name has what it had; a list or a dict that is made anew is carried as its items are."""
        kept = self._own[name]
        if now is kept:
            return True
        if is_traced(kept):
            raise Unstable(name, "an array that is written into", "another array")
        del self._own[name]
        return False

    def _arrays(self) -> bool:
        """Whether no turn writes into an array that it begins with; names that hold such ones keep them."""
        written = [name for name, slot in self._names.items() if name not in self._own and slot.was_written]
        for name in written:
            before = self._names[name].before.value
            if not is_traced(before):
                raise Unstable(name, "of several arrays", "of arrays that are written into")
            self._own[name] = before
            root = before.owner
            self._memory.setdefault(id(root), (root, Slot(self.graph, name, held(Variable(self.graph, root.node)))))
        for _, slot in self._places.values():
            if slot.was_written:
                raise Unstable(slot.name, "an array", "an array that is written into")
        return not written

    def _settle_memory(self, after: Snapshot, local: Mapping[str, Any]) -> bool:
        stable = True
        for key, (root, before, now) in after.memory.items():
            if key not in self._memory:
                stable = False
                slot = Slot(self.graph, self._name_of(root, local), held(Variable(self.graph, before)))
                self._memory[key] = root, slot
            else:
                stable &= self._memory[key][1].settle(held(Variable(self.graph, now)))
        return stable

    def _settle_places(self, after: Snapshot) -> bool:
        stable = True
        for key, (place, before, now) in after.places.items():
            if id(place.holder) in self._lists:
                continue
            if not before.bound and self._is_list(place):
                self._append_to(place)
                stable = False
                continue
            if not (before.bound and now.bound):
                raise Unstable(place.name, shown(before), shown(now))
            if key not in self._places:
                stable = False
                self._places[key] = place, Slot(self.graph, place.name, before)
            else:
                stable &= self._places[key][1].settle(now)
        return stable

    def _is_list(self, place: Place) -> bool:
        """Whether it is an item of a list that has a name, which behind the loop is that of another object."""
        return isinstance(place.holder, list) and any(s.before.value is place.holder for s in self._names.values())

    def _append_to(self, place: Place) -> None:
        name = next(name for name, slot in self._names.items() if slot.before.value is place.holder)
        appended = Appended(self.graph, name, place.holder)
        first = appended.first
        last = Slot(self.graph, f".last of {name}", first) if first is not None else None
        self._lists[id(place.holder)] = appended, last

    def _name_of(self, root: Any, local: Mapping[str, Any]) -> str:
        found = [name for name, slot in self._names.items() for x in slot.before.leaves if x is root]
        found += [name for name, x in local.items() if is_traced(x) and x.owner is root]
        return found[0] if found else ".memory"

    # ---- all turns

    def finish(self, given: Sequence[str]) -> dict[str, Any]:
        """Record the loop: the values of names behind it; containers and memory are set."""
        graph = self.graph
        lists = [appended for appended, _ in self._lists.values()]
        other = {*self._own, *(appended.name for appended in lists)}
        names = [name for name in self._names if name not in other]
        slots = [self._names[name] for name in names]
        slots += [slot for _, slot in (*self._places.values(), *self._memory.values())]
        slots += [last for _, last in self._lists.values() if last is not None]
        leaves = [leaf for slot in slots for leaf in slot.carried]
        seeds = [seed for slot in slots for seed in slot.seeds]
        avals = [leaf.aval for leaf in leaves]
        pairs = zip((y for slot in slots for y in slot.results), avals, strict=True)
        results = [promoted(graph, y, aval) for y, aval in pairs if aval is not None]
        init = [promoted(graph, leaf.node, leaf.aval) for leaf in leaves if leaf.node and leaf.aval]
        length = UNBOUNDED if self._items is None else self._items.length
        rows = [appended.rows() for appended in lists]
        results += [y for ys in rows for y in ys]
        turn = Turn(seeds, self.place, self.slices, results, self._test())
        final, stacks, _ = recorded(graph, turn, init, length, self._cut(length), {"place": self._at.name})
        rest, shared = iter(final), self._shared(slots)
        values = {name: self._names[name].result(rest, shared) for name in names}
        for place, slot in self._places.values():
            place.put(slot.result(rest, shared))
        for root, slot in self._memory.values():
            root.rebind(slot.result(rest, ()).node)
        for appended, ys in zip(lists, rows, strict=True):
            values[appended.name] = appended.behind(stacks[: len(ys)])
            stacks = stacks[len(ys) :]
        return self._own | values

    def _shared(self, slots: Sequence[Slot]) -> set[int]:
        """The arrays that are the value of more than one name behind a turn, or that were there before."""
        arrays = [x for slot in slots for x, _, _ in slot.outs if is_traced(x) and x.writes_in_place]
        count = Counter(id(x.owner) for x in arrays)
        return {id(x.owner) for x in arrays if count[id(x.owner)] > 1 or x.is_older(self._run.since)}

    def _cut(self, length: Any) -> list[Any]:
        """The arrays that are sliced, of the length of the loop."""
        same = [same_shape(x.shape[:1], (length,)) if not is_traced(length) else True for x in self._slices_of]
        return [x if s else x[:length] for x, s in zip(self._slices_of, same, strict=True)]

    def _test(self) -> Node | None:
        """Whether there is another turn, by the test and by the flags."""
        up = None
        for flag in self._flags:
            (seed,) = self._names[flag].seeds
            x = Variable(self.graph, seed)
            up = x if up is None else np.logical_or(up, x)
        goes_on = None if up is None else np.logical_not(up)
        if is_traced(self.test):
            goes_on = self.test if goes_on is None else np.logical_and(goes_on, self.test)
        return None if goes_on is None else goes_on.node


def _settle_list(appended: Appended, last: Slot | None, appends: bool) -> bool:
    if not appends:
        raise Unstable(appended.name, "a list to which a turn appends", "changed in another way")
    return last is None or last.settle(appended.last)
