"""Pushing indices into products: ``A[0] @ B[:, :k]`` for ``(A @ B)[0, :k]``.

The diagonal of a product of matrices takes n sums of products, its trace one. The gradient of patches that lie side by
side is a product that is read a few columns at a time, for each place of the filter: made alone, they lie in one piece,
where rows of a few numbers lay far apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from symgrad.analysis.cost import numbers
from symgrad.analysis.uses import users_of
from symgrad.core.graph import Graph, Node
from symgrad.core.sizes import Size, same
from symgrad.frontend.variable import Variable
from symgrad.ops.diagonal import DIAGONAL, TRACE
from symgrad.ops.index import GET
from symgrad.ops.index_expressions import EVERYTHING, Slice, Slot
from symgrad.products.contractions import CONTRACTIONS, GAIN, Contraction, contraction_of, less, plain, work_of
from symgrad.rewrite.engine import Made, copied
from symgrad.rewrite.structure import with_axes

WIDEST = 512
"""Bytes of a row of the columns that are read: a longer one takes no longer where it stands."""

APART = 8
"""Numbers read in the time of one that is read from among others: it comes with its cache line."""

ROWS = 500
"""Fewer rows are read as fast as one more product is called for."""

READING = frozenset({GET, DIAGONAL, TRACE})


class Part(NamedTuple):
    """The part of a contraction that is read: a contraction of operands with some labels indexed."""

    whole: Contraction  # with two labels made one, for a diagonal
    items: Mapping[str, Any]
    new: Sequence[int]  # axes of size one
    sizes: Mapping[str, Size]

    @property
    def gone(self) -> str:
        """Labels that a number stands for."""
        return "".join(label for label, item in self.items.items() if not isinstance(item, Slice))

    def work(self) -> float:
        return work_of(
            self.sizes, [less(term, self.gone) for term in self.whole.terms], less(self.whole.out, self.gone)
        )

    def written(self, graph: Graph, image: Mapping[Node, Node]) -> Variable:
        c, gone = self.whole, self.gone
        operands = (self._read(graph, image[x], term) for x, term in zip(*c[:2], strict=True))
        terms = tuple(less(term, gone) for term in c.terms)
        y = Contraction(tuple(operands), terms, less(c.out, gone)).written(graph)
        return with_axes(graph, y, self.new, y.ndim + len(self.new)) if self.new else y

    def _read(self, graph: Graph, x: Node, term: str) -> Node:
        key = tuple(self.items.get(label, EVERYTHING) for label in term)
        return x if key == (EVERYTHING,) * len(key) else graph.add(GET, (x,), (("key", key),))


def restrict(graph: Graph, numerics: str = "stable") -> Graph:
    """Compute products only where they are read. Runs before rules that give products other forms."""
    nodes = graph.live
    read = {node.inputs[0] for node in nodes if node.op in READING}
    products = [node for node in nodes if node.op in CONTRACTIONS and node in read]
    if not products:
        return graph
    users, wanted, instead = users_of(nodes), set(graph.outputs), {}
    for node in products:
        if node not in wanted and all(user.op in READING for user in users[node]):
            instead.update(_in_parts(node, users[node]))
    return copied(graph, instead) if instead else graph


def _in_parts(node: Node, users: Sequence[Node]) -> dict[Node, Made]:
    """Replace a product by a product for each index that reads it, if that costs less."""
    c = contraction_of(node)
    if c is None or len(c.operands) != 2 or not plain(node, *c.operands):
        return {}
    parts = [part for user in users if (part := _part(c, user)) is not None]
    if len(parts) < len(users):
        return {}
    work = c.work() + APART * numbers(node.aval.shape) * _are_places(c, parts)
    if sum(part.work() for part in parts) > GAIN * work and not _are_strips(c, parts):
        return {}
    return {user: part.written for user, part in zip(users, parts, strict=True)}


def _part(c: Contraction, user: Node) -> Part | None:
    """None under index arrays, or beside the main diagonal."""
    params = user.op.defaults | dict(user.params)
    if user.op is not GET:
        i, j = (c.out[params[axis]] for axis in ("axis1", "axis2"))
        one = c.renamed({label: i if label == j else label for label in c.sizes})
        out = less(one.out, i) + i * (user.op is DIAGONAL)
        square = same(c.sizes[i], c.sizes[j]) and not params["offset"]
        return Part(one._replace(out=out), {}, (), c.sizes) if square else None
    if any(isinstance(item, Slot) for item in params["key"]):
        return None
    read = dict(zip(c.out, [item for item in params["key"] if item is not None], strict=True))
    new = [i for i, item in enumerate(_kept(params["key"])) if item is None]
    lengths = [n for item, n in zip(_kept(params["key"]), user.aval.shape, strict=True) if item is not None]
    kept = [label for label, item in read.items() if isinstance(item, Slice)]
    items = {label: item for label, item in read.items() if item != EVERYTHING}
    return Part(c, items, new, c.sizes | dict(zip(kept, lengths, strict=True)))


def _kept(key: Sequence[Any]) -> list[Slice | None]:
    """The items of a key that give an axis."""
    return [item for item in key if item is None or isinstance(item, Slice)]


def _are_places(c: Contraction, parts: Sequence[Part]) -> bool:
    """Whether numbers are read apart from each other, each once at most: as windows are, at one place after another.

    Each part has to be a product of matrices as the whole is: products with vectors take longer than what they save.
    """
    places = {tuple(part.items.items()) for part in parts}
    if len(places) < len(parts) or any(part.new or part.gone != parts[0].gone for part in parts):
        return False
    (left, right), stays = map(set, c.terms), set(c.out) - {*parts[0].gone}
    if not (stays & (left - right) and stays & (right - left)):
        return False
    return c.out[-1:] in [*parts[0].gone] and all([*part.items] == [*part.gone] for part in parts)


def _are_strips(c: Contraction, parts: Sequence[Part]) -> bool:
    """Whether a few columns are read at a time, each of them once at most, of many rows."""
    columns, rows = c.out[-1:], [c.sizes[label] for label in c.out[:-1]]
    strips = [part for part in parts if [*part.items] == [columns] and columns not in part.gone and not part.new]
    if not len(strips) == len(parts) > 1 or sum(columns in term for term in c.terms) > 1 or numbers(rows) < ROWS:
        return False
    widths = [numbers([part.sizes[columns]]) for part in strips]
    narrow = max(widths) * c.operands[0].aval.dtype.itemsize <= WIDEST and sum(widths) <= numbers([c.sizes[columns]])
    return narrow and all(part.items[columns].step is None for part in strips)
