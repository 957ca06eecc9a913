"""Forms that run faster and read worse: for the highest level of optimisation, after everything else.

Times are those of NumPy 2.4 with AVX-512 for 32768 numbers of float64. A form of more calls pays for many numbers only.
"""

import math
import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.analysis.overflow import NEAR_ONE, has_range, moderate
from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.core.shapes import is_one, same_shape
from symgrad.core.sizes import Size
from symgrad.frontend.variable import Variable
from symgrad.ops.create import ARANGE
from symgrad.ops.elementwise import DIVIDE, POSITIVE, POWER
from symgrad.ops.join import CONCATENATE, STACK
from symgrad.ops.norm import NORM
from symgrad.rewrite.conditions import BOOLEAN, floating
from symgrad.rewrite.engine import known
from symgrad.rewrite.pattern import Draw
from symgrad.rewrite.rules import procedure, rule
from symgrad.rewrite.structure import without

# ---- what NumPy has a scalar loop for


@rule(x=Draw((), -40.0, 40.0), when=lambda x: floating(x) and x.ndim == 0)
def softplus_of_number(x):
    """Expand `logaddexp` by functions that `math` has too; for arrays see `logistic`."""
    return np.logaddexp(0, x), np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@rule(x=Draw((40, 40)), when=lambda x: floating(x) and numbers(x.shape) >= 1000)
def step_by_sign(x):
    """Replace `heaviside` by `sign`: 68 us become 27."""
    return np.heaviside(x, 0.5), 0.5 * np.sign(x) + 0.5


@rule(when=lambda x: floating(x) and x.ndim > 0)
def power_of_2(x):
    """Replace a power of two by `exp2`: 140 us become 23."""
    return 2**x, np.exp2(x)


# ---- what is cheaper for numbers


@rule(when=lambda x, a: floating(x) and x.ndim > 0 and abs(math.frexp(a)[0]) == 0.5 and 1e-30 < abs(a) < 1e30)
def over_power_of_two(x, a=4.0):
    """Replace a division by a power of two by a product: 12 us become 6. The inverse of another number is rounded."""
    return x / a, x * (1 / a)


def _mask(c):
    """Whether a condition is a boolean array: a scalar is better cast, `np.where` makes an array of it."""
    return c.dtype.kind == "b" and c.ndim > 0


@rule(c=BOOLEAN, when=_mask)
def untruth_by_cast(c):
    """Replace a choice between 0 and 1 by a negated mask, which is cast: 33 us become 3."""
    return np.where(c, 0, 1), ~c


def _exact_choice(c, a, b):
    if not _mask(c) or not all(isinstance(x, (float, np.floating, int)) for x in (a, b)) or a == 0:
        return False
    return bool(np.isfinite(a) and np.isfinite(b) and (a - b) + b == a)


@rule(c=BOOLEAN, when=_exact_choice)
def choice_by_product(c, a=0.5, b=1.5):
    """Replace a choice between two constants by a product with the mask: 33 us become 13, and 3 for one and zero.

    The slope of a maximum is such a choice, half where it is tied.
    """
    return np.where(c, a, b), (a - b) * c + b


def _less_than_one(x, a):
    return floating(x) and x.ndim > 0 and 0 < a <= 1


@rule(exact=True, when=_less_than_one)
def leaky(x, a=0.01):
    """Replace a leaky rectifier by a maximum: 30 us become 10."""
    return np.where(x > 0, x, a * x), np.maximum(x, a * x)


@rule(exact=True, when=_less_than_one)
def leaky_from_zero(x, a=0.01):
    return np.where(x >= 0, x, a * x), np.maximum(x, a * x)


# ---- fewer passes


def _of_one_size(x, y, **_):
    return floating(x) and floating(y) and x.ndim > 0 and same_shape(x.shape, y.shape)


@rule(exact=True, when=_of_one_size)
def product_with_negative(x, y):
    """Move a sign out of a product, where it may meet another one, or a sum."""
    return -x * y, -(x * y)


@rule(exact=True, when=_of_one_size)
def quotient_of_negative(x, y):
    return -x / y, -(x / y)


@rule(exact=True, alone=True, when=_of_one_size)
def negative_sum(x, y):
    """Move a sign out of a sum, where it may meet another one."""
    return -x - y, -(x + y)


def _near_one(x, y, a):
    return _of_one_size(x, y) and moderate(a, NEAR_ONE.get(x.dtype.itemsize, 1.0))


@rule(changes_nan=True, alone=True, when=_near_one)
def sum_with_multiple_of_product(x, y, a=0.3):
    return x + a * x * y, x * (1 + a * y)


@rule(changes_nan=True, alone=True, y=POSITIVE, when=_near_one)
def multiple_over(x, y, a=2.5):
    """Move a constant out of a quotient, where it may meet another one."""
    return (a * x) / y, a * (x / y)


@procedure(NORM)
def norm_of_rows(graph: Graph, node: Node) -> Variable | None:
    """Products without an array of squares, which take more the shorter the rows are: of 3 numbers 263 us to 38."""
    x, params = Variable(graph, node.inputs[0]), {**NORM.defaults, **dict(node.params)}
    if not isinstance(params["axis"], int) or params["axis"] % x.ndim != x.ndim - 1 or not floating(x):
        return None
    squares = np.vecdot(x, x)
    return np.sqrt(squares[..., None] if params["keepdims"] else squares)


