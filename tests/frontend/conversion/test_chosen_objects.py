"""Objects of one class of which a branch chooses one: attribute by attribute, where nothing else holds them."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError

POINTS = ((0.53, 0.77), (-0.53, 0.77), (2.57, -0.77), (-2.57, -0.77), (2.57, 0.77))
ARGUMENTS = [np.array(x) for x in POINTS]


class Cell:
    def __init__(self, value):
        self.value = value
        self.count = 0

    def feed(self, p):
        self.value = 0.6 * self.value + 0.3 * p
        self.count += 1
        return self


class Slot:
    __slots__ = ("step", "value")

    def __init__(self, v):
        self.value, self.step = (v, 0)


class Node:
    def __init__(self, v, next=None):
        self.v, self.next = (v, next)


class Keeper:
    last = None


def new_on_one_side(x):
    c = Cell(0.5)
    if x[0] > 0:
        c = Cell(x[1])
    c.feed(x[0])
    return c.value * x + c.count


def new_again_and_again(x):
    c = Cell(0.5)
    if x[0] > 0:
        c = Cell(x[1])
        c.feed(2.0)
    else:
        c.feed(x[0])
    if x[1] > 0:
        c = Cell(c.value).feed(x[1])
    return c.value * x + c.count


def with_slots(x):
    c = Slot(0.5)
    if x[0] > 0:
        c = Slot(x[1])
    c.value += 1
    return c.value * x


def with_objects_in_it(x):
    c = Node(0.5, Node(x[0]))
    if x[0] > 0:
        c = Node(x[1], Node(2.0))
    c.next.v *= 2
    return c.v * x + c.next.v


def with_an_array(x):
    c = Cell(x * 2)
    if x[0] > 0:
        c = Cell(x * 3)
    c.value += 1
    return c.value * x


def with_an_array_written_behind_it(x):
    w = x * 3
    c = Cell(x * 2)
    if x[0] > 0:
        c = Cell(w)
    w += 1
    return c.value * x + w


def with_an_array_written_in_it(x):
    w = x * 3
    c = Cell(x * 2)
    if x[0] > 0:
        c = Cell(w)
    c.value += 1
    return c.value * x + w


def in_an_expression(x):
    c = Cell(0.5) if x[0] > 0 else Cell(x[1])
    c.feed(2)
    return c.value * x


def exchanged(x):
    c, d = (Cell(0.5), Cell(0.6))
    if x[0] > 0:
        c, d = (d, c)
    c.feed(x[0])
    return c.value * x + d.value


def put_elsewhere_on_both_sides(x):
    c = Cell(0.5)
    if x[0] > 0:
        c = Cell(x[1])
        Keeper.last = c
    else:
        Keeper.last = c
    c.feed(x[0])
    return c.value * x + Keeper.last.value


def that_holds_itself(x):
    n = Node(1.0)
    n.next = n
    if x[0] > 0:
        n = Node(x[1])
        n.next = n
    n.next.v += 1
    return n.v * x


def in_nested_branches(x):
    c = Cell(0.5)
    if x[0] > 0:
        c = Cell(x[1])
        if x[1] > 0:
            c = Cell(x[0])
    c.feed(1.0)
    return c.value * x


def accumulator(start):
    total = start

    def add(p):
        nonlocal total
        total = 0.7 * total + 0.2 * p
        return total

    return add


def functions_with_state(x):
    """The loop changes what is in the closure of the function that is chosen."""
    a, b = accumulator(0.1), accumulator(x[1])
    if x[0] > 0:
        a, b = b, a
    for k in range(25):
        a(x[k % 2])
    return a(1.0) * x + 2 * b(0.5)


def functions_with_state_in_a_while_loop(x):
    a, b = accumulator(0.1), accumulator(x[1])
    if x[0] > 0:
        a, b = b, a
    t, k = a(0.3), 0
    while t < 0.35 and k < 40:
        t, k = a(0.9 + 0.1 * x[0]), k + 1
    return t * x + 2 * b(0.5) + k


def functions_in_a_list(x):
    found = [accumulator(0.1), accumulator(x[1])]
    if x[0] > 0:
        found[0], found[1] = found[1], found[0]
    for k in range(25):
        found[0](x[k % 2])
    return found[0](1.0) * x + 3 * found[1](0.5)


def functions_with_attributes(x):
    def half(p):
        half.total = 0.5 * half.total + p

    def third(p):
        third.total = 0.3 * third.total + p

    half.total, third.total = 0.1, x[1]
    chosen = half
    if x[0] > 0:
        chosen = third
    for k in range(25):
        chosen(x[k % 2])
    return half.total * x + 2 * third.total


RIGHT = [
    functions_with_state,
    functions_with_state_in_a_while_loop,
    functions_in_a_list,
    functions_with_attributes,
    new_on_one_side,
    new_again_and_again,
    with_slots,
    with_objects_in_it,
    with_an_array,
    with_an_array_written_behind_it,
    with_an_array_written_in_it,
    in_an_expression,
    exchanged,
    put_elsewhere_on_both_sides,
    that_holds_itself,
    in_nested_branches,
]


@pytest.mark.parametrize("f", RIGHT)
def test_objects_that_a_branch_chooses(f):
    loss = lambda x: np.sum(np.cos(f(x)) * np.array([1.0, 0.7]))
    alone, both = sg.compile(f, optimize=0), sg.value_and_grad(loss)  # one program for all arguments
    for x in ARGUMENTS:
        with sg.options(check_first=False):
            np.testing.assert_array_equal(alone(x.copy()), f(x.copy()))
            value, slope = both(x.copy())
        assert value == pytest.approx(loss(x.copy()), rel=1e-12)
        along = np.array([0.6, -0.3])
        difference = (loss(x + 1e-6 * along) - loss(x - 1e-6 * along)) / 2e-6
        assert np.sum(slope * along) == pytest.approx(difference, rel=1e-5, abs=1e-6)


def under_another_name(x):
    c = Cell(0.5)
    d = c
    if x[0] > 0:
        c = Cell(x[1])
    c.feed(x[0])
    return c.value * x + d.value


def in_a_list(x):
    c = Cell(0.5)
    l = [c]
    if x[0] > 0:
        c = Cell(x[1])
    c.feed(x[0])
    return c.value * x + l[0].value


def by_a_method(x):
    c = Cell(0.5)
    g = c.feed
    if x[0] > 0:
        c = Cell(x[1])
    c.feed(x[0])
    return c.value * x + g(1.0).value


def as_a_key(x):
    c = Cell(0.5)
    l = {c: 1}
    if x[0] > 0:
        c = Cell(x[1])
    return l.get(c, 2) * x


def pick(c, x):
    if x[0] > 0:
        c = Cell(x[1])
    c.feed(x[0])
    return c


def of_a_caller(x):
    c = Cell(0.5)
    d = pick(c, x)
    return c.value * x + d.value


def of_a_closure(x):
    c = Cell(0.5)

    def g():
        return c

    d = c
    if x[0] > 0:
        d = Cell(x[1])
    d.feed(x[0])
    return g().value * x + d.value


def of_another_one(x):
    c = Cell(0.5)
    d = Cell(1.5)
    if x[0] > 0:
        c = d
    c.feed(x[0])
    return c.value * x + d.value


def with_a_list_that_something_holds(x):
    c = Cell([0.5])
    l = c.value
    if x[0] > 0:
        c = Cell([x[1]])
    c.value[0] = 2.0
    return c.value[0] * x + l[0]


def in_a_set(x):
    c = Cell(0.5)
    s = {c}
    if x[0] > 0:
        c = Cell(x[1])
    return (3.0 if c in s else 2.0) * x


def in_a_tuple(x):
    c = Cell(0.5)
    t = (c, 1)
    if x[0] > 0:
        c = Cell(x[1])
    c.feed(1.0)
    return t[0].value * x


def under_a_name_of_the_side(x):
    c = Cell(0.5)
    if x[0] > 0:
        d = Cell(x[1])
        c = d
    else:
        d = Cell(2.0)
    c.feed(1.0)
    return d.value * x + c.value


class Gain:
    gain = 0.5

    def __init__(self, v):
        self.v = v


def with_an_attribute_of_its_class(x):
    c = Gain(1.0)
    if x[0] > 0:
        c = Gain(x[1])
    else:
        c.gain = x[0]
    return c.gain * c.v * x


class Kind(Exception):
    pass


def of_a_class_of_pythons(x):
    c = Kind("a")
    if x[0] > 0:
        c = Kind("b")
    return len(str(c)) * x


def of_two_classes(x):
    c = Cell(0.5)
    if x[0] > 0:
        c = Slot(0.5)
    return c.value * x


def held_by_a_function_that_waits(x):
    c = Cell(0.5)
    later = [lambda: c.value]
    d = c
    if x[0] > 0:
        d = Cell(x[1])
    d.value = d.value + 1.0
    return later[0]() * x


REFUSED = [
    under_another_name,
    in_a_list,
    by_a_method,
    as_a_key,
    of_a_caller,
    of_a_closure,
    of_another_one,
    with_a_list_that_something_holds,
    in_a_set,
    in_a_tuple,
    under_a_name_of_the_side,
    with_an_attribute_of_its_class,
    of_a_class_of_pythons,
    of_two_classes,
    held_by_a_function_that_waits,
]


@pytest.mark.parametrize("f", REFUSED)
def test_objects_that_are_not_chosen(f):
    with sg.options(check_first=False), pytest.raises(SymgradError):
        sg.compile(f)(ARGUMENTS[0].copy())
