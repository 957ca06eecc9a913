"""Searches in sorted numbers, and straight lines between points, as C: the bits of NumPy, also in loops."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c import toolchain

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")

RNG = np.random.default_rng(0)
LENGTHS = [1, 2, 3, 7, 64]


def checked(f, *args):
    """Compare the bits of C and NumPy at every level; return the program."""
    for level in (0, 1, 2):
        program = sg.compile(f, target="c", optimize=level).compile(*args)
        assert "kernel_1(" in program.source
        np.testing.assert_array_equal(program(*args), f(*args), err_msg=f"level {level}")
    return program


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_sorted_numbers(dtype, side):
    search = lambda a, v: np.searchsorted(a, -v, side=side) + 1
    for n in LENGTHS:
        a, v = np.sort(RNG.integers(0, 12, n)).astype(dtype), RNG.integers(-14, 2, (3, 5)).astype(dtype)
        checked(search, a, v)
        if dtype is not np.int64:
            a[-1] = v[0, 0] = np.nan
            v[1, :2] = np.inf, -np.inf
            checked(search, a, v)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_lines_between_points(dtype):
    line = lambda x, xp, fp: np.interp(-x, xp, fp) * 2 + 1
    for n in LENGTHS:
        xp, fp = np.sort(RNG.integers(0, 12, n)).astype(dtype), RNG.normal(size=n).astype(dtype)
        x = -np.concatenate([xp, xp + 0.25, [-1, 20, np.nan, np.inf, -np.inf]]).astype(dtype)
        for points in (np.unique(xp), xp):  # once without points in one place
            program = checked(line, x, points, fp[: len(points)])
            with_infinity = np.where(np.arange(len(points)) == n // 2, np.inf, fp[: len(points)])
            np.testing.assert_array_equal(program(x, points, with_infinity), line(x, points, with_infinity))


def test_no_flag_is_raised_at_the_ends():
    program = sg.compile(lambda x, fp: np.interp(2 * x, np.arange(3.0), fp), target="c")
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(program(np.array([-1.0, 0.0, 1.0, 5.0]), np.ones(3)), np.ones(4))


def driven(p, table):
    """A state with an input from a table, by time and by the state."""
    y, total = 1.0, 0.0
    times = np.linspace(0, 2, 9)
    for k in range(100):
        y = y + 0.02 * (-p[0] * y + p[1] * np.interp(0.02 * k, times, table) + np.interp(y, times, table))
        total = total + y * y
    return total


def test_a_loop_with_a_table_is_c():
    p, table = np.array([0.5, 1.2]), np.sin(np.arange(9.0))
    program = sg.value_and_grad(driven, argnums=(0, 1), target="c").compile("float64[2]", "float64[9]")
    assert "for " not in program.source
    value, found = program(p, table)
    expected, slopes = sg.value_and_grad(driven, argnums=(0, 1))(p, table)
    assert value == pytest.approx(expected, rel=1e-12) and value == pytest.approx(driven(p, table), rel=1e-12)
    for a, b in zip(found, slopes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_saved_file_searches(tmp_path):
    path = sg.grad(driven).compile("float64[2]", "float64[9]").save(tmp_path / "driven.c")
    assert "while" in path.read_text() or "break;" in path.read_text()
