"""Programs with branches and loops."""

from __future__ import annotations

from symgrad.core.graph import Node
from symgrad.ops.checks import CHECK
from symgrad.ops.control import COND, SCAN
from symgrad.targets.numpy.branches import write_branch
from symgrad.targets.numpy.checks import write_check
from symgrad.targets.numpy.scans import write_loop
from symgrad.targets.numpy.structured import Structured


class Control(Structured):
    """Writes functions with branches and loops in them."""

    def assign_items(self, node: Node) -> None:
        if node.op is COND:
            write_branch(self, node)
        elif node.op is SCAN:
            write_loop(self, node)
        elif node.op is CHECK:
            write_check(self, node)
        else:
            for item in self.placed.items[node].values():
                self.take_name(item, node)
            super().assign_items(node)
