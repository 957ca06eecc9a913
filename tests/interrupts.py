"""Interrupts at lines of symgrad's own: a harness that raises KeyboardInterrupt at the k-th, and what must be left."""

from __future__ import annotations

import argparse
import builtins
import dis
import gc
import random
import sys
import warnings
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.random
import numpy.testing
from numpy import sqrt as root_of

import symgrad as sg
from symgrad.frontend import interception
from symgrad.ops.define import PLACES

OWN = str(Path(sg.__file__).parent)
TABLE = np.arange(6.0).reshape(2, 3)
X = np.array([0.3, 0.7, 0.2])
LISTED = [1, 2]


# ---- raising


TIDYING = ("interception.py", "undo.py", "effects.py", "trace.py", "options.py", "state.py", "function.py", "cache.py")
"""The files that exchange names, note what was there, and put it back."""


class At:
    """Raises at a line of symgrad's own, by its number; counts them where there are fewer, and those that tidy up."""

    def __init__(self, number: int) -> None:
        self.number, self.count, self.tidying = number, 0, []

    def __call__(self, function):
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return function()
        finally:
            sys.settrace(before)

    def _enter(self, frame, event, arg):
        return self._line if frame.f_code.co_filename.startswith(OWN) else None

    def _line(self, frame, event, arg):
        if event == "line" and not leaves_with(frame):
            self.count += 1
            if self.number < 0 and frame.f_code.co_filename.endswith(TIDYING):
                self.tidying.append(self.count)
            if self.count == self.number:
                raise KeyboardInterrupt
        return self._line


def leaves_with(frame) -> bool:
    """Whether a ``with`` block has come to its end: Python takes no interrupts between that and its ``__exit__``."""
    code, at = frame.f_code, frame.f_lasti
    steps = [(code.co_code[i], code.co_code[i + 1]) for i in range(at, min(at + 6, len(code.co_code)), 2)]
    return len(steps) == 3 and all(op == LOAD_CONST and code.co_consts[arg] is None for op, arg in steps)


LOAD_CONST = dis.opmap["LOAD_CONST"]


# ---- programs


@dataclass
class Params:
    w: np.ndarray
    b: float


class Model:
    def __init__(self):
        self.calls, self.log, self.seen, self.table = 0, [], {}, np.ones(3)

    def loss(self, params, x):
        self.calls += 1
        self.log.append(len(self.log))
        h = np.zeros(3)
        if x[0] > params.b:
            h[0] = x[1]
            if h[0] > x[2]:
                h[1] -= params.w[0]
        self.seen["h"] = 1.0
        return np.sum(h * self.table) + root_of(params.w[1])


def squares(x):
    items = [x[0]]
    while items[-1] < 100:
        items[-1] = items[-1] * 2
    return items[-1] + np.sum(TABLE[:, 0]) * x[1]


def nested(x):
    return np.sum(sg.grad(lambda x: np.sum(x * x * TABLE[1]) if x[0] > 0 else x[1] * len(LISTED))(x))


class Case:
    """A function with a model of its own, and what calls it for the first time."""

    def __init__(self, kind):
        self.model, self.params = Model(), Params(np.array([0.1, 0.2, 0.3]), 0.5)
        if kind == "model":
            self.function, self.args = sg.value_and_grad(self.model.loss, optimize=1), (self.params, X)
        elif kind == "squares":
            self.function, self.args = sg.grad(squares, optimize=1), (X,)
        else:
            self.function, self.args = sg.compile(nested, optimize=1), (X,)

    def __call__(self):
        return self.function(*self.args)

    def state(self):
        """Return the state that a call may leave behind in the user's objects."""
        held = self.model
        return (
            held.calls,
            [*held.log],
            dict(held.seen),
            held.table.tolist(),
            held.table.flags.writeable,
            self.params.w.tolist(),
            self.params.b,
        )


KINDS = ("model", "squares", "nested")


# ---- what is left


def world():
    """All that belongs to the process and that a trace may change."""
    modules = [sys.modules[name] for name in ("numpy", "numpy.linalg", "numpy.fft", "numpy.random")]
    holders = [*modules, builtins, sys.modules[__name__], *{id(h): h for h, _ in PLACES}.values()]
    names = [(id(h), type(h), {k: id(v) for k, v in vars(h).items()}) for h in holders]
    variables = {v.name: value for v, value in copy_context().items() if not v.name.startswith(("numpy", "decimal"))}
    return names, variables, gc.isenabled(), dict(interception._exchanged._in_force), TABLE.tolist(), X.tolist()


def leaves(result):
    return [np.asarray(x) for x in sg.core.tree.flatten(result)[0]]


def check(kind: str, number: int, expected) -> bool:
    """Whether an interrupt was raised; after it all is as it was, and the next call is right."""
    case, before = Case(kind), world()
    untouched, at = case.state(), At(number)
    try:
        at(case)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    after = world()
    assert after == before, f"{kind}, line {number}: {differences(before, after)}"
    left = case.state()
    once = Case(kind)
    once.model.calls, once.model.log = 1, [0]
    once.model.seen = {"h": 1.0}
    possible = (untouched, once.state()) if kind == "model" else (untouched,)
    assert left in possible, f"{kind}, line {number}: {left}"
    for x, y in zip(leaves(case()), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, err_msg=f"{kind}, line {number}")
    again = world()
    assert again == before, f"{kind}, line {number}, next call: {differences(before, again)}"
    return interrupted


def differences(before, after):
    return [(a, b) for a, b in zip(before[1:], after[1:], strict=True) if a != b] or [
        [k for k in {*a[2], *b[2]} if a[2].get(k) != b[2].get(k)] or (a[1], b[1])
        for a, b in zip(before[0], after[0], strict=True)
        if a != b
    ]


def known():
    """Return the results of the programs, the lines of symgrad that run, and those of them that tidy up."""
    found = {}
    for kind in KINDS:
        expected = leaves(Case(kind)())
        at = At(-1)
        at(Case(kind))
        found[kind] = expected, at.count, at.tidying
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, programs, raised, failed = random.Random(given.seed), known(), 0, []
    print({kind: (lines, len(tidying)) for kind, (_, lines, tidying) in programs.items()}, flush=True)
    for i in range(given.count):
        kind = KINDS[i % len(KINDS)]
        expected, lines, tidying = programs[kind]
        number = rng.choice(tidying) if i % 2 else rng.randint(1, lines)
        try:
            raised += check(kind, number, expected)
        except Exception as error:
            failed.append(f"{kind} {number}: {type(error).__name__}: {str(error)[:500]}")
            print(failed[-1], flush=True)
        if i % 100 == 99:
            print(f"{i + 1} runs", flush=True)
    print(f"{given.count} runs, {raised} interrupted, {len(failed)} failed")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
