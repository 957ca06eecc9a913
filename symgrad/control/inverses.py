"""Linear systems in loops, solved by products with an inverse that is hoisted, or that several systems share.

A product takes a fraction of the time of ``np.linalg.solve``, and the right inverse is as accurate. NumPy solves for an
inverse column by column, and each column has a small residual. So ``W = inv(A.T).T`` satisfies ``W @ A = I`` up to
rounding, and ``W @ b`` is as near to the solution as ``solve(A, b)`` is. ``inv(A) @ b`` may be worse by the condition
number of `A` (N. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 14.1), except for matrices
of two rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from symgrad.analysis.values import number
from symgrad.control.fission import Known, Split
from symgrad.control.replacement import instead_of, rebuilt
from symgrad.core.graph import SIZE, Graph, Node
from symgrad.core.region import regions_of
from symgrad.frontend.variable import Variable
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.linalg import SOLVE, is_of_two
from symgrad.ops.shape import TRANSPOSE
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import stable_only

Choice = Callable[[Split, list[Node]], list[Node]]
"""Chooses among the systems of a loop."""

FEW = 16
"""Most rows for which an inverse takes about as long as a solution: the call of LAPACK takes longer than its work."""


@stable_only
def hoist_inverses(graph: Graph, numerics: str = "stable") -> Graph:
    """Hoist the inverses of loop-invariant matrices, and multiply by them instead of solving systems."""
    return rebuilt(graph, SCAN, lambda node, _: _with_inverses(node, _fixed))


@stable_only
def use_inverses(graph: Graph, numerics: str = "stable") -> Graph:
    """Multiply by inverses in loops instead of solving small systems, where that takes fewer calls."""
    return rebuilt(graph, SCAN, lambda node, _: _with_inverses(node, _shared_or_ahead))


def _with_inverses(node: Node, choice: Choice) -> dict[Node, Made]:
    if not any(x.op is SOLVE for region in regions_of(node) for x in region.nodes):
        return {}
    loop = loop_of(node).opened()
    after = loop.map_body(partial(_by_inverses, choose=partial(choice, Split(node, loop))))
    return instead_of(after.record, node, {}) if after is not loop else {}


def _by_inverses(body: Graph, choose: Callable[[list[Node]], list[Node]]) -> Graph:
    """Replace the chosen systems of a body by products with inverses."""
    systems = [x for x in body.live if x.op is SOLVE and x.inputs[0].aval.ndim == 2 and x.aval.dtype.kind == "f"]
    chosen = choose(systems)
    return copied(body, {x: _product(x) for x in chosen}) if chosen else body


def _fixed(split: Split, systems: list[Node]) -> list[Node]:
    """Choose systems whose matrix is loop-invariant, where there are enough iterations for an inverse."""
    fixed = Known(split).fixed if _iterates(split) else ()
    return [x for x in systems if x.inputs[0] in fixed and (split.is_long or _has_few_rows(x))]


def _shared_or_ahead(split: Split, systems: list[Node]) -> list[Node]:
    """Choose small systems that share a matrix, or whose matrices are known for all iterations before the loop."""
    knows = Known(split).knows if _iterates(split) else lambda matrix: False
    small = [x for x in systems if _has_few_rows(x)]
    shared = Counter(x.inputs[0] for x in small)
    return [x for x in small if is_of_two(a := x.inputs[0]) or shared[a] > 1 or knows(a)]


def _iterates(split: Split) -> bool:
    """Whether the loop surely runs: otherwise the inverse of a singular matrix could fail that no iteration needs."""
    return split.iterations is not None and (split.loop.length.op is SIZE or bool(number(split.loop.length)))


def _has_few_rows(system: Node) -> bool:
    rows = system.inputs[0].aval.shape[0]
    return isinstance(rows, int) and rows <= FEW


def _product(system: Node) -> Made:
    """Return a maker of the solution as a product with an inverse."""
    a, b = system.inputs
    base = a.inputs[0] if a.op is TRANSPOSE else a  # a matrix has but one transpose

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        matrix, vectors = Variable(graph, image[base]), Variable(graph, image[b])
        if base is not a:
            return np.linalg.inv(matrix).T @ vectors
        inverse = np.linalg.inv(matrix) if is_of_two(a) else np.linalg.inv(matrix.T).T
        return inverse @ vectors

    return made
