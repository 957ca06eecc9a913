"""custom_vjp and custom_jvp: the rule is what derivatives use, at any order, in both directions, in rows, in trees."""

import pickle
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest

import symgrad as sg

X = np.array([0.3, -0.7, 1.1])
Y = np.array([1.2, 0.4, -0.5])
W = np.array([[1.0, 2.0, 0.5], [0.3, -1.0, 0.7], [-0.4, 0.2, 0.9]])


@pytest.fixture(params=[0, 2])
def level(request):
    with sg.options(optimize=request.param):
        yield request.param


def close(a, b, rtol=1e-10):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


# ---- functions with the rule that they have anyway, and the same three times as large


def by_vjp(scale=1.0):
    @sg.custom_vjp
    def product(x, y):
        return np.sin(x) * y

    def fwd(x, y):
        return product(x, y), (np.cos(x), np.sin(x), y)

    def bwd(residuals, g):
        cos, sin, y = residuals
        return scale * cos * y * g, scale * sin * g

    product.defvjp(fwd, bwd)
    return product


def by_jvp(scale=1.0):
    @sg.custom_jvp
    def product(x, y):
        return np.sin(x) * y

    @product.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return product(x, y), scale * (np.cos(x) * y * dx + np.sin(x) * dy)

    return product


def by_parts(scale=1.0):
    @sg.custom_jvp
    def product(x, y):
        return np.sin(x) * y

    product.defjvps(lambda dx, z, x, y: scale * np.cos(x) * y * dx, lambda dy, z, x, y: scale * np.sin(x) * dy)
    return product


MADE = [by_vjp, by_jvp, by_parts]


def plain(x, y):
    return np.sin(x) * y


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("argnum", [0, 1])
def test_the_right_rule_gives_the_derivative_at_every_order_and_in_both_directions(made, argnum, level):
    f = made()
    loss = lambda g: lambda x, y: np.sum(g(x, y) ** 2 * W[0]) + np.sum(g(y, y))
    mine, theirs = loss(f), loss(plain)
    close(mine(X, Y), theirs(X, Y))
    close(sg.compile(mine)(X, Y), theirs(X, Y))
    close(sg.grad(mine, argnum)(X, Y), sg.grad(theirs, argnum)(X, Y))
    close(sg.jacfwd(mine, argnum)(X, Y), sg.grad(theirs, argnum)(X, Y))
    close(sg.hessian(mine, argnum)(X, Y), sg.hessian(theirs, argnum)(X, Y))
    close(sg.hvp(mine, argnum)(X, Y, W[0]), sg.hvp(theirs, argnum)(X, Y, W[0]))
    third = lambda g: sg.grad(lambda x, y: np.sum(sg.grad(lambda x, y: np.sum(sg.grad(g)(x, y)))(x, y) * W[1]))
    close(third(mine)(X, Y), third(theirs)(X, Y))
    close(sg.jvp(mine, (X, Y), (Y, X))[1], sg.jvp(theirs, (X, Y), (Y, X))[1])
    close(sg.vjp(f, X, Y)[1](W[0])[argnum], sg.vjp(plain, X, Y)[1](W[0])[argnum])


@pytest.mark.parametrize("made", MADE)
def test_it_is_the_rule_that_is_used(made, level):
    f = made(3.0)
    close(sg.grad(lambda x: np.sum(f(x, Y)))(X), 3 * np.cos(X) * Y)
    close(sg.jvp(lambda x: f(x, Y), (X,), (W[0],))[1], 3 * np.cos(X) * Y * W[0])
    second = sg.grad(lambda x: np.sum(W[0] * sg.grad(lambda x: np.sum(f(x, Y)))(x)))(X)
    close(second, -3 * np.sin(X) * Y * W[0])  # of the rule, which has a sine and not f in it


@pytest.mark.parametrize("made", MADE)
def test_the_same_value_twice_has_the_sum(made, level):
    f = made(3.0)
    close(sg.grad(lambda x: np.sum(f(x, x)))(X), 3 * (np.cos(X) * X + np.sin(X)))


@pytest.mark.parametrize("made", MADE)
def test_of_arrays_it_is_the_function(made):
    calls = []
    f = made()
    assert f(X, Y).tobytes() == plain(X, Y).tobytes()
    assert f.__name__ == "product"
    assert type(f)(lambda x: calls.append(x)) is not None
    assert calls == []


