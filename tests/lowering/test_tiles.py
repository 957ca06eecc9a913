"""Loops that run tile by tile: which ones, in what order, and what their buffers hold."""

import re
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.lowering import parallel, row_products, tiles
from symgrad.lowering.expressions import ZERO, Apply, Extent, Load, Local, Number, minus
from symgrad.lowering.parallel import with_parallel_loops
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Declare,
    Factor,
    For,
    Function,
    Multiply,
    Parallel,
    Require,
    Store,
    Tiles,
)
from symgrad.lowering.tiles import with_tiles
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from symgrad.targets.c import blas, kernels
from tests.lowering.interpret import interpret
from tests.statements import SMALL_TILES, interpreted, printed_kernels

FLOAT = np.dtype(float)
N, D = 11, 4
X, Y = Buffer("x", FLOAT, (N, D), "given"), Buffer("y", FLOAT, (N,), "result")
T, S, G = Buffer("t", FLOAT, (N,), "own"), Buffer("s", FLOAT, (N,), "own"), Buffer("g", FLOAT, (D,), "result")
WIDE = Buffer("wide", FLOAT, (N, D), "result")
I, J, SUM = Local("i"), Local("j"), Local("sum", FLOAT)
NUMBERS = np.random.default_rng(0).normal(size=(N, D))


@pytest.fixture(autouse=True)
def of_three_rows(monkeypatch):
    """Tiles of few rows, wherever loops share any."""
    for name, value in SMALL_TILES.items():
        monkeypatch.setattr(tiles, name, value)
    monkeypatch.setattr(row_products, "FEWEST", 1)


def apply(ufunc, *x):
    return Apply(TABLE[ufunc], x, FLOAT)


def over(index, stop, *body, **more):
    return For(index, Number(stop), [*body], **more)


def dots(target=T):
    """The square of each row."""
    squared = apply(np.multiply, Load(X, (I, J)), Load(X, (I, J)))
    begun, added = Declare(SUM, Number(0.0, FLOAT), mutable=True), Assign(SUM, squared, np.add)
    return over(I, N, begun, over(J, D, added, sums=[(SUM, np.add)]), Store(target, (I,), SUM))


def sines(source=T, target=S):
    return over(I, N, Store(target, (I,), apply(np.sin, Load(source, (I,)))))


def rows(source=S):
    """The sum of all rows, each times a number."""
    return over(I, N, over(J, D, Store(G, (J,), apply(np.multiply, Load(source, (I,)), Load(X, (I, J))), np.add)))


def cleared():
    return over(J, D, Store(G, (J,), Number(0.0, FLOAT)))


def copied(source=S):
    return over(I, N, Store(Y, (I,), Load(source, (I,))))


def run(body, results=(Y, G)):
    """Check that no number changes, in chunks either, and return the function with tiles."""
    make = lambda: Function("f", [X], [], results, [T, S], [*body()])
    expected = interpret(make(), [NUMBERS], {})
    after = with_tiles(make())
    for function in (after, with_parallel_loops(with_tiles(make()))):
        verify(function)
        for got, y in zip(interpret(function, [NUMBERS], {}), expected, strict=True):
            np.testing.assert_allclose(got, y, rtol=1e-14)
    return after


def shapes(function):
    return {b.name: b.shape for b in function.buffers}


def test_buffers_of_tiles_have_their_rows():
    after = run(lambda: [cleared(), dots(), sines(), rows(), copied()])
    fill, loop = after.body
    assert isinstance(loop, Tiles)
    assert [type(s) for s in loop.body] == [For] * 4
    assert {b.name for b in loop.private} == {"t", "s"}
    assert shapes(after) == {"t": (3,), "s": (3,)}
    assert not isinstance(fill, Tiles)


def test_threads_share_them(monkeypatch):
    monkeypatch.setattr(parallel, "PAYS", 0)
    _, loop = with_parallel_loops(run(lambda: [cleared(), dots(), sines(), rows(), copied()])).body
    assert isinstance(loop, Parallel)
    assert {b.name for b in loop.private} == {"t", "s"}
    assert [(b.name, combine) for b, combine in loop.sums] == [("g", np.add)]


def test_what_is_read_behind_them_has_all_rows():
    other = Local("k")
    total = lambda: over(other, N, Store(Y, (other,), Load(T, (other,))))
    after = run(lambda: [cleared(), dots(), sines(), rows(), total()])
    assert shapes(after) == {"t": (N,), "s": (3,)}
    assert isinstance(after.body[1], Tiles)


def test_what_stands_between_moves_before_or_behind():
    half, late = Local("half", FLOAT), Local("late", FLOAT)
    read = Declare(late, Load(T, (ZERO,)))  # of what the loops make
    last = Store(Y, (ZERO,), late)
    body = lambda: [dots(), Declare(half, Number(0.5, FLOAT)), read, sines(), copied(), last, cleared()]
    after = run(body)
    assert [type(s) for s in after.body] == [Declare, Tiles, Declare, Store, For]
    assert shapes(after)["t"] == (N,)


