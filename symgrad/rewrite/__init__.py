"""Simplification: a graph in, a new graph out that computes the same outputs in fewer and stabler operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType

from symgrad.errors import ArgumentError
from symgrad.graph import Graph, Node, Op
from symgrad.recording import staged
from symgrad.rewrite import (
    algebra,
    batched,
    cheaper,
    crossentropy,
    fastest,
    masks,
    matrices,
    order,
    patches,
    pieces,
    prepare,
    products,
    repeats,
    stable,
    sums,
)
from symgrad.rewrite.common import take_out
from symgrad.rewrite.engine import Procedure, Rule, Rules, copied, rewrite, rewrite_within, stable_only
from symgrad.rewrite.factors import multiple_of_part
from symgrad.rewrite.gathered import gather
from symgrad.rewrite.logistic import share_exponentials
from symgrad.rewrite.regroup import regroup
from symgrad.rewrite.slices import join_slices
from symgrad.rewrite.strips import strips
from symgrad.rewrite.structure import procedures
from symgrad.rewrite.turned import copy_turned

__all__ = [
    "FASTEST",
    "FINAL",
    "NUMERICS",
    "PASSES",
    "Pass",
    "copy_turned",
    "drop_dead",
    "finish",
    "gather",
    "hasten",
    "improve",
    "improved",
    "join_slices",
    "optimise",
    "regroup",
    "rules_of",
    "settle",
    "share_exponentials",
    "simplify",
    "strips",
    "take_out",
    "write",
]

Pass = Callable[[Graph, str], Graph]
NAN, DIGITS, NOTHING = "nan", "digits", "nothing"
"""What a rewrite can change: a NaN, an infinity or a right answer's range; the last digits; nothing at all."""

NUMERICS = ("stable", "ieee")


def improve(graph: Graph, numerics: str = "stable") -> Graph:
    """Fold, simplify and stabilise in one walk.

    It stands before differentiation because the derivative of a stable form is stable, where that of
    ``log(1 + exp(x))`` is inf / inf. Marks such as `stop_gradient` stay.
    """
    return rewrite(graph, rules_of("improve", numerics))


def finish(graph: Graph, numerics: str = "stable") -> Graph:
    """Fold, simplify and stabilise what will run; marks go, forms that are cheap and read well come.

    It stands after differentiation because derivative rules make operations for the general case: products with
    one, sums over what was only repeated.
    """
    return rewrite(graph, rules_of("finish", numerics))


def hasten(graph: Graph, numerics: str = "stable") -> Graph:
    """The forms that run fastest. It stands apart because no other rule knows these forms."""
    return rewrite(graph, rules_of("hasten", numerics))


def settle(graph: Graph, numerics: str = "stable") -> Graph:
    """The kernel of each contraction. It stands after `hasten`, which does not see contractions in views."""
    return rewrite(graph, rules_of("settle", numerics))


@stable_only
def write(graph: Graph, numerics: str = "stable") -> Graph:
    """Large arrays written once. It stands after scheduling, which puts them together in blocks where it can."""
    if not any(node.op in pieces.LATE and pieces.waits(node) for node in graph.nodes):
        return graph
    return copied(rewrite(graph, rules_of("write", numerics)))


def drop_dead(graph: Graph, numerics: str = "stable") -> Graph:
    """Only what the outputs need, and the inputs. It stands last because rewriting leaves behind what it replaced."""
    return copied(graph)


PASSES: tuple[Pass, ...] = (improve, drop_dead)
"""Before differentiating."""

FINAL: tuple[Pass, ...] = (finish, drop_dead)
"""Before scheduling."""

FASTEST: tuple[Pass, ...] = (
    *(strips, join_slices, gather),  # what looks at products of matrices as they were written
    *(hasten, share_exponentials, take_out, regroup, settle, copy_turned, drop_dead),
)
"""And what follows at the highest level of optimisation."""

