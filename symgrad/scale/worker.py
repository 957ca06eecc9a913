"""A part of a plan where it is computed: it is made once in each process. It needs nothing but NumPy.

A part whose kernels are C is sent as a program of symgrad's, which compiles it there.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from types import ModuleType
from typing import Any, NamedTuple


class Part(NamedTuple):
    """A part as it is sent: the text of a module or a pickled program, and the name of its function."""

    program: str | bytes
    function: str


def compute(program: str | bytes, function: str, *given: Sequence[Any]) -> tuple[Any, ...]:
    """Call a part on sequences of arguments, one after the other."""
    return tuple(loaded(program, function)(*[x for each in given for x in each]))


def combined(program: str | bytes, function: str, parts: Sequence[Any], which: Sequence[int]) -> tuple[Any, ...]:
    """Combine some of the results of several chunks in pairs: neighbours first, then pairs of pairs."""
    join, begun = loaded(program, function), list[tuple[int, Any]]()
    for each in parts:
        level, found = 0, chosen(each, which)
        while begun and begun[-1][0] == level:
            found, level = tuple(join(begun.pop()[1], found)), level + 1
        begun.append((level, found))
    _, found = begun.pop()
    while begun:
        found = tuple(join(begun.pop()[1], found))
    return found


def held(x: Any) -> Any:
    """Return a value that several tasks read."""
    return x


def chosen(found: Sequence[Any], which: Sequence[int]) -> tuple[Any, ...]:
    """Return some of the results of a chunk."""
    return tuple([found[i] for i in which])


def is_finite(found: Sequence[Any]) -> bool:
    """Whether all results of a chunk are finite."""
    import numpy as np

    return all(np.asarray(x).dtype.kind not in "fc" or bool(np.all(np.isfinite(x))) for x in found)


def loaded(program: str | bytes, function: str) -> Callable[..., Any]:
    """Return the function of a part, which is kept among the modules of the process."""
    data = program if isinstance(program, bytes) else program.encode()
    name = f"symgrad_part_{sha256(data).hexdigest()[:16]}"
    if name not in sys.modules:
        module = ModuleType(name)
        if isinstance(program, bytes):
            module.__dict__[function] = pickle.loads(program)
        else:
            exec(compile(program, f"<{name}>", "exec"), module.__dict__)
        sys.modules[name] = module
    found: Callable[..., Any] = getattr(sys.modules[name], function)
    return found


def numpy_version() -> str:
    """Return the version of NumPy where this runs."""
    import numpy

    return numpy.__version__
