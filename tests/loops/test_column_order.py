"""Arrays of few columns, which straight programs keep column by column: the same numbers, from fewer inner loops."""

import numpy as np
import pytest

import symgrad as sg
from tests.forms import count

pytestmark = pytest.mark.usefixtures("whole")

N = 1500
rng = np.random.default_rng(0)
ROWS, OTHERS, WIDE = rng.normal(size=(N, 3)), rng.normal(size=(N, 3)), rng.normal(size=(N, 40))
FEW, WEIGHTS = rng.normal(size=(60, 3)), rng.normal(size=(40, 5))
TABLE, PLACES = rng.normal(size=(70, 3)), rng.integers(-70, 70, size=N)


def pairs(x):
    gap = x[:, None] - x
    return np.sum(np.exp(-np.sum(gap * gap, axis=2)))


def softmax(x, w):
    z = x @ w
    z = z - np.max(z, axis=1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(z), axis=1)))


def gathered(table, places, x):
    gap = table[places] - x
    length = np.linalg.norm(gap, axis=1)
    return np.sum(np.abs(gap[:, :2] / length[:, None])) + np.sum(length * np.max(gap, axis=1))


def standardised(x, y):
    z = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 0.1)
    return np.sum(np.where(z > 0, z, 0.1 * z) * y)


def stacked(x):
    y = np.cumsum(x, axis=1) * x[0] - x.min(axis=1, keepdims=True)
    return np.sum(np.concatenate([y, 2 * y[:, ::-1]], axis=1)[:, 1:] ** 2 / (1 + np.max(x * x, axis=1))[:, None])


PROGRAMS = {
    "pairs": (pairs, (FEW,)),
    "softmax": (softmax, (WIDE, WEIGHTS)),
    "gathered": (gathered, (TABLE, PLACES, ROWS)),
    "standardised": (standardised, (ROWS, OTHERS)),
    "stacked": (stacked, (ROWS,)),
}


def by_columns(f, *args, **options):
    """The program, and how often it takes arrays column by column."""
    program = sg.compile(f).compile(*args, **options)
    return program, count(program.source, "_.T.copy().T")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_columns_have_the_same_numbers(name, dtype):
    f, args = PROGRAMS[name]
    args = [x.astype(dtype) if x.dtype.kind == "f" else x for x in args]
    wrt = tuple(i for i, x in enumerate(args) if x.dtype.kind == "f")
    fast, plain = (sg.value_and_grad(f, argnums=wrt).compile(*args, optimize=level) for level in (2, 0))
    assert count(fast.source, "_.T") or name == "gathered"  # whose derivative adds rows
    (value, gradients), (expected, others) = fast(*args), plain(*args)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    for a, b in zip([value, *gradients], [expected, *others], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.max(np.abs(b)))


def test_what_comes_in_is_copied_once():
    program, copies = by_columns(lambda x: np.sum(np.sum((x[:, None] - x) ** 2, axis=2) ** 0.5), FEW)
    assert count(program.source, "x.T.copy().T") == copies == 1


def test_products_and_rows_that_are_gathered_are_made_by_columns():
    program, copies = by_columns(lambda x, w: np.exp(x @ w).sum(axis=1), WIDE, WEIGHTS)
    assert count(program.source, "(w.T @ x.T).T") == 1
    assert copies == 0
    program, copies = by_columns(lambda table, i, x: ((table[i] - x[0]) / x[1]).max(axis=1), TABLE, PLACES, ROWS[:2])
    assert count(program.source, "table.T.take(_, axis=1).T") == 1
    assert copies == 0


def test_cross_products_lie_by_columns():
    program, copies = by_columns(lambda x, y: (x[:, :1] * np.cross(x, y)).max(axis=1), ROWS, OTHERS)
    assert count(program.source, "_ * _cross(x, y)") == 1
    assert copies == 0


def weighed(a, w, y):
    return np.sum(np.exp(np.sum(np.outer(a, w) * y, axis=1)) * np.sum(y * y, axis=1))


def test_outer_products_and_sums_of_products_are_made_by_columns():
    args = ROWS[:, 0], TABLE[0], OTHERS
    gradient = sg.grad(weighed, argnums=2)
    source = gradient.source(*args)
    assert count(source, "(w[:, None] * _).T") == count(source, "_.T.copy().T") == 1
    np.testing.assert_allclose(gradient(*args), sg.grad(weighed, argnums=2, optimize=0)(*args), rtol=1e-9)


def pulled(x, i, j, rest):
    gap = x[i] - x[j]
    length = np.sqrt(0.1 + np.sum(gap * gap, axis=1))
    return np.sum((length - rest) ** 2)


@pytest.mark.parametrize(("width", "columns"), [(3, True), (12, False)])
def test_rows_that_are_added_by_pairs_stay_as_they_are(width, columns):
    """Columns are as fast for few numbers."""
    x, i, j = rng.normal(size=(70, width)), PLACES, rng.integers(0, 70, size=N)
    gradient = sg.grad(pulled)
    source = gradient.source(x, i, j, ROWS[:, 0])
    assert (count(source, "_.take(_, axis=1).T") == 2) == columns
    assert count(source, "_add_at(_, _, _)") == 2
    plain = sg.grad(pulled, optimize=0)(x, i, j, ROWS[:, 0])
    np.testing.assert_allclose(gradient(x, i, j, ROWS[:, 0]), plain, rtol=1e-9, atol=1e-9)


def test_small_matrices_stay_as_they_are():
    x = rng.normal(size=(N, 3, 3))
    program, copies = by_columns(lambda x: np.sum(x * np.max(x, axis=(1, 2), keepdims=True), axis=2), x)
    assert copies == count(program.source, "_.copy()") == 0


def test_rows_of_a_large_table_are_gathered_as_they_are():
    program, _ = by_columns(lambda table, i: (table[i] - table[0]).max(axis=1), ROWS, PLACES[:300])
    assert count(program.source, "table[i]") == 1


def centred(x):
    return np.sum((x - x[0]) * x[:, :1], axis=1) + np.max(x - x[1], axis=1)


@pytest.mark.parametrize(("shape", "copies"), [((N, 3), 1), ((N, 1), 0), ((N, 40), 0), ((20, 3), 0)])
def test_few_columns_of_many_rows_are_copied(shape, copies):
    x = rng.normal(size=shape)
    program, found = by_columns(centred, x)
    assert found == copies
    np.testing.assert_allclose(program(x), centred(x), rtol=1e-9, atol=1e-9)


def shares(x):
    y = np.abs(x - x[0]) * x[1]
    return y / (1 + np.max(y, axis=1, keepdims=True)) - y * np.max(x, axis=1, keepdims=True)


@pytest.mark.parametrize("f", [shares, lambda x: shares(x) @ WEIGHTS[:3], lambda x: shares(x @ WEIGHTS[:3])])
def test_results_lie_in_the_order_of_rows(f):
    program, _ = by_columns(f, ROWS)
    assert count(program.source, "_.T")
    assert program(ROWS).flags.c_contiguous
    np.testing.assert_allclose(program(ROWS), f(ROWS), rtol=1e-9, atol=1e-9)
