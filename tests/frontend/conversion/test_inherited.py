"""Attributes that an object inherits until a branch or a loop gives it one of its own, and classes that change them."""

from typing import ClassVar

import pytest

import symgrad as sg


class Counted:
    n = 1.0
    m = 2.0

    def __add__(self, other):  # runs as written
        return self.n + other

    @property
    def twice(self):
        return 2 * self.n


@pytest.fixture(autouse=True)
def fresh():
    yield
    Counted.n, Counted.m = 1.0, 2.0


def one_side(x):
    a = Counted()
    if x > 0:
        a.n = 5.0
    Counted.n = 7.0
    return x + a.n


def each_side_one(x):
    a = Counted()
    if x > 0:
        Counted.n = 7.0
    else:
        a.n = 5.0
    return x + a.n


def the_value_of_the_class(x):
    a = Counted()
    if x > 0:
        a.n = Counted.n
    Counted.n = 7.0
    return x + a.n


def changed_back_on_a_side(x):
    a = Counted()
    if x > 0:
        Counted.n = 3.0
        Counted.n = 1.0
        a.n = 1.0
    Counted.n = 7.0
    return x + a.n


def changed_back_behind(x):
    a = Counted()
    if x > 0:
        a.n = 5.0
    Counted.n, before = 9.0, Counted.n
    found = a + x
    Counted.n = before
    return found


def some_iterations(x):
    a = Counted()
    for i in range(20):
        if i > x:
            a.n = Counted.n
        Counted.n = Counted.n * 1.5
    return x + a.n


def perhaps_no_iteration(x):
    a = Counted()
    while x < 5:
        x = x + 1
        a.n = a.n + x
    setattr(Counted, "n", 7.0)  # noqa: B010
    return a.n


def both_iterate(x):
    a = Counted()
    while x < 5:
        x = x + 1
        a.n = a.n + x
        Counted.n = 2.0
    return a.n


def deleted_from_the_class(x):
    a = Counted()
    if x > 0:
        a.n = 5.0
    del Counted.n
    return x


@pytest.mark.parametrize(
    "f",
    [
        one_side,
        each_side_one,
        the_value_of_the_class,
        changed_back_on_a_side,
        changed_back_behind,
        some_iterations,
        perhaps_no_iteration,
        both_iterate,
        deleted_from_the_class,
    ],
)
def test_a_class_that_changes_what_an_object_may_inherit_is_refused(f):
    with pytest.raises(
        sg.errors.UnsupportedError, match=r"whether a\.n is an attribute of the object or of its class"
    ) as refused:
        sg.compile(f, check_first=False)(0.5)
    assert "Assign the attribute to the object before: a.n = ..." in str(refused.value)
    assert Counted.n == 1.0


def names_of_its_own(x):
    a = Counted()
    if x > 0:
        a.n = 5.0
    return x if "n" in vars(a) else 0.0


def items_of_its_own(x):
    a = Counted()
    if x > 0:
        a.n = 5.0
    return x * len(a.__dict__)


@pytest.mark.parametrize("f", [names_of_its_own, items_of_its_own])
def test_which_attributes_an_object_has_is_not_asked_where_running_tells(f):
    with pytest.raises(sg.errors.UnsupportedError, match=r"whether a\.n is in it depends on traced values"):
        sg.compile(f, check_first=False)(0.5)


def read_everywhere(x):
    a = Counted()
    if x > 0:
        a.n = 2.0 * x
    before = a.n + x
    if x > 1:
        a.n *= 2
    return before + a.n + a.twice + (a + x)


def in_iterations(x):
    a = Counted()
    for i in range(20):
        a.n = a.n * 0.9 + x
        if i > x:
            a.m += 1.0
    return a.n + a.m


def an_object_of_each_iteration(x):
    total = 0.0
    for i in range(20):
        a = Counted()
        if i > x:
            a.n = 3.0
        total += a.n * x
    return total


def given_before(x):
    a = Counted()
    a.n = Counted.n
    if x > 0:
        a.n = 3.0
    Counted.n = 9.0
    return x * a.n


def another_attribute(x):
    a = Counted()
    if x > 0:
        a.n = 3.0
    Counted.m = x
    return a.n + a.m


def on_both_sides(x):
    a = Counted()
    if x > 0:
        a.n = 3.0
    else:
        a.n = x
    Counted.n = 9.0
    return x * a.n


@pytest.mark.parametrize(
    "f",
    [read_everywhere, in_iterations, an_object_of_each_iteration, given_before, another_attribute, on_both_sides],
)
@pytest.mark.parametrize("level", [0, 2])
def test_attributes_that_a_class_keeps_are_chosen_and_carried(f, level):
    compiled = sg.compile(f, optimize=level, check_first=False)
    for x in (2.0, -1.0, 7.5):
        Counted.n, Counted.m = 1.0, 2.0
        expected = f(x)
        Counted.n, Counted.m = 1.0, 2.0
        assert compiled(x) == pytest.approx(expected, rel=1e-14)


# ---- state of base classes and metaclasses, which no name of the function reaches


class Registered(type):
    log: ClassVar = [1.0]


class Base(metaclass=Registered):
    items: ClassVar = [1.0]
    settings: ClassVar = {"n": 1.0}

    def record(self, x):
        type(self).log.append(x)

    @classmethod
    def set(cls, x):
        cls.settings["n"] = x


class Derived(Base):
    pass


class MoreDerived(Derived):
    pass


def appended_on_both_sides(x):
    a, b = Derived(), MoreDerived()
    if x > 0:
        a.items.append(x)
    else:
        a.items.append(-x)
    return sum(b.items)


def appended_in_iterations(x):
    a = MoreDerived()
    for i in range(20):
        if x > i:
            a.items.append(x)
        else:
            a.items.append(1.0)
    return sum(Derived.items)


def set_by_the_class(x):
    if x > 0:
        MoreDerived().set(2 * x)
    return x * Derived.settings["n"]


def appended_to_the_list_of_the_metaclass(x):
    a = Derived()
    if x > 0:
        a.record(x)
    else:
        a.record(-x)
    return sum(MoreDerived.log)


@pytest.fixture
def as_made():
    def reset():
        Base.items, Base.settings, Registered.log = [1.0], {"n": 1.0}, [1.0]

    reset()
    yield reset
    reset()


@pytest.mark.parametrize(
    "f",
    [appended_on_both_sides, appended_in_iterations, set_by_the_class, appended_to_the_list_of_the_metaclass],
)
@pytest.mark.parametrize("x", [2.0, -1.5])
def test_what_classes_inherit_is_state_as_well(f, x, as_made):
    expected = f(x)
    as_made()
    assert sg.compile(f, check_first=False)(x) == pytest.approx(expected, rel=1e-14)
