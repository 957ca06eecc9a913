"""The command ``symgrad``: what its help says, errors and exit codes."""

import contextlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.cli import COMMANDS, main, parser
from symgrad.cli.peers import PEERS
from symgrad.cli.shapes import annotation_spec, call_of, parse_entries
from symgrad.errors import ArgumentError
from symgrad.targets.numpy import module as writer
from tests.commands import as_a_new_process, good, run
from tests.documents import operators_go_again
from tests.folders import ROOT

MODEL = """
import numpy as np

print("a model may print when it is imported")

def loss(w, X, y, decay=0.1):
    return np.mean((X @ w - y) ** 2) + decay * np.sum(w ** 2)

def annotated(w: "float64[3]", X: "float64[n, 3]"):
    return np.sum(np.tanh(X @ w))

def cube(x: "float64[]"):
    return x ** 3

def several(x: "float64[n]"):
    return x[:2] * x[2]

def layers(params, X: "float64[n, 3]"):
    return np.sum(np.tanh(X @ params["W"][0] + params["b"]) ** 2)

def steps(x: "float64[n]", count, mode="mean"):
    for _ in range(count):
        x = np.sin(x)
    return np.mean(x) if mode == "mean" else np.sum(x)

def wrong(x: "float64[n]"):
    raise RuntimeError("not today")

def rooted(x: "float64[n]"):
    return np.sum(np.sqrt(x - 1) * np.log(x))

class Model:
    @staticmethod
    def loss(x: "float64[n]"):
        return np.sum(x ** 2)

    def depth(self, x: "float64[n]"):
        return np.sum(x)

number = 3
"""
SPEC = "w=float64[d], X=float64[n, d], y=float64[n]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model, and nothing else."""
    as_a_new_process(monkeypatch, tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


# ---- what help says


def examples():
    for module in COMMANDS:
        for example in module.COMMAND.examples:
            yield pytest.param(example, id=example)


@pytest.mark.slow
@pytest.mark.parametrize("example", list(examples()))
def test_the_examples_of_help_work(example, tmp_path, monkeypatch):
    name, *arguments = shlex.split(example)
    assert name == "symgrad"
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    as_a_new_process(monkeypatch, tmp_path)
    assert good(run(*arguments))


@pytest.mark.parametrize("module", COMMANDS, ids=lambda module: module.COMMAND.name)
def test_help_has_two_examples_and_the_exit_codes(module):
    out = good(run(module.COMMAND.name, "--help"))
    assert out.count(f"  symgrad {module.COMMAND.name} ") + out.count(f"  symgrad {module.COMMAND.name}\n") >= 2
    assert "exit codes: 0" in out


def test_all_commands_are_listed():
    out = good(run("--help"))
    assert all(re.search(rf"^    {module.COMMAND.name}\b", out, re.M) for module in COMMANDS)
    assert good(run("--version")) == f"symgrad {sg.__version__}\n"


@pytest.mark.slow
def test_the_command_and_the_module_are_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "symgrad", "grad", "examples/logistic.py:loss", "--wrt", "w"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0
    assert [
        x for x in done.stderr.splitlines() if not x.startswith("symgrad: ")
    ] == []  # a slow machine says what it does
    assert "def loss_grad(w, X, y):" in done.stdout
    assert 'symgrad = "symgrad.cli:command"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


# ---- grad


def test_grad_prints_the_source_of_the_library(folder):
    out = good(run("grad", "model.py:loss", "--spec", SPEC, "--wrt", "w"))
    from symgrad.export.target import load_function

    expected = sg.grad(load_function("model.py:loss"), wrt="w", optimize=1)
    assert out == expected.source("float64[d]", "float64[n, d]", "float64[n]")
    assert "may print" not in out


@pytest.mark.parametrize(
    ("flags", "x", "expected"),
    [
        ([], 2.0, 12.0),
        (["--value"], 2.0, (8.0, 12.0)),
        (["--hessian"], 2.0, 12.0),
        (["--order", "2"], 2.0, 12.0),
        (["--order", "3"], 2.0, 6.0),
        (["--order", "4"], 2.0, 0.0),
        (["--jacobian"], 2.0, 12.0),
        (["--function"], 2.0, 8.0),
        (["--argnums", "0"], 2.0, 12.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_kinds_and_orders(folder, flags, x, expected, optimize):
    found = json.loads(good(run("grad", "model.py:cube", *flags, "--optimize", optimize, "--json")))
    names = {}
    exec(found["source"], names)
    function = names[min((name for name in names if name.startswith("cube")), key=len)]
    np.testing.assert_allclose(function(np.array(x)), expected)
    assert found["signature"].startswith("x: float64[]")


def test_the_third_order_of_a_vector_is_a_nested_jacobian(folder):
    signature = json.loads(good(run("grad", "model.py:Model.loss", "--order", "3", "--json")))["signature"]
    assert signature == "x: float64[n] -> float64[n, n, n]"


def test_hvp_takes_a_vector_like_the_argument(folder):
    found = json.loads(good(run("grad", "model.py:loss", "--spec", SPEC, "--hvp", "--wrt", "w,y", "--json")))
    assert found["signature"].startswith("w: float64[d], X: float64[n, d], y: float64[n], ")
    assert (
        found["signature"].endswith("float64[d], float64[n] -> float64[d], float64[n]") or "vector" in found["source"]
    )
    code, _, err = run("grad", "model.py:loss", "--spec", SPEC, "--hvp", "--wrt", "nothing")
    assert code == 2 and "'nothing' is not one" in err


def test_trees_by_path(folder):
    spec = "params.W[0]=float64[3, 4], params['b']=float64[4]"
    out = good(run("grad", "model.py:layers", "--spec", spec, "--wrt", "params.W,params.b"))
    assert """params["W"][0]""" in out
    code, _, err = run("grad", "model.py:layers", "--spec", f"{spec}, params.W[0].x=float64[]")
    assert code == 2 and "given whole" in err
    code, _, err = run("grad", "model.py:layers", "--spec", "params.W[1]=float64[3, 4]")
    assert code == 2 and "from 0 on" in err


def test_values_are_part_of_the_program(folder):
    out = good(run("grad", "model.py:steps", "--spec", "count=2, mode='sum'"))
    assert out.count("np.cos(") == 2 and "/ n" not in out


def test_arrays_give_shapes_and_numbers(folder):
    np.savez("data.npz", w=np.ones(3), X=np.ones((5, 3)), y=np.zeros(5))
    np.save("y.npy", np.zeros(5, np.float32))
    Path("data.json").write_text(json.dumps({"params": {"W": [[[1.0] * 4] * 3, [1.0]], "b": [1, 2, 3, 4.5]}}))
    assert "float64[5, 3]" in good(run("grad", "model.py:loss", "--like", "data.npz"))
    assert "y: float32[5]" in good(run("grad", "model.py:loss", "--like", "data.npz", "--like", "y=y.npy"))
    assert "float64[3, 4]" in good(run("grad", "model.py:layers", "--like", "data.json"))
    assert "X: float64[n, 3]" in good(
        run("grad", "model.py:loss", "--like", "data.npz", "--spec", "X=float64[n, 3], y=float64[n]")
    )


def test_a_module_by_its_dotted_name(folder):
    package = folder / "bend"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text("import numpy as np\n\n\ndef square(x):\n    return np.sum(x ** 2)\n")
    (package / "model.py").write_text(
        "from .tools import square\n\n\ndef loss(x: 'float64[n]'):\n    return square(x)\n"
    )
    by_name, by_file = (good(run("grad", target)) for target in ("bend.model:loss", "bend/model.py:loss"))
    assert by_name == by_file and "model.py:4" in by_name


def test_save_writes_what_runs_and_guards_other_files(folder):
    out = good(run("grad", "model.py:annotated", "--value", "-o", "annotated_grad.py"))
    assert out.startswith("annotated_grad.py: w: float64[3], X: float64[n, 3] -> float64[], float64[3]")
    names = {"__name__": "annotated_grad", "__file__": "annotated_grad.py"}
    exec(Path("annotated_grad.py").read_text(), names)
    value, gradient = names["annotated_value_and_grad"](np.zeros(3), np.ones((2, 3)))
    np.testing.assert_allclose([value, *gradient], [0, 2, 2, 2])
    code, _, err = run("grad", "model.py:cube", "-o", "model.py")
    assert code == 2 and "symgrad did not write it" in err and Path("model.py").read_text() == MODEL
    Path("annotated_grad.py").write_text(Path("annotated_grad.py").read_text() + "# mine\n")
    code, _, err = run("grad", "model.py:annotated", "-o", "annotated_grad.py")
    assert code == 2 and "was edited" in err and "# mine" in Path("annotated_grad.py").read_text()
    assert good(run("grad", "model.py:annotated", "-o", "annotated_grad.py", "--force"))
    assert good(run("grad", "model.py:cube", "-o", "annotated_grad.py"))
    code, _, err = run("grad", "model.py:cube", "-o", "nowhere/x.py")
    assert code == 2 and "no folder nowhere" in err


# ---- graph, check, bench, info


def test_graph_lists_and_draws(folder):
    assert "derivative" in good(run("graph", "model.py:cube", "--stage", "traced"))
    for name in ("g.svg", "g.dot", "g.md", "g.mmd", "g.html", "g.json"):
        for _ in range(2):  # what symgrad wrote may be written again
            out = good(run("graph", "model.py:cube", "-o", name))
        assert out.startswith(f"{name}: ") and Path(name).read_text()
    assert sg.Compiled(sg.from_json(Path("g.json").read_text()))(2.0) == 12.0
    Path("g.json").write_text("{}")
    code, _, err = run("graph", "model.py:cube", "-o", "g.json")
    assert code == 2 and "did not write it" in err
    code, _, err = run("graph", "model.py:cube", "-o", "g.png")
    assert code == 2 and ".svg" in err


def test_graph_is_coloured_by_a_profile(folder):
    for kind in ("--value", "--hvp"):
        good(run("graph", "model.py:loss", "--spec", SPEC, kind, "--profile", "--size", "n=7", "-o", "g.html"))
        assert '"timed":true' in Path("g.html").read_text()
    good(run("graph", "model.py:loss", "--spec", SPEC, "-o", "g.html"))
    assert '"timed":false' in Path("g.html").read_text()
    for wrong in ((), ("-o", "g.json"), ("-o", "g.svg", "--stage", "traced")):
        code, _, err = run("graph", "model.py:cube", "--profile", *wrong)
        assert code == 2 and "the picture of a compiled program" in err


def test_check_says_right_and_wrong(folder):
    assert "all agree" in good(run("check", "model.py:loss", "--spec", SPEC))
    found = json.loads(good(run("check", "model.py:loss", "--spec", SPEC, "--wrt", "w", "--order", "1", "--json")))
    assert [row["argument"] for row in found["rows"]] == ["w", "w"] and found["right"] is True
    code, out, _ = run("check", "bent.py:loss")
    assert code == 2
    (folder / "bent.py").write_text(BENT)
    code, out, _ = run("check", "bent.py:loss", "--order", "1")
    assert code == 1 and "WRONG" in out and "\x1b" not in out


BENT = """
import numpy as np
import symgrad as sg

bent = sg.operator(lambda x: np.sin(x), name="bent", infer=lambda x: x, vjp=lambda g, y, x: (g * np.cos(x) * 1.001,),
                   batch=lambda batched, x: bent(x))


def loss(x: "float64[n]"):
    return np.sum(bent(x))
"""


@pytest.fixture(autouse=True)
def operators():
    with operators_go_again():
        yield


def test_check_makes_numbers_in_the_domain_and_takes_given_ones(folder):
    assert "all agree" in good(run("check", "model.py:rooted", "--order", "1", "--size", "n=7"))
    np.savez("data.npz", x=np.array([2.0, 3.0]))
    found = json.loads(good(run("check", "model.py:rooted", "--like", "data.npz", "--order", "1", "--json")))
    assert found["rows"][0]["of"] == 2
    wrong = [("m=3", "no size 'm'"), *((size, "is not a size") for size in ("n=x", "n=-3", "n=inf"))]
    for size, said in wrong:
        code, _, err = run("check", "model.py:rooted", "--size", size)
        assert code == 2 and said in err
    Path("cut.npz").write_bytes(Path("data.npz").read_bytes()[:200])
    code, _, err = run("check", "model.py:rooted", "--like", "cut.npz")
    assert code == 2 and "cut.npz cannot be read" in err
    Path("text.npz").write_text("x = 1")
    code, _, err = run("check", "model.py:rooted", "--like", "text.npz")
    assert code == 2 and "text.npz cannot be read: it is no file of NumPy's\n" in err


def test_bench_measures_at_sizes(folder):
    found = json.loads(
        good(run("bench", "model.py:annotated", "--size", "n=5", "--size", "n=9", "--rounds", "1", "--json"))
    )
    assert [row["arguments"] for row in found["rows"]] == ["w: 3, X: 5x3", "w: 3, X: 9x3"]
    assert all(set(row["seconds"]) == {"symgrad", "function"} for row in found["rows"])
    assert "x function" in good(run("bench", "model.py:cube", "--hessian", "--rounds", "1"))
    code, _, err = run("bench", "model.py:cube", "--against", "nothing")
    assert code == 2 and "autograd, jax" in err


@pytest.mark.parametrize("peer", PEERS)
def test_bench_runs_the_model_with_the_numpy_of_others(folder, peer):
    pytest.importorskip(peer)
    command = ["bench", "model.py:annotated", "--value", "--against", peer, "--rounds", "1", "--json"]
    found = json.loads(good(run(*command)))
    assert found["rows"][0]["agree"] is True and found["rows"][0]["seconds"][peer] > 0
    code, _, err = run("bench", "model.py:annotated", "--hvp", "--against", peer)
    assert code == 2 and f"no comparison with {peer} of hvp" in err
    (folder / "own.py").write_text(WRITES)
    code, _, err = run("bench", "own.py:f", "--against", peer)
    assert code == 2 and f"{peer} cannot run own.py:f" in err


WRITES = """
import numpy as np


def f(x: "float64[3]"):
    y = np.zeros(3)
    y[0] = x[0]
    return np.sum(y)
"""


def test_info_has_no_path():
    found = json.loads(good(run("info", "--json")))
    assert found["symgrad"] == sg.__version__ and found["numpy"] == np.__version__
    assert not re.search(r"[/\\]\w+[/\\]", json.dumps(found))


# ---- arguments


def test_entries_are_read_at_commas_outside_of_brackets():
    found = parse_entries("w=float64[d, 2], steps = 10,mode='a, b', t=(1, 2.5)")
    assert str(found.pop("w")) == "float64[d, 2]"
    assert found == {"steps": 10, "mode": "a, b", "t": (1, 2.5)}


class Float64:
    """A class like jaxtyping's: it says a dtype and sizes."""

    dtypes, dim_str = ("float64",), "n rows=3"


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        ("float64[n, d]", "float64[n, d]"),
        ("'float64[n, d]'", "float64[n, d]"),  # under `from __future__ import annotations`
        ('Float64[Array, "n d"]', "float64[n, d]"),
        ('Float[np.ndarray, "n 2*d"]', "float64[n, 2*d]"),
        ('jaxtyping.Float32[Array, ""]', "float32[]"),
        ('Int[Array, "batch=4 _"]', "int64[4, _]"),
        ('Bool[Array, "n"]', "bool[n]"),
        (Float64, "float64[n, 3]"),
        ("NDArray[np.float64]", None),
        ('dict[str, "n"]', None),
        ("float", None),
        (float, None),
        (inspect.Parameter.empty, None),
        ("no annotation at all", None),
    ],
)
def test_annotations_that_say_a_shape(annotation, spec):
    assert annotation_spec(annotation) == spec


def test_an_annotation_with_an_open_number_of_axes_is_refused():
    with pytest.raises(ArgumentError, match="leaves open"):
        annotation_spec('Float[Array, "*batch n"]')


def annotated(x, steps: int, mode: str):  # where annotations are text
    return x


def test_arguments_meet_their_parameters():
    def f(a, /, b, c=1.0, *, d, e=2.0):
        return a + b + c + d + e

    call = call_of(f, parse_entries("a=1, b=2, d=4, e=5"))
    assert call == ((1, 2), {"d": 4, "e": 5})
    with pytest.raises(ArgumentError, match="no shape for b, d"):
        call_of(f, {"a": 1})
    with pytest.raises(ArgumentError, match="no argument 'bb'"):
        call_of(f, {"bb": 1})
    with pytest.raises(ArgumentError, match=r'"x=float64\[d\], steps=3, mode=\'text\'"'):
        call_of(annotated, {})

    def mistyped(y: "flot64[n]"):  # noqa: F821
        return y

    with pytest.raises(ArgumentError, match=r"y: 'flot64\[n\]' is not a spec"):
        call_of(mistyped, {})
    call = call_of(lambda x, y=1, z=2: 0, {"x": 1, "z": 3})
    assert call == ((1,), {"z": 3})
    assert call_of(lambda *xs: 0, parse_entries("xs[0]=1, xs[1]=2")) == ((1, 2), {})


# ---- errors


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["grad", "nofile.py:f"], "there is no file nofile.py"),
        (["grad", "modle.py:loss"], "Did you mean 'model.py'?"),
        (["grad", "model.py"], "Write model.py:loss"),
        (["grad", "model.py:los"], "Did you mean 'loss'?"),
        (["grad", "model.py:"], "Write model.py:loss"),
        (["grad", "model.py:number"], "is an int, not a function"),
        (["grad", "model.py:Model"], "is a class, not a function\n  Its functions are Model.loss, Model.depth."),
        (["graph", "model.py:cube", "-o", "cube.png"], "Choose from .svg, .dot, .gv, .mmd, .md, .html, .htm, .json."),
        (["grad", "model.py:Model.depth"], "Model.depth is a method, and has no instance"),
        (["grad", "model.py:cube", "-o", "model.py"], "--force"),
        (["grad", "nomodule.at.all:f"], "there is no module nomodule.at.all"),
        (["grad", "notes.ipynb:f"], "notes.ipynb is a notebook, which is not read"),
        (["grad", ".:f"], ". is neither a file that ends in .py nor a module"),
        (["grad", "model.py:slow", "-o", "."], "'.' is the name of neither a Python module nor a C file"),
        (["grad", "model.py:slow", "-o", "nowhere/slow.py"], "there is no folder nowhere"),
        (["verify", "."], "'.' cannot be read: Is a directory"),
        (["grad", "model.py:loss"], '--spec "w=float64[d], X=float64[n], y=float64[n]"'),
        (["grad", "model.py:loss", "--spec", "w"], "gives no argument"),
        (["grad", "model.py:loss", "--spec", "q=float64[]"], "no argument 'q'"),
        (["grad", "model.py:loss", "--spec", "w=flaot64[3]"], "there is no dtype 'flaot64'"),
        (["grad", "model.py:cube", "--wrt", "y"], "no argument and no value"),
        (["grad", "model.py:cube", "--argnums", "a"], "numbers by commas"),
        (["grad", "model.py:cube", "--order", "0"], "count from 1"),
        (["grad", "model.py:cube", "--threads", "0"], "threads=0"),
        (["grad", "model.py:cube", "--like", "nothing.npz"], "there is no file nothing.npz"),
        (["grad", "model.py:cube", "--like", "model.py"], "not a file of arrays"),
        (["grad", "model.py:several"], "use jacobian"),
        (["grad", "model.py:wrong"], "not today\n  at model.py:27"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_errors_are_one_message(folder, argv, said):
    code, out, err = run(*argv)
    assert code == 2 and out == "" and said in err and "Traceback" not in err
    assert err.startswith(("symgrad: ", "a model may print"))
    code, out, err = run("--json", *argv)
    assert code == 2 and said in json.loads(out)["error"]["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(x:\n", "broken.py:1"),
        ("x = 1\0\n", "null bytes, in broken.py"),
        ("import nothing_of_that_name\n", "at broken.py:1: import nothing_of_that_name"),
        ("\n1 / 0\n", "ZeroDivisionError: division by zero\n  at broken.py:2"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0\n  at broken.py:2"),
    ],
)
def test_a_model_that_cannot_be_imported(folder, text, said):
    (folder / "broken.py").write_text(text)
    code, out, err = run("--json", "grad", "broken.py:f")
    assert code == 2 and said in err and "Traceback" not in err
    assert json.loads(out)["error"]["kind"] == "model"


@pytest.mark.parametrize("command", [("check", "--order", "1"), ("bench", "--rounds", "1")])
def test_what_a_model_prints_is_not_in_the_document(folder, command):
    name, *flags = command
    (folder / "talking.py").write_text(
        "import numpy as np\ndef f(x: 'float64[3]'):\n    print('hello')\n    return np.sum(x * x)\n"
    )
    code, out, err = run(name, "talking.py:f", *flags, "--json")
    assert code == 0 and json.loads(out) and "hello" in err


def test_a_letter_that_the_output_does_not_have_is_told(folder):
    """Pipes of Windows are in cp1252."""
    (folder / "greek.py").write_text("def f(λ: 'float64[]'):\n    return λ * λ\n", "utf-8")
    words = [sys.executable, "-m", "symgrad", "--json", "grad", "greek.py:f"]
    found = subprocess.run(words, env={**os.environ, "PYTHONIOENCODING": "cp1252"}, capture_output=True)
    assert found.returncode == 2 and json.loads(found.stdout)["error"]["kind"] == "error"
    assert rb"the output is in cp1252, which has no '\u03bb'" in found.stderr and b"PYTHONUTF8" in found.stderr


def test_a_bug_of_symgrad_says_so(folder, monkeypatch):
    monkeypatch.setattr(writer, "emit", None)
    code, out, err = run("--json", "grad", "model.py:cube")
    assert code == 2 and json.loads(out)["error"]["kind"] == "bug" and "not callable" in err and "Traceback" not in err
    code, out, err = run("--traceback", "grad", "model.py:cube")
    assert code == 2 and "Traceback" in err


def test_usage_errors_exit_with_2():
    for argv in (
        [],
        ["nothing"],
        ["grad"],
        ["grad", "m.py:f", "--value", "--hessian"],
        ["grad", "m.py:f", "--optimize", "3"],
    ):
        code, out, err = run(*argv)
        assert code == 2 and out == "" and "usage:" in err


def test_ctrl_c_is_quiet(folder, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "emit", interrupted)
    assert run("grad", "model.py:cube")[0] == 130


@pytest.mark.slow
@pytest.mark.parametrize("to", ["| true", ">&-"], ids=["pipe", "output"])
def test_what_is_closed_is_quiet(folder, to):
    command = f'"{sys.executable}" -m symgrad grad model.py:cube'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(["sh", "-c", f"{command} {to}"], stderr=subprocess.PIPE, text=True, cwd=folder, env=env)
    assert process.communicate()[1] in ("", "a model may print when it is imported\n")


def test_colour_only_at_a_terminal(monkeypatch):
    from symgrad.cli.output import paint

    class Terminal:
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("no", "red", Terminal()) == "\x1b[31mno\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("no", "red", Terminal()) == "no"


def test_a_mistyped_command_is_named(capsys):
    assert main(["chekc", "model.py:loss"]) == 2
    assert capsys.readouterr().err.endswith("Did you mean 'check'?\n")
    assert main(["check", "model.py:loss", "--mode", "fwdd"]) == 2
    assert capsys.readouterr().err.endswith("Did you mean 'fwd'?\n")
    assert main(["zzz"]) == 2 and "Did you mean" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_shell_is_told_what_could_stand_there(tmp_path):
    pytest.importorskip("argcomplete")
    answers = tmp_path / "answers"
    for typed, expected in (("symgrad ch", "check"), ("symgrad grad model.py:loss --hess", "--hessian")):
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": typed, "COMP_POINT": str(len(typed)), "COMP_TYPE": "9"}
        asked["_ARGCOMPLETE_STDOUT_FILENAME"] = str(answers)
        subprocess.run([sys.executable, "-m", "symgrad"], cwd=ROOT, env={**os.environ, **asked}, check=False)
        assert answers.read_text().strip() == expected


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.usefixtures("usual_sizes")
def test_a_terminal_shows_the_runtime_folded(folder):
    def printed(*flags, to):
        with contextlib.redirect_stdout(to):
            assert main(["grad", "models.py:cost", "--optimize", "2", *flags]) == 0
        return to.getvalue()

    (folder / "models.py").write_text(
        "import numpy as np\ndef cost(c: 'float64[20, 3]', x: 'float64[n, 3]'):\n"
        "    return np.sum(np.min(np.sum((x[:, None] - c) ** 2, axis=2), axis=1))\n"
    )
    whole = printed(to=io.StringIO())
    assert "def _rows_of_block" in whole and printed("--full", to=Terminal()) == whole
    folded = printed(to=Terminal())
    assert re.search(r"\n# \+ \d+ lines of runtime; --full shows them, -o saves the module\n$", folded)
    assert whole.startswith(folded[: folded.rindex("\n\n\n#")])


def test_options_stand_before_or_behind_the_command(folder):
    assert good(run("--json", "info")) == good(run("info", "--json"))
    assert parser().parse_args(["info"]).json is False


# ---- diff


def test_diff_of_saved_files_and_of_functions(folder):
    good(run("grad", "model.py:annotated", "--value", "-o", "old.py"))
    (folder / "model.py").write_text(MODEL.replace("np.tanh(X @ w)", "np.sin(X @ w)"))
    good(run("grad", "model.py:annotated", "--value", "-o", "new.py"))
    assert run("diff", "old.py", "old.py")[0] == 0
    code, out, _ = run("diff", "old.py", "new.py")
    assert code == 1 and "np.sin" in out and "tanh" in out
    (folder / "before.py").write_text(MODEL)
    code, out, _ = run("diff", "before.py:annotated", "model.py:annotated", "--json")
    assert code == 1 and json.loads(out)["differ"] is True
    assert run("diff", "before.py:cube", "model.py:cube", "--order", "2")[0] == 0


@pytest.mark.parametrize(
    "loss",
    [
        "np.sum((x[1:] - x[:-1]) ** 2)",
        "x[0] ** 2 + np.sum(x ** 2) * x[1] - np.exp(x[-1])",
        "np.sum(x[[0, 2, 0]] ** 3) + np.sum(x[2:] ** 3 * x[:-2])",
    ],
)
def test_a_saved_file_is_its_model_where_parts_are_added_in_place(folder, loss):
    (folder / "parts.py").write_text(f'import numpy as np\n\ndef loss(x: "float64[n]"):\n    return {loss}\n')
    good(run("grad", "parts.py:loss", "-o", "old.py"))
    code, out, _ = run("diff", "parts.py:loss", "old.py")
    assert code == 0, out


def test_diff_of_a_file_with_loops_says_what_to_do(folder):
    classes = "X @ W - np.log(np.sum(np.exp(X @ W), axis=1, keepdims=True))"
    source = f"import numpy as np\n\ndef loss(W, X):\n    return np.sum(np.tanh({classes}) ** 2)\n"
    (folder / "loops.py").write_text(source)
    sizes = "W=float64[20, 10], X=float64[n, 20]"
    good(run("grad", "loops.py:loss", "--spec", sizes, "--optimize", "2", "-o", "old.py"))
    code, _, err = run("diff", "old.py", "old.py")
    assert code == 2 and "Save it with optimize=1" in err
    code, _, err = run("diff", "model.py:cube", "nowhere.py")
    assert code == 2 and "cannot be read" in err
