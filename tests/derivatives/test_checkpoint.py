"""Checkpointed functions: the same values and derivatives, less memory, nothing computed twice without need."""

import re
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core import tree
from symgrad.core.graph import ITEM, reached, verify
from symgrad.ops.checkpoint import BARRIER, CHECKPOINT, region_of
from symgrad.pipeline import optimise
from tests.oracle import trace
from tests.whole.test_random_programs import BINARY, SHAPED, UNARY, arguments, combine, contract, steps, value_of

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 3))


def same(found, expected, rtol=1e-10, atol=1e-12):
    """Trees of arrays agree to rounding, in dtype and shape too."""
    found, expected = map(tree.flatten, (found, expected))
    assert found[1] == expected[1]
    for a, b in zip(found[0], expected[0], strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def recomputed(function, *args, optimize=1):
    """Return how many values of the compiled program are rematerialised."""
    return sum(node.where.again for node in function.compile(*args, optimize=optimize).graph.nodes)


# ---- random programs


def step(values, name, i, j):
    a, b = values[i % len(values)], values[j % len(values)]
    if name == "matmul":
        result = contract(a, b)
    elif name in BINARY:
        result = combine(name, a, b)
    else:
        result = UNARY[name](a) if name in UNARY else SHAPED[name](a)
    return result if result.ndim <= 2 else np.sum(result, axis=0)


def run(program, lengths, x, y, s, wrap):
    """The steps in segments of these lengths, each a wrapped function of all values so far, in turn with closures."""
    values = [x, y, s * 1.0 * np.ones(())]
    rest = list(program)
    for k, length in enumerate([*lengths, len(program)]):
        part, rest = rest[:length], rest[length:]

        def segment(given, part=part, inner=k % 3 == 2):
            mine = list(given)
            for one in part:  # the last of three segments holds segments itself
                mine.append(wrap(step)(mine, *one) if inner else step(mine, *one))
            return {"new": mine[len(given) :]}

        if k % 2:
            values += wrap(segment)(values)["new"]
        else:
            values += wrap(lambda segment=segment: segment(values))()["new"]  # noqa: B023
    total = 0.0
    for value in values[3:]:
        total = total + np.mean(value)
    return np.sin(total) + total * 0.25


def plain(f):
    return f


cuts = st.lists(st.integers(0, 4), max_size=4)


@pytest.mark.slow
@given(steps, cuts, st.integers(0, 99))
def test_values_and_gradients(program, lengths, seed):
    args = arguments(seed)
    value_of(lambda *args: run(program, lengths, *args, plain), args)

    def derivatives(wrap, level):
        return sg.value_and_grad(lambda *args: run(program, lengths, *args, wrap), (0, 1, 2), optimize=level)(*args)

    expected = derivatives(plain, 0)
    for level in (0, 1, 2):
        same(derivatives(sg.checkpoint, level), expected, rtol=1e-8)


@pytest.mark.slow
@given(steps, cuts, st.integers(0, 99), st.sampled_from([0, 1, 2]))
def test_second_derivatives(program, lengths, seed, level):
    args = arguments(seed)
    value_of(lambda *args: run(program, lengths, *args, plain), args)
    v = np.random.default_rng(seed + 1).standard_normal(args[1].shape)

    def derivatives(wrap, level):
        def f(y):
            return run(program, lengths, args[0], y, args[2], wrap)

        yield sg.hessian(f, optimize=level)(args[1])
        yield sg.hvp(f, optimize=level)(args[1], v)
        yield sg.jacfwd(sg.grad(f), optimize=level)(args[1])
        yield sg.grad(lambda y: np.sum(sg.jvp(f, (y,), (v,))[1]), optimize=level)(args[1])

    for found, expected in zip(derivatives(sg.checkpoint, level), derivatives(plain, 0), strict=True):
        same(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@given(steps, cuts, st.integers(0, 99), st.sampled_from([0, 1, 2]))
def test_sizes_that_are_symbols(program, lengths, seed, level):
    symbolic = sg.value_and_grad(lambda *args: run(program, lengths, *args, sg.checkpoint), (0, 1, 2), optimize=level)
    value_of(lambda *args: run(program, lengths, *args, plain), arguments(seed))
    for n in (4, 7, 5):
        args = arguments(seed + n, n)
        found = symbolic(*args)
        same(found[0], run(program, lengths, *args, plain))
        if n != 7:  # of a program without symbols, which is compiled for each size
            expected = sg.value_and_grad(lambda *args: run(program, lengths, *args, plain), (0, 1, 2), optimize=0)
            same(found, expected(*args), rtol=1e-8)


def chain(wrap, depth=2):
    @wrap
    def inner(x, c):
        return np.sin(c * x) + 0.3 * x * x

    @wrap
    def outer(x, c):
        for _ in range(depth):
            x = inner(x, c)
        return np.tanh(x) * c

    return lambda x: np.sum(outer(x, 1.3) * outer(outer(x, 0.7), x))


@pytest.mark.slow
def test_third_and_fourth_derivatives():
    f, g = chain(plain), chain(sg.checkpoint)
    for order in range(1, 5):
        f, g = sg.grad(f), sg.grad(g)
        expected = sg.compile(f, optimize=0)(0.4)
        for level in {1: (1,), 2: (2,), 3: (0, 1), 4: (2,)}[order]:  # random programs above are derived twice at each
            same(sg.compile(g, optimize=level)(0.4), expected, rtol=1e-9)


@pytest.mark.slow
def test_third_derivatives_of_arrays():
    x = np.random.default_rng(0).standard_normal(3)
    expected = sg.jacobian(sg.hessian(chain(plain)), optimize=0)(x)
    for level in (0, 1, 2):
        same(sg.jacobian(sg.hessian(chain(sg.checkpoint)), optimize=level)(x), expected, rtol=1e-9)


def test_derivatives_against_differences():
    sg.check_grads(chain(sg.checkpoint), (X,))


# ---- memory


def perceptron(wrap, layers, every):
    """The loss of a deep network, checkpointed in segments of `every` layers."""

    def segment(h, weights):
        for W in weights:
            h = np.tanh(h @ W)
        return h

    def loss(weights, x):
        for i in range(0, layers, every):
            x = wrap(segment)(x, weights[i : i + every])
        return np.sum(x * x)

    return loss


def compiled(wrap, layers, every, level=1, rows="n"):
    specs = [f"float64[{32}, {32}]"] * layers, f"float64[{rows}, 32]"
    return sg.value_and_grad(perceptron(wrap, layers, every)).compile(*specs, optimize=level)


def peak(*args, **kwargs):
    """In hidden layers of a thousand rows."""
    return compiled(*args, rows=1000, **kwargs).cost.peak / (1000 * 32 * 8)


def test_the_peak_is_that_of_the_square_root():
    assert peak(plain, 64, 8) > 64
    assert peak(sg.checkpoint, 64, 8) < 2 * 8 + 8


@pytest.mark.slow
def test_the_peak_grows_as_the_square_root():
    peaks = [peak(sg.checkpoint, n * n, n) for n in (4, 8, 16)]
    assert peaks[1] / peaks[0] < 2.1 and peaks[2] / peaks[1] < 2.1
    assert peak(plain, 256, 16) > 3.5 * peak(plain, 64, 8)


def test_checkpoints_within_checkpoints():
    """Three levels of four: a chain of 64 needs about three times four values."""

    def nested(wrap):
        def tower(h, weights):
            if len(weights) == 1:
                return np.tanh(h @ weights[0])
            quarter = len(weights) // 4
            for i in range(0, len(weights), quarter):
                h = wrap(tower)(h, weights[i : i + quarter])
            return h

        return lambda weights, x: np.sum(tower(x, weights) ** 2)

    specs = ["float64[32, 32]"] * 64, "float64[1000, 32]"
    programs = [sg.grad(nested(wrap)).compile(*specs, optimize=1) for wrap in (plain, sg.checkpoint)]
    weights = [RNG.standard_normal((32, 32)) / 6 for _ in range(64)]
    x = RNG.standard_normal((1000, 32))
    same(programs[1](weights, x), programs[0](weights, x), rtol=1e-9)
    assert programs[1].cost.peak / (1000 * 32 * 8) < 3 * 4 + 8


def test_second_derivatives_need_less_too():
    """The pullback of a segment is a segment."""

    def second(wrap):
        loss = perceptron(wrap, 36, 6)
        gradient = sg.grad(loss)
        norm = lambda weights, x: sum(np.sum(g * g) for g in gradient(weights, x))
        return sg.grad(norm).compile(["float64[32, 32]"] * 36, "float64[1000, 32]", optimize=1)

    assert second(sg.checkpoint).cost.peak < 0.55 * second(plain).cost.peak


def test_the_peak_in_symbols():
    kept, again = (compiled(wrap, 16, 4).cost.peak for wrap in (plain, sg.checkpoint))
    assert str(kept.free_symbols) == str(again.free_symbols) == "{n}"
    assert (again / kept).subs(dict.fromkeys(kept.free_symbols, 10_000)) < 0.7


def test_segments_are_released_whatever_their_size():
    """Otherwise nothing would be saved where many values of a few pages are kept, or where a size is a symbol."""
    sources = [compiled(wrap, 8, 4, rows="n").source for wrap in (plain, sg.checkpoint)]
    assert [source.count("del ") > 8 for source in sources] == [False, True]


def normalised(wrap, every=4):
    """A network whose layers wait for all rows: loops over blocks of rows must store what they pass on."""

    def segment(h, weights):
        for W in weights:
            z = h @ W
            h = np.tanh((z - z.mean(axis=0)) / np.sqrt(z.var(axis=0) + 1e-3))
        return h

    def loss(weights, x):
        for i in range(0, len(weights), every):
            x = wrap(segment)(x, weights[i : i + every])
        return np.mean(x * x)

    return loss


@pytest.mark.slow
@pytest.mark.of_numpy
@pytest.mark.parametrize("level", [1, 2])
def test_memory_as_measured(level):
    weights, x = [RNG.standard_normal((32, 32)) / 5 for _ in range(16)], RNG.standard_normal((2048, 32))

    def measured(wrap):
        f = sg.value_and_grad(normalised(wrap)).compile(weights, x, optimize=level)
        f(weights, x)
        tracemalloc.start()
        try:
            return f(weights, x), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    expected, kept = measured(plain)
    found, again = measured(sg.checkpoint)
    same(found, expected, rtol=1e-9)
    assert again < 0.5 * kept


def test_blocks_of_rows_at_once_stay_one_loop():
    """Rematerialised values stay in the cache with the others where nothing waits for all rows."""
    specs = ["float64[32, 32]"] * 8, "float64[20000, 32]"
    sources = [
        sg.value_and_grad(perceptron(wrap, 8, 4)).compile(*specs, optimize=2).source for wrap in (plain, sg.checkpoint)
    ]
    assert [source.count("range(start, stop") for source in sources] == [1, 1]


def test_the_value_alone_computes_nothing_again():
    for level in (0, 1, 2):
        programs = [
            sg.compile(perceptron(wrap, 4, 2)).compile([W] * 4, X, optimize=level) for wrap in (plain, sg.checkpoint)
        ]
        assert programs[0].source == programs[1].source


@pytest.mark.parametrize("transform", [sg.jacfwd, lambda f: lambda *args: sg.jvp(f, args, args)])
def test_tangents_compute_nothing_again(transform):
    f = sg.compile(transform(perceptron(sg.checkpoint, 4, 2)))
    assert recomputed(f, [W] * 4, X) == 0
    g = sg.compile(transform(perceptron(plain, 4, 2)))
    assert f.compile([W] * 4, X, optimize=1).cost[:2] == g.compile([W] * 4, X, optimize=1).cost[:2]


def test_only_what_the_pullback_needs_is_computed_again():
    def f(x):
        return np.sum(sg.checkpoint(lambda x: np.arctan(np.exp(np.cos(3 * x))) + np.cumsum(x))(x))

    graph = sg.grad(f).compile("float64[3]", optimize=1).graph
    again = [node.op.name for node in graph.nodes if node.where.again]
    assert sorted(again) == ["cos", "exp", "multiply"]


def test_linear_segments_are_not_computed_again():
    f = sg.grad(lambda x: np.sum(np.sin(sg.checkpoint(lambda x: 2 * x[::-1] + 1)(x))))
    assert recomputed(f, X) == 0


def test_vjp_keeps_what_segments_read():
    """Outside of a trace the pullback is a program of its own: it gets the inputs of the segments."""
    loss = perceptron(sg.checkpoint, 6, 3)
    weights = [RNG.standard_normal((3, 3)) for _ in range(6)]
    out, pullback = sg.vjp(loss, weights, X)
    same(out, loss(weights, X))
    same(pullback(np.float64(2.0)), sg.grad(lambda w, x: 2 * perceptron(plain, 6, 3)(w, x), (0, 1))(weights, X))


def test_vjp_does_not_keep_what_is_computed_again(monkeypatch):
    kept = []
    from symgrad.transforms import products_with_vectors

    residuals = products_with_vectors._residuals
    monkeypatch.setattr(products_with_vectors, "_residuals", lambda *args: kept.append(residuals(*args)) or kept[-1])
    for wrap in (plain, sg.checkpoint):
        sg.vjp(lambda x, wrap=wrap: np.sum(perceptron(wrap, 6, 3)([W] * 6, x)), X)
    assert [sum(node.aval.shape == X.shape for node in nodes) for nodes in kept] == [7, 3]


# ---- what a segment may be


@pytest.mark.slow
def test_trees_and_keywords():
    @dataclass
    class State:
        h: object
        count: int

    def cell(state, *, params, scale=1.0):
        h = np.tanh(state.h @ params["W"] * scale + params["b"])
        return State(h, state.count + 1), {"mean": np.mean(h), "label": "x", "nothing": None}

    def loss(params, x, wrap):
        state, out = State(x, 0), 0.0
        for scale in (0.5, 1.0, 2.0):
            state, aux = wrap(cell)(state, params=params, scale=scale)
            assert aux["label"] == "x" and aux["nothing"] is None
            out = out + aux["mean"] * state.count
        return out

    params = {"W": W, "b": X[0]}
    expected = sg.grad(lambda p, x: loss(p, x, plain), (0, 1), optimize=0)(params, X)
    for level in (0, 1, 2):
        same(sg.grad(lambda p, x: loss(p, x, sg.checkpoint), (0, 1), optimize=level)(params, X), expected)


def test_static_arguments_stay_python():
    @sg.checkpoint
    def power(x, n, kind, table):
        assert type(n) is int and kind == "odd" and isinstance(table, np.ndarray)
        for _ in range(n):
            x = np.sin(x) * table[2]
        return x

    same(
        sg.grad(lambda x: power(x, 3, kind="odd", table=np.arange(3)))(0.3),
        sg.grad(lambda x: 2 * np.sin(2 * np.sin(2 * np.sin(x))))(0.3),
    )


def test_values_read_from_outside_are_inputs():
    def f(x, w):
        h = np.exp(x) @ w

        def segment():
            return np.tanh(h) * np.sum(w)

        return np.sum(sg.checkpoint(segment)())

    found = sg.grad(f, (0, 1))
    same(found(X, W), sg.grad(lambda x, w: np.sum(np.tanh(np.exp(x) @ w) * np.sum(w)), (0, 1))(X, W))
    graph = found.graph(X, W)
    assert {node.inputs[0].op.name for node in graph.nodes if node.op is BARRIER} == {"matmul", "alias"}
    assert recomputed(found, X, W) > 0


def test_results_may_be_arguments_constants_or_twice_the_same():
    @sg.checkpoint
    def f(x, y):
        z = np.sin(x)
        return x, z, z, np.zeros(3), 2.5, y

    def total(x, y):
        a, b, c, zeros, number, d = f(x, y)
        return np.sum(a * b * c * d + zeros) * number

    args = X[0], X[1]
    expected = sg.grad(lambda x, y: 2.5 * np.sum(x * np.sin(x) ** 2 * y), (0, 1))(*args)
    for level in (0, 1, 2):
        same(sg.grad(total, (0, 1), optimize=level)(*args), expected)


def test_arrays_outside_of_a_trace():
    f = sg.checkpoint(lambda x, n=2: x**n)
    assert f(3.0) == 9.0
    np.testing.assert_array_equal(f(X, n=3), X**3)
    assert type(f(np.float32(2))) is np.float32


def test_name_and_signature_are_those_of_the_function():
    def layer(h, W, scale=1.0):
        """Doc."""
        return np.sum(np.tanh(h @ W) * scale)

    wrapped = sg.checkpoint(layer)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__) == ("layer", "Doc.", layer)
    assert sg.grad(wrapped, wrt="W").source(X, W).startswith('"""Gradient of layer (test_checkpoint.py:')
    same(sg.grad(wrapped, wrt="W")(X, W), sg.grad(layer, wrt="W")(X, W))


def test_ufuncs_methods_and_transforms():
    class Model:
        scale = 2.0

        @sg.checkpoint
        def layer(self, x):
            return np.sin(self.scale * x)

    model = Model()
    same(sg.grad(lambda x: np.sum(model.layer(x)))(X), 2 * np.cos(2 * X))
    same(sg.grad(lambda x: np.sum(sg.checkpoint(np.sin)(x)))(X), np.cos(X))
    cubes = sg.grad(lambda x: np.sum(x**3))
    same(sg.grad(lambda x: np.sum(sg.checkpoint(cubes)(x)))(X), 6 * X)
    assert isinstance(cubes, sg.Function) and sg.checkpoint(cubes)(X).shape == X.shape


@pytest.mark.slow
def test_derivatives_inside_of_a_segment():
    def f(x, wrap):
        @wrap
        def segment(x, c):
            slope = sg.grad(lambda x: np.sum(np.sin(c * x) * x))(x)
            out, pullback = sg.vjp(lambda x: np.cos(x) * slope, x)
            return pullback(out)[0] + sg.jvp(lambda c: np.sin(c), (c,), (x,))[1]

        return np.sum(segment(segment(x, 1.1 * x), x) * x)

    for level in (0, 1, 2):
        same(*[sg.grad(lambda x, w=w: f(x, w), optimize=level)(X) for w in (sg.checkpoint, plain)])
        same(*[sg.hessian(lambda x, w=w: f(x, w), optimize=level)(X[0]) for w in (sg.checkpoint, plain)], rtol=1e-9)


def test_a_pullback_from_outside_used_in_a_segment():
    def f(x, wrap):
        out, pullback = sg.vjp(lambda x: np.sin(x) * x, x)
        return np.sum(wrap(lambda y: pullback(y * y)[0] * out)(np.cos(x)))

    for level in (0, 1, 2):
        same(*[sg.grad(lambda x, w=w: f(x, w), optimize=level)(X) for w in (sg.checkpoint, plain)])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_stop_gradient_inside(level):
    def f(x, wrap):
        return np.sum(wrap(lambda x: np.sin(x) * sg.stop_gradient(np.exp(x)))(2 * x))

    found = sg.grad(lambda x: f(x, sg.checkpoint), optimize=level)(X)
    same(found, 2 * np.cos(2 * X) * np.exp(2 * X))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_names_inside(level):
    def f(x, wrap):
        def segment(x):
            h = sg.name(np.sin(x), "h")
            return h * h * x

        return np.sum(wrap(segment)(2 * x) ** 2)

    def both(wrap):
        return sg.grad(lambda x: f(x, wrap), wrt=["h", "x"], optimize=level)

    same(both(sg.checkpoint)(X), both(plain)(X))
    assert "h_again = np.sin(" in both(sg.checkpoint).compile(X[0], optimize=1).source
    second = [
        sg.grad(lambda x, w=w: np.sum(sg.grad(lambda x: f(x, w), wrt="h")(x)), optimize=level)(X)
        for w in (plain, sg.checkpoint)
    ]
    same(*second)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_aux_results(level):
    def f(x, wrap):
        def segment(x):
            h = np.tanh(x)
            return h * x, {"argmax": np.argmax(h, axis=1), "h": h}

        y, aux = wrap(segment)(x)
        picked = np.take_along_axis(y, aux["argmax"][:, None], 1)
        return np.sum(picked**2), aux

    same(*[sg.value_and_grad(lambda x, w=w: f(x, w), has_aux=True, optimize=level)(X) for w in (sg.checkpoint, plain)])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_assignments_inside(level):
    def segment(x, v):
        y = np.sin(x)
        y[0] = v * y[1]
        row = y[2]
        row *= v
        y[:, 1] += np.exp(y[:, 0])
        return y

    def f(x, v, wrap):
        return np.sum(wrap(segment)(wrap(segment)(x, v) * 2, v) ** 2)

    same(*[sg.grad(lambda x, v, w=w: f(x, v, w), (0, 1), optimize=level)(X, X[0]) for w in (sg.checkpoint, plain)])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_assignments_to_what_stands_outside(level):
    """Writes are seen before and after, as without a checkpoint."""

    def f(x, wrap):
        buffer = np.cos(x)
        view = buffer[1:]

        def segment(y):
            before = buffer[0] * y
            buffer[0] = np.sin(y)
            view[0] = before
            return np.sum(buffer) * y

        y = wrap(segment)(x[2])
        y[0] = buffer[1, 1]
        return np.sum(buffer * y) + np.sum(wrap(lambda b: np.exp(b) * buffer)(buffer))

    assert np.isfinite(f(X, plain))
    found, expected = (sg.value_and_grad(lambda x, w=w: f(x, w), optimize=level)(X) for w in (sg.checkpoint, plain))
    same(found, expected)
    same(found[0], f(X, plain))


def test_an_argument_cannot_be_written_into():
    @sg.checkpoint
    def segment(x):
        x[0] = 1.0
        return x

    with pytest.raises(sg.errors.WriteError, match="x is an argument: writing into it"):
        sg.grad(lambda x: np.sum(segment(x)))(X)


def test_values_that_leave_past_the_results():
    def f(x, wrap):
        seen = []

        def segment(x):
            seen.append(np.sin(x))
            return seen[-1] * x

        y = wrap(segment)(x)
        return np.sum(y * y * seen[0] + wrap(lambda y: y * seen[0])(y))

    for level in (0, 1, 2):
        same(*[sg.grad(lambda x, w=w: f(x, w), optimize=level)(X) for w in (sg.checkpoint, plain)])


def test_operators_with_several_results():
    A = X[:3] @ X[:3].T + 4 * np.eye(3)

    def f(a, wrap):
        return wrap(lambda a: np.prod(np.linalg.eigh(a)[0]) + np.sum(np.linalg.eigh(a)[1][:, 0] ** 3))(a * a)

    for level in (0, 1, 2):
        same(*[sg.grad(lambda a, w=w: f(a, w), optimize=level)(A) for w in (sg.checkpoint, plain)], rtol=1e-8)


def test_masks_cross_the_boundary():
    """A branch that was not taken sends no NaN through a segment."""
    x = np.array([-1.0, 0.0, 4.0])

    def f(x, wrap):
        root = wrap(lambda x: np.sqrt(x) * x)
        return np.sum(np.where(x > 0, root(np.maximum(x, 0)), x))

    for level in (0, 1, 2):
        with np.errstate(divide="ignore", invalid="ignore"):
            found, expected = (sg.grad(lambda x, w=w: f(x, w), optimize=level)(x) for w in (sg.checkpoint, plain))
        same(found, expected)
        assert np.all(np.isfinite(found))


def test_stable_forms_inside():
    @sg.checkpoint
    def softplus(x):
        return np.log(1 + np.exp(x))

    assert sg.grad(lambda x: softplus(3 * x))(1000.0) == 3.0
    assert sg.grad(sg.grad(softplus))(800.0) == 0.0


def test_float32_stays_float32():
    x, w = X.astype(np.float32), W.astype(np.float32)
    gradient = sg.grad(perceptron(sg.checkpoint, 4, 2))
    assert all(g.dtype == np.float32 for g in gradient([w] * 4, x))


# ---- graphs


def test_graphs_by_hand():
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    h = sg.checkpoint(lambda x: np.sin(np.sin(x)))(x)
    (dx,) = sg.gradients(np.sum(h * h), [x])
    (ddx,) = sg.gradients(np.sum(dx), [x])
    f = sg.function([x], [dx, ddx])
    y = sg.gradients(np.sum(np.sin(np.sin(x)) ** 2), [x])
    same(f(X[0]), sg.function([x], [*y, *sg.gradients(np.sum(y[0]), [x])])(X[0]))
    (dh,) = sg.gradients(np.sum(h * h), [h])
    same(sg.function([h], dh)(X[0]), 2 * X[0])


def test_the_graph_holds_together():
    f = perceptron(sg.checkpoint, 4, 2)
    graph, _, _ = trace(lambda w, x: sg.checkpoint(lambda x: np.tanh(x @ w))(x), W, X)
    verify(graph)
    (node,) = [node for node in graph.nodes if node.op is CHECKPOINT]
    assert [x.op.name for x in region_of(node).nodes] == ["matmul", "tanh"] and list(node.inputs) == graph.inputs
    program = sg.grad(sg.grad(lambda s: f([W * s] * 4, X))).trace(0.5)
    verify(program.graph)
    for level in (0, 1, 2):
        verify(optimise(program.graph, level))


def test_only_recomputation_survives_simplification():
    graph = sg.hessian(lambda x: perceptron(sg.checkpoint, 4, 2)([W] * 4, x)).compile(X, optimize=1).graph
    assert {node.op for node in reached(graph.outputs)} & {CHECKPOINT, BARRIER} == {BARRIER}


def test_an_error_inside_leaves_the_graph_usable():
    g = sg.Graph()
    x = g.input("x", "float64[3]")

    def wrong(x):
        return np.sin(x) @ np.ones((2, 2))

    with pytest.raises(sg.errors.ShapeError):
        sg.checkpoint(wrong)(x)
    same(sg.function([x], sg.gradients(np.sum(x * x), [x]))(X[0]), [2 * X[0]])
    verify(g)


def test_errors_inside_name_the_line():
    with pytest.raises(sg.errors.ConcreteValueError, match=r"at test_checkpoint\.py"):
        sg.grad(lambda x: sg.checkpoint(lambda x: x * int(x))(x))(1.0)


@pytest.mark.parametrize("wrong", [3, "f", None])
def test_what_is_not_a_function(wrong):
    with pytest.raises(sg.errors.ArgumentError, match="is not a function"):
        sg.checkpoint(wrong)


# ---- source


def test_source_says_what_is_computed_again():
    source = sg.grad(perceptron(sg.checkpoint, 4, 2)).compile([W] * 4, X, optimize=1).source
    comments = re.findall(r"# computed again: test_checkpoint.py:\d+  (.*)", source)
    assert comments.count("h = np.tanh(h @ W)") == 2
    assert "derivative of" in source
    assert not re.search(r"^ +(\w+) = \w+(  #.*)?$", source, re.MULTILINE), "a mark is not a statement"


def test_results_have_the_names_that_they_get_outside():
    def f(x):
        activity = sg.checkpoint(lambda x: np.sin(x) * x)(x)
        return np.sum(np.exp(activity))

    graph = sg.compile(f).graph(X)
    (item,) = [node for node in graph.nodes if node.op is ITEM]
    assert graph.names[item] == "activity" and item.where.text.startswith("activity = sg.checkpoint(")
    assert "activity = np.sin(x) * x" in sg.grad(f).compile(X, optimize=1).source.replace("activity_again", "activity")


def test_source_is_the_same_again():
    f = perceptron(sg.checkpoint, 4, 2)
    specs = [W] * 4, X
    for level in (0, 1, 2):
        assert sg.grad(f).compile(*specs, optimize=level).source == sg.grad(f).compile(*specs, optimize=level).source


def test_derivatives_by_values_that_are_computed_again():
    """At second order too, and where they are taken as constants: as of the same graph without checkpoints."""

    def derivatives(wrap):
        x = sg.Graph().input("x", "float64[3]")
        y = np.sin(x)
        o = wrap(lambda x: np.sin(x) * x)(x)  # computes y
        p = wrap(lambda o: wrap(lambda o: np.sin(o) * np.sin(x))(o) + o)(o)
        z = np.sum(y * o * p)
        first = sg.gradients(z, [y, o, p, x])
        kept = [sg.gradients(z, [x], stop_gradients=[v])[0] for v in (y, o)]
        second = [sg.gradients(np.sum(first[3]), [v])[0] for v in (y, o, x)]
        second += [sg.gradients(np.sum(first[3]), [x], stop_gradients=[v])[0] for v in (y, o)]
        return sg.function([x], [*first, *kept, *second])(X[0])

    for found, expected in zip(derivatives(sg.checkpoint), derivatives(lambda f: f), strict=True):
        same(found, expected)
