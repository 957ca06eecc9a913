"""Losses that are sums over numbers: a long elementwise one, Rosenbrock's function, prices of options."""

from functools import cache

import numpy as np

from cases.model import Model, cases
from cases.threads import cores, over_rows

BLOCK = 262_144  # bytes of each array of a block by hand


# ---- a long elementwise loss


def elementwise(xp, x, y):
    return xp.mean(xp.log1p(xp.exp(-x * y)) + 0.1 * xp.tanh(x) ** 2 * xp.exp(-y * y))


def elementwise_by_hand(x, y):
    d_x, d_y = np.empty_like(x), np.empty_like(y)

    def share(part, start, stop):
        return elementwise_share(x, y, d_x, d_y, start, stop, scratch(x.dtype)[part])

    return x.dtype.type(sum(over_rows(share, x.size)) / x.size), (d_x, d_y)


@cache
def scratch(dtype):
    """Kept between calls: five arrays for each thread."""
    return [[np.empty(BLOCK // dtype.itemsize, dtype) for _ in range(5)] for _ in range(cores())]


def elementwise_share(x, y, d_x, d_y, start, stop, scratch):
    """Blocks that stay in cache, one kernel after the other, in the arrays that are there."""
    c, total, size = 1.0 / x.size, 0.0, scratch[0].size
    for i in range(start, stop, size):
        j = min(i + size, stop)
        a, b, t, e, u = (s[: j - i] for s in scratch)
        xi, yi, gx, gy = x[i:j], y[i:j], d_x[i:j], d_y[i:j]
        np.exp(np.negative(np.multiply(xi, yi, out=a), out=a), out=a)
        np.log1p(a, out=u)
        np.divide(a, np.add(a, 1.0, out=b), out=a)
        a *= c
        np.tanh(xi, out=b)
        np.multiply(b, b, out=t)
        np.exp(np.negative(np.multiply(yi, yi, out=e), out=e), out=e)
        e *= 0.1
        np.multiply(t, e, out=gy)
        u += gy
        total += float(u.sum())
        gy *= yi
        gy *= -2 * c
        gy -= np.multiply(a, xi, out=u)
        np.subtract(1.0, t, out=t)
        t *= b
        t *= e
        t *= 2 * c
        a *= yi
        np.subtract(t, a, out=gx)
    return total


def elementwise_in_numba():
    from numba import njit, prange

    @njit(parallel=True)
    def run(x, y):
        d_x, d_y, total, c = np.empty_like(x), np.empty_like(y), 0.0, 1 / x.size
        for i in prange(x.size):
            a, t, e = np.exp(-x[i] * y[i]), np.tanh(x[i]), 0.1 * np.exp(-y[i] * y[i])
            total += np.log1p(a) + t * t * e
            slope = a / (1 + a)
            d_x[i] = c * (2 * t * (1 - t * t) * e - slope * y[i])
            d_y[i] = c * (-2 * y[i] * t * t * e - slope * x[i])
        return c * total, (d_x, d_y)

    return run


# ---- Rosenbrock


def rosenbrock(xp, x):
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_by_hand(x):
    head = x[:-1]
    a, b = x[1:] - head * head, 1 - head
    d_x = np.empty_like(x)
    np.multiply(a, 200, out=d_x[1:])
    d_x[0] = 0
    d_x[:-1] -= 400 * a * head + 2 * b
    return 100 * (a @ a) + b @ b, (d_x,)


def rosenbrock_in_numba():
    from numba import njit

    @njit
    def run(x):
        d_x, total = np.zeros_like(x), 0.0
        for i in range(x.size - 1):
            a, b = x[i + 1] - x[i] * x[i], 1 - x[i]
            total += 100 * a * a + b * b
            d_x[i] -= 400 * a * x[i] + 2 * b
            d_x[i + 1] += 200 * a
        return total, (d_x,)

    return run


def points(rng, n):
    return (rng.normal(size=n),)


def pairs(rng, n):
    return tuple(rng.normal(size=(2, n)))


CASES = [
    *cases(
        "elementwise",
        Model(elementwise, pairs, elementwise_by_hand, wrt=2, peers={"numba": elementwise_in_numba}),
        *("n=1e4", "n=1e5", "n=1e6", "n=1e7"),
        small="n=100000",
        dtypes=("float32", "float64"),
    ),
    *cases(
        "Rosenbrock",
        Model(rosenbrock, points, rosenbrock_by_hand, peers={"numba": rosenbrock_in_numba}),
        *("n=10", "n=1000", "n=1e6"),
        small="n=10",
    ),
]
