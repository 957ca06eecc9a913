"""Rewriting: the engine, and tables of rules."""
