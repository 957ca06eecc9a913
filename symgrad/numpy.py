"""NumPy, but for the functions that create arrays: inside a trace these give Variables.

``import symgrad.numpy as np`` takes the place of ``import numpy as np`` in code that makes an array and then writes
traced values into it. Everything else, and all of it outside a trace, is NumPy itself.

Examples
--------
>>> import symgrad.numpy as np
>>> np.zeros(2)
array([0., 0.])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy

from symgrad.frontend.interception import Grid, create
from symgrad.frontend.trace import graph_at_hand
from symgrad.ops.create import CREATE
from symgrad.ops.grids import GRIDS


def _creating(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def creating(*args: Any, **kwargs: Any) -> Any:
        graph = graph_at_hand((kwargs.get("like"), args, kwargs))
        if graph is None:
            return function(*args, **kwargs)
        return create(graph, function, args, kwargs)

    return creating


for _function in CREATE:
    globals()[_function.__name__] = _creating(_function)
for _function in GRIDS.values():
    globals()[_function.__name__] = Grid(_function)
del _function


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'symgrad.numpy' has no attribute {name!r}")
    return getattr(numpy, name)


def __dir__() -> list[str]:
    return dir(numpy)
