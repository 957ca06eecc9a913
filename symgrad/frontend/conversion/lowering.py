"""Lowering: converted functions call the module `runtime` for their loops, branches and calls."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from textwrap import indent

from symgrad.frontend.conversion.comprehensions import (
    DICT,
    LIST,
    SUM,
    TAKERS,
    TRUTHS,
    Body,
    Comprehension,
    as_function,
    has_comprehension,
    is_ragged,
)
from symgrad.frontend.conversion.contents import CONSTRUCT
from symgrad.frontend.conversion.jumps import NEXT, Straight, Unconvertible, assign, without_jumps
from symgrad.frontend.conversion.liveness import Liveness, State
from symgrad.frontend.conversion.prepare import by_name, prepared
from symgrad.frontend.conversion.scopes import bound, captured, nonlocals, parameters, read, walrus_targets, within
from symgrad.frontend.conversion.source import Definition
from symgrad.frontend.conversion.templates import RUNTIME, Located, copied, expression, statements

_SIDES = """
if HERE.then():
    if HERE.sets:
        BEFORE
    BODY
if HERE.other():
    if HERE.sets:
        BEFORE
    OTHER
"""
_SIDE = """
with HERE:
    BODY
"""
_BRANCH_ONCE = f"""
HERE = SG.Branch(TEST, KEPT, GIVEN, READ)
{_SIDES}
if HERE.ends():
    AFTER
"""
_BRANCH = _BRANCH_ONCE.replace(_SIDES, "while HERE.again():" + indent(_SIDES, "    "))
_TRY = """
with SG.trying(lambda: CLASSES):
    BODY
"""
_FOR = """
HERE = FOR(ITEMS, KEPT, GIVEN, READ, FLAGS, TARGETS)
while HERE.more():
    with HERE:
        if HERE.sets:
            BEFORE
        BODY
if HERE.sets:
    AFTER
"""
_ITEM = """
TARGET = HERE.item
"""
_WHILE = """
HERE = SG.While(KEPT, GIVEN, READ, FLAGS)
while HERE.more():
    with HERE:
        if HERE.sets:
            BEFORE
        if HERE.holds(TEST):
            BODY
if HERE.sets:
    AFTER
"""
_CAUGHT = """
SG.caught()
"""
_SUPPRESSED = """
try:
    BODY
except BaseException:
    SG.caught()
    raise
"""
_IN_PLACE = """
if SG.has_operators(X):
    X = SG.in_place(SYMBOL, X, Y)
else:
    PLAIN
"""
_LAST_TEST = """
NAME = HERE.is_test_left()
"""
_SET = """
NAMES = HERE.values
DELETIONS
"""
_DELETION = """
if NAME is SG.UNDEFINED:
    del NAME
