"""Python loops of many turns: explicit Euler steps on large arrays, an LSTM, an orbit, a ball that meets the ground."""

import math

import numpy as np

from cases.model import Model, cases
from cases.threads import over_rows

# ---- steps in time on large arrays

STEPS, DT = 100, 0.05
MOST = 100_000  # turns that a loop may have where one must say so
BLOCK = 2048  # numbers whose states by hand stay in the cache


def growth(xp, rates, start, observed):
    x = start
    for _ in range(STEPS):
        x = x + DT * rates * x * (1 - x)
    return xp.mean((x - observed) ** 2)


def growth_in_jax(rates, start, observed):
    import jax
    import jax.numpy as jnp

    x = jax.lax.fori_loop(0, STEPS, lambda _, x: x + DT * rates * x * (1 - x), start)
    return jnp.mean((x - observed) ** 2)


def growth_in_pytensor(rates, start, observed):
    import pytensor
    import pytensor.tensor as pt

    def step(x, rates):
        return x + DT * rates * x * (1 - x)

    x = pytensor.scan(step, outputs_info=start, non_sequences=[rates], n_steps=STEPS, strict=True, return_updates=False)
    return pt.mean((x[-1] - observed) ** 2)


def growth_by_hand(rates, start, observed):
    d_rates, d_start = np.empty_like(rates), np.empty_like(start)

    def share(_, begin, end):
        states, total = np.empty((STEPS, BLOCK)), 0.0
        for i in range(begin, end, BLOCK):
            rows = slice(i, min(i + BLOCK, end))
            r, x, kept = DT * rates[rows], start[rows], states[:, : rows.stop - i]
            for t in range(STEPS):
                kept[t] = x
                x = x + r * x * (1 - x)
            residual = x - observed[rows]
            g, d_r = (2 / rates.size) * residual, 0.0
            for x in kept[::-1]:
                d_r = d_r + g * x * (1 - x)
                g = g * (1 + r - 2 * r * x)
            d_rates[rows], d_start[rows] = DT * d_r, g
            total += residual @ residual
        return total

    return sum(over_rows(share, rates.size)) / rates.size, (d_rates, d_start)


def growth_in_numba():
    from numba import njit, prange

    @njit(parallel=True)
    def run(rates, start, observed):
        d_rates, d_start, total = np.empty_like(rates), np.empty_like(start), 0.0
        for i in prange(rates.size):
            r, x, states = DT * rates[i], start[i], np.empty(STEPS)
            for t in range(STEPS):
                states[t] = x
                x = x + r * x * (1 - x)
            residual = x - observed[i]
            total += residual * residual
            g, d_r = (2 / rates.size) * residual, 0.0
            for t in range(STEPS - 1, -1, -1):
                x = states[t]
                d_r += g * x * (1 - x)
                g = g * (1 + r - 2 * r * x)
            d_rates[i], d_start[i] = DT * d_r, g
        return total / rates.size, (d_rates, d_start)

    return run


def growth_example(rng, n):
    return rng.uniform(0.5, 1.5, n), rng.uniform(0.1, 1, n), rng.uniform(0.5, 1, n)


# ---- a long short-term memory


def lstm(xp, params, x, y):
    """Hidden states of x[time, batch, input]; what is read off the last one should be y."""
    hidden = params["recur"].shape[0]
    h = c = np.zeros((x.shape[1], hidden))
    for t in range(x.shape[0]):
        z = x[t] @ params["input"] + h @ params["recur"] + params["bias"]
        i, f, o = (1 / (1 + xp.exp(-z[:, k * hidden : (k + 1) * hidden])) for k in range(3))
        c = f * c + i * xp.tanh(z[:, 3 * hidden :])
        h = o * xp.tanh(c)
    return xp.mean((h @ params["output"] - y) ** 2)


def lstm_in_jax(params, x, y):
    import jax
    import jax.numpy as jnp

    def step(state, x):
        h, c = state
        i, f, o, g = jnp.split(x @ params["input"] + h @ params["recur"] + params["bias"], 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zeros = jnp.zeros((x.shape[1], len(params["recur"])))
    (h, _), _ = jax.lax.scan(step, (zeros, zeros), x)
    return jnp.mean((h @ params["output"] - y) ** 2)


def lstm_in_torch(params, x, y):
    import torch

    def gates(weights):  # PyTorch has the proposal before the last gate
        i, f, o, g = weights.chunk(4, dim=-1)
        return torch.cat((i, f, g, o), dim=-1)

    zeros = torch.zeros((1, x.shape[1], len(params["recur"])), dtype=x.dtype)
    bias = gates(params["bias"])
    weights = [gates(params["input"]).T, gates(params["recur"]).T, bias, torch.zeros_like(bias)]
    _, h, _ = torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, False, False, False)  # what torch.nn.LSTM calls
    return torch.mean((h[0] @ params["output"] - y) ** 2)


