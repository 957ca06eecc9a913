"""``symgrad grad``: a derivative as source, or as a file."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from symgrad.cli.common import Asked, Command, add_compiler, add_kind, add_output, add_target
from symgrad.cli.output import write
from symgrad.export.source_text import SourceText


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    add_kind(parser)
    add_compiler(parser, optimize=1)
    add_output(parser, "save the module there, checked and self-contained, instead of printing it")
    parser.add_argument(
        "--full", action="store_true", help="at a terminal, too, print the functions that the program calls"
    )


def _run(options: Namespace) -> int:
    compiled = Asked.by(options).compiled()
    document = {"signature": compiled.signature, "source": compiled.source}
    if options.output is None:
        write(options, _printed(compiled.source, options.full).rstrip("\n"), document)
        return 0
    path = compiled.save(options.output, overwrite=options.force)
    write(options, f"{path}: {compiled.signature}", {**document, "file": path.as_posix()})
    return 0


def _printed(source: SourceText, full: bool) -> str:
    """The source; for a person at a terminal with the runtime folded."""
    folded = sys.stdout.isatty() and not full and source.runtime_note
    return f"{source.folded}; --full shows them, -o saves the module" if folded else source


COMMAND = Command(
    "grad",
    "print a derivative as NumPy source, or save it as a module",
    (
        "symgrad grad examples/logistic.py:loss --wrt w",
        "symgrad grad examples/logistic.py:loss --value -o loss_value_and_grad.py",
    ),
    _add,
    _run,
)
