"""The first call of a program with loops or branches: Python, the graph and the program agree, or it is not used."""

from __future__ import annotations

import itertools
import random
from collections import deque
from functools import cache, lru_cache, partial

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import first_call
from symgrad.compiler.compiled import Compiled
from symgrad.errors import DisagreementError, RecompilationWarning, StateError
from symgrad.frontend.effects import Effects

X = np.array([0.3, 0.4, 0.2])


def doubled(x):
    while np.sum(x) < 10:
        x = x * 2
    return np.sum(x**2)


def asks_for_the_graph(x):
    scale = 1.0 if hasattr(x, "graph") else 2.0
    while np.sum(x) < 10:
        x = x * 2
    return scale * np.sum(x)


@pytest.fixture
def compared(monkeypatch):
    """The names of what has been compared with the interpreter."""
    seen = []
    program, python = first_call._Check.compare_program, first_call._Check._first_difference
    note = lambda self, result: (seen.append("program"), program(self, result))[1]
    monkeypatch.setattr(first_call._Check, "compare_program", note)
    note_run = lambda self, run, leaves: (seen.append(run.function.__name__), python(self, run, leaves))[1]
    monkeypatch.setattr(first_call._Check, "_first_difference", note_run)
    return seen


@pytest.fixture
def wrong_program(monkeypatch):
    """Generated programs give results that are wrong by a thousandth."""
    init = Compiled.__init__

    def planted(self, *args, **kwargs):
        init(self, *args, **kwargs)
        run = self.run
        self.run = lambda *args, **kwargs: run(*args, **kwargs) * 1.001

    monkeypatch.setattr(Compiled, "__init__", planted)


# ---- that it is found


@pytest.mark.parametrize(
    "transform", [sg.compile, sg.grad, sg.hessian, lambda f: sg.grad(lambda x: np.sum(sg.grad(f)(x)))]
)
def test_a_trace_that_is_not_what_python_does_is_found(transform):
    with pytest.raises(DisagreementError) as caught:
        transform(asks_for_the_graph)(X)
    assert "asks_for_the_graph returns 28.8 where Python runs it, and 14.4 as it was traced" in str(caught.value)
    assert "Report it" in str(caught.value) and caught.value.code == "SG403"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_program_that_is_not_its_graph_is_found(wrong_program, level):
    with pytest.raises(DisagreementError, match=r"result.* by the generated program, and .* by the graph"):
        sg.grad(doubled, optimize=level)(X)


def test_a_wrong_number_in_a_tree_is_found_at_its_place():
    f = lambda x: {"a": x, "b": [doubled(x), x * asks_for_the_graph(x)]}
    with pytest.raises(DisagreementError, match=r" 11\.52 where .* 5\.76 as it was traced, at \['b'\]\[1\]\[1\]"):
        sg.compile(f)(X)


def test_a_program_that_disagrees_is_not_used_again(wrong_program):
    slope = sg.grad(doubled)
    for _ in range(2):
        with pytest.raises(DisagreementError):
            slope(X)
    assert len(slope._cache) == 0


def test_a_program_from_specs_is_checked_at_its_first_call(compared):
    program = sg.grad(doubled).compile("float64[n]")
    assert compared == []
    program(X)
    program(X)
    assert compared == ["program", "doubled"]
    with pytest.raises(DisagreementError):
        sg.grad(asks_for_the_graph).compile("float64[n]")(X)


def test_a_program_is_checked_once(compared):
    slope = sg.grad(doubled)
    assert [slope(X)[0] for _ in range(3)] == [slope(X)[0]] * 3
    assert compared == ["program", "doubled"]


def test_programs_without_loops_and_branches_are_not_checked(compared):
    sg.grad(lambda x: np.sum(np.sin(x) ** 2))(X)
    assert compared == []


def test_options_leave_it_out(compared, wrong_program):
    sg.grad(doubled, check_first=False)(X)
    with sg.options(check_first=False):
        sg.grad(doubled)(X)
    sg.grad(doubled).compile(X, check_first=False)(X)
    assert compared == []
    with pytest.raises(sg.errors.ArgumentError, match="check_first=2"):
        sg.grad(doubled, check_first=2)


# ---- what is not compared


