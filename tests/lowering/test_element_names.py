"""Elements of small arrays in loops whose iterations depend on each other, which get names."""

import copy

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.lowering.element_names import with_named_elements
from symgrad.lowering.expressions import TRUTH, Apply, Choose, Load, Local, Number, Whole
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, If, Store, While, walk
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from tests.lowering.interpret import interpret

FLOAT = np.dtype(float)
N = 12
X, Y = Buffer("x", FLOAT, (N, 3), "given"), Buffer("y", FLOAT, (N, 3), "result")
S, T, SUMS = (Buffer(name, FLOAT, (3,), "own") for name in ("s", "t", "sums"))
ROW, J, TOTAL = Local("row"), Local("j"), Local("total", FLOAT)
NUMBERS = np.random.default_rng(0).normal(size=(N, 3))
HALF, ONE = Number(0.5, FLOAT), Number(1.0, FLOAT)


def apply(ufunc, *x):
    return Apply(TABLE[ufunc], x, FLOAT)


def at(k):
    return (Number(k),)


def small(*body):
    """Return a loop over the three numbers of a row."""
    return For(J, Number(3), [*body])


def run(*iteration, behind=(), around=lambda body: For(ROW, Number(N), body)):
    """Check that no number changes, and return the function with named elements.

    A row of the result is s + t behind each iteration. All memory begins with zeros, the result with ones.
    """
    zeros = [small(Store(b, (J,), Number(0.0, FLOAT))) for b in (S, T, SUMS)]
    shown = small(Store(Y, (ROW, J), apply(np.add, Load(S, (J,)), Load(T, (J,)))))
    total = Declare(TOTAL, Number(0.0, FLOAT), mutable=True)
    ones = For(ROW, Number(N), [small(Store(Y, (ROW, J), ONE))])
    body = [*zeros, ones, total, around([*iteration, shown]), *behind]
    before = Function("f", [X], [], [Y], [S, T, SUMS], body)
    verify(before)
    expected = interpret(copy.deepcopy(before, {id(b): b for b in (X, Y, S, T, SUMS)}), [NUMBERS], {})[0]
    after = with_named_elements(before)
    verify(after)
    np.testing.assert_allclose(interpret(after, [NUMBERS], {})[0], expected, rtol=1e-13, atol=1e-300)
    return after


def loop_of(function):
    *_, loop = (s for s in function.body if isinstance(s, While) or (isinstance(s, For) and s.index.name == "row"))
    return loop


def is_written_out(function):
    return not any(isinstance(x, For) for body in loop_of(function).bodies for x in walk(body))


def memory(function):
    """Return the buffers that statements of the loop over rows read or write."""
    inside = [s for body in loop_of(function).bodies for s in walk(body)]
    read = {part.buffer for s in inside for x in s.expressions for part in x.parts() if isinstance(part, Load)}
    return {b.name for b in read | {s.buffer for s in inside if isinstance(s, Store)}}


DECAYED = small(Store(S, (J,), apply(np.add, Load(X, (ROW, J)), apply(np.multiply, HALF, Load(S, (J,))))))


def test_a_state_is_carried_by_names():
    after = run(DECAYED)
    assert is_written_out(after)
    assert memory(after) == {"x", "y", "t"}
    assert sum(isinstance(s, Assign) for s in loop_of(after).body) == 3
    assert sum(isinstance(s, Declare) and s.mutable for s in after.body) == 4  # with the total


def test_the_test_of_a_loop_reads_names():
    first = Local("first", FLOAT)
    test = Apply(TABLE[np.less], (first, Number(2.0, FLOAT)), TRUTH)
    head = [small(Store(T, (J,), Load(S, (J,)))), Declare(first, apply(np.add, Load(T, at(0)), Load(S, at(1))))]
    more = small(Store(S, (J,), Number(0.25, FLOAT), np.add))
    after = run(more, around=lambda body: While(ROW, Number(N), head, test, body))
    assert is_written_out(after)
    assert memory(after) == {"y"}


def test_what_is_read_behind_the_loop_is_stored_there():
    after = run(DECAYED, behind=[small(Store(Y, (Number(0), J), Load(S, (J,))))])
    assert memory(after) == {"x", "y", "t"}
    behind = after.body[after.body.index(loop_of(after)) + 1 :]
    assert sum(isinstance(s, Store) and s.buffer.name == "s" for s in behind) == 3


def test_elements_that_change_places():
    kept = Local("kept", FLOAT)
    turned = [
        Declare(kept, Load(S, at(0))),
        *[Store(S, at(k), Load(S, at(k + 1))) for k in (0, 1)],
        Store(S, at(2), kept),
    ]
    for first in range(3):  # names are handed on in the order in which they are read first
        assert is_written_out(run(small(), Store(T, at(0), Load(S, at(first))), *turned, Store(S, at(1), ONE, np.add)))
        assert is_written_out(run(DECAYED, Store(T, at(0), Load(S, at(first))), *turned))


def test_a_number_that_changes_is_copied():
    changed = [
        Store(S, at(1), TOTAL),
        Assign(TOTAL, Load(X, (ROW, Number(0))), np.add),
        Store(T, at(0), Load(S, at(1))),
    ]
    assert is_written_out(run(DECAYED, *changed))


def test_an_index_that_changes():
    k = Local("k")
    first = Declare(k, Number(0), mutable=True)
    changed = [first, Store(T, (k,), ONE), Assign(k, Number(1)), Store(S, at(0), Load(T, (k,)))]
    assert is_written_out(run(DECAYED, Store(T, at(1), Load(X, (ROW, Number(1)))), *changed))


