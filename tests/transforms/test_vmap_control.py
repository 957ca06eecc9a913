"""vmap of loops and branches against Python's loop over the inputs: values and derivatives, whichever comes first."""

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.graph import verify
from symgrad.core.interpret import interpret
from symgrad.core.region import with_nested
from symgrad.errors import UnsupportedError
from symgrad.frontend.bodies import repeat
from symgrad.ops.choice import WHERE
from symgrad.ops.control import COND, SCAN
from tests.forms import count
from tests.targets.numpy.test_control_source import Maker, NumberMaker

RNG = np.random.default_rng(11)
W, XS = RNG.standard_normal((3, 3)) / 2, RNG.standard_normal((4, 5, 3))


def evaluated(f, *args):
    """The result of the graph that a function leaves, evaluated node by node."""
    program = sg.compile(f).trace(*args)
    verify(program.graph)
    feeds = {leaf.node: x for leaf, x in zip(program.leaves, tree.flatten(args)[0], strict=True) if leaf.node}
    with np.errstate(all="ignore"):
        values = iter(interpret(program.graph.outputs, feeds))
    leaves, structure = tree.flatten(program.outputs)
    return tree.unflatten(structure, [next(values) if isinstance(x, sg.Variable) else x for x in leaves])


def nodes_of(f, *args):
    """The operators of what is computed, bodies included."""
    return [node.op for node in with_nested(sg.compile(f).trace(*args).graph.live)]


def axes_of(in_axes, args):
    return in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)


def rows_of(f, in_axes, args):
    axes = axes_of(in_axes, args)
    size = next(np.shape(x)[a] for x, a in zip(args, axes, strict=True) if a is not None)
    return [f(*[x if a is None else np.take(x, i, a) for x, a in zip(args, axes, strict=True)]) for i in range(size)]


def check(f, args, in_axes=0, rtol=1e-13):
    expected = tree.tree_map(lambda *ys: np.stack(ys), *rows_of(f, in_axes, args))
    found = evaluated(sg.vmap(f, in_axes), *args)
    for x, y in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
        assert (np.shape(x), x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=rtol)


# ---- values


def recurrence(W, xs):
    return sg.scan(lambda h, x: (np.tanh(h @ W + x), h.sum()), np.zeros(3), xs)


@pytest.mark.parametrize(
    ("in_axes", "args"),
    [
        ((None, 0), (W, XS)),
        ((None, 1), (W, XS)),
        ((None, -1), (W, XS.transpose(1, 2, 0))),
        ((0, None), (np.stack([W, 2 * W]), XS[0])),
        ((-1, 0), (np.stack([W, 2 * W], -1), XS[:2])),
    ],
)
def test_a_scan_along_any_axes(in_axes, args):
    check(recurrence, args, in_axes)


def halved(x):
    return sg.while_loop(lambda v: v[0] > 1, lambda v: (v[0] * 0.5, v[1] + 1), (x, 0))


def collatz(n):
    step = lambda n: sg.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
    return sg.while_loop(lambda s: s[0] > 1, lambda s: (step(s[0]), s[1] + 1), (n, 0))


def powers(n, x):
    return sg.fori_loop(0, n, lambda i, s: (s[0] * x + i, s[1] - 1), (1.0, 5))


def inner_whiles(x, n):
    def turn(i, s):
        return sg.while_loop(lambda v: v > 1, lambda v: v * 0.5 - i * 0.01, s + x[i])

    return sg.fori_loop(0, n, turn, 0.5)


def sides(x, y):
    return sg.cond(x > 0, lambda: (np.sin(x), 1.0, y), lambda: (x * y, 2.0, y))


def chosen(i, x):
    return sg.switch(i, [np.sin, np.cos, np.exp], x)


def written(x, k):
    def turn(i, a):
        a = a.copy()
        a[k] = a[k] + x * i
        return a

    return sg.fori_loop(0, 3, turn, np.zeros(4))


def checkpointed(x):
    return sg.checkpoint(lambda y: sg.while_loop(lambda v: v > 1, lambda v: v / y, y + 9))(x + 1.5)


def downwards(xs):
    return sg.scan(lambda c, x: (c * 0.5 + x, c), 0.0, xs, reverse=True)


