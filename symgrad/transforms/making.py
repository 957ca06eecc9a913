"""What all transforms share: a Function made of another, which says what it is of and how it was made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from symgrad.compiler.function import Function
from symgrad.core.text import is_name
from symgrad.frontend.arguments import signature
from symgrad.frontend.trace import definition
from symgrad.transforms.differentiation import Differentiation
from symgrad.transforms.wrt import Choice

_P = ParamSpec("_P")


def remembered(transform: Callable[_P, Function]) -> Callable[_P, Function]:
    """Note on a Function how it was made, so that it can be made again where it is sent to."""

    @wraps(transform)
    def made(*args: _P.args, **kwargs: _P.kwargs) -> Function:
        function = transform(*args, **kwargs)
        function.recipe = made, args, kwargs
        return function

    return made


def transform(
    kind: str,
    what: str,
    f: Callable[..., Any],
    choice: Choice,
    result: Callable[[Differentiation], Any],
    options: dict[str, Any],
    has_aux: bool = False,
) -> Function:
    """The transform of `f` that gives what `result` makes of a run of it; `what` it is of `f`, for docstrings."""

    def body(*args: Any, **kwargs: Any) -> Any:
        return result(Differentiation(f, choice, args, kwargs, has_aux))

    return made_of(standing_for(body, f), kind, what, f, choice, options)


def made_of(
    body: Callable[..., Any], kind: str, what: str, f: Callable[..., Any], choice: Choice, options: dict[str, Any]
) -> Function:
    """The Function that runs `body`, named after `f`."""
    summary = f"{what} {describe(f)} with respect to {choice.described(f)}"
    return Function(body, f"{name_of(f)}_{kind}", summary, options)


def standing_for(body: Callable[..., Any], f: Callable[..., Any], takes: Any = None) -> Callable[..., Any]:
    """The body of a transform, with the signature of `f` or another one."""
    body.__signature__ = takes or signature(f)  # type: ignore[attr-defined]
    body.__wrapped__ = f  # type: ignore[attr-defined]
    return body


def name_of(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "function")
    return name if is_name(name) else "function"


def describe(f: Callable[..., Any]) -> str:
    """What a function is called, and where it stands."""
    if isinstance(f, Function):
        return f"the {f.summary[0].lower()}{f.summary[1:]}"
    where = definition(f)
    return f"{name_of(f)} ({where})" if where.line else name_of(f)
