"""Stacked values whose shapes differ between the iterations of a loop: the interpreter keeps a list of them."""

import numpy as np

import symgrad as sg
from symgrad.core.interpret import interpret


def casteljau(p, t):
    for _ in range(len(p) - 1):
        p = np.sin((1 - t) * p[:-1] + t * p[1:])
    return p[0]


def test_the_interpreter_reads_residuals_of_different_lengths():
    p = np.linspace(0.2, 1.1, 5)
    for spec in (p, "float64[n]"):
        graph = sg.grad(casteljau, (0, 1), loops=3, target="numpy").compile(spec, 0.3, optimize=1).graph
        found = interpret(graph.outputs, dict(zip(graph.inputs, (p, 0.3), strict=True)))
        expected = sg.grad(casteljau, (0, 1), loops="unroll")(p, 0.3)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13)
