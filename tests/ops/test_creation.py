"""Creation of arrays by ``like=`` and by symgrad.numpy."""

import numpy as np
import pytest

import symgrad as sg
import symgrad.numpy as snp
from symgrad.core.graph import Aval, Graph, tracing
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.batch import batch
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError, WriteError
from symgrad.frontend.variable import Variable
from symgrad.spelling import Code
from tests.oracle import check_derivatives, check_value, trace

X = np.array([0.5, -1.0, 2.0])

SOURCES = [
    ("np.zeros(3, like=x)", "np.zeros(3)"),
    ("np.zeros((2, 3), np.float32, like=x)", "np.zeros((2, 3), dtype=np.float32)"),
    ("np.ones((2, 3), like=x)", "np.ones((2, 3))"), ("np.ones(2, int, like=x)", "np.ones(2, dtype=np.int64)"),
    ("np.empty((), like=x)", "np.zeros(())"), ("np.full((2, 2), 7.5, like=x)", "np.full((2, 2), 7.5)"),
    ("np.full(2, 3, like=x)", "np.full(2, 3)"), ("np.full(2, -0.0, like=x)", "np.full(2, -0.0)"),
    ("np.full(2, True, like=x)", "np.ones(2, dtype=np.bool)"),
    ("np.full(2, 3, float, like=x)", "np.full(2, 3, dtype=np.float64)"), ("np.eye(3, like=x)", "np.eye(3)"),
    ("np.eye(2, 3, 1, like=x)", "np.eye(2, 3, k=1)"), ("np.eye(2, dtype=bool, like=x)", "np.eye(2, dtype=np.bool)"),
    ("np.identity(2, like=x)", "np.eye(2)"), ("np.arange(4, like=x)", "np.arange(4)"),
    ("np.arange(1, 9, 3, like=x)", "np.arange(1, 9, 3)"), ("np.arange(2, 5, like=x)", "np.arange(2, 5)"),
    ("np.arange(5, 0, -2, like=x)", "np.arange(5, 0, -2)"), ("np.arange(3, 1, like=x)", "np.arange(3, 1)"),
    ("np.arange(3, dtype=float, like=x)", "np.arange(3, dtype=np.float64)"),
    ("np.arange(0.0, 1.0, 0.3, like=x)", "np.arange(0.0, 1.0, 0.3)"), ("np.arange(2.5, like=x)", "np.arange(2.5)"),
]  # fmt: skip


@pytest.mark.parametrize("source, want", SOURCES)
def test_source(source, want):
    f = eval(f"lambda x: {source}", {"np": np})
    if "empty" not in source:
        check_value(f, X)
    _, _, (node,) = trace(f, X)
    number = [Code(repr(dict(n.params)["value"].value)) for n in node.inputs]
    assert node.op.spell(node, *number).text == want
    value = eval(want, {"np": np})
    assert value.dtype == node.aval.dtype and value.shape == node.aval.shape


VALUES = [
    "np.zeros_like(x)", "np.ones_like(x, dtype=int)", "np.full_like(x, 2.5)", "np.zeros_like(x, shape=(2, 2))",
    "np.full_like(x, 7, dtype=np.float32)", "np.tri(3, like=x)", "np.tri(2, 3, -1, like=x)",
    "np.tri(3, k=1, dtype=bool, like=x)", "np.array([1, 2], like=x)", "np.array([[1.0], [2.0]], ndmin=3, like=x)",
    "np.array(x, like=x)", "np.array(2.5, like=x)", "np.asarray([1, 2], like=x)", "np.asarray(x, like=x)",
    "np.asanyarray(x, np.float32, like=x)", "np.array([x[0], 1.0, x[2]], like=x)",
    "np.array([[x[0], 1], [2, x[1]]], like=x)", "np.array([x, x * 2, [1, 2, 3]], like=x)",
    "np.array((x[0], x[1]), np.float32, like=x)", "np.full((2, 3), x, like=x)", "np.full(2, x[1], like=x)",
    "np.full_like(x, x[1])", "np.linspace(x[0], x[2], 5)", "np.linspace(0.0, x, 4)",
    "np.linspace(x, 1.0, 4, endpoint=False)", "np.linspace(x, 2 * x, 3, axis=1)", "np.linspace(x[0], 1.0, 1)",
    "np.linspace(x[0], 1.0, 5, retstep=True)", "np.linspace(x[0], 1.0, 5, dtype=np.float64)",
    "np.logspace(x[0], x[1], 4)", "np.ascontiguousarray(x, like=x)",
]  # fmt: skip


