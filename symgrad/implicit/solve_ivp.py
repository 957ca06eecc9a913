"""scipy.integrate: `solve_ivp` and `odeint` by the solver that has derivatives.

The equations are solved at least as exactly as SciPy would, by steps of symgrad's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import integrate
from scipy.optimize import OptimizeResult

from symgrad.core.graph import tracing
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.runtime import converted
from symgrad.implicit.odes import odeint
from symgrad.ops.define import implements_at
from symgrad.ops.scipy.convert import double

PACKAGE = "scipy.integrate"
FINE = 1.5e-8
"""A tolerance at which steps cost little more than at SciPy's."""
EXPLICIT = ("RK45", "RK23", "DOP853", "LSODA")


def _solved(slope: Callable[..., Any], y0: Any, times: Any, rtol: Any, atol: Any) -> Any:
    """The states at times, of which the first is that of `y0`."""
    graph = tracing.get()
    if graph is not None:
        graph.drawn = True
    return odeint(slope, double(y0), double(times), rtol=min(rtol, FINE), atol=min(np.min(atol), FINE), mxstep=100_000)


class Ends:
    """Values at steps of which there is no number before the program runs: the first and the last one."""

    def __init__(self, ends: Any) -> None:
        self._ends = ends

    def __getitem__(self, key: Any) -> Any:
        places = key if isinstance(key, tuple) else (key,)
        known = len(places) == np.ndim(self._ends) and type(places[-1]) is int and places[-1] in (0, -1)
        return self._ends[key] if known else self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def _refuse(self) -> Any:
        raise UnsupportedError(
            f"{PACKAGE}.solve_ivp: the number of steps is not known before the program runs",
            "Give the times, t_eval=; without them there are sol.y[:, -1] and sol.t[-1].",
        )

    __iter__ = __len__ = __array__ = _refuse


@implements_at(integrate, "solve_ivp")
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[Any],
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> OptimizeResult:
    for name, given in (("dense_output", dense_output), ("events", events)):
        if given:
            raise UnsupportedError(f"{PACKAGE}.solve_ivp: {name}= is not supported", "Give the times, t_eval=.")
    if method not in EXPLICIT:
        raise UnsupportedError(
            f"{PACKAGE}.solve_ivp: method={method!r} is not supported", f"Give one of {', '.join(EXPLICIT)}."
        )

    def slope(y: Any, t: Any) -> Any:
        return double(converted(fun)(t, y, *(args or ())))

    first, last = t_span
    times = double([first, last]) if t_eval is None else np.append(first, double(t_eval))
    y = _solved(slope, y0, times, options.get("rtol", 1e-3), options.get("atol", 1e-6))
    found = {"t": Ends(times), "y": Ends(y.T)} if t_eval is None else {"t": t_eval, "y": y[1:].T}
    return OptimizeResult(
        **found, sol=None, t_events=None, y_events=None, status=0, success=True, message="The solver is symgrad's."
    )


@implements_at(integrate, "odeint")
def _odeint(func: Callable[..., Any], y0: Any, t: Any, args: Any = (), *, tfirst: bool = False, **options: Any) -> Any:
    if options.get("full_output"):
        raise UnsupportedError(f"{PACKAGE}.odeint: full_output= is not supported", "Leave it out.")

    def slope(y: Any, t: Any) -> Any:
        at = (t, y) if tfirst else (y, t)
        return np.reshape(double(converted(func)(*at, *args)), np.shape(y))

    rtol, atol = (FINE if options.get(name) is None else options[name] for name in ("rtol", "atol"))
    return _solved(slope, np.atleast_1d(double(y0)), t, rtol, atol)
