"""Calls of a Function: trees, dtypes, the cache, symbolic sizes, threads, fresh results."""

import gc
import threading
from collections import OrderedDict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.errors import ArgumentError, SymbolicSizeError

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(params=[0, 1, 2])
def level(request):
    with sg.options(optimize=request.param):
        yield request.param


# ---- trees

Point = namedtuple("Point", "x y")


@dataclass
class Layer:
    W: np.ndarray
    b: float
    kind: str = "tanh"
    missing: object = None
    more: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    w: np.ndarray

    def __post_init__(self):
        assert isinstance(self.w, np.ndarray), "no Variable gets through here"


class Registered:
    def __init__(self, w, label):
        self.w, self.label = w, label


tree.register(Registered, lambda r: ((r.w,), r.label), lambda label, children: Registered(children[0], label))


def test_gradients_come_in_trees_like_the_arguments():
    def f(p):
        return np.sum(p["list"][0] * p["tuple"][1] ** 2) + p["point"].x * p["point"].y

    p = {"list": [X], "tuple": (1.0, X), "point": Point(2.0, 3.0), "none": None}
    g = sg.grad(f)(p)
    np.testing.assert_allclose(g["list"][0], X**2)
    np.testing.assert_allclose(g["tuple"][1], 2 * X * X)
    assert type(g["tuple"]) is tuple and g["tuple"][0] == 0
    assert g["point"] == Point(3.0, 2.0) and type(g["point"]) is Point
    assert g["none"] is None
    assert list(g) == list(p)


def test_dataclasses():
    layer = Layer(np.outer(X, X), 0.5)
    d_layer = sg.grad(lambda layer: np.sum(layer.W))(layer)
    np.testing.assert_array_equal(d_layer.W, np.ones((3, 3)))
    assert (d_layer.b, d_layer.kind, d_layer.missing) == (0.0, None, None)
    d_w = sg.grad(lambda layer: np.sum(layer.W**2) * layer.b, wrt="layer.W")(layer)
    np.testing.assert_allclose(d_w, layer.W)
    result = sg.compile(lambda layer: Layer(layer.W * 2, layer.b, layer.kind))(layer)
    assert type(result) is Layer and result.kind == "tanh" and result.missing is None
    np.testing.assert_allclose(result.W, layer.W * 2)
    g = sg.grad(lambda p: np.sum(p.w**2))(Frozen(X))
    assert type(g) is Frozen
    np.testing.assert_allclose(g.w, 2 * X)


def test_registered_classes():
    g = sg.grad(lambda r: np.sum(r.w**2))(Registered(X, "label"))
    assert type(g) is Registered and g.label == "label"
    np.testing.assert_allclose(g.w, 2 * X)


def test_registered_classes_whose_children_are_no_attributes():
    class Box:
        def __init__(self, items):
            self.items = list(items)

    tree.register(Box, lambda b: (b.items, None), lambda _, children: Box(children))
    with pytest.raises(ArgumentError, match="child 0 of Box is not one of its attributes"):
        sg.grad(lambda b: np.sum(b.items[0]))(Box([X]))


def test_other_dicts_and_nesting():
    g = sg.grad(lambda p: np.sum(p["b"][0]["c"] * p["a"]))(OrderedDict(b=[{"c": X}], a=X))
    assert type(g) is OrderedDict and list(g) == ["b", "a"]
    np.testing.assert_allclose(g["b"][0]["c"], X)
    assert sg.grad(lambda p: p[1] * p[2])({1: 2.0, 2: 3.0}) == {1: 3.0, 2: 2.0}


def test_results_are_trees():
    f = sg.compile(lambda x: {"a": [x, (x * 2, None)], "s": "text", "i": 3, "f": 2.5, "p": Point(x, 1)})
    r = f(X)
    assert r["a"][1][1] is None and r["s"] == "text" and r["i"] == 3 and r["f"] == 2.5
    assert type(r["p"]) is Point and r["p"].y == 1
    np.testing.assert_array_equal(r["a"][1][0], 2 * X)


def test_trees_of_another_structure_compile_anew():
    f = sg.grad(lambda p: sum(np.sum(v**2) for v in p.values()))
    assert set(f({"a": X})) == {"a"}
    assert set(f({"a": X, "b": X})) == {"a", "b"}
    assert set(f({"a": X})) == {"a"}


