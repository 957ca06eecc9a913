"""Lists and the functions of Python's that go along them, in functions that are converted."""

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


def test_items_of_other_structures_are_appended_turn_by_turn():
    def f(xs):
        pairs = []
        for x in xs:
            pairs.append((x, x * x))
        return sum(a * b for a, b in pairs)

    agrees(f, np.arange(1.0, 25.0))


def test_an_item_of_another_turn_is_refused():
    def f(x):
        found = [x, x]
        while abs(found[-1]) < 100:
            found.append(found[-1] + found[-2])
        return found[-1]

    with pytest.raises(sg.errors.UnsupportedError, match=r"an item is read that another turn(?s:.*)previous = x"):
        sg.grad(f)(1.0)


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

    with pytest.raises(sg.errors.UnsupportedError, match=r"after 1,000 turns(?s:.*)Loop over range"):
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
