"""Rewriting: each rule on arrays and in a graph, whole programs before and after, and what a graph carries along."""

import gc
import re
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given, strategies as st

import symgrad as sg
from symgrad import pipeline
from symgrad.core.graph import CONSTANT, Aval, Graph, Literal, per_node, verify
from symgrad.core.interpret import interpret
from symgrad.core.provenance import UNKNOWN
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError, ConcreteValueError, DTypeError
from symgrad.frontend.variable import Variable
from symgrad.ops.marks import ALIAS, STOP
from symgrad.pipeline import canonicalise, drop_dead, optimise, rules_of, simplify, specialise
from symgrad.rewrite.engine import Rewriting, rewrite
from symgrad.rewrite.rules import Rule, Rules, rule
from tests.fuzz import generated, outcome

TABLES = dict.fromkeys(table for tables in pipeline.TABLES.values() for table in tables)
ALL_RULES = [r for table in TABLES for r in vars(table).values() if isinstance(r, Rule)]
F64, F32 = np.dtype(np.float64), np.dtype(np.float32)


def program(f, *inputs, dtype=float):
    """The graph of `f` on inputs of these shapes, its results wanted."""
    graph = Graph()
    avals = [x if isinstance(x, Aval) else Aval(x, np.dtype(dtype)) for x in inputs]
    variables = [Variable(graph, graph.add_input(f"x{i}", aval)) for i, aval in enumerate(avals)]
    graph.provenance = UNKNOWN._replace(file="test", line=1)
    results = f(*variables)
    graph.provenance = None
    results = results if isinstance(results, tuple) else (results,)
    graph.outputs = [y.node if isinstance(y, Variable) else graph.constant(y) for y in results]
    return graph


def canonical(graph, numerics="stable"):
    return drop_dead(canonicalise(graph, numerics))


def gradient(graph):
    found = pullback(graph, graph.outputs, [graph.constant(1.0)], graph.inputs, named=True)
    graph.outputs = [g for g in found if g is not None]
    return graph


def operators(graph):
    """Names of the operators, in order, without inputs and constants."""
    return [node.op.name for node in graph.nodes if node.op.name not in ("input", "constant")]


def final(f, *inputs, dtype=float, numerics="stable"):
    graph = optimise(program(f, *inputs, dtype=dtype), 1, numerics)
    verify(graph)
    return graph


def values(graph, *arrays):
    with np.errstate(all="ignore"):
        return interpret(graph.outputs, dict(zip(graph.inputs, arrays, strict=True)))


def drawn(r, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for name, d in r.draws.items():
        uniform = rng.uniform(d.low, d.high, d.shape)
        uniform = uniform + 1j * rng.uniform(d.low, d.high, d.shape) if d.dtype is complex else uniform
        found[name] = uniform > 0 if d.dtype is bool else np.floor(uniform).astype(int) if d.dtype is int else uniform
    return found


def same_number(before, after):
    np.testing.assert_allclose(*np.broadcast_arrays(before, after), rtol=1e-9, atol=1e-12)


# ---- every rule


@pytest.mark.parametrize("r", ALL_RULES, ids=lambda r: r.name)
def test_both_sides_agree_on_arrays(r):
    arguments = drawn(r) | r.examples
    if r.name == "log_of_even_power":
        arguments["a"] = 4.0
    with np.errstate(all="ignore"):
        before, after = r(**arguments)
    same_number(before, after)


@pytest.mark.parametrize("r", [r for r in ALL_RULES if r.exact], ids=lambda r: r.name)
def test_what_is_exact_is_so_for_every_number(r):
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, 1 / 3]
    rng = np.random.default_rng(0)
    for _ in range(200):
        arguments = {
            name: rng.choice([*special, *rng.normal(size=8)], d.shape) if d.dtype is float else x
            for (name, x), d in zip(drawn(r).items(), r.draws.values(), strict=True)
        }
        with np.errstate(all="ignore"):
            before, after = r(**arguments, **r.examples)
        np.testing.assert_array_equal(before, np.broadcast_to(after, np.shape(before)))


def turned(r, seed=0):
    """The arguments of a rule, complex, of any direction, where real ones are drawn."""
    rng = np.random.default_rng(seed)
    found = drawn(r, seed)
    for name, d in r.draws.items():
        if d.dtype is float:
            found[name] = found[name] * np.exp(1j * rng.uniform(-np.pi, np.pi, d.shape))
    return found | {
        key: np.dtype(complex) if isinstance(x, np.dtype) and x == F64 else x for key, x in r.examples.items()
    }


def in_plane(r, seed=0):
    """Complex arguments that a rule takes; real ones where it tells the two apart."""
    arguments = turned(r, seed)
    return arguments if r.admits(arguments) else drawn(r, seed) | r.examples


def traced(r, graph, arguments=None):
    """Inputs like the arguments of a rule, and its left side of them."""
    arguments = arguments or drawn(r) | r.examples
    inputs = {name: graph.add_input(name, Aval(arguments[name].shape, arguments[name].dtype)) for name in r.draws}
    arrays = {name: Variable(graph, x) for name, x in inputs.items()}
    numbers = {key: arguments[key] for key in r.examples}
    if r.name == "log_of_even_power":
        numbers["a"] = 4.0
    return arrays, r(**arrays, **numbers)[0]


@pytest.mark.parametrize("r", ALL_RULES, ids=lambda r: r.name)
def test_the_engine_applies_it(r):
    source = Graph()
    source.provenance = UNKNOWN
    _, before = traced(r, source)
    source.outputs = [before.node]
    table = Rules([r], lambda op: [])
    result = rewrite(source, table)
    assert result.applied.get(r.name), "the rule was not applied"
    new = drop_dead(result)
    verify(new)
    assert new.outputs[0].aval == source.outputs[0].aval
    feeds = list(drawn(r).values())
    same_number(values(source, *feeds)[0], values(new, *feeds)[0])


@pytest.mark.parametrize(
    "r", [r for r in ALL_RULES if any(d.dtype is float for d in r.draws.values())], ids=lambda r: r.name
)
def test_float32_stays_float32(r):
    source = Graph()
    source.provenance = UNKNOWN
    arrays = {
        name: Variable(source, source.add_input(name, Aval(d.shape, F32 if d.dtype is float else np.dtype(d.dtype))))
        for name, d in r.draws.items()
    }
    examples = {key: F32 if isinstance(value, np.dtype) else value for key, value in r.examples.items()}
    before, _ = r(**arrays, **examples)
    source.outputs = [before.node]
    for f in (canonicalise, simplify, specialise):
        assert drop_dead(f(source)).outputs[0].aval == before.node.aval


