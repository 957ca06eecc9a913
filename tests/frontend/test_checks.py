"""Exceptions, warnings and prints of functions, as checks of programs: as Python has them, and once."""

import contextlib
import inspect
import io
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import symgrad as sg
from tests.frontend.checked_functions import (
    FUNCTIONS,
    REFUSED,
    all_of_an_array,
    asserted,
    checkpointed,
    for_else,
    loop_in_a_branch,
    loops_in_loops,
    nested,
    prints,
    strings,
    while_loop,
    without_words,
)

POINTS = [
    np.array([1.0, 2.0, 3.0]),
    np.array([-50.0, 4.0, 900.0]),
    np.array([900.0, 0.5, 0.25]),
    np.array([0.3, -1, 2]),
]


def seen(f, *args):
    """Return the output, the warnings and the exception of a call."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as told, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            f(*args)
            error = None
        except Exception as raised:
            if isinstance(raised, sg.errors.SymgradError):
                raise
            error = type(raised), raised.args
    return out.getvalue(), [(str(w.message), w.category, w.lineno) for w in told], error


def transformed(f):
    """Programs of a function of one array, each with how it is given the array."""
    alone, row = (lambda x: (x,)), (lambda x: (x[None],))
    yield sg.compile(f), alone
    yield sg.value_and_grad(f), alone
    yield sg.hessian(f), alone
    yield sg.compile(lambda x: sg.jvp(f, (x,), (x,))), alone
    yield sg.vmap(sg.grad(f)), row
    yield sg.grad(sg.checkpoint(f)), alone


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_program_does_what_python_does(f):
    wanted = [seen(f, x) for x in POINTS]
    for function, given in transformed(f):
        assert [seen(function, *given(x)) for x in POINTS] == wanted, function
    for level in (0, 1):
        gradient = sg.grad(f, optimize=level)
        assert [seen(gradient, x) for x in POINTS] == wanted, level


@pytest.mark.parametrize("f", [strings, nested, loops_in_loops, while_loop], ids=lambda f: f.__name__)
def test_many_inputs_are_checked_at_once(f):
    each = [seen(f, x) for x in POINTS]
    errors = [error for _, _, error in each if error]
    function = sg.vmap(sg.grad(f))
    assert seen(function, np.array(POINTS))[2] in (errors or [None])
    fine = [x for x, (_, _, error) in zip(POINTS, each, strict=True) if error is None]
    printed, told, error = seen(function, np.array(fine))
    assert error is None
    assert sorted(printed) == sorted("".join(out for out, _, error in each if error is None))
    words = {message for _, told, error in each if error is None for message, *_ in told}
    assert {message for message, *_ in told} <= words and bool(told) == bool(words)


# ---- sources


def test_a_check_reads_as_the_user_wrote_it(usual_sizes):
    lines = sg.grad(all_of_an_array).source("float64[n]").program.splitlines()
    at = line_of(all_of_an_array, "if not")
    assert lines[1:4] == [
        f"    # checked_functions.py:{at}  if not (x >= -32).all():",
        "    if not (x >= -32.0).all():",
        '        raise ValueError("below freezing")',
    ]
    plain = sg.grad(all_of_an_array, checks=False)
    assert "raise" not in plain.source("float64[n]") and "-32" not in plain.source("float64[n]")
    assert plain(POINTS[1]).tolist() == [-100.0, 8.0, 1800.0]


def test_what_a_message_needs_is_computed_where_it_is_raised():
    lines = [line for line in sg.grad(asserted).source("float64[3]").program.splitlines() if "#" not in line]
    assert [line for line in lines if ".min()" in line] == ['        raise AssertionError(f"negative: {x.min()}")']


@pytest.mark.parametrize(
    "read",
    [lambda x: float(f"{x:.3f}"), lambda x: int(str(x)[0:]), lambda x: float(f"{x}"), lambda x: complex("%.2f" % x)],  # noqa: UP031
)
def test_numbers_are_not_read_from_text_of_traced_values(read):
    with pytest.raises(sg.errors.ConcreteValueError, match="made from a traced value"):
        sg.grad(lambda x: read(x) * x)(1.5)


def test_text_of_the_users_stays_text():
    def f(x):
        print('"""\\{x}', f'{{}} "quoted" \\ {x[0]:.1f} \N{SNOWMAN}\u202e', end="\"'\n")
        return np.sum(x)

    assert seen(sg.grad(f), POINTS[0]) == seen(f, POINTS[0])


def test_options_choose_another_program():
    gradient = sg.grad(without_words)
    assert seen(gradient, POINTS[2])[2] is not None
    with sg.options(checks=False):
        assert seen(gradient, POINTS[2])[2] is None
    assert seen(gradient, POINTS[2])[2] is not None
    assert "checks" not in gradient.compile(POINTS[0]).options.of_source()
    assert gradient.compile(POINTS[0], checks=False).options.of_source()["checks"] is False
    with pytest.raises(sg.errors.ArgumentError, match="checks=1"):
        sg.grad(without_words, checks=1)


def test_a_warning_comes_from_the_users_line_and_is_shown_once():
    gradient = sg.grad(loop_in_a_branch)
    x = np.array([5.0, 2.0, 4000.0])
    seen(gradient, x)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            gradient(x)
    assert [(w.filename, w.lineno) for w in told] == [("checked_functions.py", line_of(loop_in_a_branch, "warn("))]


def line_of(f, text):
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_print_is_of_numbers_where_transforms_run_outside_of_a_program(capsys):
    x = POINTS[0]
    prints(x)
    wanted = capsys.readouterr().out
    sg.jvp(prints, (x,), (x,))
    assert capsys.readouterr().out == wanted
    _, pullback = sg.vjp(prints, x)
    assert capsys.readouterr().out == wanted
    pullback(1.0)
    assert capsys.readouterr().out == ""


