"""Polynomials: sums of products with like terms collected, so that each order of a derivative starts small.

An *atom* is whatever is not arithmetic, such as ``sin(x)``. What lies between atoms and what needs the result is read
as a polynomial in them: ``t * (a + b) + 2 * t * a`` has two terms rather than three. It is written anew where that
takes fewer operations: by the scheme of Horner, or before another derivative as a plain sum, whose derivatives are of
its kind again. A sum that is a factor is an atom if the polynomial of its product would be less exact: in ``(x - y) *
z`` the difference of two arguments may be exact, where ``x * z - y * z`` has the rounding errors of its terms. Where
all terms but one have such errors already, nothing is lost, but of ``1 - tanh(x)**2``, which is exactly zero at large
x: it is multiplied out with other tangents alone. Of two sums one is expanded at most, since what is exact in
the product of two small differences is not in the sum of four products.

What overflows on the way may be another value: not for ``numerics="ieee"``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symgrad.analysis.overflow import MODERATE, NEAR_ONE, Origins, has_range, moderate
from symgrad.analysis.uses import times_used
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import same_shape
from symgrad.ops.astype import ASTYPE
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from symgrad.products.horner import Plan, Polynomial, Powers, common, in_ratios, times
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only

MOST_TERMS, MOST_POWERS = 200, 100_000
"""A sum of more terms is not expanded further, nor anything where that has made so many powers of atoms."""

ROUNDS = 0.5
"""A function whose loop takes so many nanoseconds for a number computes it; the others select or add."""

MUCH_LESS = 4
"""For so many times fewer operations factors that balance each other may change places."""

HIGHEST = 32
"""The highest power that is taken for a product."""


@stable_only
def collect(graph: Graph, numerics: str = "stable") -> Graph:
    """Like terms of sums are collected."""
    instead = _instead(graph)
    return copied(graph, instead) if instead else graph


@stable_only
def expand(graph: Graph, numerics: str = "stable") -> Graph:
    """Like terms of sums are collected; these are plain sums of products, to differentiate."""
    instead = _instead(graph, flat=True)
    return copied(graph, instead) if instead else graph


def _instead(graph: Graph, flat: bool = False) -> dict[Node, Made]:
    """Return makers for nodes to rewrite; nodes that stay, or with the user's names, are atoms."""
    nodes, outputs = graph.live, graph.outputs
    arithmetic = [x for x in nodes if x.id >= graph.since and _is_arithmetic(x)]
    members = set(arithmetic)
    apart = {x for x in arithmetic if isinstance(graph.names.get(x), str)}
    groups = [group for group in _groups(arithmetic, apart) if len(group) > 2]
    if not groups:
        return {}
    uses, origins = times_used(nodes, outputs), Origins(nodes)
    outside = apart.union(outputs, (x for node in nodes if node not in members for x in node.inputs))
    instead: dict[Node, Made] = {}
    for group in groups:
        instead |= _Reading(group, outside, apart, uses).rewritten(flat, origins)
    return instead


_ARITHMETIC = frozenset({ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE, POWER, ASTYPE})


def _is_arithmetic(node: Node) -> bool:
    """Whether it is a sum, a product or a power of values of one shape and dtype, and of numbers."""
    if node.op not in _ARITHMETIC or not has_range(node.aval.dtype):
        return False
    if node.op is ASTYPE:
        return node.inputs[0].aval.weak and node.inputs[0].aval.dtype == node.aval.dtype
    if node.op is POWER and not _is_whole(number(node.inputs[1])):
        return False
    return all([x.aval.weak or (x.aval.dtype == node.aval.dtype and _alike(x, node)) for x in node.inputs])


def _is_whole(n: object) -> bool:
    return isinstance(n, (int, float)) and abs(n) <= HIGHEST and n == int(n) != 0


def _alike(x: Node, user: Node) -> bool:
    return same_shape(x.aval.shape, user.aval.shape)


