"""Put the tables of `run.py` into README.md and docs/benchmarks.md, with the date.

    python benchmarks/run.py --json results.json
    python benchmarks/figures.py results.json             several files, where it was measured in parts

The page has all programs and peers, the README those of `SHOWN` and `FEW`; the means are those of all programs. What
the text says of single figures is not touched: `git diff` shows whether it still holds.
"""

import json
import re
import sys
from pathlib import Path

import report

ROOT = Path(__file__).parent.parent
FEW = "c numpy jax torch autograd pytensor".split()
PEERS = "c numpy jax torch compile autograd pytensor casadi numba".split()
TITLES = {  # shorter, in the pages
    "case": "",
    "symgrad in C": "in C",
    "NumPy by hand": "by hand",
    "jax.jit": "`jax.jit`",
    "torch.compile": "`torch.compile`",
    "Numba by hand": "Numba",
}
TABLE = re.compile(r"^\| \| symgrad \|.*\n(?:\|.*\n)*", re.MULTILINE)
LOOPS = """\
Loops, as Python's own `for` and `while`: *a turn* is one forward and one back. "> 12 s" says that there was no result
so soon, "refused" that there was an error; a mean is that of who had a result."""
SHOWN = (
    "Gaussian mixture, d=20 k=25 n=10000",
    "elementwise, n=1e5, float64",
    "elementwise, n=1e7, float64",
    "Rosenbrock, n=10",
    "Black-Scholes, n=1e6",
    "logistic regression, n=100000 d=20",
    "MLP 784-512-512-10, batch=128, float32",
    "chain of 3x3 products, length=20 d=3",
    "transformer block, 4 heads, batch=8 time=64 d=64",
    "convolution network, batch=32 side=30, float32",
    "Euler steps, n=1e5",
    "LSTM, steps=1024 batch=16 hidden=64",
    "RNN, steps=100 batch=32 hidden=64",
    "orbit, steps=10000",
    "thrown ball, turns=1000",
    "Kalman filter, 4 states, steps=10000",
    "particle, forward over reverse",
    "saddle, reverse over reverse",
)


def markdown(rows: list[list[str]], shown: tuple[str, ...] | None = None) -> str:
    """A table as the pages write it: without padding, the means in bold; of the rows only those that are shown."""
    head, *body, means = rows
    lines = [[TITLES.get(title, title) for title in head], [":---", *["---:"] * (len(head) - 1)]]
    lines += [row for row in body if shown is None or row[0] in shown]
    lines.append([f"**{text}**" if text else "" for text in means])
    return "\n".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines)


def renewed(page: str, tables: list[str], date: str, programs: int) -> str:
    """The page with these tables in the place of those of its section, in their order; one of loops is added."""
    before, heading, after = page.partition("\n## Figures\n")
    section, following, rest = after.partition("\n## ")
    there = TABLE.findall(section)
    if len(there) + 1 == len(tables):
        section = section.replace(there[-1], f"{there[-1]}\n{LOOPS}\n\n| | symgrad |\n")
        there = TABLE.findall(section)
    for old, new in zip(there, tables, strict=True):
        section = section.replace(old, new + "\n")
    measured = re.search(r"\b20\d\d-\d\d-\d\d\b", section)  # other dates are of other figures
    section = section.replace(measured[0], date) if measured else section
    section = re.sub(r"\ball \d+ programs\b", f"all {programs} programs", section)
    return before + heading + section + following + rest


def main(files: list[str]) -> None:
    measured = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    if not measured:
        sys.exit(__doc__)
    results = report.read({case: row for each in measured for case, row in each["results"].items()})
    date = measured[-1]["header"].partition(",")[0]
    there = next(iter(results.values()))
    for name, peers, shown in ("README.md", FEW, SHOWN), ("docs/benchmarks.md", PEERS, None):
        rows = report.tables(results, ["symgrad", *(peer for peer in peers if peer in there)])
        if len(rows) != 2:
            sys.exit("Measure programs without loops and with.")
        page = ROOT / name
        tables = [markdown(each, shown) for each in rows]
        text = renewed(page.read_text(encoding="utf-8"), tables, date, len(results))
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
