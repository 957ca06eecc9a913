"""Random programs with control flow of `control_fuzz`; that it finds planted faults and makes them smaller."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.define import TABLE
from tests import control_fuzz
from tests.control_features import FEATURES
from tests.control_fuzz import PLAN, Outcome, case_of, generated, outcome, results, shrunk, smaller
from tests.control_programs import Program, program_of

PARTS = 4
SEEDS = tuple(
    int(seed)
    for seed in """
    10000 10008 10013 10022 10028 10031 10038 10042 10047 10051 10054 10062 10066 10072 10076 10082 10088 10099
    10105 10113 10116 10121 10129 10133 10136 10139 10143 10147 10155 10159 10165
    """.split()
)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part):
    found = {seed: outcome(generated(seed), (PLAN[seed % len(PLAN)],)) for seed in SEEDS[part::PARTS]}
    assert {seed: o for seed, o in found.items() if o.verdict not in ("right", "refused")} == {}
    assert sum(o.verdict == "right" for o in found.values()) >= 0.85 * len(found)


def case(source):
    found = case_of(Program(source, (), False), 1)
    assert found is not None
    return found


LOOP = """
import numpy as np

def f(x, y):
    a = y
    for i in range(20):
        a = 0.5 * a + np.sinh(x[0])
        if a > 100.0:
            break
    b = a + y
    return a
"""


def test_a_wrong_value_is_found_and_made_smaller(monkeypatch):
    monkeypatch.setitem(TABLE, np.sinh, TABLE[np.arcsinh])
    found = outcome(case(LOOP))
    assert (found.verdict, found.where) == ("wrong value", "value 0")
    lines = shrunk(case(LOOP), found).program.source.split("\n")
    assert [line.strip() for line in lines if "sinh" in line] and len(lines) < 7


@pytest.mark.parametrize("test", ["", "    if y > 5.0:\n        x = x + 1.0\n"])
def test_a_wrong_derivative_is_found(monkeypatch, test):
    """By differences, and by unrolling where no test is traced."""
    program = f"import numpy as np\n\ndef f(x, y):\n{test}    return np.sum(np.sinh(x)) + y\n"
    assert outcome(case(program)).verdict == "right"
    monkeypatch.setitem(TABLE, np.sinh, replace(TABLE[np.sinh], partials=lambda y, x: 1.01 * np.cosh(x)))
    assert outcome(case(program))[:2] == ("wrong gradient", "gradient 0")


def test_a_nan_by_overflow_is_no_wrong_derivative():
    program = "import numpy as np\n\ndef f(x, y):\n    z = np.exp(1000.0 + x[0])\n    return np.tanh(z * z) + y\n"
    assert outcome(case(program)).notes == ("overflow",)


def endless(*_):
    while True:
        pass


def fails(error, *_):
    raise error


def test_other_outcomes(monkeypatch):
    refused = "def f(x, y):\n    return int(x[0]) + y\n"
    assert outcome(case(refused)).verdict == "refused"
    for error in (KeyError("missing"), sg.errors.GraphError("not the user's"), sg.errors.CompilerError("as little")):
        monkeypatch.setitem(control_fuzz.STEPS, "value", partial(fails, error))
        assert outcome(case(LOOP)).verdict == "crashed"
    monkeypatch.setattr(control_fuzz, "LIMIT", 0.1)
    monkeypatch.setitem(control_fuzz.STEPS, "value", endless)
    assert outcome(case(LOOP)) == Outcome("late", "value 0")


def test_state_that_a_call_leaves_is_compared():
    counted = "LOG = []\n\ndef f(x, y):\n    LOG.append(1)\n    return y * y\n"
    silent = counted.replace("LOG.append(1)", "LOG.extend([1] * isinstance(y, sg.Variable))")
    silent = f"import symgrad as sg\n{silent}"
    assert "state" not in outcome(case(counted)).notes
    assert "state" in outcome(case(silent)).notes


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_gives_programs_that_python_runs(name):
    arguments = control_fuzz.drawn(1)
    assert any(results(program_of(seed, name), arguments) for seed in range(8))


def test_programs_are_those_of_their_seeds():
    assert generated(7).program == generated(7).program != generated(8).program
    assert smaller(generated(7).program, 0).source != generated(7).program.source
    assert smaller(generated(7).program, 10_000) is None


def test_a_script_runs():
    scope = {}
    exec(control_fuzz.script(generated(7), Outcome("wrong gradient", "gradient 2", "on arguments 1"), ""), scope)
    assert np.isfinite(scope["transformed"](scope["x"], scope["y"])[0])
    assert isinstance(scope["transformed"], sg.Function)
