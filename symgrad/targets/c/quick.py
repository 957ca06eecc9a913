"""The short way to call a program that is one kernel: C checks what the guard checks, and answers.

It takes positional arguments that are arrays whose numbers lie in order, or numbers; anything else goes the general
way, which converts arguments or says what is wrong with them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from symgrad.core.graph import INPUT, Graph, Node, is_token
from symgrad.core.sizes import Dim
from symgrad.lowering.statements import Exact, Function, walk
from symgrad.targets.c.functions import C_TYPES, size_text
from symgrad.targets.c.names import c_word
from symgrad.targets.c.partition import Kernel, avals_of
from symgrad.targets.numpy.guard import Guard, least_and_most

QUICK = """\
extern PyObject PyFloat_Type, PyLong_Type, PyBool_Type, _Py_NotImplementedStruct, _Py_TrueStruct;
extern PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
extern int PyContextVar_Get(PyObject *, PyObject *, PyObject **);

/* What a program is called in: the function that repeats calls; then, unless they are None, the variable of the trace
   that is going on, of which there is to be none; that of the options in force, and these; and a test of what the
   function has captured. */
enum { REPEAT, TRACE, IN_USE, OPTIONS, UNCHANGED };

static inline bool sg_holds(PyObject *variable, PyObject *value)
{
    PyObject *found = NULL;
    if (PyContextVar_Get(variable, NULL, &found) < 0)
        return false;
    Py_DecRef(found);
    return found == value;
}

/* Whether a program may answer: 1, 0, or -1 with an error. */
static int sg_may_answer(PyObject *context)
{
    PyObject *trace = PyTuple_GetItem(context, TRACE), *unchanged = PyTuple_GetItem(context, UNCHANGED);
    if (trace == &_Py_NoneStruct)
        return 1;
    PyObject *in_use = PyTuple_GetItem(context, IN_USE), *options = PyTuple_GetItem(context, OPTIONS);
    if (!sg_holds(trace, &_Py_NoneStruct) || !sg_holds(in_use, options))
        return PyErr_Occurred() ? -1 : 0;
    if (unchanged == &_Py_NoneStruct)
        return 1;
    PyObject *answer = PyObject_Vectorcall(unchanged, NULL, 0, NULL);
    if (!answer)
        return -1;
    Py_DecRef(answer);
    return answer == &_Py_TrueStruct;
}

static PyObject *sg_other_way(void)
{
    Py_IncRef(&_Py_NotImplementedStruct);
    return &_Py_NotImplementedStruct;
}

static inline bool sg_is_array(PyObject *x, PyObject *descr, int ndim)
{
    Array *a = (Array *)x;
    return a->type == numpy[2] && a->descr == descr && a->ndim == ndim && (a->flags & CONTIGUOUS) == CONTIGUOUS;
}

static inline bool sg_is_number(PyObject *x, PyObject *descr)
{
    return ((Array *)x)->type == ((struct { Py_ssize_t references; void *type; void *numbers; } *)descr)->numbers;
}
"""

SEVERAL = """\
/* A tuple of items, which it takes over; NULL if one of them is. */
static PyObject *sg_tuple(int count, PyObject **items)
{
    PyObject *tuple = PyTuple_New(count);
    bool are_there = tuple;
    for (int i = 0; i < count; i++) {
        are_there &= items[i] != NULL;
        if (tuple)
            PyTuple_SetItem(tuple, i, items[i]);
        else if (items[i])
            Py_DecRef(items[i]);
    }
    if (are_there)
        return tuple;
    if (tuple)
        Py_DecRef(tuple);
    return NULL;
}

static PyObject *sg_item(PyObject *tuple, int i)
{
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (item)
        Py_IncRef(item);
    return item;
}
"""


class Call(NamedTuple):
    """A call of a program, as Python writes it: what is checked of its arguments, and the tree of its results."""

    graph: Graph
    guard: Guard
    results: Any  # of nodes, which are outputs of the graph


def quick_text(call: Call, kernels: Sequence[Kernel], functions: Sequence[Function]) -> str:
    """Return the C function that answers calls of a program, "" where it is more than a kernel.

    Python calls it with a tuple for its first argument, see ``QUICK``; it returns NotImplemented where the general way
    is to be gone.
    """
    if len(kernels) != 1 or not _is_whole(call.graph, kernels[0]) or not _is_flat(call.guard):
        return ""
    kernel, function = kernels[0], functions[0]
    if any(x.aval.weak and x.aval.dtype.kind == "i" for x in kernel.inputs):  # which may be too large
        return ""
    results = _tree(call.results, kernel.outputs)
    tests = _Tests(call.guard)
    if not results or not tests.are_known or not set(kernel.symbols) <= set(tests.sizes):
        return ""
    if any(isinstance(s, Exact) for s in walk(function.body)):
        return ""
    places = {leaf.node: i for i, leaf in enumerate(call.guard.leaves)}
    inputs = dict(zip(call.graph.inputs, (x for x in places if x is not None), strict=True))
    given = [f"args[{places[inputs[x]]}]" for x in kernel.inputs]
    return "\n\n".join([QUICK, *[SEVERAL] * ("sg_" in results), _function(function, tests, given, results)])


def _is_whole(graph: Graph, kernel: Kernel) -> bool:
    """Whether a program is a kernel, and nothing else."""
    outputs = graph.outputs
    alone = len(set(outputs)) == len(outputs) and set(outputs) == set(kernel.outputs)
    has_effects = any(aval.dtype.kind == "V" or is_token(x) for x in graph.live for aval in avals_of(x))
    return alone and not has_effects and all(x.op is INPUT for x in kernel.inputs)


def _is_flat(guard: Guard) -> bool:
    """Whether each parameter, which may be given by its place, is a leaf."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        len(guard.leaves) == len(guard.parameters)
        and not guard.orders
        and all(not leaf.below for leaf in guard.leaves)
        and all(p.kind in kinds for p in guard.parameters)
    )


