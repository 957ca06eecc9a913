"""Reading and adding under index arrays, in the forms that run fast: the numbers of ``x[i]`` and `np.add.at`."""

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.numpy import runtime

RNG = np.random.default_rng(0)
N, ROWS = 700, 12
WIDTHS = {"a number": (), "one": (1,), "narrow": (3,), "wide": (40,), "matrix": (3, 5)}
INDICES = {
    "many": RNG.integers(-ROWS, ROWS, N),
    "few": np.array([3, -1, 3]),
    "none": np.zeros(0, int),
    "triangles": RNG.integers(-ROWS, ROWS, (N, 3)),
    "bytes": RNG.integers(-ROWS, ROWS, N).astype(np.int8),
    "unsigned": RNG.integers(0, ROWS, N).astype(np.uint64),
    "strided": RNG.integers(-ROWS, ROWS, 2 * N)[::2],
}


def random(shape, dtype):
    values = 100 * RNG.normal(size=shape)
    return (values + 1j * values[..., ::-1] if np.dtype(dtype).kind == "c" and shape else values).astype(dtype)


# ---- adding


@pytest.mark.parametrize("dtype", [float, np.float32, np.float16, complex, int, bool], ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("index", INDICES)
def test_numbers_added_one_by_one_are_those_of_add_at(index, width, dtype):
    i, width = INDICES[index], WIDTHS[width]
    before = random((ROWS, *width), dtype)
    for shape in {(*i.shape, *width), width, ()}:
        y, z, v = before.copy(), before.copy(), random(shape, dtype)
        np.add.at(y, i, v)
        runtime._add_at(z, i, v)
        np.testing.assert_array_equal(z, y, strict=True)


@pytest.mark.parametrize("dtype", [float, np.float32], ids=str)
@pytest.mark.parametrize("width", [2, 3, 7, 8, 21, 22])
def test_pairs_of_numbers_leave_each_other_alone(width, dtype):
    """Bit for bit, also infinities, NaN and zeros with a sign, and in a part of a larger array."""
    i, v = INDICES["many"], random((N, width), dtype)
    v[RNG.random(v.shape) < 0.01] = RNG.choice([np.inf, np.nan, -0.0])
    before = np.full((ROWS, width), -0.0, dtype)
    y, z, part = before.copy(), before.copy(), np.zeros((ROWS, width + 3), dtype)[:, 1 : 1 + width]
    part[...] = before
    wide = np.empty((N, width + 1), dtype)[:, 1:]
    wide[...] = v
    np.add.at(y, i, v)
    runtime._add_at(z, i, v)
    runtime._add_at(part, i, wide)
    assert y.tobytes() == z.tobytes() == part.tobytes()
    runtime._add_at(z, i, np.full((N, width), 2))
    np.add.at(y, i, 2)
    assert y.tobytes() == z.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", [(), (3,), (20,)], ids=str)
@pytest.mark.parametrize("shapes", [((900,), (900,)), ((30, 1), (1, 40)), ((700,), (700,), (700,))], ids=str)
def test_places_under_several_index_arrays(shapes, width, order):
    sizes = 5, 7, 4
    arrays = tuple(RNG.integers(-n, n, shape) for n, shape in zip(sizes, shapes, strict=False))
    y = np.zeros((*sizes[: len(arrays)], *width), order=order)
    z, v = y.copy(order="K"), RNG.normal(size=(*np.broadcast_shapes(*shapes), *width))
    np.add.at(y, arrays, v)
    runtime._add_at(z, arrays, v)
    np.testing.assert_array_equal(z, y, strict=True)
    with pytest.raises(IndexError, match=r"index \d+ is out of bounds"):
        runtime._add_at(z, (arrays[0], arrays[1] + 7 * (arrays[1] == arrays[1].max()), *arrays[2:]), v)


@pytest.mark.parametrize("index", ["many", "bytes", "unsigned", "strided"])
def test_columns_of_a_matrix(index):
    i = INDICES[index]
    v = RNG.normal(size=(11, N))
    y, z = np.zeros((2, 11, ROWS))
    np.add.at(y, (slice(None), i), v)
    runtime._add_at(z.T, i, v.T)
    np.testing.assert_array_equal(z, y, strict=True)


def test_rows_of_a_large_table_are_added_in_parts():
    i, v = RNG.integers(0, 900, 10_000), RNG.normal(size=(10_000, 40))
    y, z = np.zeros((2, 900, 40))
    np.add.at(y, i, v)
    runtime._add_at(z, i, v)
    np.testing.assert_array_equal(z, y, strict=True)


@pytest.mark.parametrize("shape", [(5, 3), (5, 40), (0, 3), (0, 40)], ids=str)
@pytest.mark.parametrize("wrong", [5, -6, 2**62])
def test_a_place_that_is_not_there_is_an_error(shape, wrong):
    i = np.zeros(900, int)
    i[700] = wrong
    with pytest.raises(IndexError, match="is out of bounds for axis 0 with size"):
        runtime._add_at(np.zeros(shape), i, np.ones((900, shape[1])))


def test_memory_that_does_not_lie_in_one_piece_is_written_too():
    i, v = INDICES["many"], RNG.normal(size=(N, 3))
    y, z = np.zeros((ROWS, 3)), np.zeros((3, ROWS)).T
    np.add.at(y, i, v)
    runtime._add_at(z, i, v)
    np.testing.assert_array_equal(z, y)


# ---- programs


def bonds(x, i, j, k):
    gap = x[i] - x[j]
    return np.sum(k * np.sum(gap**2, axis=1) ** 2)


def table(x, i, j, k):
    return np.sum(np.tanh(np.sum(x[i] * x[j], axis=1) - k) ** 2)


def triangles(x, i, j, k):
    corners = x[np.stack([i, j, (i + j) // 2], axis=1)]
    return np.sum(k * np.sum((corners[:, 0] - corners[:, 1]) * corners[:, 2] ** 2, axis=1))


def columns(x, i, j, k):
    return np.sum(k * np.sin(x.T[:, i]).sum(axis=0) * x.T[1, j])


def per_node(x, i, j, k):
    return np.sum(k[:, None] * x[:, 0][np.stack([i, j], axis=1)] ** 3)


def grid(x, i, j, k):
    """Between four places of an image, as in bilinear interpolation."""
    return np.sum(k * x[i, j % x.shape[1]] * np.cos(x[i // 2, 1]) + x[i % 2, j % 3] ** 2)


def grid_of_rows(x, i, j, k):
    return np.sum(k * np.sum(np.stack([x, x**2], axis=2)[i, j % 3] ** 2, axis=1))


PROGRAMS = [bonds, table, triangles, columns, per_node, grid, grid_of_rows]


def arguments(width, n=900, rows=40):
    x = RNG.normal(size=(rows, width))
    return x, *RNG.integers(0, rows, (2, n)), RNG.normal(size=n)


@pytest.mark.parametrize("width", [3, 20])
@pytest.mark.parametrize("f", PROGRAMS)
def test_levels_agree(f, width):
    args = arguments(width)
    values = [sg.value_and_grad(f).compile(*args, optimize=level)(*args) for level in (0, 1, 2)]
    products = [sg.hvp(f).compile(*args, args[0] + 1, optimize=level)(*args, args[0] + 1) for level in (0, 1, 2)]
    for (value, grad), product in zip(values[1:], products[1:], strict=True):
        np.testing.assert_allclose(value, values[0][0], rtol=1e-12)
        np.testing.assert_allclose(grad, values[0][1], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(product, products[0], rtol=1e-10, atol=1e-10)
    sg.check_grads(f, arguments(width, n=5, rows=4), order=1)


@pytest.mark.parametrize("f", PROGRAMS)
def test_levels_agree_in_blocks(tiny_blocks, f):
    test_levels_agree(f, 3)


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize(("n", "rows"), [(1, 4), (1, 1), (5, 1), (3, 500)])
def test_from_specs_any_size_will_do(f, n, rows):
    args = arguments(3, n, rows)
    run = sg.value_and_grad(f).compile("float64[m, 3]", "int64[n]", "int64[n]", "float64[n]")
    value, grad = run(*args)
    expected = sg.value_and_grad(f).compile(*args, optimize=0)(*args)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(grad, expected[1], rtol=1e-11, atol=1e-11)


def test_which_form_is_taken(usual_sizes):
    """Level 1 reads as a person writes; small ones have no function of their own; large tables are not copied."""
    source = sg.grad(bonds).source
    assert "_add_at(" in source(*arguments(9)) and "x.take(" in source(*arguments(9))
    assert "np.add.at(" in (one := source(*arguments(3), optimize=1)) and "_add_at" not in one and ".take" not in one
    assert "_add_at" not in source(*arguments(3, n=50))
    assert "x.take(" not in source(*arguments(9, rows=100_000))
    vector = sg.grad(lambda x, i: np.sum(x[i] ** 2)).source(np.ones(9), arguments(1)[1])
    assert "np.add.at(" in vector and "_add_at" not in vector
    assert re.search(r"_add_at\(d_x, \(i, t\d+\), ", (source_of_grid := sg.grad(grid).source(*arguments(3, n=3000))))
    assert re.search(r"np\.add\.at\(d_x\[:, 1\], t\d+, ", source_of_grid)
    assert re.search(r"_add_at\(\w+\.T, i, ", sg.grad(columns).source(*arguments(3)))
    unsigned = [x.astype(np.uint64) if x.dtype == int else x for x in arguments(9)]
    assert "x.take(" not in source(*unsigned)


def test_blocks_take_rows_of_no_view_and_of_no_large_table(usual_sizes):
    """Taking copies what does not lie in order: once in a straight line, but in a loop once a block."""

    def takes(table, x):
        i, k = RNG.integers(0, 100, 200_000), RNG.normal(size=200_000)
        source = sg.compile(lambda x, i, k: np.sum(np.tanh(k * table(x)[i].sum(axis=1)) ** 2)).source(x, i, k)
        assert "_in_parts" in source
        return "take(" in source

    small, large = np.ones((3, 100)), np.ones((3, 500_000))
    assert takes(lambda x: x, small.T) and takes(lambda x: x.T + 1, small)
    assert not takes(lambda x: x.T, small) and not takes(lambda x: x.T + 1, large)


def test_what_is_added_may_be_a_view_of_where_it_is_added():
    def f(x, i):
        y = np.tanh(x)
        np.add.at(y, i, y[:, ::-1])
        return np.sum(y**2)

    x, i = RNG.normal(size=(900, 3)), RNG.integers(0, 900, 900)
    assert sg.compile(f)(x, i) == pytest.approx(f(x, i), rel=1e-12)


# ---- in loops


def groups(a, b, g, t, y):
    """A line for each group, whose sums are kept in three ways: rows of a table, numbers, and counts."""
    size = np.zeros(a.shape[0])
    np.add.at(size, g, 1.0)
    residual = np.tanh(a[g] * t[:, None]) + b[g][:, None] - y
    return np.sum(residual**2 / size[g][:, None])


def shared_groups(a, b, g, t, y):
    """Two sums in one table, into which something was written before."""
    total = a * b[:, None]
    np.add.at(total, g, t[:, None] * a[g])
    np.add.at(total, (g + 1) % a.shape[0], y)
    return np.sum(np.sin(total))


def grouped(n, width, groups=6):
    g = RNG.integers(0, groups, n)
    return RNG.normal(size=(groups, width)), RNG.normal(size=groups), g, RNG.normal(size=n), RNG.normal(size=(n, width))


@pytest.mark.parametrize("width", [1, 3, 20])
@pytest.mark.parametrize("f", [groups, shared_groups])
def test_sums_of_few_groups_are_added_up_in_loops(tiny_blocks, f, width):
    args = grouped(2001, width)
    expected = sg.value_and_grad(f, argnums=(0, 1)).compile(*args, optimize=0)(*args)
    programs = [sg.value_and_grad(f, argnums=(0, 1)).compile(*args, threads=k) for k in (1, 2, 3)]
    assert "_in_parts" in programs[0].source
    assert re.search(r"^ +(np\.add\.at|_add_at)\(d_a, g_", programs[0].source, re.M) or f is shared_groups
    (value, grads), *others = (program(*args) for program in programs)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12, atol=1e-11)  # sines, whose sum may be near zero
    for grad, other in zip(grads, expected[1], strict=True):
        np.testing.assert_allclose(grad, other, rtol=1e-10, atol=1e-10)
    for other in others:
        assert (value, *map(bytes, grads)) == (other[0], *map(bytes, other[1]))


def test_each_part_of_a_loop_has_a_table_of_its_own_only_if_that_is_small(usual_sizes):
    def looped(rows):
        source = sg.grad(bonds).source(*arguments(3, n=200_000, rows=rows))
        return re.search(r"^ {12,}_add_at\(", source, re.M) is not None

    assert looped(100) and not looped(60_000)


def test_a_table_that_a_loop_gives_belongs_to_the_caller(usual_sizes):
    args = grouped(50_000, 3)
    run = sg.grad(groups).compile(*args)
    first = run(*args)
    kept = first.copy()
    run(*args)
    np.testing.assert_array_equal(first, kept)
    assert first.flags.writeable and first.base is None


@pytest.mark.parametrize("f", [groups, shared_groups])
def test_sums_in_loops_where_sizes_are_symbols(tiny_blocks, f):
    grad = sg.grad(f, argnums=(0, 1))
    specs = "float64[6, 3]", "float64[6]", "int64[n]", "float64[n]", "float64[n, 3]"
    fixed, free = grad.compile(*specs), grad.compile("float64[m, 3]", "float64[m]", *specs[2:])
    assert re.search(r"^ {12,}(np\.add\.at|_add_at)\(", fixed.source, re.M)
    for n, rows, programs in ((1001, 6, (grad, fixed, free)), (501, 5, (grad, free)), (1, 6, (fixed, free))):
        args = grouped(n, 3, rows)
        for program in programs:
            for result, expected in zip(program(*args), grad.compile(*args, optimize=0)(*args), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)
