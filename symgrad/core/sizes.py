"""Sizes that may be symbols: integers of the user's code that become ``n`` in the generated program.

A size is a Python int or a `Dim`. Its text is Python source: ``str(size)``.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from symgrad.core import size_expressions
from symgrad.core.provenance import asked_by_user, internal
from symgrad.core.size_bounds import conditions, distributed
from symgrad.core.size_expressions import Multiple, as_multiple, calculate, sympify
from symgrad.errors import SymbolicSizeError

if TYPE_CHECKING:
    from sympy import Expr

    from symgrad.core.size_scope import Sizes


BinaryMethod: TypeAlias = Callable[["Dim", Any], Any]


def _methods(op: Callable[[Any, Any], Any]) -> tuple[BinaryMethod, BinaryMethod]:
    """An operator with the size on its left, and on its right."""
    return lambda self, other: _calculate(op, self, other), lambda self, other: _calculate(op, other, self)


def _comparison(op: Callable[[Any, Any], Any], sign: str) -> BinaryMethod:
    return lambda self, other: _compare(op, sign, self, other)


class Dim:
    """A symbolic size: an integer of at least 1 (if it is a plain symbol) that is not known yet.

    Integer arithmetic with integers and other sizes gives sizes, an ``int`` where the result is a number. Any other
    arithmetic (``1 / n``, ``2.5 * n``, ``np.sqrt(n)``) *lifts* the size to a scalar of the traced program.
    Comparisons are answered where the answer is the same for every value; otherwise, as when Python asks for the
    number itself (``range(n)``, ``int(n)``), the symbols are *pinned* to the sizes at hand.

    Parameters
    ----------
    expr : sympy.Expr or Multiple
        An integer expression over symbols that are positive integers.
    scope : Sizes
        Where the symbols come from; knows their values, if there are any.

    Examples
    --------
    >>> from symgrad.core.size_scope import Sizes
    >>> n = Sizes().symbol("n")
    >>> n * (n - 1) // 2, (n + 2) - n, n + 1 > 1
    (n * (n - 1) // 2, 2, True)
    """

    __slots__ = ("_expr", "multiple", "scope")

    def __init__(self, expr: Expr | Multiple, scope: Sizes) -> None:
        self._expr: Expr | None = None if isinstance(expr, Multiple) else expr
        self.multiple: Multiple | None = expr if isinstance(expr, Multiple) else as_multiple(expr)
        self.scope = scope

    @property
    def expr(self) -> Expr:
        """The size in SymPy."""
        if self._expr is None:
            assert self.multiple is not None
            self._expr = self.multiple.expr
        return self._expr

    def __repr__(self) -> str:
        return str(self.multiple) if self.multiple else size_expressions.source(self.expr)

    def __hash__(self) -> int:
        """Return the hash of the number that a size is: a user's dict or set holds ints."""
        return hash(self.scope.pin(self) if asked_by_user(sys._getframe(1)) else self.multiple or self.expr)

    # Integer arithmetic; see _calculate for what is not.

    __add__, __radd__ = _methods(operator.add)
    __sub__, __rsub__ = _methods(operator.sub)
    __mul__, __rmul__ = _methods(operator.mul)
    __floordiv__, __rfloordiv__ = _methods(operator.floordiv)
    __mod__, __rmod__ = _methods(operator.mod)
    __pow__, __rpow__ = _methods(operator.pow)
    __truediv__, __rtruediv__ = _methods(operator.truediv)
    __matmul__, __rmatmul__ = _methods(operator.matmul)
    __lshift__, __rlshift__ = _methods(operator.lshift)
    __rshift__, __rrshift__ = _methods(operator.rshift)
    __and__, __rand__ = _methods(operator.and_)
    __or__, __ror__ = _methods(operator.or_)
    __xor__, __rxor__ = _methods(operator.xor)

    def __divmod__(self, other: Any) -> Any:
        quotient = self // other
        return NotImplemented if quotient is NotImplemented else (quotient, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        quotient = other // self
        return NotImplemented if quotient is NotImplemented else (quotient, other % self)

    def __neg__(self) -> Size:
        return cast(Size, -1 * self)

    def __invert__(self) -> Size:
        return cast(Size, -self - 1)

    def __pos__(self) -> Dim:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__

    def __abs__(self) -> Size:
        return largest(0, largest(self, -self))  # what is not below 0 is seen to be so

    # Comparisons: decided for every value of the symbols, or pinned.

    __eq__ = _comparison(operator.eq, "==")
    __ne__ = _comparison(operator.ne, "!=")
    __lt__ = _comparison(operator.lt, "<")
    __le__ = _comparison(operator.le, "<=")
    __gt__ = _comparison(operator.gt, ">")
    __ge__ = _comparison(operator.ge, ">=")

    def __bool__(self) -> bool:
        return bool(_lifted(self)) if is_counted(self) else cast(bool, self != 0)

    # Python asks for the number.

    def __index__(self) -> int:
        return self.scope.pin(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.scope.pin(self, "for a float", "for math.sqrt(n) write np.sqrt(n)"))

    def __format__(self, text: str) -> str:
        return format(self.scope.pin(self), text) if text else str(self)

    def __round__(self, ndigits: int | None = None) -> Size:
        return self if ndigits is None or ndigits >= 0 else round(self.scope.pin(self), ndigits)

    def __getattr__(self, name: str) -> Any:
        """Return what an int has under a name, ``n.bit_length``."""
        if name.startswith("_") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}", name=name, obj=self)
        return getattr(self.scope.pin(self), name)

    # NumPy: the size becomes a scalar of the traced program.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        integer = _INTEGER_UFUNCS.get(ufunc)
        if integer is not None and method == "__call__" and not kwargs and not any(map(is_counted, inputs)):
            # np.int64(3) + n arrives here, and np.int64(3) < n as an array of no dimensions.
            sizes = [x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in inputs]
            if all(map(_is_size, sizes)):
                return integer(*map(_plain, sizes))
        return getattr(ufunc, method)(*_lifted(inputs), **{name: _lifted(x) for name, x in kwargs.items()})

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        args = (_lifted(x) for x in args)
        return func(*args, **{name: _lifted(x) for name, x in kwargs.items()})


Size: TypeAlias = int | Dim
Shape: TypeAlias = tuple[Size, ...]

_INTEGER_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.divmod: divmod, np.negative: operator.neg, np.positive: operator.pos,
    np.absolute: operator.abs, np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.minimum: lambda a, b: smallest(a, b), np.maximum: lambda a, b: largest(a, b),
}  # fmt: skip


