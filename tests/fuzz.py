"""Random programs against NumPy: ``python -m tests.fuzz --count 20000 --seed 1 --jobs 2``.

Those of this module have no control flow; ``--kind control`` runs the programs of `control_fuzz`, which have. Those of
``--kind complex`` compute with complex numbers. With ``--target c`` C computes what it can, and with
``--target statements`` the statements that C would be printed of are verified and interpreted: that takes a tenth of
the time, and no compiler.

A program is a list of statements over named variables, made by filling the templates of `grammar` and keeping what
NumPy runs. NumPy's own results are the oracle of values, finite differences that of derivatives. How far rounding can
move a result is measured: the same program runs with noise of the size of a rounding on every variable. What a program
is refused for is counted; anything else that symgrad raises is a failure, as is a wrong number, and is shrunk.
"""

from __future__ import annotations

import argparse
import ast
import linecache
import re
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from multiprocessing import get_context

import numpy as np
import pytest

import symgrad as sg
from tests.conftest import for_target, in_tiny_blocks
from tests.grammar import EXPRESSIONS, OF_THE_PLANE, PARTS, STATEMENTS, Choice, InThePlane, templates

TABLES = {
    Choice: (templates(EXPRESSIONS), templates(STATEMENTS)),
    InThePlane: (templates(EXPRESSIONS) + 3 * templates(OF_THE_PLANE), templates(STATEMENTS) + 3 * templates(PARTS)),
}
LARGEST, HIGHEST = 120, 1e4  # of numbers in a variable, and of their absolute values
SHAPES = ((), ("n",), ("n",), (3,), ("n", 3), ("n", 3), ("n", "n"), (2, "n"), (1, "n"), ("n", 2, 3), (3, 3), (0,), (1,))
DTYPES = ("float64",) * 7 + (
    "float32",
    "float32",
    "float16",
    "int64",
    "int64",
    "int8",
    "uint8",
    "int32",
    "bool",
    "bool",
)
COMPLEX = ("complex128",) * 4 + ("float64",) * 3 + ("complex64", "float32", "int64", "bool")
LAYOUTS = {
    "C": "{}",
    "Fortran": "np.asfortranarray({})",
    "strided": "np.repeat({}, 2, axis=-1)[..., ::2]",
    "reversed": "np.flip(np.flip({}).copy())",
}
KINDS = ("values", "values", "gradient", "gradient", "jvp", "second")
OURS = (sg.errors.GraphError, sg.errors.CompilerError)
"""Errors that no program of NumPy's may meet, as it has no graph and no C: ours to see to, and no refusals."""
unique = count()


@dataclass(frozen=True)
class Argument:
    """An argument: ``shape`` may have the size n in it; ``dtype`` "scalar" is a Python float."""

    name: str
    shape: tuple
    dtype: str
    layout: str
    seed: int

    def text(self, n):
        rng = np.random.default_rng((self.seed, n))
        if self.dtype == "scalar":
            return str(round(float(rng.normal()), 2))
        shape = tuple(n if size == "n" else size for size in self.shape)
        if 0 in shape:
            return f"np.zeros({shape}, {self.dtype!r})"
        low = 0 if self.dtype in ("uint8", "bool") else -3
        drawn = np.round(rng.normal(size=shape), 2) if self.floating() else rng.integers(low, 4 - 2 * (low == 0), shape)
        if self.dtype[0] == "c":
            drawn = drawn + 1j * np.round(rng.normal(size=shape), 2)
        text = f"np.array({np.asarray(drawn).tolist()}, {self.dtype!r})"
        return LAYOUTS[self.layout].format(text) if shape else text

    def floating(self):
        return self.dtype[0] in "fsc"


