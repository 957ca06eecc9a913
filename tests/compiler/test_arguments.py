"""Static parts of the arguments: ints, static arguments, the order of dicts; the cache of programs."""

import copy
import gc
import linecache
import math
import multiprocessing
import pickle
import random
import threading
import warnings
import weakref
from collections import Counter, deque, namedtuple
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.cache import TOO_MANY
from symgrad.errors import ArgumentError, RecompilationWarning
from symgrad.targets.c import toolchain

needs_a_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")
X = np.array([0.7, -0.3, 1.9])


def programs(function):
    return len(function._cache)


# ---- ints


def annealed(params, step):
    rate = 0.9**step
    return rate * np.sum(params**2) + params[step % 3] * np.minimum(1.0, step / 50) + np.sum(params[: step % 2 + 1])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_step_that_grows_compiles_twice(level):
    f = sg.value_and_grad(annealed, optimize=level)
    for step in range(100):
        value, g = f(X, step)
        np.testing.assert_allclose(value, annealed(X, step), rtol=1e-13)
        expected = 2 * 0.9**step * X
        expected[step % 3] += min(1.0, step / 50)
        expected[: step % 2 + 1] += 1.0
        np.testing.assert_allclose(g, expected, rtol=1e-13)
    assert programs(f) == 2


BATCH = np.random.default_rng(0).normal(size=(60, 3))


def test_batches_by_step():
    def objective(params, step):
        first = step % 6 * 10
        return np.sum((BATCH[first : first + 10] @ params) ** 2)

    f = sg.grad(objective)
    for step in range(100):
        rows = BATCH[step % 6 * 10 :][:10]
        np.testing.assert_allclose(f(X, step), 2 * rows.T @ (rows @ X), rtol=1e-12)
    assert programs(f) == 2


def ignores(x, step, *, seed=0):
    return np.sum(x**2)


def test_an_int_that_is_not_read_keys_nothing():
    f = sg.grad(ignores)
    for step in range(-2, 20):
        np.testing.assert_array_equal(f(X, step, seed=step), 2 * X)
    assert programs(f) == 1
    g = sg.grad(lambda x, step: ignores(x, step))
    for step in range(20):
        np.testing.assert_array_equal(g(X, step), 2 * X)
    assert programs(g) == 2
    with pytest.raises(ArgumentError, match=r"step is 1\.5"):
        f.compile(X, 3)(X, 1.5)


INSISTING = {
    "range": lambda x, k: sum(x[i % 3] for i in range(k)),
    "an exponent": lambda x, k: np.sum(x**k),
    "an axis": lambda x, k: np.sum(np.ones((2, 3, 4, 5)) * x[0], axis=k % 4)[0, 0, 0],
    "an index into a list": lambda x, k: np.sum(x * [1.0, 2.0, 3.0, 4.0, 5.0][k % 5]),
    "if": lambda x, k: np.sum(x) if k > 2 else np.prod(x),
    "a dict": lambda x, k: np.sum(x) * {1: 2.0, 2: 3.0}.get(k, 7.0),
    "isinstance": lambda x, k: np.sum(x) * (k if isinstance(k, int) else 100),
    "text": lambda x, k: np.sum(x) * len(f"{k:04d}" + str(k)),
    "a shape": lambda x, k: np.sum(np.ones((k, 3)) * x),
    "a reshape": lambda x, k: np.sum(np.tile(x, 2).reshape(-1, 1 + k % 2) ** 2),
    "min and max": lambda x, k: np.sum(x) * min(k, 4) + max(k, 2),
    "a list repeated": lambda x, k: np.sum(x) * sum([1.5] * k),
    "math": lambda x, k: np.sum(x) * math.comb(7, k),
    "a queue": lambda x, k: sum(deque([*x, x[0]], maxlen=k)),
    "an item of a dict": lambda x, k: np.sum(x) * BY_NUMBER[k] * {(n, 1): n for n in range(6)}[k, 1],
    "in a dict": lambda x, k: np.sum(x) * (k in {1: 2.0, 4: 3.0}) + (k not in {2, 3}),
    "a set in a loop": lambda x, k: sum(row * len({*[k, 3]} | set([k, 4])) for row in x),
    "a counter": lambda x, k: np.sum(x) * Counter([k, 3, 3])[3],
    "a method of a dict": lambda x, k: np.sum(x) * max([k, 2], key=BY_NUMBER.get) * sum(map(BY_NUMBER.get, [k, 1])),
    "a key of a class": lambda x, k: np.sum(x) * {Key(1): 2.0, Key(4): 3.0}.get(Key(k), 5.0),
    "bits": lambda x, k: np.sum(x) * k.bit_length() + k.to_bytes(2, "big")[1] + (~k),
    "parts": lambda x, k: np.sum(x) * k.real * k.numerator + k.imag + k.denominator,
    "powers modulo a number": lambda x, k: np.sum(x) * pow(k, 2, 5) + pow(2, k, 5) + pow(2, 5, k),
    "numbers in text": lambda x, k: np.sum(x) * float(f"{k:03d}") + int(f"{k:d}") + int(str(k)) + float(f"{k}.5"),
    "seeds": lambda x, k: np.sum(x) * (np.random.default_rng(k).normal() + np.random.RandomState(k).rand()),
    "a seed by name": lambda x, k: np.sum(x) * np.random.default_rng(seed=k).normal() * random.Random(k).random(),
    "a class of Python's": lambda x, k: np.sum(x) * float(Fraction(k, 3)) * int.bit_length(k),
}
BY_NUMBER = {n: 0.5 * n**2 for n in range(6)}