def test_a_loop_that_reads_a_finished_sum_is_not_in_the_tiles_of_it():
    total, shifted = Local("total", FLOAT), Local("shifted", FLOAT)
    begun = Declare(total, Number(0.0, FLOAT), mutable=True)
    added = lambda: over(I, N, Assign(total, Load(T, (I,)), np.add), sums=[(total, np.add)])
    less = lambda: over(I, N, Store(Y, (I,), apply(np.subtract, Load(T, (I,)), shifted)))
    body = lambda: [begun, dots(), added(), Declare(shifted, total), less()]
    after = run(body, results=(Y,))
    assert [type(s) for s in after.body] == [Declare, Tiles, Declare, For]
    assert shapes(after)["t"] == (N,)


def test_loops_that_read_other_rows_stay():
    turned = lambda: over(I, N, Store(S, (I,), Load(T, (minus(Number(N - 1), I),))))
    after = run(lambda: [dots(), turned(), copied()], results=(Y,))
    assert [type(s) for s in after.body] == [For, Tiles]
    assert shapes(after) == {"t": (N,), "s": (3,)}


def test_iterations_that_depend_on_each_other_stay():
    carried = Local("carried", FLOAT)
    halved = Assign(carried, apply(np.add, apply(np.sin, carried), Load(T, (I,))))
    chain = lambda: over(I, N, halved, Store(S, (I,), carried))
    body = lambda: [Declare(carried, Number(0.0, FLOAT), mutable=True), dots(), chain(), copied()]
    assert not any(isinstance(s, Tiles) for s in run(body, results=(Y,)).body)


def test_what_a_check_guards_comes_behind_it():
    body = [dots(), Require(Number(2), Number(3)), copied(T)]
    after = with_tiles(Function("f", [X], [], [Y], [T], body))
    assert [type(s) for s in after.body] == [For, Require, For]


def test_large_rows_and_few_of_them_stay(monkeypatch):
    monkeypatch.setattr(tiles, "LARGE", N * (D + 2) * 8 + 1)
    assert [type(s) for s in run(lambda: [dots(), copied(T)], results=(Y,)).body] == [For, For]
    monkeypatch.setattr(tiles, "LARGE", 0)
    monkeypatch.setattr(tiles, "CACHED", (D + 2) * 8 - 1)
    assert [type(s) for s in run(lambda: [dots(), copied(T)], results=(Y,)).body] == [For, For]


def test_tiles_that_spare_little_are_not_worth_their_loop(monkeypatch):
    """Tiles spare two of the ten numbers of a row that the loops read and write: those of `t`."""
    monkeypatch.setattr(tiles, "SPARED", 0.4)
    scaled = over(I, N, over(J, D, Store(WIDE, (I, J), Load(T, (I,)))))
    make = lambda: Function("f", [X], [], [WIDE], [T], [dots(), scaled])
    assert not any(isinstance(s, Tiles) for s in with_tiles(make()).body)
    monkeypatch.setattr(tiles, "SPARED", 0.1)
    assert [type(s) for s in with_tiles(make()).body] == [Tiles]


# ---- products of matrices

A, B = Buffer("a", FLOAT, (D, 3), "given"), Buffer("b", FLOAT, (N, 3), "own")
SLOPES = Buffer("slopes", FLOAT, (D, 3), "result")
WEIGHTS = np.random.default_rng(2).normal(size=(D, 3))


def forward(target=B, **more):
    return Multiply(target, ZERO, Factor(X, ZERO), Factor(A, ZERO), Number(N), Number(D), Number(3), **more)


def backward(source=B):
    return Multiply(SLOPES, ZERO, Factor(X, ZERO, True), Factor(source, ZERO), Number(D), Number(N), Number(3))


def bent(source=B, target=B):
    return over(I, N, over(J, 3, Store(target, (I, J), apply(np.sin, Load(source, (I, J))))))


def run_products(body, buffers=(B,), results=(SLOPES,)):
    make = lambda: Function("f", [X, A], [], results, buffers, [*body()])
    expected = interpret(make(), [NUMBERS, WEIGHTS], {})
    for function in (with_tiles(make()), with_parallel_loops(with_tiles(make()))):
        verify(function)
        for got, y in zip(interpret(function, [NUMBERS, WEIGHTS], {}), expected, strict=True):
            np.testing.assert_allclose(got, y, rtol=1e-14)
    return with_tiles(make())


def test_products_run_with_loops_over_their_rows(monkeypatch):
    monkeypatch.setattr(parallel, "PAYS", 0)
    after = run_products(lambda: [forward(), bent(), backward()])
    *fill, loop = after.body
    assert [type(s) for s in loop.body] == [Multiply, For, Multiply]
    assert [(s.adds, s.row) for s in loop.body if isinstance(s, Multiply)] == [(False, I), (True, I)]
    assert shapes(after) == {"b": (3, 3)}
    assert [type(s) for s in fill] == [For]  # which clears the sum
    (*_, shared) = with_parallel_loops(after).body
    assert isinstance(shared, Parallel)
    assert [(b.name, combine) for b, combine in shared.sums] == [("slopes", np.add)]


