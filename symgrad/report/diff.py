"""Comparison of two programs by their structure, whatever names and places they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from symgrad.analysis.cost import is_call
from symgrad.analysis.uses import times_used
from symgrad.compiler.compiled import Compiled
from symgrad.core import tree
from symgrad.core.graph import Graph, Node
from symgrad.core.listing import hinted, is_input, number, types
from symgrad.core.text import cut_to, plain, visible
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.report.matching import Matching
from symgrad.report.mathematics import CUT, at_a_glance, on_its_inputs
from symgrad.spelling import Code

INLINE = 24  # up to so many characters what both have stands as it is, without a name
DEEPEST = 6  # operations in each other, where they were changed
SHOWN, LONGEST = 4, 88  # and of what both have, and so many characters


class Change(NamedTuple):
    """A statement that only one of two programs has, or that is another in each.

    Attributes
    ----------
    before, after : str
        In the first program and in the second; "" where there is none.
    where : str
        The user's line in the second program, or else in the first: ``logistic.py:8``.
    text : str
        What it says.
    """

    before: str
    after: str
    where: str
    text: str


@dataclass(frozen=True)
class Difference:
    """The differences of two programs; ``print`` it. Made by `diff`. It is true if they differ.

    Attributes
    ----------
    inputs : list of Change
        Inputs that only one has, or that have other sizes.
    changes : list of Change
        Statements that were changed, removed or added, in the order of the second program.
    same : int
        Operations that both have, on the same inputs.
    follow : int
        Operations that both have, but of something that was changed.
    common : dict of str to str
        What statements call by a name that the user has not given: the same in both.
    """

    inputs: list[Change]
    changes: list[Change]
    same: int
    follow: int
    common: dict[str, str]

    def __bool__(self) -> bool:
        return bool(self.inputs or self.changes)

    def __str__(self) -> str:
        if not self:
            return f"The programs are the same: {self.same} operations."
        return "\n".join(_rendered(self))

    def _repr_html_(self) -> str:
        from symgrad.show.tables import difference_view

        return difference_view(self)

    def __repr__(self) -> str:
        return f"<Difference: {len(self.changes)} statements>"

    def to_json(self) -> dict[str, Any]:
        """The difference as a dict of plain JSON."""
        return {"differ": bool(self), **plain(self)}


def diff(a: Any, b: Any) -> Difference:
    """Compare two programs by what they compute.

    Names, and where things stand, make no difference; the order of operations does.

    Parameters
    ----------
    a, b : Compiled, Program or Graph
        Before and after a change of the model, say. Of a Compiled it is the program before it was divided into loops;
        with ``optimize=1`` it stays close to what was written.

    Returns
    -------
    Difference
        ``print`` it; its truth is whether they differ.

    Raises
    ------
    ArgumentError
        If `a` or `b` is something else.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def loss(w, x):
    ...     error = x @ w - 1
    ...     return np.sum(error**2)
    >>> def other(w, x):
    ...     error = np.tanh(x @ w) - 1
    ...     return np.sum(error**2)
    >>> a, b = (sg.trace(f, "float64[d]", "float64[n, d]") for f in (loss, other))
    >>> for change in sg.diff(a, b).changes:
    ...     print(change.before, "->", change.after)
    error = x @ w - 1 -> error = tanh(x @ w) - 1
    >>> bool(sg.diff(a, a))
    False
    """
    (first, before), (second, after) = map(_subject, (a, b))
    matching = Matching(first, second)
    writer = _Writer(matching)
    changes = [*_statements(writer), *_results(writer, before, after)]
    there = {matching.exact[x] for x in matching.nodes[0]}
    kept = [y for y in filter(is_call, matching.nodes[1]) if not writer.is_changed(y)]
    same = sum(matching.exact[y] in there for y in kept)
    common = dict(sorted(writer.common.items(), key=lambda item: int(item[0][1:])))
    return Difference(list(_inputs(matching)), changes, same, len(kept) - same, common)


def _subject(x: Any) -> tuple[Graph, Any]:
    """The graph of a program, and the tree of its results."""
    if isinstance(x, Compiled):
        leaves, structure = tree.flatten(x.program.outputs)
        images = iter(x.whole.outputs)
        results = [Variable(x.whole, next(images)) if isinstance(leaf, Variable) else leaf for leaf in leaves]
        return x.whole, tree.unflatten(structure, results)
    if isinstance(x, Program):
        return x.graph, x.outputs
    if isinstance(x, Graph):
        return x, [Variable(x, y) for y in x.outputs]
    raise ArgumentError(
        f"{type(x).__name__} is not a program to compare",
        "Give what Function.compile, Function.trace or sg.trace returns.",
    )


# ---- inputs


def _inputs(matching: Matching) -> Iterator[Change]:
    a, b = matching.graphs
    pairs = matching.inputs
    gone = [x for x in a.inputs if x not in pairs.values()]
    yield from (Change(_declared(x), "", "", "") for x in gone)
    for y in b.inputs:
        if y not in pairs:
            yield Change("", _declared(y), "", "")
        elif matching.sizes(y) != matching.sizes(pairs[y]):
            yield Change(_declared(pairs[y]), _declared(y), "", "")


def _declared(node: Node) -> str:
    return visible(f"{dict(node.params)['name']}: {types(node)}")


# ---- statements


def _statements(writer: _Writer) -> Iterator[Change]:
    """Yield the changed or added statements, in the order of the second program, then the removed ones."""
    first, second = writer.matching.nodes
    written: set[Node] = set()
    for y in (y for y in second if y in writer.statements):
        x = writer.matching.pairs.get(y)
        before, after = "" if x is None else writer.statement(x), writer.statement(y)
        if x is not None:
            written.add(x)
            if before == after:  # of another dtype or shape
                before, after = f"{before}  # {types(x)}", f"{after}  # {types(y)}"
        yield Change(before, after, y.where.in_words, visible(y.where.text))
    for x in (x for x in first if x in writer.statements):
        if x not in written:
            yield Change(writer.statement(x), "", x.where.in_words, visible(x.where.text))


def _results(writer: _Writer, before: Any, after: Any) -> Iterator[Change]:
    """Yield the change of the returned results, if they differ."""
    (left, structure), (right, other) = map(tree.flatten, (before, after))
    kind = writer.matching.kind
    kinds = [[kind[x.node] if isinstance(x, Variable) else repr(x) for x in xs] for xs in (left, right)]
    if structure != other or kinds[0] != kinds[1]:
        yield Change(writer.returned(left, structure), writer.returned(right, other), "", "")


class _Writer:
    """Writes what differs down to what both programs have, which goes by the same name in both."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.kinds = [{matching.kind[x] for x in nodes} for nodes in matching.nodes]
        pairs = list(zip(matching.graphs, matching.nodes, strict=True))
        self.names = {x: name for graph, nodes in pairs for x in nodes if (name := hinted(graph, x)) is not None}
        self.common: dict[str, str] = {}
        self._made_up: dict[int, str] = {}
        taken = set(self.names.values())
        self._free = (name for name in map("t{}".format, count(1)) if name not in taken)
        self.statements = {x for graph, nodes in pairs for x in self._found(graph, nodes)}

    def is_changed(self, node: Node) -> bool:
        """Whether the other program has nothing that is made in this way."""
        pair = self.matching.pairs.get(node)
        if pair is not None:
            return self.matching.changed(node, pair)
        return self.matching.kind[node] not in self.kinds[self.matching.is_first(node)]

    def _found(self, graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
        """Yield the changed nodes that get a line of their own, rather than a place in that of their user."""
        uses = times_used(nodes, graph.outputs)
        heights: dict[Node, int] = {}  # of what is shown in a line of something else
        for node in nodes:
            if not is_call(node) or not self.is_changed(node):
                continue
            height = 1 + max((heights.get(x, 0) for x in node.inputs), default=0)
            if node in self.matching.pairs or node in self.names or uses[node] > 1 or height > DEEPEST:
                yield node
            else:
                heights[node] = height

    def statement(self, node: Node) -> str:
        return visible(f"{self._name(node)} = {on_its_inputs(node, self._used).text}")

    def returned(self, leaves: Iterable[Any], structure: tree.TreeSpec) -> str:
        texts = [self._used(x.node).text if isinstance(x, Variable) else repr(x) for x in leaves]
        return visible(f"return {tree.written(structure, texts)}")

    def _name(self, node: Node) -> str:
        """The user's name of a value, or one that is made up, the same in both programs."""
        name = self.names.get(node) or self.names.get(self.matching.pairs.get(node, node))
        if name is None:
            kind = self.matching.kind[node]
            name = self._made_up.get(kind) or self._made_up.setdefault(kind, next(self._free))
        return name

    def _used(self, node: Node) -> Code:
        """A value where it is used: by a name, or as it is made."""
        plain = self._plain(node)
        if plain is not None:
            return plain
        if is_call(node) and self.is_changed(node):
            return on_its_inputs(node, self._used)
        code = at_a_glance(node, self._plain, SHOWN)
        if len(code.text) <= INLINE and CUT.text not in code.text:
            return code
        self.common.setdefault(self._name(node), cut_to(visible(code.text), LONGEST))
        return Code(self._name(node))

    def _plain(self, node: Node) -> Code | None:
        """A number, or a value that has a name; None for others."""
        if node in self.names or node in self.statements:
            return Code(self._name(node))
        is_given = is_input(node) or number(node) is not None
        return on_its_inputs(node, self._used) if is_given else None


# ---- text


def _rendered(difference: Difference) -> Iterator[str]:
    yield f"Operations in both: {difference.same} on the same values, {difference.follow} on values that were changed."
    here = None
    for change in (*difference.inputs, *difference.changes):
        heading = f"{change.where}  {change.text}" if not change.where.startswith("derivative") else change.where
        if heading != here and change.where:
            yield f"\n{heading}"
        elif not change.where and here != "":
            yield ""
        here = heading if change.where else ""
        yield from (f"  {sign} {text}" for sign, text in (("-", change.before), ("+", change.after)) if text)
    if difference.common:
        yield "\nin both"
        yield from (f"    {name} = {text}" for name, text in difference.common.items())
