"""Edits of generated modules: those that change a result, at one place each, and those that change none."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Edit(NamedTuple):
    """A kind of edit, the line that it is in, and the whole text."""

    kind: str
    line: int
    text: str


def planted(text: str, function: str) -> list[Edit]:
    """All the edits of the seven kinds at the expressions of a function."""
    body = definition(text, function)
    names = local_names(body)
    return [
        Edit(kind, node.lineno, replaced(text, node, new))
        for node in ast.walk(body)
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


# ---- the seven kinds: for an expression the sources that may take its place


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
}


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
    """``a / b`` as ``a * (1 / b)``."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            return ast.BinOp(node.left, ast.Mult(), ast.BinOp(ast.Constant(1.0), ast.Div(), node.right))
        return node


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
        "divided": Divided(),
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
