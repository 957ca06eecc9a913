"""What derivatives append to a graph: pullbacks, what is computed again, batches, Jacobians."""
