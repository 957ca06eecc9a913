"""Arrays that have several names: who may still read what is written into, in loops, branches and generated source."""

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError, WriteError
from tests.alias_programs import VALUES, outcome

LEVELS = (0, 1, 2)


def in_a_branch(x):
    v = x * 1.0
    w = v
    for _ in range(20):
        if x[0] > 100:
            v[0] -= 1000
            w -= np.sin(x)
    return np.sum(v) + np.sum(w**2)


def behind_a_jump(x):
    v = x * 1.0
    w = v
    for _ in range(20):
        if x[0] < 100:
            continue
        v[0] -= 1000
        w -= np.sin(x)
    return np.sum(v) + np.sum(w**2)


def in_a_branch_within_a_branch(x):
    v = x * 1.0
    w = v
    for k in range(20):
        if x[0] < 100:
            w *= 0.9
            if x[1] > k:
                v[0] -= 2
                w -= np.sin(x)
    return np.sum(v) + np.sum(w**2)


def read_before_a_loop_writes(x):
    A = np.outer(x, x)
    B = A
    A = x
    t = (np.trace(B), 1.0)
    for k in range(20):
        B[k % 4] *= 0.9
    return t[0] + np.sum(B) + np.sum(A)


def read_before_a_branch_writes(x):
    v, s = x * 1.0, x[1]
    if x[0] > 0.6:
        v.fill(s)
    else:
        s = v[2]
    v -= np.sin(x)
    v -= np.sin(x)
    return np.sum(np.cos(v)) + s * s


def written_into_what_a_branch_filled(x):
    v = x * 1.0
    if x[0] < 0.6:
        v.fill(x[2])
    else:
        v *= 0.3
    v[-1] = v[1] * x[0]
    return np.sum(np.cos(v))


def written_into_what_a_branch_chose(x):
    v, w, k = x * 1.0, np.sin(x), 0
    while v[0] < 60 and k < 5:
        if x[0] < 0.6:
            w = v + w
        v[::2] += w[1::2]
        if k % 2 == 0:
            v[0] = w[1]
            w -= 0.1 * v
        k += 1
    return np.sum(v[1:] * np.arange(3.0))


def written_in_some_iterations(x):
    v, w, a, b = x * 2.0, np.sin(x), x[1], x[1] * 0.9
    for _ in range(20):
        if a > b:
            v[-1] = a * x[0]
        v[0] = v[1]
        if a > b:
            v[1] = 0.3
        v = v - x
    v -= x
    return np.sum(x * v * w)


def under_swapped_names(x):
    v, w = np.tile(x, 6), np.tile(np.sin(x), 6)
    for e in w:
        v, w = w, v
        w[1:] -= 0.3 * e
    return np.sum(v * np.arange(24.0)) + np.sum(w**2)


def masks_within_their_opposites(x):
    m = x > 0.6
    y = np.where(m, np.where(m, np.sqrt(x), x), np.where(m, np.log(x), x))
    return np.sum(y * np.where(m, np.where(~m, np.sqrt(x), 1.0), np.where(m, 1.0, np.sqrt(2 + x))))


def turns_that_leave_one_array(x):
    """Behind them two derivatives of one side are the same array, into which the other side writes."""
    v = np.sin(x)
    if x[1] > 1.0:
        v = x
    else:
        for _ in range(20):
            v = np.full(4, 1.0) * x[1]
    return np.sum(np.sin(v) * np.arange(4.0) ** 2)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "f",
    [
        in_a_branch,
        behind_a_jump,
        in_a_branch_within_a_branch,
        read_before_a_loop_writes,
        read_before_a_branch_writes,
        written_into_what_a_branch_filled,
        written_into_what_a_branch_chose,
        written_in_some_iterations,
        under_swapped_names,
        masks_within_their_opposites,
        turns_that_leave_one_array,
    ],
)
def test_writes_are_seen_by_those_who_read_behind_them(f, level):
    x, step = VALUES, 1e-6
    with np.errstate(invalid="ignore"):
        value, gradient = sg.value_and_grad(f, optimize=level)(x)
        differences = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))]
        np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)


