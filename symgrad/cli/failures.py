"""Failures of commands: one message, by origin of the error."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from symgrad.core.provenance import Where, installed, internal
from symgrad.errors import SymgradError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Failure(NamedTuple):
    """An error of a command, as a person and a script want it."""

    kind: str  # "error", "model" or "bug"
    message: str

    def json(self) -> dict[str, dict[str, str]]:
        return {"error": {"kind": self.kind, "message": self.message}}


def failure_of(error: BaseException) -> Failure:
    """The message of an error: symgrad's own, one of the model's code, or a bug in symgrad."""
    if isinstance(error, SymgradError):
        return Failure("error", _said(error))
    if isinstance(error, SyntaxError) and error.filename:
        place = ":".join([Path(error.filename).name, *([str(error.lineno)] if error.lineno else [])])
        return Failure("model", ": ".join(filter(None, (f"{error.msg}, in {place}", (error.text or "").strip()))))
    files = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [Where(code.co_filename, line) for code, line in files if not internal(code) and not installed(code)]
    said = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, UnicodeEncodeError) and not own:
        fact = f"the output is in {sys.stdout.encoding}, which has no {error.object[error.start]!a}"
        return Failure("error", f"{fact}\n  Set PYTHONUTF8=1, or save a file with -o: it is in UTF-8.")
    if isinstance(error, OSError) and not own:
        return Failure("error", f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    at = f"\n  at {own[-1]}: {own[-1].text}" if own else ""
    innermost = next((code for code, _ in reversed(files) if _is_symgrad(code) or not internal(code)), None)
    if own and innermost is not None and not _is_symgrad(innermost):
        return Failure("model", f"{said}{at}\n  The model's own code raised it.")
    report = "This is a bug in symgrad: --traceback shows where, and `symgrad info` belongs to a report."
    return Failure("bug", f"{said}{at}\n  {report}")


def _said(error: SymgradError) -> str:
    """The message of an error, without the line that runs the command: that is none of the user's."""
    frame, callers = sys._getframe(1), set()
    while frame := frame.f_back:  # type: ignore[assignment]
        callers.add(frame.f_code.co_filename)
    message = "\n  ".join(filter(None, (error.fact, error.instead))) if error.where.file in callers else str(error)
    return "\n".join([message, *getattr(error, "__notes__", ())])


def _is_symgrad(code: CodeType) -> bool:
    return code.co_filename.startswith(_PACKAGE)
