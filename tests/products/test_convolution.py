"""Convolutions as windows and sums of products: matrices of patches, shifted sums, and the same in C."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import symgrad as sg
from symgrad.ops.contract import MATMUL
from symgrad.ops.einsum import EINSUM
from symgrad.ops.shape import RESHAPE, TRANSPOSE
from symgrad.ops.windows import WINDOWS


def convolved(x, W, stride=1, dilation=1, groups=1, first=False):
    """Images x[image, *place, channel] under filters W[*place, channel of its group, filter]; channels may be first."""
    n = W.ndim - 2
    to, at = "rst"[:n], "ijk"[:n]
    reach = [dilation * (size - 1) + 1 for size in W.shape[:n]]
    x = x.reshape(len(x), groups, -1, *x.shape[2:]) if first else x.reshape(*x.shape[:-1], groups, -1)
    W = W.reshape(*W.shape[:-1], groups, -1)
    start = 3 if first else 1
    windows = sliding_window_view(x, reach, axis=tuple(range(start, start + n)))
    apart = [slice(None, None, dilation)] * n
    windows = windows[(*[slice(None)] * start, *[slice(None, None, stride)] * n, ..., *apart)]
    if first:
        y = np.einsum(f"ngd{to}{at},{at}dgf->ngf{to}", windows, W, optimize=True)
        return y.reshape(len(y), -1, *y.shape[3:])
    y = np.einsum(f"n{to}gd{at},{at}dgf->n{to}gf", windows, W, optimize=True)
    return y.reshape(*y.shape[: n + 1], -1)


def by_loops(x, W, stride=1, dilation=1, groups=1, first=False):
    """The same, one product at a time."""
    x = np.moveaxis(x, 1, -1) if first else x
    n, filters = W.ndim - 2, W.shape[-1]
    sizes = [(m - dilation * (k - 1) - 1) // stride + 1 for m, k in zip(x.shape[1:-1], W.shape[:n], strict=True)]
    y = np.zeros((len(x), *sizes, filters))
    for place, within, f in product(np.ndindex(*sizes), np.ndindex(W.shape[:n]), range(filters)):
        group = f // (filters // groups)
        channels = slice(group * W.shape[-2], (group + 1) * W.shape[-2])
        at = tuple(stride * p + dilation * k for p, k in zip(place, within, strict=True))
        y[(slice(None), *place, f)] += x[(slice(None), *at, channels)] @ W[(*within, slice(None), f)]
    return np.moveaxis(y, -1, 1) if first else y


HOW = {
    "plain": {},
    "stride": {"stride": 2},
    "dilation": {"dilation": 2},
    "groups": {"groups": 2},
    "a filter a channel": {"groups": 4},
    "all": {"stride": 2, "dilation": 2, "groups": 2},
}


def example(n, kernel, groups, first, side=None):
    rng = np.random.default_rng(n)
    side = side or {1: 40, 2: 9, 3: 6}[n]
    x, W = rng.normal(size=(2, *(side,) * n, 4)), rng.normal(size=(*(kernel,) * n, 4 // groups, 4))
    return (np.moveaxis(x, -1, 1).copy() if first else x), W


@pytest.mark.parametrize("first", [False, True], ids=["channels last", "channels first"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions_and_their_derivatives(n, how, first):
    """Gradients at level 2, and in turn at level 1 or with IEEE's numbers; their derivatives in one of these ways."""
    turn = n + [*HOW].index(how) + first
    how = HOW[how] | {"first": first}
    x, W = example(n, 1 if n == 3 and how.get("dilation") else 2 if n == 3 else 3, how.get("groups", 1), first)
    np.testing.assert_allclose(sg.compile(lambda x, W: convolved(x, W, **how))(x, W), by_loops(x, W, **how), atol=1e-12)

    def loss(x, W):
        return np.sum(np.sin(convolved(x, W, **how)))

    def change(x, W, v):  # a derivative of the derivative
        return sg.jvp(sg.grad(loss, argnums=(0, 1)), (x, W), v)[1]

    slopes, changes = (sg.grad(loss, argnums=(0, 1)), (x, W)), (sg.compile(change), (x, W, (x + 1, W - 1)))
    others = {"optimize": 1}, {"numerics": "ieee"}
    for (derivative, args), ways in (slopes, ({}, others[turn % 2])), (changes, (({}, *others)[turn % 3],)):
        expected = derivative.compile(*args, optimize=0)(*args)
        for options in ways:
            for result, want in zip(derivative.compile(*args, **options)(*args), expected, strict=True):
                np.testing.assert_allclose(result, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kernel", [1, 3])
def test_finite_differences_agree(kernel):
    x, W = example(2, kernel, 1, False, side=6)
    sg.check_grads(lambda x, W: np.sum(np.sin(convolved(x, W))), (x, W), order=2)


def loss(W, x, weights):
    windows = sliding_window_view(x, W.shape[:2], axis=(1, 2))
    return np.sum(np.einsum("nrcdij,ijdf->nrcf", windows, W, optimize=True) * weights)


def arguments(channels=5, dtype=np.float64):
    rng = np.random.default_rng(1)
    shapes = (3, 3, channels, 6), (2, 10, 11, channels), (2, 8, 9, 6)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.usefixtures("usual_sizes")
def test_patches_are_copied_once_and_no_array_of_windows_is_made_by_the_derivative():
    graph = sg.value_and_grad(loss, argnums=(0, 1)).compile(*arguments()).graph
    assert sum(x.op is WINDOWS for x in graph.nodes) == 1
    copied = [x for x in graph.nodes if x.op is RESHAPE and x.inputs[0].op is TRANSPOSE]
    assert len({x.inputs for x in copied}) == 1
    made = [x.aval.shape for x in graph.nodes if x.op in (EINSUM, MATMUL)]
    assert made and all(np.prod(shape) < 2 * 8 * 9 * 45 for shape in made)


@pytest.mark.usefixtures("usual_sizes")
def test_the_derivative_by_images_reads_as_one_product_for_each_place_of_a_filter():
    source = str(sg.grad(loss, argnums=1).source(*arguments()))
    assert "np.einsum" not in source and source.count(" += ") == 8
    assert all(f"W[{i}, {j}].T" in source for i in range(3) for j in range(3))


def test_each_channel_with_a_filter_of_its_own_is_multiplied_place_by_place():
    x, W = example(2, 3, 4, False, side=30)
    graph = sg.compile(lambda x, W: convolved(x, W, groups=4)).compile(x, W).graph
    assert not any(x.op in (EINSUM, MATMUL) for x in graph.nodes)


def test_windows_of_one_place_are_axes():
    x, W = example(2, 1, 1, False, side=30)
    program = sg.grad(lambda x, W: np.sum(convolved(x, W) ** 2), argnums=(0, 1)).compile(x, W)
    assert not any(x.op is WINDOWS for x in program.graph.nodes)


def test_large_windows_are_added_along_one_axis_after_another():
    x, v = np.arange(400.0).reshape(20, 20), np.ones((9, 9))

    def f(x):
        return np.sum(np.sin(sliding_window_view(x, (9, 9))) * v)

    source = sg.grad(f).source(x)
    assert 16 <= source.count(" += ") + source.count("np.add(") <= 18
    np.testing.assert_allclose(sg.grad(f)(x), sg.grad(f, optimize=0)(x), atol=1e-9)


@pytest.mark.usefixtures("usual_sizes")
def test_gaps_between_places_add_nothing():
    x, W = example(2, 3, 1, False, side=12)
    source = sg.grad(lambda x, W: np.sum(convolved(x, W, dilation=2) ** 2)).source(x, W)
    assert source.count(" += ") == 8 and "+= 0.0" not in source


@pytest.mark.of_numpy
@pytest.mark.parametrize("key", [np.s_[:, 1], np.s_[3], np.s_[:, 2], np.s_[:, -2], np.s_[4, 5]])
@pytest.mark.parametrize("put", [np.s_[:, ::2], np.s_[:, 1::2], np.s_[3], np.s_[::-1], np.s_[:, 4:0:-1], np.s_[:, 5]])
def test_what_is_read_of_an_assignment_is_the_value(put, key):
    x = np.arange(36.0).reshape(6, 6)

    def f(x):
        y = np.zeros_like(x)
        y[put] = np.cos(x)[put]
        return y[key] * 2

    np.testing.assert_array_equal(sg.compile(f)(x), f(x))


@pytest.mark.usefixtures("usual_sizes")
def test_a_program_is_not_cut_along_what_its_products_sum():
    """Each block would make all of the result, and add it to those before it."""
    rng = np.random.default_rng(2)
    args = rng.normal(size=(3, 3, 16, 32)), rng.normal(size=(8, 34, 34, 16)), rng.normal(size=(8, 32, 32, 32))
    assert "def share" not in sg.value_and_grad(loss, argnums=(0, 1)).source(*args)