"""
DEEPEST = 8
"""Loops and branches around a branch that is traced twice by itself: Python nests no more than twenty blocks."""
_ITERABLES = ("range", "zip", "enumerate", "reversed")
_OWN = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.NamedExpr)

_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

_PATTERNS_IN_C = (ast.MatchClass, ast.MatchSequence, ast.MatchMapping)
"""Patterns whose tests Python makes in C, of the class or the items of what a value stands for."""

_LOOK_AT_NAMES = ("locals", "eval", "exec")
_LOOK_AT_NAMES_ALONE = ("vars", "dir")  # without an argument
"""Functions that may look at all names of the function that calls them, also at those of its conversion."""


def lowered(definition: Definition, shadowed: Collection[str], loop: str = "For") -> Definition:
    """Lower a definition to calls of the runtime module, where `loop` runs each `for`.

    It is changed in place; a lambda with a comprehension becomes a function. Names that are `shadowed` where it stands
    are not those of Python's functions. Generators, coroutines, and functions that look at their names as a dict are
    `Unconvertible`.
    """
    if isinstance(definition, ast.FunctionDef) and "locals" not in shadowed:
        definition.body = by_name(definition.body, parameters(definition))
    body: list[ast.AST] = [definition.body] if isinstance(definition, ast.Lambda) else [*definition.body]
    _check(body, shadowed)
    if isinstance(definition, ast.Lambda):
        if has_comprehension(definition.body):
            return lowered(_function(definition), shadowed)
        definition.body = _Lowering({}, Straight([], {}, {}), {*shadowed, *parameters(definition)}).visit(
            definition.body
        )
        return definition
    straight = without_jumps(prepared(definition.body))
    own = {*parameters(definition), *bound(straight.body)}
    outer = nonlocals(straight.body)  # which the outer function may read whenever this one has run
    states = Liveness(straight.body, own, captured(straight.body) | outer.keys(), outer).states
    definition.body = _Lowering(states, straight, {*shadowed, *own}, loop).block(straight.body)
    return definition


def _function(node: ast.Lambda) -> ast.FunctionDef:
    result = ast.copy_location(ast.Return(node.body), node.body)
    return ast.copy_location(ast.FunctionDef("<lambda>", node.args, [result], []), node)


def _check(body: Sequence[ast.AST], shadowed: Collection[str]) -> None:
    for node in within(body):
        asks = isinstance(node, ast.Name) and node.id in _LOOK_AT_NAMES and node.id not in shadowed
        alone = isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Name)
        asks = asks or (alone and node.func.id in _LOOK_AT_NAMES_ALONE and node.func.id not in shadowed)  # type: ignore
        if asks or (isinstance(node, _OWN) and not isinstance(node, ast.NamedExpr)):
            raise Unconvertible


class _Lowering(ast.NodeTransformer):
    """Lowers the statements and expressions of one function."""

    def __init__(
        self,
        states: Mapping[ast.stmt, State],
        straight: Straight,
        shadowed: Collection[str],
        loop: str = "For",
    ) -> None:
        self._states, self._shadowed, self._loop = states, shadowed, loop
        self._flags, self._tests = straight.flags, straight.tests
        self._count = self._depth = 0
        self._item: ast.expr | None = None  # of the loop around the statement at hand
        # definitions that the statement at hand needs; None where none may be
        self._before: list[ast.stmt] | None = None

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in body for new in self._several(statement)]

    def _inner(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements in a loop or a branch."""
        self._depth += 1
        found = self.block(body)
        self._depth -= 1
        return found

    def _several(self, statement: ast.stmt) -> list[ast.stmt]:
        outer, self._before = self._before, []
        new = self.visit(statement)
        before, self._before = self._before, outer
        return [*before, *(new if isinstance(new, list) else [new])]

    def _define(self, definition: ast.FunctionDef, kind: str, loop: str) -> ast.expr:
        """Define a function before the current statement and return its name."""
        assert self._before is not None
        self._count += 1
        definition.name = f"{CONSTRUCT}{self._count}.{kind}"  # looked into by no loop
        self._before.append(lowered(definition, self._shadowed, loop))  # type: ignore[arg-type]
        return ast.copy_location(ast.Name(definition.name, ast.Load()), definition)

    # ---- statements

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        names = sorted(read([node]))
        template = _BRANCH if self._depth < DEEPEST else _BRANCH_ONCE
        here = self._here()
        sides = [self._side(side, node, here if template is _BRANCH else "") for side in (node.body, node.orelse)]
        return self._construct(template, node, names, here, TEST=self._test(node.test), BODY=sides[0], OTHER=sides[1])

    def _here(self) -> str:
        """A name for a loop or a branch."""
        self._count += 1
        return f"{CONSTRUCT}{self._count}"

    def _side(self, body: Sequence[ast.stmt], at: ast.If, here: str) -> list[ast.stmt]:
        """One side of a branch, which an exception may leave."""
        raises = here and any(isinstance(x, (ast.Raise, ast.Call)) for x in within(body))
        new = self._inner(body) or [ast.copy_location(ast.Pass(), at)]
        return statements(_SIDE, body[0], HERE=here, BODY=new) if raises else new

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        names, here = sorted(read([node.target, *node.body])), self._here()
        items, target, outer = self._items(node.iter), self.visit(node.target), self._item
        self._item = expression("HERE.item", node, HERE=here)
        body = self._inner(node.body)
        if not self._flags.get(node):
            body = [*statements(_ITEM, node, HERE=here, TARGET=target), *body]
        self._item = outer
        targets = _constant([*bound([node.target])], node)
        loop = expression(f"SG.{self._loop}", node, SG=RUNTIME)
        return self._construct(_FOR, node, names, here, FOR=loop, ITEMS=items, TARGETS=targets, BODY=body)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """``x``"""
        return copied(self._item) if node.id == NEXT and self._item is not None else node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        names, test = sorted(read([node])), self._tests.get(node)
        found = self._construct(
            _WHILE, node, names, self._here(), TEST=self._test(node.test), BODY=self._inner(node.body)
        )
        if test is not None:
            here = found[0].targets[0].id  # type: ignore[attr-defined]
            found += statements(_LAST_TEST, node, HERE=here, NAME=test)
        return found

    def _construct(
        self, template: str, node: ast.stmt, names: Sequence[str], here: str, **parts: ast.expr | list[ast.stmt]
    ) -> list[ast.stmt]:
        state = self._states[node]
        return statements(
            template,
            node,
            SG=RUNTIME,
            HERE=here,
            KEPT=_constant(state.kept, node),
            GIVEN=_constant(state.given, node),
            READ=_constant(names, node),
            FLAGS=_constant(self._flags.get(node, ()), node),
            BEFORE=_set(here, state.kept, node),
            AFTER=_set(here, state.kept, node),
            **parts,
        )

    def _items(self, node: ast.expr) -> ast.expr:
        """Lower the iterable of a loop, whose items may be known."""
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            return self.visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _ITERABLES:
            node.args = [node.func, *map(self._items, node.args)]
            node.keywords = [self.visit(keyword) for keyword in node.keywords]
            node.func = expression("SG.over", node, SG=RUNTIME)
            return node
        return self.visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        self.generic_visit(node)
        cause = node.cause or ast.copy_location(ast.Constant(None), node)
        if node.exc is not None:
            node.exc = expression("SG.raised(ERROR, CAUSE)", node, SG=RUNTIME, ERROR=node.exc, CAUSE=cause)
        return node

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        caught = _caught_classes(node)
        node.body = self._guarded(node.body, caught)
        node.orelse = self._guarded(node.orelse, caught) if node.finalbody else self.block(node.orelse)
        for handler in node.handlers:
            handler.type = handler.type and self.visit(handler.type)
            handler.body = [*statements(_CAUGHT, node, SG=RUNTIME), *self.block(handler.body)]
        node.finalbody = self.block(node.finalbody)
        return node

    def _guarded(self, body: list[ast.stmt], caught: ast.expr) -> list[ast.stmt]:
        """Statements whose exceptions may be caught."""
        if not body:
            return body
        return statements(_TRY, body[0], SG=RUNTIME, CLASSES=copied(caught), BODY=self.block(body))

    def visit_With(self, node: ast.With) -> ast.stmt:
        """An exception that its manager may suppress is looked at before."""
        for item in node.items:
            manager = self.visit(item.context_expr)
            item.context_expr = expression("SG.managed(MANAGER)", item.context_expr, SG=RUNTIME, MANAGER=manager)
            item.optional_vars = item.optional_vars and self.visit(item.optional_vars)
        node.body = self.block(node.body)
        if self._depth < DEEPEST:
            node.body = statements(_SUPPRESSED, node, SG=RUNTIME, BODY=node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.decorator_list = [self.visit(x) for x in node.decorator_list]
        self._defaults(node.args)
        with suppress(Unconvertible):
            lowered(node, self._shadowed)
        return node

    def visit_ClassDef(self, node: ast.ClassDef | ast.AsyncFunctionDef) -> ast.stmt:
        return node

    visit_AsyncFunctionDef = visit_ClassDef

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """``first, *others = x`` takes all items, however many there are."""
        self.generic_visit(node)
        if any(isinstance(x, ast.Starred) for target in node.targets for x in getattr(target, "elts", ())):
            node.value = expression("SG.unpacked(A)", node.value, SG=RUNTIME, A=node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.value = node.value and self.visit(node.value)
        node.target = self.visit(node.target)
        return node

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        subject = _whole(self.visit(node.subject))
        asks = any(isinstance(x, _PATTERNS_IN_C) for case in node.cases for x in ast.walk(case.pattern))
        node.subject = expression("SG.matched(A)", node, SG=RUNTIME, A=subject) if asks else subject
        node.cases = [self.visit(case) for case in node.cases]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        node.pattern = self.visit(node.pattern)
        node.guard = node.guard and self.visit(node.guard)
        node.body = self.block(node.body)
        return node

    def visit_MatchSingleton(self, node: ast.MatchSingleton) -> ast.MatchClass:
        """``case True`` asks ``x is True`` in C; of a class Python asks that itself."""
        name = expression(f"SG.{str(node.value).upper()}", node, SG=RUNTIME)
        return ast.copy_location(ast.MatchClass(name, [], [], []), node)

    # ---- expressions

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self._defaults(node.args)
        if (
            self._before is not None
            and has_comprehension(node.body)
            and not (node.args.defaults or node.args.kw_defaults)
        ):
            return self._define(_function(node), "<lambda>", "For")
        return self._apart(node)

    def _apart(self, node: ast.expr) -> ast.expr:
        """Lower an expression with a scope of its own, outside of which no function can be defined for it."""
        outer, self._before = self._before, None
        self.generic_visit(node)
        self._before = outer
        for part in getattr(node, "generators", ()):
            part.iter = _whole(part.iter)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._listed(node, LIST) or self._apart(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._listed(node, DICT) or self._apart(node)

    visit_GeneratorExp = visit_SetComp = _apart

    def _listed(self, node: Comprehension, body: Body) -> ast.expr | None:
        """Turn a comprehension into a call of a function; None where it must stay in place."""
        if (
            self._before is None
            or _is_bound_to_its_place(node, names=False)
            or any(x.is_async for x in node.generators)
        ):
            return None
        items = self._items(node.generators[0].iter)
        definition, outer = as_function(node, body), [*walrus_targets([node])]
        if outer:  # names of this function, which the other one binds
            definition.body.insert(0, ast.copy_location(ast.Nonlocal(outer), node))
            own = [assign(name, ast.Constant(None), node) for name in outer]
            self._before.append(ast.copy_location(ast.If(ast.copy_location(ast.Constant(False), node), own, []), node))
        function = self._define(definition, "<dictcomp>" if body is DICT else "<listcomp>", "Each")
        return ast.copy_location(ast.Call(function, [items], []), node)

    def _taken(self, node: ast.Call) -> None:
        """Give a function that takes all items of a generator a list instead."""
        given = node.args[0] if node.args else None
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        is_known = name in (*TAKERS, *TRUTHS) and name not in self._shadowed
        if not is_known or not isinstance(given, (ast.GeneratorExp, ast.ListComp)):
            return
        body = (
            SUM
            if name == "sum" and not node.args[1:] and (is_ragged(given) or any(x.ifs for x in given.generators))
            else TRUTHS.get(name, LIST)
        )
        if found := self._listed(given, body):
            node.args[0] = found if body is LIST else ast.copy_location(ast.List([found], ast.Load()), node)

    def _defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.visit(x) for x in args.defaults]
        args.kw_defaults = [x and self.visit(x) for x in args.kw_defaults]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A property of an object has a getter, which is converted as well; not any attribute may be set."""
        self.generic_visit(node)
        if _is_of_runtime(node):
            return node
        function = "holder" if isinstance(node.ctx, ast.Load) else "assigned"
        template = f"SG.{function}(X, NAME)"
        node.value = expression(template, node, SG=RUNTIME, X=node.value, NAME=_text(node.attr, node))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        func = node.func
        own = _is_of_runtime(func)
        self._taken(node)
        node.args, node.keywords = [self.visit(x) for x in node.args], [self.visit(x) for x in node.keywords]
        if isinstance(func, ast.Attribute):  # a method
            func.value = self.visit(func.value)
        else:
            node.func = func = self.visit(func)
        if not own and not (isinstance(func, ast.Name) and func.id == "super"):
            node.func = expression("SG.called(FUNCTION)", func, SG=RUNTIME, FUNCTION=node.func)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if _is_entry(node):
            return self._entry(node)
        self.generic_visit(node)
        at, loads = node.slice, isinstance(node.ctx, ast.Load)
        is_text = isinstance(at, ast.Constant) and not isinstance(at.value, int)
        if loads and not (is_text or isinstance(at, (ast.Tuple, ast.Slice))):
            return expression("SG.item(A, I)", node, SG=RUNTIME, A=node.value, I=at)
        value = _whole(node.value) if loads and isinstance(at, ast.Slice) else node.value
        template = "SG.subscripted(A)" if loads or is_text else "SG.changed(A)"
        node.value = expression(template, node.value, SG=RUNTIME, A=value)
        return node

    def _entry(self, node: ast.Subscript) -> ast.expr:
        """``x[i][j]``: the row ``x[i]`` has no other use, so one list may stand for all."""
        indices: list[ast.expr] = []
        table: ast.expr = node
        while _is_entry(table) or (indices and isinstance(table, ast.Subscript) and _is_index(table.slice)):
            assert isinstance(table, ast.Subscript)
            indices.insert(0, self.visit(table.slice))
            table = table.value
        places = ast.copy_location(ast.Tuple(indices, ast.Load()), node)
        return expression("SG.entry(A, PLACES)", node, SG=RUNTIME, A=self.visit(table), PLACES=places)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if _is_bound_to_its_place(node.body, node.orelse):
            return node
        node.test, node.body, node.orelse = self._test(node.test), self.visit(node.body), self.visit(node.orelse)
        template = "SG.chosen(TEST, lambda: A, lambda: B)"
        return expression(template, node, SG=RUNTIME, TEST=node.test, A=node.body, B=node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if _is_bound_to_its_place(*node.values[1:]):
            return node
        self.generic_visit(node)
        return self._asked(node)

    def _asked(self, node: ast.BoolOp) -> ast.expr:
        """``a and b`` of parts that are lowered."""
        *before, last = node.values
        function = "both" if isinstance(node.op, ast.And) else "either"
        for value in reversed(before):
            last = expression(f"SG.{function}(A, lambda: B)", node, SG=RUNTIME, A=value, B=last)
        return last

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """Keep the known parts: text of traced values is not a key and cannot be compared."""
        self.generic_visit(node)
        if all(isinstance(part, ast.Constant) for part in node.values):
            return node
        return expression("SG.joined(PARTS)", node, SG=RUNTIME, PARTS=[_part(part) for part in node.values])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        node.value = self.visit(node.value)
        node.format_spec = node.format_spec and self.visit(node.format_spec)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """``x + y``, and ``text % values``, which may look into the values"""
        self.generic_visit(node)
        is_percent = isinstance(node.op, ast.Mod)
        if is_percent and isinstance(node.left, ast.Constant) and type(node.left.value) is str:
            return expression("SG.by_percent(TEXT, VALUES)", node, SG=RUNTIME, TEXT=node.left, VALUES=node.right)
        node.left, node.right = _operand("left", node.left), node.right if is_percent else _operand("right", node.right)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """``x += y`` of a name"""
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        symbol, x, y = _text(f"{_SYMBOLS[type(node.op)]}=", node), node.target.id, copied(node.value)
        (statement,) = statements(_IN_PLACE, node, SG=RUNTIME, X=x, SYMBOL=symbol, Y=y, PLAIN=[node])
        return statement

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.Not):
            self.generic_visit(node)
            node.operand = _operand("left", node.operand)
            return node
        return expression("SG.negation(A)", node, SG=RUNTIME, A=self._test(node.operand))

    def _test(self, node: ast.expr) -> ast.expr:
        """Lower an expression, and its parts, of which only the truth value matters."""
        if not isinstance(node, (ast.BoolOp, ast.IfExp)) or _is_bound_to_its_place(node):
            return self.visit(node)
        if isinstance(node, ast.BoolOp):
            node.values = [self._truth(value) for value in node.values]
            return self._asked(node)
        test, body, other = self._test(node.test), self._truth(node.body), self._truth(node.orelse)
        return expression("SG.chosen(TEST, lambda: A, lambda: B)", node, SG=RUNTIME, TEST=test, A=body, B=other)

    def _truth(self, node: ast.expr) -> ast.expr:
        found = self._test(node)
        if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Compare)) or _is_negation(node):
            return found
        return expression("SG.truth(A)", node, SG=RUNTIME, A=found)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """``a < b <= c`` asks for `c` only if ``a < b``."""
        if _is_bound_to_its_place(*node.comparators[1:]):
            return node
        self.generic_visit(node)
        if not node.ops[1:]:
            return _comparison(node, node.left, node.ops[0], node.comparators[0])
        tests = [_comparison(node, _argument("x", node), op, _argument("y", node)) for op in node.ops]
        steps = [expression("lambda x, y: A", node, A=test) for test in tests]
        values = [expression("lambda: A", node, A=value) for value in node.comparators[1:]]
        pairs = [x for pair in zip(values, steps[1:], strict=True) for x in pair]
        template = "SG.chain(A, B, STEP, PAIRS)"
        return expression(template, node, SG=RUNTIME, A=node.left, B=node.comparators[0], STEP=steps[0], PAIRS=pairs)


def _is_negation(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _whole(node: ast.expr) -> ast.expr:
    """Return the expression that is asked for its items."""
    return expression("SG.whole(A)", node, SG=RUNTIME, A=node)


def _operand(side: str, node: ast.expr) -> ast.expr:
    """Return an operand of an operator, which may be of a class of the user's."""
    return node if isinstance(node, ast.Constant) else expression(f"SG.{side}(A)", node, SG=RUNTIME, A=node)


def _part(node: ast.expr) -> ast.expr:
    """A part of an f-string, as `joined` takes it."""
    if not isinstance(node, ast.FormattedValue):
        return node
    spec = node.format_spec or ast.copy_location(ast.Constant(""), node)
    conversion = ast.copy_location(ast.Constant(node.conversion), node)
    return ast.copy_location(ast.Tuple([node.value, conversion, spec], ast.Load()), node)


def _comparison(at: Located, left: ast.expr, op: ast.cmpop, right: ast.expr) -> ast.expr:
    names = {ast.In: "inside", ast.NotIn: "outside", ast.Is: "same", ast.IsNot: "other"}
    if type(op) not in names:
        left, right = (x if isinstance(x, ast.Constant) else _whole(x) for x in (left, right))
        left, right = _operand("left", left), _operand("right", right)
        return ast.copy_location(ast.Compare(left, [op], [right]), at)
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, ast.Set):  # a traced value is no item of a set
        right = ast.copy_location(ast.Tuple(right.elts, ast.Load()), right)
    return expression(f"SG.{names[type(op)]}(A, B)", at, SG=RUNTIME, A=left, B=right)


def _caught_classes(node: ast.Try) -> ast.expr:
    """Return the classes that the handlers of a `try` are for, as an expression; None where it is not only names."""
    types = [handler.type for handler in node.handlers]
    names = (ast.Name, ast.Attribute, ast.Tuple, ast.expr_context)
    if node.finalbody or not all(t is not None and all(isinstance(n, names) for n in ast.walk(t)) for t in types):
        return ast.copy_location(ast.Constant(None), node)
    return ast.copy_location(ast.Tuple([copied(t) for t in types if t is not None], ast.Load()), node)


def _is_entry(node: ast.expr) -> bool:
    """Whether an expression reads ``x[i][j]``, by indices that are computed of names and numbers."""
    inner = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) else None
    return isinstance(inner, ast.Subscript) and isinstance(node, ast.Subscript) and _is_index(node.slice, inner.slice)


