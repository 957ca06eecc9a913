"""Plans: a program over chunks of rows as a value, to be read, saved and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import Signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from symgrad.analysis.cost import as_expr, likely, operations
from symgrad.analysis.memory_profile import nbytes
from symgrad.compiler.compiled import Compiled
from symgrad.core.graph import Aval, Node
from symgrad.core.sizes import Dim, Size, symbols_of
from symgrad.core.text import counted, duration
from symgrad.frontend.trace import Program
from symgrad.loops.cost_model import whole_seconds
from symgrad.scale.recurrences import Border
from symgrad.scale.rounds import Join
from symgrad.scale.run import Accumulator, Bound, Sums

MANY = 1_000_000  # rows, of which an estimated time is told


class Step(NamedTuple):
    """A compiled part of a plan, and which values of the whole program it takes and gives.

    Attributes
    ----------
    compiled : Compiled
    given : tuple of (Node, bool)
        What it takes; with True chunks of it.
    made : tuple of Node
    sizes : tuple of str
        The sizes that it takes behind these.
    """

    compiled: Compiled
    given: tuple[tuple[Node, bool], ...]
    made: tuple[Node, ...]
    sizes: tuple[str, ...]


class Pass(NamedTuple):
    """A round of a plan: one pass over all chunks.

    Attributes
    ----------
    before : Step or None
        Makes what chunks share, of arguments and of partial results of earlier rounds.
    partial : Step
        Makes partial results, and rows of results, of a chunk.
    combine : Compiled or None
        Makes one tuple of partial results of two; None where there are none.
    joins : tuple of numpy.ufunc, int or None
        By result of `partial` how two are combined, or the axis of its rows; None for a carry.
    borders : tuple of Border
        Carries that each chunk leaves to its neighbour: then chunks are computed one after the other.
    """

    before: Step | None
    partial: Step
    combine: Compiled | None
    joins: tuple[Join, ...]
    borders: tuple[Border, ...]

    @property
    def reverse(self) -> bool:
        """Whether chunks are computed from the last to the first."""
        return any(border.reverse for border in self.borders)


@dataclass(repr=False)
class Plan:
    """A program as rounds over chunks of rows, which `split` makes.

    Attributes
    ----------
    whole : Compiled
        The program as one.
    n : str
        The name of the number of rows.
    rounds : tuple of Pass
    finish : Step or None
        Makes results of partial results; None where there is nothing left to compute.
    chunked : dict of str to int
        The arguments of which chunks are taken, by their paths, and along which axis.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> plan = sg.split(sg.compile(lambda x: np.max(x) - np.mean(x)), "float64[n]", axis="n")
    >>> len(plan.rounds), plan(np.array([1.0, 2.0, 6.0]), rows=2)
    (1, np.float64(3.0))
    """

    whole: Compiled
    n: str
    rounds: tuple[Pass, ...]
    finish: Step | None
    chunked: dict[str, int]
    inputs: dict[Node, str]  # of the whole program, and their paths among the arguments
    outputs: tuple[Node, ...]
    borders: tuple[Border, ...]
    check_nan: bool

    @property
    def program(self) -> Program:
        """Return the whole program as it was traced."""
        return self.whole.program

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def inputs_in_chunks(self) -> list[Node]:
        """Return the inputs of which chunks are taken."""
        return [x for x, path in self.inputs.items() if path in self.chunked]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compute the results; arguments are those of the function. See `run`."""
        return self.run(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Plan {self.name} along {self.n}, {_rounds(len(self.rounds))}>"

    def __str__(self) -> str:
        """Rounds, what each takes and gives, bytes that travel, the memory of a chunk, and an estimated time."""
        lines = [f"{self.name} along {self.n}: {_rounds(len(self.rounds))}"]
        for k, each in enumerate(self.rounds, start=1):
            lines += [f"round {k}", *_described(each), *self._estimated(each.partial)]
        if self.finish is not None:
            lines += ["finish", f"  {self.finish.compiled.signature}"]
        return "\n".join(lines)

    def _estimated(self, partial: Step) -> list[str]:
        """Return a line with the estimated time of a round; sizes that are not known are usual ones."""
        graph = partial.compiled.whole
        chunk = {y: x for (x, is_cut), y in zip(partial.given, graph.inputs, strict=True) if is_cut}
        if not chunk:
            return []
        y, x = next(iter(chunk.items()))
        m = y.aval.shape[self.chunked[self.inputs[x]]]
        times = MANY / likely(m)
        seconds = whole_seconds([node for node in operations(graph.outputs) if _has_rows(node, m)], times)
        read = sum([likely(nbytes(y.aval)) for y in chunk]) * times
        others = {str(n): n for y in graph.inputs for n in y.aval.shape if isinstance(n, Dim) and str(n) != str(m)}
        sizes = ", ".join([f"{name} = {likely(n)}" for name, n in others.items()])
        rows, bound = f"{MANY:,} rows" + (f" of {sizes}" if sizes else ""), duration(read / 1e9)
        return [f"  time      about {_one_digit(seconds)} for {rows}, an estimate; {bound} to read them at 1 GB/s"]

    @property
    def steps(self) -> Iterator[Step]:
        """All parts in the order in which they run."""
        for each in self.rounds:
            yield from (step for step in (each.before, each.partial) if step is not None)
        if self.finish is not None:
            yield self.finish

    @property
    def source(self) -> str:
        """The programs of all parts, in the order in which they run."""
        found: list[str] = []
        for each in self.rounds:
            parts = (each.before and each.before.compiled, each.partial.compiled, each.combine)
            found += [part.source.program for part in parts if part is not None]
        return "\n\n\n".join([*found, *([self.finish.compiled.source.program] if self.finish else [])])

    def save(self, folder: str | Path, overwrite: bool = False) -> list[Path]:
        """Write the parts as modules that run without symgrad; see `Compiled.save`.

        Returns
        -------
        list of Path
            In the order in which they run.
        """
        parts = [p for each in self.rounds for p in (each.before, each.partial, each.combine) if p is not None]
        made = [part if isinstance(part, Compiled) else part.compiled for part in (*parts, self.finish) if part]
        return [each.save(Path(folder) / f"{each.header.function}.py", overwrite) for each in made]

    def bind(
        self,
        /,
        *,
        rows: int | None = None,
        total: int | None = None,
        executor: Any = None,
        sums: Sums = "pairwise",
        checkpoint: str | Path | None = None,
        **chunked: Any,
    ) -> Bound:
        """Hold chunked arguments, for calls with the others: an objective over data.

        Parameters
        ----------
        rows : int, optional
            How many rows a chunk has where arrays are cut; by default as many as take some 64 MB.
        total : int, optional
            How many rows all chunks of an iterable have, for programs that need it before the last one.
        executor : optional
            Has ``submit(function, *args)``, which gives a future with ``result()``: an executor of
            `concurrent.futures`, or a client of Dask. By default chunks are computed here, one after the other,
            while the next one is read.
        sums : str
            ``"pairwise"``, or ``"compensated"`` for sums over chunks that lose no digits to rounding.
        checkpoint : str or Path, optional
            A file that keeps how far a call has come, every ten seconds: after an interruption the same call goes on
            from there. It is removed at the end.
        **chunked
            By their names the arguments of which chunks are taken: arrays, or whatever has a shape and can be
            sliced (memory maps, arrays of zarr or h5py); or ``chunks=``, an iterable of tuples or dicts of arrays.

        Returns
        -------
        Bound
            A function of the other arguments. Partial results are combined in the order of chunks, so results are the
            same to the bit whatever computes them.

        Raises
        ------
        ArgumentError
            For other arguments, or an iterator where the plan has several rounds.
        ShapeError
            If chunked arguments differ in their number of rows.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> slope = sg.grad(lambda w, x, y: np.mean((x * w - y) ** 2))
        >>> plan = sg.split(slope, "float64[]", "float64[n]", "float64[n]", axis="n")
        >>> objective = plan.bind(x=np.arange(6.0), y=np.ones(6), rows=4)
        >>> objective(np.float64(1.0)).round(6)
        np.float64(13.333333)
        """
        return Bound(self, chunked, rows, total, executor, sums, checkpoint)

    def accumulate(
        self, /, *args: Any, total: int | None = None, sums: Sums = "pairwise", **kwargs: Any
    ) -> Accumulator:
        """Begin to sum over chunks that come one by one, such as mini-batches whose gradients are accumulated.

        Parameters
        ----------
        *args, **kwargs
            The arguments that are not chunked.
        total, sums
            As `bind` takes them.

        Returns
        -------
        Accumulator
            Its ``add`` takes the arrays of a chunk by name, its ``result()`` gives the results over all so far.

        Raises
        ------
        ArgumentError
            If the plan has several rounds, which read all chunks several times.

        Examples
        --------
        >>> import numpy as np, symgrad as sg
        >>> slope = sg.grad(lambda w, x: np.mean((x - w) ** 2))
        >>> sums = sg.split(slope, "float64[]", "float64[n]", axis="n").accumulate(np.float64(0.0))
        >>> for batch in ([1.0, 2.0, 3.0], [4.0]):
        ...     sums.add(x=np.array(batch))
        >>> sums.result()
        np.float64(-5.0)
        """
        return Accumulator(self, args, kwargs, total, sums)

    def run(self, /, *args: Any, rows: int | None = None, executor: Any = None, **kwargs: Any) -> Any:
        """Compute the results for whole arguments, chunk by chunk; see `bind`."""
        given = Signature(self.program.parameters).bind(*args, **kwargs).arguments
        whole = {leaf.parameter for leaf in self.program.leaves if leaf.path in self.chunked}
        chunked = {name: x for name, x in given.items() if name in whole}
        shared = {name: x for name, x in given.items() if name not in whole}
        return self.bind(rows=rows, executor=executor, **chunked)(**shared)


def _rounds(count: int) -> str:
    return f"{count} round" + "s" * (count != 1)


def _described(each: Pass) -> list[str]:
    partial = each.partial.compiled
    lines = [f"  before    {each.before.compiled.signature}"] if each.before is not None else []
    lines.append(f"  a chunk   {partial.signature}")
    combined = [y for y, u in zip(partial.graph.outputs, each.joins, strict=True) if isinstance(u, np.ufunc)]
    ways = [u.__name__ for u in each.joins if isinstance(u, np.ufunc)]
    if each.borders:
        own = [border.given for border in each.borders]
        inputs = zip(each.partial.given, partial.graph.inputs, strict=True)
        names = ", ".join([dict(y.params)["name"] for (x, _), y in inputs if x in own])
        lines.append(
            f"  carried   {names}, " + ("from the last chunk to the first" if each.reverse else "from chunk to chunk")
        )
    if combined:
        lines.append(f"  combined  by {', '.join(ways)}; {counted(nbytes_of(combined))} bytes of each chunk travel")
    cost = partial.cost
    lines.append(f"  work      {counted(cost.flops)} operations for a chunk")
    lines.append(f"  memory    {counted(nbytes_of(partial.graph.inputs) + cost.peak - cost.scratch)} bytes for a chunk")
    return lines


def _has_rows(node: Node, m: Size) -> bool:
    """Whether an operation reads or makes rows of a chunk, rather than what all chunks share."""
    avals = [x.aval for x in (node, *node.inputs)]
    names = {name for aval in avals if isinstance(aval, Aval) for n in aval.shape for name in symbols_of(n)}
    return not names.isdisjoint(symbols_of(m)) or not all(isinstance(aval, Aval) for aval in avals)


def _one_digit(seconds: float) -> str:
    return duration(float(f"{seconds:.0e}"))


def nbytes_of(nodes: Sequence[Node]) -> Any:
    return sum((as_expr(nbytes(x.aval)) for x in nodes), 0)
