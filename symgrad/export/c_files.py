"""A compiled program as a C file and its header, that need neither Python nor symgrad; and what Python calls it by."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.core.recording import staged
from symgrad.core.saving import MARK, write_texts
from symgrad.core.version import VERSION
from symgrad.errors import ArgumentError
from symgrad.export.source_text import SourceText
from symgrad.pipeline import optimise
from symgrad.targets.c.standalone import Files, calling, extension_name, files_of
from symgrad.targets.numpy.module import Source, emit
from symgrad.targets.target import C

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled
    from symgrad.core.graph import Graph

_SEAL = re.compile(r"/\* sha256 of the lines above: (\w+) \*/\s*\Z")


def c_files(compiled: Compiled, stem: str) -> Files:
    """Return the texts of a program in C; `stem` is the name of its files without their endings."""
    if compiled.structure is not None:
        raise ArgumentError(
            "the results contain instances of classes, which C has not", "Return dicts, lists and tuples."
        )
    header = compiled.header
    summary = f"{header.summary} {MARK}{VERSION}."
    files = staged(files_of, graph_in_c(compiled), header.function, stem, summary, compiled.signature)
    return files._replace(code=_sealed(files.code), header=_sealed(files.header), glue=_sealed(files.glue))


def graph_in_c(compiled: Compiled) -> Graph:
    """Return the graph of a program as it is optimised for C."""
    options = compiled.options
    if options.target == "c":
        return compiled.whole
    return optimise(compiled.program.graph, options.optimize, options.numerics, C)


def python_around(compiled: Compiled, function: Callable[..., Any]) -> Source:
    """Return the Python function that checks its arguments as a saved module does, and calls a function of C."""
    graph = calling(graph_in_c(compiled), "_in_c", function)
    return emit(graph, compiled.header_of(graph), 1, compiled.guard.checks)


def texts_of(compiled: Compiled, path: Path, with_glue: bool) -> dict[Path, str]:
    """Return the texts of C files by their paths, beside a path: header, code, and what Python calls it by."""
    files = c_files(compiled, path.stem)
    texts = {path.with_suffix(".h"): files.header, path.with_suffix(".c"): files.code}
    glue = path.with_name(f"{extension_name(path.stem)}.c")
    return texts | {glue: files.glue} if with_glue else texts


def write_c(compiled: Compiled, path: Path, overwrite: bool, with_glue: bool = False) -> Path:
    """Write the C file and its header beside it; and with `with_glue` the source of the module that Python calls."""
    write_texts(texts_of(compiled, path, with_glue), overwrite, is_edited)
    return path


def in_c_if_compiled(compiled: Compiled, stem: str) -> str:
    """Return what a module of NumPy ends with to be one of C where that has been compiled."""
    around, public = python_around(compiled, len), c_files(compiled, stem).public
    return _IF_COMPILED.format(
        extension=extension_name(stem),
        public=public,
        program=textwrap.indent(SourceText(around.text, around.function).program, "    "),
    )


_IF_COMPILED = """\
# The same in C, where the module {extension} has been compiled; elsewhere NumPy computes it.
try:
    from importlib import import_module

    _package = globals().get("__package__") or ""
    _in_c = import_module("." * bool(_package) + "{extension}", _package).{public}
except (ImportError, AttributeError):  # there is none, or it was compiled of another program
    pass
else:

{program}"""


def _sealed(text: str) -> str:
    return f"{text}\n/* sha256 of the lines above: {_digest(text)} */\n"


def is_edited(text: str) -> bool:
    """Whether somebody has edited a C file since symgrad wrote it."""
    seal = _SEAL.search(text)
    return seal is None or _digest(text[: seal.start()]) != seal[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]
