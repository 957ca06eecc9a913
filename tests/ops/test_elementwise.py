"""Every elementwise entry of the table: inference, values, derivatives; then what each of them must get right alone."""

import dataclasses
from itertools import product

import numpy as np
import pytest
import sympy

import symgrad as sg
from symgrad.core.graph import Op, reached
from symgrad.core.interpret import interpret
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from symgrad.ops import choice
from symgrad.ops.define import TABLE, Refused
from symgrad.spelling import Code
from tests.oracle import check_derivatives, check_value, trace

REFUSED = {np.isnat: "dates are not numbers"}
ARITY = {"where": 3, "clip": 3, "nan_to_num": 1, "sinc": 1, "i0": 1}
OPS = {
    op.name: op
    for function, op in TABLE.items()
    if isinstance(op, Op) and op.elementwise and getattr(np, op.name, None) is function
} | {op.name: op for op in (choice.CLIP, choice.WHERE, choice.NAN_TO_NUM)}
FLOAT_OPS = [
    name
    for name, op in OPS.items()
    if name not in ("gcd", "lcm", "invert", "left_shift", "right_shift") and not name.startswith("bitwise")
]


def arity(op):
    return getattr(op.evaluate, "nin", None) or ARITY[op.name]


def numpy_function(op):
    return getattr(np, op.name)


def draw(op, kinds, shapes, seed=0):
    """Inputs from the domain of an operator: arrays by dtype, Python scalars by type."""
    rng = np.random.default_rng(seed)
    domains = op.domain or ((-2.0, 2.0),)
    xs = []
    for i, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        low, high = domains[min(i, len(domains) - 1)]
        if kind in (int, float):
            xs.append(kind(2) if high > 2 else 0.5 if kind is float else 0)
        else:
            x = rng.uniform(low, high, shape) if np.dtype(kind).kind == "f" else rng.integers(1, 4, shape)
            xs.append(x.astype(kind))
    return xs


def smooth_inputs(op):
    """Float inputs for derivatives; what is no float by nature is fixed."""
    xs = draw(op, [np.float64] * arity(op), [(2, 3), (3,), (2, 1)][: arity(op)])
    if op.name == "where":
        return (lambda x, y: op(np.array([True, False, True]), x, y)), xs[1:]
    if op.name == "ldexp":
        return (lambda x: op(x, np.array([2, -1, 0]))), xs[:1]
    if op.name == "clip":
        return op, [xs[0], xs[1] / 4 - 1, xs[2] / 4 + 1]
    return op, xs


# ---- the table


def test_every_ufunc_is_in_the_table_or_refused():
    ufuncs = {f for f in vars(np).values() if isinstance(f, np.ufunc)}
    assert ufuncs <= set(TABLE)
    assert {f for f in ufuncs if isinstance(TABLE[f], Refused)} == set(REFUSED)


def test_every_refused_ufunc_says_so():
    for ufunc in REFUSED:
        with pytest.raises(UnsupportedError, match=rf"^np\.{ufunc.__name__} is about dates"):
            trace(ufunc, np.ones(2))


DTYPES = (np.float64, np.float32, np.int64, np.bool_)


def _outcome(f, *args):
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except TypeError:
        return None


def _compare(f, xs):
    """The traced program gives NumPy's shape, dtype and numbers, or refuses as NumPy does."""
    places = [i for i, x in enumerate(xs) if isinstance(x, np.ndarray)]

    def on_arrays(*arrays):
        given = dict(zip(places, arrays, strict=True))
        return f(*[given.get(i, x) for i, x in enumerate(xs)])

    arrays = [xs[i] for i in places]
    if _outcome(on_arrays, *arrays) is None:
        with pytest.raises(DTypeError, match=r"^np\..* does not take "):
            trace(on_arrays, *arrays)
    else:
        with np.errstate(all="ignore"):
            check_value(on_arrays, *arrays)


