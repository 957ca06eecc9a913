"""Programs that are called a few times are compiled without optimisation, which would take most of the time."""

import pytest


@pytest.fixture(autouse=True)
def compiled_quickly(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O0")


@pytest.fixture
def flags_of_users(compiled_quickly, monkeypatch):
    """Compile as for users: for tests of digits and of vectorised loops, and for some of everything else."""
    monkeypatch.delenv("SYMGRAD_CFLAGS")