@pytest.mark.parametrize("r", [r for r in ALL_RULES if r.plane], ids=lambda r: r.name)
def test_a_rule_of_the_plane_holds_for_complex_numbers(r):
    for seed in range(20):
        before, after = r(**in_plane(r, seed))
        same_number(before, after)
    graph = Graph()
    graph.provenance = UNKNOWN
    _, before = traced(r, graph, in_plane(r))
    graph.outputs = [before.node]
    new = rewrite(graph, Rules([r], lambda op: []))
    assert new.applied.get(r.name)
    feeds = [in_plane(r)[name] for name in r.draws]
    same_number(values(graph, *feeds)[0], values(drop_dead(new), *feeds)[0])


@pytest.mark.parametrize("r", [r for r in ALL_RULES if r.plane == "all"], ids=lambda r: r.name)
def test_a_rule_of_all_the_plane_keeps_complex_infinities_and_nans(r):
    special = np.array([complex(x, y) for x in (0.5, np.inf, np.nan) for y in (-2.0, -np.inf, np.nan)])
    rng = np.random.default_rng(0)
    for _ in range(100 if r.exact else 0):
        given = in_plane(r)
        for name in [name for name, d in r.draws.items() if d.dtype is float]:
            numbers = special if given[name].dtype == complex else special.real
            given[name] = rng.choice(numbers, given[name].shape)
        with np.errstate(all="ignore"):
            before, after = r(**given)
        same_parts = [np.broadcast_arrays(part(before), part(after)) for part in (np.real, np.imag)]
        for one, other in same_parts:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "r",
    [r for r in ALL_RULES if r.plane != "all" and any(d.dtype is float for d in r.draws.values())],
    ids=lambda r: r.name,
)
@pytest.mark.parametrize("numerics", ["stable", "ieee"])
def test_other_rules_leave_complex_numbers_alone(r, numerics):
    if r.plane == "finite" and numerics == "stable":
        return
    graph = Graph()
    graph.provenance = UNKNOWN
    try:
        _, before = traced(r, graph, turned(r))
    except DTypeError:  # NumPy has no such function of complex numbers
        return
    graph.outputs = [before.node]
    assert not getattr(rewrite(graph, Rules([r], lambda op: [], numerics)), "applied", {}).get(r.name)


def test_a_real_base_with_a_complex_exponent_is_a_complex_power():
    x = np.array([-1.0, 4.0])
    np.testing.assert_allclose(sg.compile(lambda x: x ** (0.5 + 0j))(x), [1j, 2.0], atol=1e-15)


def test_rule_names_are_unique_and_patterns_are_not_ambiguous():
    names = [r.name for r in ALL_RULES]
    assert len(names) == len(set(names))
    for r in ALL_RULES:
        assert set(r.pattern.arrays.values()) == set(r.draws), r.name
        bound = set(r.pattern.numbers.values()) | {name for pairs in r.pattern.params.values() for _, name in pairs}
        assert bound == set(r.examples), r.name


def test_a_planted_wrong_rule_is_caught():
    @rule
    def wrong(x):
        return np.sin(x), np.cos(x)

    with pytest.raises(AssertionError):
        test_both_sides_agree_on_arrays(wrong)
    with pytest.raises(AssertionError):
        test_the_engine_applies_it(wrong)


# ---- the engine


def test_rules_that_undo_each_other_end():
    @rule
    def there(x):
        return np.sin(x), np.cos(x)

    @rule
    def back(x):
        return np.cos(x), np.sin(x)

    graph = program(lambda x: np.sin(x), (3,))
    verify(drop_dead(rewrite(graph, Rules([there, back], lambda op: []))))


def test_a_rule_that_grows_for_ever_is_stopped():
    @rule
    def grow(x):
        return np.sin(x), np.sin(x + 1.5)

    graph = program(lambda x: np.sin(x), (3,))
    new = drop_dead(rewrite(graph, Rules([grow], lambda op: [])))
    assert len(new.nodes) < 60


def test_a_rule_that_changes_the_shape_or_weakness_is_refused():
    @rule
    def grows(x):
        return np.sin(x), x[None]

    graph = program(lambda x: np.sin(x), (3,))
    assert operators(drop_dead(rewrite(graph, Rules([grows], lambda op: [])))) == ["sin"]


def test_a_rule_may_decline():
    @rule
    def never(x):
        return np.sin(x), NotImplemented

    graph = program(lambda x: np.sin(x), (3,))
    assert operators(drop_dead(rewrite(graph, Rules([never], lambda op: [])))) == ["sin"]


def test_a_rule_does_not_apply_where_it_is_undefined_and_a_fault_in_it_is_not_hidden():
    @rule
    def undefined(x):
        return np.sin(x), x if x.shape == (2, 3) else x + np.ones(7)

    @rule
    def wrong(x):
        return np.sin(x), x if x.shape == (2, 3) else np.sin(float(x[0]))

    graph = program(lambda x: np.sin(x), (3,))
    assert operators(drop_dead(rewrite(graph, Rules([undefined], lambda op: [])))) == ["sin"]
    with pytest.raises(ConcreteValueError):
        rewrite(graph, Rules([wrong], lambda op: []))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("stage", ["canonicalise", "simplify", "specialise"])
def test_no_rule_that_matches_is_passed_over(stage, dtype):
    rules, matches = rules_of(stage, "stable"), 0
    for r in ALL_RULES:
        avals = [Aval(d.shape, np.dtype(dtype if d.dtype is float else d.dtype)) for d in r.draws.values()]
        try:
            graph = program(lambda *xs, r=r: r(*xs, **r.examples)[0], *avals)
        except DTypeError:
            assert dtype is np.float16
            continue  # np.linalg has none
        for node in graph.nodes:
            entry = rules.of(node.op)
            if entry is None:
                continue
            filed = [each.rule for some in entry.by_input.values() for each in some]
            matching = {r for r in (*filed, *entry.repeated, *entry.general) if r.pattern.match(node)}
            assert matching <= set(entry.candidates(node, entry.meets(node).rules))
            matches += len(matching)
    assert matches > 90


@pytest.mark.slow
def test_no_procedure_is_passed_over(monkeypatch):
    """Procedures that the operators of a node's inputs rule out would do nothing there."""
    rewritten, results = Rewriting._rewritten, {}

    def checked(graph, node):
        entry = graph.rules.of(node.op)
        met = entry.meets(node).procedures if entry else ()
        for procedure in entry.procedures if entry else ():
            if procedure not in met and len(node.inputs) > 1:  # of one input it may rely on the operator
                results.setdefault(procedure.__name__, set()).add(procedure(graph, node))
        return rewritten(graph, node)

    monkeypatch.setattr(Rewriting, "_rewritten", checked)
    for seed in range(20):
        outcome(generated(seed))
    assert len(results) > 15
    assert [name for name, found in results.items() if found != {None}] == []


def test_a_graph_that_no_rule_is_met_with_stays():
    @rule
    def changes(x):
        return np.sin(x), np.cos(x)

    graph = program(lambda x: np.tan(x), (3,))
    assert rewrite(graph, Rules([changes], lambda op: [])) is graph
    assert rewrite(program(lambda x: np.sin(x), (3,)), Rules([changes], lambda op: [])) is not graph


