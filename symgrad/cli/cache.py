"""``symgrad cache``: the compiled modules that are kept on disk."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from symgrad.cli.common import Command
from symgrad.cli.output import write
from symgrad.core.listing import columns
from symgrad.targets.c.cache import Contents, clear, contents


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="remove them all; programs compile theirs again")


def _run(options: Namespace) -> int:
    found = contents()
    if options.clear:
        clear()
    document = {"folders": [{**each._asdict(), "folder": str(each.folder)} for each in found], "cleared": options.clear}
    write(options, columns([["folder", "modules", "bytes"], *map(_line, found)], range(1, 3)), document)
    return 0


def _line(found: Contents) -> list[str]:
    return [str(found.folder), str(found.modules), str(found.bytes)]


COMMAND = Command(
    "cache",
    "show how many compiled modules are kept on disk, or remove them",
    ("symgrad cache", "symgrad cache --clear"),
    _add,
    _run,
    'Show the folders in which modules compiled with target="c" are kept, how many there are and how many bytes they\n'
    "have; or remove them. The variable SYMGRAD_CACHE names another folder.",
)
