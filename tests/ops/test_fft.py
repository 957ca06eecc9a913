"""np.fft and scipy.fft: values, dtypes, derivatives, symbolic sizes, batches, and what is refused."""

import importlib.util

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tests.oracle import check_grads_in_turn

fft = pytest.importorskip("scipy.fft")

RNG = np.random.default_rng(4)
NORMS = (None, "ortho", "forward")
LENGTHS = (1, 2, 5, 6)
ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def real(*shape):
    return RNG.standard_normal(shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


def half(x):
    return x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)


def check(f, *xs, order=2, turn=None):
    """Values and dtypes in both precisions, and derivatives in both modes; second ones in turn, where one is given."""
    for given in (xs, [half(x) for x in xs]):
        value, want = sg.compile(f)(*given), f(*given)
        assert (value.shape, value.dtype) == (want.shape, want.dtype)
        tolerance = 1e-12 if given is xs else 2e-5
        np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance)
    if turn is None:
        sg.check_grads(f, xs, order=order)
    else:
        check_grads_in_turn(f, xs, turn)


# ---- along one axis


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("name", ALONG_ONE)
def test_transforms(name, n, norm):
    """Lengths are odd and even: an even half has one number more that counts once.

    Each transform, length and norm meets each pair of modes of a second derivative.
    """
    transform = getattr(np.fft, name)
    turn = ALONG_ONE.index(name) + LENGTHS.index(n) + NORMS.index(norm)
    if name in ("irfft", "hfft"):
        check(lambda x: transform(x, n, norm=norm), complex_(n // 2 + 1), turn=turn)
    else:
        of = real if name in ("rfft", "ihfft") else complex_
        check(lambda x: transform(x, norm=norm), of(2, n), turn=turn)


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft"])
def test_a_transform_of_real_numbers_has_a_real_gradient(name):
    transform = getattr(np.fft, name)
    check(lambda x: transform(x, axis=0), real(4, 2))


@pytest.mark.parametrize("n", [3, 8])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft"])
def test_another_length_cuts_numbers_off_or_puts_zeros_behind(name, n):
    transform = getattr(np.fft, name)
    check(lambda x: transform(x, n, axis=0), real(5, 2) if name == "rfft" else complex_(5, 2), order=1)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_, np.longdouble])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_dtypes_are_numpys(name, dtype):
    transform, x = getattr(np.fft, name), np.array([1, 0, 1, 1], dtype)
    value = sg.compile(lambda x: transform(x))(x)
    assert value.dtype == transform(x).dtype
    np.testing.assert_allclose(value, transform(x), rtol=1e-3)


# ---- along several axes

SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name):
    transform, of = getattr(np.fft, name), real if name.startswith("r") else complex_
    check(lambda x: transform(x), of(3, 4), order=1)
    check(lambda x: transform(x, axes=(2, 0), norm="ortho"), of(2, 2, 3), order=1)
    check(lambda x: transform(x, (2, 5), (1, 0), "forward"), of(3, 4), order=1)


@pytest.mark.parametrize("name", [*SEVERAL, "hfft2", "ihfft2", "hfftn", "ihfftn"])
def test_several_axes_of_scipy(name):
    of = real if name.startswith(("r", "ih")) else complex_
    check(lambda x: getattr(fft, name)(x, norm="ortho"), of(3, 4), order=1)
    check(lambda x: getattr(fft, name)(x, s=(2, 5), axes=(1, 0)), of(3, 4), order=1)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis_of_scipy(name):
    check(
        lambda x: getattr(fft, name)(x, 5, 0, "forward"),
        (real if name[0] == "r" or name == "ihfft" else complex_)(4, 2),
    )


# ---- cosines and sines


COSINES = ["dct", "idct", "dst", "idst"]


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", COSINES)
def test_cosines_and_sines(name, type):
    """With the scales and the ends of all kinds, at lengths that are odd, even, and the least."""
    kinds = [(None, None, 2), ("ortho", None, 5), ("forward", None, 4), ("ortho", False, 5), ("forward", True, 4)]
    turn = type + COSINES.index(name)  # for second derivatives: each type meets each pair of modes
    for norm, ends, n in kinds:

        def transform(x, norm=norm, ends=ends):
            return getattr(fft, name)(x, type, norm=norm, orthogonalize=ends)

        check(transform, real(n), order=1, turn=None if norm else turn)


@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_cosines_and_sines_along_an_axis(name):
    check(lambda x: getattr(fft, name)(x, n=3, axis=0), real(5, 2), order=1)
    check(lambda x: getattr(fft, name)(x, 3, n=6, axis=0), real(5, 2), order=1)
    check(lambda x: getattr(fft, name)(x, norm="ortho"), complex_(4), order=1)
    check(lambda x: getattr(fft, f"{name}n")(x, s=(2, 3), axes=(1, 0)), real(3, 4), order=1)


# ---- sizes, batches, blocks, source


def damped(x):
    k = np.fft.rfftfreq(x.shape[-1])
    return np.fft.irfft(np.fft.rfft(x) * np.exp(-k), x.shape[-1])


def test_one_program_for_all_lengths():
    f = sg.value_and_grad(lambda x: np.sum(damped(x) ** 3)).compile("float64[n]")
    for n in LENGTHS:
        x = real(n)
        value, slope = f(x)
        np.testing.assert_allclose(value, np.sum(damped(x) ** 3))
        moved = [np.sum(damped(x + 1e-6 * e) ** 3) - np.sum(damped(x - 1e-6 * e) ** 3) for e in np.eye(n)]
        np.testing.assert_allclose(slope, np.array(moved) / 2e-6, rtol=1e-5, atol=1e-7)


