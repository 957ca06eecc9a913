"""Loops and branches as a whole: which of them become one, and what of them is left out, moved or done at once."""
