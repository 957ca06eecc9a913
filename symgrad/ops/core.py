"""What is not a NumPy function: marks that transforms put on values."""

from symgrad.flow import aligned
from symgrad.ops.define import operator

ALIAS = operator(
    lambda x, tag: x,
    name="alias",
    infer=lambda x, tag: x,
    vjp=lambda g, y, x, tag: (g,),
    batch=lambda batched, x, tag: ALIAS(x, tag=tag),
    flow=aligned,
    linear=True,
    view=True,
    spell=lambda node, x: x,
    scalar=lambda node, x: x,
)
"""A value under another identity: what a nested transform differentiates by, apart from other uses of the value."""

STOP = operator(
    lambda x: x,
    name="stop_gradient",
    infer=lambda x: x,
    vjp=lambda g, y, x: (None,),
    batch=lambda batched, x: STOP(x),
    spell=lambda node, x: x,
    flow=aligned,
    scalar=lambda node, x: x,
)


def marked(x, lock=""):
    """`x` under an identity of its own, with the reason why it cannot be written into."""
    graph = x.graph
    before, graph.provenance = graph.provenance, x.node.where  # it is not the running line that makes it
    try:
        result = ALIAS(x, tag=len(graph.nodes))
    finally:
        graph.provenance = before
    result._lock = x._lock or lock
    return result


def named(x, name):
    """`x` under an identity of its own that has a name."""
    result = ALIAS(x, tag=len(x.graph.nodes))
    result.graph.names[result.node] = name
    return result
