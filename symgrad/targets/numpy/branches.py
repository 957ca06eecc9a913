"""Branches in the generated source: ``if``, ``elif`` and ``else``, or a conditional expression where it is short."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.core.graph import Node
from symgrad.spelling import CHOICE, COMPARE, OR, Code, Name
from symgrad.targets.numpy.body import LONGEST, Expr
from symgrad.targets.numpy.statements import Statement, Suite, Verbatim
from symgrad.targets.numpy.structured import Move, Structured


def write_branch(body: Structured, node: Node) -> None:
    """What one of two regions gives, under the names of the items."""
    pred, *operands = node.inputs
    regions, items = dict(node.params), body.items[node]
    given = [body.named(x) for x in operands]
    condition = body.read(pred)
    for item in items.values():
        body.take_name(item, node)
    names = [Name(body.names.of(item)) for item in items.values()]
    parts = []
    for region in (regions["then"], regions["other"]):
        results = [region.body.outputs[i] for i in items]
        part = body.part(node, region, results)
        part.receive(given)
        part.begin([Move(y, name) for y, name in zip(results, names, strict=True)])
        parts.append(part)
    for i, item in enumerate(items.values()):
        if not all(part.is_own(part.referred[i]) for part in parts):
            body.borrowed.add(item)
    body.consumed(node)
    if len(items) == 1 and not any(part.written for part in parts):
        (item,) = items.values()
        code = _conditional(condition.code, *[part.code(y) for part in parts for y in part.kept])
        if len(code.text) <= LONGEST:
            reads = [r for x in node.inputs for r in body.read(x).reads]
            body.offer(item, Expr(code, condition.depth + 1, tuple(reads)))
            return
    then, other = [_without_idle_remarks(part.end()) for part in parts]
    text = condition.code.text if then else f"not {condition.code.at(COMPARE)}"
    if then or other:
        first, others = (then, _others(other)) if then else (other, [])
        reads = [*condition.reads, *operands]
        body.write_down(node, Suite([f"if {text}:"], first, others, makes=node, reads=reads))


def _without_idle_remarks(statements: Sequence[Statement]) -> Sequence[Statement]:
    return statements if any(type(x) is not Verbatim for x in statements) else ()


def _conditional(condition: Code, then: Code, other: Code) -> Code:
    return Code(f"{then.at(OR)} if {condition.at(COMPARE)} else {other.at(CHOICE)}", CHOICE)


def _others(statements: Sequence[Statement]) -> list[Suite]:
    """The clauses behind the first: one branch in another is an ``elif``."""
    if not statements:
        return []
    *remarks, last = statements
    if isinstance(last, Suite) and last.text[0].startswith("if ") and all(type(x) is Verbatim for x in remarks):
        return [Suite([f"el{last.text[0]}"], [*remarks, *last.body]), *last.clauses]
    return [Suite(["else:"], statements)]
