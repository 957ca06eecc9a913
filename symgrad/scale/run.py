"""Run plans over chunks: here, while the next chunk is read, or on an executor."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from inspect import Signature
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from symgrad.core import tree
from symgrad.core.graph import Node
from symgrad.core.interpret import symbols_in
from symgrad.core.progress import Work, work
from symgrad.core.text import duration
from symgrad.errors import ArgumentError, NonFiniteError, ShapeError
from symgrad.frontend.foreign import plain
from symgrad.frontend.variable import Variable
from symgrad.scale.checkpoint import Done, File, State, key_of
from symgrad.scale.combining import Combining, Pairwise, Parts, compensated, plainly
from symgrad.scale.dask import Blocks, Carried, is_client
from symgrad.scale.sources import Chunk, Sliced, Streamed, ahead
from symgrad.scale.worker import Part, compute, is_finite

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled
    from symgrad.scale.plan import Pass, Plan, Step
    from symgrad.scale.recurrences import Border

CHUNK_BYTES = 64 << 20  # of the arguments that are cut, where nobody says how many rows a chunk has
AT_A_TIME = 2  # chunks for each worker that are on their way

_ALIKE = "Cut the rows into the same chunks each time: loops go on in each from where they have left its neighbour."

Found = tuple[Chunk, tuple[Any, ...]]  # a chunk, and what it gives
Sums = Literal["pairwise", "compensated"]


class Bound:
    """A plan with its chunked arguments: a function of the others; see `Plan.bind`."""

    def __init__(
        self,
        plan: Plan,
        chunked: Mapping[str, Any],
        rows: int | None = None,
        total: int | None = None,
        executor: Any = None,
        sums: Sums = "pairwise",
        checkpoint: str | Path | None = None,
    ) -> None:
        if sums not in ("pairwise", "compensated"):
            raise ArgumentError(f"sums={sums!r}", 'It is "pairwise" or "compensated".')
        if rows is not None and rows < 1:
            raise ArgumentError(f"rows={rows!r}", "A chunk has at least one row.")
        self.plan, self.executor, self.sums, self.checkpoint = plan, executor, sums, checkpoint
        self._leaves = [leaf for leaf in plan.program.leaves if leaf.path in plan.chunked]
        self.names = [leaf.path for leaf in self._leaves]
        self.source = self._source(dict(chunked), rows, total)

    def __repr__(self) -> str:
        return f"<Bound {self.plan.name} over {', '.join(leaf.path for leaf in self._leaves)}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compute the results; arguments are those of the function that are not chunked."""
        values, sizes = self.shared(args, kwargs)
        file = self._file(values)
        state = State([]) if file is None else file.read()
        results = Results(self.plan, values, sizes)
        for k, each in enumerate(self.plan.rounds):
            results.begin(each)
            if k == len(state.done):
                with work(f"{self.plan.name}, round {k + 1} of {len(self.plan.rounds)}") as going_on:
                    state = self._pass(each, results, state, file, going_on)
            results.end(each, state.done[k])
        found = results.finish()
        if file is not None:
            file.remove()
        return found

    def _pass(self, each: Pass, results: Results, state: State, file: File | None, going_on: Work) -> State:
        """Compute a round over all chunks, from where it was stopped; return the state behind it."""
        one = Round(self.plan, each, results, self.sums)
        if isinstance(self.source, Blocks):
            return State([*state.done, one.on_workers(self.source)])
        one.resume(state)
        with closing(self._found(one, len(state.lengths))) as results_of_chunks:
            for chunk, found in results_of_chunks:
                one.take(chunk, found)
                rate = (one.rows - sum(state.lengths)) / going_on.seconds
                going_on.step(_pace(one.rows, self.source.total, rate))
                if file is not None:
                    file.write(one.state(state.done))
        after = State([*state.done, one.result()])
        if file is not None:
            file.write(after, now=True)
        return after

    def _found(self, one: Round, first: int) -> Generator[Found, None, None]:
        """Yield what each chunk gives, in the order of chunks."""
        assert not isinstance(self.source, Blocks)
        given = self.source.chunks(first, one.back_from)
        with closing(ahead(given) if self.source.reads else given) as chunks:
            if self.executor is None:
                for chunk in chunks:
                    yield chunk, one.computed(chunk)
            else:
                yield from self._submitted(one, chunks)

    def _submitted(self, one: Round, chunks: Iterable[Chunk]) -> Iterator[Found]:
        """Yield what an executor makes of each chunk, a few of which it has at a time; or one, if it leaves a carry."""
        part, most = part_of(one.each.partial.compiled), AT_A_TIME * int(getattr(self.executor, "_max_workers", 4))
        most = 1 if one.each.borders else most
        waiting: deque[tuple[Chunk, Any]] = deque()
        for chunk in chunks:
            waiting.append((chunk, self.executor.submit(compute, *part, one.arguments(chunk))))
            if len(waiting) >= most:
                first_chunk, future = waiting.popleft()
                yield first_chunk, future.result()
        yield from ((chunk, future.result()) for chunk, future in waiting)

    # ---- what it is given

    def _source(self, given: dict[str, Any], rows: int | None, total: int | None) -> Sliced | Streamed | Blocks:
        names, axes = self.names, list(self.plan.chunked.values())
        if "chunks" in given:
            if len(given) > 1:
                raise ArgumentError("bind: chunks= and arrays as well", "Give the chunked arguments in one way.")
            source = Streamed(names, given["chunks"], axes, total)
            if any(each.reverse for each in self.plan.rounds) and not source.back:
                raise ArgumentError(
                    f"{self.plan.name} reads chunks from the last to the first, and a "
                    f"{type(given['chunks']).__name__} gives them forwards alone",
                    "Give arrays, a list of chunks, or an object that also has __len__ and __reversed__.",
                )
            if len(self.plan.rounds) > 1 and not source.again:
                raise ArgumentError(
                    f"{self.plan.name} reads all chunks {len(self.plan.rounds)} times, and an iterator gives them once",
                    "Give an iterable that begins anew, such as a list, or an object with __iter__.",
                )
            return source
        parameters = list(dict.fromkeys(leaf.parameter for leaf in self._leaves))
        if set(given) != set(parameters):
            raise ArgumentError(
                f"bind: {', '.join(given) or 'nothing'} was given",
                f"Give {', '.join(parameters)}: they are cut in chunks.",
            )
        whole = {
            leaf.parameter for leaf in self._leaves if not leaf.below
        }  # no tree: some arrays of others are classes
        arrays = [x for name in parameters for x in ([given[name]] if name in whole else tree.flatten(given[name])[0])]
        if len(arrays) != len(names):
            raise ArgumentError(f"bind: {len(arrays)} arrays for {', '.join(names)}", "Give one for each.")
        arrays = [x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x) for x in arrays]
        for node, name, x in zip(self.plan.inputs_in_chunks, names, arrays, strict=True):
            if (np.dtype(x.dtype), len(x.shape)) != (node.aval.dtype, node.aval.ndim):
                has = f"{np.dtype(x.dtype)}[{', '.join(map(str, x.shape))}]"
                raise ArgumentError(f"bind: {name} is {has}, the plan is for {node.aval}", "Convert it.")
        if is_client(self.executor):
            return Blocks(self.executor, names, arrays, axes, rows)
        return Sliced(names, arrays, axes, rows or _rows(arrays, axes))

    def shared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[Node, Any], dict[str, int]]:
        """Return the other arguments by input, and the sizes that these and the source tell."""
        program = self.plan.program
        own = {leaf.parameter for leaf in self._leaves}
        takes = Signature([p for p in program.parameters if p.name not in own])
        try:
            bound = takes.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.plan.name}: {error}", f"It takes {takes}.") from None
        bound.apply_defaults()
        leaves = [x for name in takes.parameters for x in tree.flatten(bound.arguments[name])[0]]
        wanted = [leaf for leaf in program.leaves if leaf.parameter not in own]
        if len(leaves) != len(wanted):
            raise ArgumentError(
                f"{self.plan.name}: {len(leaves)} arrays where it takes {len(wanted)}", f"It takes {takes}."
            )
        of_path = {path: x for x, path in self.plan.inputs.items()}
        values = {of_path[leaf.path]: plain(x, leaf.path) for leaf, x in zip(wanted, leaves, strict=True) if leaf.node}
        given = [(node, np.asarray(x)) for node, x in values.items()]
        if not isinstance(self.source, Streamed):
            given += zip(self.plan.inputs_in_chunks, self.source.arrays, strict=True)
        sizes: dict[str, int] = {}
        for node, x in given:
            for name, n in symbols_in(node.aval, x).items():
                if sizes.setdefault(name, n) != n:
                    fact = f"{self.plan.name}: {self.plan.inputs[node]} has {name} = {n}, others have {sizes[name]}"
                    raise ShapeError(fact, "Give arrays whose sizes agree.")
        if self.source.total is not None:
            sizes[self.plan.n] = self.source.total
        return values, sizes

    def _file(self, values: Mapping[Node, Any]) -> File | None:
        if self.checkpoint is None:
            return None
        texts = [str(step.compiled.source) for step in self.plan.steps]
        cut = (self.source.total, getattr(self.source, "rows", None), self.sums)
        return File(self.checkpoint, key_of(texts, values.values(), cut))


