"""`{coverage}` shows the census of NumPy and SciPy: counts beside autograd and JAX, and every function by its kind."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from symgrad.report.census import APART, DIFFERENTIABLE, KINDS, MODULES, REFUSED, census

PEERS = Path(__file__).parent.parent / "peers.json"
HEADINGS = ("module", "functions", *list(KINDS)[:-1], "autograd", "JAX")


def rows(entries, peers):
    """Return the lines of the table of counts, a module each; what takes no numbers is not counted."""
    for module in MODULES:
        counted = [e for e in entries[module] if e.kind != APART]
        names = {e.path.removeprefix(f"{module}.") for e in counted}
        kinds = [sum(e.kind == kind for e in counted) for kind in list(KINDS)[:-1]]
        have = [names & set(peers[peer]["functions"].get(module, ())) for peer in ("autograd", "jax")]
        known = [
            str(len(found)) if module in peers[peer]["functions"] else ""
            for found, peer in zip(have, peers, strict=True)
        ]
        yield (module, str(len(counted)), *map(str, kinds), *known)


def missing(entries, peers, peer):
    """Return what another package has and symgrad refuses."""
    refused = {e.path for module in MODULES for e in entries[module] if e.kind == REFUSED}
    has = {f"{module}.{name}" for module, names in peers[peer]["functions"].items() for name in names}
    return sorted(refused & has)


def derivatives(entries, peers, peer):
    """Return what another package differentiates in a sample call of the census, and which of that has none here."""
    kinds = {e.path: e.kind for module in MODULES for e in entries[module]}
    theirs = [f"{module}.{name}" for module, names in peers[peer]["differentiated"].items() for name in names]
    theirs = [path for path in theirs if path in kinds]
    return theirs, [path for path in theirs if kinds[path] != DIFFERENTIABLE]


class Coverage(SphinxDirective):
    has_content = False

    def run(self):
        peers = json.loads(PEERS.read_text(encoding="utf-8"))
        entries = {module: census(module) for module in MODULES}
        found = [table(HEADINGS, rows(entries, peers))]
        for peer, name in (("autograd", "autograd"), ("jax", "JAX")):
            version = peers[peer]["version"]
            theirs, others = derivatives(entries, peers, peer)
            text = (
                f"{name} {version} differentiates {len(theirs)} of these functions, symgrad {len(theirs) - len(others)}"
            )
            found.append(nodes.paragraph("", "", nodes.Text(f"{text} of those"), *but_for(others)))
            lacking = missing(entries, peers, peer)
            text = f"Of all that {name} has, {len(lacking)} are refused"
            found.append(nodes.paragraph("", "", nodes.Text(text + (": " if lacking else ".")), *listed(lacking)))
        return [*found, *[self.section(module, entries[module]) for module in MODULES]]

    def section(self, module, entries):
        title = nodes.title(module, module)
        section = nodes.section("", title, ids=[nodes.make_id(module)], names=[module])
        for kind, meaning in KINDS.items():
            of_kind = [e for e in entries if e.kind == kind]
            if of_kind and kind != REFUSED:
                lead = (nodes.strong(kind, kind), nodes.Text(f" ({meaning}): "))
                section += nodes.paragraph("", "", *lead, *listed(short(e, module) for e in of_kind))
        section += notes(
            "No derivative by one of the arguments", [e for e in entries if e.kind != REFUSED and e.reason]
        )
        section += notes("Refused", [e for e in entries if e.kind == REFUSED])
        return section


def but_for(names):
    """Name exceptions, and end the sentence."""
    return [nodes.Text(", all but "), *listed(names), nodes.Text(".")] if names else [nodes.Text(", all.")]


def short(entry, module):
    return entry.path.removeprefix(f"{module}.")


def notes(title, entries):
    """List functions by the error that they have in common, without their names."""
    if not entries:
        return []
    found = [nodes.paragraph("", "", nodes.strong(title, title))]
    items = nodes.bullet_list()
    for reason, those in groupby(sorted(entries, key=common), key=common):
        names = listed(
            e.path.rpartition(".stats.")[2] if ".stats." in e.path else e.path.rpartition(".")[2] for e in those
        )
        items += nodes.list_item("", nodes.paragraph("", "", *names, nodes.Text(f": {reason}")))
    return [*found, items]


def common(entry):
    """Return the error of a function, with dots for its name."""
    fact, *instead = entry.reason.splitlines()
    for name in (entry.path, entry.path.replace("numpy.", "np.", 1)):
        fact = fact.replace(name, "…")
    return " ".join([fact.removeprefix("…").strip(": ").rstrip(".") + ".", *map(str.strip, instead)])


def listed(names):
    """The names as code, with commas between."""
    for i, name in enumerate(names):
        yield nodes.Text(", " if i else "")
        yield nodes.literal(name, name)


def table(headings, lines):
    group = nodes.tgroup(cols=len(headings))
    group += [nodes.colspec(colwidth=1) for _ in headings]
    body = nodes.tbody()
    body += [row(line) for line in lines]
    head = nodes.thead()
    head += row(headings)
    group += [head, body]
    whole = nodes.table()
    whole += group
    return whole


def row(cells):
    found = nodes.row()
    found += [nodes.entry("", nodes.paragraph(cell, cell)) for cell in cells]
    return found


def setup(app):
    app.add_directive("coverage", Coverage)
    return {"parallel_read_safe": True}
