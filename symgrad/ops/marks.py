"""What is not a NumPy function: marks that transforms put on values."""

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, INPUT, SEED, SIZE
from symgrad.ops.define import operator

ALIAS = operator(
    lambda x, tag, hook=None: x,
    name="alias",
    infer=lambda x, tag, hook=None: x,
    vjp=lambda g, y, x, tag, hook: (g,),  # where there is a hook the pullback asks it
    batch=lambda batched, x, tag, hook: ALIAS(x, tag=tag, hook=hook.over_rows(x.ndim - 1)) if hook else NotImplemented,
    flow=aligned,
    linear=True,
    view=True,
    write_back=lambda x, content, tag: content,
    spell=lambda node, x: x,
    scalar=lambda node, x: x,
)
"""A value under another identity: what a nested transform differentiates by, apart from other uses of the value.

`hook` is called with the cotangent that arrives, and gives what flows on in its place.
"""

STOP = operator(
    lambda x: x,
    name="stop_gradient",
    infer=lambda x: x,
    vjp=lambda g, y, x: (None,),
    spell=lambda node, x: x,
    flow=aligned,
    scalar=lambda node, x: x,
)


# ---- checkpoints: what a segment of the program computes lies between the marks of its inputs and of its results


class Segment:
    """One call of a checkpointed function or, `again`, what a pullback makes of one. Identity is equality."""

    def __init__(self, name, again=False):
        self.name, self.again = name, again

    def __repr__(self):
        return f"<Segment {self.name}{' again' * self.again}>"


def _boundary(name):
    mark = operator(
        lambda x, segment: x,
        name=name,
        infer=lambda x, segment: x,
        vjp=lambda g, y, x, segment: (g,),
        flow=aligned,
        linear=True,
        view=True,
        write_back=lambda x, content, segment: content,
        spell=lambda node, x: x,
        scalar=lambda node, x: x,
    )
    return mark


ENTER = _boundary("enter")
"""A value from outside of a segment, as the segment reads it."""

LEAVE = _boundary("leave")
"""A value that a segment computes, as the outside reads it: the pullback computes the segment again when it arrives."""

AGAIN = _boundary("again")
"""ENTER of a segment that computes again: no rule sees through it, so that nothing made of it is taken for the same."""

BOUNDARIES = (ENTER, LEAVE, AGAIN)


def entered(graph, x, segment, op=ENTER):
    """The node `x` as a segment reads it; what is made of nothing but constants needs no mark."""
    if x.op not in (INPUT, SEED) and all(y.op in (CONSTANT, SIZE) for y in x.inputs):
        return x
    return graph.add(op, (x,), (("segment", segment),), x.where)


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


def hooked(x, hook):
    """`x` under an identity of its own, of which a function replaces the cotangent."""
    return ALIAS(x, tag=len(x.graph.nodes), hook=hook)
