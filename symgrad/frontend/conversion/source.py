"""The source of a function as a syntax tree: found by its place in its file, and only if it compiles to its code."""

from __future__ import annotations
import __future__

import ast
import linecache
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple, TypeGuard

from symgrad.core.text import first_line
from symgrad.frontend.conversion.scopes import within
from symgrad.frontend.conversion.templates import copied, located

Definition = ast.FunctionDef | ast.Lambda


class Source(NamedTuple):
    """A definition, and the imports of its module: calls of modules depend on these."""

    definition: Definition
    imports: list[ast.stmt]


FACTORY = ".factory"
_FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


@lru_cache(8)
def parsed(source: str) -> ast.Module | None:
    """The syntax tree of a file; None where it has been edited into something else than Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def source_of(code: CodeType, names: dict[str, Any]) -> Source | None:
    """Return the definition that `code` was compiled from, as a copy; None without its source, or where that has
    changed.
    """
    definitions, imports = _outlined("".join(linecache.getlines(code.co_filename, names)))
    for definition in definitions.get((code.co_name, code.co_firstlineno), ()):
        found = Source(_bare(definition), imports)
        if _same(compiled(found, code), code):
            return Source(copied(found.definition), imports)
    return None


@lru_cache(8)
def _outlined(source: str) -> tuple[dict[tuple[str, int], list[Definition]], list[ast.stmt]]:
    """Return the definitions of a file, by name and first line, and its other imports."""
    tree = parsed(source) or ast.Module([], [])
    definitions: dict[tuple[str, int], list[Definition]] = {}
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            definitions.setdefault((getattr(node, "name", "<lambda>"), first_line(node)), []).append(node)
    return definitions, [node for node in within(tree.body) if _imports(node)]


def _imports(node: ast.AST) -> TypeGuard[ast.stmt]:
    return isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")


def _bare(node: Definition) -> Definition:
    """Return the definition without decorators, defaults and annotations, which are evaluated outside of it."""
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    plain = {id(a): ast.copy_location(ast.arg(a.arg), a) for a in every}
    none: ast.expr = ast.copy_location(ast.Constant(None), node)
    bare = ast.arguments(
        [plain[id(a)] for a in args.posonlyargs],
        [plain[id(a)] for a in args.args],
        plain.get(id(args.vararg)),
        [plain[id(a)] for a in args.kwonlyargs],
        [None if d is None else none for d in args.kw_defaults],
        plain.get(id(args.kwarg)),
        [none] * len(args.defaults),
    )
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Lambda(bare, node.body), node)
    return ast.copy_location(ast.FunctionDef(node.name, bare, node.body, []), node)


def compiled(source: Source, code: CodeType, extra: tuple[str, ...] = ()) -> CodeType:
    """The code of a definition that stands where `code` does: with its free variables, and `extra` ones."""
    definition = source.definition
    result: ast.stmt = ast.Expr(definition) if isinstance(definition, ast.Lambda) else definition
    steps = code.co_qualname.split(".")[:-1]
    home = [result]
    if steps and steps[-1] != "<locals>":  # of a method names such as __x are those of its class
        home = [ast.ClassDef(steps[-1], [], [], home, [])]
        if steps[-1] not in code.co_freevars:  # the class itself is found where the method finds it
            home = [ast.Global([steps[-1]]), *home]
    elif isinstance(definition, ast.FunctionDef) and definition.name not in code.co_freevars:
        home = [ast.Global([definition.name]), result]  # a function that calls itself finds itself there
    args = ast.arguments([], [ast.arg(name) for name in (*code.co_freevars, *extra)], None, [], [], None, [])
    factory = ast.FunctionDef(FACTORY, args, home, [])
    module = ast.Module([*source.imports, located(ast.copy_location(factory, definition))], [])
    found = compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
    for _ in range(2 + (home[-1] is not result)):
        found = next(c for c in found.co_consts if isinstance(c, CodeType))
    return found


def _same(a: CodeType, b: CodeType) -> bool:
    """Whether two codes do the same."""
    if (a.co_code, a.co_names, a.co_varnames, a.co_freevars) != (b.co_code, b.co_names, b.co_varnames, b.co_freevars):
        return False
    return len(a.co_consts) == len(b.co_consts) and all(map(_same_constant, a.co_consts, b.co_consts))


def _same_constant(a: Any, b: Any) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return _same(a, b)
    return type(a) is type(b) and repr(a) == repr(b)
