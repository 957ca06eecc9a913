"""Dispatch of NumPy's functions on Variables: ufuncs and their options, ``out=``, operators, methods."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.core.graph import Op
from symgrad.core.provenance import unpacked_names
from symgrad.core.sizes import Dim
from symgrad.errors import DTypeError, Refusal, ShapeError, SymgradError, UnsupportedError, WriteError
from symgrad.frontend.misuse import explained
from symgrad.frontend.numba import in_python
from symgrad.frontend.raising import check_function
from symgrad.ops import masks, plugins
from symgrad.ops.arguments import refuse
from symgrad.ops.astype import cast
from symgrad.ops.define import TABLE, display_name
from symgrad.ops.known import is_constant
from symgrad.ops.operands import ARRAYS, WRITTEN_BEFORE, is_traced, no_operand, reads_traced, strong, traced_in
from symgrad.ops.scipy import load
from symgrad.ops.truths import calculated, is_truth, of_numpy

_ARRAYS = {np.where, np.select, np.tensordot, np.cross, np.roll}
"""Functions that return a writable array without dimensions where others return a NumPy scalar."""

_within: ContextVar[Callable[..., Any] | None] = ContextVar("within", default=None)
"""The function that is being written with others, whose results are not the user's."""


def call_function(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function of NumPy that is no ufunc, with ``out=`` for all of them."""
    out = kwargs.pop("out", None)
    check_function(function)
    outermost, token = _within.get() is None, _within.set(function)
    try:
        result = explaining(_known(function), function, args, kwargs)
        if is_traced(result) and outermost:
            result._array = result._array or function in _ARRAYS
            result = _of_numpy(result)
    except Refusal as refusal:
        result = _on_values(function, args, kwargs, refusal)
    finally:
        _within.reset(token)
    return _stored(result) if out is None else deliver(result, out)


def _stored(result: Any) -> Any:
    """Return the result of the user's call, with the items of a tuple named after the variables that receive them."""
    if _within.get() is None and isinstance(result, (tuple, list)):
        for x, name in zip(result, unpacked_names(returned=True), strict=False):
            if is_traced(x) and x.graph.provenance is None:
                x.graph.label(x.node, name)
    return result


def explaining(call: Callable[..., Any], function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of what runs instead of a function of NumPy; what goes wrong in it is said of that function."""
    try:
        return call(*args, **kwargs)
    except SymgradError:
        raise
    except Exception as error:
        raise explained(_path(function), function, args, kwargs, error) from None


def array_method(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of arrays that says what is wrong with its arguments."""

    @wraps(method)
    def explaining_method(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = partial(method, self)
        return explaining(bound, bound, args, kwargs)

    return explaining_method


def _on_values(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], refusal: Refusal) -> Any:
    """The result of a function that cannot be recorded, where the values of all its arguments are known.

    What it writes into them is written into the Variables; what shares memory with them is not read after such a write.
    """
    given: list[tuple[Any, np.ndarray]] = []
    values = _values((args, kwargs), refusal, given)
    refusal.forget()
    traced = traced_in([*args, *kwargs.values()])
    before = [array.copy() for _, array in given]
    try:
        result = function(*values[0], **values[1])
    except ValueError:
        if isinstance(refusal, WriteError):  # which names the user's line
            raise refusal from None
        raise
    _write_into(given, before, refusal)
    kept = [_kept(y, traced, given, _path(function)) for y in (result if type(result) is tuple else (result,))]
    return tuple(kept) if type(result) is tuple else kept[0]


def _values(x: Any, refusal: Refusal, given: list[tuple[Any, np.ndarray]]) -> Any:
    """An argument with the values of its Variables, whose arrays are noted."""
    if is_traced(x):
        if not is_constant(x):
            raise refusal
        value = x.known_value()
        if isinstance(value, np.ndarray):
            value = _laid_out(value, x)
            if x.locked:  # NumPy refuses a write as well where it would change nothing
                value = value.view()
                value.flags.writeable = False
            given.append((x, value))
        return value
    if isinstance(x, Dim) or reads_traced(x):
        raise refusal
    if type(x) in (list, tuple):
        return type(x)(_values(item, refusal, given) for item in x)
    return {key: _values(item, refusal, given) for key, item in x.items()} if type(x) is dict else x


def _laid_out(value: np.ndarray, x: Any) -> np.ndarray:
    """An array as `x` lies in memory, in C's order where that is not known."""
    layout = x.layout()
    if layout is None or not value.size:
        return value
    steps = [(n - 1) * step for n, step in zip(value.shape, layout.strides, strict=True)]
    memory = np.empty(1 + sum(map(abs, steps)), value.dtype)[-sum(step for step in steps if step < 0) :]
    strides = [step * value.itemsize for step in layout.strides]
    array = np.lib.stride_tricks.as_strided(memory, value.shape, strides)
    array[...] = value
    return array


def _write_into(given: Sequence[tuple[Any, np.ndarray]], before: Sequence[np.ndarray], refusal: Refusal) -> None:
    """Let Variables hold what a function has made of their values."""
    changed = [each for each, old in zip(given, before, strict=True) if each[1].tobytes() != old.tobytes()]
    if len(changed) > 1 and len({id(x.owner) for x, _ in changed}) < len(changed):
        raise refusal  # of two views of one array
    for x, array in changed:
        x.overwrite(array)


def _kept(y: Any, like: Any, given: Sequence[tuple[Any, np.ndarray]], function: str) -> Any:
    """A result; that it may be a view of an argument is noted."""
    if type(y) is not np.ndarray or y.dtype.kind not in "biufc":
        return y
    kept = np.array(y, like=like)
    for x, array in given:
        if np.may_share_memory(y, array) or x.is_contiguous("C") is None:
            kept.may_be(x, f"{function} may give a view of")
    return kept


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the replacement of a function; modules imported since the trace began and plug-ins are searched too."""
    if function not in TABLE:
        load()
    if function not in TABLE:
        plugins.load()
    call = TABLE.get(function)
    if call is None:
        raise _unsupported(function)
    return call


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], **kwargs: Any) -> Any:
    """Apply a ufunc with its methods, ``out=``, ``where=`` and ``dtype=``, as NumPy's machinery does."""
    if (function := in_python(ufunc)) is not ufunc and method == "__call__" and not kwargs:
        return function(*inputs)
    if method != "__call__":
        return _call_method(ufunc, method, inputs, **kwargs)
    call = _known(ufunc)
    if not kwargs:
        weak = getattr(call, "keeps_weak", False) and all(map(_is_weak, inputs))
        inputs = list(map(strong, inputs)) if weak else inputs  # np.multiply(2.0, 3.0) is no Python float
        return _stored(with_class(_of_numpy(explaining(call, ufunc, inputs, kwargs)), ufunc, inputs))
    return explaining(partial(_call_with_options, call, ufunc), ufunc, inputs, kwargs)


def _of_numpy(result: Any) -> Any:
    """A result of a function that the user calls: of Python's numbers, too, a truth of NumPy's."""
    return of_numpy(result) if is_traced(result) and is_truth(result) and not _caller().startswith(_OWN) else result


def _caller() -> str:
    """The module that applies a function or an operator to a Variable."""
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__") in _PASSED_ON_BY:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


_OWN = "symgrad."
_PASSED_ON_BY = {f"{_OWN}frontend.{module}" for module in ("dispatch", "interception", "variable")}


def _call_method(ufunc: np.ufunc, method: str, inputs: Sequence[Any], out: Any = None, **kwargs: Any) -> Any:
    call = TABLE.get(getattr(ufunc, method))
    if call is None:
        raise UnsupportedError(
            f"{_path(ufunc)}.{method} is not supported",
            f"Write it with {_path(ufunc)} in a `for` loop.",
        )
    result = explaining(call, getattr(ufunc, method), inputs, kwargs)
    return result if out is None else deliver(result, out)


def _call_with_options(
    call: Callable[..., Any],
    ufunc: np.ufunc,
    *inputs: Any,
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    **unknown: Any,
) -> Any:
    package = call.package or "np" if isinstance(call, Op) else "np"
    for argument in unknown:
        refuse(ufunc.__name__, argument, package)
    if dtype is not None:
        inputs = tuple([cast(ufunc.__name__, x, np.dtype(dtype), casting) for x in inputs])
    result = call(*inputs)
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if where is not True:
        if target is None:
            fact = f"{package}.{ufunc.__name__}: where= without out= leaves numbers undefined"
            raise UnsupportedError(fact, "Write np.where(mask, result, other).")
        result = np.where(where, result, target)
    return result if out is None else deliver(result, target)


def _is_weak(x: Any) -> bool:
    return x.aval.weak if is_traced(x) else type(x) in (int, float, complex)


def deliver(result: Any, out: Any) -> Any:
    """Write a result into ``out=``."""
    if isinstance(out, tuple):
        return tuple(deliver(y, x) for y, x in zip(result, out, strict=True))
    if not is_traced(out):
        raise WriteError(
            WRITTEN_BEFORE,
            "For x += y write x = x + y; for out=x of a function give np.empty(shape, like=y).",
        )
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise DTypeError(
            f"a {result.dtype} result cannot be written into a {out.dtype} array",
            "Give that array a dtype that holds the result, or convert it: x = result.astype(dtype).",
        )
    if np.ndim(result) > out.ndim:  # an assignment would drop leading axes of size 1
        raise ShapeError(
            f"a result of shape {result.shape} cannot be written into an array of shape {out.shape}",
            "Give an array of the shape of the result.",
        )
    out[...] = result
    return out


def _path(function: Callable[..., Any]) -> str:
    """``np.add``, ``scipy.special.gamma``, ``x.astype``; of what has no home that is known, ``the function f``."""
    if isinstance(function, partial):
        return f"x.{function.func.__name__}"
    known, name = TABLE.get(function), display_name(function)
    if isinstance(known, Op):
        return known.path
    home = [step for step in str(getattr(function, "__module__", "")).split(".") if not step.startswith("_")]
    if home[0] in ("scipy", "math", "cmath"):
        return ".".join((*home, function.__qualname__))
    foreign = "." not in name and getattr(np, name, None) is not function
    return f"the function {name}" if foreign else f"np.{name}"


def _unsupported(function: Callable[..., Any]) -> UnsupportedError:
    if isinstance(function, np.ufunc) and function.__name__.endswith(" (vectorized)"):  # of a function of Python's
        return UnsupportedError("np.frompyfunc(f, n, m) is not supported", "Write np.vectorize(f), which calls f, too.")
    return UnsupportedError(
        f"{_path(function)} is not supported",
        "Write it with other functions, or give it to symgrad.operator with its derivative.",
    )


# ---- operators and methods that are NumPy functions under another name


_NUMPYS = (*ARRAYS, bool, int, float, complex, list, tuple, Dim)
"""Classes that NumPy computes with, including those of traced values."""


def _on_numbers(ufunc: np.ufunc, symbol: str) -> Callable[..., Any]:
    """Return the function that a Python operator calls. Beside Python's numbers alone a Python boolean is an integer.

    Derivative rules, and functions written with others, are written for NumPy's booleans.
    """
    op = TABLE[ufunc]

    def call(*operands: Any) -> Any:
        if any(map(is_truth, operands)) and _is_the_users(_caller()):
            operands = calculated(symbol, operands)
        return with_class(op(*operands), _OF_PYTHON[ufunc], operands)

    return call


def with_class(result: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Return the result of a function with the class that it has for the classes of the operands."""
    mixed = next((x for x in operands if is_traced(x) and x.examples), None)
    return result if mixed is None else mixed.of_operator(result, function, operands)


def _is_the_users(module: str) -> bool:
    """Whether a module applies operators as the user wrote them."""
    return module.startswith((f"{_OWN}frontend.", f"{_OWN}ops.python_math")) or not module.startswith(_OWN)


def _operator(ufunc: np.ufunc, symbol: str, reflected: bool = False, other_half: str = "") -> Callable[[Any, Any], Any]:
    op = _on_numbers(ufunc, symbol)

    def method(self: Any, other: Any) -> Any:
        if not is_traced(other):
            if isinstance(other, masks.Selected) or _takes_over(other):
                return NotImplemented
            if other is None or isinstance(other, (str, bytes)):
                return _with_no_number(ufunc, self, other)
            if ufunc is np.multiply and type(other) in (list, tuple) and _repeats(self):
                return NotImplemented
            if other_half and not self.writes_in_place and _answers(other, other_half):
                return NotImplemented
        return op(other, self) if reflected else op(self, other)

    return method


def _with_no_number(ufunc: np.ufunc, x: Any, other: Any) -> Any:
    """No number equals None or a text; an integer that is known repeats one."""
    if ufunc in (np.equal, np.not_equal):
        different = ufunc is np.not_equal
        return np.full_like(x, different, dtype=bool) if x.shape else different
    if other is not None and ufunc is np.multiply and x.dtype.kind in "iu":
        return NotImplemented
    raise no_operand(other)


def _repeats(x: Any) -> bool:
    """Whether a number repeats a list, rather than to multiply its items; Python asks for its value."""
    return not x.writes_in_place and not x.shape and x.dtype.kind in "iub"


def _takes_over(other: Any) -> bool:
    """Whether an operand has operators of its own for arrays, as a sparse matrix has."""
    return not isinstance(other, (*ARRAYS, type)) and getattr(other, "__array_priority__", 0) > 0


def _answers(other: Any, method: str) -> bool:
    """Whether an object of a class of the user's has the other half of an operator, which a number leaves to it."""
    return not isinstance(other, _NUMPYS) and hasattr(type(other), method)


def _in_place(ufunc: np.ufunc, symbol: str) -> Callable[[Any, Any], Any]:
    op = _on_numbers(ufunc, symbol)

    def method(self: Any, other: Any) -> Any:
        result = op(self, other)
        if not self.writes_in_place:  # a NumPy scalar is immutable: the name is bound anew
            if self.examples and np.ndarray in self.examples:
                for x in (self, *self.kin):
                    x.doubt("a number or an array of no dimensions, depending on traced values, is changed in place")
            return result
        self.writable()
        return deliver(result, self)

    return method


def _power(self: Any, other: Any) -> Any:
    """Raise to a power as arrays do: they square booleans as int8, where np.power gives int64; a known int stays a
    number.
    """
    if isinstance(other, Dim) and self.ndim and other.scope.value(other) is not None:
        other = int(other)
    if self.dtype == bool and self.writes_in_place and type(other) is int and other == 2:
        return np.square(self)
    return _operator(np.power, "**", other_half="__rpow__")(self, other)


def _unary(ufunc: np.ufunc, symbol: str) -> Callable[[Any], Any]:
    op = _on_numbers(ufunc, symbol)
    return lambda self: op(self)


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self.__array_function__(function, (), (self, *args), kwargs)


_UNARY = {
    "neg": (np.negative, "-"), "pos": (np.positive, "+"), "abs": (np.absolute, "abs"), "invert": (np.invert, "~")
}  # fmt: skip
_BINARY = {
    "add": (np.add, "+"), "sub": (np.subtract, "-"), "mul": (np.multiply, "*"), "truediv": (np.true_divide, "/"),
    "floordiv": (np.floor_divide, "//"), "mod": (np.remainder, "%"), "pow": (np.power, "**"),
    "matmul": (np.matmul, "@"), "and": (np.bitwise_and, "&"), "or": (np.bitwise_or, "|"),
    "xor": (np.bitwise_xor, "^"), "lshift": (np.left_shift, "<<"), "rshift": (np.right_shift, ">>"),
}  # fmt: skip
_COMPARE = {
    "lt": (np.less, "<"), "le": (np.less_equal, "<="), "gt": (np.greater, ">"), "ge": (np.greater_equal, ">="),
    "eq": (np.equal, "=="), "ne": (np.not_equal, "!="),
}  # fmt: skip
_OF_PYTHON = {
    ufunc: getattr(operator, name, None) or getattr(operator, f"{name}_")
    for name, (ufunc, _) in (_UNARY | _BINARY | _COMPARE).items()
}
_ATTRIBUTES = {"T": np.transpose, "mT": np.matrix_transpose}
_METHODS = (
    "all any argmax argmin argpartition argsort choose clip cumprod cumsum diagonal dot max mean min "
    "nonzero prod ptp put ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
).split()


def _methods() -> dict[str, Any]:
    found: dict[str, Any] = {
        "__divmod__": lambda self, other: (self // other, self % other),
        "__rdivmod__": lambda self, other: (other // self, other % self),
    }
    for name, operation in _UNARY.items():
        found[f"__{name}__"] = _unary(*operation)
    for name, operation in _COMPARE.items():
        found[f"__{name}__"] = _operator(*operation)
    for name, operation in _BINARY.items():
        found[f"__{name}__"] = _operator(*operation, other_half=f"__r{name}__")
        found[f"__r{name}__"] = _operator(*operation, reflected=True)
        found[f"__i{name}__"] = _in_place(*operation)
    found["__pow__"] = _power
    found |= {name: property(function) for name, function in _ATTRIBUTES.items()}
    for name in _METHODS:
        if getattr(np, name, None) in TABLE:
            found[name] = _method(getattr(np, name))
    return found


if TYPE_CHECKING:
    from symgrad.frontend.operators import Operators as Operators
else:
    Operators = type("Operators", (), {"__slots__": (), **_methods()})
    """The base of Variable that has Python's operators and those methods of arrays that are functions of NumPy, too."""
