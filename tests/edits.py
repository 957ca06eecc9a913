"""Edits of generated modules: those that change a result, at one place each, and those that change none.

``python -m tests.edits --count 1000 --rewrites 600`` plants edits of all kinds in programs of the tests, in random ones
with thresholds and, with ``--corpus FOLDER``, in those of a corpus. An edit that `sg.verify` accepts is run beside the
module as it was at many arguments: around all numbers of the text, at several scales. It is missed if the results are
others anywhere, and told if the verdict says which branches it has not seen. A rewrite that changes no result is
accepted, or it is a false alarm.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import symgrad as sg
from symgrad.verification.checking import verdict_on
from symgrad.verification.model import Model
from symgrad.verification.scripts import Endless, Script

ITERATIONS = 20_000  # of the loops of a call: with some arguments a loop has no end


class Edit(NamedTuple):
    """A kind of edit, the line that it is in, and the whole text."""

    kind: str
    line: int
    text: str


def planted(text: str) -> list[Edit]:
    """All the edits of all kinds at the expressions of a module, but for what it has from the runtime."""
    return [
        Edit(kind, node.lineno, replaced(text, node, new))
        for part in Script(text, "edited.py").statements
        for names in [local_names(part) if isinstance(part, ast.FunctionDef) else []]
        for node in ast.walk(part)
        for kind, change in KINDS.items()
        for new in change(node, names)
    ]


def definition(text: str, function: str) -> ast.FunctionDef:
    return next(s for s in ast.parse(text).body if isinstance(s, ast.FunctionDef) and s.name == function)


def local_names(body: ast.FunctionDef) -> list[str]:
    stored = [node.id for node in ast.walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return list(dict.fromkeys([*(a.arg for a in body.args.args), *stored]))


def replaced(text: str, node: ast.expr, new: str) -> str:
    """The text with other source for one expression; lines keep their numbers."""
    lines = text.split("\n")
    first, last = node.lineno - 1, node.end_lineno - 1
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    return "\n".join([*lines[:first], f"{head}{new}{tail}", *[""] * (last - first), *lines[last + 1 :]])


# ---- the kinds: for an expression the sources that may take its place


def sign(node, names):
    match node:
        case ast.UnaryOp(ast.USub(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.BinOp(left, ast.Add(), right):
            yield f"({ast.unparse(left)} - {paren(right)})"
        case ast.BinOp(left, ast.Sub(), right):
            yield f"({ast.unparse(left)} + {paren(right)})"


def factor(node, names):
    match node:
        case ast.BinOp(_, ast.Mult() | ast.Div() | ast.MatMult(), _):
            yield f"(1.001 * ({ast.unparse(node)}))"
        case ast.Constant(float(value)) if value:
            yield repr(value * 1.001)


def axis(node, names):
    match node:
        case ast.Call(func, args, [*keywords]):
            for i, keyword in enumerate(keywords):
                if keyword.arg == "axis":
                    other = "0" if ast.unparse(keyword.value) in ("1", "-1", "2") else "-1"
                    rest = [f"{k.arg}={ast.unparse(k.value)}" for j, k in enumerate(keywords) if j != i]
                    given = [*map(ast.unparse, args), f"axis={other}", *rest]
                    yield f"{ast.unparse(func)}({', '.join(given)})"


def transposed(node, names):
    match node:
        case ast.Attribute(value, "T"):
            yield f"({ast.unparse(value)})"
        case ast.BinOp(left, ast.MatMult(), right):
            yield f"({paren(left)}.T @ {paren(right)})"
            yield f"({paren(left)} @ {paren(right)}.T)"


def off_by_one(node, names):
    match node:
        case ast.Subscript(value, key):
            keys = key.elts if isinstance(key, ast.Tuple) else [key]
            for i, part in enumerate(keys):
                for new in moved_slice(part):
                    others = [new if i == j else ast.unparse(k) for j, k in enumerate(keys)]
                    yield f"{ast.unparse(value)}[{', '.join(others)}]"


def moved_slice(part) -> Iterator[str]:
    if isinstance(part, ast.Slice) and (part.lower or part.upper):
        lower, upper = (ast.unparse(x) if x else "" for x in (part.lower, part.upper))
        yield f"{lower} + 1:{upper}" if lower else f":{upper} - 1"


def wrong_variable(node, names):
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        i = names.index(node.id)
        for other in (names[i - 1], names[(i + 1) % len(names)]):
            if other != node.id:
                yield other


def dropped_term(node, names):
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
            yield f"({ast.unparse(left)})"
            yield f"({ast.unparse(right)})"


WITH_THRESHOLDS = {
    *("greater", "greater_equal", "less", "less_equal", "maximum", "minimum", "fmax", "fmin", "clip", "heaviside"),
    *("searchsorted", "digitize", "interp", "array"),  # an array of numbers may be one of bins
}
STRICT = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
TURNED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<=", ast.Eq: "!=", ast.NotEq: "=="}
NAMES = {"less": "less_equal", "greater": "greater_equal", "less_equal": "less", "greater_equal": "greater"}


def compared(node) -> list[ast.expr]:
    """Return the operands of a comparison, also of one that is a function."""
    match node:
        case ast.Compare(left, [_], [right]):
            return [left, right]
        case ast.Call(ast.Attribute(_, name), args) if name in WITH_THRESHOLDS:
            return args
    return []


def threshold(node, names):
    """Another number where numbers are compared: by a little, by a twentieth, by a lot."""
    for operand in compared(node):
        for part in ast.walk(operand):
            match part:
                case ast.Constant(int(value) | float(value)) if type(value) is not bool:
                    for new in (value * 1.001, value * 1.05, value * 0.7, value * 4) if value else (0.01, -0.3):
                        yield with_part(node, part, repr(new))


def strictness(node, names):
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in STRICT:
            yield f"({ast.unparse(left)} {STRICT[type(op)]} {ast.unparse(right)})"
        case ast.Call(ast.Attribute(_, name)) if name in NAMES:
            yield ast.unparse(node).replace(name, NAMES[name], 1)


def direction(node, names):
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in TURNED:
            yield f"({ast.unparse(left)} {TURNED[type(op)]} {ast.unparse(right)})"
        case ast.Call(ast.Attribute(_, "maximum" | "minimum" as name)):
            yield ast.unparse(node).replace(name, {"maximum": "minimum", "minimum": "maximum"}[name], 1)


def branches(node, names):
    """Branches that change places."""
    match node:
        case ast.Call(ast.Attribute(_, "where"), [condition, a, b]):
            yield f"np.where({ast.unparse(condition)}, {ast.unparse(b)}, {ast.unparse(a)})"
        case ast.IfExp(test, a, b):
            yield f"({ast.unparse(b)} if {ast.unparse(test)} else {ast.unparse(a)})"


def mask(node, names):
    """A condition less, or its contrary."""
    match node:
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr(), right):
            yield f"({ast.unparse(left)})"
            yield f"({ast.unparse(right)})"
        case ast.BoolOp(_, [first, second]):
            yield f"({ast.unparse(first)})"
            yield f"({ast.unparse(second)})"
        case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
            yield f"({ast.unparse(operand)})"


def wrong_index(node, names):
    match node:
        case ast.Subscript(value, ast.Constant(int(number))) if isinstance(node.ctx, ast.Load):
            yield f"{ast.unparse(value)}[{number + 1 if number >= 0 else number - 1}]"


def buffer(node, names):
    """Another buffer for a result: one in which something may stand that is read later."""
    match node:
        case ast.Call(func, args, keywords):
            for keyword in keywords:
                match keyword:
                    case ast.keyword("out", ast.Name(name)):
                        stem = name.rstrip("0123456789")
                        for other in names:
                            if other != name and other.rstrip("0123456789") == stem:
                                rest = [f"{k.arg}={ast.unparse(k.value)}" for k in keywords if k is not keyword]
                                given = [*map(ast.unparse, args), *rest, f"out={other}"]
                                yield f"{ast.unparse(func)}({', '.join(given)})"


def iterations(node, names):
    """One iteration less, or one more; a loop without an end."""
    match node:
        case ast.Call(ast.Name("range"), [*first, stop]) if len(first) < 2:
            for change in (" - 1", " + 1"):
                yield f"range({', '.join([*map(ast.unparse, first), ast.unparse(stop) + change])})"


def with_part(node: ast.expr, part: ast.expr, new: str) -> str:
    """The source of an expression with other source for a part of it."""
    copy = ast.parse(ast.unparse(node), mode="eval").body
    at = [id(x) for x in ast.walk(node)].index(id(part))
    others = [*ast.walk(copy)]
    others[at].value = ast.literal_eval(new)
    return f"({ast.unparse(copy)})"


def paren(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


KINDS: dict[str, Callable[..., Iterator[str]]] = {
    "sign": sign,
    "factor": factor,
    "axis": axis,
    "transposed operand": transposed,
    "off-by-one slice": off_by_one,
    "wrong variable": wrong_variable,
    "dropped term": dropped_term,
    "threshold": threshold,
    "strictness": strictness,
    "direction": direction,
    "branches": branches,
    "mask": mask,
    "wrong index": wrong_index,
    "iterations": iterations,
    "buffer": buffer,
}


# ---- branches that the model does not have

ADDED = "added branch"
OF_NUMBERS = (
    *("{a} > {c}", "{a} < -{c}", "{a} == {c}", "not {a} != {c}", "{a} in ({c}, -{c})", "{c} < {a} <= {c} + 1.0"),
    *("np.isclose({a}, {c})", "abs({a} - {c}) < 1e-3", "2.0 * {a} + 1.0 > {c}", "max({a}, {c}) != {c}"),
    *("{a} * {a} > {c}", "{a} > {c} and {b} < 1e9", "{a} > {c} or {b} == -{c}", "math.floor({a}) == 7"),
)  # of a scalar argument, or of a number of an array
OF_ARRAYS = (
    *("np.any({x} > {c})", "np.all({x} < -{c})", "np.max({x}) > {c}", "np.sum({x}) > {c}", "(np.abs({x}) > {c}).any()"),
    *("{c} in {x}", "np.allclose({x}, {c})", "np.linalg.norm({x}) > {c}", "any(v > {c} for v in {x}.ravel())"),
    *("np.min({x}) == -{c}", "np.count_nonzero({x} >= {c}) > 0", "np.clip({x}, -{c}, {c}).sum() != {x}.sum()"),
)
EFFECTS = (
    "if {t}:\n{i}    {r} = {r} + 1.5",
    "{r} = {r} + 1.5 if {t} else {r}",
    "while {t}:\n{i}    {r} = {r} + 1.5\n{i}    break",
    "for _ in range(3):\n{i}    if {t}:\n{i}        {r} = {r} + 1.5",
    "{r} = np.where({t}, {r} + 1.5, {r})[()]",
    "{r} = {r} + 1.5 * bool({t})",
)


def with_branches(text: str, model: Model, seed: int, count: int) -> list[Edit]:
    """Edits that add a branch before the results are returned, by the numbers of an argument."""
    rng, body = random.Random(seed), definition(text, model.function)
    arguments = {leaf.path: len(leaf.node.aval.shape) for leaf in model.program.leaves if leaf.path.isidentifier()}
    end = next(s for s in reversed(body.body) if isinstance(s, ast.Return))
    result = end.value.elts[0].id if isinstance(end.value, ast.Tuple) else ast.unparse(end.value)
    lines, found = text.split("\n"), []
    for _ in range(count):
        name, other = rng.choice(sorted(arguments)), rng.choice(sorted(arguments))
        tests = OF_NUMBERS + OF_ARRAYS if arguments[name] else OF_NUMBERS
        numbers = {key: f"{x}.flat[0]" if arguments[x] else x for key, x in (("a", name), ("b", other))}
        test = rng.choice(tests).format(x=name, c=rng.choice((3.0, 7.25, 10, 33.3, 400.0)), **numbers)
        indent = " " * end.col_offset
        branch = rng.choice(EFFECTS).format(t=test, r=result, i=indent)
        new = [*lines[: end.lineno - 1], f"{indent}{branch}", *lines[end.lineno - 1 :]]
        found.append(Edit(ADDED, end.lineno, "import math\n" + "\n".join(new)))
    return [edit._replace(line=edit.line + 1) for edit in found]


# ---- rewrites that change no result, but for rounding


class Commuted(ast.NodeTransformer):
    """``a * b`` as ``b * a``, ``a + b`` as ``b + a``."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, (ast.Mult, ast.Add)):
            node.left, node.right = node.right, node.left
        return node


