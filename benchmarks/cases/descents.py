"""Gradient descent until it converges, of functions that differentiate, or descend, themselves.

After Siskind and Pearlmutter's `particle` and `saddle`. Nothing is differentiated from outside: a contestant runs the
program, with the modes that the name of the case says, the outer one first.
"""

import math
from functools import partial

import numpy as np

from cases.model import Case, Model

MODES = "reverse", "forward"
TOLERANCE, FIRST_STEP, DT = 1e-5, 1e-3, 0.4


def descent(f, slope, x):
    """Steps grow while they lead down, and shrink when one does not."""
    fx, gx, step, since = f(x), slope(x), FIRST_STEP, 0
    while (gx @ gx) ** 0.5 > TOLERANCE:
        if since == 10:
            step, since = 2 * step, 0
        new = x - step * gx
        if ((new - x) @ (new - x)) ** 0.5 <= TOLERANCE:
            break
        f_new = f(new)
        if f_new < fx:
            x, fx, gx, since = new, f_new, slope(new), since + 1
        else:
            step, since = step / 2, 0
    return x


def particle(outer, inner, start, charges, up, place, velocity):
    """Find how high to hang one of the charges that push a falling particle, so that it lands at the origin."""

    def landing(w):
        def potential(x):
            above, below = x - (charges[0] - w * up), x - charges[1]
            return 1 / (above @ above) ** 0.5 + 1 / (below @ below) ** 0.5

        x, v = place, velocity
        new = x + DT * v
        while new[1] > 0:
            v = v - DT * inner(potential)(x)
            x = new
            new = x + DT * v
        met = x - x[1] / v[1] * v
        return met[0] ** 2

    return descent(landing, outer(landing), start)[0]


def saddle(outer, inner, start):
    """The least over x of what is the greatest over y of |x|^2 - |y|^2, and where it is."""

    def f(x, y):
        return x @ x - y @ y

    def best(x):
        def fall(y):
            return -f(x, y)

        return descent(fall, inner(fall), start)

    def worst(x):
        return f(x, best(x))

    x = descent(worst, outer(worst), start)
    y = best(x)
    return x[0] + x[1] + y[0] + y[1]


# ---- what each peer calls a gradient in a mode


def in_symgrad(mode):
    import symgrad as sg

    return {"reverse": sg.grad, "forward": sg.jacfwd}[mode]


def in_torch(mode):
    import torch

    def forward(f):
        def slope(x):
            units = torch.eye(len(x), dtype=x.dtype)
            return torch.stack([torch.func.jvp(f, (x,), (unit,))[1] for unit in units])

        return slope

    return torch.func.grad if mode == "reverse" else forward


def in_autograd(mode):
    import autograd
    import autograd.numpy as anp

    def forward(f):
        return lambda x: anp.array([autograd.make_jvp(f)(x)(unit)[1] for unit in np.eye(len(x))])

    return autograd.grad if mode == "reverse" else forward


# ---- JAX


def descent_in_jax(f, slope, x):
    import jax
    import jax.numpy as jnp

    def goes_on(state):
        *_, gx, _, _, stopped = state
        return ~stopped & (jnp.sqrt(gx @ gx) > TOLERANCE)

    def turn(state):
        x, fx, gx, step, since, _ = state
        step, since = jnp.where(since == 10, 2 * step, step), jnp.where(since == 10, 0, since)
        new = x - step * gx

        def go():
            f_new = f(new)
            return jax.lax.cond(
                f_new < fx,
                lambda: (new, f_new, slope(new), step, since + 1, False),
                lambda: (x, fx, gx, step / 2, 0, False),
            )

        short = jnp.sqrt((new - x) @ (new - x)) <= TOLERANCE
        return jax.lax.cond(short, lambda: (x, fx, gx, step, since, True), go)

    return jax.lax.while_loop(goes_on, turn, (x, f(x), slope(x), FIRST_STEP, 0, False))[0]


def jax_gradient(mode):
    import jax

    return {"reverse": jax.grad, "forward": jax.jacfwd}[mode]


def particle_in_jax(outer, inner, start, charges, up, place, velocity):
    import jax
    import jax.numpy as jnp

    def landing(w):
        def potential(x):
            above, below = x - (charges[0] - w * up), x - charges[1]
            return 1 / jnp.sqrt(above @ above) + 1 / jnp.sqrt(below @ below)

        def turn(state):
            _, v, new = state
            v = v - DT * jax_gradient(inner)(potential)(state[0])
            return new, v, new + DT * v

        x, v, _ = jax.lax.while_loop(lambda state: state[2][1] > 0, turn, (place, velocity, place + DT * velocity))
        met = x - x[1] / v[1] * v
        return met[0] ** 2

    return descent_in_jax(landing, jax_gradient(outer)(landing), start)[0]


def saddle_in_jax(outer, inner, start):
    def f(x, y):
        return x @ x - y @ y

    def best(x):
        def fall(y):
            return -f(x, y)

        return descent_in_jax(fall, jax_gradient(inner)(fall), start)

    def worst(x):
        return f(x, best(x))

    x = descent_in_jax(worst, jax_gradient(outer)(worst), start)
    y = best(x)
    return x[0] + x[1] + y[0] + y[1]


