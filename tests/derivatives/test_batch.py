"""Batches against row by row, and the Jacobians that stand on them against finite differences and JAX."""

from itertools import product
from types import FunctionType

import numpy as np
import pytest

from symgrad.core.axes import aligned, axis_numbers, beside
from symgrad.core.graph import SEED, Aval, Graph, reached, verify
from symgrad.core.interpret import interpret
from symgrad.core.shapes import same_shape
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.batch import batch
from symgrad.derivatives.jacobian import jacobian_fwd, jacobian_rev
from symgrad.derivatives.pullback import pullback
from symgrad.errors import DTypeError, GraphError, SymgradError, UnsupportedError
from symgrad.frontend.variable import Variable
from symgrad.ops.define import operator
from symgrad.ops.marks import STOP, named
from tests.documents import operators_go_again
from tests.fuzz import generated
from tests.oracle import trace


@pytest.fixture(autouse=True)
def operators():
    """Operators that a test defines are gone after it."""
    with operators_go_again():
        yield


RNG = np.random.default_rng(0)
F8, F4 = np.dtype(float), np.dtype("f4")


def rows_of(size, *shape, dtype=F8):
    return RNG.uniform(0.2, 1.8, (size, *shape)).astype(dtype)


def lift_inputs(graph, inputs, flags, size, ends=()):
    """Inputs for many values of the flagged ones, a mapping of these to those; the axis for them is the first, or the
    last where `ends` says -1."""
    return {
        x: graph.add_input(f"rows{i}", Aval((size, *x.aval.shape) if end == 0 else (*x.aval.shape, size), x.aval.dtype))
        for i, (x, flag, end) in enumerate(zip(inputs, flags, ends or [0] * len(inputs), strict=True))
        if flag
    }


def check_batch(f, *rows, rtol=1e-13):
    """Batched over each choice of arguments, at each choice of ends, `f` is what it gives row by row; `rows` hold three
    of each argument."""
    for flags, ends in product(product((False, True), repeat=len(rows)), product((0, -1), repeat=len(rows))):
        if not any(flags):
            continue
        graph, inputs, outputs = trace(f, *[r[0] for r in rows])
        lifted = lift_inputs(graph, inputs, flags, 3, ends)
        images = batch(graph, outputs, lifted, dict(zip(inputs, ends, strict=True)), to=ends[0])
        verify(graph)
        feeds = {
            lifted[x] if flag else x: np.moveaxis(r, 0, end) if flag else r[0]
            for x, flag, end, r in zip(inputs, flags, ends, rows, strict=True)
        }
        results = interpret(images, feeds)
        each = [f(*[r[i if flag else 0] for r, flag in zip(rows, flags, strict=True)]) for i in range(3)]
        each = zip(*[y if isinstance(y, tuple) else (y,) for y in each], strict=True)
        for image, result, expected in zip(images, results, [np.stack(ys, ends[0]) for ys in each], strict=True):
            assert image.aval == Aval(expected.shape, expected.dtype), flags
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype), flags
            np.testing.assert_allclose(
                result, expected, rtol=rtol if expected.dtype != F4 else 1e-6, err_msg=str(flags)
            )


def in_place(x, y):
    z = x.copy()
    z[1:] += y[1:]
    z[0] = 2 * y[2]
    z *= x
    return z, z[::-1]


def put_apart(x, y):
    z = x.copy()
    z[[0, 1], :, [1, 0]] = y
    w = x.copy()
    np.add.at(w, ([0, 0], slice(None), [1, 1]), y)
    return z, w


def diagonal_of(x):
    return x[np.arange(3), np.arange(3)]


