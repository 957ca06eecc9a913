"""A run of the user's function, with what to differentiate by marked, and the derivatives of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from numbers import Number, Real
from typing import Any, NamedTuple

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Node, tracing
from symgrad.core.options import current
from symgrad.core.provenance import Where
from symgrad.core.shapes import product, render_tuple, same_shape
from symgrad.core.sizes import Dim
from symgrad.core.specs import instead_of_dtype
from symgrad.core.text import identifier, with_article
from symgrad.derivatives.jacobian import jacobian_fwd, jacobian_rev
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError, DTypeError, NotDifferentiableError, ShapeError, SymgradError
from symgrad.frontend.arguments import bind, dotted_paths, is_array, is_static, signature
from symgrad.frontend.chains import go_on_from
from symgrad.frontend.foreign import is_foreign, plain
from symgrad.frontend.plain_arguments import check_boolean
from symgrad.frontend.trace import definition, run_on
from symgrad.frontend.variable import Variable, lift
from symgrad.ops import marks
from symgrad.ops.masks import Selected
from symgrad.transforms.wrt import Choice, below, part_at, parts_at, resolved, with_parents

MOST_LISTED = 8  # names in a message


class _Part(NamedTuple):
    """Something to differentiate by: the numbers of its leaves among those chosen, None for what is no array."""

    leaves: list[int | None]
    structure: tree.TreeSpec | None  # None of a value inside of the function


class Differentiation:
    """One run of the user's function on Variables, appended to the graph that is being traced.

    `out` and `aux` are what the function returned, `chosen` the leaves to differentiate by.
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
        paths, leaves, structure = dotted_paths(bound.arguments)
        wanted = [resolved(path, paths) for path in choice.dotted(f, bound)]
        self._given, self._arguments = bound.arguments, with_parents(paths)
        groups = [below(path, paths) for path in wanted]
        fixed = self._fixed(paths, leaves, bound.arguments)
        numbers = sorted(
            {i for path, group in zip(wanted, groups, strict=True) for i in group if i not in fixed or path == paths[i]}
        )
        _check_some(wanted, groups, numbers, leaves)
        marks = {i: self._mark(leaves[i], paths[i]) for i in numbers}
        parts = [part_at(bound.arguments, path) if group else None for path, group in zip(wanted, groups, strict=True)]
        marked = tree.unflatten(structure, [marks.get(i, x) for i, x in enumerate(leaves)])
        bound.arguments.update(zip(bound.arguments, marked, strict=True))
        self.chosen = [Variable(graph, x.node) for x in marks.values()]  # as they are now, whatever is written later
        self._paths = [paths[i] for i in numbers]
        result = run_on(graph, f, bound.args, bound.kwargs)
        self.aux: Any
        check_boolean("a transform", has_aux=has_aux)
        out, self.aux = _with_aux(result) if has_aux else (result, None)
        place = {i: k for k, i in enumerate(numbers)}
        self._parts: list[_Part] = []
        for path, group, part in zip(wanted, groups, parts, strict=True):
            if group:
                self._parts.append(_Part([place.get(i) for i in group], tree.flatten(part)[1]))
            else:
                self._parts.append(_Part([len(self.chosen)], None))
                self.chosen.append(self._inner(path))
                self._paths.append(path)
        self.out = self.prepared(out)

    def _fixed(self, paths: Sequence[str], leaves: Sequence[Any], arguments: Mapping[str, Any]) -> set[int]:
        """The leaves that have no derivative where a tree is chosen that they are in: they are part of the program."""
        static = {i for path in self._choice.static for i in below(path, paths)}
        wholes = [i for i, x in enumerate(leaves) if isinstance(x, (int, Dim)) and not isinstance(x, (bool, Enum))]
        if wholes:
            places, _, _ = tree.flatten_with_paths(tuple(arguments.values()))
            static |= {i for i in wholes if tree.is_declared_whole(places[i])}
        return static | {i for i, x in enumerate(leaves) if _is_no_number(x)}

    def _mark(self, x: Any, path: str) -> Variable:
        """A leaf under an identity of its own, apart from other uses of the same value."""
        x = plain(x, path)
        if not isinstance(x, Variable) and isinstance(x, (np.ndarray, np.generic, float, complex)):
            x = Variable(self.graph, self.graph.constant(x))
        if not isinstance(x, Variable):
            raise DTypeError(f"no derivative with respect to {path}, which is {x!r}", _float_of(x, path))
        check_floating(x, f"no derivative with respect to {path}")
        lift(self.graph, x)  # refuses one of another graph
        return marks.marked(x, f"{path} is an argument: writing into it would change the caller's array")

    def _inner(self, name: str) -> Variable:
        """The value that has this name inside the function."""
        named = [node for node in self.graph.names if node.op is marks.ALIAS and node.id >= self._start]
        found = [node for node in named if self.graph.names[node] == name]
        if len(found) == 1:
            return Variable(self.graph, found[0])
        if found:
            raise ArgumentError(
                f"wrt={name!r}: {len(found)} values of the function have that name",
                "Give each a name of its own; of a loop or a branch name the result.",
            )
        for part in parts_at(self._given, name):
            raise ArgumentError(f"{name} is {part!r}: there is nothing in it to differentiate by", _CHOOSE)
        head = name.partition(".")[0]
        if head in signature(self._f).parameters and head not in self._arguments:
            raise ArgumentError(
                f"wrt={name!r}: {head} has its default here, which is a constant", "Pass a value for it."
            )
        known = [*self._arguments, *(hint for node in named if isinstance(hint := self.graph.names[node], str))]
        naming = f'Name one: {identifier(name)} = symgrad.name(..., "{identifier(name)}").'
        raise ArgumentError(
            f"wrt={name!r}: no argument and no value of the function has that name", f"{_nearest(name, known)} {naming}"
        )

    def prepared(self, out: Any) -> Any:
        """A tree of results, and what was chosen with it, in the form to differentiate."""
        from symgrad.pipeline import canonicalised  # when the first function is differentiated

        options = current()
        leaves, structure = tree.flatten(out)
        leaves = [
            Variable(self.graph, x.node) if isinstance(x, Variable) else self._constant(x) if _is_floating(x) else x
            for x in leaves
        ]
        out = tree.unflatten(structure, leaves)
        floating = [x.node for x in leaves if isinstance(x, Variable) and x.aval.differentiable]
        if not floating:
            return out
        graph, wrt, last = self.graph, [x.node for x in self.chosen], self.graph.chain.last
        checks = [last] if last is not None and last.id >= self._start else []
        better, chosen = canonicalised(
            graph, [*floating, *checks], wrt, options.optimize, options.numerics, self._start
        )
        if checks:
            go_on_from(graph, better.pop())
        self.chosen = [Variable(graph, node) for node in chosen]
        image = dict(zip(floating, better, strict=True))
        return tree.unflatten(
            structure,
            [Variable(graph, image[x.node]) if isinstance(x, Variable) and x.node in image else x for x in leaves],
        )

    def _constant(self, x: Any) -> Variable:
        with self.graph.located(self._where):
            return Variable(self.graph, self.graph.constant(x))

    # ---- derivatives

    def value(self, what: str) -> Variable:
        """The result, if it is a floating scalar."""
        returned = f"{what} needs a function with a scalar result, {self._name} returned "
        instead = "Return one number; whatever else is wanted goes into aux: return value, aux and has_aux=True."
        out = self._array(self.out, ShapeError, returned, instead)
        if out.shape:
            other = "jacobian(jacobian(f))" if what == "hessian" else "jacobian"
            raise ShapeError(f"{returned}{out.aval}", f"Reduce it, as np.sum does, or use {other}.", self._where)
        check_floating(out, f"{what}: no derivative of the result of {self._name}", self._where)
        self._check_one_derivative(what, out)
        return out

    def _check_one_derivative(self, what: str, y: Variable) -> None:
        """Refuse a complex result, unless its function is said to be holomorphic: it has two derivatives else."""
        if self._choice.holomorphic:
            self._check_complex(what, [y])
        elif y.dtype.kind == "c":
            raise DTypeError(
                f"{what}: the result of {self._name} is {y.aval}",
                "Return a real number, such as z.real or np.abs(z) ** 2; of a holomorphic function holomorphic=True "
                "gives f'(z).",
                self._where,
            )

    def _check_complex(self, what: str, results: Sequence[Variable]) -> None:
        """Refuse to take a function of real numbers, or one with real results, for a holomorphic one."""
        named = [*zip(self.chosen, self._paths, strict=True), *((y, f"the result of {self._name}") for y in results)]
        for x, name in named:
            if x.dtype.kind != "c":
                raise DTypeError(
                    f"{what}: holomorphic=True, but {name} is {x.aval}",
                    "Leave holomorphic=True out, or make it complex: x.astype(complex).",
                    self._where,
                )

    def _array(self, y: Any, error: type[SymgradError], fact: str, instead: str) -> Variable:
        """A result that is an array, or the error whose fact ends in what it is."""
        y = self._constant(y) if _is_number(y) else y
        if isinstance(y, Variable):
            return y
        if isinstance(y, Selected):
            raise error(f"{fact}{described(y)}", _INSTEAD_OF_MASK, y.where)
        raise error(f"{fact}{described(y)}", instead, self._where)

    @property
    def _name(self) -> str:
        return str(getattr(self._f, "__name__", "the function"))

    def sum_of_numbers(self, what: str) -> Variable:
        """The sum of a result that has the shape of what was chosen."""
        returned = f"{what} needs a function with one array as its result, {self._name} returned "
        out = self._array(self.out, ShapeError, returned, "Return one array of the shape of the argument.")
        for x, path in zip(self.chosen, self._paths, strict=True):
            if not same_shape(out.shape, x.shape):
                raise ShapeError(
                    f"{what} needs an elementwise function, {self._name} returned {out.aval} for {path}, which is "
                    f"{x.aval}",
                    "For a function that is not elementwise use jacobian.",
                    self._where,
                )
        check_floating(out, f"{what}: no derivative of the result of {self._name}", self._where)
        self._check_one_derivative(what, out)
        with self.graph.located(self._where):
            return np.sum(out)

    def gradients(self, value: Variable) -> Any:
        """Gradients of a scalar, in trees like what was chosen."""
        return self.pullback([value.node], [self._constant(value.dtype.type(1)).node], named=True)

    def pullback(self, outputs: Sequence[Node], cotangents: Sequence[Node], named: bool = False) -> Any:
        """Cotangents of what was chosen, in trees like it."""
        with self.graph.located(self._where):
            found = pullback(self.graph, outputs, cotangents, [x.node for x in self.chosen], named)
            return self._arranged([self._or_zeros(i, g) for i, g in enumerate(found)])

    def _or_zeros(self, i: int, derivative: Node | None) -> Variable:
        if derivative is None and self._choice.disconnected == "raise":
            raise NotDifferentiableError(
                f"the value does not depend on {self._paths[i]}", 'disconnected="zero" gives zeros.'
            )
        return or_zeros(self.chosen[i], derivative)

    def jacobian(self, mode: str, name: str) -> Any:
        """Jacobians of all results, called `name`, in a tree of results of trees of what was chosen."""
        leaves, structure = tree.flatten(self.out)
        fact = f"{name}: no derivative of a result of {self._name}"
        outputs = []
        for y in [y for y in leaves if y is not None]:
            y = self._array(y, DTypeError, f"{fact}, which is ", "Return arrays.")
            check_floating(y, fact, self._where)
            outputs.append(y.node)
        wrt = [x.node for x in self.chosen]
        mode = self._mode_of_complex(name, mode, [Variable(self.graph, y) for y in outputs])
        with self.graph.located(self._where):
            rows = (jacobian_rev if _backward(mode, outputs, wrt) else jacobian_fwd)(self.graph, outputs, wrt)
        for block in (x for row in rows for x in row if x.inputs):
            self.graph.label(block, name)
        found = iter([self._arranged([Variable(self.graph, x) for x in row]) for row in rows])
        return tree.unflatten(structure, [None if y is None else next(found) for y in leaves])

    def _mode_of_complex(self, name: str, mode: str, results: Sequence[Variable]) -> str:
        """The mode of a Jacobian that has one number for each pair: forward by real numbers, backward of real ones."""
        if self._choice.holomorphic:
            self._check_complex(name, results)
            return mode
        made_complex, by_complex = (any(x.dtype.kind == "c" for x in xs) for xs in (results, self.chosen))
        if not made_complex and not by_complex:
            return mode
        if made_complex and by_complex:
            raise DTypeError(
                f"{name}: {self._name} has complex results and complex arguments",
                "Take it by x.real and x.imag, or write jvp, vjp or hvp; of a holomorphic function, holomorphic=True.",
                self._where,
            )
        wanted = "fwd" if made_complex else "rev"
        if mode not in ("auto", wanted):
            kinds = "complex results by real" if made_complex else "real results by complex"
            raise DTypeError(
                f"{name}: {self._name} has {kinds} arguments", f'Write jacobian(f, mode="{wanted}").', self._where
            )
        return wanted

    def leaves(self, given: Any, what: str) -> list[Any]:
        """Return the leaf for each of `chosen`, from trees like those that were chosen."""
        found: list[Any] = [None] * len(self.chosen)
        for one, part in zip((given,) if self._choice.single else given, self._parts, strict=True):
            values = [one] if part.structure is None else leaves_like(part.structure, one, what, "the argument")
            for k, x in zip(part.leaves, values, strict=True):
                if k is not None:
                    found[k] = x
        return found

    def _arranged(self, values: Sequence[Any]) -> Any:
        """Values for the chosen leaves, in the trees that they were chosen from."""
        results = []
        for part in self._parts:
            leaves = [None if k is None else values[k] for k in part.leaves]
            results.append(leaves[0] if part.structure is None else tree.unflatten(part.structure, leaves))
        return results[0] if self._choice.single else tuple(results)