def test_what_is_kept_of_a_node_goes_with_it(request):
    calls = []

    @per_node
    def counted(node):
        calls.append(node.id)
        return node.op.name

    gc.disable()  # so that the graph stays among the youngest objects, and no others have to be looked through
    request.addfinalizer(gc.enable)
    graph = program(lambda x: np.sin(x), (3,))
    assert [counted(graph.outputs[0]) for _ in range(3)] == ["sin"] * 3
    assert calls == [1]
    gone = weakref.ref(graph.outputs[0])
    del graph
    gc.collect(0)
    assert gone() is None


def test_commutative_operators_match_both_ways_and_repeats_must_be_the_same():
    assert operators(final(lambda x, y: np.log(np.exp(y) + 1), (3,), (3,))) == ["logaddexp"]
    assert operators(final(lambda x: x - x, (3,))) == ["full"]
    assert operators(final(lambda x, y: x - y, (3,), (3,))) == ["subtract"]


@pytest.mark.slow
def test_long_chains_need_no_recursion():
    def chain(x):
        for _ in range(5000):
            x = np.sin(x)
        return np.sum(x)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(300)
        graph = optimise(gradient(canonical(program(chain, (2,)))))
    finally:
        sys.setrecursionlimit(limit)
    assert len(graph.outputs) == 1


def test_deterministic():
    def f(x, w):
        h = np.tanh(x @ w)
        return np.mean(np.log(1 + np.exp(-h)) * 2 / 3)

    def run():
        return [repr(node) for node in optimise(gradient(canonical(program(f, (4, 3), (3,))))).nodes]

    assert run() == run()


def test_numerics_is_checked():
    with pytest.raises(ArgumentError) as error:
        canonical(Graph(), "fast")
    assert str(error.value).startswith("numerics='fast'")
    assert 'Write numerics="stable" or numerics="ieee".' in str(error.value)


# ---- what a graph carries along


def test_inputs_stay_in_order_even_when_dead():
    graph = final(lambda x, y, z: y + 0, (3,), (2,), (4,))
    assert [x.aval.shape for x in graph.inputs] == [(3,), (2,), (4,)]
    assert graph.outputs == [graph.inputs[1]]


def test_the_source_is_left_as_it_is():
    graph = program(lambda x: np.log(1 + np.exp(x)), (3,))
    before = [repr(node) for node in graph.nodes]
    canonical(graph)
    assert [repr(node) for node in graph.nodes] == before


def test_where_and_names_survive():
    def f(x, y):
        margin = x * y
        return np.sum(np.log(1 + np.exp(margin)))

    source = Graph()
    x, y = (Variable(source, source.add_input(n, Aval((3,), F64))) for n in "xy")
    source.outputs = [f(x, y).node]
    line = source.outputs[0].where
    graph = optimise(gradient(canonical(source)))
    verify(graph)
    assert all(node.where is not None for node in graph.nodes)
    products = [node for node in graph.nodes if graph.names.get(node) == "margin"]
    assert [node.op.name for node in products] == ["multiply"]
    assert products[0].where.line == f.__code__.co_firstlineno + 1
    derived = [name for name in graph.names.values() if not isinstance(name, str)]
    assert {(pattern, of) for pattern, of in derived} == {
        ("d_{}", products[0]), ("d_{}", graph.inputs[0]), ("d_{}", graph.inputs[1])
    }  # fmt: skip
    assert {n.where.file for n in graph.nodes if n.op is not CONSTANT} == {line.file}


def test_a_name_of_what_is_gone_is_written_out():
    graph = Graph()
    graph.provenance = UNKNOWN  # so that nothing gets its name from this file
    x = Variable(graph, graph.add_input("x", Aval((3,), F64)))
    h, g = np.exp(x), np.sin(x)
    graph.label(h.node, "h")
    graph.label(g.node, ("d_{}", h.node))
    anonymous = np.cos(x)
    graph.label(np.cosh(x).node, ("d_{}", anonymous.node))
    graph.outputs = [g.node, np.cosh(x).node]
    new = drop_dead(graph)
    assert [new.names.get(y) for y in new.outputs] == ["d_h", None]


def test_marks_stay_for_derivatives_and_go_at_the_end():
    def f(x):
        return ALIAS(STOP(x) * 2.0, tag=1)

    graph = program(f, (3,))
    assert operators(canonical(graph)) == ["stop_gradient", "multiply", "alias"]
    assert operators(optimise(graph, 1)) == ["multiply"]


def test_every_pass_gives_a_sound_graph():
    def f(x, w, y):
        return np.mean((np.tanh(x @ w) - y) ** 2)

    graph = program(f, (4, 3), (3, 2), (4, 2))
    for each in (canonicalise, drop_dead, simplify, drop_dead, specialise, drop_dead):
        graph = each(graph)
        verify(graph)


# ---- constants


def test_constants_fold_with_their_dtype_and_weakness():
    def f(x):
        return Variable(x.graph, x.graph.constant(2)) * 3.5 * x

    graph = program(f, (3,), dtype=np.float32)
    new = optimise(graph, 1)
    verify(new)
    assert new.outputs[0].aval == Aval((3,), F32)
    assert [dict(n.params)["value"] for n in new.nodes if n.op is CONSTANT] == [Literal(7.0)]


@pytest.mark.parametrize(
    "f",
    [
        lambda c: c(np.float64(1.0)) / c(np.float64(0.0)),
        lambda c: np.log(c(np.float64(-1.0))),
        lambda c: np.exp(c(np.float64(1e5))),
        lambda c: np.sqrt(c(np.array([-1.0, 2.0]))),
    ],
)
def test_what_warns_is_left_for_the_run(f):
    graph = Graph()
    graph.outputs = [f(lambda v: Variable(graph, graph.constant(v))).node]
    assert len(operators(optimise(graph, 1))) == 1


def test_large_arrays_are_not_made_when_compiling():
    assert operators(final(lambda x: np.zeros((1000, 1000), like=x) + x, (1,))) == ["broadcast_to"]
    assert operators(final(lambda x: np.exp(np.zeros((1000, 1000), like=x)) @ x, (1000,))) == ["sum", "broadcast_to"]


def test_numbers_become_pythons_where_the_dtype_stays():
    def constants(graph):
        return [dict(n.params)["value"] for n in graph.nodes if n.op is CONSTANT]

    assert constants(final(lambda x: np.float64(2.0) * x, (3,))) == [Literal(2.0)]
    assert constants(final(lambda x: np.float64(2.0) * x, (3,), dtype=np.float32)) == [Literal(np.float64(2.0))]
    assert constants(final(lambda x: x > np.float64(0.1), (3,), dtype=np.float32)) == [Literal(np.float64(0.1))]
    assert constants(final(lambda x: x > np.float64(0.1), (3,))) == [Literal(0.1)]


