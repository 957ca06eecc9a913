"""Random programs of `fuzz`, and what the command has found, each as the smallest program that failed."""

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.define import TABLE
from tests.conftest import in_tiny_blocks
from tests.fuzz import Argument, InThePlane, Program, generated, outcome, runs, shrunk, smaller_programs

COUNT, PARTS = 100, 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part):
    found = {seed: outcome(generated(seed)) for seed in range(part, COUNT, PARTS)}
    assert {seed: verdict for seed, verdict in found.items() if verdict[0] in ("wrong", "crashed")} == {}
    assert sum(verdict == "right" for verdict, _ in found.values()) >= 0.8 * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_random_programs_of_complex_numbers(part):
    found = {seed: outcome(generated(seed, InThePlane)) for seed in range(part, 40, 2)}
    assert {seed: verdict for seed, verdict in found.items() if verdict[0] in ("wrong", "crashed")} == {}
    assert sum(verdict == "right" for verdict, _ in found.values()) >= 0.8 * len(found)


def program(*statements, kind="values", result="y", **options):
    x = Argument("x", ("n", 3), "float64", "C", 1)
    chosen = {"sizes": (3,), "optimize": 2, "numerics": "stable", "blocks": False, **options}
    return Program((x,), statements, result, kind, **chosen)


# ---- the generator can fail, and shrinks


def test_a_wrong_value_is_found_and_shrunk(monkeypatch):
    monkeypatch.setitem(TABLE, np.sinh, TABLE[np.arcsinh])
    found = program("a = np.cos(x)", "y = np.sinh(x)", "y += 1", "b = np.exp(a)", result="(y, b)[0]", optimize=0)
    assert outcome(found)[0] == "wrong"
    assert shrunk(found).statements == ("y = np.sinh(x)",)


@pytest.mark.parametrize("kind", ["gradient", "jvp", "second"])
def test_a_wrong_derivative_is_found(monkeypatch, kind):
    monkeypatch.setitem(TABLE, np.sinh, replace(TABLE[np.sinh], partials=lambda y, x: 1.0005 * np.cosh(x)))
    assert outcome(program("y = np.sinh(x)", kind=kind, result="np.sum(y)"))[0] == "wrong"
    monkeypatch.undo()
    assert outcome(program("y = np.cosh(x)", kind=kind, result="np.sum(y)"))[0] == "right"


@pytest.mark.parametrize("kind", ["gradient", "jvp", "second"])
def test_a_derivative_that_lacks_a_conjugate_is_found(monkeypatch, kind):
    z = Argument("x", ("n", 3), "complex128", "C", 1)
    monkeypatch.setitem(TABLE, np.conjugate, replace(TABLE[np.conjugate], vjp=lambda g, y, x: (g,)))
    conjugated = replace(program("y = np.conjugate(x) ** 2", kind=kind, result="np.sum(y.real)"), arguments=(z,))
    assert outcome(conjugated)[0] == "wrong"
    monkeypatch.undo()
    assert outcome(conjugated)[0] == "right"


def test_refusals_and_kinks_are_neither_right_nor_wrong():
    assert outcome(program("y = x[x > 0]"))[0] == "refused"
    (x,) = program().values(3)
    bent = program(f"y = np.abs(x - {x[0, 0]})", kind="gradient", result="np.sum(y)")
    assert outcome(bent) == ("near a kink", "")


def test_programs_are_those_of_their_seeds():
    assert generated(7) == generated(7) != generated(8)
    assert all(runs(generated(seed)) for seed in range(20))
    assert all(smaller != generated(7) for smaller in smaller_programs(generated(7)))


def test_a_script_runs():
    scope = {}
    exec(program("y = np.sin(x)", kind="gradient", result="np.sum(y)").script(), scope)
    assert np.isfinite(scope["transformed"](scope["x"])[0])


# ---- found by the command


