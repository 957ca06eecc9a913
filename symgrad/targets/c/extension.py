"""The extension module around kernels: how Python calls them, checks of arguments, and memory of results.

It includes no headers of Python or NumPy. The few names that it needs are declared here, from Python's stable ABI and
from NumPy's table of functions, whose order NumPy guarantees.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symgrad.core.shapes import product
from symgrad.lowering.expressions import Local, extent
from symgrad.lowering.names import names_of
from symgrad.lowering.statements import Buffer, Check, For, Function, Multiply, Parallel, Regular, Require, While, walk
from symgrad.targets.c import blas
from symgrad.targets.c.functions import C_TYPES, IN_MEMORY
from symgrad.targets.c.library import includes_of, needed_by
from symgrad.targets.c.printing import EMPTY, FORKED, NOT_POSITIVE, OUTSIDE, RAISED, SINGULAR, Printer
from symgrad.targets.c.text import sizes_of, text_of

API = """\
/* ---- Python and NumPy, as far as they are needed */

#ifdef _WIN32
#define SG_DATA extern __declspec(dllimport)
#else
#define SG_DATA extern
#endif

typedef struct _object PyObject;
typedef intptr_t Py_ssize_t;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct { const char *name; PyCFunction call; int flags; const char *doc; } PyMethodDef;
typedef struct {
    Py_ssize_t references; void *type; void *init; Py_ssize_t index; void *copy;
    const char *name; const char *doc; Py_ssize_t size; PyMethodDef *methods; void *rest[4];
} PyModuleDef;
typedef struct {
    Py_ssize_t references; void *type; char *data; int ndim; intptr_t *shape; intptr_t *strides;
    PyObject *base; PyObject *descr; int flags;
} Array;

