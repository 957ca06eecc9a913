"""Types of the results of transforms, for type checkers alone: when a program runs, all of them are `Function`.

A gradient has the type of the argument that it is of. A type checker knows that argument where it is passed by
position; where it is passed by keyword, the gradient may be anything.
"""

from __future__ import annotations

from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from numpy.typing import NDArray

from symgrad.compiler.function import Function

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
A = TypeVar("A")
V = TypeVar("V")


class Gradient(Function[P, Any], Generic[P]):
    """``(A, ...) -> A``"""

    @overload
    def __call__(self: Gradient[Concatenate[A, Q]], first: A, /, *args: Q.args, **kwargs: Q.kwargs) -> A: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class ValueAndGradient(Function[P, tuple[R, Any]], Generic[P, R]):
    """``(A, ...) -> (R, A)``"""

    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[A, Q], V], first: A, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> tuple[V, A]: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Matrix(Function[P, Any], Generic[P]):
    """A Jacobian of an array, or a Hessian: ``(array, ...) -> array``"""

    @overload
    def __call__(
        self: Matrix[Concatenate[NDArray[Any], Q]], first: NDArray[Any], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> NDArray[Any]: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Product(Function[..., Any], Generic[P]):
    """A Hessian times a vector: ``(A, ..., A) -> A``"""

    @overload
    def __call__(self: Product[Concatenate[A, Q]], first: A, /, *args: Any, **kwargs: Any) -> A: ...
    @overload
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError
