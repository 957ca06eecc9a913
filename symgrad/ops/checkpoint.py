"""Checkpoints: a part of a program that is computed again, rather than kept, and how it is put in its place."""

from symgrad.core.axes import aligned
from symgrad.core.graph import CONSTANT, ITEM, Graph, moved_name, reached
from symgrad.core.region import regions_of
from symgrad.errors import GraphError
from symgrad.ops.define import operator


def _infer(*xs, region):
    fits = [x.dtype == y.aval.dtype and x.ndim == y.aval.ndim for x, y in zip(xs, region.parameters, strict=True)]
    if not all(fits):
        raise GraphError("a region is given other inputs than its parameters", "Give one for each, of its kind.")
    return tuple([y.aval for y in region.results])


CHECKPOINT = operator(
    lambda *xs, region: tuple(region(*xs)),
    name="checkpoint",
    infer=_infer,
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
    """What a checkpoint computes."""
    return dict(node.params)["region"]


# ---- the program without checkpoints


def open_checkpoints(graph, numerics="stable"):
    """The program with what checkpoints compute in their places.

    It stands before simplification and scheduling, which see what is computed again beside everything else.
    """
    return opened(graph, graph.outputs) if has_checkpoints(graph.outputs) else graph


def has_checkpoints(outputs):
    """Whether some are needed for `outputs`."""
    return any(node.op is CHECKPOINT for node in reached(outputs))


def opened(graph, outputs):
    """A new graph that computes `outputs` without checkpoints."""
    new, inputs = Graph(), set(graph.inputs)
    image = _Opening(new, graph).placed([*graph.inputs, *(x for x in reached(outputs) if x not in inputs)], {})
    new.inputs, new.outputs = ([image[x] for x in ends] for ends in (graph.inputs, outputs))
    return new


def opened_within(graph, outputs):
    """What stands for `outputs` once what checkpoints compute has been appended to their graph."""
    if not has_checkpoints(outputs):
        return outputs
    image = _Opening(graph, graph).placed(reached(outputs), {})
    return [image[y] for y in outputs]


class _Opening:
    """Appends nodes to a graph, and in the place of a checkpoint what it computes."""

    def __init__(self, graph, source):
        self.graph = graph
        self.inside = {}  # of each checkpoint the images of what is in its region
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
            if node.op is CHECKPOINT:
                self.inside[node] = self.opened(node, [image[x] for x in node.inputs], again or node.where.again)
                continue
            if node.op is ITEM and node.inputs[0].op is CHECKPOINT:
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
        """What a checkpoint computes of inputs; of one that a derivative computes again everything is."""
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
