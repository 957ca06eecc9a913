"""Lists and dicts behind a branch, or a loop: others may be the same object, which only running the program tells.

What holds one of two is a container of its own here. So none of them may change from then on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from symgrad.core.graph import Graph
from symgrad.core.provenance import Where, here
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.contents import Contents
from symgrad.frontend.conversion.jumps import called_by
from symgrad.frontend.conversion.mutable import Place
from symgrad.frontend.conversion.state import Run


class Watched(NamedTuple):
    """A container that stands for one of several, all with what they held when it was made."""

    place: Place
    contents: Contents
    where: Where


def watch(graph: Graph, run: Run, place: Place, chosen: Any, *sides: Any) -> None:
    """Let containers not change of which `chosen`, which is held at a place, is one: `sides` that others hold, too."""
    shared = [x for x in sides if x is not chosen and run.is_held_elsewhere(x, place)]
    if shared:
        names = {f".{i}": x for i, x in enumerate(shared)}
        graph.watched.append(Watched(place, Contents({place.name: chosen, **names}), here()))


def check_watched(graph: Graph) -> None:
    """Raise if one of these has changed."""
    for place, contents, where in graph.watched:
        if contents.has_changed():
            name = called_by(place.name)
            raise UnsupportedError(
                f"{name} is one of several lists or dicts, depending on traced values, and one of them is changed",
                "Take a copy where it is bound, [*x] or dict(x), and write into that.",
                where,
            )