def lstm_in_pytensor(params, x, y):
    import pytensor
    import pytensor.tensor as pt

    n = params["recur"].type.shape[0]

    def step(x, h, c, weights, recur, bias):
        z = x @ weights + h @ recur + bias
        i, f, o = (pt.sigmoid(z[:, k * n : (k + 1) * n]) for k in range(3))
        c = f * c + i * pt.tanh(z[:, 3 * n :])
        return o * pt.tanh(c), c

    zeros = pt.zeros((x.type.shape[1], n))
    weights = [params[name] for name in ("input", "recur", "bias")]
    h, _ = pytensor.scan(
        step, sequences=x, outputs_info=[zeros, zeros], non_sequences=weights, strict=True, return_updates=False
    )
    return pt.mean((h[-1] @ params["output"] - y) ** 2)


def lstm_by_hand(params, x, y):
    """The products with x do not wait for the loop, nor do those that are gradients of the weights."""
    steps, batch, _ = x.shape
    recur, output = params["recur"], params["output"]
    n = len(recur)
    z = x @ params["input"] + params["bias"]
    h, c, tanh_c = (np.zeros((steps + 1, batch, n)) for _ in range(3))
    for t in range(steps):
        z[t] += h[t] @ recur
        gates, proposal = z[t, :, : 3 * n], z[t, :, 3 * n :]
        gates[:] = 1 / (1 + np.exp(-gates))
        np.tanh(proposal, out=proposal)
        c[t + 1] = z[t, :, n : 2 * n] * c[t] + z[t, :, :n] * proposal
        np.tanh(c[t + 1], out=tanh_c[t + 1])
        h[t + 1] = z[t, :, 2 * n : 3 * n] * tanh_c[t + 1]
    residual = h[steps] @ output - y
    d_y = (2 / residual.size) * residual
    d_h, d_c = d_y @ output.T, 0.0
    for t in range(steps - 1, -1, -1):
        i, f, o, g = (z[t, :, k * n : (k + 1) * n].copy() for k in range(4))
        d_c = d_c + d_h * o * (1 - tanh_c[t + 1] ** 2)
        d_gates = np.concatenate([d_c * g, d_c * c[t], d_h * tanh_c[t + 1]], axis=1)
        gates = z[t, :, : 3 * n]
        gates *= (1 - gates) * d_gates
        z[t, :, 3 * n :] = d_c * i * (1 - g * g)
        d_c = d_c * f
        d_h = z[t] @ recur.T
    flat = z.reshape(steps * batch, -1)
    gradient = {
        "input": x.reshape(steps * batch, -1).T @ flat,
        "recur": h[:-1].reshape(steps * batch, -1).T @ flat,
        "bias": flat.sum(0),
        "output": h[steps].T @ d_y,
    }
    return np.mean(residual * residual), (gradient,)


def lstm_example(rng, steps, batch, hidden, inputs=16, outputs=8):
    params = {
        "input": rng.normal(size=(inputs, 4 * hidden)) / inputs**0.5,
        "recur": rng.normal(size=(hidden, 4 * hidden)) / hidden**0.5,
        "bias": rng.normal(size=4 * hidden),
        "output": rng.normal(size=(hidden, outputs)) / hidden**0.5,
    }
    return params, rng.normal(size=(steps, batch, inputs)), rng.normal(size=(batch, outputs))


# ---- single numbers: an orbit


def orbit(xp, start, end, dt):
    """Symplectic Euler steps of a planet, as many as `dt` has numbers; how far from `end` it comes."""
    x, y, u, v = start
    for h in dt:
        cube = (x * x + y * y) ** 1.5
        u = u - h * x / cube
        v = v - h * y / cube
        x = x + h * u
        y = y + h * v
    return (x - end[0]) ** 2 + (y - end[1]) ** 2


def orbit_in_jax(start, end, dt):
    import jax

    def step(state, h):
        x, y, u, v = state
        cube = (x * x + y * y) ** 1.5
        u, v = u - h * x / cube, v - h * y / cube
        return (x + h * u, y + h * v, u, v), None

    (x, y, _, _), _ = jax.lax.scan(step, tuple(start), dt)
    return (x - end[0]) ** 2 + (y - end[1]) ** 2


