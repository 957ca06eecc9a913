"""The order of contractions: ``A @ (B @ v)`` for ``(A @ B) @ v``, and pairs for an einsum of many operands.

A contraction of a contraction that nothing else needs is three operands, and the cheapest pair goes first. Since the
parts are put together again by the same rules, chains find their order step by step. Sizes decide, so these are
procedures; an intermediate may overflow where another would not: not for ``numerics="ieee"``.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import combinations
from operator import itemgetter
from typing import Any

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import OUTER
from symgrad.ops.einsum import EINSUM, LETTERS
from symgrad.ops.elementwise import MULTIPLY
from symgrad.ops.shape import TRANSPOSE
from symgrad.products.contractions import (
    CONTRACTIONS,
    GAIN,
    Contraction,
    contraction_of,
    plain,
    summed_first,
    trimmed,
    work_of,
)
from symgrad.rewrite.engine import alone
from symgrad.rewrite.rules import procedure

MOST = 6
"""Most operands for which all orders are tried."""


@procedure(EINSUM, changes_nan=True)
def own_labels_first(graph: Graph, node: Node) -> Variable | None:
    """Sum the labels that only one operand has before anything is multiplied."""
    c = contraction_of(node)
    if c is None or len(c.terms) < 2 or not plain(*c.operands) or _in_parts(c) > 2:
        return None
    own = {i: labels for i in range(len(c.terms)) if (labels := c.own(i))}
    return summed_first(graph, c, own).written(graph) if own else None


def _in_parts(c: Contraction) -> int:
    """Return the number of groups of operands that share no label with each other.

    Contracting more than two groups in another order saves nothing, and zero times a large number is zero, while zero
    times the product of two may be NaN.
    """
    groups: list[set[str]] = []
    for term in c.terms:
        met = [group for group in groups if group.intersection(term)]
        groups = [group for group in groups if group not in met] + [set(term).union(*met)]
    return len(groups)


# ---- the cheapest order

Tree = Any
"""The number of an operand, or the pair of two trees that are contracted."""


def cheapest(c: Contraction) -> tuple[float, Tree]:
    """The least work, and the order that takes it."""

    @cache
    def best(which: tuple[int, ...]) -> tuple[float, Tree]:
        return min(map(partial(in_halves, which), _halves(which)), key=itemgetter(0)) if which[1:] else (0.0, which[0])

    def in_halves(which: tuple[int, ...], left: tuple[int, ...]) -> tuple[float, Tree]:
        right = tuple(i for i in which if i not in left)
        (a, tree), (b, other) = best(left), best(right)
        return a + b + work_of(sizes, (_kept(c, left), _kept(c, right)), _kept(c, which)), (tree, other)

    sizes = c.sizes
    return best(tuple(range(len(c.terms))))


def _halves(which: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the ways to split operands in two, by the part with the first operand; from left to right comes first."""
    rest = which[1:]
    return [(which[0], *more) for n in reversed(range(len(rest))) for more in combinations(rest, n)]


def _kept(c: Contraction, which: tuple[int, ...]) -> str:
    """Return the labels to keep of a partial contraction: those that the other operands or the result need."""
    if len(which) == 1:
        return c.terms[which[0]]
    others = "".join(term for i, term in enumerate(c.terms) if i not in which) + c.out
    return "".join(label for label in dict.fromkeys("".join(c.terms[i] for i in which)) if label in others)


def in_order(graph: Graph, c: Contraction, tree: Tree) -> Variable:
    """The contraction, pair by pair."""
    operands, terms = zip(*[_made(graph, c, part) for part in tree], strict=True)
    return Contraction(operands, terms, c.out).written(graph)


def _made(graph: Graph, c: Contraction, tree: Tree) -> tuple[Node, str]:
    if isinstance(tree, int):
        return c.operands[tree], c.terms[tree]
    out = _kept(c, _leaves(tree))
    return in_order(graph, c._replace(out=out), tree).node, out


def _leaves(tree: Tree) -> tuple[int, ...]:
    return (tree,) if isinstance(tree, int) else (*_leaves(tree[0]), *_leaves(tree[1]))


# ---- where there is an order to choose


@procedure(EINSUM)
def scaled_without_sum(graph: Graph, node: Node) -> Variable | None:
    """``einsum("ni,i->ni", A, v)`` is ``A * v``, which meets other products; an outer one stays."""
    c = contraction_of(node)
    if c is None or c.out not in c.terms or not c.is_product or not plain(*c.operands):
        return None
    return c.written(graph)


