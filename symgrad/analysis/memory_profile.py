"""Memory profile of a program, line by line: what is allocated, its name, and where it is released."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from symgrad.analysis.aliases import copies, shares_memory
from symgrad.analysis.liveness import last_uses, released
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SIZE, Aval, Node
from symgrad.core.shapes import product, same_shape
from symgrad.core.sizes import same

GIVEN = (INPUT, CONSTANT, SIZE)
ELIDED_FROM = 1 << 18  # bytes from which on NumPy lets operators write over an operand that nobody else can see


class Step(NamedTuple):
    """A line of a program: its value, or one for each part, the names that it gives, and those released after it."""

    node: Node | None
    names: tuple[str, ...]
    released: tuple[str, ...] = ()


class Storage:
    """A piece of memory, and how many names and values waiting for their use hold it."""

    def __init__(self, size: Any) -> None:
        self.size, self.users = size, 0


def nbytes(aval: Any) -> Any:
    """Return the bytes of a value."""
    return product(aval.shape) * aval.dtype.itemsize if isinstance(aval, Aval) else sum(map(nbytes, aval))


def memory_profile(steps: Iterable[Step], outputs: Sequence[Node]) -> list[Any]:
    """Return the bytes held after each allocation; arguments and constants do not count."""
    heap = Heap()
    for step in steps:
        heap.line(step)
    heap.results(outputs)
    return heap.totals


def one_by_one(nodes: Sequence[Node], outputs: Sequence[Node]) -> Iterator[Step]:
    """The steps of a program that computes node by node, and lets go of each value after its last use."""
    last = last_uses((node, [name for x in (node, *node.inputs) for name in _names(x)]) for node in nodes)
    behind = released(last, {name for y in outputs for name in _names(y)})
    for node in nodes:
        if node.op not in GIVEN and node.op is not ITEM:
            yield Step(node, _names(node), tuple(behind.get(node, ())))


def _names(node: Node) -> tuple[str, ...]:
    """Names for the parts of a value."""
    if node.op is ITEM:
        return (_names(node.inputs[0])[dict(node.params)["index"]],)
    if isinstance(node.aval, Aval):
        return (f"{node.id}",)
    return tuple(f"{node.id}.{i}" for i in range(len(node.aval)))


class Heap:
    """The memory held while a program runs."""

    def __init__(self) -> None:
        self.totals: list[Any] = [0]
        self._live: Any = 0
        self._names: dict[str, Storage | None] = {}
        self._known: dict[Node, Storage | None] = {}
        self._parts: dict[Node, list[Storage]] = {}

    # ---- lines

    def line(self, step: Step) -> None:
        if step.node is not None and not isinstance(step.node.aval, Aval):
            self._unpack(step.node, step.names)
        elif step.node is not None and step.node.op.assigns and step.names[0] in self._names:
            self._write(step.node, step.names[0])
        elif step.node is not None:
            self._known[step.node] = self._first(step.node)
            self._bind(step.names[0], self._known[step.node])
        for name in step.released:
            self._drop(self._names.pop(name, None))

    def _first(self, node: Node) -> Storage | None:
        """The value of a line, which no other has computed."""
        if node.op is ITEM:  # an array that a loop fills
            return self._new(node)
        if not node.op.assigns:
            storage, waits = self._value(node)
            if waits and storage is not None:
                storage.users -= 1  # the name holds it from now on
            return storage
        operands = self._values(node.inputs)  # of which the first is copied
        copy = self._new(node)
        self._let_go(operands)
        return copy

    def _write(self, node: Node, name: str) -> None:
        """Note a value that is written into existing memory, which this name holds."""
        self._let_go(self._values(node.inputs[1:]))
        self._known[node] = self._names[name]

    def _unpack(self, node: Node, names: Sequence[str]) -> None:
        operands = self._values(node.inputs)
        parts = []
        for name, aval in zip(names, node.aval, strict=True):
            there = self._names.get(name) if name != "_" else None  # filled by a loop
            parts.append(there or self._made(nbytes(aval)))
            self._bind(name, parts[-1])
        self._parts[node] = parts
        self._let_go(operands)

    def results(self, outputs: Sequence[Node]) -> None:
        """Note the results: each is an array of its own, so one that shares memory with another is copied."""
        given: set[Storage | None] = {None}
        for y in dict.fromkeys(outputs):
            storage, _ = self._value(y)
            if storage in given:
                self._new(y)
            given.add(storage)

    # ---- values

    def _value(self, node: Node) -> tuple[Storage | None, bool]:
        """The memory of a value, None for the caller's; and whether it is computed here and waits for its use."""
        if node in self._known:
            return self._known[node], False
        if node.op in GIVEN:
            return None, False
        whole = node.inputs[0] if node.op is ITEM else node
        if whole in self._parts:
            return self._parts[whole][dict(node.params)["index"]], False
        operands = self._values(whole.inputs)
        storage = self._new(node) if node.op is ITEM else self._result(node, operands)  # of a branch in an expression
        self._hold(storage)
        self._let_go(operands)
        return storage, True

    def _values(self, nodes: Iterable[Node]) -> list[tuple[Storage | None, bool]]:
        return [self._value(x) for x in nodes]

    def _result(self, node: Node, operands: Sequence[tuple[Storage | None, bool]]) -> Storage | None:
        if shares_memory(node) and not copies(node):
            return operands[0][0]
        return self._overwritten(node, operands) or self._new(node)

    def _overwritten(self, node: Node, operands: Sequence[tuple[Storage | None, bool]]) -> Storage | None:
        """Return the memory of the operand that NumPy lets the result overwrite; None if there is none."""
        if not node.op.elided:
            return None
        size = nbytes(node.aval)
        if isinstance(size, int) and size < ELIDED_FROM:
            return None
        for x, (storage, waits) in list(zip(node.inputs, operands, strict=True))[: 1 + node.op.commutes]:
            alike = x.aval.dtype == node.aval.dtype and same_shape(x.aval.shape, node.aval.shape)
            if waits and alike and storage is not None and storage.users == 1 and same(storage.size, size):
                return storage
        return None

    # ---- storage

    def _new(self, node: Node) -> Storage:
        return self._made(nbytes(node.aval))

    def _made(self, size: Any) -> Storage:
        self._live = self._live + size
        self.totals.append(self._live)
        return Storage(size)

    def _bind(self, name: str, storage: Storage | None) -> None:
        self._hold(storage)
        self._drop(self._names.pop(name, None))
        self._names[name] = storage

    def _hold(self, storage: Storage | None) -> None:
        if storage is not None:
            storage.users += 1

    def _let_go(self, operands: Iterable[tuple[Storage | None, bool]]) -> None:
        for storage, waits in operands:
            if waits:
                self._drop(storage)

    def _drop(self, storage: Storage | None) -> None:
        if storage is not None:
            storage.users -= 1
            if not storage.users:
                self._live = self._live - storage.size
