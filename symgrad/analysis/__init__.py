"""Facts about a graph, each computed in one place."""
