"""Order of checks: those that raise run first, with what they need, since other operations may fail by themselves."""

from __future__ import annotations

from symgrad.core.graph import INPUT, TOKEN, Graph, Node, avals_of, is_token, reached
from symgrad.core.region import regions_of
from symgrad.core.shapes import product
from symgrad.core.sizes import at_most
from symgrad.ops.checks import CHECK, Raise, action_of
from symgrad.ops.control import COND, SCAN
from symgrad.ops.gather import TAKE_ALONG
from symgrad.ops.index_expressions import Slice
from symgrad.ops.linalg import CHOLESKY, INV, SOLVE
from symgrad.ops.reduce import ARGMAX, ARGMIN, MAX, MIN
from symgrad.rewrite.engine import copied


def checks_first(graph: Graph, numerics: str = "stable") -> Graph:
    """Move raising checks, and what they need, to the front; checks stay in their order."""
    raising = next((y for y in graph.outputs if is_token(y)), None)
    while raising is not None and raising.inputs and not raises(raising.inputs[0]):
        raising = next(x for x in raising.inputs[0].inputs if is_token(x))
    if raising is None or not raising.inputs:
        return graph
    needed, given = set(reached([raising])), set(graph.inputs)
    others = [x for x in graph.order if x not in given]
    first = [x for x in others if x in needed]
    if others[: len(first)] == first:
        return graph
    return copied(graph, nodes=[*graph.inputs, *first, *(x for x in others if x not in needed)])


def raises(node: Node) -> bool:
    """Whether a node is a check that raises, or has such a check in its regions."""
    if node.op is CHECK:
        return isinstance(action_of(node), Raise)
    return any(raises(x) for region in regions_of(node) for x in region.nodes if any(map(is_token, x.inputs)))


def makes_checks(node: Node) -> bool:
    """Whether a node is a check, or a loop or branch with checks."""
    return node.op is not INPUT and any(aval.dtype == TOKEN.dtype for aval in avals_of(node))


def may_end(node: Node) -> bool:
    """Whether an operator may raise or hang: indices out of bounds, singular matrices, endless loops, empty maxima."""
    if node.op in (SCAN, COND, SOLVE, INV, CHOLESKY):
        return True
    if node.op in (MAX, MIN, ARGMAX, ARGMIN):
        return not at_most(1, product(node.inputs[0].aval.shape))
    key = dict(node.params).get("key", ())
    if node.op is TAKE_ALONG or any(not isinstance(x, Slice) and x not in (None, Ellipsis) for x in key):
        return True
    return any(may_end(x) for region in regions_of(node) for x in region.nodes)
