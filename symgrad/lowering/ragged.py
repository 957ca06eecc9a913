"""Ragged values: their extents depend on the indices of loops, and their buffers have the largest extents.

The index is a symbol, `Loop.index_size`, at least 0 and below the length of its loop. An extent is an expression in it,
such as ``n - t``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from symgrad.analysis.values import known_size
from symgrad.core.graph import Node
from symgrad.core.size_expressions import place_symbol
from symgrad.core.sizes import Dim, Size, expression_of, in_side, largest, same, size_from, symbols_of
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of

if TYPE_CHECKING:
    from sympy import Expr

Lengths = Mapping[str, Size | None]
"""By the names of indices the lengths of their loops, None where unknown."""


def lengths_of(nodes: Iterable[Node]) -> Lengths:
    """Return the lengths of loops by the symbols of their indices; None for a symbol with two lengths."""
    found: dict[str, Size | None] = {}
    for loop in (loop_of(node) for node in nodes if node.op is SCAN):
        if loop.index_size is not None:
            length = known_size(loop.length)
            length = None if isinstance(length, int) and length < 0 else length
            before = found.setdefault(loop.index_size, length)
            if length is None or before is None or not same(before, length):
                found[loop.index_size] = None
    return found


def indices_in(size: Size) -> set[str]:
    """Return the names of the loop indices in a size."""
    return set() if not isinstance(size, Dim) or size.multiple else {*symbols_of(size)} & size.scope.places.keys()


def is_ragged(shape: Sequence[Size]) -> bool:
    """Whether an extent of a shape depends on the index of a loop."""
    return any(map(indices_in, shape))


def has_ragged_rows(node: Node) -> bool:
    """Whether the rows of the matrices of a product have extents that depend on the indices of loops."""
    return any(is_ragged(x.aval.shape[1:]) for x in (node, *node.inputs))


def largest_extent(size: Size, lengths: Lengths) -> Size | None:
    """Return an upper bound of a size over all iterations; None if none is found.

    The bound is at least 0, also if loops have no iterations.
    """
    bound = in_side(size, 0)
    while isinstance(bound, Dim) and (names := indices_in(bound)):
        if not names <= lengths.keys():
            return None
        outer = {name for other in names if (n := lengths[other]) is not None for name in indices_in(n)}
        name = min(names - outer, default="")  # an index of which no other loop's length is made
        length = lengths.get(name)
        last = None if length is None else expression_of(length)
        found = _bound(bound.expr.expand(), place_symbol(name), last, upper=True)
        if found is None:
            return None
        bound = size_from(found.expand(), bound.scope)
    return size if not indices_in(size) else largest(0, bound)


def _bound(x: Expr, s: Expr, last: Expr | None, upper: bool) -> Expr | None:
    """Return a bound of an expression for a symbol from 1 to `last`; None if none is found."""
    from sympy import Max, Min, Mod, ceiling, floor, sympify

    if not x.has(s):
        return x
    if x == s:
        return last if upper else sympify(1)
    if isinstance(x, Mod):
        (_, modulus), lowest = x.args, sympify(0)
        return (modulus - 1 if upper else lowest) if modulus.is_positive and not modulus.has(s) else None
    factor, rest = x.as_coeff_Mul()
    if factor != 1:
        found = _bound(rest, s, last, upper == bool(factor > 0))
        return None if found is None else factor * found
    monotonic = x.is_Add or isinstance(x, (Max, Min, floor, ceiling))
    if not monotonic and not (x.is_Mul and all(y.is_positive and y.is_Symbol for y in x.args)):
        return None
    bounds = [_bound(y, s, last, upper) for y in x.args]
    known = [y for y in bounds if y is not None]
    return x.func(*known) if len(known) == len(bounds) else None