@pytest.mark.parametrize("made", MADE)
def test_nothing_of_it_is_left_in_the_program(made):
    text = sg.compile(made()).source(X, Y).replace("product(x, y)", "plain(x, y)")
    body = lambda source: source[source.index("return") :]
    assert body(text) == body(sg.compile(plain).source(X, Y))
    assert sg.grad(lambda x: np.sum(made()(x, Y))).source(X).count("np.sin") == 0


# ---- rows


@pytest.mark.parametrize("made", MADE)
def test_many_calls_at_once_keep_the_rule(made, level):
    f = made(3.0)
    rows = lambda x, y: np.vectorize(lambda a, b: f(a, b), signature="(n),(n)->(n)")(x, y)
    close(rows(W, Y), plain(W, Y))
    both = sg.grad(lambda x, y: np.sum(rows(x, y) * W.T), (0, 1))(W, Y)
    close(both[0], 3 * np.cos(W) * Y * W.T)
    close(both[1], 3 * np.sum(np.sin(W) * W.T, axis=0))
    tangent = sg.jvp(lambda x: rows(x, Y), (W,), (W.T,))[1]
    close(tangent, 3 * np.cos(W) * Y * W.T)
    twice = lambda x: np.vectorize(lambda r: rows(r, Y), signature="(m,n)->(m,n)")(x)
    close(sg.grad(lambda x: np.sum(twice(x) * W))(np.stack([W, W.T])), 3 * np.cos(np.stack([W, W.T])) * Y * W)
    jacobian = sg.jacobian(lambda x: f(x, Y))(X)
    close(jacobian, np.diag(3 * np.cos(X) * Y))
    close(sg.jacobian(sg.jacobian(lambda x: f(x, Y)))(X).sum((1, 2)), -3 * np.sin(X) * Y)


# ---- trees, integers, static arguments


class Pair(NamedTuple):
    first: object
    second: object


def test_trees_go_in_and_out(level):
    @sg.custom_vjp
    def f(p, n):
        return {"scaled": p.first["a"] * n, "count": n + 1, "label": "sum"}

    def fwd(p, n):
        return f(p, n), (p, n)

    def bwd(residuals, g):
        _, n = residuals
        assert g["count"] is None
        assert g["label"] is None
        return Pair({"a": 5 * g["scaled"] * n}, None), None

    f.defvjp(fwd, bwd)

    def loss(p, n):
        out = f(p, n)
        assert out["label"] == "sum"
        return np.sum(out["scaled"]) * out["count"] + np.sum(p.second)

    p = Pair({"a": X}, Y)
    gradient = sg.grad(loss)(p, np.array(4))
    close(gradient.first["a"], np.full(3, 5 * 4 * 5.0))
    close(gradient.second, np.ones(3))


def test_tangents_of_trees(level):
    @sg.custom_jvp
    def f(p, n):
        return Pair(p["a"] * n, n)

    @f.defjvp
    def rule(primals, tangents):
        (p, n), (dp, dn) = primals, tangents
        assert dn is None
        return f(p, n), Pair(2 * n * dp["a"], None)

    loss = lambda p, n: np.sum(f(p, n).first * W[0]) + np.sum(p["b"])
    gradient = sg.grad(loss)({"a": X, "b": Y}, np.array(4))
    close(gradient["a"], 8 * W[0])
    close(gradient["b"], np.ones(3))
    with sg.options(optimize=level):
        close(sg.jvp(lambda a: f({"a": a}, np.array(4)).first, (X,), (Y,))[1], 8 * Y)


def test_static_arguments_come_first_in_the_rules(level):
    @partial(sg.custom_vjp, nondiff_argnums=(0, 2))
    def apply(function, x, power=2):
        return function(x) ** power

    def fwd(function, x, power):
        return apply(function, x, power), x

    def bwd(function, power, x, g):
        assert power == 3
        return (7 * function(x) * g,)

    apply.defvjp(fwd, bwd)
    close(sg.grad(lambda x: np.sum(apply(np.cos, x, power=3)))(X), 7 * np.cos(X))

    @partial(sg.custom_jvp, nondiff_argnums=0)
    def called(function, x):
        return function(x)

    @called.defjvp
    def rule(function, primals, tangents):
        return called(function, *primals), 7 * function(tangents[0])

    close(sg.grad(lambda x: np.sum(called(lambda x: W @ x, x)))(X), 7 * W.sum(0))


def test_a_method_may_have_a_rule():
    class Layer:
        @sg.custom_vjp
        def __call__(self, x):
            return np.tanh(x)

        __call__.defvjp(lambda self, x: (np.tanh(x), x), lambda x, g: (None, 2 * g))

    layer = Layer()
    close(layer(X), np.tanh(X))
    close(sg.grad(lambda x: np.sum(layer(x)))(X), np.full(3, 2.0))


