"""Sums in straight lines, which become one expression."""

import re

import numpy as np
from hypothesis import given, settings, strategies as st

import symgrad as sg
from symgrad.lowering.expressions import ONE, ZERO, Apply, Load, Local, Number
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, Store
from symgrad.lowering.straight_sums import MOST, with_straight_sums
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from tests.lowering.interpret import interpret
from tests.statements import printed_kernels

FLOAT = np.dtype(float)
X, Y = Buffer("x", FLOAT, (3,), "given"), Buffer("y", FLOAT, (3,), "result")
T = Buffer("t", FLOAT, (3,), "own")
A, B, TOTAL, I = Local("a", FLOAT), Local("b", FLOAT), Local("total", FLOAT), Local("i")
NUMBERS = np.array([1.5, -2.0, 0.25])
TWO = Number(2)
PLACES = (ZERO, ONE, TWO)


def apply(ufunc, *x):
    return Apply(TABLE[ufunc], x, FLOAT)


def of(x):
    return Number(x, FLOAT)


def run(*body):
    """Check that no number changes, and return the statements."""
    begun = [Store(b, (k,), of(7.0)) for b in (T, Y) for k in PLACES]
    copied = lambda s: type(s)(**vars(s)) if not isinstance(s, For) else For(s.index, s.stop, [*map(copied, s.body)])
    make = lambda: Function("f", [X], [], [Y], [T], [*map(copied, (*begun, *body))])
    expected = interpret(make(), [NUMBERS], {})[0]
    after = with_straight_sums(make())
    verify(after)
    np.testing.assert_array_equal(interpret(after, [NUMBERS], {})[0], expected)
    return after.body[len(begun) :]


def test_a_name_that_is_added_to_is_one_sum():
    begun = Declare(TOTAL, of(0.0), mutable=True)
    added = [Assign(TOTAL, apply(np.multiply, Load(X, (k,)), Load(X, (k,))), np.add) for k in PLACES]
    left = run(begun, *added, Store(Y, (ZERO,), TOTAL))
    assert [type(s) for s in left] == [Declare, Store] and not left[0].mutable
    assert sum(part == Load(X, (ONE,)) for part in left[0].value.parts()) == 2


def test_an_element_that_is_added_to_is_one_sum():
    begun = [Store(Y, (k,), of(0.0)) for k in PLACES]
    added = [Store(Y, (k,), Load(X, (j,)), np.add) for j in PLACES for k in PLACES]
    assert len(run(*begun, *added)) == 3


def test_what_lies_between_may_not_use_the_sum():
    begun = Declare(TOTAL, Load(X, (ZERO,)), mutable=True)
    between = Store(Y, (ONE,), TOTAL)
    left = run(begun, between, Assign(TOTAL, Load(X, (ONE,)), np.add), Store(Y, (ZERO,), TOTAL))
    assert len(left) == 4


def test_what_lies_between_may_not_change_a_term():
    begun = Store(Y, (ZERO,), Load(T, (ONE,)))
    left = run(Store(T, (ONE,), Load(X, (ZERO,))), begun, Store(T, (ONE,), of(3.0)), Store(Y, (ZERO,), of(1.0), np.add))
    assert len(left) == 4


def test_a_loop_that_adds_to_a_sum_keeps_it():
    begun = Declare(TOTAL, of(0.0), mutable=True)
    loop = For(I, Number(3), [Assign(TOTAL, Load(X, (I,)), np.add)])
    left = run(begun, loop, Store(Y, (ZERO,), TOTAL))
    assert left[0].mutable


def test_sums_stay_short():
    begun = Store(Y, (ZERO,), of(0.0))
    left = run(begun, *(Store(Y, (ZERO,), Load(X, (ONE,)), np.add) for _ in range(3 * MOST)))
    assert len(left) == 3 + 2 * (MOST - 1)  # those behind the first sum have nothing that sets their target


def test_elements_are_read_by_the_names_that_they_were_written_from():
    left = run(
        Declare(A, Load(X, (ZERO,))), Store(T, (ONE,), A), Store(Y, (ZERO,), apply(np.multiply, Load(T, (ONE,)), A))
    )
    assert not any(
        isinstance(part, Load) and part.buffer is T for s in left for x in s.expressions for part in x.parts()
    )


values = st.sampled_from(["a", "total", "x0", "x2", "t0", "t1", "y1", "number"])
steps = st.lists(
    st.tuples(st.sampled_from(["total", "t0", "t1", "t2", "y0", "y1"]), st.booleans(), values, values), max_size=25
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_no_number_changes(steps):
    read = {"a": A, "total": TOTAL, "number": of(0.5)}
    read |= {f"{b.name}{k.value}": Load(b, (k,)) for b in (X, T, Y) for k in PLACES}
    body = [Declare(A, Load(X, (ONE,))), Declare(TOTAL, of(0.0), mutable=True)]
    for target, adds, left, right in steps:
        value, combine = apply(np.multiply, read[left], read[right]), np.add if adds else None
        if target == "total":
            body.append(Assign(TOTAL, value, combine))
        else:
            body.append(Store({"t": T, "y": Y}[target[0]], (Number(int(target[1])),), value, combine))
    run(*body, Store(Y, (TWO,), TOTAL))


def rotated(vectors, angles):
    rows = [[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]
    turn = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    return np.sum(np.sin((turn @ turn @ vectors[:, :, None])[:, :, 0]) ** 2)


def test_small_products_are_written_out_in_one_loop(monkeypatch):
    texts = printed_kernels(monkeypatch)
    rng = np.random.default_rng(0)
    vectors, angles = rng.normal(size=(40, 2)), rng.normal(size=40)
    run = sg.value_and_grad(rotated, (0, 1), target="c").compile("float64[n, 2]", "float64[n]", optimize=2)
    expected = sg.value_and_grad(rotated, (0, 1), optimize=0)(vectors, angles)
    value, slopes = run(vectors, angles)
    for got, wanted in zip((value, *slopes), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    text = "\n".join(texts)
    assert text.count("#pragma omp simd") == 1 and not re.search(r"\[i.*\] \+= ", text)
