"""What is not a NumPy function: marks that transforms put on values."""

from symgrad.ops.define import operator


ALIAS = operator(
    lambda x, tag: x,
    name="alias",
    infer=lambda x, tag: x,
    vjp=lambda g, y, x, tag: (g,),
    linear=True,
    spell=lambda node, x: x,
)
"""A value under another identity: what a nested transform differentiates by, apart from other uses of the value."""

STOP = operator(
    lambda x: x,
    name="stop_gradient",
    infer=lambda x: x,
    vjp=lambda g, y, x: (None,),
    spell=lambda node, x: x,
)
