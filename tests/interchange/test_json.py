"""Programs as JSON: what is written is read again as the same program, and what is wrong is refused where it stands."""

from __future__ import annotations

import ast
import copy
import gc
import json
import linecache
import random
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Graph, Op, verify
from symgrad.core.region import Region
from symgrad.errors import ArgumentError, GraphError, SymgradError
from symgrad.ops.define import OPERATORS
from symgrad.ops.scipy import load
from tests import fuzz
from tests.folders import GOLDEN, ROOT
from tests.whole.test_other_programs import PROGRAMS


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


LOSS = sg.value_and_grad(loss).trace("float64[d]", "float64[n, d]", "float64[n]")


def returned(program):
    """The program after it was written and read, compiled to the same source."""
    text = sg.to_json(program)
    found = sg.from_json(text)
    verify(found.graph)
    assert sg.to_json(found) == text
    for optimize in (1, 2):
        with sg.options(optimize=optimize):
            assert sg.Compiled(found).source == sg.Compiled(program).source
    return found


# ---- the way there and back


def test_a_program_is_the_same_after_it_was_written_and_read():
    found = returned(LOSS)
    assert str(found) == str(LOSS)
    assert found.name == "loss_value_and_grad"
    assert found.inputs["X"].shape == LOSS.inputs["X"].shape


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_other_people(name):
    f, args = PROGRAMS[name]
    program = sg.compile(f).trace(*args)
    if name in WITH_CLASSES:
        with pytest.raises(ArgumentError, match="a class that a file does not know"):
            sg.to_json(program)
    else:
        returned(program)


WITH_CLASSES = ("dataclasses", "named tuples", "ordered dict")
"""Programs that are given instances of classes."""


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed):
    made = fuzz.generated(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, for numbers that overflow
        try:
            program = sg.compile(made.function()).trace(*made.values(made.sizes[0]))
        except SymgradError:
            return  # refused by the trace
    returned(program)


def cells(p, steps):
    table = np.zeros((3, 4))
    for i in range(steps):
        table[i, 1:] += p["b"][i] * np.linspace(0, 1, 3)
    picked = table[np.array([0, 2, 1]), ::-1][..., None]
    return {"sum": np.sum(picked) / p["a"], "kind": ("text", 1.5, -np.inf, None, 2j, ...)}


def checkpointed(x):
    return np.sum(sg.checkpoint(lambda x: np.sin(np.exp(x)))(x) ** 2)


def middle(x, k):
    return np.sum(x[k : x.shape[0] - 2] * x[: x.shape[0] - k - 2]) + np.max(x) * np.median(x)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (sg.compile(cells), ({"b": np.ones(3), "a": 2.0}, 3)),
        (sg.compile(cells, static_argnames="steps"), ({"b": np.ones(3), "a": 2.0}, 3)),
        (sg.grad(checkpointed), ("float32[3]",)),
        (sg.grad(middle), (np.arange(9.0), 2)),
        (sg.compile(lambda x: np.einsum("pq,pq->p", x, x)), ("float64[n, 2 * n + 1]",)),
        (sg.compile(lambda x: x + np.array(1.0)), (np.array(1.0, ">f8"),)),
        (sg.compile(lambda x: tuple(np.linalg.svd(x))), ("float64[3, 2]",)),
        (sg.compile(lambda *x, **y: x[0] * y["a"]), (1.0, 2.0)),
        (sg.compile(lambda x: x[3:] * x.shape[0]), ("float64[n]",)),
        (sg.compile(lambda x: np.arange(40.0) * x), ("float64[]",)),
        (sg.compile(lambda x: x * 1j), ("complex64[n]",)),
        (sg.compile(lambda class_, np_: class_ * np_), ("float64[os]", "float64[os]")),
    ],
)
def test_all_kinds_of_values(function, args):
    kwargs = {"a": args[1]} if "**y" in str(function) else {}
    returned(function.trace(*args[:1], **kwargs) if kwargs else function.trace(*args))


def test_sizes_that_calls_have_made_symbols():
    slope = sg.grad(lambda x, k: np.sum(x[k:] ** 2) * k)
    for n in (5, 7):
        slope(np.ones(n), n - 3)
    for entry in slope._cache.recent:
        returned(entry.compiled.program)


