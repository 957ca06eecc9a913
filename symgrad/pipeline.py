"""The pipeline: the list of stages in order, with what each takes and gives, and the reason for its place.

    call          arrays become specs; is there a program for these?    compiler/function.py, compiler/cache.py
    trace         a function in NumPy becomes a graph                   frontend/trace.py, transforms/differentiation.py
    BEFORE        one spelling for each thing, in stable forms          in the trace, before each derivative
    pullback      derivatives are appended, again for each order        derivatives/pullback.py
    OPTIMISE      fewer and stabler operations; at level 2 faster ones  the program as a whole
    SCHEDULE      loops over blocks of rows                             level 2
    emit, load    the graph as source, and the source as a function     targets/numpy/, compiler/compiled.py

A stage is a function from a graph, and which numerics are wanted, to a new graph. It is verified in the tests on its
way in and out, and ``explain()`` shows what each of them did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from types import ModuleType
from typing import NamedTuple

from symgrad.analysis.cost import note_columns
from symgrad.control.branches import join_branches, simplify_branches
from symgrad.control.checks_first import checks_first
from symgrad.control.dead import drop_dead_results
from symgrad.control.fission import hoist_maps
from symgrad.control.fuse import fuse_loops
from symgrad.control.invariants import hoist_invariants, inline_constants
from symgrad.control.inverses import hoist_inverses, use_inverses
from symgrad.control.linear_updates import factor_updates
from symgrad.control.loop_residuals import with_fewer_residuals
from symgrad.control.open_branches import with_open_branches
from symgrad.control.scalar_replacement import replace_arrays
from symgrad.control.sink import rematerialise_ys, sink_maps, sink_sums
from symgrad.control.slices import slice_reads
from symgrad.control.surroundings import may_share_loops, read_surroundings, without_aliases
from symgrad.core.graph import Graph, Node, Part
from symgrad.core.progress import step
from symgrad.core.recording import running, staged
from symgrad.core.region import with_nested
from symgrad.errors import ArgumentError
from symgrad.loops.column_order import keep_columns
from symgrad.loops.tiling import nest
from symgrad.lowering.view_copies import copy_views
from symgrad.ops.checkpoint import open_checkpoints
from symgrad.ops.elementwise import DIFFERENCE, LOGISTIC
from symgrad.products import contraction_lowering, contraction_order, deltas, factors, masks, patches, scaled, sums
from symgrad.products.collapse_batch import collapse_batch
from symgrad.products.polynomials import collect, expand
from symgrad.products.restrict import restrict
from symgrad.rewrite import (
    access,
    algebra,
    arrays,
    cheaper,
    folding,
    logistic,
    multiples,
    pieces,
    plane,
    prepare,
    repetition,
    scatter,
    signs,
    size_factors,
    stable,
    structure,
)
from symgrad.rewrite.complements import reuse_values
from symgrad.rewrite.engine import copied, in_bodies, rewrite
from symgrad.rewrite.rules import Rule, Rules, in_table, stable_only
from symgrad.targets.c.forms import with_forms
from symgrad.targets.numpy import idioms, logistic as exponentials
from symgrad.targets.numpy.scalars import fit_in_loop
from symgrad.targets.target import NUMPY, C, Target

NUMERICS = ("stable", "ieee")


# ---- stages that apply rules


def canonicalise(graph: Graph, numerics: str = "stable") -> Graph:
    """Fold, simplify and stabilise before a derivative; marks such as `stop_gradient` stay."""
    return rewrite(graph, rules_of("canonicalise", numerics))


def simplify(graph: Graph, numerics: str = "stable") -> Graph:
    """Fold, simplify and stabilise the program that will run: drop marks, choose forms that are cheap and read well."""
    return rewrite(graph, rules_of("simplify", numerics))


def specialise(graph: Graph, numerics: str = "stable") -> Graph:
    """Rewrite operations into the forms that run fastest."""
    return rewrite(graph, rules_of("specialise", numerics))


def lower_logistic(graph: Graph, numerics: str = "stable") -> Graph:
    """Replace logistic functions by exponentials, and differences of what may be infinite by choices."""
    if all(node.op not in (LOGISTIC, DIFFERENCE) for node in with_nested(graph.live)):
        return graph
    return rewrite(graph, rules_of("lower_logistic", numerics))


def lower_contractions(graph: Graph, numerics: str = "stable") -> Graph:
    """Choose the kernel of each contraction."""
    return rewrite(graph, rules_of("lower_contractions", numerics))


def fold_identities(graph: Graph, numerics: str = "stable") -> Graph:
    """Fold small identity matrices, and values computed from them and other constants."""
    after = folding.identities_known(graph)
    return graph if after is graph else rewrite(after, rules_of("fold_identities", numerics))


def choose_residuals(graph: Graph, numerics: str = "stable") -> Graph:
    """Choose the residuals of a loop and its pullback again."""
    return with_fewer_residuals(graph, lambda turn: in_bodies(reuse_values)(simplify(turn, numerics), numerics))


@stable_only
def use_factors(graph: Graph, numerics: str = "stable") -> Graph:
    """Factor updates that are linear in the carry of a loop, with factors made before the loop."""
    return factor_updates(graph, fit_in_loop)


def use_numbers(graph: Graph, numerics: str = "stable") -> Graph:
    """Replace small arrays in loops by their elements, where that is faster."""
    return replace_arrays(graph, fit_in_loop)


def drop_dead(graph: Graph, numerics: str = "stable") -> Graph:
    """Drop dead code; inputs stay."""
    return copied(graph)


# ---- the list


def always(graph: Graph) -> bool:
    """Whether to run a stage without a quick test: always."""
    return True


class Stage(NamedTuple):
    """A step from a graph to the next; the same graph if there is nothing to do.

    Stages of `BEFORE` also take a part of a graph that is being traced, and append to it: see `Part`.
    """

    run: Callable[[Graph, str], Graph]  # takes a graph and the numerics
    level: int  # the lowest ``optimize=`` at which it runs
    takes: str  # the programs that it changes
    gives: str  # what they become
    why: str  # the reason for its place
    by_calls: bool | None = None  # whether it is for targets whose operations are calls, or for all others alone
    when: Callable[[Graph], bool] = always  # a quick test; consecutive stages with the same test are tested once
    again_after: str = ""  # for a repeated stage: the stage that must have changed the program

    @property
    def name(self) -> str:
        return self.run.__name__


BEFORE = (
    Stage(
        canonicalise,
        level=1,
        takes="values of the user's function",
        gives="the same values in canonical and stable forms, with constants folded",
        why="the derivative of a stable form is stable, where that of log(1 + exp(x)) is inf / inf",
    ),
    Stage(
        slice_reads,
        level=1,
        takes="loops that read arrays at affine indices",
        gives="loops with these arrays among their xs",
        why="the derivative of an index adds to a whole array in each iteration, that of a slice is stacked",
    ),
    Stage(
        use_factors,
        level=2,
        takes="loops that add up several products of their carry in each iteration",
        gives="loops with one product, whose factor is computed before the loop",
        why="the derivative of one product is one product, and that of the factors is taken for all iterations at once",
    ),
    Stage(
        expand,
        level=1,
        takes="sums of products with like terms",
        gives="plain sums of products, if these are fewer operations",
        why="each order of a derivative starts small; rules have made the arithmetic plain",
    ),
)
"""Stages before each derivative; `canonicalised` applies them in the middle of a trace."""

UNITE = (
    Stage(
        in_bodies(without_aliases),
        level=1,
        takes="loops that may be equal in canonical form, also in neighbouring branches",
        gives="the program without aliases",
        why="all derivatives have been taken, and only these need aliases",
        when=may_share_loops,
    ),
    *(
        stage._replace(why="loops that compute the same are equal in canonical form", when=may_share_loops)
        for stage in BEFORE
        if stage.level == 1
    ),
    Stage(
        in_bodies(fuse_loops),
        level=1,
        takes="independent loops over the same range",
        gives="one loop, without equal results",
        why="the canonical form shows which loops are alike",
        when=may_share_loops,
    ),
    Stage(
        in_bodies(read_surroundings, inner_first=True),
        level=1,
        takes="branches with common subexpressions of the program around them",
        gives="branches that read these from outside, and loops in branches fused with loops outside",
        why="loops outside have been fused; residuals are chosen later",
        when=may_share_loops,
    ),
)
"""Fusion of loops that differ only in form, or of which one is in a branch; run again where loops change."""

OPTIMISE = (
    Stage(
        in_bodies(open_checkpoints),
        level=0,
        takes="the program with all of its derivatives",
        gives="the contents of checkpoints, inlined",
        why="later stages see rematerialised values beside all others",
    ),
    Stage(
        in_bodies(fuse_loops),
        level=0,
        takes="loops over the same range that share carries or inputs",
        gives="one fused loop, without equal results",
        why="a derivative appends a loop beside the one that it needs more of",
    ),
    Stage(
        in_bodies(join_branches),
        level=1,
        takes="branches on one predicate",
        gives="one branch with the results of all",
        why="a derivative appends a branch beside the one that it needs more of",
    ),
    *UNITE,
    Stage(
        in_bodies(use_factors),
        level=2,
        takes="loops that add up several products of their carry in each iteration",
        gives="loops with one product, whose factor is computed before the loop",
        why="a loop that was not differentiated has not been factored, and can be fused with a derivative that has",
    ),
    *(stage._replace(again_after="use_factors") for stage in UNITE),
    Stage(
        in_bodies(simplify_branches),
        level=1,
        takes="branches both of whose sides return an operand unchanged",
        gives="the operand itself, no longer carried",
        why="rules look at the carry next",
    ),
    Stage(
        in_bodies(drop_dead_results),
        level=0,
        takes="loops and branches with all that derivatives have appended",
        gives="loops without unused carries, outputs and inputs",
        why="equal carries are merged when loops are fused",
    ),
    Stage(
        in_bodies(inline_constants),
        level=1,
        takes="loops and branches that read numbers and arrays of one number",
        gives="bodies with the constants inlined",
        why="rules look for zeros and ones, which derivatives start with",
    ),
    Stage(
        simplify,
        level=1,
        takes="the program with all of its derivatives",
        gives="the code that a careful person would have written, without marks",
        why="derivative rules emit the general case: products with one, sums over repeated axes",
    ),
    Stage(
        in_bodies(collect),
        level=1,
        takes="sums of products with like terms",
        gives="polynomials with few operations",
        why="it counts operations, so rules have to simplify them before",
    ),
    Stage(
        in_bodies(reuse_values),
        level=1,
        takes="logistic functions of a value and of its negative",
        gives="logistic functions of a value, and their differences from one where these are as precise",
        why="derivatives and rules look for the separate functions",
    ),
    Stage(
        in_bodies(with_open_branches(use_numbers)),
        level=2,
        takes="loops over small arrays",
        gives="loops over their elements, where Python is faster than NumPy",
        why="the work of an iteration is known once rules have been applied; residuals are chosen later",
        by_calls=True,
    ),
    Stage(
        simplify,
        level=2,
        takes="loops over elements of arrays",
        gives="simpler arithmetic of these elements",
        why="each element is computed by the operation of its array, in full",
        again_after="use_numbers",
    ),
    Stage(
        in_bodies(inline_constants),
        level=2,
        takes="loops that read elements of which some are numbers",
        gives="bodies with these numbers inlined",
        why="an element may be a constant in an array that is not",
        again_after="use_numbers",
    ),
    Stage(
        simplify,
        level=2,
        takes="bodies with numbers in them",
        gives="less arithmetic",
        why="zeros and ones have been inlined",
        again_after="use_numbers",
    ),
    Stage(
        in_bodies(reuse_values),
        level=2,
        takes="logistic functions of an element and of its negative",
        gives="one of them, and its difference from one",
        why="simplification has turned such differences back into logistic functions",
        again_after="use_numbers",
    ),
    Stage(
        in_bodies(hoist_inverses),
        level=2,
        takes="loops that solve linear systems with one matrix in all iterations",
        gives="loops that multiply with its inverse",
        why="residuals are chosen next, and an inverse serves the loop and its pullback",
    ),
    Stage(
        in_bodies(use_inverses),
        level=2,
        takes="loops that solve other small linear systems",
        gives="loops that multiply with inverses, shared or made for all iterations at once",
        why="matrices that no iteration changes have their inverse; residuals are chosen next",
        by_calls=True,
    ),
    Stage(
        in_bodies(with_open_branches(choose_residuals)),
        level=1,
        takes="loops and their pullbacks",
        gives="fewer residuals, chosen for an iteration and its pullback together",
        why="the cost of values is known once rules have been applied",
    ),
    Stage(
        in_bodies(simplify_branches),
        level=1,
        takes="branches on a known predicate, or with results that both sides compute alike, or that are True or False",
        gives="the side that is taken, with common results moved out, and logical operations with the predicate",
        why="rules have found known predicates and equal values",
    ),
    Stage(
        in_bodies(drop_dead_results),
        level=1,
        takes="loops with carries that no iteration changes any more",
        gives="loops that read these as consts",
        why="rules have found that what a derivative clears it adds again; values of consts are hoisted next",
    ),
    Stage(
        in_bodies(hoist_invariants, inner_first=True),
        level=1,
        takes="loops with loop-invariant values",
        gives="loops with these values hoisted",
        why="rules have simplified the bodies",
    ),
    Stage(
        in_bodies(hoist_maps),
        level=2,
        takes="loops that compute functions of their xs alone",
        gives="loops over values computed for all iterations at once",
        why="these values depend on no iteration, and rules have simplified them",
    ),
    Stage(
        in_bodies(sink_sums),
        level=2,
        takes="loops that add up products, as gradients of weights are",
        gives="products of stacked operands after loops",
        why="the stacks that derivatives need have been chosen",
    ),
    Stage(
        in_bodies(sink_maps),
        level=2,
        takes="loops that compute small values only to stack them",
        gives="stacks of their inputs, and the values for all iterations at once",
        why="the stacks are known",
    ),
    Stage(
        in_bodies(rematerialise_ys),
        level=2,
        takes="loops that stack values which a few operations make from other stacks",
        gives="these operations for all iterations at once, after loops",
        why="all stacks exist by now",
    ),
    Stage(
        in_bodies(drop_dead_results),
        level=1,
        takes="loops and branches with results that are no longer read",
        gives="loops without unused carries, outputs and inputs",
        why="rules have made some results dead, and loops have less to do",
    ),
    Stage(
        in_bodies(restrict),
        level=2,
        takes="products of matrices as they were written",
        gives="the parts of products that are read",
        why="rules for speed give products other forms",
    ),
    Stage(
        exponentials.share_exponentials,
        level=2,
        takes="logistic functions and softplus of one value or of its negative",
        gives="one exponential for each argument",
        why="earlier stages would turn the exponentials back into logistic functions",
        by_calls=True,
    ),
    Stage(
        exponentials.share_in_kernels,
        level=2,
        takes="logistic functions and softplus of one value or of its negative, of single numbers as well",
        gives="one exponential for each argument",
        why="earlier stages would turn the exponentials back into logistic functions",
        by_calls=False,
    ),
    Stage(
        lower_logistic,
        level=1,
        takes="other logistic functions, and differences of what may be infinite",
        gives="exponentials, quotients and choices",
        why="rules for products and quotients come next",
    ),
    Stage(
        specialise,
        level=2,
        takes="simplified operations",
        gives="the forms that run fastest: contractions in their best order, idioms of NumPy",
        why="no other rule knows these forms",
    ),
    Stage(
        lower_contractions,
        level=2,
        takes="contractions in normal form",
        gives="matmul, vecdot or einsum, whichever is fastest",
        why="specialise does not see contractions in the views that kernels need",
    ),
    Stage(
        fold_identities,
        level=2,
        takes="small identity matrices, and values computed from them and constants",
        gives="constants, which are computed once",
        why="rules for products simplify those with an identity matrix before",
    ),
    Stage(
        with_forms,
        level=0,
        takes="order statistics and convolutions in loops, or of few numbers",
        gives="sorted numbers, products and other operators that kernels compute",
        why="NumPy has a function for each, which earlier stages know",
        by_calls=False,
    ),
    Stage(
        in_bodies(drop_dead),
        level=0,
        takes="programs with dead code",
        gives="only nodes that the results need, and the inputs",
        why="rewrites leave the nodes that they replace",
    ),
    Stage(
        in_bodies(checks_first),
        level=0,
        takes="programs that raise",
        gives="raising checks before everything that they do not need",
        why="no later stage moves nodes; a value that a check guards may fail by itself",
    ),
    Stage(
        in_bodies(copy_views),
        level=1,
        takes="arrays that are assigned into, of which a view is read later",
        gives="copies of the views, where whole arrays would be copied",
        why="the order of the nodes is final",
        by_calls=True,
    ),
)
"""Stages for the whole program, each with the least level of optimisation at which it runs."""

SCHEDULE = (
    Stage(
        nest,
        level=2,
        takes="the program as a whole",
        gives="loops over blocks of rows where that saves memory traffic",
        why="all operations are known",
    ),
    Stage(
        collapse_batch,
        level=2,
        takes="products of stacks of matrices with one matrix outside of loops",
        gives="one product of all rows",
        why="tiling needs the axes of the user's program",
    ),
    Stage(
        keep_columns,
        level=2,
        takes="arrays of few columns outside of loops",
        gives="the same arrays in column-major order",
        why="buffers of loops have this order already; no later stage asks for memory order",
    ),
)
"""Stages after these, which schedule the program."""


def optimise(graph: Graph, optimize: int = 2, numerics: str = "stable", target: Target = NUMPY) -> Graph:
    """Run the stages for the whole program at a level of optimisation; at 0 they do little but drop dead code."""
    note_columns(graph)
    return run(OPTIMISE, graph, optimize, numerics, target)


def simplified(graph: Graph, optimize: int = 2, numerics: str = "stable") -> Graph:
    """Return the program before the stages that choose kernels, so that its parts can be optimised again one by one.

    Stages that weigh the cost of calls come with that; the target C has none of them.
    """
    kernels = next(i for i, stage in enumerate(OPTIMISE) if stage.run is exponentials.share_exponentials)
    return run(OPTIMISE[:kernels], graph, optimize, numerics, C)


def schedule(graph: Graph, optimize: int = 2, numerics: str = "stable") -> Graph:
    """Schedule an optimised program: add loops over blocks of rows where that is faster."""
    return run(SCHEDULE, graph, optimize, numerics, NUMPY)


def count_of_stages(optimize: int, target: Target) -> int:
    """Return the number of stages at a level of optimisation, including that of a target's kernels."""
    stages = [*_wanted(OPTIMISE, optimize, target), *_wanted(SCHEDULE, optimize, NUMPY)]
    return len(stages) + bool(target.with_kernels)


