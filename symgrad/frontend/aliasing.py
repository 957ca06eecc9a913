"""Memory of Variables: arrays of their own and views, through which writes reach the base."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from symgrad.core.graph import Aval, Graph, Node, Traced
from symgrad.core.provenance import here
from symgrad.core.shapes import same_shape
from symgrad.core.sizes import Dim, Shape
from symgrad.errors import ScalarError, UnsupportedError, WriteError
from symgrad.frontend.ties import Tie, reach, tied
from symgrad.ops import index, index_expressions, shape
from symgrad.ops.astype import ASTYPE
from symgrad.ops.marks import ALIAS


class Memory(Traced):
    """A node of a graph that can be rebound to another, and its views.

    A view remembers how it was read from its base; it is read again when the memory that it shows has changed, and
    writing into it writes back into its base.
    """

    may_be_tied = True
    """Whether writes may reach it through an alias that a boolean decides."""
    __slots__ = (
        "_array",
        "_base",
        "_born",
        "_doubt",
        "_kin",
        "_node",
        "_order",
        "_outside",
        "_root",
        "_shown",
        "_ties",
        "_view",
        "_written",
        "graph",
        "locked",
    )

    def __init__(self, graph: Graph, node: Node, lock: str = "") -> None:
        self.graph = graph
        self._node = node
        self.locked = lock  # why it cannot be written into, "" if it can
        self._root: Self | None = None  # owner of the memory, None for itself
        self._base: Self | None = None  # what it is a view of
        self._view: Node | None = None  # how it was read from its base when it was made
        self._doubt = ""  # why it cannot be read, "" if it can: what may show its memory was written into
        self._kin: dict[int, tuple[Self, str]] | None = None  # owners of what may be the same memory, and why, by ids
        self._ties: list[Tie] | None = None  # by which booleans it is other memory, of an owner
        self._shown: Node | None = None  # the content of the root that _node was read from
        self._written = False  # whether the memory that it owns has been written into
        self._outside: list[tuple[weakref.ref[np.ndarray], Self]] | None = None  # what libraries have got for it
        self._born = len(graph.nodes)  # before or after the body of a loop or a branch was begun
        self._array: bool | None = False  # of no dimensions and yet an array, not a scalar; None where it may be either
        # the order in which it lies in memory without gaps, "C", "F", or "" where that is not known; also that in which
        # NumPy lays out what it computes from it alone. How arguments lie in memory is the caller's choice
        self._order = "" if lock and len(node.aval.shape) > 1 else "C"

    @property
    def node(self) -> Node:
        root = self._root
        if doubt := (self if root is None else root)._doubt:
            raise _unsure(doubt)
        if root is not None and self._shown is not root._node:
            self._refresh()
        return self._node

    @property
    def bound(self) -> Node:
        """The node, whether or not a name is bound to it in any case."""
        return self.node

    @property
    def aval(self) -> Aval:
        return self._node.aval

    @property
    def shape(self) -> Shape:
        return self._node.aval.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        raise UnsupportedError("the shape of a traced array cannot be changed in place", "Write x = x.reshape(shape).")

    @property
    def owner(self) -> Self:
        """The Variable whose memory this one shows, itself if it is no view."""
        return self if self._root is None else self._root

    # ---- layout

    @property
    def writes_in_place(self) -> bool:
        """Whether it is an array, and not a NumPy scalar, which ``+=`` replaces by a new one."""
        return bool(self._array or self.shape)

    @property
    def order(self) -> str:
        """The order of NumPy's results that keep the order of this array: "C", "F", or "" where it is not known."""
        return self._order if len(self.shape) > 1 else "C"  # of one axis no gap is kept

    def is_contiguous(self, order: str = "C") -> bool | None:
        """Whether it is contiguous in C's or in Fortran's order; None where that is not known."""
        if self._base is None and (self._order == order or (self._order and len(self.shape) < 2)):
            return True
        layout = self.layout()
        return None if layout is None else bool(layout.flags[order])

    @property
    def packed_order(self) -> str:
        """The order in which its numbers lie without gaps, "C" or "F"; "" where there are gaps, or may be some."""
        return next((order for order in ("C", "F") if self.is_contiguous(order)), "")

    def layout(self) -> np.ndarray | None:
        """An array laid out in memory as NumPy would this one, never to be read; None where that is not known."""
        if any(isinstance(n, Dim) for n in self.shape) or (self._base is None and not self._order):
            return None
        if self._base is None:
            return _packed(self.shape) if self._order == "C" else _packed(self.shape[::-1]).T
        below = self._base.layout()
        if below is None:
            return None
        view: Node = self._view  # type: ignore[assignment]
        params = dict(view.params)
        if view.op is index.GET:
            return below[index_expressions.decode(params["key"], [0] * (len(view.inputs) - 1))]
        if view.op is shape.TRANSPOSE:
            return below.transpose(params["axes"])
        return below.reshape(self.shape) if view.op is shape.RESHAPE else None

    def lay_out(self, order: str) -> None:
        """Note the order in which NumPy lays out this array."""
        self._order = order

    def copied(self, order: str = "C", array: bool | None = False) -> Self:
        """Return the same value in memory of its own. No node is added: values do not change, only what a Variable
        stands for.
        """
        result: Self
        if self.aval.weak:
            result = ASTYPE(self, dtype=self.aval.dtype)
        else:
            result = type(self)(self.graph, self.node)
        result._array, result._order = array, self.order_of_copy(order)
        return result

    def order_of_copy(self, order: str | None) -> str:
        """The order of a copy that is asked for in C's or Fortran's, in that of this array (K), or as it is (A)."""
        if order in ("C", "F"):
            return order
        if order != "A" or self.is_contiguous("C"):
            return self.order
        is_fortran = self.is_contiguous("F")
        return "" if is_fortran is None else "F" if is_fortran else "C"

    def or_copy(self, order: str | None = None, reason: str = "") -> Self:
        """This array if it is laid out in an order, C's or Fortran's or for "A" any of these, else a copy.

        Where that is not known it is a copy which may be the same memory.
        """
        found = [self.is_contiguous(each) for each in ("C", "F") if order in (each, "A")]
        fits = not found or True in found or (None if None in found else False)
        if fits and self.writes_in_place:
            return self
        result = self.copied(order or "K", array=True)
        if fits is None:
            result.may_be(self, reason)
        return result

    def may_be(self, other: Self, reason: str) -> None:
        """Note that this array may be a view of another one, or a copy."""
        kin = other.kin
        for x in kin if len(kin) > 1 or other.owner.locked in ("", TURNED_OFF) else ():  # else nobody writes into it
            self.link(x, reason)
        self.locked = self.locked or other.locked

    # ---- views

    def attach(self, base: Self) -> None:
        """Make this, just recorded, a view of `base`, as far as NumPy does so."""
        op = self._node.op
        if op is index.GET and not self.shape:
            return  # a scalar
        if not base.writes_in_place:
            is_array = op is not ALIAS and op is not shape.TRANSPOSE  # else NumPy makes an array of a scalar
            self._array = base._array if op is ALIAS else is_array
            return
        self._array = True
        if op is shape.RESHAPE and (base._base is not None or base.order != "C"):
            is_view = _reshape_is_view(self, base)
            if is_view is None:
                self._order = ""
                self.may_be(base, "x.reshape may give a view of")
                return
            if not is_view:
                self._order = "C"
                return
        elif op is shape.TRANSPOSE:
            reverses = dict(self._node.params)["axes"] == tuple(reversed(range(len(self.shape))))
            self._order = {"C": "F", "F": "C"}.get(base.order, "") if reverses else ""
        elif op.read_only:
            self.locked = f"{op.path} gives a read-only array"
        self.locked = base.locked or self.locked
        self._view, self._base, self._root = self._node, base, base.owner
        self._shown = self._root._node

    def _refresh(self) -> None:
        """Read this view again after a write into its base."""
        chain = [self]
        while chain[-1]._base is not None and chain[-1]._shown is not chain[-1].owner._node:
            chain.append(chain[-1]._base)
        for view in reversed(chain):
            read, base = view._view, view._base
            if base is None or view._shown is view.owner._node:
                continue
            assert read is not None
            known = _just_written(read, base._node)
            view._node = known or self.graph.add(read.op, (base._node, *read.inputs[1:]), read.params)
            view._shown = view.owner._node

    def is_seen_in(self, view: Self) -> bool:
        """Whether something shows the memory of this array for certain."""
        return view is self or view._base is self

    def holds(self, value: Self, key: Any) -> bool:
        """Whether `value` is the view x[key], up to date."""
        if value._base is not self and value is not self:
            return False
        if value._root is not None and value._shown is not self.owner._node:
            return False
        here = index.get(self, key)
        if here is value or value is self:
            return here is value
        return isinstance(here, Memory) and here._base is self and _same_view(here._view, value._view)

    def restate(self, node: Node) -> None:
        """Let another node of the same value stand for it; nothing is written."""
        self._node = node

    def stands_for(self, value: Any, order: str) -> None:
        """Stand for `value` in the body of a loop; `order` is the memory order in all iterations."""
        self._order = order
        if isinstance(value, np.ndarray) and not isinstance(value, Memory):
            self.locked = "it is an array that exists before the program runs"
        elif isinstance(value, Memory):
            self._array, self.locked = value._array, value.locked

    def as_array(self, array: bool | None) -> None:
        """Be an array, or else a scalar, if of no dimensions."""
        self._array = array

    @property
    def was_written(self) -> bool:
        """Whether its memory, which it owns, was written into."""
        return self._written

    def is_older(self, nodes: int) -> bool:
        """Whether its memory was there when the graph had so many nodes."""
        return self.owner._born < nodes

    @property
    def content(self) -> Node:
        """Return the node that this memory, of an owner, holds."""
        return self._node

    def set_content(self, node: Node) -> None:
        """Let this memory, of an owner, hold something else for a while: nobody has written into it."""
        self._node = node
        self._written = True

    # ---- what may be the same memory

    @property
    def kin(self) -> list[Self]:
        """Return the owners of all memory that may alias this one's, its own first."""
        found: list[Self] = tied(self.owner)
        return [*{id(x): x for x in (*found, *(z for y in found for z, _ in (y._kin or {}).values()))}.values()]

    def is_kin(self, other: Self) -> bool:
        """Whether the two may show the same memory."""
        return any(x is other.owner for x in self.kin)

    @property
    def has_kin(self) -> bool:
        """Whether the memory that it owns may alias other memory, without a boolean that decides."""
        return bool(self._kin)

    @property
    def ties(self) -> list[Tie]:
        """Return the ties of the memory that it owns: aliases decided by booleans."""
        return self._ties or []

    @property
    def base_view(self) -> tuple[Self, Node] | None:
        """Return the base, and the node that reads this view from it; None for owners."""
        return None if self._base is None or self._view is None else (self._base, self._view)

    def tie(self, ties: Sequence[Tie]) -> None:
        """Note the booleans that decide which memory this new array is."""
        journal = self.graph.journal
        for each in ties:
            for x in (self, each.owner):
                x._ties = [*x.ties, each]
                if journal is not None and x.is_older(self.graph.body):
                    journal.linked.append(x)

    def link(self, other: Self, reason: str = "") -> None:
        """Note that two arrays may alias, and why: where one is written into, the other may not be read."""
        a, b = self.owner, other.owner
        if a is b:
            return
        journal = self.graph.journal
        for x, y in ((a, b), (b, a)):
            x._kin = x._kin or {}
            x._kin[id(y)] = y, reason
            if journal is not None and x.is_older(self.graph.body):
                journal.linked.append(x)

    def forget_kin(self, nodes: int) -> None:
        """Forget aliases, except those that were there when the graph had so many nodes."""
        self._kin = {key: kin for key, kin in (self._kin or {}).items() if kin[0].is_older(nodes)}
        self._ties = [tie for tie in self.ties if tie.result.is_older(nodes)]

    @property
    def doubtful(self) -> str:
        """Why it is not to be read; "" if it may be."""
        return self.owner._doubt

    def doubt(self, reason: str) -> None:
        """Refuse to read this memory from now on."""
        owner, graph = self.owner, self.graph
        if owner._doubt:
            return
        if owner._born < graph.body:
            if graph.journal is None:
                raise _written_from_a_body()
            graph.journal.doubts.append(owner)
        owner._doubt = reason

    def believe(self) -> None:
        """Allow this memory, of an owner, to be read again: the write that spoilt it has been undone."""
        self._doubt = ""

    # ---- writing

    def writable(self) -> None:
        """Raise where an assignment would reach memory that is not the function's own."""
        if not self.writes_in_place and self._array is False:  # as NumPy, and Python, say it
            raise ScalarError("a scalar cannot be written into", "Bind the name anew: x = value.")
        if self.locked:
            raise WriteError(self.locked, "Write into a copy: x = x.copy().")
        if not self.writes_in_place:
            raise WriteError("a value that may be a scalar cannot be written into", "Bind the name anew: x = value.")

    def rebind(self, content: Node, alone: bool = False) -> None:
        """Make `content`, of the same shape and dtype, the value of this memory and of all that view it.

        What is tied to it has its value already where it is written into `alone`.
        """
        self._note_write()
        view, written = self, [(self, content)]
        while view._base is not None:
            base, new = view._base, type(self)
            content = index.write_back(view._view, new(self.graph, base.node), new(self.graph, content)).node
            view = base
            written.append((view, content))
        view._written = True
        for target, node in written:
            target._node, target._shown = node, written[-1][1]
        self._spoil_kin()
        view._write_outside()
        if view._ties and not alone:
            reach(view)

    def receive(self, content: Node) -> None:
        """Make `content` the value of this memory, of an owner, which was written into under another name."""
        self._note_write()
        self._node, self._written = content, True
        self._write_outside()

    def _note_write(self) -> None:
        owner, journal = self.owner, self.graph.journal
        if owner._born < self.graph.body:
            if journal is None:
                raise _written_from_a_body()
            journal.setdefault(id(owner), (owner, owner._node))

    def hand_out(self, array: np.ndarray) -> None:
        """Note that a library has got this array for the memory, whose value is known."""
        owner = self.owner
        owner._outside = [(ref, x) for ref, x in owner._outside or () if ref() is not None] + [
            (weakref.ref(array), self)
        ]

    def _write_outside(self) -> None:
        """Copy the content of this memory, of an owner, to arrays that libraries still hold for it."""
        for ref, x in self._outside or ():
            array = ref()
            if array is None:
                continue
            value = x.known_value()  # type: ignore[attr-defined]
            if value is None or self._born < self.graph.body:
                raise WriteError(
                    "a traced value is written into a constant array whose memory a library holds",
                    "Give the library a copy, np.array(x, copy=True); instead of np.ndenumerate(x) iterate over "
                    "np.ndindex(x.shape).",
                )
            array.flags.writeable = True
            array[...] = value
            array.flags.writeable = False

    def _spoil_kin(self) -> None:
        """Forbid reading memory that may alias the one written into."""
        for x, reason in [*(self.owner._kin or {}).values()]:
            x.doubt(f"{reason or _JOINED} the one that {here()} writes into")


