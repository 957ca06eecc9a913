"""Advice where Python asks for a traced value, by the user's statement that is running."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import math
from contextlib import suppress
from inspect import CO_COROUTINE, CO_GENERATOR
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from symgrad.core.options import current
from symgrad.core.provenance import in_library, running_frame
from symgrad.ops.define import TABLE
from symgrad.ops.draws import DRAWS, instead_of_draw, is_generator
from symgrad.ops.operands import traced_in

_BRANCH = (
    "Define the function in a file, since branches are converted from source, and this one has none; "
    "or write np.where(condition, a, b), and & | ~ instead of and, or, not."
)
_STATEMENTS: dict[type[ast.AST], str] = {
    ast.If: "Write np.where(condition, a, b) instead of `if`: both sides are computed, and each number is chosen.",
    ast.IfExp: "Write np.where(condition, a, b) instead of `a if condition else b`.",
    ast.While: "Write a `for` loop of as many steps as can be needed, and x = np.where(condition, new, x) in it.",
    ast.Assert: "Leave the assertion out, or define the function in a file that nothing has rewritten, as pytest does: "
    "there it becomes a check of the program.",
    ast.comprehension: "Write np.where(condition, x, 0), or np.sum(x, where=condition), instead of the `if` in it.",
    ast.BoolOp: "Write (a > 0) & (b > 0) instead of `and`, | instead of `or`, and np.where instead of `if`.",
    ast.UnaryOp: "Write ~ instead of `not`, and np.where(condition, a, b) instead of `if`.",
    ast.Match: "Write `if x == 1` and `elif`, which become branches of the program, or np.where(x == 1, a, b).",
}
INDEX = "An index, range() or int()"
_INDEX = "Write np.take(a, i), where a is an array; name a number of steps in static_argnames=."
_SLICE = "For n items write x[i + np.arange(n)]; for x[:i], np.where(np.arange(len(x)) < i, x, 0)."
_NUMBER = "Write it with NumPy's functions, or return it and convert the result."
_CALLS = {
    "max": "Write np.maximum(a, b) instead of max(a, b), and np.max(x) instead of max(x).",
    "min": "Write np.minimum(a, b) instead of min(a, b), and np.min(x) instead of min(x).",
    "sorted": "Write np.sort(x) instead of sorted(x); for pairs, give a key: sorted(pairs, key=lambda p: p[0]).",
    "any": "Write np.any(x > 0) instead of any().",
    "all": "Write np.all(x > 0) instead of all().",
    "bool": "Leave bool() out; np.where(x, a, b) takes what is not 0 for true.",
    "filter": "Write np.where(condition, x, 0) instead of filter().",
    "float": "Leave float() out: x is a number, or x.astype(float).",
    "complex": "Leave complex() out: x is a number, or x.astype(complex); of two parts write x + 1j * y.",
    "int": "Write np.floor(x) or np.trunc(x); x.astype(int) gives integers, which have no derivative.",
    "round": "Write np.round(x).",
    "range": "Name the number of steps in static_argnames=, or go to a fixed one with np.where(i < steps, new, x).",
    "format": "Return it, and format the result.",
    "nlargest": "Write np.sort(x)[::-1][:n] instead of nlargest(n, x).",
    "nsmallest": "Write np.sort(x)[:n] instead of nsmallest(n, x).",
    "print": "Return it, and print the result.",
    "str": "Return it, and format the result.",
}
_SORTED = "Write np.searchsorted(a, x) instead of {}(a, x)."
_CALLS |= {name: _SORTED.format(name) for name in ("bisect", "bisect_left", "bisect_right")}
_METHODS = {
    "tolist": "Leave .tolist() out: an array is iterated over and indexed as a list is.",
}
_LOGGING = ("debug", "info", "warning", "error", "critical", "exception", "log")
_SIZE = "Sizes are known before the program runs: name it in static_argnames=, or np.where(np.arange(n) < i, x, 0)."
_OF_SIZES = (np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.tri, np.linspace)
_BY_KEY = "Name the argument that is compared in static_argnames= if it is data; np.argsort(keys) orders traced keys."
_METHODS_OF_LISTS = {
    "count": "Write sum(y == x for y in a) instead of a.count(x).",
    "index": "Write np.argmax(np.array(a) == x) instead of a.index(x).",
}
_NEXT = "Write a `for` loop with `if` and `break` instead of next(): it becomes a loop of the program."
_OTHER_NAMES = {"fabs": "np.abs", "fsum": "np.sum", "pow": "np.power", "dist": "np.linalg.norm(p - q)"}
_SPECIAL = {"gamma": "gamma", "lgamma": "gammaln", "erf": "erf", "erfc": "erfc", "factorial": "gamma(n + 1)"}


def on_array() -> str:
    """Return what to write instead where compiled code asks for the array of a traced value."""
    return _of_library() or _first(_running(), _on_array)


def _on_array(node: ast.AST, frame: FrameType) -> str:
    if isinstance(node, ast.Subscript):
        return _on_subscript(node)
    if isinstance(node, ast.BinOp):
        return _on_list(node, frame)
    function = _called(node.func, frame) if isinstance(node, ast.Call) else None
    name = getattr(function, "__name__", "")
    if instead := instead_of_draw(function) or _on_new_generator(node, frame):
        return instead
    if any(function is known for known in _OF_SIZES):
        return _SIZE
    if isinstance(getattr(function, "__self__", None), np.ndarray):
        return f"Write np.{name}({ast.unparse(node.func.value)}, ...)."  # type: ignore[attr-defined]
    if getattr(np.ndarray, name, None) is function and function is not None:
        return f"Write np.{name}(a, ...)."
    if isinstance(function, type) and issubclass(function, np.generic):
        return f"Write x.astype(np.{name})."
    return _of_compiled(function)


def _on_list(node: ast.BinOp, frame: FrameType) -> str:
    """Advice for an operator whose operand is a list of traced numbers, which NumPy would make an array of."""
    for operand in (node.left, node.right):
        found = _called(operand, frame) if isinstance(operand, ast.Name) else None
        if isinstance(found, (list, tuple)) and traced_in(found) is not None:
            kind, name = type(found).__name__, ast.unparse(operand)
            return f"{name} is a {kind}: write np.array({name}); or give an array instead of a {kind} of numbers."
    return ""


def _on_new_generator(node: ast.AST, frame: FrameType) -> str:
    """Advice for ``default_rng(0).normal(x)``, a draw of a generator without a name."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return ""
    maker = node.func.value
    made_by = _called(maker.func, frame) if isinstance(maker, ast.Call) else None
    of_numpy = (getattr(made_by, "__module__", None) or "").startswith("numpy.random")
    return DRAWS.get(node.func.attr, "") if of_numpy else ""


