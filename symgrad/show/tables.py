"""Tables in HTML, for notebooks: comparisons of derivatives, reports, profiles and differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from symgrad.core.text import counted, duration
from symgrad.report.diff import Difference
from symgrad.report.explain import Report
from symgrad.report.layout import EFFECTS, loops_text, unrolled_text
from symgrad.report.profile import Profile
from symgrad.show.markup import markup_text
from symgrad.show.notebook import FONT, FRAME, preformatted
from symgrad.verification.compare_grads import HEAD, GradientComparison, cells

COLOURS = {"right": "#2e7d32", "WRONG": "#c62828", "cannot tell": "#b26a00"}
CODE = f"{FONT}; white-space: pre"
BAR = 8  # em of all the time
REWRITE = ("rule", "before", "after", "line", "effect", "times")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    """Rows of cells, which are HTML; those of the columns in `right` are set to the right."""
    sides = ["right; white-space: nowrap" if i in right else "left" for i in range(len(head))]
    style = [f"text-align: {side}; vertical-align: top" for side in sides]

    def row(tag: str, texts: Sequence[str]) -> str:
        inner = "".join(f'<{tag} style="{how}">{x}</{tag}>' for how, x in zip(style, texts, strict=True))
        return f"<tr>{inner}</tr>"

    body = "".join(row("td", texts) for texts in rows)
    return f"<table><thead>{row('th', [*map(markup_text, head)])}</thead><tbody>{body}</tbody></table>"


def comparison_view(found: GradientComparison) -> str:
    """A row for each argument, order and combination of modes, with the verdict in its colour."""
    rows = [[_verdict(x) if i == 3 else markup_text(x) for i, x in enumerate(cells(row))] for row in found.rows]
    return f"{table(HEAD, rows, (1, 5, 6, 7))}<p>{markup_text(f'{found.name}: {found.verdict}')}</p>"


def _verdict(word: str) -> str:
    return f'<b style="color: {COLOURS[word]}">{markup_text(word)}</b>'


def profile_view(profile: Profile) -> str:
    """The lines that ran, with a bar for the time of each; and the shares of the user's lines."""
    head = f"{profile.function}: {duration(profile.seconds)} a call, loops on one thread"
    lines = [
        (str(x.number), duration(x.seconds), f"{x.calls:,.0f}", _share(x.share), _code(x.text), _code(x.where))
        for x in profile.lines
        if x.calls
    ]
    yours = [(_code(where or "other lines"), _share(share)) for where, share in profile.by_where.items()]
    titles = ("line", "time", "calls", "share", "source", "your line")
    return f"<p>{markup_text(head)}</p>{_framed(table(titles, lines, (0, 1, 2)))}{table(('your line', 'share'), yours)}"


def _share(share: float) -> str:
    bar = f'<span style="display: inline-block; width: {share * BAR:.2f}em; height: 0.7em; background: #3f7cb8"></span>'
    return f'<span style="white-space: nowrap">{share:.1%} {bar}</span>'


def report_view(report: Report) -> str:
    """Return each section of the report: the lines open, the rest folded."""
    stages = [(_code(x.name), markup_text(x.about), str(x.nodes or ""), f"{x.milliseconds:.2f}") for x in report.stages]
    rewrites = [
        (_code(x.rule), _code(x.before), _code(x.after), _code(x.where), markup_text(EFFECTS[x.changes]), str(x.times))
        for x in report.rewrites
    ]
    lines = [
        (
            *map(_code, (x.where or "elsewhere", x.text)),
            str(x.operations),
            *map(_count, (x.flops, x.bytes)),
            _share(x.share),
        )
        for x in report.lines
    ]
    cost = report.cost
    whole = f"{counted(cost.flops)} operations, {counted(cost.bytes)} bytes, {cost.calls} calls of NumPy"
    loops = preformatted("\n".join(map(markup_text, loops_text(report))))
    unrolled = preformatted("\n".join(map(markup_text, [*unrolled_text(report)][1:])))
    sections = (
        (f"Cost by line: {whole}", table(("line", "", "calls", "operations", "bytes", "time"), lines, (2, 3, 4))),
        (f"Rewrites: {sum(x.times for x in report.rewrites)}", table(REWRITE, rewrites, (5,))),
        (f"Stages: {len(report.stages)}", table(("stage", "", "nodes", "milliseconds"), stages, (2, 3))),
        (f"Loops over blocks of rows: {len(report.loops) or 'none'}", loops),
        (f"Unrolled loops: {len(report.unrolled) or 'none'}", unrolled),
    )
    first, *others = (_section(title, content) for title, content in sections)
    return "".join([f"<p>{_code(report.program)}</p>", first.replace("<details>", "<details open>", 1), *others])


def difference_view(difference: Difference) -> str:
    """A row for each statement that only one of the programs has, or that is another in each."""
    both = f"{difference.same} on the same values, {difference.follow} on values that were changed"
    changes = [*difference.inputs, *difference.changes]
    rows = [(_code(x.where), _code(x.text), _code(x.before), _code(x.after)) for x in changes]
    common = [(_code(name), _code(text)) for name, text in difference.common.items()]
    parts = [table(("line", "", "before", "after"), rows)] if rows else ["<p>The programs are the same.</p>"]
    if common:
        parts.append(_section("in both", table(("name", "value"), common)))
    return f"<p>Operations in both: {markup_text(both)}</p>{''.join(parts)}"


def _section(title: str, content: str) -> str:
    return f"<details><summary>{markup_text(title)}</summary>{_framed(content)}</details>"


def _framed(content: str) -> str:
    return f'<div style="{FRAME}">{content}</div>'


def _code(text: str) -> str:
    return f'<span style="{CODE}">{markup_text(text)}</span>'


def _count(x: Any) -> str:
    return _code(counted(x))
