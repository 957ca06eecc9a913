"""Statements: verified, run one by one without any text, and the same numbers as Python's."""

import re
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.region import with_nested
from symgrad.core.size_scope import Sizes
from symgrad.errors import GraphError
from symgrad.lowering import parallel
from symgrad.lowering.build import lower
from symgrad.lowering.expressions import ONE, ZERO, Load, Local, Number, plus, times
from symgrad.lowering.parallel import with_parallel_loops
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, If, Parallel, Require, Store
from symgrad.lowering.verify import verify
from symgrad.ops.control import SCAN
from symgrad.ops.shape import COPY
from symgrad.targets.c import blas, kernels
from tests import fuzz
from tests.control import test_united_loops as united
from tests.lowering.interpret import interpret
from tests.statements import interpreted, printed_kernels
from tests.targets.c.test_native import OF_SYSTEMS, PROGRAMS
from tests.whole import test_found_programs as found

FLOAT = np.dtype(float)
GIVEN = Buffer("x", FLOAT, (3,), "given")
MADE = Buffer("y", FLOAT, (3,), "result")
SPARE = Buffer("t", FLOAT, (3,), "own")
OF_ROWS = Buffer("rows", FLOAT, (3, Sizes().symbol("n")), "result")
I = Local("i")
TRUE = Number(True, np.dtype(bool))


@pytest.fixture
def by_statements(monkeypatch):
    """Kernels interpret their statements: no compiler is needed."""
    monkeypatch.setattr(kernels, "_compiled", interpreted)


def function(*body):
    return Function("f", [GIVEN], [], [MADE], [SPARE], list(body))


def loop(*body, stop=3):
    return For(I, Number(stop), list(body))


FIRST_TWO = loop(Store(SPARE, (I,), Load(GIVEN, (I,))), stop=2)


def test_statements_that_are_right():
    total = Local("total", FLOAT)
    right = function(
        Declare(total, Number(0.0, FLOAT), mutable=True),
        loop(Assign(total, Load(GIVEN, (I,)), np.add), Store(SPARE, (I,), total)),
        loop(Store(MADE, (I,), Load(SPARE, (I,)))),
    )
    verify(right)
    np.testing.assert_array_equal(interpret(right, [[1.0, 2.0, 4.0]], {})[0], [1.0, 3.0, 7.0])


WRONG = {
    "nothing has written t": [loop(Store(MADE, (I,), Load(SPARE, (I,))))],
    "adds to what nothing has written": [loop(Store(MADE, (I,), Load(GIVEN, (I,)), np.add))],
    "memory of the caller's": [loop(Store(GIVEN, (I,), Number(0.0, FLOAT)))],
    "i is not declared": [loop(), Store(MADE, (ZERO,), Load(GIVEN, (I,)))],
    "may not change": [Declare(Local("a"), ONE), Assign(Local("a"), ZERO)],
    "declares a name again": [Declare(Local("a"), ONE), Declare(Local("a"), ONE)],
    "a is not declared": [
        If(Number(True, np.dtype(bool)), [Declare(Local("a"), ONE)]),
        Declare(Local("b"), Local("a")),
    ],
    "its chunks are given n, which is not declared": [
        Parallel(loop(Store(OF_ROWS, (I, ZERO), Number(0.0, FLOAT))), [], []),
        Declare(Local("n"), ONE),
    ],
}


@pytest.mark.parametrize("fact", WRONG)
def test_what_the_verifier_finds(fact):
    with pytest.raises(GraphError, match=fact):
        verify(function(*WRONG[fact]))


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ([loop(Store(MADE, (plus(I, ONE),), Load(GIVEN, (I,))))], "outside of 3 numbers"),
        ([loop(Store(MADE, (I,), Load(GIVEN, (times(I, Number(2)),))))], "outside of 3 numbers"),
        (
            [loop(Store(SPARE, (I,), Load(GIVEN, (I,))), stop=2), loop(Store(MADE, (I,), Load(SPARE, (I,))))],
            "nothing has written t",
        ),
    ],
)
def test_what_only_running_finds(body, fact):
    with pytest.raises(GraphError, match=fact):
        interpret(function(*body), [[1.0, 2.0, 4.0]], {})


def test_an_index_that_is_required_to_lie_inside():
    with pytest.raises(IndexError, match="out of bounds"):
        interpret(function(loop(Require(I, Number(2)))), [[1.0, 2.0, 4.0]], {})


