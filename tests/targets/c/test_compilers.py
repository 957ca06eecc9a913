"""Machines where ziglang is the only compiler, or where there is none, as new processes without commands see them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c import toolchain
from tests.folders import ROOT

HIDDEN = """\
import sys
from importlib.machinery import ModuleSpec


class Hidden:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, None) if name == "ziglang" else None


sys.meta_path.insert(0, Hidden())
"""
PROGRAM = """\
import warnings
import numpy as np
import symgrad as sg
from symgrad.core.background import background
from symgrad.targets.c import toolchain

warnings.simplefilter("error")


def energy(x):
    return np.sum(np.exp(-((x[1:] - x[:-1]) ** 2)))


x = np.linspace(-1, 1, 20_000)
expected = sg.grad(energy, target="numpy")(x)
found = toolchain.compiler()
print(found.name if found else "none")
try:
    np.testing.assert_allclose(sg.grad(energy, target="c")(x), expected, rtol=1e-12)
    print("the same")
except sg.errors.CompilerError as error:
    print(error.code, error)
auto = sg.grad(energy, target="auto").compile("float64[n]")
for _ in range(2000):
    np.testing.assert_allclose(auto(x), expected, rtol=1e-12)
    if _ % 200 == 0:
        background.wait()
print("auto:", auto.explain().target)
sg.grad(energy).compile("float64[n]").save("energy.c")
print("saved")
"""


def run(folder, *arguments):
    """Run Python where the path has no commands, and return what it prints."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SYMGRAD_")}
    environment = {**kept, "PATH": str(folder), "SYMGRAD_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_no_compiler(tmp_path):
    """C is refused with a message that says what to install, and target="auto" runs NumPy without a word."""
    (tmp_path / "program.py").write_text(HIDDEN + PROGRAM)
    name, code, *_, auto, saved = run(tmp_path, "program.py").splitlines()
    assert name == "none" and code.startswith('SG404 target="c": no C compiler')
    assert auto.startswith("auto: NumPy") and saved == "saved"


@pytest.mark.skipif(toolchain.zig() is None, reason="there is no ziglang")
def test_ziglang_alone(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    name, same, auto, saved = run(tmp_path, "program.py").splitlines()
    assert (name, same, saved) == ("zig", "the same", "saved") and auto.startswith("auto: ")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numpy", "c"])
def test_the_command_needs_no_compiler(target, tmp_path):
    model = f"{ROOT / 'examples' / 'logistic.py'}:loss"
    assert "loss_grad" in run(tmp_path, "-m", "symgrad", "grad", model, "--wrt", "w", "--target", target)
    if target == "numpy":
        run(tmp_path, "-m", "symgrad", "check", model)


GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(
    GCC is None or "gcc" not in Path(GCC).resolve().name or sys.platform == "darwin", reason="no gcc"
)


@needs_gcc
def test_flags_of_gcc_go_by_the_real_name(monkeypatch, tmp_path):
    """Clang refuses some of them: it may be named cc, and on macOS gcc."""
    (tmp_path / "cc").symlink_to(GCC)
    (tmp_path / "clang-19").write_text("")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "cc").symlink_to(tmp_path / "clang-19")
    named = [toolchain.Compiler((str(path),), "") for path in (tmp_path / "cc", tmp_path / "c" / "cc")]
    special = [set(toolchain.OF_GCC) & set(toolchain.flags_of(cc)) for cc in named]
    assert special == [set(toolchain.OF_GCC), set()]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not set(toolchain.OF_GCC) & set(toolchain.flags_of(named[0]))


def chain(x):
    """A long run of numbers, without a loop."""
    a, b = x[0], x[1]
    for k in (0.3, 0.7, 0.2, 0.9, 1.1, 0.4):
        a, b = np.sin(a * b + k) + x[2], np.sqrt(1 + a * a) * np.exp(-k * b)
    return a * b


@needs_gcc
@pytest.mark.usefixtures("flags_of_users")
def test_flags_for_long_functions_change_no_bits(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CC", GCC)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    x = np.array([0.3, 0.7, 0.2])
    short = sg.hessian(chain, target="c")(x)
    monkeypatch.setattr(toolchain, "OF_GCC", ())
    assert sg.hessian(chain, target="c")(x).tobytes() == short.tobytes()
    assert len({path.name for path in tmp_path.iterdir()}) == 2  # flags are part of the key
