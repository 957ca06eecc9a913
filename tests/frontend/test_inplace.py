"""Views and assignment: what a program leaves in its arrays is what NumPy leaves there."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core.graph import Aval, Graph
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.errors import DTypeError, ScalarError, ShapeError, UnsupportedError, WriteError
from symgrad.frontend.variable import Variable
from tests.forms import count
from tests.oracle import check_derivatives, check_value, trace

X = np.arange(12.0).reshape(3, 4) / 10 + 0.3
V = np.array([0.5, -1.5, 2.5])


def program(*steps):
    """A function that copies its first argument and runs statements on it; the arrays in its locals are its results."""
    code = compile("\n".join(steps), "<program>", "exec")

    def f(x, *more):
        names = {"np": np, "x": x.copy(), "v": more[0] if more else None}
        exec(code, names)
        names.pop("v")
        kept = [value for key, value in sorted(names.items()) if key not in ("np", "__builtins__")]
        return tuple(kept)

    return f


PROGRAMS = [
    ["x[0] = 1"],
    ["x[1:, ::2] = x[:2, 1::2]"],
    ["x[:] = 2 * x"],
    ["x[...] = 5"],
    ["x[:, None] *= 2"],
    ["x[0] += x[1]"],
    ["x[0, 1] += 3"],
    ["x[0, 1] **= 2", "x[0, 1] /= 3"],
    ["y = x[1]", "y[2] = 7"],
    ["y = x[1]", "x[1, 2] = 7"],
    ["y = x[1:]", "z = y[:, 1]", "z[0] = 9", "x[1] *= 2", "z += 1"],
    ["y = x.T", "y[0] = 1", "x[:, 1] = 2"],
    ["y = x.reshape(2, 6)", "y[1] = 0", "x[0] = 3"],
    ["y = x.ravel()", "y[::5] += 1"],
    ["y = x.T.ravel()", "y[0] = 100", "x[1] = 7"],
    ["y = x[:, ::2].reshape(6)", "y[0] = 100", "x[1] = 7"],
    ["y = x[::2].reshape(2, 2, 2)", "y[0, 0] = 100", "x[2] = 7"],
    ["y = x.flatten()", "y[0] = 100", "x[1] = 7"],
    ["y = x.copy()", "y[0] = 100", "x[1] = 7"],
    ["y = np.squeeze(x[:1])", "y[0] = 5"],
    ["y = np.expand_dims(x, 1)", "y[0] = 5", "x += 1"],
    ["y = np.moveaxis(x[None], 0, 1)", "y[1] -= 5"],
    ["y = np.flip(x, 1)", "y[0, 0] = 5", "x[1] = 6"],
    ["a, b = np.split(x, 2, axis=1)", "a[0] = 1", "x[2] = b[:, 0].sum()", "b += a"],
    ["x[0], x[1] = x[1].copy(), x[0].copy()"],
    ["x[0], x[1] = x[1].copy(), x[0]"],
    ["x[[0, 2]] = x[[2, 0]]"],
    ["x[[0, 2]] += 1"],
    ["y = x[[0, 2]]", "y += 1"],
    ["x[[0, 0, 1]] += 1"],
    ["x[[0, 0, 1], 1] = [1.0, 2.0, 3.0]"],
    ["x += np.ones(4)"],
    ["x -= np.ones((1, 4))", "x[0] = np.ones((1, 4))"],
    ["np.multiply(x, 2, out=x)"],
    ["np.add(x[0], x[1], out=x[2])"],
    ["y = np.empty_like(x)", "np.exp(x, out=y)", "y[0] = 1"],
    ["np.sum(x, axis=0, out=x[0])"],
    ["np.add(x, 1, out=x, where=x > 0.5)"],
    ["x[1:] += x[:-1]"],
    ["x[:-1] = x[1:]"],
    ["for i in range(1, 3): x[i] += x[i - 1]"],
    ["for row in x: row *= 2"],
    ["x.fill(2)", "x[0] = 1"],
    ["x.sort(axis=0)"],
    ["x.flat[::5] = 1"],
    ["x.flat = 3"],
    ["np.copyto(x, 1, where=x > 0.72)"],
    ["np.put(x, [0, -1], [5, 6])"],
    ["np.place(x, x > 0.72, 1)"],
    ["y = np.full(4, 0.5)", "np.place(y, np.array([True, False, True, True]), [1.0, 2.0])", "x *= y"],
    ["np.fill_diagonal(x, 0)"],
    ["np.put_along_axis(x, np.argmax(x, axis=1)[:, None], 0.0, 1)"],
    ["np.add.at(x, [0, 0, 1], 2.0)", "np.subtract.at(x, (slice(None), [1, 1]), 1.0)"],
    ["y = np.zeros((), like=x)", "z = y", "y += 1", "z[...] = z * 5"],
    ["y = x[0, 0]", "z = y", "y += 1"],
    ["y = x[0, 0, ...]", "z = y", "y += 1", "x[0] *= 3"],
    ["y = x.sum()", "z = y", "y += 1"],
    ["y = x[0, :1].reshape(())", "y += 1", "z = y[()]", "z += 1"],
    ["y = np.zeros_like(x.T)", "z = y + 1", "y[0] = x[:, 0]"],
    ["x[x > 0.72] = 0"],
    ["x[x > 0.72] += 1"],
    ["x[x > 0.72] *= x[x > 0.72]"],
    ["m = x > 0.72", "x[m] = np.exp(x[m]) - 2 * x[m]"],
    ["x[x[:, 0] > 0.5] = x[0]"],
    ["x[x[:, 0] > 0.5, 1] = 0"],
    ["x[1:][:, x[0] > 0.4] = 0"],
    ["x[1][x[0] > 0.4] = 0"],
    ["x[x > 0.72] = np.array([2.0])"],
    ["x[..., x[0] > 0.4] -= 1"],
    ["y = np.rot90(x)", "y[0] = 0"],
    ["y = np.atleast_3d(x)", "y[0] = 0"],
    ["y, z = np.broadcast_arrays(x, x)", "y[0] = 0"],
    ["y = x.view() if False else x[:]", "y += 1"],
    ["y = x.astype(float, copy=False)", "z = x.astype(float)", "y += 1"],
    ["y = np.take(x, 0, axis=0)", "y += 1"],
    ["y = x.swapaxes(0, 1)[1]", "y += 1"],
]


@pytest.mark.parametrize("steps", PROGRAMS, ids="; ".join)
def test_programs(steps):
    check_value(program(*steps), X)


DIFFERENTIABLE = [
    ["x[0] = v.sum()", "x[1:, 0] *= v[:2]"],
    ["y = x[1]", "y *= v[0]", "x[:, 2] = v"],
    ["for i in range(1, 3): x[i] *= x[i - 1] * v[i]"],
    ["x[[0, 2]] = x[[2, 0]] * v[0]"],
    ["x[[0, 0, 1], 1] = v"],
    ["x[:, [1, 1]] = v[:, None] * np.array([2.0, 3.0])"],
    ["x[x > 0.72] *= v[0]"],
    ["x[x > 0.72] = x[x > 0.72] ** 2 * v[1]"],
    ["x[np.argsort(v)[:2], 1] = v[1:]"],
    ["x[np.argsort(v) * 0, 1] = v * v"],
    ["i = np.argmax(v)", "y = x[i]", "y *= v[0]", "x[i] += 1"],
    ["np.add.at(x, (np.array([0, 0, 1]), 2), v)"],
    ["np.put(x, [1, 1, 5], v)"],
    ["np.put_along_axis(x, np.argsort(x, axis=1)[:, :1], v[:, None], 1)"],
    ["y = x.reshape(-1)", "y[::4] = v", "x[1] *= y[0]"],
]


@pytest.mark.parametrize("steps", DIFFERENTIABLE, ids="; ".join)
def test_derivatives(steps):
    def floats(*args):
        return tuple(y for y in program(*steps)(*args) if getattr(y, "dtype", None) == np.dtype(float))

    check_value(program(*steps), X, V)
    check_derivatives(floats, X, V)


# ---- random programs


@st.composite
def _programs(draw):
    """Statements that make views and copies of arrays, and write into them."""
    steps, names = [], ["x"]
    for i in range(draw(st.integers(2, 8))):
        name = draw(st.sampled_from(names))
        if draw(st.booleans()):
            view = draw(st.sampled_from(_VIEWS))
            steps.append(f"a{i} = {view.format(name)}")
            names.append(f"a{i}")
        else:
            steps.append(draw(st.sampled_from(_WRITES)).format(name, draw(st.sampled_from(names))))
    return steps


_VIEWS = [
    "{}[1:]", "{}[::-1]", "{}[..., 0]", "{}[:1]", "{}[..., ::2]", "{}.T", "{}.reshape(-1)", "{}.ravel()", "{}[None]",
    "{}[...]", "{}.copy()", "np.copy({})", "{}[[0]]", "{}[0]", "{}.reshape(2, -1)", "{}.reshape(-1, 2)",
    "{}.swapaxes(0, -1)", "np.squeeze({})", "np.zeros_like({})", "{}[..., None]", "{} + 0", "{}.flatten()",
    "{}[0, ...]", "{}[()]", "np.flip({})", "{}.astype(float)",
]  # fmt: skip
_WRITES = [
    "{0}[0] = {1}.sum()", "{0}[..., -1] += 1", "{0} *= 2", "{0}[...] = {1}", "{0}[::2] = 3", "{0} += {1}",
    "{0}[0] -= {0}[-1]", "{0}[1:] = {1}[:-1]", "{0}[{0} > 1] = 0", "x.fill({1}.sum())", "np.add({0}, {1}, out={0})",
    "{0}[-1], {0}[0] = {0}[0], {0}[-1]", "x.T.flat[1] = 7", "{0}[[0, -1]] += 1", "{0}[0][...] = 4",
]  # fmt: skip


def _run(steps, x):
    """Names to arrays after the steps; statements that NumPy refuses are left out and told."""
    names, refused = {"np": np, "x": x.copy()}, []
    for step in steps:
        try:
            exec(step, names)
        except (ValueError, IndexError, TypeError, AttributeError, NameError) as error:
            refused.append(step)
            if isinstance(error, UnsupportedError | WriteError) and "may give a view" in str(error):
                raise
    return {key: value for key, value in names.items() if key not in ("np", "__builtins__")}, refused


@given(_programs())
def test_random_programs(steps):
    x = np.arange(1.0, 13.0).reshape(3, 4)
    expected, refused = _run(steps, x)
    graph = Graph()
    node = graph.add_input("x", Aval(x.shape, x.dtype))
    try:
        results, also_refused = _run(steps, Variable(graph, node, "x is an argument"))
        nodes = {key: value.node for key, value in results.items()}
    except WriteError as error:
        assert "may give a view" in str(error)
        return
    assert refused == also_refused
    values = interpret(list(nodes.values()), {node: x})
    for key, value in zip(nodes, values, strict=True):
        np.testing.assert_array_equal(value, expected[key], err_msg=f"{key} after {steps}")
        assert results[key].shape == np.shape(expected[key])


# ---- what is not allowed


def _message(error, f, *args):
    with pytest.raises(error) as caught:
        trace(f, *args)
    lines = str(caught.value).split("\n")
    return "\n".join([lines[0], *[line.strip() for line in lines[2:]]])


def _locked(write):
    graph = Graph()
    x = Variable(graph, graph.add_input("x", Aval((3, 4), np.dtype(float))), "x is an argument: do not")
    with pytest.raises(WriteError) as caught:
        write(x)
    assert str(caught.value).startswith("x is an argument: do not")
    assert str(caught.value).endswith("Write into a copy: x = x.copy().")


@pytest.mark.parametrize(
    "steps",
    [
        "x[0] = 1", "x += 1", "x[0] += 1", "x[x > 1] = 0", "y = x[1:].T; y[0] = 1", "np.add(x, 1, out=x)", "x.fill(0)",
        "x.sort()", "x[:].reshape(2, 6)[0] = 1", "np.copyto(x, 1)", "np.put(x, 0, 1)", "x.flat[0] = 1", "x.flat = 1",
        "np.add.at(x, 0, 1)", "np.fill_diagonal(x, 0)",
    ],
)  # fmt: skip
def test_an_argument_is_never_written_into(steps):
    _locked(lambda x: exec(steps, {"x": x, "np": np}))


def test_a_number_of_an_argument_is_bound_anew():
    def f(x):
        y = x[0, 0]
        y += 1
        return y, x

    check_value(f, X)


INDEX = "Give a value that broadcasts to the place, or write into a slice of its shape."
ERRORS = [
    ("x[0] = np.ones(3)", ShapeError, "a value of shape (3,) cannot be written into the shape (4,)\n" + INDEX),
    (
        "x[...] = np.ones((2, 3, 4))",
        ShapeError,
        "a value of shape (2, 3, 4) cannot be written into the shape (3, 4)\n" + INDEX,
    ),
    (
        "x += np.ones((1, 3, 4))",
        ShapeError,
        "a result of shape (1, 3, 4) cannot be written into an array of shape (3, 4)\n"
        "Give an array of the shape of the result.",
    ),
    ("x[3] = 0", ShapeError, "index 3 is out of bounds for axis 0 of size 3\nWrite an index from -3 to 2."),
    (
        "np.broadcast_to(x, (2, 3, 4))[0] = 1",
        WriteError,
        "np.broadcast_to gives a read-only array\nWrite into a copy: x = x.copy().",
    ),
    (
        "i = np.zeros(3, int, like=x); i += 0.5",
        DTypeError,
        "a float64 result cannot be written into a int64 array\n"
        "Give that array a dtype that holds the result, or convert it: x = result.astype(dtype).",
    ),
    (
        "x[x > 1] = np.ones((3, 4))",
        UnsupportedError,
        "an array of shape (3, 4) is assigned to x[mask], whose size depends on the values of mask\n"
        "Give a value of the shape of x: x = np.where(mask, value, x), or x[mask] = value[mask].",
    ),
    (
        "x[x > 1] = x[x > 2]",
        UnsupportedError,
        "elements selected by one traced mask are combined with elements selected by another\n"
        "Use one mask for both: x[mask] = y[mask].",
    ),
    (
        "x[x > 1].cumsum()",
        UnsupportedError,
        "indexing with a traced boolean mask: the size of the result depends on values\n"
        "Write np.where(mask, x, 0); np.sum(x[mask]) and its like, x[mask] = y and x[mask] += y are supported.",
    ),
    (
        "a = np.zeros(3); np.add(a, x[0, :3], out=a)",
        WriteError,
        "a traced value would be written into an array that exists before the program runs\n"
        "For x += y write x = x + y; for out=x of a function give np.empty(shape, like=y).",
    ),
    ("s = x.sum(); s[...] = 1", ScalarError, "a scalar cannot be written into\nBind the name anew: x = value."),
    (
        "np.maximum.at(x, 0, 1)",
        UnsupportedError,
        "np.maximum.at is not supported\nWrite it with np.maximum in a `for` loop.",
    ),
    (
        "np.copyto(np.zeros((3, 4)), x)",
        WriteError,
        "np.copyto: a traced value would be written into an array that exists before the program runs\n"
        "Make that array with np.zeros(shape, like=x) or symgrad.numpy.zeros(shape).",
    ),
]


@pytest.mark.parametrize("steps, error, text", ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(steps, error, text):
    assert _message(error, lambda x: exec(steps, {"x": x.copy(), "np": np}), X) == text


@pytest.mark.parametrize(
    "steps", ["a = np.zeros(3); a[0] = x[0, 0]", "a = np.zeros(4); a[:] = x[0]", "a = np.zeros(4); a[:] += x[0]"]
)
def test_writing_into_an_array_that_numpy_makes(steps):
    def f(x):
        scope = {"x": x, "np": np}
        exec(steps, scope)
        return scope["a"]

    np.testing.assert_array_equal(sg.compile(f)(X), f(X))


def test_of_a_reshape_that_may_be_a_copy_one_side_is_read_after_a_write():
    sizes = Sizes()
    graph = Graph()
    n = sizes.symbol("n")
    x = Variable(graph, graph.add_input("x", Aval((n, 4), np.dtype(float)))).copy()
    y, other = x.T.reshape(-1), x.T.reshape(-1)
    x[0] = 1
    with pytest.raises(WriteError, match="may give a view"):
        np.sum(y)
    x = Variable(graph, graph.inputs[0]).copy()
    row, y, other = x[0], x.T.reshape(-1), x.T.reshape(-1)
    part = other[2:]
    part[0] = 2  # and with it all of `other`
    np.sum(other)
    for whole in (x, row, y):
        with pytest.raises(WriteError, match="may give a view"):
            np.sum(whole)
    x = Variable(graph, graph.inputs[0]).copy()
    z = x.reshape(-1)  # of an array that is in one piece it is a view for every n
    z[0] = 1


def test_what_is_reshaped_may_be_written_into_whatever_the_order_of_the_argument():
    def f(x):
        y = (x * 2).reshape(-1)
        y[0] = 5.0
        y[1:3] *= 2
        z = y[2:]
        z[0] = 7.0
        return y * y.sum()

    x = np.arange(6.0).reshape(2, 3)
    for ordered in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(sg.compile(f)(ordered), f(ordered))


@pytest.mark.usefixtures("whole")
def test_generated_code_leaves_the_argument_alone():
    """Under a traced number NumPy gives a view: writing into it must not reach the array that it is read from."""

    def f(x):
        y = x.copy()
        i = np.argmax(y[:, 0])
        row = y[i]
        row[1] = 5 * row[0]
        return np.sum(y * y) + np.sum(row)

    x = X.copy()
    value, slope = sg.value_and_grad(f)(x)
    np.testing.assert_array_equal(x, X)
    assert value == f(X)
    want = 2 * X
    want[2, 1] = 0
    want[2] += [0, 0, 1, 1]
    want[2, 0] += 1 + 5 * (2 * 5 * X[2, 0] + 1)
    np.testing.assert_allclose(slope, want)


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("dtype", [float, bool, np.int8])
@pytest.mark.parametrize(("subscripts", "shape"), [("ii->i", (3, 3)), ("jij->ij", (3, 4, 3)), ("iji->ji", (2, 3, 2))])
def test_einsum_of_one_array_is_a_view(subscripts, shape, dtype, optimize):
    def f(x):
        x = x.copy()
        diagonal = np.einsum(subscripts, x)
        x[:1] = 0
        seen = diagonal.copy()
        diagonal[-1] = 1
        return x, diagonal, seen

    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    for found, expected in zip(sg.compile(f, optimize=optimize)(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


# ---- what is read-only when the program runs


def frozen(x):
    x.flags.writeable = False
    return x


FROZEN = frozen(X.copy())
READ_ONLY = {
    "the argument": "x",
    "a view of it": "x[1:].T",
    "an array from outside": "FROZEN",
    "a row for all": "np.broadcast_to(2 * x[0], (3, 4))",
    "a constant for all": "np.broadcast_to(np.zeros(4), (3, 4))",
    "windows": "np.lib.stride_tricks.sliding_window_view(2 * x[0], 2)",
    "diagonals": "np.diagonal(np.stack([x, x]), axis1=0, axis2=1)",
    "its flag is off": "frozen(2 * x)",
    "a constant whose flag is off": "frozen(np.zeros((3, 4)))",
}
WRITES = [
    "y[...] = 1", "y[0] += 1", "y += 1", "y[y > 1] = 0", "y[[0, 0]] = 1", "y.T[0] = 1", "y.flat[0] = 1", "y.fill(0)",
    "y.sort()", "np.add(y, 1, out=y)", "np.cumsum(y, axis=0, out=y)", "np.copyto(y, 1)", "np.put(y, 0, 1)",
    "np.place(y, y > 9, [1.0])", "np.putmask(y, y > 9, 1.0)", "np.fill_diagonal(y, 0)",
    "np.put_along_axis(y, np.zeros((1, 2), int), 0.0, 0)", "np.nan_to_num(y, copy=False)", "for row in y: row *= 2",
]  # fmt: skip
ANEW = [
    "x.copy()", "x + 0", "1 * x", "-(-x)", "x.T.T + 0", "np.array(x)", "x.astype(float)", "np.maximum(x, x)",
    "np.where(True, x, 0)", "np.concatenate([x])", "np.tile(x, 1)", "np.repeat(x, 1, axis=0)", "x[[0, 1, 2]]",
    "np.zeros((3, 4)) + x[0]", "np.ones((3, 1)) * x[0]", "np.full((3, 4), x[0])", "np.full((3, 4), x[0, 0])",
    "np.broadcast_to(x[0], (3, 4)) + 0", "np.broadcast_to(x[0], (3, 4)).copy()", "np.tile(x[0], (3, 1))",
    "np.broadcast_to(np.sum(x), (3, 4)) * 1", "np.sum(x, axis=0, keepdims=True) + np.zeros((3, 4))",
    "np.diagonal(x) * np.ones((4, 1))", "np.lib.stride_tricks.sliding_window_view(x[0], 2) + 0",
    "np.array(FROZEN)", "np.where(x > 0, FROZEN, FROZEN)",
]  # fmt: skip
"""Arrays of their own in NumPy; simplified, some are the argument, an array from outside, or a read-only view."""


NAMES = {"np": np, "frozen": frozen, "FROZEN": FROZEN}


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", READ_ONLY)
def test_what_is_read_only_is_not_written_into(name, level):
    """Also where a write would change nothing. NumPy raises a ValueError, and so does symgrad."""
    for write in WRITES:
        names = dict(NAMES)
        exec(f"def f(x):\n y = {READ_ONLY[name]}\n {write}\n return np.sum(y * x[0, 0])", names)
        for f in (names["f"], sg.compile(names["f"], optimize=level), sg.grad(names["f"], optimize=level)):
            with pytest.raises(ValueError):
                f(FROZEN)
    np.testing.assert_array_equal(FROZEN, X)


def written(y, x):
    """In a straight line, in a loop and in a branch."""
    y[0] = 5.0
    for i in range(2):
        y[1] += x[0, 0] * y[i]
    if x[0, 0] > 0:
        y[2:] *= y[0]
    return y


def test_a_ufunc_that_writes_into_a_view_of_an_argument_is_refused_by_name():
    def f(y):
        np.multiply.at(np.ravel(y, order="F"), np.array([1, 2]), 0)
        return np.sum(y)

    with pytest.raises(UnsupportedError, match=r"np\.multiply\.at is not supported"):
        sg.grad(f)(np.ones((2, 5)))


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_is_made_of_a_read_only_array_is_written_into(level):
    """The caller may write into the results as well."""
    made = [eval(f"lambda x: {array}", dict(NAMES)) for array in ANEW]

    def f(x):
        found = [written(make(x), x) for make in made]
        return sum(np.sum(np.sin(y)) for y in found), found

    wanted = f(FROZEN)
    (value, found), slope = sg.value_and_grad(f, has_aux=True, optimize=level)(FROZEN)
    assert value == pytest.approx(wanted[0], rel=1e-13)
    alone = sg.compile(f, optimize=level)(FROZEN)[1]
    for array, want, *results in zip(ANEW, wanted[1], found, alone, strict=True):
        for result in results:
            np.testing.assert_allclose(result, want, rtol=1e-14, err_msg=array)
            assert result.flags.writeable, array
    direction, step = np.cos(X), 1e-6
    difference = (f(X + step * direction)[0] - f(X - step * direction)[0]) / (2 * step)
    assert np.sum(slope * direction) == pytest.approx(difference, rel=1e-6)
    np.testing.assert_array_equal(FROZEN, X)


# ---- arrays that are put together


def shifted(x, y):
    return np.concatenate([x[:1], x[1:] * y[:-1]])


def read_again(x, y):
    t = x * y
    return np.concatenate([t, t[:1] * y[0]]) * np.sum(t)


JOINS = {
    "shifted": (shifted, "np.multiply(x[1:], y[:-1], out=value[1:])"),
    "the middle": (lambda x, y: np.concatenate([x[:1], np.sin(x[1:-1]), y[-1:]]), "np.sin(x[1:-1], out=value[1:-1])"),
    "columns": (
        lambda x, y: np.concatenate([x[:, None], (x * y)[:, None] * [1.0, 2.0]], axis=1),
        "np.multiply(_, _, out=value[:, 1:])",
    ),
    "an empty end": (lambda x, y: np.concatenate([x * y, x[:0]]), "value = x * y"),
    "read again": (read_again, "np.concatenate([_, _])"),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", JOINS)
def test_what_is_joined_is_computed_where_it_belongs(name, dtype, whole):
    f, form = JOINS[name]

    def value_of(x, y):
        value = f(x, y)
        return value, x

    x, y = np.random.default_rng(0).normal(size=(2, 20_000)).astype(dtype)
    program = sg.compile(value_of).compile(x, y)
    assert count(program.source, form) == 1
    value, _ = program(x, y)
    expected = f(x, y)
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-5 if dtype == "float32" else 1e-13)
    assert not np.shares_memory(value, x)
    assert sg.compile(value_of, optimize=1).compile(x, y).cost.peak >= program.cost.peak


RUNS = range(0, 20_000, 2000)


def test_few_numbers_and_other_dtypes_are_joined_by_one_call(whole):
    for f, specs in (
        (shifted, ["float64[1000]"] * 2),
        (lambda x, y: np.concatenate([x, y * y]), ["float64[20000]", "float32[20000]"]),
        (
            lambda x, y: np.concatenate([x[i : i + 2000] * y[i : i + 2000] for i in range(0, 20_000, 2000)]),
            ["float64[20000]"] * 2,
        ),
    ):
        assert "np.concatenate([" in sg.compile(f).source(*specs)


@pytest.mark.parametrize("optimize", [1, 2])
def test_zeros_are_made_rather_than_copied(optimize):
    """Several arrays begin as the same zeros."""

    def loss(x, i):
        a = np.zeros(x.shape)
        b = a.copy()
        b[i] = x[i] * 2
        a[i] = x[i]
        return np.sum(np.sin(a) * b)

    x, i = np.random.default_rng(0).normal(size=9), np.array([3, 1, 3])
    program = sg.value_and_grad(loss, optimize=optimize).compile(x, i)
    assert ".copy()" not in program.source
    value, gradient = program(x, i)
    expected, wanted = sg.value_and_grad(loss, optimize=0)(x, i)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-13)
    assert program.cost.peak <= sg.value_and_grad(loss, optimize=0).compile(x, i).cost.peak


def test_zeros_that_are_read_as_well_are_copied():
    def f(x, i):
        a = np.zeros(x.shape)
        b = a.copy()
        b[i] = x[i]
        c = a.copy()
        c[i] = 2 * x[i]
        return a, b, c

    x, i = np.arange(1.0, 10.0), np.array([3, 1])
    for found, expected in zip(sg.compile(f)(x, i), f(x, i), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_dead_arrays_are_released_early_where_speed_is_wanted(whole):
    def chain(x):
        return np.sum(np.sort(np.sin(np.sort(np.cos(np.sort(x) * x) * x)) * x))

    sources = [sg.grad(chain, optimize=level).source("float64[40000]") for level in (1, 2)]
    assert "    del " not in sources[0]
    assert "    del " in sources[1]
