"""scipy.spatial.transform.Rotation: rotations by traced numbers, and their derivatives."""

from types import FunctionType

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError
from tests.programs import check_close, check_derivatives

pytest.importorskip("scipy")
from scipy.spatial.transform import Rotation

if not isinstance(vars(Rotation).get("apply"), FunctionType):
    pytest.skip("the class is compiled", allow_module_level=True)

RNG = np.random.default_rng(0)
Q, V = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 3))
SEQUENCES = ["xyz", "ZYX", "zxz", "YXY", "yzx", "XZX"]


def check(f, *args, order=2):
    check_close(f, *args)
    check_derivatives(f, *args, order=order, rtol=1e-4, atol=1e-6)


MADE = {
    "quaternions": (Rotation.from_quat, Q),
    "a quaternion": (Rotation.from_quat, Q[0]),
    "vectors": (Rotation.from_rotvec, V),
    "a small vector": (Rotation.from_rotvec, V[0] * 1e-3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_forms_of_rotations(name):
    make, x = MADE[name]
    of = lambda x: getattr(Rotation, make.__name__)(x)
    for form in ("as_quat", "as_matrix", "as_rotvec", "magnitude"):
        check(lambda x, form=form: getattr(of(x), form)(), x, order=1 if form == "magnitude" else 2)
    check(lambda x, v: of(x).apply(v) + of(x).inv().apply(v[:1]) + of(x).apply(v, inverse=True), x, V)
    check_close(lambda x: of(x).as_quat(canonical=True, scalar_first=True), x)
    check_close(lambda x: of(x).as_rotvec(degrees=True), x)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_angles_of_euler(seq):
    check(lambda a: Rotation.from_euler(seq, a).as_matrix(), V, order=1)
    check(lambda q: Rotation.from_quat(q).as_euler(seq), Q, order=1)
    check_close(lambda a: Rotation.from_euler(seq, 30 * a, degrees=True).as_euler(seq, degrees=True), V[0])


def test_angles_about_one_or_two_axes():
    check_close(lambda a: Rotation.from_euler("z", a).as_matrix(), np.float64(0.3))
    check_close(lambda a: Rotation.from_euler("z", a).as_matrix(), np.array([0.3]))
    check_close(lambda a: Rotation.from_euler("Z", a).as_matrix(), np.array([[0.3], [0.4]]))
    check_close(lambda a: Rotation.from_euler("xz", a).as_matrix(), V[:, :2])
    locked = lambda a: Rotation.from_euler("xyz", [a, np.pi / 2, 0.2]).as_matrix()
    check_close(locked, np.float64(0.3))


def test_at_no_rotation():
    f = lambda v: Rotation.from_rotvec(v).apply(V[0])
    check(f, np.zeros(3))
    check(lambda v: Rotation.from_rotvec(v).as_rotvec(), np.zeros(3))


def test_products_with_constants():
    constant = Rotation.from_rotvec(V[1])
    check(lambda v: (constant * Rotation.from_rotvec(v) * constant.inv()).as_quat(), V[0], order=1)
    check(lambda v: constant.apply(v), V[0])
    check(lambda v: constant.apply(v, inverse=True), V)
    check_close(lambda v: Rotation.from_rotvec(v)[1:].as_matrix(), V)


def test_what_is_refused():
    with pytest.raises(UnsupportedError, match="from_matrix of a traced matrix is not supported"):
        sg.compile(lambda m: Rotation.from_matrix(m).as_quat())(np.eye(3))
    with pytest.raises(UnsupportedError, match="as_mrp of a traced rotation is not supported"):
        sg.compile(lambda v: Rotation.from_rotvec(v).as_mrp())(V[0])
