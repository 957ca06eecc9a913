"""Sizes that may be symbols: integers of the user's code that become ``n`` in the generated program.

A size is a Python int or a `Dim`. Its text is Python source: ``str(size)``.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from symgrad.core import size_expressions
from symgrad.core.provenance import internal
from symgrad.core.size_bounds import conditions, decide, distributed, extreme, solved
from symgrad.core.size_expressions import calculate, sympify
from symgrad.core.text import is_name, not_called
from symgrad.errors import ArgumentError, SymbolicSizeError

if TYPE_CHECKING:
    from sympy import Expr

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
    expr : sympy.Expr
        An integer expression over symbols that are positive integers.
    scope : Sizes
        Where the symbols come from; knows their values, if there are any.

    Examples
    --------
    >>> n = Sizes().symbol("n")
    >>> n * (n - 1) // 2, (n + 2) - n, n + 1 > 1
    (n * (n - 1) // 2, 2, True)
    """

    __slots__ = ("expr", "scope")

    def __init__(self, expr: Expr, scope: Sizes) -> None:
        self.expr = expr
        self.scope = scope

    def __repr__(self) -> str:
        return size_expressions.source(self.expr)

    def __hash__(self) -> int:
        """In a dict or a set of the user's it is the number that it is: those hold ints."""
        if internal(sys._getframe(1).f_code):
            return hash(self.expr)
        return hash(self.scope.pin(self))

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

    def __pos__(self) -> Dim:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__

    def __abs__(self) -> Size:
        return largest(self, -self)

    # Comparisons: decided for every value of the symbols, or pinned.

    __eq__ = _comparison(operator.eq, "==")
    __ne__ = _comparison(operator.ne, "!=")
    __lt__ = _comparison(operator.lt, "<")
    __le__ = _comparison(operator.le, "<=")
    __gt__ = _comparison(operator.gt, ">")
    __ge__ = _comparison(operator.ge, ">=")

    def __bool__(self) -> bool:
        return cast(bool, self != 0)

    # Python asks for the number.

    def __index__(self) -> int:
        return self.scope.pin(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.scope.pin(self, "for a float", "for math.sqrt(n) write np.sqrt(n)"))

    def __format__(self, text: str) -> str:
        return format(self.scope.pin(self), text) if text else str(self)

    def __round__(self, ndigits: int | None = None) -> int:
        return round(self.scope.pin(self), ndigits) if ndigits is not None else self.scope.pin(self)

    # NumPy: the size becomes a scalar of the traced program.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        integer = _INTEGER_UFUNCS.get(ufunc)
        if integer is not None and method == "__call__" and not kwargs:
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
    return isinstance(size, int) and 0 <= size - _FIRST_ROWS < MOST_ROWS


_FIRST_ROWS, MOST_ROWS = 1 << 61, 64  # which no array has


