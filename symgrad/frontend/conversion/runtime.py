"""Functions that converted code calls; it finds this module in a cell of its closure."""

import builtins
import sys

from symgrad.frontend.conversion.branches import (
    Branch,
    both,
    chain,
    chosen,
    either,
    going_on,
    inside,
    negation,
    outside,
)
from symgrad.frontend.conversion.calls import called
from symgrad.frontend.conversion.construct import namespace, truth
from symgrad.frontend.conversion.functions import CELL, converted
from symgrad.frontend.conversion.heads import over
from symgrad.frontend.conversion.identity import FALSE, NONE, TRUE, matched, other, same
from symgrad.frontend.conversion.indexing import entry, item, unpacked
from symgrad.frontend.conversion.lists import whole
from symgrad.frontend.conversion.loops import Each, For, While
from symgrad.frontend.conversion.mutable import UNDEFINED
from symgrad.frontend.conversion.properties import holder
from symgrad.frontend.conversion.specials import (
    assigned,
    changed,
    has_operators,
    in_place,
    left,
    managed,
    right,
    subscripted,
)
from symgrad.frontend.conversion.state import caught, raised
from symgrad.frontend.guards import trying
from symgrad.frontend.texts import by_percent, joined

AssertionError = builtins.AssertionError  # whatever the function calls so

__all__ = [
    "FALSE",
    "NONE",
    "TRUE",
    "UNDEFINED",
    "AssertionError",
    "Branch",
    "Each",
    "For",
    "While",
    "assigned",
    "both",
    "by_percent",
    "called",
    "caught",
    "chain",
    "changed",
    "chosen",
    "converted",
    "either",
    "entry",
    "going_on",
    "has_operators",
    "holder",
    "in_place",
    "inside",
    "item",
    "joined",
    "left",
    "managed",
    "matched",
    "namespace",
    "negation",
    "other",
    "outside",
    "over",
    "raised",
    "right",
    "same",
    "subscripted",
    "truth",
    "trying",
    "unpacked",
    "whole",
]

CELL.cell_contents = sys.modules[__name__]