def caught(x):
    y = x * 1.0
    try:
        if x[0] > 100:
            y[0] = 5
            {}["a"]
    except KeyError:
        pass
    return np.sum(y)


def caught_around_a_loop(x):
    y = x * 1.0
    try:
        for _ in range(3):
            if x[0] > 100:
                y[0] = 5
                {}["a"]
    except KeyError:
        pass
    return np.sum(y)


@pytest.mark.parametrize("f", [caught, caught_around_a_loop, lambda x: sg.cond(x[1] > 0, caught, np.sum, x)])
def test_an_exception_that_leaves_a_branch_is_not_forgotten(f):
    with pytest.raises(UnsupportedError, match="caught outside of the branch"):
        sg.compile(f)(VALUES)


def test_a_copy_or_a_view_that_only_running_tells_is_refused():
    def f(x):
        A = np.outer(x, x)
        B = A.T if x[0] < 0.6 else A
        u = B.reshape(-1)
        u += x[2]
        return np.sum(B * x)

    with pytest.raises(WriteError, match=r"x\.reshape may give a view"):
        sg.compile(f)(VALUES)


def raveled_behind_a_branch(x):
    v = x * 1.0
    w = v[::-1] if x[0] < 0.6 else v
    u = w.ravel()
    u += x[2]
    return v, u


def made_contiguous_behind_a_branch(x):
    v = x * 1.0
    w = v[::-1] if x[0] < 0.6 else v
    u = np.ascontiguousarray(w)
    u += x[2]
    return w, u


def raveled_behind_a_loop(x):
    v = x * 1.0
    w = v
    for _ in range(20):
        w = w[::-1]
    u = w.ravel()
    u += x[2]
    return v, u


def raveled_in_later_turns(x):
    v = x * 1.0
    w = v
    for _ in range(20):
        u = w.ravel()
        u += x[2]
        w = np.append(v[:2], x[2:]) if x[0] > 0.6 else v[::-1]
    return v, u


def raveled_in_the_turns_of_a_call(x):
    def body(i, c):
        u = c.ravel()
        u += 1.0
        return c[::-1]

    return sg.fori_loop(0, 5, body, x * 1.0), x


@pytest.mark.parametrize(
    "f",
    [
        raveled_behind_a_branch,
        made_contiguous_behind_a_branch,
        raveled_behind_a_loop,
        raveled_in_later_turns,
        raveled_in_the_turns_of_a_call,
    ],
)
def test_what_may_lie_otherwise_in_memory_is_not_read_once_its_other_name_is_written(f):
    with sg.options(check_first=False), pytest.raises(WriteError, match=r"may (give|or may not|have)"):
        sg.compile(f)(VALUES)


def flattened(x):
    """Return an array, and what may be a view of it or a copy."""
    A = np.outer(x, x)
    B = A.T if x[0] < 0.6 else A
    return B, B.reshape(-1)


def written_on_one_side(x):
    _, u = flattened(x)
    if x[0] > 0.1:
        u += 0.9
    return u


def written_on_the_other_side(x):
    _, u = flattened(x)
    if x[0] > 5:
        u = u * 0.5
    else:
        u[2] = x[1]
    return u


def a_view_of_it_written_on_one_side(x):
    _, u = flattened(x)
    w = u[2:]
    if x[0] > 5:
        w -= 0.9
    return u, w


def written_in_iterations(x):
    _, u = flattened(x)
    for i in range(20):
        u[i % 4] += x[1]
    return u


def written_until_a_jump(x):
    v = (x * 1.0)[::-1]
    for k in range(3):
        v = v.reshape(2, 2).ravel()
        if x[1] > 0.6 + 0.05 * k:
            break
        np.add(v, 0.9, out=v)
    return v


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "f",
    [
        written_on_one_side,
        written_on_the_other_side,
        a_view_of_it_written_on_one_side,
        written_in_iterations,
        written_until_a_jump,
    ],
)
def test_what_may_be_a_view_is_written_on_one_side_of_a_branch(f, level):
    program = sg.compile(f, optimize=level, check_first=False)
    for x in (VALUES, VALUES + 6, -VALUES, VALUES * 0 + 0.64):
        for found, expected in zip(program(x.copy()), f(x.copy()), strict=True):
            np.testing.assert_allclose(found, expected)


