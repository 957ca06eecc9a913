"""Python's own loops and branches, converted from the source of functions, against Python itself."""

import linecache

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.interpret import interpret
from symgrad.core.region import with_nested
from symgrad.frontend.conversion.functions import converted
from tests.frontend.conversion.writer import Writer


def written(source, name):
    """A function from its text, which Python's tracebacks find as well."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    found = {"np": np}
    exec(compile(source, name, "exec"), found)
    return found["f"]


def traced(f, *args, loops=3):
    """The value of a function by the interpreter, and which operators it was traced into."""
    with sg.options(loops=loops):
        program = sg.compile(f).trace(*args)
    leaves = tree.flatten(args)[0]
    feeds = {leaf.node: x for leaf, x in zip(program.leaves, leaves, strict=True) if leaf.node is not None}
    value = interpret(program.graph.outputs, feeds)[0] if program.graph.outputs else program.outputs
    return value, [node.op.name for node in with_nested(program.graph.live)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_random_programs_give_the_same_bits(part):
    for seed in range(25 * part, 25 * part + 25):
        f = written(Writer(seed).function(), f"<random {seed}>")
        rng = np.random.default_rng(seed)
        x, xs = float(rng.normal()), rng.normal(size=4)
        with np.errstate(all="ignore"):
            wanted = f(x, xs.copy())
            with sg.options(loops="auto"):
                g = converted(f)
            assert g is not f, seed
            given = g(x, xs.copy())
        assert (type(given), repr(given)) == (type(wanted), repr(wanted)), seed


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_traced(seed):
    f = written(Writer(seed).function(), f"<random {seed}>")
    rng = np.random.default_rng(seed)
    x, xs = float(rng.normal()), rng.normal(size=4)
    with np.errstate(all="ignore"):
        try:
            given, _ = traced(f, x, xs)
        except sg.errors.UnsupportedError:  # not every program can be traced
            return
        np.testing.assert_array_equal(given, f(x, xs.copy()))


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_at_every_level(seed):
    f = written(Writer(seed).function(), f"<random {seed}>")
    rng = np.random.default_rng(seed)
    x, xs = float(rng.normal()), rng.normal(size=4)
    wanted, (_, slope) = f(x, xs.copy()), sg.value_and_grad(f, optimize=0, loops=3)(x, xs)
    assert sg.compile(f, optimize=seed % 3, loops=3)(x, xs) == pytest.approx(wanted, rel=1e-12)
    for level in (0, 1, 2):
        value, again = sg.value_and_grad(f, optimize=level, loops=3)(x, xs)
        assert (value, float(again)) == pytest.approx((wanted, float(slope)), rel=1e-10)


# ---- each construct


def piecewise(x):
    if x < -1:
        return x * x
    elif x < 1:
        y = 3 * x
    else:
        y = np.exp(x)
    return y + 1


def conditional(x):
    return (np.sin(x) if x > 0 else np.cos(x)) * (2.0 if not x > 1 else 3.0)


def logical(x):
    if (x > 0 and np.log(x) < 1) or x < -2:
        return x**3
    return 2 * x


def in_a_chain(x):
    return x * x if -1 < x <= 1 < 2 else x


def extremes(x):
    return max(x, x * x, 0.5) - min(2.0, x) + (x if any([x > 1, x < -2]) else 0.1) + (x if all([x > 1, x < 9]) else 0)


def member(x):
    return x if x in (1.5, 2.5) else x * x


def until_small(x):
    turns = 0
    while abs(x) > 0.11:
        x = 0.5 * x
        turns += 1
    else:
        x = x * 3
    return x * turns


def newton(a):
    x = 1.0 + abs(a)
    while True:
        step = (x * x - abs(a)) / (2 * x)
        x -= step
        if abs(step) < 1e-12:
            return x


def bisection(x):
    low, high = -3.0, 3.0
    while True:
        middle = 0.5 * (low + high)
        if high - low < 1e-3:
            break
        if middle**3 + middle > x:
            high = middle
        else:
            low = middle
    rest = x - middle**3 - middle
    return middle + rest / (3 * middle**2 + 1)


def breaks(xs):
    total = 0.0
    for i, x in enumerate(xs):
        if x > 2:
            break
        if x < 0:
            continue
        total += x * (i + 1)
    else:
        total = -total
    return total


def settled(xs):
    """A break that asks for what the turn before gave, beside an update that stands there already."""
    size, x = 0.0, xs
    for _ in range(40):
        w = np.cos(x)
        new = np.linalg.norm(w)
        x = w / new
        if abs(new - size) < 1e-3 * new:
            size = new
            break
        size = new
    else:
        size = size + 1000
    return size


def a_flag_that_is_known(xs):
    """The inner loop is given a truth that nothing sets: n is known."""
    a, n = xs[0], 2
    for i in range(4):
        for x in xs:
            a = 0.2 * np.sin(a) * xs[1] + 0.25 * x
            k = 0.0 * xs[0]
            while k < 3 or (k < 5 and n >= 0.7):
                k += 1
                if n <= -0.4:
                    return a * i
    return a


def never_reached(xs):
    """A return behind a jump sets no flag."""
    k, a = 0, xs[0]
    while k < 3 or (k < 5 and a > 1):
        k += 1
        if a <= 0.7:
            a += xs[1] * 0.25
        else:
            continue
            for i in range(5):
                if a > i:
                    return a
        a *= 1.25
    return a


def numbers_of_which_one_is_the_largest(xs):
    """Bound anew, though a branch may give it another name: numbers are not written into."""
    a, b, c = xs[0], 1.5, 0.0
    for _ in range(4):
        a = max(a, -0.4)
        for x in reversed(xs):
            b = (a if c <= 1.25 or xs[1] > b else 0.3) + 0.25 * x
            a -= c
            c = min(a, 0.3, b)
    return a + b + c


def a_number_beside_an_array(xs):
    """A scalar changes in the iterations that write into an array."""
    c, v, k = 0.0, xs * 0.5, 0
    while k < 4:
        k += 1
        for _ in range(5, 0, -2):
            if c < -0.4 or xs[0] > 0.2:
                if c > -0.4 and v[0] > 1.5:
                    continue
                v[1:] += 0.7
                c = xs[0] * 0.4 if xs[0] > -0.4 else -xs[0]
                break
    return np.sum(v) - c


def nested(xs):
    total = 0.0
    for x in xs:
        for y in reversed(xs):
            if x * y > 3:
                break
            total += x * y
        if total > 20:
            return total * 2
    return total


def after_the_loop(xs):
    for i in range(len(xs)):
        x = xs[i] * i
    return x * i


def in_place(xs):
    v = xs.copy()
    view = v[1:]
    for _ in range(5):
        v[:-1] += 0.1 * view
        if v[0] > 1:
            v[0] *= 0.5
    return np.sum(view * v[:-1])


def at_the_index(xs):
    out = np.zeros(len(xs))
    out[0] = xs[0]
    for t in range(1, len(xs)):
        out[t] = 0.5 * out[t - 1] + xs[t] ** 2
    return np.sum(out**2)


def appended(xs):
    state, path = 0.0, [1.0]
    for x in xs:
        state = 0.9 * state + x
        path.append(state * path[-1])
    return np.sum(np.stack(path[1:])) + path[2] + len(path)


def of_a_dict(xs):
    state = {"h": 0.0, "c": xs[0]}
    for x, y in zip(xs[:-1], xs[1:], strict=True):  # noqa: RUF007
        state["c"] = state["c"] * 0.5 + x
        state["h"] = np.tanh(state["c"] * y)
    return state["h"] + state["c"]


def by_closures(xs):
    total = 0.0

    def add(x):
        nonlocal total
        total += x * factor

    factor = 1.0
    for x in xs:
        factor = factor * 0.9
        if x > 0:
            add(x)
    return total


class Body:
    def __init__(self, x):
        self.x = x

    def step(self, f):
        self.x = self.x + f
        return self


def of_an_object(xs):
    body = Body(xs[0])
    for x in xs:
        body.step(x * body.x)
        if body.x > 10:
            body.x = body.x * 0.5
    return body.x


def perhaps(x):
    if x < 0:
        return None
    return np.sqrt(x)


def asks_for_none(x):
    y = perhaps(x)
    return x * x if y is None else 2 * y


def of_tuples(xs):
    a, b = (1.0, 0.0), 0.5
    for x in xs:
        (s, t), b = a, b * 0.9
        a = (s + b * x, t - s)
    return a[0] * a[1]


def shrinking(xs):
    while len(xs) > 1:
        xs = 0.5 * (xs[1:] + xs[:-1]) ** 2
    return xs[0]


def only_inside(x):
    while x < 10:
        previous = x
        x = x + 0.1 * x * x + 1
    return x - previous


NUMBERS = [
    piecewise,
    conditional,
    logical,
    in_a_chain,
    extremes,
    member,
    until_small,
    newton,
    bisection,
    asks_for_none,
    only_inside,
]
ROWS = [
    breaks,
    settled,
    a_flag_that_is_known,
    never_reached,
    numbers_of_which_one_is_the_largest,
    a_number_beside_an_array,
    nested,
    after_the_loop,
    in_place,
    at_the_index,
    appended,
    of_a_dict,
    by_closures,
    of_an_object,
    of_tuples,
]
ARRAYS = [
    np.array([0.5, 1.1, -0.3, 0.7, 1.9]),
    np.array([0.5, 3.1, -0.3, 2.7, 1.9]),
    np.array([1.5, 1.9, 1.2, 1.3, 1.4]),
]


@pytest.mark.parametrize("f", NUMBERS)
def test_functions_of_a_number(f):
    for level in (0, 2):
        both = sg.value_and_grad(f, optimize=level)
        for x in (-2.7, -0.5, 0.4, 1.5, 2.5):
            value, slope = both(x)
            assert value == pytest.approx(f(x), rel=1e-14)
            assert slope == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-5, abs=1e-8) or f is member


@pytest.mark.slow
@pytest.mark.parametrize("f", [*ROWS, shrinking])
def test_functions_of_an_array(f):
    for xs in ARRAYS:
        value, names = traced(f, xs)
        assert value == f(xs)
        assert ("scan" in names) == (f is not shrinking)
    direction = np.cos(np.arange(5.0))
    alone = sg.compile(f, optimize=[*ROWS, shrinking].index(f) % 3, loops=3)
    for level in (0, 1, 2):
        both = sg.value_and_grad(f, optimize=level, loops=3)
        for xs in ARRAYS:
            assert alone(xs) == pytest.approx(f(xs), rel=1e-13)
            value, slope = both(xs)
            assert value == pytest.approx(f(xs), rel=1e-13)
            wanted = (f(xs + 1e-6 * direction) - f(xs - 1e-6 * direction)) / 2e-6
            assert slope @ direction == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, xs: max(x, 0.5) * xs,
        lambda x, xs: xs * min(x, 3, xs[2] * 0 + 2),
        lambda x, xs: xs / max([x, 2 * x]),
        lambda x, xs: xs * sorted([x, 3.0, 1.0])[1],
    ],
)
def test_numbers_of_pythons_stay_such(f):
    xs = np.arange(3, dtype=np.float32)
    for level in (0, 1, 2):
        value = sg.compile(f, optimize=level)(2.5, xs)
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, f(2.5, xs))


@pytest.mark.parametrize("f", ROWS)
def test_second_derivatives_of_loops(f):
    xs = ARRAYS[0]
    direction = np.sin(1 + np.arange(5.0))
    gradient = sg.grad(f, loops=3)
    wanted = (gradient(xs + 1e-6 * direction) - gradient(xs - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose(sg.hvp(f, loops=3)(xs, direction), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("join", [np.stack, np.array, lambda rows: np.stack(rows, axis=1).T])
def test_a_list_that_a_loop_has_filled_is_stacked(join):
    def f(x):
        states = []
        while np.sum(x) > 1:
            x = 0.7 * x
            states.append(x)
        return np.sum(join(states) ** 2)

    x = np.array([1.0, 2.0])
    powers = 0.49 ** np.arange(1, 5)  # four turns
    np.testing.assert_allclose(sg.grad(f)(x), 2 * x * powers.sum(), rtol=1e-12)


def test_a_list_of_another_function_is_appended_to():
    seen = []

    def f(x):
        for i in range(20):
            x = 0.5 * x
            if i == 3:
                seen.append(i)
        return x

    assert sg.grad(f)(1.0) == 0.5**20
    assert 3 in seen


@pytest.mark.parametrize("n", [5, 40])
def test_both_sides_may_append(n):
    def f(x):
        found = []
        for v in x:
            if v > 0:
                found.append(np.sqrt(v))
                found.append(v)
            else:
                found.append(v**2)
                found.append(2 * v)
        return sum(found)

    x = np.random.default_rng(0).normal(size=n)
    expected = np.where(x > 0, 0.5 / np.sqrt(np.abs(x)) + 1, 2 * x + 2)
    np.testing.assert_allclose(sg.grad(f)(x), expected, rtol=1e-12)


def bound_on_one_side(x):
    if x > 0:
        y = 2 * x
    return y + 1


def read_where_it_is_bound(x):
    if x > 0:
        n, y = 3, 2 * x
    return n * y if x > 0 else x


def bound_by_each_clause(x):
    if x > 0:
        y = 2 * x
    elif x <= 0:
        y = 3 * x
    return y


def bound_in_the_first_turn(x):
    n = 0
    while n < 2 or n * x < 10:
        if n == 0:
            best = x
        best = max(best, x - n * x)
        n += 1
    return best


def test_what_only_one_side_binds_is_read_where_it_was_bound():
    with pytest.raises(
        sg.errors.UnsupportedError, match=r"y is read, but only one side of the branch at .* assigns it"
    ):
        sg.compile(bound_on_one_side)(2.0)
    for f in (read_where_it_is_bound, bound_by_each_clause):
        for x in (2.0, -2.0):
            value, slope = sg.value_and_grad(f)(x)
            assert value == f(x)
            assert slope == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6)
    assert sg.compile(bound_in_the_first_turn)(2.0) == bound_in_the_first_turn(2.0)


def limited_by_a_mode(a, b):
    k = 0
    while k < 12 and b > (2.0 if a > 0.5 else a):
        k += 1
        a = a + 0.1
    return a * b + k


def limited_by_a_function(a, b):
    def limit(a):
        return 2.0 if a > 0.5 else a

    k = 0
    while k < 3 or b > limit(a):
        k += 1
        a = a + 0.1
    return a * b + k


@pytest.mark.parametrize("f", [limited_by_a_mode, limited_by_a_function])
def test_a_test_of_two_parts_may_hold_a_branch(f):
    for a, b in ((0.12, 0.7), (0.12, 0.3), (0.72, 1.9)):
        value, slope = sg.value_and_grad(f)(a, b)
        assert value == f(a, b)
        assert slope == pytest.approx((f(a + 1e-6, b) - f(a - 1e-6, b)) / 2e-6)


# ---- arrays that have several names


def kept_by_a_loop(u, s, doubled=False):
    v = u
    for _ in range(20):
        s = 0.9 * s
        if doubled:
            v = 2 * v
    v[0] = s
    return u, v


def two_names_one_of_which_a_function_reads(u, s):
    w = v = u
    reads = lambda: np.sum(w)
    n = 0
    while n < 2 or (n < 4 and u[0] < s):
        n += 1
        w += s
    return u, v, reads()


def a_function_in_a_turn(u, s):
    a, b = s, 2 * s
    for _ in range(4):
        reads = lambda: s  # noqa: B023
        for _ in range(4):
            s = b
        a += s
    return a, u * reads()


def two_names_in_a_loop(u, s):
    v, w, total = u, u[1:], 0.0
    for i in range(20):
        u[i % 3] += s
        other, v = v, v
        w, total = w, total + w[0] + other[2]
    return u, v, w, total


def two_names_written_into(u, s):
    v = u
    for _ in range(20):
        v[1:] *= 0.5
        for _ in range(4):
            u[0] += s
        v = u
    return u, v


NAMES = [
    kept_by_a_loop,
    two_names_in_a_loop,
    two_names_written_into,
    two_names_one_of_which_a_function_reads,
    a_function_in_a_turn,
]


@pytest.mark.parametrize("f", NAMES)
def test_names_of_one_array_remain_such(f):
    program = lambda x, s: f(x + 0, s)
    x = np.array([0.1, 0.2, 0.3])
    wanted, found = program(x, 0.5), sg.compile(program, loops=1)(x, 0.5)
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-12)


def swapped(u, s):
    v, w = 2 * u, u
    for _ in range(19):
        u, v = v, u
    return v, w


def perhaps_no_turn(u, s):
    v = u
    while v[0] < s:
        v = 2 * v
    return v, u


def changed_by_a_branch(u, s):
    v = u
    for _ in range(20):
        if s > 1:
            v = 2 * v
    return v, u


def equal_numbers_of_another_array(u, s):
    v = w = 2 * u
    if s > 1:
        v = 2 * u
    return v, w


def the_last_row(u, s):
    rows, last = np.outer(u, u), u
    for row in rows:
        last = row
    return last, rows


@pytest.mark.parametrize("f", [swapped, perhaps_no_turn, changed_by_a_branch, the_last_row])
@pytest.mark.parametrize("into", [0, 1])
def test_what_may_be_another_name_is_not_written_into(f, into):
    def program(x, s, written=False):
        both = f(x + 0, s)
        if written:
            both[into][0] = 7.0
        return both

    x = np.array([0.1, 0.2, 0.3])
    for y, z in zip(sg.compile(program, loops=1)(x, 0.5), program(x, 0.5), strict=True):
        np.testing.assert_allclose(y, z)
    if f is not the_last_row or into == 0:
        with pytest.raises(sg.errors.WriteError, match=r"another name|a slice of an array that the loop runs over"):
            sg.compile(program, loops=1)(x, 0.5, True)


@pytest.mark.parametrize("into", [0, 1])
@pytest.mark.parametrize("s", [0.5, 1.5])
def test_a_write_reaches_another_name_only_where_it_is_one(into, s):
    def program(x, s):
        both = equal_numbers_of_another_array(x + 0, s)
        both[into][0] = 7.0
        return both

    x = np.array([0.1, 0.2, 0.3])
    for level in (0, 1, 2):
        np.testing.assert_array_equal(sg.compile(program, optimize=level, check_first=False)(x, s), program(x, s))


def test_an_array_of_one_name_is_written_into_behind_a_loop():
    def f(x, s):
        x = x + 0
        while x[0] < s:
            x = 2 * x
        x[0] = 7.0
        return np.sum(x)

    assert sg.compile(f)(np.array([0.1, 0.2]), 0.5) == 7 + 1.6


def test_a_name_that_a_function_reads_may_be_bound_in_the_loop():
    def f(x):
        k = 0
        while k < 2 or (k < 4 and x[0] > 0.1):
            k += 1
            reads = lambda: np.sum(u)  # noqa: B023
            u = k * x
        return reads() + np.sum(u)

    x = np.array([0.3, -0.2, 0.7])
    np.testing.assert_allclose(sg.compile(f)(x), f(x))


def test_a_loop_that_cannot_be_traced_says_so_where_python_asks_for_its_test():
    def f(x):
        k, y = 0, x
        while k < 2 or (k < 4 and np.sum(y) > 1):
            k += 1
            y = np.append(y, y)
        return np.sum(y)

    differs = r"y is float64\[2\] at the start of .*, and float64\[4\] at its end"
    with pytest.raises(sg.errors.UnsupportedError, match=differs):
        sg.compile(f, loops=1)(np.array([0.1, 0.2]))


@pytest.mark.parametrize(
    "collection",
    [{3, 5}, frozenset({3}), {3: 0.5, 7: 0.1}, {3: 0.5}.keys(), {1: 3}.values(), range(3, 30, 4), range(9, 2, -3)],
)
def test_the_count_of_a_loop_is_looked_for_in_a_collection(collection):
    def f(x):
        for i in range(40):
            if i in collection:
                x = 2 * x
            if i not in collection:
                x = x + 0.1
        return x

    value, operators = traced(f, 1.5)
    assert value == f(1.5)
    assert "scan" in operators


@pytest.mark.filterwarnings("ignore::symgrad.errors.FrozenRandomWarning")
@pytest.mark.parametrize("new", [np.random.default_rng, np.random.RandomState])
def test_random_numbers_are_drawn_in_each_turn_or_not_at_all(new):
    def f(x, rising=False):
        rng = new(0)
        total = 0.0 * x
        if rising:
            while total < 3:
                total = total + abs(rng.normal()) * x
        for _ in range(40):
            total = total + rng.normal() * x
        return total

    assert sg.compile(f)(1.5) == f(1.5)
    with pytest.raises(sg.errors.UnsupportedError, match="normal draws random numbers in a loop or a branch"):
        sg.compile(f)(1.5, True)


def test_what_another_trace_has_left_in_a_list_is_not_carried():
    turns = [0]

    def f(x):
        for _ in range(300):
            turns[0] += 1
            x = x - 0.1 * np.sin(x)
        return x * x

    first = sg.grad(f)(1.0)
    assert sg.compile(lambda x: sg.grad(f)(x))(1.0) == pytest.approx(first, rel=1e-12)
    turns[0] = 0
    assert sg.compile(lambda x: sg.grad(f)(x))(1.0) == pytest.approx(first, rel=1e-12)


class Damped:
    """A method names its own class, which is not bound again where the method is converted."""

    rate = 0.5

    def __call__(self, x):
        while np.sum(x) > 1:
            x = x * Damped.rate
        return np.sum(x**2)


def test_methods_may_name_their_class():
    assert sg.compile(Damped())(np.ones(3)) == Damped()(np.ones(3))


def test_what_the_sum_of_a_number_is_given_is_written_into():
    def f(y):
        p, q = 0.5, 0.1
        for _ in range(4):
            for _ in range(18):
                q = 0.6 * q
            if p <= y:
                p = y
            p, q = q, p
        return np.sum(q) + np.mean(p)

    for level in (0, 1, 2):
        value, slope = sg.value_and_grad(f, optimize=level)(1.3)
        assert value == pytest.approx(f(1.3), rel=1e-13)
        assert slope == pytest.approx((f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6, rel=1e-6)
