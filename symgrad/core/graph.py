"""The graph: abstract values (Aval), operators and their applications (Op, Node), and all nodes in order (Graph)."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from symgrad.core.listing import listing, nested_graphs
from symgrad.core.provenance import UNKNOWN, Where, here
from symgrad.core.shapes import render_shape, same_shape
from symgrad.core.sizes import Dim, Rows, Shape
from symgrad.errors import ArgumentError, GraphError

if TYPE_CHECKING:
    import networkx as nx

    from symgrad.core.axes import AxisSignature
    from symgrad.core.size_scope import Sizes
    from symgrad.spelling import Code

Params = tuple[tuple[str, Any], ...]
_T = TypeVar("_T")


class Aval(NamedTuple):
    """The abstract value of a node: its shape, dtype and weakness, known before running."""

    shape: Shape
    dtype: np.dtype
    weak: bool = False  # a Python scalar: by NEP 50 it never widens float32

    def __str__(self) -> str:
        return f"{_dtype_name(self.dtype)}[{render_shape(self.shape)}]"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def differentiable(self) -> bool:
        return self.dtype.kind in "fc"


@cache
def _dtype_name(dtype: np.dtype) -> str:
    """NumPy puts it together each time, in Python; and there are few dtypes."""
    return "token" if dtype == TOKEN.dtype else str(dtype)


TOKEN = Aval((), np.dtype("V1"))
"""Abstract value of a token: no data, only that a check has been made. Tokens put checks in order."""


class Traced:
    """A traced value: operators on it are recorded in its graph and give further ones."""

    __slots__ = ()

    def __symgrad_record__(self, op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """An operator: everything that symgrad knows of it, in one entry.

    Applied to arrays it evaluates; applied to Variables it records a node.
    `ops.define` has the constructors and says what each field means.
    """

    name: str
    evaluate: Callable[..., Any]
    infer: Callable[..., Any]
    bind: Callable[..., tuple[Sequence[Any], dict[str, Any]]] = lambda *inputs, **params: (inputs, params)
    defaults: dict[str, Any] = field(default_factory=dict)
    signature: Callable[..., AxisSignature] | None = None
    axes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # parameters that speak of axes
    places: int | None = None  # the inputs from this one on are indices: beyond the end NumPy raises
    refuses: bool = False  # NumPy raises for some matrices, the first input: singular ones, or those that have a NaN
    joins: bool = False  # the inputs are alike but for one axis: a further one of one of them is a further one of all
    elementwise: bool = False  # broadcasts its inputs and works elementwise
    keeps_weak: bool = False  # a Python operator: of Python scalars it gives a Python scalar
    commutes: bool = False
    interval: tuple[float, float] | Callable[..., Any] | None = None  # of its numbers, by the intervals of the inputs
    batch: Callable[..., Any] | None = None
    # derivatives
    vjp: Callable[..., Any] | None = None
    partials: Callable[..., Any] | None = None
    linear: bool = False  # in each input that has a cotangent, and moving numbers rather than mixing them
    branch_distance: Callable[..., Any] | None = None  # where its sign changes another piece of the operator begins
    selects: bool = False  # numbers of its inputs are left out on purpose: nothing of them comes through
    singular: bool | Callable[..., bool] = False  # at finite inputs it, or a partial, may be inf or NaN
    singular_off_axis: bool = False  # that, at complex numbers that are not real
    finds_nan: bool = False  # it asks for NaNs or infinities, or leaves them out: an input may hold some
    silent: float | None = None  # where the result is this number, nothing flows to the inputs
    domain: tuple[tuple[float, float], ...] | None = None
    # source
    spell: Callable[..., Code] | None = None
    quick: Callable[..., Code | None] | None = None  # where calls are what takes time
    scalar: str | Callable[..., Code] | None = None  # how it reads on Python floats
    package: str = ""  # the module that its source needs, if not NumPy: scipy.special
    written: bool = False  # the text of `evaluate` stands in the module that calls it
    pole: int | None = None  # the input that may not be 0 where Python computes: 1 / 0.0 and 0.0 ** -1 raise
    integral: bool = False  # among arrays of floats an integer is not as good as its float: ldexp(x, 2)
    # time
    flops: Callable[..., Any] | None = None
    nanoseconds: float = 0.2  # that NumPy's loop takes for a number of eight bytes in the cache
    contracts: bool = False  # sums products, with BLAS where that can: they take the time, not the numbers
    cheap: bool = False  # computed again as fast as it is read from memory
    # memory
    view: bool = False  # the result may share memory with the first input
    read_only: bool = False  # and NumPy does not let it be written into
    write_back: Callable[..., Any] | None = None  # the first input after the result, a view of it, was written into
    assigns: bool = False  # gives the first input with other numbers in some places: may be written into it
    out: bool = False  # has `out=` although it is no ufunc
    slow_in_place: bool = False  # takes longer where it writes over its input
    elided: bool = False  # NumPy itself lets it write over a large operand that nobody else can see

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs, params = self.bind(*args, **kwargs)
        for x in inputs:
            if isinstance(x, Traced):
                return x.__symgrad_record__(self, inputs, params)
        return self.evaluate(*inputs, **params)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    @property
    def path(self) -> str:
        """``np.linalg.solve`` or ``scipy.special.gammaln``; of an operator of the user's its name."""
        return path_of(self.name, self.package)


