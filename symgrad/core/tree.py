"""Pytrees: nested dicts, lists, tuples, namedtuples, dataclasses and registered classes of arrays."""

from __future__ import annotations

import dataclasses
import re
import threading
import types
import typing
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import optree

from symgrad.core.text import Unquoted, is_name
from symgrad.errors import ArgumentError

NAMESPACE = "symgrad"
_dataclasses: set[type] = set()
_registering = threading.Lock()

TreeSpec = optree.PyTreeSpec


def flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure; None is a leaf."""
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
    return flatten(tree) if _register_dataclasses(leaves) else (leaves, spec)


def flatten_with_paths(tree: Any) -> tuple[list[optree.PyTreeAccessor], list[Any], TreeSpec]:
    """Flatten a tree and return the accessors of its leaves too; ``path.codify("args")`` is the expression for one."""
    flatten(tree)  # registers the dataclasses in it
    return optree.tree_flatten_with_accessor(tree, none_is_leaf=True, namespace=NAMESPACE)


def steps(path: optree.PyTreeAccessor) -> list[Any]:
    """The keys, indices and attributes that lead to a leaf."""
    return [entry.field if isinstance(entry, optree.NamedTupleEntry) else entry.entry for entry in path]


def dotted(path: optree.PyTreeAccessor) -> str:
    """A path as text, ``layers.0.W``."""
    return ".".join(map(str, steps(path)))


def is_declared_whole(path: optree.PyTreeAccessor) -> bool:
    """Whether a leaf is a field that its class declares to be an int: a count, and no parameter to be fitted."""
    if not len(path) or not isinstance(path[-1], (optree.DataclassEntry, optree.NamedTupleEntry)):
        return False
    cls, name = path[-1].type, path[-1].field
    with suppress(Exception):  # annotations may name what is not there
        return _is_whole(typing.get_type_hints(cls).get(name))
    return getattr(cls, "__annotations__", {}).get(name) in (int, "int")


def _is_whole(kind: Any) -> bool:
    """Whether a type is int, or int or None."""
    kinds = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    return int in kinds and {*kinds} <= {int, bool, type(None)}


def orders(tree: Any) -> tuple[Any, ...]:
    """The keys of the dicts in a tree, in the order that they have."""
    if isinstance(tree, (np.ndarray, np.generic, float, int, str, type(None))) or optree.is_namedtuple(tree):
        return orders(tuple(tree)) if isinstance(tree, tuple) else ()
    if optree.tree_is_leaf(tree, none_is_leaf=True, namespace=NAMESPACE):
        return ()
    children = optree.tree_flatten_one_level(tree, none_is_leaf=True, namespace=NAMESPACE)[0]
    below = tuple(found for child in children if (found := orders(child)))
    return (tuple(tree), *below) if type(tree) is dict else below


def containers(tree: Any) -> dict[int, Any]:
    """Return the lists, dicts and instances of a tree, by id: those that `unflatten` makes anew, without tuples."""
    found: dict[int, Any] = {}
    waiting = [tree]
    while waiting:
        x = waiting.pop()
        if id(x) in found or isinstance(x, np.ndarray) or is_leaf(x):
            continue
        if not isinstance(x, tuple):
            found[id(x)] = x
        waiting += optree.tree_flatten_one_level(x, none_is_leaf=True, namespace=NAMESPACE)[0]
    return found


def is_leaf(x: Any) -> bool:
    """Whether it has no parts."""
    leaves, _ = flatten(x)
    return len(leaves) == 1 and leaves[0] is x


def unflatten(spec: TreeSpec, leaves: Iterable[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return optree.tree_unflatten(spec, leaves)


def render(spec: TreeSpec) -> str:
    """The structure as Python would write it, with ``*`` for leaves."""
    return re.sub(r"^PyTreeSpec\(|, NoneIsLeaf|, namespace='\w*'|\)$", "", str(spec))


def written(spec: TreeSpec, leaves: Iterable[str]) -> str:
    """The tree as Python writes it, with a text for each leaf."""
    return repr(unflatten(spec, map(Unquoted, leaves)))


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    """For each leaf of a tree the leaf of a prefix of it at its place or above; a ValueError if it is no prefix."""
    flatten(prefix), flatten(tree)  # registers the dataclasses in them
    found: list[Any] = optree.broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=NAMESPACE)
    return found


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree with `function` applied to each leaf; `rest` are trees of the same structure."""
    leaves, spec = flatten(tree)
    others = []
    for other in rest:
        more, same = flatten(other)
        if same != spec:
            raise ValueError(f"the trees differ: {spec} and {same}")
        others.append(more)
    return unflatten(spec, map(function, leaves, *others))


