"""The bridge to Dask: chunks stay on the workers that have them, and partial results are combined there.

Dask schedules, retries and moves data. For a round the shared arguments are sent once, and there is one
task for each chunk and for each eight partial results; nothing is lost with a worker that dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.text import with_article
from symgrad.errors import ArgumentError, ShapeError
from symgrad.scale import worker
from symgrad.scale.combining import Parts
from symgrad.scale.sources import Chunk, rows_of
from symgrad.scale.worker import Part

TOGETHER = 8  # partial results that a task combines: a power of two, so that the pairs are those of one long list


def is_client(executor: Any) -> bool:
    """Whether this is a client of Dask; without importing it."""
    return type(executor).__module__.startswith("distributed.")


class Carried(NamedTuple):
    """The carries of a round: what chunks are given of earlier loops, and what they leave to their neighbours."""

    known: Callable[[int], list[Any]]  # by the turn of a chunk
    first: list[Any]
    left: list[int]  # which of the results of a chunk
    reverse: bool


class Blocks:
    """Chunked arguments as blocks of Dask's arrays, which are computed once and kept on the workers."""

    reads, rows = False, None

    def __init__(
        self, client: Any, names: Sequence[str], arrays: Sequence[Any], axes: Sequence[int], rows: int | None
    ) -> None:
        self.client = client
        import cloudpickle  # which Dask needs itself

        cloudpickle.register_pickle_by_value(worker)  # workers need no symgrad
        _check_versions(client)
        arrays = [_as_dask(x, axis, rows) for x, axis in zip(arrays, axes, strict=True)]
        sizes = [x.shape[axis] for x, axis in zip(arrays, axes, strict=True)]
        if any(np.isnan(size) for size in sizes):
            raise ShapeError(
                "an array of Dask does not know the sizes of its chunks", "Call x.compute_chunk_sizes() before."
            )
        cuts = rows or arrays[0].chunks[axes[0]]
        self.arrays = [
            x.rechunk({i: cuts if i == axis else -1 for i in range(x.ndim)})
            for x, axis in zip(arrays, axes, strict=True)
        ]
        self.total = rows_of(names, arrays, axes)
        filled = np.flatnonzero(self.arrays[0].chunks[axes[0]])
        self.blocks = [client.compute(list(x.to_delayed().ravel()[filled])) for x in self.arrays]  # by argument, chunk
        self.lengths = [int(self.arrays[0].chunks[axes[0]][k]) for k in filled]

    def __len__(self) -> int:
        return len(self.blocks[0])

    def results(self, part: Part, which: Sequence[int], shared: Sequence[Any], carried: Carried) -> list[Any]:
        """Return futures of what each chunk gives, in the order in which they are computed.

        Where chunks leave carries, each task waits for that of its neighbour.
        """
        program, arguments = self._sent(part.program), self._sent(list(shared))
        found: list[Any] = []
        for turn in range(len(self)):
            k = len(self) - 1 - turn if carried.reverse else turn
            left: Any = carried.first
            if found and carried.left:
                left = self.client.submit(worker.chosen, found[-1], carried.left, pure=False)
            rows = [self.blocks[i][k] for i in which]
            given = (rows, carried.known(turn), left, arguments)
            found.append(self.client.submit(worker.compute, program, part.function, *given, pure=False))
        return found

    def combined(self, found: Sequence[Any], which: Sequence[int], combine: Part) -> Parts:
        """Combine some of the results of chunks on the workers: the same pairs as anywhere else, several in a task."""
        program = self._sent(combine.program)
        while True:
            groups = [list(found[k : k + TOGETHER]) for k in range(0, len(found), TOGETHER)]
            found = [
                self.client.submit(worker.combined, program, combine.function, group, list(which), pure=False)
                for group in groups
            ]
            if len(found) == 1:
                parts: Parts = found[0].result()
                return parts
            which = range(len(which))

    def first_not_finite(self, found: Sequence[Any], reverse: bool) -> Chunk | None:
        """Return the first chunk whose results are not finite, without its rows; None where all are."""
        finite = self.client.gather([self.client.submit(worker.is_finite, x, pure=False) for x in found])
        if all(finite):
            return None
        turn: int = finite.index(False)
        k = len(found) - 1 - turn if reverse else turn
        start = sum(self.lengths[:k])
        return Chunk(k, start, start + self.lengths[k], (), turn)

    def gathered(self, found: Sequence[Any], i: int) -> list[Any]:
        """Return one result of each chunk."""
        rows: list[Any] = self.client.gather([self.client.submit(worker.chosen, x, [i], pure=False) for x in found])
        return [x for (x,) in rows]

    def _sent(self, x: Any) -> Any:
        """Send a value once, as a result that the scheduler makes again should it be lost with a worker."""
        return self.client.submit(worker.held, x, pure=False)


def _as_dask(x: Any, axis: int, rows: int | None) -> Any:
    if type(x).__module__.startswith("dask.array"):
        return x
    if rows is None:
        raise ArgumentError(
            f"a Dask client is given {with_article(type(x).__name__)}, which is not divided into chunks",
            "Give rows=, the rows of a chunk, or an array of Dask.",
        )
    import dask.array

    return dask.array.from_array(x, chunks=tuple(rows if i == axis else -1 for i in range(len(x.shape))))


def _check_versions(client: Any) -> None:
    """Refuse workers whose NumPy is of another version than the one here: their results may differ."""
    found = client.run(worker.numpy_version)
    if not found:
        raise ArgumentError(f"{client!r} has no worker", "Start workers, or wait for them: client.wait_for_workers(1).")
    other = {address: version for address, version in found.items() if version != np.__version__}
    if other:
        address, version = next(iter(other.items()))
        raise ArgumentError(
            f"the worker {address} has NumPy {version}, here it is {np.__version__}",
            "Install the same version everywhere.",
        )
