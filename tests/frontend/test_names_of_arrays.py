"""Arrays that a branch or a loop may have made other names of each other: written into, and read behind that."""

import numpy as np
import pytest

import symgrad as sg

X = np.array([0.1, 0.2, 0.3])


# ---- what Python does with names that nobody else has


def scaled(v, s):
    if s > 0:
        v = v / np.sum(v)
    return v


def grown(v, s):
    while v[0] < s:
        v = 2 * v
    return v


def bound_anew_in_a_branch(x, s):
    y = x + 0
    if s > 0:
        y = 2 * y
    y[0] = 1.0
    return y


def one_of_two(x, s):
    y = np.sin(x) if s > 0 else np.cos(x)
    y[1:] *= s
    return y


def bound_anew_in_a_turn(x, s):
    y = x + 0
    for i in range(20):
        if y[0] < s:
            y = 2 * y
        y[i % 3] += 0.1
    return y


def by_helpers(x, s):
    y = x + 0
    for i in range(20):
        y[i % 3] += 0.1
        y = grown(scaled(y, s), 0.3 * s)
        y[2] *= 0.5
    return y


def the_best_so_far(x, s):
    now, best = x + 0, x + 0
    for i in range(20):
        now[i % 3] -= 0.1 * s
        if np.sum(now**2) < np.sum(best**2):
            best = now.copy()
    best[0] = 1.0
    return best, now


def the_best_of_products(x, s):
    now, best = 2 * x, x + 0
    for _ in range(20):
        now = now * -s
        if now[0] > best[0]:
            best = now
    return best, now


def in_a_dict(x, s):
    state = {"v": x + 0}
    for i in range(20):
        if state["v"][0] < s:
            state["v"] = 2 * state["v"]
        state["v"][i % 3] += 0.1
    return state["v"]


def written_into_and_bound_anew(x, s):
    v, n = x + 0, 0
    while np.sum(v) < 5 * s and n < 10:
        v *= 1.5
        v = np.sin(v) + v
        n += 1
    return v


def swapped_buffers(x, s):
    a, b, n = x + 0, x.copy(), 0
    while np.sum(a) < s and n < 30:
        b[1:-1] = 1.1 * a[1:-1] + 0.2 * a[:-2]
        a, b = b, a
        n += 1
    return a, b


def swapped_in_a_dict(x, s):
    state = {"old": x + 0, "new": np.zeros(3)}
    for _ in range(20):
        state["new"][1:] = state["old"][:-1] * s
        state["old"], state["new"] = state["new"], state["old"]
    return state["old"], state["new"]


def the_one_before(x, s):
    before, now = x + 0, 2 * x
    for _ in range(20):
        before, now = now, now * s + before
        now[0] *= 0.5
    now[1] = 1.0
    return now


def written_into_on_one_side_and_replaced(x, s):
    state = {"v": x + 0}
    first = state["v"]
    if s > 0:
        state["v"][0] = 5.0
        state["v"] = 2 * state["v"]
    return first, +state["v"]


def replaced_on_one_side_and_written_into_on_the_other(x, s):
    state = {"v": x + 0}
    first = state["v"]
    if s > 0:
        state["v"] = 2 * state["v"]
    else:
        state["v"][0] = 5.0
    return first, +state["v"]


RIGHT = [
    bound_anew_in_a_branch,
    one_of_two,
    bound_anew_in_a_turn,
    by_helpers,
    the_best_so_far,
    the_best_of_products,
    in_a_dict,
    written_into_and_bound_anew,
    swapped_buffers,
    swapped_in_a_dict,
    the_one_before,
    written_into_on_one_side_and_replaced,
    replaced_on_one_side_and_written_into_on_the_other,
]


@pytest.mark.parametrize("f", RIGHT)
def test_an_array_without_another_name_is_written_into(f):
    total = lambda x, s: sum(np.sum(y) * (1 + i) for i, y in enumerate(np.atleast_2d(f(x, s))))
    alone = sg.compile(f, optimize=0, loops=3)
    gradients = [sg.grad(total, optimize=level, loops=3) for level in (0, 2)]
    for s in (-0.5, 0.7, 1.5):  # one program goes each way
        np.testing.assert_array_equal(alone(X, s), f(X.copy(), s))
        slope = (total(X + 1e-6, s) - total(X - 1e-6, s)) / 2e-6
        for gradient in gradients:
            np.testing.assert_allclose(np.sum(gradient(X, s)), slope, rtol=1e-6, atol=1e-7)


