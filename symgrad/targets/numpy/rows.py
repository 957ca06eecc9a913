"""How the source of a loop calls the rows that a block has of its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from symgrad.core.sizes import Size
from symgrad.loops.halos import plus
from symgrad.loops.loop import Block


class SpanNames:
    """How the source calls the rows that a block has of its values, and how many they are."""

    def __init__(self, local: Callable[[str], str], block: Block) -> None:
        self.i, self.j = local("i"), local("j")
        self.main = str(block.rows)
        self._overlap = any(span.more for span in block.bounds)
        self._named: dict[str, str] = {}  # for what a name stands
        self._bounds: dict[int, tuple[str, str]] = {int(block.rows): (self.i, self.j)}
        self._lengths: dict[str, tuple[str, str]] = {self.main: (self.i, self.j)}
        for span, bounds in block.bounds.items():
            start = self._name(local, span.start_text(self.i, block.size), self.i)
            stop = self._name(local, span.stop_text(self.j, block.size), self.j)
            self._bounds[int(bounds.rows)] = self._lengths[str(bounds.rows)] = start, stop

    def _name(self, local: Callable[[str], str], text: str, letter: str) -> str:
        if text == letter:
            return letter
        known = {said: name for name, said in self._named.items()}
        name = known.get(text) or local(f"{letter}{sum(x.startswith(letter) for x in self._named) + 1}")
        self._named[name] = text
        return name

    def of(self, length: int) -> tuple[str, str]:
        """Where the rows begin and end."""
        return self._bounds[int(length)]

    def noted(self, line: str) -> str:
        """A line whose note says how many rows there are where they are not as many as the block has."""
        for name, (start, stop) in self._lengths.items():
            if name != self.main and "  # " in line:
                code, _, note = line.rpartition("  # ")
                note = re.sub(rf"\b{name}\b", f"{stop} - {start}", note)
                line = f"{code}  # {note}"
        return line

    def lines(self, body: Sequence[str]) -> list[str]:
        """What the body mentions."""
        code = [_code(line) for line in body]
        lengths = [
            f"{name} = {stop} - {start}" for name, (start, stop) in self._lengths.items() if _mentions(code, name)
        ]
        code += lengths
        bounds = [f"{name} = {text}" for name, text in self._named.items() if _mentions(code, name)]
        says = ["# some rows of neighbouring blocks are needed here: both compute them, so that none waits"]
        return [*(says if self._overlap and bounds else []), *bounds, *lengths]


def between(start: str, by: Size, first: str) -> str:
    """The place of a row among rows from `first` on."""
    return plus("0", by).removeprefix("0 + ") if start == first else f"{plus(start, by)} - {first}"


def _code(line: str) -> str:
    return line.split("#")[0]


def _mentions(code: Sequence[str], name: str) -> bool:
    mentioned = re.compile(rf"\b{re.escape(name)}\b")
    return any(mentioned.search(line) for line in code)
