"""`diff` finds what was changed, and nothing else."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import CONSTANT, INPUT, SIZE, Aval
from symgrad.frontend.variable import Variable
from symgrad.report.mathematics import MARKS
from symgrad.rewrite.engine import copied
from tests.others import dynamics, learning, likelihoods

pytestmark = pytest.mark.usefixtures("usual_sizes")

SPECS = "float64[d]", "float64[n, d]", "float64[n]"
LEVELS = pytest.mark.parametrize("optimize", [0, 1, 2])


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


def gradient(f, *specs, **options):
    return sg.value_and_grad(f, **options).compile(*(specs or SPECS))


# ---- the same


@LEVELS
def test_names_make_no_difference(optimize):
    def renamed(v, A, t):
        scores = t * (A @ v)
        negative = -scores
        return np.mean(np.log(1 + np.exp(negative)))

    other = gradient(renamed, "float64[p]", "float64[m, p]", "float64[m]", optimize=optimize)
    found = sg.diff(gradient(loss, optimize=optimize), other)
    assert not found
    assert str(found) == f"The programs are the same: {found.same} operations."
    assert found.same > 10


def test_a_name_of_another_value_makes_no_difference():
    def named(x):
        y = np.tanh(x)
        z = y * y
        return np.sum(z), y

    def otherwise(x):
        z = np.tanh(x)
        y = z * z
        return np.sum(y), z

    assert not sg.diff(sg.trace(named, "float64[n]"), sg.trace(otherwise, "float64[n]"))


def test_the_order_of_arguments_makes_no_difference():
    assert not sg.diff(
        gradient(loss), sg.value_and_grad(lambda y, w, X: loss(w, X, y), wrt="w").compile(*SPECS[2:], *SPECS[:2])
    )


def test_the_order_of_factors_makes_no_difference():
    assert not sg.diff(
        sg.trace(lambda x, y: x * y + x, "float64[]", "float64[]"),
        sg.trace(lambda x, y: x + y * x, "float64[]", "float64[]"),
    )


@pytest.mark.parametrize("f", [np.subtract, np.matmul, np.arctan2, lambda x, y: np.where(x > 0, x, y)])
def test_the_order_of_others_does(f):
    square = ("float64[3, 3]",) * 2
    assert sg.diff(sg.trace(f, *square), sg.trace(lambda x, y: f(y, x), *square))
    assert not sg.diff(sg.trace(f, *square), sg.trace(lambda x, y: f(x, y), *square))


def test_what_is_computed_again_is_the_same():
    specs = ("float64[n]",)
    found = [
        sg.grad(lambda x, g=g: np.sum(g(x) ** 2)).compile(*specs, optimize=0) for g in (np.tanh, sg.checkpoint(np.tanh))
    ]
    assert not sg.diff(*found)


# ---- one change


def shifted(w, X, y):
    margin = y * (X @ w) - 1
    return np.mean(np.log(1 + np.exp(-margin)))


def squashed(w, X, y):
    margin = np.tanh(y * (X @ w))
    return np.mean(np.log(1 + np.exp(-margin)))


def transposed(w, X, y):
    margin = y * (w @ X.T)
    return np.mean(np.log(1 + np.exp(-margin)))


def squared(w, X, y):
    margin = y * (X @ w**2)
    return np.mean(np.log(1 + np.exp(-margin)))


@pytest.mark.parametrize(
    ("other", "before", "after"),
    [
        (shifted, "margin = y * (X @ w)", "margin = y * (X @ w) - 1"),
        (squashed, "margin = y * (X @ w)", "margin = tanh(y * (X @ w))"),
        (transposed, "t1 = X @ w", "t1 = w @ X.T"),
        (squared, "t1 = X @ w", "t1 = X @ w**2"),
    ],
)
def test_a_changed_value_names_its_line(other, before, after):
    found = sg.diff(sg.trace(loss, *SPECS), sg.trace(other, *SPECS))
    (change,) = found.changes
    assert (change.before, change.after) == (before, after)
    assert change.text in inspect.getsource(other)
    assert change.where == f"test_diff.py:{other.__code__.co_firstlineno + 1}"
    assert found.same + found.follow == 6


@LEVELS
@pytest.mark.parametrize("other", [shifted, squashed, squared])
def test_gradients_that_differ(other, optimize):
    before, after = (gradient(f, optimize=optimize) for f in (loss, other))
    assert sg.diff(before, after)
    assert sg.diff(after, before)
    assert not sg.diff(after, gradient(other, optimize=optimize))


def test_what_the_compiler_makes_the_same():
    assert not sg.diff(gradient(loss), gradient(transposed))


def test_an_added_term():
    def ridge(w, X, y):
        return loss(w, X, y) + 0.1 * np.sum(w**2)

    (change,) = sg.diff(sg.trace(loss, *SPECS), sg.trace(ridge, *SPECS)).changes
    assert (change.before, change.after) == ("return t1", "return t1 + 0.1 * sum(w**2)")


def test_another_constant():
    before, after = (sg.trace(lambda x, c=c: np.sum(x * np.array(c)), "float64[3]") for c in ([1.0, 2, 3], [1.0, 2, 4]))
    (change,) = sg.diff(before, after).changes
    assert change.before == "t1 = x * array([1., 2., 3.])"
    assert change.after == "t1 = x * array([1., 2., 4.])"


def test_a_new_argument():
    def biased(w, b, X, y):
        margin = y * (X @ w + b)
        return np.mean(np.log(1 + np.exp(-margin)))

    found = sg.diff(sg.trace(loss, *SPECS), sg.trace(biased, SPECS[0], "float64[]", *SPECS[1:]))
    assert [(x.before, x.after) for x in found.inputs] == [("", "b: float64[]")]
    assert [(x.before, x.after) for x in found.changes] == [("margin = y * (X @ w)", "margin = y * (X @ w + b)")]


def test_other_sizes():
    sizes = [sg.trace(np.tanh, f"float64[{n}]") for n in (3, 4)]
    found = sg.diff(*sizes)
    assert [(x.before, x.after) for x in found.inputs] == [("x: float64[3]", "x: float64[4]")]
    assert not found.changes


def test_another_tree_of_results():
    def both(x):
        return np.sin(x), np.cos(x)

    swapped = sg.trace(lambda x: both(x)[::-1], "float64[3]")
    assert sg.diff(sg.trace(both, "float64[3]"), swapped).changes[-1].after == "return (cos(x), sin(x))"
    named = sg.diff(
        sg.trace(both, "float64[3]"), sg.trace(lambda x: dict(zip("ab", both(x), strict=True)), "float64[3]")
    )
    assert named.changes[-1].after == "return {'a': sin(x), 'b': cos(x)}"


@LEVELS
def test_compiled_results_in_another_order_or_number(optimize):
    def weighted(a, b):
        return np.sum(np.sin(a) * b)

    specs = ("float64[n]",) * 2
    ab, ba, a = (sg.grad(weighted, wrt=x).compile(*specs, optimize=optimize) for x in (("a", "b"), ("b", "a"), "a"))
    assert not sg.diff(ab, ab)
    assert [sg.diff(ab, other).changes[-1].after for other in (ba, a)] == ["return (d_b, d_a)", "return d_a"]


def test_a_result_that_is_a_number_is_none_that_is_computed():
    def made(x):
        return np.sin(x), np.cos(x)

    for k in range(4):
        constant = sg.trace(lambda x, k=k: (np.sin(x), k), "float64[3]")
        assert sg.diff(sg.trace(made, "float64[3]"), constant).changes[-1].after == f"return (sin(x), {k})"
    assert sg.diff(sg.trace(lambda x: (x, 1), "float64[]"), sg.trace(lambda x: (x, 2), "float64[]"))


# ---- any change

OTHERS = {
    name: program
    for module in (likelihoods, learning, dynamics)
    for name, program in module.PROGRAMS.items()
    if name not in ("GPT, tokens in an array", "fluid")
}


def twice(node):
    return lambda new, image: (
        2 * Variable(new, new.add(node.op, tuple(image[x] for x in node.inputs), node.params, node.where))
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_planted_change_is_found_at_its_line(name):
    f, args = OTHERS[name]
    graph = copied(sg.trace(f, *args).graph)
    assert not sg.diff(graph, copied(graph))
    given = (INPUT, CONSTANT, SIZE, *MARKS)
    work = [x for x in graph.nodes if x.op not in given and type(x.aval) is Aval and x.aval.dtype.kind == "f"]
    for node in work[:: max(1, len(work) // 5)]:
        other = copied(graph, {node: twice(node)})
        found = sg.diff(graph, other)
        assert found
        assert sg.diff(other, graph)
        assert len(found.changes) <= 2 + sum(node in x.inputs for x in graph.nodes)


# ---- what it says


def test_the_text():
    def other(w, X, y):
        margin = y * (X @ w) - 1
        return np.mean(np.log(1 + np.exp(-margin)))

    line = other.__code__.co_firstlineno + 1
    assert str(sg.diff(sg.trace(loss, *SPECS), sg.trace(other, *SPECS))) == "\n".join([
        "Operations in both: 1 on the same values, 5 on values that were changed.",
        "",
        f"test_diff.py:{line}  margin = y * (X @ w) - 1",
        "  - margin = y * (X @ w)",
        "  + margin = y * (X @ w) - 1",
    ])  # fmt: skip


def test_json_says_all():
    found = sg.diff(sg.trace(loss, *SPECS), sg.trace(lambda w, X, y: loss(2 * w, X, y), *SPECS))
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["differ"] is True
    assert plain["changes"][0]["after"] == found.changes[0].after
    assert plain["same"] == found.same


@pytest.mark.parametrize("x", [loss, "source", sg.grad(loss), None])
def test_what_is_no_program(x):
    with pytest.raises(sg.errors.ArgumentError, match="is not a program to compare"):
        sg.diff(x, sg.trace(loss, *SPECS))


def test_what_only_has_another_dtype_shows_it():
    found = sg.diff(sg.trace(loss, *SPECS), sg.trace(loss, *(spec.replace("64", "32") for spec in SPECS)))
    assert found.changes
    assert all(change.before != change.after for change in found.changes)
    assert any(change.after.endswith("# float32[n]") for change in found.changes)