class Results:
    """Values of the whole program that are known: shared arguments, partial results of all chunks, and rows."""

    def __init__(self, plan: Plan, values: dict[Node, Any], sizes: dict[str, int]) -> None:
        self.plan, self.values, self.sizes = plan, values, sizes
        self.left: dict[Node, Any] = {}  # carries by the turn of the chunk that left them
        self.lengths: tuple[int, ...] = ()  # of the chunks at whose borders carries are known

    def begin(self, each: Pass) -> None:
        """Compute what the chunks of a round share."""
        if each.before is not None:
            self._call(each.before)

    def end(self, each: Pass, done: Done) -> None:
        """Take the results of a round."""
        self.sizes[self.plan.n] = sum(done.lengths)
        if each.borders:
            self.lengths = done.lengths[::-1] if each.reverse else done.lengths
        parts, gathered = iter(done.parts), iter(done.gathered)
        for x, join in zip(each.partial.made, each.joins, strict=True):
            self.values[x] = next(parts if isinstance(join, np.ufunc) else gathered)
            if join is None:
                self.left[x], self.values[x] = self.values[x], self.values[x][-1]

    def finish(self) -> Any:
        """Return the results of the function."""
        if self.plan.finish is not None:
            self._call(self.plan.finish)
        leaves, structure = tree.flatten(self.plan.program.outputs)
        found = (self.values[y] for y in self.plan.outputs)
        return tree.unflatten(structure, [next(found) if isinstance(x, Variable) else x for x in leaves])

    def size(self, name: str) -> int:
        if name not in self.sizes:
            what = "the number of all rows" if name == self.plan.n else "a size that only chunks tell"
            raise ArgumentError(
                f"{self.plan.name}: {name} is needed before the last chunk, {what}",
                "Say total=, where chunks come from an iterable." if name == self.plan.n else "Give arrays.",
            )
        return self.sizes[name]

    def _call(self, step: Step) -> None:
        given = [self.values[x] for x, _ in step.given] + [self.size(name) for name in step.sizes]
        self.values.update(zip(step.made, step.compiled(*given), strict=True))


