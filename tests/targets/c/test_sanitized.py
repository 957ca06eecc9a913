"""The command that runs programs with the compiler's checks finds what is wrong, and nothing else."""

import subprocess
import sys

import pytest

from tests.folders import ROOT
from tests.sanitized import environment, reported

PLANTED = """
import os
import numpy as np
import symgrad as sg
from symgrad.lowering import parallel
from symgrad.targets.c import kernels
from tests.sanitized import FOUND

load = kernels.load
parallel.PAYS = 0

def run(place):
    kernels.load = lambda text, name: load(text.replace("[i] = ", f"[{place}] = "), name)
    sg.compile(lambda x: np.exp(x) * x, target="c", threads=2).compile("float64[n]")(np.ones(1_000_000))

run("i")
print([name for name in os.listdir(os.environ[FOUND]) if name.startswith("report")], flush=True)
run("%s")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "threads", "finding"),
    [
        pytest.param("i + 1", False, "heap-buffer-overflow", id="a number behind an array"),
        pytest.param("i / 1000000", True, "data race", id="a number that threads share"),
    ],
)
def test_what_is_planted_is_found(tmp_path, place, threads, finding):
    checked = environment(tmp_path, threads)
    if checked is None:
        pytest.skip("it takes Linux, and gcc or clang with its sanitizers; for threads gcc")
    done = subprocess.run(
        [sys.executable, "-c", PLANTED % place], env=checked, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True
    )
    found = reported(tmp_path)
    if "FATAL: ThreadSanitizer" in found:  # memory of this system lies where it cannot be watched
        pytest.skip(found)
    assert done.stdout.strip() == "[]"
    assert finding in found