PROGRAMS = {
    "chain": (lambda x: np.exp(np.sin(x) * 2 - 1) / (x * x + 1), (3,)),
    "scalars": (lambda x, y: x * y + np.sqrt(x), (), ()),
    "broadcasting": (lambda x, y: x * y + 1, (4,), (2, 1)),
    "broadcasting of a scalar": (lambda x, y: (x - y) * x, (), (2, 4)),
    "three ranks": (lambda x, y, z: np.where(x > y, z * y, x), (2,), (3, 2), (4, 1, 2)),
    "comparison": (lambda x, y: x < y, (3,), (2, 3)),
    "constants": (lambda x: x * np.arange(6.0).reshape(2, 3) + np.arange(3), (3,)),
    "unused": (lambda x, y: (x + 1, y * 2), (3,), (2,)),
    "sum": (lambda x: np.sum(x), (2, 3)),
    "sum over an axis": (lambda x: (np.sum(x, axis=0), np.sum(x, axis=-1)), (2, 3)),
    "sum over axes": (lambda x: (np.sum(x, axis=(0, 2)), np.sum(x, axis=(-1, 1), keepdims=True)), (2, 3, 4)),
    "sum kept": (lambda x: np.sum(x, keepdims=True) * x, (2, 3)),
    "mean": (lambda x: (np.mean(x), np.mean(x, axis=1), np.mean(x, axis=0, keepdims=True)), (2, 3)),
    "any, all": (lambda x: (np.any(x > 1, axis=0), np.all(x > 0.5)), (2, 3)),
    "sum of a scalar": (lambda x: np.sum(x), ()),
    "reshape": (lambda x: (x.reshape(6), x.reshape(3, -1), np.reshape(x, (1, 2, 3, 1))), (2, 3)),
    "transpose": (lambda x: (x.T, np.swapaxes(x, 0, 2), np.transpose(x, (1, 2, 0))), (2, 3, 4)),
    "broadcast_to": (lambda x: (np.broadcast_to(x, (4, 2, 3)), np.broadcast_to(x, (2, 3))), (2, 1)),
    "casts": (lambda x: (x.astype("f4"), x.copy(), (x * 3).astype(int)), (2, 3)),
    "like": (lambda x: (np.zeros_like(x) + x, np.ones_like(x) * 2), (2, 3)),
    "index": (lambda x: (x[0], x[-1, 1], x[:, None, 1:], x[..., ::-1], x[1:2]), (2, 3)),
    "index arrays": (lambda x: (x[[2, 0, 2]], x[:, np.array([[0, 1], [1, 1]])], x[[0, 1], :, [1, 0]]), (3, 3, 2)),
    "index arrays apart": (lambda x: (x[:, [0, 1], :, [1, 0]], x[[2, 0], :, 1], x[1, :, [0, 1, 1]]), (3, 3, 2, 2)),
    "assignment to index arrays": (put_apart, (2, 3, 2), (2, 3)),
    "diagonal": (diagonal_of, (3, 3)),
    "in place": (in_place, (3, 2), (3, 2)),
    "matmul": (lambda x, y: x @ y, (2, 3), (3, 4)),
    "matmul vector, vector": (lambda x, y: x @ y, (3,), (3,)),
    "matmul vector, matrix": (lambda x, y: x @ y, (3,), (3, 4)),
    "matmul matrix, vector": (lambda x, y: x @ y, (2, 3), (3,)),
    "matmul of stacks": (lambda x, y: x @ y, (5, 2, 3), (3, 4)),
    "matmul with a stack": (lambda x, y: x @ y, (2, 3), (5, 3, 4)),
    "matmul of two ranks": (lambda x, y: x @ y, (5, 1, 2, 3), (4, 3, 2)),
    "matmul of a stack and a vector": (lambda x, y: x @ y, (5, 2, 3), (3,)),
    "matmul of a vector and a stack": (lambda x, y: x @ y, (3,), (5, 3, 2)),
    "logistic": (lambda w, X, y: np.sum(np.log1p(np.exp(-y * (X @ w)))), (3,), (4, 3), (4,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_batch_is_row_by_row(name):
    f, *shapes = PROGRAMS[name]
    check_batch(f, *[rows_of(3, *shape) for shape in shapes])


@pytest.mark.parametrize("name", ["chain", "broadcasting", "mean", "index", "in place", "matmul", "like", "sum kept"])
def test_batch_keeps_float32(name):
    f, *shapes = PROGRAMS[name]
    check_batch(f, *[rows_of(3, *shape, dtype=F4) for shape in shapes])


def test_marks():
    check_batch(lambda x: named(x * 2, "h") + STOP(x) if isinstance(x, Variable) else x * 2 + x, rows_of(3, 2))


def test_integers_and_booleans():
    rows = np.arange(18).reshape(3, 2, 3)
    check_batch(lambda x: (x // 2, np.sum(x, axis=0), x & 1, x / 2, x.astype(np.int8) * 2), rows)
    check_batch(lambda x: (~x, x | x[::-1], np.where(x, 1.0, 2.0)), rows % 4 == 1)


def test_index_arrays_that_are_lifted():
    x, i = rows_of(3, 4, 2), np.array([[0, 1, 0], [3, 3, 1], [2, 0, 1]])
    check_batch(lambda x, i: (x[i], x[i, 1], x[:, i % 2]), x, i)


def test_derivatives_can_be_batched():
    def check(f, *shapes):
        rows = [rows_of(3, *shape) for shape in shapes]
        graph, inputs, (y,) = trace(f, *[r[0] for r in rows])
        gradients = pullback(graph, [y], [graph.constant(np.ones(y.aval.shape))], inputs)
        lifted = lift_inputs(graph, inputs, [True] * len(rows), 3)
        images = interpret(batch(graph, gradients, lifted), dict(zip(lifted.values(), rows, strict=True)))
        for i in range(3):
            one = interpret(gradients, {x: r[i] for x, r in zip(inputs, rows, strict=True)})
            for image, g in zip(images, one, strict=True):
                np.testing.assert_allclose(image[i], g, rtol=1e-13)

    check(PROGRAMS["logistic"][0], (3,), (4, 3), (4,))
    check(lambda x, y: in_place(x, y)[0], (3, 2), (3, 2))
    check(lambda x: np.maximum(x[[0, 2, 0]], 1) @ x[1:].T, (3, 2))


@pytest.mark.parametrize("seed", range(1, 31))
def test_random_programs(seed):
    """Every floating argument is lifted, along any axis; float16 is left out, whose sums depend on their order."""
    program, rng = generated(seed), np.random.default_rng(seed)
    args = [np.asarray(x) for x in program.values(program.sizes[0])]
    try:
        graph, inputs, outputs = trace(program.function(), *args)
    except SymgradError:
        pytest.skip("refused")
    values = dict(zip(inputs, args, strict=True))
    axes = {x: int(rng.integers(0, x.aval.ndim + 1)) for x in inputs if x.aval.differentiable}
    if not axes or any(node.aval.dtype == np.float16 for node in graph.nodes if type(node.aval) is Aval):
        pytest.skip("nothing to lift, or float16")
    shapes = {x: (*x.aval.shape[:i], 3, *x.aval.shape[i:]) for x, i in axes.items()}
    images = {x: graph.add_input(f"{x.id}s", Aval(shape, x.aval.dtype)) for x, shape in shapes.items()}
    rows = [{x: (values[x] * (1 + k / 16)).astype(x.aval.dtype) for x in axes} for k in range(3)]
    feeds = {images[x]: np.stack([row[x] for row in rows], i) for x, i in axes.items()}
    with np.errstate(all="ignore"):
        results = interpret(batch(graph, outputs, images, axes, to=-1), values | feeds)
        each = zip(*[interpret(outputs, values | row) for row in rows], strict=True)
        for result, expected in zip(results, [np.stack(ys, -1) for ys in each], strict=True):
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


# ---- the graph that is appended


def traced(*shapes, dtype=F8):
    graph = Graph()
    return graph, [Variable(graph, graph.add_input(f"x{i}", Aval(shape, dtype))) for i, shape in enumerate(shapes)]


def test_what_does_not_depend_is_shared():
    graph, (x, y) = traced((3,), (3,))
    shared = np.exp(y)
    z = shared * x
    (image,) = batch(graph, [z.node], {x.node: graph.seed(Aval((5, 3), F8))})
    assert shared.node in image.inputs
    assert sum(node.op.name == "exp" for node in graph.nodes) == 1


def test_output_that_does_not_depend_is_broadcast():
    graph, (x, y) = traced((3,), (2,))
    z = np.exp(y)
    (image,) = batch(graph, [z.node], {x.node: graph.seed(Aval((5, 3), F8))})
    assert (image.op.name, image.inputs, image.aval.shape) == ("broadcast_to", (z.node,), (5, 2))
    values = np.array([0.5, 1.0])
    np.testing.assert_array_equal(interpret([image], {y.node: values})[0], np.broadcast_to(np.exp(values), (5, 2)))


def test_lifted_intermediate_cuts_the_graph():
    graph, (x,) = traced((3,))
    h = np.exp(x)
    y = h * x
    seed = graph.seed(Aval((2, 3), F8))
    known = len(graph.nodes)
    image, same = batch(graph, [y.node, h.node], {h.node: seed, x.node: graph.seed(Aval((2, 3), F8))})
    assert same is seed
    assert [node.op.name for node in graph.nodes[known:]] == ["seed", "multiply"]
    assert image.inputs[0] is seed


def test_names_and_lines_are_kept():
    graph, (x,) = traced((3,))
    h = np.exp(x)
    (image,) = batch(graph, [h.node], {x.node: graph.seed(Aval((2, 3), F8))})
    assert graph.names[image] == "h"
    assert image.where == h.node.where
    assert graph.provenance is None


def test_provenance_is_restored_after_an_error():
    def refuse(*args, **params):
        raise RuntimeError

    graph, (x,) = traced((3,))
    y = operator(lambda x: x, name="bad", infer=lambda x: x, batch=refuse)(x)
    with pytest.raises(RuntimeError):
        batch(graph, [y.node], {x.node: graph.seed(Aval((2, 3), F8))})
    assert graph.provenance is None


def test_long_programs_need_no_stack():
    graph, (x,) = traced(())
    y = x
    for _ in range(3000):
        y = np.sin(y)
    (image,) = batch(graph, [y.node], {x.node: graph.seed(Aval((2,), F8))})
    assert image.aval.shape == (2,)


# ---- Python numbers


@pytest.mark.parametrize("dtype", [F8, F4])
def test_python_number_that_is_lifted_widens_nothing(dtype):
    graph, (x,) = traced((2,), dtype=dtype)
    number = graph.add_input("number", Aval((), F8, True))
    a = Variable(graph, number)
    outputs = [(a * 2 * x).node, np.where(x > a, x, a * 3).node, (a * a).node, (x**a).node]
    rows = graph.add_input("rows", Aval((3,), F8))
    images = batch(graph, outputs, {number: rows})
    verify(graph)
    xs, numbers = np.array([1.5, 0.3], dtype), [0.1, 0.7, 1.9]
    results = interpret(images, {x.node: xs, rows: np.array(numbers)})
    for i, value in enumerate(numbers):
        for result, expected in zip(results, interpret(outputs, {x.node: xs, number: value}), strict=True):
            assert result.dtype == np.asarray(expected).dtype
            np.testing.assert_array_equal(result[i], expected)


def test_python_integer_that_is_lifted_widens_nothing():
    graph, (x,) = traced((2,), dtype=F4)
    number = graph.add_input("number", Aval((), np.dtype(int), True))
    y = x * Variable(graph, number)
    rows = graph.add_input("rows", Aval((3,), np.dtype(int)))
    (image,) = batch(graph, [y.node], {number: rows})
    (result,) = interpret([image], {x.node: np.array([1.5, 0.3], F4), rows: np.array([2, 3, -1])})
    assert image.aval == Aval((3, 2), F4)
    np.testing.assert_array_equal(result, np.array([1.5, 0.3], F4) * np.array([[2], [3], [-1]], F4))


# ---- operators of users


def spread_of(x, scale=1.0):
    return np.min(x) * scale, np.max(x, keepdims=True)


def infer_spread(x, scale=1):
    return Aval((), x.dtype), Aval((1,), x.dtype)


@pytest.mark.parametrize("with_rule", [False, True])
def test_several_results(with_rule):
    def all_spreads(batched, x, scale):
        assert (batched, scale) == ((True,), 2)
        return many(x, scale=scale)

    many = operator(
        lambda x, scale: (np.min(x, axis=1) * scale, np.max(x, axis=1, keepdims=True)),
        name="spreads",
        infer=lambda x, scale: (Aval(x.shape[:1], x.dtype), Aval((x.shape[0], 1), x.dtype)),
    )
    spread = operator(spread_of, infer=infer_spread, batch=all_spreads if with_rule else None)
    check_batch(lambda x: tuple(spread(x, scale=2)), rows_of(3, 4))


def test_row_by_row_without_a_rule():
    op = operator(lambda p, x: np.polyval(p, x), name="poly", arrays=2, infer=lambda p, x: Aval(x.shape, F8))
    check_batch(lambda p, x: op(p, x) + 1, rows_of(3, 3), rows_of(3, 2))
    many = operator(lambda *xs: xs[0] * xs[1], name="joined", arrays=-1, infer=lambda *xs: xs[0])
    check_batch(lambda x, y: many([x, y]) if isinstance(x, Variable) else x * y, rows_of(3, 2), rows_of(3, 2))


def flipped(function, **facts):
    """An operator of the user's, along an axis."""
    signature = lambda y, x, axis: beside((axis,), y, x)
    return operator(function, name="flipped", infer=lambda x, axis=0: x, signature=signature, **facts)


def test_an_operator_says_which_parameters_speak_of_axes():
    op = flipped(lambda x, axis=0: np.flip(x, axis), axes={"axis": axis_numbers})
    check_batch(lambda x: (op(x), op(x, axis=1)), rows_of(3, 2, 4))
    graph, (x,) = traced((3, 2))
    lifted = {x.node: graph.seed(Aval((3, Sizes().symbol("n"), 2), F8))}
    (image,) = batch(graph, [op(x, axis=1).node], lifted, {x.node: 1})
    assert [node.op.name for node in reached([image])] == ["seed", "flipped", "transpose"]
    assert dict(image.inputs[0].params) == {"axis": 2}


def test_several_results_on_stacks():
    """Their one stack is all that is said of their axes."""
    op = operator(lambda x: (np.sin(x), np.abs(x)), name="parts", infer=lambda x: (x, x), signature=aligned)
    check_batch(lambda x: tuple(op(x)), rows_of(3, 2))
    graph, (x,) = traced((3,))
    lifted = {x.node: graph.seed(Aval((Sizes().symbol("n"), 3), F8))}
    images = batch(graph, [y.node for y in op(x)], lifted)
    assert [node.op.name for node in reached(images)] == ["seed", "parts", "item", "item"]


def test_several_results_have_no_labels_along_axes():
    op = operator(
        lambda x, axis=0: (np.sin(x), np.flip(x, axis)),
        name="parts",
        infer=lambda x, axis=0: (x, x),
        axes={"axis": axis_numbers},
        signature=lambda y, x, axis: beside((axis,), y, x),
    )
    check_batch(lambda x: tuple(op(x)), rows_of(3, 2))


def test_what_parameters_are_wrongly_said_to_be_is_not_taken():
    """The new axis would be reversed; its label says that it would not come through."""
    op = flipped(lambda x, axis=0: np.flip(x, axis), axes={"axis": lambda axis, at, ndim, size: axis})
    check_batch(lambda x: op(x), rows_of(3, 2))


def test_a_rule_may_leave_it_to_the_signature():
    twice = operator(
        lambda x: 2 * x,
        name="twice",
        infer=lambda x: x,
        signature=aligned,
        batch=lambda batched, x: NotImplemented,
    )
    check_batch(lambda x: twice(x), rows_of(3, 2))
    graph, (x,) = traced((3,))
    (image,) = batch(graph, [twice(x).node], {x.node: graph.seed(Aval((Sizes().symbol("n"), 3), F8))})
    assert image.op.name == "twice"


def test_an_axis_stays_where_it_lies():
    graph, (x, y) = traced((3,), (4, 3))
    z = np.sum(np.exp(x) * y, axis=-1) + 1
    image = graph.seed(Aval((3, 5), F8))
    (result,) = batch(graph, [z.node], {x.node: image}, {x.node: -1}, to=-1)
    assert [node.op.name for node in reached([result]) if image in reached([node])] == [
        "seed", "exp", "multiply", "sum", "add"
    ]  # fmt: skip
    assert result.aval.shape == (4, 5)


def test_no_rows():
    op = operator(lambda x: x * 2, name="twice", infer=lambda x: Aval(x.shape, x.dtype))
    graph, (x,) = traced((3,))
    lifted = {x.node: graph.seed(Aval((0, 3), F8))}
    y = op(x)
    assert [image.aval.shape for image in batch(graph, [y.node, np.sum(y).node], lifted)] == [(0, 3), (0,)]


def test_refused_without_a_rule_for_symbolic_batches():
    op = operator(lambda x: x, name="opaque", infer=lambda x: x)
    graph, (x,) = traced((3,))
    y = op(x)
    with pytest.raises(UnsupportedError) as error:
        batch(graph, [y.node], {x.node: graph.seed(Aval((Sizes().symbol("n"), 3), F8))})
    assert error.value.fact == "opaque has no batch rule, and n is not a fixed number of rows to loop over"
    assert error.value.instead == "Give its operator(...) batch=, or compile for exact sizes."
    assert error.value.where == y.node.where


def test_wrong_rule_is_caught():
    op = operator(lambda x: x, name="wrong", infer=lambda x: x, batch=lambda batched, x: np.sum(x, axis=0))
    graph, (x,) = traced((3,))
    y = op(x)
    with pytest.raises(GraphError) as error:
        batch(graph, [y.node], {x.node: graph.seed(Aval((2, 3), F8))})
    assert error.value.fact == "the batch rule of np.wrong gives float64[3] for rows of float64[3]"


@pytest.mark.parametrize("shape, dtype", [((2, 4), F8), ((3,), F8), ((), F8), ((2, 3), F4)])
def test_image_that_does_not_fit(shape, dtype):
    graph, (x,) = traced((3,))
    with pytest.raises(GraphError) as error:
        batch(graph, [x.node], {x.node: graph.seed(Aval(shape, dtype))})
    assert error.value.fact == f"{Aval(shape, dtype)} does not hold rows of float64[3]"


def test_images_of_different_sizes():
    graph, (x, y) = traced((3,), (3,))
    images = {x.node: graph.seed(Aval((2, 3), F8)), y.node: graph.seed(Aval((4, 3), F8))}
    with pytest.raises(GraphError, match="does not hold rows"):
        batch(graph, [(x + y).node], images)
    with pytest.raises(GraphError, match="nothing to batch over: no node is lifted"):
        batch(graph, [(x + y).node], {})


# ---- symbolic sizes

SYMBOLIC = {
    "elementwise": lambda x, y: np.exp(x) * y + 1,
    "broadcasting": lambda x, y: x * np.sum(y) + y[:, None] * x,
    "reductions": lambda x, y: np.sum(x * y) * x + np.mean(y, keepdims=True),
    "matmul": lambda x, y: (y[:, None] * x) @ x,
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_number_of_rows(name):
    sizes = Sizes()
    rows, n = sizes.symbol("rows"), sizes.symbol("n")
    graph, (x, y) = traced((n,), (n,))
    z = SYMBOLIC[name](x, y)
    lifted = lift_inputs(graph, [x.node, y.node], (True, False), rows)
    (image,) = batch(graph, [z.node], lifted)
    verify(graph)
    assert same_shape(image.aval.shape, (rows, *z.shape))
    xs, ys = rows_of(4, 3), rows_of(3)
    (result,) = interpret([image], {lifted[x.node]: xs, y.node: ys})
    np.testing.assert_allclose(result, np.stack([SYMBOLIC[name](row, ys) for row in xs]), rtol=1e-13)


@pytest.mark.parametrize("jacobian", [jacobian_rev, jacobian_fwd])
def test_symbolic_jacobian(jacobian):
    n = Sizes().symbol("n")
    graph, (x, A) = traced((n,), (n, n))
    y = A @ np.sin(x) * np.sum(x)
    ((J,),) = jacobian(graph, [y.node], [x.node])
    verify(graph)
    assert same_shape(J.aval.shape, (n, n))
    xs, As = rows_of(3), rows_of(3, 3)
    (result,) = interpret([J], {x.node: xs, A.node: As})
    expected = As * np.cos(xs) * np.sum(xs) + (As @ np.sin(xs))[:, None]
    np.testing.assert_allclose(result, expected, rtol=1e-13)


# ---- Jacobians

BOTH = pytest.mark.parametrize("jacobian", [jacobian_rev, jacobian_fwd])


def evaluate_jacobian(jacobian, f, *args):
    graph, inputs, outputs = trace(f, *args)
    rows = jacobian(graph, outputs, inputs)
    verify(graph)
    nodes = [J for row in rows for J in row]
    assert not any(node.op is SEED for node in reached(nodes)), "a seed is left"
    values = iter(interpret(nodes, dict(zip(inputs, args, strict=True))))
    result = [[next(values) for _ in row] for row in rows]
    for row, y in zip(rows, outputs, strict=True):
        assert [J.aval.shape for J in row] == [(*y.aval.shape, *x.aval.shape) for x in inputs]
    return result


def numeric_jacobian(f, args, j, eps=1e-6):
    """Central differences of each result by the j-th argument."""
    columns = []
    for place in np.ndindex(args[j].shape):
        shifted = [[np.array(a) for a in args] for _ in range(2)]
        shifted[0][j][place] += eps
        shifted[1][j][place] -= eps
        high, low = (f(*s) for s in shifted)
        pairs = zip(high, low, strict=True) if isinstance(high, tuple) else [(high, low)]
        columns.append([(h - w) / (2 * eps) for h, w in pairs])
    return [np.stack(c, axis=-1).reshape((*np.shape(c[0]), *args[j].shape)) for c in zip(*columns, strict=True)]


def newton_map(x, A):
    return x - A @ x / np.sum(x * x), np.mean(A)


JACOBIANS = {
    "elementwise": (lambda x: np.tanh(x) * x, (3,)),
    "of a matrix": (lambda x: np.exp(x) @ x.T, (2, 3)),
    "of a scalar": (lambda x: np.sin(x) * np.arange(3.0), ()),
    "scalar of a scalar": (lambda x: np.sin(x) * x, ()),
    "scalar": (lambda x, y: np.sum(x * x) * y[0], (2, 3), (2,)),
    "one element": (lambda x: x[0] * x[:, :1] * x[1, 2], (2, 3)),
    "shape (1, 1)": (lambda x: np.exp(x) * x, (1, 1)),
    "to one element": (lambda x: np.reshape(np.sum(x * x), (1, 1)), (2, 3)),
    "two and two": (newton_map, (3,), (3, 3)),
    "disconnected": (lambda x, y: (x * 2, np.sum(y) * y), (3,), (2, 2)),
    "identity": (lambda x: x, (2, 2)),
    "constant": (lambda x, y: y * 1.0, (3,), (2,)),
    "in place": (lambda x, y: in_place(x, y)[0], (3, 2), (3, 2)),
    "choice": (lambda x: np.where(x > 1, np.log(x), x * x), (5,)),
    "indexing": (lambda x: x[[0, 2, 0]] * x[1:, ::-1][0], (3, 2)),
    "broadcasting": (lambda x, y: x * y, (3, 1), (2,)),
    "mean": (lambda x: x - np.mean(x, axis=0, keepdims=True), (3, 2)),
}


@BOTH
@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobian_is_that_of_finite_differences(name, jacobian):
    f, *shapes = JACOBIANS[name]
    args = [rows_of(1, *shape)[0] for shape in shapes]
    result = evaluate_jacobian(jacobian, f, *args)
    for j in range(len(args)):
        for row, expected in zip(result, numeric_jacobian(f, args, j), strict=True):
            assert row[j].dtype == F8
            np.testing.assert_allclose(row[j], expected, rtol=1e-6, atol=1e-8)


def with_numpy(f, numpy):
    """`f` with another module in the place of NumPy."""
    return FunctionType(f.__code__, {**f.__globals__, "np": numpy}, f.__name__, f.__defaults__, f.__closure__)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


@BOTH
@pytest.mark.parametrize("name", [name for name in JACOBIANS if name not in ("in place", "indexing")])
def test_jacobian_is_that_of_jax(name, jacobian, jax):
    f, *shapes = JACOBIANS[name]
    args = [rows_of(1, *shape)[0] for shape in shapes]
    expected = jax.jacobian(with_numpy(f, jax.numpy), tuple(range(len(args))))(*args)
    result = evaluate_jacobian(jacobian, f, *args)
    for row, want in zip(result, expected if isinstance(expected[0], tuple) else (expected,), strict=True):
        for J, other in zip(row, want, strict=True):
            np.testing.assert_allclose(J, other, rtol=1e-12, atol=1e-14)


@BOTH
def test_jacobian_keeps_float32(jacobian):
    x, y = rows_of(1, 3, dtype=F4)[0], rows_of(1, 3, dtype=F4)[0]
    ((by_x, by_y), (zero, _)) = evaluate_jacobian(jacobian, lambda x, y: (np.exp(x) * y, y * 2.0), x, y)
    assert by_x.dtype == by_y.dtype == zero.dtype == F4
    np.testing.assert_allclose(by_x, np.diag(np.exp(x) * y), rtol=1e-6)


def test_jacobian_of_mixed_dtypes():
    def f(x, y):
        return x * y

    x, y = rows_of(1, 3, dtype=F4)[0], rows_of(1, 3)[0]
    assert [J.dtype for J in evaluate_jacobian(jacobian_rev, f, x, y)[0]] == [F4, F8]
    assert [J.dtype for J in evaluate_jacobian(jacobian_fwd, f, x, y)[0]] == [F8, F8]


@BOTH
def test_jacobian_by_a_python_number(jacobian):
    graph, (x,) = traced((3,), dtype=F4)
    number = graph.add_input("number", Aval((), F8, True))
    y = np.sin(Variable(graph, number) * x)
    ((by_number, by_x),) = jacobian(graph, [y.node], [number, x.node])
    verify(graph)
    value = np.array([0.5, 1.0, 1.5], F4)
    results = interpret([by_number, by_x], {number: 0.5, x.node: value})
    np.testing.assert_allclose(results[0], value * np.cos(0.5 * value), rtol=1e-6)
    np.testing.assert_allclose(results[1], np.diag(0.5 * np.cos(0.5 * value)), rtol=1e-6)
    assert results[1].dtype == F4


@BOTH
def test_jacobian_by_an_intermediate(jacobian):
    graph, (x,) = traced((3,))
    h = x * x
    y = np.sin(h) + h[::-1]
    ((J,),) = jacobian(graph, [y.node], [h.node])
    (result,) = interpret([J], {x.node: np.array([0.5, 1.0, 1.5])})
    np.testing.assert_allclose(result, np.diag(np.cos([0.25, 1, 2.25])) + np.eye(3)[::-1], rtol=1e-13)


@BOTH
def test_jacobian_without_elements(jacobian):
    assert evaluate_jacobian(jacobian, lambda x: np.exp(x) * np.sum(x), np.zeros(0))[0][0].shape == (0, 0)
    ((J,),) = evaluate_jacobian(jacobian, lambda x: np.sum(x * x, axis=0), np.zeros((0, 2)))
    assert J.shape == (2, 0, 2)


@BOTH
def test_jacobian_of_nothing(jacobian):
    graph, (x,) = traced((3,))
    assert jacobian(graph, [x.node], []) == [[]]
    assert jacobian(graph, [], [x.node]) == []


@BOTH
def test_jacobian_refuses_integers(jacobian):
    graph, (x, i) = traced((3,), (2,))
    i = graph.add_input("i", Aval((2,), np.dtype(int)))
    for outputs, wrt in (([i], [x.node]), ([x.node], [i])):
        with pytest.raises(DTypeError) as error:
            jacobian(graph, outputs, wrt)
        assert error.value.fact == "there is no Jacobian of or with respect to int64[2]"
        assert error.value.instead == "Give floating arrays: x.astype(float)."


def test_wrong_jacobian_is_noticed():
    """A check of the test itself: the comparison with finite differences sees a wrong derivative."""
    wrong = operator(lambda x: x**3, name="cube", infer=lambda x: x, vjp=lambda g, y, x: (g * 3.001 * x * x,))
    x = np.array([0.5, 1.5])
    ((J,),) = evaluate_jacobian(jacobian_rev, lambda x: wrong(x), x)
    (expected,) = numeric_jacobian(lambda x: x**3, (x,), 0)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(J, expected, rtol=1e-6, atol=1e-8)


# ---- higher orders


def derivatives_of(f, order, jacobian, *args):
    """The derivatives of a scalar function by its first argument up to `order`, each the Jacobian of the one before."""
    graph, inputs, (y,) = trace(f, *args)
    found = pullback(graph, [y], [graph.constant(1.0)], inputs[:1])
    while len(found) < order:
        ((next_one,),) = jacobian(graph, found[-1:], inputs[:1])
        found.append(next_one)
    verify(graph)
    assert not any(node.op is SEED for node in reached(found))
    return found, interpret(found, dict(zip(inputs, args, strict=True)))


def logistic_loss(w, X, y):
    return np.sum(np.log1p(np.exp(-y * (X @ w))))


@BOTH
def test_hessian_of_logistic_regression(jacobian):
    w, X, y = rows_of(1, 3)[0], RNG.standard_normal((5, 3)), np.array([1.0, -1, 1, 1, -1])
    _, (_, hessian) = derivatives_of(logistic_loss, 2, jacobian, w, X, y)
    s = 1 / (1 + np.exp(-y * (X @ w)))
    np.testing.assert_allclose(hessian, (X.T * (s * (1 - s))) @ X, rtol=1e-12)


@BOTH
@pytest.mark.parametrize(
    "f, shape",
    [
        (lambda x: np.sum(np.sin(x) * x[::-1]) * x[0], (3,)),
        (lambda x: np.sum(np.exp(x) @ x.T) / np.mean(x), (2, 2)),
        (lambda x: np.sum(np.where(x > 1, x**4, x * np.sum(x))), (3,)),
        (lambda x: np.exp(x) * x, ()),
    ],
)
def test_third_derivatives(f, shape, jacobian):
    x = rows_of(1, *shape)[0]
    _, (_, hessian, third) = derivatives_of(f, 3, jacobian, x)
    n = len(shape)
    assert third.shape == 3 * shape
    np.testing.assert_allclose(hessian, np.transpose(hessian, (*range(n, 2 * n), *range(n))), rtol=1e-10)

    def hessian_at(x):
        return derivatives_of(f, 2, jacobian_rev, x)[1][1]

    (expected,) = numeric_jacobian(hessian_at, (x,), 0)
    np.testing.assert_allclose(third, expected, rtol=1e-5, atol=1e-7)


def test_third_derivatives_are_those_of_jax(jax):
    def f(x, A):
        return np.sum(np.tanh(A @ x) ** 2) * x[1] + np.mean(np.log1p(x * x))

    x, A = rows_of(1, 3)[0], rows_of(1, 4, 3)[0]
    g = with_numpy(f, jax.numpy)
    expected = jax.jacfwd(jax.hessian(g))(x, A)
    for jacobian in (jacobian_rev, jacobian_fwd):
        np.testing.assert_allclose(derivatives_of(f, 3, jacobian, x, A)[1][2], expected, rtol=1e-10, atol=1e-13)
