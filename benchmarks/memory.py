"""Peak memory of the large mixture: whether it grows with the number of points."""

from contestants import CONTESTANTS
from report import table
from worker import Worker

CASE = "Gaussian mixture, d=20 k=25 n=10000"
POINTS = 10_000, 100_000


def memory(workers: dict[str, Worker]) -> str:
    """MB beyond arguments and results, as `tracemalloc` sees them."""
    rows = [["Gaussian mixture, d=20 k=25", *(CONTESTANTS[name].title for name in workers)]]
    for n in POINTS:
        peaks = [worker.memory(CASE, {"d": 20, "k": 25, "n": n}) for worker in workers.values()]
        rows.append([f"n={n}", *(f"{peak / 1e6:.1f} MB" for peak in peaks)])
    return table(rows)