@pytest.mark.parametrize("name", OPS)
def test_inference_and_value_equal_numpy(name):
    op, f = OPS[name], numpy_function(OPS[name])
    n = arity(op)
    for kinds in product(DTYPES, repeat=n):
        _compare(f, draw(op, kinds, [(2, 3), (3,), (2, 1)][:n]))
    _compare(f, draw(op, [np.float32] * n, [()] * n))
    _compare(f, draw(op, [np.float64] * n, [(0, 3)] * n))


@pytest.mark.parametrize("name", [name for name in OPS if arity(OPS[name]) > 1])
def test_python_scalars_are_weak(name):
    op, f = OPS[name], numpy_function(OPS[name])
    for array, scalar, at in product(DTYPES, (int, float), range(arity(op))):
        kinds = [scalar] * arity(op)
        kinds[at] = array
        _compare(f, draw(op, kinds, [(2, 3)] * arity(op)))


# ---- derivatives


@pytest.mark.parametrize("name", FLOAT_OPS)
def test_derivatives_equal_finite_differences(name):
    check_derivatives(*_unpacked(OPS[name]))


def _unpacked(op):
    f, xs = smooth_inputs(op)
    return f, *xs


def _slopes(op):
    """Whether an operator has a partial derivative that is not zero throughout."""
    f, xs = smooth_inputs(op)
    graph, inputs, outputs = trace(f, *xs)
    seeds = [graph.constant(np.ones(y.aval.shape)) for y in outputs if y.aval.differentiable]
    return bool(seeds) and any(g is not None for g in pullback(graph, outputs, seeds, inputs))


@pytest.mark.parametrize("name", [name for name in FLOAT_OPS if _slopes(OPS[name]) and name != "heaviside"])
def test_a_planted_wrong_derivative_is_caught(name):
    def wrong(*given):
        found = getattr(op, kind)(*given)
        return tuple(p if p is None else p * 1.0005 for p in (found if isinstance(found, tuple) else (found,)))

    op = OPS[name]
    kind = "vjp" if op.partials is None else "partials"
    f, xs = smooth_inputs(dataclasses.replace(op, **{kind: wrong}))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_derivatives(f, *xs, order=1)


def gradients(f, *args, wrt=None, order=1):
    """The gradient of the sum of f, differentiated again by the same input for higher orders."""
    graph, inputs, outputs = trace(f, *args)
    which = range(len(args)) if wrt is None else [wrt]
    results = []
    for i in which:
        nodes = outputs
        for _ in range(order):
            seeds = [graph.constant(np.ones(y.aval.shape, y.aval.dtype)) for y in nodes]
            (g,) = pullback(graph, nodes, seeds, [inputs[i]])
            nodes = [graph.constant(np.zeros(np.shape(args[i]))) if g is None else g]
        with np.errstate(all="ignore"):
            results += interpret(nodes, dict(zip(inputs, args, strict=True)))
    return results


@pytest.mark.parametrize("name", [name for name in FLOAT_OPS if name != "float_power"])
def test_float32_gradients_are_computed_in_float32(name):
    f, xs = smooth_inputs(OPS[name])
    xs = [x.astype(np.float32) for x in xs]
    graph, inputs, (y,) = trace(f, *xs)
    if y.aval.differentiable:
        found = [g for g in pullback(graph, [y], [graph.constant(np.ones(y.aval.shape, np.float32))], inputs) if g]
        wide = [node for node in reached(found) if node.aval.dtype == np.float64 and not node.aval.weak]
        assert not wide
        assert all(g.dtype == np.float32 for g in interpret(found, dict(zip(inputs, xs, strict=True))))