class Regrouped(ast.NodeTransformer):
    """``a * b * c`` as ``a * (b * c)``, and sums alike."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        match node:
            case ast.BinOp(ast.BinOp(a, ast.Mult(), b), ast.Mult(), c):
                return ast.BinOp(a, ast.Mult(), ast.BinOp(b, ast.Mult(), c))
            case ast.BinOp(ast.BinOp(a, ast.Add(), b), ast.Add(), c):
                return ast.BinOp(a, ast.Add(), ast.BinOp(b, ast.Add(), c))
        return node


class Subtracted(ast.NodeTransformer):
    """``a - b`` as ``a + -1.0 * b``, but in keys and sizes."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Sub):
            return ast.BinOp(
                node.left, ast.Add(), ast.BinOp(ast.UnaryOp(ast.USub(), ast.Constant(1)), ast.Mult(), node.right)
            )
        return node


class Divided(ast.NodeTransformer):
    """``a / b`` as ``a * (1 / b)``, where `b` is a number of NumPy's, or a constant that is not zero.

    1 / b of a Python float that is zero raises ZeroDivisionError, where ``a / b`` is infinite for an `a` of NumPy's: an
    alarm would be right.
    """

    def __init__(self, of_numpy):
        self.of_numpy = of_numpy  # names of what NumPy has computed

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Div) and self._divides(node.right):
            return ast.BinOp(node.left, ast.Mult(), ast.BinOp(ast.Constant(1.0), ast.Div(), node.right))
        return node

    def _divides(self, divisor):
        if isinstance(divisor, ast.Constant):
            return divisor.value != 0
        return any(
            is_numpy_call(node) or (isinstance(node, ast.Name) and node.id in self.of_numpy)
            for node in ast.walk(divisor)
        )


