"""``np.r_`` and ``np.c_``: arrays joined by what stands in brackets."""

import numpy as np

from symgrad.core.sizes import Dim
from symgrad.errors import UnsupportedError
from symgrad.ops.operands import as_input, is_traced


class Concatenator:
    """`np.r_` or `np.c_` of Variables; without any it is NumPy's own, whose result may be written into."""

    def __init__(self, original, name, join):
        self._original, self._name, self._join = original, name, join

    def __getitem__(self, key):
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(item, str) for item in items) and any(map(is_traced, items)):
            raise UnsupportedError(
                f"np.{self._name} with a directive and traced values", "Write np.concatenate or np.stack."
            )
        if not any(is_traced(item) or isinstance(item, (Dim, list, slice)) for item in items):
            return np.copy(self._original[key])
        return self._join([self._part(item) for item in items])

    def _part(self, item):
        """One item as an array: a slice is a range, ``1:5:3j`` three numbers from 1 to 5."""
        return self._original[item] if isinstance(item, slice) else np.atleast_1d(as_input(item))

    def __len__(self):
        return 0


CONCATENATORS = {
    id(np.r_): Concatenator(np.r_, "r_", np.concatenate),
    id(np.c_): Concatenator(
        np.c_, "c_", lambda parts: np.concatenate([x[:, None] if x.ndim == 1 else x for x in parts], axis=-1)
    ),
}
"""By the identity of what they stand for."""
