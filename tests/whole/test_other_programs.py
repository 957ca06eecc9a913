"""Programs in the style of other people's libraries and tutorials run as they are, and their derivatives are right."""

from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from tests.others import dynamics, fitting, idioms, learning, likelihoods, manifolds

PROGRAMS = {
    name: program
    for module in (likelihoods, dynamics, learning, manifolds, idioms)
    for name, program in module.PROGRAMS.items()
}


def runs_unchanged(f, args, order=1, **options):
    """The value is NumPy's at every level, and derivatives agree with differences."""
    expected = f(*args)
    for level in (0, 1, 2):
        found = sg.compile(f, optimize=level, **options)(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    with np.errstate(divide="ignore", invalid="ignore"):  # where a program leaves out the slope of a root at zero
        sg.check_grads(f, args, order=order)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    runs_unchanged(*PROGRAMS[name])


@pytest.mark.parametrize("name", likelihoods.CENSORED)
def test_a_mask_that_is_an_argument(name):
    """A mask that decides the number of selected values is static."""
    runs_unchanged(*likelihoods.CENSORED[name], static_argnums=3)


@pytest.mark.parametrize(("f", "start"), fitting.PROBLEMS, ids=lambda x: getattr(x, "__name__", ""))
def test_fitting_problems(f, start):
    x = np.array(start)
    runs_unchanged(f, (x,))
    step = 1e-6 * np.maximum(np.abs(x), 0.1)
    differences = [(f(x + e) - f(x - e)) / (2 * h) for e, h in zip(np.diag(step), step, strict=True)]
    found = sg.jacobian(f)(x)
    np.testing.assert_allclose(found, np.transpose(differences), rtol=1e-6, atol=1e-7 * np.abs(found).max())


@pytest.mark.parametrize("name", likelihoods.OF_SCIPY)
def test_likelihoods_with_scipy(name):
    pytest.importorskip("scipy.special")
    runs_unchanged(*likelihoods.OF_SCIPY[name])


def test_a_step_that_grows_compiles_twice():
    traced = []

    def objective(params, step):
        traced.append(step)
        return learning.vae_objective(params, step)

    slope, fixed = sg.grad(objective), [sg.grad(partial(learning.vae_objective, step=i)) for i in range(4)]
    for step in range(100):
        found, expected = slope(learning.VAE, step), fixed[step % 4](learning.VAE)
        for a, b in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
    assert len(traced) <= 2


@pytest.mark.slow
def test_rosenbrock_of_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    x, p = np.array([1.3, 0.7, 0.8, 1.9, 1.2]), np.array([0.1, -0.2, 0.3, 0.4, -0.5])
    for f in (optimize.rosen, optimize.rosen_der, optimize.rosen_hess):
        runs_unchanged(f, (x,), order=2)
    runs_unchanged(optimize.rosen_hess_prod, (x, p), order=2)
    np.testing.assert_allclose(sg.grad(optimize.rosen)(x), optimize.rosen_der(x), rtol=1e-13)
    np.testing.assert_allclose(sg.hessian(optimize.rosen)(x), optimize.rosen_hess(x), rtol=1e-13)
    np.testing.assert_allclose(sg.hvp(optimize.rosen)(x, p), optimize.rosen_hess_prod(x, p), rtol=1e-13)


def test_rosenbrock_of_many_points():
    optimize = pytest.importorskip("scipy.optimize")
    runs_unchanged(optimize.rosen, (np.linspace(0.5, 1.5, 12).reshape(4, 3),))
