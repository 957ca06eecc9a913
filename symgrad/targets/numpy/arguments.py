"""What stands before the body of a generated function: parts of arguments by their names, and symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from symgrad.core.graph import INPUT, Node
from symgrad.core.sizes import Dim, symbols_of
from symgrad.core.text import identifier
from symgrad.loops.loop import Block
from symgrad.spelling import Code, Name, call, several
from symgrad.targets.numpy.header import Header
from symgrad.targets.numpy.names import Names
from symgrad.targets.numpy.statements import Assign


def name_inputs(names: Names, header: Header) -> None:
    """Parameters go by their names in the body, parts of them by names that are free."""
    for node, leaf in header.inputs.items():
        if leaf.below:
            names.given(node, names.fresh(identifier(leaf.name)))
        else:
            names.given(node, header.local[leaf.parameter], leaf.parameter)


def lengths(nodes: Iterable[Node]) -> Iterator[str]:
    """What the bodies of loops call how many rows a block has."""
    for block in (value for node in nodes for _, value in node.params if isinstance(value, Block)):
        yield from map(str, (block.rows, *(bounds.rows for bounds in block.bounds)))


def symbols(nodes: Iterable[Node], of_inputs: bool) -> list[str]:
    """The symbolic sizes that the body mentions, or all of them."""
    found: dict[str, None] = {}
    for node in nodes:
        if node.op is not INPUT:
            found.update(dict.fromkeys(name for _, value in node.params for name in _symbols_in(value)))
        elif of_inputs:
            found.update(dict.fromkeys(_symbols_in(node.aval.shape)))
    return sorted(found)


def _symbols_in(value: Any) -> Iterable[str]:
    if isinstance(value, Dim):
        return symbols_of(value)
    if isinstance(value, Block):
        return _symbols_in(value.sizes)
    if isinstance(value, tuple):
        return [name for item in value for name in _symbols_in(item)]
    return ()


def unpacked(inputs: Iterable[Node], names: Names, header: Header, as_floats: bool = False) -> list[Assign]:
    """Statements that give parts of arguments their names."""
    found = []
    for node in inputs:
        name, place = names.of(node), header.place(node)
        if as_floats and not node.aval.weak:
            found.append(Assign((Name(name),), call("float", [place])))
        elif name != place:
            found.append(Assign((Name(name),), Code(place)))
    return found


def sizes(inputs: Iterable[Node], header: Header, wanted: Iterable[str]) -> list[Assign]:
    """Statements that read symbolic sizes off the shapes of the inputs."""
    missing, found = set(wanted), []
    for node in inputs:
        axes = [n.expr.name if isinstance(n, Dim) and n.expr.is_Symbol else "_" for n in node.aval.shape]
        there = missing.intersection(axes)
        if not there:
            continue
        shape = f"{header.place(node)}.shape"
        if there == set(axes) and len(there) == len(axes) > 1:
            found.append(Assign((several(list(map(Name, axes))),), Code(shape)))
        else:
            found += [Assign((Name(name),), Code(f"{shape}[{axes.index(name)}]")) for name in sorted(there)]
        missing -= there
    return found


def numbers(header: Header, wanted: Sequence[str]) -> list[Assign]:
    """Statements that read int arguments under the names of their symbols."""
    places = {name: header.local[leaf.parameter] + leaf.below for name, leaf in header.numbers.items()}
    return [Assign((Name(name),), Code(places[name])) for name in wanted if places.get(name, name) != name]
