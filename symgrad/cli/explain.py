"""``symgrad explain``: a report of the compiler's work."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from symgrad.cli.common import Asked, Command, add_compiler, add_kind, add_target
from symgrad.cli.output import write


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    add_kind(parser)
    add_compiler(parser, optimize=2)
    parser.add_argument(
        "--statements",
        nargs="?",
        const="numpy",
        choices=("numpy", "c"),
        help="instead, when the program computes what and in which memory: in NumPy, or in C",
    )


def _run(options: Namespace) -> int:
    compiled = Asked.by(options).compiled()
    if options.statements:
        statements = compiled.statements(options.statements)
        write(options, statements, {"statements": statements})
        return 0
    report = compiled.explain()
    write(options, str(report), report.to_json())
    return 0


COMMAND = Command(
    "explain",
    "tell what was rewritten, what runs in blocks and threads, and why not",
    (
        "symgrad explain examples/logistic.py:loss --value",
        "symgrad explain examples/logistic.py:loss --hessian --json",
        "symgrad explain examples/logistic.py:loss --statements c",
    ),
    _add,
    _run,
)
