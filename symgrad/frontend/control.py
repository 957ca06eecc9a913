"""Loops and branches as functions, with the names, the order and the meaning that they have in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, Size
from symgrad.errors import ArgumentError, ShapeError
from symgrad.frontend.bodies import branch, range_length, repeat
from symgrad.frontend.conversion.runtime import called
from symgrad.frontend.conversion.sharing import Truth, name_one_of, relate
from symgrad.frontend.forms import Form
from symgrad.frontend.plain_arguments import check_boolean, check_sequence, integer
from symgrad.frontend.trace import graph_at_hand
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.control import UNBOUNDED
from symgrad.ops.operands import ARRAYS

if TYPE_CHECKING:
    from numpy.typing import NDArray

C = TypeVar("C")
R = TypeVar("R")


def cond(pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Any) -> R:
    """Call one of two functions, chosen by a predicate; only that one is computed.

    Parameters
    ----------
    pred : bool or array of shape ()
        A number counts as whether it is not zero.
    true_fun, false_fun : callable
        Called ``fun(*operands)``. In a trace both are traced, unless `pred` is known then; their results are trees of
        one structure with arrays of the same shapes. They may read what is outside, and do not write into it.
    *operands : tree

    Returns
    -------
    tree
        Of the dtypes that the results of both have in common.

    Raises
    ------
    ArgumentError
        If the results have other structures.
    ShapeError
        If `pred` is not one boolean, or results differ in shape.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def f(x):
    ...     return sg.cond(x > 0, np.sin, np.cos, x)
    >>> sg.grad(f)(0.0), sg.grad(f)(np.pi)
    (np.float64(-0.0), np.float64(-1.0))
    """
    _check_functions("sg.cond", true_fun, false_fun)
    known = _known_truth(pred)
    if known is not None:
        return (true_fun if known else false_fun)(*operands)
    graph, leaves, sides = pred.graph, _Leaves("sg.cond"), list[list[Any]]()

    def side(fun: Callable[..., Any]) -> list[Any]:
        sides.append(leaves.of(called(fun)(*operands)))
        return sides[-1]

    test, since = pred if pred.dtype == bool else pred != 0, len(graph.nodes)
    results = branch(graph, test, lambda: side(true_fun), lambda: side(false_fun))
    found = [(y, name_one_of(y, *both)) for y, *both in zip(results, *sides, strict=True)]
    relate(found, Truth(test.node, since))
    return leaves.tree(results)


def _known_truth(pred: Any) -> bool | None:
    """Return the truth value of a predicate, None where it is not known."""
    if np.ndim(pred):
        raise ShapeError(
            f"sg.cond: the predicate has the shape {np.shape(pred)}",
            "Give one boolean, np.any(x) or np.all(x); to choose elementwise write np.where(x, a, b).",
        )
    if not isinstance(pred, Variable):
        return bool(pred)
    value = pred.known_value("for the truth of what was computed with it")
    return None if value is None else bool(value)


def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """Call one of several functions, chosen by a number; only that one is computed.

    Parameters
    ----------
    index : int or integer array of shape ()
        Below 0 it is the first function, beyond the last the last.
    branches : sequence of callable
        As the functions of `cond`.
    *operands : tree

    Returns
    -------
    tree

    Raises
    ------
    ArgumentError
        If there is no function, or results have other structures.
    ShapeError
        If results differ in shape.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> f = lambda i, x: sg.switch(i, [np.sin, np.cos, np.exp], x)
    >>> sg.grad(f, argnums=1)(2, 0.0)
    np.float64(1.0)
    """
    check_sequence("sg.switch", branches=branches)
    if not branches:
        raise ArgumentError("sg.switch has no branches", "Give a list of functions.")
    index = integer("sg.switch: index", index)
    _check_functions("sg.switch", *branches)
    first, *rest = branches
    if not rest:
        return first(*operands)
    return cond(index <= 0, first, lambda *xs: switch(index - 1, rest, *xs), *operands)


def while_loop(
    cond_fun: Callable[[C], Any],
    body_fun: Callable[[C], C],
    init_val: C,
    *,
    checkpoint: int | str | None = None,
) -> C:
    """Apply a function to its own results as long as a condition holds.

    Parameters
    ----------
    cond_fun : callable
        ``cond_fun(val)`` gives one boolean.
    body_fun : callable
        ``body_fun(val)`` gives the next value: a tree of the same structure and shapes. Both are traced once.
    init_val : tree
    checkpoint : int or "log", optional
        Reverse mode stores the state of one iteration in so many, and rematerialises those in between. "log" stores
        fewer. By default the residuals of each iteration are stored.

    Returns
    -------
    tree
        The first value for which the condition does not hold. It has derivatives in forward and in reverse mode.

    Raises
    ------
    ArgumentError, ShapeError
        If the structure or the shapes change between iterations; or `checkpoint` is something else.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> def root(a):  # Newton's iteration
    ...     return sg.while_loop(lambda x: abs(x * x - a) > 1e-14 * a, lambda x: 0.5 * (x + a / x), a)
    >>> round(root(2.0), 12)
    1.414213562373
    """
    _check_functions("sg.while_loop", cond_fun, body_fun)
    _check_checkpoint("sg.while_loop", checkpoint)
    graph, leaves = graph_at_hand(init_val), _Leaves("sg.while_loop")
    if graph is None:
        while cond_fun(init_val):
            init_val = body_fun(init_val)
        return init_val
    init = leaves.of(init_val)
    final, _, _ = repeat(
        graph,
        lambda carry, index, xs: (leaves.of(called(body_fun)(leaves.tree(carry))), ()),
        init,
        UNBOUNDED,
        test=lambda carry, index: called(cond_fun)(leaves.tree(carry)),
        checkpoint=checkpoint,
    )
    return leaves.tree(final)


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, C], C],
    init_val: C,
    *,
    unroll: int = 1,
    checkpoint: int | str | None = None,
) -> C:
    """Apply a function as often as ``range(lower, upper)`` has numbers.

    Parameters
    ----------
    lower, upper : int
        Ints, sizes, or traced integers.
    body_fun : callable
        ``body_fun(i, val)`` gives the next value, a tree of the same structure and shapes; it is traced once.
    init_val : tree
    unroll : int
        There for programs written for JAX: iterations are not unrolled.
    checkpoint : int or "log", optional
        How many states reverse mode stores, of all iterations together; the iterations in between are rematerialised.
        "log" stores few. By default the residuals of each iteration are stored.

    Returns
    -------
    tree

    Raises
    ------
    ArgumentError, ShapeError
        If the structure or the shapes change between iterations; or `checkpoint` is something else.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    _check_functions("sg.fori_loop", body_fun)
    _check_checkpoint("sg.fori_loop", checkpoint)
    lower, upper = integer("sg.fori_loop: lower", lower), integer("sg.fori_loop: upper", upper)
    graph, leaves = graph_at_hand((lower, upper, init_val)), _Leaves("sg.fori_loop")
    if graph is None:
        for i in range(lower, upper):
            init_val = body_fun(i, init_val)
        return init_val
    at = lambda index: index if type(lower) is int and not lower else lower + index
    final, _, _ = repeat(
        graph,
        lambda carry, index, xs: (leaves.of(called(body_fun)(at(index), leaves.tree(carry))), ()),
        leaves.of(init_val),
        range_length(lower, upper),
        checkpoint=checkpoint,
    )
    return leaves.tree(final)


