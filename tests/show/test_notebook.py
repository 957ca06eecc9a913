"""Views of programs and graphs in notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
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
    assert text(html).startswith(compiled.source.before_runtime)
    assert len(re.findall("<span", html)) == len(re.findall("</span", html)) > 5
    assert re.search(r"<span[^>]*keyword[^>]*>def</span> loss_value_and_grad", html)


def test_source_in_colours_is_text():
    source = 'x = "</pre><b>"  # <script> &amp;\n\n\ny = """a\n<i>\n""" if x else 1.5'
    html = highlighted(source)
    assert text(html) == source
    assert re.findall(r"<(?!/?span\b)", html) == []
    assert [color for color in ("keyword", "string", "comment", "number") if f"editor-{color}-" not in html] == []


def test_a_graph_shows_its_picture_a_large_one_its_page_and_a_huge_one_its_lines():
    program = LOSS.trace(*SPECS)
    assert "<svg" in program._repr_html_()
    assert "<svg" in program.graph._repr_html_()

    def chain(x, n):
        for _ in range(n):
            x = np.tanh(np.sin(x))
        return x

    long, huge = (sg.compile(chain, loops="unroll").trace("float64[]", n) for n in (40, 600))
    page, rest = re.fullmatch(
        r'<iframe srcdoc="([^"]*)" title="[^"]+" sandbox="allow-scripts"[^>]*></iframe>(.*)', long._repr_html_(), re.S
    ).groups()
    assert unescape(page) == sg.draw(long).text(".html")
    assert text(rest) == f"81 nodes, line by line{long}"
    assert text(huge._repr_html_()) == str(huge)


def test_lines_stand_in_a_font_of_fixed_width_and_are_not_broken():
    """A page that nbconvert writes gives `pre` neither."""
    long = sg.compile(lambda x: [np.sin(x + k) for k in range(60)]).trace("float64[]")
    shown = (LOSS.compile(*SPECS), LOSS.compile(*SPECS).source, long, LOSS.explain(*SPECS))
    styles = [style for x in shown for style in re.findall(r"<pre([^>]*)>", x._repr_html_())]
    assert len(styles) >= 5
    assert [style for style in styles if "monospace" not in style or not style.endswith('white-space: pre"')] == []


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


# ---- tables


def rows(html):
    """The cells of a table, as text."""
    found = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[text(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)] for row in found]


ARGUMENTS = np.ones(3), np.ones((10, 3)), np.ones(10)


def test_a_comparison_is_a_table_with_its_verdict():
    found = sg.compare_grads(loss, ARGUMENTS, order=1)
    table = rows(found._repr_html_())
    assert table[0][:3] == ["argument", "order", "modes"]
    assert [row[0] for row in table[1:]] == [row.argument for row in found.rows]
    assert {row[3] for row in table[1:]} == {"right"}
    assert "loss: all agree with finite differences" in found._repr_html_()


def test_a_profile_is_a_table_of_the_lines_that_ran():
    profile = LOSS.profile(*ARGUMENTS, optimize=1)
    table = rows(profile._repr_html_())
    ran = [line for line in profile.lines if line.calls]
    assert [row[4] for row in table[1 : 1 + len(ran)]] == [line.text for line in ran]
    assert len(table) == 2 + len(ran) + len(profile.by_where)


def test_a_report_is_a_table_a_section():
    report = LOSS.explain(*SPECS)
    html = report._repr_html_()
    assert html.count("<details") == html.count("</details>") == 5 and html.count("<details open>") == 1
    found = [row[0] for row in rows(html)]
    assert {line.where for line in report.lines} <= set(found)
    assert {stage.name for stage in report.stages} <= set(found) and {x.rule for x in report.rewrites} <= set(found)


def test_a_difference_is_a_table_of_statements():
    found = sg.diff(LOSS.compile(*SPECS, optimize=1), LOSS.compile(*SPECS))
    table = rows(found._repr_html_())
    assert [row[2:] for row in table[1 : 1 + len(found.changes)]] == [[x.before, x.after] for x in found.changes]
    assert "The programs are the same." in sg.diff(LOSS.trace(*SPECS), LOSS.trace(*SPECS))._repr_html_()


def test_tables_hold_no_markup_of_the_user():
    name = "<script>"
    f = sg.grad(lambda p: np.sum(np.exp(p[name])))
    for shown in (f.explain({name: "float64[3]"}), f.profile({name: np.ones(3)}), f.compile({name: "float64[3]"})):
        assert name not in shown._repr_html_()


# ---- cells and tracebacks

SESSION = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for cell in (
    "import numpy as np, symgrad as sg",
    "def f(x):\\n    y = np.sin(x)\\n    return y @ y",
    "print(sg.compile(f).source('float64[n]', optimize=1))",
    "sg.compile(f)(np.ones((2, 3)))",
    "sg.compile(f).source('float64[n]')",
):
    shell.run_cell(cell, store_history=True)
"""


def test_a_notebook_sees_its_cells_and_no_frame_of_symgrad():
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, check=True)
    out = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert '"""f (cell 2, line 1), compiled.' in out and "# cell 2, line 3  return y @ y" in out
    assert "at cell 2, line 3: return y @ y" in out
    shown = out[out.index("Traceback (most recent call last)") :]
    assert re.findall(r"(?:File|Cell) (\S+), line (\d+)", shown) == [("In[4]", "1"), ("In[2]", "3")]
    assert "# + " not in out.partition("Traceback")[0]


def test_outside_of_notebooks_places_are_files():
    program = sg.trace(loss, *SPECS)
    assert f"test_notebook.py:{loss.__code__.co_firstlineno + 1}" in str(program)