def test_frequencies_of_any_length():
    def both(x, d):
        return np.fft.fftfreq(x.shape[0], d), np.fft.rfftfreq(x.shape[0], d)

    f = sg.compile(both).compile("float64[n]", "float64[]")
    for n in LENGTHS:
        for value, want in zip(f(real(n), 0.3), both(np.zeros(n), 0.3), strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-15)
    sg.check_grads(lambda d: np.sum(np.fft.fftfreq(5, d) ** 2), (0.3,))
    assert sg.compile(lambda x: x * np.fft.fftfreq(4))(np.ones(4)).tolist() == [0, 0.25, -0.5, -0.25]


@pytest.mark.parametrize("axis", [0, 1])
def test_batches_are_transforms_of_stacks(axis):
    x = real(5, 4, 3)
    f = sg.vmap(lambda x: np.fft.fft(x, axis=axis))
    np.testing.assert_allclose(f(x), np.fft.fft(x, axis=axis + 1))
    lines = [line for line in f.source(x).program.splitlines() if "np.fft.fft(" in line and "#" not in line]
    assert len(lines) == 1
    g = sg.vmap(lambda x: fft.dct(x, axis=axis))
    np.testing.assert_allclose(g(x), fft.dct(x, axis=axis + 1))


def test_rows_run_in_blocks():
    f = sg.value_and_grad(lambda x: np.sum(damped(np.sin(x)) ** 2))
    x = real(40_000, 16)
    assert "np.fft.rfft(" in f.source(x).program.partition("def share")[2]
    np.testing.assert_allclose(f(x)[1][::5000], f(x[::5000])[1])


def test_the_source_reads_as_numpy(usual_sizes):
    source = sg.compile(lambda x: np.fft.irfft(np.fft.rfft(x, axis=0, norm="ortho"), 7, axis=0)).source("float64[7, 3]")
    assert "np.fft.irfft(np.fft.rfft(x, axis=0, norm='ortho'), 7, axis=0)" in source
    even = sg.compile(lambda x: np.fft.irfft(np.fft.rfft(x))).source("float64[8]")
    assert "np.fft.irfft(np.fft.rfft(x))" in even
    assert "scipy.fft.dct(x, 3, norm='forward')" in sg.compile(lambda x: fft.idct(x)).source("float64[8]")


def test_transforms_in_a_loop():
    def steps(x):
        for _ in range(50):
            x = damped(x) + 0.1 * x**2
        return np.sum(x)

    sg.check_grads(steps, (0.1 * real(5),))


# ---- against JAX


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="no JAX")
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_gradients_are_those_of_jax(name):
    import jax

    x = complex_(6) if name != "rfft" else real(6)

    def loss(np):
        return lambda x: np.sum(np.abs(getattr(np.fft, name)(x)) ** 3)

    with jax.enable_x64(True):
        want = jax.grad(loss(jax.numpy))(x)
    np.testing.assert_allclose(sg.grad(loss(np))(x), want, rtol=1e-10)


# ---- refused


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: np.fft.rfft(1j * x), DTypeError, "np.fft.rfft does not take complex128"),
        (lambda x: np.fft.fft(x, norm="both"), ArgumentError, "norm='both' is none of"),
        (lambda x: np.fft.fft(x, 0), ShapeError, "0 numbers to transform"),
        (lambda x: np.fft.fft(x[0]), ShapeError, "of a number"),
        (lambda x: np.fft.fft(x, axis=1), ShapeError, "axis 1 is out of bounds"),
        (lambda x: np.fft.fftn(x, (2, 2), (0,)), ShapeError, "2 sizes for 1 axes"),
        (lambda x: fft.dct(x, 5), ArgumentError, "type=5 is none of 1, 2, 3 and 4"),
        (lambda x: fft.dct(x[:1], 1), ShapeError, "of type 1: there are 1 numbers to transform"),
        (lambda x: fft.dct(1j * x, orthogonalize=True), UnsupportedError, "SciPy passes over it"),
        (lambda x: fft.fht(x, 0.1, 0.0), UnsupportedError, "scipy.fft.fht has no derivative"),
        (lambda x: np.fft.fftfreq(4, x[0], device="gpu"), UnsupportedError, "the argument device= is not supported"),
    ],
)
def test_refusals(f, error, message):
    with pytest.raises(error) as caught:
        sg.trace(f, "float64[4]")
    assert message in caught.value.fact
    assert caught.value.instead


def test_transforms_take_real_numbers_as_they_are_and_fill_buffers_of_blocks():
    def misfit(x, kernel):
        return np.sum((np.fft.ifft2(np.fft.fft2(x) * kernel).real - 1) ** 2)

    source = sg.grad(misfit).source("float64[300, 64, 64]", "complex128[64, 64]")
    lines = [line for line in source.splitlines() if "= np.fft." in line]
    assert len(lines) == 8 and all("out=s" in line and "astype" not in line for line in lines)
    args = real(300, 6, 6), complex_(6, 6)
    np.testing.assert_allclose(sg.grad(misfit)(*args), sg.grad(misfit, optimize=0)(*args), rtol=1e-11, atol=1e-11)
