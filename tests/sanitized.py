"""Programs under ``target="c"`` that are compiled with a compiler's checks of memory and undefined behaviour.

``python -m tests.sanitized --count 300`` runs the programs of `others`, of ``--programs`` and random ones of `fuzz` and
`control_fuzz` in a process into which the checks are loaded, and prints what they find, with the program. With
``--threads`` the checks are those of races between threads. In both, threads share all loops that they may share, and
loops that share rows go over three of them at a time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import symgrad as sg
from symgrad.lowering import parallel, tiles
from symgrad.targets.c import toolchain
from tests.statements import SMALL_TILES

SHARED = "-DSG_WORTH=200"  # chunks of little work, so that small programs have many
MEMORY = f"-O0 {SHARED} -fsanitize=address,undefined -fsanitize-recover=address,undefined"
# gcc 12 writes vectors into memory of the stack that it does not align there, with these checks: no vectors
THREADS = f"-O1 -fno-openmp-simd {SHARED} -fsanitize=thread"
FOUND = "SYMGRAD_SANITIZED"  # names the folder of reports, in a process with the checks
PROGRAM = "program"  # the file there that names the one which is running
Run = Callable[[], str]  # returns "right", "refused", or what is wrong


def environment(folder: Path, threads: bool = False) -> dict[str, str] | None:
    """Return the environment of a process with the checks, which writes reports into a folder.

    Parameters
    ----------
    folder : Path
        The folder of the reports.
    threads : bool
        Whether the checks are those of races, instead of those of memory and undefined behaviour.

    Returns
    -------
    dict or None
        None where there is no compiler that has the checks: gcc, and clang for those of memory.
    """
    cc = toolchain.compiler()
    if cc is None or sys.platform != "linux":
        return None
    is_clang = cc.name == "clang"
    if not (cc.name in ("gcc", "cc") or (is_clang and not threads)):
        return None  # Python ends at once with clang's checks of races
    check = "tsan" if threads else "asan"
    name = f"libclang_rt.{check}-{platform.machine()}.so" if is_clang else f"lib{check}.so"
    library = subprocess.run([*cc.command, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    if not os.path.isabs(library.stdout.strip()):  # there is none
        return None
    reports = f"log_path={folder / 'report'}"
    return os.environ | {
        FOUND: str(folder),
        "LD_PRELOAD": library.stdout.strip(),
        "ASAN_OPTIONS": f"detect_leaks=0:halt_on_error=0:{reports}",
        "UBSAN_OPTIONS": f"print_stacktrace=0:{reports}",
        "TSAN_OPTIONS": f"halt_on_error=0:{reports}",
        "SYMGRAD_TARGET": "c",
        "SYMGRAD_CFLAGS": f"{THREADS if threads else MEMORY}{' -shared-libsan' * is_clang}",
        "SYMGRAD_CACHE": str(folder / "modules"),
    }


def reported(folder: Path) -> str:
    """Return what the checks have found so far."""
    return "".join(path.read_text("utf-8", "replace") for path in sorted(folder.glob("report*")))


def derived(f: Callable[..., object], args: tuple[object, ...]) -> str:
    """Run a program and its derivatives of both modes."""
    sg.compile(f)(*args)
    sg.check_grads(f, args, order=1)
    return "right"


def of_others() -> Iterator[tuple[str, Run]]:
    from tests.others import dynamics, idioms, learning, likelihoods, manifolds

    for module in (likelihoods, dynamics, learning, manifolds, idioms):
        for name, (f, args, *_) in module.PROGRAMS.items():
            yield name, partial(derived, f, args)


def of_folder(folder: Path) -> Iterator[tuple[str, Run]]:
    """Yield the programs of modules that have an ``objective``, its ``WRT`` and its arguments: ``make(size, rng)``."""
    for path in sorted(folder.glob("**/*.py")):
        if "\ndef make(" in (text := path.read_text("utf-8")) and "\ndef objective(" in text:
            yield f"{path.parent.name}/{path.stem}", partial(objective, path)


def objective(path: Path) -> str:
    """Compute the value and the gradient of a module's objective, and compare with NumPy's target."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    args = module.make("small", np.random.default_rng(0))
    found, expected = (sg.value_and_grad(module.objective, argnums=module.WRT, target=t)(*args) for t in ("c", "numpy"))
    return "right" if np.isclose(found[0], expected[0], rtol=1e-7, equal_nan=True) else f"{found[0]}, not {expected[0]}"


