"""The normal forms that passes on products read: contractions, monomials, terms of sums, and places along an axis."""

import numpy as np
import pytest

from symgrad.analysis.uses import times_used
from symgrad.core.graph import Aval
from symgrad.core.interpret import interpret
from symgrad.core.provenance import UNKNOWN
from symgrad.frontend.variable import Variable
from symgrad.products.contractions import contraction_of, trimmed
from symgrad.products.factors import pulled
from symgrad.products.monomials import monomial_of, terms_of
from symgrad.products.slices import places, run_of
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


def product_of(m, values):
    return m.scale.value * np.prod([values[x] for x in m.factors], axis=0)


def test_a_monomial_is_a_number_and_factors():
    _, (x, y), node = traced(lambda x, y: -(2.5 * x * (y * x)), (3,), (3,))

    def inner(z):
        return monomial_of(z, lambda found, z: inner(z)) if z.inputs else None

    m = inner(node)
    assert (m.scale.value, m.scale.others, sorted(m.factors, key=lambda z: z.id)) == (-2.5, (), [x, x, y])
    a, b = drawn((3,), (3,))
    np.testing.assert_allclose(product_of(m, {x: a, y: b}), -(2.5 * a * (b * a)))
    alone = monomial_of(node, lambda found, z: None)
    assert (alone.scale.value, alone.factors) == (-1.0, node.inputs)


def test_factors_are_known_by_what_has_been_found():
    _, (x, y), node = traced(lambda x, y: (x * 3.0) * y, (3,), (3,))
    seen = []
    monomial_of(node, lambda found, z: seen.append((found.scale.value, found.factors, z)))
    assert seen == [(1.0, (), node.inputs[0]), (1.0, (node.inputs[0],), y)]
    monomial_of(node.inputs[0], lambda found, z: seen.append((found.scale.value, found.factors, z)))
    assert seen[-1] == (3.0, (), x)  # numbers come first


def test_terms_of_a_sum_stop_at_what_others_read():
    graph, _, node = traced(lambda x, y, z: (x + (y + z)) + np.sin(y + z) + x, *[(3,)] * 3)
    names = [term.op.name for term in terms_of(node, times_used(graph.nodes, [node]))]
    assert names == ["input", "add", "sin", "input"]
    assert terms_of(node, times_used(graph.nodes, [node]), 1) == list(node.inputs)


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


def test_places_along_an_axis():
    graph, (x,), node = traced(lambda x: x[:, 2:4], (3, 5, 2))
    assert run_of(node) == (x, 1, 2, 4, True)
    assert run_of(traced(lambda x: x[:, -1], (3, 5, 2))[2])[1:] == (1, 4, 5, False)
    v = Variable(graph, x)
    assert places(v, 0, 0, 3) is v
    assert run_of(places(v, 1, 1, 5).node) == (x, 1, 1, 5, True)
    for other in (lambda x: x[1:, 2], lambda x: x[:, ::2], lambda x: x[:, None], lambda x: x[:, np.array([0, 1])]):
        assert run_of(traced(other, (3, 5, 2))[2]) is None
