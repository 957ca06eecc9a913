"""Values known while tracing: those computed from constants alone, or from sizes that have a number."""

from __future__ import annotations

from enum import IntEnum
from typing import Any
from weakref import WeakKeyDictionary

from symgrad.core.graph import INPUT, SEED, SIZE, Node, needed
from symgrad.core.interpret import evaluate
from symgrad.core.region import Region
from symgrad.core.sizes import Dim, symbols_of
from symgrad.ops.marks import ALIAS


class Known(IntEnum):
    """Dependence of a node's value: the least of its inputs' members."""

    NO = 0  # on an argument
    MARKED = 1  # on constants, of which one is differentiated by: a number made of it would lose its derivative
    SIZED = 2  # on symbolic sizes
    YES = 3  # on constants alone


_known: WeakKeyDictionary[Node, Known] = WeakKeyDictionary()
_values: WeakKeyDictionary[Node, Any] = WeakKeyDictionary()


def known(node: Node) -> Known:
    """Whether the value of a node is known before the program runs, and what it depends on."""
    if node not in _known:
        for x in needed([node], _known):
            _known[x] = min((_of_itself(x), *(_known[y] for y in x.inputs)))
    return _known[node]


def _of_itself(node: Node) -> Known:
    if node.op in (INPUT, SEED):
        return Known.NO
    if node.op is ALIAS:
        return Known.MARKED
    return Known.SIZED if node.op is SIZE or sizes_in(node.params) else Known.YES


def is_constant(x: Any) -> bool:
    """Whether a Variable may be replaced by its value: a floating one not where something differentiates by it."""
    least = Known.MARKED if x.dtype.kind in "biu" else Known.YES
    return known(x.node) in (least, Known.YES)


def value_of(node: Node) -> Any:
    """The value of a node that is known; symbolic sizes that it depends on are pinned to the numbers at hand.

    Raises
    ------
    SymbolicSizeError
        If they have none.
    """
    if known(node) is Known.YES:
        for x in needed([node], _values):
            _values[x] = evaluate(x, _values, {})
        return _values[node]
    numbers = {symbol: n for size in sizes_of(node) for symbol, n in _pinned(size).items()}
    values: dict[Node, Any] = {}
    for x in needed([node], ()):
        values[x] = evaluate(x, values, numbers)
    return values[node]


def sizes_of(node: Node) -> list[Dim]:
    """The symbolic sizes that a value was made of."""
    return [] if known(node) is Known.YES else [size for x in needed([node], ()) for size in sizes_in(x.params)]


def sizes_in(value: Any) -> list[Dim]:
    """The symbolic sizes in a parameter of a node."""
    if isinstance(value, Dim):
        return [value]
    if isinstance(value, Region):
        return [size for node in value.nodes for size in sizes_in(node.params)]
    return [size for item in value for size in sizes_in(item)] if isinstance(value, tuple) else []


def _pinned(size: Dim) -> dict[str, int]:
    size.scope.pin(size)
    return {name: size.scope.pinned[name] for name in symbols_of(size)}