@pytest.mark.parametrize("source", VALUES)
def test_values(source):
    f = eval(f"lambda x: {source}", {"np": np})
    _, (node,), results = trace(f, X)
    for got, want in zip(interpret(results, {node: X}), _several(f(X)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)
        assert np.asarray(got).dtype == np.asarray(want).dtype
    for result, want in zip(results, _several(f(X)), strict=True):
        assert result.aval.shape == np.shape(want) and result.aval.dtype == np.asarray(want).dtype
    if all(y.aval.dtype == float for y in results):
        check_derivatives(lambda x: [y * y for y in _several(f(x))], X)


def _several(y):
    return y if isinstance(y, tuple) else (y,)


def test_float32_stays():
    x = X.astype(np.float32)
    for source in (
        "np.linspace(x[0], x[1], 4)",
        "np.full((2,), x[0], like=x)",
        "np.zeros_like(x)",
        "np.array([x[0], x[1]], like=x)",
        "np.stack([x[0], 1.0])",
    ):
        check_value(eval(f"lambda x: {source}", {"np": np}), x)


@pytest.mark.parametrize("source", ["np.linspace(x, y, 4)", "np.linspace(x, y, 1)", "np.full((2, 3), y, like=x)"])
@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True)])
def test_batches(source, flags):
    f = eval(f"lambda x, y: {source}", {"np": np})
    arrays, rows = [X, np.array(0.5)], [np.stack([X, 2 * X]), np.array([3.0, -1.0])]
    graph, inputs, (result,) = trace(f, *arrays)
    lifted = {
        n: graph.add_input(f"b{n.id}", Aval(r.shape, r.dtype)) for n, r, b in zip(inputs, rows, flags, strict=True) if b
    }
    if not set(lifted) & set(result.inputs):
        return
    (got,) = interpret(
        batch(graph, [result], lifted),
        {lifted.get(n, n): r if b else a for n, r, a, b in zip(inputs, rows, arrays, flags, strict=True)},
    )
    for k in range(2):
        np.testing.assert_allclose(
            got[k], f(*[r[k] if b else a for r, a, b in zip(rows, arrays, flags, strict=True)]), rtol=1e-15
        )


# ---- symbolic sizes


@pytest.mark.parametrize(
    "source, want",
    [
        ("np.full(n, 0, float, like=x)", "np.zeros(n)"), ("snp.zeros((n, 2), like=x)", "np.zeros((n, 2))"),
        ("np.zeros_like(x, shape=(2, n))", "np.zeros((2, n))"), ("np.ones((n, 2), like=x)", "np.ones((n, 2))"),
        ("np.arange(n, like=x)", "np.arange(n)"), ("np.arange(1, n + 1, like=x)", "np.arange(1, n + 1)"),
        ("np.eye(n, like=x)", "np.eye(n)"), ("np.eye(n + 1, n, like=x)", "np.eye(n + 1, n)"),
        ("np.linspace(0.0, 1.0, n, like=x)", None),
        ("np.full(n, n, like=x)", "np.full(n, n)"), ("np.array([n, 1], like=x)", None),
        ("np.array([[n, 1], [x[0], n]], like=x)", None), ("np.arange(n, 0, -1, like=x)", "np.arange(n, 0, -1)"),
        ("np.linspace(x[0], 1.0, n)", None),
    ],
)  # fmt: skip
def test_symbolic_sizes(source, want):
    graph, sizes = Graph(), Sizes()
    sizes.lift = lambda dim: Variable(graph, graph.size(dim))
    n = sizes.symbol("n")
    x = Variable(graph, graph.add_input("x", Aval((n,), np.dtype(float))))
    if source.startswith("np.linspace(0.0"):
        source = "np.linspace(0 * x[0], 1.0, n)"
    y = eval(source, {"np": np, "snp": snp, "x": x, "n": n})
    (value,) = interpret([y.node], {x.node: X})
    expected = eval(source, {"np": np, "snp": np, "x": X, "n": 3})
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype == y.dtype
    if want is not None:
        texts = [
            Code(str(dict(i.params)["value"].value if i.op.name == "constant" else dict(i.params)["value"]))
            for i in y.node.inputs
        ]
        assert y.node.op.spell(y.node, *texts).text == want
    assert not sizes.pinned


