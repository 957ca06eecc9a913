"""scipy.spatial.distance: every metric against SciPy, with derivatives, also where two points are the same."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import UnsupportedError
from tests.programs import check_close, check_derivatives

pytest.importorskip("scipy")
from scipy.spatial import distance

RNG = np.random.default_rng(1)
A, B = RNG.uniform(0.2, 1, (4, 3)), RNG.uniform(0.2, 1, (3, 3))
WEIGHTS = np.array([0.5, 2.0, 1.0])
METRICS = """
    euclidean sqeuclidean cityblock chebyshev minkowski canberra braycurtis cosine correlation seuclidean mahalanobis
    jensenshannon hamming
""".split()
WEIGHTED = "euclidean sqeuclidean cityblock chebyshev minkowski canberra braycurtis cosine correlation hamming".split()


def check(f, *args, order=1):
    check_close(f, *args)
    check_derivatives(f, *args, order=order, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_metrics(metric):
    check(lambda a, b: distance.cdist(a, b, metric), A, B, order=2 if metric in METRICS[:5] else 1)
    if metric == "mahalanobis":
        inverse = np.linalg.inv(np.cov(np.concatenate([A, B]).T))
        check(lambda a, v: distance.pdist(a, metric, VI=v), A, inverse)
        check_close(lambda a: distance.pdist(a, metric), np.concatenate([A, B]))
    else:
        check(lambda a: distance.pdist(a, metric), A)
    found = sg.compile(lambda a: distance.pdist(a, metric))(np.concatenate([A, B]).astype(np.float32))
    assert found.dtype == np.float64


@pytest.mark.parametrize("metric", WEIGHTED)
def test_weights(metric):
    check(lambda a, b: distance.cdist(a, b, metric, w=WEIGHTS), A, B)
    check_close(lambda u, v: getattr(distance, metric)(u, v, w=WEIGHTS), A[0], A[1])
    check_close(lambda u, v: getattr(distance, metric)(u, v), A[0], A[1])


def test_parameters_of_metrics():
    check(lambda a, b, p: distance.cdist(a, b, "minkowski", p=p), A, B, np.float64(3.0))
    for p in (1, 2, 1.5):
        check_close(lambda a, b, p=p: distance.cdist(a, b, "minkowski", p=p), A, B)
    check(lambda a, v: distance.pdist(a, "seuclidean", V=v), A, WEIGHTS)
    check_close(lambda a: distance.pdist(a, distance.cityblock), A)


@pytest.mark.parametrize("metric", ["euclidean", "minkowski", "seuclidean", "mahalanobis", "jensenshannon", "canberra"])
def test_points_that_are_the_same(metric):
    x = np.array([[1.0, 2.0], [1.0, 2.0], [0.5, 3.0], [0.7, 0.4]])
    slope = sg.grad(lambda x: np.sum(distance.pdist(x, metric)))(x)
    assert np.all(np.isfinite(slope))


def test_vectors_and_matrices_of_distances():
    check(lambda a: distance.squareform(distance.pdist(a)), A)
    check(lambda d: distance.squareform(d), A @ A.T * (1 - np.eye(4)))
    with pytest.raises(ValueError, match="squareform of 4 numbers"):
        sg.compile(lambda d: distance.squareform(d))(A[:, 0])


def test_what_is_refused():
    with pytest.raises(UnsupportedError, match=r"pdist: metric='yule' is not supported"):
        sg.compile(lambda a: distance.pdist(a, "yule"))(A)
