"""Lists that only one side of a branch appends to: behind it only running tells how long they are."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError

POINTS = ((0.53, 0.77), (-0.53, 0.77), (2.57, -0.77), (-2.57, -0.77), (2.57, 0.77))
ARGUMENTS = [np.array(x) for x in POINTS]


def on_one_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    return sum(m) * x


def several_times(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m.append(x[0])
        m.append(2.0)
    else:
        m.append(3.0)
    m.append(7.0)
    return sum(m) * x + len(m) + m[-1] + m[0] + sum([e * e for e in m])


def in_nested_branches(x):
    m = [0.5]
    if x[0] > 0:
        if x[1] > 0:
            m.append(x[1])
        m.append(1.0)
        if x[1] > 0.5:
            m.append(x[1])
    for e in x:
        if e > 0.6:
            m.append(e)
    return sum(m) * x + len(m) + m[-1]


def in_loops_too(x):
    m = [0.5]
    for e in x:
        m.append(e * 2)
    if x[0] > 0:
        m.append(x[1])
    for i in range(20):
        m.append(x[0] * i)
    k = 0
    while k < x[0] * 10:
        m.append(x[0])
        k += 1
    return sum(m) * x + len(m) + m[-1]


def of_an_object(x):

    class Log:
        pass

    o = Log()
    o.m = [0.5]
    if x[0] > 0:
        o.m.append(x[1])
    y = sum(o.m)
    return y * x


def where_the_other_side_raises(x):
    m = [0.5]
    if x[0] > 0:
        if x[1] > 3:
            raise ValueError("no")
        m.append(x[1])
    return sum(m) * x


def one_that_was_empty(x):
    m = []
    if x[0] > 0:
        m.append(x[1])
    if x[1] < 5:
        m += [x[0]]
    return sum(m) * x + len(m)


def in_a_short_loop(x):
    m = [0.5]
    for i in range(4):
        if x[i % 2] > i * 0.13:
            m.append(x[1])
        m.append(i * x[0])
    return sum(m) * x + len(m) + m[-1]


def in_an_expression(x):
    m = [0.5]
    _ = m.append(x[0]) if x[0] > 0 else None
    return sum(m) * x + len(m) + m[-1]


def and_an_item_set(x):
    m = [0.5, 1.0]
    if x[0] > 0:
        m.append(x[1])
        m[0] = x[0]
    if x[1] > 0:
        m.append(x[1])
        m.append(x[1] * 2)
    return m[0] + m[1] * 2 + sum(m)


def under_another_name_behind_it(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    q = m
    m.append(2.0)
    return (sum(q) + len(q)) * x


def under_another_name_with_a_loop(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    q = m
    for i in range(20):
        m.append(x[0] * i)
    return (sum(q) + len(q)) * x


def an_item_set_behind_it(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m[0] = x[0]
    return (sum(m) + len(m)) * x


def read_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m.append(3.0)
        y = m[-1] * 2 + len(m) + sum(m)
    else:
        y = m[0]
    return (sum(m) + len(m) + m[0]) * x + y


def counted_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        n = 0
        for _ in m:
            n += 1
        m.append(n)
    return (sum(m) + len(m) + m[0]) * x


def with_a_return(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
        return sum(m) * x
    m.append(3.0)
    return (sum(m) + len(m)) * x


def with_a_break(x):
    m = [0.5]
    for i in range(3):
        if x[0] > i * 0.13:
            m.append(x[1])
        if x[0] > 1 + i:
            break
        m.append(i)
    return (sum(m) + len(m)) * x


def in_a_while_loop(x):
    m = [0.5]
    t = x[0]
    while t < 3:
        if t > 1:
            m.append(t)
        t = t + 1
    if x[0] > 0:
        m.append(x[1])
    return (sum(m) + len(m)) * x


def of_arrays(x):
    m = [x * 2]
    if x[0] > 0:
        m.append(x)
    if x[1] > 0:
        m.append(x * 3)
    y = m[0]
    y += 1
    return sum(m) + len(m)


def of_integers(x):
    m = [1, 2]
    if x[0] > 0:
        m.append(3)
    return sum(m) * x + len(m) + m[0]


def read_by_a_closure(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    g = lambda: sum(m)
    if x[1] > 0:
        m.append(3.0)
    return g() * x


def bound_in_a_loop(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    for i in range(3):
        m.append(x[0] * i)
        if i == 1:
            q = m
    return (sum(q) + sum(m)) * x


def in_loops_behind_it(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    for i in range(20):
        if x[1] > i * 0.1:
            m.append(x[0] * i)
    for i in range(20):
        m.append(x[0] * i + m[-1] * 0.1)
    return (sum(m) + len(m)) * x


def of_its_own_items(x):
    m = []
    for i in range(20):
        m.append(x[0] * i)
    if x[0] > 0:
        m.append(m[-1] * 2)
        m.append(m[-1] * 2)
        m.append(m[0])
    return (sum(m) + len(m) + m[-1]) * x


def by_a_loop_in_it(x):
    m = []
    if x[0] > 0:
        for i in range(20):
            m.append(x[0] * i)
    m.append(2.0)
    return (sum(m) + len(m) + m[-1]) * x


def an_array_of_it_written(x):
    m = [x * 2]
    if x[0] > 0:
        m.append(x * 3)
    y = m[-1]
    y += 1
    return sum(m)


def an_array_written_behind_it(x):
    m = [x * 2]
    w = x * 3
    if x[0] > 0:
        m.append(w)
        w += 1
    return sum(m) + w


def an_item_of_it_written(x):
    m = [x * 2]
    w = x * 3
    if x[0] > 0:
        m.append(w)
        m[-1][0] += 1
    return sum(m) + w


def written_in_turns(x):
    out = []
    w = x * 3
    for i in range(20):
        if x[0] * i > 1:
            out.append(w)
            w = w * 1
            w += i
    return sum(out) + w


def written_in_turns_behind_it(x):
    out = []
    w = x * 3
    for i in range(20):
        w = w * 0.5
        if x[0] * i > 1:
            out.append(w)
            w += i
    return sum(out) + w


def written_behind_an_inner_branch(x):
    out = []
    w = x * 3
    if x[1] > 0:
        if x[0] > 1:
            out.append(w)
        w += 1
    return sum(out) + w


def by_a_loop_on_one_side(x):
    m = [0.5]
    if x[0] > 0:
        for i in range(20):
            m.append(x[0] * i)
    else:
        m.append(x[1])
        m.append(x[0])
    m.append(2.0)
    return (sum(m) + len(m) + m[-1]) * x + m[1]


def by_loops_on_both_sides(x):
    m = [0.5]
    if x[0] > 0:
        for i in range(20):
            if x[1] > i * 0.13:
                m.append(x[0] * i)
        m.append(x[0] * 3)
    else:
        for i in range(17):
            m.append(x[0] * i)
    m.append(2.0)
    return (sum(m) + len(m) + m[-1] + m[-2]) * x


def by_loops_of_arrays(x):
    m = [x]
    for k in range(3):
        if x[0] > k:
            m.append(x * 3)
        else:
            for i in range(17):
                m.append(x * i)
            m.append(x * 2)
            if x[1] > 0:
                m.append(x * 5)
        m.append(x * 0.4)
    return sum(m) * x + len(m) + m[-1] + m[-2]


def the_same_list_each_time(x):
    rows, row, k = [], [x[0], 0.0], 0
    while k * abs(x[1]) < 5:
        rows.append(row)
        k += 1
    return rows[0][0] + rows[-1][0]


def a_list_of_the_iteration_changed_in_it(x):
    rows = []
    for k in range(20):
        row = [k * x[0], x[1]]
        rows.append(row)
        row[0] = 7.0
    return rows[3][0] * x[0] + rows[-1][1]


def the_list_of_the_iteration_before(x):
    rows, row = [], [x[0], 1.0]
    for k in range(20):
        rows.append(row)
        row = [k * x[0], x[1]]
    return rows[-1][0] * x[0] + rows[0][1] + row[0]


def booleans_by_identity(x):
    flags, k = [True, False], 0
    while k * abs(x[0]) < 5:
        flags.append(k > 1)
        k += 1
    return x[0] + (10 if flags[-1] is True else 20) + isinstance(flags[2], bool)


RIGHT = [
    the_same_list_each_time,
    a_list_of_the_iteration_changed_in_it,
    the_list_of_the_iteration_before,
    booleans_by_identity,
    by_a_loop_on_one_side,
    by_loops_on_both_sides,
    by_loops_of_arrays,
    on_one_side,
    several_times,
    in_nested_branches,
    in_loops_too,
    of_an_object,
    where_the_other_side_raises,
    one_that_was_empty,
    in_a_short_loop,
    in_an_expression,
    and_an_item_set,
    under_another_name_behind_it,
    under_another_name_with_a_loop,
    an_item_set_behind_it,
    read_on_the_side,
    counted_on_the_side,
    with_a_return,
    with_a_break,
    in_a_while_loop,
    of_arrays,
    of_integers,
    read_by_a_closure,
    bound_in_a_loop,
    in_loops_behind_it,
    of_its_own_items,
    by_a_loop_in_it,
    an_array_of_it_written,
    an_array_written_behind_it,
    an_item_of_it_written,
    written_in_turns,
    written_in_turns_behind_it,
    written_behind_an_inner_branch,
]


@pytest.mark.parametrize("f", RIGHT)
def test_lists_that_a_branch_appends_to(f):
    loss = lambda x: np.sum(np.cos(f(x)) * np.array([1.0, 0.7]))
    alone, both = sg.compile(f, optimize=0), sg.value_and_grad(loss)  # one program for all arguments
    for x in ARGUMENTS:
        with sg.options(check_first=False):
            np.testing.assert_allclose(alone(x.copy()), f(x.copy()), rtol=1e-14)  # np.sum
            value, slope = both(x.copy())
        assert value == pytest.approx(loss(x.copy()), rel=1e-9)
        along = np.array([0.6, -0.3])
        difference = (loss(x + 1e-6 * along) - loss(x - 1e-6 * along)) / 2e-6
        assert np.sum(slope * along) == pytest.approx(difference, rel=1e-5, abs=1e-6)


def sorted_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m.append(3.0)
        m.sort()
    return (sum(m) + len(m) + m[0]) * x


def by_another_name(x):
    m = [0.5]
    q = m
    if x[0] > 0:
        m.append(x[1])
    return sum(q) * x


def in_a_tuple(x):
    m = [0.5]
    q = (m, 3)
    if x[0] > 0:
        m.append(x[1])
    return sum(q[0]) * x


def add_to(m, x):
    if x[0] > 0:
        m.append(x[1])


def of_a_caller(x):
    m = [0.5]
    add_to(m, x)
    return sum(m) * x


def made_shorter(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    else:
        m.pop()
    return sum(m) * x


def of_two_names(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    q = m
    if x[1] > 0:
        m.append(x[0])
    return (sum(q) + len(q)) * x


def an_item_set_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m[0] = x[0]
        m.append(3.0)
    return (sum(m) + len(m)) * x


def reversed_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m.reverse()
        m.append(3.0)
    return (sum(m) + len(m) + m[0]) * x


def taken_from_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        _ = m.pop()
        m.append(3.0)
    return (sum(m) + len(m) + m[0]) * x


def taken_away_on_the_side(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    if x[1] > 0:
        m.pop()
        m.append(3.0)
    return (sum(m) + len(m) + m[0]) * x


def length_by_a_method(x):
    m = [0.5]

    class Log:
        def __len__(self):
            return len(self.m)

    o = Log()
    o.m = m
    if x[0] > 0:
        m.append(x[1])
    return len(o) * x


def items_by_a_method(x):

    class Log:
        def __len__(self):
            return len(self.m)

        def __iter__(self):
            return iter(self.m)

    o = Log()
    o.m = [0.5]
    if x[0] > 0:
        o.m.append(x[1])
    n = 0.0
    for _ in o:
        n += 1
    return n * x


def by_a_generator(x):
    m = [0.5]

    def g():
        for _ in m:
            yield 1.0

    if x[0] > 0:
        m.append(x[1])
    return sum(g()) * x


def by_an_iterator(x):
    m = [0.5]
    it = iter(m)
    if x[0] > 0:
        m.append(x[1])
    return (next(it) + next(it, 9.0)) * x


def by_an_iterator_of_pythons(x):
    m = [0.5]
    it = reversed(m)
    if x[0] > 0:
        m.append(x[1])
    return (next(it) + next(it, 9.0)) * x


def by_a_method_held_before(x):
    m = [0.5]
    f = m.append
    if x[0] > 0:
        f(x[1])
    return sum(m) * x + len(m)


def by_a_method_held_behind(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    f = m.append
    f(2.0)
    if x[1] > 0:
        f(3.0)
    return sum(m) * x + len(m)


def held_twice(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    r = [m, m]
    if x[1] > 0:
        r[0].append(3.0)
    return sum(r[1]) * x


def held_by_a_list(x):
    m = [0.5]
    if x[0] > 0:
        m.append(x[1])
    r = [m]
    if x[1] > 0:
        m.append(3.0)
    return sum(r[0]) * x


def of_a_cell_of_another_function(x):

    def outer():
        m = [0.5]
        if x[0] > 0:
            m.append(x[1])
        return (m, lambda: m)

    m, g = outer()
    if x[1] > 0:
        m.append(3.0)
    return sum(g()) * x


def an_array_written_behind_a_loop(x):
    v = x * 2
    m = [v]
    for i in range(20):
        m.append(x * i)
    v += 1
    return sum(m)


def an_array_written_of_what_it_was(x):
    m = [x * 2]
    if x[0] > 0:
        m.append(x * 3)
    if x[1] > 0:
        y = m[0]
        y += 1
        m.append(x)
    return sum(m)


def an_item_written_that_may_be_another(x):
    m = [x * 2]
    w = x * 3
    if x[0] > 0:
        m.append(w)
    m[-1][0] += 1
    return sum(m) + w


def an_array_written_behind_the_branch(x):
    v = x * 2
    m = [x * 2]
    if x[0] > 0:
        m.append(v)
    v += 1
    return sum(m) + len(m)


def one_list_in_all_items(x):
    rows, row, k = [], [x[0], 0.0], 0
    while k * abs(x[1]) < 5:
        row[1] = k * x[0]
        rows.append(row)
        k += 1
    return rows[0][1] + rows[-1][1]


def the_last_item_changed_under_its_name(x):
    rows = []
    for k in range(20):
        row = [k * x[0], x[1]]
        rows.append(row)
    row[0] = 99.0
    return rows[-1][0] * x[0]


def an_item_of_a_branch_changed_under_its_name(x):
    rows = []
    for k in range(20):
        row = [k * x[0], x[1]]
        if x[0] > 0.1 * k:
            rows.append(row)
    row[0] = 99.0
    return (rows[-1][0] if len(rows) else 3.0) * x[0]


def classes_of_items_that_a_loop_appends(x):
    m, total = [1, 2], x[0]
    for k in range(18):
        m.append(k)
    for _ in range(17):
        for e in m:
            total = total * 0.9 + (0.1 if isinstance(e, int) else 0.2)
        m.append(x[1])
    return total


REFUSED = [
    one_list_in_all_items,
    the_last_item_changed_under_its_name,
    an_item_of_a_branch_changed_under_its_name,
    sorted_on_the_side,
    by_another_name,
    in_a_tuple,
    of_a_caller,
    made_shorter,
    of_two_names,
    an_item_set_on_the_side,
    reversed_on_the_side,
    taken_from_on_the_side,
    taken_away_on_the_side,
    length_by_a_method,
    items_by_a_method,
    by_a_generator,
    by_an_iterator,
    by_an_iterator_of_pythons,
    by_a_method_held_before,
    by_a_method_held_behind,
    held_twice,
    held_by_a_list,
    of_a_cell_of_another_function,
    an_array_written_behind_a_loop,
    an_array_written_of_what_it_was,
    an_item_written_that_may_be_another,
    an_array_written_behind_the_branch,
    classes_of_items_that_a_loop_appends,
]


@pytest.mark.parametrize("f", REFUSED)
def test_lists_that_cannot_be_followed_are_refused(f):
    with sg.options(check_first=False), pytest.raises(SymgradError):
        sg.compile(f)(ARGUMENTS[0].copy())
