"""Loops over scalars, on Python floats: ten times as fast as on NumPy's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from symgrad.core.graph import CONSTANT, Node
from symgrad.core.region import Region
from symgrad.lowering.placement import Placement
from symgrad.ops.control_parts import loop_of
from symgrad.ops.join import STACK
from symgrad.spelling import ATOM, Call, Code, Name, call, spell_number
from symgrad.targets.numpy.names import FLOATS, Numbers, Scope
from symgrad.targets.numpy.scalars import BOOL, ScalarBody, may_raise
from symgrad.targets.numpy.scans import LoopPrinter
from symgrad.targets.numpy.second_run import find_pythons, run_twice
from symgrad.targets.numpy.statements import Assign
from symgrad.targets.numpy.structured import Structured


def write_float_loop(outer: Structured, node: Node) -> None:
    """Write a loop over scalars; where Python may raise and NumPy does not, it runs again on NumPy's scalars."""
    if not may_raise(node):
        FloatLoop(outer, node).write()
        return
    for x in node.inputs:
        outer.named(x)
    TriedLoop(outer, node).write()


class FloatLoop(LoopPrinter):
    """The source of a loop whose numbers are Python's; arrays of which it takes them stay arrays."""

    numbers = FLOATS

    def _part(self, placed: Placement, region: Region) -> Structured:
        return self.outer.part(self.node, placed, region, deeper=1, like=self._body)

    def _body(self, placed: Placement, scope: Scope) -> ScalarBody:
        return ScalarBody(placed, replace(scope, numbers=self.numbers))

    def write(self) -> None:
        self._write_loop()
        for i, item in self.items.items():
            if i < self.carried and not item.aval.weak and not item.aval.shape and not self._is_for_an_array(item):
                name = self.outer.name(item)
                kind = "np.bool_" if item.aval.dtype == BOOL else "np.float64"
                self.outer.written.append(Assign((name,), call(kind, [name.text])))

    def _write_loop(self) -> None:
        super().write()

    def _is_for_an_array(self, item: Node) -> bool:
        """Whether a number goes into arrays alone, which make it NumPy's."""
        return item not in self.outer.placed.outputs and all(user.op is STACK for user in self.outer.placed.uses[item])

    # ---- NumPy's numbers as Python's

    def _given(self, x: Node) -> Code:
        code = self.outer.named(x)
        if _is_python(x):
            return code
        if x.op is CONSTANT:
            return _spelled(x)
        name = self.outer.floats.get(x)
        if name is None:
            name = Name(self.outer.names.fresh(f"{code.text}_" if isinstance(code, Name) else "scalar"))
            self.outer.floats[x] = name
            self.outer.written.append(Assign((name,), _converted(x, code), reads=(x,)))
        return name

    def _go_on(self, x: Node, copied: bool) -> Name:
        name = super()._go_on(x, copied)
        if not _is_python(x):
            self.outer.written.append(Assign((name,), _converted(x, name), reads=(x,)))
        return name

    def _started(self, x: Node, code: Code) -> Code:
        if x.op is CONSTANT and not x.aval.shape:
            return _spelled(x)
        return code if _is_python(x) else _converted(x, code, self.numbers.kind)

    def _row(self, x: Node, array: Code) -> Code:
        if x in self.outer.placed.lists:
            return super()._row(x, array)
        return call(f"{array.at(ATOM)}.item", [self.count.text])

    def _every_row(self, x: Node, array: Code) -> str:
        numbers = array.text if x in self.outer.placed.lists else f"{array.at(ATOM)}.tolist()"
        return f"reversed({numbers})" if self.reverse else numbers


class TriedLoop(FloatLoop):
    """A loop on Python floats, and by the same text on NumPy scalars where those raise."""

    is_tried = True

    def __init__(self, outer: Structured, node: Node) -> None:
        names, loop = outer.names, loop_of(node)
        starts = [c.init.op is CONSTANT or _is_python(c.init) for c in loop.carry]
        others = [True] * (len(node.inputs) - 1 - len(starts))  # converted before, for other loops as well
        pythons: set[Node] = set()
        find_pythons(node, [True, *starts, *others], pythons)
        self.numbers = Numbers(names.local("number"), names.local("m"), pythons)
        super().__init__(outer, node)

    def _write_loop(self) -> None:
        outer = self.outer
        before, outer.written = outer.written, []
        super()._write_loop()
        outer.written = [*before, *run_twice(outer.written, self.numbers, self.node)]


def _is_python(x: Node) -> bool:
    return bool(x.aval.weak or x.aval.shape)


def _spelled(constant: Node) -> Code:
    """A number as one of Python's."""
    return spell_number(np.asarray(constant.constant).item(), True)


def _converted(x: Node, code: Code, kind: str = "float") -> Code:
    given = code.arguments if isinstance(code, Call) and code.function == "np.float64" else [code.text]
    return call("bool" if x.aval.dtype == BOOL else kind, given)
