"""Contractions: sums of products in einsum's notation, whatever operator computes them; their cost and lowering."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.core.axes import signature_of
from symgrad.core.graph import Aval, Graph, Node, per_node
from symgrad.core.shapes import is_one
from symgrad.core.sizes import Shape, Size, same
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL, OUTER, TENSORDOT, VECDOT
from symgrad.ops.einsum import EINSUM, LETTERS
from symgrad.ops.elementwise import MULTIPLY
from symgrad.ops.reduce import SUM
from symgrad.rewrite.structure import with_axes, without

GAIN = 0.75
"""Fraction of the old cost that a new form may have."""

ABREAST = 8
"""Multiplications of a matrix product that take as long as reading or writing one number."""


def plain(*nodes: Node) -> bool:
    """Whether values are arrays of one dtype that BLAS and einsum have fast loops for."""
    avals = [x.aval for x in nodes]
    if not all(type(aval) is Aval and aval.shape and not aval.weak for aval in avals):  # several results are a tuple
        return False
    first = avals[0].dtype
    return first.kind == "f" and first.itemsize in (4, 8) and all(aval.dtype == first for aval in avals)


def work_of(sizes: Mapping[str, Size], terms: Sequence[str], out: str) -> float:
    """Return the estimated cost of a contraction, in numbers read or written."""
    places = numbers([sizes[label] for label in set("".join(terms))])
    touched = sum(numbers([sizes[label] for label in term]) for term in (*terms, out))
    return touched + places / ABREAST


class Contraction(NamedTuple):
    """A contraction: labels of the axes of each operand, and of the result; one label is one size."""

    operands: tuple[Node, ...]
    terms: tuple[str, ...]
    out: str

    @property
    def sizes(self) -> dict[str, Size]:
        """The size of each label."""
        pairs = zip(self.operands, self.terms, strict=True)
        return {label: n for x, term in pairs for label, n in zip(term, x.aval.shape, strict=True)}

    @property
    def subscripts(self) -> str:
        """The contraction as einsum writes it."""
        return f"{','.join(self.terms)}->{self.out}"

    @property
    def contracted(self) -> str:
        """Labels that are summed over, in the order in which they are met."""
        return "".join(dict.fromkeys(label for term in self.terms for label in term if label not in self.out))

    def own(self, i: int) -> str:
        """Labels that are summed over and that operand `i` alone has."""
        others = "".join(term for j, term in enumerate(self.terms) if j != i)
        return "".join(label for label in self.terms[i] if label not in self.out and label not in others)

    @property
    def is_product(self) -> bool:
        """Whether two operands are multiplied elementwise, with their axes in the order of the result."""
        return len(self.terms) == 2 and not self.contracted and all(map(self._in_order, self.terms))

    def work(self) -> float:
        """Return the estimated cost, in numbers read or written."""
        return work_of(self.sizes, self.terms, self.out)

    def renamed(self, names: dict[str, str]) -> Contraction:
        terms = tuple("".join(names[label] for label in term) for term in self.terms)
        return Contraction(self.operands, terms, "".join(names[label] for label in self.out))

    def written(self, graph: Graph) -> Variable:
        """The contraction as a value: a matrix product or an elementwise one where it is that."""
        xs = [Variable(graph, x) for x in self.operands]
        if self.is_product:
            return np.multiply(*[placed(x, term, self.out) for x, term in zip(xs, self.terms, strict=True)])
        return xs[0] @ xs[1] if self._is_matmul() else np.einsum(self.subscripts, *xs)

    def _is_matmul(self) -> bool:
        """Whether it is a stack of matrices times one matrix, or times as many, as they stand."""
        if len(self.terms) != 2 or min(map(len, self.terms)) < 2:
            return False
        left, right = self.terms
        stack, i, j, k = left[:-2], left[-2], left[-1], right[-1]
        apart = len({*stack, i, j, k}) == len(stack) + 3
        return apart and right in (j + k, stack + j + k) and self.out == stack + i + k

    def _in_order(self, term: str) -> bool:
        return "".join(label for label in self.out if label in term) == term


def placed(x: Variable, term: str, out: str) -> Variable:
    """A value with axes of size one for the labels that it lacks; broadcasting adds those in front."""
    if not term:
        return x
    missing = [i for i, label in enumerate(out.lstrip("".join(set(out) - set(term)))) if label not in term]
    return with_axes(x.graph, x, missing, len(term) + len(missing)) if missing else x


# ---- what operators contract

CONTRACTIONS = (MATMUL, VECDOT, TENSORDOT, EINSUM, OUTER)


@per_node
def contraction_of(node: Node) -> Contraction | None:
    """A node as a contraction; None if it is none, or one that stretches axes of size one.

    An elementwise product of arrays sums nothing, and has a blank for each axis that it stretches: see `trimmed`.
    """
    if node.op is EINSUM:
        found: Contraction | None = as_written(node)
    elif node.op.contracts:
        found = _by_signature(node)
    else:
        found = _multiply(node) if node.op is MULTIPLY else None
    return found if found is not None and _consistent(found) else None


def _consistent(c: Contraction) -> bool:
    sizes = c.sizes
    return all(
        n is sizes[label] or same(n, sizes[label])
        for x, term in zip(c.operands, c.terms, strict=True)
        for label, n in zip(term, x.aval.shape, strict=True)
    )


def _by_signature(node: Node) -> Contraction | None:
    """Return the contraction of an operator's axis signature; its own axes come first, then those of stacks."""
    inputs, result, *_ = signature_of(node)
    labels = dict.fromkeys(chain(*inputs, result))
    if None in labels:
        return None
    names = dict(zip(sorted(labels, key=lambda x: not isinstance(x, str)), LETTERS, strict=False))
    *terms, out = ("".join(names[label] for label in term) for term in (*inputs, result))
    return Contraction(node.inputs, tuple(terms), out)


