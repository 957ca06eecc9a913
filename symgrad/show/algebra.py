"""Graphs of numbers as SymPy expressions, and expressions as functions of arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.graph import CONSTANT, SIZE, Node, reached
from symgrad.core.listing import is_input, node_names
from symgrad.core.sizes import Dim
from symgrad.core.text import is_name
from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import WHERE
from symgrad.ops.define import TABLE
from symgrad.ops.elementwise import DIFFERENCE, LOGISTIC
from symgrad.ops.marks import STOP
from symgrad.ops.shape import BROADCAST_TO
from symgrad.report.mathematics import MARKS
from symgrad.show.subject import shown

if TYPE_CHECKING:
    from sympy import Expr

SMALL = 64  # denominators up to which a float is written as the fraction that it is

SAME = {
    np.sin: "sin", np.cos: "cos", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan",
    np.arctan2: "atan2", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh", np.arcsinh: "asinh", np.arccosh: "acosh",
    np.arctanh: "atanh", np.exp: "exp", np.log: "log", np.absolute: "Abs", np.sign: "sign", np.floor: "floor",
    np.ceil: "ceiling", np.maximum: "Max", np.minimum: "Min", np.less: "StrictLessThan", np.less_equal: "LessThan",
    np.greater: "StrictGreaterThan", np.greater_equal: "GreaterThan", np.equal: "Equality",
    np.not_equal: "Unequality", np.logical_and: "And", np.logical_or: "Or", np.logical_not: "Not", np.add: "Add",
    np.multiply: "Mul", np.power: "Pow",
}  # fmt: skip
"""NumPy's functions that SymPy has, too: both ways."""

_Written = Callable[..., Any]  # of SymPy's module and the inputs
WRITTEN: dict[Callable[..., Any], _Written] = {
    np.subtract: lambda s, a, b: a - b,
    np.divide: lambda s, a, b: a / b,
    np.negative: lambda s, a: -a,
    np.positive: lambda s, a: a,
    np.square: lambda s, a: a**2,
    np.sqrt: lambda s, a: s.sqrt(a),
    np.reciprocal: lambda s, a: 1 / a,
    np.fabs: lambda s, a: s.Abs(a),
    np.exp2: lambda s, a: 2**a,
    np.expm1: lambda s, a: s.exp(a) - 1,
    np.log1p: lambda s, a: s.log(1 + a),
    np.log2: lambda s, a: s.log(a, 2),
    np.log10: lambda s, a: s.log(a, 10),
    np.logaddexp: lambda s, a, b: s.log(s.exp(a) + s.exp(b)),
    np.hypot: lambda s, a, b: s.sqrt(a**2 + b**2),
    np.float_power: lambda s, a, b: a**b,
    np.bitwise_and: lambda s, a, b: s.And(a, b),
    np.bitwise_or: lambda s, a, b: s.Or(a, b),
    np.invert: lambda s, a: s.Not(a),
}
"""Functions of NumPy that SymPy expresses by others."""

THROUGH = (*MARKS, STOP, BROADCAST_TO)  # what is the same number


LOGIC = (np.logical_and, np.logical_or, np.logical_not, np.bitwise_and, np.bitwise_or, np.invert)
"""Functions of booleans; ``&``, ``|`` and ``~`` are the bitwise ones."""


def to_sympy(x: Any, *args: Any) -> Expr | list[Expr]:
    """A value that is computed elementwise, as a SymPy expression.

    Parameters
    ----------
    x : Variable, Graph, Program, Compiled or Function
    *args
        The arguments of a Function, or specs.

    Returns
    -------
    sympy.Expr or list of sympy.Expr
        Of real symbols, which are called as the inputs are; a list where there are several results. Of arrays an
        expression is what holds of each number. It is exact: without rounding and overflow, and with complex numbers
        where NumPy has NaN, ``sqrt(-1)``.

    Raises
    ------
    UnsupportedError
        Naming the operator, and the line, that does not work elementwise or has no form in SymPy.

    Examples
    --------
    >>> import numpy as np, sympy, symgrad as sg
    >>> slope = sg.to_sympy(sg.grad(lambda x: np.exp(-(x**2) / 2)), "float64[]")
    >>> slope
    -x*exp(-x**2/2)
    >>> print(sympy.latex(slope))
    - x e^{- \\frac{x^{2}}{2}}
    """
    graph, outputs = shown(x, args)
    names = node_names(graph)
    found: dict[Node, Any] = {}
    for node in reached(outputs):
        found[node] = _expression(node, names, [found[y] for y in node.inputs])
    return found[outputs[0]] if len(outputs) == 1 else [found[y] for y in outputs]


