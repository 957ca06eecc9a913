"""Census of NumPy and SciPy: what becomes of each public function in a traced program, from the operator table.

What an entry says is not believed but tried: the function is traced on a sample call, and its graph says whether the
result depends on the arguments, and whether it does so by operators that have derivatives.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Graph, Node, reached
from symgrad.derivatives.pullback import pullback
from symgrad.errors import NotDifferentiableError, Refusal, ScalarError, SymgradError
from symgrad.frontend.arguments import spec
from symgrad.frontend.trace import trace
from symgrad.ops.create import CREATE
from symgrad.ops.define import TABLE, Refused
from symgrad.ops.draws import DRAWS
from symgrad.ops.scipy import load
from symgrad.report.samples import OUTSIDE, OWN, USUAL, WRITES, Arguments, calls_of

DIFFERENTIABLE, ZERO, SHAPES, REFUSED, APART = "differentiable", "derivative zero", "shapes", "refused", "apart"
KINDS = {
    DIFFERENTIABLE: "in both modes",
    ZERO: "the result is constant piece by piece: its derivative is zero, or it holds integers and booleans",
    SHAPES: "arrays from shapes, and shapes and dtypes from arrays",
    REFUSED: "with an error that says why, and what to write instead",
    APART: "no traced value belongs into them: settings, files, dtypes, integers such as the number of zeros",
}
MODULES = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ndarray", "scipy.special", "scipy.linalg",
           "scipy.fft", "scipy.stats")  # fmt: skip
"""Modules that the census counts, and the class of arrays."""


class Entry(NamedTuple):
    """A function by its path, its kind, and the error that a user sees where it, or the derivative by an argument, is
    refused.
    """

    path: str
    kind: str
    reason: str = ""


class Unclassified(LookupError):
    """A function that no sample call of the census fits: it needs an entry in the table, or a sample."""


def census(module: str) -> list[Entry]:
    """Return an entry for each public function of a module, in alphabetical order.

    Raises
    ------
    Unclassified
        If there is a function of which nothing is known.
    """
    return [entry(path) for path in paths(module)]


def paths(module: str) -> list[str]:
    """Return the functions of a module of the census, as dotted paths; those of `scipy.stats` are the densities."""
    if module == "numpy.ndarray":
        return [f"{module}.{name}" for name in dir(np.ndarray) if not name.startswith("_")]
    home = import_module(module)
    names = sorted(set(getattr(home, "__all__", None) or dir(home)))
    if module == "scipy.stats":
        return [f"{module}.{name}.{density}" for name in names for density in _densities(getattr(home, name))]
    return [f"{module}.{name}" for name in names if _is_function(home, name)]


def _is_function(home: ModuleType, name: str) -> bool:
    found = getattr(home, name, None)
    return not name.startswith("_") and callable(found) and not isinstance(found, (type, ModuleType))


def _densities(distribution: Any) -> list[str]:
    """Return the names of a distribution's density and of its logarithm."""
    if isinstance(distribution, (type, ModuleType)):
        return []
    return [name for name in ("logpdf", "logpmf", "pdf", "pmf") if hasattr(distribution, name)]


@cache
def entry(path: str) -> Entry:
    """Return the entry of a function by its dotted path, ``numpy.linalg.norm``; see `census` for what is raised.

    Raises
    ------
    AttributeError
        If there is no such function.
    """
    home, _, name = path.rpartition(".")
    function = found_at(path)
    load()
    if name in OUTSIDE.get(home, "").split():
        return Entry(path, APART)
    if home.startswith("numpy.random") and name in DRAWS:
        return Entry(
            path,
            REFUSED,
            f"{path} needs the value of a traced argument, which has none before the program runs\n  {DRAWS[name]}",
        )
    if isinstance(refused := known(function), Refused):
        return Entry(path, REFUSED, f"{refused.fact}\n  {refused.instead}")
    if known(function) is CREATE and path not in OWN:
        return Entry(path, SHAPES)
    return _tried(path, function)


def found_at(path: str) -> Any:
    """Return what stands at a dotted path; modules on the way are imported."""
    first, *steps = path.split(".")
    found: Any = import_module(first)
    for i, step in enumerate(steps, 2):
        if not hasattr(found, step) and isinstance(found, ModuleType):
            try:
                import_module(".".join([first, *steps[: i - 1]]))
            except ImportError:
                raise AttributeError(f"there is no {path}") from None
        found = getattr(found, step)
    return found


