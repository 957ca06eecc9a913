"""Convolutions as products of matrices: a patch is a row with the numbers of one window, a filter is a column.

What a window shows is copied in the order of memory, where the rows of a window lie in runs. The convolution and its
derivative by the filters read the same patches. Einsum would copy windows for each of the two, in the order of letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from operator import add

import numpy as np

from symgrad.analysis.cost import numbers
from symgrad.core.graph import Graph, Node
from symgrad.core.shapes import product
from symgrad.frontend.variable import Variable
from symgrad.ops.contract import MATMUL, TENSORDOT
from symgrad.ops.einsum import EINSUM
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import Slice
from symgrad.ops.shape import TRANSPOSE
from symgrad.ops.windows import PLACES, WINDOWS
from symgrad.products.contraction_lowering import ENOUGH, Labels, labels_of, ordered, reshaped
from symgrad.products.contractions import Contraction, contraction_of, less, plain
from symgrad.products.restrict import Part
from symgrad.rewrite.rules import procedure


def axes_in_memory(x: Node) -> list[int]:
    """The axis of the array behind a view along which each axis of the view goes: two go along one in windows."""
    if x.op is WINDOWS:
        axes = axes_in_memory(x.inputs[0])
        return [*axes, *(axes[i] for i in dict(x.params)["axis"])]
    if x.op is TRANSPOSE:
        axes = axes_in_memory(x.inputs[0])
        return [axes[i] for i in dict(x.params)["axes"]]
    key = dict(x.params)["key"] if x.op is GET and len(x.inputs) == 1 else ()
    if key and all(isinstance(item, (Slice, int)) for item in key):
        axes = axes_in_memory(x.inputs[0])
        return [axis for axis, item in zip(axes, key, strict=True) if isinstance(item, Slice)]
    return [*range(len(x.aval.shape))]


def _window_labels(x: Node, term: str) -> str:
    """The labels of an operand that stand for places within a window."""
    axes = axes_in_memory(x)
    return "".join(label for i, label in enumerate(term) if axes[i] in axes[:i])


def _windows_with(node: Node) -> tuple[Contraction, Labels, str] | None:
    """Return a contraction whose first operand has windows, and the labels of their places; None if it is none."""
    c = contraction_of(node)
    at = labels_of(c) if c is not None and len(c.operands) == 2 and plain(*c.operands) else None
    if c is None or at is None or numbers(tuple(c.sizes.values())) < ENOUGH:
        return None
    places, others = (_window_labels(x, term) for x, term in zip(*c[:2], strict=True))
    if bool(places) is bool(others):
        return None
    if places:
        return c, at, places
    turned = Contraction(c.operands[::-1], c.terms[::-1], c.out)
    return turned, at._replace(left=at.right, right=at.left), others


# ---- matrices of patches


@procedure(EINSUM, TENSORDOT, MATMUL)
def windows_as_patches(graph: Graph, node: Node) -> Variable | None:
    """A product of windows and filters as one of matrices."""
    found = _windows_with(node)
    if found is None or not (found[1].left and found[1].right and found[1].inner):
        return None
    c, at, places = found
    memory = dict(zip(c.terms[0], axes_in_memory(c.operands[0]), strict=True))
    inner = "".join(label for label in c.terms[0] if label in at.inner)
    innermost = max(reversed(c.terms[0]), key=lambda label: memory[label])
    rows, columns = (at.left, inner) if innermost in inner else (inner, at.left)
    patch = "".join(sorted(columns, key=lambda label: memory[label]))
    moved = "".join(label for label in rows if memory[label] in [memory[place] for place in places])
    beside = c.out if columns == inner else c.terms[1]
    if moved and memory[moved[-1]] == memory[innermost] and beside[-1] == moved[-1]:
        return _patches_in_columns(graph, c, at, patch, less(rows, moved), moved)
    return _patches_in_rows(graph, c, at, patch, rows)


def _patches_in_rows(graph: Graph, c: Contraction, at: Labels, patch: str, rows: str) -> Variable:
    """Return the product with a matrix of which each row is a patch: where channels are the last axis."""
    stack = [rows] if at.batch else [*rows]  # a shared matrix is multiplied with a stack of matrices
    patches = [*at.batch, *stack, patch]
    filters, result = [*at.batch, patch, at.right], [*at.batch, *stack, at.right]
    if patch[0] not in at.inner:
        filters, result = result, filters
    operands = _merged(graph, c, 0, patches), _merged(graph, c, 1, filters)
    z = Contraction(operands, (_names(patches), _names(filters)), _names(result)).written(graph)
    return _parted(graph, z, c, "".join(result))


def _patches_in_columns(graph: Graph, c: Contraction, at: Labels, patch: str, images: str, moved: str) -> Variable:
    """Return the product with matrices, one an image, of which each column is a patch: where places are the last axes.

    The gradient by the filters sums the products of all images.
    """
    stack = [*images, *at.batch]
    patches = Variable(graph, _merged(graph, c, 0, [*stack, patch, moved]))
    if patch[0] in at.inner:
        z = Variable(graph, _merged(graph, c, 1, [*at.batch, at.right, patch])) @ patches
        return _parted(graph, z, c, "".join((*stack, at.right, moved)))
    z = Variable(graph, _merged(graph, c, 1, [*stack, at.right, moved])) @ np.matrix_transpose(patches)
    z = np.sum(z, axis=tuple(range(len(images)))) if images else z
    return _parted(graph, z, c, at.batch + at.right + patch)


def _names(groups: Sequence[str]) -> str:
    """A label for each group: its first one."""
    return "".join(group[0] for group in groups)


def _merged(graph: Graph, c: Contraction, i: int, groups: Sequence[str]) -> Node:
    """An operand with one axis for each group of labels."""
    x = ordered(Variable(graph, c.operands[i]), c.terms[i], "".join(groups))
    return reshaped(graph, x.node, [product([c.sizes[label] for label in group]) for group in groups])


def _parted(graph: Graph, z: Variable, c: Contraction, labels: str) -> Variable:
    """The result of a contraction from one whose axes are merged."""
    return ordered(Variable(graph, reshaped(graph, z.node, [c.sizes[label] for label in labels])), labels, c.out)


# ---- where there is no matrix product


@procedure(EINSUM)
def windows_by_place(graph: Graph, node: Node) -> Variable | None:
    """A product that is elementwise but for the places of windows, one place after another.

    ``windows[..., i, j] * W[i, j]``, summed over i and j: each channel has a filter of its own. Einsum would start a
    loop for each window.
    """
    found = _windows_with(node)
    if found is None or not found[1].batch or (found[1].left and found[1].right):
        return None
    c, at, places = found
    sizes = [c.sizes[label] for label in places]
    if not all(isinstance(n, int) for n in sizes) or prod(sizes) > PLACES or len({x in c.out for x in places}) > 1:
        return None
    values = [_at_place(graph, c, dict(zip(places, place, strict=True))) for place in np.ndindex(*sizes)]
    if places[0] in at.inner:
        return reduce(add, values)
    rest = less(c.out, places)
    y = reshaped(graph, np.stack(values).node, [c.sizes[label] for label in places + rest])
    return ordered(Variable(graph, y), places + rest, c.out)


def _at_place(graph: Graph, c: Contraction, place: Mapping[str, int]) -> Variable:
    return Part(c, place, (), c.sizes).written(graph, {x: x for x in c.operands})
