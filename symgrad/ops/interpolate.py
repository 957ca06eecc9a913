"""Functions that are given by points or by coefficients."""

import numpy as np

from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, same
from symgrad.errors import ArgumentError, DTypeError, ShapeError
from symgrad.ops.arguments import check_ndim, refuse_given
from symgrad.ops.branch_distances import from_bins
from symgrad.ops.define import implements, operator
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.parts import COMPLEX

# ---- straight lines between points


def _infer_interp(x, xp, fp):
    if xp.ndim != 1 or fp.ndim != 1 or not same_shape(xp.shape, fp.shape):
        raise ShapeError(
            f"np.interp: points of shapes {xp.shape} and {fp.shape}, and they need one and the same size",
            "Give one value fp for each point xp.",
        )
    if same(xp.shape[0], 0):
        raise ShapeError("np.interp: there are no points", "Give at least one point.")
    for values in (x, xp, fp):
        if values.dtype.kind == "c":
            raise DTypeError(f"np.interp at points of {values.dtype}: they have no order", "Write x.real and xp.real.")
    return Aval(x.shape, np.dtype(float))


def _vjp_interp(g, y, x, xp, fp):
    """At a point x moves to the right, at the last one to the left; outside of the points it does not matter."""
    if same(xp.shape[0], 1):
        return None, None, np.reshape(np.sum(g), (1,))
    x, xp, fp = map(_double, (x, xp, fp))
    behind = _first_behind(np.searchsorted(xp, x, side="right"), xp.shape[0])
    low, width = xp[behind - 1], xp[behind] - xp[behind - 1]
    if isinstance(xp.shape[0], Dim):  # which may be 1, and then there is no line
        width = np.where(xp[0] < xp[-1], width, 1)
    inside = (xp[0] <= x) & (x <= xp[-1])
    t = np.where(inside, (x - low) / width, x > xp[-1])
    d_x = np.where(inside, g * ((fp[behind] - fp[behind - 1]) / width), 0)

    def to_points(v):
        shares = np.zeros_like(fp)
        np.add.at(shares, behind - 1, v * (1 - t))
        np.add.at(shares, behind, v * t)
        return shares

    return d_x, -to_points(d_x), to_points(g)


def _double(x):
    """Convert to float64, as NumPy does, so that differences of small integers do not wrap around."""
    return x if x.dtype == np.float64 else np.astype(x, float)


def _first_behind(places, n):
    """The end of the line that x lies on, or that is nearest."""
    return np.clip(places, 1, n - 1)


def _batch_interp(batched, x, xp, fp):
    if batched == (True, False, False):
        return NotImplemented
    x, xp, fp = (_double(v if b else v[None]) for v, b in zip((x, xp, fp), batched, strict=True))
    flat = np.reshape(x, (x.shape[0], -1))
    n = xp.shape[1]
    places = np.count_nonzero(xp[:, None, :] <= flat[:, :, None], axis=2)
    behind = _first_behind(places, n)
    low, high = (np.take_along_axis(xp, i, 1) for i in (behind - 1, behind))
    start, end = (np.take_along_axis(fp, i, 1) for i in (behind - 1, behind))
    y = start + (end - start) / (high - low) * (flat - low)
    y = np.where(flat < xp[:, :1], fp[:, :1], np.where(flat >= xp[:, -1:], fp[:, -1:], y))
    return np.reshape(y, (y.shape[0], *x.shape[1:]))


INTERP = operator(
    np.interp,
    arrays=3,
    infer=_infer_interp,
    branch_distance=lambda x, xp, fp: from_bins(xp, x),
    vjp=_vjp_interp,
    batch=_batch_interp,
    signature=lettered("...,_,_->..."),
    singular=True,  # where points coincide the slope is infinite
)