def test_long_programs_are_not_checked(compared):
    def f(x):
        for _ in range(10**6):
            x = x - 1e-9 * np.sin(x)
        return np.sum(x)

    program = sg.compile(f).compile(X)
    check = first_call._Check(program, (X,), {})
    assert not check.evaluate()


def test_a_loop_that_takes_long_is_left(monkeypatch):
    monkeypatch.setattr(first_call, "SECONDS", 0.05)

    def f(x):
        n = 0
        while n < 10**5:
            n = n + 1
        return x * n

    program = sg.compile(f).compile(1.0)
    assert not first_call._Check(program, (1.0,), {}).evaluate()
    assert program(1.0) == 10**5


def raises(x):
    while np.sum(x) < 10:
        x = x * 2
    if not hasattr(x, "graph"):
        raise ValueError
    return np.sum(x)


def draws(x):
    scale = np.random.default_rng().uniform()  # of an operating system
    while np.sum(x) < 10:
        x = x * 2
    return np.sum(x) * scale


def draws_by_python(x):
    scale = random.random()
    while np.sum(x) < 10:
        x = x * 2
    return np.sum(x) * scale


def prints(x):
    print(type(x).__name__)
    while np.sum(x) < 10:
        x = x * 2
    return np.sum(x)


NUMBERS = itertools.count()


def counts(x):
    n = next(NUMBERS)
    while np.sum(x) < 10:
        x = x * 2
    return np.sum(x) * n


def compiles(x):
    return np.sum(sg.grad(lambda x: np.sum(x**3) if x[0] > 0 else np.sum(x))(x))


@pytest.mark.filterwarnings("ignore::symgrad.errors.FrozenRandomWarning")
@pytest.mark.parametrize("f", [raises, draws, draws_by_python, counts, compiles], ids=lambda f: f.__name__)
def test_what_python_cannot_tell_is_left_out(compared, f):
    state = random.getstate()
    random.seed(1)
    sg.grad(f)(X)
    assert [name for name in compared if name == f.__name__] == []
    assert "program" in compared
    random.setstate(state)


def test_what_a_function_prints_is_printed_once(compared, capsys):
    sg.compile(prints)(X)
    assert compared == ["program", "prints"]
    assert capsys.readouterr().out.count("\n") == 1


def test_what_is_not_finite_may_be_mended():
    def f(x):
        y = x
        while y[0] < 1000:
            y = y * 2
        return np.sum(np.log(1 + np.exp(y)))

    with np.errstate(all="ignore"):
        assert np.isinf(f(X))
    assert np.isfinite(sg.compile(f)(X))
    assert np.isfinite(sg.grad(f)(X)).all()


def test_chaos_is_rounding():
    def f(x):
        for _ in range(200):
            x = 3.9 * x * (1 - x)
        return x

    sg.grad(f)(0.3)
    sg.compile(f)(np.linspace(0.1, 0.8, 7))


def power_modulo(b, e, m):
    r = 1
    while e > 0:
        if e & 1:
            r = r * b % m
        e >>= 1
        b = b * b % m
    return r


@pytest.mark.parametrize("target", ["numpy", "c"])
def test_integers_of_python_do_not_wrap_around(compared, target):
    args = (123456789, 987654321, 2**61 - 1)
    assert sg.compile(power_modulo, target=target)(*args) == pow(*args)
    assert compared


def test_lists_are_compared_as_the_arrays_that_they_become(compared):
    def f(x):
        out = []
        for k in range(40):
            out.append(x * k)
        return out

    np.testing.assert_array_equal(sg.compile(f)(X), f(X))
    assert compared == ["program", "f"]


# ---- what a second run leaves behind


class Model:
    calls = 0
    total = 0

    def __init__(self):
        self.log, self.seen, self.last, self.recent = [], {1}, {}, deque([0], maxlen=3)
        self.buffer = np.zeros(2)

    def __call__(self, x):
        self.calls += 1
        Model.total += 1
        self.log.append(len(self.log))
        self.seen.add(len(self.seen) + 7)
        self.last["n"] = len(self.seen)
        self.recent.append(4)
        self.buffer[0] += 1
        LISTED.extend([1, 2])
        return doubled(x)


