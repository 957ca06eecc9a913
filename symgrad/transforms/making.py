"""Base of transforms: a Function made of another, with its description and its making."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

from symgrad.compiler.function import Function
from symgrad.core.options import OF_TRANSFORM, check_names
from symgrad.core.text import is_name
from symgrad.frontend.arguments import signature
from symgrad.frontend.trace import definition
from symgrad.transforms.differentiation import Differentiation
from symgrad.transforms.wrt import Choice

_F = TypeVar("_F", bound=Callable[..., Function])


def remembered(transform: _F) -> _F:
    """Note on a Function how it was made, so that it can be made again where it is sent to.

    Keywords that neither the transform nor the compiler knows are refused.
    """
    parameters = inspect.signature(transform).parameters.values()
    known = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD} | OF_TRANSFORM

    @wraps(transform)
    def made(*args: Any, **kwargs: Any) -> Function:
        check_names(kwargs, known)
        function = transform(*args, **kwargs)
        function.recipe = made, args, kwargs
        return function

    return cast(_F, made)


class Derivative(NamedTuple):
    """A function differentiated several times: of what, and with respect to what each time."""

    of: Callable[..., Any]
    by: tuple[str, ...]

    @property
    def order(self) -> int:
        return len(self.by)

    @property
    def summary(self) -> str:
        by = self.by[:1] if len(set(self.by)) == 1 else self.by
        return f"Derivative of order {self.order} of {describe(self.of)} with respect to {', then '.join(by)}"


def transform(
    kind: str,
    what: str,
    f: Callable[..., Any],
    choice: Choice,
    result: Callable[[Differentiation], Any],
    options: Mapping[str, Any],
    has_aux: bool = False,
    order: int = 0,
) -> Function:
    """The transform of `f` that gives what `result` makes of a run of it; `what` it is of `f`, for docstrings."""

    def body(*args: Any, **kwargs: Any) -> Any:
        return result(Differentiation(f, choice, args, kwargs, has_aux))

    return made_of(standing_for(body, f), kind, what, f, choice, options, order)


def made_of(
    body: Callable[..., Any],
    kind: str,
    what: str,
    f: Callable[..., Any],
    choice: Choice,
    options: Mapping[str, Any],
    order: int = 0,
) -> Function:
    """The Function that runs `body`, named after `f`; after what `f` differentiates, if both do nothing else.

    `order` says how many times it differentiates; 0 of one that does more, such as giving the value.
    """
    by = choice.described(f)
    within = f.derivative if isinstance(f, Function) and order else None
    if within is None:
        derivative = Derivative(f, (by,) * order)
        function = Function(body, f"{name_of(f)}_{kind}", f"{what} {describe(f)} with respect to {by}", options)
    else:
        derivative = Derivative(within.of, (*within.by, *(by,) * order))
        function = Function(body, f"{name_of(within.of)}_d{derivative.order}", derivative.summary, options)
    function.derivative = derivative if order else None
    return function


def standing_for(body: Callable[..., Any], f: Callable[..., Any], takes: Any = None) -> Callable[..., Any]:
    """The body of a transform, with the signature of `f` or another one."""
    body.__signature__ = takes or signature(f)  # type: ignore[attr-defined]
    body.__wrapped__ = f  # type: ignore[attr-defined]
    return body


def name_of(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "function")
    return name if is_name(name) else "function"


def describe(f: Callable[..., Any]) -> str:
    """Return the name of a function, and its place."""
    if isinstance(f, Function):
        return f"the {f.summary[0].lower()}{f.summary[1:]}"
    where = definition(f)
    return f"{name_of(f)} ({where})" if where.line else name_of(f)
