"""Programs that random search has found to fail, each for a reason of its own, with neighbours."""

from collections import deque

import numpy as np
import pytest

import symgrad as sg


def swapped_in_loops_of_a_branch(x):
    """The memory of a name goes on under it through several assignments, while another array takes its place."""
    u, v = x * 0.5, x + 0.1
    if x[0] <= 0.7:
        for _ in range(3):
            for _ in range(3):
                u, v = v, u
                v[1:] -= 0.3
        v += x
    return np.sum(u * 0.3) + np.sum(v * v)


def swapped_in_one_loop(x):
    u, v = x * 0.5, x + 0.1
    if x[0] > 0.7:
        u[0] = 3.0
    else:
        for _ in range(5):
            u, v = v, u
            v[1:] -= 0.3
        v += x
    return np.sum(u * 0.3) + np.sum(v * v)


def assigned_to_itself_beside_branches(x):
    """A cotangent is copied under its own name, and a number of it is read behind that."""
    a, b, c = x[1] * 1.0, 0.5 + x[0], 0.8
    u, v = x * 0.5, x + 0.1
    for i in range(3):
        v[i] = v[i]
        if 0.3 < c <= b + 1.0:
            pass
        elif 0.45 < c <= b + 1.0:
            v -= a
        else:
            a = np.sum(x) if b < 1.5 else np.max(u)
    return np.sum(v * v)


def rows_exchanged_or_changed(x):
    """One side writes into a list that the other side gives to another place."""
    rows = [[0.5, x[1]], [0.25, 1.0]]
    if x[0] > 0:
        rows[0][1] = 0.45
    else:
        rows[0], rows[1] = rows[1], rows[0]
    return rows[0][1] + 10 * rows[0][0] + 100 * rows[1][0] + 1000 * rows[1][1]


def dicts_exchanged_and_changed(x):
    table = {"a": {"p": x[0], "q": 2.0}, "b": {"p": x[1], "q": x[2]}}
    if x[0] > 0:
        table["a"]["p"] = 0.45
        table["b"]["q"] = x[0]
    else:
        table["a"], table["b"] = table["b"], table["a"]
        table["a"]["q"] = 3 * x[2]
    return table["a"]["p"] + 10 * table["a"]["q"] + 100 * table["b"]["p"] + 1000 * table["b"]["q"]


def rows_within_rows(x):
    """One side puts a list that it has changed into a list that the other side exchanges."""
    row, other = [x[1], 2.0], [[7.0, x[2]]]
    table = [[[1.0, x[0]]]]
    if x[0] > 0:
        row[0] = 5.0 * x[2]
        table[0][0] = row
    else:
        table[0] = other
    return table[0][0][0] + 10 * table[0][0][1]


def dicts_within_dicts(x):
    inner, outer = {"a": x[1]}, {"r": {"s": {"a": x[2]}}}
    if x[0] > 0:
        inner["a"] = x[0] * 4
        outer["r"]["s"] = inner
    else:
        outer["r"] = {"s": {"a": 3.0}}
    return outer["r"]["s"]["a"]


def rows_changed_before_and_behind(x):
    rows = [[x[1]], [x[2]]]
    if x[0] > 0:
        rows[0][0] = 8.0
        rows[0], rows[1] = rows[1], rows[0]
        rows[0][0] *= 3
    else:
        rows[0], rows[1] = rows[1], rows[0]
        rows[1][0] = -1.0
    return rows[0][0] + 10 * rows[1][0]


def row_appended_to_or_replaced(x):
    rows = [[x[1]], [x[2]]]
    if x[0] > 0:
        rows[0].append(x[0])
        rows[0].append(4.0)
    else:
        rows[0] = [1.0, 2.0, x[1]]
    return rows[0][0] + 10 * rows[0][2] + 100 * len(rows[0]) + rows[1][0]


def names_exchanged_or_changed(x):
    a, b = [x[0], 1.0], [x[1], 2.0]
    if x[0] > 0:
        a[0] = 5.0
    else:
        a, b = b, a
    return a[0] + 10 * a[1] + 100 * b[0] + 1000 * b[1]


def appended_on_the_left(x):
    queue = deque([0.5, x[1], 0.25], maxlen=4)
    if x[0] > 0:
        queue.appendleft(1.0)
    else:
        queue.appendleft(x[2])
    return queue[0] * 2 + queue[-1] + queue[1] * 3 + len(queue)


def last_item_again(x):
    """An item that may not be there is not appended under another name."""
    marks = [0.5]
    for _ in range(4):
        if x[0] > 0:
            marks.append(0.7 * x[1])
        marks.append(marks[-1])
    return len(marks) + sum(marks)


def length_alone(x):
    """Nothing but the length is asked for of a list that branches fill."""
    marks = [0.5]
    if x[0] < x[1]:
        marks += [0.3, -0.4]
    if np.sum(x) <= 0.15:
        marks.append(4.0)
    return len(marks) * x[2]


def item_of_a_number(x):
    log, t = [0.5, x[1]], x[1]
    while t > 0.4:
        t = t * 0.6
        log[-1] = np.array(log)[-1]
    log += [np.mean(np.abs(x))]
    return log[-2]


def number_in_what_a_loop_leaves(x):
    kept = [0.5]
    for e in x:
        last = e
    return x[0] if kept[0] in (last, 0.5) else x[1]


def returns_in_three_loops(x):
    """A loop in a branch sets the boolean that ends the loop around it."""
    b, u = 0.5 + x[0], x * 0.5
    for _ in range(3):
        for i in range(12):
            if u[i] > 0.45:
                return sum(x)
            for j in range(18):
                b = 0.8 * b
                if b > 3.0:
                    return b * j
    return 0.3


