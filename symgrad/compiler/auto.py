"""``target="auto"``: a program that begins with NumPy, and goes on in C where that is faster and the same.

A program goes through these stages, each of which takes the place of `Compiled.run`: NumPy, with its time measured;
NumPy, while C is compiled in the background; one call whose arguments and results are copied, for the background to
compare C with; some calls that NumPy and C answer in turns; and then the faster one, as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from itertools import count
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.compiler.first_call import differs
from symgrad.core import tree
from symgrad.core.background import Ended, background
from symgrad.core.progress import logger
from symgrad.core.region import with_nested
from symgrad.errors import CompilerError, SymgradError
from symgrad.ops.checks import CHECK, Raise, action_of

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled

COMPILER, NODE = 0.1, 1e-3  # estimated seconds of processor time to compile C: for any program, and for each operation
LOOK, MOST_SKIPPED = 5e-5, 100  # seconds of calls between two that are measured; and at most so many calls
ORDER = (0, 1, 1, 0)  # NumPy and C, in turns in which a size that alternates meets both
CALLS, MOST_CALLS, LONG = 4, 40, 0.02  # of each: at least; at most; and seconds after which no more are needed
GAIN = 0.9  # of NumPy's time that C may take


class _Job(NamedTuple):
    """A job of the background: the stage that it follows, the state meanwhile, and the job itself."""

    stage: Callable[..., Any]
    state: str
    do: Callable[[], None]


class Trial:
    """The way of a program from NumPy to C.

    Attributes
    ----------
    state : str
        Its stage in words, or why the program stays with NumPy.
    """

    def __init__(self, compiled: Compiled, in_c: Callable[[], Compiled]) -> None:
        self._compiled, self._in_c, self._numpy = compiled, in_c, compiled.run
        self._job: _Job | None = None
        reason = _against(compiled)
        self.state = f"NumPy: {reason}"
        if not reason:
            self.restart()

    def restart(self) -> None:
        """Begin with NumPy."""
        self._set("NumPy, until it has run for longer than compiling C takes", self._measured())

    def work(self) -> None:
        """Do the job at hand, in the background. No failure of it concerns the caller."""
        job, self._job = self._job, None
        if job is None or job.stage is not self._compiled.run:  # another thread was first
            return
        self._set(job.state, self._numpy)
        try:
            job.do()
        except Ended:
            return
        except SymgradError as error:
            self._stay(error.fact)
        except Exception as error:
            self._stay(f"{type(error).__name__}: {error}")

    def _hand_over(self, job: _Job) -> None:
        """Let the background do a job. The stage ends as the job begins; until then a call hands it over anew."""
        self._job = job
        background.submit(self)

    def _set(self, state: str, run: Callable[..., Any]) -> None:
        self.state, self._compiled.run = state, run

    def _stay(self, reason: str) -> None:
        self._set(f"NumPy: {reason}", self._numpy)
        self._log()

    def _log(self) -> None:
        if "logging" in sys.modules:
            logger().info("%s: %s", self._compiled.header.function, self.state)

    # ---- the stages

    def _measured(self) -> Callable[..., Any]:
        """Return the NumPy program, which asks for C when it has run for long enough.

        Of short calls one in many is measured, and counts for all of them.
        """
        run, patience = self._numpy, self._patience()
        spent, skipped, left = 0.0, 0, 0

        @wraps(run)
        def measured(*args: Any, **kwargs: Any) -> Any:
            nonlocal spent, skipped, left
            if left > 0:
                left -= 1
                return run(*args, **kwargs)
            start = perf_counter()
            result = run(*args, **kwargs)
            seconds = perf_counter() - start
            spent += seconds * (1 + skipped)
            left = skipped = min(int(LOOK / max(seconds, 1e-9)), MOST_SKIPPED)
            if spent >= patience and not self._compiled.unchecked:
                self._hand_over(_Job(measured, "NumPy, while C is compiled", self._compile))
            return result

        return measured

    def _patience(self) -> float:
        """Return the seconds that NumPy runs first: none where another process has found C to be faster."""
        from symgrad.targets.c.kernels import module_name
        from symgrad.targets.c.toolchain import is_known_faster

        if is_known_faster(self._compiled.emitted.text, module_name(self._compiled.program.name)):
            return 0.0
        return COMPILER + NODE * sum(1 for _ in with_nested(self._compiled.whole.live))

    def _compile(self) -> None:
        native = self._in_c()
        if not native.native:
            self._stay("it has nothing that C computes")
        else:
            self._set("NumPy, until a call has been compared with C", self._compared(native))

    def _compared(self, native: Compiled) -> Callable[..., Any]:
        """Return the NumPy program, of which one call goes to the background to be compared."""

        @wraps(self._numpy)
        def compared(*args: Any, **kwargs: Any) -> Any:
            given = _copied(args), _copied(kwargs)
            result = self._numpy(*args, **kwargs)
            job = partial(self._compare, native, given, _copied(result))
            self._hand_over(_Job(compared, "NumPy, while C is compared with it", job))
            return result

        return compared

    def _compare(self, native: Compiled, given: tuple[tuple[Any, ...], dict[str, Any]], expected: Any) -> None:
        args, kwargs = given
        with np.errstate(all="ignore"):
            got = native.run(*args, **kwargs)
        fact = differs(self._compiled, args, kwargs, got, expected)
        if fact:
            self._stay(f"C gives something else: {fact}")
        else:
            self._set("NumPy and C in turns, to see which is faster", self._in_turns(native))

    def _in_turns(self, native: Compiled) -> Callable[..., Any]:
        """Return both programs, taking turns until it is known which is faster."""
        runs, calls = (self._numpy, native.run), count()
        seconds: tuple[list[float], list[float]] = [], []

        @wraps(self._numpy)
        def in_turns(*args: Any, **kwargs: Any) -> Any:
            which = ORDER[next(calls) % len(ORDER)]
            start = perf_counter()
            result = runs[which](*args, **kwargs)
            seconds[which].append(perf_counter() - start)
            least = min(map(len, seconds))
            enough = least >= MOST_CALLS or (least >= CALLS and sum(map(sum, seconds)) >= LONG)
            if enough and self._compiled.run is in_turns:
                self._decide(native, *map(median, seconds))
            return result

        return in_turns

    def _decide(self, native: Compiled, by_numpy: float, by_c: float) -> None:
        if by_c > GAIN * by_numpy:
            self._stay(f"C takes {by_c / by_numpy:.2g} times as long")
            return
        from symgrad.targets.c.kernels import module_name
        from symgrad.targets.c.toolchain import note_faster

        self._compiled.native = native.native
        self._compiled.__dict__.pop("source", None)
        self._set(f"C, {by_numpy / by_c:.2g} times as fast as NumPy", native.run)
        self._log()
        note_faster(self._compiled.emitted.text, module_name(self._compiled.program.name))


def _against(compiled: Compiled) -> str:
    """Return why a program is NumPy for good: there is no compiler, or a call cannot be made twice; "" if it is not."""
    from symgrad.targets.c.toolchain import required

    try:
        required()
    except CompilerError as error:
        return error.fact.removeprefix('target="c": ')
    checks = (action_of(x) for x in with_nested(compiled.program.graph.live) if x.op is CHECK)
    if not all(isinstance(action, Raise) for action in checks):
        return "it warns or prints, which comparing would do twice"
    return ""


def _copied(x: Any) -> Any:
    """Return a tree with copies of its arrays."""
    return tree.tree_map(lambda leaf: np.array(leaf, order="K") if isinstance(leaf, np.ndarray) else leaf, x)