@pytest.mark.parametrize("made", MADE)
def test_single_precision_and_numbers(made):
    f = made(3.0)
    x = X.astype(np.float32)
    for argnum in (0, 1):
        gradient = sg.grad(lambda x, y: np.sum(f(x, y)), argnum)(x, x)
        assert gradient.dtype == np.float32
    assert type(sg.grad(lambda x: f(x, 2.0))(0.5)) is np.float64
    close(sg.grad(lambda x: f(x, 2.0))(0.5), 6 * np.cos(0.5))


def test_results_may_be_arguments_constants_or_nothing(level):
    @sg.custom_vjp
    def f(x, y):
        return x, 2.0, np.ones(2), ()

    f.defvjp(lambda x, y: (f(x, y), None), lambda _, g: (3 * g[0], None))
    close(sg.grad(lambda x: np.sum(f(x, x)[0]) * f(x, x)[1])(X), np.full(3, 6.0))
    close(sg.grad(lambda x: np.sum(f(x, x)[2]))(X), np.zeros(3))
    with pytest.raises(sg.errors.WriteError, match="view of what a function with a rule of its own was given"):
        sg.grad(lambda x: written(f(x, x)[0]))(X)


def written(x):
    x[0] = 1.0
    return np.sum(x)


# ---- with other units


def test_rules_within_rules_and_checkpoints(level):
    inner, outer = by_vjp(3.0), sg.custom_jvp(lambda x: by_vjp()(x, x))
    outer.defjvp(lambda p, t: (outer(*p), inner(p[0], Y) * t[0]))
    close(sg.grad(lambda x: np.sum(outer(x)))(X), np.sin(X) * Y)
    close(sg.hessian(lambda x: np.sum(outer(x)))(X), np.diag(3 * np.cos(X) * Y))
    block = sg.checkpoint(lambda x: inner(np.tanh(x), Y) ** 2)
    whole = lambda x: np.sum(block(x))
    t = np.tanh(X)
    expected = 2 * np.sin(t) * Y * 3 * np.cos(t) * Y * (1 - t * t)
    close(sg.grad(whole)(X), expected)
    close(sg.jacfwd(whole)(X), expected)
    ruled = sg.custom_vjp(lambda x: block(x))
    ruled.defvjp(lambda x: (ruled(x), x), lambda x, g: (block(x) * g,))
    close(sg.grad(lambda x: np.sum(ruled(x)))(X), (np.sin(t) * Y) ** 2)
    close(sg.hessian(lambda x: np.sum(ruled(x)))(X), np.diag(expected))


def test_gradients_inside_of_a_function_with_a_rule(level):
    f = sg.custom_vjp(lambda x: sg.grad(lambda x: np.sum(x**3))(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (7 * x * g,))
    close(sg.compile(f)(X), 3 * X**2)
    close(sg.grad(lambda x: np.sum(f(x)))(X), 7 * X)


def test_what_is_read_from_outside_is_right_and_has_no_derivative(level):
    def loss(x, scale):
        f = sg.custom_vjp(lambda x: x * np.exp(scale))
        f.defvjp(lambda x: (f(x), None), lambda _, g: (g * 10,))
        return np.sum(f(x))

    close(sg.compile(loss)(X, 2.0), np.sum(X) * np.exp(2.0))
    close(sg.grad(loss)(X, 2.0), np.full(3, 10.0))
    with pytest.raises(sg.errors.NotDifferentiableError, match="has no derivative by a value that it reads from"):
        sg.grad(loss, 1)(X, 2.0)
    with pytest.raises(sg.errors.NotDifferentiableError, match="has no derivative by a value that it reads from"):
        sg.jacfwd(loss, 1)(X, 2.0)


def test_what_lies_inside_is_not_differentiated_by():
    f = sg.custom_vjp(lambda x: sg.name(np.sin(x), "inner") * 2)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (g,))
    with pytest.raises(sg.errors.NotDifferentiableError, match="lies inside of lambda, which has its own rule"):
        sg.grad(lambda x: np.sum(f(x)), wrt="inner")(X)


# ---- what is refused


def rule(fwd, bwd, x=X):
    @sg.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(fwd or (lambda x: (f(x), x)), bwd)
    return sg.grad(lambda x: np.sum(f(x)))(x)


