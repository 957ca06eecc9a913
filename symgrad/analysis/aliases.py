"""Alias analysis: values that share memory, as views and in-place results do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from symgrad.core.graph import Node, is_view
from symgrad.core.shapes import same_shape
from symgrad.ops.index import GET
from symgrad.ops.marks import STOP
from symgrad.ops.shape import RESHAPE


def shares_memory(node: Node) -> bool:
    """Whether a value may share the memory of its first input: it is a view, or the same value under a mark.

    A scalar that an index selects does not.
    """
    return node.op is STOP or (is_view(node) and not (node.op is GET and not node.aval.shape))


def memory_of(node: Node) -> Node:
    """Return the value that owns the memory of a value."""
    while shares_memory(node):
        node = node.inputs[0]
    return node


def stays_in_place(node: Node) -> bool:
    """Whether a value may lie where its first input does: it shares memory, or is that input with numbers assigned."""
    return shares_memory(node) or node.op.assigns


def is_read_only(node: Node) -> bool:
    """Whether NumPy does not let a value be written into, since it is a view through one that it does not let."""
    while is_view(node):
        if node.op.read_only:
            return True
        node = node.inputs[0]
    return False


def copies(reshape: Node) -> bool:
    """Whether a reshape must copy: numbers of a transposed array, or of some of an array, do not lie in order."""
    x = reshape.inputs[0]
    if reshape.op is not RESHAPE or not is_view(x) or x.op is RESHAPE:
        return False
    old, new = ([n for n in node.aval.shape if not (isinstance(n, int) and n == 1)] for node in (x, reshape))
    return not same_shape(tuple(old), tuple(new))


def roots_of(nodes: Iterable[Node], shares: Callable[[Node], bool] = shares_memory) -> dict[Node, Node]:
    """Return for each value the owner of its memory: that of its first input where it `shares` it, else itself.

    The nodes stand in order of creation, with all that they are made of.
    """
    roots: dict[Node, Node] = {}
    for node in nodes:
        roots[node] = roots[node.inputs[0]] if shares(node) else node
    return roots