LISTED = []


def test_effects_of_the_second_run_are_taken_back(compared):
    Model.total = 0
    LISTED.clear()
    model, inner = Model(), {"n": 0}

    def count():
        nonlocal changed
        changed += 1

    def f(x):
        count()
        inner["n"] += 1
        return model(x)

    changed = 0
    sg.grad(f)(X)
    assert [*dict.fromkeys(compared)] == ["program", "f"]
    assert (changed, inner, LISTED, Model.total) == (1, {"n": 1}, [1, 2], 1)
    assert (model.calls, model.log, model.last, [*model.recent]) == (1, [0], {"n": 2}, [0, 4])
    assert model.seen == {1, 8} and model.buffer.tolist() == [1, 0]


HISTORY, NESTED = [], [[1.0]]


def appends_in_a_loop(x):
    for _ in range(30):
        x = x * 0.9 if x > 1 else x * 1.1
        HISTORY.append(x)
        NESTED[0].append(x)
    return x


def appends_while(x):
    while x > 1:
        x = x * 0.9
        HISTORY.append((x, x))
        NESTED[0].append(x)
    return x


def appends_on_one_side(x):
    if x > 1:
        HISTORY.append(x)
    return x * 2


def chooses_what_it_appends(x):
    f = np.sin if x > 1 else np.cos
    HISTORY.append(f)
    return f(x)


def appends_and_fails(x):
    for _ in range(30):
        x = x * 0.9
        HISTORY.append(x)
    raise ZeroDivisionError


@pytest.mark.parametrize("f", [appends_in_a_loop, appends_while, appends_on_one_side, chooses_what_it_appends])
def test_a_global_list_that_is_appended_to_stays_as_it_was(f):
    for transform in (sg.grad, sg.hessian, partial(sg.grad, check_first=False)):
        transform(f)(2.0)
        assert (HISTORY, NESTED) == ([], [[1.0]])


def test_a_global_list_stays_as_it_was_where_the_function_fails():
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            sg.grad(appends_and_fails)(2.0)
        assert HISTORY == []


def test_names_of_modules_are_put_back():
    def f():
        global COUNT
        COUNT = 1

    with Effects(f).revoked():
        f()
    assert "COUNT" not in globals()


def test_arguments_are_copies():
    def f(x):
        y = x.copy()
        while np.sum(y) < 10:
            y *= 2
        return np.sum(y)

    x = X.copy()
    sg.grad(f)(x)
    np.testing.assert_array_equal(x, X)


def test_slots_are_put_back():
    class Slotted:
        __slots__ = ("n",)

    slotted = Slotted()
    slotted.n = 1

    def f():
        slotted.n += 1

    with Effects(f).revoked():
        f()
    assert slotted.n == 1


def test_the_second_run_begins_where_the_first_did(compared):
    class Counter:
        n = 0

        def __call__(self, x):
            self.n += 1
            Counter.n += 1
            return doubled(x) * self.n

    counter = Counter()
    f = lambda x: counter(x)
    expected = sg.compile(doubled)(X)
    assert sg.compile(f)(X) == expected
    program = sg.compile(f).compile("float64[n]")
    assert counter.n == 2
    counter.n = 7
    assert program(X) == 2 * expected  # as it was when it was compiled
    assert [*dict.fromkeys(compared)] == ["program", "doubled", "<lambda>"]
    assert (counter.n, Counter.n) == (7, 2)


def test_what_cannot_be_put_back_is_known(tmp_path):
    with open(tmp_path / "log", "w") as file:
        assert not Effects(lambda: file.name).revocable
    assert not Effects(lambda: next(NUMBERS)).revocable
    many = [[i] for i in range(3000)]
    assert not Effects(lambda: many).revocable
    assert Effects(lambda: LISTED).revocable


def test_an_exception_of_the_function_takes_back_its_effects():
    log = []

    def f(x):
        log.append(1)
        while np.sum(x) < 10:
            x = x * 2
        if not hasattr(x, "graph"):
            log.append(2)
            raise ValueError
        return np.sum(x)

    sg.compile(f)(X)
    assert log == [1]


# ---- state that is kept from call to call

KEPT = {"mean": 0.0}
SEEN = []
LAST = np.zeros(3)


