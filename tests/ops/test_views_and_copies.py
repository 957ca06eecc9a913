"""Each function of NumPy on arrays of each layout: what shares memory with what, by writes into the one and the other.

In NumPy a write into a result reaches the argument where the result is a view of it, and not where it is a copy; which
of the two it is depends on the layout of the argument. A traced program has to give the same numbers, or to refuse.
"""

import copy
import itertools
import linecache
import operator
import random

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval, Graph, tracing
from symgrad.core.interpret import interpret
from symgrad.errors import SymgradError, WriteError, refused
from symgrad.frontend.interception import inside
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.masks import Selected
from symgrad.ops.positions import Places

X = np.random.default_rng(3).permuted(np.arange(12.0)).reshape(3, 4) + 0.5
TABLE = X + 20.0

# ---- the census


MODULES = (np, np.linalg, np.fft, np.lib.stride_tricks)
CALLS = {
    # what gives its argument, a view of it or a copy
    "asarray": [
        "np.asarray(a)", "np.asarray(a, order='C')", "np.asarray(a, order='F')", "np.asarray(a, order='A')",
        "np.asarray(a, order='K')", "np.asarray(a, float)", "np.asarray(a, np.float32)", "np.asarray(a, copy=True)",
        "np.asarray(a, copy=False)", "np.asarray(a, np.float32, copy=False)", "np.asarray(a, order='F', copy=False)",
        "np.asarray([a, a])", "np.asarray(a.tolist())",
    ],
    "asanyarray": ["np.asanyarray(a)", "np.asanyarray(a, order='F')", "np.asanyarray(a, order='C')"],
    "asarray_chkfinite": ["np.asarray_chkfinite(a)", "np.asarray_chkfinite(a, order='F')"],
    "ascontiguousarray": ["np.ascontiguousarray(a)", "np.ascontiguousarray(a, np.float32)"],
    "asfortranarray": ["np.asfortranarray(a)", "np.asfortranarray(a, np.float32)"],
    "asmatrix": ["np.asmatrix(a)"],
    "bmat": ["np.bmat([[a, a]])"],
    "array": [
        "np.array(a)", "np.array(a, copy=False)", "np.array(a, copy=None)", "np.array(a, float, copy=None)",
        "np.array(a, np.float32, copy=None)", "np.array(a, order='F', copy=None)", "np.array(a, order='C', copy=None)",
        "np.array(a, ndmin=3)", "np.array(a, ndmin=4, copy=None)", "np.array(a, ndmin=4, copy=False)",
        "np.array(a, subok=True)", "np.array(a, order='F')", "np.array([a, a], copy=None)",
    ],
    "astype": ["np.astype(a, float)", "np.astype(a, float, copy=False)", "np.astype(a, np.float32, copy=False)"],
    "copy": ["np.copy(a)", "np.copy(a, order='C')", "np.copy(a, order='F')", "np.copy(a, subok=True)"],
    "require": [
        "np.require(a)", "np.require(a, float, 'C')", "np.require(a, None, ['F'])", "np.require(a, None, 'O')",
        "np.require(a, None, 'W')", "np.require(a, np.float32)", "np.require(a, None, ['C', 'A', 'W', 'O'])",
    ],
    "real": ["np.real(a)"],
    "imag": ["np.imag(a)"],
    "real_if_close": ["np.real_if_close(a)"],
    "nan_to_num": ["np.nan_to_num(a)", "np.nan_to_num(a, copy=False, nan=1.0)", "np.nan_to_num(a, copy=False)"],
    "from_dlpack": ["np.from_dlpack(a)"],
    "frombuffer": ["np.frombuffer(a)", "np.frombuffer(a.tobytes())"],
    # shapes and axes
    "reshape": [
        "np.reshape(a, -1)", "np.reshape(a, a.shape)", "np.reshape(a, (-1, 2))", "np.reshape(a, (2, -1), order='F')",
        "np.reshape(a, (2, -1), order='A')", "np.reshape(a, -1, copy=True)", "np.reshape(a, -1, copy=False)",
        "np.reshape(a, (*a.shape, 1))", "np.reshape(a, -1, order='F')", "np.reshape(a, (2, -1), order='F', copy=False)",
        "np.reshape(a, a.shape, copy=True)",
    ],
    "ravel": [f"np.ravel(a, {order!r})" for order in "CFAK"],
    "squeeze": ["np.squeeze(a)", "np.squeeze(a, 0)", "np.squeeze(a, axis=-1)"],
    "expand_dims": ["np.expand_dims(a, 0)", "np.expand_dims(a, (0, -1))"],
    "atleast_1d": ["np.atleast_1d(a)", "np.atleast_1d(a, a)"],
    "atleast_2d": ["np.atleast_2d(a)"],
    "atleast_3d": ["np.atleast_3d(a)"],
    "transpose": ["np.transpose(a)", "np.transpose(a, tuple(range(a.ndim)))"],
    "permute_dims": ["np.permute_dims(a)"],
    "matrix_transpose": ["np.matrix_transpose(a)"],
    "swapaxes": ["np.swapaxes(a, 0, -1)", "np.swapaxes(a, 0, 0)"],
    "moveaxis": ["np.moveaxis(a, 0, -1)", "np.moveaxis(a, 0, 0)"],
    "rollaxis": ["np.rollaxis(a, -1)", "np.rollaxis(a, 0)"],
    "flip": ["np.flip(a)", "np.flip(a, 0)", "np.flip(a, ())"],
    "fliplr": ["np.fliplr(a)"],
    "flipud": ["np.flipud(a)"],
    "rot90": [f"np.rot90(a, {k})" for k in range(4)],
    "roll": ["np.roll(a, 1)", "np.roll(a, 0, axis=0)"],
    "broadcast_to": ["np.broadcast_to(a, (2, *a.shape))", "np.broadcast_to(a, a.shape)"],
    "broadcast_arrays": [
        "np.broadcast_arrays(a, 6.0)", "np.broadcast_arrays(a, a[..., None])", "np.broadcast_arrays(a)",
        "np.broadcast_arrays(a, np.ones(a.shape))", "np.broadcast_arrays(a[:1], a)",
    ],
    "meshgrid": ["np.meshgrid(a)", "np.meshgrid(a, a, copy=False)", "np.meshgrid(a, a, sparse=True, copy=False)"],
    "ix_": ["np.ix_(a)", "np.ix_(a, a)"],
    "split": ["np.split(a, 2)", "np.split(a, [1])", "np.split(a, [1, 2], axis=-1)"],
    "array_split": ["np.array_split(a, 2)", "np.array_split(a, 3, axis=-1)"],
    "hsplit": ["np.hsplit(a, 2)"],
    "vsplit": ["np.vsplit(a, [1])"],
    "dsplit": ["np.dsplit(a, [1])"],
    "unstack": ["np.unstack(a)", "np.unstack(a, axis=-1)"],
    "diagonal": ["np.diagonal(a)", "np.diagonal(a, 1)", "np.diagonal(a, -1, 1, 0)"],
    "diag": ["np.diag(a)", "np.diag(a, 1)"],
    "trim_zeros": ["np.trim_zeros(a)"],
    "resize": ["np.resize(a, (2, 3))", "np.resize(a, a.shape)"],
    "einsum": [
        "np.einsum('ij->ji', a)", "np.einsum('...->...', a)", "np.einsum('ij->i', a)", "np.einsum('i...->...i', a)",
    ],
    # what writes into an argument
    "place": [
        "np.place(a, a > 4, [7.0, 8.0])", "np.place(a, a > 99, [1.0])",
        "np.place(a, np.arange(a.size) % 2 > 0, [7.0])",
    ],
    "put": ["np.put(a, [0, -1], [5.0, 6.0])", "np.put(a, 1, 2.0, mode='clip')", "np.put(a, [0, 1, 0], [1.0, 2.0])"],
    "putmask": [
        "np.putmask(a, a > 4, 7.0)", "np.putmask(a, a > 4, a * 2)", "np.putmask(a, a > 4, [7.0, 8.0])",
        "np.putmask(a, a > 4, a)",
    ],
    "copyto": [
        "np.copyto(a, 3.0)", "np.copyto(a, a[::-1])", "np.copyto(a, 1, where=a > 4)", "np.copyto(a, a[..., :1])",
        "np.copyto(a, a.copy(), casting='unsafe')",
    ],
    "fill_diagonal": [
        "np.fill_diagonal(a, 9.0)", "np.fill_diagonal(a, 9.0, wrap=True)", "np.fill_diagonal(a, [1.0, 2.0])",
    ],
    "put_along_axis": [
        "np.put_along_axis(a, np.zeros((1,) * a.ndim, int), 9.0, 0)",
        "np.put_along_axis(a, np.array([0, 2]), 9.0, None)",
    ],
    "select": ["np.select([a > 4], [a])", "np.select([a > 4], [a], a)"],
    "where": ["np.where(a > 4, a, a)", "np.where(a > 4)"],
    "choose": ["np.choose(0, [a, a])", "np.choose((a > 4) * 1, [a, a + 1])", "np.choose(0, [a, a], out=a)"],
    "piecewise": ["np.piecewise(a, [a > 4], [1.0, 2.0])"],
    "clip": ["np.clip(a, 2, 5)", "np.clip(a, 2, 5, out=a)", "a.clip(2, 5, a)", "np.clip(a, None, None)"],
    "round": ["np.round(a)", "np.round(a, out=a)", "np.round(a, 3, a)"],
    "around": ["np.around(a, 0, a)"],
    "fix": ["np.fix(a)", "np.fix(a, out=a)"],
    "isneginf": ["np.isneginf(a)"],
    "isposinf": ["np.isposinf(a)"],
    # joining and repeating
    "concatenate": [
        "np.concatenate([a])", "np.concatenate([a, a])", "np.concatenate([a, a], axis=None)",
        "np.concatenate([a[:1], a[1:]], out=a)",
    ],
    "concat": ["np.concat([a])"],
    "stack": ["np.stack([a])", "np.stack([a, a], -1)", "np.stack([a, a], 1)"],
    "vstack": ["np.vstack([a])", "np.vstack([a, a])"],
    "row_stack": ["np.vstack([a])"],
    "hstack": ["np.hstack([a])", "np.hstack([a, a])"],
    "dstack": ["np.dstack([a])", "np.dstack([a, a])"],
    "column_stack": ["np.column_stack([a])", "np.column_stack([a, a])"],
    "block": ["np.block(a)", "np.block([a])", "np.block([[a, a]])"],
    "tile": ["np.tile(a, 1)", "np.tile(a, (2, 1))", "np.tile(a, (1, 1, 1))"],
    "repeat": ["np.repeat(a, 1)", "np.repeat(a, 2, axis=0)", "np.repeat(a, 1, axis=-1)"],
    "append": ["np.append(a, [])", "np.append(a, a, 0)"],
    "insert": ["np.insert(a, 0, 5.0)", "np.insert(a, 0, 5.0, axis=0)", "np.insert(a, [], [], axis=0)"],
    "delete": [
        "np.delete(a, 0)", "np.delete(a, [], axis=0)", "np.delete(a, 0, axis=-1)", "np.delete(a, slice(0, 0), 0)",
    ],
    "pad": ["np.pad(a, 0)", "np.pad(a, 1)", "np.pad(a, 1, mode='edge')", "np.pad(a, ((0, 0),) * a.ndim)"],
    # what picks, sorts and counts
    "take": [
        "np.take(a, 0)", "np.take(a, [0, 1], axis=0)", "np.take(a, [0], axis=-1)",
        "np.take(a, [[0, 1]], 0, mode='wrap')",
    ],
    "take_along_axis": [
        "np.take_along_axis(a, np.zeros((1,) * a.ndim, int), 0)", "np.take_along_axis(a, np.array([0]), None)",
    ],
    "compress": ["np.compress([True], a)", "np.compress([True, False], a, axis=0)", "np.compress([True], a, axis=-1)"],
    "extract": ["np.extract(np.arange(a.size) > 1, a)", "np.extract(a > 3, a)"],
    "sort": ["np.sort(a)", "np.sort(a, axis=0)", "np.sort(a, axis=None)"],
    "partition": ["np.partition(a, 0)", "np.partition(a, 0, axis=0)"],
    "argsort": ["np.argsort(a)", "np.argsort(a, 0)"],
    "argpartition": ["np.argpartition(a, 0)"],
    "lexsort": ["np.lexsort([a])"],
    "searchsorted": ["np.searchsorted(np.arange(9.0), a)"],
    "digitize": ["np.digitize(a, np.arange(9.0))"],
    "unique": ["np.unique(a)", "np.unique(a, return_inverse=True)"],
    "unique_all": ["np.unique_all(a)"],
    "unique_counts": ["np.unique_counts(a)"],
    "unique_inverse": ["np.unique_inverse(a)"],
    "unique_values": ["np.unique_values(a)"],
    "intersect1d": ["np.intersect1d(a, a)"],
    "setdiff1d": ["np.setdiff1d(a, [2.0])", "np.setdiff1d(a, [], assume_unique=True)"],
    "setxor1d": ["np.setxor1d(a, [2.0])"],
    "union1d": ["np.union1d(a, a)"],
    "isin": ["np.isin(a, [2.5])"],
    "nonzero": ["np.nonzero(a > 4)"],
    "flatnonzero": ["np.flatnonzero(a > 4)"],
    "argwhere": ["np.argwhere(a > 4)"],
    "count_nonzero": ["np.count_nonzero(a > 4, axis=0)"],
    "argmax": ["np.argmax(a, axis=0)", "np.argmax(a, 0, keepdims=True)"],
    "argmin": ["np.argmin(a, axis=0)"],
    "nanargmax": ["np.nanargmax(a, axis=0)"],
    "nanargmin": ["np.nanargmin(a, axis=0)"],
    "bincount": ["np.bincount(np.arange(a.size), a.ravel())"],
    "histogram": ["np.histogram(a, 3)"],
    "histogram2d": ["np.histogram2d(a, a, 2)"],
    "histogramdd": ["np.histogramdd(a, 2)"],
    "histogram_bin_edges": ["np.histogram_bin_edges(a, 3)", "np.histogram_bin_edges(a, np.arange(3.0))"],
    "tril": ["np.tril(a)"],
    "triu": ["np.triu(a)", "np.triu(a, -9)"],
    "diagflat": ["np.diagflat(a)"],
    "diag_indices_from": ["np.diag_indices_from(a)"],
    "tril_indices_from": ["np.tril_indices_from(a)"],
    "triu_indices_from": ["np.triu_indices_from(a)"],
    "unravel_index": ["np.unravel_index(a.astype(int), (99,))"],
    "ravel_multi_index": ["np.ravel_multi_index((a.astype(int),), (99,))"],
    "packbits": ["np.packbits(a > 4)"],
    "unpackbits": ["np.unpackbits(a.astype(np.uint8))"],
    # sums
    **{
        name: [f"np.{name}(a)", f"np.{name}(a, axis=0)", f"np.{name}(a, axis=-1, keepdims=True)", f"np.{name}(a, ())"]
        for name in (
            "all any amax amin max min sum prod mean nansum nanprod nanmax nanmin nanmean"
        ).split()
    },
    **{name: [f"np.{name}(a)", f"np.{name}(a, axis=0)"] for name in ("std", "var", "nanstd", "nanvar")},
    "ptp": ["np.ptp(a, 0)", "np.ptp(a, 0, keepdims=True)"],
    "median": ["np.median(a, 0)", "np.median(a, 0, overwrite_input=True)", "np.median(a, -1, keepdims=True)"],
    "nanmedian": ["np.nanmedian(a, 0)", "np.nanmedian(a, 0, overwrite_input=True)"],
    **{
        name: [f"np.{name}(a, {q}, 0)", f"np.{name}(a, [{q}], -1)", f"np.{name}(a, {q}, 0, overwrite_input=True)"]
        for name, q in (("percentile", 50), ("quantile", 0.5), ("nanpercentile", 50), ("nanquantile", 0.5))
    },
    "average": ["np.average(a, 0)", "np.average(a, 0, np.arange(1.0, len(a) + 1))"],
    **{
        name: [f"np.{name}(a)", f"np.{name}(a, axis=0)", f"np.{name}(a[None], 1, out=a[None])"]
        for name in ("cumsum", "cumprod", "nancumsum", "nancumprod")
    },
    "cumulative_sum": ["np.cumulative_sum(a, axis=0)"],
    "cumulative_prod": ["np.cumulative_prod(a, axis=0)"],
    "diff": ["np.diff(a)", "np.diff(a, n=0)"],
    "ediff1d": ["np.ediff1d(a)"],
    "gradient": ["np.gradient(a)", "np.gradient(a, axis=0)"],
    "trapezoid": ["np.trapezoid(a, axis=0)"],
    "trace": ["np.trace(a)"],
    "cov": ["np.cov(a)"],
    "convolve": ["np.convolve(a, [1.0, 2.0])", "np.convolve(a, [1.0])"],
    "correlate": ["np.correlate(a, [1.0, 2.0])", "np.correlate(a, [1.0])"],
    "cross": ["np.cross(a[..., :3], a[..., :3] + 1)", "np.cross(a[..., :3], np.ones(3))"],
    "dot": ["np.dot(a, 2.0)", "np.dot(a, a.T)", "np.dot(a, a.T, out=np.ones((3, 3)))"],
    "inner": ["np.inner(a, a)"],
    "outer": ["np.outer(a, a)"],
    "kron": ["np.kron(a, 1.0)", "np.kron(a, [1.0, 2.0])"],
    "vdot": ["np.vdot(a, a)"],
    "tensordot": ["np.tensordot(a, 2.0, 0)", "np.tensordot(a, a, (0, 0))"],
    "interp": ["np.interp(a, [0.0, 9.0], [1.0, 2.0])"],
    "unwrap": ["np.unwrap(a)", "np.unwrap(a, axis=0)"],
    "angle": ["np.angle(a)"],
    "i0": ["np.i0(a)"],
    "sinc": ["np.sinc(a)"],
    "vander": ["np.vander(a)", "np.vander(a, 1)"],
    "isclose": ["np.isclose(a, a)"],
    "iscomplex": ["np.iscomplex(a)"],
    "isreal": ["np.isreal(a)"],
    "sort_complex": ["np.sort_complex(a)"],
    "apply_along_axis": ["np.apply_along_axis(lambda v: v, 0, a)", "np.apply_along_axis(lambda v: v * 2, -1, a)"],
    "apply_over_axes": ["np.apply_over_axes(np.sum, a, [0])", "np.apply_over_axes(np.sum, a, [])"],
    "poly": ["np.poly(a)"],
    "polyadd": ["np.polyadd(a, 0.0)", "np.polyadd(a, a)"],
    "polysub": ["np.polysub(a, 0.0)"],
    "polymul": ["np.polymul(a, 1.0)"],
    "polydiv": ["np.polydiv(a, [1.0])", "np.polydiv(a, a)"],
    "polyder": ["np.polyder(a)", "np.polyder(a, 0)"],
    "polyint": ["np.polyint(a)", "np.polyint(np.atleast_1d(a), 0)"],
    "polyval": ["np.polyval(a, 2.0)", "np.polyval([1.0, 0.0], a)", "np.polyval([1.0], a)"],
    "polyfit": ["np.polyfit(np.arange(len(a)), a, 1)"],
    "roots": ["np.roots(a)"],
    # creation after an array
    **{
        name: [f"np.{name}(a)", f"np.{name}(a, order='F')", f"np.{name}(a, order='C')"]
        for name in ("zeros_like", "ones_like")
    },
    "empty_like": ["np.empty_like(a).fill(1.0)"],
    "full_like": ["np.full_like(a, 3.0)", "np.full_like(a, a)", "np.full_like(a, 3.0, order='F')"],
    "full": ["np.full(a.shape, a)", "np.full((2, *a.shape), a, order='F')"],
    "linspace": ["np.linspace(a, a + 1, 3)", "np.linspace(a, a + 1, 3, axis=-1)"],
    "logspace": ["np.logspace(a, a + 1, 3)"],
    "geomspace": ["np.geomspace(a, a + 1, 3)"],
    "fromiter": ["np.fromiter(a, float)"],
    "fromfunction": ["np.fromfunction(lambda i: a, (3,))"],
    # numpy.linalg and numpy.fft
    "linalg.diagonal": ["np.linalg.diagonal(a)"],
    "linalg.matrix_transpose": ["np.linalg.matrix_transpose(a)"],
    "linalg.outer": ["np.linalg.outer(a, a)"],
    "linalg.cross": ["np.linalg.cross(a[..., :3], a[..., :3] + 1)"],
    "linalg.matrix_power": [f"np.linalg.matrix_power(a[:3, :3], {n})" for n in (0, 1, 2)],
    "linalg.multi_dot": ["np.linalg.multi_dot([a, a.T])"],
    "linalg.tensordot": ["np.linalg.tensordot(a, a, (0, 0))"],
    "linalg.matmul": ["np.linalg.matmul(a, a.T)"],
    "linalg.vecdot": ["np.linalg.vecdot(a, a)"],
    "linalg.trace": ["np.linalg.trace(a)"],
    "linalg.norm": ["np.linalg.norm(a, axis=0)", "np.linalg.norm(a, axis=-1, keepdims=True)"],
    "linalg.vector_norm": ["np.linalg.vector_norm(a, axis=0)"],
    "linalg.matrix_norm": ["np.linalg.matrix_norm(a)"],
    **{
        f"linalg.{name}": [f"np.linalg.{name}(a[:3, :3] + 20 * np.eye(3))"]
        for name in "det inv slogdet cond pinv qr svd svdvals eig eigvals matrix_rank tensorinv".split()
    },
    **{
        f"linalg.{name}": [f"np.linalg.{name}((a[:3, :3] + a[:3, :3].T) / 2 + 20 * np.eye(3))"]
        for name in "cholesky eigh eigvalsh".split()
    },
    "linalg.solve": ["np.linalg.solve(a[:3, :3] + 20 * np.eye(3), a)"],
    "linalg.tensorsolve": ["np.linalg.tensorsolve(a[:3, :3] + 20 * np.eye(3), a[:, 0])"],
    "linalg.lstsq": ["np.linalg.lstsq(a[:, :2], a[:, 0])[0]"],
    **{
        f"fft.{name}": [f"np.fft.{name}(a)"]
        for name in "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()
    },
    "fft.fftshift": ["np.fft.fftshift(a)", "np.fft.fftshift(a, 0)"],
    "fft.ifftshift": ["np.fft.ifftshift(a)"],
    "lib.stride_tricks.as_strided": ["np.lib.stride_tricks.as_strided(a, (1,), (8,))"],
    "lib.stride_tricks.sliding_window_view": [
        "np.lib.stride_tricks.sliding_window_view(a, 2)", "np.lib.stride_tricks.sliding_window_view(a, 2, 0)",
        "np.lib.stride_tricks.sliding_window_view(a, 2, 0, writeable=True)[:1]",
        "np.lib.stride_tricks.sliding_window_view(a, 1, 0, writeable=True)",
    ],
}  # fmt: skip
"""Calls of functions by their names."""

