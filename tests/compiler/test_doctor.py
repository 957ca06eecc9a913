"""The line that makes a NaN or an infinity is the one that `debug` and the error of ``check_nan=True`` name."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.special

import symgrad as sg
from symgrad.compiler.remedies import REMEDIES, SLOPES
from symgrad.errors import ArgumentError, NonFiniteError

# ---- ten classic failures: the line that fails says so


def log_of_zero(x):
    p = x / np.sum(x)
    logs = np.log(p)  # fails: log(0.0) is -inf
    return -np.sum(p * logs)


def overflow_of_exp(x):
    rate = 10 * x
    growth = np.exp(rate)  # fails: exp(1000.0) overflows to inf
    return np.sum(growth * 2)


def zero_by_zero(x):
    top = x - 1
    bottom = x * x - x
    return np.sum(top / bottom)  # fails: divide(0.0, 0.0) is nan


def slope_of_sqrt(x):
    areas = 2 * x
    lengths = np.sqrt(areas)  # fails: divide(0.5, 0.0) is inf
    return np.sum(3 * lengths)


def slope_of_arccos(x):
    cosines = x[:-1] * x[1:]
    angles = np.arccos(cosines)  # fails: divide(-1, 0.0) is -inf
    return np.sum(angles)


def slope_of_power(x):
    y = 2 * x
    roots = y**0.5  # fails: (0.0, -0.5) is inf
    return np.sum(roots)


def norm_at_zero(x):
    differences = x[1:] - x[:-1]
    total = np.sum(differences**2)
    length = np.sqrt(total)  # fails: divide(0.5, 0.0) is inf
    return 2 * length


def softmax_unshifted(x):
    top = np.exp(x)  # fails: exp(1000.0) overflows to inf
    shares = top / np.sum(top)
    return np.sum(shares**2)


def variance_that_cancels(x):
    mean = np.mean(x)
    variance = np.mean(x**2) - mean**2
    deviation = np.sqrt(variance)  # fails: is nan
    return deviation / 2


def difference_of_infinities(x):
    high = x * 1e306  # fails: multiply(1000.0, 1e+306) overflows to inf
    low = x**2 * 1e305
    return np.sum(high - low)


BAD = {
    log_of_zero: np.array([0.5, 0.0, 1.0]),
    overflow_of_exp: np.array([0.5, 100.0]),
    zero_by_zero: np.array([2.0, 1.0]),
    slope_of_sqrt: np.array([1.0, 0.0, 4.0]),
    slope_of_arccos: np.array([0.3, 1.0, 1.0]),
    slope_of_power: np.array([1.0, 0.0]),
    norm_at_zero: np.array([0.7, 0.7, 0.7]),
    softmax_unshifted: np.array([0.0, 1000.0]),
    variance_that_cancels: np.full(3, 2.7),
    difference_of_infinities: np.array([1.0, 1000.0]),
}
LEVELS = [(optimize, numerics) for optimize in (0, 1, 2) for numerics in ("stable", "ieee")]
each_failure = pytest.mark.parametrize("f", BAD, ids=lambda f: f.__name__)


def marked_line(f):
    """The line of a function that says ``# fails:``, and what it says."""
    lines, start = inspect.getsourcelines(f)
    (i,) = [i for i, line in enumerate(lines) if "# fails: " in line]
    return start + i, lines[i].partition("# fails: ")[2].strip()


def quietly(f, *args):
    with np.errstate(all="ignore"):
        return f(*args)


@each_failure
@pytest.mark.parametrize(("optimize", "numerics"), LEVELS)
def test_the_line_that_fails_is_named(f, optimize, numerics):
    program = sg.value_and_grad(f, optimize=optimize, numerics=numerics).compile(BAD[f])
    value, slope = quietly(program, BAD[f])
    found = program.debug(BAD[f])
    assert found.finite == (np.isfinite(value) and np.all(np.isfinite(slope)))
    if found.finite:  # a stable form has taken its place
        assert numerics == "stable"
        return
    line, fact = marked_line(f)
    assert (found.first.where.file, found.first.where.line) == (__file__, line), str(found)
    if numerics == "ieee":
        assert fact in found.first.fact
    assert found.first.derivative == f.__name__.startswith(("slope", "norm"))
    assert found.first.instead
    assert optimize > 0 or found.first.line in sg.value_and_grad(f, optimize=0, numerics=numerics).source(BAD[f])


