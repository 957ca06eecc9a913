"""First iterations that change the type of the state of a loop: they run as in Python, the others are one loop."""

import numpy as np
import pytest

import symgrad as sg

RNG = np.random.default_rng(0)


def number_first(x):
    total = 0
    for row in x:
        total = total + np.sin(row) * row[0]
    return np.sum(total**2)


def moments(x):
    m = v = 0
    for i in range(40):
        g = 2 * x[i % len(x)]
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g**2
    return np.sum(m / (np.sqrt(v) + 0.1))


def none_first(x):
    total = None
    for a, b in zip(x, x[::-1], strict=True):
        total = a * b if total is None else total + a * np.cos(b)
    return np.sum(total)


def best_yet(x):
    best = None
    for row in x:
        far = np.sum((row - x[0] * 0.3) ** 2)
        if best is None or far < best:
            best = far
    return best


def of_second_order(x):
    before = last = None
    for i in range(len(x)):
        new = np.sin(x[i])
        if before is not None:
            new = new + 0.3 * last * before
        before, last = last, new
    return np.sum(last)


def until_it_settles(x):
    old, y = None, np.sum(x[0])
    while True:
        new = np.cos(y) * 0.9
        if old is not None and abs(new - old) < 1e-6:
            break
        old = y = new
    return new * np.sum(x)


def left_early(x):
    v, w = 0, np.ones(x.shape[1])
    for i in range(40):
        v = v + x[i % len(x)]
        w *= v
        if np.sum(v**2) > 0.5:
            break
        w[0] += 1
    return np.sum(v * w) + i


def returned_early(x):
    last = None
    for i, row in enumerate(x):
        s = np.sum(row)
        if last is not None and s > last:
            return s * last * i
        last = s
    return last * 2


def of_an_object(x):
    class Mean:
        value = None

        def add(self, g):
            self.value = g if self.value is None else 0.9 * self.value + 0.1 * g
            return self.value

    mean, y = Mean(), x[0]
    for _ in range(30):
        y = y - 0.1 * mean.add(2 * y * np.cos(y))
    return np.sum(y * x[1])


def of_a_list(x):
    found, v = [], 0
    for i in range(30, 0, -1):
        v = 0.9 * v + x[i % len(x)]
        found.append(np.sum(v**2))
    return np.sum(np.array(found)) * len(found)


PEELED = [
    number_first,
    moments,
    none_first,
    best_yet,
    of_second_order,
    until_it_settles,
    left_early,
    returned_early,
    of_an_object,
    of_a_list,
]


@pytest.mark.parametrize("f", PEELED)
def test_first_iterations_that_change_types_are_peeled(f):
    both = sg.value_and_grad(f)
    for n, m in (18, 3), (25, 3), (7, 4):
        x = RNG.uniform(-1, 1, (n, m))
        value, gradient = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        direction = RNG.standard_normal(x.shape)
        h = 1e-6 * direction
        np.testing.assert_allclose(np.sum(gradient * direction), (f(x + h) - f(x - h)) / 2e-6, rtol=1e-5, atol=1e-8)
    assert not both.compile(RNG.uniform(-1, 1, (18, 3))).explain().unrolled


def test_one_program_serves_all_sizes():
    compiled = sg.grad(number_first).compile("float64[n, m]")
    for n in 1, 2, 30:
        x = RNG.standard_normal((n, 3))
        np.testing.assert_allclose(compiled(x), sg.grad(number_first)(x))


def structures(x):
    """A state of which each iteration has another structure: all run as in Python."""
    p = ()
    for i in range(20):
        p = (*p, x[i % len(x), 0])
    return sum(p)


def not_peeled(x):
    """The same, in a loop that may end early: its index is that of the iteration that ended it."""
    before = last = None
    found = []
    for i in range(20):
        new = np.sin(x[i % len(x)])
        if before is not None:
            new = new + 0.3 * last * before
        before, last = last, new
        found.append(np.sum(new))
        if np.sum(new) > 1.2:
            break
    return np.sum(last) * found[-1] * i


