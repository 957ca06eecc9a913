"""Checks of the package as a whole: layers, public names, the cost of an import, and contents of files."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from tests.folders import ROOT

# From the ground up; a package stands on one floor. A module imports from its own floor and from lower ones, and never
# in a circle.
FLOORS = (
    "errors spelling core",
    "ops",
    "analysis",
    "frontend",
    "derivatives rewrite",
    "products control",
    "loops",
    "lowering",
    "targets",
    "pipeline",
    "compiler export report",
    "transforms",
    "implicit scale",
    "verification interchange show",
    "numpy symgrad",
    "cli",
    "__main__",
)
FLOOR = {module: floor for floor, modules in enumerate(FLOORS) for module in modules.split()}


PUBLIC = """
    grad value_and_grad vjp jvp jacobian jacrev jacfwd hessian hvp elementwise_grad compile stop_gradient name
    check_grads checkpoint trace options release_scratch spec Function Compiled Program to_scipy FlatFunction Saved load
    Graph Variable gradients function operator draw dprint pp to_sympy from_sympy on_gradient compare_grads diff verify
    Verdict to_json from_json cond switch while_loop fori_loop scan map associative_scan
    custom_vjp custom_jvp closure_convert debug_print root fixed_point minimize cg gmres odeint quad vmap split Plan
""".split()


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(tree):
    """Return all nodes of a tree, which are collected once for all tests."""
    return tuple(ast.walk(tree))


def statements(node):
    """Yield the statements in a tree; expressions, which are most of it, are passed over."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child
            yield from statements(child)


# ---- errors


def test_every_error_says_what_to_write_instead():
    silent = []
    for module, path in modules().items():
        for node in nodes(parsed(path)):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
            error = getattr(sg.errors, named, None) if named else None
            if isinstance(error, type) and issubclass(error, sg.errors.SymgradError) and len(node.args) < 2:
                silent.append(f"{module}:{node.lineno}")
    assert [place for place in silent if not place.startswith("core.graph:")] == []  # verify: a fault of symgrad itself
    assert len(silent) == 1


# ---- floors


@cache
def modules():
    """The files of the package by module name, without the leading ``symgrad.``."""
    found = {}
    for path in sorted((ROOT / "symgrad").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts[1:]) or "symgrad"] = path
    return found


def imports(path, known):
    """Return the modules of the package that a module imports, lazily or not.

    Imports that only a type checker reads do not count, nor those of an object's view in notebooks.
    """
    tree = parsed(path)
    left_out = {n for block in nodes(tree) if is_for_types(block) or is_view(block) for n in ast.walk(block)}
    found = set()
    for node in set(nodes(tree)) - left_out:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(full if short(full) in known else node.module for full in within)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {short(full) for full in found if full.split(".")[0] == "symgrad"}


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def is_view(node):
    return isinstance(node, ast.FunctionDef) and node.name in ("_repr_html_", "_repr_latex_")


def short(full):
    return full.removeprefix("symgrad.")


def floor(module):
    return FLOOR[module.split(".")[0]]


def test_every_module_has_a_floor():
    tops = {module.split(".")[0] for module in modules()}
    assert sorted(tops - set(FLOOR)) == [], "write the floor of these modules into FLOORS"
    assert sorted(set(FLOOR) - tops) == [], "these modules are gone"


@cache
def imports_of_modules():
    """Return the imports of each module."""
    return {module: imports(path, modules()) for module, path in modules().items()}


def test_a_module_imports_only_from_below():
    wrong = [
        f"{module} (floor {floor(module)}) imports {other} (floor {floor(other)})"
        for module, imported in imports_of_modules().items()
        for other in sorted(imported)
        if floor(other) > floor(module)
    ]
    assert wrong == []


def test_targets_find_no_aliases():
    """They ask the placement whose memory is whose."""
    imported = {m: each for m, each in imports_of_modules().items() if m.startswith("targets.")}
    assert [m for m, each in imported.items() if "analysis.aliases" in each] == []
    assert [m for m, each in imported.items() if "lowering.region_aliases" in each] == ["targets.numpy.scalars"]


def test_no_imports_in_a_circle():
    TopologicalSorter(imports_of_modules()).prepare()


