"""Scalar expressions: how a statement computes one number, from elements of buffers and from names."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.graph import Op, Params
from symgrad.core.shapes import product
from symgrad.core.sizes import Dim, Size

if TYPE_CHECKING:
    from symgrad.lowering.statements import Buffer

WHOLE = np.dtype(np.int64)
TRUTH = np.dtype(bool)
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Expr:
    """A number that a statement computes."""

    @property
    def operands(self) -> Sequence[Expr]:
        return ()

    @property
    def dtype(self) -> np.dtype:
        raise NotImplementedError

    def with_operands(self, *operands: Any) -> Expr:
        """Return the expression with other operands."""
        return self

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names that it mentions, and the indices on which these depend."""
        return frozenset().union(*[x.names for x in self.operands])

    def parts(self) -> Iterator[Expr]:
        """Yield it and all expressions in it."""
        yield self
        for x in self.operands:
            yield from x.parts()


@dataclass(frozen=True)
class Number(Expr):
    """A number that is known."""

    value: Any
    kind: np.dtype = WHOLE

    @property
    def dtype(self) -> np.dtype:
        return self.kind

    def __eq__(self, other: object) -> bool:
        return type(other) is Number and repr(self.value) == repr(other.value) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((repr(self.value), self.kind))


@dataclass(frozen=True)
class Local(Expr):
    """A number that has a name: an index, a size, a parameter, or what a statement has declared."""

    name: str
    kind: np.dtype = WHOLE
    depends: frozenset[str] = frozenset()  # the names of the indices that it depends on

    @property
    def dtype(self) -> np.dtype:
        return self.kind

    @cached_property
    def names(self) -> frozenset[str]:
        return self.depends | {self.name}


@dataclass(frozen=True)
class Extent(Expr):
    """A size, an expression in symbols: parameters of the function, and indices of loops around it."""

    text: str

    @property
    def dtype(self) -> np.dtype:
        return WHOLE

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(_NAME.findall(self.text)) - {"max", "min"}


@dataclass(frozen=True)
class Load(Expr):
    """An element of a buffer."""

    buffer: Buffer
    index: tuple[Expr, ...]

    @property
    def operands(self) -> Sequence[Expr]:
        return self.index

    def with_operands(self, *operands: Any) -> Expr:
        return Load(self.buffer, operands)

    @cached_property
    def at(self) -> Expr:
        """Return where it lies, counted in row-major order."""
        return place_of(self.buffer.shape, self.index)

    @property
    def dtype(self) -> np.dtype:
        return self.buffer.dtype


@dataclass(frozen=True)
class Apply(Expr):
    """An elementwise operator on numbers."""

    op: Op
    arguments: tuple[Expr, ...]
    kind: np.dtype
    params: Params = ()
    is_python: bool = False  # of Python's numbers, whose division by zero is an error

    @property
    def operands(self) -> Sequence[Expr]:
        return self.arguments

    def with_operands(self, *operands: Any) -> Expr:
        return replace(self, arguments=operands)

    @property
    def dtype(self) -> np.dtype:
        return self.kind


@dataclass(frozen=True)
class Convert(Expr):
    """A number in another dtype."""

    operand: Expr
    kind: np.dtype

    @property
    def operands(self) -> Sequence[Expr]:
        return (self.operand,)

    def with_operands(self, *operands: Any) -> Expr:
        return replace(self, operand=operands[0])

    @property
    def dtype(self) -> np.dtype:
        return self.kind


@dataclass(frozen=True)
class Choose(Expr):
    """One of two numbers."""

    test: Expr
    then: Expr
    otherwise: Expr

    @property
    def operands(self) -> Sequence[Expr]:
        return (self.test, self.then, self.otherwise)

    def with_operands(self, *operands: Any) -> Expr:
        return Choose(*operands)

    @property
    def dtype(self) -> np.dtype:
        return self.then.dtype


@dataclass(frozen=True)
class Whole(Expr):
    """Integer arithmetic, for indices and positions in memory: ``+ - * / %``, or a comparison."""

    symbol: str
    left: Expr
    right: Expr

    @property
    def operands(self) -> Sequence[Expr]:
        return (self.left, self.right)

    def with_operands(self, *operands: Any) -> Expr:
        return Whole(self.symbol, *operands)

    @property
    def dtype(self) -> np.dtype:
        return TRUTH if self.symbol in ("<", "==", ">=") else WHOLE


ZERO, ONE = Number(0), Number(1)
NOTHING = Number(False, TRUTH)  # in the place of a token
ARITHMETIC = ("+", "-", "*")


def extent(size: Size) -> Expr:
    """Return a size as an expression."""
    return Extent(str(size)) if isinstance(size, Dim) else Number(int(size))


def plus(a: Expr, b: Expr) -> Expr:
    """Return the sum of two integers, with constants folded."""
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value + b.value)
    if a == ZERO or b == ZERO:
        return b if a == ZERO else a
    if isinstance(b, Number) and isinstance(a, Whole) and a.symbol == "+" and isinstance(a.right, Number):
        return plus(a.left, Number(a.right.value + b.value))
    return plus(b, a) if isinstance(a, Number) else Whole("+", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    if isinstance(b, Number):
        return plus(a, Number(-b.value))
    return ZERO if a == b else Whole("-", a, b)


def times(a: Expr, b: Expr) -> Expr:
    """Return the product of two integers, with constants folded."""
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value * b.value)
    if ZERO in (a, b):
        return ZERO
    if ONE in (a, b):
        return b if a == ONE else a
    if isinstance(a, Number):
        a, b = b, a
    if isinstance(b, Number) and isinstance(a, Whole) and a.symbol == "*" and isinstance(a.right, Number):
        return times(a.left, Number(a.right.value * b.value))
    return Whole("*", a, b)


