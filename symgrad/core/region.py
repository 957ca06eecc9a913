"""Regions: parts of a program as units, held in the parameters of a node and compared by what they compute."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

from symgrad.core.graph import (
    CONSTANT,
    INPUT,
    ITEM,
    SEED,
    SIZE,
    Aval,
    Graph,
    Node,
    Params,
    depends,
    frontier,
    needed,
)
from symgrad.core.provenance import Where
from symgrad.errors import GraphError

_T = TypeVar("_T")


class Region:
    """A part of a program as a function of its `parameters` that gives its `results` and reads nothing else.

    Two regions are equal if they compute the same by the same operations; names, places in the user's program and the
    order in which nodes were made do not count. Its graph is that of the nodes, and has their names.
    """

    def __init__(self, graph: Graph, parameters: Sequence[Node], results: Sequence[Node]) -> None:
        self.graph, self.parameters, self.results = graph, tuple(parameters), tuple(results)
        self.found: dict[Callable[[Region], Any], Any] = {}  # what functions have found out, see `per_region`

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.nodes)} nodes>"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Region) or hash(self) != hash(other):
            return False
        return hash(self.key) == hash(other.key) and self.key == other.key  # unequal symbols must not be compared

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def nodes(self) -> list[Node]:
        """Return the nodes between parameters and results, in order of creation."""
        return needed(self.results, frozenset(self.parameters))

    @cached_property
    def body(self) -> Graph:
        """Return the region as a graph of its own, whose inputs are the parameters, to be shown or written down."""
        body = Graph()
        body.inputs = parameters_like(body, self.parameters)
        image = dict(zip(self.parameters, body.inputs, strict=True))
        for node in with_late_assignments(self.nodes):
            image[node] = body.rebuild(node, tuple([image[x] for x in node.inputs]), node.where)
        body.outputs = [image[y] for y in self.results]
        body.take_names(self.graph.names, image)
        return body

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the key of its equality."""
        return self.structure

    @cached_property
    def structure(self) -> tuple[Any, ...]:
        """Return the operations in the order in which they are met from the results."""
        numbers = {x: i for i, x in enumerate(self.parameters)}
        rows: list[Any] = [x.aval for x in self.parameters]
        met: dict[Any, int] = {}  # marks of its own
        for node in _depth_first(self.results, self.parameters):
            params: Any = node.params
            if params and params[-1][0] == "own":
                params = (*params[:-1], met.setdefault(params[-1], len(met)))
            rows.append((node.op, tuple([numbers[x] for x in node.inputs]), params))
            numbers[node] = len(numbers)
        return tuple(rows), tuple([numbers[y] for y in self.results])

    @cached_property
    def _hash(self) -> int:  # of what regions of equal keys have in common, and costs less
        return hash((len(self.parameters), len(self.nodes), tuple([y.op for y in self.results])))


def rebuilt(region: Region, aval_of: Callable[[Node], Aval], params_of: Callable[[Node], Params]) -> Region:
    """Return the region of the same operations on parameters of other avals, with other params."""
    graph, image = Graph(), dict[Node, Node]()
    for i, x in enumerate(region.parameters):
        image[x] = graph.add(INPUT, (), (("aval", aval_of(x)), ("name", f"x{i}")), x.where)
    for node in region.nodes:
        image[node] = graph.add(node.op, tuple([image[x] for x in node.inputs]), params_of(node), node.where)
    graph.take_names(region.graph.names, image)
    return Region(graph, [image[x] for x in region.parameters], [image[y] for y in region.results])


def per_region(function: Callable[[Region], _T]) -> Callable[[Region], _T]:
    """Cache a function of a region as long as the region exists."""

    @wraps(function)
    def kept(region: Region) -> _T:
        if function not in region.found:
            region.found[function] = function(region)
        result: _T = region.found[function]
        return result

    return kept


