"""Hooks: functions of the user that replace cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Aval, Graph, Node, depends, reached
from symgrad.core.provenance import Where, boundary
from symgrad.core.shapes import render_tuple, same_shape
from symgrad.core.text import with_article
from symgrad.errors import ArgumentError, DTypeError, NotDifferentiableError, ShapeError
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.interception import inside
from symgrad.frontend.trace import definition, of_graph
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import WHERE
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.known import Known, known, value_of
from symgrad.ops.marks import ALIAS, hooked

V = TypeVar("V")


def on_gradient(x: V, function: Callable[[V], Any]) -> V:
    """Return the same value; its cotangent is replaced by what `function` returns for it.

    Parameters
    ----------
    x : array
        A value inside of a function that is differentiated. Outside of a trace it is returned as it is.
    function : callable
        Written in NumPy. It is given the cotangent that arrives, summed over all uses of the returned value, and
        returns an array of the same shape and dtype. It is called while the program is made, once for each derivative
        that flows back, and becomes part of the program: it may name what it is given, or keep it for a result, but
        there are no numbers yet to print.

    Returns
    -------
    array
        `x`

    Raises
    ------
    ArgumentError
        If `function` is not a function, or `x` a tree of arrays.
    DTypeError
        If no derivative flows through `x`, since it is not floating; or, when the derivative is taken, if the function
        returns no array of the dtype of the cotangent.
    ShapeError
        When the derivative is taken: the function returns an array of another shape.
    NotDifferentiableError
        When a derivative is taken forward (`jvp`, `jacfwd`, `hvp`) and the function is not linear in the cotangent.

    Notes
    -----
    With a hook derivatives are, by intention, no longer those that finite differences and `check_grads` find. Where the
    function is linear, ``A @ g``, the value counts as one whose Jacobian is ``A.T``, and so it is pushed forward. A
    second derivative in reverse calls the function again, with the cotangents of that order.

    References
    ----------
    Ganin & Lempitsky, "Unsupervised domain adaptation by backpropagation", 2015: a layer that reverses gradients.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def loss(x):
    ...     h = sg.on_gradient(x ** 2, lambda g: np.clip(g, -1, 1))
    ...     return np.sum(h ** 2)
    >>> sg.grad(loss)(np.array([0.5, 2.0]))
    array([0.5, 4. ])
    """
    if not callable(function):
        raise ArgumentError(
            f"on_gradient: {function!r} is not a function", "Give a function of the cotangent: lambda g: 0.5 * g."
        )
    if isinstance(x, Variable):
        if not x.aval.differentiable:
            raise DTypeError(f"on_gradient: no derivative flows through {x.aval}", "Put it on a floating array.")
        result = hooked(x, Hook(function))
        result.locked = "on_gradient returns its array, and the other parts of that array have no hook"
        return result
    if any(isinstance(leaf, Variable) for leaf in tree.flatten(x)[0]):
        raise ArgumentError(
            f"on_gradient takes one array, not {with_article(type(x).__name__)} of them",
            "Call it for each: tree_map(lambda x: on_gradient(x, function), trees).",
        )
    return x


class Hook:
    """A function that replaces a cotangent, one for each call of `on_gradient`. Identity is equality."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.where = definition(function)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<hook {name.strip('<>')}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Hook, (_left_behind,)  # a program is compiled: what its derivatives would be is not asked again

    @boundary
    def __call__(self, g: Variable) -> Variable:
        """Return the replacement of the cotangent `g`."""
        with inside(g.graph, self.function):
            y = of_graph(g.graph, converted(self.function)(Variable(g.graph, g.node)))  # which it may write into
        if y is None:
            raise ArgumentError("the function of on_gradient returns None", "Return the cotangent: g.", self.where)
        return array_for(g.graph, y, g.aval, "the function of on_gradient returns", "the cotangent", self.where)

    def linear(self, g: Variable) -> Variable:
        """Return the replacement of `g`; refuse a hook that is not linear, since a forward derivative only has a
        stand-in for `g`.
        """
        y = self(g)
        if not _is_linear(y.node, [g.node]):
            raise NotDifferentiableError(
                "the function of on_gradient is not linear in the cotangent, as forward mode needs",
                "Use reverse mode: grad, vjp, jacobian(mode='rev'), hessian.",
                self.where,
            )
        return y

    def over_rows(self, ndim: int) -> Hook:
        """Return a hook for many values along a first axis, each with `ndim` axes of its own."""
        axes = f"({','.join(f'i{axis}' for axis in range(ndim))})"
        return Hook(np.vectorize(self.function, signature=f"{axes}->{axes}"))


def hook_of(node: Node) -> Hook | None:
    """Return the hook of a node, None where it has none."""
    return dict(node.params).get("hook") if node.op is ALIAS else None


