"""Programs in Markdown: what its Python blocks print is what it shows.

A block begins with a comment that names its file, `# model.py`. One that begins with `# model.py, continued` runs after
it, in the same file and namespace. What a block prints stands in the next block, behind `<!-- output -->`. Code that is
not run, such as that of other libraries, is marked `py`.

A `toml` block that begins with the name of its file is written there. A `console` block has commands behind `$ `, each
with what it prints, errors included; `symgrad` runs in this process, but for pipes and redirections.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from symgrad.ops.define import TABLE
from symgrad.ops.scipy import _ENTRIES, load
from tests.commands import run
from tests.folders import ROOT

BLOCK = re.compile(
    r"(?P<shown><!-- output -->\n)?^(?P<fence>```+)(?P<language>[^`\n]*)\n(?P<text>.*?)^(?P=fence)$\n?",
    re.DOTALL | re.M,
)
FIRST_LINE = re.compile(r"# (?P<name>\w+\.py)(?P<continued>, continued)?\n")


class Block(NamedTuple):
    """A block: its file, its code, whether the file is there already, and the match of the output behind it.

    Of commands the file is "" and the output is the block itself.
    """

    name: str
    code: str
    continued: bool
    output: re.Match | None
    language: str = "python"


def pages():
    """The Markdown files whose programs run."""
    return [ROOT / "README.md", *sorted(ROOT.glob("CONTRIBUTING.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text):
    """The blocks of a page that do something, in order."""
    found, last = [], None
    for block in BLOCK.finditer(text):
        if block["shown"] and last is not None:
            found[last] = found[last]._replace(output=block)
        last = None
        file = re.match(r"# ([\w.]+)\n", block["text"])
        if block["language"] == "console":
            found.append(Block("", block["text"], False, block, "console"))
        if block["language"] == "toml" and file:
            found.append(Block(file[1], block["text"], False, None, "toml"))
        if block["language"] == "python" and not block["shown"]:
            first = FIRST_LINE.match(block["text"])
            assert first, f"the block does not name its file: {block['text'][:60]!r}"
            last = len(found)
            found.append(Block(first["name"], block["text"], bool(first["continued"]), None))
    return found


def programs(text):
    """For each Python block that is not an output its file name, code, and the match of the output that follows it."""
    return [(block.name, block.code, block.output) for block in blocks(text) if block.language == "python"]


def printed(folder, name, code, namespace=None):
    """Return the output of code that runs as the file `name` in `folder`; one with a namespace continues that file."""
    path = folder / name
    before = path.read_text(encoding="utf-8") + "\n\n" if namespace else ""
    path.write_text(before + code, encoding="utf-8")
    linecache.checkcache(str(path))
    namespace = {} if namespace is None else namespace
    namespace.setdefault("__name__", name)
    out = io.StringIO()
    table = dict(TABLE)
    try:
        with contextlib.redirect_stdout(out), script_in(folder), own_environment():
            exec(compile("\n" * before.count("\n") + code, str(path), "exec"), namespace)
    finally:
        for function in [f for f in TABLE if f not in table and is_own(f, name)]:
            del TABLE[function]
        TABLE.update(table)  # what it has put in the place of an entry
    return out.getvalue()


@contextlib.contextmanager
def operators_go_again():
    """Operators that are defined meanwhile are gone behind it. SciPy's are there before: a process adds them once."""
    for name in _ENTRIES:
        with contextlib.suppress(ImportError):
            import_module(f"scipy.{name}")
    load()
    table = dict(TABLE)
    try:
        yield
    finally:
        TABLE.clear()
        TABLE.update(table)


@contextlib.contextmanager
def own_environment():
    """Let a program change the environment: it is as before behind it."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def is_own(function, name):
    """Whether an operator is one of the program `name`, rather than of a package that it was the first to import."""
    home = getattr(function, "__module__", None)  # ufuncs have none
    return home == name or (home is None and getattr(TABLE[function], "package", None) == "")


@contextlib.contextmanager
def script_in(folder):
    """Make modules in the working directory importable, as for a script there, and forget them afterwards."""
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
        if block.language == "toml":
            (folder / block.name).write_text(block.code, encoding="utf-8")
        if block.language == "console":
            at = new.index(block.output[0], end)
            shown = f"```console\n{session(folder, block.code)}```\n"
            new, end = new[:at] + shown + new[at + len(block.output[0]) :], at + len(shown)
        if block.language != "python":
            continue
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


def session(folder, text):
    """Commands and what they print, one after the other in a folder; the cache that they show and empty lies there."""
    lines = []
    with own_environment():
        os.environ["SYMGRAD_CACHE"] = str(folder / ".modules")
        for command in re.findall(r"^\$ (.*)$", text, re.M):
            lines += [f"$ {command}", *answer(folder, command).splitlines()]
    return "".join(f"{line}\n" for line in lines)


def answer(folder, command):
    if not command.startswith("symgrad ") or set("|>;") & set(command):
        shell = f'symgrad() {{ "{sys.executable}" -m symgrad "$@"; }}; {command}'
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(shell, shell=True, cwd=folder, env=env, text=True, capture_output=True).stdout
    with script_in(folder):
        _, out, err = run(*shlex.split(command)[1:])
    return out + err
