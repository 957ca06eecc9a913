"""One element of a value as an expression of elements of its operands, by which values are fused without memory.

A rule takes the node, the index of an element of its result, and the `Part` of the program that needs it, a source of
elements of other values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import Node, Op
from symgrad.core.shapes import first_of_slice, product, same_shape, slice_indices
from symgrad.core.sizes import Dim, Size, at_most, largest, same
from symgrad.lowering.expressions import (
    ONE,
    WHOLE,
    ZERO,
    Apply,
    Choose,
    Expr,
    Extent,
    Local,
    Number,
    Whole,
    converted,
    divided,
    extent,
    minus,
    plus,
    remainder,
    times,
)
from symgrad.ops.arrange import REPEAT, ROLL, TILE
from symgrad.ops.astype import ASTYPE
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.choice import CLIP, WHERE
from symgrad.ops.contract import OUTER
from symgrad.ops.control import NUMBER
from symgrad.ops.create import ARANGE, EMPTY, EYE, FULL, LINSPACE
from symgrad.ops.define import TABLE
from symgrad.ops.diagonal import DIAG, DIAGONAL, TRIL, TRIU
from symgrad.ops.dtypes import operand_dtypes
from symgrad.ops.elementwise import POWER
from symgrad.ops.gather import TAKE_ALONG
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import Slice, Slot, parts
from symgrad.ops.marks import ALIAS, STOP
from symgrad.ops.padding import PAD
from symgrad.ops.parts import IMAG, REAL
from symgrad.ops.piecewise_constant import ROUND
from symgrad.ops.products import CROSS
from symgrad.ops.shape import BROADCAST_TO, COPY, RESHAPE, TRANSPOSE
from symgrad.ops.windows import WINDOWS

if TYPE_CHECKING:
    from symgrad.lowering.build import Part as Source

At = tuple[Expr, ...]
Rule = Callable[[Node, At, "Source"], Expr]

RULES: dict[Op, Rule] = {}


def rule(*ops: Op) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return register


def stretched(x: Node, at: At) -> At:
    """Return the index in an operand, given that in a result to which it broadcasts."""
    return stretched_to(x.aval.shape, at)


def stretched_to(shape: Sequence[Size], at: At) -> At:
    """Return the index in an array of a shape, given that in a result to which it broadcasts."""
    return tuple([ZERO if same(n, 1) else i for n, i in zip(shape, at[len(at) - len(shape) :], strict=True)])


def elementwise(node: Node, at: At, source: Source) -> Expr:
    """Apply an operator to numbers, each in the dtype that NumPy computes with."""
    if alternates(node):
        k = converted(source.pull(node.inputs[1], stretched(node.inputs[1], at)), WHOLE)
        is_odd = _arithmetic(np.bitwise_and, k, ONE)
        return converted(minus(ONE, times(is_odd, Number(2))), node.aval.dtype)
    dtypes = computing_dtypes(node)
    operands = [source.pull(x, stretched(x, at)) for x in node.inputs]
    if _may_round(node, operands, source.program.indices):
        return _compared_exactly(node, operands)
    numbers = [converted(x, dtype) for x, dtype in zip(operands, dtypes, strict=True)]
    if node.aval.weak and node.aval.dtype.kind == "i" and node.op.evaluate in _EXACT:
        return source.exact(node, *_EXACT[node.op.evaluate](*numbers))
    is_python = all(x.aval.weak for x in node.inputs)
    return Apply(node.op, tuple(numbers), node.aval.dtype, node.params, is_python)


def alternates(node: Node) -> bool:
    """Whether a value is -1 to an integer power, as in the terms of a series; NumPy raises where that is negative."""
    if node.op is not POWER or node.aval.dtype.kind != "i" or number(node.inputs[0]) != -1:
        return False
    k = node.inputs[1]
    counts = k.op is ARANGE and all((c := number(x)) is not None and c >= 0 for x in (k.inputs[0], k.inputs[2]))
    return k.aval.dtype.kind == "i" and (k.aval.weak or counts)


_STRICT = {
    np.less: np.less, np.less_equal: np.less, np.greater: np.greater, np.greater_equal: np.greater,
    np.equal: None, np.not_equal: None,
}  # fmt: skip
"""Comparisons, and what is true of numbers that also round to different floats."""


def _may_round(node: Node, numbers: Sequence[Expr], indices: Collection[str]) -> bool:
    """Whether Python compares an integer with a float, and rounding the integer to a float may change the result."""
    if node.op.evaluate not in _STRICT or not all(x.aval.weak for x in node.inputs):
        return False
    return {x.dtype.kind for x in numbers} == {"i", "f"} and not any(_is_exact(x, indices) for x in numbers)


def _is_exact(x: Expr, indices: Collection[str]) -> bool:
    """Whether a comparison with a number is the same after rounding the other one, or this one, to a float.

    It is for constants that a float holds together with their neighbours, and for sizes and indices of loops.
    """
    if isinstance(x, Number):
        return not 2**53 <= abs(x.value) < np.inf
    return isinstance(x, Extent) or (isinstance(x, Local) and x.name in indices)


def _compared_exactly(node: Node, numbers: Sequence[Expr]) -> Expr:
    """Compare an integer with a float: as integers where the rounded one is equal to the float, else as floats."""
    floats, wholes = ([converted(x, np.dtype(kind)) for x in numbers] for kind in (np.float64, np.int64))
    rounded, strict = _comparison(np.equal, floats), _STRICT[node.op.evaluate]
    exact = _comparison(node.op.evaluate, wholes)
    if node.op.evaluate is np.not_equal:
        return _arithmetic(np.logical_or, _comparison(np.not_equal, floats), exact)
    found = _arithmetic(np.logical_and, rounded, exact)
    return found if strict is None else _arithmetic(np.logical_or, _comparison(strict, floats), found)


def _comparison(function: Any, numbers: Sequence[Expr]) -> Expr:
    op: Any = TABLE[function]
    return Apply(op, tuple(numbers), np.dtype(bool), (), True)


def operands_at(node: Node, at: At) -> Sequence[tuple[Node, At]]:
    """Return the operands of which one element is read for an element of the result, each with the index read."""
    if node.op in (ASTYPE, ALIAS, STOP, BARRIER, NUMBER, COPY, ROUND, REAL, IMAG):
        return [(node.inputs[0], at)]
    if node.op in RULES and node.op not in (WHERE, CLIP, FULL, BROADCAST_TO):
        return []
    return [(x, stretched(x, at)) for x in node.inputs]


_EXACT: dict[Any, Callable[..., tuple[str, Expr, Expr]]] = {
    np.add: lambda a, b: ("+", a, b), np.subtract: lambda a, b: ("-", a, b), np.multiply: lambda a, b: ("*", a, b),
    np.negative: lambda x: ("-", ZERO, x), np.square: lambda x: ("*", x, x),
}  # fmt: skip
"""Operators of which the result may be an integer too large for 64 bits."""


def computing_dtypes(node: Node) -> Sequence[np.dtype]:
    """Return the dtypes to which an elementwise operator converts its inputs; Python's numbers alone have none."""
    avals = [x.aval for x in node.inputs]
    if all(aval.weak for aval in avals):
        kinds = [aval.dtype for aval in avals]
        return [np.result_type(*kinds, *[node.aval.dtype] * (node.aval.dtype.kind == "f"))] * len(kinds)
    if node.op.evaluate in _STRICT and any(x.weak for x in avals) and all(x.dtype.kind in "iu" for x in avals):
        return _exact_dtypes(node)
    return operand_dtypes(node.op, node.aval.dtype, *avals)


