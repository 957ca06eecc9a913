"""Derivatives that a project keeps as files: `symgrad sync`, `[[tool.symgrad.gradients]]`, examples/vendored."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.cli import sync
from symgrad.cli.project import find_project, kept_by
from symgrad.errors import ArgumentError
from symgrad.export.target import load_function
from symgrad.loops import machine
from tests.commands import as_a_new_process, good, run
from tests.folders import ROOT

VENDORED = ROOT / "examples" / "vendored"
MODEL = """\
import numpy as np


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))
"""
PROJECT = """\
[[tool.symgrad.gradients]]
function = "model.py:loss"
target = "loss_grad.py"
kind = "value_and_grad"
wrt = "w"
spec = { w = "float64[d]", X = "float64[n, d]", y = "float64[n]" }
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project that keeps one derivative, which is written."""
    as_a_new_process(monkeypatch, tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def edit(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


# ---- the states of a file


def test_a_file_is_missing_then_written_then_current(project):
    assert run("sync", "--check")[:2] == (1, "loss_grad.py: missing: `symgrad sync` writes it\n")
    assert good(run("sync")) == "loss_grad.py: written\n"
    before = (project / "loss_grad.py").read_bytes()
    assert good(run("sync")) == "loss_grad.py: current\n"
    assert good(run("sync", "--check")) == "loss_grad.py: current, verified\n"
    assert (project / "loss_grad.py").read_bytes() == before


def test_what_is_done_of_a_file_is_said_at_once(project, monkeypatch):
    (project / "pyproject.toml").write_text(PROJECT + PROJECT.replace("loss_grad.py", "again.py"))
    said, synced = [], sync.synced

    def noting(kept, compiled, force):
        said.append(sys.stdout.getvalue())
        return synced(kept, compiled, force)

    monkeypatch.setattr(sync, "synced", noting)
    assert good(run("sync")) == "loss_grad.py: written\nagain.py: written\n"
    assert said == ["", "loss_grad.py: written\n"]
    assert [file["word"] for file in json.loads(good(run("sync", "--json")))["files"]] == ["current", "current"]


@pytest.mark.of_numpy
def test_a_stale_file_is_compiled_once_for_the_model_and_once_for_the_record(project, monkeypatch):
    good(run("sync"))
    edit(project / "model.py", "margin = y * (X @ w)", "margin = y * (X @ w) + 1")
    as_a_new_process(monkeypatch, project)
    made, compile = [], sg.Compiled.__init__
    monkeypatch.setattr(sg.Compiled, "__init__", lambda self, *args: (made.append(self), compile(self, *args))[1])
    assert good(run("sync")) == "loss_grad.py: written\n"
    assert len(made) == 2


def test_last_digits_of_test_vectors_are_those_of_the_machine(project):
    good(run("sync"))
    path = project / "loss_grad.py"
    vectors, start, rest = path.read_text().partition("def _numbers")
    shorter = re.sub(r"(\d\.\d{10})\d+", r"\1", vectors)
    assert shorter != vectors
    path.write_text(shorter + start + rest)
    assert good(run("sync", "--check")) == "loss_grad.py: current, verified\n"


def test_a_change_of_the_model_makes_it_stale(project):
    good(run("sync"))
    edit(project / "model.py", "np.mean", "np.sum")
    code, out, _ = run("sync", "--check")
    assert code == 1 and out.startswith("loss_grad.py: stale: ")
    assert "np.mean(np.logaddexp" in (project / "loss_grad.py").read_text()
    assert good(run("sync")) == "loss_grad.py: written\n"
    assert "np.sum(np.logaddexp" in (project / "loss_grad.py").read_text()


def test_a_change_of_the_entry_makes_it_stale(project):
    good(run("sync"))
    edit(project / "pyproject.toml", '"float64[n, d]"', '"float64[n, 3]"')
    edit(project / "pyproject.toml", '"float64[d]"', '"float64[3]"')
    assert run("sync", "--check")[1].startswith("loss_grad.py: stale: ")


def test_a_right_edit_is_kept(project):
    good(run("sync"))
    path = project / "loss_grad.py"
    edit(path, "margin = y * (X @ w)  # float64[n]", "margin = (X @ w) * y  # swapped by hand")
    edited = path.read_text()
    assert good(run("sync", "--check")) == "loss_grad.py: edited by hand, verified\n"
    assert good(run("sync")).startswith("loss_grad.py: edited by hand, verified: kept")
    assert path.read_text() == edited
    assert good(run("sync", "--force")) == "loss_grad.py: written\n"
    assert "swapped by hand" not in path.read_text()


def test_a_byte_order_mark_is_no_edit(project):
    good(run("sync"))
    path = project / "loss_grad.py"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert good(run("sync", "--check")) == "loss_grad.py: current, verified\n"
    assert sg.load(path).selftest() and good(run("verify", "loss_grad.py"))


def test_a_wrong_edit_is_told_with_its_line_and_kept(project):
    good(run("sync"))
    path = project / "loss_grad.py"
    edit(path, "\n    margin = y", "\n    margin = -y")
    line = path.read_text()[: path.read_text().index("    margin = -y")].count("\n") + 1
    for argv in (["sync", "--check"], ["sync"]):
        code, out, _ = run(*argv)
        assert code == 1 and out.startswith(f"loss_grad.py: wrong, line {line}: ")
    assert "-y" in path.read_text()


def test_a_threshold_that_was_moved_is_told(project):
    edit(
        project / "model.py",
        "    return np.mean(",
        "    margin = np.where(margin > 30.0, 2 * margin - 30.0, margin)\n    return np.mean(",
    )
    good(run("sync"))
    path = project / "loss_grad.py"
    path.write_text(path.read_text().replace("> 30.0", "> 31.5"))
    code, out, _ = run("sync", "--check")
    assert code == 1 and out.startswith("loss_grad.py: wrong, line ")


@pytest.mark.slow
def test_a_gradient_of_rounding_is_no_difference(project):
    """The sum of a softmax is 1: the gradient by what makes it is what rounding leaves of a zero."""
    (project / "model.py").write_text(
        "import numpy as np\n\n\ndef loss(w, X, y):\n"
        "    p = np.exp(X @ w) / np.sum(np.exp(X @ w))\n    return (np.sum(p) - 1.0) ** 2 * np.mean(y * y)\n"
    )
    good(run("sync"))
    assert good(run("sync", "--check")) == "loss_grad.py: current, verified\n"


def test_an_edit_and_a_change_of_the_model_are_both_told(project):
    good(run("sync"))
    edit(project / "loss_grad.py", "margin = y * (X @ w)  # float64[n]", "margin = (X @ w) * y  # swapped by hand")
    edit(project / "model.py", "np.mean", "np.sum")
    code, out, _ = run("sync", "--check")
    assert code == 1 and out.startswith("loss_grad.py: wrong, line ") and "the model's is" in out
    assert out.endswith("; it was edited by hand, and the model has changed since\n")


def test_a_change_of_the_model_that_changes_no_number_is_told_of_an_edited_file(project):
    good(run("sync"))
    edit(project / "loss_grad.py", "margin = y * (X @ w)  # float64[n]", "margin = (X @ w) * y  # swapped by hand")
    edit(project / "model.py", "y * (X @ w)", "(X @ w) * y")
    assert "verified: the model has changed since" in good(run("sync", "--check"))


def test_an_edit_that_is_no_python_is_told(project):
    good(run("sync"))
    edit(project / "loss_grad.py", "return value, d_w", "return value, d_w)")
    code, out, _ = run("sync", "--check")
    assert code == 1 and re.match(r"loss_grad.py: wrong: loss_grad.py, line \d+ is not Python", out)


def test_a_file_of_somebody_else_is_kept(project):
    (project / "loss_grad.py").write_text("mine = 1\n")
    assert run("sync", "--check")[:2] == (1, "loss_grad.py: foreign: symgrad did not write it\n")
    assert run("sync")[0] == 1 and (project / "loss_grad.py").read_text() == "mine = 1\n"
    assert good(run("sync", "--force")) == "loss_grad.py: written\n"


def test_an_error_of_one_model_leaves_the_others(project):
    (project / "broken.py").write_text("import nothing_of_that_name\n")
    other = PROJECT.replace("model.py", "broken.py").replace("loss_grad", "broken_grad")
    (project / "pyproject.toml").write_text(other + PROJECT)
    code, out, _ = run("sync")
    assert code == 2 and "nothing_of_that_name" in out and "loss_grad.py: written" in out
    found = json.loads(run("sync", "--check", "--json")[1])
    assert [(x["target"], x["word"], x["code"]) for x in found["files"]] == [
        ("broken_grad.py", "error", 2),
        ("loss_grad.py", "current", 0),
    ]


def test_large_constants_belong_to_the_file(project):
    edit(project / "model.py", "\n\n", "\n\nWEIGHTS = np.sin(np.arange(5000.0))\n\n")
    edit(project / "model.py", "np.log(", "WEIGHTS * np.log(")
    edit(project / "pyproject.toml", "[n, d]", "[5000, d]")
    edit(project / "pyproject.toml", "[n]", "[5000]")
    good(run("sync"))
    (constants,) = project.glob("*.npz")
    constants.unlink()
    assert run("sync", "--check")[0] == 1
    assert good(run("sync")) == "loss_grad.py: written\n" and constants.exists()


def test_files_do_not_depend_on_the_machine(project, usual_sizes, monkeypatch):
    edit(project / "model.py", "np.log(", "np.sin(margin) * np.tanh(margin) * np.sqrt(2 + np.cos(margin)) * np.log(")
    edit(project / "pyproject.toml", 'wrt = "w"', 'wrt = "w"\noptimize = 2')
    for name, function in OF_THE_MACHINE.items():
        monkeypatch.setattr(machine, name, function)
    specs = "float64[d]", "float64[n, d]", "float64[n]"
    kept, own = set(), set()
    for cores, cache in ((1, 1 << 18), (64, 1 << 23)):
        monkeypatch.setattr(machine, "_cores_here", lambda cores=cores: cores)
        monkeypatch.setattr(machine, "_cache_bytes", lambda cache=cache: cache)
        good(run("sync", "--force"))
        kept.add((project / "loss_grad.py").read_text())
        own.add(sg.value_and_grad(load_function("model.py:loss")).source(*specs))
    assert len(kept) == 1 and len(own) == 2


OF_THE_MACHINE = {name: getattr(machine, name) for name in ("cores", "cache_bytes", "share_bytes")}  # not the tests'


# ---- the table


def entries(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return kept_by(folder / "pyproject.toml")


def test_trees_and_values_in_a_spec(tmp_path):
    (kept,) = entries(
        tmp_path,
        """
        [[tool.symgrad.gradients]]
        function = "m.py:f"
        target = "g.py"
        argnums = [0, 1]
        numerics = "ieee"
        spec = { params = { W = ["float64[3]", "float64[4]"], "a key" = "float64[]" }, steps = 3, mode = "'mean'" }
        """,
    )
    texts = {path: str(x) for path, x in kept.entries.items()}
    assert texts == {
        "params['W'][0]": "float64[3]",
        "params['W'][1]": "float64[4]",
        "params['a key']": "float64[]",
        "steps": "3",
        "mode": "mean",
    }
    assert kept.derivative.argnums == (0, 1) and kept.options == {"optimize": 1, "numerics": "ieee"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("wrt", "wrrt", "unknown key 'wrrt'(.|\\n)*Did you mean 'wrt'"),
        ('"value_and_grad"', '"gradient"', "one of grad, value_and_grad"),
        ('"w"\n', "3\n", "a name"),
        ("target", "#", "has no target"),
        ('"loss_grad.py"', '"../loss_grad.py"', "outside of the project"),
        ('"loss_grad.py"', '"loss_grad.txt"', "a file"),
        ("spec = {", "order = true\nspec = {", "a number from 1 on"),
        ('wrt = "w"', 'wrt = "w"\nargnums = 1', "Give one of them"),
        ('"float64[d]"', '"flaot64[d]"', r"gradients\[0\].spec.w: 'flaot64\[d\]' is not a spec"),
        ("[[tool.symgrad.gradients]]", "[tool.symgrad.gradients]", "not a list of tables"),
        ("[[tool.symgrad.gradients]]", "[tool.symgrad]", "unknown key 'function'"),
        ("symgrad.gradients", "symgrad.derivatives", r"'derivatives'(.|\n)*Write \[\[tool.symgrad.gradients\]\]"),
        ("[[tool.symgrad.gradients]]", "[tool]\nsymgrad = 3\n[other]", "tool.symgrad is not a table"),
        ("wrt", "= wrt", "not valid TOML"),
    ],
)
def test_what_a_table_may_not_have(tmp_path, before, after, said):
    with pytest.raises(ArgumentError, match=said):
        entries(tmp_path, PROJECT.replace(before, after))


def test_two_derivatives_need_two_files(tmp_path):
    with pytest.raises(ArgumentError, match=r"two gradients have the target loss_grad\.py"):
        entries(tmp_path, PROJECT + PROJECT)


def test_the_project_is_looked_for_above(project):
    (project / "deep" / "deeper").mkdir(parents=True)
    (project / "deep" / "pyproject.toml").write_text("[project]\nname = 'another'\n")
    assert find_project(project / "deep" / "deeper") == (project / "pyproject.toml").resolve()


def test_without_a_project_the_message_shows_a_table(tmp_path, monkeypatch):
    as_a_new_process(monkeypatch, tmp_path)
    code, _, err = run("sync")
    assert code == 2 and "[[tool.symgrad.gradients]]" in err


def test_a_folder_that_is_not_there_is_named(tmp_path):
    code, _, err = run("sync", "--project", tmp_path / "gone")
    assert code == 2 and "there is no folder" in err and "gone" in err and "table" not in err


# ---- the example


def test_the_example_is_current_and_verified(request, monkeypatch):
    as_a_new_process(monkeypatch, ROOT)
    if request.config.getoption("--update-golden"):
        good(run("sync", "--project", VENDORED))
    assert good(run("sync", "--check", "--project", VENDORED)).count(": current, verified\n") == 2


def test_the_tests_of_the_example_run_without_symgrad(tmp_path):
    shutil.copytree(VENDORED, tmp_path / "vendored", ignore=shutil.ignore_patterns("__pycache__"))
    discover = ["", "discover", "-s", "tests", "-t", "."]
    code = f"import sys, unittest; sys.modules['symgrad'] = None; unittest.main(None, argv={discover})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path / "vendored"
    )
    assert done.returncode == 0 and "Ran 4 tests" in done.stderr, done.stderr


@pytest.mark.slow
def test_a_package_that_imports_its_derivatives_can_be_begun(tmp_path):
    """Its __init__ imports files that are not there before `sync` has written them, or that an edit has broken."""
    shutil.copytree(VENDORED, tmp_path / "vendored", ignore=shutil.ignore_patterns("__pycache__"))
    kept = [tmp_path / "vendored" / "curve" / name for name in ("loss_grad.py", "residuals_jacobian.py")]
    before = [path.read_text() for path in kept]
    kept[0].unlink()
    kept[1].write_text(kept[1].read_text() + ")")
    command = [sys.executable, "-m", "symgrad", "sync", "--force", "--project", str(tmp_path / "vendored")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.read_text() for path in kept] == before


def test_a_second_model_of_a_package_may_need_what_was_written_for_the_first(project):
    """The package can be imported as soon as the file is there that it imports."""
    (project / "pack").mkdir()
    (project / "pack" / "__init__.py").write_text("from pack.first_grad import first_grad\n\nscale = 2.0\n")
    (project / "pack" / "first.py").write_text("def first(x):\n    return x * x\n")
    second = "def second(x):\n    from pack import scale\n\n    return scale * x * x\n"
    (project / "pack" / "second.py").write_text(second)
    (project / "pyproject.toml").write_text(
        "".join(
            f"[[tool.symgrad.gradients]]\nfunction = 'pack/{name}.py:{name}'\ntarget = 'pack/{name}_grad.py'\n"
            "spec = { x = 'float64[]' }\n"
            for name in ("first", "second")
        )
    )
    assert good(run("sync")) == "pack/first_grad.py: written\npack/second_grad.py: written\n"


def test_a_model_that_failed_is_not_there_for_others(project):
    (project / "failing.py").write_text("def f(x):\n    return x\n\n\n1 / 0\n")
    (project / "importing.py").write_text("from failing import f\n")
    for name in ("failing", "importing"):
        with pytest.raises(ZeroDivisionError):
            load_function(f"{name}.py:f")


def test_the_hook_runs_the_check():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert re.search(r"^- id: symgrad-sync$", text, re.M) and re.search(r"^  entry: symgrad sync --check$", text, re.M)


# ---- the whole way


@pytest.mark.slow
def test_the_whole_way_from_an_empty_folder(tmp_path, monkeypatch):
    as_a_new_process(monkeypatch, tmp_path)
    Path("model.py").write_text(MODEL)
    spec = ["--spec", "w=float64[d], X=float64[n, d], y=float64[n]"]
    assert "def loss_value_and_grad(w, X, y):" in good(run("grad", "model.py:loss", *spec, "--value"))
    assert "all agree" in good(run("check", "model.py:loss", *spec))
    Path("pyproject.toml").write_text(PROJECT)
    assert good(run("sync")) == "loss_grad.py: written\n"
    saved = sg.load("loss_grad.py")
    value, gradient = saved(np.zeros(2), np.ones((3, 2)), np.ones(3))
    np.testing.assert_allclose([value, *gradient], [np.log(2), -0.5, -0.5])
    assert "agrees with its model" in good(run("verify", "loss_grad.py"))
    edit(Path("loss_grad.py"), "\n    margin = y * (X @ w)", "\n    margin = y * (X @ w) * 1.001")
    code, out, _ = run("verify", "loss_grad.py")
    assert code == 1 and "margin = y * (X @ w) * 1.001" in out
    assert run("sync", "--check")[0] == 1
    assert good(run("sync", "--force")) == "loss_grad.py: written\n"
