"""Options of the compiler: explicit ones, those of a context, and the defaults."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, _GeneratorContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from os import environ
from typing import Any, Literal, TypedDict, Unpack

from symgrad.core.text import did_you_mean
from symgrad.core.undo import setting
from symgrad.errors import ArgumentError

TARGETS = ("numpy", "c", "auto")


@dataclass(frozen=True)
class Options:
    """Options of the compiler."""

    optimize: int = 2
    numerics: str = "stable"
    threads: int | None = None
    cache_size: int = 64
    check_nan: bool = False
    loops: str | int = "auto"
    check_first: bool = True
    checks: bool = True
    target: str = "numpy"

    def __post_init__(self) -> None:
        if type(self.optimize) is not int or self.optimize not in (0, 1, 2):
            raise ArgumentError(f"optimize={self.optimize!r} is not a level", "Write 0, 1 or 2.")
        if not _is_one_of(self.numerics, ("stable", "ieee")):
            raise ArgumentError(f"numerics={self.numerics!r} is unknown", 'Write "stable" or "ieee".')
        if not _is_one_of(self.target, TARGETS):
            raise ArgumentError(f"target={self.target!r} is unknown", 'Write "numpy", "c" or "auto".')
        for name in ("check_nan", "check_first", "checks"):
            if type(getattr(self, name)) is not bool:
                raise ArgumentError(f"{name}={getattr(self, name)!r} is not a boolean", "Write True or False.")
        if type(self.cache_size) is not int or self.cache_size < 1:
            raise ArgumentError(f"cache_size={self.cache_size!r} is not a positive integer", "Write 1 or more.")
        if not _is_one_of(self.loops, ("auto", "unroll")) and (type(self.loops) is not int or self.loops < 0):
            instead = 'Write "auto", "unroll", or the number of iterations from which on a loop stays a loop.'
            raise ArgumentError(f"loops={self.loops!r} is unknown", instead)
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            instead = "Write 1 or more, or None for as many threads as cores."
            raise ArgumentError(f"threads={self.threads!r} is not a positive integer", instead)

    def of_source(self) -> dict[str, Any]:
        """Return the options that the source depends on; `loops` and `checks` only if they are not the defaults."""
        chosen = {name: getattr(self, name) for name in OF_SOURCE}
        usual = {name for name in ("loops", "checks") if chosen[name] == getattr(_DEFAULT, name)}
        return {name: value for name, value in chosen.items() if name not in usual}


def _is_one_of(x: Any, words: Collection[str]) -> bool:
    return isinstance(x, str) and x in words


class Chosen(TypedDict, total=False):
    """The options as keywords, for type checkers; `Options` has the same."""

    optimize: Literal[0, 1, 2]
    numerics: Literal["stable", "ieee"]
    threads: int | None
    cache_size: int
    check_nan: bool
    check_first: bool
    checks: bool
    loops: Literal["auto", "unroll"] | int
    target: Literal["numpy", "c", "auto"]


class OfTransform(Chosen, total=False):
    """The options as a transform takes them."""

    static_argnums: int | Sequence[int]
    static_argnames: str | Sequence[str]


NAMES = frozenset(f.name for f in fields(Options))
OF_TRANSFORM = frozenset(OfTransform.__annotations__)
OF_SOURCE = ("optimize", "numerics", "threads", "loops", "checks")

_DEFAULT = Options()


def of_environment(variables: Mapping[str, str]) -> Options:
    """Return the options that a process begins with; an empty variable is one that is not set."""
    target = variables.get("SYMGRAD_TARGET") or _DEFAULT.target
    if target not in TARGETS:
        raise ArgumentError(f"SYMGRAD_TARGET={target} is unknown", "Set it to numpy, c or auto, or leave it out.")
    return Options(target=target)


_FIRST = of_environment(environ)
in_use: ContextVar[Options] = ContextVar("options", default=_FIRST)
"""The options in force; `current` gives them."""


def current() -> Options:
    """Return the options in force here."""
    return in_use.get()


def resolve(explicit: Mapping[str, Any]) -> Options:
    """Return the options in force, updated by those given explicitly."""
    return replace(in_use.get(), **explicit) if explicit else in_use.get()


def checked(explicit: Mapping[str, Any]) -> dict[str, Any]:
    """The explicit options, refusing unknown names and values at once rather than at the first call."""
    check_names(explicit, NAMES)
    if explicit:
        replace(_DEFAULT, **explicit)
    return dict(explicit)


def is_nearly_option(name: str) -> bool:
    """Whether a keyword looks like a mistyped option."""
    return name not in NAMES and bool(get_close_matches(name, NAMES, 1, 0.8))


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse a keyword that is not known, naming one that looks like it."""
    for name in given:
        if name not in known:
            options = f"Options are {', '.join(sorted(NAMES))}."
            raise ArgumentError(f"unknown option {name}=", did_you_mean(name, sorted({*known, *NAMES}), options))


def in_force(chosen: Options) -> AbstractContextManager[None]:
    """Use these options for traces inside the block."""
    return setting(in_use, chosen)


def options(**changed: Unpack[Chosen]) -> _GeneratorContextManager[None]:
    """Set options for all that is compiled inside a ``with`` block.

    Parameters
    ----------
    optimize : int
        0 the graph as it is, 1 simplified straight-line code, 2 what runs fastest.
    numerics : str
        ``"stable"``, or ``"ieee"`` to leave out rewrites that can change a NaN or an infinity, and to keep factors in
        their order, which matters where the product of some of them leaves the range of the dtype.
    threads : int or None
        How many threads may work on one call; None for as many as cores. Results do not depend on it.
    cache_size : int
        How many programs a Function keeps, for the dtypes, sizes and options that it was called with.
    loops : str or int
        ``"auto"`` to keep loops of many iterations as loops, and branches and loops that depend on traced values, which
        are converted from the source of functions; a number of iterations from which on they are kept; ``"unroll"`` to
        convert nothing: the iterations stand one after the other.
    check_nan : bool
        Whether a call raises `NonFiniteError` where a result is NaN, or infinite though all arguments are finite,
        naming the user's line or the argument that makes it so. It costs a look at the results.
    check_first : bool
        Whether the first call of a program with loops or branches is compared with Python's own run of the function and
        with the graph, evaluated node by node; where one disagrees, `DisagreementError` is raised, and the program is
        not used. It is left out where it would take more than a second.
    checks : bool
        Whether the program raises, warns and prints where the function does so depending on traced values. Without
        checks it goes on as if no test had failed, and is silent.
    target : str
        ``"numpy"`` for source that calls NumPy, or ``"c"`` for C, which a compiler of this machine makes machine code
        of: elementwise functions, reductions, indexing, small products, loops and branches are C, and NumPy computes
        the rest. ``"auto"`` runs NumPy at once, compiles C in the background when a program has run for longer than
        that takes, and lets C take over where it gives the same results faster. The variable of the environment
        ``SYMGRAD_TARGET`` is what a process begins with.

    Raises
    ------
    ArgumentError
        For an unknown option or value.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> with sg.options(optimize=0):
    ...     sg.grad(np.sin)(0.0)
    np.float64(1.0)
    """
    return _options(checked(changed))


@contextmanager
def _options(changed: Mapping[str, Any]) -> Iterator[None]:
    with in_force(replace(in_use.get(), **changed)):
        yield