@procedure(DIVIDE, changes_nan=True)
def over_known_reciprocal(graph: Graph, node: Node) -> Variable | None:
    """Replace a quotient by a product with a reciprocal that the graph has; the product may be there as well."""
    x, y = node.inputs
    if number(x) is not None or not _of_one_size(Variable(graph, x), Variable(graph, y)):
        return None
    found = (known(graph, DIVIDE, (graph.constant(one), y)) for one in (1, 1.0))
    reciprocal = next((each for each in found if each is not None), None)
    return None if reciprocal is None else Variable(graph, x) * Variable(graph, reciprocal)


# ---- powers

HIGHEST = 16
MANY = 64  # numbers from which on an array for each power pays


@procedure(POWER, changes_nan=True)
def power_by_products(graph: Graph, node: Node) -> Variable | None:
    """``x**5`` is three products, ``x**1.5`` one and a root: NumPy takes 1900 us where x is negative, and 87 else."""
    x, exponent = Variable(graph, node.inputs[0]), number(node.inputs[1])
    if exponent is None or not x.shape or not has_range(x.dtype) or x.dtype != node.aval.dtype:
        return None
    return _power(x, exponent) if exponent and _is_by_products(exponent) else None


@procedure(POWER, changes_nan=True)
def powers_by_products(graph: Graph, node: Node) -> Variable | None:
    """Compute the powers of a polynomial, whose exponents have an axis of their own, by products: 12 ns a number become
    2.

    It is one of two powers that are there for most, and the derivative needs no others. An array for each, one behind
    the other in memory, is written twice as fast as the columns of one.
    """
    (base, exponents), dtype = node.inputs, node.aval.dtype
    if exponents.op not in (CONSTANT, ARANGE) or base.aval.dtype.kind != "f" or not has_range(dtype):
        return None
    missing = (1,) * (node.aval.ndim - base.aval.ndim)
    axis = _own_axis((*missing, *base.aval.shape), exponents.aval.shape)
    if axis is None or numbers(base.aval.shape) < MANY:
        return None
    values = _numbers_of(exponents)
    if not values or not all(map(_is_by_products, values)):
        return None
    whole = Variable(graph, base)[(None,) * len(missing)] if missing else Variable(graph, base)
    x = Variable(graph, without(graph, whole.node, [axis])).astype(dtype)
    return np.moveaxis(np.stack([_power(x, each) for each in values]), 0, axis)


def _own_axis(base: tuple[Size, ...], exponents: tuple[Size, ...]) -> int | None:
    """The axis along which a few exponents lie, and nothing else does."""
    axes = [i for i, n in enumerate(exponents, len(base) - len(exponents)) if not is_one(n)]
    if len(axes) != 1 or not is_one(base[axes[0]]):
        return None
    n = exponents[axes[0] - len(base)]
    return axes[0] if isinstance(n, int) and 1 < n <= HIGHEST + 1 else None


def _numbers_of(x: Node) -> list[Any]:
    """Return the numbers of a constant, or of a range between known limits."""
    if x.op is CONSTANT:
        return list(x.constant.ravel().tolist())
    limits = [number(limit) for limit in x.inputs]
    return [] if None in limits else list(np.arange(*limits).tolist())


def _is_by_products(exponent: float) -> bool:
    """Whether it is a whole number or a half one, and not large."""
    return abs(exponent) <= HIGHEST and 2 * exponent == int(2 * exponent)


def _power(x: Variable, exponent: float) -> Variable:
    if not exponent:
        return np.ones_like(x)
    y = reduce(operator.mul, _factors_of_power(x, abs(exponent)))
    return DIVIDE(1, y) if exponent < 0 else y


def _factors_of_power(x: Variable, exponent: float) -> Iterator[Variable]:
    """Squares of squares, and a root."""
    n, square = int(exponent), x
    while n:
        if n % 2:
            yield square
        n //= 2
        square = square * square if n else square
    if exponent % 1:
        yield np.sqrt(x)


@procedure(STACK, CONCATENATE, exact=True, plane="all")
def columns_one_by_one(graph: Graph, node: Node) -> Variable | None:
    """Replace columns by rows that are written contiguously: 9 of 3000 numbers 40 us to 12."""
    if node.params != (("axis", 1),) or node.aval.ndim != 2 or numbers(node.aval.shape[:1]) < MANY:
        return None
    columns = [Variable(graph, x) for x in node.inputs]
    if node.op is CONCATENATE:
        if not all(is_one(x.shape[1]) for x in columns):
            return None
        columns = [x[:, 0] for x in columns]
    return np.stack(columns).T


@procedure(where=lambda op: op.commutes, changes_nan=True)
def swapped(graph: Graph, node: Node) -> Node | None:
    """Replace ``b + a`` by ``a + b`` if the graph has that already, and so for other operators that commute."""
    other = graph.known(node.op, node.inputs[::-1], node.params)
    return other if other is not None and other.id < node.id else None
