"""The operator table: one entry per operator. Importing it fills `define.TABLE`."""

from symgrad.ops import (  # noqa: F401  their entries are what is wanted
    accumulate,
    apply,
    arrange,
    assign,
    astype,
    choice,
    contract,
    counting,
    create,
    determinants,
    diagonal,
    einsum,
    elementwise,
    gather,
    grids,
    index,
    interpolate,
    join,
    linalg,
    lstsq,
    moments,
    norm,
    padding,
    parts,
    piecewise_constant,
    products,
    quantiles,
    reduce,
    shape,
    sorting,
    statistics,
    windows,
)

# isort: split
from symgrad.ops import methods  # noqa: F401  of all ufuncs that are in the table by now