a, b = sympy.symbols("a b", real=True)
SYMPY = {
    "add": a + b, "subtract": a - b, "multiply": a * b, "divide": a / b, "power": a**b, "float_power": a**b,
    "negative": -a, "reciprocal": 1 / a, "square": a**2, "sqrt": sympy.sqrt(a), "cbrt": a ** sympy.Rational(1, 3),
    "hypot": sympy.sqrt(a**2 + b**2), "exp": sympy.exp(a), "exp2": 2**a, "expm1": sympy.exp(a) - 1, "log": sympy.log(a),
    "log2": sympy.log(a, 2), "log10": sympy.log(a, 10), "log1p": sympy.log(1 + a),
    "logaddexp": sympy.log(sympy.exp(a) + sympy.exp(b)), "logaddexp2": sympy.log(2**a + 2**b, 2), "sin": sympy.sin(a),
    "cos": sympy.cos(a), "tan": sympy.tan(a), "arcsin": sympy.asin(a), "arccos": sympy.acos(a), "arctan": sympy.atan(a),
    "arctan2": sympy.atan2(a, b), "sinh": sympy.sinh(a), "cosh": sympy.cosh(a), "tanh": sympy.tanh(a),
    "arcsinh": sympy.asinh(a), "arccosh": sympy.acosh(a), "arctanh": sympy.atanh(a), "deg2rad": a * sympy.pi / 180,
    "radians": a * sympy.pi / 180, "rad2deg": a * 180 / sympy.pi, "degrees": a * 180 / sympy.pi,
    "sinc": sympy.sin(sympy.pi * a) / (sympy.pi * a),
}  # fmt: skip


