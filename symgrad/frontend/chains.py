"""Chains of checks: the order of checks in a program and in each of its bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.core.graph import TOKEN, Chain, Graph, Node
from symgrad.errors import UnsupportedError
from symgrad.ops.checks import START


def token(graph: Graph) -> Node:
    """Return the token of the last check; before the first one the body's parameter, or the program's start."""
    chain = graph.chain
    if chain.last is None:
        first = chain.first or (graph.seed(TOKEN) if chain.in_body else graph.add(START))
        chain = graph.chain = chain._replace(first=first, last=first)
    assert chain.last is not None
    return chain.last


def go_on_from(graph: Graph, last: Node) -> None:
    """Order the next check after this token."""
    token(graph)
    graph.chain = graph.chain._replace(last=last)


@contextmanager
def own_chain(graph: Graph, first: Node | None = None) -> Iterator[None]:
    """Trace a body with a chain of its own, which is given the token `first` if that is there already.

    Who makes a node of the body takes its checks by `taken`: they may not be lost.
    """
    before, graph.chain = graph.chain, Chain(first, None, True)
    try:
        yield
        if graph.chain.last is not None:
            raise UnsupportedError(
                "a function with its own derivative rule raises, warns or prints depending on traced values",
                "Do so before or after that function, or leave it out: checks=False.",
            )
    finally:
        graph.chain = before


def taken(graph: Graph) -> Chain:
    """Return the checks of the body that is being traced, and leave them to its node."""
    chain = graph.chain
    graph.chain = Chain(chain.first, None, chain.in_body)
    return chain
