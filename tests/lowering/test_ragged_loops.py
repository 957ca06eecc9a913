"""Loops whose arrays shrink or grow with the index are statements as a whole, and compute what NumPy does."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import evaluate
from symgrad.errors import GraphError
from symgrad.lowering.expressions import Extent, Load, Local, Number
from symgrad.lowering.ragged import largest_extent
from symgrad.lowering.statements import Buffer, For, Function, Store
from symgrad.lowering.verify import verify
from symgrad.targets.c import blas, kernels
from tests.statements import interpreted

rng = np.random.default_rng(8)
ROWS = 5


@pytest.fixture
def by_statements(monkeypatch):
    """Kernels interpret their statements: no compiler is needed."""
    monkeypatch.setattr(kernels, "_compiled", interpreted)


def pascal(x):
    for _ in range(len(x) - 1):
        x = np.sin(x[1:]) * x[:-1]
    return x[0]


def growing(x):
    c = x[:1] * 1.0
    for i in range(len(x)):
        c = np.concatenate([c, np.zeros(1)]) * x[i] + np.concatenate([np.zeros(1), c])
    return np.sum(c * c)


def casteljau(p):
    """Control points, which are rows."""
    for _ in range(len(p) - 1):
        p = 0.3 * p[:-1] + 0.7 * np.tanh(p[1:])
    return np.sum(p * p)


def neville(x):
    p, n = np.cos(x), len(x)
    for k in range(1, n):
        p = ((0.4 - x[k:]) * p[:-1] - (0.4 - x[: n - k]) * p[1:]) / (x[: n - k] - x[k:])
    return p[0]


def newton(x):
    d, n, w = np.sin(x), len(x), 1.0
    value = d[0]
    for k in range(1, n):
        d = (d[1:] - d[:-1]) / (x[k:] - x[: n - k])
        w = w * (0.4 - x[k - 1])
        value = value + d[0] * w
    return value


def substitution(a):
    n = len(a)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (1 - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return np.sum(np.sin(x))


def schur(a):
    """A matrix that loses a row and a column with each pivot."""
    total = 0.0
    for _ in range(len(a) - 1):
        total = total + np.log(a[0, 0])
        a = a[1:, 1:] - a[1:, :1] * a[:1, 1:] / a[0, 0]
    return total + np.log(a[0, 0])


def relaxed(a):
    """Matrices of a size that differs between iterations, carried by a loop inside."""
    total, n = 0.0, len(a)
    for i in range(n):
        b = a[i:, i:] * 0.1
        for _ in range(3):
            b = np.tanh(b + 0.1 * b.T)
        total = total + np.sum(b)
    return total


def durbin(x):
    n = len(x) - 1
    a, e = np.zeros(n), 3 + x[0]
    for k in range(n):
        reflection = (x[k + 1] - np.dot(a[:k], x[k:0:-1])) / e
        old = a[:k].copy()
        a[:k] = old - reflection * old[::-1]
        a[k] = reflection
        e = e * (1 - reflection * reflection)
    return e + np.sum(a)


def again(x):
    """A shrinking array in a loop inside: its residuals are rows of what the loop outside stacks."""
    total = 0.0
    for i in range(4):
        y = x * (1 + 0.1 * i)
        for _ in range(len(x) - 1):
            y = np.sin(y[1:] + y[:-1])
        total = total + y[0]
    return total


def until(x):
    total, n = 0.0, len(x)
    for i in range(n):
        total = total + np.sum(np.sin(x[i:]) * x[: n - i])
        if total > 1.5:
            break
    return total * total


def either(x):
    c = x[1]
    for _ in range(len(x) - 1):
        x = np.sin(x[1:]) * c if c > 0.5 else x[:-1] * x[1:]
        c = c + 0.1 * x[0]
    return x[0] + c


X = np.arange(ROWS) * 0.3 + 0.2 * rng.random(ROWS) + 0.1
A = rng.random((ROWS, ROWS)) * 0.3 + 2 * np.eye(ROWS)
PROGRAMS = {
    **{f.__name__: (f, X) for f in (pascal, growing, neville, newton, durbin, again, until, either)},
    **{f.__name__: (f, A) for f in (casteljau, substitution, schur, relaxed)},
}


def in_c(make, f, x, spec, **how):
    """Return what statements compute, of which nothing is left to NumPy."""
    compiled = make(f, loops=3, target="c", **how).compile(spec)
    assert " in range(" not in compiled.source
    return compiled(x)


def symbolic(f, x):
    """Return a spec of symbols, unless the function asks for their numbers."""
    return x if f is growing else f"float64[{', '.join('n' * x.ndim)}]"


@pytest.mark.parametrize("spec", [lambda f, x: x, symbolic], ids=["known", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name, spec, by_statements):
    """At level 1 or 2 in turn: each program at one of known sizes, and at the other of symbols."""
    f, x = PROGRAMS[name]
    expected = sg.value_and_grad(f, loops=3, target="numpy")(x)
    level = 1 + ([*PROGRAMS].index(name) + (spec is symbolic)) % 2
    value, slope = in_c(sg.value_and_grad, f, x, spec(f, x), optimize=level)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pascal", "growing", "neville", "durbin", "again", "until", "either"])
def test_second_derivatives(name, by_statements):
    f, x = PROGRAMS[name]
    expected = sg.hessian(f, loops=3, target="numpy")(x)
    np.testing.assert_allclose(in_c(sg.hessian, f, x, symbolic(f, x)), expected, rtol=1e-9, atol=1e-11)


def test_what_blas_multiplies_stays_in_numpy(by_statements):
    """BLAS reads matrices without room behind their rows."""

    def products(a):
        total = 0.0
        for i in range(len(a)):
            total = total + np.sum(np.tanh(a[i:, i:] @ (a[i:, i:] + 1)))
        return total

    x = rng.random((20, 20)) * 0.1
    compiled = sg.grad(products, loops=3, target="c").compile(x)
    assert (" in range(" in compiled.source) == (blas.found() is not None)
    np.testing.assert_allclose(compiled(x), sg.grad(products, loops="unroll")(x), rtol=1e-12)


def test_names_that_c_takes(by_statements):
    def f(x):
        total = 0.0
        for double in range(len(x)):
            total = total + np.sum(np.sin(x[double:]))
        return total

    compiled = sg.grad(f, loops=3, target="c").compile("float64[n]")
    np.testing.assert_allclose(compiled(X), np.cos(X) * np.arange(1, ROWS + 1), rtol=1e-13)


def test_slices_from_the_end(by_statements):
    def f(x):
        total = 0.0
        for i in range(len(x) - 1):
            total = total + np.sum(x[-1 - i :] ** 2) + np.sum(np.sin(x[i + 1 :: -1])) + x[-1 - i] * x[i]
        return total

    expected = sg.grad(f, loops="unroll", target="numpy")(X)
    np.testing.assert_allclose(in_c(sg.grad, f, X, "float64[n]"), expected, rtol=1e-13)


@pytest.mark.slow
def test_a_carry_is_assigned_into_where_it_lies(by_statements):
    """Everything that reads the carry comes first; chains of assignments stay in their order."""

    def f(x):
        y, z = x * 1.0, x * 0.5
        for t in range(6):
            first, total = y[0] * z[1], np.sum(y)
            new = np.sin(y[1:] + z[:-1])
            y[:-1] = new * total
            y[1:] += z[1:] * first
            y[2] = first
            z[t % 3] = total
            z[1:] *= 0.5
        return np.sum(y * z)

    x = np.linspace(0.2, 0.9, 5)
    for make in (sg.value_and_grad, sg.hessian):
        expected = make(f, loops="unroll", target="numpy")(x)
        found = in_c(make, f, x, "float64[n]" if make is sg.hessian else x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_no_array_is_copied_for_one_number(by_statements):
    def f(x):
        y = np.zeros(len(x))
        for t in range(len(x) - 1):
            y[t + 1] = np.sin(y[t] + x[t])
        return np.sum(y)

    compiled = sg.compile(f, loops=3, target="c").compile("float64[n]")
    loop = str(compiled.statements()).split("    for t in range(n - 1):")[1].split("\n    #")[0]
    assert "for i in" not in loop and "copy" not in loop
    np.testing.assert_allclose(compiled(X), f(X), rtol=1e-13)


# ---- largest extents


def test_the_largest_extent():
    sizes = Sizes()
    n = sizes.symbol("n")
    i = sizes.place("i", n - 1)
    j = sizes.place("j", i + 1)
    lengths = {"i": n - 1, "j": i + 1}
    for size, most in [
        (n - i, "n"),
        (i + 1, "n - 1"),
        (i - j, "max(0, n - 2)"),
        (n - i - j, "n"),
        (2 * n - 3 * i + j, "2 * n"),
        (i // 2, "max(0, n // 2 - 1)"),
        (i % 3, "2"),
    ]:
        found = largest_extent(size, lengths)
        assert str(found) == most, size
        values = [{"n": 9, "i": a, "j": b} for a in range(8) for b in range(a + 1)]
        assert max(evaluate(size, each) for each in values) <= evaluate(found, {"n": 9})
    assert largest_extent(n, {}) is n
    assert largest_extent(7, {}) == 7


def test_extents_without_a_bound():
    sizes = Sizes()
    n = sizes.symbol("n")
    i = sizes.place("i", None)
    assert largest_extent(i + 1, {"i": None}) is None
    assert str(largest_extent(n - i, {"i": None})) == "n"
    assert largest_extent(n - i, {}) is None


def test_the_verifier_knows_the_symbols_of_extents():
    given, made = (Buffer(name, np.dtype(float), (3,), kind) for name, kind in (("x", "given"), ("y", "result")))
    i, t = Local("i"), Local("t")
    inner = For(i, Extent("3 - t"), [Store(made, (i,), Load(given, (i,)))])
    verify(Function("f", [given], [], [made], [], [For(t, Number(3), [inner])]))
    with pytest.raises(GraphError, match="t is not declared"):
        verify(Function("f", [given], [], [made], [], [inner]))
