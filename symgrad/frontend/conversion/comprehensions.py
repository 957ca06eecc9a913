"""Comprehensions as functions: their loops and branches are statements there, and are converted as such."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from symgrad.frontend.conversion.scopes import bound, read, within
from symgrad.frontend.conversion.templates import statements

Comprehension = ast.ListComp | ast.DictComp | ast.GeneratorExp
ITEMS, FOUND = ".items", ".found"
"""Names for the iterable of the first `for`, which is evaluated in place, and for the list or the dict."""


class Body(NamedTuple):
    """Statements before the loops, for each item, and after the loops."""

    first: str
    each: str
    last: str


LIST = Body("FOUND = []", "FOUND.append(ITEM)", "return FOUND")
DICT = Body("FOUND = {}", "FOUND[KEY] = ITEM", "return FOUND")
SUM = Body("FOUND = 0", "FOUND = FOUND + ITEM", "return FOUND")
TRUTHS = {
    "any": Body("pass", "if ITEM:\n    return True", "return False"),
    "all": Body("pass", "if ITEM:\n    pass\nelse:\n    return False", "return True"),
}
"""Functions that stop before the last item."""
TAKERS = ("sum", "max", "min", "list", "tuple", "sorted")
"""Functions that ask for all items of a generator, one after the other."""


def has_comprehension(node: ast.AST) -> bool:
    """Whether one stands there."""
    return any(isinstance(n, Comprehension) for n in within([node]))


def is_ragged(node: Comprehension) -> bool:
    """Whether how many items an inner loop has depends on the item of an outer one: a list would have uneven rows."""
    targets = bound([part.target for part in node.generators])
    return not targets.keys().isdisjoint(read([part.iter for part in node.generators[1:]]))


def as_function(node: Comprehension, body: Body = LIST) -> ast.FunctionDef:
    """Return the comprehension as a function of the first iterable; it has no name yet."""
    key, item = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt, node.elt)
    inner: Sequence[ast.stmt] = statements(body.each, item, FOUND=FOUND, KEY=key, ITEM=item)
    for n, part in reversed([*enumerate(node.generators)]):
        for test in reversed(part.ifs):
            inner = [ast.copy_location(ast.If(test, [*inner], []), test)]
        items = part.iter if n else ast.copy_location(ast.Name(ITEMS, ast.Load()), part.iter)
        inner = [ast.copy_location(ast.For(part.target, items, [*inner], []), part.iter)]
    first, last = (statements(text, node, FOUND=FOUND) for text in (body.first, body.last))
    given = ast.arguments([], [ast.copy_location(ast.arg(ITEMS), node)], None, [], [], None, [])
    return ast.copy_location(ast.FunctionDef("", given, [*first, *inner, *last], []), node)
