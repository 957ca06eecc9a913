"""The header of a generated module, and the signature of its function."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from symgrad.core.graph import Aval, Node
from symgrad.core.text import CALLED
from symgrad.frontend.arguments import Leaf
from symgrad.targets.numpy.hints import IMPORTS, Hint, hint_of, signature_lines
from symgrad.targets.numpy.names import Names


@dataclass
class Header:
    """The header of a module, and the signature of its function.

    `inputs` gives the place of each input node in the parameters; `results` is the tree of the results, a Node or a
    value in each place; `assumed` says what sizes are at least, ``n >= 2``; `needed` are the names of sizes and of
    packages that the body uses.
    """

    function: str
    summary: str
    parameters: Sequence[inspect.Parameter]
    inputs: Mapping[Node, Leaf]
    results: Any
    assumed: Sequence[str] = ()
    numbers: Mapping[str, Leaf] = field(default_factory=dict)  # by symbol the int arguments that are computed with
    hints: Mapping[str, Hint] | None = None  # the types of parameters, where they are written
    needed: frozenset[str] = frozenset()

    def using(self, sizes: Iterable[str], packages: Iterable[str]) -> Header:
        """Return the header for a body that reads these sizes and calls functions of these packages."""
        return replace(self, needed=frozenset([*sizes, *(package.partition(".")[0] for package in packages)]))

    @cached_property
    def local(self) -> dict[str, str]:
        """Return the body's names of the parameters: the user's, unless the body needs them for something else."""
        names = Names({}, [*self._given, *self.needed])
        return {name: names.fresh(name) if name in self.clashes else name for name in self._parameters}

    @cached_property
    def clashes(self) -> list[str]:
        """The names of parameters that the body needs for itself; an int argument may be a size of its name."""
        sizes = {leaf.parameter for name, leaf in self.numbers.items() if leaf.parameter + leaf.below == name}
        return sorted((CALLED | self.needed - sizes).intersection(self._parameters))

    @cached_property
    def inner(self) -> str:
        """The function that has the body."""
        if not self.clashes:
            return self.function
        return Names({}, [*self._given, *self.local.values()]).fresh(f"{self.function}_body")

    @cached_property
    def taken(self) -> tuple[str, ...]:
        """Names that nothing else in the body may have."""
        return (*self._given, *self.local.values(), self.inner, *self.needed)

    @cached_property
    def result_hint(self) -> Hint:
        return hint_of(self.results)

    def signature_lines(self) -> list[str]:
        """Return the first lines of the function."""
        if self.hints is None:
            return [f"def {self.function}{inspect.Signature(_bare(self.parameters))}:"]
        hinted = [p.replace(annotation=self.hints[p.name]) for p in _bare(self.parameters)]
        return signature_lines(self.function, hinted, self.result_hint)

    def hint_imports(self) -> list[str]:
        """Return the imports of type hints, of the standard library first."""
        hints = " ".join([*self.hints.values(), self.result_hint]) if self.hints is not None else ""
        return [line for name, line in IMPORTS.items() if name in hints]

    @property
    def _given(self) -> list[str]:
        return [self.function, *self._parameters]

    @property
    def _parameters(self) -> list[str]:
        return [p.name for p in self.parameters]

    def place(self, node: Node) -> str:
        """The Python expression for an input in terms of the parameters, as the body calls them."""
        leaf = self.inputs[node]
        return self.local[leaf.parameter] + leaf.below

    def signature(self, inputs: Sequence[Node]) -> str:
        """Arguments and results with dtypes and sizes."""
        arguments = [f"{self.inputs[node].path}: {_described(node.aval)}" for node in inputs]
        arguments += [f"{leaf.path}: int" for leaf in self.numbers.values()]
        results = ", ".join(_described(y.aval) for y in _leaves(self.results))
        return f"{', '.join([*arguments, *self.assumed])} -> {results}"


def parameter(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _bare(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    return [p.replace(default=p.empty, annotation=p.empty) for p in parameters]


def _described(aval: Aval) -> str:
    return "float" if aval.weak and aval.dtype.kind == "f" else str(aval)


def _leaves(tree: Any) -> list[Node]:
    if isinstance(tree, Node):
        return [tree]
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [node for child in children for node in _leaves(child)]
