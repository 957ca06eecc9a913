"""Indexing and assignment under indices: NumPy's placement rules, winners of repeated places, batches, messages."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.lib.stride_tricks import sliding_window_view as windows

import symgrad as sg
from symgrad.core.graph import Aval, verify
from symgrad.core.interpret import interpret
from symgrad.derivatives.batch import batch
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ConcreteValueError, DTypeError, ShapeError, UnsupportedError, WriteError
from symgrad.ops import index
from symgrad.ops.index_expressions import composed, encode
from symgrad.spelling import Code
from tests.oracle import check_derivatives, check_value, trace

X = np.arange(120.0).reshape(2, 3, 4, 5) / 50 - 1.1
A = X[0, :, :, 0]  # (3, 4)
V = np.array([0.3, -1.2, 2.0, 0.7, -0.4])
K = np.array([0, 1, 1])
J = np.array([[1], [-1]])
B = A > -0.8

BASIC = [
    "0",
    "-1",
    "1:",
    "::-1",
    "0, 1, 2, 3",
    "..., 0",
    "..., None",
    "None, 0",
    ":, None, 1:",
    "1, ..., 2:",
    "0:2, :3",
    "..., ::2, 1",
    "()",
    "...",
]
ARRAYS = [
    "I", "[0, 1]", ":, I", "..., I", "I, I", "I, :, I", ":, I, I", ":, I, :, I", "J, I", ":, J, :, I", "0, :, I",
    "0, I", ":, 0, I", ":, 0, :, I", "I, None, I", "I, None", "None, I", ":, I, None, I", "I, 1:, 0", "..., I, 0",
    "I, 0", "0, ..., I", ":, 0, ..., I, :", ":, I, ..., I, :", ":, I, ..., 0, :", "np.array(1)", ":, np.array(1), I",
    "np.array([], int)", "[]", ":, [True, False, True]", "C", "C, 0", "1:, D", "..., D, ::2", "I, I, I, I",
    "np.int64(1)", "np.ix_([0, 1], [2, 0])", "I[:, None], I, 0",
]  # fmt: skip
NAMES = {"np": np, "I": K, "J": J, "C": X[..., 0, 0] > -0.5, "D": X[0, :, :, 0] > -0.9}


def _key(source):
    return eval(f"np.s_[{source}]" if source != "()" else "()", NAMES)


@pytest.mark.parametrize("source", BASIC + ARRAYS)
def test_reading(source):
    key = _key(source)
    check_value(lambda x: x[key], X)
    check_value(lambda x: x[key], X.astype(np.float32))
    check_derivatives(lambda x: x[key] ** 2, X)


@pytest.mark.parametrize("source", BASIC + ARRAYS)
def test_writing(source):
    key = _key(source)
    value = np.linspace(-1, 1, X[key].size).reshape(X[key].shape)

    def write(x, v):
        y = x.copy()
        y[key] = v * v
        return y

    for v in (value, np.array(0.7)):
        check_value(write, X, v)
        check_derivatives(lambda x, v: write(x, v) ** 2, X, v)


@st.composite
def _keys(draw):
    """A shape and a key for it, of slices, numbers, arrays, masks, new axes and an Ellipsis."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    items, axis = [], 0
    joined = draw(st.sampled_from([(2,), (2, 1), (1,), (3, 2)]))
    while axis < len(shape):
        kind = draw(st.sampled_from(["slice", "int", "array", "array", "none", "mask", "stop"]))
        n = shape[axis]
        if kind == "none":
            items.append(None)
            continue
        if kind == "stop":
            break
        if kind == "slice":
            items.append(slice(draw(st.integers(-n, n)), None, draw(st.sampled_from([None, 1, 2, -1]))))
        elif kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "array":
            items.append(
                np.array(draw(st.lists(st.integers(-n, n - 1), min_size=2, max_size=2))[: joined[-1]]).reshape(-1)[
                    : joined[-1]
                ]
            )
        else:
            items.append(np.arange(n) == draw(st.integers(0, n - 1)))
        axis += 1
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return shape, tuple(items)


