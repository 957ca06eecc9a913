"""The values in the parameters of nodes, in arguments and in results, as JSON has them; and back.

A value of JSON stands for itself, a list for a tuple. Everything else is an object of one field, which names the kind:
``{"dtype": "float32"}``, ``{"size": "2 * n"}``.
"""

from __future__ import annotations

import ast
import binascii
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.core.graph import Aval, Literal
from symgrad.core.size_scope import Sizes
from symgrad.core.sizes import Dim, Size, has_side
from symgrad.core.specs import parse_size
from symgrad.errors import ArgumentError
from symgrad.interchange.cursor import Cursor
from symgrad.ops.checks import Print, Raise, Warn
from symgrad.ops.einsum import Subscripts
from symgrad.ops.index_expressions import Slice, Slot

WRITTEN_OUT = 16  # numbers of an array up to which they are written one by one
WEAK = " weak"  # behind the type of a Python number
LARGEST = 2**63 - 1  # of a length
LONGEST_SIZE = 1000  # characters of the text of a size
MOST_TERMS, MOST_BITS = 10_000, 4096  # of the polynomial that a size is, and of a number in it

_PLAIN = (type(None), bool, int, str)
_DTYPE = re.compile(r"[<>][iufc]\d{1,2}|bool|u?int\d{1,2}|float\d{1,3}|complex\d{1,3}|longdouble|clongdouble")
_TYPE = re.compile(rf"([^\[]*)(\[.{{0,{10 * LONGEST_SIZE}}}\])({WEAK})?")
_WORD = re.compile(r"[\w ,.>\-]{0,10000}", re.ASCII)  # a text among parameters: nothing in it ends a string


# ---- writing


def written(x: Any) -> Any:
    """A value as JSON; an ArgumentError for a kind that files do not hold."""
    if type(x) in _PLAIN:
        return x
    if type(x) is float:
        return x if math.isfinite(x) else {"float": repr(x)}
    if type(x) is tuple:
        return [written(item) for item in x]
    if x is Ellipsis:
        return {"ellipsis": True}
    for kind, write in _WRITERS:
        if isinstance(x, kind):
            return write(x)
    if isinstance(x, (Raise, Warn, Print)):
        raise ArgumentError(
            "a program that raises, warns or prints cannot be written to a file", "Leave its checks out: checks=False."
        )
    raise ArgumentError(
        f"{x!r} cannot be written to a file", "Keep to numbers, strings, dtypes, sizes, slices and tuples of these."
    )


def size_text(size: Size) -> int | str:
    """A length: a number, or an expression as specs have it."""
    if type(size) is not int and not isinstance(size, Dim):
        raise ArgumentError(f"the length {size!r} cannot be written to a file", "Write the program that was traced.")
    if has_side(size):
        raise ArgumentError(
            f"a program with the size {size}, which the test of a branch makes certain, cannot be written to a file",
            'Bound the slice itself, x[max(i - 3, 0):i], or give arrays and loops="unroll".',
        )
    return str(size) if isinstance(size, Dim) else size


def type_of(aval: Any) -> Any:
    """Return the type of a value as text, ``float64[n, 3]``; of several results a list."""
    if not isinstance(aval, Aval):
        return [type_of(part) for part in aval]
    shape = ", ".join([str(size_text(n)) for n in aval.shape])
    return f"{dtype_text(aval.dtype)}[{shape}]{WEAK * aval.weak}"


def dtype_text(dtype: np.dtype) -> str:
    return dtype.name if dtype.isnative else dtype.str


def array_of(x: np.ndarray) -> dict[str, Any]:
    """An array: its numbers where those are few and JSON has them exactly, else its bytes."""
    described = {"dtype": dtype_text(x.dtype), "shape": list(x.shape)}
    if x.size <= WRITTEN_OUT and x.dtype.kind in "biuf" and x.dtype.itemsize <= 8 and np.all(np.isfinite(x)):
        return {**described, "numbers": x.ravel().tolist()}
    return {**described, "base64": b64encode(x.tobytes()).decode("ascii")}


_WRITERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (complex, lambda x: {"complex": [written(x.real), written(x.imag)]}),
    (Literal, lambda x: {"constant": _constant(x)}),
    (Dim, lambda x: {"size": size_text(x)}),
    (np.dtype, lambda x: {"dtype": dtype_text(x)}),
    (Slice, lambda x: {"slice": [written(part) for part in x]}),
    (Slot, lambda x: {"slot": x.input}),
    (Aval, lambda x: {"type": type_of(x)}),
    (Subscripts, lambda x: {"subscripts": str(x)}),
)


def _constant(x: Literal) -> Any:
    return written(x.value) if x.weak else {"array": array_of(x.value)}


# ---- reading


class Symbols(Sizes):
    """The symbols of a file under the names that expressions have for them; it makes none."""

    __slots__ = ("_by_text",)

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self._by_text = {str(symbol): symbol for symbol in sizes.symbols.values()}
        self._by_text |= {name: Dim(place.symbol - 1, sizes) for name, place in sizes.places.items()}

    def symbol(self, name: str) -> Dim:
        if name not in self._by_text:
            raise ArgumentError(f"there is no size {name!r}", "List it among the symbols of the file.")
        return self._by_text[name]

    def fresh(self, stem: str = "_") -> Dim:
        return self.symbol(stem)


@dataclass
class Reader:
    """Values of one program from JSON."""

    symbols: Sizes

    def value(self, at: Cursor) -> Any:
        """The value that stands here."""
        if type(at.value) in (type(None), bool, int, float):
            return at.value
        if type(at.value) is str:
            return at.text()
        if type(at.value) is list:
            return tuple([self.value(item) for item in at.items()])
        entries = list(at.entries())
        if len(entries) != 1 or entries[0][0] not in _READERS:
            raise at.wrong(f"an object of one field is expected, one of {', '.join(_READERS)}")
        kind, inner = entries[0]
        return _READERS[kind](self, inner)

    def param(self, at: Cursor) -> Any:
        """The value of a parameter of an operator, which may be written into source as it is."""
        value = self.value(at)
        if not _all_words(value):
            raise at.wrong("a text among parameters has letters, digits, spaces and , . > - _ only")
        return value

    def size(self, at: Cursor) -> Size:
        """A number, or an expression of symbols."""
        if type(at.value) is int:
            return at.whole(0, LARGEST)
        text = at.text(LONGEST_SIZE)
        if re.fullmatch(r"[0-9]{1,18}", text):
            return int(text)
        try:
            _check_size(text)
            return parse_size(text, self.symbols)
        except (ArgumentError, RecursionError, MemoryError) as error:
            fact = error.fact if isinstance(error, ArgumentError) else f"{text!r} is not a size"
            raise at.wrong(fact) from None

    def type(self, at: Cursor) -> Aval:
        """Return the type of a value."""
        match = _TYPE.fullmatch(at.text())
        if match is None:
            raise at.wrong('a type is such as "float64[n, 3]"')
        try:
            entries = ast.parse(match[2], mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            entries = None
        if not isinstance(entries, ast.List):
            raise at.wrong(f"{match[2]} is not a list of sizes")
        shape = tuple([self.size(at.part(ast.unparse(entry))) for entry in entries.elts])
        return Aval(shape, dtype_at(at.part(match[1])), match[3] is not None)

    def _complex(self, at: Cursor) -> complex:
        real, imag = (self.value(part) for part in at.items(2))
        if type(real) is not float or type(imag) is not float:
            raise at.wrong("two floating numbers are expected")
        return complex(real, imag)

    def _slice(self, at: Cursor) -> Slice:
        start, stop, step = (self.value(part) for part in at.items(3))
        if not all(x is None or type(x) is int or isinstance(x, Dim) for x in (start, stop, step)) or step == 0:
            raise at.wrong("the bounds of a slice are integers, sizes or null, and its step is not 0")
        return Slice(start, stop, step)

    def _symbolic(self, at: Cursor) -> Dim:
        size = self.size(at)
        if not isinstance(size, Dim):
            raise at.wrong(f"{size} is a number, which stands for itself")
        return size

    def _constant(self, at: Cursor) -> Literal:
        if type(at.value) is dict and "array" in at.value:
            return Literal(array_at(at.fields(("array",))["array"]))
        value = self.value(at)
        if type(value) not in (bool, int, float, complex):
            raise at.wrong("a constant is a number or an array")
        return Literal(value)


def _all_words(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_all_words, value))
    return not isinstance(value, str) or _WORD.fullmatch(value) is not None


