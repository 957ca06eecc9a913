"""Edited modules: what changes a result is found, with its line; what does not is accepted."""

from __future__ import annotations

import json
import os
import re
import runpy
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.analysis.rounding import Rounding, rounded
from symgrad.errors import ArgumentError
from symgrad.export.points import call, drawn, some_sizes, uniform, usual
from symgrad.export.target import load_function
from symgrad.verification.checking import verdict_on
from symgrad.verification.model import Model
from symgrad.verification.remake import compiled_model
from tests import edits

# ---- ten programs that are unlike each other


def logistic(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin))) + 0.1 * w @ w


def network(params, x, y):
    h = np.tanh(x @ params["W1"] + params["b1"])
    return np.mean((h @ params["W2"] - y) ** 2)


def mixture(centres, logits, x):
    squares = np.sum((x[:, None] - centres) ** 2, axis=2)
    terms = logits - 0.5 * squares
    top = np.max(terms, axis=1)
    return -np.sum(top + np.log(np.sum(np.exp(terms - top[:, None]), axis=1)))


def stencil(u, f):
    inner = u[1:-1, 1:-1]
    laplace = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
    return np.sum((laplace - f[1:-1, 1:-1]) ** 2) + 0.5 * np.sum(inner**4)


def attention(Q, K, V):
    scores = np.einsum("id,jd->ij", Q, K) / np.sqrt(Q.shape[1])
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    weights = weights / np.sum(weights, axis=1, keepdims=True)
    return np.sum((weights @ V) ** 2)


def gaussian(L, r):
    K = L @ L.T + 2 * np.eye(L.shape[0])
    return 0.5 * r @ np.linalg.solve(K, r) + 0.5 * np.linalg.slogdet(K)[1]


def series(a, x):
    level = np.cumsum(a * x)
    errors = x[1:] - 0.9 * level[:-1]
    return np.sum(np.sqrt(1 + errors**2)) + np.sum(level[2:] * x[:-2])


def robust(beta, X, y):
    r = y - X @ beta
    small = np.abs(r) < 1
    return np.sum(np.where(small, 0.5 * r**2, np.abs(r) - 0.5)) + np.linalg.norm(beta)


def poisson(w, X, counts):
    rate = np.exp(0.3 * X @ w)
    return np.sum(rate - counts * np.log(rate + 0.1)) + np.prod(1 + 0.1 * w)


def valley(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


class Case(NamedTuple):
    """A program: how it is made, its specs, and arguments from a generator of random numbers."""

    function: sg.Function
    specs: tuple
    draw: object


def normal(*shapes):
    return lambda rng, n: [rng.standard_normal([n[k] if isinstance(k, str) else k for k in shape]) for shape in shapes]


def network_params(rng, n):
    return dict(zip(("W1", "b1", "W2"), normal("dh", "h", "h")(rng, n), strict=True))


CASES = {
    "logistic": Case(
        sg.value_and_grad(logistic), ("float64[d]", "float64[n, d]", "float64[n]"), normal("d", "nd", "n")
    ),
    "network": Case(
        sg.value_and_grad(network),
        ({"W1": "float64[d, h]", "b1": "float64[h]", "W2": "float64[h]"}, "float64[n, d]", "float64[n]"),
        lambda rng, n: [network_params(rng, n), *normal("nd", "n")(rng, n)],
    ),
    "mixture": Case(
        sg.value_and_grad(mixture, argnums=(0, 1)),
        ("float64[k, d]", "float64[k]", "float64[n, d]"),
        normal("kd", "k", "nd"),
    ),
    "stencil": Case(sg.value_and_grad(stencil), ("float64[n, m]", "float64[n, m]"), normal("nm", "nm")),
    "attention": Case(
        sg.value_and_grad(attention, argnums=(0, 1, 2)),
        ("float64[n, d]", "float64[m, d]", "float64[m, h]"),
        normal("nd", "md", "mh"),
    ),
    "gaussian": Case(sg.value_and_grad(gaussian), ("float64[n, n]", "float64[n]"), normal("nn", "n")),
    "series": Case(sg.value_and_grad(series, argnums=(0, 1)), ("float64[n]", "float64[n]"), normal("n", "n")),
    "robust": Case(sg.value_and_grad(robust), ("float64[d]", "float64[n, d]", "float64[n]"), normal("d", "nd", "n")),
    "poisson": Case(sg.value_and_grad(poisson), ("float64[d]", "float64[n, d]", "float64[n]"), normal("d", "nd", "n")),
    "valley": Case(sg.hessian(valley), ("float64[n]",), normal("n")),
}
LEVELS = (1, 2)
EXPRESSIONS = [*edits.KINDS][:7]  # the kinds that any program has; those of branches come below
EDITS, REWRITES = 8, 3  # of each program at its level, and at each: 80 and 60; python -m tests.edits plants any number
each_program = pytest.mark.parametrize("level", LEVELS)
each_case = pytest.mark.parametrize("name", CASES)


@cache
def model_of(name, level):
    case = CASES[name]
    compiled = case.function.compile(*case.specs, optimize=level)
    return Model(case.function.compile(*case.specs, optimize=0).program, compiled.run.__name__, lambda: compiled)


def drawn_by(name, rng):
    """Arguments of one call."""
    return CASES[name].draw(rng, dict(zip("ndhkm", 3 + rng.permutation(5), strict=True)))


@cache
def arguments(name):
    """Arguments of several sizes, without a part of symgrad."""
    rng = np.random.default_rng(5)
    sizes = [dict(zip("ndhkm", 3 + rng.permutation(5), strict=True)) for _ in range(6)]
    sizes.append(dict(zip("ndhkm", (40, 3, 4, 5, 41), strict=True)))
    return [CASES[name].draw(rng, each) for each in sizes]


def results(text, function, points):
    """Return the results of a module at points: numbers, or the error."""
    namespace, found = {"__name__": "edited"}, []
    exec(text, namespace)
    for args in points:
        try:
            with np.errstate(all="ignore"):
                found.append(flat(namespace[function](*args)))
        except Exception as error:
            found.append(type(error))
    return found


def flat(result):
    if isinstance(result, (tuple, list)):
        return [x for each in result for x in flat(each)]
    return [x for each in result.values() for x in flat(each)] if isinstance(result, dict) else [np.asarray(result)]


def is_other(a, b):
    """Whether results differ by more than a sum in another order does."""
    if isinstance(a, type) or isinstance(b, type):
        return a is not b
    return not all(map(is_close, a, b))


def is_close(x, y):
    return x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)


def level_of(name):
    """The level at which a program is edited: one and the other in turn."""
    return LEVELS[[*CASES].index(name) % len(LEVELS)]


