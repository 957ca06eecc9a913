"""What to differentiate by, and a run of the user's function with that marked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Graph, Node, tracing
from symgrad.core.options import current
from symgrad.core.provenance import Where
from symgrad.core.shapes import product, render_tuple, same_shape
from symgrad.core.sizes import Dim
from symgrad.core.text import identifier
from symgrad.derivatives.jacobian import jacobian_fwd, jacobian_rev
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError, DTypeError, NotDifferentiableError, ShapeError
from symgrad.frontend.foreign import plain
from symgrad.frontend.trace import bind, definition, dotted_paths, of_graph, signature
from symgrad.frontend.variable import Variable, lift
from symgrad.ops import marks
from symgrad.ops.masks import Selected
from symgrad.pipeline import canonicalised

MOST_LISTED = 8  # names in a message


class Choice:
    """``argnums=`` or ``wrt=`` of a transform."""

    def __init__(
        self, argnums: int | Sequence[int], wrt: str | Sequence[str] | None = None, disconnected: str = "zero"
    ) -> None:
        if disconnected not in ("zero", "raise"):
            raise ArgumentError(f"disconnected={disconnected!r}", 'It is "zero" or "raise".')
        given = argnums if wrt is None else wrt
        self.single = isinstance(given, (int, str))
        self.items: tuple[Any, ...] = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        self.disconnected = disconnected
        kind = int if wrt is None else str
        if not self.items or not all(isinstance(item, kind) and not isinstance(item, bool) for item in self.items):
            if wrt is None:
                raise ArgumentError(f"argnums={argnums!r}", "It is a number or a tuple of numbers; names go into wrt=.")
            raise ArgumentError(f"wrt={wrt!r}", "It is a name or a list of names; numbers go into argnums=.")

    def described(self, f: Callable[..., Any]) -> str:
        """For the docstring of the generated module."""
        names = list(signature(f).parameters)
        known = range(-len(names), len(names))
        return ", ".join(i if isinstance(i, str) else names[i] if i in known else f"argument {i}" for i in self.items)

    def dotted(self, f: Callable[..., Any], bound: inspect.BoundArguments) -> list[str]:
        """The chosen arguments or parts of them as dotted paths; or names of values inside."""
        return [_parameter(f, i, bound) if isinstance(i, int) else i for i in self.items]


def _parameter(f: Callable[..., Any], i: int, bound: inspect.BoundArguments) -> str:
    count = len(bound.args)
    if not -count <= i < count:
        raise ArgumentError(
            f"argnums={i}, but {getattr(f, '__name__', 'the function')} was called with {_counted(count)}",
            "For an argument passed by keyword give its name: wrt=.",
        )
    places = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            places += [f"{name}.{j}" for j in range(len(bound.arguments.get(name, ())))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            places.append(name)
    return places[i % count]


@contextmanager
def provenance(graph: Graph, where: Where) -> Iterator[None]:
    """What is made inside comes from there, rather than from the line that is running."""
    before, graph.provenance = graph.provenance, where
    try:
        yield
    finally:
        graph.provenance = before


class Run:
    """One run of the user's function on Variables, appended to the graph that is being traced.

    Attributes
    ----------
    graph : Graph
    out, aux : tree
        What the function returned.
    chosen : list of Variable
        The leaves to differentiate by.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        choice: Choice,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        has_aux: bool = False,
    ) -> None:
        graph = tracing.get()
        assert graph is not None, "transforms run inside a trace"
        self.graph, self._f, self._choice = graph, f, choice
        self._start, self._where = len(graph.nodes), definition(f)
        bound = bind(f, args, kwargs)
        wanted = choice.dotted(f, bound)
        paths, leaves, structure = dotted_paths(bound.arguments)
        groups = [_below(path, paths) for path in wanted]
        self._arguments = _with_parents(paths)
        marks = {
            i: self._mark(leaves[i], paths[i]) for i in sorted({i for g in groups for i in g}) if leaves[i] is not None
        }
        parts = [part_at(bound.arguments, path) if group else None for path, group in zip(wanted, groups, strict=True)]
        marked = tree.unflatten(structure, [marks.get(i, x) for i, x in enumerate(leaves)])
        bound.arguments.update(zip(bound.arguments, marked, strict=True))
        chosen = [Variable(graph, x.node) for x in marks.values()]  # as they are now, whatever is written later
        result = of_graph(graph, f(*bound.args, **bound.kwargs))
        self.aux: Any
        out, self.aux = _with_aux(result) if has_aux else (result, None)
        inner = [None if group else self._inner(path) for path, group in zip(wanted, groups, strict=True)]
        self.chosen = [*chosen, *(x for x in inner if x is not None)]
        self.out = self.prepared(out)
        self._results = list(zip(groups, parts, inner, strict=True))
        self._keys: list[Any] = [*marks, *(id(x) for x in inner if x is not None)]
        self._paths = [
            *(paths[i] for i in marks),
            *(path for path, x in zip(wanted, inner, strict=True) if x is not None),
        ]

    def _mark(self, x: Any, path: str) -> Variable:
        """A leaf under an identity of its own, apart from other uses of the same value."""
        x = plain(x, path)
        if not isinstance(x, Variable) and isinstance(x, (np.ndarray, np.generic, float)):
            x = Variable(self.graph, self.graph.constant(x))
        if not isinstance(x, Variable):
            raise DTypeError(f"no derivative with respect to {path}, which is {x!r}", _float_of(x))
        check_floating(x, f"no derivative with respect to {path}")
        lift(self.graph, x)  # refuses one of another graph
        return marks.marked(x, f"{path} is an argument: writing into it would change the caller's array")

    def _inner(self, name: str) -> Variable:
        """The value that has this name inside the function."""
        named = [node for node in self.graph.names if node.op is marks.ALIAS and node.id >= self._start]
        found = [node for node in named if self.graph.names[node] == name]
        if len(found) == 1:
            return Variable(self.graph, found[0])
        naming = f'Name one: {identifier(name)} = symgrad.name(..., "{identifier(name)}").'
        if found:
            raise ArgumentError(f"wrt={name!r}: {len(found)} values of the function have that name", naming)
        head = name.partition(".")[0]
        if head in signature(self._f).parameters and head not in self._arguments:
            raise ArgumentError(
                f"wrt={name!r}: there is no such argument in this call", "Pass it: a default is part of the program."
            )
        known = [*self._arguments, *(hint for node in named if isinstance(hint := self.graph.names[node], str))]
        raise ArgumentError(
            f"wrt={name!r}: no argument and no value of the function has that name", f"{_nearest(name, known)} {naming}"
        )

    def prepared(self, out: Any) -> Any:
        """A tree of results, and what was chosen with it, in the form to differentiate."""
        options = current()
        leaves, structure = tree.flatten(out)
        leaves = [
            Variable(self.graph, x.node) if isinstance(x, Variable) else self._constant(x) if _is_floating(x) else x
            for x in leaves
        ]
        out = tree.unflatten(structure, leaves)
        floating = [x.node for x in leaves if isinstance(x, Variable) and x.aval.differentiable]
        if not options.optimize or not floating:
            return out
        graph = self.graph
        better, chosen = canonicalised(graph, floating, [x.node for x in self.chosen], options.numerics, self._start)
        self.chosen = [Variable(graph, node) for node in chosen]
        image = dict(zip(floating, better, strict=True))
        return tree.unflatten(
            structure,
            [Variable(graph, image[x.node]) if isinstance(x, Variable) and x.node in image else x for x in leaves],
        )

    def _constant(self, x: Any) -> Variable:
        with provenance(self.graph, self._where):
            return Variable(self.graph, self.graph.constant(x))

    # ---- derivatives

    def value(self, what: str) -> Variable:
        """The result, if it is a floating scalar."""
        out = self._constant(self.out) if _is_number(self.out) else self.out
        returned = f"{what} needs a function with a scalar result, {self._name} returned "
        if isinstance(out, Selected):
            raise ShapeError(f"{returned}{described(out)}", _INSTEAD_OF_MASK, self._where)
        if not isinstance(out, Variable):
            raise ShapeError(
                f"{returned}{described(out)}",
                "Return one number; whatever else is wanted goes into aux: return value, aux and has_aux=True.",
                self._where,
            )
        if out.shape:
            other = "jacobian(jacobian(f))" if what == "hessian" else "jacobian"
            raise ShapeError(f"{returned}{out.aval}", f"Reduce it, as np.sum does, or use {other}.", self._where)
        check_floating(out, f"{what}: no derivative of the result of {self._name}", self._where)
        return out

    @property
    def _name(self) -> str:
        return str(getattr(self._f, "__name__", "the function"))

    def sum_of_numbers(self, what: str) -> Variable:
        """The sum of a result that has the shape of what was chosen."""
        out = self._constant(self.out) if _is_number(self.out) else self.out
        if not isinstance(out, Variable):
            raise ShapeError(
                f"{what} needs a function with one array as its result, {self._name} returned {described(out)}",
                _INSTEAD_OF_MASK if isinstance(out, Selected) else "Return one array of the shape of the argument.",
                self._where,
            )
        for x, path in zip(self.chosen, self._paths, strict=True):
            if not same_shape(out.shape, x.shape):
                raise ShapeError(
                    f"{what} needs an elementwise function, {self._name} returned {out.aval} for {path}, which is "
                    f"{x.aval}",
                    "For a function that is not elementwise use jacobian.",
                    self._where,
                )
        check_floating(out, f"{what}: no derivative of the result of {self._name}", self._where)
        with provenance(self.graph, self._where):
            return np.sum(out)

    def gradients(self, value: Variable) -> Any:
        """Gradients of a scalar, in trees like what was chosen."""
        return self.pullback([value.node], [self._constant(value.dtype.type(1)).node], named=True)

    def pullback(self, outputs: Sequence[Node], cotangents: Sequence[Node], named: bool = False) -> Any:
        """Cotangents of what was chosen, in trees like it."""
        with provenance(self.graph, self._where):
            found = pullback(self.graph, outputs, cotangents, [x.node for x in self.chosen], named)
            return self._arranged([self._or_zero(i, g) for i, g in enumerate(found)])

    def _or_zero(self, i: int, g: Node | None) -> Variable:
        if g is not None:
            return Variable(self.graph, g)
        if self._choice.disconnected == "raise":
            raise NotDifferentiableError(
                f"the value does not depend on {self._paths[i]}", 'disconnected="zero" gives zeros.'
            )
        return zeros(self.chosen[i])

    def jacobian(self, mode: str, name: str) -> Any:
        """Jacobians of all results, called `name`, in a tree of results of trees of what was chosen."""
        leaves, structure = tree.flatten(self.out)
        outputs = []
        for y in leaves:
            y = self._constant(y) if _is_number(y) else y
            if not isinstance(y, Variable):
                raise DTypeError(
                    f"{name}: no derivative of a result of {self._name}, which is {described(y)}",
                    _INSTEAD_OF_MASK if isinstance(y, Selected) else "Return arrays.",
                    self._where,
                )
            check_floating(y, f"{name}: no derivative of a result of {self._name}", self._where)
            outputs.append(y.node)
        wrt = [x.node for x in self.chosen]
        with provenance(self.graph, self._where):
            rows = (jacobian_rev if _backward(mode, outputs, wrt) else jacobian_fwd)(self.graph, outputs, wrt)
        for block in (x for row in rows for x in row if x.inputs):
            self.graph.label(block, name)
        return tree.unflatten(structure, [self._arranged([Variable(self.graph, x) for x in row]) for row in rows])

    def leaves(self, given: Any, what: str) -> list[Any]:
        """Of trees like what was chosen, the leaf for each of `chosen`."""
        trees = (given,) if self._choice.single else given
        by_key: dict[Any, Any] = {}
        for one, (group, part, x) in zip(trees, self._results, strict=True):
            if group:
                by_key.update(zip(group, leaves_like(tree.flatten(part)[1], one, what, "the argument"), strict=True))
            else:
                by_key[id(x)] = one
        return [by_key[key] for key in self._keys]

    def _arranged(self, values: Sequence[Any]) -> Any:
        """Values for the chosen leaves, in the trees that they were chosen from."""
        by_key = dict(zip(self._keys, values, strict=True))
        results = [
            tree.unflatten(tree.flatten(part)[1], [by_key.get(i) for i in group]) if group else by_key[id(x)]
            for group, part, x in self._results
        ]
        return results[0] if self._choice.single else tuple(results)


