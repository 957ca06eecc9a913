"""Residuals between a loop and its pullback, chosen again once both are simplified.

The pullback chose them before its operations were simplified, and no rule sees both loops. Here an iteration and its
pullback are one graph, which is simplified as a whole, and cut anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from symgrad.analysis.aliases import memory_of
from symgrad.analysis.uses import users_of
from symgrad.control.opened import Opened, Turn, instead_of, items_of, stand_in, turn_in, with_turn
from symgrad.control.places import turns_of
from symgrad.core.graph import Graph, Node, depends, needed
from symgrad.core.region import Region, inlined
from symgrad.core.sizes import same
from symgrad.derivatives.residuals import residuals
from symgrad.frontend.bodies import promoted
from symgrad.frontend.variable import Variable
from symgrad.ops.control import NUMBER, SCAN, own_sizes
from symgrad.ops.control_parts import Given, Loop, loop_of, stack_number
from symgrad.products.pack_operands import COPY
from symgrad.rewrite.engine import Made, copied


def keep_less(graph: Graph, simplified: Callable[[Graph], Graph]) -> Graph:
    """Choose the residuals of loops with their pullbacks again; `simplified` simplifies the joint graph of an
    iteration.
    """
    instead: dict[Node, Made] = {}
    removed: set[Node] = set()
    for pair in _pairs(graph):
        joint = _Joint(pair, simplified)
        instead |= joint.made(items_of(graph.live))
        removed |= set(pair.stacks)
    return copied(graph, instead, [x for x in graph.order if x not in removed]) if instead else graph


class _Pair(NamedTuple):
    """A loop, its pullback, and the ys of the first that only the second reads."""

    there: Loop
    back: Loop
    stacks: Mapping[Node, int]  # by their numbers among the stacks of the loop


def _pairs(graph: Graph) -> list[_Pair]:
    """Return pairs of a loop and its pullback, each loop in one pair at most."""
    loops = {node: loop_of(node) for node in graph.compound if node.op is SCAN}
    if len(loops) < 2:
        return []
    users = users_of(graph.live)
    pairs: list[_Pair] = []
    taken: set[Node] = set()
    for node, back in loops.items():
        kept = {x: stack_number(x) for x in back.slices_of if users[x] == [node] and x not in graph.outputs}
        makers = dict.fromkeys(x.inputs[0] for x, number in kept.items() if number is not None)
        there = next((loops[x] for x in makers if _run_alike(loops[x], back)), None)
        if there is None or back.test is not None or not taken.isdisjoint((node, there.node)):
            continue
        numbers = {x: i for x, i in kept.items() if i is not None and x.inputs[0] is there.node}
        pairs.append(_Pair(there, back, numbers))
        taken |= {node, there.node}
    return pairs


def _run_alike(there: Loop, back: Loop) -> bool:
    """Whether one loop runs over the iterations of the other, from the last to the first."""
    if None not in (there.place_size, back.place_size) and there.place_size != back.place_size:
        return False
    m, n = (loop.turns if loop.turns is not None else turns_of(loop.length) for loop in (there, back))
    return there.reverse != back.reverse and m is not None and n is not None and same(m, n)


class _Joint:
    """An iteration of a loop and its pullback in one graph, with the residuals between them."""

    def __init__(self, pair: _Pair, simplified: Callable[[Graph], Graph]) -> None:
        self.pair, graph = pair, Graph()
        there, back = pair.there, pair.back
        given = _inputs(graph, there, {}, {}, None)
        forth = turn_in(graph, there, given)
        kept = {x: forth.stacked[j] for x, j in pair.stacks.items()}
        slices = kept | dict(zip(there.slices_of, given.slices, strict=True))
        others = dict(zip(there.others, given.others, strict=True))
        given_back = _inputs(graph, back, slices, others, given.place)
        backwards = turn_in(graph, back, given_back)
        own = [x for x, source in zip(given_back.slices, back.slices_of, strict=True) if source not in pair.stacks]
        self.left = [j for j in range(len(forth.stacked)) if j not in pair.stacks.values()]
        parts = [forth.updates, [forth.stacked[j] for j in self.left], [] if forth.test is None else [forth.test]]
        parts += [backwards.updates, backwards.stacked]
        graph.outputs = [y for part in parts for y in part]
        self.graph = simplified(graph)
        results = iter(self.graph.outputs)
        updates, stacked, tests, own_updates, own_stacked = ([next(results) for _ in part] for part in parts)
        self.forth = Turn(updates, stacked, tests[0] if tests else None)
        self.backwards = Turn(own_updates, own_stacked, None)
        image = dict(zip(graph.inputs, self.graph.inputs, strict=True))
        self.given, self.given_back = _moved(given, image), _moved(given_back._replace(slices=own), image)
        self.kept = self.residuals()

    def residuals(self) -> list[Node]:
        """Return the residuals of an iteration."""
        shared = {*self.given.carry, self.given.place, *self.given.slices, *self.given.others}
        apart = [x for x in self.graph.inputs if x not in shared]
        nodes, made = self.graph.live, [*self.backwards.updates, *self.backwards.stacked]
        of_turn = depends(nodes, shared) - depends(nodes, apart)
        primal = [x for x in nodes if x in of_turn]
        own = set(primal)
        read = dict.fromkeys(y for y in made if y in own)
        for node in needed(made, own):
            read |= dict.fromkeys(x for x in node.inputs if x in own)
        lost = self.given.carry
        return residuals([*read], primal, lost, shared - set(lost), own_sizes(primal), self.forth.stacked)

    # ---- the two loops

    def made(self, items: Mapping[Node, Mapping[int, Node]]) -> dict[Node, Made]:
        """Return makers of both loops, and of their results."""
        there, back = self.pair.there, self.pair.back
        n, m = len(there.starts), len(there.body.results)
        loop, places = self.loop_there()
        numbers = {i: i for i in range(n)} | {n + j: n + k for k, j in enumerate(self.left)}
        numbers[m] = len(loop.results)
        results = {x: numbers[i] for i, x in items[there.node].items() if i in numbers}
        backwards = self.loop_back(places)

        def appended(new: Graph, image: Mapping[Node, Node]) -> Node:
            stacks = {x: new.item(image[there.node], i) for x, i in places.items()}
            return backwards.appended(new, {**image, **stacks})

        instead = instead_of(loop.appended, there.node, results)
        return instead | instead_of(appended, back.node, {x: i for i, x in items[back.node].items()})

    def loop_there(self) -> tuple[Opened, dict[Node, int]]:
        """Return the loop with its residuals among the ys, and their numbers."""
        loop, given, turn = self.pair.there, self.given, self.forth
        places = {x: len(turn.updates) + turn.stacked.index(x) for x in self.kept if x in turn.stacked}
        new = [x for x in self.kept if x not in places]
        places |= {x: len(turn.updates) + len(turn.stacked) + k for k, x in enumerate(new)}
        stacked = [*turn.stacked, *(self.in_own_memory(x) for x in new)]
        return with_turn(self.graph, loop, given, turn._replace(stacked=stacked)).without_unread(), places

    def in_own_memory(self, x: Node) -> Node:
        """Return a residual in memory of its own: a copied part saves copying the whole array that iterations write."""
        root = memory_of(x)
        if root is not x and (root in self.given.carry or root.op.assigns):
            return self.graph.add(COPY, (x,), (), x.where)
        with self.graph.located(x.where):
            return promoted(self.graph, x, x.aval._replace(weak=False))

    def loop_back(self, places: Mapping[Node, int]) -> Opened:
        """Return the pullback, with its body in a graph of its own; the residuals are among its xs."""
        back, given, graph = self.pair.back, self.given_back, Graph()
        graph.provenance = back.node.where
        sources = dict(zip(self.given.slices, self.pair.there.slices_of, strict=True))
        reads = dict(zip(self.given.others, self.pair.there.others, strict=True))
        own = [source for source in back.slices_of if source not in self.pair.stacks]
        sources |= dict(zip(given.slices, own, strict=True))
        reads |= dict(zip(given.others, back.others, strict=True))
        slots = {x: stand_in(graph, x.aval._replace(weak=False), x.where) for x in places}
        image = {x: stand_in(graph, x.aval, x.where) for x in (*given.carry, given.place, *sources, *reads)}
        image |= {x: NUMBER(Variable(graph, y)).node if x.aval.weak else y for x, y in slots.items()}
        updates, stacked, _ = self.backwards
        image |= inlined(graph, Region(self.graph, [*image], [*updates, *stacked]), [*image.values()])
        image |= {y: y for y in slots.values()}
        given = _moved(given._replace(slices=[*slots.values(), *sources], others=[*reads]), image)
        turn = Turn([image[y] for y in updates], [image[y] for y in stacked], None)
        place_size = back.place_size or self.pair.there.place_size
        back = back._replace(slices_of=[*slots, *sources.values()], others=[*reads.values()], place_size=place_size)
        return with_turn(graph, back._replace(checkpoint=None), given, turn).without_unread()


def _inputs(
    graph: Graph, loop: Loop, slices: Mapping[Node, Node], others: Mapping[Node, Node], place: Node | None
) -> Given:
    """Return the parameters of a body in a graph that has some of them: shared ones by the arrays outside."""
    new = lambda x: stand_in(graph, x.aval, x.where)
    at = loop.given
    return Given(
        [new(x) for x in at.carry],
        place or new(at.place),
        [slices.get(source) or new(x) for source, x in zip(loop.slices_of, at.slices, strict=True)],
        [others.get(source) or new(x) for source, x in zip(loop.others, at.others, strict=True)],
    )


def _moved(given: Given, image: Mapping[Node, Node]) -> Given:
    """Map parameters to another graph."""
    carry, place, slices, others = given
    return Given([image[x] for x in carry], image[place], [image[x] for x in slices], [image[x] for x in others])