class Keeps:
    scale = None

    def __init__(self):
        self.mean, self.hidden, self.total = 0.0, None, 0.0

    def centred(self, x):
        self.mean = 0.9 * self.mean + 0.1 * np.mean(x)
        return np.sum((x - self.mean) ** 2)

    def cached(self, x):
        self.hidden = np.tanh(x)
        return np.sum(self.hidden**2)

    def once(self, x):
        if self.hidden is not None:
            raise RuntimeError("called twice")
        self.hidden = np.sum(x)
        return self.hidden

    def counted(self, x):
        self.total = self.total + np.sum(x)
        return np.sum(x**2)

    def scaled(self, x):
        if self.scale is None:
            self.scale = np.max(x)
        return np.sum(np.tanh(x / self.scale))


def of_a_dict(x):
    KEPT["mean"] = 0.5 * KEPT["mean"] + np.sum(x)
    return KEPT["mean"] ** 2


def of_a_default(x, memo={"mean": 1.0}):  # noqa: B006 - the first mistake of beginners
    memo["mean"] = 0.5 * memo["mean"] + np.sum(x)
    return memo["mean"] ** 2


def of_a_list(x):
    SEEN.append(np.sum(x))
    return sum(SEEN)


def of_a_first_value():
    first = None

    def relative(x):
        nonlocal first
        y = np.sum(x**2)
        if first is None:
            first = y
        return y / first

    return relative


def first_of_a_shape(known, x):
    if x.shape not in known:
        known[x.shape] = np.sum(x**2)
    return known[x.shape]


def of_a_global(x):
    global LAST
    y = np.sum((x - LAST) ** 2)
    LAST = x
    return y


@pytest.mark.parametrize("transform", [sg.compile, sg.grad, sg.hessian, sg.value_and_grad])
@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (
            lambda: Keeps().centred,
            r"centred after a call with other numbers, it returns 0\.\d+ instead of 0\.2387: it depends on mean,",
        ),
        (
            lambda: Keeps().once,
            r"once after a call with the same arguments, it raises RuntimeError\('called twice'\): it depends on hid",
        ),
        (lambda: of_a_dict, r"it depends on KEPT\['mean'\], which the call before has set"),
        (lambda: of_a_list, r"returns 1\.\d+ instead of 0\.9: it depends on SEEN\[0\],"),
        (lambda: Keeps().scaled, r"scaled after a call with other numbers, .* it depends on Keeps\.scale,"),
        (of_a_first_value, r"it depends on first,"),
        (lambda: of_a_default, r"it depends on memo\['mean'\],"),
        (lambda: partial(first_of_a_shape, {}), r"it depends on dict\[\(3,\)\],"),
        (lambda: of_a_global, r"(?s)it depends on LAST, .*Take LAST as an argument"),
    ],
)
def test_a_function_that_depends_on_its_last_call_is_refused(transform, make, fact):
    f = transform(make())
    for _ in range(2):
        with pytest.raises(StateError, match=fact):
            f(X)
    assert KEPT == {"mean": 0.0} and SEEN == [] and not LAST.any()


def test_a_loop_whose_function_depends_on_its_last_call_is_refused():
    model = Keeps()

    def steps(x):
        for _ in range(40):
            x = np.sin(x) + model.mean
            model.mean = 0.5 * model.mean + 0.1 * x[0]
        return np.sum(x)

    with pytest.raises(StateError, match=r"it depends on model\.mean"):
        sg.grad(steps)(X)
    assert model.mean == 0.0


@pytest.mark.parametrize("name", ["cached", "counted"])
def test_values_that_are_only_stored_are_no_state(name):
    method = getattr(Keeps(), name)
    slope = sg.grad(method)
    for k in (1.0, 2.0):
        np.testing.assert_allclose(slope(k * X), sg.grad(lambda x: getattr(Keeps(), name)(x))(k * X))
    assert method.__self__.hidden is None and method.__self__.total == 0.0


def test_state_is_what_it_was_at_the_first_call_if_nothing_is_checked():
    slope = sg.grad(Keeps().centred, check_first=False)
    np.testing.assert_allclose(slope(2 * X), 2 * slope(X))


