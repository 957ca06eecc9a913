"""Targets, the languages that programs are compiled to, and what the stages and the compiler ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from symgrad.core.graph import Graph


class Target(NamedTuple):
    """A language that a program is compiled to."""

    by_calls: bool  # whether each operation is a call, whose cost matters more than its arithmetic
    with_kernels: Callable[..., tuple[Graph, str]] | None = None
    """The program with kernels in the place of what needs no call, and their source; None where all is calls."""


def with_kernels(graph: Graph, *how: Any) -> tuple[Graph, str]:
    """Return a program with kernels of C, and the source of the module that has these: see `kernels.with_kernels`."""
    from symgrad.targets.c import kernels  # imported by those who ask for it

    return kernels.with_kernels(graph, *how)


NUMPY = Target(by_calls=True)
C = Target(by_calls=False, with_kernels=with_kernels)
TARGETS = {"numpy": NUMPY, "c": C, "auto": NUMPY}
"""By the option; "auto" is NumPy until C takes over."""