def path_of(name: str, package: str = "") -> str:
    """Return how a program calls an operator."""
    home = package or "np" * hasattr(np, name.partition(".")[0])
    return f"{home}.{name}" if home else name


@dataclass(eq=False, slots=True, repr=False, weakref_slot=True)
class Node:
    """One application of an operator. Identity is equality: nodes are interned. Never edited once made."""

    id: int
    op: Op
    inputs: tuple[Node, ...]
    params: Params
    aval: Aval
    where: Where
    found: dict[Callable[..., Any], Any] | None = field(default=None, init=False)  # see `per_node`

    def __repr__(self) -> str:
        inputs = ", ".join(f"%{x.id}" for x in self.inputs)
        params = "".join(f", {k}={v!r}" for k, v in self.params)
        return f"%{self.id} = {self.op.name}({inputs}{params}): {self.aval}"

    @property
    def constant(self) -> Any:
        """Return the array or the Python number of a constant; None for any other node."""
        return self.params[0][1].value if self.op is CONSTANT else None


def digest(x: np.ndarray) -> bytes:
    """Return a key of an array's bits, which lie together in memory."""
    import hashlib  # slow to import

    return hashlib.sha256(x.data).digest()


class Literal:
    """A constant that compares by its bits, so that 0.0, -0.0, 0, False and NaNs stay apart."""

    __slots__ = ("_hash", "key", "value", "weak")

    def __init__(self, value: Any) -> None:
        self.weak = type(value) in (bool, int, float, complex)
        self.value = value if self.weak else _frozen(value)
        if self.weak:
            self.key: Any = (type(value), repr(value))
        else:
            data = self.value.tobytes() if self.value.nbytes <= 64 else digest(self.value)
            self.key = (self.value.dtype.str, self.value.shape, data)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        few = self.weak or self.value.size < 10
        return " ".join(repr(self.value).split()) if few else f"<{self.value.dtype}{self.value.shape}>"

    @property
    def aval(self) -> Aval:
        if self.weak:
            return Aval((), _WEAK_DTYPE[type(self.value)], type(self.value) is not bool)
        return Aval(self.value.shape, self.value.dtype)


_WEAK_DTYPE = {bool: np.dtype(bool), int: np.dtype(int), float: np.dtype(float), complex: np.dtype(complex)}


def _frozen(value: Any) -> np.ndarray:
    """A private contiguous copy: a later write by the user must not reach the graph."""
    array = np.array(value, order="C", copy=True, subok=False)
    array.flags.writeable = False
    return array


def _given(*args: Any) -> Any:
    raise GraphError(
        "an input, a constant or a size is not applied", "Write Graph.input, Graph.constant or Graph.size."
    )


INPUT = Op("input", _given, lambda *, aval, name: aval, _given)
CONSTANT = Op("constant", lambda *, value: value.value, lambda *, value: value.aval, _given)
SIZE = Op("size", _given, lambda *, value: Aval((), np.dtype(int), True), _given)
SEED = Op("seed", _given, lambda *, aval, tag: aval, _given)
ITEM = Op(
    "item",
    lambda x, index: x[index],
    lambda x, index: x[index],
    lambda x, index: ((x,), {"index": index}),
)


