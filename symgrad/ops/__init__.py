"""The operator table: one entry per operator. Importing it fills `define.TABLE`."""

from symgrad.ops import elementwise, index, linalg, reduce, shape

__all__ = ["elementwise", "index", "linalg", "reduce", "shape"]