ROW, NUMBERS, COUNTS = XS[:, 0, 0], np.array([0.3, 5.0, 100.0, 7.0]), np.array([3, 0, 5, 1])
PROGRAMS = {
    "until": (halved, (NUMBERS,)),
    "branches in a loop": (collatz, (np.array([1, 6, 27, 7, 97]),)),
    "other lengths": (powers, (COUNTS, NUMBERS)),
    "other lengths alone": (powers, (COUNTS, 0.7), (0, None)),
    "one length": (powers, (np.int64(4), NUMBERS), (None, 0)),
    "loops in a loop": (inner_whiles, (RNG.uniform(0, 9, (4, 5)), COUNTS)),
    "both sides": (sides, (ROW, NUMBERS)),
    "one side": (sides, (np.float64(0.3), NUMBERS), (None, 0)),
    "the other side": (sides, (np.float64(-0.3), NUMBERS), (None, 0)),
    "several sides": (chosen, (np.array([0, 1, 2, 5, -1]), np.arange(5.0))),
    "places": (written, (NUMBERS, np.array([0, 3, 1, 0]))),
    "a checkpoint": (checkpointed, (np.array([1.0, 2.0, 3.0]),)),
    "downwards": (downwards, (XS[..., 0],)),
    "map": (lambda x: sg.map(lambda r: r @ r, x), (XS,), 1),
    "associative": (lambda x: sg.associative_scan(np.multiply, x), (XS,), 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_input_gets_its_own(name):
    check(*PROGRAMS[name])


def test_float32_stays():
    check(lambda xs: sg.scan(lambda c, x: (c * 0.5 + x, c), np.float32(0), xs), (XS[..., 0].astype("f4"),), rtol=1e-6)


def test_an_ensemble_of_ensembles():
    xs = RNG.uniform(0, 99, (3, 4))
    found = evaluated(sg.vmap(sg.vmap(halved), 1), xs)
    np.testing.assert_array_equal(found, np.moveaxis([[halved(x) for x in row] for row in xs.T], -1, 0))


def test_a_loop_in_a_side_that_an_input_does_not_take_ends():
    def f(x):
        down = lambda: sg.while_loop(lambda v: v > 1, lambda v: v * 0.5, x)
        up = lambda: sg.while_loop(lambda v: v != 0, lambda v: v + 1, x)  # never ends where x > 0
        return sg.cond(x > 0, down, up)

    check(f, (np.array([5.0, -3.0, 0.5, -4.0]),))


def test_a_loop_that_all_share_does_not_run_where_no_input_takes_its_side():
    def f(x, k):
        return sg.cond(x > 0, lambda: x * sg.while_loop(lambda v: v != 0, lambda v: v - 1, k), lambda: x)

    check(f, (np.array([-1.0, -2.0]), np.int64(-1)), (0, None))


def test_places_beyond_the_end_are_not_read_once_an_input_is_done():
    def found(table, x):
        goes_on = lambda i: sg.cond(i < 4, lambda: table[i] < x, lambda: False)
        return sg.while_loop(goes_on, lambda i: i + 1, 0)

    check(found, (np.arange(4.0), np.array([-1.0, 1.5, 2.5, 9.0])), (None, 0))

    def summed(table, n):
        return sg.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + table[s[0]]), (0, 0.0))

    check(summed, (np.arange(4.0), np.array([1, 4, 0])), (None, 0))


def test_a_place_that_all_share_is_not_read_where_no_input_takes_its_side():
    def owed(income, rates, steps):
        def turn(k, owed):
            more = lambda: sg.cond(income > steps[k + 1], lambda: steps[k + 1], lambda: income)
            upper = sg.cond(k < 2, more, lambda: income)
            return sg.cond(income > steps[k], lambda: owed + rates[k] * (upper - steps[k]), lambda: owed)

        return sg.fori_loop(0, 3, turn, 0.0)

    args = np.array([5.0, 20.0, 90.0, 1.0]), np.array([0.1, 0.2, 0.4]), np.array([2.0, 10.0, 50.0])
    check(owed, args, (0, None, None))
    check(
        lambda x, table, k: sg.cond(x > 6, lambda: table[k], lambda: x),
        (args[0][:1], args[1], np.int64(7)),
        (0, None, None),
    )


