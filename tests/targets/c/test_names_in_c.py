"""The user's names in generated C: none is a word, a macro or a function that is another's there."""

import keyword
import linecache
import re
import subprocess

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.text import not_called
from symgrad.targets.c.extension import API, ARRAYS
from symgrad.targets.c.library import INCLUDES
from symgrad.targets.c.names import LINKED, TAKEN, c_word
from tests.targets.c.test_c_files import COMPILER, call, needs_a_compiler, shared

BODY = """
    grown = []
    while x > 0.1:
        x = x * 0.7 * np.sin(x + row[1])
        grown.append(x)
    table = np.exp(np.sin(wide)) * row
    total = np.sum(table, axis=0) @ row + np.sum(wide[rows] ** 2) + np.sum(np.array(grown) ** 2)"""
OTHERS = {*re.findall(r"\w+", BODY), "n", "m", "k", "range", "map", "min", "max", "_", *keyword.kwlist}
SPECS = ("float64[]", "float64[n]", "float64[m, n]", "int64[k]")
AT_ONCE = 100  # names in a program


def program(words):
    """Return a function whose arguments and values have these names, beside those of the body."""
    lines = [f"def f(x, row, wide, rows, {', '.join(words)}):{BODY}"]
    lines += [f"    {w} = {w} * x\n    total = total + np.sum({w} * {w})" for w in words]
    source = "\n".join([*lines, "    return total"])
    linecache.cache["<names>"] = (len(source), None, source.splitlines(True), "<names>")
    scope = {"np": np}
    exec(compile(source, "<names>", "exec"), scope)
    return scope["f"]


def specs(words):
    """Return the specs of the arguments; each of these words is what an argument and its size are called."""
    return (*SPECS, *(f"float64[{w}]" for w in words))


def arguments(words):
    rng = np.random.default_rng(1)
    numbers = [rng.normal(size=2) for _ in words]
    return (0.5, rng.normal(size=3), rng.normal(size=(4, 3)), np.array([0, 2, 2]), *numbers)


@pytest.fixture(scope="module")
def words():
    """The names to try: words of C and C++, of systems, and all that generated C has beside the user's names."""
    compiled = sg.value_and_grad(program(["last"]), wrt=("row", "wide"), target="c").compile(*specs(["last"]))
    text = "\n".join([compiled.source.native, compiled.source(target="c"), API, ARRAYS])
    ours = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"/\*.*?\*/|\"[^\"]*\"", "", text, flags=re.DOTALL)))
    more = {"given_", "double_", "double__", "NULL", "INT64_MIN", "M_PI", "_Complex", "__LINE__", "naïve", "F_H"}
    return sorted((ours | TAKEN | LINKED | more) - OTHERS)


@pytest.fixture(scope="module")
def programs(words):
    """Programs of these names, compiled without optimisation, each with its function and arguments.

    They have all names that are written as they are, and every fourth of those that get an underscore: nothing of
    generated C has one at its end.
    """
    renamed = [word for word in words if c_word(word) != word]
    words, found = sorted({*words} - {*renamed} | {*renamed[::4]}), []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("SYMGRAD_CFLAGS", "-O0")
        for k in range(0, len(words), AT_ONCE):
            some = words[k : k + AT_ONCE]
            f = program(some)
            f.__name__ = f"f{k}" if k else "f"
            found.append((some, f, arguments(some), sg.compile(f, target="c").compile(*specs(some))))
    return found


@pytest.mark.slow
@needs_a_compiler
def test_arguments_values_and_sizes_of_any_name(programs):
    for _, f, args, compiled in programs:
        np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12)


@pytest.mark.slow
@needs_a_compiler
def test_plain_functions_and_headers_with_names_of_any_kind(programs, tmp_path):
    for some, f, args, compiled in programs:
        path = compiled.save(tmp_path / f"part_{f.__name__}.c")
        sizes = {"n": 3, "m": 4, "k": 3}
        in_order = [sizes.get(name, 2) for name in sorted([*sizes, *map(not_called, some)])]
        code, (found,) = call(shared(path, "-O0"), f.__name__, in_order, map(np.asarray, args), [()])
        assert code == 0
        np.testing.assert_allclose(found, f(*args), rtol=1e-12)
    headers = "".join(f'#include "{path.name}"\n' for path in sorted(tmp_path.glob("*.h")))
    (tmp_path / "main.cpp").write_text("#include <cmath>\n#include <cstdlib>\n" + headers)
    for standard in ("c++11", "c++20"):
        command = [*COMPILER.command, "-x", "c++", f"-std={standard}", "-fsyntax-only", str(tmp_path / "main.cpp")]
        subprocess.run(command, check=True)


@needs_a_compiler
@pytest.mark.parametrize("name", ["double", "main", "exp", "index", "f_near", "SG", "size", "size_near"])
def test_functions_of_any_name(name, tmp_path):
    scope = {"np": np}
    exec(f"def {name}({name}, y):\n    return np.sum(np.sin({name}) * y)", scope)
    path = sg.compile(scope[name]).compile("float64[size]", "float64[]").save(tmp_path / "model.c")
    written = re.search(r"^int (\w+)\(", path.with_suffix(".h").read_text(), re.MULTILINE)[1]
    assert written.rstrip("_") == name
    args = (np.array([0.5, 1.5]), np.array(2.0))
    code, (found,) = call(shared(path), written, [2], args, [()])
    assert code == 0
    np.testing.assert_allclose(found, scope[name](*args), rtol=1e-12)


def macros(command, tmp_path):
    """Return the macros without arguments that a compiler and the headers of generated C define."""
    (tmp_path / "headers.c").write_text(f"{INCLUDES}\n#include <time.h>\n")
    run = subprocess.run([*command, "-dM", "-E", tmp_path / "headers.c"], check=True, capture_output=True, text=True)
    return re.findall(r"^#define (\w+)(?!\w|\()", run.stdout, re.MULTILINE)


@needs_a_compiler
@pytest.mark.parametrize("standard", ["c11", "gnu17"])
def test_no_name_is_a_macro(standard, tmp_path):
    found = macros([*COMPILER.command, f"-std={standard}"], tmp_path)
    assert "NULL" in found and "INFINITY" in found
    assert not [name for name in found if c_word(name) == name]


def test_no_name_of_generated_c_has_an_underscore_at_its_end(words):
    assert [word for word in words if word.endswith("_") and c_word(word) == word] == ["given_"]  # none of its own


def test_names_that_differ_are_written_differently(words):
    names = {w + end for w in words for end in ("", "_", "__")}
    for is_function in (False, True):
        assert len({c_word(name, is_function) for name in names}) == len(names)


def filter_of(observations, gain):
    level, slope = 0.0, {"up": 0.1}
    for step in range(len(observations)):
        if observations[step] > level:
            slope["up"] = slope["up"] + gain["a b"]
        level = np.tanh(level + slope["up"] * observations[step])
    return level


def test_loops_and_branches_have_the_names_of_the_user():
    source = sg.value_and_grad(filter_of).source("float64[n]", {"a b": "float64[]"}, target="c")
    words = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)))
    assert {"observations", "a_b", "level", "step"} <= words
    assert not [word for word in words if re.fullmatch(r"x\d+(_\d+)?", word)]
