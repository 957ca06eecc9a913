"""What is not a NumPy function: marks that transforms put on values."""

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
"""A value under another identity: what a nested transform differentiates by, apart from other uses of the value.

`hook` is called with the cotangent that arrives, and gives what flows on in its place.
"""


def identity(node):
    """What a node keeps when it is rewritten: of an alias its tag, which no other value has."""
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
    """`x` under an identity of its own, with the reason why it cannot be written into."""
    graph = x.graph
    with graph.located(x.node.where):  # it is not the running line that makes it
        result = ALIAS(x, tag=len(graph.nodes))
    result.locked = x.locked or lock
    return result


def named(x, name):
    """`x` under an identity of its own that has a name."""
    result = ALIAS(x, tag=len(x.graph.nodes))
    result.graph.names[result.node] = name
    return result


def hooked(x, hook):
    """`x` under an identity of its own, of which a function replaces the cotangent."""
    return ALIAS(x, tag=len(x.graph.nodes), hook=hook)
