"""Variable: a node that behaves as a NumPy array and records operations into its graph."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from symgrad.core.graph import Aval, Graph, Node, Op, freeze, is_view, tracing
from symgrad.core.provenance import assigned_name, here, internal, unpacked_names
from symgrad.core.shapes import product, same_shape
from symgrad.core.size_expressions import computed, symbol
from symgrad.core.sizes import Dim, symbols_of
from symgrad.errors import (
    ArgumentError,
    ConcreteValueError,
    DTypeError,
    GraphError,
    ScalarError,
    UnknownAttributeError,
    UnsupportedError,
)
from symgrad.frontend import advice
from symgrad.frontend.concrete import Concrete
from symgrad.frontend.dispatch import Operators, array_method, call_function, call_ufunc, explaining
from symgrad.frontend.flags import Flags
from symgrad.frontend.foreign_names import instead_of
from symgrad.frontend.misuse import checked_dtype
from symgrad.frontend.raising import check_error, check_node
from symgrad.frontend.texts import described
from symgrad.ops import create, index, shape
from symgrad.ops.astype import ASTYPE
from symgrad.ops.known import is_constant
from symgrad.ops.masks import Selected
from symgrad.ops.operands import ARRAYS, as_input, no_operand
from symgrad.ops.truths import is_pythons

_ARRAY = np.ndarray  # bound once, as ARRAYS are
_PYTHON: dict[str, type] = {"i": int, "f": float, "c": complex}


class Variable(Concrete, Operators):
    """An array-like value of a graph, known by shape and dtype; operations on it are recorded.

    It takes part in NumPy's functions, ufuncs, operators, methods, indexing and in-place assignment as an
    `numpy.ndarray` does. A view writes through to what it views.

    Attributes
    ----------
    graph : Graph
    node : Node
        The value as of now: an assignment rebinds it to a new node.
    shape : tuple of int or Dim
    dtype : numpy.dtype

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> x = sg.Graph().input("x", "float64[3]")
    >>> np.sum(x * x)
    <Variable float64[] sum>
    """

    __slots__ = ()

    may_be_none: ClassVar[bool] = False
    examples: dict[type, Any] | None = None
    """The classes of which it may be, with an object of each, where its dtype does not tell that."""
    python_class: ClassVar[type | None] = None
    """The class of the Python object that this stands for in the user's function, where that is no array or number."""

    @property
    def __class__(self) -> type:  # what isinstance() finds: an array, a number of NumPy's or of Python's
        if self.writes_in_place:
            return _ARRAY
        if self.dtype.kind == "b" and is_pythons(self):
            return bool
        return _PYTHON[self.dtype.kind] if self.aval.weak and self.dtype.kind in _PYTHON else self.dtype.type

    @__class__.setter
    def __class__(self, _: type) -> None:
        raise TypeError("a Variable keeps its class")

    def __hash__(self) -> int:
        """Return the hash of the number where that is known; in a trace there is no other."""
        value = None if self.shape else self.known_value()
        if value is not None:
            return hash(value)
        if self.graph is not tracing.get():
            return object.__hash__(self)
        raise ConcreteValueError(
            f"a {self._described()} is used as a key or as an item of a set, which needs its value",
            advice.on_key(),
        )

    @property
    def dtype(self) -> np.dtype:
        graph = self.graph
        may_be_one_of_two = graph.journal is not None or graph.watched  # of a branch, or of iterations
        if may_be_one_of_two and not internal(sys._getframe(1).f_code):
            graph.asked.setdefault(self._node, here())
        return self._node.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self._node.aval.shape)

    @property
    def size(self) -> int | Dim:
        return product(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int | Dim:
        return self.size * self.itemsize

    @property
    def base(self) -> None:
        """Memory is laid out when the program is compiled: there is no other array to be asked for."""
        return None

    def __repr__(self) -> str:
        return f"<Variable {self.aval} {self._name() or self._node.op.name}>"

    def __str__(self) -> str:
        """Return what `print` and f-strings show: the value, of what is made of constants."""
        return str(self.known_value()) if is_constant(self) else described(self)

    _repr_latex_ = Graph._repr_latex_

    def __len__(self) -> int:
        if not self.shape:
            raise ScalarError("len() of a 0-d array", "Write x.size, or x[None] for an array of one.")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Variable]:
        if not self.shape:
            raise ScalarError(
                "iteration over a 0-d array", "Write x[None] for an array of one; sum(x) of a number is x."
            )
        names = unpacked_names()
        return (self._item(i, names[i] if i < len(names) else "") for i in range(len(self)))

    def _item(self, i: int, name: str) -> Variable:
        """``self[i]``, which the user's program stores under a name unless that is ""."""
        known = len(self.graph.nodes)
        x = self[i]
        if name and self.graph.provenance is None and x.node.id >= known:
            self.graph.label(x.node, name)
        return x

    # ---- recording

    def __symgrad_record__(self, op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        return record(self.graph, op, inputs, params)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Selected) for x in inputs):
            return NotImplemented  # NumPy asks what a mask has selected next
        return call_ufunc(ufunc, method, inputs, **kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if function in create.CREATE:
            return created(self.graph, function, args, kwargs)
        return call_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Functions on arrays for code that is written for any library of arrays: those of NumPy."""
        return np

    # ---- indexing and assignment

    def __getitem__(self, key: Any) -> Variable:
        return index.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Variable) and self.holds(value, key):
            return  # the second half of x[i] += v: it is written already
        self.writable()
        self.overwrite(index.put(self, key, value))

    def overwrite(self, value: Any) -> None:
        """Make `value`, of the same shape and dtype, the content of this memory and of all that view it."""
        self.writable()
        self.node  # noqa: B018  up to date before it is overwritten
        self.rebind(lift(self.graph, value))

    # ---- attributes and methods of arrays

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def flags(self) -> Flags:
        return Flags(self)

    @array_method
    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        if write is not None:
            self.flags.writeable = bool(write)

    @array_method
    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Variable:
        dtype = checked_dtype("x.astype", dtype)
        if not np.can_cast(self.dtype, dtype, casting):
            raise DTypeError(
                f"cannot cast {self.dtype} to {dtype} by the rule {casting!r}",
                "Write casting='unsafe', which is what astype does by itself.",
            )
        if dtype == self.dtype and not self.aval.weak:
            if copy or not self.writes_in_place:
                return self.copied(order, self._array)
            return self.or_copy(order, "x.astype may give another name of")
        result = ASTYPE(self, dtype=dtype)
        result._array, result._order = self._array, self.order_of_copy(order)
        return result

    @array_method
    def copy(self, order: str = "C") -> Variable:
        return self.copied(order, self._array)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        return self.copy()

    @array_method
    def view(self, dtype: Any = None, type: Any = None) -> Variable:
        if isinstance(dtype, (int, tuple)):
            raise ArgumentError("x.view takes a dtype, and no shape", "Write x.reshape(shape).")
        for kind in (dtype, type):
            if isinstance(kind, builtins.type) and issubclass(kind, np.ndarray) and kind is not np.ndarray:
                raise UnsupportedError(f"a traced array as a {kind.__name__}", "Use arrays; their matrix product is @.")
        if dtype not in (None, np.ndarray) and checked_dtype("x.view", dtype) != self.dtype:
            raise UnsupportedError("x.view(dtype) of a traced array is not supported", "Write x.astype(dtype).")
        return self[...]

    @array_method
    def reshape(self, *sizes: Any, order: str = "C", copy: bool | None = None) -> Variable:
        return shape.reshape(self, sizes[0] if len(sizes) == 1 else sizes, order=order, copy=copy)

    @array_method
    def transpose(self, *axes: Any) -> Variable:
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    @array_method
    def flatten(self, order: str = "C") -> Variable:
        return np.ravel(self, order=order).copied(array=True)

    @array_method
    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        self[...] = np.sort(self, axis, kind, order, stable=stable)

    @array_method
    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        self[...] = np.partition(self, kth, axis, kind, order)

    @array_method
    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Variable:
        return np.compress(condition, self, axis, out)

    @array_method
    def resize(self, *sizes: Any, refcheck: bool = True) -> None:
        raise UnsupportedError("x.resize changes the size of an array in place", "Write x = np.resize(x, shape).")

    @array_method
    def conj(self, out: Any = None) -> Variable:
        """The array itself where it is real, as in NumPy."""
        return np.real(self) if out is None and self.dtype.kind != "c" else np.conjugate(self, out=out)

    conjugate = conj

    @property
    def real(self) -> Any:
        """The real part, a view of a complex array."""
        return np.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        np.real(self)[...] = value

    @property
    def imag(self) -> Any:
        return np.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise DTypeError(f"x.imag = y where x is {self.aval}, which has no imaginary part", "Write x = x + 1j * y.")
        np.imag(self)[...] = value

    def may_raise(self, error: type[Exception]) -> None:
        """Say that NumPy raises an error for some values, where the program does not."""
        check_error(error)

    @property
    def flat(self) -> Flat:
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[:] = value

    @array_method
    def fill(self, value: Any) -> None:
        self[...] = value

    def __getattr__(self, attribute: str) -> Any:
        if hasattr(np.ndarray, attribute) and not attribute.startswith("__"):  # np.asarray looks for protocols
            raise UnsupportedError(
                f"the array attribute .{attribute} is not supported: a traced array has no memory",
                "Use it on a result of the compiled program.",
            )
        if attribute.startswith("_"):
            raise AttributeError(f"a Variable has no attribute {attribute!r}")
        raise UnknownAttributeError(
            f"a traced array has no attribute .{attribute}, as an array of NumPy has none",
            instead_of(attribute, dir(type(self))),
        )


def class_of(x: Variable) -> type:
    """Return the class of the object that a Variable stands for in the user's function."""
    return x.python_class or x.__class__


class Flat:
    """``x.flat``: the numbers of an array in C's order; writing into it writes into the array."""

    def __init__(self, array: Variable) -> None:
        self._of = array

    def copy(self) -> Variable:
        """The numbers as an array of one dimension."""
        return np.copy(np.reshape(self._of, -1))

    def __getitem__(self, key: Any) -> Any:
        return self.copy()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._of.writable()
        flat = np.reshape(self._of, -1)
        self._of.overwrite(np.reshape(index.put(flat, key, value), self._of.shape))

    def __len__(self) -> int:
        return int(self._of.size)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.copy())


