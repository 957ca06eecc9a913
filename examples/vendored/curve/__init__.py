"""Fits a decay to measurements."""

from curve.fit import fit as fit