def names_of_numpy(body: ast.FunctionDef) -> set[str]:
    """The names to which a function assigns nothing but what NumPy's functions give."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, []).append(node.value)
    return {name for name, found in values.items() if all(map(is_numpy_call, found))}


def is_numpy_call(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.")


class Called(ast.NodeTransformer):
    """``a @ b`` as ``np.matmul(a, b)``, ``x.T`` as ``np.transpose(x)``, ``x.sum()`` as ``np.sum(x)``."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return numpy_call("matmul", [node.left, node.right]) if isinstance(node.op, ast.MatMult) else node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        return numpy_call("transpose", [node.value]) if node.attr == "T" else node

    def visit_Call(self, node):
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(value, "sum"), args, keywords) if ast.unparse(value) != "np":
                return numpy_call("sum", [value, *args], keywords)
        return node


class Renamed(ast.NodeTransformer):
    """Other names for what is computed."""

    def __init__(self, names):
        self.names = names

    def visit_Name(self, node):
        return ast.Name(f"{node.id}_too", node.ctx) if node.id in self.names else node


class Split(ast.NodeTransformer):
    """Operands that are operations have lines and names of their own."""

    def visit_Assign(self, node):
        match node:
            case ast.Assign([ast.Name()], ast.BinOp(ast.BinOp() | ast.Call() as left, op, right)):
                name = f"part{node.lineno}"
                first = ast.Assign([ast.Name(name, ast.Store())], left, lineno=node.lineno)
                node.value = ast.BinOp(ast.Name(name, ast.Load()), op, right)
                return [first, node]
        return node


