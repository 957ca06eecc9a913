"""State that an iteration changes, and how it is carried: names, items of containers, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from symgrad.core import tree
from symgrad.core.graph import Aval, Graph, Node
from symgrad.core.provenance import Where, here
from symgrad.core.shapes import same_shape
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.frontend.aliasing import packed_order
from symgrad.frontend.bodies import common
from symgrad.frontend.conversion.absent import is_perhaps
from symgrad.frontend.conversion.classes import Examples, examples_of, fits, kind_shown, list_kind, of_classes
from symgrad.frontend.conversion.jumps import called_by, label
from symgrad.frontend.conversion.merging import filler, is_numeric, shown
from symgrad.frontend.conversion.mutable import is_same
from symgrad.frontend.conversion.promotions import may_differ, promotion
from symgrad.frontend.conversion.resized import Resized, is_of_turn, resized
from symgrad.frontend.conversion.sharing import CarriedArray
from symgrad.frontend.conversion.state import Held
from symgrad.frontend.variable import Variable, lift
from symgrad.ops.operands import is_traced
from symgrad.ops.places import LoopIndex


class Unstable(Exception):
    """An iteration changes the state in a way that cannot be carried."""

    def __init__(self, name: str, before: str, after: str) -> None:
        super().__init__(name)
        self.fact = f"{called_by(name)} is {before} at the start of an iteration, and {after} at its end"
        self.where: Where = here()

    def refusal(self) -> SymgradError:
        return UnsupportedError(self.fact, "Keep its type and its shape the same in all iterations.", self.where)


class Leaf(NamedTuple):
    """A leaf of the state: its value before the loop, and the type of its carry; node None if it is constant."""

    before: Any
    node: Node | None
    aval: Aval | None
    resized: Resized | None = None  # how its shape changes, which is then a part of that of the node
    examples: Examples | None = None  # of the classes that the number, or an item of the list, may have
    kind: type | None = None  # of a list or a tuple that is carried as an array

    def is_like(self, other: Leaf) -> bool:
        """Whether it is carried as another one."""
        classes = (self.examples or {}).keys() == (other.examples or {}).keys()
        return self.aval == other.aval and self.resized is other.resized and self.kind is other.kind and classes

    def classed(self, x: Variable, examples: Examples | None) -> Variable:
        """Return its value, a number or a list, with the classes that are known."""
        if examples is None:
            return x
        return of_classes(x, examples) if self.kind is None else self.kind(x.graph, x.node, examples)


def _examples(x: Any, node: Node) -> Examples | None:
    """Return examples of the classes of a number, or of the items of a list; None of an array."""
    if list_kind(x) is not None:
        return x.item_examples
    return None if node.aval.shape else examples_of(x)


Out = tuple[Any, Node | None, Leaf]
"""The value of a leaf at the end of an iteration, and its node if it is traced."""


class Slot:
    """A name, an item of a container, or memory, that an iteration changes.

    It is carried in the dtype that holds its values at both ends of an iteration, unless numbers may change by that.
    Where it is not `exact`, rounding and overflow are no change: see `promotion`.
    """

    def __init__(self, graph: Graph, name: str, before: Held, at: LoopIndex, exact: bool) -> None:
        self.graph, self.name, self.at, self._exact = graph, name, at, exact
        self.take(before, before)

    def take(self, before: Held, like: Held) -> None:
        """Carry its value before the loop, with the structure of `like`."""
        self.before, self.after, self.structure = before, before, like.structure
        self.promoted = set[Node]()  # values that have another dtype in the first iteration
        self._scattered: set[int] = set()  # the arrays that do not lie in one order in all iterations
        self.arrays: list[Any] = []
        self.outs: list[Out] = []
        self.results: list[Node] = []
        pairs = zip(like.leaves, like.nodes, strict=True)
        self.leaves = [self._leaf(x, node, before.bound) for x, node in pairs]

    def _leaf(self, x: Any, node: Node | None, bound: bool) -> Leaf:
        if not is_numeric(x):
            return Leaf(x, None, None)
        own = lift(self.graph, x)  # which refuses one that another trace has left in a list
        node = node or own
        node = node if bound else filler(self.graph, node.aval)
        return Leaf(x, node, node.aval, None, _examples(x, node), list_kind(x))

    @property
    def carried(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.node is not None]

    def stand_ins(self) -> Any:
        """Return the value at the start of an iteration; `seeds` are the nodes in it."""
        self.seeds: list[Node] = []
        self.arrays = []
        self._given = [self._stand_in(leaf) for leaf in self.leaves]
        self.stand_in = tree.unflatten(self.structure, self._given)
        return self.stand_in

    def _stand_in(self, leaf: Leaf) -> Any:
        if leaf.aval is None:
            return leaf.before
        seed = self.graph.seed(leaf.aval)
        label(self.graph, seed, self.name)
        self.seeds.append(seed)
        x = Variable(self.graph, seed)
        if leaf.resized is not None:
            x = leaf.resized.read(x, self.at.here())
        x = leaf.classed(x, leaf.examples)
        has_order = len(self.arrays) not in self._scattered and leaf.resized is None
        x.stands_for(leaf.before, packed_order(leaf.before) if has_order else "")
        self.arrays.append(x)
        return x

    def settle(self, after: Held) -> bool:
        """Compare with the value at the end of the iteration; whether the types agree, which are adjusted if not."""
        self.after, self.promoted = after, set[Node]()
        if any(map(is_perhaps, (*self.before.leaves, *after.leaves))):  # its stand-in would not tell
            raise Unstable(self.name, _presence(self.before), _presence(after))
        if not self.before.bound and not self.carried and after.bound:
            self.take(self.before, after)
            return not self.carried
        if self.structure != after.structure:
            raise Unstable(self.name, shown(self.before), shown(after))
        self.outs = [x for x in zip(after.leaves, after.nodes, self.leaves, strict=True) if x[2].node is not None]
        for x, _, leaf in zip(after.leaves, after.nodes, self.leaves, strict=True):
            if (leaf.node is None and not is_same(x, leaf.before)) or (leaf.node is not None and not is_numeric(x)):
                raise Unstable(self.name, shown(self.before), shown(after))
            if leaf.node is not None and list_kind(x) is not leaf.kind:
                raise Unstable(self.name, kind_shown(leaf.kind), kind_shown(list_kind(x)))
        made = [node or lift(self.graph, x) for x, node, _ in self.outs]
        before, triples = self.carried, [*zip(self.carried, made, self.seeds, strict=True)]
        values = (x for x, _, _ in self.outs)
        wide = iter([self._widened(*each, x, after) for each, x in zip(triples, values, strict=True)])
        self.leaves = [leaf if leaf.node is None else next(wide) for leaf in self.leaves]
        self.results = [self._carried_on(*each) for each in triples]
        if any(is_of_turn(y, self.at.name) for y in self.results):
            raise Unstable(self.name, "of one shape", "of another one")
        alike = all(a.is_like(b) for a, b in zip(before, self.carried, strict=True))
        return self._has_orders() and alike

    def _has_orders(self) -> bool:
        """Whether arrays keep their memory order in an iteration, as far as it is known at the start."""
        pairs = enumerate(zip(self.arrays, self.outs, strict=True))
        new = {i for i, (x, (y, _, _)) in pairs if y is not x and x.packed_order and packed_order(y) != x.packed_order}
        self._scattered |= new
        return not new

    @property
    def holds_containers(self) -> bool:
        """Whether its values are lists or dicts, or have some in them."""
        return any(tree.containers(x.value) for x in (self.before, self.after))

    @property
    def stand_in_has_changed(self) -> bool:
        """Whether an iteration has put something else into a list or a dict that it began with."""
        leaves, structure = tree.flatten(self.stand_in)
        return structure != self.structure or any(x is not y for x, y in zip(leaves, self._given, strict=True))

    @property
    def shares(self) -> list[CarriedArray]:
        """Return the arrays that it carries, with their values after an iteration, once one has been traced."""
        if len(self.arrays) < len(self.carried):  # it is bound in an iteration for the first time
            return []
        befores = [x.before if self.before.bound else None for x in self.carried]
        afters = [x for x, _, _ in self.outs] or [None] * len(befores)
        return [
            CarriedArray((id(self), i), *each) for i, each in enumerate(zip(befores, self.arrays, afters, strict=True))
        ]

    def result(self, final: Iterator[Variable], finals: list[Any], sure: bool = False) -> Any:
        """Return the value after the loop, from the final carry; its arrays and numbers are noted in `finals`.

        It is `sure` where there is an iteration.
        """
        found = [self._behind(*each, final, sure) for each in zip(self.outs, self.arrays, strict=True)]
        finals += found
        given = iter(found)
        return tree.unflatten(self.structure, [x.before if x.node is None else next(given) for x in self.leaves])

    def _behind(self, out: Out, stand_in: Variable, finals: Iterator[Variable], sure: bool) -> Any:
        (value, _, leaf), final = out, next(finals)
        if value is stand_in and self.before.bound and not stand_in.was_written:
            return leaf.before  # the same array, which may have other names
        if leaf.resized is not None:
            final = leaf.resized.read(final, leaf.resized.iterations)
        final = leaf.classed(final, _examples(value, final.node) if sure else leaf.examples)
        if is_traced(value):
            final.as_array(value.writes_in_place)
            final.locked = value.locked
        final.lay_out(stand_in.packed_order)
        return final

    def _widened(self, leaf: Leaf, out: Node, seed: Node, value: Any, after: Held) -> Leaf:
        found = _examples(value, out)
        if leaf.examples is not None and found is not None:
            leaf = leaf._replace(examples=leaf.examples | found)
        assert leaf.aval is not None and leaf.node is not None
        shape = leaf.aval.shape if leaf.resized is None else leaf.resized.after(self.at.here() + 1)
        if same_shape(shape, out.aval.shape):
            aval = common(leaf.aval, out.aval)
            if not (fits(leaf.node, aval.dtype) and fits(out, aval.dtype)):
                raise Unstable(self.name, shown(self.before), f"{shown(after)} with fewer digits")
            self._check_promotion(seed, (leaf.node.aval, out.aval), aval, after)
            return leaf._replace(aval=aval)
        may_resize = leaf.resized is None and self.before.bound
        change = resized(leaf.aval, out.aval, self.at.iterations) if may_resize else None
        if change is None:
            raise Unstable(self.name, shown(self.before), shown(after))
        node = change.begun(self.graph, leaf.node)
        return leaf._replace(node=node, aval=common(node.aval, out.aval), resized=change)

    def _check_promotion(self, seed: Node, ends: Sequence[Aval], aval: Aval, after: Held) -> None:
        """Raise where an iteration may give other numbers because the carry has the type `aval` at both ends."""
        if any(may_differ(x, aval) for x in ends):
            dtypes = *(x.dtype for x in ends), aval.dtype
            others = promotion(self.graph, seed, dtypes, self._exact)
            if others.differs or others.asked:
                raise Unstable(self.name, shown(self.before), shown(after))
            self.promoted.update(others.found)

    def _carried_on(self, leaf: Leaf, out: Node, seed: Node) -> Node:
        """Return the carry of the next iteration."""
        if leaf.resized is None:
            return out
        return leaf.resized.written(Variable(self.graph, seed), Variable(self.graph, out), self.at.here() + 1)

    @property
    def was_written(self) -> bool:
        """Whether an iteration writes into an array that it began with: into one that others may see."""
        return any(x.was_written for x in self.arrays)

    def keeps(self, now: Any) -> bool:
        """Whether a name that holds one array holds it still."""
        return len(self.arrays) == 1 and now is self.arrays[0]


def _presence(x: Held) -> str:
    """Return a value in words, also where it may be None."""
    return "None or an array, depending on traced values" if any(map(is_perhaps, x.leaves)) else shown(x)
