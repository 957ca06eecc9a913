"""Variables of a derivative: ``argnums=`` and ``wrt=``, and the parts of arguments that they name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.core.text import dotted
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import signature
from symgrad.frontend.static import as_list


class Choice:
    """``argnums=`` or ``wrt=`` of a transform."""

    def __init__(
        self,
        argnums: int | Sequence[int],
        wrt: str | Sequence[str] | None = None,
        disconnected: str = "zero",
        options: Mapping[str, Any] | None = None,
        holomorphic: bool = False,
    ) -> None:
        if disconnected not in ("zero", "raise"):
            raise ArgumentError(f"disconnected={disconnected!r}", 'It is "zero" or "raise".')
        self.single = isinstance(argnums if wrt is None else wrt, (int, str))
        self.disconnected, self.holomorphic = disconnected, holomorphic
        if wrt is not None and not (isinstance(argnums, int) and argnums == 0):
            raise ArgumentError(f"argnums={argnums!r} and wrt={wrt!r} both choose", "Give one of them.")
        names = as_list((options or {}).get("static_argnames", ()), str, "static_argnames", "a name or a list of names")
        self.static = [path for path in map(dotted, names) if "." in path]  # parts of arguments
        if wrt is None:
            takes = "a number or a tuple of numbers; names go into wrt="
            self.items = as_list(argnums, int, "argnums", takes, least=1)
        else:
            self.items = as_list(wrt, str, "wrt", "a name or a list of names; numbers go into argnums=", least=1)

    def described(self, f: Callable[..., Any]) -> str:
        """For the docstring of the generated module."""
        names = list(signature(f).parameters)
        known = range(-len(names), len(names))
        return ", ".join(i if isinstance(i, str) else names[i] if i in known else f"argument {i}" for i in self.items)

    def dotted(self, f: Callable[..., Any], bound: inspect.BoundArguments) -> list[str]:
        """The chosen arguments or parts of them as dotted paths; or names of values inside."""
        return [_parameter(f, i, bound) if isinstance(i, int) else i for i in self.items]


def _parameter(f: Callable[..., Any], i: int, bound: inspect.BoundArguments) -> str:
    count = len(bound.args)
    if not -count <= i < count:
        counted = f"{count or 'no'} positional argument{'s' * (count != 1)}"
        raise ArgumentError(
            f"argnums={i}, but {getattr(f, '__name__', 'the function')} was called with {counted}",
            "For an argument passed by keyword give its name: wrt=.",
        )
    places = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            places += [f"{name}.{j}" for j in range(len(bound.arguments.get(name, ())))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            places.append(name)
    return places[i % count]


def resolved(path: str, paths: Sequence[str]) -> str:
    """A path as leaves have it, if it is one, in whatever spelling."""
    return dotted(path) if not below(path, paths) and below(dotted(path), paths) else path


def below(path: str, paths: Sequence[str]) -> list[int]:
    """Numbers of the leaves at or below a path."""
    return [i for i, p in enumerate(paths) if p == path or p.startswith(path + ".")]


def with_parents(paths: Sequence[str]) -> list[str]:
    """The paths, each behind the parts of arguments that it is in."""
    steps = [path.split(".") for path in paths]
    return list(dict.fromkeys(".".join(path[:i]) for path in steps for i in range(1, len(path) + 1)))


def part_at(arguments: Mapping[str, Any], path: str) -> Any:
    """The argument, or part of one, at a path."""
    found = parts_at(arguments, path)
    if len(found) != 1:
        raise ArgumentError(
            f"wrt={path!r} matches {len(found)} parts of the arguments: keys contain dots, or have the same text",
            "Name the part that contains them, or rename the keys.",
        )
    return found[0]


def parts_at(part: Any, path: str | None) -> list[Any]:
    """Return the parts at a path: several, where keys have dots."""
    if path is None:
        return [part]
    if isinstance(part, Mapping):
        items = [(str(key), value) for key, value in part.items()]
        return [
            x for key, value in items if f"{path}.".startswith(f"{key}.") for x in parts_at(value, _behind(path, key))
        ]
    step = path.partition(".")[0]
    if hasattr(part, step):
        return parts_at(getattr(part, step), _behind(path, step))
    inside = isinstance(part, Sequence) and step.isdecimal() and int(step) < len(part)
    return parts_at(part[int(step)], _behind(path, step)) if inside else []


def _behind(path: str, step: str) -> str | None:
    """Return the rest of a path after a step, None at its end."""
    return None if path == step else path[len(step) + 1 :]
