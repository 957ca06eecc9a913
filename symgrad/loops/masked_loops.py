"""Masked loops, as batching makes them: they run until the last row is done; rows that are done keep their carry."""

from __future__ import annotations

import numpy as np

from symgrad.core.graph import Node, is_view
from symgrad.core.region import Region
from symgrad.core.shapes import same_shape
from symgrad.ops.choice import WHERE
from symgrad.ops.control_parts import loop_of
from symgrad.ops.define import TABLE
from symgrad.ops.reduce import ANY

_BOTH = (TABLE[np.logical_and], TABLE[np.bitwise_and])


def is_masked(loop: Node) -> bool:
    """Whether a loop ends when a carried mask is false everywhere, and further iterations would change no carry.

    Blocks of its rows may then end earlier, as soon as the mask is false for them. The loop has no ys: those of a block
    that ends earlier would be shorter.
    """
    parts = loop_of(loop)
    body, test, carried = parts.body, parts.test, len(parts.carry)
    assert test is not None
    (going,) = test.results
    if going.op is not ANY or going.aval.shape != () or len(body.results) > carried:
        return False
    (mask,) = going.inputs
    if mask not in test.parameters[:carried] or mask.aval.dtype != bool:
        return False
    values = _where_false(body, body.parameters[test.parameters.index(mask)])
    return all(values.get(y, y) is x for x, y in zip(body.parameters, body.results, strict=False))


def _where_false(region: Region, mask: Node) -> dict[Node, Node]:
    """Return the values of nodes for a mask that is false everywhere; `mask` itself stands for such a value."""
    values: dict[Node, Node] = {}
    for node in region.nodes:
        inputs = [values.get(x, x) for x in node.inputs]
        if node.op is WHERE and inputs[0] is mask and _is_like(inputs[2], node):
            values[node] = inputs[2]
        elif (node.op in _BOTH and mask in inputs and node.aval.dtype == bool) or (is_view(node) and inputs[0] is mask):
            values[node] = mask
    return values


def _is_like(x: Node, y: Node) -> bool:
    return x.aval.dtype == y.aval.dtype and same_shape(x.aval.shape, y.aval.shape)