def orbit_in_pytensor(start, end, dt):
    import pytensor

    def step(h, x, y, u, v):
        cube = (x * x + y * y) ** 1.5
        u, v = u - h * x / cube, v - h * y / cube
        return x + h * u, y + h * v, u, v

    state = [start[i] for i in range(4)]
    x, y, _, _ = pytensor.scan(step, sequences=dt, outputs_info=state, strict=True, return_updates=False)
    return (x[-1] - end[0]) ** 2 + (y[-1] - end[1]) ** 2


def orbit_in_casadi(start, end, dt):
    import casadi as ca

    state, h = ca.SX.sym("state", 4), ca.SX.sym("h")
    x, y, u, v = ca.vertsplit(state)
    cube = (x * x + y * y) ** 1.5
    u, v = u - h * x / cube, v - h * y / cube
    step = ca.Function("step", [state, h], [ca.vertcat(x + h * u, y + h * v, u, v)])
    last = step.mapaccum(dt.numel())(start, dt.T)[:, -1]
    return (last[0] - end[0]) ** 2 + (last[1] - end[1]) ** 2


def orbit_in_numba():
    from numba import njit

    @njit
    def run(start, end, dt):
        x, y, u, v = start[0], start[1], start[2], start[3]
        states = np.empty((dt.size, 2))
        for t in range(dt.size):
            states[t] = x, y
            square = x * x + y * y
            over = dt[t] / (square * math.sqrt(square))
            u -= over * x
            v -= over * y
            x += dt[t] * u
            y += dt[t] * v
        ex, ey = x - end[0], y - end[1]
        g_x, g_y, g_u, g_v = 2 * ex, 2 * ey, 0.0, 0.0
        for t in range(dt.size - 1, -1, -1):
            x, y = states[t]
            g_u += dt[t] * g_x
            g_v += dt[t] * g_y
            square = x * x + y * y
            over = dt[t] / (square * math.sqrt(square))
            along = 3 * over * (g_u * x + g_v * y) / square
            g_x += along * x - over * g_u
            g_y += along * y - over * g_v
        return ex * ex + ey * ey, (np.array([g_x, g_y, g_u, g_v]),)

    return run


def orbit_by_hand(start, end, dt):
    """On Python's floats."""
    x, y, u, v = start.tolist()
    steps, states = dt.tolist(), []
    for h in steps:
        states.append((x, y))
        square = x * x + y * y
        over = h / (square * math.sqrt(square))
        u -= over * x
        v -= over * y
        x += h * u
        y += h * v
    ex, ey = x - float(end[0]), y - float(end[1])
    g_x, g_y, g_u, g_v = 2 * ex, 2 * ey, 0.0, 0.0
    for h, (x, y) in zip(reversed(steps), reversed(states), strict=True):
        g_u += h * g_x
        g_v += h * g_y
        square = x * x + y * y
        over = h / (square * math.sqrt(square))
        along = 3 * over * (g_u * x + g_v * y) / square
        g_x += along * x - over * g_u
        g_y += along * y - over * g_v
    return np.float64(ex * ex + ey * ey), (np.array([g_x, g_y, g_u, g_v]),)


def orbit_example(rng, steps):
    start = np.array([1.0, 0.0, 0.0, 1.0]) + 0.05 * rng.normal(size=4)
    return start, np.array([0.0, 1.0]), np.full(steps, 2 * np.pi / steps)


# ---- a loop that ends when its values say so


def ball(xp, start, aim, dt):
    """Return how far from the aim a falling ball, slowed by the air, meets the ground."""
    x, y, u, v = start
    h = dt[0]
    while y > 0:
        speed = (u * u + v * v) ** 0.5
        u = u - h * 0.1 * speed * u
        v = v - h * (9.81 + 0.1 * speed * v)
        x = x + h * u
        y = y + h * v
    x = x - y * u / v  # where it met it within the last step
    return (x - aim[0]) ** 2


def ball_in_jax(start, aim, dt):
    import jax

    def step(state):
        x, y, u, v = state
        speed = (u * u + v * v) ** 0.5
        u, v = u - h * 0.1 * speed * u, v - h * (9.81 + 0.1 * speed * v)
        return x + h * u, y + h * v, u, v

    h = dt[0]
    x, y, u, v = jax.lax.while_loop(lambda state: state[1] > 0, step, tuple(start))
    return (x - y * u / v - aim[0]) ** 2


