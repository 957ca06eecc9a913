"""Loops over single numbers, on Python's floats: ten times as fast as on NumPy's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.core.graph import CONSTANT, Node
from symgrad.core.region import Region
from symgrad.ops.join import STACK
from symgrad.spelling import ATOM, Call, Code, Name, call, spell_number
from symgrad.targets.numpy.names import Scope
from symgrad.targets.numpy.scalars import BOOL, EXCEPT, ScalarBody, may_raise
from symgrad.targets.numpy.scans import Loop
from symgrad.targets.numpy.statements import Assign, Suite
from symgrad.targets.numpy.structured import Structured


def write_float_loop(outer: Structured, node: Node) -> None:
    """A loop over single numbers; where Python may raise, and NumPy goes on, once more with NumPy."""
    if not may_raise(node):
        FloatLoop(outer, node).write()
        return
    for x in node.inputs:
        outer.named(x)
    loop = FloatLoop(outer, node, is_tried=True)
    before, outer.written = outer.written, []
    loop.write()
    floats, outer.written = outer.written, []
    Loop(outer, node, twin=loop).write()
    tried = Suite(["try:"], floats, [Suite([EXCEPT], outer.written)], makes=node, reads=node.inputs)
    outer.written = [*before, tried]


class FloatLoop(Loop):
    """The source of a loop whose numbers are Python's; arrays of which it takes them stay arrays."""

    def __init__(self, outer: Structured, node: Node, is_tried: bool = False) -> None:
        self.is_tried = is_tried
        super().__init__(outer, node)

    def _part(self, region: Region, results: Sequence[Node]) -> Structured:
        return self.outer.part(self.node, region, results, deeper=1, like=_body)

    def write(self) -> None:
        super().write()
        for i, item in self.items.items():
            if i < self.carried and not item.aval.weak and not item.aval.shape and not self._is_for_an_array(item):
                name = self.outer.name(item)
                kind = "np.bool_" if item.aval.dtype == BOOL else "np.float64"
                self.outer.written.append(Assign((name,), call(kind, [name.text])))

    def _is_for_an_array(self, item: Node) -> bool:
        """Whether a number goes into arrays alone, which make it NumPy's."""
        return item not in self.outer.outputs and all(user.op is STACK for user in self.outer.uses[item])

    def makes(self, item: Node) -> bool:
        return not self.is_tried and not item.aval.shape

    def is_listed(self, item: Node) -> bool:
        return True

    # ---- NumPy's numbers as Python's

    def _given(self, x: Node) -> Code:
        code = self.outer.named(x)
        if _is_python(x):
            return code
        if x.op is CONSTANT:
            return _spelled(x)
        name = self.outer.floats.get(x)
        if name is None:
            name = Name(self.outer.names.fresh(f"{code.text}_" if isinstance(code, Name) else "number"))
            self.outer.floats[x] = name
            self.outer.written.append(Assign((name,), _converted(x, code), reads=(x,)))
        return name

    def _may_go_on(self, x: Node) -> bool:
        return not self.is_tried and super()._may_go_on(x)

    def _go_on(self, x: Node, copied: bool) -> Name:
        name = super()._go_on(x, copied)
        if not _is_python(x):
            self.outer.written.append(Assign((name,), _converted(x, name), reads=(x,)))
        return name

    def _started(self, x: Node, code: Code) -> Code:
        if x.op is CONSTANT and not x.aval.shape:
            return _spelled(x)
        return code if _is_python(x) else _converted(x, code)

    def _row(self, x: Node, array: Code) -> Code:
        if x in self.outer.lists:
            return super()._row(x, array)
        return call(f"{array.at(ATOM)}.item", [self.count.text])

    def _every_row(self, x: Node, array: Code) -> str:
        numbers = array.text if x in self.outer.lists else f"{array.at(ATOM)}.tolist()"
        return f"reversed({numbers})" if self.reverse else numbers


def _body(outputs: Sequence[Node], scope: Scope) -> ScalarBody:
    return ScalarBody(outputs, scope)


def _is_python(x: Node) -> bool:
    return bool(x.aval.weak or x.aval.shape)


def _spelled(constant: Node) -> Code:
    """A number as one of Python's."""
    return spell_number(np.asarray(constant.constant).item(), True)


def _converted(x: Node, code: Code) -> Code:
    given = code.arguments if isinstance(code, Call) and code.function == "np.float64" else [code.text]
    return call("bool" if x.aval.dtype == BOOL else "float", given)
