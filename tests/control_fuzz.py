"""Random programs with control flow against Python: ``python -m tests.control_fuzz --count 1500 --seed 0``.

Each program of `control_programs` runs on several sets of arguments. Python's own result is the oracle of values; the
oracle of gradients is the unrolled program (``loops="unroll"``) where that can be traced, and finite differences, which
say nothing near a kink. Every call of Python runs a fresh copy of the module; so does every Function. What becomes of a
program is one of

- right; also where a result at level 0 differs in its last bits (counted), where rounding decides a test and another
  order of operations takes the other side, at that very point (counted), where the module is left in another state than
  Python leaves it in (counted), or where an oracle cannot tell a gradient (counted);
- wrong value, wrong gradient;
- refused, by an error of symgrad's;
- crashed, by any other exception, and late, after `LIMIT` seconds.

The check of a first call is off: it would find what is looked for here. What fails is made smaller, by deleting
statements and operands as long as it fails in the same way, and printed as a script.
"""

from __future__ import annotations

import argparse
import ast
import json
import linecache
import re
import signal
import sys
import time
import traceback
import types
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import lru_cache, partial
from itertools import count, islice
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import symgrad as sg
from tests.conftest import for_target
from tests.control_features import FEATURES
from tests.control_programs import Program, program_of
from tests.fuzz import OURS, slope

LIMIT = 20  # seconds of processor time for a program: as many on a busy machine
PATIENCE = 40  # seconds for making one smaller
SETS = 3  # of arguments
LARGEST = 1e6
RTOL = 1e-9  # of values and gradients against each other
unique = count()


class Late(BaseException):
    """A program that takes too long."""


class Outcome(NamedTuple):
    """The outcome of a program: a verdict, the step that reached it, and details."""

    verdict: str
    where: str = ""  # the step that failed, such as "gradient 2"
    detail: str = ""
    notes: tuple[str, ...] = ()


class Case(NamedTuple):
    """A program with its arguments and Python's results."""

    program: Program
    arguments: tuple[tuple[Any, ...], ...]
    expected: tuple[float, ...]


class Oracle(NamedTuple):
    """The derivative of a program at one set of arguments as others have it."""

    along: tuple[np.ndarray, float]  # a direction
    numeric: float | None  # finite differences along it; None where they say nothing
    unrolled: tuple[Any, Any] | None  # the gradient of the unrolled program; None where that cannot be traced


# ---- running Python


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def module_of(source: str) -> types.ModuleType:
    """Run the source of a module whose lines tracebacks and symgrad can quote."""
    module = sys.modules["control"] = types.ModuleType("control")  # where dataclasses look for their own
    exec(code_of(source), module.__dict__)
    return module


@lru_cache(maxsize=4)
def code_of(source: str) -> types.CodeType:
    """Compile a source once for all copies of its module, so that their functions are converted once."""
    filename = f"<control {next(unique)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    return compile(source, filename, "exec")


