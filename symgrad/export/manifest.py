"""The manifest of a saved module: ``__symgrad__ = {...}``, with its contents and its origin.

It is a literal, so that a module is read without being run. ``docs/formats.md`` says what its keys mean.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any

from symgrad.core import tree
from symgrad.core.sizes import Dim
from symgrad.core.text import displayed, laid_out
from symgrad.errors import ArgumentError
from symgrad.frontend.variable import Variable

if TYPE_CHECKING:
    from symgrad.export.origin import Origin

NAME, FORMAT = "__symgrad__", 1
KEYS: dict[str, type | UnionType] = {
    "function": str,
    "signature": str,
    "model": dict,
    "transform": list | None,
    "arguments": dict | None,
    "results": object,
    "options": dict,
    "tolerance": float,
    "reasons": dict,
}
"""Keys that a manifest has to have, and their types."""
UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""Exceptions of Python for text that is no source, no literal, or nested too deeply."""
VECTORS = "\ndef _selftest():\n"  # where the test vectors begin

_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")


def origin_entries(origin: Origin, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the manifest's entries for model and transforms; and reasons for those that are missing."""
    file, reasons = None, dict(origin.reasons)
    if origin.file is not None:
        file = _relative(Path(origin.file), folder)
        if file is None:
            reasons["model"] = "its file shares no folder with this one"
    model = {"file": file, "module": origin.module, "name": origin.name, "sha256": origin.sha256}
    transforms = None if origin.transforms is None else list(origin.transforms)
    return {"model": model, "transform": transforms}, reasons


def _relative(file: Path, folder: Path) -> str | None:
    """The way from a folder to a file; None where they have no folder in common, so that it would begin at the root."""
    file, folder = file.resolve(), folder.resolve()
    try:
        common = Path(os.path.commonpath([file, folder]))
    except ValueError:  # on other drives
        return None
    return None if common == Path(common.anchor) else Path(os.path.relpath(file, folder)).as_posix()


def specs_of(values: Any) -> Any:
    """Arguments or results, trees as they are: a spec for an array, ``float``, ``complex`` or ``int`` for a number.

    A value that is part of the program is ``("static", value)``, or ``("static",)`` if it has no literal. None where a
    tree has none.
    """
    leaves, structure = tree.flatten(values)
    specs = tree.unflatten(structure, [_spec_of(x) for x in leaves])
    return None if displayed(specs) is None else specs


def _spec_of(x: Any) -> Any:
    if isinstance(x, Dim):
        return "int"
    if not isinstance(x, Variable):
        return ("static", x) if displayed(x) is not None else ("static",)
    return {"f": "float", "c": "complex", "i": "int", "b": "bool"}[x.aval.dtype.kind] if x.aval.weak else str(x.aval)


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """The statement that defines the manifest."""
    lines = []
    for key, value in manifest.items():
        shown = displayed(value, f'"{key}": ')
        assert shown is not None, f"{key} is made of literals"
        lines.append(f"    {laid_out(shown, '    ')},\n")
    return f"{NAME} = {{\n{''.join(lines)}}}"


def digest(text: str) -> str:
    """Return the SHA-256 of a module's text without its manifest, in hexadecimal digits."""
    return hashlib.sha256(essence(text).encode()).hexdigest()


def essence(text: str) -> str:
    """Return the text of a module without blank lines, and without the numbers of its test vectors.

    These are computed, and may end in other digits on another machine.
    """
    lines = filter(None, map(str.rstrip, text.splitlines()))
    program, start, rest = "\n".join(lines).partition(VECTORS)
    vectors, _, further = rest.partition("\ndef ")
    return "\n".join([program, start, "".join(_NUMBER.sub("", vectors).split()), further])


# ---- reading


def is_as_written(text: str) -> bool:
    """Whether nobody has edited the text of a module since symgrad wrote it; blank lines do not matter."""
    try:
        statement = _statement(ast.parse(text))
    except UNREADABLE:
        return False
    manifest = _literal(statement.value) if statement is not None else None
    if statement is None or not isinstance(manifest, dict):
        return False
    lines = text.split("\n")
    rest = [*lines[: statement.lineno - 1], *lines[statement.end_lineno :]]
    return bool(manifest.get("text") == digest("\n".join(rest)))


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a saved module, which is not run.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict

    Raises
    ------
    ArgumentError
        If there is no such file, it is no Python, symgrad did not save it, or a newer symgrad did.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "slope.py")
    >>> read_manifest(sg.compile(np.sin).compile("float32[n]").save(path))["results"]
    'float32[n]'
    """
    path = Path(path)
    return manifest_in(path, source_at(path))


def source_at(path: Path) -> str:
    """The text of a module."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        why = "is not text in UTF-8"
    raise ArgumentError(f"{(path.name or str(path))!r} {why}", "Give the path of a saved module.")


def manifest_in(path: Path, text: str) -> dict[str, Any]:
    """The manifest in the text of a module."""
    try:
        module = ast.parse(text)
    except UNREADABLE as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        fact = f"{path.name}{line} is not Python: {no_python(error)}"
        raise ArgumentError(fact, "Fix it, or save the module again.") from None
    statement = _statement(module)
    if statement is not None:
        return _checked(path, statement.value)
    raise ArgumentError(
        f"{path.name!r} has no {NAME}: symgrad did not save it, or an older symgrad did",
        "Give a module that Compiled.save has written.",
    )


def no_python(error: BaseException) -> str:
    """Return why a text is not source, from Python's exception."""
    return getattr(error, "msg", None) or str(error) or "it nests too deeply"


def _statement(module: ast.Module) -> ast.Assign | None:
    """The one that defines the manifest."""
    for statement in reversed(module.body):
        if isinstance(statement, ast.Assign) and NAME in map(ast.unparse, statement.targets):
            return statement
    return None


def _literal(value: ast.expr) -> Any:
    """Return the value of a literal; None if it is not one."""
    try:
        return ast.literal_eval(value)
    except UNREADABLE:
        return None


def _checked(path: Path, value: ast.expr) -> dict[str, Any]:
    manifest = _literal(value)
    known = isinstance(manifest, dict) and manifest.get("format")
    if type(known) is not int or known < 1:
        raise ArgumentError(f"{path.name!r} has a {NAME} that is not a manifest", "Save the module again.")
    if known > FORMAT:
        raise ArgumentError(
            f"{path.name!r} was written by a newer symgrad: its format is {known}, this symgrad reads {FORMAT}",
            "Install a newer symgrad, or save the module with this one.",
        )
    lost = [key for key in KEYS if key not in manifest]
    if lost:
        raise ArgumentError(f"the {NAME} of {path.name!r} has lost {', '.join(lost)}", "Save the module again.")
    odd = [f"{key} = {manifest[key]!r}" for key, kind in KEYS.items() if not isinstance(manifest[key], kind)]
    if odd:
        raise ArgumentError(f"the {NAME} of {path.name!r} has {', '.join(odd)}", "Save the module again.")
    return dict(manifest)
