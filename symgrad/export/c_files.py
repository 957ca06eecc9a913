"""A compiled program as a C file and its header: plain C, that needs neither Python nor symgrad."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from symgrad.core.recording import staged
from symgrad.core.saving import MARK, write_texts
from symgrad.core.version import VERSION
from symgrad.errors import ArgumentError
from symgrad.pipeline import optimise
from symgrad.targets.c.standalone import Files, files_of

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled

_SEAL = re.compile(r"/\* sha256 of the lines above: (\w+) \*/\s*\Z")


def c_files(compiled: Compiled, stem: str) -> Files:
    """Return the texts of the C file and of the header of a program; `stem` is their name without its ending."""
    if compiled.structure is not None:
        raise ArgumentError(
            "the results contain instances of classes, which C has not", "Return dicts, lists and tuples."
        )
    options, header = compiled.options, compiled.header
    graph = compiled.whole
    if options.target != "c":
        graph = optimise(compiled.program.graph, options.optimize, options.numerics, "c")
    summary = f"{header.summary} {MARK}{VERSION}."
    files = staged(files_of, graph, header.function, stem, summary, compiled.signature)
    return Files(*map(_sealed, files))


def write_c(compiled: Compiled, path: Path, overwrite: bool) -> Path:
    """Write the C file and its header beside it."""
    files = c_files(compiled, path.stem)
    write_texts({path.with_suffix(".h"): files.header, path: files.code}, overwrite, _is_edited)
    return path


def _sealed(text: str) -> str:
    return f"{text}\n/* sha256 of the lines above: {_digest(text)} */\n"


def _is_edited(text: str) -> bool:
    seal = _SEAL.search(text)
    return seal is None or _digest(text[: seal.start()]) != seal[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]
