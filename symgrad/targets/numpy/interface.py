"""The interface of a generated function: arguments taken apart, sizes read, results returned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from symgrad.core.graph import INPUT, SEED, Node
from symgrad.core.sizes import Dim, is_symbol, symbols_of
from symgrad.core.text import displayed, double_quoted, identifier, literal, on_one_line
from symgrad.loops.loop import Block
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.spelling import Code, Name, call, several
from symgrad.targets.numpy.body import Body
from symgrad.targets.numpy.header import Header
from symgrad.targets.numpy.names import Names
from symgrad.targets.numpy.statements import Assign, Evaluate, returned


def name_inputs(names: Names, header: Header) -> None:
    """Parameters go by their names in the body, parts of them by names that are free."""
    for node, leaf in header.inputs.items():
        if leaf.below:
            names.given(node, names.fresh(identifier(leaf.name)))
        else:
            names.given(node, header.local[leaf.parameter], leaf.parameter)


def lengths(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the names that loops use for the number of rows of a block."""
    for block in (value for node in nodes for _, value in node.params if isinstance(value, Block)):
        yield from map(str, (block.rows, *(bounds.rows for bounds in block.bounds)))


def symbols(nodes: Iterable[Node], of_inputs: bool) -> list[str]:
    """The symbolic sizes that the body mentions, or all of them."""
    found: set[str] = set()
    nodes = list(nodes)
    for node in nodes:
        if node.op is SCAN:  # the symbols of its length are those of an input, or come of it
            avals: Any = node.aval
            _add_symbols(found, tuple([aval.shape[1:] for aval in avals]))
        elif node.op is not INPUT and node.op is not SEED:
            for _, value in node.params:
                _add_symbols(found, value)
        elif of_inputs:
            _add_symbols(found, node.aval.shape)
    return sorted(found - set(places(nodes)))


def places(nodes: Iterable[Node]) -> list[str]:
    """Return the names of loop counters that are sizes."""
    found = (loop_of(node).index_size for node in nodes if node.op is SCAN)
    return sorted({name for name in found if name is not None})


def _add_symbols(found: set[str], value: Any) -> None:
    if isinstance(value, tuple):
        for item in value:
            _add_symbols(found, item)
    elif isinstance(value, Dim):
        found.update(symbols_of(value))
    elif isinstance(value, Block):
        _add_symbols(found, value.sizes)


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
        axes = [str(n) if isinstance(n, Dim) and is_symbol(n) else "_" for n in node.aval.shape]
        there = missing.intersection(axes)
        if not there:
            continue
        shape = f"{header.place(node)}.shape"
        if there == set(axes) and len(there) == len(axes) > 1:
            found.append(Assign((several(axes),), Code(shape)))
        else:
            found += [Assign((Name(name),), Code(f"{shape}[{axes.index(name)}]")) for name in sorted(there)]
        missing -= there
    return found


def numbers(header: Header, wanted: Sequence[str]) -> list[Assign]:
    """Statements that read int arguments under the names of their symbols."""
    places = {name: header.local[leaf.parameter] + leaf.below for name, leaf in header.numbers.items()}
    return [Assign((Name(name),), Code(places[name])) for name in wanted if places.get(name, name) != name]


def returned_tree(tree: Any, body: Body, outputs: Sequence[Node]) -> Evaluate:
    """The statement that returns a tree of results, and computes one of them perhaps."""
    makes = next((y for y in outputs if body.read(y).depth), None)
    return returned(Code(_spell_tree(tree, body.results(outputs))), makes)


def _spell_tree(tree: Any, spellings: dict[Node, tuple[Code, Code]]) -> str:
    """A tree of results as a Python expression."""

    def leaf(x: Any) -> str:
        if isinstance(x, Node):
            code, again = spellings[x]
            spellings[x] = again, again
            return code.text
        value = literal(x)
        assert value is not None, f"{x!r} is no result of a program"
        return double_quoted(value)

    spelled = displayed(tree, leaf=leaf)
    assert spelled is not None, "keys of results have a form in source"
    text = on_one_line(spelled)
    return text[1:-1] if isinstance(tree, tuple) and tree else text
