"""Sums of products: how they are read, put in order, factored, and which kernel computes them."""
