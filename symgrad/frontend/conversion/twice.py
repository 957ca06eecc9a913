"""Compare two traces of one body: where they differ, the body reads state that the graph does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Signature
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from symgrad.core.graph import SEED, Chain, Node
from symgrad.core.region import Region, regions_of
from symgrad.core.sizes import Dim, is_counted, symbols_of
from symgrad.errors import UnsupportedError
from symgrad.frontend.conversion.mutable import is_same
from symgrad.frontend.conversion.state import Held, Journal, Snapshot
from symgrad.frontend.static import content
from symgrad.frontend.variable import Variable


def is_traced_twice(journal: Journal) -> bool:
    """Whether to trace a body twice: the outermost one, whose traces include those of inner ones."""
    outer = journal.outer
    while outer is not None:
        if outer.branch or outer.repeated:
            return False
        outer = outer.outer
    return True


class DifferingTracesError(UnsupportedError):
    """Two traces of one body differ. It cannot run in Python either: its changes cannot be undone."""


def differing(kind: str) -> DifferingTracesError:
    """Return the error for a body that does not give the same twice."""
    return DifferingTracesError(
        f"{kind} gives different results when it is traced twice: it reads and changes state that a trace cannot see",
        "Keep its state in variables, lists, dicts or attributes; draw random numbers and read files before it.",
    )


class Alike:
    """Whether values of two traces correspond to each other.

    A node may correspond to several: one trace may find a value where the other computes it once more. Symbols of sizes
    that only the running program knows are new in each trace: they are taken to stand for each other.
    """

    def __init__(self, pairs: Sequence[tuple[Node, Node]] = ()) -> None:
        self._pairs = {*pairs}  # that correspond, or are being compared
        self._of_first = {x for x, _ in pairs}  # nodes of the first trace alone
        self._shared = set[Node]()  # nodes that both traces use
        self._met: set[tuple[int, int]] = set()  # objects that are being compared, or have been

    def nodes(self, xs: Sequence[Node], ys: Sequence[Node]) -> bool:
        """Whether the nodes compute the same, pair by pair."""
        waiting = [*zip(xs, ys, strict=True)]
        while waiting:
            x, y = waiting.pop()
            if (x, y) in self._pairs:
                continue
            (self._shared if x is y else self._of_first).add(x)
            if x in self._of_first and x in self._shared:  # the second trace has found a value of the first one
                return False
            if x is y:
                continue
            if x.op is not y.op or x.op is SEED or len(x.params) != len(y.params):
                return False
            if not all(self._params(*pair) for pair in zip(x.params, y.params, strict=True)):
                return False
            pairs = self._operands(x, y)
            if pairs is None:
                return False
            self._pairs.add((x, y))
            waiting += pairs
        return True

    def _operands(self, x: Node, y: Node) -> list[tuple[Node, Node]] | None:
        """Return the pairs of nodes that must correspond for two nodes to do so; None where their numbers differ.

        What a region reads of the nodes around it is followed in its results: two traces may order it in two ways.
        """
        (own, results, inputs), (own_y, results_y, inputs_y) = _opened(x), _opened(y)
        if (len(own), len(results), len(inputs)) != (len(own_y), len(results_y), len(inputs_y)):
            return None
        self._pairs.update(zip(own, own_y, strict=True))
        self._of_first.update(own)
        return [*zip(results, results_y, strict=True), *zip(inputs, inputs_y, strict=True)]

    def held(self, a: Held, b: Held) -> bool:
        """Whether two values of a name or a place are alike; objects that are no numbers, by their type."""
        if a.value is b.value:
            return True
        if a.structure != b.structure:
            return False
        for x, y, m, n in zip(a.leaves, b.leaves, a.nodes, b.nodes, strict=True):
            if (m is None) != (n is None) or not (m is n or type(x) is type(y)):
                return False
            if m is not None and n is not None and not self.nodes([m], [n]):
                return False
            if m is None and not is_same(x, y) and type(x) in (bool, int, float, complex, str, bytes):
                return False
        return True

    def snapshots(self, a: Snapshot, b: Snapshot) -> bool:
        """Whether two runs of the same statements have the same effects."""
        if a.names.keys() != b.names.keys() or a.places.keys() != b.places.keys() or a.forms.keys() != b.forms.keys():
            return False
        pairs = [(a.names[name], b.names[name]) for name in a.names]
        pairs += [(a.places[key][2], b.places[key][2]) for key in a.places]
        memory = [(a.memory[key][2], b.memory[key][2]) for key in a.memory if key in b.memory]
        return self._chains(a.chain, b.chain) and all(
            [*(self.held(*pair) for pair in pairs), *(self.nodes([x], [y]) for x, y in memory)]
        )

    def _chains(self, a: Chain, b: Chain) -> bool:
        """Whether two bodies make the same checks."""
        if a.first is not None and b.first is not None:
            self._pairs.add((a.first, b.first))
        checks = [[x for x in (chain.last,) if x is not None] for chain in (a, b)]
        return len(checks[0]) == len(checks[1]) and self.nodes(*checks)

    def _params(self, a: tuple[str, Any], b: tuple[str, Any]) -> bool:
        (name, x), (key, y) = a, b
        return name == key and (name in _NAMES_OF_ONE_TRACE or self._values(x, y))

    def _values(self, x: Any, y: Any) -> bool:
        if is_same(x, y) or (isinstance(x, Region) and isinstance(y, Region)):  # see _operands
            return True
        if type(x) is not type(y):
            return bool(x == y)
        if isinstance(x, Node):
            return self.nodes([x], [y])
        if isinstance(x, Variable):
            return self.nodes([x.node], [y.node])
        if type(x) in (tuple, list):
            return len(x) == len(y) and all(map(self._values, x, y))
        if type(x) is dict:
            return x.keys() == y.keys() and all(self._values(x[key], y[key]) for key in x)
        if isinstance(x, Dim):
            return _may_be_same(x, y)
        if isinstance(x, np.ndarray):
            return bool(content(x) == content(y))
        return self._objects(x, y)

    def _objects(self, x: Any, y: Any) -> bool:
        """Whether two objects are equal, or may have been made anew by the same statements: functions and their rules
        of derivatives, which hold values that are alike.
        """
        if (id(x), id(y)) in self._met or isinstance(x, Signature):  # which is that of a function
            return True
        self._met.add((id(x), id(y)))
        if isinstance(x, FunctionType):
            return x.__code__ == y.__code__ and self._values(_held_by(x), _held_by(y))
        if isinstance(x, MethodType):
            return self._values((x.__func__, x.__self__), (y.__func__, y.__self__))
        return bool(x == y) or (hasattr(x, "__dict__") and self._values(vars(x), vars(y)))


def _held_by(function: FunctionType) -> tuple[Any, ...]:
    """Return the values that a function closes over, and its defaults."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    return cells, function.__defaults__, function.__kwdefaults__


def _opened(node: Node) -> tuple[list[Node], list[Node], Sequence[Node]]:
    """Return the parameters of the regions of a node alone, their results, and the inputs that they do not read."""
    regions = regions_of(node)
    parameters = dict.fromkeys(p for region in regions for p in region.parameters)
    own = [p for p in parameters if p not in node.inputs]
    read = len(parameters) - len(own)
    return own, [y for region in regions for y in region.results], node.inputs[: len(node.inputs) - read]


_NAMES_OF_ONE_TRACE = {"own", "place", "tag", "turns"}


def _may_be_same(x: Dim, y: Dim) -> bool:
    """Whether two sizes are equal but for symbols that are new in each trace."""
    if is_counted(x) or is_counted(y):
        return True
    a, b = set(symbols_of(x)), set(symbols_of(y))
    return a != b or str(x) == str(y)
