"""The text of expressions, parameters and assignments in C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.core.shapes import product
from symgrad.core.sizes import Size
from symgrad.core.text import prose
from symgrad.lowering.expressions import Apply, Choose, Convert, Expr, Extent, Load, Local, Number, Whole, extent
from symgrad.lowering.statements import Buffer, Function
from symgrad.spelling import ATOM, CHOICE, SUM, UNARY, Code, call, infix
from symgrad.targets.c.functions import C_TYPES, IN_MEMORY, SINGLE, bits, size_code, spelled
from symgrad.targets.c.names import c_word

INDENT = "    "
WIDTH = 110
FEW = 256  # numbers of a buffer up to which it lies on the stack
COMBINED = {np.add: "+=", np.multiply: "*=", np.logical_or: "|=", np.bitwise_or: "|=", np.logical_and: "&="}
STARTS = {np.maximum: "sg_maximum", np.minimum: "sg_minimum"}


def text_of(x: Expr) -> str:
    """Return an expression as C."""
    return code_of(x).text


def code_of(x: Expr) -> Code:
    """Return an expression as C, with its precedence."""
    if isinstance(x, Number):
        return number_code(x)
    if isinstance(x, Local):
        return Code(x.name)
    if isinstance(x, Extent):
        found = size_code(x.text)
        assert found is not None, x.text
        return found
    if isinstance(x, Load):
        number = Code(f"{x.buffer.name}[{text_of(x.at)}]")
        return infix("!=", number, Code("0")) if x.dtype == np.bool_ else number
    operands = [code_of(y) for y in x.operands]
    if isinstance(x, Convert):
        if x.kind == np.bool_:
            return infix("!=", operands[0], Code("0"))
        return Code(f"({C_TYPES[x.kind.name]}){operands[0].at(UNARY)}", UNARY)
    if isinstance(x, Choose):
        test, then, otherwise = operands
        if x.dtype == np.bool_ and not any(isinstance(y, Load) for side in x.operands[1:] for y in side.parts()):
            return _choice_of_bits(test, then, otherwise)
        return Code(f"{test.at(UNARY)} ? {then.at(SUM)} : {otherwise.at(SUM)}", CHOICE)
    if isinstance(x, Whole):
        if x.symbol == "+" and (amount := _subtracted(x.right)) is not None:
            return infix("-", operands[0], amount)
        if x.symbol == "+" and (amount := _subtracted(x.left)) is not None:
            return infix("-", operands[1], amount)
        return infix(x.symbol, *operands)
    assert isinstance(x, Apply)
    return spelled(x, operands)


def _subtracted(x: Expr) -> Code | None:
    """Return what is subtracted where a negative number, or a multiple by one, is added."""
    number = x.right if isinstance(x, Whole) and x.symbol == "*" else x
    if not isinstance(number, Number) or not np.iinfo(np.int64).min < number.value < 0:
        return None
    if number is x:
        return Code(str(-number.value))
    assert isinstance(x, Whole)
    return code_of(x.left) if number.value == -1 else infix("*", code_of(x.left), Code(str(-number.value)))


def _choice_of_bits(test: Code, then: Code, otherwise: Code) -> Code:
    """Return a choice between two bools by operators on bits: gcc vectorises no other."""
    taken = test if then.text == "true" else bits("&", test, then)
    if otherwise.text == "false":
        return taken
    return bits("|", taken, bits("&", Code(f"!{test.at(UNARY)}", UNARY), otherwise))


def number_code(x: Number) -> Code:
    value = x.value
    if x.kind.kind == "c":
        if abs(value.imag) == 1 and value.real == 0 and np.signbit(value.real) == np.signbit(value.imag):
            return Code("I") if value.imag > 0 else Code("-I", UNARY)
        parts = [number_code(Number(y, np.dtype(float))).text for y in (value.real, value.imag)]
        return call("sg_complexf" if x.kind in SINGLE else "sg_complex", parts)
    if x.kind.kind == "b":
        return Code("true" if value else "false")
    if x.kind.kind in "iu":
        limits = {np.iinfo(np.int64).min: "INT64_MIN", np.iinfo(np.uint64).max: "UINT64_MAX"}
        text = limits.get(value) or f"{value}{'u' * (value >= 2**63)}"
    elif not np.isfinite(value):
        text = "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    else:
        text = repr(float(np.float32(value))) + "f" if x.kind == np.float32 else repr(float(value))
    return Code(text, UNARY if text.startswith("-") else ATOM)


def remark(text: str) -> str:
    """Return text escaped for a C comment, so that it cannot end the comment or begin another."""
    return prose(text).replace("*/", "* /").replace("/*", "/ *")


def parameters_of(f: Function, qualifier: str) -> list[str]:
    """Return the declarations of a function's parameters, with a qualifier for pointers, which C++ does not have."""
    parts = [f"int64_t {name}" for name in sizes_of(f)]
    for x in f.parameters:
        pointer = f"const {type_of(x)} *{qualifier}" if isinstance(x, Buffer) else f"{C_TYPES[x.dtype.name]} "
        parts.append(pointer + x.name)
    parts += [f"{type_of(b)} *{qualifier}{b.name}" for b in f.results]
    return [*parts, f"char *{qualifier}workspace"]


def sizes_of(f: Function) -> list[str]:
    """Return the names of a function's sizes in C."""
    return [c_word(name) for name in f.sizes]


def type_of(x: Buffer) -> str:
    return IN_MEMORY[x.dtype.name]


def count_of(b: Buffer) -> Expr:
    return extent(product(b.shape))


def is_few(b: Buffer) -> bool:
    """Whether a buffer is small enough for the stack."""
    count: Size = product(b.shape)
    return isinstance(count, int) and count <= FEW


def bytes_of(b: Buffer) -> str:
    """Return how many bytes of a workspace a buffer takes."""
    return f"sg_bytes({text_of(count_of(b))}, sizeof({type_of(b)}))"


def combined(target: str, value: str, combine: np.ufunc | None) -> str:
    """Return the assignment of a number to a target, or of its combination with what is there."""
    if combine in STARTS:
        return f"{target} = {STARTS[combine]}({target}, {value});"
    return f"{target} {'=' if combine is None else COMBINED[combine]} {value};"


def wrapped(opening: str, parts: Sequence[str], closing: str, between: str = ", ") -> list[str]:
    """Return a list of parts, wrapped to as many lines as it needs."""
    lines = [opening]
    indent = opening[: len(opening) - len(opening.lstrip())] + 2 * INDENT
    for k, part in enumerate(parts):
        piece = part + (between if k < len(parts) - 1 else "")
        if len(lines[-1]) + len(piece) > WIDTH:
            lines.append(indent)
        lines[-1] += piece
    lines[-1] += closing
    return [line.rstrip() for line in lines]
