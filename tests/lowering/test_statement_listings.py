"""Statements as text: what they say of a program, for NumPy and for C."""

import json

import numpy as np
import pytest

import symgrad as sg
from symgrad.cli import main
from symgrad.core.provenance import Where
from symgrad.errors import ArgumentError
from symgrad.lowering.expressions import (
    ONE,
    ZERO,
    Apply,
    Choose,
    Convert,
    Extent,
    Load,
    Local,
    Number,
    Whole,
    plus,
    times,
)
from symgrad.lowering.statements import (
    Assign,
    Buffer,
    Check,
    Copy,
    Declare,
    Exact,
    Factor,
    For,
    Function,
    Grow,
    If,
    Multiply,
    Parallel,
    Regular,
    Remark,
    Require,
    Sort,
    Store,
    While,
)
from symgrad.ops.define import TABLE
from symgrad.report.statement_listing import listed, text_of
from tests.documents import ROOT

FLOAT = np.dtype(float)
X = Buffer("x", FLOAT, (3, 4), "given")
Y = Buffer("y", FLOAT, (3,), "result")
SPARE = Buffer("t", FLOAT, (3, 4), "own")
ROWS = Buffer("rows", FLOAT, (3, 4), "growing")
TABLE_OF_ONES = Buffer("c", FLOAT, (3,), "constant", np.ones(3))
I, J, N = Local("i"), Local("j"), Extent("n")
TOTAL = Local("total", FLOAT)
ADD, EXP, NEGATIVE = TABLE[np.add], TABLE[np.exp], TABLE[np.negative]


def lines(*statements, buffers=()):
    """The lines of statements, without the head of the function."""
    text = listed(Function("f", [X], ["n"], [Y], buffers, list(statements)))
    return [line.removeprefix("    ") for line in text.split("\n")[1:]]


# ---- statements of C


def test_the_head_of_a_function_names_what_it_is_given_and_what_it_needs():
    function = Function("f", [X, Local("a", FLOAT)], ["n"], [Y], [SPARE, ROWS, TABLE_OF_ONES], [])
    assert listed(function).split("\n") == [
        "f(n, x: float64[3, 4], a: float64[]) -> y: float64[3]",
        "    memory t: float64[3, 4]",
        "    memory that grows rows: float64[3, 4]",
        "    constant c: float64[3]",
    ]


def test_many_buffers_are_on_several_lines_none_of_them_cut():
    text = "\n".join(lines(buffers=[Buffer(f"buffer_{k}", FLOAT, (3, 4), "own") for k in range(9)]))
    assert text.count("\n") == 2 and max(map(len, text.split("\n"))) <= 100
    assert all(f"buffer_{k}: float64[3, 4]" in text for k in range(9))


