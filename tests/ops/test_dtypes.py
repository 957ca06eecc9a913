"""Every dtype: constants in the source, rules, partials, contractions and powers, as NumPy has them at every level."""

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph
from symgrad.core.interpret import interpret
from symgrad.errors import SymgradError
from symgrad.frontend.variable import Variable
from symgrad.ops.define import TABLE, flat
from symgrad.pipeline import TABLES, rules_of
from symgrad.rewrite.engine import rewrite
from symgrad.rewrite.rules import Rule
from symgrad.targets.numpy.module import spell_array
from tests.ops.test_elementwise import OPS, arity, draw, gradients
from tests.oracle import trace

REALS = (np.float16, np.float32, np.float64, np.longdouble)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
COMPLEX = (np.complex64, np.complex128)
DTYPES = (np.bool_, *INTEGERS, *REALS, *COMPLEX)
SOME = (np.bool_, np.int8, np.uint64, np.float16, np.float32, np.float64, np.complex64, np.complex128)
LEVELS = (0, 1, 2)


def numbers(dtype, shape=6, seed=0):
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind in "biu":
        return rng.integers({"b": 0, "i": -5, "u": 0}[dtype.kind], 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    x = rng.uniform(-2, 2, shape)
    return (x + 1j * rng.uniform(-2, 2, shape) if dtype.kind == "c" else x).astype(dtype)


WAYS = [(0, "stable"), *itertools.product((1, 2), ("stable", "ieee"))]


def ways_of(levels):
    return [way for way in WAYS if way[0] in levels]


def assert_as_numpy(f, *xs, levels=LEVELS, ulps=8, ways=None):
    """The dtype and shape of NumPy, and its numbers, to rounding above level 0."""
    with np.errstate(all="ignore"):
        want = np.asarray(f(*xs))
        for level, numerics in ways or ways_of(levels):
            y = np.asarray(sg.compile(f, optimize=level, numerics=numerics)(*xs))
            assert (y.dtype, y.shape) == (want.dtype, want.shape), (level, numerics)
            tolerance = ulps * float(np.finfo(want.dtype).eps) if want.dtype.kind in "fc" else 0
            np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)


# ---- constants in the source

SHAPES = ((0,), (0, 3), (3, 0), (0, 0), (2, 0, 3), (1,), (3,), (1, 1), (2, 2), (2, 3), (2, 1, 2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_constants_of_every_dtype_and_shape_are_read_back(shape):
    for dtype in DTYPES:
        made = [np.zeros(shape, dtype), np.ones(shape, dtype), np.arange(np.prod(shape)).reshape(shape).astype(dtype)]
        for value in [*made, *([np.eye(*shape, dtype=dtype)] if len(shape) == 2 else [])]:
            assert_read_back(value)


def assert_read_back(value):
    found = eval(spell_array(value), {"np": np})
    assert (found.dtype, found.shape, repr(found.tolist())) == (value.dtype, value.shape, repr(value.tolist()))


@pytest.mark.parametrize(
    "value",
    [
        np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324]), np.array([[1.0, -0.0], [0.0, 1.0]]),
        np.array([complex(0.0, -0.0), complex(-0.0, 1.0), complex(np.inf, np.nan), complex(-1.0, -np.inf)]),
        np.array([2**64 - 1], np.uint64), np.array([-(2**63)], np.int64), np.array([0.1], np.longdouble) / 3,
        np.array([0.1, 1e-45], np.float32),
    ],
)  # fmt: skip
def test_numbers_at_the_ends_are_read_back(value):
    assert_read_back(value)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_empty_constants_in_programs(level):
    data, chosen = np.arange(6.0).reshape(2, 3), np.array([True, True])
    f = lambda b: np.sum(np.exp(data[~chosen] @ b)) + np.sum(data[chosen] @ b)
    value, slope = sg.value_and_grad(f, optimize=level)(np.ones(3))
    assert value == 15
    np.testing.assert_array_equal(slope, [3, 5, 7])
    for dtype, shape in itertools.product(SOME, ((0, 3), (3, 0), (2, 0, 3))):
        programs_of_empty(np.zeros(shape, dtype), level)


