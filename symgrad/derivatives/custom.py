"""Custom derivatives: custom_vjp and custom_jvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, update_wrapper
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Graph, Node, depends, reached
from symgrad.core.provenance import Where, assigned_name
from symgrad.core.region import closed
from symgrad.core.text import with_article
from symgrad.derivatives.hooks import array_for
from symgrad.derivatives.pullback import pullback
from symgrad.derivatives.rules import Call, answer, in_order
from symgrad.errors import ArgumentError, NotDifferentiableError
from symgrad.frontend.arguments import bind, signature
from symgrad.frontend.bodies import body_of
from symgrad.frontend.conversion.functions import converted
from symgrad.frontend.forms import Form
from symgrad.frontend.interception import inside
from symgrad.frontend.static import as_list
from symgrad.frontend.trace import definition, graph_at_hand, of_graph
from symgrad.frontend.variable import Variable
from symgrad.ops.custom import CUSTOM

Tree = Any
P = ParamSpec("P")
R = TypeVar("R")

_ARGUMENT = "it is an argument of a function with a rule of its own, which must not change it"
_VIEW = "it may be a view of what a function with a rule of its own was given"


class Custom(Generic[P, R]):
    """A function with a derivative rule of its own: a call in a trace is one node with a region and the rule."""

    linear = False  # whether what the rule gives in reverse is linear in the cotangents whatever it looks like

    def __init__(self, f: Callable[P, R], nondiff_argnums: int | Sequence[int]) -> None:
        self._takes = signature(f)
        self._name = str(getattr(f, "__name__", type(f).__name__)).strip("<>")
        self._nondiff_argnums = as_list(nondiff_argnums, int, "nondiff_argnums", "a number or a list of numbers")
        update_wrapper(self, f, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        graph = graph_at_hand((args, kwargs))
        if graph is None:
            return self._function(*args, **kwargs)
        self._check_rule()
        bound = bind(self._function, args, kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            fact = f"{self._name}, which has a rule of its own, has keyword-only arguments"
            raise ArgumentError(fact, "Let it take them by position.")
        return self._recorded(graph, bound.args)

    @property
    def _function(self) -> Callable[P, R]:
        return self.__wrapped__  # type: ignore[attr-defined]

    def _check_rule(self) -> None:
        raise NotImplementedError

    def cotangents(self, call: Call, xs: Sequence[Variable], gs: Sequence[Variable | None]) -> Sequence[Any]:
        """Return the cotangent of each Variable among the arguments of a call, None for zero."""
        raise NotImplementedError

    def _recorded(self, graph: Graph, args: Sequence[Any]) -> Any:
        """Record a call as one node and return its results. The function is traced on stand-ins for its Variables."""
        static = self._static(args)
        given = tuple([x for i, x in enumerate(args) if i not in static])
        arguments = Form(given)
        leaves = arguments.values(given)
        inputs = [x.node for x in leaves]
        known = answer(self, static, arguments, inputs)
        if known is not None:
            return known.call.results.filled([_like(y, y.node, _VIEW) for y in known.results])
        with body_of(graph):
            stand_ins = [_like(x, graph.seed(x.aval), _ARGUMENT) for x in leaves]
            results = _run(graph, self._function, in_order(static, arguments.filled(stand_ins)))
        call = Call(self, self._name, static, arguments, Form(results))
        ys = call.results.values(results)
        own, made = [x.node for x in stand_ins], [y.node for y in ys]
        region = closed(graph, own, made, depends(reached(made), own).__contains__)
        params = (("region", region), ("rule", call))
        node = graph.add(CUSTOM, (*inputs, *region.parameters[len(own) :]), params)
        items = graph.items(node)
        name = assigned_name() if graph.provenance is None and len(items) == 1 else None
        if name is not None:
            graph.label(items[0], name)
        views = ["" if y.owner is y and not y.locked else _VIEW for y in ys]
        return call.results.filled([_like(*each) for each in zip(ys, items, views, strict=True)])

    def _static(self, args: Sequence[Any]) -> dict[int, Any]:
        """Return the nondifferentiable arguments, by their places."""
        static = {}
        for i in self._nondiff_argnums:
            if not -len(args) <= i < len(args):
                raise ArgumentError(f"nondiff_argnums: {i}", f"{self._name} takes {self._takes}.")
            static[i % len(args)] = args[i]
        if any(isinstance(x, Variable) for x in tree.flatten(list(static.values()))[0]):
            fact = f"a traced value in an argument of {self._name} that is one of nondiff_argnums"
            raise ArgumentError(fact, "Pass it as an ordinary argument, and return None for its derivative.")
        return dict(sorted(static.items()))


class custom_vjp(Custom[P, R]):
    """A function with a VJP rule of its own.

    Parameters
    ----------
    f : callable
        Written in NumPy. Arguments and results are trees.
    nondiff_argnums : int or sequence of int
        Arguments that are part of the program, such as functions: they are not differentiated by, and come first among
        the arguments of the backward rule.

    Returns
    -------
    custom_vjp
        To be called as `f`, once it has its rule: ``defvjp(fwd, bwd)``. Called with arrays, outside of a trace, it is
        `f`.

    Raises
    ------
    ArgumentError
        If `f` is not a function; when it is called, if it has no rule; when the derivative is taken, if a rule returns
        another structure than it has to.
    ShapeError, DTypeError
        When the derivative is taken: a cotangent is not like its argument.
    NotDifferentiableError
        When a derivative is taken by a value that `f` reads from outside, by a value inside of `f`, or forward
        (`jvp`, `jacfwd`, `hvp`), and `bwd` is not known to be linear in the cotangent.

    Notes
    -----
    ``fwd(*args)`` gives ``(f(*args), residuals)``, and ``bwd(*nondiff, residuals, g)`` a tuple, the cotangent of each
    argument; `g` is a tree like the result, None in it where that is not floating. None stands for zero. Both are
    written in NumPy, run while the program is made, and become part of it, so that a second derivative differentiates
    `bwd`. The value is that of `f`, whatever `fwd` gives for it.

    Forward derivatives go through the transposed rule.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> @sg.custom_vjp
    ... def clipped(x, low, high):
    ...     return np.clip(x, low, high)
    >>> def fwd(x, low, high):
    ...     return clipped(x, low, high), x < high
    >>> def bwd(below, g):
    ...     return np.where(below, g, 0.0), None, None
    >>> clipped.defvjp(fwd, bwd)
    >>> sg.grad(lambda x: np.sum(clipped(x, 0.0, 1.0) ** 2))(np.array([-1.0, 0.5, 2.0]))
    array([0., 1., 0.])
    """

    def __init__(self, f: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self._fwd: Callable[..., Any] | None = None
        self._bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Define the forward rule, which returns residuals, and the backward rule, which pulls back with these."""
        signature(fwd), signature(bwd)
        self._fwd, self._bwd = fwd, bwd

    def _check_rule(self) -> None:
        if self._fwd is None:
            raise ArgumentError(f"{self._name} has no rule yet", f"Write {self._name}.defvjp(fwd, bwd).")

    def cotangents(self, call: Call, xs: Sequence[Variable], gs: Sequence[Variable | None]) -> Sequence[Any]:
        """Return the cotangent of each Variable among the arguments of a call, None for zero."""
        assert self._fwd is not None and self._bwd is not None
        graph = next(x.graph for x in [*xs, *gs] if x is not None)
        args = call.arguments.filled([_like(x, x.node, _ARGUMENT) for x in xs])
        pair = _run(graph, self._fwd, in_order(call.static, args))
        residuals = _second_of(pair, call, f"the forward rule of {self._name}", "residuals", definition(self._fwd))
        given = _run(graph, self._bwd, [*call.static.values(), residuals, call.results.filled(gs, lambda _: None)])
        leaves = self._leaves(call, given)
        return [self._cotangent(x, leaves[i]) for i, x in zip(call.arguments.holes, xs, strict=True)]

    def _leaves(self, call: Call, given: Any) -> list[Any]:
        """Return the leaves of the tuple of cotangents that the backward rule gives, in the order of the arguments."""
        assert self._bwd is not None
        parts = call.arguments.structure.children()
        where = definition(self._bwd)
        if not isinstance(given, tuple) or len(given) != len(parts):
            returned = f"a tuple of {len(given)}" if isinstance(given, tuple) else with_article(type(given).__name__)
            fact = f"the backward rule of {self._name} returns {returned} for {len(parts)} arguments"
            raise ArgumentError(fact, "Return a tuple, one cotangent an argument: (g,) for a single one.", where)
        leaves: list[Any] = []
        for part, one in zip(parts, given, strict=True):
            mine, same = ([None] * part.num_leaves, part) if one is None else tree.flatten(one)
            if same != part:
                fact = f"the backward rule of {self._name} returns {tree.render(same)} for {tree.render(part)}"
                raise ArgumentError(fact, "The cotangent of an argument has its structure; None is zero.", where)
            leaves += mine
        return leaves

    def _cotangent(self, x: Variable, given: Any) -> Variable | None:
        if given is None or not x.aval.differentiable:
            return None
        assert self._bwd is not None
        fact = f"the backward rule of {self._name} returns"
        return array_for(x.graph, given, x.aval, fact, "the argument", definition(self._bwd))


