"""Numbers to run a function on: those that are given, and made ones where only a shape is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.cli.shapes import Call
from symgrad.compiler.doctor import is_finite
from symgrad.core import tree
from symgrad.errors import ArgumentError
from symgrad.export.points import call as arguments_at, some_sizes, usual
from symgrad.frontend.arguments import Spec, bind, dotted_paths
from symgrad.transforms.gradients import compile


def parse_sizes(text: str) -> dict[str, int]:
    """The numbers of ``"n=1000, d=10"``."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, number = part.partition("=")
        try:
            found[name.strip()] = int(float(number)) if float(number) == int(float(number)) else -1
        except (ValueError, OverflowError):  # of infinity
            found[name.strip()] = -1
        if found[name.strip()] < 0:
            raise ArgumentError(f"{part!r} is not a size", 'Write name=number, as in --size "n=1000, d=10".')
    return found


def with_numbers(f: Callable[..., Any], call: Call, sizes: Mapping[str, int]) -> Call:
    """Return the call with arrays for its specs: usual numbers, the first for which the function is finite."""
    given = tree.flatten(tuple(bind(f, call.args, call.kwargs).arguments.values()))[0]
    if not any(isinstance(x, Spec) for x in given):
        _check_sizes(sizes, {})
        return call
    program = compile(f).trace(*call.args, **call.kwargs)
    found = some_sizes(program)
    _check_sizes(sizes, found)
    for point in usual(program, {**found, **sizes}):
        leaves = [x if isinstance(g, Spec) else g for x, g in zip(point.leaves, given, strict=True)]
        made = Call(*arguments_at(program, point._replace(leaves=leaves)))
        with np.errstate(all="ignore"):
            results = tree.flatten(f(*made.args, **made.kwargs))[0]
        if all(map(is_finite, results)):
            return made
    raise ArgumentError(
        f"{getattr(f, '__name__', 'the function')} is finite for none of the numbers that were tried",
        "Give some for which it is: --like data.npz.",
    )


def _check_sizes(sizes: Mapping[str, int], known: Mapping[str, int]) -> None:
    for name in sizes:
        if name not in known:
            raise ArgumentError(
                f"there is no size {name!r}", f"There is {', '.join(known)}." if known else "All sizes are numbers."
            )


def sizes_of(f: Callable[..., Any], call: Call) -> str:
    """The shapes of the arrays of a call, by argument."""
    paths, leaves, _ = dotted_paths(bind(f, call.args, call.kwargs).arguments)
    shapes = [(path, np.shape(x)) for path, x in zip(paths, leaves, strict=True) if isinstance(x, (np.ndarray, float))]
    return ", ".join(f"{path}: {'x'.join(map(str, shape)) or 'a number'}" for path, shape in shapes)
