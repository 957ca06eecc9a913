"""Statements over buffers, from which C is printed: loops, assignments, branches, checks, products of matrices."""

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

    `given` belongs to the caller and is only read, a `result` is written and returned, `own` is there while the program
    runs, a `constant` is part of the program, and a `growing` one has rows appended to it. `then` are the names of what
    lies there later.
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
        """Return the statements inside of it."""
        return [getattr(self, name) for name in self.holds]


@dataclass
class Remark(Statement):
    """The line of the user's from which the following statements come."""

    where: Where
    kind: str = ""


@dataclass
class Declare(Statement):
    """Give a number a name; a `mutable` one is assigned again."""

    reads = ("value",)
    local: Local
    value: Expr
    mutable: bool = False


@dataclass
class Assign(Statement):
    """Give a name another number; with a ufunc, combined with the one that it has."""

    reads = ("value",)
    local: Local
    value: Expr
    combine: np.ufunc | None = None


@dataclass
class Store(Statement):
    """Write the number of a buffer that has an index; with a ufunc, combined with what is there."""

    reads = ("index", "value")
    buffer: Buffer
    index: tuple[Expr, ...]
    value: Expr
    combine: np.ufunc | None = None

    @property
    def at(self) -> Expr:
        """Return where it lies, counted in row-major order."""
        return place_of(self.buffer.shape, self.index)


@dataclass
class Copy(Statement):
    """Copy as many numbers from one buffer into another of the same dtype.

    `row` and `source_row` are their index along the first axes of each buffer, which is the same for all of them.
    Threads may share a loop whose iterations copy into rows of their own.
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
    """A matrix of a product: where it begins in memory, and whether its columns lie there as rows."""

    buffer: Buffer
    start: Expr
    is_transposed: bool = False


@dataclass
class Multiply(Statement):
    """Write the product of two matrices, of `rows` by `terms` and `terms` by `columns`, as BLAS computes it."""

    reads = ("start", "rows", "terms", "columns")
    target: Buffer
    start: Expr
    left: Factor
    right: Factor
    rows: Expr
    terms: Expr
    columns: Expr

    @property
    def expressions(self) -> Sequence[Expr]:
        return [*super().expressions, self.left.start, self.right.start]


@dataclass
class Grow(Statement):
    """Make room in a growing buffer for so many rows."""

    reads = ("rows",)
    buffer: Buffer
    rows: Expr


@dataclass
class Require(Statement):
    """End the program with an error unless an index lies inside of an axis, or there is a number to reduce.

    The index may be too `low`, or too `high`, or both.
    """

    reads = ("index", "size")
    index: Expr
    size: Expr
    reduces: bool = False
    low: bool = True
    high: bool = True


@dataclass
class Regular(Statement):
    """End the program with an error if a pivot is zero; if one of a Cholesky factor is zero or negative."""

    value: Expr
    is_cholesky: bool = False

    @property
    def expressions(self) -> Sequence[Expr]:
        return (self.value,)

    @property
    def fact(self) -> str:
        """Return what NumPy says where it ends."""
        return "Matrix is not positive definite" if self.is_cholesky else "Singular matrix"


@dataclass
class Exact(Statement):
    """Name the result of arithmetic of integers, ``+ - *``; the program ends where it does not fit into 64 bits."""

    reads = ("value",)
    local: Local
    value: Whole


@dataclass
class For(Statement):
    """Count an index from 0, or `start`, to a size, or down.

    ``sums`` are the names that iterations add to in any order.
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
        """Return the names that it gives to its body."""
        return {self.index.name}

    @property
    def row(self) -> Local:
        """Return the index that each iteration has another value of."""
        return self.index

    @property
    def iteration(self) -> list[Statement]:
        """Return what it does for each of these values."""
        return self.body


@dataclass
class Tiles(For):
    """Run loops over the same rows tile by tile: from `index` to `last`, a name for the end of each tile.

    A tile has `rows` rows, the last one may have fewer. `private` buffers hold numbers of one tile, which fills them.
    """

    last: Local = field(kw_only=True)
    rows: int = field(kw_only=True)
    private: Sequence[Buffer] = ()

    @property
    def names(self) -> set[str]:
        return {self.index.name, self.last.name}

    @property
    def row(self) -> Local:
        return next(s.index for s in self.body if isinstance(s, For))

    @property
    def iteration(self) -> list[Statement]:
        return [x for s in self.body for x in (s.body if isinstance(s, For) else [s])]


@dataclass
class Parallel(Statement):
    """A loop whose iterations may run in any order, or at once in chunks of its range.

    Each chunk has `private` buffers of its own, and sums of its own: names or buffers that iterations only combine
    numbers with. These are combined in the order of the chunks.
    """

    loop: For
    private: Sequence[Buffer]
    sums: Sequence[tuple[Local | Buffer, np.ufunc]]

    @property
    def bodies(self) -> Sequence[list[Statement]]:
        return ([self.loop],)


@dataclass
class While(Statement):
    """Count iterations in a name, as long as there are fewer than `stop`, if that is given, and `test` holds.

    `head` computes the test, before each iteration.
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
    """One of two sides."""

    reads = ("test",)
    holds = ("then", "otherwise")
    test: Expr
    then: list[Statement] = field(default_factory=list)
    otherwise: list[Statement] = field(default_factory=list)


@dataclass
class Function:
    """A lowered program: what it is given, the memory that it needs, its statements, and what it gives."""

    name: str
    parameters: Sequence[Buffer | Local]
    sizes: Sequence[str]
    results: Sequence[Buffer]
    buffers: Sequence[Buffer]
    body: list[Statement]


def rewrite(s: Statement, f: Callable[[Expr], Expr]) -> None:
    """Put the image of each expression of a statement in its place; not in its bodies."""
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
