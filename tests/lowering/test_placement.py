"""Placement: which memory values lie in, decided and verified without any text."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import GraphError
from symgrad.lowering import placement, placing
from symgrad.lowering.placement import Step, Write
from symgrad.lowering.placing import place
from symgrad.ops.control import SCAN
from symgrad.ops.define import TABLE
from symgrad.targets.numpy import abilities as of_numpy
from symgrad.targets.numpy.abilities import abilities
from tests.lowering.verify_placement import verify
from tests.programs import handed_on

SIN, EXP = TABLE[np.sin], TABLE[np.exp]


def placed(f, *specs, level=0):
    """The placement of a program."""
    found = place(sg.compile(f).compile(*specs, optimize=level).graph.outputs, abilities(level))
    verify(found)
    return found


def the_loop(found):
    loop, *_ = found.loops.values()
    return loop


def writes(found):
    return [way.value for way in found.writes.values()]


# ---- programs


def assigned(x):
    y = np.sin(x)
    y[0] = 1.0
    y[1] = 2.0
    return y


def read_before(x):
    y = np.sin(x)
    z = y.copy()
    z[0] = 1.0
    return z, y


def read_later(x):
    y = np.sin(x)
    z = y[1:]
    w = y.copy()
    w[0] = 1.0
    return w, np.sum(z)


def of_the_caller(x):
    y = x.copy()
    y[0] = 1.0
    return y


def with_a_view(x):
    y = np.sin(x)
    return y, y[::-1]


def filled(x):
    y = np.zeros(x.shape[0])
    for t in range(x.shape[0]):
        y[t] = x[t] * 2
    return y


def summed(x):
    s = np.zeros(3)
    for t in range(x.shape[0]):
        s = s + x[t]
    return s


def continued(x, s):
    for t in range(x.shape[0]):
        s[t] = x[t]
    return s


def chosen(x, y):
    if np.sum(x) > 0:
        z = x
    else:
        z = y
    w = z.copy()
    w[0] = 1.0
    return w


def test_an_array_of_the_programs_own_is_written_into():
    assert writes(placed(assigned, "float64[3]")) == ["here", "here"]


def test_what_is_read_later_is_copied():
    assert writes(placed(read_before, "float64[3]")) == ["copy"]
    assert writes(placed(read_later, "float64[3]")) == ["copy"]


def test_an_array_of_the_callers_is_copied():
    assert writes(placed(of_the_caller, "float64[3]")) == ["copy"]


def test_an_array_that_may_be_the_callers_is_copied():
    assert writes(placed(chosen, "float64[3]", "float64[3]")) == ["copy"]


def test_results_are_the_callers_alone():
    assert len(placed(with_a_view, "float64[3]").copied) == 1
    assert len(placed(lambda x: x, "float64[3]").copied) == 1
    assert not placed(assigned, "float64[3]").copied


def test_carries():
    (carry,) = the_loop(placed(filled, "float64[n]")).carries
    assert carry.step is Step.ASSIGNED
    assert carry.own and not carry.copied
    (carry,) = the_loop(placed(summed, "float64[n, 3]")).carries
    assert carry.step is Step.UPDATED
    (carry,) = the_loop(placed(lambda x, s: continued(x, s.copy()), "float64[n]", "float64[n]")).carries
    assert carry.copied


def made_anew(x):
    y = np.zeros(3)
    for t in range(x.shape[0]):
        y[0] = 1.0
        y = y * 0.9 + x[t]
    return y


def made_anew_and_kept(x):
    y, found = np.zeros(3), []
    for t in range(x.shape[0]):
        z = y.copy()
        z[0] = 1.0
        y = z * 0.9 + x[t]
        found.append(y)
    total = 0.0
    for row in found:
        total = total + np.sum(np.sin(row))
    return total


def test_a_carry_that_each_iteration_makes_anew_is_written_into():
    assert writes(the_loop(placed(made_anew, "float64[n, 3]", level=1)).body) == ["here"]
    found = placed(made_anew_and_kept, "float64[n, 3]", level=1)
    body = the_loop(found).body
    assert writes(body) == ["copy"]  # the list has the array that the iteration before has made
    body.writes = dict.fromkeys(body.writes, Write.HERE)
    refused(found, "has not taken over")


def test_arrays_of_one_number_are_made_anew_where_a_program_begins_with_them_twice():
    def twice(x):
        y, z = np.zeros(3), np.zeros(3)
        y[0], z[1] = x[0], x[1]
        return y, z

    assert writes(placed(twice, "float64[3]", level=1)) == ["anew", "anew"]
    assert writes(placed(twice, "float64[3]", level=0)) == ["copy", "here"]


def put(x):
    y = np.zeros(2 * x.shape[0])
    y[: x.shape[0]] = np.sin(x)
    return y


def large(x):
    y = np.sin(x)
    z = np.sum(y * y)
    return np.cos(x) * z


def as_traced(f, specs, level):
    """The placement of a program as it is traced."""
    found = place(sg.trace(f, *([specs] if isinstance(specs, str) else specs)).graph.outputs, abilities(level))
    verify(found)
    return found


def test_values_that_are_computed_where_they_are_put():
    assert [x.op for x in as_traced(put, "float64[100000]", 2).straight] == [SIN]
    assert not as_traced(put, "float64[3]", 2).straight  # a call takes longer than the copy
    assert not as_traced(put, "float64[100000]", 1).straight


def test_what_is_released():
    def released(f, level):
        found = as_traced(f, "float64[100000]", level)
        return [x.op for x in found.nodes if x in found.released]

    assert SIN in released(large, 2)
    assert released(lambda x: np.sin(x), 2) == []  # which the caller gets
    assert released(large, 1) == []  # not worth a line
    assert released(large, 0) == []


def test_what_is_read_behind_a_node_goes_by_the_order_in_which_values_are_computed(monkeypatch):
    graph = sg.trace(lambda x: np.sin(x) + np.exp(x), "float64[3]").graph
    for order, first in ((lambda nodes: nodes, SIN), (lambda nodes: [nodes[i] for i in (0, 2, 1, 3)], EXP)):
        monkeypatch.setattr(placement, "by_sizes", order)
        found = placement.unplaced(graph.outputs)
        (x,) = graph.inputs
        assert [node.op for node in found.nodes[1:3] if found.is_read_behind(x, node)] == [first]


# ---- the verifier


def refused(found, fact):
    with pytest.raises(GraphError, match=fact):
        verify(found)


def test_writing_into_an_array_of_the_callers_is_refused():
    found = placed(of_the_caller, "float64[3]")
    found.writes = dict.fromkeys(found.writes, Write.HERE)
    refused(found, "not the program's")


def test_writing_into_what_may_be_the_callers_is_refused():
    found = placed(chosen, "float64[3]", "float64[3]")
    found.writes = dict.fromkeys(found.writes, Write.HERE)
    refused(found, "not the program's")


@pytest.mark.parametrize("f", [read_before, read_later])
def test_writing_over_what_is_read_later_is_refused(f):
    found = placed(f, "float64[3]")
    (write,) = found.writes
    found.writes[write] = Write.HERE
    refused(found, "has not taken over")
    found.take_over(write, write.inputs[:1])
    refused(found, "is gone|has been written over")


def test_results_that_are_not_the_callers_are_refused():
    found = placed(lambda x: x, "float64[3]")
    found.copied = set()
    refused(found, "not the caller's")
    found = placed(with_a_view, "float64[3]")
    found.copied = set()
    refused(found, "memory of another result")


def test_memory_that_is_released_is_not_read():
    found = placed(read_before, "float64[3]")
    (y,) = [x for x in found.nodes if x.op is SIN]
    found.released, found.last_use[y] = frozenset([y]), y
    refused(found, "is gone")
    found = placed(assigned, "float64[3]")
    found.released = frozenset(found.outputs)
    refused(found, "the result is released")


def test_what_is_computed_where_it_is_put_has_one_reader():
    found = placed(lambda x: np.sum(np.sin(x) * np.cos(np.sin(x))), "float64[3]")
    found.straight = {x for x in found.nodes if x.op is SIN}
    refused(found, "no memory for all")


def test_an_array_that_is_made_anew_has_one_number():
    found = placed(assigned, "float64[3]")
    found.anew = frozenset(x for x in found.nodes if x.op is SIN)
    refused(found, "not of one number")


def test_iterations_that_write_into_the_callers_array_are_refused():
    found = placed(lambda x, s: continued(x, s.copy()), "float64[n]", "float64[n]")
    loop = the_loop(found)
    loop.carries = [carry._replace(copied=False) for carry in loop.carries]
    refused(found, "not the program's")


def test_a_list_of_arrays_that_the_next_iteration_writes_into_is_refused():
    found = placed(stacked_and_assigned, "float64[n, 3]", level=1)
    loop = the_loop(found)
    assert [stack.copied for stack in loop.stacks.values()] == [True]
    loop.stacks = {item: stack._replace(copied=False) for item, stack in loop.stacks.items()}
    refused(found, "has been written over")


def stacked_and_assigned(x):
    y, found = np.zeros(3), []
    for t in range(x.shape[0]):
        y[0] = y[1] + x[t, 0]
        found.append(y.copy())
    total = 0.0
    for row in found:
        total = total + np.sum(np.sin(row))
    return total


def test_two_temporaries_in_one_buffer_are_refused():
    found = placed(two_temporaries, "float64[n, 3]")
    body = the_loop(found).body
    needed = [x for x in body.nodes if x.op in (SIN, EXP)]
    body.buffers, body.assignments = [None, None], dict(zip(needed, (0, 1), strict=True))
    verify(found)
    body.assignments = dict.fromkeys(needed, 0)
    refused(found, "has not taken over")
    body.take_over(needed[1], needed[:1])
    refused(found, "is gone")


def two_temporaries(x):
    s = 0.0
    for t in range(x.shape[0]):
        s = s + np.sum(np.sin(x[t]) * np.exp(x[t]))
    return s


def test_the_placement_of_all_that_tests_compile_is_verified(monkeypatch):
    monkeypatch.setattr(placing._Suite, "_written", lambda self, node: Write.HERE)
    with pytest.raises(GraphError, match="not the program's"):
        sg.compile(of_the_caller).compile("float64[3]")


def test_memory_that_a_branch_hands_on_is_taken_over():
    found = as_traced(handed_on, ("float64[3]", "float64[]"), 1)
    (branch,) = found.branches
    assert [x.op for x in found.taken_over[branch]] == [SIN]
    found.taken_over[branch] = []
    refused(found, "has not taken over")


def test_results_that_stay_in_the_memory_of_an_operand():
    def continued(f):
        found = placed(f, "float64[3]", "float64[]")
        ((node, branch),) = found.branches.items()
        (numbers,) = branch.continued.values()
        return found, branch, [node.inputs[1 + i].op for i in numbers]

    def written_in_both(x, c):
        y = np.sin(x)
        if c > 0:
            y[0] = 1.0
        else:
            y[1] = 2.0
        return y

    assert continued(written_in_both)[2] == [SIN]
    assert continued(lambda x, c: written_in_both(x, c) * np.sin(x))[2] == []  # a copy, since the array is read later
    found, branch, operands = continued(handed_on)
    assert operands == [SIN]
    branch.continued = {item: [1 - i for i in numbers] for item, numbers in branch.continued.items()}
    refused(found, "does not stay")


def test_an_assignment_takes_over_the_array_that_it_writes_into():
    found = placed(assigned, "float64[3]")
    assert list(found.taken_over.values()) == [[write.inputs[0]] for write in found.writes]
    assert not any(placed(read_before, "float64[3]").taken_over.values())
    found.taken_over.clear()
    refused(found, "has not taken over")


def test_a_loop_takes_over_the_arrays_that_it_begins_with():
    found = placed(lambda x, s: continued(x, np.sin(s)), "float64[n]", "float64[n]")
    (loop,) = found.loops
    assert [x.op for x in found.taken_over[loop]] == [SIN]
    found.taken_over[loop] = []
    refused(found, "has not taken over")
    found = placed(summed, "float64[n, 3]")
    body = the_loop(found).body
    assert body.taken_over == {y: [x] for y, x in body.updates.items()}
    body.taken_over.clear()
    refused(found, "has not taken over")


def test_a_value_in_a_buffer_takes_over_the_one_before(monkeypatch):
    monkeypatch.setattr(of_numpy, "RETURNED", 0)
    found = placed(one_after_the_other, "float64[n, 4]", level=2)
    body = the_loop(found).body
    assert len(body.buffers) < len(body.assignments)
    last = {}
    for x in (x for x in body.nodes if x in body.assignments):
        assert body.taken_over[x] == last.get(body.assignments[x], [])
        last[body.assignments[x]] = [x]
    body.taken_over.clear()
    refused(found, "has not taken over")


def test_results_of_iterations_lie_in_no_buffer(monkeypatch, usual_sizes):
    monkeypatch.setattr(of_numpy, "RETURNED", 0)
    found = placed(recurrent, "float64[n, 4]", "float64[4]", level=2)
    body = the_loop(found).body
    (result,) = body.results
    assert body.assignments and result not in body.assignments
    body.assignments = {**body.assignments, result: 0}
    refused(found, "has not taken over|has been written over")


def recurrent(x, c):
    for t in range(x.shape[0]):
        c = np.sin(c * x[t]) * c
    return c


def one_after_the_other(x):
    total = 0.0
    for t in range(x.shape[0]):
        total = total + np.sum(np.sin(x[t])) * np.sum(np.exp(x[t]))
    return total


def test_regions_are_placed_as_well():
    found = placed(lambda x: sg.cond(x[0] > 0, assigned, np.sin, x), "float64[3]")
    (branch,) = found.branches.values()
    assert writes(branch.then) == ["here", "here"]
    assert all(node.op is not SCAN for node in branch.other.nodes)


def test_a_row_that_is_read_behind_an_assignment_is_copied_and_not_its_array():
    def f(x):
        v = np.zeros_like(x)
        for i in range(x.shape[0]):
            v[i] = np.tanh(x[i])
            if i > 0:
                v[i] += 0.5 * v[i - 1]
        return np.sum(v**2)

    lines = sg.grad(f).source(np.ones((90, 4)), optimize=1).splitlines()
    copied = [line.split("=")[-1] for line in lines if ".copy()" in line and line.startswith(" " * 8)]
    assert copied and all("]" in line for line in copied)


def test_a_loop_that_would_keep_a_large_array_for_each_of_its_second_runs_is_on_numbers_of_numpy():
    def f(data, ends, x):
        y = np.zeros(len(x))
        for i in range(len(x)):
            for k in range(ends[i]):
                y[i] += np.exp(data[k] * x[i])
        return y

    args = np.ones(5), np.full(4000, 5), np.ones(4000)
    lines = sg.compile(f).source(*args).splitlines()
    assert not [line for line in lines if ".copy()" in line and line.startswith(" " * 8)]
