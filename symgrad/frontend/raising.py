"""Errors that Python or NumPy raises for some values: a program catches none, so that around it no `try` may."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from symgrad.analysis.values import raises_at_zero
from symgrad.core.graph import CONSTANT, Aval, Graph, Node, tracing
from symgrad.core.sizes import Dim
from symgrad.core.text import with_article
from symgrad.errors import UnsupportedError
from symgrad.frontend.guards import lets_pass
from symgrad.ops.control import may_raise
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import POWER
from symgrad.ops.index import GET
from symgrad.ops.reduce import ARGMAX, ARGMIN, MAX, MIN

_SHIFTS = frozenset({TABLE[np.left_shift], TABLE[np.right_shift]})
_TOTAL = frozenset(
    "sin cos tan asinh atan atan2 tanh cbrt hypot fabs copysign radians degrees isnan isfinite isinf isclose erf "
    "erfc nextafter ulp dist".split()
)
"""Functions of `math` that have a value at all finite numbers."""


def check_node(graph: Graph, node: Node) -> None:
    """Raise where something around may catch an error that computing a node raises."""
    _check(graph, _errors_of(node))


def check_of_python(x: Any) -> None:
    """Raise where something around may catch an error of an operator whose operands may all be numbers of Python."""
    _check(x.graph, _errors_of_python(x.node))


def check_error(error: type[Exception]) -> None:
    """Raise where something around may catch an error."""
    graph = tracing.get()
    if graph is not None:
        _check(graph, (error,))


def check_function(function: Callable[..., Any]) -> None:
    """Raise where something around may catch an error of a function of `math`, where NumPy's has an infinity or NaN."""
    graph = tracing.get()
    if graph is None or not graph.guards:
        return
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    if module in ("math", "cmath") and name not in _TOTAL:
        _check(graph, (ValueError, OverflowError))


def _check(graph: Graph, errors: Iterable[type[Exception]]) -> None:
    for error in errors:
        if not all(lets_pass(x, error) for x in graph.guards):
            about_matrix = issubclass(error, np.linalg.LinAlgError)
            test = "np.linalg.eigvalsh(a)[0] > 0" if about_matrix else "if y != 0, if 0 <= i < len(x)"
            raise UnsupportedError(
                f"for some traced values this raises {with_article(error.__name__)}, inside of `try` or `with`, "
                "which may catch it",
                f"Test first: {test}; or compute it outside of the `try`.",
            )


def _errors_of(node: Node) -> Iterator[type[Exception]]:
    """The errors that computing a node raises for some values."""
    if may_raise(node):
        yield np.linalg.LinAlgError if node.op.refuses else IndexError
    if any(isinstance(n, Dim) for x in node.inputs[:1] for n in x.aval.shape):  # there may be nothing
        if node.op is GET and len(node.aval.shape) < len(node.inputs[0].aval.shape):
            yield IndexError
        if node.op in _EXTREMES:
            yield ValueError
    avals: Any = [node.aval] if type(node.aval) is Aval else node.aval
    if any(x.dtype.kind in "fc" for x in avals) and "raise" in np.geterr().values():
        yield FloatingPointError
    if type(node.aval) is not Aval or node.aval.shape:
        return  # Python computes with no arrays
    if node.aval.weak:
        yield from _errors_of_python(node)
    elif node.op is POWER and node.aval.dtype.kind in "iu" and not _is_positive(node.inputs[1]):
        yield ValueError  # all that a number of NumPy's raises; others warn


def _errors_of_python(node: Node) -> Iterator[type[Exception]]:
    """Return the errors that an operator raises for some numbers of Python."""
    if node.op is POWER:
        yield OverflowError
        if not _is_positive(node.inputs[1]):
            yield ZeroDivisionError
    elif raises_at_zero(node):
        yield ZeroDivisionError
    elif node.op in _SHIFTS and not _is_positive(node.inputs[1]):
        yield ValueError


_EXTREMES = (MAX, MIN, ARGMAX, ARGMIN)
"""Reductions that have no value where there is nothing."""


def _is_positive(x: Node) -> bool:
    return x.op is CONSTANT and bool(np.all(x.constant >= 0))
