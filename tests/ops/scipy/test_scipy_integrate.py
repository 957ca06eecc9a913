"""scipy.integrate's solve_ivp and odeint: solutions as SciPy gives them, and their derivatives."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError

pytest.importorskip("scipy")
from scipy import integrate
from scipy.integrate import solve_ivp

TIMES = np.linspace(0.5, 3, 4)
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def oscillation(k, y0):
    def slope(t, y):
        return [y[1], -k * y[0] + 0.1 * np.sin(t)]

    found = solve_ivp(slope, (0, 3), [y0, 0.0], t_eval=TIMES, **EXACT)
    return np.sum(found.y[0] ** 2) * found.success * found.t[0]


def decay(k):
    found = solve_ivp(lambda t, y: -k * y, [0, 3.0], [1.0, 2.0], **EXACT)
    return found.y[0, -1] + found.y[:, -1].sum() + found.t[-1] + found.y[1, 0]


def with_arguments(k, y0):
    slope = lambda t, y, k, c: c - k * y
    return solve_ivp(slope, (0.0, k), y0, "RK23", TIMES / 10, args=(k, 0.3), **EXACT).y[:, -1]


def of_odeint(k, y0):
    return integrate.odeint(lambda y, t, k: -k * y, y0, TIMES, args=(k,), **EXACT)[-1, 0]


def of_odeint_by_closure(k, y0):
    return integrate.odeint(lambda t, y: -k * y, [1.0, 2.0], TIMES, tfirst=True, **EXACT)[-1] * y0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "args", "mode"),
    [
        (oscillation, (2.0, 1.0), "rev"),
        (decay, (0.7,), "fwd"),
        (with_arguments, (0.7, np.array([1.0, 0.5])), "fwd"),
        (of_odeint, (0.7, 1.3), "rev"),
        (of_odeint_by_closure, (0.7, 1.3), "fwd"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_solutions_and_derivatives(f, args, mode):
    """In one mode each: all become `sg.odeint`, whose derivatives are tested in both."""
    with sg.options(check_first=False):  # it would interpret each step; SciPy tells more
        np.testing.assert_allclose(sg.compile(f)(*args), f(*args), rtol=1e-7)
        sg.check_grads(f, args, order=1, modes=(mode,), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_a_state_made_of_numbers(optimize):
    """The first number of an array of Python's numbers is no array to be indexed."""

    def f(k, y0):
        start = np.array([y0, 0.0])
        return sg.odeint(lambda y, t: np.stack([y[1], -k * y[0]]), start, np.array([0.0, 1.0]))[-1, 0]

    assert sg.compile(f, optimize=optimize)(2.0, 1.0) == pytest.approx(np.cos(np.sqrt(2)), rel=1e-6)


@pytest.mark.parametrize(
    ("use", "fact"),
    [
        (lambda f: solve_ivp(f, [0, 1], [1.0]).y.T, "the number of steps is not known before the program runs"),
        (lambda f: solve_ivp(f, [0, 1], [1.0]).y[0], "the number of steps is not known before the program runs"),
        (lambda f: len(solve_ivp(f, [0, 1], [1.0]).t), "the number of steps is not known before the program runs"),
        (lambda f: solve_ivp(f, [0, 1], [1.0], "BDF"), "method='BDF' is not supported"),
        (lambda f: solve_ivp(f, [0, 1], [1.0], events=[f]), "events= is not supported"),
    ],
)
def test_what_is_refused(use, fact):
    with pytest.raises(UnsupportedError) as caught:
        sg.compile(lambda k: use(lambda t, y: -k * y))(0.7)
    assert caught.value.fact == f"scipy.integrate.solve_ivp: {fact}"
    assert "solve_ivp.py" not in str(caught.value)
