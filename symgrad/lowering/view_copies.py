"""Copies of views that are read after an assignment into their base, which save copying the whole base.

In ``row = x[i]; x[i] = 0; y[j] = row`` the row is copied, and `x` can be written in place.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.analysis.aliases import roots_of, shares_memory
from symgrad.analysis.uses import users_of
from symgrad.core.graph import CONSTANT, Graph, Node
from symgrad.frontend.variable import Variable
from symgrad.lowering.region_aliases import overwritten
from symgrad.ops.index import GET
from symgrad.ops.shape import COPY
from symgrad.rewrite.engine import Made, copied


def copy_views(graph: Graph, numerics: str = "stable") -> Graph:
    """Copy views that are read after an assignment into their base, if nothing else keeps it from being in place."""
    search = _Search(graph)
    wanted = dict.fromkeys(x for node in graph.live for x in search.in_the_way_of(*overwritten(node)))
    return copied(graph, {x: _copy(x) for x in wanted}) if wanted else graph


def _copy(view: Node) -> Made:
    def made(new: Graph, image: Mapping[Node, Node]) -> Variable:
        part = new.add(view.op, tuple([image[x] for x in view.inputs]), view.params)
        return Variable(new, new.add(COPY, (part,)))

    return made


class _Search:
    """A search for views that keep an assignment from being in place."""

    def __init__(self, graph: Graph) -> None:
        self.place = {x: i for i, x in enumerate(graph.order)}
        self.users, self.roots, self.outputs = users_of(graph.live), roots_of(graph.live), set(graph.outputs)

    def in_the_way_of(self, base: Node | None, node: Node) -> list[Node]:
        """Return the views of an array that are read after `node` overwrites it; none if the whole array is."""
        if base is None or self.roots[base].op is CONSTANT:
            return []
        same, parts = [self.roots[base]], list[Node]()
        for x in same:
            views = [user for user in self.users[x] if shares_memory(user) and user.inputs[0] is x]
            parts += [view for view in views if view.op is GET]
            same += [view for view in views if view.op is not GET]
        late = [x for x in same if self.is_read_behind(x, node)]
        return [] if late else [x for x in parts if any(self.is_read_behind(y, node) for y in self.views_of(x))]

    def views_of(self, x: Node) -> list[Node]:
        """Return a value with all views of it."""
        found = [x]
        for view in found:
            found += [user for user in self.users[view] if shares_memory(user) and user.inputs[0] is view]
        return found

    def is_read_behind(self, x: Node, node: Node) -> bool:
        """Whether a value is an output, or read after a node."""
        behind = (user for user in self.users[x] if not shares_memory(user))
        return x in self.outputs or any(self.place[user] > self.place[node] for user in behind)