def flow_through(y: Variable, g: Variable, mask: Variable | None, forward: bool) -> Variable | None:
    """Return the mask of the cotangent `y` that a hook gives for `g`, see `Cotangent`.

    The cotangent may be nonzero where one arrived or the hook gave another number than zero, unknown for a stand-in.
    """
    if mask is None or _is_linear(y.node, [g.node], number_by_number=True):
        return mask
    return None if forward else mask | np.not_equal(y, 0)


def array_for(graph: Graph, y: Any, aval: Aval, fact: str, what: str, where: Where) -> Variable:
    """Return the array that a user's function gave for a derivative, after a check of its shape and dtype."""
    if not isinstance(y, Variable | np.ndarray | np.generic | float | int):
        raise DTypeError(f"{fact} {with_article(type(y).__name__)} for {aval}", f"Return an array like {what}.", where)
    result = Variable(graph, lift(graph, y))
    if not same_shape(result.shape, aval.shape):
        fact = f"{fact} shape {render_tuple(result.shape)} for {aval}"
        raise ShapeError(fact, f"Return an array of the shape of {what}.", where)
    if result.aval.weak:
        return result.astype(aval.dtype)
    if result.dtype != aval.dtype:
        fact = f"{fact} {result.aval} for {aval}"
        raise DTypeError(fact, f'Return the dtype of {what}: y.astype("{aval.dtype}").', where)
    return result


def _left_behind(g: Any) -> Any:
    raise NotDifferentiableError(
        "the function of on_gradient is not sent to another process with the program",
        "Differentiate before, and send what is compiled.",
    )


# ---- linearity

_TOGETHER = {**dict.fromkeys([ADD, SUBTRACT, NEGATIVE], slice(None)), WHERE: slice(1, None), DIVIDE: slice(1)}
"""Elementwise operators that are linear in these inputs together, while the others stay."""


def masks_through_rule(
    node: Node, gs: Sequence[Variable], mask: Variable | None, cotangents: Sequence[Any], forward: bool
) -> list[Variable | None]:
    """Return the masks of the cotangents that a user's rule gives: the old mask where the rule is elementwise.

    A forward derivative refuses a rule that is not known to be linear in the cotangents, see `Hook.linear`.
    """
    rule, given = dict(node.params)["rule"], [g.node for g in gs]
    made = [y.node if isinstance(y, Variable) else None for y in cotangents]
    if forward and not rule.linear and not all(y is None or _is_linear(y, given) for y in made):
        fact = f"the backward rule of {rule.name} is not known to be linear in the cotangent"
        raise NotDifferentiableError(
            f"{fact}, as a forward derivative needs",
            "Take derivatives in reverse (grad, vjp, jacobian(mode='rev'), hessian), or give it a rule by custom_jvp.",
            node.where,
        )
    if mask is None:
        return [None] * len(made)
    return [mask if y is not None and _is_linear(y, given, number_by_number=True) else None for y in made]


def _is_linear(y: Node, gs: Sequence[Node], number_by_number: bool = False) -> bool:
    """Whether `y` is known to be linear in `gs`: by the operators between them, so that no number is tried."""
    nodes = reached([y])
    moving = depends(nodes, gs)
    between = [node for node in nodes if node in moving and node not in gs]
    if number_by_number and not all(_stays_in_place(node, gs[0]) for node in between):
        return False
    return (y in moving or _is_zero(y)) and all(_keeps_linear(node, moving) for node in between)


def _stays_in_place(node: Node, g: Node) -> bool:
    """Whether each number of a node can depend on the same number of `g` only, if those of its inputs do."""
    return (node.op.elementwise or node.op in (ALIAS, ASTYPE)) and same_shape(node.aval.shape, g.aval.shape)


def _keeps_linear(node: Node, moving: set[Node]) -> bool:
    """Whether a node is linear in what moves, if those of its inputs are that move."""
    if node.op is MULTIPLY or node.op.contracts:  # linear in each, while the others stay
        return sum(x in moving for x in node.inputs) == 1
    together = _linear_inputs(node)
    if not together or not node.aval.differentiable:  # integers are rounded
        return False
    return all(x in moving or _is_zero(x) if i in together else x not in moving for i, x in enumerate(node.inputs))


def _linear_inputs(node: Node) -> range:
    """The inputs that a node is linear in together, as far as its operator says that of all of them."""
    op, every = node.op, range(len(node.inputs))
    data = every[: op.places]
    if op.linear and (len(data) == 1 or op.joins or op.assigns):
        return data
    return every[_TOGETHER[op]] if op in _TOGETHER else range(0)


def _is_zero(x: Node) -> bool:
    return known(x) is Known.YES and not np.any(value_of(x))
