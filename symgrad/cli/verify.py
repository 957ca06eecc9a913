"""``symgrad verify``: a saved file, perhaps edited, against its model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from symgrad.cli.common import Command
from symgrad.cli.output import write
from symgrad.cli.project import kept_as
from symgrad.verification.verify import verify


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", help="a module that symgrad saved, or C that a pyproject.toml lists; it is run, and its model"
    )
    parser.add_argument("--points", type=int, default=8, metavar="N", help="usual points; default %(default)s")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="for other points")


def _run(options: Namespace) -> int:
    path = Path(options.file)
    model = kept_as(path).compiled() if path.suffix == ".c" else None
    verdict = verify(path, model, points=options.points, seed=options.seed)
    write(options, str(verdict), verdict.to_json())
    return 0 if verdict else 1


COMMAND = Command(
    "verify",
    "check a saved file that somebody has edited against its model",
    (
        "symgrad verify examples/vendored/curve/loss_grad.py",
        "symgrad verify examples/vendored/curve/loss_grad.py --json",
    ),
    _add,
    _run,
    "Check a saved file that somebody has edited against the model that its manifest names: at usual points of\n"
    "several sizes and at the ends of ranges. Where they differ, it tells the first line that does.",
)
