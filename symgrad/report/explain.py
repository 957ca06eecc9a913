"""Reports on compilations: stages, rewrites, loops, and the cost of the user's lines."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from symgrad.analysis.cost import Cost, as_expr, flops_of, operations, traffic_of
from symgrad.core.graph import CONSTANT, INPUT, ITEM, SIZE, Graph, Node
from symgrad.core.listing import node_names, place
from symgrad.core.recording import Applied, Log, StageRun
from symgrad.core.text import plain, visible
from symgrad.loops import reasons
from symgrad.loops.cost_model import whole_seconds
from symgrad.loops.loop import LOOP, Block
from symgrad.loops.scratch import scratch_bytes
from symgrad.pipeline import canonicalise
from symgrad.report.layout import rendered
from symgrad.report.mathematics import at_a_glance
from symgrad.report.sides import Naming, sides_of
from symgrad.rewrite.rules import Rule, effect_of
from symgrad.spelling import Code
from symgrad.targets.numpy.module import Source
from symgrad.targets.numpy.scalars import is_scalar

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled

SHOWN = 3  # operations in each other of a value without a name


class Stage(NamedTuple):
    """A stage of the compiler.

    Attributes
    ----------
    name : str
    about : str
        What it does.
    nodes : int
        What it leaves, as far as results need it; 0 of source.
    lines : int
        Of source; 0 of a graph.
    milliseconds : float
        How long it took, with all rules loaded.
    """

    name: str
    about: str
    nodes: int
    lines: int
    milliseconds: float


class Rewrite(NamedTuple):
    """A rewrite at a line of the user's.

    Attributes
    ----------
    rule : str
        The name of the rule, or of the stage where that looks at a program as a whole.
    before, after : str
        Both sides, down to what they have in common; letters stand for values without a name.
    where : str
        ``logistic.py:8``, or ``derivative of logistic.py:8``.
    changes : {"nan", "digits", "nothing"}
        What it can change: a NaN or an infinity, which ``numerics="ieee"`` leaves out; the last digits; nothing.
    stage : str
        In which it was applied there for the first time, with these sides.
    times : int
        How often it was.
    """

    rule: str
    before: str
    after: str
    where: str
    changes: str
    stage: str
    times: int


class LineCost(NamedTuple):
    """The cost of a line of the user's, or of its derivative.

    Attributes
    ----------
    where : str
        ``logistic.py:8``, or ``derivative of logistic.py:8``.
    text : str
        The line itself.
    operations : int
        How many there are.
    flops : int or sympy.Expr
        What they compute; see `Cost`.
    bytes : int or sympy.Expr
        What they read and write, each on its own, outside of loops.
    share : float
        Of the time of all operations one after the other, as estimated.
    """

    where: str
    text: str
    operations: int
    flops: Any
    bytes: Any
    share: float


class Loop(NamedTuple):
    """A loop over blocks of rows.

    Attributes
    ----------
    over : tuple of str
        What it reads block by block, ``X axis 0``.
    size : int or sympy.Expr
        How many rows there are.
    rows : int or sympy.Expr
        How many a block has.
    halo : int
        How many rows of its neighbours a block computes beside its own.
    operations : int
    sums : int
        How many results are sums over the blocks.
    threads : bool
    seconds : float
        What one thread takes for it, as estimated.
    buffers : int
    scratch : int or sympy.Expr
        Bytes of the buffers of one thread.
    hoisted : tuple of str
        What it reads whole, computed once before it.
    """

    over: tuple[str, ...]
    size: Any
    rows: Any
    halo: int
    operations: int
    sums: int
    threads: bool
    seconds: float
    buffers: int
    scratch: Any
    hoisted: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The report of a compilation; ``print`` it. Made by `Compiled.explain`.

    Attributes
    ----------
    program : str
        The name and the signature.
    options : dict of str to value
    traced : int
        The nodes of the program before the first stage.
    stages : list of Stage
    rewrites : list of Rewrite
        Those that can change a NaN first.
    lines : list of LineCost
        In the order of the user's program.
    loops : list of Loop
    cost : Cost
        That of the whole; see `Cost`.
    again : list of str
        What is computed again rather than kept.
    reasons : list of str
        Why it is run in such loops, or why it is not.
    unrolled : list of str
        The loops of the program that were unrolled because an iteration could not be traced, and why it could not.
    target : str
        ``"numpy"`` or ``"c"``; with ``target="auto"`` which program is in force, and why.
    """

    program: str
    options: dict[str, Any]
    traced: int
    stages: list[Stage]
    rewrites: list[Rewrite]
    lines: list[LineCost]
    loops: list[Loop]
    cost: Cost
    again: list[str]
    reasons: list[str]
    unrolled: list[str]
    target: str = "numpy"

    def __str__(self) -> str:
        return rendered(self)

    def _repr_html_(self) -> str:
        from symgrad.show.tables import report_view

        return report_view(self)

    def __repr__(self) -> str:
        return f"<Report of {self.program}>"

    def to_json(self) -> dict[str, Any]:
        """The report as a dict of plain JSON; sizes that are expressions are text."""
        return dict(plain(self))


