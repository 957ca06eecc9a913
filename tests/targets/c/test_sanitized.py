"""The command that runs programs with the compiler's checks finds what is wrong, and nothing else."""

import subprocess
import sys

import pytest

from tests.sanitized import environment, reported

PLANTED = """
import numpy as np
import symgrad as sg
from symgrad.targets.c import kernels

load = kernels.load
kernels.load = lambda text, name: load(text.replace("[i] = ", "[i + {beyond}] = "), name)
compiled = sg.compile(lambda x: np.exp(x) * x, target="c").compile("float64[n]")
compiled(np.ones(5000))
"""


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_number_behind_an_array_is_found(beyond, tmp_path):
    checked = environment(tmp_path)
    if checked is None:
        pytest.skip("it takes gcc, with libasan, on Linux")
    subprocess.run([sys.executable, "-c", PLANTED.format(beyond=beyond)], env=checked, check=False)
    assert ("heap-buffer-overflow" in reported(tmp_path)) == bool(beyond)