def _just_written(view: Node, base: Node) -> Node | None:
    """Return the value that was last written into `base`, where that is the part that a view shows."""
    if base.op is not index.SET or view.op is not index.GET or base.params != view.params:
        return None
    _, value, *places = base.inputs
    return value if tuple(places) == view.inputs[1:] and value.aval == view.aval else None


def _reshape_is_view(view: Memory, base: Memory) -> bool | None:
    """Whether a reshape is a view in NumPy; None where that is unknown."""
    old, new = ([n for n in x.shape if not (isinstance(n, int) and n == 1)] for x in (base, view))
    if same_shape(tuple(old), tuple(new)) or len(old) < 2:  # axes of size 1 come and go freely; one is parted with gaps
        return True
    layout = base.layout()
    if layout is None:
        return None
    try:
        layout.reshape(view.shape, copy=False)
    except ValueError:
        return False
    except TypeError:  # NumPy 2.0 cannot be asked
        return None
    return True


def packed_order(x: Any) -> str:
    """The order in which a value lies in memory without gaps: "C", "F", or "" where there are gaps, or may be some."""
    if isinstance(x, Memory):
        return x.packed_order
    if not isinstance(x, np.ndarray) or x.flags.c_contiguous:
        return "C"
    return "F" if x.flags.f_contiguous else ""


_BYTE = np.zeros(1, np.int8)


def _packed(sizes: Sequence[Any]) -> np.ndarray:
    """An array of these sizes that takes no memory, laid out in C's order; never to be read."""
    strides = [1]
    for n in reversed(sizes[1:]):
        strides.append(strides[-1] * n)
    return np.lib.stride_tricks.as_strided(_BYTE, sizes, strides[::-1] if sizes else (), writeable=False)


def _same_view(a: Node | None, b: Node | None) -> bool:
    """Whether two nodes read the same part of their inputs."""
    return a is not None and b is not None and (a.op, a.params, a.inputs[1:]) == (b.op, b.params, b.inputs[1:])


TURNED_OFF = "its flag writeable is off"
"""Why an array cannot be written into that can be again."""

_JOINED = "a loop or a branch may have made an array another name of"


def _unsure(reason: str) -> WriteError:
    return WriteError(reason, "Take a copy: x.copy().")


def _written_from_a_body() -> WriteError:
    return WriteError(
        "the body of a loop or a branch writes into an array from outside of it",
        "Carry the array: return it as part of the state.",
    )
