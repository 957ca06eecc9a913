"""Rewriting: rules shown by both of their sides, and one walk that rebuilds a graph while it applies them.

The new graph simplifies a node at the moment it is added. Inputs come before their users, so what a rule meets is
simplified already, and what a rule builds is simplified as it builds it: nothing is visited twice, no fixpoint is run,
and the depth of the recursion is the length of a chain of rules, never that of the graph.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from symgrad.analysis.uses import shared_values
from symgrad.core.graph import CONSTANT, INPUT, SIZE, Aval, Graph, Node, Op, Params, reached
from symgrad.core.provenance import UNKNOWN, Where
from symgrad.core.recording import note_rewrites
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim
from symgrad.errors import SymgradError
from symgrad.frontend.variable import Variable
from symgrad.ops.marks import ALIAS, BOUNDARIES, Segment

Procedure = Callable[[Graph, Node], "Variable | Node | None"]
"""A rule that no pattern can express, for one operator or a family: the replacement of a node, or None."""

_F = TypeVar("_F", bound=Callable[..., Any])

DEEPEST = 12
"""How long a chain of rules may get before it is taken for two rules undoing each other."""


# ---- rules


class Draw(NamedTuple):
    """Where the tests draw an array argument of a rule from; its shape is also that of the traced pattern."""

    shape: tuple[int, ...] = (2, 3)
    low: float = -2.0
    high: float = 2.0
    dtype: Any = float


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
        return _traced_pattern(self)

    def admits(self, arguments: dict[str, Any]) -> bool:
        return self.when is None or bool(self.when(**arguments))


def rule(
    function: Callable[..., Any] | None = None,
    *,
    changes_nan: bool = False,
    alone: bool = False,
    exact: bool = False,
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
        return Rule(function, chosen, examples, when, changes_nan, alone, exact)

    return make if function is None else make(function)


def exact(procedure: _F) -> _F:
    """Mark a procedure whose replacement is the same numbers, to the last digit; the sign of a zero aside."""
    vars(procedure)["exact"] = True
    return procedure


def stable_only(step: Callable[[Graph, str], Graph]) -> Callable[[Graph, str], Graph]:
    """Mark a pass that can change a NaN or an infinity: under ``numerics="ieee"`` it leaves a graph as it is."""

    @wraps(step)
    def marked(graph: Graph, numerics: str = "stable") -> Graph:
        return step(graph, numerics) if numerics == "stable" else graph

    vars(marked)["stable_only"] = True
    return marked


class Pattern(NamedTuple):
    """The left side of a rule as nodes, in the order in which its function makes them."""

    root: Node
    made: tuple[Node, ...]
    arrays: dict[Node, str]
    numbers: dict[Node, str]
    params: dict[Node, tuple[tuple[str, str], ...]]  # (parameter, argument)

    def match(self, node: Node) -> dict[Node, Node] | None:
        """What each node of the pattern stands for, or None."""
        return self._match([(self.root, node)], {})

    def _match(self, pairs: list[tuple[Node, Node]], bound: dict[Node, Node]) -> dict[Node, Node] | None:
        while pairs:
            p, n = pairs.pop()
            known = bound.get(p)
            if known is not None:
                if known is not n:
                    return None
                continue
            if not self._fits(p, n, bound):
                return None
            bound[p] = n
            if not p.inputs:
                continue
            if p.op.commutes and p.inputs[0] is not p.inputs[1]:
                (a, b), (x, y) = p.inputs, n.inputs
                straight = self._fits(a, x, bound) and self._fits(b, y, bound)
                crossed = self._fits(a, y, bound) and self._fits(b, x, bound)
                if straight and crossed:  # which is rare
                    first = self._match([*pairs, (a, x), (b, y)], dict(bound))
                    return first or self._match([*pairs, (a, y), (b, x)], bound)
                if not straight and not crossed:
                    return None
                pairs += [(a, x), (b, y)] if straight else [(a, y), (b, x)]
            else:
                pairs += zip(p.inputs, n.inputs, strict=True)
        return bound

    def _fits(self, p: Node, n: Node, bound: dict[Node, Node]) -> bool:
        """Whether a node, its inputs aside, may be what one of the pattern stands for."""
        if p.op is INPUT:
            return type(n.aval) is Aval and bound.get(p, n) is n
        if p.op is CONSTANT:
            value = number(n)
            if p in self.numbers:  # of which True is none: it has no negative
                return value is not None and (n.aval.dtype == bool) == (p.aval.dtype == bool)
            return value is not None and bool(value == p.params[0][1].value)
        return p.op is n.op and len(p.inputs) == len(n.inputs)

    def arguments(self, graph: Graph, bound: dict[Node, Node]) -> dict[str, Any] | None:
        """The arguments of the rule's function for a match; None if a parameter would need two values."""
        found: dict[str, Any] = {name: Variable(graph, bound[p]) for p, name in self.arrays.items()}
        found |= {name: number(bound[p]) for p, name in self.numbers.items()}
        for p, pairs in self.params.items():
            given = {**p.op.defaults, **dict(bound[p].params)}
            for key, name in pairs:
                if name in found and not _identical(found[name], given[key]):
                    return None
                found[name] = given[key]
        return found