def quietly(f: Any, *args: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return f(*args)


def drawn(seed: int) -> tuple[tuple[Any, ...], ...]:
    """Sets of arguments of one size."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 4, 5, 6, 18]))
    return tuple((np.round(rng.normal(size=n), 3), round(float(rng.normal()), 3)) for _ in range(SETS))


def python(program: Program, args: tuple[Any, ...]) -> float:
    """Python's result on copies of the arguments, in a fresh module."""
    return float(quietly(module_of(program.source).f, *deepcopy(args)))


def case_of(program: Program, seed: int) -> Case | None:
    """The program on arguments that it has finite results on; None if there are none."""
    for attempt in range(4):
        arguments = drawn(1000 * seed + attempt)
        expected = results(program, arguments)
        if expected is not None:
            return Case(program, arguments, expected)
    return None


def results(program: Program, arguments: tuple[tuple[Any, ...], ...]) -> tuple[float, ...] | None:
    try:
        with limited(0.3):
            found = tuple(python(program, args) for args in arguments)
    except (Exception, Late):
        return None
    return found if all(np.isfinite(e) and abs(e) < LARGEST for e in found) else None


def generated(seed: int) -> Case:
    """The first program from a seed on that Python runs."""
    for attempt in count():
        case = case_of(program_of(seed * 100 + attempt), seed)
        if case is not None:
            return case
    raise AssertionError


def has(feature: str | None, seed: int) -> bool:
    """Whether the program of a seed has a feature; None is no particular one."""
    return feature is None or feature in generated(seed).program.features


# ---- what a call leaves behind


def state(module: types.ModuleType) -> dict[str, str]:
    """Return the values of a module's names, as text."""
    return {name: pictured(value) for name, value in vars(module).items() if not name.startswith("__")}


def pictured(x: Any, depth: int = 0) -> str:
    """A value as text, with its attributes; floats rounded."""
    if isinstance(x, (types.ModuleType, types.BuiltinFunctionType)) or depth > 5:
        return type(x).__name__
    if isinstance(x, sg.Variable):  # left by a trace
        return type(x).__name__
    if isinstance(x, (float, np.floating)):
        return f"{float(x):.6g}"
    if isinstance(x, np.ndarray):
        return pictured(x.tolist(), depth)
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {pictured(v, depth + 1)}" for k, v in x.items()) + "}"
    if isinstance(x, (list, tuple, deque)):
        return f"{type(x).__name__}({', '.join(pictured(e, depth + 1) for e in x)})"
    if isinstance(x, types.FunctionType):
        return pictured([x.__defaults__, vars(x)], depth + 1)
    if isinstance(x, type):
        return pictured({k: v for k, v in vars(x).items() if not k.startswith("__")}, depth + 1)
    return repr(x) if isinstance(x, (int, str, bool, set, type(None))) else type(x).__name__


# ---- checking


class Wrong(AssertionError):
    """A number that is not Python's."""


def near(a: float, b: float, rtol: float, scale: float = 1.0) -> bool:
    return bool(abs(a - b) <= rtol * (scale + abs(b)))


def values(case: Case, level: int, notes: set[str]) -> None:
    """Compare the values at a level; the program is compiled for the first arguments and called with all."""
    module = module_of(case.program.source)
    compiled = sg.compile(module.f, optimize=level, check_first=False)
    for i, (args, expected) in enumerate(known(case)):
        value = quietly(compiled, *deepcopy(args))
        if i == 0:
            other = module_of(case.program.source)
            quietly(other.f, *deepcopy(args))
            notes.update({"state"} if state(module) != state(other) else ())
        if check_value(case.program, args, float(value), expected, f"arguments {i}", compiled if level else None):
            notes.add("tie")
        if level == 0 and float(value) != expected:
            notes.add("bits")


def known(case: Case) -> list[tuple[tuple[Any, ...], float]]:
    """The arguments with Python's results; the first alone where calls see what earlier ones left."""
    return list(zip(case.arguments, case.expected, strict=True))[: 1 if case.program.persistent else SETS]


def check_value(
    program: Program, args: tuple[Any, ...], value: float, expected: float, where: str, reordered: Any
) -> bool:
    """Compare a value with Python's, and return whether rounding decides a test there.

    `reordered` is the function that has computed the value, None where it rounds as Python does.
    """
    if near(value, expected, precision(program, RTOL)):
        return False
    x, y = args
    moved = [python(program, (x * (1 + e), y * (1 - e))) for e in (1e-15, -1e-15, 3e-15)]
    if all(near(value, expected, 100 * abs(m - expected)) for m in moved):
        return False  # rounding alone moves the result as far
    if reordered is not None and is_tie(program, args, reordered):
        return True
    raise Wrong(f"{value!r} on {where}, Python has {expected!r}")


def is_tie(program: Program, args: tuple[Any, ...], reordered: Any) -> bool:
    """Whether a function differs from Python at a single point: rounding decides a test there, such as of a zero.

    On both sides of the point, and further away than rounding reaches, the two agree.
    """
    x, y = args
    for e in (1e-11, -1e-11):
        beside = x * (1 + e), y * (1 - e)
        found = quietly(reordered, *deepcopy(beside))
        value = float(found[0] if isinstance(found, tuple) else found)
        if not near(value, python(program, beside), precision(program, RTOL)):
            return False
    return True


def overflows(program: Program, args: tuple[Any, ...]) -> bool:
    """Whether numbers inside of a program become infinite, though its result is not."""
    try:
        with np.errstate(over="raise"):
            module_of(program.source).f(*deepcopy(args))
    except FloatingPointError:
        return True
    return False


