"""Kernels as functions that Python calls: lowering, printing, compilation and loading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof, c_int64
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from symgrad.control.messages import without_messages
from symgrad.core.graph import Graph, Node
from symgrad.core.options import Options
from symgrad.core.text import word
from symgrad.lowering.build import lower
from symgrad.lowering.parallel import with_parallel_loops
from symgrad.lowering.shared_memory import with_shared_memory
from symgrad.lowering.statements import Function
from symgrad.targets.c import blas, pool, products
from symgrad.targets.c.extension import Printed, module_text, needs_pool, products_in
from symgrad.targets.c.functions import vectorises
from symgrad.targets.c.names import c_word
from symgrad.targets.c.partition import Kernel, left_in_blocks, partitioned
from symgrad.targets.c.quick import Call, may_overflow, quick
from symgrad.targets.c.toolchain import load

if TYPE_CHECKING:
    from symgrad.compiler.repeating import Repeating


class Native(NamedTuple):
    """A program with kernels.

    `graph` calls them, and `text` is the source of their module. `answering` takes a context (see `quick.API`) and
    returns the C function that answers calls directly; None if the program is more than one kernel.
    """

    graph: Graph
    text: str
    answering: Callable[..., Callable[..., Any]] | None


def with_kernels(call: Call, function: str, options: Options, repeating: Callable[[Kernel], Repeating]) -> Native:
    """Replace the parts of a program that C computes by kernels.

    Parameters
    ----------
    call : Call
        The program, and how it is called.
    function : str
        The name of the program.
    options : Options
        The number of threads that may share a loop, None for as many as cores; and the level of optimisation: at 2
        NumPy may run loops over blocks of rows.
    repeating : callable
        Returns the function that repeats a call of a kernel in which the processor raised flags, or that has failed.
        Its first argument is the sum of 1 for a division by zero, 2 for an overflow, 4 for an underflow and 8 for an
        invalid value, or 16 for a failure. It returns None if the results of C are kept.
    """
    if options.optimize >= 2:
        call = call._replace(graph=left_in_blocks(call.graph))
    made: list[tuple[str, Callable[..., Any] | None]] = []
    compiled = partial(_compiled, module_name(function), made, threads=options.threads, repeating=repeating, call=call)
    graph, _ = partitioned(call.graph, compiled)
    return Native(graph, *(made[0] if made else ("", None)))


def module_name(function: str) -> str:
    """Return the name of the module with the kernels of a function, as the linker takes it."""
    return "sg_" + re.sub(r"\W", "_", word(function), flags=re.ASCII)


def _compiled(
    name: str,
    made: list[tuple[str, Callable[..., Any] | None]],
    kernels: Sequence[Kernel],
    threads: int | None,
    repeating: Callable[[Kernel], Repeating],
    call: Call,
) -> Sequence[Callable[..., Any]]:
    """Compile kernels to functions; append to `made` their source, and the function that binds the quick call."""
    if not kernels:
        return []
    functions = lowered(kernels)
    repeats = list(map(repeating, kernels))
    printed = [
        Printed(f, [y.aval.weak for y in kernel.outputs], repeat.tells_overflow)
        for f, kernel, repeat in zip(functions, kernels, repeats, strict=True)
    ]
    short = quick(call, kernels, functions)
    text = module_text(name, printed, threads, short.text if short else "")
    module = load(text, name)
    module.keep(addressof(_kept))
    _loaded.add(module)
    multiplied = products_in(functions)
    addresses = products.addresses(multiplied, threads) if multiplied else []
    addresses += [pool.address()] if needs_pool(functions, threads) else []
    if addresses:
        module.connect(*addresses)
    made.append((text, partial(_bind_quick, module, repeats[0], short.constants) if short else None))
    natives = [module.bind(k, repeat) for k, repeat in enumerate(repeats)]
    return list(map(_of_any_size, natives, functions, kernels, repeats))


_loaded: WeakSet[ModuleType] = WeakSet()
"""The modules of programs that are in use."""
_kept = c_int64()
"""The bytes of large memory that these modules keep, counted by C."""


def release() -> None:
    """Release the memory that programs keep for the calling thread."""
    for module in list(_loaded):
        module.release()


def _bind_quick(module: ModuleType, repeat: Repeating, constants: tuple[Any, ...], *context: Any) -> Callable[..., Any]:
    """Return the C function that answers calls of a program, bound to a context (see `quick.API`)."""
    bound: Callable[..., Any] = module.bind(1, (repeat, constants, *context))
    return bound


def _of_any_size(
    native: Callable[..., Any], function: Function, kernel: Kernel, repeat: Repeating
) -> Callable[..., Any]:
    """Return a kernel that falls back to NumPy if a Python integer does not fit into 64 bits."""
    if not may_overflow(kernel, function):
        return native

    @wraps(native)
    def run(*arguments: Any) -> Any:
        try:
            return native(*arguments)
        except OverflowError:
            return repeat.again(*arguments)

    return run


def lowered(kernels: Sequence[Kernel]) -> list[Function]:
    """Return the statements of kernels."""
    has_blas = blas.found() is not None
    named = [(f"kernel_{k}", kernel) for k, kernel in enumerate(kernels, start=1)]
    graphs = [without_messages(kernel.graph) for kernel in kernels]
    found = (
        lower(graph, name, called, kernel.sizes, taken(name, kernel.sizes), has_blas, vectorises)
        for graph, (name, kernel) in zip(graphs, named, strict=True)
    )
    return [with_shared_memory(with_parallel_loops(function)) for function in found]


def taken(name: str, sizes: Iterable[str]) -> set[str]:
    """Return the reserved names of a function: those of its C functions, and of its sizes."""
    return parts_of(name) | {*map(c_word, sizes)}


def parts_of(name: str) -> set[str]:
    """Return the names of the C functions that are printed for one function."""
    return {f"{name}{part}" for part in ("", "_workspace", "_near", "_far")}


def called(graph: Graph, node: Node) -> str | None:
    """Return the user's name of a value, if it is a name in C."""
    name = graph.names.get(node)
    if isinstance(name, tuple):
        pattern, of = name
        inner = graph.names.get(of)
        name = pattern.format(inner) if isinstance(inner, str) else None
    if name is None or not name.isascii() or not name.isidentifier() or name.startswith("_"):
        return None
    return c_word(name)
