"""Random nests of loops that write into arrays: ``python -m tests.nests --count 300 --seed 0``.

Each gradient is computed twice, with all writes undone that can be (`symgrad.derivatives.undone`) and with none, and
compared; the value is compared with Python's.
"""

import argparse
import linecache
import random
import sys
import types
import warnings
from unittest import mock

import numpy as np

import symgrad as sg
from symgrad.derivatives import undone
from symgrad.errors import SymgradError
from tests.conftest import for_target

ALL, NONE = 0.01, float("inf")
"""Values of `undone.FEW`, with which all writes are undone, or none."""

START = """import numpy as np


def f(x, y):
    A, B, s, t = np.outer(x, x) * 0.5 + 0.1, x * 0.7, y * 1.0, 0.2 * y
    C = A * 0.3
"""
END = "    return np.sum(A * A) + np.sum(B) + s + t * t + np.sum(np.sin(C))\n"


class Nest:
    """The source of a random program; arrays have axes of four numbers."""

    def __init__(self, seed):
        self.random, self.lines = random.Random(seed), []
        self.block(1, 0, [])
        self.source = START + "\n".join(self.lines) + "\n" + END

    def one_of(self, *choices):
        return self.random.choice(choices)

    def index(self, indices):
        i = self.random.choice(indices) if indices and self.random.random() < 0.85 else None
        if i is None:
            return self.one_of("0", "1", "2", "-1")
        return self.one_of(i, i, i, i, i, i, f"{i} - 1", f"({i} + 1) % 4", f"3 - {i}")

    def read(self, indices):
        i, j = self.index(indices), self.index(indices)
        element = self.one_of(f"A[{i}, {j}]", f"A[{i}, {j}]", f"B[{i}]", f"x[{i}]", f"C[{i}, {j}]", "s", "t")
        return self.one_of(*[element] * 9, f"np.sum(A[{i}])", f"np.sum(A[:, {i}])", "0.1 * np.sum(A)")

    def expression(self, indices, depth=0):
        if depth == 3 or self.random.random() < 0.3:
            return self.read(indices)
        a, b = self.expression(indices, depth + 1), self.expression(indices, depth + 1)
        return self.one_of(f"{a} * ({b})", f"({a} + {b})", f"np.sin({a})", f"0.5 * {a}")

    def test(self, indices):
        if indices and self.random.random() < 0.5:
            i, j = self.random.choice(indices), self.random.choice(indices)
            return self.one_of(f"{i} > 1", f"{i} == {j}", f"{i} % 2 == 0", f"{i} < {j} - 1")
        return f"{self.read(indices)} > {self.one_of('0.0', '0.3', '0.6')}"

    def statement(self, indices):
        i, j, e = self.index(indices), self.index(indices), self.expression(indices)
        kinds = [f"A[{i}, {j}] = 0.5 * ({e})"] * 4 + [f"A[{i}, {j}] += 0.3 * ({e})", f"C[{i}, {j}] = 0.3 * ({e})"]
        kinds += [f"A[{i}] = 0.5 * A[{j}] + 0.1 * ({e})", f"A[:, {i}] *= 0.5", f"B[{i}] = np.sin({e})"]
        kinds += [f"B[{i}], B[{j}] = B[{j}], B[{i}]", "C = A.copy()", "B = B * 0.9", f"s = 0.6 * s + 0.2 * ({e})"]
        return self.one_of(*kinds, f"t = 0.6 * s + 0.2 * ({e})")

    def head(self, depth, indices):
        lengths = ["4", "3", "1, 4", "3, -1, -1"]
        if indices:
            i = self.random.choice(indices)
            lengths += [i, f"{i} + 1", f"{i} + 1, 4", f"4 - {i}"]
        return f"for {'ijk'[depth]} in range({self.one_of(*lengths)}):"

    def block(self, level, depth, indices):
        space = "    " * level
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if depth < 3 and kind < (0.35 if depth else 0.75):
                self.lines.append(space + self.head(depth, indices))
                self.block(level + 1, depth + 1, [*indices, "ijk"[depth]])
            elif 0.35 < kind < 0.5 and level < 5:
                self.lines.append(f"{space}if {self.test(indices)}:")
                self.block(level + 1, max(depth, 2), indices)
                if self.random.random() < 0.5:
                    self.lines.append(f"{space}else:")
                    self.block(level + 1, max(depth, 2), indices)
            else:
                self.lines.append(space + self.statement(indices))


def function(source):
    """The function of a source, whose lines can be read again."""
    name, module = f"<nest {hash(source)}>", types.ModuleType("nest")
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), vars(module))
    return module.f


def gradient(f, few, level, args):
    """The value and the gradient with another ratio from which on writes are undone."""
    with mock.patch.object(undone, "FEW", few):
        return sg.value_and_grad(f, (0, 1), optimize=level, check_first=False)(*args)


def difference(seed, level):
    """Return what is wrong with the program of a seed at a level; "" if nothing is, None if it is refused."""
    f, rng = function(Nest(seed).source), np.random.default_rng(seed)
    args = rng.random(4) + 0.1, float(rng.random())
    expected = f(args[0].copy(), args[1])
    if not np.isfinite(expected) or abs(expected) > 1e8:
        return None
    try:
        value, (dx, dy) = gradient(f, ALL, level, args)
        _, (ex, ey) = gradient(f, NONE, 0, args)
    except SymgradError:
        return None
    scale = 1 + np.max(np.abs(ex))
    if abs(value - expected) > 1e-9 * (1 + abs(expected)):
        return f"value {value!r}, Python has {expected!r}"
    if not np.allclose(dx, ex, rtol=1e-7, atol=1e-9 * scale) or abs(dy - ey) > 1e-7 * scale:
        return f"gradient {dx, dy}, with stored arrays {ex, ey}"
    return ""


def main():
    parser = argparse.ArgumentParser(description="Random nests of loops that write into arrays.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=("numpy", "c"), default="numpy")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for_target(chosen.target)
    wrong, refused = [], 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        with np.errstate(all="ignore"):
            found = difference(seed, seed % 3)
        refused += found is None
        if found:
            wrong.append(seed)
            print(f"# seed {seed}, level {seed % 3}: {found}", Nest(seed).source, sep="\n", flush=True)
    print(f"{chosen.count} programs, {refused} refused or without a finite value; wrong: {wrong}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
