"""``symgrad graph``: the graph of a derivative, listed or drawn."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from symgrad.cli.common import (
    Asked,
    Command,
    add_compiler,
    add_kind,
    add_output,
    add_target,
    derivative_of,
    entries_of,
)
from symgrad.cli.data import parse_sizes, with_numbers
from symgrad.cli.output import progress, write
from symgrad.cli.shapes import call_of
from symgrad.compiler.compiled import Compiled
from symgrad.core.saving import write_text
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program
from symgrad.interchange.graphs import to_json
from symgrad.report.profile import Profile
from symgrad.show.draw import FORMATS, draw


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    add_kind(parser)
    parser.add_argument(
        "--stage",
        choices=("traced", "final"),
        default="final",
        help="traced: as the function ran, with the derivative appended; final: as it is compiled; default %(default)s",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="colour what is drawn by its share of the time; for made numbers, or --like",
    )
    parser.add_argument("--size", default="", metavar="TEXT", help='sizes to time it for: "n=1000, d=10"')
    add_compiler(parser, optimize=1)
    add_output(parser, "draw it: .svg, .html, .dot, .md or .mmd; .json: write the program that was traced")


def _run(options: Namespace) -> int:
    path = None if options.output is None else Path(options.output)
    if options.profile and (options.stage != "final" or path is None or path.suffix == ".json"):
        raise ArgumentError(
            "--profile colours the picture of a compiled program", "Draw the final stage: -o loss.html."
        )
    endings = (*FORMATS, ".json")
    if path is not None and path.suffix not in endings:
        raise ArgumentError(f"no graph has the ending {path.suffix!r}", f"Choose from {', '.join(endings)}.")
    asked = Asked.by(options)
    subject: Program | Compiled = asked.traced() if options.stage == "traced" else asked.compiled()
    listing = str(subject) if isinstance(subject, Program) else str(subject.graph)
    document = {"nodes": len(subject.graph.nodes), "listing": listing}
    if path is None:
        write(options, listing, document)
        return 0
    if path.suffix == ".json":
        write_text(path, to_json(subject), options.force)
    else:
        profile = _profile(options, asked, subject) if isinstance(subject, Compiled) and options.profile else None
        draw(subject, path, overwrite=options.force, profile=profile)
    write(options, f"{path}: {len(subject.graph.nodes)} nodes", {**document, "file": path.as_posix()})
    return 0


def _profile(options: Namespace, asked: Asked, compiled: Compiled) -> Profile:
    """The times of the lines of a program, on numbers for its shapes."""
    call = with_numbers(asked.function, call_of(asked.function, entries_of(options)), parse_sizes(options.size))
    given = derivative_of(options).with_vector(asked.function, call)
    with progress(f"timing {compiled.program.name}"), np.errstate(all="ignore"):
        return compiled.profile(*given.args, **given.kwargs)


COMMAND = Command(
    "graph",
    "list the graph of a derivative, or draw it",
    (
        "symgrad graph examples/logistic.py:loss --wrt w",
        "symgrad graph examples/logistic.py:loss --value -o loss.svg",
        'symgrad graph examples/logistic.py:loss --profile --size "n=1000, d=10" -o loss.html',
    ),
    _add,
    _run,
)