def precision(program: Program, rtol: float) -> float:
    """Return the tolerance for a program that computes in single precision or not."""
    return max(rtol, 3e-5) if "float32" in program.source else rtol


def gradients(case: Case, level: int, notes: set[str]) -> None:
    """Compare value and gradient at a level with Python's value and with the oracles of the gradient."""
    function = sg.value_and_grad(module_of(case.program.source).f, (0, 1), optimize=level, check_first=False)
    for i, (args, expected) in enumerate(known(case)):
        value, (dx, dy) = quietly(function, *deepcopy(args))
        where = f"arguments {i}, beside the gradient"
        if check_value(case.program, args, float(value), expected, where, function if level else None):
            notes.add("tie")
            continue
        oracle = oracles(case)[i]
        derivative = float(np.sum(dx * oracle.along[0]) + dy * oracle.along[1])
        if np.isnan(derivative) and overflows(case.program, args):  # zero times infinity
            notes.add("overflow")
            continue
        if oracle.numeric is None:
            notes.add("no differences")
        elif not near(derivative, oracle.numeric, 1e-4):
            raise Wrong(f"derivative {derivative!r} on arguments {i}, differences say {oracle.numeric!r}")
        if oracle.unrolled is None:
            notes.add("not unrolled")
            continue
        ux, uy = oracle.unrolled
        scale, rtol = 1 + float(np.max(np.abs(ux))), precision(case.program, 1e-7)
        if not np.allclose(dx, ux, rtol=rtol, atol=rtol * scale) or not near(float(dy), float(uy), rtol, scale):
            raise Wrong(f"gradient {dx, dy} on arguments {i}, unrolled {ux, uy}")


kept_oracles: dict[int, tuple[Case, list[Oracle]]] = {}  # those of one case, which its levels share


def oracles(case: Case) -> list[Oracle]:
    """The oracles at the arguments of a case."""
    if id(case) not in kept_oracles:
        unrolled = sg.grad(module_of(case.program.source).f, (0, 1), optimize=0, loops="unroll", check_first=False)
        found = [oracle(case.program, args, unrolled, i) for i, (args, _) in enumerate(known(case))]
        kept_oracles.clear()
        kept_oracles[id(case)] = case, found
    return kept_oracles[id(case)][1]


def oracle(program: Program, args: tuple[Any, ...], unrolled: Any, seed: int) -> Oracle:
    rng = np.random.default_rng(seed)
    along = rng.normal(size=np.shape(args[0])), float(rng.normal())
    single = "float32" in program.source  # differences cannot tell
    numeric = None
    with suppress(ArithmeticError):  # of Python, beside the arguments
        numeric = None if single else slope(lambda *a: python(program, a), list(args), list(along), 1e-5)
    try:
        return Oracle(along, numeric, quietly(unrolled, *deepcopy(args)))
    except Exception:
        return Oracle(along, numeric, None)


STEPS = {"value": values, "gradient": gradients}
PLAN = ("value 0", "value 2", "gradient 0", "gradient 1", "gradient 2")


def plan_of(seed: int, once: bool = False) -> tuple[str, ...]:
    """Return the plan of the command for a seed: values alone at one level, gradients with their values at all; or
    a single step, in turns.
    """
    return (PLAN[seed % len(PLAN)],) if once else (PLAN[seed % 2], *PLAN[2:])


def outcome(case: Case, plan: tuple[str, ...] = PLAN) -> Outcome:
    """Run a case by the steps of a plan, until one fails, and return the outcome."""
    notes: set[str] = set()
    where = ""
    try:
        with limited(LIMIT):
            for where in plan:
                kind, level = where.split()
                STEPS[kind](case, int(level), notes)
    except Late:
        return Outcome("late", where)
    except Wrong as error:
        kind = "wrong value" if "derivative" not in str(error) and "unrolled" not in str(error) else "wrong gradient"
        return Outcome(kind, where, str(error))
    except OURS as error:
        return Outcome("crashed", where, f"{type(error).__name__}: {error.fact}")
    except sg.errors.SymgradError as error:
        return Outcome("refused", where, f"{type(error).__name__}: {error.fact}")
    except RecursionError:
        return Outcome("crashed", where, "RecursionError")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.rsplit('symgrad/', 1)[-1]}:{frame.name}"
        return Outcome("crashed", where, f"{type(error).__name__}: {error} ({place})")
    return Outcome("right", notes=tuple(sorted(notes)))


