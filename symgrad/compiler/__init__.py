"""A traced program as a function that runs: Function, Compiled, the cache."""
