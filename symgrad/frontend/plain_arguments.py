"""Arguments of public functions that are numbers, integers, booleans, sequences or paths: anything else is named."""

from __future__ import annotations

import os
from operator import index as as_index
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.sizes import Dim
from symgrad.errors import ArgumentError
from symgrad.frontend.variable import Variable

if TYPE_CHECKING:
    from pathlib import Path


def check_numbers(
    function: str, *, optional: bool = False, arrays: bool = False, positive: bool = False, **given: Any
) -> None:
    """Raise for what is no real number from 0 on, or None where an argument is optional. Traced numbers are taken."""
    for name, x in given.items():
        is_traced = isinstance(x, Variable) and x.dtype.kind in "iuf" and (arrays or not x.shape)
        if is_traced or (x is None and optional):
            continue
        if not _is_number(x, arrays) or not np.all(np.asarray(x) > 0 if positive else np.asarray(x) >= 0):
            raise ArgumentError(
                f"{function}: {name}={_shown(x)}", f"Write a number {'above' if positive else 'from'} 0."
            )


def _is_number(x: Any, arrays: bool) -> bool:
    if isinstance(x, bool) or not isinstance(
        x, (int, float, np.number, np.ndarray, *((list, tuple) if arrays else ()))
    ):
        return False
    try:
        value = np.asarray(x)
    except ValueError:  # of a ragged list
        return False
    return value.dtype.kind in "iuf" and value.size > 0 and (arrays or not value.shape)


def integer(what: str, n: Any) -> Any:
    """Return an integer that may be a size or traced; raise for anything else."""
    if isinstance(n, Dim) or (isinstance(n, Variable) and not n.shape and n.dtype.kind in "iub"):
        return n
    try:
        if not isinstance(n, Variable):
            return as_index(n)
    except TypeError:
        pass
    raise ArgumentError(f"{what} is {_shown(n)}, not an integer", "Write int(n), or n.astype(int) of a traced number.")


def check_boolean(function: str, **given: Any) -> None:
    """Raise for what is neither True nor False."""
    for name, x in given.items():
        if not isinstance(x, (bool, np.bool_)):
            raise ArgumentError(f"{function}: {name}={_shown(x)} is not a boolean", "Write True or False.")


def check_sequence(function: str, **given: Any) -> None:
    """Raise for what is neither a tuple nor a list."""
    for name, x in given.items():
        if not isinstance(x, (tuple, list)):
            raise ArgumentError(f"{function}: {name} is {_shown(x)}", f"Give a tuple, ({_item(x)},) for one.")


def as_path(function: str, path: Any) -> Path:
    """Return the path of a file; raise for anything else."""
    from pathlib import Path  # slow to import

    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    raise ArgumentError(f"{function}: path={_shown(path)}", "Give the path of a file, a text or a pathlib.Path.")


def _shown(x: Any) -> str:
    return str(x.aval) if isinstance(x, Variable) else f"an array of shape {x.shape}" if _is_array(x) else repr(x)


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) and bool(x.shape)


def _item(x: Any) -> str:
    return repr(x) if isinstance(x, (int, float)) else "x"
