"""Ys in source: arrays where the number of iterations is known, else, or for other loops, lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symgrad.analysis.uses import users_of
from symgrad.core.graph import CONSTANT, INPUT, SIZE, Node
from symgrad.core.region import regions_of
from symgrad.ops.astype import ASTYPE
from symgrad.ops.control import COND, NUMBER, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.spelling import Code, Name, call, spell_dtype, spell_param
from symgrad.targets.numpy.body import Expr
from symgrad.targets.numpy.names import plural
from symgrad.targets.numpy.statements import Assign, Evaluate, Statement
from symgrad.targets.numpy.structured import Move, Structured, Together

MANY = 3  # lists that are one of tuples


class Stacks:
    """The ys of one loop."""

    outer: Structured
    part: Structured  # what an iteration does
    test: Structured | None
    bound: Code
    length: Node
    reverse: bool
    symbol: str  # of the number of iterations
    count: Name
    total: Name | None
    last: Node | None
    results: Sequence[Node]
    names: list[Name]  # of what is carried
    stacked: dict[Node, Node]
    lists: set[Node]
    joint: dict[Node, str | None]  # one list, and what its rows are called

    def _readers(self, item: Node) -> list[Node] | None:
        """Return the loops that read a stack by rows, if nothing else does: then it is a list."""
        return readers_of(item, self.outer.uses[item], self.outer.outputs)

    def _keep_pythons(self) -> None:
        """Keep Python numbers in lists whose readers take them as such."""
        for item in filter(self._has_pythons, self.lists):
            (self.stacked[item],) = self.stacked[item].inputs
            self.outer.pythons.add(item)

    def _has_pythons(self, item: Node) -> bool:
        """Whether a stack has Python numbers, taken as such: integers may have more digits than NumPy's."""
        y = self.stacked[item]
        return y.op is ASTYPE and y.inputs[0].aval == y.aval._replace(weak=True) and self._are_taken(item)

    def _are_taken(self, item: Node) -> bool:
        """Whether every loop that reads a stack makes Python numbers of its rows."""
        for user in self.outer.uses[item]:
            if user.op is not SCAN:
                return False
            body = loop_of(user).body
            rows = {row for row, x in zip(body.parameters, user.inputs, strict=True) if x is item}
            if any(x.op is not NUMBER and not rows.isdisjoint(x.inputs) for x in body.nodes):
                return False
            if not rows.isdisjoint(body.results):
                return False
        return True

    def _begin_stack(self, item: Node) -> Name:
        """Begin a stack: an array that iterations fill, or a list where their number is unknown."""
        outer, y = self.outer, self.stacked[item]
        carried = dict(zip([*self.results, *self.part.given], self.names * 2, strict=False))
        hint = carried[y].text if y in carried else self.part.hint(y)
        if item in self.joint:
            return self._begin_joint(item, hint)
        if outer.hint(item) is None and hint:
            outer.names.rename(item, outer.names.fresh(plural(hint)))
        name = outer.name(item)
        if self.is_listed(item):
            outer.written.append(Assign((name,), Code("[]")))
            return name
        bound = self.bound if self.length.op in (SIZE, CONSTANT) else call("max", [self.bound.text, "0"])
        row = [bound.text, *map(spell_param, item.aval.shape[1:])]
        arguments = [row[0] if len(row) == 1 else f"({', '.join(row)})", *_dtype(item)]
        outer.written.append(Assign((name,), call("np.empty", arguments), note=outer.note(item.aval), makes=item))
        return name

    def _begin_joint(self, item: Node, hint: str | None) -> Name:
        """The list of which a stack is a part: it begins with the first."""
        names = self.outer.names
        first, *_ = self.joint
        if item is first:
            names.rename(first, names.fresh("kept"))
            self.outer.written.append(Assign((self.outer.name(first),), Code("[]")))
        names.rename(item, names.of(first))
        self.joint[item] = hint
        return self.outer.name(item)

    def _join(self) -> list[Node]:
        """The lists that one other loop goes through, if they are many."""
        users: dict[Node, list[Node]] = {}
        for item in self.stacked:
            readers = self._readers(item) if item in self.lists else None
            if readers is not None and len(readers) == 1:
                users.setdefault(readers[0], []).append(item)
        most = max(users.values(), key=len, default=[])
        return most if len(most) >= MANY else []

    def is_listed(self, item: Node) -> bool:
        return self.test is not None or item in self.lists

    def _moves(self, stacks: Sequence[Name]) -> list[Move]:
        """Return the places of the ys of each iteration."""
        part, pairs = self.part, zip(self.part.given, self.results, strict=False)
        written = {z for x, r in pairs if x in part.own for z in (x, part.roots[r])}
        copied = {y for y in self.stacked.values() if part.roots.get(y, y) in written}
        moves = []
        for (item, y), name in zip(self.stacked.items(), stacks, strict=True):
            if item not in self.joint:
                place = Code(f"{name.text}[{self.count.text}]")
                moves.append(Move(y, name, True, copied) if self.is_listed(item) else Move(y, place))
        if self.joint:
            first, *more = [(self.stacked[x], self.outer.name(x)) for x in self.joint]
            moves.append(Move(*first, True, copied, tuple([y for y, _ in more])))
        return moves

    def _behind(self) -> list[Statement]:
        """Return the statements after the loop: lists in order, or arrays of them, and the number of iterations."""
        outer = self.outer
        found: list[Statement] = []
        for item in filter(self.is_listed, self.stacked):
            name = outer.name(item)
            if item in self.lists:
                outer.lists.add(item)
                if item in self.joint:
                    outer.together[item] = Together(tuple(self.joint), tuple(self.joint.values()))
                if self.reverse and item is next(iter(self.joint), item):
                    found.append(Evaluate(call(f"{name.text}.reverse", [])))
            else:
                array = call("np.array", [f"{name.text}[::-1]" if self.reverse else name.text, *_dtype(item)])
                row = list(map(spell_param, item.aval.shape[1:]))
                array = call(f"{array.text}.reshape", [f"len({name.text})", *row]) if row else array
                found.append(Assign((name,), array, note=outer.note(item.aval), makes=item))
        return [*found, *self._number_of_turns()]

    def _number_of_turns(self) -> list[Statement]:
        outer, turns = self.outer, self.total
        lists = list(filter(self.is_listed, self.stacked)) if self.test else []
        code: Code | None = call("len", [outer.name(lists[0]).text]) if lists else turns
        if code is None:
            return []
        names = [self.symbol] * (self.symbol in outer.scope.sizes and self.test is not None)
        if self.last and not self.total:
            if outer.hint(self.last) is None:
                outer.pending[self.last] = Expr(Name(names[0]), 0, ()) if names else Expr(code, 0, tuple(lists[:1]))
            else:
                names.append(outer.names.of(self.last))
        targets = [Name(name) for name in names if turns is None or name != turns.text]
        return [Assign(targets, code, reads=lists[:1])] if targets else []