@dataclass(frozen=True)
class Program:
    """A function of ``arguments`` that runs ``statements`` and returns ``result``, and how it is to be compiled."""

    arguments: tuple[Argument, ...]
    statements: tuple[str, ...]
    result: str
    kind: str
    sizes: tuple[int, ...]
    optimize: int
    numerics: str
    blocks: bool

    def source(self, after=""):
        """The function; ``after`` is put behind each statement, with {} for the variable that it assigned."""
        lines = [f"def f({', '.join(a.name for a in self.arguments)}):"]
        for statement in self.statements:
            lines += [statement, after.format(assigned(statement))] if after else [statement]
        return "\n    ".join([*filter(None, lines), f"return {self.result}"]) + "\n"

    def function(self, after="", wide=False, **names):
        return defined(widened(self.source(after)) if wide else self.source(after), **names)

    def values(self, n, wide=False):
        """The arguments at a size, which cannot be written into."""
        texts = [a.text(n) for a in self.arguments]
        return [locked(eval(widened(t) if wide else t, {"np": np})) for t in texts]

    def options(self):
        return {"optimize": self.optimize, "numerics": self.numerics}

    def script(self):
        """The program as a person can run it."""
        options = ", ".join(f"{k}={v!r}" for k, v in self.options().items())
        names = ", ".join(a.name for a in self.arguments)
        wrt = tuple(i for i, a in enumerate(self.arguments) if a.floating())
        what = "compile(f, " if self.kind == "values" else f"value_and_grad(f, {wrt}, "
        lines = [f"# {self.kind}{', in tiny blocks' * self.blocks}", "import numpy as np", "import symgrad as sg", ""]
        lines += ["", self.source(), "", f"transformed = sg.{what}{options})"]
        for n in self.sizes:
            lines += [f"{a.name} = {a.text(n)}" for a in self.arguments]
            lines += [f"print(f({names}))", f"print(transformed({names}))"]
        return "\n".join(lines)


def assigned(statement):
    """The variable that a statement assigns or writes into, its first name."""
    names = [node.id for node in ast.walk(ast.parse(statement)) if isinstance(node, ast.Name) and node.id != "np"]
    return names[0]


def widened(text):
    """All of a program in float64, whose differences have digits enough to tell a derivative."""
    return re.sub(r"float(16|32)", "float64", text).replace("complex64", "complex128")


def locked(x):
    if isinstance(x, np.ndarray) and x.size:
        x.flags.writeable = False
    return x


def unlocked(x):
    if isinstance(x, np.ndarray):
        x.flags.writeable = True
    return x


def defined(source, **names):
    """The function of a source, whose lines tracebacks and symgrad can quote."""
    filename = f"<program {next(unique)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = {"np": np, "sg": sg, **names}
    exec(compile(source, filename, "exec"), scope)
    return scope["f"]


# ---- making programs


def generated(seed, choice=Choice):
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    arguments = drawn_arguments(rng) if choice is Choice else drawn_arguments(rng, "complex128", COMPLEX)
    n = int(rng.choice([0, 1, 2, 3, 3, 3, 4, 5]))
    program = Program(
        arguments=arguments,
        statements=(),
        result=arguments[0].name,
        kind=str(rng.choice(KINDS)),
        sizes=(n,) if rng.random() < 0.7 else (n, n + int(rng.integers(1, 4))),
        optimize=int(rng.choice([0, 1, 2, 2])),
        numerics=str(rng.choice(["stable", "stable", "ieee"])),
        blocks=bool(rng.random() < 0.3),
    )
    for _ in range(rng.integers(2, 11)):
        program = lengthened(program, rng, choice)
    return with_result(program, rng)


def drawn_arguments(rng, first="float64", others=DTYPES):
    found = [Argument("x", SHAPES[rng.integers(1, 10)], first, str(rng.choice(list(LAYOUTS))), int(rng.integers(1000)))]
    for name in "yzs"[: rng.integers(0, 4)]:
        shape = SHAPES[rng.integers(len(SHAPES))]
        dtype = "scalar" if name == "s" else str(rng.choice(others))
        dtype = "int64" if dtype == "bool" and not shape else dtype  # the square of an array is not that of a scalar
        found.append(Argument(name, shape, dtype, str(rng.choice(list(LAYOUTS))), int(rng.integers(1000))))
    return tuple(found)