def _exact_dtypes(node: Node) -> Sequence[np.dtype]:
    """Return the dtypes in which integers are compared with Python's, of which NumPy converts none: -2 < uint8(3)."""
    if all(x.aval.dtype != np.uint64 for x in node.inputs):
        return [WHOLE, WHOLE]
    known = [number(x) for x in node.inputs if x.aval.weak]
    fit = all(c is not None and 0 <= c < 2**64 for c in known)
    return [np.dtype(np.uint64)] * 2 if fit else [x.aval.dtype for x in node.inputs]


@rule(WHERE)
def where(node: Node, at: At, source: Source) -> Expr:
    test, *sides = [source.pull(x, stretched(x, at)) for x in node.inputs]
    then, otherwise = (converted(x, node.aval.dtype) for x in sides)
    return Choose(converted(test, np.dtype(bool)), source.held(then), source.held(otherwise))


@rule(CLIP)
def clip(node: Node, at: At, source: Source) -> Expr:
    x, low, high = (converted(source.pull(x, stretched(x, at)), node.aval.dtype) for x in node.inputs)
    return _arithmetic(np.minimum, _arithmetic(np.maximum, x, low), high)


@rule(ASTYPE)
def astype(node: Node, at: At, source: Source) -> Expr:
    return converted(source.pull(node.inputs[0], at), node.aval.dtype)