def test_the_rule_of_floors_can_fail(tmp_path):
    (tmp_path / "lazy.py").write_text(
        "def f():\n    from symgrad.targets.numpy import body\n    import symgrad.compile\n"
    )
    assert imports(tmp_path / "lazy.py", modules()) == {"targets.numpy.body", "compile"}


# ---- operators are known by their entries

WRITING = {"call", "visible", "global_name", "refuse", "axis_tuple", "axis_index"}
"""Functions that put the name of an operator into source, a view or a message; an f-string does so, too."""

NAMES_WRITTEN = {
    "targets": "source",
    "core.listing": "graphs as text",
    "core.graph": "graphs in networkx",
    "interchange": "files",
    "compiler.pickling": "files",
    "compiler.doctor": "a message",
    "ops.define": "the names in files",
}
"""Packages where the name of an operator is read, with the kind of text that it is written into."""


def names_asked(tree):
    """The lines that read the name of an operator other than to write it."""
    writes = (n for n in nodes(tree) if isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Call) and is_writing(n)))
    written = {inner for n in writes for inner in ast.walk(n)}
    for node in set(nodes(tree)) - written:
        if isinstance(node, ast.Attribute) and node.attr in ("name", "path"):
            owner = node.value
            if getattr(owner, "attr", getattr(owner, "id", "")) == "op":
                yield node.lineno


def is_writing(node):
    return getattr(node.func, "attr", getattr(node.func, "id", "")) in WRITING


def test_nobody_asks_an_operator_for_its_name():
    """Facts that a pass needs of an operator are in its entry, see `Op`; for one operator ``is`` asks."""
    asked = [
        f"{module}:{line}"
        for module, path in modules().items()
        if not any(f"{module}.".startswith(f"{room}.") for room in NAMES_WRITTEN)
        for line in names_asked(parsed(path))
    ]
    assert asked == []


@pytest.mark.parametrize(
    "code", ["node.op.name in CHEAP", "KERNEL.get(x.op.name, 0.2)", "f(op.path)", "any(y.op.name == 'exp' for y in xs)"]
)
def test_asking_for_a_name_is_found(code):
    assert list(names_asked(ast.parse(code))) == [1]


@pytest.mark.parametrize("code", ["f'{node.op.name} of {x}'", "call(node.op.path, [x])", "op is SUM", "point.name"])
def test_writing_a_name_is_not_asking_for_it(code):
    assert list(names_asked(ast.parse(code))) == []


# ---- sizes that are hashed in conversion are those of the user's dicts and sets


def hashed_shapes(tree):
    """Yield the lines of sets and of keys of dicts that shapes are put into."""
    for node in ast.walk(tree):
        kinds = {ast.Set: "elts", ast.SetComp: "elt", ast.DictComp: "key"}
        keys = getattr(node, kinds[type(node)]) if type(node) in kinds else []
        for inner in (x for key in (keys if isinstance(keys, list) else [keys]) for x in ast.walk(key)):
            if isinstance(inner, ast.Attribute) and inner.attr in ("shape", "aval"):
                yield node.lineno
                break