@pytest.mark.parametrize("f", [np.linalg.solve, np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky])
def test_matrices_without_numpy(f):
    """Matrices may have any number of rows; those without a result give NumPy's errors."""
    result = lambda *args: f(*args)[1] if f is np.linalg.slogdet else f(*args)
    specs = ["float64[m, n, n]", "float64[m, n, 2]"][: 2 if f is np.linalg.solve else 1]
    lowered = lower(sg.trace(result, *specs).graph, "f", lambda graph, node: None, ["m", "n"], alone=True)
    x = np.random.default_rng(0).normal(size=(2, 4, 4))
    args = [x @ np.swapaxes(x, 1, 2) + np.eye(4), x[..., :2]][: len(specs)]
    np.testing.assert_allclose(interpret(lowered, args, {"m": 2, "n": 4})[0], result(*args), rtol=1e-12)
    args[0][1, 2] = args[0][1, :, 2] = 0
    if f in (np.linalg.det, np.linalg.slogdet):
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(interpret(lowered, args, {"m": 2, "n": 4})[0], result(*args), rtol=1e-12)
    else:
        with pytest.raises(
            np.linalg.LinAlgError, match="not positive definite" if f is np.linalg.cholesky else "Singular"
        ):
            interpret(lowered, args, {"m": 2, "n": 4})


# ---- loops whose iterations may run at once

J, TOTAL, NUMBER = Local("j"), Local("total", FLOAT), Load(GIVEN, (I,))
FILLED = For(J, Number(3), [Store(SPARE, (J,), NUMBER)])
USED = For(J, Number(3), [Store(MADE, (J,), Load(SPARE, (J,)), np.add)])
BEGUN = [loop(Store(MADE, (I,), Number(0.0, FLOAT)))]

INDEPENDENT = {
    "numbers of its own": ([loop(Store(MADE, (I,), NUMBER))], [], []),
    "one number further": ([*BEGUN, loop(Store(MADE, (plus(I, ONE),), NUMBER, np.add), stop=2)], [], []),
    "sums and scratch memory": ([*BEGUN, loop(FILLED, USED)], [SPARE], [(MADE, np.add)]),
    "a scatter": ([*BEGUN, loop(Store(MADE, (times(I, ZERO),), NUMBER, np.add))], [], [(MADE, np.add)]),
    "the largest": (
        [Declare(TOTAL, Number(-1.0, FLOAT), mutable=True), loop(Assign(TOTAL, NUMBER, np.maximum))],
        [],
        [(TOTAL, np.maximum)],
    ),
}


def marked(body, monkeypatch):
    monkeypatch.setattr(parallel, "PAYS", 0)
    monkeypatch.setattr(parallel, "LIGHT", 0)
    return with_parallel_loops(function(*body)).body[-1]


@pytest.mark.parametrize("name", INDEPENDENT)
def test_loops_whose_iterations_are_independent(name, monkeypatch):
    body, private, sums = INDEPENDENT[name]
    found = marked(body, monkeypatch)
    assert isinstance(found, Parallel)
    assert (found.private, found.sums) == (private, sums)