NO_ARRAY = set(
    "array2string array_repr array_str base_repr binary_repr busday_count busday_offset datetime_as_string "
    "datetime_data einsum_path format_float_positional format_float_scientific fromfile fromregex fromstring "
    "genfromtxt get_include get_printoptions getbufsize geterr geterrcall info is_busday isdtype isfortran isscalar "
    "issubdtype iterable load loadtxt may_share_memory min_scalar_type mintypecode ndim nested_iters printoptions "
    "promote_types result_type save savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall "
    "shape shares_memory show_config show_runtime size test typename allclose array_equal array_equiv can_cast "
    "common_type corrcoef iscomplexobj isrealobj frompyfunc broadcast_shapes "
    "arange bartlett blackman hamming hanning kaiser empty eye identity indices ones zeros tri tril_indices "
    "triu_indices diag_indices mask_indices linalg.test fft.fftfreq fft.rfftfreq fft.test".split()
)
"""Functions that give no array, or always a new one, and write into none."""


def public_functions():
    """The names of NumPy's functions, but for ufuncs."""
    for module in MODULES:
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and callable(value) and not isinstance(value, (type, np.ufunc)):
                yield f"{module.__name__}.{name}".removeprefix("numpy.")


METHODS = {
    "T": ["a.T"], "mT": ["a.mT"], "real": ["a.real", "a.real[...] = 3.0"], "imag": ["a.imag"],
    "flat": ["a.flat[1:]", "a.flat[1] = 3.0", "a.flat = 3.0", "a.flat[:2] = [7.0, 8.0]", "a.flat.copy()"],
    "shape": ["a.shape = (-1,)"],
    "strides": ["a.strides = a.strides"],
    "dtype": ["a.dtype = np.int64"],
    "data": ["a.data"],
    "base": ["0 if a.base is None else 0"],
    "all": ["a.all(0)"], "any": ["a.any(0)"], "argmax": ["a.argmax(0)"], "argmin": ["a.argmin(0)"],
    "argpartition": ["a.argpartition(0)"], "argsort": ["a.argsort()"],
    "astype": [
        "a.astype(float)", "a.astype(float, copy=False)", "a.astype(np.float32, copy=False)",
        "a.astype(float, order='F', copy=False)",
        "a.astype(float, order='C', copy=False)", "a.astype(float, order='A', copy=False)",
        "a.astype(float, order='F')",
        "a.astype(int, casting='unsafe')", "a.astype(float, 'K', 'safe', False, False)",
    ],
    "byteswap": ["a.byteswap()", "a.byteswap(inplace=True)"],
    "choose": ["(a > 4).astype(int).choose([a, a])"],
    "clip": ["a.clip(2, 5)", "a.clip(2, 5, out=a)", "a.clip(2, None, a)"],
    "compress": ["a.compress([True])", "a.compress([True], 0)"],
    "conj": ["a.conj()"], "conjugate": ["a.conjugate()", "a.conjugate(out=a)"],
    "copy": ["a.copy()", "a.copy('F')", "a.copy('K')", "a.copy('A')"],
    "cumprod": ["a.cumprod(0)"],
    "cumsum": ["a.cumsum()", "a[None].cumsum(1, out=a[None])"],
    "diagonal": ["a.diagonal()", "a.diagonal(1)"],
    "dot": ["a.dot(2.0)", "a.dot(a.T)"],
    "fill": ["a.fill(3.0)"],
    "flatten": ["a.flatten()", "a.flatten('F')", "a.flatten('A')", "a.flatten('K')"],
    "getfield": ["a.getfield(np.float64)"], "setfield": ["a.setfield(3.0, np.float64)"],
    "item": ["np.array(a.item(0))"],
    "max": ["a.max(0)"], "mean": ["a.mean(0)"], "min": ["a.min(0)", "a.min(0, keepdims=True)"],
    "nonzero": ["(a > 4).nonzero()"],
    "partition": ["a.partition(0)", "a.partition(0, axis=0)", "a.partition((0, -1))"],
    "prod": ["a.prod(0)"],
    "put": ["a.put(0, 7.0)", "a.put([0, 1], [7.0, 8.0], 'wrap')"],
    "ravel": [f"a.ravel({order!r})" for order in "CFAK"],
    "repeat": ["a.repeat(1)", "a.repeat(1, 0)"],
    "reshape": [
        "a.reshape(-1)", "a.reshape(a.shape)", "a.reshape(2, -1)", "a.reshape((2, -1), order='F')",
        "a.reshape(-1, copy=True)",
        "a.reshape(-1, copy=False)", "a.reshape(2, -1, order='A')", "a.reshape(*a.shape, 1)", "a.reshape(1, -1)",
    ],
    "resize": ["a.resize(2, 2, refcheck=False)", "a.resize(a.shape, refcheck=False)"],
    "round": ["a.round()", "a.round(0, a)", "a.round(out=a)"],
    "searchsorted": ["np.arange(9.0).searchsorted(a)"],
    "setflags": ["a.setflags(write=False)"],
    "flags": ["a.flags.writeable * 1", "a.flags['C_CONTIGUOUS'] * 1", "a.flags['F'] * 1", "a.flags.owndata * 1"],
    "sort": ["a.sort()", "a.sort(0)", "a.sort(axis=0, kind='stable')"],
    "squeeze": ["a.squeeze()", "a.squeeze(0)"],
    "std": ["a.std(0)"], "sum": ["a.sum(0)", "a.sum(0, keepdims=True)", "a.sum(())"],
    "swapaxes": ["a.swapaxes(0, -1)", "a.swapaxes(0, 0)"],
    "take": ["a.take(0)", "a.take([0], 0)"],
    "to_device": ["a.to_device('cpu')"],
    "tolist": ["np.array(a.tolist())"],
    "trace": ["a.trace()"],
    "transpose": ["a.transpose()", "a.transpose(None)"],
    "var": ["a.var(0)"],
    "view": ["a.view()", "a.view(float)", "a.view(np.ndarray)", "a.view(np.int64)", "a.view(type=np.ndarray)"],
}  # fmt: skip
NO_MEMORY = set("ctypes device dump dumps itemsize nbytes ndim size tobytes tofile".split())

