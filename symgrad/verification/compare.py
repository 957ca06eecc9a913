"""Comparison of the results of an edited file with those of its model, beyond rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.rounding import Values, agrees, distance, furthest
from symgrad.core import tree
from symgrad.core.shapes import render_shape
from symgrad.verification.model import Known, Model

CANCELS = 1e-8  # of the largest number on the way: a difference so small may be what rounding has left


class Comparison(NamedTuple):
    """The fault in the results at a point, "" if there is none; and how large differences are, if there is none."""

    fact: str
    worst: float = 0.0
    apart: float = np.inf  # how far numbers are apart that should be the same, if that is what is wrong


def compared(result: Any, known: Known, model: Model, rtol: float | None) -> Comparison:
    """Compare what a file gives at a point with what its model gives.

    Where the model is NaN, or overflows, and a rewritten form of it does not, that form is the model. A difference that
    is small beside the numbers on the way counts only if they cannot leave it when their rounding cancels.
    """
    found = _compared(result, known, model, rtol)
    if not found.fact or not found.apart < np.inf:
        return found
    doubted, highest = model.doubted(known)
    if found.apart > CANCELS * highest:
        return found
    again = _compared(result, doubted, model, rtol)
    return found if again.fact else again


def _compared(result: Any, known: Known, model: Model, rtol: float | None) -> Comparison:
    leaves, structure = tree.flatten(result)
    paths, wanted, expected_structure = tree.flatten_with_paths(model.program.outputs)
    if structure != expected_structure:
        return Comparison(f"it returns {tree.render(structure)}, the model returns {tree.render(expected_structure)}")
    expected = iter(known.values.results)
    is_traced = [hasattr(x, "node") for x in wanted]
    found: list[tuple[str, Any, Any]] = []
    for path, got, want, traced in zip(paths, leaves, wanted, is_traced, strict=True):
        name = path.codify("result")
        if traced:
            found.append((name, got, next(expected)))
        elif type(got) is not type(want) or got != want:
            return Comparison(f"{name} is {got!r}, the model's is {want!r}")
    return _arrays_compared(found, known, model, rtol)


def _arrays_compared(
    found: Sequence[tuple[str, Any, Any]], known: Known, model: Model, rtol: float | None
) -> Comparison:
    worst = 0.0
    rewritten: Values | None = None
    for i, (name, got, expected) in enumerate(found):
        if _described(got) != _described(expected):
            return Comparison(f"{name} is {_described(got)}, the model's is {_described(expected)}")
        got, expected = np.asarray(got), np.asarray(expected)
        right = agrees(got, expected, known.values.noise[i], rtol)
        if not right.all() and (known.values.left_range or not np.isfinite(expected).all()):
            rewritten = rewritten or model.rewritten(known.point) or known.values
            right |= _excused(got, expected, known.values.left_range, rewritten, i, rtol)
        if not right.all():
            return Comparison(
                _difference(name, got, expected, right), apart=float(np.max(distance(got, expected)[~right]))
            )
        worst = max(worst, _relative(got, expected))
    return Comparison("", worst)


def _described(x: Any) -> str:
    array = np.asarray(x)
    return f"{array.dtype}[{render_shape(array.shape)}]"


def _excused(
    got: np.ndarray, expected: np.ndarray, left_range: bool, rewritten: Values, i: int, rtol: float | None
) -> np.ndarray:
    """Return where the traced model is not reliable: NaN, infinite, or made of numbers that left their range."""
    other = np.asarray(rewritten.results[i])
    doubtful = left_range | ~np.isfinite(expected) | ~np.isfinite(other)
    mended = np.isfinite(got) & ~np.isfinite(other) & (np.isnan(expected) | left_range & ~np.isfinite(expected))
    lost = np.isnan(expected) & ~np.isfinite(other)
    return np.asarray(doubtful & agrees(got, other, rewritten.noise[i], rtol) | mended | lost)


def _difference(name: str, got: np.ndarray, expected: np.ndarray, right: np.ndarray) -> str:
    """The number that is furthest off, and how many are."""
    place, mine, other = furthest(got, expected, ~right)
    many = f" ({np.sum(~right)} of {right.size} numbers differ)" if right.size > 1 else ""
    return f"{name}{place} is {mine}, the model's is {other}{many}"


def _relative(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of finite numbers, relative to the largest of these."""
    finite = np.isfinite(got) & np.isfinite(expected)
    if got.dtype.kind not in "fc" or not finite.any():
        return 0.0
    largest = float(np.max(np.abs(expected[finite])))
    return float(np.max(np.abs(got[finite] - expected[finite]))) / largest if largest else 0.0
