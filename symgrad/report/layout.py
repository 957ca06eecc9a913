"""A report as text, in sections of at most a hundred columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from symgrad.core.text import counted, cut_to, duration, visible
from symgrad.loops.tiling import WORTH_THREADS

if TYPE_CHECKING:
    from symgrad.report.explain import LineCost, Loop, Report, Rewrite
    from symgrad.report.profile import Profile, TimedLine

WIDTH = 100
ABOUT = WIDTH - 44  # what a stage does, between its name and its figures
EFFECTS = {
    "nan": 'can change a NaN or an infinity; numerics="ieee" leaves them out',
    "digits": "can change the last digits",
    "nothing": "change nothing",
}


def rendered(report: Report) -> str:
    """All sections."""
    sections = [_top(report), _stages(report), _rewrites(report), _lines(report), loops_text(report)]
    sections += [unrolled_text(report)] if report.unrolled else []
    return "\n\n".join("\n".join(map(visible, lines)) for lines in sections)


def _top(report: Report) -> Iterator[str]:
    yield from _wrapped(report.program)
    yield ", ".join(f"{key}={value!r}" for key, value in report.options.items())
    if report.target != "numpy":
        yield from _wrapped(f"target: {report.target}")


def _wrapped(text: str, indent: str = "") -> list[str]:
    """On several lines, none of which breaks a name."""
    then = f"{indent}    "
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=then, break_long_words=False)


# ---- stages


def _stages(report: Report) -> Iterator[str]:
    yield f"{'STAGES':<{24 + ABOUT}}{'nodes':>10}{'ms':>10}"
    yield f"  {'trace':<22}{'The graph as traced, rewritten before differentiation':<{ABOUT}}{report.traced:>10}"
    for stage in report.stages:
        size = f"{stage.nodes}" if stage.nodes else f"{stage.lines} lines" if stage.lines else ""
        about, *more = textwrap.wrap(stage.about, ABOUT) or [""]
        yield f"  {stage.name:<22}{about:<{ABOUT}}{size:>10}{stage.milliseconds:>10.2f}"
        yield from (f"{'':24}{text}" for text in more)


# ---- rewrites


def _rewrites(report: Report) -> Iterator[str]:
    yield f"REWRITES, {sum(x.times for x in report.rewrites)} in all"
    if not report.rewrites:
        yield "  none"
    for effect, says in EFFECTS.items():
        found = [x for x in report.rewrites if x.changes == effect]
        if found:
            yield f"  that {says}"
        for each in found:
            yield from _rewrite(each)


def _rewrite(each: Rewrite) -> Iterator[str]:
    times = f", {each.times} times" if each.times > 1 else ""
    head = f"    {each.rule}{times}"
    where = cut_to(each.where, WIDTH - len(head) - 2)
    yield f"{head}{where:>{WIDTH - len(head)}}" if where else head
    both = f"{each.before}  ->  {each.after}"
    if len(both) <= WIDTH - 8:
        yield f"        {both}"
    else:
        yield f"        {each.before}"
        yield f"     -> {each.after}"


# ---- lines


def _lines(report: Report) -> Iterator[str]:
    yield "COST BY LINE, each operation on its own"
    rows = [_row(line) for line in report.lines]
    titles = ("", "calls", "operations", "bytes", "time")
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(5)]
    left = max(24, WIDTH - 2 - sum(w + 2 for w in widths[1:]))
    yield f"  {'':<{left}}{_columns(titles[1:], widths[1:])}"
    for row in rows:
        yield f"  {cut_to(row[0], left):<{left}}{_columns(row[1:], widths[1:])}"
    cost = report.cost
    flops, traffic = counted(cost.flops), counted(cost.bytes)
    yield f"  in all {flops} operations and {traffic} bytes in {cost.calls} calls as it is run;"
    yield f"  at most {counted(cost.peak)} bytes at one time, {counted(cost.scratch)} of them kept from call to call"


def _columns(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"  {text:>{width}}" for text, width in zip(texts, widths, strict=True))


def _row(line: LineCost) -> tuple[str, ...]:
    text = f"  {line.text}" if line.text and not line.where.startswith("derivative") else ""
    counts = (f"{line.operations}", counted(line.flops), counted(line.bytes), f"{line.share:.0%}")
    return (f"{line.where or 'elsewhere'}{text}", *counts)


# ---- loops


def loops_text(report: Report) -> Iterator[str]:
    yield f"LOOPS OVER BLOCKS OF ROWS: {len(report.loops) or 'none'}"
    for i, loop in enumerate(report.loops, start=1):
        yield from _loop(i, loop, report.options["threads"])
    for text in report.reasons:
        yield from _wrapped(text, "  ")
    for text in report.again:
        yield from _wrapped(f"computed again: {text}", "  ")


def unrolled_text(report: Report) -> Iterator[str]:
    yield f"UNROLLED LOOPS: {len(report.unrolled)}"
    for text in report.unrolled:
        yield from _wrapped(text, "  ")


def _loop(i: int, loop: Loop, most: int | None) -> Iterator[str]:
    halo = f" and {loop.halo} of its neighbours" if loop.halo else ""
    yield from _wrapped(
        f"{i}. {counted(loop.rows)} of {loop.size} rows{halo} at a time, of {', '.join(loop.over)}", "  "
    )
    kept = f"{loop.buffers} buffers, {counted(loop.scratch)} bytes a thread" if loop.buffers else "no buffers"
    sums = f", {loop.sums} of them summed over the blocks" if loop.sums else ""
    yield f"     {loop.operations} operations{sums}; {kept}"
    yield f"     {_threads(loop, most)}"
    for text in loop.hoisted:
        yield cut_to(f"     computed once, before it: {text}", WIDTH)


def _threads(loop: Loop, most: int | None) -> str:
    work = f"{duration(loop.seconds)} of work, as estimated"
    if not loop.threads:
        return f"on one thread: {work}; several pay from {duration(WORTH_THREADS)} on"
    return f"on {f'at most {most}' if most else 'several'} threads: {work}" if most != 1 else f"threads=1: {work}"


# ---- profiles

BAR = 10  # characters of all the time


def rendered_profile(profile: Profile) -> str:
    """The source with shares at its lines, and the shares of the user's lines."""
    per = profile.overhead / (profile.seconds or 1.0)
    yours = [
        f"  {share:>6.1%}  {where or 'other lines'}" for where, share in profile.by_where.items() if share >= 0.001
    ]
    return "\n".join([
        f"{profile.function}: {duration(profile.seconds)} a call, loops on one thread",
        f"timers took {per:.0%} more, which is subtracted; the lines are {duration(profile.timed)} together",
        "",
        f"{'time':>10}{'calls':>9}{'share':>8}",
        *map(_timed, profile.lines),
        "",
        "BY YOUR LINES",
        *yours,
    ])  # fmt: skip


def _timed(line: TimedLine) -> str:
    if not line.calls:
        return f"{'':{29 + BAR}}{line.text}".rstrip()
    bar = "#" * round(line.share * BAR)
    return f"{duration(line.seconds):>10}{line.calls:>9,.0f}{line.share:>8.1%} {bar:<{BAR}} {line.text}"
