"""Stages of loops and branches: each keeps what is computed, and does what it is for."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.control import fuse
from symgrad.control.branches import join_branches, simplify_branches
from symgrad.control.dead import drop_dead_results
from symgrad.control.fission import hoist_maps
from symgrad.control.fuse import fuse_loops
from symgrad.control.invariants import inline_constants
from symgrad.control.sink import rematerialise_ys, sink_maps, sink_sums
from symgrad.control.slices import slice_reads
from symgrad.control.writes import with_stacked_writes
from symgrad.core.graph import Part, verify
from symgrad.core.interpret import interpret
from symgrad.core.region import regions_of, with_nested
from symgrad.frontend.bodies import repeat
from symgrad.ops.control import COND, SCAN
from symgrad.ops.control_parts import loop_of
from symgrad.pipeline import BEFORE, OPTIMISE, canonicalise, optimise


def traced(f, *args):
    return sg.trace(f, *args).graph


def values(graph, args):
    return interpret(graph.outputs, dict(zip(graph.inputs, args, strict=True)))


def same(graph, after, args, expected=None):
    """Check and return what a program computes: what another one does, which may be known."""
    verify(after)
    assert [y.aval for y in after.outputs] == [y.aval for y in graph.outputs]
    found = values(after, args)
    for new, old in zip(found, values(graph, args) if expected is None else expected, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-11, atol=1e-12)
    return found


def loops(graph):
    return [node for node in graph.live if node.op is SCAN]


def operations(graph):
    """The names of the operators of a program and of its bodies."""
    return [node.op.name for node in with_nested(graph.live)]


def results(node):
    return len(node.aval)


RNG = np.random.default_rng(0)
XS, W = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 3)) / 2


# ---- random loops

STEPS = (
    lambda a, b, x: np.tanh(a + x),
    lambda a, b, x: a * 0.5 + b,
    lambda a, b, x: np.sin(a @ W) + x,
    lambda a, b, x: np.where(a > b, a, -x),
    lambda a, b, x: a,
    lambda a, b, x: b,
)


def random_program(seed):
    """A few loops, some of them alike, after and beside each other, with branches and loops inside."""
    rng = np.random.default_rng(seed)
    pick = lambda xs: xs[rng.integers(len(xs))]
    kinds = [[(pick(STEPS), int(rng.integers(2))) for _ in range(rng.integers(1, 4))] for _ in range(2)]
    plan = [(pick(kinds), pick(("scan", "while", "fori")), bool(rng.integers(2)), rng.integers(3)) for _ in range(4)]

    def program(W, xs):
        found, starts = [], [np.zeros(3), W[0]]
        for kind, form, backwards, kept in plan:

            def step(carry, x, kind=kind):
                return [f(carry[i], carry[(i + j) % len(carry)], x) for i, (f, j) in enumerate(kind)]

            init = [starts[i % 2] for i in range(len(kind))]
            if form == "scan":
                final, ys = sg.scan(lambda c, x: (step(c, x), [*c, np.sum(x)]), init, xs, reverse=backwards)
                found.append(np.sum(ys[kept % len(ys)]))
            elif form == "while":
                final, n = sg.while_loop(lambda v: v[1] < 4, lambda v: (step(v[0], W[1]), v[1] + 1), (init, 0))
                found.append(n)
            else:
                inner = lambda j, c, step=step: step(c, xs[j])
                body = lambda i, c, inner=inner: sg.cond(
                    c[0][0] > i, lambda: inner(i, c), lambda: sg.fori_loop(0, 2, inner, c)
                )
                final = sg.fori_loop(0, 5, body, init)
            found.append(final[kept % len(final)])
            starts = [starts[1], found[-1]] if backwards else starts
        return found

    return program


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_every_stage_keeps_what_loops_compute(seed, derived):
    f = random_program(seed)
    if derived:
        f = sg.value_and_grad(lambda W, xs: sum(np.sum(y * 0.5) for y in random_program(seed)(W, xs)), argnums=(0, 1))
    graph = program = f.trace(W, XS).graph if derived else traced(f, W, XS)
    expected = found = values(graph, (W, XS))
    for stage in (*BEFORE, *OPTIMISE):
        after = stage.run(program, "stable")
        if after is not program:
            found = same(program, after, (W, XS), found)
        program = after
    same(graph, program, (W, XS), expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [317, 318, 319])  # of the first a list holds zeros that another loop adds to
def test_what_is_written_computes_the_same(seed):
    loss = lambda W, xs: sum(np.sum(y * 0.5) for y in random_program(seed)(W, xs))
    expected = values(sg.grad(loss, (0, 1)).trace(W, XS).graph, (W, XS))
    for level in (0, 1, 2):
        for new, old in zip(sg.grad(loss, (0, 1), optimize=level)(W, XS), expected, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-11, atol=1e-12)


# ---- rules inside


def test_rules_reach_bodies_however_deep():
    def f(x):
        body = lambda i, s: sg.cond(s > 0, lambda: np.log(1 + np.exp(s + i)), lambda: sg.fori_loop(0, 2, inner, s))
        inner = lambda j, s: s * 1.0 + j * 0
        return sg.fori_loop(0, 3, body, x)

    assert "logaddexp" in operations(BEFORE[0].run(traced(f, 0.3), "stable"))
    plain = optimise(traced(f, 0.3))
    assert {"log", "multiply"}.isdisjoint(operations(plain))
    same(traced(f, 0.3), plain, (0.3,))


def test_sums_of_products_are_collected_inside():
    f = lambda x, a: sg.fori_loop(0, 3, lambda i, s: s * a * 2 + a * s * 3 - a * s, x)
    graph = traced(f, 0.5, 0.5)
    after = optimise(graph)
    same(graph, after, [0.5] * 2)
    assert (operations(graph).count("multiply"), operations(after).count("multiply")) == (4, 2)


def test_a_body_that_is_fine_stays_what_it_is():
    graph = traced(lambda x: sg.fori_loop(0, 3, lambda i, s: np.sin(s), x), 0.5)
    changed = [
        stage.run.__name__ for stage in OPTIMISE if stage.run(graph, "stable").live[-2].params != graph.live[-2].params
    ]
    assert changed == []


def test_names_stay():
    def f(xs, W):
        def turn(h, x):
            pre = h @ W + x * 1.0
            return np.tanh(pre), None

        return sg.scan(turn, np.zeros(3), xs)[0]

    (loop,) = loops(optimise(traced(f, XS, W)))
    (body,) = regions_of(loop)
    assert {name for name in body.body.names.values()} >= {"pre", "W"}


# ---- one loop of several


def test_a_loop_with_further_results_takes_the_place_of_the_one_that_is_there():
    def f(xs, W):
        final, _ = sg.scan(lambda h, x: (np.tanh(h @ W + x), None), np.zeros(3), xs)
        _, hs = sg.scan(lambda h, x: (np.tanh(h @ W + x), h), np.zeros(3), xs)
        return np.sum(hs) * final

    graph = traced(f, XS, W)
    after = optimise(graph, optimize=0)
    same(graph, after, (XS, W))
    assert len(loops(after)) == 1 and operations(after).count("tanh") == 1


def test_tangents_join_the_values_that_they_are_of():
    def f(xs):
        final, _ = sg.scan(lambda h, x: (np.sin(h) * x, None), np.ones(3), xs)
        both, _ = sg.scan(
            lambda c, x: ((np.sin(c[0]) * x, np.cos(c[0]) * c[1] * x), None), (np.ones(3), np.full(3, 2.0)), xs
        )
        return final, both[1]

    graph = traced(f, XS)
    after = fuse_loops(graph)
    same(graph, after, (XS,))
    assert len(loops(after)) == 1 and operations(after).count("sin") == 1


def test_loops_that_end_alike_are_one_and_others_are_not():
    def f(x):
        halves, n = sg.while_loop(lambda v: v[0] > 1, lambda v: (v[0] / 2, v[1] + 1), (x, 0))
        product = sg.while_loop(lambda v: v[0] > 1, lambda v: (v[0] / 2, v[1] * v[0]), (x, 1.0))[1]
        sooner = sg.while_loop(lambda v: v > 2, lambda v: v / 2, x)
        return halves, n, product, sooner

    graph = traced(f, 37.0)
    after = fuse_loops(graph)
    same(graph, after, (37.0,))
    assert len(loops(after)) == 2


def test_a_loop_that_needs_another_stays_behind_it():
    def f(xs):
        total, _ = sg.scan(lambda s, x: (s + x, None), 0.0, xs)
        again, _ = sg.scan(lambda s, x: (s * 0.5 + x * total, None), 0.0, xs)
        return total, again

    graph = traced(f, XS[0])
    assert fuse_loops(graph) is graph


def test_loops_that_need_each_other_by_way_of_others_stay_apart():
    def f(xs, zs):
        step = lambda s, x: (np.sin(s) + x, None)
        a, _ = sg.scan(step, 0.0, xs)
        b, _ = sg.scan(step, a, zs)
        c, _ = sg.scan(step, 1.0, zs)
        d, _ = sg.scan(step, c, xs)
        return b, d

    graph = traced(f, XS[0], XS[1])
    after = fuse_loops(graph)
    same(graph, after, (XS[0], XS[1]))
    assert len(loops(after)) == 3  # a with d, and then not b with c; or the other way round


def test_values_that_start_alike_and_become_different_are_told_apart():
    def f(xs):
        turn = lambda c, x: ((c[1] + x, c[2] + x, c[0] * 0.5, c[4] + x, c[3] + x), None)
        return sg.scan(turn, (0.0,) * 5, xs)[0]

    graph = traced(f, XS[0])
    after = fuse_loops(graph)
    same(graph, after, (XS[0],))
    (loop,) = loops(after)
    assert results(loop) == 4  # the last two are one


def test_equal_stacks_are_one():
    graph = traced(lambda xs: sg.scan(lambda s, x: (s + x, (s * x, s, s * x)), 0.0, xs)[1], XS[0])
    after = fuse_loops(graph)
    same(graph, after, (XS[0],))
    assert results(loops(after)[0]) == 3


def test_loops_without_anything_in_common_stay_two():
    f = lambda xs, zs: [sg.scan(lambda s, x: (s + x, None), s, each)[0] for s, each in ((0.0, xs), (1.0, zs))]
    graph = traced(f, XS[0], XS[1])
    assert fuse_loops(graph) is graph


def test_loops_that_share_nothing_are_not_built(monkeypatch):
    f = lambda xs, zs: [sg.scan(lambda s, x: (s + x, None), s, each)[0] for s, each in ((0.0, xs), (1.0, zs))]
    graph = traced(f, XS[0], XS[1])
    monkeypatch.setattr(fuse, "_Fusion", None)  # neither of one of them nor of both
    assert fuse_loops(graph) is graph


def test_directions_and_lengths_count():
    f = lambda xs: [sg.scan(lambda s, x: (s / 2 + x, None), 0.0, xs, reverse=back)[0] for back in (False, True)]
    graph = traced(f, XS[0])
    assert fuse_loops(graph) is graph
    f = lambda x: [sg.fori_loop(0, n, lambda i, s: np.sin(s), x) for n in (3, 4)]
    graph = traced(f, 0.5)
    assert fuse_loops(graph) is graph


# ---- what nobody needs


def test_what_is_carried_for_its_own_sake_is_left_out():
    def f(xs):
        turn = lambda c, x: ((c[0] + x, c[1] * c[2], c[2] + 1.0), (c[0], c[1]))
        (total, _, _), (firsts, _) = sg.scan(turn, (0.0, 1.0, 2.0), xs)
        return total, firsts

    graph = traced(f, XS[0])
    after = drop_dead_results(graph)
    same(graph, after, (XS[0],))
    assert results(loops(after)[0]) == 2 and "multiply" not in operations(after)


def test_what_another_one_needs_is_kept():
    f = lambda xs: sg.scan(lambda c, x: ((c[1], c[2] * 2, c[0] + x), None), (0.0, 1.0, 2.0), xs)[0][0]
    graph = traced(f, XS[0])
    assert drop_dead_results(graph) is graph


def test_a_loop_without_use_goes_and_what_it_needed():
    def f(xs):
        first, ys = sg.scan(lambda s, x: (s + x, np.exp(x)), 0.0, xs)
        _, zs = sg.scan(lambda s, y: (s * 0.5 + y, (s, y)), 0.0, ys)
        return first, zs[1]

    graph = traced(f, XS[0])
    after = drop_dead_results(graph)
    same(graph, after, (XS[0],))
    assert [results(loop) for loop in loops(after)] == [2]  # what is stacked as it is sliced is there
    g = lambda xs: f(xs)[0]
    after = drop_dead_results(traced(g, XS[0]))
    assert [results(loop) for loop in loops(after)] == [1] and "exp" not in operations(after)


def test_what_a_loop_does_without_another_need_not_give():
    def f(xs):
        first, ys = sg.scan(lambda s, x: (s + x, np.exp(x)), 0.0, xs)
        (_, last), _ = sg.scan(lambda c, xy: ((c[0] + xy[1], np.sin(c[1]) + xy[0]), None), (0.0, 0.0), (xs, ys))
        return first, last

    graph = traced(f, XS[0])
    after = drop_dead_results(graph)
    same(graph, after, (XS[0],))
    assert [results(loop) for loop in loops(after)] == [1, 1] and "exp" not in operations(after)


def test_slices_that_no_turn_reads_go():
    graph = traced(lambda xs, zs: sg.scan(lambda s, x: (s + x[0], x[1]), 0.0, (xs, zs))[0], XS[0], XS[1])
    (loop,) = loops(drop_dead_results(graph))
    assert len(loop.inputs) == 3  # the length, the start, one array


def test_what_no_turn_changes_is_read_and_not_carried():
    def f(xs):
        turn = lambda c, x: ((np.sin(c[0]) * c[1] + x, c[2], c[2]), None)
        return sg.scan(turn, (0.5, 2.0, 2.0), xs)[0]

    graph = traced(f, XS[0])
    after = drop_dead_results(fuse_loops(graph))
    same(graph, after, (XS[0],))
    assert results(loops(after)[0]) == 1


def test_branches_give_what_is_read_and_read_what_they_need():
    def f(x, y):
        a, _, c = sg.cond(x > 0, lambda: (np.sin(x), x * y, x), lambda: (np.cos(x), y, x + 2))
        return a + c

    graph = traced(f, 0.3, 0.4)
    after = drop_dead_results(graph)
    same(graph, after, (0.3, 0.4))
    (branch,) = [node for node in after.live if node.op is COND]
    assert results(branch) == 2 and len(branch.inputs) == 2 and "multiply" not in operations(after)


def test_a_program_without_loops_is_left_as_it_is():
    graph = traced(lambda x: np.sum(np.sin(x)), XS)
    assert fuse_loops(graph) is graph and drop_dead_results(graph) is graph


# ---- slices


def sliced(f, *args):
    """The program with slices, checked, and how often its bodies still read at places."""
    graph = traced(f, *args)
    after = slice_reads(graph)
    same(graph, after, args)
    return after, sum(node.op.name == "index" and len(node.inputs) > 1 for node in with_nested(after.live))


XYZ = RNG.standard_normal((6, 3, 4))


@pytest.mark.parametrize(
    "body, left",
    [
        (lambda i, s, x, k: s + x[i], 0),
        (lambda i, s, x, k: s + x[i + 1] * x[i + 2], 0),
        (lambda i, s, x, k: s + x[5 - i] * x[3 - i], 0),
        (lambda i, s, x, k: s + x[1 + i - 1], 0),
        (lambda i, s, x, k: s + x[:4, 2, i], 0),
        (lambda i, s, x, k: s + x[i, 1:, :1] + x[i, None, k], 1),  # one index, by k, outside
        (lambda i, s, x, k: s * 0.5 + x[i, 2][(i + 1) % 2], 1),  # in the slice
        (lambda i, s, x, k: s + x[2 * i - i], 1),
        (lambda i, s, x, k: s + x[i - 1], 1),  # at first the last
        (lambda i, s, x, k: s + x[i * i % 6], 1),
        (lambda i, s, x, k: s + x[2 - i], 1),
    ],
)
def test_what_a_turn_reads_at_its_place_is_a_slice(body, left):
    start = np.zeros(np.shape(body(0, 0.0, XYZ, 1)))
    _, places = sliced(lambda x, k: sg.fori_loop(0, 4, lambda i, s: body(i, s, x, k), start), XYZ, np.int64(1))
    assert places == left


def test_slices_of_symbolic_sizes():
    def f(x):
        n = len(x)
        return sg.fori_loop(0, n - 1, lambda i, s: s + x[i] * x[i + 1] - x[n - 1 - i] * x[n - 2 - i], 0.0)

    after = slice_reads(sg.trace(f, "float64[n]").graph)
    assert not any(node.op.name == "index" for loop in loops(after) for node in regions_of(loop)[0].nodes)
    for n in (1, 2, 5):
        x = RNG.standard_normal(n)
        np.testing.assert_allclose(values(after, [x])[0], f(x), atol=1e-14)
    beyond = sg.trace(lambda x: sg.fori_loop(0, len(x) - 1, lambda i, s: s + x[i + 2], 0.0), "float64[n]").graph
    assert slice_reads(beyond) is beyond


def test_loops_in_loops_read_slices_of_slices():
    def f(x, k):
        inner = lambda i, s: sg.fori_loop(0, 3, lambda j, s: s * 0.9 + x[i, j, k] * x[i + 1, 2, j], s)
        return sg.fori_loop(0, 3, inner, 0.5)

    after, places = sliced(f, np.moveaxis(XYZ, 2, 1).copy(), np.int64(2))
    assert places == 1  # x[:, :, k], outside
    (outer,) = loops(after)
    assert len(loop_of(outer).xs) == 2


def test_another_number_of_turns_than_is_known_leaves_indices():
    for_n = lambda x, n: sg.fori_loop(0, n, lambda i, s: s + x[i], 0.0)
    assert sliced(for_n, XYZ[:, 0, 0], np.int64(3))[1] == 1
    until = lambda x: sg.while_loop(lambda v: x[v[0]] < 9, lambda v: (v[0] + 1, v[1] + x[v[0]]), (0, 0.0))
    assert sliced(until, np.arange(12.0))[1] == 2


def test_derivatives_are_taken_of_slices():
    f = lambda x: np.sum(sg.fori_loop(0, 4, lambda i, s: np.sin(s) * x[i, 0], np.ones(4)))
    graph = sg.trace(f, XYZ).graph
    part = BEFORE[1].run(Part(graph, graph.outputs, (), 0), "stable")
    (loop,) = loops(part)
    assert len(loop_of(loop).xs) == 1
    verify(graph)


# ---- before and behind a loop


def recurrence(h0):
    """A recurrent network with these states, whose loss is differentiated by its weights."""

    def loss(W, U, b, xs):
        turn = lambda h, x: (np.tanh(x @ W + h @ U + b), None)
        return np.sum(sg.scan(turn, h0, xs)[0] ** 2)

    return sg.grad(loss, argnums=(0, 1, 2))


@pytest.mark.parametrize("batch", [(), (5,)])
def test_products_without_state_are_one_before_and_gradients_of_weights_one_behind(batch):
    args = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 4)), np.ones(4), RNG.standard_normal((6, *batch, 3))
    graph = recurrence(np.zeros((*batch, 4))).trace(*args).graph
    after = optimise(graph)
    same(graph, after, args)
    inside = [[node.op.name for node in regions_of(loop)[0].nodes] for loop in loops(after)]
    assert [names.count("matmul") for names in inside] == [1, 1]  # h @ U, and back
    assert [results(loop) for loop in loops(after)][1] == 2  # what flows back, and its stack
    assert not any("outer" in names or "sum" in names for names in inside)


def test_large_things_stay_in_turns():
    xs = RNG.standard_normal((4, 1000))
    f = lambda xs: sg.scan(lambda s, x: (s * 0.5 + np.sin(x), None), np.zeros(1000), xs)[0]
    graph = traced(f, xs)
    assert hoist_maps(graph) is graph
    f = lambda xs, A: sg.scan(lambda s, x: (s * 0.5 + A @ x, None), np.zeros(9000), xs)[0]
    graph = sg.trace(f, "float64[4, 1000]", "float64[9000, 1000]").graph
    assert hoist_maps(graph) is graph


def test_sums_of_products_stay_where_there_is_no_room():
    def f(xs, zs):
        turn = lambda c, x: ((c[0] + np.outer(np.sin(c[1]), x), np.cos(c[1])), None)
        return sg.scan(turn, (np.zeros((5000, 2)), zs), xs)[0][0]

    graph = sg.trace(f, "float64[4, 2]", "float64[5000]").graph
    assert sink_sums(graph) is graph


def test_sums_that_turns_read_stay():
    f = lambda xs: sg.scan(lambda S, x: (S + np.outer(S @ x, x), None), np.eye(3), xs)[0]
    graph = traced(f, XS)
    assert sink_sums(graph) is graph
    f = lambda xs: sg.scan(lambda S, x: (S + np.outer(x, x), S), np.eye(3), xs)
    graph = traced(f, XS)
    assert sink_sums(graph) is graph


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_have_their_starts_and_all_their_terms(reverse):
    def f(xs, zs):
        def turn(c, x):
            s, P, Q = c
            s = np.sin(s) + x
            P = P + np.outer(s, x) - -np.outer(x, x[:2]) @ zs[:2]
            return (s, P, s[:, None] * x + (np.outer(x, s) - (np.outer(s, s) - np.outer(s, x))) + Q), s

        return sg.scan(turn, (zs[0], zs, np.zeros((3, 3))), xs, reverse=reverse)

    graph = traced(f, XS, W)
    after = sink_sums(optimise(graph, 1))
    same(graph, after, (XS, W))
    assert len(loop_of(loops(after)[0]).carry) == 1


def test_a_loop_that_may_end_before_its_slices_do_stays():
    def f(xs):
        turn = lambda carry, place, slices: ([carry[0] + np.outer(slices[0] @ W, slices[0])], [slices[0]])
        until = lambda carry, place: place + carry[0][0, 0] * 0 < 3
        (final,), (rows,), n = repeat(xs.graph, turn, [np.zeros((3, 3))], len(xs), [xs], until)
        return final, np.sum(rows), n

    graph = traced(f, XS)
    assert values(graph, (XS,))[2] == 3
    assert drop_dead_results(sink_sums(hoist_maps(graph))) is graph
    same(graph, optimise(graph), (XS,))


def test_what_the_test_of_a_loop_reads_is_no_slice():
    def f(xs):
        turn = lambda carry, place, slices: ([carry[0] + xs[place]], [])
        until = lambda carry, place: xs[place] < 2
        return repeat(xs.graph, turn, [0.0], len(xs), (), until)[0]

    xs = np.array([1.0, -3.0, 1.5, 2.5, 4.0])
    graph = traced(f, xs)
    same(graph, slice_reads(graph), (xs,))


def test_a_map_of_small_things_needs_no_loop():
    graph = traced(lambda xs: sg.map(lambda x: np.exp(x) @ W + 1, xs), XS)
    after = optimise(graph)
    same(graph, after, (XS,))
    assert not loops(after)


# ---- arrays that turns write


def filled(x, key, value):
    y = x.copy()
    y[key] = value
    return y


def carried(node):
    """The shapes of what a loop carries."""
    return [c.value.aval.shape for c in loop_of(node).carry]


WRITES = {
    "not read": (lambda t, y, x: filled(y, t, x[t]), []),
    "the last": (lambda t, y, x: filled(y, t + 1, 0.5 * y[t] + x[t]), [(3,)]),
    "the one before the last": (lambda t, y, x: filled(y, t + 2, 0.5 * y[t] + x[t]), [(3,), (3,)]),
    "not written yet": (lambda t, y, x: filled(y, t, 0.5 * y[t + 1] + y[t] * x[t]), []),
    "downwards": (lambda t, y, x: filled(y, 4 - t, 0.5 * y[5 - t] + y[4 - t] - y[3 - t]), [(3,)]),
    "a part": (lambda t, y, x: filled(y, t + 1, y[t, 1] + x[t, ::-1] * y[t + 1, 0]), [(3,)]),
    "a part that moves": (lambda t, y, x: filled(y, t + 1, y[t, t % 3] + x[t]), [(3,)]),
    "a number": (lambda t, y, x: filled(y, t, 1), []),
    "columns": (lambda t, y, x: filled(y, (slice(None), t), y[:, t] * 2 + x[t, 0]), []),
    "one read that is not known": (lambda t, y, x: filled(y, t + 1, y[t] + y[t * t % 5]), None),
    "another place": (lambda t, y, x: filled(y, t * 2 % 6, y[t]), None),
    "a sum of all": (lambda t, y, x: filled(y, t, np.sum(y)), None),
    "twice": (lambda t, y, x: filled(z := filled(y, t, x[t]), t, z[t] * 2), None),
    "two places": (lambda t, y, x: filled(filled(y, t, x[t]), t + 1, x[t]), None),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("what", WRITES)
def test_what_turns_write_is_stacked(what, reverse):
    body, left = WRITES[what]

    def f(y, x):
        if reverse:
            return repeat(y.graph, lambda c, t, _: ([body(t, c[0], x)], []), [y], 3, reverse=reverse)[0][0]
        return sg.fori_loop(0, 3, lambda t, y: body(t, y, x), y)

    y, x = RNG.standard_normal((6, 3)), RNG.standard_normal((5, 3))
    graph = canonicalise(traced(f, y, x))
    after = slice_reads(graph)
    same(graph, after, (y, x))
    (loop,) = loops(after) or [None]
    if left is None:
        assert (6, 3) in carried(loop)
    elif not reverse:
        assert carried(loop) == left
    loss = lambda y, x: np.sum(np.sin(f(y, x)))
    plain, chosen = (values(sg.grad(loss, (0, 1), optimize=n).trace(y, x).graph, (y, x)) for n in (0, 1))
    for a, b in zip(plain, chosen, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_what_is_written_now_is_read_as_it_is():
    def f(y, x):
        def turn(t, c):
            z = filled(c[0], t + 1, x[t] * c[0][t])
            return z, c[1] * 0.5 + np.sin(z[t + 1]) * z[t] + z[t + 2]

        return sg.fori_loop(0, 4, turn, (y, np.zeros(3)))

    args = RNG.standard_normal((6, 3)), RNG.standard_normal((5, 3))
    graph = canonicalise(traced(f, *args))
    after = slice_reads(graph)
    same(graph, after, args)
    assert carried(loops(after)[0]) == [(3,), (3,)]


def test_an_array_that_each_turn_gives_as_a_whole_stays_whole():
    def f(y, xs):
        turn = lambda c, x: ((c[0] + 1, filled(c[1], c[0] * 0, x)), c[1])
        start = lambda: repeat(y.graph, lambda c, t, s: ([filled(c[0], t, s[0])], [c[0]]), [y], 3, [xs])
        return [*start()[0], *start()[1], *sg.scan(turn, (0, y), xs)]

    args = RNG.standard_normal((6, 3)), RNG.standard_normal((3, 3))
    graph = canonicalise(traced(f, *args))
    after = slice_reads(graph)
    same(graph, after, args)


def test_written_arrays_of_symbolic_sizes():
    def f(x):
        start = np.zeros(len(x))
        return sg.fori_loop(1, len(x), lambda t, y: filled(y, t, 0.5 * y[t - 1] + x[t]), start)

    after = slice_reads(canonicalise(sg.trace(f, "float64[n]").graph))
    assert carried(loops(after)[0]) == [()]
    for n in (1, 2, 5):
        x = RNG.standard_normal(n)
        np.testing.assert_allclose(values(after, [x])[0], f(x), atol=1e-14)


def test_rows_of_rows_that_loops_in_loops_fill():
    def f(x):
        inner = lambda i, z: sg.fori_loop(1, 4, lambda j, r: filled(r, j, r[j - 1] * x[i, j] + z[i - 1, j]), z[i - 1])
        return sg.fori_loop(1, 6, lambda i, z: filled(z, i, inner(i, z)), np.ones((6, 4)))

    x = RNG.standard_normal((6, 4))
    graph = canonicalise(traced(f, x))
    after = slice_reads(graph)
    same(graph, after, (x,))
    (loop,) = loops(after)
    assert carried(loop) == [(4,)]
    assert [carried(node) for node in with_nested(loop.params[0][1].nodes) if node.op is SCAN] == [[()]]


# ---- what is only stacked, and what is added


def inside(graph):
    """The operators in the body of the only loop."""
    (loop,) = loops(graph)
    return [node.op.name for node in regions_of(loop)[0].nodes if node.inputs]


def test_what_is_only_stacked_is_computed_behind():
    def f(xs):
        def turn(h, x):
            h = np.tanh(h @ W + x)
            return h, (1 - h * h, np.exp(x) * h, h.T)

        return sg.scan(turn, np.zeros(3), xs)

    graph = traced(f, XS)
    after = optimise(graph)
    same(graph, after, (XS,))
    assert inside(after) == ["matmul", "add", "tanh"]


@pytest.mark.parametrize(
    "turn, stays",
    [
        (lambda h, x: (h * 0.5 + np.sum(x), np.outer(h, x[:4])), False),
        (lambda h, x: (h * 0.5 + np.sum(x), h[0] + h[1]), True),  # h is larger
        (lambda h, x: (np.sin(h) + np.sum(x), np.sin(h)), True),  # the next turn needs it
        (lambda h, x: (h + 1, np.broadcast_to(h, (300, 3)) * 2), True),  # large
    ],
)
def test_what_is_stacked_is_made_of_what_is_not_larger(turn, stays):
    xs = RNG.standard_normal((5, 90))
    graph = traced(lambda xs: sg.scan(turn, np.ones(3), xs), xs)
    after = sink_maps(graph)
    same(graph, after, (xs,))
    assert (inside(after) == inside(graph)) == stays


def test_a_stack_of_many_small_operations_is_made_of_more_numbers_behind_the_loop():
    def f(R, xs):
        def turn(R, x):
            zero, (a, b, c) = 0.0, x
            K = np.array([[zero, -c, b], [c, zero, -a], [-b, a, zero]])
            new = R @ (np.eye(3) + K)
            y = np.zeros(3)
            y[0] = np.tanh(R[0] @ xs[0] + x[1]) * R[2, 1]
            y[1:] = R[1:, 0]
            return new, y

        return sg.scan(turn, R, xs)

    args = np.eye(3), np.tile(XS, (9, 1)) / 5
    graph = traced(f, *args)
    after = optimise(graph)
    same(graph, after, args)
    assert inside(after) == ["matmul"]


def test_what_is_added_up_alone_is_made_behind_the_loop():
    def f(S, ys):
        def turn(carry, y):
            m, P, total, other = carry
            P = 0.9 * P + S
            m = m + np.linalg.solve(P, y)
            sign, log = np.linalg.slogdet(P)
            total = total - 0.5 * (y @ np.linalg.solve(P, m) + np.log(sign) + log)
            return (m, P, total, other + np.sum(np.sin(m) * y)), (P, m)

        (m, _, total, other), stacks = sg.scan(turn, (np.zeros(2), np.eye(2), 1.0, 0.0), ys)
        return m, total, other, *stacks

    args = np.array([[2.0, 0.3], [0.3, 1.0]]), XS[:, :2]
    graph = traced(f, *args)
    after = optimise(graph)
    same(graph, after, args)
    assert inside(after) == ["multiply", "add", "linalg.inv", "matmul", "add"]


@pytest.mark.parametrize(
    "turn, left",
    [
        (lambda h, x: (np.cos(h) + x, (h, h * x + 1, np.sqrt(h * x + 4) / x)), 1),
        (lambda h, x: (np.cos(h) + x, (h, np.sum(h * x))), 2),  # not number by number
        (lambda h, x: (np.cos(h) + x, (h, h > x)), 2),  # a truth, which another rounding could change
        (lambda h, x: (np.cos(h) + x, (h + 1, h * x)), 2),  # h itself is not stacked
        (lambda h, x: (np.cos(h) + x, (h, np.exp(np.exp(np.exp(-np.exp(h) * x))))), 2),  # takes longer than to stack it
    ],
)
def test_what_a_few_operations_make_of_other_stacks_is_not_stacked(turn, left):
    xs = np.abs(RNG.standard_normal((40, 3))) + 0.1
    graph = traced(lambda xs: sg.scan(turn, xs[0], xs), xs)
    after = rematerialise_ys(graph)
    same(graph, after, (xs,))
    (loop,) = loops(drop_dead_results(after))
    assert results(loop) == 1 + left
    few = traced(lambda xs: sg.scan(turn, xs[0], xs), xs[:5])
    assert rematerialise_ys(few) is few


def test_sums_of_a_loop_that_keeps_nothing_stay_in_it():
    def f(x):
        turn = lambda _, c: (np.sin(c[0]), c[1] + np.exp(np.cos(c[0] * 2) + 1) * 0.5)
        return sg.fori_loop(0, 1000, turn, (x, np.zeros(30)))

    x = RNG.standard_normal(30)
    graph = traced(f, x)
    after = optimise(graph)
    same(graph, after, (x,))
    assert [results(node) for node in loops(after)] == [2]


def test_the_place_of_a_turn_is_no_stack():
    f = lambda xs: repeat(xs.graph, lambda c, t, s: ([c[0] + s[0]], [s[0] * t, c[0] * t]), [0.0], len(xs), [xs])[1]
    graph = traced(f, XS[0])
    same(graph, optimise(graph), (XS[0],))


def test_terms_that_need_no_state_are_added_ahead():
    def f(xs, U, b):
        return sg.scan(lambda h, x: (np.tanh(x @ U + h @ U.T + b + h * 0.5), None), np.zeros(6), xs)[0]

    args = np.tile(XS, 2), np.kron(np.eye(2), W), np.arange(6.0)
    graph = traced(f, *args)
    after = optimise(graph)
    same(graph, after, args)
    assert inside(after).count("add") == 2
    assert inside(optimise(graph, numerics="ieee")).count("add") == 3


def test_backward_loops_of_what_ends_early_are_over_no_more_than_there_was():
    def f(xs, U):
        turn = lambda c, t, s: ([np.tanh(c[0] @ U + s[0] @ U)], [c[0]])
        (h,), (hs,), _ = repeat(xs.graph, turn, [np.zeros(3)], len(xs), [xs], lambda c, t: t + c[0][0] * 0 < 3)
        return np.sum(h) + np.sum(hs**2)

    unrolled = lambda xs, U: np.sum(states(xs, U)[-1]) + np.sum(np.stack(states(xs, U)[:-1]) ** 2)

    def states(xs, U):
        found = [np.zeros(3)]
        for x in (xs[0], xs[1], xs[2]):
            found.append(np.tanh(found[-1] @ U + x @ U))
        return found

    args = XS, W * 0.5
    graph = sg.grad(f, argnums=(0, 1)).trace(*args).graph
    same(graph, optimise(graph), args)
    for a, b in zip(values(optimise(graph), args), sg.grad(unrolled, argnums=(0, 1))(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


# ---- what is the same in every turn


def test_rules_see_the_constants_that_turns_and_branches_read():
    def f(xs, b):
        zeros, two = np.zeros((2, 3)), np.float64(2.0)
        turn = lambda h, x: sg.cond(x[0] > 0, lambda: h * x + zeros[0] * x, lambda: h + zeros[1] * two + b)
        return sg.scan(lambda h, x: (turn(h, x), None), np.ones(3), xs)[0]

    args = XS, np.ones(3)
    graph = traced(f, *args)
    known = inline_constants(graph)
    same(graph, known, args)
    after = optimise(graph, 1)
    same(graph, after, args)
    assert operations(after).count("multiply") == 1 and operations(after).count("add") == 1


def test_what_is_the_same_in_every_turn_is_computed_once():
    def f(A, b):
        turn = lambda c, t, s: ([np.tanh(c[0] @ A.T) * np.exp(b)], [])
        until = lambda c, t: c[0][0] < b[0] * 2
        return repeat(A.graph, turn, [np.zeros(3)], 4, (), until)[0]

    args = W, np.ones(3)
    graph = traced(f, *args)
    taken = lambda g: [node.op.name for loop in loops(g) for region in regions_of(loop) for node in region.nodes]
    assert "exp" not in taken(graph)  # a trace leaves it outside
    f = sg.grad(lambda A, b: np.sum(sg.scan(lambda h, x: (np.sin(h) @ A / np.exp(x - x), -h), b, XS)[0]))
    graph = f.trace(*args).graph
    after = optimise(graph, 1)
    same(graph, after, args)
    assert "transpose" not in taken(after)


def test_invariants_of_loops_in_loops_go_all_the_way():
    def f(A, x):
        inner = lambda h, t: sg.scan(lambda g, y: (np.sin(g) @ A, None), h * t, x)[0]
        return np.sum(sg.scan(lambda h, y: (inner(h, 2), None), np.outer(x[0], x[1]), x)[0])

    graph = sg.grad(f).trace(W, XS).graph
    after = optimise(graph, 1)
    same(graph, after, (W, XS))
    turned = [x for x in after.live if x.op.name == "transpose" and x.inputs[0] is after.inputs[0]]
    (outer,) = [loop for loop in loops(after) if dict(loop.params).get("reverse")]
    assert len(turned) == 1 and turned[0] in outer.inputs


def test_few_turns_of_single_numbers_stay_as_they_are():
    f = lambda xs: sg.scan(lambda h, x: (np.sin(h) * 0.5 + np.exp(x), np.cos(h)), 0.0, xs)
    for n, ahead in ((8, False), (100, True)):
        graph = traced(f, np.ones(n))
        after = optimise(graph)
        same(graph, after, (np.ones(n),))
        assert ("exp" not in inside(after)) == ahead


# ---- branches


@pytest.mark.parametrize("x", [0.3, -0.3])
def test_what_both_sides_compute_alike_stands_outside(x):
    def f(x, y):
        a, b, c = sg.cond(x > 0, lambda: (np.sin(y) * x, y, x + 1), lambda: (np.sin(y) * x, y, x + 2))
        return a + b * c

    graph = traced(f, x, 0.7)
    after = optimise(graph, 1)
    same(graph, after, (x, 0.7))
    (node,) = [node for node in after.live if node.op is COND]
    assert results(node) == 1 and operations(after).count("sin") == 1


def test_branches_on_what_is_known_are_the_side_that_is_taken():
    def f(x):
        turn = lambda i, c: (sg.cond(c[1] > 0, lambda: np.sin(c[0]) * i, lambda: np.cos(c[0])), c[1])
        return sg.fori_loop(0, 3, turn, (x, 1.0))[0]  # the second is never changed

    graph = traced(f, 0.3)
    after = optimise(graph, 1)
    same(graph, after, (0.3,))
    assert {"cond", "cos"}.isdisjoint(operations(after))


def test_sides_that_differ_stay():
    graph = traced(lambda x: sg.cond(x > 0, lambda: np.sin(x), lambda: np.cos(x)), 0.3)
    assert simplify_branches(graph) is graph


@pytest.mark.parametrize("x", [0.3, -0.3])
def test_branches_on_one_predicate_are_one_where_nothing_stands_between(x):
    def f(x, y):
        a, b = sg.cond(x > 0, lambda: (np.sin(x), x), lambda: (np.cos(x), y))
        c = sg.cond(x > 0, lambda: a * y, lambda: y - b)  # reads the first
        d = sg.cond(x > 0, lambda: np.exp(np.tanh(c) * y), lambda: y)
        e = sg.cond(x > 0, lambda: np.sin(np.sin(c) * y), lambda: y * y)
        return d + sg.cond(x > 0, lambda: e, lambda: np.sin(c)) * sg.cond(x > 0, lambda: np.sin(a), lambda: b)

    def g(x, y):
        a = sg.cond(x > 0, lambda: np.sin(x), lambda: y)
        b = sg.cond(y > 0, lambda: np.cos(x), lambda: y)
        c = sg.cond(x > 0, lambda: y * np.sin(b), lambda: b)
        d = sg.cond(y > 0, lambda: y * np.exp(a), lambda: np.exp(a * x))
        return c * sg.cond(x > 0, lambda: d, lambda: x) + np.sin(a) * sg.cond(x > 0, lambda: np.sin(d), lambda: y)

    for function, branches in ((f, 1), (g, 4)):
        graph = traced(function, x, 0.7)
        after = join_branches(graph)
        same(graph, after, (x, 0.7))
        assert operations(after).count("cond") == branches
    assert join_branches(after) is after


def test_a_branch_that_needs_another_by_way_of_something_else_stays():
    def f(x):
        a = sg.cond(x > 0, lambda: np.sin(x), lambda: x)
        b = np.tanh(a)
        return sg.cond(x > 0, lambda: b, lambda: x)

    graph = traced(f, 0.3)
    assert join_branches(graph) is graph


def test_what_is_the_same_in_each_turn_is_repeated_and_not_stacked():
    def f(xs, a):
        (h, _), ys = sg.scan(lambda c, x: ((np.tanh(c[0] + x), c[1]), (a * 2, 3.0, np.sum(a), c[1])), (xs[0], a), xs)
        return h, *ys

    args = XS, XS[1] + 2
    graph = traced(f, *args)
    after = optimise(graph, 1)
    same(graph, after, args)
    assert [results(node) for node in loops(after)] == [3]  # arrays that are results are the caller's to write into
    assert all(y.flags.writeable for y in sg.compile(f)(*args))
    ones = sg.grad(lambda x: sg.scan(lambda t, x: (t + x, None), 0.0, x)[0]).compile("float64[n]", optimize=1)
    assert loops(ones.graph) == []
    np.testing.assert_array_equal(ones(XS[0]), 1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_loop_runs_over_what_a_branch_gives(level):
    def f(x, s):
        if s > 1:
            x = 2 * x
        total = 0.0
        for r in x:
            total = total + s * np.sin(r)
        return total

    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(sg.grad(f, optimize=level, loops=1)(x, 0.5), 0.5 * np.cos(x))
    np.testing.assert_allclose(sg.grad(f, optimize=level, loops=1)(x, 1.5), 3.0 * np.cos(2 * x))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_loop_goes_backwards_along_what_another_one_has_carried_to_its_end(level):
    def f(a):
        total, sums = sg.scan(lambda c, r: (c + r * a, np.sum(c)), np.zeros(3), a)
        last, products = sg.scan(lambda c, r: (0.5 * c + np.sin(r), r * c), 0.5, total, reverse=True)
        return last + np.sum(products) + np.sum(sums)

    a = np.array([0.3, -0.2, 0.7])
    np.testing.assert_allclose(sg.compile(f, optimize=level)(a), f(a))
    sg.check_grads(f, (a,), order=1)


def test_signs_of_products_go_to_what_is_known_before_the_loop():
    def f(s, matrices):
        for a in matrices:
            negative = -np.tanh(s)
            s = a @ negative + negative @ (2 * a)
        return s

    args = XS[0], RNG.standard_normal((20, 3, 3)) / 3
    graph = slice_reads(canonicalise(traced(f, *args)))
    assert "negative" in inside(graph)
    after = hoist_maps(graph)
    same(graph, after, args)
    assert inside(after) == ["tanh", "matmul", "matmul", "add"]


def test_a_sum_of_cotangents_that_is_read_as_a_whole_is_added_to_the_total_as_it_is():
    def f(noise, start):
        c = start
        for _ in range(20):
            p = 0.5 * c + noise
            c = p - 0.1 * np.outer(p[:, 0], p[0])
        return np.sum(c**2)

    args = np.eye(3), 2 * np.eye(3) + 0.1
    program = sg.grad(f).compile(*args)
    *_, loop = loops(program.graph)
    (body,) = regions_of(loop)
    assert [x.op.name for x in body.nodes].count("index_add") == 2, "a column and a row, once"
    np.testing.assert_allclose(
        program(*args), sg.grad(f, numerics="ieee").compile(*args, optimize=0)(*args), rtol=1e-12
    )


def test_loops_are_one_where_a_constant_is_outside_of_one_and_in_the_body_of_the_other():
    def f(s, xs):
        for x in xs:
            s = np.tanh(s @ (np.eye(3) + 0.5 * np.array([[0.0, 1, 0], [0, 0, 1], [0, 0, 0]]) * s)) + x
        return np.sum(s**2)

    args = XS[0], RNG.standard_normal((20, 3))
    forth, _ = loops(optimise(sg.value_and_grad(f).trace(*args).graph))
    assert [aval.ndim for aval in forth.aval].count(1) == 1, "one state"


def test_every_result_of_a_loop_has_its_number_where_writes_are_stacked():
    """Also the number of iterations of a loop that a condition ends, which stands behind the others."""

    def filled(x):
        y, k = np.zeros(40), 0
        while k < 40 and x < 3:
            y[k] = np.sin(x)
            x, k = x * 1.1, k + 1
        return np.sum(y) * k

    def counted(x):
        k = 0
        while x < 3:
            x, k = x * 1.1, k + 1
        return x * k

    def known(x):
        y = np.zeros(40)
        for k in range(40):
            y[k] = x * k
        return np.sum(np.exp(y))

    for f in (filled, counted, known):
        found = loops(traced(f, 0.5))
        assert found
        for node in found:
            assert len(with_stacked_writes(loop_of(node).opened())[1]) == len(node.aval)
