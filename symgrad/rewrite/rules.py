"""Rewrite rules: functions that show both sides, and procedures for what no pattern can express."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import chain
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar, overload

from symgrad.core.graph import CONSTANT, INPUT, Aval, Graph, Node, Op
from symgrad.frontend.variable import Variable
from symgrad.rewrite.pattern import Draw, Pattern, features, needed_features, pattern_of

Procedure = Callable[[Graph, Node], Variable | Node | None]
"""A rule that no pattern can express, for one operator or a family: the replacement of a node, or None."""

Plane = Literal["finite", "all"] | None
"""Complex numbers that a rewrite holds for: finite ones, all, or none. `log(a * b)` is another number than
`log(a) + log(b)`, and one times a complex infinity is NaN.
"""

PLANES: dict[str, frozenset[Plane]] = {"stable": frozenset({"finite", "all"}), "ieee": frozenset({"all"})}
"""By numerics, what a rewrite must say to be applied where a number is complex."""


_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(eq=False)
class Rule:
    """A function that gives *(before, after)*; see `rule`."""

    function: Callable[..., tuple[Any, Any]]
    draws: dict[str, Draw]
    examples: dict[str, Any]
    when: Callable[..., bool] | None = None
    changes_nan: bool = False
    alone: bool = False
    exact: bool = False
    plane: Plane = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Rule {self.name}>"

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def pattern(self) -> Pattern:
        """The left side, traced at first use: importing a table of rules costs nothing."""
        return pattern_of(self.function, self.draws, self.examples)

    def admits(self, arguments: dict[str, Any]) -> bool:
        return self.when is None or bool(self.when(**arguments))


@overload
def rule(function: Callable[..., Any]) -> Rule: ...


@overload
def rule(
    *,
    changes_nan: bool = ...,
    alone: bool = ...,
    exact: bool = ...,
    plane: Plane = ...,
    when: Callable[..., bool] | None = ...,
    **draws: Any,
) -> Callable[[Callable[..., Any]], Rule]: ...


def rule(
    function: Callable[..., Any] | None = None,
    *,
    changes_nan: bool = False,
    alone: bool = False,
    exact: bool = False,
    plane: Plane = None,
    when: Callable[..., bool] | None = None,
    **draws: Any,
) -> Any:
    """Make a rewrite rule of a function that returns *(before, after)*, both written with NumPy.

    An argument without a default stands for any value; where it occurs twice, it is the same value. An argument with
    a default is a number of the program (if the default is a float) or a parameter of an operator (if its name is
    that of the parameter, perhaps with a suffix: ``axis``, ``shape_2``); the default is an example, to trace and test
    with, and no number of the rule may equal it.

    Parameters
    ----------
    changes_nan : bool
        Whether the two sides can differ where one is infinite or NaN: not applied under ``numerics="ieee"``.
    alone : bool
        Whether it only pays where nothing else uses the inner values of the left side.
    exact : bool
        Whether both sides are the same numbers, to the last digit; the sign of a zero aside.
    plane : str, optional
        Whether it holds for complex numbers as well: ``"all"``, or ``"finite"`` ones. Otherwise it is not applied where
        any value of the left side is complex.
    when : callable, optional
        Takes the same arguments, as Variables and numbers, and says whether the rule applies.
    **draws
        Of an array argument the ``(low, high)``, or the `Draw`, that tests draw from.
    """

    def make(function: Callable[..., Any]) -> Rule:
        names = function.__code__.co_varnames[
            : function.__code__.co_argcount
        ]  # inspect.signature costs ten times as much
        defaults = function.__defaults__ or ()
        arrays = names[: len(names) - len(defaults)]
        chosen = {name: draws.get(name, Draw()) for name in arrays}
        chosen = {name: d if isinstance(d, Draw) else Draw(low=d[0], high=d[1]) for name, d in chosen.items()}
        examples = dict(zip(names[len(arrays) :], defaults, strict=True))
        return Rule(function, chosen, examples, when, changes_nan, alone, exact, plane)

    return make if function is None else make(function)


def procedure(
    *ops: Op,
    where: Callable[[Op], bool] | None = None,
    of: Collection[Op] = (),
    changes_nan: bool = False,
    exact: bool = False,
    plane: Plane = None,
) -> Callable[[_F], _F]:
    """Make a procedure of a function: it is met with some operators, or with those of which `where` holds.

    With `of` only where an input is of one of these operators. `plane` is as in `rule`, of the node and its inputs.
    """

    def make(function: _F) -> _F:
        meets = frozenset(ops).__contains__ if where is None else where
        vars(function).update(meets=meets, of=frozenset(of), changes_nan=changes_nan, exact=exact, plane=plane)
        return function

    return make


def in_table(table: ModuleType) -> list[Any]:
    """The rules and procedures of a module, in order."""
    found = [each for each in vars(table).values() if isinstance(each, Rule) or hasattr(each, "meets")]
    return [each for each in found if isinstance(each, Rule) or each.__module__ == table.__name__]


def stable_only(step: Callable[[Graph, str], Graph]) -> Callable[[Graph, str], Graph]:
    """Mark a pass that can change a NaN or an infinity: under ``numerics="ieee"`` it leaves a graph as it is."""

    @wraps(step)
    def marked(graph: Graph, numerics: str = "stable") -> Graph:
        return step(graph, numerics) if numerics == "stable" else graph

    vars(marked)["changes_nan"] = True
    return marked


NAN, DIGITS, NOTHING = "nan", "digits", "nothing"
"""Effects of a rewrite: on NaNs, infinities or the range of right answers; on the last digits; none."""


def effect_of(rewrite: Rule | Procedure | Callable[[Graph, str], Graph]) -> str:
    """Return the effect of a rule, a procedure or a pass: NAN, DIGITS or NOTHING."""
    if getattr(rewrite, "exact", False):
        return NOTHING
    return NAN if getattr(rewrite, "changes_nan", False) else DIGITS


def is_complex(node: Node) -> bool:
    return type(node.aval) is Aval and node.aval.dtype.kind == "c"


# ---- sets of rules, filed by what their left sides need, so that few of them are tried at a node


class Filed(NamedTuple):
    """A rule, and what it needs: operators of inputs, and features."""

    rule: Rule
    ops: frozenset[Op]
    features: set[tuple[Op, Any]]


class Met(NamedTuple):
    """The rules and procedures to try at nodes of one operator with inputs of some operators."""

    procedures: Sequence[Procedure]
    rules: Sequence[Filed]


@dataclass
class Entry:
    """The rules whose left side has one operator at its root."""

    procedures: Sequence[Procedure] = ()
    by_input: dict[Op, list[Filed]] = field(default_factory=dict)
    met: dict[tuple[Op, ...], Met] = field(default_factory=dict)  # by the inputs' operators, as they come up
    repeated: list[Rule] = field(default_factory=list)  # two inputs are the same
    general: list[Rule] = field(default_factory=list)

    def meets(self, node: Node) -> Met:
        """Return the rules and procedures that may apply, by the operators of the inputs."""
        ops = tuple([x.op for x in node.inputs])
        ops = ops if len(ops) < 4 else tuple(dict.fromkeys(ops))  # of many inputs there are too many ways
        met = self.met.get(ops)
        if met is None:
            procedures = [p for p in self.procedures if not (of := getattr(p, "of", ())) or not of.isdisjoint(ops)]
            found = chain.from_iterable(self.by_input.get(op, ()) for op in dict.fromkeys(ops))
            met = self.met[ops] = Met(procedures, [each for each in found if each.ops.issubset(ops)])
        return met

    def candidates(self, node: Node, filed: Sequence[Filed]) -> list[Rule]:
        """The rules that are left once the features of a node are known."""
        rules: list[Rule] = []
        if filed:
            found = features(node)
            rules += [each.rule for each in filed if each.features <= found]
        if self.repeated and len(set(node.inputs)) < len(node.inputs):
            rules += self.repeated
        return rules + self.general if rules else self.general


class Rules:
    """Rules by the operator at the root of their left side, the larger side first."""

    def __init__(
        self, rules: Iterable[Rule], procedures: Callable[[Op], Sequence[Procedure]], numerics: str = "stable"
    ) -> None:
        self.procedures, self.planes = procedures, PLANES[numerics]
        self.entries: dict[Op, Entry | None] = {}
        # the sort is stable: among equals the order of the tables decides
        for r in sorted(rules, key=lambda r: -len(r.pattern.made)):
            self._file(r)

    def of(self, op: Op) -> Entry | None:
        """Return the rules and procedures for an operator, None where there are none."""
        if op not in self.entries:
            procedures = self.procedures(op)
            self.entries[op] = Entry(procedures) if procedures else None
        return self.entries[op]

    def _file(self, r: Rule) -> None:
        root = r.pattern.root
        entry = self.entries[root.op] = self.of(root.op) or Entry()
        known = [x.op for x in root.inputs if x.op is not INPUT]
        special = [op for op in known if op is not CONSTANT] or known
        if special:
            filed = Filed(r, frozenset(known), needed_features(r.pattern))
            entry.by_input.setdefault(special[0], []).append(filed)
        elif len(set(root.inputs)) < len(root.inputs):
            entry.repeated.append(r)
        else:
            entry.general.append(r)