class Chain(NamedTuple):
    """The checks of a graph, or of a body that is being traced: the token that the first was given, and the last's.

    Both are None where there is no check yet.
    """

    first: Node | None = None
    last: Node | None = None
    in_body: bool = False


class Graph:
    """A program as a static graph of nodes, made by appending only.

    ``nodes`` is in creation order, which is topological: inputs exist before their users. Nodes are interned by
    operator, inputs and parameters, so a common subexpression is one node by construction.
    """

    since = 0  # older nodes stay as they are: those of a `Part`

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Node] = []
        self.outputs: list[Node] = []
        # what the user calls a value; for a derivative a pattern such as "d_{}" and the node that it derives
        self.names: dict[Node, str | tuple[str, Node]] = {}
        self.rewrites: list[tuple[Any, Node, Node]] = []  # rules, nodes that they met, and what stands for these since
        self.unrolled: dict[str, str] = {}  # by the lines of loops that could not be traced, why
        # loops that began in Python and were then traced, by the calls that lead to them; and how often the statements
        # around each had been traced before
        self.replaced: dict[Any, int] = {}
        self.provenance: Where | None = None  # for nodes made by rules rather than by the user's line
        self.found: list[Node] = []  # what `add` was asked for that was there already, one after the other
        self.body = 0  # how many nodes there were when the body of a loop or a branch was begun that is being traced
        self.bodies: list[tuple[int, int]] = []  # from which node to which they were made in bodies that are done
        self.indices: dict[Node, Any] = {}  # stand-ins for the loop indices, and what makes sizes of them
        self.nest: list[Any] = []  # what makes sizes of the loop indices that are being traced, the innermost last
        self.sides: tuple[Any, ...] = ()  # of branches, that are being traced: their tests, the outermost first
        self.counts: dict[str, Node] = {}  # by the symbol of a size that only running tells, the number that it is
        self.lengths: dict[tuple[Node, int], Any] = {}  # sizes that only running tells, by their numbers and the body
        self.journal: Any = None  # in which writes into what is older are noted, if they are allowed
        self.runs: list[Any] = []  # the user's functions that were run to make it: what they took and returned
        self.exchanges: list[object] = []  # the traces that have exchanged names to make it
        self.chain = Chain()  # the checks so far, of the body that is being traced
        self.guards: list[Any] = []  # what is entered that may catch exceptions: context managers, the bodies of `try`
        self.drawn = False  # whether Python's own run gives other numbers: drawn ones, or those of another solver
        self.advanced: dict[int, Any] = {}  # iterators that gave an item while it was made, by their ids
        self.forgotten: set[Node] = set()  # nodes that are not found any more, see `forget`
        self.asked: dict[Node, Where] = {}  # whose dtype the user's code has asked for, and where
        self.watched: list[Any] = []  # what may not change: containers that are one of several, classes of objects
        # by operator, then by inputs, or where there are parameters by both: a tuple less for most nodes
        self._interned: defaultdict[Op, dict[Any, Node]] = defaultdict(dict)
        self._input_names: set[str] = set()  # of the first inputs, as far as they have been asked for
        self._live: tuple[list[Node], ...] = [], [], []  # for which outputs, what they need, what of it is compound

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} nodes>"

    def __str__(self) -> str:
        return listing(self)

    def __contains__(self, node: Node) -> bool:
        """Whether a node is one of its own, rather than of a region with a graph of its own."""
        return node.id < len(self.nodes) and self.nodes[node.id] is node

    def _repr_html_(self) -> str:
        from symgrad.show.notebook import graph_view

        return graph_view(self)

    def _repr_latex_(self) -> str | None:
        from symgrad.show.notebook import formula_view

        return formula_view(self)

    def add(self, op: Op, inputs: tuple[Node, ...] = (), params: Params = (), where: Where | None = None) -> Node:
        """Return the node of `op` on `inputs`, added if it is new. The only mutation of a graph."""
        interned, key = self._interned[op], (inputs, params) if params else inputs
        node = interned.get(key)
        if node is not None:
            self.found.append(node)
            return node
        aval = op.infer(*[x.aval for x in inputs], **dict(params))
        if type(aval) is not Aval:
            _check_avals(op, aval)
        if where is None:
            where = self.provenance or here()
        node = interned[key] = Node(len(self.nodes), op, inputs, params, aval, where)
        self.nodes.append(node)
        return node

    @contextmanager
    def located(self, where: Where | None) -> Iterator[None]:
        """Let nodes made in this context have the provenance `where` rather than the running line."""
        before, self.provenance = self.provenance, where
        try:
            yield
        finally:
            self.provenance = before

    def known(self, op: Op, inputs: tuple[Node, ...], params: Params = ()) -> Node | None:
        """Return the node of `op` on `inputs`, if it exists."""
        interned = self._interned.get(op)
        return None if interned is None else interned.get((inputs, params) if params else inputs)

    def rebuild(self, node: Node, inputs: tuple[Node, ...], where: Where) -> Node:
        """Return the image of a node on images of its inputs, without inference."""
        op, params = node.op, node.params
        interned, key = self._interned[op], (inputs, params) if params else inputs
        image = interned.get(key)
        if image is not None:
            self.found.append(image)
            return image
        image = interned[key] = Node(len(self.nodes), op, inputs, params, node.aval, where)
        self.nodes.append(image)
        return image

    def forget(self, since: int) -> None:
        """Let the nodes made since then be made anew, rather than found: all but inputs."""
        for node in self.nodes[since:]:
            interned, key = self._interned[node.op], (node.inputs, node.params) if node.params else node.inputs
            if node.op is not INPUT and interned.get(key) is node:
                del interned[key]
                self.forgotten.add(node)

    def add_input(self, name: str, aval: Aval, where: Where | None = None) -> Node:
        """A new input; its name must be new too."""
        taken = self._input_names
        taken.update(dict(node.params)["name"] for node in self.inputs[len(taken) :])
        if name in taken:
            raise GraphError(f"the graph has an input named {name!r} already", "Give it another name.")
        node = self.add(INPUT, (), (("aval", aval), ("name", name)), where)
        self.inputs.append(node)
        self.label(node, name)
        return node

    def constant(self, value: Any) -> Node:
        """The node of a number or an array."""
        return self.add(CONSTANT, (), (("value", Literal(value)),))

    def size(self, value: Dim | Rows) -> Node:
        """The node of a symbolic size, a Python int when the program runs."""
        return self.add(SIZE, (), (("value", value),))

    def seed(self, aval: Aval) -> Node:
        """A stand-in that a derivative is linear in and that therefore vanishes from it: never evaluated."""
        return self.add(SEED, (), (("aval", aval), ("tag", len(self.nodes))))

    def item(self, node: Node, i: int) -> Node:
        """One of the results of a node with several."""
        return self.add(ITEM, (node,), (("index", i),))

    def items(self, node: Node) -> list[Node]:
        """All of them."""
        return [self.item(node, i) for i in range(len(node.aval))]

    def leave_body(self, since: int) -> None:
        """Note that the nodes made since belong to a body."""
        while self.bodies and self.bodies[-1][0] >= since:
            self.bodies.pop()
        self.bodies.append((since, len(self.nodes)))

    def made_in_body(self, node: Node) -> bool:
        """Whether a node was made in a body that has ended: elsewhere its value is not available."""
        i = bisect_right(self.bodies, node.id, key=lambda span: span[0]) - 1
        return i >= 0 and node.id < self.bodies[i][1]

    @cached_property
    def sizes(self) -> Sizes:
        """The scope of its symbolic sizes; a trace puts its own here."""
        from symgrad.core.size_scope import Sizes

        return Sizes()

    def label(self, node: Node, name: str | tuple[str, Node]) -> None:
        """Name a node; the first name stays."""
        self.names.setdefault(node, name)

    def take_names(self, names: Mapping[Node, str | tuple[str, Node]], image: Mapping[Node, Node]) -> None:
        """Give the images of nodes, of another graph or of itself, their names, but for constants."""
        few, many = (image, names) if len(image) < len(names) else (names, image)  # a body is small in a large graph
        for node in [node for node in few if node in many]:
            if image[node].op is not CONSTANT and image[node] in self:
                moved = moved_name(names, names[node], image)
                if moved is not None:
                    self.label(image[node], moved)

    def needed_for(self, outputs: Iterable[Node]) -> list[Node]:
        """Return the same as `reached`, in one pass over the graph: faster where the outputs need much of it."""
        wanted = [False] * len(self.nodes)
        for y in outputs:
            wanted[y.id] = True
        for node in reversed(self.nodes):
            if wanted[node.id]:
                for x in node.inputs:
                    wanted[x.id] = True
        return list(compress(self.nodes, wanted))

    @property
    def live(self) -> Sequence[Node]:
        """Return the live nodes: the outputs and what they need, in creation order."""
        return self._up_to_date()[1]

    @property
    def order(self) -> list[Node]:
        """Return the nodes in evaluation order: the inputs, live or not, then the other live nodes."""
        inputs = set(self.inputs)
        return [*self.inputs, *(node for node in self.live if node not in inputs)]

    @property
    def compound(self) -> Sequence[Node]:
        """Return the live nodes with several results: all that hold regions have."""
        return self._up_to_date()[2]

    def _up_to_date(self) -> tuple[list[Node], ...]:
        if self._live[0] != self.outputs:  # a stage asks for what the one before has asked for
            nodes = self.needed_for(self.outputs)
            self._live = [*self.outputs], nodes, [x for x in nodes if type(x.aval) is not Aval]
        return self._live

    @property
    def dag(self) -> nx.DiGraph[Node]:
        """The nodes and their edges from input to user, as a networkx graph, brought up to date."""
        dag = self._dag
        for node in self.nodes[len(dag) :]:
            dag.add_node(node, op=node.op.name, aval=node.aval)
            dag.add_edges_from((x, node) for x in node.inputs)
        return dag

    @cached_property
    def _dag(self) -> nx.DiGraph[Node]:
        import networkx as nx  # as slow to import as NumPy, and not needed to compile

        return nx.DiGraph()


