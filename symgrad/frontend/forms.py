"""Trees of one structure as lists of their arrays; other leaves are static."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.core import tree
from symgrad.frontend.conversion.absent import check_presence
from symgrad.frontend.static import content
from symgrad.frontend.variable import Variable


class Form:
    """A tree without its Variables, or other `kinds`. Two are the same if structure and the other leaves are."""

    def __init__(self, of: Any, kinds: type | tuple[type, ...] = Variable) -> None:
        leaves, self.structure = tree.flatten(of)
        check_presence(leaves)
        self.holes = [i for i, x in enumerate(leaves) if isinstance(x, kinds)]
        self._leaves = [None if isinstance(x, kinds) else x for x in leaves]
        self._key = self.structure, tuple(self.holes), content(self._leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        texts = ["*" if i in self.holes else repr(x) for i, x in enumerate(self._leaves)]
        return tree.written(self.structure, texts)

    def values(self, of: Any) -> list[Any]:
        """Return the values that a tree of this form has for the holes."""
        leaves = tree.flatten(of)[0]
        return [leaves[i] for i in self.holes]

    def filled(self, values: Sequence[Any], other: Callable[[Any], Any] = lambda x: x) -> Any:
        """Return the tree with values for its holes; `other` maps the other leaves."""
        leaves = [other(x) for x in self._leaves]
        for i, x in zip(self.holes, values, strict=True):
            leaves[i] = x
        return tree.unflatten(self.structure, leaves)
