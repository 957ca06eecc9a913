"""The quick path of calls to a program that is one kernel: C does the checks of the guard, and runs the kernel.

It takes positional arguments that are contiguous arrays, numbers, or tuples, lists and dicts of these. All other calls
take the general path in Python, which converts arguments or raises an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from symgrad.control.checks_first import makes_checks
from symgrad.core import tree
from symgrad.core.graph import INPUT, Graph, Node, without_tokens
from symgrad.core.sizes import Dim
from symgrad.frontend.arguments import Leaf
from symgrad.lowering.statements import Exact, Function, walk
from symgrad.spelling import SUM
from symgrad.targets.c.functions import C_TYPES, size_code
from symgrad.targets.c.library import needed_by
from symgrad.targets.c.names import c_word
from symgrad.targets.c.partition import Kernel
from symgrad.targets.numpy.guard import Guard, least_and_most

API = """\
SG_DATA PyObject PyFloat_Type, PyComplex_Type, PyLong_Type, PyBool_Type, PyTuple_Type, PyList_Type, PyDict_Type;
SG_DATA PyObject _Py_NotImplementedStruct, _Py_TrueStruct;
extern PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t), *PyList_GetItem(PyObject *, Py_ssize_t);
extern Py_ssize_t PyTuple_Size(PyObject *), PyList_Size(PyObject *), PyDict_Size(PyObject *);
extern int PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **);
extern PyObject *PyList_New(Py_ssize_t), *PyDict_New(void);
extern int PyList_SetItem(PyObject *, Py_ssize_t, PyObject *), PyDict_SetItem(PyObject *, PyObject *, PyObject *);
extern int PyContextVar_Get(PyObject *, PyObject *, PyObject **);
extern int PyObject_RichCompareBool(PyObject *, PyObject *, int);
extern long long PyLong_AsLongLongAndOverflow(PyObject *, int *);
extern int PyErr_ExceptionMatches(PyObject *);
extern void PyErr_Clear(void);

/* What a program is called in: the function that repeats calls, and the constants of the program. Then, unless they are
   None, the variable of the trace that is going on, of which there is to be none; that of the options in force, and
   these; a test of what the function has captured; and the function to be called with other arguments. */
enum { REPEAT, CONSTANTS, TRACE, IN_USE, OPTIONS, UNCHANGED, GENERAL };
"""

CONSTANTS = (type(None), bool, int, str)  # types of static arguments and keys that C compares


class Call(NamedTuple):
    """The signature of a program: what is checked of its arguments, and the tree of its results."""

    graph: Graph
    guard: Guard
    results: Any  # of nodes, which are outputs of the graph


class Quick(NamedTuple):
    """The C function that answers calls of a program, and the Python constants that it needs."""

    text: str
    constants: tuple[Any, ...]


class _Elsewhere(Exception):
    """A call, or a program, that only the general path takes."""


def quick(call: Call, kernels: Sequence[Kernel], functions: Sequence[Function]) -> Quick | None:
    """Return the C function that answers calls of a program; None if the program is more than one kernel.

    Python calls it with a tuple for its first argument, see ``API``.
    """
    if len(kernels) != 1 or not _is_whole(call.graph, kernels[0]):
        return None
    try:
        text, constants = _written(call, kernels[0], functions[0])
    except _Elsewhere:
        return None
    return Quick("\n\n".join([API, needed_by(text, ("quick.h",)), text]), constants)


def _is_whole(graph: Graph, kernel: Kernel) -> bool:
    """Whether a program is a kernel, and nothing else."""
    outputs = without_tokens(graph.outputs)
    alone = len(set(outputs)) == len(outputs) and set(outputs) == set(kernel.outputs)
    has_checks = not kernel.has_checks and any(map(makes_checks, graph.live))
    return alone and not has_checks and all(x.op is INPUT for x in kernel.inputs)


class _Constants:
    """Python objects that the C function finds in its context."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def text(self, x: Any) -> str:
        """Return the expression for a constant."""
        self.found.append(x)
        return f"sg_constant(self, {len(self.found) - 1})"

    def keys(self, x: dict[Any, Any]) -> str:
        """Return the expression for the keys of a dict."""
        if not all(type(key) in CONSTANTS for key in x):
            raise _Elsewhere
        return self.text(tuple(x))


