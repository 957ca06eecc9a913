"""Kinds of derivatives of a function: kind, variables, order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from symgrad.cli.shapes import Call, call_of
from symgrad.compiler.function import Function
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import bind, dotted_paths
from symgrad.transforms.gradients import compile, grad, value_and_grad
from symgrad.transforms.jacobians import hessian, hvp, jacobian, with_vector
from symgrad.transforms.wrt import Choice, below, part_at, resolved

_TRANSFORMS: dict[str, Callable[..., Function]] = {
    "grad": grad,
    "value_and_grad": value_and_grad,
    "hessian": hessian,
    "hvp": hvp,
    "jacobian": jacobian,
}
KINDS = (*_TRANSFORMS, "function")


class Derivative(NamedTuple):
    """A derivative of a function, with respect to variables as in `symgrad.grad`.

    The kind ``"function"`` is the function itself. Of ``"grad"`` the order 2 is the Hessian, each order above it the
    Jacobian of the one below; for a scalar argument these are the derivatives of these orders.
    """

    kind: str = "grad"
    wrt: str | tuple[str, ...] | None = None
    argnums: int | tuple[int, ...] = 0
    order: int = 1

    def of(self, f: Callable[..., Any], **options: Any) -> Function:
        """Return the derivative as a Function, with options of the compiler."""
        if self.order != 1 and (self.kind != "grad" or self.order < 1):
            raise ArgumentError(
                f"order {self.order} of {self.kind}", "Orders count from 1, and belong to the kind grad alone."
            )
        if self.kind == "function":
            return compile(f, **options)
        chosen = {"argnums": self.argnums} if self.wrt is None else {"wrt": self.wrt}
        made = _TRANSFORMS[self.kind if self.order == 1 else "hessian"](f, **chosen, **options)
        for _ in range(2, self.order):
            made = jacobian(made, **chosen, **options)
        return made

    def call(self, f: Callable[..., Any], entries: Mapping[str, Any]) -> Call:
        """Return the call of the derivative, where the function is called with these entries."""
        return self.with_vector(f, call_of(f, entries))

    def with_vector(self, f: Callable[..., Any], call: Call) -> Call:
        """The call of the function as one of the derivative: of a Hessian's product with a vector, with the vector."""
        if self.kind != "hvp":
            return call
        return Call(*with_vector(f, call.args, call.kwargs, self._like_chosen(f, call)))

    def _like_chosen(self, f: Callable[..., Any], call: Call) -> Any:
        """The arguments to differentiate by, whose form the vector has."""
        bound = bind(f, call.args, call.kwargs)
        choice = Choice(self.argnums, self.wrt)
        known = dotted_paths(bound.arguments)[0]
        paths = [resolved(path, known) for path in choice.dotted(f, bound)]
        for path in paths:
            if not below(path, known):
                raise ArgumentError(
                    f"the vector of hvp has the shape of an argument, and {path!r} is not one",
                    f"The arguments are {', '.join(known)}.",
                )
        parts = tuple(part_at(bound.arguments, path) for path in paths)
        return parts[0] if choice.single else parts