def programs_of_empty(empty, level):
    for f in (lambda x: empty * x, lambda x: np.swapaxes(empty, -1, -2) @ (empty * x), lambda x: (empty + x).T):
        assert_as_numpy(f, 2.0, levels=(level,))


# ---- rules

ALL_RULES = {r.name: (r, stage) for stage in TABLES for t in TABLES[stage] for r in vars(t).values() if type(r) is Rule}
IN_RULES = (np.bool_, np.int8, np.uint8, np.int64, *REALS, *COMPLEX)


def in_rule(d, dtype, seed):
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if d.dtype is not float:
        return np.floor(rng.uniform(d.low, d.high, d.shape)).astype(d.dtype)
    x = np.asarray(rng.uniform(d.low, d.high, d.shape))
    if dtype.kind in "biu":
        return x > (d.low + d.high) / 2 if dtype.kind == "b" else (1 + 40 * np.abs(x)).astype(dtype)
    return (x + 1j * x[::-1] if dtype.kind == "c" and x.ndim else x).astype(dtype)


def wide(x):
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


@pytest.mark.parametrize("name", ALL_RULES)
def test_rules_lose_no_digits_in_any_dtype(name):
    """A rule keeps the dtype of the result, and about its distance from the exact result."""
    r, stage = ALL_RULES[name]
    floating = [key for key, d in r.draws.items() if d.dtype is float]
    mixed = itertools.permutations((np.bool_, np.int8, np.float16, np.float32, np.float64, np.complex64), 2)
    for kinds in (*((k,) * len(floating) for k in IN_RULES), *(mixed if len(floating) == 2 else ())):
        dtypes = dict(zip(floating, kinds, strict=True))
        compare_sides(r, stage, {k: in_rule(d, dtypes.get(k), i) for i, (k, d) in enumerate(r.draws.items())})


def compare_sides(r, stage, arrays):
    graph = Graph()
    inputs = [graph.add_input(key, Aval(x.shape, x.dtype)) for key, x in arrays.items()]
    try:
        y = r(*[Variable(graph, x) for x in inputs], **r.examples)[0]
    except (SymgradError, TypeError):  # NumPy has no such operation for the dtype
        return
    graph.outputs = [y.node]
    feeds = dict(zip(inputs, arrays.values(), strict=True))
    with np.errstate(all="ignore"):
        try:
            before = np.asarray(interpret(graph.outputs, feeds)[0])
        except (TypeError, ValueError, OverflowError, np.exceptions.ComplexWarning):
            return
        new = rewrite(graph, rules_of(stage, "stable"))
        after = np.asarray(interpret(new.outputs, dict(zip(new.inputs, arrays.values(), strict=True)))[0])
        assert (before.dtype, before.shape) == (after.dtype, after.shape)
        if before.dtype.kind not in "fc":
            return np.testing.assert_array_equal(before, after)
        truth = truth_of(r, arrays)
        errors = [np.abs(wide(x) - truth) / (1 + np.abs(truth)) for x in (before, after)]
    known = np.isfinite(before) & np.isfinite(truth)
    worst = [np.max(e[known], initial=0.0) for e in errors]
    assert worst[1] <= 8 * max(worst[0], np.finfo(before.dtype).eps), (kinds_of(arrays), new.applied)


def truth_of(r, arrays):
    """The left side in the longest dtype that it takes; np.linalg has no long doubles."""
    longest = {key: wide(x) if r.draws[key].dtype is float else x for key, x in arrays.items()}
    try:
        return np.asarray(r(**longest, **r.examples)[0])
    except TypeError:
        shorter = {"g": float, "G": complex}
        doubles = {key: x.astype(shorter.get(x.dtype.char, x.dtype)) for key, x in longest.items()}
        return np.asarray(r(**doubles, **r.examples)[0])


