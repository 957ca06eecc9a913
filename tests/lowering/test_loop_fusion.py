"""Loops of statements that become one, and the memory that this makes needless."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering.expressions import ONE, ZERO, Apply, Expr, Load, Local, Number, minus, plus, remainder
from symgrad.lowering.fusion import fused
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, Require, Store
from symgrad.lowering.uses import are_independent
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from tests.lowering.interpret import interpret
from tests.statements import printed_kernels

FLOAT = np.dtype(float)
X, Y = Buffer("x", FLOAT, (6,), "given"), Buffer("y", FLOAT, (6,), "result")
PLACES = Buffer("places", np.dtype(np.int64), (6,), "given")
T, U = Buffer("t", FLOAT, (6,), "own"), Buffer("u", FLOAT, (6,), "own")
I, FIRST, TOTAL = Local("i"), Local("first"), Local("total", FLOAT)
LAST = minus(Number(5), I)  # the last first
NEXT = remainder(plus(I, ONE), Number(6))
NUMBERS = np.array([1.0, -2.0, 0.5, 4.0, 3.0, -1.0])


def sine(x: Expr) -> Expr:
    return Apply(TABLE[np.sin], (x,), FLOAT)


def product(a: Expr, b: Expr) -> Expr:
    return Apply(TABLE[np.multiply], (a, b), FLOAT)


def loop(*body, sums=(), stop=6):
    return For(I, Number(stop), list(body), sums=list(sums))


def run(*body, **facts):
    """Check that fusing changes no number, and return the function with its loops at the top."""
    make = lambda: Function("f", [X], [], [Y], [T, U], [*body])
    expected = interpret(make(), [NUMBERS], {})[0]
    after = fused(make(), **facts)
    verify(after)
    np.testing.assert_array_equal(interpret(after, [NUMBERS], {})[0], expected)
    return after, [s for s in after.body if isinstance(s, For)]


def test_a_value_that_one_loop_makes_and_reads_is_a_name():
    after, loops = run(
        loop(Store(T, (I,), sine(Load(X, (I,))))), loop(Store(Y, (I,), product(Load(T, (I,)), Load(X, (I,)))))
    )
    assert len(loops) == 1
    assert after.buffers == [U]
    assert [type(s) for s in loops[0].body] == [Declare, Store]


@pytest.mark.parametrize("vectorises", [True, False])
def test_what_is_computed_in_vectors_is_not_joined_with_what_is_not(vectorises):
    sines = loop(Store(T, (I,), sine(Load(X, (I,)))))
    products = loop(Store(Y, (I,), product(Load(T, (I,)), Load(X, (I,)))))
    facts = {"vectorises": lambda op: vectorises or op.evaluate is not np.sin}
    assert len(run(sines, products, **facts)[1]) == (1 if vectorises else 2)


def test_a_neighbour_needs_the_whole_loop_before_it():
    turned = loop(Store(Y, (I,), Load(T, (LAST,))))
    after, loops = run(loop(Store(T, (I,), sine(Load(X, (I,))))), turned)
    assert len(loops) == 2
    assert T in after.buffers


def test_a_sum_is_whole_before_it_is_read():
    total = Declare(TOTAL, Number(0.0, FLOAT), mutable=True)
    summed = loop(Assign(TOTAL, Load(X, (I,)), np.add), sums=[(TOTAL, np.add)])
    scaled = loop(Store(Y, (I,), product(Load(X, (I,)), TOTAL)))
    assert len(run(total, summed, scaled)[1]) == 2


def test_a_sum_beside_a_value():
    total = Declare(TOTAL, Number(0.0, FLOAT), mutable=True)
    made = loop(Store(T, (I,), sine(Load(X, (I,)))))
    summed = loop(Assign(TOTAL, Load(T, (I,)), np.add), sums=[(TOTAL, np.add)])
    copied = loop(Store(Y, (I,), Load(T, (I,))))
    after, loops = run(made, total, summed, copied)
    assert len(loops) == 1
    assert loops[0].sums == [(TOTAL, np.add)]
    assert T not in after.buffers


def test_a_loop_does_not_pass_what_it_relies_on():
    made = loop(Store(T, (I,), sine(Load(X, (I,)))))
    relies = loop(Store(Y, (I,), Load(T, (I,))))
    after, loops = run(made, Require(Load(T, (ZERO,)), Number(6)), relies)
    assert len(loops) == 2
    assert isinstance(after.body[1], Require)


def test_a_check_comes_first_where_it_can():
    made = loop(Store(T, (I,), sine(Load(X, (I,)))))
    relies = loop(Store(Y, (I,), Load(T, (I,))))
    after, loops = run(made, Require(Number(3), Number(6)), relies)
    assert len(loops) == 1
    assert isinstance(after.body[0], Require)


def test_an_index_is_checked_once():
    def gathered(name, target):
        place = Local(name)
        return loop(Declare(place, NEXT), Require(place, Number(6)), Store(target, (I,), Load(X, (place,))))

    joined = lambda: loop(Store(Y, (I,), product(Load(T, (I,)), Load(U, (I,)))))
    _, (only,) = run(gathered("first", T), gathered("second", U), joined())
    assert sum(isinstance(s, Require) for s in only.body) == 1
    changed = [Declare(FIRST, NEXT, mutable=True), Require(FIRST, Number(6)), Assign(FIRST, Number(1))]
    again = loop(*changed, Require(FIRST, Number(6)), Store(U, (I,), Load(X, (FIRST,))))
    _, loops = run(gathered("place", T), again, joined())
    assert sum(isinstance(s, Require) for each in loops for s in each.body) == 3


@pytest.mark.parametrize(
    ("first", "second", "count"), [(np.add, np.add, 1), (np.add, np.maximum, 2), (np.add, None, 2)]
)
def test_what_only_adds_to_the_same_numbers_is_joined(first, second, count):
    """Two scatters into one array; what combines otherwise with its numbers, or overwrites them, stays behind."""
    fill = loop(Store(Y, (I,), Number(0.5, FLOAT)))
    near = loop(Store(Y, (remainder(I, Number(3)),), Load(X, (I,)), first))
    far = loop(Store(Y, (remainder(NEXT, Number(3)),), Load(X, (I,)), second))
    _, loops = run(fill, near, far)
    assert sum(any(isinstance(s, Store) and s.value == Load(X, (I,)) for s in x.body) for x in loops) == count


def test_sums_that_are_read_in_between_are_not_joined():
    fill = loop(Store(T, (I,), Number(0.0, FLOAT)))
    add = loop(Store(T, (remainder(I, Number(3)),), Load(X, (I,)), np.add))
    read = loop(Store(Y, (I,), Load(T, (I,))))
    again = loop(Store(T, (remainder(I, Number(2)),), Load(X, (I,)), np.add))
    more = loop(Store(Y, (I,), Load(T, (I,)), np.add))
    _, loops = run(fill, add, read, again, more)
    assert len(loops) >= 4


def test_what_is_written_again_stays_behind_its_readers():
    first = loop(Store(T, (I,), sine(Load(X, (I,)))))
    second = loop(Store(U, (I,), Load(T, (LAST,))))
    again = loop(Store(T, (I,), Load(X, (I,))))
    last = loop(Store(Y, (I,), product(Load(T, (I,)), Load(U, (I,)))))
    run(first, second, again, last)


def test_what_is_filled_after_it_was_read_stays_behind_its_reader():
    made = loop(Store(T, (I,), sine(Load(X, (I,)))))
    read = loop(Store(U, (I,), Load(T, (LAST,))))
    cleared = loop(Store(T, (I,), Number(0.0, FLOAT)))
    last = loop(Store(Y, (I,), product(Load(T, (I,)), Load(U, (I,)))))
    run(made, read, cleared, last)


def test_what_is_filled_with_a_name_is_filled_before_that_changes():
    total = Declare(TOTAL, Load(X, (ONE,)), mutable=True)
    fill = loop(Store(T, (I,), TOTAL))
    copied = loop(Store(Y, (I,), product(Load(T, (I,)), Load(X, (I,)))))
    run(total, loop(fill, Assign(TOTAL, Number(0.0, FLOAT)), stop=1), copied)
    run(total, fill, Assign(TOTAL, Number(0.0, FLOAT)), copied)


def test_what_a_name_is_read_from_is_filled_before_it():
    cleared = loop(Store(T, (I,), Number(2.0, FLOAT)))
    read = Declare(TOTAL, Load(T, (ZERO,)))
    run(cleared, read, loop(Store(Y, (I,), product(Load(X, (I,)), TOTAL))))


def test_what_is_read_once_more_is_not_read_before_it_is_filled():
    cleared = loop(Store(T, (I,), Number(2.0, FLOAT)))
    first = loop(Store(U, (I,), Load(T, (LAST,))))
    read = Declare(TOTAL, Load(T, (ZERO,)))
    run(cleared, first, read, loop(Store(Y, (I,), product(Load(U, (I,)), TOTAL))))


def test_iterations_that_are_independent():
    here, first, next_ = (I,), (ZERO,), (plus(I, ONE),)
    value = product(Load(X, here), Load(X, here))
    summed = Assign(TOTAL, value, np.add)
    assert are_independent(loop(Store(Y, here, value), Store(T, here, Load(Y, here))))
    assert are_independent(loop(Store(T, here, value, np.add), summed, sums=[(TOTAL, np.add)]))
    assert not are_independent(loop(summed))
    assert not are_independent(loop(summed, Store(Y, here, TOTAL), sums=[(TOTAL, np.add)]))
    assert not are_independent(loop(Store(Y, first, value, np.add), summed, sums=[(TOTAL, np.add)]))
    assert not are_independent(loop(Store(Y, (Load(PLACES, here),), value, np.add)))
    assert not are_independent(loop(Store(T, next_, Load(T, here))))
    assert not are_independent(loop(Require(Load(PLACES, here), Number(6)), Store(Y, here, value)))


# ---- of programs


@pytest.fixture
def texts(monkeypatch):
    """The C of kernels, which interpret their statements."""
    return printed_kernels(monkeypatch)


def test_samples_are_read_once(texts):
    def loss(W, b, v, x, y):
        h = np.tanh(x @ W + b)
        return np.mean((h @ v - y) ** 2)

    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape) for shape in ((4, 12), 12, 12, (9, 4), 9)]
    specs = ["float64[4, 12]", "float64[12]", "float64[12]", "float64[n, 4]", "float64[n]"]
    value, slopes = sg.value_and_grad(loss, (0, 1, 2), target="c").compile(*specs)(*args)
    expected, wanted = sg.value_and_grad(loss, (0, 1, 2), target="numpy")(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    for a, b in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert len(re.findall(r"^    for .* i < end;", texts[-1], re.MULTILINE)) == 1
    assert "workspace;" not in texts[-1]  # rows of twelve numbers lie on the stack


@pytest.mark.parametrize("n", [1, 2, 7])
def test_chains_with_sums_between_them(n, texts):
    def normalised(x, w):
        centred = x - np.mean(x)
        scaled = centred / np.sqrt(np.mean(centred**2) + 1e-3)
        return np.sum(np.exp(-scaled * w) * scaled)

    rng = np.random.default_rng(n)
    x, w = rng.normal(size=(2, n))
    with np.errstate(all="ignore"):
        got = sg.value_and_grad(normalised, (0, 1), target="c").compile("float64[n]", "float64[n]")(x, w)
        expected = sg.value_and_grad(normalised, (0, 1), target="numpy")(x, w)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-12)
    for a, b in zip(got[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def looked_up(table, x, places):
    z = np.concatenate([table, table[:1]])[places] - x
    return np.sum(np.sqrt(1 + z**2) * np.exp(-z) + np.log(1 + z**2) * table[1 - places])


@pytest.mark.parametrize("specs", [None, ("float64[m]", "float64[n]", "int64[n]")])
def test_checks_stand_behind_loops(specs, texts):
    """Note an index outside of its axis, of which the loop that computes a lot is not left, and end behind it."""
    rng = np.random.default_rng(0)
    args = rng.normal(size=6), rng.normal(size=12), np.array([0, 5, -4, 1, 2, 3, 4, -3, 0, 1, 5, 2])
    run = sg.value_and_grad(looked_up, (0, 1), target="c").compile(*(specs or args))
    expected, slopes = sg.value_and_grad(looked_up, (0, 1), target="numpy")(*args)
    value, (d_table, d_x) = run(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(d_table, slopes[0], rtol=1e-12)
    np.testing.assert_allclose(d_x, slopes[1], rtol=1e-12)
    assert "outside |= (int64_t)is_outside;" in texts[-1]
    for k, wrong in ((0, 7), (11, -5), (3, -6), (3, 2**62)):
        places = args[2].copy()
        places[k] = wrong
        with pytest.raises(IndexError):
            run(*args[:2], places)


def test_loops_that_compute_little_are_left_at_once(texts):
    table, places = np.arange(6.0), np.array([1] * 12)
    sg.compile(lambda t, i: t[i] * 2 + 1, target="c").compile(table, places)
    assert "outside" not in texts[-1]
    assert "return 1;" in texts[-1]
