"""Specs: a shape and dtype as text, ``"float64[n, 3]"``."""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Shape, Size, largest, smallest
from symgrad.errors import ArgumentError

_SPEC = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(.*?)\s*", re.DOTALL)
_OTHER_CODE = re.compile(r"[^biufc]\d*|[biufc]")
_NAMES = (
    *("bool", "int", "float", "complex", "half", "single", "double", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"),
)
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def parse_spec(text: str, scope: Sizes) -> tuple[Shape, np.dtype[Any]]:
    """The shape and dtype that a spec describes, a dtype and sizes: ``"float64[n, 3]"``.

    Sizes are numbers, names, integer arithmetic of these, or ``_`` for a size without a name. Without brackets, or with
    empty ones, it is a scalar. The same name is the same size in all specs of one scope.

    Examples
    --------
    >>> parse_spec("float32[n, 2 * n + 1, 3]", Sizes())
    ((n, 2 * n + 1, 3), dtype('float32'))
    """
    entries, dtype = _entries(text)
    return tuple(_size(entry, scope) for entry in entries), dtype


def size_texts(text: str) -> list[str]:
    """The sizes of a spec as they are written."""
    return [ast.unparse(entry) for entry in _entries(text)[0]]


def _entries(text: str) -> tuple[list[ast.expr], np.dtype[Any]]:
    """The sizes of a spec as expressions, and its dtype."""
    match = _SPEC.fullmatch(text)
    if match is None:
        raise _spec_error(text, "it does not begin with a dtype")
    name, rest = match.groups()
    dtype = _dtype(name)
    if dtype is None:
        near = _near(name)
        raise _spec_error(text, f"there is no dtype {name!r}", near and f"{near}{rest}")
    if dtype.kind not in "biufc":
        raise _spec_error(text, f"an array of {name} cannot be traced")
    if not rest:
        return [], dtype
    if rest[0] + rest[-1] != "[]":
        inner = rest[1:].partition("]")[0] if rest[0] == "[" else rest
        raise _spec_error(text, "sizes stand between [ and ]", f"{name}[{inner.strip('()[]{}<>,: ')}]")
    try:
        tree = ast.parse(rest, mode="eval").body
    except (SyntaxError, ValueError):
        raise _spec_error(text, f"{rest} is not a list of sizes") from None
    if not isinstance(tree, ast.List):
        raise _spec_error(text, f"{rest} is not a list of sizes")
    return tree.elts, dtype


def instead_of_dtype(x: Any) -> str:
    """Return what to write where a dtype or its name, without brackets, was meant as a spec; "" for anything else."""
    match = _SPEC.fullmatch(
        x if isinstance(x, str) else str(x) if isinstance(x, np.dtype) else getattr(x, "__name__", "")
    )
    if match is None or match[2]:
        return ""
    name = match[1]
    dtype = _dtype(name)
    if dtype is None and any(map(str.isdigit, name)) and (near := _near(name)):
        return instead_of_dtype(near)
    is_number = dtype is not None and dtype.kind in "biufc"
    return f'The spec of a number reads "{name}[]", that of a vector "{name}[n]".' if is_number else ""


def looks_like_spec(text: str) -> bool:
    """Whether a text was meant as a spec, right or mistyped, where it might be any string.

    It is a dtype or nearly so, more than a letter, and then a square bracket; with digits, as in ``float64(n)``,
    another bracket, a comma or a space will do. ``"float64"`` alone is a dtype, and ``"mean[0]"``, ``"f(x)"`` are any
    strings.
    """
    match = _SPEC.fullmatch(text)
    if match is None:
        return False
    name, rest = match.groups()
    follows = "[({<, " if any(map(str.isdigit, name)) else "["
    return bool(rest) and text.lstrip()[len(name)] in follows + " " * (rest[0] == "[") and _is_dtype_or_near(name)


def _is_dtype_or_near(name: str) -> bool:
    return _dtype(name) is not None or _near(name) is not None


def _dtype(name: str) -> np.dtype[Any] | None:
    """The dtype that NumPy knows by a name; of its short codes, such as f8, those of numbers with their width."""
    try:
        return None if _OTHER_CODE.fullmatch(name) else np.dtype(name)
    except TypeError:
        return None


def _near(name: str) -> str | None:
    """The dtype whose name is nearly this one, ``np.float64`` and ``Float64`` included."""
    near = difflib.get_close_matches(name.rpartition(".")[2].lower(), _NAMES, 1, 0.8)
    return near[0] if near else None


def parse_size(text: str, scope: Sizes) -> Size:
    """One entry of a spec."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _size_error(text) from None
    return _size(tree, scope)


def _size(tree: ast.expr, scope: Sizes) -> Size:
    """The size that an expression stands for."""
    if isinstance(tree, ast.Name) and tree.id == "_":
        return scope.fresh()
    try:
        size = _evaluated(tree, scope)
    except (ZeroDivisionError, _NoSize):
        raise _size_error(ast.unparse(tree)) from None
    if isinstance(size, int) and size < 0:
        raise ArgumentError(f"the size {ast.unparse(tree)!r} is negative", "A size is 0 or more.")
    return size


class _NoSize(Exception):
    """Something in a spec that is not integer arithmetic."""


def _evaluated(tree: ast.AST, scope: Sizes) -> Size:
    """Integer arithmetic, evaluated."""
    match tree:
        case ast.Constant(value=int(value)) if type(value) is int:
            return value
        case ast.Name(id=name) if name not in ("_", "min", "max"):
            return scope.symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, scope)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 <= power <= 64:
            return cast(Size, _evaluated(left, scope) ** power)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return cast(Size, _ARITHMETIC[type(op)](_evaluated(left, scope), _evaluated(right, scope)))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, *others], keywords=[]) if others:
            result = _evaluated(first, scope)
            for other in others:
                result = (smallest if name == "min" else largest)(result, _evaluated(other, scope))
            return result
    raise _NoSize


def _size_error(text: str) -> ArgumentError:
    """The error for something that is no size."""
    return ArgumentError(
        f"{text!r} is not a size", "A size is a number, a name, integer arithmetic of these such as n // 2 + 1, or _."
    )


def _spec_error(text: str, reason: str, near: str | None = None) -> ArgumentError:
    """The error for something that is no spec, with one that is near."""
    instead = f'"{near}"' if near else 'a dtype and sizes, such as "float64[n, 3]", or "float32[]" for a scalar'
    return ArgumentError(f"{text!r} is not a spec: {reason}", f"Write {instead}.")
