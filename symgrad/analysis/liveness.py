"""Liveness: the last use of each piece of memory, and the memory released after each step.

A step is a node, or a statement of a program; a piece of memory goes by a value, or by a name.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from symgrad.analysis.aliases import memory_of
from symgrad.core.graph import Node

S = TypeVar("S", bound=Hashable)
M = TypeVar("M", bound=Hashable)


class Statement(Protocol):
    """A line of a program, which may make a value, and reads others by their names."""

    @property
    def makes(self) -> Node | None: ...

    @property
    def reads(self) -> Sequence[Node]: ...


def last_uses(steps: Iterable[tuple[S, Iterable[M]]]) -> dict[M, S]:
    """Return the last step that makes or reads each piece of memory."""
    return {memory: step for step, used in steps for memory in used}


def last_users(nodes: Iterable[Node], roots: Mapping[Node, Node]) -> dict[Node, Node]:
    """Return the last user, perhaps through a view, of each value with memory of its own."""
    return last_uses((node, [roots[x] for x in (node, *node.inputs)]) for node in nodes)


def most_held(nodes: Sequence[Node], size_of: Callable[[Node], int]) -> int:
    """Return the most that values of some nodes hold at once, each until its last use, perhaps through a view."""
    behind = released(last_uses((node, map(memory_of, (node, *node.inputs))) for node in nodes))
    made = {x for x in nodes if memory_of(x) is x}
    now = most = 0
    for node in nodes:
        now += size_of(node) if node in made else 0
        most = max(most, now)
        now -= sum(size_of(x) for x in behind.get(node, ()) if x in made)
    return most


def released(last: Mapping[M, S], kept: Container[M] = ()) -> dict[S, list[M]]:
    """Return by step the memory that no later step needs, nor the caller."""
    behind: dict[S, list[M]] = {}
    for memory, step in last.items():
        if memory not in kept:
            behind.setdefault(step, []).append(memory)
    return behind


def released_names(
    statements: Sequence[Statement],
    name_of: Callable[[Node], str],
    roots: Mapping[Node, Node],
    kept: Container[Node],
    worth: Container[Node],
    parts_of: Callable[[Node], Sequence[Node]] = lambda x: (x,),
) -> dict[int, list[str]]:
    """Return for each statement, by its number, the names to delete after it; the last one has none.

    An array that is written into passes its name on, and so does a view that a loop begins with: the name goes when the
    last value of that name does, whatever its size. By `roots` each value lies in the memory of another; what is `kept`
    is needed behind the last statement; `worth` has the owners of memory that is worth releasing, and `parts_of` which
    values with names a statement makes with a value.
    """
    made = [parts_of(s.makes) if s.makes else () for s in statements]
    last = last_uses(
        (i, [roots[x] for x in (*s.reads, *parts)]) for i, (s, parts) in enumerate(zip(statements, made, strict=True))
    )
    ends: dict[str, tuple[int, bool]] = {}  # when it goes, and whether that is worth a line
    still: set[str] = set()
    for x in (x for parts in made for x in parts):
        name, root = name_of(x), roots[x]
        if root in kept:
            still.add(name)
        elif last[root] > ends.get(name, (-1, False))[0]:
            ends.pop(name, None)  # behind the names that go with that statement already
            ends[name] = last[root], root in worth
    wanted = {name: i for name, (i, is_worth) in ends.items() if is_worth and i < len(statements) - 1}
    return released(wanted, still)
