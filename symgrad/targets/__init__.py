"""Targets: the languages that programs are written in.

`numpy` writes a whole program, from its graph and its placement. `c` writes the parts that it computes, kernels, from
their statements; NumPy's source calls them.
"""
