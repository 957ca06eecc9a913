"""Errors that Python or NumPy raises for some values: where a `try` may catch them, computing is refused."""

import math
import time
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError


def division(x):
    try:
        return 1.0 / x
    except ZeroDivisionError:
        return 5.0


def remainder(x):
    try:
        return 1.0 % (x + 0.3)
    except ArithmeticError:
        return 5.0


def negative_power(x):
    try:
        return 0.0**x
    except ZeroDivisionError:
        return 5.0


def power_that_overflows(x):
    try:
        return (x * 1e200) ** 2
    except OverflowError:
        return 5.0


def division_suppressed(x):
    y = 5.0
    with suppress(ZeroDivisionError):
        y = 1.0 / x
    return y


def logarithm(x):
    try:
        return math.log(x)
    except (ValueError, TypeError):
        return 3.0


def exponential(x):
    try:
        return math.exp(3000 * x)
    except OverflowError:
        return 3.0


def root_in_a_manager(x):
    errors = []

    @contextmanager
    def ignoring():
        try:
            yield
        except ValueError as error:
            errors.append(error)

    y = 1.0
    with ignoring():
        y = math.sqrt(x)
    return y


def root_in_a_function(x):
    def root(v):
        return math.sqrt(v)

    try:
        return root(x)
    except Exception:
        return 2.0


def cholesky(x):
    try:
        np.linalg.cholesky(np.array([[x, 0.0], [0.0, 1.0]]))
        return x
    except np.linalg.LinAlgError:
        return 3.0 * x


def floating_point(x):
    with np.errstate(all="raise"):
        try:
            return np.log(x)
        except FloatingPointError:
            return 3.0


def item(x):
    n = 1
    if x > 0:
        n = 2
    try:
        return x * [1.0, 2.0][n]
    except IndexError:
        return 5.0


def item_that_is_written(x):
    a, n = np.array([x, 1.0]), 1
    if x > 0:
        n = 2
    try:
        a[n] = 5.0
    except IndexError:
        a[0] = 9.0
    return a[0]


def item_of_what_may_be_empty(x):
    items = []
    if x < 0:
        items.append(x)
    try:
        return items[0]
    except IndexError:
        return 5.0


def largest_of_what_may_be_empty(x):
    items = []
    if x < 0:
        items.append(x)
    try:
        return max(items)
    except ValueError:
        return 5.0


def mean_of_what_may_be_empty(x):
    items = []
    if x < 0:
        items.append(x)
    try:
        return sum(items) / len(items)
    except ZeroDivisionError:
        return 5.0


def mean_of_what_may_be_none(x):
    items = []
    for v in np.array([0.2, 0.4]) * x:
        if v > 1:
            items.append(v)
    try:
        return sum(items) / len(items)  # 0 / 0 is Python's
    except ZeroDivisionError:
        return 5.0


def division_of_what_may_be_pythons(x):
    y = 1.0 if x > 0.5 else np.sin(x)
    try:
        return y / (0.0 if x > 2 else np.cos(x))
    except ZeroDivisionError:
        return 5.0


def division_in_a_loop_that_begins_in_python(x):
    y = 1.0
    for v in np.array([0.0, 0.4]) * x:
        try:
            y = 1.0 / y
        except ZeroDivisionError:
            y = 5.0
        y = y + v if v > 1 else y - 1.0
    return y


def negative_power_of_an_integer_of_numpy(x):
    try:
        return np.int64(2) ** np.array([-2, 2])[int(x > 0)] * x
    except ValueError:
        return 5.0


def shift(x):
    n = -1
    if x > 0:
        n = 2
    try:
        return x * (1 << n)
    except ValueError:
        return 5.0


def least_that_is_selected(x):
    values = x + np.array([0.1, 0.2])
    try:
        return np.min(values[values > 0.5])
    except ValueError:
        return 5.0


def largest_that_is_selected_in_a_function(x):
    def largest(values):
        return values[values > 0.5].max()

    try:
        return largest(x + np.array([0.1, 0.2]))
    except Exception:
        return 5.0


def choice(x):
    try:
        return np.choose(1 if x > 0 else -1, [x, 2.0])
    except ValueError:
        return 5.0


CAUGHT = (division, remainder, negative_power, power_that_overflows, division_suppressed, logarithm, exponential,
          root_in_a_manager, root_in_a_function, cholesky, floating_point, item, item_that_is_written,
          item_of_what_may_be_empty, largest_of_what_may_be_empty, mean_of_what_may_be_empty, shift,
          mean_of_what_may_be_none, division_of_what_may_be_pythons, division_in_a_loop_that_begins_in_python,
          negative_power_of_an_integer_of_numpy,
          least_that_is_selected, largest_that_is_selected_in_a_function, choice)  # fmt: skip


