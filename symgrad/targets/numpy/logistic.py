"""Logistic functions by exponentials: softplus and its slopes by one, where several are needed for one value.

With ``w = exp(min(x, C))``, where C is about the largest number with a finite exponential, softplus(x) is
``max(log1p(w), x)`` and sigmoid(x) is ``w / (1 + w)``: beyond C log1p(w) is less than x, and below it is not. What they
give for infinities and NaNs is right. sigmoid(-x) stays ``1 / (1 + exp(x))``, which must get zero: where that is wanted
exp(x) is cut instead of x.

This looks at all of a graph, since what is best for the first of them depends on which others come later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.values import number
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.elementwise import DIFFERENCE, LOGADDEXP, LOGISTIC, NEGATIVE, difference
from symgrad.rewrite.complements import Member, families_of
from symgrad.rewrite.engine import Made, copied, in_bodies
from symgrad.rewrite.rules import rule

MANY, VERY_MANY = 500, 8192
"""Numbers from which on more calls are fewer nanoseconds, and from which on `clip` is faster than `minimum`."""

HIGHEST = {4: (88.0, 1e38), 8: (709.0, 1e308)}
"""By the bytes of the dtype: about the largest number with a finite exponential, and about the largest number."""


@in_bodies
def share_exponentials(graph: Graph, numerics: str = "stable") -> Graph:
    """Softplus, and what is related to it, in functions with loops for vectors."""
    return _shared(graph, numerics, MANY)


@in_bodies
def share_in_kernels(graph: Graph, numerics: str = "stable") -> Graph:
    """Softplus, and what is related to it, by one exponential for each argument, where an operation is no call."""
    return _shared(graph, numerics, 1)


def _shared(graph: Graph, numerics: str, least: int) -> Graph:
    """Write families of at least so many numbers by one exponential each."""
    instead: dict[Node, Made] = {}
    for family in families_of(graph, partial(_argument, least=least)):
        instead |= _replacements(family, numerics == "stable")
    return copied(graph, instead) if instead else graph


def _replacements(family: list[Member], stable: bool) -> dict[Node, Made]:
    """Return replacements that share one exponential, and for softplus of both signs one logarithm."""
    first = family[0]
    values = [m for m in family if m.node.op is LOGADDEXP]
    slopes = [m for m in family if m.node.op is LOGISTIC]
    clips = first.x.aval.dtype.itemsize in HIGHEST
    by_absolute = not clips or len({m.sign for m in values}) > 1
    sign = -first.sign if first.x.op is NEGATIVE else first.sign
    if values and not by_absolute:
        sign = values[0].sign
    negative = any(m.sign != sign for m in slopes)
    exp = _exp_cut_late if negative else _exp_cut
    form = _softplus_by_absolute if by_absolute else partial(_softplus, exp=exp)
    found = {m.node: _made(form, m, first, sign) for m in values}
    if stable and clips and ((values and not by_absolute) or len({m.sign for m in slopes}) > 1):
        found |= {m.node: _made(partial(_logistic, exp=exp), m, first, sign) for m in slopes}
    return found


def _made(form: Callable[..., Variable], m: Member, first: Member, sign: int) -> Made:
    """A member by the first of its family: what others are written with may come later."""

    def make(new: Graph, image: Mapping[Node, Node]) -> Variable:
        x = Variable(new, image[first.x])
        return form(x if sign == first.sign else -x, m.sign == sign)

    return make


# ---- how they are written, of x or of its negative


def _at_most(x: Variable, most: float) -> Variable:
    return np.clip(x, -np.inf, most) if numbers(x.shape) >= VERY_MANY else np.minimum(x, most)


def _exp_cut(x: Variable) -> Variable:
    return np.exp(_at_most(x, HIGHEST[x.dtype.itemsize][0]))


def _exp_cut_late(x: Variable) -> Variable:
    return _at_most(np.exp(x), HIGHEST[x.dtype.itemsize][1])


def _softplus(x: Variable, same: bool, exp: Callable[[Variable], Variable]) -> Variable:
    """All that are written so are of one sign."""
    return np.maximum(np.log1p(exp(x)), x)


def _softplus_by_absolute(x: Variable, same: bool) -> Variable:
    many = numbers(x.shape) >= VERY_MANY
    tail = np.log1p(np.exp(-np.abs(x)))
    if same:
        return (np.clip(x, 0, np.inf) if many else np.maximum(x, 0)) + tail
    return tail - (np.clip(x, -np.inf, 0) if many else np.minimum(x, 0))


def _logistic(x: Variable, same: bool, exp: Callable[[Variable], Any]) -> Variable:
    if not same:
        return 1 / (1 + np.exp(x))
    w = exp(x)
    return w / (1 + w)


def _argument(node: Node, least: int) -> Node | None:
    """Return the argument of a logistic function or of softplus, if it has at least so many floating numbers."""
    if node.op is LOGISTIC:
        found = list(node.inputs)
    elif node.op is LOGADDEXP:
        found = [x for zero, x in (node.inputs, node.inputs[::-1]) if number(zero) == 0]
    else:
        return None
    return next((x for x in found if x.aval.dtype.kind == "f" and numbers(x.aval.shape) >= least), None)


# ---- what shares nothing


@rule
def logistic_by_exponential(x: Variable) -> tuple[Variable, Variable]:
    return LOGISTIC(x), 1 / (1 + np.exp(-x))


@rule(when=lambda x, y: x.dtype.kind == y.dtype.kind == "f")  # np.where makes integers of booleans and 0
def difference_by_choices(x: Variable, y: Variable) -> tuple[Variable, Variable]:
    return DIFFERENCE(x, y), difference(x, y)