def numpy_call(name, args, keywords=()):
    return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), name, ast.Load()), list(args), list(keywords))


def equivalent(text: str, function: str) -> dict[str, str]:
    """The rewrites of a module, by name; only those that find something to rewrite."""
    names = set(local_names(definition(text, function))) - {a.arg for a in definition(text, function).args.args}
    changes = {
        "commuted": Commuted(),
        "regrouped": Regrouped(),
        "subtracted": Subtracted(),
        "divided": Divided(names_of_numpy(definition(text, function))),
        "called": Called(),
        "renamed": Renamed(names),
        "split": Split(),
    }
    found = {}
    for name, change in changes.items():
        module = ast.parse(text)
        i = next(i for i, s in enumerate(module.body) if isinstance(s, ast.FunctionDef) and s.name == function)
        module.body[i] = change.visit(module.body[i])
        found[name] = ast.unparse(ast.fix_missing_locations(module))
    found["commented"] = text.replace("\n    ", "\n\n    # another comment\n    ")
    plain = ast.unparse(ast.parse(text))
    return {name: new for name, new in found.items() if new != plain}


# ---- random programs with thresholds

OPERANDS = "x y x*y x-y x+s x**2 np.sin(x) 0.5*x+y x*s x[::-1] np.cumsum(x) np.exp(-x*x)".split()
PIECES = (
    "np.where({a} {cmp} {c}, {b}, {d})",
    "np.where(({a} > {c}) & ({b} < {e}), {d}, {b})",
    "np.where(({a} > {c}) | ({b} <= {e}), {d}, 0.5)",
    "np.maximum({a}, {c}) * {b}",
    "np.minimum({a}, {c}) + {b}",
    "np.clip({a}, {c} - 1.5, {c} + 2.5)",
    "np.abs({a} - {c})",
    "np.sign({a} - {c}) * {b}",
    "np.where(np.abs({a}) <= {p}, 0.5 * ({a}) ** 2, {p} * np.abs({a}) - 0.5 * {p} ** 2)",
    "np.where({a} > {c}, np.log1p(np.abs({a})), {a}) * {b}",
    "np.floor(({a}) / {p}) * {b}",
    "np.searchsorted(np.array([{c} - 1.0, {c}, {c} + 20.0]), {a}) * {b}",
    "np.interp({a}, np.array([{c} - 1.0, {c}, {c} + 20.0]), np.array([0.0, 1.0, -2.0]))",
    "np.max(np.stack([{a}, {b}, np.full(x.shape, {c})]), axis=0)",
    "np.where((({a} > {c}) & ({b} < {e})) | ({d} > {p}), {a}, {b})",
    "np.where(({a} > {c}) & ~({b} > {e}) & ({d} < {p}), {d}, {b})",
    "np.where({a} {cmp} {c}, np.where({b} > {e}, {d}, {a}), {b})",
    "np.where({a} {cmp} {c}, np.maximum({b}, {e}), {d})",
    "np.where({a} {cmp} {c}, np.abs({b} - {e}), {d})",
    "np.where({a} {cmp} {c}, np.clip({b}, {e}, {e} + 1.5) * {d}, {a})",
    "np.where(np.sum({a}) {cmp} {c}, {b}, {d})",
    "np.select([{a} > {c}, {b} > {e}], [{d}, {a}], {b})",
    "np.digitize({a}, np.array([{c}, {c} + 1.0])) * {b}",
    "np.fmin(np.fmax({a}, {c}), {c} + 3.0) * {b}",
    "np.heaviside({a} - {c}, 0.5) * {b}",
    "({a} {cmp} {c}) * {b}",
    "np.count_nonzero({a} {cmp} {c}) * {b}",
    "np.sum(np.where(({a})[:, None] * y > {c}, y * s, 0.5), axis=1)",
    "np.max(np.where(({a})[:, None] + y > {c}, y, {e}), axis=1)",
)
STATEMENTS = (
    "if np.sum({a}) > {c}:\n    v = v + {b}\nelse:\n    v = v * 0.5",
    "for k in range(9):\n    if s > {c}:\n        break\n    s = s + 0.3 + 0.1 * np.sum(x * x)",
    "r = s\nfor k in range(40):\n    if abs(r) > {p}:\n        r = 0.5 * r\n    else:\n        r += 0.1 * s\nv *= r",
    "r = 1.0 + s * s\nwhile r < {p} + 3.0:\n    r = 1.4 * r + 0.1 * s * s\nv = v + r * x",
    "r = 1.0 + s * s\nwhile abs(r * r - {p}) > 1e-4 * {p}:\n    r = 0.5 * (r + {p} / r)\nv = v + r * x",
    "for i in range(x.shape[0]):\n    if x[i] > {c}:\n        s += x[i] * y[i]\n    else:\n        s -= 0.5 * x[i]",
    "for i in range(x.shape[0]):\n    if x[i] > {c} and y[i] < {e}:\n        s += x[i] * y[i]",
    "for k in range(5):\n    v = np.where(v > {c}, 0.7 * v, v + 0.1 * {b})",
    "for k in range(5):\n    s = np.clip(0.8 * s + 0.1 * np.sum({a}), -{p}, {p} + 1.0)\nv = v * s",
    "r = s\nfor k in range(25):\n    if r {cmp} {p}:\n        r = 0.5 * r\n"
    "    else:\n        r = 1.3 * r - 0.2\nv = v * r",
    "r = s\nfor k in range(25):\n    r = 1.1 * r + 0.1 * s\n    if r > {p} + 9.0:\n        break\n"
    "    if r < -{p}:\n        r = -0.7 * r\nv = v * r",
    "r = s\nfor i in range(x.shape[0]):\n    r = 0.9 * r + x[i]\n"
    "    if r {cmp} {p}:\n        r = 0.5 * r - y[i]\nv = v + r * x",
    "r = s\nfor i in range(12):\n    for k in range(11):\n        r = 1.1 * r if r < {p} else 0.4 * r\n"
    "    r += 0.1\nv = v * r",
    "if s > {c} and np.sum({a}) < {e}:\n    v = v + {b}\nelif s < {e}:\n    v = v * 0.5",
)


