"""Buffers for large temporaries of a loop's body, allocated once before the loop.

Otherwise the memory of a temporary goes back to the system at the end of an iteration and is requested again in the
next one, which takes longer than the computation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from symgrad.analysis.aliases import roots_of, stays_in_place
from symgrad.analysis.cost import likely_numbers
from symgrad.core.graph import Aval, Node
from symgrad.core.sizes import is_rows
from symgrad.loops.buffer_allocation import Allocation, Buffer
from symgrad.ops.checkpoint import BARRIER

LARGE = 1 << 18  # bytes from which on memory goes back to the system


def allocated(nodes: Sequence[Node], results: Collection[Node]) -> Allocation:
    """Return the buffers for values of a body, other than its results and what these may alias."""
    allocation = Allocation(nodes, lambda node: Buffer(node.aval.shape, 0, node.aval.dtype))
    if any(node.op is BARRIER for node in nodes):
        return allocation
    roots = roots_of(nodes, stays_in_place)
    leaving = {roots[y] for y in results}
    leaving.update(roots[x] for node in nodes if type(node.aval) is not Aval for x in node.inputs)
    for node in nodes:
        allocation.visit(node, node not in leaving and _is_large(node))
    return allocation


def _is_large(node: Node) -> bool:
    """Whether NumPy can write a value into memory that is there, and that is worth it."""
    if not (node.op.elementwise and isinstance(node.op.evaluate, np.ufunc)):
        return False
    known = all(isinstance(n, int) and not is_rows(n) for n in node.aval.shape)
    return known and likely_numbers(node) * node.aval.dtype.itemsize >= LARGE