class Round:
    """One pass over all chunks."""

    def __init__(self, plan: Plan, each: Pass, results: Results, sums: Sums) -> None:
        self.plan, self.each, self._results, self._sizes = plan, each, results, results.sizes
        partial, inputs = each.partial, plan.inputs_in_chunks
        self._which = [inputs.index(x) for x, is_cut in partial.given if is_cut]
        borders = {border.given: border for border in plan.borders}
        carries = [borders[x] for x, _ in partial.given if x in borders]
        self._known = [border for border in carries if border not in each.borders]  # of loops of earlier rounds
        self._own = [border for border in carries if border in each.borders]
        lengths = results.lengths[::-1] if each.reverse else results.lengths
        self._expected = lengths if carries else ()
        self.shared = [results.values[x] for x, is_cut in partial.given if not is_cut and x not in borders]
        self.shared += [results.size(name) for name in partial.sizes]
        self._parts = [i for i, join in enumerate(each.joins) if isinstance(join, np.ufunc)]
        self._gathers = [i for i, join in enumerate(each.joins) if not isinstance(join, np.ufunc)]
        self._ways = self._combining(sums)
        self.resume(State([]))

    def _combining(self, sums: Sums) -> Combining:
        if sums == "compensated":
            return compensated([join for join in self.each.joins if isinstance(join, np.ufunc)])
        return plainly(self.each.combine or (lambda left, right: ()))

    def resume(self, state: State) -> None:
        """Go on from a state; from the beginning where nothing is in it."""
        self._sums = Pairwise(self._ways, state.begun)
        self._gathered = dict(zip(self._gathers, map(list, state.gathered), strict=False))
        self._gathered = self._gathered or {i: [] for i in self._gathers}
        self._lengths = list(state.lengths)

    def state(self, done: list[Done]) -> State:
        """Return how far it has come, after the rounds that are done."""
        return State(done, tuple(self._sums.begun), tuple(self._gathered.values()), tuple(self._lengths))

    @property
    def rows(self) -> int:
        """Return how many rows have been taken."""
        return sum(self._lengths)

    @property
    def back_from(self) -> int | None:
        """Return the number of all rows where chunks are read from the last to the first."""
        return self._results.size(self.plan.n) if self.each.reverse else None

    def given(self, chunk: Chunk) -> list[Any]:
        """Return the arrays of a chunk that are needed, and the carries at its border."""
        self._check_length(chunk)
        return [*(chunk.arrays[i] for i in self._which), *self._carries(chunk.turn), *self._carries_on(chunk.turn)]

    def _check_length(self, chunk: Chunk) -> None:
        """Refuse a chunk of another length than in the round that has run the loops whose carries it needs."""
        expected = self._expected[chunk.turn : chunk.turn + 1] if self._expected else None
        if expected is not None and expected != (chunk.stop - chunk.start,):
            raise ShapeError(f"{self.plan.name}: {chunk} is another chunk than in the round before", _ALIKE)

    def _carries(self, turn: int) -> list[Any]:
        """Return the carries of loops of earlier rounds at the border of a chunk."""
        found = []
        for border in self._known:
            left = self._results.left[border.left]
            k = turn if border.reverse == self.each.reverse else len(left) - 1 - turn
            found.append(left[k - 1] if k else self._begun(border))
        return found

    def _carries_on(self, turn: int) -> list[Any]:
        """Return the carries that the chunk before has left."""
        if not turn:
            return list(map(self._begun, self._own))
        return [self._gathered[self.each.partial.made.index(border.left)][-1] for border in self._own]

    def _begun(self, border: Border) -> Any:
        return np.asarray(self._results.values[border.init], border.given.aval.dtype)[()]

    def arguments(self, chunk: Chunk) -> tuple[Any, ...]:
        """Return what is computed of a chunk takes; a chunk of other types or sizes is refused, whoever computes it."""
        args, compiled = (*self.given(chunk), *self.shared), self.each.partial.compiled
        try:
            return args if compiled.takes(args, {}) else compiled.guard.converted(args, {})[0]
        except ArgumentError as error:
            raise ArgumentError(f"{chunk}: {error.fact}", error.instead) from None

    def computed(self, chunk: Chunk) -> tuple[Any, ...]:
        """Compute a chunk here."""
        found: tuple[Any, ...] = self.each.partial.compiled(*self.arguments(chunk))
        return found

    def take(self, chunk: Chunk, found: tuple[Any, ...]) -> None:
        """Take what a chunk gives; chunks come in order."""
        if not self._lengths:  # it tells the sizes of the other axes
            told = map(symbols_in, [x.aval for x in self.plan.inputs_in_chunks], chunk.arrays)
            self._sizes.update({name: n for each in told for name, n in each.items() if name != self.plan.n})
        parts = tuple([found[i] for i in self._parts])
        if self.plan.check_nan and not is_finite(found):
            raise self._not_finite(chunk)
        self._sums.add(parts)
        for i, of_chunks in self._gathered.items():
            of_chunks.append(found[i])
        self._lengths.append(chunk.stop - chunk.start)

    def _not_finite(self, chunk: Chunk) -> NonFiniteError:
        return NonFiniteError(f"{self.plan.name}: {chunk} gives a result that is not finite", "Look at these rows.")

    def result(self) -> Done:
        """Return the results over all chunks."""
        if not self._lengths:
            raise ArgumentError(f"{self.plan.name}: the chunks have no rows", "Give at least one row.")
        if self._expected and len(self._lengths) != len(self._expected):
            fact = f"{self.plan.name}: there are {len(self._lengths)} chunks, {len(self._expected)} in the round before"
            raise ShapeError(fact, _ALIKE)
        if self.rows != self._sizes.get(self.plan.n, self.rows):
            fact = f"{self.plan.name}: the chunks have {self.rows:,} rows, not {self._sizes[self.plan.n]:,}"
            raise ShapeError(fact, "Give all rows in each round; total= is their number.")
        return self._done(self._sums.total(), self._gathered, self._lengths)

    def on_workers(self, source: Blocks) -> Done:
        """Compute the round where Dask's workers have the chunks."""
        own = [self.each.partial.made.index(border.left) for border in self._own]
        carried = Carried(self._carries, list(map(self._begun, self._own)), own, self.each.reverse)
        found = source.results(part_of(self.each.partial.compiled), self._which, self.shared, carried)
        if self.plan.check_nan and (worst := source.first_not_finite(found, self.each.reverse)) is not None:
            raise self._not_finite(worst)
        parts = source.combined(found, self._parts, part_of(self.each.combine)) if self.each.combine is not None else ()
        lengths = source.lengths[::-1] if self.each.reverse else source.lengths
        return self._done(parts, {i: source.gathered(found, i) for i in self._gathers}, lengths)

    def _done(self, parts: Parts, gathered: Mapping[int, list[Any]], lengths: Sequence[int]) -> Done:
        """Put rows together in their order, and carries in that of the chunks that left them."""
        put: list[Any] = []
        for i, of_chunks in gathered.items():
            axis = self.each.joins[i]
            in_order = of_chunks[::-1] if self.each.reverse else of_chunks
            put.append(np.stack(of_chunks) if axis is None else np.concatenate(in_order, axis=axis))
        return Done(parts, put, tuple(lengths))


