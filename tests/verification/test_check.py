"""check_grads: right derivatives pass, wrong ones do not."""

import json

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError, GradientCheckError
from symgrad.frontend.conversion.turns import Iterations
from symgrad.spelling import call

X = np.array([0.3, -0.7, 1.1])


def wrong_by(relative, order=1):
    """A sine whose derivative of some order is off."""

    def planted(function, slope):
        return sg.operator(
            lambda x: function(x),
            name=f"wrong_{function.__name__}",
            infer=lambda x: x,
            vjp=lambda g, y, x: (g * slope(x),),
            spell=lambda node, x: call(f"np.{function.__name__}", [x.text]),
        )

    if order == 1:
        return planted(np.sin, lambda x: np.cos(x) * (1 + relative))
    return planted(np.sin, planted(np.cos, lambda x: -np.sin(x) * (1 + relative)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("fwd", "rev")])
def test_right_derivatives_pass(dtype, modes):
    sg.check_grads(lambda x: np.sum(np.sin(x) ** 2 * np.exp(-x)), (X.astype(dtype),), modes=modes)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: x**3, (2.0,)),
        (lambda x: x**3, (np.float32(2.0),)),
        (lambda x: np.outer(x, x), (X,)),
        (lambda p, x: {"a": np.tanh(p["w"] @ x), "b": p["s"] ** 2, "n": 3}, ({"w": np.outer(X, X), "s": 0.3}, X)),
        (lambda x, n, i: x[i] ** n, (X, 3, np.array([0, 0, 2]))),
        (sg.grad(lambda x: np.sum(x**4)), (X,)),
        (lambda x: 3 * x.astype(np.float32) ** 2, (X.astype(np.float32),)),
        (lambda x: 1e8 + np.sum(x**2), (X,)),
        (lambda x: np.ones(3), (X,)),
        (lambda x: np.linalg.inv(np.outer(x, x) + np.eye(3)), (X,)),
        (lambda *xs: xs[0] * xs[1], (X, X)),
    ],
)
def test_what_it_works_with(f, args):
    sg.check_grads(f, args)


