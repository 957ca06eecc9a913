"""Whether a saved module that somebody has edited still computes what its model says, and which line does not."""