@each_failure
def test_the_error_names_the_line(f):
    function = sg.value_and_grad(f, check_nan=True, numerics="ieee")
    good = np.linspace(0.2, 0.9, len(BAD[f]))
    function(good)
    with pytest.raises(NonFiniteError) as caught:
        quietly(function, BAD[f])
    line, fact = marked_line(f)
    assert f"at test_doctor.py:{line}: " in str(caught.value)
    assert fact in str(caught.value)
    assert caught.value.diagnosis.first.where.line == line
    function(good)


@each_failure
def test_a_sound_call_has_no_findings(f):
    good = np.linspace(0.2, 0.9, len(BAD[f]))
    found = sg.value_and_grad(f).compile(good).debug(good)
    assert found.finite and found.first is None
    assert str(found) == "All results are finite, and so is all on the way."


# ---- what a report says


def test_report_reads_well():
    found = sg.grad(softmax_unshifted, numerics="ieee").compile("float64[n]").debug(np.array([0.0, 1000.0]))
    assert str(found).splitlines() == [
        "np.exp(1000.0) overflows to inf at [1], in",
        "    top = np.exp(t1)  # float64[n]",
        f"  at test_doctor.py:{marked_line(softmax_unshifted)[0]}: {found.first.where.text}",
        "  Subtract the maximum: np.exp(x - np.max(x)) in numerator and denominator.",
        "It becomes nan where np.divide(inf, inf) is nan at [1], in",
        "    shares = top / t2  # float64[n]",
        f"  at test_doctor.py:{marked_line(softmax_unshifted)[0] + 1}: shares = top / np.sum(top)",
    ]
    first = found.first
    assert (first.kind, first.operator, first.index, first.value, first.operands) == (
        *("overflow", "np.exp", (1,), np.inf),
        (1000.0,),
    )
    assert found.becomes_nan.kind == "nan"


def test_what_is_left_out_is_not_named():
    def f(x):
        guarded = np.where(x > 0, np.log(x), 0.0)
        quotients = (x - 1) / (x - 1)  # the one that matters
        return np.sum(np.where(x > 0.5, guarded + quotients, 0.0))

    x = np.array([0.0, 1.0])
    found = sg.compile(f, numerics="ieee", optimize=1).compile(x).debug(x)
    assert found.first.where.text.startswith("quotients")
    x = np.array([0.0, 2.0])
    found = sg.compile(f, numerics="ieee", optimize=1).compile(x).debug(x)
    assert found.finite and found.first.where.text.startswith("guarded")
    assert str(found).endswith("It does not reach a result: all of them are finite.")


def in_a_loop(x):
    s = 0.0
    for v in x:
        a = np.where(v > 0, np.log(v), 0.0)  # left out
        s = s + a
        if v < -3:
            s = s + np.arccos(v)  # fails
    return s


@pytest.mark.parametrize("of", [np.array([1.0, -1.0, -5.0]), "float64[n]"], ids=["arrays", "specs"])  # no loop, a loop
def test_the_line_in_the_body_of_a_loop_or_a_branch_is_named(of):
    found = quietly(sg.value_and_grad(in_a_loop).compile(of).debug, np.array([1.0, -1.0, -5.0]))
    assert found.first.where.text.startswith("s = s + np.arccos(v)")
    assert found.first.fact == "np.arccos(-5.0) is nan"
    assert found.first.instead.startswith("Its argument is outside of -1 to 1")


def grows(x):
    for _ in range(30):
        square = x * x
        x = square + x
    return x


def test_an_overflow_in_a_loop_has_its_numbers():
    found = quietly(sg.grad(grows).compile(3.0).debug, 3.0)
    assert found.first.where.text == "square = x * x"
    assert found.first.kind == "overflow" and len(found.first.operands) == 2


def test_the_number_that_matters_is_named():
    def f(x, mask):
        return np.sum(np.where(mask, np.log(x), 0.0))

    x, mask = np.zeros(9), np.arange(9) == 6
    for numerics in ("stable", "ieee"):
        assert sg.compile(f, numerics=numerics).compile(x, mask).debug(x, mask).first.index == (6,)