def read_behind_a_write_on_one_side(x):
    B, u = flattened(x)
    if x[0] > 5:
        u += 0.9
    return B


def written_on_one_side_each(x):
    B, u = flattened(x)
    if x[0] > 5:
        u += 0.9
    else:
        B += 0.5
    return u


def another_one_that_was_there(x):
    B, u = flattened(x)
    w = B.reshape(-1)
    if x[0] > 5:
        u += 0.9
    return w


def of_an_array_whose_flag_was_off(x):
    B, _ = flattened(x)
    B.flags.writeable = False
    u = B.reshape(-1)
    B.flags.writeable = True
    B += 1.0
    return u


@pytest.mark.parametrize(
    "f",
    [
        read_behind_a_write_on_one_side,
        written_on_one_side_each,
        another_one_that_was_there,
        of_an_array_whose_flag_was_off,
    ],
)
def test_what_it_may_be_a_view_of_is_not_read_behind_the_branch(f):
    with sg.options(check_first=False), pytest.raises(WriteError, match=r"x\.reshape may give a view of"):
        sg.compile(f)(VALUES)


def reshaped_behind_a_branch(x):
    """One axis is parted without a copy, whatever lies between its numbers."""
    v = x * 1.0
    w = v[::-1] if x[0] < 0.6 else v
    u = w.reshape(2, 2)
    u += x[2]
    return w, u


def raveled_where_both_sides_are_contiguous(x):
    v = x * 1.0
    w = v if x[0] < 0.6 else v * 2
    u = w.ravel()
    u += x[2]
    return u, w


def transposed_where_both_are_fortran(x):
    A = np.outer(x, x)
    B = A.T if x[0] < 0.6 else np.asfortranarray(A * 2)
    u = B.T.ravel()
    u += x[2]
    return u, B


def reshaped_in_turns(x):
    A = np.outer(x, x)
    for _ in range(20):
        u = A.reshape(-1)
        u *= 0.9
        A = A + 0.1
    return A, u


def transposed_in_later_turns(x):
    A = np.outer(x, np.sin(x))
    for _ in range(20):
        u = A.reshape(-1)
        u *= 0.9
        A = A.T
    return A, u


def of_arrays_with_gaps_that_are_computed_with(x):
    """Computed arrays have no gaps in NumPy."""
    v = x * 1.0
    w = v[::-1] if x[0] < 0.6 else v
    y = np.sin(w)
    u = y.ravel()
    u += x[2]
    return y, u


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "f",
    [
        reshaped_behind_a_branch,
        raveled_where_both_sides_are_contiguous,
        transposed_where_both_are_fortran,
        reshaped_in_turns,
        transposed_in_later_turns,
        of_arrays_with_gaps_that_are_computed_with,
    ],
)
def test_what_lies_in_one_order_in_any_case_is_a_view(f, level):
    program = sg.compile(f, optimize=level, check_first=False)
    for x in (VALUES, VALUES + 1):
        for found, expected in zip(program(x.copy()), f(x.copy()), strict=True):
            np.testing.assert_allclose(found, expected)


# ---- arrays that functions of symgrad's hand on


def reversed_by_a_call(x):
    v = x * 1.0
    u = sg.cond(x[0] < 0.6, lambda v: v[::-1], lambda v: v, v).ravel()
    u += 1
    return v, u


def returned_by_turns(x):
    v = x * 1.0
    w = sg.fori_loop(0, 5, lambda i, c: c[::-1], v)
    v += 1
    return v, w


def swapped_by_turns(x):
    v, u = x * 1.0, x * 2
    a, b = sg.fori_loop(0, 5, lambda i, c: (c[1], c[0]), (v, u))
    a += 1
    return b, v