# ---- golden programs

GOLDEN = {
    "mean": (lambda x: np.mean(x), [(4, 3)], ["full"]),
    "sum of squares": (lambda x: np.sum(x**2), [(4,)], ["multiply"]),
    "relu": (lambda x: np.sum(np.maximum(x, 0)), [(4,)], ["heaviside"]),
    "softplus": (lambda x: np.sum(np.log(1 + np.exp(x))), [(4,)], ["negative", "exp", "add", "divide"]),
    "quadratic": (lambda a, x: x @ (a @ x), [(3, 3), (3,)], None),
    "slices": (
        lambda x: np.sum((x[1:] - x[:-1]) ** 2),
        [(6,)],
        ["index", "index", "subtract", "multiply", "negative", "full", "index_set", "index_add"],
    ),
    "logistic": (
        lambda w, x, y: np.mean(np.log1p(np.exp(-y * (x @ w)))),
        [(3,), (5, 3), (5,)],
        None,
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_gradients(name):
    f, shapes, expected = GOLDEN[name]
    source = gradient(program(f, *shapes))
    graph = optimise(gradient(canonical(program(f, *shapes))))
    verify(graph)
    if expected is not None:
        assert operators(graph) == expected
    assert len(graph.nodes) <= len(source.nodes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in shapes]
    for before, after in zip(values(source, *arrays), values(graph, *arrays), strict=True):
        same_number(before, after)


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (lambda x: np.reshape(np.reshape(x, (6,)), (3, 2)), [(2, 3)], ["reshape"]),
        (lambda x: np.reshape(x, (2, 3)), [(2, 3)], []),
        (lambda x: np.reshape(x, (2, 1)), [(2,)], ["index"]),
        (lambda x: x.T.T, [(2, 3)], []),
        (lambda x: np.transpose(np.transpose(x, (1, 2, 0)), (1, 2, 0)), [(2, 3, 4)], ["transpose"]),
        (lambda x, y: np.broadcast_to(x, (2, 3)) * y, [(3,), (2, 3)], ["multiply"]),
        (lambda x, y: np.broadcast_to(np.reshape(x, (1, 1)), (2, 3)) * y, [(), (2, 3)], ["multiply"]),
        (lambda x: np.exp(np.broadcast_to(x, (2, 3))), [(3,)], ["exp", "broadcast_to"]),
        (lambda x: np.sum(np.broadcast_to(x, (5, 3)), axis=0), [(3,)], ["multiply"]),
        (lambda x: np.sum(np.broadcast_to(x, (5, 3))), [(3,)], ["sum", "multiply"]),
        (lambda x: np.mean(np.broadcast_to(x, (5, 3)), axis=0, keepdims=True), [(3,)], ["index"]),
        (lambda x: np.sum(x) + np.max(x) + np.prod(x) + np.mean(x), [()], ["multiply"]),
        (lambda x: np.min(x, axis=1) + np.any(x > 0, axis=1), [(3, 1)], ["index", "greater", "index", "add"]),
        (lambda x: x.astype(float), [(3,)], []),
        (lambda x: x.astype(int).astype(float).astype(complex), [(3,)], ["astype", "astype"]),
        (lambda x: x.astype(int).astype(float).astype(int), [(3,)], ["astype", "astype", "astype"]),
        (lambda x: x[:], [(3,)], []),
        (lambda x: x[:, :], [(3, 2)], []),
        (lambda x, y: np.sum(x * y), [(3,), (3,)], ["matmul"]),
        (lambda x, y: np.sum(x * y), [(3,), (2, 3)], ["multiply", "sum"]),
        (lambda x: (x > 0).astype(float) != 0, [(3,)], ["greater"]),
        (lambda x: 2.0 * (3.0 * x) / 6.0, [(3,)], []),
        (lambda x: x**3, [(3,)], ["multiply", "multiply"]),
    ],
)
def test_golden_values(f, shapes, expected):
    source, graph = program(f, *shapes), final(f, *shapes)
    assert operators(graph) == expected
    arrays = [np.random.default_rng(1).standard_normal(s) for s in shapes]
    same_number(values(source, *arrays)[0], values(graph, *arrays)[0])


# ---- NaN and infinity

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 1e308, 1e-308, 1000.0, -1000.0])


@pytest.mark.parametrize("r", ALL_RULES, ids=lambda r: r.name)
def test_ieee_keeps_nan_and_infinity(r):
    if r.changes_nan:
        source = Graph()
        source.provenance = UNKNOWN
        _, before = traced(r, source)
        source.outputs = [before.node]
        for f in (canonicalise, simplify, specialise):
            assert r.name not in f(source, "ieee").applied
        return
    rng = np.random.default_rng(0)
    arguments = drawn(r) | r.examples
    for _ in range(20):
        special = {
            k: rng.choice(SPECIAL, np.shape(v)) if k in r.draws and v.dtype == float else v
            for k, v in arguments.items()
        }
        with np.errstate(all="ignore"):
            before, after = np.broadcast_arrays(*r(**special))
        np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
        np.testing.assert_array_equal(np.isinf(before), np.isinf(after))


# ---- random programs

UNARY = [
    np.negative, np.exp, np.tanh, np.abs, np.sqrt, np.log, lambda x: 0 * x, lambda x: x * 1,
    lambda x: 2.0 * x, lambda x: x**2, lambda x: 1 / x,
    lambda x: x + 0, lambda x: 1 + x, lambda x: x - 1, lambda x: np.sum(x), lambda x: np.mean(x, axis=0, keepdims=True),
    lambda x: x[..., ::-1], lambda x: x.T, lambda x: np.reshape(x, (-1,)),
    lambda x: np.where(x > 0, x, 0.5),
    lambda x: np.broadcast_to(np.sum(x), (2, 3)),
]  # fmt: skip
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.maximum, lambda x, y: np.where(x > y, x, y)]
STEP = st.tuples(st.integers(0, len(UNARY) + len(BINARY) - 1), st.integers(0, 30), st.integers(0, 30))


def run_steps(steps, *xs):
    known = list(xs)
    for which, i, j in steps:
        x, y = known[i % len(known)], known[j % len(known)]
        if which < len(UNARY):
            known.append(UNARY[which](x))
        elif np.shape(x) == np.shape(y) or not np.shape(x) or not np.shape(y):
            known.append(BINARY[which - len(UNARY)](x, y))
    return known[-1]


