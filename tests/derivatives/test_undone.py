"""Pullbacks that undo writes of loops within loops: right, and without a copy of the array in each iteration."""

import numpy as np
import pytest

import symgrad as sg
from tests.nests import ALL, NONE, difference, gradient

RNG = np.random.default_rng(0)
N = 40
SQUARE = RNG.random((N, N)) + N * np.eye(N)

PROGRAMS = {}


def program(*args):
    def register(f):
        PROGRAMS[f.__name__] = f, args
        return f

    return register


@program(SQUARE + SQUARE.T, 1.0)
def cholesky(A, c):
    """Rows of whatever lengths, written by branches."""
    n = len(A)
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j] * c
            for k in range(j):
                s = s - L[i, k] * L[j, k]
            if i == j:
                L[i, i] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return np.sum(np.log(np.diag(L)))


@program(SQUARE, 1.0)
def lu(A, c):
    """A row is written by an inner loop of another length in each iteration around both."""
    A = A * c
    n = len(A)
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] = A[i, k] / A[k, k]
            for j in range(k + 1, n):
                A[i, j] = A[i, j] - A[i, k] * A[k, j]
    return np.sum(np.log(np.diag(A)))


@program(RNG.random(N), 0.5)
def time_warping(x, gamma):
    """An inner loop of one length restores what it has written."""
    n = len(x)
    D = np.full((n + 1, n + 1), 1e3)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            a, b, c = D[i - 1, j], D[i, j - 1], D[i - 1, j - 1]
            least = np.exp(-a / gamma) + np.exp(-b / gamma) + np.exp(-c / gamma)
            D[i, j] = (x[i - 1] - x[j - 1]) ** 2 - gamma * np.log(least + 1e-3)
    return D[n, n]


@program(RNG.random((N, N)), 0.2)
def gauss_seidel(u, h):
    u = u * 1.0
    for _ in range(3):
        for i in range(1, len(u) - 1):
            for j in range(1, len(u) - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) + h * np.sin(u[i, j])
    return np.sum(u * u)


@program(RNG.random((N, N)), 0.2)
def jacobi(u, h):
    """The inner loop reads the array as it was before: no version of it is there that early."""
    u = u * 1.0
    for i in range(1, len(u) - 1):
        old = u.copy()
        for j in range(1, len(u) - 1):
            u[i, j] = 0.25 * old[i - 1, j] * old[i, j - 1] + h * np.sin(old[i, j] * u[i, j - 1])
    return np.sum(u * u)


@program(RNG.random((N, N)), 0.2)
def two_arrays(u, h):
    """Both are written by one inner loop, which reads both."""
    u, v = u * 1.0, u * h
    for i in range(1, len(u)):
        for j in range(1, i):
            u[i, j] = np.sin(u[i - 1, j] * v[i, j - 1])
            v[i, j] = u[i, j] * v[j, i] + h
    return np.sum(u * v)


@program(RNG.random((N, N)), 0.2)
def beyond_the_end(u, h):
    """The last of the inner loops has no iteration, and an index that is beyond the array."""
    u = u * 1.0
    for i in range(len(u)):
        for j in range(i + 1, len(u)):
            u[i + 1, j] = np.sin(u[i, j] * u[i + 1, j - 1]) + h
    return np.sum(u * u)


@program(RNG.random((N, N)), 0.2)
def until_it_is_small(u, h):
    """The inner loop ends by a condition on what it writes."""
    u = u * 1.0
    for i in range(1, len(u)):
        j = 0
        while j < len(u) - 1 and u[i, j] > h:
            u[i, j + 1] = u[i, j + 1] * u[i, j] * u[i - 1, j]
            j += 1
    return np.sum(u * u)


@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_of_inner_loops_are_undone_rightly(name):
    f, args = PROGRAMS[name]
    value, gradients = gradient(f, 32, 2, args)
    expected, stored = gradient(f, NONE, 0, args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for g, e in zip(gradients, stored, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-9 * np.max(np.abs(e)))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("jacobi", "until_it_is_small")])
def test_inner_iterations_copy_no_array(name):
    f, args = PROGRAMS[name]
    lines = sg.value_and_grad(f, (0, 1)).source(*args).splitlines()
    inside = [line for line in lines if line.startswith(" " * (12 if name in ("lu", "gauss_seidel") else 8))]
    whole = [line for line in inside if "np.zeros((" in line or line.endswith(("A.copy()", "u.copy()", "L.copy()"))]
    assert not whole
    assert not [line for line in inside if line.endswith((".append(A)", ".append(L)", ".append(u)", ".append(D)"))]


@pytest.mark.parametrize("name", ["cholesky", "lu", "two_arrays"])
def test_second_derivatives_through_writes_that_are_undone(name):
    f, args = PROGRAMS[name]
    args = args[0][:5, :5], args[1]
    direction = np.cos(np.arange(25.0)).reshape(5, 5)
    found = []
    for few, level in ((ALL, 1), (NONE, 0)):
        slope = lambda A, c: np.sum(sg.grad(f)(A, c) * direction)
        found.append(gradient(slope, few, level, args)[1][0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_random_nests(seed):
    with np.errstate(all="ignore"):
        assert not difference(seed, seed % 3)
