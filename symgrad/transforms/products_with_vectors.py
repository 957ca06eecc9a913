"""The derivative of a function as a linear map: vjp and jvp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np

from symgrad.analysis.uses import live_in
from symgrad.compiler.compiled import Compiled
from symgrad.core import tree
from symgrad.core.graph import CONSTANT, INPUT, SIZE, Graph, Node, depends, reached
from symgrad.core.provenance import Where, boundary
from symgrad.core.region import Region, inline
from symgrad.derivatives.pullback import pushforward
from symgrad.errors import ArgumentError
from symgrad.frontend.interception import inside
from symgrad.frontend.plain_arguments import check_sequence
from symgrad.frontend.trace import Program, graph_at_hand, trace
from symgrad.frontend.variable import Variable, lift
from symgrad.transforms.differentiation import Differentiation, array_like, leaves_like, matching, or_zeros
from symgrad.transforms.graph_door import between, function
from symgrad.transforms.wrt import Choice

Tree = Any
_R = TypeVar("_R")


@overload
def vjp(
    f: Callable[..., _R], *primals: Tree, has_aux: Literal[False] = False
) -> tuple[_R, Callable[[Tree], tuple[Tree, ...]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[_R, Any]], *primals: Tree, has_aux: Literal[True]
) -> tuple[_R, Callable[[Tree], tuple[Tree, ...]], Any]: ...
def vjp(f: Callable[..., Any], *primals: Tree, has_aux: bool = False) -> Any:
    """The result of a function, and its pullback: what takes cotangents of the result to those of the arguments.

    Parameters
    ----------
    f : callable
    *primals : tree of arrays
        Its arguments.
    has_aux : bool
        Whether `f` returns ``(out, aux)``; the result is then ``(out, pullback, aux)``.

    Returns
    -------
    out : tree
        ``f(*primals)``
    pullback : callable
        Takes a tree like `out`; gives a tuple, one tree for each argument. It may be called any number of times, and
        does not repeat the work of `f`.

    Raises
    ------
    NotDifferentiableError
        Naming the NumPy function without a derivative, and the line.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> out, pullback = sg.vjp(np.sin, np.array([0.0, 1.0]))
    >>> pullback(np.array([1.0, 0.0]))
    (array([1., 0.]),)
    """
    graph = graph_at_hand(primals)
    if graph is not None:
        found = _within(graph, _append_vjp, f, primals, has_aux)
        return found if has_aux else found[:2]
    pullback: Callable[[Tree], tuple[Tree, ...]]

    def forward(*args: Tree) -> tuple[Tree, Tree]:
        nonlocal pullback
        out, pullback, aux = _append_vjp(f, args, has_aux)
        return out, aux

    program = trace(forward, primals)
    graph = program.graph
    leaves, structure = tree.flatten(program.outputs[0])
    seeds = [Variable(graph, graph.add_input(f"g{i}", y.aval)) if _flows(y) else None for i, y in enumerate(leaves)]
    cotangents = pullback(tree.unflatten(structure, seeds))
    (out, aux), compiled = _split(program, primals, seeds, cotangents)
    return (out, compiled, aux) if has_aux else (out, compiled)


@overload
def jvp(
    f: Callable[..., _R], primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: Literal[False] = False
) -> tuple[_R, _R]: ...
@overload
def jvp(
    f: Callable[..., tuple[_R, Any]], primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: Literal[True]
) -> tuple[_R, _R, Any]: ...
def jvp(f: Callable[..., Any], primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool = False) -> Any:
    """The result of a function, and its derivative in a direction.

    Parameters
    ----------
    f : callable
    primals, tangents : sequence of trees
        Arguments and their tangents, of the same shapes.
    has_aux : bool
        Whether `f` returns ``(out, aux)``; the result is then ``(out, tangent, aux)``.

    Returns
    -------
    out, tangent : tree
        Of the same structure, shapes and dtypes.

    Raises
    ------
    NotDifferentiableError
        Naming the NumPy function without a derivative, and the line.
    ArgumentError
        If primals and tangents do not match.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    check_sequence("jvp", primals=primals, tangents=tangents)
    if len(primals) != len(tangents):
        fact = f"jvp: the number of primals is {len(primals)}, that of tangents {len(tangents)}"
        raise ArgumentError(fact, "Give one tangent for each primal.")
    graph = graph_at_hand((primals, tangents))
    if graph is not None:
        return _within(graph, _append_jvp, f, primals, tangents, has_aux)
    append = lambda primals, tangents: _append_jvp(f, primals, tangents, has_aux)
    program = trace(append, (tuple(primals), tuple(tangents)))
    inputs = _fed(program, (tuple(primals), tuple(tangents)))
    return function([x for x, _ in inputs], program.outputs)(*[given for _, given in inputs])


# ---- inside a trace


@boundary
def _within(graph: Graph, append: Callable[..., Any], f: Callable[..., Any], *args: Any) -> Any:
    with inside(graph, f):
        return append(f, *args)


