"""scipy.ndimage and recursive filters of scipy.signal: values against SciPy, derivatives against differences."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError
from tests.programs import check_close, check_derivatives

pytest.importorskip("scipy")
from scipy import ndimage, signal

RNG = np.random.default_rng(4)
X, IMAGE, CUBE = RNG.standard_normal(9), RNG.standard_normal((5, 6)), RNG.standard_normal((2, 3, 4))
ODD, EVEN = np.array([0.5, -1.0, 2.0]), np.array([0.5, -1.0, 2.0, 0.3])
MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]


def check(f, *args, order=2):
    check_close(f, *args)
    check_derivatives(f, *args, order=order, rtol=1e-4, atol=1e-6)


# ---- scipy.ndimage


@pytest.mark.parametrize("mode", MODES)
def test_along_one_axis(mode):
    for weights in (ODD, EVEN):
        check(lambda x, w: ndimage.correlate1d(x, w, mode=mode, cval=0.7), X, weights, order=1)
        check_close(lambda x, w=weights: ndimage.convolve1d(x, w, axis=0, mode=mode), IMAGE)
        check_close(lambda x, w=weights: ndimage.correlate1d(x, w, origin=-1, mode=mode), X)
        check_close(lambda x, w=weights: ndimage.convolve1d(x, w, origin=1, mode=mode), X)
    check_close(lambda x: ndimage.uniform_filter1d(x, 4, mode=mode), IMAGE)
    check_close(lambda x: ndimage.gaussian_filter1d(x, 2.0, mode=mode), X[:3])  # a window longer than the array


@pytest.mark.parametrize("mode", MODES)
def test_along_several_axes(mode):
    kernel = RNG.standard_normal((3, 2))
    check(lambda x, w: ndimage.correlate(x, w, mode=mode), IMAGE, kernel, order=1)
    check_close(lambda x: ndimage.convolve(x, kernel, mode=mode, origin=(0, -1), cval=1.0), IMAGE)
    check_close(lambda x: ndimage.convolve(x, kernel[:2], mode=mode), IMAGE)
    check_close(lambda x: ndimage.maximum_filter(x, 3, mode=mode), IMAGE)
    check_close(lambda x: ndimage.minimum_filter1d(x, 2, axis=0, mode=mode), IMAGE)


FILTERS = {
    "gaussian": lambda x: ndimage.gaussian_filter(x, 1.2),
    "anisotropic": lambda x: ndimage.gaussian_filter(x, (0.8, 0.0), mode=("wrap", "nearest")),
    "slope": lambda x: ndimage.gaussian_filter(x, 1.0, order=(1, 2)),
    "radius": lambda x: ndimage.gaussian_filter(x, 1.0, radius=2, truncate=3),
    "uniform": lambda x: ndimage.uniform_filter(x, (3, 2)),
    "sobel": lambda x: ndimage.sobel(x, 0),
    "prewitt": lambda x: ndimage.prewitt(x),
    "laplace": lambda x: ndimage.laplace(x, mode="wrap"),
    "gaussian_laplace": lambda x: ndimage.gaussian_laplace(x, 1.1),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name):
    check(FILTERS[name], IMAGE, order=1)
    found = sg.compile(FILTERS[name])(IMAGE.astype(np.float32))
    np.testing.assert_allclose(found, FILTERS[name](IMAGE.astype(np.float32)), rtol=1e-4, atol=1e-5)
    assert found.dtype == np.float32


def test_one_axis_of_a_cube_and_whole_numbers():
    check_close(lambda x: ndimage.gaussian_filter1d(x, 0.7, axis=1), CUBE)
    check_close(lambda x: ndimage.uniform_filter(x, 2, axes=(0, 2)), CUBE)
    whole = np.arange(20).reshape(4, 5) ** 2
    check_close(lambda x: ndimage.uniform_filter(x, 3), whole)
    check_close(lambda x: ndimage.correlate1d(x, ODD), whole)


def test_the_width_of_a_gaussian_is_an_argument():
    check(lambda x, s: ndimage.gaussian_filter1d(x, s, radius=4), X, np.float64(1.3))
    with pytest.raises(UnsupportedError, match="sigma is traced, and the size of the window depends on it"):
        sg.compile(lambda x, s: ndimage.gaussian_filter1d(x, s))(X, 1.3)


# ---- recursive filters

B, A = np.array([0.2, 0.3, -0.1]), np.array([1.3, -0.5, 0.2, 0.1])
SOS = signal.butter(3, 0.3, output="sos")


@pytest.mark.parametrize("axis", [0, -1])
def test_recursive_filters(axis):
    check(lambda b, a, x: signal.lfilter(b, a, x, axis=axis), B, A, IMAGE, order=1)
    check(lambda b, a, x: signal.lfilter(b, a, x), B[:1], A[:2], X)
    check(lambda b, a, x: signal.lfilter(b, a, x), A, B[:1], X, order=1)
    check_close(lambda x: signal.lfilter([1.0], [1, -0.5], x, axis=axis), CUBE)
    check(lambda s, x: signal.sosfilt(s, x, axis=axis), SOS, IMAGE, order=1)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_states_of_recursive_filters(n):
    zi = np.array([0.5, -1.0, 2.0])
    check(lambda b, a, x, z: signal.lfilter(b, a, x, zi=z), B, A, X[:n], zi, order=1)
    check_close(lambda x, z: signal.lfilter(B, A, x, zi=z), IMAGE[:, :n], np.tile(zi, (5, 1)))
    check_close(lambda x, z: signal.sosfilt(SOS, x, zi=z), X[:n], np.arange(2.0 * len(SOS)).reshape(-1, 2))


def test_forwards_and_backwards():
    x = RNG.standard_normal((2, 30))
    b, a = signal.butter(2, 0.2)
    for padtype in ("odd", "even", "constant", None):
        check_close(lambda x, p=padtype: signal.filtfilt(b, a, x, padtype=p), x)
        check_close(lambda x, p=padtype: signal.sosfiltfilt(SOS, x, padtype=p), x)
    check(lambda x: signal.filtfilt(b, a, x, padlen=3, axis=0), x.T[:12], order=1)
    with pytest.raises(UnsupportedError, match="filtfilt with traced coefficients is not supported"):
        sg.compile(lambda b: signal.filtfilt(b, a, x))(b)


def test_single_precision_and_whole_numbers():
    f = sg.compile(lambda x: signal.lfilter(B, A, x))
    assert f(np.arange(5)).dtype == np.float64
    np.testing.assert_allclose(f(np.arange(5)), signal.lfilter(B, A, np.arange(5)))
    narrow = sg.compile(lambda b, x: signal.lfilter(b, np.float32([1, 0.5]), x))(B.astype("f4"), X.astype("f4"))
    assert narrow.dtype == np.float32


def test_the_source_calls_scipy():
    assert "scipy.signal.lfilter(" in sg.grad(lambda x: np.sum(signal.lfilter(B, A, x) ** 2)).source("float64[n]")


# ---- images between their pixels

SAMPLED = ["constant", "grid-constant", "nearest", "mirror", "reflect", "grid-mirror", "grid-wrap"]
COORDINATES = RNG.uniform(-4, 9, (2, 30))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", SAMPLED)
def test_images_between_pixels(mode, order):
    kind = {"order": order, "mode": mode, "cval": 0.7}
    check(lambda x, c: ndimage.map_coordinates(x, c, **kind), IMAGE, COORDINATES, order=1)
    check(lambda x, by: ndimage.shift(x, by, **kind), IMAGE, np.array([0.3, -1.7]), order=1)
    check_close(lambda x: ndimage.shift(x, 7.4, **kind), IMAGE)
    check(lambda x: ndimage.zoom(x, (1.5, 0.6), **kind), IMAGE, order=1)
    check_close(lambda x: ndimage.zoom(x, 2, **kind), CUBE)


def test_float32_stays_float32_between_pixels():
    image = IMAGE.astype(np.float32)
    for f in (lambda x: ndimage.zoom(x, 2, order=1), lambda x: ndimage.map_coordinates(x, COORDINATES, order=1)):
        assert sg.compile(f)(image).dtype == f(image).dtype == np.float32


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: ndimage.zoom(x, 2), "order=3 fits splines"),
        (lambda x: ndimage.zoom(x, x[0, 0], order=1), "zoom is traced"),
        (lambda x: ndimage.zoom(x, 2, order=1, grid_mode=True), "grid_mode= is not supported"),
        (lambda x: ndimage.shift(x, 1.0, order=1, mode="wrap"), "mode='wrap' is not one of"),
        (lambda x: ndimage.rotate(x, 30.0), "scipy.ndimage.rotate is not supported"),
    ],
)
def test_what_is_refused_between_pixels(f, message):
    with pytest.raises(UnsupportedError, match=message):
        sg.trace(f, "float64[5, 6]")


# ---- convolution by Fourier transforms

PAIRS = {
    "vectors": (X, ODD, None),
    "the longer one behind": (ODD, X, None),
    "images": (IMAGE, RNG.standard_normal((3, 2)), None),
    "rows": (IMAGE, RNG.standard_normal((5, 4)), 1),
    "one row for all": (IMAGE, RNG.standard_normal((1, 4)), 1),
    "columns of one number": (IMAGE, RNG.standard_normal((3, 1)), None),
    "complex": (X + 1j, ODD, None),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution_by_transforms(name, mode):
    """Values of both functions of SciPy, which have one entry, and derivatives in one mode each."""
    x, y, axes = PAIRS[name]
    for convolve, direction in (("fftconvolve", "rev"), ("oaconvolve", "fwd")):

        def f(x, y, convolve=convolve):
            return getattr(signal, convolve)(x, y, mode, axes=axes)

        np.testing.assert_allclose(sg.compile(f)(x, y), f(x, y), rtol=1e-10, atol=1e-12)
        sg.check_grads(f, (x, y), order=1, modes=(direction,))


def test_convolution_by_transforms_of_any_length():
    f = sg.grad(lambda x, y: np.sum(signal.fftconvolve(x, y, "same") ** 3)).compile("float64[n]", "float64[3]")
    for n in (3, 8, 9):
        x = RNG.standard_normal(n)
        cubes = [np.sum(np.convolve(x + 1e-5j * e, ODD, "same") ** 3).imag for e in np.eye(n)]
        np.testing.assert_allclose(f(x, ODD), np.array(cubes) / 1e-5, rtol=1e-7, atol=1e-7)


def test_transforms_keep_float32():
    x = X.astype(np.float32)
    value = sg.compile(lambda x, y: signal.fftconvolve(x, y))(x, x)
    assert value.dtype == signal.fftconvolve(x, x).dtype == np.float32