@rule(ALIAS, STOP, BARRIER, NUMBER, COPY)
def unchanged(node: Node, at: At, source: Source) -> Expr:
    return source.pull(node.inputs[0], at)


@rule(REAL, IMAG)
def part_of_complex(node: Node, at: At, source: Source) -> Expr:
    return Apply(node.op, (source.pull(node.inputs[0], at),), node.aval.dtype)


@rule(FULL, BROADCAST_TO)
def broadcast(node: Node, at: At, source: Source) -> Expr:
    x = node.inputs[0]
    return converted(source.pull(x, stretched(x, at)), node.aval.dtype)


@rule(EMPTY)
def empty(node: Node, at: At, source: Source) -> Expr:
    return Number(node.aval.dtype.type(0).item(), node.aval.dtype)


def sequence_of(node: Node) -> tuple[int, int] | None:
    """Return the first number and the step of a constant of whole numbers at equal distances, as `np.arange` gives.

    Two floating numbers are no sequence.
    """
    x = node.constant
    if x.ndim != 1 or x.size < 2 + (x.dtype.kind == "f") or x.dtype not in (np.int64, np.float64):
        return None
    with np.errstate(invalid="ignore"):  # of numbers that are no integers
        whole = x.astype(np.int64)
    first, step = int(whole[0]), int(whole[1]) - int(whole[0])
    exact = abs(first) + abs(step) * x.size < 2**53
    if not exact or not step or not np.array_equal(x, whole) or np.any(np.signbit(x) & (x == 0)):
        return None
    return (first, step) if np.all(np.diff(whole) == step) else None


@rule(ARANGE)
def arange(node: Node, at: At, source: Source) -> Expr:
    start, _, step = (converted(source.pull(x, ()), node.aval.dtype) for x in node.inputs)
    if node.aval.dtype.kind in "iu":
        return converted(plus(start, times(at[0], step)), node.aval.dtype)
    place = converted(at[0], node.aval.dtype)
    return _arithmetic(np.add, start, _arithmetic(np.multiply, place, step))


@rule(LINSPACE)
def linspace(node: Node, at: At, source: Source) -> Expr:
    """Go from the start in equal steps; the last number is the end itself."""
    params, dtype = {"endpoint": True, **dict(node.params)}, node.aval.dtype
    start, stop = (converted(source.pull(x, stretched(x, at[1:])), dtype) for x in node.inputs)
    last = extent(largest(1, params["num"] - 1 if params["endpoint"] else params["num"]))
    step = _arithmetic(np.divide, _arithmetic(np.subtract, stop, start), converted(last, dtype))
    number = _arithmetic(np.add, _arithmetic(np.multiply, converted(at[0], dtype), step), start)
    return Choose(Whole("==", at[0], last), stop, number) if params["endpoint"] else number


def _arithmetic(function: np.ufunc, a: Expr, b: Expr) -> Expr:
    op: Any = TABLE[function]
    return Apply(op, (a, b), a.dtype)


@rule(EYE)
def eye(node: Node, at: At, source: Source) -> Expr:
    i, j = at
    return converted(Whole("==", plus(i, Number(dict(node.params)["k"])), j), node.aval.dtype)


@rule(DIAG)
def diag(node: Node, at: At, source: Source) -> Expr:
    (x,), (i, j), k = node.inputs, at, dict(node.params).get("k", 0)
    on, place = Whole("==", plus(i, Number(k)), j), (i if k >= 0 else j)
    number = source.pull(x, (Choose(on, place, ZERO),))
    return Choose(on, source.held(number), Number(node.aval.dtype.type(0).item(), node.aval.dtype))