CARRIED = Assign(TOTAL, Load(GIVEN, (I,)))
DEPENDENT = {
    "a number that another iteration writes": [loop(Store(MADE, (I,), Load(MADE, (plus(I, ONE),))))],
    "numbers at two distances": [loop(Store(MADE, (I,), NUMBER), Store(MADE, (plus(I, ONE),), NUMBER, np.add))],
    "one number that all write": [loop(Store(MADE, (ZERO,), NUMBER))],
    "a name that is carried": [Declare(TOTAL, Number(0.0, FLOAT), mutable=True), loop(CARRIED)],
    "a sum that is read": [
        Declare(TOTAL, Number(0.0, FLOAT), mutable=True),
        loop(Assign(TOTAL, NUMBER, np.add), Store(MADE, (I,), TOTAL)),
    ],
    "a sum of two kinds": [loop(Store(MADE, (ZERO,), NUMBER, np.add), Store(MADE, (ZERO,), NUMBER, np.multiply))],
    "memory that is filled in part": [loop(For(J, Number(2), [Store(SPARE, (J,), NUMBER)]), USED)],
    "memory that is filled at times": [loop(If(TRUE, [FILLED]), USED)],
    "memory that is read behind": [loop(FILLED), loop(Store(MADE, (I,), Load(SPARE, (I,)))), loop(FILLED)],
    "the last one first": [replace(loop(Store(MADE, (I,), NUMBER)), reverse=True)],
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_loops_whose_iterations_depend_on_each_other(name, monkeypatch):
    assert isinstance(marked(DEPENDENT[name], monkeypatch), For)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_chunks_in_any_order_give_what_the_loop_gives(name, monkeypatch):
    body = function(*INDEPENDENT[name][0], *([] if name != "the largest" else [loop(Store(MADE, (I,), TOTAL))]))
    monkeypatch.setattr(parallel, "PAYS", 0)
    expected, found = (interpret(f, [[1.0, 2.0, 4.0]], {})[0] for f in (body, with_parallel_loops(body)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("name", PROGRAMS | OF_SYSTEMS)
def test_statements_give_what_numpy_gives(name, optimize, by_statements):
    f, args, wrt = (PROGRAMS | OF_SYSTEMS)[name]
    expected = sg.value_and_grad(f, wrt, optimize=optimize, target="numpy")(*args)
    value, slopes = sg.value_and_grad(f, wrt, optimize=optimize, target="c")(*args)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    for got, slope in zip(slopes, expected[1], strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-11, atol=1e-12)


WRONG_IN_TILES = 40001221, 40000049  # a buffer of a loop in a loop took another one's memory; rows without numbers


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_programs(part, by_statements):
    """``python -m tests.fuzz --target statements`` runs as many as one likes."""
    for seed in (*WRONG_IN_TILES[part : part + 1], *range(40 * part, 40 * part + 40)):
        program = fuzz.generated(seed)
        if "float32" in program.script():  # sums are added in double, and NumPy's own depend on its kernels
            continue
        with sg.options(target="c"):
            verdict, reason = fuzz.outcome(program)
        assert verdict not in ("wrong", "crashed"), f"seed {seed}: {reason}"


# ---- programs that the whole suite has found with ``--target c``


@pytest.mark.parametrize("f", [f for f in found.PROGRAMS if f is not found.length_of_a_list_that_is_released])  # slow
def test_programs_that_were_wrong_elsewhere(f, by_statements):
    with sg.options(target="c"):
        found.check(f, found.ARGUMENTS, 2)


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_a_size_is_declared_once(optimize, by_statements):
    """The derivative knows the number of iterations of an inner loop before it runs that loop again."""
    x = np.array([5.0, *np.linspace(-1.2, 1.1, 11)])
    with sg.options(target="c"):
        found.check(found.returns_in_three_loops, [x], optimize)


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("limit", [-1e3, 1e3])
def test_a_size_that_is_known_is_not_declared_in_a_branch(limit, optimize, by_statements):
    """The loop of the branch runs as often as the loop ahead of it, whose number of iterations has a name."""
    program = united.takes_branch(united.falling)
    expected, found = (sg.compile(program, optimize=optimize, target=t)(united.X, limit) for t in ("numpy", "c"))
    for got, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, y, rtol=1e-12)


def last_of_a_list(x):
    kept = [x]
    while abs(kept[-1]) < 100:
        kept.append(1.5 * kept[-1] + 1)
    return kept[-1]


def factorials(x, limit):
    total, factorial, k = 0.0, 1, 0
    while k < limit:
        k = k + 1
        factorial = factorial * k
        total = total + x**2 / factorial
    return total


def of_large_integers(x, limit):
    n = 10**25
    for _ in range(20):
        n = n * 3 + 2**63
        x = x + limit / n
    return x * 10**25


@pytest.mark.parametrize("optimize", [0, 2])
@pytest.mark.parametrize(
    ("f", "args"), [(last_of_a_list, (1.0,)), (factorials, (0.7, 30.0)), (of_large_integers, (0.7, 2.0))]
)
def test_what_c_has_no_room_for(f, args, optimize, by_statements):
    """An array of a size that only running tells is not passed; an integer beyond 64 bits is Python's."""
    value, slope = sg.value_and_grad(f, optimize=optimize, target="c")(*args)
    expected, expected_slope = sg.value_and_grad(f, optimize=optimize, target="numpy")(*args)
    assert f(*args) == expected
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-14)


PRODUCTS = {
    "plain": (lambda a, b: a @ b, [(17, 16), (16, 19)]),
    "transposed": (lambda a, b: a.T @ b.T, [(16, 17), (19, 16)]),
    "of a sum": (lambda a, b: (a + 1).T @ np.tanh(b), [(16, 17), (16, 19)]),
    "of slices": (lambda a, b: a[1:] @ b[:, ::2], [(18, 16), (16, 40)]),
    "of a batch": (lambda a, b: a @ b, [(3, 17, 16), (16, 19)]),
    "of batches": (lambda a, b: a[:, None] @ b.transpose(0, 2, 1), [(2, 16, 17), (4, 19, 17)]),
    "of nothing": (lambda a, b: a[:0].T @ b[:0], [(20, 17), (20, 19)]),
}


def drawn(rng, shape, dtype):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype in (np.complex128, np.complex64) else x).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_large_matrices_are_left_to_blas(name, dtype, monkeypatch):
    monkeypatch.setattr(blas, "found", lambda: blas.Blas(0, 0, 0, 0))
    texts = printed_kernels(monkeypatch)
    f, shapes = PRODUCTS[name]
    rng = np.random.default_rng(0)
    args = [drawn(rng, shape, dtype) for shape in shapes]
    got = sg.compile(lambda a, b: np.exp(f(a, b) * 0.1) * 2, target="c", optimize=0).compile(*args)(*args)
    np.testing.assert_allclose(
        got, np.exp(f(*args) * 0.1) * 2, rtol=1e-4 if dtype in (np.float32, np.complex64) else 1e-12
    )
    assert name == "of nothing" or f"sg_{blas.KINDS[np.dtype(dtype).name]}(" in texts[-1]


