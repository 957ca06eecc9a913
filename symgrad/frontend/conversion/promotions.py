"""Promotions: whether a program computes the same where a carry, or what a branch gives, has a wider dtype.

Python's first iteration may see integers and the others floats; a loop has one dtype for all. The float of an integer
is the same number, and so is ``y * 0.5``, but ``y + y`` may wrap around as integers and not as floats, and
``np.sqrt(y)`` is NaN of a negative real number and not of a complex one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, NoReturn

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, Aval, Graph, Node
from symgrad.core.provenance import Where
from symgrad.core.region import Region, regions_of
from symgrad.errors import DTypeError, SymgradError
from symgrad.frontend.conversion.jumps import called_by
from symgrad.ops.accumulate import CUMSUM
from symgrad.ops.choice import MAXIMUM, MINIMUM, WHERE
from symgrad.ops.contract import MATMUL, VECDOT
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import branch_of, loop_of
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import ABSOLUTE, ADD, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from symgrad.ops.reduce import MAX, MIN, SUM

Dtypes = tuple[np.dtype, ...]

WIDE = frozenset(map(np.dtype, (np.int64, np.float32, np.float64, np.complex64, np.complex128)))
"""Dtypes in which sums and products are equal, up to rounding, overflow, and integers of 2**53."""

ALIKE = frozenset((ADD, SUBTRACT, MULTIPLY, NEGATIVE, ABSOLUTE, SUM, CUMSUM, MATMUL, VECDOT))
"""Operators on integers whose results are equal numbers in all of `WIDE`."""

OF_REALS = frozenset(
    TABLE[f]
    for f in (
        np.sqrt,
        np.log,
        np.log2,
        np.log10,
        np.log1p,
        np.arcsin,
        np.arccos,
        np.arctanh,
        np.arccosh,
        np.float_power,
    )
)
"""Functions that are NaN for some real numbers, and not for these as complex ones."""

CHOOSE = frozenset((MAX, MIN, MAXIMUM, MINIMUM, WHERE))
"""Operators whose results are among their operands, of whichever dtype they are."""


def may_differ(a: Aval, b: Aval) -> bool:
    """Whether what is computed with a value may be another number if it is converted from one type to the other.

    An integer of Python's is the same number as a float, and Python's numbers take the dtype of an array.
    """
    is_complex = "c" in (a.dtype.kind, b.dtype.kind)
    return a.dtype != b.dtype and (is_complex or not (a.weak or b.weak))


class Promotion(NamedTuple):
    """The values whose dtype changes with that of another one, and the first node whose numbers may change as well.

    And where the user's code has asked for such a dtype.
    """

    found: Mapping[Node, Dtypes]
    differs: Node | None = None
    asked: Where | None = None


def promotion(graph: Graph, value: Node, dtypes: Dtypes, exact: bool) -> Promotion:
    """Return what becomes of the nodes made since a value if it has one or another of these dtypes.

    Unless ``exact=True``, numbers count as the same up to rounding, overflow, and integers beyond 2**53.
    """
    found = _promotion(graph.nodes[value.id + 1 :], {value: dtypes}, exact)
    return found._replace(asked=next((graph.asked[x] for x in found.found if x in graph.asked), None))


def _promotion(nodes: Iterable[Node], found: dict[Node, Dtypes], exact: bool) -> Promotion:
    made: dict[Node, Mapping[int, Dtypes]] = {}  # results of loops and branches
    for node in nodes:
        if node.op is ITEM and (dtypes := made.get(node.inputs[0], {}).get(dict(node.params)["index"])):
            found[node] = dtypes
            continue
        results_inside = [x for region in regions_of(node) for x in region.results]
        if found.keys().isdisjoint((*node.inputs, *results_inside)):
            continue
        if node.op in (COND, SCAN):
            dtypes_inside = _made_inside(node, found)
            if dtypes_inside is None:
                return Promotion(found, node)
            made[node] = dtypes_inside
        results = _results(node, found)
        if results is None or (regions_of(node) and _differs_inside(node, found, exact)):
            return Promotion(found, node)
        if len(set(results)) > 1:
            if not _moves(node) and (exact or not _is_alike(node, results)):
                return Promotion(found, node)
            found[node] = results
    return Promotion(found)


class Promoted(NamedTuple):
    """A value of one of two dtypes, chosen by a branch, which has the dtype that holds both."""

    graph: Graph
    node: Node
    sides: tuple[Aval, Aval]
    name: str

    def check(self) -> None:
        """Raise if something was computed with it that is another number for one of the two."""
        dtypes = *(x.dtype for x in self.sides), self.node.aval.dtype
        found = promotion(self.graph, self.node, dtypes, exact=False)
        if found.asked:
            self._refuse("its dtype is asked for here", found.asked)
        if found.differs:
            self._refuse("what is computed with it here may be another number for the two", found.differs.where)

    def _refuse(self, fact: str, where: Where) -> NoReturn:
        then, other = self.sides
        raise DTypeError(
            f"{called_by(self.name)} is {then} where a condition holds, and {other} where it does not, and {fact}",
            f"Give it one dtype in both branches: x.astype(np.{self.node.aval.dtype}).",
            where,
        )


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


def _made_inside(node: Node, found: Mapping[Node, Dtypes]) -> dict[int, Dtypes] | None:
    """Return the dtypes of results that the sides of a branch, or an iteration, give; None where they are several."""
    made = {}
    for i, values in enumerate(zip(*(region.results for region in _bodies(node)), strict=True)):
        dtypes = {found[x] for x in values if x in found}
        if len(dtypes) > 1:
            return None
        if dtypes:
            made[i] = dtypes.pop()
    return made


def _bodies(node: Node) -> Sequence[Region]:
    """Return the sides of a branch, or the body of a loop."""
    if node.op is SCAN:
        return [loop_of(node).body]
    branch = branch_of(node)
    return [branch.then, branch.other]


def _differs_inside(node: Node, found: Mapping[Node, Dtypes], exact: bool) -> bool:
    """Whether a loop that begins or goes on with one of these values may give other numbers."""
    if node.op is COND:
        return False
    if node.op is not SCAN:
        return any(not found.keys().isdisjoint(region.results) for region in regions_of(node))
    loop = loop_of(node)  # its consts are values of the program, as which they were looked at
    inside = {x.value: found[x.update] for x in loop.carry if x.update in found}
    inside |= {x.value: found[x.init] for x in loop.carry if x.init in found}
    inside |= {x.value: found[x.source] for x in loop.xs if x.source in found}
    tested = loop.test.parameters if loop.test is not None else ()
    inside |= {x: found[carry.init] for x, carry in zip(tested, loop.carry, strict=False) if carry.init in found}
    within = _promotion(chain(*(region.nodes for region in regions_of(node))), inside, exact)
    return within.differs is not None or not within.found.keys().isdisjoint(loop.results)


def _moves(node: Node) -> bool:
    """Whether the numbers of a node are those of its inputs."""
    return node.op in CHOOSE or node.op.view or node.op.joins or node.op.places is not None


def _is_alike(node: Node, dtypes: Dtypes) -> bool:
    """Whether a node gives equal numbers, up to rounding and overflow."""
    if not WIDE.issuperset(dtypes):
        return False
    if node.op is POWER:
        exponent = node.inputs[1]
        return exponent.op is CONSTANT and exponent.aval.dtype.kind in "iu" and bool(np.all(exponent.constant >= 0))
    kinds = {dtype.kind for dtype in dtypes}
    if kinds == {"f"}:
        return True
    if kinds == {"f", "c"} and node.op.elementwise:
        return node.op not in OF_REALS
    return node.op in ALIKE
