"""`split`: a program as a plan over chunks of rows."""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter
from typing import Any

import numpy as np

from symgrad.compiler.compiled import Compiled
from symgrad.compiler.function import Function
from symgrad.core import tree
from symgrad.core.graph import Aval
from symgrad.core.options import Options
from symgrad.core.provenance import UNKNOWN
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, Size, is_symbol, symbols_of
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import Leaf, Spec, bind, dotted_paths
from symgrad.frontend.graphs import Graph
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.pipeline import simplified
from symgrad.scale.plan import Pass, Plan, Step
from symgrad.scale.rounds import Part, Round, divided


def split(f: Function | Compiled, /, *args: Any, axis: str | Mapping[str, int], **kwargs: Any) -> Plan:
    """Divide a program into rounds over chunks of rows.

    A gradient of a sum over samples is the sum of gradients over chunks. The rounds that a program needs follow from
    its graph: a mean that other rows are compared with takes a round of its own before them.

    Parameters
    ----------
    f : Function or Compiled
        A Function is compiled for the arguments.
    *args, **kwargs
        Arguments or specs for a Function, and options as keywords.
    axis : str or mapping of str to int
        The symbol of a size, ``"n"``; or by argument the axis that rows lie along, ``{"X": 0, "y": 0}``.

    Returns
    -------
    Plan
        ``print`` it; `Plan.bind` and `Plan.run` run it.

    Raises
    ------
    ArgumentError
        If no argument has such an axis.
    UnsupportedError
        If an operation mixes rows in another way than by a sum, a maximum or a minimum over them; it names the line.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def loss(w, X, y):
    ...     return np.mean((X @ w - y) ** 2)
    >>> plan = sg.split(sg.grad(loss), "float64[d]", "float64[n, d]", "float64[n]", axis="n")
    >>> plan
    <Plan loss_grad along n, 1 round>
    >>> rng = np.random.default_rng(0)
    >>> w, X, y = rng.normal(size=3), rng.normal(size=(100, 3)), rng.normal(size=100)
    >>> bool(np.allclose(plan(w, X, y, rows=30), sg.grad(loss)(w, X, y)))
    True
    """
    if not isinstance(axis, (str, Mapping)):
        raise ArgumentError(f"split: axis={axis!r}", 'Write axis="n", a symbol, or axis={"X": 0}, axes of arguments.')
    if isinstance(f, Function):
        n = axis if isinstance(axis, str) else "n"
        if not isinstance(axis, str):
            args, kwargs = _with_symbol(f, args, kwargs, axis)
        f = f.compile(*args, **kwargs)
    elif args or kwargs or not isinstance(axis, str):
        raise ArgumentError(
            "split: a compiled program has its arguments already", 'Write split(compiled, axis="n") with a symbol.'
        )
    else:
        n = axis
    return plan_of(f, n)


