"""Checkpoints: regions that derivatives rematerialise, and the inlining of such regions."""

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, ITEM, Graph, moved_name, reached
from symgrad.core.region import regions_of, result_avals
from symgrad.ops.custom import CUSTOM
from symgrad.ops.define import operator

CHECKPOINT = operator(
    lambda *xs, region: tuple(region(*xs)),
    name="checkpoint",
    infer=lambda *xs, region: result_avals(region, xs),
    bind=lambda *xs, region: (xs, {"region": region}),
)
"""A region whose residuals are its inputs only: its pullback rematerialises the rest."""

BARRIER = operator(
    lambda x, own, opened=False: x,
    name="barrier",
    infer=lambda x, own, opened=False: x,
    vjp=lambda g, y, x, own, opened: (g,),
    signature=aligned,
    linear=True,
    view=True,
    write_back=lambda x, content, own, opened: content,
    spell=lambda node, x: x,
    scalar=lambda node, x: x,
)
"""An identity that no rule sees through: rematerialised nodes depend on it, so that they are not merged with the
originals.

`own` tells it from other barriers on the same value; which number it is says nothing. Once its checkpoint is `opened`
in a graph it is another one than before: what stands on it comes behind what has been computed there by then.
"""


def region_of(node):
    """Return the region of a unit."""
    return dict(node.params)["region"]


# ---- the program without units

UNITS = (CHECKPOINT, CUSTOM)
"""Operators that hold a region for the sake of derivatives alone; it is inlined once these are done."""


def open_checkpoints(graph, numerics="stable"):
    """Inline checkpoints, and functions with a derivative rule of their own.

    It stands before simplification and scheduling, which see what is computed again beside everything else.
    """
    return opened(graph, graph.outputs) if any(node.op in UNITS for node in graph.compound) else graph


def has_units(outputs):
    """Whether `outputs` depend on checkpoints or other units."""
    return any(node.op in UNITS for node in reached(outputs))


def opened(graph, outputs):
    """Return a new graph that computes `outputs`, with checkpoints and other units inlined."""
    new, inputs = Graph(), set(graph.inputs)
    image = _Opening(new, graph, UNITS).placed([*graph.inputs, *(x for x in reached(outputs) if x not in inputs)], {})
    new.inputs, new.outputs = ([image[x] for x in ends] for ends in (graph.inputs, outputs))
    return new


def opened_within(graph, outputs):
    """Append the contents of checkpoints to the graph of `outputs` and return the nodes that replace these."""
    nodes = reached(outputs)
    if not any(node.op is CHECKPOINT for node in nodes):
        return outputs
    image = _Opening(graph, graph, (CHECKPOINT,)).placed(nodes, {})
    return [image[y] for y in outputs]


class _Opening:
    """Copies nodes to a graph and inlines units, the nodes of the given operators."""

    def __init__(self, graph, source, units):
        self.graph, self.units = graph, units
        self.inside = {}  # of each unit the images of what is in its region
        self.images = {}  # of each node the last one that is not computed again
        self.names, self.met = {}, set()  # of what has been met
        self.meet(source)

    def meet(self, graph):
        if graph not in self.met:
            self.met.add(graph)
            self.names |= graph.names

    def placed(self, nodes, image, again=False):
        """Return the images of nodes, starting from `image`; every node may be rematerialised."""
        for node in nodes:
            if node.op in self.units:
                self.inside[node] = self.opened(node, [image[x] for x in node.inputs], again or node.where.again)
                continue
            if node.op is ITEM and node.inputs[0].op in self.units:
                region, i = region_of(node.inputs[0]), dict(node.params)["index"]
                image[node] = self.inside[node.inputs[0]][region.results[i]]
            else:
                image[node] = self.rebuilt(node, tuple([image[x] for x in node.inputs]), again)
            if not again:
                self.images[node] = image[node]
            if node in self.names and image[node].op is not CONSTANT:
                self.label(node, image[node], again)
        return image

    def opened(self, node, inputs, again):
        """Inline the region of a unit for given inputs; `again` marks all its nodes as rematerialised."""
        region, of = region_of(node), node.where.of
        for each in (region, *(regions_of(of) if of is not None else ())):
            self.meet(each.graph)
        return self.placed(region.nodes, dict(zip(region.parameters, inputs, strict=True)), again)

    def rebuilt(self, node, inputs, again):
        where = node.where.repeated(self.images.get(node, node)) if again else node.where.moved(self.images)
        if node.op is BARRIER:
            return self.graph.add(BARRIER, inputs, (("opened", True), node.params[-1]), where)
        return self.graph.rebuild(node, inputs, where)

    def label(self, node, image, again):
        name = self.names[node]
        if again and isinstance(name, str):
            name = ("{}_again", self.images[node]) if node in self.images else f"{name}_again"
        else:
            name = moved_name(self.names, name, self.images)
        if name is not None:
            self.graph.label(image, name)
