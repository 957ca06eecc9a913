"""Functions with a derivative of their own: what they compute, as a region, and the rule that differentiates it."""

from symgrad.core.region import result_avals
from symgrad.ops.define import Unknown, operator


def _vjp(gs, ys, *xs, region, rule):
    outside = Unknown("a value that it reads from outside", "Pass that value to it as an argument.", rule.name)
    return (*rule.cotangents(xs[: rule.count], ys, gs), *[outside] * (len(xs) - rule.count))


CUSTOM = operator(
    lambda *xs, region, rule: tuple(region(*xs)),
    name="custom",
    infer=lambda *xs, region, rule: result_avals(region, xs),
    vjp=_vjp,
    bind=lambda *xs, region, rule: (xs, {"region": region, "rule": rule}),
    singular=True,  # what a rule gives is not known
)
"""A function with its own derivative rule. The inputs of its region are its arguments, then the values it closes over.

`rule` gives the derivative with respect to the arguments, see `derivatives.rules`.
"""
