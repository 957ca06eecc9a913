"""``symgrad grad``: a derivative as source, or as a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from symgrad.cli.common import Asked, Command, add_compiler, add_kind, add_output, add_target
from symgrad.cli.output import write


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    add_kind(parser)
    add_compiler(parser, optimize=1)
    add_output(parser, "save the module there, checked and self-contained, instead of printing it")


def _run(options: Namespace) -> int:
    compiled = Asked.by(options).compiled()
    document = {"signature": compiled.signature, "source": compiled.source}
    if options.output is None:
        write(options, compiled.source.rstrip("\n"), document)
        return 0
    path = compiled.save(options.output, overwrite=options.force)
    write(options, f"{path}: {compiled.signature}", {**document, "file": path.as_posix()})
    return 0


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
