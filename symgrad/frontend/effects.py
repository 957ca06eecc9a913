"""Effects of a function that Python runs once more: all that it can reach is saved before, and put back after."""

from __future__ import annotations

import gc
import io
import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from operator import is_, length_hint
from types import CellType, FunctionType, GeneratorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from symgrad.core.provenance import installed, internal
from symgrad.frontend.arguments import signature
from symgrad.frontend.conversion.contents import parts
from symgrad.frontend.conversion.either import Either
from symgrad.frontend.conversion.mutable import OBJECT, Kind, State, is_same_form, kind_of, path, root_of
from symgrad.frontend.conversion.state import Unread
from symgrad.frontend.interception import Held, Seen
from symgrad.frontend.reach import MISSING, is_gone, own_attributes, reach
from symgrad.frontend.variable import Variable
from symgrad.ops.known import is_constant
from symgrad.ops.operands import is_traced

MOST = 2_000  # objects that are looked into
MOST_BYTES = 2**24  # of arrays that are copied
_SHOWS = frozenset(("input", "open", "exec", "eval"))
_PLAIN = (str, bytes, int, float, complex, type(None), type(...), range, slice, ModuleType, np.generic, np.ufunc)
_STAND_INS = (Unread, Either)  # for items that loops append, and for what branches choose
_CACHED = type(cache(len))
_LOCK = type(allocate_lock())
_Restore = partial[Any]
"""A function that puts back one object, its first argument."""


class _Saved(NamedTuple):
    """A state: functions that put back each name and each object within reach, and objects that nobody can put back."""

    restores: list[_Restore]
    outside: dict[int, Any]  # by their ids
    is_all: bool  # whether it can be put back as a whole


class Effects:
    """State that a function reaches by name: globals, its closure, its instance, arguments, and all that these hold.

    It is saved when the function is about to be traced. Python's own run begins there as well.
    """

    def __init__(self, function: Callable[..., Any], arguments: Iterable[Any] = ()) -> None:
        self._names = list(reach(function))
        self._roots = [function, *arguments]
        self._shows = any(name.value is MISSING and name.name in _SHOWS for name in self._names)
        self._before = self._saved()
        self._positions = {key: _position(x) for key, x in self._before.outside.items()}
        self.advanced = ""  # an iterator that the trace has advanced and the next call finds, by name
        self.dropped: list[str] = []  # where the trace left traced values, which are not there after it
        self.moved = ""  # something else that it has changed, by name
        self._after: list[_Restore] = []  # the state after it, if so

    @property
    def changes(self) -> bool:
        """Whether the trace has changed anything."""
        return bool(self.dropped or self.moved)

    @property
    def revocable(self) -> bool:
        """Whether all of it can be put back.

        It holds no iterators, files, loggers or locks, there is not too much of it, and the function calls nothing that
        shows something.
        """
        return self._before.is_all and not self._shows and self._saved().is_all

    def revoke(self) -> None:
        """Put back the state before the trace, as far as that is possible."""
        _put_back(self._before.restores)

    def forget_traced(self) -> None:
        """Restore what holds traced values after a trace: these mean nothing outside of it.

        Arrays that were made of constants alone are there as NumPy's own, as if Python had made them.
        """
        self._evaluate()
        saved, names = {id(restore.args[0]): restore.args[0] for restore in self._before.restores}, self._names_by_id()
        without = dict(saved)
        for restore in self._before.restores:
            holder = restore.args[0]
            parts = [_bound(*restore.args[:2])] if restore.func is _bind else _parts(holder)
            traced = [x for x in parts if id(x) not in saved and _holds_traced(x, without)]
            if traced:
                self.dropped.append(_named(restore, traced[0], names))
                _drop(restore, traced)
        if moved := next(filter(_differs, self._before.restores), None):
            self.moved = _named(moved, _new_item(moved), names)
            self._after = self._saved().restores

    def note_advanced(self, iterators: dict[int, Any]) -> None:
        """Note an iterator that the trace has advanced, if the next call finds it again.

        `iterators` have given an item to the function itself, by their ids. Others, as in ``sum(items)``, have another
        position than before.
        """
        names, before = self._names_by_id(), self._positions
        for key, x in self._saved().outside.items() if iterators or before else ():
            if key in iterators or (key in before and _position(x) != before[key]):
                self.advanced = names.get(key, type(x).__name__)
        iterators.clear()

    def _names_by_id(self) -> dict[int, str]:
        """Return the names of what is bound to names, and of defaults, by the ids of these objects."""
        defaults = {id(x.default): x.name for x in signature(self._roots[0]).parameters.values()}
        return defaults | {id(_bound(name.holder, name.name)): name.name for name in self._names}

    def _evaluate(self) -> None:
        """Put arrays in the place of traced values that depend on no argument."""
        values: dict[int, Any] = {}
        changed = [restore for restore in self._before.restores if _differs(restore)]
        for holder, name, _ in (restore.args for restore in changed if restore.func is _bind):
            _bind(holder, name, _evaluated(_bound(holder, name), values))
        waiting = [_bound(*x.args[:2]) if x.func is _bind else x.args[0] for x in changed]
        seen = {id(restore.args[0]): restore.args[0] for restore in self._before.restores if not _differs(restore)}
        while waiting and len(seen) <= MOST:
            x = waiting.pop()
            if id(x) in seen or x is MISSING or is_gone(x) or is_traced(x):
                continue
            seen[id(x)] = x
            if kind := kind_of(type(x)):
                new = {key: _evaluated(y, values) for key, y in kind.read(x).items.items()}
                for key in (key for key, y in kind.read(x).items.items() if y is not new[key]):
                    kind.put(x, key, new[key])
            waiting.extend(_parts(x))

    @contextmanager
    def revoked(self, *, after: bool = False) -> Iterator[None]:
        """Begin the block in the state before the trace, or after it, and put back at its end the state of now."""
        now = self._saved().restores
        try:
            try:
                self.revoke()
                _put_back(self._after if after else ())
                yield
            finally:
                _put_back(now)
        finally:  # again, where an interrupt came meanwhile
            _put_back(now)

    def _saved(self) -> _Saved:
        """Return the state of now."""
        values = [(name.holder, name.name, _bound(name.holder, name.name)) for name in self._names]
        found: list[_Restore] = [
            partial(_bind, *binding) for binding in values if type(binding[-1]) not in (Seen, Held)
        ]
        waiting, seen, nbytes, outside = [*self._roots, *(x for *_, x in values)], dict[int, Any](), 0, dict[int, Any]()
        while waiting and len(seen) <= MOST:
            x = waiting.pop()
            if id(x) in seen or x is MISSING or is_gone(x) or isinstance(x, _PLAIN) or is_traced(x):
                continue
            seen[id(x)] = x
            if isinstance(x, np.ndarray) and x.flags.writeable:
                nbytes += x.nbytes
                found.append(partial(_let_write, x))
            if _is_outside(x) or (isinstance(x, np.ndarray) and nbytes > MOST_BYTES):
                outside[id(x)] = x
                continue
            restores, parts = _taken_apart(x)
            waiting.extend(parts)  # a list of another class may answer to +=
            found += restores
        return _Saved(found, outside, not outside and len(seen) <= MOST)


