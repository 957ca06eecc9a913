"""The guard of a compiled program: a generated test of dtypes and sizes that costs a fraction of a microsecond."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad import tree
from symgrad.dims import Bound, Dim, Size, Sizes, evaluate, symbols_of
from symgrad.errors import ArgumentError
from symgrad.shapes import render_shape
from symgrad.trace import Leaf

FAR = 100  # so many times as large or small, and a program compiled with a size at hand is compiled again


class Guard:
    """Tells whether arguments are what a program was compiled for, converts what can be, and says what is wrong.

    Attributes
    ----------
    accepts : callable
        Takes the arguments of a call; True where the program may run on them as they are.
    """

    def __init__(
        self, leaves: Sequence[Leaf], parameters: Sequence[inspect.Parameter], structure: tree.TreeSpec, sizes: Sizes
    ) -> None:
        self.leaves, self.parameters, self.structure, self.pinned = leaves, parameters, structure, dict(sizes.pinned)
        self.bounds = readable_bounds(leaves, sizes)
        self._values = sizes.values or {}
        _check_sizes(leaves)
        self.signature = inspect.Signature([p.replace(default=p.empty, annotation=p.empty) for p in parameters])
        self.accepts = self._generate()

    def _generate(self) -> Callable[..., bool]:
        flat = all(leaf.path.isidentifier() for leaf in self.leaves) and len(self.leaves) == len(self.parameters)
        flat = flat and all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in self.parameters)
        scope: dict[str, Any] = {
            "ndarray": np.ndarray,
            "generic": np.generic,
            "flatten": tree.flatten,
            "spec": self.structure,
        }
        names = [leaf.path if flat else f"x{i}" for i, leaf in enumerate(self.leaves)]
        tests = list(self._tests(names, scope))
        if flat:
            lines = [f"def accepts{self.signature}:", f"    return {' and '.join(tests) or 'True'}"]
        else:
            arguments = ", ".join(p.name for p in self.parameters)
            lines = [
                f"def accepts{self.signature}:",
                f"    leaves, structure = flatten(({arguments},))",
                "    if structure != spec: return False",
                f"    [{', '.join(names)}] = leaves",
                f"    return {' and '.join(tests) or 'True'}",
            ]
        exec("\n".join(lines), scope)
        return scope["accepts"]

    def _tests(self, names: Sequence[str], scope: dict[str, Any]) -> Iterator[str]:
        """Python conditions, cheapest way first; sizes are bound as they come by."""
        bound: set[str] = set()
        later: list[str] = []  # sizes that are computed from others, which all have to be bound first
        for i, (leaf, x) in enumerate(zip(self.leaves, names, strict=True)):
            if leaf.node is None:
                scope[f"v{i}"], scope[f"t{i}"] = leaf.static, type(leaf.static)
                yield f"{x} is v{i}" if leaf.static is None else f"(type({x}) is t{i} and {x} == v{i})"
                continue
            aval = leaf.node.aval
            scope[f"d{i}"] = aval.dtype
            if aval.weak:
                yield f"type({x}) is {aval.dtype.type(0).item().__class__.__name__}"
            elif not aval.shape:
                yield f"(type({x}) is ndarray or isinstance({x}, generic)) and {x}.shape == () and {x}.dtype == d{i}"
            elif not any(isinstance(n, Dim) for n in aval.shape):
                yield f"type({x}) is ndarray and {x}.shape == {aval.shape} and {x}.dtype == d{i}"
            else:
                yield f"type({x}) is ndarray and {x}.dtype == d{i} and len(s{i} := {x}.shape) == {len(aval.shape)}"
                yield from _size_tests(f"s{i}", aval.shape, bound, later, self._values)
        yield from later
        for name, value in self.pinned.items():
            if name in bound:
                yield f"n_{name} == {value}"
        for at_least in self.bounds:
            yield _with_prefix(at_least)

    # ---- when the fast test fails

    def converted(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with Python numbers and foreign arrays made NumPy's where that is all that was wrong.

        Raises
        ------
        ArgumentError
            Naming the argument, what it is, and what the program was compiled for.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{error}; the program takes {self.signature}") from None
        leaves, structure = tree.flatten(tuple(bound.arguments.values()))
        if structure != self.structure:
            raise ArgumentError(
                f"the arguments have the structure {structure}, the program was compiled for {self.structure}"
            )
        values, owners = _sizes(self.leaves, leaves)
        leaves = [_converted(leaf, x, values, owners) for leaf, x in zip(self.leaves, leaves, strict=True)]
        for name, value in self.pinned.items():
            if values.get(name, value) != value:
                raise ArgumentError(f"the program was compiled for {name} = {value}, here it is {values[name]}")
        for at_least in self.bounds:
            if not at_least.holds(values):
                raise _too_small(at_least, values)
        bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
        return bound.args, bound.kwargs

    def checks(self) -> list[str]:
        """Statements for a module on its own that refuse arguments of other sizes."""
        tests: list[tuple[str, str]] = []
        for leaf in self.leaves:
            if leaf.node is None:
                if isinstance(leaf.static, (bool, int, float, str, type(None))):
                    tests.append((f"{leaf.path} != {leaf.static!r}", f"{leaf.path} must be {leaf.static!r}"))
            elif leaf.node.aval.shape:
                shape = f"({render_shape(leaf.node.aval.shape)},)"
                tests.append((f"np.shape({leaf.path}) != {shape}", f"{leaf.path} must be {leaf.node.aval}"))
        tests += [(f"{name} != {value}", f"{name} must be {value}") for name, value in self.pinned.items()]
        tests += [
            (f"{n} < {least}", f"{n} must be at least {least}") for n, least in (*self._at_least_one(), *self.bounds)
        ]
        return [f'if {test}:\n        raise ValueError("{fact}")' for test, fact in tests]

    def _at_least_one(self) -> list[Bound]:
        """What holds of every symbol, where nothing stronger is assumed."""
        sizes = {str(n): n for leaf in self.leaves if leaf.node for n in leaf.node.aval.shape if isinstance(n, Dim)}
        plain = {name: Bound(n, 1) for name, n in sizes.items() if n.expr.is_Symbol and name not in self.pinned}
        numbers = {str(bound.symbol) for bound in self.bounds if isinstance(bound.least, int)}
        return [bound for name, bound in plain.items() if name not in numbers]


def readable_bounds(leaves: Sequence[Leaf], sizes: Sizes) -> list[Bound]:
    """What is assumed of the sizes of these arguments, but for what is so because no size is negative."""
    given = [n for leaf in leaves if leaf.node for n in leaf.node.aval.shape if isinstance(n, Dim)]
    names = {name for n in given for name in symbols_of(n)}
    implied = [bound for n in given if (bound := sizes.bound(n))]
    return [
        bound
        for bound in sizes.assumed
        if names.issuperset(symbols_of(bound.symbol) + symbols_of(bound.least))
        and not any(known.implies(bound) for known in implied)
    ]


def _check_sizes(leaves: Sequence[Leaf]) -> None:
    """Every symbol must be readable off a shape."""
    sizes = [n for leaf in leaves if leaf.node for n in leaf.node.aval.shape if isinstance(n, Dim)]
    plain = {n.expr.name for n in sizes if n.expr.is_Symbol}
    for n in sizes:
        for name in symbols_of(n):
            if name not in plain:
                raise ArgumentError(
                    f"the size {name} stands only inside of {n}: it cannot be read off a shape",
                    "Use a letter for the whole size, or give an argument that has it as a size.",
                )


def _size_tests(
    shape_name: str, shape: Iterable[Any], bound: set[str], later: list[str], values: Mapping[str, int]
) -> Iterator[str]:
    for j, n in enumerate(shape):
        entry = f"{shape_name}[{j}]"
        if not isinstance(n, Dim):
            yield f"{entry} == {n}"
        elif n.expr.is_Symbol and n.expr.name not in bound:
            bound.add(n.expr.name)
            value = values.get(n.expr.name)
            # a size of 1 broadcasts; and what is right for sizes of another order is slow for this one
            least, most = (1, "") if value is None else (max(2, value // FAR), f" <= {value * FAR}")
            yield f"{least} <= (n_{n.expr.name} := {entry}){most}"
        else:
            later.append(f"{entry} == {_with_prefix(n)}")


def _with_prefix(size: Dim | Bound) -> str:
    """The size, or its bound, in terms of the guard's own variables."""
    return re.sub(r"\b(?!min\b|max\b)([A-Za-z_]\w*)", r"n_\1", str(size))


