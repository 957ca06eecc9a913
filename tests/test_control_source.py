"""Branches and loops in generated source: random programs, and what a reader sees."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree

# ---- random programs


class Maker:
    """Makes programs of vectors, numbers, loops and branches at random: as functions of a list of vectors."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def expression(self):
        """A function from vectors to a vector."""
        i, j = self.rng.integers(0, 9, 2)
        return self.pick([
            lambda xs: np.sin(xs[i % len(xs)]) + xs[j % len(xs)],
            lambda xs: 0.5 * xs[i % len(xs)] - xs[j % len(xs)] * 0.25,
            lambda xs: np.tanh(xs[i % len(xs)] * xs[j % len(xs)]),
            lambda xs: xs[i % len(xs)],
            lambda xs: np.ones(3) * 0.5,
            lambda xs: _assigned(xs[i % len(xs)], j % 3, xs[j % len(xs)][0]),
            lambda xs: xs[i % len(xs)][::-1],
        ])  # fmt: skip

    def block(self, depth, size):
        """A function from vectors to `size` vectors."""
        steps = [self.step(depth) for _ in range(self.rng.integers(1, 4))]
        chosen = self.rng.integers(0, 99, size)

        def run(xs):
            xs = [*xs]
            for step in steps:
                xs += step(xs)
            return [xs[-1 - k % len(xs)] for k in chosen]

        return run

    def step(self, depth):
        """A function from vectors to some more."""
        kinds = [self.value, self.value]
        if depth:
            kinds += [self.branch, self.counted, self.scanned, self.tested]
        return self.pick(kinds)(depth)

    def value(self, depth):
        expression = self.expression()
        return lambda xs: [expression(xs)]

    def branch(self, depth):
        n, k, bound = self.rng.integers(1, 3), self.rng.integers(9), self.rng.normal()
        then, other = self.block(depth - 1, n), self.block(depth - 1, n)
        return lambda xs: [*sg.cond(xs[k % len(xs)][1] > bound, lambda: then(xs), lambda: other(xs))]

    def counted(self, depth):
        n, turns, start = self.rng.integers(1, 4), int(self.rng.integers(0, 4)), int(self.rng.integers(0, 2))
        body, uses = self.block(depth - 1, n), self.rng.random() < 0.5
        first = [self.expression() for _ in range(n)]

        def run(xs):
            init = [f(xs) for f in first]
            turn = lambda t, state: body([*xs, *state, *([state[0] * t] if uses else [])])
            return [*sg.fori_loop(start, start + turns, turn, init)]

        return run

    def scanned(self, depth):
        n, m, reverse = self.rng.integers(1, 3), self.rng.integers(0, 3), bool(self.rng.random() < 0.4)
        body, rows = self.block(depth - 1, n + m), int(self.rng.integers(1, 4))
        first, sliced = (
            [self.expression() for _ in range(n)],
            [self.expression() for _ in range(self.rng.integers(1, 3))],
        )

        def run(xs):
            arrays = [np.outer(np.arange(1.0, rows + 1) / rows, f(xs)) for f in sliced]

            def turn(state, given):
                found = body([*xs, *given, *state])
                return found[:n], found[n:]

            last, stacks = sg.scan(turn, [f(xs) for f in first], arrays, reverse=reverse)
            return [*last, *[stack.sum(axis=0) for stack in stacks or ()], *[stack[-1] for stack in stacks or ()]]

        return run

    def tested(self, depth):
        n, bound = self.rng.integers(1, 3), int(self.rng.integers(0, 4))
        body, k = self.block(depth - 1, n), self.rng.integers(9)
        first = [self.expression() for _ in range(n)]

        def run(xs):
            goes_on = lambda state: (state[1] < bound) & (state[0][k % n][0] < 2.0)
            state, count = sg.while_loop(goes_on, lambda s: (body([*xs, *s[0]]), s[1] + 1), ([f(xs) for f in first], 0))
            return [*state, state[0] * count]

        return run


