"""Control flow: passes over the loops and branches of the user's program, each from a graph to a graph.

A loop ``[consts, carry, xs] -> [carry, ys]`` is one node with a region as its body (`ops.control_parts.Loop`), and so
is a branch. Passes fuse (`fuse`), split (`fission` before a loop, `behind` after it), hoist (`invariants`) and shrink
(`dead`) them, turn indexed reads and writes into xs and ys (`slices`, `writes`), replace small arrays by scalars
(`scalar_replacement`, on `elements`), factor linear recurrences (`linear_updates`, on `linear_forms`) and choose
residuals again (`kept`). `opened`, `together` and `places` are their tools. `pipeline` has the order and the reasons.
"""