@cache
def planted(name):
    """Edits of all kinds in turn that change a result, as the results themselves say."""
    level = level_of(name)
    model, points = model_of(name, level), arguments(name)
    text, right = model.compiled.source, results(model.compiled.source, model.function, points)
    found = edits.planted(text)
    order = np.random.default_rng(level).permutation(len(found))
    first = EDITS * [*CASES].index(name)  # other kinds for each program
    kinds = [EXPRESSIONS[(first + i) % len(EXPRESSIONS)] for i in range(len(EXPRESSIONS))]
    queues = {kind: [found[i] for i in order if found[i].kind == kind] for kind in kinds}
    chosen = []
    while len(chosen) < EDITS:
        for queue in queues.values():
            while queue and len(chosen) < EDITS:
                edit = queue.pop()
                if any(map(is_other, results(edit.text, model.function, points), right)):
                    chosen.append(edit)
                    break
    return chosen


@pytest.mark.slow
@each_case
def test_planted_edits_are_caught(name):
    model, missed, strayed = model_of(name, level_of(name)), [], []
    for edit in planted(name):
        verdict = verdict_on(edit.text, "edited.py", model)
        if verdict:
            missed.append(edit)
        elif verdict.line is None or not verdict.line - 1 <= edit.line <= (verdict.until or verdict.line) + 1:
            strayed.append(f"{edit.kind} in line {edit.line}\n{verdict}")
    assert missed == []
    assert len(strayed) <= 1, "\n\n".join(strayed)
    assert len(model._known) <= 2  # the model is evaluated once, not for each edit


@pytest.mark.slow
def test_there_are_edits_of_all_kinds(usual_sizes):
    found = [edit.kind for name in CASES for edit in planted(name)]
    assert len(found) == 80
    assert all(found.count(kind) >= 4 for kind in EXPRESSIONS)


@pytest.mark.slow
@each_case
@each_program
def test_equivalent_rewrites_are_accepted(name, level):
    model = model_of(name, level)
    found = edits.equivalent(model.compiled.source, model.function)
    assert len(found) >= REWRITES
    for kind, text in [*found.items()][level - 1 :: 2] if len(found) > REWRITES else found.items():
        verdict = verdict_on(text, "edited.py", model)
        assert verdict, f"{kind}\n{verdict}"
        assert verdict.usual >= 8 and verdict.extreme >= 6


@pytest.mark.slow
@each_case
def test_the_work_of_others_is_as_a_check_from_scratch(name):
    """The points do not depend on what was checked before."""
    first, again = (
        verdict_on(model.compiled.source, "f.py", model)
        for model in (model_of(name, 1), compiled_model(again_of(name)))
    )
    assert (first.usual, first.extreme, first.sizes) == (again.usual, again.extreme, again.sizes)


def again_of(name):
    return CASES[name].function.compile(*CASES[name].specs, optimize=1)


# ---- what is checked


def model_for(f, *specs, **options):
    function = sg.value_and_grad(f, **options)
    compiled = function.compile(*specs)
    return Model(function.compile(*specs, optimize=0).program, compiled.run.__name__, lambda: compiled)


def verdict_of(model, old, new):
    text = model.compiled.source
    assert old in text, text
    return verdict_on(text.replace(old, new), "edited.py", model)


def kmeans(centres, x):
    squares = np.sum((x[:, None] - centres) ** 2, axis=2)
    return np.sum(np.min(squares, axis=1))


@cache
def in_blocks():
    model = model_for(kmeans, "float64[k, d]", "float64[n, d]")
    assert "_in_parts" in model.compiled.source
    assert verdict_on(model.compiled.source, "same.py", model)
    return model


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value += t3.sum()", "value = t3.sum()"),  # of the last block alone
        ("range(start, stop, step)", "range(start, stop - 1, step)"),  # a last row on its own is left out
        ("map(sum, zip(*", "map(max, zip(*"),  # of one part
        ("range(0, n, step)", "range(0, n - 1, step)"),  # in the runtime
    ],
)
def test_blocks_and_parts_are_seen(usual_sizes, old, new):
    text = in_blocks().compiled.source
    if "range(0" in old:  # the part that is left out has one row
        new_text = text.replace("given[start] = share(start, min(start + step, n))", "given[start] = share(start, n)")
        assert not verdict_on(new_text, "edited.py", in_blocks())
        return
    assert not verdict_of(in_blocks(), old, new)


@pytest.mark.parametrize("cut", ["d_x[50:] = 0", "d_x[np.arange(40, len(x))] = 0", "if len(x) > 70: d_x = d_x + 1"])
def test_a_cut_at_a_size_of_the_file_alone_is_seen(cut):
    """Usual sizes are small: an array is as long as an integer asks for that the model does not have."""
    model = model_for(lambda x: np.sum(np.sin(x)), "float64[n]", optimize=1)
    assert not verdict_of(model, "    return value, d_x", f"    {cut}\n    return value, d_x")


def test_ties_are_seen(usual_sizes):
    found = verdict_of(in_blocks(), "1.0 / np.count_nonzero(t4, axis=1, keepdims=True)", "np.ones((j - i, 1))")
    assert not found
    assert "np.ones" in found.text


def test_ties_are_seen_where_zeros_are_not_in_the_domain():
    model = model_for(lambda x: np.sum(np.log(x)) * np.max(x), "float64[n]", optimize=1)
    found = verdict_of(model, "np.count_nonzero(t3)", "1")
    assert not found
    assert len(set(found.point["x"].strip("[ ]").split())) == 1


def test_each_of_two_sizes_is_the_larger_one():
    sizes = verdict_on(in_blocks().compiled.source, "f.py", in_blocks()).sizes
    assert {each["n"] > each["k"] for each in sizes} == {True, False}


def test_each_of_two_sizes_is_the_smallest_one():
    """A block of three rows is cut short in an array of two, where other arguments have more than one number."""

    def worst(w, R):
        weights = np.exp(w) / np.sum(np.exp(w))
        return np.mean(np.sort(R @ weights)[-3:])

    model = model_for(worst, "float64[a]", "float64[s, a]", optimize=1)
    assert not verdict_of(model, "1.0 / min(3, s)", "1.0 / 3")


def test_a_small_factor_is_seen_where_it_can_be():
    model = model_for(logistic, "float64[d]", "float64[n, d]", "float64[n]", optimize=1)
    assert not verdict_of(model, "return value, d_w", "return value, 1.00000001 * d_w")
    assert verdict_of(model, "return value, d_w", "return value, 1.00000000000001 * d_w")
    found = verdict_of(model, "return value, d_w", "return value, 1.001 * d_w")
    assert "return" in found.text
    assert verdict_of(model, "return value, d_w", "return value, d_w  # 1.001").worst < 1e-13


def test_rtol_allows_more():
    model = model_for(logistic, "float64[d]", "float64[n, d]", "float64[n]", optimize=1)
    text = model.compiled.source.replace("return value, d_w", "return value, 1.001 * d_w")
    assert not verdict_on(text, "f.py", model, rtol=1e-4)
    assert verdict_on(text, "f.py", model, rtol=1e-2)


def variance(x):
    return np.mean(x**2) - np.mean(x) ** 2


def test_cancellation_is_no_difference():
    """Near 1e6 six of sixteen digits are left of a variance that is written as a difference."""
    shifted = lambda x: variance(x + 1e6)
    model = model_for(shifted, "float64[n]", optimize=1)
    text = model.compiled.source
    body, end = text[: text.index("    return")], text[text.index("    return") :]
    centred = "    y = x + 1e6\n    value = np.mean((y - np.mean(y)) ** 2)\n"
    assert verdict_on(body + centred + end, "f.py", model)
    assert not verdict_on(body + centred.replace("** 2", "** 2 * 1.001") + end, "f.py", model)