class _Arguments:
    """The checks of arguments and sizes, as C: those of the guard, and of memory layout."""

    def __init__(self, guard: Guard, constants: _Constants) -> None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if not all(p.kind in kinds for p in guard.parameters):
            raise _Elsewhere
        self._guard, self._constants = guard, constants
        self.parts = 0  # of trees
        self.tests = [f"count == {len(guard.parameters)}"]  # in their order: trees are taken apart on the way
        self.places: dict[int, str] = {}  # of leaves
        self.sizes: dict[str, str] = {}  # where they are read
        self.of_sizes: list[str] = []
        for i, x in enumerate(tree.unflatten(guard.structure, range(len(guard.leaves)))):
            self._open(f"args[{i}]", x)
        for k, leaf in enumerate(guard.leaves):
            self.tests += self._argument(self.places[k], leaf)
        for k, leaf in enumerate(guard.leaves):
            self.of_sizes += self._sizes(self.places[k], leaf)
        for name, number in guard.pinned.items():
            self.of_sizes += [f"{c_word(name)} == {number}"] * (name in self.sizes)
        self.of_sizes += [f"{_size(x.symbol)} >= {_size(x.least)}" for x in guard.bounds]

    def _open(self, place: str, x: Any) -> None:
        """Unpack a tree of arguments; the keys of a dict must be in the order that the guard knows."""
        if type(x) is int:
            self.places[x] = place
            return
        if type(x) not in (tuple, list, dict):
            raise _Elsewhere
        first = self.parts
        self.parts += len(x)
        keys = f"{self._constants.keys(x)}, " if type(x) is dict else ""
        self.tests.append(f"sg_parts_of_{type(x).__name__}({place}, {keys}{len(x)}, parts + {first})")
        for i, part in enumerate(x.values() if type(x) is dict else x, start=first):
            self._open(f"parts[{i}]", part)

    def _argument(self, x: str, leaf: Leaf) -> Iterator[str]:
        if leaf.ignored:
            yield f"sg_type({x}) == &PyLong_Type"
        elif leaf.size is not None:
            if str(leaf.size) in self.sizes:
                raise _Elsewhere
            self.sizes[str(leaf.size)] = f"sg_size({x})"
            self.of_sizes.append(f"{c_word(str(leaf.size))} >= 1")
        elif leaf.node is None:
            if type(leaf.static) not in CONSTANTS:
                raise _Elsewhere
            yield f"sg_is({x}, {self._constants.text(leaf.static)})"
        else:
            yield self._array(x, leaf)

    def _array(self, x: str, leaf: Leaf) -> str:
        assert leaf.node is not None
        aval = leaf.node.aval
        if aval.dtype.name not in C_TYPES or (leaf.is_array and not aval.shape):
            raise _Elsewhere
        if aval.weak:
            kind = {"f": "PyFloat_Type", "c": "PyComplex_Type", "i": "PyLong_Type", "b": "PyBool_Type"}[aval.dtype.kind]
            return f"sg_type({x}) == &{kind}"
        if not aval.shape:
            return f"sg_is_number({x}, of_{aval.dtype.name})"
        return f"sg_is_array({x}, of_{aval.dtype.name}, {len(aval.shape)})"

    def _sizes(self, x: str, leaf: Leaf) -> Iterator[str]:
        for axis, n in enumerate(leaf.node.aval.shape if leaf.node is not None else ()):
            place = f"((Array *){x})->shape[{axis}]"
            if isinstance(n, Dim) and n.expr.is_Symbol and n.expr.name not in self.sizes:
                self.sizes[n.expr.name] = place
                least, most = least_and_most(n.expr.name, self._guard.values)
                yield f"{c_word(n.expr.name)} >= {least}"
                yield from [f"{c_word(n.expr.name)} <= {most}"] * (most is not None)
            else:
                yield f"{place} == {_size(n)}"