def test_graphs_that_were_built_by_hand():
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    (dx,) = sg.gradients(np.sum(np.tanh(x) ** 2), [x])
    found = sg.from_json(sg.to_json(g))
    assert sg.Compiled(found)(np.ones(2))[0] == np.tanh(1) ** 2 * 2
    part = sg.function([x], dx)
    assert sg.Compiled(sg.from_json(sg.to_json(part))).source == part.source


def test_what_a_node_derives_may_have_been_cut_off():
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    h = np.exp(x)
    (dh,) = sg.gradients(np.sum(np.sin(h)), [h])
    part = sg.function([h], dh)
    assert '"of": null' in sg.to_json(part)
    returned(part.program)


def test_a_region_in_a_node_has_a_place():
    graph = Graph()
    inner = Region(graph, [], [graph.constant(2.0)])
    body = sg.operator(lambda x, inner: x, name="test_body", infer=lambda x, inner: x)
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    g.add(body, (x.node,), (("inner", inner),))
    text = sg.to_json(g)
    found = sg.from_json(text)
    assert dict(found.graph.nodes[1].params)["inner"].results[0].op.name == "constant"
    assert sg.to_json(found) == text


def test_every_operator_is_found_by_its_name():
    import scipy.interpolate
    import scipy.linalg
    import scipy.signal
    import scipy.sparse
    import scipy.stats  # noqa: F401

    load()
    own = {x for home in list(sys.modules) if home.startswith("symgrad.ops") for x in vars(sys.modules[home]).values()
           if type(x) is Op}  # fmt: skip
    assert [op.name for op in own if op not in OPERATORS.values()] == []
    assert OPERATORS["scipy.special.zeta"] is not OPERATORS["scipy.special.riemann_zeta"]


@pytest.mark.slow
def test_operators_of_scipy_are_found_in_another_process(tmp_path):
    from scipy.special import gammaln

    path = tmp_path / "program.json"
    path.write_text(sg.to_json(sg.grad(lambda x: gammaln(x)).trace("float64[]")))
    code = "import sys, symgrad as sg; print(sg.Compiled(sg.from_json(open(sys.argv[1]).read()))(1.0))"
    ran = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True,
                         cwd=ROOT)  # fmt: skip
    assert float(ran.stdout) == pytest.approx(-np.euler_gamma)


def test_the_users_lines_are_in_the_text_and_no_folder_is():
    text = sg.to_json(LOSS)
    assert "margin = y * (X @ w)" in text
    assert str(ROOT) not in text
    found = sg.from_json(text)
    place = next(node.where for node in found.graph.nodes if node.op.name == "multiply")
    assert (str(place), place.text) == (str(place), "margin = y * (X @ w)")
    assert place.file in linecache.cache
    del found
    gc.collect()
    assert place.file not in linecache.cache


# ---- what cannot be written to a file


def test_what_has_no_form_is_refused():
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")
    with pytest.raises(ArgumentError, match="argument p has an instance of Pair"):
        sg.to_json(sg.compile(lambda p: p.a * p.b).trace(Pair(1.0, 2.0)))
    with pytest.raises(ArgumentError, match="cannot be written to a file"):
        sg.to_json(sg.compile(lambda x, f: f(x)).trace(1.0, np.sin))
    with pytest.raises(ArgumentError, match="is not a program"):
        sg.to_json(sg.compile(np.sin))
    with pytest.raises(ArgumentError, match="is not text"):
        sg.from_json(b"{}")


def test_an_operator_that_is_called_as_another_is_refused():
    tanh = sg.operator(lambda x: x, name="tanh", infer=lambda x: x)
    with pytest.raises(ArgumentError, match="not in the table under its name"):
        sg.to_json(sg.compile(lambda x: tanh(x)).trace("float64[]"))


# ---- files that are wrong


def changed(change, program=LOSS):
    data = json.loads(sg.to_json(program))
    change(data)
    return json.dumps(data)


