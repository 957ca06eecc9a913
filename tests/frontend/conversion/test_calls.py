"""Python's and NumPy's types as functions, `type`, `isinstance`, and methods of constants, with traced arguments."""

import numbers

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ConcreteValueError, WriteError
from tests.programs import check_close, check_derivatives

X = np.array([1.5, 2.4, 0.6])
MATRIX, ROW, STEPS = np.arange(6.0).reshape(2, 3), np.array([3.1, 1.2, 1.3]), np.array([0.0, 1.0, 2.0])


def same_as_numpy(f, *args):
    """Value, its dtype and its kind of number: what is weak in NumPy does not widen single precision."""
    for narrow in (False, True):
        given = [
            np.asarray(x, np.float32)[()] if narrow and isinstance(x, (np.ndarray, np.floating)) else x for x in args
        ]
        want, found = f(*given), sg.compile(f)(*given)
        np.testing.assert_allclose(found, want, rtol=1e-6)
        assert np.asarray(found).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(found * np.float32(2), want * np.float32(2))
        assert (found * np.float32(2)).dtype == (want * np.float32(2)).dtype


# ---- types as functions


def to_float(x):
    return float(x[0]) * 2


def to_float64(x):
    return np.float64(x[0]) * np.float64([x[1], 2.0])


def to_array_of_float64(x):
    return np.float64(x)


def floor_as_int(x):
    return int(np.floor(x[0])) + int(np.sum(x > 1)) * x[1]


def rounded(x):
    return round(x[1]) * x[0] + round(x[1] / 3, 2)


def as_item(x):
    return x.sum().item() * x[0] + x.item(1) + x[:1].item()


def builtins_of_numbers(x):
    quotient, rest = divmod(x[1], x[2] + 0.1)
    return abs(-x[0]) + pow(x[0], 2) + pow(2, x[1]) + quotient * rest


CASTS = [to_float, to_float64, to_array_of_float64, floor_as_int, rounded, as_item, builtins_of_numbers]


@pytest.mark.parametrize("f", CASTS, ids=lambda f: f.__name__)
def test_casts_are_identities(f):
    same_as_numpy(f, X)
    check_derivatives(_traced_as_users(f), X)


def _traced_as_users(f):
    """Converted, which the oracle does not do."""
    from symgrad.frontend.conversion.runtime import converted

    return lambda x: converted(f)(x)


def test_an_integral_number_is_an_index_and_a_number_of_turns():
    def f(x):
        k = int(np.floor(x[0])) + 1
        total = ROW[k] * x[1]
        for _ in range(int(np.rint(x[1]))):
            total = total * x[0]
        return total

    assert sg.grad(f)(X) == pytest.approx([2 * 1.3 * 2.4 * 1.5, 1.3 * 1.5**2, 0.0])


def test_a_number_with_a_fraction_is_no_integer():
    def f(x):
        return int(x[0] * 2) * x[1]

    with pytest.raises(ConcreteValueError, match=r"int\(\) needs the value(?s:.*)Write np.floor\(x\) or np.trunc\(x\)"):
        sg.compile(f)(X)


# ---- what a value is


def is_an_array(x):
    return x * 2 if type(x) is np.ndarray else x[0]


def is_a_sequence(x):
    return x * 2 if type(x) in (list, np.ndarray) and type(x[0]) not in (list, np.ndarray) else x[0]


def numbers_are_no_arrays(x):
    return 1.0 if isinstance(x[0], np.ndarray) else 2 * x[0]


def numbers_are_numbers(x):
    kinds = (float, np.floating, numbers.Number)
    return sum(2.0**i for i, kind in enumerate(kinds) if isinstance(x[0], kind)) + (type(x[0]) is np.float64)


def sums_are_scalars(x):
    return x * (type(x.sum()) is type(x[0])) * (type(float(x[0])) is float) * (type(x.shape[0]) is int)


@pytest.mark.parametrize(
    "f", [is_an_array, is_a_sequence, numbers_are_no_arrays, numbers_are_numbers, sums_are_scalars]
)
def test_types_are_those_of_numpy(f):
    np.testing.assert_array_equal(sg.compile(f)(X), f(X))
    assert sg.compile(f).compile("float64[n]")(X) == pytest.approx(f(X))


# ---- methods of constants


