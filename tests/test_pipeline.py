"""The list of stages: each keeps what the program computes, and the graph in order, on random programs."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import reached, verify
from symgrad.core.interpret import interpret
from symgrad.ops.define import TABLE
from symgrad.pipeline import BEFORE, NUMERICS, OPTIMISE, SCHEDULE, Stage, canonicalised, schedule
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