@pytest.mark.parametrize("name", SYMPY)
def test_derivatives_equal_sympy(name):
    op, formula = OPS[name], SYMPY[name]
    names = (a, b)[: arity(op)]
    xs = draw(op, [np.float64] * len(names), [(4,)] * len(names), seed=3)
    for (i, x), order in product(enumerate(names), (1, 2)):
        (found,) = gradients(op, *xs, wrt=i, order=order)
        exact = sympy.diff(formula, x, order)
        expected = [
            float(exact.evalf(25, subs=dict(zip(names, point, strict=True)))) for point in zip(*xs, strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_sinc_near_zero_to_third_order():
    x = np.array([0.0, 1e-9, -1e-5, 0.01, 0.29, 0.31, 1.0])
    formula = sympy.series(SYMPY["sinc"], a, 0, 30).removeO()
    for order in (1, 2, 3):
        (found,) = gradients(np.sinc, x, order=order)
        exact = sympy.lambdify(a, sympy.diff(formula, a, order), "mpmath")
        np.testing.assert_allclose(found, [float(exact(sympy.Float(float(v), 30))) for v in x], rtol=1e-9, atol=1e-9)


# ---- power


def test_power_by_a_known_number_is_as_one_writes_it():
    def ops(n):
        graph, inputs, outputs = trace(lambda x: x**n, np.ones(3, np.float32))
        (g,) = pullback(graph, outputs, [graph.constant(np.ones(3, np.float32))], inputs)
        return g and [node.op.name for node in reached([g]) if node.inputs]

    assert ops(0) is None
    assert ops(1) == []
    assert ops(2) == ["multiply", "multiply"]
    assert ops(3) == ["power", "multiply", "multiply"]
    assert ops(0.5) == ["power", "multiply", "multiply"]


@pytest.mark.parametrize("exponents", [np.arange(4), np.arange(4.0)])
def test_power_at_zero_has_the_derivative_of_the_polynomial(exponents):
    x = np.zeros(4)
    for order, expected in ((1, [0, 1, 0, 0]), (2, [0, 0, 2, 0])):
        np.testing.assert_array_equal(gradients(lambda x: x**exponents, x, order=order)[0], expected)
    np.testing.assert_array_equal(gradients(lambda x, n: x**n, x, np.arange(4.0), wrt=0)[0], [0, 1, 0, 0])


def test_power_of_a_negative_base():
    x, n = np.array([-2.0, -0.5]), np.array([3.0, 2.0])
    np.testing.assert_array_equal(gradients(np.power, x, n, wrt=0)[0], n * x ** (n - 1))
    np.testing.assert_array_equal(gradients(np.power, x, n, wrt=0, order=2)[0], n * (n - 1) * x ** (n - 2))


def test_power_of_zero_by_its_exponent_is_zero():
    np.testing.assert_array_equal(gradients(np.power, np.zeros(3), np.array([0.0, 0.5, 2.0]), wrt=1)[0], 0)


def test_mixed_derivative_of_power_at_exponent_zero():
    x, n = np.array(2.0), np.array(0.0)
    graph, inputs, outputs = trace(np.power, x, n)
    (by_base,) = pullback(graph, outputs, [graph.constant(1.0)], inputs[:1])
    (mixed,) = pullback(graph, [by_base], [graph.constant(1.0)], inputs[1:])
    assert interpret([mixed], dict(zip(inputs, (x, n), strict=True))) == [1 / 2]


def test_power_of_a_known_base():
    (g,) = gradients(lambda n: 2.0**n, np.float32([1.0, -1.0]))
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, np.log(2) * np.array([2, 0.5]), rtol=1e-6)


def test_integer_power_stays_integer():
    check_value(lambda x, n: x**n, np.array([2, 3]), np.array([3, 0]))


# ---- kinks, ties and singular points


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (np.abs, 0.0, 0.0), (np.fabs, 0.0, 0.0), (lambda x: np.maximum(x, 0), 0.0, 0.5),
        (lambda x: np.minimum(0, x), 0.0, 0.5), (lambda x: np.fmax(x, np.nan), 1.0, 1.0),
        (lambda x: np.fmin(np.nan, x), 1.0, 1.0), (lambda x: np.clip(x, 0, 1), 0.0, 0.5),
        (lambda x: np.clip(x, 0, 1), 1.0, 0.5), (lambda x: np.clip(x, 0, 1), 2.0, 0.0),
        (lambda x: np.copysign(x, -1), -3.0, 1.0), (lambda x: np.copysign(x, -1), 3.0, -1.0),
        (lambda x: np.hypot(x, 0 * x), 0.0, 0.0), (lambda x: np.heaviside(1.0, x), 0.5, 0.0),
        (lambda x: np.heaviside(0.0, x), 0.5, 1.0), (lambda x: np.nan_to_num(x), np.nan, 0.0),
        (lambda x: np.nan_to_num(x) ** 2, 3.0, 6.0), (lambda x: np.nextafter(x, 9.0), 3.0, 1.0), (np.sign, 0.0, 0.0),
        (lambda x: x % -3, 4.0, 1.0), (lambda y: -7 % y, 3.0, 3.0), (lambda y: np.fmod(-7, y), 3.0, 2.0),
        (lambda y: np.fmod(1.0, y), 0.1, -9.0), (lambda y: np.remainder(1.0, y), 0.1, -9.0),
    ],
)  # fmt: skip
def test_slope(f, x, slope):
    np.testing.assert_array_equal(gradients(f, np.array(x))[0], slope)


def test_clip_with_moving_bounds_shares_as_minimum_of_maximum():
    grid = np.array(list(product((-1.0, 0.0, 1.0), repeat=3))).T
    composed = gradients(lambda x, low, high: np.minimum(np.maximum(x, low), high), *grid)
    ours = gradients(np.clip, *grid)
    inner = grid[1] != grid[2]  # where the bounds coincide the share of x is a matter of taste
    np.testing.assert_array_equal(np.array(ours)[:, inner], np.array(composed)[:, inner])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.where(x > 0, np.sqrt(x), 0),
        lambda x: np.where(x > 0, np.log(x), x),
        lambda x: np.where(x > 0, x**0.5, 0),
        lambda x: np.where(x > 0, 1 / x, 0),
        lambda x: np.where(x > 0, x / np.sqrt(x * x), 0),
        lambda x: np.maximum(x, 1) * np.where(x > 0, np.log(np.abs(x)), 1),
        lambda x: np.where(x > 0, np.hypot(x, x), 0),
        lambda x: np.where(x > 0, np.arctan2(x, x), 0),
        lambda x: np.select([x > 0], [np.log(x)], 0),
        lambda x: np.nan_to_num(np.where(x > 0, np.log(x), 0)),
        lambda x: np.where(x > 0, np.arccosh(1 + x), 0),
    ],
)
def test_what_is_not_taken_leaves_no_nan(f):
    for order in (1, 2):
        (g,) = gradients(f, np.array([0.0, 2.0]), order=order)
        assert np.isfinite(g).all()