def random_one(seed: int) -> str:
    from tests import fuzz

    verdict, reason = fuzz.outcome(fuzz.generated(seed))
    return reason if verdict in ("wrong", "crashed") else verdict


def random_control(seed: int) -> str:
    from tests import control_fuzz

    report = control_fuzz.examined(seed, shrink=False)
    return f"{report.found}" if control_fuzz.is_failure(report.found) else "right"


def programs(options: argparse.Namespace) -> Iterator[tuple[str, Run]]:
    if not options.no_others:
        yield from of_others()
    for folder in options.programs:
        yield from of_folder(folder)
    seeds = range(options.seed, options.seed + options.count)
    yield from ((f"tests.fuzz --count 1 --seed {seed}", partial(random_one, seed)) for seed in seeds)
    yield from ((f"tests.fuzz --kind control --seed {seed}", partial(random_control, seed)) for seed in seeds[::4])


def outcome(run: Run) -> str:
    from tests.fuzz import OURS

    try:
        return run()
    except OURS as error:
        return f"{type(error).__name__}: {error.fact}"
    except sg.errors.SymgradError:
        return "refused"
    except Exception as error:  # what a person is to look at
        return f"{type(error).__name__}: {error}"


def inside(options: argparse.Namespace, folder: Path) -> bool:
    """Run programs in this process, which has the checks, and return whether one of them has found something."""
    os.environ.pop("LD_PRELOAD", None)  # compilers need none
    parallel.PAYS = parallel.LIGHT = 0
    for name, value in SMALL_TILES.items():
        setattr(tiles, name, value)
    verdicts = Counter[str]()
    for name, run in programs(options):
        (folder / PROGRAM).write_text(name, "utf-8")
        before = reported(folder)
        with np.errstate(all="ignore"):
            verdict = outcome(run)
        text = reported(folder)[len(before) :]
        if text or verdict not in ("right", "refused", "near a kink", "ill-conditioned"):
            print(f"{name}: {verdict}\n{text}{'-' * 80}", flush=True)
        verdicts["found" if text else verdict.split(":")[0]] += 1
    print(dict(verdicts))
    return bool(verdicts["found"])


def main() -> bool:
    parser = argparse.ArgumentParser(description="Compiled programs with checks of memory and undefined behaviour.")
    parser.add_argument("--count", type=int, default=300, help="random programs; a fourth as many with control flow")
    parser.add_argument("--seed", type=int, default=0, help="the first one; each program has one of its own")
    parser.add_argument("--programs", type=Path, action="append", default=[], help="a folder of further programs")
    parser.add_argument("--threads", action="store_true", help="races between threads, instead of memory")
    parser.add_argument("--no-others", action="store_true", help="none of the programs in tests/others")
    options = parser.parse_args()
    if FOUND in os.environ:
        return inside(options, Path(os.environ[FOUND]))
    with tempfile.TemporaryDirectory() as folder:
        checked = environment(Path(folder), options.threads)
        if checked is None:
            parser.error("it takes Linux, and gcc or clang with its sanitizers; for threads gcc")
        command = [sys.executable, "-m", "tests.sanitized", *sys.argv[1:]]
        code = subprocess.run(command, env=checked, check=False).returncode
        if code < 0 or code > 1:
            name = Path(folder, PROGRAM).read_text("utf-8") if Path(folder, PROGRAM).exists() else "no program"
            print(f"the process has ended at {name}\n{reported(Path(folder))}")
        return bool(code)


if __name__ == "__main__":
    raise SystemExit(main())
