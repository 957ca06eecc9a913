"""Checks that tests of matrix operators share: values up to rounding, batch rules, symbolic sizes."""

from __future__ import annotations

from itertools import product

import numpy as np

from symgrad.core.graph import ITEM, Aval, Graph, reached, verify
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.batch import batch
from symgrad.errors import UnsupportedError
from symgrad.frontend.variable import Variable, record
from tests.oracle import trace
from tests.slices import check_flows


def as_tuple(y):
    return tuple(y) if isinstance(y, (tuple, list)) else (y,)


def check_close(f, *args, rtol=None):
    """Check a value like `oracle.check_value`, where another order of the same sums may round differently."""
    expected = as_tuple(f(*args))
    graph, inputs, outputs = trace(f, *args)
    verify(graph)
    assert len(outputs) == len(expected)
    for node, result, want in zip(
        outputs, interpret(outputs, dict(zip(inputs, args, strict=True))), expected, strict=True
    ):
        aval = node.aval._replace(weak=False) if type(want) is bool else node.aval
        want = np.asarray(want)
        assert aval == Aval(want.shape, want.dtype)
        assert (np.shape(result), np.asarray(result).dtype) == (want.shape, want.dtype)
        precise = want.dtype.itemsize >= 8 and want.dtype != np.complex64
        tolerance = rtol or (1e-10 if precise else 2e-4)
        np.testing.assert_allclose(result, want, rtol=tolerance, atol=tolerance)
    check_flows(outputs, dict(zip(inputs, args, strict=True)))


ROW_BY_ROW = {"searchsorted", "digitize", "convolve", "correlate", "add.reduceat", "real_roots"}
"""Operators with inputs of which they take no stacks: these are batched one by one, and not by a symbolic number."""


def check_batch(f, *args, rtol=1e-9):
    """Every operator in `f`, batched, against row by row."""
    _, inputs, outputs = trace(f, *args)
    nodes = [node for node in reached(outputs) if node.inputs and node.op is not ITEM]
    assert nodes, "no operator with inputs"
    for node in nodes:
        check_batched_node(node, interpret([*node.inputs], dict(zip(inputs, args, strict=True))), rtol)


def check_batched_node(node, values, rtol=1e-9):
    """For each choice of inputs, the first and the last axis telling apart what there is an exact or symbolic number
    of."""
    refused = []
    for batched in product((False, True), repeat=len(values)):
        if not any(batched):
            continue
        rows = [
            _rows_of(x.aval, value) if b else value for x, value, b in zip(node.inputs, values, batched, strict=True)
        ]
        for axis, symbolic in product((0, -1), (False, True)):
            try:
                _check_rows(node, batched, rows, axis, symbolic, rtol)
            except UnsupportedError:
                assert symbolic, node.op
                refused.append(batched)
    assert bool(refused) == (node.op.name in ROW_BY_ROW), (node.op, refused)


def _rows_of(aval, value):
    rows = np.stack([np.asarray(value) * (1 + i / 8) for i in range(3)]).astype(aval.dtype)
    return [row.item() for row in rows] if aval.weak else rows


def _check_rows(node, batched, rows, axis, symbolic, rtol):
    graph = Graph()
    size = Sizes().symbol("rows") if symbolic else 3
    inputs = [graph.add_input(f"x{i}", x.aval) for i, x in enumerate(node.inputs)]
    outputs = as_tuple(record(graph, node.op, [Variable(graph, x) for x in inputs], dict(node.params)))
    lifted, feeds = {}, {}
    for x, b, value in zip(inputs, batched, rows, strict=True):
        at = axis % (x.aval.ndim + 1)
        shape = (*x.aval.shape[:at], size, *x.aval.shape[at:])
        image = graph.add_input(f"rows{x.id}", Aval(shape, x.aval.dtype)) if b else x
        lifted |= {x: image} if b else {}
        feeds[image] = np.moveaxis(value, 0, at) if b else value
    images = batch(graph, [y.node for y in outputs], lifted, dict.fromkeys(lifted, axis), to=axis)
    verify(graph)
    params = {**node.op.defaults, **dict(node.params)}
    each = [
        as_tuple(node.op.evaluate(*[x[i] if b else x for b, x in zip(batched, rows, strict=True)], **params))
        for i in range(3)
    ]
    for result, *wanted in zip(interpret(images, feeds), *each, strict=True):
        expected = np.stack(wanted, axis)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype), (node.op, batched, axis)
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol, err_msg=f"{node.op} {batched} {axis}")


def inferred(f, *avals):
    """The avals of the results of `f` on inputs that are known by aval only."""
    graph = Graph()
    xs = [Variable(graph, graph.add_input(f"x{i}", aval)) for i, aval in enumerate(avals)]
    results = [y.aval for y in as_tuple(f(*xs))]
    verify(graph)
    return results[0] if len(results) == 1 else results
