"""Value and gradient by symgrad, beside jax.jit, PyTorch, autograd, PyTensor, CasADi, and NumPy and loops by hand.

In the column "from specs" is what symgrad compiles from shapes with symbols in the place of arrays, in "symgrad in C"
what it compiles with target="c". The loops by hand are compiled by Numba.

    python benchmarks/run.py                            all cases, all contestants
    python benchmarks/run.py mixture elementwise        cases whose names contain these words
    python benchmarks/run.py --peers jax,numpy --json results.json
    python benchmarks/run.py --memory                   only the peak memory of the large mixture

Each contestant runs in a process of its own. All must agree with float64 by hand, or the command fails. They take turns
in rounds, and the figures are medians over the rounds; a measurement takes long enough for all cores to wake up.
Numbers under a peer say how many times as long as symgrad it takes: above 1, symgrad is faster. "> 60 s" stands where
it had no result so soon, "refused" where it raised an error, nothing where nobody has written the program for it. Under
"compile" is the first call of jax.jit beside symgrad's compilation. Loops have a table of their own, with the time of a
turn, forward and back. `python benchmarks/figures.py results.json` puts the tables into the pages that quote them.
"""

import argparse
import json
import os
import statistics
import sys

PEERS = "c specs numpy jax torch compile autograd pytensor casadi numba".split()
THREADS = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS".split()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="words that the names of cases contain; all cases without any")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--peers", default=",".join(PEERS), help="by commas; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.3, help="of one measurement, at least (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    parser.add_argument("--best", action="store_true", help="minima in place of medians, for a machine that is busy")
    parser.add_argument("--optimize", type=int, default=2, help="level of symgrad (%(default)s)")
    parser.add_argument("--threads", type=int, help="cores that everybody may use; default: all")
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds a contestant may take for a first result (%(default)s)"
    )
    parser.add_argument("--memory", action="store_true", help="only show peak memory beyond arguments and results")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    if unknown := set(options.peers) - {*PEERS}:
        parser.error(f"--peers are {', '.join(PEERS)}, not {', '.join(sorted(unknown))}")
    return options


def restrict(threads):
    """Processes that are started from here on have so many cores and threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.update(dict.fromkeys(THREADS, str(threads)))


def chosen(words):
    """The cases whose names contain one of the words."""
    from cases import CASES

    return [case for case in CASES if not words or any(word.lower() in case.name.lower() for word in words)]


def compare(cases, running, options):
    """Measure and print; whether all agree."""
    import report
    from timing import measure

    summary = min if options.best else statistics.median
    versions = {name: worker.version for name, worker in running.items()}
    header = f"{report.header(versions)}; optimize={options.optimize}; {summary.__name__} of {options.rounds} rounds"
    print(header + "\n")
    results = {}
    for case in cases:
        results[case.name] = measured = measure(case, running, options.seconds, options.rounds, summary)
        print(report.progress(case.name, measured), file=sys.stderr, flush=True)
        if options.json:
            write(options.json, {"header": header, "versions": versions, "results": report.plain(results)})
    tables = [report.table(rows) for rows in report.tables(results, list(running))]
    tables += [report.first_calls(results)] if "jax" in running else []
    print(*tables, *report.reasons(results), sep="\n\n")
    return not any(m.wrong for row in results.values() for m in row.values())


def write(path, measured):
    """After each case, so that what was measured is there when the rest is stopped."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(measured, file, indent=1)


def main():
    options = parsed()
    if options.threads:
        restrict(options.threads)

    from memory import memory
    from worker import workers

    cases = chosen(options.cases)
    if options.list or not cases:
        sys.exit("\n".join(case.name for case in cases or chosen([])))
    names = ["symgrad", *(["numpy"] if options.memory else options.peers)]
    running, missing = workers(names, {"optimize": options.optimize, "threads": options.threads}, options.patience)
    for name, reason in missing.items():
        print(f"{name} is left out: {reason}")
    if options.memory:
        print(memory(running))
    elif not compare(cases, running, options):
        sys.exit("not all agree")


if __name__ == "__main__":
    main()
