"""From Python to a graph: Variables, NumPy's functions, views and writes, what a trace may reach."""
