"""Branches and checks in operators, subscripts, setters and other special methods of the user's classes."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcreteValueError
from symgrad.frontend.conversion.functions import converted
from tests.frontend.conversion.test_python_idioms import check


class Number:
    """Each of its methods has a branch."""

    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        if self.v > 1:
            return Number(self.v + other.v)
        return Number(self.v * other.v)

    def __radd__(self, other):
        return Number(other + self.v if self.v > 1 else other * self.v)

    def __isub__(self, other):
        if other > 1:
            self.v = self.v - other
        else:
            self.v = self.v + other
        return self

    def __mul__(self, other):
        if other <= 0:
            raise ValueError("not positive")
        return Number(self.v * other)

    def __neg__(self):
        return Number(-self.v if self.v > 1 else self.v**3)

    def __abs__(self):
        return self.v if self.v > 1 else self.v**3

    def __float__(self):
        return self.v if self.v > 1 else self.v**3

    def __round__(self, digits=0):
        return self.v if self.v > 1 else self.v**3 + digits

    def __lt__(self, other):
        if self.v > 5:
            return False
        return self.v < other.v

    def __eq__(self, other):
        return self.v > other.v and self.v > 0

    def __contains__(self, x):
        return self.v > x

    def __getitem__(self, i):
        return self.v * 2 if self.v > 1 else self.v**3

    def __setitem__(self, i, v):
        if v > 1:
            self.v = v * 2
        else:
            self.v = v**3

    def __enter__(self):
        self.v = self.v * 2 if self.v > 1 else self.v
        return self

    def __exit__(self, *_):
        pass

    @property
    def warm(self):
        return self.v if self.v > 1 else self.v**2

    @warm.setter
    def warm(self, v):
        if v < -273.15:
            raise ValueError("too cold")
        self.v = v * 2 if v > 1 else v**3


def added(x):
    return (Number(x) + Number(3.0)).v


def reflected(x):
    return (2.0 + Number(x)).v


def in_place(x):
    y = Number(0.3)
    y -= x
    return y.v


def falls_back(x):
    y = Number(x)
    y += Number(2.0)
    return y.v


def multiplied(x):
    return (Number(2.0) * x).v


def negated(x):
    return (-Number(x)).v


def by_functions(x):
    return abs(Number(x)) * float(Number(x)) * round(Number(x)) * round(Number(x), 2)


def less(x):
    return x**2 if Number(x) < Number(1.2) else x


def greater(x):
    return x**2 if Number(1.2) > Number(x) else x


def equal(x):
    return x**2 if Number(x) == Number(1.2) else x


def unequal(x):
    return x**2 if Number(x) != Number(1.2) else x


def contains(x):
    return x**2 if 1.2 in Number(x) else x


def not_contains(x):
    return x**2 if 1.2 not in Number(x) else x


def item(x):
    return Number(x)[3] * Number(x)["a"] * Number(x)[1:] * Number(x)[0, 1]


def item_set(x):
    y = Number(0.0)
    y[3] = x
    y["a"] = y.v * x
    y[0] += x
    return y.v


def entered(x):
    with Number(x) as y:
        return y.v


def attribute_set(x):
    y = Number(0.0)
    y.warm = x
    y.warm += x
    setattr(y, "warm", y.v * x)  # noqa: B010
    return y.v


FUNCTIONS = [
    added, reflected, in_place, falls_back, multiplied, negated, by_functions, less, greater, equal, unequal, contains,
    not_contains, item, item_set, entered, attribute_set,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_special_methods_are_converted(f):
    check(f, 1.7, also=(0.6,), levels=(1,))


def test_an_operator_and_a_setter_raise():
    with pytest.raises(ValueError, match="not positive"):
        sg.grad(multiplied)(-1.0)
    with pytest.raises(ValueError, match="too cold"):
        sg.grad(attribute_set)(-300.0)


# ---- the order in which Python asks


LOG = []


class Asked:
    def __add__(self, other):
        LOG.append("add")
        return NotImplemented

    def __radd__(self, other):
        LOG.append("radd")
        return "radd"

    def __gt__(self, other):
        LOG.append("gt")
        return NotImplemented


class Derived(Asked):
    def __radd__(self, other):
        LOG.append("derived")
        return "derived"


class Listed(list):
    def __radd__(self, other):
        LOG.append("listed")
        return "listed"


def plus(x, y):
    return x + y


def plus_in_place(x, y):
    x += y
    return x


def smaller(x, y):
    return x < y


def outcome(f, *args):
    LOG.clear()
    try:
        found = f(*args)
    except TypeError as error:
        found = str(error)
    return repr(found), [*LOG]


OBJECTS = [Asked(), Derived(), Listed([1]), [1], (1,), 2, 2.0, "a", None, np.arange(2.0), np.float64(2)]


@pytest.mark.parametrize("f", [plus, plus_in_place, smaller], ids=lambda f: f.__name__)
def test_methods_are_asked_in_the_order_of_python(f):
    instead = converted(f)
    assert instead is not f
    for x in OBJECTS:
        for y in OBJECTS:
            if not isinstance(x, (list, np.ndarray)) or f is not plus_in_place:
                assert outcome(instead, x, y) == outcome(f, x, y), (x, y)


# ---- what is not converted


class Pair:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        if self.x > 1:
            return iter([self.x, 2.0])
        return iter([self.x, 3.0])


class Items(Pair):
    def __iter__(self):
        yield self.x if self.x > 1 else 2.0
        yield 3.0


def iterated(x, cls=Pair):
    a, b = cls(x)
    return a * b


def generated(x):
    return iterated(x, Items)


def pairs(x):
    return x if (x, 1.0) < (1.2, 1.0) else x**2


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (iterated, "__iter__ is not converted where compiled code calls it"),
        (generated, "__iter__ is a generator or a coroutine"),
        (pairs, "compare tuples"),
    ],
    ids=["iterated", "generated", "pairs"],
)
def test_the_message_says_why_a_branch_is_not_converted(f, why):
    with pytest.raises(ConcreteValueError, match=why):
        sg.grad(f)(1.7)
