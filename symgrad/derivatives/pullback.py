"""Differentiation: append cotangent nodes (pullback) or tangent nodes (pushforward) to the graph.

Both return nodes of the graph they were given, made by the same operators, so that a second run gives second
derivatives. The pushforward is the pullback of the pullback (Townsend 2017): the pullback is linear in its seed, so
its own pullback with respect to the seed is the tangent map, and no trace of the seed is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.analysis.ranges import Hazards
from symgrad.analysis.values import number
from symgrad.core.graph import ITEM, Aval, Graph, Node, depends, same_aval
from symgrad.core.provenance import Where
from symgrad.core.region import cut, mark
from symgrad.derivatives.backwards import through_loop
from symgrad.derivatives.bodies import Body, Pull
from symgrad.derivatives.branches import through_branch
from symgrad.derivatives.cotangent import Cotangent, Linearised, Mask, as_mask, is_number, partials_of
from symgrad.derivatives.hooks import flow_through, hook_of, masks_through_rule
from symgrad.derivatives.identities import held_inside, key_of, made_in, order_of, original
from symgrad.derivatives.operands import converted
from symgrad.derivatives.rematerialise import as_checkpoint, barred, computed_again
from symgrad.derivatives.shares import Shares, both
from symgrad.derivatives.tangents import left_to_transpose, transposed
from symgrad.derivatives.totals import terms_of
from symgrad.errors import NotDifferentiableError, SymgradError
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import BARRIER, CHECKPOINT, opened_within, region_of
from symgrad.ops.control import COND, SCAN, TRANSPOSED
from symgrad.ops.custom import CUSTOM
from symgrad.ops.define import Unknown
from symgrad.ops.elementwise import ADD
from symgrad.ops.known import Known, known
from symgrad.ops.marks import ALIAS, STOP

Rule = Callable[..., Any]

CONTROL = frozenset({COND, SCAN, TRANSPOSED})


def pullback(
    graph: Graph,
    outputs: Sequence[Node],
    cotangents: Sequence[Node],
    wrt: Sequence[Node],
    named: bool = False,
    stop: Sequence[Node] = (),
    forward: bool = False,
    hazards: Hazards | None = None,
) -> list[Node | None]:
    """Append the cotangents of `wrt` to `graph`.

    Parameters
    ----------
    outputs, cotangents : list of Node
        Paired; ``cotangents[i]`` has the shape and dtype of ``outputs[i]``.
    wrt : list of Node
        Floating inputs or intermediates, already in `graph`.
    named : bool
        Whether cotangents are called after what they are of: ``d_x``; ``d2_x`` where `wrt` has an x and ``d_x`` is what
        is differentiated; of a cotangent ``d_h`` that is the tangent ``h_dot``.
    stop : list of Node
        Taken as constants.
    forward : bool
        Whether it is half of a pushforward: the functions of hooks must be linear.
    hazards : Hazards, optional
        What is known of the graph already.

    Returns
    -------
    list of Node or None
        Cotangents of `wrt`, same shapes and dtypes; None where no output depends on it.

    Raises
    ------
    NotDifferentiableError
        Naming the NumPy function and the user's line.

    References
    ----------
    Griewank & Walther, *Evaluating Derivatives*, 2nd ed., ch. 3.
    """
    nodes = graph.needed_for(outputs)
    seeds = [Cotangent(Variable(graph, g)) for g in cotangents]
    order, labels = (1 + max(map(order_of, nodes)), set(graph.names.values())) if named else (0, set())
    run = _Pullback(graph, map(key_of, wrt), order, labels, map(key_of, stop), hazards or Hazards(graph), forward)
    with graph.located(graph.provenance):
        found = run.through(nodes, list(zip(outputs, seeds, strict=True)))
        return [found[key].settled().node if (key := key_of(x)) in found else None for x in wrt]


def pushforward(
    graph: Graph,
    outputs: Sequence[Node],
    wrt: Sequence[Node],
    tangents: Sequence[Node],
    hazards: Hazards | None = None,
) -> list[Node | None]:
    """Append the tangents of `outputs` to `graph`, given those of `wrt`; None where an output is independent of it.

    Tangents go along with the values, so that nothing is computed again: checkpoints are opened.
    """
    hazards = hazards or Hazards(graph)
    outputs = opened_within(graph, outputs)
    seeds = [graph.seed(y.aval) for y in outputs]
    reverse = pullback(graph, outputs, seeds, wrt, forward=True, hazards=hazards)
    linear = [(x, t) for x, t in zip(reverse, tangents, strict=True) if x is not None]
    return pullback(graph, [x for x, _ in linear], [t for _, t in linear], seeds, forward=True, hazards=hazards)


class _Pullback:
    """The state of one pullback: cotangents so far, and which nodes matter."""

    def __init__(
        self,
        graph: Graph,
        wanted: Iterable[Any],
        order: int,
        labels: Collection[Any],
        stop: Iterable[Any],
        hazards: Hazards,
        forward: bool = False,
        totals: dict[Node, Node] | None = None,
        body: Body | None = None,
    ) -> None:
        self.graph, self.wanted, self.stop, self.forward = graph, frozenset(wanted), frozenset(stop), forward
        self.order, self.labels = order, labels  # of no order nothing is named; labels are those that were there
        self.hazards, self.totals = hazards, totals or {}
        self.body = body  # of the loop or branch that it goes through
        self.changing = depends(body.nodes, body.carried) if body else set[Node]()  # values that iterations lose
        self.begun: set[Node] = set()  # values to whose totals cotangents have been added
        self.found: dict[Any, Shares] = {}
        self.cotangents: dict[Node, Shares] = {}
        self.parts: dict[Node, dict[int, Shares]] = {}  # of operators with several results
        self.needed: set[Node] = set()

    def through(self, nodes: Sequence[Node], outputs: Iterable[tuple[Node, Cotangent]]) -> dict[Any, Cotangent]:
        """Return the cotangents of `wrt`, by identity, for those of outputs; `nodes` are the ancestors of these."""
        stop = {node for node in nodes if node.op is STOP or key_of(node) in self.stop}
        self.needed = depends(nodes, filter(self.holds_wanted, nodes), stop)
        for y, seed in outputs:
            if y in self.needed:
                self.accumulate(y, seed)
        for node in reversed(nodes):
            if node not in self.needed:
                continue
            self.graph.provenance = Where(node.where.file, node.where.line, original(node))
            g = self.arrived(node)
            if g is None and node not in self.parts:
                continue
            if key_of(node) in self.wanted and g is not None:
                g = g if node.op is BARRIER else Cotangent(g.settled(), g.mask)
                self.find(key_of(node), g)
            if g is not None:
                self.name(g, node)
            if node.op is CHECKPOINT:
                self.through_checkpoint(node)
            elif node.op in CONTROL:
                self.through_control(node)
            elif node not in stop:
                self.propagate_from(node, g)
        return {key: shares.total() for key, shares in self.found.items()}

    def holds_wanted(self, node: Node) -> bool:
        """Whether a node, or a node inside its regions, is one of `wrt`."""
        if type(node.aval) is not Aval and any(key_of(x) in self.wanted for x in made_in(node)):
            if node.op is CHECKPOINT:
                return True
            raise held_inside(node)
        return key_of(node) in self.wanted

    def find(self, key: Any, g: Cotangent) -> None:
        """Add to the cotangent of one of `wrt`, which may be at several places."""
        self.found.setdefault(key, Shares()).add(g)

    def arrived(self, node: Node) -> Cotangent | None:
        """Return the cotangent of a node, replaced by its hook if there is one."""
        if node in self.begun:
            self.accumulate(node, Cotangent(Variable(self.graph, self.totals.pop(node))))
        shares, hook = self.cotangents.pop(node, None), hook_of(node)
        arrived = None if shares is None else shares.total()
        if arrived is None or hook is None:
            return arrived
        g = arrived.settled()
        made = (hook.linear if self.forward else hook)(g)
        return Cotangent(made, flow_through(made, g, arrived.mask, self.forward))

    def name(self, g: Cotangent, node: Node) -> None:
        """Name a cotangent after its primal, where that has a name."""
        if not self.order or g.valid is not None:
            return
        marks = [node]
        while marks[-1].op is ALIAS and marks[-1] not in self.graph.names:  # on an argument
            marks.append(marks[-1].inputs[0])
        node, names = marks[-1], self.graph.names
        name = names.get(node)
        if isinstance(name, tuple) and name[0].startswith("d"):
            if node.where.of is not None:  # else it is a value of the user's as well
                self.graph.label(g.value.node, ("{}_dot", name[1]))
        elif name is not None:
            primal = original(node)
            again = ("d_{}", primal) in self.labels and not self.wanted.isdisjoint(map(key_of, marks))
            pattern = f"d{self.order}_{{}}" if again and self.order > 1 else "d_{}"
            self.graph.label(g.value.node, (pattern, primal))

    def propagate_from(self, node: Node, g: Cotangent | None) -> None:
        """Call `propagate`; an error of a rule names the line of the operator, not that of the call of `grad`."""
        try:
            self.propagate(node, g)
        except SymgradError as error:
            raise type(error)(error.fact, error.instead, node.where) from error.__cause__

    def propagate(self, node: Node, g: Cotangent | None) -> None:
        """Hand the cotangent of a node on to its inputs."""
        if node.op is ITEM and g is not None:
            parts = self.parts.setdefault(node.inputs[0], {})
            parts.setdefault(dict(node.params)["index"], Shares()).add(g)
            return
        if not any(x in self.needed for x in node.inputs):
            return
        if node.op.partials is not None and g is not None:
            pairs = self.through_partials(node, node.op.partials, g)
        elif node.op.vjp is not None:
            pairs = self.through_vjp(node, g)
        else:
            raise NotDifferentiableError(
                f"{node.op.path} has no derivative rule",
                "Give it one: symgrad.operator(function, infer=..., vjp=...).",
                where=node.where,
            )
        for x, gx in pairs if len(set(node.inputs)) == len(node.inputs) else _together(pairs):
            self.accumulate(x, gx)

    # ---- one node

    def through_checkpoint(self, node: Node) -> None:
        """Pull back through a checkpoint, which is rematerialised as a checkpoint, for the next order."""
        graph, region, since = self.graph, region_of(node), mark(self.graph)
        provenance, arrived = graph.provenance, self.parts.pop(node)
        barriers = [barred(graph, x) for x in node.inputs]
        twins = computed_again(graph, region, barriers)
        pairs = zip(barriers, node.inputs, strict=True)
        ends = {y: x for y, x in pairs if x in self.needed and x.aval.differentiable}
        run = _Pullback(graph, [*ends, *self.wanted], self.order, self.labels, self.stop, self.hazards)
        nodes = dict.fromkeys([*barriers, *(twins[x] for x in region.nodes)])
        given = {y: x for y, x in zip(barriers, node.inputs, strict=True) if x in self.totals}
        run.totals = {y: self.totals[x] for y, x in given.items()}
        found = run.through([*nodes], [(twins[region.results[i]], g.total()) for i, g in arrived.items()])
        for y in run.begun:  # the total is in what has been found
            del self.totals[given[y]]
            self.begun.discard(given[y])
        graph.provenance = provenance
        made = cut(graph, [x.node for g in found.values() for x in g if x is not None], since)
        results = iter(as_checkpoint(graph, made))
        for key, g in found.items():
            g = Cotangent(*[x if x is None else next(results) for x in g])  # type: ignore[arg-type]
            if key in ends:
                self.accumulate(ends[key], g)
            else:
                self.find(key, g)

    def through_control(self, node: Node) -> None:
        """Pull back through a branch or a loop, whose body is differentiated as a program of its own."""
        graph, provenance = self.graph, self.graph.provenance

        def back(
            body: Body, outputs: Mapping[Node, Node], wanted: Sequence[Node], totals: dict[Node, Node]
        ) -> dict[Node, Node]:
            self.hazards.enter(node, body.parameters, body.nodes)
            keys = map(key_of, wanted)
            run = _Pullback(graph, keys, self.order, self.labels, self.stop, self.hazards, totals=totals, body=body)
            found = run.through(body.nodes, [(y, Cotangent(Variable(graph, g))) for g, y in outputs.items()])
            graph.provenance = provenance
            return {x: found[key_of(x)].settled().node for x in wanted if key_of(x) in found}

        def forth(body: Body, outputs: Sequence[Node], moving: Mapping[Node, Node]) -> list[Node | None]:
            self.hazards.enter(dict(node.params)["of"], body.parameters, body.nodes)
            return pushforward(graph, outputs, [*moving], [*moving.values()], self.hazards)

        given = {i: g.total().settled().node for i, g in self.parts.pop(node).items()}
        active = [i for i, x in enumerate(node.inputs) if x in self.needed and x.aval.differentiable]
        if node.op is TRANSPOSED:
            found = transposed(graph, node, given, active, forth)
        elif self.forward:
            found = left_to_transpose(graph, node, given, active)
        else:
            running = self.totals | self.cotangents_so_far(node, active)
            places = {x: i for i, x in enumerate(node.inputs) if x in running}
            totals = {i: running[x] for x, i in places.items()}
            changing = [i for i, x in enumerate(node.inputs) if x in self.changing]
            pull = Pull(graph, node, given, active, back, totals, self.body.looped if self.body else {}, changing)
            found = through_branch(pull) if node.op is COND else through_loop(pull)
            for x, i in places.items():
                if i not in totals:
                    self.go_on(x, found.pop(i))
        for i, g in found.items():
            self.accumulate(node.inputs[i], Cotangent(Variable(graph, g)))

    def go_on(self, x: Node, total: Node) -> None:
        """Put a total that a loop or a branch has added to in the place of the one that it was given."""
        if x in self.totals:
            self.totals[x] = total
            self.begun.add(x)
        else:
            del self.cotangents[x]
            self.accumulate(x, Cotangent(Variable(self.graph, total)))

    def cotangents_so_far(self, node: Node, active: Sequence[int]) -> dict[Node, Node]:
        """Return the cotangents that arrays which a loop or a branch in a body reads in part: it adds to these."""
        arrays = {node.inputs[i] for i in active if self.body and node.inputs[i].aval.shape} - self.totals.keys()
        sums = {x: self.cotangents[x].plain() for x in node.inputs if x in arrays and x in self.cotangents}
        found = {x: g.node for x, g in sums.items() if g is not None and same_aval(g.node.aval, x.aval)}
        return {x: g for x, g in found.items() if any(map(_is_written, terms_of(g)))}

    def primal(self, node: Node) -> Variable:
        """The value of a node for a rule."""
        return Variable(self.graph, node)

    def through_partials(self, node: Node, rule: Rule, g: Cotangent) -> Iterator[tuple[Node, Cotangent]]:
        operands = converted(node, self.graph)
        partials = partials_of(node, rule(self.primal(node), *operands))
        given = {y.node: x for x, y in zip(node.inputs, operands, strict=True)}
        if node.op.silent is not None and all(map(self.may_blow, node.inputs)):
            sounds = np.not_equal(self.primal(node), node.op.silent)
            g = Cotangent(g.value, both(g.mask, sounds), both(g.valid, sounds))
        pairs = zip(node.inputs, partials, strict=True)
        wanted = [(x, p) for x, p in pairs if x in self.needed and x.aval.differentiable and p is not None]
        g = self.cleaned(g, [p for _, p in wanted])
        for x, p in wanted:
            if isinstance(p, Unknown):
                raise _unknown(node, p)
            if isinstance(p, Variable) and p.node in given:  # a product converts it again
                p = self.primal(given[p.node])
            yield x, self.times(g, p).of_input(x.aval, node.op)

    def cleaned(self, g: Cotangent, partials: Sequence[Any]) -> Cotangent:
        """The cotangent with zeros where it may hold anything, once rather than in each product with a partial.

        Those with partials that may be infinite are cleaned in any case.
        """
        if g.valid is None:
            return g
        found = [p.node for p in partials if isinstance(p, Variable)]
        again = sum(self.may_blow(p) for p in found)
        return Cotangent(g.settled(), g.mask) if again + 1 < len(partials) else g

    def times(self, g: Cotangent, p: Any) -> Cotangent:
        """g * p, where a partial ``np.where(mask, p, 0)`` narrows the mask instead."""
        if not isinstance(p, Variable):
            value = g.value if p == 1 else -g.value if p == -1 else p * g.value
            return g._replace(value=value)
        masked = as_mask(p)
        if masked is None:
            valid = g.valid if g.valid is g.mask or not self.may_blow(p.node) else g.mask
            return Cotangent(_product(g.value, p), g.mask, valid)
        mask, p = masked
        value = g.value if is_number(p.node, 1) else _product(g.value, p)
        narrowed = both(g.mask, mask)
        return Cotangent(value, narrowed, narrowed if self.may_blow(p.node) else both(g.valid, mask))

    def may_blow(self, node: Node) -> bool:
        """Whether a value may be infinite or NaN though all inputs are finite."""
        return node in self.hazards

    def through_vjp(self, node: Node, g: Cotangent | None) -> Iterator[tuple[Node, Cotangent]]:
        y, value, mask = self.result_and_cotangent(node, g)
        if mask is None and self.leaves_out(node):
            mask = np.full(value.shape, True, like=value)
        rule = Linearised(node, y, [self.primal(x) for x in node.inputs])
        cotangents = rule(value)
        masks: Sequence[Mask] = [None] * len(node.inputs)
        if node.op is CUSTOM:
            masks = masks_through_rule(node, value, mask, cotangents, self.forward)
        elif mask is not None:
            masks = rule.masks(mask, value, cotangents)
            clean = rule.cleaned(mask, masks, cotangents, self.may_blow)
            cotangents = cotangents if clean is rule else clean(value)
        blow_up = self.blow_ups(node) if any([m is not None for m in masks]) else [False] * len(node.inputs)
        for x, gx, m, blows_up in zip(node.inputs, cotangents, masks, blow_up, strict=True):
            if gx is not None and x in self.needed and x.aval.differentiable:
                if isinstance(gx, Unknown):
                    raise _unknown(node, gx)
                own = self.mask_of(gx)
                valid = m if own is None and blows_up else None
                yield x, Cotangent(gx, both(m, own), valid).of_input(x.aval, node.op)

    def leaves_out(self, node: Node) -> bool:
        """Whether numbers are left out on purpose whose derivative may be infinite.

        A slice, or a table that is looked up, does not tell: it would pay for a mask at every iteration.
        """
        if not node.op.selects or not any(x in self.needed and self.may_blow(x) for x in node.inputs):
            return False
        places = node.inputs[1:]
        return not node.op.view or bool(places and all(known(x) >= Known.SIZED for x in places))

    def blow_ups(self, node: Node) -> list[bool]:
        """For each input, whether its cotangent may be infinite or NaN where that of the result is zero."""
        may = [self.may_blow(x) for x in node.inputs]
        if node.op.linear:  # by another input; an assignment multiplies with nothing
            count = 0 if node.op.assigns else sum(may)
            return [count > own for own in may]
        return [bool(node.op.singular) or any(may)] * len(may)

    def mask_of(self, gx: Any) -> Mask:
        """Return the mask of a rule's cotangent ``np.where(mask, g, 0)``, or of a sum of such; None for no mask."""
        masked = as_mask(gx) if isinstance(gx, Variable) else None
        if masked is None and isinstance(gx, Variable) and gx.node.op is ADD:
            a, b = (self.mask_of(Variable(gx.graph, x)) for x in gx.node.inputs)
            return None if a is None or b is None else a | b
        return masked and masked[0]

    def result_and_cotangent(self, node: Node, g: Cotangent | None) -> tuple[Any, Any, Variable | None]:
        if g is not None:
            return self.primal(node), g.settled(), g.mask
        parts = self.parts.pop(node)
        ys = [Variable(self.graph, y) for y in self.graph.items(node)]
        totals = {i: shares.total() for i, shares in parts.items()}
        gs = [totals[i].settled() if i in totals else np.zeros_like(y) for i, y in enumerate(ys)]
        return ys, gs, totals[0].mask if len(ys) == 1 else None

    # ---- what every rule needs

    def accumulate(self, x: Node, g: Cotangent) -> None:
        """Add a use's share to the cotangent of a node, in its dtype."""
        if g.value.dtype != x.aval.dtype:
            g = g._replace(value=g.value.astype(x.aval.dtype))
        self.cotangents.setdefault(x, Shares()).add(g)


def _is_written(g: Node) -> bool:
    """Whether a cotangent has memory of its own, which others can be added to: that of an assignment, or of a loop."""
    return g.op.assigns or (g.op is ITEM and g.inputs[0].op in CONTROL)


def _together(pairs: Iterable[tuple[Node, Cotangent]]) -> list[tuple[Node, Cotangent]]:
    """Add up the cotangents of an operand that is used more than once: ``2 * (g * x)`` for ``x * x``."""
    found: dict[Node, Shares] = {}
    for x, g in pairs:
        found.setdefault(x, Shares()).add(g)
    return [(x, shares.total()) for x, shares in found.items()]


def _unknown(node: Node, by: Unknown) -> NotDifferentiableError:
    return NotDifferentiableError(f"{by.of or node.op.path} has no derivative by {by.argument}", by.instead, node.where)


def _product(g: Variable, p: Variable) -> Variable:
    """Numbers stand first."""
    return p * g if number(p.node) is not None else g * p
