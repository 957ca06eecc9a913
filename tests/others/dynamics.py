"""Simulations and filters: state that is updated in place, boundaries, limiters, pairs of bodies."""

import numpy as np
from numpy import dot, eye, zeros
from numpy.linalg import inv

RNG = np.random.default_rng(3)


# ---- a Kalman filter, in filterpy's style


class KalmanFilter:
    def __init__(self, dim_x, dim_z):
        self.dim_x, self.dim_z = dim_x, dim_z
        self.x = zeros((dim_x, 1))
        self.P = eye(dim_x)
        self.Q = eye(dim_x)
        self.F = eye(dim_x)
        self.H = zeros((dim_z, dim_x))
        self.R = eye(dim_z)
        self.log_likelihood = 0.0
        self._I = np.eye(dim_x)

    def predict(self):
        self.x = dot(self.F, self.x)
        self.P = dot(dot(self.F, self.P), self.F.T) + self.Q

    def update(self, z):
        z = np.atleast_2d(z)
        if z.shape != (self.dim_z, 1):
            z = z.T
        self.y = z - dot(self.H, self.x)
        PHT = dot(self.P, self.H.T)
        self.S = dot(self.H, PHT) + self.R
        self.SI = inv(self.S)
        self.K = dot(PHT, self.SI)
        self.x = self.x + dot(self.K, self.y)
        I_KH = self._I - dot(self.K, self.H)
        self.P = dot(dot(I_KH, self.P), I_KH.T) + dot(dot(self.K, self.R), self.K.T)
        self.log_likelihood += -0.5 * (
            np.linalg.slogdet(2 * np.pi * self.S)[1] + dot(self.y.T, dot(self.SI, self.y))[0, 0]
        )


def kalman_filter(log_noise, dt, zs):
    kf = KalmanFilter(dim_x=2, dim_z=1)
    kf.F = np.array([[1.0, dt], [0.0, 1.0]])
    kf.H[0, 0] = 1.0
    kf.P *= 10.0
    kf.R[:] = np.exp(log_noise[0])
    kf.Q = np.exp(log_noise[1]) * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    xs, cov = np.zeros((len(zs), 2)), []
    for i, z in enumerate(zs):
        kf.predict()
        kf.update(z)
        xs[i] = kf.x[:, 0]
        cov.append(kf.P)
    return -kf.log_likelihood + np.sum(xs**2) + np.trace(np.mean(cov, axis=0))


# ---- bodies


def accelerations(pos, mass, G=1.0, softening=0.1):
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    return np.hstack((G * (dx * inv_r3) @ mass, G * (dy * inv_r3) @ mass, G * (dz * inv_r3) @ mass))


def leapfrog(pos, vel, mass, dt=0.01, steps=2):
    vel = vel - np.mean(mass * vel, 0) / np.mean(mass)
    acc = accelerations(pos, mass)
    for _ in range(steps):
        vel += acc * dt / 2.0
        pos = pos + vel * dt
        acc = accelerations(pos, mass)
        vel += acc * dt / 2.0
    return 0.5 * np.sum(mass * vel**2) + np.sum(pos * acc)


def potential_energy(pos, mass):
    diff = pos[:, np.newaxis, :] - pos[np.newaxis, :, :]
    dist = np.sqrt(np.sum(diff**2, axis=-1))
    np.fill_diagonal(dist, np.inf)
    pairs = mass[:, np.newaxis] * mass[np.newaxis, :] / dist
    return -0.5 * pairs.sum() + np.sum(np.triu(pairs, 1)) * 0.1


def pair_by_pair(pos, mass):
    n = len(mass)
    force = np.zeros((n, 3))
    for i in range(n):
        for j in range(i + 1, n):
            rij = pos[j] - pos[i]
            f = mass[i] * mass[j] * rij / np.linalg.norm(rij) ** 3
            force[i] += f
            force[j] -= f
    return np.sum(force * pos) + np.linalg.norm(force, axis=1).max()


# ---- fields on a grid


def minmod(a, b):
    return 0.5 * (np.sign(a) + np.sign(b)) * np.minimum(np.abs(a), np.abs(b))


def gradient_of(f, dx):
    return (np.roll(f, -1, axis=0) - np.roll(f, 1, axis=0)) / (2 * dx)


def finite_volumes(rho, vx, P, dx=0.1, dt=0.01, gamma=5 / 3):
    slopes = [minmod(f - np.roll(f, 1), np.roll(f, -1) - f) for f in (rho, vx, P)]
    for slope in slopes:
        slope[0] = slope[-1] = 0.0
    left = [f - s / 2 for f, s in zip((rho, vx, P), slopes, strict=True)]
    right = [np.roll(f + s / 2, 1) for f, s in zip((rho, vx, P), slopes, strict=True)]

    def flux(rho, vx, P):
        en = P / (gamma - 1) + 0.5 * rho * vx**2
        return np.array([rho * vx, rho * vx**2 + P, (en + P) * vx]), np.sqrt(gamma * P / rho) + np.abs(vx), en

    flux_l, c_l, en_l = flux(*left)
    flux_r, c_r, en_r = flux(*right)
    C = np.maximum(c_l, c_r)
    jump = np.array([left[0] - right[0], left[0] * left[1] - right[0] * right[1], en_l - en_r])
    F = 0.5 * (flux_l + flux_r) - 0.5 * C * jump
    U = np.vstack([rho, rho * vx, P / (gamma - 1) + 0.5 * rho * vx**2])
    U -= dt / dx * (np.roll(F, -1, axis=1) - F)
    U[:, 0] = U[:, 1]
    U[:, -1] = U[:, -2]
    return np.sum(U**2)


