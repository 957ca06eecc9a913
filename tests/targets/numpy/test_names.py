"""Names in generated source: whatever arguments are called, and what derivatives are called."""

import ast
import inspect
import math
import statistics

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval
from symgrad.core.text import CALLED
from symgrad.ops.define import OPERATORS, TABLE
from symgrad.targets.numpy import body, runtime
from tests.folders import GOLDEN

X = np.linspace(0.1, 0.9, 5)


# ---- arguments


def mentioned(tree):
    """Every name that a module gives to anything, or reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


SOURCES = [ast.parse(path.read_text("utf-8")) for path in GOLDEN.glob("*.py")]
MENTIONED = sorted(name for name in CALLED.union(*map(mentioned, SOURCES)) if name.isidentifier())


def function_of(names, spell):
    """A function of arguments of these names."""
    scope, pairs = {"numpy_": np}, zip(names, [*names[1:], names[0]], strict=True)
    terms = [f"v{i}v = {spell.format(x=x, y=y)}" for i, (x, y) in enumerate(pairs)]
    total = [f"total = total + v{i}v" for i in range(len(names))]
    exec("\n    ".join([f"def f({', '.join(names)}):", *terms, "total = 0.0", *total, "return total"]), scope)
    return scope["f"]


def anonymous(source):
    """The functions of a module but for those that pass arguments on, with numbers for names and no docstrings."""
    functions = [x for x in ast.parse(source).body if isinstance(x, ast.FunctionDef) and not hasattr(runtime, x.name)]
    names = {x.name for x in functions}
    return [_anonymous(x) for x in functions if f"{x.name}_body" not in names]


def _anonymous(function):
    numbers = dict.fromkeys(CALLED)
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
        for field in {ast.Name: ["id"], ast.arg: ["arg"], ast.FunctionDef: ["name"]}.get(type(node), ()):
            name = getattr(node, field)
            if numbers.setdefault(name, len(numbers)) is not None:
                setattr(node, field, f"v{numbers[name]}")
    return ast.unparse(function)


VECTORS, NUMBERS = "numpy_.sum(numpy_.sin({x}) * {y} ** 2)", "numpy_.exp({x}) * numpy_.tanh({y}) ** 2"


@pytest.fixture
def any_width(monkeypatch):
    """Names of other lengths make no other lines."""
    monkeypatch.setattr(body, "LONGEST", np.inf)
    monkeypatch.setattr(body, "DEEPEST", np.inf)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("spell", "given"), [(VECTORS, X), (NUMBERS, 0.5)])
def test_arguments_of_all_names_that_generated_modules_mention(level, spell, given, tiny_blocks, any_width):
    """The program is the one that it is with other names: straight, in blocks on threads, with `math`."""
    usual = [f"x{i}x" for i in range(len(MENTIONED))]
    specs = ["float64[n]" if given is X else 0.5] * len(usual)
    structures, results = [], []
    for names in (usual, MENTIONED):
        made = sg.value_and_grad(function_of(names, spell), (0, 1, len(names) - 1), optimize=level).compile(*specs)
        assert list(inspect.signature(made.run).parameters) == names
        assert ("_in_parts(share" in made.source) == (level == 2 and given is X)
        structures.append(anonymous(made.source))
        results.append(made(*[given + i / len(names) for i in range(len(names))]))
    assert structures[0] == structures[1]
    (value, gradients), (other, others) = results
    assert value == other
    for a, b in zip(gradients, others, strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_structure_is_found():
    """The comparison above can fail."""
    first, second = (
        sg.grad(function_of([name, "y"], VECTORS)).compile("float64[3]", "float64[3]").source for name in ("x", "z")
    )
    assert anonymous(first) == anonymous(second)
    assert anonymous(first.replace("np.cos", "y.cos")) != anonymous(second)


def test_a_size_may_be_called_like_an_argument(tmp_path):
    def f(x, n):
        return np.sum(x) * np.sum(n) / x.shape[0]

    made = sg.value_and_grad(f, (0, 1)).compile("float64[n]", "float64[x]")
    assert "def f_value_and_grad(x, n):" in made.source
    scope = {"__name__": "saved"}
    exec(made.save(tmp_path / "saved.py").read_text("utf-8"), scope)
    for run in (made, scope["f_value_and_grad"]):
        value, (by_x, by_n) = run(x=X, n=X[:3])
        np.testing.assert_allclose(value, np.sum(X) * np.sum(X[:3]) / 5)
        np.testing.assert_allclose(by_x, np.full(5, np.sum(X[:3]) / 5))
        np.testing.assert_allclose(by_n, np.full(3, np.sum(X) / 5))
    with pytest.raises(ValueError, match=r"x must be float64\[n\]"):
        scope["f_value_and_grad"](np.ones((2, 2)), X)


def test_an_argument_may_be_called_like_a_package(monkeypatch):
    """Functions that a plug-in's operator calls are not hidden by an argument's name."""
    monkeypatch.setitem(TABLE, statistics.fmean, None)  # and taken back
    mean = sg.operator(statistics.fmean, infer=lambda x: Aval((), x.dtype), package="statistics")
    scope = {"mean": mean}
    exec("def f(statistics):\n    return mean(statistics) * statistics", scope)
    for level in (0, 2):
        made = sg.compile(scope["f"], optimize=level).compile("float64[n]")
        np.testing.assert_allclose(made(X), np.mean(X) * X)
    assert OPERATORS.pop("statistics.fmean") is mean


def test_the_guard_asks_its_own_min_and_max():
    scope = {"numpy_": np}
    exec("def f(max, min):\n    return numpy_.sum(max) * numpy_.sum(min)", scope)
    made = sg.compile(scope["f"]).compile("float64[n]", "float64[max(n, 3)]")
    assert made(np.ones(2), np.ones(3)) == 6
    assert made.accepts(np.ones(5), np.ones(5))
    assert not made.accepts(np.ones(2), np.ones(2))


# ---- derivatives


def values_of(source, *args):
    """Return the values of a function's names when it returns."""
    tree = ast.parse(source)
    (function,) = (x for x in tree.body if isinstance(x, ast.FunctionDef))
    function.body[-1] = ast.parse("return locals()").body[0]
    scope = {"np": np}
    exec(compile(ast.fix_missing_locations(tree), "", "exec"), scope)
    return scope[function.name](*args)


