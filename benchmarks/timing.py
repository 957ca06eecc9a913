"""Rounds in which contestants take turns, and whether they agree."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from cases import Case
from contestants import CONTESTANTS, ByHand
from worker import Failed, Late, Worker

TOLERANCE = {"float64": 1e-9, "float32": 1e-4}  # of the largest number of each array, against float64 by hand
LONG = 10.0  # seconds after which a contestant has had its rounds
PAUSE = 0.04  # threads of BLAS and OpenMP wait for work for a while, on cores that the next one needs


@dataclass
class Measured:
    """The measurements of one contestant in one case."""

    compile: float = 0.0
    first: float = 0.0
    error: float = 0.0
    wrong: str = ""  # how it disagrees
    failed: str = ""  # why there are no times
    shown: str = ""  # what the table has in their place
    times: list[float] = field(default_factory=list)
    seconds: float | None = None  # the median of times, or the least


def measure(
    case: Case, workers: dict[str, Worker], least: float, rounds: int, summary: Callable[[list[float]], float]
) -> dict[str, Measured]:
    """All contestants in one case, in turns; the one that begins is another one in each round."""
    reference = ByHand().numbers(case.model.by_hand(*case.args(dtype="float64")))
    measured = {name: begin(case, name, worker, reference) for name, worker in workers.items()}
    del reference
    names = [name for name, row in measured.items() if not row.failed]
    for turn in range(rounds):
        first = turn % len(names) if names else 0
        for name in names[first:] + names[:first]:
            one_round(measured[name], workers[name], least)
    for name in names:
        workers[name].end()
        measured[name].seconds = None if measured[name].failed else summary(measured[name].times)
    return measured


def begin(case: Case, name: str, worker: Worker, reference: list[np.ndarray]) -> Measured:
    if not CONTESTANTS[name]().has(case):
        return Measured(failed="not written")
    try:
        answer = worker.begin(case.name)
    except Failed as reason:
        return Measured(failed=str(reason), shown=in_place(reason))
    error, wrong = compared(answer["numbers"], reference, case.dtype)
    return Measured(answer["compile"], answer["first"], error, wrong)


def one_round(row: Measured, worker: Worker, least: float) -> None:
    """One more time of who still has times to come."""
    if row.failed or sum(row.times) >= LONG:
        return
    time.sleep(PAUSE)
    try:
        row.times.append(worker.batch(least))
    except Failed as reason:
        row.failed, row.shown = str(reason), in_place(reason)


def in_place(reason: Failed) -> str:
    """Return the text of the table in the place of a time."""
    return str(reason) if isinstance(reason, Late) else "refused"


def compared(numbers: list[np.ndarray], reference: list[np.ndarray], dtype: str) -> tuple[float, str]:
    """The largest error relative to the largest number of its array; and what is wrong, if anything is."""
    if [x.shape for x in numbers] != [x.shape for x in reference]:
        return np.inf, f"shapes {[x.shape for x in numbers]}, not {[x.shape for x in reference]}"
    if {str(x.dtype) for x in numbers} != {dtype}:
        return np.inf, f"dtypes {[str(x.dtype) for x in numbers]}, not {dtype}"
    error = max(relative(x, y) for x, y in zip(numbers, reference, strict=True))
    return error, "" if error <= TOLERANCE[dtype] else f"off by {error:.1e}"


def relative(x: np.ndarray, reference: np.ndarray) -> float:
    error = float(np.max(np.abs(x - reference))) / max(float(np.max(np.abs(reference))), 1e-300)
    return np.inf if np.isnan(error) else error
