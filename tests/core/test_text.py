"""Text of the user in generated source: whatever things are called, modules have the same tokens and run rightly."""

from __future__ import annotations

import ast
import builtins
import enum
import importlib.util
import linecache
import math
import os
import random
import sys
from types import FunctionType

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad.core import saving
from symgrad.core.size_scope import Sizes
from symgrad.core.text import (
    CALLED,
    comment,
    displayed,
    identifier,
    is_name,
    key_literal,
    laid_out,
    literal,
    prose,
    visible,
    with_article,
)
from symgrad.core.tree import register
from symgrad.errors import ArgumentError
from symgrad.export.manifest import read_manifest
from symgrad.targets.numpy.names import RESERVED
from tests.folders import GOLDEN

X = np.array([0.5, 1.5, -0.25])

# ---- a generator of hostile texts

PAYLOAD = "__import__('builtins').__dict__.__setitem__('taken_over', 1)"
PIECES = [
    *("\n", "\r", "\r\n", "\f", "\v", "\0", "\t", "\\", "\u2028", "\x85", "\udcff", "\u202e", "\u2066", "\ufeff"),
    *('"', "'", '"""', "'''", "#", "{", "}", "{x}", "%s", ";", ":", ")", "]", "\\N{BULLET}", "\\x0a", "${", "//", ".."),
    *("lambda", "class", "np", "range", "x", "_", "1", "5 pipe", "ﬁ", "ñ", "²", "a·b", "𝐱", "ª", "None", "__debug__"),
    *(f"\n{PAYLOAD}\n", f'" + str({PAYLOAD}) + "', f"' + str({PAYLOAD}) + '", f'"""\n{PAYLOAD}\n"""', f"{{{PAYLOAD}}}"),
    *(f"\r{PAYLOAD}\r", f"\\\n{PAYLOAD}", f"') or {PAYLOAD} or ('", f"] = {PAYLOAD}; p['", "# -*- coding: utf-7 -*-"),
]  # fmt: skip


def hostile(seed, count):
    source = random.Random(seed)
    return ["".join(source.choices(PIECES, k=source.randint(1, 4))) for _ in range(count)]


def in_file(function, file, line, name, **names):
    """The function as if it stood in another file, whose lines are all the same, and were called otherwise."""
    lines = [f"{line}\n"] * (function.__code__.co_firstlineno + 20)
    linecache.cache[file] = (len(lines), None, lines, file)
    return FunctionType(function.__code__.replace(co_filename=file), {**globals(), **names}, name)


def program(p, mode, q):
    h = np.sin(p[KEY] * q)  # noqa: F821
    return {KEY: np.sum(h * 2), "mode": mode}  # noqa: F821


def compiled(file, line, name, key, mode):
    return sg.compile(in_file(program, file, line, name, KEY=key), optimize=1).compile({key: X}, mode, 2.0)


def skeleton(text):
    """Return the structure of a module without its names and strings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for part, value in ast.iter_fields(node):
            if isinstance(value, str) and part in ("id", "arg", "name") and value not in ("np", "float"):
                setattr(node, part, "name")
            elif isinstance(value, str) and part == "value":
                node.value = "text"
    return ast.dump(tree)


def function_in(path):
    """The first function of a module, loaded from its file."""
    specification = importlib.util.spec_from_file_location("a_saved_module", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return next(f for f in vars(module).values() if isinstance(f, FunctionType) and f.__module__ == module.__name__)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_hostile_texts_are_but_text(seed, tmp_path):
    """A thousand file names, lines, names of functions, keys and strings."""
    path = compiled("harmless.py", "line", "f", "key", "mode").save(tmp_path / "saved.py")
    wanted = skeleton(path.read_text(encoding="utf-8"))
    for i in range(50):
        file, line, name, key, mode = hostile(f"{seed} {i}", 5)
        made = compiled(file, line, name, key, mode)
        made.save(path)
        assert read_manifest(path)["arguments"] == {"p": {key: "float64[3]"}, "mode": ("static", mode), "q": "float"}
        assert skeleton(path.read_text(encoding="utf-8")) == wanted
        saved = function_in(path)
        for run in (made, saved):
            result = run({key: X}, mode, 2.0)
            assert (list(result), result["mode"]) == ([key, "mode"], mode)
            assert result[key] == pytest.approx(2 * np.sum(np.sin(X * 2.0)), rel=1e-15)
        with pytest.raises(ValueError, match="must be"):
            saved({key: X}, mode + "!", 2.0)
        del linecache.cache[file]
    assert not hasattr(builtins, "taken_over")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_cases_that_ran_as_code(level, tmp_path):
    names = ["lambda", '5" pipe', "np", "range", "a b", "a_b", "a\\", '"""', "n", "t1", "d_np"]
    p = {name: X * (i + 1) for i, name in enumerate(names)}
    made = sg.value_and_grad(lambda p, mode: sum(np.sum(np.sin(x) * x) for x in p.values()), optimize=level)
    compiled = made.compile({name: "float64[n]" for name in names}, f'a" + str({PAYLOAD}) + "\'')
    for run in (compiled, function_in(compiled.save(tmp_path / "saved.py"))):
        value, gradient = run(p, f'a" + str({PAYLOAD}) + "\'')
        assert value == pytest.approx(sum(np.sum(np.sin(x) * x) for x in p.values()), rel=1e-13)
        for name, x in p.items():
            np.testing.assert_allclose(gradient[name], np.sin(x) + x * np.cos(x), rtol=1e-13)
    assert not hasattr(builtins, "taken_over")