def with_late_assignments(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return nodes in an order in which an assignment stands directly before its first reader.

    Until then others may read what it was before: it can be assigned in place. A loop is moved in the same way if
    later nodes read an array that it carries.
    """
    waiting = dict.fromkeys(x for x in nodes if x.op.assigns)
    loops = {x for x in nodes if type(x.aval) is not Aval and _is_read_later(x, nodes)}
    waiting |= dict.fromkeys(x for x in nodes if x in loops or (x.op is ITEM and x.inputs[0] in loops))
    if not waiting:
        return nodes
    ordered: list[Node] = []
    late = {*waiting}
    for node in (*(x for x in nodes if x not in waiting), *waiting.copy()):
        stack = [node] if node in waiting or node not in late else []
        while stack:
            before = next((x for x in stack[-1].inputs if x in waiting), None)
            if before is not None:
                stack.append(before)
                continue
            ordered.append(stack.pop())
            waiting.pop(ordered[-1], None)
    return ordered


def _is_read_later(loop: Node, nodes: Sequence[Node]) -> bool:
    """Whether a later node that does not depend on a loop reads an array that the loop carries."""
    carried = {x for x in loop.inputs[1 : 1 + dict(loop.params).get("carried", 0)] if x.aval.shape}
    if not carried:
        return False
    behind = nodes[nodes.index(loop) :]
    made = depends(behind, [loop])
    return any(not carried.isdisjoint(x.inputs) for x in behind if x not in made)


def _depth_first(results: Sequence[Node], given: Collection[Node]) -> Iterator[Node]:
    """Yield the nodes that `results` need, each after its inputs."""
    seen, stack = set(given), [*reversed(results)]
    while stack:
        node = stack[-1]
        waiting = [] if node in seen else [x for x in reversed(node.inputs) if x not in seen]
        stack.extend(waiting)
        if not waiting:
            stack.pop()
            if node not in seen:
                seen.add(node)
                yield node


# ---- nodes that hold regions


def result_avals(region: Region, inputs: Sequence[Aval]) -> tuple[Aval, ...]:
    """Return the abstract values of a region's results, after a check of the inputs."""
    fits = [x.dtype == y.aval.dtype and x.ndim == y.aval.ndim for x, y in zip(inputs, region.parameters, strict=True)]
    if not all(fits):
        raise GraphError("a region is given other inputs than its parameters", "Give one for each, of its kind.")
    return tuple([y.aval for y in region.results])


def regions_of(node: Node) -> list[Region]:
    """The regions among the parameters of a node."""
    return [value for _, value in node.params if isinstance(value, Region)]


def map_regions(node: Node, function: Callable[[Region], Region]) -> Params:
    """The parameters of a node with other regions."""
    return tuple([(key, function(x) if isinstance(x, Region) else x) for key, x in node.params])


def with_nested(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes and those in their regions, however deep."""
    for node in nodes:
        yield node
        if type(node.aval) is not Aval:
            for region in regions_of(node):
                yield from with_nested([*region.parameters, *region.nodes])


# ---- in and out of graphs


class Mark(NamedTuple):
    """A moment in the making of a graph."""

    nodes: int
    found: int


def mark(graph: Graph) -> Mark:
    """Return the present moment in the making of a graph."""
    return Mark(len(graph.nodes), len(graph.found))


def cut(graph: Graph, results: Sequence[Node], since: Mark) -> Region:
    """Return the region that computes `results` from older nodes, which become its parameters.

    What was asked for since then belongs to it, even if it had been there before; so do constants, and what is made of
    them alone.
    """
    asked = set(graph.found[since.found :])
    inside = lambda x: x.op not in (INPUT, SEED) and (x.id >= since.nodes or x in asked or _is_constant(x))
    made = lambda x: inside(x) and (x.op is not ITEM or inside(x.inputs[0]))
    return Region(graph, frontier(results, made), results)


def closed(graph: Graph, parameters: Sequence[Node], results: Sequence[Node], inside: Callable[[Node], bool]) -> Region:
    """Return the region that computes `results`; the outside values that it reads become further parameters."""
    read = frontier(results, lambda x: x.op in (CONSTANT, SIZE) or inside(x))
    given = set(parameters)
    return Region(graph, [*parameters, *(x for x in read if x not in given)], results)


def _is_constant(x: Node) -> bool:
    return all(y.op in (CONSTANT, SIZE) for y in x.inputs)


def parameters_like(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return new parameters in a graph of its own, for values of these types."""
    return [graph.add(INPUT, (), (("aval", x.aval), ("name", f"x{i}")), x.where) for i, x in enumerate(nodes)]


def stand_in(graph: Graph, aval: Aval, where: Where) -> Node:
    """Add an input to the graph of a region."""
    node = graph.add(INPUT, (), (("aval", aval), ("name", f"x{len(graph.inputs)}")), where)
    graph.inputs.append(node)
    return node


def inline(
    graph: Graph, region: Region, inputs: Sequence[Node], where: Callable[[Node], Where] = lambda node: node.where
) -> dict[Node, Node]:
    """Append the nodes of a region on `inputs` to a graph; return the image of each."""
    image = dict(zip(region.parameters, inputs, strict=True))
    for node in region.nodes:
        image[node] = graph.rebuild(node, tuple([image[x] for x in node.inputs]), where(node))
    return image


def inlined(graph: Graph, region: Region, inputs: Sequence[Node]) -> dict[Node, Node]:
    """Append the nodes of a region, as `inline`, with their names."""
    image = inline(graph, region, inputs)
    graph.take_names(region.graph.names, image)
    return image