def ratio(x):
    try:
        return np.sum(x) / np.sum(x - 1)
    except ZeroDivisionError:
        return 0.0


def quotients(x):
    y = 0.0
    for i in range(4):
        try:
            y += x[i] / (i - 2) % x[0]
        except ArithmeticError:
            y += 1
    return y


def powers(x):
    y = 0.0
    for i in range(9):
        try:
            y += x[i] ** 2 + x[0] ** (i - 1) + x.astype(int)[i] // 2
        except IndexError:
            break
        finally:
            y += 0.5
    return y


@pytest.mark.parametrize("f", [ratio, quotients, powers])
def test_numbers_of_numpy_raise_nothing(f):
    """An operator of theirs warns, and gives an infinity or NaN."""
    x = np.array([0.5, 1.5, 3.0, 2.0, 1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(sg.compile(f)(x), f(x), rtol=1e-13)
        np.testing.assert_allclose(sg.compile(f)(x / x), f(x / x), rtol=1e-13)


@pytest.mark.parametrize("f", CAUGHT)
def test_errors_that_may_be_caught_are_refused(f):
    with pytest.raises(UnsupportedError, match=r"for some traced values this raises an? .*, inside of `try`"):
        sg.compile(f, check_first=False).compile(0.5)


def other_errors(x):
    try:
        y = 1.0 / x + math.log(x * x) + [1.0, 2.0][int(np.sign(x))]
    except (TypeError, KeyError, StopIteration):
        y = 3.0
    return y


def numbers_that_are_known(x):
    try:
        y = x / 2 + x // 2.0 + x % 3 + (2 << 3) + [1.0, 2.0][1] + math.log(2.0)
    except Exception:
        y = 3.0
    return y


def functions_with_a_value_everywhere(x):
    try:
        y = math.sin(x) + math.atan2(x, 2.0) + np.log(x) + np.sqrt(x) + x * 1e300
    except (ValueError, ArithmeticError):
        y = 3.0
    return y


def handler_and_else(x):
    try:
        y = [][1]
    except IndexError:
        y = 1.0 / x
    else:
        y = math.sqrt(x)
    return y + math.exp(x) / x


def arrays(x):
    try:
        y = np.sum(1.0 / np.array([x, 2.0])) + np.sum(np.array([x, 3.0]) ** -2.0)
    except ZeroDivisionError:
        y = 3.0
    return y


def selected(x):
    values = x + np.array([0.1, 0.2])
    try:
        y = np.min(values[values > 0]) + np.sum(values[values > 5.0])
    except IndexError:
        y = 3.0
    return y


RIGHT = (selected, other_errors, numbers_that_are_known, functions_with_a_value_everywhere, handler_and_else, arrays)


@pytest.mark.parametrize("f", RIGHT)
def test_what_no_handler_catches_is_computed(f):
    program = sg.compile(f, check_first=False).compile(0.5)
    with np.errstate(invalid="ignore"):
        for x in (0.3, 0.5):
            assert program(x) == pytest.approx(f(x), rel=1e-13)
            assert sg.grad(f)(x) == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-5)


# ---- context managers


@contextmanager
def timed():
    start = time.perf_counter()
    try:
        yield
    finally:
        assert time.perf_counter() >= start


@contextmanager
def quiet():
    try:
        yield
    except ZeroDivisionError:
        print("divided by zero")


class Entered:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.left = True


class Suppressing(Entered):
    def __exit__(self, kind, *_):
        return kind is ZeroDivisionError


@pytest.mark.parametrize(
    "manager", [timed, Entered, partial(sg.options, threads=1), partial(np.errstate, all="ignore")]
)
def test_a_context_manager_that_handles_no_error_is_none_of_these(manager):
    def f(x):
        with manager():
            return 1 / x

    assert sg.grad(f)(0.5) == -4.0


class SuppressingInOneLine(Entered):
    __exit__ = lambda self, *_: True


@contextmanager
def leaving():
    try:
        yield
    finally:
        return  # noqa: B012


HANDLING = (quiet, Suppressing, SuppressingInOneLine, leaving, partial(suppress, ZeroDivisionError))


@pytest.mark.parametrize("manager", HANDLING)
def test_a_context_manager_that_may_handle_an_error_is_refused(manager):
    def f(x):
        with manager():
            return 1 / x
        return 3.0

    with pytest.raises(UnsupportedError, match="this raises a ZeroDivisionError"):
        sg.compile(f).compile(0.5)


def test_choices_are_counted_from_zero():
    compiled = sg.compile(lambda k, x: np.choose(k, [x, 2 * x]))
    assert [compiled(k, np.float64(3.0)) for k in (np.int64(0), np.int64(1))] == [3.0, 6.0]
    with pytest.raises(IndexError):
        compiled(np.int64(-1), np.float64(3.0))