def _of_compiled(function: Any) -> str:
    """Advice for a function that has no Python source, "" for any other."""
    name = getattr(function, "__name__", "")
    if not name or not callable(function) or isinstance(function, (FunctionType, MethodType)):
        return ""
    home = getattr(function, "__module__", None)
    path = f"{home}.{name}" if home and home != "builtins" else name
    if home == "numpy":
        return _OF_NUMPY.get(name, "") or _takes(function) or f"{path} takes no traced value there."
    return f"{path} is compiled code: write it with NumPy's functions, or give it to symgrad.operator."


def _takes(function: Any) -> str:
    """Return the signature of a function of NumPy that has an entry: something else was given."""
    with suppress(ValueError):  # of some NumPy tells none
        return f"np.{function.__name__} takes {inspect.signature(function)}." if function in TABLE else ""
    return ""


_OF_NUMPY = {
    "fromiter": "Write np.array([...]) of a list.",
    "ndenumerate": "Write for i in np.ndindex(x.shape), and x[i].",
    "nditer": "Write for v in np.ravel(x).",
}


def on_truth() -> str:
    """Return what to write instead where Python asks for the truth value of a traced value."""
    running = _running()
    return _of_library() or _first(running, _of_next) or _first(running, _on_truth) or _BRANCH


def on_key() -> str:
    """Return what to write instead where a traced value is a key."""
    return _first(_running(), _of_cache) or "Compare instead: np.where(x == key, a, b)."


