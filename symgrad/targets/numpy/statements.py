"""Generated source as a tree: statements that know what they make, read and mention. Text is made of them once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from symgrad.core.graph import Node
from symgrad.core.text import comment
from symgrad.spelling import Code, Negative

INDENT = "    "


@dataclass(kw_only=True)  # not frozen, which takes three times as long to make
class Statement:
    """A part of a function: the value that it makes, and those that it reads by name."""

    makes: Node | None = None
    reads: Sequence[Node] = ()

    @property
    def parts(self) -> Sequence[Code]:
        """The expressions and targets in it."""
        return ()

    def lines(self) -> Sequence[str]:
        """Its own text; what stands below it, indented, is left out."""
        raise NotImplementedError


@dataclass
class Assign(Statement):
    """``target = value``; with two targets ``x = y = value``, with another symbol ``target += value``."""

    targets: Sequence[Code]
    value: Code
    symbol: str = "="
    note: str = ""

    @property
    def parts(self) -> Sequence[Code]:
        return (*self.targets, self.value)

    def lines(self) -> Sequence[str]:
        note = f"  # {self.note}" if self.note else ""
        return [f"{' = '.join([x.text for x in self.targets])} {self.symbol} {self.value.text}{note}"]


@dataclass
class Evaluate(Statement):
    """An expression for what it does, or for what a keyword does with it."""

    value: Code
    keyword: str = ""

    @property
    def parts(self) -> Sequence[Code]:
        return (self.value,)

    def lines(self) -> Sequence[str]:
        return [f"{self.keyword} {self.value.text}" if self.keyword else self.value.text]


@dataclass
class Verbatim(Statement):
    """Lines of which nothing need be known."""

    text: Sequence[str] = ("",)

    def lines(self) -> Sequence[str]:
        return self.text


@dataclass
class Suite(Verbatim):
    """A suite: the lines up to a colon, the statements below, and further clauses such as ``else``."""

    body: Sequence[Statement] = ()
    clauses: Sequence[Suite] = ()


def returned(value: Code, makes: Node | None = None) -> Evaluate:
    return Evaluate(value, "return", makes=makes)


def deleted(names: Sequence[str]) -> Evaluate:
    return Evaluate(Code(", ".join(names)), "del")


def added(target: Code, value: Code, makes: Node | None = None, reads: Sequence[Node] = ()) -> Assign:
    """``target += value``, and ``target -= x`` of minus x."""
    symbol, value = ("-=", value.operand) if isinstance(value, Negative) else ("+=", value)
    return Assign((target,), value, symbol, makes=makes, reads=reads)


def remark(text: str) -> Verbatim:
    return Verbatim([comment(text)])


def mentioned(names: Iterable[str], statements: Iterable[Statement]) -> set[str]:
    """Return those of some names that statements mention, but for verbatim ones."""
    wanted = set(names)
    missing = set(wanted)
    for code in _expressions(statements):
        if not missing:
            break
        if any(name in code.text for name in missing):  # perhaps: another name may contain it
            missing -= code.names
    return wanted - missing


def _expressions(statements: Iterable[Statement]) -> Iterator[Code]:
    for each in statements:
        yield from each.parts
        if isinstance(each, Suite):
            yield from map(Head, each.text)
            yield from _expressions([*each.body, *each.clauses])


class Head(Code):
    """The line before a suite, which is no expression."""

    __slots__ = ()

    @property
    def names(self) -> set[str]:
        return set(re.findall(r"\w+", self.text))


class Line(NamedTuple):
    """A line of text, how far it is indented, and the value that it makes."""

    text: str = ""
    indent: str = ""
    makes: Node | None = None

    def __str__(self) -> str:
        return self.indent + self.text if self.text else ""


def printed(statements: Iterable[Statement], indent: str = "") -> list[Line]:
    """The text, line by line."""
    lines: list[Line] = []
    for statement in statements:
        lines += [Line(text, indent, statement.makes) for text in statement.lines()]
        if isinstance(statement, Suite):
            inside = printed(statement.body, indent + INDENT)
            if all(line.text.startswith("#") for line in inside):
                inside.append(Line("pass", indent + INDENT))
            lines += [*inside, *printed(statement.clauses, indent)]
    return lines