def _groups(nodes: Sequence[Node], apart: Collection[Node]) -> list[list[Node]]:
    """Return groups of arithmetic nodes that are connected."""
    leader = {x: x for x in nodes}

    def find(x: Node) -> Node:
        while (y := leader[x]) is not x:
            leader[x] = x = leader[y]
        return x

    for node in nodes:
        for x in node.inputs:
            if x in leader and x not in apart and _alike(x, node):
                leader[find(x)] = find(node)
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        found.setdefault(find(node), []).append(node)
    return list(found.values())


class _Sum(NamedTuple):
    """A polynomial, and whether terms or numbers have met in it."""

    terms: Polynomial
    met: bool = False


class _Reading:
    """The polynomials of a group of arithmetic nodes."""

    def __init__(
        self, group: Sequence[Node], outside: Collection[Node], apart: Collection[Node], uses: Mapping[Node, int]
    ) -> None:
        self.members, self.apart, self.uses = set(group), apart, uses
        self.roots = {x for x in group if x in outside}
        self.of: dict[Node, _Sum] = {}
        self._sums: dict[frozenset[tuple[Powers, float]], tuple[Node, float]] = {}  # which atom is a multiple of which
        self._rounded: set[Node] = set()
        self._plain: set[Node] = set()
        self._multiplying: dict[Node, bool] = {}  # operations, by whether they, or what they need, multiply powers
        self._atoms: dict[Node, _Sum] = {}
        self._reciprocals: set[Node] = set()  # of which one over it is there
        room = MOST_POWERS
        for node in group:
            found = self._read(node)
            room -= sum(map(len, found.terms))
            if room > 0 and self._is_manageable(found.terms, node):
                self.of[node] = found
            else:
                self.members.discard(node)
                self.roots.update(x for x in node.inputs if x in self.members)

    def rewritten(self, flat: bool, origins: Origins) -> dict[Node, Made]:
        """The roots in which something has met, and derivatives, if that makes fewer operations, or better ones."""
        anew = {x: p for x, p in self.of.items() if x in self.roots and (p.met or _is_derived_sum(x, p))}
        terms = {x: q for x, p in anew.items() if (q := self._reordered(x, p.terms, origins)) is not None}
        if not terms:
            return {}
        plan = Plan(self._reciprocals)
        written = [plan.write(p) for p in terms.values()]
        kept = self._needed(self.roots.difference(terms))
        gain = len(self._needed(self.roots)) - len(kept) - plan.operations(written)
        if gain < 0 or (not gain and not any(_is_open_product(x, p) for x, p in terms.items())):
            return {}
        if flat:
            plan = Plan(self._reciprocals, flat=True)
            written = [plan.write(p) for p in terms.values()]
        return {x: plan.maker(i, x.aval) for x, i in zip(terms, written, strict=True)}

    # ---- factors that balance each other

    def _reordered(self, root: Node, p: Polynomial, origins: Origins) -> Polynomial | None:
        """A polynomial as it may be written, if no part of a product overflows where the whole does not.

        So factors stand over divisors that grow with them: ``(x / r) * (x / r) / r`` for ``x * x / r**3``. Or if such a
        part is computed already, as higher derivatives do, which multiply powers; or if much is gained.
        """
        terms = [term for term in p.items() if not self._is_plain_product(term[0])]
        if not any(origins.balance_powers(m, numbers=abs(c) != 1) for m, c in terms):
            return p
        if all(origins.grow_alike(m) for m, _ in terms):
            return {in_ratios(m, origins.related): c for m, c in p.items()}
        if self._needs_products_of_powers(root, origins):
            return p
        atoms = {atom for m in p for atom, _ in m}
        least = max(len(atoms), len(p)) - 1  # each takes part in an operation; but for sums that occur twice
        if least * MUCH_LESS > self._operations(root, least * MUCH_LESS):
            return None
        plan = Plan(self._reciprocals)
        most = plan.operations([plan.write(p)]) * MUCH_LESS
        return p if most <= self._operations(root, most) else None

    def _operations(self, root: Node, most: int) -> int:
        """Return the number of operations of the group that a value needs, counted no further than `most`."""
        found, stack = {root}, [root]
        while stack and len(found) < most:
            new = [x for x in stack.pop().inputs if x in self.members and x not in found]
            found.update(new)
            stack += new
        return len(found)

    def _needs_products_of_powers(self, root: Node, origins: Origins) -> bool:
        """Whether a value, or an operation of the group that it needs, multiplies powers; each is asked once."""
        stack = [root]
        while stack:
            node = stack[-1]
            new = [x for x in node.inputs if x in self.members and x not in self._multiplying]
            if not new:
                below = any([x in self.members and self._multiplying[x] for x in node.inputs])
                self._multiplying[node] = below or (node.op is MULTIPLY and self._multiplies_powers(node, origins))
                stack.pop()
            stack += new
        return self._multiplying[root]

    def _multiplies_powers(self, node: Node, origins: Origins) -> bool:
        """Whether one factor is a sum or product of powers that may overflow, which the other one balances."""
        x, y = (self._operand(x, node).terms for x in node.inputs)
        for p, q in ((x, y), (y, x)):
            powers = next((m for m in p if sum([n for _, n in m]) > 1), None)
            if powers and all(map(self._is_plain_product, p)):
                products = [times(powers, m) for m in q if not self._is_plain_product(m)]
                if any(origins.balance_powers(m, 0) for m in products):
                    return True
        return False

    def _is_plain_product(self, m: Powers) -> bool:
        return all(n > 0 and self._is_plain(atom) for atom, n in m)

    def _is_plain(self, atom: Node) -> bool:
        """Whether it is given, or a sum of products of what is given: small where that is, or by chance."""
        while atom.op.view:
            atom = atom.inputs[0]
        return not atom.inputs or atom in self._plain

    def _is_manageable(self, terms: Polynomial, node: Node) -> bool:
        most = MODERATE[node.aval.dtype.itemsize]
        return (
            len(terms) <= MOST_TERMS
            and all([moderate(c, most) for c in terms.values()])
            and all([-HIGHEST <= n <= HIGHEST for m in terms for _, n in m])
        )

    def _needed(self, roots: Collection[Node]) -> set[Node]:
        """The operations of the group that roots need."""
        found, stack = set(roots), list(roots)
        while stack:
            for x in stack.pop().inputs:
                if x in self.members and x not in found:
                    found.add(x)
                    stack.append(x)
        return found

    # ---- one node

    def _read(self, node: Node) -> _Sum:
        x, *others = [self._operand(x, node) for x in node.inputs]
        if node.op is ASTYPE:
            return x
        if node.op is NEGATIVE:
            return x._replace(terms={m: -c for m, c in x.terms.items()})
        if node.op is POWER:
            return self._power(x, int(number(node.inputs[1])), node.inputs[0])
        (y,) = others
        if node.op is MULTIPLY:
            return self._product(x, y, node)
        if node.op is DIVIDE:
            inverse = self._power(y, -1, node.inputs[1])
            if number(node.inputs[0]) == 1:
                self._reciprocals.update(atom for m in inverse.terms for atom, _ in m)
            return self._product(x, inverse, node)
        return _added(x, y, 1.0 if node.op is ADD else -1.0)

    def _operand(self, x: Node, user: Node) -> _Sum:
        c = number(x)
        if c is not None and (c == 0 or moderate(float(c), NEAR_ONE[user.aval.dtype.itemsize])):
            return _Sum({(): float(c)} if c else {})
        if x not in self.of or x in self.apart or not _alike(x, user):
            return self._atom(x)
        return self.of[x] if self._exact(self.of[x]) < 2 or user.op is ASTYPE else self._atom(x)

    def _atom(self, x: Node) -> _Sum:
        """A value as it is: of the group one that is wanted then, perhaps times a number."""
        if x not in self._atoms:
            self._atoms[x] = self._new_atom(x)
        return self._atoms[x]

    def _new_atom(self, x: Node) -> _Sum:
        if x not in self.members:
            return _Sum({((x, 1),): 1.0})
        terms = self.of[x].terms or {(): 1.0}
        first = terms[min(terms, key=lambda m: [(atom.id, n) for atom, n in m])]
        key = frozenset((m, c / first) for m, c in terms.items())
        atom, scale = self._sums.setdefault(key, (x, first))
        self.roots.add(atom)
        if any(map(self._is_rounded, terms)):
            self._rounded.add(atom)
        if all(map(self._is_plain_product, terms)):
            self._plain.add(atom)
        return _Sum({((atom, 1),): first / scale}, atom is not x)

    def _power(self, x: _Sum, n: int, node: Node) -> _Sum:
        if len(x.terms) != 1 or not moderate(next(iter(x.terms.values())), NEAR_ONE[node.aval.dtype.itemsize]):
            x = self._atom(node)
        ((m, c),) = x.terms.items()
        return _Sum({tuple([(atom, n * k) for atom, k in m]): c**n}, x.met)

    def _product(self, x: _Sum, y: _Sum, node: Node) -> _Sum:
        """With two sums it is expanded in the one that is rather rounded, or used once."""
        if not x.terms or not y.terms:
            return _Sum({}, True)
        if _is_slope_of_tanh(x) and not _is_of_tanh(y):
            x = self._atom(node.inputs[0])
        elif _is_slope_of_tanh(y) and not _is_of_tanh(x):
            y = self._atom(node.inputs[1])
        if len(x.terms) > 1 and len(y.terms) > 1:
            if x is y:
                return self._power(x, 2, node.inputs[0])
            if (self._exact(x), self.uses[node.inputs[0]]) <= (self._exact(y), self.uses[node.inputs[1]]):
                y = self._atom(node.inputs[1])
            else:
                x = self._atom(node.inputs[0])
        met = x.met or y.met or (_has_numbers(x) and _has_numbers(y))
        return _Sum({times(m, n): c * d for m, c in x.terms.items() for n, d in y.terms.items()}, met)

    def _exact(self, x: _Sum) -> int:
        """Return how many terms of a sum are not rounded; 0 for a single term."""
        return sum(not self._is_rounded(m) for m in x.terms) if len(x.terms) > 1 else 0

    def _is_rounded(self, m: Powers) -> bool:
        """Whether a product of atoms is rounded when it is computed, or its only atom was."""
        if len(m) != 1 or m[0][1] != 1:
            return bool(m)
        atom = m[0][0]
        return atom in self._rounded or (atom.op.elementwise and atom.op.nanoseconds >= ROUNDS)