# ---- recording


def record(graph: Graph, op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of `op` as a Variable of `graph`, or a tuple of them."""
    nodes = tuple([lift(graph, x) for x in inputs])
    known = len(graph.nodes)
    for i, (key, value) in enumerate(params.items(), len(nodes) + 1):
        if isinstance(value, Variable) and value.known_value() is None:
            raise ConcreteValueError(
                f"{op.path}: {key}= is part of the program, and needs the value of a {value._described()}",
                "Pass a value that is known, or mark it static. If it is an array, your operator has more than one: "
                f"arrays={i}.",
            )
    node = graph.add(op, nodes, freeze(op, params))
    if graph.guards:
        check_node(graph, node)
    order = _order(op, node, [*zip(inputs, nodes, strict=True)])
    if type(node.aval) is not Aval:
        results = tuple(Variable(graph, y) for y in graph.items(node))
        for each in results:
            each._order = order
        return results
    if graph.provenance is None and node.id >= known:
        name = assigned_name()
        if name is not None:
            graph.label(node, name)
    result = Variable(graph, node)
    result._order = order
    if is_view(node) and isinstance(inputs[0], Variable):
        result.attach(inputs[0])
    return result


def _order(op: Op, node: Node, inputs: Sequence[tuple[Any, Node]]) -> str:
    """Return the memory order of a result in NumPy: Fortran's where an elementwise operator has such operands.

    The node may be a simpler one than `op` of the inputs.
    """
    result: Any = node.aval if type(node.aval) is Aval else node.aval[0]
    if result.ndim < 2:
        return "C"
    orders = {order_of(x) for x, _ in inputs}
    if op is index.GET and len(inputs) > 1:
        return "C" if orders == {"C"} and node.op is op and index.picks_first(node) else ""
    if orders <= {"C"}:
        return "C"
    arrays = [(x, y) for x, y in inputs if y.aval.shape]
    alike = op.elementwise and all(same_shape(y.aval.shape, result.shape) for _, y in arrays)
    return "F" if alike and all(order_of(x) == "F" for x, _ in arrays) else ""


def order_of(x: Any) -> str:
    """The order in which an operand lies in memory: "C", "F", or "" for any other one."""
    if type(x) is Variable:
        return x.order
    flags = x.flags if isinstance(x, _ARRAY) else None
    return "C" if flags is None or flags.c_contiguous else "F" if flags.f_contiguous else ""


def created(graph: Graph, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a creation function of NumPy inside `graph`."""

    def new(op: Op, *inputs: Any, **params: Any) -> Variable:
        result = record(graph, op, inputs, params)
        for y in result if isinstance(result, tuple) else (result,):
            create.check_numeric(y.dtype)
            y._array = True
        return result

    return explaining(partial(create.CREATE[function], new), function, args, kwargs)


def lift(graph: Graph, x: Any) -> Node:
    """The node of an operand in `graph`."""
    if isinstance(x, Variable):
        if x.graph is not graph:
            raise GraphError(
                "Variables of different graphs meet", "Keep a Variable inside the function or graph that made it."
            )
        return x.node
    if isinstance(x, Dim):
        return _size(graph, x)
    if isinstance(x, (bool, int, float, complex, *ARRAYS)):
        if isinstance(x, ARRAYS) and x.dtype.kind not in "biufc":
            raise no_operand(x)
        return graph.constant(x)
    if isinstance(x, (list, tuple)):
        return lift(graph, as_input(x))
    raise no_operand(x)


def _size(graph: Graph, size: Dim) -> Node:
    """Return a symbolic size as a number of the program, from its defining node where only running tells it."""
    if not graph.counts or graph.counts.keys().isdisjoint(symbols_of(size)):
        return graph.size(size)
    nodes = {name: graph.counts.get(name, graph.size(Dim(symbol(name), size.scope))) for name in symbols_of(size)}
    numbers = {name: Variable(graph, node) for name, node in nodes.items()}
    return lift(graph, computed(size.expr, numbers, np.minimum, np.maximum))
