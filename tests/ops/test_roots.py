"""np.roots and np.poly, the Voigt profile, and the alias of np.vstack."""

import importlib.util

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError
from tests.programs import check_close, check_derivatives

P = np.poly([1.0, -2.0, 0.5, 3.0]) * 1.7


def test_real_roots():
    check_close(lambda p: np.roots(p), P)
    check_close(lambda p: np.roots(p), np.array([2, -6, 4]))
    check_close(lambda p: np.roots(p), np.array([2.0, -6.0, 4.0, 0.0]))
    check_derivatives(lambda p: np.sort(np.roots(p)), P)
    found = sg.jacobian(lambda p: np.roots(p))(np.array([1.0, -3.0, 2.0], np.float32))
    np.testing.assert_allclose(found, [[-4, -2, -1], [1, 1, 1]], rtol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize("p", [[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]])
def test_other_roots_are_refused_where_they_are_met(p):
    f = sg.grad(lambda p: np.sum(np.roots(p)))
    with pytest.raises(ValueError, match="roots are complex, or the first coefficient is zero"):
        f(np.array(p))


def test_saved_modules_have_what_they_call(tmp_path):
    compiled = sg.grad(lambda p: np.max(np.roots(p))).compile("float64[3]")
    spec = importlib.util.spec_from_file_location("saved", compiled.save(tmp_path / "saved.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = next(x for name, x in vars(module).items() if name.endswith("_grad"))
    np.testing.assert_allclose(function(np.array([1.0, -3.0, 2.0])), [-4, -2, -1])


def test_polynomials_of_roots():
    for z in (np.array([1.0, 2.0, -0.5]), np.array([3.0]), np.array([1, 2, 2])):
        check_close(lambda z: np.poly(z), z)
    check_derivatives(lambda z: np.poly(z), np.array([1.0, 2.0, -0.5]))
    with pytest.raises(UnsupportedError, match=r"np\.poly of a matrix is not supported"):
        sg.compile(lambda a: np.poly(a))(np.eye(2))


@pytest.mark.skipif(not hasattr(np, "row_stack"), reason="gone from NumPy")
@pytest.mark.filterwarnings("ignore:`row_stack`")
def test_the_alias_of_vstack():
    np.testing.assert_array_equal(sg.compile(lambda x: np.row_stack([x, 2 * x]))(P), np.vstack([P, 2 * P]))


def test_the_voigt_profile(tmp_path):
    special = pytest.importorskip("scipy.special")
    f = lambda x, s, g: special.voigt_profile(x, s, g)
    args = np.array([0.3, -1.2, 4.0]), np.float64(0.8), np.float64(0.5)
    check_close(f, *args)
    check_derivatives(f, *args, order=2, rtol=1e-4, atol=1e-6)
    compiled = sg.grad(lambda x: np.sum(f(x, 0.8, 0.5))).compile("float64[n]")
    spec = importlib.util.spec_from_file_location("saved", compiled.save(tmp_path / "saved.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = next(x for name, x in vars(module).items() if name.endswith("_grad"))
    np.testing.assert_allclose(function(args[0]), compiled(args[0]))
