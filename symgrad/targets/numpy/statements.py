"""Generated source as a tree: statements that know what they make, read and mention. Text is made of them once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from symgrad.core.graph import Node
from symgrad.core.text import comment
from symgrad.spelling import Code, Negative

INDENT = "    "


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A part of a function: the value that it makes, and those that it reads by name."""

    makes: Node | None = None
    reads: Sequence[Node] = ()

    @property
    def parts(self) -> Sequence[Code]:
        """The expressions and targets in it."""
        return ()


@dataclass(frozen=True)
class Assign(Statement):
    """``target = value``; with two targets ``x = y = value``, with another symbol ``target += value``."""

    targets: Sequence[Code]
    value: Code
    symbol: str = "="
    note: str = ""

    @property
    def parts(self) -> Sequence[Code]:
        return (*self.targets, self.value)


@dataclass(frozen=True)
class Evaluate(Statement):
    """An expression for what it does."""

    value: Code

    @property
    def parts(self) -> Sequence[Code]:
        return (self.value,)


@dataclass(frozen=True)
class Return(Statement):
    value: Code


@dataclass(frozen=True)
class Delete(Statement):
    names: Sequence[str]


@dataclass(frozen=True)
class Comment(Statement):
    text: str


@dataclass(frozen=True)
class Verbatim(Statement):
    """Lines that need not be understood."""

    lines: Sequence[str] = ("",)


@dataclass(frozen=True)
class Suite(Statement):
    """What stands behind a colon, and the line, or lines, before it."""

    head: Sequence[str]
    body: Sequence[Statement] = field(default=())


class Line(NamedTuple):
    """A line of text, how far it is indented, and the value that it makes."""

    text: str = ""
    indent: str = ""
    makes: Node | None = None

    def __str__(self) -> str:
        return self.indent + self.text if self.text else ""


def added(target: Code, value: Code, makes: Node | None = None, reads: Sequence[Node] = ()) -> Assign:
    """``target += value``, and ``target -= x`` of minus x."""
    symbol, value = ("-=", value.operand) if isinstance(value, Negative) else ("+=", value)
    return Assign((target,), value, symbol, makes=makes, reads=reads)


def mentioned(names: Iterable[str], statements: Iterable[Statement]) -> set[str]:
    """Those of some names that simple statements mention."""
    wanted = set(names)
    likely = [x for each in statements for x in each.parts if any(name in x.text for name in wanted)]
    return wanted.intersection(name for x in likely for name in x.names)


def printed(statements: Iterable[Statement], indent: str = "") -> Iterator[Line]:
    """The text, line by line."""
    for statement in statements:
        for text in _lines(statement):
            yield Line(text, indent, statement.makes)
        if isinstance(statement, Suite):
            yield from printed(statement.body, indent + INDENT)


def _lines(statement: Statement) -> Sequence[str]:
    """The lines of a statement itself."""
    match statement:
        case Assign(targets, value, symbol, note):
            text = f"{' = '.join(x.text for x in targets)} {symbol} {value.text}"
            return [f"{text}  # {note}" if note else text]
        case Evaluate(value):
            return [value.text]
        case Return(value):
            return [f"return {value.text}"]
        case Delete(names):
            return [f"del {', '.join(names)}"]
        case Comment(text):
            return [comment(text)]
        case Verbatim(lines) | Suite(lines):
            return lines
    raise AssertionError(f"{statement} is no statement")
