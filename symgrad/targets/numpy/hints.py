"""Type hints of saved functions: ``NDArray[np.float64]``, and trees of these."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from symgrad.core.graph import Aval, Node
from symgrad.core.sizes import Dim
from symgrad.core.text import Unquoted
from symgrad.frontend.variable import Variable

WIDEST = 116  # characters of a signature on one line
IMPORTS = {"Any": "from typing import Any", "NDArray": "from numpy.typing import NDArray"}

_PLAIN = (bool, int, float, complex, str, bytes)
_PYTHON = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}


Hint = Unquoted
"""The text of a type; an annotation that `inspect` writes as it is."""


def hint_of(x: Any) -> Hint:
    """The type of a tree of Variables, of Nodes or of values."""
    if isinstance(x, Variable):
        return _of_aval(x.aval, x.writes_in_place)
    if isinstance(x, Node):
        return _of_aval(x.aval, bool(x.aval.shape))
    if isinstance(x, Dim):
        return Hint("int")
    if type(x) is dict:
        return Hint(f"dict[{_common(_of_type(key) for key in x)}, {_common(map(hint_of, x.values()))}]")
    if type(x) is list:
        return Hint(f"list[{_common(map(hint_of, x))}]")
    if type(x) is tuple:
        return Hint(f"tuple[{', '.join(map(hint_of, x)) or '()'}]")
    return _of_type(x)


def parameter_hints(parameters: Iterable[inspect.Parameter], arguments: Mapping[str, Any]) -> dict[str, Hint]:
    """The type of each parameter; of ``*args`` and ``**kwargs`` that of each of them."""
    hints = {}
    for p in parameters:
        given = arguments[p.name]
        each = given if p.kind is p.VAR_POSITIONAL else given.values() if p.kind is p.VAR_KEYWORD else None
        hints[p.name] = hint_of(given) if each is None else _common(map(hint_of, each))
    return hints


def _of_aval(aval: Aval, is_array: bool) -> Hint:
    if aval.weak:
        return Hint(_PYTHON[aval.dtype.kind])
    number = f"np.{aval.dtype.type.__name__}"
    return Hint(f"NDArray[{number}]" if is_array else number)


def _of_type(x: Any) -> Hint:
    return Hint("None" if x is None else type(x).__name__ if type(x) in _PLAIN else "Any")


def _common(hints: Iterable[Hint]) -> Hint:
    """The type that all have; a union would have to be taken apart at each use."""
    different = set(hints)
    return different.pop() if len(different) == 1 else Hint("Any")


def signature_lines(name: str, parameters: Sequence[inspect.Parameter], result: Hint) -> list[str]:
    """The first line of a function with type hints, or its first lines where one would be too long."""
    parts = list(_parts(parameters))
    line = f"def {name}({', '.join(parts)}) -> {result}:"
    if len(line) <= WIDEST or not parts:
        return [line]
    return [f"def {name}(", *(f"    {part}," for part in parts), f") -> {result}:"]


def _parts(parameters: Sequence[inspect.Parameter]) -> Iterator[str]:
    """The parameters, with the marks between their kinds."""
    before = None
    for p in parameters:
        if before is p.POSITIONAL_ONLY is not p.kind:
            yield "/"
        if p.kind is p.KEYWORD_ONLY and before not in (p.VAR_POSITIONAL, p.KEYWORD_ONLY):
            yield "*"
        yield str(p)
        before = p.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"