def _is_no_number(x: Any) -> bool:
    """Whether a leaf can only be part of the program: a text, a flag, a function, a member of an enumeration, None."""
    if isinstance(x, (bool, Enum)):
        return True
    return not isinstance(x, (Number, Dim)) and not is_array(x) and not is_foreign(x) and is_static(x)


def _check_some(
    wanted: Sequence[str], groups: Sequence[Sequence[int]], numbers: Sequence[int], leaves: Sequence[Any]
) -> None:
    """Raise if of something that was chosen no part can be differentiated by."""
    for path, group in zip(wanted, groups, strict=True):
        if {*group}.isdisjoint(numbers) and any(leaves[i] is not None for i in group):
            instead = next(filter(None, (instead_of_dtype(leaves[i]) for i in group)), _CHOOSE)
            raise DTypeError(f"no derivative with respect to {path}, which has no floating number", instead)


def _is_number(x: Any) -> bool:
    """Whether a result is an array that depends on nothing."""
    return not isinstance(x, Variable) and isinstance(x, (int, float, complex, np.number, np.bool, np.ndarray))


def _is_floating(x: Any) -> bool:
    return isinstance(x, (float, complex)) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc")


def leaves_like(structure: tree.TreeSpec, given: Any, what: str, of: str) -> list[Any]:
    """The leaves of what must be a tree of this structure."""
    leaves, same = tree.flatten(given)
    if same != structure:
        raise ArgumentError(
            f"{what} is {tree.render(same)}, {of} is {tree.render(structure)}", "Give it the same structure."
        )
    return leaves


