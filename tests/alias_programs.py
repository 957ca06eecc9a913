"""Random programs about aliases: ``python -m tests.alias_programs --count 2000 --seed 1``.

Names are other names of arrays, views of them, or what containers and helpers hand on; loops and branches bind them
anew, swap them, and write into them. A program runs as Python on arrays, which gives the values. Its conditions are
noted there, so that it also runs without a branch: the gradient of this straight program, traced with its loops
unrolled, is the oracle of derivatives. A program may be refused; anything else that is not right is a failure.
"""

from __future__ import annotations

import argparse
import linecache
import re
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from itertools import count

import numpy as np

import symgrad as sg
from symgrad.errors import SymgradError
from tests.fuzz import OURS

HELPERS = """
def same(v):
    return v

def reverse(v):
    return v[::-1]

def tail(v):
    return v[1:]

def pick(test, v, w):
    return v if $(test)$ else w

def either(test, v, w):
    if $(test)$:
        return w
    v *= 0.9
    return v

def bump(v, s):
    v[1:] -= s
    return v

def spoil(v, w):
    v[0] = w[1]
    w -= 0.1 * v

"""
# by kinds: v is a vector of four, w one of three, m a matrix of two rows, s a number
FRESH = {
    "v": "{v} * {c}; np.sin({v}); {v} + {v}; {v}.copy(); {v} - {s}; np.where({v} > {v}, {v}, {c}); x * {s}; "
    "np.cumsum({v}) * 0.4; np.roll({v}, 1); {m}.reshape(4) * {s}; np.tanh({v} * {v}); np.append({w}, {s})",
    "w": "{v}[1:] * {c}; np.diff({v}); {w} * {s}; np.cos({w}); {w} + {v}[:3]",
    "m": "np.outer({v}[:2], {v}[2:]); {v}.reshape(2, 2) * {c}; np.tanh({m} @ {m}); {m} - {s}; "
    "np.stack([{v}[:2], x[2:]])",
    "s": "{v}[{i}]; np.sum({v}) * 0.2; np.trace({m}); {s} * 0.9 + 0.1; {s} - {v}[{i}]; np.tanh({s}); np.mean({w})",
}
ALIAS = {
    "v": "{v}; {v}; {v}; {v}; {v}[:]; {v}[::-1]; {m}.reshape(-1); {m}.ravel(); same({v}); reverse({v}); "
    "np.asarray({v}); pick({atom}, {v}, {v}); {v}.view(); either({atom}, {v}, {v}); bump({v}, {c}); "
    "{v} if {test} else {v}; {v}.ravel(); np.ascontiguousarray({v})",
    "w": "{w}; {w}; {v}[1:]; {v}[:-1]; tail({v}); {w}[::-1]; pick({atom}, {w}, {w})",
    "m": "{m}; {m}; {m}.T; np.asfortranarray({m}); {v}.reshape(2, 2); {m}[:]; same({m}); {m}[::-1]",
    "s": "{v}[{i}]",
}
WRITES = {
    "v": "{v}[{i}] = {s}; {v}[{i}] -= {c}; {v} -= {v}; {v} *= {c}; {v} -= np.sin(x); {v}[1:] -= {c}; {v}[1:] *= {s}; "
    "{v}[:] = {v}; np.multiply({v}, {c}, out={v}); np.add({v}, {s}, out={v}); np.copyto({v}, {v}); {v}[:-1] = {v}[1:]; "
    "{v}[{i}] = {v}[{i}]; bump({v}, {s}); spoil({v}, {v}); {v}.fill({s}); {v}.sort(); {v}[::2] += {v}[1::2]; "
    "{v}[{v} > {s}] *= {c}; np.sin({v}, out={v}); {v}[-1] = {s} * x[0]; {v} += {s}",
    "w": "{w} -= {c}; {w}[0] = {s}; {w} *= {v}[1:]; {w}[:] = {w}; {w}[1:] += {s}",
    "m": "{m}[{b}] *= {c}; {m} -= {s}; {m}[:, {b}] = {m}[{b}]; {m}[{b}, {b}] -= {s}; {m} *= {m}; {m}[{b}] = {v}[2:]; "
    "np.fill_diagonal({m}, {s})",
}
TESTS = (
    "{v}[{i}] > {v}[{i}]; x[{i}] > {t}; np.sum({v}) > {t}; {s} < {t}; np.sum(x) > 50; x[0] < 50; {v}[{i}] > {t}; "
    "{k} % 2 == 0; {k} > 1; np.any({v} > {t}); {s} > {v}[{i}] and {s} > 0"
)
CONSTANTS = ("0.9", "0.3", "1.1", "-0.7", "0.5")
THRESHOLDS = ("-0.5", "0.1", "0.6", "1.0", "5.0")
VALUES = np.array([0.5, 0.7, -0.3, 1.1])
LEVELS = (0, 1, 2)
unique = count()


