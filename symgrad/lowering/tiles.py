"""Tiling of loops that are not fused: all of them run over a tile of rows that stays in the cache, then over the next.

Loops over the same rows stay separate where compilers vectorise one along the rows and another along each row. A buffer
between them then needs memory for one tile, and arrays that they share are read from memory once. Products of small
matrices are loops over rows, too (`row_products`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from symgrad.analysis.cost import likely
from symgrad.core.shapes import product
from symgrad.lowering import row_products
from symgrad.lowering.expressions import Expr, Load, Local, Number, minus
from symgrad.lowering.fusion import fit
from symgrad.lowering.names import names_of
from symgrad.lowering.parallel import Iterations, fills
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Declare,
    For,
    Function,
    Multiply,
    Remark,
    Require,
    Statement,
    Store,
    Tiles,
    rewrite,
    walk,
)
from symgrad.lowering.uses import Uses, conflict, shared_axis, uses_of

CACHED = 1 << 17  # bytes that the arrays of a tile may take
CACHED_WITH_PRODUCTS = 2 * CACHED  # BLAS takes less time for a row where there are more
FEWEST, MOST = 8, 480  # rows of a tile; buffers of no power of two bytes do not fall onto each other in caches
LARGE = 1 << 19  # bytes of arrays from which on they do not stay in the cache from loop to loop
SPARED = 0.4  # the part of what loops read and write that tiles must spare: each tile begins again with every array
NEAR = 16  # statements behind a loop among which another one is looked for


def with_tiles(function: Function) -> Function:
    """Tile loops that share the rows of large arrays."""
    row_products.with_row_loops(function.body)
    tiling = _Tiling(function)
    body = tiling.suite(function.body, is_outermost=True)
    row_products.without_row_loops(body)
    return replace(function, buffers=[tiling.smaller.get(b, b) for b in function.buffers], body=body)


@dataclass(eq=False)
class _Item:
    """A statement, the remark above it, and facts that each group asks for which may take it."""

    remark: Remark | None
    statement: Statement
    iterations: Iterations

    @cached_property
    def uses(self) -> Uses:
        return uses_of(self.statement)

    @cached_property
    def is_parallel(self) -> bool:
        """Whether it is a loop with independent iterations."""
        return isinstance(self.statement, For) and self.iterations.marked(self.statement) is not None

    @cached_property
    def product(self) -> Multiply | None:
        """Return the product of which it is the loop over rows."""
        return row_products.product_in(self.statement)

    @cached_property
    def streams(self) -> dict[Buffer, int]:
        """Return the arrays with rows, and how many bytes of a row a loop reads or writes, as far as is known."""
        s = self.statement
        assert isinstance(s, For)
        inner = {x.index.name for x in walk(s.body) if isinstance(x, For)}
        found: dict[Buffer, int] = {}
        for b in self.uses.buffers:
            indices = [at for at in self.uses.at(b) if at]
            names = [set[str]().union(*(at[k].names for at in indices if k < len(at))) for k in range(len(b.shape))]
            if any(s.index.name in x for x in names):
                shortest = min(map(len, indices))  # a product uses all along the axes behind that of its rows
                inside = [k for k, x in enumerate(names) if x & inner or k >= shortest]
                rest = [b.shape[k] for k in inside if s.index.name not in names[k]]
                found[b] = int(likely(product(rest))) * b.dtype.itemsize
        return found


@dataclass
class _Group:
    """Loops over the same rows, and the statements between them, which move before or after all of them."""

    items: list[_Item] = field(default_factory=list)
    loops: list[For] = field(default_factory=list)  # of the items
    ids: set[int] = field(default_factory=set)  # of the loops
    uses: Uses = field(default_factory=Uses)  # of all of them
    streams: dict[Buffer, int] = field(default_factory=dict)  # bytes that they read and write for a row
    moved: int = 0  # those of each loop by itself, added up
    before: list[_Item] = field(default_factory=list)
    behind: list[_Item] = field(default_factory=list)
    later: Uses = field(default_factory=Uses)  # those of `behind`

    @property
    def products(self) -> list[Multiply]:
        """Return the products of which its loops compute the rows."""
        return [x.product for x in self.items if x.product is not None]

    def takes(self, item: _Item) -> bool:
        """Whether a statement is a loop that may run with the others, tile by tile, and shares rows with them."""
        s = item.statement
        if not isinstance(s, For) or not fit(self.loops[0], self.uses, s, item.uses) or conflict(self.later, item.uses):
            return False
        if self.streams.keys().isdisjoint(item.streams) or not item.is_parallel:
            return False
        products = [*self.products, *([item.product] if item.product else [])]
        return not products or self._takes_products(item, products)

    def _takes_products(self, item: _Item, products: Sequence[Multiply]) -> bool:
        """Whether a tile has enough rows for products, and no other loop uses the target of a sum over rows."""
        sums = {s.target for s in products if s.adds}
        used = self.uses.buffers & item.uses.buffers
        streams = self.streams | {b: max(n, self.streams.get(b, 0)) for b, n in item.streams.items()}
        return sums.isdisjoint(used) and sum(streams.values()) * row_products.FEWEST <= CACHED_WITH_PRODUCTS

    def take(self, item: _Item) -> None:
        """Add a loop."""
        assert isinstance(item.statement, For)
        self.items.append(item)
        self.loops.append(item.statement)
        self.ids.add(id(item.statement))
        self.uses.add(item.uses)
        self.moved += sum(item.streams.values())
        self.streams |= {b: max(n, self.streams.get(b, 0)) for b, n in item.streams.items()}

    def moves(self, item: _Item) -> bool:
        """Move a statement before or after the loops; return whether it may move."""
        s, uses = item.statement, item.uses
        if item.product is not None or (not isinstance(s, Declare | Assign | Store | For) and not self._is_noted(s)):
            return False  # a product that comes earlier holds its memory for longer
        if conflict(self.uses, uses) or conflict(self.later, uses):
            self.behind.append(item)
            self.later.add(uses)
        else:
            self.before.append(item)
        return True

    def _is_noted(self, s: Statement) -> bool:
        """Whether a statement checks the flag of a loop, whose indices out of bounds are clamped: it may come later."""
        return isinstance(s, Require) and isinstance(s.index, Local) and s.index.name in self.uses.names_set


class _Tiling:
    """Finds loops of a function that share rows, and tiles them."""

    def __init__(self, function: Function) -> None:
        self.names, self.iterations = names_of(function), Iterations(function)
        self.smaller: dict[Buffer, Buffer] = {}

    def suite(self, statements: Sequence[Statement], is_outermost: bool = False) -> list[Statement]:
        items: list[_Item] = []
        remark = None
        for s in statements:
            if isinstance(s, Remark):
                remark = s
            else:
                items.append(_Item(remark, s, self.iterations))
        found = self._tiled(items, is_outermost)
        return _with_remarks(found) if any(isinstance(s, Tiles) for _, s in found) else [*statements]

    def _tiled(self, items: Sequence[_Item], is_outermost: bool) -> list[tuple[Remark | None, Statement]]:
        found: list[tuple[Remark | None, Statement]] = []
        left = deque(items)
        while left:
            item = left.popleft()
            remark, s = item.remark, item.statement
            if not item.is_parallel:
                for body in s.bodies:
                    body[:] = self.suite(body)
                found.append((remark, s))
                continue
            group = _Group()
            group.take(item)
            taken = self._extended(group, left)
            if len(group.loops) > 1 and (rows := self._rows(group, is_outermost)):
                found += [*self._tiled(group.before, is_outermost), *self._cleared(group)]
                found.append((remark, self._tiles(group, rows)))
                for _ in range(taken):
                    left.popleft()
                left.extendleft(reversed(group.behind))
            else:
                found.append((remark, s))
        return found

    def _extended(self, group: _Group, left: Iterable[_Item]) -> int:
        """Add loops to a group, and return how many statements are handled: those up to its last loop."""
        taken, as_of_then = 0, (0, 0)
        for k, item in enumerate(left, start=1):
            if k > taken + NEAR:
                break
            if group.takes(item):
                group.take(item)
                taken, as_of_then = k, (len(group.before), len(group.behind))
            elif not group.moves(item):
                break
        del group.before[as_of_then[0] :], group.behind[as_of_then[1] :]
        return taken

    def _rows(self, group: _Group, is_outermost: bool) -> int:
        """Return how many rows a tile has; 0 if tiles save little, all rows stay in the cache, or rows may be few."""
        stop, nbytes = group.loops[0].stop, sum(group.streams.values())
        count = stop.value if isinstance(stop, Number) else None
        is_large = is_outermost if count is None else count * nbytes >= LARGE
        if not is_large or not 0 < nbytes <= CACHED:
            return 0
        kept = sum(n for b, n in group.streams.items() if self._axis_of_tile(b, group) is None)
        if kept > (1 - SPARED) * group.moved:
            return 0
        cached = CACHED_WITH_PRODUCTS if group.products else CACHED
        return min(max(cached // nbytes // 8 * 8, FEWEST), MOST, *map(row_products.most_rows, group.products))

    def _tiles(self, group: _Group, rows: int) -> Tiles:
        """Return the loop over tiles of so many rows."""
        first, last = (Local(self.names.fresh(name)) for name in ("first", "last"))
        loops = group.loops
        buffers = sorted(group.uses.buffers, key=lambda b: b.name)
        axes = {b: axis for b in buffers if (axis := self._axis_of_tile(b, group)) is not None}
        parts = {b: replace(b, shape=(*b.shape[:k], rows, *b.shape[k + 1 :])) for b, k in axes.items()}
        self.smaller |= parts
        _Moving(parts, axes, first).suite(loops)
        private = [*parts.values()]
        stop = loops[0].stop
        for loop in loops:
            loop.start, loop.stop = first, last
        products = {x: row_products.of_tile(x.product, first, last, private) for x in group.items if x.product}
        body = _with_remarks([(x.remark, products.get(x, x.statement)) for x in group.items], group.items[0].remark)
        return Tiles(first, stop, body, last=last, rows=rows, private=private)

    def _cleared(self, group: _Group) -> Iterator[tuple[Remark | None, Statement]]:
        """Yield loops that clear the targets of sums over rows."""
        i = group.loops[0].index
        inner = (x.index for x in walk(group.loops) if isinstance(x, For) and x.index != i)
        j = next(inner, None) or Local(self.names.fresh("j"))
        for x in group.items:
            if x.product is not None and x.product.adds:
                yield x.remark, row_products.cleared(x.product, i, j)

    def _axis_of_tile(self, b: Buffer, group: _Group) -> int | None:
        """Return the axis of a buffer that can be as long as a tile: the loops fill each tile before they read it."""
        uses = self.iterations.uses[b]
        own = [next((loop for loop in use.loops if id(loop) in group.ids), None) for use in uses]
        if b.kind != "own" or own[0] is None or None in own:
            return None
        index = own[0].index
        axis = shared_axis([use.at for use in uses], index)
        if axis is None or uses[0].at is None or uses[0].at[axis] != index:
            return None
        return axis if fills(uses[0], b, own[0], axis) else None


class _Moving:
    """Replaces buffers for all rows by `parts` for the rows of a tile; `axes` are those of the rows."""

    def __init__(self, parts: Mapping[Buffer, Buffer], axes: Mapping[Buffer, int], first: Local) -> None:
        self.parts, self.axes, self.first = parts, axes, first

    def suite(self, statements: Sequence[Statement]) -> None:
        for s in walk(statements):
            rewrite(s, self.expression)
            if isinstance(s, Store):
                s.buffer, s.index = self._moved(s.buffer, s.index)
            elif isinstance(s, Multiply):
                s.left, s.right = (replace(x, buffer=self.parts.get(x.buffer, x.buffer)) for x in (s.left, s.right))
                s.target = self.parts.get(s.target, s.target)

    def expression(self, x: Expr) -> Expr:
        x = x.with_operands(*map(self.expression, x.operands))
        return Load(*self._moved(x.buffer, x.index)) if isinstance(x, Load) else x

    def _moved(self, b: Buffer, index: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        if b not in self.parts:
            return b, index
        return self.parts[b], tuple([minus(x, self.first) if k == self.axes[b] else x for k, x in enumerate(index)])


def _with_remarks(items: Sequence[tuple[Remark | None, Statement]], said: Remark | None = None) -> list[Statement]:
    """Return statements, each with a remark above it unless `said` is the same."""
    found: list[Statement] = []
    for remark, s in items:
        if remark is not None and (said is None or (remark.where, remark.kind) != (said.where, said.kind)):
            found.append(remark)
            said = remark
        found.append(s)
        said = next((x for x in reversed([*walk([s])]) if isinstance(x, Remark)), said)
    return found
