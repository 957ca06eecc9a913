"""Lists and the functions of Python's that go along them, in functions that are converted."""

import functools
import itertools
import linecache
import operator

import numpy as np
import pytest

import symgrad as sg


def agrees(f, *args, bits=True, **options):
    """The value of a function, which has the bits that Python gives, and a derivative that differences confirm."""
    x, *rest = args
    wanted = f(np.copy(x), *rest)
    value, slope = sg.value_and_grad(f, optimize=0, **options)(*args)
    assert not bits or value == wanted
    direction = np.cos(np.arange(np.size(x))).reshape(np.shape(x))
    step = 1e-6 * direction
    difference = (f(x + step, *rest) - f(x - step, *rest)) / 2e-6
    assert np.sum(slope * direction) == pytest.approx(difference, rel=1e-5, abs=1e-7)
    value, again = sg.value_and_grad(f, optimize=2, **options)(*args)
    assert value == pytest.approx(wanted, rel=1e-13)
    np.testing.assert_allclose(again, slope, rtol=1e-10, atol=1e-12)


# ---- lists of which running tells how long they are


def halved(x):
    found = []
    while x > 1:
        x = x * 0.5
        found.append(x)
    return found, x


def by_length(x):
    found, x = halved(x)
    return found[0] if len(found) > 0 else x * 7


def by_length_of_none(x):
    found, x = halved(x)
    if len(found) == 0:
        return x * 7
    return found[0]


def by_truth(x):
    found, x = halved(x)
    if not found:
        return x * 7
    return max(found)


def mean(x):
    found, x = halved(x)
    return sum(found) / max(len(found), 1)


def mean_by_numpy(x):
    found, x = halved(x)
    return np.sum(found) / np.maximum(len(found), 1)


@pytest.mark.parametrize("f", [by_length, by_length_of_none, by_truth, mean, mean_by_numpy])
@pytest.mark.parametrize("x", [9.0, 0.5])
def test_a_list_may_have_stayed_empty(f, x):
    agrees(f, x)


def test_items_of_other_kinds_are_appended_turn_by_turn():
    def f(xs):
        pairs = []
        for i, x in enumerate(xs):
            pairs.append((i, x * x))
        return sum(a * b for a, b in pairs)

    agrees(f, np.arange(1.0, 25.0))


def test_a_list_of_lists_of_one_number_has_columns():
    def f(xs):
        rows = []
        for x in xs:
            rows.append([x * x])
        return np.sum(np.array(rows) - xs)

    agrees(f, np.arange(1.0, 25.0), bits=False)


def test_the_last_item_alone_is_asked_for():
    def f(x):
        found = [x]
        while abs(found[-1]) < 100:
            found.append(1.5 * found[-1] + 1)
        return found[-1]

    agrees(f, 1.0)


def test_an_item_of_another_turn_is_refused():
    def f(x):
        found = [x, x, x, x]
        while abs(found[-1]) < 100:
            found.append(found[-1] + found[-4])
        return found[-1]

    with pytest.raises(sg.errors.UnsupportedError, match=r"a loop reads a list item that another(?s:.*)previous = x"):
        sg.grad(f)(1.0)


# ---- an item by its number, which is as far from the end in all iterations


def by_index(x):
    s = [x]
    for t in range(20):
        s.append(np.tanh(0.9 * s[t] + 0.1 * t))
    return sum(s) + s[7]


def of_second_order(x):
    s = [0.3, x]
    for t in range(2, 22):
        s.append(0.5 * s[t - 1] * x - 0.3 * s[t - 2])
    return s[-1] + sum(s)


def of_arrays(x):
    places, speeds = [np.array([x, 1.0])], [np.zeros(2)]
    for t in range(20):
        speeds.append(speeds[t] - 0.1 * places[t] * x)
        places.append(places[t] + 0.1 * speeds[t + 1])
    return np.sum(np.array(places)) + speeds[-1][0]


def on_both_sides(x):
    s = [x]
    for t in range(20):
        if s[t] > 0.9:
            s.append(0.5 * s[t])
        else:
            s.append(1.3 * s[t] + 0.05)
    return sum(s)