def test_float32_is_compared_with_its_digits():
    model = model_for(logistic, "float32[d]", "float32[n, d]", "float32[n]", optimize=1)
    assert verdict_of(model, "return value, d_w", "return value, d_w / np.float32(3) * np.float32(3)")
    assert not verdict_of(model, "return value, d_w", "return value, d_w * np.float32(1.001)")
    assert "float64[], the model's is float32[]" in verdict_of(model, "return value", "return np.float64(value)").fact


# ---- branches


def with_source(tmp_path, body, *specs, **options):
    """The model of a function ``f``, in a file, so that its branches are converted."""
    (tmp_path / "branching.py").write_text(f"import numpy as np\n\n\n{body}")
    return model_for(load_function("branching.py:f", tmp_path), *specs, **options)


def steps(x, y):
    far = np.where(x > 30.0, 3 * x, np.where(x <= -250.0, 7.5, x * x))
    return np.sum(far * y) + np.sum(np.clip(x * y, -40.0, 55.0)) + np.sum(np.maximum(y, 17.0) * x)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, *LEVELS])
def test_every_threshold_is_seen(level):
    """Thresholds of the value, and of the masks of its derivative, are seen however little they move."""
    model = model_for(steps, "float64[n]", "float64[n]", optimize=level)
    verdict = verdict_on(model.compiled.source, "same.py", model)
    assert verdict and verdict.near > 0 and verdict.unreached == ()
    found = [e for e in edits.planted(model.compiled.source) if e.kind == "threshold"]
    assert len(found) > 20
    assert [e for e in found[level::3] if verdict_on(e.text, "edited.py", model)] == []


def behind_a_loop(x, s):
    for _ in range(9):
        if s > 0.06:
            break
        s = s + 0.3
    r = s
    for _ in range(40):
        if abs(r) > 0.99:
            r = 0.5 * r
        else:
            r += 0.1 * s
    return r * np.sum(x)


@pytest.mark.slow
@pytest.mark.parametrize("optimize", LEVELS)
def test_a_threshold_behind_a_loop_that_leaves_numbers_as_they_are(optimize):
    """A number that a loop has not changed is still on the boundary, however results are rounded."""
    model = model_for(behind_a_loop, "float64[n]", "float64[]", optimize=optimize)
    assert verdict_on(model.compiled.source, "same.py", model)
    assert not verdict_of(model, "> 0.99", ">= 0.99")
    assert not verdict_of(model, "> 0.06", ">= 0.06")


def halved(x, y):
    for _ in range(25):
        x = x / 2 if x > 3.0 else x * 1.3 - 0.2
    return x * y


def halved_until(x, y):
    for _ in range(25):
        if x > 3.0:
            x = x / 2
        elif x < 0.125:
            break
        else:
            x = x * 1.3 - 0.2
    return x * y


def late(x, y):
    s = 0.0
    for _ in range(40):
        s = s + 0.1 * x
        if s > 3.0:
            s = s - y
    return s


def scanned(x, y):
    c, ys = sg.scan(lambda c, _: (np.where(c > 3.0, 0.5 * c, 1.3 * c - y),) * 2, x, length=25)
    return c + np.sum(ys)


@pytest.mark.slow
@pytest.mark.parametrize("function", [halved, halved_until, late, scanned])
def test_thresholds_in_bodies_of_loops(function):
    """Each comparison, also of the derivative, is close to its boundary in some iteration: not where it only jumps."""
    model = model_for(function, "float64[]", "float64[]", optimize=1)
    text = model.compiled.source
    assert verdict_on(text, "same.py", model)
    lines = text.split("\n")
    compared = [i for i, line in enumerate(lines) if "> 3.0" in line and "#" not in line]
    assert compared
    for i, other in product(compared, ("> 3.003", "> 2.997")):
        edited = "\n".join([*lines[:i], lines[i].replace("> 3.0", other), *lines[i + 1 :]])
        assert not verdict_on(edited, "edited.py", model), edited


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 14, 16])
def test_branches_of_random_programs(seed):
    """The command ``python -m tests.edits`` does so with a thousand edits."""
    subject = edits.at_random(seed)
    text = subject.model.compiled.source
    branching = [*edits.KINDS][7:]
    found = [e for e in edits.planted(text) if e.kind in branching]
    for edit in edits.in_turn(found, seed, 5):
        verdict = verdict_on(edit.text, "edited.py", subject.model)
        assert not verdict or edits.shows(subject, edit.text, 100) is None, edit
    for kind, new in [*edits.equivalent(text, subject.model.function).items()][seed % 2 :: 2]:
        assert verdict_on(new, "edited.py", subject.model), kind


@pytest.mark.parametrize(("old", "new"), [("x > 0.5", "x >= 0.5"), ("x > 0.5", "x - 0.5 >= 0")])
def test_a_boundary_belongs_to_one_side(old, new):
    """The side that an exact boundary belongs to is seen where an argument is compared."""
    model = model_for(lambda x: np.sum(np.where(x > 0.5, np.sin(x), x)), "float64[n]", optimize=1)
    found = verdict_of(model, old, new)
    assert not found and "0.5" in found.point["x"]
    assert verdict_of(model, old, "0.5 < x")


def test_branches_behind_branches_are_seen():
    """A point counts where the results depend on the branch."""
    f = lambda x, y: np.sum(np.where((x > 10.0) & (y < 20.0), np.where(x - y > 35.0, x * y, x), y))
    model = model_for(f, "float64[n]", "float64[n]", optimize=1)
    for old, new in (("> 35.0", "> 35.01"), ("< 20.0", "< 20.001"), ("> 10.0", "> 9.999")):
        assert not verdict_of(model, old, new)