# ---- signatures


def test_keywords_defaults_and_variable_arguments():
    def f(x, /, y=2.0, *rest, scale, power=2, **more):
        total = np.sum(x**power) * y * scale
        for r in rest:
            total = total + np.sum(r * x)
        return total + sum(np.sum(v * x) for v in more.values())

    g = sg.grad(f)
    np.testing.assert_allclose(g(X, scale=3.0), 12 * X)
    np.testing.assert_allclose(g(X, 1.0, scale=3.0), 6 * X)
    np.testing.assert_allclose(g(X, 1.0, X, X, scale=3.0), 8 * X)
    np.testing.assert_allclose(g(X, 1.0, scale=3.0, power=3, z=X), 9 * X**2 + X)
    np.testing.assert_allclose(g(X, scale=1.0, y=1.0), 2 * X)
    np.testing.assert_allclose(sg.grad(f, 2)(X, 1.0, X, X, scale=3.0), X)
    np.testing.assert_allclose(sg.grad(f, wrt=["scale", "more.z"])(X, 1.0, scale=3.0, z=X)[1], X)
    np.testing.assert_allclose(sg.grad(f, wrt="rest.1")(X, 1.0, X, X, scale=3.0), X)


def test_arguments_by_keyword_or_position_alike():
    g = sg.grad(lambda x, y: np.sum(x * y), (0, 1))
    np.testing.assert_array_equal(g(X, y=2 * X)[0], 2 * X)
    np.testing.assert_array_equal(g(X, 2 * X)[1], X)
    np.testing.assert_array_equal(sg.grad(lambda x, y: np.sum(x * y), wrt="x")(y=2 * X, x=X), 2 * X)


def test_methods_partials_and_callable_objects():
    from functools import partial

    class Model:
        scale = 3.0

        def loss(self, x):
            return self.scale * np.sum(x**2)

        __call__ = loss

    np.testing.assert_allclose(sg.grad(Model().loss)(X), 6 * X)
    np.testing.assert_allclose(sg.grad(Model())(X), 6 * X)
    np.testing.assert_allclose(sg.grad(partial(lambda a, x: a * np.sum(x**2), 2.0))(X), 4 * X)
    np.testing.assert_allclose(sg.grad(np.sum)(X), np.ones(3))


@pytest.mark.parametrize("static", [2, "cube", None, True])
def test_static_arguments_select_programs(static):
    def f(x, how):
        if how == 2:
            return np.sum(x**2)
        return np.sum(x**3) if how == "cube" else np.sum(x)

    g = sg.grad(f)
    expected = {2: 2 * X, "cube": 3 * X**2, None: np.ones(3), True: np.ones(3)}[static]
    for _ in range(2):
        np.testing.assert_allclose(g(X, static), expected)
        np.testing.assert_allclose(g(X, 2), 2 * X)


def test_integers_floats_and_booleans_that_are_equal_are_different_programs():
    f = sg.compile(lambda x, n: x * n if type(n) is int else x + 1.0 if n is True else x - n)
    assert [f(2.0, n) for n in (1, True, 1.0, 1, True)] == [2.0, 3.0, 1.0, 2.0, 3.0]


def test_functions_and_types_are_static():
    f = sg.grad(lambda x, g, dtype: np.sum(g(x).astype(dtype)))
    np.testing.assert_allclose(f(X, np.sin, np.float64), np.cos(X))
    np.testing.assert_allclose(f(X, lambda x: x**2, float), 2 * X)
    np.testing.assert_allclose(f(X, sg.compile(np.tanh), np.dtype(float)), 1 - np.tanh(X) ** 2)


def test_integer_arrays_are_inputs():
    f = sg.grad(lambda x, i: np.sum(x[i] ** 2))
    np.testing.assert_allclose(f(X, np.array([0, 0, 2])), [4 * X[0], 0, 2 * X[2]])
    np.testing.assert_allclose(f(X, np.array([1, 1, 1])), [0, 6 * X[1], 0])


