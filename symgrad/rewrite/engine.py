"""The rewriting engine: it rebuilds a graph once and applies rules to each node as it is added.

The new graph simplifies a node at the moment it is added. Inputs come before their users, so what a rule meets is
simplified already, and what a rule builds is simplified as it builds it: nothing is visited twice, no fixpoint is run,
and the depth of the recursion is the length of a chain of rules, never that of the graph.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from symgrad.analysis.uses import shared_values
from symgrad.analysis.values import raises_at_zero
from symgrad.core.graph import CONSTANT, Aval, Graph, Node, Op, Params, Part
from symgrad.core.provenance import Where
from symgrad.core.recording import note_rewrites
from symgrad.core.region import Region, map_regions, parameters_like
from symgrad.core.shapes import same_shape
from symgrad.errors import DTypeError, ShapeError, SymbolicSizeError, UnsupportedError
from symgrad.frontend.variable import Variable
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.marks import ALIAS
from symgrad.rewrite.pattern import identical
from symgrad.rewrite.rules import Procedure, Rule, Rules, is_complex

DEEPEST = 12
"""Longest chain of rewrites of one node; a longer one would be two rules that undo each other."""

UNDEFINED = (ShapeError, DTypeError, UnsupportedError, SymbolicSizeError)
"""Errors by which the right side of a rule does not exist for some values; any other error is a fault of the rule."""


class _NotThisRule(BaseException):
    """The left side, built again from a match, is not what was matched. No error, which NumPy's door would explain."""


