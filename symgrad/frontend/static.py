"""Arguments that are part of the program: ``static_argnums=`` and ``static_argnames=``."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

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
    """What two values have in common that make the same program: hashable, and another where the type is another."""
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype.hasobject:
            return type(x), x.shape, content(x.tolist())
        return type(x), x.dtype.str, x.shape, hashlib.sha256(np.ascontiguousarray(x).data).digest()
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
    """Which parameters of a function are static."""

    def __init__(self, argnums: int | Sequence[int], argnames: str | Sequence[str], takes: inspect.Signature) -> None:
        positional = [
            p.name for p in takes.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self.names = set(as_list(argnames, str, "static_argnames", "a name or a list of names"))
        for i in as_list(argnums, int, "static_argnums", "a number or a list of numbers"):
            if not -len(positional) <= i < len(positional):
                raise ArgumentError(f"static_argnums={argnums!r}", f"It takes {takes}.")
            self.names.add(positional[i])
        unknown = self.names - set(takes.parameters)
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in takes.parameters.values()):
            raise ArgumentError(f"static_argnames: there is no argument {min(unknown)!r}", f"It takes {takes}.")
        self._places = {i for i, name in enumerate(positional) if name in self.names}

    @classmethod
    def taken_from(cls, options: Mapping[str, Any], takes: inspect.Signature) -> tuple[Self, dict[str, Any]]:
        """Those that the options of a transform name, and the other options."""
        rest = dict(options)
        return cls(rest.pop("static_argnums", ()), rest.pop("static_argnames", ()), takes), rest

    def __bool__(self) -> bool:
        return bool(self.names)

    def wrapped(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with static ones marked as such."""
        positional = tuple(_marked(x) if i in self._places else x for i, x in enumerate(args))
        return positional, {name: _marked(x) if name in self.names else x for name, x in kwargs.items()}


def _marked(x: Any) -> Static:
    return x if isinstance(x, Static) else Static(x)


def as_list(given: Any, kind: type, option: str, takes: str, least: int = 0) -> list[Any]:
    """An option that is of some kind, or several of it, as a list."""
    items = [given] if isinstance(given, kind) else list(given) if isinstance(given, (list, tuple)) else [None]
    if len(items) < least or not all(isinstance(item, kind) and not isinstance(item, bool) for item in items):
        raise ArgumentError(f"{option}={given!r}", f"It is {takes}.")
    return items