def _float_at(at: Cursor) -> float:
    if at.value not in ("nan", "inf", "-inf"):
        raise at.wrong('it is "nan", "inf" or "-inf"; other numbers stand for themselves')
    return float(at.value)


def _ellipsis_at(at: Cursor) -> Any:
    at.truth()
    return Ellipsis


def dtype_at(at: Cursor) -> np.dtype:
    """A dtype of numbers by its name."""
    text = at.text()
    try:
        return np.dtype(text if _DTYPE.fullmatch(text) else "")
    except TypeError:
        raise at.wrong(f"there is no dtype {text!r} here") from None


def array_at(at: Cursor) -> np.ndarray:
    """An array."""
    fields = at.fields(("dtype", "shape"), ("numbers", "base64"))
    dtype, shape = dtype_at(fields["dtype"]), tuple(n.whole(0, LARGEST) for n in fields["shape"].items())
    if len(shape) > 64 or ("numbers" in fields) == ("base64" in fields):
        raise at.wrong("an array has at most 64 dimensions, and either numbers or base64")
    count = math.prod(shape)
    if "numbers" in fields:
        numbers = [_number_at(x, dtype) for x in fields["numbers"].items(count)]
        return np.array(numbers, dtype).reshape(shape)
    try:
        data = b64decode(fields["base64"].text(1 << 32), validate=True)
    except (binascii.Error, ValueError):
        raise fields["base64"].wrong("this is not base64") from None
    if len(data) != count * dtype.itemsize:
        raise at.wrong(f"{len(data)} bytes for {count} numbers of {dtype}")
    return np.frombuffer(data, dtype).reshape(shape)


def _number_at(at: Cursor, dtype: np.dtype) -> Any:
    kinds = {"b": (bool,), "i": (int,), "u": (int,), "f": (float,)}
    if type(at.value) not in kinds.get(dtype.kind, ()):
        raise at.wrong(f"this is not a number of {dtype}")
    with np.errstate(over="ignore"):
        try:
            number = dtype.type(at.value)
        except OverflowError:
            number = None
    if number is None or number != at.value:
        raise at.wrong(f"{dtype} does not hold this number")
    return number


_READERS: dict[str, Callable[[Reader, Cursor], Any]] = {
    "float": lambda reader, at: _float_at(at),
    "complex": Reader._complex,
    "ellipsis": lambda reader, at: _ellipsis_at(at),
    "constant": Reader._constant,
    "size": Reader._symbolic,
    "dtype": lambda reader, at: dtype_at(at),
    "slice": Reader._slice,
    "slot": lambda reader, at: Slot(at.whole(0, LARGEST)),
    "type": Reader.type,
    "subscripts": lambda reader, at: Subscripts(at.text(1000)),
}


# ---- how large a size may be


def _check_size(text: str) -> None:
    """Refuse a size that would take long to compute with: powers of powers grow without bounds."""
    try:
        terms, bits = _extent(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        return  # as parse_size says
    if terms > MOST_TERMS or bits > MOST_BITS:
        raise ArgumentError(f"{text!r} is too large an expression", "A size is a short expression.")


def _extent(tree: ast.AST) -> tuple[int, int]:
    """At most how many terms a size has when it is multiplied out, and how many bits their coefficients."""
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return 1, tree.value.bit_length()
    if isinstance(tree, ast.Name):
        return 2, 1  # n is n + 1 where it is known to be at least 2
    parts = [_extent(x) for x in ast.iter_child_nodes(tree) if isinstance(x, ast.expr)]
    terms, bits = [t for t, _ in parts], [b for _, b in parts]
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
        power = tree.right.value if isinstance(tree.right, ast.Constant) and type(tree.right.value) is int else 64
        power = min(max(power, 1), 64)
        return min(terms[0] ** power, MOST_TERMS + 1), min(bits[0] * power, MOST_BITS + 1)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        return math.prod(terms), sum(bits)
    return max(sum(terms), 1), sum(bits)
