"""Folders of the repository, for tests wherever they stand."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"  # what `--update-golden` writes
EXAMPLES = ROOT / "examples"
