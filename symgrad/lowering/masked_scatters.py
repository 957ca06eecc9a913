"""Branches around scatters: a loop that adds nothing but zeros where a mask does not hold is skipped there.

Derivatives of a cutoff are such loops: most pairs of particles are further apart, and add nothing to the gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from symgrad.lowering.expressions import TRUTH, Apply, Choose, Convert, Expr, Local, Number, with_known
from symgrad.lowering.statements import (
    Declare,
    For,
    Function,
    If,
    Remark,
    Statement,
    Store,
    rewrite,
    with_replaced,
)
from symgrad.lowering.uses import is_flat
from symgrad.ops.elementwise import ADD, NEGATIVE, SUBTRACT

LINEAR = (ADD, SUBTRACT, NEGATIVE)  # 0 of zeros


def with_masked_scatters(function: Function) -> Function:
    """Run innermost loops that scatter only where the mask of what they add holds."""
    return replace(function, body=with_replaced(function.body, _with_masks))


def _with_masks(s: Statement) -> list[Statement] | None:
    """Return a loop with branches around the loops inside; None if there are none to be skipped."""
    if not isinstance(s, For):
        return None
    declared = (x for x in s.body if isinstance(x, Declare) and not x.mutable)
    masks = {x.local.name for x in declared if x.local.dtype == TRUTH}
    body = [_masked(x, masks) if isinstance(x, For) else x for x in s.body] if masks else s.body
    return None if all(x is y for x, y in zip(body, s.body, strict=True)) else [replace(s, body=body)]


def _masked(s: For, masks: Collection[str]) -> Statement:
    """Return a loop behind a branch if it adds zeros wherever one of the masks does not hold."""
    parts = (part for x in s.body for e in x.expressions for part in e.parts())
    tests = dict.fromkeys(x.test for x in parts if isinstance(x, Choose))
    named = (x for x in tests if isinstance(x, Local) and x.name in masks)
    mask = next((x for x in named if _adds_zeros(s, x)), None)
    if mask is None:
        return s
    known = {mask.name: Number(True, TRUTH)}
    for x in s.body:
        rewrite(x, lambda e: with_known(e, known))
    return If(mask, [s])


def _adds_zeros(s: For, mask: Local) -> bool:
    """Whether an innermost loop only scatters sums, and adds zeros where a mask does not hold."""
    zeros: set[str] = set()
    scatters = False
    for x in s.body:
        if isinstance(x, Declare) and not x.mutable:
            if _is_zero(x.value, mask, zeros):
                zeros.add(x.local.name)
        elif isinstance(x, Store) and x.combine is np.add and _is_zero(x.value, mask, zeros):
            scatters |= _is_anywhere(x.index)
        elif not isinstance(x, Remark):
            return False
    return is_flat(s) and scatters


def _is_anywhere(index: Sequence[Expr]) -> bool:
    """Whether an index is read from memory, so that compilers do not vectorise what is written there."""
    return any(isinstance(part, Local) and part.depends for x in index for part in x.parts())


def _is_zero(x: Expr, mask: Local, zeros: Collection[str]) -> bool:
    """Whether an expression is 0 where a mask does not hold; `zeros` are names of such numbers."""
    if isinstance(x, Number):
        return bool(x.value == 0)
    if isinstance(x, Local):
        return x.name in zeros
    if isinstance(x, Choose):
        return x.test == mask and _is_zero(x.otherwise, mask, zeros)
    is_linear = isinstance(x, Convert) or (isinstance(x, Apply) and x.op in LINEAR)
    return is_linear and all(_is_zero(y, mask, zeros) for y in x.operands)
