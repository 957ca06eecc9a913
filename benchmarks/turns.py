"""Costs of loops: compile time by number of iterations, and run time of each iteration.

    python benchmarks/turns.py                  compiling for 100 to 1 000 000 turns, beside jax.jit if it is there
    python benchmarks/turns.py --each           what a turn takes, and how many calls and operators of Python it has
    python benchmarks/turns.py orbit Kalman     loops whose names contain these words

Compiling is all that happens before the program runs for the first time. A call or an operator is one of NumPy's where
its operands are arrays, and one of Python's where they are single numbers; a turn is one forward and one back.
"""

import argparse
import ast
import statistics
from collections import Counter
from dataclasses import replace
from functools import partial

from cases import CASES
from contestants import ByHand, Jax, Symgrad
from report import duration, table
from worker import seconds

TURNS = 100, 10_000, 1_000_000
LENGTHS = "steps", "turns"  # sizes that say how many turns there are
BYTES = 1 << 28  # that arguments may have
REPEATS = 3
COUNTED = ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.AugAssign, ast.Subscript


def chosen(words):
    """The loops that these words name."""
    loops = [case for case in CASES if case.model.turns]
    return [case for case in loops if not words or any(word.lower() in case.name.lower() for word in words)]


# ---- compiling


def compiling(cases):
    """A row for each loop and number of turns."""
    rows = [["case", "turns", "compile", "lines", "jax.jit"]]
    mine, peer = Symgrad(), jax_if_there()
    mine.warm_up()
    for case in cases:
        length = next((name for name in LENGTHS if name in case.small), None)
        for turns in TURNS if length else ():
            args = replace(case, sizes={**case.small, length: turns}).args()
            if sum(x.nbytes for x in mine.numbers(args)) < BYTES:
                rows.append([case.name.partition(",")[0], f"{turns:,}", *compiled(case, args, mine, peer)])
    return table(rows)


def jax_if_there():
    peer = Jax()
    try:
        peer.version()
    except ImportError:
        return None
    peer.warm_up()
    return peer


def compiled(case, args, mine, peer):
    """Medians of fresh compilations, and the lines of the source; jax compiles without running, too."""
    times = [seconds(lambda: mine.compile(case, args)) for _ in range(REPEATS)]
    lines = len(mine.function(case).source(*args).splitlines())
    return duration(statistics.median(times)), str(lines), of_jax(case, args, peer) if peer else ""


def of_jax(case, args, peer):
    import jax
    import jax.numpy as jnp

    def compile_():
        loss = case.model.loss_of("jax", jnp)
        jax.jit(peer.derivative(case, lambda *args: loss(*args))).lower(*args).compile()

    try:
        return duration(statistics.median(seconds(compile_) for _ in range(REPEATS)))
    except Exception:  # whatever it raises
        return "refused"


# ---- each turn


def each(cases):
    """A row for each loop."""
    rows = [["case", "turns", "a turn", "by hand", "calls and operators"]]
    for case in cases:
        args, turns = case.args(), case.turns
        program = Symgrad().function(case).compile(*args)
        mine, by_hand = (shortest(run) for run in (partial(program, *args), ByHand().prepare(case, args)))
        rows.append(
            [
                case.name,
                str(turns),
                duration(mine / turns),
                duration(by_hand / turns),
                f"{operations(program, args) / turns:.1f}",
            ]
        )
    return table(rows)


def shortest(run):
    run()
    return min(seconds(run) for _ in range(REPEATS))


def operations(program, args):
    """Return how many calls and operators a call of the program runs."""
    lines = program.profile(*args).lines
    written = Counter()
    for statement in ast.walk(ast.parse("\n".join(line.text for line in lines))):
        if isinstance(statement, ast.stmt) and not isinstance(statement, ast.For):  # which is entered in each turn
            written[statement.lineno] += sum(isinstance(node, COUNTED) for node in own(statement))
    return sum(line.calls * written[i] for i, line in enumerate(lines, 1))


def own(statement):
    """The nodes of a statement without those of the statements within."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from own(child)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="words that the names of loops contain; all loops without any")
    parser.add_argument("--each", action="store_true", help="what a turn takes, instead")
    options = parser.parse_args()
    cases = chosen(options.cases)
    print(each(cases) if options.each else compiling(cases))


if __name__ == "__main__":
    main()