@given(st.lists(STEP, min_size=1, max_size=12))
def test_random_programs_keep_their_values(steps):
    rng = np.random.default_rng(len(steps))
    arrays = rng.uniform(0.5, 1.5, (2, 2, 3))
    source = program(lambda *xs: run_steps(steps, *xs), (2, 3), (2, 3))
    before = values(source, *arrays)[0]
    for numerics in ("stable", "ieee"):
        for new in (canonical(source, numerics), optimise(canonical(source, numerics), 1, numerics)):
            verify(new)
            after = values(new, *arrays)[0]
            assert np.shape(after) == np.shape(before) and np.asarray(after).dtype == np.asarray(before).dtype
            good = np.isfinite(before) & (np.abs(before) < 1e8)
            np.testing.assert_allclose(np.where(good, after, 0), np.where(good, before, 0), rtol=1e-6, atol=1e-6)


@given(st.lists(STEP, min_size=1, max_size=8))
def test_random_gradients_keep_their_values(steps):
    arrays = np.random.default_rng(len(steps)).uniform(0.5, 1.5, (2, 2, 3))
    source = program(lambda *xs: np.sum(run_steps(steps, *xs)), (2, 3), (2, 3))
    kept = list(source.outputs)
    improved = canonical(source)
    before = pullback(source, kept, [source.constant(1.0)], source.inputs)
    after = pullback(improved, improved.outputs, [improved.constant(1.0)], improved.inputs)
    pairs = [(i, b, a) for i, (b, a) in enumerate(zip(before, after, strict=True)) if b is not None and a is not None]
    source.outputs, improved.outputs = [b for _, b, _ in pairs], [a for _, _, a in pairs]
    new = optimise(improved)
    verify(new)
    for b, a in zip(values(source, *arrays), values(new, *arrays), strict=True):
        good = np.isfinite(b) & (np.abs(b) < 1e6)
        np.testing.assert_allclose(np.where(good, a, 0), np.where(good, b, 0), rtol=1e-5, atol=1e-5)


def test_symbolic_sizes_are_never_pinned():
    from symgrad.core.size_scope import Sizes

    n = Sizes().symbol("n")  # without a value: pinning it would raise

    def f(w, x, y):
        return np.mean(np.log1p(np.exp(-y * (x @ w))))

    graph = program(f, Aval((3,), F64), Aval((n, 3), F64), Aval((n,), F64))
    new = optimise(gradient(canonical(graph)))
    verify(new)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in ((3,), (5, 3), (5,))]
    source = gradient(program(f, (3,), (5, 3), (5,)))
    for b, a in zip(values(source, *arrays), values(new, *arrays), strict=True):
        same_number(b, a)


# ---- what is written in the end


def body(transformed, *specs):
    """The statements of the generated function, without comments; what it returns goes by the name ``result``."""
    lines = transformed.source(*specs).split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    statements = [line.split("  #")[0].strip() for line in lines[start + 1 :]]
    statements = [s for s in statements if s and not s.startswith("#")]
    name = statements[-1].removeprefix("return ")
    if name.isidentifier():
        statements = [re.sub(rf"\b{name}\b", "result", s) for s in statements]
        if statements[-2].startswith("result = "):
            statements[-2:] = [statements[-2].replace("result =", "return", 1)]
    return statements


def logistic(w, x, y):
    return np.sum(np.log1p(np.exp(-y * (x @ w))))


def cross_entropy(z, labels):
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(labels.shape[0], like=labels), labels])


def softmax(x):
    return np.exp(x) / np.sum(np.exp(x))


HESSIANS = {
    "logistic": (
        logistic, ["float64[d]", "float64[n, d]", "float64[n]"],
        ["t1 = x @ w", "t2 = 1 / (1 + np.exp(y * t1))", "return (x.T * (y * t2 * (1 - t2) * y)) @ x"],
    ),
    "least squares": (lambda x, a: np.sum((a @ x) ** 2), ["float64[d]", "float64[n, d]"], ["return 2 * (a.T @ a)"]),
    "least squares in float32": (
        lambda x, a: np.sum((a @ x) ** 2), ["float32[4]", "float32[9, 4]"], ["return 2 * (a.T @ a)"]
    ),
    "quadratic": (lambda x, a: x @ a @ x, ["float64[n]", "float64[n, n]"], ["return a + a.T"]),
    "factorisation": (
        lambda u, v, t, w: np.sum(w * (t - u @ v.T) ** 2),
        ["float64[5, 2]", "float64[5, 2]", "float64[5, 5]", "float64[5, 5]"],
        ["t1 = v.T", "result = np.zeros((5, 2, 5, 2))", "result[c1, :, c1] = (2 * t1 * w[:, None]) @ v",
         "return result"],
    ),
    "cubes": (lambda x: np.sum(x**3), ["float64[n]"], ["return np.diag(6 * x)"]),
    "poisson": (
        lambda w, x, y: np.sum(np.exp(x @ w) - y * (x @ w)), ["float64[d]", "float64[n, d]", "float64[n]"],
        ["t1 = np.exp(x @ w)", "return (x.T * t1) @ x"],
    ),
}  # fmt: skip

JACOBIANS = {
    "product": (lambda x, a: a @ x, ["float64[d]", "float64[n, d]"], ["return a.copy()"]),
    "elementwise": (lambda x: np.sin(x), ["float64[n]"], ["return np.diag(np.cos(x))"]),
    "elementwise, of a matrix": (
        lambda x: np.exp(x), ["float64[3, 4]"],
        ["t1 = np.exp(x)", "return np.diag(t1.reshape(-1)).reshape(3, 4, 3, 4)"],
    ),
    "product of matrices": (
        lambda x, a: -(x @ a) / 2 + x @ a, ["float64[3, 4]", "float64[4, 2]"],
        ["result = np.zeros((3, 2, 3, 4))", "result[c1, :, c1] = 0.5 * a.T", "return result"],
    ),
    "product of matrices, scaled": (
        lambda x, a, b: (b * (x @ a)) / 2, ["float64[3, 4]", "float64[4, 2]", "float64[3, 2]"], None
    ),
    "one layer": (
        lambda x, a: np.tanh(a @ x), ["float64[d]", "float64[n, d]"],
        ["t1 = np.tanh(a @ x)", "return (1 - t1 * t1)[:, None] * a"],
    ),
    "softmax": (
        softmax, ["float64[n]"],
        ["t1 = np.max(x, keepdims=True)", "t2 = np.exp(x - np.where(np.isfinite(t1), t1, 0))", "t3 = t2 / np.sum(t2)",
         "return np.diag(t3) - t3[:, None] * t3"],
    ),
}  # fmt: skip

