"""Saved modules: what they say of themselves, how they check themselves, and how they are loaded."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError
from symgrad.export.manifest import FORMAT, read_manifest
from symgrad.export.origin import hash_of

SPECS = ("float64[d]", "float64[n, d]", "float64[n]")
LOGISTIC = """\
import numpy as np

SCALE = 1.0


def loss(w, X, y):
    return np.mean(softplus(-y * (X @ w)))


def softplus(x):
    return np.log(1 + np.exp(SCALE * x))


def other(x):
    return x
"""


def imported(folder, text, name="model"):
    """The module that a text is, in a file of its own."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    specification = spec_from_file_location(name, path)
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def as_a_command(path, *words):
    """A saved module run by Python: its exit code and what it prints."""
    done = subprocess.run([sys.executable, str(path), *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# ---- the manifest


def test_the_manifest_says_what_a_module_is(tmp_path):
    loss = imported(tmp_path, LOGISTIC).loss
    program = sg.value_and_grad(loss, argnums=(0, 1), numerics="ieee").compile(*SPECS, optimize=1)
    (tmp_path / "out").mkdir()
    assert read_manifest(program.save(tmp_path / "out" / "saved.py")) == {
        "format": FORMAT,
        "symgrad": sg.__version__,
        "function": "loss_value_and_grad",
        "signature": program.signature,
        "model": {"file": "../model.py", "module": None, "name": "loss", "sha256": hash_of(LOGISTIC, "loss")},
        "transform": [("value_and_grad", {"argnums": (0, 1)})],
        "arguments": {"w": "float64[d]", "X": "float64[n, d]", "y": "float64[n]"},
        "results": ("float64[]", ("float64[d]", "float64[n, d]")),
        "assumed": [],
        "options": {"optimize": 1, "numerics": "ieee", "threads": None},
        "stability": {},
        "tolerance": 4e-10,
        "reasons": {},
    }


# ---- loading


def test_a_loaded_module_is_its_function(tmp_path):
    program = sg.value_and_grad(imported(tmp_path, LOGISTIC).loss).compile(*SPECS)
    loaded = sg.load(program.save(tmp_path / "saved.py"))
    arguments = np.array([0.5, -1.0]), np.ones((3, 2)), np.array([1.0, -1.0, 1.0])
    np.testing.assert_array_equal(loaded(*arguments)[1], program(*arguments)[1])
    assert loaded.signature == program.signature
    assert loaded.manifest == read_manifest(tmp_path / "saved.py")
    assert loaded.selftest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "'saved.py' cannot be read"),
        ("x = 1\n", "'saved.py' has no __symgrad__"),
        ("def f(x:\n", "saved.py, line 1 is no Python"),
        ("__symgrad__ = {'format': 2}\n", "written by a newer symgrad: its format is 2, this symgrad reads 1"),
        ("__symgrad__ = dict(format=1)\n", "has a __symgrad__ that is no manifest"),
        ("__symgrad__ = {'format': 1, 'function': 'f'}\n", "has no function 'f'"),
        ("__symgrad__ = {'format': 1, 'function': 'f'}\ny = x\n", "fails while it is loaded: NameError"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_words(text, message, tmp_path):
    path = tmp_path / "saved.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ArgumentError, match=message):
        sg.load(path)


# ---- the self-test


def test_a_wrong_sign_fails(tmp_path):
    program = sg.value_and_grad(imported(tmp_path, LOGISTIC).loss).compile(*SPECS, optimize=1)
    path = program.save(tmp_path / "saved.py")
    code, out = as_a_command(path, "--selftest")
    assert (code, out.splitlines()[-1]) == (0, "passed")
    text = path.read_text()
    assert text.count("d_w = ") == 1
    path.write_text(text.replace("d_w = ", "d_w = -1 * "))
    code, out = as_a_command(path, "--selftest")
    assert code == 1
    assert "relative error 2.0e+00" in out and "FAILED" in out
    assert not sg.load(path).selftest()
