"""Arrays of other libraries as arguments: taken as their values, everywhere alike, or refused by name."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, SymgradError, UnsupportedError

NUMBERS = [1.0, 2.0, 3.0]


class Tensor:
    """A class like tensors of other libraries: a shape, a dtype that is not NumPy's, and values on request."""

    def __init__(self, values, error=None):
        self._values, self._error = np.array(values), error

    @property
    def shape(self):
        return self._values.shape

    dtype = "tensor.float64"

    def __array__(self, dtype=None, copy=None):
        if self._error is not None:
            raise self._error
        return self._values


class OfItsOwn(np.ndarray):
    def __mul__(self, other):
        return self @ other


def squares(x):
    return np.sum(x * x)


def pandas_series():
    return pytest.importorskip("pandas").Series(NUMBERS)


def pandas_frame():
    return pytest.importorskip("pandas").DataFrame({"a": NUMBERS, "b": [1, 2, 3]})


def nullable():
    return pytest.importorskip("pandas").Series(NUMBERS, dtype="Float64")


@pytest.mark.parametrize("make", [pandas_series, pandas_frame, nullable, lambda: Tensor(NUMBERS)])
def test_taken_as_its_values(make):
    x, traces = make(), []

    def f(x):
        traces.append(x.shape)
        return squares(x)

    values = np.asarray(x)
    wanted, slope = 2 * values, sg.grad(f)
    for _ in range(3):
        found = slope(x)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, wanted)
    assert len(traces) == 1
    np.testing.assert_array_equal(slope(values), wanted)
    assert len(traces) == 1
    program = slope.compile(x)
    np.testing.assert_array_equal(program(x), wanted)
    np.testing.assert_array_equal(program(values), wanted)
    np.testing.assert_array_equal(slope.compile(values)(x), wanted)
    np.testing.assert_array_equal(sg.grad(lambda p: squares(p["x"]))({"x": x})["x"], wanted)


def test_memory_maps(tmp_path):
    x = np.memmap(tmp_path / "x", dtype=float, mode="w+", shape=(3,))
    x[:] = NUMBERS
    np.testing.assert_array_equal(sg.grad(squares)(x), 2 * np.array(NUMBERS))


def sparse():
    return pytest.importorskip("scipy.sparse").eye_array(3)


def mixed():
    return pytest.importorskip("pandas").DataFrame({"a": NUMBERS, "b": ["x", "y", "z"]})


@pytest.mark.parametrize(
    ("make", "error", "name", "instead"),
    [
        (lambda: np.ones(3).view(np.matrix), UnsupportedError, "numpy.matrix", "Pass np.asarray(x)."),
        (lambda: np.ones(3).view(OfItsOwn), UnsupportedError, ".OfItsOwn", "Pass np.asarray(x)."),
        (
            lambda: np.ma.array(NUMBERS, mask=[0, 1, 0]),
            UnsupportedError,
            "masked array",
            "Pass x.filled(0) and the mask",
        ),
        (sparse, UnsupportedError, "scipy.dia_array", "Pass x.toarray(); or name it in static_argnames="),
        (mixed, UnsupportedError, "pandas.DataFrame of dtype ", "Pass the numbers, for example x.to_numpy(float)"),
        (
            lambda: Tensor(NUMBERS, RuntimeError("on another device")),
            ArgumentError,
            "device",
            "Pass an array of NumPy.",
        ),
    ],
)
def test_refused_by_name(make, error, name, instead):
    x = make()
    program = sg.grad(squares).compile("float64[n]")
    for call in (sg.grad(squares), sg.grad(squares).source, program):
        with pytest.raises(error) as info:
            call(x)
        assert isinstance(info.value, SymgradError)
        assert info.value.fact.startswith("x is a ") and name in info.value.fact
        assert info.value.instead.startswith(instead)


class Metres(float):
    pass


class Phase(complex):
    pass


class Doubling(float):
    def __mul__(self, other):
        return 2 * float(self) * other


@pytest.mark.parametrize("number", [Metres(2.0), Phase(1 + 2j)])
def test_numbers_of_classes_of_the_user(number):
    f = sg.compile(lambda x, p: x * p["k"] + 1)
    plain = complex(number) if isinstance(number, complex) else float(number)
    assert f(number, {"k": number}) == plain * plain + 1
    program = f.compile(plain, {"k": plain})
    assert program(number, {"k": number}) == plain * plain + 1


def test_a_number_that_computes_in_its_own_way():
    with pytest.raises(UnsupportedError, match=r"x is a \w+\.Doubling, whose arithmetic is not NumPy's"):
        sg.compile(lambda x: x * 3.0)(Doubling(2.0))
