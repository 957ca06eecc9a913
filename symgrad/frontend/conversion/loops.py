"""Loops: run as Python runs them, or recorded as a node from one traced iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from symgrad.core import tree
from symgrad.core.graph import Graph
from symgrad.core.options import current
from symgrad.core.provenance import here, path_of_calls
from symgrad.core.sizes import Dim, at_most
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.frontend.bodies import check_test
from symgrad.frontend.conversion.branches import going_on
from symgrad.frontend.conversion.construct import Construct, caller, truth
from symgrad.frontend.conversion.contents import HiddenStateError
from symgrad.frontend.conversion.growing import Growing, behind
from symgrad.frontend.conversion.items import Items, items_of
from symgrad.frontend.conversion.iterators import note_advanced
from symgrad.frontend.conversion.mutable import UNDEFINED
from symgrad.frontend.conversion.slots import Unstable
from symgrad.frontend.conversion.state import Journal, Run, is_whole, perhaps_never_raised
from symgrad.frontend.conversion.turns import Iterations
from symgrad.frontend.conversion.twice import DifferingTracesError
from symgrad.ops.operands import is_traced

AUTO = 16
"""Known iterations from which on a loop is recorded as one, where ``loops="auto"``."""

MOST = 1_000
"""Most items that a generator is asked for, where a traced value decides whether to go on."""

PEELED = 2
"""Most iterations that run as in Python before the others are traced: enough for recurrences of second order."""

FEW, MANY, MANY_OF_FEW = 4, 300, 600
"""A loop of `FEW` iterations or more is recorded if all of them would make more than `MANY` nodes; one of two or three
if they would make more than `MANY_OF_FEW`: nests of such loops repeat the innermost body nine times and more."""


def limit() -> int:
    """Return from how many iterations on a loop is recorded."""
    chosen = current().loops
    return chosen if isinstance(chosen, int) else AUTO


class Repetition(Construct):
    """Base of `for` and `while` loops.

    While Python can decide everything, iterations run as in Python. Once it asks for a traced value, or the iterations
    become many, their effects are undone and `Iterations` traces one. Where it changes the type of its state, as the
    first iteration does with ``total = 0`` and ``total = total + x``, that one is peeled: it runs as in Python, and one
    of the others is traced. Where that fails, too, and the number of iterations is known, all run as in Python.
    """

    def __init__(
        self, kept: Sequence[str], given: Sequence[str], read: Sequence[str], flags: Sequence[str] = ()
    ) -> None:
        super().__init__(kept, given, read)
        self.flags = flags
        self.iterations: Iterations | None = None
        self.count = 0
        self._error: BaseException | None = None
        self._failure: BaseException | None = None  # why the first one could not be traced for all
        self._entry: dict[str, Any] = {}
        self._run: Run | None = None  # what iterations in Python do, as long as that may be taken back
        self._plain = self.graph is None  # for good
        self.peeled = 0  # iterations that run as in Python before one is traced
        self._start: dict[str, Any] = {}  # the entry of the first iteration, where `_entry` is behind those
        self._growing: Growing | None = None
        self._follows = False  # whether it is traced at once because an earlier trace of what is around has traced it
        self._may_follow = True  # until that has failed

    def more(self) -> bool:
        """Whether there is another iteration."""
        return self.next(caller())

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        return self.ended(caller(), error)

    # ---- iterations as in Python

    def next(self, local: dict[str, Any]) -> bool:
        self.sets = False
        if self.iterations is not None:
            return self._traced(local)
        if self._error is not None:
            assert self._run is not None
            self._run.abandon()
            self._run = None
            return self._failed(local, self._error)
        if not self.count:
            self._entry = {name: local.get(name, UNDEFINED) for name in self.kept}
            if self.graph is not None:
                self._open(local)
            self._start = self._entry
            if not self._plain and not self.peeled and (self.at_once() or self._was_replaced()):
                return self._begin(local)
            if not self._plain and (self.peeled or self.may_be_traced()):
                self._note({**local, **self._entry})
        going = going_on(*(local.get(flag, False) for flag in self.flags))
        run = self._run
        if run is not None and self.peeled:
            return self._peel(run, local, going)
        if run is not None and (is_traced(going) or run.journal.pending or self.is_large(run.made)):
            return self._back(local)
        if is_traced(going) and self.count >= MOST:
            raise UnsupportedError(
                f"a traced value decides when a loop over an iterator ends, and has not ended it after {MOST:,} items",
                "Loop over range(n) or an array, or write a while loop.",
            )
        more = going is not False and self.step()
        if not more:
            self._keep()
            self._note_failure()
            if self._growing:
                self._close(local, {**self._entry, **{name: local.get(name, UNDEFINED) for name in self.kept}})
        self.count += more
        return more

    def _open(self, local: dict[str, Any]) -> None:
        """Let names hold lists that an iteration may append to, for the arrays that earlier loops have made of them."""
        self._growing = self._growing or Growing(local, self._entry)
        if self._growing:
            self._entry = self._growing.opened(self._entry)
            self.give(self._entry)

    def _close(self, local: dict[str, Any], values: dict[str, Any]) -> None:
        """Let names hold arrays again."""
        assert self.graph is not None and self._growing is not None
        found = behind(self.graph, self._growing.lists, [], local, values)
        self.give(self._growing.closed(local, found))

    def _note(self, local: dict[str, Any]) -> None:
        """Begin to note the effects of iterations in Python, if all of them can be seen."""
        try:
            self._run = Run(self.graph, local, self.read)  # type: ignore[arg-type]
        except HiddenStateError as error:  # which matters only if a traced value decides how the loop goes on
            error.forget()
            self._plain, self._failure = True, error

    def at_once(self) -> bool:
        """Whether iterations are traced from the first one on."""
        raise NotImplementedError

    def may_be_traced(self) -> bool:
        """Whether iterations may yet have to be traced."""
        raise NotImplementedError

    def is_large(self, nodes: int) -> bool:
        """Whether iterations that have made so many nodes are better traced."""
        return False

    def step(self) -> bool:
        """Whether Python has another iteration."""
        raise NotImplementedError

    def has(self, count: int) -> bool:
        """Whether there are so many iterations, as far as can be known before they run."""
        raise NotImplementedError

    def is_known(self) -> bool:
        """Whether Python can run all iterations."""
        raise NotImplementedError

    def may_not_run(self) -> bool:
        """Whether a traced value decides whether there is an iteration at all."""
        return False

    def _note_failure(self) -> None:
        """Note why the iterations are not traced, for `Compiled.explain`."""
        error = self._failure
        if self.graph is None or error is None:
            return
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, (Unstable, SymgradError)):
            why = f"{error.fact} ({error.where})" if error.where.line else error.fact
        self.graph.unrolled[str(here())] = f"{self.count:,} iterations: {why}"

    def _keep(self) -> None:
        if self._run is not None:
            self._run.keep()
            self._run = None

    def ended(self, local: dict[str, Any], error: BaseException | None) -> bool:
        """End an iteration; whether its error is to be dropped."""
        if self.iterations is None:
            if error is None:
                return False
            found = self._run.explained(error) if self._run is not None else error
            if found is error or not isinstance(found, Exception):
                if self._run is not None and not self._run.is_left:
                    self._keep()
                return False
            self._error = found
            return True
        raised = error
        if raised is None:
            try:
                self.iterations.end(local)
            except (Unstable, SymgradError) as found:
                error = found
        else:
            assert self.graph is not None
            # before the branch that it left is abandoned
            explained = perhaps_never_raised(self.graph, raised, in_loop=self.may_not_run())
            error = self.iterations.abandon(raised)
            error = explained if error is raised else error
        if isinstance(error, (Unstable, SymgradError)) and self.iterations.try_first():
            if isinstance(error, SymgradError):
                error.forget()
            return True
        self._error = error
        if isinstance(error, DifferingTracesError):
            return False
        is_forgotten = isinstance(error, Unstable) or (isinstance(error, Exception) and self.is_known())
        if raised is not None and not is_forgotten:
            if self._run is not None and not self._run.is_left:
                self._keep()
            if error is not None and error is not raised:
                raise error from raised
        return is_forgotten

    # ---- iterations on stand-ins

    def _back(self, local: dict[str, Any]) -> bool:
        """Undo the iterations that ran in Python, and trace them."""
        assert self._run is not None
        self._run.abandon()
        self._run = None
        if self.is_known():
            assert self.graph is not None
            self.graph.replaced.setdefault(self._calls, _rounds(self.graph))
        return self._begin(local)

    def _was_replaced(self) -> bool:
        """Whether an earlier trace of the statements around has begun the loop in Python, and then traced it.

        It is traced at once then: the loops of a nest would begin in Python again for each trace of the outer ones.
        """
        assert self.graph is not None
        self._calls = path_of_calls()
        before = self.graph.replaced.get(self._calls) if self._may_follow else None
        self._follows = before is not None and before < _rounds(self.graph)
        return self._follows

    def _may_peel(self) -> bool:
        return self.peeled < PEELED and self.has(self.peeled + 1)

    def _peel(self, run: Run, local: dict[str, Any], going: Any) -> bool:
        """Go on to the next of the iterations that are peeled, or trace those behind them."""
        may_end = going is False or (is_traced(going) and self.count < self.peeled)
        if may_end or run.journal.pending:
            assert self._failure is not None
            return self._failed(local, self._failure)
        if self.count < self.peeled:
            more = self.step()
            self.count += more
            return more
        self._entry = {name: local.get(name, UNDEFINED) for name in self.kept}
        return self._begin(local)

    def _begin(self, local: dict[str, Any]) -> bool:
        assert self.graph is not None
        exact = self.is_known() or self._may_peel()
        self.iterations = Iterations(self.graph, self._entry, self.read, self.flags, self.items(), exact)
        return self._turn(local)

    def _turn(self, local: dict[str, Any]) -> bool:
        assert self.iterations is not None
        try:
            given = self.iterations.begin(local, self._entry)
        except HiddenStateError as error:
            return self._failed(local, error)
        self.give(self._entry | given)
        return True

    def _traced(self, local: dict[str, Any]) -> bool:
        assert self.iterations is not None
        if self._error is not None:
            return self._failed(local, self._error)
        if not self.iterations.stable:
            return self._turn(local)
        self._keep()
        values = self._entry | self.iterations.finish()
        self.give(self._growing.closed(local, values) if self._growing else values)
        return False

    def _failed(self, local: dict[str, Any], error: BaseException) -> bool:
        """Begin again after an error of the iteration that was traced: peel one more, or run all as in Python."""
        if self._run is not None:
            self._run.abandon()
            self._run = None
        if self._follows:  # begin as if there was no earlier trace
            self._may_follow = self._follows = False
            return self._again(local, error)
        self._failure = self._failure or error
        peels = isinstance(error, Unstable) and self._may_peel()
        if not peels and (not self.is_known() or isinstance(error, DifferingTracesError)):
            raise _refused(error if isinstance(error, DifferingTracesError) else self._failure)
        self.peeled = self.peeled + 1 if peels else 0
        self._plain = not peels
        return self._again(local, error)

    def _again(self, local: dict[str, Any], error: BaseException) -> bool:
        """Begin again."""
        if isinstance(error, SymgradError):
            error.forget()
        self.iterations, self._error, self.count = None, None, 0
        self._entry = self._start
        self.restart()
        more = self.next({**local, **self._entry})
        self.give(self._entry)
        return more

    def items(self) -> Items | None:
        """Return the items of the loop."""
        return None

    def restart(self) -> None:
        """Begin anew."""


def _rounds(graph: Graph) -> int:
    """Count how often the statements that are being traced have been traced before."""
    return graph.journal.rounds if isinstance(graph.journal, Journal) else 0


def _refused(error: BaseException) -> BaseException:
    return error.refusal() if isinstance(error, Unstable) else error


class For(Repetition):
    """``for target in items``; the flags of its jumps end it."""

    def __init__(
        self,
        items: Any,
        kept: Sequence[str],
        given: Sequence[str],
        read: Sequence[str],
        flags: Sequence[str],
        targets: Sequence[str],
    ) -> None:
        super().__init__(kept, given, read, flags)
        self._given, self._items = items, items_of(items)
        self._is_whole = is_whole(items)  # else an array stands for items that other iterations have appended
        self.targets = targets
        self._next: Any = None
        self._older = 0  # nodes that were there before the item
        self.restart()

    def restart(self) -> None:
        self._iterator: Iterator[Any] | None = iter(self._given) if self.is_known() else None
        if self._iterator is self._given:
            note_advanced(self._given)

    def items(self) -> Items | None:
        return self._items.after(self.peeled) if self._items is not None and self.peeled else self._items

    @property
    def item(self) -> Any:
        """Return the item of this iteration, the same in a body that is traced again, with the names of its targets."""
        item = self._next if self.iterations is None else self.iterations.item()
        leaves, _ = tree.flatten(item)
        for x, name in zip(leaves, self.targets, strict=False) if len(leaves) == len(self.targets) else ():
            if is_traced(x) and x.node.id >= self._older and name.strip("_"):
                x.graph.label(x.node, name)
        return item

    def at_once(self) -> bool:
        if self._items is None:
            return False
        length = self._items.length
        return not isinstance(length, int) or (length >= max(limit(), 1) and self._items.can_be_sliced)

    def may_be_traced(self) -> bool:
        if self._items is None or not self._items.can_be_sliced:
            return False
        fills = any(type(x) is list for x in self._entry.values())  # perhaps in some iterations only
        return fills or bool(self.flags) or self._items.length > 1

    def is_large(self, nodes: int) -> bool:
        if current().loops != "auto" or self._items is None or not self.count:
            return False
        length, most = self._items.length, MANY
        if length < FEW:  # lists of few items are read and changed in ways that arrays are not
            most = MANY_OF_FEW
            if any(isinstance(x, (list, dict)) for x in self._entry.values()):
                return False
        return bool(nodes * length > most * self.count)

    def is_known(self) -> bool:
        return self._is_whole and (self._items is None or isinstance(self._items.length, int))

    def has(self, count: int) -> bool:
        length = None if self._items is None else self._items.length
        return isinstance(length, (int, Dim)) and at_most(count, length)

    def step(self) -> bool:
        if self._items is not None:
            more: bool = self.count < self._items.length
            if more:
                self._older = len(self.graph.nodes) if self.graph is not None else 0
                self._next = next(self._iterator) if self._iterator is not None else self._items.at(self.count)
            return more
        found = next(self._iterator, _END)  # type: ignore[arg-type]
        self._next = found
        return found is not _END


_END = object()


class Each(For):
    """The loop of a comprehension: traced once an iteration has computed something; lists of Python values stay in
    Python.
    """

    def at_once(self) -> bool:
        items = self._items
        if items is None or not super().at_once():
            return False
        return not isinstance(items.length, int) or any(map(is_traced, items.arrays))

    def is_large(self, nodes: int) -> bool:
        many = self._items is not None and self._items.length >= max(limit(), 1)
        return (many and self.count > 0 and nodes > 0) or super().is_large(nodes)


class While(Repetition):
    """``while test``"""

    def __init__(self, kept: Sequence[str], given: Sequence[str], read: Sequence[str], flags: Sequence[str]) -> None:
        super().__init__(kept, given, read, flags)
        self._over = self._asks = self._changes = False
        self._decided = 0  # iterations of which Python could tell that they run

    def at_once(self) -> bool:
        return False

    def may_be_traced(self) -> bool:
        return True

    def is_large(self, nodes: int) -> bool:
        return current().loops == "auto" and self.count >= FEW and nodes > MANY

    def is_known(self) -> bool:
        return not self._asks

    def may_not_run(self) -> bool:
        return self._asks

    def restart(self) -> None:
        self._over = False

    def has(self, count: int) -> bool:
        return count <= self._decided

    def step(self) -> bool:
        return not self._over

    def holds(self, test: Any) -> bool:
        """Whether to run the body, of which `test` is the test."""
        known = truth(test)
        if self.iterations is not None:
            check_test(self.iterations.graph)
            self.iterations.test = known
            self._changes = self.iterations.has_changed(caller())
            return True
        self._over = known is False
        if known is True:
            self._decided = max(self._decided, self.count)
        if is_traced(known):
            self._asks = True
            return self._plain and self._truth(known)
        return known is True

    def is_test_left(self) -> Any:
        """Whether the test that ends the loop has still to be evaluated: no iteration includes its changes."""
        if self.iterations is None or not self._changes:
            return False
        local = caller()
        return going_on(*(local.get(flag, False) for flag in self.flags))

    def _truth(self, value: Any) -> bool:
        """Return a boolean that Python asks for; where it is traced, raise with the reason why the loop was not."""
        if is_traced(value) and self._failure is not None:
            raise _refused(self._failure)
        return bool(value)

    def next(self, local: dict[str, Any]) -> bool:
        if self.iterations is None and self.count and not self.peeled:
            flags = [truth(local.get(flag, False)) for flag in self.flags]
            self._asks |= any(map(is_traced, flags))
            if self._plain:
                return not any(map(self._truth, flags)) and super().next(local)
            if self._asks or self.count > limit():
                return self._back(local)
        return super().next(local)
