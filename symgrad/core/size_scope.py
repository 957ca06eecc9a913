"""Scopes of symbolic sizes: the symbols of one program, their assumptions, and the numbers at hand."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from symgrad.core import size_expressions
from symgrad.core.size_bounds import decide, distributed, extreme, least, solved
from symgrad.core.size_expressions import Multiple, calculate, in_side, ordered, replaced, sympify
from symgrad.core.sizes import Dim, Size, evaluate, expression_of, no_number, size_from, symbols_of
from symgrad.core.text import free_name, is_name, not_called
from symgrad.errors import ArgumentError

if TYPE_CHECKING:
    from sympy import Expr


class Bound(NamedTuple):
    """A lower bound of a symbol."""

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
        difference = calculate(operator.sub, expression_of(self.least), expression_of(other.least))
        return self.symbol.expr == other.symbol.expr and decide(operator.ge, difference) is True


class Place(NamedTuple):
    """The index of a loop as a size, at least 0 and less than the number of iterations.

    `margins` are at least 0 in an iteration; `shifts` put that in terms of symbols of at least 1: by each, by all.
    """

    turns: Size | None  # how many there may be, if that is known
    symbol: Expr  # what stands for one more than the place
    most: int | None  # the largest number that the symbol may be, if one is known
    margins: list[Expr]  # those of the loops around it that the number of iterations depends on first
    shifts: list[dict[Expr, Expr]]


class Sizes:
    """The symbols of one traced program, and their assumptions.

    Parameters
    ----------
    values : mapping of str to int, optional
        The sizes at hand in the call that is being compiled; None when the shapes come from specs.
    lift : callable, optional
        Turns a `Dim` into a scalar of the traced program.

    Examples
    --------
    >>> sizes = Sizes({"n": 3})
    >>> n = sizes.symbol("n")
    >>> [i * i for i in range(n)], sizes.pinned
    ([0, 1, 4], {'n': 3})
    """

    __slots__ = (
        "_decided",
        "_shifts",
        "_symbols",
        "assumed",
        "columns",
        "counted",
        "lift",
        "many",
        "pinned",
        "places",
        "sides",
        "values",
    )

    def __init__(self, values: Mapping[str, int] | None = None, lift: Callable[[Dim], Any] | None = None) -> None:
        self.values = values
        self.lift = lift
        # symbols whose number the program insisted on, in the order in which it did: the compiled program holds only
        # where they have these values; the symbols go on appearing as sizes
        self.pinned: dict[str, int] = {}
        self.assumed: list[Bound] = []  # what the program relies on
        self.columns: set[str] = set()  # symbols that are likely small, as far as is known
        self.many: set[str] = set()  # symbols that are large: the rows of a chunk
        self.counted: set[str] = set()  # symbols that only running tells, which may be 0: numbers of iterations
        self.places: dict[str, Place] = {}  # loop indices that bound arrays of an iteration, by name
        # what is at least 0 in sides of branches that loop indices decide, by the number that their symbols have there
        self.sides: list[tuple[Expr, ...]] = [()]
        self._shifts: list[dict[Expr, Expr]] = [{}]  # in terms of symbols of at least 1: by each assumption, by all
        self._decided: dict[tuple[Any, Expr], bool | None] = {}  # by what is known so far
        self._symbols: dict[str, Dim] = {}

    def symbol(self, name: str) -> Dim:
        """The size of this name, an integer of at least 1."""
        if name not in self._symbols:
            if not is_name(name) or name in ("min", "max", "_"):
                raise ArgumentError(f"{name!r} cannot be the name of a size", "Use a Python name such as n or batch.")
            self._symbols[name] = Dim(Multiple(1, self._free(not_called(name))), self)
        return self._symbols[name]

    def written(self, name: str) -> Dim:
        """The size whose symbol has this name, which may be another than the size was asked for by."""
        return Dim(Multiple(1, name), self)

    @property
    def symbols(self) -> Mapping[str, Dim]:
        """The sizes by the names under which they were asked for."""
        return self._symbols

    def __getstate__(self) -> dict[str, Any]:
        of_a_trace = ("lift", "_decided")
        return {name: getattr(self, name) for name in self.__slots__ if name not in of_a_trace}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.lift, self._decided = None, {}
        for name, value in state.items():
            setattr(self, name, value)

    def argument(self, name: str, number: int) -> Dim:
        """An int argument as a symbol, of which the number is at hand: at least 1, as sizes are."""
        symbol = self._free(not_called(name))
        self.values = {**(self.values or {}), symbol: number}
        return self._symbols.setdefault(symbol, Dim(Multiple(1, symbol), self))

    def place(self, name: str, turns: Size | None, taken: Collection[str] = ()) -> Dim:
        """Return the index of a loop with this many iterations, as a size.

        Loops of as many iterations may have one; a number is added to names that are `taken` or stand for something
        else.
        """
        taken = self._called().union(taken)
        taken |= {name for name, place in self.places.items() if not _is_same(place.turns, turns)}
        free = free_name(name, taken)
        symbol = size_expressions.place_symbol(free)
        if free not in self.places:
            self._ask_again()
            outer, own = self._margins(symbol, turns)
            margins = [*outer, *own]
            shifts = [*map(_shift_for, own), *([_shift_by(margins, {})] if len(margins) > 1 else [])]
            self.places[free] = Place(turns, symbol, self._most(turns), margins, shifts)
        return Dim(symbol - 1, self)

    def written_place(self, name: str) -> Dim:
        """Return the index of a loop that has this name already."""
        return Dim(self.places[name].symbol - 1, self)

    def _most(self, turns: Size | None) -> int | None:
        """Return the largest number of iterations."""
        if not isinstance(turns, Dim):
            return turns
        plain, here = in_side(turns.expr, 0), self.sides[self.side_of(turns.expr)]
        bounds = [least(-plain.xreplace(shift)) for shift in self._shifts_of(plain, here)]
        known = [-bound for bound in bounds if bound is not None]
        return min(known, default=None)

    def _margins(self, symbol: Expr, turns: Size | None) -> tuple[list[Expr], list[Expr]]:
        """Return what is at least 0 in the loops around, and where a symbol is at most the number of iterations."""
        from sympy import Min

        if not isinstance(turns, Dim):
            return [], []
        expr, here = in_side(self._where_positive(turns.expr), 0), self.sides[self.side_of(turns.expr)]
        bounds = expr.args if isinstance(expr, Min) else (expr,)
        outer = self._margins_of(self.places_in(expr, *here))
        return [*outer, *here], [_margin(bound, symbol) for bound in bounds]

    @staticmethod
    def _margins_of(places: Collection[Place]) -> list[Expr]:
        return list(dict.fromkeys(margin for place in places for margin in place.margins))

    def _where_positive(self, expr: Expr) -> Expr:
        """Return what an expression is wherever it is at least 1: ``max(0, n - m)`` is ``n - m`` there."""
        from sympy import Max

        if not isinstance(expr, Max):
            return expr
        cases = [case for case in expr.args if self.decide(operator.le, case) is not True]
        return cases[0] if len(cases) == 1 else expr

    def places_in(self, *expressions: Expr) -> list[Place]:
        """Return the loop indices in expressions."""
        if not self.places:
            return []
        names = {size_expressions.place_name(s) for expr in expressions for s in expr.free_symbols}
        return [self.places[name] for name in sorted(name for name in names if name is not None)]

    def side(self, margins: Collection[Size], around: int = 0) -> int:
        """Return the number of the side of a branch in which sizes are at least 0, and what is so around it."""
        plain = [in_side(expression_of(margin), 0) for margin in margins if isinstance(margin, Dim)]
        new = {each for margin in plain for each in _each_of_minimum(margin)}
        new = {margin for margin in new if not self.decide(operator.ge, in_side(margin, around))}
        return self._numbered(new.union(self.sides[around]))

    def _numbered(self, margins: Collection[Expr]) -> int:
        side = tuple(ordered(margins))
        if side not in self.sides:
            self.sides.append(side)
        return self.sides.index(side)

    def side_of(self, *expressions: Expr) -> int:
        """Return the side in which expressions have a meaning: the innermost of those of their symbols.

        Of sides of which none is in the other, that is what they are both in.
        """
        found = sorted({side for expr in expressions for side in size_expressions.sides(expr)})
        if len(found) < 2:
            return found[0] if found else 0
        innermost = max(found, key=lambda side: len(self.sides[side]))
        nested = all({*self.sides[innermost]}.issuperset(self.sides[side]) for side in found)
        return innermost if nested else self.common_side(*found)

    def common_side(self, first: int, *others: int) -> int:
        """Return the side of what is at least 0 in several sides."""
        return self._numbered({*self.sides[first]}.intersection(*(self.sides[side] for side in others)))

    def on_one_side(self, expr: Expr) -> Expr:
        """Return the expression with one symbol for each loop index."""
        return in_side(expr, self.side_of(expr)) if len(self.sides) > 1 else expr

    def _shifts_of(self, expr: Expr, here: Sequence[Expr] = ()) -> list[dict[Expr, Expr]]:
        """Symbols of an expression in terms of others that are at least 1, in each of the ways that are known.

        Those `here` are at least 0 in the side of a branch.
        """
        places = self.places_in(expr, *here)
        downwards = [{p.symbol: p.most + 1 - p.symbol} for p in places if p.most is not None]
        together = [{s: x for shift in downwards for s, x in shift.items()}] if len(downwards) > 1 else []
        if places and len(places) + len(self._shifts) + len(here) > 2:
            together.append(_shift_by([*self._margins_of(places), *here], self._shifts[-1]))
        of_places = [shift for p in places for shift in p.shifts]
        return [*self._shifts, *of_places, *map(_shift_for, here), *downwards, *together]

    def _called(self) -> set[str]:
        """The names of the symbols, which may be others than those under which they were asked for."""
        return {name for dim in self._symbols.values() for name in symbols_of(dim)}

    def _free(self, name: str) -> str:
        """The name, or a longer one where another size has it: ``np_`` is the symbol of a size called ``np``."""
        taken = self._called() | self.places.keys()
        while name in taken:
            name += "_"
        return name

    def fresh(self, stem: str = "_") -> Dim:
        """A size whose name nobody has used: ``_0``, ``_1``, ..."""
        names = (f"{stem}{k}" for k in range(len(self._symbols) + 1))
        return self.symbol(next(name for name in names if name not in self._symbols))

    def turns(self) -> Dim:
        """Return a new size for the number of iterations of a loop, known only when it runs."""
        found = self.fresh("turns_")
        self.counted |= {*symbols_of(found)}
        return found

    def value(self, dim: Size) -> int | None:
        """Return the number of a size in the call at hand; None where there is none."""
        if not isinstance(dim, Dim):
            return dim
        values = self.values or {}
        return evaluate(dim, values) if all(name in values for name in symbols_of(dim)) else None

    def pin(self, dim: Size, asked: str = "for its number", instead: str = "") -> int:
        """Pin a size to its number in the call at hand; the program is then for that number only. Specs have none."""
        number = self.value(dim)
        if number is None:
            raise no_number(dim, asked, instead)
        self._ask_again()
        for name in symbols_of(dim):
            self.pinned[name] = int((self.values or {})[name])
        return number

    def bound(self, size: Size) -> Bound | None:
        """The lower bound of a symbol that makes a size at least 0, if there is one."""
        found = solved(self._with_numbers(size.expr)) if isinstance(size, Dim) else None
        return found and Bound(Dim(found[0], self), size_from(found[1], self))

    def assume(self, size: Size) -> bool:
        """Whether a size is at least 0 wherever the program runs, by assumption if need be.

        What holds in the call at hand can be assumed, and from specs what a lower bound of one symbol says.
        """
        if not isinstance(size, Dim):
            return size >= 0
        if size.multiple:
            return True
        answer = self.decide(operator.ge, size.expr)
        bound = self.bound(size) if answer is None and not self.places_in(size.expr) else None
        if bound is None:
            return answer is True
        margin = size_from(calculate(operator.sub, bound.symbol.expr, expression_of(bound.least)), self)
        at_hand = self.value(margin)
        if at_hand is not None and at_hand < 0:
            return False
        self._shift(expression_of(margin))
        self.assumed = [*(known for known in self.assumed if not bound.implies(known)), bound]
        return True

    def assume_throughout(self, size: Dim) -> bool:
        """Whether a size is at least 0 in all iterations, by the assumption that it is where it is the smallest."""
        smallest = size.expr
        for place in reversed(self.places.values()):  # inner loops first: their ends may depend on the outer ones
            slope = smallest.coeff(place.symbol)
            rest = (smallest - slope * place.symbol).expand()
            end: Expr | None = sympify(1)
            if slope.is_negative:
                end = None if place.turns is None else self._where_positive(expression_of(place.turns))
            if end is None or rest.has(place.symbol) or not slope.is_Integer:
                return False
            smallest = (rest + slope * end).expand()
        is_checked = self.counted.isdisjoint(size_expressions.names(smallest))  # by the caller of the program
        return is_checked and self.assume(size_from(smallest, self)) and self.assume(size)

    def _shift(self, margin: Expr) -> None:
        """Note that the margin is at least 0: one of its symbols is another that is at least 1, and so much larger."""
        self._ask_again()
        own, together = _shift_for(margin), _narrowed(self._shifts[-1], margin)
        self._shifts += [own, together] if together != own else [own]

    def _ask_again(self) -> None:
        """Forget what was undecided: more is known now, by which what has been decided stays so."""
        self._decided = {asked: answer for asked, answer in self._decided.items() if answer is not None}

    @property
    def is_free(self) -> bool:
        """Whether nothing is known of its symbols but that they are at least 1."""
        return not (self.pinned or self.assumed or self.places)

    def decide(self, op: Callable[[Any, Any], Any], expr: Expr) -> bool | None:
        """Whether ``op(expr, 0)`` wherever the program runs; None where that is unknown or differs."""
        if (op, expr) not in self._decided:
            known = self._with_numbers(self.on_one_side(expr))
            plain, here = in_side(known, 0), [*map(self._with_numbers, self.sides[self.side_of(expr)])]
            answers = (decide(op, replaced(plain, tuple(shift.items()))) for shift in self._shifts_of(plain, here))
            answer = next((answer for answer in answers if answer is not None), None)
            self._decided[op, expr] = self._decide_by_case(op, known) if answer is None else answer
        return self._decided[op, expr]

    def _decide_by_case(self, op: Callable[[Any, Any], Any], expr: Expr) -> bool | None:
        """Whether each argument of a minimum is above 0: one may follow from where a loop begins, one from its end."""
        from sympy import Min

        cases = distributed(expr) if op in (operator.ge, operator.gt) and self.places_in(expr) else expr
        return True if isinstance(cases, Min) and all(self.decide(op, case) for case in cases.args) else None

    def decide_counted(self, op: Callable[[Any, Any], Any], expr: Expr) -> bool | None:
        """The same where symbols that only running tells may be 0."""
        counted = [size_expressions.symbol(name) for name in sorted(self.counted)]
        return self.decide(op, expr.xreplace({s: s - 1 for s in counted}))

    def extreme(self, largest: bool, a: Expr, b: Expr) -> Expr:
        """The larger or the smaller, decided where that is possible."""
        for x, y in ((a, b), (b, a)) if len(self._shifts) > 1 or self.places else ():
            if self.decide(operator.ge, calculate(operator.sub, x, y)):
                return x if largest else y
        return extreme(largest, a, b)

    def _with_numbers(self, expr: Expr) -> Expr:
        """The expression with pinned symbols replaced by their numbers."""
        if not self.pinned:
            return expr
        numbers = {size_expressions.symbol(name): sympify(value) for name, value in self.pinned.items()}
        return cast("Expr", expr.xreplace(numbers))


def _each_of_minimum(margin: Expr) -> Sequence[Expr]:
    """Return what is at least 0 where a margin is: each argument of a minimum."""
    from sympy import Min

    cases = distributed(margin.expand())
    return cases.args if isinstance(cases, Min) else (margin.expand(),)


def _is_same(a: Size | None, b: Size | None) -> bool:
    """Whether two sizes are written alike, with the same symbols."""
    if a is b or a is None or b is None:
        return a is b
    return type(a) is type(b) and str(a) == str(b) and expression_of(a) == expression_of(b)


def _margin(turns: Expr, symbol: Expr) -> Expr:
    """Return what is at least 0 where a symbol is at most so large: ``n - m * i`` for ``n // m``."""
    from sympy import floor

    if isinstance(turns, floor):
        above, below = turns.args[0].as_numer_denom()
        if decide(operator.gt, below):
            return above - below * symbol
    return turns - symbol


def _shift_for(margin: Expr) -> dict[Expr, Expr]:
    """A symbol of the margin in terms of one that is at least 1 where the margin is at least 0."""
    found = solved(margin)
    if found is not None:
        return {found[0]: found[0] + found[1] - 1}
    for s in ordered(margin.free_symbols):
        most = (margin + s).expand()
        if not most.has(s):
            return {s: most + 1 - s}
    return {}


def _narrowed(shift: dict[Expr, Expr], margin: Expr) -> dict[Expr, Expr]:
    """Return a shift, and then one by which a margin is at least 0, if it does not say so already."""
    margin = margin.xreplace(shift).expand()
    more = {} if decide(operator.ge, margin) else _shift_for(margin)
    return {**more, **{s: larger.xreplace(more).expand() for s, larger in shift.items()}}


def _shift_by(margins: Collection[Expr], shift: dict[Expr, Expr]) -> dict[Expr, Expr]:
    """Return a shift, and then those by which all margins are at least 0."""
    for margin in margins:
        shift = _narrowed(shift, margin)
    return shift