class Rows(int):
    """The length of a block of rows, known only while a loop runs: for inference a number that no other size has.

    Where values of a block have several lengths, each has a number.
    """

    name: str

    def __new__(cls, name: str, number: int = 0) -> Rows:
        if number >= MOST_ROWS:
            raise ValueError(f"more than {MOST_ROWS} lengths in a block")
        self = super().__new__(cls, _FIRST_ROWS + number)
        self.name = name
        return self

    def __add__(self, other: int) -> int:
        return self if other == 0 else super().__add__(other)  # what nothing is added to keeps its name

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


def is_rows(size: Size) -> bool:
    """Whether a size is the length of a block."""
    return isinstance(size, int) and _FIRST_ROWS <= size < _NO_ROWS


_FIRST_ROWS, MOST_ROWS = 1 << 61, 64  # which no array has
_NO_ROWS = _FIRST_ROWS + MOST_ROWS


def symbols_of(size: Size) -> tuple[str, ...]:
    """The names of the symbols in a size, sorted."""
    if not isinstance(size, Dim):
        return ()
    return (size.multiple.symbol,) if size.multiple else size_expressions.names(size.expr)


def is_symbol(size: Size) -> bool:
    """Whether a size is a symbol, and no expression of symbols."""
    return symbols_of(size) == (str(size),)


def renamed(size: Dim, name: Callable[[str], str]) -> str:
    """The text of a size with other names for its symbols, and for `min` and `max`."""
    if size.multiple:
        return str(size.multiple._replace(symbol=name(size.multiple.symbol)))
    others = {size_expressions.symbol(n): size_expressions.symbol(name(n)) for n in symbols_of(size)}
    return size_expressions.source(size_expressions.with_functions(size.expr.xreplace(others), name))


