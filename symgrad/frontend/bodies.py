"""The bodies of loops and branches: functions of the user's, traced once and cut out of the graph as regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import CONSTANT, ITEM, Aval, Chain, Graph, Node, Op, depends, is_token, reached
from symgrad.core.provenance import assigned_name, unpacked_names
from symgrad.core.region import Region, closed
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, Size, is_counted, largest
from symgrad.errors import GraphError, ShapeError, UnsupportedError
from symgrad.frontend.chains import go_on_from, own_chain, taken, token
from symgrad.frontend.conversion.sharing import Names
from symgrad.frontend.conversion.state import check_left
from symgrad.frontend.variable import Variable, freeze, lift
from symgrad.ops.control import COND, PLACE, SCAN, within
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.places import TurnPlace

MOST = 4  # times that a body is traced until what it carries keeps its type

Carry = Sequence[Variable]
Body = Callable[[Carry, Variable, Carry], tuple[Sequence[Any], Sequence[Any]]]
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
        for side in (then, other):
            sides.append([lift(graph, y) for y in side()])
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

    def inside(x: Node) -> bool:
        if x.op is ITEM:
            return inside(x.inputs[0])
        is_check = any(map(is_token, x.inputs))
        is_here = not is_check or x in own()  # checks of other bodies stay where they are
        return x not in bound and is_here and (x.id >= since or graph.made_in_body(x))

    given = closed(graph, [*bound], made, inside).parameters
    regions = {name: Region(graph, given, side) for name, side in zip(("then", "other"), sides, strict=True)}
    return _items(graph, COND, (pred.node, *(bound.get(x, x) for x in given)), regions)


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
    slices_of: Carry = (),
    test: Callable[[Carry, Variable], Any] | None = None,
    reverse: bool = False,
    checkpoint: int | str | None = None,
    turns: Size | None = None,
    place: str | None = None,
) -> tuple[list[Variable], list[Variable], Variable | None]:
    """Record a loop and return the final carry, the ys, and with a condition the number of iterations.

    What a body carries gets the dtype that its results have; it keeps its shape. Where the test alone ends the loop the
    length is `UNBOUNDED`. `turns` is the size by which stacks are known, if they are known by one already; `place` is
    what the loop's index is called as a size, if it is one already.
    """
    carry, at = [lift(graph, x) for x in init], TurnPlace(graph, length)
    names = Names(init)
    for _ in range(MOST):
        turn = _traced(graph, body, test, carry, slices_of, at, names)
        avals = [_carried(x, y) for x, y in zip(carry, turn.results, strict=False)]
        if avals == [x.aval for x in carry] and names.known:
            break
        carry = [promoted(graph, x, aval) for x, aval in zip(carry, avals, strict=True)]
    else:
        raise GraphError(
            "a carry of a loop changes its dtype in every iteration", "Convert it in the body: x.astype(float)."
        )
    how = {"reverse": reverse, "checkpoint": checkpoint, "place": place or at.name}
    final, stacks, last = recorded(graph, turn, carry, length, slices_of, how, turns)
    names.behind(final, sure=test is None and type(length) is int and length > 0)
    return final, stacks, last


class Turn(NamedTuple):
    """One traced iteration: its stand-ins, their next values, and the condition."""

    carry: list[Node]
    place: Node
    slices: list[Node]
    results: list[Node]  # what is carried on, and what is stacked
    test: Node | None
    chain: Chain = Chain()  # its checks


def _traced(
    graph: Graph, body: Body, test: Any, carry: Sequence[Node], slices_of: Carry, at: TurnPlace, names: Names
) -> Turn:
    with body_of(graph):
        stand_ins = [graph.seed(x.aval) for x in carry]
        for x, y in zip(carry, stand_ins, strict=True):
            if x in graph.names and x.op is not CONSTANT:
                graph.label(y, graph.names[x])
        place = at.begin(PLACE)
        slices = [graph.seed(Aval(x.shape[1:], x.dtype)) for x in slices_of]
        goes_on = None
        if test is not None:
            goes_on = lift(graph, _truth(test([Variable(graph, x) for x in stand_ins], Variable(graph, place))))
            check_test(graph)
        rows = [Variable(graph, x, "it is a slice of an array that the loop runs over") for x in slices]
        carried = [Variable(graph, x) for x in stand_ins]
        names.begin(carried)
        new, ys = body(carried, Variable(graph, place), rows)
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
    return Turn(stand_ins, place, slices, results, goes_on, chain)


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
        raise ShapeError(f"the condition of a loop gives {value.aval}", "Give one boolean: np.any(x) or np.all(x).")
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
    turn: Turn,
    carry: Sequence[Node],
    length: Any,
    slices_of: Carry,
    how: Mapping[str, Any],
    turns: Size | None = None,
) -> tuple[list[Variable], list[Variable], Variable | None]:
    """Return the node of a loop. A carry that no iteration changes becomes one of the consts."""
    if turn.chain.last is not None:
        return _recorded_with_checks(graph, turn, carry, length, slices_of, how, turns)
    n, tested = len(carry), [] if turn.test is None else [turn.test]
    changed = [i for i in range(n) if turn.results[i] is not turn.carry[i]]
    fixed = [i for i in range(n) if i not in changed]
    moving, still = ([turn.carry[i] for i in part] for part in (changed, fixed))
    results = [*(turn.results[i] for i in changed), *turn.results[n:]]
    if turns is None and len(results) > len(changed):
        turns = _turns(graph, length, bool(tested))
    params, read = parted_turn(graph, moving, turn.place, turn.slices, still, results, tested, how.get("place"))
    bound, begun, kept = lift(graph, length), [carry[i] for i in changed], [carry[i] for i in fixed]
    inputs = (bound, *begun, *(x.node for x in slices_of), *kept, *read)
    items = _items(graph, SCAN, inputs, {**params, **how, "turns": turns})
    last = items.pop() if tested else None
    if last is not None and is_counted(turns):
        graph.counts[str(turns)] = last.node
    final = [Variable(graph, x) for x in carry]
    for i, item in zip(changed, items, strict=False):
        final[i] = item
        if turn.carry[i] in graph.names:
            graph.label(item.node, graph.names[turn.carry[i]])
    return final, items[len(changed) :], last


def _recorded_with_checks(
    graph: Graph, turn: Turn, carry: Sequence[Node], *others: Any
) -> tuple[list[Variable], list[Variable], Variable | None]:
    """The node of a loop that carries the token of its last check."""
    n, (first, last, _) = len(carry), turn.chain
    assert first is not None and last is not None
    results = [*turn.results[:n], last, *turn.results[n:]]
    plain = turn._replace(carry=[*turn.carry, first], results=results, chain=Chain())
    (*final, done), stacks, count = recorded(graph, plain, [*carry, token(graph)], *others)
    go_on_from(graph, done.node)
    return final, stacks, count


def parted_turn(
    graph: Graph,
    carry: Sequence[Node],
    place: Node,
    slices: Sequence[Node],
    others: Sequence[Node],
    results: Sequence[Node],
    test: Sequence[Node] = (),
    place_size: str | None = None,
) -> tuple[dict[str, Any], Sequence[Node]]:
    """Cut an iteration on stand-ins into regions, and return them with the consts that they read."""
    given, made = [*carry, place, *slices], [*results, *test]
    own = [*given, *others]
    parameters = closed(graph, own, made, within(graph, made, own, place_size).__contains__).parameters
    params: dict[str, Any] = {"body": Region(graph, parameters, results), "carried": len(carry), "sliced": len(slices)}
    if test:
        params["test"] = Region(graph, [*carry, place, *parameters[len(given) :]], test)
    return params, parameters[len(own) :]


def _turns(graph: Graph, length: Any, tested: bool) -> Size:
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


def places(start: Any, stop: Any, step: int = 1) -> Any:
    """Return the length of ``range(start, stop, step)``, where an end may be traced."""
    away, size = (stop - start, step) if step > 0 else (start - stop, -step)
    count = away if size == 1 else (away + size - 1) // size
    return np.maximum(count, 0) if isinstance(count, Variable) else largest(count, 0)


# ---- both


@contextmanager
def body_of(graph: Graph) -> Iterator[None]:
    """Trace a body: memory that was there before cannot be written into."""
    graph.seed(PLACE)  # what is made from now on is younger than all that was there
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
    if aval.weak:
        return (Variable(graph, x) * _PYTHON[aval.dtype.kind](1)).node
    if x.op is CONSTANT:
        return graph.constant(np.asarray(x.constant, aval.dtype))
    return Variable(graph, x).astype(aval.dtype, copy=False).node


_PYTHON: dict[str, type] = {"i": int, "f": float, "c": complex}


def _items(graph: Graph, op: Op, inputs: Sequence[Node], params: dict[str, Any]) -> list[Variable]:
    """The results of a loop or a branch, under the names that the user's line gives them."""
    node = graph.add(op, tuple(inputs), freeze(op, params))
    items = graph.items(node)
    if graph.provenance is None:
        names = [assigned_name()] if len(items) == 1 else unpacked_names(returned=True)
        for item, name in zip(items, names, strict=False) if len(names) == len(items) else ():
            if name:
                graph.label(item, name)
    return [Variable(graph, item) for item in items]
