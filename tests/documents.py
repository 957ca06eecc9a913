"""Programs in Markdown: what its Python blocks print is what it shows.

A block begins with a comment that names its file, `# model.py`. One that begins with `# model.py, continued` runs after
it, in the same file and namespace. What a block prints stands in the next block, behind `<!-- output -->`. Code that is
not run, such as that of other libraries, is marked `py`.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
from pathlib import Path
from typing import NamedTuple

from symgrad.ops.define import TABLE

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(?P<shown><!-- output -->\n)?^(?P<fence>```+)(?P<language>[^`\n]*)\n(?P<text>.*?)^(?P=fence)$\n?",
    re.DOTALL | re.M,
)
FIRST_LINE = re.compile(r"# (?P<name>\w+\.py)(?P<continued>, continued)?\n")


class Block(NamedTuple):
    """A Python block: its file, its code, whether the file is there already, and the match of the output behind it."""

    name: str
    code: str
    continued: bool
    output: re.Match | None


def pages():
    """The Markdown files whose programs run."""
    return [ROOT / "README.md", *sorted(ROOT.glob("CONTRIBUTING.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text):
    """The Python blocks of a page, in order."""
    found, last = [], None
    for block in BLOCK.finditer(text):
        if block["shown"] and last is not None:
            found[last] = found[last]._replace(output=block)
        last = None
        if block["language"] == "python" and not block["shown"]:
            first = FIRST_LINE.match(block["text"])
            assert first, f"the block does not name its file: {block['text'][:60]!r}"
            last = len(found)
            found.append(Block(first["name"], block["text"], bool(first["continued"]), None))
    return found


def programs(text):
    """For each Python block that is not an output its file name, code, and the match of the output that follows it."""
    return [(block.name, block.code, block.output) for block in blocks(text)]


def printed(folder, name, code, namespace=None):
    """What code prints that runs as the file `name` in `folder`; one with a namespace goes on with that file."""
    path = folder / name
    before = path.read_text(encoding="utf-8") + "\n\n" if namespace else ""
    path.write_text(before + code, encoding="utf-8")
    linecache.checkcache(str(path))
    namespace = {} if namespace is None else namespace
    namespace.setdefault("__name__", name)
    out = io.StringIO()
    table = dict(TABLE)
    try:
        with contextlib.redirect_stdout(out), script_in(folder):
            exec(compile("\n" * before.count("\n") + code, str(path), "exec"), namespace)
    finally:
        for function in [f for f in TABLE if getattr(f, "__module__", None) == name]:
            del TABLE[function]  # an operator of the program's own
        TABLE.update(table)  # what it has put in the place of an entry
    return out.getvalue()


@contextlib.contextmanager
def script_in(folder):
    """As for a script in the working directory: modules that lie there can be imported, and are forgotten again."""
    path, modules = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == folder:
                del sys.modules[name]


def rerun(text, folder):
    """The text of a page with what its programs print now."""
    namespaces, new, end = {}, text, 0
    for block in blocks(text):
        namespace = namespaces[block.name] if block.continued else namespaces.setdefault(block.name, {})
        out = printed(folder, block.name, block.code, namespace).strip("\n")
        end = new.index(block.code, end) + len(block.code)
        if block.output is None:
            assert out == "", f"{block.name} prints what the page does not show: {out}"
            continue
        at = new.index(block.output[0], end)
        fence, language = block.output["fence"], block.output["language"]
        new = new[:at] + f"<!-- output -->\n{fence}{language}\n{out}\n{fence}\n" + new[at + len(block.output[0]) :]
    return new