def or_zeros(x: Variable, derivative: Node | None) -> Variable:
    """A derivative, or zeros in the shape and dtype of `x`: of a scalar a scalar, where np.zeros_like gives arrays."""
    if derivative is not None:
        return Variable(x.graph, derivative)
    return np.zeros_like(x) if x.shape else Variable(x.graph, x.graph.constant(x.dtype.type(0)))


def matching(x: Variable, given: Any, what: str) -> Node:
    """A tangent or cotangent of `x`, in its dtype."""
    node = lift(x.graph, array_like(x, given, what))
    return node if node.aval == x.aval._replace(weak=False) else Variable(x.graph, node).astype(x.dtype).node


def array_like(x: Variable, given: Any, what: str) -> Any:
    """A tangent or cotangent of `x`, of its shape: a Variable, or an array in its dtype."""
    if not isinstance(given, Variable):
        try:
            found = np.asarray(given)
        except ValueError:  # lists of several lengths
            found = None
        if found is None or found.dtype.kind not in "biufc":  # of None NumPy makes NaN
            raise DTypeError(f"a {what} for {x.aval} is {described(given)}", "Give an array of that shape and dtype.")
        given = found if found.dtype.kind == "c" and x.dtype.kind != "c" else found.astype(x.dtype, copy=False)
    if given.dtype.kind == "c" and x.dtype.kind != "c":
        raise DTypeError(f"a {what} for {x.aval}, which is real, is {given.dtype}", "Give its real part: x.real.")
    if not same_shape(given.shape, x.shape):
        fact = f"a {what} of shape {render_tuple(given.shape)} for {x.aval}"
        raise ShapeError(fact, "Give one of the same shape: np.broadcast_to(x, shape).")
    return given


