"""Loops and branches as functions: what they compute while they are traced is what they compute in Python."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.graph import verify
from symgrad.core.interpret import interpret

RNG = np.random.default_rng(7)
W, XS = RNG.standard_normal((3, 3)), RNG.standard_normal((5, 3))


def traced(f, *args):
    """The result of the graph that a function leaves, evaluated node by node."""
    program = sg.trace(f, *args)
    verify(program.graph)
    given = [x for x in tree.flatten(program.inputs)[0] if isinstance(x, sg.Variable)]
    arrays = [x for x in tree.flatten(args)[0] if isinstance(x, np.ndarray | np.generic | float)]
    values = iter(interpret(program.graph.outputs, {x.node: a for x, a in zip(given, arrays, strict=True)}))
    leaves, structure = tree.flatten(program.outputs)
    return tree.unflatten(structure, [next(values) if isinstance(x, sg.Variable) else x for x in leaves])


def check(f, *args):
    found, structure = tree.flatten(traced(f, *args))
    wanted, expected = tree.flatten(f(*args))
    assert structure == expected
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y, strict=isinstance(y, np.ndarray))


def rnn(W, xs):
    def step(h, x):
        h = np.tanh(h @ W + x)
        return h, {"sum": h.sum(), "state": h}

    return sg.scan(step, np.zeros(3), xs)


def steps(x):
    return sg.fori_loop(1, 4, lambda i, state: (state[0] + x[i] * i, state[1] * 2), (0.0, 1))


def collatz(n):
    even_or_odd = lambda n: sg.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
    return sg.while_loop(lambda s: s[0] > 1, lambda s: (even_or_odd(s[0]), s[1] + 1), (n, 0))


def halvings(x):
    """Run, in each iteration of an outer loop, as many inner iterations as a number needs."""
    inner = lambda total: sg.while_loop(lambda y: y > 1, lambda y: y * 0.5 - 0.01, total)
    return sg.fori_loop(0, 4, lambda i, s: inner(s + x[i]), 0.5)


PROGRAMS = {
    "rnn": (rnn, W, XS),
    "from the end": (lambda xs: sg.scan(lambda c, x: (c * 0.5 + x, c), np.zeros(3), xs, reverse=True), XS),
    "counted": (lambda x: sg.scan(lambda c, _: (c * x, c), 1.0, length=4), np.float64(1.5)),
    "no turns": (lambda xs: sg.scan(lambda c, x: (c + x, c), np.ones(3), xs[:0]), XS),
    "steps": (steps, XS[:, 0]),
    "collatz": (collatz, np.int64(27)),
    "nested": (halvings, np.abs(XS[:, 0]) * 5),
    "map": (lambda x: sg.map(lambda row: row @ row, x), XS),
    "products": (lambda x: sg.associative_scan(np.multiply, x), XS),
    "sums along rows": (lambda x: sg.associative_scan(np.add, x, reverse=True, axis=1), np.arange(15.0).reshape(3, 5)),
    "widened": (lambda x: sg.fori_loop(0, 3, lambda _, s: s + x, 0), np.float32(0.1)),
    "kept": (lambda x: sg.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, s[1], "text"), (x, x + 1, "text")), 1.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_traced_loop_is_the_loop_of_python(name):
    check(*PROGRAMS[name])


def affine(a, b):
    return {"factor": b["factor"] * a["factor"], "rest": b["factor"] * a["rest"] + b["rest"]}


@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_of_symbolic_length(reverse):
    def last(x):
        return np.sum(np.sin(sg.associative_scan(affine, {"factor": x[0], "rest": x[1]}, reverse, axis=1)["rest"]))

    slope = sg.grad(last).compile("float64[2, m, n]")
    for shape in ((2, 3, 5), (2, 2, 1)):
        x = np.linspace(0.5, 1.5, np.prod(shape)).reshape(shape)
        np.testing.assert_allclose(slope(x), sg.grad(last)(x), rtol=1e-12)


@pytest.mark.parametrize("x", [0.3, -0.3])
def test_a_branch_computes_one_side(x):
    check(lambda x: sg.cond(x > 0, lambda y: (np.sin(y), 1.0), lambda y: (y, 2.0), x), x)


@pytest.mark.parametrize("i", [-1, 0, 1, 2, 7])
def test_a_switch_takes_the_branch_of_the_number(i):
    check(lambda i, x: sg.switch(i, [np.sin, np.cos, np.exp], x), np.int64(i), 0.3)


def test_a_body_is_traced_as_often_for_many_turns_as_for_few():
    calls = []

    def turn(c, x):
        calls.append(x)
        return c * x, None

    sizes = [len(sg.trace(lambda x: sg.scan(turn, 1.0, x)[0], np.ones(n)).graph.nodes) for n in (10, 100_000)]
    assert sizes[0] == sizes[1]
    assert len(calls) <= 2 * 2


def test_what_no_turn_changes_stands_outside():
    program = sg.trace(lambda W, xs: sg.scan(lambda h, x: (h + np.exp(W) @ x, None), np.zeros(3), xs)[0], W, XS)
    (loop,) = [node for node in program.graph.nodes if node.op.name == "scan"]
    assert [y.op.name for y in dict(loop.params)["body"].nodes] == ["matmul", "add"]
    assert any(node.op.name == "exp" for node in loop.inputs)


def test_a_known_predicate_leaves_one_side():
    program = sg.trace(lambda x: sg.cond(x.shape[0] > 2, np.sin, np.cos, x), np.ones(3))
    assert [node.op.name for node in program.graph.nodes if node.op.name in ("cond", "sin", "cos")] == ["sin"]


# ---- errors


def message(f, *args):
    with pytest.raises(sg.errors.SymgradError) as found:
        sg.trace(f, *args)
    return str(found.value).splitlines()


def test_what_changes_its_shape_is_refused():
    fact, place, instead = message(lambda x: sg.fori_loop(0, 3, lambda i, s: np.append(s, 1.0), x), np.ones(3))
    assert fact == "a loop starts with float64[3], and an iteration makes it float64[4]"
    assert "test_control.py" in place
    assert instead.strip() == "Start with an array of the final shape: np.zeros(shape)."


def test_what_changes_its_structure_is_refused():
    fact, *_ = message(lambda x: sg.while_loop(lambda s: s[0] < 3, lambda s: s[0], (x, x)), 1.0)
    assert fact == "sg.while_loop: a function returns *, but (*, *) is expected"


def test_branches_of_two_shapes_are_refused():
    fact, *_ = message(lambda x: sg.cond(x[0] > 0, lambda: x, lambda: x[:2]), np.ones(3))
    assert fact == "one branch gives float64[3], and the other float64[2]"


def test_a_predicate_is_one_truth():
    fact, *_ = message(lambda x: sg.cond(x > 0, np.sin, np.cos, x), np.ones(3))
    assert fact == "sg.cond: the predicate has the shape (3,)"


def test_a_body_does_not_write_outside():
    def f(x):
        out = np.zeros(3)

        def turn(i, total):
            out[i] = x[i]
            return total + x[i]

        return sg.fori_loop(0, 3, turn, 0.0) + out

    fact, *_ = message(f, np.ones(3))
    assert fact == "the body of a loop or a branch writes into an array from outside of it"


def test_what_a_turn_leaves_behind_is_no_value():
    def f(x):
        left = []
        sg.fori_loop(0, 3, lambda i, s: left.append(s) or s + x, 0.0)
        return left[0]

    fact, *_ = message(f, 1.0)
    assert fact.startswith("the result depends on a value that the body of a loop")


def test_arrays_of_two_lengths_are_refused():
    fact, *_ = message(lambda x: sg.scan(lambda c, s: (c, s[0]), 0.0, (x, x[1:])), np.ones(3))
    assert fact == "sg.scan: 3 and 2 iterations"


def test_what_two_sides_ask_for_is_computed_where_one_is_taken():
    def f(a, k):
        once = sg.cond(k < 3, lambda: a[k], lambda: 0.0)
        again = sg.cond(k < 3, lambda: sg.cond(k > 0, lambda: a[k] + a[k - 1], lambda: a[k] * 2), lambda: 1.0)
        return once + again + sg.cond(k > 2, lambda: 2.0, lambda: a[k])

    for k in range(5):
        check(f, np.arange(3.0), np.int64(k))  # a[k] is beyond the end from 3 on


def test_a_loop_that_two_sides_ask_for_does_not_run_where_none_is_taken():
    def f(n):
        down = lambda: sg.while_loop(lambda v: v != 0, lambda v: v - 1, n)  # never ends below 0
        return sg.cond(n >= 0, lambda: down() + 1, lambda: 5) + sg.cond(n >= 0, lambda: down() * 2, lambda: 3)

    check(f, np.int64(4))
    check(f, np.int64(-4))


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_what_may_fail_waits_for_a_turn_that_asks_for_it(optimize):
    def f(A, k, x):
        return sg.while_loop(lambda x: x > 1, lambda x: 0.5 * x + np.linalg.inv(A)[0, 0] + A[0][k], x)

    singular, A = np.ones((2, 2)), np.array([[2.0, 1.0], [1.0, 3.0]])
    gradient = sg.value_and_grad(f, argnums=2, optimize=optimize)
    assert gradient(singular, np.int64(7), 0.5) == (0.5, 1.0)
    value, slope = gradient(A / -3, np.int64(1), 3.0)
    assert value == pytest.approx(f(A / -3, np.int64(1), 3.0), rel=1e-14)
    assert slope in (0.5, 0.25)
    with pytest.raises(np.linalg.LinAlgError):
        gradient(singular, np.int64(1), 3.0)


def test_what_both_functions_of_cond_compute_is_computed_where_they_ask_for_it():
    def f(x, k, c, d):
        return sg.cond(c > 0, lambda: x[k] ** 2, lambda: sg.cond(d > 0, lambda: x[k] ** 2, lambda: c))

    grad = sg.grad(f, check_first=False)
    np.testing.assert_array_equal(grad(np.arange(3.0), np.array(1), -1.0, 1.0), [0, 2, 0])
    np.testing.assert_array_equal(grad(np.arange(3.0), np.array(7), -1.0, -1.0), [0, 0, 0])  # no index is read


def test_integers_of_numpy_are_bounds():
    x = np.array([1.5, 2.5])
    for n in (np.int64(3), np.array(3)):
        np.testing.assert_array_equal(sg.grad(lambda x, n=n: sg.fori_loop(0, n, lambda i, s: s + x[1], 0.0))(x), [0, 3])
        assert sg.compile(lambda x, n=n: sg.scan(lambda c, _: (c + x[0], None), 0.0, length=n)[0])(x) == 4.5


@pytest.mark.parametrize(
    ("f", "fact"),
    [
        (lambda x: sg.fori_loop(0, 2.5, lambda i, s: s + x[0], 0.0), "sg.fori_loop: upper is 2.5, not an integer"),
        (lambda x: sg.fori_loop("0", 2, lambda i, s: s + x[0], 0.0), "sg.fori_loop: lower is '0', not an integer"),
        (lambda x: sg.scan(lambda c, y: (c + y, c), 0.0, x, length=2.5)[0], "sg.scan: length is 2.5, not an integer"),
        (lambda x: sg.scan(lambda c, y: c + y, 0.0, x)[0], "the function of sg.scan does not return a pair"),
        (lambda x: sg.cond(x[0] > 0, 1.0, 2.0), "sg.cond: 1.0 is not a function"),
        (lambda x: sg.switch(1, [np.sin, 2.0], x[0]), "sg.switch: 2.0 is not a function"),
        (lambda x: sg.while_loop(True, lambda s: s, x[0]), "sg.while_loop: True is not a function"),
        (lambda x: sg.map(None, x), "sg.map: None is not a function"),
    ],
)
def test_arguments_that_are_none(f, fact):
    for call in (sg.grad(f), f):  # in a trace, and on arrays
        with pytest.raises(sg.errors.ArgumentError) as raised:
            call(np.array([1.0, 2.0]))
        assert raised.value.fact == fact


def test_a_traced_bound_is_an_integer():
    with pytest.raises(sg.errors.ArgumentError, match=r"upper is float64\[\], not an integer\n.*\n.*n.astype\(int\)"):
        sg.grad(lambda x: sg.fori_loop(0, x, lambda i, s: s + x, 0.0))(2.0)
