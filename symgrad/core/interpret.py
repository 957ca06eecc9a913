"""Evaluate a graph node by node: slow, simple, and what the tests compare generated code with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import INPUT, SIZE, Aval, Node, needed
from symgrad.core.region import Region
from symgrad.core.sizes import Dim, Rows, evaluate as number_of
from symgrad.errors import GraphError


def interpret(outputs: Sequence[Node], feeds: Mapping[Node, Any], rows: Mapping[str, int] | None = None) -> list[Any]:
    """The values of `outputs` given those of the nodes in `feeds`, where the graph is cut.

    In the body of a loop `rows` are the lengths of the block by their names.
    """
    values = values_of(outputs, feeds, rows)
    return [values[y] for y in outputs]


def values_of(
    outputs: Sequence[Node], feeds: Mapping[Node, Any], rows: Mapping[str, int] | None = None
) -> dict[Node, Any]:
    """The same, with the value of each node on the way."""
    sizes = dict(rows or {})
    for node, value in feeds.items():
        sizes |= _symbols_in(node.aval, value)
    values = dict(feeds)
    for node in needed(outputs, feeds):
        values[node] = evaluate(node, values, sizes)
        if type(node.aval) is not Aval:  # of a loop only running tells how many turns it has
            for aval, value in zip(node.aval, values[node], strict=True):
                sizes |= _symbols_in(aval, value)
    return values


def _symbols_in(aval: Aval, value: Any) -> dict[str, int]:
    """The symbols that are sizes of a value, and what they are."""
    pairs = zip(aval.shape, np.shape(value) if type(value) is not list else (len(value),), strict=False)
    return {size.expr.name: number for size, number in pairs if isinstance(size, Dim) and size.expr.is_Symbol}


def evaluate(node: Node, values: Mapping[Node, Any], sizes: Mapping[str, int]) -> Any:
    """The value of a node, given those of its inputs and the numbers of symbolic sizes."""
    if node.op is INPUT:
        raise GraphError(
            f"the input {dict(node.params)['name']!r} is needed but not fed",
            "Give a value for each input that the outputs depend on.",
            where=node.where,
        )
    if node.op is SIZE:
        return at_sizes(dict(node.params)["value"], sizes)
    params = {key: at_sizes(value, sizes) for key, value in node.params if key != "turns"}  # which running tells
    result = node.op.evaluate(*[values[x] for x in node.inputs], **params)
    if isinstance(node.aval, Aval) and node.aval.weak:
        return result.item() if isinstance(result, (np.generic, np.ndarray)) else result
    return result


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """A parameter with numbers for its symbols; of a region a function of its inputs."""
    if isinstance(value, Dim):
        return number_of(value, sizes)
    if isinstance(value, Rows):
        return sizes[str(value)]
    if type(value) is Region:
        return RegionAt(value, sizes)
    if isinstance(value, tuple) and not isinstance(value, Aval):
        items = [at_sizes(item, sizes) for item in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)
    return value


class RegionAt(NamedTuple):
    """A region as a function of arrays, for numbers for the symbols in it."""

    region: Region
    sizes: Mapping[str, int]

    def at(self, sizes: Mapping[str, int]) -> RegionAt:
        """It for numbers for further symbols."""
        return self._replace(sizes={**self.sizes, **sizes})

    def __call__(self, *xs: Any) -> list[Any]:
        return interpret(self.region.results, dict(zip(self.region.parameters, xs, strict=True)), self.sizes)


def like(x: Any, array: np.ndarray) -> Any:
    """Numbers in the dtype of `x`: an array for an array, and for a number one of its type."""
    return np.asarray(array, x.dtype) if isinstance(x, np.ndarray) else type(x)(array[()])
