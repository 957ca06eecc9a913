"""Programs compiled from specs: sizes that are assumed, made arrays of and asked for, and specs that are mistyped."""

import importlib.util
from contextlib import suppress

import numpy
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
import symgrad.numpy as np
from symgrad.core.shapes import broadcast_shapes, slice_indices
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import evaluate, largest, same
from symgrad.errors import ArgumentError, ConcreteValueError, ShapeError, SymbolicSizeError

RNG = np.random.default_rng(3)


def agrees(f, spec, sizes, **options):
    """A program of an array of this spec, compiled, gives what the function gives on arrays of these lengths."""
    program = sg.compile(f).compile(spec, **options)
    for n in sizes:
        x = RNG.normal(size=(n, *np.ones(3)[: spec.count(",")].astype(int)))
        np.testing.assert_allclose(program(x), f(x), rtol=1e-12)
    return program


# ---- what is assumed of sizes

SLICES = {
    "x[: n - 2]": ("n >= 2", lambda x: x[: x.shape[0] - 2]),
    "x[n - 5 :]": ("n >= 5", lambda x: x[x.shape[0] - 5 :]),
    "x[n // 2 - 1 :]": ("n >= 2", lambda x: x[x.shape[0] // 2 - 1 :]),
    "x[: 2 * n - 7]": ("n >= 4", lambda x: x[: 2 * x.shape[0] - 7]),
    "x[4 - n :]": ("n >= 5", lambda x: x[4 - x.shape[0] :]),
    "x[: n - 2 : 2] and x[: n - 4]": ("n >= 4", lambda x: np.sum(x[: x.shape[0] - 2 : 2]) * x[: x.shape[0] - 4]),
    "x[n - 3 :: -1]": ("n >= 3", lambda x: x[x.shape[0] - 3 :: -1]),
    "np.delete(x, 3)": ("n >= 4", lambda x: np.delete(x, 3)),
    "np.delete(x, -2)": ("n >= 2", lambda x: np.delete(x, -2)),
    "x[:3] + 3 numbers": ("n >= 3", lambda x: x[:3] + np.array([1.0, 2.0, 3.0])),
    "x[-3:] @ 3 numbers": ("n >= 3", lambda x: x[-3:] @ np.array([1.0, 2.0, 3.0])),
    "x[2:] * x[: n - 2]": ("n >= 2", lambda x: x[2:] * x[: x.shape[0] - 2]),
}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("level", [0, 2])
def test_what_a_slice_needs_is_assumed_and_said(name, level):
    assumed, f = SLICES[name]
    least = int(assumed[-1])
    program = agrees(f, "float64[n]", range(least, least + 4), optimize=level)
    assert program.signature.startswith(f"x: float64[n], {assumed} -> ")
    assert f"x: float64[n], {assumed} -> " in program.source
    with pytest.raises(ArgumentError, match=f"^n is {least - 1}, and must be at least {least}"):
        program(np.ones(least - 1))


@pytest.mark.parametrize(
    "f",
    [lambda x: np.diff(x), lambda x: x[2:] - 2 * x[1:-1] + x[:-2], lambda x: x[: x.shape[0] // 2], lambda x: x[-3:]],
)
def test_nothing_is_assumed_where_the_length_says_it_for_every_size(f):
    program = agrees(f, "float64[n]", range(1, 6))
    assert program.signature.startswith("x: float64[n] -> ")


def test_two_sizes():
    program = sg.compile(lambda x, y: np.sum(x[: x.shape[0] - y.shape[0]])).compile("float64[n]", "float64[k]")
    assert program.signature == "x: float64[n], y: float64[k], n >= k -> float64[]"
    assert program(np.ones(5), np.ones(2)) == 3
    with pytest.raises(ArgumentError, match=r"^n is 2, and must be at least k = 3"):
        program(np.ones(2), np.ones(3))


def test_a_saved_module_checks_what_is_assumed(tmp_path):
    program = sg.grad(lambda x: np.sum(x[: x.shape[0] - 2] ** 2)).compile("float64[n]")
    spec = importlib.util.spec_from_file_location("sliced", program.save(tmp_path / "sliced.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (run,) = (f for name, f in vars(module).items() if name.endswith("_grad"))
    np.testing.assert_array_equal(run(np.ones(3)), [2, 0, 0])
    with pytest.raises(ValueError, match=r"^n must be at least 2$"):
        run(np.ones(1))


def test_a_function_compiles_again_where_the_assumption_fails():
    f = sg.compile(lambda x: np.sum(x[: x.shape[0] - 4]) + 0 * np.sum(x))
    for n in (9, 7, 12, 3, 2, 30, 4, 1, 0, 5):
        x = RNG.normal(size=n)
        np.testing.assert_allclose(f(x), np.sum(x[: n - 4]), rtol=1e-12)
    assert f.compile("float64[n]").signature == "x: float64[n], n >= 4 -> float64[]"


def test_sizes_of_specs_are_not_negative():
    program = sg.compile(lambda x, y: x[2:] * y).compile("float64[n]", "float64[n - 2]")
    np.testing.assert_array_equal(program(np.ones(2), np.ones(0)), np.ones(0))
    assert program.signature == "x: float64[n], y: float64[n - 2] -> float64[n - 2]"


def test_the_size_at_hand_is_not_pinned_by_a_slice():
    scope = Sizes({"n": 9, "k": 4})
    n, k = scope.symbol("n"), scope.symbol("k")
    assert slice_indices(n, None, n - k, None)[3] == n - k
    assert [str(bound) for bound in scope.assumed] == ["n >= k"] and not scope.pinned
    assert str(slice_indices(n, None, n - 10, None)[3]) == "9" or scope.pinned == {"n": 9}


def test_what_cannot_be_said_by_a_bound_asks_for_the_number():
    scope = Sizes()
    n, m = scope.symbol("n"), scope.symbol("m")
    with pytest.raises(SymbolicSizeError, match="Python asked whether"):
        slice_indices(n, 5 - n * m % 7, None, None)
    with pytest.raises(ShapeError):
        broadcast_shapes((n,), (3,))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(-4, 4)), min_size=1, max_size=3), st.data()
)
def test_lengths_are_right_wherever_what_is_assumed_holds(coefficients, data):
    """Slices with bounds of random linear sizes: lengths, comparisons and extremes against the integers."""
    scope = Sizes()
    n, m = scope.symbol("n"), scope.symbol("m")
    bounds = [a * n + b * m + c for a, b, c in coefficients]
    lengths = []
    for bound in bounds:
        with suppress(SymbolicSizeError):
            lengths.append((bound, slice_indices(n, None, bound, 1)[3], slice_indices(n, bound, None, 2)[3]))
    last = largest(bounds[0], bounds[-1])
    equal = [(a, b) for a in bounds for b in bounds if same(a, b)]
    for values in ({"n": a, "m": b} for a in range(1, 12) for b in range(1, 6)):
        if not all(bound.holds(values) for bound in scope.assumed):
            continue
        for bound, upto, after in lengths:
            where = evaluate(bound, values)
            assert evaluate(upto, values) == len(range(values["n"])[:where])
            assert evaluate(after, values) == len(range(values["n"])[where::2])
        assert evaluate(last, values) == max(evaluate(bounds[0], values), evaluate(bounds[-1], values))
        assert all(evaluate(a, values) == evaluate(b, values) for a, b in equal)


# ---- specs that are mistyped


@pytest.mark.parametrize("name", ["source", "compile", "trace", "graph"])
def test_a_mistyped_spec_is_no_string_argument(name):
    door = getattr(sg.grad(lambda params, x: np.sum(params["W"] * x)), name)
    with pytest.raises(ArgumentError) as error:
        door({"W": "float64[n]"}, "flaot64[n]")
    assert error.value.fact == "x: 'flaot64[n]' is not a spec: there is no dtype 'flaot64'"
    assert error.value.instead == 'Write "float64[n]".'
    with pytest.raises(ArgumentError, match=r"^params\.W: 'float64\[2n\]' is not a spec"):
        door({"W": "float64[2n]"}, "float64[n]")


@pytest.mark.parametrize(
    "text",
    (
        "float64[n|float64(n)|float64 n|float64,n|float64{n}|float64[n)|f8(n)|np.float64[n]|Float64[n]|complx128[n]|"
        "uint65[3]|str[3]|object[n]|flaot[n]|float64[n]]|float64[n.x]|float64[]]"
    ).split("|"),
)
def test_what_looks_like_a_spec_is_one_or_refused(text):
    with pytest.raises(ArgumentError, match=r"^x: '.*' is not a (spec|size)"):
        sg.compile(lambda x: x).compile(text)


@pytest.mark.parametrize(
    "text",
    ["mean[0]", "a1[0]", "S3[k]", "f(x)", "i[0]", "ij,jk->ik", "float64", "d", "[0, 1]", "float(x)", "foo[3]", ""],
)
def test_any_other_string_is_part_of_the_program(text):
    program = sg.compile(lambda x, mode: x if mode == text else 0 * x).compile("float64[n]", text)
    np.testing.assert_array_equal(program(np.ones(2), text), np.ones(2))


def test_specs_with_commas_in_a_size():
    assert sg.spec("float64[min(3, n), 2, _]").shape == ("min(3, n)", 2, "_")
    assert (
        sg.compile(lambda x, y: x * y).compile("f8[n]", "f8[n, ]").signature
        == "x: float64[n], y: float64[n] -> float64[n]"
    )


# ---- arrays whose size is a symbol


def rows(x):
    return x.shape[0]


WINDOWS = ("bartlett", "hanning", "hamming", "blackman")
CREATED = {
    "zeros": lambda x: np.zeros(rows(x)) + x,
    "zeros of a shape": lambda x: np.zeros((2, *x.shape)) + x,
    "ones with a column": lambda x: np.hstack([np.ones((rows(x), 1)), x[:, None]]),
    "full of the size": lambda x: np.full((rows(x), 2), rows(x)),
    "eye": lambda x: np.eye(rows(x)) - x,
    "eye beside": lambda x: np.eye(rows(x), rows(x) + 1, k=1).T @ x,
    "identity": lambda x: np.identity(rows(x))[np.argsort(x)],
    "tri": lambda x: np.tri(rows(x), k=-1) @ x,
    "tril of ones": lambda x: np.tril(np.ones((rows(x), rows(x)), dtype=bool)),
    "diag": lambda x: np.diag(np.ones(rows(x) + 1), 1)[:-2, :-2] @ x,
    "arange": lambda x: np.arange(rows(x)) * x,
    "arange of floats": lambda x: np.arange(0.0, rows(x)),
    "arange back": lambda x: np.arange(2 * rows(x), rows(x), -3),
    "arange around": lambda x: np.arange(-rows(x), rows(x) + 1),
    "arange short": lambda x: np.arange(rows(x) - 2),
    "linspace": lambda x: np.linspace(0, 1, rows(x)) * x,
    "linspace without its end": lambda x: np.linspace(-1.0, 1.0, rows(x) + 1, endpoint=False),
    "logspace": lambda x: np.logspace(0, 1, rows(x)),
    "geomspace": lambda x: np.geomspace(1.0, 9.0, rows(x)),
    "geomspace without its end": lambda x: np.geomspace(-1, -3, rows(x), endpoint=False),
    "diag_indices": lambda x: np.outer(x, x)[np.diag_indices(rows(x))],
    "indices": lambda x: np.indices((rows(x), 3)),
    "indices of axes": lambda x: np.indices((rows(x), 3), dtype=float, sparse=True),
    "mgrid": lambda x: np.mgrid[: rows(x), 2 : rows(x) + 4 : 2],
    "mgrid of one axis": lambda x: np.mgrid[1 : rows(x) + 1] * x,
    "mgrid with samples": lambda x: np.mgrid[: rows(x), 0:1:3j],
    "ogrid": lambda x: np.ogrid[: rows(x), 0.0 : rows(x)],
    "fromfunction": lambda x: np.fromfunction(lambda i, j: i + 2 * j, (rows(x), rows(x))),
    "meshgrid": lambda x: np.meshgrid(np.arange(rows(x)), np.linspace(0, 1, rows(x) + 1)),
    "gathered": lambda x: np.outer(x, x)[np.arange(rows(x)), np.argsort(x)],
    "triu_indices_from": lambda x: np.triu_indices_from(np.outer(x, x), -1),
    "written": lambda x: written(x),
    "pad": lambda x: np.pad(x, (0, rows(x) - 1)),
    "smaller": lambda x: x[: np.minimum(rows(x), 3)] * np.maximum(2, rows(x)),
    **{name: lambda x, name=name: getattr(np, name)(rows(x)) * x for name in WINDOWS},
}


def written(x):
    pairs = np.zeros((rows(x), rows(x)))
    i, j = np.triu_indices(rows(x), k=1)
    pairs[i, j] = x[i] * x[j]
    return pairs


def same_everywhere(f, sizes):
    """A program from a spec gives what NumPy gives for these sizes, dtypes included."""
    programs = [sg.compile(f).compile("float64[n]", optimize=level) for level in (0, 2)]
    for n in sizes:
        x = RNG.normal(size=n)
        wants = f(x)
        for program in programs:
            for got, want in zip(as_tuple(program(x)), as_tuple(wants), strict=True):
                assert got.shape == want.shape and got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def as_tuple(y):
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize("name", CREATED)
def test_creation_from_a_symbol(name):
    same_everywhere(CREATED[name], (1, 2, 5))


@pytest.mark.parametrize("function", [np.triu_indices, np.tril_indices], ids=["triu", "tril"])
@pytest.mark.parametrize("columns", [-1, 0, 2])
def test_triangles_of_all_offsets(function, columns):
    for k in (-3, -1, 0, 1, 3):
        same_everywhere(lambda x, k=k: function(rows(x) + 1, k, rows(x) + 1 + columns), (1, 2, 3, 6))


def test_triangles_are_written_as_the_user_does():
    source = sg.compile(lambda x: x[np.triu_indices(rows(x), k=1)]).source("float64[n, n]", optimize=1)
    assert "np.triu_indices(n, k=1)" in source and "float64[n * (n - 1) // 2]" in source


def test_indices_of_numbers_stay_plain():
    kinds = []
    sg.compile(lambda x: kinds.extend(type(i) for i in np.triu_indices(3)) or x).trace("float64[n]")
    assert kinds == [numpy.ndarray] * 2


def test_what_is_made_has_no_negative_size():
    program = sg.compile(lambda x: np.ones(rows(x) - 2)).compile("float64[n]")
    assert program.signature == "x: float64[n], n >= 2 -> float64[n - 2]"
    f = sg.compile(lambda x: np.ones(rows(x) - 4) if rows(x) else x)
    for n in (7, 9):
        assert f(numpy.ones(n)).shape == (n - 4,)
    with pytest.raises(ShapeError, match=r"^a shape cannot have the negative size -1"):
        f(numpy.ones(3))


# ---- a size as an integer

INTEGERS = {
    "n // 2": lambda n: n // 2,
    "-(-n // 3)": lambda n: -(-n // 3),
    "divmod(n, 3)": lambda n: sum(divmod(n, 3)),
    "divmod(17, n)": lambda n: divmod(17, n)[1],
    "n % 2": lambda n: n % 2,
    "n ** 2": lambda n: n**2,
    "abs(2 - n)": lambda n: abs(2 - n),
    "n << 2": lambda n: n << 2,
    "n >> 1": lambda n: n >> 1,
    "np.minimum(n, 5)": lambda n: np.minimum(n, 5),
    "np.maximum(3, n)": lambda n: np.maximum(3, n),
    "np.int64(3) + n": lambda n: numpy.int64(3) + n,
    "-n + 2 * n": lambda n: -n + 2 * n,
    "~n": lambda n: ~n + 10,
    "round(n)": lambda n: round(n),
    "round(n, 2)": lambda n: round(n, 2),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_arithmetic_gives_sizes(name):
    n = Sizes().symbol("n")
    for number in range(1, 9):
        assert evaluate(INTEGERS[name](n), {"n": number}) == INTEGERS[name](number)


NUMBERS = {
    "n / 2": lambda x: x * (rows(x) / 2),
    "n / (n + 1)": lambda x: x * (rows(x) / (rows(x) + 1)),
    "n ** 0.5": lambda x: x * rows(x) ** 0.5,
    "2.0 ** n": lambda x: x * 2.0 ** rows(x),
    "n & 1": lambda x: x * (rows(x) & 1),
    "1 | n": lambda x: x * (1 | rows(x)),
    "n ^ 3": lambda x: x * (rows(x) ^ 3),
    "1 << n": lambda x: x * (1 << rows(x)),
    "np.sqrt(n)": lambda x: x * np.sqrt(rows(x)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_other_arithmetic_gives_numbers_of_the_program(name):
    same_everywhere(NUMBERS[name], (1, 3))


def test_the_text_of_a_size_is_a_key_where_it_is_known():
    def f(x):
        return {"3": x, "1": 2 * x}[f"{rows(x)}"]

    compiled = sg.compile(f)
    for n in (3, 1, 3):
        np.testing.assert_array_equal(compiled(np.ones(n)), f(np.ones(n)))
    with pytest.raises(ConcreteValueError, match="depends on the text 'n'"):
        sg.compile(f).compile("float64[n]")


# ---- derivatives of second order

SECOND = {
    "softmax regression": (lambda W, X: np.sum(np.log(np.sum(np.exp(X @ W.T), axis=1))), ["k, d", "n, d"]),
    "differences": (lambda x: np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 4), ["n"]),
    "an assumed slice": (lambda x: np.sum(np.sin(x[: rows(x) - 2]) * x[2:] ** 2), ["n"]),
    "pairs": (lambda x: np.sum(1 / (1 + np.subtract(*x[np.stack(np.triu_indices(rows(x), 1))]) ** 2)), ["n"]),
    "a determinant": (lambda A: np.linalg.slogdet(A @ A.T + np.eye(rows(A)))[1], ["n, m"]),
    "a normalised row": (
        lambda A: np.sum(A / np.sqrt(np.sum(A**2, axis=1, keepdims=True) + 1) @ np.ones((3, 1))),
        ["n, 3"],
    ),
    "two layers": (lambda W, V: np.sum(np.tanh(np.tanh(W @ V) @ V.T)), ["k, d", "d, m"]),
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("transform", [sg.hessian, lambda f: sg.jacfwd(sg.grad(f)), lambda f: sg.jacrev(sg.grad(f))])
def test_second_derivatives_from_specs(name, transform):
    f, shapes = SECOND[name]
    numbers = {"k": 2, "d": 3, "n": 5, "m": 4}
    arrays = [RNG.normal(size=[numbers.get(n) or int(n) for n in shape.split(", ")]) for shape in shapes]
    want = transform(f).compile(*arrays, optimize=0)(*arrays)
    for level in (0, 1, 2):
        program = transform(f).compile(*[f"float64[{shape}]" for shape in shapes], optimize=level)
        np.testing.assert_allclose(program(*arrays), want, rtol=1e-9, atol=1e-12)


# ---- arguments that do not fit


def test_sizes_that_must_agree_and_do_not():
    program = sg.compile(lambda params, X, y: X @ params["w"] - y).compile({"w": "f8[d]"}, "f8[n, d]", "f8[n]")
    w = {"w": np.ones(3)}
    for args, fact in [
        (
            (w, np.ones((5, 4)), np.ones(5)),
            "X is float64[5, 4], the program was compiled for float64[n, d], and params['w'] has d = 3",
        ),
        ((w, np.ones((5, 3)), np.ones(6)), "y is float64[6], the program was compiled for float64[n], and X has n = 5"),
        (
            (w, np.ones((0, 3)), np.ones(0)),
            "X is float64[0, 3], the program was compiled for float64[n, d], and n must be at least 1",
        ),
        ((w, np.ones((5, 3)), np.ones((5, 1))), "y is float64[5, 1], the program was compiled for float64[n]"),
    ]:
        with pytest.raises(ArgumentError) as error:
            program(*args)
        assert error.value.fact == fact


def test_a_size_of_zero(tmp_path):
    f = sg.value_and_grad(lambda x: np.sum(x[1:] * x[:-1]) + np.sum(np.exp(x)))
    for n in (4, 6, 0, 5, 0, 1):
        x = RNG.normal(size=n)
        value, slope = f(x)
        np.testing.assert_allclose(value, np.sum(x[1:] * x[:-1]) + np.sum(np.exp(x)))
        assert slope.shape == (n,)
    program = f.compile("float64[n]")
    with pytest.raises(ArgumentError, match=r"and n must be at least 1\n"):
        program(np.ones(0))
    scope = {}
    exec(program.save(tmp_path / "zero.py").read_text(), scope)
    (run,) = (each for name, each in scope.items() if name.endswith("_grad"))
    with pytest.raises(ValueError, match=r"^n must be at least 1$"):
        run(np.ones(0))


def test_a_bound_that_is_at_most_zero_is_taken_to_be_below():
    program = sg.compile(lambda x, y: np.sum(x[: rows(x) - rows(y)]) + np.sum(x[: rows(y) - rows(x)])).compile(
        "f8[n]", "f8[k]"
    )
    assert program.signature == "x: float64[n], y: float64[k], n >= k + 1 -> float64[]"
    x = RNG.normal(size=5)
    np.testing.assert_allclose(program(x, x[:3]), np.sum(x[:2]) + np.sum(x[:-2]))


def test_what_is_negative_by_assumption_is_no_size():
    with pytest.raises(ShapeError, match=r"^a shape cannot have the negative size 3 - n"):
        sg.compile(lambda x: np.sum(x[: rows(x) - 5]) + np.sum(np.zeros(3 - rows(x)))).compile("float64[n]")


def test_sizes_that_are_likely_zero_are_scheduled():
    program = sg.grad(lambda x: np.sum(x[-2 : 1 - rows(x)] ** 2)).compile("float64[n]")
    np.testing.assert_array_equal(program(np.ones(2)), [2, 0])


def test_no_stage_asks_a_symbol_for_its_number():
    """A slice from a symbol on, in a product: the program serves every number."""
    x, W = np.arange(24.0).reshape(8, 3), np.ones((3, 2))
    rows = sg.compile(lambda x, k: (x[k : k + 2] @ W, x[2 * k] @ W))
    for k in (1, 2, 3):
        for found, expected in zip(rows(x, k), (x[k : k + 2] @ W, x[2 * k] @ W), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert rows.compile(x, 3).program.sizes.pinned == {}
    program = sg.compile(lambda x: x[x.shape[0] - 2 :] @ W).compile("float64[n, 3]")
    np.testing.assert_array_equal(program(x), x[6:] @ W)