def divided(a: Expr, b: Expr) -> Expr:
    """Return the floor quotient of two integers that are at least 0."""
    if b in (ZERO, ONE):  # nothing has a place among no numbers: it stays in its loop, which is not run
        return a
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value // b.value)
    return ZERO if a == ZERO else Whole("/", a, b)


def remainder(a: Expr, b: Expr) -> Expr:
    """Return the remainder of two integers that are at least 0."""
    if a == ZERO or b in (ZERO, ONE):
        return a if b == ZERO else ZERO
    return Number(a.value % b.value) if isinstance(a, Number) and isinstance(b, Number) else Whole("%", a, b)


FOLDED: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "+": plus,
    "-": minus,
    "*": times,
    "/": divided,
    "%": remainder,
}
COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {"<": operator.lt, "==": operator.eq, ">=": operator.ge}


def with_known(x: Expr, known: Mapping[str, Expr]) -> Expr:
    """Substitute known values for names, and fold the arithmetic of indices."""
    if isinstance(x, Local):
        return known.get(x.name, x)
    operands = [with_known(y, known) for y in x.operands]
    if isinstance(x, Whole):
        left, right = operands
        if x.symbol in FOLDED:
            return FOLDED[x.symbol](left, right)
        if x.symbol in COMPARED and isinstance(left, Number) and isinstance(right, Number):
            return Number(COMPARED[x.symbol](left.value, right.value), TRUTH)
    if isinstance(x, Choose) and isinstance(operands[0], Number):
        return operands[1] if operands[0].value else operands[2]
    if isinstance(x, Convert):
        return converted(operands[0], x.kind)
    return x.with_operands(*operands)


def slope(x: Expr, index: str) -> Expr | None:
    """Return the slope of an integer that is affine in an index; None if it is not known to be."""
    if index not in x.names:
        return ZERO
    if isinstance(x, Local):
        return ONE if x.name == index else None
    if not isinstance(x, Whole) or x.symbol not in ARITHMETIC:
        return None
    left, right = (slope(y, index) for y in x.operands)
    if left is None or right is None:
        return None
    if x.symbol == "*":
        return None if ZERO not in (left, right) else plus(times(left, x.right), times(x.left, right))
    return FOLDED[x.symbol](left, right)


def largest_bits(x: Expr, indices: Collection[str]) -> int:
    """Return a bound of the bits of an integer's magnitude; `indices` are names that count what fits in memory."""
    if isinstance(x, Number):
        return int(x.value).bit_length()
    if isinstance(x, Extent) or (isinstance(x, Local) and x.name in indices):
        return 48
    if isinstance(x, Whole) and x.symbol in ARITHMETIC:
        bits = [largest_bits(y, indices) for y in x.operands]
        return sum(bits) if x.symbol == "*" else max(bits) + 1
    if isinstance(x, Apply) and x.op.evaluate in (np.floor_divide, np.remainder):
        return largest_bits(x.arguments[x.op.evaluate is np.remainder], indices) + 1
    return 1 if x.dtype == TRUTH else 64


def converted(x: Expr, dtype: np.dtype) -> Expr:
    """Return a number in a dtype."""
    if x.dtype == dtype:
        return x
    is_narrow = dtype.kind in "iu" and dtype.itemsize < WHOLE.itemsize
    if x.dtype.kind == "f" and is_narrow:  # wraps around where it is out of range
        return converted(converted(x, WHOLE), dtype)
    if isinstance(x, Number):
        with np.errstate(invalid="ignore"):
            is_large = type(x.value) is int and x.value.bit_length() > 63 and x.dtype == WHOLE  # an integer of Python's
            return Number(np.asarray(x.value, object if is_large else x.dtype).astype(dtype).item(), dtype)
    return Convert(x, dtype)


def neutral(combine: np.ufunc, dtype: np.dtype) -> Number:
    """Return the identity of a ufunc in a dtype: 0 of a sum, minus infinity of a maximum."""
    if combine not in (np.maximum, np.minimum):
        return Number(dtype.type(combine.identity).item(), dtype)
    if dtype.kind == "f":
        return Number(-np.inf if combine is np.maximum else np.inf, dtype)
    info = np.iinfo(dtype) if dtype.kind in "iu" else None
    first = (combine is np.minimum) if info is None else int(info.min if combine is np.maximum else info.max)
    return Number(first, dtype)


def product_of(sizes: Sequence[Expr]) -> Expr:
    """Return the product of sizes, sorted so that equal products are equal expressions."""
    total: Expr = ONE
    for n in reversed(sizes):
        total = times(total, n)
    return total


def place_of(shape: Sequence[Size], index: Sequence[Expr]) -> Expr:
    """Return the row-major position of an index along the first axes."""
    place: Expr = ZERO
    for i, stride in zip(index, strides_of(shape), strict=False):
        place = plus(place, times(i, stride))
    return place


def strides_of(shape: Sequence[Size]) -> tuple[Expr, ...]:
    """Return the row-major strides of a shape, in elements."""
    return tuple([extent(product(shape[k + 1 :])) for k in range(len(shape))])
