# ruff: noqa: B007, B028, UP031
"""Functions that raise, warn and print, depending on their argument; pytest rewrites no assertion here."""

import contextlib
import warnings

import numpy as np

import symgrad as sg


class TooFar(ArithmeticError):
    """An exception of this module."""


def all_of_an_array(x):
    if not (x >= -32).all():
        raise ValueError("below freezing")
    return np.sum(x**2)


def asserted(x):
    assert np.all(x > 0), f"negative: {x.min()}"
    assert x.shape == (3,)
    return np.sum(np.sqrt(x))


def without_words(x):
    assert x[0] < 500
    if x[0] < 0:
        raise KeyError
    return np.sum(x**2)


def for_else(x):
    for k in range(6):
        x = x / 2
        if np.sum(x) < 1:
            break
    else:
        raise RuntimeError("no convergence after %d of %s: %.3f %5.1f%%" % (k, "six", np.sum(x), x[0]))
    return np.sum(x**2)


def long_loop(x):
    s = 0.0
    for i in range(40):
        s = s + x[0] * i / 10
        if s > 1000:
            raise TooFar(f"too far at {i}: {s!r}")
        if s > 900:
            print("nearly", i, f"{s:.2f}", sep=", ", end=";\n")
    return s * np.sum(x)


def while_loop(x):
    n = 0
    while np.sum(x**2) > 1:
        x = x / 2
        n = n + 1
        if n > 7:
            warnings.warn(f"slow: {x[0]:.1e}", RuntimeWarning)
        assert n < 12, "too slow"
    return np.sum(np.sin(x))


def nested(x):
    if x[0] > 0:
        y = x * 2
        if y[1] < 1:
            if x[2] < 0.5:
                raise ValueError(f"both {y[1]} and {x[2]:.2f}, {x[0]!r}")
            print("one")
        else:
            print("none of", [x[0], 2, (y[1],)])
    elif x[1] > 0:
        worst = np.max(np.abs(x))
        if worst > 500:
            raise TooFar("worst", worst, 3)
        y = x * 3
    else:
        raise ValueError("unknown")
    return np.sum(y**2)


def _scale(x):
    if np.max(x) > 800:
        raise ValueError(f"cannot scale {np.max(x)}")
    return x / np.max(x)


def helper(x):
    if x[0] > 0:
        y = _scale(x)
    else:
        y = x
    return np.sum(y**3)


def prints(x):
    print("begin")
    print(x)
    print(f"{x[0]:8.3f}|{x[1]!s:>6}|{{}}", 'it\'s "quoted"\n')
    y = x * 2
    print(y, np.sum(y), x.shape, None, True)
    print()
    return np.sum(y**2)


def nested_function(x):
    def inner(v):
        assert v < 100, "large: " + f"{v}"
        return v**2

    return sum(inner(v) for v in x)


def chosen(x):
    return np.sum(_scale(x)) if x[1] > 0.4 else np.sum(x**2)


def guarded(x):
    if x[2] != 900:
        y = np.linalg.solve(np.diag(x) - 900 * np.eye(3), x * 0 + 1)
    else:
        raise ValueError("singular")
    return np.sum(y)


def under_errstate(x):
    with np.errstate(invalid="ignore"):
        y = np.sqrt(x)
        if np.any(np.isnan(y)):
            raise ValueError(f"{np.sum(np.isnan(y))} of {y.size} are negative")
    return np.sum(y)


def written(x):
    y = x.copy()
    y[0] = 3.0
    print(y)
    y[1] = y[0] * x[2]
    assert y[1] < 2000, f"{y}"
    y *= 2
    return np.sum(y**2)


def loops_in_loops(x):
    y = x / 100
    for i in range(20):
        z = y
        for j in range(3):
            z = np.sin(z) * 1.1
            if z[0] > 0.9:
                raise TooFar(f"{i}, {j}: {z[0]:.3f}")
        if z[1] < -0.5:
            print("low", i, f"{z[1]:.4f}")
        y = y + z * y
        assert np.all(np.isfinite(y)), i
    return np.sum(y * z)


def loop_in_a_branch(x):
    y = x
    if x[0] < 500:
        for i in range(30):
            y = y * 0.9 + np.cos(y)
            if y[1] > 3:
                print(f"{i}: {y[1]:.3f}")
        if y[2] > 30:
            warnings.warn("still large: %.2f" % y[2], UserWarning)
    else:
        print("large")
        while y[0] > 100:
            y = y * 0.5
            assert y[1] > 1e-2, "small"
    return np.sum(y**2)


def two_loops(x):
    y = x
    for i in range(20):
        y = np.tanh(y) + 0.1 * y
        if i == 3:
            print(i, f"{y[0]:.6f}")
    s = 0.0
    for v in y:
        s = s + v**2
        print("part", f"{s:.6f}")
    for i in range(20):
        if s > 1e3:
            raise ValueError("too much")
        s = s * 1.01
    return s


def with_a_size(x):
    n = x.shape[0]
    if np.sum(x) > 1000:
        raise ValueError(f"{n} numbers add up to {np.sum(x)}, mean of {np.sum(x) / n!r}")
    print("n =", n, f"{n:04d}", "%d" % n)
    return np.sum(x**2) / n


def early_returns(x):
    if x[0] < 0:
        if x[2] > 500:
            raise ValueError("first")
        return np.sum(x)
    if x[0] > 500:
        print("second")
        return np.sum(x**2)
    for k in range(25):
        x = x * 1.1
        if x[1] > 10:
            return np.sum(x**3)
        if x[1] < -5:
            raise ValueError(f"third {k}")
    return np.sum(x**4)


