"""Core data structures: provenance, sizes, shapes, graphs, axes, trees, options, text."""
