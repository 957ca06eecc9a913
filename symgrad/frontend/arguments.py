"""Arguments of a call: their descriptions, leaf by leaf, and their paths."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import optree

from symgrad.core import tree
from symgrad.core.graph import Aval, Node
from symgrad.core.options import NAMES
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim
from symgrad.core.specs import parse_size, parse_spec, size_texts
from symgrad.core.text import double_quoted, is_name, key_literal, word
from symgrad.errors import ArgumentError, UnsupportedError
from symgrad.frontend.foreign import plain

LONGEST = 40  # characters of a key that make a name


class Spec:  # no dataclass, which would be a tree
    """Shape and dtype of an array that is not at hand; made by `spec`.

    Attributes
    ----------
    shape : tuple of int or str
        Sizes; a string is a symbolic size, the same for all specs of one call.
    dtype : numpy.dtype
    """

    def __init__(self, shape: tuple[int | str, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def spec(text: str) -> Spec:
    """Describe an array by dtype and sizes.

    Parameters
    ----------
    text : str
        Such as ``"float64[n, 3]"``, ``"float32[]"`` or ``"int64[2*n + 1]"``. The same letter is the same size in all
        specs of one call; ``_`` is a size of its own.

    Returns
    -------
    Spec

    Raises
    ------
    ArgumentError
        If the text is not a spec.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.spec("float32[batch, 784]").shape
    ('batch', 784)
    """
    if not isinstance(text, str):
        raise ArgumentError(f"{text!r} is not a text", 'Write a dtype and sizes, such as "float64[n, 3]".')
    shape, dtype = parse_spec(text, Sizes())
    return Spec(tuple(n if isinstance(n, int) else t for n, t in zip(shape, size_texts(text), strict=True)), dtype)


def spec_of(text: str, path: str) -> Spec:
    """Return the spec of an argument; where the text is none, the error names the argument."""
    try:
        return spec(text)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error.fact}", error.instead) from None


@dataclass(frozen=True)
class Leaf:
    """One leaf of the arguments: an input of the graph, or a value that is part of the program."""

    parameter: str
    below: str  # where in the parameter it is, as Python source: ``["W"]``; "" for the parameter itself
    path: str  # Python expression for it, as messages write it, ``params['W']``
    name: str
    node: Node | None = None
    static: Any = None
    size: Dim | None = None  # of an int that is computed with as sizes are
    ignored: bool = False  # an int that the function does not read
    is_array: bool | None = None  # of no dimensions: an array, into which one can write, or a number; None of a spec


class Order(NamedTuple):
    """The keys of a dict among the arguments, in their order, which a function may see."""

    parameter: str
    below: str
    keys: tuple[Any, ...]


def bind(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None = None
) -> inspect.BoundArguments:
    """Return the arguments by parameter; raise an error with the signature if they do not fit."""
    takes = signature(function)
    try:
        return takes.bind(*args, **kwargs)
    except TypeError as error:
        called = str(name or getattr(function, "__name__", "the function"))
        raise unfit(called, takes, kwargs, error) from None


def unfit(name: str, takes: inspect.Signature, kwargs: Mapping[str, Any], error: TypeError) -> ArgumentError:
    """Return the error for arguments that do not fit."""
    option = next((key for key in kwargs if key in NAMES and key not in takes.parameters), None)
    instead = "" if option is None else f" {option}= is an option of the transform, sg.grad(f, {option}=...)."
    return ArgumentError(f"{name}: {misfit(takes, kwargs, error)}", f"It takes {takes}.{instead}")


def misfit(takes: inspect.Signature, kwargs: Mapping[str, Any], error: TypeError) -> str:
    """Return why arguments do not fit: an unknown name tells more than the argument that is missing."""
    is_any = any(p.kind is p.VAR_KEYWORD for p in takes.parameters.values())
    unknown = next((key for key in kwargs if not is_any and key not in takes.parameters), None)
    return str(error) if unknown is None else f"got an unexpected keyword argument {unknown!r}"


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; of one that has none to tell (some built in C), ``*args``."""
    if not callable(function):
        raise ArgumentError(f"{function!r} is not a function", "Give a function of arrays.")
    try:
        return inspect.signature(function)
    except ValueError:
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])


def is_array(x: Any) -> bool:
    """Whether a leaf is an input of the program rather than part of it."""
    if isinstance(x, (np.ndarray, np.generic, float, complex, Spec)):
        return True
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type)  # np.float64 has both


def is_zero_dimensional(x: Any) -> bool:
    """Whether it is an array, and not a number, of no dimensions."""
    return type(x) is np.ndarray and x.ndim == 0


_FIXED = (type(None), type(...), type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, np.ufunc, partial)