def test_what_a_refused_function_has_changed_is_as_before():
    class Scaled:
        def __init__(self):
            self.built, self.calls, self.scale = False, 0, None

        def loss(self, x):
            self.calls += 1
            if not self.built:
                self.built, self.scale = True, np.max(x)
            return np.sum(x / self.scale)

    model = Scaled()
    with pytest.raises(StateError):
        sg.grad(model.loss)(X)
    assert vars(model) == {"built": False, "calls": 0, "scale": None}


class Moves:
    """Losses that depend on what their last call has left, by numbers that no argument decides."""

    big = np.zeros((3, 200))

    def __init__(self):
        self.n, self.flag, self.state, self.recent, self.inner = 0, False, ("s", [0]), deque([1.0, 2.0, 3.0]), [Keeps()]

    def restart(self):
        self.n = 0

    def counted(self, x):
        self.n += 1
        return np.sum(x**2) / self.n

    def cyclic(self, x):
        self.n = (self.n + 1) % 2
        return np.sum(x**2) * (self.n + 1)

    def toggled(self, x):
        self.flag = not self.flag
        return np.sum(x) if self.flag else np.sum(x**2)

    def turned(self, x):
        self.recent.rotate(1)
        return np.sum(x) * self.recent[0]

    def replaced(self, x):
        self.state = ("s", [self.state[1][0] + 1])
        return np.sum(x**2) * self.state[1][0]

    def decayed(self, x):
        self.big = self.big * 0.5 + 1
        return np.sum(x @ self.big)

    def written(self, x):
        if self.n == 0:
            self.big = np.zeros((3, 200)) + 0.0
        self.n = 1
        self.big += 1.0
        return np.sum(x @ self.big)

    def counted_inside(self, x):
        for each in self.inner:
            each.total, each.hidden = each.total + 1, x
        return np.sum(x**2) * self.inner[0].total


@pytest.mark.parametrize(
    "name", ["counted", "cyclic", "toggled", "turned", "replaced", "decayed", "written", "counted_inside"]
)
@pytest.mark.parametrize("target", ["numpy", "auto"])
def test_state_that_moves_without_traced_values_is_that_of_python(name, target):
    python, traced = Moves(), Moves()
    f, g = getattr(python, name), sg.compile(getattr(traced, name), target=target)
    for k in range(6):
        if k == 3:
            python.restart()
            traced.restart()
        assert g((k + 1) * X) == pytest.approx(f((k + 1) * X))
    assert type(traced.big) is np.ndarray


def test_state_that_is_replaced_at_each_call_is_named_in_the_warning():
    g = sg.compile(Moves().replaced)
    with pytest.warns(RecompilationWarning, match=r"each time since .*state had changed"):
        for k in range(10):
            assert g(X) == pytest.approx((k + 1) * np.sum(X**2))


def test_a_mode_that_each_function_sets_compiles_once():
    class Net:
        training = False

        def loss(self, x):
            self.training = True
            return self.forward(x)

        def predict(self, x):
            self.training = False
            return self.forward(x)

        def forward(self, x):
            return np.sum(x**2) * (2.0 if self.training else 1.0)

    net = Net()
    loss, predict = sg.compile(net.loss), sg.compile(net.predict)
    for _ in range(4):
        assert (loss(X), predict(X)) == (2 * np.sum(X**2), np.sum(X**2))
    assert len(loss._cache) + len(predict._cache) <= 4


@pytest.mark.parametrize("transform", [sg.compile, sg.grad])
@pytest.mark.parametrize("place", ["attribute", "global", "item", "instance"])
def test_what_is_built_in_the_first_call_is_there_afterwards(transform, place):
    KNOWN.clear()
    KNOWN.update(built=False, W=None)

    class Layer:
        def __init__(self):
            self.built, self.W, self.steps = False, None, ()

        def __call__(self, x):
            if not self.built:
                self.built, self.W = True, np.linspace(0.1, 1.0, 6).reshape(3, 2)
                self.steps = (np.zeros(2), [np.ones(2)])
            return np.sum(np.tanh(x @ self.W + self.steps[0] + self.steps[1][0]))

    def of_a_dict(x):
        if not KNOWN["built"]:
            KNOWN.update(built=True, W=np.eye(3))
        return np.sum((KNOWN["W"] @ x) ** 2)

    layer = Layer()
    f, again = {
        "attribute": (layer.__call__, Layer()),
        "instance": (layer, Layer()),
        "global": (of_a_dict, of_a_dict),
        "item": (lambda x: [layer][0](x), Layer()),
    }[place]
    g = transform(f)
    found = [g(X), g(2 * X), g(X)]
    for k, y in zip((1, 2, 1), found, strict=True):
        np.testing.assert_allclose(y, transform(again)(k * X))
    W = KNOWN["W"] if place == "global" else layer.W
    assert type(W) is np.ndarray and type(f(X)) is np.float64