def _split(templates):
    return [template.strip() for template in templates.split(";")]


class Writer:
    """Writes one program, line by line."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.names = {"v0": "v", "v1": "v", "s0": "s"}
        self.counts = []  # of loops that run
        self.lines = ["v0 = x * 1.0", f"v1 = {self.one(['np.sin(x)', 'v0', 'v0[::-1]', 'x * x'])}", "s0 = x[1]"]
        self.held = {}  # containers, and the text of their places

    def one(self, options):
        return options[self.rng.integers(len(options))]

    def chance(self, share):
        return self.rng.random() < share

    # ---- expressions

    def place(self, kind):
        """A value of a kind: a name, an item of a container, or for a rare kind an expression."""
        if kind == "s" and self.chance(0.3):
            return self.one(["x[0]", "x[2]", *CONSTANTS])
        places = [name for name, of in self.names.items() if of == kind]
        if kind == "v":
            places += [place for held in self.held.values() for place in held]
        return self.one(places) if places else {"w": "v0[1:]", "m": "v1.reshape(2, 2)"}[kind]

    def fill(self, template):
        parts = template.split("{")
        text = parts[0]
        for part in parts[1:]:
            key, rest = part.split("}", 1)
            text += self.part(key) + rest
        return text

    def part(self, key):
        if key == "test":
            return self.test()
        if key == "atom":
            return self.fill(self.one(_split(TESTS)[:-1]))
        if key == "k":
            return self.counts[-1] if self.counts else "3"
        options = {"c": CONSTANTS, "i": ("0", "1", "-1", "2", *self.indices()), "b": ("0", "1"), "t": THRESHOLDS}
        return self.one(options[key]) if key in options else self.place(key)

    def indices(self):
        return [f"{k} % 4" for k in self.counts if k.startswith("k")]

    def test(self):
        return f"$({self.fill(self.one(_split(TESTS)))})$"

    def value(self, kind):
        return self.fill(self.one(_split((ALIAS if self.chance(0.5) else FRESH)[kind])))

    # ---- statements

    def block(self, depth, indent, size):
        """Lines of a suite; names that are bound in it for the first time end with it."""
        outer, lines = dict(self.names), []
        for _ in range(size):
            lines += self.statement(depth)
        self.names = outer if depth else self.names
        return [" " * indent + line for line in lines]

    def statement(self, depth):
        roll = self.rng.random()
        if roll < 0.30:
            return [self.write()]
        if roll < 0.50:
            return [self.binding(depth)]
        if roll < 0.58:
            return [self.swap()]
        if roll < 0.66:
            return [self.container(depth)]
        if depth == 2:
            return [self.write()]
        if roll < 0.82:
            return self.branch(depth)
        return self.loop(depth)

    def write(self):
        kinds = [*"vvvvv", *sorted({"w", "m"} & {*self.names.values()})]
        line = self.fill(self.one(_split(WRITES[self.one(kinds)])))
        return line[:4] + "[:]" + line[4:] if line.startswith("t[") and line[5:7] in ("-=", "*=", "+=") else line

    def binding(self, depth):
        kind = self.one("vvvvwms")
        names = [name for name, of in self.names.items() if of == kind]
        value = self.value(kind)
        if not names or (self.chance(0.25) and len(self.names) < 8):
            name = f"{kind}{sum(of == kind for of in self.names.values())}"
            self.names[name] = kind
            return f"{name} = {value}"
        return f"{self.one(names)} = {value}"

    def swap(self):
        a, b = self.place("v"), self.place("v")
        if a.startswith("t["):
            a = "v0"
        if b.startswith("t["):
            b = "v1"
        return self.one([f"{a}, {b} = {b}, {a}", f"{a}, {b} = {b}, {self.value('v')}", f"{a} = {b}"])

    def container(self, depth):
        if depth or (self.held and self.chance(0.5)):
            if not self.held:
                return self.fill("{v} *= {c}")
            name = self.one([*self.held])
            if name == "l" and self.chance(0.4):
                return f"l.append({self.value('v')})"
            place = self.one(self.held[name])
            if name == "t":
                return self.one(
                    [f"t = (t[1], {self.value('v')})", self.fill(f"{place} *= {{c}}")[5:] and "t = t[::-1]"]
                )
            return f"{place} = {self.value('v')}"
        name = self.one("tdl")
        a, b = self.value("v"), self.value("v")
        self.held[name] = {"t": ["t[0]", "t[1]"], "d": ["d['a']", "d['b']"], "l": ["l[0]", "l[-1]"]}[name]
        return {"t": f"t = ({a}, {b})", "d": f"d = {{'a': {a}, 'b': {b}}}", "l": f"l = [{a}, {b}]"}[name]

    def branch(self, depth):
        held, size = dict(self.held), 1 + self.rng.integers(2)
        lines = [f"if {self.test()}:", *self.block(depth + 1, 4, size)]
        if self.chance(0.2):
            lines += [f"elif {self.test()}:", *self.block(depth + 1, 4, size)]
        if self.chance(0.5):
            lines += ["else:", *self.block(depth + 1, 4, size)]
        self.held = held
        return lines

    def loop(self, depth):
        held, here = dict(self.held), len(self.counts)
        roll, end = self.rng.random(), []
        name = f"{'ke'[roll >= 0.5]}{here}"
        before, outer = [], dict(self.names)
        if roll < 0.5:
            head = f"for {name} in range({self.one('2335')}):"
        elif roll < 0.75:
            head = f"for {name} in {self.place('v')}:"
            self.names[name] = "s"
        elif roll < 0.85:
            head = f"for {name}, g{here} in zip({self.place('v')}, {self.place('v')}):"
            self.names |= {name: "s", f"g{here}": "s"}
        else:
            name = f"k{here}"
            before, end = [f"{name} = 0", f"r{here} = {self.place('s')}"], [f"    {name} += 1", f"    r{here} += 0.6"]
            head = f"while $(r{here} < 2 and {name} < 5)$:"
            self.names[f"r{here}"] = "s"
        self.counts.append(name if name.startswith("k") else "4")
        body = self.block(depth + 1, 4, 1 + self.rng.integers(3))
        if not end and self.chance(0.3):
            jump = [f"    if {self.test()}:", f"        {self.one(['continue', 'break'])}"]
            at = self.rng.integers(2) * len(body)
            at = at if at == 0 else self._statement_start(body)
            body[at:at] = jump
        self.counts.pop()
        self.names = outer
        self.held = held
        return [*before, head, *body, *end]

    @staticmethod
    def _statement_start(body):
        starts = [i for i, line in enumerate(body) if not line[4:].startswith((" ", "el"))]
        return starts[-1]

    def program(self):
        self.lines += self.block(0, 0, 3 + self.rng.integers(4))
        results = [*self.names, *(place for held in self.held.values() for place in held)]
        return "\n".join(
            ["def f(x):", *("    " + line for line in self.lines), f"    return ({', '.join(results)})", ""]
        )


LOSS = """
def loss(x):
    total = 0.0
    for i, y in enumerate(f(x)):
        total = total + (i + 1.3) * np.sum(np.cos(y + 0.1 * i) * np.arange(1.0, 1.0 + np.size(y)).reshape(np.shape(y)))
    return total
