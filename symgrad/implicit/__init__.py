"""Implicit functions: solutions of equations as functions of what these read, written with loops and rules."""