# ---- making failures smaller


def signature(found: Outcome) -> tuple[str, str]:
    """Return a key that failures of one cause share."""
    detail = "" if found.verdict.startswith("wrong") else re.sub(r"[-\d.]+|'[^']*'", "N", found.detail)
    return found.verdict, detail


def shrunk(case: Case, failure: Outcome) -> Case:
    """The case without what its failure does not need."""
    wanted, end, progress = signature(failure), time.process_time() + PATIENCE, False
    plan = (failure.where,)
    if signature(outcome(case, plan)) != wanted:
        return case
    position = 0
    while time.process_time() < end:
        program = smaller(case.program, position)
        if program is None:
            if not progress:
                break
            position, progress = 0, False
            continue
        expected = results(program, case.arguments)
        candidate = None if expected is None else Case(program, case.arguments, expected)
        if candidate is not None and signature(outcome(candidate, plan)) == wanted:
            case, progress = candidate, True
        else:
            position += 1
    return case


def smaller(program: Program, position: int) -> Program | None:
    """Return the program with one statement or operand less, the large cuts first; None behind the last of them."""
    sizes = [size for size, _ in cuts(ast.parse(program.source))]
    if position >= len(sizes):
        return None
    tree = ast.parse(program.source)
    chosen = sorted(range(len(sizes)), key=lambda i: -sizes[i])[position]
    list(cuts(tree))[chosen][1]()
    return program._replace(source=ast.unparse(ast.fix_missing_locations(tree)) + "\n")