# ---- dtypes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_are_kept(dtype, level):
    def f(p, x, lr):
        h = np.tanh(x @ p["W"] * 0.5 + 1) / 3
        return np.mean(np.where(h > 0, h, 0.1 * h) ** 2) * lr + np.log(np.sum(np.exp(-h))) / x.shape[0]

    x = np.linspace(-1, 1, 12).reshape(4, 3).astype(dtype)
    p = {"W": np.full((3, 2), 0.3, dtype)}
    value, (g, gx) = sg.value_and_grad(f, (0, 1))(p, x, 0.1)
    assert value.dtype == g["W"].dtype == gx.dtype == dtype
    assert sg.hessian(f)(p, x, 0.1)["W"]["W"].dtype == dtype
    assert sg.jacobian(lambda x: np.exp(x) * 2, mode="fwd")(x).dtype == dtype
    assert sg.hvp(f)(p, x, 0.1, p)["W"].dtype == dtype
    out, tangent = sg.jvp(lambda x: np.sin(x), (x,), (x,))
    assert out.dtype == tangent.dtype == dtype
    out, pullback = sg.vjp(lambda x: np.sin(x), x)
    assert pullback(np.ones((4, 3)))[0].dtype == dtype
    assert sg.compile(lambda x, lr: x - lr * x)(x, 0.1).dtype == dtype
    assert sg.grad(lambda x: x**3)(dtype(2)).dtype == dtype


def test_python_floats_are_inputs_and_stay_weak():
    step = sg.compile(lambda w, lr: w - lr * w)
    w = np.ones(3, np.float32)
    assert step(w, 0.1).dtype == np.float32
    assert step(w, 0.2).dtype == np.float32
    assert len(step._cache) == 1
    assert type(sg.grad(np.sin)(0.0)) is np.float64
    assert sg.compile(lambda x: x * 2)(1.5) == 3.0
    assert sg.grad(lambda x: np.sum(np.float32([1, 2]) * x))(2.0) == 3.0


# ---- results


def results(f, *args):
    leaves = tree.flatten(f(*args))[0]
    return [y for y in leaves if isinstance(y, np.ndarray)]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x,
        lambda x: (x, x),
        lambda x: (x.T, x.reshape(-1), x[0], x[:, 1:], x[None], np.squeeze(x)),
        lambda x: (x + 1, x + 1),
        lambda x: [np.broadcast_to(x[0], (2, 3)), np.zeros_like(x), np.zeros_like(x)],
        lambda x: (np.tanh(x), np.tanh(x).T, np.tanh(x)[0]),
        lambda x: (np.asarray(CONSTANT), CONSTANT),
        lambda x: (np.real(x), x.astype(float, copy=False), np.ravel(x), np.flip(x)),
        sg.grad(lambda x: np.sum(x)),
        sg.value_and_grad(lambda x: np.sum(x * CONSTANT)),
        sg.grad(lambda x: np.sum(CONSTANT[:, 0] * x[:, 0])),
        sg.jacobian(lambda x: x),
    ],
)
def test_results_are_fresh_and_writable(f, level):
    x = np.arange(6.0).reshape(2, 3)
    f = f if isinstance(f, sg.Function) else sg.compile(f)
    first = results(f, x)
    kept = [y.copy() for y in first]
    constant = CONSTANT.copy()
    assert first
    for i, y in enumerate(first):
        assert y.flags.writeable
        assert not np.may_share_memory(y, x)
        assert not np.may_share_memory(y, CONSTANT)
        for z in first[i + 1 :]:
            assert not np.may_share_memory(y, z)
    for y in first:
        y[...] = -99
    np.testing.assert_array_equal(x, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(CONSTANT, constant)
    for y, z in zip(results(f, x), kept, strict=True):
        np.testing.assert_array_equal(y, z)


CONSTANT = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, 0.125]])


def test_arguments_are_never_written():
    def f(x):
        y = x.copy()
        y[0] = 5
        y += x
        np.exp(y, out=y)
        return np.sum(y)

    x = X.copy()
    sg.value_and_grad(f)(x)
    np.testing.assert_array_equal(x, X)


# ---- the cache and symbolic sizes