def readers_of(x: Node, users: Sequence[Node], outputs: Collection[Node]) -> list[Node] | None:
    """Return the loops, in branches too, that alone read an array, and do so by rows; None if something else does."""
    if x in outputs:
        return None
    found: list[Node] = []
    for user in users:
        each = [user] if takes_rows_of(user, x) else _readers_in_branch(x, user) if user.op is COND else None
        if each is None:
            return None
        found += each
    return found


def _readers_in_branch(x: Node, branch: Node) -> list[Node] | None:
    found: list[Node] = []
    for side in (region.body for region in regions_of(branch)):
        users = users_of([*side.inputs, *(y for y in side.live if y.op is not INPUT)])
        for y in [y for y, of in zip(side.inputs, branch.inputs[1:], strict=True) if of is x]:
            each = readers_of(y, users[y], side.outputs)
            if each is None:
                return None
            found += each
    return found


def takes_rows_of(user: Node, x: Node) -> bool:
    """Whether a loop reads an array by rows, and not otherwise."""
    if user.op is not SCAN:
        return False
    return [y.source for y in loop_of(user).xs].count(x) == user.inputs.count(x)


def _dtype(item: Node) -> list[str]:
    return [] if item.aval.dtype == float else [spell_dtype(item.aval.dtype)]
