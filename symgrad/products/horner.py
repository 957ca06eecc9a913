"""Polynomials in several values written with few operations, by a greedy scheme of Horner.

References
----------
M. Ceberio, V. Kreinovich, Greedy algorithms for optimizing multivariate Horner schemes, SIGSAM Bulletin 38 (1), 2004.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Aval, Graph, Node, Op
from symgrad.core.shapes import same_shape
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from symgrad.rewrite.engine import Made


class Ratio(NamedTuple):
    """A factor over a divisor that grows with it."""

    above: Node
    below: Node

    @property
    def id(self) -> float:
        return max(self.above.id, self.below.id) + 0.5

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self


Powers = tuple[tuple[Any, int], ...]
"""A product of powers, by atoms in order of creation; exponents may be negative."""

Polynomial = dict[Powers, float]
"""Coefficients by product; none is zero."""


def times(x: Powers, y: Powers) -> Powers:
    """The product of two products."""
    if not x or not y:
        return x or y
    if x[-1][0].id < y[0][0].id:  # a long product takes one factor more
        return x + y
    exponents = dict(x)
    for atom, n in y:
        exponents[atom] = exponents.get(atom, 0) + n
    return tuple(sorted([pair for pair in exponents.items() if pair[1]], key=lambda pair: pair[0].id))


def over(x: Powers, y: Powers) -> Powers:
    """A product without what it has in common with others."""
    taken = dict(y)
    return tuple([(atom, n - taken.get(atom, 0)) for atom, n in x if n != taken.get(atom)])


def common(products: Sequence[Powers]) -> Powers:
    """Return the common factors of products: of each atom the power nearest to one."""
    shared = dict(products[0])
    for other in products[1:]:
        if not shared:
            break
        exponents = dict(other)
        shared = {
            atom: min(n, exponents[atom], key=abs)
            for atom, n in shared.items()
            if atom in exponents and (n > 0) == (exponents[atom] > 0)
        }
    return tuple(shared.items())


def in_ratios(m: Powers, related: Callable[[Node, Node], bool]) -> Powers:
    """A product with factors over divisors that are related to them: then neither grows on its own."""
    powers = dict(sorted(m, key=_place))
    found: dict[Any, int] = {}
    for y in [y for y, n in powers.items() if n < 0]:
        for x in [x for x, n in powers.items() if n > 0 and related(x, y)]:
            count = min(powers[x], -powers[y])
            if count > 0:
                found[Ratio(x, y)] = count
                powers[x] -= count
                powers[y] += count
    if not found:
        return m
    powers.update(found)
    return tuple(sorted([pair for pair in powers.items() if pair[1]], key=lambda pair: pair[0].id))


class Part(NamedTuple):
    """A summand: what is added, or subtracted where `negative`."""

    negative: bool
    value: int


class Step(NamedTuple):
    """An operation on earlier steps; of no operator a node or a number."""

    op: Op | None
    operands: tuple[Any, ...]


class Plan:
    """The steps that make some polynomials; equal ones are made once.

    `flat` asks for plain sums of products and powers, which are good to differentiate. Of some atoms one over them is
    there, or will be.
    """

    def __init__(self, reciprocals: Collection[Node] = (), flat: bool = False) -> None:
        self.reciprocals, self.flat = reciprocals, flat
        self.steps: list[Step] = []
        self._index: dict[Step, int] = {}
        self._sums: dict[frozenset[Part], Part] = {}
        self._made: dict[tuple[int, bool], Any] = {}

    def operations(self, wanted: Iterable[int]) -> int:
        return sum(self.steps[i].op is not None for i in self._needed(wanted))

    def _needed(self, wanted: Iterable[int]) -> list[int]:
        """The steps that some need, in order."""
        found = set(wanted)
        stack = list(found)
        while stack:
            step = self.steps[stack.pop()]
            for i in step.operands if step.op is not None else ():
                if i not in found:
                    found.add(i)
                    stack.append(i)
        return sorted(found)

    # ---- from polynomials to steps

    def write(self, terms: Polynomial) -> int:
        if not terms:
            return self._step(None, 0)
        negative, value = self._part(terms)
        return self._negative(value) if negative else value

    def _negative(self, i: int) -> int:
        """In a number or a difference it costs nothing."""
        op, operands = self.steps[i]
        if op is SUBTRACT:
            return self._step(SUBTRACT, *operands[::-1])
        if op is None and not isinstance(operands[0], Node):
            return self._step(None, -operands[0])
        if op in (MULTIPLY, DIVIDE, ADD):
            first = self._negative(operands[0])
            if self.steps[first].op is not NEGATIVE:
                return self._step(SUBTRACT if op is ADD else op, first, operands[1])
        return self._step(NEGATIVE, i)

    def _part(self, terms: Polynomial) -> Part:
        """A polynomial, or what it is the negative of where that has no signs."""
        if len(terms) == 1:
            ((powers, c),) = terms.items()
            return self._scaled(c, powers)
        if self.flat:
            return self._sum([self._part({m: c}) for m, c in terms.items()])
        scale, factor = _content(list(terms.items())), common(list(terms))
        if scale != 1 or factor:
            rest = self._part({over(m, factor) if factor else m: c / scale for m, c in terms.items()})
            return self._scaled(-scale if rest.negative else scale, factor, rest.value)
        return self._sum([self._part(part) for part in _split(terms)])

    def _sum(self, parts: Sequence[Part]) -> Part:
        """From left to right, but what is subtracted does not stand first; once where it is there with another sign."""
        known = self._sums.get(frozenset(Part(not sign, i) for sign, i in parts))
        if known is not None:
            return Part(not known.negative, known.value)
        first = next((i for i, part in enumerate(parts) if not part.negative), None)
        negative = first is None
        ordered = parts if first is None else [parts[first], *parts[:first], *parts[first + 1 :]]
        value = ordered[0].value
        for part in ordered[1:]:
            value = self._step(ADD if part.negative == negative else SUBTRACT, value, part.value)
        self._sums[frozenset(parts)] = Part(negative, value)
        return Part(negative, value)

    def _scaled(self, c: float, powers: Powers, sum_: int | None = None) -> Part:
        """A number times powers, perhaps times a sum: numbers first, divisors last."""
        number = [] if abs(c) == 1 else [self._step(None, int(abs(c)) if c == int(c) else abs(c))]
        powers = tuple(sorted(powers, key=_place))
        factors = [self._power(atom, n) for atom, n in powers if n > 0 or atom in self.reciprocals]
        known = Step(MULTIPLY, tuple(factors)) if len(factors) == 2 else None
        if number and known in self._index:
            factors = [self._index[known]]
        factors = [*number, *factors, *([] if sum_ is None else [sum_])] or [self._step(None, 1)]
        value = reduce(lambda x, y: self._step(MULTIPLY, x, y), factors)
        for atom, n in powers:
            for _ in range(0 if atom in self.reciprocals else -n):
                value = self._step(DIVIDE, value, self._step(None, atom))
        return Part(c < 0, value)

    def _power(self, atom: Node, n: int) -> int:
        """By squares of squares."""
        x = self._atom(atom)
        if n < 0:
            x, n = self._step(DIVIDE, self._step(None, 1), x), -n
        if self.flat and n > 2:
            return self._step(POWER, x, self._step(None, n))
        found = []
        while n:
            if n % 2:
                found.append(x)
            n //= 2
            x = self._step(MULTIPLY, x, x) if n else x
        return reduce(lambda x, y: self._step(MULTIPLY, x, y), found)

    def _atom(self, atom: Node | Ratio) -> int:
        if isinstance(atom, Node):
            return self._step(None, atom)
        return self._step(DIVIDE, self._step(None, atom.above), self._step(None, atom.below))

    def _step(self, op: Op | None, *operands: Any) -> int:
        step = Step(op, operands)
        i = self._index.get(step)
        if i is None:
            i = self._index[step] = len(self.steps)
            self.steps.append(step)
        return i

    # ---- from steps to nodes

    def maker(self, wanted: int, aval: Aval) -> Made:
        """Return a maker of a step's value in a graph, of the type `aval`."""

        def make(graph: Graph, image: Mapping[Node, Node]) -> Variable:
            for i in self._needed([wanted]):
                if (i, aval.weak) not in self._made:
                    self._made[i, aval.weak] = self._value(self.steps[i], aval, graph, image)
            value = self._made[wanted, aval.weak]
            if not isinstance(value, Variable):
                value = Variable(graph, graph.constant(float(value) if aval.weak else aval.dtype.type(value)))
            elif value.aval.weak and not aval.weak:
                value = value.astype(aval.dtype)
            return value if same_shape(value.shape, aval.shape) else np.broadcast_to(value, aval.shape)

        return make

    def _value(self, step: Step, aval: Aval, graph: Graph, image: Mapping[Node, Node]) -> Any:
        if step.op is None:
            (x,) = step.operands
            return Variable(graph, image[x]) if isinstance(x, Node) else x
        operands = [self._made[i, aval.weak] for i in step.operands]
        if step.op is DIVIDE and not aval.weak and operands[1].aval.weak:  # where Python would raise
            operands[1] = operands[1].astype(aval.dtype)
        return step.op(*operands)