@procedure(EINSUM, changes_nan=True)
def pairs_of_many(graph: Graph, node: Node) -> Variable | None:
    """An einsum of many operands as contractions of two, so that nothing is planned at each call."""
    c = contraction_of(node)
    if c is None or not 2 < len(c.terms) <= MOST or not plain(*c.operands) or _in_parts(c) > 2:
        return None
    return in_order(graph, c, cheapest(c)[1])


@procedure(*CONTRACTIONS, of={MULTIPLY, TRANSPOSE, *CONTRACTIONS}, changes_nan=True)
def contraction_of_contraction(graph: Graph, node: Node) -> Variable | None:
    """Three operands, of which two have met, in the order that takes least."""
    if not any(_may_join(graph, x) for x in node.inputs):
        return None
    c = contraction_of(node)
    if c is None or len(c.terms) != 2 or not plain(*c.operands) or any(map(c.own, (0, 1))):
        return None
    for i in (0, 1):
        inner = _inner(graph, c, i)
        if inner is not None:
            three = Contraction((*inner.operands, c.operands[1 - i]), (*inner.terms, c.terms[1 - i]), c.out)
            work, tree = cheapest(three)
            if work <= GAIN * (inner.work() + c.work()):
                return in_order(graph, three, tree)
    return None


def _may_join(graph: Graph, x: Node) -> bool:
    """Whether an operand looks like a contraction that nothing else needs."""
    made = x.inputs[0] if x.op is TRANSPOSE else x
    return alone(graph, x) and (made.op is MULTIPLY or made.op in CONTRACTIONS)


def _inner(graph: Graph, c: Contraction, i: int) -> Contraction | None:
    """Operand `i` as a contraction in the labels of `c`, if nothing else needs it."""
    x, term = c.operands[i], c.terms[i]
    if x is c.operands[1 - i]:
        return None
    if x.op is TRANSPOSE and alone(graph, x):
        order = dict(x.params)["axes"]
        x, term = x.inputs[0], "".join(term[order.index(j)] for j in range(len(order)))
    if x.op not in (MULTIPLY, *CONTRACTIONS) or not alone(graph, x) or not plain(x, *x.inputs):
        return None
    found = contraction_of(x)
    found = found and trimmed(graph, found)
    if found is None or len(found.terms) != 2 or any(map(found.own, (0, 1))):
        return None
    names = dict(zip(found.out, term, strict=True))
    free = iter(label for label in LETTERS if label not in "".join((*c.terms, c.out)))
    return found.renamed(names | {label: next(free) for label in found.contracted})


# ---- products that several need


@procedure(*CONTRACTIONS, changes_nan=True)
def contraction_of_outer_product(graph: Graph, node: Node) -> Variable | None:
    """Contract vectors rather than their outer product, even if others need that too: it reads less.

    Squared lengths of gradients, one for each example, are products of the lengths of their factors.
    """
    c = contraction_of(node)
    if c is None or len(c.terms) != 2 or not plain(*c.operands) or not any(map(_stretches, c.operands)):
        return None
    parts = [_factors(graph, *each) for each in zip(c.operands, c.terms, strict=True)]
    operands, terms = zip(*[pair for part in parts for pair in part], strict=True)
    factors = Contraction(operands, terms, c.out)
    if len(terms) == 2 or any(map(factors.own, range(len(terms)))):
        return None
    work, tree = cheapest(factors)
    return in_order(graph, factors, tree) if work <= GAIN * c.work() else None


def _stretches(x: Node) -> bool:
    """Whether a value is a product of arrays of which each is repeated."""
    return x.op in (MULTIPLY, OUTER) and all(numbers(y.aval.shape) < numbers(x.aval.shape) for y in x.inputs)


def _factors(graph: Graph, x: Node, term: str) -> list[tuple[Node, str]]:
    """The factors of an outer product, with the labels that they have where it has these; anything else as it is."""
    found = contraction_of(x) if _stretches(x) and plain(x, *x.inputs) else None
    found = found and trimmed(graph, found)
    if found is None or found.contracted or found.out == "" or len(found.terms) != 2:
        return [(x, term)]
    named = found.renamed(dict(zip(found.out, term, strict=True)))
    return list(zip(named.operands, named.terms, strict=True))
