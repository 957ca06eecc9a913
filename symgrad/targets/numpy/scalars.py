"""Programs of scalars, written on Python floats and with `math`: several times as fast as NumPy's scalars."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from symgrad.analysis.values import raises_at_zero
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SIZE, Aval, Graph, Node, per_node
from symgrad.core.region import Region, regions_of
from symgrad.lowering.placement import Placement
from symgrad.lowering.region_aliases import origins
from symgrad.lowering.stacks import readers_of
from symgrad.ops.astype import ASTYPE
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.choice import WHERE
from symgrad.ops.control import COND, KEPT, NUMBER, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.ops.define import flat
from symgrad.ops.elementwise import POWER, RECIPROCAL
from symgrad.ops.index import ADD_AT, GET, SET
from symgrad.ops.index_expressions import Slot, spell_key
from symgrad.ops.marks import ALIAS, STOP
from symgrad.spelling import ATOM, Call, Code, call, spell_number
from symgrad.targets.numpy.body import Expr
from symgrad.targets.numpy.control import Control
from symgrad.targets.numpy.names import Numbers, Scope, global_name
from symgrad.targets.numpy.statements import Suite, returned

FLOAT, BOOL = np.dtype(float), np.dtype(bool)
EXACT = 1 << 53  # up to which an integer is a float
SAME = (ALIAS, STOP, ASTYPE, BARRIER)
TOTAL = (
    "math.tanh", "math.atan", "math.atan2", "math.fabs", "math.copysign", "math.isnan", "math.isfinite", "math.isinf",
)  # fmt: skip
"""Functions that raise for no number."""

RAISED = "except (ArithmeticError, ValueError):"
EXCEPT = f"{RAISED}  # NumPy has infinities and NaNs for these"


def is_scalar(graph: Graph) -> bool:
    """Whether all values are scalars in double precision, or booleans, with operators that have a form on Python
    floats.
    """
    if not all(map(_fits, graph.outputs)):
        return False
    nodes = graph.live
    return (
        any(node.inputs for node in nodes)
        and all(_fits(node) or _is_for_loops(node, nodes) for node in nodes)
        and not any(_source(y).op is INPUT and not y.aval.weak for y in graph.outputs)  # may be arrays of no dimensions
    )


def _is_for_loops(stack: Node, nodes: Sequence[Node]) -> bool:
    """Whether a value is a stack of one loop that other loops go through, which is a list."""
    users = [node for node in nodes if stack in node.inputs]
    return stack.op is ITEM and bool(users) and readers_of(stack, users, ()) is not None


def _fits(node: Node) -> bool:
    aval = node.aval
    if node.op is COND or node.op is SCAN:
        return _has_numbers(node) and not any(x.aval.shape for region in regions_of(node) for x in region.parameters)
    if node.op is ITEM:
        return _may_stand(node) and not node.aval.shape
    if not isinstance(aval, Aval) or aval.shape:
        return False
    if node.op is CONSTANT:
        value = node.constant
        return aval.dtype in (FLOAT, BOOL) or (aval.weak and aval.dtype.kind == "i" and abs(value) <= EXACT)
    if node.op is INPUT:
        return aval.dtype == FLOAT
    return node.op.scalar is not None and aval.dtype in (FLOAT, BOOL) and _takes(node)


# ---- loops over numbers


@per_node
def runs_on_floats(node: Node) -> bool:
    """Whether a loop carries, slices and stacks single numbers, or assigns them in arrays, by operators of Python's."""
    works = any(x.op not in (CONSTANT, SIZE) for region in regions_of(node) for x in region.nodes)
    return works and _has_numbers(node)


def _has_numbers(node: Node) -> bool:
    return all(map(_is_of_numbers, regions_of(node))) and (node.op is not SCAN or _moves_numbers(node))