def number(node: Node) -> Any:
    """The Python or NumPy scalar that a node is, or None."""
    if node.op is not CONSTANT or node.aval.shape:
        return None
    literal = node.params[0][1]
    return literal.value if literal.weak else literal.value[()]


def _identical(a: Any, b: Any) -> bool:
    """Equality of parameters, which must not ask whether two symbolic sizes are equal: they hash alike or differ."""
    return hash(a) == hash(b) and bool(a == b)


class _Recorder(Graph):
    """A graph that remembers each call that adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.provenance = UNKNOWN
        self.made: list[Node] = []

    def add(self, op: Op, inputs: tuple[Node, ...] = (), params: Params = (), where: Where | None = None) -> Node:
        node = super().add(op, inputs, params, where)
        self.made.append(node)
        return node


def _traced_pattern(rule: Rule) -> Pattern:
    graph = _Recorder()
    arrays = {graph.add_input(name, Aval(d.shape, np.dtype(d.dtype))): name for name, d in rule.draws.items()}
    graph.made.clear()
    before, _ = rule(**{name: Variable(graph, x) for x, name in arrays.items()}, **rule.examples)
    root = before.node
    nodes = reached([root])
    numbers = {
        n: name
        for n in nodes
        if n.op is CONSTANT
        for name, x in rule.examples.items()
        if type(x) is float and number(n) == x
    }
    params = {n: pairs for n in nodes if (pairs := tuple(_wildcards(n, rule.examples)))}
    made = tuple(graph.made[: graph.made.index(root) + 1])
    return Pattern(root, made, {x: name for x, name in arrays.items() if x in nodes}, numbers, params)


def _wildcards(node: Node, examples: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The parameters of a node that an argument of the rule stands for."""
    given = {**node.op.defaults, **dict(node.params)}
    for key, value in given.items():
        names = [name for name in examples if name.split("_")[0] == key and _identical(examples[name], value)]
        if names:
            yield key, names[0]


# ---- sets of rules

EVERYWHERE = frozenset((0, 1, -1, 2, 0.5))
"""Numbers that rules look for, and that are the same in every dtype."""


def features(node: Node) -> set[tuple[Op, Any]]:
    """Operators below those of the inputs, and numbers: a pattern matches nothing that lacks one of its own."""
    found: set[tuple[Op, Any]] = set()
    for x in node.inputs:
        if x.op is CONSTANT:
            found.add((CONSTANT, number(x)))
        for y in x.inputs:
            found.add((x.op, y.op))
    return found


def needed_features(pattern: Pattern) -> set[tuple[Op, Any]]:
    """Those of a left side that do not come from an argument."""
    known = EVERYWHERE - {number(x) for x in pattern.numbers}
    return {
        (op, inner)
        for op, inner in features(pattern.root)
        if INPUT not in (op, inner) and (isinstance(inner, Op) or inner in known)
    }


class Filed(NamedTuple):
    """A rule, and what it needs: operators of inputs, and features."""

    rule: Rule
    ops: frozenset[Op]
    features: set[tuple[Op, Any]]


