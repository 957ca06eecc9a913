"""Programs as plans over chunks of rows: along which axes they are separable, in how many rounds, and why not.

    python benchmarks/split.py                  the cases of run.py
    python benchmarks/split.py FOLDER           programs of a folder as well, as firing.py takes them
    python benchmarks/split.py mixture logistic programs whose names contain these words

Value and gradient are split along every axis that is longer at a larger size. They must be those of the whole program,
for chunks of one row (or of so many that a thousand are enough), of a prime number and of all rows, and with chunks of
no rows in between; otherwise the command fails.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cases.model import axes, with_names
from firing import Program, cases, in_folder, refusals
from optree import tree_leaves
from timing import TOLERANCE, relative

import symgrad as sg

PRIME = 7  # rows
MOST = 1000  # chunks, of which the shortest are made


class Found(NamedTuple):
    """The plan of a program along an axis, or why there is none."""

    program: str
    arguments: tuple[str, ...]  # of which chunks are taken
    rounds: int
    refused: str
    wrong: str

    def __str__(self) -> str:
        along = ", ".join(self.arguments)
        rounds = self.wrong or f"{self.rounds} round" + "s" * (self.rounds != 1)
        return f"{self.program:37} {along:37} {self.refused or rounds}"


def examined(program: Program) -> Iterator[Found]:
    """Split a program along each axis that grows."""
    for axis in sorted({(m, n) for m, n in axes(program.small, program.large) if m < n}, key=lambda axis: -axis[1]):
        yield split_along(program, axis)


def split_along(program: Program, axis: tuple[int, int]) -> Found:
    """Split value and gradient of a program along an axis, and compare them with those of the whole."""
    specs = with_names(program.small, program.large, lambda m, n: "n" if (m, n) == axis else str(m))
    transform = sg.value_and_grad if program.wrt else lambda f, wrt: sg.compile(f)
    names, rounds, wrong = (), 0, ""
    with refusals() as refused:
        whole = transform(program.function, program.wrt).compile(*specs)
        names = tuple(
            [leaf.path for leaf in whole.program.leaves if leaf.node and "n" in map(str, leaf.node.aval.shape)]
        )
        plan = sg.split(whole, axis="n")
        rounds, wrong = len(plan.rounds), compared(plan, program.small, axis[0])
    return Found(program.name, names, rounds, reason(refused), wrong)


def reason(refused: Sequence[str]) -> str:
    """Return the fact and the line of a refusal."""
    lines = [line.strip().removeprefix("split: ") for text in refused for line in text.splitlines()[:2]]
    return ", ".join([line for line in lines if Path(__file__).name not in line])


def compared(plan: sg.Plan, args: Sequence[Any], n: int) -> str:
    """Compare results of chunks of several lengths with those of the whole; return where they differ."""
    expected = tree_leaves(plan.whole(*args))
    for rows in dict.fromkeys((max(n // MOST, 1), min(PRIME, n), n)):
        if differ(tree_leaves(plan(*args, rows=rows)), expected):
            return f"WRONG in chunks of {rows}"
    return "WRONG with empty chunks" if differ(tree_leaves(with_empty_chunks(plan, args, n)), expected) else ""


def with_empty_chunks(plan: sg.Plan, args: Sequence[Any], n: int) -> Any:
    """Run a plan over chunks, some of which have no rows."""
    leaves = dict(zip([leaf.path for leaf in plan.program.leaves], tree_leaves(list(args)), strict=True))
    cut = {leaf.parameter for leaf in plan.program.leaves if leaf.path in plan.chunked}
    shared = {p.name: x for p, x in zip(plan.program.parameters, args, strict=True) if p.name not in cut}
    cuts = 0, 0, n // 3, n // 3, n, n
    chunks = [
        {path: leaves[path][(slice(None),) * axis + (slice(i, j),)] for path, axis in plan.chunked.items()}
        for i, j in pairwise(cuts)
    ]
    return plan.bind(chunks=chunks, total=n)(**shared)


def differ(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    return any(
        np.shape(x) != np.shape(y) or x.dtype != y.dtype or relative(x, y) > TOLERANCE[y.dtype.name]
        for x, y in zip(found, expected, strict=True)
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="folders of programs, and words that names contain")
    return parser.parse_args()


def main() -> None:
    warnings.simplefilter("ignore")
    given = parsed().words
    folders, words = [Path(x) for x in given if Path(x).is_dir()], [x for x in given if not Path(x).is_dir()]
    found: list[Found] = []
    for program in chain(cases(), *map(in_folder, folders)):
        if not words or any(word.lower() in program.name.lower() for word in words):
            for each in examined(program):
                print(each, flush=True)
                found.append(each)
    names = dict.fromkeys(each.program for each in found)
    split = {each.program for each in found if not each.refused}
    print(f"{len(split)} of {len(names)} programs are separable along an axis")
    if any(each.wrong for each in found):
        sys.exit("some are wrong")


if __name__ == "__main__":
    main()