@pytest.mark.parametrize("level", [0, 1])
def test_names_of_derivatives_say_what_they_are(level):
    graph = sg.Graph()
    x = graph.input("x", "float64[n]")
    h = sg.name(np.sin(x), "h")
    (d_x,) = sg.gradients(np.sum(h**3), [x])
    (d2_x,) = sg.gradients(np.sum(d_x), [x])
    found = values_of(sg.function([x], [d_x, d2_x], optimize=level).source, X)
    s, c = np.sin(X), np.cos(X)
    expected = {
        "h": s, "d_h": 3 * s**2, "d_x": 3 * s**2 * c, "h_dot": c, "d_h_2": 6 * s * c, "d2_x": 6 * s * c**2 - 3 * s**3,
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, err_msg=name)
    assert [name for name in found if name.startswith("d2_")] == ["d2_x"]


def test_the_gradient_of_a_penalty_is_a_first_derivative():
    def penalised(w, x):
        by_x = sg.grad(lambda x: np.sum(np.tanh(x @ w)))(x)
        return np.sum(by_x**2)

    source = sg.grad(penalised).source("float64[3]", "float64[n, 3]", optimize=1)
    assert "d_w = " in source
    assert "d2_w" not in source


def test_a_derivative_is_called_after_what_the_user_calls_an_argument():
    scope = {"numpy_": np}
    exec("def f(range):\n    return numpy_.sum(numpy_.sin(range) ** 2)", scope)
    for level in (0, 1, 2):
        assert "d_range = " in sg.grad(scope["f"]).source("float64[n]", optimize=level)


# ---- what is assigned to several variables


def heads(x, w):
    q, k, v = np.split(x @ w, 3, axis=-1)
    scores, scale = q @ k.T, np.exp(v)
    a, b, c = np.sin(scores), 2 * scale, scale.sum()
    d, e, f, g = np.cos(a), np.tanh(b), c * c, np.linalg.norm(w)
    whole, rest = np.divmod(x, 0.3)
    return d.sum() + e.sum() + f + g + (whole + rest).sum()


def test_variables_that_several_values_go_to_keep_their_names():
    x, w = np.linspace(0, 1, 12).reshape(4, 3), np.linspace(-1, 1, 18).reshape(3, 6)
    found = values_of(sg.compile(heads).source(x, w, optimize=0), x, w)
    expected = values_of(inspect.getsource(heads), x, w)
    assert expected.keys() <= found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, err_msg=name)


def test_items_with_branches_get_no_name_of_another():
    def f(x, positive):
        y, z = np.sin(x), np.exp(x) if positive else np.cos(x)
        return y * z

    source = sg.compile(f, optimize=0, static_argnames=["positive"]).source("float64[3]", True)
    assert "\n    y = np.exp" not in source
    assert "\n    z = np.sin" not in source


def test_what_comments_mention_is_not_imported():
    def f(x):
        return np.sum(np.sin(x) / math.sqrt(2))

    source = sg.compile(f).source("float64[3]")
    assert "math.sqrt" in source
    assert "import math" not in source


# ---- keys of dicts

KEYS = ("slope", "off set", "noise", "lambda")


def line(theta, x, y):
    params = dict(zip(KEYS, theta, strict=True))
    r = y - params["slope"] * x - params["off set"]
    return np.sum(r * r) / params["noise"] + params["lambda"] ** 2


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_numbers_of_an_array_are_called_by_the_keys_of_a_dict(target):
    """Keys that are no names leave the name of the dict."""
    slope = sg.grad(line, target=target)
    source = slope.source("float64[4]", "float64[n]", "float64[n]")
    text = source.program if target == "numpy" else source.native
    assert "slope" in text and "noise" in text and "params_3" not in text and "lambda =" not in text
    theta, x = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 1.5])
    sg.check_grads(line, (theta, x, x**2))


def test_a_name_that_a_number_had_before_stays():
    def f(theta):
        first, second = theta
        params = dict(a=first, b=second)
        return params["a"] ** 2 * np.sin(params["b"])

    source = sg.grad(f).source("float64[2]", optimize=1).program
    assert "first = theta[0]" in source and " a = " not in source
