"""The user's loops inside loops over blocks: their bodies are rebuilt for the rows of a block."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.analysis.aliases import roots_of, stays_in_place
from symgrad.core.axes import result_shape
from symgrad.core.graph import Graph, Node, Params
from symgrad.core.region import Region, map_regions, rebuilt
from symgrad.core.shapes import with_size
from symgrad.core.sizes import Size
from symgrad.loops.axes import axes_of_loop
from symgrad.ops.control import SCAN
from symgrad.ops.control_parts import loop_of, y_number


def params_for(node: Node, place: int, rows: Size) -> Params:
    """Return the parameters of a node for so many rows: a shape, or the regions of a loop."""
    if node.op is SCAN:
        return _with_rows(node, axes_of_loop(node)[place].places, rows)
    shapes = [key for key, change in node.op.axes.items() if change is result_shape]
    return tuple([(k, with_size(node.aval.shape, place, rows) if k in shapes else value) for k, value in node.params])


def _with_rows(loop: Node, places: Mapping[Node, int], rows: Size) -> Params:
    parts = loop_of(loop)
    own = [] if parts.test is None else parts.test.parameters
    alike = zip(own, [*(c.value for c in parts.carry), parts.index, *(x.value for x in parts.consts)], strict=False)
    of_test = {x: places[y] for x, y in alike if y in places}
    return map_regions(loop, lambda region: _of_rows(region, places if region is parts.body else of_test, rows))


def _of_rows(region: Region, places: Mapping[Node, int], rows: Size) -> Region:
    """Return the region for values with so many rows, along the axes in `places`."""
    return rebuilt(
        region,
        lambda x: x.aval._replace(shape=with_size(x.aval.shape, places[x], rows)) if x in places else x.aval,
        lambda node: params_for(node, places[node], rows) if node in places else node.params,
    )


# ---- the memory of iterations


def owners_of_loop_operands(graph: Graph) -> set[Node]:
    """Return the owners of the operands of loops, which a loop may keep in lists or return as results."""
    roots = roots_of(graph.nodes, stays_in_place)
    return {roots[x] for node in graph.nodes if node.op is SCAN for x in node.inputs}


def values_of_iterations(graph: Graph) -> list[Node]:
    """Return the parameters and results of the bodies of loops: an estimate of their live values."""
    bodies = [loop_of(node).body for node in graph.nodes if node.op is SCAN]
    return [x for body in bodies for x in (*body.parameters, *body.results)]


def ys_of_loops(graph: Graph) -> list[Node]:
    """Return the ys of the loops."""
    return [x for x in graph.nodes if y_number(x) is not None]