def kinds_of(arrays):
    return [x.dtype.name for x in arrays.values()]


OF_ALL_DTYPES = [
    lambda z: np.abs(z) ** 2, lambda z: np.abs(z) * np.abs(z), lambda z: np.square(np.abs(z)),
    lambda z: np.sum(np.abs(z) ** 2), lambda z: np.mean(np.abs(z) * np.abs(z)), lambda z: np.abs(z) ** 4,
    lambda z: np.sum(z * z), lambda z: np.vdot(z, z), lambda z: z @ z, lambda z: np.sqrt(z * z),
    lambda z: z * np.conj(z), lambda z: np.sum(2 * z), lambda z: (z != 0) * z,
    lambda z: (z != 0) ** 2, lambda z: (z != 0) ** 3, lambda z: np.sum((z != 0) * (z != 1)),
    lambda z: np.correlate(z, z[:3]), lambda z: np.correlate(z[:3], z), lambda z: np.mean(z, where=z != 0),
    lambda z: z.reshape(2, 3) @ z.reshape(3, 2) @ z[:2],
]  # fmt: skip


@pytest.mark.parametrize("f", OF_ALL_DTYPES)
@pytest.mark.parametrize("blocks", [False, True])
def test_programs_in_every_dtype(f, blocks, request):
    """Each program in each dtype, in turn in the ways of compiling it: each way meets all programs and all dtypes."""
    if blocks:
        request.getfixturevalue("tiny_blocks")
    ways = ways_of((2,)) if blocks else WAYS
    for i, dtype in enumerate(SOME if blocks else DTYPES, OF_ALL_DTYPES.index(f)):
        two = [ways[(i + k) % len(ways)] for k in ((0,) if blocks else (0, 2))]
        assert_as_numpy(f, numbers(dtype), ulps=32, ways=two)


# ---- powers, Python's numbers


@pytest.mark.parametrize("exponent", [2, 0, 1, 3, 2.0, 0.5, np.int8(2), np.float32(2), np.array(2)], ids=repr)
def test_powers_have_the_dtype_of_numpy(exponent):
    for x in (np.array([True, False]), np.array([2, 3], np.int8), np.array([2.0], np.float16)):
        assert_as_numpy(lambda x: x**exponent, x)
        assert_as_numpy(lambda x: np.power(x, exponent), x)
        assert_as_numpy(lambda x, n: x**n, x, exponent)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, x: np.add.outer(a, x), lambda a, x: np.add.outer(x, a), lambda a, x: np.multiply.outer(a, x),
        lambda a, x: np.dot(a, x), lambda a, x: np.inner(x, a), lambda a, x: np.einsum(",i->i", a, x),
        lambda a, x: abs(a) * x, lambda a, x: np.abs(a) * x, lambda a, x: -a * x, lambda a, x: np.negative(a) * x,
        lambda a, x: np.positive(a) * x, lambda a, x: a**2 * x, lambda a, x: np.multiply(a, 2.0) * x,
        lambda a, x: np.clip(x, a, 3), lambda a, x: np.where(x > 2, a, x), lambda a, x: a % 2 * x,
    ],
)  # fmt: skip
@pytest.mark.parametrize("a", [1.5, -2])
def test_python_numbers_beside_float32(f, a):
    assert_as_numpy(f, a, np.arange(1, 5, dtype=np.float32))


# ---- partials

OF_SEVERAL = [name for name, op in OPS.items() if arity(op) > 1 and op.partials not in (flat, None) and name != "where"]


