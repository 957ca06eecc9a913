"""Lines of ``pyproject.toml`` by which a build tool compiles the C that a project keeps beside its modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from symgrad.cli.project import Kept, tables_of
from symgrad.targets.c.standalone import extension_name, flags


def missing_lines(path: Path, found: Sequence[Kept]) -> str:
    """Return what a project that setuptools builds lacks for its C to be compiled; "" if it lacks nothing.

    Other build tools have files of their own, and so has setuptools where there is a ``setup.py``.
    """
    document = tables_of(path)
    backend = str(document.get("build-system", {}).get("build-backend", ""))
    if not backend.startswith("setuptools") or path.with_name("setup.py").exists():
        return ""
    listed = {source for entry in _extensions(document) for source in entry.get("sources", ())}
    entries = [_entry(kept) for kept in found if kept.with_c and _code(kept) not in listed]
    if not entries:
        return ""
    return f"{path.name}: nothing compiles the C; with these lines setuptools does:\n\n" + "\n\n".join(entries)


def _extensions(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    tool = document.get("tool", {}).get("setuptools", {})
    yield from (entry for entry in tool.get("ext-modules", ()) if isinstance(entry, dict))


def _code(kept: Kept) -> str:
    return str(PurePosixPath(kept.target).with_suffix(".c"))


def _entry(kept: Kept) -> str:
    target = PurePosixPath(kept.target)
    extension = extension_name(target.stem)
    package = [part for part in target.parent.parts if part != "src"]
    options = ", ".join(f'"{flag}"' for flag in flags())
    return "\n".join([
        "[[tool.setuptools.ext-modules]]",
        f'name = "{".".join([*package, extension])}"',
        f'sources = ["{_code(kept)}", "{target.with_name(extension)}.c"]',
        f'depends = ["{target.with_suffix(".h")}"]',
        f"extra-compile-args = [{options}]",
        "optional = true  # where no compiler takes it, NumPy computes the same",
    ])  # fmt: skip
