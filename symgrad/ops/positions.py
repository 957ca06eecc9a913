"""The places where a mask holds that has no value before the program runs: as indices they are the mask."""

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from symgrad.errors import UnsupportedError
from symgrad.ops.control import NUMBER
from symgrad.ops.known import is_constant
from symgrad.ops.operands import as_input, is_traced


class Places(NDArrayOperatorsMixin):
    """``np.nonzero(mask)[i]`` of a traced mask: as an index, with those of other axes, it stands for the mask."""

    def __init__(self, mask, axis=0):
        self.mask, self.axis = mask, axis

    def refusal(self):
        return UnsupportedError(
            "the number of places where a traced condition holds depends on values",
            "Use the positions, or the mask itself, as an index, and reduce the result; or write np.where(mask, x, y).",
        )

    @property
    def size(self):
        return NUMBER(np.count_nonzero(self.mask))

    @property
    def shape(self):
        return (self.size,)

    ndim, dtype = 1, np.dtype(np.intp)

    def __getitem__(self, key):
        """The first place, or the last one; where there is none, an integer that is no index."""
        if self.mask.ndim != 1 or key not in (0, -1):
            raise self.refusal()
        place = np.argmax(self.mask) if key == 0 else self.mask.shape[0] - 1 - np.argmax(self.mask[::-1])
        return np.where(np.any(self.mask), place, np.iinfo(np.intp).min)[()]

    def __array_function__(self, function, types, args, kwargs):
        if function in (np.size, np.shape, np.ndim):
            return getattr(self, function.__name__)
        raise self.refusal()

    def _refuse(self, *args, **kwargs):
        raise self.refusal()

    __array__ = __array_ufunc__ = __bool__ = __len__ = __iter__ = __setitem__ = __index__ = __float__ = _refuse

    def __getattr__(self, attribute):
        if hasattr(np.ndarray, attribute) and not attribute.startswith("__"):
            raise self.refusal()
        raise AttributeError(attribute)


def places(condition):
    """The places where a condition holds, along each axis; None where that is known."""
    mask = as_input(condition)
    mask = mask if mask.dtype == bool else mask != 0
    if not is_traced(mask) or is_constant(mask) or not mask.ndim:
        return None
    mask = np.copy(mask)
    return tuple(Places(mask, axis) for axis in range(mask.ndim))


def with_masks(items):
    """The items of a key with a mask for the places along all its axes."""
    found, at = [], 0
    while at < len(items):
        item = items[at]
        if isinstance(item, Places):
            own = items[at : at + item.mask.ndim]
            alike = (isinstance(x, Places) and x.mask.node is item.mask.node for x in own)
            if not all(alike) or [x.axis for x in own] != list(range(item.mask.ndim)):
                raise item.refusal()
            item, at = item.mask, at + item.mask.ndim - 1
        found.append(item)
        at += 1
    return found
