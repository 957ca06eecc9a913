"""Control flow: passes over the loops and branches of the user's program, each from a graph to a graph.

A loop ``[consts, carry, xs] -> [carry, ys]`` is one node with a region as its body (`ops.control_parts.Loop`), and so
is a branch. Passes fuse loops (`fuse`), hoist out of them (`invariants`, and `fission` for all iterations at once),
sink out of them (`sink`), drop dead code (`dead`), turn indexed reads and writes into xs and ys (`slices`, `writes`),
replace small arrays by scalars (`scalar_replacement`, on `elements`), factor linear recurrences (`linear_updates`, on
`linear_forms`) and choose residuals again (`loop_residuals`). `replacement`, `merging` and `places` are their tools.
`pipeline` has the order and the reasons.
"""