TOGETHER = {
    "coupled": lambda x, y: np.where((x > 22.95) & (x + y < 17.84), 0.5 * x + y, x + y),
    "both": lambda x, y: np.where((x[::-1] > -10.98) & (np.cumsum(x) < -8.08), x[::-1], np.cumsum(x)) * y,
    "one of two": lambda x, y: np.where((np.sin(x) > -0.08) | (np.exp(-x * x) <= 0.56), np.exp(-x * x), 0.5) * y,
    "close": lambda x, y: np.where((x * y > 0.28) | (x[::-1] <= 1.17), x + y, 0.5),
    "three": lambda x, y: np.where((x > 4.5) & ~(y > 20.5) & (x * y < 60.5), x * y, y),
    "one in the other": lambda x, y: np.where(x > 12.5, np.where(x - y > 35.5, x * y, x), y),
    "a maximum": lambda x, y: np.where(x > 12.5, np.maximum(x * y, -30.5), y),
    "an absolute value": lambda x, y: np.where(y <= -7.5, np.abs(x - 8.5), x * y),
    "limits": lambda x, y: np.where(y <= -7.5, np.clip(x, 3.5, 5.5), x) * y,
    "bins": lambda x, y: np.where(y > 6.5, np.digitize(x, np.array([-9.5, 1.5])) * y, x),
    "the nearest": lambda x, y: np.max(np.where(x[:, None] + y > 2.5, y, 1.5), axis=1) * x,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_conditions_that_decide_only_together(name):
    """Each threshold is seen at points where the other conditions are such that it decides, each term of a mask too."""
    f, level = TOGETHER[name], LEVELS[[*TOGETHER].index(name) % len(LEVELS)]
    model = model_for(lambda x, y: np.sum(f(x, y) * np.cos(y)), "float64[n]", "float64[n]", optimize=level)
    text = model.compiled.source
    verdict = verdict_on(text, "same.py", model)
    assert verdict and verdict.unreached == ()
    subject = edits.Subject(name, model, lambda rng: [*rng.normal(size=(2, rng.integers(1, 9)))])
    found = [e for e in edits.planted(text) if e.kind in ("threshold", "mask", "buffer", "direction")]
    chosen = edits.in_turn(found, level, 8)
    accepted = [edit for edit in chosen if verdict_on(edit.text, "edited.py", model)]
    assert [edit for edit in accepted if edits.shows(subject, edit.text, 100) is not None] == []
    assert len(accepted) < len(chosen) / 2


@pytest.mark.slow
def test_buffers_that_hold_what_one_branch_reads(usual_sizes):
    """A value in the wrong buffer is seen although only one side of a mask reads what stood there."""
    f = lambda x, y, s: np.sum(np.where(x > -36.77, np.log1p(np.abs(x)), x) * x * s * np.cos(y))
    model = model_for(f, "float64[n]", "float64[n]", "float64[]")
    text = model.compiled.source
    assert "_in_parts" in text and verdict_on(text, "same.py", model)
    subject = edits.Subject("in blocks", model, edits.some_numbers)
    chosen = [edit for edit in edits.planted(text) if edit.kind == "buffer"][::2]
    accepted = [edit for edit in chosen if verdict_on(edit.text, "edited.py", model)]
    assert [edit for edit in accepted if edits.shows(subject, edit.text, 100) is not None] == []


ENDED = """
def f(x, s):
    for k in range(9):
        if s > 2.37:
            break
        s = s + 0.3 + 0.1 * np.sum(x * x)
    return s * np.sum(x)
"""


def test_loops_that_their_count_ends(tmp_path):
    """The last test of a loop may end it in the very last iteration, and then no number of iterations shows."""
    model = with_source(tmp_path, ENDED, "float64[n]", "float64[]", optimize=1)
    assert verdict_on(model.compiled.source, "same.py", model)
    for other in ("range(8)", "range(10)"):
        assert not verdict_of(model, "range(9)", other)


def test_what_rounding_alone_decides_is_no_missed_edit():
    """The halves of the inverse of a matrix that is nearly singular agree in few digits."""
    text = "import numpy as np\n\n\ndef f(a):\n    b = np.linalg.inv(a @ a.T)\n    return b[0, 1]\n"
    nearly = np.array([[1.0, 1e7, 3.0], [1.0, 1e7 + 1e-5, 3.0], [0.3, 2.0, -1e-4]])
    for a, most in ((nearly, np.inf), (np.array([[2.0, 1.0], [-1.0, 3.0]]), 1e-12)):
        whole, turned = np.linalg.inv(a @ a.T)[[0, 1], [1, 0]]
        noise = edits.sensitivity(text, "f", [a], [np.asarray(whole)])
        assert abs(whole - turned) <= noise <= most


def test_a_branch_of_the_file_alone_is_seen():
    model = model_for(lambda x: np.sum(np.sin(x)), "float64[n]", optimize=1)
    for condition in ("x > 123.25", "np.less(x, -77.0)", "np.abs(x - 55.0) < 0.5"):
        found = verdict_of(model, "return value, d_x", f"return value, np.where({condition}, 0.0, d_x)")
        assert not found and "np.where" in found.text


ADDED = [
    "if s > 12.5:", "if s == 3.0:", "if not s != -4.0:", "if s in (3.0, 8.0):", "while s > 1e3:", "if 6.5 < s < 7:",
    "if math.isclose(s, 5.5):", "if s > 10.5 and x[0] > 7:", "if np.any(x > 99.5):", "if np.allclose(x, 2.5):",
    "if x[0] == 3.0:", "if 2 * s + 1 > 44.5:", "if np.linalg.norm(x) > 50:", "if max(s, 30.5) != 30.5:",
    "if any(v < -77.0 for v in x):", "if np.count_nonzero(x == 9.25):", "for _ in range(int(s) - 40):",
]  # fmt: skip


@pytest.mark.parametrize("condition", ADDED)
def test_a_branch_that_was_added_is_seen(condition):
    """A condition of the file alone is met on both sides, or on the boundary where nothing else tells."""
    model = model_for(lambda x, s: np.sum(np.sin(x)) * np.cos(s), "float64[2]", "float64[]", optimize=1)
    rest = "\n        break" if condition.startswith("while") else ""
    edited = f"    {condition}\n        value = value + 1.5{rest}\n    return value, d_x"
    text = model.compiled.source.replace("    return value, d_x", edited)
    verdict = verdict_on(f"import math\n{text}", "edited.py", model)
    assert not verdict and "value + 1.5" in verdict.text


BOUNDS = [
    "s.clip(1e5)", "s.clip(min=1e5)", "np.clip(s, 1e5, None)", "np.clip(s, a_min=1e5, a_max=None)", "np.max([s, 1e5])",
    "np.nanmax((s, 1e5))", "np.sort([s, 1e5])[1]", "sorted((s, 1e5))[1]", "1e5 + np.searchsorted([1e5], s)",
    "1e5 + np.digitize(s, [1e5])", "1e5 + np.interp(s, [1e5, 1e6], [0, 1])",
]  # fmt: skip


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_that_was_added_is_seen(bound):
    """Bounds above 1e5 alone, some in lists or given by name: nothing else changes a result."""
    model = model_for(lambda x, s: np.sum(np.sin(x)) * np.cos(s), "float64[2]", "float64[]", optimize=1)
    assert not verdict_of(model, "return value, d_x", f"return value, d_x + ({bound} - 1e5)")


@pytest.mark.parametrize(
    "term",
    [
        "np.exp(-((x - 40.123) ** 2))", "np.exp(-(((x + 40.123) / 1e-3) ** 2))", "1 / (1 + np.exp(-(x - 5000)))",
        "np.exp(s - 700)", "1e-3 * np.exp(-np.abs(s * x[0] - 300))",
    ],
)  # fmt: skip
def test_a_smooth_term_that_was_added_is_seen(term):
    """Terms that are nothing but near a number of the file alone, which is far from the usual points."""
    model = model_for(lambda x, s: np.sum(np.where(x > 1.5, x**2, s * x)), "float64[n]", "float64[]", optimize=1)
    found = verdict_of(model, "return value, d_x", f"return value, d_x + {term}")
    assert not found and term[:6] in found.text


def test_a_branch_is_seen_where_rounding_leaves_digits():
    """A point at which an exponential overflows, or makes all the noise, tells nothing: another one does."""
    model, end = model_of("logistic", 2), "    return value, d_w"
    assert not verdict_of(model, end, f"    if w[0] == 400.0:\n        value = value + 4.5\n{end}")


def test_added_branches_of_random_programs():
    """Each is seen, or its line stands in what was not reached."""
    model = edits.at_random(2).model
    for edit in edits.with_branches(model.compiled.source, model, 2, 3):
        verdict = verdict_on(edit.text, "edited.py", model)
        lines = [f"in line {edit.line + i} " for i in range(3)]
        assert not verdict or any(line in note for note in verdict.unreached for line in lines), edit.text


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        ("s > 1e300", "`s > 1e+300` in line {} is False"),
        ("s == 3.0 and s == 4.0", "`s == 4.0` in line {} is False"),
        ("np.shape(x)[0] > 10**9", "`np.shape(x)[0] > 10 ** 9` in line {} is False"),
        ("s.hex() == '0x1.8p+1'", "`s.hex() == '0x1.8p+1'` in line {} is False"),
    ],
)
def test_a_branch_that_was_added_and_not_reached_is_said(condition, note):
    model = model_for(lambda x, s: np.sum(np.exp(x)) * np.exp(s), "float64[n]", "float64[]", optimize=1)
    text = model.compiled.source.replace(
        "    return value", f"    if {condition}:\n        value = 0.0\n    return value"
    )
    line = 1 + text.split("\n").index(f"    if {condition}:")
    assert verdict_on(model.compiled.source, "same.py", model).unreached == ()
    verdict = verdict_on(text, "edited.py", model)
    assert verdict and any(note.format(line) in each for each in verdict.unreached), verdict