def node(i, **fields):
    return lambda data: data["nodes"][i].update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(format="other"), "the file: this is not a graph of symgrad"),
        (lambda data: data.update(version=3), "version 3 of the format"),
        (lambda data: data.pop("nodes"), "the file: 'nodes' is missing"),
        (lambda data: data.update(more=1), "more: there is no such field"),
        (node(4, inputs=[1, 14]), r"nodes\[4\].inputs\[1\]: 14 is not before it"),
        (node(4, inputs=[0, 1]), r"nodes\[4\]: .* do not contract"),
        (node(5, inputs=[-1, 1]), r"nodes\[5\].inputs\[0\]: -1 is not an integer from 0 on"),
        (node(5, op="os.system"), r"nodes\[5\].op: there is no operator 'os.system'"),
        (node(5, op="loop"), r"nodes\[5\].op: there is no operator 'loop'"),
        (node(5, type="float32[n]"), r"nodes\[5\].type: it is .float64\[n\]. by the operator"),
        (node(5, params={"axis": 1}), r"nodes\[5\].params.axis: multiply has no such parameter"),
        (node(11, params={"axis": {"dtype": "O"}}), r"nodes\[11\].params.axis.dtype: there is no dtype 'O'"),
        (node(18, params={"shape": [{"size": "__import__('os')"}]}), r"params.shape\[0\].size: .* is not a size"),
        (node(18, params={"shape": [{"size": "k"}]}), r"params.shape\[0\].size: there is no size 'k'"),
        (node(18, params={"shape": [{"size": "((n ** 64) ** 64) ** 64 - 1"}]}), "too large an expression"),
        (node(18, params={"shape": ["n'"]}), "letters, digits, spaces"),
        (node(5, id=6), r"nodes\[5\].id: 6 is not an integer from 5 to 5"),
        (node(6, **{"inputs": [2, 4], "op": "multiply"}), r"nodes\[6\]: this is node 5 again"),
        (lambda data: data["names"].append([0, ["d_{0.__class__}", 1]]), r"names\[8\]\[1\]\[0\]: it is a name with {}"),
        (lambda data: data["parameters"][0].update(name="w\nimport os"), r"parameters\[0\].name: .* is not a Python"),
        (lambda data: data["arguments"].pop(), "arguments: 2 items, not 3"),
        (lambda data: data["arguments"].__setitem__(0, {"value": 1}), "are not the inputs of the graph"),
        (lambda data: data["arguments"].reverse(), "y is the input 'w'|is the input"),
        (lambda data: data["files"][0]["lines"].update({"9999999": "x"}), "more than 1000000 lines"),
        (lambda data: data["sizes"].update(assumed=[["n", "n + 1"]]), r"sizes.assumed\[0\]: this cannot be assumed"),
        (lambda data: data.update(results={"value": {"pickle": "..."}}), "results.value: an object of one field"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(change, message):
    with pytest.raises(ArgumentError, match=message):
        sg.from_json(changed(change))


@pytest.mark.parametrize("text", ["", "[]", "{", "NaN", '"' * 9, "[" * 100_000, "1" * 100_000, '{"x": 1e999}', "\0"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ArgumentError):
        sg.from_json(text)


def constant(**fields):
    return changed(node(15, params={"value": {"constant": {"array": fields}}}))


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": "float64", "shape": [2**40], "base64": ""},
        {"dtype": "float64", "shape": [], "base64": "%%"},
        {"dtype": "object", "shape": [], "base64": "AAAAAAAAAAA="},
        {"dtype": "float64", "shape": [-1], "numbers": []},
        {"dtype": "float64", "shape": [], "numbers": [1e999]},
        {"dtype": "int8", "shape": [], "numbers": [1000]},
        {"dtype": "float64", "shape": [], "numbers": ["1"]},
        {"dtype": "float64", "shape": []},
    ],
)
def test_arrays_are_checked(fields):
    with pytest.raises(ArgumentError):
        sg.from_json(constant(**fields))