def read_in_an_inner_loop(x):
    s = [0.5]
    for t in range(20):
        for _ in range(20):
            x = 0.9 * x + 0.01 * s[t]
        s.append(x * s[t])
    return sum(s)


def left_in_the_middle(x):
    s = [x]
    for t in range(20):
        s.append(1.1 * s[t])
        if s[t + 1] > 2.0:
            break
    return sum(s)


@pytest.mark.parametrize(
    "f", [by_index, of_second_order, of_arrays, on_both_sides, read_in_an_inner_loop, left_in_the_middle]
)
def test_an_item_that_is_as_far_from_the_end_in_all_iterations(f):
    assert sg.grad(f).compile(0.7).explain().unrolled == []
    agrees(f, 0.7, bits=False)


def before_the_first(x):
    s = [x]
    for t in range(20):
        s.append(0.9 * s[t - 1] + 0.1)  # at first the last item, which is the first
    return sum(s)


def farther_each_time(x):
    s = [x]
    for t in range(20):
        s.append(s[t] * 0.5)
        s.append(s[t] + 0.1)
    return sum(s)


def not_each_time(x):
    s = [x]
    for t in range(20):
        if s[0] + s[t // 20] > 100.0:
            break
        s.append(1.1 * s[t])
    return sum(s)


def behind_items_of_other_kinds(x):
    s = [np.zeros(2), x]
    for t in range(1, 20):
        s.append(1.1 * s[t])
    return s[-1] + s[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("f", [before_the_first, farther_each_time, not_each_time])
def test_any_other_item_unrolls_the_loop_which_says_why(f):
    (reason,) = sg.grad(f).compile(0.7).explain().unrolled
    assert reason.startswith(f"test_conversion_lists.py:{f.__code__.co_firstlineno + 2}, 20 iterations: ")
    agrees(f, 0.7, bits=False)


def test_items_of_other_kinds_before_the_loop():
    agrees(behind_items_of_other_kinds, 0.7)


@pytest.mark.slow
def test_a_generator_without_end_is_refused():
    def halves(x):
        while True:
            x = 0.5 * x
            yield x

    def f(x):
        for y in halves(x):
            if y < 1e-3:
                break
        return y

    with pytest.raises(sg.errors.UnsupportedError, match=r"after 1,000 items(?s:.*)Loop over range"):
        sg.grad(f)(1.0)


# ---- what not every turn appends


def positive(xs):
    found = []
    for x in xs:
        if x > 0:
            found.append(np.sqrt(x))
    return np.mean(np.array(found)) * len(found)


def by_continue(xs):
    found = [0.5]
    for x in xs:
        if x < 0:
            continue
        found.append(0.5 * found[-1] + x)
    return found[-1] * found[1] + np.sum(found)


def until(xs):
    found = []
    for x in xs:
        if x > 1.5:
            break
        found.append(x * x)
    return np.sum(found) + len(found) * xs[0]


def more_or_less(xs):
    found = []
    for x in xs:
        found.append(x)
        if x > 0:
            found.append(x * x)
            if x > 1:
                found.append(x**3)
        found.append(2 * x)
    weighted = 0.0
    for x in found:
        weighted = 0.9 * weighted + x
    return weighted


def in_two_loops(xs):
    found = []
    for x in xs:
        for y in xs:
            if x > y:
                found.append(x * y * y)
        found.append(x)
    return np.sum(found) * found[-1]


def by_comprehension(xs):
    found = [x * y for x in xs for y in xs if x > y]
    return np.sum(found) / len(found)


def none_at_all(xs):
    found = [x for x in xs if x > 100]
    return xs[0] if not found else found[0]


LISTS = [positive, by_continue, until, more_or_less, in_two_loops, by_comprehension, none_at_all]


@pytest.mark.parametrize("f", LISTS)
@pytest.mark.parametrize("n", [5, 25])
def test_what_not_every_turn_appends(f, n):
    agrees(f, np.random.default_rng(3).normal(size=n) + 0.2)


def test_any_asks_for_no_more_than_it_needs():
    def f(xs):
        return xs[0] ** 2 if any(xs[i + 1] > 0.5 for i in range(len(xs))) else xs[1]  # the last has no next one

    agrees(f, np.linspace(-1.0, 1.0, 40))


# ---- comprehensions, and functions that go along something


def total(xs):
    return sum(x * np.sin(x) for x in xs) + sum([x * x for x in xs], 1.0)


def rows(xs):
    return np.sum(np.array([[x * y for y in xs[:3]] for x in xs]) @ xs[:3])


def largest(xs):
    return max(x * x for x in xs) - min([abs(x - 0.3) for x in xs])


def below(xs):
    return sum((xs[i] - xs[j]) ** 3 for i in range(len(xs)) for j in range(i))


def by_lambdas(xs):
    norm = lambda v: sum(y * y for y in v)
    return norm(xs) * norm(xs[1:])


def of_a_dict(xs):
    powers = {k: [x**k for x in xs] for k in (1, 2)}
    return sum(powers[1]) * max(powers[2])


def of_neighbours(xs):
    return sum((y - x) ** 2 for x, y in itertools.pairwise(xs)) + sum(x * y for x, y in zip(xs, xs[2:], strict=False))


def of_pairs(xs):
    t = 0.0
    for x, y in itertools.combinations(xs, 2):
        t += 1 / (1 + (x - y) ** 2)
    for i, y in itertools.product(range(len(xs)), xs):
        t += xs[i] * y * i
    return t


def folded(xs):
    path = itertools.accumulate(xs, lambda s, x: 0.5 * s + np.sin(x))
    return functools.reduce(lambda s, x: s * 0.9 + x, path) + list(itertools.accumulate(xs, operator.mul))[2]


def mapped(xs):
    return sum(map(lambda x, y: x * y, xs, reversed(xs))) + max(filter(lambda x: x < 1, map(abs, xs)))


def chained(xs):
    t = 0.0
    for x in itertools.chain(xs, itertools.islice(xs, 1, None, 2)):
        t = 0.9 * t + x
    return t


def extended(xs):
    found = []
    for x in xs:
        found.extend([x, x * x])
    return found[-1] * np.sum(found)


def by_key(xs):
    nearest = min(xs, key=lambda x: (x - 0.3) ** 2)
    place = max(range(len(xs)), key=lambda i: xs[i])
    return nearest * xs[place] * max(xs * xs, default=0.0)


def in_order(xs):
    t = 0.0
    for i, x in enumerate(sorted(xs, key=lambda x: -abs(x))):
        t += x * (i + 1)
    return t * sorted(xs, reverse=True)[1] + sorted([xs[0], 2 * xs[1], xs[2]])[0]


def recurrence(xs):
    found = [xs[0], xs[1], 0.5]
    for x in xs[2:]:
        found.append(0.5 * found[-1] - 0.3 * found[-2] + 0.1 * found[-3] + x)
        if x > 0:
            found.append(found[-1] * found[-2])
    return np.sum(np.array(found)) * found[-2]


def of_pairs_and_rows(xs):
    path, rows = [(0.0 * xs[0], xs[0])], []
    for x in xs:
        t, y = path[-1]
        path.append((t + 0.1, 0.9 * y + x))
        rows.append([x, x * t])
        rows.append([y, 2.0 * t])
    first, last = path[0], path[-1]
    total = 0.0
    for (t, y), row in zip(path, rows, strict=False):
        total += t * y * row[1]
    return total + np.sum(np.array(rows) @ np.array([1.0, 3.0])) + len(first + last) * last[1]


def held_elsewhere(xs):
    history, body = {"x": [], "y": [1.0]}, Record()
    for x in xs:
        history["x"].append(x * x)
        history["y"].append(history["y"][-1] * 0.9 + x)
        body.add(x**3)
    return np.sum(np.array(history["x"]) * np.array(body.found)) + history["y"][-1] + len(history["y"])


class Record:
    def __init__(self):
        self.found = []

    def add(self, x):
        if x > 0:
            self.found.append(x)
        else:
            self.found.append(-x)


ALONG = [
    recurrence,
    of_pairs_and_rows,
    held_elsewhere,
    by_key,
    in_order,
    total,
    rows,
    largest,
    below,
    by_lambdas,
    of_a_dict,
    of_neighbours,
    of_pairs,
    folded,
    mapped,
    chained,
    extended,
]


@pytest.mark.of_numpy
@pytest.mark.parametrize("f", ALONG)
@pytest.mark.parametrize("n", [5, 30])
def test_functions_that_go_along_something(f, n):
    xs = np.random.default_rng(1).normal(size=n)
    agrees(f, xs, bits=n < 16)
    if n > 16:
        program = sg.compile(f).trace(xs)
        assert len(program.graph.nodes) < 400
        assert any(node.op.name == "scan" for node in program.graph.live) or f is rows


def test_what_is_made_of_known_numbers_is_no_loop():
    def f(x):
        weights = [1 / (k + 1) ** 2 for k in range(1000)]
        odd = [k for k in range(30) if k % 2]
        return np.sum(x[odd]) * sum(weights)

    program = sg.compile(f).trace(np.ones(30))
    assert not any(node.op.name == "scan" for node in program.graph.live)
    agrees(f, np.arange(30.0))


def test_a_line_of_a_comprehension_is_named():
    def f(xs):
        found = [
            x
            + x.nothing
            for x in xs
        ]  # fmt: skip
        return sum(found)

    with pytest.raises(sg.errors.UnknownAttributeError, match=r"in <listcomp>: .*\+ x.nothing"):
        sg.grad(f)(np.ones(20))


def inserts(found):
    found.insert(1, 1.0)


def adds(found):
    found += [1.0]  # other names of the list would see it


def cuts(found):
    found[2:4] = [0.0]


@pytest.mark.parametrize("change", [inserts, adds, cuts])
def test_a_list_that_a_loop_has_filled_is_not_changed(change):
    def f(xs):
        found = [x * x for x in xs]
        change(found)
        return sum(found)

    with pytest.raises(sg.errors.UnsupportedError, match=r"changed after the loop(?s:.*)x = x \+ \[y\]"):
        sg.grad(f)(np.ones(20))


def test_what_is_made_of_a_list_is_another_one():
    def f(xs):
        found = [x * x for x in xs]
        part, whole = found[1:], found.copy()
        part[0], whole[1] = 5.0, 7.0
        found[2] = xs[0]
        return sum(found) * sum(part) + len(whole + [1.0]) * whole[1]  # noqa: RUF005

    agrees(f, np.random.default_rng(2).normal(size=20), bits=False)


def test_an_item_of_a_list_of_lists_is_not_written_into():
    def f(xs):
        rows = [[x, x * x] for x in xs]
        rows[0][1] = 5.0
        return sum(rows[0])

    with pytest.raises(sg.errors.WriteError, match="an item of a list of lists"):
        sg.grad(f)(np.ones(20))


def test_the_number_of_items_alone_is_asked_for():
    def count(xs):
        return len([x for x in xs if x > 0]) * xs[0]

    def turns(x):
        found, x = halved(x)
        return (len(found) + 1) * x

    agrees(count, np.random.default_rng(2).normal(size=20))
    agrees(turns, 9.0)


def test_two_lists_may_be_multiplied_as_arrays():
    def f(xs):
        a, b = [], []
        for x in xs:
            if x > 0:
                a.append(x)
                b.append(x * x)
        return np.sum(np.array(a) * np.array(b))

    agrees(f, np.random.default_rng(2).normal(size=20))


def test_what_is_equal_stays_in_its_order():
    x = np.round(np.random.default_rng(0).normal(size=40), 0)

    def places(x, reverse):
        found = sorted(range(len(x)), key=lambda i: x[i], reverse=reverse)
        return np.array(found), max(range(len(x)), key=lambda i: x[i]), min(range(len(x)), key=lambda i: x[i])

    for reverse in (False, True):
        given = sg.compile(places)(x, reverse)
        for y, z in zip(given, places(x, reverse), strict=True):
            np.testing.assert_array_equal(y, z)


def test_a_recursion_that_a_value_ends_is_refused():
    def halved_until_small(x):
        return x if abs(x) < 0.5 else halved_until_small(0.5 * x)

    with pytest.raises(sg.errors.UnsupportedError, match=r"halved_until_small calls itself(?s:.*)Write a while loop"):
        sg.grad(halved_until_small)(4.0)


@pytest.mark.slow
def test_a_recursion_that_ends_by_itself_is_traced():
    def power(x, n):
        if n == 0:
            return 1.0
        return x * power(x, n - 1) if x > 0 else -power(x, n - 1)

    agrees(lambda x: power(x, 6), 1.3)


# ---- names that are not Python's


def tail(values):
    """Reads what it is given only in part."""
    return list(values)[-1]


def test_functions_with_names_of_pythons_are_the_users(monkeypatch):
    monkeypatch.setitem(globals(), "any", tail)

    def of_the_module(x):
        return any(3 * v for v in x)

    all = tail

    def of_a_closure(x):
        return all(np.sin(v) for v in x)

    def of_its_own(x):
        sum = tail
        return sum(np.arange(1.0, 4.0)[i:] * v for i in range(2) for v in x)[0]

    def an_argument(x, all=tail):
        return all(v / 2 for v in x)

    x = -np.arange(1.0, 21.0)  # of which the last is neither a truth nor the sum
    for f in (of_the_module, of_a_closure, of_its_own, an_argument):
        agrees(f, x)


# ---- lists that may be other names of each other


def chosen_and_read(x):
    a, b = [x, 2 * x], [3 * x, x]
    t = a if x > 1 else b
    return t[0] * a[1] + b[0]


def copied_and_changed(x):
    a, b = [x, 2 * x], [3 * x, x]
    t = [*a] if x > 1 else [*b]
    t[0] = x * x
    return a[0] + 10 * b[0] + t[0]


def of_one_name(x):
    t, y = [x, 2 * x], x
    while y > 1:
        y = y / 2
        t = [t[0] + 1, t[1] * y]
    t[0] = t[0] * 5
    return t[0] + t[1]


def replaced_in_one_branch(x):
    state = {"a": x}
    if x > 1:
        state = {"a": 2 * x}
    state["a"] = state["a"] + 1
    return state["a"] * x


def accepted_or_not(x):
    params = {"w": x, "b": 2 * x}
    for i in range(40):
        proposal = {name: p - 0.1 * p * p * i / 40 for name, p in params.items()}
        params = proposal if proposal["w"] < params["w"] else params
    return params["w"] + params["b"]


def put(items, value):
    items[0] = value
    return 2 * value


def changed_in_expressions(x):
    a, b = [x, 2 * x], [3 * x, x]
    y = put(a, x * x) if x < 1 else put(b, 2 * x)
    return a[0] + 10 * b[0] + y


RIGHT = [
    chosen_and_read, copied_and_changed, of_one_name, replaced_in_one_branch, accepted_or_not, changed_in_expressions,
]  # fmt: skip


@pytest.mark.parametrize("x", [0.7, 3.0])
@pytest.mark.parametrize("f", RIGHT)
def test_lists_are_chosen(f, x):
    agrees(f, x)


def one_of_two(x):
    a, b = [x, 2 * x], [3 * x, x]
    t = a if x > 1 else b
    t[0] = x * x
    return a[0] + b[0]


def changed_under_the_other_name(x):
    a, b = [x, 2 * x], [3 * x, x]
    t = a
    if x > 1:
        t = b
    b[0] = x * x
    return t[0]


def before_any_turn(x):
    a = [x, 2 * x]
    t = a
    while x > 1:
        x = x / 2
        t = [t[0] + 1, t[1] * x]
    t[0] = 5.0
    return a[0] + t[1]


def in_a_tuple(x):
    a, b = {"w": x}, {"w": 2 * x}
    state = (a, 1.0) if x > 1 else (b, 2.0)
    a["w"] = 7.0
    return state[0]["w"] * state[1]


def made_in_a_branch(x):
    rows, keep = [[0.5, 1.0]], [0.0, 0.0]
    if x > -10:
        row = [x, 1.0]
        rows[0] = keep = row
    keep[1] = 2 * x
    return rows[0][1] + keep[0]


def made_in_a_turn(x):
    rows, keep = [[0.5, 1.0]], [0.0, 0.0]
    for i in range(20):
        row = [x * i, 1.0]
        rows[0] = keep = row
    keep[1] = 2 * x
    return rows[0][1] + keep[0]


def held_by_the_caller(x):
    def last(row):
        for i in range(20):
            if i > 3:
                row = [row[1], row[0] + x]
        row[0] = 5 * x
        return row[0]

    rows = [[0.5, x]]
    return last(rows[0]) + rows[0][0]


def chosen_by_a_loop_and_by_a_branch(x):
    first, second = [0.5, x], [0.25, 1.0]
    row = first
    if x > 0.15:
        for _ in range(20):
            row = second
    elif x > -2.0:
        row = second
    row[1] = 9.0 * x
    return second[1]


def chosen_from_chosen_ones(x):
    first, second, third = [0.5, x], [0.25, 1.0], [0.1, 2.0]
    row = first if x > 0.15 else second
    other = second if x > 0.3 else third
    both = [*row] if x > 5.0 else other
    for i in range(20):
        if i > 3:
            row = both
    row[1] = 9.0 * x
    return second[1]


@pytest.mark.parametrize(
    "f",
    [
        one_of_two, changed_under_the_other_name, before_any_turn, in_a_tuple, made_in_a_branch, made_in_a_turn,
        held_by_the_caller, chosen_by_a_loop_and_by_a_branch, chosen_from_chosen_ones,
    ],
)  # fmt: skip
def test_a_list_that_may_be_another_one_is_not_changed(f):
    with pytest.raises(sg.errors.UnsupportedError, match=r"one of several lists or dicts(.*)one of them is changed"):
        sg.grad(f)(3.0)


def exchanged_and_held(x):
    rows = [[0.5, x], [0.25, 1.0]]
    row, total = rows[0], 0.0
    for k in range(21):
        rows[0][1] = 0.5 * rows[0][1] + 0.1 * k
        rows[0], rows[1] = rows[1], rows[0]
        total = total + row[1]
    row[1] = 2 * x
    return total + rows[0][1] + 3 * rows[1][1]


def exchanged_and_written(x):
    before, now = [0.0] * 4, [0.0] * 4
    for k in range(20):
        for j in range(1, 4):
            now[j] = before[j - 1] + x * k
        before, now = now, before
    before[-1] = x * x
    return before[-1] + now[3] + before[2]


def best_of_all(x):
    path, best, least = [0.0, x], [0.0, 0.0], 1e9
    for k in range(20):
        path = list(path)
        path[1] = x * k
        cost = (k - 5.5) ** 2 + x
        if cost < least:
            least, best = cost, path
    return best[1] + least


@pytest.mark.parametrize("f", [exchanged_and_held, exchanged_and_written, best_of_all])
def test_lists_that_a_loop_exchanges(f):
    for level in (0, 1, 2):
        with sg.options(optimize=level, check_first=False):
            assert sg.compile(f)(0.7) == pytest.approx(f(0.7), rel=1e-12)
            assert sg.grad(f)(0.7) == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-6)


def test_a_list_filled_in_some_turns_meets_no_array_of_a_known_length():
    def misfit(x, seen):
        out = []
        for i in range(200):
            x = 0.9 * x
            if i % 10 == 9:
                out.append(x)
        return np.sum((np.array(out) - seen) ** 2)

    with pytest.raises(sg.errors.ShapeError, match=r"fill an array of known length, np.zeros\(20\)"):
        sg.grad(misfit)(1.0, np.arange(20.0))


# ---- who asks in a loop how many items there are of a list that it fills


def written(body, head):
    """Return a function of a loop that appends to a list and then does something with it."""
    lines = ["def f(x):", "    marks, n, i = [0.5], 0.0, 0", f"    {head}", "        i = i + 1"]
    lines += ["        marks.append(x[0] * i)", *("        " + line for line in body.split("\n")), "    return n * x"]
    return function_of("\n".join(lines) + "\n", f"<a list {head} {body}>")


def function_of(source, file):
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space := {"np": np})
    return space["f"]


