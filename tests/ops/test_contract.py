"""Contractions: matmul and its relatives, tensordot, einsum, kron, cross, diagonals, triangles, convolution."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.analysis.cost import cost_of
from symgrad.core.graph import CONSTANT, INPUT, Aval, Graph, reached
from symgrad.core.interpret import interpret
from symgrad.core.size_scope import Sizes
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.frontend.variable import Variable
from symgrad.spelling import Code
from symgrad.targets.numpy.runtime import _cross
from tests.oracle import check_derivatives, trace
from tests.sweep import check_batch, check_close, inferred

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


def draw(*shapes, dtype=float):
    rng = np.random.default_rng(len(shapes) + sum(map(sum, shapes)))
    return [rng.uniform(0.5, 2.0, shape).astype(dtype) * rng.choice([-1, 1], shape).astype(dtype) for shape in shapes]


def check(f, *shapes, order=2, batch=True):
    xs = draw(*shapes)
    check_close(f, *xs)
    check_close(f, *draw(*shapes, dtype=F4))
    check_derivatives(f, *xs, order=order)
    if batch:
        check_batch(f, *xs)


def ops_of(f, *shapes):
    _, _, outputs = trace(f, *draw(*shapes))
    return [node.op.name for node in reached(outputs) if node.op is not INPUT]


def spelled(node, names):
    """An expression for a node, as the emitter nests them."""
    if node in names:
        return Code(names[node])
    if node.op is CONSTANT:
        return Code(repr(dict(node.params)["value"].value))
    inputs = [spelled(x, names) for x in node.inputs]
    if node.op.spell is not None:
        return node.op.spell(node, *inputs)
    params = [f"{key}={value}" for key, value in node.params]
    return Code(f"np.{node.op.name}({', '.join([x.text for x in inputs] + params)})")


def gradient_source(f, *shapes):
    """The source of the cotangents of x0, x1, ... given g."""
    graph, inputs, (y,) = trace(f, *draw(*shapes))
    g = graph.add_input("g", y.aval)
    names = {x: f"x{i}" for i, x in enumerate(inputs)} | {g: "g"}
    return [spelled(d, names).text for d in pullback(graph, [y], [g], inputs)]


# ---- matmul and its relatives

MATMUL = [
    ((3,), (3,)), ((3,), (3, 2)), ((4, 3), (3,)), ((4, 3), (3, 2)), ((5, 4, 3), (3,)), ((5, 4, 3), (3, 2)),
    ((3,), (5, 3, 2)),
    ((4, 3), (5, 3, 2)), ((5, 4, 3), (5, 3, 2)), ((2, 1, 4, 3), (5, 3, 2)), ((5, 3, 2), (2, 1, 2, 3)),
    ((1, 4, 3), (5, 3, 2)),
    ((1, 1), (1, 2)), ((2, 3, 4, 3), (3,)), ((3,), (2, 2, 3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), MATMUL)
@pytest.mark.parametrize("f", [np.matmul, np.linalg.matmul])
def test_matmul(f, a, b):
    if f is np.matmul or min(len(a), len(b)) > 1:
        check(f, a, b, batch=f is np.matmul)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((4, 3), (3, 2), ["g @ x1.T", "x0.T @ g"]),
        ((4, 3), (3,), ["np.outer(g, x1)", "g @ x0"]),
        ((3,), (3, 2), ["x1 @ g", "np.outer(x0, g)"]),
        ((3,), (3,), ["g * x1", "g * x0"]),
        ((5, 4, 3), (3, 2), ["g @ x1.T", "x0.reshape(20, 3).T @ g.reshape(20, 2)"]),
        ((5, 4, 3), (5, 3, 2), ["g @ x1.mT", "x0.mT @ g"]),
    ],
)
def test_gradient_of_matmul_reads_as_a_person_writes_it(a, b, expected):
    assert gradient_source(np.matmul, a, b) == expected


@pytest.mark.parametrize(
    ("f", "a", "b", "message"),
    [
        (np.matmul, (2, 3), (4, 5), "np.matmul: float64[2, 3] @ float64[4, 5] do not contract: 3 and 4 differ"),
        (np.matmul, (3,), (4,), "np.matmul: float64[3] @ float64[4] do not contract: 3 and 4 differ"),
        (np.matmul, (), (4,), "np.matmul: a scalar has no axis to contract"),
        (np.matmul, (2, 4, 3), (5, 3, 2), "np.matmul: shapes (2,) and (5,) do not broadcast: 2 against 5"),
        (np.vecdot, (3,), (4,), "np.vecdot: float64[3] and float64[4] do not contract: 3 and 4 differ"),
        (np.matvec, (3,), (3,), "np.matvec: the matrix has 1 dimensions, not 2 or more"),
        (np.linalg.outer, (3, 1), (3,),
         "np.linalg.outer: an input has 2 dimensions, not 1"),
        (np.tensordot, (2, 3), (4, 3),
         "np.tensordot: axis 0 of float64[2, 3] and axis 0 of float64[4, 3] do not contract: 2 and 4 differ"),
        (np.cross, (2,), (3,), "np.cross: float64[2] and float64[3] must have three components along the axis"),
        (np.cross, (4, 3), (2, 3), "np.cross: shapes (4,) and (2,) do not broadcast: 4 against 2"),
        (np.kron, (), (2,), "np.kron: a scalar has no axes"),
        (np.convolve, (2, 2), (2,), "np.convolve: float64[2, 2] has 2 dimensions, not 1"),
    ],
)  # fmt: skip
def test_messages(f, a, b, message):
    with pytest.raises(ShapeError) as error:
        trace(f, np.zeros(a), np.zeros(b))
    assert error.value.fact == message


@pytest.mark.parametrize("f", [np.dot, np.inner])
@pytest.mark.parametrize(
    ("a", "b"),
    [((), ()), ((), (3,)), ((3,), (3,)), ((4, 3), (3,)), ((2, 4, 3), (3,)), ((3, 3), (3, 3)), ((2, 3, 3), (4, 3, 3))],
)
def test_dot_and_inner(f, a, b):
    check(f, a, b, batch=False)


def test_dot_is_a_method_and_takes_out():
    check(lambda a, b: a.dot(b), (4, 3), (3, 2))
    a, b = draw((4, 3), (3, 2))
    check_close(lambda a, b: np.dot(a, b, out=np.empty((4, 2), like=a)), a, b)


@pytest.mark.parametrize(
    ("f", "a", "b"),
    [
        (np.outer, (3,), (2,)), (np.outer, (2, 2), (3,)), (np.linalg.outer, (3,), (2,)), (np.vdot, (2, 3), (3, 2)),
        (np.vecdot, (3,), (3,)), (np.vecdot, (2, 3), (3,)), (np.vecdot, (4, 1, 3), (2, 3)),
        (np.matvec, (4, 3), (3,)), (np.matvec, (4, 3), (5, 3)), (np.matvec, (5, 4, 3), (5, 3)),
        (np.matvec, (5, 4, 3), (3,)),
        (np.vecmat, (4,), (4, 3)), (np.vecmat, (5, 4), (4, 3)), (np.vecmat, (5, 4), (5, 4, 3)),
        (np.vecmat, (4,), (5, 4, 3)),
        (lambda a, b: np.linalg.vecdot(a, b, axis=0), (3, 2), (3, 2)),
        (np.kron, (3,), (2,)), (np.kron, (2, 3), (3, 2)), (np.kron, (2,), (2, 3)), (np.kron, (2, 1, 2), (3, 2)),
        (np.cross, (3,), (3,)), (np.cross, (4, 3), (3,)), (np.cross, (2, 1, 3), (4, 3)),
        (np.cross, (2, 1, 3), (1, 4, 3)), (np.cross, (0, 3), (1, 3)),
        (np.linalg.cross, (4, 3), (4, 3)),
        (lambda a, b: np.cross(a, b, axis=0), (3, 4), (3, 4)),
        (lambda a, b: np.cross(a, b, axisa=0, axisb=1, axisc=0), (3, 4), (4, 3)),
    ],
)  # fmt: skip
def test_products(f, a, b):
    check(f, a, b)


@pytest.mark.parametrize("dtype", [float, F4, complex])
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((9, 3), (9, 3)), ((9, 3), (1, 3)), ((2, 1, 3), (1, 4, 3))], ids=str)
def test_vectors_are_crossed_as_numpy_does_it(shapes, dtype, usual_sizes):
    """Bit for bit, however they lie in memory."""
    a, b = draw(*shapes, dtype=dtype)
    for x in (a, np.asfortranarray(a), np.repeat(a, 2, axis=-1)[..., ::2]):
        np.testing.assert_array_equal(_cross(x, b), np.cross(x, b), strict=True)
    many = sg.compile(np.cross).compile(a, b)
    np.testing.assert_array_equal(many(a, b), np.cross(a, b), strict=True)
    assert "return _cross(a, b).copy()" in many.source and many(a, b).flags.c_contiguous
    assert "return np.cross(a, b)" in sg.compile(np.cross).source(a[None], b)


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((2, 3), (3, 4), 1), ((2, 3), (2, 3), 2), ((2, 3), (4,), 0), ((2, 3, 4), (4, 3, 2), ([1, 2], [1, 0])),
        ((2, 3, 4), (4, 3, 2), ([2, 1], [0, 1])), ((2, 3, 4), (5, 3), (1, 1)),
        ((2, 3, 4), (5, 4, 2), ((0, -1), (-1, 1))),
        ((4, 3), (5, 3), (1, 1)), ((4, 3), (4, 5), (0, 0)), ((3,), (3,), 1),
        ((2, 3, 4, 2), (4, 2, 5, 3), ([1, 3], [3, 1])),
    ],
)  # fmt: skip
def test_tensordot(a, b, axes):
    check(lambda a, b: np.tensordot(a, b, axes=axes), a, b)
    check(lambda a, b: np.linalg.tensordot(a, b, axes=axes), a, b, order=1, batch=False)


def test_tensordot_is_a_product_of_matrices_where_it_is_one():
    assert ops_of(lambda a, b: np.tensordot(a, b, 1), (2, 3), (3, 4)) == ["matmul"]
    assert gradient_source(lambda a, b: np.tensordot(a, b, 2), (2, 3, 4), (3, 4, 5)) == [
        "np.tensordot(g, x1, axes=((1,), (2,)))",
        "np.tensordot(x0, g, axes=((0,), (0,)))",
    ]


def test_equal_tensordots_are_one_node():
    a, b = draw((2, 3, 4), (4, 3, 2))
    _, _, (y, z) = trace(
        lambda a, b: (np.tensordot(a, b, ([2, 1], [0, 1])), np.tensordot(a, b, ([1, -1], [-2, 0]))), a, b
    )
    assert y is z


# ---- einsum


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ij,jk->ki", [(2, 3), (3, 4)]),
        ("kij,nkj->nki", [(2, 3, 3), (4, 2, 3)]), ("i,i->", [(3,), (3,)]), ("i,j->ij", [(3,), (2,)]),
        ("i,i->i", [(3,), (3,)]),
        ("ij,kl->il", [(2, 3), (4, 2)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("a,b,c->abc", [(2,), (3,), (2,)]),
        ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ijk->ki", [(2, 3, 4)]),
        ("ba", [(2, 3)]),
        ("iij,j->i", [(3, 3, 2), (2,)]), ("iii,i->i", [(2, 2, 2), (2,)]), ("ijij,jk->ik", [(2, 3, 2, 3), (3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]), ("...ij,...jk", [(2, 1, 2, 3), (5, 3, 4)]),
        ("...,...", [(2, 3), (3,)]),
        ("i...->...i", [(2, 3, 4)]), ("i...j,j->...i", [(2, 5, 3), (3,)]), ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("i,i->", [(1,), (3,)]),
        (",ij->ji", [(), (2, 3)]), (",", [(), ()]), ("ij, jk -> ik", [(2, 3), (3, 4)]),
        ("nd,kde,ne->nk", [(4, 2), (3, 2, 2), (4, 2)]),
        ("ij,j,k->i", [(2, 3), (3,), (4,)]),
    ],
)  # fmt: skip
def test_einsum(subscripts, shapes):
    f = lambda *xs: np.einsum(subscripts, *xs)
    xs = draw(*shapes)
    check_close(f, *xs)
    check_close(f, *draw(*shapes, dtype=F4))
    check_derivatives(f, *xs)
    if "einsum" in ops_of(f, *shapes):
        check_batch(f, *xs)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, bool, np.complex128])
@pytest.mark.parametrize(("subscripts", "n"), [("ij->i", 1), ("ii->i", 1), ("ij,jk->ik", 2)])
def test_einsum_keeps_dtypes(dtype, subscripts, n):
    xs = [np.arange(9).reshape(3, 3).astype(dtype)] * n
    check_close(lambda *xs: np.einsum(subscripts, *xs), *xs)


def test_the_interleaved_form_and_options():
    a, b = draw((2, 3), (3, 4))
    check_close(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), a, b)
    check_close(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), a, b)
    check_close(lambda a, b: np.einsum(a, [..., 7], b, [7, 2]), a, b)
    check_close(lambda a, b: np.einsum("ij,jk->ik", a, b, optimize="greedy"), a, b)
    check_close(lambda a, b: np.einsum("ij,jk->ik", a, b, dtype=np.float64), a, b)
    check_close(lambda a, b: np.einsum("ij,jk->ik", a, b, out=np.empty((2, 4), like=a)), a, b)


def test_equal_einsums_are_one_node():
    a, b = draw((2, 3), (3, 4))
    f = lambda a, b: (np.einsum("ij,jk", a, b), np.einsum("ab, bz -> az", a, b), np.einsum(a, [5, 1], b, [1, 9]))
    _, _, (x, y, z) = trace(f, a, b)
    assert x is y and y is z


def test_source_of_einsum():
    assert gradient_source(lambda a, b: np.einsum("kij,nkj->nki", a, b), (2, 3, 3), (4, 2, 3)) == [
        'np.einsum("nki,nkj->kij", g, x1)',
        'np.einsum("kij,nki->nkj", x0, g)',
    ]
    for asked, end in (({}, ""), ({"optimize": True}, ", optimize=True"), ({"optimize": "greedy"}, ", optimize=True")):
        f = lambda a, b, c, asked=asked: np.einsum("ij,jk,kl->il", a, b, c, **asked)
        _, inputs, (y,) = trace(f, *draw((2, 3), (3, 4), (4, 2)))
        assert spelled(y, dict(zip(inputs, "abc", strict=True))).text == f'np.einsum("ij,jk,kl->il", a, b, c{end})'


@pytest.mark.parametrize(
    ("subscripts", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], "a @ b"),
        ("ij,kj->ik", [(2, 3), (4, 3)], "a @ b.T"),
        ("ji,jk->ik", [(3, 2), (3, 4)], "a.T @ b"),
        ("ij,jk->ki", [(2, 3), (3, 4)], "b.T @ a.T"),
        ("ij,j->i", [(2, 3), (3,)], "a @ b"),
        ("j,ij->i", [(3,), (2, 3)], "a @ b.T"),
        ("i,i->", [(3,), (3,)], "a @ b"),
        ("i,j->ij", [(3,), (2,)], "np.outer(a, b)"),
        ("i,j->ji", [(3,), (2,)], "np.outer(b, a)"),
        ("ij,ij->i", [(2, 3), (2, 3)], 'np.einsum("ij,ij->i", a, b)'),
        ("i,i->", [(1,), (3,)], 'np.einsum("i,i->", a, b)'),
        ("kij,nkj->nki", [(2, 3, 3), (4, 2, 3)], 'np.einsum("kij,nkj->nki", a, b)'),
        ("kij,nkj->nki", [(20, 9, 9), (40, 20, 9)], 'np.einsum("kij,nkj->nki", a, b, optimize=True)'),
        ("nkj,nkj->nk", [(40, 20, 9), (40, 20, 9)], 'np.einsum("nkj,nkj->nk", a, b)'),
    ],
)
def test_what_an_einsum_of_two_is_written_as(subscripts, shapes, expected):
    xs = draw(*shapes)
    _, inputs, (y,) = trace(lambda a, b: np.einsum(subscripts, a, b), *xs)
    assert spelled(y, dict(zip(inputs, "ab", strict=True))).text == expected
    check_close(lambda a, b: np.einsum(subscripts, a, b), *xs)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)],
         "np.einsum: index 'j' of 'ij,jk' for float64[2, 3], float64[4, 5] is 3 and, in operand 1, 4"),
        ("ij->i", [(2, 3, 4)], "np.einsum: operand 0 has 3 dimensions, but its subscripts are 'ij'"),
        ("ij,jk->ik", [(2, 3)], "np.einsum: 'ij,jk->ik' names 2 operands, but 1 are given"),
        ("ij->k", [(2, 3)], "np.einsum: index 'k' of the result is in no operand"),
        ("ij->ii", [(2, 3)], "np.einsum: index 'i' is in the result twice"),
        ("ii->i", [(2, 3)], "np.einsum: index 'i' of one operand is 2 and 3"),
        ("i1->i", [(2, 3)], "np.einsum: '1' in 'i1->i' is not an index"),
        ("...i->i", [(2, 3)], "np.einsum: the result has no ellipsis, but that of an operand stands for axes"),
    ],
)  # fmt: skip
def test_messages_of_einsum(subscripts, shapes, message):
    with pytest.raises(ShapeError) as error:
        trace(lambda *xs: np.einsum(subscripts, *xs), *map(np.zeros, shapes))
    assert error.value.fact == message


def test_what_is_refused():
    for f, message in (
        (lambda a: np.einsum("ij->i", a, order="F"), "np.einsum: the argument order= is not supported"),
        (lambda a: np.linalg.matrix_power(a, 0.5), "np.linalg.matrix_power: the exponent must be an int, not float"),
        (
            lambda a: np.convolve(a[0], a[0], "most"),
            "np.convolve: mode='most' is not one of 'full', 'same' and 'valid'",
        ),
        (lambda a: np.tril(a, 0.5), "np.tril: k= must be an int, not float"),
    ):
        with pytest.raises(UnsupportedError) as error:
            trace(f, np.zeros((2, 2)))
        assert error.value.fact == message


# ---- chains and powers


@pytest.mark.parametrize("shapes", [[(2, 3), (3, 4), (4, 2)], [(3,), (3, 4), (4, 2), (2,)], [(9, 2), (2, 9), (9, 3)]])
def test_multi_dot(shapes):
    check(lambda *xs: np.linalg.multi_dot(xs), *shapes, batch=False)


def test_multi_dot_multiplies_in_the_cheapest_order():
    _, _, (y,) = trace(lambda a, b, c: np.linalg.multi_dot([a, b, c]), *draw((9, 2), (2, 9), (9, 3)))
    assert [x.aval.shape for x in y.inputs] == [(9, 2), (2, 3)]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -2])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_matrix_power(n, shape):
    a = draw(shape)[0] / 3 + np.eye(3)
    check_close(lambda a: np.linalg.matrix_power(a, n), a)
    check_derivatives(lambda a: np.linalg.matrix_power(a, n), a)


# ---- diagonals and triangles


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        *[(lambda x, k=k: np.diag(x, k), (3,)) for k in (0, 1, -2)],
        *[(lambda x, k=k: np.diag(x, k), shape) for k in (0, 1, -1, 2) for shape in ((3, 3), (2, 4), (4, 2))],
        (lambda x: np.diagonal(x), (2, 3, 4)), (lambda x: np.diagonal(x, 1, 2, 0), (2, 3, 4)),
        (lambda x: np.diagonal(x, axis1=1, axis2=0), (3, 3)),
        (lambda x: x.diagonal(1, 1, 0), (3, 3)), (lambda x: x.diagonal(-1, -1, -2), (2, 3, 3)),
        (np.linalg.diagonal, (2, 3, 3)),
        (lambda x: np.linalg.diagonal(x, offset=1), (2, 3, 4)),
        (np.trace, (3, 3)), (np.trace, (3, 4)), (lambda x: np.trace(x, 1), (4, 3)),
        (lambda x: x.trace(-1, 0, 2), (3, 2, 4)),
        (lambda x: np.trace(x, axis1=2, axis2=1), (2, 3, 4)), (np.linalg.trace, (2, 3, 3)),
        *[(lambda x, f=f, k=k: f(x, k), shape) for f in (np.tril, np.triu) for k in (0, 1, -1) for shape in ((3, 3),
         (2, 3, 4), (3,))],
        (np.diagflat, (2, 2)), (lambda x: np.diagflat(x, 1), (3,)),
    ],
)  # fmt: skip
def test_diagonals(f, shape):
    check(f, shape)


def test_trace_widens_small_integers():
    check_close(np.trace, np.eye(3, dtype=np.int8))
    check_close(lambda x: np.trace(x, dtype=np.float32), np.eye(3, dtype=np.int8))
    check_close(np.trace, np.eye(3, dtype=np.uint16))


def test_gradients_of_diagonals_read_well():
    assert gradient_source(np.trace, (3, 3)) == ["g * np.eye(3)"]
    assert gradient_source(np.diag, (3,)) == ["np.diagonal(g)"]
    assert gradient_source(np.diag, (3, 3)) == ["np.diag(g)"]
    assert gradient_source(np.tril, (3, 3)) == ["np.tril(g)"]


def test_a_nan_stays_on_its_diagonal():
    graph, (x,), (y,) = trace(lambda x: np.diagonal(x, axis1=1, axis2=2), np.zeros((1, 2, 2)))
    (dx,) = pullback(graph, [y], [graph.constant(np.array([[np.nan, 1.0]]))], [x])
    np.testing.assert_array_equal(interpret([dx], {x: np.zeros((1, 2, 2))})[0], [[[np.nan, 0], [0, 1]]])


def test_a_diagonal_is_a_view_that_cannot_be_written():
    def written_below(x):
        x = x.copy()
        d = np.diagonal(x)
        x[0, 0] = 5.0
        return d * 1

    check_close(written_below, np.eye(2))


@pytest.mark.parametrize(("n", "increasing"), [(None, False), (4, True), (1, False), (18, True), (20, False)])
def test_vander(n, increasing):
    check(lambda x: np.vander(x, n, increasing), (3,), batch=False)


# ---- convolution


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (4, 4), (6, 2), (2, 5), (1, 3), (5, 1), (4, 6)])
@pytest.mark.parametrize("f", [np.convolve, np.correlate])
def test_convolution(f, sizes, mode):
    check(lambda a, v: f(a, v, mode), (sizes[0],), (sizes[1],), batch=False)


# ---- masks: what np.where leaves out stays out behind a product, and only that


def masked_gradient(f, x):
    graph, inputs, (y,) = trace(f, x)
    with np.errstate(all="ignore"):
        return interpret(pullback(graph, [y], [graph.constant(np.ones(y.aval.shape))], inputs), {inputs[0]: x})[0]


def test_integers_in_a_product_do_not_cancel_a_mask():
    k = np.array([[1, -1]])
    x = np.array([4.0])
    result = masked_gradient(lambda x: np.where(np.array([True, True]), np.sqrt(x) @ k * np.array([1.0, 3.0]), 0), x)
    np.testing.assert_allclose(result, [-0.5])


def test_a_mask_of_lower_rank_goes_through_a_transpose():
    mask = np.array([[True, False], [True, True]])
    x = np.array([[[4.0, 0.0], [1.0, 9.0]]] * 3)
    f = lambda x: np.where(mask, np.swapaxes(np.sqrt(np.swapaxes(x, 1, 2)), 1, 2), 0)
    np.testing.assert_allclose(masked_gradient(f, x), [[[0.25, 0], [0.5, 1 / 6]]] * 3)


def test_rows_that_are_left_out_stay_out_behind_a_product():
    x = np.array([[1.0, 4.0], [0.0, 1.0]])
    f = lambda x: np.where(np.array([True, False]), np.log(x) @ np.array([1.0, 2.0]), 0)
    np.testing.assert_allclose(masked_gradient(f, x), [[1, 0.5], [0, 0]])


# ---- symbolic sizes


def test_symbolic_sizes():
    sizes = Sizes()
    n, d, k = map(sizes.symbol, "ndk")
    x, w, v = Aval((n, d), F8), Aval((d, k), F4), Aval((d,), F8)
    assert inferred(np.matmul, x, w) == Aval((n, k), F8)
    assert inferred(np.dot, x, v) == Aval((n,), F8)
    assert inferred(np.inner, x, x) == Aval((n, n), F8)
    assert inferred(np.outer, v, x) == Aval((d, n * d), F8)
    assert inferred(lambda a, b: np.einsum("...d,dk->...k", a, b), x, w) == Aval((n, k), F8)
    assert inferred(lambda a: np.einsum("nd->d", a), x) == Aval((d,), F8)
    assert inferred(np.kron, x, x) == Aval((n * n, d * d), F8)
    assert inferred(np.diag, v) == Aval((d, d), F8)
    assert inferred(lambda v: np.diag(v, 1), v) == Aval((d + 1, d + 1), F8)
    assert inferred(np.tril, x) == Aval((n, d), F8)
    assert inferred(lambda x: np.trace(x.T @ x), x) == Aval((), F8)
    assert inferred(lambda x: np.diagonal(x.T @ x), x) == Aval((d,), F8)
    assert inferred(np.convolve, v, v) == Aval((2 * d - 1,), F8)
    assert inferred(lambda x, w: np.tensordot(x, w, 1), x, w) == Aval((n, k), F8)
    with pytest.raises(ShapeError):
        inferred(np.matmul, x, x)
    assert not sizes.pinned


def test_symbols_that_agree_only_in_this_call_are_pinned():
    sizes = Sizes({"n": 3, "m": 3})
    n, m = map(sizes.symbol, "nm")
    assert inferred(np.matmul, Aval((2, n), F8), Aval((m, 4), F8)) == Aval((2, 4), F8)
    assert sizes.pinned == {"n": 3, "m": 3}


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.sum(np.tanh(x @ w)),
        lambda x, w: np.sum(np.einsum("ni,ij,nj->n", x, np.outer(w, w), x)),
        lambda x, w: np.trace(x.T @ x) + np.sum(np.diagonal(x.T @ x) * w),
        lambda x, w: np.sum(np.diag(w) @ x.T),
        lambda x, w: np.sum(np.convolve(np.sum(x, axis=1), w, "same") ** 2),
    ],
)
def test_gradients_at_symbolic_sizes(f):
    from symgrad.core.graph import Graph, verify
    from symgrad.frontend.variable import Variable

    sizes = Sizes()
    n, d = map(sizes.symbol, "nd")
    graph = Graph()
    x, w = graph.add_input("x", Aval((n, d), F8)), graph.add_input("w", Aval((d,), F8))
    y = f(Variable(graph, x), Variable(graph, w))
    symbolic = pullback(graph, [y.node], [graph.constant(1.0)], [x, w])
    verify(graph)
    a, b = draw((4, 3), (3,))
    fixed, inputs, outputs = trace(f, a, b)
    expected = interpret(
        pullback(fixed, outputs, [fixed.constant(1.0)], inputs), dict(zip(inputs, (a, b), strict=True))
    )
    for result, want in zip(interpret(symbolic, {x: a, w: b}), expected, strict=True):
        np.testing.assert_allclose(result, want)


# ---- operations


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (np.matmul, [(2, 3), (3, 4)], 2 * 24),
        (np.matmul, [(5, 2, 3), (3,)], 2 * 30),
        (np.matmul, [(3,), (3,)], 2 * 3),
        (np.outer, [(3,), (4,)], 12),
        (np.vecdot, [(5, 3), (3,)], 2 * 15),
        (lambda a, b: np.tensordot(a, b, 2), [(2, 3, 4), (3, 4, 5)], 2 * 120),
        (lambda a, b: np.einsum("kij,nkj->nki", a, b), [(2, 3, 4), (5, 2, 4)], 2 * 120),
        (np.linalg.solve, [(3, 3), (3, 2)], 18 + 2 * 18),
        (np.linalg.inv, [(4, 3, 3)], 4 * 54),
        (np.linalg.cholesky, [(3, 3)], 9),
        (np.linalg.det, [(3, 3)], 18),
        (np.linalg.eigvalsh, [(3, 3)], 36),
        (np.linalg.svdvals, [(5, 3)], 2 * 45 + 2 * 27),
    ],
)
def test_how_many_operations(f, shapes, expected):
    graph, _, outputs = trace(f, *map(np.ones, shapes))
    graph.outputs = outputs
    assert cost_of(graph).flops == expected


def test_operations_of_symbolic_sizes():
    n, d = Sizes().symbol("n"), 3
    graph = Graph()
    x = Variable(graph, graph.add_input("x", Aval((n, d), F8)))
    graph.outputs = [(x.T @ x).node]
    assert str(cost_of(graph).flops) == "18*n"


def test_outer_products_of_few_numbers_are_products_with_one_column(usual_sizes):
    """NumPy takes longer to broadcast."""
    outer = lambda a, b: np.outer(a, b)
    a, b = np.arange(3.0), np.arange(1.0, 5)
    program = sg.compile(outer).compile(a, b)
    assert ".dot(" in program.source
    np.testing.assert_array_equal(program(a, b), np.outer(a, b))
    for x, y in ((a.astype(int), b), (a.astype(np.float32), b), (np.ones(100), np.ones(100))):
        program = sg.compile(outer).compile(x, y)
        assert "[:, None] *" in program.source
        np.testing.assert_array_equal(program(x, y), np.outer(x, y))
