"""The arguments of a function from outside: specs as text, annotations, and files of arrays."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.specs import looks_like_spec
from symgrad.core.text import did_you_mean
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import signature, spec_of

_STEP = re.compile(r"""\.?([^\W\d]\w*)|\.?(\d+)|\[(\d+)\]|\[(['"])(.*?)\4\]""")
_PIECES = re.compile(r"""'[^']*'|"[^"]*"|.""", re.DOTALL)
_DTYPES = {"Float": "float64", "Int": "int64", "UInt": "uint64", "Bool": "bool", "Complex": "complex128"}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_ANY_FLOAT = ("Inexact", "Num", "Real", "Shaped")
Entries = dict[str, Any]  # by path, "params.W": a Spec, an array, or a value that is part of the program


class Call(NamedTuple):
    """The arguments of a function's call or trace."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def call_of(function: Callable[..., Any], entries: Mapping[str, Any]) -> Call:
    """The arguments of a function: what is given, what its annotations say, its defaults; each has one of these."""
    takes = signature(function)
    given = _trees(entries, takes)
    bound = inspect.BoundArguments(takes, {})
    missing = []
    for name, parameter in takes.parameters.items():
        if name in given:
            bound.arguments[name] = _as_annotated(given[name], parameter)
        elif (annotated := annotation_spec(parameter.annotation)) is not None:
            bound.arguments[name] = spec_of(annotated, name)
        elif parameter.default is parameter.empty and parameter.kind not in _VARIADIC:
            missing.append(parameter)
    if missing:
        raise _missing(function, missing)
    return Call(bound.args, {**bound.kwargs, **_behind_a_gap(bound)})


def _behind_a_gap(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Arguments behind one that has its default: Python passes them by name."""
    passed = {*list(bound.signature.parameters)[: len(bound.args)], *bound.kwargs}
    return {
        name: x
        for name, x in bound.arguments.items()
        if name not in passed and bound.signature.parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }


def _missing(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> ArgumentError:
    called, names = getattr(function, "__name__", "the function"), [p.name for p in parameters]
    home, dot, _ = getattr(function, "__qualname__", "").rpartition(".")
    if dot and names[0] == "self":
        return ArgumentError(
            f"{home}.{called} is a method, and has no instance that it is called on",
            f"Write a function that makes one, def {called}(x): return {home}().{called}(x), and name that.",
        )
    example = ", ".join(f"{p.name}={_example(p, 'n' if i else 'd')}" for i, p in enumerate(parameters))
    return ArgumentError(
        f"{called}: no shape for {', '.join(names)}",
        f'Say it, --spec "{example}" (float64[] is a scalar, {names[0]}.W=... part of a tree); annotate the function, '
        f'{names[0]}: "float64[n]"; or give arrays by name, --like data.npz.',
    )


def _example(parameter: inspect.Parameter, size: str) -> str:
    """Return an example of an argument: a value where it is annotated as a plain one, else a shape."""
    kind = getattr(parameter.annotation, "__name__", parameter.annotation)
    return {"int": "3", "bool": "True", "str": "'text'", "float": "float64[]"}.get(kind, f"float64[{size}]")


# ---- entries by path


def parse_entries(text: str) -> Entries:
    """The entries of ``"w=float64[d], params.W=float64[3, 4], steps=10, mode='fast'"``."""
    found: Entries = {}
    for part in _split(text):
        path, equals, value = part.partition("=")
        if not equals or not path.strip():
            raise ArgumentError(f"{part.strip()!r} gives no argument", 'Write name=spec, as in "w=float64[d]".')
        found[path.strip()] = value_of(value.strip(), path.strip())
    return found


def _split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket and no quotes."""
    parts, depth = [""], 0
    for piece in _PIECES.findall(text):
        depth += (piece in "[({") - (piece in "])}")
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part for part in parts if part.strip()]


def value_of(text: str, path: str) -> Any:
    """A spec, or a Python literal: a value that is part of the program."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    return spec_of(text, path)


def _trees(entries: Mapping[str, Any], takes: inspect.Signature) -> dict[str, Any]:
    """The entries as one tree a parameter."""
    whole: dict[Any, Any] = {}
    for path, value in entries.items():
        steps = _steps(path)
        if steps[0] not in takes.parameters:
            names = ", ".join(takes.parameters) or "none"
            instead = did_you_mean(str(steps[0]), takes.parameters, f"There are: {names}.")
            raise ArgumentError(f"there is no argument {steps[0]!r}", instead)
        _insert(whole, steps, value, path)
    return {name: _with_lists(tree) for name, tree in whole.items()}


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 0
    while match := _STEP.match(path, at):
        name, index, bracket, _, key = match.groups()
        steps.append(name if name is not None else key if key is not None else int(index or bracket))
        at = match.end()
    if not steps or at != len(path) or isinstance(steps[0], int):
        raise ArgumentError(f"{path!r} is not a part of an argument", "Write params.W, params[0] or params['W'].")
    return steps


class _Inner(dict):
    """A part of a tree that entries fill."""


def _insert(home: dict[Any, Any], steps: list[str | int], value: Any, path: str) -> None:
    for step in steps[:-1]:
        home = home.setdefault(step, _Inner())
        if not isinstance(home, _Inner):
            raise ArgumentError(f"{path} is below an argument that is given whole", "Give the whole, or its parts.")
    if steps[-1] in home:
        raise ArgumentError(f"{path} is given twice", "Give the whole, or its parts, once.")
    home[steps[-1]] = value


def _with_lists(part: Any) -> Any:
    """The tree with lists where all keys are numbers."""
    if not isinstance(part, _Inner):
        return part
    inside = {key: _with_lists(x) for key, x in part.items()}
    if not all(isinstance(key, int) for key in inside):
        return inside
    if sorted(inside) != list(range(len(inside))):
        raise ArgumentError(f"a list has the places {sorted(inside)}", "Give all of them, from 0 on.")
    return [inside[i] for i in range(len(inside))]


def _as_annotated(given: Any, parameter: inspect.Parameter) -> Any:
    """A dict of parts as the dataclass or named tuple that the parameter is annotated with; ``*args`` as a tuple."""
    kind = parameter.annotation
    fields = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", None)
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple(given) if isinstance(given, list) else (given,)
    if not isinstance(given, dict) or not fields:
        return given
    if set(given) != set(fields):
        raise ArgumentError(
            f"{parameter.name}: {kind.__name__} has {', '.join(fields)}, not {', '.join(map(str, given))}",
            f"Give each, as in {parameter.name}.{next(iter(fields))}=float64[n].",
        )
    return kind(**given)


# ---- annotations


def annotation_spec(annotation: Any) -> str | None:
    """The spec that an annotation says: ``"float64[n, d]"``, or jaxtyping's ``Float64[Array, "n d"]``; or None."""
    if hasattr(annotation, "dtypes") and isinstance(getattr(annotation, "dim_str", None), str):
        return _jaxtyping(annotation.__name__.partition("[")[0], annotation.dim_str)
    if not isinstance(annotation, str):
        return None
    match _parsed(annotation):
        case ast.Constant(value=str(text)):  # under `from __future__ import annotations`
            return annotation_spec(text)
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[_, ast.Constant(value=str(sizes))])):
            return _jaxtyping(ast.unparse(value).rpartition(".")[2], sizes)
    return annotation if looks_like_spec(annotation) else None


def _parsed(annotation: str) -> ast.expr | None:
    try:
        return ast.parse(annotation.strip(), mode="eval").body
    except SyntaxError:  # float64[] is none
        return None


def _jaxtyping(kind: str, sizes: str) -> str | None:
    """The spec of a dtype and sizes as jaxtyping writes them; None of another class that is written alike."""
    dtype = "float64" if kind in _ANY_FLOAT else _DTYPES.get(kind, kind.lower())
    entries = [size.rpartition("=")[2] for size in sizes.split()]
    text = f"{dtype}[{', '.join(entries)}]"
    if not looks_like_spec(text):
        return None
    if any(size.startswith(("*", "#", "?")) or "..." in size for size in entries):
        raise ArgumentError(
            f'the annotation {kind}[..., "{sizes}"] leaves open how many axes there are',
            "Give the argument a spec: every axis has a size, a number or a name.",
        )
    return text


# ---- files of arrays


def arrays_in(text: str) -> Entries:
    """The arrays of a file by path: ``data.npz``, ``data.json``, or one, ``X=x.npy``."""
    from zipfile import BadZipFile  # slow to import

    name, equals, rest = text.partition("=")
    path = Path(rest if equals else text)
    if path.suffix not in (".npz", ".npy", ".json"):
        raise ArgumentError(f"{path.name!r} is not a file of arrays", "Give .npz, .npy (as NAME=FILE.npy) or .json.")
    try:
        found = _read(path)
    except FileNotFoundError:
        raise ArgumentError(f"there is no file {path}", "Give a file of arrays, from the folder at hand.") from None
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        fact = "it is no file of NumPy's" if "contains pickled" in str(error) else error  # so NumPy calls all others
        raise ArgumentError(f"{path.name} cannot be read: {fact}", "np.savez(file, w=w, X=X) writes one.") from None
    if equals:
        return {name: found}
    if not isinstance(found, dict):
        raise ArgumentError(f"{path.name} is one array without a name", f"Name the argument: NAME={path}.")
    return found


def _read(path: Path) -> Any:
    if path.suffix == ".json":
        import json

        return _from_json(json.loads(path.read_text(encoding="utf-8")))
    with open(path, "rb") as file:  # which NumPy leaves open where it cannot read it
        loaded = np.load(file, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}


def _from_json(x: Any) -> Any:
    """Lists of numbers as arrays, in a tree of dicts and lists."""
    if isinstance(x, dict):
        return {key: _from_json(value) for key, value in x.items()}
    if isinstance(x, list):
        return np.array(x) if x and _is_rectangular(x) else [_from_json(value) for value in x]
    return x


def _is_rectangular(x: list[Any]) -> bool:
    try:
        return np.array(x).dtype.kind in "biuf"
    except ValueError:
        return False
