"""Branches and loops: operators that hold as regions what they do, once or many times."""

from itertools import count, repeat

import numpy as np

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, SIZE, Aval, depends, reached
from symgrad.core.interpret import at_sizes
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, has_side, is_symbol, outside, symbols_of
from symgrad.core.text import is_name
from symgrad.errors import GraphError
from symgrad.ops.define import operator
from symgrad.spelling import call, tested

UNBOUNDED = -1
"""The length of a loop that its test alone ends."""

INDEX = Aval((), np.dtype(int), True)
"""Abstract value of the index of a loop, and of the number of iterations: a Python int."""

KEPT = INDEX._replace(weak=False)
"""Abstract value of a number of iterations that was stacked: a NumPy integer."""


def _fits(region, inputs):
    """Whether a region can be given such inputs."""
    return len(region.parameters) == len(inputs) and all(
        x.dtype == y.aval.dtype and same_shape(x.shape, y.aval.shape)
        for x, y in zip(inputs, region.parameters, strict=True)
    )


def _check(holds):
    if not holds:
        raise GraphError("a region is given other inputs than its parameters", "Give one for each, of its kind.")


# ---- branches


def _infer_branch(pred, *operands, other, then):
    _check(pred.shape == () and _fits(other, operands) and _fits(then, operands))
    pairs = zip(then.results, other.results, strict=True)
    return tuple([y.aval._replace(shape=tuple(map(outside, y.aval.shape, z.aval.shape))) for y, z in pairs])


COND = operator(
    lambda pred, *operands, other, then: tuple((then if pred else other)(*operands)),
    name="cond",
    infer=_infer_branch,
    bind=lambda pred, *operands, other, then: ((pred, *operands), {"other": other, "then": then}),
)
"""Call the region `then` with the operands if the first input is true, else the region `other`."""


# ---- loops


def parted(inputs, carried, sliced):
    """Split the inputs of a loop after its length: ``(carry, xs, consts)``."""
    behind = carried + sliced
    return inputs[:carried], inputs[carried:behind], inputs[behind:]


def _infer_loop(
    length, *inputs, body, carried, sliced=0, turns=None, test=None, reverse=False, checkpoint=None, place=None
):
    carry, xs, consts = parted(inputs, carried, sliced)
    slices = [Aval(x.shape[1:], x.dtype) for x in xs]
    _check(place is None or is_name(place))
    _check(length.shape == () and _fits(body, [*carry, INDEX, *slices, *consts]))
    _check(test is None or _fits(test, [*carry, INDEX, *consts]))
    results = [y.aval for y in body.results]
    _check(_fits(body, [*results[:carried], INDEX, *slices, *consts]))
    ys = [Aval((turns, *y.shape), y.dtype) for y in results[carried:]]
    return (*[x.aval for x in body.parameters[:carried]], *ys, *[INDEX] * (test is not None))


def _iterated(
    length, *inputs, body, carried, sliced=0, turns=None, test=None, reverse=False, checkpoint=None, place=None
):
    carry, xs, consts = parted(inputs, carried, sliced)
    indices = count() if length == UNBOUNDED else range(length)
    sizes, rows = body.sizes, []
    for t in reversed(indices) if reverse else indices:
        body, test = (each if place is None or each is None else each.at({place: t}) for each in (body, test))
        if test is not None and not test(*carry, t, *consts)[0]:
            break
        results = body(*carry, t, *[x[t] for x in xs], *consts)
        carry = results[:carried]
        rows.append(results[carried:])
    if reverse:
        rows.reverse()
    columns = zip(*rows, strict=True) if rows else repeat((), len(body.region.results) - carried)
    avals = [y.aval for y in body.region.results[carried:]]
    ys = [_stacked(column, aval, sizes) for column, aval in zip(columns, avals, strict=True)]
    return (*carry, *ys, *[len(rows)] * (test is not None))


def _stacked(rows, aval, sizes):
    """Return the stacked rows, or a list of rows where their shapes differ."""
    if any(name not in sizes for n in aval.shape for name in symbols_of(n)):
        return [*rows]
    return np.array(rows, aval.dtype).reshape((len(rows), *at_sizes(aval.shape, sizes)))


