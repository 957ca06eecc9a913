"""Times and lost digits of derivatives of higher orders, compared with nested `jax.grad` and Taylor mode.

    python benchmarks/orders.py                       five functions, the first, fourth, seventh and tenth derivative
    python benchmarks/orders.py tanh --orders 1 2 3   functions whose names contain these words, other orders

Columns of `jax.grad` and `jet` are there where JAX is, those of digits where mpmath is. Times of JAX say how many times
as long as symgrad it takes, on one number and on a thousand; `jet` gives all orders up to the one that is asked for.
"""

import argparse
import math
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from report import duration, number, table
from worker import seconds

import symgrad as sg

Run = Callable[[Any], Any]

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sin(sin(sin(x)))": lambda np, x: np.sin(np.sin(np.sin(x))),
    "tanh(x)": lambda np, x: np.tanh(x),
    "1 / (1 + x**2)": lambda np, x: 1 / (1 + x**2),
    "log(1 + exp(x))": lambda np, x: np.log(1 + np.exp(x)),
    "exp(-x**2)": lambda np, x: np.exp(-(x**2)),
}
ORDERS = 1, 4, 7, 10
NUMBER, NUMBERS = 0.7, np.linspace(-2, 2, 1000)
POINTS = -1.3, -0.4, 0.2, 0.7, 1.9  # where digits are counted
DIGITS = 60  # of what they are compared with
PATIENCE = 2.0  # seconds: of who takes longer to compile an order no higher one is tried
REPEATS = 5


class Measured(NamedTuple):
    """One derivative by one of the contestants."""

    compile: float
    a_number: float
    numbers: float
    values: list[float]  # at `POINTS`
    lines: int = 0


def repeated(transform, f, order):
    for _ in range(order):
        f = transform(f)
    return f


def fastest(run: Callable[[], Any]) -> float:
    """Seconds of a call, the least of some."""
    timer = timeit.Timer(run)
    loops = max(1, int(0.02 / max(timer.timeit(1), 1e-7)))
    return min(timer.repeat(REPEATS, loops)) / loops


# ---- contestants


def by_symgrad(f, order: int) -> Measured:
    def compiled(transform, x):
        return repeated(transform, partial(f, np), order).compile(x)

    compiling = seconds(lambda: compiled(sg.grad, NUMBER))
    scalar, elementwise = compiled(sg.grad, NUMBER), compiled(sg.elementwise_grad, NUMBERS)
    lines = len(elementwise.source[elementwise.source.index("\ndef ") + 1 :].splitlines())
    return measured(scalar, elementwise, compiling)._replace(lines=lines)


def measured(scalar: Run, elementwise: Run, compiling: float) -> Measured:
    times = fastest(lambda: scalar(NUMBER)), fastest(lambda: elementwise(NUMBERS))
    return Measured(compiling, *times, [float(scalar(x)) for x in POINTS])


def by_jax_grad(f, order: int) -> Measured:
    import jax
    import jax.numpy as jnp

    g = repeated(jax.grad, partial(f, jnp), order)
    return jitted(g, jax.vmap(g))


def by_jet(f, order: int) -> Measured:
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    def g(x):
        series = (jnp.ones_like(x), *[jnp.zeros_like(x)] * (order - 1))
        return jet(partial(f, jnp), (x,), (series,))[1][-1]

    return jitted(g, g)


def jitted(scalar: Run, elementwise: Run) -> Measured:
    import jax

    ready = jax.jit(scalar)
    compiling = seconds(lambda: ready.lower(NUMBER).compile())
    many = jax.jit(elementwise)
    return measured(lambda x: ready(x).block_until_ready(), lambda x: many(x).block_until_ready(), compiling)


def peers() -> dict[str, Callable[[Any, int], Measured]]:
    """Return the contestants of JAX, in double precision, if it is installed."""
    try:
        import jax
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)
    return {"jax.grad": by_jax_grad, "jet": by_jet}


# ---- values


def digits_lost(name: str, order: int, values: list[float]) -> float | None:
    """Return the decimal digits lost beyond rounding, in the worst of some values."""
    try:
        import mpmath
    except ImportError:
        return None
    worst = 0.0
    with mpmath.workdps(DIGITS):
        for x, value in zip(POINTS, values, strict=True):
            truth = mpmath.diff(partial(FUNCTIONS[name], mpmath), mpmath.mpf(x), order)
            worst = max(worst, float(abs((value - truth) / truth)))
    return max(0.0, math.log10(max(worst, 1e-300) / 2.0**-53))


# ---- tables


def row(name: str, order: int, contestants: dict[str, Callable[[Any, int], Measured]], slow: set[str]) -> list[str]:
    mine = by_symgrad(FUNCTIONS[name], order)
    cells = [name, str(order), str(mine.lines), *map(duration, mine[:3]), lost(name, order, mine)]
    for peer, measure in contestants.items():
        if peer in slow:
            cells += ["not tried", "", "", ""]
            continue
        theirs = measure(FUNCTIONS[name], order)
        if theirs.compile > PATIENCE:
            slow.add(peer)
        cells += [number(a / b) for a, b in zip(theirs[:3], mine[:3], strict=True)] + [lost(name, order, theirs)]
    return cells


def lost(name: str, order: int, found: Measured) -> str:
    digits = digits_lost(name, order, found.values)
    return "" if digits is None else f"{digits:.1f}"


def orders_of(names: list[str], orders: list[int]) -> list[list[str]]:
    """A row for each function and order."""
    contestants = peers()
    for measure in (by_symgrad, *contestants.values()):
        measure(lambda np, x: x * np.exp(x), 2)  # what is imported late, or compiled once for all
    columns = ["compile", "a number", "1000 numbers", "digits lost"]
    rows = [["function", "order", "lines", *columns, *(f"{peer}: {c}" for peer in contestants for c in columns)]]
    for name in names:
        slow: set[str] = set()
        rows += [row(name, order, contestants, slow) for order in sorted(orders)]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", help="words that the names contain; all functions without any")
    parser.add_argument("--orders", nargs="+", type=int, default=list(ORDERS))
    options = parser.parse_args()
    words = options.functions
    names = [name for name in FUNCTIONS if not words or any(word in name for word in words)]
    print(table(orders_of(names, options.orders)))


if __name__ == "__main__":
    main()
