"""The interpreter: evaluate a graph node by node. Slow and simple; the tests compare generated code with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.counted_sizes import by_sizes, tellers
from symgrad.core.graph import INPUT, SIZE, Aval, Node, needed
from symgrad.core.region import Region
from symgrad.core.sizes import Dim, Rows, evaluate as number_of
from symgrad.core.undo import setting
from symgrad.errors import GraphError

Watch = Callable[[Node], None]
"""A function called before the evaluation of each node, also in bodies of loops and branches."""

Change = Callable[[Node, Any, Sequence[Any]], Any]
"""A function of a node, of what it evaluates to, and of the values of its inputs: what counts as its value."""

Watcher = Callable[[Node, Sequence[Any], Mapping[str, Any], Any], Any]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watched(watcher: Watcher) -> AbstractContextManager[None]:
    """Call ``watcher(node, inputs, params, value)`` after each evaluation, in bodies as well; it gives the value."""
    return setting(_watcher, watcher)


def interpret(outputs: Sequence[Node], feeds: Mapping[Node, Any], rows: Mapping[str, int] | None = None) -> list[Any]:
    """Return the values of `outputs`, given those of the nodes in `feeds`, where the graph is cut.

    In the body of a loop `rows` are the lengths of the block by their names.
    """
    values = values_of(outputs, feeds, rows)
    return [values[y] for y in outputs]


def values_of(
    outputs: Sequence[Node],
    feeds: Mapping[Node, Any],
    rows: Mapping[str, int] | None = None,
    watch: Watch | None = None,
    nodes: Sequence[Node] | None = None,
    change: Change | None = None,
) -> dict[Node, Any]:
    """Return the value of each node for `outputs`; `nodes` are those to evaluate, if they are known.

    Nodes in bodies of loops and branches are evaluated without `change`.
    """
    sizes = dict(rows or {})
    for node, value in feeds.items():
        sizes |= symbols_in(node.aval, value)
    values = dict(feeds)
    nodes = needed(outputs, feeds) if nodes is None else nodes
    lengths = {x: symbol for symbol, x in tellers(nodes).items() if type(x.aval) is Aval}
    for node in by_sizes(nodes):
        value = evaluate(node, values, sizes, watch)
        values[node] = value if change is None else change(node, value, [values[x] for x in node.inputs])
        if node in lengths:
            sizes[lengths[node]] = max(int(values[node]), 0)
        if type(node.aval) is not Aval:  # of a loop only running tells how many iterations it has
            for aval, value in zip(node.aval, values[node], strict=True):
                sizes |= symbols_in(aval, value)
    return values


def symbols_in(aval: Aval, value: Any) -> dict[str, int]:
    """Return the symbols that are sizes of a value, and their numbers."""
    if not any(isinstance(size, Dim) for size in aval.shape):
        return {}
    pairs = zip(aval.shape, np.shape(value) if type(value) is not list else (len(value),), strict=False)
    return {name: number for size, number in pairs if isinstance(size, Dim) and (name := _symbol(size)) is not None}


def _symbol(size: Dim) -> str | None:
    """Return the symbol that a size is, None of others; SymPy is not needed for that of a loop."""
    if size.multiple is not None:
        return size.multiple.symbol if size.multiple.number == 1 else None
    return size.expr.name if size.expr.is_Symbol else None


def evaluate(node: Node, values: Mapping[Node, Any], sizes: Mapping[str, int], watch: Watch | None = None) -> Any:
    """Return the value of a node, given those of its inputs and the numbers of symbolic sizes."""
    if watch is not None:
        watch(node)
    if node.op is INPUT:
        raise GraphError(
            f"the input {dict(node.params)['name']!r} is needed but not fed",
            "Give a value for each input that the outputs depend on.",
            where=node.where,
        )
    if node.op is SIZE:
        return at_sizes(dict(node.params)["value"], sizes)
    params = {key: at_sizes(value, sizes, watch) for key, value in node.params if key != "turns"}  # which running tells
    inputs = [values[x] for x in node.inputs]
    result = _applied(node, inputs, params)
    watcher = _watcher.get()
    if watcher is not None:
        result = watcher(node, inputs, params, result)
    if isinstance(node.aval, Aval) and node.aval.weak:
        return result.item() if isinstance(result, (np.generic, np.ndarray)) else result
    return result


def _applied(node: Node, inputs: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Apply the operator of a node: to Python's integers as Python does, whose integers do not wrap around."""
    if node.op.keeps_weak and node.op.elementwise and all(type(x) is int for x in inputs):
        try:
            return node.op.evaluate(*[np.array(x, object) for x in inputs], **params)
        except (ArithmeticError, TypeError, ValueError):  # of which NumPy makes a number, or an error of its own
            pass
    return node.op.evaluate(*inputs, **params)


def at_sizes(value: Any, sizes: Mapping[str, int], watch: Watch | None = None) -> Any:
    """A parameter with numbers for its symbols; of a region a function of its inputs."""
    if isinstance(value, Dim):
        return number_of(value, sizes)
    if isinstance(value, Rows):
        return sizes[str(value)]
    if type(value) is Region:
        return RegionAt(value, sizes, watch)
    if isinstance(value, tuple) and not isinstance(value, Aval):
        items = [at_sizes(item, sizes, watch) for item in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    return value


class RegionAt(NamedTuple):
    """A region as a function of arrays, for numbers for the symbols in it."""

    region: Region
    sizes: Mapping[str, int]
    watch: Watch | None = None

    def at(self, sizes: Mapping[str, int]) -> RegionAt:
        """Return the region with numbers for further symbols."""
        return self._replace(sizes={**self.sizes, **sizes})

    def __call__(self, *xs: Any) -> list[Any]:
        region, feeds = self.region, dict(zip(self.region.parameters, xs, strict=True))
        values = values_of(region.results, feeds, self.sizes, self.watch, region.nodes)
        return [values[y] for y in region.results]


def like(x: Any, array: np.ndarray) -> Any:
    """Numbers in the dtype of `x`: an array for an array, and for a number one of its type."""
    return np.asarray(array, x.dtype) if isinstance(x, np.ndarray) else type(x)(array[()])
