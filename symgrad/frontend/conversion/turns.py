"""One iteration of a loop on stand-ins for its carry, repeated until the types of the carry are stable."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from types import CellType
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Aval, Chain, Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.core.text import with_article
from symgrad.frontend.bodies import Iteration, promoted, recorded
from symgrad.frontend.conversion.branches import going_on
from symgrad.frontend.conversion.containers import Holders, changed, held_twice, may_be_others, watch
from symgrad.frontend.conversion.contents import Entry
from symgrad.frontend.conversion.defaults import Defaults
from symgrad.frontend.conversion.inherited import note_own
from symgrad.frontend.conversion.items import Items
from symgrad.frontend.conversion.lists import Appended, in_front
from symgrad.frontend.conversion.merging import shown
from symgrad.frontend.conversion.mutable import UNDEFINED, Place
from symgrad.frontend.conversion.resized import is_of_turn
from symgrad.frontend.conversion.sharing import CarriedArray, Sharing, share_memory
from symgrad.frontend.conversion.slots import Slot, Unstable
from symgrad.frontend.conversion.state import Held, Run, Snapshot, held
from symgrad.frontend.conversion.twice import Alike, differing, is_traced_twice
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.control import INDEX, UNBOUNDED
from symgrad.ops.operands import is_traced
from symgrad.ops.places import LoopIndex

MOST = 9  # iterations that are traced until what is carried keeps its type


class Iterations:
    """The traced iterations of a loop."""

    def __init__(
        self,
        graph: Graph,
        entry: dict[str, Any],
        read: Sequence[str] | None,
        flags: Sequence[str],
        items: Items | None,
        exact: bool = True,
    ) -> None:
        self.graph, self._read, self._flags, self._items = graph, read, flags, items
        self._exact = exact  # whether another overflow or rounding counts as another number: see `Slot`
        self._since = len(graph.nodes)
        self._length = UNBOUNDED if items is None else items.length  # flags may end it before
        self._at = LoopIndex(graph, self._length, exact=not flags)
        self._names = {name: self._slot(name, held(x)) for name, x in entry.items()}
        self._places: dict[tuple[int, Any], tuple[Place, Slot]] = {}
        self._cells: dict[tuple[int, Any], tuple[Place, str]] = {}  # that hold what a name holds
        self._memory: dict[int, tuple[Any, Slot]] = {}
        self._lists: dict[int, tuple[Appended, Slot]] = {}  # and what stands for the last items
        # names that hold what is written into: arrays, lists and dicts themselves, not stand-ins
        self._own: dict[str, Any] = {name: x for name, x in entry.items() if isinstance(x, (list, dict))}
        self._sharing = Sharing()
        self._doubts: dict[int, tuple[Any, str]] = {}  # memory that iterations do not leave as it was, and why
        self._passes, self._watched = 0, len(graph.watched)
        self._has_tried = False  # the first iteration by itself
        self._traced: tuple[list[Node], list[Node]] | None = None  # the stand-ins and results of a stable iteration
        self._shared: list[tuple[Place, Slot]] = []  # those whose lists or dicts something else may hold as well
        self.stable = False  # whether an iteration keeps the structure, shapes and dtypes of its carry
        self._chain = Chain()  # the checks of the iteration that was traced last
        self.test: Any = True  # whether there is another iteration, of a `while`
        self._xs = (
            [x if is_traced(x) else Variable(graph, lift(graph, x)) for x in items.arrays] if items is not None else []
        )

    def _slot(self, name: str, before: Held) -> Slot:
        return Slot(self.graph, name, before, self._at, self._exact)

    # ---- an iteration

    def begin(self, local: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
        """Return stand-ins for the carried names; those in memory and containers are put in place."""
        self._passes += 1
        if self._passes > MOST:
            raise Unstable(next(iter(self._names), "the state"), "of one type", "of another one")
        self._left = {name: local.get(name) for name in entry}
        self.graph.forget(self._since)  # what a trace makes may depend on what it finds
        del self.graph.watched[self._watched :]
        self._run = Run(self.graph, {**local, **entry}, self._read, chain=Chain(in_body=True))
        self._run.journal.repeated, self._run.journal.round = True, self._passes
        graph, self.index = self.graph, self._at.begin(INDEX)
        values = {name: slot.stand_ins() for name, slot in self._names.items() if name not in self._own}
        values |= {flag: False for flag in self._flags}
        for root, slot in self._memory.values():
            graph.journal.setdefault(id(root), (root, root.content))
            slot.stand_ins()
            root.set_content(slot.seeds[0])
        note_own(graph, [place for place, _ in self._places.values()])
        for place, slot in self._places.values():
            place.put(slot.stand_ins())
        given = self._own | values
        for place, name in self._cells.values():
            place.put(given[name])
        for appended, last in self._lists.values():
            appended.begin(last.stand_ins(), self._run.journal.rounds)
        self.slices = [graph.seed(Aval(x.shape[1:], x.dtype)) for x in self._xs]
        self._sharing.begin(self._shares())
        for x, reason in self._doubts.values():
            x.doubt(reason)
        self._begun = {**entry, **given}, self._state()
        return given

    def has_changed(self, local: dict[str, Any]) -> bool:
        """Whether the iteration has changed anything yet."""
        names, state = self._begun
        return any(local.get(name, UNDEFINED) is not x for name, x in names.items()) or self._state() != state

    def _state(self) -> tuple[Any, ...]:
        """Return the identities of all contents that the iteration has changed."""
        places = {place.id: id(now) for place, _, now in self._run.contents.changes()}
        return (
            places,
            {key: id(root.content) for key, (root, _) in self._run.journal.items()},
            self._run.contents.forms(),
        )

    def _slots(self) -> list[Slot]:
        """Return the slots that are carried as values: names and places that change."""
        names = [slot for name, slot in self._names.items() if name not in self._own]
        return [*names, *(slot for _, slot in self._places.values())]

    def _shares(self) -> list[CarriedArray]:
        return [x for slot in self._slots() for x in slot.shares]

    def item(self) -> Any:
        """Return the item of the iteration."""
        assert self._items is not None
        graph = self.graph
        lock = "it is a slice of an array that the loop runs over"
        slices = [Variable(graph, x, lock) for x in self.slices]
        for x, array in zip(slices, self._xs, strict=True):
            x.link(array)
        return self._items.item(Variable(graph, self.index), slices)

    def abandon(self, error: BaseException) -> BaseException:
        """Take back an iteration that has raised; the error to report."""
        self._at.end()
        self._at.is_first = False
        found = self._run.explained(error)
        self._run.abandon()
        return found

    def try_first(self) -> bool:
        """Whether to trace the first iteration alone, to see how it changes shapes, or that it appends to a list: where
        arrays are bounded by the index, or it is one of a list's items.
        """
        tries = (self._at.name is not None or self._at.asks_first) and not self._has_tried
        self._at.is_first, self._has_tried = tries, self._has_tried or tries
        return tries

    def end(self, local: dict[str, Any]) -> None:
        """Undo the effects of the iteration and record them."""
        self._at.end()
        lists = [(appended, last, appended.end()) for appended, last in self._lists.values()]
        after = self._run.undo(local, [*self._names])
        self._chain = after.chain
        for x in self._xs:
            if id(x.owner) in after.memory or id(x.owner) in after.doubts:
                raise Unstable(self._name_of(x.owner, local), "what the loop runs over", "written into")
        kept, carried = [*self._own], [*self._memory]
        stable = all([_settle_list(*found) for found in lists]) & self._arrays(after)
        for key, (appended, last) in self._lists.items():
            if appended.is_turned:
                self._lists[key] = appended, self._slot(last.name, appended.first)
        for name in kept:
            stable &= self._keeps(name, after.names[name].value)
        for name, slot in self._names.items():
            if name not in self._own and name not in kept:
                stable &= slot.settle(after.names[name])
        for entry, form in after.forms.values():
            if not _begins_with_defaults(entry, form):
                kind = with_article(type(entry.holder).__name__)
                raise Unstable(entry.name, kind, "one with other items or in another order")
        if after.forms:  # what is to be carried is known once the next iteration has begun with it
            self.stable = self._at.is_first = False
            return
        stable &= self._settle_places(after) & self._settle_memory(after, carried, local)
        for appended, _ in self._lists.values():
            if any(is_of_turn(y, self._at.name) for y in appended.rows()):
                raise Unstable(appended.name, "a list of arrays of one shape", "one of arrays of another shape")
            if any(not slot.promoted.isdisjoint(appended.rows()) for slot in self._carried()):
                raise Unstable(appended.name, "a list of arrays of one dtype", "one of arrays of another dtype")
        stable &= self._other_names()
        # where more names keep their values the next iteration differs
        stable = self._own.keys() <= {*kept} and self._settle_sharing(after) and stable
        if stable:
            self._check_containers(after)
        self.stable = stable and not self._at.is_first and self._is_confirmed()
        self._at.is_first = False

    def _is_confirmed(self) -> bool:
        """Whether the iteration has been traced before from the same state, with the same result."""
        if not is_traced_twice(self._run.journal):
            return True
        slots = self._carried()
        rows = [y for appended, _ in self._lists.values() for y in appended.rows()]
        test = [self.test.node] if is_traced(self.test) else []
        first, last = ([x] if x is not None else [] for x in self._chain[:2])
        seeds = [self.index, *self.slices, *(seed for slot in slots for seed in slot.seeds), *first]
        results = [*(y for slot in slots for y in slot.results), *rows, *test, *last]
        before, self._traced = self._traced, (seeds, results)
        if before is None:
            return False
        if list(map(len, before)) != list(map(len, self._traced)) or not Alike(
            [*zip(before[0], seeds, strict=True)]
        ).nodes(before[1], results):
            raise differing("the body of a loop")
        return True

    def _carried(self) -> list[Slot]:
        """The slots of all that the loop carries."""
        names = [slot for name, slot in self._names.items() if name not in self._own]
        places, memory, lists = self._places.values(), self._memory.values(), self._lists.values()
        return [*names, *(slot for found in (places, memory, lists) for _, slot in found)]

    def _settle_sharing(self, after: Snapshot) -> bool:
        """Whether it is known which arrays may be other names of each other, where iterations write into some."""
        shares = self._shares()
        known = self._sharing.end(shares, self._run.since)
        writes = after.memory or after.doubts or any(x.stand_in.was_written for x in shares)
        spoilt = {*after.memory, *after.doubts}
        for appended, last in self._lists.values():
            appended.check(shares, spoilt)
            if last.was_written:
                raise Unstable(appended.name, "a list to which an iteration appends", "written into")
        same = after.doubts.keys() <= self._doubts.keys()
        self._doubts |= after.doubts
        return (known or not writes) and same

    def _bound(self) -> list[tuple[Place, Slot]]:
        """The slots of names and places, each with where its value is held."""
        names = [(Place(None, name, name), slot) for name, slot in self._names.items() if name not in self._own]
        return [*names, *self._places.values()]

    def _shared_containers(self) -> list[tuple[Place, Slot]]:
        """Return the slots whose lists or dicts another object may hold, in an iteration or after the loop."""
        found = [(place, slot) for place, slot in self._bound() if slot.holds_containers]
        if not found:
            return []
        holders = Holders(self._run)
        stand_ins = {key: slot for _, slot in found for key in tree.containers(slot.stand_in)}
        befores = [tree.containers(slot.before.value) for _, slot in found]
        afters = [tree.containers(slot.after.value) for _, slot in found]
        appended = [x.containers for x, _ in self._lists.values()]
        twice = held_twice(befores) | held_twice([*afters, *appended])
        twice |= may_be_others(self.graph)
        shared, moved = [], []
        for (place, slot), before, after in zip(found, befores, afters, strict=True):
            outside = any(key in holders for key in after)
            if outside or holders.are_shared(before, place) or not twice.isdisjoint({*before, *after}):
                shared.append((place, slot))
            elif any(stand_ins.get(key, slot) is not slot for key in after):
                moved.append((place, slot))
        return shared and [*shared, *moved]

    def _check_containers(self, after: Snapshot) -> None:
        """Raise if an iteration changes a list or a dict that is carried as a value and may be held elsewhere."""
        touched = {id(place.holder) for place, _, _ in after.places.values()} | after.forms.keys()
        self._shared = self._shared_containers()
        for place, slot in self._shared:
            inside = tree.containers(slot.before.value) | tree.containers(slot.after.value)
            if slot.stand_in_has_changed or not touched.isdisjoint(inside):
                raise changed(place)
        for appended, _ in self._lists.values():
            if not touched.isdisjoint(appended.containers):  # it is the same object in all iterations
                raise changed(Place(None, appended.name, appended.name))

    def _keeps(self, name: str, now: Any) -> bool:
        """Whether a name keeps its value; a list or a dict that is made anew is carried by its items."""
        kept = self._own[name]
        if now is kept:
            return True
        if is_traced(kept):
            raise Unstable(name, "an array that is written into", "another array")
        del self._own[name]
        return False

    def _arrays(self, after: Snapshot) -> bool:
        """Whether no name keeps an array that iterations write into, apart from known ones."""
        found = [name for name, slot in self._names.items() if name not in self._own and slot.was_written]
        written = [name for name in found if self._names[name].keeps(after.names[name].value)]
        written = [name for name in written if is_traced(self._names[name].before.value)]
        for name in written:
            before = self._own[name] = self._names[name].before.value
            root = before.owner
            self._memory.setdefault(id(root), (root, self._slot(name, held(Variable(self.graph, root.node)))))
        return not written

    def _other_names(self) -> bool:
        """Whether no name that iterations leave unchanged aliases an array that is written into; note those that do."""
        stable = True
        for slot in self._slots():
            for x in slot.shares:
                if not is_traced(x.before) or id(x.before.owner) not in self._memory or x.after is not x.stand_in:
                    continue
                if self._names.get(slot.name) is not slot or x.before is not slot.before.value:
                    raise Unstable(slot.name, "an array", "an array that is written into")
                self._own[slot.name], stable = x.before, False
        return stable

    def _settle_memory(self, after: Snapshot, carried: Collection[int], local: Mapping[str, Any]) -> bool:
        """Whether this iteration started with stand-ins for all memory that it changes, and keeps their types."""
        stable = True
        for key, (root, before, now) in after.memory.items():
            if key not in self._memory:
                self._memory[key] = root, self._slot(self._name_of(root, local), held(Variable(self.graph, before)))
            stable &= key in carried and self._memory[key][1].settle(held(Variable(self.graph, now)))
        return stable

    def _settle_places(self, after: Snapshot) -> bool:
        stable = True
        # new items first: inserted in front of others, they move these
        for key, (place, before, now) in sorted(after.places.items(), key=lambda entry: entry[1][1].bound):
            if id(place.holder) in self._lists:
                continue
            if not before.bound and self._append_to(place, after):
                stable = False
                continue
            if not (before.bound and now.bound):
                raise Unstable(place.name, shown(before), shown(now))
            if (name := self._name_in(place, before, now, after)) is not None:
                stable &= key in self._cells
                self._cells[key] = place, name
            elif key not in self._places:
                stable = False
                self._places[key] = place, self._slot(place.name, before)
            else:
                stable &= self._places[key][1].settle(now)
        return stable

    def _name_in(self, place: Place, before: Held, now: Held, after: Snapshot) -> str | None:
        """Return the name of a cell's value: a function defined here reads it."""
        if not isinstance(place.holder, CellType):
            return None
        alike = [name for name, x in after.names.items() if x.value is now.value]
        held_before = ((name, x) for name in alike for x in (self._names[name].before.value, self._left[name]))
        return next((name for name, x in held_before if x is before.value), None)

    def _append_to(self, place: Place, after: Snapshot) -> bool:
        """Whether it is an item of a list with a name or a place, which is another object after the loop."""
        items = place.holder
        if not isinstance(items, list):
            return False
        names = [name for name, slot in self._names.items() if slot.before.value is items]
        homes = self._run.homes(items)
        if not names and not homes:
            return False
        name = names[0] if names else homes[0].name
        changed = {place.key: x.value for place, _, x in after.places.values() if place.holder is items}
        appended = Appended(self.graph, name, items, homes, self._at, in_front(items, changed))
        self._lists[id(items)] = appended, self._slot(f".last of {name}", appended.first)
        return True

    def _name_of(self, root: Any, local: Mapping[str, Any]) -> str:
        found = [name for name, slot in self._names.items() for x in slot.before.leaves if x is root]
        found += [name for name, x in local.items() if is_traced(x) and x.owner is root]
        return found[0] if found else ".memory"

    # ---- all iterations

    def finish(self) -> dict[str, Any]:
        """Record the loop: return the values of names after it, and set containers and memory."""
        lists = [appended for appended, _ in self._lists.values()]
        filled = [appended.items for appended in lists]
        names = [name for name, slot in self._names.items() if not any(slot.before.value is x for x in filled)]
        names = [name for name in names if name not in self._own]
        named = [*(self._names[name] for name in names), *(slot for _, slot in self._places.values())]
        slots = [*named, *(slot for _, slot in self._memory.values()), *(last for _, last in self._lists.values())]
        rows = [appended.rows() for appended in lists]
        final, stacks = self._recorded(slots, [*dict.fromkeys(y for ys in rows for y in ys)])
        rest, finals = iter(final), list[Any]()
        shares = [x for slot in named for x in slot.shares]
        sure = self._has_iterations
        values = {name: self._names[name].result(rest, finals, sure) for name in names}
        bound = [(Place(None, name, name), self._names[name], x) for name, x in values.items()]
        bound += [(place, slot, slot.result(rest, finals, sure)) for place, slot in self._places.values()]
        for place, _, x in bound[len(values) :]:
            place.put(x)
        for place, name in self._cells.values():
            place.put((self._own | values)[name])
        for root, slot in self._memory.values():
            root.rebind(slot.result(rest, []).node, alone=True)
        for appended, ys in zip(lists, rows, strict=True):
            made = appended.behind([stacks[y] for y in ys])
            values |= {name: made for name, slot in self._names.items() if slot.before.value is appended.items}
            for home in appended.homes:
                home.put(made)
        self._note_sharing(bound, shares, finals)
        return self._own | values

    def _recorded(self, slots: Sequence[Slot], stacked: Sequence[Node]) -> tuple[Sequence[Variable], dict[Node, Any]]:
        """Return the node of the loop: its final carry and its ys."""
        leaves = [leaf for slot in slots for leaf in slot.carried]
        seeds = [seed for slot in slots for seed in slot.seeds]
        pairs = zip((y for slot in slots for y in slot.results), [leaf.aval for leaf in leaves], strict=True)
        results = [promoted(self.graph, y, aval) for y, aval in pairs if aval is not None]
        init = [promoted(self.graph, leaf.node, leaf.aval) for leaf in leaves if leaf.node and leaf.aval]
        each = Iteration(seeds, self.index, self.slices, [*results, *stacked], self._test(), self._chain)
        final, stacks, _ = recorded(
            self.graph, each, init, self._length, self._cut(self._length), {"index_size": self._at.name}
        )
        return final, dict(zip(stacked, stacks, strict=True))

    def _note_sharing(
        self, bound: Sequence[tuple[Place, Slot, Any]], shares: Sequence[CarriedArray], finals: Sequence[Any]
    ) -> None:
        """Note the aliases of arrays and containers after the loop."""
        for x, reason in self._doubts.values():
            x.doubt(reason)
        lists = [appended for appended, _ in self._lists.values()]
        for appended in lists:
            appended.link(shares, finals, self._run.since)
        for one, other in combinations(lists, 2):
            if share_memory([*one.read, *one.arrays, *other.read, *other.arrays]):
                one.made.link(other.made)
        self._sharing.behind(shares, finals, self._has_iterations)
        shared = {id(slot) for _, slot in self._shared}
        for place, slot, x in bound:
            if id(slot) in shared:
                watch(self.graph, place, x, slot.before.value, slot.after.value)
        for appended, _ in self._lists.values():
            watch(self.graph, Place(None, appended.name, appended.name), *appended.containers.values())

    @property
    def _has_iterations(self) -> bool:
        """Whether there is an iteration, whatever the arguments are."""
        may_be_over = any(is_traced(self._names[flag].before.value) for flag in self._flags)  # of iterations before
        return type(self._length) is int and self._length > 0 and not may_be_over

    def _cut(self, length: Any) -> list[Any]:
        """The arrays that are sliced, of the length of the loop."""
        same = [same_shape(x.shape[:1], (length,)) if not is_traced(length) else True for x in self._xs]
        return [x if s else x[:length] for x, s in zip(self._xs, same, strict=True)]

    def _test(self) -> Node | None:
        """Whether there is another iteration, by the condition and by the flags."""
        goes_on = going_on(*(Variable(self.graph, seed) for flag in self._flags for seed in self._names[flag].seeds))
        if is_traced(self.test):
            goes_on = self.test if goes_on is True else np.logical_and(goes_on, self.test)
        return None if goes_on is True else goes_on.node


def _begins_with_defaults(entry: Entry, form: Any) -> bool:
    """Let a default dict hold defaults for what an iteration has put into it: they look as missing ones do."""
    holder, before = entry.holder, entry.form or ()
    if not isinstance(holder, Defaults) or holder.default is None or form[: len(before)] != before:
        return False
    new = form[len(before) :]
    holder.update(dict.fromkeys(new, holder.default))
    holder.doubt(new)
    return True


def _settle_list(appended: Appended, last: Slot, appends: bool) -> bool:
    if not appends:
        raise Unstable(appended.name, appended.kind, "changed in another way")
    return not appended.is_turned and last.settle(appended.last)