@pytest.mark.slow
def test_thresholds_behind_a_loop_of_the_length_of_an_argument(tmp_path):
    """More iterations than those of usual points are worth it for a branch of the file alone."""
    model = with_source(tmp_path, LASTING, "float64[]", "float64[]", optimize=1)
    text, end = model.compiled.source, "    return value, d_p"
    for condition in ("T > 8.5", "T == 3.0"):
        assert not verdict_of(model, end, f"    if {condition}:\n        value = 0.0\n{end}")
    verdict = verdict_on(text.replace(end, f"    if T > 1e3:\n        value = 0.0\n{end}"), "edited.py", model)
    assert verdict and "`T > 1000.0`" in verdict.unreached[0]


LASTING = """
def f(p, T):
    y = 1.0
    t = 0.0
    while t < T:
        y = y - 0.1 * p * y
        t = t + 0.1
    return y * y
"""


def test_what_was_not_reached_is_said():
    model = model_for(lambda x: np.sum(np.where(np.exp(x) > -3.0, x, 2 * x)), "float64[n]", optimize=1)
    verdict = verdict_on(model.compiled.source, "f.py", model)
    assert verdict and len(verdict.unreached) == 1
    assert "what np.greater compares in test_verify.py:" in verdict.unreached[0]
    assert "a change there is not seen" in str(verdict)


LOOP = """
def f(a):
    x = a
    while abs(x**3 - a) > 1e-9 * a:
        x = x - (x - a / x**2) / 3
    return x
"""


@pytest.mark.slow
def test_loops_that_their_test_ends(tmp_path):
    """With some arguments the model itself has no end: these are left out."""
    model = with_source(tmp_path, LOOP, 8.0, optimize=1)
    assert verdict_on(model.compiled.source, "f.py", model)
    for new in ("1e-08 * a", "1.05e-09 * a", "9e-10 * a"):
        assert not verdict_of(model, "1e-09 * a", new)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("> t1:", "> -1:", "> -1:"),
        ("    while abs(x * x * x - a) > t1:", "    while True:", "while True:"),
        ("        x = x - (x - t5) / 3", "        x = x", "x = x"),
        ("    t2 = []", "    t2 = [0 for _ in iter(lambda: 1, 0)]", "iter(lambda"),
        ("    t2 = []", "    t2 = []\n    for _ in iter(lambda: 1, 0):\n        pass", "for _ in iter"),
    ],
)
def test_a_loop_without_an_end_is_told(tmp_path, monkeypatch, old, new, line):
    monkeypatch.setattr("symgrad.verification.checking.is_foreign", lambda nodes: False)
    verdict = verdict_of(with_source(tmp_path, LOOP, 8.0, optimize=1), old, new)
    assert "it does not end: loops have run more than" in verdict.fact
    assert line in verdict.text


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs another process")
@pytest.mark.parametrize("call", ["sum(itertools.count())", "collections.deque(iter(int, 1), 0)"])
def test_a_loop_inside_of_a_c_function_is_told(monkeypatch, call):
    monkeypatch.setattr("symgrad.verification.trial.PATIENCE", 10.0)
    model = model_for(logistic, "float64[d]", "float64[n, d]", "float64[n]", optimize=1)
    text = model.compiled.source.replace(
        "import numpy as np\n", "import collections\nimport itertools\n\nimport numpy as np\n", 1
    )
    assert verdict_on(text.replace("    return", "    next(itertools.count())\n    return"), "f.py", model)
    monkeypatch.setattr("symgrad.verification.trial.PATIENCE", 1.0)
    verdict = verdict_on(text.replace("    return", f"    {call}\n    return"), "f.py", model)
    assert "it does not end" in verdict.fact and call in verdict.text


def test_what_rounding_leaves_of_a_zero_is_no_difference():
    """The model has a zero, since its terms are equal; those of the file differ by rounding, and it has 1e-33."""
    model = model_for(lambda x, y: np.sum((x * y - y * x) ** 2) * np.sum(x), "float64[n]", "float64[n]", optimize=0)
    text = model.compiled.source
    product = re.search(r"(t\d+) = t1 \* y", text)[0]
    assert verdict_on(text.replace(product, product.replace("t1 * y", "(t1 / 3) * (y * 3)")), "f.py", model)
    assert not verdict_on(text.replace(product, product + " * (1 + 1e-6)"), "f.py", model)
    assert not verdict_on(text.replace(product, product + " + 1e-8"), "f.py", model)


def test_thresholds_in_half_precision():
    def clipped(x):
        return np.sum(np.where(x > 0.3, x * x, np.maximum(x, -2.5)))

    model = model_for(clipped, "float16[n]", optimize=1)
    assert verdict_of(model, "return value, d_x", "return value, d_x  # as it was")
    assert not verdict_of(model, "x > 0.3", "x > 0.4")


# ---- NaN and infinity


def softplus(x):
    return np.sum(np.log(1 + np.exp(x)))


@pytest.mark.slow
def test_a_guard_that_does_not_guard_is_a_fault():
    """The model has no guard: it overflows there as the file does, which has one."""
    model = model_for(logistic, "float64[d]", "float64[n, d]", "float64[n]", optimize=2)
    for threshold in ("710.0", "711.127", "2836.0"):
        verdict = verdict_of(model, "709.0", threshold)
        assert f", {threshold}" in verdict.text and "the model's is" in verdict.fact
    assert verdict_of(model, "709.0", "709.5")  # at which nothing overflows