def run(
    stages: Iterable[Stage], graph: Graph, optimize: int = 2, numerics: str = "stable", target: Target = NUMPY
) -> Graph:
    """Run the stages that are for a level of optimisation and a target, in order."""
    wanted = _wanted(stages, optimize, target)
    changed: set[str] = set()  # the names of stages that have given another program
    for (when, first), row in groupby(wanted, key=lambda stage: (stage.when, stage.again_after)):
        runs = (not first or first in changed) and when(graph)
        for stage in row:
            before = graph
            if runs:
                graph = staged(stage.run, graph, numerics)
            else:
                step(stage.name)
            if graph is not before:
                changed.add(stage.name)
    return graph


def _wanted(stages: Iterable[Stage], optimize: int, target: Target) -> list[Stage]:
    return [stage for stage in stages if stage.level <= optimize and stage.by_calls in (None, target.by_calls)]


def canonicalised(
    graph: Graph, outputs: Sequence[Node], wrt: Sequence[Node], optimize: int, numerics: str, since: int = 0
) -> tuple[list[Node], list[Node]]:
    """Apply the stages of `BEFORE` to values in the middle of a trace, where a new graph is not possible.

    Appends to `graph`, and gives the images of `outputs` and of `wrt`: differentiate those. An intermediate in `wrt`
    becomes an alias, which no rule sees through. Nodes older than `since` stay as they are.
    """
    part: Graph = Part(graph, outputs, wrt, since)
    for stage in BEFORE:
        if stage.level <= optimize:
            with running(stage.run):
                part = stage.run(part, numerics)
    return part.outputs[: len(outputs)], part.outputs[len(outputs) :]


