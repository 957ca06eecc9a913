"""Whether a saved module still computes what its model says, after somebody has edited it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symgrad.compile import Compiled, Function
    from symgrad.trace import Program


@dataclass(frozen=True)
class Verdict:
    """What `verify` found; true if the file agrees with its model. ``print`` it.

    Attributes
    ----------
    file : str
        The name of the file.
    model : str
        What it is to compute: ``Gradient of loss (model.py:4) with respect to w``.
    usual, extreme : int
        At how many points it was compared, usual ones and those at the ends of ranges.
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

    def __bool__(self) -> bool:
        return not self.fact

    def __repr__(self) -> str:
        return f"<Verdict: {self.file} {'agrees with' if self else 'differs from'} its model{self._place}>"

    def __str__(self) -> str:
        lines = self._agreement() if self else self._difference()
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _agreement(self) -> list[str]:
        sizes = "; ".join(", ".join(f"{name} = {n}" for name, n in each.items()) for each in self.sizes if each)
        return [
            f"{self.file} agrees with its model",
            f"  {self.model}",
            f"  at {self.usual} usual points{f' ({sizes})' if sizes else ''} and {self.extreme} at the ends of ranges;",
            f"  differences are at most {self.worst:.1e} of the largest number of a result",
        ]

    def _difference(self) -> list[str]:
        lines = [f"{self.file} differs from its model{self._place}", *([f"  {self.model}"] if self.model else [])]
        lines += [*(f"    {line}" for line in self.text.splitlines()), *(f"  {x}" for x in self.values.splitlines())]
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
        plain = {**vars(self), "agrees": bool(self), "notes": list(self.notes), "sizes": [*map(dict, self.sizes)]}
        return {**plain, "point": None if self.point is None else dict(self.point)}


def verify(
    path: str | Path,
    function: Function | Compiled | Program | None = None,
    *,
    points: int = 8,
    seed: int = 0,
    rtol: float | None = None,
) -> Verdict:
    """Check a saved module that somebody has edited against its model.

    Both are evaluated at the same arguments: usual ones of several sizes, and large, tiny, negative and equal ones and
    zeros. The model's numbers are those of its graph, operation by operation as it was traced, and differences count
    that are larger than rounding can explain. Where there is one, the lines are compared to find where it begins.

    Parameters
    ----------
    path : str or Path
        The file that `Compiled.save` wrote. It is run, as by an import, and not changed.
    function : Function, Compiled or Program, optional
        The model with its transforms: ``sg.grad(loss)``. By default the one that the manifest of the file names; the
        file of that model is run, as by an import.
    points : int
        How many usual points there are; fewer where one takes long.
    seed : int
        Another seed gives other points.
    rtol : float, optional
        By how much a number may differ, relative to itself, beside rounding: by default 2e-12 in float64.

    Returns
    -------
    Verdict
        True if the file agrees with its model.

    Raises
    ------
    ArgumentError
        If there is no such file, or its model cannot be found.

    Notes
    -----
    Where the model is NaN or overflows the file may do better. It may not do worse.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, pathlib
    >>> slope = sg.grad(lambda x: np.sum(np.sin(x))).compile("float64[n]")
    >>> path = slope.save(pathlib.Path(tempfile.mkdtemp()) / "slope.py")
    >>> bool(sg.verify(path, slope))
    True
    >>> _ = path.write_text(path.read_text().replace("np.cos(x)", "-np.cos(x)"))
    >>> sg.verify(path, slope).line
    15
    """
    import ast  # as the rest, imported by those who need it

    from symgrad.export.checking import verdict_on
    from symgrad.export.manifest import source_at
    from symgrad.export.remake import model_of

    path = Path(path)
    text = source_at(path)
    try:
        ast.parse(text)
    except SyntaxError as error:
        return with_line(Verdict(path.name, "", fact=f"it is not Python: {error.msg}"), text, error.lineno)
    return verdict_on(text, str(path), model_of(path, text, function), points, seed, rtol)


def with_line(verdict: Verdict, text: str, line: int | None) -> Verdict:
    """The verdict with a line of a text, or with as many as may be the cause."""
    lines = text.splitlines()
    if line is None or not 0 < line <= len(lines):
        return verdict
    until = max(line, verdict.until or line)
    return replace(verdict, line=line, text="\n".join(lines[line - 1 : until]))
