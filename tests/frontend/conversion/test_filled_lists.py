"""Lists that a loop has filled in loops that run in Python, such as those that ask an iterator: right, or refused."""

import importlib
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError

PROGRAM = """
import itertools
import numpy as np
def f(x):
    found = []
    for y in x:
        found.append(y * 2)
    ticks, total = itertools.count(1), 0.0
    for _ in range(20):
        found.append(0.1 * next(ticks))
        {}
    return found[-1] + sum(found) + total
"""
RIGHT = [
    "total += len(found)", "total += sum(found)", "total += max(found)", "total += found[0] + found[-2]",
    "total += len(list(zip(found, found)))", "first, *others = found; total += len(others)",
    "*_, last = found; total += last", "total += len(sorted(found))", "total += [*reversed(found)][0]",
    "for z in found: total += z", "found.extend([1.0] * 2)", "found += [2.0]", "found.insert(0, 3.0)",
    "text = f'{found}'",
]  # fmt: skip
REFUSED = [
    "found.pop()", "found.pop(0)", "found.insert(1, 3.0)", "found.insert(-1, 3.0)", "found.reverse()", "found.sort()",
    "found.clear()", "found.remove(2.0)", "found[0] = 1.0", "found.__setitem__(0, 1.0)", "del found[0]",
    "found[0:2] = []",
]  # fmt: skip


def program(statement, tmp_path, monkeypatch):
    (tmp_path / "of_filled_lists.py").write_text(PROGRAM.format(statement))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "of_filled_lists", raising=False)
    return importlib.import_module("of_filled_lists").f


@pytest.mark.parametrize("statement", RIGHT)
def test_they_are_read_and_grow(statement, tmp_path, monkeypatch):
    f = program(statement, tmp_path, monkeypatch)
    x = np.arange(1.0, 20.0)
    value, gradient = sg.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    for i in (0, 7):
        step = 1e-5 * (np.arange(len(x)) == i)
        np.testing.assert_allclose(gradient[i], (f(x + step) - f(x - step)) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("statement", REFUSED)
def test_they_are_not_changed_otherwise(statement, tmp_path, monkeypatch):
    f = program(statement, tmp_path, monkeypatch)
    with pytest.raises(UnsupportedError, match="only append"):
        sg.compile(f).compile("float64[19]")
