"""Value and gradient by symgrad, beside jax.jit, PyTorch, autograd, PyTensor and NumPy written by hand.

    python benchmarks/run.py                            all cases, all contestants
    python benchmarks/run.py mixture elementwise        cases whose names contain these words
    python benchmarks/run.py --peers jax,numpy --json results.json

Each contestant runs in a process of its own. All must agree with float64 by hand, or the command fails. They take turns
in rounds, and the figures are medians over the rounds. Numbers under a peer say how many times as long as symgrad it
takes: above 1, symgrad is faster.
"""

import argparse
import json
import os
import statistics
import sys
from dataclasses import asdict

THREADS = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS".split()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="words that the names of cases contain; all cases without any")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--peers", default="numpy,jax,torch,autograd,pytensor", help="by commas; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.02, help="of one measurement, at least (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    parser.add_argument("--best", action="store_true", help="minima in place of medians, for a machine that is busy")
    parser.add_argument("--optimize", type=int, default=2, help="level of symgrad (%(default)s)")
    parser.add_argument("--threads", type=int, help="cores that everybody may use; default: all")
    parser.add_argument(
        "--patience", type=float, default=120, help="seconds a contestant may take to compile (%(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all that was measured")
    return parser.parse_args()


def restrict(threads):
    """Processes that are started from here on have so many cores and threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.update(dict.fromkeys(THREADS, str(threads)))


def main():
    options = parsed()
    if options.threads:
        restrict(options.threads)

    import report
    from cases import CASES
    from timing import measure
    from worker import workers

    words = [word.lower() for word in options.cases]
    chosen = [case for case in CASES if not words or any(word in case.name.lower() for word in words)]
    if options.list or not chosen:
        sys.exit("\n".join(case.name for case in CASES))
    names = ["symgrad", *options.peers.split(",")]
    running, missing = workers(names, {"optimize": options.optimize, "threads": options.threads}, options.patience)
    for name, reason in missing.items():
        print(f"{name} is left out: {reason}")
    summary = min if options.best else statistics.median
    versions = {name: worker.version for name, worker in running.items()}
    print(report.header(versions) + f"; optimize={options.optimize}; {summary.__name__} of {options.rounds} rounds\n")

    results = {}
    for case in chosen:
        results[case.name] = measured = measure(case, running, options.seconds, options.rounds, summary)
        print(report.progress(case.name, measured), file=sys.stderr, flush=True)
    print(report.run_times(results, list(running)))
    print("\n" + report.first_calls(results) + "\n")
    reasons = report.reasons(results)
    print("\n".join(reasons))
    if options.json:
        everything = {case: {name: asdict(m) for name, m in row.items()} for case, row in results.items()}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"header": report.header(versions), "versions": versions, "results": everything}, file, indent=1)
    if any(m.wrong for row in results.values() for m in row.values()):
        sys.exit("not all agree")


if __name__ == "__main__":
    main()