def as_written(node: Node) -> Contraction:
    """Return the contraction of an einsum."""
    terms, out = str(dict(node.params)["subscripts"]).split("->")
    return Contraction(node.inputs, tuple(terms.split(",")), out)


def _multiply(node: Node) -> Contraction | None:
    x, y = node.inputs
    if not x.aval.shape or not y.aval.shape:
        return None
    out = LETTERS[: len(node.aval.shape)]
    terms = tuple(spanned(z.aval.shape, node.aval.shape, out) for z in node.inputs)
    return Contraction(node.inputs, terms, out)


def spanned(shape: Shape, whole: Shape, labels: str) -> str:
    """A label for each axis; a blank where an axis is stretched."""
    lead = len(whole) - len(shape)
    return "".join(" " if is_one(n) and not is_one(whole[i]) else labels[i] for i, n in enumerate(shape, lead))


def trimmed(graph: Graph, c: Contraction) -> Contraction:
    """The contraction without the axes of size one that blanks stand for."""
    xs = [without(graph, x, [i for i, label in enumerate(t) if label == " "]) for x, t in zip(*c[:2], strict=True)]
    return Contraction(tuple(xs), tuple(term.replace(" ", "") for term in c.terms), c.out)


def summed_first(graph: Graph, c: Contraction, own: Mapping[int, str]) -> Contraction:
    """The contraction with labels that one operand alone has summed before."""
    operands, terms = list(c.operands), list(c.terms)
    for i, labels in own.items():
        axes = tuple(j for j, label in enumerate(terms[i]) if label in labels)
        operands[i] = SUM(Variable(graph, operands[i]), axis=axes).node
        terms[i] = less(terms[i], labels)
    return Contraction(tuple(operands), tuple(terms), c.out)


def less(term: str, labels: Container[str]) -> str:
    """A term without some labels."""
    return "".join(label for label in term if label not in labels)
