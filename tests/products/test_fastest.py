"""Forms of the highest level of optimisation, each against the program as written, and their limits."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core.graph import verify
from symgrad.pipeline import lower_contractions, optimise, specialise

pytestmark = pytest.mark.usefixtures("whole")

N, K, D = 6, 3, 4
SIZES = {"n": N, "k": K, "i": D, "j": D + 1, "m": 2}


def array(*shape, seed=0, dtype=float):
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(dtype)


def specs(arrays, symbolic):
    """Specs of arrays; where sizes are symbols, one for each size."""
    return [f"{x.dtype}[{', '.join(f'n{s}' if symbolic and s > 1 else str(s) for s in x.shape)}]" for x in arrays]


def compiled(f, *arrays, symbolic=False, **options):
    return sg.compile(f).compile(*specs(arrays, symbolic), optimize=2, **options)


def close(a, b, dtype=np.float64):
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def agrees(f, *arrays):
    """The program of `f` for these arrays, with the numbers that `f` gives; and so where sizes are symbols."""
    for symbolic in (True, False):
        program = compiled(f, *arrays, symbolic=symbolic)
        expected = f(*arrays)
        result = program(*arrays)
        assert np.shape(result) == np.shape(expected)
        assert type(result) is type(expected)
        assert np.result_type(result) == np.result_type(expected)
        close(result, expected, np.result_type(expected))
    return program


def operators(program):
    return [node.op.name for node in program.graph.nodes if node.op.name not in ("input", "constant", "size")]


# ---- sums of what is linear

LINEAR = {
    "factor": lambda a, s, w: w * s,
    "divisor": lambda a, s, w: w / (s * s + 1),
    "contraction": lambda a, s, w: np.einsum("kij,nki->nkj", a, w),
    "both": lambda a, s, w: np.einsum("kij,nki->nkj", a, w) + w * s,
    "difference": lambda a, s, w: w * s - np.einsum("kij,nki->nkj", a, w * s[0]) / 3,
    "matrices": lambda a, s, w: -(w @ a[0]),
    "stack": lambda a, s, w: w @ a,
    "transposed": lambda a, s, w: a[0].T @ np.transpose(w, (0, 2, 1)),
    "outer": lambda a, s, w: w[:, 0, 0][:, None, None] * s,
    "tensordot": lambda a, s, w: np.tensordot(w, a, axes=((2,), (1,))),
    "product": lambda a, s, w: w * w * s,
}


AXES = [0, 1, 2, (0, 1), (1, 2), None]


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", LINEAR)
def test_sums_of_linear_functions(name, axis, mean):
    """Sums and means of each along each axis, one of the two with `keepdims`, alternately."""
    keepdims = bool(([*LINEAR].index(name) + AXES.index(axis) + mean) % 2)
    if name in ("stack",):
        arrays = array(N, D, D), array(K, D), array(N, K, D)
    else:
        arrays = array(K, D, D), array(K, D), array(N, K, D)
    reduce = np.mean if mean else np.sum
    agrees(lambda a, s, w: reduce(LINEAR[name](a, s, w), axis=axis, keepdims=keepdims), *arrays)


def test_a_sum_is_taken_before_a_contraction():
    def f(a, s, w):
        return np.sum(np.einsum("kij,nki->nkj", a, w) + w * s, axis=0), w

    arrays = array(K, D, D), array(K, D), array(50, K, D)
    program = compiled(f, *arrays)
    assert operators(program)[0] == "sum"
    assert sum(np.prod(node.aval.shape) > 50 for node in program.graph.nodes if node.op.name != "input") == 0
    close(program(*arrays)[0], f(*arrays)[0])


def test_what_cancels_is_not_taken_apart():
    """Each difference is exact, and the two sums are not."""

    def f(x, m):
        return np.sum(x - m, axis=0), np.sum(3.5 * x - 3.5 * m, axis=0)

    x, m = 1e12 + array(1000, 4), np.full(4, 1e12)
    found = compiled(f, x, m)(x, m)
    np.testing.assert_allclose(found[0], np.sum(x - m, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found[1], 3.5 * np.sum(x - m, axis=0), rtol=1e-2)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_squares_are_taken_apart(axis):
    """They cannot cancel."""
    x, y = array(50, 4), array(50, 4, seed=1)
    program = agrees(lambda x, y: np.sum(2.5 * (x * x) + y * y + 0.5 * (x * y) ** 2, axis=axis), x, y)
    assert operators(program)[0] in ("einsum", "vecdot", "multiply")
    assert "sum" not in operators(program)
    found = compiled(lambda x, y: np.sum(x * x - y * y, axis=axis), x, y)
    assert operators(found)[2] == "subtract"


def test_what_others_need_is_left_alone():
    def f(w, s):
        y = w * s
        return np.sum(y, axis=0), y

    assert operators(compiled(f, array(50, 4), array(4))) == ["multiply", "sum"]


def test_ieee_keeps_the_order():
    program = compiled(lambda w, s: np.sum(w * s, axis=0), array(50, 4), array(4), numerics="ieee")
    assert operators(program) == ["multiply", "sum"]


# ---- random programs


@st.composite
def terms(draw):
    """Operands by their labels, and how each is combined with what there is."""
    labels = st.lists(st.sampled_from("nkim"), unique=True, max_size=4).map(lambda x: "".join(sorted(x)))
    steps = draw(st.lists(st.tuples(labels, st.sampled_from("*/+-e")), min_size=1, max_size=4))
    return (
        steps,
        draw(st.sampled_from(["sum", "mean"])),
        draw(st.sets(st.integers(0, 3), min_size=1)),
        draw(st.booleans()),
    )


def shaped(x, labels):
    """An operand with axes of size one where it lacks a label of "nkim"."""
    return np.reshape(x, [x.shape[labels.index(c)] if c in labels else 1 for c in "nkim"])


@given(terms())
def test_random_sums_of_products(drawn):
    steps, kind, axes, keepdims = drawn
    arrays = [array(*[SIZES[c] for c in labels], seed=i) for i, (labels, _) in enumerate(steps)]
    base = array(N, K, D, 2, seed=99)

    def f(x, *others):
        y = x
        for (labels, how), z in zip(steps, others, strict=True):
            if how == "e":
                y = np.einsum(f"nkim,{labels}->nkim", y, z)
            elif how == "/":
                y = y / (shaped(z, labels) ** 2 + 1)
            elif how == "*":
                y = y * shaped(z, labels)
            else:
                other = x * shaped(z, labels)
                y = y + other if how == "+" else y - other
        return getattr(np, kind)(y, axis=tuple(axes), keepdims=keepdims)

    agrees(f, base, *arrays)


# ---- sums of products


OPERANDS = ["same", "other", "rows", "column", "corner", "vector"]


@pytest.mark.parametrize("axis", [*AXES, (0, 2)])
@pytest.mark.parametrize("y", OPERANDS)
def test_sums_of_products(axis, y):
    """Each operand along each axis, alternately in double and in single precision."""
    dtype = (np.float64, np.float32)[([*AXES, (0, 2)].index(axis) + OPERANDS.index(y)) % 2]
    x = array(40, 5, 30, dtype=dtype)
    shapes = {"rows": (5, 30), "column": (40, 5, 1), "corner": (40, 1, 1), "vector": (30,), "other": (40, 5, 30)}
    if y == "same":
        agrees(lambda x: np.sum(x * x, axis=axis), x)
    else:
        agrees(lambda x, y: np.sum(x * y, axis=axis), x, array(*shapes[y], seed=1, dtype=dtype))


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (lambda a, x: np.sum(a[:, None] * x, axis=0), [(50,), (50, 7)], ["matmul"]),
        (lambda a, x: np.sum(a * x, axis=1), [(7,), (50, 7)], ["matmul"]),
        (lambda a, x: np.sum(a * x), [(50, 7), (50, 7)], ["einsum"]),
        (lambda a, x: np.sum(a * x, axis=0), [(50, 3, 7), (50, 3, 7)], ["einsum"]),
        (lambda a, x: np.sum(a * x, axis=2), [(5, 3, 7), (5, 3, 7)], ["vecdot"]),
        (lambda a, x: np.sum(a * x, axis=2), [(500, 3, 7), (500, 3, 7)], ["einsum"]),
        (lambda a, x: np.sum(a * x, axis=1), [(5000, 300), (5000, 300)], ["vecdot"]),
        (lambda a, x: np.sum(a[:, None] * x * x[0]), [(50,), (50, 7)], ["index", "matmul", "matmul"]),
        (lambda x: np.sum(np.sum(x, axis=1), axis=0), [(5, 3, 7)], ["sum"]),
        (lambda a, x: np.mean(a * x, axis=0), [(50, 7), (50, 7)], ["einsum", "divide"]),
    ],
)
def test_the_form_of_a_sum_of_products(f, shapes, expected):
    arrays = [array(*shape, seed=i) for i, shape in enumerate(shapes)]
    program = agrees(f, *arrays)
    assert operators(program) == expected


@pytest.mark.parametrize("shape", [(3000, 1000), (1000, 60, 50), (10, 300_000)])
def test_long_sums_in_float32_stay_accurate(shape):
    x, y = array(*shape, dtype=np.float32) + 3, array(*shape, seed=1, dtype=np.float32) + 2
    exact = x.astype(float) * y
    for axis in (None, -1, tuple(range(1, len(shape)))):
        found = compiled(lambda x, y, axis=axis: np.sum(x * y, axis=axis), x, y)(x, y)
        np.testing.assert_allclose(found, np.sum(exact, axis=axis), rtol=1e-6)


def test_integers_are_summed_as_they_were():
    x = np.arange(40).reshape(5, 8)
    assert "einsum" not in operators(agrees(lambda x: np.sum(x * x, axis=0), x))
    x = x.astype(np.float16)
    assert "einsum" not in operators(compiled(lambda x: np.sum(x * x, axis=0), x))


# ---- the kernel of a contraction


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "subscripts",
    [
        "kij,nkj->nki", "kij,nki->nkj", "nki,nkj->kij", "nki,kij->jkn", "kij,kj->ki", "nk,nki->ki", "nki,ki->nk",
        "nki,nki->nk", "nki,nki->kn", "kni,nki->nk", "ni,nj->nij", "nki,ij->nkj", "ij,nki->jnk", "ij,nki->knj",
        "nki,kij->ni", "nki,nkj->ij", "nki,ij->jnk", "nki,mij->nkmj", "nk,nk->nk", "nki,nkj->nij", "nkmi,kij->nmkj",
    ],
)  # fmt: skip
def test_contractions(subscripts, dtype):
    for factor in (1, 4):
        sizes = {label: n * factor for label, n in SIZES.items()}
        terms = subscripts.split("->")[0].split(",")
        x, y = (array(*[sizes[c] for c in term], seed=i, dtype=dtype) for i, term in enumerate(terms))
        agrees(lambda x, y: np.einsum(subscripts, x, y), x, y)


@pytest.mark.parametrize("subscripts", ["kij,nkj->nki", "bhqd,bhkd->bhqk", "nki,ij->nkj", "nki,nkj->kij"])
def test_batches_are_matrix_products_of_views(subscripts):
    terms = subscripts.split("->")[0].split(",")
    x, y = (array(*(dict.fromkeys("nkijbhqd", 8)[c] for c in term), seed=i) for i, term in enumerate(terms))
    program = agrees(lambda x, y: np.einsum(subscripts, x, y), x, y)
    assert set(operators(program)) <= {"transpose", "matmul"} | ({"reshape"} if terms[1] == "ij" else set())
    assert operators(program).count("matmul") == 1


@given(st.data())
def test_random_contractions(data):
    labels = st.lists(st.sampled_from("nkij"), unique=True, min_size=1, max_size=4).map("".join)
    a, b = data.draw(labels), data.draw(labels)
    out = data.draw(st.lists(st.sampled_from(sorted(set(a + b))), unique=True, max_size=4).map("".join))
    ones = data.draw(st.sets(st.sampled_from("nkij"), max_size=1))
    sizes = {c: 1 if c in ones else 7 * n for c, n in SIZES.items()}
    x, y = (array(*[sizes[c] for c in term], seed=i) for i, term in enumerate((a, b)))
    agrees(lambda x, y: np.einsum(f"{a},{b}->{out}", x, y), x, y)


# ---- the walk


def test_the_passes_leave_valid_graphs():
    graph = sg.grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2) + np.mean(w * w)).graph("float64[3, 2]", "float64[n, 3]")
    for each in (lambda g: optimise(g, 1), specialise, lower_contractions):
        graph = each(graph)
        verify(graph)
    again = optimise(graph, 2)
    assert [node.op for node in again.nodes] == [node.op for node in optimise(again, 2).nodes]


def test_level_1_knows_none_of_it():
    def f(w, s):
        return np.sum(np.einsum("kij,nki->nkj", s, w), axis=0) + np.sum(w * w)

    program = sg.compile(f).compile("float64[50, 3, 4]", "float64[3, 4, 4]", optimize=1)
    assert operators(program) == ["einsum", "sum", "multiply", "sum", "add"]


# ---- the order of contractions


@pytest.mark.parametrize(
    ("f", "shapes", "largest"),
    [
        (lambda a, b, v: a @ b @ v, [(30, 20), (20, 40), (40,)], 30),
        (lambda v, a, b: v @ (a @ b), [(30,), (30, 20), (20, 40)], 40),
        (lambda a, b, c, v: a @ b @ c @ v, [(30, 30), (30, 30), (30, 30), (30,)], 30),
        (lambda a, b, v: (a @ b).T @ v, [(30, 20), (20, 40), (30,)], 40),
        (lambda a, b, c: np.outer(a, b) @ c, [(30,), (20,), (20,)], 30),
        (lambda a, b, c: np.outer(a, b) @ c, [(30,), (20,), (20, 3)], 90),
        (lambda v, a, w: np.sum(np.outer(v, w) * a), [(30,), (30, 20), (20,)], 20),
        (lambda s, a, v: (s * a) @ v, [(40,), (30, 40), (40,)], 40),
        (lambda s, a, v: (s[:, None] * a) @ v, [(30,), (30, 40), (40,)], 30),
        (lambda u, a, v: np.einsum("i,ij,j->", u, a, v), [(30,), (30, 40), (40,)], 30),
        (lambda a, b, c: np.einsum("ni,ij,nj->n", a, b, c), [(9, 30), (30, 40), (9, 40)], 270),
        (lambda a, b, c, v: np.einsum("ij,jk,kl,l->i", a, b, c, v), [(30, 30), (30, 30), (30, 30), (30,)], 30),
        (lambda x, w: np.einsum("nki,kj->kij", x, w), [(50, 3, 4), (3, 5)], 60),
    ],
)
def test_the_cheapest_order(f, shapes, largest):
    """No intermediate is larger than it need be."""
    arrays = [array(*shape, seed=i) for i, shape in enumerate(shapes)]
    program = agrees(f, *arrays)
    made = [node for node in program.graph.nodes if node.op.name not in ("input", "constant", "transpose", "index")]
    assert max(np.prod(node.aval.shape) for node in made) == largest


@given(st.data())
def test_random_networks_of_tensors(data):
    """Products, contractions and transposes of each other, in a random tree."""
    labels = st.lists(st.sampled_from("nkij"), unique=True, min_size=1, max_size=3).map("".join)
    terms = data.draw(st.lists(labels, min_size=2, max_size=5))
    arrays = [array(*[SIZES[c] for c in term], seed=i) for i, term in enumerate(terms)]
    how = data.draw(st.lists(st.sampled_from(["einsum", "multiply", "sum"]), min_size=5, max_size=5))
    keep = data.draw(st.lists(st.sets(st.sampled_from("nkij")), min_size=5, max_size=5))

    def f(*xs):
        y, term = xs[0], terms[0]
        for x, other, step, kept in zip(xs[1:], terms[1:], how, keep, strict=False):
            union = "".join(dict.fromkeys(term + other))
            out = union if step == "multiply" else "".join(sorted(c for c in union if c in kept))
            y, term = np.einsum(f"{term},{other}->{out}", y, x), out
        return y if how[-1] != "sum" else np.sum(y)

    agrees(f, *arrays)
    if len(terms) > 2:
        agrees(lambda *xs: np.einsum(f"{','.join(terms)}->{terms[0][::-1]}", *xs), *arrays)


def test_a_chain_that_others_use_keeps_its_order():
    def f(a, b, v):
        m = a @ b
        return m @ v, m

    program = compiled(f, array(30, 20), array(20, 40), array(40))
    assert [node.inputs[0].op.name for node in program.graph.nodes if node.op.name == "matmul"] == ["input", "matmul"]


# ---- kernels


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["sum", "mean"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), None])
def test_short_sums(axis, keepdims, kind, dtype):
    for shape in ((40, 7, 9), (4, 3, 2), (3, 40, 1), (1, 3, 200), (70, 1, 3)):
        agrees(lambda x: getattr(np, kind)(x, axis=axis, keepdims=keepdims), array(*shape, dtype=dtype))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(5000, 25), (5000, 2500), (5, 25), (100, 25, 20)])
def test_a_sum_is_written_as_one(axis, shape):
    program = sg.compile(lambda x: np.sum(x, axis=axis)).compile(f"float64[{', '.join(map(str, shape))}]")
    assert operators(program) == ["sum"]


POWERS = [k / 2 for k in range(-33, 34)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("exponent", POWERS)
def test_powers(exponent, dtype):
    x = np.linspace(0.3, 3, 40).astype(dtype)
    special = np.array([0.0, -0.0, 1.0, np.inf, np.nan], dtype)
    program = compiled(lambda x: x**exponent, x)
    np.testing.assert_allclose(program(x), x**exponent, rtol=2e-15 if dtype == np.float64 else 2e-6)
    if exponent == int(exponent):
        with np.errstate(all="ignore"):
            signed = np.concatenate([special, -x[5:]])
            np.testing.assert_allclose(program(signed), signed**exponent, rtol=2e-15 if dtype == np.float64 else 2e-6)
    assert ("power" in operators(program)) == (abs(exponent) > 16)


def test_other_powers_stay():
    for exponent in (0.3, -1.7, 100):
        assert operators(compiled(lambda x, a=exponent: x**a, array(5))) == ["power"]


MIXED = np.array([3.0, 0.0, -2.0, 1.5, -0.5])
OF_ONE_ARRAY = {
    "range": lambda x: x[:, None] ** np.arange(6),
    "range with a step": lambda x: x[:, None] ** np.arange(2, 11, 4),
    "floats": lambda x: x[:, None] ** np.arange(4.0),
    "vander": lambda x: np.vander(x, 5),
    "first axis": lambda x: x ** np.arange(17)[:, None],
    "middle axis": lambda x: (x[:, None, None] * x[:7]) ** np.array([[3], [0], [16]]),
    "negative and half": lambda x: x[:, None] ** MIXED,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OF_ONE_ARRAY)
def test_powers_of_one_array(name, dtype):
    """Their gradient too, which needs no power that is not there."""
    f, x = OF_ONE_ARRAY[name], np.linspace(0.3, 1.6, 200).astype(dtype)
    program = agrees(f, x)
    assert "power" not in operators(program)
    weights = array(*f(x).shape, seed=1)
    gradient = sg.grad(lambda x: np.sum(weights * f(x)))
    fast, plain = (gradient.compile(x, optimize=level) for level in (2, 0))
    assert "power" not in operators(fast)
    close(fast(x), plain(x), dtype)


def test_powers_of_zeros_infinities_and_nan():
    exponents = np.arange(8)
    x = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan], np.linspace(-3, 3, 95)])
    program = compiled(lambda x: x[:, None] ** exponents, x)
    assert "power" not in operators(program)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(program(x), x[:, None] ** exponents, rtol=2e-15)
    assert np.array_equal(np.signbit(program(x)[:4]), np.signbit(x[:4, None] ** exponents))


def test_powers_of_few_numbers_where_many_were_expected():
    def f(x):
        return x[1:, None] ** np.arange(6)

    program = sg.compile(f).compile("float64[n]", optimize=2)
    assert "power" not in operators(program)
    for n in (1, 2, 5):
        close(program(array(n)), f(array(n)))


OTHER_POWERS = {
    "few numbers": (lambda x: x[:3, None] ** np.arange(6), {}),
    "many exponents": (lambda x: x[:, None] ** np.arange(18), {}),
    "large exponents": (lambda x: x[:, None] ** np.array([1, 17]), {}),
    "other exponents": (lambda x: x[:, None] ** np.array([1, 0.3]), {}),
    "an exponent for each": (lambda x: x ** np.arange(100), {}),
    "a table": (lambda x: x[:, None, None] ** np.arange(6).reshape(2, 3), {}),
    "a base for each": (lambda x: np.reshape(x, (-1, 2)) ** np.arange(2), {}),
    "integers": (lambda x: x.astype(int)[:, None] ** np.arange(6), {}),
    "ieee": (lambda x: x[:, None] ** np.arange(6), {"numerics": "ieee"}),
}


@pytest.mark.of_numpy
@pytest.mark.parametrize("name", OTHER_POWERS)
def test_other_powers_of_one_array_stay(name):
    (f, options), x = OTHER_POWERS[name], np.linspace(0.5, 2, 100)
    program = compiled(f, x, **options)
    assert "power" in operators(program)
    assert np.array_equal(program(x), f(x))


def test_what_is_divided_again_by_the_same_is_multiplied():
    def f(x, y):
        return 1 / y, x / y, (x * x) / y, y / x

    x, y = array(50), 2 + np.abs(array(50))
    program = compiled(f, x, y)
    assert operators(program).count("divide") == 2
    for a, b in zip(program(x, y), f(x, y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)
    assert operators(compiled(f, array(50), array(50), numerics="ieee")).count("divide") == 4
    assert operators(compiled(lambda x, y: (1 / y, x / y), array(50, 4), array(4))).count("divide") == 2


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("f", "op"),
    [
        (lambda x, y: np.logaddexp(0, x), "logaddexp"),
        (lambda x, y: np.heaviside(x, 0.5), "heaviside"),
        (lambda x, y: x / 4, "divide"),
        (lambda x, y: 2.0**x, "power"),
        (lambda x, y: np.where(x > y, 1.0, 0), "where"),
        (lambda x, y: np.where(x > y, 0, 1.0), "where"),
    ],
)
def test_kernels_at_special_values(f, op):
    """Infinities, NaNs, zeros and the largest numbers, every pair of them, are what they were."""
    x, y = (np.tile(np.resize(z, 100), 100) for z in (np.repeat(SPECIAL, 10), SPECIAL))
    program = compiled(f, x, y)
    assert op not in operators(program)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(program(x, y), f(x, y), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_mask_leaves_out_is_zero_whatever_it_is(dtype):
    with np.errstate(over="ignore"):
        x = np.resize(SPECIAL, (100, 100)).astype(dtype)
    f = lambda c, x: (np.where(c, -x, 0), np.where(c, 0, -x.T), np.where(c[0], -x, 0))
    c = np.random.default_rng(0).random((100, 100)) < 0.5
    program = compiled(f, c, x)
    assert program.source.count("_where_true(") == 3 + 1  # and where it is defined
    for a, b in zip(program(c, x), f(c, x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def test_small_arrays_keep_few_calls():
    for f in (lambda x: np.logaddexp(0, x), lambda x: np.heaviside(x, 0.5)):
        assert len(operators(compiled(f, array(10)))) == 1


@pytest.mark.of_numpy
def test_the_choice_of_a_number_stays_an_array():
    f = sg.compile(lambda x: (np.where(x > 0, 1.0, 0), np.where(x > 0, 0, 1.0)))
    assert [type(y) for y in f(np.float64(1.0))] == [np.ndarray, np.ndarray]


def test_other_divisions_stay():
    for divisor in (3.0, 0.1, 1e-310, 2.0**1000):
        assert operators(compiled(lambda x, a=divisor: x / a, array(5))) == ["divide"]


def test_numbers_leave_quotients():
    x, y = array(50), 2 + np.abs(array(50))
    program = agrees(lambda x, y: 2.5 * ((1.5 * x) / y) + 3 * (x / (0.7 * y)), x, y)
    assert operators(program).count("multiply") <= 2
    small = compiled(lambda x, y: 2.5 * ((1e-200 * x) / y), x, y)
    close(small(x, 1e-180 * y), 2.5 * ((1e-200 * x) / (1e-180 * y)))


def test_numbers_leave_solutions():
    a, b = array(4, 4) + 5 * np.eye(4), array(4, 30)
    program = agrees(lambda a, b: np.sum(np.linalg.solve(a, b) * np.linalg.solve(a, 0.5 * b)), a, b)
    assert operators(program).count("linalg.solve") == 1
    assert operators(agrees(lambda a, b: np.linalg.solve(2 * a, b), a, b)) == ["multiply", "linalg.solve"]


# ---- columns

OF_COLUMNS = {
    "stack": lambda x, y: np.stack([x, y * y, np.sin(x)], axis=-1),
    "column_stack": lambda x, y: np.column_stack([x, y * y, np.sin(x)]),
    "hstack": lambda x, y: np.hstack([x[:, None], np.reshape(y, (-1, 1)), np.sin(x)[:, None]]),
    "of several types": lambda x, y: np.stack([x.astype(np.float32), y > 0, x], axis=-1),
}


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_columns_are_written_one_by_one(name):
    f, weights = OF_COLUMNS[name], array(200, 3)
    x, y = array(200), array(200, seed=1)
    for each in (f, lambda x, y: np.sum(np.tanh(f(x, y) @ weights.T) ** 2)):
        assert "axis=1" not in agrees(each, x, y).source
    assert "axis=1" in compiled(f, x[:6], y[:6]).source
    assert compiled(f, x, y)(x, y).flags.c_contiguous


def test_wide_pieces_are_written_row_by_row():
    assert "axis=1" in agrees(lambda x, y: np.concatenate([x[:, None], y], axis=1), array(200), array(200, 2)).source


# ---- constants


def test_what_is_made_of_small_identity_matrices_is_made_once():
    def f(a, x):
        pairs = np.kron(np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]))
        return x @ (a * pairs + (1 - a) * (1 - np.eye(4) - pairs)), np.eye(4), np.eye(30) + np.sum(x)

    program = compiled(f, array(), array(50, 4))
    assert program.source.count("    pairs = ") == program.source.count("= np.kron") == 0
    assert program.source.count("= np.eye(") == 2  # one before the function, and the large one
    a, x = array(), array(50, 4)
    for _ in range(2):
        for found, expected in zip(program(a, x), f(a, x), strict=True):
            close(found, expected)
            found[:] = 7  # a caller's results are no constants


# ---- products that sum nothing, norms of rows


@pytest.mark.parametrize("subscripts", ["i,ni->ni", "ni,n->ni", "ni,ni->ni"])
def test_an_einsum_that_only_scales_is_a_product(subscripts):
    sizes = [tuple(SIZES[label] for label in term) for term in subscripts[:-4].split(",")]
    x, y = (array(*shape, seed=i) for i, shape in enumerate(sizes))
    program = agrees(lambda x, y: np.einsum(subscripts, x, y), x, y)
    assert operators(program)[-1] == "multiply"
    assert "einsum" not in operators(program)


@pytest.mark.parametrize("subscripts", ["n,i->ni", "in,i->ni"])
def test_an_einsum_of_unlike_axes_stays(subscripts):
    sizes = [tuple(SIZES[label] for label in term) for term in subscripts[:-4].split(",")]
    x, y = (array(*shape, seed=i) for i, shape in enumerate(sizes))
    assert "multiply" not in operators(agrees(lambda x, y: np.einsum(subscripts, x, y), x, y))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [-1, 1, 0, None])
def test_norms_of_rows_need_no_squares(axis, keepdims):
    x = array(5, 3)
    program = agrees(lambda x: np.linalg.norm(x, axis=axis, keepdims=keepdims), x)
    assert ("linalg.norm" in operators(program)) == (axis in (0, None))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), (1, 2)])
@pytest.mark.parametrize(("function", "ddof"), [(np.var, 0), (np.var, 1), (np.std, 0)])
def test_a_variance_is_a_sum_of_squares(function, ddof, axis, keepdims):
    x = array(5, 3, 4)
    program = agrees(lambda x: function(x, axis=axis, ddof=ddof, keepdims=keepdims), x)
    assert function.__name__ not in operators(program)


def test_deviations_of_a_variance_are_those_of_the_program():
    def normalised(x):
        return (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 0.1)

    assert operators(agrees(normalised, array(9, 4))).count("subtract") == 1
    gradient = sg.grad(lambda x, w: np.sum(np.tanh(normalised(x)) * w)).compile(array(9, 4), array(4))
    assert str(gradient.source).count("- x.sum(axis=0)") == 1


def test_a_variance_without_freedom_stays():
    assert "var" in operators(compiled(lambda x: np.var(x, axis=0, ddof=5), array(5, 3)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_variance_of_any_number_has_no_negative_freedom():
    sample, other = (sg.compile(lambda x, d=d: np.var(x, ddof=d)).compile("float64[n]") for d in (1, 2))
    assert "var" not in operators(sample) and "var" in operators(other)
    for n in (1, 2, 5):
        x = array(n)
        np.testing.assert_allclose([sample(x), other(x)], [np.var(x, ddof=1), np.var(x, ddof=2)])


@pytest.mark.parametrize("a", [0.01, 0.5])
@pytest.mark.parametrize("f", [lambda x, a: np.where(x > 0, x, a * x), lambda x, a: np.where(x >= 0, x, a * x)])
def test_leaky_slopes_are_maxima(f, a):
    x = np.array([-2.0, -0.0, 0.0, 3.0, -np.inf, np.inf, np.nan, -5e-324])
    program = compiled(lambda x: f(x, a), x)
    np.testing.assert_array_equal(program(x), f(x, a))
    assert "where" not in operators(program)


@pytest.mark.parametrize("a", [1.5, -0.1])
def test_other_slopes_are_choices(a):
    assert "where" in operators(agrees(lambda x: np.where(x > 0, x, a * x), array(8)))


# ---- masks of where derivatives flow


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.maximum(np.maximum(x @ w, 0) @ w, 0),
        lambda x, w: np.maximum(w.T @ np.maximum(x, 0).T, 0),
        lambda x, w: np.sqrt(np.maximum(np.maximum(x, 0) @ w, 0)),
        lambda x, w: np.sqrt(np.maximum(np.einsum("nk,kj->jn", np.maximum(x, 0), w), 0)),
        lambda x, w: np.sqrt(np.mean(np.maximum(x, 0), axis=1, keepdims=True)) * w[0],
        lambda x, w: np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0) @ w,
    ],
)
def test_masks_are_not_multiplied(f):
    """Rows of zeros, whose roots have infinite slopes, keep the derivative that they have at level 0."""
    x, w = array(6, 4), np.abs(array(4, 4, seed=1))
    x[1], x[3] = 0, -1

    def loss(x, w):
        return np.sum(f(x, w))

    with np.errstate(all="ignore"):
        for symbolic in (False, True):
            found = sg.grad(loss, argnums=(0, 1)).compile(*specs((x, w), symbolic), optimize=2)
            for a, b in zip(found(x, w), sg.grad(loss, argnums=(0, 1), optimize=0)(x, w), strict=True):
                close(a, b)
    assert "!= 0" not in found.source


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_products_of_masks_with_ones(shape):
    m = array(*shape) > 0.5
    ones = {"right": (4, 5), "left": (6, shape[-2])}

    def f(m):
        numbers = m.astype(float)
        return (
            numbers @ np.full(ones["right"], 1.0, like=m) != 0,
            np.full(ones["left"], 2.0, like=m) @ numbers != 0,
            0.25 * numbers != 0,
            np.sum(numbers, axis=0) != 0,
            np.einsum("...ij,j->...i", numbers, np.full(4, 1.0, like=m)) != 0,
            np.any(np.broadcast_to(m[..., :1], m.shape), axis=-1),
            np.any(np.broadcast_to(m[..., :1], m.shape), axis=(0, -1), keepdims=True),
            numbers @ np.full((4, 5), -1.0, like=m) != 0,
        )

    program = sg.compile(f).compile(m, optimize=2)
    for a, b in zip(program(m), f(m), strict=True):
        np.testing.assert_array_equal(a, b)
    assert operators(program).count("matmul") == operators(program).count("sum") == 0


def test_what_is_contracted_with_zeros_is_zero():
    program = compiled(lambda x: np.zeros((3, 4), like=x) @ x + 1, array(4, 5))
    assert "matmul" not in operators(program)
    close(program(array(4, 5)), np.ones((3, 5)))


# ---- sums of many products


def recurrent(W, U, b, x):
    h = np.zeros(W.shape[0], W.dtype, like=W)
    total = 0.0
    for t in range(6):
        h = np.tanh(W @ h + U @ x[t] + b)
        total = total + np.sum(h * h)
    return total


def recurrent_in_batches(W, U, b, x):
    h = np.zeros((x.shape[1], W.shape[0]), W.dtype, like=W)
    for t in range(6):
        h = np.tanh(h @ W + x[t] @ U + b)
    return np.mean(h * h) + np.sum(W * W)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [recurrent, recurrent_in_batches])
def test_the_gradient_of_a_weight_of_many_steps(f, dtype):
    batch = f is recurrent_in_batches
    shapes = [(8, 8), (5, 8) if batch else (8, 5), (8,), (6, 3, 5) if batch else (6, 5)]
    arrays = [array(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]
    for order in (1, 2):
        found = (lambda *xs, **options: sg.grad(f, argnums=(0, 1, 2), **options)(*xs)) if order == 1 else hessian_of(f)
        for a, b in zip(found(*arrays), found(*arrays, optimize=0), strict=True):
            close(a, b, dtype)


def hessian_of(f):
    def products(*xs, **options):
        return sg.grad(lambda *ys: np.sum(sg.grad(f)(*ys) ** 2), argnums=(0, 1, 2), **options)(*xs)

    return products


PRODUCTS = {
    "outer": lambda s, a, b, c, d: np.outer(a[0] * s, b[1]),
    "AtB": lambda s, a, b, c, d: (a * s).T @ b,
    "AB": lambda s, a, b, c, d: (c * s) @ (b + s),
    "ABt": lambda s, a, b, c, d: (c + s) @ (d * s).T,
    "AtBt": lambda s, a, b, c, d: (a * s).T @ (d + s).T,
    "other": lambda s, a, b, c, d: np.sin(s * a[0])[:, None] * b[0],
    "row": lambda s, a, b, c, d: s * b[0],
    "shared": lambda s, a, b, c, d: (a + s).T @ b,
}


@given(st.lists(st.sampled_from(sorted(PRODUCTS)), min_size=3, max_size=14), st.booleans())
def test_random_sums_of_many(kinds, symbolic):
    def f(a, b, c, d):
        total, kept = 0.0, []
        for i, kind in enumerate(kinds):
            term = PRODUCTS[kind](1.0 + i, a, b, c, d)
            total = total + term
            kept += [term] if kind == "shared" else []
        return (total, *kept)

    arrays = array(2, 9), array(2, 7, seed=1), array(9, 2, seed=2), array(7, 2, seed=3)
    program = compiled(f, *arrays, symbolic=symbolic)
    for x, y in zip(program(*arrays), f(*arrays), strict=True):
        close(x, y)


# ---- products of many numbers


def test_what_is_added_twice_is_doubled_where_it_is_small():
    def f(x, y, a):
        once = a[:, None] * y
        return x / 3 + once + once

    arrays = array(40, 30), array(40, 30, seed=1), array(40)
    assert operators(agrees(f, *arrays)).count("add") == 1
    like = agrees(lambda x, y: x / 3 + x * y + x * y, *arrays[:2])
    assert operators(like) == ["multiply", "add", "multiply"]  # x * (1 / 3 + 2 * y)
    wanted = agrees(lambda x, y, a: (x + a[:, None] * y) * (x + a[:, None] * y + a[:, None] * y), *arrays)
    assert operators(wanted).count("add") == 2  # the first sum is there
    close(sg.compile(f)(*arrays), f(*arrays))


@pytest.mark.parametrize(
    ("f", "passes"),
    [
        (lambda x, y, z: (2 * x) * (3 * y), 2),
        (lambda x, y, z: (2 * x) / (3 * y), 2),
        (lambda x, y, z: (x / 2) * (0.3 / y), 2),
        (lambda x, y, z: (z[0] * x) * (0.5 / y), 3),  # with the product of the scalars
        (lambda x, y, z: x + x * 0.5 * (3 * y), 3),
        (lambda x, y, z: x * (y / z) / y, 1),
    ],
)
def test_fewer_passes(f, passes):
    program = agrees(f, array(40), array(40, seed=1) + 5, array(40, seed=2) + 5)
    assert len([op for op in operators(program) if op != "index"]) == passes


def test_parts_are_used_again():
    def f(x, y, z):
        p, q = y * z, x / z
        return p + q, np.sin(p) * q, (x * y) * z, x * (y / z)

    arrays = [array(40, seed=i) + 5 for i in range(3)]
    program = compiled(f, *arrays)
    assert operators(program).count("multiply") == 4
    assert operators(program).count("divide") == 1
    for a, b in zip(program(*arrays), f(*arrays), strict=True):
        close(a, b)


def test_tiny_and_huge_numbers_do_not_meet():
    for a, b in ((1e-200, 1e-200), (1e200, 1e200)):
        x, y = array(5) / a, array(5, seed=1) / b
        agrees(lambda x, y, a=a, b=b: (a * x) * (b * y), x, y)


@given(st.lists(st.tuples(st.sampled_from("*/"), st.integers(0, 5), st.booleans()), min_size=1, max_size=9))
def test_random_products(steps):
    """Products and quotients of numbers, scalars, rows and matrices, in random nests."""

    def f(*xs):
        factors = [*xs, 2.5, -xs[0]]
        y, parts = xs[0], [xs[0]]
        for how, i, deep in steps:
            other = factors[i] if not deep else parts[i % len(parts)]
            y = y * other if how == "*" else other / y if deep else y / other
            parts.append(y)
        return y

    agrees(f, array(6, 4) + 5, array(4, seed=1) + 5, array(6, 4, seed=2) + 5, np.array(1.5))


# ---- choices


MASKED = {
    "zero last": lambda c, x, y: np.where(c, x * y, 0),
    "zero first": lambda c, x, y: np.where(c, 0.0, x * y),
    "rows": lambda c, x, y: np.where(c[:, :1], x * y, 0),
    "repeated": lambda c, x, y: np.where(c, np.broadcast_to(np.sqrt(y[:1]), y.shape), 0),
    "transposed": lambda c, x, y: np.where(c.T, (x * y).T, 0),
    "of two": lambda c, x, y: np.where(c & (x > 0), x * y, 0) + y,
}
OTHERWISE = {
    "negative zero": lambda c, x, y: np.where(c, x * y, -0.0),
    "given": lambda c, x, y: np.where(c, x.T.T, 0),
    "wider": lambda c, x, y: np.where(c, np.astype(x * y, np.float32), np.zeros((), np.float64)),
    "number": lambda c, x, y: np.where(c, x[0, 0] * 2, 0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", [*MASKED, *OTHERWISE])
def test_masks_in_bits(name, symbolic, dtype):
    """Masked numbers are zero, whatever they were, to the sign; the others are unchanged."""
    f = (MASKED | OTHERWISE)[name]
    x, y = array(90, 70, dtype=dtype), array(90, 70, seed=1, dtype=dtype)
    c = array(90, 70, seed=2) > 0
    y[::7], y[::5, ::3], x[::11, ::2] = np.inf, np.nan, -0.0
    program = compiled(f, c, x, y, symbolic=symbolic)
    with np.errstate(all="ignore"):
        expected, found = f(c, x, y), program(c, x, y)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[found == 0], np.signbit(expected)[found == 0])
    assert ("_where_true" in program.source) == (name in MASKED)


def test_masks_of_the_callers_bytes():
    x, c = array(90, 70).astype(">f8"), array(90, 70, seed=1) > 0
    f = sg.compile(lambda c, x: np.where(c, x, 0) + np.where(c, 0, x[::-1]))
    np.testing.assert_array_equal(f.compile(c, x, optimize=2)(c, x), f.compile(c, x, optimize=0)(c, x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_relu(dtype):
    """At a tie a half; nothing comes through from where another was taken, not even an infinite slope."""

    def f(x, w):
        return np.sum(np.sqrt(np.maximum(x, 0)) * w) + np.sum(np.maximum(x, 0) @ w.T)

    x, w = array(90, 70, dtype=dtype), array(90, 70, seed=1, dtype=dtype)
    x[::9, ::4] = np.maximum(x[::9, ::4], 0.1)
    with np.errstate(all="ignore"):
        programs = [sg.grad(f).compile(x, w, optimize=level) for level in (0, 2)]
        expected, found = (program(x, w) for program in programs)
    assert "_where_true" in programs[1].source
    close(found, expected, np.dtype(dtype))
    assert (found[x < 0] == 0).all()


def test_ties_of_relu_share():
    x = array(90, 70)
    x[::3] = 0
    found = sg.grad(lambda x: np.sum(np.maximum(x, 0) ** 2 + 3 * np.maximum(x, 0))).compile(x, optimize=2)(x)
    np.testing.assert_allclose(found, np.where(x > 0, 2 * x + 3, np.where(x == 0, 1.5, 0)))


FLOWS = {
    "windows": lambda x, w: (
        np.concatenate([x[:, i : i + 5, j : j + 6] for i in range(2) for j in range(3)], axis=2) @ w
    ),
    "scaled": lambda x, w: np.mean(np.transpose(3 * x, (0, 2, 1)), axis=1)[:, :, None] * w,
    "picked": lambda x, w: np.repeat(x[:, 1:4], 2, axis=1) @ w[:8],
    "repeated": lambda x, w: np.stack([x, x[::-1]], axis=1)[:, 0, :, ::2] @ w[:4],
}


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_where_derivatives_flow_is_found_in_masks(name, dtype):
    """Slopes that are infinite where nothing flows; a mask that meets no other stays one."""

    def f(x, w):
        return np.sum(np.maximum(FLOWS[name](np.sqrt(np.maximum(x, 0)), w) - 0.3, 0))

    x, w = array(3, 6, 8, dtype=dtype), array({"windows": 36, "scaled": 1}.get(name, 8), 5, seed=1, dtype=dtype)
    x[0] = -np.abs(x[0])
    programs = [sg.grad(f).compile(x, w, optimize=level) for level in (0, 2)]
    with np.errstate(all="ignore"):
        expected, found = (program(x, w) for program in programs)
    close(found, expected, np.dtype(dtype))
    assert (found[x < 0] == 0).all()
    assert name in ("picked", "repeated") or "astype" not in operators(programs[1])


WINDOWS = {
    "pooling": ((9, 6, 2, 6, 2, 3), (2, 4)),
    "ends": ((3, 40, 5, 3), (0, 3)),
    "pairs": ((150, 7, 2), (2,)),
    "threes": ((400, 3), -1),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("reduce", [np.sum, np.mean])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_summed_slice_by_slice(name, reduce, keepdims, dtype):
    shape, axis = WINDOWS[name]
    x = array(*shape, dtype=dtype)
    f = sg.compile(lambda x: reduce(np.tanh(x), axis=axis, keepdims=keepdims))
    sizes = ["n", *shape[1:]] if name != "ends" else [shape[0], "n", *shape[2:]]
    for program in f.compile(x, optimize=2), f.compile(f"{dtype}[{', '.join(map(str, sizes))}]", optimize=2):
        found = program(x)
        assert found.dtype == dtype
        close(found, reduce(np.tanh(x), axis=axis, keepdims=keepdims), np.dtype(dtype))
        assert not {"einsum", "sum", "mean"}.intersection(operators(program))
    x.flat[::50] = np.inf
    x.flat[::77] = np.nan
    np.testing.assert_array_equal(np.isnan(f.compile(x, optimize=2)(x)), np.isnan(f.compile(x, optimize=0)(x)))


@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 2, 9, 2, 40), (1, 3)), ((500, 5), 1), ((50, 4, 9), 1), ((9, 9, 5, 9, 5), (2, 4))]
)
def test_larger_windows_are_summed_by_einsum(shape, axis):
    program = compiled(lambda x: np.sum(np.tanh(x), axis=axis), array(*shape))
    assert "add" not in operators(program)


# ---- products in strips, copies beside each other, sums over windows


def patches(x, rows, columns):
    """Patches of images x[batch, row, column, channel] side by side."""
    height, width = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    places = [(i, j) for i in range(rows) for j in range(columns)]
    return np.concatenate([x[:, i : i + height, j : j + width] for i, j in places], axis=3)


def convolution(x, w, v, labels=None):
    y = np.maximum(patches(x, 3, 2) @ w, 0) @ v
    return np.sum(y * np.cos(y))


IMAGES, FILTERS, MIXING = array(9, 9, 10, 3), array(18, 5), array(5, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_patches_is_made_in_strips(dtype):
    args = [x.astype(dtype) for x in (IMAGES, FILTERS, MIXING)]
    program = sg.grad(convolution, argnums=(0, 1)).compile(*args)
    expected = sg.grad(convolution, argnums=(0, 1), optimize=0)(*args)
    for result, want in zip(program(*args), expected, strict=True):
        close(result, want, dtype)
    shapes = [x.aval.shape for x in program.graph.nodes if x.op.name in ("matmul", "einsum")]
    assert sum(shape[-1:] == (3,) for shape in shapes) >= 6 and not any(shape == (9, 7, 9, 18) for shape in shapes)


STRIPS = {
    "all": (lambda p: p[:, :3] ** 2 + p[:, 3:6] * p[:, 6:], True),
    "some": (lambda p: p[:, 1:3] * p[:, 5:7], True),
    "rows, too": (lambda p: p[1:, :3] * p[1:, 3:6], False),
    "one column more": (lambda p: p[:, :3] + p[:, 3:4] * p[:, 6:], True),
    "overlapping": (lambda p: p[:, :8] + p[:, 1:], False),
    "every other": (lambda p: p[:, ::3] * p[:, 1::3], False),
    "itself": (lambda p: p[:, :9] * p + p[:, :1], False),
    "one": (lambda p: p[:, 2:5] + 1, True),
}


@pytest.mark.parametrize("name", STRIPS)
def test_products_in_strips(name):
    read, made = STRIPS[name]
    a, b = array(600, 4), array(4, 9)
    program = agrees_with_sizes(lambda a, b: read(a @ b), a, b)
    assert any(x.op.name == "matmul" and x.aval.shape == (600, 9) for x in program.graph.nodes) != made


def agrees_with_sizes(f, *arrays):
    program = sg.compile(f).compile(*arrays, optimize=2)
    close(program(*arrays), f(*arrays))
    return program


@pytest.mark.parametrize("axes", [(2, 4), (1, 3), (4,), (1, 2, 4)])
@pytest.mark.parametrize("function", [np.sum, np.mean])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_over_windows(axes, function, keepdims):
    x = array(8, 3, 2, 20, 2)
    agrees_with_sizes(lambda x: function(x, axis=axes, keepdims=keepdims), x)


def test_a_copy_that_is_read_in_two_shapes_is_made_once():
    def f(x):
        flat = np.reshape(x.T, -1)
        return flat[::2], np.reshape(flat, (6, -1)) ** 2

    x = array(4, 9)
    program = sg.compile(f).compile(x)
    assert sum(node.op.name == "reshape" and node.inputs[0].op.name == "transpose" for node in program.graph.nodes) == 1
    for result, want in zip(program(x), f(x), strict=True):
        close(result, want)
