"""Masked loops, as batching makes them: they run until the last row is done; a row that is done keeps its carry."""

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


def keeps_what_is_done(loop: Node) -> bool:
    """Whether a loop ends when a mask that it carries is false everywhere, and would change nothing from then on.

    Then it may end earlier for some of its rows: as soon as the mask is false for them. It stacks nothing, since it
    would stack that for fewer iterations.
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
    """Return the values of nodes where the mask is false everywhere; the mask itself stands for false."""
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