SEEN = [
    "for e in marks:\n    n += 1",
    "for j, e in enumerate(marks):\n    n += j",
    "for a, b in zip(marks, marks):\n    n += 1",
    "m = marks + [1.0]\nfor e in m:\n    n += 1",
    "n += len(dict(enumerate(marks)))",
    "n += sum([1 for e in marks])",
    "n += sum(1 for e in marks if n < 500)",
    "n += len({id(e) for e in marks})",
    "n += len([*map(id, marks)])",
    "n += len(marks[5:])",
    "n += len(marks[:-1])",
    "n += 0.5 in marks",
    "n += marks == [0.5]",
    "n += (lambda *a: len(a))(*marks)",
    "m = marks.copy()\nm.reverse()\nn += m[0] * 0.0 + 1.0",
    "n += 1 if marks else 2",
    "n += any(e is None for e in marks)",
    "match marks:\n    case [a, b, c]:\n        n += 1\n    case [a, *b]:\n        n += 2",
    "try:\n    n += 0.0 * marks[7] + 1.0\nexcept IndexError:\n    n += 3.0",
]


@pytest.mark.parametrize("body", SEEN)
def test_a_loop_that_asks_for_the_items_of_a_list_that_it_fills(body):
    f, x = written(body, "for _ in range(20):"), np.array([0.5, 0.7])
    np.testing.assert_array_equal(sg.compile(f, optimize=0)(x), f(x))
    for head in ("for _ in range(int(np.sum(x > 0) + 15)):", "while i < x[0] + 15:"):
        with pytest.raises(sg.errors.SymgradError):
            sg.compile(written(body, head), optimize=0)(x)


