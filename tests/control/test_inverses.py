"""Small systems of equations in loops are solved by products with inverses, as exactly as by `np.linalg.solve`."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.control.inverses import use_inverses
from symgrad.core.region import with_nested
from symgrad.pipeline import optimise
from symgrad.targets.numpy.runtime import _inverse
from symgrad.targets.target import C

RNG = np.random.default_rng(0)
TURNS = 40


def started(n):
    """A state, and well conditioned matrices for all turns."""
    return RNG.standard_normal(n), np.eye(n) + 0.2 * RNG.standard_normal((TURNS, n, n)) / n


def systems(program):
    """Return how many systems are solved, and how many matrices inverted, in the loops of a program."""
    return systems_of(program.graph)


def systems_of(graph):
    inside = [x.op.name for node in graph.live for x in with_nested([node]) if x is not node]
    return inside.count("linalg.solve"), inside.count("linalg.inv")


def agrees(f, *args):
    """The program of the value and gradient, which is as one without inverses, and as the loop in Python."""
    both = sg.value_and_grad(f, argnums=tuple(range(len(args))))
    program, plain = both.compile(*args), both.compile(*args, numerics="ieee")
    value, gradients = program(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-10)
    for g, other in zip(gradients, plain(*args)[1], strict=True):
        np.testing.assert_allclose(g, other, rtol=1e-9, atol=1e-11)
    return program


def filtered(x, matrices):
    """Two systems a turn, of a matrix that depends on the state."""
    total = 0.0
    for a in matrices:
        spread = a + np.outer(x, x)
        y = np.linalg.solve(spread, x)
        total = total + y @ np.linalg.solve(spread, np.cos(x)) + np.log(np.abs(np.linalg.det(spread)))
        x = np.tanh(y)
    return total


@pytest.mark.parametrize("n", [2, 3, 5])
def test_systems_with_one_matrix_share_its_inverse(n, usual_sizes):
    program = agrees(filtered, *started(n))
    assert systems(program) == (0, 1)
    assert ("_inverse(" in program.source) == (n == 2)


def test_the_pullback_reads_the_inverse_of_two_rows():
    source = agrees(filtered, *started(2)).source
    assert source.count("_inverse(") == 2  # the call and the definition
    assert "np.linalg.inv(" not in source.replace("``np.linalg.inv``", "")


def one_system(x, matrices):
    for a in matrices:
        x = np.tanh(np.linalg.solve(a, x) + np.linalg.solve(a + np.outer(x, x), x))
    return np.sum(x)


def test_inverses_of_what_no_turn_changes_are_made_before_the_loop(usual_sizes):
    program = agrees(one_system, *started(4))
    forward = program.source.split("np.linalg.inv(")
    assert len(forward) > 2 and "for " in forward[1]
    assert systems(program)[0] == 1, "a matrix of the state, alone"
    assert systems(agrees(lambda x, a: repeated(x, a[0]), *started(4))) == (0, 0)


def test_targets_without_calls_hoist_inverses_and_share_none():
    x, matrices = started(20)
    graph = sg.trace(sg.grad(repeated), x, matrices[0]).graph
    assert systems_of(optimise(graph, target=C)) == (0, 0)
    assert systems_of(optimise(sg.trace(sg.grad(filtered), *started(3)).graph, target=C))[1] == 0


def repeated(x, a):
    for _ in range(TURNS):
        x = np.sin(np.linalg.solve(a, x))
    return np.sum(x)


def test_systems_stay_where_an_inverse_is_more_work_or_may_not_be_asked_for():
    assert systems(agrees(filtered, *started(20)))[0] > 0, "of many rows"
    (x, (a, *_)), zeros = started(4), np.zeros((4, 4))
    program = sg.compile(lambda x, a, n: sg.fori_loop(0, n, lambda _, x: np.linalg.solve(a, x), x)).compile(
        x, a, np.array(2)
    )
    np.testing.assert_array_equal(program(x, zeros, np.array(0)), x)  # there is no turn, and no inverse
    np.testing.assert_allclose(program(x, a, np.array(2)), np.linalg.solve(a, np.linalg.solve(a, x)))
    assert systems(program) == (1, 0)


def test_numerics_of_ieee_and_programs_without_loops_solve():
    x, matrices = started(2)
    assert systems(sg.grad(filtered).compile(x, matrices, numerics="ieee"))[1] == 0
    graph = sg.trace(lambda a, x: np.linalg.solve(a, x) + np.linalg.solve(a, 2 * x), matrices[0], x).graph
    assert use_inverses(graph) is graph


def ill_conditioned(n, condition):
    left, right = (np.linalg.qr(RNG.standard_normal((n, n)))[0] for _ in range(2))
    return (left * np.geomspace(1, 1 / condition, n)) @ right


@pytest.mark.parametrize("n", [2, 3, 6, 12])
def test_solutions_of_ill_conditioned_systems_are_as_exact_as_of_solve(n):
    """Products with inv(A) would be a hundred times as far off for some."""

    def both(x, matrices):
        solutions = []
        for a in matrices:
            b = x * np.ones(n)
            solutions.append(np.linalg.solve(a, a @ b))
            x = np.sum(b) / n
        return np.stack(solutions)

    matrices = np.stack([ill_conditioned(n, 1e9) for _ in range(200)])
    program = sg.compile(both).compile(1.0, matrices)
    assert "np.linalg.solve" not in re.sub("#.*", "", program.source)
    error = np.abs(program(1.0, matrices) - 1).max()
    exact = max(np.abs(np.linalg.solve(a, a @ np.ones(n)) - 1).max() for a in matrices)
    assert error < 10 * exact


def test_the_inverse_of_two_rows_is_that_of_numpy():
    for scale in (1.0, 1e200, 1e-200):
        for _ in range(50):
            a = scale * RNG.standard_normal((2, 2)) * np.exp(4 * RNG.standard_normal((2, 1)))
            bound = 1e-15 * np.linalg.cond(a) * np.abs(np.linalg.inv(a)).max()
            np.testing.assert_allclose(_inverse(a), np.linalg.inv(a), rtol=0, atol=8 * bound)
    for a in np.zeros((2, 2)), np.ones((2, 2)), np.array([[0.0, 1], [0, 2]]):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            _inverse(a)
    assert np.isnan(_inverse(np.array([[np.nan, 1], [0, 1]]))).any()
