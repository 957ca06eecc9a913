"""Dead-code elimination in loops and branches: unused carries, ys, xs, operands and results."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from symgrad.control.merging import members
from symgrad.control.replacement import instead_of, items_of
from symgrad.core.graph import CONSTANT, ITEM, Graph, Node, needed
from symgrad.core.region import Region, map_regions, regions_of
from symgrad.core.sizes import same
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import Loop, Read, loop_of
from symgrad.rewrite.engine import Made, copied


def drop_dead_results(graph: Graph, numerics: str = "stable") -> Graph:
    """Drop unused carries, ys and inputs of loops, and results of branches; loop-invariant carries become consts.

    Nodes are visited from the outputs to the inputs, so that what one loop no longer reads is dead in the one before.
    """
    if not any(node.op in (SCAN, COND) for node in graph.compound):
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
    wanted.update(graph.inputs)
    return copied(graph, instead, [x for x in graph.order if x in wanted]) if instead else graph


_Lean = tuple[tuple[Node, ...], dict[Node, Made]] | None
"""Inputs of a node without dead parts, and makers of the node and its results; None if it has no dead parts."""


# ---- loops


def _lean_loop(node: Node, used: Mapping[int, Node]) -> _Lean:
    before = loop_of(node).opened()
    lean, numbers = _without_dead(before, used)
    loop = lean.map_body(drop_dead_results).without_unread()  # an inner loop may read less
    counts = [(len(x.operands), len(x.results)) for x in (before, loop)]
    if counts[0] == counts[1] and loop.graph is before.graph:
        return None
    items = {x: numbers[i] for i, x in used.items()}
    outside = [x for x in items.values() if isinstance(x, Node)]
    return (*loop.operands, *outside), instead_of(loop.record, node, items)


def _without_dead(loop: Loop, used: Container[int]) -> tuple[Loop, dict[int, int | Node]]:
    """Return a loop without dead parts; and for each `used` result its new number, or the outside value that it is."""
    n, last = len(loop.carry), len(loop.results)
    whole = _whole_xs(loop)
    ys = [j for j in range(n, last) if j in used and j not in whole]
    roots = [loop.results[j] for j in ys] + [*(loop.test.results if loop.test else ())]
    live = _live_carries(loop, used, roots)
    fixed = _fixed_carries(loop)
    changing = [i for i in range(n) if live[i] and not fixed[i]]
    numbers: dict[int, int | Node] = {i: loop.carry[i].init for i in range(n) if fixed[i]}
    numbers |= {j: k for k, j in enumerate([*changing, *ys, last])}
    numbers |= whole
    consts = [Read(c.init, c.value) for c, is_fixed in zip(loop.carry, fixed, strict=True) if is_fixed]
    carry = [loop.carry[i] for i in changing]
    return replace(loop, carry=carry, consts=[*loop.consts, *consts], ys=[loop.results[j] for j in ys]), numbers


def _fixed_carries(loop: Loop) -> list[bool]:
    """Return which carries are loop-invariant: iterations keep them, or set them to their initial value again."""
    source = {x.value: x.source for x in loop.consts}
    at_init = lambda c: source.get(c.update) is c.init or (c.init.op is CONSTANT and c.update.params == c.init.params)
    return [c.init.aval == c.value.aval and (c.update is c.value or at_init(c)) for c in loop.carry]


def _whole_xs(loop: Loop) -> dict[int, Node]:
    """Return the ys that are xs unchanged, by number: the array itself, if the loop runs over all of it."""
    source = {x.value: x.source for x in loop.xs}
    found = {j: source[y] for j, y in enumerate(loop.ys, len(loop.carry)) if y in source}
    fits = lambda x: loop.test is None and loop.iterations is not None and same(x.aval.shape[0], loop.iterations)
    return {j: x for j, x in found.items() if fits(x)}


def _live_carries(loop: Loop, used: Container[int], roots: Sequence[Node]) -> list[bool]:
    """Return which carries are live: used as results, or needed for `roots` or for other live carries."""
    read = _dependences([*loop.results, *roots], [c.value for c in loop.carry])
    wanted = _union([read[x] for x in roots]) | _bits([i for i in range(len(loop.carry)) if i in used])
    live = _through_iterations(wanted, [read[c.update] for c in loop.carry])
    return [bool(live >> i & 1) for i in range(len(loop.carry))]


# ---- dependences of results


_Bits = int
"""A set of small numbers, as bits."""


def _dependences(results: Sequence[Node], given: Sequence[Node]) -> dict[Node, _Bits]:
    """Return for each node which of the given nodes it depends on; each result of a loop or a branch by itself."""
    read = {x: 1 << i for i, x in enumerate(given)}
    by_result: dict[Node, list[_Bits]] = {}
    for node in needed(results, read.keys()):
        of_inputs = [read[x] for x in node.inputs]
        if node.op is ITEM and node.inputs[0] in by_result:
            read[node] = by_result[node.inputs[0]][dict(node.params)["index"]]
            continue
        if node.op in (SCAN, COND):
            needs = _inputs_of_results(node)
            by_result[node] = [_union([of_inputs[k] for k in members(mask)]) for mask in needs]
        read[node] = _union(of_inputs)
    return read


def _inputs_of_results(node: Node) -> list[_Bits]:
    """Return for each result of a loop or a branch the inputs that it depends on."""
    if node.op is COND:
        sides = [_parameters_of_results(side) for side in regions_of(node)]
        return [1 | (x | y) << 1 for x, y in zip(*sides, strict=True)]
    loop = loop_of(node)
    n, tested = len(loop.carry), 0
    if loop.test is not None:  # its parameters are those of the body without the xs
        (mask,), carried = _parameters_of_results(loop.test), (1 << n + 1) - 1
        tested = mask & carried | (mask & ~carried) << len(loop.xs)
    of_body = _parameters_of_results(loop.body)
    wanted = [1 << i if i < n else x for i, x in enumerate(of_body)] + [0] * (loop.test is not None)
    needs = [_through_iterations(x | tested, of_body[:n]) for x in wanted]
    carry, index = (1 << n) - 1, 1 << n  # the parameter of the index is no input, and the length is one
    return [1 | (x & carry) << 1 | x & ~(carry | index) for x in needs]


def _parameters_of_results(region: Region) -> list[_Bits]:
    read = _dependences(region.results, region.parameters)
    return [read[y] for y in region.results]


def _through_iterations(wanted: _Bits, updates: Sequence[_Bits]) -> _Bits:
    """Return the transitive closure of a set over iterations; `updates[i]` is what the next carry `i` depends on."""
    while True:
        more = _union([of for i, of in enumerate(updates) if wanted >> i & 1]) | wanted
        if more == wanted:
            return wanted
        wanted = more


def _union(sets: Iterable[_Bits]) -> _Bits:
    return reduce(or_, sets, 0)


def _bits(numbers: Iterable[int]) -> _Bits:
    return _union(1 << i for i in numbers)


# ---- branches


def _lean_branch(node: Node, used: Mapping[int, Node]) -> _Lean:
    pred, *operands = node.inputs
    of_results = zip(*[_parameters_of_results(side) for side in regions_of(node)], strict=True)
    kept = members(_union(x | y for i, (x, y) in enumerate(of_results) if i in used))
    if len(used) == len(node.aval) and len(kept) == len(operands):
        return None
    inputs = (pred, *(operands[i] for i in kept))

    def lean(side: Region) -> Region:
        return Region(side.graph, [side.parameters[i] for i in kept], [side.results[i] for i in used])

    def appended(new: Graph, image: Mapping[Node, Node]) -> Node:
        return new.add(COND, tuple([image[x] for x in inputs]), map_regions(node, lean))

    return inputs, instead_of(appended, node, {x: k for k, x in enumerate(used.values())})
