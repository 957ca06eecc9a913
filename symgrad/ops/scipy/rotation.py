"""scipy.spatial.transform: rotations by traced numbers, as quaternions ``(x, y, z, w)`` of length one.

J. Kuipers, *Quaternions and Rotation Sequences*, 1999; angles of Euler as E. Bernardes and S. Viollet (2022) give them.
"""

import math
from types import FunctionType

import numpy as np
from scipy.spatial.transform import Rotation

from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.ops.define import implements_at
from symgrad.ops.scipy.convert import double, untraced
from symgrad.ops.scipy.table import near_zero

PACKAGE = "scipy.spatial.transform"
_COS = [(-1) ** k / (4**k * math.factorial(2 * k)) for k in range(10)]
_SIN = [(-1) ** k / (2 ** (2 * k + 1) * math.factorial(2 * k + 1)) for k in range(10)]
_ARCSIN = [2 * math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(16)]
"""Coefficients, in powers of the square of n, of cos(n / 2), sin(n / 2) / n and 2 arcsin(n) / n."""


def _by_square(square, coefficients, radius, formula):
    """A function of the length n of a vector that is analytic in its square."""
    near, series = near_zero(square, coefficients, radius)
    return np.where(near, series, formula(np.sqrt(np.where(near, 1.0, square))))


def _normalised(q):
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def _composed(p, q):
    """The product of two quaternions: the rotation by q, then that by p."""
    v, w, u, z = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    p, q = np.broadcast_arrays(v, u)
    vector = w * u + z * v + np.cross(p, q)
    return np.concatenate([vector, w * z - np.sum(v * u, -1, keepdims=True)], -1)


class TracedRotation:
    """The stand-in for `scipy.spatial.transform.Rotation` of traced numbers, during a trace."""

    def __init__(self, q):
        self._q = q

    @property
    def single(self):
        return self._q.ndim == 1

    @property
    def shape(self):
        return self._q.shape[:-1]

    def __len__(self):
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(self._q.shape[0])

    def __getitem__(self, key):
        return TracedRotation(self._q[key])

    def __mul__(self, other):
        return TracedRotation(_composed(self._q, _quaternion(other)))

    def __rmul__(self, other):
        return TracedRotation(_composed(_quaternion(other), self._q))

    def inv(self):
        return TracedRotation(self._q * np.array([-1.0, -1.0, -1.0, 1.0]))

    def apply(self, vectors, inverse=False):
        matrix = (self.inv() if inverse else self).as_matrix()
        return np.sum(matrix * double(vectors)[..., None, :], -1)

    def magnitude(self):
        return 2 * np.arctan2(np.linalg.norm(self._q[..., :3], axis=-1), np.abs(self._q[..., 3]))

    def as_quat(self, canonical=False, *, scalar_first=False):
        q = self._upper() if canonical else self._q
        return np.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self):
        x, y, z, w = (self._q[..., i] for i in range(4))
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
        return np.stack([np.stack(row, -1) for row in rows], -2)

    def as_rotvec(self, degrees=False):
        q = self._upper()
        vector, w = q[..., :3], q[..., 3]
        square = np.sum(vector * vector, -1)
        scale = _by_square(square, _ARCSIN, 0.05, lambda n: 2 * np.arctan2(n, w) / n)
        vector = scale[..., None] * vector
        return np.degrees(vector) if degrees else vector

    def as_euler(self, seq, degrees=False, *, suppress_warnings=False):
        extrinsic, axes = _sequence("as_euler", seq, 3)
        i, j, k = axes if extrinsic else axes[::-1]
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = [self._q[..., n] for n in range(4)]
        a, b, c, d = q[3], q[i], q[j], sign * q[k]
        if not symmetric:
            a, b, c, d = a - c, b + d, c + a, d - b
        middle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
        half_sum, half_difference = np.arctan2(b, a), np.arctan2(d, c)
        low, high = middle <= 1e-7, np.abs(middle - math.pi) <= 1e-7  # the first and the last axis are the same
        first, last = half_sum - half_difference, half_sum + half_difference
        if not extrinsic:
            first, last = last, first
        locked = np.where(low, 2 * half_sum, (-2 if extrinsic else 2) * half_difference)
        first, last = np.where(low | high, locked, first), np.where(low | high, 0.0, last)
        if not symmetric:
            first, last = (first, sign * last) if extrinsic else (sign * first, last)
            middle = middle - math.pi / 2
        angles = np.stack([_wrapped(first), middle, _wrapped(last)], -1)
        return np.degrees(angles) if degrees else angles

    def _upper(self):
        """Return the quaternion of a rotation that has ``w >= 0``."""
        return np.where(self._q[..., 3:] < 0, -self._q, self._q)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"{PACKAGE}.Rotation.{name} of a traced rotation is not supported", "Write it with as_matrix()."
        )