def is_static(x: Any) -> bool:
    """Whether a leaf may be part of the program: it compares by value, so that another value is another program."""
    if type(x).__hash__ is object.__hash__:  # type: ignore[comparison-overlap]
        return isinstance(x, _FIXED) or hasattr(x, "__wrapped__")
    try:
        hash(x)
    except TypeError:
        return False
    return True


class Arguments:
    """The arguments of a call by parameter, leaf by leaf."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        for parameter in arguments:
            if not is_name(parameter):
                raise ArgumentError(f"the parameter {parameter!r} is not a Python name", "Give it another name.")
        self._given = tuple(arguments.values())
        self._paths, self.values, self.structure = tree.flatten_with_paths(self._given)
        self._steps = _steps(arguments, self._paths)

    def places(self) -> list[tuple[tuple[str, str, str], str]]:
        """Return (parameter, position below it, path) and a short name for each leaf."""
        names = _short_names([[word(str(step))[:LONGEST] for step in path] for path in self._steps])
        places = [self._place(path, steps[0]) for path, steps in zip(self._paths, self._steps, strict=True)]
        return list(zip(places, names, strict=True))

    def orders(self) -> list[Order]:
        """The dicts among the arguments that have an order to be seen."""
        found: dict[tuple[str, str], Order] = {}
        for path, steps in zip(self._paths, self._steps, strict=True):
            for i in range(1, len(path)):
                if isinstance(path[i], optree.MappingEntry):
                    parameter, below, _ = self._place(path[:i], steps[0])
                    found.setdefault((parameter, below), Order(parameter, below, tuple(path[:i](self._given))))
        return [order for order in found.values() if len(order.keys) > 1]

    @staticmethod
    def _place(path: optree.PyTreeAccessor, parameter: str) -> tuple[str, str, str]:
        below = _below(parameter, path[1:])
        return parameter, "".join(map(double_quoted, below)), parameter + "".join(below)


def dotted_paths(arguments: Mapping[str, Any]) -> tuple[list[str], list[Any], tree.TreeSpec]:
    """The leaves of the arguments with a dotted path for each, ``params.W``, and the structure of the tuple of them."""
    paths, values, structure = tree.flatten_with_paths(tuple(arguments.values()))
    return [".".join(map(str, steps)) for steps in _steps(arguments, paths)], values, structure


def _steps(arguments: Mapping[str, Any], paths: Sequence[Any]) -> list[list[Any]]:
    parameters = list(arguments)
    return [[parameters[path[0].entry], *tree.steps(path[1:])] for path in paths]


def input_aval(value: Any, sizes: Sizes, shape: tuple[int | str, ...] | None = None, path: str = "an argument") -> Aval:
    """Return the abstract value of an argument."""
    if type(value) in (float, complex):
        return Aval((), np.dtype(type(value)), True)
    value = plain(value, path)
    dtype = np.dtype(value.dtype)
    if dtype.kind not in "biufc":
        raise UnsupportedError(
            f"{path} has dtype {dtype}",
            f"Only boolean, integer, floating and complex arrays can be traced: {path}.astype(float).",
        )
    entries = value.shape if shape is None else shape
    known = [parse_size(n, sizes) if isinstance(n, str) else n if isinstance(n, Dim) else int(n) for n in entries]
    for n in known:
        sizes.assume(n)  # an argument cannot be of another size
    return Aval(tuple(known), dtype)


def _below(parameter: str, path: optree.PyTreeAccessor) -> list[str]:
    """Return the steps from a parameter to a leaf, as Python writes them."""
    texts: list[str] = []
    for step in path:
        if isinstance(step, optree.GetAttrEntry | optree.NamedTupleEntry):
            texts.append(f".{step.field if isinstance(step, optree.NamedTupleEntry) else step.entry}")
            continue
        key = key_literal(step.entry) if isinstance(step, optree.GetItemEntry) else None
        if key is None:
            raise ArgumentError(
                f"{parameter}{''.join(texts)} has the key {step.entry!r}, which cannot be written as Python source",
                "Use strings or numbers as keys.",
            )
        texts.append(f"[{key}]")
    return texts


def _short_names(paths: list[list[str]]) -> list[str]:
    """For each path the shortest ending that is a name and belongs to it alone; parameters keep theirs."""
    names: list[str] = []
    taken = {path[0] for path in paths if len(path) == 1}
    often = Counter(tuple(path[start:]) for path in paths for start in range(len(path)))
    for path in paths:
        for start in range(len(path) - 1, -1, -1):
            ending = path[start:]
            if start == 0 or (often[tuple(ending)] == 1 and ending[0].isidentifier()):
                break
        name = "_".join(ending)
        while len(path) > 1 and name in taken:  # "a b" and "a_b" are one name
            name += "_"
        taken.add(name)
        names.append(name)
    return names
