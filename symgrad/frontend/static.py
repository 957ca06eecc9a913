"""Arguments, and parts of them, that are part of the program: ``static_argnums=`` and ``static_argnames=``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import digest
from symgrad.core.text import dotted
from symgrad.errors import ArgumentError


class Static:
    """A value that is part of the program. Two are the same if their contents are."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.key = value, content(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


class _Object:
    """An object that has no hash: it is the same as long as it is that very object."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def content(x: Any) -> Any:
    """Return a hashable key of a value, equal for values that make the same program; types must agree."""
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype.hasobject:
            return type(x), x.shape, content(x.tolist())
        return type(x), x.dtype.str, x.shape, digest(np.ascontiguousarray(x))
    if type(x) in (list, tuple):
        return type(x), *map(content, x)
    if type(x) is dict:
        return dict, *((type(key), key, content(value)) for key, value in x.items())
    try:
        hash(x)
    except TypeError:
        return _Object(x)
    return type(x), repr(x) if type(x) in (float, complex) else x


class StaticArguments:
    """The static parameters of a function, static items of its ``*args``, and static parts of arguments.

    A part is told by its path, ``p.layers[0].n`` or ``p.layers.0.n``.
    """

    def __init__(self, argnums: int | Sequence[int], argnames: str | Sequence[str], takes: inspect.Signature) -> None:
        parameters = takes.parameters.values()
        self._positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self._keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        named = as_list(argnames, str, "static_argnames", "a name or a list of names")
        self._paths = [dotted(name) for name in named if dotted(name) not in takes.parameters]
        self.names = {*named} & {*takes.parameters}
        self._places: set[int] = set()
        for i in as_list(argnums, int, "static_argnums", "a number or a list of numbers"):
            count = len(self._positional)
            if self._rest is None and not -count <= i < count:
                raise ArgumentError(f"static_argnums={argnums!r}", f"It takes {takes}.")
            if 0 <= i < count or self._rest is None:
                self.names.add(self._positional[i])
            else:
                self._places.add(i)
        heads = {path.partition(".")[0]: path for path in self._paths}
        if self._keywords is None and (unknown := heads.keys() - takes.parameters.keys()):
            path = heads[min(unknown)]
            raise ArgumentError(f"static_argnames: there is no argument {path!r}", f"It takes {takes}.")
        self._places |= {i for i, name in enumerate(self._positional) if name in self.names}

    @classmethod
    def taken_from(cls, options: Mapping[str, Any], takes: inspect.Signature) -> tuple[Self, dict[str, Any]]:
        """Split the options of a transform into static arguments and the other options."""
        rest = dict(options)
        return cls(rest.pop("static_argnums", ()), rest.pop("static_argnames", ()), takes), rest

    def __bool__(self) -> bool:
        return bool(self.names or self._places or self._paths)

    def wrapped(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with static ones, and the static parts of others, marked as such."""
        places = {i if i >= 0 else len(args) + i for i in self._places}
        positional = [_marked(x) if i in places else x for i, x in enumerate(args)]
        named = {name: _marked(x) if name in self.names else x for name, x in kwargs.items()}
        for path in self._paths:
            head, _, below = path.partition(".")
            if head == self._rest:
                number, _, below = below.partition(".")
                place = len(self._positional) + int(number) if number.isdecimal() else len(positional)
            else:
                place = self._positional.index(head) if head in self._positional else len(positional)
            if head == self._keywords:
                head, _, below = below.partition(".")
            if place < len(positional):
                positional[place] = _with_static_part(positional[place], below, path)
            elif head in named:
                named[head] = _with_static_part(named[head], below, path)
        return tuple(positional), named


def _with_static_part(argument: Any, below: str, path: str) -> Any:
    """An argument whose leaves at or below a path are marked."""
    if not below or isinstance(argument, Static):
        return _marked(argument)
    places, leaves, structure = tree.flatten_with_paths(argument)
    found = [tree.dotted(place) for place in places]
    marked = [
        _marked(x) if name == below or name.startswith(f"{below}.") else x
        for name, x in zip(found, leaves, strict=True)
    ]
    if not any(x is not y for x, y in zip(marked, leaves, strict=True)) and not any(type(x) is Static for x in leaves):
        raise ArgumentError(f"static_argnames: there is no {path!r} in this call", f"There is {', '.join(found[:8])}.")
    return tree.unflatten(structure, marked)


def _marked(x: Any) -> Static:
    return x if isinstance(x, Static) else Static(x)


def as_list(given: Any, kind: type, option: str, takes: str, least: int = 0) -> list[Any]:
    """Return an option of some kind, or several, as a list."""
    items = [given] if isinstance(given, kind) else list(given) if isinstance(given, (list, tuple)) else [None]
    if len(items) < least or not all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
        raise ArgumentError(f"{option}={given!r}", f"It is {takes}.")
    return items
