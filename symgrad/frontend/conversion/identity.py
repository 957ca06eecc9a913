"""``x is y``, and the patterns of `match`, where traced values decide which object a name holds."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import tracing
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.classes import Mixed, examples_of
from symgrad.frontend.conversion.containers import Watched
from symgrad.frontend.conversion.either import Either
from symgrad.frontend.conversion.sharing import is_array
from symgrad.frontend.variable import Variable, class_of
from symgrad.ops.operands import ARRAYS, is_traced
from symgrad.ops.truths import is_truth


def same(x: Any, y: Any) -> Any:
    """``x is y``, as a traced boolean where the program decides; refused where nothing tells."""
    if x is y:
        return True
    for a, b in ((x, y), (y, x)):
        if type(a) is Either:
            return a.is_function(b, same)
        if is_perhaps(a) and b is None:
            return np.logical_not(a.present)
        if is_traced(a) and is_truth(a) and type(b) is bool and not is_perhaps(a) and len(examples_of(a)) == 1:
            return (a if b else np.logical_not(a)) if bool in examples_of(a) else False
        if is_traced(a) and not _may_be(a, b):
            return False
    if is_traced(x) or is_traced(y) or _may_stand_for(x, y):
        raise UnsupportedError(
            "`is` compares two values, and whether they are one object depends on traced values",
            "Compare numbers with ==; for objects, keep a boolean that says which of them it is.",
        )
    return False


def other(x: Any, y: Any) -> Any:
    """``x is not y``"""
    found = same(x, y)
    return np.logical_not(found) if isinstance(found, Variable) else not found


class _Singleton(type):
    """A class of one object, for ``case None``, ``case True`` and ``case False``."""

    value: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return bool(same(x, cls.value))


NONE, TRUE, FALSE = (_Singleton(str(x), (), {"value": x}) for x in (None, True, False))


def matched(subject: Any) -> Any:
    """Return the subject of a `match`, which asks in C for the class of something, or for its items."""
    seen, left = dict[int, Any](), [subject]
    while left:
        x = left.pop()
        if is_perhaps(x):
            raise UnsupportedError(
                "`match` looks at a value that is None or not, depending on traced values", "Test first: if x is None."
            )
        if isinstance(x, Variable) and class_of(x) in (list, tuple):
            raise UnsupportedError(
                "`match` looks at a list whose length depends on traced values", "Test first: if len(x) == 1."
            )
        if id(x) not in seen and not isinstance(x, (Variable, type, ModuleType)):
            seen[id(x)] = x
            left += [*tree.flatten(x)[0], *getattr(x, "__dict__", {}).values()]
    return subject


def _may_be(x: Variable, y: Any) -> bool:
    """Whether a traced value may be another object."""
    if is_traced(y):
        return not (is_array(x) and is_array(y)) or x.is_kin(y)
    if not isinstance(y, (*ARRAYS, bool, int, float, complex)):
        return False
    return type(x) is Mixed or x.dtype.kind == np.asarray(y).dtype.kind


def _may_stand_for(x: Any, y: Any) -> bool:
    """Whether branches may have made one of two containers for the other."""
    if type(x) is tuple and type(y) is tuple:
        return any(map(is_traced, tree.flatten([x, y])[0]))
    graph = tracing.get()
    chosen = [each.contents.found for each in graph.watched if type(each) is Watched] if graph is not None else []
    return any(id(x) in found and id(y) in found for found in chosen)
