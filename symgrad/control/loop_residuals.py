"""Residuals between a loop and its pullback, chosen again after both are simplified.

They were first chosen before the pullback was simplified, and no rule sees both loops. This pass joins an iteration and
its pullback in one graph, simplifies that as a whole, and chooses the residuals between its two parts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from symgrad.analysis.aliases import memory_of
from symgrad.analysis.uses import users_of
from symgrad.control.places import iterations_of
from symgrad.control.replacement import instead_of, items_of
from symgrad.core.graph import Graph, Node, depends, needed
from symgrad.core.region import Region, inlined, stand_in
from symgrad.core.sizes import same
from symgrad.derivatives.residuals import residuals
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable
from symgrad.ops.control import NUMBER, SCAN, own_sizes
from symgrad.ops.control_parts import Loop, Read, loop_of, y_number
from symgrad.ops.shape import COPY
from symgrad.rewrite.engine import Made, copied


def with_fewer_residuals(graph: Graph, simplified: Callable[[Graph], Graph]) -> Graph:
    """Choose the residuals of loops again; `simplified` simplifies the joint graph of an iteration and its pullback."""
    instead: dict[Node, Made] = {}
    removed: set[Node] = set()
    for pair in _pairs(graph):
        instead |= _Joint(pair, simplified).made(items_of(graph.live))
        removed |= set(pair.tape)
    return copied(graph, instead, [x for x in graph.order if x not in removed]) if instead else graph


class _Pair(NamedTuple):
    """A loop, its pullback, and the tape between them: the ys that only the pullback reads."""

    nodes: tuple[Node, Node]
    there: Loop
    back: Loop
    tape: Mapping[Node, int]  # y -> its number among the ys of the loop


def _pairs(graph: Graph) -> list[_Pair]:
    """Return pairs of a loop and its pullback, each loop in one pair at most."""
    loops = {node: loop_of(node) for node in graph.compound if node.op is SCAN}
    if len(loops) < 2:
        return []
    users = users_of(graph.live)
    pairs: list[_Pair] = []
    taken: set[Node] = set()
    for node, back in loops.items():
        sources = [x.source for x in back.xs]
        kept = {x: y_number(x) for x in sources if users[x] == [node] and x not in graph.outputs}
        makers = dict.fromkeys(x.inputs[0] for x, number in kept.items() if number is not None)
        maker = next((x for x in makers if _is_reverse_of(loops[x], back)), None)
        if maker is None or back.test is not None or not taken.isdisjoint((node, maker)):
            continue
        tape = {x: i for x, i in kept.items() if i is not None and x.inputs[0] is maker}
        pairs.append(_Pair((maker, node), loops[maker], back, tape))
        taken |= {node, maker}
    return pairs


def _is_reverse_of(there: Loop, back: Loop) -> bool:
    """Whether one loop runs over the iterations of the other in reverse order."""
    if None not in (there.index_size, back.index_size) and there.index_size != back.index_size:
        return False
    sizes = (loop.iterations if loop.iterations is not None else iterations_of(loop.length) for loop in (there, back))
    m, n = sizes
    return there.reverse != back.reverse and m is not None and n is not None and same(m, n)


class _Joint:
    """An iteration of a loop and its pullback in one graph, with the residuals between them."""

    def __init__(self, pair: _Pair, simplified: Callable[[Graph], Graph]) -> None:
        self.pair, graph = pair, Graph()
        there = _in(graph, pair.there, None, {}, {})
        xs, consts = ({x.source: x.value for x in part} for part in (there.xs, there.consts))
        back = _in(graph, pair.back, there.index, {x: there.ys[j] for x, j in pair.tape.items()} | xs, consts)
        back = replace(back, xs=[x for x in back.xs if x.source not in pair.tape])
        self.left = [j for j in range(len(there.ys)) if j not in pair.tape.values()]
        there = replace(there, ys=[there.ys[j] for j in self.left])
        graph.outputs = [*there.ends, *back.ends]
        self.graph = simplified(graph)
        image = dict(zip(graph.inputs, self.graph.inputs, strict=True))
        n, ends = len(there.ends), self.graph.outputs
        self.there, self.back = (x.moved(self.graph, image, y) for x, y in ((there, ends[:n]), (back, ends[n:])))
        self.kept = self.residuals()

    def residuals(self) -> list[Node]:
        """Return the residuals of an iteration."""
        shared = set(self.there.parameters)
        apart = [x for x in self.graph.inputs if x not in shared]
        nodes, made = self.graph.live, self.back.results
        of_loop = depends(nodes, shared) - depends(nodes, apart)
        primal = [x for x in nodes if x in of_loop]
        own = set(primal)
        read = dict.fromkeys(y for y in made if y in own)
        for node in needed(made, own):
            read |= dict.fromkeys(x for x in node.inputs if x in own)
        lost = [c.value for c in self.there.carry]
        return residuals([*read], primal, lost, shared - set(lost), own_sizes(primal), self.there.ys)

    # ---- the two loops

    def made(self, items: Mapping[Node, Mapping[int, Node]]) -> dict[Node, Made]:
        """Return makers of both loops, and of their results."""
        there, back = self.pair.nodes
        n, m = len(self.pair.there.carry), len(self.pair.there.results)
        loop, tape = self.loop_there()
        numbers = {i: i for i in range(n)} | {n + j: n + k for k, j in enumerate(self.left)}
        numbers[m] = len(loop.results)
        results = {x: numbers[i] for i, x in items[there].items() if i in numbers}
        backwards = self.loop_back(tape)

        def recorded(new: Graph, image: Mapping[Node, Node]) -> Node:
            return backwards.record(new, {**image, **{x: new.item(image[there], i) for x, i in tape.items()}})

        instead = instead_of(loop.record, there, results)
        return instead | instead_of(recorded, back, {x: i for i, x in items[back].items()})

    def loop_there(self) -> tuple[Loop, dict[Node, int]]:
        """Return the loop with the residuals among its ys, and the number of each residual among the results."""
        loop = self.there
        new = [x for x in self.kept if x not in loop.ys]
        numbers = {x: len(loop.carry) + [*loop.ys, *new].index(x) for x in self.kept}
        ys = [*loop.ys, *(self.in_own_memory(x) for x in new)]
        return replace(loop, ys=ys).without_unread(), numbers

    def in_own_memory(self, x: Node) -> Node:
        """Return a residual in memory of its own: copying a view saves copying the array that iterations write into."""
        root = memory_of(x)
        if root is not x and (root.op.assigns or any(root is c.value for c in self.there.carry)):
            return self.graph.add(COPY, (x,), (), x.where)
        with self.graph.located(x.where):
            return promoted(self.graph, x, x.aval._replace(weak=False))

    def loop_back(self, tape: Mapping[Node, int]) -> Loop:
        """Return the pullback with the residuals among its xs, its body in a graph of its own."""
        there, back, graph = self.there, self.back, Graph()
        graph.provenance = back.where
        own = [*(c.value for c in back.carry), back.index]
        parts = ((*there.xs, *back.xs), (*there.consts, *back.consts))  # the pullback may read those of the loop
        xs, consts = ({x.value: x.source for x in part} for part in parts)
        slots = {x: stand_in(graph, x.aval._replace(weak=False), x.where) for x in tape}
        image = {x: stand_in(graph, x.aval, x.where) for x in (*own, *xs, *consts)}
        given = image | {x: NUMBER(Variable(graph, y)).node if x.aval.weak else y for x, y in slots.items()}
        found = inlined(graph, Region(self.graph, [*given], back.results), [*given.values()])
        loop = replace(
            back,
            xs=[Read(y, x) for x, y in xs.items()],
            consts=[Read(y, x) for x, y in consts.items()],
            checkpoint=None,
            index_size=back.index_size or there.index_size,
        ).moved(graph, given, [found[y] for y in back.results])
        return replace(loop, xs=[*(Read(x, slot) for x, slot in slots.items()), *loop.xs]).without_unread()


def _in(graph: Graph, loop: Loop, index: Node | None, xs: Mapping[Node, Node], consts: Mapping[Node, Node]) -> Loop:
    """Append the body of a loop to a graph, and return the loop there.

    `index`, and the `xs` and `consts` by their sources, are parameters that the graph has already.
    """
    new = lambda x: stand_in(graph, x.aval, x.where)
    given = [*(new(c.value) for c in loop.carry), index or new(loop.index)]
    for part, known in ((loop.xs, xs), (loop.consts, consts)):
        given += [known.get(x.source) or new(x.value) for x in part]
    return loop.on(graph, given)