def lengthened(program, rng, kind):
    """One more statement that NumPy runs, if one is found."""
    values, (makes, changing) = variables(program), TABLES[kind]
    for _ in range(40):
        choice = kind(rng, values)
        try:
            changes = rng.random() < 0.3
            text = choice.fill(choice.one(changing if changes else makes))
        except LookupError:
            continue
        longer = replace(program, statements=(*program.statements, text if changes else f"v{len(values)} = {text}"))
        after = variables(longer)
        if after is not None and all(map(moderate, after.values())):
            return longer
    return program


def variables(program):
    """Return the variables of a program at its end, None where NumPy raises."""
    longer = replace(program, result="dict(locals())")
    try:
        return quietly(longer.function(), *program.values(program.sizes[0]))
    except Exception:
        return None


def moderate(value):
    """Numbers that are neither many nor large; a NaN may only stand where it is not taken."""
    x = np.asarray(value)
    if x.dtype.kind not in "fiubc" or x.ndim > 4 or x.size > LARGEST or type(value) is bool:
        return False
    return bool(
        np.all(
            np.abs(x.astype(complex if x.dtype.kind == "c" else float)) < (HIGHEST if x.dtype != np.float16 else 100)
        )
    )


def with_result(program, rng):
    """The last variables are the results, or their sum where a derivative is asked for."""
    values = variables(program)
    floats = [name for name, value in values.items() if np.asarray(value).dtype.kind in "fc"][-3:]
    if program.kind == "values" or not floats:
        return replace(program, kind="values", result=", ".join([*values][-4:]) + ",")
    outer = ["np.sum({} * 0.5)", "np.sum(np.sin({}))", "np.sum({} ** 2)", "np.sum(np.tanh({}))"]
    plane = [
        "np.sum(np.abs({}) ** 2)",
        "np.sum(({} * (0.5 - 1j)).real)",
        "np.sum(np.sin({}).imag)",
        "np.sum(np.abs({}))",
    ]
    kinds = [plane if np.asarray(values[name]).dtype.kind == "c" else outer for name in floats]
    sums = [f"s{i} = {rng.choice(kind).format(name)}" for i, (name, kind) in enumerate(zip(floats, kinds, strict=True))]
    result = " + ".join(f"s{i}" for i in range(len(sums)))
    return replace(program, statements=(*program.statements, *sums), result=result)


# ---- running them


