"""Source on Python floats that runs again, unchanged, on NumPy scalars where Python raises."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from symgrad.core.graph import INPUT, ITEM, Node
from symgrad.core.region import Region
from symgrad.ops.astype import ASTYPE
from symgrad.ops.choice import WHERE
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import branch_of, loop_of
from symgrad.ops.index import GET
from symgrad.targets.numpy.heads import BREAK
from symgrad.targets.numpy.names import Numbers
from symgrad.targets.numpy.scalars import RAISED, is_path, may_raise
from symgrad.targets.numpy.statements import Statement, Suite, Verbatim, mentioned

NUMBERS = "_NUMBERS = (float, math), (np.float64, np)  # Python's are faster; NumPy's have infinities and NaNs"


def run_twice(statements: Sequence[Statement], numbers: Numbers, node: Node) -> list[Statement]:
    """Return statements that use floats and `math` by names, which are NumPy's in a second run if Python raises."""
    kind, functions = numbers.kind, numbers.functions
    if not mentioned((kind, functions), statements):
        return [*statements]
    again = Suite([f"if {functions} is np:"], [Verbatim(["raise"])])
    tried = Suite(["try:"], [*statements, BREAK], [Suite([RAISED], [again])])
    return [Suite([f"for {kind}, {functions} in _NUMBERS:"], [tried], makes=node, reads=node.inputs)]


# ---- which numbers are Python's in the second run


def find_pythons(node: Node, given: Sequence[bool], found: set[Node]) -> list[bool]:
    """Return which results of a branch or a loop are Python numbers in both runs; add inner ones to `found`.

    `given` says it of its inputs. Of Python's are numbers that the text holds, and that are taken out of arrays; what
    is computed of these alone; and what is one of several values of which one is Python's.
    """
    if node.op is COND:
        branch = branch_of(node)
        sides = [_find_in(side, given[1:], found) for side in (branch.other, branch.then)]
        return [any(pair) for pair in zip(*sides, strict=True)]
    loop = loop_of(node)
    carry, xs, consts = loop.split(given[1:])
    while True:
        results = _find_in(loop.body, [*carry, True, *[True] * len(xs), *consts], found)
        after = [a or b for a, b in zip(carry, results, strict=False)]
        if after == carry:
            break
        carry = after
    if loop.test is not None:
        _find_in(loop.test, [*carry, True, *consts], found)
    return [*carry, *[True] * (len(node.aval) - len(carry))]


def _find_in(region: Region, given: Sequence[bool], found: set[Node]) -> list[bool]:
    graph, several = region.body, {}
    found.update(compress(graph.inputs, given))
    for node in graph.nodes:
        if node.op is INPUT:
            continue
        flags = [x in found for x in node.inputs]
        if node.op is COND or node.op is SCAN:
            several[node] = find_pythons(node, flags, found)
        elif several[node.inputs[0]][dict(node.params)["index"]] if node.op is ITEM else _is_pythons(node, flags):
            found.add(node)
    return [y in found for y in graph.outputs]


def _is_pythons(node: Node, flags: Sequence[bool]) -> bool:
    """Whether a number is Python's in the second run, of which inputs that are."""
    form = node.op.scalar
    if node.aval.weak or node.op is GET:
        return True
    if isinstance(form, str) and form != "abs":
        return not is_path(form)  # one that chooses between numbers
    if node.op is WHERE:
        return any(flags[1:])
    converts = node.op is ASTYPE and node.inputs[0].aval.dtype.kind not in ("f", node.aval.dtype.kind)
    return not converts and not node.op.package and not may_raise(node) and all(flags)
