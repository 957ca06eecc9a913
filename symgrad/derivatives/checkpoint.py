"""Checkpoints: functions whose intermediate values are rematerialised in the pullback instead of stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from symgrad.core import tree
from symgrad.core.graph import Graph, depends
from symgrad.core.provenance import assigned_name
from symgrad.core.region import Mark, cut, mark
from symgrad.derivatives.rematerialise import as_checkpoint
from symgrad.frontend.arguments import signature
from symgrad.frontend.conversion.runtime import called
from symgrad.frontend.trace import graph_at_hand
from symgrad.frontend.variable import Variable, lift

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """Return the same function, whose intermediate values are rematerialised in the pullback instead of stored.

    A derivative in reverse needs values that the function computed on the way. Of a checkpointed function only what it
    reads from outside is kept; when the cotangent of its result arrives, it runs again. In a chain of `n` steps alike,
    checkpoints around every ``sqrt(n)`` of them lower the memory from `n` to about ``2 * sqrt(n)`` steps, for the price
    of running each step twice. Where nothing is differentiated in reverse, nothing is computed twice.

    Parameters
    ----------
    f : callable
        Written in NumPy, to be called in a function that is differentiated. Arguments and results are trees; Variables
        that it reads from outside are inputs too. Checkpoints may stand within each other.

    Returns
    -------
    callable
        Takes and gives what `f` does. Called with arrays, outside of a trace, it is `f`.

    Raises
    ------
    ArgumentError
        If `f` is not a function.

    Notes
    -----
    Simplification does not look across the boundary before differentiating: of ``np.log(checkpoint(softmax)(x))`` the
    derivative has no stable form, of ``checkpoint(logsoftmax)(x)`` it has.

    References
    ----------
    Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 12.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> @sg.checkpoint
    ... def block(h, weights):
    ...     for W in weights:
    ...         h = np.tanh(h @ W)
    ...     return h
    >>> def loss(blocks, x):
    ...     for weights in blocks:
    ...         x = block(x, weights)
    ...     return np.sum(x**2)
    >>> blocks, x = [[np.eye(2)] * 3] * 3, np.ones((1, 2))
    >>> [g.shape for g in sg.grad(loss)(blocks, x)[0]]
    [(2, 2), (2, 2), (2, 2)]
    """
    signature(f)

    @wraps(f, updated=())
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        graph = graph_at_hand((args, kwargs))
        if graph is None:
            return f(*args, **kwargs)
        since = mark(graph)
        leaves, structure = tree.flatten(called(f)(*args, **kwargs))
        _cut_out(graph, [x for x in leaves if isinstance(x, Variable)], since)
        return tree.unflatten(structure, leaves)

    return checkpointed


def _cut_out(graph: Graph, results: Sequence[Variable], since: Mark) -> None:
    """Cut the results computed since `since` into a checkpoint, and replace them."""
    region = cut(graph, [lift(graph, y) for y in results], since)
    computed = depends(region.nodes, region.parameters).difference(region.parameters)
    made = tuple(dict.fromkeys(y for y in region.results if y in computed))
    region = region if made == region.results else cut(graph, made, since)
    items = dict(zip(made, as_checkpoint(graph, region), strict=True))
    name = assigned_name() if graph.provenance is None else None
    for y in results:
        item = items.get(y.node)
        if item is not None:
            y.restate(item.node)
            if name is not None:
                graph.label(item.node, name)