def ball_in_pytensor(start, aim, dt):
    import pytensor
    from pytensor.scan.utils import until

    def step(x, y, u, v, h):
        speed = (u * u + v * v) ** 0.5
        u, v = u - h * 0.1 * speed * u, v - h * (9.81 + 0.1 * speed * v)
        x, y = x + h * u, y + h * v
        return (x, y, u, v), until(y <= 0)

    x, y, u, v = pytensor.scan(
        step,
        outputs_info=[start[i] for i in range(4)],
        non_sequences=[dt[0]],
        n_steps=MOST,
        strict=True,
        return_updates=False,
    )
    return (x[-1] - y[-1] * u[-1] / v[-1] - aim[0]) ** 2


def ball_in_numba():
    from numba import njit

    @njit
    def run(start, aim, dt):
        x, y, u, v = start[0], start[1], start[2], start[3]
        h, states = dt[0], [(0.0, 0.0, 0.0)]
        while y > 0:
            speed = math.sqrt(u * u + v * v)
            states.append((u, v, speed))
            u, v = u - h * 0.1 * speed * u, v - h * (9.81 + 0.1 * speed * v)
            x += h * u
            y += h * v
        off = x - y * u / v - aim[0]
        g_x, g_y, g_u, g_v = 2 * off, -2 * off * u / v, -2 * off * y / v, 2 * off * y * u / (v * v)
        drag = 0.1 * h
        for t in range(len(states) - 1, 0, -1):
            u, v, speed = states[t]
            g_u += h * g_x
            g_v += h * g_y
            along = drag * (g_u * u + g_v * v) / speed
            g_u, g_v = g_u - drag * speed * g_u - along * u, g_v - drag * speed * g_v - along * v
        return off * off, (np.array([g_x, g_y, g_u, g_v]),)

    return run


def flight(start, dt):
    """Return the ball's state after the iteration in which it meets the ground, and the residuals of each iteration."""
    x, y, u, v = start.tolist()
    h, states = float(dt[0]), []
    while y > 0:
        speed = math.sqrt(u * u + v * v)
        states.append((u, v, speed))
        u, v = u - h * 0.1 * speed * u, v - h * (9.81 + 0.1 * speed * v)
        x += h * u
        y += h * v
    return (x, y, u, v), states


def ball_by_hand(start, aim, dt):
    (x, y, u, v), states = flight(start, dt)
    h, off = float(dt[0]), x - y * u / v - float(aim[0])
    g = 2 * off
    g_x, g_y, g_u, g_v = g, -g * u / v, -g * y / v, g * y * u / (v * v)
    for u, v, speed in reversed(states):
        g_u += h * g_x
        g_v += h * g_y
        drag = 0.1 * h
        along = drag * (g_u * u + g_v * v) / speed
        g_u, g_v = g_u - drag * speed * g_u - along * u, g_v - drag * speed * g_v - along * v
    return np.float64(off * off), (np.array([g_x, g_y, g_u, g_v]),)


def ball_example(rng, turns):
    start = np.array([0.0, 2.0, 8.0, 9.0]) + 0.1 * rng.normal(size=4)
    return start, np.array([7.5]), np.array([1.5 / turns])


CASES = [
    *cases(
        "Euler steps",
        Model(
            growth,
            growth_example,
            growth_by_hand,
            wrt=2,
            peers={"jax": growth_in_jax, "pytensor": growth_in_pytensor, "numba": growth_in_numba},
            turns=lambda *_: STEPS,
        ),
        "n=1e5",
        small="n=50",
    ),
    *cases(
        "LSTM",
        Model(
            lstm,
            lstm_example,
            lstm_by_hand,
            peers={"jax": lstm_in_jax, "torch": lstm_in_torch, "pytensor": lstm_in_pytensor},
            turns=lambda params, x, y: len(x),
        ),
        "steps=1024 batch=16 hidden=64",
        small="steps=40 batch=3 hidden=4",
    ),
    *cases(
        "orbit",
        Model(
            orbit,
            orbit_example,
            orbit_by_hand,
            peers={
                "jax": orbit_in_jax,
                "pytensor": orbit_in_pytensor,
                "casadi": orbit_in_casadi,
                "numba": orbit_in_numba,
            },
            turns=lambda start, end, dt: len(dt),
        ),
        "steps=10000",
        small="steps=50",
    ),
    *cases(
        "thrown ball",
        Model(
            ball,
            ball_example,
            ball_by_hand,
            peers={"jax": ball_in_jax, "pytensor": ball_in_pytensor, "casadi": None, "numba": ball_in_numba},
            forward=("jax",),
            turns=lambda start, aim, dt: len(flight(start, dt)[1]),
        ),
        "turns=1000",
        small="turns=50",
    ),
]
