"""Masks that are traced: their selections, reduced, and their places as indices."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError

X = np.array([0.5, -1.0, 2.0, 3.0, -0.2])
ROWS = np.arange(12.0).reshape(4, 3) - 5.3


def check(f, x):
    wanted, difference = f(x.copy()), np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = 1e-6
        difference[place] = np.sum(f(x + step) - f(x - step)) / 2e-6
    for level in (0, 1, 2):
        np.testing.assert_allclose(sg.compile(f, optimize=level)(x), wanted, rtol=1e-12)
        gradient = sg.grad(lambda x: np.sum(f(x)), optimize=level)(x)
        np.testing.assert_allclose(gradient, difference, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min"])
def test_reductions(name):
    check(lambda x: getattr(np, name)(x[x > 0] ** 2), X)
    check(lambda x: getattr(x[x > 0] * 2, name)(), X)
    check(lambda x: getattr(np, name)(x[x > 0], axis=0) + getattr(np, name)(x[x < 0], axis=-1), X)
    check(lambda x: getattr(np, name)(x[x > 0]), ROWS)
    check(lambda x: getattr(np, name)(x[x[:, 0] > 0] ** 2, axis=0), ROWS[::-1].copy())
    check(lambda x: getattr(np, name)(x[:, x[0] > -5], axis=1), ROWS)


def test_degrees_of_freedom_and_medians():
    check(lambda x: np.std(x[x > 0], ddof=1) + x[x > 0].var(ddof=2), X)
    check(lambda x: np.var(x[x[:, 0] > 0] ** 2, axis=0, ddof=1), ROWS[::-1].copy())
    check(lambda x: np.median(x[x > 0]) * np.median(np.abs(x[x > -0.5])), X)
    check(lambda x: np.median(x[x > 0] ** 2), ROWS)


def test_a_result_that_a_mask_selects_is_refused_in_its_line():
    def f(x):
        y = 2 * x
        return y[y > 0]

    line = f.__code__.co_firstlineno + 2
    for transform in (sg.compile, sg.grad, sg.jacobian):
        with pytest.raises(sg.errors.SymgradError) as error:
            transform(f)(X)
        assert error.value.where.line == line


def test_a_traced_number_stands_before_what_a_mask_selects():
    check(lambda x: np.sum(x[1] * x[x > 0] - x[0] / x[x > 0] + x[2] ** x[x > 0]), X)
    check(lambda x: np.sum(x[2] * np.exp(x[1:][x[1:] > 0])), X)
    check(lambda x: np.sum(x[0] < x[x > 0]) * x[3], X)


def of_rows(f):
    """Return a function of the rows with a positive number first."""
    return lambda x: f(x, x[:, 0] > 0)


@pytest.mark.parametrize(
    "f",
    [
        of_rows(lambda x, m: x[m] / np.sum(x**2, axis=1)[m][:, None]),
        of_rows(lambda x, m: x[m][:, 0] * x[m][..., 1:].sum(axis=1)),
        of_rows(
            lambda x, m: np.linalg.norm(x[m], axis=-1, keepdims=True) * x[m][:, ::2] + np.max(x[m], 1, keepdims=True)
        ),
        of_rows(lambda x, m: np.std(x[m], axis=1, ddof=1) * np.any(x[m] > 4, axis=1) + x[m].mean(1)),
        of_rows(lambda x, m: x[m][None] * x[:, 1][m][None, :, None]),
        of_rows(lambda x, m: np.sum(x.T[:, m], axis=0) ** 2 * x.T[:, m][2]),
    ],
)
def test_numbers_of_rows_that_a_mask_selects(f):
    check(lambda x: np.sum(np.sin(f(x))), ROWS + 0.1)


def test_norms_of_what_a_mask_selects():
    check(lambda x: np.linalg.norm(x[x[:, 0] > 0], axis=0) * np.linalg.norm(x[x > 0]), ROWS)
    for order in (0, -1):
        with pytest.raises(UnsupportedError, match="depends on values"):
            sg.compile(lambda x, order=order: np.linalg.norm(x[x > 0], order))(X)


def test_arguments_of_reductions_by_their_place():
    check(lambda x: np.std(x[x > 0], None, None, None, 1) + x[x > 0].max(0), X)


@pytest.mark.parametrize(
    "f", [lambda x: x[x > 0][0], lambda x: x[x > 0][1:], lambda x: x[x > 0][::2], lambda x: x[x > 0][x[x > 0] > 1]]
)
def test_items_of_what_a_mask_selects_are_refused(f):
    with pytest.raises(UnsupportedError, match="depends on values"):
        sg.compile(lambda x: np.sum(f(x)))(X)


def test_numbers_of_rows_need_an_axis():
    with pytest.raises(UnsupportedError, match="rows selected by a traced mask are combined with numbers") as error:
        sg.compile(of_rows(lambda x, m: np.sum(x[m] / x[:, 1][m])))(ROWS)
    assert error.value.instead == "Give each row its number: x[mask] / r[mask][:, None]."


def test_compress_and_extract():
    check(lambda x: np.sum(np.compress(x > 0, x) ** 2) * np.max(np.extract(x > 0, x)), X)
    check(lambda x: np.mean(np.extract(x > 0, x) ** 2), ROWS)


def test_counts():
    f = lambda x: np.sum(x[x > 0]) / len(x[x > 0]) + x[x > 0].size * x[x > 0].shape[0] * x[0]
    check(f, X)
    check(lambda x: x[x[:, 0] > 0].shape[0] * x[x[:, 0] > 0].size * x[0, 0], ROWS)
    assert sg.compile(lambda x: (np.any(x[x > 0] > 2.5), np.all(x[x > 0] > 1)))(X) == (True, False)
    assert sg.compile(lambda x: np.count_nonzero(x[x > 0] > 1))(X) == 2


def test_products_sums_and_norms():
    check(lambda x: np.dot(x[x > 0], x[x > 0] ** 2) + np.linalg.norm(x[x < 0]), X)
    check(lambda x: sum(x[x > 0]) + sum(x[x < 0], 1.0), X)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:Mean of empty:RuntimeWarning")
def test_nothing_is_selected():
    for level in (0, 1, 2):
        with sg.options(optimize=level):
            assert sg.compile(lambda x: np.sum(x[x > 9]) + len(x[x > 9]))(X) == 0
            for reduce in (np.mean, np.max, np.min, np.std, np.median):
                assert np.isnan(sg.compile(lambda x, reduce=reduce: reduce(x[x > 9]))(X))
            assert np.array_equal(sg.grad(lambda x: np.sum(x[x > 9] ** 2))(X), np.zeros(5))


# ---- what is written later


def array_written(x):
    x = x.copy()
    kept = x[x > 0]
    x[0] = 100.0
    return np.sum(kept)


def array_scaled(x):
    x = x.copy()
    kept, places = x[x > 0], np.where(x > 0)[0]
    x *= -2
    return kept.mean() * np.sum(x[places])


def moved(x):
    """The numbers are taken out, and put into another array."""
    x, y = x.copy(), np.zeros(5)
    mask = x > 0
    kept = x[mask]
    x[mask] = 0
    y[mask] = kept
    return x + y * y


def mask_written(x):
    x = x.copy()
    mask = x > 0
    kept, places = x[mask], np.where(mask)[0]
    mask[0] = False
    return np.sum(kept) + len(kept) * np.sum(x[places] ** 2) + np.sum(x[mask])


def copy_written(x):
    kept = x[x > 0]
    kept *= 2
    return np.sum(x) + np.sum(kept)


@pytest.mark.parametrize("f", [array_written, array_scaled, moved, mask_written, copy_written])
def test_what_is_selected_is_a_copy(f):
    check(f, X)


def test_another_name_of_what_was_written_into_is_not_read():
    def f(x):
        kept = x[x > 0]
        other = kept
        kept += 1
        return np.sum(other)

    with pytest.raises(UnsupportedError, match="is written under one name and read under another"):
        sg.compile(f)(X)


# ---- places


def pieces(x):
    y = np.zeros_like(x)
    above = np.where(x > 0)[0]
    below = np.flatnonzero(x <= 0)
    y[above] = np.exp(x[above])
    y[below] = x[below] ** 2
    if len(above) > 2:
        y[above] *= 3
    return y


def pairs(x):
    i, j = np.nonzero(x > 0)
    return np.mean(x[i, j] ** 2) * x[np.where(x > 0)].size


def with_a_table(x):
    """An array from outside is read, and one of zeros written, at the places."""
    result, above = np.zeros(5), np.where(x > 0)[0]
    result[above] = WEIGHTS[above] * x[above]
    return result


WEIGHTS = np.arange(1.0, 6.0)


def test_places_are_indices():
    check(pieces, X)
    check(with_a_table, X)
    check(lambda x: np.sum(x[np.where(x > 0)]) + np.nonzero(x)[0].size, X)
    check(pairs, ROWS)
    check(lambda x: np.sum(x[np.where(x[:, 0] > 0)[0], :], axis=0), ROWS)


def test_the_first_and_the_last_place():
    f = sg.grad(lambda x: x[np.where(x > 1)[0][0]] ** 2 * x[np.flatnonzero(x > 1)[-1]])
    np.testing.assert_allclose(f(X), [0, 0, 12, 4, 0])
    with pytest.raises(IndexError):
        f(X - 9)
    check(lambda x: x[np.where(x > 1)[0][0]] ** 2, X)


def test_a_condition_that_is_known():
    known = np.array([1, 0, 1, 0, 1])
    check(lambda x: x[np.where(known > 0)[0] // 2] + x[np.nonzero(known)[0]], X)
    check(lambda x: x[np.where(x.shape[0] * np.ones(5) > known)[0]], X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[np.where(x > 0)[0] + 1],
        lambda x: x[-np.where(x > 0)[0]],
        lambda x: sum(x[i] for i in np.where(x > 0)[0]),
        lambda x: x[np.where(x > 0)[0][1]],
        lambda x: np.take(x, np.where(x > 0)[0]),
        lambda x: np.where(x > 0)[0],
        lambda x: np.percentile(x[x > 0], 30),
        lambda x: x[x > 0] @ x,
        lambda x: np.sum(x[x > 0], keepdims=True),
        lambda x: np.dot(x[x > 0], x),
        lambda x: x[x > 0],
        lambda x: np.max(x.astype(int)[x > 0]),
        lambda x: float(np.where(x > 0)[0]),
    ],
)
def test_what_has_no_size_is_refused(f):
    with pytest.raises(UnsupportedError, match="depends on values"):
        sg.compile(f)(X)


def test_places_of_two_axes_belong_together():
    with pytest.raises(UnsupportedError, match="depends on values"):
        sg.compile(lambda x: x[np.nonzero(x > 0)[0]])(ROWS)
    with pytest.raises(UnsupportedError, match="depends on values"):
        sg.compile(lambda x: x[np.nonzero(x > 0)[::-1]])(ROWS)