class Bound(NamedTuple):
    """A symbol, and what it is at least."""

    symbol: Dim
    least: Size

    def __str__(self) -> str:
        return f"{self.symbol} >= {self.least}"

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is so where the symbols have these values; those that have none do not matter."""
        known = all(name in values for size in self for name in symbols_of(size))
        return not known or evaluate(self.symbol, values) >= evaluate(self.least, values)

    def implies(self, other: Bound) -> bool:
        """Whether it says more than another bound of the same symbol."""
        difference = calculate(operator.sub, _expr(self.least), _expr(other.least))
        return self.symbol.expr == other.symbol.expr and decide(operator.ge, difference) is True


class Sizes:
    """The symbols of one traced program, and what is known about them.

    Parameters
    ----------
    values : mapping of str to int, optional
        The sizes at hand in the call that is being compiled; None when the shapes come from specs.
    lift : callable, optional
        Turns a `Dim` into a scalar of the traced program.

    Attributes
    ----------
    pinned : dict of str to int
        Symbols whose number the program insisted on, in the order in which it did. The compiled program holds only
        where they have these values; the symbols go on appearing as sizes.
    assumed : list of Bound
        What the program relies on.

    Examples
    --------
    >>> sizes = Sizes({"n": 3})
    >>> n = sizes.symbol("n")
    >>> [i * i for i in range(n)], sizes.pinned
    ([0, 1, 4], {'n': 3})
    """

    __slots__ = ("_shifts", "_symbols", "assumed", "lift", "pinned", "values")

    def __init__(self, values: Mapping[str, int] | None = None, lift: Callable[[Dim], Any] | None = None) -> None:
        self.values = values
        self.lift = lift
        self.pinned: dict[str, int] = {}
        self.assumed: list[Bound] = []
        self._shifts: list[dict[Expr, Expr]] = [{}]  # in terms of symbols of at least 1: by each assumption, by all
        self._symbols: dict[str, Dim] = {}

    def symbol(self, name: str) -> Dim:
        """The size of this name, an integer of at least 1."""
        if name not in self._symbols:
            if not is_name(name) or name in ("min", "max", "_"):
                raise ArgumentError(f"{name!r} cannot be the name of a size", "Use a Python name such as n or batch.")
            self._symbols[name] = Dim(size_expressions.symbol(self._free(not_called(name))), self)
        return self._symbols[name]

    @property
    def symbols(self) -> Mapping[str, Dim]:
        """The sizes by the names under which they were asked for."""
        return self._symbols

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "lift"}  # which belongs to a trace

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.lift = None
        for name, value in state.items():
            setattr(self, name, value)

    def argument(self, name: str, number: int) -> Dim:
        """An int argument as a symbol, of which the number is at hand: at least 1, as sizes are."""
        symbol = self._free(not_called(name))
        self.values = {**(self.values or {}), symbol: number}
        return self._symbols.setdefault(symbol, Dim(size_expressions.symbol(symbol), self))

    def _free(self, name: str) -> str:
        """The name, or a longer one where another size has it: ``np_`` is the symbol of a size called ``np``."""
        taken = {dim.expr.name for dim in self._symbols.values()}
        while name in taken:
            name += "_"
        return name

    def fresh(self) -> Dim:
        """A size whose name nobody has used: ``_0``, ``_1``, ..."""
        return self.symbol(next(name for k in range(len(self._symbols) + 1) if (name := f"_{k}") not in self._symbols))

    def value(self, dim: Size) -> int | None:
        """The number that a size is in the call at hand; None where there is none."""
        if not isinstance(dim, Dim):
            return dim
        values = self.values or {}
        return evaluate(dim, values) if all(name in values for name in symbols_of(dim)) else None

    def pin(self, dim: Size, asked: str = "for its number", instead: str = "") -> int:
        """The number of a size, and a note that the program is now for that number only.

        Raises
        ------
        SymbolicSizeError
            There are no values: the shapes come from specs.
        """
        number = self.value(dim)
        if number is None:
            raise no_number(dim, asked, instead)
        for name in symbols_of(dim):
            self.pinned[name] = int((self.values or {})[name])
        return number

    def bound(self, size: Size) -> Bound | None:
        """The lower bound of a symbol that makes a size at least 0, if there is one."""
        found = solved(self._with_numbers(size.expr)) if isinstance(size, Dim) else None
        return found and Bound(Dim(found[0], self), _size(found[1], self))

    def assume(self, size: Size) -> bool:
        """Whether a size is at least 0 wherever the program runs, by assumption if need be.

        What holds in the call at hand can be assumed, and from specs what a lower bound of one symbol says.
        """
        if not isinstance(size, Dim):
            return size >= 0
        answer = self.decide(operator.ge, size.expr)
        bound = self.bound(size) if answer is None else None
        if bound is None:
            return answer is True
        margin = _size(calculate(operator.sub, bound.symbol.expr, _expr(bound.least)), self)
        at_hand = self.value(margin)
        if at_hand is not None and at_hand < 0:
            return False
        self._shift(_expr(margin))
        self.assumed = [*(known for known in self.assumed if not bound.implies(known)), bound]
        return True

    def _shift(self, margin: Expr) -> None:
        """Note that the margin is at least 0: one of its symbols is another that is at least 1, and so much larger."""
        together = self._shifts[-1]
        own, more = _shift_for(margin), _shift_for(margin.xreplace(together).expand())
        together = {**more, **{s: larger.xreplace(more).expand() for s, larger in together.items()}}
        self._shifts += [own, together] if together != own else [own]

    def decide(self, op: Callable[[Any, Any], Any], expr: Expr) -> bool | None:
        """Whether ``op(expr, 0)`` wherever the program runs; None where that is unknown or differs."""
        expr = self._with_numbers(expr)
        answers = (decide(op, expr.xreplace(shift)) for shift in self._shifts)
        return next((answer for answer in answers if answer is not None), None)

    def extreme(self, largest: bool, a: Expr, b: Expr) -> Expr:
        """The larger or the smaller, decided where that is possible."""
        for x, y in ((a, b), (b, a)) if len(self._shifts) > 1 else ():
            if self.decide(operator.ge, calculate(operator.sub, x, y)):
                return x if largest else y
        return extreme(largest, a, b)

    def _with_numbers(self, expr: Expr) -> Expr:
        """The expression with pinned symbols replaced by their numbers."""
        if not self.pinned:
            return expr
        numbers = {size_expressions.symbol(name): sympify(value) for name, value in self.pinned.items()}
        return cast("Expr", expr.xreplace(numbers))


def symbols_of(size: Size) -> tuple[str, ...]:
    """The names of the symbols in a size, sorted."""
    return size_expressions.names(size.expr) if isinstance(size, Dim) else ()


def renamed(size: Dim, name: Callable[[str], str]) -> str:
    """The text of a size with other names for its symbols."""
    others = {size_expressions.symbol(n): size_expressions.symbol(name(n)) for n in symbols_of(size)}
    return size_expressions.source(cast("Expr", size.expr.xreplace(others)))


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that a size is where its symbols have these values."""
    return size_expressions.evaluate(size.expr, values) if isinstance(size, Dim) else size


