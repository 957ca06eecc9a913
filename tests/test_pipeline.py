"""The list of stages: each keeps what the program computes, and the graph in order, on random programs."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import reached, verify
from symgrad.core.interpret import interpret
from symgrad.core.recording import recording
from symgrad.ops.define import TABLE
from symgrad.pipeline import BEFORE, NUMERICS, OPTIMISE, SCHEDULE, Stage, canonicalised, run, schedule
from symgrad.targets.target import NUMPY, C
from tests.fuzz import generated, in_tiny_blocks

STAGES = (*BEFORE, *OPTIMISE, *SCHEDULE)


def traced(seed):
    """The graph of a random program in float64, with its gradient where it has one, and arguments for it."""
    program = replace(generated(seed), blocks=False)
    args = program.values(program.sizes[0], wide=True)
    wrt = tuple(i for i, a in enumerate(program.arguments) if a.floating())
    transform = sg.compile if program.kind == "values" else lambda f: sg.value_and_grad(f, wrt)
    try:
        return transform(program.function(wide=True)).trace(*args).graph, args
    except sg.errors.SymgradError:
        return None


def values(graph, args):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return interpret(graph.outputs, dict(zip(graph.inputs, args, strict=True)))


@pytest.mark.parametrize("seed", range(40))
def test_every_stage_keeps_what_is_computed(seed, monkeypatch):
    found = traced(seed)
    if found is None or len(found[0].inputs) != len(found[1]):
        pytest.skip("refused")
    graph, args = found
    in_tiny_blocks(monkeypatch)
    expected = values(graph, args)
    for numerics in NUMERICS:
        program = graph
        for stage in STAGES:
            after = stage.run(program, numerics)
            verify(after)
            assert [x.aval for x in after.inputs] == [x.aval for x in program.inputs]
            assert [y.aval for y in after.outputs] == [y.aval for y in program.outputs]
            program = after
        for new, old in zip(values(program, args), expected, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-8, atol=1e-8)


def test_a_stage_says_what_it_takes_and_gives_and_why():
    assert all(isinstance(stage, Stage) and stage.takes and stage.gives and stage.why for stage in STAGES)
    assert all(stage.run.__doc__ for stage in STAGES)  # which explain() quotes


def test_stages_before_a_derivative_append_to_the_graph_and_leave_older_nodes():
    graph = sg.Graph()
    x = graph.input("x", "float64[3]")
    older = np.log(1 + np.exp(x))
    since = len(graph.nodes)
    y = np.sum(np.log(1 + np.exp(np.sin(older))))
    nodes = [*graph.nodes]
    (better,), (kept,) = canonicalised(graph, [y.node], [older.node], 2, "stable", since)
    assert graph.nodes[: len(nodes)] == nodes and better in graph
    assert kept is older.node and older.node in reached([better])
    assert better is not y.node and TABLE[np.logaddexp] in {node.op for node in reached([better])}


def test_stages_of_a_higher_level_do_not_run_at_a_lower(monkeypatch):
    graph = sg.compile(lambda x: np.sum(np.exp(x))).trace("float64[1000000]").graph
    assert schedule(graph, optimize=1) is graph
    assert schedule(graph, optimize=2) is not graph


# ---- which stages run


def stage(name, **facts):
    """A stage that gives another program each time that it runs."""

    def again(graph, numerics):
        return sg.compile(lambda x: x + 1.0).trace("float64[]").graph

    again.__name__ = name
    return Stage(again, 1, "a program", "another", "for a test", **facts)


def stages_run(*stages, target=NUMPY):
    graph = sg.compile(lambda x: x + 1.0).trace("float64[]").graph
    with recording() as log:
        run(stages, graph, 1, "stable", target)
    return [each.function.__name__ for each in log.stages]


def test_a_stage_runs_again_only_behind_a_change():
    idle = Stage(lambda graph, numerics: graph, 1, "a program", "the same", "for a test")
    again = stage("again", again_after="first")
    assert stages_run(stage("first"), idle, again) == ["first", "<lambda>", "again"]
    assert stages_run(stage("other"), idle, again) == ["other", "<lambda>"]


def test_stages_in_a_row_are_asked_once():
    asked = []

    def when(graph):
        asked.append(graph)
        return len(asked) == 1

    row = [stage("a", when=when), stage("b", when=when)]
    assert stages_run(*row, stage("c"), stage("d", when=when)) == ["a", "b", "c"]
    assert len(asked) == 2


def test_stages_for_calls_are_left_out_where_there_are_none():
    assert stages_run(stage("a"), stage("b", by_calls=True)) == ["a", "b"]
    assert stages_run(stage("a"), stage("b", by_calls=True), target=C) == ["a"]