# ---- two names


def of_a_helper(x, s):
    return x, grown(x, s)


def chosen(x, s):
    y = 2 * x
    return x, x if s > 0 else y


def a_view_of_it(x, s):
    return x, x[1:] if s > 0 else 2 * x[1:]


def none_on_one_side(x, s):
    y = None
    if s > 0:
        y = x
    return x, y


def left_by_a_break(x, s):
    y = x
    while True:
        if y[0] > s:
            break
        y = 2 * y
    return x, y


def the_best_of_all(x, s):
    best, n = 2 * x, 0
    while n < 3 or x[0] < s:
        x = 1.1 * x
        if np.sum(x) < np.sum(best):
            best = x
        n += 1
    return x, best


TWO = [of_a_helper, none_on_one_side, left_by_a_break, the_best_of_all]


@pytest.mark.parametrize("f", TWO)
@pytest.mark.parametrize("into", [0, 1])
def test_one_of_two_names_is_written_into_and_the_other_one_is_not_read(f, into):
    def program(x, s, reads):
        both = f(x + 0, s)
        if both[into] is not None:
            both[into][...] = 7.0
        return both[1 - into] * 2 if reads else 3.0

    with pytest.raises(sg.errors.WriteError, match=r"another name of the one that test_names_of_arrays.py:\d+ writes"):
        sg.compile(program, loops=3)(X, 0.7, True)
    assert sg.compile(program, loops=3)(X, 0.7, False) == 3.0


@pytest.mark.parametrize("f", [chosen, a_view_of_it])
@pytest.mark.parametrize("into", [0, 1])
@pytest.mark.parametrize("s", [-0.5, 0.7])
def test_a_write_reaches_the_array_that_a_branch_has_chosen(f, into, s):
    def program(x, s):
        both = f(x + 0, s)
        both[into][...] = 7.0 * s
        return both[1 - into] * 2

    for level in (0, 1, 2):
        with sg.options(optimize=level, check_first=False):
            np.testing.assert_allclose(sg.compile(program)(X, s), program(X, s), rtol=1e-15)
            slope = (np.sum(program(X, s + 1e-6)) - np.sum(program(X, s - 1e-6))) / 2e-6
            np.testing.assert_allclose(sg.grad(lambda x, s: np.sum(program(x, s)), wrt="s")(X, s), slope, atol=1e-8)


def test_a_name_that_one_side_has_bound():
    def f(x, s):
        x = x + 0
        if s > 0:
            y = x
        if s > 0:
            y[0] = 7.0
        return x

    with pytest.raises(sg.errors.WriteError, match="another name"):
        sg.compile(f)(X, 0.7)


def test_an_argument_that_a_turn_may_write_into():
    def f(x):
        a, b = x, np.zeros(3)
        for _ in range(20):
            b[1:] = 0.5 * a[:-1]
            a, b = b, a
        return np.sum(a)

    with pytest.raises(sg.errors.WriteError, match="x is an argument"):
        sg.compile(f)(X)


# ---- what lists are filled with


def the_same_array_in_each_turn(x, s):
    rows, n = [], 0
    while n < 3 or x[0] < s:
        x *= 1.5
        rows.append(x)
        n += 1
    return np.stack(rows)


def perhaps_the_array_of_the_turn_before(x, s):
    rows, n = [], 0
    while n < 3 or x[0] < s:
        if x[1] < s:
            x = 1.5 * x
        rows.append(x)
        x[0] += 0.1
        n += 1
    return np.stack(rows)


@pytest.mark.parametrize("f", [the_same_array_in_each_turn, perhaps_the_array_of_the_turn_before])
def test_what_was_appended_is_not_written_into(f):
    with pytest.raises(sg.errors.UnsupportedError, match=r"a loop writes into an array that it has appended to rows\n"):
        sg.compile(lambda x, s: f(x + 0, s))(X, 0.7)


def test_the_last_item_of_a_list_is_an_array_of_that_name():
    def f(x, s, reads):
        rows = []
        for _ in range(20):
            x = s * x
            rows.append(x)
        x[0] = 1.0
        return np.sum(x) + np.sum(rows[-1]) if reads else np.sum(x)

    assert sg.compile(f)(X, 0.9, False) == pytest.approx(f(X, 0.9, False))
    with pytest.raises(sg.errors.WriteError, match="another name"):
        sg.compile(f)(X, 0.9, True)
