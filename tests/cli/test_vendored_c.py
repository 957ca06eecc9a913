"""C that a project keeps: what `sync` writes and says, what `verify` sees, and the Python module around it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError
from symgrad.targets.c import toolchain
from tests.commands import as_a_new_process, good, run
from tests.folders import ROOT

COMPILER = toolchain.compiler()
needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
needs_a_driver = pytest.mark.skipif(COMPILER is None or COMPILER.is_zig, reason="no compiler that links")
MODEL = """\
import numpy as np


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))
"""
PROJECT = """\
[[tool.symgrad.gradients]]
function = "model.py:loss"
target = "loss_grad.c"
kind = "value_and_grad"
wrt = "w"
spec = { w = "float64[d]", X = "float64[n, d]", y = "float64[n]" }
"""
WITH_PYTHON = PROJECT.replace('"loss_grad.c"', '"loss_grad.py"\nc = true')
W, DATA, Y = np.array([0.3, -0.2]), np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]]), np.array([1.0, -1.0, 1.0])


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-O0")
    as_a_new_process(monkeypatch, tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def edit(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def without_a_compiler(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CC", "/nonexistent")


# ---- sync


@pytest.mark.of_numpy
def test_c_is_written_and_current_where_there_is_no_compiler(project, monkeypatch):
    without_a_compiler(monkeypatch)
    assert run("sync", "--check")[:2] == (1, "loss_grad.c: missing: `symgrad sync` writes it\n")
    assert good(run("sync")) == "loss_grad.c: written\n"
    assert sorted(path.name for path in project.glob("*loss*")) == ["loss_grad.c", "loss_grad.h"]
    assert good(run("sync")) == good(run("sync", "--check")) == "loss_grad.c: current\n"


@needs_a_compiler
def test_c_is_verified_where_there_is_a_compiler(project):
    good(run("sync"))
    assert good(run("sync", "--check")) == "loss_grad.c: current, verified\n"
    assert good(run("verify", "loss_grad.c")).startswith("loss_grad.c agrees with its model\n")


def test_a_model_that_changed_makes_c_stale(project):
    good(run("sync"))
    edit(project / "model.py", "np.mean", "np.sum")
    assert run("sync", "--check")[1].startswith("loss_grad.c: stale")
    assert good(run("sync")) == "loss_grad.c: written\n"
    (project / "loss_grad.h").unlink()
    assert run("sync", "--check")[1] == "loss_grad.c: missing: loss_grad.h: `symgrad sync` writes it\n"


def number(path):
    """Return a number of the C of the function that stands in its text once."""
    line = next(line for line in path.read_text().split("\n") if "sg_exp(" in line and line.startswith(" " * 8))
    return line


@pytest.mark.slow
@needs_a_compiler
def test_an_edit_that_is_right_is_kept_and_one_that_is_wrong_is_told(project):
    good(run("sync"))
    path = project / "loss_grad.c"
    edit(path, "return 0;", "return 0 + 0;")
    assert good(run("sync", "--check")) == "loss_grad.c: edited by hand, verified\n"
    assert "kept, --force would write it anew" in good(run("sync"))
    line = number(path)
    edit(path, line, line.replace("sg_exp(", "1.00001 * sg_exp("))
    code, said, _ = run("sync", "--check")
    at = path.read_text()[: path.read_text().index("1.00001")].count("\n") + 1
    assert code == 1 and said.startswith(f"loss_grad.c: wrong, line {at}: result") and "the model's is" in said
    assert good(run("sync", "--force")) == "loss_grad.c: written\n"
    assert good(run("sync", "--check")) == "loss_grad.c: current, verified\n"


@needs_a_compiler
@pytest.mark.parametrize(
    "after, fact",
    [
        ("return 0", "differs from its model, in line {line}\n"),
        ("return 2;", "it gives back MemoryError"),
        ("*(volatile int *)0 = 1;", "it ends the process: SIG"),
        ("((double *)w)[0] = 7;\n    return 0;", "it writes into its arguments"),
    ],
)
def test_what_is_wrong_with_c(project, after, fact):
    good(run("sync"))
    path = project / "loss_grad.c"
    head, _, tail = path.read_text().rpartition("return 0;")
    path.write_text(head + after + tail)
    code, said, _ = run("verify", "loss_grad.c")
    line = head.count("\n") + 1
    assert code == 1 and fact.format(line=line) in said, said


@needs_a_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs another process")
def test_edited_c_is_run_in_another_process(project):
    """C that writes out of bounds may end the process long after its results were compared."""
    good(run("sync"))
    head, _, tail = (project / "loss_grad.c").read_text().rpartition("return 0;")
    called = 'FILE *f = fopen("called", "a"); fprintf(f, "%d\\n", (int)getpid()); fclose(f);'
    text = f"#include <stdio.h>\n#include <unistd.h>\n{head}{called} return 0;{tail}"
    for edited, code in ((text, 0), (text.replace("sg_exp(", "1.00001 * sg_exp(", 1), 1)):
        (project / "loss_grad.c").write_text(edited)
        assert run("verify", "loss_grad.c")[0] == code
        assert str(os.getpid()) not in (project / "called").read_text().split()


@needs_a_compiler
def test_a_loop_without_an_end(project, monkeypatch):
    from symgrad.verification import c_files

    monkeypatch.setattr(c_files, "PATIENCE", 0.5)
    good(run("sync"))
    head, _, tail = (project / "loss_grad.c").read_text().rpartition("return 0;")
    (project / "loss_grad.c").write_text(f"{head}for (volatile int i = 0; ; i++);{tail}")
    assert "it does not end within" in run("verify", "loss_grad.c")[1]


def test_a_header_that_was_edited_is_not_taken_for_right(project):
    good(run("sync"))
    edit(project / "loss_grad.h", "double *value_out", "float *value_out")
    code, said, _ = run("sync", "--check")
    assert code == 1 and said.startswith("loss_grad.c: wrong: loss_grad.h: it was edited by hand")


def test_c_does_not_say_what_it_is_of(project):
    good(run("sync"))
    with pytest.raises(ArgumentError, match=r"'loss_grad.c' is a C file, and does not record(.|\n)*pyproject.toml"):
        sg.verify(project / "loss_grad.c")
    shutil.copy(project / "loss_grad.c", project / "other.c")
    assert "does not list 'other.c'" in run("verify", "other.c")[2]
    assert "there is no file 'none.c'" in run("verify", "none.c")[2]


def test_verifying_c_takes_a_compiler(project, monkeypatch):
    good(run("sync"))
    without_a_compiler(monkeypatch)
    assert "SYMGRAD_CC='/nonexistent' is no command" in run("verify", "loss_grad.c")[2]


# ---- the Python module around it


def built(folder, stem):
    """Compile the extension of a module as a build tool does."""
    made = folder / f"_{stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-O1", "-std=c11", "-fPIC", "-shared", "-fwrapv", "-fopenmp-simd", "-w"]
    sources = [str(folder / f"{stem}.c"), str(folder / f"_{stem}.c")]
    subprocess.run([*COMPILER.command, *flags, *sources, "-o", str(made), "-lm"], check=True)


def python(folder, *arguments):
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=600)


SHOW = (
    "import numpy as np, loss_grad; print('_in_c' in vars(loss_grad), "
    "*loss_grad.loss_value_and_grad(np.ones(2), np.ones((3, 2)), np.ones(3)))"
)


@pytest.mark.slow
@needs_a_driver
def test_a_module_calls_c_where_it_is_compiled_and_numpy_elsewhere(project):
    (project / "pyproject.toml").write_text(WITH_PYTHON)
    assert good(run("sync")) == "loss_grad.py: written\n"
    assert good(run("sync", "--check")) == "loss_grad.py: current, verified\n"
    assert sorted(path.name for path in project.glob("*loss*")) == [
        "_loss_grad.c", "loss_grad.c", "loss_grad.h", "loss_grad.py",
    ]  # fmt: skip
    by_numpy = python(project, "-c", SHOW)
    built(project, "loss_grad")
    by_c = python(project, "-c", SHOW)
    assert (by_numpy.stderr, by_c.stderr) == ("", "")
    assert by_numpy.stdout == by_c.stdout.replace("True", "False") != by_c.stdout
    assert python(project, "loss_grad.py", "--selftest").stdout.endswith("passed\n")
    refused = python(project, "-c", SHOW.replace("np.ones(3)", "np.ones(4)"))
    assert "y must be float64[n]" in refused.stderr


@needs_a_driver
def test_the_self_test_is_one_of_c_and_c_of_another_model_is_not_called(project):
    (project / "pyproject.toml").write_text(WITH_PYTHON)
    good(run("sync"))
    line = number(project / "loss_grad.c")
    edit(project / "loss_grad.c", line, line.replace("sg_exp(", "1.01 * sg_exp("))
    built(project, "loss_grad")
    assert "FAILED" in python(project, "loss_grad.py", "--selftest").stdout
    edit(project / "model.py", "np.mean", "np.sum")
    good(run("sync", "--force"))
    assert python(project, "-c", SHOW).stdout.startswith("False ")


@needs_a_driver
def test_errors_of_matrices_are_numpys(project):
    """The module calls C where that is compiled, and its results and errors are those of NumPy."""

    def f(a, b):
        return np.sum(np.linalg.solve(a, b)) + np.sum(np.linalg.cholesky(a))

    sg.grad(f).compile("float64[n, n]", "float64[n]").save(project / "solved.py", target="c")
    show = (
        "import numpy as np, solved\n"
        "for a in (2 * np.eye(3), np.zeros((3, 3)), -np.eye(3)):\n"
        "    try: print(np.round(solved.f_grad(a, np.ones(3)), 9) + 0.0)\n"
        "    except np.linalg.LinAlgError as error: print(error)\n"
        "print('_in_c' in vars(solved))"
    )
    by_numpy = python(project, "-c", show).stdout
    built(project, "solved")
    by_c = python(project, "-c", show).stdout
    assert by_numpy.replace("False", "True") == by_c
    assert "Singular matrix" in by_c and "not positive definite" in by_c


@needs_a_compiler
def test_an_edit_of_c_beside_a_module_is_told(project):
    (project / "pyproject.toml").write_text(WITH_PYTHON)
    good(run("sync"))
    line = number(project / "loss_grad.c")
    edit(project / "loss_grad.c", line, line.replace("sg_exp(", "1.01 * sg_exp("))
    code, said, _ = run("sync", "--check")
    assert code == 1 and said.startswith("loss_grad.py: wrong, line ") and ": loss_grad.c: result" in said


def test_a_module_with_c_is_written_whole_or_not_at_all(tmp_path):
    compiled = sg.grad(lambda x: np.sum(np.sin(x))).compile("float64[n]")
    (tmp_path / "slope.py").write_text("mine = 1\n")
    with pytest.raises(ArgumentError, match="symgrad did not write it"):
        compiled.save(tmp_path / "slope.py", target="c")
    with pytest.raises(ArgumentError, match=r"save\(target='rust'\)"):
        compiled.save(tmp_path / "other.py", target="rust")
    assert [path.name for path in tmp_path.iterdir()] == ["slope.py"]


BUILT = '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n'


def test_lines_that_build_c_are_said_until_they_are_there(project):
    """They are those of the example, which is built in a test."""
    text = BUILT + WITH_PYTHON.replace('"loss_grad.py"', '"src/curve/loss_grad.py"')
    (project / "pyproject.toml").write_text(text)
    (project / "src" / "curve").mkdir(parents=True)
    written, said, *lines = good(run("sync")).splitlines()
    assert written == "src/curve/loss_grad.py: written"
    assert said == "pyproject.toml: nothing compiles the C; with these lines setuptools does:"
    (entry,) = tomllib.loads("\n".join(lines))["tool"]["setuptools"]["ext-modules"]
    (example,) = tomllib.loads((VENDORED / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    assert entry == {
        **example,
        "name": "curve._loss_grad",
        "sources": ["src/curve/loss_grad.c", "src/curve/_loss_grad.c"],
        "depends": ["src/curve/loss_grad.h"],
    }
    (project / "pyproject.toml").write_text("\n".join([text, *lines]))
    assert good(run("sync")) == "src/curve/loss_grad.py: current\n"
    (project / "pyproject.toml").write_text(text)
    assert "ext-modules" not in good(run("sync", "--check"))
    (project / "setup.py").touch()
    assert good(run("sync")) == "src/curve/loss_grad.py: current\n"


def test_two_gradients_in_one_c_file_are_refused(project):
    (project / "pyproject.toml").write_text(PROJECT + WITH_PYTHON)
    assert "two gradients have the target loss_grad.c" in run("sync")[2]


# ---- a package that is built


VENDORED = ROOT / "examples" / "vendored_c"


def build_tool():
    """Return the major version of setuptools; 0 where there is none."""
    try:
        return int(version("setuptools").partition(".")[0])
    except PackageNotFoundError:
        return 0


needs_a_build_tool = pytest.mark.skipif(build_tool() < 77, reason="no setuptools >= 77")


def test_the_example_is_current(request):
    if request.config.getoption("--update-golden"):
        good(run("sync", "--project", VENDORED))
    assert good(run("sync", "--check", "--project", VENDORED)).startswith("level/likelihood_grad.py: current, verified")


@needs_a_build_tool
@pytest.mark.parametrize("compiler", [pytest.param("there", marks=needs_a_driver), "hidden"])
def test_the_example_is_built_with_c_and_without(compiler, tmp_path):
    shutil.copytree(VENDORED, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__", "tests"))
    command = " ".join(COMPILER.command) if compiler == "there" else "/nonexistent"
    build = ["-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w", "made", "./source"]
    made = subprocess.run(
        [sys.executable, *build], cwd=tmp_path, env={**os.environ, "CC": command}, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = (tmp_path / "made").iterdir()
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    shutil.copytree(VENDORED / "tests", tmp_path / "installed" / "tests")
    compiled = list((tmp_path / "installed" / "level").glob("_likelihood_grad.*.so"))
    assert len(compiled) == (compiler == "there")
    tests = python(tmp_path / "installed", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
    assert tests.returncode == 0, tests.stderr
    assert python(tmp_path / "installed", "-m", "level.likelihood_grad", "--selftest").stdout.endswith("passed\n")
    show = "import level.likelihood_grad as m; print('_in_c' in vars(m))"
    assert python(tmp_path / "installed", "-c", show).stdout == f"{compiler == 'there'}\n"
