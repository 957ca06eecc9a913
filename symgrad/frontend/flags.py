"""The flags of an array: how it lies in memory as far as that is known, and whether it may be written into."""

from __future__ import annotations

from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.frontend.aliasing import TURNED_OFF, Memory

_NAMES = {
    "C": "c_contiguous", "CONTIGUOUS": "c_contiguous", "F": "f_contiguous", "FORTRAN": "f_contiguous",
    "O": "owndata", "W": "writeable", "A": "aligned", "X": "writebackifcopy", "B": "behaved", "CA": "carray",
    "FA": "farray",
}  # fmt: skip


class Flags:
    """``x.flags``. An order that is not known is said to be neither C's nor Fortran's."""

    __slots__ = ("_of",)
    _of: Memory

    def __init__(self, of: Memory) -> None:
        object.__setattr__(self, "_of", of)

    def _values(self) -> dict[str, bool]:
        c, f, writeable = bool(self._of.is_contiguous("C")), bool(self._of.is_contiguous("F")), not self._of.locked
        return {
            "c_contiguous": c,
            "f_contiguous": f,
            "contiguous": c,
            "fortran": f,
            "forc": c or f,
            "fnc": f and not c,
            "carray": c and writeable,
            "farray": f and not c and writeable,
            "writeable": writeable,
            "behaved": writeable,
            "aligned": True,
            "writebackifcopy": False,
            "owndata": self._of.owner is self._of,
        }

    def __getattr__(self, name: str) -> bool:
        values = self._values()
        if name not in values:
            raise AttributeError(f"an array has no flag {name!r}")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "writeable" or (value and self._of.locked not in ("", TURNED_OFF)):
            raise UnsupportedError(
                f"the flag {name} of a traced array cannot be set", "Write into a copy: x = x.copy()."
            )
        self._of.locked = "" if value else self._of.locked or TURNED_OFF

    def __getitem__(self, key: str) -> bool:
        name = _NAMES.get(key, key.lower() if key.isupper() else "")
        if name not in (values := self._values()):
            raise KeyError("Unknown flag")
        return values[name]

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _NAMES.get(key, key.lower()), value)