extern PyObject *PyModule_Create2(PyModuleDef *, int);
extern PyObject *PyImport_ImportModule(const char *);
extern PyObject *PyObject_GetAttrString(PyObject *, const char *);
extern void *PyCapsule_GetPointer(PyObject *, const char *);
extern PyObject *PyThreadState_GetDict(void);
extern PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
extern int PyDict_SetItem(PyObject *, PyObject *, PyObject *);
extern void PyErr_Clear(void);
extern PyObject *PyTuple_New(Py_ssize_t);
extern int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
extern PyObject *PyFloat_FromDouble(double);
extern PyObject *PyComplex_FromDoubles(double, double);
extern PyObject *PyLong_FromLongLong(long long);
extern PyObject *PyBool_FromLong(long);
extern double PyFloat_AsDouble(PyObject *);
typedef struct { double real, imag; } Complex;
extern Complex PyComplex_AsCComplex(PyObject *);
extern long long PyLong_AsLongLong(PyObject *);
extern unsigned long long PyLong_AsUnsignedLongLongMask(PyObject *);
extern int PyObject_IsTrue(PyObject *);
extern PyObject *PyErr_Occurred(void);
extern void PyErr_SetString(PyObject *, const char *);
extern PyObject *PyErr_NoMemory(void);
SG_DATA PyObject *PyExc_IndexError, *PyExc_OverflowError, *PyExc_ValueError, *PyExc_TypeError, *PyExc_RuntimeError;
extern void Py_IncRef(PyObject *);
extern void Py_DecRef(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern void *PyMem_RawMalloc(size_t);
extern void PyMem_RawFree(void *);
extern int PyErr_CheckSignals(void);
"""

ARRAYS = """\
#include <fenv.h>
#include <time.h>

enum { CONTIGUOUS = 0x0101, KEPT = 1 << 26, MOST = 1 << 28 };
static void **numpy;

static inline PyObject *sg_descr(int type) { return ((PyObject *(*)(int))numpy[45])(type); }

/* An argument as an array of a dtype whose numbers lie in order; a copy, to be released, where it is not. */
static Array *sg_array(PyObject *x, PyObject *descr, int ndim, PyObject **kept)
{
    Array *a = (Array *)x;
    if (a->type != numpy[2] || a->descr != descr || (a->flags & CONTIGUOUS) != CONTIGUOUS) {
        Py_IncRef(descr);
        a = (Array *)((PyObject *(*)(PyObject *, PyObject *, int, int, int, PyObject *))numpy[69])(
            x, descr, 0, 0, CONTIGUOUS, NULL);
        *kept = (PyObject *)a;
        if (!a)
            return NULL;
    }
    if (a->ndim != ndim) {
        PyErr_SetString(PyExc_ValueError, "an array has another number of dimensions");
        return NULL;
    }
    return a;
}

static PyObject *sg_new(int ndim, const intptr_t *shape, int type)
{
    typedef PyObject *New(void *, int, const intptr_t *, int, const intptr_t *, void *, int, int, PyObject *);
    return ((New *)numpy[93])(numpy[2], ndim, shape, type, NULL, NULL, 0, 0, NULL);
}

static PyObject *sg_scalar(void *number, PyObject *descr)
{
    return ((PyObject *(*)(void *, PyObject *, PyObject *))numpy[60])(number, descr, NULL);
}

/* Memory for a call, which a thread keeps: up to KEPT bytes, and more as long as all programs together keep no more
   than MOST of large memory. The system would give it anew, page by page, at each call. It is Python's, so that
   tracemalloc counts it. */
static _Thread_local char *sg_memory;
static _Thread_local int64_t sg_room, sg_counted;
static int64_t *sg_kept;  /* the bytes of large memory that all programs keep */

static void sg_give_back(void)
{
    if (sg_counted)
        __atomic_fetch_sub(sg_kept, sg_counted, __ATOMIC_RELAXED);
    PyMem_RawFree(sg_memory);
    sg_memory = NULL;
    sg_room = sg_counted = 0;
}

static _Thread_local bool sg_is_watched;

static void sg_end_thread(PyObject *capsule)
{
    (void)capsule;
    sg_give_back();
    sg_is_watched = false;
}

/* Let Python give back the memory of a thread when that ends: it clears a dict of the thread's then. */
static void sg_watch_thread(void)
{
    PyObject *of_thread = PyThreadState_GetDict(), *key = PyLong_FromLongLong((intptr_t)&sg_kept);
    PyObject *capsule = PyCapsule_New(&sg_kept, NULL, sg_end_thread);
    sg_is_watched = true;
    if (!of_thread || !key || !capsule || PyDict_SetItem(of_thread, key, capsule) < 0)
        PyErr_Clear();
    Py_DecRef(key);
    Py_DecRef(capsule);
}

static char *sg_workspace(int64_t bytes)
{
    if (bytes > sg_room) {
        if (!sg_is_watched)
            sg_watch_thread();
        sg_give_back();
        sg_memory = PyMem_RawMalloc((size_t)bytes + 64);
        sg_room = sg_memory ? bytes : 0;
    }
    return (char *)(((uintptr_t)sg_memory + 63) / 64 * 64);
}

/* Python's state while a kernel runs without its lock, and when signals have been heard last. */
static _Thread_local void *sg_state;
static _Thread_local struct timespec sg_heard;

/* Whether threads that run chunks of a loop are to end. They have no state of Python's. */
static bool (*sg_has_ended)(void);

/* Hear signals, twenty times a second at most. A handler may call kernels: they have memory of their own. */
static __attribute__((noinline)) bool sg_interrupted(void)
{
    if (!sg_state)
        return sg_has_ended && sg_has_ended();
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    double since = (double)(now.tv_sec - sg_heard.tv_sec) + 1e-9 * (double)(now.tv_nsec - sg_heard.tv_nsec);
    if (since >= 0 && since < 0.05)
        return false;
    sg_heard = now;
    char *memory = sg_memory;
    int64_t room = sg_room, counted = sg_counted;
    void *state = sg_state;
    int flags = fetestexcept(FE_ALL_EXCEPT);
    sg_memory = NULL;
    sg_room = sg_counted = 0;
    PyEval_RestoreThread(state);
    bool ends = PyErr_CheckSignals() < 0;
    sg_state = PyEval_SaveThread();
    sg_give_back();
    sg_memory = memory;
    sg_room = room;
    sg_counted = counted;
    feraiseexcept(flags);
    return ends;
}

static void sg_finish(void)
{
    if (sg_room <= KEPT || sg_counted)
        return;
    if (sg_kept) {
        sg_counted = sg_room;
        if (__atomic_add_fetch(sg_kept, sg_room, __ATOMIC_RELAXED) <= MOST)
            return;
    }
    sg_give_back();
}

/* Take the address at which all programs count the large memory that they keep. */
static PyObject *keep(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)count;
    sg_kept = (void *)(intptr_t)PyLong_AsLongLong(args[0]);
    return PyBool_FromLong(1);
}