@given(_keys())
def test_random_keys(case):
    shape, key = case
    x = np.arange(float(np.prod(shape))).reshape(shape) + 1
    try:
        want = x[key]
    except IndexError:
        return
    check_value(lambda x: x[key], x)
    arrays = [i for i, item in enumerate(key) if isinstance(item, np.ndarray) and item.dtype != bool]

    def traced(x, *values):
        full = list(key)
        for i, value in zip(arrays, values, strict=True):
            full[i] = value
        return x[tuple(full)]

    if arrays:
        check_value(traced, x, *[key[i] for i in arrays])
    value = np.arange(float(np.size(want))).reshape(np.shape(want)) + 100
    for v in (value, np.zeros(np.shape(want)[1:]) if np.ndim(want) else value):
        check_value(lambda x, v: _assigned(x, key, v), x, v)
        _check_winners(key, x, v)


def _assigned(x, key, v):
    y = x.copy()
    y[key] = v
    return y


def _check_winners(key, x, v):
    """The map v -> x with x[key] = v is linear but for an offset: its transpose comes from NumPy itself."""
    graph, (nx, nv), (y,) = trace(lambda x, v: _assigned(x, key, v), x, v)
    g = np.random.default_rng(0).standard_normal(x.shape)
    found = pullback(graph, [y], [graph.constant(g)], [nx, nv])
    got_x, got_v = (0 if n is None else interpret([n], {nx: x, nv: v})[0] for n in found)
    base = _assigned(np.zeros_like(x), key, np.zeros_like(v))
    slopes = [
        np.sum(g * (_assigned(np.zeros_like(x), key, np.eye(1, v.size, k).reshape(v.shape)) - base))
        for k in range(v.size)
    ]
    np.testing.assert_allclose(got_v + np.zeros_like(v), np.reshape(slopes, v.shape), atol=1e-12)
    np.testing.assert_array_equal(got_x, _assigned(g, key, 0.0))


# ---- indices that are traced

TRACED = [
    ("x[i]", [0, 2, 2]), ("x[:, i]", [0, 2, 2]), ("x[i, i]", [0, 2, -1]), ("x[i[:, None], i]", [0, 2]),
    ("x[0, i]", [3, 1]), ("x[i, None, i]", [1, 2]), ("x[i[0]]", [1]), ("x[i[0], i[1]]", [1, 2]), ("x[[i[0], 1]]", [2]),
    ("x[i][:, i]", [0, 1, 1]), ("np.take(x, i)", [0, 11, 5]), ("np.take(x, i, axis=1)", [0, 3]),
    ("x.take(i, 0, mode='clip')", [-5, 1, 9]), ("np.take(x, i, 1, mode='wrap')", [-5, 1, 9]),
    ("np.take_along_axis(x, i, 1)", [[0, 1], [3, 3], [2, 0]]), ("np.take_along_axis(x, i, 0)", [[0, 1, 2, 2]]),
    ("np.take_along_axis(x, i, None)", [0, 9, 9]), ("np.take_along_axis(x[:1], i, 1)", [[0, 1], [3, 3], [2, 0]]),
    ("x[np.ix_(i, i)]", [0, 2]), ("np.choose(i, x)", [0, 2, 1, 0]),
    ("np.choose(i, [x, 2 * x, 1.0], mode='clip')", [0, 5, 1, -1]),
]  # fmt: skip


@pytest.mark.parametrize("source, i", TRACED, ids=[t[0] for t in TRACED])
def test_traced_indices(source, i):
    f = eval(f"lambda x, i: {source}", {"np": np})
    check_value(f, A, np.array(i))
    check_value(f, A.astype(np.float32), np.array(i, np.int32))
    check_value(lambda x: f(x, np.array(i)), A)
    check_derivatives(lambda x: f(x, (np.array(i) + 0 * x[0, 0]).astype(int)) ** 2, A)
    check_derivatives(lambda x: f(x, np.array(i)) ** 2, A)


@pytest.mark.parametrize(
    "source",
    [
        "y[i, 1] = v[:4]",
        "y[i] = v[:4, None]",
        "y[:, i] = v[:3, None] * v[:4]",
        "y[i, i] = v[0]",
        "y[1, i] = v[1:]",
        "y[i[:, None], i[:2]] = v[:2]",
    ],
)
@pytest.mark.parametrize("i", [[0, 1, 0, 2], [2, 1, 0, -1], [1, 1, 1, 1]])
def test_the_last_of_several_writers_wins(source, i):
    known = np.array(i)

    def f(x, v, i=known):
        y = x.copy()
        exec(source, {"y": y, "i": i, "v": v, "np": np})
        return y * y

    check_value(f, A, V)
    check_derivatives(f, A, V)
    check_value(f, A, V, np.array(i))
    check_derivatives(lambda x, v: f(x, v, (np.array(i) + 0 * x[0, 0]).astype(int)), A, V)


