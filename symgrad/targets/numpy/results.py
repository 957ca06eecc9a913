"""How the results of a program are returned: the tree that the user's function returns, each array one of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.analysis.aliases import is_read_only
from symgrad.core.graph import CONSTANT, INPUT, Node
from symgrad.core.text import double_quoted, key_literal, literal
from symgrad.spelling import ATOM, Code, call
from symgrad.targets.numpy.body import Body
from symgrad.targets.numpy.statements import Return

Spellings = dict[Node, tuple[Code, Code]]  # of a result where it is returned first, and where it is once more


def returned(tree: Any, spellings: Mapping[Node, tuple[Code, Code]], makes: Node | None = None) -> Return:
    """The statement that returns a tree of results."""
    return Return(Code(_spell_tree(tree, dict(spellings))), makes=makes)


def spelled_results(body: Body, outputs: Sequence[Node]) -> Spellings:
    """How each result is returned, and how once more: as an array of its own."""
    taken: set[Node] = set()
    found: Spellings = {}
    for y in dict.fromkeys(outputs):
        root = body.roots[y]
        shared = root in taken or root.op in (INPUT, CONSTANT) or is_read_only(y)
        taken.add(root)
        code = body.code(y)
        number = y.aval.weak or (y.op is CONSTANT and y.aval.shape == ())
        copy = code if number else call(f"{code.at(ATOM)}.copy", [])
        found[y] = (copy if shared else code), copy
    return found


def made_at_return(body: Body, outputs: Sequence[Node]) -> Node | None:
    """The value that is computed where it is returned, if there is one."""
    return next((y for y in outputs if y in body.pending and body.pending[y].depth), None)


def _spell_tree(tree: Any, spellings: Spellings, top: bool = True) -> str:
    """A tree of results as a Python expression."""
    if isinstance(tree, Node):
        code, again = spellings[tree]
        spellings[tree] = again, again
        return code.text
    if isinstance(tree, dict):
        items = [f"{_key(key)}: {_spell_tree(value, spellings, False)}" for key, value in tree.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(tree, list):
        return f"[{', '.join(_spell_tree(x, spellings, False) for x in tree)}]"
    if isinstance(tree, tuple):
        inner = ", ".join(_spell_tree(x, spellings, False) for x in tree) + "," * (len(tree) == 1)
        return inner if top and tree else f"({inner})"
    value = literal(tree)
    assert value is not None, f"{tree!r} is no result of a program"
    return double_quoted(value)


def _key(key: Any) -> str:
    return double_quoted(key_literal(key) or "")
