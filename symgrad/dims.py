"""Sizes that may be symbols: integers of the user's code that become ``n`` in the generated program.

A size is a Python int or a `Dim`. Its text is Python source: ``str(size)``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from symgrad import expressions
from symgrad.bounds import decide, distributed, extreme
from symgrad.errors import ArgumentError, SymbolicSizeError
from symgrad.expressions import calculate, sympify
from symgrad.text import is_name, not_called

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
        return expressions.source(self.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    # Integer arithmetic; see _calculate for what is not.

    __add__, __radd__ = _methods(operator.add)
    __sub__, __rsub__ = _methods(operator.sub)
    __mul__, __rmul__ = _methods(operator.mul)
    __floordiv__, __rfloordiv__ = _methods(operator.floordiv)
    __mod__, __rmod__ = _methods(operator.mod)
    __pow__, __rpow__ = _methods(operator.pow)
    __truediv__, __rtruediv__ = _methods(operator.truediv)
    __matmul__, __rmatmul__ = _methods(operator.matmul)

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
        return float(self.scope.pin(self))

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

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


def is_rows(size: Size) -> bool:
    """Whether a size is the length of a block."""
    return isinstance(size, int) and 0 <= size - _FIRST_ROWS < MOST_ROWS


_FIRST_ROWS, MOST_ROWS = 1 << 61, 64  # which no array has


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

    Examples
    --------
    >>> sizes = Sizes({"n": 3})
    >>> n = sizes.symbol("n")
    >>> [i * i for i in range(n)], sizes.pinned
    ([0, 1, 4], {'n': 3})
    """

    __slots__ = ("_symbols", "lift", "pinned", "values")

    def __init__(self, values: Mapping[str, int] | None = None, lift: Callable[[Dim], Any] | None = None) -> None:
        self.values = values
        self.lift = lift
        self.pinned: dict[str, int] = {}
        self._symbols: dict[str, Dim] = {}

    def symbol(self, name: str) -> Dim:
        """The size of this name, an integer of at least 1."""
        if name not in self._symbols:
            if not is_name(name) or name in ("min", "max", "_"):
                raise ArgumentError(f"{name!r} cannot be the name of a size", "Use a Python name such as n or batch.")
            self._symbols[name] = Dim(expressions.symbol(self._free(not_called(name))), self)
        return self._symbols[name]

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

    def pin(self, dim: Size) -> int:
        """The number of a size, and a note that the program is now for that number only.

        Raises
        ------
        SymbolicSizeError
            There are no values: the shapes come from specs.
        """
        number = self.value(dim)
        if number is None:
            raise no_number(dim, "for its number")
        for name in symbols_of(dim):
            self.pinned[name] = int((self.values or {})[name])
        return number

    def reduced(self, expr: Expr) -> Expr:
        """The expression with pinned symbols replaced by their numbers."""
        if not self.pinned:
            return expr
        numbers = {expressions.symbol(name): sympify(value) for name, value in self.pinned.items()}
        return cast("Expr", expr.xreplace(numbers))


def symbols_of(size: Size) -> tuple[str, ...]:
    """The names of the symbols in a size, sorted."""
    return expressions.names(size.expr) if isinstance(size, Dim) else ()


def renamed(size: Dim, name: Callable[[str], str]) -> str:
    """The text of a size with other names for its symbols."""
    others = {expressions.symbol(n): expressions.symbol(name(n)) for n in symbols_of(size)}
    return expressions.source(cast("Expr", size.expr.xreplace(others)))


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that a size is where its symbols have these values."""
    return expressions.evaluate(size.expr, values) if isinstance(size, Dim) else size


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
        if op in _EXACT or (op is operator.pow and type(b) is int and b >= 0):
            return _size(calculate(op, _expr(a), _expr(b)), scope_of(a, b))
    elif not all(issubclass(type(x), (Dim, int, float, complex, np.generic, np.ndarray)) for x in (a, b)):
        return NotImplemented
    return op(_lifted(a), _lifted(b))


_EXACT = frozenset({operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod})


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
    return _size(extreme(True, _expr(a), _expr(b)), scope_of(a, b))


def smallest(a: Size, b: Size) -> Size:
    """``min(a, b)``, never pinning."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _size(extreme(False, _expr(a), _expr(b)), scope_of(a, b))


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
        answer = decide(op, a.scope.reduced(rest.expr))
        if answer is not None:
            return answer
        pinned, right = rest, 0
    if a.scope.value(pinned) is None:
        raise no_number(a, f"whether {a} {sign} {b}")
    return bool(op(a.scope.pin(pinned), right))


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are provably equal; never pins."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if _expr(a) == _expr(b):
        return True
    return decide(operator.eq, scope_of(a, b).reduced(calculate(operator.sub, _expr(a), _expr(b)))) is True


def agree(a: Size, b: Size) -> bool:
    """Whether two sizes are equal in the call at hand; pins them if so."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    scope = scope_of(a, b)
    x = scope.value(a)
    return x is not None and x == scope.value(b) and scope.pin(a) == scope.pin(b)


def no_number(size: Size, asked: str) -> SymbolicSizeError:
    """The error where a symbol must be a number."""
    return SymbolicSizeError(
        f"the size {size} is a symbol here, and Python asked {asked}",
        'Call with arrays, or give a number in the spec, such as "float64[100]"; '
        "for np.zeros(n) write np.full(n, 0.0, like=x), for np.arange(n) np.arange(n, like=x).",
    )
