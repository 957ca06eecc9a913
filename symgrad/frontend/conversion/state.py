"""State of a function at the start of a loop or a branch, its changes, and their undoing."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Chain, Graph, Node, tracing
from symgrad.core.provenance import here, raised_at, user_frame
from symgrad.errors import SymgradError, UnsupportedError, refused
from symgrad.frontend import draws
from symgrad.frontend.aliasing import Memory
from symgrad.frontend.checks import Left, check_uncaught, raising
from symgrad.frontend.conversion.classes import Examples, examples_in
from symgrad.frontend.conversion.contents import Contents, Entry, HiddenStateError
from symgrad.frontend.conversion.inherited import check_inherited
from symgrad.frontend.conversion.mutable import UNDEFINED, Place, kind_of, path
from symgrad.frontend.readings import name_of_entropy
from symgrad.ops.control import INDEX
from symgrad.ops.operands import is_traced
from symgrad.ops.places import Side


class Unread:
    """Stand-in for items of a list that cannot be read here."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "an item of another iteration"

    def error(self) -> UnsupportedError:
        """Return the error for a read."""
        return UnsupportedError(
            "a loop reads a list item that another of its iterations appended",
            "Keep that item in a variable, previous = x; of the list, read only the last items, as x[-1], or the first "
            "ones of a list that grows in front.",
        )

    def _read(self, *_: Any, **__: Any) -> Any:
        raise self.error()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _read
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _read
    __getitem__ = __iter__ = __len__ = __bool__ = __float__ = __array_ufunc__ = __array_function__ = _read
    __eq__ = __ne__ = _read
    __hash__ = object.__hash__


class Replaced(Unread):
    """Stand-in for the items of a list that an array has replaced: only another name holds the list."""

    __slots__ = ()

    def error(self) -> UnsupportedError:
        """Return the error for a read."""
        return UnsupportedError(
            "a list that a loop or a branch has filled is read under another name than it was filled under",
            "Use one name for the list.",
        )


ELSEWHERE = Unread()
"""The items of other iterations."""

_is_any_unread: ContextVar[bool] = ContextVar("is_any_unread", default=False)


