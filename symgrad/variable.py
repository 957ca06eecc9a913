"""Variable: a node that behaves as a NumPy array and records into its graph what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from symgrad.dims import Dim, Shape, product, same_shape
from symgrad.errors import ConcreteValueError, DTypeError, GraphError, ShapeError, UnsupportedError, WriteError
from symgrad.graph import ITEM, Aval, Graph, Node, Op
from symgrad.ops import core, create, index, shape
from symgrad.ops.define import TABLE, display_name, refuse
from symgrad.where import assigned_name

tracing: ContextVar[Graph | None] = ContextVar("tracing", default=None)
"""The graph being traced, for what has no Variable among its arguments: creation functions and symbolic sizes."""


_BUILD = (
    " Where it is written into an array, make that array with np.zeros(shape, like=x) or symgrad.numpy.zeros(shape)."
)


if TYPE_CHECKING:
    _Operators: TypeAlias = Any  # operators and methods come from the table, see `_install`
else:
    _Operators = object


class Variable(_Operators):
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

    __slots__ = ("_array", "_base", "_lock", "_node", "_permuted", "_root", "_sure", "_version", "_view", "graph")
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
        self._array = False  # of no dimensions and yet an array, not a scalar
        self._permuted = False  # NumPy may have laid it out in another order than C's

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
        return f"<Variable {self.aval} {self._name() or self._node.op.name}>"

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
        if function in create.CREATE:
            return created(self.graph, function, args, kwargs)
        call = TABLE.get(function)
        if call is None:
            raise unsupported(function)
        out = kwargs.pop("out", None)
        result = call(*args, **kwargs)
        return result if out is None else deliver(result, out)

    # ---- memory: views and assignment

    @property
    def owner(self) -> Variable:
        """The Variable whose memory this one shows, itself if it is no view."""
        return self if self._root is None else self._root

    @property
    def writes_in_place(self) -> bool:
        """Whether it is an array rather than a NumPy scalar, of which ``+=`` makes a new one."""
        return self._array or bool(self.shape)

    @property
    def contiguous(self) -> bool | None:
        """Whether its numbers lie in C's order without gaps; None where that is not known."""
        if self._base is None:
            return None if self._permuted and len(self.shape) > 1 else True
        layout = self._layout()
        return None if layout is None else layout.flags.c_contiguous

    def _layout(self) -> np.ndarray | None:
        """An array laid out in memory as NumPy would this one, never to be read; None where that is not known."""
        if any(isinstance(n, Dim) for n in self.shape):
            return None
        if self._base is None:
            return None if self._permuted else _packed(self.shape)
        below = self._base._layout()
        if below is None:
            return None
        view: Node = self._view  # type: ignore[assignment]
        params = dict(view.params)
        if view.op is index.GET:
            return below[index.decode(params["key"], [0] * (len(view.inputs) - 1))]
        if view.op is shape.TRANSPOSE:
            return below.transpose(params["axes"])
        return below.reshape(self.shape) if view.op is shape.RESHAPE else None

    def laid_out_as(self, other: Variable) -> None:
        """Note that NumPy gives this array the order of the other's axes."""
        self._permuted = other._permuted

    def lock(self, reason: str) -> None:
        """Refuse assignments from now on."""
        self._lock = reason

    def copied(self, order: str = "C", array: bool = False) -> Variable:
        """The same value in memory of its own. No node: values do not change, only what a Variable stands for does."""
        if self.aval.weak:
            result = shape.ASTYPE(self, dtype=self.dtype)
        else:
            result = Variable(self.graph, self.node)
            result._permuted = self._permuted and order != "C"
        result._array = array
        return result

    def _refresh(self) -> None:
        """Read again what was written into the memory that this is a view of."""
        chain = [self]
        while chain[-1]._base is not None and chain[-1]._version != chain[-1]._root._version:  # type: ignore[union-attr]
            chain.append(chain[-1]._base)
        for view in reversed(chain):
            read, base = view._view, view._base
            if base is None or view._version == view._root._version:  # type: ignore[union-attr]
                continue
            if not view._sure:
                raise _unsure()
            view._node = self.graph.add(read.op, (base._node, *read.inputs[1:]), read.params)  # type: ignore[union-attr]
            view._version = view._root._version  # type: ignore[union-attr]

    def overwrite(self, value: Any) -> None:
        """Make `value`, of the same shape and dtype, the content of this memory and of all that view it."""
        self.writable()
        self.node  # noqa: B018  up to date before it is overwritten
        content, view = lift(self.graph, value), self
        written = [(view, content)]
        while view._base is not None:
            if not view._sure:
                raise _unsure()
            base = view._base
            result = index.write_back(view._view, Variable(self.graph, base.node), Variable(self.graph, content))
            content, view = result.node, base
            written.append((view, content))
        view._version += 1
        for target, node in written:
            target._node, target._version = node, view._version

    def writable(self) -> None:
        """Raise where an assignment would reach memory that is not the function's own."""
        if self._lock:
            raise WriteError(self._lock, "Write into a copy: x = x.copy().")
        if not self.writes_in_place:
            raise WriteError("a scalar cannot be written into", "Bind the name anew: x = value.")

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Variable) and self._holds(value, key):  # the second half of x[i] += v: it is written already
            return
        self.writable()
        self.overwrite(index.put(self, key, value))

    def _holds(self, value: Variable, key: Any) -> bool:
        """Whether `value` is the view x[key], up to date."""
        if value._base is not self and value is not self:
            return False
        if value._version != self.owner._version:
            return False
        here = index.get(self, key)
        if here is value or value is self:
            return here is value
        return isinstance(here, Variable) and here._base is self and _same_view(here._view, value._view)

    def __getitem__(self, key: Any) -> Variable:
        return index.get(self, key)

    # ---- what has no value before the program runs

    def __bool__(self) -> bool:
        raise ConcreteValueError(
            f"Python needs the truth of a {self._described()}, which has no value before the program runs",
            "Write np.where(condition, a, b) instead of `if`, and & | ~ instead of and, or, not.",
        )

    def _no_number(self, what: str, more: str = "") -> ConcreteValueError:
        return ConcreteValueError(
            f"{what} needs the value of a {self._described()}, which has none before the program runs",
            "Write it with NumPy functions (np.exp instead of math.exp, x.astype(float) instead of float(x)), "
            f"or return it and convert the result.{more}",
        )

    def _described(self) -> str:
        name = self._name()
        return f"traced {self.aval}" + (f" named {name!r}" if name else "")

    def _name(self) -> str | None:
        """What the user calls the value; a mark on an argument goes under the name of the argument."""
        node, names = self._node, self.graph.names
        while node.op is core.ALIAS and node not in names:
            node = node.inputs[0]
        name = names.get(node)
        return name if isinstance(name, str) else None

    def __float__(self) -> float:
        raise self._no_number("float()", _BUILD)

    def __int__(self) -> int:
        raise self._no_number("int()", _BUILD)

    def __complex__(self) -> complex:
        raise self._no_number("complex()", _BUILD)

    def __index__(self) -> int:
        raise self._no_number("An index, range() or int()", " Index an array of NumPy with np.take(a, i).")

    def item(self, *args: Any) -> Any:
        raise self._no_number(".item()")

    def tolist(self) -> Any:
        raise self._no_number(".tolist()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise ConcreteValueError(
            f"np.array() or np.asarray() needs the value of a {self._described()}, which has none before the program runs",
            f"To join arrays write np.stack([a, b]) or np.concatenate; to copy one, x.copy(); to index one, np.take(a, i).{_BUILD}",
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
        dtype = np.dtype(dtype)
        if not np.can_cast(self.dtype, dtype, casting):
            raise DTypeError(f"cannot cast {self.dtype} to {dtype} by the rule {casting!r}")
        if dtype == self.dtype and not self.aval.weak:
            return self.copied(order, self._array) if copy else self
        result = shape.ASTYPE(self, dtype=dtype)
        result._array, result._permuted = self._array, self._permuted and order != "C"
        return result

    def copy(self, order: str = "C") -> Variable:
        return self.copied(order, self._array)

    def reshape(self, *sizes: Any, order: str = "C", copy: bool | None = None) -> Variable:
        return np.reshape(self, sizes[0] if len(sizes) == 1 else sizes, order=order, copy=copy)

    def transpose(self, *axes: Any) -> Variable:
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def flatten(self, order: str = "C") -> Variable:
        return np.ravel(self, order=order).copied(array=True)

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        self[...] = np.sort(self, axis, kind, order, stable=stable)

    def resize(self, *sizes: Any, refcheck: bool = True) -> None:
        np.resize(self, sizes)

    @property
    def flat(self) -> Flat:
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        Flat(self)[:] = value

    def fill(self, value: Any) -> None:
        self[...] = value

    def __getattr__(self, attribute: str) -> Any:
        if hasattr(np.ndarray, attribute) and not attribute.startswith("__"):  # np.asarray looks for protocols
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
    for x in inputs:
        if type(x) is Variable and x._permuted:
            result._permuted = True
    if op.view and isinstance(inputs[0], Variable) and all(x.aval.ndim == 0 for x in nodes[1:]):  # an index array copies
        _attach(result, inputs[0])
    return result


def created(graph: Graph, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a creation function of NumPy gives inside `graph`."""

    def new(op: Op, *inputs: Any, **params: Any) -> Variable:
        result = record(graph, op, inputs, params)
        result._array = True
        return result

    return create.CREATE[function](new, *args, **kwargs)


def _attach(view: Variable, base: Variable) -> None:
    """Make `view`, just recorded, a view of `base`, as far as NumPy does so."""
    op = view._node.op
    if op is index.GET and not view.shape:
        return  # a scalar
    view._array = True
    if not base.writes_in_place and not base._lock:
        return  # of a scalar NumPy makes an array
    sure = base._sure
    if op is shape.RESHAPE and (base._base is not None or base._permuted):
        is_view = _reshape_is_view(view, base)
        if is_view is False:
            view._permuted = False
            return
        sure = sure and is_view is True
    elif op is shape.TRANSPOSE:
        view._permuted = len(view.shape) > 1
    elif op not in (index.GET, shape.RESHAPE):
        view._lock = f"np.{op.name} gives a read-only array"
    view._lock = base._lock or view._lock
    view._view, view._base, view._root, view._sure = view._node, base, base.owner, sure
    view._version = view._root._version


def _reshape_is_view(view: Variable, base: Variable) -> bool | None:
    """Whether NumPy needs no copy for a reshape; None where that depends on what is not known."""
    old, new = ([n for n in x.shape if not (isinstance(n, int) and n == 1)] for x in (base, view))
    if same_shape(tuple(old), tuple(new)):  # axes of size 1 come and go freely
        return True
    layout = base._layout()
    if layout is None:
        return None
    try:
        layout.reshape(view.shape, copy=False)
    except ValueError:
        return False
    except TypeError:  # NumPy 2.0 cannot be asked
        return None
    return True


_BYTE = np.zeros(1, np.int8)


def _packed(sizes: Sequence[Any]) -> np.ndarray:
    """An array of these sizes that takes no memory, laid out in C's order; never to be read."""
    strides = [1]
    for n in reversed(sizes[1:]):
        strides.append(strides[-1] * n)
    return np.lib.stride_tricks.as_strided(_BYTE, sizes, strides[::-1] if sizes else (), writeable=False)


def _same_view(a: Node | None, b: Node | None) -> bool:
    """Whether two nodes read the same part of what they read."""
    return a is not None and b is not None and (a.op, a.params, a.inputs[1:]) == (b.op, b.params, b.inputs[1:])


class Flat:
    """``x.flat``: the numbers of an array in C's order; writing into it writes into the array."""

    def __init__(self, array: Variable) -> None:
        self._of = array

    def __getitem__(self, key: Any) -> Any:
        return np.copy(np.reshape(self._of, -1))[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._of.writable()
        flat = np.reshape(self._of, -1)
        self._of.overwrite(np.reshape(index.put(flat, key, value), self._of.shape))

    def __len__(self) -> int:
        return int(self._of.size)

    def __iter__(self) -> Iterator[Variable]:
        return iter(np.copy(np.reshape(self._of, -1)))


def _unsure() -> WriteError:
    return WriteError(
        "a reshape of a view may or may not share its memory, and one of the two was written into",
        "Take a copy: x.copy().reshape(...).",
    )


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
        strong = getattr(call, "keeps_weak", False) and all(map(_is_weak, inputs))
        return call(*map(_strong, inputs)) if strong else call(*inputs)
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
    if np.ndim(result) > out.ndim:  # an assignment would drop leading axes of size 1
        raise ShapeError(f"a result of shape {result.shape} cannot be written into an array of shape {out.shape}")
    out[...] = result
    return out


def unsupported(function: Callable[..., Any]) -> UnsupportedError:
    return UnsupportedError(f"np.{display_name(function)} is not supported")


# ---- operators and methods that are NumPy functions under another name


def _operator_method(ufunc: np.ufunc, reflected: bool) -> Callable[[Variable, Any], Any]:
    op = TABLE[ufunc]

    def method(self: Variable, other: Any) -> Any:
        if isinstance(other, (str, bytes, index.Selected)):
            return NotImplemented
        return op(other, self) if reflected else op(self, other)

    return method


def _in_place_method(ufunc: np.ufunc) -> Callable[[Variable, Any], Any]:
    op = TABLE[ufunc]

    def method(self: Variable, other: Any) -> Any:
        result = op(self, other)
        if not self.writes_in_place:  # a NumPy scalar is immutable: the name is bound anew
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
