"""Implicit functions: solutions of equations as functions of their parameters, written with loops and custom rules."""
