"""A product of matrices of which only some columns are read at a time is made as one product for each of these reads.

The gradient of patches that lie side by side is such a product: what is added to the image is a few columns for each
place of the filter, and their rows of a few numbers lie far apart. Made alone, they lie in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.analysis.cost import numbers
from symgrad.analysis.uses import users_of
from symgrad.core.graph import Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.ops.index import GET
from symgrad.products.contractions import CONTRACTIONS, Contraction, contraction_of, plain
from symgrad.products.slices import Run, places, run_of
from symgrad.rewrite.engine import Made, copied

WIDEST = 512
"""Bytes of a row of the columns that are read: a longer one takes no longer where it stands."""

ROWS = 500
"""Fewer rows are read as fast as one more product is called for."""


def split_columns(graph: Graph, numerics: str = "stable") -> Graph:
    """Products that are only read in strips are made in these. It stands before rules that give them other forms."""
    nodes = graph.live
    products = [node for node in nodes if node.op in CONTRACTIONS]
    if not products:
        return graph
    users, wanted, instead = users_of(nodes), set(graph.outputs), {}
    for node in products:
        if node not in wanted and all(user.op is GET for user in users[node]):
            instead.update(_in_parts(node, users[node]))
    return copied(graph, instead) if instead else graph


def _in_parts(node: Node, users: Sequence[Node]) -> dict[Node, Made]:
    """What is read of a product, each by a product of its own, where that pays."""
    c, shape = contraction_of(node), node.aval.shape
    if c is None or len(c.operands) != 2 or not plain(node, *c.operands) or numbers(shape[:-1]) < ROWS:
        return {}
    reads = [at for user in users if (at := run_of(user)) is not None and at.kept and at.axis == len(shape) - 1]
    widths = [at.stop - at.start for at in reads]
    if len(reads) < max(len(users), 2) or max(widths) * node.aval.dtype.itemsize > WIDEST or sum(widths) > shape[-1]:
        return {}
    having = [i for i, term in enumerate(c.terms) if c.out[-1] in term]
    if len(having) != 1:
        return {}
    return {user: _product(c, having[0], at) for user, at in zip(users, reads, strict=True)}


def _product(c: Contraction, i: int, at: Run) -> Made:
    """The contraction with so much of the operand that has the columns."""

    def made(graph: Graph, image: Mapping[Node, Node]) -> Variable:
        operands = [image[x] for x in c.operands]
        columns = c.terms[i].index(c.out[-1])
        operands[i] = places(Variable(graph, operands[i]), columns, at.start, at.stop).node
        return c._replace(operands=tuple(operands)).written(graph)

    return made
