"""Recompute instead of store: functions whose inner values are not kept for the derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from symgrad.core import tree
from symgrad.core.graph import Graph, Node
from symgrad.frontend.arguments import signature
from symgrad.frontend.trace import graph_at_hand
from symgrad.frontend.variable import Variable
from symgrad.ops.marks import LEAVE, Segment, entered


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose inner values are not kept for the derivative, but computed again.

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
    name = getattr(f, "__name__", "function")
    signature(f)

    @wraps(f, updated=())
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        graph = graph_at_hand((args, kwargs))
        if graph is None:
            return f(*args, **kwargs)
        segment = Segment(name)
        with _inside(graph, segment):
            leaves, structure = tree.flatten(f(*args, **kwargs))
            leaves = [_left(y, segment) for y in leaves]  # in this frame, from which the user's names are looked for
        return tree.unflatten(structure, leaves)

    return checkpointed


@contextmanager
def _inside(graph: Graph, segment: Segment) -> Iterator[None]:
    """What is added to the graph belongs to the segment, and reads values from outside through a mark."""
    outer, start = graph.entry, len(graph.nodes)

    def entry(x: Node) -> Node:
        if x.id >= start:
            return x
        graph.entry = outer  # the mark belongs to the segment that this one stands in
        try:
            return entered(graph, x, segment)
        finally:
            graph.entry = entry

    graph.entry = entry
    try:
        yield
    finally:
        graph.entry = outer


def _left(y: Any, segment: Segment) -> Any:
    """A result as the outside sees it."""
    if not isinstance(y, Variable):
        return y
    result = LEAVE(y, segment=segment)
    result._array = y._array
    return result
