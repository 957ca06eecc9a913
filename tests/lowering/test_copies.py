"""Loops that copy: one statement where that is all they do, else a part of the loop that computes."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering.copies import with_copies
from symgrad.lowering.expressions import ONE, ZERO, Load, Local, Number, minus, plus, times
from symgrad.lowering.parallel import Iterations
from symgrad.lowering.statements import Buffer, Copy, For, Function, Store
from tests.lowering.interpret import interpret
from tests.statements import printed_kernels

FLOAT = np.dtype(float)
I, J, T = Local("i"), Local("j"), Local("t")


def nest(target, at, source, source_at, **loops):
    """Loops around one copy, each with the size that it has in `loops`, from the outermost one on."""
    s = Store(Buffer("y", FLOAT, target, "result"), at, Load(Buffer("x", FLOAT, source, "given"), source_at))
    for name, stop in reversed(loops.items()):
        s = For(Local(name), Number(stop), [s])
    return s


TOGETHER = {
    "a vector": nest((5,), (I,), (5,), (I,), i=5),
    "a matrix": nest((3, 4), (I, J), (3, 4), (I, J), i=3, j=4),
    "its first rows": nest((3, 4), (I, J), (2, 4), (I, J), i=2, j=4),
    "a row": nest((4,), (J,), (3, 4), (Number(2), J), j=4),
    "a part of a row": nest((4,), (J,), (3, 4), (ONE, J), j=2),
    "an axis of one number": nest((3, 1), (I, ZERO), (1, 3), (ZERO, I), i=3),
    "numbers in another shape": nest((2, 3), (I, J), (2, 1, 3), (I, ZERO, J), i=2, j=3),
    "numbers along one axis": nest((6,), (plus(times(I, Number(3)), J),), (2, 3), (I, J), i=2, j=3),
    "rows in the middle": nest((6,), (plus(times(I, Number(3)), J),), (4, 3), (plus(I, ONE), J), i=2, j=3),
    "every one but the first": nest((4,), (I,), (5,), (plus(I, ONE),), i=4),
}
APART = {
    "a column": nest((3,), (I,), (3, 4), (I, ONE), i=3),
    "transposed": nest((4, 3), (J, I), (3, 4), (I, J), i=3, j=4),
    "parts of rows": nest((3, 2), (I, J), (3, 4), (I, J), i=3, j=2),
    "one number for all": nest((5,), (I,), (5,), (ONE,), i=5),
    "a diagonal": nest((3,), (I,), (3, 3), (I, I), i=3),
    "a row backwards": nest((3,), (I,), (3,), (minus(Number(2), I),), i=3),
    "rows that overlap": nest((4,), (plus(I, J),), (2, 3), (I, J), i=2, j=3),
    "squares": nest((9,), (times(I, I),), (3,), (I,), i=3),
}


def function(s):
    store = s
    while isinstance(store, For):
        (store,) = store.body
    return Function("f", [store.value.buffer], [], [store.buffer], [], [s])


@pytest.mark.parametrize("name", TOGETHER | APART)
def test_what_lies_together_is_one_copy(name):
    before = function((TOGETHER | APART)[name])
    (given,), (result,) = before.parameters, before.results
    x = np.arange(float(np.prod(given.shape))).reshape(given.shape)
    after = with_copies(before)
    assert any(isinstance(s, Copy) for s in after.body) == (name in TOGETHER)
    np.testing.assert_array_equal(interpret(after, [x], {})[0], interpret(before, [x], {})[0])
    assert result.shape == interpret(after, [x], {})[0].shape


def growth(x, r):
    for _ in range(30):
        x = x + r * x * (1 - x)
    return np.sum(x**2)


def test_what_iterations_carry_is_updated_where_it_is_computed(monkeypatch):
    texts = printed_kernels(monkeypatch)
    sg.value_and_grad(growth, target="c").compile("float64[n]", "float64[n]", optimize=2)
    loops = re.findall(r"    for \(int64_t step\w* = .*?\n    }\n", texts[0], re.DOTALL)
    assert len(loops) == 2
    assert all(loop.count("for (") == 2 and "memcpy" not in loop for loop in loops)


def turned(x):
    for _ in range(30):
        x = np.concatenate([x[1:], x[:1] * 0.5])
    return x


def test_what_reads_its_neighbours_is_copied_afterwards(monkeypatch):
    texts = printed_kernels(monkeypatch)
    sg.compile(turned, target="c").compile("float64[900]", optimize=2)
    (loop,) = re.findall(r"    for \(int64_t step\w* = .*?\n    }\n", texts[0], re.DOTALL)
    assert "memcpy" in loop


def read_in_a_branch(x, ks, js):
    t, s = x * 0.3, 0.1
    for i in range(len(x)):
        t[ks[i]] += x[i]
        if x[i] > 0.5:
            s = s + t[js[i]]
        t[ks[i]] = x[i] * s
    return s + np.sum(t * t)


def read_in_a_loop(x, ks, js):
    t, s = x * 0.3, 0.1
    for i in range(len(x)):
        t[ks[i]] += x[i]
        for k in range(js[i]):
            s = s * 0.5 + t[k]
        t[js[i]] = s
    return s + np.sum(t * t)


def written_in_one_branch_and_read_in_another(x, ks, js):
    t, s = x * 0.3, 0.1
    for i in range(len(x)):
        if x[i] > 0.1:
            t[js[i]] += 0.2 * s
        else:
            t[ks[i]] = t[js[i]] + 0.1
        if t[0] > s:
            s = s + t[ks[i]]
        else:
            s = s - t[js[i]]
        if s > 1.0:
            t[ks[i]] = s * 0.1
    return s + np.sum(t * t)


@pytest.mark.parametrize("f", [read_in_a_branch, read_in_a_loop, written_in_one_branch_and_read_in_another])
def test_arrays_that_branches_and_loops_read_between_writes_are_not_copied(f, monkeypatch):
    texts = printed_kernels(monkeypatch)
    made = sg.compile(f, target="c").compile("float64[n]", "int64[n]", "int64[n]")
    assert "memcpy" not in texts[-1].partition("double s = 0.1")[2]
    rng = np.random.default_rng(0)
    arguments = rng.normal(size=40), rng.integers(0, 40, 40), rng.integers(0, 40, 40)
    np.testing.assert_allclose(made(*arguments), f(*arguments), rtol=1e-12)


def rows_of(shape, at):
    """A loop over i that fills scratch memory, and copies three numbers of it into each place of a result."""
    x, spare = Buffer("x", FLOAT, (900, 3), "given"), Buffer("t", FLOAT, (3,), "own")
    filled = For(J, Number(3), [Store(spare, (J,), Load(x, (I, J)))])
    y = Buffer("y", FLOAT, shape, "result")
    copied = For(J, Number(3), [Store(y, at, Load(spare, (J,)))])
    return Function("f", [x], [], [y], [spare], [For(I, Number(900), [filled, copied])])


@pytest.mark.parametrize(
    ("shape", "at", "shared"),
    [
        ((900, 3), (I, J), True),
        ((901, 5), (plus(I, ONE), plus(J, ONE)), True),
        ((903,), (plus(I, J),), False),
        ((903, 1), (plus(I, J), ZERO), False),
    ],
)
def test_threads_share_loops_that_copy_rows(shape, at, shared):
    copying = with_copies(rows_of(shape, at))
    assert all(isinstance(s, Copy) for s in copying.body[0].body)
    marked = Iterations(copying).marked(copying.body[0])
    assert (marked is not None) == shared
    assert marked is None or [b.name for b in marked.private] == ["t"]


def convolution(x, W):
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(1, 2))
    return np.sum(np.tanh(np.einsum("nijckl,klcf->nijf", windows, W, optimize=True)))


def test_patches_are_copied_row_by_row(monkeypatch):
    texts = printed_kernels(monkeypatch)
    sg.compile(convolution, target="c").compile("float64[8, 36, 36, 3]", "float64[5, 5, 3, 8]", optimize=2)
    assert "15 * sizeof(double)" in texts[0]


def assembled(d):
    m = len(d)
    a = np.zeros((m, m))
    for i in range(m):
        a[i, i] = 1 + 2 * d[i]
        if i > 0:
            a[i, i - 1] = -d[i] * d[i - 1]
    return np.sum(a**2)


def assembled_in_a_nest(d):
    a = np.zeros((12, 12))
    for i in range(11):
        for j in range(12):
            a[i, j] += d[i] * d[j]
            if d[j] > 0.5:
                a[i + 1, j] -= d[i] * a[i, j]
    return np.sum(a**2)


def exchanged(d):
    """Rows are read and overwritten in turn."""
    a = np.outer(d, d)
    for i in range(11):
        row = a[i] * 0.5
        a[i] = a[i + 1]
        a[i + 1, 1:] -= 0.1 * row[1:]
    return np.sum(a * d)


@pytest.mark.slow
@pytest.mark.parametrize("f", [assembled, assembled_in_a_nest, exchanged])
def test_arrays_are_assigned_into_where_they_lie(f, monkeypatch):
    """Numbers of them are read before, also in derivatives, on sides of branches and in loops within loops."""
    texts = printed_kernels(monkeypatch)
    d = np.random.default_rng(0).uniform(0.2, 1.0, size=12)
    value, slope = sg.value_and_grad(f, target="c")(d)
    expected, by_numpy = sg.value_and_grad(f)(d)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(slope, by_numpy, rtol=1e-12)
    if f is not assembled_in_a_nest:  # whose derivative needs the array of each iteration
        assert not any(re.search(r"memcpy\(.*144 \* sizeof", text) for text in texts)


def test_what_reads_more_of_an_array_keeps_it(monkeypatch):
    """A slice that is computed later reads what was there before."""

    def f(d):
        a = np.outer(d, d)
        for i in range(11):
            before = a * 1.0
            a[i] = d * a[i, 0]
            a = a + 0.1 * before
        u = a[0]
        u[::-1] = u
        return np.sum(a * d) + u[0]

    printed_kernels(monkeypatch)
    d = np.random.default_rng(0).uniform(0.2, 1.0, size=12)
    np.testing.assert_allclose(sg.grad(f, target="c")(d), sg.grad(f)(d), rtol=1e-12)
