"""Results of an edited file beside those of its model: which numbers are others, and by more than rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.shapes import render_shape
from symgrad.verification.model import Known, Model
from symgrad.verification.rounding import Values, distance

SPREAD = 32  # so many times as far as rounding moved it in a few samples may a number be from the model's


class Comparison(NamedTuple):
    """What is wrong with the results at a point, "" if nothing is; and how large differences are, if nothing is."""

    fact: str
    worst: float = 0.0


def compared(result: Any, known: Known, model: Model, rtol: float | None) -> Comparison:
    """Compare what a file gives at a point with what its model gives.

    Where the model is NaN, or overflows, and a rewritten form of it does not, that form is the model.
    """
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
        right = _agrees(got, expected, known.values.noise[i], rtol)
        if not right.all() and (known.values.left_range or not np.isfinite(expected).all()):
            rewritten = rewritten or model.rewritten(known.point) or known.values
            right |= _excused(got, expected, known.values.left_range, rewritten, i, rtol)
        if not right.all():
            return Comparison(_difference(name, got, expected, right))
        worst = max(worst, _relative(got, expected))
    return Comparison("", worst)


def _described(x: Any) -> str:
    array = np.asarray(x)
    return f"{array.dtype}[{render_shape(array.shape)}]"


def _agrees(got: np.ndarray, expected: np.ndarray, noise: np.ndarray, rtol: float | None) -> np.ndarray:
    """Where numbers are the same to rounding, which may decide whether they are finite."""
    if expected.dtype.kind not in "fc":
        return np.asarray(distance(got, expected) <= noise)
    eps, size = float(np.finfo(expected.dtype).eps), np.abs(expected)
    largest = np.max(size, initial=0.0, where=np.isfinite(size))
    allowed = (eps**0.75 if rtol is None else rtol) * size + SPREAD * noise + 4 * eps * largest
    return np.asarray(np.isinf(noise) | (distance(got, expected) <= np.where(np.isfinite(size), allowed, 0.0)))


def _excused(
    got: np.ndarray, expected: np.ndarray, left_range: bool, rewritten: Values, i: int, rtol: float | None
) -> np.ndarray:
    """Where the model as it was traced is no truth: NaN, infinite, or made of numbers that left their range."""
    other = np.asarray(rewritten.results[i])
    doubtful = left_range | ~np.isfinite(expected) | ~np.isfinite(other)
    mended = np.isfinite(got) & ~np.isfinite(other) & (np.isnan(expected) | left_range & ~np.isfinite(expected))
    lost = np.isnan(expected) & ~np.isfinite(other)
    return np.asarray(doubtful & _agrees(got, other, rewritten.noise[i], rtol) | mended | lost)


def _difference(name: str, got: np.ndarray, expected: np.ndarray, right: np.ndarray) -> str:
    """The number that is furthest off, and how many are."""
    place, mine, other = furthest(got, expected, ~right)
    many = f" ({np.sum(~right)} of {right.size} numbers differ)" if right.size > 1 else ""
    return f"{name}{place} is {mine}, the model's is {other}{many}"


def furthest(got: np.ndarray, expected: np.ndarray, among: Any = True) -> tuple[str, str, str]:
    """The place where two arrays are furthest apart, "" of numbers, and what stands there in each."""
    apart = np.where(among, distance(got, expected), -1.0)
    index = np.unravel_index(int(np.argmax(apart)), apart.shape)
    place = f"[{', '.join(map(str, map(int, index)))}]" if index else ""
    return (place, *_told_apart(got[index], expected[index]))


def _told_apart(a: Any, b: Any) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart, and no fewer than six."""
    if np.asarray(a).dtype.kind != "f":
        return str(a), str(b)
    pairs = ((f"{a:.{digits}g}", f"{b:.{digits}g}") for digits in range(6, 18))
    return next((pair for pair in pairs if pair[0] != pair[1]), (repr(float(a)), repr(float(b))))


def _relative(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of finite numbers, relative to the largest of these."""
    finite = np.isfinite(got) & np.isfinite(expected)
    if got.dtype.kind not in "fc" or not finite.any():
        return 0.0
    largest = float(np.max(np.abs(expected[finite])))
    return float(np.max(np.abs(got[finite] - expected[finite]))) / largest if largest else 0.0