/* Give back the memory of this thread. */
static PyObject *release(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)args, (void)count;
    sg_give_back();
    return PyBool_FromLong(1);
}
"""


REPEATS = """\
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
SG_DATA PyObject _Py_NoneStruct;

/* The flags of the processor for what NumPy may warn of. */
enum { WARNED = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID };

static inline void sg_clear_flags(void)
{
    if (fetestexcept(WARNED))
        feclearexcept(WARNED);
}

/* A number that a function has written is in memory, and flags have been raised. */
#define SG_WRITTEN(x) __asm__ volatile("" : : "r"(&(x)) : "memory")

/* What Python is told: the flags of the processor, or that the kernel has failed. */
enum { FAILED = 16 };

static int sg_told(int flags)
{
    return (flags & FE_DIVBYZERO ? 1 : 0) | (flags & FE_OVERFLOW ? 2 : 0) | (flags & FE_UNDERFLOW ? 4 : 0)
        | (flags & FE_INVALID ? 8 : 0);
}

/* Let Python decide whether NumPy is to repeat a call, and warn: NULL if that raises, None if the results of C stay. */
static __attribute__((cold, noinline)) PyObject *sg_repeated(PyObject *repeat, int told, PyObject *const *args,
        Py_ssize_t count)
{
    PyObject *given[count + 1];
    feclearexcept(WARNED);
    given[0] = PyLong_FromLongLong(told);
    if (!given[0])
        return NULL;
    memcpy(given + 1, args, (size_t)count * sizeof *given);
    PyObject *answer = PyObject_Vectorcall(repeat, given, (size_t)count + 1, NULL);
    Py_DecRef(given[0]);
    return answer;
}
"""


LINALG = """\
/* Raise NumPy's error about a matrix. */
static void sg_fail_as_linalg(const char *fact)
{
    PyObject *module = PyImport_ImportModule("numpy.linalg");
    PyObject *kind = module ? PyObject_GetAttrString(module, "LinAlgError") : NULL;
    if (kind)
        PyErr_SetString(kind, fact);
    Py_DecRef(kind);
    Py_DecRef(module);
}
"""

BLAS = tuple([f"sg_blas_{name}" for name in blas.Blas._fields])
POOL = "sg_threads"


def _connect(names: Sequence[str]) -> str:
    """Return the C function by which a module is given the addresses of BLAS and of the pool, if it needs any."""
    if not names:
        return ""
    lines = [
        "static PyObject *connect(PyObject *self, PyObject *const *args, Py_ssize_t count)", "{",
        "    (void)self;",
        f"    if (count != {len(names)}) {{",
        f'        PyErr_SetString(PyExc_TypeError, "connect takes {len(names)} addresses");',
        "        return NULL;", "    }",
        *(f"    {name} = (void *)(intptr_t)PyLong_AsLongLong(args[{k}]);" for k, name in enumerate(names)),
        *([f"    sg_has_ended = {POOL}->has_ended;"] if POOL in names else []),
        "    return PyErr_Occurred() ? NULL : PyBool_FromLong(1);", "}",
    ]  # fmt: skip
    return "\n".join(lines)


BIND = """\
/* Return a function of the kernels for one program: what it is called with, first. */
static PyObject *bind(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "bind takes a number and a function");
        return NULL;
    }
    PyObject *name = PyObject_GetAttrString(self, "__name__");
    PyObject *bound = name ? PyCFunction_NewEx(&kernels[PyLong_AsLongLong(args[0])], args[1], name) : NULL;
    Py_DecRef(name);
    return bound;
}
"""


class Printed(NamedTuple):
    """A kernel, with what its C depends on beside its statements."""

    function: Function
    pythons: Sequence[bool]  # for each result, whether it is a Python number rather than one of NumPy's
    tells_overflow: bool  # whether NumPy warns of it


def module_text(name: str, kernels: Sequence[Printed], threads: int | None, quick: str = "") -> str:
    """Return the source of an extension module.

    Parameters
    ----------
    name : str
        Of the module.
    kernels : sequence of Printed
    threads : int or None
        The most threads that share a loop; None for as many as cores.
    quick : str
        The C function that calls the only kernel directly, if there is one; see `quick`.
    """
    functions = [x.function for x in kernels]
    printed = [
        Printer(f, interruptible=_may_be_long(f), threads=threads, watched=True, tells_overflow=told).printed()
        for f, _, told in kernels
    ]
    connect = _connect([*(BLAS if products_in(functions) else ()), *([POOL] if needs_pool(functions, threads) else ())])
    used = {x.dtype.name for f in functions for x in (*f.parameters, *f.results)}
    dtypes = sorted(used | {x for x in C_TYPES if re.search(rf"\bof_{x}\b", quick)})  # of arguments not read, too
    answering = {"answer": f"quick_{functions[0].name}"} if quick else {}
    needed = needed_by("\n".join([*printed, connect]))
    parts = [
        includes_of("\n".join([*printed, needed])),
        needed,
        *printed,
        API,
        ARRAYS,
        LINALG if any(map(_facts, functions)) else "",
        REPEATS,
        "\n".join(f"static PyObject *of_{dtype};" for dtype in dtypes),
        *(_wrapper(f, pythons, is_repeated=True) for f, pythons, _ in kernels),
        quick,
        connect,
        _table("kernels", {f.name: f"call_{f.name}" for f in functions}, answering),
        BIND,
        _definition(
            name,
            {"bind": "bind", "keep": "keep", "release": "release"} | ({"connect": "connect"} if connect else {}),
            dtypes,
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def products_in(functions: Iterable[Function]) -> set[str]:
    """Return the dtypes in which functions multiply matrices, for which their module needs BLAS."""
    return {s.target.dtype.name for f in functions for s in walk(f.body) if isinstance(s, Multiply)}


def needs_pool(functions: Iterable[Function], threads: int | None) -> bool:
    """Whether a module needs the pool of threads, which Windows does not have."""
    return threads != 1 and os.name != "nt" and any(isinstance(s, Parallel) for f in functions for s in walk(f.body))


def glue_text(name: str, function: Function, public: str, pythons: Sequence[bool], declared: str) -> str:
    """Return the source of an extension module around a C function that is defined elsewhere.

    Parameters
    ----------
    name : str
        Of the module.
    function : Function
    public : str
        Its name in the module.
    pythons : sequence of bool
        Whether each result is a Python number rather than one of NumPy's.
    declared : str
        The declaration of the C function: a line that includes its header, or the header itself.
    """
    dtypes = sorted({x.dtype.name for x in (*function.parameters, *function.results)})
    wrapper = _wrapper(function, pythons)
    parts = [
        includes_of(wrapper),
        declared,
        API,
        ARRAYS,
        LINALG if _facts(function) else "",
        "\n".join(f"static PyObject *of_{dtype};" for dtype in dtypes),
        wrapper,
        _definition(name, {public: f"call_{function.name}"}, dtypes),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _facts(function: Function) -> dict[int, str]:
    """Return NumPy's messages for the matrices at which a function ends, by its return code."""
    found = {s.is_cholesky: s.fact for s in walk(function.body) if isinstance(s, Regular)}
    return {NOT_POSITIVE if is_cholesky else SINGULAR: fact for is_cholesky, fact in sorted(found.items())}