@dataclass
class Entry:
    """The rules whose left side has one operator at its root."""

    procedures: list[Procedure] = field(default_factory=list)
    by_input: dict[Op, list[Filed]] = field(default_factory=dict)
    met: dict[tuple[Op, ...], list[Filed]] = field(default_factory=dict)  # by the inputs' operators, as they come up
    repeated: list[Rule] = field(default_factory=list)  # two inputs are the same
    general: list[Rule] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.procedures or self.by_input or self.repeated or self.general)

    def candidates(self, node: Node) -> list[Rule]:
        filed = self._filed(tuple([x.op for x in node.inputs])) if self.by_input else []
        found = features(node) if filed else set()
        rules = [each.rule for each in filed if each.features <= found]
        if self.repeated and len(set(node.inputs)) < len(node.inputs):
            rules += self.repeated
        return rules + self.general

    def _filed(self, ops: tuple[Op, ...]) -> list[Filed]:
        filed = self.met.get(ops)
        if filed is None:
            found = chain.from_iterable(self.by_input.get(op, ()) for op in dict.fromkeys(ops))
            filed = self.met[ops] = [each for each in found if each.ops.issubset(ops)]
        return filed


class Rules:
    """Rules by the operator at the root of their left side, the larger side first."""

    def __init__(self, rules: Iterable[Rule], procedures: Callable[[Op], list[Procedure]]) -> None:
        self.procedures = procedures
        self.entries: dict[Op, Entry] = {}
        # the sort is stable: among equals the order of the tables decides
        for r in sorted(rules, key=lambda r: -len(r.pattern.made)):
            self._file(r)

    def of(self, op: Op) -> Entry:
        entry = self.entries.get(op)
        if entry is None:
            entry = self.entries[op] = Entry(self.procedures(op))
        return entry

    def _file(self, r: Rule) -> None:
        root = r.pattern.root
        entry = self.of(root.op)
        known = [x.op for x in root.inputs if x.op is not INPUT]
        special = [op for op in known if op is not CONSTANT] or known
        if special:
            filed = Filed(r, frozenset(known), needed_features(r.pattern))
            entry.by_input.setdefault(special[0], []).append(filed)
        elif len(set(root.inputs)) < len(root.inputs):
            entry.repeated.append(r)
        else:
            entry.general.append(r)


# ---- the walk


class _NotThisRule(Exception):
    """The left side, built again from a match, is not what was matched."""


