"""Loops over blocks of rows, which the compiler adds for the cache and for threads; `control` has the user's own loops.

`tiling.nest` is the pass. `axes` finds the axes of a program, with `stencils` and `row_gathers`; `plan` divides the
nodes into loops along one axis, `cost_model` compares plans, `bodies` makes the graph of a block, and
`buffer_allocation` its buffers. A loop is a node with a `Block` as its body (`loop`). `column_order` is a separate
pass, for arrays outside of blocks.
"""
