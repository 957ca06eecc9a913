"""Checks: what a program does besides computing results. It raises, warns and prints where the user's function does.

A check gives a token, and is given that of the check before it. So checks keep their order, and no pass needs to know
of them: a token is an operand and a result like any other, carried by loops and given by branches. That of the last
check is an output of the program. What nobody asks for is dead: a copy of a loop, which a derivative makes, checks
nothing.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import TOKEN, Node, Op
from symgrad.core.undo import setting
from symgrad.ops.define import operator, registered


class Slot(NamedTuple):
    """A value in a text: its number among the values of the message, and how it is written.

    `spec` is that of `format`, or of the operator ``%`` where it begins so. With an axis the value is a mask, of which
    the places are written where it holds.
    """

    value: int
    conversion: str = ""  # "r", "s" or "a"
    spec: str = ""
    axis: int | None = None


@dataclass(frozen=True, repr=False)
class Text:
    """An argument that is a text, with slots for values."""

    pieces: tuple[str | Slot, ...]

    def __repr__(self) -> str:
        return repr("".join([piece if type(piece) is str else "{}" for piece in self.pieces]))


@dataclass(frozen=True, repr=False)
class Given:
    """An argument that is a value itself."""

    value: int

    def __repr__(self) -> str:
        return "{}"


@dataclass(frozen=True, repr=False)
class Known:
    """An argument that is a number, None, or a boolean."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


Argument = Text | Given | Known


def _called(name: str, arguments: Sequence[Any]) -> str:
    return f"{name}({', '.join(map(repr, arguments))})"


@dataclass(frozen=True, repr=False)
class Raise:
    """Raise an exception."""

    error: type[BaseException]
    arguments: tuple[Argument, ...]

    def __repr__(self) -> str:
        return f"raise {_called(self.error.__name__, self.arguments)}"

    def do(self, arguments: Sequence[Any]) -> None:
        raise self.error(*arguments)


@dataclass(frozen=True, repr=False)
class Warn:
    """Warn as from a line of the user's."""

    error: type[Warning]
    arguments: tuple[Argument, ...]
    file: str
    line: int

    def __repr__(self) -> str:
        return _called("warn", (*self.arguments, self.error.__name__))

    def do(self, arguments: Sequence[Any]) -> None:
        warnings.warn_explicit(arguments[0], self.error, self.file, self.line)


@dataclass(frozen=True, repr=False)
class Print:
    """Print."""

    arguments: tuple[Argument, ...]
    sep: str = " "
    end: str = "\n"
    stream: str = ""  # "stderr", or that of Python's `print`
    flush: bool = False

    def __repr__(self) -> str:
        return _called("print", self.arguments)

    def do(self, arguments: Sequence[Any]) -> None:
        stream = sys.stderr if self.stream else None
        print(*arguments, sep=self.sep, end=self.end, file=stream, flush=self.flush)


Action = Raise | Warn | Print

Listener = Callable[[Action, Sequence[Any]], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def told(listener: Listener) -> AbstractContextManager[None]:
    """Call a function with the actions that the interpreter meets and their arguments, instead of taking them."""
    return setting(_listener, listener)


def only_raising() -> AbstractContextManager[None]:
    """Let checks raise in the interpreter, but neither warn nor print."""
    return told(lambda action, arguments: action.do(arguments) if isinstance(action, Raise) else None)


@contextmanager
def muted() -> Iterator[None]:
    """Let nothing be seen of what is printed, and of warnings: it has been shown, or is not asked for."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings(), only_raising():
        warnings.simplefilter("ignore")
        yield


def written(argument: Argument, values: Sequence[Any]) -> Any:
    """Return an argument with these values."""
    if isinstance(argument, Known):
        return argument.value
    if isinstance(argument, Given):
        return values[argument.value]
    return "".join([piece if type(piece) is str else _shown(piece, values) for piece in argument.pieces])  # type: ignore[arg-type]


def _shown(slot: Slot, values: Sequence[Any]) -> str:
    value = values[slot.value] if slot.axis is None else np.nonzero(values[slot.value])[slot.axis]
    if slot.spec.startswith("%"):
        return slot.spec % (value,)
    change: Any = {"s": str, "r": repr, "a": ascii}.get(slot.conversion)
    return format(value if change is None else change(value), slot.spec)


def _evaluated(token: Any, pred: Any, *operands: Any, action: Action, body: Any) -> tuple[Any]:
    if pred:
        values = body(*operands)
        arguments = [written(x, values) for x in action.arguments]
        listener = _listener.get()
        if listener is None:
            action.do(arguments)
        else:
            listener(action, arguments)
    return (token,)


CHECK = operator(
    _evaluated,
    name="check",
    arrays=2,
    infer=lambda token, pred, *operands, action, body: (TOKEN,),
    bind=lambda token, pred, *operands, action, body: ((token, pred, *operands), {"action": action, "body": body}),
)
"""Take an action if the second input is true: raise, warn or print, with what the region `body` makes of the operands.

The first input is the token of the check before, and so is the result. What a message needs is computed in the region:
only where there is one.
"""

START = registered(Op("start", lambda: np.False_, lambda: TOKEN, lambda: ((), {})))
"""The token before the first check."""


def action_of(node: Node) -> Action:
    """Return the action of a check."""
    action: Action = dict(node.params)["action"]
    return action
