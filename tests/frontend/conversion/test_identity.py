"""Identity and class of objects that traced values decide on: told rightly, or refused."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError


class Holder:
    def __init__(self, value):
        self.value = value


def comparison_is_true(x):
    flag = x > 0
    return x * (1.0 if flag is True else 2.0)


def flag_is_true(x):
    flag = False
    if x > 0:
        flag = True
    return x * (1.0 if flag is True else 2.0)


def flag_is_not_false(x):
    flag = False
    if x > 0:
        flag = True
    return x * (1.0 if flag is not False else 2.0) + (flag is None)


def boolean_of_numpy_is_never_true(x):
    flag = np.sin(x) > 0
    return x * (1.0 if flag is True else 2.0)


def function_is(x):
    g = np.sin if x > 0 else np.cos
    return g(x) * (1.0 if g is np.sin else 2.0) * (3.0 if g is not np.cos else 4.0) * (5.0 if g is np.tan else 6.0)


def function_equals(x):
    g = np.cos
    if x > 0:
        g = np.sin
    return g(x) * (1.0 if g == np.sin else 2.0)


def own_function_is(x):
    once, twice = lambda v: v, lambda v: 2 * v
    g = once
    if x > 0:
        g = twice
    return g(x) * (1.0 if g is once else 2.0)


def same_array(x):
    a, b = np.array([x, 1.0]), np.array([x, 2.0])
    c = a
    return x * (1.0 if a is b else 2.0) * (3.0 if c is a else 4.0)


def sentinel(x):
    missing = object()
    y = x * 2
    return x * (1.0 if y is missing else 2.0)


class Inheriting(Holder):
    gain = 0.7


def number_beside_an_attribute_of_a_class(x):
    """The attribute is the class's own until a branch sets it."""
    held, found = Inheriting(0.3), None
    if x > 0:
        held.gain = held.gain * x
    for _ in range(20):
        found = 0.5 if found is None else found * 0.9
    return x * found * held.gain


RIGHT = (comparison_is_true, flag_is_true, flag_is_not_false, boolean_of_numpy_is_never_true, function_is,
         function_equals, own_function_is, same_array, sentinel, number_beside_an_attribute_of_a_class)  # fmt: skip


@pytest.mark.parametrize("f", RIGHT)
def test_identity_is_told(f):
    program = sg.compile(f, check_first=False).compile(0.5)
    for x in (-0.3, 0.5):
        assert program(x) == pytest.approx(f(x), rel=1e-13)


def number_is(x):
    n, four = 3, 4
    if x > 0:
        n = 4
    return x * (1.0 if n is four else 2.0)


def chosen_number_is(x):
    a, b = x, x * 1.0
    c = a if x > 0 else b
    return x * (1.0 if c is a else 2.0)


def chosen_list_is(x):
    one, two = [x], [2 * x]
    chosen = one if x > 0 else two
    return chosen[0] * (1.0 if chosen is one else 2.0)


def chosen_tuple_is(x):
    one, two = (x, 1.0), (2 * x, 3.0)
    chosen = one if x > 0 else two
    return chosen[0] * (1.0 if chosen is one else 2.0)


def chosen_array_is(x):
    one, two = np.array([x, 1.0]), np.array([x, 2.0])
    chosen = one if x > 0 else two
    return x * (1.0 if chosen is one else 2.0)


def chosen_object_is(x):
    one, two = Holder(x), Holder(2 * x)
    chosen = one if x > 0 else two
    return chosen.value * (1.0 if chosen is one else 2.0)


def class_of_a_number(x):
    n = 3 if x > 0 else 4.5
    return x * (1.0 if isinstance(n, int) else 2.0) * n


def class_of_a_boolean(x):
    n = True
    if x > 0:
        n = 2
    return x * n + (1.0 if isinstance(n, bool) else 2.0)


def repeated_list(x):
    n = 2
    if x > 0:
        n = 3
    return x * len([0.0] * n)


def function_in_a_list(x):
    g = np.sin if x > 0 else np.cos
    return g(x) * (1.0 if g in (np.sin,) else 2.0)


def function_in_a_dict(x):
    g = np.sin if x > 0 else np.cos
    return g(x) * {np.sin: 1.0}.get(g, 2.0)


REFUSED = (number_is, chosen_number_is, chosen_list_is, chosen_tuple_is, chosen_array_is, chosen_object_is,
           class_of_a_number, class_of_a_boolean, repeated_list, function_in_a_list, function_in_a_dict)  # fmt: skip


@pytest.mark.parametrize("f", REFUSED)
def test_where_nothing_tells_it_is_refused(f):
    with pytest.raises(SymgradError):
        sg.compile(f).compile(0.5)
