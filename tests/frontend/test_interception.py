"""Plain NumPy inside of a trace: what is created there, lists of traced values, known values, names from elsewhere."""

import builtins
import copy
import importlib
import math
import textwrap
import threading
from collections.abc import Iterable, Sized
from functools import partial

import numpy as np
import pytest
from numpy import array, eye, zeros
from numpy.linalg import norm

import symgrad as sg
from symgrad.errors import ConcreteValueError, FrozenRandomWarning, SymgradError, UnsupportedError, WriteError
from tests.oracle import check_grads_in_turn
from tests.test_house import in_a_fresh_process

X = np.array([0.7, -0.3, 1.9])
TABLE = np.arange(12.0).reshape(3, 4)
PLAIN = dict(vars(np))


def same_as_numpy(f, *args, turn=None):
    """The value is NumPy's, from arrays and at all levels, and derivatives agree with differences.

    Where `turn` is given, second ones are checked in one pair of modes alone.
    """
    expected = f(*args)
    for level in (0, 1, 2):
        found = sg.compile(f, optimize=level)(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
    if turn is None:
        sg.check_grads(lambda *xs: np.sum(f(*xs)), args)
    else:
        check_grads_in_turn(lambda *xs: np.sum(f(*xs)), args, turn)


# ---- creation


def written(x):
    f = np.zeros(4)
    f[0], f[3] = 10 * x[0], x[1] * x[2]
    f[1:3] = x[:2]
    f[2] += 1.0
    return f


def rotated(x):
    return np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]]) @ x[1:]


def imported(x):
    out = zeros((2, 3))
    out[1] = x
    return out @ array([x[0], 1.0, 2.0]) + eye(3)[:2, 0] * norm([x[0], x[1]])


CREATING = {
    "written": written,
    "rotated": rotated,
    "imported": imported,
    "empty": lambda x: np.stack([fill_all(np.empty(3), x), fill_all(np.empty_like(x), x)]),
    "full": lambda x: np.full((2, 2), x[0]),
    "full of ints": lambda x: fill(np.full(3, 7, dtype=float), x[0] * 2),
    "ones in Fortran's order": lambda x: fill(np.ones((3, 3), order="F"), x),
    "asarray": lambda x: np.asarray(x)[::-1] + np.asarray([x[0], x[1], 1.0]),
    "asarray of a number": lambda x: np.asarray(x[0] * 2).reshape(1) + x,
    "atleast": lambda x: np.atleast_1d(x[0]) + np.atleast_2d(x)[0],
    "lists": lambda x: np.sum([x[0], x[1]]) + np.dot([x[0], 2.0, x[1]], x) + np.max([x[0], 1.0]),
    "lists of lists": lambda x: np.linalg.det([[x[0], x[1]], [x[2], 3.0]]) + np.mean([[x[0]], [x[1]]], axis=0),
    "ufuncs of lists": lambda x: np.exp([x[0], x[1]]) * np.add([x[0], 1.0], 2.0) + np.add.reduce([x[0], x[1]]),
    "eye": lambda x: np.eye(3)[1] * x + np.identity(3)[0],
    "a list of rows": lambda x: np.apply_along_axis(lambda v: v / np.sum(v**2), 0, [x, 2 * x]),
    "r_": lambda x: np.r_[x, 1.0, x[:1], [2.0, 3.0], 0:3],
    "c_": lambda x: np.c_[x, x**2, np.ones(3)],
    "r_ of a length": lambda x: np.r_[x, len(x) : 0 : -1, 1 : len(x)] ** 2,
    "c_ of a length": lambda x: np.c_[0 : len(x), x] @ np.r_[1.0, 2.0],
    "diag of constants": lambda x: fill(np.diag([1.0, 2.0, 3.0]), x),
    "tile of constants": lambda x: fill(np.tile([1.0, 2.0, 3.0], (2, 1)), x),
    "a copy of a global": lambda x: fill(TABLE.copy(), x[0]) + fill(np.array(TABLE), x[1]) + fill(np.copy(TABLE), 2.0),
    "copies by Python": lambda x: fill(copy.copy(x), x[0]) + fill_all(*copy.deepcopy([np.zeros(3), x])) * x,
    "a copy of what is shared": lambda x: shared(*copy.deepcopy([x, x])) * x,
    "views of what is created": lambda x: through_a_view(np.zeros((2, 3)), x),
    "a loop": lambda x: [fill_rows(np.zeros((3, 3)), x)][0],
    "linspace": lambda x: np.interp(x[0], np.linspace(0, 1, 5), np.linspace(0, 1, 5) ** 2) * x,
    "meshgrid": lambda x: np.add(*np.meshgrid(np.arange(3.0), np.arange(2.0))) * x,
    "triangles": lambda x: np.tril(np.ones((3, 3))) @ x + np.triu(np.full((3, 3), 2.0), k=1) @ x,
}