def _table(name: str, functions: Mapping[str, str], with_keywords: Mapping[str, str] | None = None) -> str:
    """Return the table of methods of a module, by their names in Python; some take keywords."""
    flagged = [*((row, "0x80") for row in functions.items()), *((row, "0x82") for row in (with_keywords or {}).items())]
    rows = [f'    {{"{public}", (PyCFunction)(void *){f}, {flags}, NULL}},' for (public, f), flags in flagged]
    return "\n".join([f"static PyMethodDef {name}[] = {{", *rows, "    {NULL, NULL, 0, NULL},", "};"])


def _definition(name: str, functions: Mapping[str, str], dtypes: Sequence[str]) -> str:
    kept = [f"    of_{dtype} = sg_descr({np.dtype(dtype).num});" for dtype in dtypes]
    return "\n".join([
        _table("methods", functions),
        f'static PyModuleDef definition = {{1, NULL, NULL, 0, NULL, "{name}", NULL, -1, methods, {{NULL}}}};', "",
        f"PyObject *PyInit_{name}(void)", "{",
        '    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");',
        "    if (!module)", "        return NULL;",
        '    PyObject *table = PyObject_GetAttrString(module, "_ARRAY_API");',
        "    if (!table)", "        return NULL;",
        "    numpy = PyCapsule_GetPointer(table, NULL);",
        "    if (!numpy)", "        return NULL;", *kept,
        "    return PyModule_Create2(&definition, 1013);", "}",
    ])  # fmt: skip


