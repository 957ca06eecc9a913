"""Chunks of rows, from arrays that are sliced and from iterables."""

from __future__ import annotations

import mmap
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.text import with_article
from symgrad.errors import ArgumentError, ShapeError

Arrays = tuple[np.ndarray, ...]


class Chunk(NamedTuple):
    """Rows of the chunked arguments."""

    number: int
    start: int
    stop: int
    arrays: Arrays
    turn: int  # how many chunks with rows are read before it

    def __str__(self) -> str:
        return f"chunk {self.number}, rows {self.start} to {self.stop}"


class Sliced:
    """Chunks of arrays that have a shape and can be sliced: NumPy's, memory maps, those of zarr and h5py."""

    def __init__(self, names: Sequence[str], arrays: Sequence[Any], axes: Sequence[int], rows: int) -> None:
        self.arrays, self.axes, self.rows, self.total = arrays, axes, rows, rows_of(names, arrays, axes)
        self.reads = not all(isinstance(x, np.ndarray) for x in arrays)  # of another library: worth reading ahead

    def __len__(self) -> int:
        return max(-(-self.total // self.rows), 1)

    def chunks(self, first: int = 0, back_from: int | None = None) -> Generator[Chunk, None, None]:
        """Yield all but the `first` chunks; from the last to the first where `back_from` is the number of rows."""
        numbers = range(len(self)) if back_from is None else range(len(self))[::-1]
        for turn, k in enumerate(numbers[first:], first):
            start, stop = k * self.rows, min((k + 1) * self.rows, self.total)
            mapped = [
                x for x, axis in zip(self.arrays, self.axes, strict=True) if isinstance(x, np.memmap) and axis == 0
            ]
            for x in mapped:
                after = stop if back_from is None else max(start - self.rows, 0)
                _advise(x[after : after + self.rows], "MADV_WILLNEED")
            pairs = zip(self.arrays, self.axes, strict=True)
            yield Chunk(k, start, stop, tuple([self._rows(x, axis, start, stop) for x, axis in pairs]), turn)
            for x in mapped:
                if x.mode != "c":  # whose pages may hold what is not in the file
                    _advise(x[start:stop], "MADV_DONTNEED")

    def _rows(self, x: Any, axis: int, start: int, stop: int) -> np.ndarray:
        part = x[(slice(None),) * axis + (slice(start, stop),)]
        return np.array(part) if self.reads else np.asarray(part)


def _advise(rows: np.memmap, advice: str) -> None:
    """Tell the system that rows of a memory map will be needed, or that their memory is not needed now."""
    owner: Any = rows
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and hasattr(mmap, advice) and rows.flags.c_contiguous and rows.size:
        begin = rows.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
        first = begin - begin % mmap.PAGESIZE
        owner.madvise(getattr(mmap, advice), first, begin + rows.nbytes - first)


def rows_of(names: Sequence[str], arrays: Sequence[Any], axes: Sequence[int]) -> int:
    """Return how many rows there are, of which all arrays must have as many."""
    sizes = [x.shape[axis] for x, axis in zip(arrays, axes, strict=True)]
    if len(set(sizes)) != 1:
        found = ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))
        raise ShapeError(f"chunked arguments differ in their number of rows: {found}", "Give as many rows of each.")
    return int(sizes[0])


class Streamed:
    """Chunks that an iterable gives, of any lengths: tuples of arrays, or dicts by the names of arguments."""

    def __init__(self, names: Sequence[str], chunks: Iterable[Any], axes: Sequence[int], total: int | None) -> None:
        self.names, self._given, self.axes, self.total, self.reads = names, chunks, axes, total, True
        self.again = iter(chunks) is not chunks  # whether it can be gone over again
        self.back = hasattr(chunks, "__len__") and any(hasattr(chunks, x) for x in ("__reversed__", "__getitem__"))

    def chunks(self, first: int = 0, back_from: int | None = None) -> Generator[Chunk, None, None]:
        """Yield all but the `first` chunks; from the last to the first where `back_from` is the number of rows."""
        numbered: Iterable[tuple[int, Any]] = enumerate(self._given)
        if back_from is not None:
            given_back: Any = self._given
            numbered = zip(reversed(range(len(given_back))), reversed(given_back), strict=True)
        turn, read = 0, 0
        for k, given in numbered:
            arrays = tuple(map(np.asarray, self._arrays(given, k)))
            lengths = {x.shape[axis] for x, axis in zip(arrays, self.axes, strict=True)}
            if len(lengths) != 1:
                found = " and ".join(map(str, sorted(lengths)))
                raise ShapeError(f"chunk {k} has arguments of {found} rows", "Give as many rows of each.")
            rows = lengths.pop()
            start = read if back_from is None else back_from - read - rows
            if rows and turn >= first:
                yield Chunk(k, start, start + rows, arrays, turn)
            turn, read = turn + (rows > 0), read + rows

    def _arrays(self, given: Any, k: int) -> Sequence[Any]:
        if isinstance(given, Mapping):
            missing = [name for name in self.names if name not in given]
            if missing:
                raise ArgumentError(f"chunk {k} has no {missing[0]}", f"A chunk has {', '.join(self.names)}.")
            return [given[name] for name in self.names]
        if len(self.names) == 1 and not isinstance(given, (tuple, list)):
            return [given]
        if not isinstance(given, (tuple, list)) or len(given) != len(self.names):
            raise ArgumentError(
                f"chunk {k} is {with_article(type(given).__name__)}, not {', '.join(self.names)}",
                "Give a tuple of arrays, or a dict by the names of arguments.",
            )
        return given


def ahead(chunks: Iterator[Chunk]) -> Generator[Chunk, None, None]:
    """Read the next chunk while one is used; an error is raised where its chunk would come."""
    with ThreadPoolExecutor(1, "symgrad chunks") as reader:
        coming = reader.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = reader.submit(next, chunks, None)
            yield chunk