@pytest.mark.slow
@pytest.mark.parametrize("f", [structures, not_peeled])
def test_others_run_as_in_python(f):
    x = RNG.uniform(-1, 1, (18, 3))
    program = sg.value_and_grad(f).compile(x)
    for scale in 1.0, 3.0:
        np.testing.assert_allclose(program(scale * x)[0], f(scale * x))
    assert program.explain().unrolled


# ---- dtypes: the first iteration may see integers, and the others floats


def smoothed(y):
    for _ in range(20):
        y = (y + np.roll(y, 1)) / 2
    return y.sum()


def divided_down(y):
    for _ in range(20):
        y = y // 3 + y * 0.25
    return y.sum()


def votes(y):
    y = y > 1
    for _ in range(20):
        y = (y + y) * 0.5
    return y.sum()


def negated(y):
    y = y > 1
    for _ in range(20):
        y = ~y * 0.9 if y.dtype == bool else y * 0.9
    return y.sum()


def rooted(y):
    y = y - 100.0
    for _ in range(20):
        y = np.sqrt(y) * (1 + 0.1j)
    return np.abs(y).sum()


def rounded_once(y):
    """The other way: floats before the loop, and integers in all iterations but the first."""
    y = y * 1.0
    for _ in range(20):
        y = (y + y).astype(np.uint8)
    return y.sum()


def listed(y):
    found = []
    for _ in range(20):
        found.append(y)
        y = y * 0.5
    return sum((v + v).sum() for v in found)


@pytest.mark.parametrize("f", [smoothed, divided_down, votes, negated, rooted, rounded_once, listed])
@pytest.mark.parametrize("optimize", [0, 2])
def test_the_first_iteration_has_the_dtypes_of_python(f, optimize):
    program = sg.compile(f, optimize=optimize)
    for y in np.array([1, 2, 3], np.uint8), np.array([200, 250, 90], np.uint8):
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(program(y), f(y))


def halved_until_small(y):
    while np.max(y) > 1:
        y = y * 0.5
    return y.sum()


def doubled_until_small(y):
    while np.max(y) > 1:
        y = (y + y) * 0.4
    return y.sum()


def newton(x):
    while np.sum(np.abs(x)) > 0.5:
        x = x - 0.1 * (x * x) / (1 + x)
    return np.sum(x)


def test_a_loop_whose_first_test_is_traced_is_promoted_where_that_changes_no_number():
    y = np.array([7, 20], np.uint8)
    assert sg.compile(halved_until_small)(y) == halved_until_small(y)
    assert sg.compile(newton)(np.array([1, 2])) == pytest.approx(newton(np.array([1, 2])))
    with pytest.raises(
        sg.errors.UnsupportedError, match=r"y is uint8\[2\] at the start .* and float64\[2\] at its end"
    ):
        sg.compile(doubled_until_small)(y)
    assert sg.compile(doubled_until_small)(y.astype(float)) > 0


def test_python_numbers_take_the_dtype_of_what_is_added():
    def total(x):
        s = 0
        for row in x:
            s = s + row
        return s

    x = np.arange(20.0)
    assert not sg.compile(total).compile(x).explain().unrolled
    assert "range(19)" not in sg.compile(total).compile(x).source


# ---- dtypes that a branch chooses


def roots(b, c):
    d = b * b - 4 * c
    r = np.sqrt(d) if d >= 0 else 1j * np.sqrt(-d)
    z = (r - b) / 2
    for _ in range(20):
        z = z * 0.9 + 0.1j
    return np.abs(z * np.exp(z)) ** 2


def of_either(x, c):
    z = x if c > 0 else x * 1j
    return np.abs(np.sqrt(z))


def doubled_either(x, c):
    y = x if c > 0 else x * 0.5
    return np.sum(y + y)


