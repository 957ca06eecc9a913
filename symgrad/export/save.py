"""A compiled program as a module that stands on its own: its function, its manifest, and how it checks itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.core.graph import Graph
from symgrad.core.options import Options
from symgrad.core.saving import write_module
from symgrad.core.text import laid_out
from symgrad.core.version import VERSION
from symgrad.errors import ArgumentError
from symgrad.export import selftest
from symgrad.export.manifest import (
    FORMAT,
    digest,
    is_as_written,
    manifest_text,
    options_of,
    origin_entries,
    specs_of,
)
from symgrad.export.origin import Origin
from symgrad.export.vectors import NoVectorsError, Vector, tolerance_of, vectors_of
from symgrad.frontend.trace import Program
from symgrad.targets.numpy.header import Header
from symgrad.targets.numpy.hints import parameter_hints
from symgrad.targets.numpy.module import Source, emit

if TYPE_CHECKING:
    from symgrad.report.explain import Rewrite

SHARED = ("_numbers", "_summaries", "_worst", "_main")  # of selftest
TESTS = '"""What the function gives, and what its graph gave, operation by operation as it was traced."""'


@dataclass(frozen=True)
class Module:
    """What a module is written from.

    Attributes
    ----------
    program : Program
        As it was traced.
    graph : Graph
        What the function is generated from.
    header : Header
    options : Options
    checks : list of str
        Statements that refuse what the program was not compiled for.
    signature : str
    rewrites : sequence of Rewrite
        What the compiler changed.
    origin : Origin
    run : callable
        The program, with the signature of the function.
    """

    program: Program
    graph: Graph
    header: Header
    options: Options
    checks: Sequence[str]
    signature: str
    rewrites: Sequence[Rewrite]
    origin: Origin
    run: Callable[..., Any]

    def source(self, folder: Path) -> Source:
        """The source of the module in a folder."""
        hints = parameter_hints(self.program.parameters, self.program.inputs)
        header = replace(self.header, hints=hints)
        source = emit(self.graph, header, self.options.optimize, self.checks, self.options.threads)
        vectors, reason = self._vectors()
        program, tests = source.text.rstrip(), [_tests(vectors), *map(_text, SHARED), _COMMAND]
        manifest = self._manifest(folder, reason) | {"text": digest("\n".join([program, *tests]))}
        source.text = "\n\n\n".join([program, manifest_text(manifest), *tests])
        return source

    def _vectors(self) -> tuple[list[Vector], dict[str, str]]:
        try:
            return vectors_of(self.program, self.graph, self.header.function, self.run), {}
        except NoVectorsError as error:
            return [], {"vectors": str(error)}

    def _manifest(self, folder: Path, reason: dict[str, str]) -> dict[str, Any]:
        entries, reasons = origin_entries(self.origin, folder)
        arguments, results = specs_of(dict(self.program.inputs)), specs_of(self.program.outputs)
        if arguments is None:
            reason["arguments"] = "there is an instance of a class among them"
        return {
            "format": FORMAT,
            "symgrad": VERSION,
            "function": self.header.function,
            "signature": self.signature,
            **entries,
            "arguments": arguments,
            "results": results,
            "assumed": list(self.header.assumed),
            "options": options_of(self.options),
            "stability": self._lines_by_rule(),
            "tolerance": tolerance_of(self.program),
            "reasons": {**reasons, **reason},
        }

    def _lines_by_rule(self) -> dict[str, list[str]]:
        """The rules by which a NaN or an infinity may be another, and the lines that they changed."""
        found: dict[str, list[str]] = {}
        for each in self.rewrites:
            if each.changes == "nan":
                found.setdefault(each.rule, []).append(each.where)
        return found


def write(source: Callable[[Path], Source], path: Path, overwrite: bool) -> Path:
    """Write the module that `source` gives for a folder, and its constants beside it."""
    if path.suffix != ".py":
        raise ArgumentError(f"{path.name!r} is no name of a Python module", 'Save to a path that ends in ".py".')
    module = source(path.parent)
    write_module(path, module.text, module.constants, overwrite, lambda text: not is_as_written(text))
    return path


def _tests(vectors: Sequence[Vector]) -> str:
    body = [laid_out(vector.source(), "    ") for vector in vectors] or ["yield from ()"]
    return "\n".join(["def _selftest():", *(f"    {line}" for line in (TESTS, *body))])


@cache
def _text(name: str) -> str:
    return inspect.getsource(getattr(selftest, name)).rstrip()


_COMMAND = """if __name__ == "__main__":
    import sys

    sys.exit(_main(sys.argv[1:]))
"""