def _wrapped(angle):
    return np.where(angle < -math.pi, angle + 2 * math.pi, np.where(angle > math.pi, angle - 2 * math.pi, angle))


def _quaternion(x):
    if isinstance(x, TracedRotation):
        return x.as_quat()
    with untraced():
        return x.as_quat()


def _sequence(function, seq, most):
    """Whether the axes are those of space, and which."""
    axes = ["xyz".find(letter) for letter in seq.lower()]
    if not (seq.isupper() or seq.islower()) or not 1 <= len(seq) <= 3 or -1 in axes or len(seq) < most:
        raise ArgumentError(f"{PACKAGE}.Rotation.{function}: {seq!r} are no axes", "Write such as 'zyx' or 'ZYX'.")
    return seq.islower(), axes


# ---- rotations by numbers


def from_quat(quat, *, scalar_first=False):
    q = _normalised(double(quat))
    return TracedRotation(np.roll(q, -1, axis=-1) if scalar_first else q)


def from_rotvec(rotvec, degrees=False):
    vector = double(rotvec)
    vector = np.radians(vector) if degrees else vector
    square = np.sum(vector * vector, -1, keepdims=True)
    scale = _by_square(square, _SIN, 0.5, lambda n: np.sin(n / 2) / n)
    return TracedRotation(np.concatenate([scale * vector, _by_square(square, _COS, 0.5, lambda n: np.cos(n / 2))], -1))


def from_euler(seq, angles, degrees=False):
    extrinsic, axes = _sequence("from_euler", seq, 1)
    angles = np.radians(double(angles)) if degrees else double(angles)
    angles = angles if angles.ndim else angles[None]
    if int(angles.shape[-1]) != len(axes):
        raise ArgumentError(
            f"{PACKAGE}.Rotation.from_euler: {angles.shape[-1]} angles for the axes {seq!r}", "Give one for each axis."
        )
    result = None
    for i, axis in enumerate(axes):
        half = angles[..., i] / 2
        zero = np.zeros_like(half)
        parts = [np.sin(half) if n == axis else zero for n in range(3)]
        turn = np.stack([*parts, np.cos(half)], -1)
        result = turn if result is None else _composed(turn, result) if extrinsic else _composed(result, turn)
    return TracedRotation(result)


def from_matrix(matrix, *, assume_valid=False):
    raise UnsupportedError(
        f"{PACKAGE}.Rotation.from_matrix of a traced matrix is not supported",
        "Multiply by the matrix itself, or begin with from_rotvec, from_quat or from_euler.",
    )


def apply(self, vectors, inverse=False):
    """Apply a rotation made of constants."""
    return TracedRotation(_quaternion(self)).apply(vectors, inverse)


if isinstance(vars(Rotation).get("apply"), FunctionType):  # SciPy 1.17; before, the class is compiled
    for _function in (from_quat, from_rotvec, from_euler, from_matrix, apply):
        implements_at(Rotation, _function.__name__)(_function)