def test_second_size_becomes_a_symbol(level):
    f = sg.grad(lambda x, y: np.sum(x * y) / x.shape[0] + np.sqrt(x.shape[0]) * np.sum(x[: x.shape[0] // 2]))

    def expected(x, y):
        n = len(x)
        return y / n + np.sqrt(n) * (np.arange(n) < n // 2)

    for n in (5, 5, 7, 9, 100, 5, 2):
        x, y = np.linspace(0, 1, n), np.linspace(1, 2, n)
        np.testing.assert_allclose(f(x, y), expected(x, y), rtol=1e-12)
    assert len(f._cache) == 2
    np.testing.assert_allclose(f(np.ones(1), np.ones(1)), expected(np.ones(1), np.ones(1)))


def test_batches_of_any_size_need_two_programs():
    def loss(w, X, y):
        return np.mean(np.log1p(np.exp(-y * (X @ w))))

    g = sg.value_and_grad(loss)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(3)
    for n in (32, 17, 32, 5, 64):
        A, y = rng.standard_normal((n, 3)), np.sign(rng.standard_normal(n))
        value, gradient = g(w, A, y)
        np.testing.assert_allclose(value, loss(w, A, y))
        np.testing.assert_allclose(gradient, -(A * (y / (1 + np.exp(y * (A @ w))))[:, None]).mean(0), rtol=1e-10)
    assert len(g._cache) == 2


def test_a_test_of_a_size_needs_a_program_for_each_side():
    def f(x, y):
        a, b = (x, y) if len(x) > len(y) else (y, x)
        return np.sum(np.diff(a)[: len(b)] * b[: len(a) - 1]) if len(b) > 1 else np.sum(a) * b[0]

    g = sg.grad(f)
    for n, m in ((7, 3), (9, 4), (8, 2), (3, 7), (4, 9), (100, 99), (9, 2)):
        x, y = np.linspace(0.5, 1, n), np.linspace(1, 2, m)
        np.testing.assert_allclose(g(x, y), sg.grad(f, loops="unroll", optimize=0).compile(x, y)(x, y))
    assert len(g._cache) == 3  # one for the first sizes, as they are


def few(x):
    if len(x) < 2:
        raise ValueError("give two")
    if len(x) != 1 and not len(x) <= 3:
        return np.sum(np.diff(x) ** 2)
    return np.sum(x)


def test_from_specs_a_program_is_for_more_rows_than_a_few_that_a_test_asks_for():
    compiled = sg.grad(few).compile("float64[n]")
    assert compiled.signature == "x: float64[n], n >= 4 -> float64[n]"
    for n in (4, 9):
        np.testing.assert_allclose(compiled(np.arange(n) ** 2.0), sg.grad(few)(np.arange(n) ** 2.0))
    with pytest.raises(ArgumentError, match="n is 3, and must be at least 4"):
        compiled(np.ones(3))
    np.testing.assert_allclose(sg.grad(few)(np.ones(3)), [1, 1, 1])


@pytest.mark.parametrize("asks", [lambda n: n == 3, lambda n: n != 2, lambda n: n > 9, lambda n: n % 2 == 0])
def test_a_size_that_may_well_be_a_number_is_asked_for(asks):
    with pytest.raises(SymbolicSizeError):
        sg.grad(lambda x: np.sum(x) if asks(len(x)) else x[0]).compile("float64[n]")


@pytest.mark.parametrize("sizes", [(0,), (1,), (1, 3), (3, 1), (0, 1, 2, 3), (3, 0, 4, 1)])
def test_sizes_zero_and_one_are_exact(sizes, level):
    f = sg.grad(lambda x, y: np.sum((x + y) ** 2))
    for n in sizes:
        x, y = np.arange(n * 1.0), np.ones(3 if n == 1 else n)
        np.testing.assert_allclose(f(x, y), [np.sum(2 * (x + y))] if n == 1 else 2 * (x + y))


def test_numbers_that_python_asks_for_are_specialised(level):
    def f(x):
        total = 0.0
        for i in range(x.shape[0]):
            total = total + x[i] ** (i + 1)
        return total * int(x.shape[0]) if x.shape[0] > 3 else total

    g = sg.grad(f)
    for n in (3, 4, 5, 6, 3, 4):
        x = np.linspace(0.5, 1, n)
        k = np.arange(n)
        np.testing.assert_allclose(g(x), (k + 1) * x**k * (n if n > 3 else 1), rtol=1e-12)
    assert len(g._cache) == 4


def test_sizes_that_were_equal_once_may_differ():
    f = sg.compile(lambda x, y: np.sum(x) * y)
    assert f(np.ones(3), np.ones(3)).shape == (3,)
    assert f(np.ones(4), np.ones(4)).shape == (4,)
    assert f(np.ones(4), np.ones(6)).shape == (6,)
    assert f(np.ones(5), np.ones(7)).shape == (7,)


def test_a_transform_has_the_options_of_the_function_within():
    slope = sg.grad(np.sin, numerics="ieee", optimize=1)
    for outer in (sg.grad(slope), sg.compile(slope), sg.vmap(slope)):
        options = outer.compile("float64[]" if outer.__name__ != "sin_grad_vmap" else "float64[n]").options
        assert (options.numerics, options.optimize) == ("ieee", 1)
    assert sg.grad(slope, optimize=0).compile(1.0).options.optimize == 0


def test_options_are_part_of_the_key():
    f = sg.grad(lambda x: np.log(1 + np.exp(x)))
    with sg.options(optimize=0):
        assert "logaddexp" not in f.source(1.0)
        f(1.0)
    f(1.0)
    assert len(f._cache) == 2
    assert sg.grad(np.sin, optimize=0).compile(1.0).options.optimize == 0
    assert sg.grad(np.sin, optimize=0).compile(1.0, optimize=1).options.optimize == 1


def test_functions_can_be_collected():
    import weakref

    f = sg.grad(lambda x: np.sum(x**2))
    f(X)
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


# ---- specs


def test_specs_stand_for_arrays():
    def f(p, x):
        n = x.shape[0]
        pad = np.full(n, 0.0, like=x) + np.ones(n, like=x) * 0
        return np.sum((x @ p["w"] + pad) ** 2) / n

    w, x = np.ones(3), np.arange(12.0).reshape(4, 3)
    expected = 2 * x.T @ (x @ w) / 4
    for given in ("float64[n, 3]", sg.spec("float64[n, 3]")):
        compiled = sg.grad(f).compile({"w": "float64[3]"}, given)
        np.testing.assert_allclose(compiled({"w": w}, x)["w"], expected)
    assert sg.grad(f).source({"w": "float64[3]"}, "float64[n, 3]").count("n = x.shape[0]") == 1
    assert [str(node.aval) for node in sg.grad(f).graph({"w": "float64[3]"}, "float64[n, 3]").inputs] == [
        "float64[3]",
        "float64[n, 3]",
    ]
    program = sg.grad(f).trace({"w": "float64[3]"}, "float64[n, 3]")
    assert str(program.inputs["x"].aval) == "float64[n, 3]"
    assert str(program.outputs["w"].aval) == "float64[3]"


def test_static_strings_are_not_specs():
    def f(x, dtype, mode):
        return np.sum(x.astype(dtype) ** 2) if mode == "d" else np.sum(x)

    compiled = sg.grad(f).compile("float64[3]", "float64", "d")
    np.testing.assert_allclose(compiled(X, "float64", "d"), 2 * X)


def test_anything_with_shape_and_dtype_is_a_spec():
    class Like:
        shape, dtype = (3,), np.dtype("float64")

    assert "x: float64[3]" in sg.grad(lambda x: np.sum(x**2)).compile(Like()).signature


# ---- Compiled


def test_compiled_converts_what_it_can():
    f = sg.grad(lambda x, s: np.sum(x**2) * s).compile("float64[3]", 1.0)
    np.testing.assert_array_equal(f(X, 2), 4 * X)
    np.testing.assert_array_equal(f(np.asfortranarray(X), 2.0), 4 * X)
    np.testing.assert_array_equal(f(x=X, s=2.0), 4 * X)


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        ((X, X, 2), "s is float64[3], the program was compiled for float64[]"),
        ((X[:2], 1.0, 2), "p['a'] is float64[2], the program was compiled for float64[3]"),
        ((X.astype("f4"), 1.0, 2), "p['a'] is float32[3], the program was compiled for float64[3]"),
        ((np.arange(3), 1.0, 2), "p['a'] is int64[3], the program was compiled for float64[3]"),
        ((X, 1.0, 3), "n is 3, the program was compiled for 2"),
        ((X, 1.0, "2"), "n is '2', the program was compiled for 2"),
    ],
)
def test_compiled_names_the_argument_that_does_not_fit(args, fact):
    f = sg.grad(lambda p, s, n: np.sum(p["a"] ** n) * s).compile({"a": "float64[3]"}, "float64[]", 2)
    p, s, n = args
    with pytest.raises(ArgumentError) as error:
        f({"a": p}, s, n)
    assert error.value.fact == fact
    with pytest.raises(ArgumentError, match="missing a required argument: 'n'"):
        f({"a": X}, 1.0)
    with pytest.raises(ArgumentError, match=r"p is \{'b': \*\}, the program was compiled for \{'a': \*\}"):
        f({"b": X}, 1.0, 2)


def test_compiled_with_symbols_checks_that_sizes_agree():
    f = sg.compile(lambda x, y: x * y).compile("float64[n]", "float64[n]")
    assert f(np.ones(4), np.ones(4)).shape == (4,)
    with pytest.raises(ArgumentError, match=r"y is float64\[5\], the program was compiled for float64\[n\]"):
        f(np.ones(4), np.ones(5))


# ---- threads


def test_many_threads_first_call_and_later():
    f = sg.value_and_grad(lambda x, k: np.sum(np.sin(x) ** 2) * k)
    barrier = threading.Barrier(8)

    def work(seed):
        barrier.wait()
        rng = np.random.default_rng(seed)
        for i in range(40):
            n = (seed + i) % 5 + 2
            x = rng.standard_normal(n)
            value, gradient = f(x, 2.0)
            np.testing.assert_allclose(value, 2 * np.sum(np.sin(x) ** 2))
            np.testing.assert_allclose(gradient, 2 * np.sin(2 * x), atol=1e-12)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(f._cache) == 2


def test_threads_trace_apart():
    def work(seed):
        return sg.grad(sg.grad(lambda x: np.sin(x * seed)))(0.5) == pytest.approx(-(seed**2) * np.sin(0.5 * seed))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(1, 30)))


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_of_cycles_is_as_before_when_threads_compile_at_a_time(was_on):
    begun, ended = threading.Event(), threading.Event()

    def first(x):
        begun.set()
        assert ended.wait(60)  # until the second one, which began later, has ended
        return x * 2

    def second(x):
        assert begun.wait(60)
        return x * 3

    on = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        with ThreadPoolExecutor(2) as pool:
            slow = pool.submit(sg.grad(first), 1.0)
            assert pool.submit(sg.grad(second), 1.0).result() == 3
            assert not gc.isenabled()  # the first one goes on
            ended.set()
            assert slow.result() == 2
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if on else gc.disable)()


