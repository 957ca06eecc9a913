"""Branches in the generated source: ``if``, ``elif`` and ``else``, or a conditional expression where it is short."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.analysis.values import number
from symgrad.core.graph import Node
from symgrad.spelling import CHOICE, EITHER, OR, Code, Name, Truth, infix, negated, tested
from symgrad.targets.numpy.body import LONGEST, Expr
from symgrad.targets.numpy.statements import Statement, Suite, Verbatim
from symgrad.targets.numpy.structured import Move, Structured


def write_branch(body: Structured, node: Node) -> None:
    """Write a branch, whose results get the names of the items."""
    pred, *operands = node.inputs
    items = body.placed.items[node]
    given = [body.named(x) for x in operands]
    condition = body.read(pred)
    test, reads = tested(condition.code), (*condition.reads, *operands)
    body.consumed(node)
    parts = [_part(body, node, side, operands) for side in ("then", "other")]
    names, rebound = _names(body, node)
    for part in parts:
        part.receive(given, rebound)
        part.begin(list(map(Move, part.placed.results, names)))
    clause = body.is_side and any(item in body.goes for item in [*items.values()][:1])  # which becomes an `elif`
    if len(items) == 1 and not clause and not any(part.written for part in parts):
        (item,) = items.values()
        then, other = [y for part in parts for y in part.kept]
        is_condition = then.aval == node.inputs[0].aval and (number(then), number(other)) == (True, False)
        sides = [part.code(y) for part, y in zip(parts, (then, other), strict=True)]
        if sides[0].text == sides[1].text:
            code = sides[0]
        else:
            code = condition.code if is_condition else _conditional(test, *sides)
            if item.aval.dtype == bool and not is_condition:
                code = _as_truth(code, test, (then, other), sides)
        if len(code.text) <= LONGEST:
            body.offer(item, Expr(code, condition.depth + 1, reads))
            return
    first, second = [_without_idle_remarks(part.end()) for part in parts]
    text = (test if first else negated(test)).text
    if first or second:
        first, others = (first, _others(second)) if first else (second, [])
        body.write_down(node, Suite([f"if {text}:"], first, others, makes=node, reads=reads))


def _part(body: Structured, node: Node, side: str, operands: Sequence[Node]) -> Structured:
    """Return the writer of one side of a branch."""
    region, placed = dict(node.params)[side], body.placed.branches[node]
    part = body.part(node, placed.then if side == "then" else placed.other, region)
    part.is_side = True
    part.know_from(body, dict(zip(operands, part.placed.given, strict=True)))
    return part


def _names(body: Structured, node: Node) -> tuple[list[Name], set[int]]:
    """Return the names of results, and the operands with these names: one that a side leaves keeps its own."""
    rebound: set[int] = set()
    taken: set[str] = set()
    for item in body.placed.items[node].values():
        if body.goes.get(item, "") not in taken and body.take_name(item, node):
            taken.add(body.names.of(item))
            continue
        operands = {node.inputs[1 + k]: k for k in body.placed.branches[node].continued[item]}
        going_on = [x for x in operands if body.passes_on(x, node) and body.hint(item) in (None, body.hint(x))]
        if going_on and body.names.of(going_on[0]) not in taken:
            rebound.add(operands[going_on[0]])
            body.pass_on(going_on[0], item, node)
            taken.add(body.names.of(item))
    return [Name(body.names.of(item)) for item in body.placed.items[node].values()], rebound


def _without_idle_remarks(statements: Sequence[Statement]) -> Sequence[Statement]:
    return statements if any(type(x) is not Verbatim for x in statements) else ()


def _conditional(condition: Code, then: Code, other: Code) -> Code:
    return Code(f"{then.at(OR)} if {condition.at(EITHER)} else {other.at(CHOICE)}", CHOICE)


def _as_truth(code: Code, test: Code, chosen: Sequence[Node], sides: Sequence[Code]) -> Code:
    """Choose between two booleans; where that is tested, by ``and`` or ``or`` if one of them is known."""
    then, other = map(tested, sides)
    always, never = number(chosen[0]), number(chosen[1])
    if never is not None and not never:
        return Truth(code.text, code.level, test=infix("and", test, then))
    if always:
        return Truth(code.text, code.level, test=infix("or", test, other))
    return code


def _others(statements: Sequence[Statement]) -> list[Suite]:
    """Return the clauses after the first: a branch in an ``else`` becomes an ``elif``."""
    if not statements:
        return []
    *remarks, last = statements
    if isinstance(last, Suite) and last.text[0].startswith("if ") and all(type(x) is Verbatim for x in remarks):
        return [Suite([f"el{last.text[0]}"], [*remarks, *last.body]), *last.clauses]
    return [Suite(["else:"], statements)]
