"""Marks that transforms put on values. None is a NumPy function."""

from symgrad.core.axes import aligned
from symgrad.ops.define import operator

ALIAS = operator(
    lambda x, tag, hook=None: x,
    name="alias",
    infer=lambda x, tag, hook=None: x,
    vjp=lambda g, y, x, tag, hook: (g,),  # where there is a hook the pullback asks it
    batch=lambda batched, x, tag, hook: ALIAS(x, tag=tag, hook=hook.over_rows(x.ndim - 1)) if hook else NotImplemented,
    signature=aligned,
    linear=True,
    view=True,
    write_back=lambda x, content, tag: content,
    spell=lambda node, x: x,
    scalar=lambda node, x: x,
)
"""A value under another identity: the variable of a nested transform, apart from other uses of the value.

`hook` is called with the cotangent that arrives, and gives what flows on in its place.
"""


def identity(node):
    """Return the part of a node that survives rewriting: the tag of an alias, unique to it."""
    return node.params if node.op is ALIAS else node


STOP = operator(
    lambda x: x,
    name="stop_gradient",
    infer=lambda x: x,
    vjp=lambda g, y, x: (None,),
    spell=lambda node, x: x,
    signature=aligned,
    scalar=lambda node, x: x,
)


def marked(x, lock=""):
    """Return `x` under an identity of its own, with the reason why it cannot be written into."""
    graph = x.graph
    with graph.located(x.node.where):  # it is not the running line that makes it
        result = ALIAS(x, tag=len(graph.nodes))
    result.locked = x.locked or lock
    return result


def named(x, name):
    """Return `x` under an identity of its own that has a name."""
    result = ALIAS(x, tag=len(x.graph.nodes))
    result.graph.names[result.node] = name
    return result


def hooked(x, hook):
    """Return `x` under an identity of its own whose cotangent a function replaces."""
    return ALIAS(x, tag=len(x.graph.nodes), hook=hook)
