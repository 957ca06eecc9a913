"""C compilers, and the compilation and loading of modules, from the cache if possible."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.background import background
from symgrad.errors import CompilerError
from symgrad.targets.c.cache import FASTER, folders, is_whole, keep, usable, workplace

FLAGS = (
    "-O3", "-std=c11", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv",
    "-fopenmp-simd", "-w",
)  # fmt: skip
LINKED = {
    "darwin": ["-undefined", "dynamic_lookup"],
    "win32": [f"-L{Path(sys.base_prefix) / 'libs'}", "-lpython3"],
}
"""Flags by which the linker finds Python's functions; elsewhere they are found when a module is loaded."""
OF_GCC = (
    "-fno-tree-pre", "-fno-gcse", "-fno-gcse-after-reload", "--param=sccvn-max-alias-queries-per-access=50",
    "--param=ira-max-conflict-table-size=1",
)  # fmt: skip
"""Flags that spare gcc what takes it more than linear time in the length of a function.

Partial redundancies are rare, since programs name common subexpressions and hoist invariants. Analyses of aliases
give up sooner, and functions of more than some thousand values have their registers allocated by priority instead of by
a graph of conflicts. No program was measurably slower, and long ones are a few per cent faster.
"""
PRODUCTS = "-fcx-limited-range"
"""The flag for the pragma ``STDC CX_LIMITED_RANGE ON``, which gcc ignores: a complex product is four real ones."""
TURN = 0.05  # seconds between two looks at whether a compiler is still to go on
ADVICE = (
    'Install gcc or clang, or ziglang: pip install "symgrad[native]". SYMGRAD_CC names another compiler. '
    'target="numpy" needs none.'
)


class Compiler(NamedTuple):
    """A command that compiles C, and its identity in the key of a module, which includes its version."""

    command: tuple[str, ...]
    identity: str
    is_zig: bool = False

    @property
    def name(self) -> str:
        return "zig" if self.is_zig else Path(self.command[0]).name

    @property
    def is_gcc(self) -> bool:
        """Whether it is gcc by its real name, whose flags others refuse; on macOS, `gcc` is clang."""
        return "gcc" in Path(self.command[0]).resolve().name and sys.platform != "darwin"


def compiler() -> Compiler | None:
    """Return the compiler of this machine: the one that ``SYMGRAD_CC`` names, or clang, gcc, cc, zig; or None."""
    chosen = os.environ.get("SYMGRAD_CC")
    for name in [chosen] if chosen else ["clang", "gcc", "cc"]:
        path = shutil.which(name)
        if path:
            return Compiler((path,), _identity(Path(path)), is_zig=Path(path).name.startswith("zig"))
    return None if chosen else zig()


def zig() -> Compiler | None:
    """Return the compiler of the package ziglang, if it is installed."""
    spec = find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / ("zig.exe" if os.name == "nt" else "zig")
    return Compiler((str(path),), _identity(path), is_zig=True) if path.exists() else None


def _identity(path: Path) -> str:
    real = path.resolve()
    stat = real.stat()
    return f"{real} {stat.st_size} {stat.st_mtime_ns}"