def written_in_place(i, c):
    c[0] += 1
    return c


def written_by_turns(x):
    v = x * 1.0
    return sg.fori_loop(0, 5, written_in_place, v), v


def an_argument_written_by_turns(x):
    return sg.fori_loop(0, 5, written_in_place, x)


@pytest.mark.parametrize(
    "f",
    [
        reversed_by_a_call,
        returned_by_turns,
        swapped_by_turns,
        written_by_turns,
        an_argument_written_by_turns,
    ],
)
def test_what_calls_hand_on_is_not_read_once_its_other_name_is_written(f):
    with sg.options(check_first=False), pytest.raises(WriteError):
        sg.compile(f)(VALUES)


def fresh_from_turns(x):
    def turn(c, y):
        c = c * 1.0
        c[0] += y
        return c, c

    v = x * 1.0
    a, b = sg.scan(turn, v, x)
    a += 1
    w = sg.fori_loop(0, 5, written_in_place, x * 2)
    u = sg.cond(x[0] < 0.6, np.sin, np.cos, v)
    u += w
    v += 1
    return a, b, v, w, u


@pytest.mark.parametrize("level", LEVELS)
def test_what_calls_make_has_names_of_its_own(level):
    with sg.options(check_first=False):
        for found, expected in zip(
            sg.compile(fresh_from_turns, optimize=level)(VALUES), fresh_from_turns(VALUES.copy()), strict=True
        ):
            np.testing.assert_allclose(found, expected)


# ---- what a branch has chosen, of which a truth tells what it is another name of


def written_where_it_was_chosen(x):
    v, u = x * 1.0, np.sin(x)
    w = v if x[0] < 0.6 else u
    w += 1
    v *= 2
    u[0] -= x[1]
    return v, u, w


def written_through_views(x):
    v, A = x * 1.0, np.outer(x, np.sin(x))
    w = A[1] if x[0] < 0.6 else v[::-1]
    z = w if x[1] > 0.1 else np.cos(x)
    z[1:] *= x[2]
    A.T[0] -= 3
    w += 1
    v[-1] = x[0]
    return v, w, A, z


def written_in_turns(x):
    v, u = x * 1.0, x * 2
    for k in range(20):
        w = v if x[k % 4] < 0.6 else u
        w *= 0.9
    w = v if x[1] < 0.6 else x * 3
    for k in range(20):
        w[k % 4] += x[1]
        v *= 0.9
    return v, u, w


def swapped_or_not(x):
    v, u = x * 1.0, x * 2
    if x[0] < 0.6:
        v, u = u, v
    v += 1
    return v, u


def written_on_one_side(x):
    v, u = x * 1.0, x * 2
    w = v if x[0] < 0.6 else u
    if x[1] < 0.6:
        w += x
    else:
        v -= x
        u[1:] = w[:-1]
    return v, u, w


def chosen_by_a_call(x):
    v = x * 1.0
    w = sg.cond(x[0] < 0.6, lambda v: v[1:], lambda v: v[1:] * 2, v)
    w += 1
    v *= x[1]
    return v, w


def fresh_on_one_side(x):
    v, u = x * 1.0, x * 2
    if x[0] < 0.6:
        a = np.sin(x)
    else:
        a = v
    a += 1
    return a * 1.0, v, u