def test_the_file_may_be_finite_where_the_model_is_not():
    model = model_for(softplus, "float64[n]", optimize=1, numerics="ieee")
    assert "np.log(1 + " in model.compiled.source
    stable = model.compiled.source
    stable = stable[: stable.index("    # ")] + "    return np.sum(np.logaddexp(0.0, x)), 1 / (1 + np.exp(-x))\n"
    assert verdict_on(stable, "f.py", model)
    assert not verdict_on(stable.replace("0.0, x", "0.1, x"), "f.py", model)


def test_the_file_may_be_as_the_model_or_as_what_was_saved():
    model = model_for(softplus, "float64[n]", optimize=1)
    text = model.compiled.source
    assert "logaddexp" in text
    assert verdict_on(text.replace("np.logaddexp(0.0, x)", "np.log(1 + np.exp(x))"), "f.py", model)


def test_a_nan_of_its_own_is_a_difference():
    model = model_for(lambda x: np.sum(np.sqrt(x**2 + 1)), "float64[n]", optimize=1)
    at_zero = verdict_of(model, "return value, d_x", "return value, d_x * (x / x)")
    assert not at_zero and "nan" in at_zero.fact
    large = verdict_of(model, "return value, d_x", "return value, d_x * (np.exp(x) / np.exp(x))")
    assert not large and "nan" in large.fact


def test_infinities_of_the_model_are_kept():
    model = model_for(lambda x: np.sum(np.where(x == 0, -np.inf, x)), "float64[n]", optimize=1)
    assert verdict_on(model.compiled.source, "f.py", model)
    assert not verdict_of(model, "-np.inf", "-1e300")


# ---- the line


def straight(x, y):
    a = x * y
    b = np.sin(a) + x
    c = np.exp(-b)
    return np.sum(c * a)


@cache
def straight_model():
    return model_for(straight, "float64[n]", "float64[n]", optimize=0)


def line_of(text, part):
    return next(i for i, line in enumerate(text.split("\n"), 1) if part in line)


def edited(old, new):
    model = straight_model()
    text = model.compiled.source
    assert text.count(old) == 1, text
    return text.replace(old, new), model


def test_the_first_line_that_differs_is_named():
    text, model = edited("t2 = np.sin(", "t2 = np.cos(")
    verdict = verdict_on(text, "f.py", model)
    assert (verdict.line, verdict.until) == (line_of(text, "t2 = np.cos("), None)
    assert "np.cos(" in verdict.text
    assert f"line {verdict.line} gives " in verdict.values and "the model's gives" in verdict.values
    assert str(verdict).startswith(f"f.py differs from its model, in line {verdict.line}\n")
    assert [*verdict.point] == ["n", "x", "y"]


def test_a_fault_in_a_new_line_is_between_lines():
    text, model = edited("    c = np.exp(t3)", "    p = np.pi\n    c = p / 3 * np.exp(t3)")
    verdict = verdict_on(text, "f.py", model)
    assert verdict.line == line_of(text, "c = p")
    text, model = edited("    return", "    b = 2 * b\n    value = np.sum(np.exp(-b) * a)\n    return")
    verdict = verdict_on(text, "f.py", model)
    assert verdict.line <= line_of(text, "b = 2 * b") <= (verdict.until or verdict.line)


def test_a_line_that_is_missing_is_named(whole):
    model = model_for(lambda x: np.sum((x[1:] - x[:-1]) ** 3) + np.sum(x**3), "float64[n]")
    line = next(line for line in model.compiled.source.split("\n") if "d_x[" in line)
    verdict = verdict_of(model, line + "\n", "")
    assert not verdict
    assert f"before it this is missing: {line.strip()}" in str(verdict)


def test_a_line_that_raises_is_named():
    text, model = edited("t2 = np.sin(", "t2 = np.sine(")
    verdict = verdict_on(text, "f.py", model)
    assert verdict.line == line_of(text, "t2 = np.sine(")
    assert "it raises AttributeError: module 'numpy' has no attribute 'sine'" in verdict.fact


def test_writing_into_an_argument_is_a_difference():
    text, model = edited("    return", "    x *= 1.0\n    np.add(y, 1, out=y)\n    return")
    assert "it writes into its arguments" in verdict_on(text, "f.py", model).fact


MEMORY = [
    ("d_x = np.cos(x)", "d_x = np.cos(x, out=kept[:, : x.shape[1]])", "returns memory that its next call writes into"),
    ("return value, d_x", "x[0] = 0\n    return value, d_x", "it writes into its arguments"),
    ("d_x = np.cos(x)", "d_x = np.cos(x.ravel('K')).reshape(x.shape)", "with arrays that are not contiguous"),
    ("d_x = np.cos(x)", "d_x = np.cos(np.frombuffer(x.data)).reshape(x.shape)", "it raises BufferError"),
]


@pytest.mark.parametrize(("old", "new", "fact"), MEMORY)
def test_memory_that_is_not_its_own_is_told(old, new, fact):
    model = model_for(lambda x: np.sum(np.sin(x)), "float64[3, n]", optimize=1)
    text = f"{model.compiled.source}\n\nkept = np.zeros((3, 99))\n".replace(old, new)
    assert fact in verdict_on(text, "f.py", model).fact


def test_an_argument_that_is_returned_is_told():
    model = model_for(lambda x: 0.5 * np.sum(x * x), "float64[n]", optimize=1)
    assert verdict_on(model.compiled.source, "f.py", model)
    assert "it returns memory of its arguments" in verdict_of(model, "x.copy()", "x").fact


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("def straight_value_and_grad(x, y)", "def other(x, y)", "it has no function straight_value_and_grad"),
        ("grad(x, y):", "grad(x, z):", "takes (x, z), the model takes (x, y)"),
        ("grad(x, y):", "grad(x, y, z):", "takes (x, y, z), the model takes (x, y)"),
        ("grad(x, y):", "grad(x):", "takes (x), the model takes (x, y)"),
        ("import numpy as np", "import nimpy as np", "cannot be loaded: ModuleNotFoundError"),
        ("return value, d_x", "return [value, d_x]", "it returns [*, *], the model returns (*, *)"),
        ("return value, d_x", "return value, d_x[None]", "is float64[1, 3], the model's is float64[3]"),
        ("return value, d_x", "raise SystemExit(3)", "it raises SystemExit: 3"),
    ],
)
def test_what_is_not_as_the_model(old, new, fact):
    text, model = edited(old, new)
    verdict = verdict_on(text, "f.py", model)
    assert not verdict
    assert fact in verdict.fact


def test_a_parameter_more_with_a_default_is_no_difference():
    text, model = edited("grad(x, y):", "grad(x, y, *, verbose=False):")
    assert verdict_on(text, "f.py", model)


# ---- files


