"""Artefacts that last: saved modules, what they say of themselves, and how they check themselves."""