def _tree(results: Any, outputs: Sequence[Node]) -> str:
    """Return the expression that makes the tree of results of what the kernel gives, ``result``; "" for other trees."""
    if isinstance(results, Node) or (type(results) is tuple and list(results) == list(outputs) and len(outputs) > 1):
        return "result"

    def made(x: Any) -> str:
        if isinstance(x, Node):
            if len(outputs) > 1:
                return f"sg_item(result, {outputs.index(x)})"
            return "(Py_IncRef(result), result)"
        return f"sg_tuple({len(x)}, (PyObject *[]){{{', '.join(map(made, x))}}})"

    def fits(x: Any) -> bool:
        return isinstance(x, Node) or (type(x) is tuple and bool(x) and all(map(fits, x)))

    return made(results) if fits(results) else ""


class _Tests:
    """The tests of arguments and sizes, as C; they are those of the guard, and of memory."""

    def __init__(self, guard: Guard) -> None:
        self.are_known = True
        self.of_arguments: list[str] = []
        self.sizes: dict[str, str] = {}  # where they are read
        self.of_sizes: list[str] = []
        for i, leaf in enumerate(guard.leaves):
            if leaf.node is None or (leaf.is_array and not leaf.node.aval.shape):
                self.are_known = False
                return
            self.of_arguments += self._argument(f"args[{i}]", leaf.node)
        for i, leaf in enumerate(guard.leaves):
            assert leaf.node is not None
            self.of_sizes += self._sizes(f"args[{i}]", leaf.node, guard)
        for name, number in guard.pinned.items():
            self.of_sizes += [f"{c_word(name)} == {number}"] * (name in self.sizes)
        self.of_sizes += [f"{self._size(x.symbol)} >= {self._size(x.least)}" for x in guard.bounds]

    def _argument(self, x: str, node: Node) -> Iterator[str]:
        aval = node.aval
        if aval.dtype.name not in C_TYPES:
            self.are_known = False
        elif aval.weak:
            kind = {"f": "PyFloat_Type", "i": "PyLong_Type", "b": "PyBool_Type"}[aval.dtype.kind]
            yield f"((Array *){x})->type == &{kind}"
        elif not aval.shape:
            yield f"sg_is_number({x}, of_{aval.dtype.name})"
        else:
            yield f"sg_is_array({x}, of_{aval.dtype.name}, {len(aval.shape)})"

    def _sizes(self, x: str, node: Node, guard: Guard) -> Iterator[str]:
        for axis, n in enumerate(node.aval.shape):
            place = f"((Array *){x})->shape[{axis}]"
            if isinstance(n, Dim) and n.expr.is_Symbol and n.expr.name not in self.sizes:
                self.sizes[n.expr.name] = place
                least, most = least_and_most(n.expr.name, guard.values)
                yield f"{c_word(n.expr.name)} >= {least}"
                yield from [f"{c_word(n.expr.name)} <= {most}"] * (most is not None)
            else:
                yield f"{place} == {self._size(n)}"

    def _size(self, n: Any) -> str:
        text = size_text(str(n))
        self.are_known = self.are_known and bool(text)
        return text


def _function(f: Function, tests: _Tests, given: Sequence[str], results: str) -> str:
    """Return the function that Python calls."""
    other = "    return sg_other_way();"
    count = len(tests.of_arguments)
    lines = [f"if (count != {count}{''.join(f' || !({test})' for test in tests.of_arguments)})", other]
    lines += [f"const int64_t {c_word(name)} = {place};" for name, place in tests.sizes.items()]
    if tests.of_sizes:
        lines += [f"if ({' || '.join(f'!({test})' for test in tests.of_sizes)})", other]
    lines += ["int code = sg_may_answer(self);", "if (code < 1)", "    return code ? NULL : sg_other_way();"]
    sizes = [f"PyLong_FromLongLong({c_word(name)})" for name in f.sizes]
    lines += [f"PyObject *kept[] = {{{', '.join([*given, *sizes]) or 'NULL'}}};"]
    places = range(len(given), len(given) + len(sizes))
    for k in places:
        lines += [f"if (!kept[{k}])", "    return NULL;"]
    lines += [f"PyObject *result = call_{f.name}(PyTuple_GetItem(self, REPEAT), kept, {len(given) + len(sizes)});"]
    lines += [f"Py_DecRef(kept[{k}]);" for k in places]
    if results != "result":
        lines += ["if (!result)", "    return NULL;", f"PyObject *results = {results};", "Py_DecRef(result);"]
    lines += ["return result;" if results == "result" else "return results;"]
    head = f"static PyObject *quick_{f.name}(PyObject *self, PyObject *const *args, Py_ssize_t count)"
    return "\n".join([head, "{", *(f"    {line}" for line in lines), "}"])
