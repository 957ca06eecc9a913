"""The block behind `<!-- output -->` is what the program above printed: it gets a class of its own."""

from docutils import nodes
from sphinx.transforms import SphinxTransform


class Outputs(SphinxTransform):
    default_priority = 200

    def apply(self, **kwargs):
        for block in self.document.findall(nodes.literal_block):
            siblings = block.parent.children
            before = siblings[siblings.index(block) - 1]
            if before is not block and before.astext().strip() in ("output", "<!-- output -->"):
                block["classes"].append("output")


def setup(app):
    app.add_transform(Outputs)
    return {"parallel_read_safe": True}