def test_a_maximum_is_read_from_memory():
    most = Store(S, at(0), Load(X, (ROW, Number(2))), np.maximum)
    assert is_written_out(run(most, Store(T, at(0), Load(S, at(0))), DECAYED))
    assert is_written_out(run(DECAYED, most, Store(T, at(0), Load(S, at(0)))))


def test_what_nothing_carries_stays():
    after = run(small(Store(S, (J,), Load(X, (ROW, J)))))
    assert not is_written_out(after)


def test_a_loop_that_calls_functions_stays():
    after = run(small(Store(S, (J,), apply(np.exp, apply(np.negative, Load(S, (J,)))))))
    assert not is_written_out(after)


def test_sums_stay_as_they_are():
    summed = small(Store(SUMS, (J,), Load(X, (ROW, J)), np.add))
    after = run(DECAYED, summed, behind=[small(Store(Y, (Number(0), J), Load(SUMS, (J,))))])
    assert is_written_out(after)
    assert sum(isinstance(s, Store) and s.combine is np.add for s in loop_of(after).body) == 3


@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
def test_branches(sides):
    test = Whole("<", Whole("%", ROW, Number(3)), Number(2))
    half = small(Store(S, (J,), apply(np.multiply, HALF, Load(S, (J,)))))
    more = small(Store(S, (J,), ONE, np.add))
    branch = If(test, [half] if sides[0] else [], [more] if sides[1] else [])
    for iteration in ([DECAYED, branch], [branch, DECAYED]):
        after = run(*copy.deepcopy(iteration, {id(b): b for b in (X, S)}))
        assert is_written_out(after)
        assert memory(after) == {"x", "y", "t"}


def test_memory_tells_what_one_side_alone_writes():
    only = If(Whole("<", ROW, Number(5)), [Store(T, (Number(1),), Load(X, (ROW, Number(0))))])
    after = run(only, DECAYED)
    assert is_written_out(after)
    assert "t" in memory(after)


def test_an_index_that_only_running_tells():
    place = (Whole("%", ROW, Number(3)),)
    assert is_written_out(run(DECAYED, Store(Y, (ROW, *place), Load(S, place))))
    assert is_written_out(run(DECAYED, Store(T, place, Load(S, at(0))), small(Store(T, (J,), ONE, np.add))))
    written = [Store(T, at(1), Load(X, (ROW, Number(1)))), Store(T, place, ONE), Store(S, at(0), Load(T, at(1)))]
    assert is_written_out(run(DECAYED, *written))


def indices(within):
    known = st.integers(0, 2).map(Number)
    rows = st.builds(lambda k: Whole("%", Whole("+", ROW, k), Number(3)), known)
    return st.one_of(known, known, rows, *[st.just(J)] * within)


def expressions(within):
    loads = st.one_of(
        st.builds(lambda b, i: Load(b, (i,)), st.sampled_from([S, T]), indices(within)),
        st.builds(lambda i: Load(X, (ROW, i)), indices(within)),
    )
    known = st.sampled_from([HALF, ONE, Number(-0.25, FLOAT)])
    combined = lambda x: st.one_of(
        st.builds(lambda a, b: apply(np.multiply, HALF, apply(np.add, a, b)), x, x),
        st.builds(lambda a, b: apply(np.minimum, ONE, apply(np.multiply, a, b)), known, x),
        st.builds(lambda a, b: Choose(Whole("<", ROW, Number(6)), a, b), x, x),
    )
    return st.recursive(st.one_of(loads, loads, known, st.just(TOTAL)), combined, max_leaves=4)


def stores(within):
    ways = st.sampled_from([None, None, np.add, np.multiply, np.maximum])
    places = st.one_of(
        st.builds(lambda b, i: (b, (i,)), st.sampled_from([S, T]), indices(within)),
        st.builds(lambda i: (Y, (ROW, i)), indices(within)),
    )
    halved = lambda way, x: apply(np.maximum, Number(-1.0, FLOAT), apply(np.minimum, ONE, x)) if way else x
    made = st.builds(
        lambda p, x, way: Store(*p, halved(way, x), None if p[0] is Y else way), places, expressions(within), ways
    )
    return st.one_of(made, made, made, st.builds(lambda x: Assign(TOTAL, x), expressions(within)))


def suites(within=0, depth=2):
    """Statements of an iteration: writes, loops over three numbers, branches."""
    parts = [stores(within), stores(within)]
    if not within:
        parts.append(st.builds(lambda body: small(*body), st.lists(stores(1), min_size=1, max_size=3)))
    if depth:
        inner = suites(within, depth - 1)
        tests = st.builds(
            lambda a, k: Whole("<", Whole("%", ROW, Number(a)), Number(k)), st.integers(2, 4), st.integers(1, 2)
        )
        parts.append(st.builds(If, tests, inner, inner))
    return st.lists(st.one_of(parts), min_size=0, max_size=4)


@given(suites())
def test_random_iterations(iteration):
    run(*iteration, DECAYED)


def rotated(x, steps):
    """A symplectic Euler step of two oscillators, a branch, and a product with a matrix of ones and zeros."""
    turn = np.array([[1.0, 0.1], [0.0, 1.0]])
    state, loss = np.array([x[0], x[1]]), 0.0
    for _ in range(steps):
        state = turn @ state
        state[1] -= 0.1 * state[0] ** 3
        if state[0] > 1.0:
            state = state * 0.9
        loss += state[0] * state[1]
    return loss + state @ state


@pytest.mark.parametrize("steps", [1, 12, 40])
def test_a_program_with_a_small_state(steps):
    x = np.array([0.7, 0.4])
    compiled = sg.value_and_grad(lambda x: rotated(x, steps), target="c")
    expected = sg.value_and_grad(lambda x: rotated(x, steps), target="numpy")
    for got, want in zip(compiled(x), expected(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