def test_dataclasses_are_registered_once():
    def work(_):
        return sg.grad(lambda layer: np.sum(layer.W), wrt="layer.W")(kind(X, 1.0))

    for _ in range(5):
        kind = dataclass(type("Fresh", (), {"__annotations__": {"W": object, "b": float}}))
        with ThreadPoolExecutor(8) as pool:
            assert len(list(pool.map(work, range(8)))) == 8


def test_a_size_of_one_is_no_symbol():
    """np.squeeze tells it from all others."""
    f = sg.compile(np.squeeze)
    for n in (2, 3, 1, 4, 1):
        assert f(np.ones((n, 5))).shape == np.squeeze(np.ones((n, 5))).shape
    message = "np.squeeze: the size n is a symbol here, and may be 1"
    with pytest.raises(sg.errors.SymbolicSizeError, match=message):
        f.compile("float64[n, 5]")


@pytest.mark.parametrize(
    "f", [lambda x: np.diagonal(x @ x), lambda x: np.diag(x @ x), lambda x: np.diagonal(x @ x)[1:]]
)
def test_diagonals_are_writable_results(f, level):
    """NumPy's own are views that cannot be written into."""
    assert sg.compile(f)(np.eye(3)).flags.writeable


def test_a_named_value_can_be_written_into():
    def f(x):
        h = sg.name(x * 2.0, "h")
        h[0] = 1.0
        return np.sum(h * h)

    np.testing.assert_array_equal(sg.grad(f)(np.ones(3)), [0.0, 8.0, 8.0])


def test_sizes_of_another_order_are_compiled_again():
    g = sg.grad(lambda x: np.sum(np.sin(x) ** 2))
    for n in (10, 20, 30, 100_000, 25, 90_000):
        x = np.linspace(0, 3, n)
        np.testing.assert_allclose(g(x), np.sin(2 * x), rtol=1e-12, atol=1e-15)
    assert len(g._cache) == 3  # for 10, for n near 20, for n near 100 000