@rule(TRIL, TRIU)
def triangle(node: Node, at: At, source: Source) -> Expr:
    i, j = at[-2:]
    (x,), k = node.inputs, Number(dict(node.params).get("k", 0))
    keeps = Whole(">=", plus(i, k), j) if node.op is TRIL else Whole(">=", j, plus(i, k))
    place = at if x.aval.ndim > 1 else (j,)
    return Choose(keeps, source.held(source.pull(x, place)), Number(node.aval.dtype.type(0).item(), node.aval.dtype))


@rule(ROUND)
def rounded(node: Node, at: At, source: Source) -> Expr:
    x, decimals = source.pull(node.inputs[0], at), dict(node.params).get("decimals", 0)
    if not decimals:
        return _rint(x)
    scale = Number(10.0 ** abs(decimals), x.dtype)
    first, last = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
    return _arithmetic(last, _rint(_arithmetic(first, x, scale)), scale)


def _rint(x: Expr) -> Expr:
    op: Any = TABLE[np.rint]
    return Apply(op, (x,), x.dtype)


@rule(CROSS)
def cross(node: Node, at: At, source: Source) -> Expr:
    *row, k = at
    following, last = (remainder(plus(k, Number(i)), Number(3)) for i in (1, 2))

    def component(x: Node, k: Expr) -> Expr:
        return converted(source.pull(x, stretched(x, (*row, k))), node.aval.dtype)

    a, b = node.inputs
    left, right = (
        _arithmetic(np.multiply, component(a, i), component(b, j)) for i, j in ((following, last), (last, following))
    )
    return _arithmetic(np.subtract, left, right)


@rule(OUTER)
def outer(node: Node, at: At, source: Source) -> Expr:
    a, b = (converted(source.pull(x, (i,)), node.aval.dtype) for x, i in zip(node.inputs, at, strict=True))
    return _arithmetic(np.multiply, a, b)


# ---- views


@rule(TRANSPOSE)
def transpose(node: Node, at: At, source: Source) -> Expr:
    return source.pull(node.inputs[0], _untransposed(node, at))


def _untransposed(node: Node, at: At) -> At:
    axes = dict(node.params)["axes"]
    return tuple([at[axes.index(i)] for i in range(len(axes))])


@rule(DIAGONAL)
def diagonal(node: Node, at: At, source: Source) -> Expr:
    params = {**node.op.defaults, **dict(node.params)}
    x = node.inputs[0]
    offset, (a, b) = (
        params.get("offset", 0),
        (params.get(name, i) % x.aval.ndim for i, name in enumerate(("axis1", "axis2"))),
    )
    *others, k = at
    places = {a: plus(k, Number(max(-offset, 0))), b: plus(k, Number(max(offset, 0)))}
    rest = iter(others)
    return source.pull(x, tuple([places[i] if i in places else next(rest) for i in range(x.aval.ndim)]))


@rule(WINDOWS)
def windows(node: Node, at: At, source: Source) -> Expr:
    x, axes = node.inputs[0], dict(node.params)["axis"]
    places = list(at[: x.aval.ndim])
    for axis, k in zip(axes, at[x.aval.ndim :], strict=True):
        places[axis] = plus(places[axis], k)
    return source.pull(x, tuple(places))


@rule(ROLL)
def roll(node: Node, at: At, source: Source) -> Expr:
    """Read the element that lies so many places before, along axes or in the flattened array."""
    params, shape = dict(node.params), node.aval.shape
    shift, axis = params["shift"], params.get("axis")
    if axis is None:
        count = product(shape)
        return source.pull(node.inputs[0], reshaped((count,), shape, (_rolled(flat(at, shape), shift, count, source),)))
    places = list(at)
    for k, by in zip(axis, shift, strict=True) if isinstance(axis, tuple) else [(axis, shift)]:
        places[k] = _rolled(places[k], by, shape[k], source)
    return source.pull(node.inputs[0], tuple(places))