def _is_index(*nodes: ast.expr) -> bool:
    return all(isinstance(n, _OF_INDICES) for node in nodes for n in ast.walk(node))


_OF_INDICES = (
    ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip


def _is_of_runtime(node: ast.expr) -> bool:
    """Whether an expression is a name of the module that converted functions ask."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == RUNTIME


def _text(text: str, at: Located) -> ast.expr:
    return ast.copy_location(ast.Constant(text), at)


def _argument(name: str, at: Located) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def _is_bound_to_its_place(*nodes: ast.expr, names: bool = True) -> bool:
    """Whether an expression would do something else in a function of its own, also by the `names` that it binds."""
    inside = [n for node in nodes for n in within([node]) if names or not isinstance(n, ast.NamedExpr)]
    return any(isinstance(n, _OWN) or (isinstance(n, ast.Name) and n.id == "super") for n in inside)


def _constant(names: Sequence[str], at: Located) -> ast.expr:
    return ast.copy_location(ast.Tuple([ast.copy_location(ast.Constant(n), at) for n in names], ast.Load()), at)


def _set(here: str, names: Sequence[str], at: Located) -> list[ast.stmt]:
    """Statements that give names the values that the construct has for them."""
    if not names:
        return [ast.copy_location(ast.Pass(), at)]
    targets = ast.Tuple([ast.copy_location(ast.Name(name, ast.Store()), at) for name in names], ast.Store())
    deletions: list[ast.stmt] = []
    for name in names:
        (deletion,) = statements(_DELETION, at, SG=RUNTIME, NAME=name)
        deletions.append(deletion)
    return statements(_SET, at, HERE=here, NAMES=ast.copy_location(targets, at), DELETIONS=deletions)
