"""Python's own loops and branches, converted from the source of functions, against Python itself."""

import linecache

import numpy as np
import pytest
from loops import Writer

import symgrad as sg
from symgrad.core import tree
from symgrad.core.interpret import interpret
from symgrad.core.region import with_nested
from symgrad.frontend.conversion.functions import converted


def written(source, name):
    """A function from its text, which Python's tracebacks find as well."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    found = {"np": np}
    exec(compile(source, name, "exec"), found)
    return found["f"]


def traced(f, *args, loops=3):
    """The value of a function by the interpreter, and which operators it was traced into."""
    with sg.options(loops=loops):
        program = sg.compile(f).trace(*args)
    leaves = tree.flatten(args)[0]
    feeds = {leaf.node: x for leaf, x in zip(program.leaves, leaves, strict=True) if leaf.node is not None}
    value = interpret(program.graph.outputs, feeds)[0] if program.graph.outputs else program.outputs
    return value, [node.op.name for node in with_nested(program.graph.live)]


@pytest.mark.parametrize("part", range(4))
def test_random_programs_give_the_same_bits(part):
    for seed in range(60 * part, 60 * part + 60):
        f = written(Writer(seed).function(), f"<random {seed}>")
        rng = np.random.default_rng(seed)
        x, xs = float(rng.normal()), rng.normal(size=4)
        with np.errstate(all="ignore"):
            wanted = f(x, xs.copy())
            with sg.options(loops="auto"):
                g = converted(f)
            assert g is not f, seed
            given = g(x, xs.copy())
        assert (type(given), repr(given)) == (type(wanted), repr(wanted)), seed


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_traced(seed):
    f = written(Writer(seed).function(), f"<random {seed}>")
    rng = np.random.default_rng(seed)
    x, xs = float(rng.normal()), rng.normal(size=4)
    with np.errstate(all="ignore"):
        try:
            given, _ = traced(f, x, xs)
        except sg.errors.UnsupportedError:  # not every program can be traced
            return
        np.testing.assert_array_equal(given, f(x, xs.copy()))
