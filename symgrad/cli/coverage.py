"""``symgrad coverage``: which functions of NumPy and SciPy a file names, and which of them are refused."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from symgrad.cli.common import Command
from symgrad.cli.output import paint, progress, write
from symgrad.report.census import REFUSED
from symgrad.report.coverage import Named, coverage


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file of Python, which is read and not run")


def _run(options: Namespace) -> int:
    found: dict[str, list[Named]] = {}
    for file in options.files:
        with progress(f"reading {file}"):
            found[file] = coverage(Path(file))
    lines = [line for file, names in found.items() for line in _lines(file, names)]
    kinds = Counter(named.entry.kind for names in found.values() for named in names)
    total = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    document = [
        {"file": file, "line": named.line, "text": named.text, **named.entry._asdict()}
        for file, names in found.items()
        for named in names
    ]
    write(options, "\n".join([*lines, total or "no function of NumPy or SciPy is named"]), document)
    return int(kinds[REFUSED] > 0)


def _lines(file: str, names: list[Named]) -> list[str]:
    width = max((len(named.text) for named in names), default=0)
    lines = []
    for line, text, entry in names:
        kind = paint(entry.kind, "red") if entry.kind == REFUSED else entry.kind
        lines.append(f"{file}:{line}  {text:{width}}  {kind}")
        lines += [f"    {note.strip()}" for note in entry.reason.splitlines()]
    return lines


COMMAND = Command(
    "coverage",
    "show which functions of NumPy and SciPy a file names, and which are refused",
    ("symgrad coverage examples/logistic.py", "symgrad coverage --json examples/gmm.py examples/kalman.py"),
    _add,
    _run,
    "Shows which functions of NumPy and SciPy a file names, and what becomes of each in a traced program. Names are "
    "followed to their imports; methods of objects are not seen. The exit code is 1 where one is refused.",
)
