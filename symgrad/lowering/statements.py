"""Statements over buffers, the form of a program before C: loops, assignments, branches, checks, matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from symgrad.core.provenance import Where
from symgrad.core.sizes import Size
from symgrad.lowering.expressions import ZERO, Expr, Local, Whole, place_of

Kind = Literal["given", "result", "own", "constant", "growing"]


@dataclass(frozen=True, eq=False)
class Buffer:
    """Memory for the numbers of one array, in row-major order.

    A `given` buffer belongs to the caller and is only read, a `result` is written and returned, an `own` one is
    temporary, a `constant` is part of the program, and a `growing` one has rows appended. `then` are the names of later
    values in it.
    """

    name: str
    dtype: np.dtype
    shape: tuple[Size, ...]
    kind: Kind
    value: np.ndarray | None = None
    then: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.name


@dataclass
class Statement:
    """A step of a program."""

    reads: ClassVar[Sequence[str]] = ()  # the fields that are expressions, or tuples of them
    holds: ClassVar[Sequence[str]] = ()  # the fields that are lists of statements

    @property
    def expressions(self) -> Sequence[Expr]:
        """Return the expressions of the statement itself, without those of its bodies."""
        fields = [getattr(self, name) for name in self.reads]
        return [x for field in fields for x in (field if isinstance(field, tuple) else (field,)) if x is not None]

    @property
    def bodies(self) -> Sequence[list[Statement]]:
        """Return the suites of statements inside of it."""
        return [getattr(self, name) for name in self.holds]


@dataclass
class Remark(Statement):
    """A comment: the user's line from which the following statements come."""

    where: Where
    kind: str = ""


@dataclass
class Declare(Statement):
    """Give a number a name; a `mutable` one is assigned again.

    The value of one that `adds_to` another name is that name's with one more term: both are of one element of a buffer.
    """

    reads = ("value",)
    local: Local
    value: Expr
    mutable: bool = False
    adds_to: str = ""


@dataclass
class Assign(Statement):
    """Give a mutable name another number; with a ufunc, combined with the one that it has."""

    reads = ("value",)
    local: Local
    value: Expr
    combine: np.ufunc | None = None


@dataclass
class Store(Statement):
    """Write an element of a buffer; with a ufunc, combined with the one that is there."""

    reads = ("index", "value")
    buffer: Buffer
    index: tuple[Expr, ...]
    value: Expr
    combine: np.ufunc | None = None

    @property
    def at(self) -> Expr:
        """Return its row-major position."""
        return place_of(self.buffer.shape, self.index)


@dataclass
class Copy(Statement):
    """Copy `count` contiguous numbers from one buffer into another of the same dtype.

    They begin at the index `row` along the first axes of the target, and at `source_row` in the source. A loop whose
    iterations copy to rows of their own may be parallel.
    """

    reads = ("start", "source_start", "count", "row", "source_row")
    target: Buffer
    start: Expr
    source: Buffer
    source_start: Expr
    count: Expr
    row: tuple[Expr, ...] = ()
    source_row: tuple[Expr, ...] = ()


@dataclass
class Factor:
    """A matrix of a product: its start in a buffer, and whether it is stored transposed."""

    buffer: Buffer
    start: Expr
    is_transposed: bool = False


@dataclass
class Multiply(Statement):
    """Write the product of two matrices, of `rows` by `terms` and `terms` by `columns`, as BLAS computes it.

    In a loop over rows, or over tiles of rows, `row` is the index of a row, and the statement computes the part of the
    product that belongs to the rows of an iteration: rows of the target, or, for ``A.T @ B``, the sum over these rows
    of A and B, which is added to the target.
    """

    reads = ("start", "rows", "terms", "columns")
    target: Buffer
    start: Expr
    left: Factor
    right: Factor
    rows: Expr
    terms: Expr
    columns: Expr
    row: Local | None = None

    @property
    def expressions(self) -> Sequence[Expr]:
        return [*super().expressions, self.left.start, self.right.start]

    @property
    def sums_rows(self) -> bool:
        """Whether it is ``A.T @ B``, a sum over the rows of A and B as they are in memory."""
        return self.left.is_transposed

    @property
    def adds(self) -> bool:
        """Whether it is added to the target, as a part of a sum."""
        return self.sums_rows and self.row is not None

    @property
    def matrices(self) -> Sequence[tuple[Buffer, tuple[Expr, ...] | None]]:
        """Return both factors and the target, each with the index of the row that it uses; None if it uses all."""
        row = None if self.row is None else (self.row,)
        right, target = (row, None) if self.sums_rows else (None, row)
        return (self.left.buffer, row), (self.right.buffer, right), (self.target, target)


@dataclass
class Sort(Statement):
    """Sort the `count` numbers of a row of `keys`, and write where each of them was into a row of `order`.

    `row` and `order_row` are the indices of the rows along the first axes of both. Merging needs the memory of `spare`,
    for as many keys and places; few numbers need none.
    """

    reads = ("row", "order_row", "count")
    keys: Buffer
    row: tuple[Expr, ...]
    order: Buffer
    order_row: tuple[Expr, ...]
    count: Expr
    spare: Sequence[Buffer]

    @property
    def starts(self) -> tuple[Expr, Expr]:
        """Return the row-major positions of both rows."""
        return place_of(self.keys.shape, self.row), place_of(self.order.shape, self.order_row)

    @property
    def written(self) -> Sequence[tuple[Buffer, tuple[Expr, ...]]]:
        """Return the buffers that it writes, each with the index of the row that it fills."""
        return (self.keys, self.row), (self.order, self.order_row), *((b, ()) for b in self.spare)


