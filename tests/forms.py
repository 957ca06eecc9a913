"""Forms of statements and expressions in generated source, whatever its temporaries, parentheses and comments."""

from __future__ import annotations

import ast


def count(source, form):
    """Return how often a form stands in a source; ``_`` in it is any expression.

    >>> count("t1 = (x.T).copy()  # x.T\\nx[1:] += t1.T", "_.T")
    2
    >>> count("t1 = (x.T).copy()  # x.T\\nx[1:] += t1.T", "x[1:] += _")
    1
    """
    (wanted,) = ast.parse(form).body
    wanted = wanted.value if isinstance(wanted, ast.Expr) else wanted
    return sum(fits(wanted, node) for node in ast.walk(ast.parse(source)))


def fits(form, node):
    """Whether a part of a tree is of a form."""
    if isinstance(form, ast.Name) and form.id == "_":
        return isinstance(node, ast.expr)
    if isinstance(form, ast.AST):
        fields = (field for field in form._fields if field != "ctx")
        return type(form) is type(node) and all(fits(getattr(form, x), getattr(node, x)) for x in fields)
    if isinstance(form, list):
        return isinstance(node, list) and len(form) == len(node) and all(map(fits, form, node))
    return type(form) is type(node) and form == node
