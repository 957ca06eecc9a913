"""Access to rows within a block: `READ_ROWS` slices the rows of an extent, `WRITE_ROWS` assigns to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.core.graph import Aval, Op
from symgrad.core.shapes import key_along, with_size
from symgrad.core.sizes import Rows, Size
from symgrad.ops.index_expressions import Slice, decode

Key = tuple[Any, ...]


def _read(x: Any, start: int, stop: int, first: int, axis: int, by: Size, rows: Rows) -> Any:
    return x[key_along(axis, slice(start + by - first, stop + by - first))]


def _infer_read(x: Aval, *places: Aval, axis: int, by: Size, rows: Rows) -> Aval:
    return x._replace(shape=with_size(x.shape, axis, rows))


READ_ROWS = Op("read_rows", _read, _infer_read, view=True)
"""Read rows `start` to `stop` of an array whose first row is `first`, perhaps moved by some places."""


def key_at(key: Key, place: int, start: Any, stop: Any) -> Key:
    """Return an index with the slice of rows at its position."""
    return with_size(key, place, Slice(start, stop, None))


def _write(x: Any, value: Any, start: int, stop: int, first: int, adds: bool, by: Size, key: Key, place: int) -> Any:
    y = np.array(x)
    at = decode(key_at(key, place, start + by - first, stop + by - first), ())
    if adds:
        y[at] += value
    else:
        y[at] = value
    return y


WRITE_ROWS = Op("write_rows", _write, lambda x, *inputs, **params: x, assigns=True)
"""Rows from `start` to `stop` of a value set, or added, so many places further on in rows from `first` on."""