GRADIENTS = {
    "cross entropy": (
        cross_entropy, ["float64[12, 3]", "int64[12]"],
        ["t1 = np.max(z, axis=1, keepdims=True)", "t2 = np.exp(z - np.where(np.isfinite(t1), t1, 0))",
         "t3 = np.sum(t2, axis=1, keepdims=True)", "result = 0.08333333333333333 / t3 * t2",
         "result[c1, labels] -= 0.08333333333333333", "return result"],
    ),
    "a column": (
        lambda t, x: np.sum(np.tanh(x * (1 - t[:, None]))), ["float64[n]", "float64[n, d]"],
        ["t1 = np.tanh(x * (1 - t[:, None]))", "return -np.sum((1 - t1 * t1) * x, axis=1)"],
    ),
    "columns of which one is scaled": (
        lambda t, x: np.sum(3 * np.cos(x - t[:, None])), ["float64[n]", "float64[n, d]"],
        ["t1 = x - t[:, None]", "return 3.0 * np.sum(np.sin(t1), axis=1)"],
    ),
    "quotient by a column": (
        lambda z, v: np.sum(np.log(np.exp(z) / np.exp(z).sum(axis=1)[:, None]) * v), ["float64[4, 5]", "float64[4, 5]"],
        ["t1 = np.exp(z)", "t2 = np.sum(t1, axis=1)", "return v - (np.sum(v, axis=1) / t2)[:, None] * t1"],
    ),
    "mean of logistic": (
        lambda w, x, y: np.mean(np.log1p(np.exp(-y * (x @ w)))), ["float64[d]", "float64[n, d]", "float64[n]"],
        ["n = x.shape[0]", "t1 = -y", "t2 = x @ w", "return ((t1 / (1 + np.exp(y * t2))) @ x) / n"],
    ),
    "picked by rows": (
        lambda z, i: np.sum(z[np.arange(4), i] ** 2), ["float64[4, 5]", "int64[4]"],
        ["t1 = z[c1, i]", "result = np.zeros((4, 5))", "result[c1, i] = 2 * t1", "return result"],
    ),
    "picked along an axis": (
        lambda z, i: np.sum(np.take_along_axis(z, i[:, None], 1) ** 2), ["float64[4, 5]", "int64[4]"],
        ["t1 = i[:, None]", "t2 = np.take_along_axis(z, t1, axis=1)", "result = np.zeros((4, 5))",
         "result[c1, t1] = 2 * t2",
         "return result"],
    ),
    "picked with repeats": (
        lambda z, i: np.sum(z[i] ** 2), ["float64[5]", "int64[4]"],
        ["t1 = z[i]", "result = np.zeros(5)", "np.add.at(result, i, 2 * t1)", "return result"],
    ),
    "softmax of rows": (
        lambda z, v: np.sum((np.exp(z) / np.sum(np.exp(z), axis=-1, keepdims=True)) * v),
        ["float64[4, 5]", "float64[4, 5]"],
        ["t1 = np.max(z, axis=1, keepdims=True)", "t2 = np.exp(z - np.where(np.isfinite(t1), t1, 0))",
         "t3 = t2 / np.sum(t2, axis=1, keepdims=True)", "return t3 * (v - np.sum(v * t3, axis=1, keepdims=True))"],
    ),
}  # fmt: skip

WRITTEN = [(sg.hessian, *row) for row in HESSIANS.values()]
WRITTEN += [(sg.jacobian, *row) for row in JACOBIANS.values()] + [(sg.grad, *row) for row in GRADIENTS.values()]


@pytest.mark.parametrize(
    ("transform", "f", "specs", "expected"), WRITTEN, ids=[*HESSIANS, *(f"d {name}" for name in JACOBIANS), *GRADIENTS]
)
def test_it_reads_as_a_person_would_write_it(transform, f, specs, expected):
    assert expected is None or body(transform(f, optimize=1), *specs) == expected
    sizes = {"n": 6, "d": 3}
    rng = np.random.default_rng(0)
    arrays = []
    for spec in specs:
        dtype, shape = spec[:-1].split("[")
        shape = tuple(sizes.get(s.strip()) or int(s) for s in shape.split(","))
        arrays.append(rng.integers(0, 3, shape) if dtype == "int64" else rng.standard_normal(shape).astype(dtype))
    fast, plain = transform(f)(*arrays), transform(f, optimize=0)(*arrays)
    assert fast.dtype == plain.dtype and fast.shape == plain.shape
    np.testing.assert_allclose(fast, plain, rtol=1e-5 if fast.dtype == F32 else 1e-9, atol=1e-12)


# ---- small things meet before large ones


@pytest.mark.parametrize(
    ("f", "shapes", "fewer"),
    [
        (lambda a, v, w: a * v * w, [(4, 3), (3,), (3,)], True),
        (lambda a, v, w: a * v / w, [(4, 3), (3,), (3,)], True),
        (lambda a, v, w: v / a * w, [(4, 3), (3,), (3,)], True),
        (lambda a, v, w: a / v * w, [(4, 3), (3,), (3,)], True),
        (lambda a, v, w: a * v + a * w, [(4, 3), (3,), (3,)], True),
        (lambda a, v, w: np.exp(-(a * v)) * w, [(4, 3), (3,), (3,)], True),
        (lambda a, v, w: a * v - w * a, [(4, 3), (4, 1), (3,)], False),
        (lambda a, v, w: a * v * w, [(4, 3), (4, 1), (3,)], False),
        (lambda a, v, w: a * v * w, [(3,), (3,), (3,)], False),
        (lambda a, v, w: a / v / w, [(4, 3), (3,), (3,)], False),
    ],
)
def test_factors(f, shapes, fewer):
    def large(graph):
        return sum(n.aval.shape == shapes[0] and n.op.name in ("multiply", "divide", "negative") for n in graph.nodes)

    source = program(f, *shapes)
    strict, new = simplify(source, "ieee"), final(f, *shapes)
    assert (large(new) < large(drop_dead(strict))) == fewer
    arrays = [np.random.default_rng(1).uniform(0.5, 2, s) for s in shapes]
    same_number(values(source, *arrays)[0], values(new, *arrays)[0])


def test_what_another_value_needs_is_not_taken_apart():
    graph = final(lambda a, v, w: (a * v, a * v * w), (4, 3), (3,), (3,))
    assert operators(graph) == ["multiply", "multiply"]
    assert graph.outputs[0] in graph.outputs[1].inputs


def test_factors_do_not_lower_the_precision():
    a, v = Aval((4, 3), F64), Aval((3,), F32)
    graph = optimise(program(lambda a, v, w: a * v * w, a, v, v), 1)
    assert all(n.aval.dtype == F64 for n in graph.nodes if n.inputs)
    graph = optimise(program(lambda a, v, c: (v * c) @ a, a, Aval((4,), F32), Aval((), F64)), 1)
    assert [n.op.name for n in graph.nodes if n.inputs] == ["multiply", "matmul"]


# ---- writing under index arrays


