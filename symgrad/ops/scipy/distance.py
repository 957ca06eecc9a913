"""scipy.spatial.distance: distances of all pairs of points, and the vector and the matrix of distances.

Where two points are the same the derivative of a distance is zero, as that of a norm is.
"""

import numpy as np
from scipy.spatial import distance

from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import check_ndim
from symgrad.ops.define import implements_at
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.scipy.convert import double

PACKAGE = "scipy.spatial.distance"


def _ratio(x, y):
    """x / y, zero where both are."""
    return np.where(y == 0, 0.0, x / np.where(y == 0, 1.0, y))


def _root(square):
    """A square root whose slope at zero is taken as zero."""
    apart = square > 0
    return np.where(apart, np.sqrt(np.where(apart, square, 1.0)), 0.0)


def _weighted(x, w):
    return x if w is None else x * w


def _minkowski(u, v, p=2.0, w=None):
    """Powers of the distances over the largest one: the root of a power has an infinite slope at zero."""
    apart = np.abs(u - v)
    if not is_traced(p) and p in (1, 2):
        return np.sum(_weighted(apart, w), -1) if p == 1 else _euclidean(u, v, w)
    powers = np.sum(_weighted(np.where(apart > 0, np.where(apart > 0, apart, 1.0) ** p, 0.0), w), -1)
    return np.where(powers > 0, np.where(powers > 0, powers, 1.0) ** (1 / p), 0.0)


def _euclidean(u, v, w=None):
    apart = u - v
    return np.linalg.norm(apart if w is None else apart * np.sqrt(w), axis=-1)


def _chebyshev(u, v, w=None):
    apart = np.abs(u - v)
    return np.max(apart if w is None else np.where(w > 0, apart, 0.0), -1)


def _cosine(u, v, w=None):
    lengths = np.sum(_weighted(u * u, w), -1) * np.sum(_weighted(v * v, w), -1)
    return 1 - np.sum(_weighted(u * v, w), -1) / np.sqrt(lengths)


def _correlation(u, v, w=None):
    def centred(x):
        return x - np.average(x, -1, w)[..., None] if w is not None else x - np.mean(x, -1, keepdims=True)

    return _cosine(centred(u), centred(v), w)


def _jensenshannon(u, v):
    u, v = (x / np.sum(x, -1, keepdims=True) for x in (u, v))
    m = (u + v) / 2

    def entropy(p):
        some = p > 0
        return np.sum(np.where(some, p * np.log(np.where(some, p / np.where(some, m, 1.0), 1.0)), 0.0), -1)

    return _root((entropy(u) + entropy(v)) / 2)


def _hamming(u, v, w=None):
    different = np.astype(u != v, float)
    return np.mean(different, -1) if w is None else np.average(different, -1, w)


def _mahalanobis(u, v, VI):
    apart = u - v
    return _root(np.sum(apart @ VI * apart, -1))


_METRICS = {
    "euclidean": _euclidean,
    "sqeuclidean": lambda u, v, w=None: np.sum(_weighted(np.square(u - v), w), -1),
    "cityblock": lambda u, v, w=None: np.sum(_weighted(np.abs(u - v), w), -1),
    "chebyshev": _chebyshev,
    "minkowski": _minkowski,
    "canberra": lambda u, v, w=None: np.sum(_weighted(_ratio(np.abs(u - v), np.abs(u) + np.abs(v)), w), -1),
    "braycurtis": lambda u, v, w=None: (
        np.sum(_weighted(np.abs(u - v), w), -1) / np.sum(_weighted(np.abs(u + v), w), -1)
    ),
    "cosine": _cosine,
    "correlation": _correlation,
    "seuclidean": lambda u, v, V: _root(np.sum(np.square(u - v) / V, -1)),
    "mahalanobis": _mahalanobis,
    "jensenshannon": _jensenshannon,
    "hamming": _hamming,
}
_OTHER_NAMES = {
    name: known
    for known, names in {
        "euclidean": ("euclid", "eu", "e"), "sqeuclidean": ("sqe", "sqeuclid"), "minkowski": ("mi", "m", "pnorm"),
        "cityblock": ("cblock", "cb", "c"), "chebyshev": ("chebychev", "cheby", "cheb", "ch"), "cosine": ("cos",),
        "correlation": ("co",), "seuclidean": ("se", "s"), "mahalanobis": ("mahal", "mah"), "jensenshannon": ("js",),
        "hamming": ("matching",),
    }.items()
    for name in names
}  # fmt: skip


def _metric(function, metric, kwargs, points):
    """The distances of arrays of points by a metric, with what it needs of all points."""
    name = metric.__name__ if getattr(distance, getattr(metric, "__name__", ""), None) is metric else metric
    name = _OTHER_NAMES.get(name, name) if isinstance(name, str) else ""
    if name not in _METRICS:
        raise UnsupportedError(
            f"{PACKAGE}.{function}: metric={metric!r} is not supported",
            f"Give one of {', '.join(_METRICS)}, or write it with NumPy on x[:, None] and y.",
        )
    given = {key: as_input(x) for key, x in kwargs.items() if x is not None}
    if name == "seuclidean" and "V" not in given:
        given["V"] = np.var(points(), axis=0, ddof=1)
    if name == "mahalanobis" and "VI" not in given:
        given["VI"] = np.linalg.inv(np.cov(points().T)).T
    return lambda u, v: _METRICS[name](u, v, **given)


def _points(function, x):
    check_ndim(f"{PACKAGE}.{function}", x, 2, 2, "Give a row for each point: x[:, None].")
    return double(x)


@implements_at(distance, "cdist")
def cdist(XA, XB, metric="euclidean", *, out=None, **kwargs):
    a, b = _points("cdist", XA), _points("cdist", XB)
    measured = _metric("cdist", metric, kwargs, lambda: np.concatenate([a, b]))
    return measured(a[:, None], b)


@implements_at(distance, "pdist")
def pdist(X, metric="euclidean", *, out=None, **kwargs):
    x = _points("pdist", X)
    measured = _metric("pdist", metric, kwargs, lambda: x)
    first, second = np.triu_indices(x.shape[0], 1)
    return measured(np.take(x, first, axis=0), np.take(x, second, axis=0))


@implements_at(distance, "squareform")
def squareform(X, force="no", checks=True):
    x = as_input(X)
    if x.ndim == 2:
        first, second = np.triu_indices(x.shape[0], 1)
        return x[first, second]
    check_ndim(f"{PACKAGE}.squareform", x, 1, 1, "Give the distances of pdist, or their matrix.")
    count = int(x.shape[0])
    n = (1 + round((1 + 8 * count) ** 0.5)) // 2
    if n * (n - 1) // 2 != count:
        raise ShapeError(
            f"{PACKAGE}.squareform of {count} numbers: n points have n (n - 1) / 2 distances", "Give those of pdist."
        )
    places = np.zeros((n, n), int)
    places[np.triu_indices(n, 1)] = np.arange(1, count + 1)
    return np.take(np.append(np.zeros(1), x), places + places.T)


# ---- of two points


def _of_two(name, metric):
    @implements_at(distance, name)
    def measured(u, v, *args, **kwargs):
        return metric(double(u), double(v), *args, **{key: x for key, x in kwargs.items() if x is not None})


for _name in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "canberra", "braycurtis", "cosine"):
    _of_two(_name, _METRICS[_name])
for _name in ("correlation", "hamming"):
    _of_two(_name, _METRICS[_name])
_of_two("seuclidean", _METRICS["seuclidean"])
_of_two("mahalanobis", _mahalanobis)
