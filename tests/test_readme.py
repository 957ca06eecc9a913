"""Every Python block of the README runs, and what the README shows is what it prints."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.define import TABLE

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"(?P<shown><!-- output -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```\n", re.DOTALL)


def programs(text):
    """For each Python block that is not an output its file name, code, and the match of the output that follows it."""
    found = []
    for block in BLOCK.finditer(text):
        if block["shown"]:
            found[-1] = (*found[-1][:2], block)
        elif block["language"] == "python":
            name = re.match(r"# (\w+\.py)\n", block["text"])
            assert name, f"the block does not name its file: {block['text'][:60]!r}"
            found.append((name[1], block["text"], None))
    return found


def printed(folder, name, code):
    path = folder / name
    path.write_text(code, encoding="utf-8")
    linecache.checkcache(str(path))
    out = io.StringIO()
    table = dict(TABLE)
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(path), "exec"), {"__name__": name})
    finally:
        TABLE.clear()
        TABLE.update(table)
    return out.getvalue()


def test_blocks_print_what_is_shown(tmp_path, request):
    if request.config.getoption("--blocks"):
        pytest.skip("sources are others in tiny blocks")
    old = new = README.read_text(encoding="utf-8")
    for name, code, block in programs(old):
        out = printed(tmp_path, name, code).strip("\n")
        if block is None:
            assert out == "", f"{name} prints what the README does not show"
            continue
        at = new.index(block[0], new.index(code))
        shown = f"<!-- output -->\n```{block['language']}\n{out}\n```\n"
        new = new[:at] + shown + new[at + len(block[0]) :]
    if request.config.getoption("--update-golden"):
        README.write_text(new, encoding="utf-8")
    else:
        assert new == old


def test_the_picture_is_what_is_drawn(tmp_path, request):
    code = {name: text for name, text, _ in programs(README.read_text(encoding="utf-8"))}["logistic.py"]
    code += """
specs = "float64[d]", "float64[n, d]", "float64[n]"
print(sg.draw(sg.value_and_grad(loss).compile(*specs, optimize=1)).text())
"""
    picture = ROOT / "docs" / "logistic.svg"
    drawn = "<svg" + printed(tmp_path, "logistic.py", code).partition("<svg")[2].removesuffix("\n")
    if request.config.getoption("--update-golden"):
        picture.write_text(drawn, encoding="utf-8")
    else:
        assert picture.read_text(encoding="utf-8") == drawn


def test_blocks_have_names_of_their_own():
    names = [name for name, _, _ in programs(README.read_text(encoding="utf-8"))]
    assert len(names) == len(set(names)) > 5


def test_names_in_the_text_exist():
    text = README.read_text(encoding="utf-8")
    missing = [name for name in set(re.findall(r"\bsg\.(\w+)", text)) if not hasattr(sg, name)]
    assert missing == []
    files = [f"symgrad/{f}" for line in re.findall(r"^  ((?:[\w/]+(?:\.py|/) )+)", text, re.M) for f in line.split()]
    files += re.findall(r"(?:examples|benchmarks)/\w+\.py", text)
    assert len(files) > 20
    assert [f for f in files if not (ROOT / f).exists()] == []


def test_the_house_is_complete():
    text = README.read_text(encoding="utf-8")
    shown = {f for line in re.findall(r"^  ((?:[\w/]+(?:\.py|/) )+)", text, re.M) for f in line.split()}
    there = {p.name for p in (ROOT / "symgrad").glob("*.py")} | {"ops/", "rewrite/", "schedule/", "emit/", "show/"}
    assert shown | {"__init__.py", "version.py"} == there


REFUSED = {  # what the README says is refused, by its words
    "Derivatives of complex numbers": lambda x: np.sum(np.abs(x * 1j)),
    "`np.fft`": lambda x: np.sum(np.abs(np.fft.fft(x))),
    "Python control flow": lambda x: x[0] if x[0] > 0 else x[1],
    "`float()` and `int()`": lambda x: float(x[0]),
    "Writing into an argument": lambda x: np.sum(np.add(x, 1, out=x)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_called_refused_is_refused(words):
    text = " ".join(README.read_text(encoding="utf-8").split())
    assert words in text
    with pytest.raises(sg.errors.SymgradError):
        sg.grad(REFUSED[words])(np.array([1.0, 2.0, 3.0]))


def test_ci_runs_the_command_of_the_readme():
    commands = re.findall(r"```sh\n(.*?)\n```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tests,) = [command for command in commands if "pytest" in command]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert tests.replace(" && ", "\n") in script
    (example,) = [command for command in commands if "digits" in command]
    assert example.startswith('pip install -e ".[examples]" && python examples/')
