"""Modes of np.pad whose margins are computed: statistics of what lies at the edge, ramps, odd reflections."""

import numpy as np

from symgrad.core.shapes import with_size
from symgrad.core.sizes import same
from symgrad.errors import ShapeError
from symgrad.ops.accumulate import along

STATISTICS = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


def with_margins(x, widths, margin):
    """Pad one axis after the other, the later ones with the margins of the earlier ones.

    ``margin(x, axis, end, n)`` gives the `n` numbers before the first one (`end` 0) or behind the last (`end` 1).
    """
    for axis, (before, after) in enumerate(widths):
        left, right = ([] if same(n, 0) else [margin(x, axis, end, n)] for end, n in enumerate((before, after)))
        x = np.concatenate([*left, x, *right], axis) if left or right else x
    return x


def _edge(x, axis, end, n=1):
    """The first numbers, or the last."""
    size = x.shape[axis]
    return along(x, axis, slice(0, n) if end == 0 else slice(size - n, size))


def _repeated(x, axis, n):
    return np.broadcast_to(x, with_size(x.shape, axis, n))


def statistic(mode, lengths):
    """Margins of one number each: that of all along the axis, or of the `lengths` numbers at the edge."""

    def margin(x, axis, end, n):
        size, length = x.shape[axis], lengths[axis][end]
        if length is not None and (not isinstance(size, int) or length < size):
            x = _edge(x, axis, end, length)
        y = STATISTICS[mode](x, axis=axis, keepdims=True)
        y = np.rint(y) if x.dtype.kind in "iu" else y  # the mean of truths is true unless it is 0
        return _repeated(y if y.dtype == x.dtype else np.astype(y, x.dtype), axis, n)

    return margin


def ramp(ends):
    """Margins that run from a number to the edge in equal steps."""

    def margin(x, axis, end, n):
        edge = np.squeeze(_edge(x, axis, end), axis)
        steps = np.linspace(ends[axis][end], edge, n, endpoint=False, axis=axis)
        steps = steps if x.dtype.kind == "f" else np.floor(steps)
        steps = steps if steps.dtype == x.dtype else np.astype(steps, x.dtype)
        return steps if end == 0 else np.flip(steps, axis)

    return margin


def odd(mode):
    """Margins that go on as a line would: twice the edge less its reflection."""
    skipped = 1 if mode == "reflect" else 0

    def margin(x, axis, end, n):
        size = x.shape[axis]
        if isinstance(n, int) and isinstance(size, int) and n > size - skipped:
            raise ShapeError(f"np.pad: {mode} has no margin of {n} for axis {axis} of size {size}", "Pad twice.")
        start = skipped if end == 0 else size - skipped - n
        return 2 * _edge(x, axis, end) - np.flip(along(x, axis, slice(start, start + n)), axis)

    return margin