class NumberMaker(Maker):
    """The same of single numbers, which may become infinite or NaN."""

    def expression(self):
        i, j = self.rng.integers(0, 9, 2)
        x, y = (lambda xs, k=k: xs[k % len(xs)] for k in (i, j))
        return self.pick([
            lambda xs: np.sin(x(xs)) + y(xs),
            lambda xs: 0.5 * x(xs) - y(xs) * 0.25,
            lambda xs: x(xs) / (y(xs) - 0.5),
            lambda xs: np.exp(3 * x(xs)),
            lambda xs: np.log(x(xs)) + 1.0,
            lambda xs: x(xs) ** 2,
            lambda xs: np.maximum(x(xs), y(xs)),
            lambda xs: np.where(x(xs) > 0.5, y(xs), -x(xs)),
            lambda xs: np.float64(0.5) * 3,
        ])  # fmt: skip

    def branch(self, depth):
        n, k, bound = self.rng.integers(1, 3), self.rng.integers(9), self.rng.normal()
        then, other = self.block(depth - 1, n), self.block(depth - 1, n)
        return lambda xs: [*sg.cond(xs[k % len(xs)] > bound, lambda: then(xs), lambda: other(xs))]

    def scanned(self, depth):
        n, m, reverse = self.rng.integers(1, 3), self.rng.integers(0, 3), bool(self.rng.random() < 0.4)
        body, rows = self.block(depth - 1, n + m), int(self.rng.integers(1, 4))
        first, sliced = self.expression(), self.expression()

        def run(xs):
            array = np.arange(1.0, rows + 1) / rows * sliced(xs)
            turn = lambda state, x: (lambda found: (found[:n], found[n:]))(body([*xs, x, *state]))
            last, stacks = sg.scan(turn, [first(xs)] * n, array, reverse=reverse)
            return [*last, *[stack.sum() for stack in stacks or ()], array[int(rows) - 1]]

        return run

    def tested(self, depth):
        n, bound = self.rng.integers(1, 3), int(self.rng.integers(0, 4))
        body, k = self.block(depth - 1, n), self.rng.integers(9)
        first = [self.expression() for _ in range(n)]

        def run(xs):
            goes_on = lambda state: (state[1] < bound) & (state[0][k % n] < 2.0)
            state, count = sg.while_loop(goes_on, lambda s: (body([*xs, *s[0]]), s[1] + 1), ([f(xs) for f in first], 0))
            return [*state, state[0] * count]

        return run


def _assigned(x, i, value):
    x = x.copy()
    x[i] = value
    return x


def assert_runs(program, *args, levels=(0, 1, 2)):
    """At all levels a program gives what it gives as plain Python; and leaves its arguments alone."""
    before = [np.array(x) for x in args]
    wanted = tree.flatten(program(*args))[0]
    for level in levels:
        found = tree.flatten(sg.compile(program, optimize=level)(*args))[0]
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
            assert np.asarray(x).dtype == np.asarray(y).dtype and np.shape(x) == np.shape(y)
        arrays = [x for x in found if isinstance(x, np.ndarray)]
        assert not any(np.shares_memory(x, y) for x in arrays for y in args if isinstance(y, np.ndarray))
        assert not any(np.shares_memory(x, y) for i, x in enumerate(arrays) for y in arrays[:i])
        for x, y in zip(args, before, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_run_as_python_runs_them(seed):
    block = Maker(seed).block(2, 3)
    rng = np.random.default_rng(seed)
    assert_runs(lambda a, b: block([a, b]), rng.normal(size=3), rng.normal(size=3))


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_of_numbers_run_as_numpy_runs_them(seed):
    block = NumberMaker(seed).block(2, 3)
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        assert_runs(lambda a, b: block([a, b]), np.float64(rng.normal()), np.float64(rng.normal()))