def test_nothing_of_a_file_gets_into_source_but_as_a_name_or_in_quotes():
    evil = '"""\nimport os\nos.system("false")\n"""'

    def poison(data):
        data["name"] = data["summary"] = evil
        data["files"][0] = {"name": evil, "lines": dict.fromkeys(data["files"][0]["lines"], evil)}
        data["names"] = [[i, evil] if type(name) is str else [i, name] for i, name in data["names"]]

    for optimize in (0, 1, 2):
        with sg.options(optimize=optimize):
            source = sg.Compiled(sg.from_json(changed(poison))).source
            usual = sg.Compiled(LOSS).source
        assert imports(source) == imports(usual)
        assert not any(isinstance(x, ast.Attribute) and x.attr == "system" for x in ast.walk(ast.parse(source)))


def imports(source):
    return [ast.unparse(x) for x in ast.walk(ast.parse(source)) if isinstance(x, (ast.Import, ast.ImportFrom))]


VALUES = (None, True, 0, -1, 3, 2**70, 1.5, "", "n", "float64[n]", "x" * 300, [], [0], {}, {"size": "n - 9"}, [[0, 1]])


def places(data, found):
    """All lists and objects of a document."""
    found.append(data)
    for x in data.values() if type(data) is dict else data if type(data) is list else ():
        if type(x) in (dict, list):
            places(x, found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_changed_files_are_read_or_refused(seed):
    """Whatever a file holds, nothing but an error of symgrad comes out."""
    rng = random.Random(seed)
    program = [LOSS, sg.grad(checkpointed).trace("float32[3]"), sg.grad(middle).trace(np.arange(9.0), 2)][seed % 3]
    whole = json.loads(sg.to_json(program))
    read = 0
    for _ in range(150):
        data = copy.deepcopy(whole)
        for _ in range(rng.choice([1, 1, 3])):
            place = rng.choice([x for x in places(data, []) if x])
            key = rng.choice(list(place)) if type(place) is dict else rng.randrange(len(place))
            other = rng.choice([*VALUES, rng.choice(places(whole, []))])
            if rng.random() < 0.2:
                del place[key]
            else:
                place[key] = copy.deepcopy(other)
        try:
            sg.from_json(json.dumps(data))
            read += 1
        except (ArgumentError, GraphError) as error:
            assert re.match(r"[\w.\[\] ]+: ", str(error)), error
    assert read < 150


# ---- the promise


def test_files_of_version_1_stay_readable():
    """The file in tests/golden was written when version 1 was made; it is never written again."""
    program = sg.from_json((GOLDEN / "graph_version_1.json").read_text(encoding="utf-8"))
    w, X, y = np.zeros(2), np.eye(2), np.ones(2)
    value, slope = sg.Compiled(program)(w, X, y)
    assert value == pytest.approx(np.log(2))
    np.testing.assert_allclose(slope, [-0.25, -0.25])


def test_checkpoints_of_version_1_stay_computed_again():
    """Its marks are read as the values that they stand on; the file was written when marks were made."""

    @sg.checkpoint
    def block(x):
        return np.sin(x) * np.exp(x)

    def energy(x):
        y = block(x)
        return np.sum(block(y) * x)

    text = (GOLDEN / "graph_version_1_with_checkpoints.json").read_text(encoding="utf-8")
    program, now = sg.from_json(text), sg.grad(energy).trace("float64[n]")
    x = np.linspace(-1, 1, 7)
    for level in (0, 1, 2):
        with sg.options(optimize=level):
            np.testing.assert_allclose(sg.Compiled(program)(x), sg.grad(energy)(x), rtol=1e-13)
    with sg.options(optimize=1):
        read, traced = (sum(node.where.again for node in sg.Compiled(p).graph.nodes) for p in (program, now))
    assert read == traced > 0


def test_assumptions_made_after_a_value_do_not_keep_a_file_from_being_read():
    def clipped(x):
        return np.sum(x[:2] * np.ones((2, 3)))  # x[:2] has min(2, n) rows until the product assumes n >= 2

    program = sg.trace(clipped, "float64[n, 3]")
    text = sg.to_json(program)
    assert '"float64[min(2, n), 3]"' in text
    x = np.ones((4, 3))
    assert sg.Compiled(sg.from_json(text))(x) == clipped(x)
    with pytest.raises(ArgumentError, match=r"it is .float64\[2, 3\]. by the operator"):
        sg.from_json(text.replace("min(2, n)", "min(3, n)"))
