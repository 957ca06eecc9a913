"""Values that are None or numbers, depending on traced values: nothing mistakes one for the other."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError

X = np.array([0.381, 0.391, -1.595, 2.438, -1.254, 0.187, 0.209, 0.139, -0.477, -0.344, -1.555, 0.699, -0.57, -1.097])
X = np.concatenate([X, -X[:6]])


def some(y):
    found = None
    if y > 0:
        found = y * 2
    return found


# ---- what asks whether a value is there


def alternative(x, y):
    return (some(y) or 1.0) * 3


def truth(x, y):
    found = some(y)
    if found:
        return 1.0 * y
    return 2.0 * y


def negation(x, y):
    found = some(y)
    return 1.0 * y if not found else 2.0 * y


def plain_truth(x, y):
    return y * (1.0 if bool(some(y)) else 2.0)


def equality(x, y):
    return 1.0 * y if some(y) == None else 2.0 * y  # noqa: E711


def inequality(x, y):
    return y * (1.0 if some(y) != None else 2.0)  # noqa: E711


def equality_of_two(x, y):
    return y * ((1.0 if some(y) == some(-y) else 2.0) + (4.0 if some(y) == some(y) else 8.0))


def equality_with_a_number(x, y):
    return y * (1.0 if some(y) == 1.0 else 2.0)


def class_of_it(x, y):
    return 1.0 * y if isinstance(some(y), float) else 2.0 * y


def attribute(x, y):
    return y * (1.0 if hasattr(some(y), "__add__") else 2.0)


def among(x, y):
    return 1.0 * y if some(y) in (None, 3) else 2.0 * y


def any_of(x, y):
    return 1.0 * y if any([some(y)]) else 2.0 * y


def any_is(x, y):
    return y * (1.0 if any(found is None for found in (some(y), some(-y - 0.2))) else 2.0)


def sum_of_those_there(x, y):
    return sum([found for found in (some(y), some(-y), some(y - 0.1)) if found is not None]) + y


def same_as_a_name(x, y):
    nothing = None
    return 1.0 * y if some(y) is nothing else 2.0 * y


# ---- what loops carry


def searched(x, y):
    found = some(y)
    for e in x:
        if e > 0.3 and found is None:
            found = e
    return np.sum(0.1 if found is None else found)


def searched_in_an_attribute(x, y):
    class Holder:
        pass

    holder = Holder()
    holder.found = some(y)
    for e in x:
        if e > 0.3 and holder.found is None:
            holder.found = e
    return np.sum(0.1 if holder.found is None else holder.found)


def searched_in_a_dict(x, y):
    held = {"found": some(y)}
    for e in x:
        if e > 0.3 and held["found"] is None:
            held["found"] = e
    return np.sum(0.1 if held["found"] is None else held["found"])


def searched_by_a_closure(x, y):
    found = some(y)

    def look(e):
        nonlocal found
        if found is None:
            found = e

    for e in x:
        look(e)
    return np.sum(0.1 if found is None else found)


def searched_while(x, y):
    found, k = some(y), 0
    while k < 30:
        if found is None:
            found = y * k
        k = k + 1
    return np.sum(0.1 if found is None else found)


def in_a_tuple(x, y):
    state = (some(y), 1.0)
    for e in x:
        state = (e if state[0] is None else state[0], state[1] * 0.9)
    return np.sum(0.1 if state[0] is None else state[0]) * state[1]


def exchanged(x, y):
    a, b = some(y), 1.0
    for _ in x:
        a, b = b, (0.5 if a is None else a)
    return b + np.sum(0.1 if a is None else a)


def an_array(x, y):
    found = None
    if y > 0:
        found = x * 2
    for _ in range(20):
        found = x if found is None else found * 0.9
    return np.sum(found)


def appended(x, y):
    out = []
    for e in x:
        found = None
        if e > 0.3:
            found = e
        out.append(found)
    total = 0.0
    for found in out:
        total = total + (1.0 if found is None else found)
    return total


def in_a_comprehension(x, y):
    out = [some(y * e) for e in x]
    return sum([1.0 if found is None else found for found in out]) + y


def beside_an_array(x, y):
    total = 0.0
    for found, e in zip([some(y), some(-y)] * 10, x, strict=True):
        total = total + (e if found is None else found)
    return total


RIGHT = (alternative, truth, negation, plain_truth, equality, inequality, equality_of_two, equality_with_a_number,
         class_of_it, attribute, among, any_of, any_is, sum_of_those_there, same_as_a_name, searched,
         searched_in_an_attribute, searched_in_a_dict, searched_by_a_closure, searched_while, in_a_tuple, exchanged,
         an_array, appended, in_a_comprehension, beside_an_array)  # fmt: skip


@pytest.mark.parametrize("f", RIGHT)
def test_it_is_asked_where_the_program_runs(f):
    program = sg.compile(f, check_first=False).compile(X, 0.5)
    for y in (-0.3, 0.5):
        assert program(X, y) == pytest.approx(f(X, y), rel=1e-13)


# ---- what is refused


def by_match(x, y):
    match some(y):
        case None:
            return 1.0 * y
        case _:
            return 2.0 * y


def by_match_in_an_object(x, y):
    match {"found": some(y)}:
        case {"found": None}:
            return 1.0 * y
        case _:
            return 2.0 * y


def by_counting(x, y):
    return y * [some(y), some(-y)].count(None)


def by_its_error(x, y):
    try:
        return some(y) + 1.0
    except TypeError:
        return 7.0 * y


def by_type(x, y):
    return y * (1.0 if type(some(y)) is type(None) else 2.0)


def by_identity(x, y):
    return y * (1.0 if some(y) is some(-y) else 2.0)


def by_text(x, y):
    return y * (1.0 if str(some(y)) == "None" else 2.0)


def by_lists(x, y):
    return y * (1.0 if [some(y)] == [None] else 2.0)


def by_a_filter(x, y):
    return sum(filter(None, [some(y), some(-y), 1.0])) * y


def carried_by_a_loop(x, y):
    return sg.fori_loop(0, 20, lambda i, c: (c[0], c[1] + (1.0 if c[0] is None else 0.0)), (some(y), y))[1]


REFUSED = (by_match, by_match_in_an_object, by_counting, by_its_error, by_type, by_identity, by_text, by_lists,
           by_a_filter, carried_by_a_loop)  # fmt: skip


@pytest.mark.parametrize("f", REFUSED)
def test_where_nothing_tells_it_is_refused(f):
    with pytest.raises(SymgradError):
        sg.compile(f).compile(X, 0.5)