def is_counted(x: object) -> bool:
    """Whether it is a size that only running tells, which may be 0."""
    return isinstance(x, Dim) and not x.scope.counted.isdisjoint(symbols_of(x))


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that a size is where its symbols have these values."""
    if not isinstance(size, Dim):
        return size
    if size.multiple:
        return size.multiple.number * int(values[size.multiple.symbol])
    return size_expressions.evaluate(size.expr, values)


def scope_of(*sizes: Size) -> Sizes:
    """The scope of the first symbolic size."""
    return next(size.scope for size in sizes if isinstance(size, Dim))


def settled(size: Any) -> Any:
    """Return the number of a size whose symbols are pinned: what is made of it needs no symbols; others as they are."""
    if type(size) is not Dim or not size.scope.pinned:
        return size
    pinned, names = size.scope.pinned, symbols_of(size)
    return evaluate(size, pinned) if all([name in pinned for name in names]) else size


def number_of(x: Any) -> Any:
    """Return the number of a size, which pins it, for a function that takes no sizes; anything else as it is."""
    return operator.index(x) if isinstance(x, Dim) else x


# ---- arithmetic


def _is_size(x: object) -> bool:
    """Whether x takes part in integer arithmetic."""
    return issubclass(type(x), (int, Dim, np.integer))  # a traced number says of itself that it is an int


def _plain(x: Any) -> Size:
    """A size as an int or Dim; NumPy integers become ints."""
    return x if isinstance(x, Dim) else int(x)


def expression_of(size: Size) -> Expr:
    """A size as a SymPy expression."""
    return size.expr if isinstance(size, Dim) else sympify(size)


def size_from(expr: Expr, scope: Sizes) -> Size:
    """A SymPy expression as a size."""
    expr = scope.on_one_side(expr)
    return int(expr) if expr.is_Integer else Dim(expr, scope)


def in_side(size: Size, side: int) -> Size:
    """Return a size as it is in the side of a branch of this number, 0 for outside of all."""
    if not isinstance(size, Dim) or size.multiple:
        return size
    return size_from(size_expressions.in_side(size.expr, side), size.scope)


def outside(a: Size, b: Size) -> Size:
    """Return a size that both sides of a branch give alike as it is outside of them."""
    if not (has_side(a) and has_side(b)):
        return b if has_side(a) else a
    scope = scope_of(a, b)
    common = scope.common_side(*(scope.side_of(expression_of(size)) for size in (a, b)))
    return b if scope.side_of(expression_of(b)) == common else in_side(a, common)


def anywhere(size: Size) -> Size:
    """Return a size that is the same in the side of a branch that it has a meaning in, and nowhere below 0."""
    plain = in_side(size, 0)
    return plain if at_most(0, plain) else largest(0, plain)


def has_side(size: object) -> bool:
    """Whether a size has a meaning in the side of a branch alone."""
    return isinstance(size, Dim) and not size.multiple and any(size_expressions.sides(size.expr))


def _calculate(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """``op(a, b)``, one of them a Dim: a size for integers, a lifted scalar for other numbers and arrays."""
    if _is_size(a) and _is_size(b):
        a, b = _plain(a), _plain(b)
        if op in _SHIFTS and type(b) is int and b >= 0:
            op, b = _SHIFTS[op], 2**b
        if op is operator.mul and (found := _multiplied(a, b)) is not None:
            return found
        if op in _EXACT or (op is operator.pow and type(b) is int and b >= 0):
            a, b = settled(a), settled(b)
            if isinstance(a, int) and isinstance(b, int):
                return op(a, b)
            if (found := _of_one_symbol(op, a, b)) is not None:
                return found
            return size_from(calculate(op, expression_of(a), expression_of(b)), scope_of(a, b))
        if op is operator.pow and _gives_float(b):
            a, b = (a, float(b)) if isinstance(b, int) else (a * 1.0, b)
    elif not all(issubclass(type(x), (Dim, int, float, complex, np.generic, np.ndarray)) for x in (a, b)):
        return NotImplemented
    return op(_lifted(a), _lifted(b))


def _gives_float(exponent: Size) -> bool:
    """Whether a power of integers with this exponent is a float in Python: below 0, in the program if not always."""
    if isinstance(exponent, int) or is_counted(exponent):
        return isinstance(exponent, int) and exponent < 0
    scope = exponent.scope
    below = scope.decide(operator.le, exponent.expr) is True
    return below or (not scope.assume(exponent) and scope.value(exponent) is not None and exponent < 0)


def _multiplied(a: Size, b: Size) -> Size | None:
    """A product of a number and a multiple of a symbol, for which SymPy need not be there."""
    number, size = (a, b) if isinstance(b, Dim) else (b, a)
    if not isinstance(number, int) or number < 1 or not isinstance(size, Dim) or not size.multiple:
        return None
    return size if number == 1 else Dim(size.multiple._replace(number=number * size.multiple.number), size.scope)


def _of_one_symbol(op: Callable[[Any, Any], Any], a: Size, b: Size) -> Size | None:
    """Return the sum or difference of multiples of one symbol, for which SymPy need not be there; None of others."""
    if op not in (operator.add, operator.sub) or not isinstance(a, Dim) or not isinstance(b, Dim):
        return None
    if not a.multiple or not b.multiple or a.multiple.symbol != b.multiple.symbol:
        return None
    number = op(a.multiple.number, b.multiple.number)
    if number > 0:
        return Dim(a.multiple._replace(number=number), a.scope)
    return None if number else 0


_EXACT = frozenset({operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod})
_SHIFTS = {operator.lshift: operator.mul, operator.rshift: operator.floordiv}


def _lifted(x: Any) -> Any:
    """The argument of a NumPy function with the sizes in it as scalars of the traced program."""
    if isinstance(x, Dim):
        if x.scope.lift is None:
            raise SymbolicSizeError(
                f"the size {x} is a symbol here, and outside a trace only integer arithmetic works on it",
                "Use + - * // % with integers, or compute with it inside the traced function.",
            )
        return x.scope.lift(x)
    if type(x) in (list, tuple) and any(isinstance(item, Dim) for item in x):
        return type(x)(_lifted(item) if isinstance(item, Dim) else item for item in x)
    return x


def largest(a: Size, b: Size) -> Size:
    """``max(a, b)``, never pinning."""
    a, b = settled(a), settled(b)
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return _extreme(True, a, b)


def smallest(a: Size, b: Size) -> Size:
    """``min(a, b)``, never pinning."""
    a, b = settled(a), settled(b)
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _extreme(False, a, b)


def _extreme(largest: bool, a: Size, b: Size) -> Size:
    scope = scope_of(a, b)
    return size_from(scope.extreme(largest, expression_of(a), expression_of(b)), scope)


def difference(a: Size, b: Size) -> Size:
    """``a - b`` with the subtraction inside ``min`` and ``max``, where more can be simplified."""
    a, b = settled(a), settled(b)
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if (found := _of_one_symbol(operator.sub, a, b)) is not None:
        return found
    return size_from(distributed(calculate(operator.sub, expression_of(a), expression_of(b))), scope_of(a, b))


# ---- comparison


def _compare(op: Callable[[Any, Any], Any], sign: str, a: Dim, b: Any) -> Any:
    """The answer for every value of the symbols where there is one; else that of the call at hand, or of `_usual`.

    It is assumed where a lower bound of a symbol says it, and else the symbols are pinned.
    """
    if not _is_size(b) and not issubclass(type(b), (float, np.floating)):
        return NotImplemented
    if isinstance(b, Dim) and _written_alike(a, b):
        return op(0, 0)
    asked, right = a, b
    if isinstance(x := settled(a), int) and isinstance(y := settled(b), int):
        return op(x, y)
    if _is_size(b):
        # What cancels in the difference need not be pinned.
        rest = size_from(calculate(operator.sub, a.expr, expression_of(_plain(b))), a.scope)
        if isinstance(rest, int):
            return op(rest, 0)
        if is_counted(rest) and not internal(sys._getframe(2).f_code):  # shapes go on as if there were an iteration
            answer = a.scope.decide_counted(op, rest.expr)
            return op(_lifted(rest), 0) if answer is None else answer
        answer = a.scope.decide(op, rest.expr)
        if answer is not None:
            return answer
        asked, right = rest, 0
    number = a.scope.value(asked)
    if number is None:
        by_user = a.scope.lift is not None and not internal(sys._getframe(2).f_code)
        usual = _usual(op, asked) if by_user and _is_size(b) else None
        if usual is None:
            smaller = "" if "=" in sign else "for min(n, 3) and max(n, 3) write np.minimum(n, 3) and np.maximum(n, 3)"
            raise no_number(a, f"whether {a} {sign} {b}", smaller)
        return usual
    margin = _margin(op, asked, number) if _is_size(b) else None
    if margin is None or not a.scope.assume(margin):
        a.scope.pin(asked)
    return bool(op(number, right))


FEW = 8  # a symbol of specs is assumed to be larger than such a number, where a program tests whether it is


def _usual(op: Callable[[Any, Any], Any], size: Dim) -> bool | None:
    """Return how a size with one symbol compares to 0 for all but a few small numbers, and assume a larger one.

    None if there is no such answer. ``n == 1`` is false as a rule; ``n == 3`` may be true in every call.
    """
    scope, symbols = size.scope, symbols_of(size)
    if len(symbols) != 1 or (op in (operator.eq, operator.ne) and not same(size, scope.written(*symbols) - 1)):
        return None
    for number in (1, -1):
        margin = _margin(op, size, number)
        assert margin is not None, "neither number is 0"
        bound = scope.bound(margin)
        if bound is not None and isinstance(bound.least, int) and bound.least <= FEW + 1 and scope.assume(margin):
            return bool(op(number, 0))
    return None


def _margin(op: Callable[[Any, Any], Any], size: Dim, number: int) -> Size | None:
    """Return what is at least 0 where a size compares to 0 as this number does; None where only 0 itself does."""
    if op in (operator.eq, operator.ne):
        return size - 1 if number > 0 else -size - 1 if number < 0 else None
    holds = op(number, 0)
    strict, above = (op in (operator.gt, operator.lt)) == holds, (op in (operator.ge, operator.gt)) == holds
    return (size if above else -size) - strict


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are provably equal; never pins."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    a, b = settled(a), settled(b)
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if (alike := _written_alike(a, b)) or (alike is False and scope_of(a, b).is_free):
        return alike
    if expression_of(a) == expression_of(b):
        return True
    return scope_of(a, b).decide(operator.eq, calculate(operator.sub, expression_of(a), expression_of(b))) is True


def _written_alike(a: Size, b: Size) -> bool | None:
    """Whether numbers or multiples of symbols are the same, for which SymPy need not be there; None of other sizes."""
    x, y = (size.multiple if isinstance(size, Dim) else size for size in (a, b))
    return None if x is None or y is None else x == y


def at_most(a: Size, b: Size) -> bool:
    """Whether a size is provably at most another; never pins."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    scope = scope_of(a, b)
    return scope.decide(operator.le, calculate(operator.sub, expression_of(a), expression_of(b))) is True


