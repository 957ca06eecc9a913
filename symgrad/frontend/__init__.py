"""Tracing: from a Python function to a graph, by Variables, NumPy's functions, views and writes."""
