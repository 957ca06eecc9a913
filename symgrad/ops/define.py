"""Definition of operators: one entry gives tracing, inference, evaluation, derivatives, source and tests.

`elementwise`, `reduction` and `operator` make a primitive; `implements` says how a NumPy function is written with
others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from symgrad.core.axes import AxisSignature, aligned
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SEED, SIZE, Aval, Op, path_of
from symgrad.core.shapes import broadcast_shapes
from symgrad.core.text import did_you_mean
from symgrad.errors import ArgumentError, ShapeError, UnsupportedError
from symgrad.ops.arguments import canonical, refuse
from symgrad.ops.dtypes import kind_of, ufunc_dtypes
from symgrad.ops.operands import Array, as_input
from symgrad.ops.spellings import (
    DIVISIONS,
    infix_of_floats,
    infix_spelling,
    prefix_of_numbers,
    prefix_spelling,
    scalar_call,
)
from symgrad.spelling import Code

TABLE: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Replacements of NumPy functions for Variables: an Op, or a function written with others."""

OPERATORS: dict[str, Op] = {op.name: op for op in (INPUT, CONSTANT, SIZE, SEED, ITEM)}
"""Operators by the names that they have in files. A name stays with the first operator that has it."""

PLACES: list[tuple[Any, str]] = []
"""Functions that do not dispatch on Variables, as (holder, name). Their replacements are in TABLE."""


def registered(op: Op, name: str = "") -> Op:
    """Give an operator a name in files, by default ``linalg.solve`` or ``scipy.special.gammaln``."""
    OPERATORS.setdefault(name or (f"{op.package}.{op.name}" if op.package else op.name), op)
    return op


