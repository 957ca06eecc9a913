"""Texts in HTML and SVG: what comes from the user enters a page through these functions alone."""

from __future__ import annotations

import io
import json
import keyword
import tokenize
from collections.abc import Iterator
from html import escape
from itertools import accumulate
from typing import Any

from symgrad.core.text import visible

COLOURS = {
    "keyword": "var(--jp-mirror-editor-keyword-color, #0a7a3d)",
    "string": "var(--jp-mirror-editor-string-color, #b03a2e)",
    "comment": "var(--jp-mirror-editor-comment-color, #5f7f86)",
    "number": "var(--jp-mirror-editor-number-color, #1f6fb2)",
}
"""Colours of the notebook's own editor, where there is one: they suit light and dark."""

_KINDS = {tokenize.STRING: "string", tokenize.COMMENT: "comment", tokenize.NUMBER: "number"}


def markup_text(text: str) -> str:
    """A text between tags, or in an attribute, of SVG or HTML."""
    return escape(visible(text))


def markup_document(html: str) -> str:
    """A whole page, whose texts are markup already, in an attribute of another page."""
    return escape(html)


def script_data(data: Any) -> str:
    """Data between the tags of a script element of JSON: nothing in it ends the element, or is a comment in HTML."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def highlighted(source: str) -> str:
    """The source between the tags of a ``pre`` element."""
    return "".join(
        markup_lines(text) if kind is None else f'<span style="color: {COLOURS[kind]}">{markup_lines(text)}</span>'
        for text, kind in _pieces(source)
    )


def _pieces(source: str) -> Iterator[tuple[str, str | None]]:
    """The text, cut where the kind changes."""
    starts = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]
    done = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = "keyword" if keyword.iskeyword(token.string) else _KINDS.get(token.type)
        if kind is not None:
            start, end = (starts[line - 1] + column for line, column in (token.start, token.end))
            yield source[done:start], None
            yield token.string, kind
            done = end
    yield source[done:], None


def markup_lines(text: str) -> str:
    """Several lines of text as HTML."""
    return "\n".join(map(markup_text, text.split("\n")))
