"""What was measured, as tables in Markdown."""

import datetime
import math
import os
import platform
from dataclasses import asdict
from pathlib import Path

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


def run_times(results: Results, names: list[str]) -> str:
    """Time of symgrad, and how many times as long each peer takes."""
    peers = [name for name in names if name != "symgrad"]
    rows = [["case", "symgrad", *(CONTESTANTS[peer].title for peer in peers)]]
    for case, row in results.items():
        rows.append([case, duration(row["symgrad"].seconds), *(cell(row[peer], row["symgrad"]) for peer in peers)])
    means = [[ratio(row[peer], row["symgrad"]) for row in results.values()] for peer in peers]
    rows.append(["geometric mean", "", *(number(geometric_mean(column)) for column in means)])
    return table(rows)


def first_calls(results: Results) -> str:
    """From a Python function to a compiled gradient, beside the first call of jax.jit."""
    rows = [["case", "compile", "first call", "first call of jax.jit", "ratio to compile"]]
    ratios = []
    for case, row in results.items():
        mine, jax = row["symgrad"], row.get("jax")
        if mine.failed or not jax or jax.failed:
            continue
        ratios.append(jax.first / mine.compile)
        rows.append([case, *map(duration, (mine.compile, mine.first, jax.first)), number(ratios[-1])])
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


# ---- leaves


def ratio(peer: Measured, mine: Measured) -> float | None:
    if peer.wrong or mine.wrong or not peer.seconds or not mine.seconds:
        return None
    return peer.seconds / mine.seconds


def cell(peer: Measured, mine: Measured) -> str:
    return "wrong" if peer.wrong else number(ratio(peer, mine))


def geometric_mean(values: list[float | None]) -> float | None:
    logs = [math.log(value) for value in values if value]
    return math.exp(sum(logs) / len(logs)) if logs else None


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


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
