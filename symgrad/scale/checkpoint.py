"""State of a run on disk: it goes on where it was stopped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.scale.combining import Parts

SELDOM = 10.0  # seconds between two writes


class Done(NamedTuple):
    """The results of a whole round: partial results of all chunks, rows and carries, and the lengths of chunks."""

    parts: Parts
    gathered: list[Any]
    lengths: tuple[int, ...]  # in the order in which they were read


class State(NamedTuple):
    """The state of a run: the results of whole rounds, and partial ones of the round that goes on."""

    done: list[Done]
    begun: tuple[tuple[int, Parts], ...] = ()
    gathered: tuple[list[Any], ...] = ()  # of the round that goes on, rows and carries by result and chunk
    lengths: tuple[int, ...] = ()  # of the chunks that have been read in it


class File:
    """The file that keeps the state of one run; a run of another program or other arguments is refused."""

    def __init__(self, path: str | Path, key: str) -> None:
        self.path, self.key, self._written = Path(path), key, monotonic()

    def read(self) -> State:
        """Return the state that was kept; that of the beginning where there is none."""
        if not self.path.exists():
            return State([])
        try:
            with np.load(self.path) as file:
                found = {name: file[name] for name in file.files}
            key = str(found.pop("key"))
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise ArgumentError(f"{self.path} is no checkpoint: {error}", "Delete it, or name another file.") from None
        if key != self.key:
            raise ArgumentError(
                f"{self.path} is the checkpoint of another run", "Delete it, or name another file for this run."
            )
        return _state(found)

    def write(self, state: State, now: bool = False) -> None:
        """Keep a state, unless one was written a moment ago."""
        if not now and monotonic() - self._written < SELDOM:
            return
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        with open(beside, "wb") as file:
            np.savez(file, key=np.array(self.key), **_arrays(state))
        os.replace(beside, self.path)
        self._written = monotonic()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def key_of(texts: Iterable[str], arrays: Iterable[Any], sizes: Iterable[Any]) -> str:
    """Return what tells runs apart: programs, shared arguments, and how chunks are cut."""
    found = sha256()
    for text in texts:
        found.update(text.encode())
    for x in arrays:
        found.update(repr((np.shape(x), np.asarray(x).dtype)).encode() + np.ascontiguousarray(x).tobytes())
    found.update(repr(tuple(sizes)).encode())
    return found.hexdigest()


def _arrays(state: State) -> dict[str, Any]:
    """Return a state as arrays by names: kind, round or level, result, chunk."""
    arrays: dict[str, Any] = {"at": np.array(state.lengths, int)}
    for k, (parts, rows, lengths) in enumerate(state.done):
        arrays[f"read-{k}-0"] = np.array(lengths, int)
        arrays |= {f"part-{k}-{i}": x for i, x in enumerate(parts)}
        arrays |= {f"rows-{k}-{i}": x for i, x in enumerate(rows)}
    for k, (level, parts) in enumerate(state.begun):
        arrays |= {f"begun-{k}-{i}": x for i, x in enumerate((level, *parts))}
    for k, chunks in enumerate(state.gathered):
        arrays |= {f"gathered-{k}-{i}": x for i, x in enumerate(chunks)}
    return arrays


def _state(arrays: dict[str, Any]) -> State:
    def named(kind: str, k: int) -> list[Any]:
        found: list[Any] = []
        while (x := arrays.get(f"{kind}-{k}-{len(found)}")) is not None:
            found.append(x[()])
        return found

    def all_named(kind: str) -> list[list[Any]]:
        count = 1 + max((int(name.split("-")[1]) for name in arrays if name.startswith(f"{kind}-")), default=-1)
        return [named(kind, k) for k in range(count)]

    read = [tuple(lengths.tolist()) for (lengths,) in all_named("read")]
    done = [Done(tuple(named("part", k)), named("rows", k), lengths) for k, lengths in enumerate(read)]
    begun = tuple([(int(level), tuple(parts)) for level, *parts in all_named("begun")])
    return State(done, begun, tuple(all_named("gathered")), tuple(arrays["at"].tolist()))