def _size(n: Any) -> str:
    code = size_code(str(n))
    if code is None:
        raise _Elsewhere
    return code.at(SUM)


def _results(results: Any, outputs: Sequence[Node], constants: _Constants) -> str:
    """Return the expression that makes the tree of results from ``result``, what the kernel returns."""

    def made(x: Any) -> str:
        if isinstance(x, Node):
            return f"sg_item(result, {outputs.index(x)})" if len(outputs) > 1 else "(Py_IncRef(result), result)"
        if type(x) not in (tuple, list, dict) or not x:
            raise _Elsewhere
        keys = f"{constants.keys(x)}, " if type(x) is dict else ""
        items = ", ".join(map(made, x.values() if type(x) is dict else x))
        return f"sg_{type(x).__name__}({keys}{len(x)}, (PyObject *[]){{{items}}})"

    is_all = type(results) is tuple and list(results) == list(outputs) and len(outputs) > 1
    return "result" if isinstance(results, Node) or is_all else made(results)


def _written(call: Call, kernel: Kernel, f: Function) -> tuple[str, tuple[Any, ...]]:
    """Return the C function that Python calls, and the constants that it needs."""
    constants = _Constants()
    arguments = _Arguments(call.guard, constants)
    results = _results(call.results, kernel.outputs, constants)
    if not set(kernel.symbols) <= set(arguments.sizes):
        raise _Elsewhere
    leaves = {leaf.node: k for k, leaf in enumerate(call.guard.leaves) if leaf.node is not None}
    inputs = dict(zip(call.graph.inputs, leaves.values(), strict=True))
    given = [arguments.places[inputs[x]] for x in kernel.inputs]
    other = "    return sg_general(self, args, count, names);"
    held = [x for x in given if x.startswith("parts")]  # which others may take out of their trees meanwhile
    lines = [f"PyObject *parts[{arguments.parts}];"] * bool(arguments.parts)
    tests = ["names", *(f"!({test})" for test in arguments.tests)]
    lines += [f"if ({' || '.join(tests)})", other]
    lines += [f"const int64_t {c_word(name)} = {place};" for name, place in arguments.sizes.items()]
    if arguments.of_sizes:
        lines += [f"if ({' || '.join(f'!({test})' for test in arguments.of_sizes)})", other]
    sizes = [f"PyLong_FromLongLong({c_word(name)})" for name in f.sizes]
    lines += [f"Py_IncRef({x});" for x in held]
    lines += ["int code = sg_may_answer(self);", "PyObject *result = NULL;", "if (code == 1) {"]
    lines += [f"    PyObject *kept[] = {{{', '.join([*given, *sizes]) or 'NULL'}}};"]
    places = range(len(given), len(given) + len(sizes))
    run = f"result = call_{f.name}(PyTuple_GetItem(self, REPEAT), kept, {len(given) + len(sizes)});"
    are_there = " && ".join(f"kept[{k}]" for k in places)
    lines += [f"    if ({are_there})", f"        {run}"] if sizes else [f"    {run}"]
    lines += [f"    sg_release({len(sizes)}, kept + {len(given)});"] * bool(sizes)
    lines += ["}", *(f"Py_DecRef({x});" for x in held), "if (!code)", other]
    if may_overflow(kernel, f):
        lines += ["if (code == 1 && !result && PyErr_ExceptionMatches(PyExc_OverflowError)) {", "    PyErr_Clear();"]
        lines += [other, "}"]
    if results != "result":
        lines += ["if (!result)", "    return NULL;", f"PyObject *results = {results};", "Py_DecRef(result);"]
    lines += ["return result;" if results == "result" else "return results;"]
    arguments_in_c = "PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names"
    head = f"static PyObject *quick_{f.name}({arguments_in_c})"
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}"]), tuple(constants.found)


def may_overflow(kernel: Kernel, f: Function) -> bool:
    """Whether Python integers may be too large for C: then the call takes the general path after all."""
    taken = any(x.aval.weak and x.aval.dtype.kind == "i" for x in kernel.inputs)
    return taken or any(isinstance(s, Exact) for s in walk(f.body))
