"""Random numbers that are drawn while a function is traced: taken back with a body that is traced again, and told."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ctypes import string_at
from functools import cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Graph, tracing
from symgrad.core.provenance import Where, here, in_library
from symgrad.core.sizes import number_of
from symgrad.core.undo import setting
from symgrad.errors import FrozenRandomWarning, UnsupportedError
from symgrad.frontend.reach import Name
from symgrad.frontend.readings import Readings, is_clock, name_of_clock, name_of_entropy
from symgrad.ops.operands import is_traced


class Drawn(NamedTuple):
    """A random generator, how it is called in a warning, and where it is drawn from."""

    generator: Any
    label: str
    where: Where | None = None


class Mark(NamedTuple):
    """The states of random generators at one time."""

    noted: int  # how many draws were noted before
    states: list[tuple[Drawn, Any]]  # of the generators that are known by name
    read: int  # how many readings of clocks bodies had made


class Draws:
    """The random generators that a trace draws from: those that are known by name, and those of noted calls."""

    def __init__(self, names: Sequence[Name]) -> None:
        kinds = _kinds()  # once: a function may reach a thousand names
        named = [n for n in names if isinstance(n.value, kinds) and _is_generator(n.value)]
        self._known = [Drawn(n.value, f"the random generator {n.name}", n.where) for n in named]
        self._noted: list[tuple[Drawn, Any]] = []  # with the states before
        self._since = 0  # from here on they were noted behind the latest mark
        self._before = self._states()
        self.readings = Readings()

    def _states(self) -> list[tuple[Drawn, Any]]:
        return [(x, _state(x.generator)) for x in (*self._known, *_shared())]

    def note(self, generator: Any, label: str) -> None:
        """Note that a generator is about to be drawn from."""
        if not any(x.generator is generator for x, _ in self._noted[self._since :]):
            self._noted.append((Drawn(generator, label, here()), _state(generator)))

    def mark(self) -> Mark:
        """Return how the generators are now."""
        self._since = len(self._noted)
        return Mark(self._since, self._states(), self.readings.at)

    def take_back(self, mark: Mark) -> None:
        """Let the generators be as they were."""
        for drawn, state in [*reversed(self._noted[mark.noted :]), *mark.states]:
            if _is_changed(drawn.generator, state):
                _restore(drawn.generator, state)
        del self._noted[mark.noted :]
        self._since, self.readings.at = mark.noted, mark.read

    def drawn_since(self, mark: Mark) -> bool:
        """Whether a generator that is known by name has been drawn from."""
        return any(_is_changed(x.generator, state) for x, state in mark.states)

    def tell(self) -> bool:
        """Warn of the generators that were drawn from and that another call would find again; say whether any was."""
        first = {id(x.generator): x for x, _ in reversed(self._noted)}
        found = self.readings.tell(warn)
        for known, state in self._before:
            noted = first.pop(id(known.generator), known)
            if _is_changed(known.generator, state):
                found = True
                warn(f"{noted.label or known.label} is drawn from", noted.where or here())
        self._noted, others = [], [*first.values()]
        first.clear()
        if any(map(_outlives, others)):
            gc.collect()  # what traced loops have held
        for noted in filter(_outlives, others):
            found = True
            warn("a random generator is drawn from", noted.where or here())
        return found


_draws: ContextVar[Draws | None] = ContextVar("draws", default=None)


@contextmanager
def told(graph: Graph, names: Sequence[Name]) -> Iterator[None]:
    """Trace a function that uses these names inside of this context, and warn of its draws at the end."""
    if _draws.get() is None:
        _last.forget()
    draws = Draws(names)
    with setting(_draws, draws):
        yield
        graph.drawn |= draws.tell()


def note_draw(function: Any) -> None:
    """Note that a function is about to be called, if it is one that draws random numbers."""
    draws, generator = _draws.get(), generator_of(function)
    if draws is not None and generator is not None:
        shared = next((x.label for x in _shared() if x.generator is generator), "")
        draws.note(generator, shared and f"{shared}.{function.__name__}")


def mark() -> Mark | None:
    """Return how the random generators are now."""
    draws = _draws.get()
    return None if draws is None else draws.mark()


def take_back(before: Mark | None) -> None:
    """Reset random generators: the code that drew from them is run again."""
    draws = _draws.get()
    if draws is not None and before is not None:
        draws.take_back(before)


def rewind(before: Mark | None) -> None:
    """Let clocks be as they were: the code that read them may run again."""
    draws = _draws.get()
    if draws is not None and before is not None:
        draws.readings.at = before.read


def drawn_since(before: Mark | None) -> bool:
    """Whether random numbers were drawn, also by functions of libraries."""
    draws = _draws.get()
    return draws is not None and before is not None and draws.drawn_since(before)


def warn(
    fact: str,
    where: Where,
    become: str = "numbers become",
    instead: str = "Draw them outside of the function, and pass them",
) -> None:
    """Warn that random numbers, or what else changes from call to call, become part of the program."""
    warnings.warn_explicit(
        f"{fact} while a function is traced: the {become} part of the program, the same at every call.\n"
        f"  at {where}: {where.text}\n"
        f"  {instead} as an argument.",
        FrozenRandomWarning,
        where.file,
        where.line,
    )


# ---- generators


def python_random() -> Any:
    """Python's ``random``, once it has been imported."""
    return _imported("random")


