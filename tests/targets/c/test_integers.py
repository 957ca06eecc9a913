"""Unsigned integers, and those of fewer than 64 bits, in C: results wrap around as NumPy's do."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c.functions import NARROW
from tests.targets.c.test_native import is_whole

DTYPES = (*NARROW, "uint64")
rng = np.random.default_rng(0)


def drawn(dtype):
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 7, dtype, endpoint=True)
    x[:4] = info.min, info.max, 3, 1
    return x


def alone(a):
    return (
        -a, abs(a), ~a, a * a, a // 3, a % 5, (a + a) // 2, (a << 3) + (a >> 2), np.sign(a), np.square(a) > a,
        np.clip(a, 0, 9), np.max(a), np.min(a), np.argmax(a),
        np.any(a), np.tile(a, 2) + 1, a.astype(np.float32) / 7, a.astype(np.uint8),
        a.astype(np.int16) * a, np.where(a > 3, a, 2), np.outer(a, a), (a // 2).astype(np.float64).astype(a.dtype),
    )  # fmt: skip


def summed(a):
    return np.sum(a), np.sum(a, dtype=a.dtype), np.mean(a), np.prod(a[2:]), np.cumsum(a)


def together(a, b):
    return (
        a + b, a - b, a * b + a, a < b, a == b, a <= b * a, np.maximum(a, b), np.minimum(a, b) // 3, (a + b) > (b - a),
        np.where(a > b, a, b), a / 7 + b * 0.5,
    )  # fmt: skip


def bits(a, b):
    return a & b, (a | b) ^ a


def test_greatest_common_divisors():
    a = np.array([0, 12, -18, 7, -(2**63), 2**63 - 1, 5])
    assert_as_numpy(lambda a: (np.gcd(a, 12), np.gcd(a[:-1], a[1:]) * 2, np.gcd(a, a[::-1])), a)


def counted(a):
    counts = a * 0
    for k in range(40):
        counts[k % 7] += a[k % 3]
    return counts


def assert_as_numpy(f, *args, whole=True):
    run = sg.compile(f, target="c").compile(*args)
    assert is_whole(run) is whole
    with np.errstate(all="ignore"):
        results, wanted = run(*args), f(*args)
    for found, expected in zip(*((x if isinstance(x, tuple) else (x,)) for x in (results, wanted)), strict=True):
        found, expected = np.asarray(found), np.asarray(expected)
        assert found.dtype == expected.dtype
        np.testing.assert_array_max_ulp(found, expected) if found.dtype.kind == "f" else (
            np.testing.assert_array_equal(found, expected)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_wraps_around(dtype):
    assert_as_numpy(alone, drawn(dtype))
    assert_as_numpy(summed, drawn(dtype), whole=dtype != "uint64")  # whose two sums are one result
    assert_as_numpy(counted, drawn(dtype))


@pytest.mark.parametrize("other", [*DTYPES, "int64", "bool"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_dtypes(dtype, other):
    b = rng.integers(-99, 99, 7) if other == "int64" else rng.random(7) > 0.5 if other == "bool" else drawn(other)
    a = drawn(dtype)
    is_float = np.result_type(a, b).kind == "f"  # of uint64 beside signed integers, which have no bits in common
    assert_as_numpy(together, a, b, whole=not is_float)
    if not is_float:
        assert_as_numpy(bits, a, b)


def of_picture(w, places, picture):
    return np.sum(np.tanh(w[places]) * 1.5) + np.mean((picture / 255.0 - 0.5) ** 2 * w[0])


def test_places_and_pictures():
    w, places, picture = rng.normal(size=5), rng.integers(-5, 5, 40, np.int32), rng.integers(0, 256, (6, 7), np.uint8)
    run = sg.grad(of_picture, target="c").compile(w, places, picture)
    assert is_whole(run)
    np.testing.assert_allclose(run(w, places, picture), sg.grad(of_picture)(w, places, picture), rtol=1e-12)
    with pytest.raises(IndexError, match="is out of bounds for axis 0"):
        run(w, places + np.int32(7), picture)


def test_constants_wrap_around():
    f = lambda x: x + np.full(3, 300.7).astype(np.int8) + np.asarray(-1).astype(np.uint16)
    x = np.arange(3, dtype=np.int32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(sg.compile(f, target="c")(x), f(x))


def test_numbers_as_arguments():
    f = sg.compile(lambda x, k: x * k, target="c")
    for dtype in DTYPES:
        k = np.dtype(dtype).type(-1 if dtype[0] == "i" else 3)
        found = f(np.arange(3, dtype=dtype), k)
        np.testing.assert_array_equal(found, np.arange(3, dtype=dtype) * k)
        assert found.dtype == dtype


@pytest.mark.parametrize("dtype", (np.uint8, np.int16, np.uint32, np.uint64))
def test_comparisons_with_integers_that_the_dtype_does_not_have(dtype):
    """NumPy compares with Python's integers exactly."""
    z = np.array([0, 1, 3, np.iinfo(dtype).max], dtype)

    def compared(z):
        return [op(z, c) & True for op in (np.less, np.greater_equal, np.equal) for c in (-2, 3, 300, 2**40)]

    def counted(z):
        total = 0
        for k in range(-3, 4):
            total = total + np.sum(z > k)
        return total

    for found, expected in zip(sg.compile(compared, target="c")(z), compared(z), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert sg.compile(counted, target="c")(z) == counted(z)
