"""Covariances and correlations."""

import numpy as np

from symgrad.core.shapes import same_shape
from symgrad.errors import ArgumentError, DTypeError, ShapeError, SymbolicSizeError
from symgrad.ops.arguments import check_ndim
from symgrad.ops.define import implements
from symgrad.ops.elementwise import conjugate
from symgrad.ops.index_expressions import known_value
from symgrad.ops.operands import as_input
from symgrad.ops.parts import COMPLEX


@implements(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError(f"np.cov: ddof={ddof} is not an integer", "Write ddof=0 or ddof=1.")
    given = [as_input(x) for x in (m, y) if x is not None]
    dtype = np.result_type(*[x.dtype for x in given], float) if dtype is None else np.dtype(dtype)
    rows = [_variables(x, rowvar, dtype) for x in given]
    x = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=0)
    weights = _weights(x, fweights, aweights)
    centred = x - np.average(x, axis=1, weights=weights, keepdims=True)
    weighted = centred if weights is None else centred * weights
    freedom = _freedom(x, weights, aweights, (0 if bias else 1) if ddof is None else int(ddof))
    try:
        return np.squeeze(weighted @ conjugate(centred).T / freedom)
    except SymbolicSizeError:
        raise SymbolicSizeError(
            f"np.cov: the number of variables, {x.shape[0]}, is a symbol here, and may be 1",
            "Give that number in the spec.",
        ) from None


def _weights(x, fweights, aweights):
    """Return the weight of each observation, by frequency and importance; None if all count alike."""
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        given = as_input(given)
        if not same_shape(np.shape(given), x.shape[1:]):
            raise ShapeError(
                f"np.cov: {name} of shape {np.shape(given)} for {x.shape[1]} observations",
                "Give one for each observation.",
            )
        known = known_value(given)
        if known is not None and np.any(known < 0):
            raise ArgumentError(f"np.cov: {name} has negative numbers", "Give weights from 0 on.")
        if name == "fweights" and given.dtype.kind not in "iu":
            raise DTypeError(f"np.cov: fweights= are counts, but have dtype {given.dtype}", "Write aweights=.")
        weights = given if weights is None else weights * given
    return weights


def _freedom(x, weights, aweights, ddof):
    """Return the divisor of the sum of squares."""
    if weights is None:
        freedom = x.shape[1] - ddof
        if isinstance(freedom, int) and freedom <= 0:
            raise ShapeError(
                f"np.cov: {x.shape[1]} observations leave {freedom} degrees of freedom",
                "Give more observations, or a smaller ddof=.",
            )
        return freedom
    total = np.sum(weights)
    if ddof == 0 or aweights is None:
        return total - ddof
    return total - ddof * np.sum(weights * as_input(aweights)) / total


def _variables(x, rowvar, dtype):
    """The observations with one row a variable."""
    if dtype.kind not in "fc":
        raise DTypeError(f"np.cov in {dtype} is not supported", "Convert the observations: x.astype(float).")
    check_ndim("np.cov: m", x, 0, 2, "Write x.reshape(variables, observations).")
    x = x if x.dtype == dtype else np.astype(x, dtype)
    return np.reshape(x, (1, -1)) if np.ndim(x) < 2 else x if rowvar else x.T


@implements(np.corrcoef)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = np.cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    deviation = np.sqrt(np.real(np.diag(c)))
    r = c / deviation[:, None] / deviation[None, :]
    if r.dtype.kind != "c":
        return np.clip(r, -1, 1)
    return COMPLEX(np.clip(np.real(r), -1, 1), np.clip(np.imag(r), -1, 1))
