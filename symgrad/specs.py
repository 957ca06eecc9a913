"""Specs: a shape and dtype as text, ``"float64[n, 3]"``."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from symgrad.dims import Shape, Size, Sizes, largest, smallest
from symgrad.errors import ArgumentError

_SPEC = re.compile(r"\s*((?:bool|u?int|float|complex)\d*)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def parse_spec(text: str, scope: Sizes) -> tuple[Shape, np.dtype[Any]]:
    """The shape and dtype that a spec describes.

    Parameters
    ----------
    text : str
        A dtype and sizes, ``"float64[n, 3]"``. Sizes are numbers, names, integer arithmetic of these, or ``_`` for a
        size without a name. Without brackets, or with empty ones, a scalar.
    scope : Sizes
        Where names are looked up: the same name is the same size in all specs of one scope.

    Returns
    -------
    shape : tuple of int or Dim
    dtype : numpy.dtype

    Raises
    ------
    ArgumentError
        The text is no spec.

    Examples
    --------
    >>> parse_spec("float32[n, 2 * n + 1, 3]", Sizes())
    ((n, 2 * n + 1, 3), dtype('float32'))
    """
    match = _SPEC.fullmatch(text)
    if match is None:
        raise _spec_error(text)
    name, body = match.groups()
    try:
        dtype = np.dtype(name)
        tree = ast.parse(f"[{body or ''}]", mode="eval").body
    except (TypeError, SyntaxError, ValueError):
        raise _spec_error(text) from None
    if not isinstance(tree, ast.List):
        raise _spec_error(text)
    return tuple(_size(entry, scope) for entry in tree.elts), dtype


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


def _spec_error(text: str) -> ArgumentError:
    """The error for something that is no spec."""
    return ArgumentError(
        f"{text!r} is not a spec", 'Write a dtype and sizes, such as "float64[n, 3]", or "float32" for a scalar.'
    )