@pytest.mark.parametrize("name", OF_SEVERAL)
@pytest.mark.parametrize("own", [np.float64, np.float32])
def test_partials_are_computed_in_the_dtype_of_the_result(name, own):
    """An operand of few digits or of integers is converted before its square or its logarithm is taken."""
    op = OPS[name]
    for other, i in itertools.product((*INTEGERS[:1], np.uint8, np.uint64, *REALS[:2], np.bool_), range(arity(op))):
        kinds = [own if j == i else other for j in range(arity(op))]
        xs = draw(op, kinds, [(6,)] * arity(op), seed=1)
        xs = [x if np.issubdtype(x.dtype, np.inexact) else _large(name, j, x) for j, x in enumerate(xs)]
        try:
            (found,) = gradients(op, *xs, wrt=i)
        except SymgradError:  # NumPy takes only some of these together
            assert name == "ldexp"
            continue
        doubles = [x if name == "ldexp" and j else x.astype(float) for j, x in enumerate(xs)]
        (expected,) = gradients(op, *doubles, wrt=i)
        tolerance = 1e-12 if own is np.float64 else 3e-6
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{other} {i}")


def _large(name, place, x):
    """Integers whose square is larger than their dtype; exponents stay small."""
    if x.dtype.kind not in "iu" or (place and name in ("power", "float_power", "ldexp")):
        return x
    return np.array([1, 2, 3, 20, 100, 120]).astype(x.dtype)


def test_the_logarithm_of_a_base_of_small_integers():
    k, z = np.array([2, 3], np.int8), np.array([1.5, 2.5])
    for level in LEVELS:
        slope = sg.grad(lambda z: np.sum(k**z), optimize=level)(z)
        np.testing.assert_allclose(slope, k**z * np.log(k.astype(float)), rtol=1e-14)


# ---- einsum


def wide_sum(subscripts, xs):
    return np.einsum(subscripts, *[x.astype(np.clongdouble) for x in xs])


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("i,j->", [3, 4]), ("i,j->i", [3, 4]), ("ij,jk->ik", [(3, 4), (4, 2)]), ("ij,jk->i", [(3, 4), (4, 2)]),
        ("i,i->", [4, 4]), ("i,j,k->i", [3, 4, 2]), ("ij,jk,kl->il", [(3, 4), (4, 2), (2, 3)]), ("i,i,i->", [4, 4, 4]),
        ("ij->j", [(3, 4)]), (",i->i", [(), 3]),
    ],
)  # fmt: skip
def test_einsum_in_every_dtype(subscripts, shapes):
    choices = (np.bool_, np.int8, np.float64, np.float16, np.complex64)[: 5 if len(shapes) < 3 else 3]
    for kinds in itertools.product(choices, repeat=len(shapes)):
        xs = [numbers(kind, shape, seed) for seed, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))]
        want, truth = np.asarray(np.einsum(subscripts, *xs)), wide_sum(subscripts, xs)
        for level in (0, 2):
            with np.errstate(over="ignore"):  # in blocks, sums of int8 are numbers, which warn where they wrap around
                y = np.asarray(sg.compile(lambda *xs: np.einsum(subscripts, *xs), optimize=level)(*xs))
            assert (y.dtype, y.shape) == (want.dtype, want.shape)
            if want.dtype.kind in "biu":
                np.testing.assert_array_equal(y, want)
            else:
                eps = np.finfo(want.dtype).eps
                most = max(np.max(np.abs(want - truth)), 4 * eps * np.max(1 + np.abs(truth)))
                assert np.max(np.abs(y - truth)) <= 8 * most, (kinds, level)


@pytest.mark.parametrize("level", LEVELS)
def test_einsum_does_not_sum_booleans_first(level):
    x, b = np.array([1.0, 2.0]), np.array([True, True, False])
    for f in (lambda x, b: np.einsum("i,j->", x, b), lambda x, b: np.einsum("i,j,j->", x, b, b)):
        value, slope = sg.value_and_grad(f, optimize=level)(x, b)
        assert value == 6
        np.testing.assert_array_equal(slope, [2, 2])


