"""Counts of how often each stage, rule and procedure of the compiler fires, and in how many programs.

    python benchmarks/firing.py                          the cases of run.py and the examples
    python benchmarks/firing.py FOLDER --random 300      those of a folder as well; random programs in their own column
    python benchmarks/firing.py --all                    all counts, not only what fires in at most one program

A case is compiled at levels 1 and 2, alone, with its gradient and with its Hessian, from arrays and from specs; an
example runs as it is, at both levels. A module of a folder has ``make(size, rng)``, which gives arguments at
``"small"`` and ``"medium"``, ``objective(*args)`` and ``WRT``, the positions to differentiate by. What fires in no
program, or in one, is a recogniser of that program, unless it keeps values right, or Jacobians and batches need it,
which are not made here.
"""

import argparse
import contextlib
import importlib.util
import io
import runpy
import signal
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from cases import CASES, Case
from cases.model import specs_of

import symgrad as sg
from symgrad.core.recording import Log, recording
from symgrad.pipeline import BEFORE, OPTIMISE, SCHEDULE, TABLES, canonicalise
from symgrad.rewrite.rules import Rule, in_table

ROOT = Path(__file__).resolve().parent.parent
LEVELS, ORDERS, FORMS = (1, 2), ("value", "gradient", "hessian"), ("arrays", "specs")
WAYS = (*(f"level {level}" for level in LEVELS), *ORDERS, *FORMS)
ON_THE_WHOLE = {stage.name for stage in (*OPTIMISE, *SCHEDULE)} - {stage.name for stage in BEFORE}
FEW = 1  # programs: what fires in no more is printed


class Program(NamedTuple):
    """A function, and its arguments at two sizes, of which the second is compiled for."""

    name: str
    function: Callable[..., Any]
    wrt: tuple[int, ...]
    small: Sequence[Any]
    large: Sequence[Any]


def cases() -> Iterator[Program]:
    """The cases of run.py, each model and dtype once, at its last sizes; those of one title are one program."""
    for case in {(case.model.loss, case.dtype): case for case in CASES}.values():
        yield program_of(case)


def program_of(case: Case) -> Program:
    loss = partial(case.model.loss, np)
    return Program(case.name.partition(",")[0], loss, case.model.argnums, case.args(small=True), case.args())


def in_folder(folder: Path) -> Iterator[Program]:
    for path in sorted(folder.glob("**/*.py")):
        module = loaded(path)
        if hasattr(module, "make") and hasattr(module, "WRT"):
            small, large = (module.make(size, np.random.default_rng(0)) for size in ("small", "medium"))
            yield Program(f"{path.parent.name}/{path.stem}", module.objective, module.WRT, small, large)


def loaded(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with contextlib.suppress(ImportError):  # a script beside the programs, with modules of its own
        specification.loader.exec_module(module)
    return module


# ---- what fires


class Fired:
    """Counts of rewrites and stages, and the programs in which they fire."""

    def __init__(self) -> None:
        self.times: Counter[Any] = Counter()
        self.programs: dict[Any, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def count(self, log: Log, program: str, ways: Sequence[str]) -> None:
        """Take down a log; what no stage of the whole program did was done in the trace."""
        found = [x.rule for x in log.rewrites] + [x.function for x in log.stages if x.changed]
        if any(x.stage not in ON_THE_WHOLE for x in log.rewrites):
            found.append(canonicalise)
        self.times.update(found)
        for each in found:
            for way in ways:
                self.programs[each][way].add(program)

    def row(self, each: Any) -> list[int]:
        everywhere = set().union(*self.programs[each].values())
        return [self.times[each], len(everywhere), *(len(self.programs[each][way]) for way in WAYS)]


def compile_in_all_ways(program: Program, fired: Fired) -> None:
    """Compile a program in all ways and count; where specs are refused, use fewer symbols in them."""
    forms = {
        "arrays": [program.large],
        "specs": specs_of(program.small, program.large, max(program.wrt, default=-1) + 1),
    }
    transforms = {"value": lambda f, wrt: sg.compile(f), "gradient": sg.value_and_grad, "hessian": sg.hessian}
    orders = ORDERS if program.wrt else ORDERS[:1]  # its derivatives are taken within
    for level, order, form in product(LEVELS, orders, FORMS):
        for args in forms[form]:
            with recording() as log, refusals() as refused:
                transforms[order](program.function, program.wrt).compile(*args, optimize=level)
            if not refused:
                break
        fired.count(log, program.name, (f"level {level}", order, form))


def run_example(path: Path, fired: Fired) -> None:
    """Run it as it is, but for what it prints."""
    sys.argv[1:], sys.path[:1] = [], [str(path.parent)]
    for level in LEVELS:
        with recording() as log, sg.options(optimize=level), contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
        fired.count(log, path.stem, (f"level {level}",))


def run_random(count: int, fired: Fired) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.fuzz import generated, outcome

    for seed in range(count):
        with recording() as log:
            outcome(generated(seed))
        fired.count(log, str(seed), ("random",))


@contextlib.contextmanager
def refusals(patience: int = 60) -> Iterator[list[str]]:
    """Why what is compiled meanwhile is refused, or takes too long."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"took longer than {patience} s")

    found: list[str] = []
    signal.signal(signal.SIGALRM, late)
    signal.alarm(patience)
    try:
        yield found
    except (sg.errors.SymgradError, TimeoutError) as error:
        found.append(str(error))
    finally:
        signal.alarm(0)


# ---- the report


def everything() -> dict[str, list[Any]]:
    """All that can fire: stages, and rules and procedures by the module that they stand in."""
    tables = dict.fromkeys(table for tables in TABLES.values() for table in tables)
    stages = [stage.run for stage in (*BEFORE, *OPTIMISE, *SCHEDULE)]
    return {"stages": stages, **{table.__name__.removeprefix("symgrad."): in_table(table) for table in tables}}


def name_of(each: Any) -> str:
    return str(each.name if isinstance(each, Rule) else each.__name__)


def report(fired: Fired, at_random: Fired, few: float) -> str:
    columns = ("times", "programs", *WAYS, "random")
    lines = [f"{'':42}" + "".join(f"{column:>10}" for column in columns)]
    for title, members in everything().items():
        rows = {each: fired.row(each) for each in members}
        shown = {each: row for each, row in rows.items() if row[1] <= few}
        lines += [f"{title}: {len(members)}, {len(shown)} shown"]
        for each, row in shown.items():
            figures = [*row, at_random.row(each)[1]]
            lines.append(f"    {name_of(each):38}" + "".join(f"{figure or '-':>10}" for figure in figures))
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="of programs with make, objective and WRT")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT", help="how many random programs")
    parser.add_argument("--all", action="store_true", help="show what fires in several programs, too")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    warnings.simplefilter("ignore")
    fired, at_random = Fired(), Fired()
    for program in chain(cases(), *map(in_folder, options.folders)):
        compile_in_all_ways(program, fired)
    for path in sorted((ROOT / "examples").glob("*.py")):
        run_example(path, fired)
    run_random(options.random, at_random)
    print(report(fired, at_random, np.inf if options.all else FEW))


if __name__ == "__main__":
    main()
