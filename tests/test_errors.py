"""Errors, word for word: the fact, the user's line, what to write instead."""

import bisect
import functools
import heapq
import inspect
import logging
import math
import statistics
import struct
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.options import of_environment
from symgrad.errors import (
    ArgumentError,
    ConcreteValueError,
    DTypeError,
    GraphError,
    NotDifferentiableError,
    ScalarError,
    ShapeError,
    SymbolicSizeError,
    SymgradError,
    UnknownAttributeError,
    UnsupportedError,
    WriteError,
)
from symgrad.ops.define import elementwise
from symgrad.ops.dtypes import result_dtype
from symgrad.targets.numpy.guard import ANOTHER

X = np.array([1.0, 2.0, 3.0])
LOG = logging.Logger("of a test")
LOG.addHandler(logging.StreamHandler())


def line_of(marker):
    """The number of the line of this file that ends in a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {marker}")]
    return number


def raised(call, error, marker=None):
    with pytest.raises(error) as info:
        call()
    found = info.value
    assert isinstance(found, SymgradError)
    assert found.where.file == __file__
    if marker is not None:
        assert found.where.line == line_of(marker)
        assert f"at test_errors.py:{line_of(marker)}: " in str(found)
    return found


def says(call, error, fact, instead=None, marker=None):
    found = raised(call, error, marker)
    assert found.fact == fact
    if instead is not None:
        assert found.instead == instead
    return found


# ---- values that Python asks for


def branches(x):
    y = x * 2
    if y > 0:  # if
        return y
    return -y


def loops(x):
    while x > 1:  # while
        x = x / 2
    return x


def both(x):
    return x if x > 0 and x < 1 else 0.0  # and


def largest(x):
    return max(x, 0.0)  # max


def contains(x):
    return x if 2.0 in [x] else x * 0  # in


def chained(x):
    return x if 0 < x < 1 else -x  # chain


def negated(x):
    return x if not x > 0 else -x  # not


def either(x):
    return -x if x > 0 else x  # ifexp


def ordered(x):
    return sorted([x, 2 * x])[0]  # sorted


def positive(x):
    return sum([y for y in [x, 2 * x] if y > 0])  # comprehension


def matches(x):
    match x:
        case 1.0:  # match
            return x
    return -x


INSTEAD_OF = {
    "if": "Write np.where(condition, a, b) instead of `if`: both sides are computed, and each number is chosen.",
    "ifexp": "Write np.where(condition, a, b) instead of `a if condition else b`.",
    "while": "Write a `for` loop of as many steps as can be needed, and x = np.where(condition, new, x) in it.",
    "and": "Write (a > 0) & (b > 0) instead of `and`, | instead of `or`, and np.where instead of `if`.",
    "not": "Write ~ instead of `not`, and np.where(condition, a, b) instead of `if`.",
    "max": "Write np.maximum(a, b) instead of max(a, b), and np.max(x) instead of max(x).",
    "in": "Write np.any(x == value) instead of `value in x`.",
    "chain": "Write (a < x) & (x < b) instead of a < x < b, and np.where instead of `if`.",
    "sorted": "Write np.sort(x) instead of sorted(x); for pairs, give a key: sorted(pairs, key=lambda p: p[0]).",
    "comprehension": "Write np.where(condition, x, 0), or np.sum(x, where=condition), instead of the `if` in it.",
    "match": "Write `if x == 1` and `elif`, which become branches of the program, or np.where(x == 1, a, b).",
}


@pytest.mark.parametrize(
    ("f", "marker"),
    [
        (branches, "if"),
        (either, "ifexp"),
        (loops, "while"),
        (both, "and"),
        (negated, "not"),
        (largest, "max"),
        (contains, "in"),
        (chained, "chain"),
        (ordered, "sorted"),
        (positive, "comprehension"),
        (matches, "match"),
    ],
)
@pytest.mark.parametrize("transform", [sg.grad, sg.compile, lambda f: sg.grad(sg.grad(f)), sg.hessian])
def test_truth_of_a_variable(f, marker, transform):
    converted = ' Or leave loops="unroll" out: it becomes a branch of the program.'
    with sg.options(loops="unroll"):
        found = says(
            lambda: transform(f)(2.0),
            ConcreteValueError,
            "Python needs the truth value of a traced bool[], which has no value before the program runs",
            INSTEAD_OF[marker] + (converted if marker in ("if", "ifexp", "while", "and", "not", "in", "chain") else ""),
            marker,
        )
    source = inspect.getsource(inspect.getmodule(f)).splitlines()[line_of(marker) - 1].strip()
    assert str(found).splitlines()[1] == f"  at test_errors.py:{line_of(marker)}: {source}"


NEEDS_NUMBERS = (ConcreteValueError, ScalarError)


ADVISED = [
    (
        lambda x: [y for y in x].count(2.0) * x[0],
        "Write sum(y == x for y in a) instead of a.count(x).",
        lambda x: sum(y == 2.0 for y in x) * x[0],
    ),
    (
        lambda x: list(x).index(2.0) * x[0],
        "Write np.argmax(np.array(a) == x) instead of a.index(x).",
        lambda x: np.argmax(np.array(x) == 2.0) * x[0],
    ),
    (
        lambda x: next(y for y in x if y > 1.5) ** 2,
        "Write a `for` loop with `if` and `break` instead of next(): it becomes a loop of the program.",
        lambda x: first_above(x) ** 2,
    ),
    (
        lambda x: np.sum(np.fromiter((y * y for y in x), float)),
        "Write np.array([...]) of a list.",
        lambda x: np.sum(np.array([y * y for y in x])),
    ),
    (
        lambda x: heapq.nlargest(2, x)[1],
        "Write np.sort(x)[::-1][:n] instead of nlargest(n, x).",
        lambda x: np.sort(x)[::-1][:2][1],
    ),
    (
        lambda x: sorted([(y, "event") for y in x], key=lambda event: event[0])[-1][0] ** 2,
        "Name the argument that is compared in static_argnames= if it is data; np.argsort(keys) orders traced keys.",
        lambda x: x[np.argsort(x)][-1] ** 2,
    ),
    (
        lambda x: squared(x[0]),
        "Call squared.__wrapped__, which asks no cache for its arguments.",
        lambda x: squared.__wrapped__(x[0]),
    ),
    (
        lambda x: np.sum(np.ones((int(np.argmax(x)), 2))) * x[0],
        "Sizes are known before the program runs: name it in static_argnames=, or np.where(np.arange(n) < i, x, 0).",
        lambda x: 2 * np.sum(np.where(np.arange(9) < np.argmax(x), 1, 0)) * x[0],
    ),
    (
        lambda x: LOG.warning("%f", x[0]) or x[0],
        "Return it, and log the result.",
        lambda x: x[0],
    ),
    (
        lambda x: statistics.stdev(x),
        "Write np.std(x, ddof=1) instead of statistics.stdev(x).",
        lambda x: np.std(x, ddof=1),
    ),
]


@pytest.mark.parametrize(("f", "instead", "as_it_says"), ADVISED)
def test_what_advice_says_has_the_same_value(f, instead, as_it_says):
    assert raised(lambda: sg.grad(f)(X), NEEDS_NUMBERS).instead == instead
    assert sg.compile(as_it_says)(X) == pytest.approx(f(X))


@functools.lru_cache
def squared(x):
    return x * x


def first_above(x):
    found = 0.0
    for y in x:
        if y > 1.5:
            found = y
            break
    return found


def test_dtype_of_a_ufunc_casts_as_numpy_does():
    z = np.array([1j, 2.0])
    with pytest.raises(DTypeError, match=r"np.add: cannot cast complex128 to float32 by the rule 'same_kind'"):
        sg.compile(lambda z: np.add(z, z, dtype=np.float32))(z)
    found = sg.compile(lambda x: np.add(x, 1, dtype=np.float32))(X)
    assert found.dtype == np.float32


def test_the_truth_that_an_assertion_needs():
    def f(x):
        assert x > 0
        return x

    found = raised(lambda: sg.grad(f)(2.0), ConcreteValueError)
    assert found.instead == (
        "Leave the assertion out, or define the function in a file that nothing has rewritten, as pytest does: "
        "there it becomes a check of the program."
    )


def test_the_statement_that_calls_the_transform_is_not_meant():
    scope = {}
    exec("def f(x):\n    return x if x > 0 else -x", scope)

    def call():
        while sg.grad(scope["f"])(2.0):
            pass

    found = raised(call, ConcreteValueError)
    assert found.instead == (
        "Define the function in a file, since branches are converted from source, and this one has none; "
        "or write np.where(condition, a, b), and & | ~ instead of and, or, not."
    )


def to_int(x):
    return x * int(x)  # int


def as_index(x):
    return [1.0, 2.0][x]  # index


def as_bound(x):
    return np.arange(5.0)[x : x + 2]  # bound


def formats(x):
    print(x.__format__(".3f"))  # format
    return x


def formats_as_c(x):
    text = "%.3f"
    print(text % x)  # percent
    return x


def counts(x):
    return sum(x for _ in range(x))  # count


@pytest.mark.parametrize(
    ("f", "marker", "asked", "instead"),
    [
        (
            to_int,
            "int",
            "int()",
            "Write np.floor(x) or np.trunc(x); x.astype(int) gives integers, which have no derivative.",
        ),
        (as_index, "index", "An index, range() or int()", "Write np.take(a, i), where a is an array."),
        (
            as_bound,
            "bound",
            "An index, range() or int()",
            "For n items write x[i + np.arange(n)]; for x[:i], np.where(np.arange(len(x)) < i, x, 0).",
        ),
        (formats, "format", "format() by '.3f'", "Return it, and print the result."),
        (formats_as_c, "percent", "float()", "Return it, and print the result."),
        (
            counts,
            "count",
            "An index, range() or int()",
            "Name the number of steps in static_argnames=, or go to a fixed one with np.where(i < steps, new, x).",
        ),
    ],
)
def test_numbers_of_a_variable(f, marker, asked, instead):
    says(
        lambda: sg.grad(f)(2.0),
        ConcreteValueError,
        f"{asked} needs the value of a traced float64[] named 'x', which has none before the program runs",
        instead,
        marker,
    )


def sines(x):
    return math.sin(x)  # sines


def log_gammas(x):
    return math.lgamma(x)  # log gammas


def packs(x):
    return struct.pack("d", x[0])  # pack


def looks_up(x):
    return bisect.bisect([1.0, 2.0], x[0])  # bisect


def as_object(x):
    return np.ndarray.dot(A, x)  # unbound


def multiplied(x):
    w = [x[0], x[1], x[2]]
    return A @ w  # a list


def drawn(x):
    return np.random.default_rng(0).normal(x)  # drawn


def drawn_by_a_table(x):
    return DRAWS["normal"](x)[0] * x  # a table


DRAWS = {"normal": np.random.default_rng(0).normal}
A = np.ones((2, 3))
NUMBER_OF_X = "float() needs the value of a traced float64[], which has none before the program runs"
ARRAY_OF_X = NUMBER_OF_X.replace("float()", "np.array() or np.asarray()").replace("64[]", "64[3] named 'x'")


@pytest.mark.parametrize(
    ("f", "marker", "fact", "instead"),
    [
        (sines, "sines", None, "Write np.sin instead of math.sin."),
        (log_gammas, "log gammas", None, "Write scipy.special.gammaln instead of math.lgamma."),
        (
            packs,
            "pack",
            NUMBER_OF_X,
            "_struct.pack is compiled code: write it with NumPy's functions, or give it to symgrad.operator.",
        ),
        (looks_up, "bisect", None, "Write np.searchsorted(a, x) instead of bisect_right(a, x)."),
        (as_object, "unbound", ARRAY_OF_X, "Write np.dot(a, ...)."),
        (
            drawn,
            "drawn",
            ARRAY_OF_X,
            "Draw standard numbers, which need no traced value, and scale them: loc + scale * rng.standard_normal(n).",
        ),
        (drawn_by_a_table, "a table", ARRAY_OF_X, ""),
        (
            multiplied,
            "a list",
            None,
            "w is a list: write np.array(w); or give an array instead of a list of numbers.",
        ),
    ],
)
def test_advice_is_about_what_asked(f, marker, fact, instead):
    found = raised(lambda: sg.compile(f, loops="unroll")(X), (ConcreteValueError, ScalarError), marker)
    assert found.fact == (fact or found.fact) and found.instead == instead


def test_a_name_that_is_not_there_says_what_to_write():
    with pytest.raises(AttributeError, match=r"has no attribute 'jit': sg.compile\(f\)"):
        _ = sg.jit
    with pytest.raises(AttributeError, match=r"has no attribute 'gradd'$") as found:
        _ = sg.gradd
    assert found.value.name == "gradd" and found.value.obj is sg  # from which Python finds 'grad'
    assert not hasattr(sg, "tree_map")


OUTSIDE = [0.0, np.zeros(3)]


def into_outside(x):
    OUTSIDE[1][0] = x  # outside
    return OUTSIDE[1].sum()


def test_writing_a_variable_into_an_array_from_outside():
    found = raised(lambda: sg.grad(into_outside)(2.0), ConcreteValueError, "outside")
    assert found.instead.startswith("Write into an array that is made inside of the function")


# ---- sizes


def over_rows(x):
    total = 0.0
    for i in range(x.shape[0]):  # range
        total = total * x[i]
    return total


def test_symbols_where_numbers_are_needed():
    with sg.options(loops="unroll"):
        found = says(
            lambda: sg.grad(over_rows).source("float64[n]"),
            SymbolicSizeError,
            "the size n is a symbol here, and Python asked for its number",
            marker="range",
        )
    assert "range(n - 1, -1, -1):" in sg.grad(over_rows, optimize=1).source("float64[n]")
    assert found.instead.startswith('Call with arrays, or give a number in the spec, such as "float64[100]"')
    found = raised(
        lambda: sg.grad(lambda x: np.sum(x) if len(x) > 99 else x[0]).source("float64[k]"), SymbolicSizeError
    )
    assert found.fact.startswith("the size k is a symbol here, and Python asked ")
    found = raised(lambda: sg.grad(lambda x: x[0] if x.shape[0] / 2 else x[1]).source("float64[k]"), SymbolicSizeError)
    assert found.fact.startswith("the size k is a symbol here, and Python asked for the truth of what")
    found = raised(lambda: sg.grad(lambda x: np.sum(x[: int(x.shape[0] / 2)])).source("float64[k]"), SymbolicSizeError)
    assert found.fact == "the size k is a symbol here, and Python asked for the number that was computed with it"
    assert "for int(n / 2) write n // 2" in found.instead
    written = sg.grad(lambda x: np.sum(x * np.arange(x.shape[0])))
    np.testing.assert_array_equal(written.compile("float64[k]")(np.ones(3)), [0, 1, 2])


# ---- shapes and functions


def added(x):
    return np.sum(x + np.ones(4))  # add


def multiplied(x):
    return np.sum(x @ np.ones((4, 2)))  # matmul


def unsupported(x):
    return np.sum(np.histogram(x)[0])  # histogram


def unique(x):
    return np.sum(np.unique(x))  # unique


def out_of_bounds(x):
    return x[5]  # bounds


@pytest.mark.parametrize(
    ("f", "error", "fact", "marker"),
    [
        (added, ShapeError, "np.add: shapes (3,) and (4,) do not broadcast: 3 against 4", "add"),
        (multiplied, ShapeError, "np.matmul: float64[3] @ float64[4, 2] do not contract: 3 and 4 differ", "matmul"),
        (
            unsupported,
            UnsupportedError,
            "np.histogram is not supported: it counts, and counts have no derivative",
            "histogram",
        ),
        (out_of_bounds, ShapeError, "index 5 is out of bounds for axis 0 of size 3", "bounds"),
    ],
)
@pytest.mark.parametrize("transform", [sg.grad, sg.value_and_grad, sg.compile, sg.hessian])
def test_what_numpy_would_refuse_or_symgrad_does_not_know(f, error, fact, marker, transform):
    says(lambda: transform(f)(X), error, fact, marker=marker)


def test_results_whose_size_depends_on_values():
    found = raised(lambda: sg.grad(unique)(X), UnsupportedError, "unique")
    assert found.fact.startswith("np.unique")


# ---- what grad takes


SCALAR = "grad needs a function with a scalar result, <lambda> returned "
REDUCE = "Reduce it, as np.sum does, or use jacobian."
ONE_NUMBER = "Return one number; whatever else is wanted goes into aux: return value, aux and has_aux=True."
FLOATING = "Only floating arrays have derivatives: x.astype(float)."
CHOOSE = "Choose floating arrays with argnums= or wrt=."


@pytest.mark.parametrize(
    ("f", "x", "error", "fact", "instead"),
    [
        (lambda x: x * 2, X, ShapeError, SCALAR + "float64[3]", REDUCE),
        (lambda x: np.ones(2), X, ShapeError, SCALAR + "float64[2]", REDUCE),
        (lambda x: (x, x), 1.0, ShapeError, SCALAR + "a tuple of 2", ONE_NUMBER),
        (lambda x: {"a": x}, 1.0, ShapeError, SCALAR + "a dict", ONE_NUMBER),
        (lambda x: None, 1.0, ShapeError, SCALAR + "None", ONE_NUMBER),
        (lambda x: 3, 1.0, DTypeError, "grad: no derivative of the result of <lambda>, which is int64[]", FLOATING),
        (
            lambda x: np.sum(x > 1),
            X,
            DTypeError,
            "grad: no derivative of the result of <lambda>, which is int64[]",
            FLOATING,
        ),
        (lambda x: x, np.arange(3), DTypeError, "no derivative with respect to x, which is int64[3]", FLOATING),
        (lambda x: x, 3, DTypeError, "no derivative with respect to x, which is 3", "Pass the float 3.0."),
        (lambda x: x, True, DTypeError, "no derivative with respect to x, which is True", CHOOSE),
        (lambda x: x, np.True_, DTypeError, "no derivative with respect to x, which is bool[]", FLOATING),
        (
            lambda p: p,
            "text",
            DTypeError,
            "no derivative with respect to p, which is 'text'",
            CHOOSE + ' A spec reads "float64[n, 3]".',
        ),
        (
            lambda p: p["a"],
            {"a": True, "b": "text"},
            DTypeError,
            "no derivative with respect to p, which has no floating number",
            CHOOSE,
        ),
        (
            lambda x: np.exp(x),
            1j,
            DTypeError,
            "grad: the result of <lambda> is complex128[]",
            "Return a real number, such as z.real or np.abs(z) ** 2; of a holomorphic function holomorphic=True gives "
            "f'(z).",
        ),
    ],
)
def test_what_has_no_gradient(f, x, error, fact, instead):
    says(lambda: sg.grad(f)(x), error, fact, instead)


def test_no_derivative_rule():
    step = sg.operator(lambda x: np.floor(x), name="my_step", infer=lambda x: x)

    def f(x):
        y = step(x)  # no rule
        return np.sum(y)

    found = raised(lambda: sg.grad(f)(X), NotDifferentiableError, "no rule")
    assert found.fact == "my_step has no derivative rule"


def one(infer=lambda x: x, vjp=lambda g, y, x: (2 * g,)):
    twice = sg.operator(lambda x: 2 * x, name="twice", infer=infer, vjp=vjp)
    return lambda x: np.sum(twice(x))


@pytest.mark.parametrize(
    ("f", "error", "fact"),
    [
        (
            one(infer=lambda x: "float64[3]"),
            ArgumentError,
            "infer of the operator twice returns 'float64[3]', which is",
        ),
        (one(infer=lambda x: (3,)), ArgumentError, "infer of the operator twice returns (3,), which is"),
        (one(infer=lambda x: {"y": x}), ArgumentError, "infer of the operator twice returns {'y': Aval("),
        (one(vjp=lambda g, y, x: 2 * g), ArgumentError, "vjp of the operator twice gives a Variable for its one input"),
        (one(vjp=lambda g, y, x: (g, g)), ArgumentError, "vjp of the operator twice gives 2 of them for its one input"),
        (
            one(vjp=lambda g, y, x: (np.sum(g),)),
            ShapeError,
            "rule of twice gives a cotangent of shape () for an input float64[3]",
        ),
    ],
)
def test_rules_of_an_operator_of_the_wrong_form(f, error, fact):
    with pytest.raises(error) as found:
        sg.grad(f)(np.ones(3))
    assert fact in found.value.fact
    assert found.value.instead


def test_an_operator_of_several_arrays_says_how_many():
    product = sg.operator(lambda x, y: x * y, name="product", infer=lambda x, y: x)
    found = raised(lambda: sg.grad(lambda x: product(x, 3 * x))(2.0), ConcreteValueError)
    assert found.fact == "product: y= is part of the program, and needs the value of a traced float64[]"
    assert "arrays=2" in found.instead


def cubed(x):
    return x**3


def test_elementwise_operators_say_their_dtype_and_all_partials():
    with pytest.raises(TypeError, match=r"cubed is no ufunc, .* say dtype="):
        elementwise(cubed, lambda y, x: 3 * x**2)
    product = elementwise(lambda x, y: x * y, lambda z, x, y: y, dtype=lambda x, y: result_dtype(x, y))
    with pytest.raises(ArgumentError, match="gives 1 of them for its 2 inputs"):
        sg.grad(lambda x: product(x, x + 1))(2.0)


def test_disconnected():
    says(
        lambda: sg.grad(lambda x, p: x, (0, 1), disconnected="raise")(1.0, {"a": [2.0]}),
        NotDifferentiableError,
        "the value does not depend on p.a.0",
        'disconnected="zero" gives zeros.',
    )


# ---- writing into arguments


def assigns(x):
    x[0] = 1  # assign
    return np.sum(x)


def adds(x):
    x += 1  # iadd
    return np.sum(x)


def fills(x):
    np.exp(x, out=x)  # out
    return np.sum(x)


def through_a_view(x):
    y = x[1:]
    y[0] = 2  # view
    return np.sum(x)


@pytest.mark.parametrize(
    ("f", "marker"), [(assigns, "assign"), (adds, "iadd"), (fills, "out"), (through_a_view, "view")]
)
@pytest.mark.parametrize("transform", [sg.compile, sg.grad, lambda f: sg.grad(lambda x: sg.grad(f)(x)[0])])
def test_writing_into_an_argument(f, marker, transform):
    says(
        lambda: transform(f)(X),
        WriteError,
        "x is an argument: writing into it would change the caller's array",
        "Write into a copy: x = x.copy().",
        marker,
    )


def test_writing_into_a_part_of_an_argument():
    def f(params):
        params["W"][0] = 1.0  # part
        return np.sum(params["W"])

    says(
        lambda: sg.grad(f)({"W": X}),
        WriteError,
        "params['W'] is an argument: writing into it would change the caller's array",
        marker="part",
    )


# ---- Variables that leave their trace


def test_variables_of_another_trace():
    kept = np.empty(1, object)  # of lists, dicts and attributes what was there before is put back

    def leaks(x):
        kept[0] = x * 2
        return x * x

    sg.grad(leaks)(1.0)

    def uses(x):
        return x * kept[0]  # leaked

    says(
        lambda: sg.grad(uses)(1.0),
        GraphError,
        "Variables of different graphs meet",
        "Keep a Variable inside the function or graph that made it.",
        "leaked",
    )
    found = raised(lambda: sg.grad(lambda x: kept[0])(1.0), GraphError)
    assert found.fact.endswith("which belongs to another graph")
    raised(lambda: sg.compile(lambda x: [kept[0]])(1.0), GraphError)
    raised(lambda: sg.compile(lambda x: sg.grad(lambda y: y)(kept[0]))(1.0), GraphError)
    raised(lambda: sg.compile(lambda x: sg.jacobian(lambda y: kept[0] * 1)(x))(1.0), GraphError)


# ---- wrong calls


class Decorated:
    @sg.grad
    def loss(self, x):
        return x * x


class Foreign:
    """Hashable, but what it holds may change."""


FOREIGN = (
    "Pass arrays, numbers, strings, functions, or trees of them; name an argument that is a constant in "
    "static_argnames=, or register its class with symgrad.core.tree.register."
)


@pytest.mark.parametrize(
    ("call", "error", "fact", "instead"),
    [
        (
            lambda: sg.grad(lambda x, y: x * y)(1.0),
            ArgumentError,
            "function_grad: missing a required argument: 'y'",
            "It takes (x, y).",
        ),
        (
            lambda: sg.grad(lambda x, y: x * y).source(1.0),
            ArgumentError,
            "function_grad: missing a required argument: 'y'",
            "It takes (x, y).",
        ),
        (
            lambda: sg.grad(branches)(1.0, 2.0),
            ArgumentError,
            "branches_grad: too many positional arguments",
            "It takes (x).",
        ),
        (
            lambda: sg.grad(branches)(1.0, z=3),
            ArgumentError,
            "branches_grad: got an unexpected keyword argument 'z'",
            "It takes (x).",
        ),
        (
            lambda: sg.grad(branches).compile(1.0, optimise=3),
            ArgumentError,
            "unknown option optimise=",
            "Did you mean 'optimize'?",
        ),
        (
            lambda: sg.grad(lambda x, s: x)(1.0, {1, 2}),
            ArgumentError,
            "s is an instance of set, which is neither an array nor immutable",
            FOREIGN,
        ),
        (
            lambda: sg.grad(lambda x, s: x)(1.0, {"a": [Foreign()]}),
            ArgumentError,
            "s['a'][0] is an instance of Foreign, which is neither an array nor immutable",
            FOREIGN,
        ),
        (
            lambda: Decorated().loss(1.0),
            ArgumentError,
            "self is an instance of Decorated, which is neither an array nor immutable",
            "Transform the method of an object: sg.grad(x.loss), where x is the object.",
        ),
        (
            lambda: sg.grad(lambda x, rng: x * rng.normal()).source(1.0, np.random.default_rng()),
            ArgumentError,
            "rng is an instance of Generator, which is neither an array nor immutable",
            FOREIGN,
        ),
        (
            lambda: sg.grad(lambda x, y=2.0: x * y, wrt="y")(1.0),
            ArgumentError,
            "wrt='y': y has its default here, which is a constant",
            "Pass a value for it.",
        ),
        (
            lambda: sg.grad(lambda t: sum(t.values()))({}),
            ArgumentError,
            "t is {}: there is nothing in it to differentiate by",
            CHOOSE,
        ),
        (
            lambda: sg.grad(lambda t: np.sum(t["a"]), wrt="t.b")({"a": np.ones(3), "b": []}),
            ArgumentError,
            "t.b is []: there is nothing in it to differentiate by",
            CHOOSE,
        ),
        (
            lambda: sg.hessian(lambda x, y: x * y, argnums=1, wrt="x"),
            ArgumentError,
            "argnums=1 and wrt='x' both choose",
            "Give one of them.",
        ),
        (
            lambda: sg.grad(lambda x: x[0])(1.0),
            ShapeError,
            "1 index for an array of 0 dimensions",
            "Leave indices out, or give the array an axis: x[None].",
        ),
        (
            lambda: sg.grad(lambda x: np.concatenate([x, np.ones((2, 2))]).sum())(np.ones(3)),
            ShapeError,
            "np.concatenate: shapes (3,), (2, 2) do not fit together along axis 0",
            "The other axes have the same sizes; x[None] gives one more axis, x.reshape other ones.",
        ),
        (
            lambda: sg.grad(np.sum)([[1.0], [1.0, 2.0]]),
            ShapeError,
            "a list has items of the shapes (1,) and (2,), which are not one array",
            "Give them one length, or loop over the list: for item in x.",
        ),
        (
            lambda: sg.grad(lambda x: np.sum(x * np.float64))(X),
            UnsupportedError,
            "the type <class 'numpy.float64'> cannot take part in a traced computation",
            "Write float64(x) for one of its values. "
            'The spec of a number reads "float64[]", that of a vector "float64[n]".',
        ),
        (
            lambda: sg.grad(lambda x: np.sum(np.arange(np.sum(x > 1)) * x[0]))(X),
            UnsupportedError,
            "np.arange: the size of the result would depend on values",
            "Write start + step * np.arange(n), with a size n that does not depend on values.",
        ),
        (
            lambda: sg.operator(np.sin, infre=lambda x: x, infer=lambda x: x),
            ArgumentError,
            "operator: unknown option infre=",
            "Did you mean 'infer'?",
        ),
        (
            lambda: sg.operator(3, infer=lambda x: x),
            ArgumentError,
            "operator: 3 is not a function",
            "Give a function of arrays, and infer= of avals.",
        ),
        (
            lambda: sg.grad(lambda x: np.sum(np.frompyfunc(math.sin, 1, 1)(x)))(X),
            UnsupportedError,
            "np.frompyfunc(f, n, m) is not supported",
            "Write np.vectorize(f), which calls f, too.",
        ),
        (
            lambda: sg.grad(np.sum)(Decimal("1.5")),
            DTypeError,
            "no derivative with respect to a, which is Decimal('1.5')",
            "Pass the float 1.5.",
        ),
        (
            lambda: sg.grad(np.sum)(np.array([None, 1])),
            UnsupportedError,
            "a has dtype object",
            "Only boolean, integer, floating and complex arrays can be traced: a.astype(float).",
        ),
        (
            lambda: sg.grad(lambda x: np.sum(x))(np.ma.array(X, mask=[0, 1, 0])),
            UnsupportedError,
            "x is a masked array",
            "Pass x.filled(0) and the mask as arrays of their own.",
        ),
        (
            lambda: sg.grad(np.sin, fast=True),
            ArgumentError,
            "unknown option fast=",
            "Options are cache_size, check_first, check_nan, checks, loops, numerics, optimize, target, threads.",
        ),
        (lambda: sg.grad(np.sin, optimise=1), ArgumentError, "unknown option optimise=", "Did you mean 'optimize'?"),
        (lambda: sg.options(optimise=1), ArgumentError, "unknown option optimise=", "Did you mean 'optimize'?"),
        (lambda: sg.grad(np.sin, argnum=1), ArgumentError, "unknown option argnum=", "Did you mean 'argnums'?"),
        (lambda: sg.jacobian(np.sin, mod="fwd"), ArgumentError, "unknown option mod=", "Did you mean 'mode'?"),
        (lambda: sg.vmap(np.sin, in_axis=1), ArgumentError, "unknown option in_axis=", "Did you mean 'in_axes'?"),
        (
            lambda: sg.hessian(np.sin, static_argnum=1),
            ArgumentError,
            "unknown option static_argnum=",
            "Did you mean 'static_argnums'?",
        ),
        (
            lambda: sg.grad(np.sin).source(1.0, optimise=1),
            ArgumentError,
            "unknown option optimise=",
            "Did you mean 'optimize'?",
        ),
        (
            lambda: sg.options(numeric="ieee").__enter__(),
            ArgumentError,
            "unknown option numeric=",
            "Did you mean 'numerics'?",
        ),
        (lambda: sg.grad(np.sin, optimize=3), ArgumentError, "optimize=3 is not a level", "Write 0, 1 or 2."),
        (lambda: sg.grad(np.sin, optimize=True), ArgumentError, "optimize=True is not a level", "Write 0, 1 or 2."),
        (
            lambda: sg.grad(np.sin, numerics="fast"),
            ArgumentError,
            "numerics='fast' is unknown",
            'Write "stable" or "ieee".',
        ),
        (
            lambda: sg.grad(np.sin, threads=0),
            ArgumentError,
            "threads=0 is not a positive integer",
            "Write 1 or more, or None for as many threads as cores.",
        ),
        (
            lambda: sg.options(foo=1).__enter__(),
            ArgumentError,
            "unknown option foo=",
            "Options are cache_size, check_first, check_nan, checks, loops, numerics, optimize, target, threads.",
        ),
        (
            lambda: sg.spec("floaty[3]"),
            ArgumentError,
            "'floaty[3]' is not a spec: there is no dtype 'floaty'",
            'Write "float[3]".',
        ),
        (
            lambda: sg.spec("float64[3"),
            ArgumentError,
            "'float64[3' is not a spec: sizes stand between [ and ]",
            'Write "float64[3]".',
        ),
        (
            lambda: sg.grad(lambda x: x).source("flot64[3]"),
            ArgumentError,
            "x: 'flot64[3]' is not a spec: there is no dtype 'flot64'",
            'Write "float64[3]".',
        ),
        (
            lambda: sg.grad(lambda x: x).source("words[3]"),
            DTypeError,
            "no derivative with respect to x, which is 'words[3]'",
            'Choose floating arrays with argnums= or wrt=. A spec reads "float64[n, 3]".',
        ),
        (
            lambda: sg.grad(lambda x: x).source("float64"),
            DTypeError,
            "no derivative with respect to x, which is 'float64'",
            'The spec of a number reads "float64[]", that of a vector "float64[n]".',
        ),
        (
            lambda: sg.grad(lambda p: p["W"]).source({"W": np.float64}),
            DTypeError,
            "no derivative with respect to p, which has no floating number",
            'The spec of a number reads "float64[]", that of a vector "float64[n]".',
        ),
        (
            lambda: sg.grad(lambda p, b: np.sum(p + b)).source("float64[n]", ","),
            DTypeError,
            "',' is not a number",
            "Convert it before: float(text), np.array(...).",
        ),
        (
            lambda: sg.grad(lambda p, b: np.sum(p + b)).source("float64[n]", "float"),
            DTypeError,
            "'float' is not a number",
            'The spec of a number reads "float[]", that of a vector "float[n]".',
        ),
        (
            lambda: sg.grad(branches)(1.0, optimize=0),
            ArgumentError,
            "branches_grad: got an unexpected keyword argument 'optimize'",
            "It takes (x). optimize= is an option of the transform, sg.grad(f, optimize=...).",
        ),
        (
            lambda: sg.spec((3,)),
            ArgumentError,
            "(3,) is not a text",
            'Write a dtype and sizes, such as "float64[n, 3]".',
        ),
        (lambda: sg.spec("float64[-1]"), ArgumentError, "the size '-1' is negative", "A size is 0 or more."),
        (lambda: sg.grad(3), ArgumentError, "3 is not a function", "Give a function of arrays."),
        (lambda: sg.compile(None), ArgumentError, "None is not a function", "Give a function of arrays."),
        (
            lambda: sg.grad(branches, 1.5),
            ArgumentError,
            "argnums=1.5",
            "It is a number or a tuple of numbers; names go into wrt=.",
        ),
        (
            lambda: sg.grad(branches, "x"),
            ArgumentError,
            "argnums='x'",
            "It is a number or a tuple of numbers; names go into wrt=.",
        ),
        (
            lambda: sg.grad(branches, wrt=0),
            ArgumentError,
            "wrt=0",
            "It is a name or a list of names; numbers go into argnums=.",
        ),
        (
            lambda: sg.grad(lambda x: x, 1)(1.0),
            ArgumentError,
            "argnums=1, but <lambda> was called with 1 positional argument",
            "For an argument passed by keyword give its name: wrt=.",
        ),
        (
            lambda: sg.grad(lambda x: x, wrt="q")(1.0),
            ArgumentError,
            "wrt='q': no argument and no value of the function has that name",
            "There is 'x'. Name one: q = symgrad.name(..., \"q\").",
        ),
        (
            lambda: sg.grad(lambda x: sg.name(x, "q") * sg.name(x, "q"), wrt="q")(1.0),
            ArgumentError,
            "wrt='q': 2 values of the function have that name",
            "Give each a name of its own; of a loop or a branch name the result.",
        ),
        (lambda: sg.jacobian(np.sin, mode="x"), ArgumentError, "mode='x'", 'It is "auto", "rev" or "fwd".'),
        (
            lambda: sg.grad(lambda x: x, has_aux=True)(1.0),
            ArgumentError,
            "has_aux=True, but the function returned float64[]",
            "Return a pair: value, aux.",
        ),
        (
            lambda: sg.grad(lambda x, y: x, disconnected="foo"),
            ArgumentError,
            "disconnected='foo'",
            'It is "zero" or "raise".',
        ),
        (
            lambda: sg.jvp(np.sin, (1.0,), (1.0, 2.0)),
            ArgumentError,
            "jvp: the number of primals is 1, that of tangents 2",
            "Give one tangent for each primal.",
        ),
        (
            lambda: sg.jvp(np.sin, (1.0,), (None,)),
            DTypeError,
            "a tangent for float64[] is None",
            "Give an array of that shape and dtype.",
        ),
        (
            lambda: sg.vjp(np.sin, X)[1](None),
            DTypeError,
            "a cotangent for float64[3] is None",
            "Give an array of that shape and dtype.",
        ),
        (
            lambda: sg.jvp(lambda d: d["a"], ({"a": 1.0},), (1.0,)),
            ArgumentError,
            "the tangent is *, the argument is {'a': *}",
            "Give it the same structure.",
        ),
        (
            lambda: sg.jvp(lambda x: x, (X,), (1.0,)),
            ShapeError,
            "a tangent of shape () for float64[3]",
            "Give one of the same shape: np.broadcast_to(x, shape).",
        ),
        (
            lambda: sg.vjp(lambda x: x, X)[1](np.ones(2)),
            ShapeError,
            "a cotangent of shape (2,) for float64[3]",
            "Give one of the same shape: np.broadcast_to(x, shape).",
        ),
        (
            lambda: sg.vjp(lambda x: x, X)[1]("a"),
            DTypeError,
            "a cotangent for float64[3] is a str",
            "Give an array of that shape and dtype.",
        ),
        (
            lambda: sg.vjp(lambda x: (x, x * 2), X)[1](X),
            ArgumentError,
            "vjp: the cotangent is *, the result is (*, *)",
            "Give it the same structure.",
        ),
        (
            lambda: sg.elementwise_grad(lambda x: np.sum(x))(X),
            ShapeError,
            "elementwise_grad needs an elementwise function, <lambda> returned float64[] for x, which is float64[3]",
            "For a function that is not elementwise use jacobian.",
        ),
        (
            lambda: sg.hvp(lambda x: np.sum(x**2))(X),
            ArgumentError,
            "function_hvp: missing a required argument: 'vector'",
            "It takes (x, vector).",
        ),
        (
            lambda: sg.hvp(lambda x: np.sum(x**2))(X, 1.0),
            ShapeError,
            "a tangent of shape () for float64[3]",
            "Give one of the same shape: np.broadcast_to(x, shape).",
        ),
        (
            lambda: sg.jacobian(lambda x: (x, "text"))(X),
            DTypeError,
            "jacobian: no derivative of a result of <lambda>, which is a str",
            "Return arrays.",
        ),
        (lambda: sg.name(X, "a b"), ArgumentError, "'a b' is not a Python name", 'Write a name such as "h".'),
    ],
)
def test_wrong_calls(call, error, fact, instead):
    says(call, error, fact, instead)


def test_a_result_that_may_be_none_names_the_branch():
    def f(x):
        y = None
        if x[0] > 0:  # may be none
            y = x[0]
        return y

    says(
        lambda: sg.grad(f)(X),
        UnsupportedError,
        "the result is None or float64[], depending on traced values",
        "Return a number in both cases: np.nan.",
        "may be none",
    )


def test_the_message_has_three_parts():
    found = raised(lambda: sg.grad(assigns)(X), WriteError, "assign")
    assert str(found) == (
        "x is an argument: writing into it would change the caller's array\n"
        f"  at test_errors.py:{line_of('assign')}: x[0] = 1  # assign\n"
        "  Write into a copy: x = x.copy()."
    )


def test_errors_are_those_that_python_and_numpy_would_raise():
    assert issubclass(ShapeError, ValueError) and issubclass(DTypeError, TypeError)
    assert issubclass(ConcreteValueError, TypeError) and issubclass(ArgumentError, TypeError)
    assert issubclass(WriteError, ValueError) and issubclass(UnsupportedError, TypeError)


def test_an_index_out_of_bounds_is_an_index_error():
    def item_or_first(x, index):
        try:
            return x[index] ** 2
        except IndexError:
            return x[0] ** 2

    for index in (5, (0, 0), np.array([1, 7])):
        found = sg.grad(partial(item_or_first, index=index))(X)
        np.testing.assert_array_equal(found, sg.grad(lambda x: x[0] ** 2)(X))
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        sg.grad(lambda x: x[5])(X)


def test_errors_of_the_user_pass_through():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sg.grad(f)(1.0)
    with pytest.raises(ZeroDivisionError):
        sg.grad(lambda x: x * (1 / 0))(1.0)


def test_a_failed_trace_leaves_nothing_behind():
    f = sg.grad(lambda x, n: x[n])
    with pytest.raises(ShapeError):
        f(X, 5)
    np.testing.assert_array_equal(f(X, 1), [0, 1, 0])
    from symgrad.core.graph import tracing

    assert tracing.get() is None


# ---- the user's line, and what it calls


def adds_ones(x):
    return x + np.ones(4)  # inner


def calls_a_helper(x):
    return np.sum(adds_ones(x))  # outer


def test_the_outermost_line_comes_first_and_then_the_one_that_failed():
    found = raised(lambda: sg.grad(calls_a_helper)(X), ShapeError, "outer")
    assert str(found).splitlines()[1:3] == [
        f"  at test_errors.py:{line_of('outer')}: return np.sum(adds_ones(x))  # outer",
        f"  in adds_ones: test_errors.py:{line_of('inner')}: return x + np.ones(4)  # inner",
    ]


def brackets(x):
    optimize = pytest.importorskip("scipy.optimize")
    return optimize.bracket(lambda y: y * x)[0]  # library


def test_a_line_of_a_library_goes_under_the_function_that_is_called():
    found = raised(lambda: sg.grad(brackets)(2.0), ConcreteValueError, "library")
    (call,) = found.calls
    assert call.function == "scipy.optimize.bracket"
    assert "  in scipy.optimize.bracket: _optimize.py:" in str(found)
    assert found.instead == (
        "scipy.optimize.bracket asks for values: write it with NumPy's functions, or give it to symgrad.operator."
    )


@pytest.mark.parametrize(
    ("module", "call", "instead"),
    [
        ("integrate", lambda m, x: m.quad(lambda z: np.exp(-x * z), 0, 1)[0], "sg.quad(f, a, b)"),
        ("optimize", lambda m, x: m.brentq(lambda z: z**2 - x, 0, 10), "sg.root(f, x0)"),
        ("optimize", lambda m, x: m.minimize(lambda z: np.sum((z - x) ** 2), np.zeros(1)).x[0], "sg.minimize(f, x0)"),
    ],
)
def test_functions_that_symgrad_has_itself_are_named(module, call, instead):
    module = pytest.importorskip(f"scipy.{module}")
    with pytest.raises(ConcreteValueError) as info:
        sg.grad(lambda x: call(module, x))(2.0)
    assert info.value.instead.endswith(f" asks for values: write {instead}, which has a derivative.")


def uniform(x):
    return np.random.default_rng(0).uniform(0, x[0])


def enumerated(x):
    return sum(v for _, v in np.ndenumerate(x))


def joined(x):
    return np.concatenate(x, x)


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (uniform, "low + (high - low) * rng.random(n)."),
        (enumerated, "Write for i in np.ndindex(x.shape), and x[i]."),
        (joined, ("np.concatenate takes (arrays, /, axis=0, ", "numpy.concatenate takes no traced value")),
    ],
)
def test_what_numpys_functions_are_given(f, instead):
    with pytest.raises((ConcreteValueError, ScalarError)) as info:
        sg.grad(f)(X)
    assert info.value.instead.endswith(instead) or info.value.instead.startswith(instead)


def test_an_unknown_keyword_is_named_before_a_missing_argument():
    with pytest.raises(ArgumentError, match=r"got an unexpected keyword argument 'yy'\n") as info:
        sg.grad(lambda x, y: x * y)(1.0, yy=2.0)
    assert info.value.instead == "It takes (x, y)."
    program = sg.compile(lambda x, y: x * y).compile(1.0, 2.0)
    says(
        lambda: program(1.0, yy=2.0),
        ArgumentError,
        "got an unexpected keyword argument 'yy'",
        "The program takes (x, y).",
    )


def test_functions_that_a_library_wraps_go_under_their_own_name():
    stats = pytest.importorskip("scipy.stats")

    def f(x):
        return stats.trim_mean(x, 0.1)  # wrapped

    found = raised(lambda: sg.grad(f)(X), ConcreteValueError, "wrapped")
    assert [call.function for call in found.calls] == ["scipy.stats.trim_mean"]


def test_refusals_in_a_library_are_about_the_function_that_is_called():
    optimize, signal = pytest.importorskip("scipy.optimize"), pytest.importorskip("scipy.signal")
    found = raised(lambda: sg.grad(lambda y: optimize.curve_fit(lambda t, a: a * t, X, y)[0][0])(X), UnsupportedError)
    assert found.instead == "Write scipy.optimize.curve_fit with NumPy's functions, or give it to symgrad.operator."
    with pytest.raises(TypeError, match="Variable") as info:
        sg.grad(lambda x: x[signal.find_peaks(x)[0][0]])(X)
    assert "compiled code of scipy" in info.value.__notes__[-1]


def test_a_library_that_is_traced_itself_is_the_users():
    optimize = pytest.importorskip("scipy.optimize")
    with pytest.raises(ConcreteValueError) as info:
        sg.grad(lambda x, y: x, 0)(1.0, 2.0)
        sg.compile(optimize.bracket)(adds_ones, 1.0, 2.0)
    assert info.value.where.file.endswith("_optimize.py")
    assert "np.where" in info.value.instead


def test_lines_of_source_are_the_users_where_a_library_computes():
    optimize = pytest.importorskip("scipy.optimize")

    def f(x):
        return 2 * optimize.rosen(x)  # rosen

    for level in (0, 1, 2):
        source = sg.grad(f, optimize=level).source(X)
        assert f"test_errors.py:{line_of('rosen')}  return 2 * optimize.rosen(x)" in source
        assert "_optimize.py" not in source
    assert "_optimize.py" in sg.grad(optimize.rosen).source(X)


# ---- attributes, and what there is


@pytest.mark.parametrize(
    ("use", "error", "fact", "instead"),
    [
        (
            lambda x: x.cumsun(),
            UnknownAttributeError,
            "a traced array has no attribute .cumsun, as an array of NumPy has none",
            "Write .cumsum.",
        ),
        (
            lambda x: x.values,
            UnknownAttributeError,
            "a traced array has no attribute .values, as an array of NumPy has none",
            "Leave .values out: x is an array already.",
        ),
        (
            lambda x: x.tobytes(),
            UnsupportedError,
            "the array attribute .tobytes is not supported: a traced array has no memory",
            "Use it on a result of the compiled program.",
        ),
        *[
            (
                use,
                UnknownAttributeError,
                f"a traced array has no attribute .{name}, as an array of NumPy has none",
                instead,
            )
            for name, use, instead in [
                ("detach", lambda x: x.detach(), "Write sg.stop_gradient(x)."),
                (
                    "backward",
                    lambda x: x.backward(),
                    "Write sg.grad(f)(x): a derivative is a function, and no array holds one.",
                ),
                ("relu", lambda x: x.relu(), "Write np.maximum(x, 0)."),
                ("exp", lambda x: x.exp(), "Write np.exp(x)."),
                ("unsqueeze", lambda x: x.unsqueeze(0), "Write np.expand_dims(x, axis), or x[:, None]."),
                (
                    "at",
                    lambda x: x.at[0].set(1.0),
                    "Write into a copy: y = x.copy(); y[i] = value, or y[i] += value.",
                ),
                (
                    "block_until_ready",
                    lambda x: x.block_until_ready(),
                    "Leave .block_until_ready out: x is there when the next line runs.",
                ),
                ("nothing_like_it", lambda x: x.nothing_like_it, ""),
            ]
        ],
        (
            lambda x: x.view(-1, 1),
            ArgumentError,
            "x.view takes a dtype, and no shape",
            "Write x.reshape(shape).",
        ),
        (
            lambda x: x.item(),
            ArgumentError,
            "x.item() of 3 numbers",
            "Say which: x.item(i), or x[i].",
        ),
        (
            lambda x: setattr(x, "shape", (3, 1)),
            UnsupportedError,
            "the shape of a traced array cannot be changed in place",
            "Write x = x.reshape(shape).",
        ),
        (
            lambda x: x[: 3 / 2],
            ArgumentError,
            "a slice bound is 1.5, not an integer",
            "Write integers: x[: n // 2], x[: int(k)].",
        ),
        (
            lambda x: x.astype(),
            ArgumentError,
            "x.astype: missing a required argument: 'dtype'",
            "It takes (dtype: 'Any', order: 'str' = 'K', casting: 'str' = 'unsafe', subok: 'bool' = True, "
            "copy: 'bool' = True) -> 'Variable'.",
        ),
        (
            lambda x: x.reshape(2.5),
            UnsupportedError,
            None,
            "It takes (*sizes: 'Any', order: 'str' = 'C', copy: 'bool | None' = None) -> 'Variable'.",
        ),
    ],
)
def test_attributes_and_methods(use, error, fact, instead):
    found = raised(lambda: sg.compile(lambda x: [x, use(x)][0])(X), error)
    assert fact is None or found.fact == fact
    assert found.instead == instead


def test_an_unknown_attribute_is_one_for_python():
    assert sg.compile(lambda x: x if hasattr(x, "values") else 2 * x)(1.0) == 2.0


PARAMS = {"W": X, "b": 2.0, "layers": [X, X]}


@pytest.mark.parametrize(
    ("wrt", "first"),
    [
        ("p.w", "p.W"),
        ("W", "p.W"),
        ("p.layer", "p.layers"),
        ("p.layers.2", "p.layers."),
        ("params", ""),
        ("hid", ""),
    ],
)
def test_wrt_lists_what_there_is_the_nearest_first(wrt, first):
    def f(p):
        return np.sum(sg.name(p["W"] * p["b"], "h")) + np.sum(p["layers"][0])

    found = raised(lambda: sg.grad(f, wrt=wrt)(PARAMS), ArgumentError)
    assert found.fact == f"wrt={wrt!r}: no argument and no value of the function has that name"
    listed = found.instead.partition("There is ")[2].partition(". Name one")[0]
    assert set(eval(f"({listed})")) == {"p", "p.W", "p.b", "p.layers", "p.layers.0", "p.layers.1", "h"}
    assert listed.startswith(f"'{first}")


# ---- what transforms are given


def doubles(x):
    return x * 2


@pytest.mark.parametrize("what", ["grad", "value_and_grad", "hessian"])
def test_the_function_without_a_scalar_result_is_named_with_its_line(what):
    found = raised(lambda: getattr(sg, what)(doubles)(X), ShapeError)
    assert found.fact == f"{what} needs a function with a scalar result, doubles returned float64[3]"
    assert found.where.text == "def doubles(x):"
    assert ("jacobian(jacobian(f))" in found.instead) == (what == "hessian")


def test_numbers_that_a_mask_selects_are_no_result():
    def f(x):
        return x[x > 1]

    for what in (sg.elementwise_grad, sg.grad, sg.jacobian):
        found = raised(lambda what=what: what(f)(X), SymgradError)
        assert "the numbers that a traced mask selects" in found.fact
        assert found.instead == "Write np.where(mask, x, 0), which has a number at every place."


CONVERT = 'Pass x.astype("float64"), or call the Function, which compiles for what it is given.'


@pytest.mark.parametrize(
    ("args", "fact", "instead"),
    [
        (([1.0, 2.0, 3.0],), "x is a list of 3, the program was compiled for float64[3]", "Pass np.array(x)."),
        (((1.0, 2.0),), "x is a tuple of 2, the program was compiled for float64[3]", "Pass np.array(x)."),
        (
            ({"a": X},),
            "x is {'a': *}, the program was compiled for *, where * is an array or a number",
            ANOTHER,
        ),
        ((X.astype("f4"),), "x is float32[3], the program was compiled for float64[3]", CONVERT),
        ((X * 1j,), "x is complex128[3], the program was compiled for float64[3]", ANOTHER),
        ((None,), "x is None, the program was compiled for float64[3]", "Pass an array of numbers."),
        (("x",), "x is a str, the program was compiled for float64[3]", "Pass an array of numbers."),
        (({1.0},), "x is a set, the program was compiled for float64[3]", "Pass an array of numbers."),
        ((), "missing a required argument: 'x'", "The program takes (x)."),
        ((X, X), "too many positional arguments", "The program takes (x)."),
    ],
)
def test_a_program_says_what_it_was_compiled_for(args, fact, instead):
    program = sg.compile(doubles).compile(X)
    says(lambda: program(*args), ArgumentError, fact, instead)


@pytest.mark.parametrize("given", ["float64", "flaot64", np.float64, np.dtype("float64")])
def test_a_dtype_where_a_spec_is_meant_is_named_in_a_note(given):
    for use in (sg.compile(np.sin).compile, sg.compile(np.sin).trace):
        with pytest.raises(TypeError) as info:
            use(given)
        assert info.value.__notes__ == [
            f'  x is {given!r}. The spec of a number reads "float64[]", that of a vector "float64[n]".'
        ]
    converts = sg.compile(lambda x, dtype: x.astype(dtype))
    assert converts.compile("float64[n]", "float32")(X, "float32").dtype == np.float32


def test_what_a_traced_mask_selects_is_no_result():
    found = raised(lambda: sg.compile(lambda x: {"kept": x[x > 0]})(np.ones(3)), UnsupportedError)
    assert found.fact.startswith("indexing with a traced boolean mask") and "np.where(mask, x, 0)" in found.instead


def test_an_empty_variable_is_one_that_is_not_set():
    assert of_environment({"SYMGRAD_TARGET": ""}) == of_environment({})
    assert of_environment({"SYMGRAD_TARGET": "c"}).target == "c"
    with pytest.raises(ArgumentError, match="SYMGRAD_TARGET=rust is unknown"):
        of_environment({"SYMGRAD_TARGET": "rust"})


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (lambda x: x & 1, "Convert the inputs first: x.astype(int); of conditions write (x > 0) & (y > 0)."),
        (lambda x: np.floor(x + 1j).real, "Write it for a real number: z.real, np.abs(z)."),
        (lambda x: (x > 0) - (x < 0), "Convert the inputs first: x.astype(float)."),
    ],
)
def test_what_a_ufunc_takes_instead(f, instead):
    assert raised(lambda: sg.grad(lambda x: np.sum(f(x)))(X), DTypeError).instead == instead


def test_errors_of_programs_name_the_users_line():
    def pick(x, k):
        y = np.sin(x)
        return y[k]  # picked

    compiled = sg.compile(pick)
    for _ in range(2):  # later calls go another way
        with pytest.raises(IndexError) as found:
            compiled(X, np.int64(7))
        assert found.value.__notes__ == [f"  at test_errors.py:{line_of('picked')}: return y[k]  # picked"]
        compiled(X, np.int64(1))


def test_a_number_on_one_side_of_a_branch_gets_the_shape_of_the_other():
    of = lambda zero: sg.grad(lambda x: np.sum(x / x[0] if x[0] > 0 else zero(x)) + np.sum(x))
    error = raised(lambda: of(lambda x: 0.0)(X), ShapeError)
    assert (
        error.instead
        == "Write np.full(np.shape(x), 0.0) instead of the number, where x has the shape of the other branch."
    )
    np.testing.assert_allclose(of(lambda x: np.full(np.shape(x), 0.0))(-np.abs(X)), np.ones(X.shape))


def test_the_result_of_a_comprehension_is_called_that():
    says_of = raised(
        lambda: sg.grad(lambda x: sum({i: y for i, y in enumerate(x) if y > 1}.values()))(X), UnsupportedError
    )
    assert says_of.fact.startswith("the result of a comprehension, a dict, has different items")