@pytest.mark.parametrize("level", LEVELS)
def test_zero_times_large_numbers_is_zero(level):
    x, large = np.array([0.0, 1e-300]), np.full(3, 1e200)
    for f in (lambda x, y, z: np.einsum("i,j,k->i", x, y, z), lambda x, y, z: np.einsum("i,i,i->", x, y[:2], z[:2])):
        assert_as_numpy(f, x, large, large, levels=(level,))


# ---- float16 overflows at 65504


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(x / 1000), lambda x, y: np.sum(0.001 * x), lambda x, y: (x / 1000) @ y,
        lambda x, y: np.sum((x / 200) * (y / 200)), lambda x, y: np.sum((x / 100) ** 2),
        lambda x, y: np.sum(0.001 * x, keepdims=True) * y, lambda x, y: np.einsum("i,i->", x / 100, y / 100),
        lambda x, y: np.sum((x[:, None] / 100) * (y / 100), axis=0), lambda x, y: 0.1 * x + 0.1 * y,
        lambda x, y: 30.0 * (30.0 * x * (0.0001 * y)), lambda x, y: np.mean(x, where=x > 0),
    ],
)  # fmt: skip
def test_factors_of_float16_stay_where_they_are(f):
    x, y = (np.random.default_rng(i).uniform(100, 400, 300).astype(np.float16) for i in (0, 1))
    assert_as_numpy(f, x, y, ulps=16)
    total = lambda x, y: np.sum(f(x, y), dtype=np.float32)
    with np.errstate(all="ignore"):
        first, *others = (sg.grad(total, (0, 1), optimize=level)(x, y) for level in LEVELS)
    for slopes in others:
        for a, b in zip(slopes, first, strict=True):
            assert np.isfinite(a)[np.isfinite(b)].all()


def test_the_scale_of_a_norm_is_not_taken_out():
    def norm(x):
        top = np.max(np.abs(x))
        return top * np.sqrt(np.sum((x / top) ** 2))

    for x in (np.array([3e200, 4e200]), np.array([3e-200, 4e-200]), np.tile([3e200, -4e200], 5000)):
        for level in LEVELS:
            value, slope = sg.value_and_grad(norm, optimize=level)(x)
            np.testing.assert_allclose(value, norm(x), rtol=1e-12)
            np.testing.assert_allclose(slope, x / norm(x), rtol=1e-12)


# ---- the whole table


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if isinstance(op.evaluate, np.ufunc) and arity(op) == 1])
def test_functions_of_one_operand_in_every_dtype(name):
    """In turn in the ways of compiling it: each function meets all of them, and so does each dtype."""
    f, ways = getattr(np, name), ways_of((0, 2))
    for i, dtype in enumerate(DTYPES, [*OPS].index(name)):
        x = numbers(dtype)
        try:
            with np.errstate(all="ignore"):
                f(x)
        except TypeError:
            with pytest.raises(SymgradError):
                trace(TABLE[f], x)
            continue
        assert_as_numpy(f, x, ways=[ways[i % 3]])


@pytest.mark.parametrize("dtype", [np.longdouble, np.float16, np.uint8, np.int8, np.uint16])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_polynomials_in_loops(dtype, level):
    def f(x):
        s = x[0] * 0
        for i in range(20):
            s = s * x[1] + x[2] * i
        return s

    x = np.array([1, 2, 1]).astype(dtype)
    with np.errstate(over="ignore"):
        found, want = sg.compile(f, optimize=level)(x), f(x)
    np.testing.assert_array_equal(found, want)
    assert found.dtype == want.dtype


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.float32, bool])
def test_angles_of_real_numbers_have_the_dtype_of_numpy(dtype):
    x = np.array([1, 0, 2]).astype(dtype)
    for f in (np.angle, lambda x: np.angle(x, deg=True)):
        assert sg.compile(f)(x).dtype == f(x).dtype
