"""Verification of saved modules that somebody has edited: agreement with the model, or the first wrong line."""