def piecewise(seed: int) -> str:
    """The source of a function f(x, y, s) of two arrays and a number, with random thresholds."""
    rng = random.Random(seed)

    def filled(template):
        c = round(rng.gauss(0, 1) * rng.choice((0.5, 3.0, 40.0)), 2)
        given = {letter: rng.choice(OPERANDS) for letter in "abd"}
        given |= {"c": c, "e": round(c * rng.uniform(-1, 2) + 0.7, 2), "p": round(abs(c) + 0.2, 2)}
        return template.format(**given, cmp=rng.choice(("<", "<=", ">", ">=")))

    lines = [f"v = {filled(rng.choice(PIECES))}"]
    for _ in range(rng.randint(0, 2)):
        kind = rng.choice((PIECES, STATEMENTS))
        text = filled(rng.choice(kind))
        lines += f"v = v + {text}".split("\n") if kind is PIECES else text.split("\n")
    body = "\n".join(f"    {line}" for line in lines)
    return f"import numpy as np\n\n\ndef f(x, y, s):\n{body}\n    return np.sum(v * np.cos(y)) + s\n"


# ---- the experiment


class Subject(NamedTuple):
    """A module to be edited, its model, and arguments of the function from a generator of random numbers."""

    name: str
    model: Model
    draw: Callable[[np.random.Generator], list]