def register(cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]) -> type:
    """Make instances of a class trees.

    Parameters
    ----------
    cls : type
    flatten : callable
        ``flatten(instance)`` gives ``(children, metadata)``; metadata is hashable. Where the children are no attributes
        of the instance, ``(children, metadata, names)``, by which `getattr` finds them.
    unflatten : callable
        ``unflatten(metadata, children)`` gives the instance.

    Returns
    -------
    type
        `cls`

    Examples
    --------
    >>> class Line:
    ...     def __init__(self, slope, offset):
    ...         self.slope, self.offset = slope, offset
    >>> _ = register(Line, lambda line: ((line.slope, line.offset), None), lambda _, children: Line(*children))
    >>> tree_map(lambda x: 2 * x, Line(1.0, 3.0)).offset
    6.0
    """
    names: dict[tuple[Any, int], tuple[str, ...]] = {}

    def take_apart(x: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
        children, metadata, *given = flatten(x)
        children = tuple(children)
        key = metadata, len(children)
        if key not in names:
            found = tuple(given[0]) if given else _attributes(cls, unflatten, metadata, len(children))
            names[key] = _named(cls, found)
        return children, metadata, names[key]

    optree.register_pytree_node(cls, take_apart, unflatten, namespace=NAMESPACE, path_entry_type=optree.GetAttrEntry)
    return cls


def _attributes(cls: type, unflatten: Callable[[Any, Any], Any], metadata: Any, count: int) -> tuple[str, ...]:
    """Return the attributes that hold the children: generated code reads them from there."""
    children = tuple(object() for _ in range(count))
    twin = unflatten(metadata, children)
    slots = [name for base in cls.__mro__ for name in getattr(base, "__slots__", ())]
    held = {id(getattr(twin, name, None)): name for name in (*getattr(twin, "__dict__", ()), *slots)}
    for i, child in enumerate(children):
        if id(child) not in held:
            raise ArgumentError(
                f"child {i} of {cls.__name__} is not one of its attributes",
                "Let flatten give (children, metadata, names), by which getattr finds the children.",
            )
    return tuple(held[id(child)] for child in children)


def _named(cls: type, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of attributes, if generated code can read them."""
    for name in names:
        if not is_name(name):
            raise ArgumentError(
                f"{name!r}, an attribute of {cls.__name__}, is not a Python name", "Rename the attribute."
            )
    return names


def _register_dataclasses(leaves: list[Any]) -> bool:
    """Register the classes of leaves that are dataclasses; whether there were any."""
    found = {kind for kind in set(map(type, leaves)) if dataclasses.is_dataclass(kind)}
    with _registering:
        for cls in found - _dataclasses:
            _register_dataclass(cls)
    return bool(found)


def _register_dataclass(cls: type) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))

    def take_apart(x: Any) -> tuple[tuple[Any, ...], tuple[str, ...], tuple[str, ...]]:
        return tuple(getattr(x, name) for name in names), names, names

    def put_together(_: Any, children: Iterable[Any]) -> Any:
        new: Any = object.__new__(cls)  # __init__ may check values, which Variables do not have
        for name, child in zip(names, children, strict=True):
            object.__setattr__(new, name, child)
        return new

    with suppress(ValueError):  # an interrupt came before that was noted
        optree.register_pytree_node(
            cls, take_apart, put_together, namespace=NAMESPACE, path_entry_type=optree.DataclassEntry
        )
    _dataclasses.add(cls)
