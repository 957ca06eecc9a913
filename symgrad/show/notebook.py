"""Views of programs and graphs in notebooks: the results of `_repr_html_` and `_repr_latex_`."""

from __future__ import annotations

from symgrad.core.graph import Graph, Node, reached
from symgrad.errors import SymgradError
from symgrad.export.source_text import SourceText
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.show.algebra import to_sympy
from symgrad.show.draw import draw
from symgrad.show.markup import highlighted, markup_document, markup_lines, markup_text
from symgrad.show.page import page
from symgrad.show.subject import shown
from symgrad.show.svg import svg

MOST_BOXES = 40  # of a picture that is read at one glance; a larger graph is a page, to search and to open
MOST_ON_PAGE = 1000  # boxes; the page of a larger graph would make the notebook's file slow to open
MOST_TERMS = 200  # of a formula
FRAME = "max-height: 60em; overflow: auto; line-height: 1.35"
EMBEDDED = "width: 100%; height: 42em; border: 1px solid #8a8f98; border-radius: 6px"
FONT = "font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px)"
"""Said here, since a page that nbconvert writes says none."""


def source_view(source: SourceText) -> str:
    """The source of a program in colours, with its runtime folded."""
    shown = preformatted(highlighted(source.before_runtime))
    if not source.runtime:
        return shown
    runtime = preformatted(highlighted(source.runtime))
    return f'{shown}<details><summary style="{FONT}">{source.runtime_note}</summary>{runtime}</details>'


def preformatted(html: str) -> str:
    """Lines in a font of fixed width, which are not broken."""
    return f'<pre style="{FRAME}; {FONT}; white-space: pre">{html}</pre>'


def graph_view(x: Program | Graph) -> str:
    """The graph as a picture; a large one as its page, and one that is larger still as a line a node."""
    drawn = draw(x).picture
    if len(drawn.boxes) <= MOST_BOXES:
        return f'<div style="{FRAME}">{svg(drawn)}</div>'
    lines = preformatted(markup_lines(str(x)))
    if len(drawn.boxes) > MOST_ON_PAGE:
        return lines
    # without scripts, as in a notebook that is not trusted, the lines are all that is seen
    count = f"{len(drawn.boxes)} nodes"
    named = markup_text(f"The graph of {drawn.name}: {count}" if drawn.name else f"A graph: {count}")
    inner = f'srcdoc="{markup_document(page(drawn))}" title="{named}" sandbox="allow-scripts" style="{EMBEDDED}"'
    return f'<iframe {inner}></iframe><details><summary style="{FONT}">{count}, line by line</summary>{lines}</details>'


def formula_view(x: Program | Graph | Variable) -> str | None:
    """The results as LaTeX where they are arithmetic of numbers, or of arrays elementwise, and short."""
    outputs = shown(x, ())[1]
    if not outputs or _terms(outputs) > MOST_TERMS:
        return None
    try:
        found = to_sympy(x)
    except SymgradError:
        return None
    from sympy import latex  # slow to import

    return f"$\\displaystyle {latex(found)}$"


def _terms(outputs: list[Node]) -> int:
    """Return the number of terms of a formula, in which shared values are repeated."""
    found: dict[Node, int] = {}
    for node in reached(outputs):
        found[node] = 1 + sum(found[x] for x in node.inputs)
    return sum(found[y] for y in outputs)
