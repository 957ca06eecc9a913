"""Pictures as text for Graphviz and for Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from symgrad.core.saving import MARK
from symgrad.core.text import visible
from symgrad.core.version import VERSION
from symgrad.show.picture import COLOURS, Box, Picture

MADE = f"{MARK}{VERSION}."


def dot(drawn: Picture) -> str:
    """The picture in Graphviz' language."""

    colours = drawn.colours()

    def box(i: int, b: Box) -> str:
        fill, border = colours[i]
        label = rf"{dot_text(b.formula)}\n{dot_text(b.types)}"
        width = 2.5 if b.result else 1
        return (
            f'n{i} [label="{label}", tooltip="{dot_text(b.about)}", fillcolor="{fill}", color="{border}", '
            f"penwidth={width}]"
        )

    lines = [
        f"// {MADE}",
        "digraph {",
        '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10]',
        '  edge [color="#8a8f98"]',
        *_grouped(drawn, box, lambda k, name: f'subgraph cluster_{k} {{ label="{dot_text(name)}"', "}"),
        *(f"  n{i} -> n{j}" for i, j in drawn.arrows),
        "}",
    ]
    return "\n".join(lines) + "\n"


def mermaid(drawn: Picture) -> str:
    """The picture in Mermaid's language."""

    def box(i: int, b: Box) -> str:
        return f'n{i}["{mermaid_text(b.formula)}<br/>{mermaid_text(b.types)}"]:::{b.kind}'

    lines = [
        "flowchart TD",
        f"  %% {MADE}",
        *(f"  classDef {kind} fill:{fill},stroke:{border},color:#1c2430" for kind, (fill, border) in COLOURS.items()),
        *_grouped(drawn, box, lambda k, name: f'subgraph g{k}["{mermaid_text(name)}"]', "end"),
        *(f"  n{i} --> n{j}" for i, j in drawn.arrows),
        *(f"  style n{i} stroke-width:3px" for i, b in enumerate(drawn.boxes) if b.result),
        *(f"  style n{i} fill:{fill}" for i, (fill, _) in enumerate(drawn.colours()) if drawn.shares),
    ]
    return "\n".join(lines) + "\n"


def _grouped(
    drawn: Picture, box: Callable[[int, Box], str], opening: Callable[[int, str], str], closing: str
) -> Iterator[str]:
    """The lines of the boxes, those of a group between an opening and a closing line."""
    for k, (name, members) in enumerate(drawn.groups().items()):
        indent = "    " if name else "  "
        if name:
            yield f"  {opening(k, name)}"
        yield from (f"{indent}{box(i, drawn.boxes[i])}" for i in members)
        if name:
            yield f"  {closing}"


def dot_text(text: str) -> str:
    """A text between the quotes of a string in Graphviz' language, where a backslash may stand for a name."""
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


_ENTITIES = {ord(c): f"#{ord(c)};" for c in "#&\"'<>`%\\"}


def mermaid_text(text: str) -> str:
    """A text between the quotes of a label in Mermaid's language: it may be HTML, Markdown or a directive there."""
    return visible(text).translate(_ENTITIES)