VJP = {
    "no pair": (lambda x: x, lambda x, g: (g,), "the forward rule of f does not return a pair"),
    "another result": (
        lambda x: ((x, x), x),
        lambda x, g: (g,),
        r"the result that the forward rule of f returns is \(\*, \*\)",
    ),
    "no tuple": (None, lambda x, g: g, "the backward rule of f returns a Variable for 1 arguments"),
    "too many": (None, lambda x, g: (g, g), "the backward rule of f returns a tuple of 2 for 1 arguments"),
    "a tree": (None, lambda x, g: ({"a": g},), r"the backward rule of f returns {'a': \*} for \*"),
    "a shape": (None, lambda x, g: (g[:1],), r"the backward rule of f returns shape \(1,\) for float64\[3\]"),
    "a dtype": (None, lambda x, g: (g.astype("f4"),), r"the backward rule of f returns float32\[3\] for float64\[3\]"),
    "a string": (None, lambda x, g: ("g",), r"the backward rule of f returns a str for float64\[3\]"),
}


@pytest.mark.parametrize("kind", VJP)
def test_wrong_rules_are_refused(kind):
    fwd, bwd, message = VJP[kind]
    with pytest.raises(sg.errors.SymgradError, match=message):
        rule(fwd, bwd)


JVP = {
    "no pair": (lambda p, t: t, "the rule of f does not return a pair"),
    "another result": (lambda p, t: ((p[0], p[0]), t[0]), r"the result that the rule of f returns is \(\*, \*\)"),
    "a tree": (lambda p, t: (p[0], {"a": t[0]}), r"the tangent that the rule of f returns is {'a': \*}"),
    "a shape": (lambda p, t: (p[0], t[0][:1]), r"the rule of f returns shape \(1,\) for float64\[3\]"),
    "squared": (lambda p, t: (p[0], t[0] ** 2), "the rule of f is not linear in the tangents"),
    "chosen": (lambda p, t: (p[0], np.where(t[0] > 0, t[0], 0.0)), "the rule of f is not linear in the tangents"),
}


@pytest.mark.parametrize("kind", JVP)
@pytest.mark.parametrize("transform", [sg.grad, sg.jacfwd])
def test_wrong_rules_for_tangents_are_refused(kind, transform):
    @sg.custom_jvp
    def f(x):
        return np.sin(x)

    f.defjvp(JVP[kind][0])
    with pytest.raises(sg.errors.SymgradError, match=JVP[kind][1]):
        transform(lambda x: np.sum(f(x)))(X)


def test_a_backward_rule_that_is_not_linear_is_for_reverse_mode_alone(level):
    f = sg.custom_vjp(lambda x: np.sin(x))
    f.defvjp(lambda x: (f(x), None), lambda _, g: (np.clip(g, -0.1, 0.1),))
    close(sg.grad(lambda x: np.sum(f(x)))(X), np.full(3, 0.1))
    with pytest.raises(sg.errors.NotDifferentiableError, match="not known to be linear in the cotangent"):
        sg.jacfwd(f)(X)


@pytest.mark.parametrize("made", [sg.custom_vjp, sg.custom_jvp])
def test_calls_that_are_refused(made):
    f = made(lambda x, y: x * y, nondiff_argnums=1)
    with pytest.raises(sg.errors.ArgumentError, match="lambda has no rule yet"):
        sg.compile(f)(X, 2.0)
    f.defvjp(f, f) if made is sg.custom_vjp else f.defjvp(f)
    with pytest.raises(sg.errors.ArgumentError, match="a traced value in an argument of lambda that is one of nondiff"):
        sg.compile(f)(X, X)
    with pytest.raises(sg.errors.ArgumentError, match="nondiff_argnums: 5"):
        sg.compile(type(f)(lambda x: x, 5).__class__ and _with(made, 5))(X)
    with pytest.raises(sg.errors.ArgumentError, match="keyword-only"):
        sg.compile(lambda x: _with(made, (), lambda x, *, y: x)(x, y=x))(X)
    with pytest.raises(sg.errors.ArgumentError, match="is not a function"):
        made(3)
    with pytest.raises(sg.errors.ArgumentError, match="nondiff_argnums='x'"):
        made(lambda x: x, nondiff_argnums="x")


def _with(made, nondiff, function=lambda x: x):
    f = made(function, nondiff)
    f.defvjp(lambda x: (x, x), lambda x, g: (g,)) if made is sg.custom_vjp else f.defjvp(lambda p, t: (p[0], t[0]))
    return f


