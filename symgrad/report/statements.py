"""Statements of a compiled program, as text: when it computes what, and in which memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.core.graph import Graph
from symgrad.core.listing import node_names, types
from symgrad.core.text import visible
from symgrad.errors import ArgumentError
from symgrad.export.c_files import graph_in_c
from symgrad.lowering.placing import place
from symgrad.lowering.statements import Function
from symgrad.pipeline import schedule
from symgrad.report import placement_listing, statement_listing
from symgrad.targets.c.kernels import lowered
from symgrad.targets.c.partition import Kernel, partitioned
from symgrad.targets.numpy.abilities import abilities

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled


def statements_of(made: Compiled, target: str) -> str:
    """Return the statements of a program for a target as text; for C those of each kernel, and of what calls them."""
    if target == "numpy":
        return _placed(made, made.graph)
    if target != "c":
        raise ArgumentError(f"there are no statements for the target {target!r}", 'Write "numpy" or "c".')
    functions: list[Function] = []

    def kept(kernels: Sequence[Kernel]) -> Sequence[Callable[..., Any]]:
        functions.extend(lowered(kernels))
        return [_never_run] * len(functions)

    rest = schedule(partitioned(graph_in_c(made), kept)[0], made.options.optimize, made.options.numerics)
    return "\n\n".join([*map(statement_listing.listed, functions), _placed(made, rest)])


def _placed(made: Compiled, graph: Graph) -> str:
    names, level = node_names(graph), made.options.optimize
    taken = ", ".join(f"{names[x]}: {types(x)}" for x in graph.inputs)
    head = f"{visible(made.header.function)}({taken}):"
    return f"{head}\n{placement_listing.listed(graph, place(graph.outputs, abilities(level)))}"


def _never_run(*xs: Any) -> Any:
    """Stand for a kernel, which has no function before it is compiled."""
    raise NotImplementedError