def _sizes(leaves: Sequence[Leaf], values: Sequence[Any]) -> tuple[dict[str, int], dict[str, str]]:
    """What each symbol is by the first array that has it, and what that array is called."""
    found: dict[str, int] = {}
    owners: dict[str, str] = {}
    for leaf, x in zip(leaves, values, strict=True):
        for n, number in zip(leaf.node.aval.shape if leaf.node else (), np.shape(x), strict=False):
            if isinstance(n, Dim) and n.expr.is_Symbol:
                found.setdefault(n.expr.name, number)
                owners.setdefault(n.expr.name, leaf.path)
    return found, owners


def _converted(leaf: Leaf, x: Any, sizes: Mapping[str, int], owners: Mapping[str, str]) -> Any:
    """An argument as the program takes it."""
    if leaf.node is None:
        if type(x) is not type(leaf.static) or (x is not leaf.static and x != leaf.static):
            raise ArgumentError(f"{leaf.path} is {x!r}, the program was compiled for {leaf.static!r}")
        return x
    aval = leaf.node.aval
    number = type(x) in (int, float, complex) and (
        aval.dtype.kind == "c" or (aval.dtype.kind == "f" and type(x) is not complex)
    )
    if aval.weak:
        if not number and not (isinstance(x, np.generic) and x.dtype.kind in "iuf"):
            raise _wrong(leaf, x, f"a Python {'float' if aval.dtype.kind == 'f' else 'complex'}")
        return aval.dtype.type(x).item()
    array = aval.dtype.type(x) if number else x if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x)
    if array.dtype != aval.dtype or len(array.shape) != len(aval.shape):
        raise _wrong(leaf, array, str(aval))
    misfits = [n for number, n in zip(array.shape, aval.shape, strict=True) if not _fits(number, n, sizes)]
    if misfits:
        raise _wrong(leaf, array, f"{aval}{_because(misfits, leaf, sizes, owners)}")
    return np.asarray(array) if aval.shape else array


