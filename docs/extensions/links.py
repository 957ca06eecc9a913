"""A warning for each link of the built pages to a file, a page or an anchor that is not there."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util import logging

logger = logging.getLogger(__name__)


class Page(HTMLParser):
    """The anchors of a page, and what it links to and shows."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.targets = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        self.targets.update(filter(None, (attributes.get("href"), attributes.get("src"))))


def broken(folder):
    """(page, target) for each link within the site that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in sorted(Path(folder).rglob("*.html"))}
    for path, page in pages.items():
        for target in sorted(page.targets):
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            file = (path.parent / unquote(url.path)).resolve() if url.path else path
            anchors = pages[file].anchors | {"", "top"} if file in pages else {url.fragment}
            if not file.is_file() or unquote(url.fragment) not in anchors:
                yield path.relative_to(Path(folder).resolve()).as_posix(), target


def check(app, exception):
    if exception is None and app.builder.format == "html":
        for page, target in broken(app.outdir):
            logger.warning("%s links to %s, which is not there", page, target, type="links")


def setup(app):
    app.connect("build-finished", check, priority=900)  # when all files are copied
    return {"parallel_read_safe": True}