@pytest.mark.parametrize(
    ("key", "once"),
    [
        (lambda i: (np.arange(4), i), True),
        (lambda i: (np.array([0, 2, 1, 3]), i), True),
        (lambda i: (np.array([0, 2, 2, 3]), i), False),
        (lambda i: (np.array([0, 3, -1, 1]), i), False),
        (lambda i: (i, np.array([0, 1, 2, -1])), True),
        (lambda i: (np.arange(4)[:, None], i[:, None]), True),
        (lambda i: (np.arange(4)[:, None], np.array([0, 1])), True),
        (lambda i: (np.arange(4)[:, None], i), False),
        (lambda i: (np.array([1]), i), False),
        (lambda i: (i,), False),
        (lambda i: (np.arange(4),), True),
        (lambda i: (np.argsort(i),), True),
        (lambda i: (np.argsort(i), i), True),
        (lambda i: (np.argsort(np.stack([i, i])),), False),
        (lambda i: np.triu_indices(4, 1), True),
        (lambda i: np.tril_indices(4, m=5), True),
        (lambda i: (np.array([0, 0, 1]), np.array([1, 0, 1])), True),
        (lambda i: (np.array([0, 0, 1]), np.array([1, -4, 1])), False),
        (lambda i: (np.array([[0], [-1]]), np.array([2, 4])), True),
        (lambda i: (np.triu_indices(4, 1)[0], np.tril_indices(4, -1)[0]), False),
    ],
)
def test_what_is_hit_once(key, once):
    i = np.array([0, 2, 2, 1])
    place = np.array(np.broadcast_to(0.0, np.zeros((4, 5))[key(i)].shape))

    def f(i, v):
        y = np.zeros((4, 5), like=v)
        np.add.at(y, key(i), v)
        return y

    source = program(f, Aval((4,), np.dtype(int)), Aval(place.shape, F64))
    new = optimise(source, 1)
    verify(new)
    # a whole axis written in order is no scattering at all
    assert ("index_add" in operators(new)) == (not once)
    v = np.random.default_rng(0).standard_normal(place.shape)
    same_number(values(source, i, v)[0], values(new, i, v)[0])