FOUND = {
    "rows and a slice of all of them": "y = x + 3; z = y[-3:][:]; return y, z",
    "a bool is an integer beside Python's numbers": "return s * True, s * True, (s * s + 1) ** True",
    "a Python number has no axes to turn": "return np.transpose(s, ()), np.transpose(s) + 1",
    "padding of no axes": "return np.pad(s, 1), np.pad(x[0, 0], 1), np.pad(x[0, 0], 1, mode='edge')",
    "np.take counts by truths": "return np.take(x, np.array([True, False]), axis=1), np.take(x, x > 0)",
    "the only axis": "return np.maximum.accumulate(x[0], axis=None), np.add.accumulate(x[0], axis=None)",
    "the weights of none": "return np.bincount(np.arange(0), x[0, :0], 2), np.bincount([0, 2, 2], x[0])",
    "the ends of a ramp are computed": (
        "return np.pad(x[0], (1, 2), mode='linear_ramp', end_values=(5, np.asarray(x[1, 1]))), s"
    ),
    "margins of computed numbers": (
        "return np.pad(x, 2, constant_values=x[0, :2]), np.pad(x[:2], 1, constant_values=x[:2, :2])"
    ),
    "margins of an array of numbers": "return np.pad(x, 1, constant_values=np.array([1.0, 2.0])), s",
    "a truth is taken off": "y = x * 1; np.subtract.at(y, [0, 0], True); return y",
}


NORMS = [f"np.linalg.norm(x, {order})" for order in ("1", "-1", "np.inf", "-np.inf", "2", "'nuc'")]
SCALARS = "np.transpose(x[0, 0])", "x[0, 0].T", "np.asarray(x[0, 0])", "np.asarray(s)"
WRITTEN = "np.where(s > 0, s, 1.0)", "np.select([s > 0], [s], 1)", "np.tensordot(x, x)", "np.roll(s, 1)"


@pytest.mark.parametrize("text", [*WRITTEN, *NORMS, *SCALARS, "np.sum(x)", "np.clip(s, 0, 1)"])
def test_arrays_of_no_dimensions(text):
    f = of_text(f"y = z = {text}; y *= 3; return y, z")
    args = np.arange(9.0).reshape(3, 3) - 4, np.float64(0.5)
    np.testing.assert_allclose(sg.compile(f)(*args), f(*args), rtol=1e-15)


def of_text(text):
    scope = {"np": np}
    exec(f"def f(x, s):\n    {text}", scope)
    return scope["f"]


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_values(text, optimize, monkeypatch):
    in_tiny_blocks(monkeypatch)
    f, args = of_text(text), (np.arange(9.0).reshape(3, 3) - 4, 0.5)
    for y, expected in zip(sg.compile(f, optimize=optimize)(*args), f(*args), strict=True):
        np.testing.assert_array_equal(y, expected)
        assert np.asarray(y).dtype == np.asarray(expected).dtype


def test_zeros_that_are_a_result_and_the_start_of_another(tiny_blocks):
    x = np.random.default_rng(0).normal(size=(5, 2, 3))
    expected = np.zeros_like(x)
    expected[1:3] = 2 * x[1:3]
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(np.partition(x, 0)[1:3] ** 2))(x), expected)


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize(
    "text", ["np.clip(x, np.reshape(s, (-1, 1)), 2)", "x * np.broadcast_to(s, (1,))", "x + np.full(2, s)"]
)
def test_a_python_number_that_became_an_array_widens(text, optimize):
    f, args = of_text(f"return {text}"), (np.array([-1.43, 0.1], np.float16), -1.14)
    y, expected = sg.compile(f, optimize=optimize)(*args), f(*args)
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "text", ["x * True", "(x * x + 1) ** True", "True * x", "x + np.array(True)", "x - x[0] * np.array(True)"]
)
def test_derivatives_beside_a_bool(text):
    sg.check_grads(eval(f"lambda x: np.sum(np.sin({text}))"), (np.array([0.3, -0.7]),))


