"""Tables of the measurements, in Markdown."""

import datetime
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from cases import CASES
from cases.threads import cores
from contestants import CONTESTANTS
from timing import Measured

Results = dict[str, dict[str, Measured]]


def machine() -> str:
    """The kind of machine: its processor, and how many cores this process may use."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = next(line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    used, there = cores(), os.cpu_count()
    return f"{model}, {used} core{'s' * (used != 1)}" + (f" of {there}" if there != used else "")


def header(versions: dict[str, str]) -> str:
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{datetime.date.today()}, {machine()}, Python {platform.python_version()}; {listed}"


def progress(case: str, row: dict[str, Measured]) -> str:
    """One line while it runs: the times as they are."""
    times = (f"{name} {duration(m.seconds) or 'failed'}{' WRONG' * bool(m.wrong)}" for name, m in row.items())
    return f"{case}: {', '.join(times)}"


def tables(results: Results, names: list[str]) -> list[list[list[str]]]:
    """The rows of programs without loops, and of those with, where there are any."""
    turns = {case.name: case.turns for case in CASES if case.name in results and case.turns}
    straight = {case: row for case, row in results.items() if case not in turns}
    looping = {case: row for case, row in results.items() if case in turns}
    return [
        *([run_times(straight, names, {})] if straight else []),
        *([run_times(looping, names, turns)] if looping else []),
    ]


def run_times(results: Results, names: list[str], turns: Mapping[str, int]) -> list[list[str]]:
    """Rows: time of symgrad, of a turn of it if there are turns, and how many times as long each peer takes.

    At the end stands how many times as long as symgrad's compilation the first call of jax.jit takes.
    """
    peers = [name for name in names if name != "symgrad"]
    rows = [["case", "symgrad", *(["a turn"] if turns else []), *(CONTESTANTS[peer].title for peer in peers)]]
    columns = []
    for case, row in results.items():
        mine = row["symgrad"]
        a_turn = [duration(mine.seconds and mine.seconds / turns[case])] if turns else []
        rows.append([case, duration(mine.seconds), *a_turn, *(cell(row[peer], mine) for peer in peers)])
        columns.append([ratio(row[peer], mine) for peer in peers])
    if "jax" in peers:
        rows[0].append("compile")
        for i, row in enumerate(results.values()):
            columns[i].append(compile_ratio(row))
            rows[i + 1].append(number(columns[i][-1]))
    means = [number(geometric_mean(column)) for column in zip(*columns, strict=True)]
    return [*rows, ["geometric mean", *[""] * (len(rows[0]) - 1 - len(means)), *means]]


def first_calls(results: Results) -> str:
    """From a Python function to a compiled gradient, beside the first call of jax.jit."""
    rows = [["case", "compile", "first call", "first call of jax.jit", "ratio to compile"]]
    ratios = []
    for case, row in results.items():
        if (ratio := compile_ratio(row)) is None:
            continue
        ratios.append(ratio)
        mine, jax = row["symgrad"], row["jax"]
        rows.append([case, *map(duration, (mine.compile, mine.first, jax.first)), number(ratio)])
    rows.append(["geometric mean", "", "", "", number(geometric_mean(ratios))])
    return table(rows)


def reasons(results: Results) -> list[str]:
    """Why cells are empty, and what disagrees."""
    return [
        f"{case}: {CONTESTANTS[name].title} {'failed: ' + m.failed if m.failed else 'disagrees: ' + m.wrong}"
        for case, row in results.items()
        for name, m in row.items()
        if m.failed or m.wrong
    ]


def plain(results: Results) -> dict[str, dict[str, dict]]:
    """Everything, for JSON."""
    return {case: {name: asdict(m) for name, m in row.items()} for case, row in results.items()}


def read(plain: dict[str, dict[str, dict]]) -> Results:
    """Return the results from the JSON that `plain` made."""
    return {case: {name: Measured(**m) for name, m in row.items()} for case, row in plain.items()}


# ---- leaves


def ratio(peer: Measured, mine: Measured) -> float | None:
    if peer.wrong or mine.wrong or not peer.seconds or not mine.seconds:
        return None
    return peer.seconds / mine.seconds


def compile_ratio(row: Mapping[str, Measured]) -> float | None:
    """Return the ratio of jax.jit's first call to symgrad's compilation."""
    mine, jax = row["symgrad"], row["jax"]
    return None if mine.failed or jax.failed else jax.first / mine.compile


def cell(peer: Measured, mine: Measured) -> str:
    return "wrong" if peer.wrong else peer.shown or number(ratio(peer, mine))


def geometric_mean(values: list[float | None]) -> float | None:
    logs = [math.log(value) for value in values if value]
    return math.exp(sum(logs) / len(logs)) if logs else None


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.{0 if value >= 20 else 1 if value >= 10 else 2}f}" if value >= 0.1 else f"{value:.1g}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in ("s", 1), ("ms", 1e-3), ("µs", 1e-6):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([head, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *body])
