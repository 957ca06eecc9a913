"""Pictures as SVG, drawn without Graphviz."""

from __future__ import annotations

from unicodedata import east_asian_width

from symgrad.show.diagram import MADE
from symgrad.show.frames import PAD, TITLE, Rectangle, framed
from symgrad.show.layout import LABEL, Block, Path, Point
from symgrad.show.markup import markup_text
from symgrad.show.picture import COLOURS, Box, Group, Picture

SIZE, LETTER = 12, 7.25  # of the font: height, and width of a letter of any monospaced one
HEIGHT, MARGIN = 40.0, 16.0  # of a box; about the picture
ROOM = 18.0  # beside the text of a box


def svg(drawn: Picture) -> str:
    """The picture as an SVG document."""
    blocks = [Block(_width(max((b.formula, b.types), key=_columns)), HEIGHT, _width(b.name)) for b in drawn.boxes]
    around = [b.frames for b in drawn.boxes]
    titles = {path[:k]: _width("  ".join(path[k - 1].title)) for path in around for k in range(1, len(path) + 1)}
    laid = framed(blocks, around, titles, drawn.arrows)
    shades, colours = drawn.shades(), drawn.colours()
    width, height = laid.width + 2 * MARGIN, laid.height + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}" font-family="monospace" font-size="{SIZE}">',
        f"<!-- {MADE} -->",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#8a8f98"/></marker></defs>',
        f'<rect x="{-MARGIN:g}" y="{-MARGIN:g}" width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>',
        *(_frame(path[-1], COLOURS[shades[path]][1], at) for path, at in laid.frames.items()),
        '<g fill="none" stroke="#8a8f98" marker-end="url(#tip)">',
        *(_arrow(path) for path in laid.arrows),
        "</g>",
        *(_reference(drawn.boxes[i], blocks[i].label or 0.0, at) for i, at in laid.references),
        *(_box(b, blocks[i].width, laid.centres[i], colours[i]) for i, b in enumerate(drawn.boxes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _frame(group: Group, border: str, at: Rectangle) -> str:
    """A frame around the body of a loop or of a branch, with the user's line as its title."""
    left, top, width, height = at
    line, about = map(markup_text, group.title)
    bold = f'<tspan font-weight="bold" fill="#1c2430">{line}</tspan>' if line else ""
    return (
        f'<g><rect fill="{border}" fill-opacity="0.07" stroke="{border}" x="{left:.1f}" y="{top:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="10"/>'
        f'<text x="{left + PAD:.1f}" y="{top + TITLE - 9:.1f}" fill="#5b6472">{bold}'
        f'<tspan dx="{2 * LETTER if line else 0:g}">{about}</tspan></text></g>'
    )


def _box(b: Box, width: float, centre: Point, colours: tuple[str, str]) -> str:
    fill, border = colours
    x, y = centre
    stroke = 2.5 if b.result else 1
    return (
        f"<g><title>{markup_text(b.about)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" width="{width:.1f}" height="{HEIGHT:g}" rx="6" '
        f'fill="{fill}" stroke="{border}" stroke-width="{stroke}"/>'
        f"{_text(b.formula, x, y - 3, '#1c2430')}{_text(b.types, x, y + 13, '#5b6472')}</g>"
    )


def _reference(b: Box, width: float, foot: Point) -> str:
    """The name of a box that is far away."""
    x, y = foot
    top = y - LABEL
    fill, border = COLOURS[b.kind]
    return (
        f'<g><title>{markup_text(b.formula)}</title><rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{LABEL:g}" rx="9" fill="{fill}" stroke="{border}" stroke-dasharray="3 2"/>'
        f"{_text(b.name, x, top + 13, '#1c2430')}</g>"
    )


def _arrow(path: Path) -> str:
    """A smooth line from the bottom of one box to the top of the other; it crosses the layers between straight down."""
    (x, y), through = path
    text = f"M{x:.1f} {y:.1f}"
    for x2, top, bottom in through:
        middle = (y + top) / 2
        text += f"C{x:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {top:.1f}"
        if bottom > top:
            text += f"V{bottom:.1f}"
        x, y = x2, bottom
    return f'<path d="{text}"/>'


def _text(text: str, x: float, y: float, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}">{markup_text(text)}</text>'


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _width(text: str) -> float:
    return _columns(text) * LETTER + ROOM
