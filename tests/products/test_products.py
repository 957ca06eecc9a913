"""The normal forms that passes on products read: contractions, and scales of products."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval
from symgrad.core.interpret import interpret
from symgrad.core.provenance import UNKNOWN
from symgrad.frontend.variable import Variable
from symgrad.products.contractions import contraction_of, trimmed
from symgrad.products.factors import pulled
from symgrad.rewrite.engine import Rewriting
from symgrad.rewrite.rules import Rules


def traced(f, *shapes):
    """A graph in which nothing is shared, its inputs, and what a function makes of them."""
    graph = Rewriting(Rules((), lambda op: []))
    graph.provenance = UNKNOWN
    inputs = [graph.add_input(f"x{i}", Aval(shape, np.dtype(float))) for i, shape in enumerate(shapes)]
    return graph, inputs, f(*[Variable(graph, x) for x in inputs]).node


def drawn(*shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (np.matmul, [(3, 4), (4, 5)]),
        (np.matmul, [(4,), (2, 4, 5)]),
        (np.matmul, [(2, 3, 4), (4,)]),
        (np.matmul, [(6, 2, 3, 4), (2, 4, 5)]),
        (np.vecdot, [(2, 3, 4), (3, 4)]),
        (np.outer, [(3,), (4,)]),
        (lambda x, y: np.tensordot(x, y, axes=([1, 0], [0, 2])), [(3, 4, 5), (4, 2, 3)]),
        (lambda x, y, z: np.einsum("bij,jk,i->kb", x, y, z), [(2, 3, 4), (4, 5), (3,)]),
        (np.multiply, [(3, 4), (3, 4)]),
        (np.multiply, [(3, 1, 4), (5, 1)]),
        (np.multiply, [(4,), (2, 3, 4)]),
    ],
)
def test_a_contraction_is_what_einsum_makes_of_it(f, shapes):
    graph, inputs, node = traced(f, *shapes)
    c = trimmed(graph, contraction_of(node))
    xs = drawn(*shapes)
    operands = interpret(c.operands, dict(zip(inputs, xs, strict=True)))
    np.testing.assert_allclose(np.einsum(c.subscripts, *operands), f(*xs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (np.add, [(3, 4), (3, 4)]),
        (lambda x, y: np.einsum("ij,ij->i", x, y), [(3, 4), (1, 4)]),  # stretches an axis
        (np.multiply, [(), (3, 4)]),  # a number is no operand
    ],
)
def test_what_is_no_contraction(f, shapes):
    assert contraction_of(traced(f, *shapes)[2]) is None


@pytest.mark.parametrize(
    ("f", "over", "rest"),
    [
        (lambda c, x, y: (c * x) * y, False, lambda x, y: x * y),
        (lambda c, x, y: y * (x / c), True, lambda x, y: y * x),
        (lambda c, x, y: (c / x) / y, False, lambda x, y: 1 / x / y),
        (lambda c, x, y: (x * c) / y, False, lambda x, y: x / y),
    ],
)
def test_a_scale_and_the_rest(f, over, rest):
    graph, inputs, node = traced(f, (), (3,), (3,))
    p = pulled(graph, node)
    c, x, y = drawn((), (3,), (3,))
    (found,) = interpret([p.rest.node], dict(zip(inputs, (c, x, y), strict=True)))
    assert (p.scale.node, p.over) == (inputs[0], over)
    np.testing.assert_allclose(found, rest(x, y))


@pytest.mark.parametrize("f", [lambda c, x, y: x * y, lambda c, x, y: y / (c * x), lambda c, x, y: 1 / x])
def test_no_scale(f):
    graph, _, node = traced(f, (), (3,), (3,))
    assert pulled(graph, node) is None


# ---- operands that are known but for a few numbers

ONES, EYE, TWOS = np.ones(4), np.eye(4), np.full((4, 4), 2.0)
KNOWN = {
    "product with ones": (lambda x: x @ np.ones(x.shape[1]), ["sum"]),
    "product with constant ones": (lambda x: x @ ONES, ["sum"]),
    "product with ones in front": (lambda x: np.ones((1, x.shape[0])) @ x, ["sum", "index"]),
    "mean by matrices": (lambda x: np.ones((4, 1)) @ (np.ones((1, 4)) @ x) / 4, ["sum", "divide", "broadcast_to"]),
    "einsum with ones": (lambda x: np.einsum("ij,jk->i", x, np.ones_like(x)), ["sum", "multiply"]),
    "product with repeated rows": (lambda x: x @ np.broadcast_to(x[0], x.shape).T, None),
    "identity": (lambda x: np.eye(4) @ x @ EYE, []),
    "multiple of the identity": (lambda x: x @ (3.0 * np.eye(4)), ["multiply"]),
    "product by number with the identity": (lambda x: np.eye(4) * x, ["diagonal", "diag"]),
    "scaled rows": (lambda x: np.diag(x[0]) @ x, ["index", "multiply"]),
    "scaled columns": (lambda x: x @ np.diag(x[0]), ["index", "multiply"]),
    "two diagonals": (lambda x: np.diag(x[0]) @ np.diag(x[1]), ["index", "index", "multiply", "diag"]),
    "identity times a column": (lambda x: EYE * x[0][:, None], ["index", "diag"]),
    "diagonals in a sum": (lambda x: np.diag(x[0]) + np.eye(4) / 1.0, ["index", "add", "diag"]),
    "sums of a diagonal": (lambda x: np.sum(np.diag(x[0]), axis=0, keepdims=True), ["index"]),
    "trace of a diagonal": (lambda x: np.trace(np.diag(x[0])) * x, ["index", "sum", "multiply"]),
    "zeros": (lambda x: np.zeros((3, 4)) @ x, ["full"]),
    "constants of one number": (lambda x: (x * TWOS + 0.0 * TWOS) ** TWOS, None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_operands_that_are_known_but_for_a_few_numbers(name):
    f, expected = KNOWN[name]
    (x,) = drawn((4, 4))
    for level in (0, 1, 2):
        program = sg.compile(f).compile(x, optimize=level)
        np.testing.assert_allclose(program(x), f(x), rtol=1e-12, atol=1e-12)
        found = [node.op.name for node in program.graph.nodes if node.inputs or node.op.name == "eye"]
        if level == 1 and expected is not None:
            assert found == expected
    spoiled = np.where(np.eye(4, k=1) > 0, np.nan, x)
    np.testing.assert_allclose(sg.compile(f).compile(x, numerics="ieee")(spoiled), f(spoiled), rtol=1e-12, atol=1e-12)


def made(kind, x):
    """An operand of the shape of x, which has known numbers in it."""
    shape = x.shape
    match kind:
        case "full":
            return np.full(shape, 2.5, like=x)
        case "repeated":
            first = tuple(slice(0, 1) if i % 2 == 0 else slice(None) for i in range(len(shape)))
            return np.broadcast_to(x[first], shape) if min(shape) else x
        case "identity":
            return np.reshape(np.eye(shape[0], like=x), shape)
        case "diagonal":
            return np.reshape(np.diag(np.sum(x, axis=tuple(range(1, len(shape))))), shape)
        case "blocks":
            y, i = np.zeros_like(x), np.arange(shape[0])
            y[(i, *[slice(None)] * (len(shape) - 2), i)] = np.sum(x, axis=-1)
            return y
        case _:
            return x


def known_operand(rng, sizes):
    """Return a kind of operand for a shape."""
    kinds = ["given", "full", "repeated"]
    if len(sizes) > 1 and sizes[0] == np.prod(sizes[1:]):
        kinds += ["identity", "diagonal"] * 3
    if len(sizes) > 2 and sizes[0] == sizes[-1]:
        kinds += ["blocks"] * 3
    return rng.choice(kinds)


@pytest.mark.parametrize("seed", range(150))
def test_random_products_of_known_operands(seed):
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcd", rng.choice([0, 1, 2, 3, 3, 6], 4), strict=True))
    sizes |= [{}, {"b": sizes["a"]}, {"a": 6, "b": 6, "c": 2, "d": 3}][rng.integers(3)]
    terms = ["".join(rng.choice(list("abcd"), n, replace=False)) for n in rng.integers(1, 4, rng.integers(1, 4))]
    letters = sorted({*"".join(terms)}, key=lambda _: rng.random())
    out = "".join(letters[: rng.integers(0, len(letters) + 1)])
    shapes = [tuple(int(sizes[label]) for label in term) for term in terms]
    kinds = [known_operand(rng, shape) for shape in shapes]

    def f(*xs):
        ys = [made(kind, x) for kind, x in zip(kinds, xs, strict=True)]
        y, z = np.einsum(f"{','.join(terms)}->{out}", *ys), ys[0] * xs[0] - ys[0] / 2
        return y, z, -2.0 * np.sum(z, axis=0), z.T + ys[0].T

    xs = [rng.uniform(0.5, 2, shape) for shape in shapes]
    for level in (1, 2):
        for a, b in zip(sg.compile(f).compile(*xs, optimize=level)(*xs), f(*xs), strict=True):
            assert np.shape(a) == np.shape(b)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# ---- parts of a product

PARTS = {
    "a row": (lambda a, b: (a @ b)[1], True),
    "a number": (lambda a, b: (a @ b)[2, -1], True),
    "rows and a column": (lambda a, b: np.exp((a @ b)[1:3, 0])[None], True),
    "a new axis": (lambda a, b: (a @ b)[None, 1, :, None], True),
    "two numbers": (lambda a, b: (a @ b)[0, 1] * (a @ b)[-1, 2], True),
    "every other row": (lambda a, b: (a @ b)[::3], True),
    "the diagonal": (lambda a, b: np.diagonal(a @ b), True),
    "the trace": (lambda a, b: np.trace(a @ b) * np.trace(b @ a), True),
    "of a stack": (lambda a, b: (np.stack([a, b, a]) @ b)[:, :3, 2], True),
    "beside the diagonal": (lambda a, b: np.diagonal(a @ b, 1), False),
    "all of it": (lambda a, b: (a @ b)[:3] - (a @ b)[3:], False),
    "picked rows": (lambda a, b: (a @ b)[np.array([0, 2, 2])], False),
    "others need it": (lambda a, b: (a @ b)[0] + (a @ b), False),
}


@pytest.mark.usefixtures("usual_sizes")
@pytest.mark.parametrize("name", PARTS)
def test_a_product_is_computed_where_it_is_read(name):
    f, restricted = PARTS[name]
    xs = drawn((6, 6), (6, 6))
    whole = ((6, 6), (3, 6, 6))
    for level in (1, 2):
        program = sg.compile(f).compile(*xs, optimize=level)
        np.testing.assert_allclose(program(*xs), f(*xs), rtol=1e-12, atol=1e-12)
    found = [x for x in program.graph.nodes if x.op.name in ("matmul", "einsum", "vecdot") and x.aval.shape in whole]
    assert (not found) == restricted
    gradient = sg.grad(lambda a, b: np.sum(np.sin(f(a, b))), argnums=(0, 1))
    for a, b in zip(gradient(*xs), gradient.compile(*xs, optimize=0)(*xs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_parts_of_a_product_whose_sizes_are_symbols():
    f = sg.compile(lambda a, b: ((a @ b)[1], np.trace(b @ a), np.diagonal(a @ b)[1:]))
    program = f.compile("float64[n, k]", "float64[k, n]")
    for n, k in ((2, 1), (2, 3), (5, 5)):
        a, b = drawn((n, k), (k, n))
        for found, wanted in zip(program(a, b), ((a @ b)[1], np.trace(b @ a), np.diagonal(a @ b)[1:]), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