def _wrapper(f: Function, pythons: Sequence[bool], is_repeated: bool = False) -> str:
    """Return the C function that Python calls: it unpacks arguments, allocates results, and runs the kernel.

    If it `is_repeated`, its first argument is a `Repeat`, which is called when the processor raised flags, or the
    kernel has failed.
    """
    given = [x for x in f.parameters if isinstance(x, Buffer)]
    names, sizes = names_of(f), sizes_of(f)
    arrays = {x: names.fresh(f"a_{x.name}") for x in given}
    shapes = {x: names.fresh(f"s_{x.name}") for x in f.results}
    count = len(f.parameters) + len(sizes)
    lines = [
        f"static PyObject *call_{f.name}(PyObject *self, PyObject *const *args, Py_ssize_t count)", "{",
        *([] if is_repeated else ["    (void)self;"]),
        f"    PyObject *kept[{len(given) + 1}] = {{NULL}}, *results[{len(f.results)}] = {{NULL}}, *result = NULL;",
        f"    if (count != {count}) {{",
        f'        PyErr_SetString(PyExc_TypeError, "{f.name} takes {count} arguments");',
        "        return NULL;", "    }",
    ]  # fmt: skip
    body, k = [], 0
    for i, x in enumerate(f.parameters):
        if isinstance(x, Buffer):
            body += [f"Array *{arrays[x]} = sg_array(args[{i}], of_{x.dtype.name}, {len(x.shape)}, &kept[{k}]);"]
            body += [f"if (!{arrays[x]})", "    goto done;"]
            k += 1
        else:
            body += _number(x, i)
    for i, name in enumerate(sizes, start=len(f.parameters)):
        body += _number(Local(name), i)
    for x in given:
        for axis, n in enumerate(x.shape):
            body += [f"if ({arrays[x]}->shape[{axis}] != {text_of(extent(n))})", "    goto misfit;"]
    arguments = [*sizes]
    for x in f.parameters:
        arguments.append(f"(const {IN_MEMORY[x.dtype.name]} *){arrays[x]}->data" if isinstance(x, Buffer) else x.name)
    for i, x in enumerate(f.results):
        if x.shape:
            body += [f"const intptr_t {shapes[x]}[] = {{{', '.join(text_of(extent(n)) for n in x.shape)}}};"]
            body += [f"results[{i}] = sg_new({len(x.shape)}, {shapes[x]}, {x.dtype.num});"]
            body += [f"if (!results[{i}])", "    goto done;"]
            arguments.append(f"({IN_MEMORY[x.dtype.name]} *)((Array *)results[{i}])->data")
        else:
            body += [f"{IN_MEMORY[x.dtype.name]} {x.name} = 0;"]
            arguments.append(f"&{x.name}")
    body += [f"int64_t bytes = {f.name}_workspace({', '.join(sizes)});", "char *workspace = sg_workspace(bytes);"]
    body += ["if (bytes && !sg_memory) {", "    PyErr_NoMemory();", "    goto done;", "}"]
    run = [f"int code = {f.name}({', '.join([*arguments, 'workspace'])});"]
    if is_repeated:
        written = [f"SG_WRITTEN({x.name});" for x in f.results if not x.shape]
        run = ["sg_clear_flags();", *run, *written, "int flags = fetestexcept(WARNED);"]
    if _may_be_long(f):
        body += ["sg_state = PyEval_SaveThread();", *run, "PyEval_RestoreThread(sg_state);"]
    else:
        body += run
    body += ["sg_finish();"]
    if is_repeated:
        is_checked = any(isinstance(s, Check) for s in walk(f.body))
        repeated = [OUTSIDE, EMPTY, *_facts(f), *[RAISED] * is_checked]
        body += _asked(" || ".join(f"code == {code}" for code in repeated), "FAILED")
    body += [f"if (code == {OUTSIDE})"]
    body += ['    PyErr_SetString(PyExc_IndexError, "an index is out of bounds for the axis that it is of");']
    if any(isinstance(s, Require) and s.reduces for s in walk(f.body)):
        fact = "zero-size array to reduction operation which has no identity"
        body += [f"if (code == {EMPTY})", f'    PyErr_SetString(PyExc_ValueError, "{fact}");']
    body += ["if (code == 3)", '    PyErr_SetString(PyExc_OverflowError, "an integer does not fit into 64 bits");']
    body += ["if (code == 2)", "    PyErr_NoMemory();"]
    for code, fact in _facts(f).items():
        body += [f"if (code == {code})", f'    sg_fail_as_linalg("{fact}");']
    if needs_pool([f], None):
        fact = "a handler of a signal has forked the process while threads computed"
        body += [f"if (code == {FORKED})", f'    PyErr_SetString(PyExc_RuntimeError, "{fact}");']
    body += ["if (code)", "    goto done;"]
    if is_repeated:
        body += _asked("flags", "sg_told(flags)")
    for i, (x, python) in enumerate(zip(f.results, pythons, strict=True)):
        if not x.shape:
            body += [f"results[{i}] = {_made(x, python)};", f"if (!results[{i}])", "    goto done;"]
    if len(f.results) == 1:
        body += ["result = results[0];", "results[0] = NULL;"]
    else:
        body += [f"result = PyTuple_New({len(f.results)});", "if (!result)", "    goto done;"]
        body += [f"for (int i = 0; i < {len(f.results)}; i++) {{", "    PyTuple_SetItem(result, i, results[i]);"]
        body += ["    results[i] = NULL;", "}"]
    body += ["goto done;"]
    misfit = []
    if given:
        fact = "an array has another shape than the kernel was compiled for"
        misfit = ["misfit:", f'    PyErr_SetString(PyExc_ValueError, "{fact}");']
    end = ["done:"]
    for name, n in (("kept", len(given)), ("results", len(f.results))):
        end += [f"    for (int i = 0; i < {n}; i++)", f"        if ({name}[i])", f"            Py_DecRef({name}[i]);"]
    end += ["    return result;", "}"]
    return "\n".join([*lines, *(f"    {line}" for line in body), *misfit, *end])