def test_distinct_constant_places_need_no_mask():
    graph, (_, v), (y,) = trace(lambda x, v: _assigned(x, [2, 0, 1], v), A, A)
    (g,) = pullback(graph, [y], [graph.constant(A)], [v])
    assert g.op is index.GET
    graph, (_, v), (y,) = trace(lambda x, v: _assigned(x, [2, 0, 2], v), A, A)
    assert pullback(graph, [y], [graph.constant(A)], [v])[0].op.name == "where"


# ---- batches

BATCHED = [
    "x[:, 1:]", "x[0]", "x[i]", "x[:, i]", "x[i, i]", "x[i, :, i]", "x[:, i, i]", "x[:, i, :, i]",
    "x[i[:, None], :, i]", "x[:, 0, :, i]", "x[:, None, i]", "x[i[0]]", "x[..., i[0]]", "x[i[0], :, i[1]]",
    "x[i, None, i]", "np.take_along_axis(x, x.astype(int) % 2, 1)", "x[:, i, ..., i, :]", "put(x, i, v[0])",
    "put(x, np.s_[:, i], v)", "put(x, np.s_[:, i, :, i], v)", "put(x, np.s_[:, i, i], v[0, 0])",
    "put(x, np.s_[1:, :, 0], v)", "put(x, np.s_[i, :, 1], v[..., 0])", "put(x, (i[0], i[1]), v)", "add(x, i, v[0])",
    "add(x, np.s_[:, i], v)", "add(x, np.s_[:, i, :, i], v)", "add(x, np.s_[..., 0], 2.0)", "np.sort(x, 1)",
    "np.argsort(x, 2)",
]  # fmt: skip


def _add(x, key, v):
    y = x.copy()
    np.add.at(y, key, v)
    return y


@pytest.mark.parametrize("flags", [f for f in itertools.product([True, False], repeat=3) if any(f)], ids=str)
@pytest.mark.parametrize("source", BATCHED)
def test_batches(source, flags):
    names = {"np": np, "put": _assigned, "add": _add}
    used = [name in source.replace("index", "").replace("astype", "").replace("axis", "") for name in ("x", "i", "v")]
    if not any(f and u for f, u in zip(flags, used, strict=True)):
        return
    x, i = np.arange(81.0).reshape(3, 3, 3, 3) % 17, np.array([0, 2])
    f = eval(f"lambda x, i, v: {source}", names)
    v = np.arange(6.0).reshape(2, 3)[:, :, None] if "v" not in source else _fitting(f, x, i)
    arrays = [x, i, v]
    rows = [np.stack([x, x[::-1], x + 1]), np.stack([i, i[::-1], i * 0 + 1]), np.stack([v, 2 * v, v - 3])]
    graph, inputs, (y,) = trace(f, *arrays)
    lifted = {
        n: graph.add_input(f"b{n.id}", Aval(r.shape, r.dtype)) for n, r, b in zip(inputs, rows, flags, strict=True) if b
    }
    if not set(lifted) & set(_inputs(y)):
        return
    (result,) = batch(graph, [y], lifted)
    verify(graph)
    (got,) = interpret(
        [result], {lifted.get(n, n): r if b else a for n, r, a, b in zip(inputs, rows, arrays, flags, strict=True)}
    )
    for k in range(3):
        np.testing.assert_array_equal(
            got[k], f(*[r[k] if b else a for r, a, b in zip(rows, arrays, flags, strict=True)])
        )


def _inputs(node):
    return [node] if not node.inputs else [x for n in node.inputs for x in _inputs(n)]


def _fitting(f, x, i):
    """Values that fit, of as many numbers as can be."""
    for shape in [(2, 2, 3, 3), (3, 2, 3, 3), (2, 3, 3), (2, 3, 3, 3), (3, 3, 3), (2, 3), (3,), (1, 3), (2, 1, 3)]:
        v = np.arange(float(np.prod(shape))).reshape(shape)
        try:
            f(x, i, v)
        except (ValueError, IndexError):
            continue
        return v
    raise AssertionError("nothing fits")


# ---- functions

