"""Sets of rules, filed by what their left sides need, so that few of them are tried at a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from symgrad.core.graph import CONSTANT, INPUT, Node, Op
from symgrad.rewrite.pattern import features, needed_features
from symgrad.rewrite.rules import Procedure, Rule


class Filed(NamedTuple):
    """A rule, and what it needs: operators of inputs, and features."""

    rule: Rule
    ops: frozenset[Op]
    features: set[tuple[Op, Any]]


@dataclass
class Entry:
    """The rules whose left side has one operator at its root."""

    procedures: Sequence[Procedure] = field(default_factory=list)
    by_input: dict[Op, list[Filed]] = field(default_factory=dict)
    met: dict[tuple[Op, ...], list[Filed]] = field(default_factory=dict)  # by the inputs' operators, as they come up
    repeated: list[Rule] = field(default_factory=list)  # two inputs are the same
    general: list[Rule] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.procedures or self.by_input or self.repeated or self.general)

    def candidates(self, node: Node) -> list[Rule]:
        filed = self._filed(tuple([x.op for x in node.inputs])) if self.by_input else []
        found = features(node) if filed else set()
        rules = [each.rule for each in filed if each.features <= found]
        if self.repeated and len(set(node.inputs)) < len(node.inputs):
            rules += self.repeated
        return rules + self.general

    def _filed(self, ops: tuple[Op, ...]) -> list[Filed]:
        filed = self.met.get(ops)
        if filed is None:
            found = chain.from_iterable(self.by_input.get(op, ()) for op in dict.fromkeys(ops))
            filed = self.met[ops] = [each for each in found if each.ops.issubset(ops)]
        return filed


class Rules:
    """Rules by the operator at the root of their left side, the larger side first."""

    def __init__(self, rules: Iterable[Rule], procedures: Callable[[Op], Sequence[Procedure]]) -> None:
        self.procedures = procedures
        self.entries: dict[Op, Entry] = {}
        # the sort is stable: among equals the order of the tables decides
        for r in sorted(rules, key=lambda r: -len(r.pattern.made)):
            self._file(r)

    def of(self, op: Op) -> Entry:
        entry = self.entries.get(op)
        if entry is None:
            entry = self.entries[op] = Entry(self.procedures(op))
        return entry

    def _file(self, r: Rule) -> None:
        root = r.pattern.root
        entry = self.of(root.op)
        known = [x.op for x in root.inputs if x.op is not INPUT]
        special = [op for op in known if op is not CONSTANT] or known
        if special:
            filed = Filed(r, frozenset(known), needed_features(r.pattern))
            entry.by_input.setdefault(special[0], []).append(filed)
        elif len(set(root.inputs)) < len(root.inputs):
            entry.repeated.append(r)
        else:
            entry.general.append(r)
