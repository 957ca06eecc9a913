"""Instrumented conditions of a module: what is compared in each, and which outcomes it has.

A condition is a comparison, a test, a mask, a call that may compare, or a body that may not be run at all (Myers, *The
art of software testing*, 1979, on the coverage of conditions).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import accumulate, islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from symgrad.core.graph import Op
from symgrad.frontend.conversion.templates import located
from symgrad.ops.define import OPERATORS

Place = tuple[str, int, int, int, int]  # the kind of a condition, and where it begins and ends in the text
COMPARISON, TEST, MASK, CALL, BODY = "comparison", "test", "mask", "call", "body"
_COMPARE, _CALL, _TELL = "_symgrad_compare", "_symgrad_call", "_symgrad_tell"
FEW = 8  # numbers of a container with which ``in`` compares


class Condition(NamedTuple):
    """A condition of a function: its place, and its text."""

    place: Place
    text: str

    @property
    def kind(self) -> str:
        return self.place[0]


class Watch(Protocol):
    """An observer of the conditions of a module that runs."""

    def note(self, place: Hashable, op: Op, inputs: Sequence[Any], params: Mapping[str, Any], /) -> None:
        """Take the operands of an operator with branches."""

    def told(self, place: Place, value: Any, /) -> None:
        """Take the outcome of a condition."""


def watching(watch: Watch) -> dict[str, Any]:
    """Return the functions that an instrumented module calls, by the names that it has for them."""
    tell = partial(_told, watch)
    return {_COMPARE: partial(_compared, watch), _CALL: partial(_called, watch), _TELL: tell}


# ---- the instrumented text


class Instrument(ast.NodeTransformer):
    """Puts conditions into the hands of functions that see their operands and outcomes."""

    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self._functions = 0  # around what is visited: a module decides nothing while it is loaded

    def _placed(self, node: Any, kind: str, text: str | None = None) -> ast.expr:
        place = (kind, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        if self._functions:
            self.conditions.append(Condition(place, text or ast.unparse(node)))
        return ast.Constant(place)  # type: ignore[arg-type]  # compiled as any constant

    def _inside(self, node: ast.AST) -> ast.AST:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1
        return node

    visit_FunctionDef = visit_Lambda = _inside

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        names = tuple(type(op).__name__ for op in node.ops)
        if not all(name in _COMPARISONS for name in names):
            return self.generic_visit(node)
        place = self._placed(node, COMPARISON)
        self.generic_visit(node)
        symbols: ast.expr = ast.Constant(names)  # type: ignore[arg-type]
        given = [place, symbols, node.left, *node.comparators]
        return located(ast.copy_location(ast.Call(ast.Name(_COMPARE, ast.Load()), given, []), node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "globals", "vars"):
            return self.generic_visit(node)
        place = self._placed(node, CALL)
        self.generic_visit(node)
        given = [place, node.func, *node.args]
        return located(ast.copy_location(ast.Call(ast.Name(_CALL, ast.Load()), given, node.keywords), node))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if not isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            return self.generic_visit(node)
        return self._tested(node, MASK)

    def _tested(self, node: Any, kind: str = TEST) -> Any:
        """Return a condition whose outcome is told; a comparison tells it itself, and parts of a condition theirs."""
        if isinstance(node, (ast.Compare, ast.BoolOp, ast.Constant)) or _is_not(node):
            return self.visit(node)
        place = self._placed(node, kind)
        inner: Any = self.generic_visit(node) if kind == MASK else self.visit(node)
        return located(ast.copy_location(ast.Call(ast.Name(_TELL, ast.Load()), [place, inner], []), node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.values = [self._tested(value) for value in node.values]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        node.operand = self._tested(node.operand) if _is_not(node) else self.visit(node.operand)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test, node.body, node.orelse = self._tested(node.test), self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.iter, node.ifs = self.visit(node.iter), [self._tested(test) for test in node.ifs]
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return node if _is_guard(node) else self._branching(node)

    def _branching(self, node: ast.If | ast.While) -> ast.AST:
        node.test = self._tested(node.test)
        for block in (node.body, node.orelse):
            block[:] = [self.visit(statement) for statement in block]
        return node

    visit_While = _branching

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._with_body(node, node.body, f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        return self._with_body(node, node.body, f"except {ast.unparse(node.type)}" if node.type else "except")

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        return self._with_body(node, node.body, f"case {ast.unparse(node.pattern)}")

    def _with_body(self, node: Any, body: list[ast.stmt], text: str) -> ast.AST:
        """Tell that a body is run."""
        first = body[0]
        place = self._placed(node if hasattr(node, "lineno") else first, BODY, text)
        self.generic_visit(node)
        call = ast.Call(ast.Name(_TELL, ast.Load()), [place, ast.Constant(True)], [])
        body.insert(0, located(ast.copy_location(ast.Expr(call), first)))
        return node


def _is_guard(node: ast.If) -> bool:
    """Whether a branch refuses arguments by their form: a module is compared where they have that of the model."""
    of_form = (isinstance(x, ast.Attribute) and x.attr in ("shape", "ndim", "dtype") for x in ast.walk(node.test))
    return isinstance(node.body[0], ast.Raise) and not node.orelse and any(of_form)


def reached(statements: Sequence[ast.stmt], function: str) -> list[ast.stmt]:
    """Return the statements of a module that define a function and what it uses, directly or not."""
    used, found = {function}, list[ast.stmt]()
    while more := [s for s in statements if s not in found and not used.isdisjoint(_defined(s))]:
        found += more
        used.update(x.id for s in more for x in ast.walk(s) if isinstance(x, ast.Name))
    return [s for s in statements if s in found]


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    return {x.id for x in ast.walk(statement) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


# ---- what it calls

_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Lt": ("less", operator.lt), "LtE": ("less_equal", operator.le), "Gt": ("greater", operator.gt),
    "GtE": ("greater_equal", operator.ge), "Eq": ("equal", operator.eq), "NotEq": ("not_equal", operator.ne),
    "In": ("", lambda x, y: x in y), "NotIn": ("", lambda x, y: x not in y),
}  # fmt: skip
_OF_PYTHON: dict[Any, Any] = {
    abs: np.absolute, math.floor: np.floor, math.ceil: np.ceil, round: np.rint, int: np.trunc, operator.lt: np.less,
    operator.le: np.less_equal, operator.gt: np.greater, operator.ge: np.greater_equal, operator.eq: np.equal,
    operator.ne: np.not_equal, math.isclose: np.equal, np.isclose: np.equal, np.allclose: np.equal,
    np.array_equal: np.equal, np.array_equiv: np.equal, sorted: np.argsort, np.sort: np.argsort,
}  # fmt: skip
_OF_TYPES = (isinstance, issubclass, hasattr, callable)
_PARAMETERS = {"axis", "decimals", "side", "right"}


@cache
def _with_branches() -> dict[Any, Op]:
    """Return the operators with branches, by the functions that evaluate them."""
    found = {op.evaluate: op for op in OPERATORS.values() if op.branch_distance is not None}
    return found | {python: found[function] for python, function in _OF_PYTHON.items() if function in found}


def _told(watch: Watch, place: Place, value: Any) -> Any:
    if _are_numbers((value,)) and np.asarray(value).dtype.kind in "iuf":
        watch.note(place, OPERATORS["not_equal"], (np.array(value), np.array(0)), {})
    watch.told(place, bool(value) if place[0] == TEST and np.size(value) == 1 else value)
    return value


def _compared(watch: Watch, place: Place, names: Sequence[str], *operands: Any) -> Any:
    """Compare as Python does, but for operands of a chain, all of which are evaluated."""
    for i, (name, left, right) in enumerate(zip(names, operands, operands[1:], strict=False)):
        for j, (op, pair) in enumerate(_compares(name, left, right)):
            if _are_numbers(pair):
                watch.note((*place, i, j), op, [np.array(x) for x in pair], {})
    value: Any = True
    for name, left, right in zip(names, operands, operands[1:], strict=False):
        value = value and _COMPARISONS[name][1](left, right)
    watch.told(place, value)
    return value


def _compares(name: str, left: Any, right: Any) -> Iterator[tuple[Op, tuple[Any, Any]]]:
    """Yield the operators and operands of a comparison; ``in`` compares with each number of a container."""
    if _COMPARISONS[name][0]:
        yield OPERATORS[_COMPARISONS[name][0]], (left, right)
    elif isinstance(right, (tuple, list, set, frozenset, dict, np.ndarray)):
        for each in islice(np.ravel(right) if isinstance(right, np.ndarray) else right, FEW):
            yield OPERATORS["equal"], (left, each)


def _called(watch: Watch, place: Place, function: Any, *args: Any, **kwargs: Any) -> Any:
    if function in _OF_TYPES:
        return function(*args, **kwargs)
    for i, (op, inputs) in enumerate(_calls(function, args, kwargs)):
        if _are_numbers(inputs):
            with suppress(Exception):  # arguments that this operator does not have
                params = {k: x for k, x in kwargs.items() if k in _PARAMETERS}
                watch.note((*place, i), op, [np.array(x) for x in inputs], params)
    value = function(*args, **kwargs)
    watch.told(place, value)
    return value


def _calls(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[Op, Sequence[Any]]]:
    """Yield the operators with branches, and their operands, that a call evaluates."""
    of_array = isinstance(getattr(function, "__self__", None), (np.ndarray, np.generic))
    inputs = (function.__self__, *args) if of_array else args
    named = getattr(np, function.__name__, None) if of_array else function
    if named in (max, min):  # of Python
        numbers = args if len(args) > 1 else [*args[0]] if args and isinstance(args[0], (tuple, list)) else []
        op = OPERATORS["maximum" if named is max else "minimum"]
        if _are_numbers(numbers):
            yield from ((op, pair) for pair in zip(accumulate(numbers[:-1], named), numbers[1:], strict=False))
        return
    if named is np.clip:
        yield from _clips(*inputs, **kwargs)
        return
    op_of = _with_branches().get(named) if isinstance(named, Hashable) else None
    if op_of is not None and inputs:
        yield op_of, [*map(_as_array, inputs[:2] if named in _OF_PYTHON else inputs)]


def _clips(
    x: Any, a_min: Any = None, a_max: Any = None, *_: Any, min: Any = None, max: Any = None, **__: Any
) -> Iterator[tuple[Op, Sequence[Any]]]:
    """Yield the comparisons with the bounds of ``np.clip``, of which one may be missing."""
    for name, bounds in (("maximum", (a_min, min)), ("minimum", (a_max, max))):
        yield from ((OPERATORS[name], [_as_array(x), _as_array(bound)]) for bound in bounds if bound is not None)


def _as_array(x: Any) -> Any:
    """Return a list or tuple of numbers as the array that NumPy makes of it."""
    if not isinstance(x, (tuple, list)) or not all(map(_is_number, x)):
        return x
    return np.array(x)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(x, np.ndarray) or _is_number(x) for x in values)


def _is_number(x: Any) -> bool:
    return isinstance(x, (np.generic, bool, int, float))
