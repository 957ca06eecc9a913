"""The bodies of loops and branches: functions of the user's, traced once and cut out of the graph as regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, Aval, Chain, Graph, Node, depends, freeze, is_token, reached
from symgrad.core.provenance import assigned_name, unpacked_names
from symgrad.core.region import Region, closed
from symgrad.core.shapes import is_one, same_shape
from symgrad.core.sizes import Dim, Size, is_counted, largest
from symgrad.errors import GraphError, ShapeError, UnsupportedError
from symgrad.frontend.chains import go_on_from, own_chain, taken, token
from symgrad.frontend.conversion.sharing import Names
from symgrad.frontend.conversion.state import check_left
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.control import COND, INDEX, NUMBER, is_guarded, is_guarded_by
from symgrad.ops.control_parts import Carry, Loop, Read
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.places import LoopIndex, in_side_of, side_here

MOST = 4  # times that a body is traced until what it carries keeps its type

Variables = Sequence[Variable]
Body = Callable[[Variables, Variable, Variables], tuple[Sequence[Any], Sequence[Any]]]
"""Take (carry, index, xs) and return (carry, ys)."""


# ---- branches


def branch(
    graph: Graph,
    pred: Variable,
    then: Callable[[], Sequence[Any]],
    other: Callable[[], Sequence[Any]],
    bound: Mapping[Node, Node] = MappingProxyType({}),
) -> list[Variable]:
    """Call one of two functions, whose results agree in number and shapes.

    Stand-ins in their nodes are `bound` to values; tokens must be.
    """
    with body_of(graph):
        since = graph.body
        sides, chains = list[list[Node]](), list[Chain]()
        for side, holds in ((then, True), (other, False)):
            with in_side_of(pred, holds):
                sides.append([lift(graph, y) for y in side()])
            graph.leave_body(since)  # the other side has to make its own
            chains.append(taken(graph))
        for y, z in zip(*sides, strict=True):
            _check_alike(y, z)
    return joined(graph, pred, sides, since, chains, bound)


def joined(
    graph: Graph,
    pred: Variable,
    sides: Sequence[Sequence[Node]],
    since: int,
    chains: Sequence[Chain] = (),
    bound: Mapping[Node, Node] = MappingProxyType({}),
) -> list[Variable]:
    """Join the results of both branches, traced since the graph had so many nodes, into one node.

    The chains of both are given the same token.
    """
    first = next((chain.first for chain in chains if chain.last is not None), None)
    if first is None:
        return _joined(graph, pred, sides, since, bound)
    sides = [[*side, chain.last or first] for side, chain in zip(sides, chains, strict=True)]
    *results, last = _joined(graph, pred, sides, since, {**bound, first: token(graph)})
    go_on_from(graph, last.node)
    return results


def _joined(
    graph: Graph,
    pred: Variable,
    sides: Sequence[Sequence[Node]],
    since: int,
    bound: Mapping[Node, Node],
) -> list[Variable]:
    """The same, with stand-ins for values."""
    avals = [common(y.aval, z.aval) for y, z in zip(*sides, strict=True)]
    sides = [[promoted(graph, y, aval) for y, aval in zip(side, avals, strict=True)] for side in sides]
    made = [y for side in sides for y in side]

    @cache
    def own() -> set[Node]:
        """Return what depends on stand-ins; it walks the whole program before, so only those who need it ask."""
        return depends(reached(made), bound)

    def is_of_side(x: Node) -> bool:
        """Whether a value has no meaning outside, where a derivative may have made it before."""
        return is_guarded(x) and not is_guarded_by(x, side_here(graph))

    def inside(x: Node) -> bool:
        if x.op is ITEM:
            return inside(x.inputs[0])
        is_check = any(map(is_token, x.inputs))
        is_here = not is_check or x in own()  # checks of other bodies stay where they are
        return x not in bound and is_here and (x.id >= since or graph.made_in_body(x) or is_of_side(x))

    given = closed(graph, [*bound], made, inside).parameters
    regions = {name: Region(graph, given, side) for name, side in zip(("then", "other"), sides, strict=True)}
    return _items(graph, graph.add(COND, (pred.node, *(bound.get(x, x) for x in given)), freeze(COND, regions)))


def _check_alike(y: Node, z: Node) -> None:
    if not same_shape(y.aval.shape, z.aval.shape):
        raise ShapeError(
            f"one branch gives {y.aval}, and the other {z.aval}",
            "Give arrays of one shape in both: np.broadcast_to(x, shape).",
        )


# ---- loops


def repeat(
    graph: Graph,
    body: Body,
    init: Sequence[Any],
    length: Any,
    xs: Variables = (),
    test: Callable[[Variables, Variable], Any] | None = None,
    reverse: bool = False,
    checkpoint: int | str | None = None,
    iterations: Size | None = None,
    index_size: str | None = None,
) -> tuple[list[Variable], list[Variable], Variable | None]:
    """Record a loop and return the final carry, the ys, and with a condition the number of iterations.

    A carry gets the dtype that the body gives it, and keeps its shape. Where the test alone ends the loop the length is
    `UNBOUNDED`. `iterations` is the length of the ys, if they have a symbol already; `index_size` is the symbol of the
    index, if it has one already.
    """
    carry, at = [lift(graph, x) for x in init], LoopIndex(graph, length, name=index_size)
    names = Names(init)
    for _ in range(MOST):
        each = _traced(graph, body, test, carry, xs, at, names)
        avals = [_carried(x, y) for x, y in zip(carry, each.results, strict=False)]
        if avals == [x.aval for x in carry] and names.known:
            break
        carry = [promoted(graph, x, aval) for x, aval in zip(carry, avals, strict=True)]
    else:
        raise GraphError(
            "a carry of a loop changes its dtype in every iteration", "Convert it in the body: x.astype(float)."
        )
    how = {"reverse": reverse, "checkpoint": checkpoint, "index_size": index_size or at.name}
    final, ys, last = recorded(graph, each, carry, length, xs, how, iterations)
    names.behind(final, sure=test is None and type(length) is int and length > 0)
    return final, ys, last


@dataclass(frozen=True)
class Iteration:
    """One traced iteration: its stand-ins, their next values, and the condition."""

    carry: list[Node]
    index: Node
    xs: list[Node]
    results: list[Node]  # the next carry, then the ys
    test: Node | None
    chain: Chain  # its checks


def _traced(
    graph: Graph, body: Body, test: Any, carry: Sequence[Node], xs: Variables, at: LoopIndex, names: Names
) -> Iteration:
    with body_of(graph):
        stand_ins = [graph.seed(x.aval) for x in carry]
        for x, y in zip(carry, stand_ins, strict=True):
            if x in graph.names and x.op is not CONSTANT:
                graph.label(y, graph.names[x])
        index = at.begin(INDEX)
        slices = [graph.seed(Aval(x.shape[1:], x.dtype)) for x in xs]
        goes_on = None
        if test is not None:
            goes_on = lift(graph, _truth(test([Variable(graph, x) for x in stand_ins], Variable(graph, index))))
            check_test(graph)
        rows = [Variable(graph, x, "it is a slice of an array that the loop runs over") for x in slices]
        carried = [Variable(graph, x) for x in stand_ins]
        names.begin(carried)
        new, ys = body(carried, Variable(graph, index), rows)
        names.end(new, graph.body)
        at.end()
        stacked = [lift(graph, y) for y in ys]
        results = [*(lift(graph, y) for y in new), *(promoted(graph, y, y.aval._replace(weak=False)) for y in stacked)]
        avals = [x.aval for x in carry]
        results[: len(carry)] = [
            promoted(graph, y, x) if same_shape(y.aval.shape, x.shape) and common(x, y.aval) == x else y
            for x, y in zip(avals, results, strict=False)
        ]
        chain = taken(graph)
    return Iteration(stand_ins, index, slices, results, goes_on, chain)


def check_test(graph: Graph) -> None:
    """Raise if the test of a loop, which has been evaluated, makes a check."""
    if graph.chain.last is not None:
        raise UnsupportedError(
            "the condition of a loop raises, warns or prints depending on traced values",
            "Do so in the body of the loop: while True, and break where it is to end.",
        )


def _truth(value: Any) -> Any:
    if not isinstance(value, Variable):
        return bool(value)
    if value.shape:
        raise ShapeError(f"the condition of a loop is {value.aval}, not one boolean", "Write np.any(x) or np.all(x).")
    return value if value.dtype == bool else value != 0


def _carried(x: Node, y: Node) -> Aval:
    if not same_shape(x.aval.shape, y.aval.shape):
        raise ShapeError(
            f"a loop starts with {x.aval}, and an iteration makes it {y.aval}",
            "Start with an array of the final shape: np.zeros(shape).",
        )
    return common(x.aval, y.aval)


def recorded(
    graph: Graph,
    each: Iteration,
    init: Sequence[Node],
    length: Any,
    xs: Variables,
    how: Mapping[str, Any],
    iterations: Size | None = None,
) -> tuple[list[Variable], list[Variable], Variable | None]:
    """Record a loop: ``[consts, carry, xs] -> [carry, ys]``. A carry that no iteration changes becomes a const."""
    if each.chain.last is not None:
        return _recorded_with_checks(graph, each, init, length, xs, how, iterations)
    carry, ys = [Carry(*x) for x in zip(init, each.carry, each.results, strict=False)], each.results[len(init) :]
    changed = [i for i, c in enumerate(carry) if c.update is not c.value]
    if iterations is None and ys:
        iterations = _iterations(graph, length, each.test is not None)
    loop = Loop(
        graph=graph,
        length=lift(graph, length),
        index=each.index,
        carry=[carry[i] for i in changed],
        xs=[Read(x.node, y) for x, y in zip(xs, each.xs, strict=True)],
        consts=[Read(c.init, c.value) for c in carry if c.update is c.value],
        ys=ys,
        iterations=iterations,
        **how,
    )
    items = _items(graph, loop.tested(each.test).closed().record(graph))
    last = None if each.test is None else items.pop()
    if last is not None and is_counted(iterations):
        graph.counts[str(iterations)] = last.node
    final = [Variable(graph, x) for x in init]
    for i, item in zip(changed, items, strict=False):
        final[i] = item
        if each.carry[i] in graph.names:
            graph.label(item.node, graph.names[each.carry[i]])
    return final, items[len(changed) :], last


def _recorded_with_checks(
    graph: Graph, each: Iteration, init: Sequence[Node], *others: Any
) -> tuple[list[Variable], list[Variable], Variable | None]:
    """Record a loop that carries the token of its last check."""
    n, (first, last, _) = len(init), each.chain
    assert first is not None and last is not None
    results = [*each.results[:n], last, *each.results[n:]]
    plain = replace(each, carry=[*each.carry, first], results=results, chain=Chain())
    (*final, done), ys, count = recorded(graph, plain, [*init, token(graph)], *others)
    go_on_from(graph, done.node)
    return final, ys, count


def _iterations(graph: Graph, length: Any, tested: bool) -> Size:
    """Return the size of the ys of a loop."""
    if not tested and not isinstance(length, Variable):
        return length if isinstance(length, Dim) else int(length)
    if tested:
        return graph.sizes.turns()
    found = lift(graph, length), graph.body  # loops of one length have stacks of one
    if found not in graph.lengths:
        graph.lengths[found] = graph.sizes.turns()
    size: Dim = graph.lengths[found]
    return size


def range_length(start: Any, stop: Any, step: int = 1) -> Any:
    """Return the length of ``range(start, stop, step)``, where an end may be traced."""
    away, size = (stop - start, step) if step > 0 else (start - stop, -step)
    count = away if is_one(size) else (away + size - 1) // size
    return np.maximum(count, 0) if isinstance(count, Variable) else largest(count, 0)


# ---- both


@contextmanager
def body_of(graph: Graph) -> Iterator[None]:
    """Trace a body: memory that was there before cannot be written into."""
    graph.seed(INDEX)  # what is made from now on is younger than all that was there
    before = graph.body, graph.journal
    graph.body, graph.journal = len(graph.nodes), None
    since = graph.body
    try:
        with own_chain(graph):
            yield
        check_left(graph, None)
    finally:
        while graph.journal is not None:  # of loops and branches that an exception has left
            graph.journal.abandon()
        graph.leave_body(since)
        graph.body, graph.journal = before


def common(a: Aval, b: Aval) -> Aval:
    """Return the common abstract value of two."""
    return Aval(a.shape, common_dtype(a, b), a.weak and b.weak)


def promoted(graph: Graph, x: Node, aval: Aval) -> Node:
    """A value in another dtype, as a number of NumPy's where `aval` is one."""
    if (x.aval.dtype, x.aval.weak) == (aval.dtype, aval.weak):
        return x
    if aval.weak and x.op is CONSTANT:
        return graph.constant(_PYTHON[aval.dtype.kind](x.constant))
    if aval.weak and aval.dtype.kind == "b":
        return NUMBER(Variable(graph, x)).node
    if aval.weak:
        return (Variable(graph, x) * _PYTHON[aval.dtype.kind](1)).node
    if x.op is CONSTANT:
        return graph.constant(np.asarray(x.constant, aval.dtype))
    return Variable(graph, x).astype(aval.dtype, copy=False).node


_PYTHON: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}


def _items(graph: Graph, node: Node) -> list[Variable]:
    """The results of a loop or a branch, under the names that the user's line gives them."""
    items = graph.items(node)
    if graph.provenance is None:
        names = [assigned_name()] if len(items) == 1 else unpacked_names(returned=True)
        for item, name in zip(items, names, strict=False) if len(names) == len(items) else ():
            if name:
                graph.label(item, name)
    return [Variable(graph, item) for item in items]
