"""Comparison, logic, bits and rounding: functions that are constant piece by piece."""

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import Aval
from symgrad.ops.arguments import refuse_given
from symgrad.ops.branch_distances import difference, first_input, from_half, from_integer
from symgrad.ops.define import elementwise, flat, implements, operator
from symgrad.ops.operands import as_input
from symgrad.ops.spellings import connective_of_floats, connective_spelling, prefix_of_numbers
from symgrad.spelling import Truth, call, not_, tested


def _scalar_not(node, x):
    return not_(x)


def _scalar_invert(node, x):
    """``not x`` of a boolean, as Python's ~True is -2; the bits of an integer."""
    return not_(x) if node.aval.dtype.kind == "b" else prefix_of_numbers("~")(node, x)


def _not(node, x):
    code = call("np.logical_not", [x.text])
    return code if node.aval.shape else Truth(code.text, test=_scalar_not(node, tested(x)))


for ufunc, symbol in (
    (np.less, "<"), (np.less_equal, "<="), (np.greater, ">"), (np.greater_equal, ">="), (np.equal, "=="),
    (np.not_equal, "!="),
):  # fmt: skip
    elementwise(ufunc, flat, infix=symbol, commutes=symbol in ("==", "!="), branch_distance=difference)
for ufunc, symbol in (
    (np.bitwise_and, "&"), (np.bitwise_or, "|"), (np.bitwise_xor, "^"), (np.left_shift, "<<"), (np.right_shift, ">>"),
):  # fmt: skip
    elementwise(ufunc, flat, infix=symbol, commutes=symbol in ("&", "|", "^"))
for ufunc, form, distance in (
    (np.floor, "math.floor", from_integer), (np.ceil, "math.ceil", from_integer),
    (np.trunc, "math.trunc", from_integer), (np.rint, "round", from_half),
):  # fmt: skip
    rounds = f"math.copysign({form}(a), a) if abs(a) < 1e16 else a"  # larger ones are integers
    elementwise(ufunc, flat, scalar=rounds, branch_distance=distance)
elementwise(np.signbit, flat, scalar="math.copysign(1.0, a) < 0", branch_distance=first_input)
elementwise(np.logical_xor, flat, scalar="bool(a) != bool(b)")
for ufunc in (np.isnan, np.isfinite, np.isinf):
    elementwise(ufunc, flat, finds_nan=True)
for ufunc in (np.gcd, np.lcm, np.bitwise_count, np.spacing):
    elementwise(ufunc, flat)
for ufunc, word in ((np.logical_and, "and"), (np.logical_or, "or")):
    spelled = connective_spelling(word, ufunc.__name__)
    elementwise(ufunc, flat, spell=spelled, scalar=connective_of_floats(word))
elementwise(np.logical_not, flat, spell=_not, scalar=_scalar_not)

ROUND = operator(
    np.round,
    infer=lambda x, decimals=0: Aval(x.shape, np.dtype(np.float16) if x.dtype == bool else x.dtype),
    vjp=lambda g, y, x, decimals: (None,),
    branch_distance=lambda x, decimals=0: from_half(x * 10.0**decimals),
    signature=aligned,
)


@implements(np.round, np.around)
def round_(a, decimals=0, out=None):
    refuse_given("round", out=out)
    return ROUND(a, decimals=decimals)


def _without_out(function, written):
    @implements(function)
    def call(x, out=None):
        refuse_given(function.__name__, out=out)
        return written(as_input(x))


_without_out(np.fix, np.trunc)
_without_out(np.isposinf, lambda x: x == np.inf)
_without_out(np.isneginf, lambda x: x == -np.inf)


@implements(np.isclose)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b = as_input(a), as_input(b)
    close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


elementwise(np.invert, flat, prefix="~", scalar=_scalar_invert)
