"""Transforms of functions: grad and its family. Each runs its function on Variables and appends derivative nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from symgrad.compiler.function import Function
from symgrad.core import tree
from symgrad.core.text import is_name
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program, definition, signature
from symgrad.frontend.variable import Variable
from symgrad.ops import marks
from symgrad.transforms.products_with_vectors import pushed
from symgrad.transforms.wrt import Choice, Run

Tree = Any
_P = ParamSpec("_P")


def remembered(transform: Callable[_P, Function]) -> Callable[_P, Function]:
    """Note on a Function how it was made, so that it can be made again where it is sent to."""

    @wraps(transform)
    def made(*args: _P.args, **kwargs: _P.kwargs) -> Function:
        function = transform(*args, **kwargs)
        function.recipe = made, args, kwargs
        return function

    return made


# ---- the public transforms


@remembered
def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    disconnected: str = "zero",
    **options: Any,
) -> Function:
    """The gradient of a function with a scalar result.

    Parameters
    ----------
    f : callable
        Written in NumPy. Its arguments and results are arrays, numbers, or trees of them.
    argnums : int or sequence of int
        Which positional arguments to differentiate by: an int gives the bare gradient, a tuple a tuple.
    wrt : str or sequence of str, optional
        Names instead: an argument or a part of one, ``"params.W"``, or a value that `name` names in `f`. A string
        gives the bare gradient, a list a tuple.
    has_aux : bool
        Whether `f` returns ``(value, aux)``; the result is then ``(gradient, aux)``.
    disconnected : str
        ``"zero"`` gives zeros where the value does not depend on an input, ``"raise"`` an error.
    **options
        As in `symgrad.options`; and ``static_argnums=``, ``static_argnames=``: the arguments that are part of the
        program, by number or by name.

    Returns
    -------
    Function
        Gives gradients of the shapes and dtypes of the arguments, in trees like theirs.

    Raises
    ------
    DTypeError
        At the call: an argument to differentiate by is not floating.
    ShapeError
        At the call: the result of `f` is not a scalar.
    NotDifferentiableError
        At the call: naming the NumPy function without a derivative, and the line.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.grad(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    choice = Choice(argnums, wrt, disconnected)

    def body(*args: Any, **kwargs: Any) -> Any:
        run = Run(f, choice, args, kwargs, has_aux)
        gradients = run.gradients(run.value("grad"))
        return (gradients, run.aux) if has_aux else gradients

    return _function(body, f, "grad", f"Gradient of {describe(f)} with respect to {choice.described(f)}", options)


@remembered
def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    disconnected: str = "zero",
    **options: Any,
) -> Function:
    """The value of a function with a scalar result and its gradient, which share their work.

    Parameters
    ----------
    f, argnums, wrt, has_aux, disconnected, **options
        As in `grad`.

    Returns
    -------
    Function
        Gives ``(value, gradient)``, or ``((value, aux), gradient)`` with `has_aux`.

    Raises
    ------
    DTypeError, ShapeError, NotDifferentiableError
        As in `grad`.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.value_and_grad(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    (np.float64(9.0), array([ 3., 12.]))
    """
    choice = Choice(argnums, wrt, disconnected)

    def body(*args: Any, **kwargs: Any) -> Any:
        run = Run(f, choice, args, kwargs, has_aux)
        value = run.value("value_and_grad")
        run.graph.label(value.node, "value")
        return ((value, run.aux) if has_aux else value), run.gradients(value)

    text = f"Value and gradient of {describe(f)} with respect to {choice.described(f)}"
    return _function(body, f, "value_and_grad", text, options)