@overload
def scan(
    f: Callable[[C, Any], tuple[C, float | np.generic | NDArray[Any]]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    checkpoint: int | str | None = None,
) -> tuple[C, NDArray[Any]]: ...
@overload
def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    checkpoint: int | str | None = None,
) -> tuple[C, Any]: ...
def scan(
    f: Callable[[C, Any], tuple[C, Any]],
    init: C,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    checkpoint: int | str | None = None,
) -> tuple[C, Any]:
    """Scan arrays with a carry, and stack the outputs of all iterations: ``([carry, xs] -> [carry, ys])``.

    Parameters
    ----------
    f : callable
        ``f(carry, x)`` gives the next state, a tree of the same structure and shapes as `carry`, and a tree of arrays
        to be stacked, or None. It is traced once.
    init : tree
        The state in the beginning.
    xs : tree of arrays, optional
        Cut along their first axes; None where iterations are only counted.
    length : int, optional
        How many iterations; that of `xs` by default.
    reverse : bool
        Whether to go from the last to the first; what is stacked stays at the place of its slice.
    unroll : int
        There for programs written for JAX: iterations are not unrolled.
    checkpoint
        As in `fori_loop`.

    Returns
    -------
    carry, ys : tree
        The state in the end, and what was stacked along a new first axis.

    Raises
    ------
    ArgumentError, ShapeError
        If the arrays have other lengths, the structure or shapes of the state change between iterations, or
        `checkpoint` is something else.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    _check_functions("sg.scan", f)
    check_boolean("sg.scan", reverse=reverse)
    _check_checkpoint("sg.scan", checkpoint)
    length = None if length is None else integer("sg.scan: length", length)
    graph = graph_at_hand((init, xs, length))
    rows, state, stacks = _Leaves("sg.scan"), _Leaves("sg.scan"), _Leaves("sg.scan")
    arrays = [] if xs is None else rows.of(xs)
    n = _length(arrays, length)
    if graph is None:
        return _scanned(f, init, rows, arrays, range(n)[::-1] if reverse else range(n))
    start = state.of(init)

    def body(carry: Sequence[Variable], index: Variable, slices: Sequence[Variable]) -> tuple[list[Any], list[Any]]:
        new, ys = _pair(called(f)(state.tree(carry), None if xs is None else rows.tree(slices)))
        return state.of(new), [] if ys is None else stacks.of(ys)

    whole = [Variable(graph, lift(graph, x)) for x in arrays]
    final, stacked, _ = repeat(graph, body, start, n, whole, reverse=reverse, checkpoint=checkpoint)
    return state.tree(final), stacks.tree(stacked) if stacks.form else None


def _check_functions(name: str, *functions: Any) -> None:
    for f in functions:
        if not callable(f):
            raise ArgumentError(f"{name}: {f!r} is not a function", "Give a function, such as lambda x: x.")


def _pair(results: Any) -> Any:
    if isinstance(results, (tuple, list)) and len(results) == 2:
        return results
    raise ArgumentError("the function of sg.scan does not return a pair", "Return the carry, and outputs or None.")


def _check_checkpoint(function: str, checkpoint: Any) -> None:
    if checkpoint is not None and checkpoint != "log" and (type(checkpoint) is not int or checkpoint < 1):
        raise ArgumentError(f"{function}: checkpoint={checkpoint!r}", 'Give how many states to keep, or "log".')


def _length(arrays: Sequence[Any], length: Any) -> Any:
    if length is None and not arrays:
        raise ArgumentError("sg.scan is given neither xs nor length", "Give length=, the number of iterations.")
    sizes: list[Size] = [_first_size(x) for x in arrays]
    if length is not None and not isinstance(length, Variable):
        sizes.append(length)
    for n in sizes[1:]:
        if not same_shape((n,), (sizes[0],)):
            raise ShapeError(
                f"sg.scan: {sizes[0]} and {n} iterations",
                "Give arrays whose first axes have the same length, and that length.",
            )
    return sizes[0] if sizes else length


def _first_size(x: Any) -> Size:
    if not np.ndim(x):
        raise ShapeError("sg.scan: a number has no axis to go along", "Let the function read it from outside.")
    size: Size = np.shape(x)[0]
    return size


def _scanned(f: Callable[..., Any], carry: Any, rows: _Leaves, arrays: Sequence[Any], indices: Sequence[int]) -> Any:
    """The same on arrays, in Python."""
    stacks, found = _Leaves("sg.scan"), {}
    for t in indices:
        carry, ys = _pair(f(carry, rows.tree([x[t] for x in arrays]) if rows.form else None))
        found[t] = [] if ys is None else stacks.of(ys)
    columns = zip(*(found[t] for t in sorted(found)), strict=True)
    return carry, stacks.tree([np.stack(ys) for ys in columns]) if stacks.form else None


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Apply a function to each slice of arrays along their first axes, one after the other, and stack the results.

    Parameters
    ----------
    f : callable
        Takes a tree of slices; it is traced once.
    xs : tree of arrays

    Returns
    -------
    tree
        Its results, stacked along a new first axis. `np.vectorize` and `vmap` compute them all at once, in more memory.

    Raises
    ------
    ShapeError
        If the arrays have other lengths.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.map(np.sum, np.ones((3, 2)))
    array([2., 2., 2.])
    """
    _check_functions("sg.map", f)
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All partial results of an associative operation along an axis, by operations on halves.

    Where the length is a symbol without a number, as with specs, one operation follows the other in a loop.

    Parameters
    ----------
    fn : callable
        ``fn(a, b)`` takes and gives trees of the structure of `elems`, for many pairs at once, and is associative.
    elems : tree of arrays
        Of one length along `axis`.
    reverse : bool
        Whether partial results start from the end.
    axis : int

    Returns
    -------
    tree
        ``elems[0], fn(elems[0], elems[1]), ...`` along the axis.

    Raises
    ------
    ShapeError
        If the arrays have other lengths.

    References
    ----------
    Blelloch, "Prefix sums and their applications", 1990.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> sg.associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    """
    _check_functions("sg.associative_scan", fn)
    check_boolean("sg.associative_scan", reverse=reverse)
    leaves = _Leaves("sg.associative_scan")
    given = leaves.of(elems)
    if not given or not all(np.shape(x) for x in given):
        raise ArgumentError("sg.associative_scan: elems has a leaf that is no array", "Give arrays, or trees of them.")
    arrays = [np.moveaxis(x, axis, 0) for x in given]
    lengths = [_first_size(x) for x in arrays]
    if not all(same_shape((n,), (lengths[0],)) for n in lengths):
        raise ShapeError("sg.associative_scan: arrays of several lengths", "Give arrays of one length along the axis.")
    arrays = [x[::-1] for x in arrays] if reverse else arrays
    is_known = not any(isinstance(n, Dim) and n.scope.value(n) is None for n in lengths)
    prefixes = _prefixes if is_known else _prefixes_in_order
    found = prefixes(lambda a, b: leaves.of(called(fn)(leaves.tree(a), leaves.tree(b))), arrays)
    return leaves.tree([np.moveaxis(y[::-1] if reverse else y, 0, axis) for y in found])


def _prefixes(join: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any]) -> list[Any]:
    """Return prefixes: those of pairs are every second one; one more operation gives each of the others."""
    n = len(xs[0])
    if n < 2:
        return xs
    odd = _prefixes(join, join([x[: n - 1 : 2] for x in xs], [x[1::2] for x in xs]))
    behind = [x[2::2] for x in xs]
    even = join([y[: len(b)] for y, b in zip(odd, behind, strict=True)], behind) if n > 2 else behind
    return [_alternating(np.concatenate([x[:1], e]), o) for x, e, o in zip(xs, even, odd, strict=True)]


def _prefixes_in_order(join: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any]) -> list[Any]:
    """Return prefixes, each made of the one before it: the length need not be known."""

    def step(before: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        y = join(before, [row[None] for row in rows])
        return y, [row[0] for row in y]

    first = [x[:1] for x in xs]
    _, others = scan(step, first, [x[1:] for x in xs])
    return [np.concatenate([x, ys]) for x, ys in zip(first, others, strict=True)]


def _alternating(even: Any, odd: Any) -> Any:
    pairs = np.stack([even[: len(odd)], odd], axis=1)
    return np.concatenate([np.reshape(pairs, (2 * len(odd), *even.shape[1:])), even[len(odd) :]])


class _Leaves:
    """Trees of one structure as lists of their arrays and numbers; other leaves are static."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.form: Form | None = None

    def of(self, value: Any) -> list[Any]:
        form = Form(value, _NUMERIC)
        self.form = self.form or form
        if form != self.form:
            raise ArgumentError(
                f"{self.function}: a function returns {form}, but {self.form} is expected",
                "Return trees of one structure; only numbers and arrays in them can change.",
            )
        return form.values(value)

    def tree(self, arrays: Sequence[Any]) -> Any:
        """The tree that has these arrays."""
        assert self.form is not None
        return self.form.filled(arrays)


_NUMERIC = (Variable, *ARRAYS, bool, int, float, complex, Dim)