@implements(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    refuse_given("interp", period=period)
    x, xp, fp = map(as_input, (x, xp, fp))
    parts = (np.real(fp), np.imag(fp)) if np.iscomplexobj(fp) else (fp,)
    y = [INTERP(x, xp, part) for part in parts]
    y = y[0] if len(y) == 1 else COMPLEX(*y)
    y = y if left is None else np.where(x < xp[0], left, y)
    return y if right is None else np.where(x > xp[-1], right, y)


# ---- polynomials


@implements(np.polyval)
def polyval(p, x):
    """Horner's scheme."""
    p, x = (np.asarray(v, like=p if is_traced(p) else x) for v in (p, x))
    check_ndim("np.polyval: p", p, 1, 1, "Write p.ravel().")
    if len(p) == 0:
        return np.zeros_like(x)
    y = p[0]
    for i in range(1, len(p)):
        y = y * x + p[i]
    return y if len(p) > 1 else y + np.zeros_like(x)


def _coefficients(function, *polynomials):
    for p in polynomials:
        check_ndim(f"np.{function}: a polynomial", p, 0, 1, "Write p.ravel().")
    return [np.atleast_1d(as_input(p)) for p in polynomials]


def _aligned(function, p, q):
    """Coefficients of the same powers in the same places: the constant one is the last."""
    p, q = _coefficients(function, p, q)
    n = max(len(p), len(q))
    return [np.pad(c, (n - len(c), 0)) for c in (p, q)]


implements(np.polyadd)(lambda a1, a2: np.add(*_aligned("polyadd", a1, a2)))
implements(np.polysub)(lambda a1, a2: np.subtract(*_aligned("polysub", a1, a2)))
implements(np.polymul)(lambda a1, a2: np.convolve(*map(without_zeros, _coefficients("polymul", a1, a2))))


def without_zeros(p):
    """Drop the first coefficients that are known to be zeros, as NumPy does; what is traced keeps its zeros."""
    values = p.known_value() if is_traced(p) else p
    if values is None:
        return p
    return p[next((i for i, c in enumerate(values) if c != 0), len(values) - 1) :]


@implements(np.polyder)
def polyder(p, m=1):
    (p,) = _coefficients("polyder", p)
    for _ in range(m):
        p = p[:-1] * np.arange(len(p) - 1, 0, -1)
    return p


@implements(np.polyint)
def polyint(p, m=1, k=None):
    (p,) = _coefficients("polyint", p)
    constants = np.ravel(as_input(0.0 if k is None else k))
    if len(constants) not in (1, m):
        raise ArgumentError(f"np.polyint: {len(constants)} constants for {m} integrals", "Give one for each.")
    for i in range(m):
        constant = constants[i if len(constants) > 1 else 0]
        p = np.append(p / np.arange(len(p), 0, -1), constant)
    return p


@implements(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Least squares in the powers of `x`, each scaled to length 1."""
    refuse_given("polyfit", rcond=rcond, full=bool(full), cov=bool(cov))
    x, y = points("polyfit", x, y)
    powers = np.stack([x**i for i in range(deg, -1, -1)], axis=1)
    return fitted(powers, y, w)


def points(function, x, y):
    """Return points and the values there as floating-point numbers."""
    x, y = as_input(x) + 0.0, as_input(y) + 0.0
    if np.ndim(x) != 1 or np.ndim(y) not in (1, 2) or not same_shape(np.shape(x), np.shape(y)[:1]):
        raise ShapeError(
            f"np.{function}: points of shapes {np.shape(x)} and {np.shape(y)}", "Give one value y for each point x."
        )
    return x, y


def fitted(columns, y, w=None):
    """Least squares in the columns of a matrix, each scaled to length 1."""
    if w is not None:
        w = as_input(w) + 0.0
        columns, y = columns * w[:, None], y * (w[:, None] if y.ndim == 2 else w)
    scale = np.sqrt(np.sum(columns * columns, axis=0))
    c = np.linalg.lstsq(columns / scale, y)[0]
    return c / (scale[:, None] if y.ndim == 2 else scale)
