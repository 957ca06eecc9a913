"""``symgrad check``: derivatives beside finite differences."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import numpy as np

from symgrad.cli.common import Command, add_compiler, add_target, compiler_options, entries_of, one_or_more
from symgrad.cli.data import parse_sizes, with_numbers
from symgrad.cli.output import paint, progress, write
from symgrad.cli.shapes import call_of
from symgrad.core.options import options as in_context
from symgrad.export.target import load_function
from symgrad.verification.check_grads import compare_grads


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--size", default="", metavar="TEXT", help='sizes of what --like does not give: "n=20, d=3"')
    parser.add_argument("--wrt", metavar="NAMES", help="arguments or parts of them, by commas; by default all floating")
    parser.add_argument("--order", type=int, default=2, metavar="K", help="the highest order; default %(default)s")
    parser.add_argument("--mode", choices=("fwd", "rev", "both"), default="both", help="default %(default)s")
    parser.add_argument(
        "--entries", type=int, default=64, metavar="N", help="numbers to move of each argument; default %(default)s"
    )
    add_compiler(parser, optimize=2)


def _run(options: Namespace) -> int:
    modes = ("fwd", "rev") if options.mode == "both" else (options.mode,)
    wrt = None if options.wrt is None else one_or_more([x.strip() for x in options.wrt.split(",")])
    chosen = in_context(**compiler_options(options))
    with chosen, progress(f"checking {options.target}") as say, np.errstate(all="ignore"):
        say("reading the model")
        f = load_function(options.target)
        say("making numbers")
        call = with_numbers(f, call_of(f, entries_of(options)), parse_sizes(options.size))
        say("comparing derivatives")
        found = compare_grads(f, call.args, options.order, modes, kwargs=call.kwargs, wrt=wrt, entries=options.entries)
    text = str(found)
    for word, colour in (("WRONG", "red"), (" cannot tell ", "yellow"), (" right ", "green")):
        text = text.replace(word, paint(word, colour))
    write(options, text, found.to_json())
    return 0 if found else 1


COMMAND = Command(
    "check",
    "compare derivatives with finite differences",
    (
        "symgrad check examples/logistic.py:loss",
        'symgrad check examples/logistic.py:loss --wrt w --order 1 --size "n=20, d=3"',
    ),
    _add,
    _run,
    "Compare derivatives with finite differences: for each argument, order and combination of forward and reverse\n"
    "mode the number that is farthest off. Numbers are made from the shapes unless --like gives them.",
)
