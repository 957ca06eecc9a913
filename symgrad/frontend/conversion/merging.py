"""Merging of two branches into the values after both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim
from symgrad.core.text import with_article
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.frontend.bodies import common, joined
from symgrad.frontend.conversion.absent import Perhaps, Unbound, presence
from symgrad.frontend.conversion.classes import examples_of, fits, kind_shown, list_kind, of_classes
from symgrad.frontend.conversion.comprehensions import FOUND
from symgrad.frontend.conversion.containers import watch_chosen
from symgrad.frontend.conversion.contents import Entry
from symgrad.frontend.conversion.defaults import Defaults
from symgrad.frontend.conversion.either import Either
from symgrad.frontend.conversion.inherited import check_inherited, note_own
from symgrad.frontend.conversion.jumps import APPENDED, called_by, label
from symgrad.frontend.conversion.mutable import OBJECT, UNDEFINED, Place, is_same, is_same_form, kind_of, per_class
from symgrad.frontend.conversion.objects import Twins, are_twins
from symgrad.frontend.conversion.promotions import Promoted, may_differ
from symgrad.frontend.conversion.sharing import Truth, is_array, name_one_of, relate
from symgrad.frontend.conversion.state import Held, Pending, Run, Snapshot, held, is_of_a_loop
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.operands import ARRAYS, is_traced

_NUMBERS = (*ARRAYS, bool, int, float, complex, Dim)


def is_numeric(x: Any) -> bool:
    """Whether a leaf can be chosen, or carried, while the program runs."""
    if is_traced(x) or not isinstance(x, _NUMBERS):
        return is_traced(x)
    return x.dtype.kind in "biufc" if isinstance(x, ARRAYS) else per_class(_computes_as_numbers, type(x))


def _computes_as_numbers(cls: type) -> bool:
    """Whether a class of the user's, derived from one of Python's numbers, has the operators of that."""
    base = next(x for x in (bool, int, float, complex, Dim) if issubclass(cls, x))
    if cls is base:
        return True
    names = (vars(base).keys() - vars(object).keys()) | _COMPARISONS
    return all(next(vars(x)[name] for x in cls.__mro__ if name in vars(x)) is vars(base).get(name) for name in names)


_COMPARISONS = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}


def described(x: Any) -> str:
    """A leaf in a message."""
    if is_traced(x):
        return str(x.aval)
    if isinstance(x, np.ndarray):
        return str(Aval(x.shape, x.dtype))
    if type(x) is Either:
        return "one of two functions, which a branch has chosen,"
    own = type(x).__module__.startswith("symgrad.")
    return repr(x) if own or is_numeric(x) or x is None or x is UNDEFINED else f"the {type(x).__name__} {x!r}"


def filler(graph: Graph, aval: Aval) -> Node:
    """Return the filler for a value that Python would not find: NaN, or for integers an extreme that is no index."""
    kind = aval.dtype.kind
    value: Any = {"f": np.nan, "c": np.nan, "b": False}.get(kind)
    if kind in "iu":
        value = np.iinfo(aval.dtype).min if kind == "i" else np.iinfo(aval.dtype).max
    if aval.weak:
        return graph.constant({"f": float, "c": complex, "b": bool}.get(aval.dtype.kind, int)(value))
    return lift(graph, np.full(aval.shape, value, aval.dtype, like=Variable(graph, graph.constant(0.0))))


class Merging:
    """Merging of two branches: `pick` notes what is to be chosen, `values` chooses it all by one node."""

    def __init__(self, graph: Graph, pred: Variable, since: int, run: Run, sides: Sequence[Snapshot]) -> None:
        self.graph, self._pred, self._since, self._run, self._sides = graph, pred, since, run, sides
        self._arrays: list[tuple[Any, list[list[Any]]]] = []  # chosen, and what they are in each of the cases
        self._containers: list[tuple[Place, Any, tuple[Any, Any]]] = []  # where they are, chosen, and of which
        self._then: list[Node] = []
        self._other: list[Node] = []
        self._results: list[Any] = []
        self._chains = [side.chain for side in sides]
        self.twins = Twins(graph, sides)
        self.lists: dict[int, list[Any]] = {}  # to which not both sides append as often

    def choose(self) -> None:
        """Record the node."""
        sides = [self._then, self._other]
        is_needed = self._then or any(chain.last is not None for chain in self._chains)
        self._results = joined(self.graph, self._pred, sides, self._since, self._chains) if is_needed else []

    def pick(self, name: str, then: Held, other: Held, place: Place | None = None) -> Callable[[], Any]:
        """Return a function that gives the value of a name, or a place, once the node is recorded."""
        if is_same(then.value, other.value):  # what it holds may have changed, which is noted where it is held
            return lambda: then.value
        if are_twins(then.value, other.value):
            return self.twins.chosen(name, then.value, other.value, self.pick)
        a, b = (then, other) if then.bound else (other, then)
        if a.structure != b.structure and b.bound:
            raise UnsupportedError(
                f"{called_by(name)} is {shown(then)} where the condition holds, and {shown(other)} where it does not",
                "Give it one structure in both branches.",
            )
        swapped = a is not then
        leaves = [
            self._leaf(name, *(pair[::-1] if swapped else pair))
            for pair in zip(
                zip(a.leaves, a.nodes, strict=True),
                zip(b.leaves, b.nodes, strict=True) if b.bound else [(UNDEFINED, None)] * len(a.leaves),
                strict=True,
            )
        ]

        def chosen() -> Any:
            value = tree.unflatten(a.structure, [leaf() for leaf in leaves])
            if not a.is_leaf:
                self._containers.append((place or Place(None, name, name), value, (then.value, other.value)))
            return value

        return chosen

    def may_append(self, place: Place, then: Snapshot, other: Snapshot) -> bool:
        """Whether a side has appended to a list."""
        before = (then.places.get(place.id) or other.places[place.id])[1]
        if before.bound or type(place.holder) is not list:
            return False
        if not is_of_a_loop(self.graph, place.holder):
            self.lists[id(place.holder)] = place.holder
        return True

    def at(self, place: Place, then: Held, other: Held) -> Callable[[], Any]:
        """Return a function that gives the value of a place; it is Pending where a side may append it to a list."""
        if then.bound and other.bound and not any(isinstance(x.value, Pending) for x in (then, other)):
            return self.pick(place.name, then, other, place)
        sides = [x.value if isinstance(x.value, Pending) else Pending(x.value, None, False) for x in (then, other)]
        many, form = any(side.many for side in sides), max(side.form for side in sides)
        examples = sides[0].examples | sides[1].examples
        x, y = (
            side.held(held(z.value.value)) if isinstance(z.value, Pending) else z
            for z, side in zip((then, other), self._sides, strict=True)
        )
        if many and x.bound and y.bound and not _are_as_many(*sides):
            parts = [self._rows(side, z, z is x) for side, z in zip(sides, (x, y), strict=True)]
            rows, truths = ([part[i] for part in parts] for i in range(2))
            join = lambda xs: np.concatenate([each() for each in xs])
            return lambda: Pending(join(rows), join(truths), True, form, examples)
        in_x, in_y = [held(_there(z, sides, many)) for z in sides]
        value, there = self.pick(APPENDED, x, y), self.pick(".there", in_x, in_y)
        return lambda: Pending(value(), there(), many, form, examples)

    def _rows(self, side: Pending, rows: Held, is_then: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """Return a function that gives the rows which one side alone appends, and whether each of them is there."""
        absent, sides = held(UNDEFINED), [side]
        there = held(_there(side, sides, side.many))
        missing = held(np.full(side.value.shape[:1], False) if side.many else False)
        pairs = [(rows, absent), (there, missing)] if is_then else [(absent, rows), (missing, there)]
        value, truth = self.pick(APPENDED, *pairs[0]), self.pick(".there", *pairs[1])
        as_rows = lambda get: get if side.many else lambda: np.stack([get()])
        return as_rows(value), as_rows(truth)

    def node(self, name: str, then: Node, other: Node) -> Callable[[], Any]:
        """The same for one node of each side."""
        pairs = [*zip(self._then, self._other, strict=True)]
        at = pairs.index((then, other)) if name.startswith(".") and (then, other) in pairs else len(pairs)
        if at == len(pairs):
            self._then.append(then)
            self._other.append(other)

        def chosen() -> Any:
            result = self._results[at]
            label(self.graph, result.node, name)
            if may_differ(then.aval, other.aval):
                self.graph.watched.append(Promoted(self.graph, result.node, (then.aval, other.aval), name))
            return result

        return chosen

    def _leaf(self, name: str, one: tuple[Any, Node | None], two: tuple[Any, Node | None]) -> Callable[[], Any]:
        (x, nx), (y, ny) = one, two
        if is_same(x, y):  # of one array its memory is chosen
            return lambda: x
        kind = _common_kind(name, x, y)
        known, node = (y, ny) if x is UNDEFINED or (x is None and y is not UNDEFINED) else (x, nx)
        if Perhaps in (type(x), type(y)) or ((x is None or y is None) and is_numeric(known)):
            return self._perhaps(name, one, two)
        if x is UNDEFINED or y is UNDEFINED:
            if not is_numeric(known):
                return lambda: known  # of a program that runs in Python it is read after that branch only
            node = node or lift(self.graph, known)
            blank = filler(self.graph, node.aval)
            value = self.node(name, *((blank, node) if x is UNDEFINED else (node, blank)))
            bound = value if name.startswith(".") else lambda: Unbound(self.graph, value().node, name)
            return self._naming(bound, x, y)
        if _is_function(x) and _is_function(y):
            return lambda: Either(self._pred, x, y)
        if not (is_numeric(x) and is_numeric(y)):
            raise UnsupportedError(
                f"{called_by(name)} is {described(x)} where the condition holds, and {described(y)} where it does not",
                "Give it numbers, or arrays of one shape, in both branches.",
            )
        nx, ny = nx or lift(self.graph, x), ny or lift(self.graph, y)
        _check_alike(name, (x, nx), (y, ny))
        examples = examples_of(x) | examples_of(y)
        if nx is ny and len(examples) == 1 and not (is_traced(x) and is_traced(y) and x.owner is not y.owner):
            return lambda: x
        # of two arrays, of which one is meant that is written into
        value = self.node(name, nx, ny) if nx is not ny else lambda: Variable(self.graph, nx)
        if kind is not None:
            items = x.item_examples | y.item_examples
            return self._naming(lambda: kind(self.graph, value().node, items), x, y)
        return self._naming(lambda: of_classes(value(), examples), x, y)

    def _perhaps(self, name: str, one: tuple[Any, Node | None], two: tuple[Any, Node | None]) -> Callable[[], Any]:
        """Return a value of which the program decides whether it is None."""
        graph = self.graph
        aval = next(lift(graph, x).aval for x, _ in (one, two) if x is not None and x is not UNDEFINED)
        nodes = [node or (lift(graph, x) if is_numeric(x) else filler(graph, aval)) for x, node in (one, two)]
        _check_alike(name, (one[0], nodes[0]), (two[0], nodes[1]))
        value = self.node(name, *nodes)
        present = self.node(".present", *(presence(graph, x) for x, _ in (one, two)))
        found = [examples_of(x) for x, _ in (one, two) if x is not None and x is not UNDEFINED]
        examples = found[0] | found[-1]
        return self._naming(lambda: Perhaps(graph, value().node, present(), examples), one[0], two[0])

    def _naming(self, chosen: Callable[[], Any], then: Any, other: Any) -> Callable[[], Any]:
        """An array that is chosen is another name of one of two."""
        values = [x for x in (then, other) if x is not UNDEFINED and x is not None]

        def named() -> Any:
            result = chosen()
            name_one_of(result, *values)
            self._arrays.append((result, [[x] if is_array(x) else [] for x in (then, other)]))
            return result

        return named if any(map(is_array, values)) else chosen

    def note_sharing(self) -> None:
        """Note the aliases of arrays and containers."""
        relate(self._arrays, Truth(self._pred.node, self._since))
        watch_chosen(self.graph, self._run, self._containers)


def _is_function(x: Any) -> bool:
    """Whether a leaf does nothing but compute: a function, and no object with state that can be called."""
    return callable(x) and not isinstance(x, type) and not is_traced(x) and kind_of(type(x)) is not OBJECT


def _are_as_many(x: Pending, y: Pending) -> bool:
    return x.many and y.many and same_shape(x.value.shape[:1], y.value.shape[:1])


def _there(side: Pending, sides: Sequence[Pending], many: bool) -> Any:
    if side.there is not None:
        return side.there
    bound = side.value is not UNDEFINED
    return np.full(next(x for x in sides if x.many).value.shape[:1], bound) if many else bound


def _common_kind(name: str, x: Any, y: Any) -> type | None:
    """Return the class of two lists that loops have filled; None of other values. A list and something else differ."""
    kinds = [list_kind(z) for z in (x, y)]
    if kinds[0] is not kinds[1] and x is not UNDEFINED and y is not UNDEFINED:
        facts = [_with_kind(z, kind) for z, kind in zip((x, y), kinds, strict=True)]
        raise UnsupportedError(
            f"{called_by(name)} is {facts[0]} where the condition holds, and {facts[1]} where it does not",
            "Give it one class in both branches: list(x), or np.array(x).",
        )
    return kinds[0]


def _with_kind(x: Any, kind: type | None) -> str:
    return described(x) if kind is None else f"{kind_shown(kind)} of {x.dtype}"


def _check_alike(name: str, one: tuple[Any, Node], two: tuple[Any, Node]) -> None:
    """Raise unless one of two values can be chosen: they have one shape, and a dtype that holds both."""
    (x, nx), (y, ny) = one, two
    if not same_shape(nx.aval.shape, ny.aval.shape):
        raise ShapeError(
            f"{called_by(name)} is {nx.aval} where the condition holds, and {ny.aval} where it does not",
            _with_one_shape(*(z for z, node in (one, two) if not node.aval.shape)),
        )
    dtype = common(nx.aval, ny.aval).dtype
    if not (fits(nx, dtype) and fits(ny, dtype)):
        python = x if nx.aval.weak else y
        raise DTypeError(
            f"{called_by(name)} is {described(x)} where the condition holds, and {described(y)} where it does not, "
            f"and {dtype} would not hold all digits of {'the' if is_traced(python) else 'that'} Python number",
            f"Give it one dtype in both branches: np.{dtype}(x), or float(x).",
        )


def _with_one_shape(*numbers: Any) -> str:
    """Return what to write where shapes differ, and one of the values may be a number."""
    if not numbers:
        return "Give it one shape in both branches: np.broadcast_to(x, shape)."
    text = "value" if is_traced(numbers[0]) else repr(numbers[0])
    return f"Write np.full(np.shape(x), {text}) instead of the number, where x has the shape of the other branch."


def shown(x: Held) -> str:
    """A value in a message."""
    return "not bound" if not x.bound else tree.written(x.structure, [described(y) for y in x.leaves])


def merged(
    merging: Merging, names: Sequence[str], then: Snapshot, other: Snapshot
) -> tuple[dict[str, Any], Callable[[], None]]:
    """Return the values of names after both branches, and a function that sets containers and memory."""
    found = {name: merging.pick(name, then.names[name], other.names[name]) for name in names}
    forms = _common_forms(then, other)
    places = [(place, *_sides(place, then, other)) for place, _, _ in (then.places | other.places).values()]
    check_inherited([place for place, _, _ in places])
    for place, a, b in places:
        if any(isinstance(x.value, Pending) for x in (a, b)):
            merging.may_append(place, then, other)
        elif not (a.bound and b.bound) and not merging.may_append(place, then, other):
            raise UnsupportedError(
                f"{place.name} is {shown(a)} where the condition holds, and {shown(b)} where it does not",
                "Let lists and dicts have the same items in both branches: append after the branch.",
            )
    picked = [(place, merging.at(place, a, b)) for place, a, b in places]
    memory: list[tuple[Any, Callable[[], Any]]] = []
    for key, (root, before, _) in (then.memory | other.memory).items():
        now = [side.memory[key][2] if key in side.memory else before for side in (then, other)]
        if now[0] is not now[1]:
            memory.append((root, merging.node(".memory", *now)))
        elif now[0] is not before:
            memory.append((root, partial(Variable, root.graph, now[0])))
    merging.choose()
    note_own(merging.graph, [x for x, _, _ in places if (x.id in then.places) != (x.id in other.places)])

    def settle() -> None:
        for place, value in picked:
            place.put(value())
        for entry, form in forms:
            entry.reform(form)
        for root, value in memory:
            root.rebind(value().node, alone=True)
        for x, reason in (then.doubts | other.doubts).values():
            x.doubt(reason)
        merging.note_sharing()

    return {name: value() for name, value in found.items()}, settle


def _common_forms(then: Snapshot, other: Snapshot) -> list[tuple[Entry, Any]]:
    """Return the forms of objects that a side has changed; they must agree after both."""
    found = []
    for key, (entry, _) in (then.forms | other.forms).items():
        a, b = (side.forms[key][1] if key in side.forms else entry.form for side in (then, other))
        if isinstance(entry.holder, Defaults):
            a = b = _common_keys(entry.holder, a or (), b or ())
        if not is_same_form(a, b):
            name = "the result of a comprehension" if entry.name == FOUND else entry.name
            raise UnsupportedError(
                f"{name}, {with_article(type(entry.holder).__name__)}, has different items, or a different "
                "order, on the two sides of a branch",
                "Change it in the same way on both sides, or after the branch.",
            )
        found.append((entry, a))
    return found


def _common_keys(holder: Defaults, then: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the keys of either side; a missing one can be read, and which side has it is no longer known."""
    if then == other:
        return then
    holder.doubt({*then} ^ {*other} or then)
    return (*then, *(key for key in other if key not in then))


def _sides(place: Place, then: Snapshot, other: Snapshot) -> tuple[Held, Held]:
    """Return the values of a place after each branch; a branch that has not changed it keeps the old one.

    A missing key of a default dict has the default.
    """
    key = place.id
    before = (then.places.get(key) or other.places[key])[1]
    default = place.holder.default if isinstance(place.holder, Defaults) else None
    sides = [side.places[key][2] if key in side.places else side.held(before) for side in (then, other)]
    a, b = (x if x.bound or default is None else held(default) for x in sides)
    return a, b
