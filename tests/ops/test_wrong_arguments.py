"""Plainly wrong arguments to every function of the operator table: an error of symgrad's that says what to write."""

import math
import warnings
from contextlib import suppress

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError, ShapeError, SymgradError, UnsupportedError
from symgrad.ops.create import CREATE
from symgrad.ops.define import TABLE
from symgrad.ops.scipy import load

special = pytest.importorskip("scipy.special")
scipy = pytest.importorskip("scipy")
pytest.importorskip("scipy.linalg")
pytest.importorskip("scipy.stats")

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Thing:
    """Nothing that NumPy knows."""


WRONG = {
    "None first": lambda f, x: f(None, x),
    "None second": lambda f, x: f(x, None),
    "a text": lambda f, x: f(x, "a"),
    "a text first": lambda f, x: f("a", x),
    "axis as text": lambda f, x: f(x, axis="0"),
    "axis as float": lambda f, x: f(x, axis=0.0),
    "axis out of bounds": lambda f, x: f(x, axis=7),
    "one axis out of bounds": lambda f, x: f(x, axis=(0, 7)),
    "axis twice": lambda f, x: f(x, axis=(0, 0)),
    "dtype as object": lambda f, x: f(x, dtype=object()),
    "dtype of another library": lambda f, x: f(x, dtype="torch.float32"),
    "too many": lambda f, x: f(*[x] * 12),
    "unknown keyword": lambda f, x: f(x, unheard_of=3),
    "negative size": lambda f, x: f(x, -3),
    "negative sizes": lambda f, x: f(x, (-3, -2)),
    "shapes that differ": lambda f, x: f(x, x[0, :2]),
    "three arrays": lambda f, x: f(x, x, x),
    "an object": lambda f, x: f(x, Thing()),
    "None in a list": lambda f, x: f([x, None]),
    "a dict": lambda f, x: f({"a": x}),
    "an empty list": lambda f, x: f([], x),
    "a float": lambda f, x: f(x, 1.5),
    "a number": lambda f, x: f(x[0, 0]),
    "one more axis": lambda f, x: f(x[None]),
    "ragged": lambda f, x: f([x, x[0]]),
}


