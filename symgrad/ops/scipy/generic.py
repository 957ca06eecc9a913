"""Distributions of scipy.stats by the formulas of their own classes: SciPy's Python code is traced.

A class that leaves a formula to its base class, which differentiates, integrates or searches numerically, has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats import _continuous_distns, _discrete_distns

from symgrad.errors import Refusal, UnsupportedError
from symgrad.ops.define import implements_at
from symgrad.ops.operands import is_traced
from symgrad.ops.scipy.distributions import Distribution, with_ends


def unsupported(distribution: Any, method: str) -> UnsupportedError:
    """The error for a formula that SciPy does not have, or that cannot be traced."""
    return UnsupportedError(
        f"scipy.stats.{distribution.name}.{method} is not supported",
        "Write it with functions of scipy.special, or give it to symgrad.operator with its derivative.",
    )


_LIMITS = (type(stats.kappa4),)
"""Classes whose formulas have limits at values of a shape, where they are chosen and not differentiated by it."""

_ITERATED = tuple(map(type, (stats.ksone, stats.kstwo, stats.kstwobign)))
"""Classes whose formulas go through NumPy's iterator, which does not look whether it has arrays, and may crash."""


def of_scipy(distribution: Any, asked: str) -> Distribution:
    """Return the formulas that the class of a distribution defines, in SciPy's private methods.

    What cannot be traced in them is refused by the name of the public method that was `asked` for.
    """
    discrete = isinstance(distribution, stats.rv_discrete)
    base = stats.rv_discrete if discrete else stats.rv_continuous
    log_density, density = ("_logpmf", "_pmf") if discrete else ("_logpdf", "_pdf")

    def own(name: str) -> Callable[..., Any] | None:
        is_left_out = type(distribution) in (*_LIMITS, *_ITERATED)
        is_own = not is_left_out and getattr(type(distribution), name) is not getattr(base, name)
        return _traced(distribution, name, asked) if is_own else None

    def at_whole(formula: Callable[..., Any] | None) -> Callable[..., Any] | None:
        return (lambda k, *shapes: formula(np.floor(k), *shapes)) if discrete and formula else formula

    support = _traced(distribution, "_get_support", asked)
    cdf, sf, ppf = at_whole(own("_cdf")), at_whole(own("_sf")), own("_ppf")
    return Distribution(
        _traced(distribution, log_density, asked) if own(log_density) or own(density) else None,  # type: ignore[arg-type]
        cdf=cdf or (sf and (lambda *at: 1 - sf(*at))),
        sf=sf or (cdf and (lambda *at: 1 - cdf(*at))),
        log_cdf=at_whole(own("_logcdf")),
        log_sf=at_whole(own("_logsf")),
        ppf=ppf and with_ends(ppf, lambda *shapes: support(*shapes)[0] - discrete, lambda *shapes: support(*shapes)[1]),
        low=lambda *shapes: support(*shapes)[0],
        high=lambda *shapes: support(*shapes)[1],
        interior=lambda *shapes: _interior(support(*shapes), discrete),
        valid=_traced(distribution, "_argcheck", asked),
        open=type(distribution)._support_mask is stats.rv_continuous._open_support_mask,
        masked=True,
    )


def _traced(distribution: Any, name: str, asked: str) -> Callable[..., Any]:
    """A private method that refuses what cannot be traced in it."""

    def formula(*args: Any) -> Any:
        try:
            return getattr(distribution, name)(*args)
        except Exception as error:
            if isinstance(error, Refusal):
                error.forget()
            raise unsupported(distribution, asked) from error

    return formula


def _interior(support: Any, discrete: bool) -> Any:
    """A number in the support; None where that is the whole line."""
    low, high = support
    bounded = [end for end in support if is_traced(end) or np.all(np.isfinite(end))]
    if not bounded or discrete:
        return low if bounded else None
    above, below = np.isfinite(low), np.isfinite(high)
    middle = np.where(above, low, 0.0) / 2 + np.where(below, high, 0.0) / 2
    return np.where(above & below, middle, np.where(above, low + 1, np.where(below, high - 1, 0.0)))


# ---- what SciPy computes for some of the numbers, it computes for all of them here, and each is chosen


def _apply_where(cond, args, f1, f2=None, /, *, fill_value=None, xp=None):
    args = args if isinstance(args, tuple) else (args,)
    return np.where(cond, f1(*args), fill_value if f2 is None else f2(*args))


def _lazywhere(cond, arrays, f, fillvalue=None, f2=None):
    return _apply_where(cond, tuple(arrays), f, f2, fill_value=fillvalue)


def _lazyselect(condlist, choicelist, arrays, default=0):
    result = default
    for function, condition in zip(choicelist, condlist, strict=True):
        result = np.where(condition, function(*arrays), result)
    return result


for _module in (_continuous_distns, _discrete_distns):
    for _name, _written in (("_lazywhere", _lazywhere), ("_lazyselect", _lazyselect)):
        if hasattr(_module, _name):
            implements_at(_module, _name)(_written)
if hasattr(_continuous_distns, "xpx"):  # SciPy 1.16
    implements_at(_continuous_distns.xpx, "apply_where")(_apply_where)
