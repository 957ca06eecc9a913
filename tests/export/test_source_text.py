"""Generated source as text that knows its parts."""

from __future__ import annotations

import pickle
import re
from html import unescape

import numpy as np
import pytest

import symgrad as sg
from symgrad.export.source_text import SourceText


def cost(centres, x):
    squares = np.sum((x[:, None] - centres) ** 2, axis=2)
    return np.sum(np.min(squares, axis=1))


SPECS = "float64[20, 10]", "float64[n, 10]"
COST = sg.value_and_grad(cost)


@pytest.mark.of_numpy
def test_the_source_is_a_string_and_its_program_the_function_alone():
    source = COST.source(*SPECS)
    assert isinstance(source, str) and source == COST.compile(*SPECS).emitted.text
    assert source.program in source
    assert source.program.startswith("def cost_value_and_grad(centres, x):\n")
    assert source.program.endswith("\n    return value, d_centres")
    exec(compile(source, "<source>", "exec"), {})  # whole


def test_the_program_has_its_decorators_and_the_function_that_has_its_body():
    assert sg.grad(lambda x: np.log(1 + np.exp(x))).source("float64[]", optimize=1).program.startswith("@np.errstate(")
    program = sg.grad(lambda abs: np.log(abs) * abs).source(1.0).program
    assert re.findall(r"^def (\w+)", program, re.M) == ["function_grad", "function_grad_body"]


def test_the_source_of_a_function_and_of_a_program_are_called_alike():
    compiled = COST.compile(*SPECS)
    assert compiled.source() is compiled.source
    assert compiled.source() == COST.source(*SPECS) == COST.source(*SPECS)()


@pytest.mark.usefixtures("usual_sizes")
def test_the_runtime_is_folded_where_there_is_one():
    source = COST.source(*SPECS)
    count = len(source.runtime.splitlines())
    assert count > 100 and "def _rows_of_block(" in source.runtime
    assert source.folded.endswith(f"{source.program}\n\n\n# + {count} lines of runtime")
    html = source._repr_html_()
    assert f">+ {count} lines of runtime</summary>" in html and html.count("<pre") == 2
    assert unescape(re.sub(r"<[^>]*>", "", html)).startswith(source.before_runtime)
    short = COST.source(*SPECS, optimize=1)
    assert short.runtime == "" and short.folded == short.rstrip("\n")
    assert "<details>" not in short._repr_html_()


def test_the_font_has_one_width_where_no_notebook_says_so():
    assert COST.source(*SPECS)._repr_html_().count("monospace") == 3


def test_source_pickles_and_is_that_of_a_saved_module(tmp_path):
    source = COST.source(*SPECS)
    again = pickle.loads(pickle.dumps(source))
    assert type(again) is SourceText and again == source and again.program == source.program
    saved = sg.load(COST.compile(*SPECS).save(tmp_path / "cost_grad.py"))
    assert saved.source.program.startswith("def cost_value_and_grad(\n")
    assert "def _selftest():" in saved.source.runtime


def test_a_saved_module_whose_function_was_replaced_is_all_program(tmp_path):
    path = sg.grad(np.sin).compile(0.0).save(tmp_path / "slope.py")
    path.write_text(path.read_text().replace("def sin_grad(", "def other("), encoding="utf-8")
    path.write_text(path.read_text() + "\nsin_grad = other\n", encoding="utf-8")
    source = sg.load(path).source
    assert source.program == source and source.runtime == ""


def test_a_function_explains_costs_and_profiles_itself():
    x = np.linspace(0.5, 1.5, 50)
    f = sg.grad(lambda x, k=2: np.sum(np.exp(x) ** k), static_argnames="k")
    compiled = f.compile(x, optimize=1)
    assert str(f.explain(x, optimize=1).rewrites) == str(compiled.explain().rewrites)
    assert f.cost("float64[50]", optimize=1) == compiled.cost
    assert f.profile(x, optimize=1).lines and f.profile(x, k=3).lines
    assert f.debug(np.array([1000.0]), optimize=1).first is not None
    assert {"source", "explain", "cost", "profile", "debug", "compile", "trace", "graph"} <= set(dir(f))


def test_ipython_prints_source_without_quotes():
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    assert pretty(COST.source(*SPECS)) == COST.source(*SPECS).folded
