"""Small linear systems in loops, solved with an inverse that several share, or that is made for all iterations.

``np.linalg.solve`` takes five microseconds for a few numbers, and a product half of one. Of `solve`, each column of an
inverse has a small residual: ``W = inv(A.T).T`` times `A` is the identity up to rounding, so ``W @ b`` is as near to
the solution as ``solve(A, b)`` is. ``inv(A) @ b`` may be further off by the condition of `A` (N. Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd ed., section 14.1); of two rows, either is as good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from symgrad.analysis.values import number
from symgrad.control.fission import Known, Split
from symgrad.control.opened import instead_of, rebuilt
from symgrad.core.graph import SIZE, Graph, Node
from symgrad.core.region import regions_of
from symgrad.frontend.variable import Variable
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.linalg import SOLVE, is_of_two
from symgrad.ops.shape import TRANSPOSE
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only

FEW = 16
"""Rows up to which an inverse, three times the work of a solution, takes about as long: the time of a LAPACK call."""


@stable_only
def use_inverses(graph: Graph, numerics: str = "stable") -> Graph:
    """Multiply with inverses in loops instead of solving small systems, where that is faster."""
    return rebuilt(graph, SCAN, _with_inverses)


def _with_inverses(node: Node, _: Mapping[int, Node]) -> dict[Node, Made]:
    if not any(x.op is SOLVE for region in regions_of(node) for x in region.nodes):
        return {}
    loop = loop_of(node).opened()
    after = loop.map_body(_by_inverses(Split(node, loop)))
    return instead_of(after.record, node, {}) if after is not loop else {}


def _by_inverses(split: Split) -> Callable[[Graph], Graph]:
    """Return a rewrite of a body that replaces systems by products with inverses."""
    is_ahead = _known_ahead(split)

    def rewritten(body: Graph) -> Graph:
        systems = [x for x in body.live if x.op is SOLVE and x.inputs[0].aval.ndim == 2 and x.aval.dtype.kind == "f"]
        shared = Counter(x.inputs[0] for x in systems if _has_few_rows(x.inputs[0]))
        chosen = [x for x in systems if is_of_two(x.inputs[0]) or shared[x.inputs[0]] > 1 or is_ahead(x.inputs[0])]
        return copied(body, {x: _product(x) for x in chosen}) if chosen else body

    return rewritten


def _known_ahead(split: Split) -> Callable[[Node], bool]:
    """Return a predicate for matrices whose inverse is made before the loop."""
    loop = split.loop
    if split.iterations is None or (loop.length.op is not SIZE and not number(loop.length)):
        return lambda matrix: False
    known = Known(split)

    def is_ahead(matrix: Node) -> bool:
        if matrix in known.fixed:
            return split.is_long or _has_few_rows(matrix)
        return known.knows(matrix) and _has_few_rows(matrix)

    return is_ahead


def _has_few_rows(matrix: Node) -> bool:
    rows = matrix.aval.shape[0]
    return isinstance(rows, int) and rows <= FEW


def _product(system: Node) -> Made:
    """Return a maker of the solution as a product with an inverse."""
    a, b = system.inputs
    base = a.inputs[0] if a.op is TRANSPOSE else a  # of a matrix there is but one other order of axes

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        matrix, vectors = Variable(graph, image[base]), Variable(graph, image[b])
        if base is not a:
            return np.linalg.inv(matrix).T @ vectors
        inverse = np.linalg.inv(matrix) if is_of_two(a) else np.linalg.inv(matrix.T).T
        return inverse @ vectors

    return made
