"""Default dicts whose keys depend on traced values: what is read is known, which keys there are is asked by nobody."""

import copy
import pickle
from collections import defaultdict

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.frontend.conversion.defaults import Defaults

ARGUMENTS = [np.array([0.5, 0.7]), np.array([-0.5, 0.7]), np.array([2.5, -0.7])]


def keys_of_one_side(x):
    d = defaultdict(float)
    if x[0] > 0:
        d["p"] += x[1]
    d["p"] *= 2
    if x[1] > 0:
        d["q"] = x[0]
    else:
        d["r"]
    return d["p"] + d["q"] * 3 + d["r"] + np.sum(x)


def expressions_that_read(x):
    d = defaultdict(lambda: 1.5)
    d["q"] = x[1]
    y = d["p"] if x[0] > 0 else d["q"]
    return y + 2 * d["p"] + (x[0] > 1 and d["r"] > 0) * x[1]


def keys_of_iterations(x):
    d = defaultdict(float)
    for i in range(20):
        d["p"] = 0.5 * d["p"] + x[i % 2]
        if x[0] > i * 0.13:
            d["q"] += d["p"]
    return d["p"] + d["q"] * 3 + d["r"]


def keys_of_a_while_loop(x):
    d, t = defaultdict(int), x[0]
    while t < 3:
        t = t + 1.0
        d["t"] += 1
        d[2] = d[2] + t * x[1]
    return d["t"] * x[0] + d[2] * x[1]


def by_other_names(x):
    d = defaultdict(float)
    held = [d]

    def add(key):
        held[0][key] += x[1]
        return d[key]

    y = add("p") if x[0] > 0 else add("q")
    return y + d["p"] * 2 - held[0]["q"]


def in_other_orders(x):
    d = defaultdict(float)
    if x[0] > 0:
        d["p"], d["q"] = x[0], x[1]
    else:
        d["q"], d["p"] = x[0], 2.0
    return d["p"] * 3 + d["q"]


FUNCTIONS = [
    keys_of_one_side, expressions_that_read, keys_of_iterations, keys_of_a_while_loop, by_other_names, in_other_orders,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("x", ARGUMENTS)
@pytest.mark.parametrize("loops", ["auto", 0])
def test_what_is_read_under_a_key_that_may_be_missing(f, x, loops):
    with sg.options(loops=loops, check_first=False):
        assert sg.compile(f, optimize=0)(x) == f(x)
        value, slope = sg.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    along = np.array([0.6, -0.3])
    difference = (f(x + 1e-6 * along) - f(x - 1e-6 * along)) / 2e-6
    assert np.sum(slope * along) == pytest.approx(difference, rel=1e-6, abs=1e-8)


def counted(x, ask):
    d = defaultdict(float)
    if x[0] > 0:
        d["p"] += x[1]
    return ask(d, x)


ASKING = {
    "length": lambda d, x: len(d) * x,
    "truth": lambda d, x: x if d else 2 * x,
    "member": lambda d, x: x if "p" in d else 2 * x,
    "get": lambda d, x: d.get("p", 3.0) * x,
    "pop": lambda d, x: d.pop("p", 3.0) * x,
    "setdefault": lambda d, x: d.setdefault("p", 3.0) * x,
    "iteration": lambda d, x: sum(1 for _ in d) * x,
    "items": lambda d, x: sum(e for _, e in d.items()) * x,
    "values": lambda d, x: sum(d.values()) * x,
    "starred": lambda d, x: len([*d]) * x,
    "keywords": lambda d, x: (lambda **k: len(k))(**d) * x,
    "display": lambda d, x: len({**d}) * x,
    "copy": lambda d, x: len(d.copy()) * x,
    "copied": lambda d, x: len(copy.copy(d)) * x,
    "deep copy": lambda d, x: len(copy.deepcopy(d)) * x,
    "dict": lambda d, x: len(dict(d)) * x,
    "set": lambda d, x: len(set(d)) * x,
    "equal": lambda d, x: (d == {}) * x,
    "equal to": lambda d, x: ({} == d) * x,  # noqa: SIM300
    "unequal": lambda d, x: (d != {}) * x,
    "union": lambda d, x: len(d | {}) * x,
    "union with": lambda d, x: len({} | d) * x,
    "update": lambda d, x: len({"z": 1}.update(d) or {}) * x,
    "text": lambda d, x: len(str(d)) * x,
    "reversed": lambda d, x: len([*reversed(d)]) * x,
    "pickle": lambda d, x: len(pickle.dumps(d)) * x,
    "result": lambda d, x: d,
    "result in a list": lambda d, x: [x, d],
}


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_which_keys_there_are_is_refused(name):
    with pytest.raises(SymgradError, match=r"may be missing|whether it has .* depends on traced values"):
        sg.compile(counted, static_argnums=1, check_first=False)(ARGUMENTS[0], ASKING[name])


@pytest.mark.parametrize("factory", [list, lambda: [], lambda x=1.0: x, None])
def test_a_default_that_is_no_number_known_before_is_not_chosen(factory):
    def f(x):
        d = defaultdict(factory)
        if x[0] > 0:
            d["p"] = [x[1]]
        return d["p"][0] * x

    with pytest.raises(SymgradError):
        sg.compile(f, check_first=False)(ARGUMENTS[0])


def test_where_all_keys_are_known_it_is_a_default_dict():
    def f(x):
        d = defaultdict(float, a=1.0)
        d["p"] += x[1]
        if x[0] > 0:
            d["p"] *= 2
        found = {**d, "n": len(d), "c": d.copy(), "s": sum(d.values()), "k": [*d], "has": "q" in d, "e": d == {}}
        return d, found

    for x in ARGUMENTS:
        found, expected = sg.compile(f, check_first=False)(x), f(x)
        assert found == expected
        assert type(found[0]) is defaultdict is type(found[1]["c"])
        assert found[0].default_factory is float


def test_every_method_of_a_default_dict_is_known():
    own = {name for base in (dict, defaultdict) for name in vars(base)} - vars(object).keys()
    reading = {"__getitem__", "__setitem__", "__missing__", "default_factory", "fromkeys", "update", "__ior__"}
    reading |= {"__class_getitem__", "__module__"}
    assert own - reading <= vars(Defaults).keys()
