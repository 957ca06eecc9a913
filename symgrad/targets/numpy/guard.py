"""The guard of a compiled program: a generated test of dtypes and sizes that costs a fraction of a microsecond."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.generated import defined
from symgrad.core.shapes import render_shape
from symgrad.core.size_scope import Bound, Sizes
from symgrad.core.sizes import Dim, Size, evaluate, is_symbol, renamed, symbols_of
from symgrad.core.text import double_quoted, literal, with_article
from symgrad.errors import ArgumentError
from symgrad.frontend.arguments import Leaf, Order, misfit
from symgrad.frontend.foreign import plain
from symgrad.targets.numpy.statements import Statement, Suite, Verbatim

FAR = 100  # so many times as large or small, and a program compiled with a size at hand is compiled again


ANOTHER = "Call the Function instead, which compiles for what it is given, or compile again."


class Guard:
    """Checks whether arguments are those that a program was compiled for, converts some, and explains misfits."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        parameters: Sequence[inspect.Parameter],
        structure: tree.TreeSpec,
        sizes: Sizes,
        orders: Sequence[Order] = (),
    ) -> None:
        self.orders = orders
        self.leaves, self.parameters, self.structure, self.pinned = leaves, parameters, structure, dict(sizes.pinned)
        self.bounds = readable_bounds(leaves, sizes)
        self.values = sizes.values or {}  # the sizes at hand in the call that the program was compiled for
        _check_sizes(leaves)
        self.signature = inspect.Signature([p.replace(default=p.empty, annotation=p.empty) for p in parameters])
        self.accepts = self._generate()  # whether the program may run on the arguments of a call as they are

    def _generate(self) -> Callable[..., bool]:
        flat = all(not leaf.below for leaf in self.leaves) and len(self.leaves) == len(self.parameters)
        flat = flat and all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in self.parameters)
        own = _prefix(p.name for p in self.parameters)
        scope: dict[str, Any] = {f"{own}{name}": value for name, value in _GLOBALS.items()}
        scope[f"{own}spec"] = self.structure
        names = [leaf.parameter if flat else f"{own}x{i}" for i, leaf in enumerate(self.leaves)]
        lines = [f"def {own}accepts{self.signature}:"]
        if not flat:
            arguments = ", ".join(p.name for p in self.parameters)
            lines += [
                f"    {own}leaves, {own}structure = {own}flatten(({arguments},))",
                f"    if {own}structure != {own}spec: return False",
                f"    [{', '.join(names)}] = {own}leaves",
            ]
        lines.append(f"    return {' and '.join(self._tests(names, own, scope)) or 'True'}")
        accepts: Callable[..., bool] = defined("\n".join(lines), f"{own}accepts", scope)
        return accepts

    def _tests(self, names: Sequence[str], own: str, scope: dict[str, Any]) -> Iterator[str]:
        """Python conditions, cheapest way first; sizes are bound as they come by."""
        bound: set[str] = set()
        later: list[str] = []  # sizes that are computed from others, which all have to be bound first
        for i, order in enumerate(self.orders):
            scope[f"{own}k{i}"] = order.keys
            yield f"{own}tuple({order.parameter}{order.below}) == {own}k{i}"
        for i, (leaf, x) in enumerate(zip(self.leaves, names, strict=True)):
            if leaf.ignored or leaf.size is not None:
                yield f"{own}type({x}) is {own}int"
                if leaf.size is not None:
                    bound.add(str(leaf.size))
                    yield f"1 <= ({own}n_{leaf.size} := {x})"
                continue
            if leaf.node is None:
                value, kind = f"{own}v{i}", f"{own}t{i}"
                scope[value], scope[kind] = leaf.static, type(leaf.static)
                yield f"{x} is {value}" if leaf.static is None else f"({own}type({x}) is {kind} and {x} == {value})"
                continue
            aval = leaf.node.aval
            scope[f"{own}d{i}"] = aval.dtype
            is_array, dtype = f"{own}type({x}) is {own}ndarray", f"{x}.dtype == {own}d{i}"
            if aval.weak:
                yield f"{own}type({x}) is {own}{aval.dtype.type(0).item().__class__.__name__}"
            elif not aval.shape:
                is_number = f"{own}isinstance({x}, {own}generic)"
                kinds = {True: is_array, False: is_number, None: f"({is_array} or {is_number})"}
                yield f"{kinds[leaf.is_array]} and {x}.shape == () and {dtype}"
            elif not any(isinstance(n, Dim) for n in aval.shape):
                yield f"{is_array} and {x}.shape == {aval.shape} and {dtype}"
            else:
                yield f"{is_array} and {dtype} and {own}len({own}s{i} := {x}.shape) == {len(aval.shape)}"
                yield from _size_tests(own, f"{own}s{i}", aval.shape, bound, later, self.values)
        yield from later
        for name, number in self.pinned.items():
            if name in bound:
                yield f"{own}n_{name} == {number}"
        for at_least in self.bounds:
            yield f"{_with_prefix(own, at_least.symbol)} >= {_with_prefix(own, at_least.least)}"

    def taken_apart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """The arrays among the arguments by their paths, and the sizes that are arguments themselves."""
        args, kwargs = self.converted(args, kwargs)
        values = tree.flatten(tuple(self.signature.bind(*args, **kwargs).arguments.values()))[0]
        pairs = list(zip(self.leaves, values, strict=True))
        arrays = {leaf.path: x for leaf, x in pairs if leaf.node is not None}
        return arrays, {str(leaf.size): x for leaf, x in pairs if leaf.size is not None}

    # ---- when the fast test fails

    def converted(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with Python numbers and foreign arrays made NumPy's; refused if anything else is wrong."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(misfit(self.signature, kwargs, error), f"The program takes {self.signature}.") from None
        leaves, structure = tree.flatten(tuple(bound.arguments.values()))
        if structure != self.structure:
            raise self._misfit(bound, structure)
        for order in self.orders:
            _check_order(order, bound.arguments[order.parameter])
        values, owners = _sizes(self.leaves, leaves)
        leaves = [_converted(leaf, x, values, owners) for leaf, x in zip(self.leaves, leaves, strict=True)]
        for name, value in self.pinned.items():
            if values.get(name, value) != value:
                raise ArgumentError(
                    f"the program was compiled for {name} = {value}, here it is {values[name]}", ANOTHER
                )
        for at_least in self.bounds:
            if not at_least.holds(values):
                raise _too_small(at_least, values)
        bound.arguments.update(zip(bound.arguments, tree.unflatten(structure, leaves), strict=True))
        return bound.args, bound.kwargs

    def _misfit(self, bound: inspect.BoundArguments, structure: tree.TreeSpec) -> ArgumentError:
        """The error for arguments of another structure: the first that has it, and what it was."""
        given = zip(bound.arguments.items(), structure.children(), self.structure.children(), strict=False)
        for (name, value), has, had in given:
            array = next((leaf.node.aval for leaf in self.leaves if leaf.parameter == name and leaf.node), None)
            if has != had and not had.children() and array is not None and isinstance(value, (list, tuple)):
                return ArgumentError(
                    f"{name} is {with_article(type(value).__name__)} of {len(value)}, "
                    f"the program was compiled for {array}",
                    f"Pass np.array({name}).",
                )
            if has != had:
                rendered = f"{name} is {tree.render(has)}, the program was compiled for {tree.render(had)}"
                return ArgumentError(f"{rendered}, where * is an array or a number", ANOTHER)
        return ArgumentError(f"{len(bound.arguments)} arguments were given", f"The program takes {self.signature}.")

    def checks(self, local: Mapping[str, str]) -> list[Statement]:
        """Statements for a module on its own that refuse arguments of other sizes; `local` names its parameters."""
        tests: list[tuple[str, str]] = []
        for leaf in self.leaves:
            place = local[leaf.parameter] + leaf.below
            if leaf.size is not None:
                tests.append((f"{place} < 1", f"{leaf.path} must be at least 1"))
            elif leaf.node is None:
                value = literal(leaf.static)
                if value is not None and not leaf.ignored:
                    tests.append((f"{place} != {double_quoted(value)}", f"{leaf.path} must be {value}"))
            elif leaf.node.aval.shape:
                shape = f"({render_shape(leaf.node.aval.shape)},)"
                tests.append((f"np.shape({place}) != {shape}", f"{leaf.path} must be {leaf.node.aval}"))
        tests += [(f"{name} != {value}", f"{name} must be {value}") for name, value in self.pinned.items()]
        tests += [
            (f"{n} < {least}", f"{n} must be at least {least}") for n, least in (*self._at_least_one(), *self.bounds)
        ]
        facts = [double_quoted(repr(fact)) for _, fact in tests]
        raised = [Verbatim([f"raise ValueError({fact})"]) for fact in facts]
        return [Suite([f"if {test}:"], [error]) for (test, _), error in zip(tests, raised, strict=True)]

    def _at_least_one(self) -> list[Bound]:
        """Return the bounds of all symbols for which nothing stronger is assumed."""
        sizes = {str(n): n for leaf in self.leaves if leaf.node for n in leaf.node.aval.shape if isinstance(n, Dim)}
        plain = {name: Bound(n, 1) for name, n in sizes.items() if n.expr.is_Symbol and name not in self.pinned}
        numbers = {str(bound.symbol) for bound in self.bounds if isinstance(bound.least, int)}
        return [bound for name, bound in plain.items() if name not in numbers]


_GLOBALS = {
    "ndarray": np.ndarray,
    "generic": np.generic,
    "flatten": tree.flatten,
    **{f.__name__: f for f in (type, isinstance, len, int, float, complex, tuple)},
    **{"n_min": min, "n_max": max},  # as sizes are called, of which none has such a name
}


def _prefix(parameters: Iterable[str]) -> str:
    """Return a prefix for the guard's own names that no parameter has."""
    prefix, names = "_", list(parameters)
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def readable_bounds(leaves: Sequence[Leaf], sizes: Sizes) -> list[Bound]:
    """Return the assumptions on sizes of these arguments, without those implied by sizes being nonnegative."""
    if not sizes.assumed:
        return []
    given = [n for leaf in leaves if leaf.node for n in leaf.node.aval.shape if isinstance(n, Dim)]
    given += [leaf.size for leaf in leaves if leaf.size is not None]
    names = {name for n in given for name in symbols_of(n)}
    implied = [bound for n in given if (bound := sizes.bound(n))]
    return [
        bound
        for bound in sizes.assumed
        if names.issuperset(symbols_of(bound.symbol) + symbols_of(bound.least))
        and not any(known.implies(bound) for known in implied)
    ]


def _check_sizes(leaves: Sequence[Leaf]) -> None:
    """Every symbol must be an argument itself, or readable off a shape."""
    sizes = [n for leaf in leaves if leaf.node for n in leaf.node.aval.shape if isinstance(n, Dim)]
    plain = {str(n) for n in sizes if is_symbol(n)} | {str(leaf.size) for leaf in leaves if leaf.size is not None}
    for n in sizes:
        for name in symbols_of(n):
            if name not in plain:
                raise ArgumentError(
                    f"the size {name} occurs only in {n}, and cannot be read from a shape",
                    "Use a letter for the whole size, or give an argument that has it as a size.",
                )


def least_and_most(name: str, values: Mapping[str, int]) -> tuple[int, int | None]:
    """Return the bounds of a size: 1 broadcasts; and what is right for sizes of another order is slow for this one."""
    value = values.get(name)
    return (1, None) if value is None else (max(2, value // FAR), value * FAR)


def _size_tests(
    own: str, shape_name: str, shape: Iterable[Any], bound: set[str], later: list[str], values: Mapping[str, int]
) -> Iterator[str]:
    for j, n in enumerate(shape):
        entry = f"{shape_name}[{j}]"
        if not isinstance(n, Dim):
            yield f"{entry} == {n}"
        elif is_symbol(n) and (name := str(n)) not in bound:
            bound.add(name)
            least, most = least_and_most(name, values)
            yield f"{least} <= ({own}n_{name} := {entry}){'' if most is None else f' <= {most}'}"
        else:
            later.append(f"{entry} == {_with_prefix(own, n)}")


def _with_prefix(own: str, size: Size) -> str:
    """The size in terms of the guard's own variables."""
    if not isinstance(size, Dim):
        return str(size)
    return renamed(size, lambda name: f"{own}n_{name}")


def _sizes(leaves: Sequence[Leaf], values: Sequence[Any]) -> tuple[dict[str, int], dict[str, str]]:
    """Return each symbol's size, by the first array that has it, and the name of that array."""
    found: dict[str, int] = {}
    owners: dict[str, str] = {}
    for leaf, x in zip(leaves, values, strict=True):
        if leaf.size is not None:
            found[str(leaf.size)], owners[str(leaf.size)] = x, leaf.path
        for n, number in zip(leaf.node.aval.shape if leaf.node else (), np.shape(x), strict=False):
            if isinstance(n, Dim) and n.expr.is_Symbol:
                found.setdefault(n.expr.name, number)
                owners.setdefault(n.expr.name, leaf.path)
    return found, owners


def _converted(leaf: Leaf, x: Any, sizes: Mapping[str, int], owners: Mapping[str, str]) -> Any:
    """An argument as the program takes it."""
    if leaf.ignored or leaf.size is not None:
        if not isinstance(x, (int, np.integer)) or isinstance(x, bool) or (leaf.size is not None and x < 1):
            raise ArgumentError(f"{leaf.path} is {x!r}, the program was compiled for an int of at least 1", ANOTHER)
        return int(x)
    if leaf.node is None:
        if type(x) is not type(leaf.static) or (x is not leaf.static and x != leaf.static):
            raise ArgumentError(f"{leaf.path} is {x!r}, the program was compiled for {leaf.static!r}", ANOTHER)
        return x
    aval, x = leaf.node.aval, plain(x, leaf.path)
    number = type(x) in (int, float, complex) and (
        aval.dtype.kind == "c" or (aval.dtype.kind == "f" and type(x) is not complex)
    )
    if aval.weak:
        if not number and not (isinstance(x, np.generic) and x.dtype.kind in "iuf"):
            raise _wrong(leaf, x, f"a Python {'float' if aval.dtype.kind == 'f' else 'complex'}")
        return aval.dtype.type(x).item()
    array = aval.dtype.type(x) if number else x if isinstance(x, np.generic) else np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise _wrong(leaf, x, str(aval), f"Pass {'an array of numbers' if aval.shape else 'a number'}.")
    if array.dtype != aval.dtype or len(array.shape) != len(aval.shape):
        can_convert = hasattr(x, "astype") and np.can_cast(array.dtype, aval.dtype, "same_kind")
        instead = f'Pass {leaf.path}.astype("{aval.dtype}"), or call the Function, which compiles for what it is given.'
        raise _wrong(leaf, array, str(aval), instead if can_convert and array.ndim == len(aval.shape) else ANOTHER)
    misfits = [n for number, n in zip(array.shape, aval.shape, strict=True) if not _fits(number, n, sizes)]
    if misfits:
        raise _wrong(leaf, array, f"{aval}{_because(misfits, leaf, sizes, owners)}")
    return np.asarray(array) if aval.shape else array


def _fits(number: int, n: Size, sizes: Mapping[str, int]) -> bool:
    if not isinstance(n, Dim):
        return number == n
    return all(sizes.get(name, 0) > 0 for name in symbols_of(n)) and number == evaluate(n, sizes)


def _because(misfits: Iterable[Size], leaf: Leaf, sizes: Mapping[str, int], owners: Mapping[str, str]) -> str:
    """Return the numbers of symbols in sizes that do not fit, and the arguments that determine them."""
    for name in dict.fromkeys(name for n in misfits for name in symbols_of(n) if name in sizes):
        if sizes[name] < 1:
            return f", and {name} must be at least 1"
        if owners[name] != leaf.path:
            return f", and {owners[name]} has {name} = {sizes[name]}"
    return ""


def _check_order(order: Order, parameter: Any) -> None:
    """Refuse a dict whose keys stand in another order, which the function may have seen."""
    keys = tuple(eval(f"x{order.below}", {"x": parameter}))
    if keys != order.keys:
        raise ArgumentError(
            f"{order.parameter}{order.below} has its keys in the order {list(keys)}, "
            f"the program was compiled for {list(order.keys)}",
            ANOTHER,
        )


def _too_small(bound: Bound, sizes: Mapping[str, int]) -> ArgumentError:
    least = f" = {evaluate(bound.least, sizes)}" if isinstance(bound.least, Dim) else ""
    return ArgumentError(
        f"{bound.symbol} is {evaluate(bound.symbol, sizes)}, and must be at least {bound.least}{least}",
        ANOTHER,
    )


def _wrong(leaf: Leaf, x: Any, expected: str, instead: str = ANOTHER) -> ArgumentError:
    is_array = hasattr(x, "dtype")
    given = f"{x.dtype}[{render_shape(x.shape)}]" if is_array else with_article(type(x).__name__)
    return ArgumentError(
        f"{leaf.path} is {'None' if x is None else given}, the program was compiled for {expected}", instead
    )
