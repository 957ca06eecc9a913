"""Python's own loops and branches: a user's function is converted from its source, and decides while it is traced."""