def agree(a: Size, b: Size) -> bool:
    """Whether two sizes are equal: by an assumption, or in the call at hand, and then they are pinned."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    scope = scope_of(a, b)
    x, y = scope.value(a), scope.value(b)
    if x is not None and y is not None and x != y:
        return False
    for margins in conditions(calculate(operator.sub, expression_of(a), expression_of(b))):
        if all(scope.assume(size_from(margin, scope)) for margin in margins):
            return True
    return x is not None and x == y and scope.pin(a) == scope.pin(b)


def is_no_length(size: Size) -> bool:
    """Whether a size is below 0; the program is for sizes where that of an array is not."""
    if isinstance(size, int):
        return size < 0
    if size.scope.assume(size):
        return False
    return size.scope.decide(operator.lt, size.expr) is True or (size.scope.value(size) or 0) < 0


def is_negative(size: Size) -> bool:
    """Whether a size is below 0, which is assumed not to be, or else to be, before it is pinned."""
    if isinstance(size, int):
        return size < 0
    assume = size.scope.assume
    if size.scope.decide(operator.le, size.expr):  # k - n where n >= k is assumed: n > k is more likely than n == k
        return assume(-size - 1) or (not assume(size) and size < 0)
    if assume(size) or assume(-size - 1):
        return not assume(size)
    return not size.scope.assume_throughout(size) and size < 0


def no_number(size: Size, asked: str, instead: str = "") -> SymbolicSizeError:
    """The error where a symbol must be a number, with what else may be written."""
    if isinstance(size, Dim) and size.scope.places_in(size.expr):
        return SymbolicSizeError(
            f"the size {size} differs between the iterations of a loop, and Python asked {asked}",
            "Let the loop run only where it holds, for i in range(3, n) with x[i - 3:i], or bound it everywhere: "
            "x[max(i - 3, 0):i]. An `if` helps that compares the index with such a bound: if i >= 3. Or give numbers "
            "instead of specs.",
        )
    return SymbolicSizeError(
        f"the size {size} is a symbol here, and Python asked {asked}",
        f'Call with arrays, or give a number in the spec, such as "float64[100]"{instead and f"; {instead}"}.',
    )
