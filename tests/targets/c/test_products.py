"""Products of matrices of our own: those of NumPy to rounding, in any layout, on any number of threads."""

import ctypes
import ctypes.util
import itertools
import os
from functools import cache

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c import blas, products, toolchain

pytestmark = [
    pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler"),
    pytest.mark.skipif(blas.found() is None, reason="NumPy's BLAS has other names"),
]
wide = pytest.mark.skipif(not toolchain.has_wide_vectors() or os.name == "nt", reason="no vectors of 512 bits")


@pytest.fixture(autouse=True)
def narrow_kernels(flags_of_users, monkeypatch):
    """Functions of our own multiply wherever they can, whatever kernels NumPy's BLAS has taken."""
    monkeypatch.setattr(blas, "has_wide_kernels", lambda: False)


ROW_MAJOR, AS_IS, TRANSPOSED = 101, 111, 112
EPSILON = {"float64": 1e-14, "float32": 1e-5}
rng = np.random.default_rng(0)


def multiplication(dtype, threads):
    """The function at an address, of arrays that may be transposed."""
    number = ctypes.c_double if dtype == "float64" else ctypes.c_float
    size, array = ctypes.c_int64, ctypes.c_void_p
    kinds = [*[ctypes.c_int] * 3, *[size] * 3, number, array, size, array, size, number, array, size]
    address = dict(zip(blas.KINDS, products.addresses({dtype}, threads), strict=True))[dtype]
    function = ctypes.CFUNCTYPE(None, *kinds)(address)

    def multiply(a, b):
        c = np.full((a.shape[0], b.shape[1]), np.nan, dtype)
        turned = [TRANSPOSED if x.flags.f_contiguous and not x.flags.c_contiguous else AS_IS for x in (a, b)]
        memory = [x.T if way == TRANSPOSED else x for x, way in zip((a, b), turned, strict=True)]
        (left, left_row), (right, right_row) = ((x.ctypes.data, x.shape[1]) for x in memory)
        factors = (1, left, left_row, right, right_row)
        function(ROW_MAJOR, *turned, *c.shape, b.shape[0], *factors, 0, c.ctypes.data, c.shape[1])
        return c

    return multiply


@cache
def matrix(shape, dtype, is_transposed):
    x = rng.normal(size=shape).astype(dtype)
    return np.asfortranarray(x) if is_transposed else x


def assert_close(found, a, b, dtype):
    bound = np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert found.dtype == dtype
    assert np.all(np.abs(found - a.astype(float) @ b.astype(float)) <= EPSILON[dtype] * bound)


@pytest.mark.parametrize("dtype", list(products.MODULES))
@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
def test_products_of_all_shapes_are_those_of_numpy(dtype, transposed):
    multiply = multiplication(dtype, threads=1)
    sizes = [1, 2, 7, 8, 9, 16, 17, 24, 25, 41, 260]
    for rows, columns, terms in itertools.product(sizes, sizes, [1, 3, 8, 255, 256, 257, 600]):
        a, b = matrix((rows, terms), dtype, transposed[0]), matrix((terms, columns), dtype, transposed[1])
        assert_close(multiply(a, b), a, b, dtype)


def test_large_products_are_those_of_blas():
    a, b = rng.normal(size=(1030, 1025)), rng.normal(size=(1025, 1026))
    assert_close(multiplication("float64", None)(a, b), a, b, "float64")


@wide
@pytest.mark.parametrize("shape", [(700, 10, 30), (10, 41, 3000), (500, 500, 40), (9, 9, 600), (130, 3, 7)])
def test_threads_do_not_change_a_bit(shape, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O2 -DSG_SHARED=2000")
    rows, columns, terms = shape
    a, b = rng.normal(size=(rows, terms)), rng.normal(size=(terms, columns))
    alone, shared = (multiplication("float64", threads) for threads in (1, None))
    expected = alone(a, b)
    assert_close(expected, a, b, "float64")
    assert all(np.array_equal(shared(a, b), expected) for _ in range(20))


@wide
@pytest.mark.skipif(ctypes.util.find_library("m") is None, reason="no C library")
def test_edges_raise_no_flags():
    library, multiply = ctypes.CDLL(ctypes.util.find_library("m")), multiplication("float64", threads=1)
    a, b = np.full((9, 5), np.inf), np.full((5, 11), 2.0)
    library.feclearexcept(0x3D)
    result = multiply(a, b)
    assert not library.fetestexcept(0x0D)  # invalid value, division by zero, overflow
    assert np.all(result == np.inf)


def test_products_are_those_of_blas_where_vectors_are_narrow_or_nothing_compiles(monkeypatch):
    def fails(*_):
        raise toolchain.CompilerError("no compiler", "")

    monkeypatch.setattr(products, "load", fails)
    assert products.addresses({"float64", "float32"}, None) == list(blas.found())
    monkeypatch.undo()
    for module, name, is_so in ((products, "has_wide_vectors", False), (blas, "has_wide_kernels", True)):
        monkeypatch.setattr(module, name, lambda is_so=is_so: is_so)
        assert products.addresses({"float64", "float32"}, None) == list(blas.found())
        monkeypatch.undo()


@wide
def test_one_thread_alone_multiplies_where_fewer_are_allowed_than_there_are_cores(monkeypatch):
    monkeypatch.setattr(products, "cores", lambda: 8)
    alone, shared = (products.addresses({"float64"}, threads)[0] for threads in (2, 8))
    assert alone == products.addresses({"float64"}, 1)[0] != shared == products.addresses({"float64"}, None)[0]


@pytest.mark.parametrize("dtype", list(products.MODULES))
def test_programs_multiply(dtype):
    def loss(w, x):
        return np.sum(np.tanh(x @ w) ** 2)

    w, x = rng.normal(size=(9, 12)).astype(dtype), rng.normal(size=(500, 9)).astype(dtype)
    for found, expected in zip(sg.value_and_grad(loss, target="c")(w, x), sg.value_and_grad(loss)(w, x), strict=True):
        assert np.allclose(found, expected, rtol=100 * EPSILON[dtype], atol=1000 * EPSILON[dtype])