# ---- symgrad.numpy


def _inside(f, *args):
    """Return the result of `f` inside a trace."""
    graph = Graph()
    xs = [Variable(graph, graph.add_input(f"x{i}", Aval(np.shape(a), np.asarray(a).dtype))) for i, a in enumerate(args)]
    token = tracing.set(graph)
    try:
        y = f(*xs)
    finally:
        tracing.reset(token)
    assert isinstance(y, Variable)
    return interpret([y.node], {x.node: a for x, a in zip(xs, args, strict=True)})[0]


def _table(x):
    out = snp.zeros((2, 3))
    out[0] = x
    out[1, 1:] += x[:2]
    return out


def _counts(x):
    n = snp.arange(3)
    n[0] = 5
    return (
        snp.array([x[0], 2.0, n[0]])
        + snp.ones_like(np.zeros(3)) * snp.asarray([1, 2, 3])
        + snp.linspace(0, 1, 3) @ snp.eye(3)
        + snp.exp(x)
    )


@pytest.mark.parametrize("f", [_table, _counts])
def test_symgrad_numpy(f):
    assert type(f(X)) is np.ndarray
    np.testing.assert_array_equal(_inside(f, X), f(X))
    check_value(lambda x: _shared(f, x), X)


def _shared(f, x):
    if not isinstance(x, Variable):
        return f(x)
    token = tracing.set(x.graph)
    try:
        return f(x)
    finally:
        tracing.reset(token)


def test_symgrad_numpy_is_numpy_for_the_rest():
    assert snp.pi is np.pi and snp.tanh is np.tanh and snp.linalg is np.linalg
    assert set(dir(np)) == set(dir(snp))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = snp.nothing
    assert type(snp.zeros(3)) is np.ndarray and snp.arange(3).tolist() == [0, 1, 2]
    graph = Graph()
    x = Variable(graph, graph.add_input("x", Aval((), np.dtype(float))))
    assert isinstance(snp.array([x, 1.0]), Variable)  # without a trace the graph of the Variable counts
    assert isinstance(snp.zeros(3, like=x), Variable)


def test_an_array_from_outside_is_not_written_into():
    def f(x):
        a = snp.asarray(X)
        a[0] = x[0]
        return a

    with pytest.raises(WriteError, match="would be written into an array that exists before the program runs"):
        _inside(f, X)

    def g(x):
        a = snp.array(X)
        a[0] = x[1]
        return a

    np.testing.assert_array_equal(_inside(g, X), [-1, -1, 2])


@pytest.mark.parametrize(
    "source, error, text",
    [
        ("np.zeros(-1, like=x)", ShapeError, "a shape cannot have the negative size -1"),
        ("np.arange(0.0, x[0], like=x)", UnsupportedError, "np.arange: the size of the result would depend on values"),
        ("np.arange(3, 5, 0, like=x)", ShapeError, "np.arange: step is zero"),
        ("np.array(['a'], like=x)", UnsupportedError, "an array of dtype <U1 cannot take part in a traced computation"),
        ("np.linspace(x[0], 1.0, -2)", ShapeError, "np.linspace: -2 samples"),
        (
            "np.array([x, x[:2]], like=x)",
            ShapeError,
            "a list has items of the shapes (3,) and (2,), which are not one array",
        ),
    ],
)
def test_errors(source, error, text):
    with pytest.raises(error) as caught:
        trace(eval(f"lambda x: {source}", {"np": np}), X)
    assert caught.value.fact == text


def test_np_stack_takes_no_like():
    with pytest.raises(ArgumentError, match=r"np\.stack: got an unexpected keyword argument 'like'"):
        sg.compile(lambda x: np.stack([x, x], like=x))(X)
