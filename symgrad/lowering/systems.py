"""Systems of linear equations as statements: solutions, inverses and determinants by elimination with pivoting,
cofactors with complete pivoting, and Cholesky's factors.

A small matrix that is singular as far as rounding can tell is noted as a division by zero: NumPy then decides whether
it is. A function that runs without NumPy ends where a pivot is zero, as LAPACK does, and takes matrices of any size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.graph import Aval, Node, Op
from symgrad.core.sizes import Size, same
from symgrad.lowering.expressions import (
    ONE,
    ZERO,
    Apply,
    Choose,
    Expr,
    Local,
    Number,
    Whole,
    converted,
    extent,
    minus,
    plus,
)
from symgrad.lowering.statements import Assign, Declare, For, If, Regular, Statement
from symgrad.lowering.windows import Window
from symgrad.ops.define import TABLE
from symgrad.ops.determinants import COFACTORS, DET, SLOGDET
from symgrad.ops.linalg import CHOLESKY, INV, SOLVE
from symgrad.ops.parts import REAL

if TYPE_CHECKING:
    from symgrad.lowering.build import Part

SYSTEMS = frozenset((SOLVE, INV, DET, SLOGDET, COFACTORS, CHOLESKY))
TRUTHS = frozenset((np.greater, np.equal, np.not_equal, np.logical_or))  # their results are booleans
TRUTH = np.dtype(bool)
MOST_ROWS = 16  # up to which elimination takes less than a call of LAPACK by NumPy
MOST_IN_LOOPS = 48  # up to which it does in a loop, all of which would be NumPy's otherwise


def is_small_system(node: Node, in_loop: bool) -> bool:
    """Whether an operator is about one matrix of few rows, of which the number is known."""
    most = MOST_IN_LOOPS if in_loop else MOST_ROWS
    a = node.inputs[0].aval
    least = 1 if _dtype(node).kind == "f" else 2  # compilers compute magnitudes ahead of loops that are empty for 1
    vectors = node.op is not SOLVE or node.inputs[1].aval.ndim in (1, 2)
    return vectors and a.ndim == 2 and all(isinstance(n, int) and least <= n <= most for n in a.shape)


def _dtype(node: Node) -> np.dtype:
    aval: Any = node.aval
    found: np.dtype = (aval if isinstance(aval, Aval) else aval[0]).dtype
    return found


def write_system(part: Part, node: Node) -> None:
    """Write what an operator of systems gives."""
    kind = {CHOLESKY: _Cholesky, COFACTORS: _Cofactors}.get(node.op, _System)
    found = kind(part, node)
    found.write()
    found.close()


class _Matrices:
    """Statements about one matrix, or about each of several.

    The `body` is about one: loops over the indices `under`, along which others lie, stand around it.
    """

    def __init__(self, part: Part, node: Node) -> None:
        self.part, self.node, self.dtype = part, node, _dtype(node)
        self.real = np.empty(0, self.dtype).real.dtype  # of magnitudes
        self.rows = node.inputs[0].aval.shape[-1]
        self.stack = _stack_of(node)
        self.body: list[Statement] = []
        self.names = part.program.letters()
        # whether a singular matrix ends the program; else NumPy repeats the call, once it has come to an end
        self.ends = part.program.is_alone or part.program.open_loops > 0
        self.under: list[Expr] = [ZERO if same(n, 1) else Local(next(self.names)) for n in self.stack]

    def write(self) -> None:
        """Write the statements about one matrix, and say where the results are."""
        raise NotImplementedError

    def close(self) -> None:
        """Put the loops around the statements."""
        body = self.body
        for i, n in reversed(list(zip(self.under, self.stack, strict=True))):
            if isinstance(i, Local):
                body = [For(i, extent(n), body)]
        self.part.body += body

    def index(self) -> Local:
        """Return the index of a loop inside of those around the statements."""
        return Local(next(self.names))

    def one_of(self, whole: Window) -> Window:
        """Return the window of the matrix that the statements are about."""
        return Window(whole.buffer, (*whole.under, *self.under))

    def copied(self, x: Node | None, target: Window | None = None) -> Window:
        """Write matrices into memory of their own, or where the results are; None are identities."""
        tail = (self.rows, self.rows) if x is None else x.aval.shape[-min(x.aval.ndim, 2) :]
        shape = (*self.stack, *tail)
        place = target or self.part.allocate("t", Aval(shape, self.dtype))
        with self.part.nested(shape) as nest:
            if x is None:
                number: Expr = Whole("==", *nest.at[-2:])
            else:
                axes = zip(x.aval.shape, nest.at[len(nest.at) - x.aval.ndim :], strict=True)
                number = self.part.pull(x, tuple([ZERO if same(n, 1) else i for n, i in axes]))
            nest.levels[-1].append(place.store(nest.at, converted(number, self.dtype)))
        return place

    # ---- expressions

    def number(self, x: float) -> Number:
        return Number(x, self.dtype)

    def magnitude(self, x: float) -> Number:
        return Number(x, self.real)

    def apply(self, function: np.ufunc, *xs: Expr, noted: bool = False) -> Expr:
        op: Op = TABLE[function]  # type: ignore[assignment]
        dtype = TRUTH if function in TRUTHS else self.real if function is np.absolute else xs[0].dtype
        return Apply(op, xs, dtype, is_python=noted)

    def declared(self, hint: str, x: Expr, body: list[Statement], mutable: bool = False) -> Local:
        depends = {name for i in self.under for name in i.names} | set(x.names)
        local = Local(self.part.program.names.fresh(hint), x.dtype, frozenset(depends))
        body.append(Declare(local, x, mutable))
        return local

    def tiny(self, matrix: Window, i: Local, j: Local) -> Expr:
        """Return what rounding may make of zero: the largest magnitude in the matrix times its rows and an ulp."""
        largest = self.declared("most", self.magnitude(0.0), self.body, mutable=True)
        taken = Assign(largest, self.apply(np.absolute, matrix.load((i, j))), np.maximum)
        self.body.append(For(i, extent(self.rows), [For(j, extent(self.rows), [taken])]))
        scale = self.magnitude(float(self.rows * np.finfo(self.dtype).eps))
        return self.declared("tiny", self.apply(np.multiply, scale, largest), self.body)


def _stack_of(node: Node) -> tuple[Size, ...]:
    """Return the sizes of the axes along which matrices, each by itself, lie."""
    if node.op is SLOGDET:
        aval: Any = node.aval
        return tuple(aval[0].shape)
    shape = tuple(node.aval.shape)
    if node.op is DET:
        return shape
    return shape[: -min(node.inputs[-1].aval.ndim, 2)]


class _System(_Matrices):
    """A system under construction: the matrix, which becomes two triangles, and the right-hand sides."""

    def __init__(self, part: Part, node: Node) -> None:
        super().__init__(part, node)
        self.matrix = self.one_of(self.copied(node.inputs[0]))
        self.right: Window | None = None
        self.columns: Size | None = None
        self.sign: Local | None = None
        if node.op in (SOLVE, INV):
            is_vector = node.op is SOLVE and node.inputs[1].aval.ndim == 1
            whole = part.begin(node)
            self.columns = None if is_vector else node.aval.shape[-1]
            part.values[node] = self.copied(node.inputs[1] if node.op is SOLVE else None, whole)
            self.right = self.one_of(whole)
        self.k, self.i, self.j = (self.index() for _ in range(3))
        self.c = self.index()
        if self.right is None:
            self.sign = self.declared("sign", self.number(1.0), self.body, mutable=True)

    def write(self) -> None:
        self._eliminate()
        if self.right is not None:
            self._substitute(self.right)
        else:
            self._multiply()

    # ---- elimination

    def _eliminate(self) -> None:
        """Subtract rows from those below, the largest number of each column first."""
        tiny = None if self.ends else self.tiny(self.matrix, self.i, self.j)
        body: list[Statement] = []
        most, row = self._pivot(body)
        body.append(If(Whole("<", self.k, row), self._swapped(row)))
        inverse = self.declared("t", self._inverse(most, tiny, body), body)
        below: list[Statement] = []
        factor = self.declared("t", self.apply(np.multiply, self._at(self.i, self.k), inverse), below)
        below += self._subtracted(factor, self.k, self.i, behind=True)
        body.append(For(self.i, extent(self.rows), below, start=plus(self.k, ONE)))
        self.body.append(For(self.k, extent(self.rows), body))

    def _inverse(self, most: Local, tiny: Expr | None, body: list[Statement]) -> Expr:
        """Return the reciprocal of the pivot of a column; a determinant has no use for that of zero."""
        pivot, zero = self._at(self.k, self.k), self.number(0.0)
        if tiny is not None:
            pivot = self.declared("t", Choose(self.apply(np.greater, most, tiny), pivot, zero), body)
            return self.apply(np.divide, self.number(1.0), pivot, noted=True)
        reciprocal = self.apply(np.divide, self.number(1.0), pivot)
        if self.right is not None:
            body.append(Regular(most))
            return reciprocal
        return Choose(self.apply(np.equal, most, self.magnitude(0.0)), zero, reciprocal)

    def _pivot(self, body: list[Statement]) -> tuple[Local, Local]:
        """Return the largest magnitude of a column on or below the diagonal, and its row."""
        most = self.declared("most", self.apply(np.absolute, self._at(self.k, self.k)), body, mutable=True)
        row = self.declared("row", self.k, body, mutable=True)
        inner: list[Statement] = []
        here = self.declared("t", self.apply(np.absolute, self._at(self.i, self.k)), inner)
        inner.append(If(self.apply(np.greater, here, most), [Assign(most, here), Assign(row, self.i)]))
        body.append(For(self.i, extent(self.rows), inner, start=plus(self.k, ONE)))
        return most, row

    def _swapped(self, row: Local) -> list[Statement]:
        """Return the statements that exchange two rows."""
        found: list[Statement] = []
        if self.sign is not None:
            found.append(Assign(self.sign, self.apply(np.negative, self.sign)))
        for window, column, count in self._parts():
            inner: list[Statement] = []
            upper, lower = ((i, *column) for i in (self.k, row))
            held = self.declared("t", window.load(upper), inner)
            inner += [window.store(upper, window.load(lower)), window.store(lower, held)]
            found += self._over(column, count, inner)
        return found

    def _subtracted(self, factor: Expr, above: Local, below: Local, behind: bool = False) -> list[Statement]:
        """Return the statements that subtract a multiple of a row from another, or of its right-hand sides alone."""
        found: list[Statement] = []
        for window, column, count in self._parts() if behind else self._parts()[1:]:
            change = self.apply(np.multiply, factor, window.load((above, *column)))
            at = (below, *column)
            start = plus(self.k, ONE) if window is self.matrix else ZERO
            found += self._over(
                column, count, [window.store(at, self.apply(np.subtract, window.load(at), change))], start
            )
        return found

    # ---- results

    def _substitute(self, right: Window) -> None:
        """Divide the right-hand sides by the upper triangle, the last row first."""
        column, count = self._parts()[1][1:]
        at = (self.k, *column)
        known = self._subtracted(self._at(self.k, self.j), self.j, self.k)
        body: list[Statement] = [For(self.j, extent(self.rows), known, start=plus(self.k, ONE))]
        divided = self.apply(np.divide, right.load(at), self._at(self.k, self.k))
        body += self._over(column, count, [right.store(at, divided)])
        self.body.append(For(self.k, extent(self.rows), body, reverse=True))

    def _multiply(self) -> None:
        """Multiply the diagonal for the determinant: give it, or its sign and the logarithm of its magnitude."""
        assert self.sign is not None
        if self.node.op is DET:
            factor = Assign(self.sign, self._at(self.k, self.k), np.multiply)
            self.body.append(For(self.k, extent(self.rows), [factor]))
            self._give(self.node, self.sign)
            return
        results = self.sign, self._logarithm(self.sign)
        for item in self.part.roots.uses[self.node]:
            self._give(item, results[dict(item.params)["index"]])

    def _give(self, node: Node, value: Local) -> None:
        """Let a value be a number of each matrix."""
        if not self.stack:
            self.part.values[node] = value
            return
        target = self.part.begin(node)
        self.body.append(self.one_of(target).store((), value))
        self.part.values[node] = target

    def _logarithm(self, sign: Local) -> Local:
        """Return the logarithm of the magnitude of the determinant; the sign becomes that of the determinant."""
        total = self.declared("t", self.magnitude(0.0), self.body, mutable=True)
        pivot = self._at(self.k, self.k)
        body: list[Statement] = [
            Assign(total, self.apply(np.log, self.apply(np.absolute, pivot)), np.add),
            Assign(sign, self.apply(np.sign, pivot), np.multiply),
        ]
        self.body.append(For(self.k, extent(self.rows), body))
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


class _Cholesky(_Matrices):
    """A factor under construction: the triangle that is read, which becomes the factor column by column.

    Of an upper factor, which is the conjugate transpose of the lower one, rows are what columns are of that.
    """

    def __init__(self, part: Part, node: Node) -> None:
        super().__init__(part, node)
        self.result = part.begin(node)
        self.is_upper = bool(dict(node.params).get("upper"))
        self.copied(node.inputs[0], self.result)
        self.factor = self.one_of(self.result)
        self.k, self.i, self.j = (self.index() for _ in range(3))
        part.values[node] = self.result

    def write(self) -> None:
        k, i, j = self.k, self.i, self.j
        behind, rows = plus(k, ONE), extent(self.rows)
        tiny = None if self.ends else self.tiny(self.factor, i, j)
        body: list[Statement] = []
        root = self._root(tiny, body)
        inverse = self.apply(np.divide, self.magnitude(1.0), root, noted=tiny is not None)
        inverse = self.declared("t", converted(inverse, self.dtype), body)
        body.append(self._store(k, k, converted(root, self.dtype)))
        scaled = [
            self._store(i, k, self.apply(np.multiply, self._at(i, k), inverse)),
            self._store(k, i, self.number(0.0)),
        ]
        body.append(For(i, rows, scaled, start=behind))
        other = self._at(j, k)
        other = self.apply(np.conjugate, other) if self.dtype.kind == "c" else other
        change = self.apply(np.multiply, self._at(i, k), other)
        inner: list[Statement] = [self._store(i, j, self.apply(np.subtract, self._at(i, j), change))]
        body.append(For(i, rows, [For(j, plus(i, ONE), inner, start=behind)], start=behind))
        self.body.append(For(k, rows, body))

    def _root(self, tiny: Expr | None, body: list[Statement]) -> Expr:
        """Return the square root of a pivot."""
        number = self._at(self.k, self.k)
        number = Apply(REAL, (number,), self.real) if self.dtype.kind == "c" else number
        pivot: Expr = self.declared("t", number, body)
        if tiny is None:
            body.append(Regular(pivot, is_cholesky=True))
        else:
            pivot = Choose(self.apply(np.greater, pivot, tiny), pivot, self.magnitude(0.0))
        return self.declared("t", self.apply(np.sqrt, pivot), body)

    def _place(self, i: Expr, j: Expr) -> tuple[Expr, Expr]:
        return (j, i) if self.is_upper else (i, j)

    def _at(self, i: Expr, j: Expr) -> Expr:
        return self.factor.load(self._place(i, j))

    def _store(self, i: Expr, j: Expr, value: Expr) -> Statement:
        return self.factor.store(self._place(i, j), value)


class _Cofactors(_Matrices):
    """Cofactors under construction: ``p a q = l u`` with complete pivoting, and from these the adjugate.

    That of ``l`` is its inverse, and that of ``u`` needs no reciprocal of its last pivot, which alone is zero where the
    rank is one less than the number of rows. A rank that is less still leaves nothing but zeros.

    References
    ----------
    G. Stewart, *On the adjugate matrix*, Linear Algebra and its Applications 283 (1998).
    """

    def __init__(self, part: Part, node: Node) -> None:
        super().__init__(part, node)
        self.upper = self.one_of(self.copied(node.inputs[0]))
        self.other = self.one_of(self.copied(None))  # the inverse of l, and later the adjugate, with its rows exchanged
        self.order = part.allocate("order", Aval((self.rows,), ZERO.dtype))  # column k of the matrix once was this one
        self.result = part.begin(node)
        self.k, self.i, self.j = (self.index() for _ in range(3))
        self.last = minus(extent(self.rows), ONE)
        part.values[node] = self.result

    def write(self) -> None:
        k, j, rows = self.k, self.j, extent(self.rows)
        self.body.append(For(k, rows, [self.order.store((k,), k)]))
        scale = self.declared("scale", self.number(1.0), self.body, mutable=True)
        self._eliminate(scale)
        self._substitute()
        value = self.apply(np.multiply, scale, self.other.load((k, j)))
        given = self.one_of(self.result).store((j, self.order.load((k,))), value)
        self.body.append(For(k, rows, [For(j, rows, [given])]))

    def _eliminate(self, scale: Local) -> None:
        """Make the matrix upper triangular; the scale becomes the product of all pivots but the last, with a sign."""
        k, i, rows = self.k, self.i, extent(self.rows)
        body: list[Statement] = []
        row, column = self._pivot(body)
        negated = Assign(scale, self.apply(np.negative, scale))
        body.append(If(Whole("<", k, row), [negated, *self._rows_exchanged(row)]))
        body.append(If(Whole("<", k, column), [negated, *self._columns_exchanged(column)]))
        body.append(Assign(scale, self.upper.load((k, k)), np.multiply))
        inverse = self._inverse(body)
        below: list[Statement] = []
        factor = self.declared("t", self.apply(np.multiply, self.upper.load((i, k)), inverse), below)
        below += [self._subtracted(self.upper, factor, k, i, plus(k, ONE)), self._subtracted(self.other, factor, k, i)]
        body.append(For(i, rows, below, start=plus(k, ONE)))
        self.body.append(For(k, self.last, body))

    def _pivot(self, body: list[Statement]) -> tuple[Local, Local]:
        """Return the row and the column of the largest magnitude that is left, or of a NaN."""
        k, i, j, rows = self.k, self.i, self.j, extent(self.rows)
        most = self.declared("most", self.magnitude(0.0), body, mutable=True)
        row, column = (self.declared(hint, k, body, mutable=True) for hint in ("row", "column"))
        inner: list[Statement] = []
        here = self.declared("t", self.apply(np.absolute, self.upper.load((i, j))), inner)
        taken = self.apply(np.logical_or, self.apply(np.greater, here, most), self.apply(np.not_equal, here, here))
        inner.append(If(taken, [Assign(most, here), Assign(row, i), Assign(column, j)]))
        body.append(For(i, rows, [For(j, rows, inner, start=k)], start=k))
        return row, column

    def _rows_exchanged(self, row: Local) -> list[Statement]:
        return [
            For(self.j, extent(self.rows), self._exchanged(window, (self.k, self.j), (row, self.j)))
            for window in (self.upper, self.other)
        ]

    def _columns_exchanged(self, column: Local) -> list[Statement]:
        inner = self._exchanged(self.upper, (self.i, self.k), (self.i, column))
        return [For(self.i, extent(self.rows), inner), *self._exchanged(self.order, (self.k,), (column,))]

    def _exchanged(self, window: Window, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> list[Statement]:
        found: list[Statement] = []
        held = self.declared("t", window.load(a), found)
        return [*found, window.store(a, window.load(b)), window.store(b, held)]

    def _inverse(self, body: list[Statement]) -> Local:
        """Return the reciprocal of a pivot; of zero, by which all results are multiplied, it is zero."""
        pivot, zero = self.upper.load((self.k, self.k)), self.number(0.0)
        reciprocal = self.apply(np.divide, self.number(1.0), pivot)
        return self.declared("t", Choose(self.apply(np.equal, pivot, zero), zero, reciprocal), body)

    def _subtracted(self, window: Window, factor: Expr, above: Local, below: Local, start: Expr = ZERO) -> Statement:
        """Return the loop that subtracts a multiple of a row from another."""
        change = self.apply(np.multiply, factor, window.load((above, self.j)))
        value = self.apply(np.subtract, window.load((below, self.j)), change)
        return For(self.j, extent(self.rows), [window.store((below, self.j), value)], start=start)

    def _substitute(self) -> None:
        """Multiply by the adjugate of the upper triangle, but for the scale."""
        k, i, j, last, rows = self.k, self.i, self.j, self.last, extent(self.rows)
        times = lambda x, y: self.apply(np.multiply, x, y)
        left = times(self.upper.load((last, last)), self.other.load((k, j)))
        right = times(self.upper.load((k, last)), self.other.load((last, j)))
        first = self.other.store((k, j), self.apply(np.subtract, left, right))
        self.body.append(For(k, self.last, [For(j, rows, [first])]))
        known = self._subtracted(self.other, self.upper.load((k, i)), i, k)
        body: list[Statement] = [For(i, last, [known], start=plus(k, ONE))]
        inverse = self._inverse(body)
        body.append(For(j, rows, [self.other.store((k, j), times(self.other.load((k, j)), inverse))]))
        self.body.append(For(k, last, body, reverse=True))
