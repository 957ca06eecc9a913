"""Random Python programs with control flow and hidden state, as source text; `control_fuzz` compares them with Python.

A program is a module with a function ``f(x, y)`` of an array and a number that returns a number. Its statements are
filled templates: ordinary NumPy, branches and loops, and those of one to three features of `control_features`. A
feature may add lines to the module and to the start of the function, places that hold a number, vectors, expressions,
tests and statements.

Templates have these places in braces:

- ``{s}`` a scalar expression, ``{t}`` a test, ``{d}`` a test that needs no traced value, ``{t0}`` one of an argument;
- ``{S}`` and ``{R}`` places that hold scalars, ``{v}`` and ``{w}`` vectors; each is one place in all of a template;
- ``{c}`` a constant, ``{i}`` an index, ``{few}`` a number of iterations that are unrolled by default, ``{many}`` one
  that may stay a loop, or a size;
- ``{block}`` one or two statements.

``#`` is the number of the template, which keeps the names of nested loops apart.
"""

from __future__ import annotations

import re
from random import Random
from textwrap import dedent, indent
from typing import NamedTuple

from tests.control_features import BRANCHES, FEATURES, JUMPS, KNOWN, LOOPS, ORDINARY, SCALARS, TESTS

IMPORTS = """\
import array
import contextlib
import functools
import itertools
from collections import defaultdict, deque, namedtuple
from dataclasses import dataclass, replace

import numpy as np
"""

CONSTANTS = ("0.3", "0.7", "0.45", "-0.4", "0.15")
LEAST, MOST = 4, 9  # statements of a function, those in blocks not counted
DEEPEST = 3


class Program(NamedTuple):
    """A module with a function `f`, the names of its features, and whether a call sees what calls before it left."""

    source: str
    features: tuple[str, ...]
    persistent: bool


def program_of(seed: int, *features: str) -> Program:
    """Return the program of a seed, with the features that are named or with some that are drawn."""
    return Writer(seed, features).program()