# ---- by hand, on Python's floats


def descent_by_hand(value_and_slope, x):
    """The same on a tuple of floats, and how many times it asked for a value."""
    (fx, gx), step, since, asked = value_and_slope(x), FIRST_STEP, 0, 1
    while math.hypot(*gx) > TOLERANCE:
        if since == 10:
            step, since = 2 * step, 0
        new = tuple(a - step * b for a, b in zip(x, gx, strict=True))
        if math.dist(new, x) <= TOLERANCE:
            break
        f_new, g_new = value_and_slope(new)
        asked += 1
        if f_new < fx:
            x, fx, gx, since = new, f_new, g_new, since + 1
        else:
            step, since = step / 2, 0
    return x, asked


def landing_by_hand(charges, place, velocity):
    """The function that is made small, with its derivative going along."""
    (a, b), (c, d) = charges.tolist()
    (x_0, y_0), (u_0, v_0) = place.tolist(), velocity.tolist()

    def landing(w):
        x, y, u, v = x_0, y_0, u_0, v_0
        x_dot = y_dot = u_dot = v_dot = next_x_dot = next_y_dot = 0.0
        next_x, next_y = x + DT * u, y + DT * v
        while next_y > 0:
            px, py, qx, qy = x - a, y - b + w[0], x - c, y - d
            py_dot = y_dot + 1
            p, q = px * px + py * py, qx * qx + qy * qy
            p_force, q_force = DT / (p * math.sqrt(p)), DT / (q * math.sqrt(q))
            p_less = 3 * p_force * (px * x_dot + py * py_dot) / p
            q_less = 3 * q_force * (qx * x_dot + qy * y_dot) / q
            u += p_force * px + q_force * qx
            v += p_force * py + q_force * qy
            u_dot += p_force * x_dot + q_force * x_dot - p_less * px - q_less * qx
            v_dot += p_force * py_dot + q_force * y_dot - p_less * py - q_less * qy
            x, y, x_dot, y_dot = next_x, next_y, next_x_dot, next_y_dot
            next_x, next_y = x + DT * u, y + DT * v
            next_x_dot, next_y_dot = x_dot + DT * u_dot, y_dot + DT * v_dot
        met = x - y / v * u
        met_dot = x_dot - y / v * u_dot - u * (y_dot - y / v * v_dot) / v
        return met * met, (2 * met * met_dot,)

    return landing


def particle_by_hand(start, charges, up, place, velocity):
    (w,), _ = descent_by_hand(landing_by_hand(charges, place, velocity), tuple(start.tolist()))
    return np.float64(w), ()


def landings(start, charges, up, place, velocity):
    return descent_by_hand(landing_by_hand(charges, place, velocity), tuple(start.tolist()))[1]


def squares(x):
    return x[0] * x[0] + x[1] * x[1]


def best_by_hand(x, start):
    """Return the end of the inner descent, with the slope written by hand."""
    xx = squares(x)
    return descent_by_hand(lambda y: (squares(y) - xx, (2 * y[0], 2 * y[1])), start)[0]


def worst_by_hand(start):
    """The slope is that of x alone: a place of x moves where the inner descent ends by nothing."""

    def worst(x):
        return squares(x) - squares(best_by_hand(x, start)), (2 * x[0], 2 * x[1])

    return descent_by_hand(worst, start)


def saddle_by_hand(start):
    start = tuple(start.tolist())
    x, _ = worst_by_hand(start)
    return np.float64(sum(x) + sum(best_by_hand(x, start))), ()


def outer_turns(start):
    return worst_by_hand(tuple(start.tolist()))[1]


# ---- cases


def particle_example(rng):
    charges, up = np.array([[10.0, 10.0], [10.0, 0.0]]), np.array([0.0, 1.0])
    return np.zeros(1), charges, up, np.array([0.0, 8.0]), np.array([0.75, 0.0])


def saddle_example(rng):
    return (np.ones(2),)


def model(program, program_in_jax, example, by_hand, turns, outer, inner):
    """The program with these modes, as each contestant has it."""

    def in_modes(of):
        return lambda xp, *args: program(of(outer), of(inner), *args)

    return Model(
        in_modes(in_symgrad),
        example,
        by_hand,
        wrt=0,
        peers={
            "jax": partial(program_in_jax, outer, inner),
            "torch": partial(in_modes(in_torch), None),
            "autograd": partial(in_modes(in_autograd), None),
            "pytensor": None,
        },
        turns=turns,
    )


def in_all_modes(title, *parts):
    return [
        Case(f"{title}, {outer} over {inner}", model(*parts, outer, inner), {}, {})
        for outer in MODES
        for inner in MODES
    ]


CASES = [
    *in_all_modes("particle", particle, particle_in_jax, particle_example, particle_by_hand, landings),
    *in_all_modes("saddle", saddle, saddle_in_jax, saddle_example, saddle_by_hand, outer_turns),
]