def test_products_alone_stay_whole():
    for body in ([forward(), cleared()], [forward(), copied(T)], [cleared(), forward(), backward()]):
        after = with_tiles(Function("f", [X, A], [], [G, Y, SLOPES], [B, T], [*body]))
        products = [s for s in after.body if isinstance(s, Multiply)]
        assert {(s.adds, s.row) for s in products} == {(False, None)}


def test_products_whose_other_sizes_are_unknown_or_large_stay_whole(monkeypatch):
    assert row_products.most_rows(replace(forward(), columns=Extent("m"))) == 0
    monkeypatch.setattr(row_products, "ALONE", D * 3 - 1)
    assert [type(s) for s in run_products(lambda: [forward(), bent(), backward()]).body] == [Multiply, For, Multiply]


def test_a_sum_that_another_loop_adds_to_is_not_in_its_tiles():
    more = over(I, N, over(J, 3, Store(SLOPES, (ZERO, J), Load(B, (I, J)), np.add)))
    after = run_products(lambda: [forward(), bent(), backward(), more])
    assert [type(s) for s in after.body] == [For, Tiles, For]


def test_a_product_of_other_rows_stays_whole():
    """Its rows are those from the second on, which no loop has."""
    later = Multiply(B, ZERO, Factor(X, Number(D)), Factor(A, ZERO), Number(N - 1), Number(D), Number(3))
    body = lambda: [forward(), later, bent(), backward()]
    after = run_products(body)
    assert [type(s) for s in after.body][:2] == [Multiply, Multiply]


# ---- whole programs


def logistic(w, x, y):
    return np.mean(np.logaddexp(0.0, -y * (x @ w)))


def softmax(w, x, labels):
    z = x @ w
    top = np.max(z, axis=1)
    return np.mean(top + np.log(np.sum(np.exp(z - top[:, None]), axis=1)) - z[np.arange(len(labels)), labels])


def standardised(w, x):
    z = (x - np.mean(x, axis=1, keepdims=True)) / np.std(x, axis=1, keepdims=True)
    return np.sum(np.tanh(z @ w) ** 2)


def network(w1, w2, x, y):
    return np.mean((np.tanh(np.tanh(x @ w1) @ w2) - y) ** 2)


RNG = np.random.default_rng(1)
W = RNG.normal(size=(9, 3))
LAYER = RNG.normal(size=(9, 8))
PROGRAMS = {
    "logistic": lambda n: (logistic, (W[:, 0], RNG.normal(size=(n, 9)), np.sign(RNG.normal(size=n)))),
    "softmax": lambda n: (softmax, (W, RNG.normal(size=(n, 9)), RNG.integers(0, 3, n))),
    "network": lambda n: (network, (LAYER, LAYER[:8], RNG.normal(size=(n, 9)), RNG.normal(size=(n, 8)))),
    "standardised": lambda n: (standardised, (W[:, 1], RNG.normal(size=(n, 9)))),
}


@pytest.mark.parametrize("n", [1, 3, 4, 20])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_rows(name, n, monkeypatch):
    monkeypatch.setattr(parallel, "PAYS", 0)
    monkeypatch.setattr(kernels, "_compiled", interpreted)
    f, args = PROGRAMS[name](n)
    expected = sg.value_and_grad(f, optimize=0)(*args)
    for got, y in zip(sg.value_and_grad(f, target="c")(*args), expected, strict=True):
        np.testing.assert_allclose(got, y, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_of_any_size(name, monkeypatch):
    monkeypatch.setattr(parallel, "PAYS", 0)
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O1 -DSG_WORTH=200")
    texts = printed_kernels(monkeypatch)
    f, args = PROGRAMS[name](50)
    runs = [sg.value_and_grad(f, target="c", threads=threads) for threads in (1, 3)]
    plain = sg.value_and_grad(f, optimize=0)
    for n in (50, 7, 200):
        args = PROGRAMS[name](n)[1]
        expected = plain(*args)
        found = [run(*args) for run in runs]
        for got, y in zip(found[0], expected, strict=True):
            np.testing.assert_allclose(got, y, rtol=1e-12, atol=1e-14)
        assert [np.asarray(y).tobytes() for y in found[0]] == [np.asarray(y).tobytes() for y in found[1]]
    assert re.search(r"first \+= 3\) \{\n *const int64_t last = end - first < 3 ", texts[-1])
    added = re.search(r"sg_dgemm\('T', 'N', 9, 8, last - first, .*, 1\.0, ", texts[-1])  # of the rows of a tile
    assert (added is not None) == (name == "network" and blas.found() is not None)


def test_a_label_that_is_none_is_told():
    w, x, labels = PROGRAMS["softmax"](30)[1]
    labels[17] = 3
    with pytest.raises(IndexError, match="out of bounds"):
        sg.value_and_grad(softmax, target="c")(w, x, labels)
