"""Exceptions, warnings and prints of a function that is traced, as checks of the program."""

from __future__ import annotations

import builtins
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from symgrad.core.graph import INPUT, ITEM, SEED, Graph, Node, freeze, is_token, tracing
from symgrad.core.options import current
from symgrad.core.provenance import here, internal
from symgrad.core.region import closed
from symgrad.core.sizes import Dim
from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.frontend.chains import go_on_from, token
from symgrad.frontend.guards import Try, guards_of, lets_pass, name_of
from symgrad.frontend.texts import Part, as_text, by_format, by_join, is_unknown, pieces_of
from symgrad.frontend.variable import lift
from symgrad.ops.checks import CHECK, Action, Argument, Given, Known, Print, Raise, Slot, Text, Warn
from symgrad.ops.operands import is_traced
from symgrad.ops.positions import Places

_PLAIN = (str, bool, int, float, complex, type(None))


class Message:
    """The arguments of an action, and the values in them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: list[Node] = []

    def argument(self, x: Any) -> Argument | None:
        """Return an argument of an exception; None where it is no text, number or array."""
        if isinstance(x, Places):  # which no value of a known size is
            return None
        if is_unknown(x) or isinstance(x, np.ndarray) or is_traced(x):
            return Given(self._number(x))
        if isinstance(x, np.generic):
            return Given(self._number(x)) if x.dtype.kind in "biufc" else None
        if type(x) in _PLAIN and not isinstance(x, str):
            return Known(x)
        return self.text(x) if isinstance(x, str) else None

    def text(self, x: str) -> Text | None:
        """Return a text; None where it cannot be split into its traced values."""
        pieces = pieces_of(x)
        return None if pieces is None else Text(tuple([p if isinstance(p, str) else self._slot(p) for p in pieces]))

    def printed(self, x: Any) -> Argument | None:
        """Return the arguments of `print`: values, or text for anything else."""
        found = self.argument(x)
        is_text = found is None or isinstance(x, str)
        text = as_text(x) if is_text or _is_of_values(x) else ""  # which is refused where a class decides it
        return self.text(text) if is_text else found

    def _slot(self, part: Part) -> Slot:
        return Slot(self._number(part.value), part.conversion, part.spec, part.axis)

    def _number(self, value: Any) -> int:
        node = lift(self.graph, value)
        if node not in self.values:
            self.values.append(node)
        return self.values.index(node)


def record(message: Message, action: Action, is_made: Callable[[Node], bool] = lambda x: False) -> None:
    """Record a check that always takes an action; it computes the values that are made for it alone."""
    graph = message.graph

    def is_own(x: Node) -> bool:
        made = is_made(x) and x.op is not SEED and x.op is not INPUT and not any(map(is_token, x.inputs))
        return made and (x.op is not ITEM or is_own(x.inputs[0]))

    body = closed(graph, (), message.values, is_own)
    pred = graph.constant(True)
    node = graph.add(CHECK, (token(graph), pred, *body.parameters), freeze(CHECK, {"action": action, "body": body}))
    go_on_from(graph, graph.item(node, 0))


# ---- exceptions


class Left(BaseException):
    """Leaves the branch of a journal, which has raised: a check does so when the program runs."""

    def __init__(self, journal: Any, graph: Graph) -> None:
        self.journal, self.chain = journal, graph.chain


def raising(graph: Graph, error: Any, is_made: Callable[[Node], bool]) -> None:
    """Add the check that raises an error in any case, in a branch for which values were made."""
    error = error() if isinstance(error, type) and issubclass(error, BaseException) else error
    message, kind = Message(graph), type(error)
    _check_class(error)
    arguments = [message.argument(x) for x in error.args]
    if None in arguments:
        raise UnsupportedError(
            f"{kind.__name__} is raised in a branch that depends on a traced value, with an argument that is not text, "
            "a number or an array",
            "Pass one f-string of the values as its message.",
        )
    if current().checks:
        record(message, Raise(kind, tuple(arguments)), is_made)  # type: ignore[arg-type]


def _check_class(error: BaseException) -> None:
    """Raise unless an exception is no more than its class and its arguments."""
    kind = type(error)
    made = [name for base in kind.__mro__ for name in ("__init__", "__new__") if _is_users(base.__dict__.get(name))]
    if made or vars(error) or not isinstance(error, Exception):
        raise UnsupportedError(
            f"{kind.__name__} is raised in a branch that depends on a traced value, but has its own constructor, "
            "attributes or notes",
            "Raise an exception that has only a message: class MyError(ValueError): pass.",
        )


def _is_users(function: Any) -> bool:
    return isinstance(function, staticmethod) or hasattr(function, "__code__")


def check_uncaught(guards: Sequence[Any], error: Any) -> None:
    """Raise where something around may catch an exception, which the trace does not raise."""
    caught = next((x for x in guards if not lets_pass(x, error)), None)
    if caught is not None:
        what = "try" if type(caught) is Try else f"with {name_of(caught)}(...)"
        raise UnsupportedError(
            f"an error is raised in a branch that depends on a traced value, inside of `{what}`, which may catch it",
            f"Put what the handler does into the branch, or move the branch out of the `{what.partition(' ')[0]}`.",
        )
    found = _catching_frame()
    if found is not None:
        raise UnsupportedError(
            f"an error is raised in a branch that depends on a traced value, and {found.co_name}, whose source "
            "symgrad does not convert, may catch it",
            "Move the test out of the function: check its arguments before the call, or its results after it.",
        )


def _catching_frame() -> CodeType | None:
    """The code of a function between the check and the trace that has handlers, and is not converted."""
    from symgrad.frontend.conversion.templates import RUNTIME

    frame, found, last = sys._getframe(1), list[CodeType](), 0
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_run_contained" and internal(code):
            last = len(found)
        if not internal(code) and RUNTIME not in code.co_freevars and code.co_exceptiontable:
            found.append(code)
        frame = frame.f_back  # type: ignore[assignment]
    return found[0] if last else None


# ---- warnings and prints


def warned(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
    """``warnings.warn(message, category)``"""
    graph = tracing.get()
    if graph is None:
        warnings.warn(message, category, stacklevel + 1, source, **more)
        return
    if isinstance(message, Warning):
        _check_class(message)
        category, (message, *_) = type(message), (*message.args, "")
    found = Message(graph)
    text = found.text(message) if isinstance(message, str) else None
    if text is None:
        raise UnsupportedError(
            "symgrad cannot see how the message of a warning depends on traced values",
            "Write the message as an f-string.",
        )
    guard = next((x for x in guards_of(graph) if isinstance(x, warnings.catch_warnings)), None)
    if guard is not None:
        raise UnsupportedError(
            "the function warns inside of `with warnings.catch_warnings()`, which the compiled program does not have",
            "Put the `with` around the call of the function.",
        )
    if current().checks:
        where = here()
        record(found, Warn(category or UserWarning, (text,), str(where).partition(":")[0], where.line))


def shown(*args: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False) -> None:
    """``print(*args)``"""
    graph = tracing.get() or next((x.value.graph for x in _parts(args) if is_traced(x.value)), None)
    streams = {id(None): "", id(sys.stdout): "", id(sys.stderr): "stderr"}
    if graph is None or not _is_kept(graph, args, id(file) in streams):
        builtins.print(*args, sep=sep, end=end, file=file, flush=flush)
        return
    plain = {"sep": " " if sep is None else sep, "end": "\n" if end is None else end}
    message = Message(graph)
    found = [message.printed(x) for x in args]
    if None in found or id(file) not in streams or any(type(x) is not str for x in plain.values()):
        raise UnsupportedError(
            "print writes to a file, or prints text in which symgrad cannot find the traced values",
            "Print values and f-strings of them; write files outside of the function.",
        )
    _check_text(graph)
    if current().checks:
        record(message, Print(tuple(found), stream=streams[id(file)], flush=bool(flush), **plain))  # type: ignore[arg-type]


def _check_text(graph: Graph) -> None:
    """Raise where a text would be written differently inside of the context managers that are entered."""
    managers = [*map(name_of, guards_of(graph))]
    found = next((name for name in managers if name in ("redirect_stdout", "redirect_stderr", "printoptions")), None)
    if found is not None:
        raise UnsupportedError(
            f"the function prints inside of `with {found}(...)`, which the compiled program does not have",
            "Put the `with` around the call of the function.",
        )


def _is_kept(graph: Graph, args: Sequence[Any], is_stream: bool) -> bool:
    """Whether printing is a part of the program: of traced values, of texts and numbers, and in bodies."""
    if graph.body or any(_is_of_values(x) for x in args):
        return True
    return is_stream and all(type(x) in _PLAIN or isinstance(x, (np.generic, Dim)) for x in args)


def _parts(args: Sequence[Any]) -> Iterator[Part]:
    """Yield the values in texts."""
    for x in args:
        yield from (piece for piece in (pieces_of(x) if isinstance(x, str) else None) or () if isinstance(piece, Part))


def _is_of_values(x: Any) -> bool:
    if type(x) in (list, tuple, dict):
        return any(map(_is_of_values, x.values() if type(x) is dict else x))
    return is_traced(x) or isinstance(x, Places) or (isinstance(x, str) and (pieces_of(x) is None or any(_parts([x]))))


def of_text(method: Any) -> Callable[..., Any]:
    """Return the replacement of a string's method."""
    if method.__name__ == "join":
        return partial(by_join, method.__self__)
    if method.__name__ == "format":
        return lambda *args, **kwargs: by_format(method.__self__, args, kwargs)
    found: Callable[..., Any] = method
    return found


def debug_print(fmt: str, /, *args: Any, **kwargs: Any) -> None:
    """Print values of a program when it runs.

    Parameters
    ----------
    fmt : str
        As `str.format` takes it.
    *args, **kwargs
        What it is given: traced values, or any others.

    Raises
    ------
    ArgumentError
        If `fmt` is no text, or has been formatted already, as an f-string is.

    Notes
    -----
    In a traced function a plain ``print`` does the same; ``sg.debug_print`` has the name and the meaning of
    ``jax.debug.print``, and works in functions of which there is no source. A program prints once in each call, also
    where it computes derivatives; ``checks=False`` leaves prints out.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     sg.debug_print("x = {:.2f}", x)
    ...     return x ** 2
    >>> sg.grad(f)(1.5)
    x = 1.50
    np.float64(3.0)
    """
    if type(fmt) is not str:
        raise ArgumentError(
            f"sg.debug_print is given {fmt!r}", 'Give a text with braces, and the values: sg.debug_print("{:.3f}", x).'
        )
    shown(by_format(fmt, args, kwargs))
