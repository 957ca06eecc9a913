"""Loops that scatter zeros wherever a mask does not hold, which are skipped there."""

import numpy as np
import pytest

from symgrad.lowering.expressions import TRUTH, WHOLE, ZERO, Apply, Choose, Load, Local, Number
from symgrad.lowering.masked_scatters import with_masked_scatters
from symgrad.lowering.statements import Buffer, Declare, For, Function, If, Store
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from tests.lowering.interpret import interpret

FLOAT = np.dtype(float)
X, Y = Buffer("x", FLOAT, (4, 3), "given"), Buffer("y", FLOAT, (5, 3), "result")
PLACES = Buffer("places", WHOLE, (4,), "given")
I, J = Local("i"), Local("j")
AT, MASK, T = Local("at", WHOLE, frozenset({"i"})), Local("near", TRUTH), Local("t", FLOAT)
NUMBERS = np.array([[0.5, 1.0, -1.0], [2.0, 0.0, 3.0], [-4.0, 1.0, 2.0], [1.5, 2.5, 3.5]])
ELEMENT, NOTHING = Load(X, (I, J)), Number(0.0, FLOAT)


def apply(ufunc, *x, dtype=FLOAT):
    return Apply(TABLE[ufunc], x, dtype)


def run(*inner):
    """Check that no number changes, and return the loop inside of the one over `i`."""
    cleared = For(I, Number(5), [For(J, Number(3), [Store(Y, (I, J), NOTHING)])])
    near = Declare(MASK, apply(np.less, Load(X, (I, ZERO)), Number(1.0, FLOAT), dtype=TRUTH))
    make = lambda: Function(
        "f", [X, PLACES], [], [Y], [],
        [cleared, For(I, Number(4), [Declare(AT, Load(PLACES, (I,))), near, For(J, Number(3), [*inner])])],
    )  # fmt: skip
    arguments = [NUMBERS, np.array([4, 0, 4, 2])]
    expected = interpret(make(), arguments, {})[0]
    after = with_masked_scatters(make())
    verify(after)
    np.testing.assert_array_equal(interpret(after, arguments, {})[0], expected)
    return after.body[1].body[-1]


MASKED = Choose(MASK, apply(np.exp, ELEMENT), NOTHING)


@pytest.mark.parametrize("value", [T, apply(np.negative, T), apply(np.add, T, T), apply(np.subtract, NOTHING, T)])
def test_a_loop_that_adds_what_the_mask_makes_zero_is_skipped(value):
    left = run(Declare(T, MASKED), Store(Y, (AT, J), value, np.add))
    assert isinstance(left, If) and left.test == MASK
    (loop,) = left.then
    assert loop.body[0].value == MASKED.then  # the mask holds there


@pytest.mark.parametrize(
    ("value", "combine", "index"),
    [
        (Choose(MASK, ELEMENT, Number(1.0, FLOAT)), np.add, (AT, J)),  # something else where it does not hold
        (apply(np.multiply, T, ELEMENT), np.add, (AT, J)),  # NaN where the element is infinite
        (T, None, (AT, J)),  # what was there before is overwritten
        (T, np.maximum, (AT, J)),
        (T, np.add, (I, J)),  # no scatter: compilers vectorise it
    ],
)
def test_other_loops_stay(value, combine, index):
    assert isinstance(run(Declare(T, MASKED), Store(Y, index, value, combine)), For)
