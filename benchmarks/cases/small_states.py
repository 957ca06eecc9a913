"""Python loops of many turns over small states: a chain of reactions, rotations, a Kalman filter."""

import math

import numpy as np

from cases.model import Model, cases

# ---- a differential equation


def reactions(xp, rates, target, one, dt):
    """Explicit Euler steps of y' = rates * (1, y[0], y[1], ...): each substance is made of the one before it."""
    y = 0 * rates
    for h in dt:
        y = y + h * rates * xp.concatenate((one, y[:-1]))
    return xp.sum((y - target) ** 2)


def reactions_in_jax(rates, target, one, dt):
    import jax
    import jax.numpy as jnp

    def step(y, h):
        return y + h * rates * jnp.concatenate((one, y[:-1])), None

    y, _ = jax.lax.scan(step, 0 * rates, dt)
    return jnp.sum((y - target) ** 2)


def reactions_in_pytensor(rates, target, one, dt):
    import pytensor
    import pytensor.tensor as pt

    def step(h, y, rates, one):
        return y + h * rates * pt.concatenate((one, y[:-1]))

    y = pytensor.scan(
        step, sequences=dt, outputs_info=0 * rates, non_sequences=[rates, one], strict=True, return_updates=False
    )
    return pt.sum((y[-1] - target) ** 2)


def reactions_by_hand(rates, target, one, dt):
    """Step reactions in one buffer, where a step reads the number to the left of the one that it makes."""
    states = np.empty((len(dt) + 1, len(rates) + 1))
    states[0], states[:, 0] = 0.0, one[0]
    scaled = dt[:, None] * rates
    for before, after, r in zip(states, states[1:], scaled, strict=False):
        np.multiply(r, before[:-1], out=after[1:])
        after[1:] += before[1:]
    residual = states[-1, 1:] - target
    g = 2 * residual
    made = np.empty((len(dt), len(rates)))
    for t in range(len(dt) - 1, -1, -1):
        made[t] = g
        g[:-1] += (scaled[t] * g)[1:]
    return residual @ residual, (np.einsum("t,ti,ti->i", dt, made, states[:-1, :-1]),)


def reactions_example(rng, n, steps):
    return rng.uniform(0.5, 1.5, n), rng.uniform(0.0, 1.0, n), np.ones(1), np.full(steps, 2.0 / steps)


# ---- rotations in space


def attitude(xp, rates, aim, generators, start):
    """Return the error of a body's attitude after turning at given rates, one after the other (Rodrigues)."""
    rotation = start
    for rate in rates:
        square = rate @ rate
        angle = square**0.5
        cross = rate[0] * generators[0] + rate[1] * generators[1] + rate[2] * generators[2]
        turned = rotation @ cross
        rotation = rotation + (xp.sin(angle) / angle) * turned + ((1 - xp.cos(angle)) / square) * (turned @ cross)
    return xp.sum((rotation - aim) ** 2)


def attitude_in_jax(rates, aim, generators, start):
    import jax
    import jax.numpy as jnp

    def step(rotation, rate):
        square = rate @ rate
        angle = jnp.sqrt(square)
        turned = rotation @ (cross := jnp.tensordot(rate, generators, 1))
        return rotation + (jnp.sin(angle) / angle) * turned + ((1 - jnp.cos(angle)) / square) * (turned @ cross), None

    rotation, _ = jax.lax.scan(step, start, rates)
    return jnp.sum((rotation - aim) ** 2)


def attitude_in_pytensor(rates, aim, generators, start):
    import pytensor
    import pytensor.tensor as pt

    def step(rate, rotation, generators):
        square = rate @ rate
        angle = pt.sqrt(square)
        turned = rotation @ (cross := pt.tensordot(rate, generators, axes=[[0], [0]]))
        return rotation + (pt.sin(angle) / angle) * turned + ((1 - pt.cos(angle)) / square) * (turned @ cross)

    rotations = pytensor.scan(
        step, sequences=rates, outputs_info=start, non_sequences=[generators], strict=True, return_updates=False
    )
    return pt.sum((rotations[-1] - aim) ** 2)


