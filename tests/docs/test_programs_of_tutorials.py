"""The programs of tutorials learn what they should, and the gallery shows what the examples print."""

from __future__ import annotations

import contextlib
import io
import re
from functools import cache, partial

import numpy as np
import pytest
from optree import tree_leaves, tree_map
from threadpoolctl import threadpool_limits

import symgrad as sg
from tests.docs.test_examples import load
from tests.folders import EXAMPLES, ROOT

GALLERY = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "pictures"
SIZES = {  # arguments of main, where less than it does shows the same
    "characters": {"iterations": 40},
    "convnet_digits": {"epochs": 16},
    "accumulate": {"steps": 100},
    "equilibrium": {"steps": 100},
    "fine_tuning": {"epochs": 12},
    "hyperparameters": {"turns": 10},
    "lstm": {"iterations": 300},
    "out_of_core": {"rows": 30_000},
    "private_digits": {"steps": 150},
    "split_network": {"steps": 300},
    "style_transfer": {"size": 24, "steps": 40},
    "two_heads": {"epochs": 5, "count": 800},
}
UNTRAINED = {  # arguments of main for what it prints of its source
    "accumulate": {"steps": 1},
    "out_of_core": {"rows": 1000},
    "characters": {"iterations": 0},
    "convnet_digits": {"epochs": 0},
    "equilibrium": {"steps": 1},
    "fine_tuning": {"epochs": 0},
    "hyperparameters": {"turns": 1},
    "lstm": {"iterations": 0},
    "private_digits": {"steps": 0},
    "split_network": {"steps": 1},
    "style_transfer": {"size": 8, "steps": 1},
    "two_heads": {"epochs": 0, "count": 1},
}


