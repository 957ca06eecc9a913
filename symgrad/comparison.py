"""What was found of derivatives beside finite differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from symgrad.listing import columns


class Compared(NamedTuple):
    """A derivative with respect to one argument, and the difference that is farthest from it.

    Attributes
    ----------
    argument : str
        Its path, ``params.W``.
    order : int
    modes : tuple of str
        That of the outermost derivative first.
    right : bool
        Whether all numbers agree with finite differences, but for what these cannot tell.
    at : tuple of int
        Of the number that is farthest off.
    derivative, difference : float
        It and what finite differences give for it.
    error : float
        Their distance, relative to the larger of them.
    looked_at, of : int
        How many numbers of the argument were moved, and how many it has.
    """

    argument: str
    order: int
    modes: tuple[str, ...]
    right: bool
    at: tuple[int, ...]
    derivative: float
    difference: float
    error: float
    looked_at: int
    of: int


class GradientComparison(NamedTuple):
    """What `compare_grads` found: a row for each argument, order and combination of modes."""

    name: str
    rows: tuple[Compared, ...]

    def __bool__(self) -> bool:
        return all(row.right for row in self.rows)

    def __str__(self) -> str:
        head = ("argument", "order", "modes", "", "farthest off", "derivative", "differences", "relative error")
        cells = [head, *map(_cells, self.rows)]
        wrong = sum(not row.right for row in self.rows)
        verdict = f"{wrong} of {len(self.rows)} are wrong" if wrong else "all agree with finite differences"
        return f"{columns(cells)}\n{self.name}: {verdict}"

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON; a number that is not finite is a string."""
        rows = [{**row._asdict(), "modes": list(row.modes), "at": list(row.at)} for row in self.rows]
        plain = [
            {key: str(x) if isinstance(x, float) and not np.isfinite(x) else x for key, x in r.items()} for r in rows
        ]
        return {"function": self.name, "right": bool(self), "rows": plain}


def _cells(row: Compared) -> tuple[str, ...]:
    at = f"[{', '.join(map(str, row.at))}]" if row.at else "the number"
    some = "" if row.looked_at == row.of else f" ({row.looked_at} of {row.of})"
    verdict, error = "right" if row.right else "WRONG", f"{row.error:.1e}"
    numbers = f"{row.derivative:.8g}", f"{row.difference:.8g}"
    return row.argument, str(row.order), " of ".join(row.modes), verdict, at + some, *numbers, error