def _place(power: tuple[Node, int]) -> tuple[bool, int]:
    """Last made first, but arguments in order: ``2 * exp(-x) * x`` is 0 where ``2 * x`` overflows."""
    atom, _ = power
    return (False, -atom.id) if atom.inputs else (True, atom.id)


def _content(terms: Sequence[tuple[Powers, float]]) -> float:
    """A number to take out, which saves products."""
    scales = [abs(c) for _, c in terms]
    scale = scales[0]
    if any(c != scale for c in scales):
        if any(c != int(c) for c in scales):
            return 1.0
        scale = float(math.gcd(*map(int, scales)))
    return scale if sum(abs(c) == scale and bool(m) for m, c in terms) > 1 else 1.0


def _split(terms: Polynomial) -> list[Polynomial]:
    """Split terms into those with the most frequent factor and the others; each by itself if no two share one."""
    found: dict[tuple[Node, bool], list[Powers]] = {}
    for m in terms:
        for atom, n in m:
            found.setdefault((atom, n > 0), []).append(m)
    best = max(found, key=lambda pair: (len(found[pair]), -pair[0].id), default=None)
    if best is None or len(found[best]) == 1:
        return [{m: c} for m, c in terms.items()]
    having = set(found[best])
    with_it = {m: c for m, c in terms.items() if m in having}
    without = {m: c for m, c in terms.items() if m not in having}
    return [with_it, without] if next(iter(terms)) in having else [without, with_it]
