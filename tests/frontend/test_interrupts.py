"""An interrupt while a function is traced or compiled leaves nothing behind: `python -m tests.interrupts`."""

from __future__ import annotations

import random

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.undo import contained, surely
from tests import interrupts


@pytest.fixture(scope="module")
def programs():
    return interrupts.known()


@pytest.mark.slow
@pytest.mark.parametrize("kind", interrupts.KINDS)
def test_interrupts_leave_nothing_behind(programs, kind):
    expected, lines, tidying = programs[kind]
    rng = random.Random(kind)
    numbers = rng.sample(tidying, 5) + [rng.randint(1, lines // 2) for _ in range(3)]
    assert sum(interrupts.check(kind, number, expected) for number in numbers) == len(numbers)


def test_the_harness_sees_what_is_left():
    before = interrupts.world()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(np, "sin", np.cos)
        assert interrupts.world() != before
        assert interrupts.differences(before, interrupts.world()) == [["sin"]]
    assert interrupts.world() == before
    with sg.options(optimize=1):
        assert interrupts.world() != before


def test_a_trace_that_fails_leaves_the_state_that_it_found():
    class Model:
        def __init__(self):
            self.calls, self.log, self.buffer = 0, [], np.zeros(3)

        def loss(self, x):
            self.calls += 1
            self.log.append(x)
            self.buffer[0] = 1.0
            if x[0] > 0:
                self.log.pop()
                if x[1] > 0:
                    held["x"] = x
                    raise ZeroDivisionError
            return np.sum(x)

    model, held = Model(), {}
    with pytest.raises(Exception):  # noqa: B017
        sg.grad(model.loss, loops="unroll")(np.ones(3))
    assert (model.calls, model.log, model.buffer.tolist(), held) == (0, [], [0, 0, 0], {})
    with pytest.raises(sg.errors.UnsupportedError, match="append after the branch"):
        sg.grad(model.loss)(np.ones(3))
    assert (model.calls, model.log, model.buffer.tolist(), held) == (0, [], [0, 0, 0], {})


def test_undo_runs_to_its_end():
    steps = []

    def undo():
        steps.append("begins")
        if steps.count("begins") == 1:
            raise KeyboardInterrupt
        steps.append("ends")

    with pytest.raises(KeyboardInterrupt):
        surely(undo, lambda: None)
    assert steps == ["begins", "begins", "ends"]


def test_context_variables_are_local():
    @contained
    def f():
        sg.core.graph.tracing.set(1)
        return sg.core.graph.tracing.get()

    assert f() == 1 and sg.core.graph.tracing.get() is None
