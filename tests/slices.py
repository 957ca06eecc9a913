"""Axis signatures checked against operators on slices."""

from __future__ import annotations

import warnings
from functools import reduce
from itertools import pairwise

import numpy as np

from symgrad.core.axes import signature_of
from symgrad.core.graph import Aval, reached
from symgrad.core.interpret import interpret


def check_flows(outputs, feeds):
    """Every node that `outputs` need keeps what its signature says."""
    nodes = reached(outputs)
    values = dict(zip(nodes, interpret(nodes, feeds), strict=True))
    for node in nodes:
        if node.inputs and all(type(x.aval) is Aval for x in (node, *node.inputs)):
            check_signature(node, [values[x] for x in node.inputs], values[node])


def check_signature(node, inputs, whole):
    """Slices of the result are made of slices of the inputs, and what is reduced is joined from its parts."""
    signature = signature_of(node)
    sizes = labelled_sizes(signature, inputs, whole)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for label, size in sizes.items():
            cuts = sorted({0, min(size, 1), min(size, (size + 2) // 2), size})
            slices = [slice(i, j) for i, j in pairwise(cuts)]
            parts = [evaluated(node, signature, label, part, inputs) for part in slices]
            if label in signature.result:
                for part, got in zip(slices, parts, strict=True):
                    want = at(label, signature.result, part, whole)
                    check_same(got, want, [whole], (node, signature, label, part))
            elif parts:
                check_same(reduce(signature.combine, parts), whole, inputs, (node, signature, label))


def labelled_sizes(signature, inputs, whole):
    """The size of each label: there is one for each axis, in one input once at most, and what is reduced is joined."""
    sizes = {}
    for labels, x in zip((*signature.inputs, signature.result), (*inputs, whole), strict=True):
        given = [label for label in labels if label is not None]
        assert len(given) == len(set(given)), signature
        for label, size in zip(labels, np.shape(x), strict=True):
            assert label is None or sizes.setdefault(label, size) == size, signature
    assert signature.combine is not None or set(sizes) <= set(signature.result), signature
    return sizes


def at(label, labels, part, x):
    """The slice of `x` along the axis with a label."""
    return x[tuple(part if k == label else slice(None) for k in labels)] if label in labels else x


def evaluated(node, signature, label, part, inputs):
    """The operator on slices; a parameter `shape` is that of the result."""
    params = {**node.op.defaults, **dict(node.params)}
    if "shape" in params and label in signature.result:
        length = part.stop - part.start
        pairs = zip(signature.result, params["shape"], strict=True)
        params["shape"] = tuple(length if k == label else n for k, n in pairs)
    xs = [at(label, labels, part, x) for labels, x in zip(signature.inputs, inputs, strict=True)]
    return node.op.evaluate(*xs, **params)


RTOL = {"f2": 2e-2, "f4": 1e-4, "f8": 1e-9, "c8": 1e-4, "c16": 1e-9}


def check_same(got, want, terms, about):
    """The same shape and dtype, and the same numbers up to rounding, as large as that of `terms` makes it."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), about
    if got.tobytes() == want.tobytes():  # most have the same bits, which is seen sooner
        return
    rtol = RTOL.get(want.dtype.str[1:], 0)
    sizes = [np.abs(x[np.isfinite(x)]).max(initial=1) for x in map(np.asarray, terms)]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(sizes), err_msg=str(about))
