"""Transforms of functions: grad and its family. Each runs its function on Variables and appends derivative nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, overload

from symgrad.compiler.function import Function
from symgrad.core import tree
from symgrad.core.options import OfTransform
from symgrad.core.text import is_name
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.ops import marks
from symgrad.transforms.differentiation import Differentiation
from symgrad.transforms.making import describe, name_of, remembered, transform
from symgrad.transforms.wrt import Choice

if TYPE_CHECKING:
    from symgrad.compiler.typed import Gradient, ValueAndGradient

Tree = Any
P = ParamSpec("P")
V = TypeVar("V")
Disconnected = Literal["zero", "raise"]


@overload
def grad(
    f: Function[P, Any] | Callable[P, Any],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    has_aux: Literal[False] = False,
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Gradient[P]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, V]],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: Literal[True],
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, tuple[Any, V]]: ...
@overload
def grad(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, Any]: ...
@remembered
def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Any:
    """The gradient of a function with a scalar result.

    Parameters
    ----------
    f : callable
        Written in NumPy. Its arguments and results are arrays, numbers, or trees of them.
    argnums : int or sequence of int
        Which positional arguments to differentiate by: an int gives the bare gradient, a tuple a tuple.
    wrt : str or sequence of str, optional
        Names instead: an argument or a part of one, ``"params.W"`` or ``"params.layers[0].W"``, or a value that
        `name` names in `f`. A string gives the bare gradient, a list a tuple.
    has_aux : bool
        Whether `f` returns ``(value, aux)``; the result is then ``(gradient, aux)``.
    disconnected : str
        ``"zero"`` gives zeros where the value does not depend on an input, ``"raise"`` an error.
    holomorphic : bool
        Whether `f` is a holomorphic function of complex numbers: the result is then ``f'(z)``. Without it the result of
        `f` is real, and the gradient by ``z = x + 1j * y`` is ``df/dx - 1j * df/dy``.
    **options
        As in `symgrad.options`; and ``static_argnums=``, ``static_argnames=``: the arguments that are part of the
        program, by number or by name, or parts of them, ``"params.steps"``.

    Returns
    -------
    Function
        Gives gradients of the shapes and dtypes of the arguments, in trees like theirs. There is None in them where an
        argument has a text, a boolean, a function, None, what is static, or a field that its class declares to be an
        int.

    Raises
    ------
    DTypeError
        At the call: an argument to differentiate by is not floating, or the result is complex.
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

    def result(run: Differentiation) -> Any:
        gradients = run.gradients(run.value("grad"))
        return (gradients, run.aux) if has_aux else gradients

    return transform(
        "grad",
        "Gradient of",
        f,
        Choice(argnums, wrt, disconnected, options, holomorphic),
        result,
        options,
        has_aux,
        order=1,
    )


@overload
def value_and_grad(
    f: Callable[P, V],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    has_aux: Literal[False] = False,
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> ValueAndGradient[P, V]: ...
@overload
def value_and_grad(
    f: Callable[P, V],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, tuple[V, Any]]: ...
@remembered
def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    disconnected: Disconnected = "zero",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Any:
    """The value of a function with a scalar result and its gradient, which share their work.

    Parameters
    ----------
    f, argnums, wrt, has_aux, disconnected, holomorphic, **options
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

    def result(run: Differentiation) -> Any:
        value = run.value("value_and_grad")
        run.graph.label(value.node, "value")
        return ((value, run.aux) if has_aux else value), run.gradients(value)

    choice = Choice(argnums, wrt, disconnected, options, holomorphic)
    return transform("value_and_grad", "Value and gradient of", f, choice, result, options, has_aux)


@overload
def elementwise_grad(
    f: Callable[P, Any], argnums: Literal[0] = 0, *, holomorphic: bool = False, **options: Unpack[OfTransform]
) -> Gradient[P]: ...
@overload
def elementwise_grad(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    *,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, Any]: ...
@remembered
def elementwise_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Any:
    """The derivative of an elementwise function, element by element.

    Parameters
    ----------
    f : callable
        Each number of its result depends on the same number of the argument only; the gradient of the sum of the
        results is then the array of derivatives.
    argnums, holomorphic, **options
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
    result = lambda run: run.gradients(run.sum_of_numbers("elementwise_grad"))
    what = "Derivative, number by number, of"
    choice = Choice(argnums, options=options, holomorphic=holomorphic)
    return transform("elementwise_grad", what, f, choice, result, options, order=1)


@remembered
def compile(f: Callable[P, V], **options: Unpack[OfTransform]) -> Function[P, V]:
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
    return Function(f, name_of(f), f"{describe(f)}, compiled", options)


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


def stop_gradient(x: V) -> V:
    """The same value, through which no derivative flows.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.grad(lambda x: x * sg.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return tree.tree_map(lambda leaf: marks.STOP(leaf) if isinstance(leaf, Variable) else leaf, x)


def name(x: V, text: str) -> V:
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
