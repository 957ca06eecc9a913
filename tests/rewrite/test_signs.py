"""Signs and numbers of products: where they stand at level 1, and that of signs not a bit of the values changes."""

import numpy as np
import pytest

import symgrad as sg
from tests.forms import count

X, Y, Z = (np.array([0.3, -1.7, 0.0, np.inf, -2.5e-300]) * scale for scale in (1.0, -0.7, 1e200))

WRITTEN = {
    "double negative": (lambda x, y, z: (-x) * (-y), "x * y"),
    "sign far left": (lambda x, y, z: -(-x * y * z), "x * y * z"),
    "sign of a divisor": (lambda x, y, z: -(x / -y), "x / y"),
    "into a number": (lambda x, y, z: -(2.5 * x * y), "-2.5 * x * y"),
    "number times negative": (lambda x, y, z: (2.5 * x) * -y, "-2.5 * x * y"),
    "number over negative": (lambda x, y, z: 2.5 / -y, "-2.5 / y"),
    "two negative numbers": (lambda x, y, z: (-2.5 * x) * (-2 * y), "5 * x * y"),
    "negative term": (lambda x, y, z: z + -x * y, "z - x * y"),
    "negative term first": (lambda x, y, z: -x * y + z, "z - x * y"),
    "negative multiple added": (lambda x, y, z: z + -2.5 * x * y, "z - 2.5 * x * y"),
    "negative multiple subtracted": (lambda x, y, z: z - x * (-2.5 * y), "z + x * (2.5 * y)"),
    "less its negative": (lambda x, y, z: -x / y - x / y, "-2 * (x / y)"),
    "negative quotient added": (lambda x, y, z: z + -1 / x, "z - 1 / x"),
    "negative of a quotient": (lambda x, y, z: -(1 / x), "-1 / x"),
    "negative number added": (lambda x, y, z: x + -2.5, "x - 2.5"),
    "difference": (lambda x, y, z: -(x - y), "y - x"),
    "one over something times a value": (lambda x, y, z: -x * (1 / y + z), "-x * (1 / y + z)"),
    "divided by a number": (lambda x, y, z: -x / 3, "-x / 3"),
    "as it was written": (lambda x, y, z: -2.5 * x + z, "-2.5 * x + z"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_sign_goes_where_it_costs_nothing(name):
    f, expected = WRITTEN[name]
    compiled = sg.compile(f, optimize=1).compile(X, Y, Z)
    assert count(compiled.source, f"return {expected}") == 1
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compiled(X, Y, Z), f(X, Y, Z))
        np.testing.assert_array_equal(sg.compile(f, optimize=2, numerics="ieee")(X, Y, Z), f(X, Y, Z))


def test_the_sign_of_what_is_summed_leaves():
    program = sg.compile(lambda x, y: np.sum(-(x * y))).compile("float64[n]", "float64[n]", optimize=1)
    assert count(program.source, "return -(x @ y)") == 1


NUMBERS = {
    "two factors": (lambda x, y: (2 * x) * (3 * y), "6 * x * y"),
    "far away": (lambda x, y: 0.5 * (x * y * (3 * x)), "x * y * (1.5 * x)"),
    "over numbers": (lambda x, y: (x / 4) * (y / 2), "x / 8 * y"),
    "a quotient": (lambda x, y: 6 * (2 * x / y), "12 * x / y"),
    "a number over a value": (lambda x, y: 3 / x * (2 * y), "6 / x * y"),
    "what is divided by": (lambda x, y: 1 / (12 * x) + y / (4 * x), "1 / (12 * x) + y / (4 * x)"),
    "numbers against an overflow": (lambda x, y: (1e200 * x) * (1e-200 * y), "1e+200 * x * (1e-200 * y)"),
    "one number": (lambda x, y: x * (0.3 * y), "x * (0.3 * y)"),
    "before a product": (lambda x, y: 0.3 * (x * y), "0.3 * x * y"),
    "before a square": (lambda x, y: 0.3 * (x * x) * y, "0.3 * (x * x) * y"),
    "in a part": (lambda x, y: 2.5 * (0.5 * (x * y))[::2], "1.25 * (x * y)[::2]"),
    "what cancels": (lambda x, y: 3.5 * (x / y) / x, "3.5 / y"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_of_a_product_are_one(name):
    f, expected = NUMBERS[name]
    x, y = np.array([0.3, -1.7, 2.5]), np.array([-0.2, 1e-3, 7.0])
    compiled = sg.compile(f, optimize=1).compile(x, y)
    assert count(compiled.source, f"return {expected}") == 1
    np.testing.assert_allclose(compiled(x, y), f(x, y), rtol=1e-15)
    assert sg.compile(f, optimize=1, numerics="ieee")(x, y).tolist() == f(x, y).tolist()


def test_a_number_that_is_needed_elsewhere_stays():
    source = sg.compile(lambda x, y: (3 * y, 2 * x * (3 * y)), optimize=1).source("float64[3]", "float64[3]")
    assert count(source, "2 * x * _") == 1


def test_numbers_of_several_dtypes_keep_their_digits():
    x, y = np.array([0.1, 0.7], np.float32), np.array([0.3, 0.9])
    for f in (
        lambda x, y: (0.1 * x) * (0.7 * y),
        lambda x, y: np.float64(0.1) * (0.7 * x),
        lambda x, y: np.float32(0.1) * (0.7 * y),
        lambda x, y: 3 * ((x > 0.5) * 7) * (0.5 * y),
    ):
        found, expected = sg.compile(f, optimize=1)(x, y), f(x, y)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-7 if expected.dtype == np.float32 else 1e-15)


def test_what_is_needed_elsewhere_keeps_its_sign():
    def f(x, y):
        product = -x * y
        return product, product + y, -product

    source = sg.compile(f, optimize=1).source("float64[3]", "float64[3]")
    assert count(source, "product + y") == count(source, "-product") == 1


def test_integers_keep_their_signs():
    def f(x, y):
        return x + -y, -(y * -3), -x * (y * 2), x + 0.5 / -y, 1 - -y / x, -y * (x / 3), x + -128

    smallest = np.array([np.iinfo(np.int8).min, -7, 3], np.int8), np.array([5, np.iinfo(np.int8).min, -1], np.int8)
    for found, expected in zip(sg.compile(f, optimize=1)(*smallest), f(*smallest), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


def test_the_gradient_of_rosenbrock_reads_as_written_by_hand():
    def rosenbrock(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    assert count(sg.grad(rosenbrock, optimize=1).source("float64[10]"), "_ + -_") == 0


def test_what_is_added_to_a_part_with_a_sign_is_subtracted():
    def loss(x):
        return np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2)

    assert count(sg.grad(loss, optimize=1).source("float64[9]"), "d_x[1:-1] -= 2 * _") == 1


def test_no_number_of_a_small_integer_type_changes_its_sign():
    def f(x):
        x = x.copy()
        np.add.at(x, np.array([0, 2]), -128)
        return x

    x = np.zeros(3, np.int8)
    np.testing.assert_array_equal(sg.compile(f)(x), f(x))


def test_complex_numbers_have_no_sign():
    turned = lambda x, s: np.abs(x * np.exp(-(1j * s * 2.0)) - 2j * s * x)
    x = np.array([1.0, -2.0])
    np.testing.assert_allclose(sg.compile(turned)(x, 0.5), turned(x, 0.5))
