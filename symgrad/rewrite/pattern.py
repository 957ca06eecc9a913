"""Patterns: the left side of a rule as a graph, and its matches in another graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import number
from symgrad.core.graph import CONSTANT, INPUT, Aval, Graph, Node, Op, Params, reached
from symgrad.core.provenance import UNKNOWN, Where
from symgrad.frontend.variable import Variable


class Draw(NamedTuple):
    """Distribution of an array argument of a rule in tests; its shape is also that of the traced pattern."""

    shape: tuple[int, ...] = (2, 3)
    low: float = -2.0
    high: float = 2.0
    dtype: Any = float


class Pattern(NamedTuple):
    """The left side of a rule as nodes, in the order in which its function makes them."""

    root: Node
    made: tuple[Node, ...]
    arrays: dict[Node, str]
    numbers: dict[Node, str]
    params: dict[Node, tuple[tuple[str, str], ...]]  # (parameter, argument)

    def match(self, node: Node) -> dict[Node, Node] | None:
        """Return the node that each node of the pattern matches, or None."""
        return self._match([(self.root, node)], {})

    def _match(self, pairs: list[tuple[Node, Node]], bound: dict[Node, Node]) -> dict[Node, Node] | None:
        while pairs:
            p, n = pairs.pop()
            known = bound.get(p)
            if known is not None:
                if known is not n:
                    return None
                continue
            if not self._fits(p, n, bound):
                return None
            bound[p] = n
            if not p.inputs:
                continue
            if p.op.commutes and p.inputs[0] is not p.inputs[1]:
                (a, b), (x, y) = p.inputs, n.inputs
                straight = self._fits(a, x, bound) and self._fits(b, y, bound)
                crossed = self._fits(a, y, bound) and self._fits(b, x, bound)
                if straight and crossed:  # which is rare
                    first = self._match([*pairs, (a, x), (b, y)], dict(bound))
                    return first or self._match([*pairs, (a, y), (b, x)], bound)
                if not straight and not crossed:
                    return None
                pairs += [(a, x), (b, y)] if straight else [(a, y), (b, x)]
            else:
                pairs += zip(p.inputs, n.inputs, strict=True)
        return bound

    def _fits(self, p: Node, n: Node, bound: dict[Node, Node]) -> bool:
        """Whether a node, its inputs aside, may be what one of the pattern stands for."""
        if p.op is INPUT:
            return type(n.aval) is Aval and bound.get(p, n) is n
        if p.op is CONSTANT:
            value = number(n)
            if p in self.numbers:  # of which True is none: it has no negative
                return value is not None and (n.aval.dtype == bool) == (p.aval.dtype == bool)
            if p.aval.dtype == bool and n.aval.dtype != bool:  # True is 1.0 to Python
                return False
            return value is not None and bool(value == p.constant)
        return p.op is n.op and len(p.inputs) == len(n.inputs)

    def arguments(self, graph: Graph, bound: dict[Node, Node]) -> dict[str, Any] | None:
        """The arguments of the rule's function for a match; None if a parameter would need two values."""
        found: dict[str, Any] = {name: Variable(graph, bound[p]) for p, name in self.arrays.items()}
        found |= {name: number(bound[p]) for p, name in self.numbers.items()}
        for p, pairs in self.params.items():
            given = {**p.op.defaults, **dict(bound[p].params)}
            for key, name in pairs:
                if name in found and not identical(found[name], given[key]):
                    return None
                found[name] = given[key]
        return found


def identical(a: Any, b: Any) -> bool:
    """Equality of parameters, which must not ask whether two symbolic sizes are equal: they hash alike or differ."""
    return hash(a) == hash(b) and bool(a == b)


# ---- the left side of a rule


class _Recorder(Graph):
    """A graph that remembers each call that adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.provenance = UNKNOWN
        self.made: list[Node] = []

    def add(self, op: Op, inputs: tuple[Node, ...] = (), params: Params = (), where: Where | None = None) -> Node:
        node = super().add(op, inputs, params, where)
        self.made.append(node)
        return node


def pattern_of(
    function: Callable[..., tuple[Any, Any]], draws: Mapping[str, Draw], examples: Mapping[str, Any]
) -> Pattern:
    """Return the left side of a rule, traced."""
    graph = _Recorder()
    arrays = {graph.add_input(name, Aval(d.shape, np.dtype(d.dtype))): name for name, d in draws.items()}
    graph.made.clear()
    before, _ = function(**{name: Variable(graph, x) for x, name in arrays.items()}, **examples)
    root = before.node
    nodes = reached([root])
    numbers = {
        n: name
        for n in nodes
        if n.op is CONSTANT
        for name, x in examples.items()
        if type(x) is float and number(n) == x
    }
    params = {n: pairs for n in nodes if (pairs := tuple(_wildcards(n, examples)))}
    made = tuple(graph.made[: graph.made.index(root) + 1])
    return Pattern(root, made, {x: name for x, name in arrays.items() if x in nodes}, numbers, params)


def _wildcards(node: Node, examples: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The parameters of a node that an argument of the rule stands for."""
    given = {**node.op.defaults, **dict(node.params)}
    for key, value in given.items():
        names = [name for name in examples if name.split("_")[0] == key and identical(examples[name], value)]
        if names:
            yield key, names[0]


# ---- what a pattern needs

EVERYWHERE = frozenset((0, 1, -1, 2, 0.5))
"""Numbers that rules look for, and that are the same in every dtype."""


def features(node: Node) -> set[tuple[Op, Any]]:
    """Operators below those of the inputs, and numbers: a pattern matches nothing that lacks one of its own."""
    found: set[tuple[Op, Any]] = set()
    for x in node.inputs:
        if x.op is CONSTANT:
            found.add((CONSTANT, number(x)))
        for y in x.inputs:
            found.add((x.op, y.op))
    return found


def needed_features(pattern: Pattern) -> set[tuple[Op, Any]]:
    """Return the features of a left side, without those that come from an argument."""
    known = EVERYWHERE - {number(x) for x in pattern.numbers}
    return {
        (op, inner)
        for op, inner in features(pattern.root)
        if INPUT not in (op, inner) and (isinstance(inner, Op) or inner in known)
    }
