"""Checkpoints: a part of a program that is computed again, rather than kept, and how such units are put in place."""

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
"""What a region computes of its inputs. Its pullback computes that again: nothing is kept but what the region reads."""

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
"""A value that no rule sees through: what is computed again stands on it, so that it is not taken for what is there.

`own` tells it from other barriers on the same value; which number it is says nothing. Once its checkpoint is `opened`
in a graph it is another one than before: what stands on it comes behind what has been computed there by then.
"""


def region_of(node):
    """What a unit computes."""
    return dict(node.params)["region"]


# ---- the program without units

UNITS = (CHECKPOINT, CUSTOM)
"""What holds a part of a program for the sake of derivatives alone, and is put in its place where those are done."""


def open_checkpoints(graph, numerics="stable"):
    """The program with what checkpoints, and functions with a rule of their own, compute in their places.

    It stands before simplification and scheduling, which see what is computed again beside everything else.
    """
    return opened(graph, graph.outputs) if any(node.op in UNITS for node in graph.compound) else graph


def has_units(outputs):
    """Whether some are needed for `outputs`."""
    return any(node.op in UNITS for node in reached(outputs))


def opened(graph, outputs):
    """A new graph that computes `outputs` without checkpoints and other units."""
    new, inputs = Graph(), set(graph.inputs)
    image = _Opening(new, graph, UNITS).placed([*graph.inputs, *(x for x in reached(outputs) if x not in inputs)], {})
    new.inputs, new.outputs = ([image[x] for x in ends] for ends in (graph.inputs, outputs))
    return new


def opened_within(graph, outputs):
    """What stands for `outputs` once what checkpoints compute has been appended to their graph."""
    nodes = reached(outputs)
    if not any(node.op is CHECKPOINT for node in nodes):
        return outputs
    image = _Opening(graph, graph, (CHECKPOINT,)).placed(nodes, {})
    return [image[y] for y in outputs]


class _Opening:
    """Appends nodes to a graph, and in the place of units, nodes of these operators, what they compute."""

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
        """The images of nodes, and of those that are given in `image`; all may be computed again."""
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
        """What a unit computes of inputs; of one that a derivative computes again everything is."""
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