MATRICES = np.stack([np.diag([2.0, 3.0]), np.ones((2, 2)), np.full((2, 2), np.nan), np.array([[2.0, 1.0], [1.0, 1.0]])])
FACTORISATIONS = [
    lambda A: np.linalg.solve(A, np.ones(2)),
    np.linalg.inv,
    np.linalg.cholesky,
    np.linalg.eigvalsh,
    np.linalg.svdvals,
    np.linalg.pinv,
    lambda A: np.linalg.eigh(A)[0],
    lambda A: np.linalg.svd(A)[1],
    lambda A: np.linalg.lstsq(A, np.ones(2))[0],
]


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("factorise", FACTORISATIONS)
def test_a_matrix_of_another_side_is_not_factorised(factorise, level):
    def f(A):
        regular = lambda: np.sum(factorise(A))
        return sg.cond(np.abs(A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]) > 0.1, regular, lambda: 0.0)

    check_at(level, f, (MATRICES,))
    check_at(level, f, (MATRICES[1:3],))  # none is regular
    if factorise is not np.linalg.pinv:
        check_at(level, sg.grad(f), (MATRICES[[0, 1, 3]],))


@pytest.mark.parametrize("factorise", [np.linalg.inv, np.linalg.cholesky])
def test_a_matrix_that_all_share_is_factorised_on_one_side(factorise):
    f = lambda x, A: sg.cond(x > 0, lambda: x * np.sum(factorise(A)), lambda: x)
    for numbers in (np.array([1.0, -2.0]), np.array([-1.0, -2.0])):  # with a singular one that nobody factorises
        check(f, (numbers, np.diag([2.0, 3.0]) if numbers[0] > 0 else np.zeros((2, 2))), (0, None))


# ---- what is made of them


def test_what_all_share_stays_one_loop_and_one_branch():
    counted = lambda x, n: sg.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]
    found = nodes_of(sg.vmap(counted, (0, None)), NUMBERS, np.int64(3))
    assert found.count(SCAN) == 1 and WHERE not in found
    found = nodes_of(sg.vmap(sides, (None, 0)), 0.3, NUMBERS)
    assert found.count(COND) == 1 and WHERE not in found
    found = nodes_of(sg.vmap(sides), ROW, NUMBERS)
    assert COND not in found and WHERE in found


def stacked_until(x, read):
    """Return a function of a stack that has one number for each iteration until the state is above 10."""
    (final,), (stack,), _ = repeat(
        x.graph,
        lambda carry, place, slices: ([carry[0] * 2], [carry[0]]),
        [x],
        20,
        test=lambda carry, place: carry[0] < 10,
    )
    return final * read(stack)


READS = {
    "as an array": lambda stack: np.sum(stack),
    "as a result": lambda stack: stack,
    "number by number": lambda stack: stack * 2,
    "for zeros of its length": lambda stack: np.sum(np.ones(stack.shape)),
    "in a loop": lambda stack: sg.fori_loop(0, 2, lambda i, s: s + stack[i], 0.0),
    "in a loop of another length": lambda stack: sg.scan(lambda c, x: (c + x, None), 0.0, stack)[0],
}


@pytest.mark.parametrize("name", READS)
def test_a_stack_of_other_lengths_is_refused(name):
    with pytest.raises(UnsupportedError) as caught:
        sg.vmap(lambda x: stacked_until(x, READS[name])).trace(NUMBERS)
    assert caught.value.fact == (
        "vmap: stacked outputs of a loop are ragged: the number of iterations depends on the input"
    )


def test_the_length_of_a_stack_is_a_number_of_its_own_for_each():
    f = lambda x: stacked_until(x, lambda stack: stack.shape[0] * 1.0)
    x = np.array([0.3, 4.0, 20.0])
    np.testing.assert_array_equal(evaluated(sg.vmap(f), x), x * [64 * 6, 4 * 2, 0])


def test_a_stack_of_one_length_is_an_array():
    f = lambda x, y: np.sum(stacked_until(x, lambda stack: stack * y))
    np.testing.assert_allclose(evaluated(sg.vmap(f, (None, 0)), 0.3, NUMBERS), 0.3 * 63 * 19.2 * NUMBERS)