FUNCTIONS = [
    "np.sort(x)", "np.sort(x, 0)", "np.sort(x, axis=None)", "np.sort(x[0], kind='stable')",
    "np.compress([True, False, True], x, 0)", "np.compress([0, 1], x)", "np.extract(B, x)", "np.take(x, 3)",
    "np.take(x, [[0], [2]], 0)", "x[np.tril_indices(3, m=4)]", "np.choose([0, 2, 1, 0], x)",
    "np.take_along_axis(x, np.argsort(x, axis=1), axis=1)", "x.choose([x, 2.0]) if x.dtype == int else x",
    "x.flat[3:7]", "x.flat[5]", "sum(x.flat)",
]  # fmt: skip


@pytest.mark.parametrize("source", FUNCTIONS)
def test_functions(source):
    f = eval(f"lambda x: {source}", {"np": np, "B": B})
    x = A[:, ::-1] * np.array([1, -1.013, 2.07, 1.51])
    check_value(f, x)
    check_derivatives(lambda x: f(x) ** 2, x)


@pytest.mark.parametrize(
    "source",
    [
        "np.argsort(x)", "np.argsort(x, 0, kind='stable')", "np.argsort(x, axis=None)", "x.argsort(0)",
        "np.searchsorted(np.sort(x[0]), x)", "np.searchsorted(np.array([-1.0, 0.0]), x, side='right')",
        "np.searchsorted(x[0], 0.1, sorter=np.argsort(x[0]))", "x[0].searchsorted([0.0, 1.0])",
        "np.digitize(x, [-1.0, 0.0, 0.5])", "np.digitize(x, [0.5, 0.0, -1.0], right=True)",
    ],
)  # fmt: skip
def test_places(source):
    check_value(eval(f"lambda x: {source}", {"np": np}), A * np.array([1, -1, 2, 1.5]))


# ---- source and messages

SOURCES = [
    ("x[1:]", "x[1:]"), ("x[:, 0]", "x[:, 0]"), ("x[..., 0, :]", "x[:, :, 0]"), ("x[..., -1]", "x[..., -1]"),
    ("x[0, :, None]", "x[0, :, None]"), ("x[:, 0:3:1, 1:]", "x[:, :, 1:]"), ("x[0, 1, 2, 3]", "x[0, 1, 2, 3]"),
    ("x[::-1, 0:9]", "x[::-1]"), ("x[:, [0, 1]]", "x[:, c]"),
    ("np.argsort(x)", "np.argsort(x)"), ("np.argsort(x, 0, kind='stable')", "np.argsort(x, axis=0, kind='stable')"),
]  # fmt: skip


@pytest.mark.parametrize("source, want", SOURCES)
def test_source(source, want):
    _, _, (node,) = trace(eval(f"lambda x: {source}", {"np": np}), X)
    assert node.op.spell(node, Code("x"), *[Code("c")] * (len(node.inputs) - 1)).text == want


SIZED = ": the size of the result depends on values, and sizes are known before the program runs"
MASKED = "indexing with a traced boolean mask: the size of the result depends on values"
WRITTEN = ": a traced value would be written into an array that exists before the program runs"
ERRORS = [
    ("x[3]", ShapeError, "index 3 is out of bounds for axis 0 of size 3"),
    ("x[:, [0, -5]]", ShapeError, "index -5 is out of bounds for axis 1 of size 4"),
    ("x[0, 0, 0]", ShapeError, "3 indices for an array of 2 dimensions"),
    ("x[..., ...]", ShapeError, "an index can have one Ellipsis only"),
    ("x[1.0]", DTypeError, "an index array of dtype float64"),
    ("x[x]", DTypeError, "an index array of dtype float64"),
    ("x[True]", UnsupportedError, "indexing with a single True or False"),
    ("x[:, [True, False, True]]", ShapeError, "a mask of size 3 for axis 1 of size 4"),
    ("x[x > 0] @ x", UnsupportedError, MASKED),
    ("np.cumsum(x[x > 0])", UnsupportedError, MASKED),
    ("np.argwhere(x)", UnsupportedError, "np.argwhere" + SIZED),
    ("np.unique(x)", UnsupportedError, "np.unique" + SIZED),
    ("np.compress(x[:, 0] > 0, x, 0)", UnsupportedError, "np.compress" + SIZED),
    ("np.take(x, [0, 12])", ShapeError, "index 12 is out of bounds for axis 0 of size 12"),
    ("np.take(x, 0, mode='other')", UnsupportedError, "np.take: mode='other'"),
    (
        "np.take_along_axis(x, np.array([0]), 1)",
        ShapeError,
        "np.take_along_axis: indices of 1 dimensions for an array of 2",
    ),
    ("np.take_along_axis(x, x, 1)", DTypeError, "np.take_along_axis: indices of dtype float64"),
    ("np.put_along_axis(np.zeros((3, 4)), np.argsort(x), 0.0, 1)", WriteError, "np.put_along_axis" + WRITTEN),
    (
        "np.digitize(1.0, x[:2, :2])",
        ShapeError,
        "np.digitize: bins has 2 dimensions, not 1",
    ),
]


