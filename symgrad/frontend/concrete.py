"""Values that Python asks for: those of constants, and of sizes with a number."""

from __future__ import annotations

import math
from operator import index as index_of
from typing import Any

import numpy as np

from symgrad.core.interpret import evaluate
from symgrad.core.sizes import is_counted, no_number
from symgrad.errors import ArgumentError, ConcreteValueError, ScalarError
from symgrad.frontend import advice
from symgrad.frontend.aliasing import Memory
from symgrad.frontend.dispatch import array_method, with_class
from symgrad.ops import marks
from symgrad.ops.control import NUMBER
from symgrad.ops.known import Known, is_constant, known, sizes_of, value_of
from symgrad.ops.python_math import as_float, as_python_complex, as_python_float, as_python_int
from symgrad.ops.truths import of_python


class Concrete(Memory):
    """A node that gives Python its value where it is known, and advice where it is not."""

    __slots__ = ()

    def known_value(self, asked: str = "for the number that was computed with it") -> Any:
        """The value, an array of the caller's own or a number; None where it has none before the program runs.

        Symbolic sizes that it was made of are pinned to the numbers at hand.
        """
        node = self.node
        if not (is_constant(self) or known(node) is Known.SIZED):
            return None
        sizes = sizes_of(node)
        if any(map(is_counted, sizes)):
            return None
        if sizes and sizes[0].scope.value(sizes[0]) is None:
            raise no_number(sizes[0], asked, "for int(n / 2) write n // 2, for math.ceil(n / 2) -(-n // 2)")
        value = value_of(node)
        return np.array(value) if isinstance(value, np.ndarray) and self.writes_in_place else value

    def known_memory(self, arrays: dict[int, Any]) -> Any:
        """Return the value of a constant; what shows memory of another constant shows it in the array of that one.

        `arrays` are those of others, by the ids of these.
        """
        if id(self) not in arrays and self.base_view:
            base, view = self.base_view
            values = {view.inputs[0]: base.known_memory(arrays), **{x: value_of(x) for x in view.inputs[1:]}}
            arrays[id(self)] = evaluate(view, values, {})
        return arrays[id(self)] if id(self) in arrays else arrays.setdefault(id(self), self.known_value())

    def _number(self, what: str) -> Any:
        """Return the value, or raise an error that says what needs it."""
        value = self.known_value()
        if value is None:
            fact = f"{what} needs the value of a {self._described()}, which has none before the program runs"
            error = ScalarError if self._has_several() else ConcreteValueError
            raise error(fact, advice.on_number(what))
        return value

    def _has_several(self) -> bool:
        """Whether it is an array of several numbers or none, which NumPy does not convert to a number."""
        sizes = self.shape
        return all(isinstance(n, int) for n in sizes) and math.prod(sizes) != 1

    def __bool__(self) -> bool:
        value = self.known_value("for the truth of what was computed with it")
        if value is None:
            raise ConcreteValueError(
                f"Python needs the truth value of a {self._described()}, which has no value before the program runs",
                advice.on_truth(),
            )
        return bool(value)

    def _described(self) -> str:
        name = self._name()
        return f"traced {self.aval}" + (f" named {name!r}" if name else "")

    def _name(self) -> str | None:
        """Return the user's name of the value; a mark on an argument has the argument's name."""
        node, names = self._node, self.graph.names
        while node.op is marks.ALIAS and node not in names:
            node = node.inputs[0]
        name = names.get(node)
        return name if isinstance(name, str) else None

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def as_integer_ratio(self) -> tuple[int, int]:
        """Return the fraction that a float is: `statistics` and `fractions` ask for it."""
        ratio: tuple[int, int] = self._number("as_integer_ratio()").as_integer_ratio()
        return ratio

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        return index_of(self._number(advice.INDEX))

    def __round__(self, ndigits: int | None = None) -> Any:
        if ndigits is not None:
            found = np.round(self, ndigits)
            return with_class(NUMBER(found) if self.aval.weak else found, round, (self, ndigits))
        if self.shape or self.known_value() is not None:
            return round(self._number("round()"))
        return as_python_int(np.rint(as_float(self)))

    def __trunc__(self) -> int:
        return math.trunc(self._number("math.trunc()"))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(self == value))

    def __format__(self, spec: str) -> str:
        return format(self._number(f"format() by {spec!r}"), spec) if spec else str(self)

    @array_method
    def item(self, *args: Any) -> Any:
        value = self.known_value()
        if value is not None:
            return np.asarray(value).item(*args)
        array: Any = self
        if not args and array.size != 1:
            raise ArgumentError(f"x.item() of {array.size} numbers", "Say which: x.item(i), or x[i].")
        place = args[0] if len(args) == 1 else args
        x = array[place] if place and isinstance(place, tuple) else np.reshape(array, -1)[place or 0]
        if x.dtype.kind == "f":
            return as_python_float(x)
        if x.dtype.kind == "c":
            return as_python_complex(x)
        return as_python_int(x) if x.dtype.kind in "iu" else of_python(x)

    @array_method
    def tolist(self) -> Any:
        return np.asarray(self._number(".tolist()")).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = self.known_value()
        if value is None:
            raise ConcreteValueError(
                f"np.array() or np.asarray() needs the value of a {self._described()}, "
                "which has none before the program runs",
                advice.on_array(),
            )
        is_fortran = self.is_contiguous("C") is False and self.is_contiguous("F")
        array = np.array(value, dtype, order="F" if is_fortran else "C")
        array.flags.writeable = copy is True  # what shared its memory would write into it in vain
        if copy is not True and self.writes_in_place and array.dtype == self.aval.dtype:
            self.hand_out(array)
        return array