def _of_cache(node: ast.AST, frame: FrameType) -> str:
    """Advice for a function of `functools.lru_cache`, whose arguments are keys."""
    if not (isinstance(node, ast.Call) and hasattr(_called(node.func, frame), "cache_info")):
        return ""
    return f"Call {ast.unparse(node.func)}.__wrapped__, which asks no cache for its arguments."


def _of_next(node: ast.AST, frame: FrameType) -> str:
    """Advice for ``next(x for x in xs if x > 0)``, whose condition runs in a frame of its own."""
    is_next = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"
    return _NEXT if is_next and frame.f_code.co_flags & CO_GENERATOR else ""


def _on_truth(node: ast.AST, frame: FrameType) -> str:
    advice = _instead_of_truth(node, frame)
    return advice and advice + (_why_not_converted() if isinstance(node, _CONVERTED) else "")


def _why_not_converted() -> str:
    """Return why a branch on a traced value was not converted."""
    if current().loops == "unroll":
        return ' Or leave loops="unroll" out: it becomes a branch of the program.'
    from symgrad.frontend.conversion.templates import RUNTIME  # where there is something to advise

    frame = running_frame()
    if frame is None:
        return ""
    name, flags = frame.f_code.co_name, frame.f_code.co_flags
    if RUNTIME in frame.f_code.co_freevars:
        return " It is no branch of the program where compiled code asks, as it does to compare tuples and dataclasses."
    if flags & (CO_GENERATOR | CO_COROUTINE):
        return f" {name} is a generator or a coroutine, and its branches are not converted: let a function return."
    if name.startswith("__"):
        return f" {name} is not converted where compiled code calls it: write a method with a name, and call that."
    return " It becomes a branch of the program where the source is found, and no compiled code calls the function."


_CONVERTED = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.UnaryOp, ast.Compare)


def on_number(what: str) -> str:
    """Return what to write instead where Python asks for the number of a traced value, by ``what``, such as
    ``"float()"``.
    """
    return _of_library() or _first(_running(), _on_number) or (_INDEX if what == INDEX else _NUMBER)


def _of_library() -> str:
    called = in_library()
    home, _, name = called.rpartition(".")
    if name in _OF_SYMGRAD.get(home, {}):
        return f"{called} asks for values: write {_OF_SYMGRAD[home][name]}, which has a derivative."
    return called and f"{called} asks for values: write it with NumPy's functions, or give it to symgrad.operator."


_ROOT, _MINIMIZE, _QUAD = "sg.root(f, x0)", "sg.minimize(f, x0)", "sg.quad(f, a, b)"
_OF_SYMGRAD = {
    "scipy.optimize": {
        **dict.fromkeys("bisect brenth brentq fsolve newton ridder root root_scalar toms748".split(), _ROOT),
        **dict.fromkeys("fmin fmin_bfgs fmin_cg fmin_ncg fmin_powell minimize minimize_scalar".split(), _MINIMIZE),
        "fixed_point": "sg.fixed_point(f, x0)",
    },
    "scipy.integrate": {"quad": _QUAD, "quad_vec": _QUAD, "quadrature": _QUAD},
}
"""Functions of SciPy in the place of which symgrad has its own."""
_STATISTICS = {
    **dict.fromkeys(("mean", "fmean"), "np.mean(x)"),
    "median": "np.median(x)",
    "stdev": "np.std(x, ddof=1)",
    "variance": "np.var(x, ddof=1)",
    "pstdev": "np.std(x)",
    "pvariance": "np.var(x)",
}


def _first(nodes: list[tuple[ast.AST, FrameType]], advice: Any) -> str:
    return next((text for node, frame in nodes if (text := advice(node, frame))), "")


