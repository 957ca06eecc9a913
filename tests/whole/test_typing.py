"""Types that a type checker infers for a user's program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from symgrad.core.options import NAMES, Chosen
from tests.folders import ROOT


@pytest.mark.slow
def test_mypy_finds_no_error_in_a_page_of_code_and_knows_the_results(request):
    cache = request.config.cache.mkdir("mypy")  # kept between runs: the first one takes half a minute
    arguments = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={cache}", "tests/typed/page.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_finds_no_error_either(tmp_path):
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    page = tmp_path / "page.py"
    shutil.copy(ROOT / "tests" / "typed" / "page.py", page)
    settings = {"include": ["page.py"], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [pyright, "--pythonpath", sys.executable, "-p", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_have_types():
    assert set(Chosen.__annotations__) == NAMES
