"""The result of checking an edited file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import dedent
from typing import Any

from symgrad.core.text import plain


@dataclass(frozen=True)
class Verdict:
    """The result of `verify`; true if the file agrees with its model. ``print`` it.

    Attributes
    ----------
    file : str
        The name of the file.
    model : str
        What it is to compute: ``Gradient of loss (model.py:4) with respect to w``.
    usual, extreme, near : int
        At how many points it was compared: usual ones, those at the ends of ranges, and those close to where the
        program takes another branch.
    sizes : tuple of dict
        The sizes at these.
    worst : float
        The largest difference where there is none but for rounding, relative to the largest number of a result.
    fact : str
        What is wrong; "" where nothing is.
    line, until : int or None
        The first line of the file whose value differs. Where others may be the cause, from which to which they stand.
    text : str
        What stands in that line.
    values : str
        What it gives there, and what it would have to give.
    point : dict
        What the arguments are that show it.
    notes : tuple of str
    unreached : tuple of str
        The branches that no arguments were found for: a change there would not be seen.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, pathlib
    >>> program = sg.grad(np.square).compile(3.0)
    >>> path = program.save(pathlib.Path(tempfile.mkdtemp()) / "slope.py")
    >>> print(sg.verify(path, program))
    slope.py agrees with its model
      Gradient of square with respect to x
      at 8 usual points, 6 at the ends of ranges and 0 close to where a branch changes;
      differences are at most 0.0e+00 of the largest number of a result
    """

    file: str
    model: str
    usual: int = 0
    extreme: int = 0
    sizes: tuple[Mapping[str, int], ...] = ()
    worst: float = 0.0
    fact: str = ""
    line: int | None = None
    until: int | None = None
    text: str = ""
    values: str = ""
    point: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    near: int = 0
    unreached: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.fact

    def __repr__(self) -> str:
        return f"<Verdict: {self.file} {'agrees with' if self else 'differs from'} its model{self._place}>"

    def __str__(self) -> str:
        lines = self._agreement() if self else self._difference()
        untold = (f"{fact}; a change there is not seen" for fact in self.unreached)
        return "\n".join([*lines, *(f"note: {note}" for note in (*self.notes, *untold))])

    def _agreement(self) -> list[str]:
        sizes = "; ".join(", ".join(f"{name} = {n}" for name, n in each.items()) for each in self.sizes if each)
        return [
            f"{self.file} agrees with its model",
            f"  {self.model}",
            f"  at {self.usual} usual points{f' ({sizes})' if sizes else ''}, {self.extreme} at the ends of ranges and "
            f"{self.near} close to where a branch changes;",
            f"  differences are at most {self.worst:.1e} of the largest number of a result",
        ]

    def _difference(self) -> list[str]:
        lines = [f"{self.file} differs from its model{self._place}", *([f"  {self.model}"] if self.model else [])]
        lines += [
            *(f"    {line}" for line in dedent(self.text).splitlines()),
            *(f"  {x}" for x in self.values.splitlines()),
        ]
        lines.append(f"  {self.fact}")
        if self.point is not None:
            lines += ["  where", *(f"    {name} = {value}" for name, value in self.point.items())]
        return lines

    @property
    def _place(self) -> str:
        if self.line is None:
            return ""
        return f", in lines {self.line} to {self.until}" if self.until else f", in line {self.line}"

    def to_json(self) -> dict[str, Any]:
        """The same as a dict of plain values."""
        return {**plain(self), "agrees": bool(self)}


def with_line(verdict: Verdict, text: str, line: int | None) -> Verdict:
    """The verdict with a line of a text, or with as many as may be the cause."""
    lines = text.split("\n")  # as Python counts them: a form feed ends none
    if line is None or not 0 < line <= len(lines):
        return verdict
    until = max(line, verdict.until or line)
    return replace(verdict, line=line, text="\n".join(lines[line - 1 : until]))
