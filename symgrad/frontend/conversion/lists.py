"""Lists that a loop appends to, or inserts in front of: after the loop they are arrays, whose rows are the items."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from operator import is_
from typing import Any, ClassVar

import numpy as np

from symgrad.analysis.affine import line_of
from symgrad.core import tree
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Size, at_most, is_counted
from symgrad.errors import UnsupportedError
from symgrad.frontend.bodies import promoted, repeat
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.classes import Examples, examples_in, of_classes
from symgrad.frontend.conversion.merging import is_numeric
from symgrad.frontend.conversion.mutable import Place
from symgrad.frontend.conversion.promotions import WIDE, may_differ
from symgrad.frontend.conversion.sharing import CarriedArray, is_array, share_memory
from symgrad.frontend.conversion.state import (
    ELSEWHERE,
    Earlier,
    Held,
    Pending,
    Replaced,
    Unread,
    elsewhere,
    held,
    is_elsewhere,
    is_of_a_body,
    is_of_a_loop,
    is_whole,
    replaced,
)
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.operands import is_traced
from symgrad.ops.places import LoopIndex

_INTEGERS, _FLOATS = np.dtype(int), np.dtype(float)

LAST = 3
"""Number of last items that an iteration may read: the order of a recurrence."""


ITEMS = "Keep what is needed of them under a name: total = total + x."
LENGTH = "Count the iterations: n = n + 1."
"""Advice for a loop that appends to a list and asks for its items, or for its length."""


SHARED = "two items of the list may be the same array, or show the same memory"
"""Why the array that stands for a list cannot be written into."""


def whole(x: Any, instead: str = ITEMS) -> Any:
    """Return something that is asked for its items, or how many there are: a list that branches have filled as such.

    It is refused where a loop is about to append to it.
    """
    if is_whole(x):
        return x
    for y in x:
        if isinstance(y, Replaced):
            raise y.error()
    found = None if any(map(is_elsewhere, x)) else filled(x)
    if found is None:
        raise asked_for(instead)
    return found


def asked_for(instead: str = ITEMS) -> UnsupportedError:
    """Return the error for items of a list, or its length, in a loop that appends to it."""
    what = "length of a list" if instead is LENGTH else "items of a list"
    return UnsupportedError(f"a loop that appends to a list reads the {what}", instead)


def written(x: Any) -> Any:
    """Return something that is changed, not only appended to; a list with items that stand for others is refused."""
    if is_whole(x):
        return x
    raise UnsupportedError(
        "a loop or a branch changes a list that a loop or a branch fills; it may only append to it, or, in all "
        "iterations of a loop, insert in front of it: x.insert(0, y)",
        "Change the list after the loop, or keep the item that changes in a variable of its own; under a condition, "
        "append, and take x[::-1] after the loop.",
    )


class Listing(Variable):
    """The list after the loop. It is indexed and iterated over as the array is; ``+`` joins it to lists."""

    __slots__ = ("item_examples",)
    __hash__ = Variable.__hash__
    python_class: ClassVar[type | None] = list

    def __init__(self, graph: Graph, node: Node, examples: Examples | None = None, lock: str = "") -> None:
        super().__init__(graph, node, lock)
        self.item_examples = examples or {}  # of the classes of the numbers in it, which its dtype need not tell

    def __getitem__(self, key: Any) -> Any:
        x = super().__getitem__(key)
        return self._like(x) if type(key) is slice else self.row(x)

    def row(self, x: Variable) -> Any:
        """Return a row of the array as the item that it is."""
        return of_classes(x, self.item_examples)

    def __add__(self, other: Any) -> Any:
        return self._joined([self, *_rows(other)], other)

    def __radd__(self, other: Any) -> Any:
        return self._joined([*_rows(other), self], other)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is slice:  # which may make it shorter or longer
            self._changed()
        self._hold(value)
        super().__setitem__(key, value)

    def _hold(self, value: Any) -> None:
        """Prepare for an item: a list keeps its class, where an array would convert it to its own dtype."""
        dtype = lift(self.graph, value).aval.dtype if is_numeric(value) else self.dtype
        self.item_examples = self.item_examples | examples_in(value)
        if dtype == self.dtype or (dtype, self.dtype) == (_INTEGERS, _FLOATS):
            return
        if self.graph.body or self.ndim != 1 or (self.dtype, dtype) != (_INTEGERS, _FLOATS):
            raise UnsupportedError(
                f"an item of a list of {self.dtype} that a loop has filled is changed into {dtype}",
                f"Fill it with numbers of that kind: x.append(np.{dtype}(y)).",
            )
        self.restate(self.astype(dtype).node)

    def _joined(self, parts: Sequence[Any], other: Any) -> Listing:
        found = self._like(np.concatenate(parts))
        others = other.item_examples if isinstance(other, Listing) else examples_in(other)
        found.item_examples = self.item_examples | others
        return found

    def _like(self, x: Variable) -> Listing:
        return type(self)(x.graph, x.node, self.item_examples)

    def _refused(self, other: Any) -> Any:
        raise UnsupportedError(
            "a list that a loop has appended to is multiplied or compared", "Make it an array: np.array(x)."
        )

    def copy(self, *_: Any) -> Listing:
        return self._like(self)

    def copied(self, order: str = "C", array: bool | None = False) -> Any:
        """The array of it."""
        return Variable(self.graph, self.node).copied(order, array)

    def append(self, item: Any) -> None:
        """``x.append(item)``, of numbers where no loop or branch is being traced."""
        self._grow([item])

    def extend(self, items: Any) -> None:
        """``x.extend(items)``"""
        self._grow([*items])

    def insert(self, index: Any, item: Any) -> None:
        """``x.insert(0, item)``, as `append`."""
        if type(index) is not int or index != 0:
            self._changed()
        self._grow([item], front=True)

    def _grow(self, items: list[Any], front: bool = False) -> None:
        if (
            self.graph.body
            or type(self) is not Listing
            or self.ndim != 1
            or not all(is_numeric(x) and not np.ndim(x) for x in items)
        ):
            self._changed()
        self.item_examples = self.item_examples | examples_in(items)
        if items:  # an item is a number, of which there are no views
            parts = [self._like(self), np.array(items, like=self)]
            self.restate(np.concatenate(parts[::-1] if front else parts).node)

    def _changed(self, *_: Any) -> Any:
        raise UnsupportedError(
            "a list that a loop has filled is changed after the loop",
            "Make another one: x = x + [y], x = x[::-1], x = sorted(x), and x = x[:-1] for x.pop(); append equally "
            "often in all iterations.",
        )

    remove = pop = clear = reverse = __delitem__ = __iadd__ = _changed
    __mul__ = __rmul__ = __imul__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refused


class Tuple(Listing):
    """A tuple of the items of such a list, or an item of one."""

    __slots__ = ()
    __hash__ = Variable.__hash__
    python_class = tuple


class Table(Listing):
    """A list of lists that all have as many numbers, or arrays of one kind."""

    __slots__ = ()
    __hash__ = Variable.__hash__

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.shape[0]))

    row_class: ClassVar[type[Listing]] = Listing

    def row(self, x: Variable) -> Listing:
        """An item, of the row that it is."""
        lock = "it is an item of a list of lists that a loop has filled"
        return self.row_class(x.graph, x.node, self.item_examples, lock)


class TableOfTuples(Table):
    """A list of tuples that all have as many numbers, or arrays of one kind."""

    __slots__ = ()
    __hash__ = Variable.__hash__
    row_class = Tuple


def _rows(other: Any) -> list[Any]:
    if isinstance(other, Listing):
        return [other]
    if type(other) is not list:
        raise UnsupportedError("a value that is not a list is added to a list", "Make it an array: np.array(x).")
    return [np.stack(other)] if other else []


class Appended:
    """A list and the items that an iteration appends to it, or inserts in `front`; its `homes` hold it, apart from a
    name.

    Where items come in front, `before`, `new` and the "last" items are those of the reversed list.
    """

    def __init__(
        self, graph: Graph, name: str, items: list[Any], homes: Sequence[Place], at: LoopIndex, front: bool = False
    ) -> None:
        self.graph, self.name, self.items, self.homes, self._at, self.front = graph, name, items, homes, at, front
        self.before = self._in_order(items)
        self.new: list[Held] = []  # what the iteration has appended: an item, or rows of several
        self.arrays: list[Any] = []  # those that items are, or hold
        self.read: list[Any] = []  # and the last ones of iterations before
        self.containers: dict[int, Any] = {}  # the lists that items are
        self.last = held(())  # the last items behind the iteration, as many as `first` has
        self._there: list[Any] = []
        self._kinds: list[tuple[bool, bool, str]] = []
        self._examples: Examples = {}
        self._begun: list[Any] = []
        self._one_each = False  # whether something rests on each iteration appending one item
        self.is_turned = False  # whether this iteration was the first to show that items come in front

    def _in_order(self, items: Sequence[Any]) -> list[Any]:
        """Return items in the order in which they came."""
        return [*reversed(items)] if self.front else [*items]

    def _as_pending(self, x: Any) -> Pending:
        """Return an item that has come, or several in the order in which they came."""
        if not isinstance(x, Pending):
            return Pending(x, None, False)
        if not (self.front and x.many):
            return x
        there = None if x.there is None else x.there[::-1]
        return Pending(x.value[::-1], there, True, x.form, x.examples)

    @property
    def first(self) -> Held:
        """The last items before the loop, as far as they are known and alike."""
        found = list[Any]()
        for x in reversed(_last(self.before, self.front)):
            if isinstance(x, Unread) or (found and _kind(x) != _kind(found[0])):
                break
            found.insert(0, x)
        return held(tuple(found))

    def begin(self, last: Sequence[Any], rounds: int) -> None:
        """Let the list be as in the middle of the loop: `last` are what stands for its last items, if there are any.

        It is not as long as in the round before: what depends on its length differs between two rounds.
        """
        self._begun = [Earlier(self), *elsewhere(1 + rounds % 2), *last]
        self.items[:], self._one_each = self._in_order(self._begun), False

    def from_end(self, index: Variable) -> int | None:
        """Return the index of an item less the length of the list, if that is one number in all iterations."""
        line, new = line_of(index.node, self._at.seed), self.items[len(self._begun) :]
        unsure = any(isinstance(x, Unread) for x in (*self.before, *new))
        if self.front or unsure or line is None or line.step != 1 or not at_most(0, line.first):
            return None
        place = line.first - len(self.before) - len(new)
        self._one_each = True
        return place if type(place) is int and place < 0 else None

    def end(self) -> bool:
        """End an iteration; whether it only appended, and as many items as the iteration before."""
        marks = len(self._begun)
        grown_in_front = len(self.items) > marks and all(map(is_, self.items[-marks:], self._begun))
        self.is_turned = grown_in_front and not self.front
        if self.is_turned:
            self.front, self.before = True, self.before[::-1]
            return True
        now = self._in_order(self.items)
        kept = len(now) >= marks and all(map(is_, now, self._begun))
        items = [self._as_pending(x) for x in now[marks:]]
        values = [_as_row(x.value) for x in items]
        if not kept or not items or any(x is None for x in values) or not self._has_dtypes(values):
            return False
        kinds = [(x.there is not None, x.many, x.form or _form(x.value)) for x in items]
        self.arrays = [y for x in items for y in tree.flatten(x.value)[0] if is_array(y)]
        self.read = [y for x in self._begun if not is_elsewhere(x) for y in tree.flatten(x)[0] if is_array(y)]
        self.containers = {key: y for x in items for key, y in tree.containers(x.value).items()}
        if self._one_each and (len(items) > 1 or kinds[0] != (False, False, "") or not self._begins_alike(values[0])):
            return False
        same = not self._kinds or self._kinds == kinds
        self.new, self._there, self._kinds = [held(x) for x in values], [x.there for x in items], kinds
        self._examples = {kind: like for x in items for kind, like in x.examples.items()}
        window = [x for x in self._begun if not is_elsewhere(x)]
        for item in items:
            window = _shifted(window, item)
        self.last = held(tuple(window))
        known = {x.form if isinstance(x, Pending) else _form(x) for x in self.before if not is_elsewhere(x)}
        return same and {form for _, _, form in kinds} | known == {kinds[0][2]}

    def _has_dtypes(self, rows: Sequence[Any]) -> bool:
        """Whether the items before the loop are the same in the dtype that appended ones give to all."""
        avals = [[lift(self.graph, x).aval for x in values if is_numeric(x)] for values in (self.before, rows)]
        return not any(may_differ(a, b) and not WIDE.issuperset((a.dtype, b.dtype)) for a, b in product(*avals))

    def _begins_alike(self, row: Any) -> bool:
        """Whether the items before the loop are numbers, or arrays, as the one that an iteration appends."""
        return all(is_numeric(x) and np.shape(x) == np.shape(row) for x in self.before)

    @property
    def kind(self) -> str:
        """The list in words, as an iteration takes it."""
        if self.front:
            return "a list in front of which an iteration inserts"
        return f"a list to which {'each iteration appends one item' if self._one_each else 'an iteration appends'}"

    def rows(self) -> list[Node]:
        """Return the nodes of the appended items, and the booleans of those that may be missing."""
        nodes = [x.nodes[0] or lift(self.graph, x.leaves[0]) for x in self.new]
        values = [promoted(self.graph, x, x.aval._replace(weak=False)) for x in nodes]
        return [*values, *(lift(self.graph, x) for x in self._there if x is not None)]

    def check(self, carried: Sequence[CarriedArray], spoilt: Collection[int]) -> None:
        """Raise if iterations write into appended items; `spoilt` is older memory that they change."""
        for x in self.arrays:
            written = any(id(y) in spoilt for y in x.kin)
            if written or any(is_array(y.after) and x.is_kin(y.after) and y.is_spoilt for y in carried):
                raise UnsupportedError(
                    f"a loop writes into an array that it has appended to {self.name}",
                    "Append a copy: x.append(y.copy()).",
                )

    def link(self, carried: Sequence[CarriedArray], finals: Sequence[Any], since: int) -> None:
        """Note the arrays that the rows may alias: carried arrays, which have become `finals`, and older ones."""
        for x in self.arrays:
            others = [z for y, z in zip(carried, finals, strict=True) if is_array(y.after) and x.is_kin(y.after)]
            for y in (*others, *(y for y in x.kin if y.is_older(since))):
                if is_array(y):
                    self.made.link(y)

    def behind(self, stacks: Sequence[Variable]) -> Any:
        """Return the list after the loop, with the items of all iterations; the old list is given up.

        In another loop, or a branch, it is kept, with the rows as what that appends.
        """
        values, there = stacks[: len(self.new)], iter(stacks[len(self.new) :])
        rows, found = self._joined(values), None
        if any(x is not None for x in self._there):
            truths = [
                next(there) if x is not None else np.full(y.shape[: 1 + many], True, like=y)
                for x, y, (_, many, _) in zip(self._there, values, self._kinds, strict=True)
            ]
            found = self._joined(truths)
        if self.front:
            rows, found = rows[::-1], None if found is None else found[::-1]
        appended = Pending(rows, found, True, self._kinds[0][2], self._examples)
        items = self._in_order([*self.before, appended])
        self.made = rows
        if share_memory([*self.read, *self.arrays]) or any(x.locked == SHARED for x in self.arrays):
            rows.locked = SHARED
        if is_of_a_loop(self.graph, self.items) or is_of_a_body(self.graph, self.items):
            if is_counted(rows.shape[0]):
                raise _of_other_length(self.name)
            self.items[:] = items
            return self.items
        made = filled(items)
        if made is None:
            raise UnsupportedError(
                f"items that a loop appends to {self.name} are of another kind than the first ones, {self.before!r}",
                "Keep numbers alone, or arrays of one shape, in a list.",
            )
        self.items[:], self.made = replaced(), made
        return made

    def _joined(self, stacks: Sequence[Variable]) -> Variable:
        """Concatenate the items that iterations append."""
        if len(stacks) == 1 and not self._kinds[0][1]:
            return stacks[0]
        blocks = [y if many else y[:, None] for y, (_, many, _) in zip(stacks, self._kinds, strict=True)]
        both: Variable = np.concatenate(blocks, axis=1) if blocks[1:] else blocks[0]
        return np.reshape(both, (-1, *both.shape[2:]))


def in_front(items: Sequence[Any], changed: Mapping[int, Any]) -> bool:
    """Whether a list has become longer in front, by what it holds `changed` at its indices."""
    now = {**dict(enumerate(items)), **changed}
    new = len(now) - len(items)
    return bool(items) and 0 in changed and all(now[new + i] is x for i, x in enumerate(items))


def filled(items: Sequence[Any]) -> Listing | None:
    """The list of items of which some may not be there; None where they are not alike."""
    pending = [x if isinstance(x, Pending) else Pending(x, None, False) for x in items]
    blocks = [x.value if x.many else _as_row(x.value) for x in pending]
    if any(x is None for x in blocks):
        return None
    blocks = [row if x.many else np.stack([row]) for x, row in zip(pending, blocks, strict=True)]
    forms = {x.form or ("" if x.many else _form(x.value)) for x in pending}
    like = next(filter(is_traced, [*blocks, *(x.there for x in pending)]), None)
    shapes = [np.shape(x)[1:] for x in blocks]
    if len(forms) > 1 or like is None or not all(same_shape(shape, shapes[0]) for shape in shapes):
        return None
    rows = np.concatenate([x if is_traced(x) else np.array(x, like=like) for x in blocks])
    if any(x.there is not None for x in pending):
        pairs = zip(pending, blocks, strict=True)
        rows = _compressed(rows, np.concatenate([_truths(x, np.shape(block)[0], like) for x, block in pairs]))
    examples = {kind: like for x in pending for kind, like in x.examples.items()}
    made = _class_for(forms.pop())(rows.graph, rows.node, examples)
    arrays = [y for x in pending for y in tree.flatten(x.value)[0] if is_array(y)]
    if share_memory(arrays) or any(x.many and x.value.locked == SHARED for x in pending):
        made.locked = SHARED
    for kin in {id(z): z for y in arrays for z in y.kin}.values():
        made.link(kin)  # of which a row is a copy, and the item another name
    return made


def _class_for(form: str) -> type[Listing]:
    """Return the class of the list whose items have a form."""
    if not form:
        return Listing
    return TableOfTuples if form == _form((0,) * form.count("*")) else Table


def _truths(x: Pending, count: Size, like: Variable) -> Any:
    """Whether each of the rows is there that an item stands for."""
    if x.there is not None:
        return x.there if x.many else np.stack([x.there])
    if not is_counted(count):
        return np.full((count,), True, like=like)
    here = lift(like.graph, np.True_)
    _, (found,), _ = repeat(like.graph, lambda carry, t, _: ((), (Variable(like.graph, here),)), (), count)
    return found  # made by a loop, so that what defines the length remains a part of the program


def _kind(item: Any) -> Any:
    """Return the structure and shapes of items, which carried ones share."""
    found = held(item)
    return found.structure, [np.shape(x) if is_numeric(x) else x for x in found.leaves]


def _last(items: Sequence[Any], front: bool) -> Sequence[Any]:
    """The last items of a list, which may end with those of an array, reversed if items come in `front`."""
    last = items[-1] if items else None
    if not isinstance(last, Pending) or not last.many or last.there is not None or last.form:
        return items[-LAST:]
    rows = last.value[::-1] if front else last.value
    n = rows.shape[0]
    return [rows[i] for i in range(max(n - LAST, 0), n)] if isinstance(n, int) else ()


def _form(item: Any) -> str:
    """Return the structure by which rows become an item; "" for a number or an array."""
    return "" if tree.is_leaf(item) else str(held(item).structure)


def _as_row(item: Any) -> Any:
    """Return a number or an array, or the array of a list or tuple of one kind of these; None for anything else."""
    if tree.is_leaf(item):
        return item if _is_sure(item) else None
    like = next(filter(is_traced, held(item).leaves), None)
    if type(item) not in (list, tuple) or like is None or not all(tree.is_leaf(x) and _is_sure(x) for x in item):
        return None
    avals = [lift(like.graph, x).aval for x in item]
    alike = all(x.dtype == avals[0].dtype and same_shape(x.shape, avals[0].shape) for x in avals)
    return np.array(item, like=like) if alike else None


def _is_sure(x: Any) -> bool:
    """Whether a leaf is a number or an array in any case."""
    return is_numeric(x) and not is_perhaps(x)


def _shifted(window: list[Any], item: Pending) -> list[Any]:
    """Return the last items after one is appended, or several."""
    if item.many and window:
        there = item.there
        rows = item.value if there is None else item.value[np.argsort(np.logical_not(there), kind="stable")]
        count = rows.shape[0] if there is None else np.sum(there)
        both = np.concatenate([np.array(window, like=rows), rows])
        return [both[count + i] for i in range(len(window))]
    new = [*window, item.value][1:] if window else []
    if item.there is None or not window:
        return new
    plain = all(map(tree.is_leaf, [*window, item.value]))
    return [np.where(item.there, y, x) if plain else ELSEWHERE for x, y in zip(window, new, strict=True)]


def _compressed(rows: Variable, there: Variable) -> Variable:
    """The rows that are there."""
    order = np.argsort(np.logical_not(there), kind="stable")
    body = lambda carry, t, _: ((carry[0] + 1,), (rows[order[t]],))
    (count,), (found,), _ = repeat(rows.graph, body, (0,), np.sum(there))
    rows.graph.counts[str(found.shape[0])] = count.node  # also where none of the rows is asked for
    return found


def _of_other_length(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"an inner loop, or a branch in a loop, appends to {name}, and how often depends on traced values",
        "Append one item in each iteration of the outer loop: the sum, or the last item.",
    )