"""


def written(seed):
    """The text of a program; its conditions stand in the parentheses of ``$(..)$``."""
    return HELPERS + Writer(seed).program() + LOSS


class Decisions:
    """The conditions of a run, one after the other, to be found again."""

    def __init__(self):
        self.noted, self.at = [], None

    def __call__(self, test):
        if self.at is None:
            self.noted.append(bool(test()))
            return self.noted[-1]
        self.at += 1
        return self.noted[self.at - 1]


def marked(text, opening, closing):
    """A program with something else around its conditions."""
    return text.replace("$(", opening).replace(")$", closing)


def defined(text, **names):
    file = f"<aliases {next(unique)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {"np": np, **names}
    exec(compile(text, file, "exec"), space)
    return space


def oracle(text):
    """The values and the gradient of the loss; None where Python raises or numbers get large."""
    decide = Decisions()
    space = defined(marked(text, "decide(lambda: (", "))"), decide=decide)
    with np.errstate(all="ignore"):
        try:
            values = space["f"](VALUES.copy())
        except (ValueError, TypeError, IndexError):
            return None
        if not all(np.all(np.abs(y) < 1e3) for y in values):
            return None
        decide.noted.clear()
        value = space["loss"](VALUES.copy())
    decide.at = 0
    straight = lambda x: (setattr(decide, "at", 0), space["loss"](x))[1]
    with sg.options(loops="unroll", optimize=0, check_first=False):
        found, gradient = sg.value_and_grad(straight)(VALUES)
    assert np.allclose(found, value, rtol=1e-9), "the straight program is wrong"
    return values, value, gradient


def close(a, b, rtol=1e-7):
    return np.allclose(a, b, rtol=rtol, atol=rtol)


@contextmanager
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def outcome(seed, levels=LEVELS):
    """Return the outcome of a program: "right", "refused: why", "wrong ...", "error ...", or "" without an answer."""
    with quiet():
        text = written(seed)
        try:
            answer = oracle(text)
        except SymgradError as error:
            return f"refused: unrolled: {first_line(error)}"
        if answer is None:
            return ""
        return compared(text, answer, levels, (0, 2, 3, "auto")[seed % 4], seed)


def compared(text, answer, levels, loops, seed):
    values, value, gradient = answer
    plain = marked(text, "(", ")")
    refused = ""
    for level in levels:
        space = defined(plain)
        x = VALUES.copy()
        try:
            with sg.options(loops=loops, optimize=level, check_first=False):
                found, slope = sg.value_and_grad(space["loss"])(x)
                arrays = sg.compile(space["f"])(x) if seed % 3 == level else values
        except OURS as error:
            return f"error at {level}, loops={loops!r}: {first_line(error)}"
        except SymgradError as error:
            refused = refused or f"refused: {first_line(error)}"
            continue
        except Exception:
            return f"error at {level}, loops={loops!r}: {traceback.format_exc(limit=-3)}"
        if not np.array_equal(x, VALUES):
            return f"wrong argument at {level}, loops={loops!r}"
        same = all(np.array_equal(a, b) if level == 0 else close(a, b) for a, b in zip(arrays, values, strict=True))
        if not same:
            return f"wrong values at {level}, loops={loops!r}: {arrays} instead of {values}"
        if not (found == value if level == 0 else close(found, value)):
            return f"wrong value at {level}, loops={loops!r}: {found!r} instead of {value!r}"
        if not close(slope, gradient, 1e-6):
            return f"wrong gradient at {level}, loops={loops!r}: {slope!r} instead of {gradient!r}"
    return refused or "right"


def first_line(error):
    return str(error).splitlines()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    found = Counter()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        result = outcome(seed)
        kind = result.split(":")[0].split(",")[0]
        found[kind] += 1
        if kind.startswith(("wrong", "error")):
            print(f"---- {seed}: {result}\n{written(seed).split('def f(x)')[1] if chosen.show else ''}", flush=True)
        elif kind == "refused":
            found[re.sub(r"<aliases \d+>:\d+", "a line", result)[:110]] += 1
    print(f"{chosen.count} programs")
    for kind, n in found.most_common():
        print(f"{n:6} {kind}")


if __name__ == "__main__":
    main()