class Rewriting(Graph):
    """A graph that simplifies a node as it is added."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules
        self.shared: set[Node] = set()  # what several nodes use, or what is wanted
        self._result: dict[Node, Node] = {}
        self._depth = 0
        self._replay: list[tuple[Node, Node | None]] = []
        self._built: list[Node] = []  # what the right side of a rule has computed so far
        self._added: tuple[Node, Node] | None = None  # what was added last, and what it became

    @property
    def applied(self) -> Counter[str]:
        """How often each rule that shows both sides was applied."""
        return Counter(r.name for r, _, _ in self.rewrites if isinstance(r, Rule))

    def add(self, op: Op, inputs: tuple[Node, ...] = (), params: Params = (), where: Where | None = None) -> Node:
        if self._replay:
            p, node = self._replay.pop()
            if p.op is not op or (op is not CONSTANT and node is not None and not _identical(params, node.params)):
                raise _NotThisRule("the left side differs")
            if node is not None:
                return node
        node = super().add(op, inputs, params, where)
        self._built.append(node)
        result = self.simplified(node)
        self._added = node, result
        return result

    def known(self, op: Op, inputs: tuple[Node, ...], params: Params = ()) -> Node | None:
        """The value of an operation that several others need, if it has been met."""
        node = self._interned.get((op, inputs, params))
        return node if node in self.shared else None

    def rebuild(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The image of a node of another graph: what it is known to be need not be inferred again."""
        key = (node.op, inputs, node.params)
        image = self._interned.get(key)
        if image is None:
            image = Node(len(self.nodes), node.op, inputs, node.params, node.aval, self.provenance or UNKNOWN)
            self._interned[key] = image
            self.nodes.append(image)
        return self.simplified(image)

    def simplified(self, node: Node) -> Node:
        """What a node becomes; itself while that is being found out."""
        result = self._result.get(node)
        if result is None:
            self._result[node] = node
            if self._depth < DEEPEST and node.inputs and type(node.aval) is Aval:
                self._depth += 1
                result = self._rewritten(node)
                self._depth -= 1
            if result is None:
                return node
            self._result[node] = result
        return result

    def _rewritten(self, node: Node) -> Node | None:
        entry = self.rules.of(node.op)
        for procedure in entry.procedures:
            self._added = None
            result = procedure(self, node)
            if result is not None:
                result = self.fitted(result, node.aval)
            if result is not None and result is not node:
                self._note(procedure, node, result)
                return result
        for r in entry.candidates(node):
            self._added = None
            result = self.apply(r, node)
            if result is not None and result is not node:
                self._note(r, node, result)
                return result
        return None

    def _note(self, rule: Rule | Procedure, node: Node, result: Node) -> None:
        """Note what a rule itself put in the place of a node, which may have been rewritten in turn."""
        added = self._added
        self.rewrites.append((rule, node, added[0] if added is not None and added[1] is result else result))

    def apply(self, r: Rule, node: Node) -> Node | None:
        """The right side of a rule where its left side is `node`, or None."""
        bound = r.pattern.match(node)
        if bound is None or (
            r.alone and any(n in self.shared and p.inputs and n is not node for p, n in bound.items())
        ):
            return None
        arguments = r.pattern.arguments(self, bound)
        if arguments is None or not r.admits(arguments):
            return None
        after = self._right_side(r, bound, arguments, node.aval)
        return None if after is NotImplemented else self.fitted(after, node.aval)

    def _right_side(self, r: Rule, bound: dict[Node, Node], arguments: dict[str, Any], aval: Aval) -> Any:
        """NotImplemented where it does not exist, or would compute in another dtype than the left side."""
        outer, self._built = self._built, []
        self._replay = [(p, bound.get(p)) for p in reversed(r.pattern.made)]
        try:
            _, after = r(**arguments)
            return after if all(_holds(x, aval) for x in self._built) else NotImplemented
        except SymgradError as error:
            error.forget()
            return NotImplemented
        except (ArithmeticError, _NotThisRule):
            return NotImplemented
        finally:
            self._replay, self._built = [], outer

    def fitted(self, value: Any, aval: Aval) -> Node | None:
        """A replacement as exactly what it replaces: cast and broadcast if need be; None where that cannot be."""
        node = value if isinstance(value, Node) else value.node if isinstance(value, Variable) else self.constant(value)
        if aval.weak and not node.aval.weak:
            return None
        if node.aval.dtype != aval.dtype or node.aval.weak != aval.weak:
            node = Variable(self, node).astype(aval.dtype).node
        if not same_shape(node.aval.shape, aval.shape):
            if len(node.aval.shape) > len(aval.shape):
                return None
            node = np.broadcast_to(Variable(self, node), aval.shape).node
        return node if node.aval.weak == aval.weak else None


def _holds(part: Node, result: Aval) -> bool:
    """Whether a part of a result may be such a value: a mask, or a number of no fewer digits, nor of a smaller range.

    The logarithm of an int8 is a float16, which is too little for a part of a float64; 1 / 0.0 is infinite in NumPy and
    raises in Python.
    """
    aval = part.aval
    if type(aval) is not Aval or aval.dtype.kind == "b":
        return True
    return (result.weak or not raises_at_zero(part)) if aval.weak else np.can_cast(result.dtype, aval.dtype)


def raises_at_zero(node: Node) -> bool:
    """Whether Python, where it computes a node of its numbers, raises for a zero of which NumPy makes an infinity."""
    pole = None if node.op.pole is None else node.inputs[node.op.pole]
    return pole is not None and pole.op is not CONSTANT and not _never_zero(pole)


def _never_zero(x: Node) -> bool:
    size = dict(x.params)["value"] if x.op is SIZE else None
    return isinstance(size, Dim) and size.scope.decide(operator.gt, size.expr) is True


def rewrite(graph: Graph, rules: Rules) -> Graph:
    """A graph that computes the same outputs, rewritten by `rules`; replaced nodes are still in it, unused.

    It is the same graph if no rule is met with any of its operators.
    """
    nodes = _ordered(graph)
    if not any(map(rules.of, {node.op for node in nodes})):
        return graph
    new = Rewriting(rules)
    image: dict[Node, Node] = {}
    shared = shared_values(nodes, graph.outputs)
    for node in nodes:
        new.provenance = moved(node.where, image)
        image[node] = new.rebuild(node, tuple([image[x] for x in node.inputs]))
        if node in shared:
            new.shared.add(image[node])
    _finished(new, graph, image)
    note_rewrites(iter(new.rewrites), new, {})
    return new