def test_a_test_that_reads_the_number_of_the_turn():
    def f(x, n):
        final, _, _ = repeat(
            x.graph, lambda carry, *_: ([carry[0] * 2], []), [x], 20, test=lambda carry, place: place < n
        )
        return final[0]

    with pytest.raises(UnsupportedError) as caught:
        sg.vmap(f).trace(NUMBERS, COUNTS)
    assert caught.value.instead == "Count the iterations in the carry: (i + 1, ...)."
    np.testing.assert_allclose(evaluated(sg.vmap(f, (0, None)), NUMBERS, np.int64(3)), 8 * NUMBERS)


# ---- derivatives: vmap of them, and them of vmap


def grown(x):
    y, n = sg.while_loop(lambda s: s[0] < 10, lambda s: (s[0] * x + np.sin(s[0]) * 0.1, s[1] + 1), (x + 1, 0))
    return y * n


def newton(a):
    far = lambda v: np.abs(v * v - a) > 1e-12 * a
    return sg.while_loop(far, lambda v: 0.5 * (v + a / v), 1.0) ** 2 * a


def pieces(x):
    return sg.cond(x > 1, lambda: np.log(x - 1) * x, lambda: np.sqrt(1 - x) * x**3)


def loops_in_branches(x):
    until = lambda: sg.while_loop(lambda v: v > 1, lambda v: v * 0.5 * np.cos(0.01 * v), x)
    return sg.cond(x > 0, until, lambda: sg.fori_loop(0, 3, lambda i, v: v * x + i, x))


def states(h, xs):
    return np.sum(sg.scan(lambda h, x: (np.tanh(h * x + x[::-1]), h.sum()), h, xs)[1] ** 2)


def other_lengths(x, n):
    return sg.fori_loop(0, n, lambda i, s: s * x + np.sin(s * i), x)


def until_in_steps(x):
    until = lambda i, s: sg.while_loop(lambda v: v < 5 + i, lambda v: v * x + 0.1, s * 0.3 + x)
    return sg.fori_loop(0, 3, until, x)


def steps_until(x):
    steps = lambda v: sg.scan(lambda c, z: (c + z * c * 0.1, c), v, np.arange(1.0, 4))[0] * x
    return sg.while_loop(lambda v: v < 20, steps, x)


def gathered(x):
    more = lambda s: sg.cond(s[0] < 4, lambda: s[1] < 3.0, lambda: False)
    return sg.while_loop(more, lambda s: (s[0] + 1, s[1] * x[s[0]] + x[s[0] + 1] * 0.5), (0, x[0]))[1]


