"""Source text from a graph."""
