"""The gradients that a project keeps as files: ``[[tool.symgrad.gradients]]`` in its ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from symgrad.cli.kinds import KINDS, Derivative
from symgrad.cli.shapes import Entries, value_of
from symgrad.compiler.compiled import Compiled
from symgrad.core.options import OF_SOURCE
from symgrad.core.text import did_you_mean
from symgrad.errors import ArgumentError
from symgrad.export.target import load_function

FILE = "pyproject.toml"


class Kept(NamedTuple):
    """A derivative that a project keeps as a file."""

    root: Path  # the folder of the project
    function: str  # the model as in ``symgrad grad``, from the root on
    target: str  # the file of its derivative, from the root on
    derivative: Derivative
    entries: Entries
    options: dict[str, Any]  # of the compiler
    with_c: bool = False  # beside a module

    @property
    def path(self) -> Path:
        return self.root / self.target

    @property
    def in_c(self) -> Path | None:
        """The C file, if one is kept."""
        return self.path.with_suffix(".c") if self.with_c or self.path.suffix == ".c" else None

    def compiled(self) -> Compiled:
        """The derivative of the model as it is now."""
        f = load_function(self.function, self.root)
        call = self.derivative.call(f, self.entries)
        return self.derivative.of(f, **self.options).compile(*call.args, **call.kwargs)


def find_project(folder: Path) -> Path:
    """The ``pyproject.toml`` of a folder or of the nearest one above it that lists gradients."""
    if not folder.is_dir():
        raise ArgumentError(f"there is no folder {str(folder)!r}", f"Give the folder of a {FILE}.")
    folder = folder.resolve()
    for home in (folder, *folder.parents):
        path = home / FILE
        if path.is_file() and _section(path) is not None:
            return path
    raise ArgumentError(
        f"no {FILE} here or above has a table [[tool.symgrad.gradients]]",
        'Add one: function = "model.py:loss", target = "loss_grad.py", spec = { w = "float64[n]" }.',
    )


def kept_as(path: Path) -> Kept:
    """Return what a project keeps as a C file."""
    if not path.is_file():
        raise ArgumentError(f"there is no file {path.name!r}", "Give the path of a C file that symgrad has written.")
    project = find_project(path.parent)
    found = [kept for kept in kept_by(project) if kept.in_c is not None and kept.in_c.resolve() == path.resolve()]
    if not found:
        raise ArgumentError(
            f"{project.name} does not list {path.name!r}", "List it: a C file does not record its model."
        )
    return found[0]


def kept_by(path: Path) -> list[Kept]:
    """The derivatives that a project keeps, in files of their own each; unknown keys and values are refused."""
    section = _section(path)
    if not isinstance(section, dict):
        raise ArgumentError("tool.symgrad is not a table", "Write [[tool.symgrad.gradients]] above each.")
    for key in [key for key in section if key != "gradients"]:
        raise ArgumentError(
            f"[tool.symgrad] has an unknown key {key!r}",
            'Write [[tool.symgrad.gradients]], and below it function = "model.py:loss", target = "loss_grad.py".',
        )
    tables = section.get("gradients", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ArgumentError(
            "tool.symgrad.gradients is not a list of tables", "Write [[tool.symgrad.gradients]] above each."
        )
    found = [_kept(path.parent, table, f"gradients[{i}]") for i, table in enumerate(tables)]
    written = [path.resolve() for kept in found for path in {kept.path, kept.in_c} if path is not None]
    for kept in found:
        if any(path is not None and written.count(path.resolve()) > 1 for path in (kept.path, kept.in_c)):
            raise ArgumentError(f"two gradients have the target {kept.target}", "Give each a file of its own.")
    return found


def _section(path: Path) -> Any:
    """Return the section of symgrad in a ``pyproject.toml``; None if there is none."""
    tools = tables_of(path).get("tool")
    return tools.get("symgrad") if isinstance(tools, dict) else None


def tables_of(path: Path) -> dict[str, Any]:
    """Return all tables of a ``pyproject.toml``."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path.name} is not valid TOML: {error}", "Fix it.") from None


class _Key(NamedTuple):
    """The values that a key of a table may have."""

    holds: Callable[[Any], bool]
    description: str


def _is_names(x: Any) -> bool:
    return isinstance(x, str) or (isinstance(x, list) and bool(x) and all(isinstance(name, str) for name in x))


def _is_number(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


_KEYS = {
    "function": _Key(lambda x: isinstance(x, str), '"FILE.py:function" or "package.module:function"'),
    "target": _Key(
        lambda x: isinstance(x, str) and x.endswith((".py", ".c")), 'a file, "loss_grad.py" or "loss_grad.c"'
    ),
    "kind": _Key(lambda x: x in KINDS, f"one of {', '.join(KINDS)}"),
    "wrt": _Key(_is_names, 'a name, "w", or a list of names'),
    "argnums": _Key(
        lambda x: _is_number(x) or (isinstance(x, list) and bool(x) and all(map(_is_number, x))), "a number or a list"
    ),
    "order": _Key(_is_number, "a number from 1 on"),
    "c": _Key(lambda x: isinstance(x, bool), "true, for C beside a module"),
    "spec": _Key(lambda x: isinstance(x, dict), 'a table, { w = "float64[d]" }'),
    "optimize": _Key(_is_number, "0, 1 or 2"),
    "numerics": _Key(lambda x: isinstance(x, str), '"stable" or "ieee"'),
    "threads": _Key(_is_number, "a number"),
}


def _kept(root: Path, table: Mapping[str, Any], place: str) -> Kept:
    _check_keys(table, place)
    for key in ("function", "target"):
        if key not in table:
            raise ArgumentError(f"{place} has no {key}", f"It is {_KEYS[key].description}.")
    for key, value in table.items():
        if not _KEYS[key].holds(value):
            raise ArgumentError(f"{place}.{key} = {value!r}", f"It is {_KEYS[key].description}.")
    if "wrt" in table and "argnums" in table:
        raise ArgumentError(f"{place} has wrt and argnums", "Give one of them.")
    if not (root / table["target"]).resolve().is_relative_to(root.resolve()):
        raise ArgumentError(f"{place}.target = {table['target']!r} is outside of the project", "Choose a file inside.")
    chosen = {key: table[key] for key in ("kind", "wrt", "argnums", "order") if key in table}
    chosen = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.items()}
    options = {key: table[key] for key in OF_SOURCE if key in table}
    entries = _entries(table.get("spec", {}), f"{place}.spec")
    options = {"optimize": 1, **options}
    return Kept(root, table["function"], table["target"], Derivative(**chosen), entries, options, table.get("c", False))


def _check_keys(table: Mapping[str, Any], place: str) -> None:
    for key in table:
        if key not in _KEYS:
            instead = did_you_mean(key, _KEYS, f"Keys are {', '.join(_KEYS)}.")
            raise ArgumentError(f"{place} has an unknown key {key!r}", instead)


def _entries(tree: Any, place: str, path: str = "") -> Entries:
    """The leaves of a table by path: texts are read as those of ``--spec``, numbers and booleans are values."""
    if isinstance(tree, dict):
        steps = [(f"{path}[{key!r}]" if path else key, value) for key, value in tree.items()]
    elif isinstance(tree, list):
        steps = [(f"{path}[{i}]", value) for i, value in enumerate(tree)]
    else:
        return {path: value_of(tree, f"{place}.{path}") if isinstance(tree, str) else tree}
    found: Entries = {}
    for step, value in steps:
        found.update(_entries(value, place, step))
    return found
