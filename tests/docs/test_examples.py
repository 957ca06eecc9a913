"""The examples do what they say, and what they show stays as it was read: golden files in tests/golden."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import symgrad as sg
from tests.folders import EXAMPLES, ROOT

BARE = """
import sys
sys.modules["symgrad"] = None  # importing it would fail
import pickle, runpy
path, function, arguments, result = sys.argv[1:]
with open(arguments, "rb") as f:
    args = pickle.load(f)
with open(result, "wb") as f:
    pickle.dump(runpy.run_path(path)[function](*args), f)
"""


def load(name):
    specification = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def in_another_process(tmp_path, source, function, args):
    """Return the result of a generated module where symgrad is not installed."""
    arguments, result = tmp_path / "arguments", tmp_path / "result"
    arguments.write_bytes(pickle.dumps(args))
    command = [sys.executable, "-W", "error", "-c", BARE, str(source), function, str(arguments), str(result)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return pickle.loads(result.read_bytes())


def assert_trees_close(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (list, tuple)):
        for x, y in zip(a, b, strict=True):
            assert_trees_close(x, y)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_digits_reaches_95_percent(capsys):
    reached = load("digits").main()
    assert len(reached) == 2
    assert min(reached.values()) > 0.95, reached
    assert capsys.readouterr().out.count("def loss_value_and_grad(params, x, labels, decay):") == 2


def test_newton_converges_quadratically(capsys):
    norms = load("logistic_newton").main()
    assert norms[-1] < 1e-10
    assert len(norms) < 15
    for before, after in zip(norms[-4:-2], norms[-3:-1], strict=True):  # the last step ends in rounding
        assert after < before**1.5
    out = capsys.readouterr().out
    assert "98.8% of 569 tumours" in out
    assert "def derivatives(w, X, y, decay):" in out


def test_graph_door_agrees_with_closed_forms(capsys):
    module = load("graph_door")
    _, x, _, _, derivatives = module.build()
    points = np.linspace(-3, 3, 13)
    for found, expected in zip(sg.function([x], derivatives)(points), module.closed_form(points), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    module.main()
    out = capsys.readouterr().out
    assert "sines and cosines in it: 1 and 1" in out
    assert out.endswith("9.0\n")


def test_mixture_gradient_is_right(capsys):
    module = load("gmm")
    module.main(3, 4, 50)
    args = module.example(3, 4, 50)
    value, gradients = sg.value_and_grad(module.loss, argnums=(0, 1, 2, 3))(*args)
    np.testing.assert_allclose(value, plain_mixture(*args), rtol=1e-12)
    rng = np.random.default_rng(1)
    for i, gradient in enumerate(gradients):
        direction, step = rng.normal(size=gradient.shape), 1e-5
        up, down = ([*args[:i], args[i] + s * direction, *args[i + 1 :]] for s in (step, -step))
        numeric = (plain_mixture(*up) - plain_mixture(*down)) / (2 * step)
        np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-6)
    assert "def loss_value_and_grad(alpha, mu, q, l, x):" in capsys.readouterr().out


def test_optimisers_agree_on_the_minimum(capsys):
    curves, decays, tin, crossing = load("optimise").main()
    for p in curves.values():
        np.testing.assert_allclose([p["centre"], p["height"], np.exp(p["log_width"])], [0.7, 1.5, 0.4], atol=0.03)
        np.testing.assert_allclose(p["line"], curves["trust-exact"]["line"], atol=1e-4)
    np.testing.assert_allclose(np.exp(decays["log_rates"]), [3, 0.5], rtol=1e-6)
    np.testing.assert_allclose(decays["amounts"], [2, 1], rtol=1e-6)
    np.testing.assert_allclose(tin["height"], 2 * tin["radius"], rtol=1e-4)  # the cheapest is as high as it is wide
    np.testing.assert_allclose(np.pi * tin["radius"] ** 2 * tin["height"], 330, rtol=1e-6)
    np.testing.assert_allclose([crossing["x"] ** 2 + crossing["y"] ** 2, crossing["x"] ** 2 - 1], [4, crossing["y"]])
    assert "trust-exact centre 0.7" in capsys.readouterr().out


def plain_mixture(alpha, mu, q, l, x):
    """The same likelihood, component by component with matrices."""
    logits = []
    for a, m, logs, low in zip(alpha, mu, q, l, strict=True):
        factor = np.diag(np.exp(logs))
        factor[np.tril_indices(len(m), -1)] = low
        logits.append(a + logs.sum() - 0.5 * (((x - m) @ factor.T) ** 2).sum(1))
    return len(x) * np.log(np.exp(alpha).sum()) - np.log(np.exp(logits).sum(0)).sum()


# ---- golden sources


def digits_program(sizes):
    module = load("digits")
    rng = np.random.default_rng(0)
    params = module.initial(rng, sizes)
    specs = params, "float64[n, 64]", "int64[n]", 1e-4
    return sg.value_and_grad(module.loss), specs, (params, rng.normal(size=(7, 64)), rng.integers(10, size=7), 1e-4)


def newton_program():
    rng = np.random.default_rng(0)
    args = rng.normal(size=3), rng.normal(size=(8, 3)), np.where(np.arange(8) % 3, 1.0, -1.0), 0.5
    return sg.compile(load("logistic_newton").derivatives), ("float64[d]", "float64[n, d]", "float64[n]", 0.5), args


def mixture_program():
    module = load("gmm")
    args = module.example(4, 5, 20)
    specs = *args[:4], "float64[n, 4]"
    return sg.value_and_grad(module.loss, argnums=(0, 1, 2, 3)), specs, tuple(args)


GOLDEN = {
    "digits_softmax.py": lambda: digits_program((64, 10)),
    "digits_network.py": lambda: digits_program((64, 64, 10)),
    "logistic_newton.py": newton_program,
    "gmm.py": mixture_program,
}


def test_source_of_the_graph_is_golden(golden):
    _, x, _, y, derivatives = load("graph_door").build()
    golden("graph_door.py", sg.function([x], [y, *derivatives]).source)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_generated_source_is_golden_and_stands_alone(name, golden, tmp_path):
    function, specs, args = GOLDEN[name]()
    path = golden(name, function.source(*specs))
    result = in_another_process(tmp_path, path, function.__name__, args)
    assert_trees_close(result, function(*args))


@pytest.mark.parametrize("name", GOLDEN)
def test_saved_module_stands_alone(name, tmp_path):
    function, specs, args = GOLDEN[name]()
    path = function.compile(*specs).save(tmp_path / "saved.py")
    assert_trees_close(in_another_process(tmp_path, path, function.__name__, args), function(*args))


@pytest.mark.slow
def test_source_is_the_same_in_every_process():
    code = "from tests.docs import test_examples as t\n"
    code += "for program in t.GOLDEN.values():\n    function, specs, _ = program()\n    print(function.source(*specs))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].count("_grad(") >= 3