_INSTEAD_OF_MASK = "Write np.where(mask, x, 0), which has a number at every place."


def check_floating(x: Variable, fact: str, where: Where | None = None) -> None:
    """Refuse what has no derivative here."""
    if not x.aval.differentiable:
        raise DTypeError(f"{fact}, which is {x.aval}", "Only floating arrays have derivatives: x.astype(float).", where)


def _float_of(x: Any, path: str) -> str:
    if isinstance(x, (Real, Decimal)) and not isinstance(x, bool):
        below = f' If it counts something, say so: static_argnames="{path}".' if "." in path else ""
        return f"Pass the float {float(x)!r}.{below}"
    other = f'{_CHOOSE} A spec reads "float64[n, 3]".' if isinstance(x, str) else _CHOOSE
    return instead_of_dtype(x) or other


_CHOOSE = "Choose floating arrays with argnums= or wrt=."


def _with_aux(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(
            f"has_aux=True, but the function returned {described(result)}", "Return a pair: value, aux."
        )
    return result


def described(x: Any) -> str:
    """Return the description of a result in an error."""
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
    return with_article(type(x).__name__)


def _nearest(name: str, known: Sequence[str]) -> str:
    """Return advice with the known names, the most similar first."""
    endings = {path.lower()[at:]: path for path in reversed(known) for at in (0, path.rfind(".") + 1)}
    near = [endings[key] for key in get_close_matches(name.lower(), endings)]
    listed = list(dict.fromkeys([*near, *known]))[:MOST_LISTED]
    return f"There is {', '.join(map(repr, listed))}{', ...' if len(known) > MOST_LISTED else ''}." if listed else ""


def _backward(mode: str, outputs: Sequence[Node], wrt: Sequence[Node]) -> bool:
    """Whether to go back from the results: where they have fewer numbers than the arguments, as far as is known."""
    if mode != "auto":
        return mode == "rev"
    rows, columns = (sum(product(node.aval.shape) for node in nodes) for nodes in (outputs, wrt))
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        return isinstance(columns, Dim)
    return rows <= columns