def test_logaddexp_at_infinity():
    """In JAX it is NaN where both are -inf."""
    x, y = np.array([-np.inf, 0.0, -np.inf]), np.array([0.0, -np.inf, -np.inf])
    dx, dy = gradients(np.logaddexp, x, y)
    np.testing.assert_array_equal(dx, [0, 1, 0.5])
    np.testing.assert_array_equal(dy, [1, 0, 0.5])


# ---- several results


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_functions_of_several_results(dtype):
    x, y = np.array([[-7.5, 0.0, 3.25]]).astype(dtype), np.array([[2], [-3]]).astype(dtype)
    check_value(np.divmod, x, y)
    check_value(divmod, x, y)
    check_value(lambda x: np.divmod(x, 2), x)
    if dtype != np.int64:
        check_value(np.modf, x)
        check_value(np.frexp, x)


def test_derivatives_of_several_results():
    x, y = np.array([[-7.5, 0.3, 3.25]]), np.array([[2.2], [-3.1]])
    check_derivatives(np.divmod, x, y)
    check_derivatives(lambda x: np.divmod(x, 0.7)[1] ** 2, x)
    check_derivatives(lambda x: np.modf(x)[0] ** 2, x)
    check_derivatives(lambda x: np.frexp(x)[0] ** 3, x)
    check_derivatives(lambda x: np.frexp(x)[0] * np.modf(x)[1], x)


