"""Functions and classes of numpy.polynomial, on traced points and with traced coefficients."""

import numpy as np
import pytest
from numpy.polynomial import (
    Chebyshev,
    Hermite,
    HermiteE,
    Laguerre,
    Legendre,
    Polynomial,
    chebyshev,
    hermite,
    hermite_e,
    laguerre,
    legendre,
    polynomial,
)

import symgrad as sg
from symgrad.errors import ConcreteValueError, UnsupportedError
from tests.programs import check_close

X = np.array([0.3, -0.4, 0.8, 0.1])
FAMILIES = {
    "poly": (polynomial, Polynomial),
    "cheb": (chebyshev, Chebyshev),
    "leg": (legendre, Legendre),
    "herm": (hermite, Hermite),
    "herme": (hermite_e, HermiteE),
    "lag": (laguerre, Laguerre),
}
FUNCTIONS = {
    "val": lambda f, x: f(x, x[:3] + 1),
    "val2d": lambda f, x: f(x, 2 * x, np.outer(x, x)),
    "grid2d": lambda f, x: f(x, 2 * x, np.outer(x, x)),
    "der": lambda f, x: f(x, 2),
    "int": lambda f, x: f(x, 2, k=[x[0], x[1]], lbnd=x[2]),
    "add": lambda f, x: f(x, x[:2]),
    "mul": lambda f, x: f(x, x[:3]),
    "mulx": lambda f, x: f(x),
    "pow": lambda f, x: f(x, 2),
    "div": lambda f, x: f(x, [1.0, 2.0])[0],
    "fromroots": lambda f, x: f(x),
    "vander": lambda f, x: f(x, 2),
    "fit": lambda f, x: f(np.arange(4.0), x, 2, w=[1.0, 2.0, 3.0, 4.0]),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_functions(family, function):
    f = getattr(FAMILIES[family][0], family + function)
    check_close(lambda x: FUNCTIONS[function](f, x), X)
    sg.check_grads(lambda x: FUNCTIONS[function](f, x), (X,), order=1, modes=("rev",), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_classes(family):
    cls = FAMILIES[family][1]
    known = cls([1.0, 2.0, 3.0], domain=[0, 2])

    def f(x):
        p = cls(x) * cls([1.0, 2.0]) - 2 * cls.basis(2)
        return (
            known(x) + p.deriv()(x) + cls.fit(np.arange(4.0), x, 1)(x),
            cls(x).integ().coef,
            (cls(x) // cls([1.0, 2.0])).coef,
        )

    check_close(f, X)
    sg.check_grads(f, (X,), order=1, modes=("rev",), atol=1e-5)


@pytest.mark.parametrize("family", list(FAMILIES)[1:])
def test_changes_of_basis(family):
    for name in (f"poly2{family}", f"{family}2poly"):
        f = getattr(FAMILIES[family][0], name)
        np.testing.assert_allclose(sg.compile(f)(X), f(X))
        sg.check_grads(f, (X,), order=1, modes=("rev",))


def test_real_roots_in_order():
    check_close(lambda c: polynomial.polyroots(c), polynomial.polyfromroots([3.0, 1.0, -2.0]))


def test_a_root_by_newton():
    def root(c):
        p, x = Polynomial(c), 1.0
        while abs(p(x)) > 1e-12:
            x = x - p(x) / p.deriv()(x)
        return x

    np.testing.assert_allclose(sg.grad(root)(np.array([-2.0, 0.0, 1.0])), [-0.35355339, -0.5, -0.70710678])


def test_zeros_that_are_known_are_dropped():
    check_close(lambda x: (np.polymul([0.0, 1.0], x), polynomial.polymul(x, [1.0, 0.0])), X)


def test_what_depends_on_values_is_refused():
    with pytest.raises(UnsupportedError, match="trimcoef: the size of the result depends on values"):
        sg.grad(lambda x: np.sum(polynomial.polytrim(x)))(X)
    with pytest.raises(ConcreteValueError, match=r"polydiv: polynomial\.py"):
        sg.grad(lambda x: np.sum(polynomial.polydiv(X, x)[0]))(X[:2])
