"""Results of comparisons of derivatives with finite differences."""

from __future__ import annotations

from typing import Any, NamedTuple

from symgrad.core.listing import columns
from symgrad.core.text import plain

HEAD = ("argument", "order", "modes", "", "farthest off", "derivative", "differences", "relative error")


class Compared(NamedTuple):
    """A derivative with respect to one argument, and the difference that is farthest from it.

    It is `right` where all numbers agree with finite differences, to the digits that these have; None where some cannot
    be told and the others agree: at the edge of a domain differences are NaN or infinite.
    """

    argument: str  # its path, ``params.W``
    order: int
    modes: tuple[str, ...]  # that of the outermost derivative first
    right: bool | None
    at: tuple[int, ...]  # of the number that is farthest off
    derivative: complex  # it, and what finite differences give for it; real by a real argument
    difference: complex
    error: float  # their distance, relative to the larger of them
    looked_at: int  # how many numbers of the argument were moved, and how many it has
    of: int


class GradientComparison(NamedTuple):
    """The result of `compare_grads`: a row for each argument, order and combination of modes. True if all are right."""

    name: str
    rows: tuple[Compared, ...]

    def __bool__(self) -> bool:
        return all(row.right for row in self.rows)

    def __str__(self) -> str:
        return f"{columns([HEAD, *map(cells, self.rows)])}\n{self.name}: {self.verdict}"

    def _repr_html_(self) -> str:
        from symgrad.show.tables import comparison_view

        return comparison_view(self)

    @property
    def verdict(self) -> str:
        """Return the result in words."""
        wrong, untold = (sum(row.right is kind for row in self.rows) for kind in (False, None))
        if not wrong and not untold:
            return "all agree with finite differences"
        found = [f"{wrong} of {len(self.rows)} are wrong"] if wrong else []
        if untold:
            found.append(f"{untold} of {len(self.rows)} cannot be told: differences there are not finite")
        return "; ".join(found)

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON; a number that is not finite is a string."""
        return {"function": self.name, "right": bool(self), "rows": plain(self.rows)}


def cells(row: Compared) -> tuple[str, ...]:
    """A row of the table."""
    at = f"[{', '.join(map(str, row.at))}]" if row.at else "the number"
    some = "" if row.looked_at == row.of else f" ({row.looked_at} of {row.of})"
    verdict, error = {True: "right", False: "WRONG", None: "cannot tell"}[row.right], f"{row.error:.1e}"
    numbers = f"{row.derivative:.8g}", f"{row.difference:.8g}"
    return row.argument, str(row.order), " of ".join(row.modes), verdict, at + some, *numbers, error
