"""Functions that rearrange, repeat, join and split: values as NumPy's, derivatives, batches, source and messages."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph, verify
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.batch import batch
from symgrad.errors import DTypeError, ShapeError, UnsupportedError
from symgrad.frontend.variable import Variable
from symgrad.spelling import Code
from tests.oracle import check_derivatives, check_value, trace

X = np.arange(24.0).reshape(2, 3, 4) / 7 - 1.3
Y = np.arange(24.0).reshape(2, 3, 4)[::-1] / 5
M, N = X[0], Y[0]
V, W = X[0, 0], Y[0, 1]


def _ids(case):
    return case if isinstance(case, str) else ""


NAMES = {"np": np, "windows": np.lib.stride_tricks.sliding_window_view}


def _function(source, count):
    return eval(
        f"lambda {', '.join('xyz'[:count])}: ({source})",
        {"np": np, "windows": np.lib.stride_tricks.sliding_window_view},
    )


ONE = [
    ("np.reshape(x, (3, 8))", X), ("np.reshape(x, -1)", X), ("x.reshape(4, -1)", X), ("x.reshape((2, 12))", X),
    ("np.reshape(x, (4, 6), order='F')", X), ("np.reshape(x, (6, 4), copy=True)", X), ("x.reshape(1)", X[0, 0, 0]),
    ("np.ravel(x)", X), ("np.ravel(x, 'F')", X), ("x.flatten()", X), ("x.T.ravel()", X), ("np.transpose(x)", X),
    ("np.transpose(x, (1, -1, 0))", X), ("x.T", M), ("x.mT", X), ("x.transpose(1, 0, 2)", X), ("x.T", V),
    ("np.swapaxes(x, 0, -1)", X), ("x.swapaxes(1, 2)", X), ("np.moveaxis(x, 0, -1)", X),
    ("np.moveaxis(x, [0, 1], [-1, 0])", X), ("np.rollaxis(x, 2)", X), ("np.rollaxis(x, 0, 3)", X),
    ("np.rollaxis(x, -1, -2)", X), ("np.matrix_transpose(x)", X), ("np.squeeze(x[:, :1])", X),
    ("np.squeeze(x[:, :1], axis=1)", X), ("x[:1, :1].squeeze((0, 1))", X), ("x[:1].squeeze(-3)", X),
    ("np.expand_dims(x, 1)", X), ("np.expand_dims(x, (0, -1))", X), ("np.expand_dims(x, 0)", X[0, 0, 0]),
    ("np.broadcast_to(x, (5, 2, 3, 4))", X), ("np.broadcast_to(x[:, :1], (2, 3, 4))", X),
    ("np.broadcast_to(x, 3)", X[0, 0, 0]), ("np.broadcast_arrays(x, x[:1], 2.0)", X), ("np.atleast_1d(x)", X[0, 0, 0]),
    ("np.atleast_2d(x)", V), ("np.atleast_2d(x, x[0])", M), ("np.atleast_3d(x)", V), ("np.atleast_3d(x)", M),
    ("np.atleast_3d(x)", X), ("np.atleast_3d(x)", X[0, 0, 0]), ("np.split(x, 2, axis=2)", X),
    ("np.split(x, [1, 3], axis=-1)", X), ("np.array_split(x, 3, axis=2)", X), ("np.array_split(x, 2)", V),
    ("np.hsplit(x, 3)", X), ("np.vsplit(x, 2)", X), ("np.dsplit(x, [1])", X), ("np.hsplit(x, 2)", V),
    ("np.split(x, [1, 1, 9])", V), ("np.tile(x, 3)", V), ("np.tile(x, (2, 1, 3))", M), ("np.tile(x, 2)", X),
    ("np.tile(x, (2, 2))", X), ("np.tile(x, 0)", V), ("np.tile(x, (2, 2))", X[0, 0, 0]), ("np.repeat(x, 3)", M),
    ("np.repeat(x, 2, axis=1)", X), ("x.repeat([1, 0, 3], 1)", X), ("np.repeat(x, [2], -1)", M),
    ("np.repeat(x, 0)", V), ("np.flip(x)", X), ("np.flip(x, 1)", X), ("np.flip(x, (0, -1))", X), ("np.fliplr(x)", M),
    ("np.flipud(x)", X), ("np.rot90(x)", M), ("np.rot90(x, 2)", M), ("np.rot90(x, -1, (1, 2))", X),
    ("np.rot90(x, 4)", M), ("np.rot90(x, 3, (2, 0))", X), ("np.roll(x, 2)", V), ("np.roll(x, 5)", X),
    ("np.roll(x, -1, axis=1)", X), ("np.roll(x, (1, 2), axis=(0, 2))", X), ("np.roll(x, 1, (0, 1))", X),
    ("np.roll(x, (1, 2), 2)", X), ("np.roll(x, (1, 2))", M), ("np.pad(x, 1)", M), ("np.pad(x, (1, 2))", V),
    ("np.pad(x, ((1, 0), (0, 2)))", M), ("np.pad(x, 2, constant_values=3.5)", M),
    ("np.pad(x, ((1, 2), (2, 1)), constant_values=((1, 2), (3, 4)))", M), ("np.pad(x, 1, constant_values=(1, 2))", V),
    ("np.pad(x, 2, mode='edge')", X), ("np.pad(x, (2, 3), mode='reflect')", V),
    ("np.pad(x, (1, 7), mode='reflect')", V), ("np.pad(x, ((1, 2), (5, 3)), mode='symmetric')", M),
    ("np.pad(x, ((4, 2), (0, 3)), mode='wrap')", M), ("np.pad(x, 0)", V),
    ("np.pad(x, 1, mode='mean')", M), ("np.pad(x, ((0, 2), (1, 0)), mode='maximum')", M),
    ("np.pad(x, 1, mode='minimum', stat_length=((1, 2), (1, 9)))", M), ("np.pad(x, 2, mode='median')", M),
    ("np.pad(x, 2, mode='linear_ramp', end_values=((3.0, 1), (2, 0)))", M), ("np.pad(x, 0, mode='mean')", M),
    ("np.pad(x, 1, mode='reflect', reflect_type='odd')", M), ("np.pad(x, 2, mode='symmetric', reflect_type='odd')", M),
    ("np.pad(x, 1, mode='reflect', reflect_type='even')", M), ("np.pad(x, {1: (1, 2)})", M),
    ("np.append(x, [1.0, 2.0])", M), ("np.append(x, x[:1], axis=0)", M), ("np.delete(x, 1)", V),
    ("np.delete(x, -1, axis=1)", M), ("np.delete(x, [0, 2], axis=2)", X), ("np.delete(x, slice(1, 3), axis=2)", X),
    ("np.insert(x, 1, 9.0)", V), ("np.insert(x, -1, 9.0)", V), ("np.insert(x, 1, x[0], axis=0)", M),
    ("np.insert(x, 2, x[:, 0], axis=1)", M), ("np.insert(x, [1, 3], 7.0)", V), ("np.insert(x, [3, 1], [7.0, 8.0])", V),
    ("np.insert(x, [2], x[:, :2], axis=1)", M), ("np.insert(x, [0, 2, 2], x[:, :3], axis=1)", M),
    ("np.insert(x, 1, np.array([7.0, 8.0]))", V), ("np.insert(x, 4, 1.0)", V), ("np.insert(x, slice(1, 3), 5.0)", V),
    ("np.concatenate([x, 2 * x], axis=None)", M), ("np.concatenate((x, x[:, :1]), -1)", M),
    ("np.block([[x, x], [x, x]])", M), ("np.block([x, 1.0, x[:2]])", V), ("np.block([[x], [x[0]]])", M),
    ("np.copy(x)", X), ("x.copy()", X), ("x.astype(np.float32)", X), ("np.astype(x, float)", X),
    ("np.unstack(x, axis=1)", X), ("np.size(x), np.ndim(x), np.shape(x)[1]", X),
    ("np.size(x, 1), np.size(x, (0, 2))", X), ("x * np.isrealobj(x)", V), ("x[np.iscomplexobj(x):]", V),
    ("np.meshgrid(x, x[:2])", V), ("np.meshgrid(x, x[:2], x[:3], indexing='ij')", V),
    ("np.meshgrid(x, 2 * x, sparse=True)", V), ("windows(x, 2)", V), ("windows(x, (2, 1))", M), ("windows(x, 4)", V),
    ("windows(x, 2, axis=1)", X), ("windows(x, (2, 3), (0, -1))", X), ("windows(x, (2, 2), (2, 2))", X),
    ("windows(x, (1, 2, 3))", X), ("windows(x, 3, -1)[..., ::-1]", M), ("windows(x, 0)", V),
    ("windows(x, ())", X[0, 0, 0]),
]  # fmt: skip
TWO = [
    ("np.concatenate([x, y])", X, Y), ("np.concatenate([x, y], axis=1)", X, Y[:, :1]),
    ("np.concatenate([x, y, x], axis=-1)", M, N), ("np.stack([x, y])", X, Y), ("np.stack([x, y, x], axis=1)", M, N),
    ("np.stack((x, y), axis=-1)", V, W), ("np.stack([x, y])", X[0, 0, 0], Y[0, 0, 0]), ("np.vstack([x, y])", V, N),
    ("np.hstack([x, y])", V, W), ("np.hstack([x, y])", M, N), ("np.hstack([x, y])", V, W[0]),
    ("np.dstack([x, y])", V, W), ("np.dstack([x, y])", M, N), ("np.column_stack([x, y])", V, W),
    ("np.column_stack([x, y])", V, N.T), ("np.block([[x, y], [y, x]])", M, N), ("np.meshgrid(x, y, copy=False)", V, W),
    ("np.append(x, y)", M, V), ("np.pad(x, 1, constant_values=y)", M, W[1]),
    ("np.pad(x, ((1, 2), (0, 1)), constant_values=((1.0, y), (2.0, 3.0)))", M, W[1]), ("np.insert(x, 1, y)", V, W[0]),
    ("np.insert(x, [1, 2], y, axis=0)", M, N[:2]), ("np.broadcast_arrays(x, y)", M, V),
    ("np.concatenate([x, y], out=np.empty((4, 3, 4), like=x))", X, Y),
    ("np.concatenate([x, y], dtype=np.float64)", V, W),
]  # fmt: skip


@pytest.mark.parametrize("source, x", ONE, ids=_ids)
def test_of_one_array(source, x):
    f = _function(source, 1)
    check_value(f, x)
    check_value(f, np.asarray(x).astype(np.float32))
    if not source.startswith(("np.size", "x.astype")):
        check_derivatives(lambda x: [z * z for z in f(x)] if _many(f(x)) else f(x) ** 2, x)


def _many(y):
    return isinstance(y, (tuple, list))


@pytest.mark.parametrize("source, x, y", TWO, ids=_ids)
def test_of_two_arrays(source, x, y):
    f = _function(source, 2)
    check_value(f, x, y)
    check_derivatives(lambda x, y: [z * z for z in f(x, y)] if _many(f(x, y)) else f(x, y) ** 2, x, y)


@pytest.mark.parametrize(
    "source", ["np.concatenate([x, y])", "np.stack([x, y], 1)", "np.hstack([x, 2, y])", "np.append(x, y)"]
)
@pytest.mark.parametrize("kinds", [("f4", "f4"), ("f4", "f8"), ("i4", "f4"), ("i8", "i2"), ("?", "i1")])
def test_dtypes_of_what_is_joined(source, kinds):
    check_value(_function(source, 2), V.astype(kinds[0]), W.astype(kinds[1]))


def _batched(source, flags, arrays):
    """The program of a source for many inputs at once, and what row by row gives."""
    f = _function(source, len(arrays))
    graph, inputs, outputs = trace(f, *arrays)
    rows = [np.stack([a, 2 * a, 3 - a]) for a in arrays]
    lifted = {
        x: graph.add_input(f"b{x.id}", Aval(r.shape, r.dtype)) for x, r, b in zip(inputs, rows, flags, strict=True) if b
    }
    results = batch(graph, outputs, lifted)
    verify(graph)
    feeds = {lifted.get(x, x): r if b else a for x, r, a, b in zip(inputs, rows, arrays, flags, strict=True)}
    got = interpret(results, feeds)
    for i in range(3):
        want = f(*[r[i] if b else a for r, a, b in zip(rows, arrays, flags, strict=True)])
        for y, expected in zip(got, want if _many(want) else [want], strict=True):
            np.testing.assert_array_equal(y[i], expected)


@pytest.mark.parametrize("source, x", [case for case in ONE if "size" not in case[0]], ids=_ids)
def test_batches_of_one_array(source, x):
    _batched(source, (True,), [np.asarray(x)])


@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("source, x, y", TWO, ids=_ids)
def test_batches_of_two_arrays(source, x, y, flags):
    _batched(source, flags, [np.asarray(x), np.asarray(y)])


SOURCES = [
    ("x.reshape(3, 8)", X, "x.reshape(3, 8)"), ("x.reshape(-1)", X, "x.reshape(-1)"), ("x[:, None]", M, "x[:, None]"),
    ("x[..., None]", X, "x[..., None]"), ("x[None]", M, "x[None]"), ("np.expand_dims(x, 2)", X, "x[:, :, None]"),
    ("x.T", M, "x.T"), ("x.mT", X, "x.mT"), ("x.swapaxes(0, 1)", X, "x.swapaxes(0, 1)"),
    ("x.transpose(1, 2, 0)", X, "x.transpose(1, 2, 0)"), ("np.roll(x, 2)", V, "np.roll(x, 2)"),
    ("np.broadcast_to(x, (2, 4))", V, "np.broadcast_to(x, (2, 4))"),
    ("np.roll(x, 1, axis=1)", M, "np.roll(x, 1, axis=1)"), ("np.tile(x, 3)", V, "np.tile(x, 3)"),
    ("np.tile(x, (2, 1))", M, "np.tile(x, (2, 1))"), ("np.repeat(x, 2, axis=1)", M, "np.repeat(x, 2, axis=1)"),
    ("np.repeat(x, 2)", V, "np.repeat(x, 2)"), ("np.pad(x, 1)", M, "np.pad(x, 1)"),
    ("np.pad(x, (1, 2), mode='edge')", V, "np.pad(x, (1, 2), mode='edge')"),
    ("np.concatenate([x, x])", V, "np.concatenate([x, x])"),
    ("np.concatenate([x, x], 1)", M, "np.concatenate([x, x], axis=1)"),
    ("np.stack([x, x], axis=1)", V, "np.stack([x, x], axis=1)"), ("np.flip(x)", V, "x[::-1]"),
    ("np.fliplr(x)", M, "x[:, ::-1]"), ("x.astype(np.float32)", V, "x.astype(np.float32)"),
    ("windows(x, (2,))", V, "np.lib.stride_tricks.sliding_window_view(x, (2,))"),
    ("windows(x, 2, 1)", M, "np.lib.stride_tricks.sliding_window_view(x, 2, axis=1)"),
    ("windows(x, (2, 3), (-1, 0))", M, "np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(1, 0))"),
]  # fmt: skip


@pytest.mark.parametrize("source, x, want", SOURCES, ids=_ids)
def test_source(source, x, want):
    _, _, (node,) = trace(_function(source, 1), x)
    assert node.op.spell(node, *[Code("x")] * len(node.inputs)).text == want
    np.testing.assert_array_equal(eval(want, {"x": x, "np": np}), _function(source, 1)(x))


ERRORS = [
    (
        "windows(x, (2, 5))",
        ShapeError,
        "np.lib.stride_tricks.sliding_window_view: a window of 5 along axis 1 of shape (3, 4)",
    ),
    ("windows(x, 2)", ShapeError, "np.lib.stride_tricks.sliding_window_view: 1 windows for 2 axes"),
    (
        "windows(x, 2, 0, writeable=True)",
        UnsupportedError,
        "np.lib.stride_tricks.sliding_window_view: the argument writeable= is not supported",
    ),
    (
        "windows(x, x.astype(int)[0, 0], 0)",
        UnsupportedError,
        "np.lib.stride_tricks.sliding_window_view: a window or an axis is traced, and the size of the result "
        "would depend on its value",
    ),
    (
        "np.concatenate([x, x[:, :2]])",
        ShapeError,
        "np.concatenate: shapes (3, 4), (3, 2) do not fit together along axis 0",
    ),
    ("np.stack([x, x[:2]])", ShapeError, "np.stack: shapes (3, 4) and (2, 4) differ"),
    ("np.concatenate([x.sum(), x.sum()])", ShapeError, "np.concatenate: axis 0 is out of bounds for 0 dimensions"),
    ("np.squeeze(x, axis=1)", ShapeError, "np.squeeze: axis 1 has size 4, not 1"),
    ("np.transpose(x, (0, 0))", ShapeError, "np.transpose: axis (0, 0) names a dimension twice"),
    ("np.moveaxis(x, 0, 5)", ShapeError, "np.moveaxis: axis 5 is out of bounds for 2 dimensions"),
    ("np.reshape(x, (5, -1))", ShapeError, "cannot reshape (3, 4) to (5, -1): 12 elements do not divide by 5"),
    ("np.broadcast_to(x, (3, 3))", ShapeError, "shapes (3, 4) and (3, 3) do not broadcast: 4 against 3"),
    ("np.split(x, 2)", ShapeError, "np.split: size 3 does not divide into 2 equal parts"),
    (
        "np.repeat(x, x.astype(int)[0, 0])",
        UnsupportedError,
        "np.repeat: repeats is traced, and the size of the result would depend on its value",
    ),
    ("np.roll(x, x[0, 0])", DTypeError, "np.roll: a shift is no integer"),
    ("np.pad(x, 1, mode='mirror')", UnsupportedError, "np.pad: mode='mirror' is not supported"),
    (
        "np.pad(x, 1, mode='edge', reflect_type='odd')",
        UnsupportedError,
        "np.pad: the argument reflect_type= is not supported with mode='edge'",
    ),
    (
        "np.pad(x, 9, mode='reflect', reflect_type='odd')",
        ShapeError,
        "np.pad: reflect has no margin of 9 for axis 0 of size 3",
    ),
    ("np.ravel(x.T[:, ::2], order='K')", UnsupportedError, "np.ravel: the argument order= is not supported"),
    (
        "np.concatenate([x, x], dtype=int)",
        DTypeError,
        "np.concatenate: cannot cast float64 to int64 by the rule 'same_kind'",
    ),
    ("x.astype(int, casting='safe')", DTypeError, "cannot cast float64 to int64 by the rule 'safe'"),
]


@pytest.mark.parametrize("source, error, text", ERRORS, ids=_ids)
def test_errors(source, error, text):
    with pytest.raises(error) as caught:
        trace(_function(source, 1), M)
    assert caught.value.fact == text


SYMBOLIC = [
    ("x.reshape(-1)", "(n*m,)"), ("x.reshape(m, n).T", "(n, m)"), ("np.concatenate([x, x[:1]])", "(n + 1, m)"),
    ("x[1:-1]", None), ("np.tile(x, (2, 1))", "(2*n, m)"), ("windows(x, 3, 1)", "(n, m - 2, 3)"),
    ("np.repeat(x, 3, 1)", "(n, 3*m)"),
    ("np.pad(x, 1, mode='edge')", "(n + 2, m + 2)"), ("np.stack([x, x], 1)", "(n, 2, m)"), ("np.roll(x, 1)", "(n, m)"),
    ("np.broadcast_to(x, (3, n, m))", "(3, n, m)"), ("np.delete(x, 0, 0)", "(n - 1, m)"),
    ("np.pad(x, 2, constant_values=1.0)", "(n + 4, m + 4)"), ("x[:, None]", "(n, 1, m)"), ("np.flip(x)", "(n, m)"),
    ("x[::2]", None), ("np.take(x, [0, -1], axis=0)", "(2, m)"), ("np.sort(x, 0)", "(n, m)"),
]  # fmt: skip


@pytest.mark.parametrize("source, shape", SYMBOLIC, ids=_ids)
def test_symbolic_sizes(source, shape):
    from symgrad.derivatives.pullback import pullback

    graph, sizes = Graph(), Sizes()
    sizes.lift = lambda dim: Variable(graph, graph.size(dim))
    n, m = sizes.symbol("n"), sizes.symbol("m")
    x = Variable(graph, graph.add_input("x", Aval((n, m), np.dtype(float))))
    y = eval(source, {**NAMES, "x": x, "n": n, "m": m})
    if shape is not None:
        assert tuple(map(str, y.shape)) == tuple(map(str, eval(shape, {"n": n, "m": m})))
    (g,) = pullback(graph, [(y * y).node], [np.ones_like(y).node], [x.node])
    value = np.arange(20.0).reshape(5, 4)
    got, slope = interpret([y.node, g], {x.node: value})
    np.testing.assert_array_equal(got, eval(source, {**NAMES, "x": value, "n": 5, "m": 4}))
    graph2, (x2,), (y2,) = trace(eval(f"lambda x: {source}", {**NAMES, "n": 5, "m": 4}), value)
    y2 = Variable(graph2, y2)
    (g2,) = pullback(graph2, [(y2 * y2).node], [np.ones_like(y2).node], [x2])
    np.testing.assert_array_equal(slope, interpret([g2], {x2: value})[0])
    assert not sizes.pinned


@pytest.mark.parametrize("dtype", [bool, int, np.uint8])
def test_margins_of_means_are_rounded_in_integers_and_true_in_truths(dtype):
    x = (np.arange(12).reshape(4, 3) % 4).astype(dtype)
    found, want = sg.compile(lambda x: np.pad(x, 1, mode="mean"))(x), np.pad(x, 1, mode="mean")
    np.testing.assert_array_equal(found, want, strict=True)


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("k", [-7, 0, 2])
def test_roll_by_a_traced_shift(k, target):
    def f(x, k):
        return np.roll(x, k) * x, np.roll(x, (k, 1), (0, 1)), np.roll(x, [k, 2 * k], 1), np.roll(x, -k, (0, 1))

    x = np.arange(12.0).reshape(3, 4)
    for found, expected in zip(sg.compile(f, target=target)(x, np.int64(k)), f(x, k), strict=True):
        np.testing.assert_array_equal(found, expected)
    sg.check_grads(lambda x: f(x, np.argmax(x) + k), (x,), order=1)