def test_batches_of_several_results():
    x, y = np.array([-7.5, 0.3, 3.25]), np.array([[2.2, 1.0, 0.5], [-3.1, 1.0, 1.5]])
    many = np.stack([y, 2 * y, -y])

    def by_row(function, signature, *arrays):
        return sg.compile(lambda *xs: np.vectorize(function, signature=signature)(*xs))(*arrays)

    quotient, rest = by_row(np.divmod, "(n),(m,n)->(m,n),(m,n)", x[:, None] * np.ones(3), many)
    np.testing.assert_array_equal(
        quotient, np.stack([np.divmod(np.full(3, v), w)[0] for v, w in zip(x, many, strict=True)])
    )
    np.testing.assert_array_equal(
        rest, np.stack([np.divmod(np.full(3, v), w)[1] for v, w in zip(x, many, strict=True)])
    )
    quotient = by_row(lambda y: np.divmod(x, y)[0], "(m,n)->(m,n)", many)
    np.testing.assert_array_equal(quotient, x // many)
    np.testing.assert_array_equal(by_row(lambda y: np.frexp(y)[0], "(m,n)->(m,n)", many), np.frexp(many)[0])
    np.testing.assert_array_equal(by_row(lambda y: np.modf(y)[0], "(m,n)->(m,n)", many), np.modf(many)[0])
    np.testing.assert_array_equal(by_row(lambda y: np.round(y, 1), "(m,n)->(m,n)", many), np.round(many, 1))


# ---- functions that are written with others


X = np.array([[-1.5, 0.25, np.inf], [np.nan, -np.inf, 2.5]])
FINITE = np.array([[-1.5, 0.25, 2.0], [0.125, -2.5, 2.5]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.clip(x, -1, 1), lambda x: np.clip(x, None, 1), lambda x: np.clip(x, -1, None),
        lambda x: np.clip(x, min=-1), lambda x: np.clip(x, max=1.0), lambda x: np.clip(x, min=-1, max=1),
        lambda x: np.clip(x, a_min=-1, a_max=1), lambda x: x.clip(-1, 1), lambda x: x.clip(max=0),
        lambda x: x.clip(0), lambda x: np.clip(x, [0, 1, 2], 3), lambda x: np.clip(x, 1, -1),
        lambda x: np.clip(x, None, None), lambda x: np.where(x > 0, x, 0), lambda x: np.where(x > 0, 1, 2),
        lambda x: np.where([1, 0, 2], x, -x), lambda x: np.where(x, 1.0, x), lambda x: np.where(True, x, 0),
        lambda x: np.select([x > 1, x > 0], [x, 2 * x], -1), lambda x: np.select([x > 1], [1.0]),
        lambda x: np.select([x > 1, x < 0], [x, 1.0], default=0.5), np.nan_to_num,
        lambda x: np.nan_to_num(x, nan=1.5), lambda x: np.nan_to_num(x, posinf=9.0, neginf=-9.0), np.round,
        lambda x: np.round(x, 1), lambda x: np.round(x, decimals=-1), lambda x: np.around(x, 2), lambda x: x.round(1),
        np.fix, np.isposinf, np.isneginf, np.real, np.imag, lambda x: x.real, lambda x: x.imag, np.conj,
        lambda x: x.conj(), lambda x: np.isclose(x, 0.25), lambda x: np.isclose(x, x, equal_nan=True),
        lambda x: np.isclose(x, x + 1e-9), lambda x: np.allclose(x, x), lambda x: np.array_equal(x, x),
        lambda x: np.array_equal(x, x, equal_nan=True), lambda x: np.array_equal(x, x[0]),
        lambda x: np.subtract.outer(x, x[0]), lambda x: np.multiply.outer(x, [1, 2]),
        lambda x: np.maximum.outer(2.0, x), lambda x: np.add.outer(x, 1), lambda x: np.power.outer(x, x[:, 0]),
        lambda x: np.divmod.outer(x, [2.0, 3.0]), lambda x: np.add(x, 1, dtype=np.float32), np.isreal, np.iscomplex,
        lambda x: np.iscomplexobj(x), lambda x: np.isrealobj(x),
    ],
)  # fmt: skip
@pytest.mark.parametrize("x", [X, FINITE, np.float32(FINITE)], ids=["special", "float64", "float32"])
def test_written_functions_equal_numpy(f, x):
    with np.errstate(all="ignore"):
        check_value(f, x)


@pytest.mark.parametrize("f", [np.round, np.fix, np.nan_to_num, np.real, np.imag, np.conj, lambda x: np.round(x, 1)])
@pytest.mark.parametrize("x", [np.array([1, -2]), np.array([3, 4], np.int8)])
def test_integers_pass_through(f, x):
    check_value(f, x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.clip(x, -1, 1), lambda x: np.clip(x, None, 1) ** 2,
        lambda x: np.select([x > 1, x > 0], [x**2, 2 * x], x**3), lambda x: np.subtract.outer(x, x[0]) ** 2,
        lambda x: np.multiply.outer(x, x), lambda x: np.round(x) * x, lambda x: np.nan_to_num(x, posinf=3.0) ** 2,
        lambda x: x.conj() * x.real, lambda x: np.fix(x) * x, lambda x: np.add(x, x**2, out=np.empty_like(x)),
        lambda x: np.exp(x, where=x > 0, out=np.zeros_like(x)),
    ],
)  # fmt: skip
def test_derivatives_of_written_functions(f):
    check_derivatives(f, FINITE * 1.01)


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: np.where(x > 0), UnsupportedError, "the number of places where a traced condition holds"),
        (
            lambda x: np.where(x[0] > 0),
            UnsupportedError,
            "np.where(condition): the size of the result depends on values",
        ),
        (lambda x: np.clip(x, 0, 1, casting="no"), UnsupportedError, "np.clip: the argument casting= is not supported"),
        (lambda x: np.clip(x, 0, 1, min=0), ArgumentError, "np.clip: min= or max= together with a_min or a_max"),
        (lambda x: np.select([x > 0], []), ArgumentError, "np.select: 1 conditions for 0 choices"),
        (
            lambda x: np.add.outer(x, x, casting="no"),
            UnsupportedError,
            "np.add.outer: the argument casting= is not supported",
        ),
        (lambda x: x & 1, DTypeError, "np.bitwise_and does not take float64, int"),
        (lambda x: -(x > 0), DTypeError, "np.negative does not take bool"),
        (lambda x: x + np.ones(3), ShapeError, "np.add: shapes (2,) and (3,) do not broadcast"),
        (
            lambda x: np.real_if_close(x * 1j),
            UnsupportedError,
            "np.real_if_close of complex numbers: values decide the dtype of the result",
        ),
    ],
)
def test_refusals(f, error, message):
    with pytest.raises(error) as caught:
        trace(f, np.ones(2))
    assert caught.value.fact.startswith(message)


