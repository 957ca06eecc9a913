"""Operands that are known but for a few numbers: repeated numbers, identities, diagonals.

A contraction reads its operands at labels. One that repeats numbers along an axis lacks the label; an identity is a
delta, which makes two labels one; a diagonal matrix is a delta with numbers of its own. So ``A @ np.ones(n)`` is a
sum, ``np.diag(v) @ A`` is ``v[:, None] * A``, and ``A * np.eye(n)`` is the diagonal of A. Where the result has both
labels of a delta, as a Jacobian has that starts from the identity, it is zero but for blocks: they alone are computed,
and written into zeros. Zero times infinity would be NaN: not for ``numerics="ieee"``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.values import is_identity, is_range, is_zeros, one_number
from symgrad.core.graph import CONSTANT, Graph, Node, Op
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import Shape, Size, same
from symgrad.frontend.variable import Variable
from symgrad.ops.create import EYE, FULL
from symgrad.ops.diagonal import DIAG, DIAGONAL, TRACE
from symgrad.ops.einsum import LETTERS
from symgrad.ops.elementwise import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from symgrad.ops.index import SET
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.reduce import MEAN, SUM
from symgrad.ops.reduction import reduced_axes
from symgrad.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE
from symgrad.products.contractions import (
    CONTRACTIONS,
    Contraction,
    contraction_of,
    placed,
    spanned,
    summed_first,
    trimmed,
)
from symgrad.products.sums import as_reduction
from symgrad.rewrite.repetition import bare
from symgrad.rewrite.rules import procedure
from symgrad.rewrite.structure import without

ALIKE = (DIVIDE, ADD, SUBTRACT, NEGATIVE)
"""Elementwise operators whose results are zero where their operands are (for a quotient, the first one)."""

ELEMENTWISE = (MULTIPLY, *ALIKE)


class Read(NamedTuple):
    """An operand as numbers with a label for each of their axes, where labels of a delta are equal; else it is 0."""

    values: Node
    term: str
    deltas: tuple[tuple[str, str], ...] = ()
    parts: tuple[tuple[str, Size], ...] = ()
    """The labels that the first axis stands for, and their sizes, if a reshape has made it of several."""


# ---- what is known of an operand, under labels for its axes; further letters are no labels yet


def _repeated(graph: Graph, x: Node, term: str, letters: str) -> Read:
    y = bare(graph, x)
    return Read(*_without_blanks(graph, y, spanned(y.aval.shape, x.aval.shape, term)))


def _without_blanks(graph: Graph, x: Node, term: str) -> tuple[Node, str]:
    return without(graph, x, [i for i, label in enumerate(term) if label == " "]), term.replace(" ", "")


def _constant(graph: Graph, x: Node, term: str, letters: str) -> Read | None:
    return (_identity if one_number(x) is None else _repeated)(graph, x, term, letters)


def _identity(graph: Graph, x: Node, term: str, letters: str) -> Read | None:
    return Read(graph.constant(x.aval.dtype.type(1)), "", ((term[0], term[1]),)) if is_identity(x) else None


def _diagonal(graph: Graph, x: Node, term: str, letters: str) -> Read | None:
    return None if dict(x.params).get("k", 0) else Read(x.inputs[0], term[0], ((term[0], term[1]),))


def _assigned(graph: Graph, x: Node, term: str, letters: str) -> Read | None:
    """Zeros but for what was assigned to a diagonal."""
    target, values, *arrays = x.inputs
    key, shape = dict(x.params)["key"], x.aval.shape
    places = [i for i, item in enumerate(key) if isinstance(item, Slot)]
    if len(places) != 2 or not is_zeros(target) or key != _diagonal_key(len(shape), *places):
        return None
    if arrays[0] is not arrays[1] or not all(is_range(arrays[0], shape[i]) for i in places):
        return None
    order = _diagonal_order(len(shape), *places)
    own = spanned(values.aval.shape, tuple(shape[i] for i in order), "".join(term[i] for i in order))
    return Read(*_without_blanks(graph, values, own), ((term[places[0]], term[places[1]]),))


def _diagonal_key(ndim: int, i: int, j: int) -> tuple[object, ...]:
    return tuple(Slot(0) if k == i else Slot(1) if k == j else EVERYTHING for k in range(ndim))


def _diagonal_order(ndim: int, i: int, j: int) -> list[int]:
    """The axes of what stands under such a key: that of index arrays comes first, unless they are side by side."""
    rest = [k for k in range(ndim) if k not in (i, j)]
    place = i if j == i + 1 else 0
    return [*rest[:place], i, *rest[place:]]


def _reshaped(graph: Graph, x: Node, term: str, letters: str) -> Read | None:
    """A square matrix with several axes for its columns, or blocks with their leading axes made one."""
    y, shape = x.inputs[0], x.aval.shape
    inner, lead = y.aval.shape, len(y.aval.shape) - len(shape) + 1
    if y.op is SET and lead > 1 and same_shape(shape, (product(inner[:lead]), *inner[lead:])):
        rows = letters[:lead]
        found = _assigned(graph, y, rows + term[1:], "")
        return found and found._replace(parts=tuple(zip(rows, inner, strict=False)))
    if y.op is SET or len(shape) < 3 or not same_shape((shape[0], product(shape[1:])), inner):
        return None
    found = _READ[y.op](graph, y, term, "")
    if found is None:
        return None
    rows = letters[: len(shape) - 1]
    values = np.reshape(Variable(graph, found.values), shape[1:]).node if found.term else found.values
    deltas = tuple(zip(rows, term[1:], strict=True))
    return Read(values, term[1:] if found.term else "", deltas, tuple(zip(rows, shape[1:], strict=True)))


_READ: dict[Op, Callable[[Graph, Node, str, str], Read | None]] = {
    FULL: _repeated,
    BROADCAST_TO: _repeated,
    CONSTANT: _constant,
    EYE: _identity,
    DIAG: _diagonal,
    SET: _assigned,
    RESHAPE: _reshaped,
}
_SPARSE = frozenset({EYE, DIAG, SET})


def _may_be_known(x: Node, contracted: bool) -> bool:
    """Whether to read an operand; of numbers that are repeated elementwise operators need not know."""
    if x.op is CONSTANT:
        return contracted or is_identity(x)
    if x.op in _SPARSE or (x.op is RESHAPE and x.inputs[0].op in _SPARSE):
        return True
    return contracted and x.op is not RESHAPE and x.op in _READ


# ---- what is left to compute


class Rest(NamedTuple):
    """The operands that are left: of an operator in `ALIKE`, or of a product, summed over what the result lacks.

    An operand may have a label twice: its diagonal is taken. So may the result, which is zero elsewhere; and it may
    have labels that no operand has, along which it repeats numbers.
    """

    op: Op
    operands: tuple[Node, ...]
    terms: tuple[str, ...]
    out: str
    sizes: dict[str, Size]

    @property
    def varying(self) -> str:
        """Labels that an operand has."""
        return "".join(dict.fromkeys("".join(self.terms)))

    def shape(self, labels: str) -> Shape:
        return tuple(self.sizes[label] for label in labels)

    def written(self, graph: Graph) -> Variable | None:
        twice = "".join(label for label, n in Counter(self.out).items() if n > 1)
        if not twice:
            return self._spread(graph, self.out)
        if self.out == twice + twice:
            return np.reshape(self._diagonal(graph, twice), self.shape(self.out))
        return self._blocks(graph, twice) if len(twice) == 1 and self.out.count(twice) == 2 else None

    def _diagonal(self, graph: Graph, labels: str) -> Variable:
        size = product(self.shape(labels))
        if self.varying:
            return np.diag(np.reshape(self._spread(graph, labels), (size,)))
        y = self._computed(graph, "")
        return y * np.eye(size, dtype=y.dtype, like=y)

    def _blocks(self, graph: Graph, label: str) -> Variable:
        """Zeros with blocks on a diagonal."""
        i, j = (k for k, other in enumerate(self.out) if other == label)
        y = self._computed(graph, "".join(self.out[k] for k in _diagonal_order(len(self.out), i, j)))
        zeros = np.full(self.shape(self.out), 0, y.dtype, like=y)
        places = np.arange(self.sizes[label], like=y)
        return SET(zeros, y, places, places, key=_diagonal_key(len(self.out), i, j))

    def _spread(self, graph: Graph, labels: str) -> Variable:
        return np.broadcast_to(self._computed(graph, labels), self.shape(labels))

    def _computed(self, graph: Graph, order: str) -> Variable:
        """Return the product or elementwise result, with axes in this order; of size one, or missing, where no operand
        has them.
        """
        found = _only(order, self.varying)
        if self.op not in ALIKE:
            return placed(self._product(graph, found), found, order)
        terms = [_only(found, term) for term in self.terms]
        xs = [_read_as(Variable(graph, x), *labels) for x, *labels in zip(*self[1:3], terms, strict=True)]
        return placed(self.op(*[placed(x, term, found) for x, term in zip(xs, terms, strict=True)]), found, order)

    def _product(self, graph: Graph, out: str) -> Variable:
        """The product; times the size of each label that is summed over and that no operand has."""
        factors: list[Any] = [Variable(graph, x) for x, term in zip(self.operands, self.terms, strict=True) if not term]
        kept = [(x, term) for x, term in zip(self.operands, self.terms, strict=True) if term]
        if len(kept) == 1:
            factors.append(_read_as(Variable(graph, kept[0][0]), kept[0][1], out))
        elif kept:
            factors.append(self._contracted(graph, kept, out))
        lost = product([n for label, n in self.sizes.items() if label not in self.varying + self.out])
        y: Variable = reduce(np.multiply, [*factors, lost])
        return y

    def _contracted(self, graph: Graph, kept: Sequence[tuple[Node, str]], out: str) -> Variable:
        terms = ["".join(dict.fromkeys(term)) for _, term in kept]
        xs = [_read_as(Variable(graph, x), term, own).node for (x, term), own in zip(kept, terms, strict=True)]
        c = Contraction(tuple(xs), tuple(terms), out)
        own = {i: labels for i in range(len(xs)) if (labels := c.own(i))}
        return (summed_first(graph, c, own) if own else c).written(graph)


def _only(labels: str, wanted: Iterable[str]) -> str:
    return "".join(label for label in labels if label in wanted)


def _read_as(x: Variable, term: str, wanted: str) -> Variable:
    """An operand under other labels: diagonals, sums, axes in another order."""
    return x if term == wanted else np.einsum(f"{term}->{wanted}", x)


# ---- procedures


@procedure(*CONTRACTIONS, *ELEMENTWISE, SUM, MEAN, TRACE, DIAGONAL, TRANSPOSE, of=_READ, changes_nan=True)
def known_operands(graph: Graph, node: Node) -> Variable | None:
    """Simplify an operation on operands that are zero, or repeat their numbers, at known places."""
    contracted = node.op in CONTRACTIONS
    if node.aval.dtype.kind != "f" or not any([_may_be_known(x, contracted) for x in node.inputs]):
        return None
    c = _contraction(graph, node)
    if c is None or any(x.aval.dtype != node.aval.dtype and not x.aval.weak for x in c.operands):
        return None
    free = "".join(label for label in LETTERS if label not in c.subscripts)
    reads: list[Read] = []
    for x, term in zip(*c[:2], strict=True):
        reader = _READ.get(x.op) if _may_be_known(x, contracted) and not (node.op is DIVIDE and reads) else None
        reads.append((reader and reader(graph, x, term, free)) or Read(x, term))
    rest = _rest(node, c, reads)
    y = rest and rest.written(graph)
    if y is None:
        return None
    y = np.reshape(y, tuple(c.sizes[label] for label in c.out))
    return as_reduction(graph, y, node) if node.op in (SUM, MEAN) else y


def _contraction(graph: Graph, node: Node) -> Contraction | None:
    """A node as one product of its operands, or as an elementwise operator of them."""
    x = node.inputs[0]
    labels = LETTERS[: len(x.aval.shape)]
    given = node.op.defaults | dict(node.params)
    if node.op in CONTRACTIONS:
        return contraction_of(node)
    if node.op in (SUM, MEAN):
        return Contraction((x,), (labels,), "".join(a for i, a in enumerate(labels) if i not in reduced_axes(node)))
    if node.op is TRANSPOSE:
        return Contraction((x,), (labels,), "".join(labels[i] for i in given["axes"]))
    if node.op in (TRACE, DIAGONAL):
        i, j = given["axis1"], given["axis2"]
        if given["offset"] or not same(x.aval.shape[i], x.aval.shape[j]):
            return None
        rest = "".join(a for k, a in enumerate(labels) if k not in (i, j))
        return Contraction((x,), (labels.replace(labels[j], labels[i]),), rest + labels[i] * (node.op is DIAGONAL))
    out = LETTERS[: len(node.aval.shape)]
    terms = tuple(spanned(y.aval.shape, node.aval.shape, out) for y in node.inputs)
    return trimmed(graph, Contraction(node.inputs, terms, out))


def _rest(node: Node, c: Contraction, reads: Sequence[Read]) -> Rest | None:
    """Return a contraction with equal labels merged; None if it is no smaller, or a reshape prevents it."""
    found = [read.deltas for read in reads]
    equal = [pair for deltas in found for pair in deltas]
    varying = "".join(read.term for read in reads)
    if node.op in ELEMENTWISE and not (any(found) and varying):
        return None
    if all(read.term == term for read, term in zip(reads, c.terms, strict=True)):
        return None
    if node.op in (ADD, SUBTRACT) and set(found[0]) != set(found[1]):
        return None
    parts = {(term[0], read.parts) for read, term in zip(reads, c.terms, strict=True) if read.parts}
    whole, labels = next(iter(parts)) if parts else ("", ())
    if len(parts) > 1 or (whole and (whole in varying or any(whole in pair for pair in equal))):
        return None
    sizes = c.sizes | dict(labels)
    names = _roots(sizes, equal)
    out = c.out.replace(whole, "".join(label for label, _ in labels)) if whole else c.out
    own = {names[label]: n for label, n in sizes.items() if label != whole}
    terms = ("".join(names[label] for label in read.term) for read in reads)
    return Rest(node.op, tuple(read.values for read in reads), tuple(terms), "".join(names[x] for x in out), own)


def _roots(labels: Iterable[str], equal: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each label the one that stands for all that are equal to it."""
    names = {label: label for label in labels}
    for a, b in equal:
        names = {label: names[a] if name == names[b] else name for label, name in names.items()}
    return names