def test_products_that_are_not_left_to_blas(monkeypatch):
    """Few rows or columns are loops; NumPy computes half of the product of a matrix with itself."""
    texts = printed_kernels(monkeypatch)
    a = np.random.default_rng(0).normal(size=(20, 17))
    run = sg.compile(lambda a: (np.exp(a[:3] @ a[:17]) * 2, np.exp(a @ a.T) * 2), target="c").compile(a)
    for got, expected in zip(run(a), (np.exp(a[:3] @ a[:17]) * 2, np.exp(a @ a.T) * 2), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert "gemm(" not in "".join(texts)
    assert "a @ a.T" in run.source.program


@pytest.mark.parametrize("there", [True, False])
def test_loops_with_products_of_large_matrices(there, monkeypatch):
    monkeypatch.setattr(blas, "found", lambda: blas.Blas(0, 0, 0, 0) if there else None)
    texts = printed_kernels(monkeypatch)

    def recurrent(w, u, xs):
        h = np.zeros((16, 18))
        for x in xs:
            h = np.tanh(h @ w + x @ u)
        return np.sum(h**2)

    rng = np.random.default_rng(0)
    args = [0.3 * rng.normal(size=shape) for shape in ((18, 18), (17, 18), (3, 16, 17))]
    value, slopes = sg.value_and_grad(recurrent, (0, 1), target="c")(*args)
    expected, wanted = sg.value_and_grad(recurrent, (0, 1), target="numpy")(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for got, slope in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-11, atol=1e-13)
    assert ("sg_dgemm(" in "".join(texts)) == there


def test_integers_are_checked_only_where_they_may_be_large(monkeypatch):
    texts = printed_kernels(monkeypatch)

    def second_of_three(x):
        total = 0.0
        for i in range(len(x) - 2):
            total = total + x[2 * i // 2 + 1] * x[i + 2]
        return total

    x = np.array([0.5, -0.2, 0.7, 1.1])
    assert sg.compile(second_of_three, target="c").compile("float64[n]")(x) == pytest.approx(second_of_three(x))
    assert texts
    assert "__builtin" not in "".join(texts)
    sg.compile(factorials, target="c")(0.7, 3.0)
    assert re.search(r"__builtin_mul_overflow\(factorial(_\d)?, k(_\d)?, &", texts[-1])


@pytest.mark.parametrize("index", [3, -4])
def test_an_axis_that_may_be_too_short(index, by_statements):
    compiled = sg.grad(lambda x: x[index] ** 2 + np.sum(x), target="c").compile("float64[n]")
    for n in (4, 5):
        expected = np.ones(n)
        expected[index] += 2 * np.arange(n)[index]
        np.testing.assert_array_equal(compiled(np.arange(n, dtype=float)), expected)
    with pytest.raises(IndexError):
        compiled(np.ones(3))


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 0, 3)])
def test_reshaped_arrays_without_numbers(shape, by_statements):
    def f(x):
        return np.sum(np.sin(x.reshape((1, -1)))) + np.sum(np.exp(x.reshape((-1, 3))))

    x = np.zeros(shape)
    np.testing.assert_array_equal(sg.hvp(f, target="c")(x, x), x)


def test_systems_without_a_right_hand_side(by_statements):
    solved = sg.compile(lambda a, b: np.linalg.solve(a, b), target="c")
    assert solved(np.eye(2), np.ones((2, 0))).shape == (2, 0)
    np.testing.assert_array_equal(solved(2 * np.eye(2), np.ones((2, 1))), np.full((2, 1), 0.5))


def test_an_array_is_copied_before_it_is_full(by_statements):
    def f(x):
        y = np.gradient(x, axis=0)
        return np.sum(y**2) + np.sum(np.tanh(y[1:][::2]))

    x = np.arange(9.0).reshape(3, 3) ** 2 / 50
    np.testing.assert_allclose(sg.grad(f, target="c")(x), sg.grad(f)(x), rtol=1e-14)


