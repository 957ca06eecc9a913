"""Interception of NumPy during a trace: created arrays are Variables, and lists may hold them.

``np.zeros(3)`` has no Variable among its arguments by which NumPy could tell that it runs inside of a trace, and a
list such as ``[a, b]`` hides those that it holds. So while a trace runs, attributes of the module `numpy` depend on who
asks: the function that is traced, and the libraries that it calls, find `Seen` functions; other threads, compiled code,
symgrad and NumPy itself find NumPy as it is. What the function can reach under a name of its own (``from numpy import
zeros``, ``len``, an array that is indexed by a Variable) is replaced for the time of the trace.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import islice
from operator import is_
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.graph import Graph, tracing
from symgrad.core.provenance import forget_code, installed, internal, looks_up
from symgrad.core.sizes import Dim, number_of
from symgrad.errors import SymgradError, WriteError
from symgrad.frontend.conversion.classes import of_class
from symgrad.frontend.dispatch import call_function, call_ufunc
from symgrad.frontend.draws import Swapped, generator_of, note_draw, numpy_random, told, warn_of_unseeded
from symgrad.frontend.reach import MISSING, Name, is_gone, own_attributes, reach
from symgrad.frontend.static import Static
from symgrad.frontend.variable import Variable, created
from symgrad.ops.concatenators import CONCATENATORS
from symgrad.ops.create import CREATE, copy_mode
from symgrad.ops.define import PLACES, TABLE, implements
from symgrad.ops.grids import GRIDS
from symgrad.ops.known import is_constant
from symgrad.ops.masks import Selected
from symgrad.ops.operands import WRITTEN_BEFORE, is_traced, reads_traced
from symgrad.ops.positions import Places
from symgrad.ops.scipy import load

_MODULES = ("numpy", "numpy.linalg", "numpy.fft", "numpy.random")
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, type(np.sum), np.ufunc)
_PASSED_ON = (np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require)
EXISTS = "it shows an array that exists before the program runs, which would change"
_MOST_ITEMS = 100  # of a list or an instance that are looked at; what holds traced values only behind them is refused
_FRESH = frozenset((
    np.copy, np.diag, np.diagflat, np.tile, np.repeat, np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack,
    np.block, np.kron, np.outer, np.tril, np.triu, np.vander, np.pad, np.append,
))  # fmt: skip
"""Functions that build arrays from others: those built from constants may be written into as well."""


# ---- functions


class Seen:
    """A function of NumPy or SciPy as a traced function sees it; outside of a trace it is that function."""

    __slots__ = ("__wrapped__",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph, function = tracing.get(), self.__wrapped__
        if graph is None:
            return function(*args, **kwargs)
        if function in CREATE:
            return create(graph, function, args, kwargs)
        if isinstance(function, np.ufunc):
            return call_ufunc(function, "__call__", args, **kwargs) if _hide(args) else function(*args, **kwargs)
        given = (*args, *kwargs.values())
        if _hide(given) or (function in TABLE and any(is_traced(x) or reads_traced(x) for x in given)):
            return call_function(function, _as_traced(graph, args), kwargs)
        note_draw(function)
        if (random := numpy_random()) and function is random.default_rng:
            warn_of_unseeded(*given)
            return function(*map(number_of, args), **{name: number_of(x) for name, x in kwargs.items()})
        _check_written(function, args)
        result = function(*args, **kwargs)
        return constant(graph, result) if function in _FRESH else result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method where what it stands for is one."""
        plain = instance is None or not isinstance(self.__wrapped__, FunctionType)
        return self if plain else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return seen(getattr(self.__wrapped__, name))

    @property
    def __class__(self) -> type:
        return type(self.__wrapped__)

    @__class__.setter
    def __class__(self, _: type) -> None:
        raise TypeError("the class is that of the function")

    def __eq__(self, other: object) -> bool:
        return bool(self.__wrapped__ == other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> Any:
        return self.__wrapped__.__reduce__()


def _check_written(function: Any, args: Sequence[Any]) -> None:
    """Raise as NumPy does elsewhere where ``np.add.at(a, ...)``, which does not look, writes into a read-only array."""
    is_at = isinstance(getattr(function, "__self__", None), np.ufunc) and function.__name__ == "at"
    if not is_at or not args or is_traced(args[0]):  # a traced array looks for itself
        return
    if isinstance(args[0], np.ndarray) and not args[0].flags.writeable:
        raise ValueError("output array is read-only")


def seen(value: Any) -> Any:
    """Return the replacement of an attribute of NumPy inside of a trace."""
    if isinstance(value, _classes_of_functions(numpy_random())) or _is_callable_of_scipy(value):
        return value if type(value) is Seen else _seen.setdefault(value, Seen(value))
    if id(value) in GRIDS:
        return Grid(GRIDS[id(value)])
    return Joined(CONCATENATORS[id(value)]) if id(value) in CONCATENATORS else value


class Joined:
    """`np.r_` or `np.c_` inside of a trace: ranges whose length is a symbol are recorded."""

    def __init__(self, brackets: Any) -> None:
        self._brackets = brackets

    def __getitem__(self, key: Any) -> Any:
        graph, items = tracing.get(), key if isinstance(key, tuple) else (key,)
        if graph is not None:
            make = GRIDS[id(np.ogrid)]
            items = tuple(create(graph, make, (x,), {}) if type(x) is slice and _holds_traced(x) else x for x in items)
        return self._brackets[items]

    def __len__(self) -> int:
        return 0


class Grid:
    """`np.mgrid` or `np.ogrid` inside of a trace."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getitem__(self, key: Any) -> Any:
        graph = tracing.get()
        return self._function(key) if graph is None else create(graph, self._function, (key,), {})


@cache
def _classes_of_functions(random: Any) -> tuple[type, ...]:
    return (*_FUNCTIONS, type(random.normal), type(random.default_rng)) if random else _FUNCTIONS


_CLASSES_OF_FUNCTIONS = frozenset(("uarray", "scipy.special._multiufuncs"))
"""Modules with classes whose objects are functions: those of `scipy.fft`, and families such as `legendre_p`."""


def _is_callable_of_scipy(value: Any) -> bool:
    """Whether a value is an object that stands for a function of SciPy."""
    return type(value).__module__ in _CLASSES_OF_FUNCTIONS


def looked_up(function: Any, frame: FrameType) -> Any:
    """Return the replacement of a function that a frame has under any name, if symgrad has an entry for it."""
    try:
        is_known = function in TABLE or function in CREATE
    except TypeError:  # of an object without a hash
        is_known = False
    return seen(function) if is_known and not _on_its_own(frame) else function


_seen: dict[Any, Seen] = {}  # one for each function, whatever thread comes first: `is` holds among them


def create(graph: Graph, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a creation function of NumPy inside of `graph`; arrays of objects or of text stay NumPy's."""
    kwargs.pop("like", None)
    may_pass_on = function in _PASSED_ON or (function is np.array and not copy_mode(kwargs.get("copy", True)))
    if may_pass_on and args and type(args[0]) in (np.ndarray, Held):
        result = function(*args, **kwargs)
        if np.may_share_memory(result, args[0]):
            return result.view(Held)  # one that is there already, and not to be written into
        return constant(graph, result)
    try:
        return created(graph, function, args, kwargs)
    except Exception as error:
        if any(map(_holds_traced, (*args, *kwargs.values()))):
            raise
        if isinstance(error, SymgradError):
            error.forget()
        try:
            result = function(*args, **kwargs)
        except Exception:  # NumPy refuses it, too
            raise error from None
        return constant(graph, result)


def constant(graph: Graph, value: Any) -> Any:
    """An array of numbers, just made, as a Variable; anything else as it is."""
    if type(value) not in (np.ndarray, Held) or value.dtype.kind not in "biufc":
        return value
    return created(graph, np.array, (value,), {})


def existing(graph: Graph, value: Any) -> Any:
    """An array of numbers that exists before the program runs, as a Variable: nothing is written into its memory."""
    result = constant(graph, value)
    if result is not value:
        result.locked = EXISTS
    return result


def _as_traced(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Arguments with Variables for arrays, by which a function with symbolic sizes in it is recorded."""
    if any(map(is_traced, args)):
        return list(args)
    return [
        constant(graph, np.asarray(x)) if type(x) is list and not _holds_traced(x) else existing(graph, x) for x in args
    ]


def _hide(args: Sequence[Any]) -> bool:
    """Whether there are Variables or symbolic sizes that NumPy does not see by itself."""
    return any(type(x) in (list, tuple) and _holds_traced(x) for x in args) or (
        any(isinstance(x, Dim) for x in args) and any(type(x) in (np.ndarray, Held, list, tuple) for x in args)
    )


def _holds_traced(x: Any) -> bool:
    if type(x) is slice:
        return any(map(_holds_traced, (x.start, x.stop, x.step)))
    return is_traced(x) or isinstance(x, (Dim, Places)) or (type(x) in (list, tuple) and any(map(_holds_traced, x)))


# ---- arrays


class Held(np.ndarray):
    """An array that a traced function finds under a name: Variables may index it, and copies of it be written into."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """A number for an array of no dimensions, where NumPy gives one."""
        return array[()] if return_scalar else super().__array_wrap__(array, context)

    def __getitem__(self, key: Any) -> Any:
        graph = tracing.get()
        return existing(graph, self)[key] if graph is not None and _holds_traced(key) else super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if tracing.get() is not None and (_holds_traced(value) or _holds_traced(key)):
            raise WriteError(WRITTEN_BEFORE, "Write into a copy: x = np.array(x).")
        super().__setitem__(key, value)

    def copy(self, order: str = "C") -> Any:
        graph, result = tracing.get(), super().copy(order)
        return result if graph is None else constant(graph, result)


def held(static: Any) -> Any:
    """A static argument as the traced function sees it."""
    value = static.value if isinstance(static, Static) else static
    return value.view(Held) if type(value) is np.ndarray and value.dtype.kind in "biufc" else value


def length_of(x: Any) -> Any:
    """``len(x)``, which Python wants as a number, where that is a symbolic size."""
    return x.shape[0] if isinstance(x, (Selected, Places)) or (is_traced(x) and x.shape) else len(x)


def _is_instance(x: Any, kind: Any) -> bool:
    """``isinstance(n, int)`` of a symbolic size, of a traced number, or of a list that a loop has filled."""
    if kind is Variable and is_traced(x):
        return True
    return of_class(x, lambda y: isinstance(y, kind))


def _has_attribute(x: Any, name: str) -> bool:
    """``hasattr(x, "__len__")`` of a traced number."""
    return of_class(x, lambda y: hasattr(y, name))


@implements(np.isscalar)
def _is_scalar(element: Any) -> bool:
    """``np.isscalar(x[0])`` of a traced number."""
    return of_class(element, np.isscalar)


_BUILTINS: dict[str, Any] = {"len": length_of, "isinstance": _is_instance, "hasattr": _has_attribute}


# ---- places


class Place(NamedTuple):
    """A name in a namespace, a cell or an object, and its substitute while a trace runs."""

    holder: Any  # a namespace, a cell of a closure, or an object that has the attribute
    name: str
    substitute: Any

    def find(self) -> Any:
        """Return the value there, MISSING for none."""
        if isinstance(self.holder, CellType):
            return self.holder.cell_contents
        return (self.holder if type(self.holder) is dict else vars(self.holder)).get(self.name, MISSING)

    def put(self, value: Any) -> None:
        """Put a value there, MISSING for none."""
        if isinstance(self.holder, CellType):
            self.holder.cell_contents = value
        elif isinstance(self.holder, type):
            setattr(self.holder, self.name, value)
        elif value is MISSING:
            (self.holder if type(self.holder) is dict else vars(self.holder)).pop(self.name, None)
        else:
            (self.holder if type(self.holder) is dict else vars(self.holder))[self.name] = value

    def restore(self, before: Any) -> None:
        """Put back what was there, unless the function has bound the name anew."""
        if self.find() is self.substitute:
            self.put(before)


class _Names(Place):
    """Many names of a module, which are exchanged together: `substitute` has those of all.

    SciPy's modules have hundreds, and every trace exchanges them. So they are copied and put there in one go.
    """

    def find(self) -> Any:
        return vars(self.holder).copy()

    def put(self, value: Any) -> None:
        vars(self.holder).update(value)

    def restore(self, before: Any) -> None:
        names, new = vars(self.holder), self.substitute
        if all(map(is_, map(names.get, new), new.values())) and before.keys() >= new.keys():  # nothing was bound anew
            names.update(zip(new, map(before.get, new), strict=True))
            return
        for name in [name for name in new if names.get(name) is new[name]]:
            if name in before:
                names[name] = before[name]
            else:
                del names[name]


class _Exchange(NamedTuple):
    """A place with a substitute, its old value, and the traces that need it."""

    place: Place
    before: Any
    users: set[object]


class Exchanged:
    """Places with substitutes, shared by the traces of all threads: the last trace restores what the first one found.

    An interrupt may come at any line. So what was there is noted before it is exchanged, and forgotten after it is
    back; a trace that was interrupted while it left may leave again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_force: dict[tuple[int, str], _Exchange] = {}

    def enter(self, user: object, places: Sequence[Place]) -> None:
        with self._lock:
            for place in places:
                key = id(place.holder), place.name
                if key not in self._in_force:
                    self._in_force[key] = _Exchange(place, place.find(), set())
                exchange = self._in_force[key]
                first = not exchange.users
                exchange.users.add(user)
                if first:
                    exchange.place.put(exchange.place.substitute)

    def leave(self, user: object) -> None:
        with self._lock:
            for key, exchange in [*self._in_force.items()]:
                if exchange.users <= {user}:
                    exchange.place.restore(exchange.before)
                    self._in_force.pop(key)
                else:
                    exchange.users.discard(user)


_exchanged = Exchanged()


class _Intercepted(ModuleType):
    """The class of NumPy's modules while a trace runs."""

    def __getattribute__(self, name: str) -> Any:
        value = ModuleType.__getattribute__(self, name)
        if tracing.get() is None:
            return value
        frame = sys._getframe(1)
        inner = internal(frame.f_code) and frame.f_code.co_filename != "<string>"  # which is python -c, too
        return value if inner or not looks_up(frame) or _on_its_own(frame) else seen(value)


def _on_its_own(frame: FrameType) -> bool:
    """Whether a library computes with constants: it may hand them to compiled code, to be written into.

    So it is where none of its functions between the user's and this one has a traced value.
    """
    at: FrameType | None = frame
    while at is not None and (installed(at.f_code) or internal(at.f_code)):
        if installed(at.f_code) and any(map(_is_varying, at.f_locals.values())):
            return False
        at = at.f_back
    return installed(frame.f_code)


def _is_varying(x: Any) -> bool:
    """Whether an object is a traced value, or holds one itself: an instance in its fields, a list or a dict."""
    if is_traced(x):
        return not is_constant(x)
    if is_gone(x) or isinstance(x, (type, ModuleType, FunctionType)):
        return False
    own = x if type(x) is dict else own_attributes(x)
    items = x if type(x) in (list, tuple) else own.values()
    return any(is_traced(y) and not is_constant(y) for y in islice(items, _MOST_ITEMS))


class _ModuleClass(Place):
    """Not a name but the class of a module is exchanged."""

    def find(self) -> Any:
        return type(self.holder)

    def put(self, value: Any) -> None:
        self.holder.__class__ = value


def _fixed_places() -> list[Place]:
    return _places_of(tuple(name for name in _MODULES if name in sys.modules), len(PLACES))


@cache
def _places_of(modules: tuple[str, ...], count: int) -> list[Place]:
    """The classes of NumPy's modules, and the functions that lie at `count` places."""
    classes: list[Place] = [_ModuleClass(sys.modules[name], "__class__", _Intercepted) for name in modules]
    generators = ("numpy.random._generator", "numpy.random.mtrand") if "numpy.random" in modules else ()
    classes += [
        Place(sys.modules[name], "Sequence", Swapped) for name in generators if hasattr(sys.modules[name], "Sequence")
    ]
    found = [Place(holder, name, _seen_at(holder, name)) for holder, name in PLACES[:count]]
    return [*classes, *_together(found), *(x for x in found if not isinstance(x.holder, ModuleType))]


def _together(places: Sequence[Place]) -> list[Place]:
    """The names of each module as one place; that of more names, once more are known, is another one."""
    names: dict[ModuleType, dict[str, Any]] = {}
    for place in places:
        if isinstance(place.holder, ModuleType):
            names.setdefault(place.holder, {})[place.name] = place.substitute
    return [_Names(module, f"{len(found)} names", found) for module, found in names.items()]


def _seen_at(holder: Any, name: str) -> Any:
    value = vars(holder)[name] if isinstance(holder, (type, ModuleType)) else getattr(holder, name)
    return seen(value.__func__ if isinstance(value, staticmethod) else value)


def _substitute(found: Name) -> Any:
    """Return the substitute for one of a traced function's names, MISSING where it stays.

    Another trace may be running, and the name be exchanged already.
    """
    if type(found.value) in (Seen, Held) or any(found.value is new for new in _BUILTINS.values()):
        return found.value
    if found.value is MISSING:
        return _BUILTINS.get(found.name, MISSING)
    if type(found.value) is np.ndarray:
        return found.value.view(Held) if found.value.dtype.kind in "biufc" else MISSING
    is_function = isinstance(found.value, _FUNCTIONS) or _is_callable_of_scipy(found.value)
    if is_function and (found.value in TABLE or found.value in CREATE):
        return seen(found.value)
    random = numpy_random()
    is_drawing = random and (found.value is random.default_rng or generator_of(found.value) is random.mtrand._rand)
    return seen(found.value) if is_drawing else MISSING


@contextmanager
def inside(graph: Graph, function: Callable[..., Any]) -> Iterator[None]:
    """While `function` runs in here, it is traced into `graph`."""
    names = list(reach(function))
    codes = {n.code for n in names}
    load(codes)
    own = [function.__code__] if isinstance(function, FunctionType) else []
    if any("random" in code.co_names for code in (*codes, *own)):
        import_module("numpy.random")
    places = [Place(n.holder, n.name, new) for n in names if (new := _substitute(n)) is not MISSING] + _fixed_places()
    user, before = object(), tracing.get()
    try:
        try:
            graph.exchanges.append(user)
            tracing.set(graph)
            _exchanged.enter(user, places)
            with told(graph, names):
                yield
        finally:
            _leave(user, before)
    finally:  # again, where an interrupt came meanwhile
        _leave(user, before)


def _leave(user: object, before: Graph | None) -> None:
    _exchanged.leave(user)
    tracing.set(before)
    forget_code()


def abandon(graph: Graph) -> None:
    """Restore the places that traces into a graph have exchanged, however they have ended."""
    for user in graph.exchanges:
        _exchanged.leave(user)