OTHER = {
    "indexing": [
        "a", "a[...]", "a[()]", "a[:]", "a[None]", "a[..., None]", "a[0]", "a[..., 0]", "a[1:]", "a[::-1]",
        "a[..., ::2]",
        "a[[0]]", "a[..., [0, 1]]", "a[:1, [0]]", "a[np.int64(0)]", "a[np.ix_([0, 1], [0, 1])]",
        "a[0, ...]", "a[:, None, [0]]",
    ],
    "operators": [
        "+a", "abs(a)", "a * 1", "a.T + 0", "operator.iadd(a, 1)", "operator.imul(a, a[..., :1])", "a.__iadd__(1)",
    ],
    "assignment": [
        "operator.setitem(a, 0, 5.0)", "operator.setitem(a, ([0, 0],), 5.0)", "operator.setitem(a, a > 4, 0.0)",
        "operator.iadd(a[:1], a[0])", "operator.setitem(a.T, 0, a.T[-1])",
        "operator.setitem(a, slice(1, None), a[:-1].copy())",
    ],
    "Python's functions": [
        "list(a)", "tuple(a)", "[*a]", "next(iter(a))", "copy.copy(a)", "copy.deepcopy(a)", "copy.deepcopy([a, a])[0]",
    ],
    "permutations": [
        "np.random.default_rng(0).shuffle(a)", "np.random.default_rng(0).shuffle(a, axis=-1)",
        "np.random.RandomState(0).shuffle(a)", "np.random.default_rng(0).permutation(a)",
        "np.random.default_rng(0).choice(a, 2)", "np.random.RandomState(0).permutation(a)",
        "np.random.default_rng(0).random(out=a)", "random.Random(0).shuffle(a)",
    ],
    "methods of ufuncs": [
        "np.add.at(a, 0, 1.0)", "np.add.at(a, ([0, 0],), 1.0)", "np.subtract.at(a, [0, 0], 1.0)",
        "np.negative.at(a, 0)",
        "np.multiply.at(a, [0, 0], 2.0)", "np.add.reduce(a)", "np.add.reduce(a, axis=())",
        "np.add.reduce(a, axis=0, out=a[0])",
        "np.add.accumulate(a, 0, out=a)", "np.add.reduceat(a, [0, 1])", "np.add.outer(a, a)",
        "np.maximum.accumulate(a, out=a)",
    ],
    "out=": [
        "np.add(a, 1, out=a)", "np.add(a, 1, a)", "np.add(a, a[::-1], out=a)", "np.add(a, 1, out=a, where=a > 4)",
        "np.add(a, 1, out=(a,))", "np.divmod(a, 2.0, out=(a, np.ones(a.shape)))", "np.modf(a)", "np.frexp(a)",
        "np.exp(a, a)", "np.matmul(a, np.eye(a.shape[-1]), out=a)",
        "np.einsum('ij,jk->ik', a, np.eye(a.shape[-1]), out=a)",
    ],
    "views that are written into": [
        "np.copyto(a.T, 2.0)", "np.copyto(a.reshape(-1), 2.0)", "np.put(a.ravel(), 0, 5.0)",
        "np.place(a.T, a.T > 4, [7.0])",
        "np.put(a.T, [1, 2], 5.0)", "np.nan_to_num(a[:1], copy=False, nan=1.0)", "np.fill_diagonal(a.T, 5.0)",
        "a.T.sort(0)", "a[:1].fill(3.0)", "np.add(a[:1], 1, out=a[:1])",
    ],
    "other": [
        "np.r_[a]", "np.c_[a]", "np.asarray(np.asarray(a))", "np.ma.masked_array(a, a > 4).filled(0)", "a.__array__()",
        "[y for _, y in np.ndenumerate(a)]", "np.vectorize(lambda v: v)(a)",
    ],
}  # fmt: skip
"""Operations that are neither functions nor methods: indexing, operators, methods of ufuncs, `out=`, permutations."""