CHOSEN = [
    written_where_it_was_chosen,
    written_through_views,
    written_in_turns,
    swapped_or_not,
    written_on_one_side,
    chosen_by_a_call,
    fresh_on_one_side,
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("f", CHOSEN)
def test_writes_reach_what_a_branch_has_chosen(f, level):
    def loss(x):
        return sum([np.sum(np.cos(y + k)) for k, y in enumerate(f(x))])

    step, alone, gradient = 1e-6, sg.compile(f, optimize=level), sg.grad(loss, optimize=level)
    with sg.options(check_first=False):
        for x in (VALUES, VALUES + 0.5, VALUES[::-1].copy()):  # one program for all of them
            for found, expected in zip(alone(x.copy()), f(x.copy()), strict=True):
                np.testing.assert_allclose(found, expected)
            differences = [(loss(x + step * e) - loss(x - step * e)) / (2 * step) for e in np.eye(len(x))]
            np.testing.assert_allclose(gradient(x), differences, rtol=1e-6, atol=1e-6)


def both_of_one_fresh_array(x):
    v, u = x * 1.0, x * 2
    if x[0] < 0.6:
        a = b = np.sin(x)
    else:
        a, b = v, u
    a += 1
    return b


def chosen_twice_of_the_same(x):
    v, u = x * 1.0, x * 2
    w = v if x[0] < 0.6 else u
    z = v if x[1] < 0.6 else u
    w += 1
    return z


def a_constant_or_not(x):
    w = CONSTANT if x[0] < 0.6 else x * 1.0
    w += 1
    return w


CONSTANT = np.arange(4.0)


@pytest.mark.parametrize("f", [both_of_one_fresh_array, chosen_twice_of_the_same, a_constant_or_not])
def test_what_no_truth_tells_is_refused(f):
    with sg.options(check_first=False), pytest.raises(WriteError):
        sg.compile(f)(VALUES)
    np.testing.assert_array_equal(CONSTANT, np.arange(4.0))


# ---- integers with more digits than NumPy's


def series(x):
    total = 0.0
    for k in range(30):
        total = total + x**k / math.factorial(k)
    return total


def running_factorial(x):
    total, factorial = 0.0, 1
    for k in range(1, 31):
        total += x**k / factorial
        factorial *= k
    return total


def counted_while(x):
    total, factorial, k = 0.0 * x, 1, 0
    while k < 30 and np.sum(total) < 100:
        k += 1
        factorial *= k
        total += np.abs(x) ** k / factorial
    return total


def powers(x):
    total, n = 0.0 * x, 10**19
    for k in range(30):
        total = total + x * (n % 1000)
        n = n // 2 + 3**k
    return total


def beyond_int64(x):
    total, n = 0.0, 10**25
    for k in range(20):
        n = n * 3 + 2**63
        total = total + x * k / n
    return total * 10**25


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("f", [series, running_factorial, counted_while, powers, beyond_int64])
@pytest.mark.parametrize("x", [0.37, np.array([0.3, -0.2, 0.8])], ids=["number", "array"])
def test_integers_may_be_large(f, x, level):
    step = 1e-6
    value, gradient = sg.value_and_grad(lambda x: np.sum(f(x)), optimize=level)(x)
    np.testing.assert_allclose(value, np.sum(f(x)))
    np.testing.assert_allclose(gradient, (f(x + step) - f(x - step)) / (2 * step), rtol=1e-6)


# ---- random programs


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_random_programs_about_aliases(part):
    found = {seed: outcome(seed, (seed % 3,)) for seed in range(12 * part, 12 * part + 12)}
    assert not {seed: y for seed, y in found.items() if y.startswith(("wrong", "error"))}
    assert sum(y == "right" for y in found.values()) > 5


def number_or_array(x):
    d = np.array(1.0)
    if x > 0:
        d = 2.0 * x
    return d


def changed_under_another_name(x):
    d = number_or_array(x)
    e = d
    e += 1.0
    return d * 10 + e * x


def changed_where_it_was_chosen(x):
    a = np.array(x * 2.0)
    d = a
    if x > 0:
        d = 2.0
    d += 1.0
    return d + a


@pytest.mark.parametrize("f", [changed_under_another_name, changed_where_it_was_chosen])
def test_other_names_of_a_number_or_an_array_that_is_changed_in_place_are_not_read(f):
    with sg.options(check_first=False), pytest.raises(WriteError, match="a number or an array of no dimensions"):
        sg.compile(f)(1.5)


def test_number_or_array_with_one_name_is_changed_in_place():
    def f(x):
        d = number_or_array(x)
        d += 1.0
        d *= x
        return d

    compiled = sg.compile(f, check_first=False)
    assert [compiled(x) for x in (1.5, -2.5)] == [f(1.5), f(-2.5)]
