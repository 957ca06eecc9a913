"""Golden files, and what hypothesis may take."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile("symgrad", deadline=None, derandomize=True)  # the same examples on every machine
settings.load_profile("symgrad")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the generated sources to tests/golden")


@pytest.fixture
def golden(request):
    """Compares a generated source with the file of that name in tests/golden, which `--update-golden` writes."""

    def check(name, source):
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(source, encoding="utf-8")
        assert path.exists(), f"{name} is new: run pytest --update-golden"
        assert source == path.read_text(encoding="utf-8"), f"{name} changed: read the diff, then run --update-golden"
        return path

    return check