# ---- names

OWN = """
    accepts spec ndarray generic leaves structure type len isinstance _x0 _type __t t1 value share start stop
    buffers i j s1 rows c1 d_x x_ f_body self _ os _kept wait cache Path _constants unused f f_value_and_grad
    f_by_numpy NDArray Any __symgrad__ _selftest _numbers
""".split()


def with_parameters(first, second):
    """A function with these parameters, and tables that are constants of its module."""
    scope = {"numpy_": np, "table_": np.linspace(0, 1, 100)}
    body = f"numpy_.sum(numpy_.log(1 + numpy_.exp(numpy_.sin({first}) * {second}))) + numpy_.sum(table_ * {second})"
    exec(f"def f({first}, {second}):\n    return {body}", scope)
    return scope["f"]


@pytest.fixture(scope="module")
def usual():
    return sg.value_and_grad(with_parameters("x", "y"), (0, 1)).compile("float64[n]", 1.0)


@pytest.mark.parametrize("name", sorted({*CALLED, *OWN}))
def test_arguments_may_have_any_name(name, usual, tmp_path):
    """Whatever an argument is called, the program is the same: in blocks where it would be, checked, by keyword too."""
    made = sg.value_and_grad(with_parameters(name, "y"), (0, 1)).compile("float64[n]", 1.0)
    for part in ("_scratch(", " in range("):
        assert made.source.count(part) == usual.source.count(part) > 1
    saved = function_in(made.save(tmp_path / "saved.py"))
    expected = usual(X, 2.0)
    for run in (made, saved):
        for value, gradient in (run(X, 2.0), run(**{name: X, "y": 2.0})):
            assert value == expected[0]
            np.testing.assert_array_equal(gradient[0], expected[1][0])
            assert gradient[1] == expected[1][1]


@pytest.mark.parametrize("name", sorted({*CALLED, *OWN}))
def test_numbers_sizes_keys_and_functions_may_have_any_name(name, tmp_path):
    scope = {"numpy_": np}
    exec(f"def f({name}, y):\n    return numpy_.exp({name}) * numpy_.abs(y) - 1", scope)
    assert sg.compile(scope["f"])(0.5, -2.0) == pytest.approx(2 * math.exp(0.5) - 1)

    def sums(p, x):
        return np.sum(p[name] * x) / x.shape[0]

    sums.__name__ = name
    size = f"{name}_" if name in ("min", "max", "_") else name  # which mean something in a spec
    made = sg.compile(sums).compile({name: f"float64[{size}, 3]"}, "float64[3]")
    p = np.arange(6.0).reshape(2, 3)
    for run in (made, function_in(made.save(tmp_path / "saved.py"))):
        assert run({name: p}, X) == np.sum(p * X) / 3