MODEL = """import numpy as np
import symgrad as sg

scale = 2.0


def loss(w, X, y):
    return scale * np.mean((X @ w - y) ** 2)


@sg.value_and_grad
def decorated(w):
    return np.sum(w**3)


class Model:
    def energy(self):
        return 0.0
"""
SPECS = ("float64[d]", "float64[n, d]", "float64[n]")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a model, and the model as a module."""
    (tmp_path / "verified_model.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "verified_model", raising=False)
    return tmp_path, __import__("verified_model")


def test_the_manifest_names_the_model(project):
    folder, model = project
    path = sg.value_and_grad(model.loss).compile(*SPECS).save(folder / "gradient.py")
    verdict = sg.verify(path)
    assert verdict and verdict.notes == ()
    assert str(verdict).startswith(
        "gradient.py agrees with its model\n  Value and gradient of loss (verified_model.py:7)"
    )
    assert {"d", "n"} == set(verdict.sizes[0])
    before = path.read_text()
    path.write_text(
        before.replace("def loss_value_and_grad", "# edited\ndef loss_value_and_grad").replace(" / n)", ")")
    )
    assert path.read_text() != before.replace("def loss", "# edited\ndef loss")
    edited = path.read_text()
    assert not sg.verify(path)
    assert path.read_text() == edited


def test_a_script_that_verifies_what_it_has_saved_is_run_once(tmp_path, capsys):
    lines = [
        "from pathlib import Path",
        "print('run')",
        "program = sg.grad(loss).compile('float64[d]', 'float64[n, d]', 'float64[n]')",
        "print(bool(sg.verify(program.save(Path(__file__).with_name('saved.py')))))",
    ]
    (tmp_path / "script.py").write_text(MODEL + "\n".join(lines))
    runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
    assert capsys.readouterr() == ("run\nTrue\n", "")
    assert sg.verify(tmp_path / "saved.py")  # from elsewhere, too
    assert capsys.readouterr() == ("", "run\nTrue\n")


def test_a_model_that_saves_itself_leaves_the_edit(tmp_path):
    (tmp_path / "script.py").write_text(
        f"{MODEL}\nfrom pathlib import Path\n"
        "program = sg.grad(loss).compile('float64[d]', 'float64[n, d]', 'float64[n]', optimize=1)\n"
        "program.save(Path(__file__).with_name('saved.py'), overwrite=True)\n"
    )
    runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
    path = tmp_path / "saved.py"
    edited = path.read_text().replace("return d_w", "return 2 * d_w")
    path.write_text(edited)
    assert "return 2 * d_w" in sg.verify(path).text
    assert path.read_text() == edited


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"optimize": 1}, {"optimize": 0, "numerics": "ieee"}])
def test_transforms_and_options_are_those_of_the_file(project, options):
    folder, model = project
    nested = sg.hessian(model.loss, **options).compile(*SPECS).save(folder / "second.py")
    assert sg.verify(nested)
    assert sg.verify(sg.grad(model.decorated.__wrapped__.__wrapped__).compile("float64[3]").save(folder / "third.py"))
    assert sg.verify(nested, sg.hessian(model.loss))
    assert sg.verify(nested, sg.hessian(model.loss).compile(*SPECS))
    assert sg.verify(nested, sg.hessian(model.loss).trace(*SPECS))
    assert not sg.verify(nested, sg.hessian(lambda w, X, y: model.loss(w, X, y) * 1.001))


def test_a_model_that_has_changed_is_said_so(project):
    folder, model = project
    path = sg.grad(model.loss).compile(*SPECS).save(folder / "gradient.py")
    file = folder / "verified_model.py"
    file.write_text(MODEL.replace("    return scale", "    # as before\n    return scale"))
    verdict = sg.verify(path)
    assert verdict
    assert verdict.notes == (
        "verified_model.py has changed since gradient.py was saved: this is about loss as it is now",
    )
    assert verdict.notes[0] in str(verdict)
    file.write_text(MODEL.replace("scale = 2.0", "scale = 3.0"))
    verdict = sg.verify(path)
    assert not verdict and verdict.notes


def test_what_cannot_be_found_is_refused(project):
    folder, model = project
    path = sg.grad(model.loss).compile(*SPECS).save(folder / "gradient.py")
    of_lambda = sg.grad(lambda w: np.sum(w**2)).compile("float64[n]")
    alone = of_lambda.save(folder / "alone.py")
    with pytest.raises(
        ArgumentError, match=r"'alone\.py' does not say how to make its program again: .*\n(.*\n)*.*Give sg.verify"
    ):
        sg.verify(alone)
    assert sg.verify(alone, of_lambda)
    with pytest.raises(ArgumentError, match=r"function is a function"):
        sg.verify(alone, np.sin.__class__ and (lambda x: x))
    file = folder / "verified_model.py"
    file.write_text(MODEL.replace("loss", "cost"))
    with pytest.raises(
        ArgumentError, match=r"the model of 'gradient\.py' is not there.*\n(.*\n)*.*Its functions are cost"
    ):
        sg.verify(path)
    file.write_text("import nimpy")
    with pytest.raises(ArgumentError, match=r"fails while it is loaded: ModuleNotFoundError"):
        sg.verify(path)
    file.write_text("def loss(w):\n    return w")
    with pytest.raises(ArgumentError, match=r"cannot be traced for the arguments of 'gradient\.py'"):
        sg.verify(path)
    file.unlink()
    with pytest.raises(ArgumentError, match=r"the model of 'gradient\.py' is not there"):
        sg.verify(path)
    with pytest.raises(ArgumentError, match=r"cannot be read"):
        sg.verify(folder / "none.py")


def test_a_file_that_is_not_python(project):
    folder, model = project
    path = sg.grad(model.loss).compile(*SPECS).save(folder / "gradient.py")
    path.write_text(path.read_text().replace("    return d_w", "    return (d_w"))
    verdict = sg.verify(path)
    assert not verdict
    assert verdict.fact == "it is not Python: '(' was never closed"
    assert verdict.text == "    return (d_w"
    assert repr(verdict) == f"<Verdict: gradient.py differs from its model, in line {verdict.line}>"


def test_a_verdict_is_plain_json():
    model = in_blocks()
    for text in (model.compiled.source, model.compiled.source.replace("-2.0", "-2.1")):
        verdict = verdict_on(text, "f.py", model)
        found = json.loads(json.dumps(verdict.to_json()))
        assert found["agrees"] == bool(verdict)
        assert (found["line"], found["file"]) == (verdict.line, "f.py")


def test_constants_beside_the_file_are_read(tmp_path):
    table = np.linspace(0.0, 1.0, 500)
    program = sg.grad(lambda x: np.sum(np.sin(table * x))).compile(0.5)
    path = program.save(tmp_path / "table.py")
    assert list(tmp_path.glob("*.npz"))
    assert sg.verify(path, program)
    for file in tmp_path.glob("*.npz"):
        file.unlink()
    verdict = sg.verify(path, program)
    assert "cannot be loaded: FileNotFoundError" in verdict.fact
    assert "np.load" in verdict.text


# ---- points


def program_of(*specs):
    return sg.compile(lambda *args: [2 * x for x in args]).trace(*specs)


def test_sizes_are_distinct_and_as_assumed():
    program = sg.compile(lambda x, y: np.zeros(x.shape[0] - 5) + np.sum(x @ y)).trace("float64[n, d]", "float64[d, 3]")
    sizes = some_sizes(program)
    assert sizes["n"] >= 5 and sizes["d"] not in (3, sizes["n"])
    assert some_sizes(program, 1)["n"] >= 5
    assert some_sizes(program, large={"n": 100})["n"] == 100
    assert some_sizes(program, 7, reverse=True)["d"] != sizes["d"]


def test_numbers_are_the_same_everywhere():
    assert uniform(3, 0).tolist() == [0.8833108082136426, 0.43152799704850997, 0.026433771592597743]
    assert uniform(1, 1) != uniform(1, 0)
    many = uniform(4000, 7)
    assert many.min() >= 0 and many.max() < 1 and abs(many.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(many[1:], many[:-1])[0, 1]) < 0.05


def test_points_have_the_form_of_the_arguments():
    tree = {"W": "float64[n, 3]", "b": "int32[n]"}
    program = sg.compile(lambda p, x, *, scale: p["W"] * x * scale).trace(tree, 1.0, scale="bool[]")
    point = next(usual(program, {"n": 4}))
    (params, x), kwargs = call(program, point)
    assert params["W"].shape == (4, 3) and params["b"].dtype == np.int32 and 0 <= params["b"].min() < 3
    assert type(x) is float and kwargs["scale"].dtype == bool
    params["W"][:] = 0
    assert np.any(call(program, point)[0][0]["W"])  # copies


def test_kinds_of_numbers():
    program = program_of("float64[3, 3]")
    matrix = drawn(program, {}, ["definite"], 0).leaves[0]
    assert np.all(np.linalg.eigvalsh(matrix) > 0) and np.array_equal(matrix, matrix.T)
    shares = drawn(program, {}, ["shares"], 0).leaves[0]
    np.testing.assert_allclose(shares.sum(axis=1), 1)


# ---- rounding


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_rounded_numbers_are_near(dtype):
    x = (4 * uniform(100, 3) - 2).astype(dtype)
    x[:4] = 0, -0.0, np.inf, np.nan
    for seed in range(4):
        y = rounded(x, seed)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(np.abs(y[:4]), np.abs(x[:4]))
        assert np.any(x[4:] != y[4:])
        np.testing.assert_allclose(y[4:], x[4:], rtol=17 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(rounded(-x, seed), -y)
    assert type(rounded(0.5, 1)) is float
    assert rounded(np.arange(3), 1).tolist() == [0, 1, 2]


def noise_of(f, *args, **options):
    program = sg.compile(f, optimize=0).trace(*args)
    values = Rounding(program.graph, args, {}).at(args, {}, **options)
    return [float(np.max(n)) for n in values.noise]


def test_noise_is_that_of_rounding():
    x = 4 * uniform(20, 1) - 2
    (plain,) = noise_of(np.sin, x)
    assert 1e-16 < plain < 1e-14
    (cancelled,) = noise_of(lambda x: (x + 1e8) - 1e8, x)
    assert 1e-9 < cancelled < 1e-6
    assert noise_of(lambda x: np.max(x) == x, x) == [0.0]  # what is picked is not rounded
    assert noise_of(lambda x: x[::-1], np.zeros(3)) == [0.0]


def test_where_numbers_are_alike_cancellation_is_no_truth():
    """The sum may be taken in another order, and is not 0 then."""
    alike = np.full(3, 0.7)
    assert noise_of(lambda x: x[0] - x[1], alike) == [0.0]
    (noise,) = noise_of(lambda x: x[0] - x[1], alike, special=True)
    assert 1e-16 < noise < 1e-15


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.log(x - 50)),  # far from where anybody looks
        lambda x: np.sum(np.sin((x + 1e30) - 1e30 + 1e17 * x)),  # rounding and nothing else
        lambda x: np.sum(x) * np.nan,
    ],
)
def test_what_no_point_tells_is_refused(f):
    model = model_for(f, "float64[n]", optimize=1)
    with pytest.raises(ArgumentError, match="is NaN, infinite or all rounding at all the arguments"):
        verdict_on(model.compiled.source, "f.py", model)


def test_results_that_are_zero_are_compared():
    for f in (lambda x: np.sum(x > 5) + 0 * np.sum(x), lambda x: np.sum(np.exp(x) / np.sum(np.exp(x)))):
        model = model_for(f, "float64[n]", optimize=1)
        assert verdict_on(model.compiled.source, "f.py", model)


def test_a_link_to_a_file_finds_its_model(tmp_path):
    (tmp_path / "model.py").write_text("def f(x):\n    return x * x\n")
    path = sg.grad(load_function("model.py:f", tmp_path)).compile("float64[]").save(tmp_path / "slope.py")
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "slope.py"
    try:
        link.symlink_to(path)
    except OSError:
        pytest.skip("no links here")
    assert sg.verify(link)


def test_lines_are_counted_as_python_does(tmp_path):
    """A form feed ends no line."""
    program = sg.grad(lambda x: np.sum(np.sin(x))).compile("float64[n]", optimize=1)
    path = program.save(tmp_path / "slope.py")
    path.write_text(path.read_text().replace("import numpy as np\n", "import numpy as np\n# \f page\n", 1))
    path.write_text(path.read_text().replace("= np.cos(x)", "= -np.cos(x)"))
    assert sg.verify(path, program).text.strip().startswith("d_x = -np.cos(x)")


def test_a_part_of_the_program_without_a_form_in_the_file_is_asked_for(tmp_path):
    """A static value without a form in the file would be taken for the word that the manifest has in its place."""
    (tmp_path / "model.py").write_text("def f(x, double):\n    return 2 * x if double else x\n")
    model = load_function("model.py:f", tmp_path)
    program = sg.grad(model, static_argnames="double").compile("float64[]", frozenset())
    path = program.save(tmp_path / "slope.py")
    with pytest.raises(ArgumentError, match="cannot be written to a file"):
        sg.verify(path)
    assert sg.verify(path, program)


def absorbed(p, t, y):
    """Rounding decides for tiny t whether the difference of two exponentials has a logarithm: both are 1."""
    ka, ke, volume = np.exp(p["ka"]), np.exp(p["ke"]), np.exp(p["volume"])
    concentration = 100.0 * ka / (volume * (ka - ke)) * (np.exp(-ke * t) - np.exp(-ka * t))
    return np.sum((np.log(concentration) - np.log(y)) ** 2)


@pytest.mark.slow
def test_where_rounding_decides_what_is_finite_nothing_is_wrong(tmp_path):
    specs = {"ka": "float64[]", "ke": "float64[]", "volume": "float64[]"}, "float64[n]", "float64[n]"
    program = sg.value_and_grad(absorbed).compile(*specs, optimize=1)
    path = program.save(tmp_path / "absorbed_grad.py")
    text = path.read_text()
    exponentials = sorted(set(re.findall(r"np\.exp\(-\w+_2 \* t\)", text)))
    assert len(exponentials) == 2
    for exponential in exponentials:
        path.write_text(text.replace(exponential, f"1 / {exponential.replace('-', '')}"))
        assert sg.verify(path, program)
        path.write_text(text.replace(exponential, f"1.001 * {exponential}"))
        assert not sg.verify(path, program)
