"""Products of matrices: NumPy's BLAS, or our own functions where BLAS does not use the widest vectors.

Our functions are separate modules, which all modules with kernels share, so that they are compiled once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from importlib.resources import files

from symgrad.errors import CompilerError
from symgrad.loops.machine import cores
from symgrad.targets.c import blas, pool
from symgrad.targets.c.extension import API
from symgrad.targets.c.library import INCLUDES, needed_by
from symgrad.targets.c.toolchain import has_wide_vectors, load

MODULES = {"float64": "sg_products_of_doubles", "float32": "sg_products_of_floats"}
SINGLE = {
    "double": "float", "__m512d": "__m512", "__mmask8": "__mmask16",
    **{f"sg_{owner}dgemm": f"sg_{owner}sgemm" for owner in ("", "blas_")},
    **{f"sg_dgemm_{threads}": f"sg_sgemm_{threads}" for threads in ("by", "alone", "shared")},
}  # fmt: skip
"""Names of double precision, and those that single precision has instead; intrinsics end in ps rather than pd."""
ADDRESS = """\
static bool sg_interrupted(void)
{
    return false;
}

/* Return the address of the function that multiplies matrices, given that of BLAS, and that of the pool, or 0. */
static PyObject *address(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)count;
    sg_blas_dgemm = (void *)(intptr_t)PyLong_AsLongLong(args[0]);
    const struct sg_pool *threads = (void *)(intptr_t)PyLong_AsLongLong(args[1]);
    if (threads)
        sg_threads = threads;
    return PyLong_FromLongLong((intptr_t)(threads ? sg_dgemm_shared : sg_dgemm_alone));
}
"""
MODULE = """\
static PyMethodDef methods[] = {{{{"address", (PyCFunction)(void *)address, 0x80, NULL}}, {{NULL, NULL, 0, NULL}}}};
static PyModuleDef definition = {{1, NULL, NULL, 0, NULL, "{name}", NULL, -1, methods, {{NULL}}}};

PyObject *PyInit_{name}(void)
{{
    return PyModule_Create2(&definition, 1013);
}}
"""


def addresses(dtypes: Collection[str], threads: int | None) -> list[int]:
    """Return the addresses of the functions that multiply matrices, as `Blas` has them, if any.

    For the `dtypes` in use they are our own functions if these are faster; up to `threads` threads share a product.
    """
    found = blas.found()
    if found is None:
        return []
    pairs = zip(blas.KINDS, found, strict=True)
    return [
        _faster(dtype, in_blas, threads) if dtype in dtypes and dtype in MODULES else in_blas
        for dtype, in_blas in pairs
    ]


def _faster(dtype: str, in_blas: int, threads: int | None) -> int:
    """Return the address of our own function that multiplies matrices, or that of BLAS if it is as fast."""
    if os.name == "nt" or not has_wide_vectors() or blas.has_wide_kernels():
        return in_blas  # on Windows compilers do not align such vectors on the stack
    shares = threads is None or threads >= cores()
    with suppress(CompilerError):
        return int(load(text(dtype), MODULES[dtype]).address(in_blas, pool.address() if shares else 0))
    return in_blas


def text(dtype: str) -> str:
    """Return the source of the module for a dtype."""
    parts = [files("symgrad.targets.c").joinpath("products.h").read_text("utf-8"), ADDRESS]
    if dtype == "float32":
        parts = [re.sub(r"\w+", lambda word: _in_single(word[0]), part) for part in parts]
    products, address = parts
    needed = needed_by("\n".join(parts))
    return "\n\n".join([INCLUDES, needed, products, API, address, MODULE.format(name=MODULES[dtype])])


def _in_single(word: str) -> str:
    return SINGLE.get(word) or (f"{word[:-2]}ps" if word.startswith("_mm512") and word.endswith("pd") else word)
