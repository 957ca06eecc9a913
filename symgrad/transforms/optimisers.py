"""Functions as optimisers want them: of one flat vector of float64, with derivatives of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple, Unpack

import numpy as np

from symgrad.compiler.function import Function
from symgrad.core import tree
from symgrad.core.options import Chosen, checked
from symgrad.core.text import with_article
from symgrad.errors import ArgumentError, DTypeError, ShapeError
from symgrad.frontend.arguments import dotted_paths
from symgrad.frontend.variable import Variable
from symgrad.transforms.gradients import compile, value_and_grad
from symgrad.transforms.jacobians import hessian, hvp, jacobian, with_vector
from symgrad.transforms.making import describe

Tree = Any


def to_scipy(f: Callable[..., Any], x0: Tree, args: Any = (), **options: Unpack[Chosen]) -> FlatFunction:
    """A function of a tree as ``scipy.optimize`` takes it: of a flat vector, with its derivatives.

    Parameters
    ----------
    f : callable
        Written in NumPy. Its result is a number, to be minimised, or arrays or a tree of them: residuals, equations,
        constraints.
    x0 : tree
        Where to start: arrays and floats of any shapes and floating dtypes, in dicts, lists, tuples and the like. `f`
        is called with trees like it.
    args : tuple
        What `f` takes behind it, such as data. ``args=`` of SciPy's functions goes before it.
    **options
        As in `symgrad.options`.

    Returns
    -------
    FlatFunction
        With ``fun``, ``jac``, ``hess``, ``hessp``, ``x0``, and ``unravel``, the way back. What is not called is not
        compiled.

    Raises
    ------
    DTypeError
        A leaf of `x0` is not floating.
    ArgumentError
        `x0` has no leaves, or an option is unknown.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> from scipy.optimize import minimize
    >>> def loss(p, y):
    ...     return np.sum((p["a"] * np.ones(2) + p["b"] - y) ** 2) + p["a"] ** 2
    >>> y = np.array([1.0, 2.0])
    >>> problem = sg.to_scipy(loss, {"a": 1.0, "b": np.zeros(2)}, args=(y,))
    >>> found = minimize(problem.fun, problem.x0, jac=problem.jac, hess=problem.hess, method="trust-exact")
    >>> np.round(problem.unravel(found.x)["b"], 6)
    array([1., 2.])
    """
    return FlatFunction(f, x0, args if isinstance(args, tuple) else (args,), options)


class FlatFunction:
    """A function of a flat vector that stands for a tree; made by `to_scipy`.

    Methods take ``(x, *args)``, as SciPy calls them, where `args` take the place of those given to `to_scipy`.

    Attributes
    ----------
    x0 : ndarray
        The tree that `to_scipy` was given, as a vector of float64.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> problem = sg.to_scipy(lambda p: p["a"] * np.sum(p["b"] ** 2), {"a": 2.0, "b": np.array([1.0, 3.0])})
    >>> problem.fun(problem.x0)
    20.0
    >>> problem.jac(problem.x0)
    array([10.,  4., 12.])
    >>> problem.unravel(problem.jac(problem.x0))
    {'a': 10.0, 'b': array([ 4., 12.])}
    """

    def __init__(self, f: Callable[..., Any], x0: Tree, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        self._f, self._args, self._options = f, args, checked(options)
        paths, leaves, self._structure = dotted_paths({"x0": x0})
        if not leaves:
            raise ArgumentError("x0 has no arrays in it", "Start from a tree of arrays or floats.")
        self._parts = [_part(path, leaf) for path, leaf in zip(paths, leaves, strict=True)]
        ends = accumulate((prod(part.shape) for part in self._parts), initial=0)
        self._places = [slice(start, stop) for start, stop in pairwise(ends)]
        self.x0 = _joined(leaves)
        self._made: dict[Any, Function] = {}
        self._ahead: tuple[Any, ...] = ()  # the point of the last evaluation, and what of it was not asked for yet

    def __repr__(self) -> str:
        return f"<FlatFunction of {len(self.x0)} numbers: {describe(self._f)}>"

    # ---- between trees and vectors

    def ravel(self, point: Tree) -> np.ndarray:
        """A tree like `x0` as a vector of float64."""
        paths, leaves, structure = dotted_paths({"x0": point})
        if structure != self._structure:
            ours, theirs = tree.render(self._structure), tree.render(structure)
            raise ArgumentError(f"the tree has the structure {theirs}, x0 has {ours}", "Give a tree like x0.")
        for path, leaf, part in zip(paths, leaves, self._parts, strict=True):
            if np.shape(leaf) != part.shape:
                fact = f"{path} has the shape {part.shape}, here it has {np.shape(leaf)}"
                raise ShapeError(fact, "Give a tree like x0.")
        return _joined(leaves)

    def unravel(self, x: Any) -> Tree:
        """The tree that a vector stands for, of the shapes and dtypes of `x0`."""
        vector = np.asarray(x, dtype=np.float64)
        size = self._places[-1].stop
        if vector.shape != (size,):
            fact = f"the vector has the shape {vector.shape}, x0 has {size} numbers"
            raise ShapeError(fact, "Give a vector of this length: that of a tree is ravel(tree).")
        leaves = [part.of(vector[place]) for part, place in zip(self._parts, self._places, strict=True)]
        return tree.unflatten(self._structure, leaves)[0]

    # ---- what optimisers call

    def fun(self, x: Any, *args: Any) -> Any:
        """The value: a float, or a vector where `f` gives arrays.

        Of a number the gradient is computed with it and kept until `jac` asks for it at the same point.
        """
        return self._evaluated(x, args, 0) if self._is_scalar(x, args) else self._flat_value(x, args)

    def jac(self, x: Any, *args: Any) -> np.ndarray:
        """The gradient, a vector; or the dense Jacobian, a row for each number that `f` gives."""
        if self._is_scalar(x, args):
            return self._evaluated(x, args, 1)
        blocks = tree.flatten(self._of(jacobian)(self.unravel(x), *(args or self._args)))[0]
        rows = self._rows(blocks)
        return np.concatenate(rows) if rows else np.zeros((0, len(self.x0)))

    def hess(self, x: Any, *args: Any) -> np.ndarray:
        """The dense Hessian of a function with a scalar result."""
        return np.concatenate(self._rows(tree.flatten(self._of(hessian)(self.unravel(x), *(args or self._args)))[0]))

    def hessp(self, x: Any, p: Any, *args: Any) -> np.ndarray:
        """The product of the Hessian with a vector, for a function with a scalar result."""
        given = (self.unravel(x), *(args or self._args))
        args, kwargs = with_vector(self._f, given, {}, self.unravel(np.ravel(p)))
        return _joined(tree.flatten(self._of(hvp)(*args, **kwargs))[0])

    # ---- the compiled functions

    def _of(self, transform: Callable[..., Function]) -> Function:
        """A transform of the function, made when it is first needed."""
        if transform not in self._made:
            self._made[transform] = transform(self._f, **self._options)
        return self._made[transform]

    def _is_scalar(self, x: Any, args: tuple[Any, ...]) -> bool:
        """Whether `f` gives one number: then it is something to minimise."""
        if not hasattr(self, "_scalar"):
            result = self._of(compile).trace(self.unravel(x), *(args or self._args)).outputs
            self._scalar = isinstance(result, (Variable, np.generic, float, int)) and np.shape(result) == ()
        return self._scalar

    def _evaluated(self, x: Any, args: tuple[Any, ...], which: int) -> Any:
        """Value or gradient of a number, which are computed together.

        Each is handed out once: who asks for the same again may have changed an array in `args` in between.
        """
        args = args or self._args
        key = np.asarray(x, dtype=np.float64).tobytes()
        at, given, results = self._ahead or (None, (), ())
        same = at == key and len(given) == len(args) and all(a is b for a, b in zip(given, args, strict=True))
        if not same or results[which] is None:
            value, gradient = self._of(value_and_grad)(self.unravel(x), *args)
            results = (float(value), _joined(tree.flatten(gradient)[0]))
        self._ahead = (key, args, tuple(None if i == which else result for i, result in enumerate(results)))
        return results[which]

    def _flat_value(self, x: Any, args: tuple[Any, ...]) -> np.ndarray:
        leaves = tree.flatten(self._of(compile)(self.unravel(x), *(args or self._args)))[0]
        return _joined(leaves) if leaves else np.zeros(0)

    def _rows(self, blocks: Sequence[Any]) -> list[np.ndarray]:
        """Derivatives with respect to each leaf, side by side: blocks of rows, each as long as `x0`."""
        count = len(self._parts)
        return [
            np.hstack([part.columns(block) for part, block in zip(self._parts, blocks[i : i + count], strict=True)])
            for i in range(0, len(blocks), count)
        ]


class _Part(NamedTuple):
    """The shape and dtype of a leaf of the tree; a Python float has no dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype | None

    def of(self, numbers: np.ndarray) -> Any:
        """Return a leaf with these numbers, in memory of its own."""
        return float(numbers[0]) if self.dtype is None else np.array(numbers, self.dtype).reshape(self.shape)

    def columns(self, derivative: Any) -> np.ndarray:
        """Return a block of a Jacobian as a matrix; its last axes are those of the leaf."""
        array = np.asarray(derivative, dtype=np.float64)
        return array.reshape(prod(array.shape[: array.ndim - len(self.shape)]), prod(self.shape))


def _part(path: str, leaf: Any) -> _Part:
    if type(leaf) is float:
        return _Part((), None)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind == "f":
        return _Part(leaf.shape, leaf.dtype)
    what = f"{leaf.dtype}" if isinstance(leaf, (np.ndarray, np.generic)) else with_article(type(leaf).__name__)
    raise DTypeError(
        f"{path} is {what}, but optimisers change real numbers",
        "Start from floats such as 1.0, and pass constants in args=.",
    )


def _joined(leaves: Sequence[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64, copy=False)
