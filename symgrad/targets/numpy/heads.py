"""Heads of loops in source, and their ends by ``break``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from symgrad.spelling import Code, Name
from symgrad.targets.numpy.statements import INDENT, Assign, Statement, Suite, Verbatim, mentioned

WIDEST = 96  # characters of the line before a loop
BREAK = Verbatim(["break"])
TRUTHS = (["np.bool(True)", "np.bool(False)"], ["True", "False"])


def laid_out_head(head: str) -> list[str]:
    """The line before a loop; where it is too long, with the arrays in it on lines of their own."""
    begin, _, rest = head.partition("zip(")
    if len(head) <= WIDEST or not rest:
        return [head]
    arrays = textwrap.wrap(rest.removesuffix("):"), WIDEST, break_long_words=False)
    return [f"{begin}zip(", *(INDENT + line for line in arrays), "):"]


def with_break(turn: Sequence[Statement], flag: Name, counting: Sequence[Statement] = ()) -> list[Statement]:
    """Replace a boolean that ends the loop by a ``break``; it need not have a name if it comes last.

    Statements that count the iteration stand at its end, in front of the ``break``.
    """
    *before, last = turn or [Verbatim()]
    if isinstance(last, Suite) and (rest := _behind_break(last, flag)) is not None:
        return [*before, Suite(last.text, [*counting, BREAK]), *rest, *counting]
    value = None if counting else _assigned(last, flag)  # which may read the count
    if value is None:
        return [*turn, *counting, Suite([f"if {flag.text}:"], [BREAK])]
    return [*before, Suite([f"if {value.text}:"], [BREAK])]


def _behind_break(branch: Suite, flag: Name) -> list[Statement] | None:
    """Return the ``else`` clause of a branch whose other side only sets the flag."""
    if len(branch.clauses) != 1 or not branch.text[0].startswith("if "):
        return None
    then, rest = branch.body, branch.clauses[0].body
    told = [value.text for x in (*then, *rest) if (value := _assigned(x, flag)) is not None]
    others = [x for x in rest if _assigned(x, flag) is None]
    if len(then) != 1 or told not in TRUTHS or mentioned([flag.text], others):  # a loop in there may set it
        return None
    return others


def _assigned(statement: Statement, name: Name) -> Code | None:
    """Return the value that a statement assigns to a name."""
    is_it = isinstance(statement, Assign) and statement.symbol == "=" and statement.targets[0].text == name.text
    return statement.parts[-1] if is_it and len(statement.parts) == 2 else None
