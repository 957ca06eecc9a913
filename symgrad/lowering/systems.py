"""Systems of a few linear equations as statements: solutions, inverses and determinants, by elimination with pivoting.

A matrix that is singular as far as rounding can tell is noted as a division by zero: NumPy then decides whether it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.graph import Aval, Node, Op
from symgrad.core.sizes import Size
from symgrad.lowering.expressions import ONE, ZERO, Apply, Choose, Expr, Local, Number, Whole, converted, extent, plus
from symgrad.lowering.statements import Assign, Declare, For, If, Statement
from symgrad.lowering.windows import Window
from symgrad.ops.define import TABLE
from symgrad.ops.determinants import DET, SLOGDET
from symgrad.ops.linalg import INV, SOLVE

if TYPE_CHECKING:
    from symgrad.lowering.build import Part

SYSTEMS = frozenset((SOLVE, INV, DET, SLOGDET))
MOST_ROWS = 16  # up to which elimination takes less than a call of LAPACK by NumPy


def is_small_system(node: Node) -> bool:
    """Whether an operator is about one matrix of few rows, of which the number is known."""
    a, dtype = node.inputs[0].aval, _dtype(node)
    vectors = node.op is not SOLVE or node.inputs[1].aval.ndim in (1, 2)
    few = a.ndim == 2 and all(isinstance(n, int) and 1 <= n <= MOST_ROWS for n in a.shape)
    return few and vectors and dtype.kind == "f"


def _dtype(node: Node) -> np.dtype:
    aval: Any = node.aval
    found: np.dtype = (aval if isinstance(aval, Aval) else aval[0]).dtype
    return found


def write_system(part: Part, node: Node) -> None:
    """Write what an operator of a small system gives."""
    found = _System(part, node)
    found.eliminate()
    if found.right is not None:
        part.values[node] = found.substitute(found.right)
    elif node.op is DET:
        part.values[node] = found.determinant()
    else:
        results = found.sign, found.logarithm()
        for item in part.roots.uses[node]:
            part.values[item] = results[dict(item.params)["index"]]


class _System:
    """A system under construction: the matrix, which becomes two triangles, and the right-hand sides."""

    def __init__(self, part: Part, node: Node) -> None:
        self.part, self.dtype = part, _dtype(node)
        self.rows = rows = node.inputs[0].aval.shape[-1]
        self.matrix = self._copied(node.inputs[0], None)
        self.right: Window | None = None
        self.columns: Size | None = None
        if node.op in (SOLVE, INV):
            self.right = part.begin(node)
            self.columns = node.aval.shape[1] if node.aval.ndim == 2 else None
            self._copied(node.inputs[1] if node.op is SOLVE else None, self.right)
        names = part.program.letters()
        self.k, self.i = (part.program.index(next(names), rows) for _ in range(2))
        self.j, self.c = (
            part.program.index(next(names), n) for n in (rows, rows if self.columns is None else self.columns)
        )
        self.sign = self._declared("sign", self._number(1.0), part.body, mutable=True)

    def _copied(self, x: Node | None, target: Window | None) -> Window:
        """Write a matrix into memory of its own, or where the result is; None is the identity."""
        shape = (self.rows, self.rows) if x is None else x.aval.shape
        place = target or self.part.allocate("t", Aval(shape, self.dtype))
        with self.part.nested(shape) as nest:
            number = Whole("==", *nest.at) if x is None else self.part.pull(x, nest.at)
            nest.levels[-1].append(place.store(nest.at, converted(number, self.dtype)))
        return place

    # ---- elimination

    def eliminate(self) -> None:
        """Subtract rows from those below, the largest number of each column first."""
        tiny = self._apply(np.multiply, self._number(float(self.rows * np.finfo(self.dtype).eps)), self._largest())
        tiny = self._declared("tiny", tiny, self.part.body)
        body: list[Statement] = []
        most, row = self._pivot(body)
        body.append(If(Whole("<", self.k, row), self._swapped(row)))
        pivot = Choose(self._apply(np.greater, most, tiny), self._at(self.k, self.k), self._number(0.0))
        inverse = self._apply(np.divide, self._number(1.0), self._declared("t", pivot, body), noted=True)
        inverse = self._declared("t", inverse, body)
        below: list[Statement] = []
        factor = self._declared("t", self._apply(np.multiply, self._at(self.i, self.k), inverse), below)
        below += self._subtracted(factor, self.k, self.i, behind=True)
        body.append(For(self.i, extent(self.rows), below, start=plus(self.k, ONE)))
        self.part.body.append(For(self.k, extent(self.rows), body))

    def _largest(self) -> Expr:
        """Return the largest magnitude in the matrix."""
        largest = self._declared("most", self._number(0.0), self.part.body, mutable=True)
        taken = Assign(largest, self._apply(np.absolute, self._at(self.i, self.j)), np.maximum)
        self.part.body.append(For(self.i, extent(self.rows), [For(self.j, extent(self.rows), [taken])]))
        return largest

    def _pivot(self, body: list[Statement]) -> tuple[Local, Local]:
        """Return the largest magnitude of a column on or below the diagonal, and its row."""
        most = self._declared("most", self._apply(np.absolute, self._at(self.k, self.k)), body, mutable=True)
        row = self._declared("row", self.k, body, mutable=True)
        inner: list[Statement] = []
        here = self._declared("t", self._apply(np.absolute, self._at(self.i, self.k)), inner)
        inner.append(If(self._apply(np.greater, here, most), [Assign(most, here), Assign(row, self.i)]))
        body.append(For(self.i, extent(self.rows), inner, start=plus(self.k, ONE)))
        return most, row

    def _swapped(self, row: Local) -> list[Statement]:
        """Return the statements that exchange two rows."""
        found: list[Statement] = [Assign(self.sign, self._apply(np.negative, self.sign))]
        for window, column, count in self._parts():
            inner: list[Statement] = []
            upper, lower = ((i, *column) for i in (self.k, row))
            held = self._declared("t", window.load(upper), inner)
            inner += [window.store(upper, window.load(lower)), window.store(lower, held)]
            found += self._over(column, count, inner)
        return found

    def _subtracted(self, factor: Expr, above: Local, below: Local, behind: bool = False) -> list[Statement]:
        """Return the statements that subtract a multiple of a row from another, or of its right-hand sides alone."""
        found: list[Statement] = []
        for window, column, count in self._parts() if behind else self._parts()[1:]:
            change = self._apply(np.multiply, factor, window.load((above, *column)))
            at = (below, *column)
            start = plus(self.k, ONE) if window is self.matrix else ZERO
            found += self._over(
                column, count, [window.store(at, self._apply(np.subtract, window.load(at), change))], start
            )
        return found

    # ---- results

    def substitute(self, right: Window) -> Window:
        """Divide the right-hand sides by the upper triangle, the last row first; return where the solutions are."""
        column, count = self._parts()[1][1:]
        at = (self.k, *column)
        known = self._subtracted(self._at(self.k, self.j), self.j, self.k)
        body: list[Statement] = [For(self.j, extent(self.rows), known, start=plus(self.k, ONE))]
        divided = self._apply(np.divide, right.load(at), self._at(self.k, self.k))
        body += self._over(column, count, [right.store(at, divided)])
        self.part.body.append(For(self.k, extent(self.rows), body, reverse=True))
        return right

    def determinant(self) -> Local:
        """Return the product of the diagonal, with the sign of the exchanges."""
        factor = Assign(self.sign, self._at(self.k, self.k), np.multiply)
        self.part.body.append(For(self.k, extent(self.rows), [factor]))
        return self.sign

    def logarithm(self) -> Local:
        """Return the logarithm of the magnitude of the determinant; the sign becomes that of the determinant."""
        total = self._declared("t", self._number(0.0), self.part.body, mutable=True)
        pivot = self._at(self.k, self.k)
        body: list[Statement] = [
            Assign(total, self._apply(np.log, self._apply(np.absolute, pivot)), np.add),
            Assign(self.sign, self._apply(np.sign, pivot), np.multiply),
        ]
        self.part.body.append(For(self.k, extent(self.rows), body))
        return total

    # ---- expressions

    def _parts(self) -> list[tuple[Window, tuple[Local, ...], Size]]:
        """Return the matrix and the right-hand sides, each with the index and the number of its columns."""
        found: list[tuple[Window, tuple[Local, ...], Size]] = [(self.matrix, (self.j,), self.rows)]
        if self.right is not None:
            columns = ((), 1) if self.columns is None else ((self.c,), self.columns)
            found.append((self.right, *columns))
        return found

    def _over(
        self, column: tuple[Local, ...], count: Size, body: list[Statement], start: Expr = ZERO
    ) -> list[Statement]:
        return [For(column[0], extent(count), body, start=start)] if column else body

    def _at(self, i: Expr, j: Expr) -> Expr:
        return self.matrix.load((i, j))

    def _number(self, x: float) -> Number:
        return Number(x, self.dtype)

    def _apply(self, function: np.ufunc, *xs: Expr, noted: bool = False) -> Expr:
        op: Op = TABLE[function]  # type: ignore[assignment]
        return Apply(op, xs, np.dtype(bool) if function is np.greater else self.dtype, is_python=noted)

    def _declared(self, hint: str, x: Expr, body: list[Statement], mutable: bool = False) -> Local:
        local = Local(self.part.program.names.fresh(hint), x.dtype, x.names)
        body.append(Declare(local, x, mutable))
        return local
