"""What of loops and branches nobody needs: what is carried for its own sake, stacks, slices, operands, results."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from symgrad.control.opened import Opened, Read, instead_of, items_of, loop_of, opened
from symgrad.core.graph import CONSTANT, ITEM, Graph, Node
from symgrad.core.region import Region, map_regions, regions_of
from symgrad.core.sizes import same
from symgrad.ops.control import COND, SCAN, inputs_of_body
from symgrad.rewrite.engine import Made, copied


def drop_dead_results(graph: Graph, numerics: str = "stable") -> Graph:
    """Loops and branches without what nobody reads; what no turn changes is not carried.

    It goes from the results upwards: what a loop does without, another one need not give.
    """
    if not any(node.op in (SCAN, COND) for node in graph.live):
        return graph
    items = items_of(graph.live)
    wanted, instead = set(graph.outputs), dict[Node, Made]()
    for node in reversed(graph.live):
        if node not in wanted:
            continue
        needs, found = node.inputs, None
        if node.op in (SCAN, COND):
            used = {i: x for i, x in sorted(items[node].items()) if x in wanted}
            found = (_lean_loop if node.op is SCAN else _lean_branch)(node, used)
        if found is not None:
            needs, made = found
            instead |= made
        wanted.update(needs)
    inputs = set(graph.inputs)
    kept = [*graph.inputs, *(x for x in graph.live if x in wanted and x not in inputs)]
    return copied(graph, instead, kept) if instead else graph


_Lean = tuple[tuple[Node, ...], dict[Node, Made]] | None
"""What is needed instead of a node's inputs, and how the node and its results are made; None if it is lean already."""


# ---- loops


def _lean_loop(node: Node, used: Mapping[int, Node]) -> _Lean:
    loop = opened(loop_of(node))
    inputs, results = len(loop.inputs), len(loop.results)
    numbers = _kept(loop, used)
    turn = loop.graph
    loop = loop.rewritten(drop_dead_results).without_unread()  # a loop in it may read less
    if (len(loop.inputs), len(loop.results)) == (inputs, results) and loop.graph is turn:
        return None
    items = {x: numbers[i] for i, x in used.items()}
    outside = [x for x in items.values() if isinstance(x, Node)]
    return (*loop.inputs, *outside), instead_of(loop.appended, node, items)


def _kept(loop: Opened, used: Container[int]) -> dict[int, int | Node]:
    """Leave out of a loop what its `used` results do not need; which of them are which, by number or outside."""
    n, last = len(loop.carried), len(loop.results)
    whole = _whole_slices(loop)
    stacks = [j for j in range(n, last) if j in used and j not in whole]
    roots = [loop.results[j] for j in stacks] + ([] if loop.test is None else [loop.test])
    live = _live_carries(loop, used, roots)
    fixed = _fixed_carries(loop)
    changing = [i for i in range(n) if live[i] and not fixed[i]]
    numbers: dict[int, int | Node] = {i: loop.carried[i].start for i in range(n) if fixed[i]}
    numbers |= {j: k for k, j in enumerate([*changing, *stacks, last])}
    numbers |= whole
    loop.others += [Read(c.start, c.value) for c, is_fixed in zip(loop.carried, fixed, strict=True) if is_fixed]
    loop.stacked = [loop.results[j] for j in stacks]
    loop.carried = [loop.carried[i] for i in changing]
    return numbers


def _fixed_carries(loop: Opened) -> list[bool]:
    """Which carried values no turn changes: what becomes of them is what they are, or what they were at the start."""
    source = {x.value: x.source for x in loop.others}
    at_start = lambda c: (
        source.get(c.update) is c.start or (c.start.op is CONSTANT and c.update.params == c.start.params)
    )
    return [c.start.aval == c.value.aval and (c.update is c.value or at_start(c)) for c in loop.carried]


def _whole_slices(loop: Opened) -> dict[int, Node]:
    """The stacks of slices as they are: the arrays that are sliced, of a loop that goes over all of them."""
    source = {x.value: x.source for x in loop.sliced}
    found = {len(loop.carried) + j: source[y] for j, y in enumerate(loop.stacked) if y in source}
    fits = lambda x: loop.test is None and loop.turns is not None and same(x.aval.shape[0], loop.turns)
    return {j: x for j, x in found.items() if fits(x)}


def _live_carries(loop: Opened, used: Container[int], roots: Sequence[Node]) -> list[bool]:
    """Which carried values are results that are used, or needed for `roots` or for such values."""
    live = [i in used for i in range(len(loop.carried))]
    while True:
        read = read_for([*roots, *(c.update for c, is_live in zip(loop.carried, live, strict=True) if is_live)])
        more = [is_live or c.value in read for c, is_live in zip(loop.carried, live, strict=True)]
        if more == live:
            return live
        live = more


# ---- what results are made of


def read_for(results: Iterable[Node], given: Container[Node] = ()) -> set[Node]:
    """What results read, up to what is given: of the inputs of loops and branches only what the results in use read."""
    seen = set(results)
    stack = [*seen]
    while stack:
        node = stack.pop()
        if node in given:
            continue
        inputs: Iterable[Node] = node.inputs
        if node.op is ITEM and node.inputs[0].op in (SCAN, COND):
            inputs = _inputs_of_result(node.inputs[0], dict(node.params)["index"])
        stack += [x for x in inputs if x not in seen]
        seen.update(inputs)
    return seen


def _inputs_of_result(node: Node, i: int) -> list[Node]:
    """The inputs of a loop or a branch that one of its results depends on."""
    if node.op is COND:
        operands = set.union(*(_read_by(side, [i]) for side in regions_of(node)))
        return [node.inputs[0], *(node.inputs[1 + k] for k in sorted(operands))]
    loop, given = loop_of(node), inputs_of_body(node)
    n, results = len(loop.starts), loop.body.results
    wanted: set[int] = {i} if i < len(results) else set()
    tested: set[int] = set()
    if loop.test is not None:
        read = read_for(loop.test.results, loop.test.parameters)
        kept = [*range(n + 1), *range(n + 1 + len(loop.slices_of), len(given))]
        tested = {k for k, x in zip(kept, loop.test.parameters, strict=True) if x in read}
    while True:
        read = read_for([results[k] for k in sorted(wanted)], loop.body.parameters)
        used = tested | {k for k, x in enumerate(loop.body.parameters) if x in read}
        more = wanted | {k for k in used if k < n}
        if more == wanted:
            return [loop.length, *(given[k] for k in sorted(used | {k for k in wanted if k < n}))]
        wanted = more


# ---- branches


def _lean_branch(node: Node, used: Mapping[int, Node]) -> _Lean:
    pred, *operands = node.inputs
    read = set.union(*(_read_by(side, used) for side in regions_of(node)))
    if len(used) == len(node.aval) and len(read) == len(operands):
        return None
    kept, inputs = sorted(read), (pred, *(operands[i] for i in sorted(read)))

    def lean(side: Region) -> Region:
        return Region(side.graph, [side.parameters[i] for i in kept], [side.results[i] for i in used])

    def appended(new: Graph, image: Mapping[Node, Node]) -> Node:
        return new.add(COND, tuple([image[x] for x in inputs]), map_regions(node, lean))

    return inputs, instead_of(appended, node, {x: k for k, x in enumerate(used.values())})


def _read_by(side: Region, used: Iterable[int]) -> set[int]:
    """Which operands a side of a branch reads for these results."""
    read = read_for([side.results[i] for i in used], set(side.parameters))
    return {i for i, x in enumerate(side.parameters) if x in read}
