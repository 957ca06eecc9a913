"""Lowering: the order and the memory of all computations, decided before a target writes any text.

Two targets need two forms. NumPy computes node by node: `placing` decides the memory of each value, a `Placement`
beside the graph. C computes in loops over indices: `build.lower` makes a `Function` of `statements` over `expressions`
and buffers; `fusion`, `smaller_buffers`, `unrolling`, `checks`, `element_names`, `tiles`, `copies` and `parallel`
rewrite it, and `verify` checks it. `bounds` knows which indices need no check. The part of a program that C computes is
lowered before loops over blocks of rows are made of the rest (`loops`).
"""
