"""The program of a saved module, made again from its model: by the manifest, or from what the caller gives."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from symgrad.compiler.compiled import Compiled
from symgrad.compiler.function import Function
from symgrad.core.text import with_article
from symgrad.errors import ArgumentError, SymgradError
from symgrad.export.manifest import manifest_in
from symgrad.export.origin import hash_of, text_of, unwound
from symgrad.export.target import load_function
from symgrad.frontend.trace import Program
from symgrad.transforms import gradients, jacobians
from symgrad.verification.model import Model

GIVE = "Give sg.verify the Function or the compiled program as well that the file was saved from."
GIVE_COMPILED = "Give sg.verify the program as well, compiled for these arguments: sg.grad(loss).compile(params, x)."
_NUMBERS = {"float": 1.0, "complex": 1j}


def model_of(path: Path, text: str, function: Function[..., Any] | Compiled | Program | None) -> Model:
    """Return the model of a saved module; raise ArgumentError where its manifest is not enough to make it again."""
    if isinstance(function, (Compiled, Program)):
        return compiled_model(function if isinstance(function, Compiled) else Compiled(function))
    if function is not None and not isinstance(function, Function):
        raise ArgumentError(
            f"function is {with_article(type(function).__name__)}", "Give sg.grad(loss), say, or leave it out."
        )
    manifest = manifest_in(path, text)
    notes: tuple[str, ...] = ()
    if function is None:
        function, notes = _remade(path, manifest)
    return _traced(function, path, manifest, notes)


def model_of_c(path: Path, function: Function[..., Any] | Compiled | Program | None) -> Model:
    """Return the model of a C file: it says nothing of its own."""
    if not isinstance(function, (Compiled, Program)):
        raise ArgumentError(
            f"{path.name!r} is a C file, and does not record which model it was made of",
            "Give sg.verify the compiled program as well; for the command, list the file in pyproject.toml.",
        )
    return compiled_model(function if isinstance(function, Compiled) else Compiled(function))


def compiled_model(compiled: Compiled) -> Model:
    """The model where only a compiled program is at hand."""
    if compiled.options.check_nan:  # whose errors are not those of the file
        compiled = Compiled(compiled.program, replace(compiled.options, check_nan=False))
    return Model(compiled.program, compiled.unwatched.__name__, lambda: compiled)


def _remade(path: Path, manifest: Mapping[str, Any]) -> tuple[Function, tuple[str, ...]]:
    """The function of a manifest, and what is to be said of it. This runs the file of the model."""
    model, made_by = manifest["model"], manifest["transform"]
    name, file, module = model.get("name"), model.get("file"), model.get("module")
    if made_by is None or not name or not (file or module):
        reasons = manifest["reasons"]
        why = next((reasons[key] for key in ("model", "transform") if key in reasons), "it does not say")
        raise ArgumentError(f"{path.name!r} does not say how to make its program again: {why}", GIVE)
    home = path.resolve().parent  # of the file itself, where `path` is a link to it
    place = str(home / file) if file else module
    try:
        function: Any = load_function(f"{place}:{name}")
    except ArgumentError as error:
        instead = f"{error.instead} From Python, function= may give the Function or the compiled program."
        raise ArgumentError(f"the model of {path.name!r} is not there: {error.fact}", instead) from None
    except Exception as error:
        fact = f"{Path(str(place)).name!r}, the model of {path.name!r}, fails while it is loaded: {_said(error)}"
        raise ArgumentError(fact, "Fix it first.") from error
    if getattr(function, "recipe", None):  # a transform decorates it
        function = unwound(function.recipe)[1]
    for transform, arguments in reversed(made_by):
        function = _transform(transform, path)(function, **arguments)
    changed = file and hash_of(text_of(home / file) or "", name) != model.get("sha256")
    note = f"{Path(str(file)).name} has changed since {path.name} was saved: this is about {name} as it is now"
    return function, (note,) if changed else ()


def _transform(name: str, path: Path) -> Any:
    made = getattr(gradients, name, None) or getattr(jacobians, name, None)
    if not hasattr(made, "__wrapped__"):
        raise ArgumentError(f"{path.name!r} was made by {name}, which this symgrad does not know", GIVE)
    return made


def _traced(function: Function, path: Path, manifest: Mapping[str, Any], notes: tuple[str, ...]) -> Model:
    """The program of a function, for the arguments and options of a manifest."""
    options, bound = manifest["options"], arguments_of(function.__signature__, path, manifest)

    def compiled(**options: Any) -> Compiled:
        return function.compile(*bound.args, **bound.kwargs, check_nan=False, **options)

    try:
        program = compiled(**{**options, "optimize": 0}).program
    except Exception as error:
        fact = f"the model cannot be traced for the arguments of {path.name!r}: {_said(error)}"
        raise ArgumentError(fact, "Save the file again if its arguments have changed.") from error
    return Model(program, manifest["function"], lambda: compiled(**options), notes)


def arguments_of(takes: inspect.Signature, path: Path, manifest: Mapping[str, Any]) -> inspect.BoundArguments:
    """Return the arguments of a Function, by a manifest."""
    given = manifest["arguments"]
    if given is None:
        why = manifest["reasons"].get("arguments", "it does not say")
        raise ArgumentError(f"{path.name!r} does not say what its arguments are: {why}", GIVE_COMPILED)
    return inspect.BoundArguments(takes, _given(given))


def _said(error: Exception) -> str:
    return error.fact if isinstance(error, SymgradError) else f"{type(error).__name__}: {error}"


def _given(spec: Any) -> Any:
    """Return the argument for a tree of specs in the manifest."""
    if spec == ("static",):
        raise ArgumentError("an argument is part of the program, and cannot be written to a file", GIVE_COMPILED)
    if type(spec) is tuple and len(spec) == 2 and spec[0] == "static":
        return spec[1]
    if type(spec) in (tuple, list):
        return type(spec)(map(_given, spec))
    if type(spec) is dict:
        return {key: _given(x) for key, x in spec.items()}
    if spec in ("int", "bool"):
        raise ArgumentError(f"an argument is a symbol for an {spec}", GIVE_COMPILED)
    return _NUMBERS.get(spec, spec)
