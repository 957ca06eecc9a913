"""Arguments of public functions that are of a wrong kind: each is named in one message."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError

X = np.array([1.0, 2.0])


def f(x):
    return np.sum(np.sin(x))


def solved(**given):
    return sg.cg(lambda v: 2.0 * v, X, **given)


def cycled(**given):
    return sg.gmres(lambda v: 2.0 * v, X, **given)


def decayed(**given):
    return sg.odeint(lambda y, t: -y, 1.0, X, **given)


def rooted(**given):
    return sg.root(lambda x: x * x - 2.0, 1.0, **given)


def fixed(**given):
    return sg.fixed_point(lambda x: 0.5 * np.cos(x), 1.0, **given)


def smallest(**given):
    return sg.minimize(lambda x: np.sum((x - 1.0) ** 2), X, **given)


def summed(**given):
    return sg.scan(lambda total, x: (total + x, total), 0.0, X, **given)


def prefixes(**given):
    return sg.associative_scan(np.multiply, X, **given)


def switched(index=0, branches=(np.sin, np.cos)):
    return sg.switch(index, branches, 1.0)


def checked(**given):
    sg.check_grads(f, (X,), **given)


def compared(**given):
    return sg.compare_grads(f, (X,), **given)


def planned(axis):
    return sg.split(sg.grad(f), "float64[n]", axis=axis)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (checked, "order modes atol rtol eps"),
        (compared, "order modes atol rtol eps kwargs wrt entries"),
        (solved, "tol atol maxiter"),
        (cycled, "tol atol maxiter restart"),
        (decayed, "rtol atol mxstep"),
        (rooted, "tol maxiter"),
        (fixed, "tol maxiter"),
        (smallest, "tol maxiter"),
        (summed, "length reverse"),
        (prefixes, "reverse"),
        (switched, "index branches"),
        (planned, "axis"),
        (lambda **given: sg.vmap(np.sin, **given)(X), "axis_size"),
        (lambda **given: sg.grad(f, **given)(X), "has_aux numerics loops target optimize threads check_nan"),
        (lambda **given: sg.jacobian(np.sin, **given)(X), "mode"),
        (lambda **given: sg.jvp(f, **({"primals": (X,), "tangents": (X,)} | given)), "primals tangents"),
        (lambda **given: sg.verify("slope.py", **given), "points seed"),
        (lambda path: sg.load(path), "path"),
        (lambda path: sg.verify(path), "path"),
        (lambda path: sg.grad(f).compile(X).save(path), "path"),
    ],
)
def test_wrong_kinds_are_named(call, names):
    for name in names.split():
        for wrong in (object(), 3 + 0j, np.array([0.5, 2.5]), b"x", int):
            if name in ("atol", "rtol") and call is decayed and isinstance(wrong, np.ndarray):
                continue  # one for each number of the state
            with pytest.raises(ArgumentError, match=name):
                call(**{name: wrong})


@pytest.mark.parametrize(
    ("call", "fact", "instead"),
    [
        (lambda: checked(eps="a"), "check_grads: eps='a'", "Write a number above 0."),
        (lambda: checked(eps=0.0), "check_grads: eps=0.0", "Write a number above 0."),
        (lambda: checked(atol=float("nan")), "check_grads: atol=nan", "Write a number from 0."),
        (lambda: solved(tol=None), "sg.cg: tol=None", "Write a number from 0."),
        (lambda: decayed(rtol="a"), "sg.odeint: rtol='a'", "Write a number from 0."),
        (lambda: decayed(mxstep=[3]), "sg.odeint: mxstep=[3]", "Write a number from 0."),
        (lambda: cycled(restart=1.5), "sg.gmres: restart is 1.5, not an integer", "Write int(n)"),
        (lambda: summed(reverse="no"), "sg.scan: reverse='no' is not a boolean", "Write True or False."),
        (lambda: sg.jvp(f, X, (X,)), "jvp: primals is an array of shape (2,)", "Give a tuple, (x,) for one."),
        (lambda: sg.load(3), "sg.load: path=3", "Give the path of a file"),
    ],
)
def test_messages(call, fact, instead):
    with pytest.raises(ArgumentError, match="^" + re.escape(fact)) as caught:
        call()
    assert caught.value.fact == fact and caught.value.instead.startswith(instead)


@pytest.mark.parametrize("call", [lambda: sg.root(np.sin, ()), lambda: sg.cg(lambda v: v, [])])
def test_a_tree_without_leaves_is_no_vector(call):
    with pytest.raises(DTypeError, match="has no leaves"):
        call()


@pytest.mark.parametrize("number", [1e-9, 0, np.float32(1e-9), np.array(1e-9)])
def test_numbers_of_all_kinds_are_taken(number):
    """Whole ones, those of NumPy, and traced ones."""
    np.testing.assert_allclose(sg.compile(lambda tol: solved(tol=tol))(float(number)), X / 2)
    np.testing.assert_allclose(solved(tol=number, maxiter=10.0), X / 2)
    np.testing.assert_allclose(decayed(rtol=1e-9, atol=[1e-9])[-1], np.exp(-1.0), rtol=1e-6)
    np.testing.assert_allclose(cycled(restart=np.int64(2)), X / 2)