def _moves_numbers(loop: Node) -> bool:
    """Whether rows, stacks and carries are scalars, or arrays that are assigned into."""
    parts = loop_of(loop)
    if any(x.aval.shape for x in (*(x.value for x in parts.xs), *parts.ys)):
        return False
    if any(x.aval == KEPT for x in (*(c.update for c in parts.carry), *(x.value for x in parts.consts))):
        return False
    arrays = [i for i, c in enumerate(parts.carry) if c.update.aval.shape]
    return not arrays or all(origins(parts.body)[i] == i for i in arrays)


def _is_of_numbers(region: Region) -> bool:
    values = [*region.parameters, *region.results]
    return all(_may_stand(x) or x.aval == KEPT for x in values) and fit_in_loop(region.nodes)


def _may_stand(x: Node) -> bool:
    """Whether a value in a loop is a Python number, or an array whose elements are read."""
    aval = x.aval
    return isinstance(aval, Aval) and (aval.dtype in (FLOAT, BOOL) or (aval.weak and aval.dtype.kind == "i"))


def fit_in_loop(nodes: Sequence[Node]) -> bool:
    """Whether Python computes nodes of single numbers itself, or takes them out of arrays or lists."""
    return all(_fits_in_loop(node) or _is_for_loops(node, nodes) for node in nodes)


def _fits_in_loop(node: Node) -> bool:
    if node.op is SCAN:  # of which the items say what becomes of stacks
        return _has_numbers(node)
    if node.op is COND:
        avals: Any = node.aval
        return all(aval.shape == () for aval in avals) and _has_numbers(node)
    if node.op in (CONSTANT, SIZE, ITEM):
        return _may_stand(node) and node.aval.shape == () and (node.op is not CONSTANT or _fits(node))
    if node.op in (GET, SET, ADD_AT):
        value = node.inputs[1 : 1 + (node.op is not GET)]
        return _may_stand(node) and _names_one(node) and all(x.aval.shape == () for x in value)
    if node.op is NUMBER:
        return _may_stand(node) and node.aval.shape == ()
    if node.aval == KEPT:
        return node.op is ASTYPE and _may_stand(node.inputs[0])
    if not _may_stand(node) or node.aval.shape or node.op.scalar is None or not _takes(node):
        return False
    return not any(x.aval == KEPT for x in node.inputs) and (node.aval.dtype.kind != "i" or node.op.keeps_weak)


def _names_one(node: Node) -> bool:
    """Whether a key names one place, by Python's integers."""
    key = dict(node.params)["key"]
    places = node.inputs[1:] if node.op is GET else node.inputs[2:]
    return len(key) == node.inputs[0].aval.ndim and all(
        type(item) is int or (isinstance(item, Slot) and places[item.input].aval.weak) for item in key
    )


@per_node
def may_raise(node: Node) -> bool:
    """Whether Python raises for a node, at some numbers, where NumPy gives an infinity or a NaN."""
    if inner := regions_of(node):
        return any(may_raise(x) for region in inner for x in region.nodes)
    form = node.op.scalar
    if isinstance(form, str):
        return form.startswith("math.") and is_path(form) and form not in TOTAL
    return raises_at_zero(node) or node.op.package != "" or node.op in (POWER, RECIPROCAL)


def _takes(node: Node) -> bool:
    """Whether a node takes no booleans to calculate with: in Python True + True is 2."""
    truths = [x.aval.dtype == BOOL for x in node.inputs]
    if node.op is WHERE:
        return truths == [True, False, False]
    return not any(truths) or node.op is ASTYPE or (all(truths) and node.op.partials is flat)


def _source(node: Node) -> Node:
    """The value that this one is, but for marks."""
    while node.op in SAME and not node.inputs[0].aval.weak and node.inputs[0].aval.dtype == node.aval.dtype:
        node = node.inputs[0]
    return node


