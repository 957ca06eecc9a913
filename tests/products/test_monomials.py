"""Products and sums of products in fewer passes: random programs in exact arithmetic, and what is left alone."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core.graph import Aval, Graph, verify
from symgrad.core.interpret import interpret
from symgrad.core.provenance import UNKNOWN
from symgrad.frontend.variable import Variable
from symgrad.pipeline import distribute, drop_dead, factorise

pytestmark = pytest.mark.usefixtures("whole")

N = 4
VALUES = np.array([[1.0, -2.0, 1.0, -1.0], [-1.0, 2.0, 0.5, 1.0], [2.0, 1.0, -0.5, -2.0]])
NUMBERS = [-1.0, 1.0, 2.0, -2.0, 0.5, 3.0, 0.0, -0.25]


def graph_of(f, count, dtype=np.float64, shape=(N,)):
    graph = Graph()
    graph.provenance = UNKNOWN
    inputs = [graph.add_input(f"x{i}", Aval(shape, np.dtype(dtype))) for i in range(count)]
    graph.outputs = [y.node for y in f(*[Variable(graph, x) for x in inputs])]
    graph.provenance = None
    return graph


def passes(graph):
    """The operations that are computed, on arrays."""
    return [x.op.name for x in drop_dead(graph).nodes if x.inputs and x.aval.shape]


def values(graph, *arrays, of=None):
    with np.errstate(all="ignore"):
        return interpret(of or graph.outputs, dict(zip(graph.inputs, arrays, strict=True)))


# ---- random programs, in numbers that are exact whatever the order


@st.composite
def programs(draw):
    """Steps, each of two earlier values and a number, and which values are wanted."""
    kinds = draw(st.sampled_from(["mmmmmaasncCrq", "mmasf", "fff", "gg", "ggh"]))
    step = st.tuples(st.sampled_from(kinds), st.integers(0, 30), st.integers(0, 30), st.sampled_from(NUMBERS))
    return draw(st.lists(step, min_size=2, max_size=18)), draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))


def run(program, *arrays):
    steps, wanted = program
    found = list(arrays)
    size = [1] * len(found)  # in how many factors of inputs a value is: what is larger might be rounded
    for kind, i, j, c in steps:
        i, j = i % len(found), j % len(found)
        x, y, most = found[i], found[j], size[i] + size[j]
        if kind == "m" and most <= 8:
            found.append(x * y), size.append(most)
        elif kind in "as" and max(size[i], size[j]) <= 6:
            found.append(x + y if kind == "a" else x - y), size.append(max(size[i], size[j]) + 1)
        elif kind == "f" and most <= 6:
            found.append(x * y + c * x * arrays[j % len(arrays)]), size.append(most + 2)
        elif kind in "gh" and size[-1 - i % 3] <= 5:  # what was made last is a factor of sums, or of products, again
            last, y, z = found[-1 - i % 3], arrays[j % len(arrays)], arrays[(j + 1) % len(arrays)]
            size.append(size[-1 - i % 3] + (2 if kind == "g" else 1))
            found.append(last * y if kind == "h" else last * y + last * z if c > 0 else last * y - last * z)
        elif kind == "n":
            found.append(-x), size.append(size[i])
        elif kind in "cC" and size[i] <= 6:
            found.append(x * c if kind == "c" else 2.0 + c * x), size.append(size[i] + 2)
        elif kind == "r":
            found.append(c / arrays[j % len(arrays)]), size.append(2)
        elif kind == "q" and size[i] <= 6:
            found.append(x / arrays[j % len(arrays)]), size.append(size[i] + 1)
    return tuple(found[k % len(found)] for k in wanted)


@given(programs())
def test_random_programs_are_what_they_were(program):
    graph = graph_of(lambda *x: run(program, *x), 3)
    expected, wanted = run(program, *VALUES), graph.outputs
    graph.outputs = [x for x in graph.nodes if x.inputs]
    named = {f"v{x.id}": value for x, value in zip(graph.outputs, values(graph, *VALUES), strict=True)}
    named |= {f"x{i}": value for i, value in enumerate(VALUES)}
    graph.outputs = wanted
    for node in graph.nodes:
        if node.inputs:
            graph.label(node, f"v{node.id}")
    for each in (distribute, factorise, lambda g: factorise(distribute(g))):
        new = each(graph)
        verify(new)
        assert len(passes(new)) <= len(passes(graph))
        for a, b in zip(values(new, *VALUES), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        for node, name in new.names.items():
            np.testing.assert_array_equal(values(new, *VALUES, of=[node])[0], named[name])


@given(programs())
def test_random_programs_and_their_gradients(program):
    """With all the rules around them."""

    def f(*arrays):
        return sum(np.sum(y) for y in run(program, *arrays))

    if not any(kind in "mas" for kind, *_ in program[0]):
        return
    g = sg.value_and_grad(f, (0, 1, 2))
    specs = ["float64[4]"] * 3
    found = g.compile(*specs, optimize=2)(*VALUES)
    expected = g.compile(*specs, optimize=0)(*VALUES)
    for a, b in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)


# ---- how many passes


def shared_sum(x, y, z):
    """Return a sum with a common factor that is needed whole twice."""
    return z * x - y * z


@pytest.mark.parametrize(
    ("f", "most"),
    [
        (lambda x, y, z: (0.5 * (x * (3.0 * y)),), 2),
        (lambda x, y, z: (0.1 * x * y, 0.7 * (0.1 * x) * y * z), 4),
        (lambda x, y, z: (x * y * z, x * (y * y), z * y * x), 3),
        (lambda x, y, z: ((x * x) * (y * y) * x * y,), 3),
        (lambda x, y, z: (2.5 * (x * (1 + 0.3 * y)),), 3),
        (lambda x, y, z: (2.5 * x * (1 + 0.3 * (y * (2 - 0.5 * z))),), 5),
        (lambda x, y, z: (2.5 * x * (0.4 * y - 0.3 * z), 2.5 * (0.4 * y - 0.3 * z) * z), 4),
        (lambda x, y, z: (2.5 * (x * (2.0 / y)), 2.5 * ((2.0 / y) * z)), 3),
        (lambda x, y, z: (-(x * y) * -z,), 2),
        (lambda x, y, z: (-(0.3 * x) * z,), 2),
        (lambda x, y, z: (0.3 * x * y, -(0.3 * x * y)), 3),
        (lambda x, y, z: (x * y + x * z,), 2),
        (lambda x, y, z: (x * y - 0.5 * (x * z),), 3),
        (lambda x, y, z: (0.5 * x * y - z * 0.5,), 3),
        (lambda x, y, z: (-(x * y) + x * z,), 2),
        (lambda x, y, z: (-(x * y) - x * z,), 3),
        (lambda x, y, z: (0.2 * x * y + x * z + 0.7 * x,), 4),
        (lambda x, y, z: (shared_sum(x, y, z) * x - 0.3 * x * z, shared_sum(x, y, z) * y), 6),
        (lambda x, y, z: (2.5 * x * (1 + 0.3 * y), x * (1 + 0.3 * y)), 4),
    ],
)
def test_passes(f, most):
    x = np.random.default_rng(0).uniform(1, 2, (3, N))
    graph = graph_of(f, 3)
    new = factorise(distribute(graph))
    assert len(passes(new)) == most
    for a, b in zip(values(new, *x), f(*x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


# ---- what is left alone


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: ((x * y) * 0.5,),
        lambda x, y: (2.5 * (1 + y * y),),  # the product would need a number of its own
        lambda x, y: (2.5 * x * (1 + 0.3 * y), 1 + 0.3 * y),  # the sum is wanted as it is
        lambda x, y: (2.5 * x * (1 + 0.3 * y), np.exp(0.3 * y)),  # and here its term
        lambda x, y: (2.5 * x * (1 + 0.3 * y), 1.5 * (1 + 0.3 * y)),
        lambda x, y: (x * x + x * x * y * y,),  # squares, which sums take apart
        lambda x, y: (x * y + np.exp(x * y),),
        lambda x, y: (1e-200 * (x * 1e200),),
        lambda x, y: (1e200 * x * (1 + 1e200 * y),),
        lambda x, y: (1e-200 * x + 1e-200 * y,),
        lambda x, y: (0.0 * (x * 3.0) + np.inf * (2.0 * y),),
    ],
)
def test_what_would_not_pay_or_is_not_safe_stays(f):
    graph = graph_of(f, 2)
    assert distribute(graph) is graph
    assert factorise(graph) is graph


def test_numbers_for_float32_are_nearer_to_one():
    graph = graph_of(lambda x, y: (1e-12 * (x * 1e12), 0.1 * (x * 3.0)), 2, np.float32)
    new = factorise(graph)
    assert len(passes(new)) == len(passes(graph)) - 1
    assert all(x.aval.dtype == np.float32 for x in new.outputs)
    assert factorise(graph_of(lambda x, y: (1e-12 * (x * 1e12),), 2, np.float64)) is not graph


def test_ieee_keeps_the_order():
    graph = graph_of(lambda x, y: (0.5 * (x * (3.0 * y)) + x * 0.5,), 2)
    assert distribute(graph, "ieee") is graph
    assert factorise(graph, "ieee") is graph


def test_broadcasting_and_whole_numbers_are_none_of_its_business():
    def f(x, y):
        return (2.0 * (x[:, None] * (3.0 * y)), 2 * (3 * np.astype(x, int)))

    graph = graph_of(f, 2)
    assert values(factorise(graph), *VALUES[:2])[1].dtype == int
    for a, b in zip(values(factorise(graph), *VALUES[:2]), f(*VALUES[:2]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_that_are_symbols(dtype):
    """The divisor of a mean is no number before the program runs."""

    def f(x, y):
        return np.mean(0.1 * np.tanh(x) ** 2 * np.exp(-y * y) + x * y * 0.3)

    x, y = np.random.default_rng(0).normal(size=(2, 50)).astype(dtype)
    g = sg.value_and_grad(f, (0, 1))
    spec = f"{np.dtype(dtype)}[n]"
    programs = [g.compile(spec, spec, optimize=level) for level in (1, 2)]
    assert len(passes(programs[1].graph)) <= len(passes(programs[0].graph))
    for a, b in zip(*(p(x, y)[1] for p in programs), strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=1e-5 if dtype == np.float32 else 1e-13, atol=1e-9)


def test_long_chains_and_sums():
    def f(x, y, *others):
        product, total = x, x * y
        for i in range(1500):
            product = product * others[i % 3]
            total = total + y * (0.5 * others[i % 3]) if i % 2 else total - y * others[i % 3]
        return product, total

    x = np.random.default_rng(0).choice([1.0, -1.0], size=(5, N))
    graph = graph_of(f, 5)
    new = factorise(distribute(graph))
    assert len(passes(new)) < 0.6 * len(passes(graph))
    for a, b in zip(values(new, *x), f(*x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_many_products_of_common_factors_compile_quickly():
    """Hundreds of them are nothing, whatever they have in common."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, 40, size=(600, 5))

    def f(*x):
        return [x[a] * x[b] * (x[c] * x[d]) * x[e] for a, b, c, d, e in picks]

    graph = graph_of(f, 40)
    new = factorise(graph)
    assert len(passes(new)) < len(passes(graph))
    x = rng.choice([1.0, -1.0, 2.0, 0.5], size=(40, N))
    for a, b in zip(values(new, *x), f(*x), strict=True):
        np.testing.assert_array_equal(a, b)