def cuts(tree: ast.AST) -> Iterator[tuple[int, Any]]:
    """Ways to make a tree smaller, with the size of what they take away."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if field in ("body", "orelse", "finalbody", "handlers") and isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, ast.stmt) and not isinstance(item, ast.Pass):
                        yield weight(item), Cut(node, field, i, [])
                        for inner in ("body", "orelse", "finalbody"):
                            block = getattr(item, inner, None)
                            if isinstance(block, list) and not isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                                yield 1, Cut(node, field, i, block)
            elif isinstance(value, ast.BinOp):
                yield weight(value.right), Put(node, field, value.left)
                yield weight(value.left), Put(node, field, value.right)
            elif isinstance(value, ast.BoolOp):
                for part in value.values:
                    yield 1, Put(node, field, part)
            elif isinstance(value, ast.Call) and value.args and not isinstance(node, ast.Expr):
                for part in value.args:
                    yield 1, Put(node, field, part)
            elif isinstance(value, ast.IfExp):
                yield 2, Put(node, field, value.body)
                yield 2, Put(node, field, value.orelse)


def weight(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


class Cut(NamedTuple):
    """Put statements in the place of one."""

    node: Any
    field: str
    at: int
    instead: list[ast.stmt]

    def __call__(self) -> None:
        block = getattr(self.node, self.field)
        block[self.at : self.at + 1] = self.instead
        if not block and self.field == "body":
            block.append(ast.Pass())


class Put(NamedTuple):
    """Put an expression in the place of another."""

    node: Any
    field: str
    instead: ast.expr

    def __call__(self) -> None:
        setattr(self.node, self.field, self.instead)


def script(case: Case, found: Outcome, heading: str) -> str:
    """The failing case as a person can run it."""
    kind, level = found.where.split()
    what = "compile(f, " if kind == "value" else "value_and_grad(f, (0, 1), "
    failing = re.search(r"on arguments (\d)", found.detail)
    lines = [f"# {heading}", f"# {found.verdict}, {found.where}: {found.detail}", case.program.source]
    lines += ["", "import symgrad as sg", "", f"transformed = sg.{what}optimize={level})"]
    for i in sorted({0, int(failing[1]) if failing else 0}):
        x, y = case.arguments[i]
        lines += [f"x, y = np.array({x.tolist()}), {y}", "print(f(x.copy(), y), transformed(x, y))"]
    return "\n".join(lines)


# ---- the command


class Report(NamedTuple):
    """The report on one program."""

    seed: int
    features: tuple[str, ...]
    found: Outcome
    text: str


def examined(seed: int, shrink: bool = True, once: bool = False) -> Report:
    case = generated(seed)
    found = outcome(case, plan_of(seed, once))
    text = ""
    if found.verdict not in ("right", "refused"):
        smallest = shrunk(case, found) if shrink and is_failure(found) else case
        text = script(smallest, found, f"seed {seed}, {', '.join(case.program.features)}")
    linecache.cache.clear()
    return Report(seed, case.program.features, found, text)


def is_failure(found: Outcome) -> bool:
    return found.verdict in ("wrong value", "wrong gradient", "crashed")


def statistics(reports: list[Report]) -> str:
    """Counts of verdicts, refusals by message and by feature, crashes, seeds of what is wrong."""
    verdicts = Counter(r.found.verdict for r in reports)
    notes = Counter(note for r in reports for note in r.found.notes)
    total = len(reports)
    lines = [f"{total} programs: " + ", ".join(f"{v} {k} ({v / total:.1%})" for k, v in verdicts.most_common())]
    lines += [f"of the right ones: {dict(notes)}", "", "refused and crashed, by message"]
    reasons: dict[str, list[int]] = defaultdict(list)
    for r in reports:
        if r.found.verdict in ("refused", "crashed", "late"):
            plain = re.sub(r"\d+|0x\w+", "N", r.found.detail)
            reasons[f"{r.found.verdict}: {plain}"].append(r.seed)
    lines += [f"{len(s):6} {k}  (seeds {s[:3]})" for k, s in sorted(reasons.items(), key=lambda e: -len(e[1]))]
    lines += ["", "by feature: programs, refused, wrong or crashed"]
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for r in reports:
        for feature in r.features:
            used[feature]["all"] += 1
            used[feature]["refused"] += r.found.verdict == "refused"
            used[feature]["bad"] += is_failure(r.found)
    for name, c in sorted(used.items(), key=lambda e: -e[1]["refused"] / e[1]["all"]):
        lines.append(f"{name:32} {c['all']:5} {c['refused'] / c['all']:7.0%} {c['bad'] / c['all']:7.0%}")
    lines += ["", f"wrong: {[(r.seed, r.found.where) for r in reports if r.found.verdict.startswith('wrong')]}"]
    return "\n".join(lines)


def run(
    seeds: Iterable[int],
    jobs: int = 1,
    shrink: bool = True,
    log: str | None = None,
    target: str = "numpy",
    once: bool = False,
) -> bool:
    """Examine the programs of seeds, print what fails and the statistics; return whether anything is wrong."""
    reports = []
    with get_context("spawn").Pool(jobs, for_target, (target,), maxtasksperchild=200) as pool:
        for report in pool.imap_unordered(partial(examined, shrink=shrink, once=once), seeds):
            reports.append(report)
            if log:
                with open(log, "a") as file:
                    file.write(json.dumps(report) + "\n")
            if report.found.verdict not in ("right", "refused"):
                print(f"{report.text}\n{'-' * 80}", flush=True)
    print(statistics(reports))
    return any(is_failure(r.found) for r in reports)


def main() -> bool:
    parser = argparse.ArgumentParser(description="Random programs with control flow against Python.")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="the first one; each program has one of its own")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true", help="print failures as they are")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    parser.add_argument("--target", choices=("numpy", "c", "statements"), default="numpy", help="see tests.fuzz")
    parser.add_argument("--once", action="store_true", help="one step for each program: more programs in the same time")
    parser.add_argument("--log", help="a file to add a line of JSON to for each program")
    parser.add_argument("--feature", choices=FEATURES, help="only programs that have it")
    chosen = parser.parse_args()
    seeds = [*islice(filter(partial(has, chosen.feature), count(chosen.seed)), chosen.count)]
    if chosen.show:
        print(*(generated(seed).program.source for seed in seeds), sep="\n" + "-" * 80 + "\n")
        return False
    return run(seeds, chosen.jobs, not chosen.no_shrink, chosen.log, chosen.target, chosen.once)


if __name__ == "__main__":
    sys.exit(main())