@pytest.mark.parametrize("source, error, text", ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(source, error, text):
    with pytest.raises(error) as caught:
        trace(eval(f"lambda x: {source}", {"np": np}), A)
    assert caught.value.fact == text


@pytest.mark.parametrize("source", ["x[x.astype(int)[0, 0]:]", "range(3)[x.astype(int)[0, 0]]"])
def test_an_index_that_needs_its_value(source):
    with pytest.raises(ConcreteValueError, match=r"np\.take\(a, i\)"):
        trace(eval(f"lambda x: {source}", {"np": np}), A)


def test_a_traced_number_as_index_gives_a_view():
    def f(x):
        y = x.copy()
        row = y[np.argmax(y[:, 0])]
        row *= 2
        return y, row

    check_value(f, A)


# ---- what was scattered under slices is added elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 7, 12])
def test_a_slice_of_a_slice_is_one(n):
    """Wherever an answer is given: for bounds on both sides of zero, beyond the ends, and steps."""
    bounds = [None, 0, 1, 3, 9, -1, -2, -8]
    slices = [encode(np.empty(n), slice(*item))[0][0] for item in itertools.product(bounds, bounds, [None, 2, 3, -1])]
    found = 0
    for outer, inner in itertools.product(slices, [*slices, 0, 2, -1]):
        places = np.arange(n)[slice(*outer)]
        if isinstance(inner, int):
            if not -len(places) <= inner < len(places):
                continue
            both = places[inner]
        else:
            both = places[slice(*inner)]
        at_once = composed(outer, inner)
        if at_once is None:
            continue
        found += 1
        key = at_once if isinstance(at_once, int) else slice(*at_once)
        np.testing.assert_array_equal(np.arange(n)[key], both, err_msg=f"{outer} {inner}")
    assert found > len(slices)


WINDOWED = {
    "every second window": (lambda x: windows(x, 5)[::2], (14,)),
    "from the third on": (lambda x: windows(x, 4)[2::3], (15,)),
    "up to the last but one": (lambda x: windows(x, 3)[:-1:4], (16,)),
    "patches": (lambda x: windows(x, (3, 2))[::2, ::2], (7, 8)),
    "patches of one row": (lambda x: windows(x, (3, 2))[1, ::2], (7, 8)),
    "patches of parts": (lambda x: windows(x, (3, 2))[::3, 1:-1, ::2, 1:], (7, 8)),
    "windows backwards": (lambda x: windows(x, 5)[::-2], (14,)),
    "slices of slices": (lambda x: x[2:][::2][:-1] * x[:-2][::2][1:], (12,)),
    "one window": (lambda x: windows(x, 5)[3], (14,)),
}


@pytest.mark.parametrize("optimize", [1, 2])
@pytest.mark.parametrize("name", WINDOWED)
def test_windows_with_a_step(name, optimize):
    f, shape = WINDOWED[name]

    def loss(x):
        return np.sum(np.sin(f(x)) * f(x))

    x = np.random.default_rng(1).normal(size=shape)
    expected = sg.grad(loss, optimize=0)(x)
    symbols = "float64[n]" if len(shape) == 1 else "float64[n, m]"
    for spec in (x, symbols):
        np.testing.assert_allclose(sg.grad(loss, optimize=optimize).compile(spec)(x), expected, rtol=1e-12)


@pytest.mark.parametrize("spec", ["float64[100]", "float64[n]"])
def test_the_derivative_of_windows_with_a_step_is_added_where_they_lie(spec, whole):
    source = sg.grad(lambda x: np.sum(np.sin(windows(x, 6)[::2])), optimize=1).source(spec)
    assert "d_x[2:-3:2] += " in source
    assert source.count("np.zeros") == 1
