"""Random programs with control flow of `control_fuzz`; that it finds planted faults and makes them smaller."""

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops.define import TABLE
from tests import control_fuzz
from tests.control_features import FEATURES
from tests.control_fuzz import PLAN, Outcome, case_of, generated, outcome, results, shrunk, smaller
from tests.control_programs import Program, program_of

PARTS = 10
SEEDS = tuple(
    int(seed)
    for seed in """
    10000 10001 10003 10008 10010 10012 10013 10014 10021 10022 10024 10025 10028 10029 10030 10031 10033
    10035 10038 10040 10041 10042 10044 10045 10047 10048 10049 10051 10052 10053 10054 10057 10059 10062
    10064 10065 10066 10067 10070 10072 10074 10075 10076 10077 10081 10082 10083 10084 10088 10090 10096
    10099 10102 10104 10105 10106 10111 10113 10114 10115 10116 10117 10118 10121 10125 10126 10129
    10130 10132 10133 10134 10135 10136 10137 10138 10139 10141 10142 10143 10145 10146 10147 10152
    10154 10155 10156 10157 10159 10161 10162 10165 10166 10167
    """.split()
)


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


def endless(*_):
    while True:
        pass


def test_other_outcomes(monkeypatch):
    refused = "def f(x, y):\n    return int(x[0]) + y\n"
    assert outcome(case(refused)).verdict == "refused"
    monkeypatch.setitem(control_fuzz.STEPS, "value", lambda *_: {}["missing"])
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