class Earlier(Unread):
    """Stand-in for the first items of a list that iterations append to; `of` knows how many there are."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        _is_any_unread.set(True)
        self.of = of


def is_elsewhere(x: Any) -> bool:
    """Whether an item of a list stands for those of other iterations."""
    return x is ELSEWHERE or type(x) in (Earlier, Replaced)


def elsewhere(count: int) -> list[Any]:
    """The items of a list that stand for those of other iterations."""
    _is_any_unread.set(True)
    return [ELSEWHERE] * count


def replaced() -> list[Any]:
    """The items of a list that an array has replaced."""
    _is_any_unread.set(True)
    return [Replaced()]


class Pending(Unread):
    """Stand-in for what this iteration may have appended: one item, or the rows of an array."""

    __slots__ = ("examples", "form", "many", "there", "value")

    def __init__(self, value: Any, there: Any, many: bool, form: str = "", examples: Examples | None = None) -> None:
        _is_any_unread.set(True)
        self.value, self.many = value, many
        self.there = there  # whether it is there; of rows one boolean for each; None where all are
        self.form = form  # how items are made of rows, if they are lists or tuples
        self.examples = examples_in(value) if examples is None else examples  # of the classes of the numbers in it


_UNREAD = frozenset((Unread, Earlier, Replaced, Pending))


def all_are_whole() -> bool:
    """Whether no list at all has items that stand for others."""
    return not _is_any_unread.get()


def is_whole(x: Any) -> bool:
    """Whether an object is no list or tuple with items that stand for those of other iterations, or for several."""
    if type(x) not in (list, tuple) or all_are_whole():
        return True
    return _UNREAD.isdisjoint(map(type, x))


# ---- what a run of some statements leaves behind


class Held(NamedTuple):
    """A value, and its leaves at the moment."""

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
    forms: dict[int, tuple[Entry, Any]]  # objects whose form has changed, and the form that they have now
    doubts: dict[int, tuple[Memory, str]]  # memory that is not to be read any more, and why
    chain: Chain  # of checks

    def held(self, before: Held) -> Held:
        """Return an earlier value with the present content of memory, and of lists and dicts in it."""
        changed = self._changed_in(before.value)
        if not changed and not any(is_traced(x) and id(x.owner) in self.memory for x in before.leaves):
            return before
        for root, _, now in self.memory.values():
            root.set_content(now)
        with _as_changed(changed):
            found = held(before.value)
        for root, old, _ in self.memory.values():
            root.set_content(old)
        return found

    def _changed_in(self, value: Any) -> list[tuple[Place, Held, Held]]:
        """Return the places that have changed in the lists and dicts of a value, and in those that they hold now."""
        of_holders: dict[int, list[tuple[Place, Held, Held]]] = {}
        for entry in self.places.values():
            of_holders.setdefault(id(entry[0].holder), []).append(entry)
        found, met, waiting = [], set[int](), [value]
        while waiting and of_holders:
            x = waiting.pop()
            if isinstance(x, (list, tuple, deque, dict)) and id(x) not in met:
                met.add(id(x))
                changed = of_holders.get(id(x), [])
                found += changed
                waiting += [*(x.values() if isinstance(x, dict) else x), *(now.value for _, _, now in changed)]
        return found


@contextmanager
def _as_changed(places: Sequence[tuple[Place, Held, Held]]) -> Iterator[None]:
    """Let places hold their present values for a while."""
    if not all(now.bound for _, _, now in places):
        raise UnsupportedError(
            "one side of a branch removes an item of a list or dict that the other side replaces",
            "Do the same on both sides, or do it after the branch.",
        )
    kinds = {id(place.holder): (place.holder, kind_of(type(place.holder))) for place, _, _ in places}
    entries = [(x, kind, kind.read(x), kind.form(x)) for x, kind in kinds.values() if kind is not None]
    try:
        for place, _, now in places:
            place.put(now.value)
        yield
    finally:
        for x, kind, state, form in entries:
            kind.restore(x, state, form)


class Journal(dict[int, tuple[Memory, Node]]):
    """Memory that is written into, with its old content, its aliases and bases."""

    def __init__(self, outer: Any, branch: bool, run: Run) -> None:
        super().__init__()
        self.outer, self.branch, self._run, self.where = outer, branch, run, here()
        self.depth: int = 1 + (outer.depth if isinstance(outer, Journal) else 0)
        self.repeated = False  # whether it is of an iteration that stands for many
        self.round = 0  # how often the body has been traced before
        self.catches = False  # whether it is of a branch that an exception of the user's may leave
        self.pending = False  # whether it is to be seen by tracing an iteration what iterations append
        self.linked: list[Memory] = []  # what was there before, and has got kin
        self.doubts: list[Memory] = []  # and what of it is not to be read any more

    @property
    def rounds(self) -> int:
        """Count how often this body and those around it have been traced before."""
        return self.round + (self.outer.rounds if isinstance(self.outer, Journal) else 0)

    @property
    def since(self) -> int:
        """Return the number of nodes when the body began."""
        return self._run.since

    @property
    def contents(self) -> Contents:
        """The state of all that the body can reach, as it was when the body began."""
        return self._run.contents

    def abandon(self) -> None:
        """Take back all that the body has done."""
        self._run.abandon()

    def explained(self, error: BaseException) -> BaseException:
        """Return the error to report for one that the body has raised."""
        return self._run.explained(error)

    def made(self, x: Node) -> bool:
        """Whether a value was made in the body, or asked for again."""
        return x.id >= self._run.since or x in self._run.found_since

    @property
    def protects(self) -> bool:
        """Whether arrays are read-only because of this body; those of an outer one are so already."""
        return self._run.is_protecting


class Run:
    """A record of all changes to names, containers and memory, to be undone or kept.

    `read` are the names that the statements read, None for all in `local`. `chain` is that of a body, which has checks
    of its own; else they are those of what is around. `side` is that of a branch. Arrays of NumPy's that exist before
    the program runs are read-only meanwhile: writing into one is an error, and not a change that one trace makes for
    all.
    """

    def __init__(
        self,
        graph: Graph,
        local: dict[str, Any],
        read: Collection[str] | None = None,
        branch: bool = False,
        chain: Chain | None = None,
        side: Side | None = None,
    ) -> None:
        self.graph, self._chain, self.contents = graph, graph.chain, Contents(local, read, user_frame())
        self._before = graph.body, graph.journal, graph.sides
        graph.seed(INDEX)  # what is made from now on is younger than all that was there
        noted = refused.get()
        self._refused = len(noted) if noted is not None else 0
        self._watched, self._found = len(graph.watched), len(graph.found)
        self._protected: list[np.ndarray] = []
        self._draws = draws.mark()
        self.since = graph.body = len(graph.nodes)
        graph.chain = self._chain if chain is None else chain
        graph.sides += () if side is None else (side,)
        graph.journal = self.journal = Journal(graph.journal, branch, self)  # last: it can be taken back from here on
        for x in self.contents.arrays:
            if _can_be_protected(x):
                self._protected.append(x)
                x.flags.writeable = False

    @property
    def made(self) -> int:
        """Return how many nodes were added, or were made by an earlier trace of the same body."""
        graph = self.graph
        known = {x for x in graph.found[self._found :] if graph.made_in_body(x)}
        return len(graph.nodes) - self.since + len(known)

    @property
    def asked_for(self) -> list[Node]:
        """Return the nodes that it needs and that may not exist otherwise: new ones, and those made in bodies.

        These are the same ones when the body around it is traced again.
        """
        graph, outermost = self.graph, self.since
        for journal in _journals(graph):
            outermost = min(outermost, journal.since)
        found = graph.found[self._found :]
        return [*graph.nodes[self.since :], *(x for x in found if x.id >= outermost or graph.made_in_body(x))]

    @property
    def found_since(self) -> set[Node]:
        """Return the existing nodes that were found again."""
        return set(self.graph.found[self._found :])

    def homes(self, x: Any) -> list[Place]:
        """The places in containers that held it, the same object."""
        return [
            Place(entry.holder, key, path(entry.holder, key, entry.name))
            for entry in self.contents.found.values()
            if any(y is x for y in entry.state.values)
            for key, y in entry.state.items.items()
            if y is x
        ]

    def undo(self, local: dict[str, Any], names: Sequence[str] = ()) -> Snapshot:
        """Undo the changes and return them; the caller sets the names."""
        check_left(self.graph, self.journal)
        chain = self.graph.chain
        self._leave()
        changes = [*self.contents.changes()]
        try:
            values = {name: held(local.get(name, UNDEFINED)) for name in names}
            new = [held(x) for _, _, x in changes]
            memory = {key: (root, before, root.content) for key, (root, before) in self.journal.items()}
            doubts = {id(x): (x, x.doubtful) for x in self.journal.doubts}
            forms = self.contents.forms()
        finally:
            self._restore()
        if draws.drawn_since(self._draws):
            draws.take_back(self._draws)
            raise _drawn_once("a function of a library")
        draws.rewind(self._draws)
        places = {place.id: (place, held(old), x) for (place, old, _), x in zip(changes, new, strict=True)}
        check_inherited([place for place, _, _ in changes])
        return Snapshot(values, places, memory, forms, doubts, chain)

    def _restore(self) -> None:
        self.contents.restore()
        for root, before in self.journal.values():
            root.set_content(before)
        for x in self.journal.doubts:
            x.believe()
        for x in self.journal.linked:
            x.forget_kin(self.since)

    def abandon(self) -> None:
        """Undo everything, including refusals, and the bodies begun within this one."""
        unwind(self.graph, self.journal)
        self._leave()
        self._restore()
        draws.take_back(self._draws)
        del (refused.get() or [])[self._refused :], self.graph.watched[self._watched :]

    @property
    def is_left(self) -> bool:
        """Whether an exception has left a body within this one, whose changes have to be undone."""
        return self.graph.journal is not self.journal

    def keep(self) -> None:
        """Leave all as it is."""
        self._unprotect()
        self.graph.body, self.graph.journal, self.graph.sides = self._before
        for root, before in self.journal.values():
            if self.graph.journal is not None and root.is_older(self.graph.body):
                self.graph.journal.setdefault(id(root), (root, before))
        if isinstance(self.graph.journal, Journal):
            self.graph.journal.linked += self.journal.linked
            self.graph.journal.doubts += [x for x in self.journal.doubts if x.is_older(self.graph.body)]

    def _leave(self) -> None:
        self._unprotect()
        self.graph.leave_body(self.since)
        self.graph.body, self.graph.journal, self.graph.sides = self._before
        self.graph.chain = self._chain

    def explained(self, error: BaseException) -> BaseException:
        """Return the error to report: for an array that is read-only meanwhile one that says so."""
        journal: Any = self.journal
        while isinstance(journal, Journal) and not journal.protects:  # an array is protected by the outermost body
            journal = journal.outer
        written = isinstance(error, (ValueError, TypeError)) and "read-only" in str(error)
        if not (isinstance(journal, Journal) and written) or isinstance(error, SymgradError):
            return error
        return HiddenStateError(
            "a loop or a branch that depends on traced values writes into an array that exists before the program runs",
            "Make the array inside of the function, or copy it there: x = x.copy().",
            raised_at(error),
        )

    @property
    def is_protecting(self) -> bool:
        """Whether it has made arrays read-only."""
        return bool(self._protected)

    def _unprotect(self) -> None:
        for x in self._protected:
            x.flags.writeable = True


def _can_be_protected(x: np.ndarray) -> bool:
    """Whether an array is writeable, and can be made so again."""
    if not x.flags.writeable:
        return False
    probe = x.view(np.ndarray)
    probe.flags.writeable = False
    try:
        probe.flags.writeable = True
    except ValueError:  # memory of other code, which NumPy would not make writeable again
        return False
    return True


@contextmanager
def unwinding(graph: Graph) -> Iterator[None]:
    """Undo loops and branches that an exception leaves, and explain an error of the trace."""
    try:
        yield
    except BaseException as error:
        journal = graph.journal
        found = error if journal is None else journal.explained(error)
        found = perhaps_never_raised(graph, error) if found is error else found
        unwind(graph)
        if found is error:
            raise
        raise found from error


def perhaps_never_raised(graph: Graph, error: BaseException, in_loop: bool = False) -> BaseException:
    """Return the error to report for one that Python has raised in what is traced, and which the program may not run:
    a branch, or, `in_loop`, the body of a loop whose test is a traced value.
    """
    in_branch = any(x.branch for x in _journals(graph))
    if not is_of_python(error) or not (in_branch or in_loop):
        return error
    what, hint = "the body of a loop whose test", "symgrad traces such a body even if it never runs: it must not fail"
    if in_branch:
        what, hint = "a branch that", "symgrad traces both sides of such a branch: neither may fail"
    return UnsupportedError(
        f"{what} depends on a traced value raises {type(error).__name__}: {error}".rstrip(": "),
        f"{hint}; if the error is meant, write `raise`.",
        raised_at(error),
    )


def is_of_python(error: BaseException) -> bool:
    """Whether Python itself, or a library, has raised an exception, which need not be one of symgrad's or a user's."""
    plain = (ArithmeticError, AttributeError, LookupError, NameError, StopIteration, TypeError)
    return isinstance(error, plain) and not isinstance(error, SymgradError)


def unwind(graph: Graph, journal: Any = None) -> None:
    """Undo bodies that an exception has left, innermost first, down to that of `journal`."""
    while graph.journal is not None and graph.journal is not journal:
        graph.journal.abandon()


def see(function: Any) -> None:
    """Let the bodies that are being traced note the state that a function can reach, which they are about to call."""
    graph = tracing.get()
    if graph is not None and graph.journal is not None and type(function) is not BuiltinFunctionType:
        for journal in _journals(graph):
            journal.contents.see(function)


def is_of_a_loop(graph: Graph, items: Any) -> bool:
    """Whether a list existed when a running loop began: the loop turns pending items into an array."""
    for journal in _journals(graph):
        if not journal.branch and id(items) in journal.contents.found:
            journal.pending = True
            return True
    return False


def is_of_a_branch(graph: Graph, x: Any) -> bool:
    """Whether an object was there when a branch began that runs."""
    return any(journal.branch and id(x) in journal.contents.found for journal in _journals(graph))


def is_of_a_body(graph: Graph, x: Any) -> bool:
    """Whether an object was there when a loop or a branch began that runs."""
    return any(id(x) in journal.contents.found for journal in _journals(graph))


def _journals(graph: Graph | None) -> Iterator[Journal]:
    """Yield the journals of the branches and loops that run, innermost first."""
    journal: Any = graph and graph.journal
    while journal is not None:
        yield journal
        journal = journal.outer


def check_left(graph: Graph, journal: Any) -> None:
    """Raise unless all branches and loops that have begun have ended, but for that of this journal."""
    if graph.journal is not journal:
        raise UnsupportedError(
            "an exception from a branch that depends on a traced value is caught outside of the branch",
            "Catch it inside of the branch: symgrad traces both sides, whatever the value is.",
            getattr(graph.journal, "where", None),
        )


def raised(error: Any, cause: Any = None) -> Any:
    """Return what to raise instead of an error: in a branch on a traced value, it becomes a check of the program."""
    graph = tracing.get()
    journals = [*_journals(graph)]
    inner = next((journal for journal in journals if journal.branch or journal.repeated), None)
    if graph is None or inner is None or not any(journal.branch for journal in journals):
        return error
    if not inner.catches:
        return UnsupportedError(
            "an error is raised in a loop inside of a branch on a traced value, or in branches nested too deeply",
            "Move the test out of the function: check its arguments before the call, or its results after it.",
        )
    if cause is not None:
        return UnsupportedError(
            "`raise ... from ...` in a branch that depends on a traced value",
            "Leave out `from`, and write the cause into the message.",
        )
    check_uncaught(graph.guards, error)
    raising(graph, error, inner.made)
    return Left(inner, graph)


def caught() -> None:
    """Raise if a handled exception comes from an array that is read-only during the trace."""
    graph, error = tracing.get(), sys.exception()
    if graph is not None and graph.journal is not None and error is not None:
        found = graph.journal.explained(error)
        if found is not error:
            raise found from error
        if isinstance(error, IndexError) and "list" in str(error):
            for journal in _journals(graph):
                if not all(is_whole(entry.holder) for entry in journal.contents.found.values()):
                    raise UnsupportedError(
                        "an IndexError is caught in a loop that appends to a list",
                        "Test the index first: if i < len(x).",
                    )


def check_draw(function: Any) -> None:
    """Raise if random numbers are drawn where one iteration is traced for all, or both sides of a branch."""
    graph = tracing.get()
    if graph is None or not graph.body:
        return
    if not type(getattr(function, "__self__", None)).__module__.startswith(_RANDOM) and not name_of_entropy(function):
        return
    if graph.journal is None or any(journal.branch or journal.repeated for journal in _journals(graph)):
        raise _drawn_once(function.__name__)


def _drawn_once(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} draws random numbers in a loop or a branch that is traced once",
        "Draw an array of numbers before the loop or the branch, or pass it as an argument.",
    )


_RANDOM = ("numpy.random", "random")
"""The modules of generators, which take a while to import."""
