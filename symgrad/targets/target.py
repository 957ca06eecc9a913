"""Targets, the languages that programs are compiled to, and what the stages and the compiler ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from symgrad.core.graph import Graph
    from symgrad.targets.c.kernels import Native
    from symgrad.targets.numpy.guard import Guard


class Target(NamedTuple):
    """A language that a program is compiled to."""

    by_calls: bool  # whether each operation is a call, whose cost matters more than its arithmetic
    with_kernels: Callable[..., Native] | None = None
    """The program with kernels in the place of what needs no call; None where all is calls."""


def with_kernels(graph: Graph, guard: Guard, results: Any, *how: Any) -> Native:
    """Return a program, which its guard and the tree of its results tell how to call, with kernels of C."""
    from symgrad.targets.c import kernels, quick  # imported by those who ask for it

    return kernels.with_kernels(quick.Call(graph, guard, results), *how)


NUMPY = Target(by_calls=True)
C = Target(by_calls=False, with_kernels=with_kernels)
TARGETS = {"numpy": NUMPY, "c": C, "auto": NUMPY}
"""By the option; "auto" is NumPy until C takes over."""
