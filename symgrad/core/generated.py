"""Small generated functions, such as tests of arguments: the same text is compiled once for many programs."""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any


def defined(text: str, name: str, scope: dict[str, Any]) -> Any:
    """Run the text of a definition in a scope, and return what has the name there."""
    exec(_code(text), scope)
    return scope[name]


@lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    return compile(text, "<string>", "exec", dont_inherit=True)
