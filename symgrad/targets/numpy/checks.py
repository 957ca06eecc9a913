"""Checks in the generated source: `raise`, `print` and warnings, where the user's function has them."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from symgrad.analysis.values import number
from symgrad.core.graph import Node
from symgrad.core.text import double_quoted, free_name, literal, quoted, quoted_with_values
from symgrad.ops.checks import CHECK, Argument, Given, Known, Print, Raise, Slot, Warn, action_of
from symgrad.spelling import ATOM, Code, Name, call, tested
from symgrad.targets.numpy.body import SHORT
from symgrad.targets.numpy.statements import Evaluate, Statement, Suite
from symgrad.targets.numpy.structured import Structured


def write_check(body: Structured, node: Node) -> None:
    """Write an action under its condition, with the values that only its message needs."""
    _, pred, *operands = node.inputs
    region = dict(node.params)["body"]
    part = body.part(node, body.placed.parts[node], region)
    given = [_given(body, x, part, y, number(pred) is True) for x, y in zip(operands, part.placed.given, strict=True)]
    condition = body.read(pred)
    reads = (*condition.reads, *(y for x in operands for y in body.read(x).reads))
    body.consumed(node)
    part.know_from(body, dict(zip(operands, part.placed.given, strict=True)))
    part.is_part, part.kept = True, set(part.placed.results)
    part.receive(given)
    part.write()
    statement = _action(part, node)
    made = [*part.written, statement]
    if number(pred) is not True:
        body.write_down(node, Suite([f"if {tested(condition.code).text}:"], made, makes=node, reads=reads))
        return
    body.comment(node)
    statement.makes = node
    statement.reads = reads
    body.written += made


def _given(body: Structured, x: Node, part: Structured, y: Node, always: bool) -> Code:
    """Return an operand as the message has it: an expression where it stands for the message alone, and is short."""
    code = body.code(x)
    alone = always and part.placed.results.count(y) == 1 and not part.placed.uses[y]
    return code if alone and len(code.text) <= SHORT and _PLAIN.fullmatch(code.text) else body.named(x)


def _action(part: Structured, node: Node) -> Statement:
    action = action_of(node)
    arguments = [_argument(part, x, isinstance(action, Raise)) for x in action.arguments]
    if isinstance(action, Raise):
        name = part.scope.errors[action.error]
        return Evaluate(call(name, arguments) if arguments else Name(name), "raise")
    if isinstance(action, Warn):
        part.scope.called.add("_warn")
        return Evaluate(
            call("_warn", [*arguments, part.scope.errors[action.error], quoted(action.file), str(action.line)])
        )
    return Evaluate(call("print", [*arguments, *_how(action)]))


def _how(action: Print) -> list[str]:
    """The keywords of `print` that are not as usual."""
    found = [
        f"{key}={quoted(getattr(action, key))}" for key in ("sep", "end") if getattr(action, key) != getattr(Print, key)
    ]
    return [*found, *["file=sys.stderr"] * bool(action.stream), *["flush=True"] * action.flush]


def _argument(part: Structured, argument: Argument, copies: bool) -> str:
    """An argument; an exception may be kept longer than the memory of an array, and has copies."""
    if isinstance(argument, Known):
        return double_quoted(literal(argument.value) or "None")
    if isinstance(argument, Given):
        y = part.placed.results[argument.value]
        code = part.read(y).code
        return call("np.array", [code.text]).text if copies and y.aval.shape else code.text
    pieces = [piece if isinstance(piece, str) else _slot(part, piece) for piece in argument.pieces]
    return quoted_with_values(pieces)


_PLAIN = re.compile(r"[\w.,+\-*/()\[\] ]*")


def _slot(part: Structured, slot: Slot) -> tuple[str, str, str]:
    """A value in a text: its source, its conversion and its format."""
    y = part.placed.results[slot.value]
    if not _PLAIN.fullmatch(part.read(y).code.text) and y in part.pending and part.pending[y].depth:
        part.flush(y)
    code = part.read(y).code
    if slot.axis is not None:
        code = Code(f"{call('np.nonzero', [code.text]).text}[{slot.axis}]")
    if slot.conversion in ("r", "a") and not y.aval.shape:  # as Python has it: a number may be of another type by now
        kind = type(y.aval.dtype.type().item()).__name__ if y.aval.weak else f"np.{y.aval.dtype.type.__name__}"
        code = call(kind, [code.text])
    if slot.spec.startswith("%"):
        return f"'{slot.spec}' % {code.at(ATOM)}", "", ""
    return code.text, slot.conversion, slot.spec


# ---- names of classes


class Errors(NamedTuple):
    """The names of exceptions and warnings of checks in a module, and their imports."""

    names: dict[type[BaseException], str]
    taken: list[str]  # names of the module
    standard: list[str]  # lines that import, of Python's library and of others
    imports: list[str]
    packages: list[str]  # beside NumPy and Python's library
    kept: dict[str, Any]  # classes that no module has


def errors_of(nodes: Iterable[Node]) -> Errors:
    """Return the names of the exceptions and warnings that checks among nodes raise."""
    found = Errors({}, [], [], [], [], {})
    for node in nodes:
        action = action_of(node) if node.op is CHECK else None
        if isinstance(action, (Raise, Warn)) and action.error not in found.names:
            _add(found, action.error)
        if isinstance(action, Print) and action.stream and "import sys" not in found.standard:
            found.standard.append("import sys")
            found.taken.append("sys")
    return found


def _add(found: Errors, error: type[BaseException]) -> None:
    module, path = error.__module__, error.__qualname__
    top, _, rest = path.partition(".")
    if getattr(builtins, path, None) is error:
        name = path
    elif not _is_importable(error):
        name = top = free_name(error.__name__, found.taken)
        found.kept[name] = error
    elif module.partition(".")[0] == "numpy":
        name = top = f"np{module.removeprefix('numpy')}.{path}"
    else:
        alias = free_name(top, found.taken)
        name = f"{alias}.{rest}" if rest else alias
        package = module.partition(".")[0]
        lines = found.standard if package in sys.stdlib_module_names else found.imports
        lines.append(f"from {module} import {top}" + f" as {alias}" * (alias != top))
        found.packages.extend([package] * (lines is found.imports and package not in found.packages))
        top = alias
    found.names[error] = name
    found.taken.extend([top] * (not top.startswith("np.")))


def _is_importable(error: type) -> bool:
    """Whether a module has the class under its name."""
    if error.__module__ == "__main__":
        return False
    home: Any = sys.modules.get(error.__module__)
    for name in error.__qualname__.split("."):
        home = getattr(home, name, None)
    return home is error