def required() -> Compiler:
    """Return the compiler; raise an error with advice if there is none."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise CompilerError('target="c" needs CPython with the global interpreter lock', 'Write target="numpy".')
    found = compiler()
    if found is None:
        chosen = os.environ.get("SYMGRAD_CC", "")
        flags = (
            shutil.which(chosen.split(" ")[0]) and "SYMGRAD_CC names the command alone; flags go into SYMGRAD_CFLAGS."
        )
        fact = f"SYMGRAD_CC={chosen!r} is no command" if chosen else 'target="c": no C compiler'
        raise CompilerError(fact, flags or ADVICE)
    return found


def flags_of(cc: Compiler) -> list[str]:
    """Return the flags for a compiler.

    Without optimisation zig would add checks for undefined behaviour, whose functions are not linked.
    """
    unchecked = ["-fno-sanitize=undefined"] if cc.is_zig else []
    own: Sequence[str] = (PRODUCTS, *OF_GCC) if cc.is_gcc else ()
    if (cc.name.startswith("clang") or cc.is_zig) and has_wide_vectors():
        own = ["-mprefer-vector-width=512"]
    return [*FLAGS, *unchecked, "-march=native", *own, *shlex.split(os.environ.get("SYMGRAD_CFLAGS", ""))]


def has_wide_vectors() -> bool:
    """Whether vectors of this processor have 512 bits."""
    return _features().get("AVX512F", False)


@cache
def _features() -> dict[str, bool]:
    core: Any = import_module("numpy._core._multiarray_umath")
    return dict(core.__cpu_features__)


def key_of(text: str, cc: Compiler) -> str:
    """Return the key of a module in the cache, from its source, the compiler, the processor, Python and NumPy."""
    processor = sorted(name for name, is_there in _features().items() if is_there)
    parts = [text, cc.identity, flags_of(cc), processor, sys.implementation.cache_tag, np.__version__.split(".")[0]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


# ---- modules


def load(text: str, name: str) -> ModuleType:
    """Return the module of a source, compiled if it is not in the cache.

    A module is compiled in a temporary place and moved atomically, so that processes that compile the same module at
    the same time do not conflict. One that cannot be loaded is compiled once more.

    Raises
    ------
    CompilerError
        If there is no compiler, the compiler fails, or files cannot be executed from any folder.
    """
    cc = required()
    key = key_of(text, cc)
    failures: list[str] = []
    for folder in usable():
        path = folder / f"{name}-{key}{sysconfig.get_config_var('EXT_SUFFIX')}"
        for attempt in range(2):
            try:
                if not is_whole(path):
                    _compile(text, path, cc)
                return _loaded(path, name)
            except ImportError as error:  # a damaged file, or a folder from which nothing may be executed
                failures.append(f"{path}: {error}")
                if attempt == 0:
                    path.unlink(missing_ok=True)
            except OSError as error:  # a full disk
                failures.append(f"{folder}: {error}")
                break
    unusable = f"no folder of your own is writable: not {', nor '.join(map(str, folders()))}"
    raise CompilerError(
        f"a compiled module cannot be stored or loaded: {'; '.join(failures) or unusable}",
        "Set SYMGRAD_CACHE to a folder of your own from which programs may be executed.",
    )


def _loaded(path: Path, name: str) -> ModuleType:
    """Load the module of a file, and remove it from Python's list of imported modules."""
    before = sys.modules.get(name)
    try:
        return _executed(path, name)
    finally:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before


def _executed(path: Path, name: str) -> ModuleType:
    loader = ExtensionFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _compile(text: str, path: Path, cc: Compiler) -> None:
    """Compile a module, and move it to its place atomically."""
    with workplace(path.parent) as work:
        source, made = work / "module.c", work / "module.so"
        source.write_text(text, "utf-8")
        for command in _commands(cc, source, made):
            code, said = _run(command, work)
            if code:
                lines = said.strip().splitlines() or [f"exit code {code}"]
                first = next((line for line in lines if "error" in line), lines[0])
                if "No space left" in said:
                    raise OSError(first)
                raise CompilerError(f"{cc.name} fails: {first}", ADVICE)
        keep(made, path)


def _run(command: Sequence[str], work: Path) -> tuple[int, str]:
    """Run a compiler, and return its exit code and output.

    It has a session of its own, so that Ctrl-C at a terminal does not reach it.
    """
    silent = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=silent, stdout=silent, stderr=subprocess.PIPE, cwd=work, start_new_session=True, text=True,
        errors="replace",
    ) as process:  # fmt: skip
        try:
            while True:
                background.step()
                with suppress(subprocess.TimeoutExpired):
                    said = process.communicate(timeout=TURN)[1]
                    return process.returncode, said
        except BaseException:
            _kill(process)
            raise


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, and those that it has started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _commands(cc: Compiler, source: Path, made: Path) -> list[list[str]]:
    """Return the commands that make a module.

    On Linux zig links in a separate command, so that it does not build its own runtime library.
    """
    compiling = [*cc.command, *(["cc"] if cc.is_zig else []), *flags_of(cc)]
    if not cc.is_zig or sys.platform in LINKED:
        return [[*compiling, "-shared", str(source), "-o", str(made), *LINKED.get(sys.platform, []), "-lm"]]
    compiled = source.with_suffix(".o")
    return [
        [*compiling, "-c", str(source), "-o", str(compiled)],
        [*cc.command, "ld.lld", "-shared", str(compiled), "-o", str(made)],
    ]


# ---- programs that C has made faster


def is_known_faster(text: str, name: str) -> bool:
    """Whether some process has noted that C is faster than the NumPy program of this source."""
    cc = compiler()
    return cc is not None and any((folder / _mark(text, name, cc)).exists() for folder in folders())


def note_faster(text: str, name: str) -> None:
    """Note for later processes that C is faster than the NumPy program of this source."""
    cc = compiler()
    folder = next(usable(), None)
    if cc is not None and folder is not None:
        with suppress(OSError):
            (folder / _mark(text, name, cc)).touch()


def _mark(text: str, name: str, cc: Compiler) -> str:
    return f"{name}-{key_of(text, cc)}{FASTER}"