def implements(*functions: Callable[..., Any] | str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how NumPy functions are written with others, with NumPy's full signature.

    One that only newer NumPys have is given by its name.
    """

    def register(written: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            known = getattr(np, function, None) if isinstance(function, str) else function
            if known is not None:
                TABLE[known] = written
        return written

    return register


@dataclass(frozen=True)
class Refused:
    """Entry of a function that nothing stands for: why, and what to write instead."""

    fact: str
    instead: str

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(self.fact, self.instead)


def refuses(fact: str, instead: str, *functions: Callable[..., Any] | str) -> None:
    """Register NumPy functions that nothing stands for: why, with ``{}`` for the name, and what to write instead.

    One that only newer NumPys have is given by its name.
    """
    for function in functions:
        known = getattr(np, function, None) if isinstance(function, str) else function
        if known is not None:
            implements(known)(Refused(fact.format(f"np.{display_name(known)}"), instead))


def refuses_at(holder: Any, fact: str, instead: str, names: str) -> None:
    """Register functions of a module of SciPy that nothing stands for; names that its version lacks are passed over."""
    for name in names.split():
        if hasattr(holder, name):
            implements_at(holder, name)(Refused(fact.format(f"{holder.__name__}.{name}"), instead))


def implements_at(holder: Any, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how functions that do not dispatch on their arguments are written with others.

    They are found by name in the holder: `scipy.linalg`, or `scipy.stats.norm`, whose methods they are.
    """

    def register(written: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[getattr(holder, name)] = written
            PLACES.append((holder, name))
        return written

    return register


def display_name(function: Callable[..., Any]) -> str:
    """``linalg.solve`` for `np.linalg.solve`."""
    name, home = function.__name__, getattr(function, "__module__", None) or ""
    return f"{home.removeprefix('numpy.')}.{name}" if home in ("numpy.linalg", "numpy.fft") else name


# ---- elementwise


def elementwise(
    function: Callable[..., Any],
    partials: Callable[..., Any] | None = None,
    *,
    dtype: Callable[..., np.dtype] | None = None,
    infix: str | None = None,
    prefix: str | None = None,
    spell: Callable[..., Code] | None = None,
    quick: Callable[..., Code | None] | None = None,
    scalar: str | Callable[..., Code] | None = None,
    keeps_weak: bool = False,
    commutes: bool = False,
    singular: bool | Callable[..., bool] = False,
    domain: tuple[float, float] | tuple[tuple[float, float], ...] | None = None,
    name: str | None = None,
    package: str = "",
    written: bool = False,
    **facts: Any,
) -> Op:
    """Define an operator that broadcasts its inputs and works elementwise.

    Parameters
    ----------
    function : callable
        A ufunc of one result, or a function with its behaviour.
    partials : callable, optional
        ``partials(y, *inputs)`` gives the partial derivative with respect to each input, a tuple when there are
        several; None for an input by which it is zero, an `Unknown` for one by which there is no formula. Written with
        NumPy. A partial of the form ``np.where(mask, p, 0)``
        also says that nothing flows where the mask is false. Without `partials` the operator has no derivative;
        where that is right because the result is constant piece by piece, say `flat`.
    dtype : callable, optional
        Gives the dtype of the result from the inputs' ``(dtype, weak)``; by default the ufunc's own resolution.
    infix, prefix : str, optional
        The Python operator that it is written with, between two inputs or before one.
    quick : callable, optional
        Another such spelling, see `operator`.
    scalar : str or callable, optional
        How it reads on Python floats: the name of a function, an expression in the inputs a, b and c, or a function of
        their `Code`. Its value is NumPy's. A function of `math` may raise ArithmeticError or ValueError where NumPy's
        would be infinite or NaN, and runs again under the same name in NumPy; an expression may not raise. By default
        Python's operator, or the function of `math`; without one, programs with this operator stay with NumPy.
    keeps_weak : bool
        Whether it is an operator of Python, which gives a Python number for one; `infix` and `prefix` say so as well.
    commutes : bool
        Whether the inputs may change places.
    singular : bool or callable
        Whether it or a partial can be infinite or NaN at a finite input; or that, by the intervals of the inputs.
        `singular_off_axis` among the facts says it of complex numbers alone.
    domain : (low, high), optional
        Where tests draw inputs from, or one such pair an input.
    name, package, written, **facts
        See `operator`.

    Returns
    -------
    Op
    """
    if dtype is None and not isinstance(function, np.ufunc):
        raise TypeError(
            f"{function.__name__} is no ufunc, which knows the dtype of its result: say dtype=, such as "
            "dtype=lambda *inputs: result_dtype(*inputs, float)"
        )
    resolve = dtype or cache(lambda *kinds: ufunc_dtypes(function, kinds, package or "np")[0])
    keeps_weak = keeps_weak or infix is not None or prefix is not None
    if package and not written and scalar is None:
        scalar = scalar_call

    def infer(*xs: Aval) -> Aval:
        result = resolve(*[kind_of(x) if x.weak else x.dtype for x in xs])
        weak = keeps_weak and result.kind != "b" and all([x.weak for x in xs])
        try:
            shape = broadcast_shapes(*[x.shape for x in xs])
        except ShapeError as error:
            raise ShapeError(f"{op.path}: {error.fact}", error.instead) from None
        for x in xs:  # one that is there already is equal at a glance
            if x.shape is shape and x.dtype is result and x.weak is weak:
                return x
        return Aval(shape, result, weak)

    if infix is not None and spell is None:
        spell = infix_spelling(infix, display_name(function))
        scalar = scalar or infix_of_floats(infix)
    if prefix is not None:
        spell = prefix_spelling(prefix, display_name(function))
        scalar = scalar or prefix_of_numbers(prefix)
    in_math = function.__name__.replace("arc", "a", 1)
    if scalar is None and in_math in IN_MATH and getattr(np, function.__name__, None) is function:  # not a user's own
        scalar = f"math.{in_math}"
    op = Op(
        name or display_name(function),
        function,
        infer,
        _bind_operands,
        partials=partials,
        spell=spell,
        signature=aligned,
        quick=quick,
        scalar=scalar,
        elementwise=True,
        keeps_weak=keeps_weak,
        commutes=commutes,
        pole=_POLES.get(infix or ""),
        singular=singular,
        domain=domain if domain is None or isinstance(domain[0], tuple) else (domain,),
        package=package,
        written=written,
        **facts,
    )
    TABLE[function] = op
    return registered(op)


@dataclass(frozen=True)
class Unknown:
    """In the place of a derivative for which there is no formula: the name of the input, what to do, and of what."""

    argument: str
    instead: str = ""
    of: str = ""  # the operator, unless it is said here


def flat(y: Array, *inputs: Array) -> tuple[None, ...]:
    """Partials of a function that is constant piece by piece: zero."""
    return (None,) * len(inputs)


def _bind_operands(*args: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    return [as_input(x) for x in args], {}


_POLES = {**dict.fromkeys(DIVISIONS, 1), "**": 0}

IN_MATH = frozenset(
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh "
    "hypot fmod fabs copysign radians degrees isnan isfinite isinf".split()
)
"""Functions of `math` that are those of NumPy for one number; ``arcsin`` is ``asin`` there."""


# ---- any operator


def operator(
    function: Callable[..., Any],
    *,
    infer: Callable[..., Any],
    vjp: Callable[..., Any] | None = None,
    batch: Callable[..., Any] | None = None,
    arrays: int = 1,
    bind: Callable[..., tuple[Sequence[Any], dict[str, Any]]] | None = None,
    name: str | None = None,
    evaluate: Callable[..., Any] | None = None,
    spell: Callable[..., Code] | None = None,
    quick: Callable[..., Code | None] | None = None,
    scalar: str | Callable[..., Code] | None = None,
    flops: Callable[..., Any] | None = None,
    signature: Callable[..., AxisSignature] | None = None,
    axes: Mapping[str, Callable[..., Any]] | None = None,
    joins: bool = False,
    linear: bool = False,
    selects: bool = False,
    singular: bool | Callable[..., bool] = False,
    view: bool = False,
    read_only: bool = False,
    write_back: Callable[..., Any] | None = None,
    package: str = "",
    written: bool = False,
    **facts: Any,
) -> Op:
    """Define an operator. The public door for a user's own operators, too.

    Parameters
    ----------
    function : callable
        The NumPy function, or your own on arrays. Calls of it with Variables are recorded; the Op that is returned
        can also be called in its place.
    infer : callable
        ``infer(*avals, **params)`` gives the Aval of the result, or a tuple of them. Its signature, in NumPy's order,
        is that of the operator: first `arrays` arrays, then parameters, with their defaults.
    vjp : callable, optional
        ``vjp(g, y, *inputs, **params)`` gives a tuple, the cotangent of each input or None, written with NumPy.
        Casts and the sums that undo broadcasting are not its concern.
    batch : callable, optional
        ``batch(batched, *inputs, **params)`` gives the results for many inputs at once: ``batched`` says of each input
        whether it has one more axis, the first. The result has it too. It is for what `signature` and `axes` do not
        say; where they do it may give NotImplemented. Without any of them symgrad works row by row.
    arrays : int
        How many arrays come first; -1 where the first argument is a sequence of arrays (`np.concatenate`).
    bind : callable, optional
        Turns the arguments of a call into (inputs, params), where NumPy's signature needs more than its names.
    evaluate : callable, optional
        Evaluates on arrays, by default `function`.
    spell : callable, optional
        ``spell(node, *inputs)`` gives the source as `Code`, by default a call of the NumPy function.
    quick : callable, optional
        The source where calls of NumPy are to take the least time, or None if that is no other.
    scalar : str or callable, optional
        The source on Python floats, for programs of scalars alone; see `elementwise`.
    flops : callable, optional
        ``flops(y, *inputs, **params)``, from Avals, gives the number of arithmetic operations; by default one for each
        number of the largest array.
    signature : callable, optional
        ``signature(y, *inputs, **params)``, from Avals, gives the `AxisSignature`: along which axes slices of the
        result are made from slices of the inputs. Where there are several results `y` is the first.
        `symgrad.core.axes` has those that are common, such as `aligned` for what broadcasts. By default every result
        needs all of the inputs.
    axes : mapping of str to callable, optional
        The parameters that speak of axes of the first input, each with how it does so: `axis_numbers`, `axis_order` or
        `result_shape` of `symgrad.core.axes`.
    joins : bool
        Whether the inputs are alike but for one axis, as those of `np.concatenate` are.
    linear : bool
        Whether it only moves, repeats or sums numbers.
    selects : bool
        Whether it leaves out numbers of its inputs on purpose, as `np.triu` does: then no NaN or infinity of their
        derivatives comes through.
    singular : bool or callable
        Whether the derivative can be infinite or NaN at finite inputs; or that, by the intervals of the inputs.
    view : bool
        Whether the result may share memory with the first input.
    read_only : bool
        Whether that view cannot be written into.
    write_back : callable, optional
        ``write_back(x, content, *rest, **params)``: what the first input `x` becomes when the view of it becomes
        `content`; `rest` are the other inputs.
    package : str
        The module that the function is called from in the source, if that is not NumPy: ``"scipy.linalg"``.
    written : bool
        Whether the text of `evaluate` is put into the modules that call it, with what it uses of its own module: for a
        function that neither NumPy nor a package has, written with these alone.
    **facts
        What else the scheduler may know of its time and its memory, `nanoseconds` and `out` for instance: the fields of
        `Op` that have these headings. And `interval`, in which the numbers of the result lie: a pair ``(low, high)``,
        or a function of the `Interval` of each input, such as ``lambda x, y: x + y``. And `branch_distance`, of an
        operator that is defined piece by piece: ``branch_distance(*inputs, **params)`` gives an array, or several,
        whose sign changes where another piece begins, such as ``lambda x: x`` of the absolute value.

    Returns
    -------
    Op

    Raises
    ------
    TypeError
        If `infer` takes fewer than `arrays` parameters.

    Examples
    --------
    Rounding, with the derivative of the identity:

    >>> import numpy as np, symgrad as sg
    >>> from symgrad.spelling import call
    >>> straight = sg.operator(
    ...     lambda x: np.rint(x),
    ...     name="straight",
    ...     infer=lambda x: x,
    ...     vjp=lambda g, y, x: (g,),
    ...     spell=lambda node, x: call("np.rint", [x.text]),
    ... )
    >>> sg.grad(lambda x: np.sum(straight(x) ** 2))(np.array([0.6, 2.2]))
    array([2., 4.])
    """
    for f in (function, infer):
        if not callable(f):
            raise ArgumentError(f"operator: {f!r} is not a function", "Give a function of arrays, and infer= of avals.")
    if unknown := facts.keys() - Op.__annotations__.keys():
        known = inspect.signature(operator).parameters
        instead = did_you_mean(min(unknown), known, f"It takes {', '.join(known)}.")
        raise ArgumentError(f"operator: unknown option {min(unknown)}=", instead)
    label = name or display_name(function)
    names, defaults = _signature(infer, arrays)
    op = Op(
        label,
        evaluate or function,
        infer,
        bind or _binder(label, arrays, names, defaults, package),
        vjp=vjp,
        batch=batch,
        spell=spell,
        quick=quick,
        scalar=scalar,
        flops=flops,
        signature=signature,
        axes=axes or {},
        joins=joins,
        linear=linear,
        selects=selects,
        singular=singular,
        view=view,
        read_only=read_only,
        write_back=write_back,
        package=package,
        written=written,
        defaults=defaults,
        **facts,
    )
    TABLE[function] = op
    return registered(op)


def _signature(infer: Callable[..., Any], arrays: int) -> tuple[list[str], dict[str, Any]]:
    """Names of the parameters behind the arrays, and their defaults."""
    parameters = list(inspect.signature(infer).parameters.values())
    if arrays >= 0:
        if len(parameters) < arrays:
            raise TypeError(f"infer takes {len(parameters)} arguments, the operator {arrays} arrays")
        own = parameters[arrays:]
    else:
        own = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    return [p.name for p in own], {p.name: p.default for p in own if p.default is not p.empty}


def _binder(
    label: str, arrays: int, names: list[str], defaults: dict[str, Any], package: str
) -> Callable[..., tuple[Sequence[Any], dict[str, Any]]]:
    def bind(*args: Any, **kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        if arrays < 0:
            inputs, rest = [as_input(x) for x in args[0]], args[1:]
        else:
            inputs, rest = [as_input(x) for x in args[:arrays]], args[arrays:]
        if len(rest) > len(names):
            raise UnsupportedError(
                f"{path_of(label, package)} takes {arrays + len(names)} arguments, {len(args)} were given",
                "Pass fewer, or the last ones by name.",
            )
        params = defaults | dict(zip(names, rest, strict=False)) | kwargs
        for key in params:
            if key not in names:
                refuse(label, key, package)
        first = inputs[0] if inputs else None
        return inputs, {key: canonical(label, key, value, first) for key, value in params.items()}

    return bind
