"""The cache of compiled modules on disk: private to a user, bounded, and without locks."""

from __future__ import annotations

import os
import re
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

MOST = 1 << 28  # bytes of modules in a folder, above which the oldest go
MAKING = "making-"  # how folders begin in which modules are compiled
ABANDONED = 3600.0  # seconds after which such a folder is of a process that has been killed
FASTER = ".faster"  # the suffix of notes that C is faster than a NumPy program
_OURS = re.compile(r"sg_\w+-[0-9a-f]{32}\..+|" + MAKING + r"\w+")


def folders() -> list[Path]:
    """Return the folders for modules, in order: ``SYMGRAD_CACHE``, the user's cache, a temporary folder."""
    chosen = os.environ.get("SYMGRAD_CACHE")
    if chosen:
        return [Path(chosen).absolute()]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return [Path(base) / "symgrad", Path(tempfile.gettempdir()) / f"symgrad-{owner}"]


def usable() -> Iterator[Path]:
    """Yield the folders in which modules can be stored and executed."""
    return filter(_is_usable, folders())


def _is_usable(folder: Path) -> bool:
    """Whether a folder exists or can be made, only its owner can write there, and its files can be executed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = folder.stat()
        if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
            return False
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or (stat.st_uid == os.getuid() and not stat.st_mode & 0o022)
    return mine and os.access(folder, os.W_OK | os.X_OK)


def is_whole(path: Path) -> bool:
    """Whether a module exists and is complete: a process that loads a truncated one may crash.

    An ELF file ends with its table of sections, whose position is in the header. Other systems check by themselves.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(64)
    except FileNotFoundError:
        return False
    if sys.platform != "linux":
        return bool(start)
    if start[:4] != b"\x7fELF" or len(start) < 64:
        return False
    order, wide = "<>"[start[5] == 2], start[4] == 2
    table = struct.unpack_from(f"{order}Q" if wide else f"{order}I", start, 40 if wide else 32)[0]
    size, count = struct.unpack_from(f"{order}HH", start, 58 if wide else 46)
    return bool(path.stat().st_size >= table + size * count)


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """Make a folder to compile in, and remove it afterwards, unless this is a child forked in between."""
    work = Path(tempfile.mkdtemp(dir=folder, prefix=MAKING))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def keep(made: Path, path: Path) -> None:
    """Move a module to its place atomically, and remove the oldest modules if there are too many."""
    with open(made, "rb") as file:
        os.fsync(file.fileno())
    os.replace(made, path)
    _trim(path.parent)


def _trim(folder: Path) -> None:
    """Remove the oldest modules if there are too many, and folders of killed processes."""
    kept = []
    for path in _ours(folder):
        try:
            stat = path.stat()
        except OSError:  # another process was faster
            continue
        if not path.is_dir():
            kept.append((stat.st_mtime, stat.st_size, path))
        elif stat.st_mtime < time.time() - ABANDONED:
            shutil.rmtree(path, ignore_errors=True)
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= MOST:
            break
        path.unlink(missing_ok=True)
        total -= size


def _ours(folder: Path) -> list[Path]:
    """Return symgrad's files and folders in a folder, which may contain others."""
    try:
        return sorted(path for path in folder.iterdir() if _OURS.fullmatch(path.name))
    except OSError:  # there is none
        return []


# ---- for people


class Contents(NamedTuple):
    """The contents of a folder: the number of compiled modules, and their bytes."""

    folder: Path
    modules: int
    bytes: int


def contents() -> list[Contents]:
    """Return the contents of each folder."""
    return [_contents(folder) for folder in folders()]


def _contents(folder: Path) -> Contents:
    sizes = []
    for path in _ours(folder):
        with suppress(OSError):
            if path.suffix != FASTER and not path.is_dir():
                sizes.append(path.stat().st_size)
    return Contents(folder, len(sizes), sum(sizes))


def clear() -> None:
    """Remove all compiled modules. Processes that have loaded one go on; others compile it again."""
    for folder in folders():
        for path in _ours(folder):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
