"""The C functions that kernels call: the pieces of the headers beside this module that a text needs, in order."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

INCLUDES = "\n".join(f"#include <{name}.h>" for name in ("math", "stdbool", "stdint", "stdlib", "string"))
COMPLEX = "#include <complex.h>"
PRODUCTS = """\
#ifdef __clang__
#pragma STDC CX_LIMITED_RANGE ON /* a product is four real ones; gcc has a flag for that, -fcx-limited-range */
#endif"""
_DEFINED = re.compile(
    r"^[ ]*#define (\w+)|^(?:SG|static|typedef)\b[^;={]*?\b(sg_\w+)(?=\(|;)|^struct (sg_\w+)|^enum .*?\b(SG_\w+)"
    r"|^#pragma omp declare reduction\((\w+)|^SG_\w+\((sg_\w+),",
    re.MULTILINE,
)
_OURS = re.compile(r"\b(?:sg_|SG)\w*")


class Piece(NamedTuple):
    """A function or macro with its comment, or all between ``#if`` and ``#endif``; the names it defines and uses."""

    text: str
    names: frozenset[str]
    mentioned: frozenset[str]


KERNELS = ("vector_math.h", "special_functions.h", "complex_numbers.h", "sorting.h", "blas.h", "helpers.h", "chunks.h")
"""The headers of kernels: elementary functions, those of SciPy, complex numbers, BLAS, helpers, and loops in chunks."""


@cache
def pieces(headers: tuple[str, ...] = KERNELS) -> tuple[Piece, ...]:
    """Return the library in pieces, in their order."""
    folder = files("symgrad.targets.c")
    texts = [folder.joinpath(name).read_text("utf-8") for name in headers]
    return tuple(piece for text in texts for piece in _pieces(text))


def _pieces(text: str) -> list[Piece]:
    found: list[Piece] = []
    lines: list[str] = []
    conditions = braces = 0
    for line in text.splitlines():
        if not line.strip() and not lines:
            continue
        lines.append(line)
        conditions += line.startswith("#if") - line.startswith("#endif")
        braces += line.count("{") - line.count("}")
        whole = "\n".join(lines)
        code = _without_comments(whole).strip()
        is_open = (
            "/*" in code or code.endswith("\\") or (code.endswith((")", ",")) and not code.startswith(("#", "SG_")))
        )
        if code and not is_open and conditions == braces == 0:
            names = frozenset(filter(None, sum(_DEFINED.findall(code), ())))
            found.append(Piece(whole, names, frozenset(_OURS.findall(code))))
            lines = []
    return found


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def includes_of(text: str) -> str:
    """Return the lines that include the headers of C's library, for a text."""
    return f"{COMPLEX}\n{INCLUDES}\n\n{PRODUCTS}" if "_Complex" in text else INCLUDES


def needed_by(text: str, headers: tuple[str, ...] = KERNELS) -> str:
    """Return the pieces of headers that a text mentions, and those that these mention."""
    wanted, kept = set(_OURS.findall(_without_comments(text))), set[Piece]()
    for piece in reversed(pieces(headers)):  # each stands before those that mention it
        if wanted & piece.names:
            kept.add(piece)
            wanted |= piece.mentioned
    return "\n".join(piece.text for piece in pieces(headers) if piece in kept)
