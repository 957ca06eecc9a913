"""What a case is: a model, and the sizes at which it is measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Model:
    """A loss, written once in plain NumPy for symgrad and for every module that has NumPy's names.

    Attributes
    ----------
    loss : callable
        ``loss(xp, *args)``, where ``xp`` is `numpy` or a module like it.
    example : callable
        ``example(rng, **sizes)``: the arguments, as trees of float64 and integer arrays.
    by_hand : callable
        ``by_hand(*args)``: value and tuple of gradients, in the best NumPy that a careful person would write.
    wrt : int
        How many arguments, from the first on, the loss is differentiated by.
    peers : mapping
        Peers that have a better form of their own: name to ``loss(*args)``.
    """

    loss: Callable
    example: Callable
    by_hand: Callable
    wrt: int = 1
    peers: Mapping[str, Callable] = field(default_factory=dict)

    @property
    def argnums(self) -> tuple[int, ...]:
        return tuple(range(self.wrt))

    def loss_of(self, peer: str, xp: ModuleType) -> Callable:
        """The loss as this peer has it."""
        return self.peers.get(peer) or partial(self.loss, xp)


@dataclass(frozen=True)
class Case:
    """A model at certain sizes; ``small`` are those at which tests run it."""

    name: str
    model: Model
    sizes: Mapping[str, Any]
    small: Mapping[str, Any]
    dtype: str = "float64"

    def args(self, small: bool = False, dtype: str | None = None) -> tuple:
        """The arguments, the same in every process; floating ones rounded to the case's dtype."""
        from optree import tree_map

        args = self.model.example(np.random.default_rng(0), **(self.small if small else self.sizes))
        rounded = tree_map(partial(floats_as, dtype=self.dtype), args)
        return rounded if dtype is None else tree_map(partial(floats_as, dtype=dtype), rounded)


def floats_as(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in a floating dtype; integers stay."""
    return array.astype(dtype) if array.dtype.kind == "f" else array


def cases(title: str, model: Model, *points: str, small: str, dtypes: tuple[str, ...] = ("float64",)) -> list[Case]:
    """One case for each point, written ``"d=2 k=5"``, in each dtype."""
    return [
        Case(
            f"{title}, {point}" + f", {dtype}" * (dtype != "float64" or len(dtypes) > 1),
            model,
            sizes(point),
            sizes(small),
            dtype,
        )
        for dtype in dtypes
        for point in points
    ]


def sizes(point: str) -> dict[str, int]:
    """``{"d": 2, "k": 5}`` of ``"d=2 k=5"``."""
    return {name: int(float(size)) for name, size in (pair.split("=") for pair in point.split())}