DERIVED = {
    "until": (grown, (np.array([1.5, 2.0, 9.5, 3.0, 1.1]),)),
    "newton": (newton, (np.array([2.0, 9.0, 1e4, 0.3]),)),
    "pieces": (pieces, (np.array([0.3, 2.0, 1.5, -1.0]),)),
    "loops in branches": (loops_in_branches, (np.array([5.3, -2.0, 100.5, -1.0]),)),
    "states": (states, (np.ones((2, 3)), XS[:2])),
    "states of one series": (states, (np.ones((2, 3)) * [[1], [2]], XS[0]), (0, None)),
    "other lengths": (other_lengths, (np.array([0.3, 0.5, 0.9]), np.array([0, 3, 5]))),
    "until in steps": (until_in_steps, (np.array([1.3, 2.0, 1.7]),)),
    "steps until": (steps_until, (np.array([1.3, 2.0, 1.7]),)),
    "places": (gathered, (RNG.uniform(0.5, 2, (6, 5)),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_derivatives_commute_with_vmap(name):
    f, args, *rest = DERIVED[name]
    axes = axes_of(rest[0] if rest else 0, args)
    one = lambda g: np.stack(rows_of(lambda *row: evaluated(g, *row), axes, args))
    gradient, hessian = one(sg.grad(f)), one(sg.hessian(f))
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    close(evaluated(sg.vmap(sg.grad(f), axes), *args), gradient)
    close(evaluated(sg.vmap(sg.hessian(f), axes), *args), hessian)
    total = lambda *xs: np.sum(sg.vmap(f, axes)(*xs))
    close(evaluated(sg.grad(total), *args), gradient)
    squares = lambda *xs: np.sum(sg.vmap(sg.grad(f), axes)(*xs) ** 2)
    own = hessian.reshape(len(hessian), gradient[0].size, gradient[0].size)
    each = 2 * np.einsum("ni,nij->nj", gradient.reshape(len(own), -1), own)
    close(evaluated(sg.grad(squares), *args), each.reshape(gradient.shape))
    whole = evaluated(sg.hessian(total), *args).reshape(len(own), own.shape[1], len(own), own.shape[1])
    for i, j in itertools.product(range(len(own)), repeat=2):
        close(whole[i, :, j], own[i] if i == j else 0)


def test_derivatives_of_an_ensemble_are_those_of_differences():
    f, xs, eps = grown, DERIVED["until"][1][0], 1e-6
    slopes = (np.array([f(x + eps) for x in xs]) - np.array([f(x - eps) for x in xs])) / (2 * eps)
    np.testing.assert_allclose(evaluated(sg.vmap(sg.grad(f)), xs), slopes, rtol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_nothing_flows_back_through_a_loop_of_a_side_that_is_not_taken(level):
    twice = lambda start: sg.fori_loop(0, 2, lambda i, s: s * 2, start)
    f = lambda x: sg.cond(x > 0, lambda: twice(np.log(x) ** 2), lambda: x)
    with np.errstate(all="ignore"):
        slopes = sg.grad(lambda xs: np.sum(sg.vmap(f)(xs)), optimize=level)(np.array([0.0, -1.0, 2.0]))
    np.testing.assert_allclose(slopes, [1.0, 1.0, 4 * np.log(2)])


def test_what_is_only_tested_has_no_derivative():
    """Its start has an infinite one at 0, which a cotangent of zero would make NaN."""

    def f(x):
        goes_on = lambda s: (s[0] < 2) & (s[1] < 3)
        return sg.while_loop(goes_on, lambda s: (s[0] + 1.5, s[1] + 1, s[2] * 2), (np.log(x), 0, x))[2]

    with np.errstate(divide="ignore"):
        total = sg.grad(lambda xs: np.sum(sg.vmap(f)(xs)))
        np.testing.assert_array_equal(total(np.array([0.0, 1.0, 9.0])), [8.0, 4.0, 1.0])


def test_jacobians_of_a_recurrence():
    f = lambda xs: recurrence(W, xs)[0]
    stepwise = np.stack([evaluated(sg.jacrev(f), xs) for xs in XS])
    np.testing.assert_allclose(evaluated(sg.vmap(sg.jacrev(f)), XS), stepwise)
    np.testing.assert_allclose(evaluated(sg.vmap(sg.jacfwd(f)), XS), stepwise)


# ---- generated source, other programs


def check_at(level, f, args, in_axes=0, rtol=1e-9):
    """The generated program gives what a Python loop over the inputs gives."""
    with sg.options(optimize=level):
        expected = tree.tree_map(lambda *ys: np.stack(ys), *rows_of(f, in_axes, args))
        found = sg.vmap(f, in_axes)(*args)
    for x, y in zip(tree.flatten(found)[0], tree.flatten(expected)[0], strict=True):
        assert (np.shape(x), x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


until = lambda x, **how: sg.while_loop(lambda s: s < 50, lambda s: s * x + 0.3, x, **how)
steps = lambda x, n, **how: sg.fori_loop(0, n, lambda i, s: s + 0.01 * np.sin(s * x) * i, x, **how)
X = np.array([1.01, 1.5, 1.1])
FURTHER = {
    "checkpointed": (sg.grad(lambda x: steps(x, 40, checkpoint="log")), (X,)),
    "checkpointed lengths": (sg.grad(lambda x, n: steps(x, n, checkpoint=4)), (X, np.array([40, 3, 0]))),
    "checkpointed until": (sg.hessian(lambda x: until(x, checkpoint=8)), (X,)),
    "forward": (lambda x: sg.jvp(until, (x,), (2.0,)), (X,)),
    "forward over reverse": (lambda x: sg.hvp(until)(x, 1.0), (X,)),
    "a root": (sg.grad(lambda p: sg.root(lambda x: x**3 + p * x - 2, 1.0)), (X,)),
    "a fixed point": (sg.grad(lambda p: sg.fixed_point(lambda x: np.cos(p * x * 0.3), 0.5)), (X,)),
    "a rule": (lambda x: sg.grad(doubled)(x), (X,)),
}


@sg.custom_vjp
def doubled(x):
    return until(x)


doubled.defvjp(lambda x: (doubled(x), x), lambda x, g: (2 * g * until(x),))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", FURTHER)
def test_of_all_that_is_made_of_loops(name, level):
    check_at(level, *FURTHER[name])


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("maker", [Maker, NumberMaker])
@pytest.mark.parametrize("seed", range(100, 112))
def test_random_programs(maker, seed):
    """Values and gradients, along random axes."""
    rng, block = np.random.default_rng(seed), maker(seed).block(2, 2)
    axes = (int(rng.integers(0, 2)) if maker is Maker else 0, None if rng.random() < 0.3 else 0)
    shape = (3,) if maker is Maker else ()
    args = [rng.normal(size=(3, *shape) if a == 0 else (*shape, 3)[: len(shape) + (a is not None)]) for a in axes]
    args = [x if np.ndim(x) else np.float64(x) for x in args]
    with np.errstate(all="ignore"):
        check_at(seed % 3, lambda x, y: tuple(block([x, y])), args, axes)
        total = lambda x, y: sum(np.sum(np.sin(z)) for z in block([x, y]))
        check_at(seed % 3, sg.grad(total), args, axes)
        each = np.stack(rows_of(sg.grad(total), axes, args), axes[0])
        sums = sg.grad(lambda x, y: np.sum(sg.vmap(total, axes)(x, y)), optimize=seed % 3)
        np.testing.assert_allclose(sums(*args), each, rtol=1e-8, atol=1e-8)


def test_ensembles_are_those_of_jax():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        theirs = lambda x: jax.lax.while_loop(lambda s: s < 50, lambda s: s * x + 0.3, x)
        np.testing.assert_allclose(sg.vmap(until)(X), jax.vmap(theirs)(X))
        np.testing.assert_allclose(sg.vmap(sg.jacfwd(until))(X), jax.vmap(jax.jacfwd(theirs))(X))
        scanned = lambda h, xs: jax.lax.scan(lambda h, x: (jax.numpy.tanh(h * x), h.sum()), h, xs)[1]
        ours = lambda h, xs: sg.scan(lambda h, x: (np.tanh(h * x), h.sum()), h, xs)[1]
        args = np.ones(3), XS
        axes = (None, 1)
        np.testing.assert_allclose(sg.vmap(ours, axes, 1)(*args), jax.vmap(scanned, axes, 1)(*args))
        found = sg.vmap(sg.jacrev(ours), axes)(*args)
        np.testing.assert_allclose(found, jax.vmap(jax.jacrev(scanned), axes)(*args), rtol=1e-12)
    finally:
        jax.config.update("jax_enable_x64", before)


# ---- Python's own loops and branches


def root_in_python(a):
    x = 1.0
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def stopped_in_python(x, steps):
    for step in steps:
        if x > 5:
            break
        x = x * 1.5 + step
    return x


def sides_in_python(x):
    if x < 1:
        return x * x
    if x < 3:
        return np.log(x)
    return 1 / x


def adaptive_in_python(y):
    t, h = 0.0, 0.1
    while t < 1.0:
        error = h * h * abs(y)
        if error > 0.02:
            h = h * 0.5
            continue
        y, t = y + h * np.cos(y), t + h
        if error < 0.005:
            h = min(h * 1.5, 0.3)
    return y


IN_PYTHON = {
    "until": (root_in_python, (NUMBERS,)),
    "break": (stopped_in_python, (NUMBERS, np.arange(20.0) / 10), (0, None)),
    "early returns": (sides_in_python, (np.array([0.5, 2.0, 30.0]),)),
    "continue": (adaptive_in_python, (NUMBERS,)),
}


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", IN_PYTHON)
def test_of_loops_and_branches_of_python(name, level):
    f, args, *axes = IN_PYTHON[name]
    with sg.options(loops="auto"):
        check_at(level, f, args, *axes)
        check_at(level, sg.grad(f), args, *axes)


# ---- what a reader sees


def lines_of(f, *specs):
    source = sg.vmap(f).source(*specs, optimize=1).program
    return [line.split("  #")[0].strip() for line in source.splitlines() if not line.lstrip().startswith("#")]


def test_an_ensemble_reads_as_it_is_written_by_hand():
    def root(a):
        far = lambda x: np.abs(x * x - a) > 1e-14 * a
        return sg.while_loop(far, lambda x: 0.5 * (x + a / x), 1.0)

    assert lines_of(root, "float64[n]") == [
        "def root_vmap(a):",
        "n = a.shape[0]",
        "t1 = 1e-14 * a",
        "going = np.abs(1.0 - a) > t1",
        "t2 = np.ones(n)",
        "while np.any(going):",
        "t2 = np.where(going, 0.5 * (t2 + a / t2), t2)",
        "going = going & (np.abs(t2 * t2 - a) > t1)",
        "return t2",
    ]


def test_a_test_in_two_steps_is_one_mask():
    def counted(x):
        goes_on = lambda i: sg.cond(i < 9, lambda: x > i, lambda: False)
        return sg.while_loop(goes_on, lambda i: i + 2, 0)

    source = sg.vmap(counted).source("float64[n]", optimize=1)
    assert count(source, "going = going & ((_ < 9) & (x > _))") == 1


def test_a_branch_is_a_choice():
    lines = lines_of(lambda x: sg.cond(x > 1, lambda: np.log(x), lambda: x * x), "float64[n]")
    assert lines[1:] == ["t1 = x > 1", "t2 = np.where(t1, np.log(np.where(t1, x, 1.0)), x * x)", "return t2"]


def test_names_that_a_loop_of_gradients_leaves_without_a_node_are_none():
    def adapted(w, rows):
        def task(x):
            u = w
            for _ in range(20):
                u = u - sg.grad(lambda u: np.mean((np.tanh(x @ u) - 1.0) ** 2))(u)
            return np.sum(u)

        return np.sum(sg.vmap(task)(rows))

    many = sg.vmap(sg.value_and_grad(adapted), in_axes=(0, None))(W, XS)
    each = [sg.value_and_grad(adapted)(w, XS) for w in W]
    for found, wanted in zip(many, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-10)


# ---- operators that are not defined for the inputs of the other branch


def inverse(x):
    return 1 / x if x > 0 else 0.0 * x


def logarithm(x):
    if x > 0:
        y = np.log(x) * np.sqrt(x) / x
    else:
        y = 0.0
    return y


def power_and_angle(x):
    return x**-1.5 + np.arccosh(1 + x) if x > 0 else np.sinh(x)


def bounded(x):
    return np.arcsin(x) if abs(x) < 1 else np.arccosh(x**2) if x > 0 else np.exp(-((x + 1e3) ** 2))


def overflowing(x):
    return np.exp(x * 1e3) if x < 0.5 else x


def in_a_loop(x):
    total = 0.0
    for i in range(20):
        if x > 0:
            total = total + 1 / (x * (i + 1))
    return total


GUARDED = [inverse, logarithm, power_and_angle, bounded, overflowing, in_a_loop]


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("f", GUARDED)
def test_the_other_branch_is_computed_where_it_is_defined(f, level, target):
    """No warning, which is an error in tests, and no NaN in derivatives."""
    x = np.array([0.0, 1.5, -2.0, 0.25])
    slope = sg.grad(f)
    for one in (f, slope, sg.grad(slope)):
        rows = [one(v) for v in x]
        np.testing.assert_allclose(sg.vmap(one, optimize=level, target=target)(x), rows, rtol=1e-12)
    total = sg.grad(lambda x: np.sum(sg.vmap(f)(x)), optimize=level, target=target)
    np.testing.assert_allclose(total(x), [slope(v) for v in x], rtol=1e-12)


def quotient(n, m):
    return n // m if m != 0 else n


def test_integers_of_the_other_branch():
    n, m = np.array([7, 8, 9]), np.array([2, 0, -4])
    np.testing.assert_array_equal(sg.vmap(quotient)(n, m), [3, 8, -3])
