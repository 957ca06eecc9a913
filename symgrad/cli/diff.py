"""``symgrad diff``: the differences of two derivatives."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from symgrad.cli.common import Asked, Command, add_compiler, add_kind, add_shapes
from symgrad.cli.output import write
from symgrad.compiler.compiled import Compiled
from symgrad.errors import ArgumentError, SymbolicSizeError
from symgrad.export.load import load
from symgrad.report.diff import diff
from symgrad.transforms.gradients import compile
from symgrad.verification.remake import arguments_of


def _add(parser: ArgumentParser) -> None:
    for name in ("old", "new"):
        parser.add_argument(name, help=f"the {name} one: a file that symgrad saved, which is run; or FILE.py:function")
    add_shapes(parser)
    add_kind(parser)
    add_compiler(parser, optimize=1)


def _run(options: Namespace) -> int:
    found = diff(_program(options.old, options), _program(options.new, options))
    write(options, str(found), found.to_json())
    return 1 if found else 0


def _program(place: str, options: Namespace) -> Compiled:
    """Return the program of a saved file, or the derivative of a function."""
    if Path(place).suffix != ".py":
        return Asked.by(Namespace(**{**vars(options), "target": place})).compiled()
    saved = load(place)
    function = compile(saved.function, optimize=options.optimize, numerics=options.numerics)
    bound = arguments_of(function.__signature__, Path(place), saved.manifest)
    try:
        return function.compile(*bound.args, **bound.kwargs)
    except SymbolicSizeError as error:
        raise ArgumentError(
            f"{place} cannot be read back: {error.fact}", "Save it with optimize=1, without loops over blocks."
        ) from None


COMMAND = Command(
    "diff",
    "show how two derivatives differ, as programs",
    (
        "symgrad diff examples/vendored/curve/loss_grad.py examples/vendored/curve/loss_grad.py",
        "symgrad diff examples/logistic.py:loss examples/logistic.py:loss --value --json",
    ),
    _add,
    _run,
    "Show how two derivatives differ, as programs: names, and where things stand, make no difference. The two may be\n"
    "files that symgrad saved, before and after a change of the model, or functions, of which the same derivative is\n"
    "taken. The exit code is 0 if they are the same, 1 if they differ, as that of diff.",
)