def test_generated_code_calls_no_other_names():
    """Names that a body calls are in CALLED, so that no argument hides them."""
    called = set()
    for path in GOLDEN.glob("*.py"):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                called |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert {"np", "range", "_blocks"} <= called & CALLED
    others = called - {"_"}  # which is another name where an argument has it
    assert others & (set(dir(builtins)) | {"np", "math"} | {name for name in called if name.startswith("_")}) <= CALLED
    assert CALLED <= RESERVED


def test_names_that_unicode_takes_for_one():
    """Python reads "ﬁ" as "fi"."""
    assert not is_name("ﬁ")
    for refused in (
        lambda: sg.compile(lambda x: sg.name(x, "ﬁ"))(1.0),
        lambda: sg.Graph().input("ﬁ", "float64[3]"),
        lambda: Sizes().symbol("ﬁ"),
    ):
        with pytest.raises(ArgumentError, match="ﬁ"):
            refused()
    f = sg.compile(lambda p: p["ﬁ"] - 2 * p["fi"])
    assert f({"ﬁ": 5.0, "fi": 1.0}) == 3.0
    names = sg.compile(lambda x: np.sin(x) * 2, optimize=0).compile("float64[ñ]").source
    assert "ñ" in names


def test_sizes_of_any_letters_are_computed_from():
    f = sg.compile(lambda x, y: np.sum(x) + np.sum(y)).compile("float64[ñ]", "float64[2*ñ + 1]")
    assert f(np.ones(2), np.ones(5)) == 7
    with pytest.raises(ArgumentError, match="was compiled for"):
        f(np.ones(2), np.ones(4))


def test_two_sizes_of_nearly_one_name():
    f = sg.compile(lambda x, y: np.sum(x) * x.shape[0] - y.shape[0] * np.sum(y))
    made = f.compile("float64[np]", "float64[np_]")
    assert made(np.ones(2), np.ones(3)) == 4 - 9


def test_a_value_called_like_the_parts_that_nobody_uses():
    def f(x, m):
        _ = np.exp(x)
        _sign, logarithm = np.linalg.slogdet(m)
        return np.sum(_ * logarithm) + np.sum(_)

    def g(_, m):
        sign, logarithm = np.linalg.slogdet(m)  # noqa: RUF059
        return np.sum(_ * logarithm)

    m = np.array([[2.0, 1.0], [0.5, 3.0]])
    for level in (0, 1, 2):
        assert sg.compile(f, optimize=level)(X, m) == pytest.approx(f(X, m), rel=1e-14)
        assert sg.compile(g, optimize=level)(X, m) == pytest.approx(g(X, m), rel=1e-14)
    assert sg.compile(g).source(X, m).count("def ") == 1


@pytest.mark.parametrize("key", ["a.b", "1.5", "", ".", '"""', "x\n", "\udcff", "\\", "lambda", "-1", "\u2028"])
def test_parts_of_any_name_to_differentiate_by(key):
    f = sg.grad(lambda p: np.sum(np.sin(p["q"][key]) * p["q"]["other"]), wrt=f"p.q.{key}")
    p = {"q": {key: X, "other": 2.0}}
    np.testing.assert_allclose(f(p), 2 * np.cos(X))
    assert ast.get_docstring(ast.parse(f.source(p))).splitlines()[0].endswith(visible(f"to p.q.{key}."))


@pytest.mark.parametrize(("p", "path"), [({"a.b": X, "a": {"b": X}}, "p.a.b"), ({"1": X, 1: X}, "p.1")])
def test_names_of_several_parts_are_refused(p, path):
    with pytest.raises(ArgumentError, match="matches 2 parts of the arguments"):
        sg.grad(lambda p: sum(np.sum(x) for x in p.values() if not isinstance(x, dict)), wrt=path)(p)


class Colour(enum.Enum):
    RED = 1


class Shade(enum.StrEnum):
    DARK = "dark"
    evil = '"] + [__import__("os").getcwd()] + ["'

    def __repr__(self):
        return PAYLOAD


class Place(enum.IntEnum):
    FIRST = 0


@pytest.mark.parametrize("key", [*Shade, Place.FIRST, np.int64(3), np.str_("a"), True, 2.5, (1, "a"), math.inf])
def test_keys_are_written_as_what_they_equal(key):
    assert {eval(key_literal(key), {"np": np}): 1}[key] == 1
    assert sg.compile(lambda p: 2 * p[key])({key: 3.0}) == 6.0
    assert not hasattr(builtins, "taken_over")