class ScalarBody(Control):
    """Statements on Python floats."""

    def __init__(self, placed: Placement, scope: Scope) -> None:
        super().__init__(placed, scope, nested=True)
        for node in self.placed.nodes:
            form = node.op.scalar
            if isinstance(form, str) and not is_path(form) and node.op not in scope.forms:
                name = scope.forms[node.op] = self.names.fresh(global_name(node.op.name))
                head = f"def {name}({', '.join('abc'[: len(node.inputs)])}):"
                scope.definitions.append(Suite([head], [returned(Code(form))]))

    def like(self, placed: Placement, scope: Scope) -> ScalarBody:
        return ScalarBody(placed, scope)

    def visit(self, node: Node) -> None:
        if self._is_the_same(node):
            self.pending[node] = self.under_its_name(node.inputs[0])
        else:
            super().visit(node)

    def _is_the_same(self, node: Node) -> bool:
        """Whether several read it as another kind of a number that has a name: Python has one kind."""
        if (
            node.op is not ASTYPE
            or len(self.placed.uses[node]) < 2
            or node in self.placed.outputs
            or node in self.names.hints
        ):
            return False
        (x,) = node.inputs
        return bool(x.inputs) and x.aval.dtype == node.aval.dtype == FLOAT

    def spell(self, node: Node, inputs: Sequence[Code]) -> Code:
        form, numbers = node.op.scalar, self.scope.numbers
        if node.op is GET:
            array, *places = inputs
            if not node.inputs[0].aval.shape:  # x[()] of a number
                return array
            items = [spell_key((item,), places) for item in dict(node.params)["key"]]
            return call(f"{array.at(ATOM)}.item", items)
        if isinstance(form, str):
            return _in_words_of(numbers, call(self.scope.forms.get(node.op, form), [x.text for x in inputs]))
        assert form is not None, f"{node.op} has no form on Python floats"
        if may_raise(node) and not node.aval.weak and all(x in numbers.pythons for x in node.inputs):
            i = node.op.pole or 0
            inputs = [call(numbers.kind, [x.text]) if k == i else x for k, x in enumerate(inputs)]
        return _in_words_of(numbers, form(node, *inputs))

    def constant(self, node: Node) -> Expr:
        value = node.constant
        if node.aval.dtype == BOOL or not self._is_among_floats(node):
            return Expr(spell_number(value.item() if hasattr(value, "item") else value, weak=True), 0, ())
        return Expr(spell_number(float(value), weak=True), 0, ())

    def _is_among_floats(self, node: Node) -> bool:
        """Whether an integer is there to calculate with floats, for which it is one."""
        if node.aval.dtype == FLOAT or node in self.placed.outputs:
            return node.aval.dtype == FLOAT
        users = self.placed.uses[node]
        return all(user.op.elementwise and any(x.aval.dtype == FLOAT for x in user.inputs) for user in users)

    def results(self, outputs: Sequence[Node]) -> dict[Node, tuple[Code, Code]]:
        return {y: (self.result(y), self.result(y)) for y in outputs}

    def result(self, node: Node) -> Code:
        """Return a result converted to NumPy's type."""
        if node.op is CONSTANT:
            return super().constant(node).code
        code = self.code(node)
        if node.aval.weak:
            return code
        kind = "array" if _source(node).op is WHERE else "bool_" if node.aval.dtype == BOOL else "float64"
        return call(f"np.{kind}", [code.text])


def _in_words_of(numbers: Numbers, code: Code) -> Code:
    """The call of a function or type of Python's by what source calls it that may stand for NumPy's as well."""
    if not isinstance(code, Call):
        return code
    _, dot, name = code.function.partition("math.")
    if dot:
        return call(f"{numbers.functions}.{name}", code.arguments)
    return call(numbers.kind, code.arguments) if code.function == "float" else code


@cache
def is_path(form: str) -> bool:
    """Whether a form names a function, rather than being an expression in a, b and c."""
    return isinstance(ast.parse(form, mode="eval").body, (ast.Name, ast.Attribute))
