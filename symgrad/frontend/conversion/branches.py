"""Branches: `if`, conditional expressions, `and`, `or`, `not`, `in`, and comparisons in a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, SEED, SIZE, Aval, Chain, Node, is_view
from symgrad.core.provenance import internal, user_frame
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.frontend.bodies import joined
from symgrad.frontend.chains import go_on_from, token
from symgrad.frontend.checks import Left
from symgrad.frontend.conversion.construct import Construct, caller, truth
from symgrad.frontend.conversion.growing import Growing, behind
from symgrad.frontend.conversion.jumps import VALUE
from symgrad.frontend.conversion.merging import Merging, merged
from symgrad.frontend.conversion.mutable import UNDEFINED
from symgrad.frontend.conversion.specials import call, users_method
from symgrad.frontend.conversion.state import Run, Snapshot, is_of_python, unwind
from symgrad.frontend.conversion.twice import Alike, differing, is_traced_twice
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.checks import CHECK
from symgrad.ops.control import EITHER, NUMBER, is_guarded
from symgrad.ops.define import TABLE
from symgrad.ops.operands import is_traced
from symgrad.ops.places import Side
from symgrad.ops.truths import of_one, of_python, without_mark


class Branch(Construct):
    """``if test``: one side runs where the test is known; else both are traced from the same state, one after the
    other.

    A side that raises is a check of the program, behind which the other side goes on as if there was no branch.
    """

    def __init__(self, test: Any, kept: Sequence[str], given: Sequence[str], read: Sequence[str] | None = None) -> None:
        super().__init__(kept, given, read)
        self._test: Any = truth(test)
        self._entry: dict[str, Any] = {}
        self._sides: list[Snapshot] = []
        self._rounds = self._since = 0
        self._raises = False  # whether the other side does, which depends on a traced value
        self._is_left = False  # whether the side that runs has raised
        self._left: bool | None = self._test if type(self._test) is bool else None  # the only side that goes on

    def again(self) -> bool:
        """Whether to go through the statements: once, or twice to compare two traces of both sides."""
        self._rounds += 1
        return self._rounds == 1 or (is_traced(self._test) and self._repeats(caller()))

    def then(self) -> bool:
        """Whether to run the side where the test holds."""
        return self._begins(caller()) if self._left is None else self._left

    def other(self) -> bool:
        """Whether to run the side where it does not hold."""
        return self._turns(caller()) if self._left is None else not self._left

    def ends(self) -> bool:
        """Whether both sides have run, and names are to be set to the joined values."""
        return self._left is None and self._joins(caller())

    def __enter__(self) -> None:
        if self._left is None:
            self._run.journal.catches = True

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, Exception) and self._raises and not isinstance(error, SymgradError):
            raise UnsupportedError(
                f"both sides of a branch that depends on a traced value raise; one of them {type(error).__name__}",
                "Let one of them return: a function that always raises computes nothing.",
            ) from error
        return type(error) is Left and self.catches(error)

    def catches(self, left: Left) -> bool:
        """Whether an exception has left the side that runs; what that side has begun is undone."""
        if self._left is not None or left.journal is not self._run.journal:
            return False
        unwind(self._run.graph, self._run.journal)
        self._run.graph.chain, self._is_left = left.chain, True
        return True

    def _begin(self, local: dict[str, Any]) -> None:
        chain = Chain(self._sides[-1].chain.first if self._sides else None, None, True)
        side = Side(self._test, len(self._sides) % 2 == 0)  # of a round
        self._run = Run(self._test.graph, {**local, **self._entry}, self.read, branch=True, chain=chain, side=side)
        self._run.journal.round = self._rounds

    def _begins(self, local: dict[str, Any]) -> bool:
        if not self._sides:
            self._entry = {name: local.get(name, UNDEFINED) for name in self.kept}
            self._growing = Growing(local, self._entry)
            self._entry = self._growing.opened(self._entry)
            if self._growing:
                self.give(self._entry)
        else:
            self._test.graph.forget(self._since)  # what a trace makes may depend on what it finds
        self._begin(local)
        self._since = self._run.since
        if self._run.journal.depth > DEEP:
            _check_recursion()
        return True

    def _turns(self, local: dict[str, Any]) -> bool:
        self._sides.append(self._run.undo(local, self.given))
        self.give(self._entry)
        if self._is_left:
            self._go_on(False, self._test)
        else:
            self._begin(local)
        return True

    def _go_on(self, side: bool, raises: Variable) -> None:
        """Let one side go on for good, where the other one, which was traced last, raises."""
        self._left, self._is_left, self._raises = side, False, True
        self.give(self._growing.closed({}, self._entry))
        _only_if(raises, self._sides.pop().chain, self._run)

    def _repeats(self, local: dict[str, Any]) -> bool:
        """Whether another round is needed, once one is over."""
        if self._left is not None:
            return False
        if self._is_left:
            self._sides = [self._run.undo(local, self.given)]
            self.give(self._entry)
            self._go_on(True, np.logical_not(self._test))
            return True
        if self._rounds > 2 or not is_traced_twice(self._run.journal):
            return False
        self._sides.append(self._run.undo(local, self.given))
        self.give(self._entry)
        return True

    def _joins(self, local: dict[str, Any]) -> bool:
        self._sides.append(self._run.undo(local, self.given))
        *before, then, other = self._sides
        if before and not all(map(Alike().snapshots, before, (then, other))):
            raise differing("a branch that depends on a traced value")
        merging = Merging(self._test.graph, self._test, self._since, self._run, (then, other))
        values, settle = merged(merging, self.given, then, other)
        settle()
        around, frame = self._test.graph, user_frame()
        local = {**frame.f_locals, **local} if frame is not None else local
        merging.twins.check([self._run.contents], {**local, **dict.fromkeys(self.kept)}, values)
        values = behind(around, merging.lists.values(), [self._run.contents], local, self._entry | values)
        self.give(self._growing.closed(local, values))
        return True


def _only_if(pred: Variable, chain: Chain, run: Run) -> None:
    """Add the checks of the side of a branch that raises, for where it is taken."""
    graph = pred.graph
    if chain.last is None:
        return
    check = chain.last.inputs[0]
    alone = check.op is CHECK and check.inputs[0] is chain.first
    made = run.found_since
    if alone and not any(x.id >= run.since or x in made for x in check.inputs[2:]):
        action = (token(graph), pred.node, *check.inputs[2:])
        go_on_from(graph, graph.item(graph.add(CHECK, action, check.params), 0))  # at the line of the test
    else:
        joined(graph, pred, [[], []], run.since, [chain, chain._replace(last=None)])


DEEP = 30
"""Branches in branches from which on a function that calls itself in each of them will not end."""


def _check_recursion() -> None:
    """Raise if a function calls itself again and again."""
    frames, frame = Counter[CodeType](), user_frame()
    while frame is not None:
        frames[frame.f_code] += not internal(frame.f_code)
        frame = frame.f_back
    code, times = frames.most_common(1)[0]
    if times >= DEEP:
        raise UnsupportedError(
            f"{code.co_name} calls itself in a branch that depends on a traced value",
            "Write a while loop: both sides of a branch are traced, whatever the value is.",
        )


# ---- expressions


def chosen(test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """``then() if test else other()``"""
    known: Any = truth(test)
    if not is_traced(known):
        return then() if known else other()
    branch = Branch(known, (VALUE,), (VALUE,))
    local: dict[str, Any] = {"then": then, "other": other}  # in whose closures is all that they can change

    def side(value: Callable[[], Any]) -> dict[str, Any]:
        with branch:
            return {**local, VALUE: value()}
        return local  # where it has raised

    branch._rounds = 1
    while True:
        branch._begins(local)
        branch._turns(side(then))
        if branch._left is not None:
            return other()
        found = side(other)
        branch._rounds += 1
        if not branch._repeats(found):
            break
        if branch._left is not None:
            return then()
    branch._joins(found)
    (value,) = branch.values
    return value


def both(a: Any, rest: Callable[[], Any]) -> Any:
    """``a and rest()``"""
    known: Any = truth(a)
    if not is_traced(known):
        return rest() if known else a
    found = _simple(known, rest, True)
    if type(found) is bool:
        return of_one(known, a, found) if found else False
    if found is None:
        return chosen(known, rest, lambda: False if known is a else a)
    return of_one(TABLE[np.logical_and](known, without_mark(found)), a, found)


def either(a: Any, rest: Callable[[], Any]) -> Any:
    """``a or rest()``"""
    known: Any = truth(a)
    if not is_traced(known):
        return a if known else rest()
    found = _simple(known, rest, False)
    if type(found) is bool:
        return of_one(Variable(known.graph, lift(known.graph, True)) if found else known, a, found)
    if found is None:
        return chosen(known, lambda: True if known is a else a, rest)
    return of_one(TABLE[np.logical_or](known, without_mark(found)), a, found)


def _simple(known: Variable, rest: Callable[[], Any], holds: bool) -> Any:
    """Return a boolean that is cheap and cannot fail, so that it need not wait for another one; None for any other.

    Else it is asked for only where the other one holds, or does not.
    """
    graph = known.graph
    run, before = Run(graph, {"rest": rest}, side=Side(known, holds)), graph.chain
    truths = False
    try:
        value = rest()
        truths = type(value) is bool or (is_traced(value) and value.dtype == bool and not value.shape)
        nodes = run.asked_for
    except Left:
        nodes = []
    except Exception as error:
        if not is_of_python(error):
            raise
        nodes = []  # it may never be reached: the branch that this becomes tells what is raised
    finally:
        unwind(graph, run.journal)
        changed = run.undo({})
    plain = len(nodes) <= SIMPLE and all(map(_cannot_fail, nodes)) and not (changed.places or changed.memory)
    plain = plain and changed.chain == before
    return value if truths and plain and known.dtype == bool else None


SIMPLE = 8  # operations


def _cannot_fail(node: Node) -> bool:
    op = node.op
    if is_guarded(node):
        return False
    if op in (CONSTANT, SIZE, SEED, NUMBER, EITHER):
        return True
    reads = is_view(node) and len(node.inputs) == 1  # at a place that is known to be there
    total = op.elementwise and op.pole is None and op.domain is None  # at no number it warns
    return type(node.aval) is Aval and not node.aval.shape and (reads or total)


def negation(a: Any) -> Any:
    """``not a``"""
    known: Any = truth(a)
    return of_python(np.logical_not(known)) if is_traced(known) else not known


def going_on(*flags: Any) -> Any:
    """Whether no flag is up."""
    known = [truth(flag) for flag in flags]
    if True in [flag for flag in known if not is_traced(flag)]:
        return False
    traced = [flag for flag in known if is_traced(flag)]
    return np.logical_not(reduce(np.logical_or, traced)) if traced else True


def chain(x: Any, y: Any, compare: Callable[[Any, Any], Any], *more: Any) -> Any:
    """``x < y < z``; `more` are what gives the next value, and how it is compared, in turns."""
    first = compare(x, y)
    if not more:
        return first

    def rest() -> Any:
        z = more[0]()
        return chain(y, z, *more[1:])

    return both(first, rest)


# ---- membership


def inside(x: Any, y: Any) -> Any:
    """``x in y``"""
    if (method := users_method(y, "__contains__")) is not None:
        return truth(call(method, y, x))
    return of_python(_is_inside(x, y))


def _is_inside(x: Any, y: Any) -> Any:
    if is_traced(y) and y.shape:
        return np.any(y == x)
    if isinstance(y, range) and _is_unknown(x):
        first, last = (y.start, y.stop - 1) if y.step > 0 else (y.stop + 1, y.start)
        return np.logical_and(np.logical_and(x >= first, x <= last), (x - y.start) % y.step == 0)
    if type(y) in _COLLECTIONS and (_is_unknown(x) or any(map(_is_unknown, y))):
        return reduce(lambda found, item: either(found, lambda: item is x or item == x), y, False)
    return x in y


_COLLECTIONS: tuple[type, ...] = (list, tuple, set, frozenset, dict, type({}.keys()), type({}.values()))


def outside(x: Any, y: Any) -> Any:
    """``x not in y``"""
    return negation(inside(x, y))


def _is_unknown(x: Any) -> bool:
    return is_traced(x) and not x.shape and x.known_value() is None