def attitude_by_hand(rates, aim, generators, start):
    """Return value and gradient; terms that depend on one rate alone are computed for all rates at once."""
    cross = np.tensordot(rates, generators, 1)
    twice = cross @ cross
    square = np.einsum("ti,ti->t", rates, rates)
    angle = np.sqrt(square)
    sine, rest = np.sin(angle) / angle, (1 - np.cos(angle)) / square
    turns = np.eye(3) + sine[:, None, None] * cross + rest[:, None, None] * twice
    rotations = np.empty((len(rates) + 1, 3, 3))
    rotations[0] = start
    for before, turn, after in zip(rotations, turns, rotations[1:], strict=False):
        np.dot(before, turn, out=after)
    residual = rotations[-1] - aim
    back = np.empty((len(rates), 3, 3))
    g = 2 * residual
    for t in range(len(rates) - 1, -1, -1):
        back[t] = g
        g = g.dot(turns[t].T)
    d_turns = np.swapaxes(rotations[:-1], 1, 2) @ back
    d_sine, d_rest = (np.einsum("tij,tij->t", d_turns, each) for each in (cross, twice))
    d_twice = rest[:, None, None] * d_turns
    transposed = np.swapaxes(cross, 1, 2)
    d_cross = sine[:, None, None] * d_turns + d_twice @ transposed + transposed @ d_twice
    d_angle = d_sine * (np.cos(angle) - sine) / angle + d_rest * (np.sin(angle) - 2 * angle * rest) / square
    return np.sum(residual * residual), (
        np.tensordot(d_cross, generators, ([1, 2], [1, 2])) + (d_angle / angle)[:, None] * rates,
    )


def attitude_example(rng, steps):
    generators = np.zeros((3, 3, 3))
    for i, j, k in (0, 1, 2), (1, 2, 0), (2, 0, 1):
        generators[i, k, j], generators[i, j, k] = 1, -1
    aim, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return rng.normal(size=(steps, 3)) / steps**0.5, aim, generators, np.eye(3)


# ---- a Kalman filter


def tracking(xp, noise, seen, move, shake, start, both):
    """Minus the log likelihood of what is seen of a place in the plane, by the logarithms of two variances.

    The state has a place and a velocity; ``both`` is the 2 x 2 identity, ``start`` the first covariance.
    """
    process, error = xp.exp(noise[0]) * shake, xp.exp(noise[1]) * both
    mean, covariance, total = 0 * start[0], start, 0 * noise[0]
    for place in seen:
        mean, covariance, loss = followed(xp, place, mean, covariance, process, error, move)
        total = total + loss
    return total / seen.shape[0]


def followed(xp, place, mean, covariance, process, error, move):
    """The state behind one turn, and minus the log likelihood of the place that is seen."""
    mean = move @ mean
    covariance = move @ covariance @ move.T + process
    surprise = place - mean[:2]
    spread = covariance[:2, :2] + error
    gain = xp.linalg.solve(spread, covariance[:2])
    weighted = xp.linalg.solve(spread, surprise)
    loss = 0.5 * (surprise @ weighted + xp.log(xp.linalg.det(spread)))
    return mean + weighted @ covariance[:2], covariance - covariance[:, :2] @ gain, loss


def tracking_in_jax(noise, seen, move, shake, start, both):
    import jax
    import jax.numpy as jnp

    process, error = jnp.exp(noise[0]) * shake, jnp.exp(noise[1]) * both

    def step(state, place):
        mean, covariance, loss = followed(jnp, place, *state, process, error, move)
        return (mean, covariance), loss

    _, losses = jax.lax.scan(step, (0 * start[0], start), seen)
    return jnp.mean(losses)


def tracking_in_pytensor(noise, seen, move, shake, start, both):
    import pytensor
    import pytensor.tensor as pt

    *_, losses = pytensor.scan(
        lambda *given: followed(pt, *given),
        sequences=seen,
        outputs_info=[0 * start[0], start, None],
        non_sequences=[pt.exp(noise[0]) * shake, pt.exp(noise[1]) * both, move],
        strict=True,
        return_updates=False,
    )
    return pt.mean(losses)


