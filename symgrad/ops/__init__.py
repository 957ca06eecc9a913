"""The operator table: one entry per operator. Importing it fills `define.TABLE`."""

from symgrad.ops import contract, diagonal, einsum, elementwise, index, linalg, norm, reduce, shape

__all__ = ["contract", "diagonal", "einsum", "elementwise", "index", "linalg", "norm", "reduce", "shape"]