class Part(Graph):
    """A part of a graph that is being traced, as a graph: a stage appends to the whole instead of making a new one.

    The `wanted` values are rewritten, and no rule sees through those that are `kept`. Nodes older than `since` stay as
    they are: an outer transform may be about to differentiate by one of them.
    """

    def __init__(self, whole: Graph, wanted: Sequence[Node], kept: Sequence[Node], since: int) -> None:
        super().__init__()
        self.whole, self.wanted, self.kept, self.since = whole, wanted, kept, since
        self.nodes, self.inputs, self.names = whole.nodes, whole.inputs, whole.names
        self.outputs = [*wanted, *kept]

    def moved(self, image: Mapping[Node, Node]) -> Part:
        """Return the part that computes the images of all values."""
        wanted, kept = ([image[x] for x in part] for part in (self.wanted, self.kept))
        return Part(self.whole, wanted, kept, self.since)


def moved_name(names: Mapping[Node, Any], name: Any, image: Mapping[Node, Node]) -> Any:
    """A name for the image of a node: a pattern goes with the image of its node, or is written out if that has none."""
    pattern, passed = "{}", set()
    while not isinstance(name, str):
        template, of = name
        if of in image:
            return (pattern.format(template), image[of])
        pattern, name = pattern.format(template), names.get(of)
        if name is None or of in passed:  # two that are called after each other have no name
            return None
        passed.add(of)
    return pattern.format(name)


