"""Reports on programs are true: rewrites, stages, costs, loops, and reasons."""

from __future__ import annotations

import contextlib
import json
import pickle
import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import tree
from symgrad.core.axes import aligned
from symgrad.core.interpret import interpret
from symgrad.core.recording import Applied
from symgrad.core.text import duration
from symgrad.report.profile import Timers, instrumented
from symgrad.rewrite.rules import effect_of
from tests.others import dynamics, learning, likelihoods


def loss(w, X, y):
    margin = y * (X @ w)
    return np.mean(np.log(1 + np.exp(-margin)))


pytestmark = pytest.mark.usefixtures("usual_sizes")

SPECS = "float64[d]", "float64[n, d]", "float64[n]"
LINE = loss.__code__.co_firstlineno
MARGIN, MEAN = f"test_report.py:{LINE + 1}", f"test_report.py:{LINE + 2}"


def reported(f=loss, args=SPECS, **options):
    return sg.value_and_grad(f).compile(*args, **options).explain()


# ---- rewrites

LETTERS = re.compile(r"(?<![\w.\"])[a-z](?!\w|=)")

OTHERS = {
    name: program
    for module in (likelihoods, learning, dynamics)
    for name, program in module.PROGRAMS.items()
    if name not in ("fluid", "GPT, tokens in an array", "advection", "double pendulum")  # like others, or no number
}