@dataclass(frozen=True)
class Key:
    number: int


@pytest.mark.parametrize("f", INSISTING.values(), ids=INSISTING)
def test_python_may_ask_for_the_number(f):
    compiled = sg.value_and_grad(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecompilationWarning)
        for k in (3, 1, 2, 5, 2, 4, 3):
            value, g = compiled(X, k)
            np.testing.assert_allclose(value, f(X, k), rtol=1e-13)
            np.testing.assert_allclose(g, sg.grad(lambda x, k=k: f(x, k))(X), rtol=1e-13)


POWERS = {
    "a reciprocal": lambda x, n: n**-2 * x,
    "a reciprocal of a difference": lambda x, n: (n + 1 - 2) ** -1 * x,
    "a negative size": lambda x, n: 2**-n * x + n**-n,
    "now above zero, now below": lambda x, n: 2 ** (n - 4) * x,
    "a root": lambda x, n: n**0.5 * x + math.sqrt(n),
    "others": lambda x, n: (2.0**-n + n / 3 + n // 2 + n % 3 - n + abs(n - 4) + float(n)) * x,
}


@pytest.mark.parametrize("f", POWERS.values(), ids=POWERS)
@pytest.mark.parametrize("target", ["numpy", pytest.param("c", marks=needs_a_compiler)])
def test_numbers_of_an_int(f, target):
    compiled = sg.value_and_grad(f, target=target)
    for n in (2, 4, 5, 3):
        np.testing.assert_allclose(compiled(1.25, n), (f(1.25, n), f(2.0, n) - f(1.0, n)), rtol=1e-14)


def test_an_error_that_a_number_causes_is_pythons():
    f = sg.compile(lambda x, k: x * {1: 2.0, 2: 3.0}[k])
    assert f(1.0, 1) == 2.0 and f(1.0, 2) == 3.0
    with pytest.raises(KeyError, match=r"^7$"):
        f(1.0, 7)


def test_ints_in_trees_and_with_symbolic_sizes():
    def f(state, x):
        return np.sum(x * state["w"]) * state["step"] / len(x)

    h = sg.compile(f)
    for n, step in ((3, 1), (4, 2), (5, 3), (6, 4), (7, 1)):
        np.testing.assert_allclose(h({"w": 2.0, "step": step}, np.ones(n)), 2.0 * step)
    assert programs(h) == 2
    assert "state['step']: int" in h._cache.recent[0].compiled.signature


def test_source_and_saved_module_of_an_int(tmp_path):
    f = sg.grad(lambda x, step: np.sum(x**2) * step)
    for step in (1, 2):
        f(X, step)
    compiled = f._cache.recent[0].compiled
    path = compiled.save(tmp_path / "stepped.py")
    scope = {}
    exec(path.read_text(), scope)
    function = scope["function_grad"]
    np.testing.assert_allclose(function(X, 7), 14 * X)
    with pytest.raises(ValueError, match="step must be at least 1"):
        function(X, 0)


# ---- static arguments


class Settings:
    def __init__(self, power):
        self.power = power


def with_static(x, table, mask, settings, kind="sum"):
    y = x ** settings["power"] * np.sum(table[mask])
    return np.sum(y) if kind == "sum" else np.prod(y)


@pytest.mark.parametrize("options", [{"static_argnums": (1, 2, 3)}, {"static_argnames": ["table", "mask", "settings"]}])
def test_static_arguments_are_compared_by_content(options):
    f = sg.grad(with_static, **options)
    table, mask = np.arange(4.0), np.array([True, False, True, True])
    expected = 2 * X * 5.0
    np.testing.assert_allclose(f(X, table, mask, {"power": 2}), expected)
    np.testing.assert_allclose(f(X, table.copy(), mask.copy(), {"power": 2}), expected)
    assert programs(f) == 1
    np.testing.assert_allclose(f(X, table + 1, mask, {"power": 2}), 2 * X * 8.0)
    np.testing.assert_allclose(f(X, table, ~mask, {"power": 2}), 2 * X)
    np.testing.assert_allclose(f(X, table=table, mask=mask, settings={"power": 3}), 3 * X**2 * 5.0)
    assert programs(f) == 4
    table[1] = 7.0  # written into after it was seen
    np.testing.assert_allclose(f(X, table, ~mask, {"power": 2}), 2 * X * 7.0)


def test_static_objects_and_numbers():
    f = sg.value_and_grad(lambda x, s, n: np.sum(x**s.power) * n, static_argnums=(1, 2))
    two, three = Settings(2), Settings(3)
    assert f(X, two, 1)[0] == np.sum(X**2) and f(X, three, 1)[0] == np.sum(X**3)
    assert f(X, two, True)[0] == np.sum(X**2) and f(X, two, 1.0)[0] == np.sum(X**2)
    assert programs(f) == 4  # 1, True and 1.0 are different programs


def test_static_arguments_of_compiled_and_nested():
    f = sg.compile(lambda x, E: x[E] * 2, static_argnames="E")
    E = np.array([True, False, True])
    compiled = f.compile(X, E)
    np.testing.assert_array_equal(compiled(X, E), X[E] * 2)
    with pytest.raises(ArgumentError, match="E is"):
        compiled(X, ~E)
    outer = sg.grad(lambda x: np.sum(f(x, E) ** 2))
    np.testing.assert_allclose(outer(X), 8 * X * E)


def test_a_transform_has_the_static_arguments_of_what_it_transforms():
    def f(c, knots, x):
        pieces = zip(c, knots, knots[1:], strict=False)
        return sum(a * np.sum(x[(x >= low) & (x < high)]) ** 2 for a, low, high in pieces if high > low)

    knots, x = np.array([0.0, 0.3, 0.3, 1.0]), np.linspace(0, 1, 7)
    options = {"static_argnames": ("knots", "x")}
    g = sg.grad(f, **options)
    expected = g(np.ones(3), knots, x)
    np.testing.assert_allclose(sg.vmap(g, in_axes=(0, None, None))(np.ones((2, 3)), knots, x), [expected, expected])
    assert np.all(sg.jacobian(g)(np.ones(3), knots, x) == 0)
    assert sg.hessian(sg.compile(f, **options))(np.ones(3), knots, x).shape == (3, 3)
    with pytest.raises(sg.errors.SymgradError):  # its own say that they are all
        sg.jacobian(g, static_argnames="x")(np.ones(3), knots, x)


def test_static_arguments_that_are_not_there():
    with pytest.raises(ArgumentError, match="there is no argument 'W'"):
        sg.grad(with_static, static_argnames="W")
    with pytest.raises(ArgumentError, match="static_argnums=7"):
        sg.grad(with_static, static_argnums=7)
    with pytest.raises(ArgumentError, match="a name or a list of names"):
        sg.grad(with_static, static_argnames=3)


# ---- the order of dicts


def test_the_order_of_keys_is_part_of_the_program():
    f = sg.compile(lambda p: next(iter(p.values())) - 2 * list(p.values())[1])
    assert f({"a": 1.0, "b": 2.0}) == -3.0 and f({"b": 2.0, "a": 1.0}) == 0.0 and f({"a": 3.0, "b": 1.0}) == 1.0
    assert programs(f) == 2
    keywords = sg.compile(lambda **p: next(iter(p.values())))
    assert keywords(a=1.0, b=2.0) == 1.0 and keywords(b=2.0, a=1.0) == 2.0
    nested = sg.compile(lambda p: next(iter(p[0]["in"].values())))
    assert nested([{"in": {"x": 1.0, "y": 2.0}}]) == 1.0 and nested([{"in": {"y": 2.0, "x": 1.0}}]) == 2.0
    with pytest.raises(ArgumentError, match="order"):
        f.compile({"a": 1.0, "b": 2.0})({"b": 1.0, "a": 2.0})


# ---- the cache


def test_the_cache_is_bounded():
    f = sg.compile(lambda x, name: x * len(name), cache_size=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecompilationWarning)
        for i in range(30):
            assert f(2.0, "x" * i) == 2.0 * i
            assert f(2.0, "") == 0.0  # in use all the time
            assert programs(f) <= 5
    kept = [e.compiled for group in f._cache._groups.values() for e in group]
    assert any(c.accepts(2.0, "") for c in kept)
    with pytest.raises(ArgumentError, match="cache_size=0"):
        sg.compile(lambda x: x, cache_size=0)


def test_nothing_of_a_collected_function_stays_behind():
    def make():
        scope = {"np": np}
        exec(compile("def model(x):\n    y = np.sin(x)\n    return np.sum(y)", "model.py", "exec"), scope)
        f = sg.grad(scope["model"])
        f(X)
        return weakref.ref(f), weakref.ref(f._cache.recent[0].compiled), weakref.ref(scope["model"].__code__)

    gc.collect()
    before = len(linecache.cache)
    references = [make() for _ in range(3)]
    gc.collect()
    assert all(r() is None for pair in references for r in pair)
    assert len([name for name in linecache.cache if name.startswith("<symgrad")]) <= before


def test_a_function_that_keeps_compiling_warns_once():
    f = sg.compile(lambda x, n: np.sum([x[0]] * n))
    with pytest.warns(RecompilationWarning, match=rf"compiled {TOO_MANY} times: n has had {TOO_MANY} values") as caught:
        for n in range(1, 40):
            f(X, n)
    assert len(caught) == 1 and "np.asarray(n)" in str(caught[0].message)


@pytest.mark.slow
def test_functions_that_keep_changing_are_told():
    f = sg.grad(lambda x, rate: np.sum(rate(x)))
    with pytest.warns(RecompilationWarning, match="such as a function, should stay the same"):
        for _ in range(TOO_MANY):
            f(X, lambda x: 2 * x)


@pytest.mark.slow
def test_trees_that_keep_changing_are_told():
    f = sg.grad(lambda x, rates: sum(rate * np.sum(x) for rate in rates))
    with pytest.warns(RecompilationWarning, match=f"the arguments have been {TOO_MANY} different trees") as caught:
        for n in range(1, 40):
            f(X, [0.5] * n)
    assert len(caught) == 1 and "an array in place of a list" in str(caught[0].message)


def test_threads_share_what_is_compiled():
    f, results = sg.grad(lambda x: np.sum(x**3)), []
    threads = [threading.Thread(target=lambda: results.append(f(X))) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert programs(f) == 1 and all(np.array_equal(r, f(X)) for r in results)


# ---- pickles


Point = namedtuple("Point", "x y")


def model(params, x, scale=2.0):
    return np.sum(np.tanh(x @ params["W"]) ** 2) * scale + params["at"].x * len(x)


@sg.grad
def decorated(x):
    return np.sum(x**2)


PARAMS = {"W": np.ones((3, 2)), "at": Point(1.5, 2.0)}
ROWS = np.arange(6.0).reshape(2, 3) / 7


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy])
def test_functions_and_programs_pickle(again):
    f = sg.value_and_grad(model, wrt="params.W", optimize=1)
    expected = f(PARAMS, ROWS)
    found = again(f)(PARAMS, ROWS)
    assert found[0] == expected[0] and np.array_equal(found[1], expected[1])
    compiled = f.compile({"W": "float64[d, k]", "at": Point(1.0, 2.0)}, "float64[n, d]")
    twin = again(compiled)
    assert twin.source == compiled.source and twin.signature == compiled.signature
    assert twin(PARAMS, ROWS)[0] == compiled(PARAMS, ROWS)[0]
    assert twin.cost.flops == compiled.cost.flops
    assert again(decorated)(X).tolist() == (2 * X).tolist()


def test_operators_behind_functions_of_numpy_pickle():
    slope = sg.grad(lambda x: np.max(x) * np.median(x) + np.sum(np.maximum.accumulate(x))).compile(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(slope))(X), slope(X))


def test_a_long_program_pickles():
    def f(x):
        for _ in range(3000):
            x = np.sin(x)
        return x

    compiled = sg.compile(f, optimize=0).compile(1.0)
    assert pickle.loads(pickle.dumps(compiled))(1.0) == compiled(1.0)


def test_graphs_by_hand_pickle():
    x = sg.Graph().input("x", "float64[n]")
    f = sg.function([x], [np.sum(x * 2), x + 1])
    assert pickle.loads(pickle.dumps(f))(X)[0] == f(X)[0]


def test_programs_go_to_other_processes():
    f = sg.grad(model, wrt="params.W")
    compiled = f.compile(PARAMS, ROWS)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for function in (f, compiled):
            np.testing.assert_allclose(pool.apply(function, (PARAMS, ROWS)), f(PARAMS, ROWS), rtol=1e-12)


def test_what_cannot_be_made_again_says_so():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(sg.grad(lambda x: x))