def _check_avals(op: Op, found: Any) -> None:
    """Raise unless `infer` gives an Aval for each of several results."""
    if not isinstance(found, tuple) or not all([type(x) is Aval for x in found]):
        raise ArgumentError(
            f"infer of the operator {op.name} returns {found!r}, which is no shape with a dtype",
            "Return one of its arguments, x, or one of another shape or dtype, x._replace(shape=()); or a tuple of "
            "these for several results.",
        )


def freeze(op: Op, params: dict[str, Any]) -> Params:
    """Return parameters in the form of a node: sorted, without defaults."""
    if not params:
        return ()
    defaults = op.defaults
    kept = [item for item in params.items() if item[0] not in defaults or not _equal(defaults[item[0]], item[1])]
    return tuple(sorted(kept))


def _equal(a: Any, b: Any) -> bool:
    """Whether two parameters are the same, 1 and 1.0 and True being different."""
    return a is b or (type(a), a) == (type(b), b)


def per_node(function: Callable[[Node], _T]) -> Callable[[Node], _T]:
    """Cache a function of a node as long as the node exists."""

    @wraps(function)
    def kept(node: Node) -> _T:
        found = node.found
        if found is None:
            found = node.found = {}
        if function not in found:
            found[function] = function(node)
        result: _T = found[function]
        return result

    return kept