def differentiable(args):
    """The first argument that has a gradient."""
    return next(i for i, x in enumerate(args) if all(np.asarray(leaf).dtype.kind == "f" for leaf in tree.flatten(x)[0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_both_sides_of_each_rewrite_agree(name):
    f, args = OTHERS[name]
    compiled = sg.value_and_grad(f, argnums=differentiable(args)).compile(*args)
    made, log = compiled._recorded
    traced = made.program.graph
    arrays, sizes = compiled.guard.taken_apart(args, {})
    early = [Applied(rule, "canonicalise", x, y, traced, {}) for rule, x, y in traced.rewrites]
    assert [*early, *log.rewrites]
    for rule, stage, before, after, graph, image in (*early, *log.rewrites):
        feeds = dict(zip(graph.inputs, arrays.values(), strict=True))
        origin = {y: x for x, y in image.items()}
        with np.errstate(all="ignore"):
            (x,) = interpret([before], {origin.get(y, y): value for y, value in feeds.items()}, sizes)
            (y,) = interpret([after], feeds, sizes)
        if effect_of(rule) == "nothing":
            np.testing.assert_array_equal(x, y, f"{rule} in {stage}")
        else:
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12 * np.max(np.abs(y), initial=0), err_msg=f"{rule}")
    if name in ("LSTM", "Kalman filter", "finite volumes", "Cox", "GPT"):
        check_letters(compiled.explain().rewrites)


def check_letters(rewrites):
    """The right side of a rewrite is made of what stands on its left."""
    for x in rewrites:
        if "..." not in x.before and x.rule != "product_from_parts":  # which takes a product that is there already
            after = re.sub(r'"[^"]*"', "", x.after)  # the letters of an einsum are labels
            assert set(LETTERS.findall(after)) <= set(LETTERS.findall(x.before)), x


def test_a_rewrite_says_what_became_of_which_line():
    found = {(x.rule, x.where): x for x in reported(optimize=1).rewrites}
    softplus = found["logaddexp_number", MEAN]
    assert (softplus.before, softplus.after) == ("log(1 + exp(-margin))", "logaddexp(0.0, -margin)")
    assert softplus.changes == "nan"
    slope = found["logistic_by_exponential", f"derivative of {MEAN}"]
    assert (slope.before, slope.after) == ("logistic(-margin)", "1 / (1 + exp(margin))")
    assert found["sign_of_product", f"derivative of {MEAN}"].changes == "nothing"


def test_ieee_leaves_out_what_changes_a_nan():
    found = reported(optimize=2, numerics="ieee").rewrites
    assert found
    assert "nan" not in {x.changes for x in found}


def test_a_rule_that_does_the_same_at_a_line_counts():
    def chain(x):
        for _ in range(7):
            x = np.sin(x) - (-x)
        return np.sum(x)

    times = {x.rule: x.times for x in reported(chain, ("float64[3]",), optimize=1).rewrites}
    assert times["sign_of_term"] == 7


def test_passes_are_rewrites_as_well():
    def common(x, y, z):
        return np.sum(2 * x * y * z + 3 * x * y * z)

    specs = ("float64[20, 30]",) * 3
    found = {x.rule: x for x in sg.compile(common).compile(*specs).explain().rewrites}
    assert found["collect"].before == "2 * x * y * z + 3 * x * y * z"
    assert found["collect"].after == "5 * x * y * z"
    assert found["collect"].changes == "nan"
    assert "collect" not in {x.rule for x in sg.compile(common, numerics="ieee").compile(*specs).explain().rewrites}


# ---- stages


def test_stages_are_those_that_run():
    names = [[x.name for x in reported(optimize=level).stages] for level in (0, 1, 2)]
    first, branches = ["open_checkpoints", "fuse_loops"], ["join_branches", "simplify_branches"]
    assert names[0] == [*first, "drop_dead_results", "drop_dead", "checks_first", "emit", "load"]
    simpler = [*first, *branches, "drop_dead_results", "inline_constants", "simplify", "collect", "reuse_values"]
    last = ["choose_residuals", "simplify_branches", "drop_dead_results", "hoist_invariants", "drop_dead_results"]
    last += ["lower_logistic", "drop_dead", "checks_first", "copy_views", "emit", "load"]
    assert names[1] == [*simpler, *last]
    assert [x for x in names[2] if x != "use_factors"][: len(simpler)] == simpler
    assert names[2][-5:] == ["nest", "collapse_batch", "keep_columns", "emit", "load"]


def test_stages_count_what_they_leave():
    report = reported(optimize=1)
    compiled = sg.value_and_grad(loss).compile(*SPECS, optimize=1)
    by_name = {x.name: x for x in report.stages}
    assert by_name["drop_dead"].nodes == len(compiled.graph.nodes) < report.traced
    assert by_name["emit"].lines == compiled.source.count("\n")
    assert all(x.milliseconds >= 0 and x.about for x in report.stages)


# ---- lines


def test_lines_add_up_to_the_cost():
    shapes = "float64[5]", "float64[40, 5]", "float64[40]"
    report = reported(args=shapes, optimize=1)
    assert sum(x.flops for x in report.lines) == report.cost.flops
    assert sum(x.bytes for x in report.lines) == report.cost.bytes
    assert sum(x.share for x in report.lines) == pytest.approx(1)
    assert [x.where for x in report.lines] == [MARGIN, f"derivative of {MARGIN}", MEAN, f"derivative of {MEAN}"]
    assert report.lines[0].text == "margin = y * (X @ w)"
    assert report.lines[0].flops == 2 * 40 * 5 + 40


# ---- loops


def test_a_loop_says_what_it_goes_over():
    (loop,) = reported().loops
    assert loop.over == ("X axis 0", "y axis 0")
    assert str(loop.size) == "n"
    assert loop.sums == 2
    assert loop.threads


def test_what_is_computed_before_a_loop():
    def distances(a, b, x):
        centre = np.exp(a) @ b
        return np.sum((x - centre) ** 2)

    (loop,) = reported(distances, ("float64[30, 30]", "float64[30]", "float64[n, 30]")).loops
    assert [text.split("  ")[1] for text in loop.hoisted] == ["centre"]


def test_rows_of_neighbours():
    (loop,) = reported(lambda x: np.sum(np.sqrt(np.tanh(x[1:] - x[:-1]) + 2)), ("float64[200000]",)).loops
    assert loop.halo > 0


@pytest.mark.parametrize(
    ("f", "args", "options", "says"),
    [
        (loss, SPECS, {"optimize": 1}, "optimize=1 writes no loops"),
        (np.sin, ("float64[]",), {}, "numbers alone"),
        (lambda x: np.sum(np.exp(x)), ("float64[50]",), {}, "no value has 4,096 numbers: 50 at most"),
        (lambda x: np.sum(x), ("float64[5000]",), {}, "blocks could not save anything"),
        (lambda x: np.sum(np.exp(x[:, None] * x)), ("float64[900]",), {}, "along 900: saves"),
        (loss, SPECS, {}, "along n: saves"),
        (loss, SPECS, {}, "as estimated, for 300,000 rows"),
    ],
)
def test_why_it_is_in_loops_or_is_not(f, args, options, says):
    report = reported(f, args, **options)
    assert says in "\n".join(report.reasons)


def test_what_a_second_loop_computes_again(tiny_blocks):
    def centred(x):
        y = x + 1
        return np.sum((y - np.sum(y * y, axis=0)) ** 3)

    report = sg.compile(centred).compile("float64[n, 4]").explain()
    assert len(report.loops) == 2
    line = centred.__code__.co_firstlineno + 1
    assert report.again == [f"in loop 2, rather than read: add of test_report.py:{line}"]


def test_what_a_checkpoint_computes_again():
    report = sg.grad(lambda x: np.sum(sg.checkpoint(np.tanh)(x) ** 2)).compile("float64[40]").explain()
    assert any(text.startswith("test_report.py") for text in report.again)


# ---- the whole


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_json_says_all(optimize):
    report = reported(optimize=optimize)
    found = json.loads(json.dumps(report.to_json()))
    assert found["traced"] == report.traced
    assert [x["rule"] for x in found["rewrites"]] == [x.rule for x in report.rewrites]
    assert found["lines"][0]["flops"] == str(report.lines[0].flops)
    assert found["options"] == {"optimize": optimize, "numerics": "stable", "threads": None}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPT", "mixture", "RNN", "Kalman filter"])
def test_the_text_is_narrow_and_always_the_same(name):
    f, args = OTHERS[name]
    compiled = sg.value_and_grad(f, argnums=differentiable(args)).compile(*args)
    texts = [str(compiled.explain()) for _ in range(2)]
    assert max(map(len, texts[0].split("\n"))) <= 100
    first, second = ([line[:80] for line in text.split("\n")] for text in texts)  # milliseconds stand behind
    assert first == second


def test_names_of_any_text():
    compiled = sg.grad(lambda p: np.sum(np.exp(p["a\u202e\n# b"]))).compile({"a\u202e\n# b": "float64[3]"})
    for text in (
        str(compiled.explain()),
        str(compiled.profile({"a\u202e\n# b": np.ones(3)})),
        str(sg.diff(compiled, compiled)),
    ):
        assert all(line.isprintable() for line in text.split("\n"))
    other = sg.grad(lambda p: np.sum(np.sin(p["a\u202e\n# b"]))).compile({"a\u202e\n# b": "float64[3]"})
    assert all(line.isprintable() for line in str(sg.diff(compiled, other)).split("\n"))


def test_times_have_units():
    assert list(map(duration, (2.5, 0.9999, 1e-3, 999.96e-6, 1.234e-5, 3e-8, 0.0))) == [
        "2.5 s", "1 s", "1 ms", "1 ms", "12.3 us", "30 ns", "0 ns",
    ]  # fmt: skip


def test_a_program_from_another_process_knows_its_rewrites():
    compiled = sg.grad(loss).compile(*SPECS)
    assert pickle.loads(pickle.dumps(compiled)).explain().rewrites == compiled.explain().rewrites


def test_explaining_changes_nothing():
    compiled = sg.value_and_grad(loss).compile(*SPECS)
    source = compiled.source
    compiled.explain()
    assert compiled.source == source
    assert compiled._recorded[0].source == source


def test_names_of_stages_stand_apart_from_what_they_do():
    report = reported()
    lines = str(report).splitlines()
    for stage in report.stages:
        first = stage.about.split()[0]
        assert any(re.match(rf"  {stage.name} +{re.escape(first)}", line) for line in lines), stage.name


# ---- profiles

NESTED = """
def f(n):
    work(1)

    def share(start):
        for i in range(start):
            x = work(10)
        return work(100)

    if n:
        y = share(3)
    with nothing(work(1000)):
        work(10000)
    return work(100000)
"""


def ticking():
    """A clock, and work that takes the time it is told."""
    now = [0.0]

    def work(seconds):
        now[0] += seconds
        return seconds

    return (lambda: now[0]), work


def test_a_line_counts_what_it_does_itself():
    clock, work = ticking()
    timers = Timers(20, clock)
    namespace = {**timers.names, "work": work, "nothing": contextlib.nullcontext}
    exec(compile(instrumented(NESTED), "f", "exec"), namespace)
    work(7)  # before the call
    timers.start()
    assert namespace["f"](2) == 100000
    assert {i: t for i, t in enumerate(timers.seconds) if t} == {3: 1, 7: 30, 8: 100, 12: 1000, 13: 10000, 14: 100000}
    assert timers.calls[7] == 3
    assert timers.calls[11] == 1
    timers.clear()
    namespace["f"](0)
    assert timers.calls[7] == timers.calls[11] == 0


def test_what_passes_before_a_function_belongs_to_the_line_that_calls_it():
    clock, work = ticking()
    timers = Timers(20, clock)

    def around(f):
        work(5)
        return f() + work(3)

    text = "def f():\n    def share():\n        return work(1)\n    return around(share)\n"
    namespace = {**timers.names, "work": work, "around": around}
    exec(compile(instrumented(text), "f", "exec"), namespace)
    timers.start()
    namespace["f"]()
    assert {i: t for i, t in enumerate(timers.seconds) if t} == {3: 1, 4: 8}


@pytest.mark.parametrize(("n", "optimize"), [(10, 1), (50_000, 2)])
def test_lines_take_as_long_as_the_whole(n, optimize, monkeypatch):
    """By a clock that advances a second for each number of which a function is computed."""
    clock, work = ticking()
    monkeypatch.setattr("symgrad.report.profile.perf_counter", clock)
    half = sg.operator(
        lambda x: 0.5 * x + 0 * work(np.size(x)),
        name="half",
        infer=lambda x: x,
        vjp=lambda g, y, x: (0.5 * g,),
        signature=aligned,
    )

    def loss(w, X, y):
        return np.mean(np.log(1 + np.exp(half(y * (X @ w)))))

    args = np.ones(20), np.ones((n, 20)), np.ones(n)
    compiled = sg.value_and_grad(loss).compile(*SPECS, optimize=optimize)
    profile = compiled.profile(*args)
    assert profile.timed == pytest.approx(profile.seconds) == pytest.approx(n)
    assert sum(line.share for line in profile.lines) == pytest.approx(1)
    assert profile.hottest[0].seconds == pytest.approx(n)
    assert "half(" in profile.hottest[0].text
    assert "\n".join(line.text for line in profile.lines).replace(", threads=1", "") in compiled.source


def test_a_profile_names_lines_of_the_source_and_of_the_user():
    compiled = sg.value_and_grad(loss).compile(*SPECS)
    profile = compiled.profile(np.ones(3), np.ones((1_000_000, 3)), np.ones(1_000_000))
    by_text = {line.text.strip().partition("  #")[0]: line for line in profile.lines}
    (blocks,) = {line.calls for line in profile.lines if "out=" in line.text}
    assert blocks > 1
    assert by_text["margin = np.multiply(y_, t3, out=s1)"].where == MARGIN
    assert by_text["value = t1 / n"].where == MEAN
    assert by_text["value = t1 / n"].calls == 1
    assert by_text["y_ = y[i:j]"].where == MARGIN  # reading an argument is not blamed on the `def`
    assert f"test_report.py:{LINE}" not in profile.by_where
    assert sum(profile.by_where.values()) == pytest.approx(1)
    assert profile.hottest[0].seconds == max(line.seconds for line in profile.lines)
    assert MARGIN in str(profile)
    assert json.loads(json.dumps(profile.to_json()))["lines"][-1]["calls"] == 1


def test_numbers_are_profiled_where_they_run():
    profile = sg.grad(lambda x: np.sin(np.sin(x)) ** 2).compile(0.3).profile(0.3)
    ran = [line.text.split("(")[0].strip() for line in profile.lines if line.calls]
    assert ran == [
        "try:",
        "t1 = math.sin",
        "t2 = math.sin",
        "d_x = 2.0 * t2 * math.cos",
        "return np.float64",
    ]


def talking(x):
    print("hello", x[0])
    return np.sum(x * x)


def test_a_profile_shows_once_what_a_program_prints(capsys):
    compiled = sg.grad(talking).compile("float64[3]")
    capsys.readouterr()
    assert compiled.profile(np.ones(3)).seconds > 0
    assert capsys.readouterr().out.count("hello") == 1


def test_a_profile_takes_arguments_as_the_program_does():
    compiled = sg.grad(lambda p: np.sum(p["w"] ** 3)).compile({"w": "float64[n]"}, optimize=1)
    assert compiled.profile(p={"w": np.ones(3)}).seconds > 0
    with pytest.raises(sg.errors.SymgradError):
        compiled.profile(3)
