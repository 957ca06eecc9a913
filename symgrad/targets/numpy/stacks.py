"""Ys in source: arrays where the number of iterations is known, else, or for other loops, lists."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.core.graph import CONSTANT, SIZE, Node
from symgrad.lowering.placement import Stack
from symgrad.spelling import Code, Name, call, spell_dtype, spell_param
from symgrad.targets.numpy.body import Expr
from symgrad.targets.numpy.names import plural
from symgrad.targets.numpy.statements import Assign, Evaluate, Statement
from symgrad.targets.numpy.structured import Move, Structured, Together


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
    given: Sequence[Node]  # the parameters of the body
    stacks: dict[Node, Stack]
    joint: dict[Node, str | None]  # one list, and what its rows are called

    def _begin_stack(self, item: Node) -> Name:
        """Begin a stack: an array that iterations fill, or a list where their number is unknown."""
        outer, y = self.outer, self.stacks[item].y
        carried = dict(zip([*self.results, *self.given], self.names * 2, strict=False))
        hint = carried[y].text if y in carried else self.part.hint(y)
        if item in self.joint:
            return self._begin_joint(item, hint)
        if outer.hint(item) is None and hint:
            outer.names.rename(item, outer.names.fresh(plural(hint)))
        name = outer.name(item)
        if self.stacks[item].listed:
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

    def _moves(self, stacks: Sequence[Name]) -> list[Move]:
        """Return the places of the ys of each iteration."""
        copied = {stack.y for stack in self.stacks.values() if stack.copied}
        moves = []
        for (item, stack), name in zip(self.stacks.items(), stacks, strict=True):
            if item not in self.joint:
                place = Code(f"{name.text}[{self.count.text}]")
                moves.append(Move(stack.y, name, True, copied) if stack.listed else Move(stack.y, place))
        if self.joint:
            first, *more = [(self.stacks[x].y, self.outer.name(x)) for x in self.joint]
            moves.append(Move(*first, True, copied, tuple([y for y, _ in more])))
        return moves

    def _behind(self) -> list[Statement]:
        """Return the statements after the loop: lists in order, or arrays of them, and the number of iterations."""
        outer = self.outer
        found: list[Statement] = []
        for item in self._lists():
            name = outer.name(item)
            if self.stacks[item].stays:
                if item in self.joint:
                    outer.together[item] = Together(tuple(self.joint), tuple(self.joint.values()))
                is_list = item not in self.joint or item is next(iter(self.joint))
                if self.reverse and is_list:
                    found.append(Evaluate(call(f"{name.text}.reverse", [])))
            else:
                array = call("np.array", [f"{name.text}[::-1]" if self.reverse else name.text, *_dtype(item)])
                row = list(map(spell_param, item.aval.shape[1:]))
                array = call(f"{array.text}.reshape", [f"len({name.text})", *row]) if row else array
                found.append(Assign((name,), array, note=outer.note(item.aval), makes=item))
        return [*found, *self._number_of_turns()]

    def _lists(self) -> list[Node]:
        """Return the ys that iterations append to lists."""
        return [item for item, stack in self.stacks.items() if stack.listed]

    def _number_of_turns(self) -> list[Statement]:
        outer, turns = self.outer, self.total
        lists = self._lists() if self.test else []
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


def _dtype(item: Node) -> list[str]:
    return [] if item.aval.dtype == float else [spell_dtype(item.aval.dtype)]