@pytest.mark.parametrize("name", ["r_ of a length", "c_ of a length"])
def test_brackets_of_any_length(name):
    program = sg.compile(CREATING[name]).compile("float64[n]")
    np.testing.assert_array_equal(program(X), CREATING[name](X))


def shared(a, b):
    a[0] = 2 * b[1]
    return b


def fill(a, value):
    a[0] = value
    a[1:] += value
    return a


def fill_all(a, value):
    a[:] = value
    return a


def fill_rows(a, x):
    for i in range(len(x)):
        for j in range(len(x)):
            a[i, j] = x[i] * x[j] if i != j else 1.0
    return a


def through_a_view(a, x):
    row = a[1]
    row[:] = x
    row[0] *= 2.0
    a.T[2, 0] = x[1]
    a.flat[1] = x[0]
    return a


@pytest.mark.parametrize("name", CREATING)
def test_creation(name):
    same_as_numpy(CREATING[name], X, turn=[*CREATING].index(name))


def test_numbers_of_python():
    same_as_numpy(lambda a, b: np.array([a, b, 1.0]) * np.stack([a, b, a * b]), 0.3, 1.7)
    same_as_numpy(lambda a: np.asarray(a) * np.array(a) + np.atleast_1d(a), 0.3)


@pytest.mark.slow
def test_objects_and_texts_are_numpys_own():
    def f(x):
        names = np.array(["a", "b"])
        boxes = np.empty(2, dtype=object)
        boxes[0], boxes[1] = x.sum(), {"scale": 2.0}
        assert names.dtype.kind == "U" and names[1] == "b"
        return boxes[0] * boxes[1]["scale"]

    same_as_numpy(f, X)


def test_an_array_of_objects_that_are_traced():
    with pytest.raises(UnsupportedError, match="traced values in an array of dtype object"):
        sg.compile(lambda x: np.sum(np.array([x[0], x[1]], dtype=object)))(X)


@pytest.mark.parametrize("level", [0, 1])
def test_what_is_created_reads_as_it_was_written(level):
    source = sg.compile(written, optimize=level).source(X)
    new = "np.zeros(4)" if level == 0 else "np.empty(4)"  # all four numbers are written
    assert new in source and "_constants" not in source


# ---- known values


def by_known_values(x):
    weights = np.array([0.0, 2.0, 1.0])
    order = np.argsort(weights)
    total = x[int(order[0])] + x[order[-1]] * weights[1]
    if weights.sum() > 2 and not weights[0] and weights.max() in (2.0, 3.0):
        total = total * 3
    for i in range(np.arange(4)[2]):
        total = total + i * x[i]
    table = {0.0: 5.0, 2.0: 7.0}
    assert f"{weights[1]:.2f}" == "2.00" and round(weights[1]) == 2 and math.sqrt(weights[2]) == 1.0
    return total * table[weights[1]] + np.unique(weights)[1] + len(np.flatnonzero(weights)) + weights.tolist()[2]


@pytest.mark.slow
def test_known_values():
    same_as_numpy(by_known_values, X)


def test_functions_without_an_entry_run_on_known_values():
    def f(x):
        values, counts = np.unique(np.array([3, 1, 3]), return_counts=True)
        values[0] = 4
        return np.sum(x[: counts[1]]) * values[0] + np.poly(np.array([1.0, 2.0]))[1] * x[0]

    same_as_numpy(f, X)