NOT_OURS = {
    "np.fromiter(a, float)", "a.dtype = np.int64", "np.lib.stride_tricks.as_strided(a, (1,), (8,))", "a.__array__()",
    "np.ma.masked_array(a, a > 4).filled(0)", "np.random.default_rng(0).random(out=a)", "np.asmatrix(a)",
    "np.random.default_rng(0).permutation(a)", "np.random.RandomState(0).permutation(a)",
    "np.random.default_rng(0).choice(a, 2)", "np.roots(a)",
}  # fmt: skip
"""Calls that NumPy itself refuses for traced arrays, or whose result it does not let be written into."""

BASES = {
    "traced": "x + 0",
    "constant": "np.array([[1.0, 9.0, 3.0, 4.0], [5.0, 6.0, 7.5, 8.0], [0.5, 2.0, 9.5, 3.5]])",
    "copied": "x.copy()",
    "captured": "np.array(TABLE)",
}
LAYOUTS = {
    "rows": "m",
    "columns": "np.array(m, order='F')",
    "transposed": "m.T",
    "with gaps": "m[:, ::2]",
    "one row": "m[:1]",
    "one column": "m[:, 1:2]",
    "backwards": "m[::-1]",
    "row": "m[0]",
    "column": "m[:, 0]",
    "number": "m[0, 0, ...]",
    "picked": "m[:, [0, 2]]",
    "computed": "m.T * 2",
    "three axes": "np.moveaxis(m.reshape(3, 2, 2), 0, 2)",
    "zeros": "np.zeros_like(m.T)",
}