@np.errstate(all="ignore")
def quietly(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


class Wrong(AssertionError):
    """A result that is not NumPy's."""


def outcome(program):
    """Return the outcome of a program, ``("right", "")``, or refused, wrong or crashed with the reason."""
    context = pytest.MonkeyPatch.context() if program.blocks else nullcontext()
    with context as patch:
        if patch is not None:
            in_tiny_blocks(patch)
        try:
            return CHECKS[program.kind](program), ""
        except Wrong as error:
            return "wrong", str(error)
        except OURS as error:
            return "crashed", error.fact
        except sg.errors.SymgradError as error:
            return "refused", f"{type(error).__name__}: {error.fact}"
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return "crashed", f"{type(error).__name__}: {error} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})"


def noisy(rng):
    """Moves a variable by about a rounding of its dtype, in place where it is an array."""

    def move(x):
        dtype = np.asarray(x).dtype
        if dtype.kind not in "fc":
            return x
        factor = 1 + 2 * np.finfo(dtype).eps * rng.uniform(-1, 1, np.shape(x))
        if not isinstance(x, np.ndarray) or not x.flags.writeable:
            return (x * factor).astype(dtype) if dtype.itemsize < 8 or np.ndim(x) else x * float(factor)
        x *= factor.astype(dtype)
        return x

    return move


def spread(program, n, expected):
    """Return how far noise moves each result."""
    widths = [np.zeros(np.shape(e)) for e in expected]
    for seed in range(4):
        move = noisy(np.random.default_rng(seed))
        args = [locked(move(unlocked(x))) for x in program.values(n)]
        moved = as_tuple(quietly(program.function("{0} = noise({0})", noise=move), *args))
        for i, (m, e) in enumerate(zip(moved, expected, strict=True)):
            same = np.shape(m) == np.shape(e)
            widths[i] = np.fmax(widths[i], np.abs(np.subtract(m, e, dtype=widest(e)))) if same else np.inf
    return widths


def widest(x):
    return complex if np.iscomplexobj(x) else float


def as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


def check_values(program):
    """Results as NumPy's, also at sizes that come later."""
    compiled = sg.compile(program.function(), **program.options())
    for n in program.sizes:
        args = program.values(n)
        try:
            expected = as_tuple(quietly(program.function(), *args))
        except Exception:
            break  # the program is of its first size
        results = as_tuple(quietly(compiled, *args))
        same(expected, results, quietly(spread, program, n, expected), f"at n = {n}")
    return "right"


def same(expected, results, widths, where):
    for i, (e, r, width) in enumerate(zip(expected, results, widths, strict=True)):
        e, r = np.asarray(e), np.asarray(r)
        if (e.shape, e.dtype) != (r.shape, r.dtype):
            raise Wrong(f"result {i} {where} is {r.dtype}{list(r.shape)}, NumPy has {e.dtype}{list(e.shape)}")
        unit = np.finfo(e.dtype).eps if e.dtype.kind in "fc" else 0
        allowed = 30 * width + 30 * unit * (np.abs(e) + np.max(np.abs(e), initial=0))
        difference = np.abs(np.subtract(r, e, dtype=widest(e)))
        if not np.all((difference <= allowed) | (np.isnan(e) & np.isnan(r)) | (e == r)):
            raise Wrong(f"result {i} {where} is {r.tolist()}, NumPy has {e.tolist()}")


def directions(program, args, rng):
    return [direction(x, rng) if a.floating() else None for a, x in zip(program.arguments, args, strict=True)]


def direction(x, rng):
    real = rng.normal(size=np.shape(x))
    return real + 1j * rng.normal(size=np.shape(x)) if np.iscomplexobj(x) else real


def moved(args, along, step):
    """Return the arguments a step along a direction; of the same types, on which it depends what is a view."""
    pairs = [(x, x if d is None else x + step * d) for x, d in zip(args, along, strict=True)]
    return [float(y) if type(x) is float else np.asarray(y) if isinstance(x, np.ndarray) else y for x, y in pairs]


def slope(f, args, along, eps):
    """The derivative along a direction, None near a kink, where the bend does not shrink with the step."""
    at = {k: quietly(f, *moved(args, along, k * eps)) for k in (-2, -1, 0, 1, 2)}
    central, wider = (at[1] - at[-1]) / (2 * eps), (at[2] - at[-2]) / (4 * eps)
    bend, wider_bend = ((at[k] - 2 * at[0] + at[-k]) / (k * eps) for k in (1, 2))
    scale = 1 + np.abs(central)
    straight = np.abs(bend) + np.abs(wider_bend) < 1e-6 * scale
    if not (np.abs(wider - central) < 1e-5 * scale and (straight or 1.6 < wider_bend / bend < 2.5)):
        return None
    return (4 * central - wider) / 3


def check_derivative(program):
    """The gradient, or the product with a tangent, along a random direction; at sizes that come later, too."""
    wrt = tuple(i for i, a in enumerate(program.arguments) if a.floating())
    gradient = sg.value_and_grad(program.function(), wrt, **program.options())
    verdict = "right"
    for n in program.sizes:
        args = program.values(n)
        try:
            expected = quietly(program.function(), *args)
        except Exception:
            break
        along = directions(program, args, np.random.default_rng(n))
        if program.kind == "jvp":
            value, derivative = quietly(pushed, program, args, along)
        else:
            value, slopes = quietly(gradient, *args)
            fitting(args, slopes, wrt)
            derivative = sum(np.sum(np.real(g * along[i]), dtype=float) for g, i in zip(slopes, wrt, strict=True))
        same((expected,), (value,), quietly(spread, program, n, (expected,)), f"at n = {n}")
        if not close(program, n, along, derivative):
            verdict = "near a kink"
    return verdict


def pushed(program, args, along):
    """Value and tangent of the result by forward mode."""
    wrt = [i for i, d in enumerate(along) if d is not None]
    f = program.function()

    def of_floats(*xs):
        return f(*[xs[wrt.index(i)] if i in wrt else x for i, x in enumerate(args)])

    with sg.options(**program.options()):
        tangents = [np.asarray(along[i], np.asarray(args[i]).dtype)[()] for i in wrt]
        tangents = [float(t) if isinstance(args[i], float) else t for i, t in zip(wrt, tangents, strict=True)]
        return sg.jvp(of_floats, tuple(args[i] for i in wrt), tuple(tangents))


def fitting(args, slopes, wrt):
    for g, i in zip(slopes, wrt, strict=True):
        x = np.asarray(args[i])
        if (np.shape(g), np.asarray(g).dtype) != (x.shape, x.dtype):
            raise Wrong(f"gradient {i} is {np.asarray(g).dtype}{list(np.shape(g))}, of {x.dtype}{list(x.shape)}")


def close(program, n, along, derivative):
    """Whether differences can tell, and the derivative is what they say."""
    unit = narrowest(program, n)
    args, f = program.values(n, wide=True), program.function(wide=True)
    numeric = slope(f, args, along, 1e-5) if is_wide(program, n) else None
    if numeric is None:
        return False
    nearby = []
    for seed in range(3):  # how far rounding, and the first steps of another direction, move the derivative
        rng = np.random.default_rng(seed)
        noise = [None if d is None else x * rng.uniform(-1, 1, np.shape(x)) for x, d in zip(args, along, strict=True)]
        nearby.append(slope(f, moved(args, noise, unit), along, 1e-5))
    if None in nearby:
        return False
    width = max(abs(numeric - s) for s in nearby)
    size = 1 + abs(numeric)
    if not abs(derivative - numeric) <= 30 * width + (1e-5 if unit < 1e-10 else 300 * unit) * size:
        raise Wrong(f"derivative at n = {n} is {derivative}, differences say {numeric}")
    return True


def is_wide(program, n):
    """Whether all is computed in float64 where no other dtype is named; of small integers NumPy's sine is float16."""
    values = quietly(replace(program, result="dict(locals())").function(wide=True), *program.values(n, wide=True))
    return all(x.dtype.kind not in "fc" or x.dtype == widest(x) for x in map(np.asarray, values.values()))


def narrowest(program, n):
    """The unit in the last place of the narrowest floating numbers that a program names."""
    texts = program.source() + " ".join(a.text(n) for a in program.arguments)
    return next((np.finfo(d).eps for d in ("float16", "float32", "complex64") if d in texts), np.finfo(float).eps)


def check_second(program):
    """Product of the Hessian with a vector, against differences of the gradient."""
    program = replace(program, sizes=program.sizes[:1])
    (n,) = program.sizes
    if narrowest(program, n) > 1e-10:
        return check_derivative(program)
    args = program.values(n)
    along = direction(args[0], np.random.default_rng(n))
    product = quietly(sg.hvp(program.function(), **program.options()), *args, along)
    first = sg.grad(program.function(), optimize=0)
    weights = direction(args[0], np.random.default_rng(n + 1))
    numeric = slope(lambda x: np.sum(np.real(first(x, *args[1:]) * weights)), [args[0]], [along], 1e-5)
    value = slope(lambda x: program.function()(x, *args[1:]), [args[0]], [along], 1e-5)
    if numeric is None or value is None:
        return "near a kink"
    pairs = (
        ("first", np.sum(np.real(quietly(first, *args) * along)), value),
        ("second", np.sum(np.real(product * weights)), numeric),
    )
    for order, found, expected in pairs:
        if not abs(found - expected) <= 3e-5 * (1 + abs(expected)):
            raise Wrong(f"{order} derivative at n = {n} is {found}, differences say {expected}")
    return "right"


CHECKS = {"values": check_values, "gradient": check_derivative, "jvp": check_derivative, "second": check_second}


# ---- shrinking and reporting


def shrunk(program):
    """The program without the statements that its failure does not need."""
    failure = signature(*outcome(program))
    for smaller in smaller_programs(program):
        if runs(smaller) and signature(*outcome(smaller)) == failure:
            return shrunk(smaller)
    return program


def signature(verdict, reason):
    """Return a key that failures of one cause share."""
    return verdict, re.sub(r"[-\d.]+", "", reason) if verdict != "wrong" else reason.split()[0]


def smaller_programs(program):
    """Without one statement, the variable that it made being another; then with fewer results, sizes and arguments."""
    for i in reversed(range(len(program.statements))):
        rest = (*program.statements[:i], *program.statements[i + 1 :])
        yield replace(program, statements=rest)
        name = assigned(program.statements[i])
        for other in [*(a.name for a in program.arguments), *map(assigned, program.statements[:i])]:
            texts = [re.sub(rf"\b{name}\b", other, text) for text in (*rest, program.result)]
            if other != name:
                yield replace(program, statements=tuple(texts[:-1]), result=texts[-1])
    for joint in (", ", " + "):
        parts = program.result.rstrip(",").split(joint)
        for i in range(len(parts) if len(parts) > 1 else 0):
            yield replace(program, result=joint.join(parts[:i] + parts[i + 1 :]) + "," * (joint == ", "))
    for i in range(len(program.arguments) if len(program.arguments) > 1 else 0):
        yield replace(program, arguments=(*program.arguments[:i], *program.arguments[i + 1 :]))
    if len(program.sizes) > 1:
        yield replace(program, sizes=program.sizes[:1])
    if program.blocks:
        yield replace(program, blocks=False)


def runs(program):
    try:
        quietly(program.function(), *program.values(program.sizes[0]))
    except Exception:
        return False
    return True


def examined(seed, choice=Choice):
    program = generated(seed, choice)
    verdict, reason = outcome(program)
    linecache.cache.clear()
    if verdict in ("wrong", "crashed"):
        program = shrunk(program)
        return seed, verdict, f"# seed {seed}: {outcome(program)[1]}\n{program.script()}"
    return seed, verdict, reason


def main():
    parser = argparse.ArgumentParser(description="Random programs against NumPy and finite differences.")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="the first one; each program has one of its own")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kind", choices=("numpy", "complex", "control"), default="numpy", help="of programs")
    parser.add_argument("--target", choices=("numpy", "c", "statements"), default="numpy")
    chosen = parser.parse_args()
    if chosen.kind == "control":
        from tests import control_fuzz  # which imports this module

        return control_fuzz.run(range(chosen.seed, chosen.seed + chosen.count), chosen.jobs, target=chosen.target)
    verdicts, reasons = Counter(), {}
    examine = partial(examined, choice=InThePlane if chosen.kind == "complex" else Choice)
    with get_context("spawn").Pool(chosen.jobs, for_target, (chosen.target,)) as pool:
        seeds = range(chosen.seed, chosen.seed + chosen.count)
        for seed, verdict, text in pool.imap_unordered(examine, seeds, chunksize=16):
            verdicts[verdict] += 1
            if verdict == "refused":
                reasons.setdefault(re.sub(r"\d+|0x\w+", "N", text), []).append(seed)
            elif text:
                print(f"{text}\n{'-' * 80}", flush=True)
    for reason, seeds in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):6} {reason}  (first seed {min(seeds)})")
    print(dict(verdicts))
    return bool(verdicts["wrong"] or verdicts["crashed"])


if __name__ == "__main__":
    raise SystemExit(main())
