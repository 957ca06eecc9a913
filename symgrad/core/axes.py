"""Axis signatures: how the axes of an operator's inputs map to those of its result, as einsum writes it for a
contraction.

Tiling, threads and batching read them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Aval, Node
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import Size, same
from symgrad.errors import ArgumentError

Label = int | str | tuple[Any, ...] | None
Labels = tuple[Label, ...]


class Stack(NamedTuple):
    """Stack axes of an operator: further axes before its inputs' own become further axes before its result's own.

    They broadcast.
    """

    cores: tuple[int | None, ...]  # for each input how many axes, the last ones, are its own; None: it has no others
    ndim: int  # how many axes the result has in front of its own


class AxisSignature(NamedTuple):
    """The axis signature of an operator: labels that relate the axes of its inputs to those of its result.

    A label in inputs and in the result: the slice i:j of the result along that axis is what the operator makes of the
    slices i:j of those inputs that carry the label, and of the others as they are. A label in inputs only is reduced:
    what the operator makes of slices are partial results, of which `combine` makes the whole, up to rounding. A label
    in the result only: every slice is made alike. None: the axis is needed, or made, as a whole; also an axis of size
    1 that is stretched.

    On slices an operator takes the same parameters, but for one that its entry says to be the `result_shape`: where
    the axis is sliced, the length of the slice stands in it.

    Examples
    --------
    A product of matrices: rows of the first give rows of the result, columns of the second its columns, and the sum
    over the axis between them is the sum of its parts.

    >>> a, b, y = (Aval(shape, np.dtype(float)) for shape in ((4, 3), (3, 5), (4, 5)))
    >>> lettered("...ik,...kj->...ij", np.add)(y, a, b)
    AxisSignature(inputs=(('i', 'k'), ('k', 'j')), result=('i', 'j'), combine=<ufunc 'add'>,
                  stack=Stack(cores=(2, 2), ndim=0))
    """

    inputs: tuple[Labels, ...]  # for each input a label for each axis; in one input a label stands once at most
    result: Labels
    combine: np.ufunc | None = None  # joins two partial results
    stack: Stack | None = None  # which of the inputs may have further axes


def signature_of(node: Node, inputs: Sequence[Aval] = ()) -> AxisSignature:
    """The axis signature of a node; opaque where its operator has none. Several results have one stack and no labels.

    With `inputs` it is that of a node whose inputs are these, axes of size 1 stretched.
    """
    avals = inputs or [x.aval for x in node.inputs]
    if node.op.signature is None or not all(type(aval) is Aval for aval in avals):
        return opaque(node.aval, *avals)
    y = node.aval if type(node.aval) is Aval else node.aval[0]
    signature = node.op.signature(y, *avals, **{**node.op.defaults, **dict(node.params)})
    if y is not node.aval:
        return opaque(node.aval, *avals)._replace(stack=signature.stack)
    adds_truths = signature.combine is np.add and y.dtype == bool
    return signature._replace(combine=np.logical_or) if adds_truths else signature


# ---- how parameters speak of axes: what they are where the first input has one more, of some size, at a place


def axis_numbers(value: Any, at: int, ndim: int, size: Size) -> Any:
    """Return axes as a tuple: one, several, or None for all of `ndim`."""
    if value is None:
        value = tuple(range(ndim)) if ndim != 1 else 0
    return tuple([i + (i >= at) for i in value]) if isinstance(value, tuple) else value + (value >= at)


def axis_order(value: tuple[int, ...], at: int, ndim: int, size: Size) -> tuple[int, ...]:
    """For each axis of the result its number in the input; the new one stays where it is."""
    moved = axis_numbers(value, at, ndim, size)
    return (*moved[:at], at, *moved[at:])


def result_shape(value: tuple[Size, ...], at: int, ndim: int, size: Size) -> tuple[Size, ...]:
    """The shape of the result, which is where `at` is counted."""
    return (*value[:at], size, *value[at:])


# ---- flows that entries share


def opaque(y: Aval, *xs: Aval, **params: Any) -> AxisSignature:
    """Return the opaque signature: every axis is needed as a whole."""
    unlabelled = [(None,) * aval.ndim if type(aval) is Aval else () for aval in (y, *xs)]
    return AxisSignature(tuple(unlabelled[1:]), unlabelled[0])


def aligned(y: Aval, *xs: Aval, **params: Any) -> AxisSignature:
    """Return the signature of an operator whose axes broadcast: they are counted from the last."""
    stack = Stack((0,) * len(xs), y.ndim)
    for x in xs:
        if x.shape and not same_shape(x.shape, y.shape):
            return matched(y, xs, [range(-x.ndim, 0) for x in xs], range(-y.ndim, 0), stack=stack)
    labels = tuple(range(-y.ndim, 0))  # nearly always
    return AxisSignature(tuple([labels if x.shape else () for x in xs]), labels, stack=stack)


def lettered(text: str, combine: np.ufunc | None = None) -> Callable[..., AxisSignature]:
    """Return the signature of an operator on the last axes: ``"...ik,...kj->...ij"``.

    An underscore stands for an opaque axis, an ellipsis for any number of axes that broadcast.
    """
    terms = text.replace("->", ",").split(",")
    owns = [term.removeprefix("...") for term in terms]
    if any(not (letter.isalpha() or letter == "_") for own in owns for letter in own):
        raise ArgumentError(f"{text!r} is not a signature", 'Write letters, and "_" for opaque axes: "...ij,_->...i".')
    cores = tuple([len(own) if term != own else None for term, own in zip(terms[:-1], owns[:-1], strict=True)])

    def signature(y: Aval, *xs: Aval, **params: Any) -> AxisSignature:
        *inputs, result = [_extended(own, x.ndim) for own, x in zip(owns, (*xs, y), strict=True)]
        return matched(y, xs, inputs, result, combine, Stack(cores, y.ndim - len(owns[-1])))

    return signature


def _extended(own: str, ndim: int) -> Labels:
    return (*range(len(own) - ndim, 0), *(None if letter == "_" else letter for letter in own))


def beside(axes: Collection[int], y: Aval, *xs: Aval) -> AxisSignature:
    """Return the signature of an operator whose axes map one to one, but for some of the result."""
    labels = [None if i in axes else i for i in range(y.ndim)]
    return matched(y, xs, [labels] * len(xs), labels)


ALONG_AXIS: dict[str, Any] = {
    "signature": lambda y, *xs, axis, **_: beside((axis,), y, *xs),
    "axes": {"axis": axis_numbers},
}
"""Fields of entries for operators that need one axis, their parameter `axis`, as a whole."""


def reduced(x: Aval, axes: Collection[int], keepdims: bool = False, combine: np.ufunc | None = None) -> AxisSignature:
    """Return the signature of a reduction of the only input, opaque without `combine`."""
    inputs = tuple(None if i in axes and combine is None else i for i in range(x.ndim))
    result = tuple(None if i in axes else i for i in range(x.ndim) if keepdims or i not in axes)
    return AxisSignature((inputs,), result, combine)


def regrouped(y: Aval, x: Aval, **params: Any) -> AxisSignature:
    """Return the signature of a reshape in row-major order, for axes that it neither splits nor merges."""
    old, new = (tuple(i for i, n in enumerate(aval.shape) if not same(n, 1)) for aval in (x, y))
    pairs: dict[int, int] = {}
    while old and new:
        m, n = _group([x.shape[i] for i in old], [y.shape[j] for j in new])
        if (m, n) == (1, 1):
            pairs[old[0]] = new[0]
        old, new = old[m:], new[n:]
    kept = set(pairs.values())
    result = tuple(j if j in kept else None for j in range(y.ndim))
    return AxisSignature((tuple(map(pairs.get, range(x.ndim))),), result)


def _group(old: Sequence[Size], new: Sequence[Size]) -> tuple[int, int]:
    """Return how many leading sizes of each have the same, smallest product; all where that is not known."""
    for total in range(2, len(old) + len(new)):
        for m in range(max(1, total - len(new)), min(total, len(old) + 1)):
            if same(product(old[:m]), product(new[: total - m])):
                return m, total - m
    return len(old), len(new)


def matched(
    y: Aval,
    xs: Sequence[Aval],
    inputs: Sequence[Sequence[Label]],
    result: Sequence[Label],
    combine: np.ufunc | None = None,
    stack: Stack | None = None,
) -> AxisSignature:
    """Return the signature of these labels; None for an axis of size 1 that is stretched, or for a label of several
    sizes.
    """
    axes = list(zip(result, y.shape, strict=True))
    for x, labels in zip(xs, inputs, strict=True):
        axes += zip(labels, x.shape, strict=True)
    sizes: dict[Label, Size] = {}
    if all(same(sizes.setdefault(label, size), size) for label, size in axes if label is not None):  # nearly always
        return AxisSignature(tuple(map(tuple, inputs)), tuple(result), combine, stack)
    sizes.clear()
    for label, size in axes:
        if label not in sizes or (label not in result and same(sizes[label], 1)):
            sizes[label] = size
    split = {label for label, size in axes if not same(size, sizes[label]) and not same(size, 1)} | {None}

    def known(label: Label, size: Size) -> Label:
        return label if label not in split and same(size, sizes[label]) else None

    return AxisSignature(
        tuple(tuple(map(known, labels, x.shape)) for x, labels in zip(xs, inputs, strict=True)),
        tuple(map(known, result, y.shape)),
        combine,
        stack,
    )
