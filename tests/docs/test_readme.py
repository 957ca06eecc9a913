"""Every Python block of the README runs, and what the README shows is what it prints."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from tests.documents import printed, programs, rerun
from tests.folders import ROOT
from tests.test_house import FLOOR

README = ROOT / "README.md"


def test_blocks_print_what_is_shown(tmp_path, request):
    if request.config.getoption("--blocks"):
        pytest.skip("sources are others in tiny blocks")
    old = README.read_text(encoding="utf-8")
    new = rerun(old, tmp_path)
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


MAP = r"^  ((?:[\w/]+(?:\.py|/) )+)"  # the lines of the map of the house


def test_names_in_the_text_exist():
    text = README.read_text(encoding="utf-8")
    missing = [name for name in set(re.findall(r"\bsg\.(\w+)", text)) if not hasattr(sg, name)]
    assert missing == []
    files = [f"symgrad/{f}" for line in re.findall(MAP, text, re.M) for f in line.split()]
    files += re.findall(r"(?:examples|benchmarks)/\w+\.py", text)
    assert len(files) > 20
    assert [f for f in files if not (ROOT / f).exists()] == []


def test_the_house_is_complete():
    text = README.read_text(encoding="utf-8")
    shown = {f.split("/")[0] + "/" * ("/" in f) for line in re.findall(MAP, text, re.M) for f in line.split()}
    there = {p.name for p in (ROOT / "symgrad").glob("*.py")}
    there |= {f"{p.parent.name}/" for p in (ROOT / "symgrad").glob("*/__init__.py")}
    assert shown == there


def test_the_map_is_in_the_order_of_the_layers():
    files = [f for line in re.findall(MAP, README.read_text(encoding="utf-8"), re.M) for f in line.split()]
    tops = [f.split("/")[0].removesuffix(".py") for f in files]
    layers = [FLOOR["symgrad" if top == "__init__" else top] for top in tops]
    assert layers == sorted(layers)


REFUSED = {  # what the README says is refused, by its words
    "Derivatives of complex results by complex arguments": lambda x: np.sum(x * 1j),
    "Branches whose sides differ in shape": lambda x: np.sum(x[1:] if x[0] > 0 else x),
    "`int()` of a traced number": lambda x: x[int(x[0])],
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


def test_figures_are_those_of_the_page_of_benchmarks():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    figures = README.read_text(encoding="utf-8").partition("## Figures")[2].partition("\n## ")[0]
    rows = [line for line in figures.splitlines() if line.startswith("|")]
    assert len(rows) > 5
    assert [row for row in rows if row not in page] == []