def plain_error(call, function, x):
    """The error of a call, as text; "" where it gives a result."""
    try:
        call(function, x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def wrong_errors(function):
    """Return errors of wrong calls that neither symgrad nor NumPy has meant for the user."""
    found = []

    def traced(x):
        for name, call in WRONG.items():
            try:
                call(function, x)
            except SymgradError as error:
                found.extend([f"{name}: no advice: {error.fact}"] * (not error.instead))
            except np.linalg.LinAlgError:  # of constants
                pass
            except Exception as error:
                unexpected.append((name, f"{type(error).__name__}: {error}"))
        return x

    unexpected = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with suppress(SymgradError):  # what was refused ends the trace
            sg.compile(traced).graph(X)
        return found + [f"{name}: {text}" for name, text in unexpected if plain_error(WRONG[name], function, X) != text]


def functions():
    load()
    table = [f for f in TABLE if not (getattr(f, "__module__", None) or "").startswith("test")]  # of other tests
    of_items = (math.fsum, math.prod, math.dist)  # their errors are those of what takes the items
    return [f for f in dict.fromkeys([*table, *CREATE]) if f not in of_items and f.__name__ != "__call__"]


@pytest.mark.slow
def test_every_function_of_the_table():
    wrong = {}
    for function in functions():
        texts = wrong_errors(function)
        if texts:
            wrong[f"{function.__module__}.{function.__name__}"] = texts
    assert not wrong


@pytest.mark.parametrize("name", list(WRONG))
def test_each_kind_of_wrong_call_is_wrong_somewhere(name):
    tried = (np.add, np.sum, np.concatenate, np.linalg.inv, np.reshape, np.exp, np.zeros, np.take)
    assert any(plain_error(WRONG[name], function, X) for function in tried)


def fails(call):
    with pytest.raises(SymgradError) as info:
        sg.compile(call)(X)
    return type(info.value), info.value.fact, info.value.instead


@pytest.mark.parametrize(
    ("call", "error", "fact", "instead"),
    [
        (lambda x: np.sum(x, axis="0"), ArgumentError, "np.sum: axis='0' is not an integer", "Write axis=0."),
        (lambda x: np.mean(x, axis=1.0), ArgumentError, "np.mean: axis=1.0 is not an integer", "Write axis=1."),
        (lambda x: x.sum(axis=0.0), ArgumentError, "np.sum: axis=0.0 is not an integer", "Write axis=0."),
        (
            lambda x: np.cumsum(x, axs=0),
            ArgumentError,
            "np.cumsum: got an unexpected keyword argument 'axs'",
            "It takes (a, axis=None, dtype=None, out=None).",
        ),
        (
            lambda x: np.zeros(3, dtype="torch.float32") * x,
            DTypeError,
            "np.zeros: dtype='torch.float32' is not a dtype of NumPy",
            "Write dtype=np.float32.",
        ),
        (
            lambda x: x.astype("torch.int64"),
            DTypeError,
            "x.astype: dtype='torch.int64' is not a dtype of NumPy",
            "Write dtype=np.int64.",
        ),
        (
            lambda x: np.concatenate([x, None]),
            DTypeError,
            "None is not a number",
            "Give a number or an array; test `x is None` first.",
        ),
        (
            lambda x: np.argpartition(x, 1.5),
            ArgumentError,
            "np.argpartition: Partition index must be integer",
            "It takes (a, kth, axis=-1, kind='introselect', order=None).",
        ),
        (lambda x: np.rot90(x, axes=(0, 1, 0)), ShapeError, "np.rot90: 3 axes, two are needed", "Write axes=(0, 1)."),
        (
            lambda x: np.rot90(x, axes=(0, -2)),
            ShapeError,
            "np.rot90: axis 0 is named twice",
            "Name two different axes.",
        ),
        (
            lambda x: np.diagonal(x, 0, 1, -1),
            ShapeError,
            "np.diagonal: axis1 and axis2 are both 1",
            "Name two different axes.",
        ),
        (lambda x: np.fft.fftn(x, axes=()), ShapeError, "np.fft.fft along no axis", "Name an axis at least."),
        (lambda x: x[::0], ShapeError, "a slice cannot have step 0", "Write another step, such as 1 or -1."),
        (lambda x: np.stack(x[:0]), ShapeError, "np.stack: nothing to join", "Give at least one array."),
        (lambda x: np.pad(x, [(1, 2, 3)]), ShapeError, "np.pad: 3 widths for one axis", "Give (before, after)."),
        (
            lambda x: np.unravel_index(np.argmax(x), (2, 3), order="K"),
            ArgumentError,
            "np.unravel_index: order='K'",
            "Write order='C' or order='F'.",
        ),
        (
            lambda x: np.meshgrid(x[0], x[0], indexing="ab"),
            UnsupportedError,
            "np.meshgrid: indexing='ab'",
            "Write indexing='xy' or indexing='ij'.",
        ),
        (
            lambda x: np.searchsorted(x[0], 2.0, side="middle"),
            UnsupportedError,
            "np.searchsorted: side='middle'",
            "Write side='left' or side='right'.",
        ),
        (
            lambda x: scipy.linalg.polar(x, side="up"),
            ArgumentError,
            "scipy.linalg.polar: side='up'",
            "Write side='right' or side='left'.",
        ),
        (
            lambda x: scipy.linalg.convolution_matrix(x[0], 3, mode="all"),
            ArgumentError,
            "scipy.linalg.convolution_matrix: mode='all'",
            "Write 'full', 'same' or 'valid'.",
        ),
        (
            lambda x: np.asarray_chkfinite(x),
            UnsupportedError,
            "np.asarray_chkfinite of a traced array: its numbers have no value before the program runs",
            "Write np.asarray; compile with check_nan=True, or raise an error if not np.all(np.isfinite(x)).",
        ),
        (
            lambda x: np.asarray_chkfinite([1.0, np.inf]) * x[0, 0],
            ArgumentError,
            "np.asarray_chkfinite: there are infs or NaNs in the array",
            "Write np.asarray.",
        ),
    ],
)
def test_the_words(call, error, fact, instead):
    assert fails(call) == (error, fact, instead)


def test_errors_of_functions_that_numpy_calls_stand():
    def mine(row):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sg.compile(lambda x: np.apply_along_axis(mine, 0, x))(X)


# ---- None and texts


@pytest.mark.parametrize("other", [None, "a", b"a", {}])
@pytest.mark.parametrize(
    "call",
    [lambda x, y: x + y, lambda x, y: y - x, lambda x, y: x * y, lambda x, y: y * x, np.power, lambda x, y: x < y],
)
@pytest.mark.parametrize("given", [2.0, np.float32(2), X])
def test_what_is_no_number_in_arithmetic(given, call, other):
    with pytest.raises(SymgradError) as info:
        sg.compile(lambda x: call(x, other))(given)
    assert info.value.instead and repr(other) in info.value.fact


@pytest.mark.parametrize("other", [None, "a"])
@pytest.mark.parametrize("given", [2.0, np.float64(2), np.arange(3.0)])
def test_no_number_equals_none_or_a_text(given, other):
    def f(x):
        return (x == other), (x != other), (other == x)

    for found, wanted in zip(sg.compile(f)(given), f(given), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert np.shape(found) == np.shape(wanted)


def test_integers_that_are_known_repeat_texts():
    assert sg.compile(lambda x: {"ab" * np.array(2): x})(1.0) == {"abab": 1.0}