METHODS = {
    "dot": lambda x: MATRIX.dot(x),
    "dot of a matrix": lambda x: MATRIX.T.dot(np.outer(x[:2], x)),
    "matmul": lambda x: MATRIX.__matmul__(x),
    "clip": lambda x: ROW.clip(x, 2 * x),
    "clip by name": lambda x: ROW.clip(min=x),
    "choose": lambda x: np.array([0, 1, 0]).choose([x, 2 * x]),
    "repeat": lambda x: ROW.repeat(2).dot(np.append(x, x)),
}  # fmt: skip
PLACES = {
    "searchsorted": lambda x: STEPS.searchsorted(x) * x,
    "take": lambda x: ROW.take(np.floor(x).astype(int)) * x,
    "compress": lambda x: ROW.sum(where=x > 1) * x,
}


@pytest.mark.parametrize("name", METHODS | PLACES)
def test_methods_of_constants(name):
    f = (METHODS | PLACES)[name]
    np.testing.assert_allclose(sg.compile(f)(X), f(X))
    check_close(_traced_as_users(f), X)
    check_derivatives(_traced_as_users(f), X)


def test_constants_of_instances_and_closures():
    class Model:
        weights = MATRIX

        def __init__(self):
            self.scale = ROW

        def __call__(self, x):
            return self.weights.dot(x).dot(self.weights.dot(self.scale.clip(x)))

    local = MATRIX * 2
    model = Model()
    check_derivatives(_traced_as_users(lambda x: model(x) + local.dot(x).sum()), X)


def test_a_constant_is_not_written_into():
    def f(x):
        ROW.fill(x[0])
        return ROW.sum()

    with pytest.raises(WriteError, match="would be written into an array that exists before the program runs"):
        sg.compile(f)(X)


# ---- what Numba has compiled


class Dispatcher:
    """A stand-in for the result of ``numba.njit``."""

    __module__ = "numba.core.registry"

    def __init__(self, function):
        self.py_func = self.__wrapped__ = function

    def __call__(self, *args):
        return self.compiled(*map(float, args))

    def compiled(self, x, y):
        return self.py_func(x, y)


@Dispatcher
def by_numba(x, y):
    while x < y:
        x = x * 2
    return x


class ElementwiseDispatcher(Dispatcher):
    """A function that ``numba.vectorize`` has compiled."""

    def __init__(self, function):
        self._dispatcher, self.__name__ = Dispatcher(function), function.__name__

    def __call__(self, *args):
        for x in args:
            if hasattr(type(x), "__array_ufunc__") and not isinstance(x, (np.ndarray, np.generic)):
                return x.__array_ufunc__(self, "__call__", *args)
        return np.vectorize(self._dispatcher.py_func, otypes=[float])(*args)


@ElementwiseDispatcher
def weighted(x, y):
    if x > y:
        return x * x * y
    return y


def test_ufuncs_that_numba_has_compiled():
    def f(x, y):
        return np.sum(weighted(x, y)) * weighted(1.0, 2.0)

    x, y = np.array([1.0, 3.0]), 2.0
    value, (d_x, d_y) = sg.value_and_grad(f, argnums=(0, 1))(x, y)
    assert value == f(x, y) == 40.0
    np.testing.assert_allclose(d_x, [0.0, 24.0])
    assert d_y == 20.0
    np.testing.assert_allclose(sg.grad(lambda x: np.sum(np.vectorize(weighted)(x, 2.0)))(x), [0.0, 12.0])


def scaled_for(kind, x, twice):
    if kind == "exponential":
        return np.exp(x) * (2 if twice else 1)
    return x


def test_vectorize_passes_texts_and_flags_on():
    def f(x):
        return np.sum(np.vectorize(scaled_for)(np.array("exponential"), x, twice=True))

    x = np.array([0.5, 1.5])
    value, slope = sg.value_and_grad(f)(x)
    assert value == pytest.approx(f(x))
    np.testing.assert_allclose(slope, 2 * np.exp(x))


def test_functions_that_numba_has_compiled():
    def f(x, y):
        return by_numba(x, y) ** 2

    assert sg.grad(f)(0.3, 2.0) == pytest.approx(2 * 2.4 * 8)
    assert sg.grad(by_numba)(0.3, 2.0) == 8.0


def of_the_larger(x):
    a = np.where(x > 5, -1.0, x)  # an array of no dimensions
    b = max(a, x)
    b -= 1.0
    return a + b


def of_the_smallest(x):
    a = np.where(x > 5, -1.0, x)
    b = sorted([a, x])[0]
    b -= 1.0
    return a + b


@pytest.mark.parametrize("f", [of_the_larger, of_the_smallest])
def test_one_of_several_arrays_is_that_array(f):
    """In Python it is written into under both names."""
    assert f(0.5) == -1.0
    with pytest.raises(sg.errors.WriteError, match="another name to the one that"):
        sg.compile(f, check_first=False)(0.5)
