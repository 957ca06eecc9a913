"""Statements: when and where a program computes what its graph says. The last form that is not text."""
