"""Every Python block of every page runs, and what the page shows is what it prints; names in the text exist."""

from __future__ import annotations

import ast
import doctest
import re

import pytest

import symgrad as sg
from symgrad.targets.c import toolchain
from tests.documents import BLOCK, blocks, pages, rerun, session
from tests.folders import ROOT

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
PAGES = [page for page in pages() if page.name != "README.md"]  # tests/docs/test_readme.py


def title(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.of_numpy
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))], ids=title)
def test_blocks_print_what_is_shown(page, tmp_path, request):
    if 'target="c"' in page.read_text(encoding="utf-8") and toolchain.compiler() is None:
        pytest.skip("no C compiler")
    if request.config.getoption("--blocks"):
        pytest.skip("sources are others in tiny blocks")
    update = request.config.getoption("--update-golden")
    old = page.read_text(encoding="utf-8")
    new = rerun(old, tmp_path)
    for picture, drawn in drawings(page, tmp_path):
        if update:
            picture.write_bytes(drawn.read_bytes())
        assert picture.read_bytes() == drawn.read_bytes(), f"{title(picture)} is not what the page draws"
    if update:
        page.write_text(new, encoding="utf-8")
    else:
        assert new == old


def drawings(page, folder):
    """The pictures that a page shows, each with the file of that name which its programs wrote."""
    for shown in re.findall(r"!\[[^]]*\]\(([^)]+\.svg)\)", page.read_text(encoding="utf-8")):
        picture = page.parent / shown
        if (folder / picture.name).exists():
            yield picture, folder / picture.name


def test_a_picture_is_compared_with_what_its_page_draws(tmp_path):
    (tmp_path / "fit.svg").write_text("<svg/>")
    (found,) = drawings(ROOT / "docs" / "how_it_works.md", tmp_path)
    assert found == (ROOT / "docs" / "pictures" / "fit.svg", tmp_path / "fit.svg")


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_names_in_the_text_exist(page):
    text = page.read_text(encoding="utf-8")
    assert [name for name in sorted(set(re.findall(r"\bsg\.(\w+)", text))) if not hasattr(sg, name)] == []
    files = set(re.findall(r"\b(?:examples|benchmarks|tests|symgrad)/\w+\.py\b", text))
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", pages(), ids=title)
def test_links_lead_to_files(page):
    """Links of the Markdown lead to files; the site checks its own, with their anchors."""
    assert missing_links(page.read_text(encoding="utf-8"), page.parent) == []


def missing_links(text, folder):
    prose = BLOCK.sub("", text)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", prose)]
    return [target for target in targets if ":" not in target and not (folder / target).exists()]


def test_a_link_to_no_file_is_found():
    text = "[a](docs/index.md#top) [b](docs/gone.md) [c](#here) [d](https://e.f/g)\n```py\nx[0](y)\n```\n"
    assert missing_links(text, ROOT) == ["docs/gone.md"]


# ---- figures

UNCERTAIN = re.compile(r"(?<![\w.])\d*\.?\d*(?:\d\.?){14}")


def shown(text):
    """The lines that programs of a page print, without those of generated functions."""
    found = [block["text"] for block in BLOCK.finditer(text) if block["shown"] or block["language"] == "console"]
    return [line for lines in found for line in lines.splitlines() if not line.startswith("    ")]


@pytest.mark.parametrize("page", [page for page in pages() if shown(page.read_text(encoding="utf-8"))], ids=title)
def test_figures_are_rounded_to_digits_that_are_the_same_on_every_processor(page):
    """The last digits of a result depend on the kernels of NumPy and BLAS, which are others on another processor."""
    assert [line for line in shown(page.read_text(encoding="utf-8")) if UNCERTAIN.search(line)] == []


def test_the_first_page_states_the_figures_of_the_readme():
    readme, first = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md"))
    claim = " ".join(re.search(r"\{container\} figure-of-speed\n(.*?):::", first, re.DOTALL)[1].split())
    stated = dict(re.findall(r"(PyTorch|autograd|`jax.jit`)[^*]*\*\*([\d.]+)\*\*", claim))
    names, means = (cells_of(readme, start) for start in ("| | symgrad", "| **geometric mean**"))
    measured = dict(zip(names, means, strict=True))
    assert stated == {name: measured[name] for name in ("PyTorch", "autograd", "`jax.jit`")}
    day, machine = re.search(r"measured on (\S+) on (.*?)\)", claim).groups()
    assert f"Measured on {day}" in readme and machine in " ".join(readme.split())


def cells_of(page, start):
    """The cells of the first line of a table that begins so."""
    line = next(line for line in page.split("\n") if line.startswith(start))
    return [cell.strip("* ") for cell in line.split("|")[2:]]


def test_figures_of_docstrings_are_rounded():
    wants = [(example.want, path.name) for path, example in docstring_examples()]
    assert len(wants) > 100
    assert [(want, name) for want, name in wants if UNCERTAIN.search(want)] == []


def docstring_examples():
    """The examples of all docstrings, each with its file."""
    for path in sorted((ROOT / "symgrad").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ">>>" in text:
            nodes = [x for x in ast.walk(ast.parse(text)) if isinstance(x, DOCUMENTED)]
            for docstring in filter(None, map(ast.get_docstring, nodes)):
                yield from ((path, example) for example in doctest.DocTestParser().get_examples(docstring))


@pytest.mark.parametrize("line", ["0.5800256583859739", "x is -0.3547416477499008, but", "801.3132616875182", "3.6e2"])
def test_an_uncertain_figure_is_found(line):
    assert bool(UNCERTAIN.search(line)) == (len(line) > 5)


# ---- the rule itself

PAGE = """
```python
# a.py
def f(x):
    return x + 1
```
```{note}
No program.
```
```python
# a.py, continued
print(f(1))
```
<!-- output -->
```text
3
```
```py
import torch
```
"""


def test_a_block_goes_on_with_a_file_and_its_output_is_compared(tmp_path):
    assert rerun(PAGE, tmp_path) == PAGE.replace("3\n", "2\n")
    assert (tmp_path / "a.py").read_text(encoding="utf-8").splitlines()[5:] == ["# a.py, continued", "print(f(1))"]


def test_what_a_page_does_not_show_is_not_printed(tmp_path):
    with pytest.raises(AssertionError, match=r"a\.py prints what the page does not show: 2"):
        rerun(PAGE.replace("<!-- output -->\n", ""), tmp_path)


def test_a_block_names_its_file():
    with pytest.raises(AssertionError, match="does not name its file"):
        blocks("```python\nprint(1)\n```\n")


@pytest.mark.parametrize("command", ["symgrad cache --clear", "symgrad cache --clear > clear.txt"])
def test_commands_of_pages_leave_the_modules_of_the_user(command, tmp_path, monkeypatch):
    kept = tmp_path / "users" / f"sg_kept-{'0' * 32}.so"
    kept.parent.mkdir()
    kept.touch()
    monkeypatch.setenv("SYMGRAD_CACHE", str(kept.parent))
    session(tmp_path, f"$ {command}")
    assert kept.exists()
