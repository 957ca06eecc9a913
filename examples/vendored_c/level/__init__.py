"""Finds the level of a noisy series."""

from level.fit import fit as fit
