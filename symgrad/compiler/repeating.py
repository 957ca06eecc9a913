"""Calls of kernels that NumPy repeats: it warns and raises, where C raises flags of the processor, or fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.analysis.overflow import overflows_harmlessly
from symgrad.core.graph import Node, without_tokens
from symgrad.core.options import Options
from symgrad.core.region import with_nested
from symgrad.core.undo import contained
from symgrad.frontend.arguments import Leaf
from symgrad.lowering.systems import SYSTEMS
from symgrad.ops.define import TABLE
from symgrad.targets.c.partition import Kernel
from symgrad.targets.numpy.header import Header, parameter
from symgrad.targets.numpy.module import Source, emit
from symgrad.targets.numpy.names import Names

FLAGS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}  # as kernels tell them
FAILED = 16
"""The flag of a kernel that ends for an index out of bounds, a singular matrix, an extreme of no numbers, or a check
of the user's.
"""
RAISING = frozenset(TABLE[f] for f in (np.divide, np.floor_divide, np.remainder, np.power, np.reciprocal))
"""Operators of which Python's own raise for some numbers."""

SHOWN = ("always", "all", "error")  # actions of Python's filters for each warning anew


class Repeating:
    """Repeats calls of a kernel in NumPy, if anybody is to hear what that says; its source is written when needed.

    Python shows a warning of the same line once, unless its filters say otherwise. So where NumPy does no more than
    warn, the calls that are repeated are the first, second, fourth, eighth and so on, and the cost of a program in
    which numbers overflow at each call stays that of C.

    Parameters
    ----------
    kernel : Kernel
    function : str
        The name of the program.
    options : Options
    load : callable
        Makes a function of source.
    """

    def __init__(
        self, kernel: Kernel, function: str, options: Options, load: Callable[[Source], Callable[..., Any]]
    ) -> None:
        self.kernel, self.function, self.options, self.load = kernel, function, options, load
        nodes = list(with_nested(kernel.graph.live))
        self.raises = any(map(_may_raise, nodes))
        self.tells_overflow = not overflows_harmlessly(nodes)
        self._run: Callable[..., Any] | None = None
        self._source: Source | None = None
        self._calls = 0
        self._filters: tuple[Any, Sequence[Any]] = (None, ())

    def __call__(self, flags: int, *arguments: Any) -> Any:
        """Return what NumPy gives if that may differ, None if the results of C stay."""
        if flags == FAILED or (self.raises and flags & ~FLAGS["under"]):
            return self.again(*arguments)
        modes = np.geterr()
        if not self.tells_overflow:
            flags &= ~FLAGS["over"]
        asked = {modes[kind] for kind in _told(flags)} - {"ignore"}
        if asked and (asked != {"warn"} or self._is_heard()):
            self.again(*arguments)
        return None

    def again(self, *arguments: Any) -> Any:
        """Return what NumPy gives; its errors name the user's line."""
        run = self.run
        try:
            return run(*arguments)
        except Exception as error:
            from symgrad.compiler.raised import add_users_line  # for errors alone

            assert self._source is not None
            add_users_line(error, run.__code__.co_filename, self._source)
            raise

    @property
    def run(self) -> Callable[..., Any]:
        if self._run is None:
            self._run = contained(self._loaded)()
        return self._run

    def _is_heard(self) -> bool:
        """Whether a warning would be shown, or might be."""
        if any(action in SHOWN and issubclass(RuntimeWarning, kind) for action, _, kind, *_ in warnings.filters):
            return True
        known, content = self._filters
        if known is not warnings.filters or content != warnings.filters:
            self._filters = warnings.filters, list(warnings.filters)
            self._calls = 0
        self._calls += 1
        return self._calls & (self._calls - 1) == 0

    def _loaded(self) -> Callable[..., Any]:
        from symgrad.pipeline import schedule  # as where the program was compiled

        options = self.options
        graph = schedule(self.kernel.graph, options.optimize, options.numerics)
        names = Names(graph.names, [self.function, *self.kernel.sizes])
        called = {x: names.of(x) for x in graph.inputs}
        inputs = {x: Leaf(name, "", name, name) for x, name in called.items()}
        numbers = {n: Leaf(n, "", n, n, size=size) for n, size in self.kernel.symbols.items()}
        parameters = [parameter(name) for name in (*called.values(), *self.kernel.sizes)]
        outputs = without_tokens(graph.outputs)
        results: Any = outputs[0] if len(outputs) == 1 else tuple(outputs)
        header = Header(self.function, f"{self.function} again", parameters, inputs, results, numbers=numbers)
        self._source = emit(graph, header, options.optimize, threads=options.threads)
        return self.load(self._source)


def _told(flags: int) -> Sequence[str]:
    """Return the kinds of errors that flags may stand for: of ours and of compilers', one may stand for another."""
    under = FLAGS["under"]
    kinds = [kind for kind in FLAGS if kind != "under"] if flags & ~under else []
    return [*kinds, *["under"] * bool(flags & under)]


def _may_raise(node: Node) -> bool:
    """Whether Python computes a node, and may raise; or NumPy decides whether a matrix is singular."""
    return node.op in SYSTEMS or (node.op in RAISING and all(x.aval.weak for x in node.inputs))