def scope_of(*sizes: Size) -> Sizes:
    """The scope of the first symbolic size."""
    return next(size.scope for size in sizes if isinstance(size, Dim))


# ---- arithmetic


def _is_size(x: object) -> bool:
    """Whether x takes part in integer arithmetic."""
    return issubclass(type(x), (int, Dim, np.integer))  # a traced number says of itself that it is an int


def _plain(x: Any) -> Size:
    """A size as an int or Dim; NumPy integers become ints."""
    return x if isinstance(x, Dim) else int(x)


def _expr(size: Size) -> Expr:
    """A size as a SymPy expression."""
    return size.expr if isinstance(size, Dim) else sympify(size)


def _size(expr: Expr, scope: Sizes) -> Size:
    """A SymPy expression as a size."""
    return int(expr) if expr.is_Integer else Dim(expr, scope)


def _calculate(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """``op(a, b)``, one of them a Dim: a size for integers, a lifted scalar for other numbers and arrays."""
    if _is_size(a) and _is_size(b):
        a, b = _plain(a), _plain(b)
        if op in _SHIFTS and type(b) is int and b >= 0:
            op, b = _SHIFTS[op], 2**b
        if op in _EXACT or (op is operator.pow and type(b) is int and b >= 0):
            return _size(calculate(op, _expr(a), _expr(b)), scope_of(a, b))
    elif not all(issubclass(type(x), (Dim, int, float, complex, np.generic, np.ndarray)) for x in (a, b)):
        return NotImplemented
    return op(_lifted(a), _lifted(b))


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
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return _extreme(True, a, b)


def smallest(a: Size, b: Size) -> Size:
    """``min(a, b)``, never pinning."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _extreme(False, a, b)


def _shift_for(margin: Expr) -> dict[Expr, Expr]:
    """A symbol of the margin in terms of one that is at least 1 where the margin is at least 0."""
    found = solved(margin)
    return {} if found is None else {found[0]: found[0] + found[1] - 1}


def _extreme(largest: bool, a: Size, b: Size) -> Size:
    scope = scope_of(a, b)
    return _size(scope.extreme(largest, _expr(a), _expr(b)), scope)


def difference(a: Size, b: Size) -> Size:
    """``a - b`` with the subtraction inside ``min`` and ``max``, where more can be simplified."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return _size(distributed(calculate(operator.sub, _expr(a), _expr(b))), scope_of(a, b))


# ---- comparison


def _compare(op: Callable[[Any, Any], Any], sign: str, a: Dim, b: Any) -> Any:
    """The answer for every value of the symbols where there is one; else they are pinned."""
    if not _is_size(b) and not issubclass(type(b), (float, np.floating)):
        return NotImplemented
    pinned, right = a, b
    if _is_size(b):
        # What cancels in the difference need not be pinned.
        rest = _size(calculate(operator.sub, a.expr, _expr(_plain(b))), a.scope)
        if isinstance(rest, int):
            return op(rest, 0)
        answer = a.scope.decide(op, rest.expr)
        if answer is not None:
            return answer
        pinned, right = rest, 0
    if a.scope.value(pinned) is None:
        smaller = "for min(n, 3) and max(n, 3) write np.minimum(n, 3) and np.maximum(n, 3)" if "=" not in sign else ""
        raise no_number(a, f"whether {a} {sign} {b}", smaller)
    return bool(op(a.scope.pin(pinned), right))


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are provably equal; never pins."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if _expr(a) == _expr(b):
        return True
    return scope_of(a, b).decide(operator.eq, calculate(operator.sub, _expr(a), _expr(b))) is True


def agree(a: Size, b: Size) -> bool:
    """Whether two sizes are equal: by an assumption, or in the call at hand, and then they are pinned."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    scope = scope_of(a, b)
    x, y = scope.value(a), scope.value(b)
    if x is not None and y is not None and x != y:
        return False
    for margins in conditions(calculate(operator.sub, _expr(a), _expr(b))):
        if all(scope.assume(_size(margin, scope)) for margin in margins):
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
    return not assume(size) and (assume(-size - 1) or size < 0)


def no_number(size: Size, asked: str, instead: str = "") -> SymbolicSizeError:
    """The error where a symbol must be a number, with what else may be written."""
    return SymbolicSizeError(
        f"the size {size} is a symbol here, and Python asked {asked}",
        f'Call with arrays, or give a number in the spec, such as "float64[100]"{instead and f"; {instead}"}.',
    )