def _asked(condition: str, told: str) -> list[str]:
    """Return the C statements that let NumPy repeat a call, which may raise or give other results."""
    return [
        f"if ({condition}) {{", f"    result = sg_repeated(self, {told}, args, count);",
        "    if (result != &_Py_NoneStruct)", "        goto done;",
        "    Py_DecRef(result);", "    result = NULL;", "}",
    ]  # fmt: skip


def _number(x: Local, i: int) -> list[str]:
    """Return the C statements that convert an argument to a number."""
    name, dtype = x.name, x.dtype
    if dtype.kind == "c":
        parts = f"sg_{name}"
        return [
            f"const Complex {parts} = PyComplex_AsCComplex(args[{i}]);",
            f"if ({parts}.real == -1.0 && PyErr_Occurred())", "    goto done;",
            f"const {C_TYPES[dtype.name]} {name} = __builtin_complex({parts}.real, {parts}.imag);",
        ]  # fmt: skip
    if dtype.kind == "f":
        value, failed = f"PyFloat_AsDouble(args[{i}])", f"{name} == -1.0 && PyErr_Occurred()"
    elif dtype.kind == "b":
        value, failed = f"PyObject_IsTrue(args[{i}])", f"{name} && PyErr_Occurred()"
    else:
        error = f"({C_TYPES[dtype.name]})-1" if dtype.kind == "u" else "-1"
        function = "PyLong_AsUnsignedLongLongMask" if dtype == np.uint64 else "PyLong_AsLongLong"
        value, failed = f"{function}(args[{i}])", f"{name} == {error} && PyErr_Occurred()"
    return [f"const {C_TYPES[dtype.name]} {name} = {value};", f"if ({failed})", "    goto done;"]


def _made(x: Buffer, python: bool) -> str:
    """Return the C call that converts a number to a Python object."""
    if not python:
        return f"sg_scalar(&{x.name}, of_{x.dtype.name})"
    if x.dtype.kind == "c":
        return f"PyComplex_FromDoubles(creal({x.name}), cimag({x.name}))"
    return {"f": "PyFloat_FromDouble", "i": "PyLong_FromLongLong", "b": "PyBool_FromLong"}[x.dtype.kind] + f"({x.name})"


def _may_be_long(f: Function) -> bool:
    """Whether a function releases the GIL: it has loops of many iterations, or of an unknown number."""
    if any(isinstance(s, Multiply | Parallel) for s in walk(f.body)):
        return True
    loops = [s for s in walk(f.body) if isinstance(s, For | While)]
    counts = [s.stop.value if isinstance(s, For) and hasattr(s.stop, "value") else 1 << 20 for s in loops]
    sizes = [product(b.shape) for b in (*f.results, *(x for x in f.parameters if isinstance(x, Buffer)))]
    return sum(counts) > 4096 or any(not isinstance(n, int) or n > 4096 for n in sizes)