def _instead_of_truth(node: ast.AST, frame: FrameType) -> str:
    if isinstance(node, ast.Call):
        if any(each.arg == "key" for each in node.keywords):  # of sorted, min, max, list.sort, itertools.groupby
            return _BY_KEY
        function = _called(node.func, frame)
        if function is None and isinstance(node.func, ast.Attribute):
            return _METHODS_OF_LISTS.get(node.func.attr, "")
        return _CALLS.get(getattr(function, "__name__", ""), "") or _of_compiled(function)
    if isinstance(node, ast.Compare):
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            return "Write np.any(x == value) instead of `value in x`."
        return "Write (a < x) & (x < b) instead of a < x < b, and np.where instead of `if`." if node.ops[1:] else ""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return ""
    return _STATEMENTS.get(type(node), "")


def _on_number(node: ast.AST, frame: FrameType) -> str:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return _METHODS[node.func.attr]
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOGGING:
            return "Return it, and log the result."
        function = _called(node.func, frame)
        name = getattr(function, "__name__", "")
        if any(function is known for known in _OF_SIZES):
            return _SIZE
        if function is not None and getattr(math, name, None) is function:
            return _instead_of_math(name)
        if getattr(function, "__module__", "") == "statistics" and name in _STATISTICS:
            return f"Write {_STATISTICS[name]} instead of statistics.{name}(x)."
        return _CALLS.get(name, "") if hasattr(builtins, name) else _of_compiled(function)
    if isinstance(node, (ast.FormattedValue, ast.JoinedStr)) or _formats(node):
        return 'Return it, and format the result; f"{x}" alone says what it is.'
    return _on_subscript(node) if isinstance(node, ast.Subscript) else ""


def _on_subscript(node: ast.Subscript) -> str:
    if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
        return _SLICE
    if isinstance(node.ctx, ast.Store):
        return "Write into an array that is made inside of the function: np.zeros(shape), np.array(items)."
    return "Write np.take(a, i), where a is an array."


def _formats(node: ast.AST) -> bool:
    """``"%.3f" % x``"""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant)


def _instead_of_math(name: str) -> str:
    if name in _SPECIAL:
        return f"Write scipy.special.{_SPECIAL[name]} instead of math.{name}."
    known = _OTHER_NAMES.get(name) or (f"np.{name}" if hasattr(np, name) else "")
    return f"Write {known} instead of math.{name}." if known else f"math.{name} takes one number: x[i]."


def _called(node: ast.expr, frame: FrameType) -> Any:
    """The function that an expression names, None unless by names of modules, classes, arrays and generators."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, frame.f_builtins.get(node.id)))
    if isinstance(node, ast.Attribute):
        home = _called(node.value, frame)
        found = isinstance(home, (ModuleType, type)) or type(home) is np.ndarray or is_generator(home)
        return getattr(home, node.attr, None) if found else None
    return None


# ---- the statement


def _running() -> list[tuple[ast.AST, FrameType]]:
    """Return the user's syntax nodes that are running, from the innermost expression to the statement."""
    from symgrad.frontend.conversion.source import parsed  # where there is something to advise

    frame = running_frame()
    if frame is None:
        return []
    line, end_line, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    tree = parsed("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    if tree is None or None in (line, end_line, column, end_column):
        return []
    path = _enclosing(tree, (line, column), (end_line, end_column))
    statement = next((i for i, node in enumerate(path) if isinstance(node, ast.stmt)), len(path))
    called = next((i for i, node in enumerate(path) if isinstance(node, ast.Call)), len(path))
    # the item of what a call returns is not asked for before the call has returned
    begun = [x for i, x in enumerate(path[: statement + 1]) if i < called or not isinstance(x, ast.Subscript)]
    return [(node, frame) for node in begun]


def _enclosing(node: ast.AST, start: Any, end: Any) -> list[ast.AST]:
    """The nodes that contain a range of the source, innermost first."""
    child: Any
    for child in ast.iter_child_nodes(node):
        if not hasattr(child, "lineno"):  # a comprehension and the arguments of a lambda have no place of their own
            inner = _enclosing(child, start, end)
            if inner:
                return [*inner, child]
        elif (child.lineno, child.col_offset) <= start and end <= (child.end_lineno, child.end_col_offset):
            return [*_enclosing(child, start, end), child]
    return []