class Writer:
    """Fill the templates of one program."""

    def __init__(self, seed: int, features: tuple[str, ...] = ()) -> None:
        self.random = Random(f"control {seed}")
        names, weights = list(FEATURES), [feature.weight for feature in FEATURES.values()]
        drawn = self.random.choices(names, weights, k=self.random.choice((1, 2, 2, 3)))
        self.names = features or tuple(dict.fromkeys(drawn))
        self.features = [FEATURES[name] for name in self.names]
        self.counters: list[str] = []  # variables of the loops around a statement
        self.number = self.depth = self.left = 0
        self.places = ["a", "b", "c"] * 2 + self.listed("places")
        self.vectors = ["u", "v"] * 2 + self.listed("vectors")
        self.reads = [*lines(SCALARS), *self.listed("reads") * 3]
        self.tests = [*lines(TESTS), *self.listed("tests") * 4]
        self.changes = [text for feature in self.features for text in templates(feature.changes)]

    def listed(self, field: str) -> list[str]:
        return [text for feature in self.features for text in lines(getattr(feature, field))]

    def program(self) -> Program:
        modules = [dedent(feature.module).strip() for feature in self.features if feature.module]
        text = ["a, b, c = y * 1.0, 0.5 + x[0], 0.8", "u, v = x * 0.5, np.sin(x) + 0.1", "n, k = len(x), 2"]
        text += [self.filled(dedent(feature.setup).strip()) for feature in self.features if feature.setup]
        text = sorted(text, key=lambda line: not line.startswith("global"))
        text.append(self.body())
        shown = [*(self.listed("places") + self.listed("reads")), *self.listed("vectors")]
        results = ["a", "0.5 * b", "0.3 * c", "np.sum(u * 0.3)", "0.2 * np.sum(v * v)", "0.01 * k"]
        results += [f"0.3 * np.sum({self.filled(e)})" for e in shown[:4]]
        text.append(f"return {' + '.join(results)}")
        function = f"def f({', '.join(self.arguments())}):\n{indent(chr(10).join(text), '    ')}\n"
        parts = [IMPORTS.rstrip(), *modules, function]
        return Program("\n\n\n".join(parts), self.names, any(feature.persistent for feature in self.features))

    def arguments(self) -> list[str]:
        return ["x", "y"]

    def body(self) -> str:
        self.left = self.random.randint(LEAST, MOST) + 8
        count = self.random.randint(LEAST, MOST)
        texts = [self.statement(must=i < 2) for i in range(count)]
        self.random.shuffle(texts)
        return "\n".join(texts)

    # ---- statements

    def statement(self, must: bool = False, inside: bool = False) -> str:
        """Return a statement; one of a feature if it must be."""
        draw = self.random.random()
        if self.changes and (must or draw < 0.3):
            text = self.random.choice(self.changes)
        elif self.depth >= DEEPEST or self.left <= 0 or draw < 0.55:
            text = self.random.choice(lines(ORDINARY))
        elif inside and draw < 0.62:
            text = self.random.choice(templates(JUMPS))
        elif draw < 0.8:
            text = self.random.choice(templates(BRANCHES))
            if "return" in text and self.random.random() < 0.6:
                text = "{S} = {s}"
        else:
            text = self.random.choice(templates(LOOPS))
        return self.filled(text, inside)

    def block(self, inside: bool) -> str:
        self.depth += 1
        count = self.random.choice((1, 1, 2))
        self.left -= count
        text = "\n".join(self.statement(inside=inside) for _ in range(count))
        self.depth -= 1
        return text

    # ---- templates

    def filled(self, text: str, inside: bool = False) -> str:
        self.number += 1
        text = text.replace("#", str(self.number))
        counters = re.findall(r"for (i\d+) in range", text)
        self.counters += counters
        inside = inside or text.lstrip().startswith(("for ", "while ")) or "\nwhile " in text
        found, drawn = [], {}

        def one(match: re.Match[str]) -> str:
            if match[1] not in ("S", "R", "v", "w"):
                return self.place(match[1])
            if match[1] not in drawn:
                drawn[match[1]] = self.place(match[1])
            return drawn[match[1]]

        for line in text.split("\n"):
            if line.strip() == "{block}":
                found.append(indent(self.block(inside), line[: line.index("{")]))
            else:
                found.append(re.sub(r"\{(s|S|R|v|w|c|i|t0|t|d|few|many)\}", one, line))
        del self.counters[len(self.counters) - len(counters) :]
        return "\n".join(found)

    def place(self, kind: str) -> str:
        if kind == "c":
            return self.random.choice(CONSTANTS)
        if kind in ("S", "R"):
            return self.filled(self.random.choice(self.places))
        if kind in ("v", "w"):
            return self.random.choice(self.vectors)
        if kind == "i":
            own = [f"{name} % n" for name in self.counters]
            return self.random.choice(["0", "1", "-1", "-2", "k % n", *own, *own])
        if kind == "few":
            return self.random.choice(("2", "3", "4", "5"))
        if kind == "many":
            return self.random.choice(("17", "18", "20", "25", "3", "n", "n + 14", "5 * n"))
        if kind == "t0":
            return f"y > {self.random.choice(CONSTANTS)}"
        return self.expression({"s": self.reads, "t": self.tests, "d": lines(KNOWN)}[kind])

    def expression(self, choices: list[str]) -> str:
        self.depth += 1
        simple = [text for text in choices if "{s}" not in text and "{t}" not in text]
        text = self.filled(self.random.choice(choices if self.depth < 6 else simple))
        self.depth -= 1
        return text


def lines(text: str) -> list[str]:
    """Split a table of expressions, one a line."""
    return [line.strip() for line in text.splitlines() if line.strip(" -")]


def templates(text: str) -> list[str]:
    """Split a table of statements, between which stand lines of hyphens."""
    parts = re.split(r"^ *---$", dedent(text), flags=re.MULTILINE)
    return [dedent(part).strip("\n").rstrip() for part in parts if part.strip()]