def test_indices_that_are_symbols(by_statements):
    table = np.arange(12.0).reshape(3, 4)

    def f(x, step):
        return table[step % 3, 1:] * x + table[-1 - step % 3, ::2].sum() + x[step]

    compiled = sg.compile(f, target="c")
    x = np.array([0.5, 1.5, -1.0])
    for step in (0, 2, 1, -1):
        np.testing.assert_allclose(compiled(x, step), f(x, step), rtol=1e-15)
    with pytest.raises(IndexError):
        compiled(x, 3)


def test_assignments_at_slices_that_are_symbols(by_statements):
    def f(x, k):
        y = np.zeros(6)
        y[-k:] = x[:k]
        return np.sum(y * y * x[k])

    gradient, expected = sg.grad(f, target="c"), sg.grad(f, target="numpy")
    x = np.arange(6.0)
    for k in (1, 2, 4):
        np.testing.assert_array_equal(gradient(x, k), expected(x, k))


@pytest.mark.slow
def test_a_long_chain(by_statements):
    def f(x):
        for _ in range(400):
            x = np.sin(x) * 1.1 + 0.25
        return np.sum(x)

    x = np.array([0.3, 0.4])
    value, slope = sg.value_and_grad(f, loops="unroll", optimize=0, target="c")(x)
    assert value == f(x)
    np.testing.assert_allclose(slope, sg.grad(f, target="numpy")(x), rtol=1e-10, atol=1e-300)


def test_checks_come_ahead_of_what_they_guard(by_statements):
    def at(x, i):
        if i >= x.shape[0]:
            raise ValueError(f"{i} of {x.shape[0]}")
        return np.sin(x[i]) ** 2 * np.sum(x)

    with pytest.raises(ValueError, match="7 of 3"):
        sg.grad(at, target="c")(np.ones(3), np.int64(7))


def test_operands_that_are_packed_for_blas_are_read_where_they_lie(by_statements):
    """Level 2 copies rows that each iteration multiplies again; a loop with such a copy is a kernel as well."""

    def solved(matrix, y):
        x = y
        while True:
            change = 0.0
            for i in range(len(x)):
                new = (y[i] + matrix[i, :i] @ x[:i] + matrix[i, i + 1 :] @ x[i + 1 :]) / (1 - matrix[i, i])
                change = max(change, abs(new - x[i]))
                x = x.copy()
                x[i] = new
            if change < 1e-13:
                return np.sum(np.log(x))

    rng = np.random.default_rng(0)
    args = rng.uniform(0.02, 0.2, (4, 4)), rng.uniform(0.5, 1.5, 4)
    compiled = sg.value_and_grad(solved, (0, 1), target="c").compile(*args)
    assert any(x.op is COPY for x in with_nested(compiled.whole.live))
    assert not any(x.op is SCAN for x in compiled.graph.live)
    value, slopes = compiled(*args)
    expected, wanted = sg.value_and_grad(solved, (0, 1), target="numpy")(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    for a, b in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


def before_an_addition(x):
    u, v, n = x * 0.5, x + 0.1, 4
    for _ in range(4 * n):
        u[:] = v
        np.add.at(v, [0, 0, 1], 0.1)
    return np.sum(u[[1, 0, 2]] * 0.1)


def a_test_that_no_iteration_changes(x):
    a, c = x[0] * 1.0, 0.8
    for _ in range(5 * len(x)):
        if not c > -0.4:
            break
        a = 0.6 * a - 0.4
    else:
        a = 0.1
    return a


@pytest.mark.parametrize("transform", [sg.compile, sg.value_and_grad])
@pytest.mark.parametrize("optimize", [0, 2])
@pytest.mark.parametrize("f", [before_an_addition, a_test_that_no_iteration_changes])
def test_found_by_random_programs(f, optimize, transform, by_statements):
    x = np.array([0.4, 0.7, -0.3, 0.9])
    found = transform(f, target="c", optimize=optimize, check_first=False)(x)
    expected = transform(f, optimize=0)(x)
    if transform is sg.compile:
        found, expected = (found,), (f(x.copy()),)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("shape", "kind"), [("50, 128", "float"), ("50, 129", "double"), ("50, n", "double")])
def test_long_sums_of_single_precision_are_in_double(shape, kind, monkeypatch):
    texts = printed_kernels(monkeypatch)
    sg.compile(lambda x: np.exp(np.sum(x, axis=1)), target="c").compile(f"float32[{shape}]")
    assert f"{kind} total = 0.0" in texts[0]
