"""Rows of a block: decided when a program runs, from its sizes and one constant of the machine."""

from __future__ import annotations

from functools import cache
from typing import Any

from symgrad.core.sizes import Dim, Size, expression_of
from symgrad.loops import machine


def rows_of_block(size: Size, row_bytes: Size, least: int) -> Any:
    """Return the number of rows of a block on this machine: a SymPy expression where sizes are symbols.

    Threads share blocks from `least` bytes on; see `_rows_of_block`.
    """
    most = machine.block_bytes()
    if isinstance(size, Dim) or isinstance(row_bytes, Dim):
        return _as_expression()(expression_of(size), expression_of(row_bytes), least, most)
    return _rows_of_block(size, row_bytes, least, most)


@cache
def _as_expression() -> Any:
    """Return the function as one of SymPy, which is evaluated on numbers."""
    from sympy import Function

    class rows_of_block(Function):
        @classmethod
        def eval(cls, *args: Any) -> int | None:
            return _rows_of_block(*map(int, args)) if all(x.is_Integer for x in args) else None

    return rows_of_block


def _rows_of_block(n, nbytes, least, most):
    """Return how many of n rows of `nbytes` bytes make a block.

    A block has at most `most` bytes, to stay in the cache. There are up to 16 blocks of at least `least` bytes, each
    enough work for a thread, and all blocks have about the same length.
    """
    total = n * nbytes
    if total <= least and total <= most:
        return n or 1
    parts = max(2 * min(total // (2 * least), 8), 1)
    return max(-(-n // (parts * -(-total // (parts * most)))), 1)
