"""scipy.sparse: products of a constant sparse matrix and a traced vector or matrix.

The numbers of the matrix and their places are constants of the program, which makes the matrix of them.
"""

from copy import copy

import numpy as np
from scipy import sparse

from symgrad.core import shapes
from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.contract import fits
from symgrad.ops.define import implements_at, operator
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.linalg import in_columns
from symgrad.ops.operands import is_traced
from symgrad.ops.scipy.convert import definer, untraced
from symgrad.spelling import call, infix, spell_param

PACKAGE = "scipy.sparse"
_MADE = {"csr": sparse.csr_array, "csc": sparse.csc_array}
_OTHER = {"csr": "csc", "csc": "csr"}


def _infer(data, indices, indptr, x, form, size):
    if not fits(x.shape[0], size[1]):
        raise ShapeError(
            f"{PACKAGE}: a matrix of shape {size} @ {x} does not contract: {size[1]} and {x.shape[0]} differ",
            "Transpose one of them, as in s.T @ x.",
        )
    return Aval((size[0], *x.shape[1:]), common_dtype(data, x))


def _vjp(g, y, data, indices, indptr, x, form, size):
    """The arrays that are the rows of the matrix are the columns of its transpose."""
    return None, None, None, SPARSE_MATMUL(data, indices, indptr, g, form=_OTHER[form], size=size[::-1])


def _spell(node, data, indices, indptr, x):
    params = dict(node.params)
    parts = f"({data.text}, {indices.text}, {indptr.text})"
    matrix = call(f"scipy.sparse.{params['form']}_array", [parts, f"shape={spell_param(params['size'])}"])
    return infix("@", matrix, x)


_OF_VECTOR, _OF_COLUMNS = lettered("_,_,_,_->_"), lettered("_,_,_,_j->_j")

SPARSE_MATMUL = operator(
    lambda data, indices, indptr, x, form, size: _MADE[form]((data, indices, indptr), shape=size) @ x,
    name="sparse_matmul",
    arrays=4,
    infer=_infer,
    vjp=_vjp,
    batch=lambda batched, data, indices, indptr, x, **matrix: in_columns(
        lambda x: SPARSE_MATMUL(data, indices, indptr, x, **matrix), x
    ),
    flops=lambda y, data, indices, indptr, x, form, size: 2 * shapes.product((*data.shape, *x.shape[1:])),
    signature=lambda y, data, indices, indptr, x, form, size: (_OF_COLUMNS if x.ndim > 1 else _OF_VECTOR)(
        y, data, indices, indptr, x
    ),
    linear=True,
    spell=_spell,
    package=PACKAGE,
)


def _known(matrix):
    """A matrix as it was before the trace: SciPy's functions, where the program has called some, leave Variables."""
    plain = copy(matrix)
    vars(plain).update({name: _value(x) for name, x in vars(plain).items()})
    return plain


def _value(x):
    return np.asarray(x) if is_traced(x) else tuple(map(_value, x)) if type(x) is tuple else x


def _matmul(self, other):
    if self.ndim != 2 or other.ndim not in (1, 2):
        raise UnsupportedError(
            f"{PACKAGE}: a product of a sparse array of {self.ndim} dimensions and an array of {other.ndim} is not "
            "supported",
            "Give a matrix and an array of one or two dimensions.",
        )
    with untraced():
        matrix = self if self.format in _MADE else _known(self).tocsr()
    return SPARSE_MATMUL(matrix.data, matrix.indices, matrix.indptr, other, form=matrix.format, size=matrix.shape)


for _class in (sparse.csr_array, sparse.coo_array):  # what A @ x, A.dot(x), x @ A and A * x of a spmatrix come down to
    implements_at(definer(_class, "_matmul_dispatch"), "_matmul_dispatch")(_matmul)
