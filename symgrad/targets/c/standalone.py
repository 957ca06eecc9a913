"""Plain C files: a program as a function of pointers, sizes and a workspace, without Python or symgrad."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from symgrad.core.graph import CONSTANT, INPUT, Graph, Node, avals_of, is_token
from symgrad.core.region import with_nested
from symgrad.core.text import word
from symgrad.errors import UnsupportedError
from symgrad.lowering.build import lower
from symgrad.lowering.ragged import lengths_of
from symgrad.lowering.shared_memory import with_shared_memory
from symgrad.lowering.statements import Exact, Function, Grow, Regular, Require, Statement, walk
from symgrad.ops.control import COND, SCAN, own_sizes
from symgrad.targets.c.extension import glue_text
from symgrad.targets.c.forms import with_forms
from symgrad.targets.c.functions import C_TYPES, vectorises
from symgrad.targets.c.kernels import called, parts_of, taken
from symgrad.targets.c.library import includes_of, needed_by
from symgrad.targets.c.names import c_word
from symgrad.targets.c.partition import Kernel, Scope, first_without_c, joined, operator_of, symbols_in
from symgrad.targets.c.printing import EMPTY, NOT_POSITIVE, SINGULAR, Printer
from symgrad.targets.c.text import parameters_of, remark, sizes_of, wrapped
from symgrad.targets.c.toolchain import FLAGS, PRODUCTS

WIDTH = 112
MODULE = 'Save a module, "name.py": it calls NumPy for that. target="c" compiles the rest of it.'
KINDS = {SCAN: "loop", COND: "branch"}
CODES: dict[str, Callable[[Statement], bool]] = {
    "1 where an index is outside of its axis": lambda s: isinstance(s, Require) and not s.reduces,
    "2 where there is no memory": lambda s: isinstance(s, Grow),
    "3 where an integer does not fit into 64 bits": lambda s: isinstance(s, Exact),
    f"{SINGULAR} where a matrix is singular": lambda s: isinstance(s, Regular) and not s.is_cholesky,
    f"{NOT_POSITIVE} where a matrix is not positive definite": lambda s: isinstance(s, Regular) and s.is_cholesky,
    f"{EMPTY} where there are no numbers of which one is the largest or smallest": (
        lambda s: isinstance(s, Require) and s.reduces
    ),
}


class Files(NamedTuple):
    """The texts of a C file, its header and an extension module around it, and the name of the module's function.

    The name depends on the C file, so that a module compiled from another program does not have it.
    """

    code: str
    header: str
    glue: str
    public: str


def files_of(graph: Graph, name: str, stem: str, summary: str, signature: str) -> Files:
    """Return a program as C.

    Parameters
    ----------
    graph : Graph
        The program, optimised for C.
    name : str
        The name of the function.
    stem : str
        The name of both files, without suffixes.
    summary : str
        What the function computes, and what generated it.
    signature : str
        The signature of the Python function.

    Raises
    ------
    UnsupportedError
        If C does not compute an operation; it names the first one.
    """
    graph = with_forms(graph, alone=True)
    _check(graph)
    name, sizes = c_word(c_name(name), is_function=True), kernel_of(graph).sizes
    while not parts_of(name).isdisjoint(map(c_word, sizes)):
        name += "_"
    lowered = lower(graph, name, _named, sizes, taken(name, sizes), vectorises=vectorises, alone=True)
    function = with_shared_memory(lowered)
    printed = Printer(function, local=False).printed()
    included = f'#include "{stem}.h"'
    needed = needed_by(printed)
    body = "\n\n".join(filter(None, [includes_of(needed + printed), included, needed, printed]))
    about = _comment([summary, signature, *_notes(function)])
    code = f"{about}\n\n{body}\n"
    public = f"{name}_{sha256(code.encode()).hexdigest()[:8]}"
    glue = glue_text(extension_name(stem), function, public, [y.aval.weak for y in graph.outputs], included)
    called = _comment([summary, f"How Python calls {name}; {stem}.c defines it."])
    return Files(code, _header(function, about), f"{called}\n\n{glue}", public)


def extension_name(stem: str) -> str:
    """Return the name of the extension module around a C file."""
    return f"_{c_name(stem)}"


def kernel_of(graph: Graph) -> Kernel:
    """Return a whole program as one kernel."""
    told = own_sizes(list(with_nested(graph.live)))
    sizes = {name: size for name, size in symbols_in(graph.live).items() if name not in told}
    return Kernel(graph, list(graph.inputs), sizes, list(graph.outputs))


def calling(graph: Graph, name: str, function: Callable[..., Any]) -> Graph:
    """Return a program that calls a function with the inputs and sizes of `graph`, for all of its results."""
    kernel = kernel_of(graph)
    return joined(graph, {0: kernel}, {0: operator_of(name, kernel, function)}, set(graph.live))


def _check(graph: Graph) -> None:
    scope = Scope(lengths_of(with_nested(graph.live)), alone=True)
    for node in graph.live:
        if is_token(node) or any(map(is_token, node.inputs)):
            raise UnsupportedError(
                "the function raises, warns or prints, which a C file cannot do",
                "Compile with checks=False, which leaves that out.",
                node.where,
            )
    missing = first_without_c(graph.live, scope)
    if missing is not None:
        fact, advice = _lack(missing)
        raise UnsupportedError(f"{fact}, and a C file must contain the whole program", advice, missing.where)


def _lack(node: Node) -> tuple[str, str]:
    """Return the fact and the advice of the error for an operator that C does not compute."""
    dtypes = [aval.dtype.name for aval in avals_of(node) if aval.dtype.name not in C_TYPES]
    if dtypes:
        *first, last = C_TYPES
        return f"{dtypes[0]} has no C", f"C computes with {' and '.join((', '.join(first), last))}. {MODULE}"
    if node.op is CONSTANT:
        return "a large constant has no C", "Pass it as an argument."
    if node.op in KINDS:
        return f"this {KINDS[node.op]} has no C", MODULE
    name = node.op.name
    is_named = name.rpartition(".")[2] in node.where.text or not node.where.text
    return f"{name} has no C" if is_named else f"this line takes {name}, which has no C", MODULE


def c_name(name: str) -> str:
    """Return a name as a C identifier."""
    return re.sub(r"\W+", "_", word(name), flags=re.ASCII).strip("_") or "f"


def _named(graph: Graph, node: Node) -> str | None:
    """Return the name of a value; an argument in a dict or a list is named after its keys."""
    argument = dict(node.params)["name"] if node.op is INPUT else None
    if argument is None or graph.names.get(node) != argument:  # the parameter of a body has a name that nobody gave
        return called(graph, node)
    name = c_name(str(argument))
    return c_word(f"x_{name}" if name[0].isdigit() else name)


def flags() -> list[str]:
    """Return the compiler flags for a C file."""
    return [flag for flag in FLAGS if flag not in ("-fPIC", "-w")]


def _notes(function: Function) -> Iterator[str]:
    statements = list(walk(function.body))
    codes = [text for text, gives in CODES.items() if any(map(gives, statements))]
    failing = f", {', '.join(codes)}" if codes else ""
    least = " Sizes are at least 1." if function.sizes else ""
    yield (
        f"Arrays are contiguous, in row-major order, and do not overlap.{least} The workspace has as many bytes as "
        f"{function.name}_workspace says, aligned as malloc does it; the function keeps nothing there. "
        f"It returns 0{failing}."
    )
    yield f"Compile it with {' '.join(flags())}, and link it with -lm."
    if any(x.dtype.kind == "c" for s in statements for y in s.expressions for x in y.parts()):
        yield (
            f"With gcc, add {PRODUCTS}: without it, products of complex numbers are slow, and may be infinite where "
            "NumPy has NaN."
        )
    if any(isinstance(s, Grow) for s in statements):
        yield "What grows with the number of iterations, which only running tells, is allocated and freed by each call."


def _comment(paragraphs: Collection[str]) -> str:
    texts = [textwrap.fill(remark(x), WIDTH, break_long_words=False) for x in paragraphs]
    return "/* " + textwrap.indent("\n\n".join(texts), "   ").strip() + " */"


def _header(function: Function, about: str) -> str:
    guard = f"{function.name.upper()}_H"
    sizes = ", ".join(f"int64_t {n}" for n in sizes_of(function)) or "void"
    return "\n".join([
        about, "", f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        f"int64_t {function.name}_workspace({sizes});",
        *wrapped(f"int {function.name}(", parameters_of(function, ""), ");"), "",
        "#ifdef __cplusplus", "}", "#endif", "", "#endif", "",
    ])  # fmt: skip
