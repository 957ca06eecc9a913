"""Random numbers that are drawn while a function is traced: as many as in Python, and told where they are frozen."""

import copy
import random
from random import gauss

import numpy as np
import pytest
from numpy.random import RandomState, default_rng, uniform

import symgrad as sg
from symgrad.errors import FrozenRandomWarning, UnsupportedError
from symgrad.frontend import draws

X = np.array([0.7, -0.3, 1.9])
RNG = default_rng(1)
CONFIG = {"random": {"rng": default_rng(2), "python": random.Random(3)}}


def in_a_list(x):
    rng = default_rng(0)
    return np.sum(np.array([rng.normal() * x[0] for _ in range(20)])) * rng.normal()


def in_a_loop(x):
    rng, total = default_rng(0), 0.0
    for _ in range(20):
        total = total + rng.normal() * x
    return total * rng.normal()


def in_a_while(x):
    rng, total, i = RandomState(0), 0.0, 0
    while i < 20:
        total = total + rng.normal() * x
        i += 1
    return total * rng.normal()


def in_a_sum_of_pythons(x):
    rng = random.Random(0)
    return sum(rng.random() * x[0] for _ in range(20)) * rng.random()


def of_a_copy(x):
    rng = copy.deepcopy(RNG)
    return [rng.normal() * v for v in x][-1] * rng.random()


@pytest.mark.parametrize("f", [in_a_list, in_a_loop, in_a_while, in_a_sum_of_pythons, of_a_copy])
@pytest.mark.parametrize("level", [0, 2])
def test_seeded_draws_are_those_of_python(f, level):
    """And nobody is warned: the next call draws the same numbers."""
    np.testing.assert_allclose(sg.compile(f, optimize=level)(X), f(X), rtol=1e-13)


def by_a_name(x):
    return x * uniform()


def by_python(x):
    return x * random.random()


def by_a_name_of_python(x):
    return x * gauss(0.0, 1.0)


def in_a_dict(x):
    return x * CONFIG["random"]["rng"].normal()


def of_a_generator_of_python(x):
    return x * CONFIG["random"]["python"].random()


def shuffled(x):
    rows = [0, 1, 2]
    random.shuffle(rows)
    return x[rows]


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (by_a_name, r"np\.random\.uniform is drawn from"),
        (by_python, r"random\.random is drawn from"),
        (by_a_name_of_python, r"random\.gauss is drawn from"),
        (in_a_dict, "a random generator is drawn from"),
        (of_a_generator_of_python, "a random generator is drawn from"),
        (shuffled, r"random\.shuffle is drawn from"),
        (lambda x: x * default_rng().normal(), "without a seed is made"),
        (lambda x: x * RandomState().normal(), "without a seed is made"),
        (lambda x: x * random.Random().random(), "without a seed is made"),
        (lambda x: x * np.random.Generator(np.random.PCG64()).normal(), "without a seed is made"),
    ],
)
def test_draws_that_are_frozen_are_told(f, what):
    with pytest.warns(FrozenRandomWarning, match=what) as caught:
        sg.compile(f)(X)
    assert len(caught) == 1 and "as an argument" in str(caught[0].message)


def test_a_loop_that_is_traced_once_takes_back_what_a_library_has_drawn():
    norm = pytest.importorskip("scipy.stats").norm

    def f(x):
        total = 0.0
        for _ in range(20):
            total = total + norm.rvs(size=1)[0] * x
        return total

    np.random.seed(1)
    want = f(X)
    np.random.seed(1)
    with pytest.warns(FrozenRandomWarning):
        np.testing.assert_allclose(sg.compile(f)(X), want)


def test_a_branch_is_traced_whatever_the_value():
    with pytest.raises(UnsupportedError, match="draws random numbers in a loop or a branch"):
        sg.compile(lambda x: x * RNG.normal() if x[0] > 0 else x)(X)


# ---- permutations of traced arrays

A = np.arange(12.0).reshape(4, 3)


def rows_shuffled(x, rng):
    y = x * 2
    rng.shuffle(y)
    return y


def made_and_shuffled(x, rng):
    y = np.arange(12.0).reshape(4, 3)
    rng.shuffle(y)
    return y * x


def columns_shuffled(x, rng):
    y = x.copy()
    rng.shuffle(y, axis=1)
    return y


@pytest.mark.parametrize("make", [default_rng, RandomState])
@pytest.mark.parametrize(
    "f",
    [
        rows_shuffled,
        made_and_shuffled,
        lambda x, rng: rng.permutation(x),
        lambda x, rng: rng.permutation(x[:, 0]) * rng.permutation(3)[0],
        lambda x, rng: rng.choice(x[:, 0], 2),
    ],
)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_permutations(f, make, level):
    want = f(A.copy(), make(5))
    np.testing.assert_array_equal(sg.compile(lambda x: f(x, make(5)), optimize=level)(A), want)
    if f is rows_shuffled and make is default_rng:
        np.testing.assert_array_equal(
            sg.compile(lambda x: columns_shuffled(x, make(5)), optimize=level)(A), columns_shuffled(A.copy(), make(5))
        )


@pytest.mark.parametrize(
    "step",
    [
        lambda: None,
        lambda: np.random.random(),
        lambda: np.random.standard_normal(),
        lambda: np.random.standard_normal(),
        lambda: np.random.seed(3),
        lambda: np.random.bytes(3),
        lambda: np.random.set_state(RandomState(5).get_state()),
    ],
)
def test_a_state_that_was_read_before_is_that_of_now(step):
    shared = np.random.mtrand._rand
    before = shared.get_state(legacy=False)
    try:
        for _ in range(3):
            known = draws._state(shared)
            step()
            assert draws._same(draws._state(shared), shared.get_state(legacy=False))
            assert draws._is_changed(shared, known) == (not draws._same(known, shared.get_state(legacy=False)))
    finally:
        shared.set_state(before)
