"""Every error and warning has a code and a page in the documentation, whose programs test_docs runs."""

from __future__ import annotations

import re
import traceback

import numpy as np
import pytest

import symgrad as sg
from symgrad import errors
from tests.folders import ROOT

PAGES = ROOT / "docs" / "errors"
NO_KIND = (errors.SymgradError, errors.Refusal)  # bases, which nobody raises
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, (errors.SymgradError, Warning)) and kind not in NO_KIND
]


def test_codes_are_unique():
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes) > 10
    assert all(re.fullmatch(r"SG[1-5]\d\d", code) for code in codes)
    assert {path.stem for path in PAGES.glob("SG*.md")} == set(codes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_each_code_has_a_page(kind):
    text = (PAGES / f"{kind.code}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {kind.code}: ")
    assert f"\n`{kind.__name__}`\n" in text
    assert re.findall(r"^## (.*)", text, re.M) == ["What happened", "Why", "Two ways out"]
    programs = re.findall(r"```python\n(.*?)```\n<!-- output -->\n```text\n(.+?)```", text, re.DOTALL)
    assert len(programs) == 3, "one that shows it, and two that mend it"
    assert kind.__name__ in programs[0][0] + programs[0][1] or issubclass(kind, Warning)
    assert not any("except" in code for code, _ in programs[1:])
    assert f"| [{kind.code}]({kind.code}.md) | `{kind.__name__}` |" in (PAGES / "index.md").read_text(encoding="utf-8")


def test_a_traceback_says_the_code():
    with pytest.raises(errors.DTypeError) as caught:
        sg.grad(np.sum)(np.arange(3))
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.endswith("  [SG103] errors/SG103 in symgrad's documentation\n")
    assert "SG103" not in str(caught.value)