def test_the_value_of_what_is_differentiated_by_is_not_taken():
    def inner(t):
        assert t > 0  # a truth has no derivative to lose
        return float(t) ** 2

    with pytest.raises(ConcreteValueError, match=r"float\(\) needs the value"):
        sg.compile(lambda x: x * sg.grad(inner)(1.0))(X)


def test_masks_that_are_known():
    same_as_numpy(lambda x: x[np.array([True, False, True])] * TABLE[0, 1:3], X)


def test_isinstance_sees_what_numpy_gives():
    def f(x, a):
        assert isinstance(x, np.ndarray) and not isinstance(x, float) and not np.isscalar(x)
        assert isinstance(x[0], float) and isinstance(x[0], np.float64) and np.isscalar(x[0])
        assert isinstance(a, float) and not isinstance(a, np.ndarray) and type(a) is not np.ndarray
        assert isinstance(x.shape[0], int) and isinstance(x[0] > 0, np.bool)
        return x * a

    sg.compile(f)(X, 2.0)
    sg.compile(f).source("float64[n]", 2.0)


def total(x):
    """Return the sum of squares of anything nested; a number is what cannot be iterated over."""
    return sum(map(total, x)) if isinstance(x, Iterable) else x**2


def total_by_methods(x):
    return sum(map(total_by_methods, x)) if hasattr(x, "__len__") and hasattr(x, "__iter__") else x**2


def total_by_trial(x):
    try:
        return sum(map(total_by_trial, x))
    except TypeError:
        return x**2


@pytest.mark.parametrize("f", [total, total_by_methods, total_by_trial])
def test_a_number_is_not_iterable(f):
    same_as_numpy(lambda x, a: f([x, (a, x[1]), np.sum(x)]), X, 2.0)


def test_constants_read_as_their_values():
    shown = []

    def f(x):
        a = np.ones(2)
        assert f"{a} {a[0]} {a[0]:.1f}" == "[1. 1.] 1.0 1.0" and str(np.arange(3)) == "[0 1 2]"
        shown.extend([str(x), repr(x), f"{x}"])
        return {f"w{i}": x[i] for i in np.arange(2)}

    assert sg.compile(f)(X) == {"w0": X[0], "w1": X[1]}
    assert {"".join([text]) for text in shown} == {"<Variable float64[3] x>"}


