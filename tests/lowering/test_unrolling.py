"""Loops over axes of a few numbers inside of loops over many, which are written out."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering.expressions import ONE, ZERO, Apply, Choose, Load, Local, Number, Whole
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, If, Store, walk
from symgrad.lowering.unrolling import with_unrolled_loops
from symgrad.lowering.uses import are_independent
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from tests.lowering.interpret import interpret
from tests.statements import printed_kernels

FLOAT = np.dtype(float)
N = 12
X, Y = Buffer("x", FLOAT, (N, 3), "given"), Buffer("y", FLOAT, (N, 3), "result")
T, S = Buffer("t", FLOAT, (3,), "own"), Buffer("s", FLOAT, (3,), "own")
I, J, K, TOTAL = Local("i"), Local("j"), Local("k"), Local("total", FLOAT)
NUMBERS = np.random.default_rng(0).normal(size=(N, 3))


def apply(ufunc, *x):
    return Apply(TABLE[ufunc], x, FLOAT)


def over(index, stop, *body, **more):
    return For(index, Number(stop), [*body], **more)


def run(*body, vectorises=lambda op: True):
    """Check that no number changes, and return the function with small loops written out."""
    make = lambda: Function("f", [X], [], [Y], [T, S], [*body])
    expected = interpret(make(), [NUMBERS], {})[0]
    after = with_unrolled_loops(make(), vectorises)
    verify(after)
    np.testing.assert_allclose(interpret(after, [NUMBERS], {})[0], expected, rtol=1e-14)
    return after


def depth(function):
    """Return how many loops are inside of others."""
    return max(len(list(loops_in(s))) for s in function.body if isinstance(s, For))


def loops_in(s):
    return (x for x in walk(s.body) if isinstance(x, For))


def of_lengths():
    """Rows divided by their lengths."""
    square = apply(np.multiply, Load(X, (I, J)), Load(X, (I, J)))
    begun = Declare(TOTAL, Number(0.0, FLOAT), mutable=True)
    summed = over(J, 3, Assign(TOTAL, square, np.add), sums=[(TOTAL, np.add)])
    return over(I, N, begun, summed, over(J, 3, Store(Y, (I, J), apply(np.divide, Load(X, (I, J)), TOTAL))))


def test_rows_of_three_have_no_loops_inside():
    after = run(of_lengths())
    (loop,) = after.body
    assert depth(after) == 0
    assert are_independent(loop)
    assert [type(s) for s in loop.body] == [Declare, *[Assign] * 3, *[Store] * 3]


def test_what_compilers_do_not_vectorise_stays():
    after = run(of_lengths(), vectorises=lambda op: op.evaluate is not np.divide)
    assert depth(after) == 2


def test_a_small_buffer_becomes_names():
    made = over(J, 3, Store(T, (J,), apply(np.sin, Load(X, (I, J)))))
    turned = over(J, 3, Store(Y, (I, J), Load(T, (Whole("-", Number(2), J),))))
    after = run(over(I, N, made, turned))
    assert depth(after) == 0
    assert after.buffers == [S]


def test_a_small_buffer_that_is_used_elsewhere_stays():
    made = over(I, N, over(J, 3, Store(T, (J,), apply(np.sin, Load(X, (I, J))))))
    after = run(made, over(I, N, over(J, 3, Store(Y, (I, J), Load(T, (J,))))))
    assert after.buffers == [T, S]


def test_what_the_iteration_before_has_left_is_no_name():
    cleared = over(J, 3, Store(T, (J,), Number(1.0, FLOAT)))
    read = over(J, 3, Store(Y, (I, J), Load(T, (J,))), Store(T, (J,), Load(X, (I, J))))
    after = run(cleared, over(I, N, read))
    assert depth(after) == 1
    assert T in after.buffers


def test_sums_of_columns_are_begun_before_the_loop_and_stored_behind_it():
    cleared = over(J, 3, Store(T, (J,), Number(0.5, FLOAT)))
    added = over(I, N, over(J, 3, Store(T, (J,), Load(X, (I, J)), np.add)))
    after = run(cleared, added, over(I, N, over(J, 3, Store(Y, (I, J), Load(T, (J,))))))
    loop = after.body[4]
    assert [type(s) for s in after.body[1:8]] == [Declare] * 3 + [For] + [Store] * 3
    assert {combine for _, combine in loop.sums} == {np.add}
    assert len(loop.sums) == 3


def test_sums_of_a_row_of_the_loop_around_are_names():
    cleared = over(J, 3, Store(Y, (I, J), Number(0.0, FLOAT)))
    added = over(K, N, over(J, 3, Store(Y, (I, J), apply(np.multiply, Load(X, (K, J)), Load(X, (I, J))), np.add)))
    after = run(over(I, N, cleared, added))
    (loop,) = [s for s in after.body[0].body if isinstance(s, For) and s.index == K]
    assert len(loop.sums) == 3
    assert not any(loops_in(loop))


def test_what_may_be_one_element_under_two_indices_stays():
    first = over(J, 3, Store(T, (J,), Load(X, (I, J)), np.add))
    again = over(J, 3, Store(T, (K,), Load(X, (I, J)), np.add))
    cleared = over(J, 3, Store(T, (J,), Number(0.0, FLOAT)))
    after = run(cleared, over(K, 3, over(I, N, first, again)), over(I, N, over(J, 3, Store(Y, (I, J), Load(T, (J,))))))
    assert len(list(loops_in(after.body[1]))) == 3


def test_a_sum_that_is_read_meanwhile_stays_a_loop():
    cleared = over(J, 3, Store(T, (J,), Number(0.5, FLOAT)))
    added = over(J, 3, Store(T, (J,), Load(X, (I, J)), np.add), Store(Y, (I, J), Load(T, (J,))))
    assert depth(run(cleared, over(I, N, added))) == 1


def test_choices_among_known_indices_are_made():
    chosen = Choose(Whole("==", J, ONE), Load(X, (I, ZERO)), Load(X, (I, J)))
    after = run(over(I, N, over(J, 3, Store(Y, (I, J), chosen))))
    assert depth(after) == 0
    assert not any(isinstance(part, Choose) for s in walk(after.body) for x in s.expressions for part in x.parts())


def test_an_index_that_is_used_twice_is_another_one():
    inner = over(J, 3, Store(T, (J,), Load(X, (I, J))))
    product = over(J, 3, over(K, 2, Store(Y, (I, J), apply(np.multiply, Load(T, (J,)), Load(X, (I, K))))))
    assert depth(run(over(I, N, inner, product))) == 0


@pytest.mark.parametrize(("stop", "inside"), [(3, 0), (4, 0), (5, 1), (8, 1)])
def test_only_a_few_iterations_are_written_out(stop, inside):
    x, y = Buffer("x", FLOAT, (N, stop), "given"), Buffer("y", FLOAT, (N, stop), "result")
    body = [over(I, N, over(J, stop, Store(y, (I, J), apply(np.sin, Load(x, (I, J))))))]
    assert depth(with_unrolled_loops(Function("f", [x], [], [y], [], body), lambda op: True)) == inside


def test_a_loop_that_would_be_too_long_stays():
    x, y = Buffer("x", FLOAT, (N, 8, 8, 4), "given"), Buffer("y", FLOAT, (N, 8, 8, 4), "result")
    at = (I, J, K, Local("l"))
    body = [over(I, N, over(J, 8, over(K, 8, over(Local("l"), 4, Store(y, at, Load(x, at))))))]
    assert depth(with_unrolled_loops(Function("f", [x], [], [y], [], body), lambda op: True)) == 3


def test_what_a_branch_decides_stays():
    positive = Whole("<", ZERO, I)
    body = over(J, 3, Store(Y, (I, J), Number(0.0, FLOAT)), If(positive, [Store(Y, (I, J), Load(X, (I, J)))]))
    assert depth(run(over(I, N, body))) == 1


def points(x, light):
    unit = x / np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    shade = np.clip(np.stack([unit[:, 0], unit[:, 1] * unit[:, 2]], axis=1) @ light, 0.0, 0.8)
    return np.sum(shade**2) + np.sum(np.max(unit, axis=1)) + np.sum(np.sum(np.cos(x), axis=0) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 40])
def test_points_of_three_coordinates(n, monkeypatch):
    texts = printed_kernels(monkeypatch)
    rng = np.random.default_rng(n)
    x, light = rng.normal(size=(n, 3)), rng.normal(size=(2, 3))
    run = sg.value_and_grad(points, (0, 1), target="c").compile("float64[n, 3]", "float64[2, 3]", optimize=2)
    expected = sg.value_and_grad(points, (0, 1), optimize=0)(x, light)
    for got, wanted in zip((run(x, light)[0], *run(x, light)[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    found = re.findall(r"(#pragma omp simd.*\n)? *for \(int64_t \w = \w+; \w < (?:n|end|last\w*); ", "\n".join(texts))
    assert [bool(pragma) for pragma in found].count(False) == 1  # that over the two rows of `light`
    assert len(found) > 2
