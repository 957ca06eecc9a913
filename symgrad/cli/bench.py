"""``symgrad bench``: the time of a derivative, compared with the function itself and other packages."""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.cli.common import (
    Command,
    add_compiler,
    add_kind,
    add_target,
    compiler_options,
    derivative_of,
    entries_of,
)
from symgrad.cli.data import parse_sizes, sizes_of, with_numbers
from symgrad.cli.output import progress, write
from symgrad.cli.peers import PEERS, peer_of
from symgrad.cli.shapes import call_of
from symgrad.core import tree
from symgrad.core.listing import columns
from symgrad.errors import ArgumentError
from symgrad.export.target import load_function

SHORTEST = 0.02  # seconds of one measurement, so that the clock and a call of it do not matter


def _add(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--size", action="append", default=[], metavar="TEXT", help='"n=1000, d=10"; again for another row of the table'
    )
    parser.add_argument("--against", default="", metavar="NAMES", help=f"other packages, by commas: {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="medians of so many; default %(default)s")
    add_kind(parser)
    add_compiler(parser, optimize=2)
    parser.add_argument(
        "--target", dest="language", choices=("numpy", "c", "auto"), default="numpy", help="NumPy, C, or what is faster"
    )


def _run(options: Namespace) -> int:
    against = [name.strip() for name in options.against.split(",") if name.strip()]
    if unknown := set(against) - set(PEERS):
        raise ArgumentError(f"--against {', '.join(sorted(unknown))}", f"The packages are {', '.join(PEERS)}.")
    if options.rounds < 1:
        raise ArgumentError(f"--rounds {options.rounds}", "It is a number from 1 on.")
    with progress(f"measuring {options.target}") as say:
        rows = [_measured(options, parse_sizes(text), against, say) for text in options.size or [""]]
    write(options, _table(rows), {"target": options.target, "kind": options.kind, "rows": rows})
    return 0 if all(row["agree"] for row in rows) else 1


def _measured(options: Namespace, sizes: Mapping[str, int], against: list[str], say: Callable[[str], None]) -> Any:
    """One row: seconds of a call of each, medians of rounds in which they take turns."""
    f, derivative = load_function(options.target), derivative_of(options)
    plain = with_numbers(f, call_of(f, entries_of(options)), sizes)
    asked = derivative.with_vector(f, plain)
    shapes = sizes_of(f, plain)
    say(f"compiling for {shapes}")
    start = time.perf_counter()
    chosen = {**compiler_options(options), "target": options.language}
    compiled = derivative.of(f, **chosen).compile(*asked.args, **asked.kwargs)
    compiling = time.perf_counter() - start
    contestants: dict[str, Callable[[], Any]] = {
        "symgrad": lambda: compiled(*asked.args, **asked.kwargs),
        "function": lambda: f(*plain.args, **plain.kwargs),
        **{name: peer_of(name, options.target, derivative, plain) for name in against},
    }
    with np.errstate(all="ignore"):
        ours = contestants["symgrad"]()
        agree = [_close(ours, contestants[name]()) for name in against]
        seconds = _medians(contestants, options.rounds, lambda i: say(f"{shapes}, round {i} of {options.rounds}"))
    return {"arguments": shapes, "compile": compiling, "seconds": seconds, "agree": all(agree)}


def _medians(contestants: Mapping[str, Callable[[], Any]], rounds: int, say: Callable[[int], None]) -> dict[str, float]:
    counts = {name: _count(run) for name, run in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for i in range(rounds):
        say(i + 1)
        for name, run in contestants.items():
            times[name].append(_seconds(run, counts[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _count(run: Callable[[], Any]) -> int:
    """Return how many calls take the shortest measurable time; they warm up, too."""
    count = 1
    while (taken := _seconds(run, count) * count) < SHORTEST:
        count = max(2 * count, int(count * SHORTEST / max(taken, 1e-7)))
    return count


def _seconds(run: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def _close(a: Any, b: Any) -> bool:
    """Whether two trees of results agree to half of the digits of their dtype."""
    pairs = zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True)
    return all(_agree(np.asarray(x), np.asarray(y)) for x, y in pairs)


def _agree(x: np.ndarray, y: np.ndarray) -> bool:
    tolerance = float(np.finfo(x.dtype).eps) ** 0.5 if x.dtype.kind == "f" else 0.0
    scale = float(np.max(np.abs(x), initial=0.0))
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _table(rows: list[Any]) -> str:
    others = [name for name in rows[0]["seconds"] if name != "symgrad"]
    ratios = ["x function", *["x symgrad"] * (len(others) - 1)]
    head = ["arguments", "compile", "symgrad", *(x for pair in zip(others, ratios, strict=True) for x in pair)]
    lines = [head, *(_line(row, others) for row in rows)]
    notes = []
    wrong = [row["arguments"] for row in rows if not row["agree"]]
    if wrong:
        notes.append(f"RESULTS DIFFER: {'; '.join(wrong)}")
    return "\n".join([columns(lines, range(1, len(head))), *notes])


def _line(row: Any, others: list[str]) -> list[str]:
    seconds = row["seconds"]
    cells = [row["arguments"], _time(row["compile"]), _time(seconds["symgrad"])]
    for name in others:
        ratio = seconds["symgrad"] / seconds[name] if name == "function" else seconds[name] / seconds["symgrad"]
        cells += [_time(seconds[name]), f"{ratio:.2f}"]
    return cells


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


COMMAND = Command(
    "bench",
    "measure how long a derivative takes",
    (
        'symgrad bench examples/logistic.py:loss --size "n=1000, d=10"',
        'symgrad bench examples/logistic.py:loss --value --size "n=100, d=10" --size "n=10000, d=10"',
    ),
    _add,
    _run,
    "Measure how long a derivative takes, beside the function itself in plain NumPy and other packages. All take\n"
    "turns; numbers are medians. The model runs unchanged with another package's NumPy in place of NumPy.",
)