def _with_symbol(
    f: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], axes: Mapping[str, int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with specs in the place of arrays whose rows are chunks, of ``n`` rows."""
    names = f.__signature__.parameters
    options = {name: x for name, x in kwargs.items() if name not in names}
    bound = bind(f, args, {name: x for name, x in kwargs.items() if name in names}, f.__name__)
    paths, leaves, structure = dotted_paths(bound.arguments)
    for path, axis in axes.items():
        if path not in paths:
            raise ArgumentError(f"split: there is no argument {path}", f"There are {', '.join(paths)}.")
        x = leaves[paths.index(path)]
        shape = list(np.shape(x))
        if not -len(shape) <= axis < len(shape):
            raise ArgumentError(
                f"split: {path} of shape {tuple(shape)} has no axis {axis}", "Name an axis that it has."
            )
        shape[axis] = "n"
        leaves[paths.index(path)] = Spec(tuple(shape), np.dtype(x.dtype))
    bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
    return bound.args, {**bound.kwargs, **options}


def plan_of(whole: Compiled, n: str) -> Plan:
    """Divide a compiled program into rounds along the axes of size `n`."""
    program, options = whole.program, whole.options
    leaves = {leaf.path: leaf.node for leaf in program.leaves if leaf.node is not None}
    chunked = {path: i for path, x in leaves.items() if (i := _axis(path, x.aval, n)) is not None}
    if not chunked:
        symbols = sorted({str(size) for x in leaves.values() for size in x.aval.shape if isinstance(size, Dim)})
        known = f"Its sizes are {', '.join(symbols)}." if symbols else 'Give specs with one: "float64[n, d]".'
        raise ArgumentError(f"split: no argument has an axis of size {n}", known)
    for path in [path for path in leaves if path not in chunked]:
        beside = next((each for each in chunked if _parameter(each, program) == _parameter(path, program)), None)
        if beside is not None:
            raise ArgumentError(
                f"split: {beside} has rows of chunks and {path}, of the same argument, has none",
                "Pass what is cut in chunks as an argument of its own.",
            )
    graph = simplified(program.graph, options.optimize, options.numerics)
    axes = {x: chunked[path] for x, path in zip(graph.inputs, leaves, strict=True) if path in chunked}
    found = divided(program, graph, program.sizes.symbol(n), axes)
    parts = replace(options, check_first=False, check_nan=False)
    rounds = [
        Pass(
            _optional(each.before, parts),
            _step(each.partial, parts),
            _combine(each, program, parts),
            each.joins,
            tuple([border for border in found.borders if border.left in each.partial.made]),
        )
        for each in found.rounds
    ]
    inputs = dict(zip(found.inputs, leaves, strict=True))
    finish = _optional(found.finish, parts)
    borders = tuple(found.borders)
    return Plan(whole, n, tuple(rounds), finish, chunked, inputs, tuple(found.outputs), borders, options.check_nan)


copyreg.pickle(Plan, lambda plan: (plan_of, (plan.whole, plan.n)))


def _parameter(path: str, program: Program) -> str:
    return next(leaf.parameter for leaf in program.leaves if leaf.path == path)


def _step(part: Part, options: Options) -> Step:
    return Step(Compiled(part.program, options), part.given, part.made, part.sizes)


def _optional(part: Part | None, options: Options) -> Step | None:
    return None if part is None else _step(part, options)


def _axis(path: str, aval: Aval, n: str) -> int | None:
    """Return the axis of an argument that has this size; refuse one that has it twice, or a size made of it."""
    axes = [i for i, size in enumerate(aval.shape) if str(size) == n]
    depends = any(isinstance(size, Dim) and n in symbols_of(size) for size in aval.shape)
    if len(axes) > 1 or (depends and not axes):
        raise ArgumentError(
            f"split: {path} is {aval}, which cannot be cut along {n}",
            f"Chunks are cut from arguments that have one axis of size {n}.",
        )
    return axes[0] if axes else None


def _combine(each: Round, program: Program, options: Options) -> Compiled | None:
    """Return the program that makes one tuple of partial results of two; rows and carries are left out."""
    made = zip(each.partial.program.graph.outputs, each.joins, strict=True)
    pairs = [(y, u) for y, u in made if isinstance(u, np.ufunc)]
    if not pairs:
        return None
    graph = Graph()
    shapes = [tuple([_own_size(n, graph.sizes) for n in y.aval.shape]) for y, _ in pairs]
    avals = [y.aval._replace(shape=shape, weak=False) for (y, _), shape in zip(pairs, shapes, strict=True)]
    leaves = []
    for side in ("left", "right"):
        for i, aval in enumerate(avals):
            node = graph.add_input(f"{side}_{i}", aval)
            leaves.append(Leaf(side, f"[{i}]", f"{side}[{i}]", f"{side}_{i}", node))
    values = [Variable(graph, leaf.node) for leaf in leaves if leaf.node is not None]
    k = len(pairs)
    with graph.located(UNKNOWN):
        results = tuple([u(a, b) for (_, u), a, b in zip(pairs, values[:k], values[k:], strict=True)])
    graph.outputs = [y.node for y in results]
    sides = tuple(values[:k]), tuple(values[k:])
    name = f"{each.partial.program.name.replace('_partial', '_combine')}"
    return Compiled(
        Program(
            graph,
            dict(zip(("left", "right"), sides, strict=True)),
            results,
            name,
            program.where,
            leaves,
            tree.flatten(sides)[1],
            [Parameter(side, Parameter.POSITIONAL_OR_KEYWORD) for side in ("left", "right")],
            graph.sizes,
            [],
            f"One tuple of partial results of two, for {program.name}.",
        ),
        options,
    )


def _own_size(size: Size, sizes: Sizes) -> Size:
    """Return a size as a symbol of its own, which a shape tells: an expression of others would not."""
    if not isinstance(size, Dim):
        return size
    return sizes.symbol(str(size)) if is_symbol(size) else sizes.fresh("size_")