ITEM = Load(X, (I, J))
STATEMENTS = {
    "total = 0.0": Declare(TOTAL, Number(0.0, FLOAT), mutable=True),
    "total += x[i, j]": Assign(TOTAL, ITEM, np.add),
    "total = maximum(total, x[i, j])": Assign(TOTAL, ITEM, np.maximum),
    "y[i] = x[i, j]": Store(Y, (I,), ITEM),
    "y[i] *= x[i, j]": Store(Y, (I,), ITEM, np.multiply),
    "copy x.flat[:4] into t.flat[i * 4:i * 4 + 4]": Copy(SPARE, times(I, Number(4)), X, ZERO, Number(4)),
    "t = x @ c.flat[i:].T, 3 x 4 x 1, by BLAS": Multiply(
        SPARE, ZERO, Factor(X, ZERO), Factor(TABLE_OF_ONES, I, True), Number(3), Number(4), ONE
    ),
    "sort 4 numbers of x.flat[i * 4:], with t.flat[i * 4:] for where they were": Sort(
        X, (I,), SPARE, (I,), Number(4), ()
    ),
    "make room for i + 1 rows of rows": Grow(ROWS, plus(I, ONE)),
    "require -n <= i < n": Require(I, N),
    "require x[i, j] != 0": Regular(ITEM),
    "require x[i, j] > 0": Regular(ITEM, is_cholesky=True),
    "end if x[i, j]": Check(ITEM),
    "k = i * j, which must fit into 64 bits": Exact(Local("k"), Whole("*", I, J)),
    "# derivative of model.py:3": Remark(Where("model.py", 3), "derivative of "),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_is_one_line(text):
    assert lines(STATEMENTS[text]) == [text]


def test_of_remarks_in_a_row_the_last_one_stands():
    assert lines(Remark(Where("a.py", 1)), Remark(Where("b.py", 2)), STATEMENTS["total = 0.0"])[:1] == ["# b.py:2"]


def test_loops_and_branches_have_their_statements_below():
    add, put = STATEMENTS["total += x[i, j]"], STATEMENTS["y[i] = x[i, j]"]
    inner = For(J, Number(4), [add], sums=[(TOTAL, np.add)])
    outer = For(I, N, [inner, put], start=ONE, reverse=True)
    assert lines(outer) == [
        "for i in reversed(range(1, n)):",
        "    for j in range(4), in any order:",
        "        total += x[i, j]",
        "    y[i] = x[i, j]",
    ]
    shared = Parallel(For(I, N, [add]), [SPARE], [(TOTAL, np.add)])
    assert lines(shared) == ["for i in range(n), in parallel with t, total for each chunk:", "    total += x[i, j]"]
    assert lines(Parallel(For(I, N, [put]), [], []))[0] == "for i in range(n), in parallel:"
    test = Whole("<", I, N)
    assert lines(While(I, None, [add], test, [put])) == [
        "for i in 0, 1, ...:",
        "    total += x[i, j]",
        "    break unless i < n",
        "    y[i] = x[i, j]",
    ]
    assert lines(While(I, N, [], test, []))[0] == "for i in range(n):"
    assert lines(If(test, [add], [put])) == ["if i < n:", "    total += x[i, j]", "else:", "    y[i] = x[i, j]"]
    assert lines(If(test, [add])) == ["if i < n:", "    total += x[i, j]"]


EXPRESSIONS = {
    "(a + b) * -0.5": Apply(
        TABLE[np.multiply], (Apply(ADD, (Local("a", FLOAT), Local("b", FLOAT)), FLOAT), Number(-0.5, FLOAT)), FLOAT
    ),
    "-(a + 1.0)": Apply(NEGATIVE, (Apply(ADD, (Local("a", FLOAT), Number(1.0, FLOAT)), FLOAT),), FLOAT),
    "exp(x[i, j])": Apply(EXP, (ITEM,), FLOAT),
    "float64(i)": Convert(I, FLOAT),
    "i + n if i < 0 else i": Choose(Whole("<", I, ZERO), plus(I, N), I),
    "i // 4 % 2": Whole("%", Whole("/", I, Number(4)), Number(2)),
    "(n - 2) * 4": times(Extent("n - 2"), Number(4)),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_have_the_parentheses_that_they_need(text):
    assert text_of(EXPRESSIONS[text]) == text


# ---- placement


def memory(f, *specs, level=0):
    """Return the memory of each value in a listing; lines without one are left out."""
    text = sg.compile(f).compile(*specs, optimize=level).statements()
    return [line.split("  ")[-1].strip() for line in text.split("\n") if "]  " in line]


def test_an_assignment_is_made_in_the_array_itself_or_in_a_copy():
    def f(x):
        y = np.sin(x)
        z = y.copy()
        z[0] = 1.0
        z[1:] += 2.0
        return z, y

    assert memory(f, "float64[3]") == ["new", "in a copy of y", "window of %3", "new", "in %3"]


def test_copies_that_the_caller_gets_and_windows(usual_sizes):
    compiled = sg.compile(lambda x: (x[1:], np.sin(x))).compile("float64[3]")
    (_, *shown, last) = compiled.statements().split("\n")
    assert [line.split("  ")[-1].strip() for line in shown] == ["window of x", "new"]
    assert last == "return copy of %1, %2"


def test_a_loop_has_carries_windows_and_ys():
    def f(x):
        s, ys = np.zeros(3), np.zeros_like(x)
        for t in range(x.shape[0]):
            s = s + x[t]
            s[0] = 0.0
            ys[t] = s
        return ys

    assert sg.compile(f).compile("float64[n, 3]", optimize=1).statements().split("\n") == [
        "f(x: float64[n, 3]):",
        "s = zeros(3)                   float64[3]     new",
        "ys = zeros((n, 3))             float64[n, 3]  new",
        "ys_2 = for i in range(n):",
        "    carry s = s                float64[3]     new in each iteration",
        "    carry ys = ys              float64[n, 3]  assigned in place",
        "    %5.5 = x[i]                float64[3]     window of x",
        "    s_2 = s + %5.5             float64[3]     new",
        "    %5.7 = s_2 with [0] = 0.0  float64[3]     in s_2",
        "    %5.8 = ys with [i] = %5.7  float64[n, 3]  in ys",
        "    next s = %5.7",
        "    next ys = %5.8",
        "return ys_2",
    ]


def test_a_while_loop_and_lists():
    def f(x):
        while x < 100.0:
            x = x * x
        return x

    text = sg.grad(f).compile("float64[]", optimize=1).statements()
    assert "    break unless %" in text and "    append x to the list %" in text
    assert "for i in 0, 1, ...:" in text and "for i in reversed(range(" in text


def test_a_branch_gives_a_value_on_each_side():
    def f(x):
        if x[0] > 0:
            y = np.sin(x)
        else:
            y = x
        return y

    text = sg.compile(f).compile("float64[3]", optimize=1).statements()
    assert "y = if %" in text and "\n    give y\nelse:\n    give x\n" in text


def test_a_block_has_buffers_rows_and_sums(usual_sizes):
    def f(x):
        y = np.exp(np.sin(x) * 2.0) * x
        return np.sum(y * y), y

    text = sg.compile(f).compile("float64[3000000]").statements()
    assert "for rows i:j of 3000000:\n    buffers s1: float64[rows]" in text
    assert "sin(x[i:j])" in text and "  into s1\n" in text and "  in y[i:j]\n" in text and "  added to " in text


def test_what_is_released_and_what_is_checked():
    def f(x):
        if x[0, 0] < 0:
            raise ValueError("below zero")
        return np.sum(np.sin(x) @ x)

    text = sg.compile(f).compile("float64[600, 600]", optimize=1).statements()
    assert "\nraise ValueError('below zero') if %" in text and "\nrelease %" in text


# ---- programs


def loss(w, X, y):
    return np.sum(np.log(1 + np.exp(-y * (X @ w))))


SPECS = "float64[d]", "float64[n, d]", "float64[n]"


def test_the_statements_of_a_target_need_no_compiler(monkeypatch):
    monkeypatch.setenv("SYMGRAD_CC", "no-such-compiler")
    program = sg.value_and_grad(loss).compile(*SPECS)
    native = program.statements("c")
    assert native.startswith("kernel_1(d, n, w: float64[d], X: float64[n, d], y: float64[n]) -> value_out: float64[]")
    assert "kernel_1(w, X, y, d, n)" in native.partition("\n\n")[2]
    assert program.statements("numpy") == program.statements() != native
    with pytest.raises(ArgumentError, match="no statements for the target 'fortran'"):
        program.statements("fortran")


def test_the_command_prints_the_statements(capsys):
    example = str(ROOT / "examples" / "logistic.py") + ":loss"
    assert main(["explain", example, "--statements"]) == 0
    assert "loss_grad(w: float64[d], X: float64[n, d], y: float64[n]):\n" in capsys.readouterr().out
    assert main(["explain", example, "--statements", "c", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statements"].startswith("kernel_1(d, n, ")