@pytest.mark.parametrize("axis", [0, 1, (0, 1), None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_what_was_scattered(axis, keepdims):
    def f(i, v):
        y = np.zeros((4, 5), like=v)
        np.add.at(y, (np.arange(4), i), v)
        return np.sum(y, axis=axis, keepdims=keepdims)

    source = program(f, Aval((4,), np.dtype(int)), Aval((4,), F64))
    new = optimise(source, 1)
    verify(new)
    assert all(n.aval.shape != (4, 5) for n in new.nodes)
    i, v = np.array([4, 0, 0, 2]), np.array([1.0, 2.0, 3.0, 4.0])
    same_number(values(source, i, v)[0], values(new, i, v)[0])


@pytest.mark.parametrize(
    ("write", "left"),
    [
        (lambda y, v: y[1:] + v, ["index_add"]),
        (lambda y, v: v + y[1:], ["index_add"]),
        (lambda y, v: y[1:] - v, ["negative", "index_add"]),
        (lambda y, v: v - y[1:], ["index", "subtract", "index_set"]),
        (lambda y, v: y[:-1] + v, ["index", "add", "index_set"]),
        (lambda y, v: y[1:], []),
    ],
)
def test_what_is_written_where_it_was_read(write, left):
    def f(y, v):
        y = np.copy(y)
        y[1:] = write(y, v)
        return y

    source = program(f, (4,), (3,))
    new = optimise(source, 1)
    verify(new)
    assert [name for name in operators(new) if name != "copy"] == left
    y, v = np.arange(4.0), np.array([4.0, 5.0, 6.0])
    same_number(values(source, y, v)[0], values(new, y, v)[0])


def test_numbers_that_are_written_over():
    def f(y, v):
        y = np.copy(y)
        y[1:] = 7 * v
        y[1:] = 0
        np.add.at(y, slice(1, None), v)
        return y

    source = program(f, (4,), (3,))
    new = optimise(source, 1)
    verify(new)
    assert [name for name in operators(new) if name != "copy"] == ["index_set"]
    y, v = np.arange(4.0), np.array([4.0, 5.0, 6.0])
    same_number(values(source, y, v)[0], values(new, y, v)[0])


def test_numbers_are_added_in_place_to_what_they_are_added_to():
    def f(x, i, v):
        y = np.zeros((4, 5), like=v)
        np.add.at(y, (np.arange(4), i), v)
        return x - 2 * y

    new = final(f, Aval((4, 5), F64), Aval((4,), np.dtype(int)), Aval((4,), F64))
    assert operators(new)[-1] == "index_add" and "full" not in operators(new)
    x, i, v = np.ones((4, 5)), np.array([4, 0, 0, 2]), np.array([1.0, 2.0, 3.0, 4.0])
    same_number(values(new, x, i, v)[0], f(x, i, v))


# ---- random Jacobians: identities, diagonals and blocks in every order

A = np.random.default_rng(7).uniform(0.5, 1.5, (3, 3))
V = np.array([0.5, 1.5, -2.0])
MOVES = [
    np.sin, lambda x: x * V, lambda x: 2.0 * x, lambda x: -x, lambda x: x / V, lambda x: x @ A, lambda x: A @ x,
    lambda x: (x.T * V).T, lambda x: x * V[:, None] if x.ndim == 2 else V * x, lambda x: x * x, lambda x: x + V * x,
    lambda x: x - np.sum(x, axis=-1, keepdims=True), lambda x: x[..., ::-1], lambda x: x[..., [2, 0, 0]],
    lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True), lambda x: x * np.sum(x) / 3, lambda x: x.T,
    lambda x: np.reshape(np.reshape(x, (-1,)) / 2, x.shape),
]  # fmt: skip


@given(st.lists(st.integers(0, len(MOVES) - 1), min_size=1, max_size=5), st.booleans(), st.booleans(), st.booleans())
def test_random_jacobians(moves, matrix, forward, sums):
    def f(x):
        total = x
        for move in moves:
            x = MOVES[move](x)
            total = total + x if sums else x
        return total

    x = np.random.default_rng(len(moves)).uniform(-1, 1, (3, 3) if matrix else (3,))
    transform = sg.jacfwd if forward else sg.jacrev
    plain = transform(f, optimize=0)(x)
    assert plain.shape == x.shape * 2
    np.testing.assert_allclose(transform(f)(x), plain, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(transform(f, numerics="ieee")(x), plain, rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("whole")
def test_assignment_to_all_of_an_axis_of_one():
    """Nothing of the array assigned into is left, so nothing is assigned into."""

    def f(v):
        column = np.zeros((3, 1), like=v)
        column[:, 0] = v
        return column * 2.0

    source = sg.compile(f).source("float64[3]")
    assert "return v[:, None] * 2.0" in source or "return 2.0 * v[:, None]" in source, source
    np.testing.assert_array_equal(sg.compile(f)(np.arange(3.0)), 2 * np.arange(3.0)[:, None])


# ---- pieces of one array


def gates(z, n):
    a, b, c = z[..., :n], z[..., n : 2 * n], z[..., 2 * n :]
    return np.sum(np.tanh(a) * b) + np.sum(np.sin(c) * c)


JOINED = ", d_c], axis="
PIECES = {
    "gates": (lambda z: gates(z, 2), "float64[3, 8]", JOINED + "1)"),
    "gates of any size": (lambda z: gates(z, z.shape[1] // 4), "float64[n, 4*n]", JOINED + "1)"),
    "in a stack": (lambda z: gates(z, 2), "float64[2, n, 8]", JOINED + "2)"),
    "split": (
        lambda z: sum(np.sum(part**k) for k, part in enumerate(np.split(z, [2, 3], axis=1), 2)),
        "float64[3, 8]", "np.concatenate([2 * ",
    ),
    "from both ends": (
        lambda z: np.sum(z[: z.shape[0] // 2] ** 2) + np.sum(z[-(z.shape[0] // 2) :] ** 3), "float64[2*n, n]",
        "np.concatenate([2 * ",
    ),
    "every other": (lambda z: np.sum(z[::2] ** 2) + np.sum(np.sin(z[1::2])), "float64[8]", "np.empty(8)"),
    "a gap": (lambda z: np.sum(z[:2] ** 2) + np.sum(np.sin(z[3:])), "float64[8]", "np.zeros(8)"),
    "columns with a gap": (
        lambda z: np.sum(z[:, :2] ** 2) + np.sum(np.sin(z[:, -1])), "float64[n, 8]", "np.zeros((n, 8))"
    ),
    "numbers": (lambda z: z[0] ** 2 + np.sum(np.sin(z[1:])), "float64[8]", "np.empty(8)"),
    "rows": (lambda z: np.sum(np.sin(z[0]) * z[1] + z[2]), "float64[3, n]", "np.empty((3, n))"),
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
def test_pieces_of_an_array_have_one_cotangent_that_is_joined_once(name):
    f, spec, text = PIECES[name]
    source = sg.grad(f).source(spec, optimize=1)
    assert text in source
    assert "+=" not in source
    shape = [int(eval(n, {"n": 3, "b": 5})) for n in spec[8:-1].split(",")]
    z = np.random.default_rng(0).normal(size=shape)
    expected = sg.grad(f, optimize=0)(z)
    for optimize in (1, 2):
        np.testing.assert_allclose(sg.grad(f).compile(spec, optimize=optimize)(z), expected, rtol=1e-13)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_pieces_that_may_meet_are_added(start):
    """The first 2 of 3 numbers leave one out; of any number that is unknown."""

    def f(z):
        return np.sum(z[:2] ** 2) + np.sum(np.sin(z[start:]))

    for spec, n in [("float64[3]", 3), ("float64[n]", 3), ("float64[n]", 1)]:
        z = np.linspace(0.5, 1, n)
        for optimize in (0, 1, 2):
            program = sg.grad(f).compile(spec, optimize=optimize)
            expected = 2 * z * (np.arange(n) < 2) + np.cos(z) * (np.arange(n) >= start)
            np.testing.assert_allclose(program(z), expected, rtol=1e-13)
            assert optimize or "np.concatenate" not in program.source
        joined = "np.concatenate" in sg.grad(f).source(spec, optimize=1)
        assert joined == (spec == "float64[3]" and start == 2)


# ---- places of places


def random_key(rng, shape):
    """A basic key of an array: numbers, slices, new axes."""
    key = []
    for n in shape:
        slices = [
            slice(None),
            slice(None),
            slice(1, None),
            slice(None, -1),
            slice(None, None, 2),
            slice(-3, 3),
            slice(2, 0),
        ]
        items = slices + [slice(None, None, -1)] + [int(i) for i in rng.integers(-n, max(n, 1), 4)] * (n > 0)
        key += [None] * (rng.random() < 0.15) + [items[rng.integers(len(items))]]
    return tuple(key[: rng.integers(1, len(key) + 1)]) if key else (None,)


def slices_of(f, x, moves):
    for move in moves:
        x = move(x)
    return f(x)


@pytest.mark.of_numpy
@pytest.mark.parametrize("seed", range(120))
def test_random_places_of_places(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=tuple(rng.integers(0, 5, 3)))
    moves, y = [], x
    for _ in range(rng.integers(2, 5)):
        kind = rng.integers(4)
        if kind == 0 and y.ndim:
            axis = int(rng.integers(y.ndim))
            moves.append(lambda y, axis=axis: np.concatenate([y, 2 * y, y[(slice(None),) * axis + (slice(1),)]], axis))
        elif kind == 1:
            axis = int(rng.integers(y.ndim + 1))
            moves.append(lambda y, axis=axis: np.stack([y, -y, y * y], axis))
        else:
            key = random_key(rng, y.shape)
            moves.append(lambda y, key=key: y[key])
        y = moves[-1](y)
    f = lambda x: slices_of(np.sin, x, moves)
    np.testing.assert_array_equal(sg.compile(f).compile(x, optimize=1 + seed % 2)(x), f(x))
    if x.size:
        gradient = sg.grad(lambda x: np.sum(f(x)))
        np.testing.assert_allclose(gradient(x), gradient.compile(x, optimize=0)(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("f", "specs", "expected"),
    [
        (lambda x: x[1:][0], ["float64[5]"], ["return x[1]"]),
        (lambda x: x[1:, ::2][:, 1:] * 2.0, ["float64[5, 6]"], ["return x[1:, 2::2] * 2.0"]),
        (lambda x: x[:, None, 1][0, 0] * 2.0, ["float64[n, 6]"], ["return x[0, 1] * 2.0"]),
        (lambda x: np.concatenate([x[:2], x[3:]])[1] * 2.0, ["float64[5]"], ["return x[1] * 2.0"]),
        (lambda x, y: np.stack([x, y, x])[1, 2:] * 2.0, ["float64[5]"] * 2, ["return y[2:] * 2.0"]),
        (lambda x, y: np.concatenate([x[:0], y], axis=0) * 2.0, ["float64[n]"] * 2, ["return y * 2.0"]),
        (lambda x: x[1:][0] * x[1:], ["float64[n]"], ["t1 = x[1:]", "return t1[0] * t1"]),
    ],
)
def test_places_of_places_are_read_where_they_are(f, specs, expected):
    assert body(sg.compile(f, optimize=1), *specs) == expected


def test_numbers_of_a_long_product_are_moved_a_few_times(monkeypatch):
    count, note = 0, Rewriting._note

    def counting(self, *args):
        nonlocal count
        count += 1
        note(self, *args)

    monkeypatch.setattr(Rewriting, "_note", counting)

    def chain(x):
        for _ in range(60):
            x = np.sin(x) * 1.5
        return x

    slope = sg.grad(chain, loops="unroll").compile(0.3)
    assert count < 2 * len(slope.graph.live)
    expected, y = 1.0, 0.3
    for _ in range(60):
        expected, y = expected * 1.5 * np.cos(y), 1.5 * np.sin(y)
    assert slope(0.3) == pytest.approx(expected)
