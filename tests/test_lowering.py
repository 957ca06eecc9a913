"""Statements: verified, run one by one without any text, and the same numbers as Python's."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import GraphError
from symgrad.lowering.expressions import ONE, ZERO, Load, Local, Number, plus, times
from symgrad.lowering.interpret import interpret
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, If, Require, Store
from symgrad.lowering.verify import verify
from symgrad.targets.c import kernels
from tests import fuzz
from tests.statements import interpreted
from tests.test_native import PROGRAMS

FLOAT = np.dtype(float)
GIVEN = Buffer("x", FLOAT, (3,), "given")
MADE = Buffer("y", FLOAT, (3,), "result")
SPARE = Buffer("t", FLOAT, (3,), "own")
I = Local("i")
TRUE = Number(True, np.dtype(bool))


@pytest.fixture
def by_statements(monkeypatch):
    """Kernels interpret their statements: no compiler is needed."""
    monkeypatch.setattr(kernels, "_compiled", interpreted)


def function(*body):
    return Function("f", [GIVEN], [], [MADE], [SPARE], list(body))


def loop(*body, stop=3):
    return For(I, Number(stop), list(body))


FIRST_TWO = loop(Store(SPARE, I, Load(GIVEN, I)), stop=2)


def test_statements_that_are_right():
    total = Local("total", FLOAT)
    right = function(
        Declare(total, Number(0.0, FLOAT), mutable=True),
        loop(Assign(total, Load(GIVEN, I), np.add), Store(SPARE, I, total)),
        loop(Store(MADE, I, Load(SPARE, I))),
    )
    verify(right)
    np.testing.assert_array_equal(interpret(right, [[1.0, 2.0, 4.0]], {})[0], [1.0, 3.0, 7.0])


WRONG = {
    "nothing has written t": [loop(Store(MADE, I, Load(SPARE, I)))],
    "adds to what nothing has written": [loop(Store(MADE, I, Load(GIVEN, I), np.add))],
    "memory of the caller's": [loop(Store(GIVEN, I, Number(0.0, FLOAT)))],
    "i is not declared": [loop(), Store(MADE, ZERO, Load(GIVEN, I))],
    "may not change": [Declare(Local("a"), ONE), Assign(Local("a"), ZERO)],
    "declares a name again": [Declare(Local("a"), ONE), Declare(Local("a"), ONE)],
    "a is not declared": [
        If(Number(True, np.dtype(bool)), [Declare(Local("a"), ONE)]),
        Declare(Local("b"), Local("a")),
    ],
}


@pytest.mark.parametrize("fact", WRONG)
def test_what_the_verifier_finds(fact):
    with pytest.raises(GraphError, match=fact):
        verify(function(*WRONG[fact]))


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ([loop(Store(MADE, plus(I, ONE), Load(GIVEN, I)))], "outside of 3 numbers"),
        ([loop(Store(MADE, I, Load(GIVEN, times(I, Number(2)))))], "outside of 3 numbers"),
        (
            [loop(Store(SPARE, I, Load(GIVEN, I)), stop=2), loop(Store(MADE, I, Load(SPARE, I)))],
            "nothing has written t",
        ),
    ],
)
def test_what_only_running_finds(body, fact):
    with pytest.raises(GraphError, match=fact):
        interpret(function(*body), [[1.0, 2.0, 4.0]], {})


def test_an_index_that_is_required_to_lie_inside():
    with pytest.raises(IndexError, match="out of bounds"):
        interpret(function(loop(Require(I, Number(2)))), [[1.0, 2.0, 4.0]], {})


@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_statements_give_what_numpy_gives(name, optimize, by_statements):
    f, args, wrt = PROGRAMS[name]
    expected = sg.value_and_grad(f, wrt, optimize=optimize, target="numpy")(*args)
    value, slopes = sg.value_and_grad(f, wrt, optimize=optimize, target="c")(*args)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    for got, slope in zip(slopes, expected[1], strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part, by_statements):
    """``SYMGRAD_TARGET=c python -m tests.fuzz`` runs as many as one likes, with a compiler."""
    for seed in range(40 * part, 40 * part + 40):
        program = fuzz.generated(seed)
        if "float32" in program.script():  # sums are added in double, and NumPy's own depend on its kernels
            continue
        with sg.options(target="c"):
            verdict, reason = fuzz.outcome(program)
        assert verdict not in ("wrong", "crashed"), f"seed {seed}: {reason}"
