"""Artefacts that last: saved modules, which check themselves, and graphs as JSON."""
