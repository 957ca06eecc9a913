"""Names that statements of C need not declare."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.provenance import Where
from symgrad.lowering.build import lower
from symgrad.lowering.expressions import ONE, ZERO, Apply, Load, Local, Number
from symgrad.lowering.fewer_names import with_fewer_names
from symgrad.lowering.names import names_of
from symgrad.lowering.statements import Assign, Buffer, Declare, For, Function, Remark, Store, walk
from symgrad.lowering.verify import verify
from symgrad.ops.define import TABLE
from symgrad.targets.c.kernels import called
from tests.lowering.interpret import interpret

FLOAT = np.dtype(float)
X, Y = Buffer("x", FLOAT, (6,), "given"), Buffer("y", FLOAT, (6,), "result")
T = Buffer("t", FLOAT, (6,), "own")
I, A, B, C = Local("i"), Local("a", FLOAT), Local("b", FLOAT), Local("c", FLOAT)
NUMBERS = np.array([1.0, -2.0, 0.5, 4.0, 3.0, -1.0])


def sine(x):
    return Apply(TABLE[np.sin], (x,), FLOAT)


def sum_of(a, b):
    return Apply(TABLE[np.add], (a, b), FLOAT)


def declared(*body):
    """Check that no number changes, and return the names that are left, and the statements."""
    make = lambda: Function("f", [X], [], [Y], [T], [*body])
    expected = interpret(make(), [NUMBERS], {})[0]
    after = with_fewer_names(make())
    verify(after)
    np.testing.assert_array_equal(interpret(after, [NUMBERS], {})[0], expected)
    return [s.local.name for s in walk(after.body) if isinstance(s, Declare)], after.body


def filled(*body):
    return For(I, Number(6), [*body])


def test_what_is_computed_again_has_one_name():
    first, again = (Declare(x, sine(Load(X, (ZERO,)))) for x in (A, B))
    names, _ = declared(first, filled(again, Store(Y, (I,), sum_of(A, B))))
    assert names == ["a"]


def test_what_is_made_of_the_same_numbers_has_one_name():
    body = [Declare(A, sine(Load(X, (I,)))), Declare(B, sine(Load(X, (I,)))), Declare(C, sum_of(B, A))]
    names, _ = declared(filled(*body, Store(Y, (I,), sum_of(C, sum_of(A, A)))))
    assert names == ["a", "c"]


def test_memory_that_is_written_is_read_again():
    read = (Declare(x, Load(T, (ZERO,))) for x in (A, B))
    first, again = read
    cleared = filled(Store(T, (I,), Number(2.0, FLOAT)))
    written = Store(T, (ZERO,), Number(5.0, FLOAT))
    names, _ = declared(cleared, first, written, again, filled(Store(Y, (I,), sum_of(A, B))))
    assert names == ["a", "b"]


def test_memory_that_nothing_writes_meanwhile_is_read_once():
    first, again, last = (Declare(x, sine(Load(T, (ZERO,)))) for x in (A, B, C))
    cleared = filled(Store(T, (I,), Number(2.0, FLOAT)))
    used = filled(again, Store(Y, (I,), sum_of(A, B)))
    written = filled(last, Store(T, (I,), sum_of(A, C)))
    names, _ = declared(cleared, first, used, written)
    assert names == ["a", "c"]


def test_a_name_that_changes_is_read_again():
    begun = Declare(C, Load(X, (ZERO,)), mutable=True)
    first, again = (Declare(x, sine(C)) for x in (A, B))
    changed = Assign(C, Load(X, (ONE,)))
    names, _ = declared(begun, first, changed, again, filled(Store(Y, (I,), sum_of(A, B))))
    assert names == ["c", "a", "b"]


def test_names_of_one_side_of_a_loop_are_unknown_on_the_other():
    sides = [filled(Declare(x, sine(Load(X, (I,)))), Store(Y, (I,), sum_of(x, x))) for x in (A, B)]
    names, _ = declared(*sides)
    assert names == ["a", "b"]


def test_an_index_of_the_same_name_is_another():
    inner = filled(Declare(B, sine(Load(X, (I,)))), Store(Y, (I,), sum_of(B, B)))
    names, _ = declared(filled(Declare(A, sine(Load(X, (I,)))), inner, Store(T, (I,), sum_of(A, A))))
    assert names == ["a", "b"]


def test_what_is_named_for_the_next_statement_alone_has_no_name():
    names, _ = declared(filled(Declare(A, sine(Load(X, (I,)))), Store(Y, (I,), A)))
    assert names == []
    names, _ = declared(filled(Declare(A, sine(Load(X, (I,)))), Store(T, (I,), A), Store(Y, (I,), A)))
    assert names == ["a"]


def test_a_line_of_which_nothing_is_left_is_not_named():
    lines = [Remark(Where("model.py", line)) for line in (1, 2, 3)]
    first, again = (Declare(x, sine(Load(X, (ZERO,)))) for x in (A, B))
    _, body = declared(lines[0], first, lines[1], again, lines[2], filled(Store(Y, (I,), sum_of(A, B))))
    assert [s for s in body if isinstance(s, Remark)] == [lines[0], lines[2]]


def eliminated(A):
    n = len(A)
    A = A.copy()
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]
    return np.sum(np.log(np.abs(np.diag(A))))


def test_sizes_of_one_value_keep_the_names_that_extents_mention():
    source = sg.grad(eliminated).source("float64[n, n]", target="c")  # it was refused: a size had no value
    for name in {*re.findall(r"turns_\d+", source)}:
        assert f"const int64_t {name} = " in source


def test_another_name_for_a_number_is_needless():
    of_index = Declare(Local("d"), I)  # a loop inside may have the name of the index
    body = [Declare(A, sine(Load(X, (I,)))), Declare(B, A), of_index, Store(Y, (I,), sum_of(B, sum_of(A, B)))]
    names, _ = declared(filled(*body, Store(Y, (Local("d"),), sum_of(B, sum_of(A, B)))))
    assert names == ["a", "d"]
    changing = [Declare(A, Load(X, (I,)), mutable=True), Declare(B, A), Assign(A, sine(A))]
    names, _ = declared(filled(*changing, Store(Y, (I,), sum_of(A, sum_of(B, B)))))
    assert names == ["a", "b"]


def prices(spot, strikes, calls):
    d1 = np.log(spot / strikes)
    d2 = d1 - 0.3
    t_2 = np.exp(-d1 * d1) * d2
    price = np.where(calls, t_2 - d1 * np.exp(-d2 * d2), t_2 * d2)
    price = price * spot
    return np.sum(price**2)


def steps(x, n):
    total = 0.0
    for _ in range(n):
        x = np.where(x > 0, np.sin(x) * x, x * x)
        total = total + np.sum(x * np.roll(x, 1))
    return total


@pytest.mark.parametrize(
    ("f", "specs"),
    [(prices, ("float64[]", "float64[n]", "bool[n]")), (steps, ("float64[n]", 20))],
    ids=["prices", "steps"],
)
@pytest.mark.slow
@pytest.mark.parametrize("transform", [sg.value_and_grad, sg.hessian])
def test_names_are_numbered_without_gaps(transform, f, specs):
    graph = transform(f, target="c").compile(*specs).whole
    function = lower(graph, "f", called, ["n"])
    names = names_of(function).taken
    numbered = {name: re.fullmatch(r"(t|total|price|d_\w+?)_(\d+)", name) for name in names}
    for stem, k in (found.groups() for found in numbered.values() if found):
        assert k == "2" or f"{stem}_{int(k) - 1}" in names or stem not in names, (stem, k, names)
    assert f is not prices or {"d1", "d2", "t_2"} <= names