def places(x):
    low = x < 1.5
    if np.any(low):
        warnings.warn(f"rows {np.where(low)[0]} are low", UserWarning, stacklevel=1)
        print("at %s, %r" % (np.flatnonzero(low), np.nonzero(low)), np.flatnonzero(low))
    return np.sum(x**2)


def strings(x):
    print("{0:.1f} {0!r} {1:>{width}.2f} {{}}".format(x[0], x[1], width=8), "%-8.2f|%+.1e|%g" % (x[0], x[1], x[2]))
    name = "x"
    print(name + ": " + str(x[0]) + repr(x[1]), {"a": x[0]}, "%s and %r" % (x[1], name), end="")
    print(f"{x[0]=} {x[0]:^+12.3f}", flush=True)
    print(f"{np.sum(x > 0)} {x[0] > 0} {np.argmax(x)}")
    if x[1] > 3:
        raise ValueError("values", x[1], 3, None)
    return np.sum(x**2)


def handlers_of_other_classes(x):
    try:
        if (np.asarray(x) < -32).any():
            raise ValueError(f"too cold: {x[0]}")
    except (NameError, AttributeError):
        x = -x
    except np.linalg.LinAlgError:
        x = x + 1
    return np.sum(x**2)


def handlers_around_handlers(x):
    mine = (KeyError, IndexError)
    try:
        try:
            if x[0] > 500:
                raise TooFar("too hot")
        except mine:
            x = -x
        else:
            x = x + 1
    except TypeError:
        x = x - 1
    return np.sum(x**2)


FUNCTIONS = [
    all_of_an_array, asserted, without_words, for_else, long_loop, while_loop, nested, helper, prints, nested_function,
    chosen, guarded, under_errstate, written, loops_in_loops,
    loop_in_a_branch, two_loops, with_a_size, early_returns, places, strings,
    handlers_of_other_classes, handlers_around_handlers,
]  # fmt: skip


def checkpointed(x):
    def body(i, v):
        if v[0] > 1.2:
            warnings.warn("over")
        assert v[0] < 2, f"{i}"
        return np.sin(v) + v

    return np.sum(sg.fori_loop(0, 30, body, x, checkpoint=3))


# ---- refused


def caught(x):
    try:
        return helper(x)
    except ValueError:
        return np.sum(x)


def caught_where_it_is_raised(x):
    y = x
    if x[1] > 0:
        try:
            if x[0] > 0:
                raise ValueError
        except ValueError:
            y = -x
    return np.sum(y)


def suppressed(x):
    with contextlib.suppress(ValueError):
        x = _scale(x)
    return np.sum(x)


def caught_by_a_base_class(x):
    try:
        if x[0] > 0:
            raise TooFar
    except (KeyError, ArithmeticError):
        x = -x
    return np.sum(x)


def caught_by_all(x):
    try:
        if x[0] > 0:
            raise TooFar
    except:  # noqa: E722
        x = -x
    return np.sum(x)


def tidied_up(x):
    try:
        return np.sum(_scale(x))
    finally:
        print("done")


class Loud(ValueError):
    def __init__(self, message):
        super().__init__(message.upper())


def constructor(x):
    if x[0] > 0:
        raise Loud("a")
    return np.sum(x)


def with_a_cause(x):
    if x[0] > 0:
        raise ValueError("a") from KeyError("b")
    return np.sum(x)


def changed_text(x):
    if x[0] > 0:
        raise ValueError(f" {x} ".strip())
    return np.sum(x)


def tested_loop(x):
    def goes_on(x):
        assert x[0] < 100
        return x[0] < 10

    while goes_on(x):
        x = x * 2
    return np.sum(x)


def both_sides(x):
    if x[0] > 0:
        raise ValueError("a")
    else:
        raise KeyError("b")


def quiet(x):
    with warnings.catch_warnings():
        if x[0] > 0:
            warnings.warn("a")
    return np.sum(x)


def short(x):
    with np.printoptions(precision=2):
        print(x)
    return np.sum(x)


@sg.custom_vjp
def own_rule(x):
    assert np.all(x > -9)
    return x * 2


own_rule.defvjp(lambda x: (own_rule(x), None), lambda _, g: (2 * g,))


def with_a_rule(x):
    return np.sum(own_rule(x))


_without_source = {}
_code = "def catches(f, x):\n try: return f(x)\n except ValueError: return x"
exec(compile(_code, "written_by_nobody.py", "exec"), _without_source)


def by_others(x):
    def inner(x):
        if x[0] > 0:
            raise ValueError
        return x

    return np.sum(_without_source["catches"](inner, x))


REFUSED = {
    caught: "inside of `try`, which may catch it",
    caught_where_it_is_raised: "inside of `try`, which may catch it",
    caught_by_a_base_class: "inside of `try`, which may catch it",
    caught_by_all: "an exception from a branch that depends on a traced value is caught outside of the branch",
    suppressed: "inside of `with suppress(...)`, which may catch it",
    tidied_up: "inside of `try`",
    constructor: "Loud is raised in a branch that depends on a traced value, but has its own constructor",
    with_a_cause: "`raise ... from ...` in a branch that depends on a traced value",
    changed_text: "with an argument that is not text, a number or an array",
    tested_loop: "the condition of a loop raises, warns or prints",
    both_sides: "both sides of a branch that depends on a traced value raise",
    quiet: "warns inside of `with warnings.catch_warnings()`",
    short: "prints inside of `with printoptions(...)`",
    with_a_rule: "a function with its own derivative rule",
    by_others: "catches, whose source symgrad does not convert, may catch it",
}
