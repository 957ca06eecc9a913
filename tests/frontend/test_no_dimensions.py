"""Scalars and arrays of no dimensions: what a function gives of one is written into, and the first one read again."""

import numpy as np
import pytest

import symgrad as sg

MAKERS = {
    "scalar": lambda x: np.sum(x),
    "element": lambda x: x[0],
    "array": lambda x: np.array(np.sum(x)),
    "array of a float32": lambda x: np.array(np.sum(x), dtype=np.float32),
    "asarray": lambda x: np.asarray(np.sum(x)),
    "copy": lambda x: np.copy(x[0]),
    "where": lambda x: np.where(x[0] > 0, x[0], 0.0),
    "full": lambda x: np.full((), x[0]),
}
USERS = {
    "itself": lambda v: v,
    "squeeze": lambda v: np.squeeze(v),
    "squeezed": lambda v: v.squeeze(),
    "transpose": lambda v: np.transpose(v),
    "reshape": lambda v: np.reshape(v, ()),
    "ellipsis": lambda v: v[...],
    "new axis": lambda v: v[None],
    "ellipsis and new axis": lambda v: v[..., None],
    "asarray": lambda v: np.asarray(v),
    "atleast_1d": lambda v: np.atleast_1d(v),
    "ravel": lambda v: np.ravel(v),
    "flip": lambda v: np.flip(v),
    "real": lambda v: np.real(v),
    "expand_dims": lambda v: np.expand_dims(v, 0),
    "array": lambda v: np.array(v),
    "astype": lambda v: v.astype(v.dtype, copy=False),
    "flatten": lambda v: v.flatten(),
    "roll": lambda v: np.roll(v, 0),
    "clip": lambda v: np.clip(v, -1, 1),
    "cumsum": lambda v: np.cumsum(v),
    "squeezed, with a new axis": lambda v: np.squeeze(v)[None],
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_writes_reach_what_they_reach_in_numpy(maker, user):
    def f(x):
        v = MAKERS[maker](x)
        w = USERS[user](v)
        w[...] = 5.0
        return v * 1.0, w * 1.0

    x = np.array([0.25, 0.75])
    try:
        expected = f(x)
    except TypeError:
        pytest.skip("NumPy gives a scalar")
    for got, y in zip(sg.compile(f)(x), expected, strict=True):
        np.testing.assert_array_equal(got, y)
