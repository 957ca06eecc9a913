"""Reads of code, as its bytecode tells: globals, free variables, and attributes by their names."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from itertools import takewhile
from types import CodeType
from typing import Any, NamedTuple
from weakref import finalize

from symgrad.core.text import is_name

_MUTATORS = frozenset(("append", "extend", "insert", "add", "update", "clear", "appendleft", "setdefault", "write"))
_BY_TEXT = frozenset(("getattr", "hasattr", "attrgetter", "methodcaller"))  # which read attributes of given names


class Reads(NamedTuple):
    """The names that code reads: globals, free variables, attributes.

    `changed` are the names of what it changes, `read` those of what it does more with; `whole` are the names of what
    it reads more of than items under keys, and `keys` are these. `maybe` are the names of attributes that it may not
    find, and `catches` those of functions that catch exceptions: any attribute, key or global may be missing there.
    `inside` are the names of objects all of whose attributes it reads: "" for any object, ".method" for those whose
    classes have this method.
    """

    globals: frozenset[str]
    free: frozenset[str]
    attributes: frozenset[str]
    changed: frozenset[str]
    read: frozenset[str]
    whole: frozenset[str]
    keys: frozenset[str]
    maybe: frozenset[str]
    catches: frozenset[str]
    inside: frozenset[str]


_known: dict[int, Reads] = {}  # by the id of a code that is alive: to hash a code takes long


def reads_of(code: CodeType) -> Reads:
    """Return the names that a function reads, and those of the functions that are defined inside of it."""
    key = id(code)
    if key not in _known:
        finalize(code, _known.pop, key, None)  # first: an entry that outlives its code would be that of another
        _known[key] = _reads_of(code)
    return _known[key]


_KINDS = {
    "LOAD_GLOBAL": "globals", "LOAD_NAME": "globals", "LOAD_DEREF": "free", "LOAD_CLASSDEREF": "free",
    "LOAD_FROM_DICT_OR_DEREF": "free", "LOAD_ATTR": "attributes", "LOAD_METHOD": "attributes",
    "LOAD_SUPER_ATTR": "attributes",
}  # fmt: skip


def _reads_of(code: CodeType) -> Reads:
    found: dict[str, set[str]] = {name: set() for name in Reads._fields}
    steps = list(dis.get_instructions(code))
    for i, step in enumerate(steps):
        kind = _KINDS.get(step.opname)
        if step.opname == "PUSH_EXC_INFO" and steps[i + 1].opname != "WITH_EXCEPT_START":
            found["catches"].add(code.co_name)
        if step.opname == "MATCH_CLASS":  # of attributes that the pattern or the class names
            _note_attributes(found, names_in(code.co_consts))
            found["inside"].add(".__match_args__")
        if kind is None:
            continue
        found[kind].add(step.argval)
        if _is_only_written(steps, i):
            found["changed"].add(step.argval)
        else:
            found["read"].add(step.argval)
            _note_use(found, code, steps, i)
    inner = [reads_of(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    if not _BY_TEXT.isdisjoint(found["read"].union(*(x.read for x in inner))):
        _note_attributes(found, names_in(code.co_consts))
    own = Reads(*map(frozenset, found.values()))
    merged = Reads(*(frozenset().union(*names) for names in zip(own, *inner, strict=True)))
    return merged._replace(free=merged.free & {*code.co_freevars})


def _note_use(found: dict[str, set[str]], code: CodeType, steps: Sequence[dis.Instruction], i: int) -> None:
    """Note what code does with a value that it loads."""
    name, key = steps[i].argval, _key_behind(steps, i)
    found["whole" if key is None else "keys"].add(name if key is None else key)
    if name == "suppress":
        found["catches"].add(code.co_name)
    elif name == "__dict__" and key is not None:
        _note_attributes(found, [key])  # x.__dict__["key"] is x.key
    elif name == "__dict__" and i:
        found["inside"].add(_object_in(steps[i - 1 : i], code))
    elif name == "vars" and _KINDS[steps[i].opname] == "globals":
        found["inside"].add(_object_in(list(takewhile(_is_load, steps[i + 1 :])), code))
    elif name in ("asdict", "astuple"):  # also of what is in it
        found["inside"].add(".__dataclass_fields__")


def _note_attributes(found: dict[str, set[str]], names: Iterable[str]) -> None:
    """Note attributes that are read, all of them, and may be missing."""
    for kind in ("attributes", "read", "whole", "maybe"):
        found[kind].update(names)


def names_in(constants: Iterable[Any]) -> list[str]:
    """Return the names of attributes in texts among constants, in tuples among them, and in functions inside."""
    found = []
    for x in constants:
        if isinstance(x, str):
            found += [part for part in x.split(".") if is_name(part)]
        elif isinstance(x, (tuple, frozenset, CodeType)):
            found += names_in(x.co_consts if isinstance(x, CodeType) else x)
    return found


def _is_load(step: dis.Instruction) -> bool:
    return step.opname.startswith("LOAD_")


def _object_in(steps: Sequence[dis.Instruction], code: CodeType) -> str:
    """Return the name in `inside` of an object that is loaded."""
    if not steps or not _is_load(steps[-1]):
        return ""
    if _KINDS.get(steps[-1].opname):
        return str(steps[-1].argval)
    is_method = code.co_varnames[:1] == ("self",) and code.co_qualname.rpartition(".")[0][-1:] not in ("", ">")
    return f".{code.co_name}" if is_method and steps[-1].argval == "self" else ""


def _key_behind(steps: Sequence[dis.Instruction], i: int) -> str | None:
    """Return the key of ``x["key"]``; None of any other use of ``x``."""
    first, second = (*steps[i + 1 : i + 3], steps[-1], steps[-1])[:2]
    item = second.opname == "BINARY_SUBSCR" or (second.opname == "BINARY_OP" and second.argrepr == "[]")
    return first.argval if item and first.opname == "LOAD_CONST" and isinstance(first.argval, str) else None


def _is_only_written(steps: Sequence[dis.Instruction], i: int) -> bool:
    """Whether a value is loaded to be changed, and for nothing else: ``x.append(y)``, ``x[k] = y``, ``x += y``."""
    name, (first, second, third) = steps[i].argval, [s.opname for s in (*steps[i + 1 : i + 4], *[steps[-1]] * 3)[:3]]
    if first in ("LOAD_ATTR", "LOAD_METHOD"):
        return steps[i + 1].argval in _MUTATORS
    if not first.startswith("LOAD_"):
        return False
    if second == "STORE_SUBSCR" or (second == third == "COPY"):
        return True
    bound = steps[i + 3 : i + 5]
    adds = second == "BINARY_OP" and steps[i + 2].argrepr.endswith("=")
    return adds and any(s.opname.startswith("STORE_") and s.argval == name for s in bound)