@pytest.mark.parametrize(
    "body",
    [
        "def ones():\n    for e in marks:\n        yield 1\nn += sum(ones())",
        "class Of:\n    def __len__(self):\n        return len(marks)\nn += len(Of())",
        "n += marks.__len__()",
    ],
)
def test_what_depends_on_the_length_of_a_list_in_the_middle_of_a_loop_differs_between_its_traces(body):
    with pytest.raises(sg.errors.SymgradError, match="gives different results when it is traced twice"):
        sg.compile(written(body, "for _ in range(20):"), optimize=0)(np.array([0.5, 0.7]))


@pytest.mark.parametrize("condition", [
    "isinstance(p, list)", "type(p) is list", "p.__class__ is list", "isinstance(p, (tuple, np.ndarray))",
    "type(p) in (list, np.ndarray)", "hasattr(p, 'shape')", "isinstance(p[1:], list)", "isinstance(tuple(p), tuple)",
    "isinstance(list(tuple(p)), tuple)", "isinstance(np.array(p), list)", "isinstance(p[0], list)",
    "isinstance(q[0], tuple)", "isinstance(q[0], list)", "isinstance(q[1:], list)", "isinstance(r[0], list)",
    "type(r[1]) is tuple",
])  # fmt: skip
def test_the_class_of_a_list_that_a_loop_fills_is_that_of_python(condition: str) -> None:
    source = f"""
def f(x):
    p, q, r = [], [], []
    for i in range(x.shape[0]):
        p.append(x[i] * 2)
        q.append((x[i], i * x[i]))
        r.append([x[i], i * x[i]])
    if {condition}:
        return x[1] * 3 + p[0] + q[1][0] + r[1][0]
    return np.sum(x) + p[0] + q[1][0] + r[1][0]
"""
    f = function_of(source, f"<a class {condition}>")
    x = np.linspace(0.5, 2, 20)
    assert sg.compile(f, check_first=False)(x) == f(x)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("limit", [0.1, 0.5])
def test_a_loop_over_a_list_with_one_item_more_says_nothing_of_how_long_the_list_was(level, limit):
    def f(x):
        marks = [0.5]
        for e in x:
            if e > 0.7:
                marks.append(e)
        count = 0.1 * len(marks)
        marks.append(x[0] * 0.3)
        if limit <= count:
            marks += [marks[-1], 0.7]
        else:
            marks.append(sum([e * e for e in marks]) * 0.1)
        return sum(marks) + 0.1 * len(marks)

    x = np.array([-0.657, -0.121, 1.417, -1.993])
    value, slope = sg.value_and_grad(f, optimize=level)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    step = 1e-6 * np.eye(4)
    np.testing.assert_allclose(slope, [(f(x + h) - f(x - h)) / 2e-6 for h in step], rtol=1e-6, atol=1e-8)
