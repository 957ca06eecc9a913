"""A compiler for derivatives: plain NumPy in, the gradient as NumPy source out."""
