"""Batching of operators with regions: checkpoints, branches and loops of batched regions.

A branch whose predicate depends on the input becomes both sides and a choice. A loop whose number of iterations depends
on the input goes on until all inputs are done; those that are done keep their carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import ITEM, TOKEN, Aval, Graph, Node, Op, freeze, is_token, needed
from symgrad.core.region import Region, closed, cut, inline, mark, regions_of
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import symbols_of
from symgrad.derivatives.images import Image, chosen
from symgrad.derivatives.rematerialise import as_checkpoint
from symgrad.errors import UnsupportedError
from symgrad.frontend.bodies import body_of, branch, repeat
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import CHECKPOINT, region_of
from symgrad.ops.checks import CHECK, Action, Print
from symgrad.ops.control import COND, SCAN, within
from symgrad.ops.control_parts import branch_of, loop_of
from symgrad.ops.custom import CUSTOM

if TYPE_CHECKING:
    from symgrad.derivatives.batch import Batching, Call


# ---- what depends on which of many inputs it is


def differing(region: Region, given: Sequence[bool]) -> list[bool]:
    """Return which results of a region are batched where these parameters are."""
    found: dict[Node, Any] = dict(zip(region.parameters, given, strict=True))
    for node in region.nodes:
        inputs = [found[x] for x in node.inputs]
        found[node] = inputs[0][dict(node.params)["index"]] if node.op is ITEM else _results_differ(node, inputs)
    return [found[y] for y in region.results]


def _results_differ(node: Node, given: Sequence[bool]) -> Any:
    """Whether the result of a node is batched; a list where there are several."""
    if type(node.aval) is Aval:
        return any(given)
    if not any(given) or node.op is CHECK:
        return [False] * len(node.aval)
    if node.op is CHECKPOINT:
        return differing(region_of(node), given)
    if node.op is COND:
        return _branches_differ(node, given)
    if node.op is SCAN:
        ends = _ends_of(node, given)
        return [*ends.carry, *ends.ys, *[ends.going] * (loop_of(node).test is not None)]
    return [True] * len(node.aval)


def _branches_differ(node: Node, given: Sequence[bool]) -> list[bool]:
    if given[0]:
        return [aval != TOKEN for aval in node.aval]
    sides = [differing(side, given[1:]) for side in regions_of(node)]
    return [a or b for a, b in zip(*sides, strict=True)]


class _Ends(NamedTuple):
    """Batched parts of a loop: its carry, its ys, and whether its number of iterations differs."""

    carry: list[bool]
    ys: list[bool]
    going: bool


def _ends_of(node: Node, given: Sequence[bool]) -> _Ends:
    """Return the batched parts of a loop: the least fixed point over its iterations."""
    loop = loop_of(node)
    carry, xs, consts = map(list, loop.split(given[1:]))
    while True:
        going = given[0] or (loop.test is not None and differing(loop.test, [*carry, False, *consts])[0])
        results = differing(loop.body, [*carry, False, *xs, *consts])
        more = [(a or b or going) and c.init.aval != TOKEN for a, b, c in zip(carry, results, loop.carry, strict=False)]
        if more == carry:
            return _Ends(carry, results[len(carry) :], going)
        carry = more


# ---- checkpoints and branches


def checkpointed(call: Call) -> list[Image]:
    """Batch a checkpoint: a checkpoint of the batched region."""
    graph, region = call.batching.graph, region_of(call.node)
    since = mark(graph)
    images = call.batching.region(region, call.inputs)
    results = as_checkpoint(graph, cut(graph, [y.at(0).node for y in images], since))
    return _images(results, [y.axis is not None for y in images])


def ruled(call: Call) -> list[Image]:
    """Batch a function with a rule of its own: the region is batched, and the rule is applied over rows."""
    graph, params, size = call.batching.graph, dict(call.node.params), call.batching.size
    whole = [x.at(0).node for x in call.inputs]
    own = [graph.seed(x.aval) for x in whole]
    images = _images([Variable(graph, x) for x in own], call.batched)
    made = [y.spread_to(0, size).node for y in call.batching.region(params["region"], images)]
    region = closed(graph, own, made, within(graph, made, own).__contains__)
    inputs = (*whole, *region.parameters[len(own) :])
    rule = params["rule"].over_rows(call.batched[: params["rule"].count])
    node = graph.add(CUSTOM, inputs, (("region", region), ("rule", rule)))
    items = graph.items(node)
    return _images([Variable(graph, x) for x in items], [True] * len(items))


def branched(call: Call) -> list[Image]:
    """Batch a branch: one side where all inputs take the same, else both sides and a choice for each input."""
    batching, (pred, *operands), (_, _, other, then) = call.batching, call.inputs, branch_of(call.node)
    if pred.axis is not None:
        taken = pred.at(0)
        first = batching.under(taken)._replace(in_branch=True).region(then, operands)
        done = [
            x for x, y in zip(first, then.results, strict=True) if is_token(y)
        ]  # checks of one side, then the other
        operands = [done[0] if is_token(x) and done else y for x, y in zip(other.parameters, operands, strict=True)]
        second = batching.under(~taken)._replace(in_branch=True).region(other, operands)
        triples = zip(first, second, then.results, strict=True)
        return [y if is_token(r) else Image(chosen(taken, x.at(0), y.at(0), r.aval.ndim), 0) for x, y, r in triples]
    differ = _branches_differ(call.node, call.batched)
    tokens = {batching.graph.seed(TOKEN): x.value.node for x in operands if is_token(x.value.node)}
    own = iter(tokens)
    operands = [Image(Variable(batching.graph, next(own)), None) if is_token(x.value.node) else x for x in operands]

    def side(region: Region) -> list[Variable]:
        return _placed(batching, batching.region(region, operands), differ)

    results = branch(batching.graph, pred.value, lambda: side(then), lambda: side(other), tokens)
    return _images(results, differ)


def checked(call: Call) -> list[Image]:
    """Batch a check: one check for all inputs, which reports the first that fails.

    What is printed is so for each.
    """
    batching, (token, pred, *operands) = call.batching, call.inputs
    graph, active, params = batching.graph, batching.active, dict(call.node.params)
    body, action = params["body"], params["action"]
    if active is not None:
        pred = Image(active if number(pred.value.node) is True else active & pred.at(0), 0)
    differ = [x.axis is not None for x in operands]
    values = [x.at(0) for x in operands]
    if pred.axis is None and not any(differ):
        return _recorded(graph, [token.value, pred.value, *values], body, action)
    if isinstance(action, Print):
        return _printed(call, pred, operands)
    mask = pred.spread_to(0, batching.size)
    if any(differ):
        values, body = [mask, *values], _of_first(graph, [mask, *values], differ, body)
    return _recorded(graph, [token.value, np.any(mask), *values], body, action)


def _recorded(graph: Graph, inputs: Sequence[Variable], body: Region, action: Action) -> list[Image]:
    """The result of a check."""
    nodes = tuple([x.node for x in inputs])
    node = graph.add(CHECK, nodes, freeze(CHECK, {"action": action, "body": body}))
    return [Image(Variable(graph, graph.item(node, 0)), None)]


def _of_first(graph: Graph, values: Sequence[Variable], differ: Sequence[bool], body: Region) -> Region:
    """Return a region for the first of many inputs for which a mask, the first value, holds."""
    with body_of(graph):
        own = [Variable(graph, graph.seed(x.aval)) for x in values]
        i = np.argmax(own[0])
        given = [x[i].node if d else x.node for x, d in zip(own[1:], differ, strict=True)]
        image = inline(graph, body, given)
    return Region(graph, [x.node for x in own], [image[y] for y in body.results])


def _printed(call: Call, pred: Image, operands: Sequence[Image]) -> list[Image]:
    """A loop that prints for each input."""
    graph, given = call.batching.graph, [pred, *operands]
    params = dict(call.node.params)

    def iteration(carry: Any, index: Variable, xs: Any) -> tuple[list[Variable], list[Variable]]:
        rows = iter(xs)
        own = [x.value if x.axis is None else next(rows) for x in given]
        return [_recorded(graph, [carry[0], *own], params["body"], params["action"])[0].value], []

    rows = [x.at(0) for x in given if x.axis is not None]
    (last,), _, _ = repeat(graph, iteration, [call.inputs[0].value], call.batching.size, rows)
    return [Image(last, None)]


def _placed(batching: Batching, images: Sequence[Image], differ: Sequence[bool]) -> list[Variable]:
    """Return values with a leading batch axis where they are batched."""
    return [x.spread_to(0, batching.size) if d else x.at(0) for x, d in zip(images, differ, strict=True)]


def _images(values: Sequence[Variable], differ: Sequence[bool], axis: int = 0) -> list[Image]:
    return [Image(x, axis if d else None) for x, d in zip(values, differ, strict=True)]


# ---- loops


def looped(call: Call) -> list[Image]:
    """Batch a loop."""
    loop = _Batched(call)
    return loop.until_all_are_done() if loop.ends.going else loop.for_all_alike()


class _Batched:
    """A loop to batch: ``[consts, carry, xs] -> [carry, ys]``, of which any may have a batch axis."""

    def __init__(self, call: Call) -> None:
        self.batching, self.loop, self.graph = call.batching, loop_of(call.node), call.batching.graph
        self.length, *inputs = call.inputs
        self.test: Any = self.loop.test
        self.how = (self.loop.reverse, self.loop.checkpoint, self.loop.iterations, self.loop.index_size)
        self.carry, self.xs, self.consts = self.loop.split([self.entering(x) for x in inputs])
        self.ends = _ends_of(call.node, call.batched)
        self.init = _placed(self.batching, self.carry, self.ends.carry)
        self.whole_xs = [self.sliced(x) for x in self.xs]

    def entering(self, x: Image) -> Image:
        """Return one of the consts, zero where no result is wanted.

        A derivative that comes back out of the loop has lost where anything flows; this says it again.
        """
        active = self.batching.active
        if active is None or x.axis is None or x.ragged or not x.value.aval.differentiable:
            return x
        return Image(chosen(active, x.at(0), 0, x.value.ndim - 1), 0)

    def sliced(self, x: Image) -> Variable:
        """Return one of the xs; a ragged one fits a loop with the same symbolic number of iterations for each input."""
        size = self.loop.iterations
        if not (self.ends.going and size is not None and same_shape(x.value.shape[:1], (size,))):
            x.check_whole()
        return x._replace(ragged=False).at(1)

    def iteration(self, batching: Batching, carry: Sequence[Variable], index: Variable, xs: Sequence[Variable]) -> Any:
        """Return the next carry, with a leading batch axis where it is batched, and the images of the ys."""
        images = [Image(x, None if of.axis is None else 0) for x, of in zip(xs, self.xs, strict=True)]
        state = _images(carry, self.ends.carry)
        results = batching.region(self.loop.body, [*state, Image(index, None), *images, *self.consts])
        n = len(state)
        return _placed(batching, results[:n], self.ends.carry), results[n:]

    def kept(self, going: Variable | None, new: Sequence[Variable], old: Sequence[Variable]) -> list[Variable]:
        """Return the new carry for the inputs of a mask, and the old one for the others."""
        if going is None:
            return list(new)
        same = [x.node is y.node or not differs for x, y, differs in zip(new, old, self.ends.carry, strict=True)]
        triples = zip(same, new, old, strict=True)
        return [x if fixed else chosen(going, x, y, y.ndim - 1) for fixed, x, y in triples]

    def goes_on(self, carry: Sequence[Variable], index: Variable | None = None) -> Image:
        """Return the condition; without the index, which it must not read."""
        at = self.test.parameters[len(carry)]
        if index is None and at in needed(self.test.results, ()):
            raise UnsupportedError(
                "vmap: the number of iterations of a loop depends on the input, and its condition reads the index",
                "Count the iterations in the carry: (i + 1, ...).",
                self.loop.where,
            )
        index = Variable(self.graph, self.graph.constant(0)) if index is None else index
        state = _images(carry, self.ends.carry)
        return self.batching.region(self.test, [*state, Image(index, None), *self.consts])[0]

    def for_all_alike(self) -> list[Image]:
        """Return the loop where all inputs have the same number of iterations."""
        batching, stacked = self.batching, self.ends.ys
        asked = None if batching.active is None or batching.is_any else np.any(batching.active)

        def body(carry: Any, index: Variable, xs: Any) -> tuple[list[Variable], list[Variable]]:
            new, ys = self.iteration(batching, carry, index, xs)
            return self.kept(batching.active, new, carry), _placed(batching, ys, stacked)

        def test(carry: Any, index: Variable) -> Variable:
            going = self.goes_on(carry, index).value
            return going if asked is None else going & asked  # it may not end for what nobody asks for

        final, ys, count = repeat(
            self.graph,
            body,
            self.init,
            self.length.value,
            self.whole_xs,
            None if self.test is None else test,
            *self.how,
        )
        counted = [] if count is None else [Image(count, None)]
        return [*_images(final, self.ends.carry), *_images(ys, stacked, 1), *counted]

    def until_all_are_done(self) -> list[Image]:
        """Return the loop where inputs end at different iterations; those that are done keep their carry.

        With a test it carries which are not done, and how many iterations each took.
        """
        n, length, batching = len(self.init), self.bound(), self.batching
        tested = [] if self.test is None else self.beginning()

        def body(carry: Any, index: Variable, xs: Any) -> tuple[list[Variable], list[Variable]]:
            state, tested = carry[:n], carry[n:]
            going = reduce(and_, [*tested[:1], *([] if length is None else [index < length])])
            some = not tested or length is None  # else the last iteration may find none
            new, ys = self.iteration(batching._replace(active=going, is_any=some), state, index, xs)
            new = self.kept(going, new, state)
            more = [going & self.goes_on(new).spread_to(0, batching.size), tested[1] + going] if tested else []
            return [*new, *more], _placed(batching, ys, self.ends.ys)

        final, ys, _ = repeat(
            self.graph,
            body,
            [*self.init, *tested],
            self.length.value if length is None else np.max(length, initial=0),
            self.whole_xs,
            (lambda carry, index: np.any(carry[n])) if tested else None,
            *self.how,
        )
        stacked = [x._replace(ragged=True) for x in _images(ys, self.ends.ys, 1)]
        if stacked:
            assert self.loop.iterations is not None
            batching.ragged.update(symbols_of(self.loop.iterations))
        return [*_images(final[:n], self.ends.carry), *stacked, *_images(final[n + 1 :], [True] * len(final[n + 1 :]))]

    def bound(self) -> Variable | None:
        """Return the largest number of iterations of each input; None where it does not differ."""
        if self.length.axis is None:
            return None
        active, length = self.batching.active, self.length.at(0)
        return length if active is None else np.where(active, length, 0)

    def beginning(self) -> list[Variable]:
        """Return the state before the first iteration: the mask of inputs that are not done, and their counts of
        iterations.
        """
        going, active = self.goes_on(self.init).spread_to(0, self.batching.size), self.batching.active
        going = going if active is None else going & active
        self.graph.label(going.node, "going")
        return [going, np.zeros_like(going, int)]


REGIONS: dict[Op, Callable[[Call], list[Image]]] = {
    CHECK: checked,
    CHECKPOINT: checkpointed,
    COND: branched,
    CUSTOM: ruled,
    SCAN: looped,
}
"""Batching rules of operators with regions."""
