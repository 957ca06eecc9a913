"""A compiled program as a module that stands on its own: its function, its manifest, and how it checks itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.core.saving import check_folder, check_module, write_module
from symgrad.core.text import laid_out
from symgrad.core.version import VERSION
from symgrad.errors import ArgumentError
from symgrad.export import selftest
from symgrad.export.manifest import (
    FORMAT,
    digest,
    is_as_written,
    manifest_text,
    origin_entries,
    specs_of,
)
from symgrad.export.vectors import NoVectorsError, Vector, tolerance_of, vectors_of
from symgrad.targets.numpy.hints import parameter_hints
from symgrad.targets.numpy.module import Source, emit

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled
    from symgrad.report.explain import Rewrite

SHARED = ("_numbers", "_summaries", "_worst", "_main")  # of selftest
TESTS = '"""Yield test vectors: labels, results of the function, and results of its graph as it was traced."""'


def standalone(compiled: Compiled, rewrites: Iterable[Rewrite], folder: Path, in_c: str = "") -> Source:
    """The source of a program as a module in a folder; `rewrites` are what the compiler changed.

    `in_c` is what it ends with to be one of C where that has been compiled.
    """
    _check_alone(compiled)
    program, options = compiled.program, compiled.options
    header = replace(compiled.header, hints=parameter_hints(program.parameters, program.inputs))
    source = emit(compiled.graph, header, options.optimize, compiled.guard.checks, options.threads)
    source = replace(source, behind=(*source.behind, *filter(None, [in_c])))
    vectors, reasons = _vectors(compiled)
    tests = [_tests(vectors), *map(_text, SHARED), _COMMAND]
    manifest = _manifest(compiled, rewrites, folder, reasons) | {"text": digest("\n".join([source.text, *tests]))}
    return replace(source, behind=(*source.behind, manifest_text(manifest), *tests))


def _check_alone(compiled: Compiled) -> None:
    """Refuse a program that needs more than a module and NumPy."""
    if compiled.structure is not None:
        raise ArgumentError(
            "the results contain instances of classes that a standalone module cannot import",
            "Return dicts, lists and tuples.",
        )
    classes = [name for name, x in compiled.emitted.functions.items() if isinstance(x, type)]
    if classes:
        raise ArgumentError(
            f"the program raises {', '.join(classes)}, which cannot be imported from a module",
            "Define the class in a module that can be imported, and not in a function or a script.",
        )
    if compiled.emitted.functions:
        raise ArgumentError(
            f"the program calls {', '.join(compiled.emitted.functions)}, which a standalone module cannot import",
            "Give your operator a spell= that writes it with NumPy.",
        )


def _vectors(compiled: Compiled) -> tuple[list[Vector], dict[str, str]]:
    """The test vectors; and why, where there are none."""
    try:
        return vectors_of(compiled.program, compiled.graph, compiled.header.function, compiled.unwatched), {}
    except NoVectorsError as error:
        return [], {"vectors": str(error)}


def _manifest(
    compiled: Compiled, rewrites: Iterable[Rewrite], folder: Path, reasons: Mapping[str, str]
) -> dict[str, Any]:
    program, header = compiled.program, compiled.header
    entries, why = origin_entries(compiled.origin, folder)
    why |= reasons
    arguments, results = specs_of(dict(program.inputs)), specs_of(program.outputs)
    if arguments is None:
        why["arguments"] = "there is an instance of a class among them"
    return {
        "format": FORMAT,
        "symgrad": VERSION,
        "function": header.function,
        "signature": compiled.signature,
        **entries,
        "arguments": arguments,
        "results": results,
        "assumed": list(header.assumed),
        "options": compiled.options.of_source(),
        "stability": _lines_by_rule(rewrites),
        "tolerance": tolerance_of(program),
        "reasons": why,
    }


def _lines_by_rule(rewrites: Iterable[Rewrite]) -> dict[str, list[str]]:
    """The rules by which a NaN or an infinity may be another, and the lines that they changed."""
    found: dict[str, list[str]] = {}
    for each in rewrites:
        if each.changes == "nan":
            found.setdefault(each.rule, []).append(each.where)
    return found


def write(
    source: Callable[[Path], Source], path: Path, overwrite: bool, first: Callable[[], Any] = lambda: None
) -> Path:
    """Write the module that `source` gives for a folder, and its constants beside it; `first` writes what it needs."""
    check_path(path, (".py",))
    module = source(path.parent)
    is_edited = lambda text: not is_as_written(text)
    check_module(path, overwrite, is_edited)
    first()
    write_module(path, module.text, module.constants, overwrite, is_edited)
    return path


def check_path(path: Path, endings: Sequence[str] = (".py", ".c")) -> None:
    """Refuse a path that does not end as a module or a C file does, or is in no folder."""
    if path.suffix not in endings:
        raise ArgumentError(
            f"{(path.name or str(path))!r} is the name of neither a Python module nor a C file",
            'Save to a path that ends in ".py" or ".c".',
        )
    check_folder(path)


def _tests(vectors: Sequence[Vector]) -> str:
    body = [laid_out(vector.source(), "    ") for vector in vectors] or ["yield from ()"]
    return "\n".join(["def _selftest():", *(f"    {line}" for line in (TESTS, *body))])


@cache
def _text(name: str) -> str:
    return inspect.getsource(getattr(selftest, name)).rstrip()


_COMMAND = """if __name__ == "__main__":
    import sys

    sys.exit(_main(sys.argv[1:]))"""