@remembered
def elementwise_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """The derivative of an elementwise function, number by number.

    Parameters
    ----------
    f : callable
        Each number of its result depends on the same number of the argument only; the gradient of the sum of the
        results is then the array of derivatives.
    argnums, **options
        As in `grad`.

    Returns
    -------
    Function

    Raises
    ------
    ShapeError
        At the call: the shapes of result and argument differ, so that `f` is not elementwise.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.elementwise_grad(np.square)(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    choice = Choice(argnums)

    def body(*args: Any, **kwargs: Any) -> Any:
        run = Run(f, choice, args, kwargs)
        return run.gradients(run.sum_of_numbers("elementwise_grad"))

    text = f"Derivative, number by number, of {describe(f)} with respect to {choice.described(f)}"
    return _function(body, f, "elementwise_grad", text, options)


@remembered
def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    mode: str = "auto",
    **options: Any,
) -> Function:
    """The dense Jacobian of a function.

    Parameters
    ----------
    f : callable
    argnums, wrt
        As in `grad`.
    mode : str
        ``"rev"`` goes back from the results, ``"fwd"`` forward from the arguments; ``"auto"`` takes the smaller side.
    **options
        As in `symgrad.options`.

    Returns
    -------
    Function
        Gives for each result and each argument an array of shape ``(*result.shape, *argument.shape)``, in a tree of
        results of trees of arguments.

    Raises
    ------
    DTypeError, NotDifferentiableError
        As in `grad`.
    ArgumentError
        For another `mode`.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jacobian(lambda x: x[:2] * x[2])(np.array([1.0, 2.0, 3.0]))
    array([[3., 0., 1.],
           [0., 3., 2.]])
    """
    if mode not in ("auto", "rev", "fwd"):
        raise ArgumentError(f"mode={mode!r}", 'It is "auto", "rev" or "fwd".')
    choice = Choice(argnums, wrt)

    def body(*args: Any, **kwargs: Any) -> Any:
        return Run(f, choice, args, kwargs).jacobian(mode, "jacobian")

    return _function(body, f, "jacobian", f"Jacobian of {describe(f)} with respect to {choice.described(f)}", options)


@remembered
def jacrev(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """`jacobian` with ``mode="rev"``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jacrev(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return jacobian(f, argnums, mode="rev", **options)


@remembered
def jacfwd(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """`jacobian` with ``mode="fwd"``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jacfwd(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return jacobian(f, argnums, mode="fwd", **options)


@remembered
def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    **options: Any,
) -> Function:
    """The dense Hessian of a function with a scalar result.

    Parameters
    ----------
    f, argnums, wrt, **options
        As in `grad`.

    Returns
    -------
    Function
        Gives for each pair of arguments an array of shape ``(*first.shape, *second.shape)``, in a tree of trees.

    Raises
    ------
    DTypeError, ShapeError, NotDifferentiableError
        As in `grad`.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    choice = Choice(argnums, wrt)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        run = Run(f, choice, args, kwargs)
        return run.gradients(run.value("hessian"))

    gradient.__signature__ = signature(f)  # type: ignore[attr-defined]
    gradient.__wrapped__ = f  # type: ignore[attr-defined]

    def body(*args: Any, **kwargs: Any) -> Any:
        return Run(gradient, choice, args, kwargs).jacobian("rev", "hessian")

    text = f"Hessian of {describe(f)} with respect to {choice.described(f)}"
    return _function(body, f, "hessian", text, options)


@remembered
def hvp(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    **options: Any,
) -> Function:
    """The product of the Hessian of a function with a vector, without forming the Hessian.

    Parameters
    ----------
    f : callable
        With a scalar result.
    argnums : int or sequence of int
        The argument to differentiate by; of several the vector is a tuple, as is the result.
    wrt : str or sequence of str, optional
        Names instead, as in `grad`.
    **options
        As in `symgrad.options`.

    Returns
    -------
    Function
        Called ``(*args, vector)``, where `vector` is a tree like the argument; so is the result. Arguments of `f` that
        have a default are passed by keyword.

    Raises
    ------
    DTypeError, ShapeError, NotDifferentiableError
        As in `grad`.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.hvp(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """

    choice = Choice(argnums, wrt)

    def body(*args: Any, **kwargs: Any) -> Any:
        *primals, vector = args
        run = Run(f, choice, primals, kwargs)
        gradient = run.prepared(run.gradients(run.value("hvp")))
        return pushed(run, gradient, vector)

    body.__signature__ = _with_vector(signature(f))  # type: ignore[attr-defined]
    text = f"Hessian-vector product of {describe(f)} with respect to {choice.described(f)}"
    return _function(body, f, "hvp", text, options)


@remembered
def compile(f: Callable[..., Any], **options: Any) -> Function:
    """The function itself, traced, simplified and compiled, without a derivative.

    Parameters
    ----------
    f : callable
    **options
        As in `symgrad.options`.

    Returns
    -------
    Function

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.compile(lambda x: np.log(1 + np.exp(x)))(1000.0)
    np.float64(1000.0)
    """
    return Function(f, _name_of(f), f"{describe(f)}, compiled", options)


def trace(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Program:
    """The program of a function, without a derivative, as a graph to go on with.

    Parameters
    ----------
    f : callable
    *args, **kwargs
        Its arguments, or specs in their place.

    Returns
    -------
    Program
        With ``graph``, and ``inputs`` and ``outputs`` as trees of Variables.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> program = sg.trace(lambda x: np.sum(x ** 2), "float64[n]")
    >>> (dx,) = sg.gradients(program.outputs, [program.inputs["x"]])
    >>> sg.function([program.inputs["x"]], dx)(np.ones(2))
    array([2., 2.])
    """
    return compile(f).trace(*args, **kwargs)


def stop_gradient(x: Tree) -> Tree:
    """The same value, through which no derivative flows.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.grad(lambda x: x * sg.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return tree.tree_map(lambda leaf: marks.STOP(leaf) if isinstance(leaf, Variable) else leaf, x)


def name(x: Any, text: str) -> Any:
    """The same value under a name: in the generated source, and for ``wrt=``.

    Parameters
    ----------
    x : array
    text : str
        A Python name.

    Returns
    -------
    array
        `x`

    Raises
    ------
    ArgumentError
        If the text is not a Python name.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     h = sg.name(x ** 2, "h")
    ...     return np.sum(h ** 2)
    >>> sg.grad(f, wrt="h")(np.array([1.0, 2.0]))
    array([2., 8.])
    """
    if not is_name(text):
        raise ArgumentError(f"{text!r} is not a Python name", 'Write a name such as "h".')
    if not isinstance(x, Variable):
        return x
    return marks.named(x, text)


# ---- what they share


def _function(
    body: Callable[..., Any], f: Callable[..., Any], kind: str, summary: str, options: dict[str, Any]
) -> Function:
    """The transform of `f`, with its signature and a name after it."""
    if not hasattr(body, "__signature__"):
        body.__signature__ = signature(f)  # type: ignore[attr-defined]
    body.__wrapped__ = f  # type: ignore[attr-defined]
    return Function(body, f"{_name_of(f)}_{kind}", summary, options)


def _name_of(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "function")
    return name if is_name(name) else "function"


def describe(f: Callable[..., Any]) -> str:
    """What a function is called, and where it stands."""
    if isinstance(f, Function):
        return f"the {f.summary[0].lower()}{f.summary[1:]}"
    where = definition(f)
    return f"{_name_of(f)} ({where})" if where.line else _name_of(f)


def _with_vector(of: inspect.Signature) -> inspect.Signature:
    """The signature with one more argument behind those without a default; the others are passed by keyword."""
    kinds = inspect.Parameter
    parameters = list(of.parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return inspect.Signature([kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD)])
    before = [p for p in parameters if p.kind <= kinds.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    optional = [
        p.replace(kind=kinds.KEYWORD_ONLY)
        for p in parameters
        if p.kind <= kinds.POSITIONAL_OR_KEYWORD and p not in before
    ]
    after = [p for p in parameters if p.kind > kinds.POSITIONAL_OR_KEYWORD]
    free = next(name for name in ("vector", "direction", "_vector") if name not in of.parameters)
    place = kinds.POSITIONAL_ONLY if any(p.kind is p.POSITIONAL_ONLY for p in before) else kinds.POSITIONAL_OR_KEYWORD
    vector = kinds(free, place if all(p.kind is place for p in before) else kinds.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([*before, vector, *optional, *after])