# ---- what is run


def leaves(x):
    """The arrays and numbers in a result, of NumPy's and of a trace."""
    if isinstance(x, (tuple, list)):
        return [z for y in x for z in leaves(y)]
    if isinstance(x, (Places, Selected)):
        raise x.refusal()
    return [x] if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc" else []


def write(y):
    """Write into all arrays of a result."""
    for x in leaves(y):
        if isinstance(x, np.ndarray):
            x[...] = np.astype(x * 2 + 100, x.dtype)


def program(base, layout, call, into_result):
    """A function that makes an array, calls something on it, and writes into the result, or into the array."""
    # an array of no dimensions, and a number, differ in nothing but whether they can be written into
    seen = "(m, a)" if layout == LAYOUTS["number"] and into_result else "(m, a, y)"
    written = "write(y)" if into_result else "a[...] = a * 2 + 100"
    lines = ["def f(x):", f"m = {base}", f"a = {layout}", f"y = {call}", written, f"return tuple(leaves({seen}))"]
    text = "\n    ".join(lines) + "\n"
    name = f"<{base} {layout} {call} {into_result}>"
    names = {
        "np": np,
        "copy": copy,
        "operator": operator,
        "random": random,
        "TABLE": TABLE,
        "write": write,
        "leaves": leaves,
    }
    exec(compile(text, name, "exec"), names)
    names["f"].text = text
    return names["f"]