def largest_of_numbers_that_are_known_and_others(x):
    items = [np.tanh(0.25), np.float64(0.1), x[0], 0.15]
    for _ in range(20):
        a = max(items) + min(items[1:])
        items.append(items.pop(0))
    return a


def rotated_in_loops_that_may_not_run(x):
    a, v = x[1] * 1.0, x + 0.1
    for i in range(3):
        v[i] = a
        k = 0
        while a < 0.15 and k < 4:
            k += 1
            v = np.concatenate([v[1:], v[:1]])
        v += x
    return np.sum(v * v)


def length_of_a_list_that_is_released(x):
    a, marks, k = x[0] * 1.0, [0.5], 0
    while k < 5:
        k += 1
        for _ in range(20):
            for _ in range(20):
                for _ in range(20):
                    marks.append(0.1)
            a = 0.5 * a
    return sum(marks) + a


def branch_around_a_loop_that_tells_a_size(x):
    """The derivative branches as the program does, and needs the length of the list that lies between."""
    a, b = x[0] * 1.0, 0.5 + x[1]
    steps = [1, 2]
    if a > 0.45:
        b = 0.5
    else:
        a = 0.1
    for i in range(3):
        steps.append(i - 2)
        if any([a > 0.15, a > 2.0]):
            break
    steps[0] = b
    return steps[-1] + sum(steps) * x[2]


def heat_between_walls(x):
    """Two updates read what the other one overwrites, and one is needed before the iteration ends."""
    u = 0.2 * np.concatenate([x, x[::-1], x])
    for _ in range(20):
        u[1:-1] = u[:-2] + u[2:] + u[1:-1] * 0.5
        u[0] = u[1]
        u[-1] = 0.5 * u[-2]
    return np.sum(u) * 1e-6


def sorted_by_exchanges(x):
    """A branch gives the integers that a loop stacks."""
    values = np.concatenate([x, -x, 0.5 * x, 2 * x, -3 * x, 0.25 * x])
    order = np.arange(18)
    for k in range(17):
        p = np.argmax(values[k:])
        if p != 0:
            order[[k, p]] = order[[p, k]]
    return values[order[0]] + 0.5 * values[order[3]]


PROGRAMS = [
    heat_between_walls,
    sorted_by_exchanges,
    rotated_in_loops_that_may_not_run,
    length_of_a_list_that_is_released,
    largest_of_numbers_that_are_known_and_others,
    swapped_in_loops_of_a_branch,
    swapped_in_one_loop,
    assigned_to_itself_beside_branches,
    rows_exchanged_or_changed,
    dicts_exchanged_and_changed,
    rows_within_rows,
    dicts_within_dicts,
    rows_changed_before_and_behind,
    row_appended_to_or_replaced,
    names_exchanged_or_changed,
    appended_on_the_left,
    last_item_again,
    length_alone,
    item_of_a_number,
    number_in_what_a_loop_leaves,
    branch_around_a_loop_that_tells_a_size,
]
ARGUMENTS = [np.array([-1.042, 0.872, 0.778]), np.array([0.9, 1.9, -0.4]), np.array([0.2, -0.3, -0.6])]


def check(f, args, level):
    function = sg.value_and_grad(f, optimize=level, check_first=False)
    for x in args:
        value, slope = function(x.copy())
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12)
        step = 1e-6 * np.eye(len(x))
        expected = [(f(x + h) - f(x - h)) / 2e-6 for h in step]
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("f", PROGRAMS)
def test_a_program_that_was_wrong(f, level):
    check(f, ARGUMENTS, level)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("first", [-1.6, 5.0])
def test_a_return_from_the_innermost_of_three_loops(first, level):
    check(returns_in_three_loops, [np.array([first, *np.linspace(-1.2, 1.1, 11)])], level)


def test_an_item_that_is_taken_away_where_the_list_is_exchanged():
    def f(x):
        rows = [[0.5, x[1]], [0.25, 1.0]]
        if x[0] > 0:
            rows[0].pop()
        else:
            rows[0] = [rows[1][0]]
        return rows[0][0] + 100 * rows[1][0]

    with pytest.raises(sg.errors.UnsupportedError, match="removes an item of a list or dict"):
        sg.grad(f)(np.array([1.0, 2.0]))


def test_an_array_as_long_as_a_list_of_which_nothing_else_is_needed():
    def f(x):
        kept = []
        for e in x:
            if e > 0:
                kept.append(e)
        return np.sum(np.ones(len(kept)))

    with pytest.raises(
        sg.errors.UnsupportedError, match="an array has the length of a list that the program fills, but"
    ):
        sg.compile(f)(np.array([1.0, -2.0, 3.0]))


def test_a_name_without_a_value_in_a_branch_of_a_loop(tmp_path):
    text = """
import numpy as np

def f(x):
    g, t = 0.5, np.mean(x)
    while t > 0.4:
        t = t * 0.6
        del g
        g = g if x[0] > 0.45 else x[0]
    return t
"""
    names = {}
    file = tmp_path / "model.py"
    file.write_text(text)
    exec(compile(text, str(file), "exec"), names)
    with pytest.raises(sg.errors.UnsupportedError, match="a branch that depends on a traced value raises NameError"):
        sg.compile(names["f"])(np.array([-0.5, 0.3, 2.6, *np.ones(20)]))


def test_body_that_fails_where_python_never_runs_it_is_refused_by_name():
    def f(x, a):
        while a < 0.3:
            a = a + x[i % 3]  # noqa: F821
            for i in range(3):
                a = a + 0.1 * i
        return a * x[0]

    with pytest.raises(sg.errors.UnsupportedError, match=r"body of a loop whose test depends .* UnboundLocalError"):
        sg.compile(f)(np.ones(3), 0.5)
