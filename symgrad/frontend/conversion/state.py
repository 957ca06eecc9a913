"""The state of a function where a loop or a branch begins, what that has changed, and how to take it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Graph, Node, tracing
from symgrad.core.sizes import Dim
from symgrad.errors import UnsupportedError, refused
from symgrad.frontend.aliasing import Memory
from symgrad.ops.control import PLACE
from symgrad.ops.operands import is_traced

CONSTRUCT = ".here"
"""How names begin that hold loops and branches while they run."""

MOST = 2_000  # containers that are looked into: of a large object not all


class _Undefined:
    """What stands for a name that is not bound."""

    def __repr__(self) -> str:
        return "not bound"


UNDEFINED = _Undefined()


class Unread:
    """What stands for items of a list that are not to be read where the program is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "an item of another turn"

    def _read(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(
            "an item is read that another turn of a loop has appended",
            "Keep it under a name of its own from turn to turn: previous = x; the last one is x[-1].",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _read
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _read
    __getitem__ = __iter__ = __len__ = __bool__ = __float__ = __array_ufunc__ = __array_function__ = _read


ELSEWHERE = Unread()
"""The items of other turns."""


class Pending(Unread):
    """What stands for what this turn of a loop has appended, perhaps: one item, or the rows of an array."""

    __slots__ = ("form", "many", "there", "value")

    def __init__(self, value: Any, there: Any, many: bool, form: str = "") -> None:
        self.value, self.many = value, many
        self.there = there  # whether it is there; of rows one truth for each; None where all are
        self.form = form  # how items are made of rows, if they are lists or tuples


def check_length(x: Any) -> None:
    """Raise if Python asks for the length of a list in the middle of a loop that appends to it."""
    if type(x) is list and any(isinstance(item, Unread) for item in x):
        raise UnsupportedError(
            "the length of a list is asked for in a loop that appends to it", "Count the turns: n = n + 1."
        )


# ---- places


class Place(NamedTuple):
    """A name, an item of a list or a dict, an attribute, or the content of a cell."""

    holder: Any  # None of a name
    key: Any
    name: str  # what it is called in messages

    @property
    def id(self) -> tuple[int, Any]:
        return (id(self.holder), self.key)

    def put(self, value: Any) -> None:
        """Let the container hold a value there."""
        if isinstance(self.holder, CellType):
            self.holder.cell_contents = value
        elif isinstance(self.holder, list) and self.key == len(self.holder):  # what both sides append
            self.holder.append(value)
        elif isinstance(self.holder, (list, dict)):
            self.holder[self.key] = value
        else:
            vars(self.holder)[self.key] = value


def _items(x: Any) -> dict[Any, Any] | None:
    """What a container that can be changed holds; None of anything else."""
    if isinstance(x, list):
        return dict(enumerate(x))
    if isinstance(x, dict):
        return dict(x)
    if isinstance(x, CellType):
        return {0: x.cell_contents} if x != CellType() else {}
    plain = (str, bytes, type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, np.ndarray, np.generic, Dim)
    own = None if isinstance(x, plain) or is_traced(x) else getattr(x, "__dict__", None)
    return dict(own) if type(own) is dict else None


def _parts(x: Any) -> Sequence[Any]:
    """What is to be looked into of what cannot be changed itself."""
    if isinstance(x, tuple):
        return x
    if isinstance(x, FunctionType):
        return x.__closure__ or ()
    return (x.__func__, x.__self__) if isinstance(x, MethodType) else ()


class Contents:
    """What the containers hold that can be reached from some values."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.found: dict[int, tuple[Any, dict[Any, Any], str]] = {}
        waiting = [(name, x) for name, x in values.items() if not name.startswith(CONSTRUCT)]
        seen = set()
        while waiting and len(self.found) < MOST:
            name, x = waiting.pop()
            if id(x) in seen:
                continue
            seen.add(id(x))
            items = _items(x)
            if items is not None:
                self.found[id(x)] = x, items, name
            waiting += [(name, y) for y in (items.values() if items is not None else _parts(x))]

    def changes(self) -> Iterator[tuple[Place, Any, Any]]:
        """The places that hold something else now: what they held, and what they hold, UNDEFINED for nothing."""
        for x, before, name in self.found.values():
            now = _items(x) or {}
            for key in [*before, *(key for key in now if key not in before)]:
                old, new = before.get(key, UNDEFINED), now.get(key, UNDEFINED)
                if old is not new and not is_same(old, new):
                    yield Place(x, key, _path(x, key, name)), old, new

    def restore(self) -> None:
        """Let all hold what they held."""
        for place, old, _ in [*self.changes()]:
            if isinstance(place.holder, list):
                place.holder[:] = self.found[id(place.holder)][1].values()
            elif old is not UNDEFINED:
                place.put(old)
            elif isinstance(place.holder, CellType):
                del place.holder.cell_contents
            else:
                (place.holder if isinstance(place.holder, dict) else vars(place.holder)).pop(place.key)


def _path(holder: Any, key: Any, name: str) -> str:
    if isinstance(holder, CellType):
        return name
    return f"{name}[{key!r}]" if isinstance(holder, (list, dict)) else f"{name}.{key}"


def is_same(a: Any, b: Any) -> bool:
    """Whether it makes no difference which of two values there is: Python's own numbers and texts that are equal."""
    if a is b:
        return True
    return type(a) is type(b) and type(a) in _PLAIN and repr(a) == repr(b)


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


# ---- what a run of some statements leaves behind


class Held(NamedTuple):
    """A value, and what its leaves are at the moment."""

    value: Any
    leaves: list[Any]
    nodes: list[Node | None]  # of those that are Variables
    structure: tree.TreeSpec

    @property
    def bound(self) -> bool:
        return self.value is not UNDEFINED

    @property
    def is_leaf(self) -> bool:
        return len(self.leaves) == 1 and self.leaves[0] is self.value


def held(value: Any) -> Held:
    leaves, structure = tree.flatten(value)
    return Held(value, leaves, [x.bound if is_traced(x) else None for x in leaves], structure)


class Snapshot(NamedTuple):
    """The values of names and of other places, and the content of memory; the latter two where they have changed."""

    names: dict[str, Held]
    places: dict[tuple[int, Any], tuple[Place, Held, Held]]  # what a place held before, and holds now
    memory: dict[int, tuple[Memory, Node, Node]]  # and so for memory
    doubts: dict[int, tuple[Memory, str]]  # memory that is not to be read any more, and why

    def held(self, before: Held) -> Held:
        """What a value from before is with what memory holds now."""
        if not any(is_traced(x) and id(x.owner) in self.memory for x in before.leaves):
            return before
        for root, _, now in self.memory.values():
            root.set_content(now)
        found = held(before.value)
        for root, old, _ in self.memory.values():
            root.set_content(old)
        return found


class Journal(dict[int, tuple[Memory, Node]]):
    """The memory that is written into, and what it held before; in which other one it is, and what it is of."""

    def __init__(self, outer: Any, branch: bool, contents: Contents) -> None:
        super().__init__()
        self.outer, self.branch, self.contents = outer, branch, contents
        self.depth: int = 1 + (outer.depth if isinstance(outer, Journal) else 0)
        self.repeated = False  # whether it is of a turn that stands for many
        self.pending = False  # whether it is to be seen by tracing a turn what turns append
        self.linked: list[Memory] = []  # what was there before, and has got kin
        self.doubts: list[Memory] = []  # and what of it is not to be read any more


class Run:
    """From its making on what is done to names, containers and memory is noted, to be taken back or kept."""

    def __init__(self, graph: Graph, local: dict[str, Any], branch: bool = False) -> None:
        self.graph, self._contents = graph, Contents(local)
        self._before = graph.body, graph.journal
        graph.seed(PLACE)  # what is made from now on is younger than all that was there
        self.since = graph.body = len(graph.nodes)
        graph.journal = self.journal = Journal(graph.journal, branch, self._contents)
        noted = refused.get()
        self._refused = len(noted) if noted is not None else 0
        self._watched = len(graph.watched)

    @property
    def made(self) -> int:
        """How many nodes there are more."""
        return len(self.graph.nodes) - self.since

    def homes(self, x: Any) -> list[Place]:
        """The places in containers that held it, the same object."""
        found = self._contents.found.values()
        return [Place(c, key, _path(c, key, name)) for c, items, name in found for key, y in items.items() if y is x]

    def is_held_elsewhere(self, value: Any, place: Place) -> bool:
        """Whether something else than a place holds `value`, which was there before, or a container in it."""
        inside, names = Contents({place.name: value}).found, self._contents.values
        holders = {name: id(x) for name, x in names.items() if not name.startswith(CONSTRUCT)}
        if place.holder is None:
            holders.pop(place.name, None)
        homes = (home for x, *_ in inside.values() for home in self.homes(x))
        elsewhere = (home.id != place.id and id(home.holder) not in inside for home in homes)
        return not inside.keys().isdisjoint(holders.values()) or any(elsewhere)

    def undo(self, local: dict[str, Any], names: Sequence[str] = ()) -> Snapshot:
        """What has changed, which is taken back; names are set by the caller."""
        check_left(self.graph, self.journal)
        self._leave()
        changes = [*self._contents.changes()]
        try:
            values = {name: held(local.get(name, UNDEFINED)) for name in names}
            new = [held(x) for _, _, x in changes]
            memory = {key: (root, before, root.content) for key, (root, before) in self.journal.items()}
            doubts = {id(x): (x, x.doubtful) for x in self.journal.doubts}
        finally:
            self._restore()
        places = {place.id: (place, held(old), x) for (place, old, _), x in zip(changes, new, strict=True)}
        return Snapshot(values, places, memory, doubts)

    def _restore(self) -> None:
        self._contents.restore()
        for root, before in self.journal.values():
            root.set_content(before)
        for x in self.journal.doubts:
            x.believe()
        for x in self.journal.linked:
            x.forget_kin(self.since)

    def abandon(self) -> None:
        """Take back all, also what was refused."""
        self.graph.journal = self.journal
        self._leave()
        self._restore()
        del (refused.get() or [])[self._refused :], self.graph.watched[self._watched :]

    def keep(self) -> None:
        """Leave all as it is."""
        self.graph.body, self.graph.journal = self._before
        for root, before in self.journal.values():
            if self.graph.journal is not None and root.is_older(self.graph.body):
                self.graph.journal.setdefault(id(root), (root, before))
        if isinstance(self.graph.journal, Journal):
            self.graph.journal.linked += self.journal.linked
            self.graph.journal.doubts += [x for x in self.journal.doubts if x.is_older(self.graph.body)]

    def _leave(self) -> None:
        self.graph.leave_body(self.since)
        self.graph.body, self.graph.journal = self._before


def is_of_a_loop(graph: Graph, items: Any) -> bool:
    """Whether a list was there when a loop began that runs: it makes something of what is pending in it."""
    for journal in _journals(graph):
        if not journal.branch and id(items) in journal.contents.found:
            journal.pending = True
            return True
    return False


def _journals(graph: Graph | None) -> Iterator[Journal]:
    """Those of the branches and loops that run, from within outwards."""
    journal: Any = graph and graph.journal
    while journal is not None:
        yield journal
        journal = journal.outer


def check_left(graph: Graph, journal: Any) -> None:
    """Raise unless all branches and loops that have begun have ended, but for that of this journal."""
    if graph.journal is not journal:
        raise UnsupportedError(
            "an exception is caught that was raised in a branch which depends on a traced value",
            "Catch it in that branch, or leave the test out: both branches are traced, whatever the value is.",
        )


def raised(error: Any) -> Any:
    """What to raise instead of an error: of a branch that depends on a traced value, which is traced in any case."""
    if not any(journal.branch for journal in _journals(tracing.get())):
        return error
    return UnsupportedError(
        "an error is raised in a branch that depends on a traced value",
        "Make such tests outside of the function, on its arguments and results.",
    )


def check_draw(function: Any) -> None:
    """Raise if random numbers are drawn where one turn is traced for all, or both sides of a branch."""
    graph = tracing.get()
    if graph is None or not graph.body or not type(getattr(function, "__self__", None)).__module__.startswith(_RANDOM):
        return
    if graph.journal is None or any(journal.branch or journal.repeated for journal in _journals(graph)):
        raise UnsupportedError(
            f"{function.__name__} draws random numbers in a loop or a branch that is traced once",
            "Draw them before it, an array of them, or pass them as an argument.",
        )


_RANDOM = ("numpy.random", "random")
"""The modules of generators, which take a while to import."""
