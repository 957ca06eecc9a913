"""Matching of the nodes of two graphs: by structure, and, where they changed, by their role in the program."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from symgrad.analysis.memory_profile import GIVEN
from symgrad.core.graph import INPUT, Graph, Node, reached
from symgrad.core.listing import hinted
from symgrad.core.sizes import Dim
from symgrad.report.mathematics import MARKS

Key = tuple[Any, ...]


class Matching:
    """Two graphs side by side."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self.graphs = a, b
        self.nodes = reached([*a.outputs, *a.inputs]), reached([*b.outputs, *b.inputs])
        self.inputs = dict(_paired_inputs(a, b))
        self._numbers: dict[Key, int] = {}
        self._symbols = _paired_symbols(self.inputs)
        self.pairs: dict[Node, Node] = {}  # both ways: changed, but of the same name or place in the program
        self.exact = self._numbered()  # by node: the same number for what computes the same from the same inputs
        self._pair_up()
        self.kind = self._numbered()  # by node: as `exact`, but for what is made of paired nodes alike

    def changed(self, x: Node, y: Node) -> bool:
        """Whether two paired nodes are made in another way."""
        return self._made(x, self.kind) != self._made(y, self.kind)

    def sizes(self, node: Node) -> tuple[Any, ...]:
        """The shape of an input, with one name for sizes of both graphs."""
        return tuple([self._plain(n, node) for n in node.aval.shape])

    # ---- numbers

    def _numbered(self) -> dict[Node, int]:
        numbers: dict[Node, int] = {}
        for nodes in self.nodes:
            for node in nodes:
                key: Key
                if node in self.pairs:
                    key = "pair", node if self.is_first(node) else self.pairs[node]
                elif node.op in MARKS:
                    numbers[node] = numbers[node.inputs[0]]
                    continue
                else:
                    key = self._made(node, numbers)
                numbers[node] = self._numbers.setdefault(key, len(self._numbers))
        return numbers

    def is_first(self, node: Node) -> bool:
        """Whether a node is of the first graph."""
        nodes = self.graphs[0].nodes
        return node.id < len(nodes) and nodes[node.id] is node

    def _made(self, node: Node, numbers: dict[Node, int]) -> Key:
        """Return a key of a node's operator, parameters and inputs, the same for nodes of both graphs."""
        if node.op is INPUT:
            return (INPUT, self.inputs.get(node, node))
        made_of = [numbers[x] for x in node.inputs]
        params = tuple([(key, self._plain(value, node)) for key, value in node.params])
        return (node.op, tuple(sorted(made_of) if node.op.commutes else made_of), params)

    def _plain(self, value: Any, node: Node) -> Any:
        """A parameter in which sizes go by the names that they have in the first graph."""
        if isinstance(value, Dim):
            expr = value.expr
            return expr if self.is_first(node) else expr.xreplace(self._symbols)
        if isinstance(value, tuple):
            return (type(value), *(self._plain(item, node) for item in value))
        return value

    # ---- pairs

    def _pair_up(self) -> None:
        """Pair what has the same name, then results, and from there down what is made by the same operator."""
        seen = [{self.exact[x] for x in nodes} for nodes in self.nodes]
        self._same = seen[0] & seen[1]
        a, b = (dict(_named(graph, nodes)) for graph, nodes in zip(self.graphs, self.nodes, strict=True))
        named = [(x, b[name]) for name, x in a.items() if name in b and not self._in_both(x, b[name])]
        for x, y in named:  # though one may be a part of the other: it is the value that was changed
            self.pairs[x], self.pairs[y] = y, x
        below = (pair for x, y in named for pair in self._below(x, y))
        waiting = deque([*below, *zip(self.graphs[0].outputs, self.graphs[1].outputs, strict=False)])
        while waiting:
            x, y = waiting.popleft()
            if self._is_free(x) and self._is_free(y):
                self.pairs[x], self.pairs[y] = y, x
                waiting += self._below(x, y)

    def _in_both(self, x: Node, y: Node) -> bool:
        """Whether each of two nodes is in the other graph as well, under whatever name."""
        return {self.exact[x], self.exact[y]} <= self._same

    def _is_free(self, node: Node) -> bool:
        return node not in self.pairs and self.exact[node] not in self._same and node.op not in GIVEN

    def _below(self, x: Node, y: Node) -> Iterable[tuple[Node, Node]]:
        """Inputs of two paired nodes that take the same part in them."""
        if _kind(x) != _kind(y):  # one may stand within what the other has become
            yield from ((x, z) for z in y.inputs if _kind(z) == _kind(x))
            yield from ((z, y) for z in x.inputs if _kind(z) == _kind(y))
            return
        left, right = self._changed_inputs(x, y), self._changed_inputs(y, x)
        if x.op.commutes and len(left) == len(right) == 2 and _kind(left[0]) == _kind(right[1]) != _kind(right[0]):
            right.reverse()
        yield from zip(left, right, strict=False)

    def _changed_inputs(self, x: Node, other: Node) -> list[Node]:
        """The inputs of a node; where their order does not matter, those that the other has not."""
        if not x.op.commutes:
            return list(x.inputs)
        there = {self.exact[z] for z in other.inputs}
        return [z for z in x.inputs if self.exact[z] not in there]


def _kind(node: Node) -> Key:
    return node.op, len(node.inputs), tuple(key for key, _ in node.params)


def _named(graph: Graph, nodes: Sequence[Node]) -> Iterable[tuple[str, Node]]:
    """The nodes that have a name of the user's which no other has."""
    names = [(hinted(graph, node), node) for node in nodes if node.op is not INPUT]
    counts = Counter(name for name, _ in names)
    return ((name, node) for name, node in names if name is not None and counts[name] == 1)


def _paired_inputs(a: Graph, b: Graph) -> Iterable[tuple[Node, Node]]:
    """For inputs of `b` those of `a`: of the same name, then in their order, if they have the same dtype and axes."""
    by_name = {dict(x.params)["name"]: x for x in a.inputs}
    found = {y: by_name[name] for y in b.inputs if (name := dict(y.params)["name"]) in by_name}
    found = {y: x for y, x in found.items() if _alike(x, y)}
    taken = set(found.values())
    free = [x for x in a.inputs if x not in taken]
    for y in b.inputs:
        x = next((x for x in free if _alike(x, y)), None) if y not in found else None
        if x is not None:
            found[y] = x
            free.remove(x)
    return found.items()


def _alike(x: Node, y: Node) -> bool:
    return (x.aval.dtype, x.aval.ndim, x.aval.weak) == (y.aval.dtype, y.aval.ndim, y.aval.weak)


def _paired_symbols(inputs: dict[Node, Node]) -> dict[Any, Any]:
    """Return the names that symbols of the second graph have in the first, from matched inputs."""
    found: dict[Any, Any] = {}
    for y, x in inputs.items():
        for n, m in zip(y.aval.shape, x.aval.shape, strict=True):
            if isinstance(n, Dim) and isinstance(m, Dim) and n.expr.is_Symbol and m.expr.is_Symbol:
                found.setdefault(n.expr, m.expr)
    return found