class Pair:
    """A class of the user's with operators of its own."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __add__(self, other):
        return Pair(self.a + other.a, self.b + other.b)

    def __rmul__(self, k):
        return Pair(k * self.a, k * self.b)

    def __rtruediv__(self, k):
        return k / self.a

    def __rpow__(self, k):
        return k**self.b


def test_numbers_leave_operators_to_classes_of_the_user():
    def f(x, a):
        pair = x[0] * Pair(x[1], x[2]) + 2 * Pair(a, x[2]) + a * Pair(x, 1.0)
        return pair.a * pair.b + a / pair + np.abs(x[0]) ** Pair(0, x[1])

    same_as_numpy(f, X, 2.0)
    with pytest.raises(UnsupportedError, match="Pair"):
        sg.compile(lambda x: x * Pair(1, 2))(X)


@pytest.mark.slow
def test_a_number_has_no_length():
    def f(x, a):
        assert np.iterable(x) and not np.iterable(x[0]) and not np.iterable(a)
        assert not isinstance(x[0], (Sized, np.ndarray)) and isinstance(a, float | list) and hasattr(x[0], "dtype")
        with pytest.raises(TypeError):
            len(x[0])
        return x * a

    same_as_numpy(f, X, 2.0)


# ---- tables indexed by traced values


def test_tables_indexed_by_traced_values():
    local, nested = TABLE * 2, {"table": TABLE}

    def f(x, i, j):
        return x * (TABLE[i, j] + local[i, 1:].sum(axis=1) + np.take(TABLE, i, axis=0)[:, 0] + local[2][j])

    same_as_numpy(lambda x: f(x, np.argsort(x), np.argmax(x)), X)
    same_as_numpy(f, X, np.array([2, 0, 1]), np.array([3, 3, 0]))
    with pytest.raises(SymgradError, match=r"np\.take"):
        sg.compile(lambda x: nested["table"][np.argmax(x)])(X)


def test_tables_indexed_by_arguments():
    """Whole numbers that choose a row or a batch: one program for all after the first."""
    traced = []

    def f(x, step):
        traced.append(step)
        batch = TABLE[(step % 3) : (step % 3) + 1, 1:]
        return TABLE[step % 3, 1:] * x + batch[0] + TABLE[-1 - step % 3, ::2].sum()

    for optimize in (0, 1, 2):
        compiled = sg.compile(f, optimize=optimize)
        traced.clear()
        found = [compiled(X, step) for step in range(6)]
        assert len(traced) <= 2
        np.testing.assert_allclose(found, [f(X, step) for step in range(6)], rtol=1e-14)


class Model:
    def __init__(self):
        self.table, self.scale = TABLE.copy(), zeros(2)

    def loss(self, x):
        made = zeros(3)
        made[:] = x
        return np.sum(self.table[np.argmax(x)]) * np.sum(made**2)

    def __call__(self, x):
        return self.loss(x) + 1.0


MODEL = Model()


@pytest.mark.parametrize("f", [MODEL.loss, MODEL, partial(MODEL.loss), lambda x, m=MODEL: m.loss(x)])
def test_methods_and_instances(f):
    same_as_numpy(f, X)


def test_one_hot():
    def f(x, i):
        hot = np.zeros((3, 3))
        hot[np.arange(3), i] = 1.0
        return hot @ x

    same_as_numpy(f, X, np.array([2, 0, 1]))


def test_an_array_from_outside_is_not_written_into():
    def f(x):
        TABLE[0, 0] = x[0]
        return x

    with pytest.raises(WriteError, match=r"exists before the program runs"):
        sg.compile(f)(X)
    assert TABLE[0, 0] == 0.0


# ---- NumPy is as it was


def test_nothing_is_left_behind():
    before = dict(globals())

    def fails(x):
        zeros(3)[0] = x[0]
        len(TABLE)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sg.compile(fails)(X)
    sg.compile(rotated)(X)
    assert type(np) is type(math) and type(np.linalg) is type(math)
    assert all(vars(np)[name] is value for name, value in PLAIN.items())
    assert {k: v for k, v in globals().items() if k in before and v is not before[k]} == {}
    assert set(globals()) - set(before) <= {"@py_builtins"} and len is builtins.len
    assert type(zeros(3)) is np.ndarray and type(TABLE) is np.ndarray


def test_a_name_that_the_function_binds_anew_stays():
    def f(x):
        global BOUND
        BOUND = "anew"
        return x * len(BOUND)

    globals()["BOUND"] = TABLE
    sg.compile(f)(X)
    assert globals().pop("BOUND") == "anew"


def test_names_of_a_module_that_are_missing_or_bound_anew(monkeypatch):
    def other(x):
        return 3 * x

    def f(x):
        math.gamma = other
        return math.sin(x) * math.gamma(x)

    monkeypatch.delattr(math, "lgamma")
    monkeypatch.setattr(math, "gamma", math.gamma)
    before = dict(vars(math))
    assert sg.compile(f)(0.5) == pytest.approx(1.5 * math.sin(0.5))
    assert vars(math) == {**before, "gamma": other}


def test_other_threads_see_numpy_as_it_is():
    started, looked = threading.Event(), threading.Event()
    found = {}

    def other():
        started.wait()
        found.update(
            made=type(np.zeros(2)), same=np.zeros is PLAIN["zeros"], imported=type(zeros(2)), table=TABLE.sum()
        )
        looked.set()

    def f(x):
        started.set()
        assert looked.wait(60)
        return np.zeros(3) + x

    thread = threading.Thread(target=other)
    thread.start()
    sg.compile(f)(X)
    thread.join()
    assert found == {"made": np.ndarray, "same": True, "imported": np.ndarray, "table": TABLE.sum()}


def test_traces_in_several_threads():
    wait = threading.Barrier(4)
    results = []

    def f(x):
        wait.wait(60)
        return fill(zeros(3), x[0]) * TABLE[np.argmax(x), 1]

    def work():
        results.append(sg.compile(lambda x: f(x))(X))

    threads = [threading.Thread(target=work) for _ in range(3)]
    [t.start() for t in threads]
    wait.wait(60)
    [t.join() for t in threads]
    assert len(results) == 3 and all(np.array_equal(r, fill(np.zeros(3), X[0]) * TABLE[2, 1]) for r in results)
    assert type(zeros(3)) is np.ndarray and type(TABLE) is np.ndarray and type(np) is type(math)


# ---- what is refused ends the trace


@pytest.mark.parametrize("caught", [Exception, (TypeError, ValueError)])
def test_a_refusal_that_is_swallowed(caught):
    def f(x):
        try:
            return np.sum(x) * int(x[0])
        except caught:
            return np.sum(x)

    with pytest.raises(ConcreteValueError, match=r"int\(\) needs the value"):
        sg.grad(f)(X)


def test_errors_that_numpy_raises_may_be_caught():
    def f(x):
        try:
            return x @ np.ones(4)
        except ValueError:
            return x @ np.ones(3)

    same_as_numpy(f, X)


def test_a_refusal_of_which_another_error_came():
    def f(x):
        try:
            n = int(x[0])
        except TypeError:
            n = None
        return x[0] * n.bit_length()

    with pytest.raises(ConcreteValueError, match=r"int\(\) needs the value"):
        sg.grad(f)(X)


def test_a_graph_by_hand_keeps_no_refusals():
    x = sg.Graph().input("x", "float64[3]")
    with pytest.raises(UnsupportedError):
        np.unique(x)
    assert np.sum(x).shape == ()


# ---- in place


@pytest.mark.parametrize("x", [2.0, np.float64(2.0)])
def test_a_number_is_bound_anew(x):
    def f(x):
        y = x
        x += 1
        x *= y
        return x - y

    same_as_numpy(f, x)


# ---- random numbers

RANDOM = np.random.default_rng(1)


def by_numpy(x):
    return np.sum(x * np.random.normal(size=3))


def by_generator(x):
    return np.sum(x * RANDOM.normal(size=3))


def by_unseeded(x):
    return np.sum(x * np.random.default_rng().normal(size=3))


def in_closure():
    random = np.random.RandomState(3)
    return lambda x: np.sum(x * random.randn(3))


@pytest.mark.parametrize(
    ("f", "what", "line"),
    [
        (by_numpy, r"np\.random\.normal is drawn from", "return np.sum(x * np.random.normal(size=3))"),
        (by_generator, "the random generator RANDOM is drawn from", "return np.sum(x * RANDOM.normal(size=3))"),
        (by_unseeded, "without a seed is made", "return np.sum(x * np.random.default_rng().normal(size=3))"),
        (in_closure(), "the random generator random is drawn from", "return lambda x: np.sum(x * random.randn(3))"),
    ],
)
def test_frozen_random_numbers_are_told(f, what, line):
    with pytest.warns(FrozenRandomWarning, match=what) as caught:
        sg.grad(f)(X)
    assert len(caught) == 1 and line in str(caught[0].message) and "as an argument" in str(caught[0].message)


def test_random_numbers_that_nobody_has_asked_for_before():
    code = """if True:
        import sys, warnings, symgrad as sg, numpy as np
        assert "numpy.random" not in sys.modules, "it takes a while"
        f = sg.compile(lambda x: x * np.random.normal())
        warnings.simplefilter("error")
        try:
            f(2.0)
        except Warning as caught:
            print(type(caught).__name__)
    """
    assert in_a_fresh_process(code) == "FrozenRandomWarning"


def test_a_generator_that_is_not_drawn_from():
    sg.grad(lambda x: np.sum(x * np.random.default_rng(1).normal(size=3)))(X)  # the same numbers in plain NumPy
    sg.grad(lambda x: np.sum(x) if RANDOM is not None else x)(X)


# ---- from specs


FROM_SPECS = {
    "eye": lambda x: np.eye(x.shape[0]) @ x,
    "ones": lambda x: np.ones((x.shape[0], 1)) @ x[:1] + x,
    "zeros": lambda x: fill(np.zeros(len(x)), x[0]) * x,
    "arange": lambda x: x * np.arange(len(x)) / len(x),
    "lower triangle": lambda x: np.where(np.tril(np.ones((len(x), len(x)), dtype=bool)), x, 0.0),
    "linspace": lambda x: np.linspace(0, 1, len(x)) * x,
    "tile": lambda x: np.tile([1.0, 2.0], (len(x), 1)) * x[:, None],
    "broadcast": lambda x: np.broadcast_to(np.array([1.0, 2.0]), (len(x), 2)) * x[:, None],
    "repeat": lambda x: np.repeat([2.0], len(x)) * x,
    "from a list": lambda x: np.array([x.sum(), len(x), 1.0]),
}


@pytest.mark.parametrize("f", FROM_SPECS.values(), ids=FROM_SPECS)
def test_from_specs_as_from_arrays(f):
    for level in (0, 1, 2):
        compiled = sg.compile(f, optimize=level).compile("float64[n]")
        for n in (2, 3, 5):
            x = np.linspace(0.5, 1.5, n)
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-14)
    same_as_numpy(f, X)


def test_methods_of_a_library_whose_instance_holds_what_is_traced(tmp_path, monkeypatch):
    source = """
        from math import erf, log, sqrt
        from numpy import zeros

        class Option:
            def __init__(self, spot, strike):
                self.spot, self.strike = spot, strike

            @property
            def moneyness(self):
                return log(self.spot / self.strike)

            def probability(self):
                return (1 + erf(self.moneyness / sqrt(2))) / 2

            def payoffs(self):
                found = zeros(3)
                found[1] = self.spot - self.strike
                return found.sum()
        """
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "library_of_options.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(folder)
    library = importlib.import_module("library_of_options")

    def f(spot):
        options = {"call": library.Option(spot, 2.0)}
        return options["call"].probability() + options["call"].payoffs()

    d = math.log(1.5)
    assert sg.grad(f)(3.0) == pytest.approx(math.exp(-d * d / 2) / math.sqrt(2 * math.pi) / 3 + 1)


def test_a_library_with_loops_computes_its_constants_with_numpy(tmp_path, monkeypatch):
    """Arrays of its converted functions are real ones, too, which compiled code may be given."""
    source = """
        import numpy as np

        def weights(n):
            for i in range(n):
                found = np.ones(n), np.zeros(n), np.arange(n)
            return [memoryview(x).nbytes for x in found]
        """
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "library_of_weights.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(folder)
    library = importlib.import_module("library_of_weights")
    assert sg.grad(lambda x: x * sum(library.weights(2)))(3.0) == 48.0


ROWS = np.arange(9.0).reshape(3, 3)
VIEWS = {
    "row": lambda i: ROWS[i],
    "rows": lambda i: ROWS[i:],
    "reshape": lambda i: ROWS.reshape((9, i + 1)),
    "split": lambda i: np.split(ROWS, [i + 1])[0],
    "diagonal": lambda i: ROWS.T[:, i],
}
COPIES = {
    "take": lambda i: np.take(ROWS, i, axis=0),
    "method": lambda i: ROWS.take(i, axis=0),
    "rows": lambda i: ROWS[[i, i + 1]],
    "roll": lambda i: np.roll(ROWS, i, axis=0),
    "repeat": lambda i: np.repeat(ROWS, i + 1, axis=0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_array_of_the_module_by_a_number_of_the_program_is_not_written_into(name):
    """NumPy would write into the array itself, which later calls read."""

    def f(x):
        view = VIEWS[name](np.arange(3)[0])
        view[0] = 7.0
        return ROWS[0, 0] * x

    before = ROWS.copy()
    with pytest.raises(WriteError, match="it shows an array that exists before the program runs"):
        sg.compile(f)(np.ones(2))
    np.testing.assert_array_equal(ROWS, before)


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_an_array_of_the_module_is_written_into_alone(name):
    def f(x):
        copy = COPIES[name](np.arange(3)[0])
        copy[0] = 7.0
        return ROWS[0, 0] * x + np.sum(copy)

    before, x = ROWS.copy(), np.ones(2)
    np.testing.assert_array_equal(sg.compile(f)(x), f(x))
    np.testing.assert_array_equal(ROWS, before)