def _rolled(i: Expr, shift: Size, size: Size, source: Source) -> Expr:
    """Return the index that is so many places before one, counted around the end of an axis."""
    ahead = -shift % largest(size, 1)  # of an empty axis nothing is read
    if same(ahead, 0):
        return i
    moved = plus(i, source.once(extent(ahead)))
    return Choose(Whole("<", moved, extent(size)), moved, minus(moved, extent(size)))


@rule(TILE)
def tile(node: Node, at: At, source: Source) -> Expr:
    x = node.inputs[0]
    behind = at[len(at) - x.aval.ndim :]
    return source.pull(x, tuple([_around(i, n) for i, n in zip(behind, x.aval.shape, strict=True)]))


def _around(i: Expr, size: Size) -> Expr:
    return ZERO if same(size, 1) else remainder(i, extent(size))


@rule(REPEAT)
def repeat(node: Node, at: At, source: Source) -> Expr:
    params = dict(node.params)
    axis, repeats = params["axis"], extent(params["repeats"])
    return source.pull(node.inputs[0], (*at[:axis], divided(at[axis], repeats), *at[axis + 1 :]))


MARGINS: dict[str, Callable[[Expr, Expr], tuple[Expr, Expr]]] = {
    "edge": lambda i, n: (ZERO, minus(n, ONE)),
    "wrap": lambda i, n: (plus(i, n), minus(i, n)),
    "reflect": lambda i, n: (minus(ZERO, i), minus(minus(times(n, Number(2)), Number(2)), i)),
    "symmetric": lambda i, n: (minus(Number(-1), i), minus(minus(times(n, Number(2)), ONE), i)),
}
"""By the mode of np.pad: the indices inside that are read before an axis and behind it, for an index and the size."""


@rule(PAD)
def pad(node: Node, at: At, source: Source) -> Expr:
    """Read the number that a margin repeats or mirrors; beside margins of a constant, that with an index inside."""
    (x,), params = node.inputs, dict(node.params)
    places = list(at)
    inside: Expr | None = None
    for k, ((before, after), n) in enumerate(zip(params["pad_width"], x.aval.shape, strict=True)):
        if same(before, 0) and same(after, 0):
            continue
        i, size = minus(at[k], extent(before)), extent(n)
        mode = params.get("mode", "constant")
        if mode in MARGINS:
            low, high = MARGINS[mode](i, size)
            places[k] = Choose(Whole("<", i, ZERO), low, Choose(Whole("<", i, size), i, high))
            continue
        for test in (Whole(">=", i, ZERO), Whole("<", i, size)):
            inside = test if inside is None else _arithmetic(np.logical_and, inside, test)
        places[k] = Choose(Whole("<", i, ZERO), ZERO, Choose(Whole("<", i, size), i, ZERO))
    number = source.pull(x, tuple(places))
    if inside is None:
        return number
    return Choose(inside, source.held(number), Number(node.aval.dtype.type(0).item(), node.aval.dtype))


@rule(RESHAPE)
def reshape(node: Node, at: At, source: Source) -> Expr:
    x = node.inputs[0]
    return source.pull(x, reshaped(node.aval.shape, x.aval.shape, at))


def reshaped(new: Sequence[Size], old: Sequence[Size], at: At) -> At:
    """Return the index of an element before a reshape, given that after it."""
    longer = [(i, n) for i, n in zip(at, new, strict=True) if not same(n, 1)]
    if same_shape(tuple(n for _, n in longer), tuple(n for n in old if not same(n, 1))):
        rest = iter([i for i, _ in longer])
        return tuple([ZERO if same(n, 1) else next(rest) for n in old])
    return tuple([i for a, b in _alike(new, old) for i in _regrouped(new[a], old[b], at[a])])


def _alike(new: Sequence[Size], old: Sequence[Size]) -> list[tuple[slice, slice]]:
    """Return the smallest groups of consecutive axes of two shapes with equal numbers of elements."""
    sizes: list[int] = [n for n in (*new, *old) if isinstance(n, int) and n > 0]
    if len(sizes) < len(new) + len(old):
        return [(slice(None), slice(None))]
    ends = [{prod(shape[:k]): k for k in range(len(shape) + 1)} for shape in (sizes[: len(new)], sizes[len(new) :])]
    cuts = [(0, 0), *((k, ends[1][n]) for n, k in ends[0].items() if n in ends[1] and n > 1)]
    return [(slice(*a), slice(*b)) for a, b in (zip(*pair, strict=True) for pair in pairwise(cuts))]