def _fits(number: int, n: Size, sizes: Mapping[str, int]) -> bool:
    if not isinstance(n, Dim):
        return number == n
    return all(sizes.get(name, 0) > 0 for name in symbols_of(n)) and number == evaluate(n, sizes)


def _because(misfits: Iterable[Size], leaf: Leaf, sizes: Mapping[str, int], owners: Mapping[str, str]) -> str:
    """What the symbols of sizes that do not fit are, and which argument says so."""
    for name in dict.fromkeys(name for n in misfits for name in symbols_of(n) if name in sizes):
        if sizes[name] < 1:
            return f", and {name} must be at least 1"
        if owners[name] != leaf.path:
            return f", and {owners[name]} has {name} = {sizes[name]}"
    return ""


def _too_small(bound: Bound, sizes: Mapping[str, int]) -> ArgumentError:
    least = f" = {evaluate(bound.least, sizes)}" if isinstance(bound.least, Dim) else ""
    return ArgumentError(
        f"{bound.symbol} is {evaluate(bound.symbol, sizes)}, and must be at least {bound.least}{least}",
        "Call the Function instead, which compiles for what it is given, or compile again.",
    )


def _wrong(leaf: Leaf, x: Any, expected: str) -> ArgumentError:
    is_array = hasattr(x, "dtype")
    given = f"{x.dtype}[{render_shape(x.shape)}]" if is_array else f"a {type(x).__name__}"
    return ArgumentError(
        f"{leaf.path} is {given}, the program was compiled for {expected}",
        "Call the Function instead, which compiles for what it is given, or compile again.",
    )
