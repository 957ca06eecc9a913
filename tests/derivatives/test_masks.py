"""Derivatives at masked singularities: no NaN or infinity comes through, whatever operators follow the quotient.

Each program divides by zero in rows that `np.where` leaves out. Its derivatives are those of the same program with
another divisor in these rows, which is finite everywhere.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(0)
LIVE = np.array([True, False, True, True, False])
X, V, W = RNG.uniform(0.5, 2, (5, 3)), RNG.uniform(0.5, 2, 3), RNG.uniform(0.5, 2, (3, 4))
ROWS = RNG.uniform(0.5, 2, (5, 3))
SCALE = np.where(LIVE, RNG.uniform(0.5, 2, 5), 0.0)[:, None]
SPD = np.eye(3) * 4


def _spaced(x):
    """Into an array of zeros, at every second place."""
    y = np.zeros_like(x, shape=(x.shape[0], 6))
    y[:, ::2] = x
    return y


def _mixed(u):
    """A matrix a row."""
    return SPD + u[:, :, None] * u[:, None, :]


WITH_VECTOR = {
    "product": lambda u, v: u @ v,
    "vecdot": lambda u, v: np.vecdot(u, v),
    "inner": lambda u, v: np.inner(v, u),
    "outer": lambda u, v: np.outer(u[:, 0], v),
    "cross": lambda u, v: np.cross(u, v),
    "cross from the left": lambda u, v: np.cross(v, u),
    "cross along the first axis": lambda u, v: np.cross(u.T, v[:, None], axis=0).T,
    "sum": lambda u, v: np.sum(u, axis=1) * v[0],
    "mean": lambda u, v: np.mean(u * v, axis=1, keepdims=True),
    "prod": lambda u, v: np.prod(u * v, axis=1),
    "max": lambda u, v: np.max(u * v, axis=1),
    "median": lambda u, v: np.median(u * v, axis=1),
    "var": lambda u, v: np.var(u * v, axis=1),
    "std": lambda u, v: np.std(u * v, axis=1),
    "norm": lambda u, v: np.linalg.norm(u * v, axis=1),
    "norm of what is small": lambda u, v: np.linalg.norm(u, axis=1) / np.linalg.norm(v * u, axis=1),
    "logaddexp": lambda u, v: np.logaddexp.reduce(u * v, axis=1),
    "cumsum": lambda u, v: np.cumsum(u, axis=1) * v,
    "cumprod": lambda u, v: np.cumprod(u * v, axis=1),
    "sort": lambda u, v: np.sort(u * v, axis=1) * v,
    "take_along_axis": lambda u, v: np.take_along_axis(u, np.argsort(v)[None, :], 1) * v,
    "gather": lambda u, v: u[:, [2, 0, 0]] * v,
    "slice": lambda u, v: u[:, 1:] * v[:-1],
    "number": lambda u, v: u[:, 1] * v[1],
    "assignment": lambda u, v: _spaced(u * v),
    "stack": lambda u, v: np.stack([u, np.broadcast_to(v, u.shape)], axis=1),
    "concatenate": lambda u, v: np.concatenate([u, u * v], axis=1),
    "transpose": lambda u, v: (v[:, None] * u.T).T,
    "reshape": lambda u, v: np.reshape(u[:, :, None] * v, (5, 9)),
    "repeat": lambda u, v: np.repeat(u, 2, axis=1) * v[0],
    "tile": lambda u, v: np.tile(u, (1, 2)) * v[0],
    "roll": lambda u, v: np.roll(u, 1, axis=1) * v,
    "pad": lambda u, v: np.pad(u, ((0, 0), (1, 1))) * v[0],
    "diff": lambda u, v: np.diff(u * v, axis=1),
    "trapezoid": lambda u, v: np.trapezoid(u, v, axis=1),
    "windows": lambda u, v: np.lib.stride_tricks.sliding_window_view(u, 2, axis=1) @ v[:2],
    "diagonal": lambda u, v: np.diagonal(_mixed(u), axis1=1, axis2=2) * v,
    "trace": lambda u, v: np.trace(_mixed(u), axis1=1, axis2=2) * v[0],
    "tril": lambda u, v: np.tril(_mixed(u)) @ v,
    "interp": lambda u, v: np.interp(u, np.cumsum(v), v * v),
    "quantile": lambda u, v: np.quantile(u * v, 0.3, axis=1),
    "quadratic form": lambda u, v: np.einsum("ni,nij,j->n", u, _mixed(u), v),
    "inv": lambda u, v: np.linalg.inv(_mixed(u)) @ v,
    "det": lambda u, v: np.linalg.det(_mixed(u)) * v[0],
    "solve": lambda u, v: np.linalg.solve(_mixed(u), v),
    "solve for columns": lambda u, v: np.linalg.solve(SPD + v[:, None] * v, u.T).T,
    "solve for rows": lambda u, v: np.linalg.solve(SPD + v[:, None] * v, u[:, :, None])[..., 0],
    "a choice between": lambda u, v: np.where(u > 0, u, 0) @ v,
    "the largest": lambda u, v: np.maximum(u @ v, 0),
}
WITH_MATRIX = {
    "product": lambda u, w: u @ w,
    "product of transposes": lambda u, w: (w.T @ u.T).T,
    "products in a row": lambda u, w: np.tanh(u @ w) @ w.T,
    "einsum": lambda u, w: np.einsum("ij,jk->ki", u, w).T,
    "einsum of three": lambda u, w: np.einsum("ni,nj,jk->nik", u, u, w),
    "tensordot": lambda u, w: np.tensordot(u, w, axes=(1, 0)),
    "tensordot of rank three": lambda u, w: np.tensordot(_mixed(u), w, axes=(2, 0)),
    "stack of products": lambda u, w: _mixed(u) @ w,
    "stack of products from the left": lambda u, w: w.T @ _mixed(u),
    "kron": lambda u, w: np.kron(u, w[:1]),
    "distances": lambda u, w: np.sum((u[:, None, :] - w.T) ** 2, axis=2),
    "nearest": lambda u, w: np.min(np.sum((u[:, None, :] - w.T) ** 2, axis=2), axis=1),
    "softmax": lambda u, w: np.exp(u @ w) / np.sum(np.exp(u @ w), axis=1, keepdims=True) @ w.T,
}
PROGRAMS = [
    *[pytest.param(f, V, id=f"{name}, vector") for name, f in WITH_VECTOR.items()],
    *[pytest.param(f, W, id=f"{name}, matrix") for name, f in WITH_MATRIX.items()],
    pytest.param(np.cross, ROWS, id="cross, rows"),
    pytest.param(np.vecdot, ROWS, id="vecdot, rows"),
]


def losses(f):
    """The program that divides by zero, and the one that does not: equal, and equal in all derivatives."""

    def loss(x, scale, w, divisor):
        y = f(x / divisor, w)
        live = np.reshape(scale != 0, (5, *(1,) * (y.ndim - 1)))
        return np.sum(np.where(live, y, 0) ** 2)

    def safe(x, scale, w):
        return loss(x, scale, w, np.where(scale != 0, scale, 1.0))

    return (lambda x, scale, w: loss(x, scale, w, scale)), safe


@pytest.mark.parametrize(("f", "w"), PROGRAMS)
def test_no_nan_comes_through(f, w):
    loss, safe = losses(f)
    with np.errstate(all="ignore"):
        expected = sg.grad(safe, argnums=(0, 1, 2), optimize=0)(X, SCALE, w)
        for optimize in (0, 2):
            found = sg.grad(loss, argnums=(0, 1, 2), optimize=optimize)(X, SCALE, w)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("f", "w"), PROGRAMS)
def test_no_nan_comes_through_at_the_second_order(f, w):
    """In a product with the Hessian, which is forward over reverse."""
    loss, safe = losses(f)
    directions = tuple(np.random.default_rng(1).normal(size=x.shape) for x in (X, SCALE, w))
    with np.errstate(all="ignore"):
        expected = sg.hvp(safe, argnums=(0, 1, 2), optimize=0)(X, SCALE, w, directions)
        found = sg.hvp(loss, argnums=(0, 1, 2))(X, SCALE, w, directions)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


# ---- programs as people write them


def agree(found, expected, rtol=1e-9):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11)


def skew(axis):
    zero = np.zeros_like(axis[:, 0])
    x, y, z = axis[:, 0], axis[:, 1], axis[:, 2]
    return np.stack([np.stack([zero, -z, y], 1), np.stack([z, zero, -x], 1), np.stack([-y, x, zero], 1)], 1)


def rodrigues(r, points, write):
    """Points rotated about `r` by its length, of which the first row is zero."""
    square = np.sum(r**2, axis=1, keepdims=True)
    angle = np.sqrt(square)
    return write(r / angle, angle, square > 0, r, points)


def _with_crosses(axis, angle, turned, r, points):
    along = np.sum(axis * points, axis=1, keepdims=True) * (1 - np.cos(angle))
    rotated = np.cos(angle) * points + np.sin(angle) * np.cross(axis, points) + axis * along
    return np.where(turned, rotated, points + np.cross(r, points))


def _with_matrices(axis, angle, turned, r, points):
    k, eye = skew(axis), np.eye(3)
    matrix = eye + np.sin(angle)[..., None] * k + (1 - np.cos(angle))[..., None] * (k @ k)
    matrix = np.where(turned[..., None], matrix, eye + skew(r))
    return np.einsum("nij,nj->ni", matrix, points)


@pytest.mark.parametrize("write", [_with_crosses, _with_matrices])
def test_the_rotation_of_a_camera_that_is_not_rotated(write):
    """At r = 0 the derivative of the rotated point is that of the cross product."""
    r, points, weights = np.array([[0.0, 0, 0], [0.3, -0.2, 0.1]]), ROWS[:2], X[:2]

    def loss(r, points):
        return np.sum(weights * rodrigues(r, points, write))

    with np.errstate(all="ignore"):
        for optimize in (0, 1, 2):
            d_r, d_points = sg.grad(loss, argnums=(0, 1), optimize=optimize)(r, points)
            np.testing.assert_allclose(d_r[0], np.cross(points[0], weights[0]), rtol=1e-12)
            np.testing.assert_allclose(d_points[0], weights[0], rtol=1e-12)
            moved = np.array([[0, 0, 0], [1e-6, 2e-6, -1e-6]])
            slope = (loss(r + moved, points) - loss(r - moved, points)) / 2
            np.testing.assert_allclose(np.sum(d_r * moved), slope, rtol=1e-6)
        second = sg.hessian(lambda r: loss(r, points))(r)
        assert np.isfinite(second).all()


def attention(q, k, v, real):
    """Attention with padded rows: their scores are -inf, and a row without any key is left out."""
    scores = np.where(real[None, :], q @ k.T, -np.inf)
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True) @ v


def test_attention_with_padding():
    q, k, v = (RNG.normal(size=(5, 3)) for _ in range(3))

    def loss(q, k, v, real):
        return np.sum(np.where(real[:, None], attention(q, k, v, real), 0) ** 2)

    with np.errstate(all="ignore"):
        for optimize in (0, 2):
            found = sg.grad(loss, argnums=(0, 1, 2), optimize=optimize)(q, k, v, LIVE)
            few = [x[LIVE] for x in (q, k, v)]
            expected = sg.grad(lambda *args: np.sum(attention(*args, np.full(3, True)) ** 2), argnums=(0, 1, 2))(*few)
            agree([g[LIVE] for g in found], expected)
            assert all((g[~LIVE] == 0).all() for g in found)
            nobody = np.full(5, False)
            assert all((g == 0).all() for g in sg.grad(loss, argnums=(0, 1, 2), optimize=optimize)(q, k, v, nobody))


def test_rows_without_a_key():
    """Each row has its own keys; where there are none the softmax is NaN, and something else is taken."""
    q, k, v = (RNG.normal(size=(5, 3)) for _ in range(3))
    pairs = RNG.uniform(size=(5, 5)) < 0.5
    pairs[1] = False

    def loss(q, k, v):
        scores = np.where(pairs, q @ k.T, -np.inf)
        weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        weights = weights / np.sum(weights, axis=1, keepdims=True)
        return np.sum(np.where(np.any(pairs, axis=1, keepdims=True), weights @ v, q) ** 2)

    def by_rows(q, k, v):
        total = 0.0
        for i in range(5):
            y = attention(q[i : i + 1], k[pairs[i]], v[pairs[i]], np.full(pairs[i].sum(), True)) if i != 1 else q[1]
            total = total + np.sum(y**2)
        return total

    with np.errstate(all="ignore"):
        agree(sg.grad(loss, argnums=(0, 1, 2))(q, k, v), sg.grad(by_rows, argnums=(0, 1, 2))(q, k, v))


def test_a_condition_for_everything():
    def f(x, t):
        return np.where(t > 0, np.linalg.norm(np.cumsum(x / t)), t)

    with np.errstate(all="ignore"):
        for optimize in (0, 2):
            d_x, d_t = sg.grad(f, argnums=(0, 1), optimize=optimize)(V, np.array(0.0))
            assert (d_x == 0).all() and d_t == 1


def test_a_result_that_does_not_count_makes_no_nan_in_a_filter():
    """A filter reads its signal at several places, and some of what it gives is left out."""
    x, w, scale = RNG.normal(size=7), RNG.normal(size=3), np.array([0.0, 1, 2, 1, 1, 2, 1])

    def loss(x, w, divisor):
        y = np.convolve(x / divisor, w)
        return np.sum(np.where(np.arange(9) > 2, y, 0) ** 2)

    with np.errstate(all="ignore"):
        for optimize in (0, 2):
            found = sg.grad(loss, argnums=(0, 1), optimize=optimize)(x, w, scale)
            agree(found, sg.grad(loss, argnums=(0, 1))(x, w, np.maximum(scale, 0.5)))


def test_a_guard_costs_nothing_where_nothing_is_singular():
    def loss(x, w):
        return np.sum(np.where(x[:, :1] > 0, np.cross(np.tanh(x @ w[:, :3]), x), 0))

    source = sg.grad(loss, argnums=(0, 1)).source(X, W, optimize=1)
    assert sum("np.where" in line for line in source.split("\n") if not line.strip().startswith("#")) == 1  # the mask


# ---- numbers that are left out without a mask


def distances(x):
    """Between all points; on the diagonal the slope of the root is infinite."""
    return np.sqrt(np.sum((x[:, None] - x) ** 2, axis=2))


def _filled(d):
    np.fill_diagonal(d, np.inf)
    return np.sum(1 / d) / 2


def _assigned(d, key):
    d[key] = np.inf
    return np.sum(1 / d) / 2


LEFT_OUT = {
    "fill_diagonal": _filled,
    "the upper triangle": lambda d: np.sum(np.triu(1 / d, 1)),
    "the lower triangle": lambda d: np.sum(np.tril(1 / d, -1)),
    "indices of a triangle": lambda d: np.sum(1 / d[np.triu_indices(5, 1)]),
    "indices of its own triangle": lambda d: np.sum(1 / d[np.tril_indices_from(d, -1)]),
    "a constant mask": lambda d: np.sum(1 / d[~np.eye(5, dtype=bool)]) / 2,
    "assignment by indices": lambda d: _assigned(d, (np.arange(5), np.arange(5))),
    "assignment by a constant mask": lambda d: _assigned(d, np.eye(5) > 0),
    "assignment by a traced mask": lambda d: _assigned(d, d == 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("energy", LEFT_OUT.values(), ids=LEFT_OUT)
def test_no_nan_comes_from_what_is_left_out(energy):
    def by_pairs(x):
        return sum(1 / np.sqrt(np.sum((x[i] - x[j]) ** 2)) for i in range(5) for j in range(i))

    expected, second = sg.grad(by_pairs)(X), sg.hessian(by_pairs)(X)
    with np.errstate(all="ignore"):
        for optimize in (0, 1, 2):
            agree([sg.grad(lambda x: energy(distances(x)), optimize=optimize)(X)], [expected])
        agree([sg.hessian(lambda x: energy(distances(x)))(X)], [second])


# ---- both sides of a condition

POINTS = np.array([-3.0, -1.0, -0.25, 0.0, 0.5, 1.0, 4.0])


def _within(x):
    """Nested, with slopes that are infinite or NaN on the side that is not taken."""
    return np.where(x > 0, np.where(x > 1, np.log(x), 2 * np.sqrt(x)), np.where(x < -1, x / (1 + x), x * x))


def _within_slope(x):
    x = np.where((x == 0) | (x == -1), 9.0, x)
    inner = np.where(x > 1, 1 / x, 1 / np.sqrt(np.abs(x)))
    return np.where(x == 9.0, 2 * POINTS, np.where(x > 0, inner, np.where(x < -1, 1 / (1 + x) ** 2, 2 * x)))


def _across(t, x, otherwise=lambda t: 1 - t):
    """One value under conditions that the two sides of another condition have."""
    return np.where(x > 0, np.where(x > 1, t, otherwise(t)), np.where(x < -1, t, otherwise(t)))


def _out(x):
    return (x > 1) | (x < -1)


def _signs(x):
    return np.where(_out(x), np.sign(x), -np.sign(x))


PIECES = {
    "leaky": (lambda x: np.where(x > 0, x, 0.1 * x), lambda x: np.where(x > 0, 1, 0.1)),
    "several uses": (
        lambda x: np.where(x > 0, x * np.exp(x), x * x * x), lambda x: np.where(x > 0, (1 + x) * np.exp(x), 3 * x * x),
    ),
    "select": (
        lambda x: np.select([x < -2, x < 0, x < 2], [-x, x * x, np.sqrt(np.abs(x) + 1)], 3.0 * x),
        lambda x: np.select([x < -2, x < 0, x < 2], [-1.0, 2 * x, np.sign(x) / (2 * np.sqrt(np.abs(x) + 1))], 3.0),
    ),
    "inverse": (lambda x: np.where(~(x > 0), x / (x - 5), x / 3), lambda x: np.where(x > 0, 1 / 3, -5 / (x - 5) ** 2)),
    "and outside": (lambda x: 2 * x + np.where(x > 0, x, 3 * x), lambda x: np.where(x > 0, 3, 5)),
    "within": (_within, _within_slope),
    "across": (lambda x: _across(np.sqrt(np.abs(x) + 1), x), lambda x: _signs(x) / (2 * np.sqrt(np.abs(x) + 1))),
    "across, with infinities": (
        lambda x: _across(np.exp(1 / x), x, lambda t: 0), lambda x: np.where(_out(x), -np.exp(1 / x) / x**2, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("name", PIECES)
def test_the_sides_of_a_condition_are_a_choice(name, optimize):
    f, slope = PIECES[name]
    with np.errstate(all="ignore"):
        found = sg.elementwise_grad(f, optimize=optimize)(POINTS)
        np.testing.assert_allclose(found, slope(POINTS), rtol=1e-13)


def test_a_choice_between_sides_leaves_no_mask_behind():
    """Values before the choice may be infinite: a mask would be carried along to guard that."""

    def loss(x, w):
        h = np.exp(x) @ w
        return np.sum(np.where(h > 0, h, 0.1 * h) ** 2)

    source = sg.grad(loss, argnums=(0, 1)).source(X, W, optimize=1)
    assert "np.any" not in source
    assert source.count("= np.where") == 2  # of the value, and of the slope
    guarded = sg.grad(lambda x, w: np.sum(np.where(x @ w > 0, np.exp(x) @ w, 0)), argnums=(0, 1))
    assert "np.any" in guarded.source(X, W, optimize=1)


def test_a_choice_across_conditions_leaves_no_mask_behind():
    source = sg.grad(lambda x: np.sum(np.exp(_across(np.exp(x), x)))).source(POINTS, optimize=1)
    assert "|" not in source
    assert "0.0)" not in source
    assert source.count("d_x = np.where(np.where(") == 1


def test_what_flows_alike_on_both_sides_is_no_choice():
    source = sg.grad(lambda x: np.sum(np.where(x > 0, x + 1, x - 1))).source(POINTS, optimize=0)
    assert "np.where" not in source


def test_where_one_side_is_left_out_nothing_flows():
    def f(x, t):
        inner = np.where(x > 0, np.sqrt(x), 1 / x)
        return np.sum(np.where(t > 0, inner, 0))

    x, t = np.array([4.0, -2.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0, -1.0])
    with np.errstate(all="ignore"):
        for optimize in (0, 1, 2):
            assert np.array_equal(sg.grad(f, optimize=optimize)(x, t), [0.25, -0.25, 0, 0])


@pytest.mark.parametrize("optimize", [0, 2])
def test_a_condition_within_its_opposite(optimize):
    def f(x):
        above = x > 1
        inner = np.where(above, np.sin(x), np.cos(x))
        return np.sum(np.where(above, np.exp(x), 1 - inner))

    x = np.array([0.5, 1.5])
    np.testing.assert_allclose(sg.grad(f, optimize=optimize)(x), np.where(x > 1, np.exp(x), np.sin(x)))


@pytest.mark.slow
def test_hundreds_of_conditions():
    edges = np.linspace(-2, 2, 300)

    def f(x):
        return np.sum(np.select([x < edge for edge in edges], [edge * x for edge in edges], x * x))

    source = sg.grad(f).source("float64[7]", optimize=1)
    assert not [line for line in source.split("\n") if "&" in line or "|" in line]
    np.testing.assert_allclose(
        sg.grad(f, optimize=1)(POINTS),
        [*(edges[POINTS[i] < edges][0] for i in range(5)), *(edges[POINTS[5] < edges][:1]), 8],
    )


# ---- what surely is finite needs no guard


def normalised(x, eps):
    return (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + eps)


def rectified(x, w, eps=1e-5):
    h = np.maximum(normalised(x @ w, eps), 0)
    return np.sum(np.maximum(normalised(h @ w.T, eps) - 0.1, 0) ** 2)


FINITE = {
    "normalised": rectified,
    "a root of a sum of squares": lambda x, w: np.sum(np.maximum(x / np.sqrt(1 + np.sum((x @ w) ** 2)), 0)),
    "a quotient": lambda x, w: np.sum(np.maximum(x / (2 + np.tanh(x)), 1)),
    "a logarithm": lambda x, w: np.sum(np.maximum(np.log(np.abs(x @ w) + 0.1), 0)),
    "log1p": lambda x, w: np.sum(np.maximum(np.log1p((x @ w) ** 2), 1) @ w.T),
    "an exponential": lambda x, w: np.sum(np.maximum(np.exp(-np.abs(x)) @ w, 1)),
}
HAZARDS = {
    "normalised by what may be zero": lambda x, w: rectified(x, w, 0.0),
    "a quotient": lambda x, w: np.sum(np.where(x > 0, (x / np.tanh(x)) @ (w @ w.T), 0)),
    "a root": lambda x, w: np.sum(np.where(x[:, :1] > 0, np.sqrt(x * x) @ w, 0)),
    "a logarithm": lambda x, w: np.sum(np.where(x[:, :1] > 0, np.log(np.abs(x)) @ w, 0)),
    "an exponential": lambda x, w: np.sum(np.where(x[:, :1] > 0, np.exp(x) @ w, 0)),
}


def guards(f):
    source = sg.grad(f, argnums=(0, 1), numerics="ieee").source("float64[n, 3]", "float64[3, 4]", optimize=1)
    return [line for line in source.split("\n") if "np.any" in line and line.strip()[0] != "#"]


@pytest.mark.parametrize("name", FINITE)
def test_what_surely_is_finite_is_not_guarded(name):
    f = FINITE[name]
    assert not guards(f)
    x = np.concatenate([X, -X, np.full((1, 3), 0.25)])
    for a, b in zip(sg.grad(f, argnums=(0, 1))(x, W), sg.grad(f, argnums=(0, 1), optimize=0)(x, W), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    sg.check_grads(f, (X + 0.01, W), order=1, modes=("rev",))


@pytest.mark.parametrize("name", HAZARDS)
def test_what_may_be_infinite_is_guarded(name):
    assert guards(HAZARDS[name])


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_nothing_flows_to_terms_that_are_both_zero(optimize):
    """The derivative of log(0 + 0) is nothing; unreached states of a recursion are such."""

    def f(x):
        a = np.full(3, -np.inf)
        a[0] = x[0]
        for t in range(2):
            a = np.logaddexp(a, np.concatenate([[-np.inf], a[:-1]])) + x[t + 1]
        return a[-1] + np.logaddexp(a[0], 1.0)

    x = np.array([0.3, 0.2, 0.5])
    with np.errstate(invalid="ignore"):
        gradient = sg.grad(f, optimize=optimize)(x)
    share = 1 / (1 + np.exp(1.0 - x.sum()))
    np.testing.assert_allclose(gradient, 1 + share, rtol=1e-12)


def test_what_is_infinite_is_left_out_where_it_ends():
    """Each factor may be infinite: a mask at each would be as many passes, and the next factor asked for another."""

    def f(x):
        t = 1 / x
        return np.sum(np.where(x > 0, t * (1 + t * (2 + t * (3 + t * np.sin(t)))), 0))

    x = np.array([0.0, 2.0, -1.0, 0.5])
    with np.errstate(all="ignore"):
        for level in (0, 1, 2):
            gradient = sg.grad(f).compile(x, optimize=level)
            np.testing.assert_array_equal(gradient(x)[[0, 2]], 0)
            np.testing.assert_allclose(gradient(x)[[1, 3]], slope(x[[1, 3]]), rtol=1e-12)
    graph = sg.grad(f).compile(x, optimize=1).graph
    assert sum(node.op.name == "where" for node in graph.nodes) == 1


def slope(x):
    t = 1 / x
    by_t = 1 + 4 * t + 9 * t**2 + 4 * t**3 * np.sin(t) + t**4 * np.cos(t)
    return -by_t * t * t


# ---- second derivatives of functions that are smooth where one of their operations has a kink or is left out


def constant_at_zero(x):
    return 1.0 if x == 0 else np.sin(x) / x


def series_near_zero(x):
    return 1 - x * x / 6 if abs(x) < 1e-3 else np.sin(x) / x


SMOOTH = [
    (lambda x: np.hypot(x, x) ** 2, 0), (lambda x: np.linalg.norm(np.stack([x, x])) ** 2, 0),
    (lambda x: np.where(x == 0, 1, np.sin(x) / x), 0), (constant_at_zero, 0),
    (lambda x: x**2 + x**2, 4), (lambda x: np.stack([x, x]) @ np.stack([x, x]), 4),
    (lambda x: np.sinc(x / np.pi), -1 / 3), (series_near_zero, -1 / 3),
]  # fmt: skip


@pytest.mark.parametrize(("f", "second"), SMOOTH)
@pytest.mark.parametrize("level", [0, 2])
def test_second_derivatives_at_special_points_are_those_that_the_page_on_stability_says(f, second, level):
    with np.errstate(all="ignore"):
        found = sg.grad(sg.grad(f), optimize=level, check_first=False)(0.0)
    assert found == pytest.approx(second, abs=1e-14)


# ---- numbers that a program expects to be missing


GAPS = np.array([1.0, np.nan, 3.0, -0.5, np.nan])
HOLES = np.where(LIVE[:, None] | (ROWS > 1), ROWS, np.nan)

MISSING = {
    "isnan": lambda w, y, x: np.sum(np.where(np.isnan(y), 0.0, (y - x @ w) ** 2)),
    "isfinite": lambda w, y, x: np.sum(np.where(np.isfinite(y), (y - x @ w) ** 2 * np.exp(w[0]) * w[1], 0.0)),
    "not equal to itself": lambda w, y, x: np.sum(np.where(y == y, (y - x @ w) ** 2, 0.0)),
    "chosen": lambda w, y, x: np.sum(((y - x @ w) ** 2)[~np.isnan(y)]),
    "where": lambda w, y, x: np.sum((y - x @ w) ** 2, where=~np.isnan(y)),
    "nansum": lambda w, y, x: np.nansum((y - x @ w) ** 2),
    "nanmean": lambda w, y, x: np.nanmean((y - x @ w) * y * w[0]),
    "nan_to_num": lambda w, y, x: np.sum(np.nan_to_num((y - x @ w) ** 2)),
    "nanmax": lambda w, y, x: np.nanmax(y * (x @ w)) + np.nanmedian(y * w[0]),
    "fmax": lambda w, y, x: np.sum(np.fmax(y * (x @ w), 0.5)[:1]) + np.fmax.reduce(y * w[1]),
    "a branch": lambda w, y, x: sum((v - row @ w) ** 2 for v, row in zip(y, x, strict=True) if not np.isnan(v)),
}


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # of a block of rows in which all are missing
@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_left_out_of_the_derivative(name, optimize):
    """A NaN times zero is a NaN."""
    there = ~np.isnan(GAPS)
    with np.errstate(invalid="ignore"):
        found = sg.grad(MISSING[name], optimize=optimize)(V, GAPS, X)
        second = sg.hessian(MISSING[name], optimize=optimize)(V, GAPS, X)
    np.testing.assert_allclose(found, sg.grad(MISSING[name], optimize=0)(V, GAPS[there], X[there]), rtol=1e-12)
    assert np.isfinite(second).all()


@pytest.mark.parametrize("optimize", [0, 2])
def test_missing_entries_of_a_matrix(optimize):
    def loss(w, x):
        return np.sum(np.where(np.isnan(x), 0, x * x * w * w))

    slope, by_x = sg.grad(loss, argnums=(0, 1), optimize=optimize)(V, HOLES)
    np.testing.assert_allclose(slope, 2 * V * np.nansum(HOLES**2, axis=0))
    np.testing.assert_allclose(by_x, np.where(np.isnan(HOLES), 0, 2 * HOLES * V * V))


def test_infinities_that_are_left_out():
    def squares(x):
        return np.sum(np.where(np.isinf(x), 0.0, x * x + x**3))

    x = np.array([np.inf, 3.0, -np.inf])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(sg.grad(squares)(x), [0, 33, 0])
        np.testing.assert_array_equal(sg.hessian(squares)(x), np.diag([0.0, 20, 0]))


def test_programs_that_do_not_ask_have_no_masks_more():
    program = sg.grad(lambda w, y: np.sum(np.where(y > 0, (y - w) ** 2, 0.0))).compile(
        "float64[]", "float64[n]", optimize=0
    )
    assert sum(node.op.name == "where" for node in program.graph.nodes) == 1


def test_the_mask_of_a_number_is_one_call():
    def f(scale, x):
        y = np.zeros_like(x)
        y[x > 0] = np.exp(scale[-1]) ** x[x > 0]
        return np.sum(y)

    source = str(sg.grad(f).source("float64[2]", "float64[5]"))
    assert "keepdims" not in source
    assert "any()" in source