def tracking_by_hand(noise, seen, move, shake, start, both):
    """The inverse of the 2 x 2 spread is written out."""
    process, error = math.exp(noise[0]), math.exp(noise[1])
    mean, covariance, loss, kept = np.zeros(4), start, 0.0, []
    added, seen_error, back = process * shake, error * both, move.T
    for place in seen:
        mean = move.dot(mean)
        covariance = move.dot(covariance).dot(back) + added
        rows = covariance[:2]
        (a, b), (c, d) = (rows[:, :2] + seen_error).tolist()
        det = a * d - b * c
        inverse = np.array([[d / det, -b / det], [-c / det, a / det]])
        surprise = place - mean[:2]
        weighted, gain = inverse.dot(surprise), inverse.dot(rows)
        kept.append((rows, inverse, weighted, gain))
        loss += surprise.dot(weighted) + math.log(det)
        mean = mean + weighted.dot(rows)
        covariance = covariance - rows.T.dot(gain)
    d_mean, d_covariance = np.zeros(4), np.zeros((4, 4))
    d_process = d_error = 0.0
    for rows, inverse, weighted, gain in reversed(kept):
        d_weighted = rows.dot(d_mean)
        d_gain = -rows.dot(d_covariance)
        d_rows = np.outer(weighted, d_mean) - gain.dot(d_covariance.T) + inverse.dot(d_gain)
        d_surprise = inverse.dot(d_weighted) + weighted
        d_spread = 0.5 * (inverse - np.outer(weighted, weighted)) - np.outer(inverse.dot(d_weighted), weighted)
        d_spread -= inverse.dot(d_gain).dot(gain.T)
        d_covariance[:2] += d_rows
        d_covariance[:2, :2] += d_spread
        d_covariance = 0.5 * (d_covariance + d_covariance.T)  # or else rounding grows from turn to turn
        d_mean[:2] -= d_surprise
        d_error += d_spread[0, 0] + d_spread[1, 1]
        d_process += np.vdot(d_covariance, shake)
        d_covariance = back.dot(d_covariance).dot(move)
        d_mean = back.dot(d_mean)
    n = len(seen)
    return np.float64(0.5 * loss / n), (np.array([process * d_process, error * d_error]) / n,)


def tracking_example(rng, steps, dt=0.1):
    move = np.eye(4) + dt * np.eye(4, k=2)
    shake = np.diag([dt**3 / 3] * 2 + [dt] * 2)
    velocity = np.cumsum(0.3 * rng.normal(size=(steps, 2)), axis=0) * dt**0.5
    seen = np.cumsum(velocity, axis=0) * dt + 0.2 * rng.normal(size=(steps, 2))
    return np.log([0.1, 0.05]), seen, move, shake, np.eye(4), np.eye(2)


CASES = [
    *cases(
        "chain of reactions",
        Model(
            reactions,
            reactions_example,
            reactions_by_hand,
            peers={"jax": reactions_in_jax, "pytensor": reactions_in_pytensor},
            turns=lambda rates, target, one, dt: len(dt),
        ),
        "n=20 steps=1000",
        small="n=3 steps=40",
    ),
    *cases(
        "3x3 rotations",
        Model(
            attitude,
            attitude_example,
            attitude_by_hand,
            peers={"jax": attitude_in_jax, "pytensor": attitude_in_pytensor},
            turns=lambda rates, *_: len(rates),
        ),
        "steps=1000",
        small="steps=40",
    ),
    *cases(
        "Kalman filter, 4 states",
        Model(
            tracking,
            tracking_example,
            tracking_by_hand,
            peers={"jax": tracking_in_jax, "pytensor": tracking_in_pytensor},
            turns=lambda noise, seen, *_: len(seen),
        ),
        "steps=10000",
        small="steps=40",
    ),
]