@pytest.mark.parametrize("key", [Colour.RED, None.__class__, frozenset({1})])
def test_keys_without_a_form_in_source_are_refused(key):
    with pytest.raises(ArgumentError, match="cannot be written as Python source"):
        sg.compile(lambda p: 2 * p["p"][key])({"p": {key: 3.0}})


def test_attributes_without_a_name_are_refused():
    class Strange:
        def __init__(self, x):
            setattr(self, "a b", x)

    register(Strange, lambda s: ((getattr(s, "a b"),), None), lambda _, children: Strange(*children))
    with pytest.raises(ArgumentError, match="'a b', an attribute of Strange, is not a Python name"):
        sg.compile(lambda s: getattr(s, "a b") * 2)(Strange(1.0))


@pytest.mark.parametrize("result", [Colour.RED, np.array(["a"]), lambda x: x])
def test_results_without_a_form_in_source_are_refused(result):
    with pytest.raises(ArgumentError, match="which cannot be written as Python source"):
        sg.compile(lambda x: (x * 2, result))(1.0)


@pytest.mark.parametrize("dtype", [">f8", ">i4", "<c16", "f2", np.longdouble, ">c8"])
def test_dtypes_of_constants(dtype, tmp_path):
    table = np.array([1.5, np.nan, np.inf, -0.0] if np.dtype(dtype).kind != "i" else [1, 2, 3, 4], dtype)
    made = sg.compile(lambda x: (x[:1], table, table[1])).compile("float64[4]")
    for run in (made, function_in(made.save(tmp_path / "saved.py"))):
        _, whole, one = run(np.ones(4))
        np.testing.assert_array_equal(whole, table)
        np.testing.assert_array_equal(one, table[1])


class Reflect(str):
    def __repr__(self):
        return PAYLOAD

    __str__ = __repr__

    def __format__(self, how):
        return PAYLOAD


def test_parameters_are_written_as_what_they_are():
    for level in (0, 1, 2):
        f = sg.compile(lambda x: np.pad(x, 2, mode=Reflect("reflect")), optimize=level)
        np.testing.assert_array_equal(f(X), np.pad(X, 2, mode="reflect"))
    assert not hasattr(builtins, "taken_over")


def test_operators_of_the_user_have_parameters_and_names_of_any_text():
    counts = sg.operator(
        lambda x, text: x * len(text), name=f"\n{PAYLOAD}\n", infer=lambda x, text: x, vjp=lambda g, y, x, text: (g,)
    )
    for text in hostile("operators", 50):
        np.testing.assert_array_equal(sg.compile(lambda x, text: counts(x, text))(X, text), X * len(text))
    with pytest.raises(ArgumentError, match=r"has the parameter <object .*, which cannot be written as Python source"):
        sg.compile(lambda x: counts(x, object()))(X)
    assert not hasattr(builtins, "taken_over")


def test_values_to_feed_get_names_that_are_free():
    g = sg.Graph()
    x1 = g.input("x1", "float64[]")
    unnamed = [np.sin(x1), np.cos(x1)]
    f = sg.function([x1, *unnamed], x1 + 2 * unnamed[0] - unnamed[1])
    assert f(1.0, 2.0, 3.0) == 2.0


# ---- the functions themselves

values = st.recursive(
    st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.complex_numbers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner), st.tuples(inner, inner), st.just(())),
    max_leaves=5,
)
texts = st.one_of(st.text(), st.builds(lambda seed: hostile(seed, 1)[0], st.integers(0, 10**6)))


@pytest.mark.slow
@given(values)
def test_literals_evaluate_to_what_they_are_of(value):
    assert repr(eval(literal(value), {"np": np})) == repr(value)


@given(st.dictionaries(texts, values | st.dictionaries(st.integers(), values)), st.integers(20, 120))
def test_trees_are_laid_out_as_what_they_are(value, width):
    shown = displayed(value, "value = ")
    if shown is None:
        assert any(word in f"{value!r}" for word in ("inf", "nan", "-0"))  # which is no literal
        return
    text = laid_out(shown, width=width)
    (statement,) = ast.parse(text).body
    assert repr(ast.literal_eval(statement.value)) == repr(value)