def subjects(corpus: str | None, seed: int) -> Iterator[Subject]:
    """Programs of the tests, of a corpus and random ones in turn."""
    from tests.verification import test_verify

    tried = [
        lambda name=name, level=level: Subject(
            f"{name} at level {level}", test_verify.model_of(name, level), lambda rng: test_verify.drawn_by(name, rng)
        )
        for name in test_verify.CASES
        for level in (1, 2)
    ]
    of_corpus = [lambda path=path: from_corpus(path) for path in sorted(Path(corpus).rglob("*.py"))] if corpus else []
    random.Random(seed).shuffle(of_corpus)
    number = seed
    while True:
        for made in [tried.pop] * bool(tried) + [of_corpus.pop] * bool(of_corpus):
            subject = made()()
            if subject is not None:
                yield subject
        for _ in range(3):
            number += 1
            subject = at_random(number)
            if subject is not None:
                yield subject


def from_corpus(path: Path) -> Subject | None:
    """A program of a corpus: a module with `objective`, `make` and perhaps `WRT`."""
    text = path.read_text()
    if "def objective" not in text or "def make" not in text:
        return None
    module = loaded(text, path.parent.name + "_" + path.stem)
    try:
        made = module.make("small", np.random.default_rng(0))
        function = sg.value_and_grad(module.objective, argnums=tuple(getattr(module, "WRT", (0,))))
        compiled = function.compile(*made, optimize=1)
    except Exception as error:
        print(f"{path.stem}: {type(error).__name__} {str(error)[:90]}")
        return None
    program = function.compile(*made, optimize=0).program
    model = Model(program, compiled.run.__name__, lambda: compiled)
    return Subject(path.stem, model, lambda rng: list(module.make("small", rng)))


def at_random(seed: int) -> Subject | None:
    module = loaded(piecewise(seed), f"piecewise_{seed}")
    function, specs = sg.value_and_grad(module.f, argnums=(0, 2)), ("float64[n]", "float64[n]", "float64[]")
    try:
        compiled = function.compile(*specs, optimize=1 + seed % 2)
    except sg.errors.SymgradError:
        return None
    program = function.compile(*specs, optimize=0).program
    model = Model(program, compiled.run.__name__, lambda: compiled)
    return Subject(f"random program {seed}", model, some_numbers)


def some_numbers(rng: np.random.Generator) -> list:
    """Arguments of a random program, of any size: as many rows as are several blocks, or one."""
    n = rng.integers(1, 9)
    return [rng.normal(size=n), rng.normal(size=n), float(rng.normal())]


