"""What notebooks show of programs and graphs."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest

import symgrad as sg
from symgrad.show.markup import highlighted


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


LOSS, SPECS = sg.value_and_grad(loss), ("float64[d]", "float64[n, d]", "float64[n]")


def text(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_a_program_shows_its_source_in_colours(optimize):
    compiled = LOSS.compile(*SPECS, optimize=optimize)
    html = compiled._repr_html_()
    assert text(html) == compiled.source
    assert len(re.findall("<span", html)) == len(re.findall("</span", html)) > 5
    assert re.search(r"<span[^>]*keyword[^>]*>def</span> loss_value_and_grad", html)


def test_source_in_colours_is_text():
    source = 'x = "</pre><b>"  # <script> &amp;\n\n\ny = """a\n<i>\n""" if x else 1.5'
    html = highlighted(source)
    assert text(html) == source
    assert re.findall(r"<(?!/?span\b)", html) == []
    assert [color for color in ("keyword", "string", "comment", "number") if f"editor-{color}-" not in html] == []


def test_a_graph_shows_its_picture_and_a_large_one_its_lines():
    program = LOSS.trace(*SPECS)
    assert "<svg" in program._repr_html_()
    assert "<svg" in program.graph._repr_html_()

    def chain(x):
        for _ in range(40):
            x = np.tanh(np.sin(x))
        return x

    long = sg.compile(chain, loops="unroll").trace("float64[]")
    assert "<svg" not in long._repr_html_()
    assert text(long._repr_html_()) == str(long)


def test_arithmetic_is_a_formula():
    x = sg.Graph().input("x", "float64[]")
    assert (np.sin(x) ** 2 / (1 + x))._repr_latex_() == r"$\displaystyle \frac{\sin^{2}{\left(x \right)}}{x + 1}$"
    slope = sg.grad(lambda x: np.exp(-(x**2) / 2)).trace("float64[]")
    assert slope._repr_latex_() == slope.graph._repr_latex_() == r"$\displaystyle - x e^{- \frac{x^{2}}{2}}$"


def test_what_is_no_formula_has_none():
    assert LOSS.trace(*SPECS)._repr_latex_() is None
    assert sg.Graph()._repr_latex_() is None
    x = sg.Graph().input("x", "float64[]")
    for _ in range(100):
        x = x * np.sin(x)  # written out, it has 2**100 terms
    assert x._repr_latex_() is None