def test_debug_print(capsys):
    graph = sg.Graph()
    x = graph.input("x", "float64[2]")
    sg.debug_print("{0:.1f} and {name!r}", x[0], name="x")
    sg.function([x], np.sum(x))(np.ones(2))
    sg.debug_print("{:.1f}", 2.0)
    assert capsys.readouterr().out == "1.0 and 'x'\n2.0\n"
    with pytest.raises(sg.errors.ArgumentError, match="Give a text with braces"):
        sg.compile(lambda x: sg.debug_print(f"{x}"))(1.0)


def test_checks_come_ahead_of_what_they_guard():
    def at(x, i):
        if i >= x.shape[0]:
            raise ValueError(f"{i} of {x.shape[0]}")
        return x[i] ** 2

    for level in (0, 1, 2):
        assert seen(sg.grad(at, optimize=level), POINTS[0], np.int64(7))[2] == (ValueError, ("7 of 3",))


def inverted(x, _):
    a = np.array([[x[0], 1.0], [1.0, x[1]]])
    if np.linalg.det(a) <= 0:
        raise ValueError("no such matrix")
    return np.sum(np.linalg.inv(a))


def gathered(x, i):
    if np.any(i >= x.shape[0]):
        raise ValueError("no such place")
    return np.sum(np.sin(np.exp(x[i]) * np.tanh(x[i])))


@pytest.mark.parametrize("f", [inverted, gathered])
def test_checks_come_ahead_of_what_they_guard_in_blocks_of_rows(tiny_blocks, f):
    x, i = np.linspace(2, 3, 12).reshape(6, 2), np.zeros((6, 4), int)
    batches = sg.vmap(sg.grad(f))
    assert batches.source(x, i).count("def share") == 2
    np.testing.assert_allclose(batches(x, i), [sg.grad(f)(*row) for row in zip(x, i, strict=True)])
    x[-1], i[-1, -1] = 1, 7
    with pytest.raises(ValueError, match="no such"):
        batches(x, i)


def test_a_loop_makes_its_checks_once_where_its_derivative_keeps_other_values():
    count = lambda f: len(re.findall(r"^ *(raise|print)\b", f.source(POINTS[0]).program, re.MULTILINE))
    assert count(sg.hessian(loops_in_loops)) == count(sg.compile(loops_in_loops)) > 2


def test_loops_that_are_checkpointed():
    assert seen(sg.grad(checkpointed), POINTS[0] / 10) == seen(checkpointed, POINTS[0] / 10)


# ---- files


def test_a_saved_module_raises_by_itself(tmp_path):
    compiled = sg.grad(nested).compile("float64[n]")
    path = compiled.save(tmp_path / "nested.py")
    assert "Needs NumPy and tests." in path.read_text()
    again = pickle.loads(pickle.dumps(compiled))
    loaded = sg.load(path)
    for x in POINTS:
        assert seen(again, x) == seen(loaded, x) == seen(nested, x)
    code = (
        "import sys; sys.modules['symgrad'] = None; import for_else, numpy; for_else.for_else_grad(numpy.full(3, 9e9))"
    )
    sg.grad(for_else).compile("float64[3]").save(tmp_path / "for_else.py")
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "RuntimeError: no convergence after 5 of six" in run.stderr


def test_saving_is_silent(tmp_path, capsys):
    sg.grad(prints).compile("float64[n]").save(tmp_path / "prints.py")
    assert capsys.readouterr() == ("", "")


def test_a_class_that_no_module_has_is_not_saved(tmp_path):
    class Own(ValueError):
        pass

    def f(x):
        if x[0] > 0:
            raise Own("own")
        return np.sum(x)

    assert seen(sg.grad(f), POINTS[0])[2] == (Own, ("own",))
    with pytest.raises(sg.errors.ArgumentError, match="raises Own, which cannot be imported"):
        sg.grad(f).compile("float64[n]").save(tmp_path / "own.py")
    with pytest.raises(sg.errors.ArgumentError, match="checks=False"):
        sg.to_json(sg.compile(f).trace("float64[n]"))


def test_a_file_is_verified_where_its_model_raises_nothing(tmp_path, usual_sizes):
    compiled = sg.grad(asserted).compile("float64[3]")
    path = compiled.save(tmp_path / "asserted.py")
    path.write_text(path.read_text().replace("# derivative of", "# the derivative of"))
    assert sg.verify(path, compiled)
    path.write_text(path.read_text().replace("0.5 /", "0.25 /"))
    assert not sg.verify(path, compiled)


# ---- the first call


def test_the_first_call_compares_what_is_raised(monkeypatch):
    def fails(x):
        raise ValueError("another text")

    compiled = sg.grad(nested).compile(POINTS[1])
    monkeypatch.setattr(compiled, "run", fails)
    with pytest.raises(sg.errors.DisagreementError, match=r"raises ValueError.*another text.*graph.*TooFar"):
        compiled(POINTS[1])
    monkeypatch.setattr(compiled, "run", lambda x: x)
    with pytest.raises(sg.errors.DisagreementError, match="the graph raises TooFar"):
        compiled(POINTS[1])


# ---- what is refused


def refusal(f):
    with pytest.raises(sg.errors.UnsupportedError) as found:
        sg.compile(f)(POINTS[0])
    return str(found.value)


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_what_is_not_known_to_be_right_is_refused(f):
    assert REFUSED[f] in refusal(f)
