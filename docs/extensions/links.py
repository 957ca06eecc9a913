"""A warning for each link of the built pages to what is not there, and for what they load from the network."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util import logging

logger = logging.getLogger(__name__)


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it loads: scripts, styles, pictures."""

    def __init__(self, path):
        super().__init__()
        self.path, self.anchors, self.links, self.loads = path, set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        targets = self.links if tag == "a" else self.loads
        targets.update(filter(None, (attributes.get("href"), attributes.get("src"))))


def broken(folder):
    """(page, target) for each link within the site that leads nowhere, and for what is loaded from elsewhere."""
    folder = Path(folder).resolve()
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for target in sorted(page.links | page.loads):
            if not leads_somewhere(target, page, pages):
                yield path.relative_to(folder).as_posix(), target


def leads_somewhere(target, page, pages):
    url = urlsplit(target)
    if url.scheme or url.netloc:
        return target not in page.loads or url.scheme == "data"
    file = (page.path.parent / unquote(url.path)).resolve() if url.path else page.path
    anchors = pages[file].anchors | {"", "top"} if file in pages else {url.fragment}
    return file.is_file() and unquote(url.fragment) in anchors


def check(app, exception):
    if exception is None and app.builder.format == "html":
        for page, target in broken(app.outdir):
            logger.warning("%s links to %s, which is not there or not of the site", page, target, type="links")


def setup(app):
    app.connect("build-finished", check, priority=900)  # when all files are copied
    return {"parallel_read_safe": True}