def numpy_random() -> Any:
    """``np.random``, if somebody has asked for it: NumPy imports it only then, which takes a while."""
    return _imported("numpy.random")


def _imported(name: str) -> ModuleType | None:
    """A module that somebody has imported to its end; a trace may stand in the middle of its import."""
    found = sys.modules.get(name)
    if not isinstance(found, ModuleType):
        return None
    own = ModuleType.__getattribute__(found, "__dict__")  # not by what stands in for attributes during a trace
    return None if getattr(own.get("__spec__"), "_initializing", False) else found


def _shared() -> list[Drawn]:
    """Return the generators of modules, from which functions such as ``np.random.normal`` draw."""
    random, pythons = numpy_random(), python_random()
    found = [Drawn(random.mtrand._rand, "np.random")] if random else []
    return [*found, Drawn(pythons.random.__self__, "random")] if pythons else found


def generator_of(function: Any) -> Any:
    """The generator that a function of NumPy's or of Python's draws from, which is a method of it."""
    generator = getattr(function, "__self__", None)
    return generator if _is_generator(generator) else None


def _is_generator(x: Any) -> bool:
    kinds, without = _classes(numpy_random(), python_random())
    return isinstance(x, kinds) and not isinstance(x, without)


def _kinds() -> tuple[type, ...]:
    """The classes of generators, of modules that somebody has imported."""
    return _classes(numpy_random(), python_random())[0]


@cache  # every function of NumPy that is called in a trace is looked at
def _classes(random: Any, pythons: Any) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """The classes of generators, and those among them that have no state."""
    kinds = (random.Generator, random.RandomState) if random else ()
    return (*kinds, pythons.Random) if pythons else kinds, (pythons.SystemRandom,) if pythons else ()


def _state(generator: Any) -> Any:
    random = numpy_random()
    if random and isinstance(generator, random.Generator):
        return generator.bit_generator.state
    if random and isinstance(generator, random.RandomState):
        return _last.of(generator) if generator is random.mtrand._rand else generator.get_state(legacy=False)
    return generator.getstate()


class _Last:
    """The state of the generator of ``np.random`` when it was read last.

    NumPy takes 40 microseconds for it, and each body that is traced asks twice. The memory of a Mersenne Twister tells
    in one whether anything was drawn since, unless a second normal number is left over.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Read it again next time: between traces a program may restore a state with a number left over."""
        self._memory, self._state = b"", {"has_gauss": 1}

    def of(self, generator: Any) -> dict[str, Any]:
        memory = _memory_of(generator._bit_generator)
        if not memory or memory != self._memory or self._state["has_gauss"]:
            self._memory, self._state = memory, generator.get_state(legacy=False)
        return self._state


_last = _Last()
_TWISTER = 625 * 4  # bytes: 624 numbers, and which of them is the next one


def _memory_of(bits: Any) -> bytes:
    """Return the memory of a Mersenne Twister; of another generator nothing."""
    if type(bits).__name__ != "MT19937":
        return b""
    return string_at(bits.ctypes.state_address, _TWISTER)


