"""Views of graphs and programs: trees, one-line mathematics, pictures."""
