"""Saved modules: what they say of themselves, how they check themselves, and how they are loaded."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import typing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError
from symgrad.export.manifest import FORMAT, KEYS, _relative, is_as_written, read_manifest
from symgrad.export.origin import hash_of
from symgrad.export.vectors import NoVectorsError, _rounded, vectors_of
from tests import selftests
from tests.folders import ROOT

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
    manifest = read_manifest(program.save(tmp_path / "out" / "saved.py"))
    assert len(manifest.pop("text")) == 64  # a SHA-256; see the next test
    assert manifest == {
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


def manifest_of(program, folder):
    return read_manifest(program.save(folder / "saved.py"))


def test_transforms_that_nest_are_all_in_the_manifest(tmp_path):
    loss = imported(tmp_path, LOGISTIC).loss
    nested = sg.jacobian(sg.grad(loss, wrt="w", optimize=1, disconnected="zero"), mode="fwd")
    found = manifest_of(nested.compile("float64[2]", "float64[3, 2]", "float64[3]"), tmp_path)
    assert found["transform"] == [("jacobian", {"mode": "fwd"}), ("grad", {"wrt": "w"})]
    assert found["model"]["name"] == "loss"


def test_trees_and_values_that_are_part_of_the_program(tmp_path):
    def f(p, mode, *, scale=1.0):
        return {"mean": getattr(np, mode)(p["x"] * scale), "n": p["x"].shape[0], "mode": mode}

    found = manifest_of(sg.compile(f).compile({"x": "float32[n]", "y": [1, "float64[]"]}, "mean", scale=2.0), tmp_path)
    assert found["arguments"] == {
        "p": {"x": "float32[n]", "y": [("static", 1), "float64[]"]},
        "mode": ("static", "mean"),
        "scale": "float",
    }
    assert found["results"] == {"mean": "float32[]", "n": "int", "mode": ("static", "mean")}
    assert "transform" in found["reasons"]  # nobody finds a local function again


class Model:
    def __init__(self, table):
        self.table = table

    def loss(self, x):
        return np.sum(self.table * x)


class Pair(NamedTuple):
    a: object
    b: object


@sg.grad
def decorated(x):
    return np.sum(np.sin(x))


def by_hand():
    x = sg.Graph().input("x", "float64[n]")
    return sg.function([x], np.sin(x))


@pytest.mark.parametrize(
    ("make", "transform", "reasons"),
    [
        (lambda: sg.grad(Model(2.0).loss).compile("float64[n]"), None, {"transform"}),
        (lambda: sg.grad(lambda x: np.sum(x)).compile("float64[n]"), None, {"transform"}),
        (lambda: sg.grad(np.sum).compile("float64[n]"), [("grad", {})], set()),
        (lambda: sg.grad(np.sin).compile("float64[]"), [("grad", {})], set()),
        (lambda: decorated.compile("float64[n]"), [("grad", {})], set()),
        (by_hand, None, {"model", "transform"}),
    ],
    ids=["method", "lambda", "numpy", "ufunc", "decorator", "graph"],
)
def test_what_could_not_be_made_again_has_a_reason(make, transform, reasons, tmp_path):
    found = manifest_of(make(), tmp_path)
    assert found["transform"] == transform
    assert set(found["reasons"]) - {"model"} == reasons - {
        "model"
    }  # the tests may share no folder with a temporary one


def test_no_path_begins_at_the_root():
    assert _relative(Path("/a/b/model.py"), Path("/a/c")) == "../b/model.py"
    assert _relative(Path("/a/model.py"), Path("/b")) is None


def test_a_file_that_changed_since_it_was_imported_has_no_hash(tmp_path):
    loss = imported(tmp_path, LOGISTIC).loss
    for text, known in ((LOGISTIC + "\nx = 1\n", True), ("# moved\n" + LOGISTIC, False), ("def", False)):
        (tmp_path / "model.py").write_text(text)
        found = manifest_of(sg.grad(loss).compile(*SPECS), tmp_path)
        assert (found["model"]["sha256"] is not None, "sha256" not in found["reasons"]) == (known, known)


def test_the_hash_is_of_the_model_and_of_what_it_reads():
    line = 1 + LOGISTIC.splitlines().index("def loss(w, X, y):")
    before = hash_of(LOGISTIC, "loss")
    assert hash_of(LOGISTIC, line) == hash_of(LOGISTIC.replace("return x\n", "return -x\n"), "loss") == before
    for old, new in (
        ("SCALE = 1.0", "SCALE = 2.0"),
        ("np.log(1 +", "np.log(2 +"),
        ("-y *", "y *"),
        ("as np", "as  np"),
    ):
        assert LOGISTIC.count(old) == 1
        assert hash_of(LOGISTIC.replace(old, new), "loss") != before
    assert hash_of(LOGISTIC, "nothing") is None


def test_a_program_sent_to_another_process_knows_its_model(tmp_path):
    program = decorated.compile("float64[n]")
    sent = pickle.loads(pickle.dumps(program))
    assert sent.save(tmp_path / "b.py").read_text() == program.save(tmp_path / "a.py").read_text()


@pytest.mark.slow
def test_saved_text_is_the_same_in_every_process(tmp_path):
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "tests.selftests", str(tmp_path / seed), "tree", "threads", "table"]
        subprocess.run(command, check=True, env=env, cwd=ROOT)
    texts = [{p.name: p.read_bytes() for p in sorted((tmp_path / seed).iterdir())} for seed in ("1", "2")]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 4  # a file of constants, too


# ---- type hints


def test_type_hints_are_those_of_arguments_and_results(tmp_path):
    def f(net, x, i, t, *more, flag, **named):
        return net[0][0] @ x, {"t": t, "none": None}, [x, x], flag

    net = [("float32[n, n]", "float32[]")]
    program = sg.compile(f).compile(net, "float32[n]", "int64[]", 1.5, "float64[n]", flag=True, a="bool[n]")
    hints = typing.get_type_hints(sg.load(program.save(tmp_path / "saved.py")).function)
    array = np.typing.NDArray
    assert hints == {
        "net": list[tuple[array[np.float32], np.float32]],
        "x": array[np.float32],
        "i": np.int64,
        "t": float,
        "more": array[np.float64],
        "flag": bool,
        "named": array[np.bool],
        "return": tuple[array[np.float32], dict[str, typing.Any], list[array[np.float32]], bool],
    }


def test_a_file_knows_whether_it_was_edited(tmp_path):
    text = sg.grad(np.sin).compile(0.0).save(tmp_path / "slope.py").read_text()
    assert is_as_written(text)
    assert is_as_written(text.replace("\n", "  \n\n"))  # blank lines do not matter
    for edited in (
        text.replace("cos", "sin"),
        text + "# mine\n",
        text.replace('"text"', '"texts"'),
        "x = 1\n",
        "x = )",
    ):
        assert edited != text and not is_as_written(edited)


def test_where_a_file_cannot_be_written_is_told(tmp_path):
    program = sg.compile(np.sin).compile("float64[n]")
    with pytest.raises(ArgumentError, match="there is no folder"):
        program.save(tmp_path / "nowhere" / "saved.py")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(OSError) as raised:
        program.save(tmp_path / "folder.py", overwrite=True)
    assert raised.value.filename == str(tmp_path / "folder.py")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.py"]


# ---- loading


def test_a_loaded_module_is_its_function(tmp_path):
    program = sg.value_and_grad(imported(tmp_path, LOGISTIC).loss).compile(*SPECS)
    loaded = sg.load(program.save(tmp_path / "saved.py"))
    arguments = np.array([0.5, -1.0]), np.ones((3, 2)), np.array([1.0, -1.0, 1.0])
    np.testing.assert_array_equal(loaded(*arguments)[1], program(*arguments)[1])
    assert loaded.signature == program.signature
    assert loaded.manifest == read_manifest(tmp_path / "saved.py")
    assert loaded.selftest()


WHOLE = {"format": 1, **dict.fromkeys(KEYS), "function": "f", "signature": "", "tolerance": 0.1}
WHOLE |= {"model": {}, "options": {}, "reasons": {}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "'saved.py' cannot be read"),
        ("x = 1\n", "'saved.py' has no __symgrad__"),
        ("def f(x:\n", "saved.py, line 1 is not Python"),
        ("__symgrad__ = {'format': 2}\n", "written by a newer symgrad: its format is 2, this symgrad reads 1"),
        ("__symgrad__ = dict(format=1)\n", "has a __symgrad__ that is not a manifest"),
        ("__symgrad__ = {'format': 1, 'function': 'f'}\n", "has lost signature, model, "),
        (f"__symgrad__ = {WHOLE}\n", "has no function 'f'"),
        (f"__symgrad__ = {WHOLE | {'function': None, 'model': 5}}\n", "has function = None, model = 5"),
        ("__symgrad__ = {[]: 1}\n", "has a __symgrad__ that is not a manifest"),
        (f"x = {'-' * 200_000}1\n", "is not Python: it nests too deeply"),
        (f"__symgrad__ = {WHOLE}\ny = x\n", "fails while it is loaded: NameError"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_words(text, message, tmp_path):
    path = tmp_path / "saved.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ArgumentError, match=message):
        sg.load(path)


# ---- the self-test


def test_a_function_may_have_the_name_of_what_the_command_imports(tmp_path):
    path = (
        sg.compile(imported(tmp_path, "def sys(x):\n    return x * x\n").sys)
        .compile("float64[n]")
        .save(tmp_path / "s.py")
    )
    assert as_a_command(path, "--selftest")[0] == 0


def halved(x):
    while abs(x) > 1:
        x = x / 2
    return x


def test_a_saved_module_takes_numbers_of_pythons(tmp_path):
    """The number that it is given may be the result."""
    sg.compile(halved).compile("float64[]").save(tmp_path / "given.py")
    module = imported(tmp_path, (tmp_path / "given.py").read_text(encoding="utf-8"), "given")
    for x in (0.5, 3.0, np.float64(0.5), np.array(0.5)):
        found = module.halved(x)
        assert found == halved(x)
        assert type(found) is np.float64


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return {name: make().save(folder / f"{name}.py") for name, make in selftests.PROGRAMS.items()}


@pytest.mark.parametrize("name", selftests.PROGRAMS)
def test_saved_modules_pass_their_self_test(name, saved):
    found = sg.load(saved[name]).selftest()
    assert found and len(found.errors) >= 2


FAULTS = (
    *(("math.", "-math."), ("np.sin(", "np.cos("), ("np.exp(", "np.expm1(")),
    ("np.tanh(", "np.sin("),
    *((" @ ", " * 2 @ "), (" * ", " / "), ("* ", "/ ")),
)
NO_CODE = ("#", "def ", "if ", "raise ", "import ", "from ", "@", '"')


def with_a_fault(source):
    """The module with the first fault that its function has room for."""
    lines = source.partition("\n__symgrad__")[0].splitlines()
    for old, new in FAULTS:
        for line in lines:
            code = line.partition("  # ")[0]
            if old in code and not line.lstrip().startswith(NO_CODE):
                return source.replace(code, code.replace(old, new, 1), 1)
    raise AssertionError("no fault fits")


@pytest.mark.parametrize("name", selftests.PROGRAMS)
def test_faults_fail_the_self_test(name, saved, tmp_path):
    edited = tmp_path / saved[name].name
    edited.write_text(with_a_fault(saved[name].read_text()))
    for constants in saved[name].parent.glob(f"{name}.*.npz"):
        (tmp_path / constants.name).write_bytes(constants.read_bytes())
    loaded = sg.load(edited)
    try:
        passed = bool(loaded.selftest())
    except (TypeError, ValueError):  # shapes or dtypes that no longer fit
        passed = False
    assert not passed


def test_the_command(saved, tmp_path):
    code, out = as_a_command(saved["logistic"], "--selftest")
    assert (code, out.splitlines()[-1]) == (0, "passed")
    assert out == f"{sg.load(saved['logistic']).selftest()}\n"
    code, out = as_a_command(saved["logistic"])
    assert code == 0
    assert "w: float64[d], X: float64[n, d], y: float64[n] -> float64[], float64[d]" in out
    assert as_a_command(saved["logistic"], "--selftests")[0] == 2
    text = saved["logistic"].read_text()
    edited = tmp_path / "edited.py"
    edited.write_text(text.replace("d_w = ", "d_w = -1 * "))
    code, out = as_a_command(edited, "--selftest")
    assert code == 1
    assert "relative error 2.0e+00" in out and "FAILED: 4e-10 is allowed" in out
    edited.write_text(text.replace("d_w = ", "d_w = 1 * "))
    assert as_a_command(edited, "--selftest")[0] == 0


def test_several_blocks_are_tested(saved, tmp_path, request):
    if request.config.getoption("--blocks"):
        pytest.skip("all are small, and of several blocks")
    source = saved["threads"].read_text()
    (line,) = [line for line in source.splitlines() if "j = min(i + " in line]
    edited = tmp_path / "threads.py"
    edited.write_text(source.replace(line, line.replace("stop)", "stop) - (start > 0)")))
    errors = dict(sg.load(edited).selftest().errors)
    assert sorted(error > 1e-9 for error in errors.values()) == [False, False, True]


@pytest.mark.parametrize(
    ("f", "specs"),
    [
        (lambda x, p: np.sum(np.arccosh(x)) + np.sum(np.log(p * (1 - p))), ("float64[n]", "float64[m]")),
        (lambda K: np.sum(np.log(np.diag(np.linalg.cholesky(K)))), ("float64[n, n]",)),
        (lambda t, i: np.sum(np.sin(t[i])), ("float64[2]", "int64[n]")),
        (lambda x: np.sum(np.sqrt(x[2:] - x[:-2])), ("float64[n]",)),
        (lambda x, y: np.sum(x[: y.shape[0]] * y), ("float64[n]", "float64[m]")),
        (lambda x, y: np.sum(x) * np.sum(y), ("float64[n]", "float64[2*n + 1]")),
        (lambda x, y: np.sum(x * y), ("longdouble[n]", "float32[n]")),
        (lambda x: np.sin(x), (np.array(0.5),)),
        (lambda x: np.sin(x), ("float32[]",)),
        (lambda x, *, k: x * k, (1.5,)),
        (lambda: np.arange(3) * 2.0, ()),
    ],
)
def test_numbers_are_found_in_the_domain(f, specs, tmp_path):
    keywords = {"k": "float64[3]"} if f.__kwdefaults__ or f.__code__.co_kwonlyargcount else {}
    program = sg.compile(f).compile(*specs, **keywords)
    loaded = sg.load(program.save(tmp_path / "saved.py"))
    assert loaded.selftest()


def test_a_range_for_one_argument_and_another_for_the_other():
    """In no one range are both: the second candidate of the second kind."""
    a = sg.compile(lambda x, y: np.sum(np.arccosh(x)) + np.sum(np.arcsin(y))).compile("float64[n]", "float64[m]")
    (first, *_) = vectors_of(a.program, a.graph, "f", lambda x, y: a(x, y))
    assert {(each.low, each.high) for each in first.ranges} == {(1.1, 3), (-1, 1)}


def test_arrays_that_are_part_of_the_program(tmp_path):
    f = sg.grad(lambda x, table: np.sum(table * np.sin(x)), static_argnames="table")
    path = f.compile("float64[3]", np.array([1.0, 2.0, 4.0])).save(tmp_path / "saved.py")
    assert read_manifest(path)["arguments"] == {"x": "float64[3]", "table": ("static",)}
    assert sg.load(path).selftest()


def test_expected_numbers_have_the_digits_that_matter():
    """Relative to the largest: the rest is another on another machine, and the file would be, too."""
    assert repr(_rounded([1.23456789012345, -1e-13], 4e-10)) == "[1.23456789012, 0.0]"
    assert _rounded([123456.789, 2j], 7e-5) == [123456.8, 2j]
    assert _rounded([0.0, 0.0], 4e-10) == [0.0, 0.0]
    assert _rounded([], 4e-10) == []


def test_a_function_that_is_not_its_graph_gets_no_vectors():
    """Its own numbers would hide that the compiler is wrong."""
    program = sg.compile(lambda x: np.sin(x)).compile("float64[n]")
    with pytest.raises(NoVectorsError, match="the function is off its graph by 1e-03"):
        vectors_of(program.program, program.graph, "f", lambda x: 1.001 * np.sin(x))


@pytest.mark.parametrize(
    ("f", "specs", "reason"),
    [
        (lambda x: np.sum(np.sin(x)), ("float64[3000, 3000]",), "one call computes .* too many for a test"),
        (lambda p: np.sum(p.a * p.b), (Pair("float64[n]", "float64[n]"),), "p has a Pair"),
        (lambda x: np.log(-np.sum(x**2)), ("float64[n]",), "all results are finite"),
        (lambda x: np.floor(1e17 * np.sin(1e8 * x)), ("float64[n]",), "do not hang on rounding"),
    ],
)
def test_where_there_are_no_vectors_the_module_says_why(f, specs, reason, tmp_path):
    path = sg.compile(f).compile(*specs).save(tmp_path / "saved.py")
    assert not sg.load(path).selftest()
    code, out = as_a_command(path, "--selftest")
    assert code == 1
    for text in (read_manifest(path)["reasons"]["vectors"], out):
        assert re.search(reason, text)


def test_nothing_is_kept_of_the_arrays_of_the_caller(tmp_path):
    secret = np.array([[1234.5678, 0.25], [8765.4321, 0.5]])
    program = sg.grad(lambda x: np.sum(np.sin(x) * x)).compile(secret)
    text = program.save(tmp_path / "saved.py").read_text()
    assert "1234.5" not in text and "8765.4" not in text
    assert list(tmp_path.iterdir()) == [tmp_path / "saved.py"]


def test_the_tolerance_is_that_of_the_coarsest_dtype(tmp_path):
    def tolerance(spec):
        return manifest_of(sg.compile(lambda x: np.sum(np.sin(x)) + 1.0).compile(spec), tmp_path)["tolerance"]

    assert [tolerance(f"float{bits}[n]") for bits in (16, 32, 64)] == [0.02, 7e-05, 4e-10]
    assert tolerance("int64[n]") == 4e-10


def test_a_module_that_has_lost_its_self_test_says_so(tmp_path):
    path = decorated.compile("float64[n]").save(tmp_path / "saved.py")
    path.write_text(path.read_text().partition("def _selftest")[0])
    loaded = sg.load(path)
    assert loaded(np.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match="has lost its self-test"):
        loaded.selftest()


def test_an_edited_file_is_not_lost(tmp_path):
    program, path = sg.grad(np.sin).compile(0.0), tmp_path / "slope.py"
    program.save(path)
    program.save(path)  # as symgrad wrote it
    edited = path.read_text().replace("np.cos(", "-np.sin(")
    path.write_text(edited)
    with pytest.raises(ArgumentError, match=r"'slope.py' was edited since symgrad wrote it\n.*\n.*overwrite=True"):
        program.save(path)
    assert path.read_text() == edited
    program.save(path, overwrite=True)
    assert path.read_text() != edited
