"""Texts in HTML and SVG: what comes from the user enters a page through these functions alone."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from symgrad.core.text import visible


def markup_text(text: str) -> str:
    """A text between tags, or in an attribute, of SVG or HTML."""
    return escape(visible(text))


def script_data(data: Any) -> str:
    """Data between the tags of a script element of JSON: nothing in it ends the element, or is a comment in HTML."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
