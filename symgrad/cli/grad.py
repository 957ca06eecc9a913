"""``symgrad grad``: a derivative as source, or as a file."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from symgrad.cli.common import Asked, Command, add_compiler, add_kind, add_output, add_target
from symgrad.cli.output import write
from symgrad.errors import ArgumentError
from symgrad.export.c_files import c_files
from symgrad.export.save import check_path
from symgrad.export.source_text import SourceText


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    add_kind(parser)
    add_compiler(parser, optimize=1)
    parser.add_argument(
        "--target", dest="language", choices=("numpy", "c"), default="numpy", help="NumPy source, or plain C"
    )
    add_output(parser, "save the module there, or C if it ends in .c, instead of printing it")
    parser.add_argument(
        "--full", action="store_true", help="at a terminal, too, print the functions that the program calls"
    )


def _run(options: Namespace) -> int:
    is_c = options.language == "c" or Path(options.output or "").suffix == ".c"
    if options.output is not None:
        _check_output(Path(options.output), options.language)
    compiled = Asked.by(options).compiled()
    source: str = c_files(compiled, compiled.header.function).code if is_c else compiled.source
    document = {"signature": compiled.signature, "source": source}
    if options.output is None:
        printed = _printed(source, options.full) if isinstance(source, SourceText) else source
        write(options, printed.rstrip("\n"), document)
        return 0
    path = compiled.save(options.output, overwrite=options.force)
    write(options, f"{path}: {compiled.signature}", {**document, "file": path.as_posix()})
    return 0


def _check_output(path: Path, language: str) -> None:
    """Refuse a path that nothing can be saved to, before anything is compiled."""
    if language == "c" and path.suffix != ".c":
        raise ArgumentError(f"{str(path)!r} is no C file", 'With --target c, save to a path that ends in ".c".')
    check_path(path)


def _printed(source: SourceText, full: bool) -> str:
    """The source; for a person at a terminal with the runtime folded."""
    folded = sys.stdout.isatty() and not full and source.runtime_note
    return f"{source.folded}; --full shows them, -o saves the module" if folded else source


COMMAND = Command(
    "grad",
    "print a derivative as NumPy source or as C, or save it",
    (
        "symgrad grad examples/logistic.py:loss --wrt w",
        "symgrad grad examples/logistic.py:loss --value -o loss_value_and_grad.py",
        "symgrad grad examples/logistic.py:loss --value -o loss_value_and_grad.c",
    ),
    _add,
    _run,
)
