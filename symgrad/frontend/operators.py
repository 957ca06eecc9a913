"""Types of the operators of a Variable, for type checkers alone: when a program runs, `dispatch` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symgrad.frontend.variable import Variable


class Operators:
    """Python's operators; methods of arrays are found by `Variable.__getattr__`, and may give anything."""

    __slots__ = ()

    def _unary(self) -> Variable:
        raise NotImplementedError

    def _binary(self, other: Any, /) -> Variable:
        raise NotImplementedError

    def _compare(self, other: Any, /) -> Any:
        raise NotImplementedError

    __neg__ = __pos__ = __abs__ = __invert__ = _unary
    __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = _binary
    __mul__ = __rmul__ = __imul__ = __matmul__ = __rmatmul__ = __imatmul__ = _binary
    __truediv__ = __rtruediv__ = __itruediv__ = __floordiv__ = __rfloordiv__ = __ifloordiv__ = _binary
    __mod__ = __rmod__ = __imod__ = __pow__ = __rpow__ = __ipow__ = _binary
    __and__ = __rand__ = __iand__ = __or__ = __ror__ = __ior__ = __xor__ = __rxor__ = __ixor__ = _binary
    __lshift__ = __rlshift__ = __ilshift__ = __rshift__ = __rrshift__ = __irshift__ = _binary
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compare
