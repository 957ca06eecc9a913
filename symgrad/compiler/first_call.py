"""The check of a program at its first call: Python's own run of the function, the graph as traced, the program.

What conversion makes of loops and branches rests on what it understands of a function. So the first call on arrays is
answered three times: by Python, which runs the function as it is written, on copies of the arguments; by the
interpreter, which evaluates the graph node by node and knows no aliases and no buffers; and by the generated program.
Where two of them disagree by more than rounding, the program is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.analysis.cost import most_iterations
from symgrad.analysis.rounding import Rounding, Values, agrees, furthest
from symgrad.core import tree
from symgrad.core.graph import SEED, Aval, Node, reached, without_tokens
from symgrad.core.interpret import Watch, at_sizes, interpret, symbols_in, values_of
from symgrad.core.provenance import Where
from symgrad.core.region import regions_of, with_nested
from symgrad.core.sizes import Dim
from symgrad.core.undo import setting
from symgrad.errors import DisagreementError, StateError
from symgrad.frontend.effects import Effects
from symgrad.frontend.trace import Run, TracedMeanwhile, definition, plainly
from symgrad.frontend.variable import Variable
from symgrad.ops.checks import CHECK, Action, Raise, action_of, muted, told as told_of
from symgrad.ops.control import SCAN, own_sizes

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled

SECONDS = 1.0  # that the check may take
CALL = 5e-6  # seconds to evaluate a node, at least
NUMBER = 2e-9  # seconds for each number that it computes
ITERATIONS = 30  # of a loop of which only running tells how many it has
ILL = 0.4
"""Power of the precision that results may differ by: rounding in bodies of ill-conditioned loops is not measured."""
INSTEAD = (
    "The program is not used. Report it with the function and its arguments, unless the function itself does something "
    "else while it is traced. check_first=False leaves the comparison out."
)


class _Late(Exception):
    """The check takes too long."""


class _Difference(NamedTuple):
    """The number with the largest error: its place, and both values."""

    place: str
    got: str
    expected: str


def check_first_call(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> str | None:
    """Raise unless Python, the interpreter and the program agree on a call, to which the program gave `result`.

    What Python gives is left out where it raises, where the function has drawn random numbers, where nobody can take
    back what it does, and where it would compile something. Where the function changes something outside of it, Python
    calls it twice: return the name of what changes the second result, "" for nothing, None where that is not known.
    """
    check = _Check(compiled, args, kwargs)
    if not check.evaluate():
        return None
    check.compare_program(result)
    found = [check.compare_python(run) for run in check.runs] if not compiled.program.graph.drawn else [None]
    return None if None in found else next(filter(None, found), "")


def differs(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, expected: Any) -> str:
    """Return how another program's result of a call differs from the expected one; "" if by rounding alone.

    Where they are not near each other the graph decides, evaluated node by node, with its own rounding.
    """
    pairs = list(zip(tree.flatten(result)[0], tree.flatten(expected)[0], strict=True))
    if all(_near(x, y) for x, y in pairs):
        return ""
    check = _Check(compiled, args, kwargs)
    if not check.evaluate():
        return "by more than is sure to be rounding"
    try:
        check.compare_program(result)
    except DisagreementError as error:
        return error.fact
    return ""


def _near(got: Any, expected: Any) -> bool:
    """Whether two results are the same, but for rounding."""
    x, y = _array(got), _array(expected)
    if x is None or y is None:
        return type(got) is type(expected) and bool(got == expected)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    with np.errstate(all="ignore"):
        return bool(agrees(x, y, np.zeros(x.shape), None).all())


def check_first_error(compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
    """Raise unless Python and the interpreter raise as the program does, by one of its checks."""
    check = _Check(compiled, args, kwargs)
    found = check.error()
    if found is not None and not _alike(found, error):
        raise check.disagreement(f"the generated program raises {_named(error)}, and the graph {_named(found)}")
    for run in check.runs if found is not None and not compiled.program.graph.drawn else ():
        check.compare_error(run, error)


def _alike(a: BaseException, b: BaseException) -> bool:
    """Whether two exceptions are of one class, and say the same but for rounding."""
    return type(a) is type(b) and _words(a) == _words(b)


def _words(error: BaseException) -> str:
    """Return the text of an exception without numbers and the layout of arrays."""
    return re.sub(r"[-+\s\d.\[\]]|\b(e|nan|inf)\b|(?<=\d)e(?=[-+\d])", "", str(error))


def _named(error: BaseException | None) -> str:
    return "nothing" if error is None else f"{type(error).__name__}({', '.join(map(repr, error.args))})"


class _Raised(Exception):
    """A check of the graph has raised."""


def _listen(action: Action, arguments: Sequence[Any]) -> None:
    """Do nothing but raise."""
    if isinstance(action, Raise):
        raise _Raised(action.error(*arguments))


class _Check:
    """A call, and the interpreter's results for it."""

    def __init__(self, compiled: Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._compiled, self._graph = compiled, compiled.program.graph
        arrays, given = compiled.guard.taken_apart(args, kwargs)
        self._feeds: dict[Node, Any] = dict(zip(self._graph.inputs, arrays.values(), strict=True))
        self._sizes = {n: size for x, y in self._feeds.items() for n, size in symbols_in(x.aval, y).items()} | given
        self.runs = [run for run in self._graph.runs if not any(x.op is SEED for x in reached(_nodes_of(run)))]
        self._wanted = [*dict.fromkeys([*self._graph.outputs, *(x for run in self.runs for x in _nodes_of(run))])]

    def evaluate(self) -> bool:
        """Evaluate the graph as it was traced; False where that takes too long, or NumPy refuses the numbers."""
        told: list[str] = []
        try:
            if _seconds(reached(self._wanted), self._sizes) > SECONDS:
                return False
            ignore = np.errstate(all="ignore", over="call", under="call", call=lambda kind, flag: told.append(kind))
            with ignore, told_of(_listen):
                self._values = values_of(self._wanted, self._feeds, self._sizes, _until(perf_counter() + SECONDS))
        except _Raised as raised:
            (error,) = raised.args
            raise self.disagreement(f"the graph raises {_named(error)}, and the generated program does not") from None
        except Exception:
            return False
        self._left_range = bool(told)
        return True

    def error(self) -> Exception | None:
        """Return what a check of the graph raises; None where none does, or it takes too long."""
        try:
            with np.errstate(all="ignore"), told_of(_listen):
                values_of(self._wanted, self._feeds, self._sizes, _until(perf_counter() + SECONDS))
        except _Raised as raised:
            error: Exception = raised.args[0]
            return error
        except Exception:
            return None
        return None

    def compare_error(self, run: Run, error: Exception) -> None:
        """Compare an exception of Python's own run of a function with that of the program."""
        if any(isinstance(x, Node) and x not in self._feeds for x in run.given):
            return  # what it is given has been computed
        given = [self._feeds[x] if isinstance(x, Node) else self._value(x) for x in run.given]
        effects = self._compiled.program.effects or Effects(run.function, given)
        if not effects.revocable:
            return
        found = _run_by_python(run, effects, given)
        if not isinstance(found, Exception) or not _alike(found, error):
            raised = found if isinstance(found, Exception) else None
            name = getattr(run.function, "__name__", "function")
            raise self.disagreement(
                f"{name} raises {_named(raised)} where Python runs it, and {_named(error)} as it was traced"
            )

    def disagreement(self, fact: str) -> DisagreementError:
        return self._error(fact, self._compiled.program.where)

    # ---- the generated program

    def compare_program(self, result: Any) -> None:
        """Compare the program's results with the graph's."""
        program = self._compiled.program
        paths, leaves, _ = tree.flatten_with_paths(program.outputs)
        given = zip(paths, leaves, tree.flatten(result)[0], strict=True)
        traced = [(path, got) for path, x, got in given if isinstance(x, Variable)]
        for i, ((path, got), node) in enumerate(zip(traced, without_tokens(self._graph.outputs), strict=True)):
            found = self._difference(got, node, lambda got, expected, i=i: self._rewritten(got, expected, i))  # type: ignore[misc]
            if found is not None:
                raise self._error(
                    f"{path.codify('result')}{found.place} is {found.got} by the generated program, and "
                    f"{found.expected} by the graph that it was generated from",
                    program.where,
                )

    def _rewritten(self, got: np.ndarray, expected: np.ndarray, i: int) -> np.ndarray:
        """Return where a result may differ because a rewrite has avoided, or made, a NaN or an infinity."""
        other = np.asarray(self._after_rewrites[i])
        doubtful = self._left_range | ~np.isfinite(expected) | ~np.isfinite(other)
        return doubtful & (~np.isfinite(other) | agrees(got, other.astype(got.dtype), np.zeros(got.shape), None))

    @cached_property
    def _after_rewrites(self) -> list[Any]:
        graph = self._compiled.whole
        outputs = without_tokens(graph.outputs)
        return interpret(outputs, dict(zip(graph.inputs, self._feeds.values(), strict=True)), self._sizes)

    # ---- Python

    def compare_python(self, run: Run) -> str | None:
        """Compare the results of Python's own run of a function with the graph's; return what changes the next ones."""
        given = [self._value(x) for x in run.given]
        effects = self._compiled.program.effects or Effects(run.function, given)
        if not effects.revocable:
            return None
        leaves = _run_by_python(run, effects, given)
        if isinstance(leaves, Exception):
            if type(leaves) in self._raises:
                raise self.disagreement(f"Python raises {_named(leaves)}, and the generated program does not")
            return None
        if leaves is None:
            return None
        found = self._first_difference(run, leaves)
        if found is None:
            return self._compare_again(run, given, effects) if effects.changes else ""
        if not _same(leaves, _run_by_python(run, effects, given)):  # as it depends on the clock
            return None
        name = getattr(run.function, "__name__", "function")
        raise self._error(
            f"{name} returns {found.got} where Python runs it, and {found.expected} as it was traced{found.place}",
            definition(run.function),
        )

    def _compare_again(self, run: Run, given: Sequence[Any], effects: Effects) -> str | None:
        """Return what gives a second call by Python another result; it finds the state that the first one has left.

        Where it does not, the next call may be compiled for that state, unless it was traced values.
        """
        before = "other numbers"
        leaves = _run_by_python(run, effects, list(map(_nearby, given)), given)
        if leaves is None or isinstance(leaves, Exception):  # those numbers are none for this function
            before = "the same arguments"
            leaves = _run_by_python(run, effects, given, given)
        if leaves is None:
            return None
        name = getattr(run.function, "__name__", "function")
        if isinstance(leaves, Exception):
            fact = f"raises {_named(leaves)}"
        elif found := self._first_difference(run, leaves):
            fact = f"returns {found.got} instead of {found.expected}{found.place}"
        else:
            return ""
        if not effects.dropped or _alike_runs(leaves, _run_by_python(run, effects, given, after=True)):
            return effects.moved
        places = ", ".join(dict.fromkeys(effects.dropped))
        raise StateError(
            f"where Python calls {name} after a call with {before}, it {fact}: it depends on {places}, "
            "which the call before has set",
            f"Take {places} as an argument, and return the new value. With check_first=False each call computes what "
            "the first one would.",
            definition(run.function),
        )

    @cached_property
    def _raises(self) -> set[type[BaseException]]:
        """The exceptions of checks."""
        actions = [action_of(x) for x in with_nested(self._graph.live) if x.op is CHECK]
        return {action.error for action in actions if isinstance(action, Raise)}

    def _value(self, x: Any) -> Any:
        """Return the value of a leaf of the arguments of a run, in this call."""
        if isinstance(x, Node):
            return self._values[x]
        return at_sizes(x, self._sizes) if isinstance(x, Dim) else x

    def _first_difference(self, run: Run, leaves: Sequence[Any]) -> _Difference | None:
        for path, x, got in zip(run.returns.accessors(), run.results, leaves, strict=True):
            found = self._difference(got, x, self._not_finite) if isinstance(x, Node) else None
            if found is not None:
                place = path.codify("") + found.place
                return found._replace(place=f", at {place}" * bool(place))
        return None

    def _not_finite(self, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Return where the graph may differ from Python because its formula avoids a NaN or an infinity."""
        return ~np.isfinite(got) | (self._left_range & ~np.isfinite(expected))

    # ---- numbers

    def _difference(
        self, got: Any, node: Node, other: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> _Difference | None:
        """Return how a value differs by more than rounding from that of a node; None if it does not.

        `other` says where it may: where numbers left their range on the way, or are not finite.
        """
        got, expected = _array(got), _array(self._values[node])
        if got is None or expected is None:
            return None
        if got.shape != expected.shape:
            return _Difference("", f"an array of shape {got.shape}", f"one of shape {expected.shape}")
        dtype = _common(got.dtype, expected.dtype)
        with np.errstate(all="ignore"):
            got, expected = got.astype(dtype), expected.astype(dtype)
            right = agrees(got, expected, np.zeros(got.shape), None)
            rtol = float(np.finfo(dtype).eps) ** ILL if dtype.kind in "fc" else None
            for allowed in (other, lambda got, expected: agrees(got, expected, self._noise(node), rtol)):
                right |= True if right.all() else allowed(got, expected)
            return None if right.all() else _Difference(*furthest(got, expected, ~right))

    def _noise(self, node: Node) -> np.ndarray:
        """Return how far rounding moves a value."""
        return np.asarray(self._rounded.noise[self._wanted.index(node)])

    @cached_property
    def _rounded(self) -> Values:
        feeds = [*self._feeds.values()]
        return Rounding(self._graph, feeds, self._sizes, self._wanted).at(feeds, self._sizes)

    def _error(self, fact: str, where: Where) -> DisagreementError:
        return DisagreementError(f"the first call of {self._compiled.header.function}: {fact}", INSTEAD, where)


def _nodes_of(run: Run) -> list[Node]:
    return [x for x in (*run.given, *run.results) if isinstance(x, Node)]


def _seconds(nodes: Sequence[Node], sizes: dict[str, int]) -> float:
    """Return the estimated seconds that the interpreter takes."""
    unknown = dict.fromkeys(own_sizes(with_nested(nodes)), ITERATIONS)
    return sum(_seconds_of(node, {**unknown, **sizes}) for node in nodes)


def _seconds_of(node: Node, sizes: dict[str, int]) -> float:
    inside = [x for region in regions_of(node) for x in region.nodes]
    iterations = at_sizes(most_iterations(node), sizes) if node.op is SCAN else 1
    numbers = prod(at_sizes(node.aval.shape, sizes)) if isinstance(node.aval, Aval) else 0
    return CALL + NUMBER * numbers + iterations * sum(_seconds_of(x, sizes) for x in inside)


def _until(end: float) -> Watch:
    """Return a function that raises when the time is over."""

    def watch(node: Node) -> None:
        if perf_counter() > end:
            raise _Late

    return watch


def _run_by_python(
    run: Run, effects: Effects, *calls: Sequence[Any], after: bool = False
) -> list[Any] | Exception | None:
    """Return what Python's own run gives, a value for each traced leaf, or raises; None if it is not to be compared.

    Of several calls, each finds the state that the one before has left, and the last one counts.
    """
    try:
        with effects.revoked(after=after), setting(plainly, True), muted(), np.errstate(all="ignore"):
            for given in calls:
                args, kwargs = tree.unflatten(run.takes, map(_copied, given))
                try:
                    result = run.function(*args, **kwargs)
                except Exception as error:
                    return error
        leaves = run.returns.flatten_up_to(result)
        made_in_trace = any(isinstance(x, Variable) for x in leaves)  # a closure, which holds traced values
        return None if made_in_trace else leaves
    except (Exception, TracedMeanwhile):
        return None


def _copied(x: Any) -> Any:
    """Return a copy of an array, and any other value as it is."""
    return np.array(x, order="K") if isinstance(x, np.ndarray) else x


def _nearby(x: Any) -> Any:
    """Return other floats near given ones: of the same sign if positive, and within [0, 1] where these are."""
    if type(x) in (float, complex):
        return x + (0.7 - x) / 16
    is_float = isinstance(x, (np.ndarray, np.inexact)) and x.dtype.kind in "fc"
    return np.asanyarray(x + (0.7 - x) / np.asarray(16, x.dtype)) if is_float else x


def _alike_runs(xs: list[Any] | Exception | None, ys: list[Any] | Exception | None) -> bool:
    """Whether two runs give the same, but for rounding, or raise the same."""
    if isinstance(xs, list) and isinstance(ys, list):
        return all(map(_near, xs, ys))
    return isinstance(xs, Exception) and isinstance(ys, Exception) and _alike(xs, ys)


def _same(xs: Sequence[Any] | Exception | None, ys: Sequence[Any] | Exception | None) -> bool:
    """Whether two runs return the same bits."""
    if xs is None or ys is None or isinstance(xs, Exception) or isinstance(ys, Exception):
        return False
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(xs, ys, strict=True))


def _array(x: Any) -> np.ndarray | None:
    """Return numbers as an array; None for anything else, as for lists that are no arrays."""
    try:
        array = np.asarray(x)
    except ValueError:
        return None
    return array if array.dtype.kind in "biufc" else None


def _common(*dtypes: np.dtype) -> np.dtype:
    """Return the dtype to compare in: the less precise of floating ones."""
    floating = [dtype for dtype in dtypes if dtype.kind in "fc"]
    if not floating:
        return np.result_type(*dtypes)
    least = max(floating, key=lambda dtype: np.finfo(dtype).eps)
    return np.result_type(least, np.complex64) if any(dtype.kind == "c" for dtype in floating) else least
