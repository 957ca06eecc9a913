"""Old defects, put back one by one: what conversion and placement then do wrong is found before anybody sees it."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.frontend.aliasing import Memory
from symgrad.frontend.conversion import contents, jumps, lowering, state
from symgrad.ops.define import TABLE
from symgrad.spelling import Code
from symgrad.targets.numpy.body import Body
from symgrad.targets.numpy.structured import Structured
from tests.frontend.conversion.test_hidden_state import SHARED, module_of

X = np.array([0.3, 1.2, -0.4, 2.0])


def keep_writes(patch):
    """The writes of the side of a branch that is not taken stay."""

    def restore(run):
        run.contents.restore()

    patch.setattr(state.Run, "_restore", restore)


def forget_nonlocals(patch):
    """A nonlocal name counts as dead where the function ends that binds it."""
    patch.setattr(lowering, "nonlocals", lambda body: {})


def forget_last_test(patch):
    """Lose the changes that the last test of a loop makes."""
    patch.setattr(jumps, "may_change_state", lambda test: False)


def read_late(patch):
    """Expressions that wait are computed behind writes into what they read."""
    patch.setattr(Structured, "let_go", lambda *_: None)


def forget_views(patch):
    """Views do not see what was written into the array that they show."""
    patch.setattr(Memory, "_refresh", lambda view: None)


def invert_by_not(patch):
    """``~`` of integers is ``not``."""
    spell = Body.spell

    def wrong(self, node, inputs):
        is_inverse = node.op is TABLE[np.invert] and node.aval.dtype.kind == "i"
        return Code(f"(not {inputs[0].text})") if is_inverse else spell(self, node, inputs)

    patch.setattr(Body, "spell", wrong)


def write_pythons_true(patch):
    """A boolean that a loop starts from is Python's, of which ``~`` is -2."""
    patch.setattr(Structured, "constant", Body.constant)


def give_memory_away(patch):
    """A parameter's memory is written into while another name of it is still to be read."""
    patch.setattr(Structured, "_is_done_with", lambda *_: True)


def move_in_any_order(patch):
    """Names that change places are assigned one after the other."""
    patch.setattr(Structured, "_reads", lambda *_: False)


def see_nothing(patch):
    """No mutable object is known but names, and no body is traced twice."""
    patch.setattr(contents.Contents, "_look", lambda *_: None)
    patch.setattr(contents.Contents, "_names_of", lambda *_: None)
    patch.setattr("symgrad.frontend.conversion.turns.is_traced_twice", lambda journal: False)
    patch.setattr("symgrad.frontend.conversion.branches.is_traced_twice", lambda journal: False)


WRITES = (
    "def f(x):\n v = x * 1.0\n w = v\n for k in range(20):\n  if x[0] > 100:\n   v[0] -= 1000\n   w -= np.sin(x)\n"
    " return np.sum(v) + np.sum(w)"
)
LATE = (
    "def f(x):\n A = np.outer(x, x)\n B = A\n A = x\n t = (np.trace(B), 1.0)\n for k in range(20):\n  B[k % 4] *= 0.9\n"
    " return np.sum(B) + t[0]"
)
NONLOCAL = "def f(x):\n s = 1.0\n def g():\n  nonlocal s\n  if x > 0: s = 2.0\n g()\n return s * x"
WALRUS = "def f(x):\n y = x\n while (y := y * 1.1 + 0.3) < 3: pass\n return y"
VIEWS = (
    "def f(x):\n v = x * 1.0\n w = v[1:]\n for k in range(20):\n  if x[0] > 0: v[2] = v[2] * 0.9\n"
    "  v[1] = v[1] + w[1]\n return np.sum(w)"
)
INVERSE = "def f(x):\n s = np.sum(x)\n for i in range(20): s = 0.9 * s - ~i\n return s * x[0]"
MASK = (
    "def f(x):\n m, y = True, x * 1.0\n for k in range(20):\n  y = y * np.where(m, 1.01 * x, 0.9 * x)\n  m = x[1] < k\n"
    " return np.sum(y)"
)
ALIAS = (
    "def f(x):\n v, w, a, b = x * 2.0, np.sin(x), x[1], x[1] * 0.9\n for k in range(20):\n"
    "  if a > b: v[-1] = a * x[0]\n  v[0] = v[1]\n  if a > b: v[1] = 0.3\n  v = v - x\n v -= x\n"
    " return np.sum(x * v * w)"
)
SWAPPED = (
    "def f(x):\n v, w = x * 1.0, np.sin(x)\n for k in range(20):\n  v, w = w, v\n  w[1:] -= 0.3\n"
    " return np.sum(v * np.arange(4.0)) + np.sum(w**2)"
)
DEFECTS = {
    "writes of the other side": (sg.compile, keep_writes, WRITES, X),
    "nonlocal": (sg.compile, forget_nonlocals, NONLOCAL, -1.5),
    "last test": (sg.compile, forget_last_test, WALRUS, 1.0),
    "inverse of integers": (sg.compile, invert_by_not, INVERSE, X),
    "read late": (sg.compile, read_late, LATE, X),
    "alias in a reverse loop": (sg.grad, give_memory_away, ALIAS, X),
    "mask of Python's True": (sg.grad, write_pythons_true, MASK, X),
    "swapped names": (sg.compile, move_in_any_order, SWAPPED, X),
    "views": (sg.compile, forget_views, VIEWS, X),
    **{f"state: {name}": (sg.compile, see_nothing, SHARED[name], 0.7) for name in SHARED},
}
MARKS = {"swapped names": pytest.mark.of_numpy}  # a defect of its printer


def source_of(program):
    if isinstance(program, str):
        return program
    before, body = program
    return f"{before}\ndef f(x):\n    y = x\n    for k in range(20):\n        {body}\n    return y\n"


@pytest.mark.of_numpy
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in DEFECTS])
def test_a_defect_that_is_put_back_is_found(name, monkeypatch):
    transform, put_back, program, x = DEFECTS[name]
    source = source_of(program)
    plain = module_of(source).f if transform is sg.compile else transform(module_of(source).f, optimize=0)
    wanted = plain(np.copy(x) if np.ndim(x) else x)
    put_back(monkeypatch)
    found = []
    for level in (0, 1, 2):
        unchecked = transform(module_of(source).f, optimize=level, check_first=False)
        try:
            wrong = not np.allclose(unchecked(x), wanted, rtol=1e-9)
        except sg.errors.SymgradError:
            found.append(level)
            continue
        if wrong:
            with pytest.raises(sg.errors.DisagreementError):
                transform(module_of(source).f, optimize=level)(x)
            found.append(level)
    assert found, "the defect changes nothing"
