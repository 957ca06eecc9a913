"""Errors that a generated program raises, with the user's line added."""

from __future__ import annotations

from itertools import takewhile
from types import TracebackType
from typing import TYPE_CHECKING

from symgrad.core.graph import INPUT
from symgrad.errors import SymgradError

if TYPE_CHECKING:
    from symgrad.targets.numpy.module import Source

AT, OF_DERIVATIVE = "  at", "  in the derivative of"  # how notes begin


def add_users_line(error: Exception, file: str, source: Source) -> None:
    """Add the user's line to an error of NumPy's or Python's that a line of a generated source raises.

    Errors of symgrad name it by themselves.
    """
    line = _line_in(file, error.__traceback__)
    if line is None or isinstance(error, SymgradError) or _names_line(error):
        return
    nodes = [node for _, node in takewhile(lambda at: at[0] <= line, source.origins.items()) if node.op is not INPUT]
    if nodes and nodes[-1].where.line:
        where = nodes[-1].where
        error.add_note(f"{AT if where.of is None else OF_DERIVATIVE} {where}: {where.text}".rstrip(": "))


def _names_line(error: Exception) -> bool:
    """Whether an error has been noted in a kernel, which is nearer to the user's line than its call."""
    return any(note.startswith((AT, OF_DERIVATIVE)) for note in getattr(error, "__notes__", ()))


def _line_in(file: str, traceback: TracebackType | None) -> int | None:
    """Return the innermost line of a file in a traceback."""
    found = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            found = traceback.tb_lineno
        traceback = traceback.tb_next
    return found
