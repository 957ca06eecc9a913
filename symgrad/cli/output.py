"""What a command writes: text or JSON on standard output, progress on standard error, colour at a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any, TextIO

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34}


def write(options: Namespace, text: str, document: Any) -> None:
    """The result of a command: the document with ``--json``, else the text."""
    print(json.dumps(document, indent=2, ensure_ascii=False, default=str) if options.json else text)


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream is a terminal that is to have colours (https://no-color.org)."""
    stream = sys.stdout if stream is None else stream
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if wanted else text


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that says what is being done, on a line of standard error; silent without a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return

    def say(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    try:
        yield say
    finally:
        say("")
