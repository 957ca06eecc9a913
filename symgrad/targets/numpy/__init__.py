"""The target NumPy: source text from a graph and its placement.

`module.emit` begins. `body` writes the statements of a suite, `structured` those of a region, `scans` and `branches`
loops and branches, `loops` and `block` loops over blocks of rows; `scalars` and `float_loops` write programs on
Python's floats. `idioms` and `logistic` are passes over the graph, before.
"""
