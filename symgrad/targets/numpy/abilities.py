"""Abilities of NumPy and Python that placement uses: `out=`, and loops on Python's floats."""

from __future__ import annotations

from symgrad.lowering.placement import Abilities
from symgrad.targets.numpy.memory_of_turns import allocated
from symgrad.targets.numpy.scalars import may_raise, runs_on_floats


def abilities(level: int) -> Abilities:
    """Return the abilities that source of a level of optimisation uses: at level 0 every node is a line of its own."""
    if level < 2:
        return Abilities(makes_anew=level > 0)
    return Abilities(temporaries=allocated, on_numbers=runs_on_floats, runs_twice=may_raise)
