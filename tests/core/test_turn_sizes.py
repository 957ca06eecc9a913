"""Arrays whose shape depends on the turn of a loop: slices that the turn bounds."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import verify
from symgrad.core.region import Region, regions_of, with_late_assignments
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import has_side, largest, smallest
from symgrad.errors import ArgumentError, SymbolicSizeError, SymgradError, UnsupportedError
from symgrad.ops.control import COND, is_guarded
from symgrad.pipeline import BEFORE, OPTIMISE, SCHEDULE
from tests.programs import without_comments

RNG = np.random.default_rng(0)
N = 20
MATRIX = RNG.normal(size=(N, N))
LOWER = np.tril(0.2 * MATRIX) + 2 * np.eye(N)
POSITIVE = MATRIX @ MATRIX.T + N * np.eye(N)
VECTOR = RNG.normal(size=N)
SPECS = ("float64[n, n]", "float64[n]")


def forward_substitution(L, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return np.sum(x * x)


def back_substitution(U, b):
    n = len(b)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - U[i, i + 1 :] @ x[i + 1 :]) / U[i, i]
    return np.sum(np.sin(x))


def sweep(A, b):
    x = np.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - A[i, :i] @ x[:i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return np.sum(x * x)


def elimination(A):
    A = A.copy()
    for k in range(len(A)):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return np.sum(np.log(np.abs(np.diag(A))))


def cholesky_by_columns(A):
    L = np.zeros_like(A)
    for j in range(len(A)):
        v = A[j:, j] - L[j:, :j] @ L[j, :j]
        L[j:, j] = v / np.sqrt(v[0])
    return np.sum(L**2 * np.arange(len(A)))


def durbin(r):
    n = len(r)
    y = np.zeros(n)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, n):
        beta = (1 - alpha**2) * beta
        alpha = -(r[k] + r[:k][::-1] @ y[:k]) / beta
        y[:k] = y[:k] + alpha * y[:k][::-1]
        y[k] = alpha
    return np.sum(y * y)


def means_so_far(p):
    out = np.zeros(len(p))
    for i in range(1, len(p)):
        out[i] = np.mean(p[:i]) + np.max(p[:i])
    return np.sum(out * out)


def changed_tails(x):
    y = x.copy()
    for i in range(len(x)):
        y[i:] = y[i:] * 1.01 + np.sin(y[i])
    return np.sum(y)


def every_part(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            total += np.sum(x[j:i]) ** 2 * x[j]
    return total


def windows(x):
    total = 0.0
    for i in range(len(x) - 3):
        total += np.max(x[i : i + 4]) * np.sum(x[i + 3 :])
    return total


def tree(payoff, p):
    """The value at the root of a tree whose levels shrink towards it."""
    values = payoff
    for _ in range(len(payoff) - 1):
        values = np.maximum(p * values[:-1] + (1 - p) * values[1:], 0.1 * values[1:] ** 2)
    return values[0]


def neville(x, y):
    """The polynomial through points, at 0.3."""
    n, c = len(x), y
    for k in range(1, n):
        c = ((0.3 - x[k:]) * c[:-1] - (0.3 - x[:-k]) * c[1:]) / (x[: n - k] - x[k:])
    return c[0]


def coefficients(roots):
    c = np.ones(1)
    for r in roots:
        c = np.concatenate([[0.0], c]) - r * np.append(c, 0.0)
    return np.sum(c**2)


def schur_complements(A):
    for _ in range(len(A) - 1):
        A = A[1:, 1:] - np.outer(A[1:, 0], A[0, 1:]) / A[0, 0]
    return A[0, 0]


PROGRAMS = [
    (forward_substitution, LOWER, VECTOR),
    (back_substitution, LOWER.T, VECTOR),
    (sweep, POSITIVE, VECTOR),
    (elimination, POSITIVE),
    (cholesky_by_columns, POSITIVE),
    (durbin, 0.1 * VECTOR),
    (means_so_far, VECTOR),
    (changed_tails, VECTOR),
    (every_part, 0.3 * VECTOR),
    (windows, VECTOR),
    (tree, VECTOR, np.array(0.4)),
    (neville, np.arange(20) + 0.1 * VECTOR, np.sin(VECTOR)),
    (coefficients, 0.5 * VECTOR),
    (schur_complements, POSITIVE),
]
EACH = pytest.mark.parametrize("program", PROGRAMS, ids=[program[0].__name__ for program in PROGRAMS])


def gradients(f, args, **options):
    return sg.value_and_grad(f, argnums=tuple(range(len(args))), **options)


@pytest.mark.slow
@EACH
def test_a_loop_whose_slices_the_turn_bounds_stays_a_loop_and_has_the_gradients_of_its_turns(program):
    f, *args = program
    expected, unrolled = gradients(f, args, loops="unroll", optimize=0)(*args)
    for level in (0, 2):
        looped = gradients(f, args, optimize=level)
        value, found = looped(*args)
        assert np.isclose(value, expected, rtol=1e-12), level
        for g, h in zip(found, unrolled, strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-9, atol=1e-12, err_msg=f"level {level}")
        assert is_loop(looped.source(*args, optimize=min(level, 1)))  # without what blocks bring along


def is_loop(source):
    """Whether it has a loop, and is no longer than one."""
    return "for " in source and len(source.splitlines()) < 200


@EACH
def test_forward_mode_and_second_order_agree_with_differences(program):
    f, *args = program
    tangents = [RNG.normal(size=x.shape) for x in args]
    moved = lambda step: [x + step * t for x, t in zip(args, tangents, strict=True)]
    grad = gradients(f, args)
    value, slope = sg.jvp(f, args, tangents)
    total = sum(np.sum(g * t) for g, t in zip(grad(*args)[1], tangents, strict=True))
    assert np.isclose(value, f(*args)) and np.isclose(slope, total, rtol=1e-9)
    _, (_, change) = sg.jvp(grad, args, tangents)
    above, below = grad(*moved(1e-5))[1], grad(*moved(-1e-5))[1]
    for c, a, b in zip(change, above, below, strict=True):
        np.testing.assert_allclose(c, (a - b) / 2e-5, rtol=1e-4, atol=1e-4)


@EACH
def test_many_inputs_at_once(program):
    f, *args = program
    many = [np.stack([x, 1.1 * x, 0.9 * x]) for x in args]
    alone = gradients(f, args)
    value, found = sg.vmap(alone)(*many)
    for k in range(3):
        expected, each = alone(*(x[k] for x in many))
        assert np.isclose(value[k], expected)
        for g, h in zip(found, each, strict=True):
            np.testing.assert_allclose(g[k], h, rtol=1e-9, atol=1e-12)


@EACH
def test_one_program_for_arrays_of_any_length(program):
    f, *args = program
    if program in (PROGRAMS[9], PROGRAMS[12]):
        pytest.skip("it needs more")
    compiled = gradients(f, args).compile(*("float64[" + ", ".join("n" * x.ndim) + "]" for x in args))
    unrolled = gradients(f, args, loops="unroll")
    for n in (1, 5):
        few = [x[(slice(n),) * x.ndim] for x in args]
        value, found = compiled(*few)
        expected, wanted = unrolled(*few)
        assert np.isclose(value, expected), n
        for g, h in zip(found, wanted, strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-9, atol=1e-12, err_msg=f"n = {n}")


def test_the_source_has_the_slices_of_the_user():
    source = sg.compile(sweep).source(POSITIVE, VECTOR)
    assert "for i in range(20)" in source and "[:i]" in source and "[i + 1:]" in source


def test_a_window_that_begins_outside_is_what_python_makes_of_it():
    def overlapping(x):
        total = 0.0
        for i in range(len(x)):
            total += np.sum(x[i - 3 : i]) * x[i]  # where i < 3 nothing, or what stands at the end
        return total

    value, found = sg.value_and_grad(overlapping)(VECTOR)
    assert np.isclose(value, overlapping(VECTOR))
    assert np.allclose(found, sg.grad(overlapping, loops="unroll")(VECTOR))
    with pytest.raises(SymbolicSizeError, match="i - 3"):
        sg.grad(overlapping).compile("float64[n]")


def test_an_array_made_in_a_turn_has_the_length_that_the_turn_says():
    def weighted(x):
        total = 0.0
        for i in range(len(x)):
            total += np.sum(np.ones(i) * x[:i]) + np.arange(i + 1) @ x[: i + 1] ** 2
        return total

    value, found = sg.value_and_grad(weighted)(VECTOR)
    assert np.isclose(value, weighted(VECTOR))
    assert np.allclose(found, sg.grad(weighted, loops="unroll")(VECTOR))
    assert is_loop(sg.grad(weighted).source(VECTOR))


# ---- windows of a symbolic width


def autoregression(x, w):
    m, total = len(w), 0.0
    for t in range(m, len(x)):
        total += (x[t] - w @ x[t - m : t][::-1]) ** 2
    return total


def correlation(x, w):
    m, total = len(w), 0.0
    for t in range(len(x) - m + 1):
        total += np.sum(x[t : t + m] * w) ** 2
    return total


def backwards(x, w):
    m, total = len(w), 0.0
    for t in range(len(x) - m, -1, -1):
        total = 0.5 * total + (x[t : t + m] @ w) ** 2
    return total


def chunks(x, w):
    m, total = len(w), 0.0
    for k in range(len(x) // m):
        total += (x[k * m : (k + 1) * m] @ w) ** 2
    return total


def strides(x, w):
    m, total = len(w), 0.0
    for t in range(0, len(x) - m + 1, m):
        total += (x[t : t + m] @ w) ** 2
    return total


def every_second(x, w):
    m, total = len(w), 0.0
    for t in range(0, len(x) - m, 2):
        total += (x[t : t + m] @ w) ** 2
    return total


def smoothing(x, w):
    n, k, out = len(x), len(w), np.empty(len(x))
    for i in range(n):
        out[i] = np.mean(x[max(0, i - k) : min(n, i + k + 1)])
    return np.sum(out**2) * np.sum(w)


def filtered(x, w):
    n, m, out = len(x), len(w), np.zeros(len(x))
    for t in range(n):
        k = min(t + 1, m)
        out[t] = np.sum(w[:k] * x[t - k + 1 : t + 1][::-1])
    return np.sum(out**2)


def chosen(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        first = i - m if i >= m else 0
        if i + 2 < len(x):
            last = i + 2
        else:
            last = len(x)
        total += np.sum(x[first:last]) ** 2 * w[0]
    return total


def plane(x, w):
    a = np.outer(x, np.cos(x))
    m, total = len(w), 0.0
    for i in range(len(a) - m + 1):
        for j in range(len(a) - m + 1):
            total += np.sum(a[i : i + m, j : j + m] @ w) ** 2
    return total


def periods(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        total += w[i % m] * np.sum(x[i - i % m : i + 1]) ** 2
    return total


def lags_of_both_signs(x, w):
    n, total = len(x), 0.0
    for k in range(1 - n, n):
        total += np.sum(x[max(0, k) : n + min(0, k)] * x[max(0, -k) : n - max(0, k)]) ** 2 * w[0]
    return total


def lags_of_the_shorter(x, w):
    n, total = len(x), 0.0
    for k in range(min(len(w), n)):
        total += w[k] * np.sum(x[k:] * x[: n - k])
    return total


def tridiagonal(x, w):
    n = min(len(x), len(w))
    out = np.zeros(n)
    for i in range(n):
        out[i] = x[i] - 0.3 * out[max(i - 1, 0)]
    for i in range(n - 2, -1, -1):
        out[i] -= w[i] * out[i + 1]
    return np.sum(out**2) * max(len(x), len(w))


def autocovariance(x, w):
    n, total = len(x), 0.0
    for k in range(len(w)):
        total += w[k] * (x[k:] @ x[: n - k])  # for n >= m - 1, which is assumed
    return total


def lagged(x, w):
    n, m = len(x), len(w)
    matrix = np.stack([x[m - 1 - k : n - k] for k in range(m)])
    return np.sum((w @ matrix) ** 2)


def shifted(x, w):
    n, out = len(x), np.zeros(len(x))
    for i in range(len(w)):
        for j in range(i + 1):
            out[i - j :] += w[i] * w[j] * x[: n - i + j]
    return np.sum(out**2)


def cross_correlation(x, w):
    n, total = len(x), 0.0
    for k in range(1 - n, n):
        total += np.sum(x[abs(k) :] * x[: n - abs(k)]) ** 2 * w[0]
    return total


def clipped(x, w):
    n, m, total = len(x), len(w), 0.0
    for i in range(n):
        total += np.sum(x[int(np.clip(i - m, 0, n)) : np.clip(i**2, 0, n)]) ** 2 * w[-1]
    return total


WINDOWS = [
    autoregression, correlation, backwards, chunks, strides, every_second, smoothing, filtered, chosen, plane, periods,
    lags_of_both_signs, lags_of_the_shorter, tridiagonal, autocovariance, lagged, shifted,
    cross_correlation, clipped,
]  # fmt: skip


ASSUMING = [autocovariance, lagged, shifted]


@pytest.mark.parametrize("f", WINDOWS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{"optimize": 0}, {}, {"target": "c"}], ids=["level 0", "level 2", "C"])
def test_windows_of_any_width_are_one_program(f, options):
    compiled = gradients(f, "xw", **options).compile("float64[n]", "float64[m]")
    assert is_loop(sg.compile(f, optimize=1).compile("float64[n]", "float64[m]").source)
    for n, m in ((9, 3), (4, 4), (2, 5), (1, 1)):
        x, w = VECTOR[:n], np.cos(VECTOR[:m])
        if f in ASSUMING and n < m:
            with pytest.raises(ArgumentError, match="n is 2, and must be at least"):
                compiled(x, w)
            continue
        expected, wanted = gradients(f, "xw", loops="unroll")(x, w)
        value, found = compiled(x, w)
        assert np.isclose(value, expected), (n, m)
        for g, h in zip(found, wanted, strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-9, atol=1e-12, err_msg=f"n = {n}, m = {m}")


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_a_loop_downwards_that_may_have_no_iterations_is_for_all_sizes(offset):
    def downwards(x):
        total = x[0]
        for i in range(len(x) - offset, -1, -1):
            total = total * x[i] + x[i]
        return total

    compiled = sg.grad(downwards).compile("float64[n]")
    for n in range(1, 5):
        np.testing.assert_allclose(compiled(VECTOR[:n]), sg.grad(downwards, loops="unroll")(VECTOR[:n]), err_msg=f"{n}")


def test_what_holds_in_no_first_iteration_is_not_assumed():
    def early(x, w):
        return sum(np.sum(x[i - len(w) : i]) ** 2 for i in range(len(x)))

    with pytest.raises(SymbolicSizeError, match="i - m"):
        sg.grad(early).compile("float64[n]", "float64[m]")


def test_a_number_of_iterations_that_only_running_tells_is_not_assumed():
    def counted(x):
        kept, a, total = [], x[0], 0.0
        while a < 10:
            a = 1.5 * a + 1
            kept.append(a)
        for k in range(len(kept)):
            total += np.sum(x[: len(x) - k]) * kept[k]
        return total

    with pytest.raises(SymbolicSizeError, match="n - k"):
        sg.grad(counted).compile("float64[n]")


def test_lags_are_one_program_for_arrays_of_any_length():
    grad = sg.grad(autocovariance)
    for n, m in ((9, 3), (8, 2), (12, 4), (20, 5)):
        x, w = VECTOR[:n], np.ones(m)
        np.testing.assert_allclose(grad(x, w), sg.grad(autocovariance, loops="unroll")(x, w))
    assert len(grad._cache) == 2  # the first one is for its sizes only


def test_what_three_loops_bound_is_not_more_than_they_bound():
    def three(x):
        n, total = len(x), 0.0
        for i in range(n):
            for j in range(i):
                for k in range(i - j):
                    total += np.sum(x[: n - i - j + k]) ** 2  # from the end where i + j > n + k
        return total

    x = VECTOR[:6]
    np.testing.assert_allclose(sg.grad(three)(x), sg.grad(three, loops="unroll")(x))
    with pytest.raises(SymbolicSizeError, match="n - i - j"):
        sg.grad(three).compile("float64[n]")


def test_an_index_that_is_bounded_by_a_number_is_no_reason_to_unroll():
    source = sg.grad(lambda x: smoothing(x, np.ones(3)), optimize=1).source(np.ones(5_000))
    assert is_loop(source)


def test_a_choice_that_is_no_bound_is_not_taken_for_one():
    def other(x):
        total = 0.0
        for i in range(len(x)):
            first = i - 3 if i > 4 else 0  # where i is 4 it is neither the larger nor the smaller of the two
            total += np.sum(x[first : i + 1]) ** 2
        return total

    np.testing.assert_allclose(sg.grad(other)(VECTOR), sg.grad(other, loops="unroll")(VECTOR))
    with pytest.raises(SymgradError):
        sg.grad(other).compile("float64[n]")


def test_what_is_known_of_a_place():
    sizes = Sizes()
    n = sizes.symbol("n")
    i = sizes.place("i", 150)
    j = sizes.place("j", i)
    k = sizes.place("i", n)
    assert (str(i), str(2 * j + 1), str(n - k - 1)) == ("i", "2 * j + 1", "n - i_2 - 1")
    assert i >= 0 and i < 150 and j < i and j <= 148 and k < n and n - k >= 1
    assert smallest(i, 150) == i and smallest(j, 149) == j and largest(0, n - k) == n - k
    assert str(smallest(i, 100)) == "min(100, i)"
    with pytest.raises(SymbolicSizeError, match="i - 1 < 0"):
        bool(i - 1 < 0)


def test_places_of_loops_within_each_other_are_told_apart_and_others_are_not():
    def inner(x, k):
        total = 0.0
        for i in range(len(x)):
            total += np.prod(x[:i]) * x[k]
        return total

    def outer(x):
        total = 0.0
        for i in range(len(x)):
            total += inner(x, i) * np.sum(x[i:])
        for i in range(len(x)):
            total += np.max(x[i:])
        return total

    value, found = sg.value_and_grad(outer)(VECTOR)
    assert np.isclose(value, outer(VECTOR))
    assert np.allclose(found, sg.grad(outer, loops="unroll")(VECTOR))
    source = sg.compile(outer).source(VECTOR)
    source = without_comments(source)
    assert source.count("for i in") == 2 and source.count("for i_2 in") == 1


def test_a_place_is_the_one_of_the_turn_behind_a_break():
    def until(x):
        total = 0.0
        for i in range(len(x)):
            total += np.sum(x[:i] ** 2)
            if total > 3:
                break
        return total * i

    value, found = sg.value_and_grad(until)(VECTOR)
    assert np.isclose(value, until(VECTOR))
    steps = 1e-6 * np.eye(N)
    assert np.allclose(found, [(until(VECTOR + e) - until(VECTOR - e)) / 2e-6 for e in steps])


def test_what_has_another_shape_in_every_turn_is_not_stacked():
    def listed(x):
        parts = []
        for i in range(len(x)):
            parts.append(x[: i + 1] ** 2)
        return sum(np.sum(part) ** 2 for part in parts)

    def ended(x):
        for i in range(len(x)):
            part = x[: i + 1] ** 2
        return np.sum(part * part)

    for f in (listed, ended):
        value, found = sg.value_and_grad(f)(VECTOR)
        assert np.isclose(value, f(VECTOR))
        assert np.allclose(found, sg.grad(f, loops="unroll")(VECTOR))
        with pytest.raises(SymgradError):
            sg.grad(f).compile("float64[n]")


def test_shapes_that_do_not_change_by_as_much_at_every_turn_are_those_of_python():
    def doubled(x):
        for i in range(5):
            x = np.concatenate([x, x * (i + 1)]) if len(x) < 40 else x[:-1]
        return np.sum(x**2)

    value, found = sg.value_and_grad(doubled, loops=2)(VECTOR)
    assert np.isclose(value, doubled(VECTOR))
    assert np.allclose(found, sg.grad(doubled, loops="unroll")(VECTOR))


def test_programs_with_places_are_written_and_read():
    program = sg.trace(gradients(sweep, (POSITIVE, VECTOR)), POSITIVE, VECTOR)
    text = sg.to_json(program)
    assert sg.to_json(sg.from_json(text)) == text
    with pytest.raises(SymgradError, match="place"):
        sg.from_json(text.replace('["i", 20]', '["i in []: pass", 20]'))


def test_elimination_keeps_columns_and_writes_in_place():
    source = gradients(elimination, (POSITIVE,)).source(POSITIVE)
    assert source.count("A.copy()") == 1  # before the loop: it is the caller's
    assert "d_A[k + 1:, k] += " in source


def test_costs_are_those_of_a_turn_in_the_middle():
    exact, general = (sg.compile(forward_substitution).compile(*x).cost for x in ((LOWER, VECTOR), SPECS))
    (n,) = general.flops.free_symbols
    assert general.flops.subs(n, N) == exact.flops
    assert general.bytes.subs(n, N) == exact.bytes


def test_an_assignment_waits_for_what_reads_the_array_before_it():
    graph = sg.Graph()
    x = graph.input("x", "float64[3]")
    y = x.copy()
    for i in range(2000):
        y[0] = y[1] + i
    late = (x * 2)[2]
    order = with_late_assignments(Region(graph, [x.node], [y.node, late.node]).nodes)
    made = [node.op.assigns for node in order]
    assert not made[1] and made[-1] and len(order) == len(set(order))
    places = {node: i for i, node in enumerate(order)}
    assert all(places.get(x, -1) < places[node] for node in order for x in node.inputs)


def test_an_inner_loop_that_runs_as_often_as_its_turn_tells():
    """A derivative's value for its inner loop has a size that this body tells, and stays after its definition."""

    def f(x):
        return sum(sum(p * q for q in x if q > p) for p in x)

    x = np.random.default_rng(4).normal(size=18)
    wanted = np.array([sum(q for q in x if q > p) + sum(q for q in x if q < p) for p in x])
    for level in (0, 1, 2):
        with sg.options(optimize=level, check_first=False):
            np.testing.assert_allclose(sg.compile(f)(x), f(x), rtol=1e-12)
            np.testing.assert_allclose(sg.grad(f)(x), wanted, rtol=1e-12)
            np.testing.assert_allclose(np.diag(sg.hessian(f)(x)), 0, atol=1e-15)
    np.testing.assert_allclose(sg.grad(f, check_first=True)(x), wanted, rtol=1e-12)