def _is_number(x: Any) -> bool:
    """Whether a result is an array that depends on nothing."""
    return not isinstance(x, Variable) and isinstance(x, (int, float, complex, np.number, np.bool, np.ndarray))


def _is_floating(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f")


def leaves_like(structure: tree.TreeSpec, given: Any, what: str, of: str) -> list[Any]:
    """The leaves of what must be a tree of this structure."""
    leaves, same = tree.flatten(given)
    if same != structure:
        raise ArgumentError(
            f"{what} is {tree.render(same)}, {of} is {tree.render(structure)}", "The two have the same structure."
        )
    return leaves


def zeros(x: Variable) -> Variable:
    """Zeros in the shape and dtype of `x`: of a scalar a scalar, where np.zeros_like gives an array."""
    return np.zeros_like(x) if x.shape else Variable(x.graph, x.graph.constant(x.dtype.type(0)))


def matching(x: Variable, given: Any, what: str) -> Node:
    """A tangent or cotangent of `x`, in its dtype."""
    if not isinstance(given, Variable):
        try:
            given = np.asarray(given, x.dtype)
        except (TypeError, ValueError):
            raise DTypeError(f"a {what} for {x.aval} is {described(given)}", "It is an array like its value.") from None
    if not same_shape(given.shape, x.shape):
        fact = f"a {what} of shape {render_tuple(given.shape)} for {x.aval}"
        raise ShapeError(fact, "It has the shape of its value.")
    node = lift(x.graph, given)
    return node if node.aval == x.aval._replace(weak=False) else Variable(x.graph, node).astype(x.dtype).node


_INSTEAD_OF_MASK = "Write np.where(mask, x, 0), which has a number at every place."


def check_floating(x: Variable, fact: str, where: Where | None = None) -> None:
    """Refuse what has no derivative here."""
    if x.dtype.kind == "c":
        raise DTypeError(f"{fact}, which is {x.aval}", "Write it in terms of real and imaginary parts.", where)
    if not x.aval.differentiable:
        raise DTypeError(f"{fact}, which is {x.aval}", "Only floating arrays have derivatives: x.astype(float).", where)


def _float_of(x: Any) -> str:
    if isinstance(x, int) and not isinstance(x, bool):
        return f"Pass the float {float(x)!r}."
    spec = ' A spec reads "float64[n, 3]".' if isinstance(x, str) else ""
    return f"Choose floating arrays with argnums= or wrt=.{spec}"


def _with_aux(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(f"has_aux=True, but the function returned {described(result)}", "Return value, aux.")
    return result


def described(x: Any) -> str:
    """What a result is, in an error."""
    if isinstance(x, Variable):
        return str(x.aval)
    if x is None:
        return "None"
    if isinstance(x, Selected):
        return "the numbers that a traced mask selects"
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, np.ndarray):
        return "an array"
    return f"{'an' if type(x).__name__[0] in 'aeiou' else 'a'} {type(x).__name__}"


def _counted(count: int) -> str:
    return f"{count or 'no'} positional argument{'s' * (count != 1)}"


def _below(path: str, paths: Sequence[str]) -> list[int]:
    """Numbers of the leaves at or below a path."""
    return [i for i, p in enumerate(paths) if p == path or p.startswith(path + ".")]


def _with_parents(paths: Sequence[str]) -> list[str]:
    """The paths, each behind the parts of arguments that it is in."""
    steps = [path.split(".") for path in paths]
    return list(dict.fromkeys(".".join(path[:i]) for path in steps for i in range(1, len(path) + 1)))


def _nearest(name: str, known: Sequence[str]) -> str:
    """What there is, the most similar first."""
    endings = {path.lower()[at:]: path for path in reversed(known) for at in (0, path.rfind(".") + 1)}
    near = [endings[key] for key in get_close_matches(name.lower(), endings)]
    listed = list(dict.fromkeys([*near, *known]))[:MOST_LISTED]
    return f"There is {', '.join(map(repr, listed))}{', ...' if len(known) > MOST_LISTED else ''}." if listed else ""


def part_at(arguments: Mapping[str, Any], path: str) -> Any:
    """The argument, or part of one, at a path."""
    found = _parts(arguments, path)
    if len(found) != 1:
        raise ArgumentError(
            f"wrt={path!r} stands for {len(found)} parts of the arguments, since keys have dots or are alike",
            "Choose a part above them, or other keys.",
        )
    return found[0]


def _parts(part: Any, path: str | None) -> list[Any]:
    """What is at a path: perhaps several, where keys have dots."""
    if path is None:
        return [part]
    if isinstance(part, Mapping):
        items = [(str(key), value) for key, value in part.items()]
        return [
            x for key, value in items if f"{path}.".startswith(f"{key}.") for x in _parts(value, _behind(path, key))
        ]
    step = path.partition(".")[0]
    if hasattr(part, step):
        return _parts(getattr(part, step), _behind(path, step))
    inside = isinstance(part, Sequence) and step.isdecimal() and int(step) < len(part)
    return _parts(part[int(step)], _behind(path, step)) if inside else []


def _behind(path: str, step: str) -> str | None:
    """What is left of a path, None at its end."""
    return None if path == step else path[len(step) + 1 :]


def _backward(mode: str, outputs: Sequence[Node], wrt: Sequence[Node]) -> bool:
    """Whether to go back from the results: where they have fewer numbers than the arguments, as far as is known."""
    if mode != "auto":
        return mode == "rev"
    rows, columns = (sum(product(node.aval.shape) for node in nodes) for nodes in (outputs, wrt))
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        return isinstance(columns, Dim)
    return rows <= columns
