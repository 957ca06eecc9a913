"""Updates that are linear in the state of a loop, as products of it with factors that are made before the loop."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.analysis.cost import is_work
from symgrad.core.region import regions_of
from symgrad.ops.control import SCAN

RNG = np.random.default_rng(0)


def turns(program):
    """Return the operations of an iteration of each loop, and how many of them are matrix products."""
    bodies = [regions_of(x)[0].nodes for x in program.graph.live if x.op is SCAN]
    works = [[x for x in nodes if is_work(x)] for nodes in bodies]
    return [(len(nodes), sum(x.op.contracts for x in nodes)) for nodes in works]


def agree(f, args, rtol=1e-9, **options):
    """The value and the gradients are those of the program as it was traced; the compiled program."""
    every = sg.value_and_grad(f, argnums=tuple(range(len(args))))
    fast, plain = every.compile(*args, **options), every.compile(*args, optimize=0)
    (value, found), (expected, gradients) = fast(*args), plain(*args)
    np.testing.assert_allclose(value, expected, rtol=rtol)
    for x, y in zip(found, gradients, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * max(1.0, np.max(np.abs(y))))
    return fast


# ---- programs


def runge_kutta(A, x, h):
    for _ in range(40):
        k1 = A @ x
        k2 = A @ (x + 0.5 * h * k1)
        k3 = A @ (x + 0.5 * h * k2)
        k4 = A @ (x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum(x**2)


def rotated(rates, m):
    basis = np.zeros((3, 3, 3))
    for i, j, k in (0, 1, 2), (1, 2, 0), (2, 0, 1):
        basis[i, k, j], basis[i, j, k] = 1, -1
    for rate in rates:
        angle = np.sqrt(rate @ rate)
        cross = np.tensordot(rate, basis, 1)
        turned = m @ cross
        m = m + np.sin(angle) / angle * turned + (1 - np.cos(angle)) / angle**2 * (turned @ cross)
    return np.sum(m[0] * m[1]) + m[2, 2]


def forced(A, b, x, us):
    total = 0.0
    for u in us:
        x = x - 0.01 * (A @ x - b * u)
        total = total + np.sum(np.tanh(x))
    return total


def from_both_sides(A, B, x):
    for _ in range(40):
        x = x / 2 + 0.1 * (A @ x + x @ B) + x
        x = x / np.sqrt(np.sum(x * x))
    return np.sum(x[0] * x[1])


def weighted(e, A, x):
    for _ in range(40):
        x = 0.3 * x + e * x / 9 - 0.2 * (x @ A) * e + (A @ (e * x)) * 0.1 + 0.1 * (A @ (A @ x))
    return np.sum(np.sin(x))


def columns(e, A, x):
    for _ in range(40):
        x = x * 0.9 + e[:, None] * (A @ x) * 0.1 - (x * e) * 0.2
    return np.sum(np.sin(x))


def mixed(stay, P, p):
    for s in stay:
        p = s * p + (1 - s) * (p @ P)
    return np.sum(p**3)


def backwards(A, x, us):
    def turn(x, u):
        y = x + 0.1 * (A @ x) + u
        return y, x * y

    x, ys = sg.scan(turn, x, us, reverse=True)
    return np.sum(x) + np.sum(ys**3)


def normal(*shape):
    return RNG.normal(size=shape)


PROGRAMS = {
    runge_kutta: (normal(6, 6), normal(6), np.float64(0.1)),
    rotated: (normal(40, 3), np.eye(3)),
    forced: (normal(5, 5), normal(5), normal(5), normal(40)),
    from_both_sides: (normal(4, 4), normal(5, 5), normal(4, 5)),
    weighted: (normal(5), normal(5, 5) / 5, normal(5)),
    columns: (normal(5), normal(5, 5) / 5, normal(5, 5)),
    mixed: (RNG.uniform(size=40), RNG.dirichlet(np.ones(6), 6), RNG.dirichlet(np.ones(6))),
    backwards: (normal(5, 5), normal(5), normal(40, 5)),
}


PAIR = normal(2, 2), normal(2), normal(2), normal(40)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_is_linear_in_a_state_keeps_value_and_gradients(f):
    args = PROGRAMS[f]
    fast = agree(f, args)
    ways = [normal(*x.shape) for x in args]
    ahead, behind = (f(*[x + h * way for x, way in zip(args, ways, strict=True)]) for h in (1e-6, -1e-6))
    along = sum(np.sum(g * way) for g, way in zip(fast(*args)[1], ways, strict=True))
    np.testing.assert_allclose(along, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-7)


def test_newtons_method_from_specs():
    def f(c, x):
        cost = lambda w: np.sum(np.log(np.cosh(x @ w - 1))) + 0.5 * np.sum(np.exp(c) * w**2)
        w = np.zeros(x.shape[1])
        for _ in range(20):
            w = w - np.linalg.solve(sg.hessian(cost)(w), sg.grad(cost)(w))
        return np.sum(w**3)

    product = sg.hvp(f).compile("float64[d]", "float64[n, d]", "float64[d]")
    args = (normal(2), normal(5, 2), normal(2))
    h = 1e-6
    up, down = (sg.grad(f)(args[0] + step * args[2], args[1]) for step in (h, -h))
    np.testing.assert_allclose(product(*args), (up - down) / (2 * h), rtol=1e-5, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("f", [runge_kutta, rotated, mixed], ids=lambda f: f.__name__)
def test_second_derivatives_are_those_of_the_program_as_it_is_written(f):
    args = PROGRAMS[f]
    fast, plain = (sg.hessian(f).compile(*args, optimize=level)(*args) for level in (2, 0))
    np.testing.assert_allclose(fast, plain, rtol=1e-6, atol=1e-9 * np.max(np.abs(plain)))


@pytest.mark.parametrize(
    ("f", "there", "back"),
    [(runge_kutta, (1, 1), (1, 1)), (rotated, (1, 1), (1, 1)), (mixed, (1, 1), (1, 1)), (forced, (2, 1), (2, 1))],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_turn_is_one_product_there_and_one_back(f, there, back, usual_sizes):
    assert turns(agree(f, PROGRAMS[f])) == [there, back]


def test_a_loop_that_is_not_differentiated_has_factors_as_well():
    args = PROGRAMS[runge_kutta]
    program = sg.compile(runge_kutta).compile(*args)
    assert turns(program) == [(1, 1)]
    np.testing.assert_allclose(program(*args), runge_kutta(*args), rtol=1e-12)


def test_a_value_and_its_derivative_run_one_loop():
    args = PROGRAMS[runge_kutta]
    both = sg.compile(lambda *args: (runge_kutta(*args), sg.grad(runge_kutta)(*args))).compile(*args)
    assert turns(both) == [(1, 1), (1, 1)]


def test_few_turns_on_large_arrays_stay_as_they_are():
    def f(A, x):
        for _ in range(20):
            x = x + 0.1 * (A @ x)
        return np.sum(x)

    few, many = ((normal(n, n) / n, normal(n)) for n in (300, 8))
    assert [sum(x) for x in turns(agree(f, many))] == [2, 2]
    assert [sum(x) for x in turns(agree(f, few))] == [4, 4]


def test_factors_of_each_turn_take_little_memory():
    def f(A, x, hs):
        for h in hs:
            x = x + h * (A @ x)
        return np.sum(x)

    small, large = ((normal(n, n) / n, normal(n), normal(200) / 9) for n in (6, 40))
    assert [sum(x) for x in turns(agree(f, small))] == [2, 2]
    assert all(sum(x) > 2 for x in turns(agree(f, large)))


def test_what_is_added_once_and_read_twice_stays():
    def f(A, x):
        total = 0.0
        for _ in range(40):
            y = A @ x
            total = total + np.sum(np.sin(y))
            x = x + 0.1 * y
        return total + np.sum(x)

    assert turns(sg.compile(f).compile(normal(60, 60) / 60, normal(60)))[0][1] == 1


def test_a_loop_that_a_test_ends_has_factors_that_are_the_same_in_all_turns():
    def f(A, x, h):
        k = 0
        while np.sum(x * x) > 1e-3 and k < 100:
            y = x - h * (A @ x)
            x = y - h * (A @ y) / 3.0
            k = k + 1
        return np.sum(x) + k

    args = np.eye(5) + 0.1 * normal(5, 5), normal(5), np.float64(0.2)
    assert [x[1] for x in turns(agree(f, args))] == [1, 1]
    assert agree(f, (args[0], 1e-4 * args[1], args[2]))(args[0], 1e-4 * args[1], args[2])[0] == np.sum(1e-4 * args[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_do_not_change_the_dtype_of_a_state(dtype):
    def f(A, e, x):
        for _ in range(40):
            x = (A @ (1 - x) + e * x) / 3 + 1 - x * 0.5
        return np.sum(x)

    args = [(normal(*shape) / 4).astype(dtype) for shape in ((5, 5), (5,), (5,))]
    fast = agree(f, args, rtol=1e-4 if dtype == "float32" else 1e-9)
    assert turns(fast)[0] == (2, 1)
    value, gradients = fast(*args)
    assert {x.dtype for x in (value, *gradients)} == {np.dtype(dtype)}


def test_the_number_of_turns_may_be_a_symbol(usual_sizes):
    every, args = sg.value_and_grad(rotated, argnums=(0, 1)), PROGRAMS[rotated]
    program = every.compile("float64[n, 3]", "float64[3, 3]")
    assert turns(program) == [(1, 1), (1, 1)]
    for x, y in zip(program(*args)[1], every.compile(*args, optimize=0)(*args)[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{"numerics": "ieee"}, {"optimize": 1}])
def test_what_is_rounded_as_written_keeps_its_products(options):
    assert turns(agree(runge_kutta, PROGRAMS[runge_kutta], **options))[0][1] == 4


def test_states_of_few_numbers_stay_numbers_where_that_is_faster():
    def f(A, x, hs):
        for h in hs:
            x = x + h * (A @ x)
        return np.sum(x)

    for fast in (agree(f, (normal(2, 2), normal(2), np.full(50, 0.01))), agree(forced, PAIR)):
        assert [x[1] for x in turns(fast)] == [0, 0]


# ---- random updates


def random_update(rng, shape):
    """A function of a state and of what turns read, which is often linear in the state."""
    kinds = "each left right number add minus rest nest tanh over".split()

    def grown(depth):
        if depth == 0:
            return lambda x, s: x
        kind, f, g = rng.choice(kinds), grown(depth - 1), grown(rng.integers(0, depth))
        c = float(rng.uniform(0.2, 0.6))
        vector = len(shape) == 1
        return {
            "each": lambda x, s: f(x, s) * (s["e"] if vector else rng_column(s, c)) * c,
            "left": lambda x, s: s["A"] @ f(x, s),
            "right": lambda x, s: f(x, s) @ s["B"],
            "number": lambda x, s: c * f(x, s) * s["h"],
            "add": lambda x, s: (f(x, s) + g(x, s)) * 0.5,
            "minus": lambda x, s: c * x - f(x, s) * s["u"],
            "rest": lambda x, s: f(x, s) + s["h"] * 0.1 - 1,
            "nest": lambda x, s: s["A"] @ (x + f(x, s)) * s["u"],
            "tanh": lambda x, s: np.tanh(f(x, s)) + g(x, s) * c,
            "over": lambda x, s: f(x, s) / 3 + -g(x, s) / (2 + s["u"] ** 2),
        }[kind]

    def rng_column(s, c):
        return s["e"][:, None] if c < 0.4 else s["e"]

    return grown(4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_updates_keep_value_and_gradients(seed):
    rng = np.random.default_rng(seed)
    shape = (4,) if seed % 2 else (4, 4)
    update, of_turn = random_update(rng, shape), (lambda u: 1.0, np.cos)[rng.integers(2)]

    def f(A, B, e, h, x, us):
        total = 0.0
        for u in us:
            s = {"A": A, "B": B, "e": e * of_turn(u), "h": h, "u": u}
            x = update(x, s)
            total = total + np.sum(x * x)
        return total

    draw = lambda *shape: rng.normal(size=shape) * 0.4
    agree(f, (draw(4, 4), draw(4, 4), draw(4), np.float64(0.5), draw(*shape), draw(12)))