def test_conversion_hashes_no_shapes():
    """A size that is hashed there is asked for its number, as by the user: the program would lose its symbol."""
    found = [
        f"{module}:{line}"
        for module, path in modules().items()
        if module.startswith("frontend.conversion.")
        for line in hashed_shapes(parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize("code", ["{x.shape for x in xs}", "{np.shape(x)[1:]: x for x in xs}", "{x.aval, y.aval}"])
def test_a_hashed_shape_is_found(code):
    assert [*hashed_shapes(ast.parse(code))] == [1]


# ---- what belongs to the process

STATE = {
    "compiler.code_reads._known": "a cache, by code",
    "compiler.compiled._serial": "names of files in linecache, which are the process's",
    "core.provenance._boundaries": "filled by the decorator `boundary`, as functions are defined",
    "core.provenance._codes": "a cache, by code, which `forget_code` empties",
    "core.tree._dataclasses": "classes are registered with optree, once for the process",
    "core.tree._registering": "the lock of that",
    "frontend.conversion.functions._known": "a cache, by code",
    "frontend.conversion.mutable._known": "a cache, by class",
    "frontend.conversion.contents._mentioned": "a cache, by code",
    "frontend.interception._exchanged": "traces of several threads exchange the same names of NumPy's",
    "frontend.interception._seen": "what stands for a function compares by identity",
    "interchange.reader._loaded": "names of files in linecache, which are the process's",
    "lowering.elements.RULES": "filled by `rule`, as the module is imported",
    "ops.create.CREATE": "filled by `creates`, as modules of ops are imported",
    "ops.define.PLACES": "filled by `implements_at`, for SciPy's functions as their module is imported",
    "ops.define.TABLE": "filled by `implements` and `operator`, as modules are imported",
    "ops.known._known": "a cache, by node",
    "ops.known._values": "a cache, by node",
    "ops.plugins._loaded": "a plug-in is imported once",
    "ops.scipy.distributions.DISTRIBUTIONS": "filled by `distribution`, as its module is imported",
    "targets.numpy.runtime._kept": "scratch memory, kept from call to call until `release_scratch`",
    "targets.numpy.runtime._warned": "what programs have warned of, by file, as Python keeps it by module",
}
"""Module-level values that change, and why they cannot belong to something smaller."""


def changing(tree):
    """Module-level names bound to what is there to be changed: empty containers, counters, locks, weak caches."""
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and value is not None and is_to_be_changed(value):
            yield (node.targets[0] if isinstance(node, ast.Assign) else node.target).id


def is_to_be_changed(value):
    if isinstance(value, ast.Call):
        made = getattr(value.func, "attr", getattr(value.func, "id", ""))
        empty = made in ("dict", "list", "set", "defaultdict", "deque") and not value.args
        return empty or made in ("count", "Lock", "RLock", "WeakKeyDictionary", "WeakValueDictionary", "Exchanged")
    return isinstance(value, (ast.Dict, ast.List)) and not ast.unparse(value).strip("{}[]")


def test_state_of_the_process_is_known():
    found = {f"{module}.{name}" for module, path in modules().items() for name in changing(parsed(path))}
    assert sorted(found) == sorted(STATE)


def test_no_function_binds_a_name_of_its_module():
    bound = [m for m, path in modules().items() for n in statements(parsed(path)) if isinstance(n, ast.Global)]
    assert bound == []


@pytest.mark.parametrize("code", ["seen = {}", "_n: Iterator[int] = itertools.count(1)", "KNOWN = set()"])
def test_state_is_found(code):
    assert len(list(changing(ast.parse(code)))) == 1


def writes_table(tree):
    """The lines that put something into the table of operators."""
    for node in nodes(tree):
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else []
        held = [t.value for t in targets if isinstance(t, ast.Subscript)]
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("setdefault", "update", "pop", "clear"):
            held.append(node.func.value)
        if any(getattr(x, "id", "") in ("TABLE", "OPERATORS") for x in held):
            yield node.lineno


def test_the_table_has_one_door():
    """`operator`, `implements` and their kin: what plug-ins and SciPy's entries go through, too."""
    assert [m for m, path in modules().items() if any(writes_table(parsed(path)))] == ["ops.define"]


# ---- public names


def test_the_names_of_the_design_exist():
    assert [name for name in PUBLIC if not callable(getattr(sg, name, None))] == []


def test_nothing_else_is_public():
    assert sorted(dir(sg)) == sorted([*PUBLIC, "errors", "__version__"])


@pytest.mark.parametrize("name", [name for name in PUBLIC if callable(getattr(sg, name, None))])
def test_public_names_have_an_example(name):
    """Doctests run with the suite (``--doctest-modules``)."""
    documentation = getattr(sg, name).__doc__
    assert documentation, "no docstring"
    assert "Examples\n" in documentation
    assert ">>> " in documentation


# ---- docstrings

RIDDLES = frozenset("What Which Who Whose Of It Those These As That How Where".split())
"""First words of docstrings that say neither what a function does nor what a thing is."""


def docstrings(tree):
    """The strings that stand as statements: docstrings, and those below assignments."""
    for node in statements(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def riddles(tree):
    """The lines of docstrings that begin with none of a verb and a noun."""
    return [line for line, text in docstrings(tree) if (re.findall(r"\w+", text) or [""])[0] in RIDDLES]


@pytest.mark.parametrize("folder", ["symgrad", "benchmarks", "examples", "tests"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder):
    """Write "Return ...", "Hoist ...", "Whether ...", or the noun that the literature has."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in riddles(parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize("text", ["What a turn is for.", "``Of`` its node.", "\n    It in another graph."])
def test_a_riddle_is_found(text):
    assert riddles(ast.parse(f"def f():\n    {text!r}")) == [2]


@pytest.mark.parametrize("text", ["Return operands.", "Whether it is known.", "An item.", "``x[i]`` in source."])
def test_a_plain_docstring_is_none(text):
    assert riddles(ast.parse(f"def f():\n    {text!r}")) == []


# ---- files


def project_files():
    """The text files that belong to the project."""
    skipped = {".git", ".venv", "build", "dist", "__pycache__"}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(p in skipped or p.endswith((".egg-info", "_cache")) or p == ".hypothesis" for p in parts)
        if path.is_file() and not hidden and path.suffix not in (".npz", ".png", ".pyc"):
            yield path


MACHINE = re.compile(r"(?<![\w./])/(?:home|Users|root|tmp|opt|usr|var|mnt|work|private)/\w|\b[A-Z]:\\{1,2}(?!n\W)\w")


def test_no_file_names_a_place_on_a_machine():
    found = [
        f"{path.relative_to(ROOT)}:{i}: {line.strip()}"
        for path in project_files()
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE.search(line.replace("#!/usr/bin/env", ""))
    ]
    assert found == []


@pytest.mark.parametrize("text", ["/" + "home/someone", "see /" + "tmp/x", '"/' + 'opt/venv"', "C:" + "\\Users"])
def test_a_place_on_a_machine_is_found(text):
    assert MACHINE.search(text)


# ---- tests

OUTSIDE = {"benchmarks", "docs", "whole"}  # folders of tests that mirror no package


def test_folders_of_tests_mirror_the_package():
    tests, package = ROOT / "tests", ROOT / "symgrad"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path(".")}
    others = {folder.as_posix() for folder in folders if not (package / folder / "__init__.py").exists()}
    assert others <= OUTSIDE
    parents = {parent for folder in folders for parent in (folder, *folder.parents)}
    assert [folder.as_posix() for folder in sorted(parents) if not (tests / folder / "__init__.py").exists()] == []


def test_tests_at_the_top_are_of_modules_at_the_top():
    modules = {"house", *(path.stem for path in (ROOT / "symgrad").glob("*.py"))}
    assert {path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.py")} <= modules


# ---- imports


def in_a_fresh_process(code):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=env
    ).stdout.strip()


def test_import_leaves_out_what_is_slow():
    slow = ("sympy", "networkx", "scipy", "threadpoolctl", "jax", "pytest")
    assert in_a_fresh_process(f"import sys, symgrad; print([m for m in {slow} if m in sys.modules])") == "[]"


def test_compiling_for_numbers_leaves_out_sympy():
    code = "import numpy as np, symgrad as sg, sys; sg.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(3))"
    assert in_a_fresh_process(code + "; print('sympy' in sys.modules, 'networkx' in sys.modules)") == "False False"


def test_import_is_little_more_work_than_that_of_numpy():
    """Counted in calls; `benchmarks/compile_time.py` has the ratio of the times."""
    code = "from tests.work import calls; print(calls(lambda: __import__({!r})))"
    numpy, symgrad = (int(in_a_fresh_process(code.format(module))) for module in ("numpy", "symgrad"))
    assert symgrad < 2.5 * numpy


# ---- long programs

STEPS = {
    "sin": np.sin,
    "affine": lambda x: 0.5 * x + 0.1,
    "residual": lambda x: x + 0.1 * np.tanh(x),
    "choice": lambda x: np.where(x > 0.5, 0.9 * x, 1.1 * x),
    "division": lambda x: x / (1 + x * x),
    "shape": lambda x: np.reshape(np.sin(np.reshape(x, (1, -1))), np.shape(x)),
}


@pytest.mark.parametrize("optimize", [0, 2])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("x", [0.7, np.array([0.3, 0.7])], ids=["number", "array"])
def test_no_pass_recurses_over_the_graph(step, x, optimize):
    def chain(x):
        for _ in range(sys.getrecursionlimit()):
            x = STEPS[step](x)
        return np.sum(x)

    value, slope = sg.value_and_grad(chain, optimize=optimize)(x)
    eps = 1e-6
    np.testing.assert_allclose(value, chain(x), rtol=1e-9)
    np.testing.assert_allclose(np.sum(slope), (chain(x + eps) - chain(x - eps)) / (2 * eps), rtol=1e-4, atol=1e-8)