def explained(made: Compiled, log: Log) -> Report:
    """The report of a compilation that was recorded."""
    loops = [_loop(node, made.graph) for node in made.graph.live if node.op is LOOP]
    names = node_names(made.whole)
    again = [place(x, names) for x in made.whole.live if x.where.again]
    return Report(
        f"{made.header.function}: {made.signature}",
        made.options.of_source(),
        len(made.program.graph.live),
        list(map(_stage, log.stages)),
        rewrites_of(made, log),
        _lines(made.whole),
        loops,
        made.cost,
        [*dict.fromkeys(again), *_said(log, reasons.again_in_loop)],
        _reasons(made, log),
        [f"{where}, {why}" for where, why in made.program.graph.unrolled.items()],
    )


def _stage(run: StageRun) -> Stage:
    about = (inspect.getdoc(run.function) or "").partition("\n")[0].partition(". ")[0].rstrip(".")
    nodes = len(run.result.live) if isinstance(run.result, Graph) else 0
    lines = run.result.text.count("\n") if isinstance(run.result, Source) else 0
    return Stage(run.function.__name__.strip("_"), about, nodes, lines, run.seconds * 1e3)


# ---- rewrites


def rewrites_of(made: Compiled, log: Log) -> list[Rewrite]:
    """The rewrites of a program and of the stages that are in the log, those that change most first."""
    return _merged(_rewrites(made.program.graph, log))


def _rewrites(traced: Graph, log: Log) -> Iterator[Rewrite]:
    """Yield the rewrites made during the trace, before differentiation, and those of the stages."""
    naming = Naming()
    before = (Applied(rule, canonicalise.__name__, x, y, traced, {}) for rule, x, y in traced.rewrites)
    for applied in (*before, *log.rewrites):
        rule, sides = applied.rule, sides_of(applied, naming)
        name = rule.name if isinstance(rule, Rule) else rule.__name__.strip("_")
        changes = effect_of(rule)
        yield Rewrite(name, sides.before, sides.after, applied.before.where.in_words, changes, applied.stage, 1)


def _merged(found: Iterable[Rewrite]) -> list[Rewrite]:
    """Merge equal rewrites at one line; those that change most come first."""
    first: dict[tuple[str, str], Rewrite] = {}
    times: Counter[tuple[str, str]] = Counter()
    for each in found:
        if each.before != each.after:  # else a value under another identity, or a number of another type
            first.setdefault((each.rule, each.where), each)
            times[each.rule, each.where] += 1
    merged = [each._replace(times=times[key]) for key, each in first.items()]
    return sorted(merged, key=lambda each: ("nan", "digits", "nothing").index(each.changes))


# ---- lines


def _lines(graph: Graph) -> list[LineCost]:
    """Return the cost of lines, in the order of the user's program, each before its derivative."""
    by_line: dict[tuple[str, int, str], list[Node]] = {}
    for node in operations(graph.outputs):
        where = node.where
        by_line.setdefault((where.file, where.line, where.in_words), []).append(node)
    total = whole_seconds(operations(graph.outputs), 1.0) or 1.0
    own = next(iter(by_line), ("",))[0]  # the user's file comes before those of what it calls
    found = sorted(by_line.items(), key=lambda item: (item[0][0] != own, *item[0][:2], len(item[0][2])))
    return [
        LineCost(
            key[2],
            nodes[0].where.text,
            len(nodes),
            as_expr(sum(map(flops_of, nodes), 0)),
            as_expr(sum(map(traffic_of, nodes), 0)),
            whole_seconds(nodes, 1.0) / total,
        )
        for key, nodes in found
    ]


# ---- loops


def _loop(node: Node, graph: Graph) -> Loop:
    block: Block = dict(node.params)["body"]
    names = node_names(graph)
    over = [f"{names[x]} axis {cut.axis}" for x, cut in zip(node.inputs, block.cuts, strict=True) if cut is not None]
    whole = [x for x, cut in zip(node.inputs, block.cuts, strict=True) if cut is None]
    return Loop(
        tuple(dict.fromkeys(over)),
        as_expr(block.size),
        block.step,
        block.layout.halo,
        len(operations(block.graph.outputs)),
        sum(not isinstance(join, int) for join in block.joins),
        block.threads,
        block.seconds,
        len(block.layout.buffers),
        scratch_bytes([block]),
        tuple(f"{x.where.in_words}  {_read(x, names)}" for x in whole if x.op not in (INPUT, CONSTANT, SIZE, ITEM)),
    )


def _read(node: Node, names: dict[Node, str]) -> str:
    """A value by its name, or as it is made."""
    known = lambda x: None if names[x].startswith("%") else Code(names[x])
    return visible(at_a_glance(node, known, SHOWN).text)


def _reasons(made: Compiled, log: Log) -> list[str]:
    """Return the reasons for the loops along the chosen axis; or those against loops, as far as known."""
    if chosen := _said(log, reasons.chosen):
        return chosen
    if made.options.optimize < 2:
        return [f"optimize={made.options.optimize} writes no loops; optimize=2 does"]
    if is_scalar(made.graph):
        return ["the program computes with numbers alone"]
    return list(dict.fromkeys(text for _, text in log.reasons))


def _said(log: Log, reason: Callable[..., str]) -> list[str]:
    return [text for kind, text in log.reasons if kind is reason]
