"""Constants are folded."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SEED, SIZE, Graph, Node
from symgrad.core.shapes import product
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.create import EYE, FULL
from symgrad.ops.elementwise import NEGATIVE
from symgrad.ops.known import sizes_in
from symgrad.ops.marks import ALIAS, STOP
from symgrad.ops.shape import BROADCAST_TO
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.rules import procedure

SMALL = 64
"""A constant of so many numbers may be made, whatever it is made of."""


_LARGEST_EXACT = 2**31
_NEVER = frozenset({INPUT, CONSTANT, SIZE, SEED, ITEM, ALIAS, STOP, BARRIER, FULL, BROADCAST_TO})


@procedure(NEGATIVE, of={CONSTANT}, changes_nan=True)
def negative_of_zero(graph: Graph, node: Node) -> Node | None:
    """Zero has no sign: ``-(x - x)`` is the same number whether its sign or its difference is looked at first."""
    (x,) = node.inputs
    return x if not x.aval.shape and number(x) == 0 and not np.signbit(np.real(x.constant)) else None


@procedure(where=lambda op: op not in _NEVER, of={CONSTANT}, exact=True, plane="all")
def fold(graph: Graph, node: Node) -> Node | None:
    """An operation on constants is a constant, unless it would raise, warn or be larger than what it is made of."""
    if any([x.op is not CONSTANT for x in node.inputs]) or not _worth_folding(node) or sizes_in(node.params):
        return None
    values = [x.constant for x in node.inputs]
    try:
        with np.errstate(all="raise", under="ignore"):
            result = node.op.evaluate(*values, **dict(node.params))
    except Exception:  # whatever it is, users' operators included: the program raises it when it runs
        return None
    if not _keeps_finite(values, result):
        return None
    if node.aval.weak:
        result = result.item() if isinstance(result, (np.generic, np.ndarray)) else result
        if type(result) is int and abs(result) > _LARGEST_EXACT:  # NumPy would have wrapped it, Python not
            return None
    image = graph.constant(result)
    return image if image.aval.dtype == node.aval.dtype and image.aval.weak == node.aval.weak else None


def _worth_folding(node: Node) -> bool:
    sizes = [product(x.aval.shape) for x in node.inputs]
    size = product(node.aval.shape)
    if not isinstance(size, int) or sizes_in(node.params):  # a place that depends on a symbol
        return False
    return size <= SMALL if node.op.view else size <= max([SMALL, *sizes])


def _keeps_finite(values: list[Any], result: Any) -> bool:
    if np.asarray(result).dtype.kind not in "fc":
        return True
    return bool(np.all(np.isfinite(result))) or not all(np.all(np.isfinite(v)) for v in values)


def identities_known(graph: Graph) -> Graph:
    """The graph with small identity matrices as constants, which no rule takes for such; itself if there are none."""
    found = {x: _constant(x) for x in graph.live if x.op is EYE and _worth_folding(x)}
    return copied(graph, found) if found else graph


def _constant(node: Node) -> Made:
    return lambda new, image: Variable(new, new.constant(node.op.evaluate(**dict(node.params))))
