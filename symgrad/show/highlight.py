"""Python source in colours, as HTML."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator

from symgrad.show.markup import markup_text

COLOURS = {
    "keyword": "var(--jp-mirror-editor-keyword-color, #0a7a3d)",
    "string": "var(--jp-mirror-editor-string-color, #b03a2e)",
    "comment": "var(--jp-mirror-editor-comment-color, #5f7f86)",
    "number": "var(--jp-mirror-editor-number-color, #1f6fb2)",
}
"""Those of the notebook's own editor, where there is one: they suit light and dark."""

_KINDS = {tokenize.STRING: "string", tokenize.COMMENT: "comment", tokenize.NUMBER: "number"}


def highlighted(source: str) -> str:
    """The source between the tags of a ``pre`` element."""
    lines = source.splitlines(keepends=True)
    return "".join(
        markup_lines(text) if kind is None else f'<span style="color: {COLOURS[kind]}">{markup_lines(text)}</span>'
        for text, kind in _pieces(source, lines)
    )


def _pieces(source: str, lines: list[str]) -> Iterator[tuple[str, str | None]]:
    """The text, cut where the kind changes."""
    done = (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = "keyword" if keyword.iskeyword(token.string) else _KINDS.get(token.type)
        if kind is not None:
            yield _between(lines, done, token.start), None
            yield token.string, kind
            done = token.end
    yield _between(lines, done, (len(lines) + 1, 0)), None


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The text from one place to another: a line, from 1 on, and a column."""
    (row, column), (last, stop) = start, end
    if row == last:
        return lines[row - 1][column:stop] if row <= len(lines) else ""
    first = lines[row - 1][column:] if row <= len(lines) else ""
    rest = lines[last - 1][:stop] if last <= len(lines) else ""
    return "".join([first, *lines[row : last - 1], rest])


def markup_lines(text: str) -> str:
    """Several lines of text as HTML."""
    return "\n".join(map(markup_text, text.split("\n")))
