"""C compilers, and what they have made, kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import CompilerError

FLAGS = (
    "-O3", "-std=c11", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv",
    "-fopenmp-simd", "-w",
)  # fmt: skip
LINKED = {"darwin": ["-undefined", "dynamic_lookup"]}
KEPT = 1 << 28  # bytes of modules on disk, above which the oldest go
ADVICE = (
    'Install gcc or clang, or ziglang: pip install "symgrad[native]". SYMGRAD_CC names another compiler. '
    'target="numpy" needs none.'
)


class Compiler(NamedTuple):
    """A command that compiles C, and what stands for it in a key: another version is another key."""

    command: tuple[str, ...]
    identity: str
    is_zig: bool = False

    @property
    def name(self) -> str:
        return "zig" if self.is_zig else Path(self.command[0]).name


@cache
def compiler() -> Compiler | None:
    """Return the compiler of this machine: the one that ``SYMGRAD_CC`` names, or clang, gcc, cc, zig; or None."""
    chosen = os.environ.get("SYMGRAD_CC")
    for name in [chosen] if chosen else ["clang", "gcc", "cc"]:
        path = shutil.which(name)
        if path:
            return Compiler((path,), _identity(Path(path)), is_zig=Path(path).name.startswith("zig"))
    spec = None if chosen else find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    zig = Path(spec.submodule_search_locations[0]) / ("zig.exe" if os.name == "nt" else "zig")
    return Compiler((str(zig),), _identity(zig), is_zig=True) if zig.exists() else None


def _identity(path: Path) -> str:
    real = path.resolve()
    stat = real.stat()
    return f"{real} {stat.st_size} {stat.st_mtime_ns}"


def required() -> Compiler:
    """Return the compiler, or say what to do where there is none."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise CompilerError('target="c": it is for CPython with a global lock alone', 'Write target="numpy".')
    found = compiler()
    if found is None:
        chosen = os.environ.get("SYMGRAD_CC")
        raise CompilerError(f"SYMGRAD_CC={chosen!r} is no command" if chosen else 'target="c": no C compiler', ADVICE)
    return found


def flags_of(cc: Compiler) -> list[str]:
    """Return the flags that a compiler is given."""
    flags = [*FLAGS, "-march=native", *shlex.split(os.environ.get("SYMGRAD_CFLAGS", ""))]
    if cc.name.startswith("clang") or cc.is_zig:
        flags += ["-mprefer-vector-width=512"] if _features().get("AVX512F") else []
    return flags


@cache
def _features() -> dict[str, bool]:
    core: Any = import_module("numpy._core._multiarray_umath")
    return dict(core.__cpu_features__)


def key_of(text: str, cc: Compiler) -> str:
    """Return what a module is kept under: another source, compiler, processor, Python or NumPy is another key."""
    processor = sorted(name for name, is_there in _features().items() if is_there)
    parts = [text, cc.identity, flags_of(cc), processor, sys.implementation.cache_tag, np.__version__.split(".")[0]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


# ---- modules on disk


def folders() -> list[Path]:
    """Return where modules may lie, in order: what ``SYMGRAD_CACHE`` names, the user's cache, a temporary folder."""
    chosen = os.environ.get("SYMGRAD_CACHE")
    if chosen:
        return [Path(chosen)]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return [Path(base) / "symgrad", Path(tempfile.gettempdir()) / f"symgrad-{owner}"]


def _is_private(folder: Path) -> bool:
    """Whether a folder is there, or can be made, in which nobody else can write."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = folder.stat()
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or (stat.st_uid == os.getuid() and not stat.st_mode & 0o022)
    return mine and os.access(folder, os.W_OK | os.X_OK)


def load(text: str, name: str) -> ModuleType:
    """Return the module of some source, compiled if it has not been before.

    A module is compiled under a temporary name and moved to its own at once, so that processes that compile the same
    one at a time do not meet. One that cannot be loaded is compiled once more.

    Raises
    ------
    CompilerError
        If there is no compiler, it fails, or nothing can be executed from any folder.
    """
    cc = required()
    key = key_of(text, cc)
    failures: list[str] = []
    for folder in filter(_is_private, folders()):
        path = folder / f"{name}-{key}{sysconfig.get_config_var('EXT_SUFFIX')}"
        for attempt in range(2):
            try:
                if not path.exists():
                    _compile(text, path, cc)
                return _loaded(path, name)
            except ImportError as error:  # a damaged file, or a folder from which nothing may be executed
                failures.append(f"{path}: {error}")
                if attempt == 0:
                    path.unlink(missing_ok=True)
            except OSError as error:  # a full disk
                failures.append(f"{folder}: {error}")
                break
    raise CompilerError(
        f"a compiled module cannot be kept or loaded: {'; '.join(failures) or 'no folder of your own is writable'}",
        "Let SYMGRAD_CACHE name a folder of yours from which programs may be executed.",
    )


def _loaded(path: Path, name: str) -> ModuleType:
    loader = ExtensionFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _compile(text: str, path: Path, cc: Compiler) -> None:
    """Compile a module, and put it in its place whole."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as work:
        source, made = Path(work) / "module.c", Path(work) / "module.so"
        source.write_text(text, "utf-8")
        for command in _commands(cc, source, made):
            done = subprocess.run(command, capture_output=True, text=True, cwd=work)
            if done.returncode:
                lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
                first = next((line for line in lines if "error" in line), lines[0])
                raise CompilerError(f"{cc.name} fails: {first}", ADVICE)
        os.replace(made, path)
    _trim(path.parent)


def _commands(cc: Compiler, source: Path, made: Path) -> list[list[str]]:
    """Return the commands that make a module; zig is asked to link alone, lest it build its own runtime library."""
    if not cc.is_zig:
        linked = LINKED.get(sys.platform, [])
        return [[*cc.command, *flags_of(cc), "-shared", *linked, str(source), "-o", str(made), "-lm"]]
    compiled = source.with_suffix(".o")
    return [
        [*cc.command, "cc", "-c", *flags_of(cc), str(source), "-o", str(compiled)],
        [*cc.command, "ld.lld", "-shared", str(compiled), "-o", str(made)],
    ]


def _trim(folder: Path) -> None:
    """Let the oldest modules go where there are too many."""
    kept = []
    for path in folder.iterdir():
        try:
            kept.append((path.stat().st_mtime, path.stat().st_size, path))
        except OSError:  # another process was faster
            continue
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= KEPT:
            break
        path.unlink(missing_ok=True)
        total -= size
