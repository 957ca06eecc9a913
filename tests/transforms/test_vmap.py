"""vmap against Python's loop over the inputs, and against JAX."""

import pickle
import re
from typing import NamedTuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.errors import ArgumentError, GraphError, ShapeError, WriteError
from tests.fuzz import generated

RNG = np.random.default_rng(3)
W, X, Y = RNG.standard_normal((4, 2)), RNG.standard_normal((5, 4)), RNG.standard_normal((5, 2))


def row(x, axis, i):
    return tree.tree_map(lambda leaf, a: leaf if a is None else np.take(leaf, i, a), x, tree_like(x, axis))


def tree_like(x, axis):
    return tree.unflatten(tree.flatten(x)[1], tree.broadcast_prefix(axis, x))


def by_rows(f, in_axes, size, *args, out_axes=0):
    """Return the results of a Python loop over the inputs, stacked."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    rows = [f(*[row(x, a, i) for x, a in zip(args, axes, strict=True)]) for i in range(size)]
    ends = tree_like(rows[0], out_axes)
    return tree.tree_map(lambda axis, *ys: np.stack(ys, axis), ends, *rows)


def check(f, in_axes, size, *args, out_axes=0, rtol=1e-12, atol=1e-14):
    result = sg.vmap(f, in_axes, out_axes)(*args)
    found, structure = tree.flatten(result)
    wanted, expected = tree.flatten(by_rows(f, in_axes, size, *args, out_axes=out_axes))
    assert structure == expected
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def loss(w, x, y):
    return np.sum((np.tanh(x @ w) - y) ** 2)


class Layer(NamedTuple):
    w: np.ndarray
    b: np.ndarray


# ---- axes


@pytest.mark.parametrize("axes", [(None, 0, 0), (0, None, None), (2, 0, 0), (-1, 1, 0), (1, -1, -1)])
@pytest.mark.parametrize("derivative", [lambda f: f, sg.grad, sg.hessian, lambda f: sg.jacfwd(sg.grad(f), 1)])
def test_any_axes_of_any_arguments(axes, derivative):
    stacked = [x if a is None else np.stack([x, 0.5 * x, -x], a) for x, a in zip((W, X[0], Y[0]), axes, strict=True)]
    check(derivative(loss), axes, 3, *stacked)


def test_trees_of_axes():
    layers = {"first": Layer(np.stack([W, -W]), np.ones(2)), "last": [np.arange(2.0), 3.0]}
    axes = {"first": Layer(0, None), "last": [0, None]}

    def f(layers, x):
        h = x @ layers["first"].w + layers["first"].b
        return {"h": h, "s": np.sum(h) * layers["last"][0] + layers["last"][1]}

    check(f, (axes, None), 2, layers, X[0], out_axes={"h": 1, "s": 0})
    check(sg.grad(lambda layers, x: f(layers, x)["s"]), (axes, None), 2, layers, X[0])


def test_an_axis_holds_for_all_below_it():
    f = lambda p, x: p["w"] @ x + p["b"][0]
    check(f, ({"w": None, "b": 0}, 1), 5, {"w": X[0], "b": [np.arange(5.0)]}, X.T)
    check(f, (None, 1), 5, {"w": X[0], "b": [2.0]}, X.T)


@pytest.mark.parametrize("out_axes", [0, 1, -1, -2, (0, 2)])
def test_results_have_the_axis_where_it_is_asked_for(out_axes):
    f = lambda x: (np.outer(x, x), x[0] * x) if isinstance(out_axes, int) else (x[0] * x, np.outer(x, x))
    check(f, 0, 5, X, out_axes=out_axes)


def test_what_does_not_differ_is_repeated_or_given_as_it_is():
    f = lambda x, k: (x + k, k * 2, 3, np.ones(2), None, "text")
    y, twice, three, ones, nothing, text = sg.vmap(f, (0, None), (0, None, 0, 0, 0, 0))(X, 2.0)
    np.testing.assert_array_equal(y, X + 2)
    assert (twice, nothing, text) == (4.0, None, "text")
    np.testing.assert_array_equal(three, [3] * 5)
    np.testing.assert_array_equal(ones, np.ones((5, 2)))


def test_axis_size_is_for_those_who_give_no_array():
    np.testing.assert_array_equal(sg.vmap(lambda x: x * 2, None, axis_size=3)(X[0]), [2 * X[0]] * 3)
    np.testing.assert_array_equal(sg.vmap(lambda: np.ones(2), axis_size=3)(), np.ones((3, 2)))


def test_keyword_arguments_are_mapped_along_their_first_axis():
    def f(x, *ys, scale, **others):
        return x * scale + ys[0] + others["offset"]

    found = sg.vmap(f, (1, None))(X.T, Y[0, 0], scale=np.arange(5.0), offset=np.ones(5))
    np.testing.assert_allclose(found, X * np.arange(5.0)[:, None] + Y[0, 0] + 1)


def test_no_rows_give_no_rows():
    assert sg.vmap(sg.grad(loss), (None, 0, 0))(W, X[:0], Y[:0]).shape == (0, 4, 2)


# ---- compositions


def test_vmap_of_vmap():
    f = lambda a, b: np.sum(a * b)
    table = sg.vmap(sg.vmap(f, (None, 0)), (0, None))
    np.testing.assert_allclose(table(X, X + 1), X @ (X + 1).T)
    np.testing.assert_allclose(sg.vmap(sg.vmap(f, (0, None)), (None, 0), 1)(X, X + 1), X @ (X + 1).T)


def test_derivatives_of_vmap():
    total = lambda w: np.sum(sg.vmap(loss, (None, 0, 0))(w, X, Y))
    each = [sg.grad(loss)(W, x, y) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(sg.grad(total)(W), np.sum(each, 0))
    np.testing.assert_allclose(sg.jacobian(lambda w: sg.vmap(loss, (None, 0, 0))(w, X, Y))(W), each)
    norms = lambda w: np.sum(sg.vmap(sg.grad(loss), (None, 0, 0))(w, X, Y) ** 2)
    sg.check_grads(norms, (W,), order=1)


def test_jacobians_by_vmap_of_pullbacks_and_pushforwards():
    f = lambda x: np.sin(x[:2]) * x[2:]
    out, pullback = sg.vjp(f, X[0])
    expected = sg.jacobian(f)(X[0])
    np.testing.assert_allclose(sg.vmap(pullback)(np.eye(2))[0], expected)
    np.testing.assert_allclose(sg.vmap(lambda g: sg.vjp(f, X[0])[1](g)[0])(np.eye(2)), expected)
    np.testing.assert_allclose(sg.vmap(lambda t: sg.jvp(f, (X[0],), (t,))[1], out_axes=1)(np.eye(4)), expected)
    g = sg.grad(lambda c: np.sum(pullback(c)[0] ** 2))(out)
    np.testing.assert_allclose(g, 2 * expected @ expected.T @ out)


def test_a_pullback_in_a_trace_takes_one_cotangent_for_each_result():
    _, pullback = sg.vjp(lambda x: {"a": x**2, "n": 3, "b": np.sum(x)}, X[0])
    (g,) = sg.compile(lambda a, b: pullback({"a": a, "n": None, "b": b}))(np.ones(4), 2.0)
    np.testing.assert_allclose(g, 2 * X[0] + 2)


def test_of_compiled_functions_and_in_them():
    f = sg.compile(loss)
    check(f, (None, 0, 0), 5, W, X, Y)
    result = sg.compile(lambda w: sg.vmap(f, (None, 0, 0))(w, X, Y) * 2)(W)
    np.testing.assert_allclose(result, 2 * sg.vmap(loss, (None, 0, 0))(W, X, Y))


def test_of_functions_of_numpy():
    check(np.linalg.inv, 0, 3, RNG.standard_normal((3, 4, 4)))
    check(np.sum, 1, 4, X)


# ---- a Function of its own


def test_a_batch_size_may_be_a_symbol():
    per_example = sg.vmap(sg.grad(loss), (None, 0, 0))
    compiled = per_example.compile("float64[4, 2]", "float64[n, 4]", "float64[n, 2]")
    assert compiled.signature.endswith("-> float64[n, 4, 2]")
    for n in (1, 3, 5):
        expected = by_rows(sg.grad(loss), (None, 0, 0), n, W, X, Y)
        np.testing.assert_allclose(compiled(W, X[:n], Y[:n]), expected)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_sizes_that_change_between_calls(level):
    per_example = sg.vmap(sg.grad(loss), (None, 0, 0), optimize=level)
    for n in (5, 3, 1, 0, 4):
        found = per_example(W, X[:n], Y[:n])
        assert found.shape == (n, 4, 2)
        for i in range(n):
            np.testing.assert_allclose(found[i], sg.grad(loss)(W, X[i], Y[i]))


def test_source_has_the_names_of_the_function():
    source = sg.vmap(sg.grad(loss), (None, 0, 0)).source("float64[4, 2]", "float64[n, 4]", "float64[n, 2]", optimize=1)
    assert source.startswith('"""Batches of the gradient of loss (test_vmap.py')
    assert re.search(r"^def loss_grad_vmap\(w, x, y\):$", source, re.M)
    assert re.search(r"^    d_w = .*$\n    return d_w$", source, re.M)
    assert " for " not in source.split("def ")[1]


def clipped(w, xs, ys):
    """The sum of the gradients of all examples, none of which is longer than one."""
    each = sg.vmap(sg.grad(loss), (None, 0, 0))(w, xs, ys)
    lengths = np.sqrt(np.sum(each**2, axis=(1, 2)))
    return np.tensordot(np.minimum(1, 1 / lengths), each, 1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_gradients_of_each_example_are_shortened(level):
    each = by_rows(sg.grad(loss), (None, 0, 0), 5, W, X, Y)
    lengths = np.linalg.norm(each, axis=(1, 2))
    assert min(lengths) < 1 < max(lengths)
    expected = np.einsum("n,nij->ij", np.minimum(1, 1 / lengths), each)
    np.testing.assert_allclose(sg.compile(clipped, optimize=level)(W, X, Y), expected)


def test_lengths_and_sums_of_outer_products_do_not_need_them():
    specs, matrices = ("float64[64, 32]", "float64[n, 64]", "float64[n, 32]"), re.compile(r"\[(n|rows), 64, 32\]")
    assert not matrices.search(sg.compile(clipped).source(*specs))
    assert matrices.search(sg.compile(clipped, numerics="ieee").source(*specs))


def test_it_goes_to_another_process():
    f = pickle.loads(pickle.dumps(sg.vmap(np.sin, 1, 1)))
    np.testing.assert_array_equal(f(X), np.sin(X))


# ---- errors


def check_error(kind, fact, instead, f, *args):
    with pytest.raises(kind) as caught:
        f(*args)
    assert (caught.value.fact, caught.value.instead) == (fact, instead)


AGREE = "Give all the same length, and None in in_axes for shared arguments."
COMMON = "Write None in in_axes for a shared argument."
TREE = "Give an int, None, or a tree of these with the same structure; one may stand for a whole subtree."
KIND = "Write an int, None, or a tree of these."


def product(x, y):
    return x * y


def test_lengths_that_differ():
    check_error(
        ShapeError, "vmap: y has 4 along axis 1, and x has 5 along axis 0", AGREE, sg.vmap(product, (0, 1)), X, X
    )
    check_error(ShapeError, "vmap: x has 5 along axis 0, and axis_size=3", AGREE, sg.vmap(np.sin, axis_size=3), X)
    nested = lambda p: p["a"] + p["b"][0]
    check_error(
        ShapeError,
        "vmap: p.b.0 has 2 along axis 0, and p.a has 5 along axis 0",
        AGREE,
        sg.vmap(nested),
        {"a": X[:, 0], "b": [Y[0]]},
    )


def test_what_has_no_such_axis():
    check_error(ShapeError, "vmap: y is an int, which has no axis 0", COMMON, sg.vmap(product), X, 3)
    check_error(ShapeError, "vmap: y is float64[], which has no axis 0", COMMON, sg.vmap(product), X, 3.0)
    fact = "vmap: x has the shape (5, 4), which has no axis 2"
    check_error(ShapeError, fact, COMMON, sg.vmap(product, (2, None)), X, 3.0)
    fact = "vmap: out_axes=2 is out of bounds for float64[], the result of one input"
    check_error(ShapeError, fact, "Write an axis from 0 to 0.", sg.vmap(np.sum, 0, 2), X)


def test_axes_of_another_structure():
    fact = "vmap: in_axes=(0,) for 2 positional arguments"
    instead = "Give an int or None for each positional argument, or a tree of them."
    check_error(ArgumentError, fact, instead, sg.vmap(product, (0,)), X, X)
    fact = "vmap: in_axes=({'a': 0},) does not match the structure of the arguments, ({'a': *, 'b': *},)"
    check_error(ArgumentError, fact, TREE, sg.vmap(lambda p: p["a"], ({"a": 0},)), {"a": X, "b": X})
    fact = "vmap: out_axes=(0, 0) does not match the structure of the result, *"
    check_error(ArgumentError, fact, TREE, sg.vmap(np.sin, 0, (0, 0)), X)
    check_error(ArgumentError, "vmap: in_axes has '0', which is not an axis", KIND, sg.vmap(product, ("0", 0)), X, X)
    check_error(ArgumentError, "vmap: in_axes has True, which is not an axis", KIND, sg.vmap(np.sin, True), X)
    check_error(ArgumentError, "vmap: out_axes has 0.0, which is not an axis", KIND, sg.vmap(np.sin, 0, 0.0), X)


def test_nothing_says_how_many():
    check_error(
        ArgumentError,
        "vmap: no argument has a batch axis, so the size of the batch is unknown",
        "Give it: axis_size=n.",
        sg.vmap(np.sin, None),
        X,
    )


def test_a_result_that_differs_is_not_one_for_all():
    fact = "vmap: out_axes is None for float64[4], which depends on the input"
    check_error(
        ArgumentError, fact, "Give the axis along which results are stacked: out_axes=0.", sg.vmap(np.sin, 0, None), X
    )


def test_arguments_are_not_written_into():
    def f(x):
        x[0] = 1.0
        return x

    with pytest.raises(WriteError, match="x is an argument"):
        sg.vmap(f)(X)


def test_what_one_input_leaves_behind_is_no_value():
    kept = []
    with pytest.raises(GraphError, match=r"or the function of vmap"):
        sg.compile(lambda x: (sg.vmap(lambda r: kept.append(r) or r)(x), kept[0]))(X)


# ---- against other programs


@pytest.mark.parametrize("seed", range(100, 115))
def test_random_programs(seed):
    """Every floating argument along an axis of its own."""
    program, rng = generated(seed), np.random.default_rng(seed)
    f, args = program.function(), [np.asarray(x) for x in program.values(program.sizes[0])]
    axes = tuple(int(rng.integers(0, x.ndim + 1)) if x.dtype in (float, np.float32) else None for x in args)
    if not any(axis is not None for axis in axes) or any(x.dtype == np.float16 for x in args):
        pytest.skip("nothing to map, or float16")
    many = [x if a is None else np.stack([x, x * 1.0625, x * 1.125], a) for x, a in zip(args, axes, strict=True)]
    try:
        with np.errstate(all="ignore"):
            found = sg.vmap(f, axes, -1, optimize=program.optimize, numerics=program.numerics)(*many)
    except sg.errors.SymgradError:
        pytest.skip("refused")
    with np.errstate(all="ignore"):
        expected = by_rows(f, axes, 3, *many, out_axes=-1)
    for x, y in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


def test_it_is_that_of_jax():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        f = lambda p, x: {"y": p["w"] @ x * p["s"], "n": x[0] * 2}
        params = {"w": np.stack([W.T, -W.T], -1), "s": 0.5}
        for axes, ends in [(({"w": -1, "s": None}, None), 0), (({"w": 2, "s": None}, None), {"y": 1, "n": 0})]:
            ours = sg.vmap(sg.vmap(f, (None, 0)), axes, ends)(params, X)
            theirs = jax.vmap(jax.vmap(f, (None, 0)), axes, ends)(params, X)
            assert jax.tree.structure(ours) == jax.tree.structure(theirs)
            for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
                np.testing.assert_allclose(x, y)
    finally:
        jax.config.update("jax_enable_x64", before)