def advection(u, c=0.5, nt=3):
    u = u.copy()
    for _ in range(nt):
        un = u.copy()
        u[1:-1] = un[1:-1] - c * (un[1:-1] - un[:-2]) + 0.1 * (un[2:] - 2 * un[1:-1] + un[0:-2])
        u[0] = u[-1] = 1.0
    return u


def cavity(p, b, dx=0.2, dy=0.3):
    for _ in range(2):
        pn = np.empty_like(p)
        pn[:] = p[:]
        p = p.copy()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2) / (
            2 * (dx**2 + dy**2)
        ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    return np.linalg.norm(p)


def project(vx, vy):
    """A velocity field without its divergence, by Gauss and Seidel."""
    h = 1.0 / vx.shape[0]
    div = -0.5 * h * (np.roll(vx, -1, 0) - np.roll(vx, 1, 0) + np.roll(vy, -1, 1) - np.roll(vy, 1, 1))
    p = np.zeros(vx.shape)
    for _ in range(3):
        p = (div + np.roll(p, 1, 0) + np.roll(p, -1, 0) + np.roll(p, 1, 1) + np.roll(p, -1, 1)) / 4.0
    vx = vx - 0.5 * (np.roll(p, -1, axis=0) - np.roll(p, 1, axis=0)) / h
    vy = vy - 0.5 * (np.roll(p, -1, axis=1) - np.roll(p, 1, axis=1)) / h
    return vx, vy


def fluid(vx, vy, smoke):
    rows, cols = smoke.shape
    vx, vy = project(vx, vy)
    cell_ys, cell_xs = np.meshgrid(np.arange(rows), np.arange(cols))
    center_xs = (cell_xs - vx * 2.0).ravel()
    center_ys = (cell_ys - vy * 2.0).ravel()
    left_ix = np.floor(center_xs).astype(int)
    top_ix = np.floor(center_ys).astype(int)
    rw, bw = center_xs - left_ix, center_ys - top_ix
    left_ix, right_ix = np.mod(left_ix, rows), np.mod(left_ix + 1, rows)
    top_ix, bot_ix = np.mod(top_ix, cols), np.mod(top_ix + 1, cols)
    flat = (1 - rw) * ((1 - bw) * smoke[left_ix, top_ix] + bw * smoke[left_ix, bot_ix]) + rw * (
        (1 - bw) * smoke[right_ix, top_ix] + bw * smoke[right_ix, bot_ix]
    )
    return np.mean((np.reshape(flat, (rows, cols)) - 0.3) ** 2)


# ---- ordinary differential equations


def lotka_volterra(y, t, params):
    prey, predators = y
    a, b, c, d = params
    return np.array([a * prey - b * prey * predators, -c * predators + d * prey * predators])


def runge_kutta(params, y0):
    ts = np.linspace(0.0, 1.0, 5)
    ys = [y0]
    for t0, t1 in zip(ts[:-1], ts[1:], strict=True):  # noqa: RUF007
        h, y = t1 - t0, ys[-1]
        k1 = lotka_volterra(y, t0, params)
        k2 = lotka_volterra(y + h / 2 * k1, t0 + h / 2, params)
        k3 = lotka_volterra(y + h / 2 * k2, t0 + h / 2, params)
        k4 = lotka_volterra(y + h * k3, t1, params)
        ys.append(y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return np.mean((np.array(ys) - 1.0) ** 2)


def double_pendulum(state, length1, length2, M1=1.0, M2=1.5, G=9.8):
    dydx = np.zeros_like(state)
    dydx[0] = state[1]
    del_ = state[2] - state[0]
    den1 = (M1 + M2) * length1 - M2 * length1 * np.cos(del_) * np.cos(del_)
    dydx[1] = (
        M2 * length1 * state[1] ** 2 * np.sin(del_) * np.cos(del_)
        + M2 * G * np.sin(state[2]) * np.cos(del_)
        + M2 * length2 * state[3] ** 2 * np.sin(del_)
        - (M1 + M2) * G * np.sin(state[0])
    ) / den1
    dydx[2] = state[3]
    den2 = (length2 / length1) * den1
    dydx[3] = (-M2 * length2 * state[3] ** 2 * np.sin(del_) * np.cos(del_) - (M1 + M2) * G * np.sin(state[2])) / den2
    return dydx


BODIES = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3)), RNG.random((4, 1)) + 0.5
GAS = 1.0 + 0.3 * RNG.random(8), RNG.normal(size=8), 2.0 + 0.2 * RNG.random(8)
FLOW = RNG.normal(size=(5, 5)) * 0.1, RNG.normal(size=(5, 5)) * 0.1, RNG.random((5, 5))

PROGRAMS = {
    "Kalman filter": (kalman_filter, (np.array([-1.0, -2.0]), 0.3, RNG.normal(size=5))),
    "leapfrog": (leapfrog, BODIES),
    "potential": (potential_energy, (BODIES[0], BODIES[2][:, 0])),
    "pair by pair": (pair_by_pair, (BODIES[0], BODIES[2][:, 0])),
    "finite volumes": (finite_volumes, GAS),
    "advection": (advection, (RNG.random(6),)),
    "cavity": (cavity, (RNG.random((5, 4)), RNG.random((5, 4)))),
    "fluid": (fluid, FLOW),
    "Runge and Kutta": (runge_kutta, (np.array([1.5, 1.0, 3.0, 1.0]), np.array([1.0, 0.7]))),
    "double pendulum": (double_pendulum, (np.array([0.3, 0.1, 1.0, -0.2]), 1.0, 1.2)),
}
