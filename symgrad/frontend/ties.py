"""Ties: arrays that a branch chose, and the arrays that they alias, by a boolean; writes follow it.

Behind ``w = v[1:] if c else u`` a write into w reaches v where c holds, and u where it does not; a write into v reaches
w. What is tied is a forest, so that there is one way from each array to each other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Node
from symgrad.core.provenance import here
from symgrad.core.shapes import same_shape
from symgrad.ops import index


class Tie(NamedTuple):
    """An alias under a condition: where `truth` is `holds`, `result` is what `views` show of the memory of `owner`."""

    result: Any
    owner: Any
    views: tuple[Node, ...]
    truth: Node
    holds: bool

    def other(self, x: Any) -> Any:
        """Return the other one of the two."""
        return self.owner if x is self.result else self.result

    def reach(self, source: Any) -> None:
        """Propagate a write to one of the two to the other, where they alias."""
        target = self.other(source)
        if target.doubtful:
            return
        graph = target.graph
        array = lambda node: type(target)(graph, node)
        with graph.located(graph.provenance or here()):
            new = _put_back(self.views, target, source) if target is self.owner else _read(self.views, source)[-1]
            sides = (new, array(target.content)) if self.holds else (array(target.content), new)
            target.receive(np.where(array(self.truth), *sides).node)


def _read(views: Sequence[Node], owner: Any) -> list[Any]:
    """The content of some memory, and what each of the views shows of it."""
    found = [type(owner)(owner.graph, owner.content)]
    for view in views:
        node = owner.graph.add(view.op, (found[-1].content, *view.inputs[1:]), view.params)
        found.append(type(owner)(owner.graph, node))
    return found


def _put_back(views: Sequence[Node], owner: Any, source: Any) -> Any:
    """The content of some memory once the content of `source` is written into the last of its views."""
    content = type(owner)(owner.graph, source.content)
    for view, base in zip(reversed(views), reversed(_read(views, owner)[:-1]), strict=True):
        content = index.write_back(view, base, content)
    return content


def tied(x: Any) -> list[Any]:
    """The owner that is given, and all that it is tied to."""
    found = {id(x): x}
    waiting = [x]
    for y in waiting:
        new = {id(z): z for tie in y.ties if id(z := tie.other(y)) not in found}
        found |= new
        waiting += new.values()
    return waiting


def reach(written: Any) -> None:
    """Let a write reach all that is tied to the owner that was written into."""
    seen, waiting = {id(written)}, [written]
    for source in waiting:
        new = [tie for tie in source.ties if id(tie.other(source)) not in seen]
        for tie in new:
            tie.reach(source)
        waiting += {id(x): x for x in (tie.other(source) for tie in new)}.values()
        seen.update(map(id, waiting))


def ties_of(result: Any, cases: Sequence[Sequence[Any]], truth: Node, since: int) -> list[Tie]:
    """Return the ties of an array that a branch chose, [] where they are unknown or it is fresh.

    `since` is the number of nodes when the branch began: older nodes exist after it too.
    """
    found, apart = list[Tie](), dict[int, list[Any]]()  # what each owner is tied to
    for value, holds in [(x, holds) for case, holds in zip(cases, (True, False), strict=True) for x in case]:
        views = _views(value, since)
        if views is None or value.dtype != result.dtype or not same_shape(value.shape, result.shape):
            return []
        owner = value.owner
        if not owner.is_older(since):
            if len(owner.kin) > 1:
                return []
            continue
        together = tied(owner)
        is_joined = any(x is owner for at, others in apart.items() if at != id(owner) for x in others)
        if is_joined or any(x.has_kin for x in together):
            return []
        apart[id(owner)] = together
        found.append(Tie(result, owner, views, truth, holds))
    return found


def _views(x: Any, since: int) -> tuple[Node, ...] | None:
    """Return the nodes that read an array from its owner; None where they are not known after the branch."""
    found: list[Node] = []
    while x.base_view is not None:
        base, view = x.base_view
        if any(y.id >= since for y in view.inputs[1:]):
            return None
        found.append(view)
        x = base
    return tuple(reversed(found))
