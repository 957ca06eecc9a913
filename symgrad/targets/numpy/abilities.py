"""Abilities of NumPy and Python that placement uses: `out=`, `del`, and loops on Python's floats."""

from __future__ import annotations

import numpy as np

from symgrad.analysis import costs
from symgrad.analysis.cost import likely, likely_numbers, magnitude
from symgrad.analysis.memory_profile import nbytes
from symgrad.control.places import iterations_of
from symgrad.core.graph import INPUT, Node
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import is_rows
from symgrad.loops.buffer_allocation import goes_straight
from symgrad.loops.row_access import WRITE_ROWS
from symgrad.lowering.placement import Abilities
from symgrad.ops.control_parts import loop_of
from symgrad.ops.index import SET
from symgrad.ops.index_expressions import indexed_shape
from symgrad.ops.spellings import is_small
from symgrad.targets.numpy.joins import is_computed_into
from symgrad.targets.numpy.scalars import may_raise, runs_on_floats

LARGE = 1 << 20  # bytes from which on a dead array is worth a line that releases it
COSTLY = 1 << 18  # and where speed is wanted: the next array comes to lie in memory that is there
PAGE = 1 << 12  # and where values are computed again lest they be kept
RETURNED = 1 << 18  # bytes from which on memory goes back to the system


def abilities(level: int) -> Abilities:
    """Return the abilities that source of a level of optimisation uses: at level 0 every node is a line of its own."""
    if level == 0:
        return Abilities(makes_anew=False)
    if level == 1:
        return Abilities(releases=_is_worth_a_line)
    return Abilities(
        keeps=_is_kept,
        on_numbers=_is_faster_on_floats,
        runs_twice=may_raise,
        fills=_fills,
        joins=is_computed_into,
        releases=_is_worth_time,
    )


def _is_worth_a_line(x: Node, again: bool) -> bool:
    return bool(magnitude(nbytes(x.aval)) >= (PAGE if again else LARGE))


def _is_worth_time(x: Node, again: bool) -> bool:
    return bool(magnitude(nbytes(x.aval)) >= (PAGE if again else COSTLY))


def _is_faster_on_floats(loop: Node) -> bool:
    """Whether a loop runs on Python's floats, and what it keeps for a second run takes less time than that saves."""
    if not runs_on_floats(loop):
        return False
    if not may_raise(loop):  # it runs once
        return True
    parts = loop_of(loop)
    size = iterations_of(parts.length)
    saved = (costs.LEAST_CALL - costs.OPERATION) / costs.COPIED * (1 if size is None else likely(size))
    return sum(likely_numbers(c.init) for c in parts.carry if c.update.op is not INPUT) <= saved


def _is_kept(x: Node) -> bool:
    """Whether NumPy can write a value into memory that is there, and that is worth it."""
    if not (x.op.elementwise and isinstance(x.op.evaluate, np.ufunc)):
        return False
    known = all(isinstance(n, int) and not is_rows(n) for n in x.aval.shape)
    return known and likely_numbers(x) * x.aval.dtype.itemsize >= RETURNED


def _fills(put: Node) -> bool:
    """Whether NumPy can compute a large value right where it is assigned."""
    value = put.inputs[1]
    if put.op is WRITE_ROWS:
        return goes_straight(put, value)
    if put.op is not SET or is_small(value) or len(put.inputs) > 2:
        return False
    shape = indexed_shape(put.aval.shape, dict(put.params)["key"], ())
    fits = value.aval.dtype == put.aval.dtype and same_shape(value.aval.shape, shape)
    return fits and value.op.elementwise and isinstance(value.op.evaluate, np.ufunc)
