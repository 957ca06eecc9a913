"""Transforms whose results are matrices of derivatives, or products with one: Jacobians and Hessians."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Unpack, overload

from symgrad.compiler.function import Function
from symgrad.core.options import OfTransform
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import bind, signature
from symgrad.transforms.differentiation import Differentiation
from symgrad.transforms.making import made_of, remembered, standing_for, transform
from symgrad.transforms.products_with_vectors import pushed
from symgrad.transforms.wrt import Choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from symgrad.compiler.typed import Matrix, Product

P = ParamSpec("P")


@overload
def jacobian(
    f: Callable[P, NDArray[Any]],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    has_aux: Literal[False] = False,
    mode: Literal["auto", "rev", "fwd"] = "auto",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Matrix[P]: ...
@overload
def jacobian(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    mode: Literal["auto", "rev", "fwd"] = "auto",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, Any]: ...
@remembered
def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    mode: Literal["auto", "rev", "fwd"] = "auto",
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[..., Any]:
    """The dense Jacobian of a function.

    Parameters
    ----------
    f : callable
    argnums, wrt
        As in `grad`.
    has_aux : bool
        Whether `f` returns ``(result, aux)``; what is given is then ``(jacobian, aux)``.
    mode : str
        ``"rev"`` goes back from the results, ``"fwd"`` forward from the arguments; ``"auto"`` takes the smaller side.
        Of complex results by real arguments it is ``"fwd"``, of real results by complex arguments ``"rev"``.
    holomorphic : bool
        Whether `f` is a holomorphic function of complex numbers: needed where arguments and results are complex.
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
    if not isinstance(mode, str) or mode not in ("auto", "rev", "fwd"):
        raise ArgumentError(f"mode={mode!r}", 'It is "auto", "rev" or "fwd".')

    def result(run: Differentiation) -> Any:
        blocks = run.jacobian(mode, "jacobian")
        return (blocks, run.aux) if has_aux else blocks

    choice = Choice(argnums, wrt, options=options, holomorphic=holomorphic)
    return transform("jacobian", "Jacobian of", f, choice, result, options, has_aux, order=1)


@overload
def jacrev(
    f: Callable[P, NDArray[Any]],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Matrix[P]: ...
@overload
def jacrev(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, Any]: ...
@remembered
def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[..., Any]:
    """`jacobian` with ``mode="rev"``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jacrev(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return jacobian(f, argnums, wrt=wrt, has_aux=has_aux, mode="rev", holomorphic=holomorphic, **options)


@overload
def jacfwd(
    f: Callable[P, NDArray[Any]],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Matrix[P]: ...
@overload
def jacfwd(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, Any]: ...
@remembered
def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[..., Any]:
    """`jacobian` with ``mode="fwd"``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jacfwd(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return jacobian(f, argnums, wrt=wrt, has_aux=has_aux, mode="fwd", holomorphic=holomorphic, **options)


@overload
def hessian(
    f: Function[P, Any] | Callable[P, Any],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Matrix[P]: ...
@overload
def hessian(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[P, Any]: ...
@remembered
def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    **options: Unpack[OfTransform],
) -> Function[..., Any]:
    """The dense Hessian of a function with a scalar result.

    Parameters
    ----------
    f, argnums, wrt, has_aux, holomorphic, **options
        As in `grad`.

    Returns
    -------
    Function
        Gives for each pair of arguments an array of shape ``(*first.shape, *second.shape)``, in a tree of trees; with
        `has_aux` a pair of that and `aux`.

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
    choice = Choice(argnums, wrt, options=options, holomorphic=holomorphic)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        run = Differentiation(f, choice, args, kwargs, has_aux)
        gradients = run.gradients(run.value("hessian"))
        return (gradients, run.aux) if has_aux else gradients

    standing_for(gradient, f)

    def body(*args: Any, **kwargs: Any) -> Any:
        run = Differentiation(gradient, choice, args, kwargs, has_aux)
        blocks = run.jacobian("rev", "hessian")
        return (blocks, run.aux) if has_aux else blocks

    return made_of(standing_for(body, f), "hessian", "Hessian of", f, choice, options, order=2)


@overload
def hvp(
    f: Function[P, Any] | Callable[P, Any],
    argnums: Literal[0] = 0,
    *,
    wrt: None = None,
    **options: Unpack[OfTransform],
) -> Product[P]: ...
@overload
def hvp(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    **options: Unpack[OfTransform],
) -> Function[..., Any]: ...
@remembered
def hvp(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    wrt: str | Sequence[str] | None = None,
    **options: Unpack[OfTransform],
) -> Function[..., Any]:
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
    choice = Choice(argnums, wrt, options=options)

    def body(*args: Any, **kwargs: Any) -> Any:
        *primals, vector = args
        run = Differentiation(f, choice, primals, kwargs)
        gradient = run.prepared(run.gradients(run.value("hvp")))
        return pushed(run, gradient, vector)

    standing_for(body, f, _with_vector(signature(f)))
    return made_of(body, "hvp", "Hessian-vector product of", f, choice, options)


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


def with_vector(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], vector: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `f` as those of `hvp`: the vector behind those without a default, the others by name."""
    parameters = signature(f).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return (*args, vector), dict(kwargs)
    named = bind(f, args, kwargs).arguments
    required = [p.name for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    first = [named.pop(name) for name in required]
    further = [named.pop(p.name) for p in parameters if p.kind is p.VAR_KEYWORD and p.name in named]
    return (*first, vector), {**named, **{name: x for inner in further for name, x in inner.items()}}
