"""Generated source as a tree: what statements know, and the text that is made of them."""

import pytest

from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Rows
from symgrad.spelling import (
    ATOM,
    UNARY,
    Call,
    Code,
    Name,
    Negative,
    call,
    infix,
    negative,
    several,
    spell_number,
    spell_size,
)
from symgrad.targets.numpy.statements import (
    Assign,
    Evaluate,
    Suite,
    Verbatim,
    added,
    deleted,
    mentioned,
    printed,
    remark,
    returned,
)

X, Y = Name("x"), Name("y")


def text_of(*statements):
    return "\n".join(map(str, printed(statements)))


FUNCTION = """\
@cached
def g(n):
    for i in range(n):
        x = f(i)  # float64[n]

        # a\\nb
    return x
del x, y"""


def test_lines_are_indented_below_what_they_belong_to():
    inner = [Assign((X,), call("f", ["i"]), note="float64[n]"), Verbatim(), remark("a\nb")]
    function = Suite(["@cached", "def g(n):"], [Suite(["for i in range(n):"], inner), returned(X)])
    assert text_of(function, deleted(["x", "y"])) == FUNCTION


def test_statements_say_which_names_they_mention():
    """A part of a longer name is not mentioned, nor an attribute or a keyword."""
    statements = [
        Assign((Code("y[i:j]"),), call("np.full", ["rows_2", "x.rows", "rows=3"])),
        Evaluate(Code("[k for k in j1]")),
        remark("rows"),
    ]
    assert mentioned(["i", "j", "j1", "rows", "rows_2", "ro", "k"], statements) == {"i", "j", "j1", "rows_2", "k"}


def test_what_is_added_with_a_minus_is_subtracted():
    sum_ = infix("+", X, Y)
    assert text_of(added(X, negative(sum_))) == "x -= x + y"
    assert text_of(added(X, spell_number(-2.5, weak=True))) == "x -= 2.5"
    assert text_of(added(X, infix("*", negative(Y), Y))) == "x += -y * y"


@pytest.mark.parametrize(
    ("number", "text"), [(-0.0, "-0.0"), (3, "3"), (-3, "-3"), (float("-inf"), "-np.inf"), (True, "True")]
)
def test_numbers(number, text):
    code = spell_number(number, weak=True)
    assert (code.text, isinstance(code, Negative)) == (text, text.startswith("-"))
    assert code.level == (UNARY if text.startswith("-") else ATOM)


def test_calls_can_write_into_memory_that_is_there():
    made = call("np.sum", ["x", "axis=0"]).into(Code("s[i:j]"))
    assert isinstance(made, Call)
    assert made.text == "np.sum(x, axis=0, out=s[i:j])"


def test_sizes_are_names_or_expressions():
    n = Sizes().symbol("n")
    assert isinstance(spell_size(n), Name)
    assert isinstance(spell_size(Rows("rows")), Name)
    assert infix("*", spell_size(n + 1), X).text == "(n + 1) * x"
    assert several(["a"]).text == "(a,)"
