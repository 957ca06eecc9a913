"""Programs of scalars alone, written on Python floats and with `math`: several times as fast as NumPy's scalars."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache

import numpy as np

from symgrad.core.graph import CONSTANT, INPUT, Aval, Graph, Node, Op
from symgrad.ops.astype import ASTYPE
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.choice import WHERE
from symgrad.ops.define import flat
from symgrad.ops.marks import ALIAS, STOP
from symgrad.spelling import Code, call, spell_number
from symgrad.targets.numpy.body import Body, Expr
from symgrad.targets.numpy.names import Scope, global_name
from symgrad.targets.numpy.statements import Statement, Suite, returned

FLOAT, BOOL = np.dtype(float), np.dtype(bool)
EXACT = 1 << 53  # up to which an integer is a float
SAME = (ALIAS, STOP, ASTYPE, BARRIER)


def is_scalar(graph: Graph) -> bool:
    """Whether all values are numbers in double precision, or truths, and every operator has a form on Python floats."""
    if not all(map(_fits, graph.outputs)):
        return False
    nodes = graph.live
    return (
        any(node.inputs for node in nodes)
        and all(map(_fits, nodes))
        and not any(_source(y).op is INPUT and not y.aval.weak for y in graph.outputs)  # may be arrays of no dimensions
    )


def _fits(node: Node) -> bool:
    aval = node.aval
    if not isinstance(aval, Aval) or aval.shape:
        return False
    if node.op is CONSTANT:
        value = node.constant
        return aval.dtype in (FLOAT, BOOL) or (aval.weak and aval.dtype.kind == "i" and abs(value) <= EXACT)
    if node.op is INPUT:
        return aval.dtype == FLOAT
    return node.op.scalar is not None and aval.dtype in (FLOAT, BOOL) and _takes(node)


def _takes(node: Node) -> bool:
    """Truths are not for calculating: in Python True + True is 2."""
    truths = [x.aval.dtype == BOOL for x in node.inputs]
    if node.op is WHERE:
        return truths == [True, False, False]
    return not any(truths) or node.op is ASTYPE or (all(truths) and node.op.partials is flat)


def _source(node: Node) -> Node:
    """The value that this one is, but for marks."""
    while node.op in SAME and not node.inputs[0].aval.weak and node.inputs[0].aval.dtype == node.aval.dtype:
        node = node.inputs[0]
    return node


class ScalarBody(Body):
    """Statements on Python floats."""

    def __init__(self, outputs: Sequence[Node], scope: Scope) -> None:
        super().__init__(outputs, scope, nested=True)
        self.own: dict[Op, str] = {}
        self.definitions: list[Statement] = []  # of the functions of NumPy that `math` does not have
        for node in self.nodes:
            form = node.op.scalar
            if isinstance(form, str) and not _is_path(form) and node.op not in self.own:
                name = self.own[node.op] = self.names.fresh(global_name(node.op.name))
                head = f"def {name}({', '.join('abc'[: len(node.inputs)])}):"
                self.definitions.append(Suite([head], [returned(Code(form))]))

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        form = node.op.scalar
        if isinstance(form, str):
            return call(self.own.get(node.op, form), [x.text for x in inputs])
        assert form is not None, f"{node.op} has no form on Python floats"
        return form(node, *inputs)

    def constant(self, node: Node) -> Expr:
        value = node.constant
        return Expr(spell_number(bool(value) if node.aval.dtype == BOOL else float(value), weak=True), 0, ())

    def results(self, outputs: Sequence[Node]) -> dict[Node, tuple[Code, Code]]:
        return {y: (self.result(y), self.result(y)) for y in outputs}

    def result(self, node: Node) -> Code:
        """A result as what NumPy makes of it."""
        if node.op is CONSTANT:
            return super().constant(node).code
        code = self.code(node)
        if node.aval.weak:
            return code
        kind = "array" if _source(node).op is WHERE else "bool_" if node.aval.dtype == BOOL else "float64"
        return call(f"np.{kind}", [code.text])


@cache
def _is_path(form: str) -> bool:
    """Whether a form names a function, rather than being an expression in a, b and c."""
    return isinstance(ast.parse(form, mode="eval").body, (ast.Name, ast.Attribute))