def known(function: Any) -> Any:
    """Return the entry of the operator table, `CREATE` for a function that creates arrays, None where there is none."""
    try:
        return CREATE if function in CREATE else TABLE.get(function)
    except TypeError:  # an object without a hash
        return None


# ---- by trial


def _tried(path: str, function: Any) -> Entry:
    calls = calls_of(path, function)
    refusals = []
    for arguments in calls:
        try:
            graph = traced_call(path, arguments)
        except (Refusal, ScalarError) as error:
            refusals.append(_message(error))
        except Exception:  # of a function that takes other arguments
            continue
        else:
            return _by_derivatives(path, graph)
    if calls is not USUAL and len(refusals) == len(calls):
        return Entry(path, REFUSED, refusals[0])
    raise Unclassified(path)


def traced_call(path: str, arguments: Arguments) -> Graph:
    """Return the graph of a call, traced as a program of the user's."""
    specs = [spec(x) for x in _specs(arguments)]
    constants: dict[str, Any] = {}
    names = [f"x{i}" for i in range(len(specs))]
    given = iter(names)
    texts = [_text(x, given, constants) for x in arguments]
    lines = [f"def call({', '.join(names)}):\n", *_lines(path, texts)]
    file = f"<census {path}>"
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    namespace = {path.partition(".")[0]: import_module(path.partition(".")[0]), **constants}
    try:
        exec(compile("".join(lines), file, "exec"), namespace)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return trace(namespace["call"], specs, {}).graph
    finally:
        linecache.cache.pop(file, None)


def _lines(path: str, texts: Sequence[str]) -> list[str]:
    """Return the body of a function that makes the call."""
    home, _, name = path.rpartition(".")
    if home == "numpy.ndarray":
        call = f"x.{name}({', '.join(texts[1:])})" if callable(getattr(np.ndarray, name)) else f"x.{name}"
        first = [f"    x = {texts[0]}.copy()\n"]
    else:
        call, first = f"{path}({', '.join(['x', *texts[1:]] if path in WRITES else texts)})", []
        first = [f"    x = {texts[0]}.copy()\n"] if path in WRITES else []
    return [*first, f"    {call}\n", "    return x\n"] if path in WRITES else [*first, f"    return {call}\n"]


def _specs(x: Any) -> Iterator[str]:
    """The specs among arguments; sequences may hold some."""
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _specs(item)
    elif _is_spec(x):
        yield x


def _is_spec(x: Any) -> bool:
    return isinstance(x, str) and x.endswith("]")


def _text(x: Any, given: Iterator[str], constants: dict[str, Any]) -> str:
    """Write an argument: the next name for a spec, and a name for each constant, which it is noted under."""
    if isinstance(x, list):
        return f"[{', '.join(_text(item, given, constants) for item in x)}]"
    if isinstance(x, tuple):
        return f"({''.join(_text(item, given, constants) + ', ' for item in x)})"
    if _is_spec(x):
        return next(given)
    constants[name := f"c{len(constants)}"] = x
    return name


def _by_derivatives(path: str, graph: Graph) -> Entry:
    """Return the entry of a function by the cotangents of a call's arguments, one after the other."""
    outputs = [y for y in graph.outputs if _is_floating(y)]
    seeds = [graph.constant(np.ones(y.aval.shape, y.aval.dtype)) for y in outputs]
    found, refusals = [], []
    for x in filter(_is_floating, graph.inputs):
        try:
            found += pullback(graph, outputs, seeds, [x])
        except NotDifferentiableError as error:
            refusals.append(_message(error))
    if any(g is not None for g in found):
        return Entry(path, DIFFERENTIABLE, refusals[0] if refusals else "")
    if refusals:
        return Entry(path, REFUSED, refusals[0])
    return Entry(path, ZERO if set(graph.inputs) & set(reached(graph.outputs)) else SHAPES)


def _message(error: SymgradError) -> str:
    return f"{error.fact}\n  {error.instead}"


def _is_floating(x: Node) -> bool:
    return bool(x.aval.dtype.kind in "fc")
