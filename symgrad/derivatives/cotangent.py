"""Cotangents in the making, and the masks that say where they flow.

A mask travels by the labels of axes: something flows to a slice of an input if it flows to any slice of the result
that is made from it. What a rule multiplies with must be clean where nothing flows: infinity times zero is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.axes import AxisSignature, Label, Labels, signature_of
from symgrad.core.graph import Aval, Node, Op
from symgrad.core.shapes import is_one, render_tuple, same_shape
from symgrad.core.sizes import Shape
from symgrad.errors import ArgumentError, ShapeError
from symgrad.frontend.variable import Variable
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import WHERE
from symgrad.ops.create import FULL
from symgrad.ops.index import GET
from symgrad.ops.shape import BROADCAST_TO

Mask = Variable | None  # None: anything may flow anywhere


class Cotangent(NamedTuple):
    """A cotangent in the making.

    Nothing flows where `mask` is false: there the value is zero, or is to become zero. Where `valid` is false it may
    hold anything as yet: the partial of the branch that was not taken, or a NaN, which is an infinite partial times
    zero. It is cleaned once, where it leaves the elementwise part of the program.
    """

    value: Variable
    mask: Mask = None
    valid: Mask = None

    def settled(self) -> Variable:
        return self.value if self.valid is None else np.where(self.valid, self.value, 0)

    def of_input(self, aval: Aval, op: Op) -> Cotangent:
        """The cotangent of an input of `op`: real of a real one, summed over the axes along which it was repeated."""
        if aval.dtype.kind != "c" and self.value.dtype.kind == "c":
            return self._replace(value=np.real(self.value)).of_input(aval, op)
        shape = self.value.shape
        if same_shape(shape, aval.shape):
            return self
        if not _repeats(shape, aval.shape):
            raise ShapeError(
                f"the rule of {op.path} gives a cotangent of shape {render_tuple(shape)} for an input {aval}",
                "A cotangent has the shape of its input, or one that the input broadcasts to.",
            )
        value = np.reshape(np.sum(self.settled(), axis=_repeated(shape, aval.shape)), aval.shape)
        return Cotangent(value, unbroadcast_mask(self.mask, shape, aval.shape))


def unbroadcast_mask(mask: Mask, shape: Shape, own: Shape) -> Mask:
    """Return the mask of a broadcast input in its own shape: where anything flows to any repetition."""
    if mask is None or same_shape(shape, own):
        return mask
    axes, repeated = tuple(range(len(shape))), _repeated(shape, own)
    return _carried(mask, axes, tuple([None if i in repeated else i for i in axes[len(shape) - len(own) :]]))


def _repeats(shape: Shape, own: Shape) -> bool:
    """Whether an array of a shape broadcasts to another one."""
    extra = len(shape) - len(own)
    return extra >= 0 and all([is_one(n) or same_shape((n,), (m,)) for n, m in zip(own, shape[extra:], strict=True)])


def _repeated(shape: Shape, own: Shape) -> tuple[int, ...]:
    """The axes along which an input is repeated that is to have another shape than its own."""
    extra = len(shape) - len(own)
    return (*range(extra), *(i + extra for i, n in enumerate(own) if is_one(n) and not is_one(shape[i + extra])))


def as_mask(p: Variable) -> tuple[Variable, Variable] | None:
    """(mask, q) where `p` is q under the mask and zero elsewhere."""
    if p.node.op is not WHERE:
        return None
    condition, x, y = (Variable(p.graph, n) for n in p.node.inputs)
    if is_number(y.node, 0):
        return condition, x
    return (~condition, y) if is_number(x.node, 0) else None


def is_number(node: Node, number: float) -> bool:
    """Whether a value is a constant equal to this number."""
    return np.ndim(node.constant) == 0 and bool(node.constant == number)


# ---- through operators that are not elementwise


class Linearised(NamedTuple):
    """A node at its values; its rule multiplies cotangents."""

    node: Node
    y: Any
    xs: Sequence[Any]

    def __call__(self, g: Any) -> Sequence[Any]:
        """Return for each input its cotangent, before unbroadcasting, or None."""
        op = self.node.op
        found = op.vjp(g, self.y, *self.xs, **{**op.defaults, **dict(self.node.params)})  # type: ignore[misc]
        if type(found) not in (tuple, list) or len(found) != len(self.xs):
            raise _wrong_number(op, "vjp", "cotangent", found, len(self.xs))
        return found

    def masks(self, mask: Variable, g: Variable, cotangents: Sequence[Any]) -> list[Mask]:
        """Return for each input the mask where its cotangent may be nonzero: by labels, or by the rule itself."""
        signature = _signature_to(self.node, cotangents)
        if not self.node.op.linear or _is_exact(self.node, signature, mask):
            pairs = zip(cotangents, signature.inputs, strict=True)
            return [None if gx is None else _carried(mask, signature.result, labels) for gx, labels in pairs]
        # numbers that take part in a product, unlike indices, could cancel: ones cannot
        ones = [x if gx is None else np.ones_like(x) for x, gx in zip(self.xs, cotangents, strict=True)]
        rule = self._replace(xs=ones) if len(ones) > 1 else self
        numbers = rule(np.broadcast_to(mask.astype(g.dtype), g.shape))
        return [None if n is None or _is_of_ones(n.node) else n != 0 for n in numbers]

    def cleaned(
        self, mask: Variable, masks: Sequence[Mask], cotangents: Sequence[Any], may_blow: Callable[[Node], bool]
    ) -> Linearised:
        """Itself with zeros for values that may be infinite where nothing flows, if they are summed with others.

        In a product zeros may stand for any operand. Elsewhere they do for the result: at a zero of its input a rule
        may be singular.
        """

        def zeroed(x: Any, where: Mask) -> Any:
            return np.where(where, x, 0) if where is not None and may_blow(x.node) else x

        signature = _signature_to(self.node, cotangents)
        pairs = zip(cotangents, signature.inputs, strict=True)
        if not any(gx is not None and _mixed(mask, signature.result, labels) for gx, labels in pairs):
            return self
        if not self.node.op.linear:
            return self._replace(y=zeroed(self.y, _carried(mask, signature.result, signature.result)))
        if len(self.xs) == 1:
            return self
        triples = zip(self.xs, cotangents, masks, strict=True)
        return self._replace(
            xs=[x if gx is None else zeroed(x, unbroadcast_mask(m, gx.shape, x.shape)) for x, gx, m in triples]
        )


def partials_of(node: Node, found: Any) -> Sequence[Any]:
    """Return what `partials` has given for a node, one for each input."""
    partials = found if isinstance(found, tuple) else (found,)
    if len(partials) != len(node.inputs):
        raise _wrong_number(node.op, "partials", "partial derivative", partials, len(node.inputs))
    return partials


def _wrong_number(op: Op, rule: str, what: str, found: Any, count: int) -> ArgumentError:
    given = f"{len(found)} of them" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
    inputs = f"its {count} inputs" if count > 1 else "its one input"
    return ArgumentError(
        f"{rule} of the operator {op.name} gives {given} for {inputs}",
        f"Return a tuple with one {what} for each input, such as ({', '.join(['g * y'] * count)}{',' * (count == 1)}); "
        "None stands for zero.",
    )


def _is_of_ones(node: Node) -> bool:
    """Whether numbers are read in an array of ones, wherever that is."""
    while node.op in (GET, ASTYPE, BROADCAST_TO):
        node = node.inputs[0]
    return node.op is FULL and is_number(node.inputs[0], 1)


def _signature_to(node: Node, cotangents: Sequence[Any]) -> AxisSignature:
    """The signature of a node whose inputs are repeated as their cotangents are; axes that they lack come first."""
    shapes = [x.aval.shape if gx is None else gx.shape for x, gx in zip(node.inputs, cotangents, strict=True)]
    extra = [len(shape) - len(x.aval.shape) for x, shape in zip(node.inputs, shapes, strict=True)]
    avals = [x.aval._replace(shape=shape[n:]) for x, shape, n in zip(node.inputs, shapes, extra, strict=True)]
    signature = signature_of(node, avals)
    inputs = [signature.result[:n] + own for n, own in zip(extra, signature.inputs, strict=True)]
    return signature._replace(inputs=tuple(inputs))


def _is_exact(node: Node, signature: AxisSignature, mask: Variable) -> bool:
    """Whether no axis is needed or made as a whole; one of size 1, or along which the mask is the same, may be made."""
    axes = list(zip(signature.result[len(signature.result) - len(mask.shape) :], mask.shape, strict=True))
    for x, labels in zip(node.inputs, signature.inputs, strict=True):
        axes += zip(labels[len(labels) - len(x.aval.shape) :], x.aval.shape, strict=True)
    return all(label is not None or is_one(n) for label, n in axes)


def _carried(mask: Variable, result: Labels, labels: Labels) -> Variable:
    """Return the mask of an input from that of a result: any of the elements that the input's slice affects.

    Axes along which it is the same have size 1, or are left out at the front.
    """
    own = result[len(result) - len(mask.shape) :]
    mixed = _mixed(mask, result, labels)
    if own == labels[len(labels) - len(own) :]:
        return np.any(mask, axis=mixed, keepdims=True) if mixed else mask
    places = [None if _lacks(own, label) else own.index(label) for label in labels]
    kept = [i for i in places if i is not None]
    if mixed:
        mask = np.any(mask, axis=tuple([i for i in range(mask.ndim) if i not in kept]))
    else:
        mask = np.reshape(mask, tuple([mask.shape[i] for i in sorted(kept)]))
    mask = np.transpose(mask, [sorted(kept).index(i) for i in kept])
    sizes = iter(mask.shape)
    return np.reshape(mask, tuple([1 if i is None else next(sizes) for i in places]))


def _mixed(mask: Variable, result: Labels, labels: Labels) -> tuple[int, ...]:
    """Return the axes of a mask along which the input is not computed slice by slice."""
    own = result[len(result) - len(mask.shape) :]
    return tuple([i for i, n in enumerate(mask.shape) if not is_one(n) and _lacks(labels, own[i])])


def _lacks(labels: Labels, label: Label) -> bool:
    return label is None or label not in labels