def test_the_message_of_where_says_what_to_write():
    with pytest.raises(UnsupportedError) as caught:
        trace(lambda x: np.where(x[0] > 0), np.ones(2))
    assert caught.value.instead == "Write np.where(condition, x, y), or np.sum(x, where=condition)."


def test_absolute_reads_as_np_abs():
    _, _, (y,) = trace(np.abs, np.ones(2))
    assert y.op.spell(y, Code("x")).text == "np.abs(x)"


# ---- sums of exponentials, none of which there is


def paths(scores):
    """Return the logarithm of a sum over paths: places that no path has reached yet are -inf."""
    total = np.full(3, -np.inf)
    total[0] = scores[0]
    for t in range(1, 6):
        before = np.copy(total)
        for j in range(1, 3):
            total[j] = np.logaddexp(before[j], before[j - 1]) + scores[t]
    return total[2]


def rows_of_paths(scores):
    total = np.array([0.0, -np.inf, -np.inf])
    for row in scores:
        total = np.logaddexp(total, np.concatenate([np.array([-np.inf]), total[:-1]])) + row
    return total[2]


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_logaddexp_of_equal_infinities(level, target):
    """NumPy does not warn there, and each of two equal numbers has half of the slope, as elsewhere."""
    for function in (np.logaddexp, np.logaddexp2):
        slopes = sg.grad(function, argnums=(0, 1), optimize=level, target=target)
        for x in (-np.inf, np.inf, 3.0):
            assert slopes(x, x) == (0.5, 0.5)
        assert slopes(-np.inf, 2.0) == (0.0, 1.0) and slopes(np.inf, -np.inf) == (1.0, 0.0)
        bend = sg.hessian(function, optimize=level, target=target)
        assert bend(-np.inf, 0.0) == 0.0
        for x in (-np.inf, 2.0):
            np.testing.assert_allclose(bend(x, x), 0.25 * (1 if function is np.logaddexp else np.log(2)), rtol=1e-14)


def test_logaddexp_with_a_constant_needs_no_choice():
    source = sg.grad(lambda x: np.log(1 + np.exp(x))).source("float64[]")
    assert "isinf" not in source and "np.where" not in source
    assert sg.grad(lambda x: np.logaddexp(-np.inf, x))(-np.inf) == 0.5


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize(("f", "shape"), [(paths, 6), (rows_of_paths, (6, 3))])
def test_dynamic_programming_in_logarithms(f, shape, target):
    scores = np.random.default_rng(0).normal(size=shape)
    with sg.options(target=target):
        sg.check_grads(f, (scores,))


def test_a_row_without_a_finite_number():
    x = np.array([[-np.inf, -np.inf], [-np.inf, 0.0], [1.0, 1.0]])
    slopes = sg.grad(lambda x: np.sum(np.logaddexp.reduce(x, axis=1)))(x)
    np.testing.assert_allclose(slopes, [[0.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