@pytest.mark.parametrize(
    "text",
    [
        "y = x + 1",
        "y = np.sort(x, axis=0)",
        "y = x.astype(np.float32)",
        "y = np.copy(x)",
        "y = np.divmod(x, 2)[1]",
        "y, _ = np.modf(x)",
    ],
)
def test_what_is_written_through_a_reshape_depends_on_the_order_of_the_argument(text):
    f = of_text(f"{text}; y.reshape(-1)[::-1] = 2; return y")
    with pytest.raises(sg.errors.WriteError, match=r"x\.reshape may give a view of the one"):
        sg.compile(f)(np.ones((2, 3)), 0.5)
    f = of_text(f"{text}; y = y.copy(); y.reshape(-1)[::-1] = 2; return y")
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(sg.compile(f)(x, 0.5), f(x, 0.5))


def test_constants_have_an_order_too():
    constant = np.asfortranarray(np.ones((2, 3)))

    def f(s):
        y = constant * s
        y.reshape(-1)[0] = 7
        return y

    np.testing.assert_array_equal(sg.compile(f)(2.0), f(2.0))


def test_a_number_that_a_function_makes_with_an_array_is_a_number():
    def f(x):
        y = np.max(x, where=x < 9, initial=-1.0)
        rows = np.atleast_2d(y)
        np.multiply(rows, 3, out=rows)
        return y

    for x in (np.zeros((0, 3)), np.array([2.0, 5.0])):
        assert sg.compile(f)(x) == f(x)


def test_an_argument_may_be_an_array_of_no_dimensions():
    def f(x):
        y = x.astype(np.float64)
        row = np.reshape(y, (1, -1))
        row *= np.cos(row)
        return y

    compiled = sg.compile(f)
    for x in (np.array(-0.8), np.float64(-0.8), np.array(0.3), np.float64(0.3)):
        assert compiled(x) == f(x)


def test_sizes_that_only_shapes_mention():
    def f(x, y):
        return np.sort(x, axis=1) + np.take_along_axis(y - 1, np.argsort(-x, axis=1), 1)

    compiled = sg.compile(f).compile("float64[n, 3]", "float64[n, 3]")
    x, y = np.random.default_rng(0).normal(size=(2, 5, 3))
    np.testing.assert_array_equal(compiled(x, y), f(x, y))


@pytest.mark.parametrize(
    "f", [lambda x, k: np.squeeze(x[1:]), lambda x, k: np.cov(x[1:]), lambda x, k: np.squeeze(x[0] + np.ones((k, 1)))]
)
def test_what_is_computed_of_sizes_may_be_1(f):
    compiled = sg.compile(f)
    for n in (5, 2, 6, 3, 2):
        x = np.random.default_rng(n).normal(size=(n, 3))
        y, expected = compiled(x, n - 1), f(x, n - 1)
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected)


def test_scalars_of_a_foreign_byte_order():
    def f(x):
        return np.piecewise(x, [x < 0, x >= 1], [lambda t: t * 2, lambda t: t**2])

    x = np.array([-1.5, 0.5, 2.0], ">f8")
    for optimize in (0, 1, 2):
        np.testing.assert_array_equal(sg.compile(f, optimize=optimize)(x), f(x))


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_a_line_through_as_many_points_as_there_are_perhaps_one(optimize):
    gradient = sg.grad(lambda x, xp, fp: np.sum(np.interp(x, xp, fp) ** 2), (0, 1, 2), optimize=optimize)
    compiled = gradient.compile("float64[k]", "float64[n]", "float64[n]")
    of_one = compiled(np.array([-1.0, 0.0, 1.0]), np.array([0.0]), np.array([2.0]))
    for g, expected in zip(of_one, (np.zeros(3), [0.0], [12.0]), strict=True):
        np.testing.assert_array_equal(g, expected)
    args = np.array([-1.0, 0.0, 0.4, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 3.0]), np.array([1.0, 3.0, -1.0])
    for g, expected in zip(compiled(*args), gradient(*args), strict=True):
        np.testing.assert_allclose(g, expected)
