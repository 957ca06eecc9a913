"""Booleans of Python and of NumPy: Python calculates with its own as with integers, NumPy logically.

``True + True`` is 2, and ``np.True_ + np.True_`` is true. The values of both are the same in a graph; so where a
boolean is calculated with, its origin is looked for, and one of Python's becomes an integer.
"""

import builtins

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, ITEM, SEED, SIZE, Aval, per_node
from symgrad.core.region import regions_of
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import same
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.ops.astype import ASTYPE
from symgrad.ops.control import COND, EITHER, NUMBER
from symgrad.ops.define import TABLE, implements, operator
from symgrad.ops.marks import ALIAS, STOP
from symgrad.ops.operands import as_input, is_traced
from symgrad.spelling import call, tested

INTEGER = operator(
    lambda x: builtins.int(x),
    name="integer",
    infer=lambda x: Aval((), np.dtype(int), True),
    batch=lambda batched, x: x.astype(int),
    spell=lambda node, x: call("int", [tested(x).text]),
    scalar=lambda node, x: call("int", [x.text]),
    signature=aligned,
    cheap=True,
)
"""Convert a boolean to a Python integer."""

_CONNECTIVES = {TABLE[f] for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)}
_COMPARISONS = {TABLE[f] for f in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)}
_TRUTHS = (bool, np.bool_)
_OF_PYTHON = (bool, int, float, complex)


def is_truth(x):
    """Whether an operand is a scalar boolean."""
    return x.aval.dtype.kind == "b" and not x.writes_in_place if is_traced(x) else type(x) in _TRUTHS


def is_pythons(x):
    """Whether an operand is a Python number or boolean; None for a boolean of which that is not known."""
    if not is_traced(x):
        return type(x) in _OF_PYTHON
    return bool(x.aval.weak) if not is_truth(x) else _is_pythons(x.node)


@per_node  # nodes in branches within branches are asked for again and again
def _is_pythons(node):
    """Whether the boolean of a node is Python's: not if something of NumPy is among its inputs."""
    waiting, seen, unknown = [node], {node}, False
    while waiting:
        x = waiting.pop()
        if x.op in (ALIAS, STOP) or x.op in _CONNECTIVES or x.op in _COMPARISONS:
            new = [y for y in x.inputs if y not in seen]
            waiting += new
            seen.update(new)
            continue
        known = _leaf_is_pythons(x)
        if known is False:
            return False
        unknown = unknown or known is None
    return None if unknown else True


def _leaf_is_pythons(x):
    if type(x.aval) is not Aval or x.aval.shape or x.aval.weak or x.op is SIZE:
        return type(x.aval) is Aval and x.aval.weak
    if x.aval.dtype.kind != "b":
        return False
    if x.op is CONSTANT:
        return type(x.constant) is bool
    if x.op is ITEM and x.inputs[0].op is COND:
        return _is_chosen_pythons(x)
    return None if x.op in (ITEM, SEED, EITHER) else False


def _is_chosen_pythons(item):
    """Whether a branch gives Python booleans: both sides must, and a cast may have been made to join them."""
    sides = [region.results[dict(item.params)["index"]] for region in regions_of(item.inputs[0])]
    found = {None if y.op is ASTYPE else _is_pythons(y) for y in sides}
    return found.pop() if len(found) == 1 else None


def of_python(x):
    """Return a traced boolean as one of Python's; anything else unchanged."""
    return NUMBER(x) if is_traced(x) and is_truth(x) and is_pythons(x) is not True else x


def of_one(x, *sources):
    """A boolean that has come from one of several."""
    origins = {is_pythons(source) for source in sources}
    return of_python(x) if origins == {True} else x if origins == {False} else EITHER(x)


def of_numpy(x):
    """Return a NumPy function's boolean as one of NumPy's, unless it is known to be Python's."""
    return x if x.aval.weak or is_pythons(x) is False else ASTYPE(x, dtype=x.dtype)


def without_mark(x):
    """Return a boolean that is only tested, without the mark of its kind."""
    marked = x.node.op is EITHER or (x.node.op is NUMBER and x.aval.dtype.kind == "b")
    return type(x)(x.graph, x.node.inputs[0]) if marked else x


def calculated(symbol, operands):
    """Convert operands of Python's operator `symbol`: Python's booleans count as integers.

    Raises
    ------
    DTypeError
        Where whose booleans they are is not known, and changes the result.
    """
    truths = [is_truth(x) for x in operands]
    if symbol in ("&", "|", "^") and all(truths):
        return operands
    origins = [is_pythons(x) for x in operands]
    if False in origins or symbol in _COMPARING:
        return operands
    if None not in origins:
        return [_as_integer(x) if is_it else x for x, is_it in zip(operands, truths, strict=True)]
    if not all(truths):
        return operands  # True + 1 and np.True_ + 1 are the same
    raise DTypeError(
        f"{symbol} of a boolean that may be Python's, which counts as an integer, or NumPy's, which does not",
        "Say which: int(x), or np.bool_(x).",
    )


_COMPARING = ("<", "<=", ">", ">=", "==", "!=")


def _as_integer(x):
    return INTEGER(without_mark(x)) if is_traced(x) else builtins.int(x)


# ---- functions of NumPy that give a Python boolean


@implements(np.allclose)
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return of_python(np.all(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


@implements(np.array_equal)
def array_equal(a1, a2, equal_nan=False):
    a, b = as_input(a1), as_input(a2)
    shapes = np.shape(a), np.shape(b)
    if not same_shape(*shapes):
        if len(shapes[0]) == len(shapes[1]) and not all(_comparable(m, n) for m, n in zip(*shapes, strict=True)):
            raise UnsupportedError(
                f"np.array_equal: it is not known whether the shapes {shapes[0]} and {shapes[1]} are equal",
                "Compile from arrays, or write the same letter for equal sizes.",
            )
        return False
    equal = a == b
    return of_python(np.all(equal | (np.isnan(a) & np.isnan(b)) if equal_nan else equal))


@implements(np.array_equiv)
def array_equiv(a1, a2):
    try:
        equal = as_input(a1) == as_input(a2)
    except ShapeError:
        return False
    return of_python(np.all(equal))


def _comparable(m, n):
    return same(m, n) or (isinstance(m, int) and isinstance(n, int))
