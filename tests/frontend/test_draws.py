"""Random numbers that are drawn while a function is traced: as many as in Python, and told where they are frozen."""

import copy
import os
import random
import secrets
import time
import uuid
from datetime import date, datetime
from random import gauss
from time import perf_counter

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


# ---- clocks and the system's random generator

SYSTEM = random.SystemRandom()


def timed(x):
    start = perf_counter()
    y = np.sin(x)
    print("took", perf_counter() - start)
    return y


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: x * os.urandom(1)[0], r"os\.urandom"),
        (lambda x: x * secrets.randbelow(100), r"secrets\.randbelow"),
        (lambda x: x * secrets.token_bytes(1)[0], r"secrets\.token_bytes"),
        (lambda x: x * secrets.choice([1.0, 2.0]), r"SystemRandom\.choice"),
        (lambda x: x * SYSTEM.random(), r"SystemRandom\.random"),
        (lambda x: x * random.SystemRandom().random(), r"SystemRandom\.random"),
        (lambda x: x * float(uuid.uuid4().int), r"uuid\.uuid4"),
        (lambda x: x * time.time(), r"time\.time"),
        (lambda x: x * time.localtime().tm_sec, r"time\.localtime"),
        (lambda x: x * datetime.now().microsecond, r"datetime\.datetime\.now"),
        (lambda x: x * date.today().day, r"datetime\.date\.today"),
        (timed, r"time\.perf_counter"),
    ],
)
def test_values_that_change_from_call_to_call_are_told(f, what):
    with pytest.warns(FrozenRandomWarning, match=f"^{what} is called while a function is traced") as caught:
        sg.compile(f)(X)
    assert all("pass the result as an argument" in str(warning.message) for warning in caught)
    assert len(caught) == (2 if f is timed else 1)  # lines


def with_a_date_that_is_given(x):
    return x * time.gmtime(86400.0).tm_mday * datetime(2026, 1, 3).day * len(time.strftime("%d", time.gmtime(0)))


def test_a_time_that_is_given_is_not_told():
    np.testing.assert_allclose(sg.compile(with_a_date_that_is_given)(X), 12 * X)


def timed_loop(x):
    total = 0.0
    for i in range(50):
        start = time.time()
        total = total + np.sin(x * i)
        print("took", time.time() - start)
    return np.sum(total)


def timed_branch(x):
    if x[0] > 0:
        start = time.monotonic()
        y = np.sum(np.sin(x))
        print("took", time.monotonic() - start)
    else:
        y = np.sum(x)
    return y


def until_a_deadline(x):
    end = time.monotonic() + 60.0
    while np.sum(x) > 1e-3 and time.monotonic() < end:
        x = x / 2
    return np.sum(x)


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("f", [timed_loop, timed_branch, until_a_deadline])
def test_a_body_may_read_a_clock(f, target, capsys):
    """Both of its traces find the same time, so that they are alike; what is printed is that of one of them."""
    with pytest.warns(FrozenRandomWarning, match="is called while"):
        slope = sg.grad(f, target=target)(X)
    with pytest.warns(FrozenRandomWarning):
        sg.check_grads(f, (X,))
    assert slope.shape == X.shape and ("took" in capsys.readouterr().out) == (f is not until_a_deadline)


def test_a_loop_that_waits_ends():
    def f(x):
        total = 0.0
        for i in range(30):
            end = time.perf_counter() + 1e-4
            while time.perf_counter() < end:
                pass
            total = total + x * i
        return total

    with pytest.warns(FrozenRandomWarning):
        np.testing.assert_allclose(sg.compile(f)(X), 435 * X)


def test_a_branch_does_not_ask_the_systems_generator():
    with pytest.raises(UnsupportedError, match="draws random numbers in a loop or a branch"):
        sg.compile(lambda x: x * os.urandom(1)[0] if x[0] > 0 else x)(X)