# ---- which rules a stage applies

ALGEBRA = (signs, multiples, algebra, plane, arrays)
EARLY = (folding, repetition, structure, access)
LATE = (*EARLY, size_factors, pieces, scatter, deltas, factors)
PRODUCTS = (masks, sums, contraction_order, scaled)

TABLES: dict[str, tuple[ModuleType, ...]] = {
    "canonicalise": (*EARLY, *ALGEBRA, prepare, stable, logistic),
    "simplify": (*LATE, *ALGEBRA, stable, logistic, cheaper),
    "lower_logistic": (*LATE, *ALGEBRA, exponentials),
    "specialise": (*LATE, *PRODUCTS, *ALGEBRA, idioms),
    "lower_contractions": (patches, contraction_lowering),
    "fold_identities": (folding,),
}
"""By stage: an operator is met with procedures first, in this order, then with the rules whose left side is larger."""


@cache
def rules_of(stage: str, numerics: str) -> Rules:
    """The rules of a stage, traced when they are first needed."""
    if numerics not in NUMERICS:
        raise ArgumentError(f"numerics={numerics!r}", 'Write numerics="stable" or numerics="ieee".')
    # the two sides of a rule may be equal where their derivatives round differently
    tables = EARLY if numerics == "ieee" and stage == "canonicalise" else TABLES[stage]
    found = [each for table in tables for each in in_table(table) if numerics == "stable" or not each.changes_nan]
    rules = [each for each in found if isinstance(each, Rule)]
    procedures = [each for each in found if not isinstance(each, Rule)]
    return Rules(rules, lambda op: [each for each in procedures if each.meets(op)], numerics)