@given(texts)
def test_texts_add_no_token(text):
    tree = ast.parse(f'"""{prose(text)}\n"""\n{comment(text)}\nx = {literal(text)}\n')
    shown, assigned = tree.body
    assert shown.value.value == f"{visible(text)}\n"
    assert assigned.value.value == text
    assert visible(text).isprintable()


@given(texts)
def test_identifiers_are_names_that_python_leaves_as_they_are(text):
    name = identifier(text)
    assert is_name(name) or f"{name}_".isidentifier()
    assert ast.parse(f"{name}_").body[0].value.id == f"{name}_"


# ---- saved modules

TABLE = np.linspace(0.0, 1.0, 100)


def tables(factor):
    table = factor * TABLE
    return sg.compile(lambda x: np.sum(table * x)).compile("float64[100]")


def test_saved_modules_replace_one_another(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "a module.of mine.py"
    for factor in (1.0, 2.0, 2.0, 3.0):
        assert tables(factor).save(str(path)) == path
        os.utime(path, (1e9, 1e9))  # all in one second, however fast the machine is
        assert len(list(tmp_path.glob("*.*"))) == 2  # constants that nothing reads any more are gone
        assert function_in(path)(np.ones(100)) == pytest.approx(50 * factor)
        assert list(tmp_path.glob("__pycache__/*"))
    sg.compile(np.sin).compile(0.0).save(path)
    assert list(tmp_path.glob("*.*")) == [path]


@pytest.mark.parametrize("before", [b"", b"x = 1\n", b'"""Notes.\n"""\n# Generated by symgrad 0.1.0.\n', b"\xff\x00"])
def test_what_symgrad_did_not_write_is_not_replaced(before, tmp_path):
    path = tmp_path / "mine.py"
    path.write_bytes(before)
    (tmp_path / "mine.npz").write_bytes(b"mine")
    with pytest.raises(ArgumentError, match=r"'mine\.py' exists, and symgrad did not write it"):
        tables(1.0).save(path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"mine.py": before, "mine.npz": b"mine"}
    tables(1.0).save(path, overwrite=True)
    assert function_in(path)(np.ones(100)) == pytest.approx(50)
    assert (tmp_path / "mine.npz").read_bytes() == b"mine"


def test_constants_of_others_are_not_replaced(tmp_path):
    path = tables(1.0).save(tmp_path / "mine.py")
    (constants,) = tmp_path.glob("*.npz")
    path.unlink()
    constants.write_bytes(b"mine")
    with pytest.raises(ArgumentError, match=r"'mine\.\w+\.npz' exists, and symgrad did not write it"):
        tables(1.0).save(path)
    assert (constants.read_bytes(), path.exists()) == (b"mine", False)
    tables(1.0).save(path, overwrite=True)
    assert function_in(path)(np.ones(100)) == pytest.approx(50)


@pytest.mark.parametrize("step", ["np.savez", "os.fsync", "os.replace"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_module_is_written_whole_or_not_at_all(step, number, tmp_path, monkeypatch):
    path = tables(1.0).save(tmp_path / "mine.py")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    place, name = (saving.os if step.startswith("os") else np), step.split(".")[1]
    calls, usual = [], getattr(place, name)

    def fails(*args, **kwargs):
        calls.append(args)
        if len(calls) == number:
            raise OSError("no space left")
        return usual(*args, **kwargs)

    monkeypatch.setattr(place, name, fails)
    if (step, number) == ("np.savez", 2):  # there is one file of constants
        tables(2.0).save(path)
        return
    with pytest.raises(OSError, match="no space left"):
        tables(2.0).save(path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert function_in(path)(np.ones(100)) == pytest.approx(50)


@pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")
def test_saved_modules_have_the_usual_permissions(tmp_path):
    tables(1.0).save(tmp_path / "mine.py")
    (tmp_path / "usual").write_text("")
    assert {p.stat().st_mode for p in tmp_path.iterdir()} == {(tmp_path / "usual").stat().st_mode}


def test_articles():
    words = ["int", "uint8", "OverflowError", "UnicodeError", "UnboundLocalError", "UserDict", "float", "list"]
    articles = [with_article(word).partition(" ")[0] for word in words]
    assert articles == ["an", "a", "an", "a", "an", "a", "a", "a"]
