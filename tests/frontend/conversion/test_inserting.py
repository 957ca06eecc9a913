"""Lists in front of which loops insert: recursions that run backwards in time."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError, WriteError

X = np.linspace(0.1, 1.0, 24)


def discounted_sums(x):
    g, found = 0.0, []
    for r in x[::-1]:
        g = r**2 + 0.9 * g
        found.insert(0, g)
    return np.array(found) @ np.arange(len(found))


def the_newest_is_read(x):
    found = [x[-1] ** 2]
    for t in reversed(range(len(x) - 1)):
        found.insert(0, x[t] + 0.5 * np.tanh(found[0]))
    return np.sum(np.array(found) * np.arange(1, len(found) + 1))


def two_newest_are_read(x):
    found = [x[0], x[1] * 2]
    for _ in range(20):
        found.insert(0, 0.5 * found[0] + 0.3 * found[1] ** 2)
    return np.sum(np.array(found) ** 2)


def rows(x):
    found = [np.stack([x[0], x[1]])]
    for y in x[2:]:
        found.insert(0, np.stack([found[0][1], y * found[0][0]]))
    found = np.array(found)
    return np.sum(found * np.arange(found.size).reshape(found.shape))


def two_in_an_iteration(x):
    found = []
    for y in x:
        found.insert(0, y)
        found.insert(0, y**2)
    return np.array(found) @ np.arange(len(found))


def in_front_of_one_and_behind_another(x):
    front, behind = [], []
    for y in x:
        front.insert(0, y)
        behind.append(y**2)
    return np.array(front) @ np.array(behind)


def pairs(x):
    found = []
    for y in x:
        found.insert(0, (y, y**2))
    return sum(k * a * b for k, (a, b) in enumerate(found))


def until(x):
    found, y = [], x[0]
    while y < 3.0:
        y = y * 1.1
        found.insert(0, y)
    return found[0] * found[1] + found[-1]


def inner(x):
    total = 0.0
    for y in x:
        found = [y]
        for _ in range(17):
            found.insert(0, 0.5 * np.sin(found[0]))
        total += found[0] + found[3]
    return total


class Model:
    def __init__(self):
        self.found = []

    def step(self, y):
        self.found.insert(0, y**2)


def of_an_object(x):
    model = Model()
    for y in x:
        model.step(y)
    return np.array(model.found) @ np.arange(len(model.found))


def in_front_of_what_a_loop_appended(x):
    found = []
    for y in x:
        found.append(y**2)
    for y in x:
        found.insert(0, 3 * y)
    return np.array(found) @ np.arange(len(found))


def in_front_of_what_another_loop_inserted(x):
    found = [x[0]]
    for y in x:
        found.insert(0, y**2 * found[0])
    for y in x[:20]:
        found.insert(0, y + found[0] * found[1])
    return np.array(found) @ np.arange(len(found))


def what_a_loop_appended_is_read(x):
    found = []
    for y in x:
        found.append(y**2)
    for y in x[:20]:
        found.insert(0, y + found[0] * found[1])
    return np.array(found) @ np.arange(len(found))


def nested(x):
    found = []
    for y in x:
        for k in range(20):
            found.insert(0, y + k)
    return np.array(found) @ np.arange(len(found))


def nested_with_others(x):
    found = [x[0]]
    for y in x:
        found.insert(0, y * found[0])
        for k in range(20):
            found.insert(0, y**2 + k)
    return np.array(found) @ np.arange(len(found))


def behind_what_a_loop_inserted(x):
    found = []
    for y in x:
        found.insert(0, y**2)
    for y in x:
        found.append(3 * y)
    found.insert(0, x[0])
    return np.array(found) @ np.arange(len(found))


def the_same_number_first(x):
    found = [x[0]]
    for k, y in enumerate(x):
        found.insert(0, found[0] if k == 0 else found[0] * y)
    return np.array(found) @ np.arange(len(found))


def copied_before(x):
    found = [x[0], x[1]]
    before = found[:]
    for y in x:
        found.insert(0, y)
    return np.array(found) @ np.arange(len(found)) + before[0] * len(before)


def the_oldest_is_read(x):
    found = [x[0], x[1]]
    for y in x:
        found.insert(0, y * found[-1])
    return np.array(found) @ np.arange(len(found))


def second(x):
    found = [x[0]]
    for y in x:
        found.insert(1, y)
    return np.array(found) @ np.arange(len(found))


def at_the_end(x):
    found = [x[0], x[1]]
    for y in x:
        found.insert(5, y)
    return np.array(found) @ np.arange(len(found))


def on_both_ends(x):
    found = [x[0]]
    for y in x:
        found.insert(0, y)
        found.append(y**2)
    return np.array(found) @ np.arange(len(found))


def cut(x):
    found = [x[0], x[1]]
    for y in x:
        found.insert(0, y + found[1])
        found.pop()
    return found[0] * found[1]


def in_one_branch(x):
    found = [0.0]
    for k, y in enumerate(x):
        if k % 3 == 1:
            found.insert(0, y)
    return np.array(found) @ np.arange(len(found))


PROGRAMS = [
    discounted_sums, the_newest_is_read, two_newest_are_read, rows, two_in_an_iteration,
    in_front_of_one_and_behind_another, pairs, inner, of_an_object, in_front_of_what_a_loop_appended,
    in_front_of_what_another_loop_inserted, what_a_loop_appended_is_read, nested, nested_with_others,
    behind_what_a_loop_inserted, the_same_number_first, copied_before, the_oldest_is_read, second, at_the_end,
    on_both_ends, cut, in_one_branch, until,
]  # fmt: skip


def differences(f, x, h=1e-6):
    return [(f(x + d) - f(x - d)) / (2 * h) for d in h * np.eye(len(x))]


@pytest.mark.parametrize("f", PROGRAMS)
def test_values_and_gradients(f):
    value, gradient = sg.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    np.testing.assert_allclose(gradient, differences(f, X), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("f", PROGRAMS[: PROGRAMS.index(copied_before)])
def test_they_are_loops(f, usual_sizes):
    gradient = sg.grad(f).compile(X)
    assert not gradient.explain().unrolled
    assert gradient.source.count("\n") < 90


@pytest.mark.parametrize("f", [discounted_sums, the_newest_is_read, rows, in_front_of_one_and_behind_another])
def test_any_length(f):
    gradient = sg.grad(f).compile("float64[n]")
    for n in (3, 9):
        np.testing.assert_allclose(gradient(X[:n]), differences(f, X[:n]), rtol=2e-5, atol=1e-7)


def test_traced_branches():
    def f(x):
        found = [x[0]]
        for y in x:
            if y > 0.5:
                found.insert(0, y)
        return found[0]

    with pytest.raises(UnsupportedError, match="only append"):
        sg.grad(f)(X)


def test_another_name_of_the_list():
    def f(x):
        found = [x[0]]
        other = found
        for y in x:
            found.insert(0, y**2)
        return np.array(other) @ np.arange(len(other))

    with pytest.raises(UnsupportedError, match="read under another name"):
        sg.grad(f)(X)


# ---- items behind those that an inner loop, or a branch, has put there


def behind_an_inner_loop(x):
    found, total = [x[0]], 0.0
    for y in x:
        for z in x:
            found.append(y * z)
        total = total + found[-2]
    return total


def in_front_of_an_inner_loop(x):
    found, total = [x[0]], 0.0
    for y in x:
        for z in x:
            found.insert(0, y * z)
        total = total + found[1]
    return total


def behind_a_branch(x):
    found, total = [x[0], x[1], x[2]], 0.0
    for y in x:
        if y > 0.5:
            found.append(y)
        total = total + found[-2]
    return total


def behind_a_branch_and_another(x):
    found, total = [x[0], x[1], x[2]], 0.0
    for y in x:
        if y > 0.5:
            found.append(y)
        found.append(y * 2)
        total = total + found[-3]
    return total


@pytest.mark.parametrize(
    "f", [behind_an_inner_loop, in_front_of_an_inner_loop, behind_a_branch, behind_a_branch_and_another]
)
def test_which_item_it_is_depends_on_how_many_have_come(f):
    np.testing.assert_allclose(sg.compile(f)(X), f(X), rtol=1e-13)
    with pytest.raises(UnsupportedError, match="reads the items of a list"):
        sg.compile(f).compile("float64[n]")


# ---- items that show the same memory


def twice_in_one_list(x):
    found = []
    for y in x:
        v = np.stack([y, y * 2])
        found.append(v)
        found.append(v)
    return found, found


def views_in_one_list(x):
    found = []
    for y in x:
        v = np.stack([y, y * 2])
        found.insert(0, v)
        found.insert(0, v[::-1])
    return found, found


def in_two_lists(x):
    one, two = [], []
    for y in x:
        v = np.stack([y, y**2])
        one.append(v)
        two.append(v[:1])
    return one, two


def twice_before_the_loop(x):
    v = np.stack([x[0], x[0]])
    found = [v, v]
    for y in x:
        found.append(np.stack([y, y]))
    return found, found


def the_last_one_again(x):
    found = [np.stack([x[0], x[0]])]
    for _ in x:
        found.append(found[-1])
    return found, found


def the_first_one_reversed(x):
    found = [np.stack([x[0], x[1]])]
    for _ in x:
        found.insert(0, found[0][::-1])
    return found, found


def the_last_one_in_another_list(x):
    one, two = [np.stack([x[0], x[1]])], []
    for y in x:
        two.append(one[-1])
        one.append(np.stack([y, y]))
    return one, two


@pytest.mark.parametrize(
    "lists",
    [
        twice_in_one_list,
        views_in_one_list,
        in_two_lists,
        twice_before_the_loop,
        the_last_one_again,
        the_first_one_reversed,
        the_last_one_in_another_list,
    ],
)
def test_items_that_share_memory_are_not_written_into(lists):
    def written(x):
        one, two = lists(x)
        one[0][0] = 7.0
        return np.sum(np.array(two))

    def copied(x):
        one, two = map(np.array, lists(x))
        one[0][0] = 7.0
        return np.sum(one) + np.sum(two)

    with pytest.raises(WriteError, match=r"same array|another name"):
        sg.compile(written)(X)
    np.testing.assert_allclose(sg.compile(copied)(X), copied(X), rtol=1e-13)