def test_a_branch_may_choose_the_dtype_where_that_changes_no_number():
    for b in 1.0, 5.0:
        assert sg.compile(roots)(b, 3.0) == pytest.approx(roots(b, 3.0))
        slope = (roots(b + 1e-6, 3.0) - roots(b - 1e-6, 3.0)) / 2e-6
        assert sg.grad(roots)(b, 3.0) == pytest.approx(slope, rel=1e-6)
    x = np.array([3, 4])
    assert sg.compile(doubled_either)(x, 1.0) == 14
    assert sg.compile(doubled_either)(x, -1.0) == 7


@pytest.mark.parametrize(
    ("f", "x", "dtype"),
    [(of_either, 2.0, "complex128"), (doubled_either, np.array([200], np.uint8), "float64")],
)
def test_what_may_be_another_number_in_the_chosen_dtype_is_refused(f, x, dtype):
    with pytest.raises(sg.errors.DTypeError, match=rf"may be another number (.|\n)*x.astype\(np.{dtype}\)"):
        sg.compile(f)(x, 1.0)


def small_or_not(x):
    small = (np.abs(x) * 90).astype(np.uint8)
    if x[0] > 0:
        small = small * 0.45
    return np.sum(x) * (small.dtype == np.uint8)


def single_or_double(x):
    y = x.astype(np.float32)
    if x[0] > 0:
        y = y + x
    z = y * np.float32(2)
    return np.sum(z) if np.issubdtype(z.dtype, np.float64) else np.sum(z) + 1.0


def small_below_two_branches(x):
    small = (np.abs(x) * 90).astype(np.uint8)
    if x[1] > 0:
        if x[0] > 0:
            small = small * 0.5
    else:
        small = small * 0.45
    return np.sum(x) * (small.dtype == np.uint8)


def small_behind_a_loop(x):
    small = (np.abs(x) * 90).astype(np.uint8)
    for i in range(20):
        last = small
        if x[i % 3] > 0:
            last = small * 0.5
    return np.sum(x) * (last.dtype == np.uint8)


def wraps_around(x):
    small = (np.abs(x) * 200).astype(np.uint8)
    if x[1] > 0:
        if x[0] > 0:
            small = small * 0.5
    else:
        small = small * 0.45
    return np.sum(x) + float(np.sum(small + small))


def test_numbers_that_an_inner_branch_decides_are_followed_out_of_the_outer_one():
    with pytest.raises(sg.errors.DTypeError, match="may be another number"):
        sg.compile(wraps_around)(np.array([-1.0, 1.0, 1.0]))


def scaled_below_two_branches(x):
    t, i = np.arange(3), 0
    while i < 20:
        i += 1
        if x[i % 3] > 0.5:
            if x[0] > 0:
                t = np.arange(3) * 0.5
        else:
            t = np.arange(3)
    return np.sum(t * x / 2)


def test_numbers_that_are_equal_in_both_dtypes_go_out_of_branches_and_loops():
    for x in (np.array([1.0, 0.2, 0.7]), np.array([-1.0, 0.7, 0.2]), np.array([1.0, 1.0, 0.1])):
        value, slope = sg.value_and_grad(scaled_below_two_branches)(x)
        assert value == scaled_below_two_branches(x)
        assert np.sum(slope * x) == pytest.approx(value)


@pytest.mark.parametrize("f", [small_or_not, single_or_double, small_below_two_branches, small_behind_a_loop])
def test_a_dtype_that_a_branch_decides_cannot_be_asked_for(f):
    with pytest.raises(sg.errors.DTypeError, match=r"its dtype is asked for here(.|\n)*: return np.sum"):
        sg.compile(f, check_first=False)(np.array([0.5, 0.25]))


@pytest.mark.parametrize("first", [np.uint8, int])
def test_a_dtype_that_the_first_iteration_changes_is_asked_for_in_each(first):
    def f(x):
        y, total = (np.abs(x) * 90).astype(first), 0.0
        for _ in range(20):
            total = total + (x[0] if y.dtype == first else x[1])
            y = y * 0.45
        return total + np.sum(y)

    for x in (np.array([0.5, 0.2, 0.1]), np.array([-0.5, 0.3, 0.1])):
        np.testing.assert_allclose(sg.compile(f, check_first=False)(x), f(x), rtol=1e-14)
