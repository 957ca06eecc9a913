"""The target NumPy: source text from a graph and its placement.

`module.emit` begins. `body` writes the statements of a suite, `structured` those of a region, `scans` and `branches`
loops and branches, `loops` and `block` loops over blocks of rows; `scalars` and `float_loops` write programs on
Python's floats. `idioms` and `logistic` are passes over the graph, before.

A printer nests, names, spells and comments; which memory values lie in, and how long, it asks the placement. Two things
follow from nesting and names alone: a ``del`` stands behind the last line that mentions an array that the placement
releases, and at the end of an iteration names are assigned in an order in which none is read after it is replaced.
"""