def loaded(text: str, name: str):
    """A module of a text, which is a file: branches are converted from source."""
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers_of(*texts: str) -> list[float]:
    nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
    found = {float(x.value) for x in nodes if isinstance(x, ast.Constant) and type(x.value) in (int, float)}
    return sorted(x for x in found if abs(x) < 1e6)


def many_arguments(subject: Subject, numbers: list[float], count: int) -> Iterator[list]:
    """Arguments at several scales, with numbers close to those of the text among them.

    Not these themselves: on a boundary rounding decides on which side numbers are that were computed. What is
    different there alone counts as no change.
    """
    rng = np.random.default_rng(1)

    def moved(x, scale):
        if isinstance(x, (tuple, list)):
            return type(x)(moved(each, scale) for each in x)
        if isinstance(x, dict):
            return {key: moved(each, scale) for key, each in x.items()}
        array = np.array(x)
        if array.dtype.kind != "f":
            return x
        array = array * scale
        some = rng.random(array.shape) < rng.choice((0.0, 0.3, 1.0))
        chosen = rng.choice(numbers, array.shape)
        apart = rng.choice((1e-7, -1e-7, 1e-3, -1e-3, 0.04, -0.1), array.shape)
        near = chosen + np.where(chosen == 0, 1, chosen) * apart
        array = np.where(some, near.astype(array.dtype), array)
        return float(array) if type(x) is float else array[()] if not array.shape else array

    for _ in range(count):
        scale = rng.choice((0.1, 1.0, 1.0, 3.0, 30.0, -1.0))
        yield [moved(x, scale if rng.random() < 0.7 else 1.0) for x in subject.draw(rng)]


def shows(subject: Subject, text: str, count: int = 500) -> list | None:
    """Arguments at which an edited module gives other results than the module as it was."""
    scripts = subject.model.script, Script(text, "edited.py")
    whole, edited = (script.namespace()[subject.model.function] for script in scripts)
    for args in many_arguments(subject, numbers_of(scripts[0].text, text) or [1.0], count):
        for script in scripts:
            script.allow(ITERATIONS)
        with np.errstate(all="ignore"):
            try:
                right = flat(whole(*args))
            except (Exception, Endless):
                continue
            if not all(np.isfinite(y).all() for y in right):
                continue
            try:
                found = flat(edited(*args))
            except (Exception, Endless):
                return args
        if are_others(found, right):
            noise = sum(
                sensitivity(script.text, subject.model.function, args, results)
                for script, results in zip(scripts, (right, found), strict=True)
            )
            if are_others(found, right, noise):
                return args
    return None


def are_others(found: list[np.ndarray], right: list[np.ndarray], more: float = 0.0) -> bool:
    """Whether results differ by more than a sum in another order does, or than so much more."""
    allowed = 1e-9 * max(float(np.max(np.abs(y), initial=0.0)) for y in right) + more
    return any(x.shape != y.shape or not np.allclose(x, y, 1e-9, allowed) for x, y in zip(found, right, strict=True))


def sensitivity(text: str, function: str, args: list, results: list[np.ndarray]) -> float:
    """Return how far results may be off by rounding: much further than where all that is computed is rounded otherwise.

    Where a matrix is nearly singular, two ways to compute the same may agree in no digit.
    """
    module = ast.parse(text)
    body = next(s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == function)
    RoundedOtherwise().visit(body)
    noise = 0.0
    for seed in range(4):
        script = Script(ast.unparse(ast.fix_missing_locations(module)), "rounded.py", {"_rounded": rounding(seed)})
        with np.errstate(all="ignore"):
            try:
                moved = flat(script.namespace()[function](*args))
            except (Exception, Endless):  # what is rounded otherwise is a number of rows, say
                continue
        noise = max([noise, *(float(np.max(np.abs(x - y), initial=0.0)) for x, y in zip(moved, results, strict=True))])
    return 100 * noise


class RoundedOtherwise(ast.NodeTransformer):
    """Operations whose results have names go through ``_rounded``."""

    def visit_Assign(self, node):
        if isinstance(node.value, (ast.Call, ast.BinOp, ast.UnaryOp)):
            node.value = ast.Call(ast.Name("_rounded", ast.Load()), [node.value], [])
        return node


