"""Spelling of operator calls in source, for operators that are written alike."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from symgrad.core.graph import CONSTANT, Aval, Node
from symgrad.core.sizes import Dim, is_rows
from symgrad.spelling import (
    ATOM,
    POWER,
    UNARY,
    Code,
    Truth,
    call,
    infix as spell_infix,
    negative,
    signed,
    spell_param,
    tested,
)


def scalar_call(node: Node, *xs: Code) -> Code:
    """A function that neither `math` nor NumPy has, of Python floats; integers such as orders stay what they are."""
    texts = [repr(n.constant) if type(n.constant) is int else x.text for n, x in zip(node.inputs, xs, strict=True)]
    return call("float", [call(node.op.path, texts).text])


DIVISIONS = ("/", "//", "%")


def infix_spelling(symbol: str, name: str) -> Callable[..., Code]:
    def spell(node: Node, a: Code, b: Code) -> Code:
        if _is_pythons(node) and (not node.aval.weak or (symbol in DIVISIONS and b.text == "0")):
            code = call(f"np.{name}", [a.text, b.text])  # Python's x > 0 is a bool, whose ~ is -2; its 1 / 0 raises
            if node.aval.dtype != bool:
                return code
            test = spell_infix(symbol, a, b)
            return Truth((call("np.bool_", [test.text]) if _is_rounded(node) else code).text, test=test)
        if symbol == "**" and node.inputs[0].aval.dtype == bool:
            return call(f"np.{name}", [a.text, b.text])  # ** 2 is np.square, which gives int8
        if symbol in CONNECTIVES and _joins_truths(node):
            both = spell_infix(symbol, a, b)
            return Truth(both.text, both.level, test=spell_infix(CONNECTIVES[symbol], tested(a), tested(b)))
        return signed(symbol, a, b) if node.aval.dtype.kind == "f" else spell_infix(symbol, a, b)

    return spell


def _is_rounded(comparison: Node) -> bool:
    """Whether NumPy would round an integer to compare it with a float: Python compares any two numbers exactly."""
    kinds = {x.aval.dtype.kind for x in comparison.inputs}
    whole = (x for x in comparison.inputs if x.aval.dtype.kind == "i")
    return kinds == {"i", "f"} and not all(x.op is CONSTANT and float(x.constant) == int(x.constant) for x in whole)


CONNECTIVES = {"&": "and", "|": "or"}


def infix_of_floats(symbol: str) -> Callable[..., Code]:
    word = CONNECTIVES.get(symbol)
    if word is None:
        return lambda node, a, b: spell_infix(symbol, a, b)
    return lambda node, a, b: spell_infix(word if _joins_truths(node) else symbol, a, b)


def _joins_truths(node: Node) -> bool:
    return not node.aval.shape and all(x.aval.dtype == bool for x in node.inputs)


def connective_spelling(word: str, name: str) -> Callable[..., Code]:
    """Return a spelling of logical ``and`` or ``or``: Python's words where a boolean is only tested."""

    def spell(node: Node, a: Code, b: Code) -> Code:
        code = call(f"np.{name}", [a.text, b.text])
        return code if node.aval.shape else Truth(code.text, test=spell_infix(word, tested(a), tested(b)))

    return spell


def connective_of_floats(word: str) -> Callable[..., Code]:
    def spell(node: Node, a: Code, b: Code) -> Code:
        code = spell_infix(word, a, b)
        return code if all(x.aval.dtype == bool for x in node.inputs) else call("bool", [code.text])

    return spell


def prefix_spelling(symbol: str, name: str) -> Callable[..., Code]:
    def spell(node: Node, x: Code) -> Code:
        if _is_pythons(node) and not node.aval.weak:
            return call(f"np.{name}", [x.text])  # Python's ~True is -2
        return prefix_of_numbers(symbol)(node, x)

    return spell


def prefix_of_numbers(symbol: str) -> Callable[..., Code]:
    return lambda node, x: negative(x) if symbol == "-" else Code(f"{symbol}{x.at(POWER)}", UNARY)


def _is_pythons(node: Node) -> bool:
    """Whether Python alone computes what an operator writes: beside its numbers, a boolean constant is its own."""
    return all(x.aval.weak or (x.op is CONSTANT and x.aval == Aval((), _BOOL)) for x in node.inputs)


_BOOL = np.dtype(bool)


# ---- quick spellings

SMALL = 4096  # numbers up to which an array takes less time than the calls around it


def is_small(*nodes: Node) -> bool:
    """Whether values are known to be so small that calls are what takes time."""
    sizes = [x.aval.shape for x in nodes]
    return all(not any(isinstance(n, Dim) for n in shape) and math.prod(shape) <= SMALL for shape in sizes)


def may_be_small(*nodes: Node) -> bool:
    """Whether values are so small where they are: symbols, and rows of blocks, may be few."""
    sizes = [[n for n in x.aval.shape if not isinstance(n, Dim) and not is_rows(n)] for x in nodes]
    return all(math.prod(known) <= SMALL for known in sizes)


def as_method(node: Node, x: Code) -> Code | None:
    """``x.sum(axis=0)``, which goes through one Python function less than `np.sum`."""
    if not node.inputs[0].aval.shape:  # may be a Python number
        return None
    return call(
        f"{x.at(ATOM)}.{node.op.evaluate.__name__}", [f"{key}={spell_param(value)}" for key, value in node.params]
    )