def rewrite_within(
    graph: Graph, rules: Rules, outputs: Sequence[Node], kept: Sequence[Node], since: int = 0
) -> dict[Node, Node]:
    """Append to `graph` the rewritten form of `outputs`; the image of each node. No rule sees through `kept`.

    Nodes older than `since` stay: an outer transform may be about to differentiate by one of them.
    """
    new = Rewriting(rules)
    new.nodes, new.inputs, new.names, new._interned = graph.nodes, graph.inputs, graph.names, graph._interned
    new.rewrites = graph.rewrites
    image: dict[Node, Node] = {}
    nodes = reached([*outputs, *kept])
    new.shared = shared_values(nodes, outputs)
    opaque = {node for node in kept if node.inputs and node.op is not ALIAS}
    segments: dict[Segment, Segment] = {}
    for node in nodes:
        if node.id < since:
            image[node] = node
            continue
        new.provenance = moved(node.where, image)
        image[node] = new.rebuild(_renewed(node, segments), tuple([image[x] for x in node.inputs]))
        if node in opaque:
            image[node] = new.add(ALIAS, (image[node],), (("tag", node.id),))
        if node in graph.names and image[node].op is not CONSTANT:
            name = graph.names[node]
            graph.label(image[node], name if isinstance(name, str) else (name[0], image.get(name[1], name[1])))
    return image


def _renewed(node: Node, segments: dict[Segment, Segment]) -> Node:
    """The mark of a segment that is computed again as that of a new one.

    So the whole segment is appended: where only its changed nodes were, they would run far behind those that they use.
    """
    if node.op not in BOUNDARIES:
        return node
    segment = dict(node.params)["segment"]
    if not segment.again:
        return node
    own = segments.setdefault(segment, Segment(segment.name, again=True))
    return replace(node, params=(("segment", own),))


Replacements = Mapping[Node, Callable[[Graph, Mapping[Node, Node]], Variable]]
"""How some nodes are made in another graph, out of the images of earlier ones."""


def copied(graph: Graph, instead: Replacements | None = None) -> Graph:
    """A new graph of what the outputs need, and of the inputs, only; some nodes made in another way."""
    new = Graph()
    image: dict[Node, Node] = {}
    for node in _ordered(graph):
        where = moved(node.where, image)
        if instead and node in instead:
            new.provenance = where
            image[node] = instead[node](new, image).node
            continue
        key = (node.op, tuple([image[x] for x in node.inputs]), node.params)
        twin = new._interned.get(key) if instead else None
        if twin is None:
            twin = new._interned[key] = Node(len(new.nodes), *key, node.aval, where)
            new.nodes.append(twin)
        image[node] = twin
    _finished(new, graph, image)
    note_rewrites(((None, node, image[node]) for node in instead or () if node in image), new, image)
    return new


def _ordered(graph: Graph) -> Sequence[Node]:
    """Inputs, needed or not, then what is needed, in order of creation."""
    inputs = set(graph.inputs)
    return [*graph.inputs, *(node for node in reached(graph.outputs) if node not in inputs)]


def alone(graph: Graph, node: Node) -> bool:
    """Whether nothing else needs the value."""
    return node not in graph.shared  # type: ignore[attr-defined]


def moved(where: Where, image: dict[Node, Node]) -> Where:
    """A derivative node goes on deriving the image; where that has none, the node of the graph before."""
    of = where.of if where is not None else None
    return where if of is None else Where(where.file, where.line, image.get(of, of), where.again)


def _finished(new: Graph, old: Graph, image: dict[Node, Node]) -> Graph:
    """Carry over what is not a node."""
    new.provenance = None
    new.inputs = [image[x] for x in old.inputs]
    new.outputs = [image[y] for y in old.outputs]
    for node, name in old.names.items():
        if node not in image or image[node].op is CONSTANT:
            continue
        moved = moved_name(old, name, image)
        if moved is not None:
            new.label(image[node], moved)
    return new


def moved_name(old: Graph, name: Any, image: dict[Node, Node]) -> Any:
    """A name for the new graph: a pattern goes with the image of its node, or is written out when that has none."""
    pattern = "{}"
    while not isinstance(name, str):
        template, of = name
        if of in image:
            return (pattern.format(template), image[of])
        pattern, name = pattern.format(template), old.names.get(of)
        if name is None:
            return None
    return pattern.format(name)
