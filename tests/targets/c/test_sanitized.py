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
from symgrad.targets.c import kernels
from tests.sanitized import FOUND

load = kernels.load

def run(beyond):
    kernels.load = lambda text, name: load(text.replace("[i] = ", f"[i + {beyond}] = "), name)
    sg.compile(lambda x: np.exp(x) * x, target="c").compile("float64[n]")(np.ones(5000))

run(0)
print([name for name in os.listdir(os.environ[FOUND]) if name.startswith("report")], flush=True)
run(1)
"""


def test_a_number_behind_an_array_is_found(tmp_path):
    checked = environment(tmp_path)
    if checked is None:
        pytest.skip("it takes gcc, with libasan, on Linux")
    done = subprocess.run(
        [sys.executable, "-c", PLANTED], env=checked, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.strip() == "[]"
    assert "heap-buffer-overflow" in reported(tmp_path)
