"""np.apply_along_axis and np.vectorize: the user's function of one row, batched over all rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.shapes import broadcast_shapes
from symgrad.derivatives.batch import batch
from symgrad.errors import ArgumentError, ShapeError
from symgrad.frontend.chains import go_on_from
from symgrad.frontend.conversion.runtime import called
from symgrad.frontend.variable import Variable
from symgrad.ops.arguments import axis_index
from symgrad.ops.define import implements, implements_at
from symgrad.ops.operands import ARRAYS, as_input, is_traced

_LOCK = "it is one row of many: the function is traced once for all of them"


def mapped(function: Callable[..., Any], arrays: Sequence[Variable], ends: Sequence[int]) -> list[Variable]:
    """Return the results of `function` for each row of arrays of one graph, whose leading axes agree.

    The function is traced once on one row of each array and returns a list of Variables and arrays. `ends` has 0 or -1
    for each mapped axis: it is the first or the last one of the remaining array, and of the results.
    """
    graph = arrays[0].graph
    seeds = [[x.node for x in arrays]]
    for end in ends:
        seeds.append([graph.seed(_row(x.aval, end)) for x in seeds[-1]])
    results = [as_array(graph, y) for y in function(*[Variable(graph, row, _LOCK) for row in seeds[-1]])]
    last = graph.chain.last
    results += [] if last is None else [last]
    for rows, images, end in zip(seeds[:0:-1], seeds[-2::-1], ends[::-1], strict=True):
        results = batch(graph, results, dict(zip(rows, images, strict=True)), dict.fromkeys(rows, end), to=end)
    if last is not None:
        go_on_from(graph, results.pop())
    return [Variable(graph, y) for y in results]


def _row(aval: Aval, end: int) -> Aval:
    return Aval(aval.shape[1:] if end == 0 else aval.shape[:-1], aval.dtype)


def as_array(graph: Graph, y: Any) -> Node:
    """Return the result of a function for one row as an array or a NumPy number."""
    y = y if is_traced(y) else np.asarray(y, like=Variable(graph, graph.constant(0.0)))
    return y.node if not y.aval.weak else y.astype(y.dtype).node


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    arr = as_input(arr)
    arr = arr if is_traced(arr) else np.array(arr, like=next(filter(is_traced, (*args, *kwargs.values()))))
    axis = axis_index("apply_along_axis", axis, arr.ndim)
    one = called(func1d)
    ends = [0] * axis + [-1] * (arr.ndim - axis - 1)
    (y,) = mapped(lambda row: [one(row, *args, **kwargs)], [arr], ends)
    return y


# ---- np.vectorize


@implements_at(np.vectorize, "__call__")
def vectorized(of: np.vectorize, *args: Any, **kwargs: Any) -> Any:
    """Call an instance of np.vectorize where an argument is traced."""
    given: dict[Any, Any] = {**{i: x for i, x in enumerate(args)}, **kwargs}
    given = {key: _number_of_python(x) if key not in of.excluded else x for key, x in given.items()}
    lifted = {key: as_input(x) for key, x in given.items() if key not in of.excluded and _varies(x, of.signature)}
    cores = _core_axes(of.signature, len(lifted))
    like = next(x for x in lifted.values() if is_traced(x))
    shape = broadcast_shapes(*[_places(x, core) for x, core in zip(lifted.values(), cores, strict=True)])
    arrays = [
        np.broadcast_to(np.array(x, like=like), (*shape, *np.shape(x)[np.ndim(x) - core :]))
        for x, core in zip(lifted.values(), cores, strict=True)
    ]

    def one(*rows: Variable) -> list[Any]:
        whole = {**given, **dict(zip(lifted, rows, strict=True))}
        y = called(of.pyfunc)(*[x for key, x in whole.items() if isinstance(key, int)], **_named(whole))
        several.append(isinstance(y, tuple))
        return list(y) if isinstance(y, tuple) else [y]

    several: list[bool] = []
    results = mapped(one, arrays, [0] * len(shape))
    if of.otypes:
        results = [y.astype(dtype) for y, dtype in zip(results, of.otypes, strict=True)]
    return tuple(results) if several[0] else results[0]


def _number_of_python(x: Any) -> Any:
    """Return the object of Python in an array of no axes, which np.vectorize passes on; any other value as it is."""
    return x if is_traced(x) or not isinstance(x, ARRAYS) or x.ndim else x.item()


def _varies(x: Any, signature: str | None) -> bool:
    """Whether an argument may differ from place to place; one that cannot keeps its value for branches and texts."""
    return signature is not None or is_traced(x) or np.ndim(x) > 0


def _named(given: dict[Any, Any]) -> dict[str, Any]:
    return {key: x for key, x in given.items() if isinstance(key, str)}


def _core_axes(signature: str | None, count: int) -> list[int]:
    """Return the number of core axes of each argument."""
    if signature is None:
        return [0] * count
    cores = [len(names.split(",")) if names else 0 for names in re.findall(r"\(([^)]*)\)", signature.split("->")[0])]
    if len(cores) != count:
        raise ArgumentError(
            f"np.vectorize: the signature {signature!r} has {len(cores)} arguments, not {count}",
            "Name the core dimensions of each argument: signature='(n),(n)->()'.",
        )
    return cores


def _places(x: Any, core: int) -> tuple[Any, ...]:
    if np.ndim(x) < core:
        raise ShapeError(
            f"np.vectorize: an argument of {np.ndim(x)} dimensions, and its signature has {core}",
            "Give an array that has them, x[None] has one more.",
        )
    return tuple(np.shape(x)[: np.ndim(x) - core])