def _is_derived_sum(x: Node, p: _Sum) -> bool:
    """Whether it is a sum that nobody has written."""
    return x.where.of is not None and len(p.terms) > 1


def _is_open_product(x: Node, p: Polynomial) -> bool:
    """Whether it is written as a sum, but all terms have a factor in common: a loop keeps the other one then."""
    return x.op in (ADD, SUBTRACT) and len(p) > 1 and bool(common(list(p)))


def _is_slope_of_tanh(x: _Sum) -> bool:
    """Whether a sum is zero where hyperbolic tangents are one: times a large factor its terms leave rounding errors."""
    return len(x.terms) > 1 and () in x.terms and _is_of_tanh(x) and abs(sum(x.terms.values())) < 1e-9


def _is_of_tanh(x: _Sum) -> bool:
    """Whether all there is are numbers and hyperbolic tangents, which are at most one."""
    return all(atom.op is TABLE[np.tanh] for m in x.terms for atom, _ in m)


def _has_numbers(x: _Sum) -> bool:
    return any(abs(c) != 1 for c in x.terms.values())


def _added(x: _Sum, y: _Sum, sign: float) -> _Sum:
    terms, met = dict(x.terms), x.met or y.met
    for m, c in y.terms.items():
        met |= m in terms
        terms[m] = terms.get(m, 0.0) + sign * c
        if terms[m] == 0:
            del terms[m]
    return _Sum(terms, met)
