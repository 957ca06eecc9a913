"""Classes of numbers where traced values decide them: each value knows an object of every class that it may be of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import CONSTANT, SEED, Aval, Graph, Node
from symgrad.core.sizes import Dim
from symgrad.errors import UnsupportedError
from symgrad.frontend.raising import check_of_python
from symgrad.frontend.variable import Variable, class_of
from symgrad.ops.control import EITHER
from symgrad.ops.operands import ARRAYS, is_traced
from symgrad.ops.truths import is_pythons, is_truth, of_numpy, of_python

Examples = dict[type, Any]
"""Classes of which a value may be, with an object of each."""


def examples_of(x: Any) -> Examples:
    """Return the classes of which a value may be, None aside."""
    if isinstance(x, Dim):
        return {int: 1}
    if not is_traced(x):
        return {type(x): x}
    if x.examples:
        return x.examples
    if is_truth(x) and is_pythons(x) is None:
        return {bool: False, np.bool_: np.False_}
    kind = class_of(x)
    return {kind: x if kind is np.ndarray else kind()}


def examples_in(x: Any) -> Examples:
    """Return the classes of the numbers in an item of a list: of itself, or of what a list or a tuple holds."""
    numbers = (y for y in tree.flatten(x)[0] if isinstance(y, _NUMBERS) or (is_traced(y) and not y.writes_in_place))
    return {kind: like for y in numbers if not np.ndim(y) for kind, like in examples_of(y).items()}


_NUMBERS = (bool, int, float, complex, np.number, np.bool_, Dim)


def of_classes(x: Variable, examples: Examples) -> Variable:
    """Return a value of which is known of which classes it may be."""
    if x.shape or x.writes_in_place:
        return x
    is_known = examples.keys() == examples_of(x).keys()
    if is_known and (x.examples or len(examples) == 1):
        return x
    if x.dtype.kind == "b" and np.ndarray not in examples:
        if len(examples) == 1:
            return of_python(x) if bool in examples else of_numpy(x)
        x = x if is_known else EITHER(x)
    return Mixed(x.graph, x.node, examples)


def list_kind(x: Any) -> type | None:
    """Return the class of a traced value that is a list or a tuple for Python; None of any other value."""
    return type(x) if is_traced(x) and type(x).python_class in (list, tuple) else None


def kind_shown(kind: type | None) -> str:
    """Return a class of lists in a message."""
    return "an array" if kind is None else f"a {kind.python_class.__name__}"  # type: ignore[attr-defined]


def of_operator(y: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Return the result of an operator, of a class that those of the operands tell."""
    if not is_traced(y):
        return y
    found = result_examples(function, *map(examples_of, operands))
    if any((kind in (bool, np.bool_)) is not (y.dtype.kind == "b") for kind in found):
        raise UnsupportedError(
            "an operand is a boolean or a number, depending on traced values, and NumPy treats these differently",
            "Give the operand one class on all paths: int(x), or bool(x).",
        )
    if int in found and (small := next(filter(_wraps, found), None)):
        raise UnsupportedError(
            f"an operand is a Python int or a np.{small.__name__}, which may overflow, depending on traced values",
            f"Give the operand one class on all paths: int(x), or np.{small.__name__}(x).",
        )
    if not found.keys().isdisjoint((int, float, complex)):
        check_of_python(y)
    return of_classes(y, found)


def _wraps(kind: type) -> bool:
    """Whether small numbers overflow in a class where ints of Python do not."""
    return issubclass(kind, np.integer) and (np.dtype(kind).itemsize < 4 or np.dtype(kind).kind == "u")


def result_examples(function: Callable[..., Any], *operands: Examples) -> Examples:
    """Return the classes of which the result of a function may be, from those of its operands.

    Raises
    ------
    UnsupportedError
        If the function has no result for some of these classes.
    """
    ones = [[_one(like) for like in examples.values()] for examples in operands]
    try:
        with np.errstate(all="ignore"):  # only the class of the result matters
            found = [function(*each) for each in product(*ones)]
    except TypeError as error:
        raise UnsupportedError(
            f"traced values decide of which class a number is, and an operator raises for one of the classes: {error}",
            "Give it one class on all paths: int(x), or float(x).",
        ) from None
    return {type(x): x for x in found}


def _one(x: Any) -> Any:
    """The number 1 of the class of an example; of a class of the user's that of the class which it is derived from."""
    if isinstance(x, ARRAYS):
        return np.ones((), x.dtype) if isinstance(x, np.ndarray) else type(x)(1)
    return next(kind for kind in (bool, int, float, complex) if isinstance(x, kind))(1)


def fits(x: Node, dtype: np.dtype) -> bool:
    """Whether a number is the same in another dtype: one of Python's has more digits than a float32.

    What comes from the carry of a loop is not asked: it is of the dtype of the carry once that is known.
    """
    if not x.aval.weak or x.aval.dtype == dtype:
        return True
    if x.op is CONSTANT:
        with np.errstate(all="ignore"):
            value, here = x.constant, np.asarray(x.constant).astype(dtype).item()
        return here == value or bool(np.isnan(here) and np.isnan(value))
    return np.can_cast(x.aval.dtype, dtype) or _is_carried(x)


def _is_carried(x: Node) -> bool:
    """Whether a Python float comes from what an iteration begins with."""
    waiting, seen = [x], {x}
    while waiting:
        node = waiting.pop()
        if node.op is SEED and node.aval.dtype.kind in "fc":
            return True
        new = {y for y in node.inputs if type(y.aval) is Aval and y.aval.weak} - seen
        seen |= new
        waiting += new
    return False


def as_python(x: Any) -> Any:
    """Return an object of the class that a traced number, a list or a symbolic size stands for, others as they are."""
    return of_class(x, lambda like: like)


def of_class(x: Any, test: Callable[[Any], Any]) -> Any:
    """Return what a test of the class of an object gives."""
    there, *others = [test(like) for like in examples_of(x).values()]
    if any(other is not there for other in others):
        raise UnsupportedError(
            "the program asks for the class of a number, which depends on traced values",
            "Give it one class on all paths: 3.0 instead of 3.",
        )
    if not (is_traced(x) and x.may_be_none) or test(None) is there:
        return there
    return x.present if there else np.logical_not(x.present)


class Mixed(Variable):
    """A number whose class its dtype does not tell: the program decides between several, or it is of the user's."""

    __slots__ = ("examples",)
    __hash__ = Variable.__hash__

    def __init__(self, graph: Graph, node: Node, examples: Examples | None = None) -> None:
        super().__init__(graph, node)
        self.examples = examples

    @property
    def python_class(self) -> type | None:  # type: ignore[override]
        return type(as_python(self)) if self.examples else None

    def of_operator(self, y: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Return the result of an operator, of which the classes of the operands tell the class."""
        return of_operator(y, function, operands)