class Accumulator:
    """Results of chunks that come one by one, as mini-batches do; see `Plan.accumulate`."""

    def __init__(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], total: int | None, sums: Sums
    ) -> None:
        if len(plan.rounds) != 1 or plan.rounds[0].reverse:
            needs = f"{len(plan.rounds)} rounds over all chunks" if len(plan.rounds) != 1 else "the last chunk first"
            raise ArgumentError(
                f"accumulate: {plan.name} needs {needs}",
                "Write plan.bind(chunks=...).",
            )
        bound = Bound(plan, {"chunks": ()}, total=total, sums=sums)
        self._plan, self._names = plan, bound.names
        self._values, self._sizes = bound.shared(args, kwargs)
        results = Results(plan, self._values, self._sizes)
        results.begin(plan.rounds[0])
        self._round = Round(plan, plan.rounds[0], results, sums)
        self._count = 0

    def add(self, **chunk: Any) -> None:
        """Take a chunk: its arrays by the names of arguments."""
        start = self._round.rows
        for one in Streamed(
            self._names, [chunk], list(self._plan.chunked.values()), None
        ).chunks():  # none without rows
            one = Chunk(self._count, start, start + one.stop, one.arrays, self._count)
            self._round.take(one, self._round.computed(one))
            self._count += 1

    def result(self) -> Any:
        """Return the results over all chunks so far."""
        results = Results(self._plan, dict(self._values), dict(self._sizes))
        results.end(self._plan.rounds[0], self._round.result())
        return results.finish()


def _pace(rows: int, total: int | None, rate: float) -> str:
    """Return how far a round has come, at how many rows a second, and the time left."""
    if total is None:
        return f"{rows:,} rows, {rate:,.0f} a second"
    return f"{rows:,} of {total:,} rows, {rate:,.0f} a second, {duration((total - rows) / max(rate, 1e-9))} left"


def part_of(compiled: Compiled) -> Part:
    """Return a part as it is sent: as text that runs without symgrad, or as a program where it has kernels in C."""
    name = compiled.header.function
    return Part(pickle.dumps(compiled), name) if compiled.native else Part(str(compiled.source), name)


def _rows(arrays: Sequence[Any], axes: Sequence[int]) -> int:
    """Return how many rows take as many bytes as a chunk shall have."""
    sizes = [prod([n for i, n in enumerate(x.shape) if i != axis]) for x, axis in zip(arrays, axes, strict=True)]
    row = sum([np.dtype(x.dtype).itemsize * size for x, size in zip(arrays, sizes, strict=True)])
    return max(CHUNK_BYTES // max(row, 1), 1)