def quote(f):
    """Let symgrad find the source of a function, which it converts then, as it does with those of files."""
    name = f.__code__.co_filename
    linecache.cache[name] = (len(f.text), None, f.text.splitlines(True), name)


class Traces:
    """Many small traces in one context, which is what takes the time."""

    def __enter__(self):
        self._context = inside(Graph(), program)
        self._context.__enter__()
        self._token = tracing.set(None)
        return self

    def __exit__(self, *error):
        tracing.reset(self._token)
        self._context.__exit__(*error)

    def run(self, f):
        """Evaluate the graph of a function, before it is compiled."""
        graph = Graph()
        x = graph.add_input("x", Aval(X.shape, X.dtype))
        tokens = tracing.set(graph), refused.set([])
        try:
            outputs = [lift(graph, y) for y in f(Variable(graph, x, "x is an argument"))]
        finally:
            tracing.reset(tokens[0])
            refused.reset(tokens[1])
        return interpret(outputs, {x: X})


def numpys(f):
    """Return NumPy's results; None where it refuses."""
    try:
        return [np.array(y) for y in f(np.array(X))]
    except Exception:
        return None


GROUPS = {**CALLS, **{f"x.{name}": calls for name, calls in METHODS.items()}}
GROUPS |= OTHER
CASES = [(layout, into) for layout in LAYOUTS.values() for into in (True, False)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GROUPS)
def test_views_and_copies(name):
    right = []
    with Traces() as traces:
        for i, call in enumerate(GROUPS[name]):
            for j, (layout, into_result) in enumerate(CASES):
                base = [*BASES.values()][(i + j + j // 4) % len(BASES)]
                f = program(base, layout, call, into_result)
                want = numpys(f)
                try:
                    found = traces.run(f)
                except SymgradError:
                    continue
                except (TypeError, ValueError, AttributeError, IndexError, BufferError):
                    assert want is None or call in NOT_OURS, f"{call} of {layout} of {base} raises"
                    continue
                if want is not None:
                    check(found, want, f.__code__.co_filename)
                    right.append((f, want))
    group = [*GROUPS].index(name)
    level, some = group % 3, right[group % 12 :: 12]  # of which graphs are right: what is made of some, at a level
    for f, _ in some[::3]:
        quote(f)
    f = joined([f for f, _ in some])
    check(sg.compile(f, optimize=level)(X), [y for _, want in some for y in want], f"{name} at {level}")


def joined(functions):
    return lambda x: tuple(y for f in functions for y in f(x))


def check(found, want, message):
    assert len(found) == len(want), message
    for y, z in zip(found, want, strict=True):
        y = np.asarray(y)
        assert y.shape == z.shape and y.dtype == z.dtype, message
        if y.tobytes() != z.tobytes():  # most have the same bits, which is seen sooner
            np.testing.assert_allclose(y, z, rtol=1e-9, atol=1e-9, err_msg=message)


def test_every_function_is_classified():
    """Functions that a newer NumPy has have to be added to `CALLS`, or to those that give and take no memory."""
    assert {*public_functions()} - CALLS.keys() - NO_ARRAY == set()
    methods = {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert methods - METHODS.keys() - NO_MEMORY == set()


# ---- cases that were wrong


def placed(x):
    a = np.zeros(4)
    np.place(a, np.array([True, False, True, False]), [1.0, 2.0])
    return a * x[0, 0]


def written_through_a_window(x):
    z = np.zeros(4)
    np.lib.stride_tricks.sliding_window_view(z, 2, writeable=True)[0] = x[0, 0]
    return z


def of_the_transpose(x):
    a = x.copy()
    b = np.ascontiguousarray(a.T)
    b[0] = 7.0
    return a, b


def without_a_copy(x):
    a, made = x.copy(), np.zeros((3, 4))
    np.array(a, copy=None)[0] = 7.0
    np.array(made, copy=None)[0] = x[1]
    return a, made


def by_the_flags(x):
    y = x.T if x.flags["C_CONTIGUOUS"] or x.flags.f_contiguous else x.T + 0.0
    y = y + 1.0
    y.flags.writeable = False
    return y


def beside_a_number(x):
    a, b = np.broadcast_arrays(x[0], 6.0)
    return a + b, b.shape[0] * x


def as_a_number(x):
    """Reductions of an array that is found under a name are numbers, of which ``+=`` makes another one."""
    total = np.sum(TABLE)
    before = total
    total += x[0, 0]
    return before + total * isinstance(before, float)


def by_a_library(x):
    special = pytest.importorskip("scipy.special")
    return special.factorial(np.arange(5)) * x[0, 0]


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    "f", [placed, of_the_transpose, without_a_copy, by_the_flags, beside_a_number, as_a_number, by_a_library]
)
def test_what_was_wrong(f, level):
    found, want = sg.compile(f, optimize=level)(X), f(X.copy())
    for y, z in zip(leaves(found), leaves(want), strict=True):
        np.testing.assert_array_equal(y, z)


def test_what_may_be_a_view_is_not_read_after_a_write():
    with pytest.raises(WriteError, match=r"sliding_window_view may give a view of the one that .*:\d+ writes into"):
        sg.compile(written_through_a_window)(X)


def test_a_flag_that_is_off():
    def f(x):
        y = x * 2
        y.flags.writeable = False
        y[0] = 1.0
        return y

    with pytest.raises(WriteError, match="its flag writeable is off"):
        sg.compile(f)(X)


def test_a_library_that_holds_the_memory_of_constants_sees_what_is_written_into_them():
    def f(x, traced):
        a = np.zeros(3)
        masked = np.ma.masked_array(a, [False, True, False])
        a[0] = x[0, 0] if traced else 5.0
        return x * masked.sum()

    np.testing.assert_array_equal(sg.compile(lambda x: f(x, False))(X), 5.0 * X)
    with pytest.raises(WriteError, match="whose memory a library holds"):
        sg.compile(lambda x: f(x, True))(X)


# ---- which keys give views

KEYS = {
    "an int": lambda i: 0,
    "a number of NumPy's": lambda i: np.int64(1),
    "a traced one": lambda i: i[1],
    "an int that is computed": lambda i: int(i[0]),
    "an array of no dimensions": lambda i: np.array(0),
    "a traced one of none": lambda i: i.reshape(-1)[..., 1],
    "what np.where gives": lambda i: np.where(True, 1, 0),
    "a list": lambda i: [1],
    "an array": lambda i: np.array([1, 0]),
    "a traced array": lambda i: i,
    "a mask": lambda i: np.array([True, False]),
    "a new axis": lambda i: None,
    "an ellipsis": lambda i: ...,
    "a slice": lambda i: slice(None, None, -1),
}


def written_under(key, x, i):
    """An array and what is read from it, which is written into if it is an array."""
    x = x.copy()
    y = x[tuple(of(i) for of in key)]
    if isinstance(y, np.ndarray):
        y[...] = 2 * y + 100
    return x, y


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_under_which_keys_an_array_shows_its_memory(ndim):
    x, i = np.arange(2.0**ndim).reshape((2,) * ndim), np.array([0, 1])
    keys = [*itertools.product(KEYS.values()), *itertools.product(KEYS.values(), repeat=2)]

    def fits(key):
        try:
            return bool(written_under(key, x, i))
        except IndexError:
            return False

    keys = [key for key in keys if fits(key)]
    assert len(keys) > 60
    results = sg.compile(lambda x, i: [written_under(key, x, i) for key in keys])(x, i)
    for key, (memory, read) in zip(keys, results, strict=True):
        expected = written_under(key, x, i)
        np.testing.assert_array_equal(memory, expected[0])
        np.testing.assert_array_equal(read, expected[1])