def avals_of(node: Node) -> Sequence[Aval]:
    """Return what is known of each result of a node."""
    return [node.aval] if isinstance(node.aval, Aval) else cast(Sequence[Aval], node.aval)


def is_token(node: Node) -> bool:
    """Whether a node is a token: it has no value, but says that a check has been made."""
    return node.aval == TOKEN


def without_tokens(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that have values."""
    return [x for x in nodes if x.aval != TOKEN]


def is_view(node: Node) -> bool:
    """Whether a value may share memory with its first input: under index arrays NumPy copies, under numbers not."""
    return node.op.view and all(x.aval.ndim == 0 for x in node.inputs[1:])


def results(graph: Graph) -> list[Node]:
    """Return the outputs; for a graph that was built by hand and has none, the nodes without users."""
    used = {x for node in graph.nodes for x in node.inputs}
    return graph.outputs or [node for node in graph.nodes if node not in used]


def reached(outputs: Iterable[Node]) -> list[Node]:
    """Return the nodes that `outputs` need, these included, in creation order."""
    return needed(outputs, ())


def needed(outputs: Iterable[Node], given: Container[Node]) -> list[Node]:
    """The nodes to evaluate for `outputs`, in creation order, where some values are given."""
    seen = {y for y in outputs if y not in given}
    stack = list(seen)
    while stack:
        for x in stack.pop().inputs:
            if x not in seen and x not in given:
                seen.add(x)
                stack.append(x)
    return sorted(seen, key=attrgetter("id"))


def frontier(outputs: Iterable[Node], inside: Callable[[Node], bool]) -> list[Node]:
    """Return the first nodes outside of `inside` on the paths from `outputs` to their inputs, in order."""
    beyond: list[Node] = []
    stack = list(dict.fromkeys(outputs))
    seen = set(stack)
    while stack:
        node = stack.pop()
        if not inside(node):
            beyond.append(node)
            continue
        new = [x for x in dict.fromkeys(node.inputs) if x not in seen]
        stack += new
        seen.update(new)
    return sorted(beyond, key=attrgetter("id"))


def depends(nodes: Iterable[Node], sources: Iterable[Node], stop: Container[Node] = ()) -> set[Node]:
    """Return the nodes, in creation order, that depend on a source other than through `stop`, and the sources."""
    found = set(sources)
    for node in nodes:
        if node not in stop and not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def verify(graph: Graph) -> None:
    """Check everything that passes rely on; the error names the first node that is out of order, or else wrong."""
    for i, node in enumerate(graph.nodes):
        _check(node.id == i, node, "its id is not its place")
        _check(all(x.id < i and graph.nodes[x.id] is x for x in node.inputs), node, "an input does not come before it")
        interned = graph.known(node.op, node.inputs, node.params) is node or node in graph.forgotten
        _check(interned, node, "it is not interned")
        _check(list(node.params) == sorted(node.params, key=lambda p: p[0]), node, "its params are not sorted")
        inferred = node.op.infer(*[x.aval for x in node.inputs], **dict(node.params))
        _check(same_aval(node.aval, inferred), node, f"inference says {inferred}")
        for _, inner in nested_graphs(node):
            verify(inner)
    for node in graph.dag:
        _check(set(graph.dag.predecessors(node)) == set(node.inputs), node, "its edges are not its inputs")
    for node in graph.names:
        _check(graph.nodes[node.id] is node, node, "it is named here but is not of this graph")


def same_aval(a: Any, b: Any) -> bool:
    """Whether two abstract values are provably the same; never pins."""
    if not isinstance(a, Aval):
        return len(a) == len(b) and all(map(same_aval, a, b))
    return a.dtype == b.dtype and a.weak == b.weak and same_shape(a.shape, b.shape)


def _check(holds: bool, node: Node, fact: str) -> None:
    if not holds:
        raise GraphError(f"{node!r}: {fact}", where=node.where or UNKNOWN)


tracing: ContextVar[Graph | None] = ContextVar("tracing", default=None)
"""The graph being traced, for creation functions and symbolic sizes, which have no Variable among their arguments."""
