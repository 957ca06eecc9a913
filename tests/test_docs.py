"""Every Python block of every page runs, and what the page shows is what it prints; names in the text exist."""

from __future__ import annotations

import re

import pytest

import symgrad as sg
from tests.documents import ROOT, blocks, pages, rerun

PAGES = [page for page in pages() if page.name != "README.md"]  # tests/test_readme.py


def title(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))], ids=title)
def test_blocks_print_what_is_shown(page, tmp_path, request):
    if request.config.getoption("--blocks"):
        pytest.skip("sources are others in tiny blocks")
    old = page.read_text(encoding="utf-8")
    new = rerun(old, tmp_path)
    if request.config.getoption("--update-golden"):
        page.write_text(new, encoding="utf-8")
    else:
        assert new == old


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_names_in_the_text_exist(page):
    text = page.read_text(encoding="utf-8")
    assert [name for name in sorted(set(re.findall(r"\bsg\.(\w+)", text))) if not hasattr(sg, name)] == []
    files = set(re.findall(r"\b(?:examples|benchmarks|tests|symgrad)/\w+\.py\b", text))
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []


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
