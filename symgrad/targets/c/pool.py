"""The pool of threads that run chunks of loops: a separate extension module, which all modules with kernels share."""

from __future__ import annotations

from importlib.resources import files

from symgrad.loops.machine import cores
from symgrad.targets.c.extension import API
from symgrad.targets.c.library import INCLUDES, needed_by
from symgrad.targets.c.toolchain import load

NAME = "sg_threads_of_kernels"
POSIX = "#define _POSIX_C_SOURCE 200809L"
MODULE = f"""\
static PyObject *address(PyObject *self, PyObject *cores)
{{
    (void)self;
    sg_cores = (int)PyLong_AsLongLong(cores);
    return PyLong_FromLongLong((intptr_t)&sg_the_pool);
}}

static PyMethodDef methods[] = {{{{"address", address, 0x8, NULL}}, {{NULL, NULL, 0, NULL}}}};
static PyModuleDef definition = {{1, NULL, NULL, 0, NULL, "{NAME}", NULL, -1, methods, {{NULL}}}};

PyObject *PyInit_{NAME}(void)
{{
    return PyModule_Create2(&definition, 1013);
}}
"""


def text() -> str:
    """Return the source of the module."""
    return "\n\n".join([POSIX, INCLUDES, needed_by("sg_pool SG_ALONE"), threads(), API, MODULE])


def threads() -> str:
    """Return the source of the pool, without Python."""
    return files("symgrad.targets.c").joinpath("threads.h").read_text("utf-8")


def address() -> int:
    """Return the address of the pool, which has one thread for each core that this process may use."""
    return int(load(text(), NAME).address(cores()))
