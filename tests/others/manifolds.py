"""Costs on manifolds, in pymanopt's style: linear algebra on orthonormal, positive definite and low-rank matrices."""

import numpy as np

RNG = np.random.default_rng(5)


def symmetric(n):
    A = RNG.normal(size=(n, n))
    return 0.5 * (A + A.T)


MATRIX = symmetric(4)
SUM_OF_SQUARES = symmetric(4) @ np.diag([1.0, 2.0, 3.0, 4.0]) @ MATRIX


def dominant_eigenvector(x):
    return -x.T @ MATRIX @ x


def rayleigh_quotient(X):
    return -np.trace(X.T @ MATRIX @ X) / np.tensordot(X, X, axes=X.ndim)


def dominant_subspace(X):
    """Grassmann."""
    Q, _ = np.linalg.qr(X)
    return -(np.linalg.norm(Q.T @ MATRIX @ Q, "fro") ** 2)


def packing(X, epsilon=0.1):
    """Points on a sphere that keep away from each other."""
    Y = X @ X.T
    s = Y[np.triu_indices_from(Y, k=1)].max()
    expY = np.exp((Y - s) / epsilon)
    expY[np.diag_indices_from(expY)] = 0
    u = np.sum(np.triu(expY, k=1))
    return s + epsilon * np.log(u)


def low_rank_approximation(u, s, vt):
    X = u @ np.diag(s) @ vt
    return np.linalg.norm(X - SUM_OF_SQUARES[:, :3]) ** 2


def multi_product(u, s, v):
    delta = 0.5
    return np.sum(np.sqrt((np.linalg.multi_dot([u, np.diag(s), v]) - MATRIX[:, :3]) ** 2 + delta**2) - delta)


def nuclear_norm(X):
    return np.linalg.svd(X, compute_uv=False).sum() + np.linalg.norm(X, ord=2)


def polar_factor(X):
    U, S, Vh = np.linalg.svd(X, full_matrices=False)
    return np.trace((U @ Vh).T @ MATRIX[:, :3]) + np.prod(S)


def positive_definite(L):
    """An affine invariant distance, through eigenvalues."""
    S = L @ L.T + np.eye(len(L))
    w, V = np.linalg.eigh(S)
    inv_sqrt = V @ np.diag(1 / np.sqrt(w)) @ V.T
    centre = inv_sqrt @ (MATRIX @ MATRIX + np.identity(4)) @ inv_sqrt
    return np.sum(np.log(np.linalg.eigvalsh((centre + centre.T) / 2)) ** 2)


def gaussian_divergence(S):
    C = np.array(MATRIX @ MATRIX) + np.eye(4) * 2
    return np.trace(np.linalg.inv(S) @ C) + np.log(np.linalg.det(S)) - np.linalg.slogdet(C)[1]


def maxcut(Y):
    return np.trace(Y.T @ (MATRIX @ Y)) / np.sqrt(np.vdot(Y, Y))


def rotation_averaging(angles):
    def rotation(axis, angle):
        c, s = np.cos(angle), np.sin(angle)
        R = np.eye(3)
        i, j = [k for k in range(3) if k != axis]
        R[i, i] = R[j, j] = c
        R[i, j], R[j, i] = -s, s
        return R

    R = np.eye(3)
    for axis, angle in enumerate(angles):
        R = R @ rotation(axis, angle)
    skew = np.array([[0, -angles[2], angles[1]], [angles[2], 0, -angles[0]], [-angles[1], angles[0], 0]])
    return np.linalg.norm(R - MATRIX[:3, :3]) ** 2 + np.trace(R.T @ skew) + np.arccos(0.4 * (np.trace(R) - 1))


def cholesky_whitening(S, x):
    L = np.linalg.cholesky(S)
    z = np.linalg.solve(L, x[..., np.newaxis])[..., 0]
    return 0.5 * z @ z + np.log(np.diagonal(L)).sum() + np.linalg.cond(L, "fro")


TALL, WIDE = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 3))
DEFINITE = np.cov(RNG.normal(size=(4, 9))) + np.eye(4)

PROGRAMS = {
    "eigenvector": (dominant_eigenvector, (TALL[:, 0],)),
    "Rayleigh's quotient": (rayleigh_quotient, (TALL,)),
    "subspace": (dominant_subspace, (TALL,)),
    "packing": (packing, (RNG.normal(size=(4, 3)),)),
    "low rank": (low_rank_approximation, (TALL, np.array([2.0, 1.0]), WIDE)),
    "multi_dot": (multi_product, (TALL, np.array([2.0, 1.0]), WIDE)),
    "nuclear norm": (nuclear_norm, (RNG.normal(size=(4, 3)),)),
    "polar factor": (polar_factor, (RNG.normal(size=(4, 3)),)),
    "positive definite": (positive_definite, (RNG.normal(size=(4, 4)),)),
    "divergence": (gaussian_divergence, (DEFINITE,)),
    "maximum cut": (maxcut, (TALL,)),
    "rotations": (rotation_averaging, (np.array([0.3, -0.5, 0.7]),)),
    "whitening": (cholesky_whitening, (DEFINITE, TALL[:, 0])),
}