def test_of_two_that_meet_the_first_is_named():
    def f(x):
        a = np.log(x)
        b = 1 / x
        return np.sum(a + b)

    x = np.array([1.0, 0.0])
    assert sg.compile(f).compile(x).debug(x).first.where.text == "a = np.log(x)"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_arguments_that_are_not_finite(bad):
    def f(p, y):
        return np.sum(p["w"] * np.exp(y))

    args = {"w": np.array([[1.0, bad]])}, np.array([0.5, 0.25])
    found = sg.compile(f).compile(*args).debug(*args)
    assert str(found) == f"The argument p['w'][0, 1] is {bad}."
    assert found.first is None and not found.finite
    checked = sg.compile(f, check_nan=True)
    if np.isnan(bad):
        with pytest.raises(NonFiniteError, match=r"the argument p\['w'\]\[0, 1\] is nan\n"):
            checked(*args)
    else:
        assert checked(*args) == np.inf  # what infinite arguments give may be infinite
    found = sg.compile(f).compile(*args).debug(args[0], np.array([1000.0, 0.0]))
    assert found.first.fact == "np.exp(1000.0) overflows to inf at [0]"


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (np.arccos, "Keep what goes in away from the ends, np.clip(x, -1 + eps, 1 - eps)"),
        (np.arccosh, "The slope of arccosh is infinite at 1: np.arccosh(np.maximum(x, 1 + eps))."),
        (lambda x: np.sqrt(x), "Its argument is negative: np.sqrt(np.maximum(x, 0))."),
        (lambda x: np.fmod(x, x + 2), "Divide by what is never 0: np.where(b == 0, 1, b) in place of b."),
    ],
)
def test_the_advice_is_about_what_the_function_calls(f, instead):
    transform = sg.compile if "Divide" in instead else sg.grad
    with pytest.raises(NonFiniteError) as raised:
        quietly(transform(f, check_nan=True), -2.0)
    assert raised.value.instead.startswith(instead)


def test_constants_that_are_not_finite():
    x = np.ones(2)
    found = sg.compile(lambda x: np.maximum(x, np.inf)).compile(x).debug(x)
    assert not found.finite and found.first is None
    assert str(found) == "A result is not finite since a constant of the program is not."
    with pytest.raises(
        NonFiniteError, match=r"infinity: a constant of the program is not finite\n  at test_doctor.py:"
    ):
        sg.compile(lambda x: np.maximum(x, np.inf), check_nan=True)(x)
    masked = np.array([-np.inf, -np.inf])
    found = sg.compile(lambda x: x + masked - np.max(x + masked)).compile(x).debug(x)
    assert found.first.fact.startswith("np.subtract(-inf, -inf) is nan")
    assert "finite number" in found.first.instead


KINDS = {
    "python float": (lambda x: np.log(x), 0.0, "np.log(0.0) is -inf"),
    "float32": (lambda x: np.sum(x * x), np.array([1e30], np.float32), "overflows to inf"),
    "float16": (lambda x: x.astype(np.float16), np.array([1.0, 1e6]), "at [1]"),
    "complex": (lambda x: 1j / x, np.array([1.0, 0.0]), "at [1]"),
    "product of matrices": (lambda x: (x @ x) @ x, np.full((2, 2), 1e200), "np.matmul(...) overflows to inf at [0, 0]"),
    "sum": (lambda x: np.sum(x), np.full(4, 1e308), "np.sum(...) overflows to inf"),
    "several results": (lambda x: np.linalg.slogdet(x)[1], np.zeros((2, 2)), "is -inf"),
    "logarithm of a negative": (lambda x: np.log(x), np.array([-1.0]), "np.log(-1.0) is nan"),
    "arcsine": (lambda x: np.arcsin(x), np.array([2.0]), "np.arcsin(2.0) is nan"),
    "power": (lambda x: x**1.5, np.array([-1.0]), "np.power(-1.0, 1.5) is nan"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimize", [0, 2])
def test_kinds_of_values(kind, optimize):
    f, x, fact = KINDS[kind]
    function = sg.compile(f, optimize=optimize)
    found = function.compile(x).debug(x)
    assert fact in found.first.fact
    assert found.first.where.line == inspect.getsourcelines(f)[1]
    with pytest.raises(NonFiniteError):
        quietly(sg.compile(f, check_nan=True, optimize=optimize), x)


def test_sizes_statics_and_graphs():
    def f(x, n, kind):
        return np.sum(np.log(x[: len(x) - 1] - n)) if kind == "log" else np.sum(x)

    x = np.array([3.0, 2.0, 5.0])
    function = sg.grad(f, static_argnames="kind")
    for n in (2, 1, 3):  # a number, then a symbol
        program = function.compile(x, n, "log")
        assert program.debug(x, n, "log").finite == (n == 1)
    function(x, 1, "log")
    g = sg.Graph()
    v = g.input("v", "float64[k]")
    found = sg.function([v], np.sum(1 / v)).debug(np.zeros(3))
    assert found.first.fact == "np.divide(1, 0.0) is inf at [0]"


def test_nested_transforms_blocks_and_checkpoints():
    def layer(x):
        return np.sqrt(np.abs(x))

    def f(w, X):
        return np.sum(sg.checkpoint(layer)(X @ w))

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 3))
    X[12345] = 0
    w = rng.normal(size=3)
    with pytest.raises(NonFiniteError) as caught:
        quietly(sg.grad(f, check_nan=True), w, X)
    assert caught.value.where.line == inspect.getsourcelines(layer)[1] + 1
    assert "[12345]" in str(caught.value)