class Rewriting(Graph):
    """A graph that simplifies a node as it is added."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules
        self.shared: set[Node] = set()  # what several nodes use, or what is wanted
        self.place: int | None = None  # of a region what tells its barriers from others
        self._met = bytearray()  # by its id, whether a node has been simplified, or is being simplified
        self._result: dict[Node, Node] = {}  # what came of it, where that is another node
        self._depth = 0
        self._replay: list[tuple[Node, Node | None]] = []
        self._built: list[Node] | None = None  # what the right side of a rule has computed so far
        self._added: tuple[Node, Node] | None = None  # what was added last, and what it became

    @property
    def applied(self) -> Counter[str]:
        """Return how often each rule with two sides was applied."""
        return Counter(r.name for r, _, _ in self.rewrites if isinstance(r, Rule))

    def add(self, op: Op, inputs: tuple[Node, ...] = (), params: Params = (), where: Where | None = None) -> Node:
        if self._replay:
            p, node = self._replay.pop()
            if p.op is not op or (op is not CONSTANT and node is not None and not identical(params, node.params)):
                raise _NotThisRule("the left side differs")
            if node is not None:
                return node
        node = super().add(op, inputs, params, where)
        if self._built is not None:
            self._built.append(node)
        result = self.simplified(node)
        self._added = node, result
        return result

    def rebuild(self, node: Node, inputs: tuple[Node, ...], where: Where) -> Node:
        self.provenance = where
        return self.simplified(Graph.rebuild(self, node, inputs, where))

    def share(self, node: Node) -> None:
        """Several nodes use a value, and so what it is a view of: rules take it from behind views."""
        self.shared.add(node)
        while node.op.view:
            node = node.inputs[0]
            self.shared.add(node)

    def simplified(self, node: Node) -> Node:
        """Return the simplified node, or the node itself while it is being simplified."""
        met, i = self._met, node.id
        if i >= len(met):
            met.extend(bytes(i + 1))
        elif met[i]:
            return self._result.get(node, node)
        met[i] = True
        if not node.inputs or self._depth >= DEEPEST or type(node.aval) is not Aval:
            return node
        self._depth += 1
        result = self._rewritten(node)
        self._depth -= 1
        if result is None:
            return node
        self._result[node] = result
        return result

    def _rewritten(self, node: Node) -> Node | None:
        entry = self.rules.of(node.op)
        if entry is None:
            return None
        procedures, rules = entry.meets(node)
        if procedures and _meets_complex(node):
            procedures = [p for p in procedures if getattr(p, "plane", None) in self.rules.planes]
        for procedure in procedures:
            self._added = None
            result = procedure(self, node)
            if result is not None:
                result = self.fitted(result, node.aval)
            if result is not None and result is not node:
                self._note(procedure, node, result)
                return result
        for r in entry.candidates(node, rules):
            self._added = None
            result = self.apply(r, node)
            if result is not None and result is not node:
                self._note(r, node, result)
                return result
        return None

    def _note(self, rule: Rule | Procedure, node: Node, result: Node) -> None:
        """Note what a rule itself put in the place of a node, which may have been rewritten in turn."""
        added = self._added
        self.rewrites.append((rule, node, added[0] if added is not None and added[1] is result else result))

    def apply(self, r: Rule, node: Node) -> Node | None:
        """Return the right side of a rule if its left side matches `node`, else None."""
        bound = r.pattern.match(node)
        if bound is None or (
            r.alone and any(n in self.shared and p.inputs and n is not node for p, n in bound.items())
        ):
            return None
        if r.plane not in self.rules.planes and any(map(is_complex, bound.values())):
            return None
        arguments = r.pattern.arguments(self, bound)
        if arguments is None or not r.admits(arguments):
            return None
        after = self._right_side(r, bound, arguments, node.aval)
        return None if after is NotImplemented else self.fitted(after, node.aval)

    def _right_side(self, r: Rule, bound: dict[Node, Node], arguments: dict[str, Any], aval: Aval) -> Any:
        """NotImplemented where it does not exist, or would compute in another dtype than the left side."""
        outer, built = self._built, list[Node]()
        self._built = built
        self._replay = [(p, bound.get(p)) for p in reversed(r.pattern.made)]
        try:
            _, after = r(**arguments)
            return after if all(_holds(x, aval) for x in built) else NotImplemented
        except UNDEFINED as error:
            error.forget()
            return NotImplemented
        except (ArithmeticError, _NotThisRule):
            return NotImplemented
        finally:
            self._replay, self._built = [], outer

    def fitted(self, value: Any, aval: Aval) -> Node | None:
        """A replacement as exactly what it replaces: cast and broadcast if need be; None where that cannot be."""
        node = value if isinstance(value, Node) else value.node if isinstance(value, Variable) else self.constant(value)
        if aval.weak and not node.aval.weak:
            return None
        if node.aval.dtype != aval.dtype or node.aval.weak != aval.weak:
            node = Variable(self, node).astype(aval.dtype).node
        if not same_shape(node.aval.shape, aval.shape):
            if len(node.aval.shape) > len(aval.shape):
                return None
            node = np.broadcast_to(Variable(self, node), aval.shape).node
        return node if node.aval.weak == aval.weak else None


def _meets_complex(node: Node) -> bool:
    """Whether a node takes or gives complex numbers."""
    return is_complex(node) or any(map(is_complex, node.inputs))


def _holds(part: Node, result: Aval) -> bool:
    """Whether a part of a result may be such a value: a mask, or a number of no fewer digits, nor of a smaller range.

    The logarithm of an int8 is a float16, which is too little for a part of a float64; 1 / 0.0 is infinite in NumPy and
    raises in Python.
    """
    aval = part.aval
    if type(aval) is not Aval or aval.dtype.kind == "b":
        return True
    return (result.weak or not raises_at_zero(part)) if aval.weak else np.can_cast(result.dtype, aval.dtype)


def rewrite(graph: Graph, rules: Rules) -> Graph:
    """A graph that computes the same outputs, rewritten by `rules`; replaced nodes are still in it, unused.

    It is the same graph if no rule is met with any of its operators.
    """
    if isinstance(graph, Part):
        return graph.moved(_rewritten_part(graph, rules))
    nodes = graph.order
    if not any(map(rules.of, {node.op for node in nodes})):
        return graph
    new = Rewriting(rules)
    image: dict[Node, Node] = {}
    _walk(new, nodes, graph.outputs, image)
    _finished(new, graph, image)
    note_rewrites(iter(new.rewrites), new, {})
    return new


def _walk(new: Rewriting, nodes: Sequence[Node], outputs: Iterable[Node], image: MutableMapping[Node, Node]) -> None:
    """Put the images of nodes into a graph that simplifies them."""
    shared = shared_values(nodes, outputs)
    for node in nodes:
        image[node] = _rebuilt(new, node, image)
        if node in shared:
            new.share(image[node])


def _rebuilt(new: Rewriting, node: Node, image: MutableMapping[Node, Node]) -> Node:
    """The image of a node; in its regions everything is rewritten, too."""
    inputs = tuple(map(image.__getitem__, node.inputs))
    if type(node.aval) is not Aval:
        rewritten = lambda region: _rewritten(region, new, image, inputs == node.inputs)
        node = replace(node, params=map_regions(node, rewritten))
    elif node.op is BARRIER and new.place is not None:
        node = replace(node, params=(*node.params[:-1], ("own", (new.place, node.params[-1][1]))))
    where = node.where
    return new.rebuild(node, inputs, where if where.of is None else where.moved(image))


def _rewritten(region: Region, outer: Rewriting, image: MutableMapping[Node, Node], there: bool) -> Region:
    """A region that computes the same, itself if no rule applies; no rule sees through its parameters.

    What is computed again elsewhere than before (unless `there`) stands on barriers of its own: otherwise it would be
    taken for what had been computed there, far ahead of where it is needed.
    """
    if type(region) is not Region:  # the body of a loop over blocks, which is planned already
        return region
    new, own = Rewriting(outer.rules), ChainMap[Node, Node]({}, image)
    own.update(zip(region.parameters, parameters_like(new, region.parameters), strict=True))
    new.place = len(outer.nodes)
    _walk(new, region.nodes, region.results, own)
    moves = not there and any(x.op is BARRIER for x in region.nodes)
    inner = all(own[x].params == x.params for x in region.nodes if type(x.aval) is not Aval)
    kept = inner and not moves and not new.rewrites
    for node in region.nodes:
        image.setdefault(node, node if kept else own[node])
    for node in (*region.parameters, *region.nodes):
        _name_again(region.graph, node, own, new)
    return region if kept else Region(new, [own[x] for x in region.parameters], [own[y] for y in region.results])


def _rewritten_part(part: Part, rules: Rules) -> dict[Node, Node]:
    """Append the rewritten form of a part to its graph; return the image of each node."""
    graph, new = part.whole, Rewriting(rules)
    new.nodes, new.inputs, new.names, new._interned = graph.nodes, graph.inputs, graph.names, graph._interned
    new.rewrites, new.found = graph.rewrites, graph.found
    already = len(graph.rewrites)
    image: dict[Node, Node] = {}
    new.shared = shared_values(part.live, part.wanted)
    opaque = {node for node in part.kept if node.inputs and node.op is not ALIAS}
    for node in part.live:
        if node.id < part.since:
            image[node] = node
            continue
        image[node] = _rebuilt(new, node, image)
        if node in opaque:
            image[node] = new.add(ALIAS, (image[node],), (("tag", node.id),))
        _name_again(graph, node, image, graph)
    note_rewrites(iter(graph.rewrites[already:]), graph, {})
    return image


def _name_again(graph: Graph, node: Node, image: Mapping[Node, Node], new: Graph) -> None:
    """Give the image of a node its name; what is named after a node without an image stays so."""
    name = graph.names.get(node)
    if name is not None and image[node].op is not CONSTANT:
        new.label(image[node], name if isinstance(name, str) else (name[0], image.get(name[1], name[1])))


Made = Callable[[Graph, Mapping[Node, Node]], Variable]
"""A function that makes a value in another graph from the images of earlier nodes."""


def copied(graph: Graph, instead: Mapping[Node, Made] | None = None, nodes: Sequence[Node] | None = None) -> Graph:
    """Return a new graph of the live nodes and the inputs; `made` replaces some nodes.

    `nodes` are those to be made, in another order than that of their creation.
    """
    if isinstance(graph, Part):
        return graph.moved(_replaced_in_part(graph, instead or {}))
    new = Graph()
    image: dict[Node, Node] = {}
    instead = instead or {}
    for node in graph.order if nodes is None else nodes:
        where = node.where
        if where.of is not None:
            where = where.moved(image)
        if node in instead:
            new.provenance = where
            image[node] = instead[node](new, image).node
            continue
        image[node] = new.rebuild(node, tuple(map(image.__getitem__, node.inputs)), where)
    _finished(new, graph, image)
    note_rewrites(((None, node, image[node]) for node in instead if node in image), new, image)
    return new


def in_bodies(step: Callable[[Graph, str], Graph], inner_first: bool = False) -> Callable[[Graph, str], Graph]:
    """Apply a pass to the bodies of loops and branches as well, however deep.

    Bodies come behind what they are in, unless what is done moves outwards.
    """

    @wraps(step)
    def everywhere(graph: Graph, numerics: str = "stable") -> Graph:
        if not graph.compound:
            return step(graph, numerics)
        inside = lambda body: everywhere(body, numerics)
        if inner_first:
            return step(_with_bodies(graph, inside), numerics)
        return _with_bodies(step(graph, numerics), inside)

    return everywhere


def _with_bodies(graph: Graph, step: Callable[[Graph], Graph]) -> Graph:
    """The graph with other bodies; itself where they stay as they are."""

    def taken(region: Region) -> Region:
        if type(region) is not Region:
            return region
        after = step(region.body)
        return region if after is region.body else Region(after, after.inputs, after.outputs)

    held = {node: map_regions(node, taken) for node in graph.compound}
    instead = {node: _with_params(node, params) for node, params in held.items() if params != node.params}
    return copied(graph, instead) if instead else graph


def _with_params(node: Node, params: Params) -> Made:
    return lambda new, image: Variable(new, new.add(node.op, tuple([image[x] for x in node.inputs]), params))


def _replaced_in_part(part: Part, instead: Mapping[Node, Made]) -> dict[Node, Node]:
    """Append replacements of some nodes, and the nodes that depend on these; return the image of each node."""
    graph, image = part.whole, dict[Node, Node]()
    before = graph.provenance
    for node in part.live:
        where = node.where.moved(image)
        if node in instead:
            graph.provenance = where
            image[node] = instead[node](graph, image).node
        else:
            image[node] = graph.rebuild(node, tuple([image[x] for x in node.inputs]), where)
        if image[node] is not node:
            _name_again(graph, node, image, graph)
    graph.provenance = before
    note_rewrites(((None, x, image[x]) for x in instead), graph, {})
    return image


class _Everything:
    """The values that several nodes may use, of a graph of which it is not known."""

    def __contains__(self, node: object) -> bool:
        return True


_EVERYTHING = _Everything()


def shared_in(graph: Graph) -> Container[Node]:
    """Return the values that several nodes use, or may use: it is known while a graph is rewritten."""
    return graph.shared if isinstance(graph, Rewriting) else _EVERYTHING


def alone(graph: Graph, node: Node) -> bool:
    """Whether nothing else needs the value: known while a graph is rewritten."""
    return isinstance(graph, Rewriting) and node not in graph.shared


def as_it_was(graph: Graph, node: Node, inputs: tuple[Node, ...]) -> Node:
    """A node on other inputs, which no rule could tell from its own: all rules have met it."""
    return Graph.rebuild(graph, node, inputs, graph.provenance or node.where)


def known(graph: Graph, op: Op, inputs: tuple[Node, ...]) -> Node | None:
    """The value of an operation that several others need, if it has been met."""
    found = (graph.known(op, xs) for xs in (inputs, inputs[::-1])[: 1 + op.commutes])
    return next((node for node in found if node is not None and not alone(graph, node)), None)


def _finished(new: Graph, old: Graph, image: Mapping[Node, Node]) -> None:
    """Carry over what is not a node."""
    new.provenance = None
    new.inputs = [image[x] for x in old.inputs]
    new.outputs = [image[y] for y in old.outputs]
    new.take_names(old.names, image)
