"""Operators that C computes by means of others: order statistics, convolutions, bins, pairs of results and others.

NumPy has a function for each of them, and stays faster where there are many numbers; but a loop that C does not compute
as a whole runs in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, Graph, Node, Op
from symgrad.core.shapes import product
from symgrad.core.sizes import Size, at_most, largest, same, smallest
from symgrad.frontend.variable import Variable
from symgrad.lowering.sorting import is_short
from symgrad.ops.arguments import axis_tuple
from symgrad.ops.counting import DIGITIZE
from symgrad.ops.diagonal import VANDER
from symgrad.ops.elementwise import conjugate
from symgrad.ops.parts import DIVMOD, MODF
from symgrad.ops.products import CONVOLVE, CORRELATE, KRON
from symgrad.ops.quantiles import MEDIAN, METHODS, PERCENTILE, QUANTILE
from symgrad.ops.reduce import NANMAX, NANMIN
from symgrad.rewrite.engine import Made, copied, in_bodies

FEW = 4096  # products of a convolution up to which C takes less time than a call of NumPy
Form = Callable[[Node, list[Variable]], Variable]
"""Returns what a node gives, from the images of its inputs; of a node with two results, from a node of one of them."""
Wanted = Callable[[Node, bool], bool]
"""Whether C is to compute a node; the second argument says whether it is in a loop or a branch."""


def with_forms(graph: Graph, numerics: str = "stable", alone: bool = False) -> Graph:
    """Replace operators by others that C computes, in loops and branches, and of few numbers outside of them.

    In a program that runs `alone`, without NumPy, replace all of them.
    """

    def replaced(body: Graph, numerics: str = "stable") -> Graph:
        is_inside = alone or body is not graph
        instead = {x: _made(x, form) for x in body.live if (form := _form_of(x, is_inside)) is not None}
        return copied(body, instead) if instead else body

    return in_bodies(replaced)(graph, numerics)


def _form_of(node: Node, in_loop: bool) -> Form | None:
    """Return the form of a node; None if it stays."""
    if node.op is ITEM:
        return PAIRS.get(node.inputs[0].op)
    form, wanted = FORMS.get(node.op, (None, None))
    return form if wanted and wanted(node, in_loop) else None


def _made(node: Node, form: Form) -> Made:
    of = node.inputs[0] if node.op is ITEM else node

    def make(new: Graph, image: Mapping[Node, Node]) -> Variable:
        made = form(node, [Variable(new, image[x]) for x in of.inputs])
        aval: Any = node.aval
        return made if made.dtype == aval.dtype else np.astype(made, aval.dtype)

    return make


def _params(node: Node) -> dict[str, Any]:
    return {**node.op.defaults, **dict(node.params)}


# ---- order statistics


def _axes(node: Node) -> tuple[int, ...]:
    found: tuple[int, ...] = axis_tuple(node.op.name, _params(node).get("axis"), node.inputs[0].aval.ndim)
    return found


def _has_few(node: Node, in_loop: bool) -> bool:
    """Whether an order statistic is of few real numbers, and surely of one."""
    aval = node.inputs[0].aval
    count = product([aval.shape[k] for k in _axes(node)])
    return aval.dtype.kind != "c" and at_most(1, count) and is_short(count, aval.shape, in_loop)


def _is_known_quantile(node: Node, in_loop: bool) -> bool:
    """Whether a quantile is that of a known number of numbers at known places: NumPy raises for some others.

    An average of two is left to NumPy, too: which infinite neighbours make it NaN is another matter there.
    """
    aval, is_known = node.inputs[0].aval, node.inputs[1].op is CONSTANT
    is_known &= all(isinstance(aval.shape[k], int) for k in _axes(node))
    return is_known and _params(node)["method"] != "averaged_inverted_cdf" and _has_few(node, in_loop)


def _ordered(node: Node, x: Variable) -> tuple[Variable, Size]:
    """Return numbers in order along a last axis, with their count: those along the axes of a statistic."""
    axes = _axes(node)
    kept = [k for k in range(x.ndim) if k not in axes]
    n = product([x.shape[k] for k in axes])
    rows = np.reshape(np.transpose(x, (*kept, *axes)), (*[x.shape[k] for k in kept], n))
    return np.sort(rows, axis=-1), n


def _unless_nan(y: Variable, ordered: Variable) -> Variable:
    """Return a statistic, which is NaN where a number is: it then is the last one."""
    last = ordered[..., -1]
    return np.where(np.isnan(last), last, y) if ordered.dtype.kind == "f" else y


def _extreme(node: Node, xs: list[Variable], reduction: Callable[..., Any], worst: float) -> Variable:
    """Return the extreme of the numbers that are not NaN; it is NaN where there is none."""
    (x,), params = xs, {name: _params(node).get(name) for name in ("axis", "keepdims")}
    params["keepdims"] = bool(params["keepdims"])
    if x.dtype.kind != "f":
        plain: Variable = reduction(x, **params)
        return plain
    missing = np.isnan(x)
    found = reduction(np.where(missing, worst, x), **params)
    return np.where(np.all(missing, **params), np.nan, found)


def _median(node: Node, xs: list[Variable]) -> Variable:
    (x,) = xs
    ordered, n = _ordered(node, x)
    low, high = (n - 1) // 2, n // 2
    middle = np.astype(ordered[..., low], node.aval.dtype)
    if not same(low, high):
        middle = (middle + np.astype(ordered[..., high], node.aval.dtype)) / 2
    return np.reshape(_unless_nan(middle, ordered), node.aval.shape)


def _quantile(node: Node, xs: list[Variable], whole: float) -> Variable:
    """Interpolate between two numbers as NumPy does, from the nearer one; beyond the ends both are the last one."""
    x, q = xs
    ordered, n = _ordered(node, x)
    method, known = METHODS[_params(node)["method"]], np.asarray(node.inputs[1].constant)
    place = np.asarray(method.position(n, known / whole))
    low = np.asarray(np.clip(np.floor(place), 0, n - 1), int)
    if method.picks or (whole == 1 and known.dtype.kind in "iu" and method is METHODS["linear"]):
        y = _taken(ordered, low)
    else:
        high = np.where(place < 0, 0, np.minimum(low + 1, n - 1))
        weight = np.asarray(place - low, node.aval.dtype)
        weight = np.reshape(weight, (*place.shape, *[1] * (ordered.ndim - 1))) if q.ndim else weight[()]
        a, b = (np.astype(_taken(ordered, i), node.aval.dtype) for i in (low, high))
        y = _between(a, b, weight)
    return np.reshape(_unless_nan(y, ordered), node.aval.shape)


def _between(a: Variable, b: Variable, weight: Any) -> Variable:
    """Return the number at a known place from one to another."""
    forth, back = (lambda: a + (b - a) * weight), (lambda: b - (b - a) * (1 - weight))
    near = weight < 0.5
    if np.all(near) or not np.any(near):
        return forth() if np.all(near) else back()
    return np.where(near, forth(), back())


def _taken(ordered: Variable, places: np.ndarray) -> Variable:
    """Return the numbers at known places, whose axes come first."""
    if not places.ndim:
        return ordered[..., int(places)]
    return np.moveaxis(np.take(ordered, places, axis=-1), -1, 0)


# ---- products


def _convolution(node: Node, xs: list[Variable]) -> Variable:
    """Multiply each window of the first sequence, between zeros, with the second one."""
    a, v = xs
    mode = _params(node)["mode"]
    n, m = a.shape[0], v.shape[0]
    padded = a if mode == "valid" else np.pad(a, (m - 1, m - 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, m)
    if mode == "same":
        start = (smallest(n, m) - 1) // 2
        windows = windows[start : start + largest(n, m)]
    return windows @ (v[::-1] if node.op is CONVOLVE else conjugate(v))


def _is_multiplied(node: Node, in_loop: bool) -> bool:
    """Whether C has products of the dtype of a node."""
    return node.aval.dtype.kind in "fc" or node.aval.dtype == np.int64


def _is_small_convolution(node: Node, in_loop: bool) -> bool:
    n, m = (x.aval.shape[0] for x in node.inputs)
    is_there = at_most(1, n) and at_most(1, m)  # NumPy raises where one is empty
    return is_there and _is_multiplied(node, in_loop) and (in_loop or at_most(n * m, FEW))


def _kronecker(node: Node, xs: list[Variable]) -> Variable:
    a, b = xs
    pairs = [*range(2 * a.ndim)]
    blocks = np.einsum(a, pairs[0::2], b, pairs[1::2], pairs)
    return np.reshape(blocks, node.aval.shape)


def _powers(node: Node, xs: list[Variable]) -> Variable:
    """Multiply one number after the other, as np.vander does."""
    (x,), n = xs, node.aval.shape[1]
    factors = np.where(np.arange(n, like=x) == 0, 1, np.astype(x, node.aval.dtype)[:, None])
    powers = np.cumprod(factors, axis=1)
    return powers if dict(node.params)["increasing"] else powers[:, ::-1]


# ---- bins


def _bins(node: Node, xs: list[Variable]) -> Variable:
    """Count the bounds below a number, or up to it; those that descend from their end."""
    x, bins = xs
    side = "left" if _params(node)["right"] else "right"
    known = node.inputs[1].constant
    if known[0] <= known[-1]:
        return np.searchsorted(bins, x, side)
    return len(known) - np.searchsorted(bins[::-1], x, side)


def _has_known_bins(node: Node, in_loop: bool) -> bool:
    """Whether bounds are constants in order: NumPy raises if they are in none."""
    if node.inputs[1].op is not CONSTANT or node.inputs[1].constant.size == 0:
        return False
    steps = np.diff(node.inputs[1].constant)
    return bool(np.all(steps >= 0) or np.all(steps <= 0))


# ---- pairs of results


def _divmod(node: Node, xs: list[Variable]) -> Variable:
    function = (np.floor_divide, np.remainder)[dict(node.params)["index"]]
    found: Variable = function(*xs)
    return found


def _modf(node: Node, xs: list[Variable]) -> Variable:
    """Return the fraction, which has the sign of the number and is zero of an infinite one, or the rest."""
    (x,) = xs
    if dict(node.params)["index"] == 1:
        return np.trunc(x)
    finite = np.where(np.isinf(x), 0, x)
    return np.copysign(finite - np.trunc(finite), x)


def _is_real(node: Node, in_loop: bool) -> bool:
    return node.aval.dtype.kind != "c"


FORMS: dict[Op, tuple[Form, Wanted]] = {
    MEDIAN: (_median, _has_few),
    QUANTILE: (partial(_quantile, whole=1), _is_known_quantile),
    PERCENTILE: (partial(_quantile, whole=100), _is_known_quantile),
    CONVOLVE: (_convolution, _is_small_convolution),
    CORRELATE: (_convolution, _is_small_convolution),
    KRON: (_kronecker, _is_multiplied),
    VANDER: (_powers, _is_multiplied),
    NANMAX: (partial(_extreme, reduction=np.max, worst=-np.inf), _is_real),
    NANMIN: (partial(_extreme, reduction=np.min, worst=np.inf), _is_real),
    DIGITIZE: (_bins, _has_known_bins),
}

PAIRS: dict[Op, Form] = {DIVMOD: _divmod, MODF: _modf}
