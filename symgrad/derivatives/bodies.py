"""Bodies of branches and loops, appended to the graph on stand-ins, differentiated there and cut out again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symgrad.core.graph import Aval, Graph, Node, depends, needed, reached
from symgrad.core.region import Region, inlined
from symgrad.derivatives.residuals import residuals
from symgrad.frontend.variable import Variable
from symgrad.ops.control import NUMBER, moving, own_sizes


class Looped(NamedTuple):
    """An array that a loop carries, as the pullback of the loop has it."""

    before: Node | None  # as it was before the loop, if the pullback restores it
    after: Node  # as the loop has made it when it stores residuals
    stored: Sequence[Node]  # these residuals


class Body(NamedTuple):
    """A region on stand-ins."""

    parameters: Sequence[Node]
    nodes: Sequence[Node]  # in order of creation, with the parameters
    results: Sequence[Node]
    looped: dict[Node, Looped]  # by what loops of the body have made of arrays; filled by their pullbacks
    index_size: str | None = None  # the symbol of a loop's index, if values have such sizes
    carried: Collection[Node] = ()  # parameters that another iteration has other values of

    def residuals(
        self,
        made: Sequence[Node],
        cotangents: Collection[Node],
        lost: Collection[Node] = (),
        kept: Collection[Node] = (),
        given: Collection[Node] = (),
    ) -> list[Node]:
        """Return the residuals for the pullback `made`; the parameters in `lost` are not available to it.

        Values in `kept` are stored anyway, those in `given` are there again.
        """
        inside = moving(reached([*made, *self.results]), self.parameters, self.index_size) | set(self.parameters)
        derived = depends(reached(made), cotangents)
        primal = sorted(inside - derived, key=lambda x: x.id)
        read = dict.fromkeys(y for y in made if y not in derived)
        for node in needed(made, inside - derived):
            read |= dict.fromkeys(node.inputs)
        given = [*(x for x in self.parameters if x not in lost), *given]
        own = own_sizes(primal) | ({self.index_size} - {None})
        return residuals([*read], primal, lost, given, own, kept)


def appended(graph: Graph, region: Region, parameters: Sequence[Node], index_size: str | None = None) -> Body:
    """Append a region on these stand-ins for its parameters; `index_size` is the symbol of a loop's index."""
    image = inlined(graph, region, parameters)
    return Body(
        parameters,
        sorted(dict.fromkeys(image.values()), key=lambda x: x.id),
        [image[y] for y in region.results],
        {},
        index_size,
    )


def strong(aval: Aval) -> Aval:
    """Return the abstract value of a Python number as that of an array."""
    return aval._replace(weak=False)


def seed_for(graph: Graph, x: Node, aval: Aval | None = None) -> Node:
    """Return a stand-in for the cotangent of a value, or of the array that it is a slice of."""
    seed = graph.seed(strong(aval or x.aval))
    if x in graph.names:
        graph.label(seed, ("d_{}", x))
    return seed


def dot_for(graph: Graph, x: Node) -> Node:
    """Return a stand-in for the tangent of a value."""
    seed = graph.seed(strong(x.aval))
    if x in graph.names:
        graph.label(seed, ("{}_dot", x))
    return seed


def zeros(graph: Graph, aval: Aval) -> Node:
    """Return zeros in the shape of a value."""
    if aval.weak:
        return graph.constant(aval.dtype.type(0).item())
    if not aval.shape:
        return graph.constant(aval.dtype.type(0))
    return np.full(aval.shape, 0, aval.dtype, like=Variable(graph, graph.constant(0))).node


def as_number(graph: Graph, x: Node, like: Node) -> Node:
    """Return a value as a Python number, where it stands for one."""
    return NUMBER(Variable(graph, x)).node if like.aval.weak and not x.aval.weak else x


Back = Callable[[Body, Mapping[Node, Node], Sequence[Node], dict[Node, Node]], dict[Node, Node]]
"""Takes a body, the cotangents of its results, and parameters; returns the cotangents of the parameters.

The last argument has for parameters the totals to which their cotangents are to be added. A total that is in what is
given is taken out; it is in it where a loop within the body goes on with it, rather than to start from zeros.
"""


class Pull(NamedTuple):
    """The task of a pullback through a branch or a loop; inputs and results are given by their numbers."""

    graph: Graph
    node: Node
    cotangents: Mapping[int, Node]  # of results
    active: Sequence[int]  # the inputs of which cotangents are wanted
    back: Back  # pulls back through a body
    totals: dict[int, Node]  # to which those of inputs are to be added; taken out where they are in what is given
    looped: dict[Node, Looped]  # to which the arrays are added that a loop carries, by its results
    changing: Collection[int] = ()  # the inputs that are other values in the next iteration of a loop around


Forth = Callable[[Body, Sequence[Node], Mapping[Node, Node]], list[Node | None]]
"""Takes a body, and parameters with their tangents; returns the tangents of results, None where independent of them."""
