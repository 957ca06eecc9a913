"""Sample calls by which the census finds out what a function gives: arguments as specs and as constants.

Most functions take one of the calls of `USUAL`, tried in this order. `OWN` has calls of those that take none of them,
and of those whose derivative shows in another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

VECTOR, MATRIX, NUMBER, INTEGERS = "float64[4]", "float64[4, 4]", "float64[]", "int64[4]"
COMPLEX, COMPLEX_MATRIX = "complex128[4]", "complex128[4, 4]"
KNOWN = np.array([0, 1, 1, 2])  # integers that are not traced: bins, orders, indices
Arguments = tuple[Any, ...]

USUAL: tuple[Arguments, ...] = (
    (VECTOR,),
    (NUMBER,),
    (MATRIX,),
    (VECTOR, VECTOR),
    (NUMBER, NUMBER),
    (MATRIX, MATRIX),
    (MATRIX, VECTOR),
    ([VECTOR, VECTOR],),
    ([MATRIX, MATRIX],),
    (VECTOR, 1),
    (MATRIX, 0),
    (MATRIX, 0, 1),
    (VECTOR, 2, 0),
    (VECTOR, (2, 2)),
    (VECTOR, [0, 1]),
    (VECTOR, VECTOR, VECTOR),
    (NUMBER, NUMBER, NUMBER),
    (NUMBER, NUMBER, NUMBER, NUMBER),
    (1, NUMBER),
    (1, NUMBER, NUMBER),
    (1, 1, NUMBER),
    (1, 1, NUMBER, NUMBER),
    (KNOWN, VECTOR),
    (VECTOR, KNOWN),
    (VECTOR, KNOWN, VECTOR),
    (INTEGERS,),
    (INTEGERS, INTEGERS),
)


def _last(x: Any) -> Any:
    return x[-1]


def _doubled(x: Any) -> Any:
    return 2 * x


WRITES = frozenset({"numpy.copyto", "numpy.fill_diagonal", "numpy.place", "numpy.put", "numpy.put_along_axis",
                    "numpy.putmask", "numpy.ndarray.fill", "numpy.ndarray.partition", "numpy.ndarray.put",
                    "numpy.ndarray.sort", "numpy.ndarray.setflags", "numpy.random.shuffle"})  # fmt: skip
"""Functions that give nothing, and write into their first argument."""

OWN: dict[str, Arguments] = {
    **{f"numpy.{name}": ([NUMBER, NUMBER],) for name in ("array", "asarray", "asanyarray", "ascontiguousarray")},
    **{f"numpy.{name}": (NUMBER, NUMBER, 5) for name in ("linspace", "logspace", "geomspace")},
    "numpy.full": (3, NUMBER),
    "numpy.linalg.eig": (COMPLEX_MATRIX,),
    "numpy.linalg.eigvals": (COMPLEX_MATRIX,),
    "numpy.full_like": (VECTOR, NUMBER),
    "numpy.apply_along_axis": (_last, 0, MATRIX),
    "numpy.apply_over_axes": (np.sum, MATRIX, [0]),
    "numpy.broadcast_shapes": ((4, 1), (3,)),
    "numpy.broadcast_to": (VECTOR, (2, 4)),
    "numpy.copyto": (VECTOR, VECTOR),
    "numpy.cross": ("float64[3]", "float64[3]"),
    "numpy.dsplit": ("float64[2, 2, 4]", 2),
    "numpy.einsum": ("i,i->", VECTOR, VECTOR),
    "numpy.fill_diagonal": (MATRIX, NUMBER),
    "numpy.flatnonzero": (np.array([0, 1]),),
    "numpy.heaviside": (VECTOR, VECTOR),
    "numpy.nonzero": (np.array([0, 1]),),
    "numpy.piecewise": (VECTOR, [np.array([True, False, True, False])], [_doubled]),
    "numpy.place": (VECTOR, np.array([True, False, True, False]), VECTOR),
    "numpy.put": (VECTOR, [0, 1], NUMBER),
    "numpy.put_along_axis": (VECTOR, np.array([0, 1]), "float64[2]", 0),
    "numpy.putmask": (VECTOR, np.array([True, False, True, False]), VECTOR),
    "numpy.resize": (VECTOR, (2, 3)),
    "numpy.select": ([np.array([True, False, True, False])], [VECTOR]),
    "numpy.unravel_index": (INTEGERS, (2, 2)),
    "numpy.vsplit": (MATRIX, 2),
    "numpy.where": (KNOWN, VECTOR, VECTOR),
    "numpy.can_cast": (np.float64, np.float32),
    "numpy.isdtype": (np.dtype(float), "real floating"),
    "numpy.issubdtype": (np.float64, np.floating),
    "numpy.promote_types": (float, int),
    "numpy.mask_indices": (3, np.triu),
    "numpy.kaiser": (4, NUMBER),
    "numpy.polyfit": (VECTOR, VECTOR, 1),
    "numpy.random.choice": (VECTOR, 2),
    "numpy.random.permutation": (VECTOR,),
    "numpy.random.shuffle": (VECTOR,),
    "numpy.angle": (COMPLEX,),
    "numpy.imag": (COMPLEX,),
    "numpy.isreal": (COMPLEX,),
    "numpy.iscomplex": (COMPLEX,),
    "numpy.ndarray.imag": (COMPLEX,),
    "numpy.fft.fftfreq": (4, NUMBER),
    "numpy.fft.rfftfreq": (4, NUMBER),
    "scipy.fft.fftfreq": (4, NUMBER),
    "scipy.fft.rfftfreq": (4, NUMBER),
    "numpy.linalg.cross": ("float64[3]", "float64[3]"),
    "numpy.linalg.tensorinv": ("float64[4, 2, 2]", 1),
    "numpy.linalg.matrix_power": (MATRIX, 2),
    "numpy.ndarray.choose": (INTEGERS, [VECTOR, VECTOR]),
    "numpy.ndarray.astype": (VECTOR, np.float32),
    "numpy.ndarray.compress": (VECTOR, [True, False]),
    "numpy.ndarray.fill": (VECTOR, NUMBER),
    "numpy.ndarray.item": (NUMBER,),
    "numpy.ndarray.mT": (MATRIX,),
    "numpy.ndarray.resize": (VECTOR, 8),
    "numpy.ndarray.tolist": (VECTOR,),
    "scipy.special.wofz": (NUMBER,),
    "scipy.stats.irwinhall.logpdf": (VECTOR, 2),
    "scipy.stats.irwinhall.pdf": (VECTOR, 2),
    **{f"scipy.stats.wishart.{name}": (MATRIX, 5, np.eye(4)) for name in ("logpdf", "pdf")},
    **{f"scipy.stats.matrix_normal.{name}": (MATRIX, MATRIX) for name in ("logpdf", "pdf")},
    **{f"scipy.stats.matrix_t.{name}": (MATRIX, np.zeros((4, 4)), np.eye(4), np.eye(4)) for name in ("logpdf", "pdf")},
    **{f"scipy.stats.normal_inverse_gamma.{name}": (VECTOR, VECTOR) for name in ("logpdf", "pdf")},
    **{f"scipy.stats.poisson_binom.{name}": (KNOWN, VECTOR) for name in ("logpmf", "pmf")},
    "scipy.stats.dirichlet.logpdf": (VECTOR, VECTOR),
    "scipy.stats.dirichlet.pdf": (VECTOR, VECTOR),
    "numpy.ndarray.nonzero": (np.array([0, 1]),),
    "numpy.ndarray.partition": (VECTOR, 1),
    "numpy.ndarray.put": (VECTOR, [0, 1], NUMBER),
    "numpy.ndarray.searchsorted": (VECTOR, NUMBER),
    "numpy.ndarray.setflags": (VECTOR, False),
    "numpy.ndarray.take": (VECTOR, [0, 1]),
    "scipy.special.hyp1f1": (VECTOR, VECTOR, VECTOR),
    "scipy.special.zeta": (VECTOR, VECTOR),
    "scipy.linalg.cho_solve": ((MATRIX, True), VECTOR),
    "scipy.linalg.convolution_matrix": (VECTOR, 3),
    "scipy.linalg.lu_solve": ((MATRIX, KNOWN), VECTOR),
    "scipy.linalg.solve_banded": ((1, 1), "float64[3, 4]", VECTOR),
    "scipy.linalg.solveh_banded": ("float64[2, 4]", VECTOR),
    "scipy.linalg.eigvalsh_tridiagonal": (VECTOR, "float64[3]"),
    "scipy.linalg.solve_sylvester": (MATRIX, MATRIX, MATRIX),
    "scipy.linalg.khatri_rao": (MATRIX, MATRIX),
}

OUTSIDE: dict[str, str] = {
    "numpy": """
        datetime_data frompyfunc fromfile fromregex fromstring fromiter genfromtxt get_include get_printoptions
        getbufsize geterr geterrcall info load loadtxt mintypecode nested_iters printoptions set_printoptions
        setbufsize seterr seterrcall show_config show_runtime test typename asmatrix iterable isscalar
    """,
    "numpy.random": "default_rng get_state seed set_state",
    "numpy.linalg": "test",
    "numpy.fft": "test",
    "scipy.special": """
        geterr seterr errprint test ai_zeros bei_zeros beip_zeros ber_zeros berp_zeros bi_zeros erf_zeros fresnel_zeros
        fresnelc_zeros fresnels_zeros jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros kei_zeros keip_zeros kelvin_zeros
        ker_zeros kerp_zeros y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros roots_legendre roots_chebyt roots_chebyu
        roots_chebyc roots_chebys roots_laguerre roots_hermite roots_hermitenorm roots_sh_legendre roots_sh_chebyt
        roots_sh_chebyu p_roots t_roots u_roots c_roots s_roots l_roots h_roots he_roots ps_roots ts_roots us_roots
        legendre chebyt chebyu chebyc chebys laguerre hermite hermitenorm sh_legendre sh_chebyt sh_chebyu bernoulli
        euler stirling2 factorial2 factorialk
    """,
    "scipy.linalg": """
        dft hadamard helmert hilbert invhilbert pascal invpascal find_best_blas_type get_blas_funcs get_lapack_funcs
        test
    """,
    "scipy.fft": """
        next_fast_len prev_fast_len set_backend skip_backend set_global_backend register_backend get_workers set_workers
        fhtoffset test
    """,
}
"""Functions that no traced value belongs into: settings, files, dtypes, integers such as the number of zeros."""


def calls_of(path: str, function: Any) -> Sequence[Arguments]:
    """Return calls to try; of densities also with constants for the parameters of shape, whose values may decide."""
    if path in OWN:
        return (OWN[path],)
    if path.startswith("numpy.ndarray.") and not hasattr(np, path.rpartition(".")[2]):
        return ((VECTOR,),)
    if not path.startswith("scipy.stats."):
        return USUAL
    n = getattr(function.__self__, "numargs", 0)
    return [(VECTOR, *[x] * n) for x in (NUMBER, 0.5, 2.0)][: 3 if n else 1]
