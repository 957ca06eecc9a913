"""A sum of many contractions as one: ``A.T @ B`` with the operands of all terms below each other.

The gradient of a weight that a program uses at each of many steps is such a sum: of outer products, or of products of
small batches. It costs two passes over an array of the size of the weight for each step, which is most of the time
that such a program takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.graph import Graph, Node, reached
from symgrad.ops.contract import MATMUL, OUTER
from symgrad.ops.define import TABLE, axis_tuple
from symgrad.ops.reduce import SUM
from symgrad.ops.shape import TRANSPOSE
from symgrad.rewrite.contractions import numbers, plain
from symgrad.rewrite.engine import copied
from symgrad.shapes import same_shape
from symgrad.variable import Variable

ADD = TABLE[np.add]

SEVERAL = 4
"""So many terms make it worth to copy their operands."""


class Term(NamedTuple):
    """A product to add, by what it has in common with others, and its operands without their transposes."""

    kind: tuple[Any, ...]
    left: Node
    right: Node


def gather(graph: Graph, numerics: str = "stable") -> Graph:
    """One product for a sum of many. It stands before rules that take single products to other forms."""
    nodes = reached(graph.outputs)
    if sum(node.op is ADD for node in nodes) < SEVERAL - 1:
        return graph
    uses = Counter(x for node in nodes for x in node.inputs)
    uses.update(graph.outputs)
    sums = [(node, terms) for node in _ends(nodes, uses) if len(terms := _terms(node, uses)) >= SEVERAL]
    if not sums:
        return graph
    together = {node: found for node, terms in sums if (found := _products(terms, uses))}
    stacks = {tuple(side) for found in together.values() for group in found for side in _sides(group)}
    instead = {node: _by_products(dict(sums)[node], found) for node, found in together.items()}
    for node, terms in sums:
        if node not in together and (rows := _rows(terms)) in stacks:
            instead[node] = _by_rows(rows)
    return copied(graph, instead) if instead else graph


# ---- what is added


def _ends(nodes: Sequence[Node], uses: Mapping[Node, int]) -> list[Node]:
    """The sums that are no term of another sum."""
    inner = {x for node in nodes if node.op is ADD for x in node.inputs if x.op is ADD and uses[x] == 1}
    return [node for node in nodes if node.op is ADD and node not in inner]


def _terms(end: Node, uses: Mapping[Node, int]) -> list[Node]:
    """The terms of a sum, from left to right."""
    terms, stack = [], [end]
    while stack:
        node = stack.pop()
        if node is end or (node.op is ADD and uses[node] == 1):
            stack += reversed(node.inputs)
        else:
            terms.append(node)
    return terms if plain(end, *terms) and all(same_shape(x.aval.shape, end.aval.shape) for x in terms) else []


def _products(terms: Iterable[Node], uses: Mapping[Node, int]) -> list[list[tuple[Node, Term]]]:
    """Those terms that are products of one kind, where they are several."""
    kinds: dict[Any, list[tuple[Node, Term]]] = {}
    for node in dict.fromkeys(terms):
        term = _term(node) if uses[node] == 1 else None
        if term is not None:
            kinds.setdefault(term.kind, []).append((node, term))
    return [group for group in kinds.values() if len(group) >= SEVERAL]


def _term(node: Node) -> Term | None:
    if not plain(node, *node.inputs):
        return None
    if node.op is OUTER:
        return Term((OUTER,), *node.inputs)
    if node.op is not MATMUL or any(len(x.aval.shape) != 2 for x in node.inputs) or not _copies_pay(node):
        return None
    turned = tuple(x.op is TRANSPOSE for x in node.inputs)
    left, right = (x.inputs[0] if t else x for x, t in zip(node.inputs, turned, strict=True))
    return Term((MATMUL, turned), left, right)


def _copies_pay(node: Node) -> bool:
    """Whether to copy both operands takes less than to add the product to a sum."""
    return 2 * sum(numbers(x.aval.shape) for x in node.inputs) < 3 * numbers(node.aval.shape)


def _sides(group: Sequence[tuple[Node, Term]]) -> tuple[list[Node], list[Node]]:
    return [term.left for _, term in group], [term.right for _, term in group]


def _rows(terms: Sequence[Node]) -> tuple[Node, ...]:
    """What is added: rows as they are, or the matrices whose rows have been summed."""
    return tuple(x.inputs[0] if x.op is SUM and _over_rows(x) else x for x in terms)


def _over_rows(x: Node) -> bool:
    axes = axis_tuple("sum", dict(x.params).get("axis"), len(x.inputs[0].aval.shape))
    return axes == (0,) and len(x.inputs[0].aval.shape) == 2 and not dict(x.params).get("keepdims")


# ---- the new form


def _stacked(xs: Sequence[Node], graph: Graph, image: Mapping[Node, Node], axis: int = 0) -> Variable:
    """Matrices below (or beside) each other, vectors as the rows of a matrix."""
    variables = [Variable(graph, image[x]) for x in xs]
    y = np.concatenate(variables, axis=axis)
    return np.reshape(y, (len(xs), *xs[0].aval.shape)) if len(xs[0].aval.shape) == 1 else y


def _by_products(terms: Sequence[Node], groups: Sequence[Sequence[tuple[Node, Term]]]) -> Any:
    taken = {node for group in groups for node, _ in group}

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        found = [_product(group, graph, image) for group in groups]
        found += [Variable(graph, image[x]) for x in terms if x not in taken]
        y = found[0]
        for term in found[1:]:
            y = y + term
        return y

    return made


def _product(group: Sequence[tuple[Node, Term]], graph: Graph, image: Mapping[Node, Node]) -> Variable:
    op, *turned = group[0][1].kind
    left, right = _sides(group)
    if op is OUTER:
        return _stacked(left, graph, image).T @ _stacked(right, graph, image)
    a = _stacked(left, graph, image, 0 if turned[0][0] else 1)
    b = _stacked(right, graph, image, 1 if turned[0][1] else 0)
    return (a.T if turned[0][0] else a) @ (b.T if turned[0][1] else b)


def _by_rows(rows: Sequence[Node]) -> Any:
    return lambda graph, image: np.sum(_stacked(rows, graph, image), axis=0)