@dataclass
class Grow(Statement):
    """Make room for `rows` rows in a growing buffer."""

    reads = ("rows",)
    buffer: Buffer
    rows: Expr


@dataclass
class Require(Statement):
    """End the program with an error unless an index is within an axis, or an axis to be reduced is not empty.

    `low` and `high` say which bounds are checked.
    """

    reads = ("index", "size")
    index: Expr
    size: Expr
    reduces: bool = False
    low: bool = True
    high: bool = True


@dataclass
class Regular(Statement):
    """End the program with an error if a pivot is zero, or not positive for a Cholesky factor."""

    value: Expr
    is_cholesky: bool = False

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.value,)

    @property
    def fact(self) -> str:
        """Return NumPy's message for the error."""
        return "Matrix is not positive definite" if self.is_cholesky else "Singular matrix"


@dataclass
class Check(Statement):
    """End the program where a check of the user's raises, which NumPy does when it repeats the call."""

    reads = ("raises",)
    raises: Expr


@dataclass
class Exact(Statement):
    """Name the result of arithmetic of integers, ``+ - *``; the program ends where it does not fit into 64 bits."""

    reads = ("value",)
    local: Local
    value: Whole


@dataclass
class For(Statement):
    """Count an index from `start` up to a size, or down.

    ``sums`` are reductions: names into which iterations accumulate in any order, and the ufuncs.
    """

    reads = ("start", "stop")
    holds = ("body",)
    index: Local
    stop: Expr
    body: list[Statement] = field(default_factory=list)
    reverse: bool = False
    sums: list[tuple[Local, np.ufunc]] = field(default_factory=list)
    start: Expr = ZERO

    @property
    def names(self) -> set[str]:
        """Return the names that it declares for its body."""
        return {self.index.name}

    @property
    def row(self) -> Local:
        """Return the index of its iterations; for tiles that of a row."""
        return self.index

    @property
    def iteration(self) -> list[Statement]:
        """Return the statements for one such index."""
        return self.body


@dataclass
class Tiles(For):
    """Run loops over the same rows tile by tile, each from `index` to `last`.

    A tile has `rows` rows; the last one may have fewer. `private` buffers have room for one tile, which fills them.
    """

    last: Local = field(kw_only=True)
    rows: int = field(kw_only=True)
    private: Sequence[Buffer] = ()

    @property
    def names(self) -> set[str]:
        return {self.index.name, self.last.name}

    @property
    def row(self) -> Local:
        rows = (s.index if isinstance(s, For) else s.row for s in self.body if isinstance(s, For | Multiply))
        return next(x for x in rows if x is not None)

    @property
    def iteration(self) -> list[Statement]:
        return [x for s in self.body for x in (s.body if isinstance(s, For) else [s])]


@dataclass
class Parallel(Statement):
    """A loop whose iterations may run in any order, or in parallel in chunks of its range.

    Each chunk has its own `private` buffers, and its own partial `sums`: names or buffers into which iterations only
    accumulate. Partial sums are combined in the order of the chunks.
    """

    loop: For
    private: Sequence[Buffer]
    sums: Sequence[tuple[Local | Buffer, np.ufunc]]

    @property
    def bodies(self) -> Sequence[list[Statement]]:
        return ([self.loop],)


@dataclass
class While(Statement):
    """Iterate while `test` holds, and at most `stop` times if that is given; `count` is the number of the iteration.

    `head` are the statements that compute the test, before each iteration.
    """

    reads = ("stop", "test")
    holds = ("head", "body")
    count: Local
    stop: Expr | None
    head: list[Statement]
    test: Expr
    body: list[Statement] = field(default_factory=list)


@dataclass
class If(Statement):
    """A branch with two sides."""

    reads = ("test",)
    holds = ("then", "otherwise")
    test: Expr
    then: list[Statement] = field(default_factory=list)
    otherwise: list[Statement] = field(default_factory=list)


@dataclass
class Function:
    """A lowered program: its parameters, results, memory and statements."""

    name: str
    parameters: Sequence[Buffer | Local]
    sizes: Sequence[str]
    results: Sequence[Buffer]
    buffers: Sequence[Buffer]
    body: list[Statement]


def rewrite(s: Statement, f: Callable[[Expr], Expr]) -> None:
    """Replace each expression of a statement by its image, except in its bodies."""
    for name in s.reads:
        x = getattr(s, name)
        if x is not None:
            setattr(s, name, tuple(map(f, x)) if isinstance(x, tuple) else f(x))
    if isinstance(s, Multiply):
        s.left, s.right = (replace(x, start=f(x.start)) for x in (s.left, s.right))


def walk(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield statements, and those inside of them, in their order."""
    for statement in statements:
        yield statement
        for body in statement.bodies:
            yield from walk(body)


def with_replaced(
    statements: Sequence[Statement], instead: Callable[[Statement], Sequence[Statement] | None]
) -> list[Statement]:
    """Return statements, those inside of others included, with others in the place of some."""
    found: list[Statement] = []
    for s in statements:
        new = instead(s)
        if new is None:
            for body in s.bodies:
                body[:] = with_replaced(body, instead)
        found += new or [s]
    return found
