"""Output of commands: text or JSON on standard output, progress on standard error, colour at a terminal."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from symgrad.core.progress import aside, at_terminal, logger, work

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34}


def write(options: Namespace, text: str, document: Any) -> None:
    """The result of a command: the document with ``--json``, else the text."""
    result = json.dumps(document, indent=2, ensure_ascii=False, default=str) if options.json else text
    print(result, file=options.standard_output)


@contextlib.contextmanager
def model_apart(options: Namespace) -> Iterator[None]:
    """Put on standard error what the model prints, where standard output is to have one document."""
    options.standard_output = sys.stdout
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        yield


def tell(options: Namespace, text: str) -> None:
    """A part of the result that is known already; a document is written whole, by `write`."""
    if not options.json:
        with aside():
            print(text, flush=True)


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream is a terminal that is to have colours (https://no-color.org)."""
    stream = sys.stdout if stream is None else stream
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted else text


PATIENCE = 0.5  # seconds that a command takes in silence


@contextlib.contextmanager
def progress(what: str, steps: int | None = None) -> Iterator[Callable[[str], None]]:
    """A function that says which step of a work begins: see `symgrad.core.progress`."""
    with work(what, steps, PATIENCE) as going_on:
        yield going_on.step


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Write what the logger says on standard error, a line each, where no terminal shows it."""
    if at_terminal() or sys.stderr is None:
        yield
        return
    log, handler = logger(), logging.StreamHandler(sys.stderr)  # which flushes
    handler.setFormatter(logging.Formatter("symgrad: %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
