"""Cases: models, and the sizes at which they are measured."""

from collections.abc import Callable, Mapping, Sequence
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
        How many arguments, from the first on, the loss is differentiated by; none where it differentiates inside.
    peers : mapping
        Peers that have a better form of their own: name to ``loss(*args)``; None where nobody has written it. That of
        Numba returns ``f(*args)``, which gives value and gradients.
    forward : tuple of str
        Peers that have no reverse mode for it, and take its gradient in forward mode.
    turns : callable or None
        Of a loop: ``turns(*args)``, how many turns the time is that of.
    """

    loss: Callable
    example: Callable
    by_hand: Callable
    wrt: int = 1
    peers: Mapping[str, Callable | None] = field(default_factory=dict)
    forward: tuple[str, ...] = ()
    turns: Callable[..., int] | None = None

    @property
    def argnums(self) -> tuple[int, ...]:
        return tuple(range(self.wrt))

    def loss_of(self, peer: str, xp: ModuleType) -> Callable:
        """The loss as this peer has it."""
        loss = self.peers.get(peer, partial(self.loss, xp))
        if loss is None:
            raise NotImplementedError("nobody has written it")
        return loss


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

    @property
    def turns(self) -> int | None:
        """Return the number of iterations of the loop; None without one."""
        return self.model.turns and self.model.turns(*self.args())

    def specs(self) -> list[tuple]:
        """The arguments as specs; see `specs_of`."""
        return specs_of(self.args(small=True), self.args(), self.model.wrt)


def specs_of(small: Sequence[Any], large: Sequence[Any], wrt: int) -> list[tuple]:
    """Arguments as specs, from their shapes at two sizes: with many symbols, and with fewer for who refuses them.

    First every axis that grows is a symbol, then the rows of the data, which come after `wrt` arguments, then none.
    """
    rows = axes(small[wrt:], large[wrt:])[:1]
    return [with_symbols(tuple(small), tuple(large), symbols) for symbols in (axes(small, large), rows, [])]


def axes(small: Any, large: Any) -> list[tuple[int, int]]:
    """The two sizes of every axis of all arrays."""
    from optree import tree_leaves

    pairs = zip(tree_leaves(small), tree_leaves(large), strict=True)
    return [axis for x, y in pairs for axis in zip(np.shape(x), np.shape(y), strict=True)]


def with_symbols(small: Any, large: Any, symbols: Sequence[tuple[int, int]]) -> Any:
    """Axes that grow alike are one symbol, if they are among these."""
    return with_names(small, large, lambda m, n: f"n{m}_{n}" if m != n and (m, n) in symbols else str(n))


def with_names(small: Any, large: Any, name: Callable[[int, int], str]) -> Any:
    """Return specs where `name` gives each axis its size, from its two lengths."""
    if isinstance(large, dict):
        return {key: with_names(small[key], x, name) for key, x in large.items()}
    if isinstance(large, (tuple, list)):
        return type(large)(with_names(x, y, name) for x, y in zip(small, large, strict=True))
    if not isinstance(large, np.ndarray):
        return large
    return f"{large.dtype}[{', '.join(name(m, n) for m, n in axes(small, large))}]"


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
