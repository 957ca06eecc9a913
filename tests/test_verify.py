"""Edited modules: what changes a result is found, with its line; what does not is accepted."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple

import edits
import numpy as np
import pytest

import symgrad as sg
from symgrad.export.model import Model
from symgrad.export.checking import verdict_on

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


CASES = {
    "logistic": Case(sg.value_and_grad(logistic), ("float64[d]", "float64[n, d]", "float64[n]"), normal("d", "nd", "n")),
    "network": Case(
        sg.value_and_grad(network),
        ({"W1": "float64[d, h]", "b1": "float64[h]", "W2": "float64[h]"}, "float64[n, d]", "float64[n]"),
        lambda rng, n: [dict(zip(("W1", "b1", "W2"), normal("dh", "h", "h")(rng, n))), *normal("nd", "n")(rng, n)],
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
EDITS, REWRITES = 10, 3  # of each program at each level
each_program = pytest.mark.parametrize("level", LEVELS)
each_case = pytest.mark.parametrize("name", CASES)


@cache
def model_of(name, level):
    case = CASES[name]
    compiled = case.function.compile(*case.specs, optimize=level)
    return Model(case.function.compile(*case.specs, optimize=0).program, compiled.run.__name__, lambda: compiled)


@cache
def arguments(name):
    """Arguments of several sizes, without a part of symgrad."""
    rng = np.random.default_rng(5)
    sizes = [dict(zip("ndhkm", 3 + rng.permutation(6))) for _ in range(6)]
    sizes.append(dict(zip("ndhkm", (40, 3, 4, 5, 41))))
    return [CASES[name].draw(rng, each) for each in sizes]


def results(text, function, points):
    """What a module gives at points: numbers, or the error."""
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
    return any(x.shape != y.shape or not np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True) for x, y in zip(a, b))


@cache
def planted(name, level):
    """Edits of all kinds in turn that change a result, as the results themselves say."""
    model, points = model_of(name, level), arguments(name)
    text, right = model.compiled.source, results(model.compiled.source, model.function, points)
    found = edits.planted(text, model.function)
    order = np.random.default_rng(level).permutation(len(found))
    queues = {kind: [found[i] for i in order if found[i].kind == kind] for kind in edits.KINDS}
    chosen = []
    while len(chosen) < EDITS:
        for queue in queues.values():
            while queue and len(chosen) < EDITS:
                edit = queue.pop()
                if any(map(is_other, results(edit.text, model.function, points), right)):
                    chosen.append(edit)
                    break
    return chosen


@each_case
@each_program
def test_planted_edits_are_caught(name, level):
    model, missed, strayed = model_of(name, level), [], []
    for edit in planted(name, level):
        verdict = verdict_on(edit.text, "edited.py", model)
        if verdict:
            missed.append(edit)
        elif verdict.line is None or not verdict.line - 1 <= edit.line <= (verdict.until or verdict.line) + 1:
            strayed.append((edit, verdict))
    assert missed == []
    assert len(strayed) <= EDITS // 10, "\n\n".join(f"{e.kind} in line {e.line}\n{v}" for e, v in strayed)