# ---- slices that the test of a branch bounds


def filtered_where_full(x, w):
    n, m = len(x), len(w)
    out = np.zeros(n)
    for i in range(n):
        if i >= m:
            out[i] = x[i - m : i] @ w
    return np.sum(np.sin(out))


def filtered_on_both_sides(x, w):
    n, m, out = len(x), len(w), np.zeros(len(x))
    for i in range(n):
        if i + 1 >= m:
            out[i] = x[i + 1 - m : i + 1][::-1] @ w
        else:
            out[i] = x[: i + 1][::-1] @ w[: i + 1]
    return np.sum(out**2)


def centred(x, w):
    n, m, total = len(x), len(w), 0.0
    for i in range(n):
        first, last = i - m, i + m + 1
        if first >= 0 and last <= n:
            total += np.sum(x[first:last] ** 3) * w[0]
    return total


def in_a_chain(x, w):
    n, m, total = len(x), len(w), 0.0
    for i in range(n):
        total += np.std(x[i - m : i + m]) * w[0] if m <= i < n - m else x[i] ** 2
    return total


def skipped(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        if i < m:
            continue
        if x[i] < 0:
            continue
        total += np.tanh(x[i - m : i] @ w) * x[i]
    return total


def beside_the_ends(x, w):
    n, m, total = len(x), len(w), 0.0
    for i in range(n):
        if i < m or i > n - m:
            total += x[i] ** 2
        else:
            total += (x[i - m : i] @ w) * (x[i : i + m] @ w)
    return total


def periods_that_are_full(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        if i > 0 and i % m == 0:
            total += (x[i - m : i] @ w) ** 2
        if (i + 1) % m == 0:
            total -= np.sum(x[i + 1 - m : i + 1] ** 3)
    return total


def of_two_indices(x, w):
    n, m, total = len(x), len(w), 0.0
    for i in range(n):
        for j in range(n):
            if i - j >= m:
                total += (x[j : j + m] @ w) * x[i]
    return total


def without_the_last(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        if i >= m:
            v = np.exp(-(x[: i - m] ** 2))  # of an extent that would be below 0 on the other side
            for _ in range(2):
                v = np.sin(1.1 * v + 0.1 * total)
            total += 0.1 * np.sum(v) * w[0]
        else:
            total += x[i]
    return total


def with_a_state(x, w):
    m, y = len(w), np.zeros(len(x))
    for i in range(len(x)):
        if i >= m:
            y[i] = x[i] + 0.3 * (y[i - m : i] @ w) if y[i - 1] < 0.3 else 0.5 * y[i - 1]
            y[i - m : i] *= 0.9
        else:
            y[i] = x[i]
    return np.sum(y**2)


def where_it_is_the_minimum(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        k = min(i, m)
        if k == m and x[i] > 0:
            total += (x[i - m : i] @ w) ** 2
    return total


def cheapest_steps(x, w):
    n, m, best = len(x), len(w), np.zeros(len(x) + 1)
    for i in range(1, n + 1):
        if i >= m:
            best[i] = x[i - 1] + np.min(best[i - m : i] + w)
        else:
            best[i] = x[i - 1] + np.min(best[:i] + w[:i])
    return best[n]


def joined_by_operators(x, w):
    m, total = len(w), 0.0
    for i in range(len(x)):
        if (x[i] > 0) & (i >= m):
            total += np.sum(x[i - m : i] * w) ** 2
        if not ((x[i] < 0) | (i < m)):
            total -= np.sum(x[i - m : i] ** 3)
    return total


GUARDED = [
    filtered_where_full, filtered_on_both_sides, centred, in_a_chain, skipped, beside_the_ends, periods_that_are_full,
    of_two_indices, without_the_last, with_a_state, where_it_is_the_minimum, cheapest_steps,
    joined_by_operators,
]  # fmt: skip


def guarded_args(n, m):
    return VECTOR[:n], np.cos(VECTOR[:m])


@pytest.mark.parametrize("f", GUARDED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{"optimize": 0}, {}, {"target": "c"}], ids=["level 0", "level 2", "C"])
def test_slices_that_a_test_bounds_are_of_any_size(f, options):
    compiled = gradients(f, "xw", **options).compile("float64[n]", "float64[m]")
    assert is_loop(sg.compile(f, optimize=1).compile("float64[n]", "float64[m]").source)
    for n, m in ((9, 3), (4, 4), (2, 5), (3, 1), (1, 1)):
        x, w = guarded_args(n, m)
        value, found = compiled(x, w)
        assert np.isclose(value, f(x, w)), (n, m)
        for g, h in zip(found, differences(f, x, w), strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-6, atol=1e-7, err_msg=f"n = {n}, m = {m}")


def differences(f, *args):
    """Return the gradient by each argument, by central differences."""
    step, found = 1e-6, []
    for k, x in enumerate(args):
        moved = lambda by, k=k: f(*[y + by if i == k else y for i, y in enumerate(args)])
        found.append(np.array([(moved(e) - moved(-e)) / (2 * step) for e in step * np.eye(len(x))]))
    return found


@pytest.mark.parametrize("f", GUARDED, ids=lambda f: f.__name__)
def test_second_derivatives_and_batches_of_slices_that_a_test_bounds(f):
    specs = ("float64[n]", "float64[m]")
    product = sg.hvp(f, argnums=(0, 1)).compile(*specs, specs)
    many = sg.vmap(gradients(f, "xw")).compile("float64[b, n]", "float64[b, m]")
    alone = gradients(f, "xw").compile(*specs)
    for n, m in ((9, 3), (2, 5)):
        x, w = guarded_args(n, m)
        tangents = [np.sin(1 + np.arange(n)), np.cos(np.arange(m))]
        above, below = (alone(x + e * tangents[0], w + e * tangents[1])[1] for e in (1e-5, -1e-5))
        for c, a, b in zip(product(x, w, tuple(tangents)), above, below, strict=True):
            np.testing.assert_allclose(c, (a - b) / 2e-5, rtol=1e-5, atol=1e-5)
        batch = [np.stack([y, 1.1 * y, -y]) for y in (x, w)]
        value, found = many(*batch)
        for k in range(3):
            expected, each = alone(*(y[k] for y in batch))
            assert np.isclose(value[k], expected)
            for g, h in zip(found, each, strict=True):
                np.testing.assert_allclose(g[k], h, rtol=1e-9, atol=1e-12)


def sums_of_parts(x, w):
    n, m, total = len(x), len(w), 0.0
    for i in range(n):
        for k in range(n):
            if i - k >= m:
                total += np.sum(np.cumsum(x[k : i - m + 1]) ** 2 * np.arange(i - m + 1 - k)) * w[0]
    return total


@pytest.mark.parametrize("f", [without_the_last, with_a_state, sums_of_parts], ids=lambda f: f.__name__)
def test_values_that_a_side_alone_has_a_meaning_for_stay_in_it(f):
    specs, many = ("float64[n]", "float64[m]"), ("float64[b, n]", "float64[b, m]")
    programs = [gradients(f, "xw").trace(*specs), sg.jacfwd(f).trace(*specs), sg.vmap(gradients(f, "xw")).trace(*many)]
    for program in programs:
        graph = program.graph
        verify(graph)
        assert not [*strays(graph.live)]
        for stage in (*BEFORE, *OPTIMISE, *SCHEDULE):
            graph = stage.run(graph, "stable")
            assert not [*strays(graph.live)], stage.run.__name__


def strays(nodes):
    """Yield the nodes outside of all branches that have a meaning in a side of one."""
    for node in nodes:
        if node.op is COND:
            if any(has_side(n) for aval in node.aval for n in aval.shape):
                yield node
            continue
        if is_guarded(node):
            yield node
        for region in regions_of(node):
            yield from strays([*region.parameters, *region.nodes])


def test_a_program_whose_slices_a_test_bounds_has_no_form_in_a_file():
    """A file could say what no test does."""
    program = sg.grad(filtered_where_full).trace("float64[n]", "float64[m]")
    with pytest.raises(ArgumentError, match=r"(?s)i - m.* cannot be written to a file.*unroll"):
        sg.to_json(program)


@pytest.mark.parametrize("f", [filtered_where_full, joined_by_operators], ids=lambda f: f.__name__)
def test_calls_with_slices_that_a_test_bounds_compile_twice(f):
    f, function = sg.grad(f), f
    for n, m in ((9, 3), (10, 4), (12, 5), (8, 2), (3, 6)):
        x, w = guarded_args(n, m)
        np.testing.assert_allclose(f(x, w), differences(function, x, w)[0], rtol=1e-6, atol=1e-7)
    assert len(f._cache) == 2


def test_the_source_of_a_guarded_slice_reads_as_it_is_written():
    source = sg.grad(skipped).source("float64[n]", "float64[m]", optimize=1)
    assert "d_x[i - m:i] += " in source and "max(" not in source


def test_vmap_says_which_test_stands_by_itself():
    def f(x, w):
        m, y = len(w), np.zeros(len(x))
        for i in range(len(x)):
            if i >= m and y[i - 1] < 0.3:
                y[i] = y[i - m : i] @ w + x[i]
        return np.sum(y)

    with pytest.raises(UnsupportedError, match=r"(?s)depends on the input.*if i >= m: if"):
        sg.vmap(sg.grad(f)).compile("float64[b, n]", "float64[b, m]")


def test_a_test_says_nothing_of_a_name_that_has_changed_since():
    def f(x, w):
        m, total = len(w), 0.0
        for i in range(len(x)):
            if i >= m:
                i -= 1
                total += np.sum(x[i - m : i] ** 2)
        return total

    with pytest.raises(SymbolicSizeError, match="asked whether i - m - 1 < 0"):
        sg.grad(f).source("float64[n]", "float64[m]")
    x, w = guarded_args(9, 3)
    assert np.isclose(sg.compile(f)(x, w), f(x, w))


def test_a_slice_that_its_test_does_not_bound_says_how_to_bound_it():
    def f(x, w):
        m, total = len(w), 0.0
        for i in range(len(x)):
            if i > 1:
                total += np.tanh(x[i - m : i] @ w)
        return total

    with pytest.raises(SymbolicSizeError, match=r"asked whether i - m < 0\n.*\n.* for i in range\(3, n\) with"):
        sg.grad(f).source("float64[n]", "float64[m]")


def test_a_side_and_what_is_around_it_have_sizes_in_common():
    """An extent that only a side knows is compared with one from outside, where it is the same."""

    def f(x, w):
        m, total = len(w), 0.0
        for i in range(len(x)):
            head = x[:i]
            if i >= m:
                total += np.sum(head[i - m :] * w) + np.sum(head * x[:i][i - m - 0 :].sum())
        return total

    compiled = sg.grad(f).compile("float64[n]", "float64[m]")
    for n, m in ((7, 3), (2, 5)):
        x, w = guarded_args(n, m)
        np.testing.assert_allclose(compiled(x, w), differences(f, x, w)[0], rtol=1e-6, atol=1e-7)
