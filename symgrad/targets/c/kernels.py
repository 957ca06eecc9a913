"""Kernels as functions that Python calls: lowered, printed, compiled and loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any

from symgrad.core.graph import Graph, Node
from symgrad.core.interpret import interpret
from symgrad.core.text import word
from symgrad.lowering.build import lower
from symgrad.lowering.parallel import with_parallel_loops
from symgrad.lowering.statements import Exact, Function, walk
from symgrad.targets.c import blas, pool
from symgrad.targets.c.extension import module_text, needs_blas, needs_pool
from symgrad.targets.c.functions import vectorises
from symgrad.targets.c.names import c_word
from symgrad.targets.c.partition import Kernel, partitioned
from symgrad.targets.c.toolchain import load

Repeat = Callable[..., Any]
"""A function that is called with flags and the arguments of a kernel, where C may owe a warning: see `repeating`."""


def with_kernels(
    graph: Graph, function: str, threads: int | None, repeating: Callable[[Kernel], Repeat]
) -> tuple[Graph, str]:
    """Return a program with kernels in the place of what C computes, and the source of the module that has these.

    Parameters
    ----------
    graph : Graph
    function : str
        The name of the program.
    threads : int or None
        How many may share a loop, None for as many as cores.
    repeating : callable
        Gives the function that repeats calls of a kernel in which the processor raised flags: its first argument is the
        sum of 1 for a division by zero, 2 for an overflow, 4 for an underflow and 8 for an invalid value. It returns
        None where the results of C stay.
    """
    texts: list[str] = []
    compiled = partial(_compiled, module_name(function), texts, threads=threads, repeating=repeating)
    return partitioned(graph, compiled)[0], "".join(texts)


def module_name(function: str) -> str:
    """Return the name of the module with the kernels of a function, as the linker takes it."""
    return "sg_" + re.sub(r"\W", "_", word(function), flags=re.ASCII)


def _compiled(
    name: str,
    texts: list[str],
    kernels: Sequence[Kernel],
    threads: int | None,
    repeating: Callable[[Kernel], Repeat],
) -> Sequence[Callable[..., Any]]:
    if not kernels:
        return []
    functions = lowered(kernels)
    pythons = [[y.aval.weak for y in kernel.outputs] for kernel in kernels]
    text = module_text(name, list(zip(functions, pythons, strict=True)), threads)
    texts.append(text)
    module = load(text, name)
    addresses = [*(blas.found() or ())] if needs_blas(functions) else []
    addresses += [pool.address()] if needs_pool(functions, threads) else []
    if addresses:
        module.connect(*addresses)
    pairs = enumerate(zip(functions, kernels, strict=True))
    return [_of_any_size(module.bind(k, repeating(kernel)), f, kernel) for k, (f, kernel) in pairs]


def _of_any_size(native: Callable[..., Any], function: Function, kernel: Kernel) -> Callable[..., Any]:
    """Return a kernel that is interpreted where an integer of Python's does not fit into 64 bits."""
    taken = any(x.aval.weak and x.aval.dtype.kind == "i" for x in kernel.inputs)
    if not taken and not any(isinstance(s, Exact) for s in walk(function.body)):
        return native

    @wraps(native)
    def run(*arguments: Any) -> Any:
        try:
            return native(*arguments)
        except OverflowError:
            count = len(function.parameters)
            given = dict(zip(kernel.graph.inputs, arguments[:count], strict=True))
            sizes = dict(zip(function.sizes, map(int, arguments[count:]), strict=True))
            results = interpret(kernel.graph.outputs, given, sizes)
            return results[0] if len(results) == 1 else tuple(results)

    return run


def lowered(kernels: Sequence[Kernel]) -> list[Function]:
    """Return the statements of kernels."""
    has_blas = blas.found() is not None
    named = [(f"kernel_{k}", kernel) for k, kernel in enumerate(kernels, start=1)]
    return [
        with_parallel_loops(
            lower(kernel.graph, name, called, kernel.sizes, taken(name, kernel.sizes), has_blas, vectorises)
        )
        for name, kernel in named
    ]


def taken(name: str, sizes: Iterable[str]) -> set[str]:
    """Return what nothing in a function is called: the names of its parts, and those that its sizes have in C."""
    return parts_of(name) | {*map(c_word, sizes)}


def parts_of(name: str) -> set[str]:
    """Return the names of the functions in C that a function is."""
    return {f"{name}{part}" for part in ("", "_workspace", "_near", "_far")}


def called(graph: Graph, node: Node) -> str | None:
    """Return the name that the user gives a value, if C can take it."""
    name = graph.names.get(node)
    if isinstance(name, tuple):
        pattern, of = name
        inner = graph.names.get(of)
        name = pattern.format(inner) if isinstance(inner, str) else None
    if name is None or not name.isascii() or not name.isidentifier() or name.startswith("_"):
        return None
    return c_word(name)