def _regrouped(new: Sequence[Size], old: Sequence[Size], at: At) -> list[Expr]:
    place = flat(at, new)
    parts = [divided(place, extent(product(old[k + 1 :]))) for k in range(len(old))]
    return [remainder(part, extent(n)) if k else part for k, (part, n) in enumerate(zip(parts, old, strict=True))]


def flat(at: At, shape: Sequence[Size]) -> Expr:
    """Return the row-major position of an index."""
    place: Expr = ZERO
    for k, i in enumerate(at):
        place = plus(place, times(i, extent(product(shape[k + 1 :]))))
    return place


# ---- places


@rule(GET)
def get(node: Node, at: At, source: Source) -> Expr:
    x, *arrays = node.inputs
    key = dict(node.params)["key"]
    return source.pull(x, source_index(x.aval.shape, key, arrays, at, source))


@rule(TAKE_ALONG)
def take_along(node: Node, at: At, source: Source) -> Expr:
    x, indices = node.inputs
    axis = dict(node.params)["axis"]
    place = source.inside(indices, source.pull(indices, stretched(indices, at)), x.aval.shape[axis])
    return source.pull(x, (*at[:axis], place, *at[axis + 1 :]))


def source_index(shape: Sequence[Size], key: Sequence[Any], arrays: Sequence[Node], at: At, source: Source) -> At:
    """Return the index in an array of this shape of the element ``x[key][at]``."""
    first, joined, _ = parts(shape, key, [x.aval for x in arrays])
    behind = len(first) + len(joined)
    rest, together = [*at[: len(first)], *at[behind:]], at[len(first) : behind]
    found: list[Expr] = []
    axis = 0
    for item in key:
        if item is None:
            rest.pop(0)
        elif isinstance(item, Slice):
            found.append(_sliced(item, shape[axis], rest.pop(0)))
        elif isinstance(item, Slot):
            x = arrays[item.input]
            found.append(source.inside(x, source.pull(x, stretched(x, together)), shape[axis]))
        elif isinstance(item, Dim) and at_most(0, item) and at_most(item + 1, shape[axis]):
            found.append(extent(item))
        elif item is not Ellipsis:
            found.append(source.inside(None, extent(item), shape[axis]))
        axis += item is not None and item is not Ellipsis
    return tuple(found)


def _sliced(item: Slice, size: Size, i: Expr) -> Expr:
    start, _, step, _ = slice_indices(size, *item)
    first = first_of_slice(size, start, step)
    assert first is not None
    return plus(extent(first), times(i, Number(step)))


def _is_plain_pad(node: Node) -> bool:
    """Whether no axis is empty, and margins that are wrapped or mirrored are no longer than it."""
    params, shape = dict(node.params), node.inputs[0].aval.shape
    mode = params.get("mode", "constant")
    if mode in ("constant", "edge"):
        return all(at_most(1, n) for n in shape)
    margins = [(side, n) for sides, n in zip(params["pad_width"], shape, strict=True) for side in sides]
    return mode in MARGINS and all(at_most(side + (mode == "reflect"), n) for side, n in margins)


def is_plain(node: Node) -> bool:
    """Whether a rule covers the node: slices whose bounds have known signs, and pads of arrays without empty axes."""
    if node.op is PAD:
        return _is_plain_pad(node)
    if node.op is ROUND:
        return node.aval.dtype.kind == node.inputs[0].aval.dtype.kind == "f"
    if node.op not in (GET, SET, ADD_AT):
        return True
    key, shape, axis = dict(node.params)["key"], node.inputs[0].aval.shape, 0
    for item in key:
        if isinstance(item, Slice):
            start, _, step, _ = slice_indices(shape[axis], *item)
            if first_of_slice(shape[axis], start, step) is None:
                return False
        axis += item is not None and item is not Ellipsis
    return True
