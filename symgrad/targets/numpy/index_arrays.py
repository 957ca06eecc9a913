"""Reading and adding under one index array in the forms that NumPy has fast code for: which form is taken is said here.

Microseconds for 30,000 indices into a table of 10,000 rows of numbers in double precision, by the length of a row:

    length of a row       1      3      9     16     50
    x[i]                 34    389    544    595   1705
    x.take(i, axis=0)    24     92    144    199    691
    np.add.at            51   1510   3542   5675  16746
    runtime._add_at      57    136    561    711   2461

Taking copies an array first whose rows do not lie one behind the other. That costs less than it saves while the table
is not `LARGER` times as large as there are indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.analysis.cost import likely, likely_numbers
from symgrad.analysis.values import keyed_axes
from symgrad.core.graph import Node
from symgrad.core.shapes import broadcast_shapes, product
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slot, taken_axis
from symgrad.spelling import ATOM, Call, Code, call

LARGER = 6
LONG = 1 << 7  # indices from which on columns are worth a call each
MANY = 1 << 11  # numbers from which on adding is worth a function of its own


def taken(node: Node, inputs: Sequence[Code], indices: Callable[[Node], float]) -> Code | None:
    """``x.take(i, axis=0)`` for ``x[i]``, where that is faster; `indices` says how many there are in all."""
    if node.op is not GET or len(inputs) != 2 or node.inputs[0].aval.ndim < 2:
        return None
    axis, (x, i) = taken_axis(dict(node.params)["key"]), node.inputs
    if axis is None or not np.can_cast(i.aval.dtype, np.intp) or likely_numbers(x) > LARGER * indices(node):
        return None
    return call(f"{inputs[0].at(ATOM)}.take", [inputs[1].text, f"axis={axis}"])


def added_at(node: Node, y: str, arrays: Sequence[Code], value: Code) -> Call | None:
    """``_add_at(y, i, v)`` for ``np.add.at(y, i, v)``, where that is faster: of numbers under one index it is not."""
    x, v, *places = node.inputs
    key, shape = dict(node.params)["key"], broadcast_shapes(*[i.aval.shape for i in places])
    whole = [n for item, n in keyed_axes(node) if item == EVERYTHING]
    if x.aval.dtype != v.aval.dtype or likely(product((*shape, *whole))) < MANY:
        return None
    items = key[: len(key) - len(whole)]
    by = [arrays[item.input].text for item in items if isinstance(item, Slot)]
    if taken_axis(key) == 1 and x.aval.ndim == v.aval.ndim == 2 and likely(product(shape)) >= LONG:
        return call("_add_at", [f"{y}.T", arrays[0].text, f"{value.at(ATOM)}.T"])
    if not all(isinstance(item, (Slot, int)) for item in items):
        return None
    if len(by) < len(items):  # with numbers beside it: under one index in a view
        if len(by) > 1 or whole:
            return None
        y = f"{y}[{', '.join(':' if isinstance(item, Slot) else str(item) for item in items)}]"
    function = "_add_at" if whole or len(by) > 1 or len(shape) > 1 else "np.add.at"
    return call(function, [y, by[0] if len(by) == 1 else f"({', '.join(by)})", value.text])