@pytest.fixture(autouse=True)
def with_what_they_share(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def loaded(name):
    """An example, or no test where Pillow is not installed that it needs."""
    if name == "style_transfer":
        pytest.importorskip("PIL")
    return load(name)


def run(name, sizes=SIZES):
    """Return the result of an example's main, and its output."""
    return run_once(name, **sizes.get(name, {}))


@cache
def run_once(name, **options):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = loaded(name).main(**options)
    return result, out.getvalue()


def drawn_as_shown(picture, tmp_path, request):
    """Whether an example draws the picture that the gallery shows."""
    shown, drawn = PICTURES / f"{picture}.svg", tmp_path / f"{picture}.svg"
    with contextlib.redirect_stdout(io.StringIO()):
        load(picture).main(drawn)
    if request.config.getoption("--update-golden"):
        shown.write_bytes(drawn.read_bytes())
    return shown.read_bytes() == drawn.read_bytes()


# ---- what they claim


def test_both_ends_of_a_chain_have_their_gradients(tmp_path, request):
    (of_mean, of_total), _ = run("chain")
    np.testing.assert_array_equal(of_mean, [1, 2, 3, 4])  # of mean(2 a**2): 4 a / n
    np.testing.assert_array_equal(of_total, [4, 8, 12, 16])
    assert drawn_as_shown("chain", tmp_path, request)


def test_tape_and_graph_have_the_same_number(tmp_path, request):
    (by_tape, first, second), _ = run("deep_learning_6_5")
    np.testing.assert_allclose(first, by_tape, rtol=1e-14)
    symbol_to_value, step = load("deep_learning_6_5").symbol_to_value, 1e-6
    np.testing.assert_allclose(second, (symbol_to_value(1 + step) - symbol_to_value(1 - step)) / (2 * step), rtol=1e-8)
    assert drawn_as_shown("deep_learning_6_5", tmp_path, request)


def test_the_line_is_that_of_least_squares():
    found, out = run("line_fit")
    np.testing.assert_allclose(found, np.polyfit(*load("line_fit").points(), 1), atol=1e-4)
    assert out.count("o") > 20 < out.count(".")


def test_gradients_of_two_parts_are_those_of_the_whole():
    (difference, first, last), _ = run("split_network")
    assert difference < 1e-14
    assert last < first / 2


def test_a_frozen_base_is_fine_tuned(usual_sizes):
    (base, tuned), out = run("fine_tuning")
    assert base > 0.95
    assert tuned > 0.8  # one in five by chance
    assert "d_head_W" in out
    assert "d_base" not in out


@pytest.mark.slow
def test_two_heads_share_what_is_computed_once(usual_sizes):
    (reached, difference), out = run("two_heads")
    assert list(reached) == ["together", "one after the other"]
    assert np.min(list(reached.values())) > 0.8  # a half by chance
    assert difference < 1e-14
    source = out[out.index("def both") :]
    assert source.count("= np.lib.stride_tricks.sliding_window_view(") == 2  # one a layer: forward, and once
    assert source.count("d_first_W = ") == source.count("d_first_W_2 = ") == 1


def test_digits_are_learned_in_private():
    module = load("private_digits")
    rng = np.random.default_rng(0)
    params, x, labels = module.initial(rng, 5), rng.random((7, 64)), rng.integers(10, size=7)
    expected = {key: np.zeros_like(value) for key, value in params.items()}
    lengths = []
    for row, label in zip(x, labels, strict=True):
        own = sg.grad(module.loss)(params, row, label)
        lengths.append(np.sqrt(sum(np.sum(g**2) for g in own.values())))
        for key, g in own.items():
            expected[key] += min(1, 3.5 / lengths[-1]) * g
    found = sg.compile(module.clipped_sum)(params, x, labels, 3.5)
    assert min(lengths) < 3.5 < max(lengths)
    for key, total in expected.items():
        np.testing.assert_allclose(found[key], total, rtol=1e-12, atol=1e-14)
    reached, _ = run("private_digits")
    assert min(reached.values()) > 0.9, reached


def test_the_lstm_remembers_both_numbers(usual_sizes):
    (reached, blind), _ = run("lstm")
    assert reached < 0.01 < 0.5 < blind


def test_the_convolution_network_reads_digits(usual_sizes):
    reached, _ = run("convnet_digits")
    assert reached > 0.97


def test_data_on_disk_give_the_weights_they_were_made_with(usual_sizes):
    cosine, out = run("out_of_core")
    assert cosine > 0.99
    assert "1 round" in out


def test_accumulated_gradients_read_digits(usual_sizes):
    reached, _ = run("accumulate")
    assert reached > 0.95


def test_the_photograph_comes_out_of_noise(usual_sizes, tmp_path):
    (noise, found), out = run("style_transfer")
    assert found < noise / 3
    before, after = re.search(r"style_loss: from (\S+) to (\S+) ", out).groups()
    assert float(after) < float(before) / 5
    module = load("style_transfer")
    with contextlib.redirect_stdout(io.StringIO()):
        module.main(tmp_path / "pictures.png", size=8, steps=1)
    with module.Image.open(tmp_path / "pictures.png") as picture:
        assert picture.size == (40, 8)


# ---- their gradients, at sizes at which finite differences are cheap


def convnet(rng):
    module = load("convnet_digits")
    return module.loss, (module.initial(rng), rng.random((3, 8, 8, 1)), np.array([0, 9, 4])), 0


def tuned_head(rng):
    module = load("fine_tuning")
    base, head = [module.dense(rng, 6, 5), module.dense(rng, 5, 4)], module.dense(rng, 4, 5)
    return module.loss, (base, head, rng.random((7, 6)), np.arange(7) % 5), 1


def two_heads(loss, rng):
    module = load("two_heads")
    return getattr(module, loss), (module.initial(rng), *module.pictures(rng, 3)), 0


def lstm(rng):
    module = load("lstm")
    params = module.initial(rng, 3) | {"answer": rng.normal(size=4)}  # which is zero at first, and so its slopes
    return module.loss, (params, *module.problems(rng, 5, 4)), 0


def style(loss, rng):
    module = loaded("style_transfer")
    network = [module.filters(rng, n, 4) for n in (3, 4, 4)]
    x, y = rng.random((2, 8, 8, 3))
    wanted = module.features(y, network)
    grams = [module.gram(feature) for feature in wanted]
    return getattr(module, loss), (x, network, wanted[1], *([grams] if loss == "style_loss" else [])), 0


LOSSES = {
    "convnet": convnet,
    "tuned head": tuned_head,
    "cat": partial(two_heads, "cat_loss"),
    "both heads": partial(two_heads, "together"),
    "lstm": lstm,
    "content": partial(style, "content_loss"),
    "style": partial(style, "style_loss"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name):
    rng = np.random.default_rng(0)
    f, args, argnum = LOSSES[name](rng)
    direction = tree_map(lambda x: rng.normal(size=x.shape), args[argnum])

    def at(size):
        moved = tree_map(lambda x, d: x + size * d, args[argnum], direction)
        return f(*args[:argnum], moved, *args[argnum + 1 :])

    with threadpool_limits(1, "blas"):
        gradient = sg.grad(f, argnum)(*args)
        numeric = (at(1e-6) - at(-1e-6)) / 2e-6
    along = sum(np.sum(g * d) for g, d in zip(tree_leaves(gradient), tree_leaves(direction), strict=True))
    np.testing.assert_allclose(along, numeric, rtol=1e-6)


def test_an_equilibrium_tells_spirals_apart():
    right, out = run("equilibrium")
    assert right > 0.97
    assert "def loss_value_and_grad(params, x, arm):" in out


@pytest.mark.slow
def test_a_circuit_makes_all_zeros_or_all_ones():
    (missing, state), _ = run("quantum_circuit")
    assert missing < 1e-3
    np.testing.assert_allclose(np.sum(np.abs(state) ** 2), 1)
    circuit = load("quantum_circuit")
    sg.check_grads(circuit.infidelity, (np.random.default_rng(1).normal(size=(circuit.LAYERS, circuit.QUBITS, 2)),))


def test_penalties_of_their_own_predict_better():
    (alike, each), _ = run("hyperparameters")
    assert each < 0.8 * alike


@pytest.mark.slow
def test_rates_are_found_from_counts():
    (found, error), _ = run("ode_fit")
    true = load("ode_fit").TRUE["rates"]
    assert np.all(np.abs(found["rates"] - true) < 3 * error)
    assert np.all(error < 0.1 * true)


def test_variances_are_found_by_a_filter():
    (found, errors), _ = run("kalman")
    for name, true in load("kalman").TRUE.items():
        assert abs(found[name] - np.log(true)) < 3 * errors[name] < 1


@pytest.mark.slow
def test_characters_are_foreseen():
    (before, after), _ = run("characters")
    assert after < before


# ---- the gallery

QUOTED = re.compile(r"^```(text|py)\n(.*?)^```$", re.M | re.S)


def sections():
    """The gallery by example."""
    _, *parts = re.split(r"^(## `\w+\.py`.*)$", GALLERY.read_text(encoding="utf-8"), flags=re.M)
    return {re.search(r"(\w+)\.py", title)[1]: text for title, text in zip(parts[::2], parts[1::2], strict=True)}


def renewed(quoted, out):
    """Return the output from the first to the last line of a quotation, found by the names in them."""
    first, *_, last = map(named, quoted.splitlines())
    lines = out.splitlines()
    names = list(map(named, lines))
    assert first in names, f"nothing prints {first!r}"
    start = names.index(first)
    assert last in names[start + 1 :], f"nothing prints {last!r} behind {first!r}"
    return "\n".join(lines[start : names.index(last, start + 1) + 1]) + "\n"


def named(line):
    return line if line.lstrip().startswith("#") else line.partition(" = ")[0]


def test_every_example_is_in_the_gallery():
    programs = {path.stem for path in EXAMPLES.glob("*.py") if "\nif __name__" in path.read_text(encoding="utf-8")}
    assert set(sections()) >= {name for name in programs if not name.startswith("from_")}


@pytest.mark.slow
@pytest.mark.parametrize("name", sections())
def test_the_gallery_quotes_what_is_printed(name, usual_sizes, request):
    section, (_, out) = sections()[name], run(name, UNTRAINED)
    assert QUOTED.search(section) or "](pictures/" in section
    new = QUOTED.sub(lambda quoted: f"```{quoted[1]}\n{renewed(quoted[2], out)}```", section)
    if request.config.getoption("--update-golden"):
        GALLERY.write_text(GALLERY.read_text(encoding="utf-8").replace(section, new), encoding="utf-8")
    else:
        assert new == section


def test_pictures_of_the_gallery_are_there_and_small():
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", GALLERY.read_text(encoding="utf-8"))
    assert len(shown) >= 3
    for path in shown:
        assert (GALLERY.parent / path).stat().st_size < 100_000, path


def test_an_initial_state_is_found_from_a_later_one():
    (true, found), out = run("burgers")
    assert np.max(np.abs(found - true)) < 0.02
    assert "for _ in range(40):" in out
    assert "np.fft.irfft(" in out.partition("in reversed(kept)")[2]
    module = load("burgers")
    observed, start = module.flow(true), 0.5 * true
    sg.check_grads(lambda x: module.misfit(x, observed), (start,), order=1)
