"""The cases of the benchmarks: symgrad agrees with what was written by hand, at small sizes and without the peers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from optree import tree_leaves, tree_map

from tests.folders import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import compile_time
import costs
import figures
import firing
import orders
import report
import run
import split
import turns
from cases import CASES
from contestants import CONTESTANTS, ByHand, FromSpecs, Symgrad
from report import geometric_mean, ratio, table
from timing import TOLERANCE, Measured, compared
from worker import Failed, Late

import symgrad as sg
from symgrad import analysis

SMALL = {
    (case.model.by_hand, case.dtype): case for case in CASES if max(case.sizes.values(), default=0) < 1e7
}.values()  # of cases of one program, the last; ten million numbers are drawn for a second


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_symgrad_agrees_with_what_is_written_by_hand(case):
    reference = ByHand().numbers(ByHand().prepare(case, case.args(small=True, dtype="float64"))())
    for contestant in Symgrad(check_first=False), ByHand():  # the reference tells more than an interpreter of each turn
        error, wrong = compared(
            contestant.numbers(contestant.prepare(case, case.args(small=True))()), reference, case.dtype
        )
        assert not wrong
        assert error < TOLERANCE[case.dtype] / 10


@pytest.mark.parametrize("case", [case for case in SMALL if case.model.wrt], ids=lambda case: case.name)
def test_what_is_written_by_hand_has_the_slope_of_the_loss(case):
    """By a finite difference along a random direction: the reference of all does not lean on symgrad."""
    args, rng = case.args(small=True, dtype="float64"), np.random.default_rng(1)
    direction = tree_map(lambda x: rng.normal(size=x.shape), args[: case.model.wrt])

    def along(step):
        moved = tree_map(lambda x, v: x + step * v, args[: case.model.wrt], direction)
        return case.model.loss(np, *moved, *args[case.model.wrt :])

    value, gradients = case.model.by_hand(*args)
    slope = sum(np.vdot(g, v) for g, v in zip(tree_leaves(gradients), tree_leaves(direction), strict=True))
    assert value == pytest.approx(along(0.0), rel=1e-12)
    assert slope == pytest.approx((along(1e-6) - along(-1e-6)) / 2e-6, rel=1e-5)


def test_who_has_a_program():
    """Numba's are written one by one, CasADi's are in double precision; others have all but what is noted."""
    cases = {case.name: case for case in CASES}
    single, double = (cases[f"elementwise, n=1e5, {dtype}"] for dtype in ("float32", "float64"))
    has = {name: [contestant().has(case) for case in (single, double)] for name, contestant in CONTESTANTS.items()}
    assert [name for name, answers in has.items() if answers == [False, True]] == ["casadi", "numba"]
    assert [name for name, answers in has.items() if answers == [True, True]] == [*has][:-2]
    particle, mixture = cases["particle, forward over reverse"], cases["Gaussian mixture, d=2 k=5 n=1000"]
    assert [name for name, of in CONTESTANTS.items() if not of().has(particle)] == ["pytensor", "casadi", "numba"]
    assert not CONTESTANTS["numba"]().has(mixture)


@pytest.mark.parametrize("case", [case for case in SMALL if "numba" in case.model.peers], ids=lambda case: case.name)
def test_loops_by_hand_agree(case, monkeypatch):
    """They run in Python here: Numba need not be installed."""
    plain = lambda f=None, **options: f or plain
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=plain, prange=range))
    args = case.args(small=True, dtype="float64")
    if case.name.startswith("elementwise"):
        args = tuple(x[:50] for x in args)
    numbers = ByHand().numbers(case.model.by_hand(*args))
    assert not compared(CONTESTANTS["numba"]().numbers(case.model.peers["numba"]()(*args)), numbers, "float64")[1]


def test_names_are_told_apart():
    assert len({case.name for case in CASES}) == len(CASES)


def test_who_disagrees_is_told():
    reference = [np.array(2.0), np.array([1.0, -4.0])]
    assert compared([x.copy() for x in reference], reference, "float64") == (0.0, "")
    assert compared([np.array(2.0), np.array([1.0, -4.0 + 1e-6])], reference, "float64")[1] == "off by 2.5e-07"
    assert compared([np.array(2.0), np.array([np.nan, -4.0])], reference, "float64")[1] == "off by inf"
    assert "dtypes" in compared([x.astype("float32") for x in reference], reference, "float64")[1]
    assert "shapes" in compared([np.array(2.0), np.array([1.0])], reference, "float64")[1]


def test_ratios_and_their_means_leave_out_what_is_wrong_or_failed():
    assert ratio(Measured(seconds=3.0), Measured(seconds=2.0)) == 1.5
    assert ratio(Measured(seconds=3.0, wrong="off by 1"), Measured(seconds=2.0)) is None
    assert ratio(Measured(failed="took longer"), Measured(seconds=2.0)) is None
    assert geometric_mean([2.0, None, 8.0]) == pytest.approx(4.0)
    assert table([["a", "b"], ["1", "22"]]) == "| a | b  |\n|---|----|\n| 1 | 22 |"


def test_turns_are_those_that_the_loop_has():
    """The ball flies a little shorter than without air; an orbit is as long as its arguments say."""
    case = next(case for case in CASES if case.name.startswith("thrown ball"))
    height, speed, h = case.args()[0][1], case.args()[0][3], case.args()[2][0]
    fall = (speed + np.sqrt(speed**2 + 2 * 9.81 * height)) / 9.81
    assert 0.7 * fall < case.turns * h < fall
    assert next(case for case in CASES if case.name == "orbit, steps=10000").turns == 10_000
    assert next(case for case in CASES if case.name == "Rosenbrock, n=10").turns is None


class Planted:
    """A worker that answers at once, with a gradient that may be wrong."""

    version = "1.0"

    def __init__(self, factor, failed=None):
        self.factor, self.failed = factor, failed

    def begin(self, name):
        if self.failed:
            raise self.failed
        case = next(case for case in CASES if case.name == name)
        value, gradients = ByHand().numbers(case.model.by_hand(*case.args()))
        return {"compile": 0.01, "first": 0.1, "numbers": [value, self.factor * gradients]}

    def batch(self, least):
        return 0.002 * self.factor

    def end(self):
        pass


@pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-6])
def test_the_command_fails_where_a_peer_disagrees(factor, capsys):
    cases = [case for case in CASES if case.name == "Rosenbrock, n=10"]
    options = SimpleNamespace(best=False, optimize=2, rounds=3, seconds=0.0, json=None)
    late, refused = Planted(1.0, Late("> 60 s")), Planted(1.0, Failed("ValueError: no"))
    workers = {"symgrad": Planted(1.0), "jax": Planted(factor), "torch": late, "autograd": refused}
    assert run.compare(cases, workers, options) == (factor == 1.0)
    printed = capsys.readouterr().out
    assert "PyTorch failed: > 60 s" in printed
    assert ("jax.jit disagrees: off by 1.0e-06" in printed) == (factor != 1.0)
    right = "| 2 ms    | 1.00    | > 60 s  | refused  | 10.0    |" in printed
    assert "wrong" in printed if factor != 1.0 else right


def test_figures_are_put_into_pages():
    """Rows are those that are shown, the means those of all, and no other table changes."""
    fast, slow = Measured(seconds=2e-3, compile=0.1), Measured(seconds=5e-3, first=1.0)
    names = "Rosenbrock, n=10", "Rosenbrock, n=1000", "thrown ball, turns=1000"
    results = report.read(report.plain({name: {"symgrad": fast, "jax": slow} for name in names}))
    rows = report.tables(results, ["symgrad", "jax"])
    straight, looping = (figures.markdown(table, ("Rosenbrock, n=10", "thrown ball, turns=1000")) for table in rows)
    row, means = "| Rosenbrock, n=10 | 2 ms | 2.50 | 10.0 |", "| **geometric mean** | | **2.50** | **10.0** |"
    assert straight.splitlines()[2:] == [row, means]
    assert looping.splitlines()[0] == "| | symgrad | a turn | `jax.jit` | compile |"

    def page(straight, looping, date, programs):
        other = "| | symgrad | of others |\n"
        tables = f"{straight}\n\n{looping}\n"
        return f"{other}\n## Figures\n\nOn {date}: all {programs} programs.\n\n{tables}\n## Next\n\n{other}"

    old = page("| | symgrad | old |\n| a | b |", "Text.", "2020-01-01", 7)
    added = page(straight, f"{figures.LOOPS}\n\n{looping}\n\nText.", "2026-11-22", 3)
    assert figures.renewed(old, [straight, looping], "2026-11-22", 3) == added
    before = page("| | symgrad | old |\n| a | b | c |", "| | symgrad | a turn |\n| a | b | c |", "2020-01-01", 7)
    after = page(straight, looping, "2026-11-22", 3)
    assert figures.renewed(before, [straight, looping], "2026-11-22", 3) == after


@pytest.mark.slow
def test_the_command_runs(tmp_path):
    """In processes, as a person would call it; what is not installed is left out."""
    command = [sys.executable, run.__file__, "--peers", "numpy,autograd", "--rounds", "2", "--seconds", "0.001"]
    command += ["--json", str(tmp_path / "all.json"), "Rosenbrock, n=10"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    assert "| Rosenbrock, n=1000 |" in printed
    measured = json.loads((tmp_path / "all.json").read_text())["results"]["Rosenbrock, n=10"]
    assert len(measured["symgrad"]["times"]) == len(measured["numpy"]["times"]) == 2


def test_arguments_are_rounded_to_the_dtype_of_the_case():
    case = next(case for case in CASES if case.dtype == "float32")
    floats = [x for x in tree_leaves(case.args(small=True)) if x.dtype.kind == "f"]
    exact = [x for x in tree_leaves(case.args(small=True, dtype="float64")) if x.dtype.kind == "f"]
    assert all(x.dtype == np.float32 and np.array_equal(x, y) for x, y in zip(floats, exact, strict=True))


@pytest.mark.of_numpy
def test_what_fires_is_counted():
    """By program and way of compiling; what is rewritten before a derivative counts, and what never fires has a row."""
    fired = firing.Fired()
    small, large = np.ones(3), np.ones(200_000)
    for name in "ab":
        program = firing.Program(name, lambda x: np.sum(np.log(1 + np.exp(x)) ** 2), (0,), [small], [large])
        firing.compile_in_all_ways(program, fired)
    rows = {firing.name_of(each): fired.row(each) for each in chain(*firing.everything().values())}
    ways = dict(zip(firing.WAYS, rows["logaddexp_number"][2:], strict=True))
    assert ways == dict.fromkeys(firing.WAYS, 2)
    assert dict(zip(firing.WAYS, rows["nest"][2:], strict=True))["level 1"] == 0 < rows["nest"][1]
    assert rows["canonicalise"][1] == 2
    assert rows["use_inverses"][:2] == [0, 0]
    shown = firing.report(fired, firing.Fired(), firing.FEW)
    assert "use_inverses" in shown
    assert "logaddexp_number" not in shown


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_code_from_specs_agrees_with_what_is_written_by_hand(case):
    """Compiled for the sizes of the table and run at small ones, where no size of the table is part of the code."""
    reference = ByHand().numbers(ByHand().prepare(case, case.args(small=True, dtype="float64"))())
    run = FromSpecs(check_first=False).compile(case, case.args(small=True))
    try:
        numbers = FromSpecs().numbers(run())
    except sg.errors.SymgradError:
        pytest.skip("the sizes of the table are part of the code")
    error, wrong = compared(numbers, reference, case.dtype)
    assert not wrong
    assert error < TOLERANCE[case.dtype] / 10


def test_costs_are_measured(capsys):
    assert costs.main(["--operators", "--seconds", "0", "--large", "100000"]) == 0
    machine, _, *lines = capsys.readouterr().out.splitlines()
    assert "cores" in machine
    names = {line.split()[0] for line in lines}
    assert {"add", "exp"} <= names
    assert {name for name, value in vars(analysis.costs).items() if isinstance(value, float)} <= names


def test_what_loops_take_to_compile_is_measured(monkeypatch):
    monkeypatch.setattr(turns, "TURNS", (40, 80))
    monkeypatch.setattr(turns, "REPEATS", 1)
    monkeypatch.setattr(turns, "jax_if_there", lambda: None)
    _, _, *rows = turns.compiling(turns.chosen(["thrown", "Euler"])).splitlines()  # Euler's steps are no size of its
    assert [row.split("|")[1].strip() for row in rows] == ["thrown ball"] * 2
    assert [row.split("|")[2].strip() for row in rows] == ["40", "80"]
    assert all(int(row.split("|")[4]) > 50 for row in rows)


def test_calls_and_operators_are_counted_once_for_each_time_they_run():
    def loss(x, steps):
        for h in steps:
            x = x + h * (1 - x)
        return x

    def counted(n):
        args = np.float64(0.5), np.full(n, 0.1)
        return turns.operations(sg.compile(loss).compile(*args), args)

    assert counted(400) - counted(300) == 100 * 3


def test_orders_are_short_and_right(monkeypatch, usual_sizes):
    monkeypatch.setattr(orders, "REPEATS", 1)
    monkeypatch.setattr(orders, "peers", dict)
    heads, *rows = orders.orders_of(list(orders.FUNCTIONS)[1:2], [4, 2])
    second, fourth = (dict(zip(heads, row, strict=True)) for row in rows)
    assert (second["order"], fourth["order"]) == ("2", "4")
    assert int(second["lines"]) <= int(fourth["lines"]) < 12
    assert float(fourth["digits lost"]) < 2


def test_digits_are_lost_by_what_is_wrong():
    values = [-2 * np.tanh(x) * (1 - np.tanh(x) ** 2) for x in orders.POINTS]
    assert orders.digits_lost("tanh(x)", 2, values) < 1.5
    assert 7 < orders.digits_lost("tanh(x)", 2, [value * (1 + 1e-8) for value in values]) < 9


@pytest.mark.slow
def test_programs_are_split_along_every_axis_that_grows():
    """In one round, in several, along an axis of which each sample has several rows; or refused by a line."""
    names = ["logistic regression, n=10000 d=50", "transformer block", "Kalman filter"]
    cases = [next(case for case in CASES if case.name.startswith(name)) for name in names]
    found = [each for case in cases for each in split.examined(firing.program_of(case))]
    assert not any(each.wrong for each in found)
    rounds = {(each.program, each.arguments): each.rounds for each in found if not each.refused}
    assert rounds == {
        ("logistic regression", ("x", "y")): 1,
        ("logistic regression", ("w", "x")): 2,
        ("transformer block", ("x", "y")): 1,
    }
    assert any(" reads all rows of " in each.refused and "at transformer.py:" in each.refused for each in found)


def test_a_wrong_plan_is_found(monkeypatch):
    """By chunks that lose rows, and by what empty chunks do."""
    program = firing.program_of(next(case for case in CASES if case.name.startswith("least squares")))
    assert [each.wrong for each in split.examined(program)] == ["", ""]
    whole = sg.split(sg.compile(lambda x: np.sum(x)), "float64[n]", axis="n")
    monkeypatch.setattr(split, "with_empty_chunks", lambda plan, args, n: whole(args[0][1:]))
    assert split.compared(whole, [np.ones(9)], 9) == "WRONG with empty chunks"
    whole.rounds = (whole.rounds[0]._replace(combine=lambda left, right: left),)
    assert split.compared(whole, [np.ones(9)], 9) == "WRONG in chunks of 1"


def test_rewrites_are_counted_for_each_node_of_a_program():
    program = firing.Program("softplus", lambda x: np.sum(np.log(1 + np.exp(x))), (0,), [np.ones(3)], [np.ones(5)])
    name, nodes, rewrites, stages, changed = compile_time.counts(program)
    assert (name, nodes) == ("softplus", len(sg.value_and_grad(program.function, (0,)).graph(*program.small).live))
    assert rewrites > 0 and 0 < changed < stages


def test_the_chain_of_the_compile_times_is_straight():
    graph = sg.compile(compile_time.straight(30)).graph("float64[5]")
    assert sum(node.op.name == "sin" for node in graph.live) == 30
    x = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(sg.grad(compile_time.straight(30))(x), compile_time.slope(x, 30), rtol=1e-9)