class custom_jvp(Custom[P, R]):
    """A function with a JVP rule of its own.

    Parameters
    ----------
    f, nondiff_argnums
        As of `custom_vjp`.

    Returns
    -------
    custom_jvp
        To be called as `f`, once it has its rule: ``defjvp(rule)``, or ``defjvps(...)``. Called with arrays, outside of
        a trace, it is `f`.

    Raises
    ------
    ArgumentError
        If `f` is not a function; when it is called, if it has no rule; when the derivative is taken, if the rule
        returns another structure than it has to.
    ShapeError, DTypeError
        When the derivative is taken: a tangent is not like its result.
    NotDifferentiableError
        When the derivative is taken: the rule is not linear in the tangents; or it is by a value that `f` reads from
        outside, or by one inside of `f`.

    Notes
    -----
    ``rule(*nondiff, primals, tangents)`` gives ``(f(*primals), tangent)``, the tangent a tree like the result. A
    tangent is None where its argument is not floating, and may be so for zero. The rule is written in NumPy, run while
    the program is made, and becomes part of it: reverse mode transposes it, and a second derivative differentiates it.
    The value is that of `f`, whatever the rule gives for it.

    Examples
    --------
    The derivative of ``x * log(x)`` is right at zero, too:

    >>> import numpy as np, symgrad as sg
    >>> @sg.custom_jvp
    ... def entropy(x):
    ...     return -x * np.log(np.where(x > 0, x, 1.0))
    >>> @entropy.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return entropy(x), (-1 - np.log(x)) * dx
    >>> sg.grad(lambda x: np.sum(entropy(x)))(np.array([1.0, np.exp(-1)]))
    array([-1.,  0.])
    """

    linear = True

    def __init__(self, f: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self._rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Define the JVP rule, and return it: the method may be a decorator."""
        signature(rule)
        self._rule = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Define a rule for each argument, ``rule(tangent, result, *primals)``; None where the derivative is zero."""
        if self._nondiff_argnums:
            raise ArgumentError("defjvps does not support nondiff_argnums", "Write one rule for all with defjvp.")

        function: Callable[..., R] = self

        def rule(primals: Sequence[Tree], tangents: Sequence[Tree]) -> tuple[Tree, Tree]:
            if len(primals) != len(rules):
                fact = f"defjvps gave {self._name} {len(rules)} rules, it has {len(primals)} arguments"
                raise ArgumentError(fact, "Give one for each, or None.")
            result = function(*primals)
            pairs = zip(rules, tangents, strict=True)
            parts = [one(t, result, *primals) for one, t in pairs if one is not None and t is not None]
            return result, tree.tree_map(_sum, *parts) if parts else tree.tree_map(lambda _: None, result)

        self._rule = rule

    def _check_rule(self) -> None:
        if self._rule is None:
            raise ArgumentError(f"{self._name} has no rule yet", f"Write {self._name}.defjvp(rule).")

    def cotangents(self, call: Call, xs: Sequence[Variable], gs: Sequence[Variable | None]) -> Sequence[Any]:
        """Return the cotangents of a call by transposing the JVP rule, None for zero."""
        graph = next(x.graph for x in [*xs, *gs] if x is not None)
        seeds = [Variable(graph, graph.seed(x.aval)) if x.aval.differentiable else None for x in xs]
        pairs = [(y.node, g.node) for y, g in self._tangents(graph, call, xs, seeds, gs)]
        moving = [t.node for t in seeds if t is not None]
        found = pullback(graph, [y for y, _ in pairs], [g for _, g in pairs], moving) if pairs else [None] * len(moving)
        made = [x for x in found if x is not None]
        if not depends(reached(made), moving).isdisjoint(made):
            assert self._rule is not None
            fact = f"the rule of {self._name} is not linear in the tangents"
            raise NotDifferentiableError(fact, "Return the derivative in their direction.", definition(self._rule))
        by_seed = dict(zip(moving, found, strict=True))
        ends = [None if t is None else by_seed[t.node] for t in seeds]
        return [None if x is None else Variable(graph, x) for x in ends]

    def _tangents(
        self,
        graph: Graph,
        call: Call,
        xs: Sequence[Variable],
        tangents: Sequence[Variable | None],
        gs: Sequence[Variable | None],
    ) -> list[tuple[Variable, Variable]]:
        """Return the tangents that the rule gives, each with the value given for its result."""
        assert self._rule is not None
        where, name = definition(self._rule), f"the rule of {self._name}"
        primals = call.arguments.filled([_like(x, x.node, _ARGUMENT) for x in xs])
        directions = call.arguments.filled(tangents, _zero)
        pair = _run(graph, self._rule, [*call.static.values(), primals, directions])
        given = call.results.values(_second_of(pair, call, name, "tangent", where))
        return [
            (array_for(graph, t, g.aval, f"{name} returns", "the result", where), g)
            for t, g in zip(given, gs, strict=True)
            if t is not None and g is not None
        ]


def _second_of(pair: Any, call: Call, rule: str, second: str, where: Where) -> Any:
    """Return the second item of a rule's pair; a tangent must have the structure of the result."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ArgumentError(f"{rule} does not return a pair", f"Return the result, and the {second}.", where)
    for what, one in [("result", pair[0])] + [("tangent", pair[1])] * (second == "tangent"):
        structure = tree.flatten(one)[1]
        if structure != call.results.structure:
            fact = f"the {what} that {rule} returns is {tree.render(structure)}"
            raise ArgumentError(fact, f"The function returns {tree.render(call.results.structure)}.", where)
    return pair[1]


def _run(graph: Graph, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    with inside(graph, function):
        return of_graph(graph, converted(function)(*args))


def _like(x: Variable, node: Node, lock: str) -> Variable:
    """Another value of this kind: an array where that is one."""
    result = Variable(x.graph, node, lock)
    result._array = x._array
    return result


def _zero(x: Any) -> Any:
    """The tangent of an argument that is part of the program."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np.zeros_like(x) if x.dtype.kind in "fc" else None
    return type(x)(0) if isinstance(x, (float, complex)) else None


def _sum(*parts: Any) -> Any:
    return reduce(np.add, [x for x in parts if x is not None]) if any(x is not None for x in parts) else None
