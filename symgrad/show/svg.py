"""Pictures as SVG, drawn without Graphviz."""

from __future__ import annotations

from unicodedata import east_asian_width

from symgrad.show.diagram import MADE
from symgrad.show.layout import Point, layout
from symgrad.show.markup import markup_text
from symgrad.show.picture import COLOURS, Box, Picture

SIZE, LETTER = 12, 7.25  # of the font: height, and width of a letter of any monospaced one
HEIGHT, LABEL, MARGIN = 40.0, 18.0, 16.0  # of a box; of a reference; about the picture
ROOM = 18.0  # beside the text of a box


def svg(drawn: Picture) -> str:
    """The picture as an SVG document."""
    widths = [_width(max((b.formula, b.types), key=_columns)) for b in drawn.boxes]
    labels = [_width(b.name) for b in drawn.boxes]
    laid = layout(widths, HEIGHT, drawn.arrows, labels)
    width, height = laid.width + 2 * MARGIN, laid.height + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}" font-family="monospace" font-size="{SIZE}">',
        f"<!-- {MADE} -->",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#8a8f98"/></marker></defs>',
        f'<rect x="{-MARGIN:g}" y="{-MARGIN:g}" width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>',
        '<g fill="none" stroke="#8a8f98" marker-end="url(#tip)">',
        *(_arrow(points) for points in laid.arrows),
        "</g>",
        *(_reference(drawn.boxes[i], labels[i], at) for i, at in laid.references),
        *(_box(b, w, at) for b, w, at in zip(drawn.boxes, widths, laid.centres, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(b: Box, width: float, centre: Point) -> str:
    fill, border = COLOURS[b.kind]
    x, y = centre
    stroke = 2.5 if b.result else 1
    return (
        f"<g><title>{markup_text(b.about)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" width="{width:.1f}" height="{HEIGHT:g}" rx="6" '
        f'fill="{fill}" stroke="{border}" stroke-width="{stroke}"/>'
        f"{_text(b.formula, x, y - 3, '#1c2430')}{_text(b.types, x, y + 13, '#5b6472')}</g>"
    )


def _reference(b: Box, width: float, centre: Point) -> str:
    """The name of a box that is far away."""
    x, y = centre
    top = y + HEIGHT / 2 - LABEL
    fill, border = COLOURS[b.kind]
    return (
        f'<g><title>{markup_text(b.formula)}</title><rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{LABEL:g}" rx="9" fill="{fill}" stroke="{border}" stroke-dasharray="3 2"/>'
        f"{_text(b.name, x, top + 13, '#1c2430')}</g>"
    )


def _arrow(points: list[Point]) -> str:
    """A smooth line from the bottom of one box to the top of the other; it crosses the layers between straight down."""
    half = HEIGHT / 2
    (x, y), *rest = points
    path = f"M{x:.1f} {y + half:.1f}"
    for x2, y2 in rest:
        middle = (y + y2) / 2
        path += f"C{x:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2 - half:.1f}"
        if (x2, y2) != rest[-1]:
            path += f"V{y2 + half:.1f}"
        x, y = x2, y2
    return f'<path d="{path}"/>'


def _text(text: str, x: float, y: float, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}">{markup_text(text)}</text>'


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _width(text: str) -> float:
    return _columns(text) * LETTER + ROOM