def _restore(generator: Any, state: Any) -> None:
    random = numpy_random()
    if random and isinstance(generator, random.Generator):
        generator.bit_generator.state = state
    elif random and isinstance(generator, random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def _is_changed(generator: Any, state: Any) -> bool:
    return not _same(_state(generator), state)


def _same(a: Any, b: Any) -> bool:
    """Whether two states of a generator are equal: numbers, and arrays of them, by their names."""
    if a is b:
        return True
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else bool(a == b)


def _outlives(drawn: Drawn) -> bool:
    """Whether a generator outlives the call that has drawn from it: the next call would find it again."""
    return _references(drawn) > _references(Drawn(object(), ""))


def _references(drawn: Drawn) -> int:
    return sys.getrefcount(drawn.generator)


# ---- what is called instead


def drawing(function: Any) -> Callable[..., Any] | None:
    """Note a draw; return the replacement of a function that makes a generator, reads a clock or permutes an array."""
    note_draw(function)
    note_entropy(function)
    if is_clock(function):
        return partial(_read, function)
    written = _PERMUTATIONS.get(getattr(function, "__name__", ""))
    random, pythons = numpy_random(), python_random()
    if isinstance(function, type):
        makers = (
            *((random.RandomState, random.BitGenerator) if random else ()),
            *([pythons.Random] if pythons else ()),
        )
        made = issubclass(function, makers) and not (pythons and issubclass(function, pythons.SystemRandom))
        return partial(_made, function) if made else None
    if written is None or not random or not isinstance(generator_of(function), (random.Generator, random.RandomState)):
        return None
    return partial(written, function)


def note_entropy(function: Any) -> None:
    """Note that a function is about to be called, if it is one that asks the system's random generator."""
    draws = _draws.get()
    if draws is not None and (name := name_of_entropy(function)):
        draws.readings.note(name)


def _read(clock: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Read a clock. Libraries read it for their progress bars and logs, which is nothing to tell."""
    draws, graph, name = _draws.get(), tracing.get(), name_of_clock(clock, len(args) + len(kwargs))
    if draws is None or graph is None or not name:
        return clock(*args, **kwargs)
    if not in_library():
        draws.readings.note(name)
    return draws.readings.read(clock, *args, **kwargs) if graph.body else clock(*args, **kwargs)


def _made(kind: Any, *args: Any, **kwargs: Any) -> Any:
    warn_of_unseeded(*args, *kwargs.values())
    return kind(*map(number_of, args), **{name: number_of(x) for name, x in kwargs.items()})


def warn_of_unseeded(*seeds: Any) -> None:
    """Warn of a generator that is made without a seed."""
    if all(x is None for x in seeds):
        graph = tracing.get()
        if graph is not None:
            graph.drawn = True
        warn("a random generator without a seed is made", here())


def _shuffle(function: Any, x: Any, axis: int = 0) -> Any:
    """``rng.shuffle(x)``, which swaps rows in memory."""
    if not is_traced(x):
        return function(x, axis) if axis else function(x)
    x[...] = np.take(x, _shuffled(function, x.shape[axis]), axis)
    return None


def _shuffled(function: Any, n: int) -> np.ndarray:
    order = np.arange(n)
    function(order)
    return order


def _permutation(function: Any, x: Any, axis: int = 0) -> Any:
    if not is_traced(x) or not x.shape:
        return function(x, axis) if axis else function(x)
    return np.take(x, function(x.shape[axis]), axis)


def _choice(
    function: Any, a: Any, size: Any = None, replace: bool = True, p: Any = None, *rest: Any, **more: Any
) -> Any:
    if not is_traced(a) or not a.shape:
        return function(a, size, replace, p, *rest, **more)
    return np.take(a, function(a.shape[more.get("axis", 0)], size, replace, p), more.get("axis", 0))


class _Sequences(type):
    """Refuse a traced array where `shuffle` asks for a sequence: it swaps rows by views, and would double some."""

    def __instancecheck__(cls, x: Any) -> bool:
        if is_traced(x):
            raise UnsupportedError(
                "a traced array is shuffled by a function that is not converted",
                "Write x = x[rng.permutation(len(x))].",
            )
        return isinstance(x, Sequence)


class Swapped(metaclass=_Sequences):
    """Stands for `Sequence` in NumPy's modules of generators while a function is traced."""


_PERMUTATIONS: dict[str, Callable[..., Any]] = {"shuffle": _shuffle, "permutation": _permutation, "choice": _choice}
