"""Sums of products over rows: in which order they are computed, so that memory is read along its rows."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering import contraction_order
from tests.statements import printed_kernels


def nearest(centres, x):
    squares = np.sum((x[:, None, :] - centres) ** 2, axis=2)
    return np.sum(np.min(squares, axis=1))


@pytest.mark.parametrize("d", [3, 10])
@pytest.mark.parametrize("k", [2, 50])
def test_a_pass_over_the_rows_is_value_and_gradient(k, d, monkeypatch):
    """Distances are read where they are computed: none is kept for the gradient."""
    texts = printed_kernels(monkeypatch)
    rng = np.random.default_rng(0)
    centres, x = rng.normal(size=(k, d)), rng.normal(size=(30, d))
    spec = f"float64[{k}, {d}]", f"float64[n, {d}]"
    run = sg.value_and_grad(nearest, target="c").compile(*spec, optimize=2)
    value, slopes = run(centres, x)
    expected, wanted = sg.value_and_grad(nearest)(centres, x)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-12)
    assert len(re.findall(r"for \(int64_t \w = \w+; \w < (?:n|end);", texts[0])) == 1
    assert "n * " not in texts[0]  # no memory in which each row has numbers


def shared(w, x):
    """Products with views of computed values: transposed, and with an axis of one number."""
    y = np.tanh(x) * 2 + 1
    return np.sum((y.T @ x @ w) ** 2) + np.sum((y[:, :, None] * x[:, None, :]).sum(axis=0) * w) + np.sum(y.T[:2] @ x)


@pytest.mark.parametrize("shape", [(9, 3), (40, 2), (17, 12), (3, 30)])
def test_products_of_views_are_those_of_numpy(shape, monkeypatch):
    printed_kernels(monkeypatch)
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=shape), rng.normal(size=(shape[1], shape[1]))
    found = sg.value_and_grad(shared, (0, 1), target="c").compile(w, x, optimize=2)(w, x)
    expected = sg.value_and_grad(shared, (0, 1), optimize=0)(w, x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-11)
    for got, wanted in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-9)


def regression(w, x):
    return np.mean(np.tanh(x @ w) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 5, 8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_long_columns_are_summed_row_after_row(dtype, columns, monkeypatch):
    """The twelve numbers of a column lie beside each other while rows are added, and are turned in the end."""
    texts = printed_kernels(monkeypatch)
    monkeypatch.setattr(contraction_order, "CACHED", 0)
    rng = np.random.default_rng(2)
    w, x = rng.normal(size=(12, columns)).astype(dtype), rng.normal(size=(300, 12)).astype(dtype)
    found = sg.value_and_grad(regression, target="c").compile(w, x)(w, x)
    expected = sg.value_and_grad(regression, optimize=0)(w.astype(float), x.astype(float))
    exact = 1e-12 if dtype == np.float64 else 1e-5
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=exact, atol=exact / 100)
    assert ("/* 5, 12 */" in texts[-1]) == (columns == 5)  # eight are for BLAS, one is a column


@pytest.mark.parametrize(("rows", "is_turned"), [(200, False), (5000, True)])
def test_rows_that_a_cache_holds_are_read_for_each_column(rows, is_turned):
    source = sg.grad(regression, target="c").source("float64[12, 5]", f"float64[{rows}, 12]").native
    assert ("/* 5, 12 */" in source) == is_turned