# ---- the option


def test_check_nan_changes_no_result():
    x = np.array([0.3, 0.7])
    for f in (lambda x: {"a": np.sin(x), "b": [x, "text", 3]}, lambda x: (np.sum(x), x > 0.5)):
        plain, checked = sg.compile(f)(x), sg.compile(f, check_nan=True)(x)
        assert repr(plain) == repr(checked)
    with sg.options(check_nan=True), pytest.raises(NonFiniteError):
        quietly(sg.grad(slope_of_sqrt), BAD[slope_of_sqrt])
    quietly(sg.grad(slope_of_sqrt), BAD[slope_of_sqrt])
    assert sg.compile(np.sin, check_nan=True).source(x) == sg.compile(np.sin).source(x)


def test_check_nan_is_a_bool():
    with pytest.raises(ArgumentError, match="check_nan=1"):
        sg.compile(np.sin, check_nan=1)


def test_programs_that_check_pickle():
    program = sg.grad(slope_of_sqrt, check_nan=True).compile(BAD[slope_of_sqrt])
    for twin in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        with pytest.raises(NonFiniteError):
            quietly(twin, BAD[slope_of_sqrt])


def test_the_error_is_an_arithmetic_error_of_symgrad():
    assert issubclass(NonFiniteError, (sg.errors.SymgradError)) and issubclass(NonFiniteError, ArithmeticError)


def test_debug_warns_of_nothing():
    program = sg.grad(slope_of_sqrt).compile(BAD[slope_of_sqrt])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.debug(BAD[slope_of_sqrt])


def test_debug_takes_what_the_program_takes():
    program = sg.grad(slope_of_sqrt).compile("float64[n]")
    assert program.debug(x=np.array([1.0, 2.0])).finite
    with pytest.raises(ArgumentError, match=r"x is float64\[1, 2\]"):
        program.debug(np.ones((1, 2)))


# ---- the table


@pytest.mark.parametrize("text", [*SLOPES.values(), *(r.instead for rows in REMEDIES.values() for r in rows)])
def test_remedies_name_functions_that_exist(text):
    modules = {"np": np, "scipy": scipy}
    for path in re.findall(r"\b(?:np|scipy)(?:\.\w+)+", text):
        package, *names = path.split(".")
        assert callable(functools.reduce(getattr, names, modules[package]))


def guarded(f, x):
    return np.where(x > 0, f(np.where(x > 0, x, 1)), 0)


MENDED = {  # as the remedies say
    log_of_zero: lambda x: -np.sum(x * guarded(np.log, x)),
    overflow_of_exp: lambda x: np.sum(np.exp(np.minimum(10 * x, 700))),
    zero_by_zero: lambda x: np.sum(np.where(x != 1, (x - 1) / np.where(x != 1, x * x - x, 1), 0)),
    slope_of_sqrt: lambda x: np.sum(guarded(np.sqrt, 2 * x)),
    slope_of_arccos: lambda x: np.sum(np.arccos(np.clip(x[:-1] * x[1:], -1 + 1e-9, 1 - 1e-9))),
    slope_of_power: lambda x: np.sum((x + 1e-9) ** 0.5 + guarded(lambda y: y**0.5, x)),
    norm_at_zero: lambda x: np.linalg.norm(x[1:] - x[:-1]),
    softmax_unshifted: lambda x: np.sum((np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x)))) ** 2),
    variance_that_cancels: lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2) + 1e-12),
}


@pytest.mark.parametrize("f", MENDED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("numerics", ["stable", "ieee"])
def test_what_the_remedies_say_helps(f, numerics):
    sg.value_and_grad(MENDED[f], check_nan=True, numerics=numerics)(BAD[f])
