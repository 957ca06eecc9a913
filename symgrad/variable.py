"""Variable: a node that behaves as a NumPy array and records into its graph what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from symgrad.dims import Dim, Shape, product
from symgrad.errors import ConcreteValueError, DTypeError, GraphError, ShapeError, UnsupportedError, WriteError
from symgrad.graph import ITEM, Aval, Graph, Node, Op
from symgrad.ops import index, shape
from symgrad.ops.define import TABLE, display_name, refuse
from symgrad.where import assigned_name

tracing: ContextVar[Graph | None] = ContextVar("tracing", default=None)
"""The graph being traced, for what has no Variable among its arguments: creation functions and symbolic sizes."""


class Variable:
    """An array-like value of a graph, known by shape and dtype; what is done to it is recorded.

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

    __slots__ = ("_base", "_lock", "_node", "_root", "_sure", "_version", "_view", "graph")
    __hash__ = object.__hash__

    def __init__(self, graph: Graph, node: Node, lock: str = "") -> None:
        self.graph = graph
        self._node = node
        self._lock = lock  # why it cannot be written into, "" if it can
        self._root: Variable | None = None  # owner of the memory, None for itself
        self._base: Variable | None = None  # what it is a view of
        self._view: Node | None = None  # how it was read from its base when it was made
        self._sure = True  # False where NumPy may have copied: a reshape of a view
        self._version = 0  # of the root's memory that _node stands for

    # ---- what it is

    @property
    def node(self) -> Node:
        if self._root is not None and self._version != self._root._version:
            self._refresh()
        return self._node

    @property
    def aval(self) -> Aval:
        return self._node.aval

    @property
    def shape(self) -> Shape:
        return self._node.aval.shape

    @property
    def dtype(self) -> np.dtype:
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

    def __repr__(self) -> str:
        name = self.graph.names.get(self._node)
        return f"<Variable {self.aval} {name if isinstance(name, str) else self._node.op.name}>"

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len() of a 0-d array")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Variable]:
        if not self.shape:
            raise ShapeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    # ---- recording

    def __symgrad_record__(self, op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        return record(self.graph, op, inputs, params)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(self.graph, ufunc, method, inputs, **kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        create = shape.CREATE.get(function)
        if create is not None:
            return create(self._constant, *args, **kwargs)
        call = TABLE.get(function)
        if call is None:
            raise unsupported(function)
        out = kwargs.pop("out", None)
        result = call(*args, **kwargs)
        return result if out is None else deliver(result, out)

    def _constant(self, value: Any) -> Variable:
        return Variable(self.graph, self.graph.constant(value))

    # ---- memory: views and assignment

    def _refresh(self) -> None:
        """Read again what was written into the memory that this is a view of."""
        chain = [self]
        while chain[-1]._base is not None and chain[-1]._version != chain[-1]._root._version:  # type: ignore[union-attr]
            chain.append(chain[-1]._base)
        for view in reversed(chain[:-1]):
            if not view._sure:
                raise _unsure()
            read, base = view._view, view._base
            view._node = self.graph.add(read.op, (base._node, *read.inputs[1:]), read.params)  # type: ignore[union-attr]
            view._version = view._root._version  # type: ignore[union-attr]

    def _write(self, value: Variable) -> None:
        """Make `value`, of the same shape and dtype, the content of this memory and of all that view it."""
        self.writable()
        self.node  # noqa: B018  up to date before it is overwritten
        content, view = value.node, self
        written = [(view, content)]
        while view._base is not None:
            if not view._sure:
                raise _unsure()
            base = view._base
            content = undo_view(self.graph, view._view, base.node, content)
            view = base
            written.append((view, content))
        view._version += 1
        for target, node in written:
            target._node, target._version = node, view._version

    def writable(self) -> None:
        """Raise where an assignment would reach memory that is not the function's own."""
        if self._lock:
            raise WriteError(self._lock, "Write into a copy: x = x.copy().")

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Variable) and value._base is self and value._version == (self if self._root is None else self._root)._version:
            if index.is_same(value._view, key):  # the second half of x[i] += v: the view has written through
                return
        self.writable()
        self._write(index.put(self, key, value))

    def __getitem__(self, key: Any) -> Variable:
        return index.get(self, key)

    # ---- what has no value before the program runs

    def __bool__(self) -> bool:
        raise ConcreteValueError(
            f"Python needs the truth of a {self._described()}, which has no value before the program runs",
            "Write np.where(condition, a, b) instead of `if`, and & | ~ instead of and, or, not.",
        )

    def _no_number(self, what: str) -> ConcreteValueError:
        return ConcreteValueError(
            f"{what} needs the value of a {self._described()}, which has none before the program runs",
            "Write it with NumPy functions (np.exp instead of math.exp, x.astype(float) instead of float(x)), "
            "or return it and convert the result.",
        )

    def _described(self) -> str:
        name = self.graph.names.get(self._node)
        return f"traced {self.aval}" + (f" named {name!r}" if isinstance(name, str) else "")

    def __float__(self) -> float:
        raise self._no_number("float()")

    def __int__(self) -> int:
        raise self._no_number("int()")

    def __complex__(self) -> complex:
        raise self._no_number("complex()")

    def __index__(self) -> int:
        raise self._no_number("An index, range() or int()")

    def item(self, *args: Any) -> Any:
        raise self._no_number(".item()")

    def tolist(self) -> Any:
        raise self._no_number(".tolist()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise ConcreteValueError(
            f"np.array() or np.asarray() needs the value of a {self._described()}, which has none before the program runs",
            "To join arrays write np.stack([a, b]) or np.concatenate; to copy one, x.copy(); to build one by assignment, "
            "np.zeros(shape, like=x) or symgrad.numpy.zeros(shape).",
        )

    # ---- attributes and methods of arrays

    @property
    def T(self) -> Variable:
        return np.transpose(self)

    @property
    def mT(self) -> Variable:
        return np.matrix_transpose(self)

    @property
    def real(self) -> Variable:
        return np.real(self)

    @property
    def imag(self) -> Variable:
        return np.imag(self)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Variable:
        return shape.ASTYPE(self, np.dtype(dtype))

    def copy(self, order: str = "C") -> Variable:
        return np.copy(self)

    def reshape(self, *sizes: Any, order: str = "C", copy: bool | None = None) -> Variable:
        if order != "C":
            refuse("reshape", "order")
        return np.reshape(self, sizes[0] if len(sizes) == 1 else sizes)

    def transpose(self, *axes: Any) -> Variable:
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def flatten(self, order: str = "C") -> Variable:
        return np.copy(np.ravel(self, order=order))

    def fill(self, value: Any) -> None:
        self[...] = value

    def __getattr__(self, attribute: str) -> Any:
        if hasattr(np.ndarray, attribute):
            raise UnsupportedError(f"the array attribute .{attribute} is not supported")
        raise AttributeError(f"a Variable has no attribute {attribute!r}")


# ---- recording


def record(graph: Graph, op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of `op` as a Variable of `graph`, or a tuple of them."""
    nodes = tuple([lift(graph, x) for x in inputs])
    known = len(graph.nodes)
    node = graph.add(op, nodes, freeze(op, params))
    if type(node.aval) is not Aval:
        return tuple(Variable(graph, graph.add(ITEM, (node,), (("index", i),))) for i in range(len(node.aval)))
    if graph.provenance is None and node.id >= known:
        name = assigned_name()
        if name is not None:
            graph.label(node, name)
    result = Variable(graph, node)
    if op.view and len(nodes) == 1 and isinstance(inputs[0], Variable):  # an index array makes a copy
        _attach(result, inputs[0])
    return result


def _attach(view: Variable, base: Variable) -> None:
    view._lock = base._lock or ("np.broadcast_to gives a read-only array" if view._node.op is shape.BROADCAST_TO else "")
    view._view = view._node
    view._base, view._root = base, base if base._root is None else base._root
    view._version = view._root._version
    view._sure = base._sure and (base._base is None or view._node.op is not shape.RESHAPE)


def _unsure() -> WriteError:
    return WriteError(
        "a reshape of a view may or may not share its memory, and one of the two was written into",
        "Take a copy: x.copy().reshape(...).",
    )


def undo_view(graph: Graph, view: Node, base: Node, content: Node) -> Node:
    """The content of `base` after `content` was written into its `view`."""
    result = shape.write_back(view, Variable(graph, base), Variable(graph, content))
    return result.node


def freeze(op: Op, params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Parameters as a node holds them: sorted, without those that have their default."""
    if not params:
        return ()
    defaults = op.defaults
    kept = [
        (key, value)
        for key, value in params.items()
        if key not in defaults or defaults[key] is not value and (type(defaults[key]), defaults[key]) != (type(value), value)
    ]
    kept.sort()
    return tuple(kept)


def lift(graph: Graph, x: Any) -> Node:
    """The node of an operand in `graph`."""
    if isinstance(x, Variable):
        if x.graph is not graph:
            raise GraphError(
                "two Variables of different graphs meet", "Keep a Variable inside the function or graph that made it."
            )
        return x.node
    if isinstance(x, Dim):
        return graph.size(x)
    if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
        if isinstance(x, (np.generic, np.ndarray)) and x.dtype.kind not in "biufc":
            raise UnsupportedError(f"an array of dtype {x.dtype} cannot take part in a traced computation")
        return graph.constant(x)
    if isinstance(x, (list, tuple)):
        return graph.constant(np.asarray(x))
    raise UnsupportedError(f"a {type(x).__name__} cannot take part in a traced computation")


def call_ufunc(graph: Graph, ufunc: np.ufunc, method: str, inputs: Sequence[Any], **kwargs: Any) -> Any:
    """What NumPy's ufunc machinery does: methods, ``out=``, ``where=`` and ``dtype=``, once for all ufuncs."""
    if method != "__call__":
        out = kwargs.pop("out", None)
        result = shape_of_method(ufunc, method)(*inputs, **kwargs)
        return result if out is None else deliver(result, out)
    call = TABLE.get(ufunc)
    if call is None:
        raise unsupported(ufunc)
    if not kwargs:
        return call(*map(_strong, inputs)) if all(map(_is_weak, inputs)) else call(*inputs)
    return _call_with_options(call, ufunc, inputs, **kwargs)


def _call_with_options(
    call: Callable[..., Any],
    ufunc: np.ufunc,
    inputs: Sequence[Any],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    **unknown: Any,
) -> Any:
    for argument in unknown:
        refuse(ufunc.__name__, argument)
    if dtype is not None:
        inputs = [shape.ASTYPE(x, np.dtype(dtype)) for x in inputs]
    result = call(*inputs)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if where is not True:
        if target is None:
            raise UnsupportedError(
                f"np.{ufunc.__name__}: where= without out= leaves numbers undefined", "Write np.where(mask, result, other)."
            )
        result = np.where(where, result, target)
    return result if out is None else deliver(result, target)


def _is_weak(x: Any) -> bool:
    return x.aval.weak if isinstance(x, Variable) else type(x) in (int, float, complex)


def _strong(x: Any) -> Any:
    """np.multiply(2.0, 3.0) is a NumPy float64, unlike 2.0 * 3.0."""
    return shape.ASTYPE(x, x.dtype) if isinstance(x, Variable) else x


def shape_of_method(ufunc: np.ufunc, method: str) -> Callable[..., Any]:
    call = TABLE.get(getattr(ufunc, method))
    if call is None:
        raise UnsupportedError(f"np.{ufunc.__name__}.{method} is not supported")
    return call


def deliver(result: Any, out: Any) -> Any:
    """Write a result into ``out=``."""
    if isinstance(out, tuple):
        return tuple(deliver(y, x) for y, x in zip(result, out, strict=True))
    if not isinstance(out, Variable):
        raise WriteError(
            "out= is an array that exists before the program runs", "Give a Variable: np.empty(shape, like=x)."
        )
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise DTypeError(f"a {result.dtype} result cannot be written into a {out.dtype} array")
    out[...] = result
    return out


def unsupported(function: Callable[..., Any]) -> UnsupportedError:
    return UnsupportedError(f"np.{display_name(function)} is not supported")


# ---- operators and methods that are NumPy functions under another name


def _operator_method(ufunc: np.ufunc, reflected: bool) -> Callable[[Variable, Any], Any]:
    op = TABLE[ufunc]

    def method(self: Variable, other: Any) -> Any:
        if isinstance(other, (str, bytes)):
            return NotImplemented
        return op(other, self) if reflected else op(self, other)

    return method


def _in_place_method(ufunc: np.ufunc) -> Callable[[Variable, Any], Any]:
    op = TABLE[ufunc]

    def method(self: Variable, other: Any) -> Any:
        result = op(self, other)
        if not self.shape:  # a NumPy scalar is immutable: the name is bound anew
            return result
        self.writable()
        return deliver(result, self)

    return method


def _array_method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self.__array_function__(function, (), (self, *args), kwargs)


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}
_METHODS = (
    "all any argmax argmin argsort choose clip compress conj conjugate cumprod cumsum diagonal dot max mean min nonzero "
    "prod ptp put ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
).split()


def _install() -> None:
    for name, ufunc in _BINARY.items():
        setattr(Variable, f"__{name}__", _operator_method(ufunc, reflected=False))
        setattr(Variable, f"__r{name}__", _operator_method(ufunc, reflected=True))
        setattr(Variable, f"__i{name}__", _in_place_method(ufunc))
    for name, ufunc in _COMPARE.items():
        setattr(Variable, f"__{name}__", _operator_method(ufunc, reflected=False))
    for name in _METHODS:
        if getattr(np, name, None) in TABLE:
            setattr(Variable, name, _array_method(getattr(np, name)))


Variable.__neg__ = lambda self: TABLE[np.negative](self)
Variable.__pos__ = lambda self: TABLE[np.positive](self)
Variable.__abs__ = lambda self: TABLE[np.absolute](self)
Variable.__invert__ = lambda self: TABLE[np.invert](self)
Variable.__divmod__ = lambda self, other: (self // other, self % other)
Variable.__rdivmod__ = lambda self, other: (other // self, other % self)
_install()
