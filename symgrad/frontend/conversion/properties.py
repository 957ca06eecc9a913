"""Attributes of the user's objects: the getter of a property is converted, as a method is that is called."""

from __future__ import annotations

from functools import cached_property
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from symgrad.frontend.conversion.calls import called
from symgrad.frontend.conversion.classes import as_python
from symgrad.frontend.conversion.inherited import asked_for_own
from symgrad.frontend.reach import own_attributes


def holder(x: Any, name: str) -> Any:
    """Return the object to read ``x.name`` from: `x` itself, but for a property one that has its value.

    The converted function reads the attribute, not this one: what a module answers depends on who asks.
    """
    if name == "__class__":
        return as_python(x)
    if name == "__dict__":
        asked_for_own(x)
    kind = type(x)
    found = None if kind is ModuleType else getattr(kind, name, None)
    getter = found.fget if type(found) is property else found.func if type(found) is cached_property else None
    if type(getter) is not FunctionType or _looks_up(kind) or name in own_attributes(x):
        return x
    value = called(MethodType(getter, x))()
    if type(found) is cached_property:
        x.__dict__[name] = value
    return SimpleNamespace(**{name: value})


def _looks_up(kind: type) -> bool:
    """Whether a class finds attributes in its own way."""
    finds: Any = kind.__getattribute__
    return hasattr(kind, "__getattr__") or finds is not object.__getattribute__