TABLES: dict[str, tuple[ModuleType, ...]] = {
    "improve": (algebra, prepare, stable),
    "finish": (algebra, stable, cheaper, matrices),
    "hasten": (algebra, fastest),
    "settle": (),
    "write": (algebra, fastest),
}


def simplify(graph: Graph, numerics: str = "stable", final: bool = False) -> Graph:
    """A new graph that computes ``graph.outputs``.

    Parameters
    ----------
    graph : Graph
        With ``outputs`` set. It is left as it is.
    numerics : {"stable", "ieee"}
        "ieee" leaves out every rule that can change a NaN or an infinity, or a zero of which one may be made.
    final : bool
        Whether the graph will not be differentiated again.

    Returns
    -------
    Graph
        Its ``inputs`` and ``outputs`` are the images of those of `graph`, in the same order.

    Raises
    ------
    ArgumentError
        If `numerics` is something else.
    """
    for each in FINAL if final else PASSES:
        graph = staged(each, graph, numerics)
    return graph


def improved(
    graph: Graph, outputs: Sequence[Node], wrt: Sequence[Node], numerics: str = "stable", since: int = 0
) -> tuple[list[Node], list[Node]]:
    """`improve` in the middle of a trace, where a new graph is not possible.

    Appends to `graph`, and gives the images of `outputs` and of `wrt`: differentiate those. An intermediate in `wrt`
    becomes an alias, which no rule sees through. Nodes older than `since` stay as they are.
    """
    image = rewrite_within(graph, rules_of("improve", numerics), outputs, wrt, since)
    return [image[y] for y in outputs], [image[x] for x in wrt]


def optimise(graph: Graph, optimize: int = 2, numerics: str = "stable") -> Graph:
    """What runs at a level of optimisation: at 0 the graph as it is, but for what is not needed."""
    for each in ((drop_dead,), FINAL, (finish, *FASTEST))[optimize]:
        graph = staged(each, graph, numerics)
    return graph


def effect_of(rewrite: Rule | Procedure | Pass, stage: str, op: Op) -> str:
    """What a rule can change that a stage applies to an operator, or the stage itself: NAN, DIGITS or NOTHING.

    Whatever ``numerics="ieee"`` leaves out may change a NaN, unless it is marked as exact.
    """
    if getattr(rewrite, "exact", False):
        return NOTHING
    if isinstance(rewrite, Rule):
        left_out = rewrite.changes_nan
    elif stage in TABLES:
        left_out = rewrite not in _procedures(stage, "ieee")(op)
    else:
        left_out = getattr(rewrite, "stable_only", False)
    return NAN if left_out else DIGITS


@cache
def rules_of(stage: str, numerics: str) -> Rules:
    """The rules of a walk, traced when they are first needed."""
    if numerics not in NUMERICS:
        raise ArgumentError(f"numerics={numerics!r}", 'Write numerics="stable" or numerics="ieee".')
    rules = [r for table in TABLES[stage] for r in vars(table).values() if isinstance(r, Rule)]
    if numerics == "ieee":  # the two sides of a rule may be equal where their derivatives round differently
        rules = [] if stage == "improve" else [r for r in rules if not r.changes_nan]
    return Rules(rules, _procedures(stage, numerics))


def _procedures(stage: str, numerics: str) -> Callable[[Op], list[Procedure]]:
    general = partial(procedures, final=stage != "improve", numerics=numerics)
    if stage == "improve" and numerics == "stable":
        return lambda op: [*general(op), *crossentropy.OF.get(op, [])]
    if stage in ("improve", "finish"):
        return general
    if stage == "settle":
        return lambda op: batched.OF.get(op, [])
    modules = (masks, sums, order, pieces, products, repeats, patches, fastest) if numerics == "stable" else ()

    def of(op: Op) -> list[Procedure]:
        kept = [each for each in general(op) if each is not multiple_of_part]  # of what is there whole
        late = pieces.LATE.get(op, ()) if stage == "write" else ()
        return [*kept, *(each for module in modules for each in module.OF.get(op, ())), *late]

    return of
