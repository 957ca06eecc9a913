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

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy

from symgrad.core.graph import Graph, tracing
from symgrad.frontend.interception import create
from symgrad.frontend.variable import Variable
from symgrad.ops.create import CREATE


def _graph(values: Iterable[Any]) -> Graph | None:
    """The graph that an array belongs to: the one being traced, or that of a Variable among the arguments."""
    running = tracing.get()
    return running if running is not None else next(filter(None, map(_graph_of, values)), None)


def _graph_of(value: Any) -> Graph | None:
    if isinstance(value, Variable):
        return value.graph
    return next(filter(None, map(_graph_of, value)), None) if isinstance(value, (list, tuple)) else None


def _creating(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def creating(*args: Any, **kwargs: Any) -> Any:
        like = kwargs.get("like")
        graph = _graph((like, *args, *kwargs.values()))
        if graph is None:
            return function(*args, **kwargs)
        return create(graph, function, args, kwargs)

    return creating


for _function in CREATE:
    globals()[_function.__name__] = _creating(_function)
del _function


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'symgrad.numpy' has no attribute {name!r}")
    return getattr(numpy, name)


def __dir__() -> list[str]:
    return dir(numpy)
