"""Reading and adding under one index array in the forms that NumPy has fast code for: which form is taken is said here.

Microseconds for 30,000 indices into a table of 10,000 rows of numbers in double precision, by the length of a row:

    length of a row       1      3      9     16     50
    x[i]                 41    334    474    498    913
    x.take(i, axis=0)    20     80    127    221    613
    np.add.at           328   1318   3075   5086  14993
    runtime._add_at      44    161    628    960   3190

Taking copies an array first whose rows do not lie one behind the other. That costs less than it saves while the table
is not `LARGER` times as large as there are indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.analysis.cost import likely, likely_numbers
from symgrad.core.graph import Node
from symgrad.core.shapes import product
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import taken_axis
from symgrad.spelling import ATOM, Code, call

LARGER = 6
MANY = 1 << 11  # numbers from which on adding is worth a function of its own


def taken(node: Node, inputs: Sequence[Code]) -> Code | None:
    """``x.take(i, axis=0)`` for ``x[i]``, where that is faster."""
    if node.op is not GET or len(inputs) != 2 or node.inputs[0].aval.ndim < 2:
        return None
    axis, (x, i) = taken_axis(dict(node.params)["key"]), node.inputs
    if axis is None or not np.can_cast(i.aval.dtype, np.intp) or likely_numbers(x) > LARGER * likely_numbers(i):
        return None
    return call(f"{inputs[0].at(ATOM)}.take", [inputs[1].text, f"axis={axis}"])


def adds_by_columns(node: Node) -> bool:
    """Whether `runtime._add_at` adds under the index of a node faster than `np.add.at`, which is fast for vectors."""
    x, value, *arrays = node.inputs
    if len(arrays) != 1 or taken_axis(dict(node.params)["key"]) != 0 or x.aval.dtype != value.aval.dtype:
        return False
    shape = arrays[0].aval.shape
    return len(shape) + x.aval.ndim > 2 and likely(product((*shape, *x.aval.shape[1:]))) >= MANY