def _run(f: Callable[..., Any], primals: Sequence[Tree], has_aux: bool) -> Differentiation:
    return Differentiation(f, Choice(tuple(range(len(primals)))), primals, {}, has_aux)


def _append_vjp(
    f: Callable[..., Any], primals: Sequence[Tree], has_aux: bool
) -> tuple[Tree, Callable[[Tree], tuple[Tree, ...]], Tree]:
    run = _run(f, primals, has_aux)
    leaves, structure = tree.flatten(run.out)
    results = [Variable(run.graph, y.node) if _flows(y) else None for y in leaves]  # `out` may be written into

    def pullback(cotangents: Tree) -> tuple[Tree, ...]:
        given = leaves_like(structure, cotangents, "vjp: the cotangent", "the result")
        pairs = [(y, matching(y, g, "cotangent")) for y, g in zip(results, given, strict=True) if y is not None]
        return run.pullback([y.node for y, _ in pairs], [g for _, g in pairs])

    return run.out, pullback, run.aux


def _append_jvp(
    f: Callable[..., Any], primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool
) -> tuple[Tree, ...]:
    run = _run(f, primals, has_aux)
    found = run.out, pushed(run, run.out, tuple(tangents))
    return (*found, run.aux) if has_aux else found


def pushed(run: Differentiation, out: Tree, tangents: Tree) -> Tree:
    """The tangent of `out`, made in this run, for tangents of what was chosen; None for leaves that have none."""
    given = run.leaves(tangents, "the tangent")
    directions = [matching(x, t, "tangent") for x, t in zip(run.chosen, given, strict=True)]
    leaves, structure = tree.flatten(out)
    moving = [y.node for y in leaves if _flows(y)]
    found = iter(pushforward(run.graph, moving, [x.node for x in run.chosen], directions))
    return tree.unflatten(structure, [or_zeros(y, next(found)) if _flows(y) else None for y in leaves])


def _flows(y: Any) -> bool:
    return isinstance(y, Variable) and y.aval.differentiable


# ---- outside: two compiled functions, and what the second needs of the first


def _split(program: Program, primals: Sequence[Tree], seeds: Sequence[Variable | None], cotangents: Tree) -> Any:
    graph, structure = program.graph, tree.flatten(program.outputs[0])[1]
    given = [g for g in seeds if g is not None]
    ends = [x.node for x in tree.flatten(cotangents)[0] if isinstance(x, Variable)]
    saved = _residuals(ends, [g.node for g in given])
    computed = [x for x in saved if x.op is not INPUT]
    inputs = _fed(program, tuple(primals))
    first = function([x for x, _ in inputs], (program.outputs, [Variable(graph, x) for x in computed]))
    second = Compiled(between([*(Variable(graph, x) for x in saved), *given], cotangents, has_checks=False))
    out, values = first(*[argument for _, argument in inputs])
    known = {x.node: argument for x, argument in inputs} | dict(zip(computed, values, strict=True))
    residuals = [known[x] for x in saved]
    for i, x in enumerate(saved):
        if x.op is INPUT and isinstance(known[x], np.ndarray):
            residuals[i] = known[x].copy()  # the caller may write into it before the pullback runs

    def pullback(cotangent: Tree) -> tuple[Tree, ...]:
        gs = leaves_like(structure, cotangent, "vjp: the cotangent", "the result")
        pairs = [(y, g) for g, y in zip(gs, seeds, strict=True) if y is not None]
        within = graph_at_hand(cotangent)
        if within is None:
            return second(*residuals, *[_like(g, y) for y, g in pairs])
        fed = [within.constant(x) for x in residuals] + [lift(within, array_like(y, g, "cotangent")) for y, g in pairs]
        image = inline(within, Region(graph, [*saved, *(y.node for y, _ in pairs)], ends), fed, _written_out)
        return tree.tree_map(lambda x: Variable(within, image[x.node]) if isinstance(x, Variable) else x, cotangents)

    return out, pullback


def _written_out(node: Node) -> Where:
    """Return the provenance of a node of another graph, without the node that it derives."""
    return Where(node.where.file, node.where.line)


def _fed(program: Program, arguments: Sequence[Tree]) -> list[tuple[Variable, Any]]:
    """The inputs of a program, and what they are."""
    pairs = zip(program.leaves, tree.flatten(arguments)[0], strict=True)
    return [(Variable(program.graph, leaf.node), x) for leaf, x in pairs if leaf.node is not None]


def _like(g: Any, seed: Variable) -> Any:
    """A cotangent as the compiled pullback takes it."""
    array = array_like(seed, g, "cotangent")
    return array.item() if seed.aval.weak else array


def _residuals(ends: Sequence[Node], seeds: Sequence[Node]) -> list[Node]:
    """Return the residuals: the primal values that the pullback needs, in order of creation."""
    nodes = reached(ends)
    later = depends(nodes, seeds)
    return sorted((x for x in live_in(later, ends) if x.op not in (CONSTANT, SIZE)), key=lambda node: node.id)
