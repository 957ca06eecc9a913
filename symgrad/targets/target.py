"""Targets, the languages that programs are compiled to, and what the stages and the compiler ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from symgrad.core.graph import Graph


class Target(NamedTuple):
    """A language that a program is compiled to."""

    by_calls: bool  # whether each operation is a call, whose cost matters more than its arithmetic
    with_kernels: Callable[[Graph, str, int | None], tuple[Graph, str]] | None = None
    """The program with kernels in the place of what needs no call, and their source, for the name of the function and
    the number of threads that share a loop; None where all is calls."""


def with_kernels(graph: Graph, function: str, threads: int | None) -> tuple[Graph, str]:
    """Return a program with kernels of C, and the source of the module that has these."""
    from symgrad.targets.c import kernels  # imported by those who ask for it

    return kernels.with_kernels(graph, function, threads)


NUMPY = Target(by_calls=True)
C = Target(by_calls=False, with_kernels=with_kernels)
TARGETS = {"numpy": NUMPY, "c": C, "auto": NUMPY}
"""By the option; "auto" is NumPy until C takes over."""