def test_third_order():
    sg.check_grads(lambda x: np.sum(np.tanh(x) * x[0]), (X,), order=3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_wrong_by_a_thousandth_are_caught(dtype, modes, order):
    wrong = wrong_by(1e-3, order)
    with pytest.raises(GradientCheckError, match=f"order {order}"):
        sg.check_grads(lambda x: np.sum(wrong(x) * x), (X.astype(dtype),), modes=modes)
    if order == 2:
        sg.check_grads(lambda x: np.sum(wrong(x) * x), (X.astype(dtype),), order=1, modes=modes)


def test_the_error_says_which_derivative_of_what_is_wrong():
    wrong = wrong_by(0.5)

    def model(p, x):
        return np.sum(wrong(p["w"]) * x)

    with pytest.raises(AssertionError) as raised:
        sg.check_grads(model, ({"w": X}, X), modes=("rev",))
    error = raised.value
    words, _, numbers = error.fact.partition(" is ")
    assert words == "check_grads: the derivative of order 1 (rev) of model with respect to p.w"
    value, _, numeric = numbers.partition(", finite differences give ")
    assert float(value) == pytest.approx(1.5 * float(numeric))
    assert error.where.file == __file__


def test_an_error_in_one_argument_only_names_that():
    wrong = wrong_by(0.5)
    with pytest.raises(GradientCheckError, match="with respect to y is"):
        sg.check_grads(lambda x, y: np.sum(np.sin(x) * wrong(y)), (X, X))


def test_tolerances_may_be_given():
    wrong = wrong_by(1e-3)
    sg.check_grads(lambda x: np.sum(wrong(x)), (X,), atol=0.1, rtol=0.1)
    with pytest.raises(GradientCheckError):
        sg.check_grads(lambda x: np.sum(np.sin(x)), (X,), eps=0.5)


@pytest.mark.parametrize(
    ("kwargs", "error", "fact"),
    [
        ({"args": X}, ArgumentError, "args is an array"),
        ({"args": (3,)}, DTypeError, "check_grads: none of the arguments is floating"),
        ({"args": (X,), "order": 0}, ArgumentError, "order=0, modes=('fwd', 'rev')"),
        ({"args": (X,), "modes": ("forward",)}, ArgumentError, "order=2, modes=('forward',)"),
        ({"args": (X, X)}, ArgumentError, "f: too many positional arguments"),
    ],
)
def test_errors(kwargs, error, fact):
    def f(x):
        return x * 2.0

    with pytest.raises(error) as raised:
        sg.check_grads(f, **kwargs)
    assert raised.value.fact == fact


@pytest.mark.parametrize("result", [None, "text", 3])
def test_a_function_without_a_floating_result_does_not_pass(result):
    for check in (sg.check_grads, sg.compare_grads):
        with pytest.raises(DTypeError, match="<lambda> returns no floating number"):
            check(lambda x: result, (X,))


def test_results_that_are_not_finite_do_not_pass():
    with pytest.raises(GradientCheckError, match="nan") as raised, np.errstate(all="ignore"):
        sg.check_grads(lambda x: np.log(x), (X,))
    assert raised.value.instead == "Give arguments near which the function is finite."


# ---- compare_grads


def parts(p, scale=1.0):
    return scale * np.sum(np.sin(p["a"]) * p["b"]) + p["c"] ** 2


PARTS = {"a": np.array([0.1, 0.4]), "b": np.array([1.0, 3.0]), "c": 2.0}


def test_every_argument_has_a_row_for_each_order_and_combination_of_modes():
    found = sg.compare_grads(parts, (PARTS,), kwargs={"scale": 2.0})
    assert found
    assert {row.argument for row in found.rows} == {"p.a", "p.b", "p.c", "scale"}
    assert len(found.rows) == 4 * (2 + 4)
    row = next(row for row in found.rows if row.argument == "p.b" and row.modes == ("rev",))
    np.testing.assert_allclose(row.derivative, 2 * np.sin(PARTS["a"][row.at[0]]))
    assert row.error < 1e-8 and "all agree" in str(found)


def test_the_number_that_is_wrong_is_named():
    sine = wrong_by(1e-3)
    weights = np.array([0.0, 1.0, 0.0])  # so that one number alone is wrong
    found = sg.compare_grads(lambda p, c: np.sum(weights * sine(p["a"])) * c, ({"a": X}, 2.0), order=1)
    assert not found
    assert [(row.argument, row.at) for row in found.rows if not row.right] == [("p.a", (1,))] * 2
    assert "WRONG" in str(found) and "2 of 4 are wrong" in str(found)


def test_wrt_and_entries_choose_what_is_moved():
    found = sg.compare_grads(lambda x, y: np.sum(x * y**2), (np.ones(100), np.ones(100)), 1, wrt="y", entries=5)
    assert [(row.argument, row.looked_at, row.of) for row in found.rows] == [("y", 5, 100)] * 2
    with pytest.raises(ArgumentError, match="no floating argument"):
        sg.compare_grads(np.sin, (1.0,), wrt="z")
    with pytest.raises(ArgumentError, match="entries=0"):
        sg.compare_grads(np.sin, (1.0,), entries=0)


def test_what_was_found_is_plain_json():
    with np.errstate(all="ignore"):
        found = sg.compare_grads(np.sqrt, (0.0,), order=1)  # the difference is a NaN
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["right"] is False


@pytest.mark.parametrize("f", [np.sqrt, lambda x: np.where(x > 0, np.sqrt(x), 0 * np.sqrt(x))], ids=["inf", "0"])
def test_differences_that_are_not_finite_cannot_tell(f):
    """At the edge of a domain, whatever the derivative is: neither right nor wrong."""
    with np.errstate(all="ignore"):
        found = sg.compare_grads(lambda x: np.sum(f(x)), (np.array([1.0, 0.0, 4.0]),), order=1, modes=("rev",))
    assert [(row.right, row.at) for row in found.rows] == [(None, (1,))]
    assert not found and "cannot tell" in str(found) and "wrong" not in str(found).lower()
    assert str(found).endswith("1 of 1 cannot be told: differences there are not finite")


def test_a_wrong_number_counts_beside_one_that_cannot_be_told():
    sine = wrong_by(1e-3)
    with np.errstate(all="ignore"):
        found = sg.compare_grads(lambda a, b: np.sum(sine(a)) + np.sum(np.sqrt(b)), (X, np.zeros(2)), order=1)
    assert {(row.argument, row.right) for row in found.rows} == {("a", False), ("b", None)}
    assert "2 of 4 are wrong" in str(found)


def test_a_derivative_that_is_nan_beside_a_difference_is_wrong():
    nan = sg.operator(lambda x: 2.0 * x, infer=lambda x: x, vjp=lambda g, y, x: (g * np.nan,), name="nan_derivative")
    with np.errstate(all="ignore"):
        found = sg.compare_grads(lambda x: np.sum(nan(x)), (X,), order=1, modes=("rev",))
    assert [row.right for row in found.rows] == [False]


def decaying(x, steps):
    for _ in range(steps):
        x = x - 0.1 * np.sin(x)
    return x * x


@pytest.mark.parametrize("check", [sg.check_grads, sg.compare_grads])
def test_loops_are_differentiated_as_loops(check, monkeypatch):
    finished, finish = [], Iterations.finish
    monkeypatch.setattr(Iterations, "finish", lambda loop: (finished.append(loop), finish(loop))[1])
    check(decaying, (1.0, 300), order=1)
    assert finished


def test_arguments_that_are_no_tuple_are_named():
    x = np.ones(3)
    for compare in (sg.check_grads, sg.compare_grads):
        with pytest.raises(sg.errors.ArgumentError, match=r"args is .*\n(.*\n)*  Give the arguments as a tuple"):
            compare(lambda w, x: np.sum(w * x), x, x)