def rounding(seed: int) -> Callable:
    """Return a function that changes the last bit of numbers; views stay as they are, for what is written there."""
    rng = np.random.default_rng(seed)

    def rounded(x):
        array = np.asarray(x)
        if array.dtype.kind != "f" or array.base is not None:
            return x
        array = array * (1 + rng.choice((-1, 1), array.shape) * np.finfo(array.dtype).eps).astype(array.dtype)
        return float(array) if type(x) is float else array[()] if not array.shape else array

    return rounded


def flat(result):
    if isinstance(result, (tuple, list)):
        return [x for each in result for x in flat(each)]
    return [x for each in result.values() for x in flat(each)] if isinstance(result, dict) else [np.asarray(result)]


def experiment(count: int, rewrites: int, corpus: str | None, seed: int, each: int) -> int:
    """Plant edits and rewrites; print what was missed and what was a false alarm, and give how many of both."""
    found, accepted, told, seconds = Counter(), Counter(), Counter(), []
    missed: list[str] = []
    alarms: list[str] = []
    right = 0
    for subject in subjects(corpus, seed):
        began, text = time.perf_counter(), subject.model.compiled.source
        try:
            verdict_on(text, "edited.py", subject.model)
        except sg.errors.ArgumentError as error:  # it says itself that it cannot tell
            print(f"{subject.name}: not verified, {error.fact}", flush=True)
            continue
        for kind, new in ({"as it is": text} | equivalent(text, subject.model.function)).items():
            if right < rewrites:
                verdict, right = verdict_on(new, "edited.py", subject.model), right + 1
                if not verdict:
                    alarms.append(f"{subject.name}: {kind}\n{verdict}")
        chosen = in_turn(planted(text), seed, each) + with_branches(text, subject.model, seed, 1 + each // 5)
        for edit in chosen[: count - found.total()]:
            start = time.perf_counter()
            verdict = verdict_on(edit.text, "edited.py", subject.model)
            seconds.append(time.perf_counter() - start)
            found[edit.kind] += 1
            if not verdict:
                continue
            accepted[edit.kind] += 1
            point = shows(subject, edit.text)
            if point is not None and verdict.unreached:
                told[edit.kind] += 1
            elif point is not None:
                line = edit.text.split("\n")[edit.line - 1].strip()
                was = text.split("\n")[edit.line - 1].strip()
                missed.append(f"{subject.name}: {edit.kind} in line {edit.line}\n    {was}\n    {line}\n    {point}")
                print("MISSED", missed[-1], flush=True)
        print(
            f"{subject.name}: {found.total()} edits, {len(missed)} missed; {right} rewrites, {len(alarms)} alarms"
            f" ({time.perf_counter() - began:.1f} s)",
            flush=True,
        )
        if found.total() >= count and right >= rewrites:
            break
    print(*missed, *alarms, sep="\n\n")
    for kind in (*KINDS, ADDED):
        print(f"{kind:20} {found[kind]:5} edits, {accepted[kind] - told[kind]:4} change no result, {told[kind]:3} told")
    print(f"{found.total()} edits, {len(missed)} missed; {right} rewrites, {len(alarms)} false alarms")
    print(f"a verdict on an edit takes {np.median(seconds):.2f} s, at most {max(seconds):.1f} s")
    return len(missed) + len(alarms)


def in_turn(found: list[Edit], seed: int, count: int) -> list[Edit]:
    """Some edits, of all kinds in turn."""
    order = np.random.default_rng(seed).permutation(len(found))
    queues = {kind: [found[i] for i in order if found[i].kind == kind] for kind in reversed(KINDS)}
    chosen: list[Edit] = []
    while len(chosen) < count and any(queues.values()):
        chosen += [queue.pop() for queue in queues.values() if queue]
    return chosen[:count]


def main() -> int:
    takes = argparse.ArgumentParser(description=__doc__)
    takes.add_argument("--count", type=int, default=1000, help="edits")
    takes.add_argument("--rewrites", type=int, default=600, help="edits that change no result")
    takes.add_argument("--corpus", help="a folder of programs")
    takes.add_argument("--seed", type=int, default=0)
    takes.add_argument("--each", type=int, default=10, help="edits of a program")
    given = takes.parse_args()
    return experiment(given.count, given.rewrites, given.corpus, given.seed, given.each)


if __name__ == "__main__":
    sys.exit(main() > 0)