def _expression(node: Node, names: dict[Node, str], inputs: Sequence[Any]) -> Any:
    import sympy

    if is_input(node):
        return sympy.Symbol(names[node]) if node.aval.dtype.kind == "b" else sympy.Symbol(names[node], real=True)
    value = dict(node.params).get("value")
    if node.op is SIZE and isinstance(value, Dim):
        return value.expr
    if node.op is CONSTANT and value is not None and node.aval.shape == ():
        return _number(np.asarray(value.value).item(), node)
    if node.op in THROUGH:
        return inputs[0]
    if node.op is ASTYPE and node.aval.dtype.kind == "f" and node.inputs[0].aval.dtype.kind in "biuf":
        return _as_number(inputs[0]) if node.inputs[0].aval.dtype.kind == "b" else inputs[0]
    function = _functions().get(node.op)
    if function is None:
        raise _refused(node, "has no form in SymPy, or is not elementwise")
    return function(sympy, *_arguments(node, inputs))


def _arguments(node: Node, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs of an operator; booleans become numbers where it computes with them."""
    truths = [x.aval.dtype.kind == "b" for x in node.inputs]
    pairs = list(zip(truths, _conditions(node), strict=True))
    if (False, True) in pairs or (node.aval.dtype.kind == "b" and (True, False) in pairs):
        raise _refused(node, f"of {', '.join(str(x.aval.dtype) for x in node.inputs)} has no form in SymPy")
    return [_as_number(x) if pair == (True, False) else x for x, pair in zip(inputs, pairs, strict=True)]


def _conditions(node: Node) -> list[bool]:
    """Return which inputs of an operator are booleans."""
    if node.op is WHERE:
        return [True, False, False]
    return [node.op in [TABLE[f] for f in LOGIC]] * len(node.inputs)


def _as_number(x: Any) -> Any:
    """Return a boolean as one or zero."""
    import sympy

    return sympy.Piecewise((1, x), (0, True))


def _functions() -> dict[Any, _Written]:
    """Return the SymPy forms of operators."""
    named: dict[Any, _Written] = {TABLE[f]: lambda s, *xs, name=name: getattr(s, name)(*xs) for f, name in SAME.items()}
    written = {TABLE[f]: form for f, form in WRITTEN.items()} | {
        LOGISTIC: lambda s, a: 1 / (1 + s.exp(-a)),
        DIFFERENCE: lambda s, a, b: a - b,
    }
    return {**named, **written, WHERE: lambda s, c, a, b: s.Piecewise((a, c), (b, True))}


def _number(value: Any, node: Node) -> Any:
    """A number of SymPy's: exact where that reads well."""
    import sympy

    if isinstance(value, complex):
        raise _refused(node, "is a complex number")
    if isinstance(value, float) and math.isfinite(value):
        exact = Fraction(value)
        return sympy.Rational(*exact.as_integer_ratio()) if exact.denominator <= SMALL else sympy.Float(value)
    return sympy.sympify(value)


def _refused(node: Node, fact: str) -> UnsupportedError:
    return UnsupportedError(
        f"to_sympy: {node.op.path} {fact}", "Take a part of the graph that is arithmetic of numbers.", node.where
    )


# ---- from SymPy


def from_sympy(expr: Any, args: Any) -> Callable[..., Any]:
    """A SymPy expression as a plain function of arrays, to differentiate and to compile.

    Parameters
    ----------
    expr : sympy.Expr
    args : sympy.Symbol or sequence of sympy.Symbol
        The parameters, in their order.

    Returns
    -------
    callable
        Computes with NumPy, elementwise.

    Raises
    ------
    ArgumentError
        If the expression has other symbols, a parameter is no name in Python, or NumPy has no such function.

    Examples
    --------
    >>> import sympy, symgrad as sg
    >>> x, s = sympy.symbols("x s")
    >>> gauss = sg.from_sympy(sympy.exp(-(x / s) ** 2 / 2), [x, s])
    >>> round(float(sg.grad(gauss)(1.0, 2.0)), 6)
    -0.220624
    """
    import sympy

    expr, args = sympy.sympify(expr), [args] if isinstance(args, sympy.Symbol) else list(args)
    names = [str(arg) for arg in args]
    if not all(isinstance(arg, sympy.Symbol) and is_name(name) for arg, name in zip(args, names, strict=True)):
        raise ArgumentError(f"from_sympy: the parameters are {names}", "Give symbols that are Python names.")
    if len(set(names)) < len(names):
        raise ArgumentError(f"from_sympy: the parameters are {names}", "Give each name once.")
    free = sorted(map(str, expr.free_symbols - set(args)))
    if free:
        raise ArgumentError(f"from_sympy: {', '.join(free)} stand in the expression", "Add them to the parameters.")
    steps = [(part, _numpy(part)) for part in _parts(expr) if part not in args]
    return _Expression(expr, args, steps)


class _Expression:
    """A function that computes an expression part by part."""

    def __init__(self, expr: Any, args: Sequence[Any], steps: Sequence[tuple[Any, Callable[..., Any]]]) -> None:
        self._expr, self._args, self._steps = expr, args, steps
        parameters = [inspect.Parameter(str(x), inspect.Parameter.POSITIONAL_OR_KEYWORD) for x in args]
        self.__signature__ = inspect.Signature(parameters)
        self.__name__ = "expression"

    def __repr__(self) -> str:
        return f"<{self._expr} of {', '.join(map(str, self._args))}>"

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        values = dict(zip(self._args, self.__signature__.bind(*given, **named).args, strict=True))
        for part, compute in self._steps:
            values[part] = compute(*[values[x] for x in part.args])
        return values[self._expr]


def _parts(expr: Any) -> list[Any]:
    """The parts of an expression, each once and behind its own parts."""
    found: dict[Any, None] = {}
    stack = [expr]
    while stack:
        part = stack[-1]
        waiting = [x for x in part.args if x not in found]
        if waiting:
            stack += waiting
        else:
            found.setdefault(stack.pop())
    return list(found)


def _numpy(part: Any) -> Callable[..., Any]:
    """Return the NumPy function that computes a part of an expression from its parts."""
    import sympy
    from sympy.functions.elementary.piecewise import ExprCondPair

    if part in (sympy.true, sympy.false):
        truth = bool(part)
        return lambda: truth
    if not part.args and (getattr(part, "is_extended_real", False) or part is sympy.nan) and part.is_number:
        value = int(part) if part.is_Integer else float(part)
        return lambda: value
    if part.func is ExprCondPair:
        return lambda value, condition: (value, condition)
    if part.func is sympy.Piecewise:
        return lambda *pieces: reduce(_piece, pieces[::-1], np.nan)
    if part.func is sympy.Pow and part.exp.is_number and part.exp.is_negative:
        return lambda x, exponent: 1 / _power(x, -exponent)
    function = _power if part.func is sympy.Pow else _of_sympy().get(part.func)
    if function is None:
        raise ArgumentError(
            f"from_sympy: NumPy has no {part.func.__name__}", "Rewrite the expression with expr.rewrite(...) first."
        )
    return function if len(part.args) < 3 else lambda *xs: reduce(function, xs)


def _of_sympy() -> dict[Any, Callable[..., Any]]:
    """NumPy's functions by those of SymPy."""
    import sympy

    return {getattr(sympy, name): function for function, name in SAME.items()}


def _piece(rest: Any, piece: tuple[Any, Any]) -> Any:
    value, condition = piece
    return value if condition is True else np.where(condition, value, rest)


def _power(x: Any, exponent: Any) -> Any:
    if type(exponent) in (int, float) and exponent in (1, 0.5):
        return x if exponent == 1 else np.sqrt(x)
    return np.power(x, exponent)