def _is_outside(x: Any) -> bool:
    """Whether changes of an object cannot be undone: an iterator, a file, a logger, a lock, for which others wait."""
    logger = getattr(sys.modules.get("logging"), "Logger", ())
    return hasattr(type(x), "__next__") or isinstance(x, (io.IOBase, logger, _LOCK))


def _position(x: Any) -> Any:
    """Return what tells where an iterator stands, if anything does: how many items it has, what a generator holds."""
    if isinstance(x, GeneratorType):
        frame = x.gi_frame
        return frame and (frame.f_lasti, [(name, id(y)) for name, y in frame.f_locals.items()])
    if not hasattr(type(x), "__next__"):
        return None
    text = repr(x) if type(x) is count else ""  # it says its next number
    return length_hint(x, -1), text, [*map(id, own_attributes(x).values())]


def _put_back(restores: Iterable[_Restore]) -> None:
    for restore in restores:
        restore()


def _differs(restore: _Restore) -> bool:
    """Whether there is something to put back."""
    return restore.func in _DIFFERS and _DIFFERS[restore.func](*restore.args)


def _taken_apart(x: Any) -> tuple[list[_Restore], Iterable[Any]]:
    """Return functions that put back the content of an object, and the objects that it holds."""
    if isinstance(x, np.ndarray):
        return [partial(_put_array, x, x.copy())] if x.flags.writeable and not x.dtype.hasobject else [], ()
    if type(x) is _CACHED:
        return [partial(_forget, x)], gc.get_referents(x)
    kind = kind_of(type(x)) or (OBJECT if type(x).__dictoffset__ else None)  # also of libraries' classes
    if kind is None:
        return [], parts(x)
    if isinstance(x, CellType) and x == CellType():  # of a name that the function is about to bind
        return [], ()
    if isinstance(x, type) and not _is_users(x):
        return [], x.__bases__
    state, form = kind.read(x), kind.form(x)
    bases = x.__bases__ if isinstance(x, type) else ()
    return [partial(_put_content, x, kind, state, form)], (*state.values, *kind.parts(x), *bases)


def _parts(x: Any) -> Iterable[Any]:
    """The objects that one holds."""
    return () if isinstance(x, (np.ndarray, _PLAIN)) else _taken_apart(x)[1]


def _new_item(restore: _Restore) -> Any:
    """Return the first item that an object holds now and did not hold before."""
    if restore.func is not _put_content:
        return MISSING
    x, kind, before, _ = restore.args
    return next((y for key, y in kind.read(x).items.items() if before.items.get(key, MISSING) is not y), MISSING)


