"""Promotions of carried values: whether an iteration computes the same where they begin with a wider dtype.

Python's first iteration may see integers and the others floats; a loop has one dtype for all. The float of an integer
is the same number, and so is ``y * 0.5``, but ``y + y`` may wrap around as integers and not as floats, and
``np.sqrt(y)`` is NaN of a negative real number and not of a complex one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.region import regions_of
from symgrad.errors import SymgradError
from symgrad.ops.accumulate import CUMSUM
from symgrad.ops.choice import MAXIMUM, MINIMUM, WHERE
from symgrad.ops.contract import MATMUL, VECDOT
from symgrad.ops.control import SCAN
from symgrad.ops.elementwise import ABSOLUTE, ADD, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.reduce import MAX, MIN, SUM

Dtypes = tuple[np.dtype, ...]

WIDE = frozenset(map(np.dtype, (np.int64, np.float64, np.complex128)))
"""Dtypes in which sums and products of integers are equal, up to 2**53."""

ALIKE = frozenset((ADD, SUBTRACT, MULTIPLY, NEGATIVE, ABSOLUTE, SUM, CUMSUM, MATMUL, VECDOT))
"""Operators whose results are equal numbers in all of `WIDE`, but for overflow."""

CHOOSE = frozenset((MAX, MIN, MAXIMUM, MINIMUM, WHERE))
"""Operators whose results are among their operands, of whichever dtype they are."""


def may_differ(a: Aval, b: Aval) -> bool:
    """Whether a value may take part in other arithmetic if it is converted from one type to the other.

    Python's integers are as exact as floats, and its numbers take the dtype of an array.
    """
    is_complex = "c" in (a.dtype.kind, b.dtype.kind)
    return a.dtype != b.dtype and (is_complex or not (a.weak or b.weak))


def promoted_too(graph: Graph, seed: Node, dtypes: Dtypes, wide: bool = False) -> Collection[Node] | None:
    """Return the nodes since a seed whose dtype changes with it; None where numbers may change as well.

    Where ``wide=True``, sums and products of 64-bit numbers count as the same in all dtypes of 64 bits.
    """
    found = {seed: dtypes}  # values of which the dtype is another one as well
    for node in graph.nodes[seed.id + 1 :]:
        if found.keys().isdisjoint(node.inputs):
            continue
        results = _results(node, found)
        if results is None or (regions_of(node) and _passes_on(node, found)):
            return None
        if len(set(results)) > 1:
            if not (_moves(node) or (wide and node.op in ALIKE and WIDE.issuperset(results))):
                return None
            found[node] = results
    return found


def _results(node: Node, found: Mapping[Node, Dtypes]) -> Dtypes | None:
    """Return the dtypes of a node for those of its inputs; None where there is no result for some."""
    if type(node.aval) is not Aval:
        return ()
    results = []
    for k in range(len(next(iter(found.values())))):
        avals = [x.aval._replace(dtype=found[x][k]) if x in found else x.aval for x in node.inputs]
        try:
            results.append(node.op.infer(*avals, **dict(node.params)).dtype)
        except (SymgradError, TypeError):
            return None
    return tuple(results)


def _passes_on(node: Node, found: Mapping[Node, Dtypes]) -> bool:
    """Whether a loop or a branch carries one of these values on, or gives it as a result."""
    return node.op is SCAN or any(not found.keys().isdisjoint(region.results) for region in regions_of(node))


def _moves(node: Node) -> bool:
    """Whether the numbers of a node are those of its inputs."""
    return node.op in CHOOSE or node.op.view or node.op.joins or node.op.places is not None
