"""Linear forms: values as sums of *atoms*, which depend on a loop's carry, times factors that do not.

``x + h * (A @ x)`` is one term, the atom x with the factor ``I + h * A`` from the left. Factors are appended to the
same graph; those of unused forms are dead code.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.overflow import has_range
from symgrad.analysis.values import number
from symgrad.core.graph import Aval, Graph, Node, Op
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import same
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT

NUMBER, EACH, LEFT, RIGHT = "a number", "an array, elementwise", "a matrix from the left", "a matrix from the right"
"""Kinds of factors."""

MOST_TERMS = 3

LINEAR = frozenset({ADD, SUBTRACT, NEGATIVE, MULTIPLY, DIVIDE, MATMUL})
"""Operators that linear forms can have."""


class Term(NamedTuple):
    """An atom, and its factor."""

    atom: Node
    side: str
    factor: Any  # a Variable, or a float

    def times(self, f: Any) -> Term:
        """Return the term times a number."""
        return self._replace(factor=_times(f, self.factor))

    def value(self, graph: Graph) -> Variable:
        x = Variable(graph, self.atom)
        if self.side == LEFT:
            return self.factor @ x
        return x @ self.factor if self.side == RIGHT else _times(self.factor, x)


class Form(NamedTuple):
    """A sum of terms, plus a rest that is independent of the carry."""

    terms: tuple[Term, ...]
    rest: Variable | None = None

    def value(self, graph: Graph) -> Variable:
        """Return the sum as a value, positive terms first."""
        terms = sorted(self.terms, key=lambda x: type(x.factor) is float and x.factor < 0)
        values = [x.value(graph) for x in terms]
        return reduce(np.add, values if self.rest is None else [*values, self.rest])

    def mapped(self, f: Callable[[Term], Term | None], rest: Callable[[Variable], Variable]) -> Form | None:
        """Apply a linear function to each term and the rest; None if a result is no term."""
        terms = [f(x) for x in self.terms]
        if any(x is None for x in terms):
            return None
        return Form(tuple([x for x in terms if x]), None if self.rest is None else rest(self.rest))


class Forms:
    """Linear forms of the values of a graph; `known` ones are independent of the carry."""

    def __init__(self, graph: Graph, known: Container[Node]) -> None:
        self.graph, self.known = graph, known
        self.of: dict[Node, Form] = {}

    def read(self, node: Node) -> bool:
        """Find the form of a node, after those of its operands; return whether it is more than an atom."""
        if not is_state(node) or node.op not in LINEAR or not all(map(self._is_alike(node), node.inputs)):
            return False
        form = _READ[node.op](self, node)
        if form is None or len(form.terms) > MOST_TERMS:
            return False
        self.of[node] = form
        return True

    def form(self, x: Node) -> Form:
        """Return the form of an operand; an atom is its own form."""
        if x in self.known:
            return Form((), Variable(self.graph, x))
        return self.of.get(x) or _atom(x)

    def single(self, x: Node) -> Form:
        """Return the form of a factor of a product; sums of several terms are atoms, to be multiplied as a whole."""
        form = self.form(x)
        return form if len(form.terms) == 1 else _atom(x)

    def factor(self, x: Node) -> Any:
        """Return a known value as a factor."""
        value = number(x) if x.aval.weak else None
        return Variable(self.graph, x) if value is None else float(value)

    def _is_alike(self, node: Node) -> Callable[[Node], bool]:
        """Return a predicate: whether an operand has the dtype of a node, and is known or a state of fitting shape."""
        dtype = node.aval.dtype
        return lambda x: (
            type(x.aval) is Aval
            and (x.aval.dtype == dtype or x.aval.weak)
            and (x in self.known or (is_state(x) and (node.op is MATMUL or same_shape(x.aval.shape, node.aval.shape))))
        )

    # ---- operators

    def add(self, node: Node) -> Form | None:
        f, g = map(self.form, node.inputs)
        return self._sum(node, f, self._scaled(g, -1.0) if node.op is SUBTRACT else g)

    def negative(self, node: Node) -> Form | None:
        return self._scaled(self.form(node.inputs[0]), -1.0)

    def multiply(self, node: Node) -> Form | None:
        x, k = node.inputs if node.inputs[1] in self.known else node.inputs[::-1]
        return self._times(self.single(x), self.factor(k)) if k in self.known else None

    def divide(self, node: Node) -> Form | None:
        x, k = node.inputs
        if k not in self.known or (k.aval.weak and not number(k)):  # of what is zero where there is no iteration
            return None
        return self._times(self.single(x), 1.0 / self.factor(k))

    def matmul(self, node: Node) -> Form | None:
        a, b = node.inputs
        x, k = (b, a) if a in self.known else (a, b)
        if k not in self.known or k.aval.ndim != 2:
            return None
        matrix, left, vector = Variable(self.graph, k), x is b, x.aval.ndim == 1
        product = (lambda y: matrix @ y) if left else (lambda y: y @ matrix)
        return self.single(x).mapped(lambda term: _multiplied(term, matrix, left, vector), product)

    def _scaled(self, form: Form, factor: Any) -> Form:
        rest = None if form.rest is None else _times(factor, form.rest)
        return Form(tuple([x.times(factor) for x in form.terms]), rest)

    def _times(self, form: Form, factor: Any) -> Form | None:
        if type(factor) is float or not factor.shape:
            return self._scaled(form, factor)
        return form.mapped(lambda term: _by_each(term, factor), lambda rest: rest * factor)

    def _sum(self, node: Node, f: Form, g: Form) -> Form:
        terms = list(f.terms)
        for term in g.terms:
            for i, other in enumerate(terms):
                if other.atom is term.atom and (both := _both(other, term, node)) is not None:
                    terms[i] = both
                    break
            else:
                terms.append(term)
        rests = [x.rest for x in (f, g) if x.rest is not None]
        rest = reduce(np.add, rests) if rests else None
        if rest is not None and rest.node.aval.weak:
            rest = rest.astype(node.aval.dtype)
        if rest is not None and not same_shape(rest.shape, node.aval.shape):
            rest = np.broadcast_to(rest, node.aval.shape)
        return Form(tuple(terms), rest)


_READ: dict[Op, Callable[[Forms, Node], Form | None]] = {
    ADD: Forms.add,
    SUBTRACT: Forms.add,
    NEGATIVE: Forms.negative,
    MULTIPLY: Forms.multiply,
    DIVIDE: Forms.divide,
    MATMUL: Forms.matmul,
}


def is_state(x: Node) -> bool:
    """Whether a value is a vector or a matrix, of floats."""
    aval = x.aval
    return type(aval) is Aval and aval.ndim in (1, 2) and not aval.weak and has_range(aval.dtype)


def _atom(x: Node) -> Form:
    return Form((Term(x, NUMBER, 1.0),))


# ---- factors


def _times(a: Any, b: Any) -> Any:
    """Return the product of two factors; multiplication by one is left out, by minus one it is a negation."""
    a, b = (b, a) if type(b) is float else (a, b)
    return b if type(a) is float and a == 1 else -b if type(a) is float and a == -1 else a * b


def _by_each(term: Term, e: Variable) -> Term | None:
    """Multiply a term by an array elementwise: a diagonal matrix if the term is a vector."""
    if term.side in (NUMBER, EACH):
        return Term(term.atom, EACH, _times(term.factor, e))
    rows = e[:, None] if e.ndim == 1 and term.atom.aval.ndim == 1 and term.side == LEFT else e
    size = rows.shape[0] if term.side == LEFT and rows.ndim == 2 else rows.shape[-1]
    thin = rows.ndim == 1 or same(rows.shape[1] if term.side == LEFT else rows.shape[0], 1)
    axis = 0 if term.side == LEFT else 1
    fits = same(size, term.factor.shape[axis]) and (term.side == RIGHT or rows.ndim == 2)
    return term._replace(factor=term.factor * rows) if thin and fits else None


def _multiplied(term: Term, matrix: Variable, left: bool, vector: bool) -> Term | None:
    """Multiply a matrix and a term."""
    side, f = (LEFT if left else RIGHT), term.factor
    if term.side == NUMBER:
        return Term(term.atom, side, _times(f, matrix))
    if term.side == side:
        return Term(term.atom, side, matrix @ f if left else f @ matrix)
    if not vector:  # between a matrix from the left and one from the right nothing is known
        return None
    if term.side == EACH:
        if f.ndim != 1 or not same(f.shape[0], matrix.shape[1 if left else 0]):
            return None
        return Term(term.atom, side, matrix * f if left else f[:, None] * matrix)
    return Term(term.atom, side, matrix @ f.T if left else f.T @ matrix)


def _both(x: Term, y: Term, node: Node) -> Term | None:
    """Add two terms of one atom."""
    if x.side == y.side or {x.side, y.side} == {NUMBER, EACH}:
        return Term(x.atom, EACH if EACH in (x.side, y.side) else x.side, x.factor + y.factor)
    matrix, other = (x, y) if x.side in (LEFT, RIGHT) else (y, x)
    if not all(same(n, matrix.factor.shape[0]) for n in matrix.factor.shape):
        return None
    vector = node.aval.ndim == 1
    if other.side == NUMBER or (other.side == EACH and vector and other.factor.ndim == 1):
        eye = np.eye(matrix.factor.shape[0], dtype=node.aval.dtype, like=matrix.factor)
        return matrix._replace(factor=_times(other.factor, eye) + matrix.factor)
    return matrix._replace(factor=matrix.factor + other.factor.T) if vector and other.side != EACH else None


def factors_of(form: Form) -> Sequence[Node]:
    """Return the known values of a form, as nodes."""
    values = [*(x.factor for x in form.terms), *([] if form.rest is None else [form.rest])]
    return [x.node for x in values if isinstance(x, Variable)]