KNOWN = {}


def test_names_of_one_memory_that_the_first_call_has_made_stay_that():
    class Table:
        W = None

        def loss(self, x):
            if self.W is None:
                self.W = np.arange(6.0).reshape(2, 3)
                self.first, self.last, self.same = self.W[0], self.W.T[2, 1:], self.W
            return np.sum(self.first * x) + np.sum(self.last)

    table = Table()
    g = sg.compile(table.loss)
    g(X)
    table.W += 1.0
    assert table.same is table.W and g(X) == table.loss(X) == pytest.approx(np.sum([1, 2, 3] * X) + 6.0)


@cache
def table(n):
    return np.arange(n) ** 2.0


@lru_cache(4)
def weights(n):
    return {"w": (np.linspace(0.0, 1.0, n), 2 * table(n))}


def test_a_cache_of_a_function_holds_no_traced_values():
    table.cache_clear()
    f = lambda x: np.sum(x * table(3)) + np.sum(weights(3)["w"][0] * weights(3)["w"][1] * x)
    for transform in (sg.compile, sg.grad, sg.hessian):
        transform(f)(X)
    expected = np.sum(X * table.__wrapped__(3)) + np.sum(np.array([0.0, 0.5, 1.0]) * [0, 2, 8] * X)
    assert sg.compile(f)(X) == pytest.approx(expected) and f(X) == pytest.approx(expected)
    assert type(table(3)) is np.ndarray and type(weights(3)["w"][0]) is np.ndarray


def halves():
    x = 1.0
    while True:
        yield x
        x *= 0.5


class Batches:
    def __init__(self):
        self.rates = itertools.cycle([1.0, 0.5])

    def loss(self, x):
        self.last = x
        return np.sum(x**2) * next(self.rates)


def of_a_generator(numbers, x):
    return np.sum(x**2) * next(numbers)


def of_the_rest(take, numbers, x):
    return np.sum(x**2) * sum(take(numbers))


def of_a_loop(numbers, x):
    for k in numbers:
        return np.sum(x**2) * k


@pytest.mark.parametrize(
    "make",
    [
        lambda: Batches().loss,
        lambda: partial(of_a_generator, halves()),
        lambda: partial(of_a_generator, itertools.count(1)),
        lambda: partial(of_a_generator, iter([1.0, 2.0, 3.0])),
        lambda: partial(of_a_loop, halves()),
        lambda: partial(of_the_rest, list, iter([1.0, 2.0, 3.0])),
        lambda: partial(of_the_rest, tuple, iter(range(1, 5))),
        lambda: partial(of_the_rest, lambda numbers: itertools.islice(numbers, 2), halves()),
        lambda: partial(of_the_rest, lambda numbers: [numbers.__next__()], itertools.count(1)),
        lambda: partial(
            of_the_rest, lambda numbers: [*dict(zip("ab", numbers, strict=False)).values()], iter([1.0, 2.0] * 4)
        ),
    ],
)
def test_each_call_takes_the_next_item_of_an_iterator(make):
    f, g = make(), sg.compile(make())
    assert [g(k * X) for k in (1, 2, 1)] == pytest.approx([f(k * X) for k in (1, 2, 1)])


def test_an_iterator_that_a_function_makes_is_part_of_its_program():
    def f(x):
        numbers = halves()
        return np.sum(x) * next(numbers) * next(numbers)

    g = sg.compile(f)
    assert [g(X), g(2 * X)] == pytest.approx([f(X), f(2 * X)]) and len(g._cache) == 1
