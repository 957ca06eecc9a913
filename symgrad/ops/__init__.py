"""The operator table: one entry per operator. Importing it fills `define.TABLE`."""

from symgrad.ops import accumulate, arrange, contract, create, diagonal, einsum, elementwise, index, linalg, lstsq, norm, products, reduce, shape

__all__ = ["accumulate", "arrange", "contract", "create", "diagonal", "einsum", "elementwise", "index", "linalg", "lstsq", "norm", "products", "reduce", "shape"]
