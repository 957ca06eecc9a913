"""Spelling of nodes as mathematics, in NumPy's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.core.graph import CONSTANT, ITEM, Node
from symgrad.core.listing import is_input, number, spelled_params
from symgrad.core.text import visible
from symgrad.errors import ArgumentError
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.marks import ALIAS
from symgrad.spelling import ATOM, SUM, UNARY, Code, call

MARKS = (ALIAS, BARRIER)  # a value under another identity
WIDEST = 8  # operands of which each is shown where a value is to be read at one glance
CUT = Code("...")


def at_a_glance(node: Node, known: Callable[[Node], Code | None], depth: int) -> Code:
    """Spell a value down to values with a name, and at most `depth` operations deep."""
    code = known(node)
    if code is not None:
        return code
    if node.inputs and (not depth or len(node.inputs) > WIDEST):
        return CUT
    return on_its_inputs(node, lambda x: at_a_glance(x, known, depth - 1))


def on_its_inputs(node: Node, read: Callable[[Node], Code], name: str = "") -> Code:
    """Spell a node from the spelling of its inputs; an argument goes by its own name or this one."""
    text = number(node)
    if text is not None:
        return Code(text, UNARY if text.startswith("-") else ATOM if text.isalnum() or "." in text else SUM)
    if is_input(node):
        return Code(name or visible(str(dict(node.params)["name"])))
    return _spelled(node, [read(x) for x in node.inputs])


def _spelled(node: Node, inputs: Sequence[Code]) -> Code:
    """Spell a node as in source without ``np.``, or as a call of the operator where source has no expression for it."""
    if node.op is CONSTANT:
        return Code(visible(repr(dict(node.params)["value"])))
    if node.op in MARKS:
        return inputs[0]
    if node.op is ITEM:
        return Code(f"{inputs[0].at(ATOM)}[{dict(node.params)['index']}]")
    try:
        if node.op.spell is not None:
            code = node.op.spell(node, *inputs)
            return Code(code.text.removeprefix("np."), code.level)
    except ArgumentError:  # a parameter that has no form in source
        pass
    return call(visible(node.op.name), [*(x.text for x in inputs), *spelled_params(node)])