def _drop(restore: _Restore, traced: Sequence[Any]) -> None:
    """Put back the items of an object that hold traced values; all of a list, whose items have no names."""
    if restore.func is not _put_content or restore.args[2].keys is None:
        restore()
        return
    x, kind, before, form = restore.args
    gone = set(map(id, traced))
    items = {key: before.items.get(key, MISSING) if id(y) in gone else y for key, y in kind.read(x).items.items()}
    items = {key: y for key, y in items.items() if y is not MISSING}
    kind.restore(x, State([*items], [*items.values()]), form)


def _named(restore: _Restore, part: Any, names: dict[int, str]) -> str:
    """Return what messages call a name, or a part of an object: by its own name, or that of its class."""
    if restore.func is _bind:
        return str(restore.args[1])
    holder = restore.args[0]
    name, kind = names.get(id(holder), type(holder).__name__), kind_of(type(holder))
    items = kind.read(holder).items if kind is not None else {}
    return next((path(holder, key, name) for key, x in items.items() if x is part), name)


def _holds_traced(x: Any, without: dict[int, Any]) -> bool:
    """Whether an object is a traced value or stands for some, or holds such an object.

    Objects that are known, by their ids, to hold none are not looked into; those that are found to hold none become
    known.
    """
    waiting, seen = [x], dict[int, Any]()
    while waiting and len(seen) <= MOST:
        x = waiting.pop()
        if is_gone(x):
            continue
        if is_traced(x) or isinstance(x, _STAND_INS):
            return True
        if id(x) not in without and id(x) not in seen:
            seen[id(x)] = x
            waiting += _parts(x)
    if not waiting:
        without.update(seen)
    return False


def _evaluated(x: Any, values: dict[int, Any]) -> Any:
    """Return the value of a traced one that depends on no argument, also in a tuple; anything else as it is.

    `values` are those that are known, by the ids of what stands for them: names of one array stay names of one.
    """
    if type(x) is tuple:
        found = tuple([_evaluated(y, values) for y in x])
        return x if all(map(is_, found, x)) else found
    if type(x) is Held:  # computed from an array that the trace has exchanged
        return x.view(np.ndarray)
    if type(x) is not Variable or x.has_kin or not is_constant(x):
        return x
    return x.known_memory(values)


def _is_users(cls: type) -> bool:
    """Whether a class is defined in the user's own files: by its methods; one that has none, unless Python has it."""
    codes = [f.__code__ for f in vars(cls).values() if isinstance(f, FunctionType)]
    if not codes:
        return root_of(cls) not in ("", *sys.stdlib_module_names, "builtins", "numpy")
    return any(not internal(code) and not installed(code) for code in codes)


# ---- putting back


def _let_write(x: np.ndarray) -> None:
    if not x.flags.writeable:  # a body of a loop was traced
        x.flags.writeable = True


def _is_written(x: np.ndarray, before: np.ndarray) -> bool:
    return x.tobytes() != before.tobytes()


def _put_array(x: np.ndarray, before: np.ndarray) -> None:
    if _is_written(x, before):
        np.copyto(x, before)


def _is_changed(x: Any, kind: Kind, state: State, form: Any) -> bool:
    now = kind.read(x)
    if state.is_same(now) and is_same_form(form, kind.form(x)):
        return False
    before = state.items
    return not any(_is_exchanged(y, before.get(key)) for key, y in now.items.items())


def _put_content(x: Any, kind: Kind, state: State, form: Any) -> None:
    if _is_changed(x, kind, state, form):
        kind.restore(x, state, form)


def _forget(x: Any) -> None:
    """Empty the cache of a function if it holds traced values."""
    if _holds_traced(x, {}):
        x.cache_clear()


def _bound(holder: Any, name: str) -> Any:
    if isinstance(holder, CellType):
        return MISSING if holder == CellType() else holder.cell_contents
    return holder.get(name, MISSING)


def _bind(holder: Any, name: str, value: Any) -> None:
    if not _is_bound_anew(holder, name, value):
        return
    if isinstance(holder, CellType):
        if value is not MISSING:
            holder.cell_contents = value
    elif value is MISSING:
        holder.pop(name, None)
    else:
        holder[name] = value


def _is_bound_anew(holder: Any, name: str, value: Any) -> bool:
    now = _bound(holder, name)
    return now is not value and not _is_exchanged(now, value)


def _is_exchanged(now: Any, before: Any) -> bool:
    """Whether the trace of another thread has exchanged a value, and will put it back."""
    is_held = type(now) is Held and type(before) is np.ndarray
    return type(now) is Seen or (is_held and np.may_share_memory(now, before))


_DIFFERS: dict[Any, Callable[..., bool]] = {
    _bind: _is_bound_anew, _put_array: _is_written, _put_content: _is_changed,
}  # fmt: skip
