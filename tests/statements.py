"""Kernels whose statements are verified and run one by one, in the place of C: ``pytest --target statements``."""

from unittest.mock import patch

import numpy as np

from symgrad.lowering import parallel, row_products, tiles
from symgrad.lowering.verify import verify
from symgrad.targets.c import kernels
from symgrad.targets.c.printing import Printer
from tests.lowering.interpret import Raised, interpret

SMALL_TILES = {"LARGE": 0, "SPARED": -1.0, "FEWEST": 1, "MOST": 3}
"""Numbers of `tiles` with which loops that share rows go over three of them at a time."""


def interpreted(name, made, parts, threads, repeating, call):
    """Return kernels as functions that interpret their statements."""
    with (  # of small programs as well
        patch.multiple(parallel, PAYS=0, LIGHT=0),
        patch.multiple(tiles, **SMALL_TILES),
        patch.object(row_products, "FEWEST", 1),
    ):
        pairs = zip(parts, kernels.lowered(parts), strict=True)
    return [
        kernels._of_any_size(_function(kernel, function, repeat), function, kernel, repeat)
        for kernel, function in pairs
        for repeat in [repeating(kernel)]
    ]


def printed_kernels(monkeypatch):
    """Return a list that fills with the C of kernels, which interpret their statements."""
    texts = []

    def compiled(name, made, parts, **rest):
        texts.extend(Printer(f).printed() for f in kernels.lowered(parts))
        return interpreted(name, made, parts, **rest)

    monkeypatch.setattr(kernels, "_compiled", compiled)
    return texts


def _function(kernel, function, repeat):
    verify(function)

    def run(*arguments):
        given, sizes = arguments[: len(function.parameters)], arguments[len(function.parameters) :]
        try:
            results = interpret(function, given, dict(zip(function.sizes, map(int, sizes), strict=True)))
        except (Raised, IndexError, ValueError) as error:
            repeat.again(*arguments)
            raise AssertionError("the statements end, and NumPy does not raise") from error
        results = [_result(x, y.aval) for x, y in zip(results, kernel.outputs, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _result(x, aval):
    if aval.shape:
        return np.array(x)
    return x[()].item() if aval.weak else x[()]
