"""Linear recurrences along an axis as statements: a loop that computes each element from the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from symgrad.core.graph import Node, Op
from symgrad.lowering.elements import stretched
from symgrad.lowering.expressions import ONE, ZERO, Apply, Choose, Expr, Local, Whole, converted, extent, minus, neutral
from symgrad.lowering.statements import Assign, Declare
from symgrad.ops.define import TABLE

if TYPE_CHECKING:
    from symgrad.lowering.build import Part

ADD, MULTIPLY = (cast(Op, TABLE[f]) for f in (np.add, np.multiply))


def write_recurrence(part: Part, node: Node) -> None:
    """Write the loop along the axis, which is the innermost one."""
    params, shape, dtype = dict(node.params), node.aval.shape, node.aval.dtype
    axis, target = params["axis"], part.begin(node)
    order = [*(k for k in range(len(shape)) if k != axis), axis]
    zero = neutral(np.add, dtype)
    with part.nested([shape[k] for k in order]) as nest:
        place = dict(zip(order, nest.at, strict=True))
        if params["reverse"]:
            place[axis] = minus(minus(extent(shape[axis]), ONE), place[axis])
        at = tuple([place[k] for k in range(len(shape))])
        b, a = (converted(part.pull(x, stretched(x, at)), dtype) for x in node.inputs)
        others = frozenset(i.name for i in nest.indices if i is not nest.at[-1])
        running = Local(part.program.names.fresh("running"), dtype, others)
        y = Local(part.program.names.fresh("y"), dtype, frozenset(i.name for i in nest.indices))
        nest.levels[nest.depth(running)].append(Declare(running, zero, mutable=True))

        def following(y: Expr) -> Expr:
            return Apply(MULTIPLY, (a, y), dtype)

        # forwards the first factor is not used: it may be infinite
        before = running if params["reverse"] else Choose(Whole("<", ZERO, nest.at[-1]), following(running), zero)
        nest.levels[-1] += [
            Declare(y, Apply(ADD, (b, before), dtype)),
            target.store(at, y),
            Assign(running, following(y) if params["reverse"] else y),
        ]
    part.values[node] = target
