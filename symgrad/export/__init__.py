"""Saved modules: manifest, test vectors, self-test; where their models stand."""
