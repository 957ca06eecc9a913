"""``symgrad graph``: the graph of a derivative, listed or drawn."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from symgrad.cli.common import Asked, Command, add_compiler, add_kind, add_output, add_target
from symgrad.cli.output import write
from symgrad.compiler.compiled import Compiled
from symgrad.core.saving import write_text
from symgrad.frontend.trace import Program
from symgrad.interchange.graphs import to_json
from symgrad.show.draw import draw


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    add_kind(parser)
    parser.add_argument(
        "--stage",
        choices=("traced", "final"),
        default="final",
        help="traced: as the function ran, with the derivative appended; final: as it is compiled; default %(default)s",
    )
    add_compiler(parser, optimize=1)
    add_output(parser, "draw it: .svg, .html, .dot, .md or .mmd; .json: write the program that was traced")


def _run(options: Namespace) -> int:
    asked = Asked.by(options)
    subject: Program | Compiled = asked.traced() if options.stage == "traced" else asked.compiled()
    listing = str(subject) if isinstance(subject, Program) else str(subject.graph)
    document = {"nodes": len(subject.graph.nodes), "listing": listing}
    if options.output is None:
        write(options, listing, document)
        return 0
    path = Path(options.output)
    if path.suffix == ".json":
        write_text(path, to_json(subject), options.force)
    else:
        draw(subject, path, overwrite=options.force)
    write(options, f"{path}: {len(subject.graph.nodes)} nodes", {**document, "file": path.as_posix()})
    return 0


COMMAND = Command(
    "graph",
    "list the graph of a derivative, or draw it",
    (
        "symgrad graph examples/logistic.py:loss --wrt w",
        "symgrad graph examples/logistic.py:loss --value -o loss.svg",
    ),
    _add,
    _run,
)
