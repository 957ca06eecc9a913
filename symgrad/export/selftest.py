"""The self-test of a saved module: the text of these functions stands at its end.

There `_selftest` and `__symgrad__` are those of the module, and its docstring is that of this one.
"""

import numpy as np

__symgrad__ = {"reasons": {}}


def _selftest():
    return []


def _numbers(shape, low, high, first):
    """Numbers from low to high that every NumPy makes alike: the fractions of multiples of the golden ratio."""
    turns = np.arange(first, first + np.prod(shape, dtype=int)) * 0.6180339887498949
    return (low + (high - low) * (turns % 1)).reshape(shape)


def _summaries(results):
    """The shape and the numbers of each result; of more than 12 two means and some of them."""
    if isinstance(results, (dict, list, tuple)):
        children = results.values() if isinstance(results, dict) else results
        return [summary for child in children for summary in _summaries(child)]
    if np.asarray(results).dtype.kind not in "biufc":
        return []
    y = np.ravel(results).astype(complex if np.iscomplexobj(results) else float)
    if y.size > 12:
        y = np.array([y.mean(), (y * _numbers(y.shape, 0, 1, 1)).mean(), *y[:: -(-y.size // 8)]])
    return [(np.shape(results), y.tolist())]


def _worst(found, expected):
    """The largest error of a number, relative to the largest number of its result."""
    if [shape for shape, _ in found] != [shape for shape, _ in expected]:
        return np.inf
    errors = [
        np.abs(np.subtract(y, z)).max(initial=0) / (np.abs(z).max(initial=0) or 1)
        for (_, y), (_, z) in zip(found, expected, strict=True)
    ]
    return float(np.nan_to_num(errors, nan=np.inf).max(initial=0))


def _main(words):
    """Run the module as a command and return its exit code."""
    if words != ["--selftest"]:
        print(f"{(__doc__ or '').strip()}\n\n--selftest compares {__symgrad__['function']} with its test vectors.")
        return 2 if words else 0
    if "vectors" in __symgrad__["reasons"]:
        print(f"no test vectors: {__symgrad__['reasons']['vectors']}")
        return 1
    errors = []
    with np.errstate(all="ignore"):
        for sizes, results, expected in _selftest():
            errors.append(_worst(_summaries(results), expected))
            print(f"{sizes}: relative error {errors[-1]:.1e}")
    failed = not errors or max(errors) > __symgrad__["tolerance"]
    print(f"FAILED: {__symgrad__['tolerance']} is allowed" if failed else "passed")
    return int(failed)
