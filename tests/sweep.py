"""What the tests of matrix operators share: values up to rounding, batch rules, symbolic sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
from oracle import evaluate, trace
from slices import check_flows

from symgrad.core.graph import Aval, Graph, reached, verify
from symgrad.core.interpret import interpret
from symgrad.frontend.variable import Variable


def as_tuple(y):
    return tuple(y) if isinstance(y, (tuple, list)) else (y,)


def check_close(f, *args, rtol=None):
    """As `oracle.check_value`, where another order of the same sums may round differently."""
    expected = as_tuple(f(*args))
    graph, inputs, outputs = trace(f, *args)
    verify(graph)
    assert len(outputs) == len(expected)
    for node, result, want in zip(
        outputs, interpret(outputs, dict(zip(inputs, args, strict=True))), expected, strict=True
    ):
        want = np.asarray(want)
        assert node.aval == Aval(want.shape, want.dtype)
        assert (np.shape(result), np.asarray(result).dtype) == (want.shape, want.dtype)
        precise = want.dtype.itemsize >= 8 and want.dtype != np.complex64
        tolerance = rtol or (1e-10 if precise else 2e-4)
        np.testing.assert_allclose(result, want, rtol=tolerance, atol=tolerance)
    check_flows(outputs, dict(zip(inputs, args, strict=True)))


def check_batch(f, *args, rtol=1e-9):
    """The batch rule of every operator in `f`, for each choice of inputs, against row by row."""
    _, inputs, outputs = trace(f, *args)
    nodes = [node for node in reached(outputs) if node.inputs and node.op.batch is not None]
    assert nodes, "no operator with a batch rule"
    for node in nodes:
        values = interpret([*node.inputs], dict(zip(inputs, args, strict=True)))
        params = {**node.op.defaults, **dict(node.params)}
        for batched in product((False, True), repeat=len(values)):
            if any(batched):
                _check_rows(node.op, batched, values, params, rtol)


def _check_rows(op, batched, values, params, rtol):
    stacks = [
        np.stack([x * (1 + i / 8) for i in range(3)]).astype(x.dtype) if flag else x
        for flag, x in zip(batched, map(np.asarray, values), strict=True)
    ]
    rows = [
        as_tuple(op.evaluate(*[x[i] if flag else x for flag, x in zip(batched, stacks, strict=True)], **params))
        for i in range(3)
    ]
    results = evaluate(lambda *xs: op.batch(batched, *xs, **params), *stacks)
    for result, *each in zip(results, *rows, strict=True):
        expected = np.stack(each)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype), (op, batched)
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol, err_msg=f"{op} {batched}")


def inferred(f, *avals):
    """The avals of the results of `f` on inputs that are known by aval only."""
    graph = Graph()
    xs = [Variable(graph, graph.add_input(f"x{i}", aval)) for i, aval in enumerate(avals)]
    results = [y.aval for y in as_tuple(f(*xs))]
    verify(graph)
    return results[0] if len(results) == 1 else results