SCAN = operator(
    _iterated,
    name="scan",
    infer=_infer_loop,
    bind=lambda length, *inputs, **params: ((length, *inputs), params),
)
"""A loop with the inputs ``(length, *carry, *xs, *consts)``.

In each iteration `body` is given ``(*carry, t, *xs, *consts)``, with slices of the xs, and gives ``(*carry, *ys)``: the
next carry, and values to stack. `t` is the loop's index, into the xs and the ys: from 0 to ``length - 1``, downwards if
`reverse`. The loop ends after `length` iterations, or before one for which `test`, given ``(*carry, t, *consts)``,
is false; a length of -1 is no bound.

The results are the final carry, the ys and, with a test, the number of iterations. `turns` is that number as a size: a
symbol of its own where only running tells. `place` is the name of the symbol that stands for the index in sizes, where
there are such. `checkpoint` says how many states a pullback stores at most, see `derivatives.segments`; else it stores
all.
"""


# ---- bodies


def own_sizes(nodes):
    """Return the symbols of sizes that loops among `nodes` define: their numbers of iterations and their indices."""
    loops = [dict(node.params) | {"length": node.inputs[0]} for node in nodes if node.op is SCAN]
    open_ended = [p for p in loops if "turns" in p and ("test" in p or p["length"].op not in (CONSTANT, SIZE))]
    return {str(p["turns"]) for p in open_ended if is_symbol(p["turns"])} | {p["place"] for p in loops if "place" in p}


def mentions(node, names):
    """Whether a symbol among `names` is part of a shape or a parameter of a node."""
    return any(not names.isdisjoint(symbols_of(size)) for size in _sizes(node))


def is_guarded(node):
    """Whether a shape or a parameter of a node has a meaning in the side of a branch alone: a slice whose extent the
    test makes certain.
    """
    return any(map(has_side, _sizes(node)))


def is_guarded_by(node, side):
    """Whether a guarded node has a meaning in the side of a branch of this number."""
    sizes = [size for size in _sizes(node) if has_side(size)]
    scope = sizes[0].scope
    return scope.common_side(side, own := scope.side_of(*(size.expr for size in sizes))) == own


def _sizes(node):
    avals = [node.aval] if type(node.aval) is Aval else node.aval
    return _sizes_in((*(aval.shape for aval in avals), *(value for _, value in node.params)))


def _sizes_in(value):
    if isinstance(value, Dim):
        return [value]
    return [size for item in value for size in _sizes_in(item)] if isinstance(value, tuple) else []


def may_fail(node):
    """Whether a node is not to be computed where the program does not ask for it: it raises, or has another shape."""
    return may_raise(node) or is_guarded(node)


def may_raise(node):
    """Whether NumPy raises for some numbers."""
    places = node.op.places
    return node.op.refuses or (places is not None and any(x.op is not CONSTANT for x in node.inputs[places:]))


def within(graph, results, parameters, index_size=None):
    """Return the nodes that a body has to compute itself, where the index is a size of the name `index_size`.

    These depend on its parameters, have sizes that only an iteration knows, or were made in the body and may fail: the
    loop may have no iteration.
    """
    nodes = reached(results)
    first = min(x.id for x in parameters)
    failing = (x for x in nodes if may_fail(x) and (x.id > first or graph.made_in_body(x)))
    return moving(nodes, [*parameters, *failing], index_size)


def moving(nodes, parameters, index_size=None):
    """Return the nodes that depend on `parameters`, or have sizes that only an iteration knows, such as its index."""
    found = depends(nodes, parameters)
    names = own_sizes([node for node in nodes if node in found]) | ({index_size} - {None})
    return depends(nodes, [*parameters, *(node for node in nodes if mentions(node, names))]) if names else found


# ---- stand-ins


TRANSPOSED = operator(
    lambda *gs, of, active, results: _check(False),
    name="transposed",
    infer=lambda *gs, of, active, results: tuple([of.inputs[i].aval._replace(weak=False) for i in active]),
)
"""The pullback of the branch or loop `of` in a forward derivative, to be transposed.

Takes the cotangents of `results` and gives those of the inputs numbered `active`. It is never evaluated.
"""


# ---- numbers

NUMBER = operator(
    lambda x: np.asarray(x).item(),  # a known one may be a Python number by now
    name="number",
    infer=lambda x: Aval((), x.dtype, True),
    vjp=lambda g, y, x: (g,),
    batch=lambda batched, x: x,
    spell=lambda node, x: call(type(node.aval.dtype.type().item()).__name__, [tested(x).text]),
    scalar=lambda node, x: x,
    signature=aligned,
    linear=True,
    cheap=True,
)
"""Convert a NumPy number to a Python number: a Python value that was stacked in an array."""

EITHER = operator(
    lambda x: x,
    name="either",
    infer=lambda x: x,
    batch=lambda batched, x: x,
    spell=lambda node, x: x,
    scalar=lambda node, x: x,
    signature=aligned,
    cheap=True,
)
"""Choose between a Python boolean and a NumPy boolean, as numbers decide."""
