"""Sizes that may be symbols: integers of the user's code that become ``n`` in the generated program.

A size is a Python int or a `Dim`, a SymPy expression over positive integers. SymPy is slow, both to import and to
compute with, so it is imported at the first symbol, and everything computed with it is remembered.
"""

from __future__ import annotations

import ast
import keyword
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from symgrad.errors import ArgumentError, ShapeError, SymbolicSizeError

if TYPE_CHECKING:
    from sympy import Expr

_REMEMBERED = 1 << 14


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
        return render(self)

    def __hash__(self) -> int:
        return hash(self.expr)

    # Integer arithmetic; see _calculate for what is not.

    def __add__(self, other: Any) -> Any:
        return _calculate(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _calculate(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _calculate(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _calculate(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _calculate(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _calculate(operator.mul, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _calculate(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _calculate(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return _calculate(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _calculate(operator.mod, other, self)

    def __divmod__(self, other: Any) -> Any:
        quotient = self // other
        return NotImplemented if quotient is NotImplemented else (quotient, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        quotient = other // self
        return NotImplemented if quotient is NotImplemented else (quotient, other % self)

    def __pow__(self, other: Any) -> Any:
        return _calculate(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _calculate(operator.pow, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _calculate(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _calculate(operator.truediv, other, self)

    def __matmul__(self, other: Any) -> Any:
        return _calculate(operator.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _calculate(operator.matmul, other, self)

    def __neg__(self) -> Size:
        return cast(Size, -1 * self)

    def __pos__(self) -> Dim:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__

    def __abs__(self) -> Size:
        return largest(self, -self)

    # Comparisons: decided for every value of the symbols, or pinned.

    def __eq__(self, other: object) -> Any:
        return _compare(operator.eq, "==", self, other)

    def __ne__(self, other: object) -> Any:
        return _compare(operator.ne, "!=", self, other)

    def __lt__(self, other: Any) -> Any:
        return _compare(operator.lt, "<", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare(operator.le, "<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare(operator.gt, ">", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare(operator.ge, ">=", self, other)

    def __bool__(self) -> bool:
        return cast(bool, self != 0)

    # Python asks for the number.

    def __index__(self) -> int:
        return self.scope.pin(self)

    def __int__(self) -> int:
        return self.scope.pin(self)

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
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.divmod: divmod,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.absolute: operator.abs,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}


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
            if not name.isidentifier() or keyword.iskeyword(name) or name in ("min", "max", "_"):
                raise ArgumentError(f"{name!r} cannot be the name of a size", "Use a Python name such as n or batch.")
            self._symbols[name] = Dim(_symbol(name), self)
        return self._symbols[name]

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
            raise _no_number(dim, "for its number")
        for name in symbols_of(dim):
            self.pinned[name] = int((self.values or {})[name])
        return number

    def reduced(self, expr: Expr) -> Expr:
        """The expression with pinned symbols replaced by their numbers."""
        if not self.pinned:
            return expr
        return cast("Expr", expr.xreplace({_symbol(name): _sympify(value) for name, value in self.pinned.items()}))


# --- arithmetic -------------------------------------------------------------------------------------------------------


@lru_cache(_REMEMBERED)
def _symbol(name: str) -> Expr:
    """The SymPy symbol of a size: a positive integer."""
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


def _sympify(number: int | Fraction) -> Expr:
    """A Python number in SymPy."""
    from sympy import Rational

    return Rational(number.numerator, number.denominator)


def _is_size(x: object) -> bool:
    """Whether x takes part in integer arithmetic."""
    return isinstance(x, (int, Dim, np.integer))


def _plain(x: Any) -> Size:
    """A size as an int or Dim; NumPy integers become ints."""
    return x if isinstance(x, Dim) else int(x)


def _expr(size: Size) -> Expr:
    """A size as a SymPy expression."""
    return size.expr if isinstance(size, Dim) else _sympify(size)


def _size(expr: Expr, scope: Sizes) -> Size:
    """A SymPy expression as a size."""
    return int(expr) if expr.is_Integer else Dim(expr, scope)


def _scope(*sizes: Size) -> Sizes:
    """The scope of the first symbolic size."""
    return next(size.scope for size in sizes if isinstance(size, Dim))


def _lift(dim: Dim) -> Any:
    """The size as a scalar of the traced program."""
    if dim.scope.lift is None:
        raise SymbolicSizeError(
            f"the size {dim} is a symbol here, and outside a trace only integer arithmetic works on it",
            "Use + - * // % with integers, or compute with it inside the traced function.",
        )
    return dim.scope.lift(dim)


def _no_number(size: Size, asked: str) -> SymbolicSizeError:
    """The error where a symbol must be a number."""
    return SymbolicSizeError(
        f"the size {size} is a symbol here, and Python asked {asked}",
        'Call with arrays, or give a number in the spec, such as "float64[100]"; '
        "for np.zeros(n) write np.full(n, 0.0, like=x).",
    )


def _lifted(x: Any) -> Any:
    """The argument of a NumPy function with the sizes in it lifted."""
    if isinstance(x, Dim):
        return _lift(x)
    if type(x) in (list, tuple) and any(isinstance(item, Dim) for item in x):
        return type(x)(_lift(item) if isinstance(item, Dim) else item for item in x)
    return x


def _calculate(op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """``op(a, b)``, one of them a Dim: a size for integers, a lifted scalar for other numbers and arrays."""
    if _is_size(a) and _is_size(b):
        a, b = _plain(a), _plain(b)
        if op in _EXACT or (op is operator.pow and type(b) is int and b >= 0):
            return _size(_combine(op, _expr(a), _expr(b)), _scope(a, b))
    elif not all(isinstance(x, (Dim, int, float, complex, np.generic, np.ndarray)) for x in (a, b)):
        return NotImplemented
    return op(_lifted(a), _lifted(b))


_EXACT = frozenset({operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod})


@lru_cache(_REMEMBERED)
def _combine(op: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Expr:
    """Exact integer arithmetic."""
    from sympy import Mod, cancel, floor

    if op not in (operator.floordiv, operator.mod):
        return cast("Expr", op(a, b))
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if op is operator.mod:
        return Mod(a, b)
    return floor(a / b if b.is_Integer else cancel(a / b))


def largest(a: Size, b: Size) -> Size:
    """``max(a, b)``, never pinning."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return _size(_extreme(True, _expr(a), _expr(b)), _scope(a, b))


def smallest(a: Size, b: Size) -> Size:
    """``min(a, b)``, never pinning."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return _size(_extreme(False, _expr(a), _expr(b)), _scope(a, b))


@lru_cache(_REMEMBERED)
def _extreme(largest: bool, a: Expr, b: Expr) -> Expr:
    """The larger or the smaller, decided where that is possible."""
    from sympy import Max, Min

    if _never_negative(a - b):
        return a if largest else b
    if _never_negative(b - a):
        return b if largest else a
    return (Max if largest else Min)(a, b)


def product(sizes: Iterable[Size]) -> Size:
    """The product, 1 for no sizes."""
    return math.prod(sizes)


# --- what holds for every value ---------------------------------------------------------------------------------------


def _compare(op: Callable[[Any, Any], Any], sign: str, a: Dim, b: Any) -> Any:
    """The answer for every value of the symbols where there is one; else they are pinned."""
    if not _is_size(b) and not isinstance(b, (float, np.floating)):
        return NotImplemented
    pinned, right = a, b
    if _is_size(b):
        # What cancels in the difference need not be pinned.
        difference = _size(_combine(operator.sub, a.expr, _expr(_plain(b))), a.scope)
        if isinstance(difference, int):
            return op(difference, 0)
        answer = _decide(op, a.scope.reduced(difference.expr))
        if answer is not None:
            return answer
        pinned, right = difference, 0
    if a.scope.value(pinned) is None:
        raise _no_number(a, f"whether {a} {sign} {b}")
    return bool(op(a.scope.pin(pinned), right))


@lru_cache(_REMEMBERED)
def _decide(op: Callable[[Any, Any], Any], expr: Expr) -> bool | None:
    """Whether ``op(expr, 0)`` for all positive integers; None where that is unknown or differs."""
    if op is operator.eq:
        return _always_zero(expr)
    if op is operator.ge:
        return True if _never_negative(expr) else False if _never_negative(-expr - 1) else None
    if op is operator.le:
        return _decide(operator.ge, -expr)
    opposite = _decide({operator.ne: operator.eq, operator.lt: operator.ge, operator.gt: operator.le}[op], expr)
    return None if opposite is None else not opposite


def _never_negative(expr: Expr) -> bool:
    """Whether the expression is provably at least 0."""
    bound = _lower(expr)
    return bound is not None and bound >= 0


@lru_cache(_REMEMBERED)
def _always_zero(expr: Expr) -> bool | None:
    """True where the expression provably is 0, False where it provably never is."""
    expr = expr.expand()
    if expr.is_Integer:
        return bool(expr == 0)
    if any(bound is not None and bound > 0 for bound in (_lower(expr), _lower(-expr))):
        return False
    terms = expr.as_coefficients_dict()
    if all(coefficient.is_Integer for coefficient in terms.values()):
        constant = int(terms.pop(_sympify(1), 0))
        if constant % math.gcd(*map(int, terms.values())):
            return False  # 2 * n == 3 has no integer solution
    return True if _zero_for_all_residues(expr) else None


def _zero_for_all_residues(expr: Expr) -> bool:
    """Whether ``//`` and ``%`` cancel in every residue class: ``(n + 1) // 2 + n // 2 - n``."""
    from sympy import Mod, Symbol, floor

    periods = [int(mod.args[1]) for mod in expr.atoms(Mod) if mod.args[1].is_Integer]
    periods += [int(q) for f in expr.atoms(floor) if (q := f.args[0].expand().as_numer_denom()[1]).is_Integer]
    period, symbols = math.lcm(*map(abs, periods)), _ordered(expr.free_symbols)
    if period == 1 or period ** len(symbols) > 64:
        return False
    for residues in cartesian(range(period), repeat=len(symbols)):
        cosets = {s: period * Symbol(s.name, integer=True) + r for s, r in zip(symbols, residues, strict=True)}
        if expr.xreplace(cosets).expand() != 0:
            return False
    return True


@lru_cache(_REMEMBERED)
def _lower(expr: Expr) -> Fraction | None:
    """A number that the expression is never below; None where none is found.

    Each of ``//``, ``%``, ``min`` and ``max`` is replaced by something simpler that bounds it on the side that
    matters, until a polynomial is left.
    """
    expr = expr.expand()
    atoms = _atoms(expr)
    if not atoms:
        return _lower_of_fraction(expr)
    if len(atoms) > 6:
        return None  # each may try several bounds
    atom = atoms[0]
    free = _symbol(f"<{atom}>")
    opened = expr.xreplace({atom: free}).expand()
    slope, rest = opened.coeff(free, 1), opened.coeff(free, 0)
    if (opened - slope * free - rest).expand() == 0:
        for below, sign in ((True, 1), (False, -1)):
            if _never_negative(sign * slope):
                bounds, all_of_them = _bounds(atom, below)
                return _best([_lower(rest + slope * bound) for bound in bounds], all_of_them)
    floor_of_atom = _lower(atom)
    if floor_of_atom is None:
        return None
    return _lower(opened.xreplace({free: free + _sympify(floor_of_atom) - 1}))  # a symbol is at least 1


def _best(bounds: Sequence[Fraction | None], all_of_them: bool) -> Fraction | None:
    """The strongest of several lower bounds, or the weakest where any of them may be the one that holds."""
    known = [bound for bound in bounds if bound is not None]
    if not known or (all_of_them and len(known) < len(bounds)):
        return None
    return min(known) if all_of_them else max(known)


def _atoms(expr: Expr) -> list[Expr]:
    """The ``//``, ``%``, ``min`` and ``max`` in an expression, those that hold others first."""
    from sympy import Max, Min, Mod, ceiling, floor

    return sorted(_ordered(expr.atoms(floor, ceiling, Mod, Max, Min)), key=lambda atom: -cast(int, atom.count_ops()))


def _ordered(expressions: Iterable[Expr]) -> list[Expr]:
    """A set of expressions in an order that is the same in every process."""
    from sympy import default_sort_key

    return sorted(expressions, key=default_sort_key)


def _bounds(atom: Expr, below: bool) -> tuple[list[Expr], bool]:
    """Simpler expressions below (or above) an atom; and whether only all of them together bound it."""
    from sympy import Max, Min, Mod, ceiling

    if isinstance(atom, (Max, Min)):
        return list(atom.args), isinstance(atom, Max) != below
    if isinstance(atom, Mod):
        value, modulus = atom.args
        if not _never_negative(modulus - 1):
            return [], False
        if below:
            return [_sympify(0)], False
        return [modulus - 1, value] if _never_negative(value) else [modulus - 1], False
    (value,) = atom.args
    up = isinstance(atom, ceiling)
    denominator = value.expand().as_numer_denom()[1]
    slack = 1 - 1 / denominator if denominator.is_Integer else _sympify(1)
    bounds = [value] if below == up else [value - slack if below else value + slack]
    known = _lower(value if below else -value)
    if known is not None:
        least = known if below else -known
        bounds.append(_sympify(math.ceil(least) if up else math.floor(least)))
    return bounds, False


def _lower_of_fraction(expr: Expr) -> Fraction | None:
    """The lower bound of a polynomial, or 0 for a quotient of two that are not negative."""
    from sympy import fraction, together

    above, below = fraction(together(expr))
    if not below.is_Integer:
        bound = _lower(below)
        return Fraction(0) if bound is not None and bound > 0 and _never_negative(above) else None
    # With every symbol written as 1 + s, s >= 0, the constant is the least value if no term falls.
    terms = expr.xreplace({s: s + 1 for s in expr.free_symbols}).expand().as_coefficients_dict()
    constant = terms.pop(_sympify(1), _sympify(0))
    if any(not coefficient >= 0 for coefficient in terms.values()):
        return None
    return Fraction(int(constant.p), int(constant.q))


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are provably equal; never pins."""
    if a is b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if _expr(a) == _expr(b):
        return True
    return _decide(operator.eq, _scope(a, b).reduced(_combine(operator.sub, _expr(a), _expr(b)))) is True


def same_shape(s: Shape, t: Shape) -> bool:
    """Whether two shapes are provably equal; never pins."""
    return s is t or (len(s) == len(t) and all(map(same, s, t)))


# --- shapes -----------------------------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that NumPy broadcasts to; symbols that only happen to fit are pinned."""
    result: Shape = ()
    for shape in shapes:
        if shape is result or not shape:
            continue
        if not result:
            result = shape
            continue
        longer, shorter = (result, shape) if len(result) >= len(shape) else (shape, result)
        lead = len(longer) - len(shorter)
        merged = list(longer)
        for axis, b in enumerate(shorter, lead):
            a = merged[axis]
            if a is b or (type(b) is int and (b == 1 or (type(a) is int and a == b))):
                continue
            merged[axis] = b if type(a) is int and a == 1 else _broadcast_size(a, b, shapes)
        result = tuple(merged)
    return result


def _broadcast_size(a: Size, b: Size, shapes: Sequence[Shape]) -> Size:
    """Two sizes, neither of them the int 1, as one."""
    kept, other = (b, a) if isinstance(b, int) else (a, b)
    if same(a, b):
        return kept
    if _agree(a, b):
        return kept
    for size, partner in ((a, b), (b, a)):
        if isinstance(size, Dim) and size.scope.value(size) == 1:
            size.scope.pin(size)  # NumPy stretches it, so the program must be for size 1 only
            return partner
    raise _broadcast_error(a, b, shapes)


def _broadcast_error(a: Size, b: Size, shapes: Sequence[Shape]) -> ShapeError:
    """The error for two sizes that differ."""
    names = [_tuple(shape) for shape in shapes]
    listed = ", ".join(names[:-1]) + " and " + names[-1]
    symbols = [size for size in (a, b) if isinstance(size, Dim)]
    instead = ""
    if symbols and symbols[0].scope.values is None:
        instead = "Write the same letter for both sizes in the specs."
        if len(symbols) == 1:
            number = a if isinstance(a, int) else b
            instead = f"Write the number {number} instead of {symbols[0]} in the spec."
    return ShapeError(f"shapes {listed} do not broadcast: {_with_value(a)} against {_with_value(b)}", instead)


def _with_value(size: Size) -> str:
    """A size with its number in the call at hand: ``n = 5``."""
    number = size.scope.value(size) if isinstance(size, Dim) else None
    return render(size) if number is None else f"{size} = {number}"


def _tuple(shape: Shape) -> str:
    """A shape as Python writes it: ``(n, 3)``."""
    return f"({render_shape(shape)},)" if len(shape) == 1 else f"({render_shape(shape)})"


def reshape_shape(old: Shape, new: tuple[Any, ...]) -> Shape:
    """The shape that ``reshape`` gives, with -1 resolved and the number of elements checked."""
    sizes = [_plain(size) for size in new]
    unknown = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise ShapeError(f"reshape to {_tuple(tuple(sizes))}: only one size can be -1")
    if any(isinstance(size, int) and size < -1 for size in sizes):
        raise ShapeError(f"reshape to {_tuple(tuple(sizes))}: sizes cannot be negative")
    total, known = product(old), product(size for axis, size in enumerate(sizes) if axis not in unknown)
    if unknown:
        quotient = _exact_quotient(total, known)
        if quotient is None:
            raise _reshape_error(old, sizes, total, known)
        sizes[unknown[0]] = quotient
    elif not same(total, known) and not _agree(total, known):
        raise _reshape_error(old, sizes, total, known)
    return tuple(sizes)


def _exact_quotient(total: Size, known: Size) -> Size | None:
    """``total / known`` where that is an integer, pinning if it only happens to be; else None."""
    if isinstance(known, int) and known == 0:
        return None
    if isinstance(total, int) and isinstance(known, int):
        return None if total % known else total // known
    quotient = total // known
    if same(quotient * known, total):
        return quotient
    scope = _scope(total, known)
    x, y = scope.value(total), scope.value(known)
    if x is None or not y or x % y:
        return None
    return scope.pin(total) // scope.pin(known)


def _agree(a: Size, b: Size) -> bool:
    """Whether two sizes are equal in the call at hand; pins them if so."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    scope = _scope(a, b)
    x = scope.value(a)
    return x is not None and x == scope.value(b) and scope.pin(a) == scope.pin(b)


def _reshape_error(old: Shape, new: Sequence[Size], total: Size, known: Size) -> ShapeError:
    """The error for a number of elements that does not fit."""
    fact = f"cannot reshape {_tuple(old)} to {_tuple(tuple(new))}: {_with_value(total)} elements"
    if any(isinstance(size, int) and size == -1 for size in new):
        fact += f" do not divide by {_with_value(known)}"
    else:
        fact += f" against {_with_value(known)}"
    symbolic = next((size for size in (total, known) if isinstance(size, Dim)), None)
    without_values = symbolic is not None and symbolic.scope.values is None
    return ShapeError(fact, "Give numbers, or sizes that fit, in the specs." if without_values else "")


Indices: TypeAlias = tuple[Size | None, Size | None, int, Size]


def slice_indices(size: Size, start: Any, stop: Any, step: Any) -> Indices:
    """What ``slice.indices`` gives for an int, and the length; for symbols start and stop stay as written."""
    step = 1 if step is None else operator.index(step)
    start, stop = (None if bound is None else _slice_bound(bound) for bound in (start, stop))
    if not any(isinstance(x, Dim) for x in (size, start, stop)):
        indices = slice(start, stop, step).indices(cast(int, size))
        return (*indices, len(range(*indices)))
    if step == 0:
        raise ValueError("slice step cannot be zero")
    forward = step > 0
    first = _slice_position(size, start, forward, is_stop=False)
    last = _slice_position(size, stop, forward, is_stop=True)
    distance = _difference(last, first) if forward else _difference(first, last)
    return start, stop, step, largest(0, (distance + (abs(step) - 1)) // abs(step))


def _slice_bound(bound: Any) -> Size:
    """A start or stop as an int or Dim."""
    return bound if isinstance(bound, Dim) else operator.index(bound)


def _slice_position(size: Size, bound: Size | None, forward: bool, is_stop: bool) -> Size:
    """Where a slice starts or stops, clamped only on the side on which the length depends."""
    if bound is None:
        return (size if forward else -1) if is_stop else (0 if forward else size - 1)
    # The other side cannot make the length positive: x[9:] of 3 elements is 3 - 9 < 0, that is 0.
    upper = is_stop == forward
    if bound >= 0:
        return smallest(bound, size if forward else size - 1) if upper else bound
    return size + bound if upper else largest(0 if forward else -1, size + bound)


def _difference(a: Size, b: Size) -> Size:
    """``a - b`` with the subtraction inside ``min`` and ``max``, where more can be simplified."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return _size(_distributed(_combine(operator.sub, _expr(a), _expr(b))), _scope(a, b))


@lru_cache(_REMEMBERED)
def _distributed(expr: Expr) -> Expr:
    """``rest - max(a, b)`` as ``min(rest - a, rest - b)``, and the like."""
    from sympy import Add, Max, Min

    for term in Add.make_args(expr):
        sign, atom = term.as_coeff_Mul()
        if isinstance(atom, (Max, Min)) and sign in (1, -1):
            cases = [_distributed(expr - term + sign * case) for case in atom.args]
            result = cases[0]
            for case in cases[1:]:
                result = _extreme(isinstance(atom, Max) == (sign == 1), result, case)
            return result
    return expr


# --- values -----------------------------------------------------------------------------------------------------------


def symbols_of(size: Size) -> tuple[str, ...]:
    """The names of the symbols in a size, sorted."""
    return _names(size.expr) if isinstance(size, Dim) else ()


@lru_cache(_REMEMBERED)
def _names(expr: Expr) -> tuple[str, ...]:
    return tuple(sorted(symbol.name for symbol in expr.free_symbols))


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that a size is where its symbols have these values."""
    if not isinstance(size, Dim):
        return size
    number = _evaluate(size.expr, values)
    assert number.denominator == 1, f"{size} is not an integer"
    return int(number)


def _evaluate(expr: Expr, values: Mapping[str, int]) -> Fraction:
    """An expression at these values, exactly."""
    from sympy import Add, Max, Min, Mod, Mul, Pow, Rational, Symbol, ceiling, floor

    if isinstance(expr, Symbol):
        return Fraction(int(values[expr.name]))
    if isinstance(expr, Rational):
        return Fraction(int(expr.p), int(expr.q))
    args = [_evaluate(arg, values) for arg in expr.args]
    for kind, function in (
        (Add, sum),
        (Mul, math.prod),
        (Pow, lambda xs: xs[0] ** int(xs[1])),
        (floor, lambda xs: math.floor(xs[0])),
        (ceiling, lambda xs: math.ceil(xs[0])),
        (Mod, lambda xs: xs[0] % xs[1]),
        (Max, max),
        (Min, min),
    ):
        if isinstance(expr, kind):
            return Fraction(function(args))
    raise AssertionError(f"{expr} is no size")


# --- text -------------------------------------------------------------------------------------------------------------

# How tightly a text binds. // and % stand below * so that a product is never read across them.
_SUM, _QUOTIENT, _PRODUCT, _UNARY, _POWER, _ATOM = range(6)


def render(size: Size) -> str:
    """Python source of a size."""
    return _render(size.expr)[0] if isinstance(size, Dim) else str(size)


def render_shape(shape: Shape) -> str:
    """Python source of the sizes of a shape, without brackets."""
    return ", ".join(map(render, shape))


def _wrapped(expr: Expr, least: int) -> str:
    """The source of an operand, in parentheses where it binds less tightly than needed."""
    text, binding = _render(expr)
    return text if binding >= least else f"({text})"


@lru_cache(_REMEMBERED)
def _render(expr: Expr) -> tuple[str, int]:
    """Source, and how tightly it binds."""
    from sympy import Add, Max, Min, Mod, Mul, Pow, Symbol, ceiling, floor

    if isinstance(expr, Symbol):
        return expr.name, _ATOM
    if expr.is_Integer:
        return str(expr), _ATOM if expr >= 0 else _UNARY
    if isinstance(expr, floor):
        return _render_quotient(expr.args[0])
    if isinstance(expr, ceiling):
        return "-" + _wrapped(floor(-expr.args[0]), _UNARY), _UNARY
    if isinstance(expr, Mod):
        return f"{_wrapped(expr.args[0], _PRODUCT)} % {_wrapped(expr.args[1], _POWER)}", _QUOTIENT
    if isinstance(expr, (Max, Min)):
        args = sorted(_ordered(expr.args), key=lambda arg: not arg.is_Integer)
        return f"{'max' if isinstance(expr, Max) else 'min'}({', '.join(_render(arg)[0] for arg in args)})", _ATOM
    if _has_denominator(expr):
        return _render_quotient(expr)
    if isinstance(expr, Add):
        return _render_sum(expr)
    if isinstance(expr, Mul):
        return _render_product(expr)
    assert isinstance(expr, Pow), f"{expr} is no size"
    return f"{_wrapped(expr.base, _ATOM)} ** {_wrapped(expr.exp, _ATOM)}", _POWER


def _has_denominator(expr: Expr) -> bool:
    """Whether a sum, product or power divides: the division comes out even, but Python must be told with //."""
    from sympy import Add, Mul

    if isinstance(expr, (Add, Mul)):
        return any(_has_denominator(arg) for arg in expr.args)
    return bool((expr.is_Rational and not expr.is_Integer) or (expr.is_Pow and expr.exp.is_negative))


def _render_quotient(expr: Expr) -> tuple[str, int]:
    """The floor of a fraction."""
    from sympy import fraction, together

    above, below = fraction(together(expr))
    if below == 1:
        return _render(above)
    return f"{_wrapped(above, _PRODUCT)} // {_wrapped(below, _POWER)}", _QUOTIENT


def _render_sum(expr: Expr) -> tuple[str, int]:
    """Terms in SymPy's order, but beginning with one that needs no sign."""
    terms = expr.as_ordered_terms()
    terms.sort(key=lambda term: 0 if not term.could_extract_minus_sign() else 1)
    parts = [_wrapped(terms[0], _QUOTIENT)]
    for term in terms[1:]:
        negative = term.could_extract_minus_sign()
        parts.append(("- " if negative else "+ ") + _wrapped(-term if negative else term, _QUOTIENT))
    return " ".join(parts), _SUM


def _render_product(expr: Expr) -> tuple[str, int]:
    """Factors in SymPy's order, the number first."""
    from sympy import Mul

    coefficient, rest = expr.as_coeff_Mul()
    factors = [] if coefficient in (1, -1) else [str(coefficient)]
    factors += [_wrapped(factor, _UNARY) for factor in rest.as_ordered_factors()]
    sign = "-" if coefficient == -1 else ""
    return sign + " * ".join(factors), _PRODUCT if isinstance(rest, Mul) or not sign else _UNARY


# --- specs ------------------------------------------------------------------------------------------------------------

_SPEC = re.compile(r"\s*((?:bool|u?int|float|complex)\d*)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def parse_spec(text: str, scope: Sizes) -> tuple[Shape, np.dtype[Any]]:
    """The shape and dtype that a spec describes.

    Parameters
    ----------
    text : str
        A dtype and sizes, ``"float64[n, 3]"``. Sizes are numbers, names, integer arithmetic of these, or ``_`` for a
        size without a name. Without brackets, or with empty ones, a scalar.
    scope : Sizes
        Where names are looked up: the same name is the same size in all specs of one scope.

    Returns
    -------
    shape : tuple of int or Dim
    dtype : numpy.dtype

    Raises
    ------
    ArgumentError
        The text is no spec.

    Examples
    --------
    >>> parse_spec("float32[n, 2 * n + 1, 3]", Sizes())
    ((n, 2 * n + 1, 3), dtype('float32'))
    """
    match = _SPEC.fullmatch(text)
    if match is None:
        raise _spec_error(text)
    name, body = match.groups()
    try:
        dtype = np.dtype(name)
        tree = ast.parse(f"[{body or ''}]", mode="eval").body
    except (TypeError, SyntaxError, ValueError):
        raise _spec_error(text) from None
    if not isinstance(tree, ast.List):
        raise _spec_error(text)
    return tuple(_parsed_size(entry, scope) for entry in tree.elts), dtype


def parse_size(text: str, scope: Sizes) -> Size:
    """One entry of a spec."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _size_error(text) from None
    return _parsed_size(tree, scope)


def _parsed_size(tree: ast.expr, scope: Sizes) -> Size:
    """The size that an expression stands for."""
    if isinstance(tree, ast.Name) and tree.id == "_":
        return scope.fresh()
    try:
        size = _parsed(tree, scope)
    except (ZeroDivisionError, _NoSize):
        raise _size_error(ast.unparse(tree)) from None
    if isinstance(size, int) and size < 0:
        raise ArgumentError(f"the size {ast.unparse(tree)!r} is negative", "A size is 0 or more.")
    return size


class _NoSize(Exception):
    """Something in a spec that is not integer arithmetic."""


def _parsed(tree: ast.AST, scope: Sizes) -> Size:
    """Integer arithmetic, evaluated."""
    match tree:
        case ast.Constant(value=int(value)) if type(value) is int:
            return value
        case ast.Name(id=name) if name not in ("_", "min", "max"):
            return scope.symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parsed(operand, scope)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 <= power <= 64:
            return cast(Size, _parsed(left, scope) ** power)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return cast(Size, _BINARY[type(op)](_parsed(left, scope), _parsed(right, scope)))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, *others], keywords=[]) if others:
            result = _parsed(first, scope)
            for other in others:
                result = (smallest if name == "min" else largest)(result, _parsed(other, scope))
            return result
    raise _NoSize


def _size_error(text: str) -> ArgumentError:
    """The error for something that is no size."""
    return ArgumentError(
        f"{text!r} is not a size", "A size is a number, a name, integer arithmetic of these such as n // 2 + 1, or _."
    )


def _spec_error(text: str) -> ArgumentError:
    """The error for something that is no spec."""
    return ArgumentError(
        f"{text!r} is not a spec", 'Write a dtype and sizes, such as "float64[n, 3]", or "float32" for a scalar.'
    )