def test_an_argument_is_not_written_into():
    f = sg.custom_vjp(lambda x: written(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (x,))
    with pytest.raises(sg.errors.WriteError, match="argument of a function with a rule of its own"):
        sg.compile(f)(X)


# ---- files and processes


def test_a_compiled_program_goes_to_other_processes():
    compiled = sg.grad(lambda x: np.sum(by_vjp(3.0)(x, Y))).compile(X)
    close(pickle.loads(pickle.dumps(compiled))(X), 3 * np.cos(X) * Y)


def test_the_text_is_the_same_every_time():
    program = lambda: sg.hessian(lambda x: np.sum(by_vjp(3.0)(x, Y) + by_jvp()(x, x))).source(X)
    assert program() == program()


@pytest.mark.parametrize("made", [sg.custom_vjp, sg.custom_jvp])
def test_a_rule_that_calls_its_function_finds_the_result(made):
    calls = []

    @made
    def f(x, power=2):
        calls.append(power)
        return np.sin(x) ** power

    if made is sg.custom_vjp:
        f.defvjp(lambda x, power: (f(x, power), (x, f(x, 3))), lambda r, g: (7 * r[1] * g, None))
    else:
        f.defjvp(lambda p, t: (f(*p), 7 * f(p[0], 3) * t[0]))
    close(sg.grad(lambda x: np.sum(f(x)))(X), 7 * np.sin(X) ** 3)
    assert calls == [2, 3]  # with another power it is another call


# ---- in loops and branches


def unrolled(f, x, y):
    total = 0.0
    for u in (y, 2 * y, x):
        total = total + f(x, x)
        x = f(x, u) + 0.1 * x
    return total + x


REPEATED = {
    "a scan": lambda f, x, y: total_of(sg.scan(lambda c, u: (f(c, u) + 0.1 * c, f(c, c)), x, rows(x, y))),
    "a while": lambda f, x, y: sg.while_loop(
        lambda s: s[2] < 3,
        lambda s: (f(s[0], rows(x, y)[s[2]]) + 0.1 * s[0], s[1] + f(s[0], s[0]), s[2] + 1),
        (x, 0.0 * x, 0),
    )[:2],
    "branches": lambda f, x, y: sg.cond(x[0] > 0, lambda x: unrolled(f, x, y), lambda x: f(y, x), x),
}


def rows(x, y):
    return np.stack([y, 2 * y, x])


def total_of(found):
    last, stacked = found
    return last, np.sum(stacked, axis=0)


@cache
def unrolled_derivatives(made):
    plainly = lambda x, y: np.sum(np.sin(unrolled(made(2.0), x, y)))
    return sg.grad(plainly, (0, 1), optimize=0)(X, Y), sg.hessian(plainly, optimize=0)(X, Y)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", REPEATED)
def test_rules_within_loops_and_branches(made, kind, level):
    f = made(2.0)
    looped = lambda x, y: np.sum(np.sin(sum(found) if isinstance(found := REPEATED[kind](f, x, y), tuple) else found))
    gradients, hessian = unrolled_derivatives(made)
    close(sg.grad(looped, (0, 1))(X, Y), gradients)
    close(sg.hessian(looped)(X, Y), hessian)
    close(sg.jacfwd(looped)(X, Y), gradients[0])


# ---- what is left out, and Python's own loops


@pytest.mark.parametrize("made", MADE[:2])
def test_an_infinite_slope_of_what_is_left_out_stays_out(made, level):
    def information(x):
        return -x * np.log(np.where(x > 0, x, 1.0))

    f = sg.custom_jvp(information) if made is by_jvp else sg.custom_vjp(information)
    if made is by_jvp:
        f.defjvp(lambda p, t: (f(*p), (-1 - np.log(p[0])) * t[0]))
    else:
        f.defvjp(lambda x: (f(x), x), lambda x, g: ((-1 - np.log(x)) * g,))
    x = np.array([0.0, 1.0, np.exp(-1)])
    with np.errstate(divide="ignore", invalid="ignore"):
        close(sg.grad(lambda x: np.sum(np.where(x > 0, f(x), 0.0)))(x), [0.0, -1.0, 0.0])
        close(sg.jacfwd(lambda x: np.sum(np.where(x > 0, f(x), 0.0)))(x), [0.0, -1.0, 0.0])


def test_functions_with_rules_may_have_loops_of_their_own():
    @sg.custom_vjp
    def halved(x):
        while np.sum(x) > 1.0:
            x = x / 2
        return x

    def bwd(x, g):
        for _ in range(3):
            g = 2 * g
        return (g,)

    halved.defvjp(lambda x: (halved(x), x), bwd)
    with sg.options(loops="auto"):
        close(sg.grad(lambda x: np.sum(halved(x)))(np.abs(X)), np.full(3, 8.0))
        close(sg.compile(halved)(np.abs(X) * 9), halved(np.abs(X) * 9))
